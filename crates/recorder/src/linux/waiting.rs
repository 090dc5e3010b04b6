//! Samples that wait until the agent has said what code is at their addresses.

use super::{
    cpu::TakenSample,
    frames::{Copied, Frames},
    sources::EventSample,
};
use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};
use unwind::Needed;
use wire::{BlockedStack, Control};

/// How long a sample waits for the agent's answer.
const LIMIT: Duration = Duration::from_secs(2);

/// How long the stack of a blocked thread waits for each answer: thousands of them may come at
/// once, and none is worth anything without its managed frames.
const BLOCKED_LIMIT: Duration = Duration::from_secs(5);

/// Most CPU samples that wait at a time; their stacks are kept, so this bounds memory.
const MOST_CPU: usize = 4096;

/// The same for samples of events. They are small, and at the end of a recording all that the
/// runtime has buffered comes at once.
const MOST_EVENTS: usize = 1 << 17;

/// Most bytes of stacks of blocked threads. If there are more, no answer is waited for.
const MOST_BLOCKED: usize = 128 << 20;

/// What waits.
pub(super) enum WaitingSample {
    /// The copied stack of a thread that ran.
    Cpu(Box<Copied<TakenSample>>),
    /// The copied stack of a blocked thread.
    Blocked(Box<Copied<BlockedStack>>),
    /// What an event told, with the addresses of its stack.
    Event(Box<dyn EventSample>),
}

/// Addresses that the agent has to explain.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Code that was executed there.
    pub executed: Vec<u64>,
    /// These may be return addresses.
    pub guessed: Vec<u64>,
}

impl From<Needed> for Needs {
    fn from(needed: Needed) -> Self {
        Self { executed: needed.executed.into_iter().collect(), guessed: needed.guessed }
    }
}

impl Needs {
    /// Forgets those that are known by now, up to one that is not. Whether all are known.
    fn are_known(&mut self, frames: &Frames) -> bool {
        let knows = |address: &mut u64| frames.knows(*address);
        while self.executed.pop_if(knows).is_some() {}
        while self.executed.is_empty() && self.guessed.pop_if(knows).is_some() {}
        self.executed.is_empty() && self.guessed.is_empty()
    }
}

struct Entry {
    sample: WaitingSample,
    needs: Needs,
    since: Instant,
    /// Whether the agent was asked.
    asked: bool,
}

/// A sample that waits no longer.
pub(super) struct Released {
    pub sample: WaitingSample,
    /// Whether the answer did not come in time: the agent is not asked again.
    pub late: bool,
}

/// All samples that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Waiting {
    entries: VecDeque<Entry>,
    cpu: usize,
    events: usize,
    /// Bytes of the stacks of blocked threads.
    blocked: usize,
    /// Addresses that the agent was asked about.
    requested: HashSet<u64>,
}

impl Waiting {
    /// A sample waits until these addresses are known. False if there is no room for it.
    #[must_use]
    pub fn push(&mut self, sample: WaitingSample, needs: Needs) -> bool {
        let has_room = match &sample {
            WaitingSample::Cpu(_) => self.cpu < MOST_CPU,
            WaitingSample::Blocked(_) => true,
            WaitingSample::Event(_) => self.events < MOST_EVENTS,
        };
        if has_room {
            self.count(&sample, usize::saturating_add);
            self.entries.push_back(Entry { sample, needs, since: Instant::now(), asked: false });
        }
        has_room
    }

    fn count(&mut self, sample: &WaitingSample, change: fn(usize, usize) -> usize) {
        let (count, size) = match sample {
            WaitingSample::Cpu(_) => (&mut self.cpu, 1),
            WaitingSample::Blocked(stack) => (&mut self.blocked, stack.sample.bytes.len()),
            WaitingSample::Event(_) => (&mut self.events, 1),
        };
        *count = change(*count, size);
    }

    /// Takes the samples whose addresses are all known, and those that have waited too long, all of
    /// them if `all` is set: what is unknown then is shown as such.
    pub fn release(&mut self, frames: &mut Frames, all: bool) -> Vec<Released> {
        let mut released = Vec::new();
        let now = Instant::now();
        let crowded = self.blocked > MOST_BLOCKED;
        for _ in 0..self.entries.len() {
            let Some(mut entry) = self.entries.pop_front() else { break };
            let waited = now.saturating_duration_since(entry.since);
            let late = all
                || match entry.sample {
                    WaitingSample::Blocked(_) => crowded || waited > BLOCKED_LIMIT,
                    WaitingSample::Cpu(_) | WaitingSample::Event(_) => waited > LIMIT,
                };
            if entry.needs.are_known(frames) || late {
                let left = entry.needs.executed.iter().chain(&entry.needs.guessed);
                left.for_each(|address| frames.give_up(*address));
                self.count(&entry.sample, usize::saturating_sub);
                released.push(Released { sample: entry.sample, late });
            } else {
                self.entries.push_back(entry);
            }
        }
        released
    }

    /// What the agent has to be asked about: what samples need and was not asked about yet.
    pub fn questions(&mut self) -> Needs {
        let mut questions = Needs::default();
        let entries = self.entries.iter_mut().filter(|entry| !entry.asked);
        for Entry { needs, asked, .. } in entries {
            let mut new = |address: &&u64| self.requested.insert(**address);
            questions.executed.extend(needs.executed.iter().filter(&mut new));
            questions.guessed.extend(needs.guessed.iter().filter(&mut new));
            *asked = true;
        }
        questions
    }

    /// The same as messages to the agent.
    pub fn messages(&mut self) -> Vec<Control> {
        let Needs { mut executed, mut guessed } = self.questions();
        let part =
            |all: &mut Vec<u64>| all.split_off(all.len().saturating_sub(Control::MAX_RESOLVE));
        let mut messages = Vec::new();
        while !(executed.is_empty() && guessed.is_empty()) {
            messages.push(Control::Resolve {
                executed: part(&mut executed),
                guessed: part(&mut guessed),
            });
        }
        messages
    }

    /// Code was freed: the agent has to be asked again, because other code may be there.
    pub fn code_freed(&mut self) {
        self.requested.clear();
        self.entries.iter_mut().for_each(|entry| entry.asked = false);
    }

    /// Whether CPU samples wait.
    pub fn holds_cpu(&self) -> bool {
        self.cpu > 0
    }

    /// Whether samples of events wait.
    pub fn holds_events(&self) -> bool {
        self.events > 0
    }

    /// The time of the first CPU sample that waits.
    pub fn first_cpu(&self) -> Option<u64> {
        let times = self.entries.iter().filter_map(|entry| match &entry.sample {
            WaitingSample::Cpu(copied) => Some(copied.sample.time),
            WaitingSample::Blocked(_) | WaitingSample::Event(_) => None,
        });
        times.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::target::Target;
    use unwind::Registers;

    fn frames() -> Frames {
        Frames::new(&Target::new(std::process::id()).unwrap())
    }

    fn cpu(time: u64) -> WaitingSample {
        let (registers, stack) = (Registers::default(), Vec::new());
        let sample =
            TakenSample { time, os_tid: 1, weight: 1, registers, stack, callers: Vec::new() };
        WaitingSample::Cpu(Box::new(Copied::new(sample)))
    }

    fn blocked(bytes: usize) -> WaitingSample {
        let bytes = vec![0; bytes];
        let (id, os_tid, time, ip, sp, call, cut) = (1, 1, 1, 1, 1, None, false);
        let stack = BlockedStack { id, os_tid, time, ip, sp, call, bytes, cut };
        WaitingSample::Blocked(Box::new(Copied::new(stack)))
    }

    fn needs(executed: &[u64], guessed: &[u64]) -> Needs {
        Needs { executed: executed.to_vec(), guessed: guessed.to_vec() }
    }

    /// The times of CPU samples, and whether their answers are late.
    fn released(waiting: &mut Waiting, frames: &mut Frames, all: bool) -> Vec<(u64, bool)> {
        let released = waiting.release(frames, all).into_iter();
        let facts = released.map(|released| match released.sample {
            WaitingSample::Cpu(copied) => (copied.sample.time, released.late),
            WaitingSample::Blocked(_) | WaitingSample::Event(_) => (0, released.late),
        });
        facts.collect()
    }

    #[test]
    fn samples_wait_for_all_of_their_addresses() {
        let (mut waiting, mut frames) = (Waiting::default(), frames());
        assert!(waiting.push(cpu(20), needs(&[10], &[11, 12])));
        assert!(waiting.push(cpu(30), needs(&[], &[12])));
        assert!(waiting.push(cpu(40), needs(&[10], &[])));
        assert_eq!(waiting.first_cpu(), Some(20));
        assert_eq!(released(&mut waiting, &mut frames, false), []);
        frames.not_code(12);
        assert_eq!(released(&mut waiting, &mut frames, false), [(30, false)]);
        frames.not_code(10);
        assert_eq!(released(&mut waiting, &mut frames, false), [(40, false)]);
        assert!(waiting.holds_cpu());
        frames.not_code(11);
        assert_eq!(released(&mut waiting, &mut frames, false), [(20, false)]);
        assert_eq!((waiting.holds_cpu(), waiting.first_cpu()), (false, None));
    }

    #[test]
    fn an_address_is_asked_about_once_and_again_when_code_is_freed() {
        let asked = |waiting: &mut Waiting| {
            let questions = waiting.questions();
            (questions.executed, questions.guessed)
        };
        let mut waiting = Waiting::default();
        assert!(waiting.push(cpu(20), needs(&[10], &[11, 12])));
        assert_eq!(asked(&mut waiting), (vec![10], vec![11, 12]));
        assert!(waiting.push(blocked(8), needs(&[], &[12, 13])));
        assert_eq!(asked(&mut waiting), (vec![], vec![13]));
        assert_eq!(asked(&mut waiting), (vec![], vec![]));
        waiting.code_freed();
        assert_eq!(asked(&mut waiting), (vec![10], vec![11, 12, 13]));
    }

    #[test]
    fn what_is_unknown_at_the_end_is_given_up() {
        let (mut waiting, mut frames) = (Waiting::default(), frames());
        assert!(waiting.push(cpu(20), needs(&[10], &[11])));
        assert!(waiting.push(blocked(8), needs(&[], &[12])));
        assert_eq!(released(&mut waiting, &mut frames, true), [(20, true), (0, true)]);
        assert!([10, 11, 12].iter().all(|address| frames.knows(*address)));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut waiting, mut frames) = (Waiting::default(), frames());
        for time in 0..MOST_CPU {
            assert!(waiting.push(cpu(time as u64), needs(&[10], &[])));
        }
        assert!(!waiting.push(cpu(0), needs(&[10], &[])));
        assert!(waiting.push(blocked(MOST_BLOCKED), needs(&[], &[11])));
        assert_eq!(released(&mut waiting, &mut frames, false), []);
        // Stacks of blocked threads do not wait where there are too many; other samples do.
        assert!(waiting.push(blocked(1), needs(&[], &[11])));
        assert_eq!(released(&mut waiting, &mut frames, false), [(0, true), (0, true)]);
        assert!(waiting.push(blocked(1), needs(&[], &[13])));
        assert_eq!(released(&mut waiting, &mut frames, false), []);
    }
}
