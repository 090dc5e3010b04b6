//! What the agent counts about itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        /// Counters of one session; each is bumped without waiting.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)+
        }

        impl Counters {
            /// All that are not zero, by name.
            pub fn list(&self) -> Vec<(String, u64)> {
                let all = [$(($text, &self.$name)),+];
                let all = all.into_iter().map(|(name, count)| (name.to_owned(), count.load(Relaxed)));
                all.filter(|(_, count)| *count != 0).collect()
            }
        }
    };
}

counters! {
    /// Threads walked under suspension.
    walks = "stack walks";
    /// Threads whose last stack was used again.
    reused = "stack walks saved";
    /// Walks that found nothing where there had been a stack before.
    failed_walks = "stack walks failed";
    /// Suspensions of the runtime.
    suspensions = "suspensions";
    /// Nanoseconds that the runtime was suspended for walks, for lookups of code, and to prepare
    /// threads for signals.
    stopped = "nanoseconds suspended";
    /// Ticks that came so late that they were left out.
    late_ticks = "ticks left out";
    /// Ticks left out because the runtime would have been suspended for too much of the time, or
    /// the ticks would have used too much CPU time.
    spared_ticks = "ticks left out to spare the target";
    /// Suspensions that the runtime refused.
    refused_suspensions = "suspensions refused";
    /// Blocked threads whose stack was copied.
    blocked_reads = "stacks of blocked threads copied";
    /// Bytes of these copies.
    blocked_bytes = "bytes of stacks of blocked threads copied";
    /// Threads that ran or were ready when they were to be read.
    ready_threads = "threads running at a tick";
    /// Threads left out of a tick, because it had no time or memory left for them.
    left_out = "threads left out of ticks";
    /// Nanoseconds of CPU time in ticks.
    tick_time = "nanoseconds of CPU time in ticks";
    /// Ticks that were held.
    ticks = "ticks";
    /// Threads that did not copy themselves when they were asked to, for a comparison.
    not_compared = "threads not compared";
    /// Collections whose survivors were reported.
    survivor_snapshots = "collections with a snapshot";
    /// Addresses asked for.
    addresses = "addresses resolved";
    /// Addresses that were looked up later, because the runtime would have been suspended for too
    /// long.
    postponed = "addresses looked up later";
    /// Addresses of walked stacks that were not looked up for the same reason.
    not_looked_up = "addresses of stacks not looked up";
    /// Methods named.
    methods = "methods named";
    /// Nanoseconds spent naming methods.
    naming = "nanoseconds naming";
    /// Methods that were the first named of their module, whose metadata was opened for them.
    first_methods = "modules opened";
    /// Nanoseconds spent naming those; in the nanoseconds naming too.
    opening = "nanoseconds opening modules";
    /// Modules whose metadata were opened to add to them while the program ran.
    extended = "modules extended";
    /// Those of them for which no moment was found in which no thread of the program ran.
    extended_restlessly = "modules extended while threads ran";
    /// Nanoseconds for which the runtime was suspended to extend all of these modules.
    extending = "nanoseconds suspended to extend modules";
    /// Methods that the runtime compiled.
    compiled = "methods compiled";
    /// Code records without an unwind table.
    without_unwind = "code without unwind table";
    /// Callbacks that panicked.
    panics = "panics";
}

impl Counters {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }
}
