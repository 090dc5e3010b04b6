//! What engines work with: the runtime, the clock, counters, the queue to the writer, and how far
//! the session is.

pub mod budget;
pub mod code_map;
pub mod code_regions;
pub mod collectors;
pub mod context;
pub mod counters;
mod event_class_names;
pub mod exception_layout;
pub mod freed;
pub mod id_table;
pub mod queue;
pub mod resolver;
pub mod runtime;
pub mod stacks;
pub mod thread_registry;
pub mod threads;
pub mod unloads;

use crate::ledger;
use crate::os::clock;
use crate::os::connection::Wake;
use crate::os::memory::OwnMemory;
use crate::os::reattach::ReattachListener;
use collectors::Collectors;
use corprof::EventMask;
use corprof::ids::RawObjectId;
use counters::Counters;
use exception_layout::ExceptionLayout;
use profilers::{Collector, Object};
use queue::{Event, Events};
use runtime::Runtime;
use stacks::Stacks;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use thread_registry::LiveThreads;
use threads::Threads;
use unloads::Unloaded;
use wire::{BlockedStack, CpuEngine, LogLevel, Nanos, Record, ResidentState, SessionConfig};

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The runtime still waits in our `Initialize` or `InitializeForAttach`.
    Starting = 0,
    /// Collecting.
    Running = 1,
    /// Nothing is collected any more.
    Stopping = 2,
}

/// What all threads and callbacks of a session share.
pub struct Host {
    /// The runtime.
    pub runtime: Arc<Runtime>,
    /// What clrscope wants.
    pub config: SessionConfig,
    /// Whether another profiler holds the main place.
    pub notify_only: bool,
    /// The event mask that the runtime accepted.
    pub event_mask: (u32, u32),
    /// When the runtime entered our `Initialize` or `InitializeForAttach`.
    pub entered: Nanos,
    /// What callbacks and ticks hand to the writer.
    pub events: Events,
    /// The threads that may be walked.
    pub live: LiveThreads,
    /// What is counted.
    pub counters: Counters,
    /// Wakes the writer.
    pub wake: Wake,
    /// Fault-safe reads.
    pub memory: Arc<OwnMemory>,
    exception_layout: OnceLock<Option<ExceptionLayout>>,
    collectors: Collectors,
    threads: Mutex<Threads>,
    stacks: Mutex<Stacks>,
    phase: AtomicU8,
    second: AtomicU32,
    /// CPU time of the agent's threads that have said so.
    pub tick_cpu: AtomicU64,
    /// Bytes that are copied of the stack of a blocked thread.
    copied_bytes: AtomicU32,
    /// Why threads are walked under suspension, where blocked ones could be read otherwise.
    walks: OnceLock<String>,
    /// Whether a launched process may continue.
    pub go: AtomicBool,
    /// Whether the process ends, or the runtime is about to unload us though we have only begun.
    shutdown: AtomicBool,
    /// Whether a callback has panicked: the runtime tells us only of ends from then on.
    failed: AtomicBool,
    /// Whether the last words are written.
    finished: AtomicBool,
    /// Whether the runtime has said that the attach is complete.
    pub attached: AtomicBool,
    /// Number of suspensions that a callback reported.
    pub suspensions: AtomicU64,
    /// The listener by which clrscope finds a resident agent.
    door: OnceLock<Weak<ReattachListener>>,
}

/// Events between callbacks and writer: 20,000 exception samples a second are 400 in each round.
const EVENTS: usize = 4096;

impl Host {
    /// Prepares a session; nothing runs yet.
    pub fn new(
        runtime: Arc<Runtime>,
        config: SessionConfig,
        notify_only: bool,
        event_mask: (u32, u32),
        entered: Nanos,
    ) -> std::io::Result<Self> {
        ledger::restart(config.launched, config.free_memory);
        Ok(Self {
            // With signals or the kernel's ring there is no walking for CPU samples, unless these
            // turn out not to work.
            collectors: Collectors::new(
                profilers::create(&config),
                matches!(config.cpu, CpuEngine::Signals | CpuEngine::KernelRing).then_some("cpu"),
            ),
            runtime,
            config,
            notify_only,
            event_mask,
            entered,
            events: Events::new(EVENTS),
            live: LiveThreads::default(),
            counters: Counters::default(),
            wake: Wake::new()?,
            memory: Arc::default(),
            exception_layout: OnceLock::new(),
            threads: Mutex::default(),
            stacks: Mutex::default(),
            phase: AtomicU8::new(Phase::Starting as u8),
            second: AtomicU32::new(0),
            tick_cpu: AtomicU64::new(0),
            copied_bytes: AtomicU32::new(BlockedStack::FIRST_BYTES),
            walks: OnceLock::new(),
            go: AtomicBool::new(false),
            shutdown: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            attached: AtomicBool::new(false),
            suspensions: AtomicU64::new(0),
            door: OnceLock::new(),
        })
    }

    /// How far the session is.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Running,
            _ => Phase::Stopping,
        }
    }

    /// Advances to a later phase, never back to an earlier one.
    pub fn advance(&self, phase: Phase) {
        let before = self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        if phase == Phase::Stopping
            && before < phase as u8
            && let Some(door) = self.door.get().and_then(Weak::upgrade)
        {
            door.say(ResidentState::Reverts);
        }
        self.wake.wake();
    }

    /// The process ends: the writer says its last words.
    pub fn shut_down(&self) {
        self.shutdown.store(true, Ordering::Release);
        self.advance(Phase::Stopping);
    }

    /// Whether the process ends.
    pub fn is_shutdown(&self) -> bool {
        self.shutdown.load(Ordering::Acquire)
    }

    /// A callback has panicked. Nothing is collected any more, and the session ends with this
    /// reason.
    pub fn fail(&self, why: String) {
        self.failed.store(true, Ordering::Release);
        self.give_up(why);
    }

    /// Ends the session for this reason, because it cannot continue.
    pub fn give_up(&self, why: String) {
        self.log(LogLevel::Error, why);
        self.advance(Phase::Stopping);
    }

    /// Whether a callback has panicked.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The last words are written.
    pub fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Waits for the last words, until a point in time.
    pub fn wait_finished(&self, deadline: Nanos) {
        while !self.finished.load(Ordering::Acquire) && clock::monotonic() < deadline {
            clock::sleep_until(clock::monotonic() + 1_000_000);
        }
    }

    /// From now on clrscope can see what this agent does, for as long as the door is there.
    pub fn show_door(&self, door: &Arc<ReattachListener>) {
        let _ = self.door.set(Arc::downgrade(door));
    }

    /// Waits until a launched process may continue, but not longer than until `deadline`.
    pub fn wait_go(&self, deadline: Nanos) {
        while !self.go.load(Ordering::Acquire)
            && self.phase() == Phase::Running
            && clock::monotonic() < deadline
        {
            clock::sleep_until(clock::monotonic() + 500_000);
        }
    }

    /// Where exceptions and strings keep what a message needs. Found out once, from the first
    /// exception.
    pub fn exception_layout(&self, object: Object) -> Option<ExceptionLayout> {
        if let Some(layout) = self.exception_layout.get() {
            return *layout;
        }
        let layout = ExceptionLayout::find(&self.runtime, RawObjectId(object.0));
        *self.exception_layout.get_or_init(|| layout)
    }

    /// What is unloaded, or being unloaded: ids of classes that are older than a change of the
    /// number of modules are not to be used, nor those of functions that were freed since.
    pub fn unloaded(&self) -> Unloaded {
        self.runtime.unloads().so_far()
    }

    /// Whole seconds since the session began, as of the last [`Self::count_seconds`].
    pub fn second(&self) -> u32 {
        self.second.load(Ordering::Relaxed)
    }

    /// Brings [`Self::second`] up to date.
    pub fn count_seconds(&self, now: Nanos) {
        self.second
            .store((now.saturating_sub(self.entered) / 1_000_000_000) as u32, Ordering::Relaxed);
    }

    /// Locks the threads. Never call this in a callback, or while the runtime is suspended.
    pub fn threads(&self) -> MutexGuard<'_, Threads> {
        lock(&self.threads)
    }

    /// The stacks. Locked as [`Self::threads`].
    pub fn stacks(&self) -> MutexGuard<'_, Stacks> {
        lock(&self.stacks)
    }

    /// Tells the user something.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) {
        self.events.push(Event::Log(level, message.into()));
    }

    /// Calls every collector that is on. One that panics is switched off, and the user is notified.
    pub fn each_collector(&self, call: impl FnMut(&dyn Collector)) {
        self.collectors.each(call, |id| {
            Counters::add(&self.counters.panics, 1);
            self.log(LogLevel::Error, format!("the {id} profiler failed and is switched off"));
        });
    }

    /// Whether any collector wants ticks.
    pub fn wants_ticks(&self) -> bool {
        self.collectors.want_ticks()
    }

    /// Whether stacks of blocked threads are read, or why all threads are walked under suspension.
    /// Only where running threads have CPU samples: their stacks are not read.
    pub fn walks_blocked(&self) -> Option<String> {
        if let Some(why) = self.walks.get() {
            return Some(why.clone());
        }
        match self.config.cpu {
            CpuEngine::KernelRing | CpuEngine::Signals | CpuEngine::CompareBlocked => None,
            CpuEngine::SuspendWalk => {
                Some("CPU samples are taken by suspend and walk, too".to_owned())
            }
            CpuEngine::Off | CpuEngine::Compare => Some("no CPU samples are taken".to_owned()),
        }
    }

    /// Walks all threads under suspension from now on.
    pub fn walk_blocked(&self, why: String) {
        if self.walks.set(why.clone()).is_ok() {
            self.events.push(Event::Record(Record::WalkBlocked { reason: why }));
        }
    }

    /// How many bytes of the stack of a blocked thread are copied.
    pub fn copied_bytes(&self) -> usize {
        self.copied_bytes.load(Ordering::Relaxed) as usize
    }

    /// Copies this many bytes of a blocked thread's stack from now on, within bounds.
    pub fn copy_more(&self, bytes: u32) {
        let bytes = bytes.clamp(BlockedStack::FIRST_BYTES, BlockedStack::MOST_BYTES);
        self.copied_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether exceptions come as events.
    pub fn exceptions_by_events(&self) -> bool {
        by_events(self.event_mask)
    }

    /// Lets a collector collect that stands by.
    pub fn switch_on(&self, id: &str) {
        self.collectors.switch_on(id);
    }

    /// About how many bytes the shared parts hold.
    pub fn held_memory(&self) -> usize {
        self.events.memory()
            + self.runtime.ids().memory()
            + self.runtime.unloads().freed().memory()
            + self.stacks().memory()
            + size_of::<Self>()
            + size_of::<LiveThreads>()
    }
}

/// A lock whose holder panicked is still a lock: what it guards is whole after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a mask asks for events of an own session: only exceptions come that way.
fn by_events((_, high): (u32, u32)) -> bool {
    high & EventMask::EVENT_PIPE.high() != 0
}
