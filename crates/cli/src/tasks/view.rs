//! Asynchronous methods, for people.

use super::{
    hot::{Hot, HotPath},
    report::{FrameRow, Report, StackRow},
};
use crate::heap::view::completeness;
use document::{
    Cell, Document, Section, Table, Tree,
    format::{count, counted, duration, file_name, utc},
    left, right,
};
use heap::Cause;
use std::fmt::Write as _;

/// Methods of a cause that are named.
const METHODS: usize = 3;

/// What waits in a process.
pub fn report(report: &Report) -> Document {
    let sections =
        [Some(head(report)), causes(report), stacks(report), report.hot.as_ref().map(paths)];
    Document { sections: sections.into_iter().flatten().collect() }
}

fn seconds(seconds: f64) -> String {
    duration((seconds * 1e9) as u64)
}

fn head(report: &Report) -> Section {
    let mut title = format!("Asynchronous methods of {} (pid {})", report.process, report.pid);
    if !report.runtime.is_empty() {
        let _ = write!(title, ", {}", report.runtime);
    }
    if report.time_unix_ms > 0 {
        let _ = write!(title, ", {}", utc(report.time_unix_ms));
    }
    let mut section = Section::new(title);
    let mut pending = format!("{} pending", counted(report.pending, "method"));
    if let [first, .., last] = report.looks.as_slice() {
        let apart = seconds(last.seconds - first.seconds);
        let (before, snapshots) = (count(first.pending), report.looks.len());
        let _ = write!(pending, ", {before} in the first of {snapshots} snapshots {apart} before");
    }
    section.say(pending);
    let pauses: Vec<String> =
        report.looks.iter().filter_map(|look| look.pause_seconds).map(seconds).collect();
    if !pauses.is_empty() {
        section.say(format!("the process was paused for {}", pauses.join(" and for ")));
    }
    section.lead.extend(completeness(report.complete, report.note.as_deref()));
    if !report.states && report.pending > 0 {
        section.say(
            "who awaits whom is derived from references only, without states: these come with a \
             second snapshot",
        );
    }
    section
}

fn causes(report: &Report) -> Option<Section> {
    let rows = report.causes.iter().map(|row| {
        let named = |(name, times): &(String, u64)| format!("{} × {name}", count(*times));
        let methods = row.methods.iter().filter(|(name, _)| !name.is_empty());
        let mut methods: Vec<String> = methods.take(METHODS).map(named).collect();
        if row.methods.len() > METHODS {
            methods.push(format!("{} others", row.methods.len() - METHODS));
        }
        vec![Cell::count(row.count), Cell::text(&row.what), Cell::text(methods.join(", "))]
    });
    let table = Table::of(vec![right("methods"), left("wait for"), left("by")], rows)?;
    let mut section = Section::new("What is waited for");
    section.add(table);
    Some(section)
}

/// A node of the picture: methods that stand in the same place under the same ones.
struct Node<'a> {
    frame: &'a FrameRow,
    count: u64,
    children: Vec<usize>,
    /// What waits right here.
    leaves: Vec<&'a StackRow>,
}

fn stacks(report: &Report) -> Option<Section> {
    if report.stacks.is_empty() {
        return None;
    }
    let mut nodes: Vec<Node> = Vec::new();
    let mut roots: Vec<usize> = Vec::new();
    for stack in &report.stacks {
        let mut at: Option<usize> = None;
        for frame in stack.frames.iter().rev() {
            let siblings = at.map_or(&roots, |at| &nodes[at].children);
            let known = siblings.iter().copied().find(|one| nodes[*one].frame == frame);
            let node = known.unwrap_or_else(|| {
                nodes.push(Node { frame, count: 0, children: Vec::new(), leaves: Vec::new() });
                let node = nodes.len() - 1;
                match at {
                    Some(at) => nodes[at].children.push(node),
                    None => roots.push(node),
                }
                node
            });
            nodes[node].count += stack.count;
            at = Some(node);
        }
        if let Some(at) = at {
            nodes[at].leaves.push(stack);
        }
    }
    order::sort_by_key(&mut roots, |root| std::cmp::Reverse(nodes[*root].count));
    let mut tree = Tree { branches: true, ..Tree::default() };
    // Drawn without recursion: a stack has hundreds of methods at times.
    let mut todo: Vec<(usize, usize)> = roots.into_iter().rev().map(|root| (root, 0)).collect();
    while let Some((at, depth)) = todo.pop() {
        let node = &nodes[at];
        let name = Cell::name(format!("{} {}", count(node.count), node.frame.method));
        tree.push(depth, std::iter::once(name).chain(place(node.frame)));
        for stack in &node.leaves {
            tree.push(depth + 1, [Cell::text(leaf(stack))]);
        }
        let mut children = node.children.clone();
        // The last one is drawn next.
        order::sort_by_key(&mut children, |child| nodes[*child].count);
        todo.extend(children.into_iter().map(|child| (child, depth + 1)));
    }
    let mut section = Section::new("Who awaits whom");
    section.add(Tree { more: report.left_out as usize, ..tree });
    Some(section)
}

/// Where a method waits.
fn place(frame: &FrameRow) -> impl Iterator<Item = Cell> {
    let state = frame.state.map(|state| match state {
        state if state >= 0 => format!("state {state}"),
        _ => "runs".to_owned(),
    });
    let place = frame.file.as_ref().zip(frame.line);
    let place = place.map(|(file, line)| format!("{}:{line}", file_name(file)));
    [state, place].into_iter().flatten().map(Cell::text)
}

fn leaf(stack: &StackRow) -> String {
    let mut text = match (stack.cut, stack.cause) {
        (true, _) => "awaits further methods, too many to show".to_owned(),
        (false, Cause::Running) => return "runs, or is about to".to_owned(),
        (false, _) => format!("awaits {}", stack.what),
    };
    if let (Some(since), Some(apart)) = (stack.since_first_look, stack.seconds) {
        let _ = match since {
            0 => write!(text, "; none for {}", seconds(apart)),
            since if since == stack.count => write!(text, "; for {} at least", seconds(apart)),
            since => write!(text, "; {} of them for {} at least", count(since), seconds(apart)),
        };
    }
    text
}

fn paths(hot: &Hot) -> Section {
    let mut section = Section::new("Async hot paths");
    section.say(format!(
        "{} of {} of CPU time was within asynchronous methods; so was {} of wall time",
        seconds(hot.async_cpu_seconds),
        seconds(hot.cpu_seconds),
        seconds(hot.async_wall_seconds)
    ));
    if hot.paths.iter().any(|path| path.estimated) {
        section.say(
            "~ estimated: callers are those that the snapshots saw awaiting such methods, in \
             proportion",
        );
    }
    if hot.paths.iter().any(|path| path.open) {
        section.say("? no snapshot saw who awaits it");
    }
    let mut tree = Tree::default();
    for path in &hot.paths {
        let (cpu, wall) = (seconds(path.cpu_seconds), seconds(path.wall_seconds));
        let times = format!("CPU {cpu}, wall {wall}{}", mark(path));
        tree.push(0, [Cell::share(path.cpu_share), Cell::text(times)]);
        for (depth, frame) in path.frames.iter().enumerate() {
            let arrow = if depth == 0 { "" } else { "awaited by " };
            tree.push(1, [Cell::text(format!("{arrow}{frame}"))]);
        }
        if let Some(hottest) =
            path.hottest.as_ref().filter(|hottest| path.frames.first() != Some(hottest))
        {
            tree.push(1, [Cell::text(format!("most in {hottest}"))]);
        }
    }
    section.add(tree);
    section
}

fn mark(path: &HotPath) -> &'static str {
    match (path.estimated, path.open) {
        (true, _) => " ~",
        (false, true) => " ?",
        (false, false) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::SnapshotRow;
    use super::*;

    #[test]
    fn stacks_are_drawn_as_a_tree() {
        let frame = |method: &str, state, line| FrameRow {
            method: method.to_owned(),
            kind: "method",
            type_name: String::new(),
            state: Some(state),
            file: Some("/src/Shop.cs".to_owned()),
            line: Some(line),
        };
        let stack = |count, since, frames: &[FrameRow], what: &str| StackRow {
            count,
            since_first_look: Some(since),
            seconds: Some(3.0),
            cause: Cause::Other,
            what: what.to_owned(),
            awaits: None,
            cut: false,
            frames: frames.to_vec(),
        };
        let (ask, pay, order) =
            (frame("Shop.Ask", 0, 7), frame("Shop.Pay", -1, 9), frame("Shop.Order", 1, 12));
        let look = |seconds, pending| SnapshotRow {
            seconds,
            pause_seconds: Some(0.04),
            pending,
            objects: 100,
            complete: true,
        };
        let report = Report {
            schema: 1,
            process: "shop".into(),
            pid: 7,
            runtime: ".NET 9.0.5".into(),
            time_unix_ms: 0,
            complete: true,
            note: None,
            looks: vec![look(0.0, 9), look(3.0, 13)],
            pending: 13,
            states: true,
            causes: vec![],
            stacks: vec![
                stack(5, 5, &[ask, order.clone()], "a semaphore"),
                stack(2, 0, &[pay, order.clone()], "the network"),
                stack(1, 1, &[order], "time"),
            ],
            left_out: 2,
            hot: None,
        };
        let expected = "\
Asynchronous methods of shop (pid 7), .NET 9.0.5
  13 methods pending, 9 in the first of 2 snapshots 3.00 s before
  the process was paused for 40.0 ms and for 40.0 ms

Who awaits whom
  8 Shop.Order  state 1  Shop.cs:12
  ├─ awaits time; for 3.00 s at least
  ├─ 5 Shop.Ask  state 0  Shop.cs:7
  │  └─ awaits a semaphore; for 3.00 s at least
  └─ 2 Shop.Pay  runs  Shop.cs:9
     └─ awaits the network; none for 3.00 s
  … 2 more
";
        let text = document::text::of(&super::report(&report), document::text::Style::default());
        assert_eq!(text, expected);
    }
}
