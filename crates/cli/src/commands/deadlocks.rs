//! `clrscope deadlocks`: who blocks whom in a process that is stuck.

use crate::{
    agent::AgentArgs,
    console::{self, printable},
    exit::{Code, failure},
    interrupt::{self, StopOnSignal},
};
use diagnostics::DotnetProcess;
use inspect::{BlockedThread, Findings, Frame, LockShown, Outcome, Stacks, ThreadShown};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    fmt::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Time between the two readings, of which only what both saw counts.
const APART: Duration = Duration::from_millis(40);

/// How long the runtime may take to give stacks.
const STACKS_LIMIT: Duration = Duration::from_secs(8);

/// Most frames of a stack, and most threads of a list, in the text; the JSON has all.
const FRAMES: usize = 12;
const THREADS: usize = 20;

/// Find threads that block each other in a process that is stuck
///
/// Reads from outside which thread holds which lock and which threads wait for it. This also works
/// if the process does not respond any more, and if nothing was recorded before. The process is not
/// stopped for it. Then the stacks of its threads are taken, if its runtime still responds;
/// --no-attach leaves that out.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit code 9 says that there is a deadlock, 0 that there is none, 7 that it could \
        not be determined."
)]
pub struct Args {
    /// Process id, or name as `clrscope ps` shows it
    #[arg(value_name = "PID|NAME")]
    target: String,
    /// Do not touch the process: no stacks, and no names of waits that are not for locks
    #[arg(long)]
    no_attach: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Which threads of a process block each other, and where they wait.
#[derive(Serialize, JsonSchema)]
pub struct Output<'a> {
    pid: u32,
    process: &'a str,
    runtime: Option<&'a str>,
    /// How long it took to read the locks from outside.
    #[serde(rename = "inspection_ms")]
    look_ms: f64,
    #[serde(flatten)]
    findings: &'a Findings,
    stacks: StacksShown,
}

/// Whether there are stacks.
#[derive(Serialize, JsonSchema)]
struct StacksShown {
    taken: bool,
    /// Why not.
    reason: Option<String>,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let process = diagnostics::locate(&args.target)?;
    let before = Instant::now();
    let look = match inspect::look(process.pid, APART) {
        Ok(look) => Ok(look),
        Err(error @ inspect::Error::Exited { .. }) => {
            return Err(failure(Code::Ended, error.to_string()));
        }
        Err(error @ inspect::Error::NoRuntime { .. }) => {
            return Err(failure(Code::Refused, error.to_string()));
        }
        // Stacks alone may help.
        Err(error) => Err(error.to_string()),
    };
    let took = before.elapsed();
    let findings = |stacks| match &look {
        Ok(look) => Findings::of(look, stacks),
        Err(reason) => Findings::unknown(reason, stacks),
    };
    let mut found = findings(None);
    if !args.json {
        // The verdict does not depend on stacks, which may take a while, or not come at all.
        console::print(&headline(&process, &found))?;
    }
    let stacks = match args.no_attach {
        true => Err("they were not requested".to_owned()),
        false => {
            let stop = Arc::new(StopOnSignal::start()?);
            let begun = Arc::clone(&stop);
            let begun = move |handle| begun.set(handle);
            Stacks::take(&process, args.agent.file(), STACKS_LIMIT, begun).map_err(|error| {
                match interrupt::requested() {
                    true => "interrupted".to_owned(),
                    false => error.to_string(),
                }
            })
        }
    };
    if let Ok(stacks) = &stacks {
        found = findings(Some(stacks));
    }
    let shown = StacksShown { taken: stacks.is_ok(), reason: stacks.err() };
    match args.json {
        true => console::print_json(&Output {
            pid: process.pid,
            process: &process.name,
            runtime: process.runtime_version.as_deref(),
            look_ms: took.as_secs_f64() * 1e3,
            findings: &found,
            stacks: shown,
        })?,
        false => console::print(&details(&found, &shown, args.no_attach))?,
    }
    Ok(match found.outcome {
        Outcome::Deadlock => Code::Deadlock,
        Outcome::Waiting | Outcome::Clear => Code::Success,
        Outcome::Unknown => Code::Unsupported,
    })
}

fn headline(process: &DotnetProcess, found: &Findings) -> String {
    format!("{} ({}): {}\n", printable(&process.name), process.pid, printable(&found.verdict))
}

fn details(found: &Findings, stacks: &StacksShown, no_attach: bool) -> String {
    let mut text = String::new();
    for (index, cycle) in found.cycles.iter().enumerate() {
        let _ = writeln!(
            text,
            "\nDeadlock {}: each waits for the next, the last for the first",
            index + 1
        );
        threads(&mut text, &cycle.threads);
        if !cycle.behind.is_empty() {
            text.push_str("\n  These threads wait behind it:\n");
            threads(&mut text, &cycle.behind);
        }
    }
    for orphan in &found.orphans {
        let owner = orphan
            .owner
            .as_deref()
            .map_or_else(String::new, |name| format!(", {},", printable(name)));
        let lock = lock(&orphan.lock);
        let _ = writeln!(
            text,
            "\nThe {lock} is held by a thread{owner} that has ended. These wait for it:"
        );
        threads(&mut text, &orphan.threads);
    }
    for chain in &found.chains {
        let _ = writeln!(
            text,
            "\nThese threads wait for locks of {}, directly or indirectly:",
            name(&chain.owner)
        );
        threads(&mut text, &chain.threads);
        let doing = chain.owner.doing.map_or_else(String::new, |doing| format!(": {doing}"));
        let _ = writeln!(text, "  {} itself does not wait for a lock{doing}", name(&chain.owner));
        frames(&mut text, &chain.owner.stack);
    }
    for group in &found.blocked {
        let plural = if group.count == 1 { "" } else { "s" };
        let who: Vec<String> = group.threads.iter().take(THREADS).map(of_shown).collect();
        let more = if group.count > THREADS {
            format!(" and {} more", group.count - THREADS)
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "\n{} thread{plural} in {}: {}{more}",
            group.count,
            group.kind,
            who.join(", ")
        );
        frames(&mut text, &group.stack);
    }
    for note in &found.notes {
        let _ = writeln!(text, "\nNote: {note}.");
    }
    if let (Some(reason), false) = (&stacks.reason, no_attach) {
        let _ = writeln!(text, "\nThere are no stacks: {}", printable(reason));
    }
    text
}

fn threads(text: &mut String, threads: &[BlockedThread]) {
    for thread in threads.iter().take(THREADS) {
        let _ = writeln!(text, "  {}", name(thread));
        for held in &thread.holds {
            let _ = writeln!(text, "    holds      {}", lock(held));
        }
        if let Some(wanted) = &thread.waits_for {
            let owner = thread
                .held_by
                .as_ref()
                .map_or_else(String::new, |owner| format!(", held by {}", of_shown(owner)));
            let limit = thread
                .timeout_ms
                .map_or_else(String::new, |limit| format!(", for at most {limit} ms"));
            let _ = writeln!(text, "    waits for  {}{owner}{limit}", lock(wanted));
        }
        frames(text, &thread.stack);
    }
    if let Some(more) = threads.len().checked_sub(THREADS).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more");
    }
}

fn frames(text: &mut String, stack: &[Frame]) {
    for frame in stack.iter().take(FRAMES) {
        let _ = write!(text, "      at {}", printable(&frame.name));
        if let (Some(file), Some(line)) = (&frame.file, frame.line) {
            let file = Path::new(file)
                .file_name()
                .map_or(file.as_str().into(), |name| name.to_string_lossy());
            let _ = write!(text, "  {}:{line}", printable(&file));
        }
        text.push('\n');
    }
    if let Some(more) = stack.len().checked_sub(FRAMES).filter(|more| *more > 0) {
        let _ = writeln!(text, "      … {more} more");
    }
}

fn name(thread: &BlockedThread) -> String {
    let ids = format!("thread {}, managed {}", thread.os_tid, thread.managed_id);
    match &thread.name {
        Some(name) => format!("{} ({ids})", printable(name)),
        None => ids,
    }
}

fn of_shown(thread: &ThreadShown) -> String {
    match &thread.name {
        Some(name) => printable(name),
        None => format!("thread {}", thread.os_tid),
    }
}

fn lock(lock: &LockShown) -> String {
    match (lock.kind, &lock.type_name) {
        ("lock", _) => format!("System.Threading.Lock {}", lock.object),
        (_, Some(name)) => format!("monitor of {} {}", printable(name), lock.object),
        (_, None) => format!("monitor of object {}", lock.object),
    }
}
