//! What callbacks and ticks hand to the writing thread.

use corprof::ids::{FunctionId, ModuleId, ThreadId};
use crossbeam_queue::ArrayQueue;
use profilers::CallbackSample;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use wire::{Nanos, Record, RuntimeWork, WallSample};

/// One thing that happened in the target.
#[derive(Debug)]
pub enum Event {
    /// A managed thread began to run on a thread of the operating system.
    ThreadRuns {
        /// Thread.
        thread: ThreadId,
        /// Its number for the operating system.
        os_tid: u32,
        /// When.
        time: Nanos,
    },
    /// A managed thread got a name.
    ThreadNamed {
        /// Thread.
        thread: ThreadId,
        /// Name.
        name: String,
    },
    /// A managed thread ended.
    ThreadEnded {
        /// Thread.
        thread: ThreadId,
        /// When.
        time: Nanos,
    },
    /// The runtime worked.
    Work(RuntimeWork),
    /// The code of a dynamic method was freed.
    FunctionFreed(FunctionId),
    /// A module was unloaded.
    ModuleUnloaded(ModuleId),
    /// A sample taken in a callback.
    Sample(CallbackSample),
    /// A record whose ids are all known: from a tick.
    Record(Record),
    /// Something a user should know.
    Log(wire::LogLevel, String),
}

impl Event {
    /// Whether it says what there is: without it, later events would be taken for those of
    /// something else, or samples be taken twice.
    fn is_lifecycle(&self) -> bool {
        use Event::{FunctionFreed, ModuleUnloaded, ThreadEnded, ThreadRuns};
        matches!(
            self,
            ThreadRuns { .. }
                | ThreadEnded { .. }
                | FunctionFreed(_)
                | ModuleUnloaded(_)
                | Self::Record(Record::EngineFallback { .. } | Record::WalkBlocked { .. })
        )
    }

    /// About how many bytes it holds beside itself.
    fn held(&self) -> usize {
        match self {
            Self::ThreadNamed { name, .. } => name.capacity(),
            Self::Log(_, message) => message.capacity(),
            Self::Sample(CallbackSample::Exception { message, ips, .. }) => {
                ips.capacity() * size_of::<u64>() + message.as_ref().map_or(0, String::capacity)
            }
            Self::Record(Record::ThreadSnapshot(tick) | Record::ThreadTick { tick, .. }) => {
                tick.threads.capacity() * size_of::<WallSample>()
            }
            Self::Record(Record::BlockedStack(stack)) => stack.bytes.capacity(),
            _ => 0,
        }
    }
}

/// A bounded queue without locks: a full one drops what comes, and counts it. Half of its room is
/// for events that say what begins and ends, so that samples do not displace them; should even
/// those be too many, that is noted.
#[derive(Debug)]
pub struct Events {
    queue: ArrayQueue<Event>,
    /// How many others than lifecycle events there may be.
    most: usize,
    /// Whether a lifecycle event was dropped.
    lost_ends: AtomicBool,
    held: AtomicUsize,
    dropped: AtomicU64,
    passed: AtomicU64,
}

impl Events {
    /// Bytes that events may hold beside themselves, all together.
    const MOST_HELD: usize = 4 << 20;

    /// A queue for `most` events, and as many more that say what begins and ends.
    pub fn new(most: usize) -> Self {
        Self {
            queue: ArrayQueue::new(most * 2),
            most,
            lost_ends: AtomicBool::new(false),
            held: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            passed: AtomicU64::new(0),
        }
    }

    /// Adds an event, or drops it. Says whether it was added.
    pub fn push(&self, event: Event) -> bool {
        let held = event.held();
        let is_lifecycle = event.is_lifecycle();
        let fits = (held == 0 || self.held.fetch_add(held, Relaxed) <= Self::MOST_HELD)
            && (is_lifecycle || self.queue.len() < self.most);
        if fits && self.queue.push(event).is_ok() {
            self.passed.fetch_add(1, Relaxed);
            return true;
        }
        if is_lifecycle {
            self.lost_ends.store(true, SeqCst);
        }
        self.held.fetch_sub(held, Relaxed);
        self.dropped.fetch_add(1, Relaxed);
        false
    }

    /// Takes the oldest.
    pub fn pop(&self) -> Option<Event> {
        let event = self.queue.pop()?;
        self.held.fetch_sub(event.held(), Relaxed);
        Some(event)
    }

    /// Whether the queue is half full: time to write without waiting for the next round.
    pub fn is_filling(&self) -> bool {
        self.queue.len() * 2 >= self.most || self.held.load(Relaxed) * 2 >= Self::MOST_HELD
    }

    /// Whether lifecycle events were dropped since the last time that this was asked.
    pub fn take_lost_ends(&self) -> bool {
        self.lost_ends.swap(false, SeqCst)
    }

    /// How many were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// How many were taken.
    pub fn passed(&self) -> u64 {
        self.passed.load(Relaxed)
    }

    /// Bytes that the queue holds.
    pub fn memory(&self) -> usize {
        self.queue.capacity() * (size_of::<Event>() + size_of::<usize>()) + self.held.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts() {
        let events = Events::new(4);
        let sample = || {
            let (sequence, function) = (1, profilers::Function(1));
            Event::Sample(CallbackSample::ExceptionCaught { sequence, time: 1, function })
        };
        assert_eq!((0..6).filter(|_| events.push(sample())).count(), 4);
        assert_eq!((events.passed(), events.dropped()), (4, 2));
        assert!(events.is_filling() && !events.take_lost_ends());
        // Samples leave room for what must not be lost.
        for function in 1..=4 {
            events.push(Event::FunctionFreed(FunctionId(function)));
        }
        assert_eq!((events.passed(), events.dropped()), (8, 2));
        assert!(!events.take_lost_ends());
        events.push(Event::FunctionFreed(FunctionId(5)));
        assert!(events.take_lost_ends() && !events.take_lost_ends(), "its loss is noted, once");
        let mut ends = Vec::new();
        while let Some(event) = events.pop() {
            if let Event::FunctionFreed(function) = event {
                ends.push(function.0);
            }
        }
        assert_eq!(ends, [1, 2, 3, 4]);
        assert!(!events.is_filling());
    }

    #[test]
    fn what_events_hold_is_bounded_too() {
        let events = Events::new(1000);
        let log = || Event::Log(wire::LogLevel::Debug, "x".repeat(1 << 20));
        for _ in 0..10 {
            events.push(log());
        }
        assert_eq!(events.passed() + events.dropped(), 10);
        assert!((4..=6).contains(&events.passed()), "{}", events.passed());
        assert!(events.memory() <= 6 << 20);
        while events.pop().is_some() {}
        assert_eq!(events.held.load(Relaxed), 0);
        events.push(log());
        assert!(events.pop().is_some());
    }
}
