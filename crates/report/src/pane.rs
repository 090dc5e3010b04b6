//! A pane of a live screen: what it shows, and how the user wants it.

use document::{Cell, Section, Table, Word};
use profile::{NameStyle, Recent, session::ThreadId};

use crate::Options;

/// A part of a live screen.
#[derive(Clone, Copy, Debug)]
pub struct Pane {
    /// One word.
    pub title: &'static str,
    /// What is shown of it wherever the user is: names and values.
    pub headline: fn(&Recent) -> Vec<(&'static str, Cell)>,
    /// Color of the headline and of charts, as the number of one of the 16 colors of terminals;
    /// none for that of other text.
    pub color: Option<u8>,
    /// What its letters mean.
    pub legend: &'static [Word],
    /// What it has to do with a choice of one thread.
    pub thread_choice: ThreadChoice,
    pub(crate) content: fn(&Recent, &PaneOptions) -> PaneContent,
}

/// What a pane has to do with a choice of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadChoice {
    /// Nothing.
    None,
    /// Its rows are threads to choose from.
    Offers,
    /// It shows the chosen thread only.
    Obeys,
}

/// How the user wants panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaneOptions {
    /// Of this thread only, where a pane obeys a choice.
    pub thread: Option<ThreadId>,
    /// Greatest total first instead of greatest self.
    pub by_total: bool,
    /// How functions and types are written, at most.
    pub names: NameStyle,
}

/// What a pane shows: a section, and below it a table whose rows can be selected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaneContent {
    /// Sentences and charts.
    pub section: Section,
    /// Rows to select from.
    pub table: Table,
    /// What there is to say of each row of the table while it is selected.
    pub details: Vec<Detail>,
}

/// What there is to say of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detail {
    /// One line, also of what the table has no room for; empty if there is nothing more to say.
    pub text: String,
    /// The thread that the row is of.
    pub thread: Option<ThreadId>,
}

impl Pane {
    /// What it shows.
    pub fn content(&self, recent: &Recent, options: &PaneOptions) -> PaneContent {
        (self.content)(recent, options)
    }
}

impl PaneOptions {
    /// What views need to know.
    pub(crate) fn report(&self) -> Options {
        Options { names: self.names, ..Options::default() }
    }
}

impl PaneContent {
    /// Keeps the rows in which this text occurs, or of which it is said. Case does not count.
    /// Numbers are no texts.
    pub fn keep(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let text = text.to_lowercase();
        let has = |told: &str| told.to_lowercase().contains(&text);
        let rows = std::mem::take(&mut self.table.rows).into_iter();
        let kept = rows.zip(std::mem::take(&mut self.details)).filter(|(row, detail)| {
            has(&detail.text) || row.iter().any(|cell| cell.is_text() && has(&cell.shown()))
        });
        (self.table.rows, self.details) = kept.unzip();
    }
}
