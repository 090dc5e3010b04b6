//! A session in the target: what its threads and callbacks share, and the engines that collect.

use crate::engines::cpu_signals::CpuSignals;
use crate::engines::exceptions::Exceptions;
use crate::engines::heap::Heap;
use crate::engines::probes::Instrumentation;
use crate::engines::survivors::Survivors;
use crate::engines::{exact_allocations, hooks};
use crate::host::queue::Event;
use crate::host::runtime::Runtime;
use crate::host::{Host, lock};
use crate::os::signals::{self, SignalEngine};
use crate::os::threads::OwnThread;
use crate::session::leaving::Leaving;
use corprof::EventMask;
use profilers::survivors::SurvivorSettings;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use wire::{Nanos, Record, SessionConfig};

/// A session.
pub struct Agent {
    /// What engines work with.
    pub host: Arc<Host>,
    /// Exceptions, where they come as events.
    pub exceptions: Arc<Exceptions>,
    /// What this session has rewritten.
    pub instrumentation: Instrumentation,
    /// The heap snapshot that is under way.
    pub heap: Heap,
    /// The collection whose survivors are reported.
    pub survivors: Survivors,
    /// CPU samples by timer signals.
    pub signals: CpuSignals,
    /// Whether the agent may leave.
    pub leaving: Leaving,
    /// The sampling thread, the one that takes snapshots of the heap or of survivors, and the main
    /// one.
    sampler: Mutex<Option<OwnThread>>,
    looker: Mutex<Option<OwnThread>>,
    main: Mutex<Option<OwnThread>>,
}

impl Deref for Agent {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Agent {
    /// Prepares a session; nothing runs yet.
    pub fn new(
        runtime: Arc<Runtime>,
        config: SessionConfig,
        notify_only: bool,
        event_mask: (u32, u32),
        entered: Nanos,
    ) -> std::io::Result<Self> {
        let survivors = Survivors::new(SurvivorSettings::of(&config));
        let host = Host::new(runtime, config, notify_only, event_mask, entered)?;
        Ok(Self {
            exceptions: Arc::new(Exceptions::new(host.exceptions_by_events())),
            host: Arc::new(host),
            instrumentation: Instrumentation::default(),
            heap: Heap::default(),
            survivors,
            signals: CpuSignals::default(),
            leaving: Leaving::default(),
            sampler: Mutex::default(),
            looker: Mutex::default(),
            main: Mutex::default(),
        })
    }

    /// Whether the library must stay loaded. Either the agent has set or requested something that
    /// the runtime never reverts, so that the runtime would refuse to detach the agent. Or a signal
    /// handler of the agent may still be called.
    pub fn is_hooked(&self) -> bool {
        if signals::must_stay() {
            return true;
        }
        let (low, high) = self.event_mask;
        let forever =
            EventMask::IMMUTABLE.union(EventMask::ENTER_LEAVE).union(EventMask::ENABLE_REJIT);
        low & forever.low() != 0 || high & forever.high() != 0
    }

    /// Whether the agent stays in the process when the session ends, and waits for the next one.
    pub fn is_resident(&self) -> bool {
        !self.notify_only && (self.is_hooked() || self.config.stays)
    }

    /// Takes CPU samples by suspension, because it cannot be done by signals. To be called before
    /// [`Host::wants_ticks`].
    pub fn walk_instead(&self, why: &str) {
        self.signals.stop(self);
        self.walk_blocked(format!("timer signals do not work here: {why}"));
        self.switch_on("cpu");
        self.events.push(Event::Record(Record::EngineFallback { reason: why.to_owned() }));
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

    /// Waits until the thread that takes heap snapshots has ended, which it does as the session
    /// stops. A snapshot that is under way ends early.
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

    /// Stops all engines, so that nothing is collected any more. What they have collected can still
    /// be read. The signal engine still gets answers: see [`CpuSignals::stop`].
    pub fn stop_collecting(&self) {
        hooks::stop();
        exact_allocations::stop();
        self.instrumentation.stop(self.is_shutdown());
        self.stop_sampling();
        self.stop_looking();
        self.signals.with(SignalEngine::disarm);
        self.exceptions.stop(self);
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
}
