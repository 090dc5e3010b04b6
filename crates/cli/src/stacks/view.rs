//! A thread dump for people.

use super::report::{End, Frame, Group, ReadBy, Report, Thread};
use crate::tasks;
use document::{
    Cell, Document, Section, Tree,
    format::{counted, duration, file_name, utc},
};
use inspect::{LockShown, LockWait, ThreadShown};
use std::collections::BTreeMap;

/// Most frames of a stack that are shown; the JSON has all.
const FRAMES: usize = 128;

/// Most threads of a group that are named.
const THREADS: usize = 12;

/// All of it.
pub fn report(report: &Report) -> Document {
    let mut sections = vec![head(report)];
    match &report.groups {
        Some(groups) => {
            let threads: BTreeMap<u32, &Thread> =
                report.threads.iter().map(|thread| (thread.os_tid, thread)).collect();
            sections.extend(groups.iter().map(|group| section_of_group(group, &threads)));
        }
        None => sections.extend(report.threads.iter().map(section_of_thread)),
    }
    if let Some(waiting) = &report.asynchronous {
        sections.extend(tasks::view::report(waiting).sections);
    }
    Document { sections }
}

fn head(report: &Report) -> Section {
    let runtime = report.runtime.as_ref();
    let runtime = runtime.map_or_else(String::new, |version| format!(", .NET {version}"));
    let threads = counted(report.threads.len() as u64, "thread");
    let mut section = Section::new(format!(
        "{} ({}){runtime}: {threads}, {}",
        report.process,
        report.pid,
        utc(report.time_unix_ms)
    ));
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    for thread in &report.threads {
        *states.entry(thread.doing.as_str()).or_default() += 1;
    }
    let mut states: Vec<(&str, u64)> = states.into_iter().collect();
    order::sort_by_key(&mut states, |(_, count)| std::cmp::Reverse(*count));
    let states: Vec<String> =
        states.into_iter().map(|(doing, count)| format!("{count} {doing}")).collect();
    section.say(states.join(", "));
    let how = match report.read_by {
        ReadBy::Agent => None,
        ReadBy::AgentAlone => Some(
            "read by the agent alone, so there are managed frames of managed threads only".into(),
        ),
        ReadBy::Outside => {
            Some(format!("read from outside, without the runtime's help: {}", names_of(report)))
        }
    };
    section.lead.extend(how);
    section.lead.extend(report.reason.as_ref().map(|reason| format!("because {reason}")));
    section.lead.extend(report.locks.verdict.as_ref().map(|verdict| format!("locks: {verdict}")));
    section.lead.extend(
        report.locks.reason.as_ref().map(|reason| format!("locks were not read: {reason}")),
    );
    section.lead.extend(report.notes.iter().cloned());
    section
}

/// How much of the code could be named.
fn names_of(report: &Report) -> String {
    let frames = || report.threads.iter().flat_map(|thread| &thread.frames);
    let is_named = |frame: &&Frame| !frame.name.starts_with('[');
    let managed = frames().filter(|frame| frame.is_managed()).filter(is_named).count();
    let code = frames().filter(|frame| frame.is_managed() || frame.kind == "unknown");
    let unnamed = code.filter(|frame| !is_named(frame)).count();
    format!(
        "{} named, {} of code that could not be named",
        counted(managed as u64, "managed frame"),
        counted(unnamed as u64, "frame")
    )
}

fn section_of_thread(thread: &Thread) -> Section {
    let mut section = Section::new(format!("{}: {}", title(thread), thread.doing));
    let mut tree = Tree::default();
    for held in &thread.holds {
        tree.push(0, [Cell::text(format!("holds      {}", lock(held)))]);
    }
    if let Some(wait) = &thread.waits_for {
        tree.push(0, [Cell::text(waits_for(wait))]);
    }
    frames(&mut tree, &thread.frames, thread.end);
    section.add(tree);
    section
}

fn section_of_group(group: &Group, threads: &BTreeMap<u32, &Thread>) -> Section {
    let doing = group.doing.as_ref().map_or_else(String::new, |doing| format!(": {doing}"));
    let mut section = Section::new(format!("{}{doing}", counted(group.count as u64, "thread")));
    let members = || group.os_tids.iter().filter_map(|tid| threads.get(tid));
    let mut named: Vec<String> = members()
        .take(THREADS)
        .map(|thread| match &thread.name {
            Some(name) => format!("{name} ({})", thread.os_tid),
            None => thread.os_tid.to_string(),
        })
        .collect();
    if let Some(more) = group.count.checked_sub(THREADS).filter(|more| *more > 0) {
        named.push(format!("{more} more"));
    }
    section.say(named.join(", "));
    let mut tree = Tree::default();
    // Locks of a group are those of its threads.
    for thread in members().take(THREADS) {
        for held in &thread.holds {
            tree.push(0, [Cell::text(format!("{} holds {}", title(thread), lock(held)))]);
        }
        if let Some(wait) = &thread.waits_for {
            tree.push(0, [Cell::text(format!("{} {}", title(thread), waits_for(wait)))]);
        }
    }
    frames(&mut tree, &group.frames, group.end);
    section.add(tree);
    section
}

fn title(thread: &Thread) -> String {
    let managed = thread.managed_id.map_or_else(String::new, |id| format!(", managed {id}"));
    let cpu = thread.cpu_ms.filter(|cpu| *cpu >= 0.001);
    let cpu = cpu.map_or_else(String::new, |cpu| format!(", cpu {}", duration((cpu * 1e6) as u64)));
    let ids = format!("thread {}{managed}{cpu}", thread.os_tid);
    match &thread.name {
        Some(name) => format!("{name} ({ids})"),
        None => ids,
    }
}

/// A wait for a lock in words.
pub fn waits_for(wait: &LockWait) -> String {
    let owner = match (&wait.held_by, wait.owner_has_ended) {
        _ if wait.for_pulse => String::new(),
        (Some(owner), _) => format!(", held by {}", of_shown(owner)),
        (None, true) => ", held by a thread that has ended".to_owned(),
        (None, false) => String::new(),
    };
    let what = if wait.for_pulse { "a pulse of the " } else { "" };
    let limit =
        wait.timeout_ms.map_or_else(String::new, |limit| format!(", for at most {limit} ms"));
    format!("waits for  {what}{}{owner}{limit}", lock(&wait.lock))
}

fn of_shown(thread: &ThreadShown) -> String {
    match &thread.name {
        Some(name) => format!("{name} (thread {})", thread.os_tid),
        None => format!("thread {}", thread.os_tid),
    }
}

/// A lock in words.
pub fn lock(lock: &LockShown) -> String {
    match (lock.kind, &lock.type_name) {
        ("lock", _) => format!("System.Threading.Lock {}", lock.object),
        (_, Some(name)) => format!("monitor of {name} {}", lock.object),
        (_, None) => format!("monitor of object {}", lock.object),
    }
}

/// Where the code of a frame is: its line, or its library.
pub fn place(frame: &Frame) -> Option<String> {
    match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => Some(format!("{}:{line}", file_name(file))),
        (_, _, Some(module)) if !frame.is_managed() && !frame.name.starts_with('[') => {
            Some(module.clone())
        }
        _ => None,
    }
}

/// Frames, without stubs between managed and native code.
fn frames(tree: &mut Tree, stack: &[Frame], end: End) {
    let shown: Vec<&Frame> = stack.iter().filter(|frame| frame.kind != "stub").collect();
    for frame in shown.iter().take(FRAMES) {
        let place = place(frame);
        let guessed = if frame.guessed { " (found by search)" } else { "" };
        let forms = vec![format!("at {}{guessed}", frame.name)];
        tree.push(0, [Cell::Name { forms, place }]);
    }
    if let Some(more) = shown.len().checked_sub(FRAMES).filter(|more| *more > 0) {
        tree.push(0, [Cell::text(format!("… {more} more"))]);
    }
    let said = match end {
        End::Root => return,
        End::Truncated => "(deeper than what is copied of a stack)",
        End::CallersNotFound => "(callers not found)",
        End::NotSampled => "(it ran, and was not met on a processor: take another dump)",
        End::NotReadable => "(its stack could not be read)",
    };
    tree.push(0, [Cell::text(said)]);
}

#[cfg(test)]
mod tests {
    use super::super::report::{
        Locks, SCHEMA, groups,
        tests::{frame, thread},
    };
    use super::*;
    use document::text::{self, Style};

    fn sample() -> Report {
        let mut waits = thread(
            12,
            "waiting for a lock",
            vec![
                frame("native", "[libcoreclr.so]", None),
                frame("stub", "[runtime stub]", None),
                frame("managed", "Shop.Orders.Save(Order)", Some(42)),
            ],
        );
        let account = LockShown {
            kind: "monitor",
            type_name: Some("Shop.Account".into()),
            object: "0x7f10".into(),
        };
        let owner = ThreadShown { os_tid: 13, managed_id: Some(5), name: Some("b".into()) };
        waits.waits_for = Some(LockWait {
            lock: account.clone(),
            for_pulse: false,
            held_by: Some(owner),
            owner_has_ended: false,
            timeout_ms: Some(500),
        });
        (waits.name, waits.managed_id) = (Some("a".into()), Some(4));
        let mut holds = thread(13, "running", Vec::new());
        (holds.holds, holds.end, holds.cpu_ms) = (vec![account], End::NotSampled, None);
        Report {
            schema: SCHEMA,
            pid: 7,
            process: "Shop".into(),
            runtime: Some("9.0.5".into()),
            time_unix_ms: 0,
            read_by: ReadBy::Agent,
            reason: None,
            elapsed_ms: 40.0,
            reading_ms: Some(1.0),
            threads: vec![waits, holds],
            groups: None,
            locks: Locks { read: true, reason: None, verdict: Some("no deadlock".into()) },
            asynchronous: None,
            notes: Vec::new(),
        }
    }

    fn shown(of: &Report) -> String {
        let mut out = Vec::new();
        text::write(&report(of), Style::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_dump_for_people() {
        let expected = "\
Shop (7), .NET 9.0.5: 2 threads, 1970-01-01 00:00:00 UTC
  1 running, 1 waiting for a lock
  locks: no deadlock

a (thread 12, managed 4, cpu 1.50 ms): waiting for a lock
  waits for  monitor of Shop.Account 0x7f10, held by b (thread 13), for at most 500 ms
  at [libcoreclr.so]
  at Shop.Orders.Save(Order)  Orders.cs:42

thread 13: running
  holds      monitor of Shop.Account 0x7f10
  (it ran, and was not met on a processor: take another dump)
";
        assert_eq!(shown(&sample()), expected);
    }

    #[test]
    fn groups_name_their_threads_and_their_locks() {
        let mut of = sample();
        of.groups = Some(groups(&of.threads));
        let text = shown(&of);
        assert!(text.contains("1 thread: waiting for a lock\n  a (12)\n"), "{text}");
        assert!(
            text.contains("a (thread 12, managed 4, cpu 1.50 ms) waits for  monitor"),
            "{text}"
        );
        (of.read_by, of.reason) = (ReadBy::Outside, Some("it is stopped".into()));
        // Sentences are wrapped.
        let text = shown(&of).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("1 managed frame named, 0 frames of code that could not"), "{text}");
        assert!(text.contains("because it is stopped"), "{text}");
    }
}
