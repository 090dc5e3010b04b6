//! `gc`: collections and GC pauses.

use std::collections::BTreeMap;

use profile::{
    GcSummary, HEAPS, PROFILER_PAUSE, Profile, Recent, pause_length,
    profilers::gc::{Collection, Pause},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Cell, Section, Table, Tile, View, cells::place_cell, json_part, left, right};
use crate::{
    Options, format,
    json::values::{DistributionJson, PlaceJson, since},
    pane::{Detail, Pane, PaneContent, PaneOptions, ThreadChoice},
};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("gc", Json<'_>, json)),
    tab: ("gc", "Garbage collection"),
    tile: Some(tile),
    rows_of: None,
};

pub const PANE: Pane = Pane {
    title: "GC",
    headline: |recent| vec![("paused", Cell::share(recent.paused))],
    color: Some(5),
    legend: &[],
    thread_choice: ThreadChoice::None,
    content,
};

fn content(recent: &Recent, _: &PaneOptions) -> PaneContent {
    let mut content = PaneContent::default();
    let most = recent.paused_history.iter().copied().fold(0.0, f64::max);
    let longest = recent.collections.iter().filter_map(|(_, pause)| *pause).max();
    content.section.say(format!(
        "Paused in each second, full height {}; longest pause below {}",
        format::percent(most),
        format::duration(longest.unwrap_or_default())
    ));
    let history = Cell::Line(recent.paused_history.clone());
    content.section.add(Table::new(vec![left("")], [vec![history]]));
    for (gc, pause) in &recent.collections {
        let sum = |sizes: &[u64]| sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
        content.table.rows.push(vec![
            Cell::text(gc.number.to_string()),
            Cell::text(gc.generation.to_string()),
            pause.map_or(Cell::Nothing, Cell::nanoseconds),
            Cell::bytes(sum(&gc.size_after)),
            Cell::bytes(sum(&gc.promoted)),
            Cell::text(format!("{} ({})", gc.reason, gc.kind)),
        ]);
        content.details.push(Detail::default());
    }
    content.table.columns = vec![
        right("gc").at_least(7),
        right("gen"),
        right("pause").at_least(8),
        right("heap").at_least(8),
        right("promoted"),
        left("reason"),
    ];
    content
}

fn tile(profile: &Profile) -> Option<Tile> {
    if profile.gcs.is_empty() && profile.pauses.is_empty() && profile.run("gc").is_none() {
        return None;
    }
    let summary = profile.gc_summary();
    let tile = Tile::new("GC paused", format::percent(summary.share)).more("of the time");
    Some(tile.note(match summary.pauses.count {
        0 => "no pause".to_owned(),
        count => format!(
            "{}, longest {}",
            format::counted(count, "pause"),
            format::duration(summary.pauses.max)
        ),
    }))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = options.series.is_none()
        && (!profile.gcs.is_empty() || !profile.pauses.is_empty() || profile.run("gc").is_some());
    is_shown.then(|| gc(profile, options))
}

fn gc(profile: &Profile, options: &Options) -> Section {
    let summary = profile.gc_summary();
    let collections: u64 = summary.collections.iter().sum();
    let mut section = Section {
        title: "Garbage collection".to_owned(),
        lead: vec![format!(
            "{}; {}, {} in total, {} of the time.",
            format::counted(collections, "collection"),
            format::counted(summary.pauses.count, "GC pause"),
            format::duration(summary.pauses.total),
            format::percent(summary.share)
        )],
        ..Section::default()
    };
    if collections > 0 {
        let mut facts = vec![format!(
            "{} induced, {} in the background",
            format::count(summary.induced),
            format::count(summary.background)
        )];
        let reasons: Vec<_> = summary
            .reasons
            .iter()
            .map(|(name, n)| format!("{name} {}", format::count(*n)))
            .collect();
        facts.push(format!("reasons: {}", reasons.join(", ")));
        section.say(format!("{}.", facts.join("; ")));
        let heap: Vec<_> = (HEAPS.iter().zip(summary.heap_last))
            .map(|(heap, size)| format!("{heap} {}", format::bytes(size)))
            .collect();
        section.say(format!(
            "Heap after the last collection {} ({}); peak {}; promoted {}.",
            format::bytes(summary.heap_last.iter().fold(0, |sum, size| sum.saturating_add(*size))),
            heap.join(", "),
            format::bytes(summary.heap_peak),
            format::bytes(summary.promoted.iter().fold(0, |sum, size| sum.saturating_add(*size))),
        ));
    }
    if options.drawn {
        section.extend(over_time(profile));
    }
    section.add(pauses(&summary));
    let inducers = profile.inducers();
    let rows = inducers.iter().take(options.rows).map(|inducer| {
        let calls = Cell::count(inducer.calls);
        vec![calls, place_cell(profile, options, &inducer.at, "")]
    });
    section.extend(Table::of(vec![right("collections"), left("induced by")], rows));
    section
}

/// Parts of a line over the time of the recording.
const LINE_PARTS: usize = 200;

/// The share of the time that was paused, and the size of the heap after collections, as lines.
fn over_time(profile: &Profile) -> Option<Table> {
    if profile.gcs.is_empty() {
        return None;
    }
    let part = (profile.duration() / LINE_PARTS as u64).max(1);
    let place =
        |time: u64| ((time.saturating_sub(profile.start) / part) as usize).min(LINE_PARTS - 1);
    let mut paused = vec![0.0; LINE_PARTS];
    for pause in profile.pauses.iter().filter(|pause| pause.reason != PROFILER_PAUSE) {
        paused[place(pause.suspend_start)] += pause_length(pause) as f64 / part as f64;
    }
    let mut heap = vec![f64::NAN; LINE_PARTS];
    for gc in &profile.gcs {
        heap[place(gc.end)] = gc.size_after.iter().map(|size| *size as f64).sum();
    }
    // Between collections it is not known: it stays what it was.
    let first = heap.iter().copied().find(|size| !size.is_nan()).unwrap_or_default();
    let mut last = first;
    for size in &mut heap {
        last = if size.is_nan() { last } else { *size };
        *size = last;
    }
    let peak = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let rows = [
        vec![
            Cell::text("share of the time paused"),
            Cell::share(peak(&paused).min(1.0)),
            Cell::Line(paused),
        ],
        vec![
            Cell::text("heap after collections"),
            Cell::bytes(peak(&heap) as u64),
            Cell::Line(heap),
        ],
    ];
    Table::of(vec![left("over time"), right("most"), left("")], rows)
}

/// Collections and GC pauses by generation and reason.
fn pauses(summary: &GcSummary) -> Table {
    let collections = summary.collections.iter().sum();
    let row = |name: &str, collections: Option<u64>, pauses: &profile::Distribution| {
        let time = |value: u64| match pauses.count {
            0 => Cell::Nothing,
            _ => Cell::nanoseconds(value),
        };
        vec![
            Cell::text(name),
            collections.map_or(Cell::Nothing, Cell::count),
            Cell::count(pauses.count),
            time(pauses.p50),
            time(pauses.p95),
            time(pauses.max),
            time(pauses.total),
        ]
    };
    let mut rows: Vec<_> =
        (summary.collections.iter().zip(&summary.pauses_by_generation).enumerate())
            .map(|(generation, (count, pauses))| {
                row(&format!("gen {generation}"), Some(*count), pauses)
            })
            .collect();
    rows.push(row("all pauses", Some(collections), &summary.pauses));
    if summary.pauses.count > 0 {
        rows.push(row("  of it stopping threads", None, &summary.suspending));
    }
    for (reason, pauses) in &summary.pause_reasons {
        let ours = if reason == PROFILER_PAUSE { ", excluded" } else { "" };
        rows.push(row(&format!("  {reason}{ours}"), None, pauses));
    }
    let columns = vec![
        left(""),
        right("collections"),
        right("pauses"),
        right("p50"),
        right("p95"),
        right("max"),
        right("total"),
    ];
    Table::new(columns, rows)
}

/// Collections and pauses. Times are nanoseconds, and points in time nanoseconds since the start of
/// the recording; sizes are bytes.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Gc")]
struct Json<'a> {
    /// By generation.
    collections: [u64; 3],
    /// Collections in the background.
    background: u64,
    /// Collections that the program has requested.
    induced: u64,
    /// Who requested them, most calls first.
    induced_by: Vec<InducerJson>,
    /// Collections by reason.
    reasons: BTreeMap<String, u64>,
    /// Share of the time in which the program was paused, 0 to 1.
    pause_share: f64,
    pauses_ns: DistributionJson,
    /// The part of the pauses in which threads were being stopped.
    suspending_ns: DistributionJson,
    pauses_by_generation_ns: Vec<DistributionJson>,
    pause_reasons_ns: BTreeMap<String, DistributionJson>,
    /// Sizes of the heaps after the last collection.
    heap_last: Heaps,
    /// The largest sum of these sizes after a collection.
    heap_peak: u64,
    /// Sums of all collections.
    promoted: Heaps,
    /// All collections, in order.
    events: Vec<CollectionJson<'a>>,
    /// All pauses, in order.
    pauses: Vec<PauseJson<'a>>,
}

/// Bytes of each heap: `gen_0`, `gen_1`, `gen_2`, `large_objects` and `pinned_objects`.
type Heaps = BTreeMap<String, u64>;

/// A place that calls `GC.Collect`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GcInducer")]
struct InducerJson {
    called_at: PlaceJson,
    calls: u64,
    /// Index in `stacks`.
    stack: u32,
}

/// A collection.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Collection")]
struct CollectionJson<'a> {
    /// The runtime's number of it.
    number: u32,
    generation: u8,
    reason: &'a str,
    kind: &'a str,
    /// Whether the program has requested it.
    induced: bool,
    start_ns: u64,
    end_ns: u64,
    size_after: Heaps,
    promoted: Heaps,
    pinned_objects: u32,
    gc_handles: u32,
}

/// A pause of the runtime.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Pause")]
struct PauseJson<'a> {
    reason: &'a str,
    /// Number of the collection, if it was for one.
    gc: Option<u32>,
    suspend_start_ns: u64,
    suspend_end_ns: u64,
    resume_start_ns: u64,
    resume_end_ns: u64,
}

fn json(profile: &Profile) -> Json<'_> {
    let summary = profile.gc_summary();
    Json {
        collections: summary.collections,
        background: summary.background,
        induced: summary.induced,
        induced_by: (profile.inducers().iter())
            .map(|inducer| InducerJson {
                called_at: (&inducer.at).into(),
                calls: inducer.calls,
                stack: inducer.stack.0,
            })
            .collect(),
        reasons: summary.reasons.into_iter().collect(),
        pause_share: summary.share,
        pauses_ns: (&summary.pauses).into(),
        suspending_ns: (&summary.suspending).into(),
        pauses_by_generation_ns: summary.pauses_by_generation.iter().map(Into::into).collect(),
        pause_reasons_ns: (summary.pause_reasons.iter())
            .map(|(reason, pauses)| (reason.clone(), pauses.into()))
            .collect(),
        heap_last: heaps(&summary.heap_last),
        heap_peak: summary.heap_peak,
        promoted: heaps(&summary.promoted),
        events: profile.gcs.iter().map(|gc| collection(profile, gc)).collect(),
        pauses: profile.pauses.iter().map(|pause| pause_json(profile, pause)).collect(),
    }
}

fn heaps(sizes: &[u64; 5]) -> Heaps {
    HEAPS.iter().zip(sizes).map(|(heap, size)| (heap.replace(' ', "_"), *size)).collect()
}

fn collection<'a>(profile: &Profile, gc: &'a Collection) -> CollectionJson<'a> {
    CollectionJson {
        number: gc.number,
        generation: gc.generation,
        reason: &gc.reason,
        kind: &gc.kind,
        induced: gc.induced,
        start_ns: since(profile, gc.start),
        end_ns: since(profile, gc.end),
        size_after: heaps(&gc.size_after),
        promoted: heaps(&gc.promoted),
        pinned_objects: gc.pinned_objects,
        gc_handles: gc.gc_handles,
    }
}

fn pause_json<'a>(profile: &Profile, pause: &'a Pause) -> PauseJson<'a> {
    PauseJson {
        reason: &pause.reason,
        gc: pause.gc,
        suspend_start_ns: since(profile, pause.suspend_start),
        suspend_end_ns: since(profile, pause.suspend_end),
        resume_start_ns: since(profile, pause.resume_start),
        resume_end_ns: since(profile, pause.resume_end),
    }
}
