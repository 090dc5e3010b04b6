//! Profile to text, JSON, Markdown, HTML, collapsed stacks, pprof, speedscope, Firefox Profiler and
//! event logs.
//!
//! One file per exporter, and [`EXPORTERS`] is the one registry of them: a new format is a new file
//! with a constant and its word in the list.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod checkup;
mod limited;
mod page;
mod pane;
mod panes;
mod views;

pub use checkup::{Checkup, CheckupFormat, Target, schema as checkup_schema};
pub use events::schema as events_schema;
pub use html::{write_comparison, write_page};
pub use json::{ResourceJson, SnapshotSchema, schema as report_schema, schema_of, schema_settings};
pub use pane::{Detail, Pane, PaneContent, PaneOptions, ThreadChoice};
pub use panes::PANES;
pub use pprof::proto as pprof_messages;
use profile::format;
pub use views::document;

use std::io::{Read, Write};

use document::Document;
use profile::{BuildOptions, Filter, FilterError, NameStyle, Profile, ProfileError, SeriesKind};

/// Declares the modules of all exporters and the list of them, in the order that help shows.
macro_rules! exporters {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*

        /// All exporters.
        pub const EXPORTERS: &[Exporter] = &[$($name::EXPORTER),*];
    };
}

exporters! { text, json, markdown, html, collapsed, pprof, speedscope, firefox, chrome, otlp, events }

/// A format that a profile can be written in.
#[derive(Clone, Copy, Debug)]
pub struct Exporter {
    /// Id on the command line.
    pub id: &'static str,
    /// Extension of files of this format, without the dot.
    pub extension: &'static str,
    /// One line for help.
    pub summary: &'static str,
    /// Whether it is no text and so does not belong on a terminal.
    pub binary: bool,
    /// Whether it shows single samples in time and so wants [`BuildOptions::keep_samples`]. Without
    /// them it writes sums.
    pub single_samples: bool,
    /// Whether it shows what heap snapshots say ([`Options::snapshots`]).
    pub snapshots: bool,
    render: fn(&Profile, &Options, &mut dyn Write) -> Result<(), ReportError>,
}

/// How to write a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only the samples of this profiler; all, or the first that has any where a format can hold
    /// only one.
    pub series: Option<SeriesKind>,
    /// Only these samples.
    pub filter: Filter,
    /// Source lines where they are known.
    pub lines: bool,
    /// How functions are written.
    pub names: NameStyle,
    /// Columns of the terminal, for text.
    pub width: usize,
    /// Colours, for text on a terminal.
    pub colour: bool,
    /// Rows of a list, for text and Markdown.
    pub rows: usize,
    /// What the heap snapshots of the session say.
    pub snapshots: Vec<SnapshotSection>,
    /// Whether it is for a page that scrolls: lists are long, and pictures are drawn.
    pub drawn: bool,
    /// Bytes that a report may have. Some formats write each stack with all of its callers, so a
    /// small session with deep stacks can become a very large file.
    pub most_bytes: u64,
}

impl Options {
    /// Rows of a list of which `rows` suffice where there is little room.
    pub(crate) fn at_most(&self, rows: usize) -> usize {
        if self.drawn { self.rows } else { rows.min(self.rows) }
    }
}

/// What heap snapshots say, as the command says it that reads them: a snapshot is read by another
/// way than samples are.
#[derive(Clone, Debug)]
pub struct SnapshotSection {
    /// The profiler that took them, which is also the key in JSON.
    pub id: &'static str,
    /// A word or two, for the tab of a page.
    pub title: &'static str,
    /// For people.
    pub document: Document,
    /// For programs; null where no snapshot could be read.
    pub json: serde_json::Value,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            series: None,
            filter: Filter::default(),
            lines: true,
            names: NameStyle::FULL,
            width: 110,
            colour: false,
            rows: 15,
            snapshots: Vec::new(),
            drawn: false,
            most_bytes: 4 << 30,
        }
    }
}

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The output failed.
    #[error("the report could not be written: {0}")]
    Io(#[from] std::io::Error),
    /// The session could not be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The filter cannot be applied.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// It is larger than [`Options::most_bytes`].
    #[error(
        "the report has more than {}, because this format writes each stack with all of its \
         callers: choose one profiler or a part of the time, or the format firefox",
        format::bytes(*limit)
    )]
    TooLarge {
        /// Bytes that it may have.
        limit: u64,
    },
    /// There is nothing to show in this format.
    #[error("there are no {wanted} samples in this recording; it has {present}")]
    NoSamples {
        /// What was asked for.
        wanted: String,
        /// What there is.
        present: String,
    },
}

impl From<serde_json::Error> for ReportError {
    fn from(error: serde_json::Error) -> Self {
        // Our own types always serialise, so what fails is the output.
        ReportError::Io(error.into())
    }
}

/// The exporter of this id.
pub fn exporter(id: &str) -> Option<&'static Exporter> {
    EXPORTERS.iter().find(|exporter| exporter.id == id)
}

impl Exporter {
    /// Writes a profile.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn write(
        &self,
        profile: &Profile,
        options: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ReportError> {
        limited::write(out, options.most_bytes, |out| match options.filter == Filter::default() {
            true => (self.render)(profile, options, out),
            false => (self.render)(&profile.filtered(&options.filter)?, options, out),
        })
    }

    /// What this exporter needs to be kept when a session is read for it.
    pub fn build_options(&self, options: &Options) -> BuildOptions {
        BuildOptions {
            keep_samples: self.single_samples,
            time: options.filter.time.clone(),
            ..BuildOptions::default()
        }
    }

    /// Reads a session and writes it, keeping no more in memory than the format needs. The profile
    /// comes back, for what there is to say about it: [`Profile::cut_short`], [`Profile::damage`].
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn convert(
        &self,
        session: impl Read + Send,
        options: &Options,
        out: &mut dyn Write,
    ) -> Result<Profile, ReportError> {
        self.convert_with(session, options, out, |_| Vec::new())
    }

    /// As [`Self::convert`], with what heap snapshots say. These are asked for once it is known
    /// what was recorded, and only where the format shows them and nothing is filtered, which
    /// snapshots cannot be.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn convert_with(
        &self,
        session: impl Read + Send,
        options: &Options,
        out: &mut dyn Write,
        snapshots: impl FnOnce(&Profile) -> Vec<SnapshotSection>,
    ) -> Result<Profile, ReportError> {
        let profile = Profile::read(session, self.build_options(options))?;
        let options = match self.snapshots {
            true => options_with(&profile, options, snapshots),
            false => options_with(&profile, options, |_| Vec::new()),
        };
        self.write(&profile, &options, out)?;
        Ok(profile)
    }
}

/// Everything that there is to say of a session, as the exporters `text` and `markdown` write it.
/// Its time was picked while it was read ([`BuildOptions::time`]). Heap snapshots are asked for as
/// by [`Exporter::convert_with`].
///
/// # Errors
/// [`ReportError`].
pub fn document_of(
    profile: &Profile,
    options: &Options,
    snapshots: impl FnOnce(&Profile) -> Vec<SnapshotSection>,
) -> Result<Document, ReportError> {
    let options = options_with(profile, options, snapshots);
    if options.filter == Filter::default() {
        return Ok(document(profile, &options));
    }
    Ok(document(&profile.filtered(&options.filter)?, &options))
}

/// For a profile of which the time was picked while it was read: with what heap snapshots say,
/// unless only a part is wanted.
fn options_with(
    profile: &Profile,
    options: &Options,
    snapshots: impl FnOnce(&Profile) -> Vec<SnapshotSection>,
) -> Options {
    let whole = options.filter == Filter::default() && options.series.is_none();
    let snapshots = if whole { snapshots(profile) } else { Vec::new() };
    let filter = Filter { time: None, ..options.filter.clone() };
    Options { filter, snapshots, ..options.clone() }
}

/// The kinds of samples that a report is of: the one that was asked for, or all that have any.
fn kinds(profile: &Profile, options: &Options) -> Vec<SeriesKind> {
    let wanted = |kind: &SeriesKind| options.series.is_none_or(|series| series == *kind);
    SeriesKind::ALL
        .into_iter()
        .filter(wanted)
        .filter(|kind| !profile.series(*kind).is_empty())
        .collect()
}

/// The one kind of samples that a format with room for one shows.
fn one_kind(profile: &Profile, options: &Options) -> Result<SeriesKind, ReportError> {
    kinds(profile, options).first().copied().ok_or_else(|| {
        let present = SeriesKind::ALL.into_iter().filter(|kind| !profile.series(*kind).is_empty());
        let present: Vec<_> = present.map(SeriesKind::id).collect();
        ReportError::NoSamples {
            wanted: options.series.map_or("stack".to_owned(), |series| series.id().to_owned()),
            present: if present.is_empty() { "none".to_owned() } else { present.join(", ") },
        }
    })
}
