//! What each profiler has to say in a report, in every form: a section for text and Markdown,
//! values for JSON, and a tab and a tile of the page.
//!
//! One file for each, and [`VIEWS`] is the one registry of them. The renderers know none by name.

mod cells;
mod json_part;
mod tile;

use std::collections::BTreeMap;

use document::{Cell, Column, Document, Section, Table, Unit, left, right};
use profile::{Profile, SeriesKind};
use serde_json::Value;

use crate::Options;
pub use json_part::JsonPart;
use json_part::json_part;
pub use tile::Tile;

/// Declares the modules of all views and the list of them, in the order of a report. Those of whole
/// profilers come last.
macro_rules! views {
    ($($whole:ident),* $(,)?) => {
        views! {
            all recording, cpu, wall, exceptions, gc, survivors, allocations, locks, threads,
            threadpool, trace, calls, transitions, jit, loads, counters, imported $(, $whole)*
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
    /// The tab of the page that has the section: an id, and a word or two.
    tab: (&'static str, &'static str),
    /// The figure that says most of it, if it has something to say.
    tile: Option<fn(&Profile) -> Option<Tile>>,
    /// The profiler whose rows it shows, where the profile keeps these as they are. The JSON has
    /// its key where that profiler ran.
    rows_of: Option<&'static str>,
}

impl View {
    /// Whether it may have something to say in JSON.
    fn has_json(&self, profile: &Profile) -> bool {
        self.rows_of.is_none_or(|profiler| profile.run(profiler).is_some())
    }
}

/// Everything that there is to say: the recording, what each profiler found, what heap snapshots
/// show, what the observation cost, and notes.
pub fn document(profile: &Profile, options: &Options) -> Document {
    let of_profilers = VIEWS.iter().filter_map(|view| (view.section)(profile, options));
    let of_snapshots = options.snapshots.iter().flat_map(|part| part.document.sections.clone());
    let of_recording =
        observer::section(profile, options).into_iter().chain(notes::section(profile));
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

/// A tab of the page: an id, a title, and what there is to say.
pub type Tab = (&'static str, &'static str, Document);

/// Everything that there is to say, in tabs. That of the recording itself comes last.
pub fn tabs(profile: &Profile, options: &Options) -> Vec<Tab> {
    let mut tabs: Vec<Tab> = Vec::new();
    for View { section, tab: (id, title), .. } in VIEWS {
        if let Some(section) = section(profile, options) {
            tabs.push((*id, *title, Document { sections: vec![section] }));
        }
    }
    let others = others::sections(profile, options);
    if !others.is_empty() {
        tabs.push(("tables", "Other tables", Document { sections: others }));
    }
    let snapshots = options.snapshots.iter();
    tabs.extend(snapshots.map(|part| (part.id, part.title, part.document.clone())));
    if let Some(at) = tabs.iter().position(|(id, ..)| *id == recording::VIEW.tab.0) {
        let (id, title, mut document) = tabs.remove(at);
        document.sections.extend(observer::section(profile, options));
        document.sections.extend(notes::section(profile));
        tabs.push((id, title, document));
    }
    tabs
}

/// The figures that say most, in the order of a report.
pub fn tiles(profile: &Profile) -> Vec<Tile> {
    let of_views = VIEWS.iter().filter_map(|view| view.tile?(profile));
    of_views.chain(observer::tile(profile)).collect()
}

/// Whether a view shows the rows of this profiler.
fn is_viewed(profiler: &str) -> bool {
    VIEWS.iter().any(|view| view.rows_of == Some(profiler))
}

/// Whether the report shows samples of this kind, and the recording has some, or a profiler of
/// them ran.
fn is_wanted(profile: &Profile, options: &Options, kind: SeriesKind) -> bool {
    options.series.is_none_or(|series| series == kind)
        && (!profile.series(kind).is_empty() || profile.run(kind.id()).is_some())
}
