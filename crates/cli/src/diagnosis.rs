//! A check-up: everything that is observed of a process so that it can be judged.

use crate::{
    agent::AgentArgs,
    console,
    exit::{Code, failure},
    heap::source,
    recording::Attendant,
};
use ::heap::{LeakReport, Report, ReportOptions, Snapshot, Tasks, growth::SnapshotSummary};
use anyhow::Context;
use diagnose::{Evidence, Finding, HeapSnapshots, LimitsOf, LockSnapshot, Waiter};
use diagnostics::{DotnetProcess, MemorySplit};
use profile::{BuildOptions, Profile};
use profilers::Selection;
use recorder::{EngineChoice, RecordOptions, Summary};
use report::{Checkup, Target};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// CPU samples per second and thread.
const RATE: u32 = 50;

/// Time between the two readings of locks, of which only what both saw counts.
const APART: Duration = Duration::from_millis(40);

/// Resident memory up to which two heap snapshots are taken: each pauses the process for as long as
/// a full collection and some 200 ms for each million objects take. A larger process is paused
/// once.
const SMALL: u64 = 120 << 20;

/// How often the memory of the process is read.
const MEMORY_LOOKS: u32 = 8;

/// What a check-up is for.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The process.
    pub process: &'a DotnetProcess,
    /// For how long it is observed.
    pub duration: Duration,
    /// Profilers beside those of every check-up.
    pub also: &'a [Selection],
    /// Whether heap snapshots are taken.
    pub heap: bool,
    /// Where the recording goes.
    pub session: &'a Path,
    /// The agent to send in.
    pub agent: &'a AgentArgs,
}

/// What was observed.
pub struct Observed {
    profile: Profile,
    memory: Vec<(f64, MemorySplit)>,
    locks: Option<LockSnapshot>,
    heap: Option<Report>,
    growth: Option<LeakReport>,
    /// Asynchronous methods that waited in the first snapshot and in the last one.
    tasks: (Option<Tasks>, Option<Tasks>),
    /// What was not observed, and why.
    notes: Vec<String>,
    /// How the recording went.
    pub summary: Summary,
}

impl Observed {
    /// What is wrong with the process.
    pub fn findings(&self, limits: &LimitsOf) -> Vec<Finding> {
        let tasks = self.tasks.0.as_ref().zip(self.tasks.1.as_ref());
        let growth = self.growth.as_ref();
        let heap = self.heap.as_ref().map(|last| HeapSnapshots { last, growth, tasks });
        let locks = self.locks.as_ref();
        let evidence = Evidence { profile: &self.profile, memory: &self.memory, locks, heap };
        diagnose::diagnose(&evidence, limits)
    }

    /// That for people and programs.
    pub fn checkup<'a>(&'a self, findings: &'a [Finding]) -> Checkup<'a> {
        checkup_of(&self.profile, findings, &self.notes)
    }
}

/// What was found in a recording, for people and programs.
pub fn checkup_of<'a>(
    profile: &'a Profile,
    findings: &'a [Finding],
    notes: &'a [String],
) -> Checkup<'a> {
    let info = &profile.info;
    let target = Target {
        pid: info.pid,
        name: &info.process_name,
        runtime: &info.runtime,
        looked_for_seconds: profile.duration() as f64 / 1e9,
    };
    Checkup { target, findings, notes }
}

/// Observes a process.
///
/// # Errors
/// When it cannot be recorded, or nothing was recorded because an end was asked for.
pub fn observe(plan: &Plan<'_>, attendant: &dyn Attendant) -> anyhow::Result<Observed> {
    let begun = Instant::now();
    let pid = plan.process.pid;
    let mut notes = Vec::new();
    attendant.begins("checking locks");
    let locks =
        noted(&mut notes, "which threads wait for which locks was not checked", look_at_locks(pid));
    let is_small = diagnostics::memory(pid).is_ok_and(|memory| memory.resident <= SMALL);
    let first = if is_small { look_at_heap(plan, attendant, &mut notes) } else { None }
        .map(|snapshot| (timed(&snapshot), Tasks::of(&snapshot)));
    if attendant.is_ending() {
        return Err(failure(Code::Ended, "interrupted before anything was recorded"));
    }
    let (summary, memory) = {
        // The time that the first snapshots took is part of the time that the user gave.
        let left = plan.duration.saturating_sub(begun.elapsed()).max(plan.duration / 2);
        let options = options(plan.also, left, plan.session, plan.agent)?;
        let recording = recorder::attach(plan.process, options)?;
        let memory = MemoryWatch::start(pid, left / MEMORY_LOOKS)?;
        (attendant.wait(recording, Some(left))?, memory.finish())
    };
    let profile = read(plan.session)?;
    // What a recording by itself says below its summary, such as that the agent stays.
    notes.extend(summary.sessions.iter().flat_map(|session| session.notes.iter().cloned()));
    // The heap of a process that has ended, or whose user wants an end, is not looked at.
    let is_over = crate::recording::cut_off(&summary, true, true).is_some();
    let last = match is_over || attendant.is_ending() {
        true => None,
        false => look_at_heap(plan, attendant, &mut notes),
    };
    // Only complete snapshots are compared: what one has and the other lacks would seem to grow.
    let both = first
        .as_ref()
        .zip(last.as_ref())
        .filter(|((first, _), last)| first.complete && last.end().complete);
    let growth = both.map(|((first, _), last)| {
        let options = ReportOptions { top: usize::MAX, type_name: None, paths: 1 };
        ::heap::leaks(&[first.clone(), timed(last)], last, &options)
    });
    let heap = last
        .as_ref()
        .map(|last| ::heap::report(last, &ReportOptions { top: 15, type_name: None, paths: 1 }));
    let first_tasks = first.map(|(_, tasks)| tasks);
    let tasks = first_tasks.as_ref().zip(last.as_ref());
    let last_tasks = tasks.map(|(first, last)| Tasks::since(first, last));
    let tasks = (first_tasks, last_tasks);
    Ok(Observed { profile, memory, locks, heap, growth, tasks, notes, summary })
}

/// How a check-up records.
///
/// # Errors
/// When the registry says something that is no selection.
pub fn options(
    also: &[Selection],
    duration: Duration,
    path: &Path,
    agent: &AgentArgs,
) -> anyhow::Result<RecordOptions> {
    let mut profilers = Selection::of_checkup()?;
    profilers.retain(|own| also.iter().all(|other| other.spec.id != own.spec.id));
    profilers.extend_from_slice(also);
    Ok(RecordOptions {
        profilers,
        rate_hz: RATE,
        engine: EngineChoice::Auto,
        duration: Some(duration),
        output: Some(PathBuf::from(path)),
        instrument: None,
        live: false,
        sdk_tools: false,
        agent: agent.file(),
    })
}

/// A recording.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> anyhow::Result<Profile> {
    let shown = || format!("{}", path.display());
    let session = File::open(path).with_context(shown)?;
    Profile::read(session, BuildOptions::default()).with_context(shown)
}

/// Reads the memory usage of a process now and then, until it is stopped.
struct MemoryWatch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<(f64, MemorySplit)>>,
}

impl MemoryWatch {
    fn start(pid: u32, every: Duration) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let look = move || {
            let begin = Instant::now();
            let mut looks = Vec::new();
            // A process that has ended, or a system that does not tell, is looked at no more.
            while let Ok(split) = diagnostics::memory(pid) {
                looks.push((begin.elapsed().as_secs_f64(), split));
                if stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            looks
        };
        Ok(Self { stop, thread: std::thread::Builder::new().name("memory".into()).spawn(look)? })
    }

    fn finish(self) -> Vec<(f64, MemorySplit)> {
        // It may have ended by itself.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

/// What came of something that a check-up can do without.
fn noted<T>(notes: &mut Vec<String>, otherwise: &str, result: anyhow::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            notes.push(format!("{otherwise}: {}", console::describe(&error)));
            None
        }
    }
}

/// Who waits for whom, read from outside.
fn look_at_locks(pid: u32) -> anyhow::Result<LockSnapshot> {
    let findings = inspect::Findings::of(&inspect::look(pid, APART)?, None);
    let waiters = |threads: &[inspect::BlockedThread]| {
        let waiter = |thread: &inspect::BlockedThread| Waiter {
            os_tid: thread.os_tid,
            name: thread.name.clone(),
            lock: thread.waits_for.as_ref().and_then(|lock| lock.type_name.clone()),
        };
        threads.iter().map(waiter).collect()
    };
    Ok(LockSnapshot {
        cycles: findings.cycles.iter().map(|cycle| waiters(&cycle.threads)).collect(),
        orphans: findings.orphans.iter().map(|orphan| waiters(&orphan.threads)).collect(),
    })
}

/// What is on the heap, unless that is not wanted.
fn look_at_heap(
    plan: &Plan<'_>,
    attendant: &dyn Attendant,
    notes: &mut Vec<String>,
) -> Option<Snapshot> {
    const OTHERWISE: &str = "no heap snapshot was taken";
    if !plan.heap || notes.iter().any(|note| note.starts_with(OTHERWISE)) {
        return None;
    }
    attendant.begins("taking a heap snapshot");
    let snapshot = source::snapshot_once(plan.process, plan.agent, attendant);
    let snapshot = noted(notes, OTHERWISE, snapshot)?;
    if !snapshot.end().complete {
        let reason = console::printable(&snapshot.end().reason);
        notes.push(format!("the heap snapshot is not complete: {reason}"));
    }
    Some(snapshot)
}

/// What is compared of a snapshot, with its time on the wall clock: each has a recording of its
/// own.
fn timed(snapshot: &Snapshot) -> SnapshotSummary {
    let mut look = SnapshotSummary::of(snapshot);
    look.time = snapshot.end().unix_ms.saturating_mul(1_000_000);
    look
}
