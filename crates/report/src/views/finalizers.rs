//! `finalizers`: what is finalized, how long that takes, and what blocks the finalizer thread.

use profile::{
    AllocatedFinalizable, FinalizerPlace, FinalizerSummary, FinalizerThread, Profile,
    profilers::finalizers::{Doing, SPEC},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Cell, Section, Table, Unit, View,
    cells::{amount, estimate, place_cell, type_name},
    json_part, left, right,
};
use crate::{
    Options, format,
    json::values::{PlaceJson, ShareJson},
};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("finalizers", Json, json)),
    tab: (SPEC.id, "Finalizers"),
    tile: None,
    rows_of: Some(SPEC.id),
};

/// Rows of the table of places.
const MOST_PLACES: usize = 8;

/// Rows of the table of methods that allocate, for each type.
const MOST_METHODS: usize = 3;

/// How long a finalizer must have run, in nanoseconds, before it is worth a word that it has not
/// returned.
const WORTH_A_WORD: u64 = 1_000_000_000;

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let summary = profile.finalizer_summary().filter(|_| options.series.is_none())?;
    let mut section = Section::new("Finalizers");
    section.say(format!(
        "{} finalized, {}; {} joined the queue; at least {} waited at the end, {} at most.",
        format::counted(summary.finalized, "object"),
        format::rate(summary.finalized as f64 / seconds(profile)),
        format::count(summary.queued),
        format::count(summary.waiting),
        format::count(summary.most_waiting),
    ));
    let current = summary.current.as_ref().filter(|current| current.runs_for >= WORTH_A_WORD);
    section.lead.extend(current.map(|current| {
        let at_least = if current.is_whole { "" } else { "at least " };
        let ty = current.ty.map(|ty| format!(" of {}", profile.tables.ty(ty).name));
        let place = current.seen.map(|(stack, doing)| {
            let place = profile.tables.place(stack);
            let method = profile.tables.function_name(place.function, options.names);
            format!(", {} in {method}", word(doing))
        });
        let time = format::duration(current.runs_for);
        let (ty, place) = (ty.unwrap_or_default(), place.unwrap_or_default());
        format!("A finalizer{ty} has not returned for {at_least}{time}{place}.")
    }));
    section.lead.extend(summary.thread.as_ref().map(|thread| {
        format!(
            "The finalizer thread ({}) ran finalizers for {} of the time, {} blocked.",
            profile.tables.thread_name(thread.thread),
            format::percent(thread.busy),
            format::percent(thread.blocked)
        )
    }));
    section.extend(types(profile, options, &summary));
    section.extend(summary.thread.as_ref().and_then(|thread| places(profile, options, thread)));
    match &summary.allocated {
        Some(allocated) => section.extend(allocators(profile, options, allocated)),
        None if summary.types.is_empty() => {}
        None => {
            section.say("Record `allocations`, too, to see which methods allocate these objects.")
        }
    }
    Some(section)
}

/// Which methods allocate objects with a finalizer.
fn allocators(
    profile: &Profile,
    options: &Options,
    allocated: &[AllocatedFinalizable],
) -> Option<Table> {
    let mut of_type = (None, 0);
    let is_shown = |row: &&AllocatedFinalizable| {
        of_type =
            if of_type.0 == Some(row.ty) { (of_type.0, of_type.1 + 1) } else { (Some(row.ty), 1) };
        of_type.1 <= options.at_most(MOST_METHODS)
    };
    let rows = allocated.iter().filter(is_shown).take(options.rows).map(|row| {
        vec![
            estimate(&row.share),
            row.objects.map_or(Cell::Nothing, |objects| amount(&objects, Unit::Count)),
            Cell::count(row.samples),
            type_name(profile, row.ty),
            place_cell(profile, options, &row.place, ""),
        ]
    });
    let columns = vec![
        right("share of type"),
        right("objects"),
        right("samples"),
        left("type"),
        left("allocated in"),
    ];
    Table::of(columns, rows)
}

fn seconds(profile: &Profile) -> f64 {
    profile.duration().max(1) as f64 / 1e9
}

fn types(profile: &Profile, options: &Options, summary: &FinalizerSummary) -> Option<Table> {
    let columns = vec![
        right("share"),
        right("time"),
        right("objects"),
        right("per second"),
        right("average"),
        right("longest"),
        left("type"),
    ];
    let rows = summary.types.iter().map(|of| {
        vec![
            Cell::share(of.share),
            Cell::nanoseconds(of.took),
            Cell::count(of.objects),
            Cell::per_second(of.objects as f64 / seconds(profile)),
            Cell::nanoseconds(of.took / of.objects.max(1)),
            Cell::nanoseconds(of.longest),
            type_name(profile, of.ty),
        ]
    });
    (!summary.types.is_empty()).then(|| Table::top(columns, rows, options.rows))
}

/// Where the thread was while it ran finalizers.
fn places(profile: &Profile, options: &Options, thread: &FinalizerThread) -> Option<Table> {
    let rows = thread.places.iter().take(options.at_most(MOST_PLACES)).map(|place| {
        let finalizer = profile.tables.function_name(place.finalizer, options.names);
        vec![
            Cell::share(place.share),
            Cell::text(word(place.doing)),
            place_cell(profile, options, &place.place, ""),
            Cell::name(finalizer),
        ]
    });
    Table::of(vec![right("share"), left("does"), left("in"), left("finalizer")], rows)
}

/// What the thread does, in words.
fn word(doing: Doing) -> &'static str {
    match doing {
        Doing::Idle => "idle",
        Doing::Running => "running",
        Doing::Lock => "waiting for a lock",
        Doing::Sleep => "sleeping",
        Doing::Io => "waiting for I/O",
        Doing::Task => "waiting for a task",
        Doing::Event => "waiting for an event",
        Doing::Other => "waiting",
    }
}

/// What is finalized, how long that takes, and what blocks the finalizer thread.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Finalizers")]
struct Json {
    /// Objects that joined the queue.
    queued: u64,
    /// Objects whose finalizers have returned.
    finalized: u64,
    /// Objects that waited for the whole of the last two seconds, at least.
    waiting: u64,
    /// The most objects that waited at a time, at least.
    most_waiting: u64,
    /// Time in finalizers that have returned.
    took_ns: u64,
    /// The longest of them.
    longest_ns: u64,
    /// How often the thread emptied the queue.
    runs: u64,
    /// For how long together.
    runs_ns: u64,
    /// By type, those first whose finalizers took longest.
    types: Vec<TypeJson>,
    /// The finalizer thread; null where it was not seen.
    thread: Option<ThreadJson>,
    /// The finalizer that ran when the recording ended; null where none did.
    current: Option<CurrentJson>,
    /// Where objects of these types are allocated, in the order of `types`, most bytes of each
    /// first; null where `allocations` was not recorded.
    allocated: Option<Vec<AllocatedJson>>,
}

/// Objects with a finalizer that one method allocates, by samples of allocations.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AllocatedFinalizable")]
struct AllocatedJson {
    /// Index in `types` of the report.
    #[serde(rename = "type")]
    ty: u32,
    /// The innermost method of the program.
    at: PlaceJson,
    samples: u64,
    /// Estimated objects; null where their sizes are not known.
    objects: Option<f64>,
    /// Share in the bytes that are allocated of the type.
    share: ShareJson,
}

/// Objects of one type whose finalizers have returned.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FinalizedType")]
struct TypeJson {
    /// Index in `types` of the report.
    #[serde(rename = "type")]
    ty: u32,
    objects: u64,
    /// How long their finalizers took together.
    took_ns: u64,
    longest_ns: u64,
    /// Share in the time of all types, 0 to 1.
    share: f64,
}

/// What the finalizer thread did, by samples of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FinalizerThread")]
struct ThreadJson {
    /// Index in `threads` of the report.
    thread: u32,
    /// For how long it was seen.
    seen_ns: u64,
    /// Share of that time in which it ran a finalizer, 0 to 1.
    busy: f64,
    /// The part of it in which that was blocked.
    blocked: f64,
    /// Where it was while it ran finalizers, most time first.
    places: Vec<PlaceOfFinalizerJson>,
}

/// Where finalizers spend their time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FinalizerPlace")]
struct PlaceOfFinalizerJson {
    /// The finalizer: index in `functions` of the report.
    finalizer: u32,
    /// The innermost method of the program.
    at: PlaceJson,
    /// What it did there.
    doing: &'static str,
    time_ns: u64,
    /// Share of the time that the thread was seen, 0 to 1.
    share: f64,
}

/// A finalizer that had not returned when the recording ended.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CurrentFinalizer")]
struct CurrentJson {
    /// For how long it ran, at least.
    runs_for_ns: u64,
    /// Whether that is all of the time; it began before the recording otherwise.
    is_whole: bool,
    /// Type of its object: index in `types` of the report; null where it began before the
    /// recording.
    #[serde(rename = "type")]
    ty: Option<u32>,
    /// The innermost method of the program in which it was last seen.
    at: Option<PlaceJson>,
    /// What it did there.
    doing: Option<&'static str>,
}

fn json(profile: &Profile) -> Json {
    let summary = profile.finalizer_summary().unwrap_or_default();
    let types = summary.types.iter().map(|of| TypeJson {
        ty: of.ty.0,
        objects: of.objects,
        took_ns: of.took,
        longest_ns: of.longest,
        share: of.share,
    });
    let current = summary.current.map(|current| CurrentJson {
        runs_for_ns: current.runs_for,
        is_whole: current.is_whole,
        ty: current.ty.map(|ty| ty.0),
        at: current.seen.map(|(stack, _)| (&profile.tables.place(stack)).into()),
        doing: current.seen.map(|(_, doing)| word(doing)),
    });
    let allocated = |row: AllocatedFinalizable| AllocatedJson {
        ty: row.ty.0,
        at: (&row.place).into(),
        samples: row.samples,
        objects: row.objects.map(|objects| objects.value),
        share: (&row.share).into(),
    };
    Json {
        queued: summary.queued,
        finalized: summary.finalized,
        waiting: summary.waiting,
        most_waiting: summary.most_waiting,
        took_ns: summary.took,
        longest_ns: summary.longest,
        runs: summary.runs.0,
        runs_ns: summary.runs.1,
        types: types.collect(),
        thread: summary.thread.as_ref().map(thread_json),
        current,
        allocated: summary.allocated.map(|all| all.into_iter().map(allocated).collect()),
    }
}

fn thread_json(thread: &FinalizerThread) -> ThreadJson {
    let place = |place: &FinalizerPlace| PlaceOfFinalizerJson {
        finalizer: place.finalizer.0,
        at: (&place.place).into(),
        doing: word(place.doing),
        time_ns: place.time,
        share: place.share,
    };
    ThreadJson {
        thread: thread.thread.0,
        seen_ns: thread.seen,
        busy: thread.busy,
        blocked: thread.blocked,
        places: thread.places.iter().map(place).collect(),
    }
}
