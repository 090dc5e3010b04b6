//! Typed rows: how a table is declared as a structure, written and read.

use crate::{Cells, ColumnDef, RowBatch, TableDef, TableId, Values};

/// A row of a table that is known here. [`rows!`](crate::rows!) declares them.
pub trait Row: Sized {
    /// Id of the profiler.
    const PROFILER: &'static str;
    /// Name of the table.
    const TABLE: &'static str;
    /// What a row is, in a sentence.
    const SUMMARY: &'static str;

    /// The columns of the table.
    fn columns() -> &'static [ColumnDef];

    /// The table, with this id.
    fn table(id: TableId) -> TableDef {
        TableDef {
            id,
            profiler: Self::PROFILER.to_owned(),
            name: Self::TABLE.to_owned(),
            summary: Self::SUMMARY.trim().to_owned(),
            columns: Self::columns().to_vec(),
        }
    }

    /// Adds the cells of this row to [`Self::columns`].
    fn push(&self, columns: &mut [Values]);

    /// Most bytes that the row takes in a session, before compression.
    fn bytes(&self) -> usize;

    /// The next row of such columns.
    fn next(columns: &mut [Cells<'_>]) -> Option<Self>;

    /// Rows for a session, at most [`MAX_ROWS`](crate::MAX_ROWS).
    fn batch(id: TableId, rows: &[Self]) -> RowBatch {
        let columns = Self::columns().iter().map(|column| Values::none(&column.kind)).collect();
        let mut batch = RowBatch { table: id, rows: 0, columns };
        rows.iter().for_each(|row| row.push(&mut batch.columns));
        batch.rows = rows.len() as u32;
        batch
    }

    /// Whether a table of a session is this one.
    fn is(def: &TableDef) -> bool {
        def.profiler == Self::PROFILER && def.name == Self::TABLE
    }

    /// The rows of a batch of a table that [`Self::is`] this one. Columns that are not known here
    /// are left out.
    ///
    /// # Errors
    /// When a column is missing, or of another kind.
    fn read(def: &TableDef, batch: &RowBatch) -> Result<Vec<Self>, TableMismatch> {
        let known = Self::columns();
        let mut columns = Vec::with_capacity(known.len());
        for column in known {
            let at = def.columns.iter().position(|other| other.name == column.name);
            let found = at.and_then(|at| Some((def.columns.get(at)?, batch.columns.get(at)?)));
            match found {
                Some((other, values)) if other.kind == column.kind => {
                    columns.push(Cells::of(values));
                }
                _ => {
                    return Err(TableMismatch {
                        table: format!("{}.{}", def.profiler, def.name),
                        column: column.name.clone(),
                        is_missing: found.is_none(),
                    });
                }
            }
        }
        Ok((0..batch.rows).map_while(|_| Self::next(&mut columns)).collect())
    }
}

/// A table of a session does not have the columns that it has here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the column {column} of the table {table} {}",
    if *is_missing { "is missing" } else { "holds something else than expected" }
)]
pub struct TableMismatch {
    /// Profiler and name.
    pub table: String,
    /// Name of the column.
    pub column: String,
    /// Whether it is missing; it is of another kind otherwise.
    pub is_missing: bool,
}

/// Declares the rows of a table as a structure. It has `Clone`, `Debug` and `PartialEq`, and may
/// derive more:
///
/// ```
/// use rows::{Count, Thread, Time, Type};
///
/// rows::rows! {
///     /// Objects that wait for their finalizer.
///     pub struct Queued in "example", "queued" {
///         /// When they were counted.
///         time: Time,
///         /// Their type.
///         ty: Type,
///         /// Who allocated them, where known.
///         thread: Option<Thread>,
///         /// How many.
///         count: Count,
///     }
/// }
/// ```
#[macro_export]
macro_rules! rows {
    ($(
        $(#[doc = $summary:literal])*
        $(#[derive($($derive:ident),+)])?
        $visibility:vis struct $name:ident in $profiler:literal, $table:literal {
            $($(#[doc = $meaning:literal])* $field:ident: $kind:ty),* $(,)?
        }
    )*) => {$(
        $(#[doc = $summary])*
        #[derive(Clone, Debug, PartialEq $($(, $derive)+)?)]
        $visibility struct $name {
            $($(#[doc = $meaning])* pub $field: <$kind as $crate::Field>::Value,)*
        }

        impl $crate::Row for $name {
            const PROFILER: &'static str = $profiler;
            const TABLE: &'static str = $table;
            const SUMMARY: &'static str = concat!($($summary),*);

            fn columns() -> &'static [$crate::ColumnDef] {
                static COLUMNS: std::sync::LazyLock<Vec<$crate::ColumnDef>> =
                    std::sync::LazyLock::new(|| vec![$($crate::ColumnDef {
                        name: stringify!($field).to_owned(),
                        kind: <$kind as $crate::Field>::kind(),
                        summary: concat!($($meaning),*).trim().to_owned(),
                    },)*]);
                &COLUMNS
            }

            fn push(&self, columns: &mut [$crate::Values]) {
                let mut columns = columns.iter_mut();
                $(if let Some(column) = columns.next() {
                    <$kind as $crate::Field>::push(&self.$field, column);
                })*
            }

            fn bytes(&self) -> usize {
                0 $(+ <$kind as $crate::Field>::bytes(&self.$field))*
            }

            fn next(columns: &mut [$crate::Cells<'_>]) -> Option<Self> {
                let mut columns = columns.iter_mut();
                Some(Self {
                    $($field: <$kind as $crate::Field>::next(columns.next()?)?,)*
                })
            }
        }
    )*};
}
