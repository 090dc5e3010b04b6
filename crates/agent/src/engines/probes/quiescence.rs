//! Moments in which nobody reads the metadata of a module.
//!
//! The runtime lets a module's metadata be extended while the program uses it. But to make metadata
//! extensible, the runtime lays out all of its tables anew, and some of its readers take no lock
//! (`MDInternalRW`, src/coreclr/md/enc/mdinternalrw.cpp; dotnet/runtime#127957, in all versions up
//! to 10). A reader that looks for a method just then does not find it, and the program ends with a
//! `MissingMethodException` or reads memory that is gone.
//!
//! A module that is just being loaded has no readers. A module that is in use may be read by
//! threads that compile, load types or reflect. All of them are threads of the runtime, and they
//! run: none sleeps while it reads. So the runtime is suspended, which keeps managed code from
//! asking for anything. Then the agent waits until the threads inside the runtime reach a point
//! where they stop, too.

use crate::host::runtime::Runtime;
use crate::os::clock;
use crate::os::tasks::Sleepers;
use com::codes::CORPROF_E_SUSPENSION_IN_PROGRESS;
use corprof::info::Error;
use std::collections::{HashMap, HashSet};
use wire::Nanos;

/// How long the runtime is suspended until all threads sleep, how long it runs until the next try,
/// and how often it is tried so.
#[derive(Clone, Copy)]
struct Tries {
    limit: Nanos,
    pause: Nanos,
    count: u32,
}

/// Threads inside the runtime sleep soon, except during a long compilation.
const SHORT: Tries = Tries { limit: 1_000_000, pause: 9_000_000, count: 20 };
/// On an overloaded machine, a thread that is about to sleep first has to get a processor.
const LONG: Tries = Tries { limit: 20_000_000, pause: 100_000_000, count: 5 };
/// How often it is looked meanwhile.
const LOOK_INTERVAL: Nanos = 30_000;
/// How long threads that were awake each time are not looked at.
const RESTLESS: Nanos = 10_000_000_000;
/// A thread that runs without end has had a processor for at least this share of the time in which
/// it was looked at: 1 in this many.
const RESTLESS_SHARE: Nanos = 4;

/// What became of what was to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was done while all threads slept.
    Still,
    /// It was done while only threads ran that run without end.
    Restlessly,
    /// It was not done.
    No,
}

/// How it was found for what was to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it was done.
    pub done: Done,
    /// How long the runtime was suspended, in all tries.
    pub stopped: Nanos,
}

/// Waits for moments in which all threads of the program sleep.
#[derive(Debug, Default)]
pub struct QuiescencePoint {
    sleepers: Sleepers,
    /// Threads that never sleep, and until when that is believed. They run native code that is not
    /// the runtime's.
    restless: HashSet<u32>,
    believed: Nanos,
}

/// A thread that was awake whenever it was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Awake {
    /// In how many tries.
    tries: u32,
    /// CPU time that it used while the runtime was suspended.
    ran: Nanos,
}

impl QuiescencePoint {
    /// Calls `act` while no thread of the program runs, except threads that run without end. The
    /// runtime is suspended meanwhile, so `act` should not take long. Call this on a thread of the
    /// agent, never in a callback.
    ///
    /// A thread that is awake may have been interrupted while it reads metadata. So `act` is not
    /// called where such a thread gets no processor for about a second. A module that is unloaded
    /// waits meanwhile, so it is not longer. `act` is called at once where the runtime cannot be
    /// suspended, as when a runtime starts: then no thread reads.
    pub fn wait(&mut self, runtime: &Runtime, act: &mut dyn FnMut()) -> Outcome {
        if clock::monotonic() > self.believed {
            self.restless.clear();
        }
        let mut stopped = 0;
        // Threads that are seen to sleep now are seen faster while the runtime is suspended.
        let _ = self.awake().map(Iterator::count);
        let mut always: HashMap<u32, Awake> = HashMap::new();
        let (mut tried, mut looked) = (0, 0);
        for tries in [SHORT, LONG] {
            for _ in 0..tries.count {
                let world = match runtime.suspend() {
                    Ok(world) => world,
                    _ if runtime.is_closed() => return Outcome { done: Done::No, stopped },
                    // A collection.
                    Err(Error::Hr { hresult: CORPROF_E_SUSPENSION_IN_PROGRESS, .. }) => {
                        clock::sleep_until(clock::monotonic() + tries.pause);
                        continue;
                    }
                    Err(_) => {
                        act();
                        return Outcome { done: Done::Restlessly, stopped };
                    }
                };
                let begun = clock::monotonic();
                let is_still = self.sleep_all(begun + tries.limit, &mut always);
                if is_still {
                    act();
                }
                drop(world);
                let took = clock::monotonic() - begun;
                stopped += took;
                if is_still {
                    let is_all = self.restless.is_empty();
                    let done = if is_all { Done::Still } else { Done::Restlessly };
                    return Outcome { done, stopped };
                }
                (tried, looked) = (tried + 1, looked + took);
                always.retain(|_, awake| awake.tries == tried);
                clock::sleep_until(clock::monotonic() + tries.pause);
            }
            let enough = looked / RESTLESS_SHARE;
            let restless = always.iter().filter(|(_, awake)| tried > 1 && awake.ran >= enough);
            self.restless.extend(restless.map(|(tid, _)| *tid));
            self.believed = clock::monotonic() + RESTLESS;
        }
        Outcome { done: Done::No, stopped }
    }

    /// Waits until all threads sleep that may; whether they do. Notes which do not, and how long
    /// these ran meanwhile.
    fn sleep_all(&mut self, deadline: Nanos, always: &mut HashMap<u32, Awake>) -> bool {
        let Some(awake) = self.awake() else { return false };
        let before: HashMap<u32, Nanos> =
            awake.filter_map(|tid| Some((tid, clock::cpu_of(tid)?))).collect();
        if before.is_empty() {
            return true;
        }
        loop {
            clock::sleep_until(clock::monotonic() + LOOK_INTERVAL);
            if self.awake().is_some_and(|mut awake| awake.next().is_none()) {
                return true;
            }
            if clock::monotonic() > deadline {
                break;
            }
        }
        let still_awake: Vec<u32> = self.awake().into_iter().flatten().collect();
        for tid in still_awake {
            let ran = clock::cpu_of(tid).zip(before.get(&tid));
            let awake = always.entry(tid).or_default();
            awake.tries += 1;
            awake.ran += ran.map_or(0, |(now, before)| now.saturating_sub(*before));
        }
        false
    }

    /// Forgets what it knows of threads.
    pub fn close(&mut self) {
        self.sleepers = Sleepers::default();
    }

    /// Threads that do not sleep; `None` where nobody knows.
    fn awake(&mut self) -> Option<impl Iterator<Item = u32> + '_> {
        let restless = &self.restless;
        Some(self.sleepers.awake()?.filter(|tid| !restless.contains(tid)))
    }
}
