//! What all heap snapshots have in common: the notification from the runtime's callbacks to the
//! thread that takes the snapshot, and the way of the reported data to clrscope.

mod chunks;
mod ids;
mod teller;

pub use chunks::{Abort, Chunks};
pub use ids::Ids;
pub use teller::Teller;

use crate::host::Host;
use crate::os::clock;
use corprof::callback::{DependentReferences, Roots};
use corprof::ids::{ClassId, RawObjectId};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::Nanos;

/// Longest time that a frame may take to be written while the runtime is suspended: the program
/// must not wait for a clrscope that is stopped, or whose disk does not write.
pub const WRITE_LIMIT: Nanos = 100_000_000;
/// The same when it is not suspended.
pub const CALM_LIMIT: Nanos = 10_000_000_000;
/// When the runtime has surely finished to start a launched agent.
pub const STARTED: Nanos = 1_000_000_000;
/// What is reported of a snapshot that was cut for that reason.
pub const UNREAD: &str = "clrscope did not read for 100 ms (it was stopped, or its disk does not \
    write), and the program must not wait for that: take the snapshot again";
/// How long the runtime may take from the end of a collection until it reports that it resumes.
const RESUME_LIMIT: Nanos = 100_000_000;

/// How far a snapshot is.
mod state {
    /// There is none.
    pub const NONE: u8 = 0;
    /// The next collection that fits is the one.
    pub const ARMED: u8 = 1;
    /// The runtime is suspended, and reports the collection.
    pub const TELLING: u8 = 2;
    /// The runtime has told all.
    pub const TOLD: u8 = 3;
}

/// The snapshot that is under way, where one is, as callbacks see it.
pub struct Slot<L> {
    state: AtomicU8,
    /// Locked for a moment by each callback, and by no other code while the runtime tells.
    snapshot: Mutex<Option<Box<L>>>,
    suspended: AtomicU64,
    resumed: AtomicU64,
    memory: AtomicUsize,
}

impl<L> Default for Slot<L> {
    fn default() -> Self {
        Self {
            state: AtomicU8::new(state::NONE),
            snapshot: Mutex::new(None),
            suspended: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            memory: AtomicUsize::new(0),
        }
    }
}

/// What the callbacks of a collection are reported to.
pub trait Reported {
    /// Roots that the collection found.
    fn roots(&mut self, host: &Host, roots: Roots<'_>);

    /// Entries of `ConditionalWeakTable`s that the collection found.
    fn dependent(&mut self, host: &Host, references: DependentReferences<'_>);

    /// An object of the heap. Returns false to receive no more objects.
    fn object(
        &mut self,
        host: &Host,
        object: RawObjectId,
        class: ClassId,
        references: &[RawObjectId],
    ) -> bool;

    /// The end of the collection; the runtime is still suspended.
    fn collection_finished(&mut self, host: &Host);
}

impl<L: Reported> Slot<L> {
    /// See [`Reported::roots`].
    pub fn roots(&self, host: &Host, roots: Roots<'_>) {
        self.with(|snapshot| snapshot.roots(host, roots));
    }

    /// See [`Reported::dependent`].
    pub fn dependent(&self, host: &Host, references: DependentReferences<'_>) {
        self.with(|snapshot| snapshot.dependent(host, references));
    }

    /// See [`Reported::object`].
    pub fn object(
        &self,
        host: &Host,
        object: RawObjectId,
        class: ClassId,
        references: &[RawObjectId],
    ) -> bool {
        self.with(|snapshot| snapshot.object(host, object, class, references)).unwrap_or(false)
    }

    /// See [`Reported::collection_finished`].
    pub fn collection_finished(&self, host: &Host) {
        self.with(|snapshot| snapshot.collection_finished(host));
        self.end();
    }
}

/// How a snapshot ended.
pub struct Taken<L> {
    /// The snapshot.
    pub snapshot: Option<Box<L>>,
    /// Whether a collection was reported to it.
    pub told: bool,
    /// When the runtime was asked to suspend for it.
    pub suspended: Nanos,
    /// How long the runtime was suspended; 0 if that was not reported.
    pub paused: Nanos,
}

impl<L> Slot<L> {
    /// Handles the start of a collection that fits; returns whether a snapshot waits for it.
    /// `suspended` is when the runtime was asked to suspend.
    pub fn begin(&self, suspended: Nanos) -> bool {
        let begins =
            self.state.compare_exchange(state::ARMED, state::TELLING, SeqCst, SeqCst).is_ok();
        if begins {
            self.suspended.store(suspended, SeqCst);
            self.resumed.store(0, SeqCst);
        }
        begins
    }

    /// Handles the end of the collection; the runtime is still suspended.
    fn end(&self) {
        let _ = self.state.compare_exchange(state::TELLING, state::TOLD, SeqCst, SeqCst);
    }

    /// Handles the end of the suspension: the runtime has resumed.
    pub fn resumed(&self, now: Nanos) {
        if self.state.load(Relaxed) == state::TOLD {
            let _ = self.resumed.compare_exchange(0, now, SeqCst, SeqCst);
        }
    }

    /// Whether the collection of the snapshot has ended.
    pub fn is_told(&self) -> bool {
        self.state.load(SeqCst) == state::TOLD
    }

    /// Bytes that the snapshot under way holds.
    pub fn memory(&self) -> usize {
        self.memory.load(Relaxed)
    }

    /// Does something with the snapshot, if the runtime tells just now.
    pub fn with<R>(&self, call: impl FnOnce(&mut L) -> R) -> Option<R> {
        if self.state.load(Relaxed) != state::TELLING {
            return None;
        }
        // With Server GC callbacks of one collection come from several of the collector's threads
        // at the same time, which wait for each other at its end in any case.
        self.snapshot().as_mut().map(|snapshot| call(snapshot))
    }

    fn snapshot(&self) -> MutexGuard<'_, Option<Box<L>>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next collection that fits be reported to `snapshot`, which holds `memory` bytes.
    pub fn arm(&self, snapshot: Box<L>, memory: usize) {
        self.memory.store(memory, Relaxed);
        *self.snapshot() = Some(snapshot);
        self.state.store(state::ARMED, SeqCst);
    }

    /// Takes the snapshot out again. If the runtime is reporting just now, this waits until it has
    /// reported everything.
    pub fn disarm(&self) -> Taken<L> {
        // No collection may begin between the two.
        let _ = self.state.compare_exchange(state::ARMED, state::NONE, SeqCst, SeqCst);
        // What tells ends by itself, for each snapshot has its limit; unless the process ends just
        // now.
        let deadline = clock::monotonic() + CALM_LIMIT;
        while self.state.load(SeqCst) == state::TELLING && clock::monotonic() < deadline {
            clock::sleep_until(clock::monotonic() + 1_000_000);
        }
        let told = self.is_told();
        let deadline = clock::monotonic() + RESUME_LIMIT;
        // With Server GC another thread resumes the runtime.
        while told && self.resumed.load(SeqCst) == 0 && clock::monotonic() < deadline {
            clock::sleep_until(clock::monotonic() + 1_000_000);
        }
        self.state.store(state::NONE, SeqCst);
        self.memory.store(0, Relaxed);
        let suspended = self.suspended.load(SeqCst);
        let paused = self.resumed.load(SeqCst).saturating_sub(suspended);
        Taken {
            snapshot: self.snapshot().take(),
            told,
            suspended,
            paused: if told { paused } else { 0 },
        }
    }
}
