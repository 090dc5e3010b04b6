//! One page that needs no network: the data as JSON within the page, and a program that draws it.

use std::{collections::HashMap, io::Write};

use profile::{
    Amount, CallTree, JitTotals, NONE, NameStyle, OBJECT_HEAPS, CallSite, Profile, STATES, SeriesKind, Standing, Starter,
    TreeOptions, Unit, WaitTimes, generation_word, pause_length,
    session::{
        AllocationSampling, AssemblyLoad, CounterKind, FunctionId, FunctionKind, LoadOutcome, Nanos, StackId,
        ThreadState, TypeId,
    },
    state_index, state_machine_id,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Exporter, Options, ReportError, format, kinds,
    sections::{
        POOL_COUNTERS, assembly_name, heap_word, load_word, pool_verdict, precompiled_word, role_word, standing_word,
        state_word, tier_word, waited_for,
    },
};

pub const EXPORTER: Exporter = Exporter {
    id: "html",
    extension: "html",
    summary: "one page with flame graph, tables and timelines that needs no network",
    binary: false,
    single_samples: false,
    snapshots: true,
    render,
};

const TEMPLATE: &str = include_str!("html/template.html");
pub(crate) const STYLE: &str = include_str!("html/style.css");
const PROGRAM: &str = include_str!("html/app.js");

/// Most nodes of a tree in a page. Beyond that the lightest are folded, which the page tells: a
/// browser draws no more than a few thousand at a time, and would take minutes to open millions.
const MOST_NODES: usize = 30_000;

/// Most sums by node, thread and class; beyond that, threads are folded.
const MOST_CELLS: usize = 400_000;

/// Threads that keep their own sums when threads are folded.
const MOST_THREADS: usize = 12;

/// Most pauses that are drawn; the longest are kept.
const MOST_PAUSES: usize = 4000;

/// Types that can be switched on and off on their own.
const MOST_TYPES: usize = 7;

/// Most points of a line of a counter.
const MOST_POINTS: usize = 300;

/// Most rows of the tables of types, of locks and of counters.
const MOST_ROWS: usize = 500;

/// Kinds of frames that the page gives a colour, by index.
const FRAME_KINDS: [&str; 10] =
    ["your code", ".NET libraries", "dynamic code", "stub", "native", "runtime", "GC", "JIT", "kernel", "unknown"];

fn frame_kind(profile: &Profile, function: FunctionId) -> u8 {
    match profile.tables.function(function).kind {
        FunctionKind::Managed if profile.tables.is_framework(function) => 1,
        FunctionKind::Managed => 0,
        FunctionKind::Dynamic => 2,
        FunctionKind::Stub => 3,
        FunctionKind::Native => 4,
        FunctionKind::Runtime => 5,
        FunctionKind::Gc => 6,
        FunctionKind::Jit => 7,
        FunctionKind::Kernel => 8,
        FunctionKind::Unknown => 9,
    }
}

#[derive(Serialize)]
struct Page {
    meta: Value,
    kinds: [&'static str; 10],
    functions: Functions,
    files: Vec<String>,
    modules: Vec<String>,
    threads: Vec<Value>,
    series: Vec<PageSeries>,
    exceptions: Value,
    gc: Value,
    survivors: Value,
    allocations: Value,
    locks: Value,
    jit: Value,
    loads: Value,
    counters: Value,
    looks: Value,
    pool: Value,
    observer: Value,
    notes: Vec<(f64, String)>,
    /// Id, title and text of what heap snapshots say.
    snapshots: Vec<(&'static str, &'static str, String)>,
}

/// Columns of functions, by their number in the page.
#[derive(Default, Serialize)]
struct Functions {
    name: Vec<String>,
    short: Vec<String>,
    /// Where the parameters begin in the name, in UTF-16 units as JavaScript counts.
    plain: Vec<usize>,
    kind: Vec<u8>,
    /// Number of the module plus one; 0 where there is none.
    module: Vec<u32>,
    /// What the compiler made of it; empty for plain methods.
    machine: Vec<&'static str>,
}

/// Samples of one kind. Weights are microseconds, bytes, or numbers of exceptions.
#[derive(Serialize)]
struct PageSeries {
    id: &'static str,
    unit: &'static str,
    samples: u64,
    weight: u64,
    truncated: u64,
    effective: f64,
    /// Whether its samples are calls, all of them.
    calls: bool,
    classes: Vec<String>,
    /// Which classes are shown at first.
    shown: Vec<bool>,
    nodes: Nodes,
    cells: Cells,
    /// What was folded: threshold as a share, number of nodes, whether threads were.
    folded: Option<(f64, usize, bool)>,
    timeline: Value,
}

/// Columns of the tree, parents before children.
#[derive(Default, Serialize)]
struct Nodes {
    /// How many places before the node its parent stands; 0 for a root.
    up: Vec<u32>,
    /// Number of the function; -1 for folded nodes.
    function: Vec<i64>,
    /// Number of the file plus one; 0 where there is none.
    file: Vec<u32>,
    line: Vec<u32>,
}

/// Columns of the sums, by ascending node.
#[derive(Default, Serialize)]
struct Cells {
    /// How many places after the node before.
    node: Vec<u32>,
    /// Number of the thread; -1 for folded threads.
    thread: Vec<i64>,
    class: Vec<u8>,
    samples: Vec<u64>,
    weight: Vec<u64>,
}

/// Numbers of things in the page: only what is used is in it.
struct Interner<'a> {
    profile: &'a Profile,
    functions: Functions,
    function_of: Vec<u32>,
    files: Vec<String>,
    file_of: Vec<u32>,
}

impl<'a> Interner<'a> {
    fn new(profile: &'a Profile) -> Self {
        Self {
            profile,
            functions: Functions::default(),
            function_of: vec![NONE; profile.tables.functions.len()],
            files: Vec::new(),
            file_of: vec![NONE; profile.tables.files.len()],
        }
    }

    fn function(&mut self, id: FunctionId) -> u32 {
        let known = self.function_of[id.index()];
        if known != NONE {
            return known;
        }
        let next = self.functions.name.len() as u32;
        self.function_of[id.index()] = next;
        let function = self.profile.tables.function(id);
        self.functions.name.push(self.profile.tables.function_name(id, NameStyle::FULL));
        self.functions.short.push(self.profile.tables.function_name(id, NameStyle::SHORT));
        let plain = self.profile.tables.function_name(id, NameStyle::PLAIN);
        self.functions.plain.push(plain.encode_utf16().count());
        self.functions.kind.push(frame_kind(self.profile, id));
        self.functions.module.push(function.module.map_or(0, |module| module.0 + 1));
        self.functions.machine.push(function.state_machine.map_or("", state_machine_id));
        next
    }

    fn line(&mut self, line: Option<profile::Line>) -> (u32, u32) {
        let Some(line) = line else { return (0, 0) };
        let file = &mut self.file_of[line.file.0 as usize];
        if *file == NONE {
            self.files.push(self.profile.tables.file(line.file).to_owned());
            *file = self.files.len() as u32;
        }
        (*file, line.line)
    }
}

/// A tree with its lightest nodes folded into one under each parent.
struct Folded {
    nodes: Nodes,
    /// Node in the page of each node of the tree.
    node_of: Vec<u32>,
    threshold: Option<(u64, usize)>,
}

fn fold(tree: &CallTree, interner: &mut Interner<'_>, lines: bool) -> Folded {
    let all = tree.nodes();
    // A parent is no lighter than its children and stands before them, so that these are closed
    // under "parent of".
    let (limit, mut ties) = match all.len() > MOST_NODES {
        true => {
            let mut weights: Vec<u64> = all.iter().map(|node| node.total.weight).collect();
            let (heavier, limit, _) = weights.select_nth_unstable_by(MOST_NODES, |a, b| b.cmp(a));
            let limit = *limit;
            (Some(limit), MOST_NODES - heavier.iter().filter(|weight| **weight > limit).count())
        }
        false => (None, 0),
    };
    let mut folded = Folded { nodes: Nodes::default(), node_of: vec![NONE; all.len()], threshold: None };
    let mut kept = vec![false; all.len()];
    // The node of the folded ones under each node of the page; the roots' is under NONE.
    let mut rest: HashMap<u32, u32> = HashMap::new();
    let mut count = 0;
    for (index, node) in all.iter().enumerate() {
        let parent = tree.parent(index);
        let keep = limit.is_none_or(|limit| match node.total.weight.cmp(&limit) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => {
                let room = ties > 0;
                ties -= usize::from(room);
                room
            }
        }) && parent.is_none_or(|parent| kept[parent]);
        kept[index] = keep;
        let above = parent.map_or(NONE, |parent| folded.node_of[parent]);
        if let (false, Some(parent)) = (keep, parent)
            && !kept[parent]
        {
            folded.node_of[index] = folded.node_of[parent];
            count += 1;
            continue;
        }
        let (function, (file, line)) = match keep {
            true => (i64::from(interner.function(node.function)), interner.line(node.line.filter(|_| lines))),
            false => (-1, (0, 0)),
        };
        let nodes = &mut folded.nodes;
        let next = nodes.up.len() as u32;
        if !keep {
            count += 1;
            if let Some(rest) = rest.get(&above) {
                folded.node_of[index] = *rest;
                continue;
            }
            rest.insert(above, next);
        }
        nodes.up.push(if above == NONE { 0 } else { next - above });
        nodes.function.push(function);
        nodes.file.push(file);
        nodes.line.push(line);
        folded.node_of[index] = next;
    }
    folded.threshold = limit.map(|limit| (limit, count));
    folded
}

/// A sum on its way into the page.
#[derive(Clone, Copy)]
struct Sum {
    node: u32,
    thread: u32,
    class: u8,
    samples: u64,
    weight: u64,
}

/// Sums by node, thread and class of `count` sums that `at` gives, by ascending node. A counting
/// sort by node and small sorts within: there may be millions.
fn sum_up(nodes: usize, count: usize, at: impl Fn(usize) -> Sum) -> Vec<Sum> {
    let mut places = vec![0_u32; nodes + 1];
    (0..count).for_each(|index| places[at(index).node as usize + 1] += 1);
    for node in 0..nodes {
        places[node + 1] += places[node];
    }
    let mut order = vec![0_u32; count];
    for index in 0..count {
        let place = &mut places[at(index).node as usize];
        order[*place as usize] = index as u32;
        *place += 1;
    }
    let mut sums: Vec<Sum> = Vec::new();
    let mut group: Vec<Sum> = Vec::new();
    for of_node in order.chunk_by(|a, b| at(*a as usize).node == at(*b as usize).node) {
        group.clear();
        group.extend(of_node.iter().map(|index| at(*index as usize)));
        group.sort_unstable_by_key(|sum| (sum.thread, sum.class));
        let first = sums.len();
        for sum in &group {
            match sums.get_mut(first..).and_then(<[Sum]>::last_mut) {
                Some(last) if (last.thread, last.class) == (sum.thread, sum.class) => {
                    last.samples += sum.samples;
                    last.weight = last.weight.saturating_add(sum.weight);
                }
                _ => sums.push(*sum),
            }
        }
    }
    sums
}

fn page_series(profile: &Profile, kind: SeriesKind, interner: &mut Interner<'_>, options: &Options) -> PageSeries {
    let series = profile.series(kind);
    let tree = CallTree::new(&profile.tables, series, TreeOptions::default());
    let folded = fold(&tree, interner, options.lines);
    let node_of_stack: Vec<u32> = (0..profile.tables.stack_count())
        .map(|stack| tree.node_of(StackId(stack as u32)).map_or(NONE, |node| folded.node_of[node]))
        .collect();
    let node = |stack: StackId| node_of_stack[stack.index()];
    let states = series.by_state();

    let (classes, shown, single) = match kind {
        SeriesKind::Exceptions => {
            type_classes(profile, profile.exceptions.samples.iter().map(|sample| (sample.ty, sample.weight)))
        }
        SeriesKind::Allocations => {
            type_classes(profile, profile.allocations.samples.iter().map(|sample| (sample.ty, sample.bytes)))
        }
        _ => {
            let present = STATES.iter().filter(|state| states[state_index(**state)].samples > 0);
            let mut class_of = [0_u8; STATES.len()];
            let (mut classes, mut shown) = (Vec::new(), Vec::new());
            for state in present {
                class_of[state_index(*state)] = classes.len() as u8;
                classes.push(state_word(*state).to_owned());
                // Idle threads would hide all others.
                shown.push(*state != ThreadState::Idle);
            }
            if !shown.contains(&true) {
                shown.fill(true);
            }
            (classes, shown, class_of.to_vec())
        }
    };
    let count = match kind {
        SeriesKind::Exceptions => profile.exceptions.samples.len(),
        SeriesKind::Allocations => profile.allocations.samples.len(),
        _ => series.cells.len(),
    };
    let at = |index: usize| match kind {
        SeriesKind::Exceptions => {
            let sample = &profile.exceptions.samples[index];
            let class = single[sample.ty.index()];
            Sum { node: node(sample.stack), thread: sample.thread.0, class, samples: 1, weight: sample.weight }
        }
        SeriesKind::Allocations => {
            let sample = &profile.allocations.samples[index];
            let class = single[sample.ty.index()];
            Sum { node: node(sample.stack), thread: sample.thread.0, class, samples: 1, weight: sample.bytes }
        }
        _ => {
            let cell = &series.cells[index];
            let class = single[state_index(cell.state)];
            let (samples, weight) = (cell.samples.into(), cell.weight);
            Sum { node: node(cell.stack), thread: cell.thread.0, class, samples, weight }
        }
    };
    let nodes = folded.nodes.up.len();
    let mut sums = sum_up(nodes, count, at);
    let threads_folded = sums.len() > MOST_CELLS;
    if threads_folded {
        let totals = series.by_thread(profile.tables.threads.len());
        let mut order: Vec<u32> = (0..totals.len() as u32).collect();
        order.sort_by_key(|thread| std::cmp::Reverse(totals[*thread as usize].weight));
        let mut own = vec![false; totals.len()];
        order.iter().take(MOST_THREADS).for_each(|thread| own[*thread as usize] = true);
        let before = std::mem::take(&mut sums);
        sums = sum_up(nodes, before.len(), |index| {
            let sum = before[index];
            Sum { thread: if own[sum.thread as usize] { sum.thread } else { NONE }, ..sum }
        });
    }
    let (unit, unit_id) = match kind.value_type().unit {
        Unit::Nanoseconds => (1000, "us"),
        Unit::Bytes => (1, "bytes"),
        Unit::Count => (1, "count"),
    };
    let mut cells = Cells::default();
    let mut last = 0;
    for sum in &sums {
        cells.node.push(sum.node - last);
        last = sum.node;
        cells.thread.push(if sum.thread == NONE { -1 } else { i64::from(sum.thread) });
        cells.class.push(sum.class);
        cells.samples.push(sum.samples);
        cells.weight.push((sum.weight + unit / 2) / unit);
    }
    let threshold = folded
        .threshold
        .map(|(weight, count)| (weight as f64 / series.totals.weight.max(1) as f64, count, threads_folded));
    let timeline = &series.timeline;
    // One row for each class; exceptions and allocations have one row for all.
    let rows: Vec<Vec<u64>> = match kind {
        SeriesKind::Exceptions | SeriesKind::Allocations => {
            vec![timeline.buckets().iter().map(|bucket| bucket.iter().sum()).collect()]
        }
        _ => STATES
            .iter()
            .map(|state| state_index(*state))
            .filter(|state| states[*state].samples > 0)
            .map(|state| timeline.buckets().iter().map(|bucket| bucket[state] / unit).collect())
            .collect(),
    };
    PageSeries {
        id: kind.id(),
        unit: unit_id,
        samples: series.totals.samples,
        weight: series.totals.weight / unit,
        truncated: series.truncated,
        effective: series.effective_samples(),
        calls: kind.is_calls(),
        nodes: folded.nodes,
        cells,
        folded: threshold,
        timeline: json!({
            "start": micros(profile, timeline.start()),
            "width": timeline.width() as f64 / 1e3,
            "rows": rows,
        }),
        classes,
        shown,
    }
}

/// Names of the classes of samples that have types, and the class of each type: the heaviest types
/// have their own.
fn type_classes(profile: &Profile, samples: impl Iterator<Item = (TypeId, u64)>) -> (Vec<String>, Vec<bool>, Vec<u8>) {
    let mut weights = vec![0_u64; profile.tables.types.len()];
    for (ty, weight) in samples {
        let sum = &mut weights[ty.index()];
        *sum = sum.saturating_add(weight);
    }
    let mut order: Vec<usize> = (0..weights.len()).filter(|ty| weights[*ty] > 0).collect();
    order.sort_by_key(|ty| std::cmp::Reverse(weights[*ty]));
    let named = if order.len() > MOST_TYPES + 1 { MOST_TYPES } else { order.len() };
    let mut classes: Vec<String> =
        order.iter().take(named).map(|ty| profile::without_namespaces(&profile.tables.types[*ty].name)).collect();
    let mut class_of = vec![named as u8; weights.len()];
    order.iter().take(named).enumerate().for_each(|(class, ty)| class_of[*ty] = class as u8);
    if order.len() > named {
        classes.push("other types".to_owned());
    }
    let shown = vec![true; classes.len()];
    (classes, shown, class_of)
}

/// Microseconds since the start of what the profile shows.
fn micros(profile: &Profile, time: Nanos) -> f64 {
    (time as f64 - profile.start as f64) / 1e3
}

fn meta(profile: &Profile) -> Value {
    let info = &profile.info;
    json!({
        "tool": info.tool_version,
        "process": info.process_name,
        "pid": info.pid,
        "command": info.command_line,
        "runtime": info.runtime,
        "platform": info.platform,
        "cpus": info.cpus,
        "entry": format::entry(info.entry),
        "started": format::utc(info.start_unix_ms),
        "duration": profile.duration() as f64 / 1e3,
        "ending": format::ending(profile),
        "warn": profile.cut_short || profile.damage.is_some(),
        "filtered": profile.filtered,
        "dropped": profile.dropped(),
        "profilers": info.profilers.iter().map(|run| json!({
            "id": run.id, "engine": run.engine, "rate": profile.rate_hz(&run.id), "asked": run.rate_hz,
            "achieved": profile.sampling_rate(&run.id).map(ToString::to_string),
            "params": run.params.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

fn exceptions(profile: &Profile, interner: &mut Interner<'_>, options: &Options) -> Value {
    let rows: Vec<Value> = profile
        .exception_rows()
        .iter()
        .map(|row| {
            let (file, line) = interner.line(row.thrown_at.and_then(|(_, line)| line).filter(|_| options.lines));
            json!({
                "type": profile.tables.ty(row.ty).name,
                "count": row.count,
                "rate": row.per_second,
                "samples": row.samples,
                "message": row.message,
                "messages": row.messages,
                "thrown": row.thrown_at.map(|(function, _)| interner.function(function)),
                "file": file,
                "line": line,
                "caught": row.caught_by.map(|function| interner.function(function)),
                "catchCount": row.time_to_catch.count,
                "p50": row.time_to_catch.p50 as f64 / 1e3,
                "p95": row.time_to_catch.p95 as f64 / 1e3,
            })
        })
        .collect();
    json!({
        "total": profile.exceptions.total(),
        "exact": profile.exceptions.exact(),
        "on": profile.run("exceptions").is_some() || !rows.is_empty(),
        "rows": rows,
    })
}

fn survivors(profile: &Profile) -> Value {
    let nanos = |nanos: u64| nanos as f64 / 1e3;
    let summary = profile.survivor_summary();
    let sums = |totals: profile::Totals| json!([totals.weight, totals.samples]);
    json!({
        "on": profile.run("survivors").is_some() || !profile.survivors.is_empty(),
        "collections": summary.collections,
        "incomplete": summary.incomplete,
        "time": [nanos(summary.paused), nanos(summary.telling), nanos(summary.longest)],
        "generations": summary.generations.iter().enumerate().filter(|(_, generation)| generation.before > 0).map(|(index, generation)| json!([
            generation_word(index as u8), generation.collections, generation.before, generation.survived.weight,
            generation.rate(), generation.survived.samples,
        ])).collect::<Vec<_>>(),
        "types": summary.types.iter().filter(|row| row.young.samples > 0).take(MOST_ROWS).map(|row| json!({
            "type": profile.tables.ty(row.ty).name, "young": sums(row.young),
            "moves": [sums(row.between(0, 0)), sums(row.between(0, 1)), sums(row.between(1, 2))],
        })).collect::<Vec<_>>(),
        "held": summary.chains.iter().take(MOST_ROWS).map(|chain| json!([
            chain.totals.weight, chain.totals.samples, chain.collections, profile.chain_text(chain, false),
        ])).collect::<Vec<_>>(),
    })
}

fn gc(profile: &Profile) -> Value {
    let summary = profile.gc_summary();
    let generation_of: HashMap<u32, u8> = profile.gcs.iter().map(|gc| (gc.number, gc.generation)).collect();
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
            let reason = reasons.iter().position(|reason| *reason == pause.reason).unwrap_or_else(|| {
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
        json!([d.count, d.p50 as f64 / 1e3, d.p95 as f64 / 1e3, d.max as f64 / 1e3, d.total as f64 / 1e3])
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

fn allocations(profile: &Profile, interner: &mut Interner<'_>, options: &Options) -> Value {
    let amount = |amount: &Amount| json!([amount.value.round(), amount.margin.round()]);
    let allocations = &profile.allocations;
    let rows: Vec<Value> = profile
        .allocation_rows()
        .iter()
        .take(MOST_ROWS)
        .map(|row| {
            let line = row.allocated_at.and_then(|place| place.line).filter(|_| options.lines);
            let (file, line) = interner.line(line);
            json!({
                "type": profile.tables.ty(row.ty).name,
                "samples": row.samples,
                "bytes": amount(&row.bytes),
                "objects": row.objects.as_ref().map(amount),
                "share": [row.share.share, row.share.margin()],
                "heaps": row.heaps,
                "at": row.allocated_at.map(|place| interner.function(place.function)),
                "file": file,
                "line": line,
            })
        })
        .collect();
    json!({
        "on": profile.run("allocations").is_some() || !rows.is_empty(),
        "exact": exact_allocations(profile),
        "followed": if allocations.windows.is_empty() { Value::Null } else { json!(allocations.followed(profile.duration())) },
        "biased": allocations.sampling == Some(AllocationSampling::Tick),
        "samples": allocations.samples.len(),
        "bytes": amount(&allocations.bytes()),
        "objects": allocations.objects().as_ref().map(amount),
        "heaps": OBJECT_HEAPS.iter().zip(allocations.heaps()).filter(|(_, bytes)| bytes.value > 0.0)
            .map(|(heap, bytes)| json!([heap_word(*heap), amount(&bytes)])).collect::<Vec<_>>(),
        "rows": rows,
    })
}

/// Objects, bytes, and rows of type, objects and bytes; null where objects were not counted.
fn exact_allocations(profile: &Profile) -> Value {
    let allocations = &profile.allocations;
    if allocations.exact.is_empty() && profile.run("exact-allocations").is_none() {
        return Value::Null;
    }
    let total = allocations.exact_total();
    let types = allocations.exact_types();
    let rows = types.iter().take(MOST_ROWS);
    let rows: Vec<_> = rows.map(|(ty, count)| json!([profile.tables.ty(*ty).name, count.objects, count.bytes])).collect();
    json!({ "objects": total.objects, "bytes": total.bytes, "types": types.len(), "rows": rows })
}

fn locks(profile: &Profile, interner: &mut Interner<'_>, options: &Options) -> Value {
    let micros = |nanos: u64| nanos as f64 / 1e3;
    let times = |times: &WaitTimes| {
        json!([
            times.count,
            micros(times.total),
            micros(times.p50),
            micros(times.p90),
            micros(times.p99),
            micros(times.max)
        ])
    };
    let all = profile.locks.durations();
    let rows: Vec<Value> = profile
        .lock_rows()
        .iter()
        .take(MOST_ROWS)
        .map(|row| {
            let (file, line) = interner.line(row.waited_at.line.filter(|_| options.lines));
            json!({
                "lock": row.lock.map(|lock| format!("{lock:#x}")),
                "waits": times(&row.waits),
                "share": row.share,
                "at": interner.function(row.waited_at.function),
                "file": file,
                "line": line,
                "places": row.places,
                "threads": row.threads,
                "owner": row.owner.map(|owner| profile.tables.thread_name(owner)),
            })
        })
        .collect();
    json!({
        "on": profile.run("locks").is_some() || !rows.is_empty(),
        "all": times(&all),
        "histogram": all.histogram.iter().map(|(from, count)| json!([micros(*from), count])).collect::<Vec<_>>(),
        "rows": rows,
    })
}

/// Parts of the line of compilations over time.
const JIT_PARTS: usize = 120;

fn jit(profile: &Profile, interner: &mut Interner<'_>, options: &Options) -> Value {
    let nanos = |nanos: u64| nanos as f64 / 1e3;
    let sums = |sums: &JitTotals| json!([sums.totals.samples, nanos(sums.totals.weight), sums.il, sums.native]);
    let summary = profile.jit_summary();
    let lookups = profile.jit.lookups();
    let rows = profile.jit_rows();
    let shown = rows.iter().take(MOST_ROWS).map(|row| {
        let (file, line) = interner.line(row.called_at.and_then(|place| place.line).filter(|_| options.lines));
        json!({
            "function": interner.function(row.function),
            "sums": sums(&row.sums),
            "blocking": nanos(row.blocking),
            "longest": nanos(row.longest),
            "methods": row.methods,
            "most": row.most,
            "tiers": row.tiers.iter().map(|(tier, count)| json!([tier_word(*tier), count])).collect::<Vec<_>>(),
            "precompiled": precompiled_word(row.precompiled),
            "at": row.called_at.map(|place| interner.function(place.function)),
            "file": file,
            "line": line,
        })
    });
    let shown: Vec<Value> = shown.collect();
    let part = profile.duration() as f64 / 1e3 / JIT_PARTS as f64;
    let over_time = profile.jit_over_time(JIT_PARTS).into_iter().enumerate();
    json!({
        "on": profile.run("jit").is_some() || !rows.is_empty(),
        "all": sums(&summary.all),
        "blocking": sums(&summary.blocking),
        "background": sums(&summary.background),
        "again": sums(&summary.again),
        "missing": sums(&summary.missing),
        "rejected": sums(&summary.rejected),
        "dynamic": sums(&summary.dynamic),
        "tiers": summary.tiers.iter().map(|(tier, of)| json!([tier_word(*tier), sums(of)])).collect::<Vec<_>>(),
        "threads": summary.by_thread.iter().take(MOST_ROWS).map(|(thread, sums)| json!([
            profile.tables.thread_name(*thread), sums.samples, nanos(sums.weight),
        ])).collect::<Vec<_>>(),
        "found": lookups.found,
        "lookups": lookups.found.saturating_add(lookups.missing),
        "overTime": over_time.map(|(index, sums)| json!([part * index as f64, sums.samples as f64 / (part / 1e6).max(1e-9)])).collect::<Vec<_>>(),
        "rows": shown,
    })
}

fn loads(profile: &Profile, interner: &mut Interner<'_>, options: &Options) -> Value {
    let nanos = |nanos: u64| nanos as f64 / 1e3;
    let summary = profile.load_summary();
    // By the time they took; where that is not reported, in the order in which they came.
    let mut assemblies: Vec<&AssemblyLoad> = profile.loads.assemblies.iter().collect();
    assemblies.sort_by_key(|load| (load.outcome == LoadOutcome::Known, std::cmp::Reverse(load.own), load.time));
    let assemblies: Vec<Value> = assemblies
        .into_iter()
        .take(MOST_ROWS)
        .map(|load| {
            let place = profile.tables.place(load.stack);
            let (file, line) = interner.line(place.line.filter(|_| options.lines));
            let (name, version) = assembly_name(&load.name);
            json!({
                "time": micros(profile, load.time),
                "own": load.own.map(nanos),
                "resolution": load.resolution.map(nanos),
                "name": name,
                "version": version,
                "path": load.path,
                "outcome": load_word(load),
                "failed": load.outcome == LoadOutcome::Failed,
                "by": assembly_name(&load.requested_by).0,
                "context": load.context,
                "thread": profile.tables.thread_name(load.thread),
                "at": interner.function(place.function),
                "file": file,
                "line": line,
                "steps": load.steps.iter().map(|step| json!([step.what, step.found, step.result, nanos(step.took)])).collect::<Vec<_>>(),
            })
        })
        .collect();
    let types: Vec<Value> = profile
        .type_load_rows()
        .iter()
        .take(MOST_ROWS)
        .map(|row| {
            let (file, line) = interner.line(row.called_at.and_then(|place| place.line).filter(|_| options.lines));
            json!({
                "type": profile.tables.ty(row.ty).name,
                "steps": row.totals.samples,
                "own": nanos(row.totals.weight),
                "longest": nanos(row.longest),
                "at": row.called_at.map(|place| interner.function(place.function)),
                "file": file,
                "line": line,
            })
        })
        .collect();
    json!({
        "on": profile.run("loads").is_some() || !assemblies.is_empty() || !types.is_empty(),
        "timed": summary.timed,
        "counts": [summary.loaded, summary.known, summary.failed, summary.dynamic, summary.collectible, summary.unloaded],
        "time": [nanos(summary.assembly_time), nanos(summary.failed_time), nanos(summary.types.weight)],
        "steps": summary.types.samples,
        "distinct": summary.distinct_types,
        "threads": summary.by_thread.iter().take(MOST_ROWS).map(|(thread, assemblies, types)| json!([
            profile.tables.thread_name(*thread), assemblies.samples, nanos(assemblies.weight), types.samples, nanos(types.weight),
        ])).collect::<Vec<_>>(),
        "assemblies": assemblies,
        "types": types,
    })
}

fn counters(profile: &Profile) -> Value {
    let rows = profile.counters.iter().filter_map(|counter| {
        let (def, summary) = (&counter.def, counter.summary()?);
        // The mean of each part, where there are more than a line of this size can show.
        let part = counter.values.len().div_ceil(MOST_POINTS).max(1);
        let points = counter.values.chunks(part).map(|part| {
            let mean = part.iter().map(|(_, value)| value / part.len() as f64).sum::<f64>();
            json!([micros(profile, part.first().map_or(0, |(time, _)| *time)), mean])
        });
        Some(json!({
            "source": def.source, "title": def.title, "unit": def.unit, "tags": def.tags,
            "rate": def.kind == CounterKind::Rate,
            "summary": [summary.last, summary.mean, summary.min, summary.max],
            "values": points.collect::<Vec<_>>(),
        }))
    });
    let rows = rows.take(MOST_ROWS);
    // Those of the thread pool are in its own view.
    let on = profile.run("counters").is_some() || profile.run("threadpool").is_none() && !profile.counters.is_empty();
    json!({ "on": on, "rows": rows.collect::<Vec<_>>() })
}

/// Where something is, as number of the function, of the file and of the line.
fn at(interner: &mut Interner<'_>, place: &CallSite, options: &Options) -> Value {
    let (file, line) = interner.line(place.line.filter(|_| options.lines));
    json!([interner.function(place.function), file, line])
}

fn looks(profile: &Profile, interner: &mut Interner<'_>, options: &Options) -> Value {
    let part = profile.threads.counts.len().div_ceil(MOST_POINTS).max(1);
    let counts = profile.threads.counts.chunks(part).filter_map(|part| part.first());
    let rows: Vec<Value> = profile
        .thread_rows()
        .iter()
        .take(MOST_ROWS)
        .map(|row| {
            json!({
                "name": profile.tables.thread_name(row.thread),
                "role": role_word(row.role),
                "id": row.managed_id,
                "cpu": row.cpu as f64 / 1e3,
                "age": row.age as f64 / 1e3,
                "os": char::from(row.seen.os_state).to_string(),
                "state": state_word(row.seen.state),
                "is": standing_word(row.standing, row.confidence),
                "bad": row.standing == Standing::ZombieSuspect,
                "alive": row.alive,
                "reason": row.reason,
                "at": at(interner, &profile.tables.place(row.seen.stack), options),
                "started": row.started_at.as_ref().map(|place| at(interner, place, options)),
            })
        })
        .collect();
    let starts: Vec<Value> = profile
        .start_rows()
        .iter()
        .take(MOST_ROWS)
        .map(|row| {
            let word = match row.starter {
                Starter::Pool => "the thread pool",
                Starter::Native => "native code",
                Starter::Method(_) | Starter::Unknown => "the runtime, or not known",
            };
            let place = row.place.as_ref().filter(|_| matches!(row.starter, Starter::Method(_)));
            json!({
                "started": row.started, "ended": row.ended, "rate": row.per_second, "leak": row.leak, "reason": row.reason,
                "example": row.example, "word": word, "at": place.map(|place| at(interner, place, options)),
            })
        })
        .collect();
    json!({
        "on": profile.run("threads").is_some() || !rows.is_empty(),
        "counts": counts.map(|(time, count)| json!([micros(profile, *time), count])).collect::<Vec<_>>(),
        "rows": rows,
        "starts": starts,
    })
}

fn pool(profile: &Profile, interner: &mut Interner<'_>, options: &Options) -> Value {
    let summary = profile.pool_summary();
    let charts = POOL_COUNTERS.iter().filter_map(|(name, word)| {
        let values = &profile.pool_counter(name)?.values;
        let part = values.len().div_ceil(MOST_POINTS).max(1);
        // The greatest of each part: a short queue between two long ones hides nothing.
        let points = values.chunks(part).filter_map(|part| {
            let most = part.iter().map(|(_, value)| *value).fold(0.0, f64::max);
            Some(json!([micros(profile, part.first()?.0), most]))
        });
        Some(json!({ "title": word, "values": points.collect::<Vec<_>>() }))
    });
    let kinds = STATES.iter().filter(|state| **state != ThreadState::Idle).filter_map(|state| {
        let time = summary.by_state[state_index(*state)];
        let word = if profile::blocks(*state) { waited_for(*state) } else { state_word(*state) };
        (time > 0).then(|| json!([word, time as f64 / 1e3]))
    });
    let blocking = summary.blocking.iter().take(MOST_ROWS).map(|row| {
        json!({
            "word": waited_for(row.state), "share": row.share, "time": row.time as f64 / 1e3,
            "queued": row.time_queued as f64 / 1e3, "threads": row.threads, "at": at(interner, &row.place, options),
        })
    });
    json!({
        "on": profile.run("threadpool").is_some() || !profile.pool.series.is_empty(),
        "health": summary.health.id(),
        "verdict": pool_verdict(profile, &summary),
        "charts": charts.collect::<Vec<_>>(),
        "kinds": kinds.collect::<Vec<_>>(),
        "blocking": blocking.collect::<Vec<_>>(),
        "adjustments": summary.adjustments.iter().map(|row| json!([
            row.reason, row.count, row.workers, micros(profile, row.times.0), micros(profile, row.times.1),
        ])).collect::<Vec<_>>(),
    })
}

fn observer(profile: &Profile) -> Value {
    let Some(status) = profile.observer_total() else { return Value::Null };
    json!({
        "memory": status.target_memory,
        "cpu": status.target_cpu as f64 / 1e3,
        "stopped": status.target_stopped as f64 / 1e3,
        "own": status.own_cpu as f64 / 1e3,
        "since": profile.stop.saturating_sub(profile.info.start) as f64 / 1e3,
        "dropped": status.dropped.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
        "counters": status.counters.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
        "held": profile.resources.iter().map(|used| json!([
            used.name, used.unit == "bytes", used.highest, used.budget, used.refused, used.left,
        ])).collect::<Vec<_>>(),
    })
}

/// Writes JSON into a script element: nothing in it may end the element or begin a comment (HTML,
/// "restrictions for contents of script elements"), and JSON allows every character of a string as
/// an escape.
struct Embedded<'a>(&'a mut dyn Write);

impl Write for Embedded<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'<') {
            match part.split_last() {
                Some((b'<', rest)) => {
                    self.0.write_all(rest)?;
                    self.0.write_all(b"\\u003c")?;
                }
                _ => self.0.write_all(part)?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Text for HTML.
pub(crate) fn escape(text: &str) -> String {
    crate::plain::visible(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut interner = Interner::new(profile);
    let series =
        kinds(profile, options).into_iter().map(|kind| page_series(profile, kind, &mut interner, options)).collect();
    let exceptions = exceptions(profile, &mut interner, options);
    let allocations = allocations(profile, &mut interner, options);
    let locks = locks(profile, &mut interner, options);
    let looks = looks(profile, &mut interner, options);
    let pool = pool(profile, &mut interner, options);
    let jit = jit(profile, &mut interner, options);
    let loads = loads(profile, &mut interner, options);
    let page = Page {
        meta: meta(profile),
        kinds: FRAME_KINDS,
        series,
        exceptions,
        gc: gc(profile),
        survivors: survivors(profile),
        allocations,
        locks,
        jit,
        loads,
        counters: counters(profile),
        looks,
        pool,
        observer: observer(profile),
        snapshots: options.snapshots.iter().map(|part| (part.id, part.title, part.text.trim_end().to_owned())).collect(),
        notes: profile.notes.iter().map(|(time, note)| (micros(profile, *time), note.clone())).collect(),
        threads: profile
            .tables
            .threads
            .iter()
            .map(|thread| json!([profile.tables.thread_name(thread.id), thread.managed]))
            .collect(),
        modules: profile.tables.modules.iter().map(|module| module.name.clone()).collect(),
        functions: interner.functions,
        files: interner.files,
    };
    // The template's parts come in a fixed order; a part is never searched for within what was put
    // in.
    let mut rest = TEMPLATE;
    for (mark, part) in [("{{title}}", 0), ("{{style}}", 1), ("{{data}}", 2), ("{{program}}", 3)] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        out.write_all(before.as_bytes())?;
        match part {
            0 => out.write_all(escape(&format!("{} – clrscope", profile.info.process_name)).as_bytes())?,
            1 => out.write_all(STYLE.as_bytes())?,
            2 => crate::plain::write_visible_json(Embedded(out), &page)?,
            _ => out.write_all(PROGRAM.as_bytes())?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    Ok(())
}
