//! When nobody reads the metadata of a module.
//!
//! The runtime lets a module's metadata be extended while the program uses them. But as they are
//! opened for that, all of their tables are laid out anew, and some of those who read them take no
//! lock (`MDInternalRW`, src/coreclr/md/enc/mdinternalrw.cpp; dotnet/runtime#127957, in all
//! versions up to 10). Who looks for a method just then does not find it, and the program ends by a
//! `MissingMethodException`, or reads memory that is gone.
//!
//! A module that is just being loaded has no readers. One that is in use may be read by threads
//! that compile, load types or reflect. All of them are threads of the runtime, and they run: none
//! sleeps while it reads. So the world is stopped, which keeps managed code from asking for
//! anything, and threads in the runtime are waited for until they come to where they stop, too.

use crate::os::clock;
use crate::os::tasks::Sleepers;
use crate::runtime::Runtime;
use com::codes::CORPROF_E_SUSPENSION_IN_PROGRESS;
use corprof::info::Error;
use std::collections::HashSet;
use wire::Nanos;

/// How long the world stands still at most until all threads sleep. Those in the runtime do soon,
/// but for a long compilation.
const STOP_LIMIT: Nanos = 1_000_000;
/// How often it is looked meanwhile.
const LOOK_INTERVAL: Nanos = 30_000;
/// Pause until the world is stopped again.
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
    /// How long the world stood still, in all tries.
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
    /// Does something while no thread of the program runs, but for those that run without end. The
    /// world stands still meanwhile, so it should not take long. To be called on an own thread,
    /// never in a callback.
    ///
    /// It is done in any case, after about a fifth of a second at the latest (while a collection
    /// holds the world, after half of one); also where the world cannot be stopped, as when a
    /// runtime starts.
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
