//! What commands do, for assistants.

use crate::{
    agent::AgentArgs,
    commands::heap,
    console,
    stacks::{
        report::{Frame, Group, Report, Thread},
        take, view,
    },
};
use ::heap::ReportOptions;
use diagnostics::DotnetProcess;
use mcp::{Dump, DumpFrame, DumpGroup, Program};
use std::{collections::HashMap, path::Path, time::Instant};

/// This program.
#[derive(Debug)]
pub struct Clrscope {
    /// The agent that it carries.
    pub agent: AgentArgs,
}

impl Program for Clrscope {
    fn stacks(&self, process: &DotnetProcess, attach: bool) -> Result<Dump, String> {
        let taken = take::report(process, !attach, true, Instant::now(), &self.agent);
        let (report, departure) = taken.map_err(|error| console::describe(&error))?;
        let mut dump = dump_of(&report);
        // An answer says that nothing is left, so it waits for that.
        dump.notes.extend(departure.and_then(|departure| departure.finish()));
        Ok(dump)
    }

    fn heap(&self, session: &Path, options: &ReportOptions) -> Result<::heap::Report, String> {
        heap::analyze_last(session, options).map_err(|error| console::describe(&error))
    }
}

fn dump_of(report: &Report) -> Dump {
    let threads: HashMap<u32, &Thread> =
        report.threads.iter().map(|thread| (thread.os_tid, thread)).collect();
    let unread = report.locks.reason.as_ref().map(|why| format!("locks were not read: {why}"));
    let reason = report.reason.as_ref().map(|why| format!("read without the agent: {why}"));
    let groups = report.groups.iter().flatten();
    Dump {
        threads: report.threads.len(),
        locks: report.locks.verdict.clone(),
        notes: unread.into_iter().chain(reason).chain(report.notes.iter().cloned()).collect(),
        groups: groups.map(|group| group_of(group, &threads)).collect(),
    }
}

fn group_of(group: &Group, threads: &HashMap<u32, &Thread>) -> DumpGroup {
    let members: Vec<&Thread> =
        group.os_tids.iter().filter_map(|tid| threads.get(tid).copied()).collect();
    let mut locks = Vec::new();
    for thread in &members {
        let who = thread.name.clone().unwrap_or_else(|| format!("thread {}", thread.os_tid));
        let held = thread.holds.iter().map(|held| format!("{who} holds {}", view::lock(held)));
        let wait = thread.waits_for.iter().map(|wait| {
            let words = view::waits_for(wait);
            format!("{who} {}", words.split_whitespace().collect::<Vec<_>>().join(" "))
        });
        locks.extend(held.chain(wait));
    }
    let frames = group.frames.iter().filter(|frame| frame.kind != "stub");
    DumpGroup {
        threads: members.iter().map(|thread| (thread.os_tid, thread.name.clone())).collect(),
        doing: group.doing.clone().unwrap_or_else(|| "different things".to_owned()),
        locks,
        frames: frames.map(frame_of).collect(),
    }
}

fn frame_of(frame: &Frame) -> DumpFrame {
    let text = match view::place(frame) {
        Some(place) => format!("{} ({place})", frame.name),
        None => frame.name.clone(),
    };
    DumpFrame { text, managed: frame.is_managed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::report::{
        Locks, ReadBy, SCHEMA, groups,
        tests::{frame, thread},
    };
    use inspect::{LockShown, LockWait};

    #[test]
    fn a_dump_has_what_the_command_shows() {
        let stack = || {
            vec![
                frame("native", "[libcoreclr.so]", None),
                frame("stub", "[runtime stub]", None),
                frame("managed", "Shop.Orders.Save(Order)", Some(42)),
            ]
        };
        let mut waits = thread(12, "waiting for a lock", stack());
        let lock = LockShown {
            kind: "monitor",
            type_name: Some("Shop.Account".into()),
            object: "0x7f10".into(),
        };
        waits.name = Some("order".into());
        waits.waits_for = Some(LockWait {
            lock: lock.clone(),
            for_pulse: false,
            held_by: None,
            owner_has_ended: true,
            timeout_ms: None,
        });
        let threads = vec![waits, thread(13, "waiting for a lock", stack())];
        let report = Report {
            schema: SCHEMA,
            pid: 7,
            process: "Shop".into(),
            runtime: None,
            time_unix_ms: 0,
            read_by: ReadBy::Outside,
            reason: Some("it is stopped".into()),
            elapsed_ms: 1.0,
            reading_ms: None,
            groups: Some(groups(&threads)),
            threads,
            locks: Locks { read: true, reason: None, verdict: Some("no deadlock".into()) },
            asynchronous: None,
            notes: vec!["a note".into()],
        };
        let dump = dump_of(&report);
        assert_eq!((dump.threads, dump.locks.as_deref()), (2, Some("no deadlock")));
        assert_eq!(dump.notes, ["read without the agent: it is stopped", "a note"]);
        let [group] = dump.groups.as_slice() else { panic!("{dump:?}") };
        assert_eq!(group.threads, [(12, Some("order".into())), (13, None)]);
        let wait =
            "order waits for monitor of Shop.Account 0x7f10, held by a thread that has ended";
        assert_eq!(group.locks, [wait]);
        let frames: Vec<_> =
            group.frames.iter().map(|frame| (&*frame.text, frame.managed)).collect();
        let method = "Shop.Orders.Save(Order) (Orders.cs:42)";
        assert_eq!(frames, [("[libcoreclr.so]", false), (method, true)]);
    }
}
