use serde::Serialize;

/// A figure that says most of a subject, for the head of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tile {
    label: &'static str,
    value: String,
    /// What stands beside the value, such as what is counted.
    more: String,
    /// A line below it.
    note: String,
}

impl Tile {
    /// A figure of this name.
    pub fn new(label: &'static str, value: impl Into<String>) -> Self {
        Self { label, value: value.into(), ..Self::default() }
    }

    /// What stands beside the value.
    pub fn more(self, more: impl Into<String>) -> Self {
        Self { more: more.into(), ..self }
    }

    /// A line below it.
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}
