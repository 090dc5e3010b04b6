use std::io::{self, Write};

use document::{markdown, plain, text};
use report::ReportError;

use crate::{Comparison, junit, sarif, viewed::Viewed};

/// Nodes of each call tree in a page, at most.
const MOST_NODES: usize = 20_000;

/// How to write a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Text,
    /// For programs.
    Json,
    /// For pull requests and chats.
    Markdown,
    /// One page that needs nothing else.
    Html,
    /// For build servers that show tests.
    Junit,
    /// For code scanning: what got worse, at its place in the source.
    Sarif,
}

/// All formats, with their words on the command line and a line for help.
pub const FORMATS: [(Format, &str, &str); 6] = [
    (Format::Text, "text", "a short answer, and lists of what changed"),
    (Format::Json, "json", "everything, for programs"),
    (Format::Markdown, "markdown", "the same as text, for a pull request"),
    (Format::Html, "html", "one page that needs no network, with differential flame graphs"),
    (Format::Junit, "junit", "JUnit XML: a test for each quantity, for build servers"),
    (Format::Sarif, "sarif", "SARIF 2.1.0: what got worse, at its place in the source"),
];

impl Format {
    /// The one of this word.
    pub fn by_name(name: &str) -> Option<Self> {
        FORMATS.into_iter().find(|(_, word, _)| *word == name).map(|(format, ..)| format)
    }
}

/// How a comparison is to look.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// Columns and colors of text.
    pub text: text::Style,
    /// Rows of each list.
    pub rows: usize,
    /// The folder of the source, to which files in SARIF are relative; without it only paths that a
    /// deterministic build has written (`/_/…`) are.
    pub root: Option<String>,
}

impl Comparison {
    /// Writes it.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write(&self, format: Format, style: &Style, out: &mut dyn Write) -> io::Result<()> {
        let document = || self.document(style.rows);
        match format {
            Format::Text => text::write(&document(), style.text, out),
            Format::Json => writeln!(out, "{}", plain::json_pretty(self)?),
            Format::Markdown => markdown::write(&document(), out),
            Format::Html => {
                let title = format!("{} compared with {}", self.after.name, self.before.name);
                let viewed = Viewed::new(self.clone());
                let page = viewed.page(MOST_NODES, style.rows);
                report::write_comparison(&title, &self.after.process, &page, out).map_err(|error| {
                    match error {
                        ReportError::Io(error) => error,
                        error => io::Error::other(error),
                    }
                })
            }
            Format::Junit => junit::write(self, out),
            Format::Sarif => {
                writeln!(out, "{}", plain::json_pretty(&sarif::of(self, style.root.as_deref()))?)
            }
        }
    }
}
