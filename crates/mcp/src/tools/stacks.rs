//! `stacks`: a thread dump.

use super::Ask;
use crate::{
    Dump, DumpGroup,
    answer::Answer,
    call::{Call, Failure, Target},
    foreign::{NAME, clean},
};
use document::format::counted;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Frames of a group, if many groups are shown.
const FEW: usize = 8;

/// Frames of a group of a thread that was asked for.
const MANY: usize = 40;

/// Threads of a group that are named.
const NAMED: usize = 4;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stacks {
    /// Process id. Give this or `process`.
    pid: Option<u32>,
    /// Process name.
    process: Option<String>,
    /// Only threads with this name, thread id or method, with deeper stacks.
    matching: Option<String>,
    /// false: load no agent, only read from outside; fewer methods have names.
    attach: Option<bool>,
}

impl Ask for Stacks {
    const NAME: &'static str = "stacks";
    const ABOUT: &'static str = "Stacks of all threads, equal ones together, with what they wait for, \
        locks held and waited for, and deadlocks. Costs milliseconds; no thread is stopped; an agent \
        is loaded for a moment. Use it if a process hangs or waits, also if it does not respond.";

    async fn answer(self, call: Call) -> Result<Answer, Failure> {
        let target = Target { pid: self.pid, process: self.process.clone() };
        let process = call.any_process(&target).await?;
        let (pid, attach) = (process.pid, self.attach.unwrap_or(true));
        let program = Arc::clone(&call.shared.program);
        let dump = move || Ok(program.stacks(&process, attach).map_err(Failure::Failed));
        Ok(answer(&call.work().dump(dump).await??, pid, self.matching.as_deref()))
    }
}

fn answer(dump: &Dump, pid: u32, matching: Option<&str>) -> Answer {
    let wanted: Vec<&DumpGroup> =
        dump.groups.iter().filter(|group| matching.is_none_or(|text| group.has(text))).collect();
    let threads = counted(dump.threads as u64, "thread");
    let mut answer = Answer::new(format!("Process {pid}: {threads}."));
    if matching.is_some() {
        answer.say(format!("{} match.", counted(wanted.len() as u64, "different stack")));
    }
    answer.fact("pid", pid);
    answer.fact("threads", dump.threads);
    if let Some(locks) = &dump.locks {
        answer.add(format!("locks: {}", clean(locks, NAME)));
    }
    for note in &dump.notes {
        answer.add(format!("note: {}", clean(note, NAME)));
    }
    let depth = if matching.is_some() { MANY } else { FEW };
    // Those that say something about the program before the runtime's own threads.
    let (own, others): (Vec<&DumpGroup>, Vec<&DumpGroup>) =
        wanted.into_iter().partition(|group| group.frames.iter().any(|frame| frame.managed));
    for group in own {
        group.lines(depth).into_iter().for_each(|line| answer.add(line));
    }
    if !others.is_empty() {
        let threads: usize = others.iter().map(|group| group.threads.len()).sum();
        answer.add(format!("{} without managed code", counted(threads as u64, "thread")));
    }
    if matching.is_none() {
        answer.next(format!("stacks {{\"pid\":{pid},\"matching\":…}} for whole stacks"));
        answer.next(format!("checkup {{\"pid\":{pid}}}"));
    }
    answer
}

impl DumpGroup {
    /// Whether a thread of it has this name or id, or a method of this name is on its stack.
    fn has(&self, text: &str) -> bool {
        let lower = text.to_lowercase();
        // Who may ask for parts of a redacted text could find it letter by letter.
        let has = |name: &str| clean(name, usize::MAX).to_lowercase().contains(&lower);
        self.threads.iter().any(|(tid, name)| {
            tid.to_string() == text || name.as_ref().is_some_and(|name| has(name))
        }) || self.frames.iter().any(|frame| has(&frame.text))
    }

    fn lines(&self, depth: usize) -> Vec<String> {
        let named = self.threads.iter().take(NAMED).map(|(tid, name)| match name {
            Some(name) => format!("{} ({tid})", clean(name, 60)),
            None => tid.to_string(),
        });
        let mut names = named.collect::<Vec<_>>().join(", ");
        if self.threads.len() > NAMED {
            names.push_str(", …");
        }
        let count = counted(self.threads.len() as u64, "thread");
        let mut lines = vec![format!("{count} [{names}]: {}", clean(&self.doing, NAME))];
        lines.extend(self.locks.iter().take(NAMED).map(|lock| format!("  {}", clean(lock, NAME))));
        let managed: Vec<_> = self.frames.iter().filter(|frame| frame.managed).collect();
        let shown = managed.iter().take(depth);
        lines.extend(shown.map(|frame| format!("  at {}", clean(&frame.text, NAME))));
        if managed.len() > depth {
            lines.push(format!("  … {} more", managed.len() - depth));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DumpFrame;

    fn dump() -> Dump {
        let frame = |text: &str, managed| DumpFrame { text: text.into(), managed };
        let waits = DumpGroup {
            threads: (1..=6).map(|tid| (tid, (tid == 1).then(|| "or\u{202e}der".into()))).collect(),
            doing: "waiting for a lock".into(),
            locks: vec!["waits for monitor of Shop.Stock".into()],
            frames: std::iter::once(frame("[libcoreclr.so]", false))
                .chain((0..20).map(|n| frame(&format!("Shop.M{n}()"), true)))
                .collect(),
        };
        let native = DumpGroup {
            threads: vec![(9, None)],
            doing: "idle".into(),
            frames: vec![frame("read", false)],
            ..DumpGroup::default()
        };
        Dump {
            threads: 7,
            locks: Some("no deadlock".into()),
            notes: Vec::new(),
            groups: vec![native, waits],
        }
    }

    #[test]
    fn equal_stacks_stand_together() {
        let answer = answer(&dump(), 5, None);
        assert_eq!(answer.head, ["Process 5: 7 threads."]);
        let lines: Vec<&str> = answer.data.iter().map(String::as_str).collect();
        assert_eq!(lines[0], "locks: no deadlock");
        assert_eq!(lines[1], "6 threads [or\\u{202e}der (1), 2, 3, 4, …]: waiting for a lock");
        assert_eq!(lines[3], "  at Shop.M0()");
        assert_eq!(lines[11..], ["  … 12 more", "1 thread without managed code"]);
    }

    #[test]
    fn threads_are_found_by_name_id_and_method() {
        for (text, found) in [("DER", 1), ("6", 1), ("shop.m19", 1), ("9", 2), ("nope", 0)] {
            let answer = answer(&dump(), 5, Some(text));
            assert!(
                answer.head[1].starts_with(&format!("{found} different")),
                "{text}: {answer:?}"
            );
        }
        let whole = answer(&dump(), 5, Some("der"));
        assert!(whole.data.contains(&"  at Shop.M19()".to_owned()));
    }
}
