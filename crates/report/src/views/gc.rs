//! `gc`: collections and GC pauses.

use std::collections::{BTreeMap, HashMap};

use profile::{
    GcSummary, HEAPS, NameStyle, PROFILER_PAUSE, Profile, Recent, pause_length,
    profilers::gc::{Collection, Pause},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Cell, Section, Table, View, cells::place_cell, json_part, left, right};
use crate::{
    Options, format,
    json::values::{DistributionJson, PlaceJson, since},
    page::{Interner, MOST_ROWS, micros},
    panes::{Detail, Pane, PaneContent, PaneOptions, ThreadChoice},
};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("gc", Json<'_>, json)),
    page: Some(("gc", page)),
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
    section.add(pauses(&summary));
    let inducers = profile.inducers();
    let rows = inducers.iter().take(options.rows).map(|inducer| {
        let calls = Cell::count(inducer.calls);
        vec![calls, place_cell(profile, options, &inducer.at, "")]
    });
    section.extend(Table::of(vec![right("collections"), left("induced by")], rows));
    section
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

/// Most pauses that are drawn; the longest are kept.
const MOST_PAUSES: usize = 4000;

fn page(profile: &Profile, _: &mut Interner<'_>, _: &Options) -> Value {
    let summary = profile.gc_summary();
    let generation_of: HashMap<u32, u8> =
        profile.gcs.iter().map(|gc| (gc.number, gc.generation)).collect();
    let mut pauses: Vec<_> = profile.pauses.iter().collect();
    let left_out = pauses.len().saturating_sub(MOST_PAUSES);
    if left_out > 0 {
        pauses.sort_by_key(|pause| std::cmp::Reverse(pause_length(pause)));
        pauses.truncate(MOST_PAUSES);
        pauses.sort_by_key(|pause| pause.suspend_start);
    }
    let mut reasons: Vec<&str> = Vec::new();
    let pauses: Vec<Value> = pauses
        .into_iter()
        .map(|pause| {
            let reason =
                reasons.iter().position(|reason| *reason == pause.reason).unwrap_or_else(|| {
                    reasons.push(&pause.reason);
                    reasons.len() - 1
                });
            let generation = pause.gc.and_then(|number| generation_of.get(&number));
            json!([
                micros(profile, pause.suspend_start),
                pause_length(pause) as f64 / 1e3,
                pause.suspend_end.saturating_sub(pause.suspend_start) as f64 / 1e3,
                generation.map_or(-1, |generation| i32::from(*generation)),
                reason,
                pause.gc,
            ])
        })
        .collect();
    let distribution = |d: &profile::Distribution| {
        json!([
            d.count,
            d.p50 as f64 / 1e3,
            d.p95 as f64 / 1e3,
            d.max as f64 / 1e3,
            d.total as f64 / 1e3
        ])
    };
    json!({
        "on": profile.run("gc").is_some() || !profile.gcs.is_empty() || !profile.pauses.is_empty(),
        "collections": summary.collections,
        "background": summary.background,
        "induced": summary.induced,
        "inducedBy": profile.inducers().iter().take(MOST_ROWS).map(|inducer| json!([
            profile.tables.function_name(inducer.at.function, NameStyle::PLAIN), inducer.calls,
        ])).collect::<Vec<_>>(),
        "reasons": summary.reasons,
        "share": summary.share,
        "all": distribution(&summary.pauses),
        "suspending": distribution(&summary.suspending),
        "generations": summary.pauses_by_generation.iter().map(distribution).collect::<Vec<_>>(),
        "pauseReasons": summary.pause_reasons.iter().map(|(reason, d)| json!([reason, distribution(d)])).collect::<Vec<_>>(),
        "heapLast": summary.heap_last,
        "heapPeak": summary.heap_peak,
        "promoted": summary.promoted,
        "events": profile.gcs.iter().rev().take(MOST_PAUSES).rev().map(|gc| json!([
            micros(profile, gc.end), gc.number, gc.generation, gc.reason, gc.kind, gc.induced, gc.size_after, gc.promoted,
        ])).collect::<Vec<_>>(),
        "pauses": pauses,
        "pauseReason": reasons,
        "leftOut": left_out,
    })
}
