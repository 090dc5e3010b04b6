//! Tables that profilers declare: rows of typed cells, kept in columns.
//!
//! The same table goes from the agent to clrscope and into the session. A session defines each
//! table before its first rows ([`TableDef`]), so that a reader that does not know the profiler can
//! still show them. Who knows it declares the table with [`rows!`] and gets typed rows
//! ([`Row::read`]).
//!
//! Ids of threads, functions, stacks and types are numbers. From the agent they are those that the
//! agent gave ([`ThreadRef`] is the thread id of the operating system); in a session, those of its
//! definitions.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use serde::{Deserialize, Serialize};

/// A moment or duration in nanoseconds.
type Nanos = u64;

/// Number of a table: in the list of all tables on the wire, by definition in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableId(pub u32);

/// Declares ids that a cell can hold.
macro_rules! refs {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
    )*};
}

refs! {
    /// A thread.
    ThreadRef;
    /// A function.
    FunctionRef;
    /// A stack.
    StackRef;
    /// A type.
    TypeRef;
}

/// Most tables of a session.
pub const MAX_TABLES: u32 = 1024;
/// Most columns of a table.
pub const MAX_COLUMNS: usize = 64;
/// Most rows of a batch.
pub const MAX_ROWS: usize = 16 * 1024;
/// Most bytes of the name of a profiler, table, column or word.
pub const MAX_NAME: usize = 64;
/// Most words of a [`Kind::Word`].
pub const MAX_WORDS: usize = 256;

/// What the cells of a column hold, and so how they are checked and shown. Files hold the number of
/// the variant, so new ones come last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A moment, nanoseconds on the clock of the recording.
    Time,
    /// Nanoseconds.
    Duration,
    /// How many.
    Count,
    /// Bytes.
    Bytes,
    /// A whole number that is none of these, such as an address.
    Number,
    /// A number with a fraction.
    Real,
    /// Yes or no.
    Flag,
    /// Text.
    Text,
    /// A thread.
    Thread,
    /// A function.
    Function,
    /// A stack.
    Stack,
    /// A type.
    Type,
    /// One of these words.
    Word(Vec<String>),
    /// A cell of this kind, or nothing.
    Optional(Box<Kind>),
    /// Any number of cells of this kind.
    List(Box<Kind>),
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDef {
    /// Its name: lower-case letters, digits and underscores.
    pub name: String,
    /// What its cells hold.
    pub kind: Kind,
    /// What it means, in a sentence.
    pub summary: String,
}

/// A table of a profiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDef {
    /// Its id.
    pub id: TableId,
    /// Id of the profiler.
    pub profiler: String,
    /// Its name, which no other table of the profiler has: lower-case letters, digits and
    /// underscores.
    pub name: String,
    /// What a row is, in a sentence.
    pub summary: String,
    /// Its columns, at least one.
    pub columns: Vec<ColumnDef>,
}

/// Rows of a table, in columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowBatch {
    /// The table.
    pub table: TableId,
    /// How many rows.
    pub rows: u32,
    /// The cells of each column of the table, in its order.
    pub columns: Vec<Values>,
}

/// The cells of a column. Each [`Kind`] has one form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Values {
    /// [`Kind::Time`]. A file has the difference to the row before.
    Times(#[serde(with = "differences")] Vec<Nanos>),
    /// Whole numbers, ids, flags (0 and 1), and the numbers of words.
    Whole(Vec<u64>),
    /// [`Kind::Real`].
    Real(Vec<f64>),
    /// [`Kind::Text`].
    Text(Vec<String>),
    /// [`Kind::Optional`].
    Optional {
        /// Whether each row has a cell.
        present: Vec<bool>,
        /// The cells of the rows that have one.
        values: Box<Values>,
    },
    /// [`Kind::List`].
    List {
        /// How many cells each row has.
        lengths: Vec<u32>,
        /// The cells of all rows.
        values: Box<Values>,
    },
}

/// How a table or its rows break the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// A name is empty, too long, or has other letters than lower-case ones, digits, underscores
    /// and, in that of a profiler, hyphens.
    #[error("`{name}` is no name of a profiler, table or column")]
    Name {
        /// The name.
        name: String,
    },
    /// Two columns have the same name.
    #[error("the table {table} has two columns of the name {column}")]
    SameName {
        /// The table.
        table: String,
        /// The columns.
        column: String,
    },
    /// There are more columns than [`MAX_COLUMNS`], or none.
    #[error("the table {table} has {columns} columns; it can have 1 to {MAX_COLUMNS}")]
    Columns {
        /// The table.
        table: String,
        /// How many.
        columns: usize,
    },
    /// The kind of a column is nested too deep, or has too many or too long words.
    #[error("the column {column} of the table {table} is of a kind that is not possible")]
    Kind {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// There are more rows than [`MAX_ROWS`], or another number of columns than the table has, or
    /// columns of different lengths or other forms than their kinds have.
    #[error("rows do not have the form of their table")]
    Form,
    /// A cell holds the number of a word that does not exist, or a flag that is neither 0 nor 1.
    #[error("a cell holds {value}, of which there are {limit}")]
    Value {
        /// What it holds.
        value: u64,
        /// How many values there are.
        limit: u64,
    },
    /// A cell holds an id that is not defined.
    #[error("the {kind} {id} is used and not defined")]
    Undefined {
        /// Kind of the id.
        kind: &'static str,
        /// The id.
        id: u64,
    },
}

/// How many ids of each kind are defined: those from 0 on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defined {
    /// Threads.
    pub threads: u32,
    /// Functions.
    pub functions: u32,
    /// Stacks.
    pub stacks: u32,
    /// Types.
    pub types: u32,
}

/// How deep kinds may be nested.
const MAX_DEPTH: usize = 3;

impl Kind {
    fn is_possible(&self, depth: usize) -> bool {
        match self {
            Kind::Optional(kind) | Kind::List(kind) => {
                depth < MAX_DEPTH && kind.is_possible(depth + 1)
            }
            Kind::Word(words) => {
                (1..=MAX_WORDS).contains(&words.len())
                    && words.iter().all(|word| word.len() <= MAX_NAME)
            }
            _ => true,
        }
    }
}

impl TableDef {
    /// Checks names, the number of columns and their kinds.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), RowsError> {
        let table = || format!("{}.{}", self.profiler, self.name);
        let names = [&self.profiler, &self.name].into_iter();
        let names = names.chain(self.columns.iter().map(|column| &column.name));
        if let Some(name) = names.into_iter().find(|name| !is_name(name)) {
            let name = name.chars().take(MAX_NAME).collect();
            return Err(RowsError::Name { name });
        }
        let columns = self.columns.len();
        if !(1..=MAX_COLUMNS).contains(&columns) {
            return Err(RowsError::Columns { table: table(), columns });
        }
        for (at, column) in self.columns.iter().enumerate() {
            let before = self.columns.iter().take(at);
            if before.into_iter().any(|other| other.name == column.name) {
                let column = column.name.clone();
                return Err(RowsError::SameName { table: table(), column });
            }
            if !column.kind.is_possible(0) {
                let column = column.name.clone();
                return Err(RowsError::Kind { table: table(), column });
            }
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '_' | '-')
    };
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_letter)
}

impl RowBatch {
    /// Checks rows of a table with columns of these kinds.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check<'k>(
        &self,
        kinds: impl ExactSizeIterator<Item = &'k Kind>,
        defined: &Defined,
    ) -> Result<(), RowsError> {
        let rows = self.rows as usize;
        if rows > MAX_ROWS || kinds.len() != self.columns.len() {
            return Err(RowsError::Form);
        }
        for (kind, values) in kinds.zip(&self.columns) {
            values.check(kind, rows, defined)?;
        }
        Ok(())
    }
}

impl Values {
    fn check(&self, kind: &Kind, rows: usize, defined: &Defined) -> Result<(), RowsError> {
        if self.len() != rows {
            return Err(RowsError::Form);
        }
        match (kind, self) {
            (Kind::Time, Values::Times(_))
            | (Kind::Real, Values::Real(_))
            | (Kind::Text, Values::Text(_)) => Ok(()),
            (Kind::Optional(kind), Values::Optional { present, values }) => {
                let cells = present.iter().filter(|present| **present).count();
                values.check(kind, cells, defined)
            }
            (Kind::List(kind), Values::List { lengths, values }) => {
                let cells = lengths.iter().map(|length| *length as usize);
                let cells = cells.fold(0_usize, usize::saturating_add);
                values.check(kind, cells, defined)
            }
            (Kind::Time | Kind::Real | Kind::Text | Kind::Optional(_) | Kind::List(_), _) => {
                Err(RowsError::Form)
            }
            (kind, Values::Whole(values)) => {
                let most = values.iter().copied().max();
                most.map_or(Ok(()), |most| kind.check_whole(most, defined))
            }
            _ => Err(RowsError::Form),
        }
    }
}

impl Kind {
    /// Checks the greatest number of a column.
    fn check_whole(&self, most: u64, defined: &Defined) -> Result<(), RowsError> {
        let id = |kind, count: u32| match most < u64::from(count) {
            true => Ok(()),
            false => Err(RowsError::Undefined { kind, id: most }),
        };
        let below = |limit: u64| match most < limit {
            true => Ok(()),
            false => Err(RowsError::Value { value: most, limit }),
        };
        match self {
            Kind::Flag => below(2),
            Kind::Word(words) => below(words.len() as u64),
            Kind::Thread => id("thread", defined.threads),
            Kind::Function => id("function", defined.functions),
            Kind::Stack => id("stack", defined.stacks),
            Kind::Type => id("type", defined.types),
            _ => Ok(()),
        }
    }
}

/// Times as differences to the one before, so that most take two or three bytes.
mod differences {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(times: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        let mut before = 0_u64;
        let differences = times.iter().map(|time| {
            let difference = time.wrapping_sub(before) as i64;
            before = *time;
            difference
        });
        differences.collect::<Vec<i64>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        let mut time = 0_u64;
        let differences = Vec::<i64>::deserialize(deserializer)?;
        let times = differences.into_iter().map(|difference| {
            time = time.wrapping_add(difference as u64);
            time
        });
        Ok(times.collect())
    }
}

impl Values {
    /// No cells of this kind.
    pub fn none(kind: &Kind) -> Self {
        match kind {
            Kind::Time => Values::Times(Vec::new()),
            Kind::Real => Values::Real(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
            Kind::Optional(kind) => {
                Values::Optional { present: Vec::new(), values: Box::new(Values::none(kind)) }
            }
            Kind::List(kind) => {
                Values::List { lengths: Vec::new(), values: Box::new(Values::none(kind)) }
            }
            _ => Values::Whole(Vec::new()),
        }
    }

    /// How many cells.
    pub fn len(&self) -> usize {
        match self {
            Values::Times(values) | Values::Whole(values) => values.len(),
            Values::Real(values) => values.len(),
            Values::Text(values) => values.len(),
            Values::Optional { present, .. } => present.len(),
            Values::List { lengths, .. } => lengths.len(),
        }
    }

    /// Whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A cell of a table whose profiler is not known.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyCell<'v> {
    /// A time, a number, an id, a flag or the number of a word.
    Whole(u64),
    /// A number with a fraction.
    Real(f64),
    /// Text.
    Text(&'v str),
    /// No cell.
    Nothing,
    /// Cells.
    List(Vec<AnyCell<'v>>),
}

/// Hands out the cells of a column, one after another.
#[derive(Debug)]
pub struct Cells<'v> {
    values: &'v Values,
    at: usize,
    inner: Option<Box<Cells<'v>>>,
}

impl<'v> Cells<'v> {
    /// From the first one on.
    pub fn of(values: &'v Values) -> Self {
        let inner = match values {
            Values::Optional { values, .. } | Values::List { values, .. } => {
                Some(Box::new(Cells::of(values)))
            }
            _ => None,
        };
        Self { values, at: 0, inner }
    }

    /// The next cell; `None` where there is none, which a checked batch does not have.
    pub fn any(&mut self) -> Option<AnyCell<'v>> {
        let at = self.at;
        self.at += 1;
        Some(match self.values {
            Values::Times(values) | Values::Whole(values) => AnyCell::Whole(*values.get(at)?),
            Values::Real(values) => AnyCell::Real(*values.get(at)?),
            Values::Text(values) => AnyCell::Text(values.get(at)?),
            Values::Optional { present, .. } => match present.get(at)? {
                true => self.inner.as_mut()?.any()?,
                false => AnyCell::Nothing,
            },
            Values::List { lengths, .. } => {
                let length = *lengths.get(at)?;
                let inner = self.inner.as_mut()?;
                AnyCell::List((0..length).map(|_| inner.any()).collect::<Option<_>>()?)
            }
        })
    }

    fn whole(&mut self) -> Option<u64> {
        match self.any()? {
            AnyCell::Whole(value) => Some(value),
            _ => None,
        }
    }
}

/// A kind of cells, as [`rows!`] names it.
pub trait Field {
    /// What a cell is in a row.
    type Value;

    /// The kind.
    fn kind() -> Kind;

    /// Adds a cell to a column of this kind; another column stays as it is.
    fn push(value: &Self::Value, to: &mut Values);

    /// Takes the next cell; `None` where the column is of another kind, or has no more.
    fn next(from: &mut Cells<'_>) -> Option<Self::Value>;
}

/// Declares kinds whose cells are whole numbers.
macro_rules! whole {
    ($($(#[$doc:meta])* $kind:ident: $value:ty, $to:expr, $from:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $kind {}

        impl Field for $kind {
            type Value = $value;

            fn kind() -> Kind {
                Kind::$kind
            }

            fn push(value: &$value, to: &mut Values) {
                if let Values::Times(values) | Values::Whole(values) = to {
                    let to: fn($value) -> u64 = $to;
                    values.push(to(*value));
                }
            }

            fn next(from: &mut Cells<'_>) -> Option<$value> {
                let to: fn(u64) -> $value = $from;
                from.whole().map(to)
            }
        }
    )*};
}

whole! {
    /// [`Kind::Time`].
    Time: Nanos, |time| time, |time| time;
    /// [`Kind::Duration`].
    Duration: Nanos, |time| time, |time| time;
    /// [`Kind::Count`].
    Count: u64, |count| count, |count| count;
    /// [`Kind::Bytes`].
    Bytes: u64, |bytes| bytes, |bytes| bytes;
    /// [`Kind::Number`].
    Number: u64, |number| number, |number| number;
    /// [`Kind::Flag`].
    Flag: bool, u64::from, |flag| flag != 0;
    /// [`Kind::Thread`].
    Thread: ThreadRef, |id| id.0.into(), |id| ThreadRef(id as u32);
    /// [`Kind::Function`].
    Function: FunctionRef, |id| id.0.into(), |id| FunctionRef(id as u32);
    /// [`Kind::Stack`].
    Stack: StackRef, |id| id.0.into(), |id| StackRef(id as u32);
    /// [`Kind::Type`].
    Type: TypeRef, |id| id.0.into(), |id| TypeRef(id as u32);
}

/// [`Kind::Real`].
#[derive(Debug)]
pub enum Real {}

impl Field for Real {
    type Value = f64;

    fn kind() -> Kind {
        Kind::Real
    }

    fn push(value: &f64, to: &mut Values) {
        if let Values::Real(values) = to {
            values.push(*value);
        }
    }

    fn next(from: &mut Cells<'_>) -> Option<f64> {
        match from.any()? {
            AnyCell::Real(value) => Some(value),
            _ => None,
        }
    }
}

/// [`Kind::Text`].
#[derive(Debug)]
pub enum Text {}

impl Field for Text {
    type Value = String;

    fn kind() -> Kind {
        Kind::Text
    }

    fn push(value: &String, to: &mut Values) {
        if let Values::Text(values) = to {
            values.push(value.clone());
        }
    }

    fn next(from: &mut Cells<'_>) -> Option<String> {
        match from.any()? {
            AnyCell::Text(value) => Some(value.to_owned()),
            _ => None,
        }
    }
}

/// An enumeration whose variants have words.
pub trait Words: Copy + PartialEq + 'static {
    /// Every variant with its word, at most [`MAX_WORDS`]. Files hold the position, so new ones
    /// come last.
    const WORDS: &'static [(Self, &'static str)];
}

/// [`Kind::Word`].
#[derive(Debug)]
pub struct Word<W>(std::marker::PhantomData<W>);

impl<W: Words> Field for Word<W> {
    type Value = W;

    fn kind() -> Kind {
        Kind::Word(W::WORDS.iter().map(|(_, word)| (*word).to_owned()).collect())
    }

    fn push(value: &W, to: &mut Values) {
        if let Values::Whole(values) = to {
            let at = W::WORDS.iter().position(|(variant, _)| variant == value);
            values.push(at.unwrap_or_default() as u64);
        }
    }

    fn next(from: &mut Cells<'_>) -> Option<W> {
        let at = usize::try_from(from.whole()?).ok()?;
        W::WORDS.get(at).map(|(variant, _)| *variant)
    }
}

impl<F: Field> Field for Option<F> {
    type Value = Option<F::Value>;

    fn kind() -> Kind {
        Kind::Optional(Box::new(F::kind()))
    }

    fn push(value: &Option<F::Value>, to: &mut Values) {
        if let Values::Optional { present, values } = to {
            present.push(value.is_some());
            if let Some(value) = value {
                F::push(value, values);
            }
        }
    }

    fn next(from: &mut Cells<'_>) -> Option<Option<F::Value>> {
        let Values::Optional { present, .. } = from.values else { return None };
        let is_present = *present.get(from.at)?;
        from.at += 1;
        match is_present {
            true => F::next(from.inner.as_mut()?).map(Some),
            false => Some(None),
        }
    }
}

impl<F: Field> Field for Vec<F> {
    type Value = Vec<F::Value>;

    fn kind() -> Kind {
        Kind::List(Box::new(F::kind()))
    }

    fn push(list: &Vec<F::Value>, to: &mut Values) {
        if let Values::List { lengths, values } = to {
            lengths.push(u32::try_from(list.len()).unwrap_or(u32::MAX));
            list.iter().for_each(|value| F::push(value, values));
        }
    }

    fn next(from: &mut Cells<'_>) -> Option<Vec<F::Value>> {
        let Values::List { lengths, .. } = from.values else { return None };
        let length = *lengths.get(from.at)?;
        from.at += 1;
        let inner = from.inner.as_mut()?;
        (0..length).map(|_| F::next(inner)).collect()
    }
}

/// A row of a table that is known here. [`rows!`] declares them.
pub trait Row: Sized {
    /// Id of the profiler.
    const PROFILER: &'static str;
    /// Name of the table.
    const TABLE: &'static str;

    /// The table, with this id.
    fn table(id: TableId) -> TableDef;

    /// Adds the cells of this row to the columns of [`Self::table`].
    fn push(&self, columns: &mut [Values]);

    /// The next row of such columns.
    fn next(columns: &mut [Cells<'_>]) -> Option<Self>;

    /// Rows for a session, in batches of at most [`MAX_ROWS`].
    fn batches(id: TableId, rows: &[Self]) -> impl Iterator<Item = RowBatch> {
        let def = Self::table(id);
        rows.chunks(MAX_ROWS).map(move |rows| {
            let kinds = def.columns.iter().map(|column| &column.kind);
            let mut columns: Vec<Values> = kinds.map(Values::none).collect();
            rows.iter().for_each(|row| row.push(&mut columns));
            RowBatch { table: id, rows: rows.len() as u32, columns }
        })
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
        let known = Self::table(def.id);
        let mut columns = Vec::with_capacity(known.columns.len());
        for column in &known.columns {
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

/// Declares the rows of a table as a structure:
///
/// ```
/// use rows::{Count, Thread, Time, Type};
///
/// rows::rows! {
///     /// Objects that wait for their finalizer.
///     pub struct Queued in "finalizers", "queued" {
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
        $visibility:vis struct $name:ident in $profiler:literal, $table:literal {
            $($(#[doc = $meaning:literal])* $field:ident: $kind:ty),* $(,)?
        }
    )*) => {$(
        $(#[doc = $summary])*
        #[derive(Clone, Debug, PartialEq)]
        $visibility struct $name {
            $($(#[doc = $meaning])* pub $field: <$kind as $crate::Field>::Value,)*
        }

        impl $crate::Row for $name {
            const PROFILER: &'static str = $profiler;
            const TABLE: &'static str = $table;

            fn table(id: $crate::TableId) -> $crate::TableDef {
                $crate::TableDef {
                    id,
                    profiler: $profiler.to_owned(),
                    name: $table.to_owned(),
                    summary: concat!($($summary),*).trim().to_owned(),
                    columns: vec![$($crate::ColumnDef {
                        name: stringify!($field).to_owned(),
                        kind: <$kind as $crate::Field>::kind(),
                        summary: concat!($($meaning),*).trim().to_owned(),
                    },)*],
                }
            }

            fn push(&self, columns: &mut [$crate::Values]) {
                let mut columns = columns.iter_mut();
                $(if let Some(column) = columns.next() {
                    <$kind as $crate::Field>::push(&self.$field, column);
                })*
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Colour {
        Red,
        Green,
    }

    impl Words for Colour {
        const WORDS: &'static [(Self, &'static str)] =
            &[(Colour::Red, "red"), (Colour::Green, "green")];
    }

    rows! {
        /// All kinds
        /// of cells.
        struct All in "test-profiler", "all" {
            /// When.
            time: Time,
            length: Duration,
            count: Count,
            bytes: Bytes,
            number: Number,
            real: Real,
            flag: Flag,
            text: Text,
            thread: Thread,
            function: Function,
            stack: Stack,
            ty: Type,
            colour: Word<Colour>,
            maybe: Option<Text>,
            several: Vec<Type>,
            nested: Vec<Option<Count>>,
        }

        /// What a later version may have made of it.
        struct Fewer in "test-profiler", "all" {
            colour: Word<Colour>,
            time: Time,
        }

        struct Other in "test-profiler", "all" {
            time: Count,
        }

        struct More in "test-profiler", "all" {
            late: Count,
        }
    }

    const DEFINED: Defined = Defined { threads: 5, functions: 6, stacks: 7, types: 8 };

    fn row() -> impl Strategy<Value = All> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        let ids = (0..5_u32, 0..6_u32, 0..7_u32, 0..8_u32);
        let others = (-1e9..1e9_f64, any::<bool>(), ".{0,9}", any::<bool>());
        let nested = (
            proptest::option::of(".{0,9}"),
            proptest::collection::vec(0..8_u32, 0..4),
            proptest::collection::vec(proptest::option::of(any::<u64>()), 0..4),
        );
        (numbers, ids, others, nested).prop_map(|(numbers, ids, others, nested)| All {
            time: numbers.0,
            length: numbers.1,
            count: numbers.2,
            bytes: numbers.3,
            number: numbers.4,
            real: others.0,
            flag: others.1,
            text: others.2,
            thread: ThreadRef(ids.0),
            function: FunctionRef(ids.1),
            stack: StackRef(ids.2),
            ty: TypeRef(ids.3),
            colour: if others.3 { Colour::Red } else { Colour::Green },
            maybe: nested.0,
            several: nested.1.into_iter().map(TypeRef).collect(),
            nested: nested.2,
        })
    }

    fn kinds(def: &TableDef) -> impl ExactSizeIterator<Item = &Kind> {
        def.columns.iter().map(|column| &column.kind)
    }

    proptest! {
        #[test]
        fn rows_come_back_as_they_were(rows in proptest::collection::vec(row(), 0..20)) {
            let def = All::table(TableId(3));
            def.check().unwrap();
            let mut back = Vec::new();
            for batch in All::batches(def.id, &rows) {
                batch.check(kinds(&def), &DEFINED).unwrap();
                let bytes = postcard::to_stdvec(&batch).unwrap();
                let batch: RowBatch = postcard::from_bytes(&bytes).unwrap();
                back.extend(All::read(&def, &batch).unwrap());
                let fewer = Fewer::read(&def, &batch).unwrap();
                let same = fewer.iter().zip(&back).all(|(fewer, row)| {
                    fewer.time == row.time && fewer.colour == row.colour
                });
                prop_assert!(same && fewer.len() == back.len());
            }
            prop_assert_eq!(back, rows);
        }

        #[test]
        fn any_bytes_are_rows_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let def = All::table(TableId(0));
            if let Ok(batch) = postcard::from_bytes::<RowBatch>(&bytes)
                && batch.check(kinds(&def), &DEFINED).is_ok()
            {
                prop_assert_eq!(All::read(&def, &batch).unwrap().len(), batch.rows as usize);
            }
        }
    }

    #[test]
    fn tables_describe_themselves() {
        let def = All::table(TableId(0));
        assert_eq!((&*def.name, &*def.summary), ("all", "All kinds of cells."));
        let time = ColumnDef { name: "time".into(), kind: Kind::Time, summary: "When.".into() };
        assert_eq!(def.columns[0], time);
        assert!(All::is(&def) && !All::is(&TableDef { name: "other".into(), ..def }));
    }

    #[test]
    fn columns_that_are_missing_or_of_another_kind_are_named() {
        let def = Fewer::table(TableId(0));
        let rows = [Fewer { colour: Colour::Red, time: 1 }];
        let batch = Fewer::batches(def.id, &rows).next().unwrap();
        let error = Other::read(&def, &batch).unwrap_err().to_string();
        let text =
            "the column time of the table test-profiler.all holds something else than expected";
        assert_eq!(error, text);
        let error = More::read(&def, &batch).unwrap_err().to_string();
        assert_eq!(error, "the column late of the table test-profiler.all is missing");
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        let good = Fewer::table(TableId(0));
        let with = |change: fn(&mut TableDef)| {
            let mut def = good.clone();
            change(&mut def);
            def.check().unwrap_err()
        };
        assert!(matches!(with(|def| def.name = "A b".into()), RowsError::Name { .. }));
        assert!(matches!(with(|def| def.profiler = "a".repeat(65)), RowsError::Name { .. }));
        assert!(matches!(with(|def| def.columns.clear()), RowsError::Columns { columns: 0, .. }));
        let same = with(|def| def.columns[1].name = "colour".into());
        assert!(matches!(same, RowsError::SameName { .. }));
        let deep = with(|def| {
            let list = |kind| Kind::List(Box::new(kind));
            def.columns[0].kind = list(list(list(list(Kind::Time))));
        });
        assert!(matches!(deep, RowsError::Kind { .. }));
        let words = with(|def| def.columns[0].kind = Kind::Word(Vec::new()));
        assert!(matches!(words, RowsError::Kind { .. }));

        let rows = [Fewer { colour: Colour::Green, time: 1 }];
        let good_batch = Fewer::batches(good.id, &rows).next().unwrap();
        let with = |change: fn(&mut RowBatch)| {
            let mut batch = good_batch.clone();
            change(&mut batch);
            batch.check(kinds(&good), &DEFINED).unwrap_err()
        };
        assert_eq!(with(|batch| batch.rows = 2), RowsError::Form);
        assert_eq!(with(|batch| batch.rows = u32::MAX), RowsError::Form);
        assert_eq!(with(|batch| batch.columns.truncate(1)), RowsError::Form);
        assert_eq!(with(|batch| batch.columns.swap(0, 1)), RowsError::Form);
        let word = with(|batch| batch.columns[0] = Values::Whole(vec![2]));
        assert_eq!(word, RowsError::Value { value: 2, limit: 2 });
        let ids = [(Kind::Thread, "thread", 5), (Kind::Function, "function", 6)];
        for (kind, name, id) in
            ids.into_iter().chain([(Kind::Stack, "stack", 7), (Kind::Type, "type", 8)])
        {
            let batch =
                RowBatch { table: TableId(0), rows: 1, columns: vec![Values::Whole(vec![id])] };
            let refused = batch.check([&kind].into_iter(), &DEFINED);
            assert_eq!(refused, Err(RowsError::Undefined { kind: name, id }));
        }
        let lengths = Values::List {
            lengths: vec![u32::MAX, u32::MAX],
            values: Box::new(Values::Whole(vec![])),
        };
        let batch = RowBatch { table: TableId(0), rows: 2, columns: vec![lengths] };
        let list = Kind::List(Box::new(Kind::Count));
        assert_eq!(batch.check([&list].into_iter(), &DEFINED), Err(RowsError::Form));
    }

    #[test]
    fn times_take_little_room() {
        let times = Values::Times((0..1000).map(|at| 1_000_000_000_000 + at * 10_000).collect());
        assert!(postcard::to_stdvec(&times).unwrap().len() < 3_100);
    }
}
