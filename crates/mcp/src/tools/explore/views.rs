//! What `explore` shows of a profile.

use crate::{
    answer::Answer,
    call::Failure,
    foreign::{NAME, SENTENCE, clean},
    tools::next,
};
use document::{
    Document, Section,
    format::{bytes, count, duration, file_name, percent},
    text::{self, Style},
};
use profile::{
    CallTree, NameStyle, Profile, SeriesKind, TreeOptions, Unit,
    session::{FunctionId, StackId},
};
use serde_json::json;
use std::{cmp::Reverse, collections::HashMap};

/// Rows of a list.
const ROWS: usize = 20;

/// Rows of the second list of functions.
const FEW: usize = 10;

/// Frames of a call path.
const STEPS: usize = 15;

/// Share of a tree from which on a node is shown.
const SHARE: f64 = 0.01;

/// Nodes of a tree.
const NODES: usize = 60;

/// Most spaces before a node.
const INDENT: usize = 24;

/// A weight of a series in its unit.
fn weight(kind: SeriesKind, weight: u64) -> String {
    match kind.value_type().unit {
        Unit::Nanoseconds => duration(weight),
        Unit::Bytes => bytes(weight),
        Unit::Count => count(weight),
    }
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

fn name(profile: &Profile, function: FunctionId) -> String {
    clean(&profile.tables.function_name(function, NameStyle::FULL), NAME)
}

/// A function that a handle names.
fn checked(profile: &Profile, function: FunctionId) -> Result<FunctionId, Failure> {
    match function.index() < profile.tables.functions.len() {
        true => Ok(function),
        false => Err(Failure::Arguments("`of` is no function of this session".to_owned())),
    }
}

/// The first sentence about a series.
fn head(profile: &Profile, kind: SeriesKind, what: &str) -> Answer {
    let totals = profile.series(kind).totals;
    let mut answer = Answer::new(format!(
        "{what} of {}: {} in {} samples over {}.",
        kind.id(),
        weight(kind, totals.weight),
        count(totals.samples),
        duration(profile.duration()),
    ));
    answer.fact("series", kind.id());
    answer
}

/// What there is in the session.
pub fn overview(profile: &Profile, document: &Document, session: &str) -> Answer {
    let seconds = duration(profile.duration());
    let mut answer = Answer::new(format!("A session of process {}, {seconds}.", profile.info.pid));
    let (mut series, named) = (Vec::new(), next::named(session));
    for kind in SeriesKind::ALL.into_iter().filter(|kind| !profile.series(*kind).is_empty()) {
        series.push(kind.id());
        let totals = profile.series(kind).totals;
        let top = profile.top_functions(kind);
        let top = top.first().map_or_else(String::new, |top| {
            let own = percent(top.own_share.share);
            format!("; {own} in f{} {}", top.function.0, name(profile, top.function))
        });
        let samples = count(totals.samples);
        answer.add(format!(
            "series {}: {} in {samples} samples{top}",
            kind.id(),
            weight(kind, totals.weight)
        ));
    }
    for (index, section) in document.sections.iter().enumerate() {
        let lead = section.lead.join(" ");
        let title = clean(&section.title, NAME / 2);
        answer.add(format!("section {index} {title}: {}", clean(&lead, NAME)));
    }
    if let Some(first) = series.first() {
        answer.next(format!("explore {{\"session\":{named},\"series\":\"{first}\"}}"));
    }
    answer.next(format!("explore {{\"session\":{named},\"of\":\"1\"}} for section 1"));
    answer.fact("session", session);
    answer.fact("series", json!(series));
    answer
}

/// A section of the report.
pub fn section(document: &Document, number: usize) -> Result<Answer, Failure> {
    let Some(section) = document.sections.get(number) else {
        let all = document.sections.len();
        let cause =
            format!("there is no section {number}; they are 0 to {}", all.saturating_sub(1));
        return Err(Failure::Arguments(cause));
    };
    let mut answer = Answer::new(format!("Section {number}."));
    answer.add(clean(&section.title, NAME));
    for sentence in &section.lead {
        answer.add(clean(sentence, 2 * SENTENCE));
    }
    // Lines of tables and trees are whole if the width is not known.
    let blocks = Section { blocks: section.blocks.clone(), ..Section::default() };
    let text = text::of(&Document { sections: vec![blocks] }, Style::default());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        answer.add(clean(line.trim_end(), SENTENCE));
    }
    Ok(answer)
}

/// Functions by weight.
pub fn functions(profile: &Profile, kind: SeriesKind, session: &str) -> Answer {
    let mut answer = head(profile, kind, "Functions");
    let all = profile.top_functions(kind);
    let row = |of: &profile::FunctionTotals| {
        format!(
            "{} itself, {} with callees  f{} {}",
            percent(of.own_share.share),
            percent(of.total_share.share),
            of.function.0,
            name(profile, of.function),
        )
    };
    answer.add("by own weight:");
    for of in all.iter().filter(|of| of.own.weight > 0).take(ROWS) {
        answer.add(row(of));
    }
    let mut own: Vec<_> = all
        .iter()
        .filter(|of| {
            profile.tables.is_managed(of.function) && !profile.tables.is_framework(of.function)
        })
        .collect();
    order::sort_by_key(&mut own, |of| (Reverse(of.total.weight), of.function));
    answer.add("methods of the program, by weight with callees:");
    own.iter().take(FEW).for_each(|of| answer.add(row(of)));
    if let Some(first) = own.first() {
        answer.next(next::function(session, kind.id(), first.function.0));
    }
    answer
        .next("the same with \"of\":\"f…\" for callers, or with \"view\":\"callees\" or \"tree\"");
    answer
}

/// For one function: where it is on a stack, outermost, as positions from the leaf.
fn outermost(functions: &[FunctionId], of: FunctionId) -> Option<usize> {
    functions.iter().rposition(|function| *function == of)
}

/// Frames that are looked at for callers and callees.
const MOST_FRAMES: usize = 200_000_000;

/// Sums over all stacks with a function.
#[derive(Default)]
struct Around {
    /// Stacks that were not looked at, because those that weigh more have very many frames.
    left_out: usize,
    total: u64,
    /// Weight by neighbor; `None` is the function itself, or the root of the thread.
    neighbors: HashMap<Option<FunctionId>, u64>,
    /// The stack with the most weight: from the leaf, and where the function is in it.
    heaviest: Option<(u64, Vec<FunctionId>, usize)>,
}

impl Around {
    fn of(
        profile: &Profile,
        kind: SeriesKind,
        of: FunctionId,
        neighbor: impl Fn(&[FunctionId], usize) -> Option<FunctionId>,
    ) -> Self {
        let mut around = Self::default();
        let mut by_stack: HashMap<StackId, u64> = HashMap::new();
        for cell in &profile.series(kind).cells {
            let sum = by_stack.entry(cell.stack).or_default();
            *sum = sum.saturating_add(cell.weight);
        }
        let mut by_stack: Vec<(StackId, u64)> = by_stack.into_iter().collect();
        order::sort_by_key(&mut by_stack, |(stack, weight)| (Reverse(*weight), *stack));
        let mut walked = 0;
        for (stack, weight) in by_stack {
            if walked > MOST_FRAMES {
                around.left_out += 1;
                continue;
            }
            let walk = profile.tables.walk(stack);
            let functions: Vec<_> =
                walk.map(|frame| profile.tables.frame(frame).function).collect();
            walked += functions.len();
            let Some(at) = outermost(&functions, of) else { continue };
            around.total = around.total.saturating_add(weight);
            let part = around.neighbors.entry(neighbor(&functions, at)).or_default();
            *part = part.saturating_add(weight);
            let is_heavier = around
                .heaviest
                .as_ref()
                .is_none_or(|(most, known, _)| (weight, &functions) > (*most, known));
            if is_heavier {
                around.heaviest = Some((weight, functions, at));
            }
        }
        around
    }

    /// The neighbor with the most weight, if it is a function.
    fn most(&self) -> Option<FunctionId> {
        let key =
            |(function, weight): &(&Option<FunctionId>, &u64)| (**weight, Reverse(**function));
        *self.neighbors.iter().max_by_key(key)?.0
    }

    fn add(&self, answer: &mut Answer, profile: &Profile, kind: SeriesKind, itself: &str) {
        let mut rows: Vec<_> = self.neighbors.iter().collect();
        order::sort_by_key(&mut rows, |(function, weight)| (Reverse(**weight), **function));
        for (function, part) in rows.into_iter().take(ROWS) {
            let named = match function {
                Some(function) => format!("f{} {}", function.0, name(profile, *function)),
                None => itself.to_owned(),
            };
            answer.add(format!(
                "{} {}  {named}",
                percent(share(*part, self.total)),
                weight(kind, *part)
            ));
        }
    }
}

/// Who calls a function.
pub fn callers(
    profile: &Profile,
    kind: SeriesKind,
    of: FunctionId,
    session: &str,
) -> Result<Answer, Failure> {
    let of = checked(profile, of)?;
    let around = Around::of(profile, kind, of, |functions, at| functions.get(at + 1).copied());
    let mut answer = head(profile, kind, "Callers");
    about(&mut answer, profile, kind, of, &around);
    answer.add("called by:");
    around.add(&mut answer, profile, kind, "nothing: it is the root of the thread");
    if let Some((_, functions, at)) = &around.heaviest {
        answer.add("heaviest path to it, from it to the root:");
        for function in functions.iter().skip(*at).take(STEPS) {
            answer.add(format!("  f{} {}", function.0, name(profile, *function)));
        }
    }
    if let Some(caller) = around.most().filter(|caller| *caller != of) {
        answer.next(next::function(session, kind.id(), caller.0));
    }
    answer.next("the same with \"of\" of a caller, or with \"view\":\"callees\"");
    Ok(answer)
}

/// What a function calls.
pub fn callees(profile: &Profile, kind: SeriesKind, of: FunctionId) -> Result<Answer, Failure> {
    let of = checked(profile, of)?;
    let inner = |functions: &[FunctionId], at: usize| functions.get(at.checked_sub(1)?).copied();
    let around = Around::of(profile, kind, of, inner);
    let mut answer = head(profile, kind, "Callees");
    about(&mut answer, profile, kind, of, &around);
    answer.add("of that:");
    around.add(&mut answer, profile, kind, "itself");
    if let Some((_, functions, at)) = &around.heaviest {
        answer.add("heaviest path below it, from it to the leaf:");
        for function in functions.iter().take(at + 1).rev().take(STEPS) {
            answer.add(format!("  f{} {}", function.0, name(profile, *function)));
        }
    }
    answer.next("the same with \"of\" of a callee");
    Ok(answer)
}

fn about(
    answer: &mut Answer,
    profile: &Profile,
    kind: SeriesKind,
    of: FunctionId,
    around: &Around,
) {
    let all = profile.series(kind).totals.weight;
    let total = weight(kind, around.total);
    let part = percent(share(around.total, all));
    answer.add(format!("f{} {}: {total}, {part} of all", of.0, name(profile, of)));
    if around.left_out > 0 {
        let left_out = count(around.left_out as u64);
        answer.say(format!("The {left_out} lightest stacks were left out: all are very deep."));
    }
    if let Some(module) = profile.tables.function_module(of) {
        answer.add(format!("module {}", clean(module, NAME)));
    }
}

/// Calls below a call path, or all.
pub fn tree(profile: &Profile, kind: SeriesKind, of: Option<StackId>) -> Result<Answer, Failure> {
    let options = TreeOptions { merge_recursion: true, ..TreeOptions::default() };
    let tree = CallTree::new(&profile.tables, profile.series(kind), options);
    let start = match of {
        None => None,
        Some(stack) => {
            let found = (stack.index() < profile.tables.stack_count()).then(|| tree.node_of(stack));
            let wrong = "`of` is no call path with samples of this series, time and thread";
            let node = found.flatten().ok_or_else(|| Failure::Arguments(wrong.to_owned()))?;
            Some(node)
        }
    };
    let mut answer = head(profile, kind, "Call tree");
    let shown = Nodes { profile, tree: &tree, handles: handles(profile, &tree) }.lines(start);
    shown.into_iter().for_each(|line| answer.add(line));
    answer.next("the same with \"of\":\"s…\" for what is below, or \"of\":\"f…\" of functions");
    Ok(answer)
}

/// A call path for each node: the first stack that ends there.
fn handles(profile: &Profile, tree: &CallTree) -> Vec<u32> {
    let mut handles = vec![u32::MAX; tree.nodes().len()];
    for stack in 0..profile.tables.stack_count() as u32 {
        if let Some(node) = tree.node_of(StackId(stack))
            && let Some(handle) = handles.get_mut(node)
            && *handle == u32::MAX
        {
            *handle = stack;
        }
    }
    handles
}

struct Nodes<'a> {
    profile: &'a Profile,
    tree: &'a CallTree,
    handles: Vec<u32>,
}

impl Nodes<'_> {
    /// Lines of the nodes from `start` on, parents before their children. A native frame, or one of
    /// .NET itself, with one callee is not shown.
    fn lines(&self, start: Option<usize>) -> Vec<String> {
        let all = self.tree.total().weight;
        let base = start
            .and_then(|node| self.tree.nodes().get(node))
            .map_or(all, |node| node.total.weight);
        let mut lines = Vec::new();
        let mut open: Vec<(usize, usize)> = match start {
            Some(node) => vec![(node, 0)],
            None => self.heavy(None, base).into_iter().rev().map(|node| (node, 0)).collect(),
        };
        while let Some((node, depth)) = open.pop() {
            if lines.len() >= NODES {
                break;
            }
            let children = self.heavy(Some(node), base);
            let is_shown = Some(node) == start || self.is_shown(node, children.len(), base);
            if is_shown {
                lines.extend(self.line(node, depth, all));
            }
            let below = depth + usize::from(is_shown);
            open.extend(children.into_iter().rev().map(|child| (child, below)));
        }
        lines
    }

    /// Children that matter, greatest first.
    fn heavy(&self, node: Option<usize>, base: u64) -> Vec<usize> {
        let mut children = self.tree.children(node);
        children.retain(|child| {
            let weight = self.tree.nodes().get(*child).map_or(0, |node| node.total.weight);
            share(weight, base) >= SHARE
        });
        children
    }

    fn is_shown(&self, node: usize, children: usize, base: u64) -> bool {
        let Some(node) = self.tree.nodes().get(node) else { return false };
        let tables = &self.profile.tables;
        let of_program = tables.is_managed(node.function) && !tables.is_framework(node.function);
        of_program || children != 1 || share(node.own.weight, base) >= SHARE
    }

    fn line(&self, node: usize, depth: usize, all: u64) -> Option<String> {
        let handle = self.handles.get(node)?;
        let node = self.tree.nodes().get(node)?;
        let tables = &self.profile.tables;
        let line = node.line.map_or_else(String::new, |line| {
            format!(" ({}:{})", clean(file_name(tables.file(line.file)), 60), line.line)
        });
        Some(format!(
            "{}{} ({} itself) s{handle} f{} {}{line}",
            " ".repeat(depth.min(INDENT)),
            percent(share(node.total.weight, all)),
            percent(share(node.own.weight, all)),
            node.function.0,
            name(self.profile, node.function),
        ))
    }
}
