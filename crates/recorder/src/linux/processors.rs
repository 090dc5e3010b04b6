//! Splits the time of threads that are ready to run into time on a processor, time without one, and
//! time in which the quota of a control group kept them from running; and counts the same for the
//! whole process.

use super::target::Target;
use diagnostics::{
    proc,
    processors::{self, CpuGroup, Throttling},
};
use session::ProcessorUse;
use std::collections::HashMap;

/// How far back the kernel's figures count: with each such time, what came before counts a third. A
/// wait for a processor is reported when it ends, and a throttled period when it is over (100 ms by
/// default), so a single tick says too little.
const MEMORY: f64 = 1e9;

/// What is noted where the kernel does not report waits for a processor.
pub(super) const NOT_REPORTED: &str = "this kernel does not report how long threads wait for a \
    processor (no /proc/<pid>/schedstat): time in state running includes these waits";

/// A thread at a tick, as the agent saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticked {
    pub os_tid: u32,
    /// CPU time since the last tick.
    pub cpu: u64,
    /// Whether it ran or was ready to.
    pub ready: bool,
}

/// How the time of a ready thread was spent; the sum is the time that was split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Split {
    pub running: u64,
    pub no_processor: u64,
    pub throttled: u64,
}

impl Split {
    /// A time in which the thread ran.
    pub fn all_running(time: u64) -> Self {
        Self { running: time, ..Self::default() }
    }

    /// The same shares of another time.
    pub fn of(&self, time: u64) -> Self {
        let whole = self.running + self.no_processor + self.throttled;
        if whole == time || whole == 0 {
            return if whole == time { *self } else { Self::all_running(time) };
        }
        let part = |of: u64| (u128::from(of) * u128::from(time) / u128::from(whole)) as u64;
        let (no_processor, throttled) = (part(self.no_processor), part(self.throttled));
        Self { running: time - no_processor - throttled, no_processor, throttled }
    }
}

/// Figures of a thread. The sums fade with [`MEMORY`].
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// The kernel's figures at the last reading: time on a processor, and waits for one that have
    /// ended.
    last: Option<(u64, u64)>,
    /// Sums of these.
    ran: f64,
    waited: f64,
    /// Sums of how the thread's time was split.
    given_ran: f64,
    given_waited: f64,
    was_ready: bool,
    /// Whether it was ready at the last two ticks and did not run in between.
    only_waited: bool,
}

/// Figures of the process. The sums fade as those of threads.
#[derive(Clone, Copy, Debug, Default)]
struct Whole {
    elapsed: f64,
    ran: f64,
    waited: f64,
    throttled: f64,
    given_waited: f64,
    given_throttled: f64,
}

/// Splits the time of ready threads, tick by tick.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// How many processors the process may use; 0 where the kernel reports no waits for one.
    processors: usize,
    quotas: Quotas,
    threads: HashMap<u32, Share>,
    whole: Whole,
    /// Whether there was a tick.
    begun: bool,
}

impl Sharing {
    pub fn new(pid: u32) -> Self {
        let processors = if is_reported(pid) { processors::allowed(pid).len().max(1) } else { 0 };
        Self { processors, quotas: Quotas::of_process(pid), ..Self::default() }
    }

    /// A tick has come, so long after the one before.
    pub fn tick(&mut self, target: &Target, elapsed: u64, threads: &[Ticked]) {
        if self.processors == 0 {
            return;
        }
        let throttled = self.quotas.advance().throttled;
        self.take(elapsed, throttled, threads, |tid| proc::thread_schedule(target.pid, tid).ok());
    }

    fn take(
        &mut self,
        elapsed: u64,
        throttled: u64,
        threads: &[Ticked],
        schedule: impl Fn(u32) -> Option<(u64, u64)>,
    ) {
        let keep = (-(elapsed as f64) / MEMORY).exp();
        let begun = std::mem::replace(&mut self.begun, true);
        let mut before = std::mem::take(&mut self.threads);
        let (mut ran, mut waited) = (0, 0);
        for thread in threads {
            let mut share = before.remove(&thread.os_tid).unwrap_or_default();
            for sum in
                [&mut share.ran, &mut share.waited, &mut share.given_ran, &mut share.given_waited]
            {
                *sum *= keep;
            }
            // The figures of a thread that was asleep all the time are as they were.
            if (thread.ready || share.was_ready || thread.cpu > 0 || share.last.is_none())
                && let Some(now) = schedule(thread.os_tid)
            {
                // A thread that was not there at the last tick has done all of it since.
                let last = share.last.replace(now).unwrap_or(if begun { (0, 0) } else { now });
                let more = (now.0.saturating_sub(last.0), now.1.saturating_sub(last.1));
                (ran, waited) = (ran + more.0, waited + more.1);
                share.ran += more.0 as f64;
                share.waited += more.1 as f64;
            }
            share.only_waited = thread.ready && share.was_ready && thread.cpu == 0;
            share.was_ready = thread.ready;
            self.threads.insert(thread.os_tid, share);
        }
        let whole = &mut self.whole;
        let more =
            [(&mut whole.elapsed, elapsed), (&mut whole.ran, ran), (&mut whole.waited, waited)];
        for (sum, more) in more.into_iter().chain([(&mut whole.throttled, throttled)]) {
            *sum = *sum * keep + more as f64;
        }
        whole.given_waited *= keep;
        whole.given_throttled *= keep;
    }

    /// Splits time of a thread that was ready at the last tick.
    ///
    /// What single ticks got is chosen so that the sums come to the shares that the kernel reports:
    /// then a wait that is reported late counts once, and not as often as ticks fell into it.
    pub fn split(&mut self, os_tid: u32, time: u64) -> Split {
        let known = (self.processors > 0).then(|| self.threads.get_mut(&os_tid)).flatten();
        let Some(share) = known else { return Split { running: time, ..Split::default() } };
        let whole = time as f64;
        let ready = share.ran + share.waited;
        let waited = match ready {
            // Its wait is not over, so the kernel has not reported it yet.
            _ if share.only_waited => whole,
            0.0 => 0.0,
            _ => {
                let given = share.given_ran + share.given_waited + whole;
                (share.waited / ready * given - share.given_waited).clamp(0.0, whole)
            }
        };
        share.given_waited += waited;
        share.given_ran += whole - waited;
        let throttled = self.throttled_of(waited);
        self.whole.given_waited += waited;
        self.whole.given_throttled += throttled;
        let (waited, throttled) = (waited.round() as u64, throttled.round() as u64);
        let (waited, throttled) = (waited.min(time), throttled.min(waited));
        Split { running: time - waited, no_processor: waited - throttled, throttled }
    }

    /// The part of waits for a processor that the quota caused.
    fn throttled_of(&self, waited: f64) -> f64 {
        let whole = &self.whole;
        if whole.throttled <= 0.0 || whole.waited <= 0.0 || whole.elapsed <= 0.0 {
            return 0.0;
        }
        // Throttled time counts once for each processor that was kept from running, however many
        // threads were ready there.
        let ready = (whole.ran + whole.waited) / whole.elapsed;
        let for_each = (ready / self.processors as f64).max(1.0);
        let share = (whole.throttled * for_each / whole.waited).min(1.0);
        (share * (whole.given_waited + waited) - whole.given_throttled).clamp(0.0, waited)
    }
}

/// Whether the kernel reports how long threads wait for a processor. A process that has loaded a
/// runtime has run.
pub(super) fn is_reported(pid: u32) -> bool {
    proc::thread_schedule(pid, pid).is_ok_and(|(ran, _)| ran > 0)
}

/// Control groups with a quota, and how often that was used up when it was last read.
#[derive(Debug, Default)]
struct Quotas(Vec<(CpuGroup, Throttling)>);

impl Quotas {
    fn of_process(pid: u32) -> Self {
        let all = CpuGroup::of_process(pid).into_iter();
        Self(
            all.filter_map(|group| Some((group.throttling()?, group)))
                .map(|(now, group)| (group, now))
                .collect(),
        )
    }

    /// What has come since it was last read, of the group that was throttled for longest: while it
    /// is, those below it do not run either, so that a sum would count time twice.
    fn advance(&mut self) -> Throttling {
        let more = self.0.iter_mut().filter_map(|(group, last)| {
            let now = group.throttling()?;
            let before = std::mem::replace(last, now);
            Some(Throttling {
                periods: now.periods.saturating_sub(before.periods),
                throttled_periods: now.throttled_periods.saturating_sub(before.throttled_periods),
                throttled: now.throttled.saturating_sub(before.throttled),
            })
        });
        more.max_by_key(|more| (more.throttled, more.periods)).unwrap_or_default()
    }

    /// The smallest quota: CPU time in a period, and the period.
    fn smallest(&self) -> Option<(u64, u64)> {
        let all = self.0.iter().filter_map(|(group, _)| group.quota());
        let smallest = all.min_by(|a, b| a.processors().total_cmp(&b.processors()));
        smallest.map(|quota| (quota.time, quota.period))
    }
}

/// Counts how much of the processors the process had, and how much it lacked.
#[derive(Debug)]
pub(super) struct Census {
    allowed: Vec<u32>,
    quotas: Quotas,
    time: u64,
    busy: u64,
    threads: HashMap<u32, (u64, u64)>,
}

impl Census {
    /// Begins to count; `None` where the kernel does not report waits for a processor.
    pub fn begin(target: &Target, time: u64) -> Option<Self> {
        let pid = target.pid;
        let allowed = processors::allowed(pid);
        let (busy, _) = processors::busy(&allowed)?;
        let quotas = Quotas::of_process(pid);
        is_reported(pid).then(|| Self { allowed, quotas, time, busy, threads: schedules(pid) })
    }

    /// What has come since the last time.
    pub fn advance(&mut self, target: &Target, time: u64) -> ProcessorUse {
        let now = schedules(target.pid);
        let (mut ran, mut waited) = (0_u64, 0_u64);
        for (tid, (now_ran, now_waited)) in &now {
            let (last_ran, last_waited) = self.threads.get(tid).copied().unwrap_or_default();
            ran += now_ran.saturating_sub(last_ran);
            waited += now_waited.saturating_sub(last_waited);
        }
        self.threads = now;
        let Throttling { periods, throttled_periods, throttled } = self.quotas.advance();
        let quota = self.quotas.smallest();
        // Limits of a process in a container can be changed while it runs.
        let groups = CpuGroup::of_process(target.pid);
        if !groups.iter().eq(self.quotas.0.iter().map(|(group, _)| group)) {
            self.quotas = Quotas::of_process(target.pid);
        }
        let busy = processors::busy(&self.allowed).map_or(self.busy, |(busy, _)| busy);
        let before = std::mem::replace(&mut self.busy, busy);
        let elapsed = time.saturating_sub(std::mem::replace(&mut self.time, time));
        ProcessorUse {
            time,
            elapsed,
            processors: self.allowed.len() as u32,
            ran,
            waited,
            busy: busy.saturating_sub(before),
            quota,
            periods,
            throttled_periods,
            throttled,
        }
    }
}

/// Time on a processor and waits for one, of each thread.
fn schedules(pid: u32) -> HashMap<u32, (u64, u64)> {
    let threads = proc::threads(pid).unwrap_or_default().into_iter();
    threads.filter_map(|tid| Some((tid, proc::thread_schedule(pid, tid).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;
    const TICK: u64 = 50 * MILLI;

    /// Ticks of one thread: what the kernel says at each (milliseconds on a processor, milliseconds
    /// waited), and how much the quota took meanwhile. Gives the sums of all but the first tick,
    /// which stands for no time.
    fn split(processors: usize, ticks: &[(u64, u64, u64)]) -> Split {
        let mut sharing = Sharing { processors, ..Sharing::default() };
        let (mut sum, mut ran, mut waited) = (Split::default(), 0, 0);
        for (index, (more_ran, more_waited, throttled)) in ticks.iter().enumerate() {
            (ran, waited) = (ran + more_ran * MILLI, waited + more_waited * MILLI);
            let thread = Ticked { os_tid: 7, cpu: more_ran * MILLI, ready: true };
            sharing.take(TICK, throttled * MILLI, &[thread], |_| Some((ran, waited)));
            if index > 0 {
                let split = sharing.split(7, TICK);
                assert_eq!(split.running + split.no_processor + split.throttled, TICK);
                sum.running += split.running;
                sum.no_processor += split.no_processor;
                sum.throttled += split.throttled;
            }
        }
        sum
    }

    fn share(part: u64, ticks: usize) -> f64 {
        part as f64 / (ticks as u64 * TICK) as f64
    }

    #[test]
    fn shares_of_another_time_are_the_same() {
        let split = Split { running: 10, no_processor: 20, throttled: 70 };
        assert_eq!(split.of(100), split);
        assert_eq!(split.of(10), Split { running: 1, no_processor: 2, throttled: 7 });
        assert_eq!(Split::default().of(5), Split::all_running(5));
        assert_eq!(split.of(0), Split::default());
    }

    #[test]
    fn a_thread_alone_on_a_processor_runs() {
        let sum = split(2, &[(50, 0, 0); 41]);
        assert_eq!(sum, Split { running: 40 * TICK, ..Split::default() });
    }

    #[test]
    fn a_thread_that_shares_a_processor_has_its_part_of_it() {
        let sum = split(1, &[(10, 40, 0); 41]);
        assert!((share(sum.running, 40) - 0.2).abs() < 0.01 && sum.throttled == 0, "{sum:?}");
    }

    #[test]
    fn waits_that_are_reported_late_count_once() {
        // Two ticks in three fall into a wait of 130 ms, which is reported at its end.
        let ticks: Vec<_> =
            [(20, 0, 0), (0, 0, 0), (0, 130, 0)].into_iter().cycle().take(61).collect();
        let sum = split(1, &ticks);
        assert!((share(sum.running, 60) - 20.0 / 150.0).abs() < 0.02, "{sum:?}");
    }

    #[test]
    fn what_the_quota_takes_is_throttled() {
        // A quota of 50 ms in 100 for one loop; the kernel reports it when the next period begins.
        let ticks: Vec<_> = [(50, 50, 50), (0, 0, 0)].into_iter().cycle().take(81).collect();
        let sum = split(2, &ticks);
        assert!((share(sum.throttled, 80) - 0.5).abs() < 0.02, "{sum:?}");
        assert!(share(sum.no_processor, 80) < 0.02, "{sum:?}");
    }

    #[test]
    fn threads_that_wait_for_each_other_are_not_throttled_for_all_of_it() {
        // Four loops on two processors with a quota of one: each is throttled for half of the time,
        // and has half of the rest.
        let mut sharing = Sharing { processors: 2, ..Sharing::default() };
        let mut sum = Split::default();
        for tick in 1..=80_u64 {
            let threads: Vec<_> =
                (0..4).map(|os_tid| Ticked { os_tid, cpu: 12_500_000, ready: true }).collect();
            let schedule = |_| Some((12_500_000 * tick, 37_500_000 * tick));
            sharing.take(TICK, 50 * MILLI, &threads, schedule);
            for os_tid in 0..4 {
                let split = sharing.split(os_tid, TICK);
                if tick > 1 {
                    sum.running += split.running;
                    sum.no_processor += split.no_processor;
                    sum.throttled += split.throttled;
                }
            }
        }
        let of = |part| share(part, 79 * 4);
        assert!((of(sum.running) - 0.25).abs() < 0.02, "{sum:?}");
        assert!((of(sum.throttled) - 0.5).abs() < 0.02, "{sum:?}");
    }

    #[test]
    fn a_thread_that_began_since_the_last_tick_is_split_at_once() {
        let mut sharing = Sharing { processors: 1, ..Sharing::default() };
        sharing.take(0, 0, &[], |_| None);
        let thread = Ticked { os_tid: 7, cpu: 0, ready: true };
        sharing.take(TICK, 0, &[thread], |_| Some((5 * MILLI, 15 * MILLI)));
        let split = sharing.split(7, TICK);
        assert_eq!((split.running, split.no_processor), (TICK / 4, TICK * 3 / 4));
    }

    #[test]
    fn without_the_kernels_figures_ready_threads_run() {
        assert_eq!(split(0, &[(10, 40, 10); 4]), Split { running: 3 * TICK, ..Split::default() });
    }

    #[test]
    fn our_own_use_of_processors_is_counted() {
        let target = Target::new(std::process::id()).unwrap();
        let mut census = Census::begin(&target, 0).unwrap();
        let began = std::time::Instant::now();
        let mut spins = 0_u64;
        while began.elapsed() < std::time::Duration::from_millis(200) {
            spins = std::hint::black_box(spins + 1);
        }
        let used = census.advance(&target, 200 * MILLI);
        // One busy loop: it ran or it waited for a processor.
        assert!(used.ran + used.waited > 150 * MILLI && used.ran > 0, "{used:?}");
        assert!(used.processors > 0 && used.busy > 0 && used.elapsed == 200 * MILLI, "{used:?}");
    }
}
