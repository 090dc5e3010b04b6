//! One session in the target: what all threads of the agent and all callbacks share.

use crate::collectors::Collectors;
use crate::counters::Counters;
use crate::exception_events::{self, EventClasses, EventState};
use crate::exception_layout::ExceptionLayout;
use crate::heap::Heap;
use crate::instrumentation::Instrumentation;
use crate::ledger::{self, Counted};
use crate::os::clock;
use crate::os::connection::Wake;
use crate::os::memory::OwnMemory;
use crate::os::neighbors::{Neighbors, neighbors};
use crate::os::reattach::ReattachListener;
use crate::os::signals::{self, SignalEngine};
use crate::os::threads::OwnThread;
use crate::queue::{Event, Events};
use crate::runtime::Runtime;
use crate::stacks::Stacks;
use crate::survivors::Survivors;
use crate::thread_registry::LiveThreads;
use crate::threads::Threads;
use corprof::EventMask;
use corprof::ids::RawObjectId;
use corprof::info::EventPipeSession;
use profilers::survivors::SurvivorSettings;
use profilers::{Collector, Object};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
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

/// A session.
pub struct Agent {
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
    /// Exception classes that are known by name, where exceptions come as events.
    pub event_classes: EventClasses,
    /// How far exceptions are followed, where they come as events.
    pub event_state: EventState,
    event_session: Mutex<Option<Counted<EventPipeSession>>>,
    /// What this session has rewritten.
    pub instrumentation: Instrumentation,
    /// The heap snapshot that is under way.
    pub heap: Heap,
    /// The collection whose survivors are reported.
    pub survivors: Survivors,
    collectors: Collectors,
    signals: RwLock<Option<SignalEngine>>,
    threads: Mutex<Threads>,
    stacks: Mutex<Stacks>,
    /// The sampling thread, the one that takes snapshots of the heap or of survivors, and the main one.
    sampler: Mutex<Option<OwnThread>>,
    looker: Mutex<Option<OwnThread>>,
    main: Mutex<Option<OwnThread>>,
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
    may_leave: OnceLock<bool>,
    /// Whether other agents were in the process when that was found out.
    had_neighbors: AtomicBool,
    /// The listener by which clrscope finds a resident agent.
    door: OnceLock<Weak<ReattachListener>>,
}

/// Whether the runtime knows a profiler when it looks for whom to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// The runtime could not be suspended to find out: something else holds it.
    Busy,
}

/// How long to try to find out whether callbacks come.
const HEAR_LIMIT: Nanos = 2_000_000_000;

/// How often that is tried before the agent leaves.
const LEAVE_TRIES: u32 = 5;
/// How long agents that the runtime is about to unload are waited for: it takes 300 ms as a rule.
const NEIGHBORS_LIMIT: Nanos = 1_000_000_000;
/// Pause between two checks which agents are present, and until the runtime has certainly counted.
const NEIGHBORS_PAUSE: Nanos = 20_000_000;

/// Events between callbacks and writer: 20,000 exception samples a second are 400 in each round.
const EVENTS: usize = 4096;

impl Agent {
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
            survivors: Survivors::new(SurvivorSettings::of(&config)),
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
            event_classes: if by_events(event_mask) {
                EventClasses::with_room()
            } else {
                EventClasses::default()
            },
            event_state: EventState::default(),
            event_session: Mutex::default(),
            heap: Heap::default(),
            instrumentation: Instrumentation::default(),
            signals: RwLock::default(),
            threads: Mutex::default(),
            stacks: Mutex::default(),
            sampler: Mutex::default(),
            looker: Mutex::default(),
            main: Mutex::default(),
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
            may_leave: OnceLock::new(),
            had_neighbors: AtomicBool::new(false),
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

    /// Whether the runtime still calls this profiler.
    ///
    /// The runtime counts notification-only profilers, and looks for none while the count is 0. But
    /// it also decrements this count when the main profiler detaches
    /// (`ProfControlBlock::DeRegisterProfilerInfo`, src/coreclr/inc/profilepriv.inl, seen in 8, 9
    /// and 10). From then on the count is one too low: no callback comes, and a request to detach
    /// reads through a null pointer. So before it relies on either, the agent checks whether the
    /// runtime reports a suspension to it.
    pub fn is_called(&self) -> Called {
        if !self.notify_only {
            return Called::Yes;
        }
        let deadline = clock::monotonic() + HEAR_LIMIT;
        // Until then the runtime reports nothing to the agent in any case.
        while !self.attached.load(Ordering::Acquire)
            && !self.is_shutdown()
            && clock::monotonic() < deadline
        {
            clock::sleep_until(clock::monotonic() + 100_000);
        }
        while !self.is_shutdown() {
            let before = self.suspensions.load(Ordering::SeqCst);
            match self.runtime.suspend() {
                Ok(suspended) => {
                    drop(suspended);
                    let is_called = self.suspensions.load(Ordering::SeqCst) != before;
                    return if is_called { Called::Yes } else { Called::No };
                }
                Err(_) if clock::monotonic() < deadline => {
                    clock::sleep_until(clock::monotonic() + 10_000_000)
                }
                Err(_) => break,
            }
        }
        Called::Busy
    }

    /// Whether the library must stay loaded. Either the agent has set or requested something that
    /// the runtime never reverts, so that the runtime would refuse to detach the agent. Or a signal
    /// handler of the agent may still be called.
    pub fn is_hooked(&self) -> bool {
        if signals::must_stay() || exception_events::must_stay() {
            return true;
        }
        let (low, high) = self.event_mask;
        let forever =
            EventMask::IMMUTABLE.union(EventMask::ENTER_LEAVE).union(EventMask::ENABLE_REJIT);
        low & forever.low() != 0 || high & forever.high() != 0
    }

    /// Whether the runtime can be asked to detach us: see [`Self::is_called`]. Found out once, at
    /// the end. A runtime that cannot be suspended is asked again for a while: to stay is for ever.
    pub fn may_leave(&self) -> bool {
        *self.may_leave.get_or_init(|| {
            self.had_neighbors.store(neighbors() != Neighbors::default(), Ordering::SeqCst);
            self.is_called_for_certain()
        })
    }

    fn is_called_for_certain(&self) -> bool {
        (0..LEAVE_TRIES).map(|_| self.is_called()).find(|called| *called != Called::Busy)
            == Some(Called::Yes)
    }

    /// Whether a request to detach is safe now. The runtime counts one notification-only profiler
    /// too few from the moment when another agent leaves the main slot for which no idle instance
    /// compensates, and a request after that ends the process (see [`Self::is_called`]). So where
    /// other agents are, those that the runtime is about to unload are waited for, and what was
    /// found out before does not count.
    pub fn is_safe_to_detach(&self) -> bool {
        let had_neighbors = self.had_neighbors.load(Ordering::SeqCst);
        if !self.notify_only || !had_neighbors && neighbors() == Neighbors::default() {
            return true;
        }
        let mut began = clock::monotonic();
        let deadline = began + NEIGHBORS_LIMIT;
        while neighbors().without_thread > 0 && !self.is_shutdown() && clock::monotonic() < deadline
        {
            // With thousands of threads a snapshot takes long: a tenth of the time at most.
            let now = clock::monotonic();
            clock::sleep_until((now + NEIGHBORS_PAUSE.max(10 * (now - began))).min(deadline));
            began = clock::monotonic();
        }
        // The runtime counts a moment after it has unmapped a library.
        clock::sleep_until(clock::monotonic() + NEIGHBORS_PAUSE);
        self.is_called_for_certain()
    }

    /// Whether the agent stays in the process when the session ends, and waits for the next one.
    pub fn is_resident(&self) -> bool {
        !self.notify_only && (self.is_hooked() || self.config.stays)
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

    /// How many modules are unloaded, or being unloaded: ids of classes that are older than a
    /// change are not to be used.
    pub fn modules_gone(&self) -> u64 {
        self.runtime.unloads().went()
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

    /// Does something with the signal engine, where one runs. Callbacks may: the lock is held for
    /// writing only while the engine is put in its place or taken away.
    pub fn with_signals<R>(&self, call: impl FnOnce(&SignalEngine) -> R) -> Option<R> {
        self.signals.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(call)
    }

    /// Puts the signal engine in its place: new threads are sampled from now on.
    pub fn keep_signals(&self, engine: SignalEngine) {
        *self.signals.write().unwrap_or_else(PoisonError::into_inner) = Some(engine);
    }

    /// Stops the signal engine, where one runs: no timer is left, and no handler.
    pub fn stop_signals(&self) {
        // While threads that end are still heard.
        self.with_signals(|engine| {
            engine.disarm();
            engine.give_back();
        });
        let engine = self.signals.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(left) = engine.map(SignalEngine::stop) else { return };
        if let Some(why) = left.stays {
            self.log(
                LogLevel::Warning,
                format!("the agent remains loaded, and does nothing: {why}"),
            );
        }
        if left.stacks > 0 {
            let stacks = left.stacks;
            self.log(
                LogLevel::Warning,
                format!(
                    "{stacks} threads keep the alternate stacks (96 KB) that they got for the \
                    recording"
                ),
            );
        }
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

    /// Takes CPU samples by suspension, because it cannot be done by signals. To be called before
    /// [`Self::wants_ticks`].
    pub fn walk_instead(&self, why: &str) {
        self.stop_signals();
        self.walk_blocked(format!("timer signals do not work here: {why}"));
        self.collectors.switch_on("cpu");
        self.events.push(Event::Record(Record::EngineFallback { reason: why.to_owned() }));
    }

    /// Whether exceptions come as events.
    pub fn exceptions_by_events(&self) -> bool {
        by_events(self.event_mask)
    }

    /// Keeps the session of events until it is taken; returns the one before it.
    pub fn keep_events(
        &self,
        session: Counted<EventPipeSession>,
    ) -> Option<Counted<EventPipeSession>> {
        lock(&self.event_session).replace(session)
    }

    /// The session of events, where one runs.
    pub fn take_events(&self) -> Option<Counted<EventPipeSession>> {
        lock(&self.event_session).take()
    }

    /// Keeps the sampling thread for [`Self::stop_sampling`].
    pub fn keep_sampler(&self, thread: OwnThread) {
        *lock(&self.sampler) = Some(thread);
    }

    /// Waits until the sampling thread has ended, which it does as the session stops.
    pub fn stop_sampling(&self) {
        let sampler = lock(&self.sampler).take();
        if let Some(sampler) = sampler {
            sampler.join();
        }
    }

    /// Keeps the thread that takes heap snapshots for [`Self::stop_looking`].
    pub fn keep_looker(&self, thread: OwnThread) {
        *lock(&self.looker) = Some(thread);
    }

    /// Waits until the thread that takes heap snapshots has ended, which it does as the session stops.
    /// A snapshot that is under way ends early.
    pub fn stop_looking(&self) {
        let looker = lock(&self.looker).take();
        if let Some(looker) = looker {
            looker.join();
        }
    }

    /// Keeps the main thread for [`Self::join`].
    pub fn keep_main(&self, thread: OwnThread) {
        *lock(&self.main) = Some(thread);
    }

    /// Waits until no thread of the session is left.
    pub fn join(&self) {
        self.stop_sampling();
        self.stop_looking();
        let main = lock(&self.main).take();
        if let Some(main) = main {
            main.join();
        }
    }

    /// About how many bytes the shared parts hold.
    pub fn held_memory(&self) -> usize {
        self.events.memory()
            + self.runtime.ids().memory()
            + self.stacks().memory()
            + size_of::<Self>()
            + size_of::<LiveThreads>()
    }
}

/// A lock whose holder panicked is still a lock: what it guards is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a mask asks for events of an own session: only exceptions come that way.
fn by_events((_, high): (u32, u32)) -> bool {
    high & EventMask::EVENT_PIPE.high() != 0
}
