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

use crate::os::clock;
use crate::os::tasks::Sleepers;
use crate::runtime::Runtime;
use com::codes::CORPROF_E_SUSPENSION_IN_PROGRESS;
use corprof::info::Error;
use std::collections::HashSet;
use wire::Nanos;

/// How long the runtime is suspended at most until all threads sleep. Threads inside the runtime
/// sleep soon, except during a long compilation.
const STOP_LIMIT: Nanos = 1_000_000;
/// How often it is looked meanwhile.
const LOOK_INTERVAL: Nanos = 30_000;
/// Pause until the runtime is suspended again.
const PAUSE: Nanos = 9_000_000;
/// How often it is tried.
const TRIES: u32 = 20;
/// How long threads that were awake each time are not looked at.
const RESTLESS: Nanos = 10_000_000_000;

/// How it was found for what was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether all threads slept.
    pub still: bool,
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

impl QuiescencePoint {
    /// Calls `act` while no thread of the program runs, except threads that run without end. The
    /// runtime is suspended meanwhile, so `act` should not take long. Call this on a thread of the
    /// agent, never in a callback.
    ///
    /// `act` is called in any case, after about a fifth of a second at the latest (after half a
    /// second while a collection holds the runtime). It is also called where the runtime cannot be
    /// suspended, as when a runtime starts.
    pub fn wait(&mut self, runtime: &Runtime, act: &mut dyn FnMut()) -> Outcome {
        if clock::monotonic() > self.believed {
            self.restless.clear();
        }
        let mut found = Outcome { still: false, stopped: 0 };
        // Threads that are seen to sleep now are seen faster while the runtime is suspended.
        let _ = self.awake().map(Iterator::count);
        let mut always: Option<HashSet<u32>> = None;
        for _ in 0..TRIES {
            let world = match runtime.suspend() {
                Ok(world) => world,
                // A collection.
                Err(Error::Hr { hresult: CORPROF_E_SUSPENSION_IN_PROGRESS, .. }) => continue,
                Err(_) => break,
            };
            let begun = clock::monotonic();
            found.still = loop {
                if self.awake().is_some_and(|mut awake| awake.next().is_none()) {
                    break true;
                }
                if clock::monotonic() > begun + STOP_LIMIT {
                    break false;
                }
                clock::sleep_until(clock::monotonic() + LOOK_INTERVAL);
            };
            let awake: HashSet<u32> = if found.still {
                act();
                HashSet::new()
            } else {
                self.awake().into_iter().flatten().collect()
            };
            drop(world);
            found.stopped += clock::monotonic() - begun;
            if found.still {
                return found;
            }
            always = Some(always.map_or_else(|| awake.clone(), |always| &always & &awake));
            clock::sleep_until(clock::monotonic() + PAUSE);
        }
        self.restless.extend(always.into_iter().flatten());
        self.believed = clock::monotonic() + RESTLESS;
        let world = runtime.suspend();
        let begun = clock::monotonic();
        act();
        drop(world);
        found.stopped += clock::monotonic() - begun;
        found
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
