//! `loads`: assemblies and types that are loaded.

use profile::{
    LoadSummary, Profile, SeriesKind,
    profilers::loads::{AssemblyLoad, LoadOutcome},
    rows::Words,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Cell, Section, Table, Tile, View,
    cells::{place_cell, type_name},
    is_wanted, json_part, left, right,
};
use crate::{
    Options, format,
    json::values::{PlaceJson, since},
};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("loads", Json<'_>, json)),
    tab: ("loads", "Loads"),
    tile: Some(tile),
    rows_of: None,
};

fn tile(profile: &Profile) -> Option<Tile> {
    if profile.loads.series.is_empty() && profile.run("loads").is_none() {
        return None;
    }
    let summary = profile.load_summary();
    let tile = Tile::new("Assemblies loaded", format::count(summary.loaded));
    Some(tile.note(if summary.timed {
        let time = format::duration(summary.assembly_time);
        format!("{time}; types {}", format::duration(summary.types.weight))
    } else {
        format!("{} unloaded", format::count(summary.unloaded))
    }))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Loads);
    is_shown.then(|| loads(profile, options))
}

/// Simple name and version of an assembly by its full name.
pub fn assembly_name(name: &str) -> (&str, &str) {
    let mut parts = name.split(',').map(str::trim);
    let simple = parts.next().unwrap_or(name);
    (simple, parts.find_map(|part| part.strip_prefix("Version=")).unwrap_or_default())
}

/// What became of a request for an assembly, in words.
pub fn load_word(load: &AssemblyLoad) -> String {
    let mut word = match load.outcome {
        LoadOutcome::Loaded if load.dynamic => "made at run time",
        LoadOutcome::Loaded => "loaded",
        LoadOutcome::Known => "known",
        LoadOutcome::Failed => "not found",
    }
    .to_owned();
    if load.collectible {
        word.push_str(", can be unloaded");
    }
    word
}

fn loads(profile: &Profile, options: &Options) -> Section {
    let mut section = Section::new("Loads");
    let loads = &profile.loads;
    if loads.assemblies.is_empty() && loads.types.is_empty() && loads.unloads.is_empty() {
        section.say("Nothing was loaded.");
        return section;
    }
    let summary = profile.load_summary();
    let tables = [
        loaded(profile, options),
        not_found(profile, options),
        slow_steps(profile, options),
        types(profile, options),
        threads(profile, options, &summary),
    ];
    section.lead = lead(profile, &summary);
    section.extend(tables.into_iter().flatten());
    section
}

fn lead(profile: &Profile, summary: &LoadSummary) -> Vec<String> {
    let mut first = format!(
        "{} loaded ({} with precompiled code, {} made at run time, {} that can be unloaded), {} \
            unloaded",
        match summary.loaded {
            1 => "1 assembly".to_owned(),
            loaded => format!("{} assemblies", format::count(loaded)),
        },
        format::count(summary.precompiled),
        format::count(summary.dynamic),
        format::count(summary.collectible),
        format::count(summary.unloaded),
    );
    if !summary.timed {
        let not_known = "This runtime does not say how long loads took, what was not found, and \
            which types were loaded (.NET 5 and newer do).";
        return vec![first + ".", not_known.to_owned()];
    }
    first.push_str(&format!(
        "; {} for what was known already, {} failed. Threads spent {} on assemblies, {} of it on \
            what was not found",
        format::counted(summary.known, "request"),
        format::count(summary.failed),
        format::duration(summary.assembly_time),
        format::duration(summary.failed_time),
    ));
    let types = format!(
        "{} loaded in {}, for {}.",
        format::counted(summary.distinct_types, "type"),
        format::counted(summary.types.samples, "step"),
        format::duration(summary.types.weight),
    );
    let main = summary
        .by_thread
        .iter()
        .find(|(thread, ..)| profile.tables.threads[thread.index()].os_tid == profile.info.pid);
    let of_main = main.map(|(_, assemblies, types)| {
        format!(
            "The main thread waited {} for assemblies and {} for types.",
            format::duration(assemblies.weight),
            format::duration(types.weight)
        )
    });
    [first + ".", types].into_iter().chain(of_main).collect()
}

fn time(time: Option<u64>) -> Cell {
    time.map_or(Cell::Nothing, Cell::nanoseconds)
}

/// When an assembly was requested.
fn requested_at(profile: &Profile, load: &AssemblyLoad) -> Cell {
    Cell::nanoseconds(load.time.saturating_sub(profile.info.start))
}

fn caller(profile: &Profile, options: &Options, load: &AssemblyLoad) -> Cell {
    let place = profile.tables.place(load.stack);
    if !profile.tables.is_managed(place.function) {
        return Cell::text("the runtime itself");
    }
    place_cell(profile, options, &place, "")
}

/// Requests for assemblies with this outcome, those that took longest first.
fn requests(profile: &Profile, outcome: LoadOutcome) -> Vec<&AssemblyLoad> {
    let of_all = profile.loads.assemblies.iter();
    let mut requests: Vec<&AssemblyLoad> = of_all.filter(|load| load.outcome == outcome).collect();
    order::sort_by_key(&mut requests, |load| (std::cmp::Reverse(load.own), load.time));
    requests
}

fn loaded(profile: &Profile, options: &Options) -> Option<Table> {
    let loaded = requests(profile, LoadOutcome::Loaded);
    let rows = loaded.into_iter().take(options.rows).map(|load| {
        let (simple, version) = assembly_name(&load.name);
        let path = if load.path.is_empty() { load_word(load) } else { load.path.clone() };
        vec![
            requested_at(profile, load),
            time(load.own),
            time(load.resolution),
            Cell::text(simple),
            Cell::text(version),
            Cell::text(profile.tables.thread_name(load.thread)),
            caller(profile, options, load),
            Cell::Name {
                forms: vec![path.clone(), format::file_name(&path).to_owned()],
                place: None,
            },
        ]
    });
    let columns = vec![
        right("at"),
        right("took"),
        right("to find it"),
        left("assembly"),
        left("version"),
        left("thread"),
        left("for a call in"),
        left("file"),
    ];
    Table::of(columns, rows)
}

fn not_found(profile: &Profile, options: &Options) -> Option<Table> {
    let failed = requests(profile, LoadOutcome::Failed);
    let rows = failed.into_iter().take(options.rows).map(|load| {
        vec![
            requested_at(profile, load),
            time(load.own),
            Cell::text(assembly_name(&load.requested).0),
            Cell::text(assembly_name(&load.requested_by).0),
            caller(profile, options, load),
        ]
    });
    let columns = vec![
        right("at"),
        right("took"),
        left("not found"),
        left("requested by"),
        left("for a call in"),
    ];
    Table::of(columns, rows)
}

/// Steps of a search that took less are not shown, nanoseconds.
const SLOW_STEP: u64 = 1_000_000;

/// Where the search itself took its time: handlers, and folders on slow disks.
fn slow_steps(profile: &Profile, options: &Options) -> Option<Table> {
    let loads = profile.loads.assemblies.iter();
    let steps = loads.flat_map(|load| load.steps().map(move |step| (load, step)));
    let mut steps: Vec<_> = steps.filter(|(_, step)| step.took >= SLOW_STEP).collect();
    order::sort_by_key(&mut steps, |(load, step)| (std::cmp::Reverse(step.took), load.time));
    let rows = steps.iter().take(options.rows.min(10)).map(|(load, step)| {
        let forms = vec![step.what.to_owned(), format::file_name(step.what).to_owned()];
        vec![
            Cell::nanoseconds(step.took),
            Cell::text(if step.found { "found" } else { "not found" }),
            Cell::text(assembly_name(&load.requested).0),
            Cell::Name { forms, place: None },
        ]
    });
    let columns =
        vec![right("took"), left(""), left("searched for"), left("slow step of the search")];
    Table::of(columns, rows)
}

fn types(profile: &Profile, options: &Options) -> Option<Table> {
    let types = profile.type_load_rows();
    let rows = types.iter().take(options.rows.min(15)).map(|row| {
        let place = row.called_at.as_ref().map(|place| place_cell(profile, options, place, ""));
        vec![
            Cell::nanoseconds(row.totals.weight),
            Cell::nanoseconds(row.longest),
            Cell::count(row.totals.samples),
            type_name(profile, row.ty),
            place.unwrap_or(Cell::Nothing),
        ]
    });
    let columns = vec![
        right("took"),
        right("longest, inclusive"),
        right("steps"),
        left("type"),
        left("mostly for a call in"),
    ];
    Table::of(columns, rows)
}

fn threads(profile: &Profile, options: &Options, summary: &LoadSummary) -> Option<Table> {
    let are_shown = summary.timed && summary.by_thread.len() > 1;
    let threads = summary.by_thread.iter().filter(|_| are_shown);
    let rows = threads.take(options.rows.min(8)).map(|(thread, assemblies, types)| {
        vec![
            Cell::nanoseconds(assemblies.weight),
            Cell::count(assemblies.samples),
            Cell::nanoseconds(types.weight),
            Cell::count(types.samples),
            Cell::text(profile.tables.thread_name(*thread)),
        ]
    });
    let columns = vec![
        right("for assemblies"),
        right("requests"),
        right("for types"),
        right("steps"),
        left("thread"),
    ];
    Table::of(columns, rows)
}

/// Assemblies and types that were loaded.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Loads")]
struct Json<'a> {
    /// Assemblies that were loaded.
    loaded: u64,
    /// Requests for an assembly that was already loaded.
    known: u64,
    /// Requests that failed.
    failed: u64,
    /// Loaded assemblies that were made at run time.
    dynamic: u64,
    /// Loaded assemblies that can be unloaded.
    collectible: u64,
    /// Loaded assemblies with precompiled (ready-to-run) code.
    precompiled: u64,
    /// Assemblies that were unloaded.
    unloaded: u64,
    /// Whether the runtime reported how long loads took.
    timed: bool,
    /// Time for assemblies, without loads within it, nanoseconds.
    assembly_ns: u64,
    /// The part of it for requests that failed, nanoseconds.
    failed_ns: u64,
    /// Steps of loading types.
    type_steps: u64,
    /// Time for types, without loads within it, nanoseconds.
    type_ns: u64,
    /// Different types that were loaded.
    distinct_types: u64,
    /// What each thread waited for.
    threads: Vec<ThreadJson>,
    /// In the order in which they were loaded.
    assemblies: Vec<AssemblyJson<'a>>,
    /// By time.
    unloads: Vec<UnloadJson<'a>>,
    /// Longest first.
    types: Vec<TypeJson>,
}

/// Loads of a thread.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoadThread")]
struct ThreadJson {
    /// Index in `threads` of the report.
    thread: u32,
    /// Requests for assemblies.
    requests: u64,
    /// Time for assemblies, without loads within it, nanoseconds.
    assembly_ns: u64,
    /// Steps of loading types.
    type_steps: u64,
    /// Time for types, without loads within it, nanoseconds.
    type_ns: u64,
}

/// An assembly that was loaded or requested.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AssemblyLoad")]
struct AssemblyJson<'a> {
    /// When it was requested, nanoseconds since the start of the recording; when it was loaded,
    /// where the runtime does not report that.
    time_ns: u64,
    /// From the request until it was there or failed, nanoseconds; null without a request.
    duration_ns: Option<u64>,
    /// The same without other loads within it, nanoseconds; null without a request.
    own_ns: Option<u64>,
    /// How long it took to find it, nanoseconds; null without a request.
    resolution_ns: Option<u64>,
    /// Index in `threads` of the report.
    thread: u32,
    /// The call that made it necessary, with the load as its leaf: index in `stacks`.
    stack: u32,
    called_at: PlaceJson,
    #[schemars(extend("enum" = ["loaded", "known", "failed"]))]
    outcome: &'static str,
    /// The runtime's number of the assembly, as hexadecimal text; null unless it was loaded here.
    assembly: Option<String>,
    /// Simple name.
    name: &'a str,
    version: &'a str,
    /// Full name: of the assembly, or otherwise as it was requested.
    full_name: &'a str,
    /// Path of its file; empty where there is none.
    path: &'a str,
    /// Full name that was requested; empty without a request.
    requested: &'a str,
    /// Full name of the assembly that requested it; may be empty.
    requested_by: &'a str,
    /// Load context of the request; may be empty.
    context: &'a str,
    /// Whether it was made at run time.
    dynamic: bool,
    /// Whether it can be unloaded.
    collectible: bool,
    /// Whether it has precompiled (ready-to-run) code.
    precompiled: bool,
    /// Steps of the search, in order.
    steps: Vec<StepJson<'a>>,
}

/// A step of the search for an assembly.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoadStep")]
struct StepJson<'a> {
    /// A stage of the search, a handler, or a file.
    what: &'a str,
    /// Whether it gave an assembly, or the file was there.
    found: bool,
    /// What was found, or why nothing was; may be empty.
    result: &'a str,
    /// Time since the step before, or since the request, nanoseconds.
    took_ns: u64,
}

/// An assembly that was unloaded.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AssemblyUnload")]
struct UnloadJson<'a> {
    /// Nanoseconds since the start of the recording.
    time_ns: u64,
    /// The runtime's number of the assembly, as hexadecimal text, where known.
    assembly: Option<String>,
    full_name: &'a str,
}

/// Loads of a type.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoadedType")]
struct TypeJson {
    /// Index in `types` of the report.
    r#type: u32,
    /// Number of steps.
    steps: u64,
    /// Time without loads within it, nanoseconds.
    own_ns: u64,
    /// The longest step, with everything within it, nanoseconds.
    longest_ns: u64,
    /// The call that made most of it necessary, where known.
    called_at: Option<PlaceJson>,
}

fn json(profile: &Profile) -> Json<'_> {
    let summary = profile.load_summary();
    let threads = summary.by_thread.iter().map(|(thread, assemblies, types)| ThreadJson {
        thread: thread.0,
        requests: assemblies.samples,
        assembly_ns: assemblies.weight,
        type_steps: types.samples,
        type_ns: types.weight,
    });
    let unloads = profile.loads.unloads.iter().map(|unload| UnloadJson {
        time_ns: since(profile, unload.time),
        assembly: assembly_id(unload.assembly),
        full_name: &unload.name,
    });
    let rows = profile.type_load_rows();
    let types = rows.iter().map(|row| TypeJson {
        r#type: row.ty.0,
        steps: row.totals.samples,
        own_ns: row.totals.weight,
        longest_ns: row.longest,
        called_at: row.called_at.as_ref().map(Into::into),
    });
    Json {
        loaded: summary.loaded,
        known: summary.known,
        failed: summary.failed,
        dynamic: summary.dynamic,
        collectible: summary.collectible,
        precompiled: summary.precompiled,
        unloaded: summary.unloaded,
        timed: summary.timed,
        assembly_ns: summary.assembly_time,
        failed_ns: summary.failed_time,
        type_steps: summary.types.samples,
        type_ns: summary.types.weight,
        distinct_types: summary.distinct_types,
        threads: threads.collect(),
        assemblies: profile.loads.assemblies.iter().map(|load| assembly(profile, load)).collect(),
        unloads: unloads.collect(),
        types: types.collect(),
    }
}

fn assembly<'a>(profile: &Profile, load: &'a AssemblyLoad) -> AssemblyJson<'a> {
    let (name, version) = assembly_name(&load.name);
    let steps = load.steps().map(|step| StepJson {
        what: step.what,
        found: step.found,
        result: step.result,
        took_ns: step.took,
    });
    AssemblyJson {
        time_ns: since(profile, load.time),
        duration_ns: load.duration,
        own_ns: load.own,
        resolution_ns: load.resolution,
        thread: load.thread.0,
        stack: load.stack.0,
        called_at: (&profile.tables.place(load.stack)).into(),
        outcome: load.outcome.word(),
        assembly: assembly_id(load.assembly),
        name,
        version,
        full_name: &load.name,
        path: &load.path,
        requested: &load.requested,
        requested_by: &load.requested_by,
        context: &load.context,
        dynamic: load.dynamic,
        collectible: load.collectible,
        precompiled: load.precompiled,
        steps: steps.collect(),
    }
}

/// As text: JavaScript has no whole numbers of 64 bits.
fn assembly_id(assembly: u64) -> Option<String> {
    (assembly != 0).then(|| format!("{assembly:#x}"))
}
