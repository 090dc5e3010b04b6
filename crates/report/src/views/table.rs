//! What text and Markdown both render: sections of sentences and tables.

/// A part of a report.
pub struct Section {
    pub title: String,
    /// Sentences before the tables.
    pub lead: Vec<String>,
    pub tables: Vec<Table>,
}

/// A table.
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table, if it has rows.
    pub fn of(columns: Vec<Column>, rows: impl Iterator<Item = Vec<Cell>>) -> Option<Self> {
        let rows: Vec<Vec<Cell>> = rows.collect();
        (!rows.is_empty()).then_some(Self { columns, rows })
    }
}

/// A column of a table.
pub struct Column {
    pub title: &'static str,
    pub right: bool,
}

/// A cell of a table.
pub enum Cell {
    Text(String),
    /// A share to be drawn.
    Bar(f64),
    /// Values over time to be drawn.
    Line(Vec<f64>),
    /// A name to be fitted to the room: the longest that fits.
    Name {
        forms: Vec<String>,
        place: Option<String>,
    },
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Cell::Text(text.into())
    }
}

pub fn left(title: &'static str) -> Column {
    Column { title, right: false }
}

pub fn right(title: &'static str) -> Column {
    Column { title, right: true }
}
