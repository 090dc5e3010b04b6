//! Takes a thread dump, in the best way that the process allows.

use super::report::{self, Locks, ReadBy, Report, Thread};
use crate::{
    agent::AgentArgs,
    exit::{Code, failure},
};
use diagnostics::DotnetProcess;
use inspect::{Findings, OutsideCode, Snapshot, Stacks};
use recorder::{Departure, RecordError, ThreadDump};
use std::{
    io::ErrorKind,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Time between the two readings of locks, of which only what both saw counts.
const APART: Duration = Duration::from_millis(40);

/// How long the runtime may take to give stacks, where only the agent can read them.
const STACKS_LIMIT: Duration = Duration::from_secs(8);

/// What was taken.
struct Taken {
    threads: Vec<Thread>,
    read_by: ReadBy,
    /// Why it was not read in a better way.
    reason: Option<String>,
    reading: Option<Duration>,
    locks: Locks,
    notes: Vec<String>,
    /// The agent, which is still there.
    departure: Option<Departure>,
}

impl Taken {
    fn of(dump: &ThreadDump, read_by: ReadBy, reason: Option<String>) -> Self {
        Self {
            threads: report::threads_of(dump),
            read_by,
            reason,
            reading: Some(dump.reading),
            locks: Locks::default(),
            notes: dump.notes.clone(),
            departure: None,
        }
    }
}

/// Takes a thread dump in the form for people and programs, and the agent, which is still there.
/// `merged` says whether threads with equal stacks are also grouped, `begun` is when the command
/// began.
///
/// # Errors
/// As [`take`].
pub fn report(
    process: &DotnetProcess,
    no_attach: bool,
    merged: bool,
    begun: Instant,
    agent: &AgentArgs,
) -> anyhow::Result<(Report, Option<Departure>)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let taken = take(process, no_attach, agent)?;
    let elapsed = begun.elapsed();
    let Taken { threads, read_by, reason, reading, locks, notes, departure } = taken;
    let groups = merged.then(|| report::groups(&threads));
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let report = Report {
        schema: report::SCHEMA,
        pid: process.pid,
        process: process.name.clone(),
        runtime: process.runtime_version.clone(),
        time_unix_ms: u64::try_from(now.as_millis()).unwrap_or_default(),
        read_by,
        reason,
        elapsed_ms: milliseconds(elapsed),
        reading_ms: reading.map(milliseconds),
        threads,
        groups,
        locks,
        asynchronous: None,
        notes,
    };
    Ok((report, departure))
}

/// Takes a thread dump of a process, with its locks.
///
/// # Errors
/// That the process has ended or is none of .NET, or that nothing of it may be read.
fn take(process: &DotnetProcess, no_attach: bool, agent: &AgentArgs) -> anyhow::Result<Taken> {
    let (taken, look) = std::thread::scope(|scope| {
        let look = scope.spawn(|| inspect::look(process.pid, APART));
        let taken = threads(process, no_attach, agent);
        (taken, look.join())
    });
    let look = look.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let look = match look {
        Err(error @ inspect::Error::Exited { .. }) => {
            return Err(failure(Code::Ended, error.to_string()));
        }
        Err(error @ inspect::Error::NoRuntime { .. }) => {
            return Err(failure(Code::Refused, error.to_string()));
        }
        look => look,
    };
    let mut taken = taken?;
    let (by_thread, locks) = match look {
        Ok(look) => (look.by_thread(), locks_of(&look)),
        Err(error) => {
            let reason = Some(error.to_string());
            (Default::default(), Locks { read: false, reason, verdict: None })
        }
    };
    report::complete(&mut taken.threads, by_thread);
    taken.locks = locks;
    Ok(taken)
}

fn locks_of(look: &Snapshot) -> Locks {
    let verdict = Findings::of(look, None).verdict;
    Locks { read: true, reason: None, verdict: Some(verdict) }
}

fn threads(process: &DotnetProcess, no_attach: bool, agent: &AgentArgs) -> anyhow::Result<Taken> {
    if no_attach {
        return outside(process, "attaching was not requested".to_owned());
    }
    match recorder::dump(process, agent.file()) {
        Ok((dump, departure)) => {
            let taken = Taken::of(&dump, ReadBy::Agent, None);
            Ok(Taken { departure: Some(departure), ..taken })
        }
        Err(error @ RecordError::Exited { .. }) => Err(error.into()),
        Err(error) => match denied(process.pid, error) {
            // Its memory may not be read by us, but perhaps by itself.
            Ok(denied) => {
                let taken = stacks(process, agent, denied.clone());
                taken.map_err(|_| failure(Code::Refused, denied))
            }
            Err(error) => outside(process, error.to_string()),
        },
    }
}

/// What to say of an error if it is that the memory of a process may not be read; else the error.
fn denied(pid: u32, error: RecordError) -> Result<String, RecordError> {
    match error {
        RecordError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Ok(inspect::Error::Memory { pid, source }.to_string())
        }
        error => Err(error),
    }
}

/// A dump that needs nothing of the runtime.
fn outside(process: &DotnetProcess, reason: String) -> anyhow::Result<Taken> {
    let mut code = OutsideCode::new(process.pid);
    match recorder::dump_outside(process.pid, &mut code) {
        Ok(dump) => Ok(Taken::of(&dump, ReadBy::Outside, Some(reason))),
        Err(error) => Err(match denied(process.pid, error) {
            Ok(denied) => failure(Code::Refused, format!("{reason}; from outside, {denied}")),
            Err(error) => error.into(),
        }),
    }
}

/// What the agent alone can say.
fn stacks(process: &DotnetProcess, agent: &AgentArgs, why: String) -> anyhow::Result<Taken> {
    let stacks = Stacks::take(process, agent.file(), STACKS_LIMIT, |_| {})?;
    Ok(Taken {
        threads: report::threads_of_stacks(&stacks),
        read_by: ReadBy::AgentAlone,
        reason: Some(why),
        reading: None,
        locks: Locks::default(),
        notes: Vec::new(),
        departure: None,
    })
}
