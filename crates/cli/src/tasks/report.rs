//! What snapshots show of asynchronous methods, in a form for people and programs.

use super::hot::Hot;
use crate::{
    heap::source::{self, MemoryArgs, Reading},
    session_file,
};
use anyhow::Context;
use heap::{AsyncStack, Cause, Snapshot, Tasks, blocks_a_thread, is_link};
use schemars::JsonSchema;
use serde::Serialize;
use session::{SessionReader, SessionRecord};
use std::{
    collections::{BTreeMap, HashMap},
    io::BufReader,
    path::Path,
};
use symbols::demangle_compiler_names;

/// Version of the form; fields may be added without a new one.
const SCHEMA: u32 = 1;

/// What waits in a process.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    pub schema: u32,
    /// Name of the process.
    pub process: String,
    pub pid: u32,
    pub runtime: String,
    /// When the last snapshot was taken, in milliseconds since 1970.
    pub time_unix_ms: u64,
    /// Whether the last snapshot is complete.
    pub complete: bool,
    /// Why it is not, or what else it lacks.
    pub note: Option<String>,
    /// The snapshots, in order.
    #[serde(rename = "snapshots")]
    pub looks: Vec<SnapshotRow>,
    /// Methods that wait in the last snapshot.
    pub pending: u64,
    /// Whether their states were read in the last snapshot.
    pub states: bool,
    /// What the innermost methods wait for, most first.
    pub causes: Vec<CauseRow>,
    /// Methods by who awaits whom, most frequent first.
    pub stacks: Vec<StackRow>,
    /// Stacks that are not among them, because there were too many, or too few of their kind.
    pub left_out: u64,
    /// Where time went meanwhile, where that was sampled.
    pub hot: Option<Hot>,
}

/// A snapshot.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SnapshotRow {
    /// Since the first one.
    pub seconds: f64,
    /// How long the process was paused for it.
    pub pause_seconds: Option<f64>,
    /// Methods that waited.
    pub pending: u64,
    /// Objects on the heap.
    pub objects: u64,
    pub complete: bool,
}

/// What methods wait for.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CauseRow {
    pub cause: Cause,
    /// The same in words.
    pub what: String,
    /// Stacks.
    pub count: u64,
    /// The methods that wait for it, most first.
    pub methods: Vec<(String, u64)>,
}

/// Methods that await each other in the same way.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StackRow {
    /// How many there are.
    pub count: u64,
    /// How many of them are proven to wait since the first snapshot, for the same task; 0 where
    /// none of them can. `None` where that is not known, for one snapshot, and for methods that
    /// run.
    #[serde(rename = "since_first_snapshot")]
    pub since_first_look: Option<u64>,
    /// Seconds between the first snapshot and the last.
    pub seconds: Option<f64>,
    /// What the first method waits for.
    pub cause: Cause,
    /// The same in words.
    pub what: String,
    /// Type of it, where it is no method.
    pub awaits: Option<String>,
    /// There are more methods in front of the first one.
    pub cut: bool,
    /// From the method that waits to the one that no other awaits.
    pub frames: Vec<FrameRow>,
}

/// A method in a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct FrameRow {
    /// The method that the programmer wrote; for what is no method, in words.
    pub method: String,
    /// `method`, `tasks` (a task that waits for others), `thread` (a thread that blocks).
    pub kind: &'static str,
    /// Type of the state machine, or of the task.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The state at which it waits, as its compiler counts: below zero it runs.
    pub state: Option<i32>,
    /// The source line of that.
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// The source lines of states, by type of state machine.
pub type Lines = HashMap<String, BTreeMap<i32, (String, u32)>>;

/// What a snapshot had.
struct TaskSnapshot {
    row: SnapshotRow,
    time: u64,
    tasks: Tasks,
}

/// A method without what its compiler made of it.
pub fn method(machine: &str) -> String {
    match demangle_compiler_names(machine, "MoveNext") {
        Some(method) => format!("{}.{}", method.type_name, method.name),
        None => machine.to_owned(),
    }
}

/// What a method waits for, in words.
pub fn words(cause: Cause, awaits: Option<&str>) -> String {
    let named = |what: &str| match awaits {
        Some(name) => format!("{what} ({name})"),
        None => what.to_owned(),
    };
    match cause {
        Cause::CompletionSource => "a TaskCompletionSource that nobody has completed".to_owned(),
        Cause::Promise => named("a task that somebody has to complete"),
        Cause::Delay => "time to pass (Task.Delay, a timer)".to_owned(),
        Cause::Semaphore => "a SemaphoreSlim".to_owned(),
        Cause::Work => "work on the thread pool (Task.Run)".to_owned(),
        Cause::Tasks => named("other tasks"),
        Cause::Channel => named("a channel"),
        Cause::Pipe => named("a pipe"),
        Cause::Network => named("the network"),
        Cause::Stream => named("a file or stream"),
        Cause::Other => awaits.unwrap_or("an object").to_owned(),
        Cause::Running => "nothing: they run, or are about to".to_owned(),
        Cause::Unknown => "something unknown".to_owned(),
    }
}

fn frame(machine: &str, state: Option<i32>, lines: &Lines) -> FrameRow {
    let (kind, name) = match machine {
        _ if blocks_a_thread(machine) => {
            ("thread", "a thread that blocks (Wait, Result)".to_owned())
        }
        _ if is_link(machine) => ("tasks", link(machine)),
        _ => ("method", method(machine)),
    };
    let at = state.and_then(|state| lines.get(machine)?.get(&state));
    FrameRow {
        method: name,
        kind,
        type_name: machine.to_owned(),
        state,
        file: at.map(|(file, _)| file.clone()),
        line: at.map(|(_, line)| *line),
    }
}

/// What a task is called that waits for others.
fn link(name: &str) -> String {
    let known = [
        ("WhenAll", "Task.WhenAll"),
        ("WhenAny", "Task.WhenAny"),
        ("CompleteOnInvokePromise", "Task.WhenAny"),
        ("UnwrapPromise", "Task.Run or Unwrap"),
        ("CancellationPromise", "Task.WaitAsync"),
        ("Continuation", "Task.ContinueWith"),
    ];
    known
        .iter()
        .find(|(part, _)| name.contains(part))
        .map_or_else(|| name.to_owned(), |(_, word)| (*word).to_owned())
}

/// The frames of a stack.
pub fn frames(stack: &AsyncStack, lines: &Lines) -> Vec<FrameRow> {
    stack
        .machines
        .iter()
        .zip(&stack.states)
        .map(|(machine, state)| frame(machine, *state, lines))
        .collect()
}

/// Source lines that a session has of asynchronous methods; and whether it has two heap snapshots,
/// and no collection came between those that they made themselves.
fn lines(path: &Path) -> anyhow::Result<(Lines, bool)> {
    let file = session_file::open(path)?;
    let reader =
        SessionReader::new(BufReader::new(file)).with_context(|| format!("{}", path.display()))?;
    let (mut names, mut found) = (HashMap::new(), Lines::new());
    let (mut begins, mut end, mut collections) = (Vec::new(), 0, Vec::new());
    // What is damaged is reported by whoever reads the snapshots.
    for record in reader.map_while(Result::ok) {
        match record {
            SessionRecord::HeapClasses { classes, .. } => {
                names.extend(classes.into_iter().map(|(class, name, _)| (class, name)));
            }
            SessionRecord::AsyncStateMachines { machines, .. } => {
                for machine in machines {
                    let Some(name) =
                        names.get(&machine.class).and_then(|name| heap::machine_of(name))
                    else {
                        continue;
                    };
                    let points = machine.points.into_iter();
                    let points = points.filter_map(|point| {
                        point.line.map(|line| (point.state, (line.file, line.line)))
                    });
                    found.entry(name.to_owned()).or_default().extend(points);
                }
            }
            SessionRecord::HeapBegin { time, .. } => begins.push(time),
            SessionRecord::HeapEnd(last) => end = last.time,
            SessionRecord::Collection { start, .. } => collections.push(start),
            _ => {}
        }
    }
    Ok((found, is_quiet(&begins, end, &collections)))
}

/// Whether there are two heap snapshots, and as many collections from the beginning of the first to
/// the end of the second: each makes one.
fn is_quiet(begins: &[u64], end: u64, collections: &[u64]) -> bool {
    let [first, _] = begins else { return false };
    collections.iter().filter(|start| (*first..=end).contains(start)).count() == 2
}

/// Reads the snapshots of a session; `None` if there is none.
///
/// `top` is how many stacks are kept. The lines are given back beside it.
pub fn read(path: &Path, top: usize) -> anyhow::Result<(Option<(Report, Tasks)>, Reading)> {
    let mut looks: Vec<TaskSnapshot> = Vec::new();
    let mut head: Option<Report> = None;
    let reading = source::read_session(
        path,
        MemoryArgs::default(),
        |_| true,
        |snapshot| {
            let tasks = match looks.first() {
                Some(first) => Tasks::since(&first.tasks, &snapshot),
                None => Tasks::of(&snapshot),
            };
            looks.push(look(&snapshot, tasks));
            head = Some(begin(&snapshot));
        },
    )?;
    let Some((mut report, last)) = head.zip(looks.pop()) else { return Ok((None, reading)) };
    let (lines, quiet) = lines(path)?;
    let begun = looks.first().map_or(last.time, |first| first.time);
    let between = (!looks.is_empty()).then(|| last.time.saturating_sub(begun) as f64 / 1e9);
    let before = looks.first().map(|first| Before::of(&first.tasks));
    let mut causes: BTreeMap<(Cause, String), BTreeMap<String, u64>> = BTreeMap::new();
    for (index, stack) in last.tasks.stacks.iter().enumerate() {
        let what = words(stack.cause, stack.awaits.as_deref());
        let frames = frames(stack, &lines);
        let leaf =
            frames.iter().find(|frame| frame.kind == "method").map(|frame| frame.method.clone());
        *causes
            .entry((stack.cause, what.clone()))
            .or_default()
            .entry(leaf.unwrap_or_default())
            .or_default() += stack.count;
        if index >= top {
            report.left_out += 1;
            continue;
        }
        report.stacks.push(StackRow {
            count: stack.count,
            since_first_look: before
                .as_ref()
                .filter(|_| stack.cause != Cause::Running)
                .and_then(|before| since_first(stack, before.count(stack), quiet)),
            seconds: between,
            cause: stack.cause,
            what,
            awaits: stack.awaits.clone(),
            cut: stack.cut,
            frames,
        });
    }
    report.causes = causes
        .into_iter()
        .map(|((cause, what), methods)| {
            let mut methods: Vec<(String, u64)> = methods.into_iter().collect();
            order::sort_by(&mut methods, |one, other| {
                other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0))
            });
            CauseRow { cause, what, count: methods.iter().map(|(_, count)| count).sum(), methods }
        })
        .collect();
    order::sort_by_key(&mut report.causes, |row| std::cmp::Reverse(row.count));
    report.left_out += last.tasks.left_out;
    report.pending = last.tasks.pending;
    report.states = last.tasks.stacks.iter().any(|stack| stack.states.iter().any(Option::is_some));
    let tasks = last.tasks;
    report.looks = looks.into_iter().map(|look| look.row).chain([last.row]).collect();
    let first = report.looks.first().map_or(0.0, |look| look.seconds);
    report.looks.iter_mut().for_each(|look| look.seconds -= first);
    Ok((Some((report, tasks)), reading))
}

/// How many of such stacks wait since the first snapshot, in which there were at most `before`.
/// `None` where there may be some, and none is proven.
///
/// Where no collection came between the two snapshots, an object in generation 2 was there at the
/// first one. Else only objects that still lie at their address are recognized.
fn since_first(stack: &AsyncStack, before: u64, quiet: bool) -> Option<u64> {
    let most = before.min(stack.old);
    match if quiet && stack.for_task { most.max(stack.since_first) } else { stack.since_first } {
        0 if most > 0 => None,
        proven => Some(proven),
    }
}

/// What waited in the first snapshot. Objects move between snapshots and have no name, so it is
/// counted, not followed.
struct Before<'a> {
    stacks: HashMap<(&'a [String], Option<&'a str>), u64>,
    machines: HashMap<&'a str, u64>,
}

impl<'a> Before<'a> {
    fn of(tasks: &'a Tasks) -> Self {
        let mut stacks = HashMap::new();
        for stack in &tasks.stacks {
            *stacks.entry((stack.machines.as_slice(), stack.awaits.as_deref())).or_default() +=
                stack.count;
        }
        Self {
            stacks,
            machines: tasks
                .by_machine
                .iter()
                .map(|(name, count)| (name.as_str(), *count))
                .collect(),
        }
    }

    /// How many of such stacks there were at most. The first snapshot does not see all of who
    /// awaits whom: then as many as there were of the method that is in most of them.
    fn count(&self, stack: &AsyncStack) -> u64 {
        let known = self.stacks.get(&(stack.machines.as_slice(), stack.awaits.as_deref())).copied();
        let machines = || {
            stack.machines.iter().filter_map(|name| self.machines.get(name.as_str())).copied().max()
        };
        known.or_else(machines).unwrap_or(0)
    }
}

fn look(snapshot: &Snapshot, tasks: Tasks) -> TaskSnapshot {
    let end = snapshot.end();
    let row = SnapshotRow {
        seconds: end.time as f64 / 1e9,
        pause_seconds: end.pause_ns.map(|pause| pause as f64 / 1e9),
        pending: tasks.pending,
        objects: snapshot.len() as u64,
        complete: end.complete,
    };
    TaskSnapshot { row, time: end.time, tasks }
}

fn begin(snapshot: &Snapshot) -> Report {
    let end = snapshot.end();
    Report {
        schema: SCHEMA,
        process: end.process.clone(),
        pid: end.pid,
        runtime: end.runtime.clone(),
        time_unix_ms: end.unix_ms,
        complete: end.complete,
        note: (!end.reason.is_empty()).then(|| end.reason.clone()),
        looks: Vec::new(),
        pending: 0,
        states: false,
        causes: Vec::new(),
        stacks: Vec::new(),
        left_out: 0,
        hot: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_of_the_program_between_two_snapshots_is_noticed() {
        assert!(is_quiet(&[100, 300], 400, &[110, 310]));
        assert!(is_quiet(&[100, 300], 400, &[90, 110, 310, 410]), "one before, and one after");
        assert!(!is_quiet(&[100, 300], 400, &[110, 200, 310]));
        assert!(
            !is_quiet(&[100, 300], 400, &[310]),
            "a recording that did not report the first one"
        );
        assert!(!is_quiet(&[100, 300], 400, &[]), "an older recording");
        assert!(
            !is_quiet(&[100, 300, 500], 600, &[110, 310, 510]),
            "two collections make an object old"
        );
    }

    #[test]
    fn a_duration_is_stated_only_where_it_is_proven() {
        let stack = |old, for_task, since_first| AsyncStack {
            machines: vec!["Shop+<Ask>d__1".to_owned()],
            states: vec![Some(0)],
            awaits: None,
            cause: Cause::Delay,
            count: 9,
            old,
            for_task,
            since_first,
            cut: false,
        };
        assert_eq!(since_first(&stack(8, true, 0), 7, true), Some(7));
        assert_eq!(
            since_first(&stack(8, true, 3), 7, false),
            Some(3),
            "the others may have been moved"
        );
        assert_eq!(since_first(&stack(8, true, 0), 7, false), None);
        // What may be used again: old, and nothing is known.
        assert_eq!(since_first(&stack(8, false, 0), 7, true), None);
        // None of them was there.
        assert_eq!(since_first(&stack(8, true, 0), 0, true), Some(0));
        assert_eq!(since_first(&stack(0, false, 0), 7, false), Some(0));
    }

    #[test]
    fn frames_are_named_for_people() {
        let lines: Lines =
            [("Shop+<Ask>d__1".to_owned(), [(0, ("Shop.cs".to_owned(), 42))].into())].into();
        let ask = frame("Shop+<Ask>d__1", Some(0), &lines);
        assert_eq!((ask.method.as_str(), ask.kind, ask.line), ("Shop.Ask", "method", Some(42)));
        assert_eq!(frame("Shop+<Ask>d__1", Some(1), &lines).line, None);
        let all = frame("System.Threading.Tasks.Task+WhenAllPromise<int>", None, &lines);
        assert_eq!((all.method.as_str(), all.kind), ("Task.WhenAll", "tasks"));
        assert_eq!(
            frame("System.Threading.Tasks.Task+SetOnInvokeMres", None, &lines).kind,
            "thread"
        );
    }
}
