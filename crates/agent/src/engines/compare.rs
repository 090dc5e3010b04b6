//! How clrscope checks its own unwinder: [`wire::CpuEngine::Compare`].
//!
//! At each tick the runtime is suspended, and every managed thread's stack is read twice. First,
//! one signal makes the thread copy its registers and stack into the shared ring, as the signal
//! engine would have it. Then the runtime walks the thread (`DoStackSnapshot`). While the runtime
//! is suspended, no managed frame comes or goes, so a walk of the copy must find exactly the frames
//! that the runtime found. The comparison itself is done outside of the process.
//!
//! [`wire::CpuEngine::CompareBlocked`] does the same for stacks of blocked threads. Each stack is
//! read as the sampling thread reads it for `wall`, while the program runs; then the runtime is
//! suspended and walks it. Threads are compared if their CPU clock shows that they did not run from
//! the reading to the end of the walk.

use crate::engines::cpu_signals::CpuSignals;
use crate::host::counters::Counters;
use crate::host::queue::Event;
use crate::host::runtime::Walked;
use crate::host::{Host, Phase};
use crate::os::blocked::{self, Blocked, Seen};
use crate::os::clock;
use corprof::ids::ThreadId;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use wire::{BlockedStack, Comparison, CpuEngine, Nanos, Record};

/// Longest pause of the thread: so soon it notices that it should end.
const LONGEST_SLEEP: Nanos = 20_000_000;

/// A thread that was copied: when, and its addresses in the list of all.
struct Compared {
    os_tid: u32,
    time: Nanos,
    ips: Range<usize>,
    walked: Walked,
}

/// Runs until the session stops.
pub fn run(host: &Host, signals: &CpuSignals) {
    let interval = 1_000_000_000 / Nanos::from(host.config.rate_hz.clamp(1, 1000));
    let mut due = clock::monotonic();
    let mut ips = Vec::new();
    while host.phase() == Phase::Running {
        let now = clock::monotonic();
        if due <= now {
            due = now + interval;
            match host.config.cpu {
                CpuEngine::CompareBlocked => compare_blocked(host, &mut ips),
                _ => compare_all(host, signals, &mut ips),
            }
            host.wake.wake();
        }
        host.tick_cpu.store(clock::thread_cpu(), Relaxed);
        clock::sleep_until(due.min(clock::monotonic() + LONGEST_SLEEP));
    }
}

/// Compares every thread that runs now.
fn compare_all(host: &Host, signals: &CpuSignals, ips: &mut Vec<u64>) {
    let ids: HashMap<u32, ThreadId> =
        host.threads().running().map(|(thread, os_tid)| (os_tid, thread)).collect();
    let sampled = signals.with(|engine| engine.sampled()).unwrap_or_default();
    let threads: Vec<_> =
        sampled.into_iter().filter_map(|known| Some((known, *ids.get(&known.0)?))).collect();
    let most = host.config.max_frames.clamp(1, 4096) as usize;
    // Room is reserved before the runtime is suspended: a suspended thread may hold the allocator.
    ips.clear();
    ips.reserve(threads.len() * most);
    let mut compared = Vec::with_capacity(threads.len());
    let Ok(suspended) = host.runtime.suspend() else {
        Counters::add(&host.counters.refused_suspensions, 1);
        return;
    };
    for &(known, thread) in &threads {
        let time =
            host.live.contains(thread).then(|| signals.with(|engine| engine.sample_now(known)));
        let Some(time) = time.flatten().flatten() else {
            Counters::add(&host.counters.not_compared, 1);
            continue;
        };
        let before = ips.len();
        let walked = suspended.walk(&host.live, thread, ips, before + most);
        if walked == Walked::Failed {
            Counters::add(&host.counters.failed_walks, 1);
            continue;
        }
        compared.push(Compared { os_tid: known.0, time, ips: before..ips.len(), walked });
    }
    drop(suspended);
    Counters::add(&host.counters.suspensions, 1);
    Counters::add(&host.counters.walks, compared.len() as u64);
    let mut stacks = host.stacks();
    for Compared { os_tid, time, ips: range, walked } in compared {
        let ips = ips.get(range).unwrap_or_default();
        let stack =
            (walked != Walked::Nothing).then(|| stacks.intern(ips, walked == Walked::Truncated));
        host.events.push(Event::Record(Record::Comparison(Comparison { os_tid, time, stack })));
    }
}

/// Compares every thread that is blocked now.
fn compare_blocked(host: &Host, ips: &mut Vec<u64>) {
    let threads: Vec<(ThreadId, u32)> = host.threads().running().collect();
    let most = host.config.max_frames.clamp(1, 4096) as usize;
    ips.clear();
    ips.reserve(threads.len() * most);
    let mut read: Vec<(ThreadId, u32, Nanos, Blocked, Vec<u8>)> = Vec::with_capacity(threads.len());
    for &(thread, os_tid) in &threads {
        let mut bytes = Vec::new();
        let seen =
            blocked::look(&host.memory, os_tid, BlockedStack::MOST_BYTES as usize, &mut bytes);
        if let Seen::Blocked(at) = seen {
            read.push((thread, os_tid, clock::monotonic(), at, bytes));
        }
    }
    let mut walked: Vec<(usize, Range<usize>, Walked)> = Vec::with_capacity(read.len());
    let Ok(suspended) = host.runtime.suspend() else {
        Counters::add(&host.counters.refused_suspensions, 1);
        return;
    };
    for (index, (thread, os_tid, _, at, _)) in read.iter().enumerate() {
        let before = ips.len();
        let result = suspended.walk(&host.live, *thread, ips, before + most);
        // Whoever ran in between is somewhere else.
        if clock::cpu_of(*os_tid) != Some(at.run) {
            Counters::add(&host.counters.not_compared, 1);
        } else if result == Walked::Failed {
            Counters::add(&host.counters.failed_walks, 1);
        } else {
            walked.push((index, before..ips.len(), result));
        }
    }
    drop(suspended);
    Counters::add(&host.counters.suspensions, 1);
    Counters::add(&host.counters.walks, walked.len() as u64);
    for (index, range, result) in walked {
        let Some((_, os_tid, time, at, bytes)) = read.get_mut(index) else { continue };
        let (os_tid, time, bytes) = (*os_tid, *time, std::mem::take(bytes));
        let ips = ips.get(range).unwrap_or_default();
        let (id, stack) = {
            let mut stacks = host.stacks();
            let stack = (result != Walked::Nothing)
                .then(|| stacks.intern(ips, result == Walked::Truncated));
            (stacks.number(), stack)
        };
        let cut = bytes.len() >= BlockedStack::MOST_BYTES as usize;
        let copied =
            BlockedStack { id, os_tid, time, ip: at.ip, sp: at.sp, call: at.call, bytes, cut };
        host.events.push(Event::Record(Record::BlockedStack(copied)));
        host.events.push(Event::Record(Record::Comparison(Comparison { os_tid, time, stack })));
    }
}
