//! `clrscope checkup`: what is wrong with a process.

use super::launch;
use crate::recording::Profilers;
use crate::{
    agent::AgentArgs,
    console, duration,
    exit::{Code, failure},
    heap::source,
    interrupt::{self, StopOnSignal},
    recording::{self, SessionFile},
};
use ::heap::{ReportOptions, Snapshot, Tasks, growth::SnapshotSummary};
use anyhow::Context;
use clap::{ValueEnum, builder::PossibleValue};
use diagnose::{Evidence, HeapSnapshots, LimitsOf, LockSnapshot, Waiter};
use diagnostics::{DotnetProcess, MemorySplit};
use document::text::Style;
use profile::{BuildOptions, Profile};
use profilers::Selection;
use recorder::{EngineChoice, RecordOptions, Summary};
use report::{Checkup, CheckupFormat, Target};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
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

/// Observe a process for some seconds and report what is wrong with it, worst first
///
/// Records CPU time, waiting, exceptions, collections, waits for locks, threads, counters and
/// memory at low rates, checks which threads wait for which locks, takes heap snapshots, and
/// evaluates all of this. Each finding says what is wrong, how certain that is, what the evidence
/// is, and what to do next. A healthy process has none.
///
/// A heap snapshot is a full collection, during which the process is paused. clrscope takes one, or
/// two if the process is small. --no-heap takes none.
///
/// With --launch, a command is observed from its first instruction on. The findings come when it
/// has ended, on standard error unless --report names a file. clrscope exits with the command's
/// exit code.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Process id, or name as `clrscope ps` shows it
    #[arg(value_name = "PID|NAME", required_unless_present = "launch", conflicts_with = "launch")]
    target: Option<String>,
    /// How long to observe: 10s, 1m30s; growth-based findings need at least 8 s
    #[arg(short, long, default_value = "10s", value_parser = duration::parse_positive)]
    duration: Duration,
    /// Record these profilers, too, such as finalizers:rate=5
    #[arg(long, value_name = "LIST", value_parser = Profilers::parse)]
    also: Option<Profilers>,
    /// Change a limit of a finding, such as exception-storm:rate=500; may be repeated
    #[arg(long = "limit", value_name = "FINDING:NAME=VALUE", value_parser = limit)]
    limits: Vec<String>,
    /// Keep the recording in this session file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the findings
    #[arg(short, long, default_value = "text")]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the findings to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Take no heap snapshot: the process is never paused for longer than a walk of its stacks
    #[arg(long)]
    no_heap: bool,
    /// Run a command and observe it
    #[arg(long, requires = "command")]
    launch: bool,
    #[command(flatten)]
    agent: AgentArgs,
    /// Command with its arguments, after --
    #[arg(last = true, requires = "launch", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A format on the command line.
#[derive(Clone, Copy, Debug)]
struct Format(CheckupFormat);

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Format(CheckupFormat::Text),
            Format(CheckupFormat::Json),
            Format(CheckupFormat::Markdown),
            Format(CheckupFormat::Html),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        CheckupFormat::ALL
            .iter()
            .find(|(format, _)| *format == self.0)
            .map(|(_, word)| PossibleValue::new(*word))
    }
}

fn limit(text: &str) -> Result<String, String> {
    LimitsOf::default().set(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
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

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let mut limits = LimitsOf::default();
    args.limits.iter().try_for_each(|limit| limits.set(limit))?;
    recording::check_outputs([args.report.as_ref(), args.output.as_ref()])?;
    if args.launch {
        return look_at_command(args, &limits);
    }
    let target = diagnostics::find(args.target.as_deref().unwrap_or_default())?;
    let begun = Instant::now();
    let mut notes = Vec::new();
    // For all parts of the check-up: a signal that ends one of them ends the others as well.
    let stop = StopOnSignal::start()?;
    let locks = noted(
        &mut notes,
        "which threads wait for which locks was not checked",
        look_at_locks(target.pid),
    );
    let is_small = diagnostics::memory(target.pid).is_ok_and(|memory| memory.resident <= SMALL);
    let first = if is_small { look_at_heap(args, &target, &mut notes) } else { None }
        .map(|snapshot| (timed(&snapshot), Tasks::of(&snapshot)));
    if interrupt::requested() {
        return Err(failure(Code::Ended, "interrupted before anything was recorded"));
    }
    let file = session_file(args, &target.name, Some(target.pid))?;
    let (summary, memory) = {
        // The time that the first snapshots took is part of the time that the user gave.
        let left = args.duration.saturating_sub(begun.elapsed()).max(args.duration / 2);
        let recording = recorder::attach(&target, options(args, left, file.path())?)?;
        stop.set(recording.stop_handle());
        let memory = MemoryWatch::start(target.pid, left / MEMORY_LOOKS)?;
        (recording::wait(recording, Some(left), args.json)?, memory.finish())
    };
    let profile = read(file.path())?;
    // What a recording by itself says below its summary, such as that the agent stays.
    notes.extend(summary.sessions.iter().flat_map(|session| session.notes.iter().cloned()));
    let cut_off = recording::cut_off(&summary, true, args.output.is_some());
    // The heap of a process that has ended, or whose user wants an end, is not looked at.
    let last = if cut_off.is_none() && !interrupt::requested() {
        look_at_heap(args, &target, &mut notes)
    } else {
        None
    };
    drop(stop);
    // Only complete snapshots are compared: what one has and the other lacks would seem to grow.
    let both = first
        .as_ref()
        .zip(last.as_ref())
        .filter(|((first, _), last)| first.complete && last.end().complete);
    let growth = both.map(|((first, _), last)| {
        let options = ReportOptions { top: usize::MAX, type_name: None, paths: 1 };
        ::heap::leaks(&[first.clone(), timed(last)], last, &options)
    });
    let report = last
        .as_ref()
        .map(|last| ::heap::report(last, &ReportOptions { top: 15, type_name: None, paths: 1 }));
    let first_tasks = first.as_ref().map(|(_, tasks)| tasks);
    let tasks = first_tasks.zip(last.as_ref()).map(|(first, last)| Tasks::since(first, last));
    let tasks = first_tasks.zip(tasks.as_ref());
    let heap = report.as_ref().map(|last| HeapSnapshots { last, growth: growth.as_ref(), tasks });
    let evidence = Evidence { profile: &profile, memory: &memory, locks: locks.as_ref(), heap };
    judge(args, &limits, evidence, &notes, |page| Ok(console::print(page)?))?;
    match cut_off {
        Some(message) => Err(failure(Code::Ended, message)),
        None => Ok(Code::Success),
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
fn look_at_heap(args: &Args, target: &DotnetProcess, notes: &mut Vec<String>) -> Option<Snapshot> {
    const OTHERWISE: &str = "no heap snapshot was taken";
    if args.no_heap || notes.iter().any(|note| note.starts_with(OTHERWISE)) {
        return None;
    }
    let snapshot = noted(notes, OTHERWISE, source::snapshot_once(target, &args.agent))?;
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

fn look_at_command(args: &Args, limits: &LimitsOf) -> anyhow::Result<Code> {
    let file = session_file(args, &launch::name_of(&args.command), None)?;
    let told = |summary: &Summary| {
        for session in &summary.sessions {
            // Those of further processes have names of their own.
            let path = session.path.as_deref().unwrap_or(file.path());
            let say = |page: &str| {
                console::say(page.trim_end());
                Ok(())
            };
            judge(args, limits, Evidence::from(&read(path)?), &[], say)?;
        }
        Ok(())
    };
    let kept = args.output.is_some();
    launch::run_command(&args.command, options(args, args.duration, file.path())?, kept, told)
}

fn options(args: &Args, duration: Duration, path: &Path) -> anyhow::Result<RecordOptions> {
    let also = args.also.as_ref().map(|list| list.0.as_slice()).unwrap_or_default();
    let mut profilers = Selection::of_checkup()?;
    profilers.retain(|own| also.iter().all(|other| other.spec.id != own.spec.id));
    profilers.extend_from_slice(also);
    Ok(RecordOptions {
        profilers,
        rate_hz: RATE,
        engine: EngineChoice::Auto,
        duration: Some(duration),
        output: Some(path.to_owned()),
        instrument: None,
        live: false,
        sdk_tools: false,
        agent: args.agent.file(),
    })
}

/// Where the recording goes.
fn session_file(args: &Args, name: &str, pid: Option<u32>) -> anyhow::Result<SessionFile> {
    SessionFile::new(args.output.as_deref(), recording::default_file(name, pid))
}

fn read(path: &Path) -> anyhow::Result<Profile> {
    let shown = || format!("{}", path.display());
    let session = File::open(path).with_context(shown)?;
    Profile::read(session, BuildOptions::default()).with_context(shown)
}

/// Writes what is found to a file, or says it.
fn judge(
    args: &Args,
    limits: &LimitsOf,
    evidence: Evidence<'_>,
    notes: &[String],
    say: impl Fn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let findings = diagnose::diagnose(&evidence, limits);
    let info = &evidence.profile.info;
    let target = Target {
        pid: info.pid,
        name: &info.process_name,
        runtime: &info.runtime,
        looked_for_seconds: evidence.profile.duration() as f64 / 1e9,
    };
    let checkup = Checkup { target, findings: &findings, notes };
    let format = if args.json { CheckupFormat::Json } else { args.format.0 };
    let style =
        Style { width: console::width().filter(|_| args.report.is_none()), ..Style::default() };
    let mut page = Vec::new();
    checkup.write(format, style, &mut page)?;
    match &args.report {
        Some(path) => session::create_file(path)
            .and_then(|mut file| file.write_all(&page))
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => say(&String::from_utf8(page)?)?,
    }
    if let Some(path) = &args.output {
        console::say(&format!("The recording is kept: clrscope report {}", path.display()));
    }
    Ok(())
}
