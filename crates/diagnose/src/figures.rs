//! Evidence as pictures.

use document::{Figure, Series, Unit, WeightedNode, Weights, format::without_namespaces};
use heap::{GrowthRow, LeakReport, PathRow, retention_graph};
use profile::{
    CallTree, Cell, NameStyle, PROFILER_PAUSE, Profile, SeriesKind, Totals, TreeOptions,
    Unit as Counted,
    session::{Nanos, StackId},
};

/// Nodes of a call tree with a lesser part of all are left out.
const LEAST: f64 = 0.01;

/// Nodes of a call tree, at most.
const MOST: usize = 300;

/// The calls in which the samples are that `wanted` picks, as a small flame graph; none if there
/// are none.
pub fn calls(
    profile: &Profile,
    kind: SeriesKind,
    caption: &str,
    wanted: impl Fn(&Cell) -> bool,
) -> Option<Figure> {
    let unit = match kind.value_type().unit {
        Counted::Nanoseconds => Unit::Nanoseconds,
        Counted::Bytes => Unit::Bytes,
        Counted::Count => Unit::Count,
    };
    let cells = profile.series(kind).cells.iter().filter(|cell| wanted(cell));
    stacks(profile, caption, unit, cells.map(|cell| (cell.stack, cell.weight)))
}

/// Stacks with weights, as a small flame graph; none if there are none.
pub fn stacks(
    profile: &Profile,
    caption: &str,
    unit: Unit,
    weights: impl IntoIterator<Item = (StackId, u64)>,
) -> Option<Figure> {
    let mut own = vec![Totals::default(); profile.tables.stack_count()];
    for (stack, weight) in weights {
        if let Some(sum) = own.get_mut(stack.index()) {
            sum.samples = sum.samples.saturating_add(1);
            sum.weight = sum.weight.saturating_add(weight);
        }
    }
    let options = TreeOptions { merge_recursion: true, ..TreeOptions::default() };
    let tree = CallTree::of_sums(&profile.tables, &own, options);
    let least = (tree.total().weight as f64 * LEAST).max(1.0);
    let mut nodes = Vec::new();
    let mut open: Vec<(usize, u32)> = Vec::new();
    let add = |node: Option<usize>, depth: u32, open: &mut Vec<(usize, u32)>| {
        // The heaviest is taken first.
        let weight = |child: &usize| tree.nodes().get(*child).map_or(0, |own| own.total.weight);
        let mut children = tree.children(node);
        children.retain(|child| weight(child) as f64 >= least);
        order::sort_by_key(&mut children, weight);
        open.extend(children.into_iter().map(|child| (child, depth)));
    };
    add(None, 0, &mut open);
    while let (Some((id, depth)), true) = (open.pop(), nodes.len() < MOST) {
        let Some(node) = tree.nodes().get(id) else { continue };
        let name = |style| profile.tables.function_name(node.function, style);
        nodes.push(WeightedNode {
            depth,
            forms: vec![name(NameStyle::FULL), name(NameStyle::SHORT)],
            place: node
                .line
                .map(|line| format!("{}:{}", profile.tables.file(line.file), line.line)),
            kind: profile.tables.frame_kind(node.function),
            weight: node.total.weight as f64,
        });
        add(Some(id), depth + 1, &mut open);
    }
    let weights = Weights { unit, noun: "method", nodes };
    (!weights.nodes.is_empty()).then(|| Figure::weights(caption, weights))
}

/// Values over the time of a recording; none of less than two.
pub fn over_time<'a>(
    profile: &Profile,
    title: &str,
    unit: Unit,
    values: impl IntoIterator<Item = &'a (Nanos, f64)>,
) -> Option<Figure> {
    let since = |time: Nanos| time.saturating_sub(profile.info.start) as f64 / 1e9;
    line(title, unit, values.into_iter().map(|(time, value)| (since(*time), *value)))
}

/// The share of the time in GC pauses, over the time of the recording.
pub fn pauses(profile: &Profile) -> Option<Figure> {
    /// Parts of the time, at most, and how long one is at least.
    const PARTS: u64 = 60;
    const SHORTEST: Nanos = 100_000_000;
    let start = profile.info.start;
    let part = (profile.duration() / PARTS).max(SHORTEST);
    let mut paused = vec![0_u64; usize::try_from(profile.duration() / part).unwrap_or(0)];
    for pause in profile.pauses.iter().filter(|pause| pause.reason != PROFILER_PAUSE) {
        let (from, to) =
            (pause.suspend_start.saturating_sub(start), pause.resume_end.saturating_sub(start));
        let first = usize::try_from(from / part).unwrap_or(usize::MAX);
        for (sum, at) in paused.iter_mut().zip(0_u64..).skip(first) {
            if at * part >= to {
                break;
            }
            let in_part = to.min((at + 1) * part).saturating_sub(from.max(at * part));
            *sum = sum.saturating_add(in_part);
        }
    }
    let share = |(sum, at): (&u64, u64)| {
        let middle = (at as f64 + 0.5) * part as f64 / 1e9;
        (middle, *sum as f64 / part as f64)
    };
    line("share of the time in GC pauses", Unit::Share, paused.iter().zip(0_u64..).map(share))
}

/// Values by seconds; none of less than two.
pub fn line(
    title: &str,
    unit: Unit,
    values: impl IntoIterator<Item = (f64, f64)>,
) -> Option<Figure> {
    let (seconds, values): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
    let series = Series { title: title.to_owned(), unit, seconds, values };
    (series.values.len() > 1).then(|| Figure::series(title, series))
}

/// How the objects of a type grew from one heap snapshot to the next.
pub fn growth(report: &LeakReport, row: &GrowthRow) -> Option<Figure> {
    let seconds = report.looks.iter().map(|look| look.seconds);
    let values = seconds.zip(row.objects.iter().map(|objects| *objects as f64));
    line(&format!("objects of {}", without_namespaces(&row.name)), Unit::Count, values)
}

/// What retains objects: paths from roots.
pub fn retention<'a>(
    caption: &str,
    paths: impl IntoIterator<Item = (&'a PathRow, u64)>,
) -> Option<Figure> {
    let graph = retention_graph(paths);
    (!graph.nodes().is_empty()).then(|| Figure::graph(caption, graph))
}
