//! What each profiler has to say in a report, in every form: a section for text and Markdown,
//! values for JSON, and the data of the page.
//!
//! One file for each, and [`VIEWS`] is the one registry of them. The renderers know none by name.

mod cells;
mod json_part;

pub use cells::state_word;

use std::collections::BTreeMap;

use document::{Cell, Column, Document, Section, Table, Unit, left, right};
use profile::{Profile, SeriesKind};
use serde_json::Value;

use crate::{Options, page::Interner};
pub use json_part::JsonPart;
use json_part::json_part;

/// Declares the modules of all views and the list of them, in the order of a report. Those of whole
/// profilers come last.
macro_rules! views {
    ($($whole:ident),* $(,)?) => {
        views! {
            all recording, cpu, wall, exceptions, gc, survivors, allocations, locks, threads,
            threadpool, trace, calls, transitions, jit, loads, counters $(, $whole)*
        }
    };
    (all $($name:ident),*) => {
        $(pub mod $name;)*

        /// All views.
        const VIEWS: &[View] = &[$($name::VIEW),*];
    };
}

profile::profilers::whole_profilers!(views);

mod notes;
pub mod observer;
pub mod others;

/// What there is to say about one subject.
pub struct View {
    /// For text and Markdown; none if the recording has nothing of it, or other samples are wanted.
    section: fn(&Profile, &Options) -> Option<Section>,
    /// For JSON.
    json: Option<JsonPart>,
    /// For the page: the key, and the value of it.
    page: Option<(&'static str, PageValue)>,
    /// The profiler whose rows it shows, where the profile keeps these as they are. The JSON has
    /// its key where that profiler ran. The page shows the section as it is, in a tab.
    rows_of: Option<RowsOf>,
}

/// A profiler whose rows a view shows: its id, and a word or two for the tab of a page.
type RowsOf = (&'static str, &'static str);

impl View {
    /// Whether it may have something to say in JSON.
    fn has_json(&self, profile: &Profile) -> bool {
        self.rows_of.is_none_or(|(profiler, _)| profile.run(profiler).is_some())
    }
}

type PageValue = fn(&Profile, &mut Interner<'_>, &Options) -> Value;

/// Everything that there is to say: the recording, what each profiler found, what heap snapshots
/// show, what the observation cost, and notes.
pub fn document(profile: &Profile, options: &Options) -> Document {
    let of_profilers = VIEWS.iter().filter_map(|view| (view.section)(profile, options));
    let of_snapshots = options.snapshots.iter().flat_map(|part| part.document.sections.clone());
    let of_recording = observer::section(profile).into_iter().chain(notes::section(profile));
    let sections = of_profilers.chain(of_snapshots).chain(others::sections(profile, options));
    Document { sections: sections.chain(of_recording).collect() }
}

/// What all views have to say in JSON, by key.
pub fn json(profile: &Profile) -> BTreeMap<&'static str, Value> {
    let views = VIEWS.iter().filter(|view| view.has_json(profile));
    let parts = views.filter_map(|view| view.json.as_ref());
    parts.map(|part| (part.key, (part.value)(profile))).collect()
}

/// The parts of JSON that views make, each with whether every report has it.
pub fn json_parts() -> impl Iterator<Item = (&'static JsonPart, bool)> {
    VIEWS.iter().filter_map(|view| Some((view.json.as_ref()?, view.rows_of.is_none())))
}

/// What the page shows in tabs as it is, of views that show rows: an id, a title and the section.
pub fn tabs(
    profile: &Profile,
    options: &Options,
) -> impl Iterator<Item = (&'static str, &'static str, Section)> {
    VIEWS.iter().filter_map(|view| {
        let (profiler, title) = view.rows_of?;
        Some((profiler, title, (view.section)(profile, options)?))
    })
}

/// Whether a view shows the rows of this profiler.
fn is_viewed(profiler: &str) -> bool {
    VIEWS.iter().any(|view| view.rows_of.is_some_and(|(id, _)| id == profiler))
}

/// The data of all views for the page, by key.
pub fn page(
    profile: &Profile,
    interner: &mut Interner<'_>,
    options: &Options,
) -> BTreeMap<&'static str, Value> {
    let values = VIEWS.iter().filter_map(|view| view.page);
    values.map(|(key, value)| (key, value(profile, interner, options))).collect()
}

/// Whether the report shows samples of this kind, and the recording has some, or a profiler of
/// them ran.
fn is_wanted(profile: &Profile, options: &Options, kind: SeriesKind) -> bool {
    options.series.is_none_or(|series| series == kind)
        && (!profile.series(kind).is_empty() || profile.run(kind.id()).is_some())
}
