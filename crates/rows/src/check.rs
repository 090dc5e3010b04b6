//! The rules that tables and rows keep, whoever made them.

use crate::{Kind, MAX_COLUMNS, MAX_NAME, MAX_ROWS, MAX_WORDS, RowBatch, TableDef, Values};

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
pub(crate) const MAX_DEPTH: usize = 3;

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
    /// No rows of a table.
    pub fn none(table: &TableDef) -> Self {
        let columns = table.columns.iter().map(|column| Values::none(&column.kind)).collect();
        Self { table: table.id, rows: 0, columns }
    }

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
