//! The samples of one kind on the page: the tree of the flame graph, its sums, and the timeline.

use std::collections::HashMap;

use profile::{
    CallTree, NONE, Profile, STATES, SeriesKind, TreeOptions, Unit,
    session::{StackId, ThreadState, TypeId},
    state_index, state_word,
};
use serde::Serialize;

use crate::{Options, page::Interner};

/// Most nodes of a tree in a page. Beyond that the lightest are folded, which the page tells: a
/// browser draws no more than a few thousand at a time, and would take minutes to open millions.
const MOST_NODES: usize = 30_000;

/// Most sums by node, thread and class; beyond that, threads are folded.
const MOST_CELLS: usize = 400_000;

/// Threads that keep their own sums when threads are folded.
const MOST_THREADS: usize = 12;

/// Types that can be switched on and off on their own.
const MOST_TYPES: usize = 7;

/// Samples of one kind.
#[derive(Serialize)]
pub struct PageSeries {
    id: &'static str,
    /// What a weight is in the unit of the samples: times are in microseconds.
    scale: u64,
    /// Names of states or types.
    classes: Vec<String>,
    /// Which classes are shown at first.
    shown: Vec<bool>,
    nodes: Nodes,
    cells: Cells,
    /// What was folded: threshold as a share, number of nodes, whether threads were.
    folded: Option<(f64, usize, bool)>,
    timeline: Timeline,
}

/// Weights over time, one row for each class; exceptions and allocations have one row for all.
#[derive(Serialize)]
struct Timeline {
    /// Nanoseconds since the start of the recording.
    start: u64,
    /// Nanoseconds of each part.
    width: u64,
    rows: Vec<Vec<u64>>,
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
    let mut folded =
        Folded { nodes: Nodes::default(), node_of: vec![NONE; all.len()], threshold: None };
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
            true => (
                i64::from(interner.function(node.function)),
                interner.line(node.line.filter(|_| lines)),
            ),
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

/// The classes of a series, whether each is shown at first, and the class of each state or type.
struct Classes {
    names: Vec<String>,
    shown: Vec<bool>,
    of: Vec<u8>,
}

fn classes(profile: &Profile, kind: SeriesKind) -> Classes {
    let (names, shown, of) = match kind {
        SeriesKind::Exceptions => {
            let samples = profile.exceptions.samples.iter();
            type_classes(profile, samples.map(|sample| (sample.ty, sample.weight)))
        }
        SeriesKind::Allocations => {
            let samples = profile.allocations.samples.iter();
            type_classes(profile, samples.map(|sample| (sample.ty, sample.bytes)))
        }
        _ => state_classes(profile, kind),
    };
    Classes { names, shown, of }
}

fn state_classes(profile: &Profile, kind: SeriesKind) -> (Vec<String>, Vec<bool>, Vec<u8>) {
    let states = profile.series(kind).by_state();
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

/// Sums by node of the page, thread and class, by ascending node.
fn sums(
    profile: &Profile,
    kind: SeriesKind,
    class_of: &[u8],
    nodes: usize,
    node_of_stack: &[u32],
) -> Vec<Sum> {
    let node = |stack: StackId| node_of_stack[stack.index()];
    match kind {
        SeriesKind::Exceptions => {
            let samples = &profile.exceptions.samples;
            sum_up(nodes, samples.len(), |index| {
                let sample = &samples[index];
                let class = class_of[sample.ty.index()];
                let (thread, weight) = (sample.thread.0, sample.weight);
                Sum { node: node(sample.stack), thread, class, samples: 1, weight }
            })
        }
        SeriesKind::Allocations => {
            let samples = &profile.allocations.samples;
            sum_up(nodes, samples.len(), |index| {
                let sample = &samples[index];
                let class = class_of[sample.ty.index()];
                let (thread, weight) = (sample.thread.0, sample.bytes);
                Sum { node: node(sample.stack), thread, class, samples: 1, weight }
            })
        }
        _ => {
            let cells = &profile.series(kind).cells;
            sum_up(nodes, cells.len(), |index| {
                let cell = &cells[index];
                let class = class_of[state_index(cell.state)];
                let (samples, weight) = (cell.samples.into(), cell.weight);
                Sum { node: node(cell.stack), thread: cell.thread.0, class, samples, weight }
            })
        }
    }
}

/// The same sums, with those of all but the heaviest threads together.
fn fold_threads(profile: &Profile, kind: SeriesKind, nodes: usize, sums: &[Sum]) -> Vec<Sum> {
    let totals = profile.series(kind).by_thread(profile.tables.threads.len());
    let mut order: Vec<u32> = (0..totals.len() as u32).collect();
    order::sort_by_key(&mut order, |thread| std::cmp::Reverse(totals[*thread as usize].weight));
    let mut own = vec![false; totals.len()];
    order.iter().take(MOST_THREADS).for_each(|thread| own[*thread as usize] = true);
    sum_up(nodes, sums.len(), |index| {
        let sum = sums[index];
        Sum { thread: if own[sum.thread as usize] { sum.thread } else { NONE }, ..sum }
    })
}

fn timeline(profile: &Profile, kind: SeriesKind, unit: u64) -> Timeline {
    let series = profile.series(kind);
    let (timeline, states) = (&series.timeline, series.by_state());
    let rows: Vec<Vec<u64>> = match kind {
        SeriesKind::Exceptions | SeriesKind::Allocations => {
            let sums = timeline.buckets().iter();
            vec![sums.map(|bucket| bucket.iter().sum::<u64>() / unit).collect()]
        }
        _ => STATES
            .iter()
            .map(|state| state_index(*state))
            .filter(|state| states[*state].samples > 0)
            .map(|state| timeline.buckets().iter().map(|bucket| bucket[state] / unit).collect())
            .collect(),
    };
    Timeline {
        start: timeline.start().saturating_sub(profile.info.start),
        width: timeline.width(),
        rows,
    }
}

pub fn page_series(
    profile: &Profile,
    kind: SeriesKind,
    interner: &mut Interner<'_>,
    options: &Options,
) -> PageSeries {
    let series = profile.series(kind);
    let tree = CallTree::new(&profile.tables, series, TreeOptions::default());
    let folded = fold(&tree, interner, options.lines);
    let node_of_stack: Vec<u32> = (0..profile.tables.stack_count())
        .map(|stack| tree.node_of(StackId(stack as u32)).map_or(NONE, |node| folded.node_of[node]))
        .collect();
    let classes = classes(profile, kind);
    let nodes = folded.nodes.up.len();
    let mut sums = sums(profile, kind, &classes.of, nodes, &node_of_stack);
    let threads_folded = sums.len() > MOST_CELLS;
    if threads_folded {
        sums = fold_threads(profile, kind, nodes, &sums);
    }
    let unit = match kind.value_type().unit {
        Unit::Nanoseconds => 1000,
        Unit::Bytes | Unit::Count => 1,
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
    let threshold = folded.threshold.map(|(weight, count)| {
        (weight as f64 / series.totals.weight.max(1) as f64, count, threads_folded)
    });
    PageSeries {
        id: kind.id(),
        scale: unit,
        classes: classes.names,
        shown: classes.shown,
        nodes: folded.nodes,
        cells,
        folded: threshold,
        timeline: timeline(profile, kind, unit),
    }
}

/// Names of the classes of samples that have types, and the class of each type: the heaviest types
/// have their own.
fn type_classes(
    profile: &Profile,
    samples: impl Iterator<Item = (TypeId, u64)>,
) -> (Vec<String>, Vec<bool>, Vec<u8>) {
    let mut weights = vec![0_u64; profile.tables.types.len()];
    for (ty, weight) in samples {
        let sum = &mut weights[ty.index()];
        *sum = sum.saturating_add(weight);
    }
    let mut order: Vec<usize> = (0..weights.len()).filter(|ty| weights[*ty] > 0).collect();
    order::sort_by_key(&mut order, |ty| std::cmp::Reverse(weights[*ty]));
    let named = if order.len() > MOST_TYPES + 1 { MOST_TYPES } else { order.len() };
    let mut classes: Vec<String> = order
        .iter()
        .take(named)
        .map(|ty| profile::without_namespaces(&profile.tables.types[*ty].name))
        .collect();
    let mut class_of = vec![named as u8; weights.len()];
    order.iter().take(named).enumerate().for_each(|(class, ty)| class_of[*ty] = class as u8);
    if order.len() > named {
        classes.push("other types".to_owned());
    }
    let shown = vec![true; classes.len()];
    (classes, shown, class_of)
}
