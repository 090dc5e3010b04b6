//! The managed threads of the target, as the agent's own threads know them.

use corprof::ids::ThreadId;
use std::collections::HashMap;
use wire::{Nanos, Record, ThreadStarted};

/// All threads that live, with their numbers and names.
#[derive(Debug, Default)]
pub struct Threads {
    known: HashMap<ThreadId, Thread>,
}

#[derive(Debug, Default)]
struct Thread {
    /// `None` until it runs: a managed thread exists before it is started.
    os_tid: Option<u32>,
    name: Option<String>,
}

impl Threads {
    /// A thread runs, since `time` or since before us. The record that says so, if it is news.
    pub fn runs(&mut self, thread: ThreadId, os_tid: u32, time: Option<Nanos>) -> Option<Record> {
        let known = self.known.entry(thread).or_default();
        let news = known.os_tid.replace(os_tid) != Some(os_tid);
        news.then(|| {
            Record::ThreadStarted(ThreadStarted { os_tid, time, name: known.name.clone() })
        })
    }

    /// A thread got a name.
    pub fn named(&mut self, thread: ThreadId, name: String) -> Option<Record> {
        let known = self.known.entry(thread).or_default();
        known.name = Some(name.clone());
        known.os_tid.map(|os_tid| Record::ThreadNamed { os_tid, name })
    }

    /// A thread ended.
    pub fn ended(&mut self, thread: ThreadId, time: Nanos) -> Option<Record> {
        let os_tid = self.known.remove(&thread)?.os_tid?;
        Some(Record::ThreadEnded { os_tid, time })
    }

    /// The threads that run, and their numbers.
    pub fn running(&self) -> impl Iterator<Item = (ThreadId, u32)> {
        self.known.iter().filter_map(|(thread, known)| Some((*thread, known.os_tid?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_before_the_start_comes_with_it() {
        let mut threads = Threads::default();
        assert_eq!(threads.named(ThreadId(8), "worker".into()), None);
        assert_eq!(threads.running().count(), 0);
        let started = ThreadStarted { os_tid: 5, time: Some(3), name: Some("worker".into()) };
        assert_eq!(threads.runs(ThreadId(8), 5, Some(3)), Some(Record::ThreadStarted(started)));
        assert_eq!(threads.runs(ThreadId(8), 5, None), None, "no news");
        let named = Record::ThreadNamed { os_tid: 5, name: "other".into() };
        assert_eq!(threads.named(ThreadId(8), "other".into()), Some(named));
        assert_eq!(threads.running().collect::<Vec<_>>(), [(ThreadId(8), 5)]);
        assert_eq!(threads.ended(ThreadId(8), 9), Some(Record::ThreadEnded { os_tid: 5, time: 9 }));
        assert_eq!(threads.ended(ThreadId(8), 9), None);
    }
}
