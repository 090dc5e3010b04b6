//! `clrscope deadlocks`: who blocks whom in a process that is stuck.

use crate::{
    agent::AgentArgs,
    console,
    exit::{Code, failure},
    interrupt::{self, StopOnSignal},
    stacks::view::lock,
};
use diagnostics::DotnetProcess;
use document::{
    Cell, Document, Section, Tree,
    format::{counted, file_name},
};
use inspect::{BlockedThread, Findings, Frame, Outcome, Stacks, ThreadShown};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
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
        console::show(&headline(&process, &found))?;
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
        false => {
            let details = details(&found, &shown, args.no_attach);
            if !details.sections.is_empty() {
                console::print("\n")?;
                console::show(&details)?;
            }
        }
    }
    Ok(match found.outcome {
        Outcome::Deadlock => Code::Deadlock,
        Outcome::Waiting | Outcome::Clear => Code::Success,
        Outcome::Unknown => Code::Unsupported,
    })
}

/// What is known without stacks.
fn headline(process: &DotnetProcess, found: &Findings) -> Document {
    let title = format!("{} ({}): {}", process.name, process.pid, found.verdict);
    Document { sections: vec![Section::new(title)] }
}

/// Everything else.
fn details(found: &Findings, stacks: &StacksShown, no_attach: bool) -> Document {
    let mut sections = Vec::new();
    let mut add = |title: String, tree: Tree| {
        let mut section = Section::new(title);
        section.add(tree);
        sections.push(section);
    };
    for (index, cycle) in found.cycles.iter().enumerate() {
        let number = index + 1;
        let title = format!("Deadlock {number}: each waits for the next, the last for the first");
        add(title, threads(&cycle.threads));
        if !cycle.behind.is_empty() {
            add(format!("Threads that wait behind deadlock {number}"), threads(&cycle.behind));
        }
    }
    for orphan in &found.orphans {
        let owner = orphan.owner.as_deref();
        let owner = owner.map_or_else(String::new, |name| format!(", {name},"));
        let lock = lock(&orphan.lock);
        let title =
            format!("The {lock} is held by a thread{owner} that has ended. These wait for it");
        add(title, threads(&orphan.threads));
    }
    for chain in &found.chains {
        let owner = name(&chain.owner);
        let mut tree = threads(&chain.threads);
        let doing = chain.owner.doing.map_or_else(String::new, |doing| format!(": {doing}"));
        let itself = format!("{owner} itself does not wait for a lock{doing}");
        tree.push(0, [Cell::text(itself)]);
        frames(&mut tree, &chain.owner.stack);
        add(format!("These threads wait for locks of {owner}, directly or indirectly"), tree);
    }
    for group in &found.blocked {
        let count = counted(group.count as u64, "thread");
        let mut who: Vec<String> = group.threads.iter().take(THREADS).map(of_shown).collect();
        who.extend(
            group
                .count
                .checked_sub(THREADS)
                .filter(|more| *more > 0)
                .map(|more| format!("{more} more")),
        );
        let mut tree = Tree::default();
        frames(&mut tree, &group.stack);
        add(format!("{count} in {}: {}", group.kind, who.join(", ")), tree);
    }
    let mut notes = Section::new("Notes");
    notes.lead = found.notes.iter().map(|note| format!("{note}.")).collect();
    if let (Some(reason), false) = (&stacks.reason, no_attach) {
        notes.say(format!("There are no stacks: {reason}"));
    }
    sections.extend(Some(notes).filter(|notes| !notes.lead.is_empty()));
    Document { sections }
}

fn threads(threads: &[BlockedThread]) -> Tree {
    let mut tree = Tree::default();
    for thread in threads.iter().take(THREADS) {
        tree.push(0, [Cell::text(name(thread))]);
        for held in &thread.holds {
            tree.push(1, [Cell::text(format!("holds      {}", lock(held)))]);
        }
        if let Some(wanted) = &thread.waits_for {
            let owner = thread.held_by.as_ref();
            let owner =
                owner.map_or_else(String::new, |owner| format!(", held by {}", of_shown(owner)));
            let limit = thread
                .timeout_ms
                .map_or_else(String::new, |limit| format!(", for at most {limit} ms"));
            tree.push(1, [Cell::text(format!("waits for  {}{owner}{limit}", lock(wanted)))]);
        }
        frames(&mut tree, &thread.stack);
    }
    tree.more = threads.len().saturating_sub(THREADS);
    tree
}

fn frames(tree: &mut Tree, stack: &[Frame]) {
    for frame in stack.iter().take(FRAMES) {
        let place = frame.file.as_deref().zip(frame.line);
        let place = place.map(|(file, line)| format!("{}:{line}", file_name(file)));
        let forms = vec![format!("at {}", frame.name)];
        tree.push(2, [Cell::Name { forms, place }]);
    }
    if let Some(more) = stack.len().checked_sub(FRAMES).filter(|more| *more > 0) {
        tree.push(2, [Cell::text(format!("… {more} more"))]);
    }
}

fn name(thread: &BlockedThread) -> String {
    let ids = format!("thread {}, managed {}", thread.os_tid, thread.managed_id);
    match &thread.name {
        Some(name) => format!("{name} ({ids})"),
        None => ids,
    }
}

fn of_shown(thread: &ThreadShown) -> String {
    thread.name.clone().unwrap_or_else(|| format!("thread {}", thread.os_tid))
}
