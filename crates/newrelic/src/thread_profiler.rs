//! The thread profiler: stacks of all threads and the names of the functions on them, for the
//! managed agent.
//!
//! A worker thread suspends the runtime, walks all stacks ([`snapshot`]), resumes the runtime and
//! then resolves names ([`names`]). The first request starts it: the runtime refuses some of these
//! calls on threads of the program. Callers wait for it.

mod abi;
mod endings;
mod names;
mod runtime;
mod snapshot;

use corprof::ids::{ModuleId, ThreadId};
use corprof::{HResult, ProfilerInfo};
use endings::Endings;
use names::{Answer, Names};
use newrelic_compat::log::Level;
use runtime::Runtime;
use snapshot::{Profile, Snapshot};
use std::collections::TryReserveError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

pub use abi::{FunctionName, ThreadProfile};

/// Name of the thread, as the system shows it: 15 bytes at most.
const THREAD_NAME: &str = "thread-profiler";

/// How long a request waits. A snapshot of thousands of threads takes tens of milliseconds; a
/// collection in progress may take seconds.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// How long a shutdown waits for the worker, and how often it checks. The worker ends at once, or
/// after its snapshot.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);
const SHUTDOWN_PAUSE: Duration = Duration::from_millis(1);

/// Why there is no profile, or no names.
#[derive(Debug)]
pub enum Refusal {
    /// An argument is invalid.
    InvalidArgument,
    /// The runtime cannot be suspended: it is older than .NET Core 3.0.
    OldRuntime,
    /// The last profile was not released, or a request is in progress.
    NotReleased,
    /// The thread profiler was shut down during the request.
    Aborted,
    /// The thread could not be started.
    NoThread(io::Error),
    /// There is no memory for the stacks.
    NoMemory,
    /// The runtime refused.
    Runtime(corprof::Error),
    /// The snapshot took longer than [`REQUEST_LIMIT`].
    TimedOut,
    /// The worker panicked.
    Panicked,
}

impl Refusal {
    /// The result for the caller (winerror.h).
    pub fn hresult(&self) -> HResult {
        HResult::from_bits(match self {
            // E_INVALIDARG
            Self::InvalidArgument => 0x8007_0057,
            // E_UNEXPECTED
            Self::OldRuntime => 0x8000_FFFF,
            // E_ABORT
            Self::Aborted => 0x8000_4004,
            // E_OUTOFMEMORY
            Self::NoMemory => 0x8007_000E,
            Self::Runtime(error) => return error.hresult().unwrap_or(E_FAIL),
            Self::NotReleased | Self::NoThread(_) | Self::TimedOut | Self::Panicked => {
                return E_FAIL;
            }
        })
    }

    /// The log level: misuse by the caller is for debugging, failures are errors.
    pub const fn level(&self) -> Level {
        match self {
            Self::Aborted => Level::Trace,
            Self::InvalidArgument | Self::OldRuntime | Self::NotReleased => Level::Debug,
            Self::NoThread(_)
            | Self::NoMemory
            | Self::Runtime(_)
            | Self::TimedOut
            | Self::Panicked => Level::Error,
        }
    }
}

/// Unspecified failure (winerror.h).
const E_FAIL: HResult = HResult::from_bits(0x8000_4005);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidArgument => f.write_str("an argument is invalid"),
            Self::OldRuntime => {
                f.write_str("this runtime cannot be suspended; it takes .NET Core 3.0 or newer")
            }
            Self::NotReleased => f.write_str("the last profile was not released"),
            Self::Aborted => f.write_str("the thread profiler was shut down"),
            Self::NoThread(error) => write!(f, "no thread could be started: {error}"),
            Self::NoMemory => f.write_str("there is not enough memory"),
            Self::Runtime(error) => error.fmt(f),
            Self::TimedOut => {
                write!(f, "the stacks were not taken within {} s", REQUEST_LIMIT.as_secs())
            }
            Self::Panicked => f.write_str("a fault of the profiler"),
        }
    }
}

impl From<corprof::Error> for Refusal {
    fn from(error: corprof::Error) -> Self {
        Self::Runtime(error)
    }
}

impl From<TryReserveError> for Refusal {
    fn from(_: TryReserveError) -> Self {
        Self::NoMemory
    }
}

/// The thread profiler of a process.
pub struct ThreadProfiler<R: Runtime = ProfilerInfo> {
    shared: Arc<Shared<R>>,
}

/// State shared by callers and the worker thread.
struct Shared<R> {
    runtime: R,
    endings: Endings,
    names: Names,
    state: Mutex<State>,
    changed: Condvar,
    /// Held during a snapshot and until its names are resolved: a worker that outlives its shutdown
    /// may still be at it.
    snapshots: Mutex<()>,
    answer: Mutex<Option<Answer>>,
}

/// The request in progress, and what callers own.
#[derive(Default)]
struct State {
    /// Incremented by each shutdown: results of earlier rounds are discarded.
    round: u64,
    worker: Option<JoinHandle<()>>,
    is_shutting_down: bool,
    request: Request,
    /// The profile that the caller has not released.
    profile: Option<Profile>,
}

/// State of a request.
#[derive(Default)]
enum Request {
    #[default]
    None,
    Asked,
    Taken,
    Done(Result<Profile, Refusal>),
    /// The caller has given up.
    Abandoned,
}

impl ThreadProfiler {
    /// Starts nothing: the first request does.
    pub fn new(info: ProfilerInfo) -> Self {
        Self::of(info)
    }
}

impl<R: Runtime> ThreadProfiler<R> {
    fn of(runtime: R) -> Self {
        let shared = Shared {
            runtime,
            endings: Endings::default(),
            names: Names::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            snapshots: Mutex::default(),
            answer: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Takes the stacks of all managed threads, valid until [`Self::release_profile`] or
    /// [`Self::shutdown`].
    ///
    /// Gives their address (0 if there are none) and their number.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn request_profile(&self) -> Result<(usize, i32), Refusal> {
        let shared = &self.shared;
        if !shared.runtime.can_walk() {
            return Err(Refusal::OldRuntime);
        }
        let mut state = shared.state();
        if state.is_shutting_down {
            return Err(Refusal::Aborted);
        }
        if state.profile.is_some() || !matches!(state.request, Request::None) {
            return Err(Refusal::NotReleased);
        }
        if state.worker.as_ref().is_none_or(JoinHandle::is_finished) {
            state.worker = Some(shared.start(state.round).map_err(Refusal::NoThread)?);
        }
        state.request = Request::Asked;
        shared.changed.notify_all();
        let round = state.round;
        let waits =
            |state: &mut State| state.round == round && !matches!(state.request, Request::Done(_));
        let waited = shared.changed.wait_timeout_while(state, REQUEST_LIMIT, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.round != round {
            return Err(Refusal::Aborted);
        }
        let profile = match std::mem::take(&mut state.request) {
            Request::Done(taken) => taken?,
            Request::Taken => {
                state.request = Request::Abandoned;
                return Err(Refusal::TimedOut);
            }
            Request::None | Request::Asked | Request::Abandoned => return Err(Refusal::TimedOut),
        };
        let threads = profile.threads();
        let given = (abi::address(threads), i32::try_from(threads.len()).unwrap_or(i32::MAX));
        // An empty profile need not be released.
        state.profile = Some(profile).filter(|profile| !profile.threads().is_empty());
        Ok(given)
    }

    /// Releases the last profile.
    pub fn release_profile(&self) {
        let released = self.shared.state().profile.take();
        drop(released);
    }

    /// The names of functions that were on a stack since the start or the last [`Self::shutdown`].
    /// Other functions get placeholders.
    ///
    /// Gives the address of one entry per function, valid until the next call or
    /// [`Self::shutdown`].
    ///
    /// # Errors
    /// There are no functions, or there is no memory.
    pub fn request_function_names(&self, functions: &[usize]) -> Result<usize, Refusal> {
        if functions.is_empty() {
            return Err(Refusal::InvalidArgument);
        }
        let answer = self.shared.names.find(functions)?;
        let address = abi::address(answer.entries());
        *self.shared.answer() = Some(answer);
        Ok(address)
    }

    /// Ends the worker thread and discards all data. The next request starts a new one.
    pub fn shutdown(&self) {
        let shared = &self.shared;
        let mut state = shared.state();
        state.round += 1;
        state.is_shutting_down = true;
        let worker = state.worker.take();
        let request = std::mem::take(&mut state.request);
        let profile = state.profile.take();
        shared.changed.notify_all();
        drop(state);
        drop((request, profile));
        // Not joined: while the process exits, the runtime may block an ending thread for ever.
        // When the worker has finished, no code of ours runs on it.
        let started = Instant::now();
        while worker.as_ref().is_some_and(|worker| !worker.is_finished())
            && started.elapsed() < SHUTDOWN_LIMIT
        {
            thread::sleep(SHUTDOWN_PAUSE);
        }
        shared.names.clear();
        *shared.answer() = None;
        shared.state().is_shutting_down = false;
    }

    /// The runtime's id of the calling thread; 0 if that has never run managed code.
    pub fn current_thread(&self) -> usize {
        self.shared.runtime.current_thread().unwrap_or_default().0
    }

    /// The callback `ThreadDestroyed`: when this returns, the thread is not walked any more. Waits
    /// for a walk in progress.
    pub fn thread_destroyed(&self, thread: ThreadId) {
        self.shared.endings.thread_destroyed(thread);
    }

    /// The callback `ModuleUnloadStarted`: when this returns, the module's metadata is not read any
    /// more.
    pub fn module_unload_started(&self, module: ModuleId) {
        self.shared.names.module_unload_started(module);
    }
}

impl<R> Shared<R> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self) -> MutexGuard<'_, Option<Answer>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Runtime> Shared<R> {
    fn start(self: &Arc<Self>, round: u64) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(self);
        thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || shared.work(round))
    }

    /// The worker's loop, until the next shutdown.
    fn work(&self, round: u64) {
        let mut is_initialized = false;
        while self.next_request(round) {
            // Guards resume the runtime and undo everything else while a panic unwinds.
            let taken = catch_unwind(AssertUnwindSafe(|| {
                if !is_initialized {
                    self.runtime.initialize_current_thread()?;
                    is_initialized = true;
                }
                self.take(round)
            }));
            self.done(round, taken.unwrap_or(Err(Refusal::Panicked)));
        }
    }

    /// Waits for a request; false after a shutdown.
    fn next_request(&self, round: u64) -> bool {
        let waits =
            |state: &mut State| state.round == round && !matches!(state.request, Request::Asked);
        let mut state =
            self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.round != round {
            return false;
        }
        state.request = Request::Taken;
        true
    }

    fn take(&self, round: u64) -> Result<Profile, Refusal> {
        let _turn = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        let unloads = self.names.watch_unloads();
        let is_aborted = || self.state().round != round;
        let snapshot = Snapshot::take(&self.runtime, &self.endings, &self.names, is_aborted)?;
        unloads.learn(&self.runtime, &snapshot);
        Ok(snapshot.into_profile())
    }

    fn done(&self, round: u64, taken: Result<Profile, Refusal>) {
        let mut state = self.state();
        if state.round != round {
            return;
        }
        state.request = if matches!(state.request, Request::Taken) {
            Request::Done(taken)
        } else {
            Request::None
        };
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
