//! Asynchronous methods, for people.

use super::{
    hot::{Hot, HotPath},
    report::{FrameRow, Report, StackRow},
};
use crate::console::printable;
use heap::Cause;
use report::format::{count, counted, duration, utc};
use std::fmt::Write as _;

/// Methods of a cause that are named.
const METHODS: usize = 3;

/// What waits in a process.
pub fn report(report: &Report) -> String {
    let mut text = String::new();
    head(&mut text, report);
    causes(&mut text, report);
    stacks(&mut text, report);
    if let Some(hot) = &report.hot {
        paths(&mut text, hot);
    }
    text
}

fn seconds(seconds: f64) -> String {
    duration((seconds * 1e9) as u64)
}

fn head(text: &mut String, report: &Report) {
    let _ =
        write!(text, "Asynchronous methods of {} (pid {})", printable(&report.process), report.pid);
    if !report.runtime.is_empty() {
        let _ = write!(text, ", {}", report.runtime);
    }
    if report.time_unix_ms > 0 {
        let _ = write!(text, ", {}", utc(report.time_unix_ms));
    }
    let _ = write!(text, "\n  {} pending", counted(report.pending, "method"));
    if let [first, .., last] = report.looks.as_slice() {
        let apart = seconds(last.seconds - first.seconds);
        let (pending, snapshots) = (count(first.pending), report.looks.len());
        let _ = write!(text, ", {pending} in the first of {snapshots} snapshots {apart} before");
    }
    let pauses: Vec<String> =
        report.looks.iter().filter_map(|look| look.pause_seconds).map(seconds).collect();
    if !pauses.is_empty() {
        let _ = write!(text, "\n  the process was paused for {}", pauses.join(" and for "));
    }
    text.push('\n');
    match (report.complete, &report.note) {
        (false, note) => {
            let note = note.as_deref().unwrap_or("not all objects are in it");
            let _ = writeln!(text, "  NOT COMPLETE: {}", printable(note));
        }
        (true, Some(note)) => _ = writeln!(text, "  note: {}", printable(note)),
        (true, None) => {}
    }
    if !report.states && report.pending > 0 {
        text.push_str(
            "  who awaits whom is derived from references only, without states: these come with a second snapshot\n",
        );
    }
}

fn causes(text: &mut String, report: &Report) {
    if report.causes.is_empty() {
        return;
    }
    text.push_str("\nWhat is waited for\n");
    for row in &report.causes {
        let named =
            |(name, times): &(String, u64)| format!("{} × {}", count(*times), printable(name));
        let mut methods: Vec<String> = row
            .methods
            .iter()
            .filter(|(name, _)| !name.is_empty())
            .take(METHODS)
            .map(named)
            .collect();
        if row.methods.len() > METHODS {
            methods.push(format!("{} others", row.methods.len() - METHODS));
        }
        let _ = writeln!(text, "  {:>9}  {}", count(row.count), printable(&row.what));
        if !methods.is_empty() {
            let _ = writeln!(text, "  {:>9}  by {}", "", methods.join(", "));
        }
    }
}

/// A node of the picture: methods that stand in the same place under the same ones.
struct Node<'a> {
    frame: &'a FrameRow,
    count: u64,
    children: Vec<usize>,
    /// What waits right here.
    leaves: Vec<&'a StackRow>,
}

fn stacks(text: &mut String, report: &Report) {
    if report.stacks.is_empty() {
        return;
    }
    text.push_str("\nWho awaits whom\n");
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
    roots.sort_by_key(|root| std::cmp::Reverse(nodes[*root].count));
    // Drawn without recursion: a stack has hundreds of methods at times.
    let mut todo: Vec<(usize, String, bool, bool)> =
        roots.iter().rev().map(|root| (*root, String::new(), true, true)).collect();
    while let Some((at, before, is_last, is_root)) = todo.pop() {
        let node = &nodes[at];
        let (branch, below) = match (is_root, is_last) {
            (true, _) => ("", ""),
            (false, true) => ("└─ ", "   "),
            (false, false) => ("├─ ", "│  "),
        };
        let _ = writeln!(
            text,
            "  {before}{branch}{} {}{}",
            count(node.count),
            printable(&node.frame.method),
            place(node.frame)
        );
        let inner = format!("{before}{below}");
        for (index, stack) in node.leaves.iter().enumerate() {
            let last = index + 1 == node.leaves.len() && node.children.is_empty();
            let _ = writeln!(text, "  {inner}{} {}", if last { "└─" } else { "├─" }, leaf(stack));
        }
        let mut children = node.children.clone();
        children.sort_by_key(|child| nodes[*child].count);
        for (index, child) in children.iter().enumerate() {
            // Drawn from the back.
            todo.push((*child, inner.clone(), index == 0, false));
        }
    }
    if report.left_out > 0 {
        let _ = writeln!(text, "  {} more", counted(report.left_out, "stack"));
    }
}

/// Where a method waits.
fn place(frame: &FrameRow) -> String {
    let mut place = String::new();
    match frame.state {
        Some(state) if state >= 0 => _ = write!(place, "  state {state}"),
        Some(_) => place.push_str("  runs"),
        None => {}
    }
    if let (Some(file), Some(line)) = (&frame.file, frame.line) {
        let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let _ = write!(place, "  {}:{line}", printable(file));
    }
    place
}

fn leaf(stack: &StackRow) -> String {
    let mut text = match (stack.cut, stack.cause) {
        (true, _) => "awaits further methods, too many to show".to_owned(),
        (false, Cause::Running) => return "runs, or is about to".to_owned(),
        (false, _) => format!("awaits {}", printable(&stack.what)),
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

fn paths(text: &mut String, hot: &Hot) {
    let _ = writeln!(
        text,
        "\n\
            Async hot paths\n  {} of {} of CPU time was within asynchronous methods; so was {} of wall time",
        seconds(hot.async_cpu_seconds),
        seconds(hot.cpu_seconds),
        seconds(hot.async_wall_seconds)
    );
    for path in &hot.paths {
        let _ = writeln!(
            text,
            "  {:>5.1} %  CPU {}, wall {}{}",
            path.cpu_share * 100.0,
            seconds(path.cpu_seconds),
            seconds(path.wall_seconds),
            mark(path)
        );
        for (depth, frame) in path.frames.iter().enumerate() {
            let arrow = if depth == 0 { "" } else { "awaited by " };
            let _ = writeln!(text, "           {arrow}{}", printable(frame));
        }
        if let Some(hottest) =
            path.hottest.as_ref().filter(|hottest| path.frames.first() != Some(hottest))
        {
            let _ = writeln!(text, "           most in {}", printable(hottest));
        }
    }
    if hot.paths.iter().any(|path| path.estimated) {
        text.push_str("  ~ estimated: callers are those that the snapshots saw awaiting such methods, in proportion\n");
    }
    if hot.paths.iter().any(|path| path.open) {
        text.push_str("  ? no snapshot saw who awaits it\n");
    }
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
  2 stacks more
";
        assert_eq!(super::report(&report), expected);
    }
}
