//! How often the threads of a process are put on a processor.

use diagnostics::proc;
use std::{collections::HashMap, time::Instant};

/// How often the threads of a process were put on a processor.
#[derive(Default)]
pub(super) struct Switches {
    /// Of each thread, as last read.
    threads: HashMap<u32, u64>,
    /// All together since the recording began.
    pub total: u64,
    /// The last second that was looked at: when it ended, and how many there had been.
    looked: Option<(Instant, u64)>,
    /// In how many seconds in a row they cost too much.
    pub too_many: u32,
}

impl Switches {
    /// Counts on. What cannot be read just now is counted later; `None` where the kernel does not
    /// count at all.
    pub fn count(&mut self, pid: u32) -> Option<()> {
        let Ok(threads) = proc::threads(pid) else { return Some(()) };
        let mut now = HashMap::with_capacity(threads.len());
        for tid in threads {
            let before = self.threads.get(&tid).copied();
            let Some(count) = proc::thread_switches(pid, tid).ok().or(before) else { continue };
            // A thread whose number was another's before has fewer.
            self.total += count.checked_sub(before.unwrap_or_default()).unwrap_or(count);
            now.insert(tid, count);
        }
        self.threads = now;
        // A thread that lives was put on a processor once at least.
        self.threads.values().any(|count| *count > 0).then_some(())
    }

    /// What is counted from now on begins at none.
    pub fn restart(&mut self, pid: u32) {
        *self = Self::default();
        // Where nothing is counted that is found out later.
        let _ = self.count(pid);
        self.total = 0;
        self.looked = Some((Instant::now(), 0));
    }

    /// How many there were in each second since this was last asked; `None` where the kernel does
    /// not count them.
    pub fn per_second(&mut self, pid: u32) -> Option<f64> {
        self.count(pid)?;
        let now = Instant::now();
        let (since, before) = self.looked.replace((now, self.total))?;
        Some((self.total - before) as f64 / (now - since).as_secs_f64().max(0.001))
    }
}
