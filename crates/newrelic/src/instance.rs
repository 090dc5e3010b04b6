//! The profiler of this process, once it is initialized.

use crate::events::Events;
use crate::log::Log;
use crate::mode::Mode;
use crate::modules::Modules;
use crate::thread_profiler::ThreadProfiler;
use corprof::ProfilerInfo;
use newrelic_compat::Runtime;
use newrelic_compat::configuration::IgnoreList;
use newrelic_compat::environment::Environment;
use newrelic_compat::log::Level;
use newrelic_compat::plan::Engagement;
use newrelic_compat::points::{CustomInstrumentation, Loaded, Sources, load_all};
use newrelic_compat::rewrite::{Scopes, Settings};
use newrelic_compat::shape::{AgentShape, Shim};
use newrelic_compat::strategy::CallingStrategy;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

/// How long the end of the process waits for a thread of ours at most, and how often it looks.
const END_LIMIT: Duration = Duration::from_secs(2);
const END_PAUSE: Duration = Duration::from_millis(1);

static CURRENT: RwLock<Option<Arc<Instance>>> = RwLock::new(None);

/// The profiler of this process, if it is initialized.
pub fn current() -> Option<Arc<Instance>> {
    CURRENT.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Says which profiler the functions of this library work with; `None` for none.
pub fn set_current(instance: Option<Arc<Instance>>) {
    *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = instance;
}

/// What was found out while it was initialized, and what has become of it.
pub struct Instance {
    pub(crate) info: ProfilerInfo,
    pub(crate) environment: Environment,
    pub(crate) runtime: Runtime,
    /// Major version of the runtime; .NET Core 3.1 says 4.
    pub(crate) major: u16,
    pub(crate) home: PathBuf,
    /// Path of the managed agent.
    pub(crate) agent: String,
    pub(crate) shape: AgentShape,
    /// What the file of the managed agent shows, if it was read.
    pub(crate) shim: Option<Shim>,
    pub(crate) mode: Mode,
    /// As the environment asks for it.
    pub(crate) configured: CallingStrategy,
    /// Known once the core library is loaded.
    pub(crate) resolved: OnceLock<Resolved>,
    pub(crate) log: Log,
    pub(crate) events: Events,
    pub(crate) engagement: Engagement,
    live: Mutex<Live>,
    pub(crate) modules: Modules,
    threads: ThreadProfiler,
    /// Held while a thread of ours asks the runtime for something.
    asking: Mutex<()>,
    /// The process ends.
    is_over: AtomicBool,
}

/// What depends on the core library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Reflection, unless the helpers are there.
    pub strategy: CallingStrategy,
    /// Where types of the framework are looked for.
    pub scopes: Scopes,
    /// Whether methods come to the agent by a delegate of their own module.
    pub direct: bool,
    /// Whether the core library has what new bodies name: without it no method is instrumented.
    pub complete: bool,
}

/// What the managed agent changes while the program runs.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) custom: CustomInstrumentation,
    pub(crate) ignored: IgnoreList,
}

/// What an instance starts with.
pub struct Parts {
    pub info: ProfilerInfo,
    pub environment: Environment,
    pub runtime: Runtime,
    pub major: u16,
    pub home: PathBuf,
    pub agent: String,
    pub shape: AgentShape,
    pub shim: Option<Shim>,
    pub mode: Mode,
    pub configured: CallingStrategy,
    pub log: Log,
    pub events: Events,
    pub ignored: IgnoreList,
}

impl Instance {
    /// Reads the instrumentation, which is logged.
    pub fn new(parts: Parts) -> Self {
        let Parts { info, environment, runtime, major, home, agent, shape, shim, .. } = parts;
        let Parts { mode, configured, log, events, ignored, .. } = parts;
        let threads = ThreadProfiler::new(info.clone());
        let instance = Self {
            info,
            environment,
            runtime,
            major,
            home,
            agent,
            shape,
            shim,
            mode,
            configured,
            resolved: OnceLock::new(),
            log,
            events,
            engagement: Engagement::default(),
            live: Mutex::new(Live { custom: CustomInstrumentation::default(), ignored }),
            modules: Modules::default(),
            threads,
            asking: Mutex::default(),
            is_over: AtomicBool::new(false),
        };
        let loaded = instance.load(&instance.live());
        instance.log.messages(&loaded.messages);
        instance.modules.set_points(Arc::new(loaded.points));
        instance
    }

    /// Asks the runtime for something on a thread of ours; `None` once the process ends. After its
    /// callback `Shutdown` the runtime answers nothing any more, and .NET Core 3.1 reads through a
    /// null pointer.
    pub fn while_it_runs<T>(&self, ask: impl FnOnce() -> T) -> Option<T> {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.is_over.load(SeqCst)).then(ask)
    }

    /// The process ends: waits for what a thread of ours asks for, though not for ever, and lets it
    /// ask for no more.
    pub fn end(&self) {
        self.is_over.store(true, SeqCst);
        let until = Instant::now() + END_LIMIT;
        while matches!(self.asking.try_lock(), Err(TryLockError::WouldBlock))
            && Instant::now() < until
        {
            std::thread::sleep(END_PAUSE);
        }
    }

    /// The thread profiler.
    pub fn threads(&self) -> &ThreadProfiler {
        &self.threads
    }

    /// Writes a line to the log.
    pub fn log(&self, level: Level, text: &str) {
        self.log.line(level, || text);
    }

    pub(crate) fn live(&self) -> std::sync::MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn load(&self, live: &Live) -> Loaded {
        load_all(&Sources {
            home: &self.home,
            runtime: self.runtime,
            custom: &live.custom,
            ignored: &live.ignored,
            shape: self.shape,
            environment: &self.environment,
        })
    }

    /// How bodies are made: for the API in the agent's own way also where methods come to the agent
    /// directly.
    pub fn settings(&self) -> Settings<'_> {
        let resolved = self.resolved.get();
        Settings {
            runtime: self.runtime,
            shape: self.shape,
            start_method: self.shim.map(|shim| shim.start),
            strategy: resolved.map_or(self.configured, |resolved| resolved.strategy),
            agent_path: &self.agent,
            scopes: resolved.map_or(Scopes::Facades, |resolved| resolved.scopes),
        }
    }
}
