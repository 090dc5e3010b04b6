//! The stacks of all threads at one moment.
//!
//! While the runtime is suspended, nothing here allocates or waits: all memory is reserved before.

use super::abi::{CUT, MAX_FRAMES, ThreadProfile, address};
use super::endings::Endings;
use super::runtime::{Runtime, SUSPENSION_IN_PROGRESS};
use super::{Refusal, names::Names};
use crate::suspension;
use corprof::ids::{FunctionId, ModuleId, ThreadId};
use corprof::metadata::MethodDef;
use std::thread;
use std::time::{Duration, Instant};

/// How long suspending is retried while a collection suspends the runtime, and the pause between
/// attempts.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

/// For how many threads of [`MAX_FRAMES`] frames memory is reserved at most. Typical stacks have
/// less than a tenth of that, so at least ten times as many threads fit. Only pages with frames are
/// touched.
const MAX_DEEP_THREADS: usize = 4096;

/// Where a function is declared: valid as long as the module is loaded, also after the function is
/// freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The module.
    pub module: ModuleId,
    /// The method in it.
    pub method: MethodDef,
}

/// The stack of a thread.
#[derive(Clone, Copy, Debug)]
struct Stack {
    thread: ThreadId,
    is_cut: bool,
    frames: usize,
}

/// The stacks of a snapshot.
#[derive(Debug, Default)]
pub struct Snapshot {
    threads: Vec<Stack>,
    /// The ids of the functions of all stacks, one stack after the other; 0 is a run of native
    /// frames.
    functions: Vec<usize>,
    /// Where they are declared; `None` for native frames, and where the runtime reports no token.
    places: Vec<Option<Place>>,
}

impl Snapshot {
    /// Takes a snapshot as soon as the runtime can be suspended. One at a time.
    ///
    /// # Errors
    /// The runtime cannot be suspended, there is not enough memory, or `is_aborted` returned true.
    pub fn take(
        runtime: &impl Runtime,
        endings: &Endings,
        names: &Names,
        is_aborted: impl Fn() -> bool,
    ) -> Result<Self, Refusal> {
        let started = Instant::now();
        loop {
            match Self::attempt(runtime, endings, names) {
                Err(Refusal::Runtime(error)) if error.hresult() == Some(SUSPENSION_IN_PROGRESS) => {
                    if is_aborted() {
                        return Err(Refusal::Aborted);
                    }
                    if started.elapsed() > LIMIT {
                        return Err(Refusal::Runtime(error));
                    }
                    thread::sleep(PAUSE);
                }
                taken => return taken,
            }
        }
    }

    fn attempt(runtime: &impl Runtime, endings: &Endings, names: &Names) -> Result<Self, Refusal> {
        let _turn = suspension::take().ok_or(Refusal::TimedOut)?;
        let watch = endings.watch();
        let mut threads = runtime.threads()?;
        let own = runtime.current_thread();
        let mut snapshot = Self::with_room_for(threads.len())?;
        // Without a suspension, functions on a walked stack live only as long as their modules are
        // not unloaded.
        let modules = (!runtime.can_suspend()).then(|| names.hold());
        let suspended = runtime.suspend()?;
        {
            let _walk = watch.walk(&mut threads);
            for thread in threads.iter().filter(|thread| Some(**thread) != own) {
                if !snapshot.has_room() {
                    break;
                }
                snapshot.add(runtime, *thread);
            }
        }
        runtime.resume(suspended)?;
        drop(modules);
        snapshot.functions.shrink_to_fit();
        Ok(snapshot)
    }

    fn with_room_for(threads: usize) -> Result<Self, Refusal> {
        let mut snapshot = Self::default();
        let frames = threads.min(MAX_DEEP_THREADS) * MAX_FRAMES;
        snapshot.threads.try_reserve_exact(threads)?;
        snapshot.functions.try_reserve_exact(frames)?;
        snapshot.places.try_reserve_exact(frames)?;
        Ok(snapshot)
    }

    /// Whether there is room for another stack of any depth.
    fn has_room(&self) -> bool {
        self.threads.len() < self.threads.capacity()
            && self.functions.capacity() - self.functions.len() >= MAX_FRAMES
            && self.places.capacity() - self.places.len() >= MAX_FRAMES
    }

    /// Adds the stack of a thread, unless it cannot be walked.
    fn add(&mut self, runtime: &impl Runtime, thread: ThreadId) {
        let start = self.functions.len();
        let mut count = 0;
        let walked = runtime.walk(thread, |function| {
            let function = function.unwrap_or_default().0;
            // A stack that is too deep keeps its last frames: those at the root tell what the
            // thread is for.
            match self.functions.get_mut(start + count % MAX_FRAMES) {
                Some(oldest) => *oldest = function,
                None => self.functions.push(function),
            }
            count += 1;
        });
        if walked.is_err() {
            self.functions.truncate(start);
            return;
        }
        let functions = self.functions.get_mut(start..).unwrap_or_default();
        if count > MAX_FRAMES {
            functions.rotate_left(count % MAX_FRAMES);
        }
        let stack = Stack { thread, is_cut: count > MAX_FRAMES, frames: functions.len() };
        self.places.extend(functions.iter().map(|function| {
            let (module, method) = runtime.function(FunctionId(*function).non_null()?).ok()?;
            (!module.is_null() && !method.is_nil()).then_some(Place { module, method })
        }));
        self.threads.push(stack);
    }

    /// The functions and where they are declared, once per frame.
    pub fn functions(&self) -> impl Iterator<Item = (FunctionId, Place)> {
        let functions = self.functions.iter().zip(&self.places);
        functions.filter_map(|(function, place)| Some((FunctionId(*function), (*place)?)))
    }

    /// The stacks in the layout that the managed agent reads.
    pub fn into_profile(self) -> Profile {
        let mut rest = self.functions.as_slice();
        let threads = self.threads.iter().filter_map(|stack| {
            let (functions, others) = rest.split_at_checked(stack.frames)?;
            rest = others;
            Some(ThreadProfile {
                thread: stack.thread.0,
                hresult: if stack.is_cut { CUT } else { 0 },
                frame_count: i32::try_from(functions.len()).ok()?,
                functions: address(functions),
            })
        });
        Profile { threads: threads.collect(), _functions: self.functions }
    }
}

/// Result of `RequestProfile`.
#[derive(Debug, Default)]
pub struct Profile {
    threads: Vec<ThreadProfile>,
    /// What the addresses in `threads` point to.
    _functions: Vec<usize>,
}

impl Profile {
    /// One entry per thread. Their addresses stay valid when the profile is moved.
    pub fn threads(&self) -> &[ThreadProfile] {
        &self.threads
    }
}
