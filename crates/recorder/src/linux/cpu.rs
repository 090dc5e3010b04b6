//! Where CPU samples come from.

mod costs;
mod switches;

use self::{costs::Costs, switches::Switches};
use super::rate::{self, Limits};
use sampler::{
    Binding, KernelRing, KernelTime, Readiness, RingCosts, RingEvent, RingOptions, SharedRing,
    ThreadSample,
};
use std::{os::fd::OwnedFd, time::Duration};
use unwind::Registers;
use wire::{CpuEngine, ring::Layout};

/// Stack copied with each sample at first, in bytes: nearly all stacks fit, also those in which an
/// exception is handled.
const STACK: u32 = 32 << 10;

/// The same for rates from [`FAST`] on, where copying costs the target about as much as the sample
/// itself. What is behind the copy is mostly found by frame pointers; the copy grows when that
/// fails too often.
const STACK_FAST: u32 = 8 << 10;

/// Samples per second from which less is copied.
const FAST: u32 = 400;

/// Stacks that must be cut before more is copied.
const ENOUGH: u64 = 10;

/// More is copied when more than one in [`CUT_SHARE`] stacks was cut. A burst of compilations may
/// cut more of them for a while, so until a processor can have been sampled for this many seconds,
/// it takes one in [`EARLY_CUT_SHARE`].
const EARLY_SECONDS: u64 = 2;
const CUT_SHARE: u64 = 100;
const EARLY_CUT_SHARE: u64 = 10;

/// Samples after which cut stacks are counted anew.
const COUNTED: u64 = 10_000;

/// The kernel's records end there.
const STACK_MOST: u32 = 64 << 10;

/// Counters of the agent's, by their names: how often its signal handler ran, and its median time.
const HANDLED: &str = "signals handled";
const HANDLER_TIME: &str = "nanoseconds in the signal handler, median";

/// The same: ticks that were left out because the runtime would have been suspended for too much of
/// the time, and what is dropped as threads that got no timer.
const SPARED: &str = "ticks left out to spare the target";
const WITHOUT_TIMER: [&str; 2] =
    ["threads without a timer (RLIMIT_SIGPENDING)", "threads not sampled"];

/// Limits of what a ring bound to threads may cost at switches of threads, as a share of one
/// processor. Up to the first, the ring is taken where nobody asked for it. Above the second, for
/// the third number of seconds in a row, it is given up again; that limit is higher because the
/// replacement may have to suspend the process.
const MOST_AT_SWITCHES: f64 = 0.005;
const TOO_MUCH_AT_SWITCHES: f64 = 0.02;
const SECONDS_OF_TOO_MUCH: u32 = 3;

/// How long switches are counted before such a ring is taken.
const SWITCHES_WATCHED: Duration = Duration::from_millis(50);

/// What a source gave.
pub(super) enum Taken {
    /// A sample.
    Sample(TakenSample),
    /// A thread has got a name.
    Named { os_tid: u32, name: String },
    /// A thread has ended.
    Ended { os_tid: u32, time: u64 },
    /// The process has mapped executable memory.
    Mapped(unwind::Mapping),
    /// The process has replaced its program.
    Replaced,
}

/// A sample, owned.
pub(super) struct TakenSample {
    pub time: u64,
    /// In our pid namespace, or the target's: see [`CpuSource::take`].
    pub os_tid: u32,
    /// CPU time it stands for.
    pub weight: u64,
    pub registers: Registers,
    pub stack: Vec<u8>,
    /// Return addresses that were found by following frame pointers, innermost first.
    pub callers: Vec<u64>,
}

/// Stacks that were deeper than their copy.
#[derive(Default)]
struct Cut {
    stacks: u64,
    /// How many samples had been taken when they were counted from 0.
    since: u64,
}

impl Cut {
    /// Whether more should be copied of each stack. `taken` is how many samples were taken so far.
    fn are_too_many(&mut self, taken: u64, rate_hz: u32) -> bool {
        let samples = taken.saturating_sub(self.since);
        let is_early = samples < EARLY_SECONDS * u64::from(rate_hz);
        let share = if is_early { EARLY_CUT_SHARE } else { CUT_SHARE };
        let too_many = self.stacks >= ENOUGH && self.stacks * share > samples;
        if samples >= COUNTED {
            *self = Self { stacks: 0, since: taken };
        }
        too_many
    }
}

enum Engine {
    Off,
    Ring(Box<KernelRing>),
    Shared(Option<SharedRing>),
    /// The agent walks stacks itself.
    Walk,
}

/// The source of CPU samples.
pub(super) struct CpuSource {
    /// What the agent has to do.
    pub engine: CpuEngine,
    source: Engine,
    pid: u32,
    rate_hz: u32,
    /// What a kernel ring is bound to.
    binding: Binding,
    stack: u32,
    description: String,
    /// Why it is not a better source, at the end of the description.
    why: String,
    taken: u64,
    /// Samples of rings before this one.
    taken_before: u64,
    /// What a source before this one has cost, in nanoseconds.
    spent_before: u64,
    cut: Cut,
    reported: [u64; 4],
    costs: Costs,
    /// What limited the rate of a ring that is closed.
    ring_limit: Option<String>,
    /// Of a ring bound to threads.
    switches: Switches,
    /// Whether it is given up where switches come to cost too much.
    gives_way: bool,
}

impl CpuSource {
    /// No CPU samples.
    pub fn off() -> Self {
        Self::make(CpuEngine::Off, Engine::Off, 0, 0, String::new())
    }

    /// The kernel's ring.
    pub fn kernel_ring(
        pid: u32,
        rate_hz: u32,
        binding: Binding,
    ) -> Result<Self, sampler::OpenError> {
        let stack = if rate_hz < FAST { STACK } else { STACK_FAST };
        let ring = KernelRing::open(pid, &options(binding, rate_hz, stack))?;
        let description = ring.description();
        let costs = Costs::later(ring.measure_costs());
        let mut source = Self::make(
            CpuEngine::KernelRing,
            Engine::Ring(Box::new(ring)),
            pid,
            rate_hz,
            description,
        );
        (source.stack, source.binding, source.costs) = (stack, binding, costs);
        if binding == Binding::Threads {
            source.switches.restart(pid);
        }
        Ok(source)
    }

    /// The same source, whose description says why it is not a better one.
    pub fn because(mut self, why: &str) -> Self {
        self.why = format!(", because {why}");
        self.description.push_str(&self.why);
        self
    }

    /// An engine inside the target; `why` says why it is not the kernel's ring.
    pub fn inside(engine: CpuEngine, rate_hz: u32, why: Option<String>) -> Self {
        let (source, name) = match engine {
            CpuEngine::Signals => (Engine::Shared(None), "timer signals inside the process"),
            _ => (Engine::Walk, "suspend and walk: at safepoints only, managed frames only"),
        };
        let description = match why {
            Some(why) => format!("{name}, because the kernel ring is unavailable: {why}"),
            None => name.to_owned(),
        };
        Self::make(engine, source, 0, rate_hz, description)
    }

    fn make(
        engine: CpuEngine,
        source: Engine,
        pid: u32,
        rate_hz: u32,
        description: String,
    ) -> Self {
        Self {
            engine,
            source,
            pid,
            rate_hz,
            binding: Binding::default(),
            stack: 0,
            description,
            why: String::new(),
            taken: 0,
            taken_before: 0,
            spent_before: 0,
            cut: Cut::default(),
            reported: [0; 4],
            costs: Costs::default(),
            ring_limit: None,
            switches: Switches::default(),
            gives_way: false,
        }
    }

    /// The kernel's ring bound to threads, where its share of the time of switches is small just
    /// now. It is given up when that changes ([`Self::costs_too_much`]). Takes some 70 ms.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn light_kernel_ring(pid: u32, rate_hz: u32) -> Result<Self, String> {
        let mut source =
            Self::kernel_ring(pid, rate_hz, Binding::Threads).map_err(|error| error.to_string())?;
        source.gives_way = true;
        // What a switch costs is measured meanwhile.
        source.costs.get();
        std::thread::sleep(SWITCHES_WATCHED);
        source.costs.wait();
        match source.cost_of_switches() {
            Some((share, _)) if share <= MOST_AT_SWITCHES => Ok(source),
            Some((_, cost)) => Err(cost),
            None => Err("what events bound to threads cost at each switch of threads cannot be \
                measured here"
                .into()),
        }
    }

    /// Switches count from now on, as the recording begins.
    pub fn watch_switches(&mut self) {
        if self.gives_way {
            self.switches.restart(self.pid);
        }
    }

    /// Whether the process has come to switch threads so often that this source should be given up,
    /// and why. To be asked about once a second.
    pub fn costs_too_much(&mut self) -> Option<String> {
        if !self.gives_way || !matches!(self.source, Engine::Ring(_)) {
            return None;
        }
        let (share, cost) = self.cost_of_switches()?;
        self.switches.too_many =
            if share > TOO_MUCH_AT_SWITCHES { self.switches.too_many + 1 } else { 0 };
        (self.switches.too_many >= SECONDS_OF_TOO_MUCH).then_some(cost)
    }

    /// What switches cost since this was last asked, as a share of one processor and in words;
    /// `None` where that is not known.
    fn cost_of_switches(&mut self) -> Option<(f64, String)> {
        let per_second = self.switches.per_second(self.pid)?;
        let switch = self.costs.get().switch?;
        let share = per_second * switch as f64 / 1e9;
        let cost = format!(
            "events bound to threads cost {:.1} % of a processor ({per_second:.0} switches of \
             threads per second, {switch} ns each)",
            share * 100.0
        );
        Some((share, cost))
    }

    /// The source is given up: what the ring holds still is lost, unless it is taken before.
    pub fn give_up(&mut self, why: &str) {
        self.spent_before = u64::try_from(self.cost(&[]).as_nanos()).unwrap_or(u64::MAX);
        self.gives_way = false;
        self.stop();
        self.switches = Switches::default();
        (self.taken, self.taken_before, self.reported) = (0, 0, [0; 4]);
        self.cut = Cut::default();
        self.why = format!(", because {why}");
    }

    /// The agent walks stacks instead, for this reason.
    pub fn walk_instead(&mut self, reason: &str) {
        let forced = Self::inside(CpuEngine::SuspendWalk, self.rate_hz, None).description;
        self.description = format!("{forced}, because signals do not work here: {reason}");
        (self.engine, self.source) = (CpuEngine::SuspendWalk, Engine::Walk);
    }

    /// In words for a reader: how samples are taken.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether running threads have samples without being suspended, so that the agent reads
    /// blocked ones.
    pub fn reads_blocked(&self) -> bool {
        matches!(self.engine, CpuEngine::KernelRing | CpuEngine::Signals)
    }

    /// Whether thread ids are those of the target's pid namespace.
    pub fn has_inner_tids(&self) -> bool {
        matches!(self.source, Engine::Shared(_))
    }

    /// Whether samples come through such a ring.
    pub fn is_shared(&self) -> bool {
        matches!(self.source, Engine::Shared(Some(_)))
    }

    /// Reads the ring that the agent's signal handlers fill.
    pub fn share(&mut self, descriptor: OwnedFd, layout: Layout) -> Result<(), String> {
        let period = 1_000_000_000 / u64::from(self.rate_hz.max(1));
        let ring =
            SharedRing::open(&descriptor, layout, period).map_err(|error| error.to_string())?;
        if self.engine == CpuEngine::KernelRing {
            // In the place of a ring that was given up.
            self.description =
                Self::inside(CpuEngine::Signals, self.rate_hz, None).description + &self.why;
            self.engine = CpuEngine::Signals;
        }
        self.costs = Costs::later(|| RingCosts { sample: sampler::signal_cost(), switch: None });
        self.source = Engine::Shared(Some(ring));
        Ok(())
    }

    /// Waits up to `limit`, then takes everything there is. Says what was lost since the last call,
    /// by reason.
    pub fn take(&mut self, limit: Duration, taken: &mut Vec<Taken>) -> Vec<(&'static str, u64)> {
        match &mut self.source {
            Engine::Off | Engine::Walk | Engine::Shared(None) => {
                std::thread::sleep(limit);
                Vec::new()
            }
            Engine::Ring(ring) => {
                // At the end of the process waiting would return at once, for ever.
                match ring.poll(limit) {
                    Ok(Readiness::TimedOut | Readiness::Filling) => {}
                    Ok(Readiness::ProcessEnded) | Err(_) => std::thread::sleep(limit),
                }
                ring.drain(|event| taken.extend(own(event)));
                let counters = ring.counters();
                self.taken = counters.samples;
                let now = [counters.lost, counters.malformed, 0, 0];
                self.report(now, ["kernel ring full", "kernel ring record malformed", "", ""])
            }
            Engine::Shared(Some(ring)) => {
                std::thread::sleep(limit);
                ring.drain(|sample| taken.push(Taken::Sample(own_sample(&sample))));
                let counters = ring.counters();
                self.taken = counters.samples;
                let now = [counters.dropped_full, counters.dropped_stack, counters.malformed, 0];
                self.report(
                    now,
                    [
                        "sample ring full",
                        "thread on an unknown stack",
                        "sample ring slot malformed",
                        "",
                    ],
                )
            }
        }
    }

    fn report(&mut self, now: [u64; 4], names: [&'static str; 4]) -> Vec<(&'static str, u64)> {
        let before = std::mem::replace(&mut self.reported, now);
        let more = now.iter().zip(before).map(|(now, before)| now.saturating_sub(before));
        names.into_iter().zip(more).filter(|(_, more)| *more > 0).collect()
    }

    /// What the samples have cost the process so far, beside the time of threads of ours in it:
    /// what the kernel does at each sample and at each switch, and the time in signal handlers.
    /// `counters` are the agent's. An estimate: numbers of events times what one takes on this
    /// machine.
    pub fn cost(&mut self, counters: &[(String, u64)]) -> Duration {
        if self.binding == Binding::Threads && matches!(self.source, Engine::Ring(_)) {
            // Where nothing is counted nothing is added.
            let _ = self.switches.count(self.pid);
        }
        let RingCosts { sample, switch } = self.costs.get();
        let counter = |name: &str| {
            counters.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
        };
        let (samples, handler) = match self.engine {
            CpuEngine::Signals => (counter(HANDLED), counter(HANDLER_TIME)),
            _ => (self.taken_before + self.taken, 0),
        };
        let samples = samples.saturating_mul(sample.unwrap_or_default() + handler);
        let switches = self.switches.total.saturating_mul(switch.unwrap_or_default());
        Duration::from_nanos(self.spent_before.saturating_add(samples).saturating_add(switches))
    }

    /// Waits until it is known what a sample costs, so that the last account holds it. Says if it
    /// cannot be known.
    pub fn wait_for_costs(&mut self) -> Result<(), &'static str> {
        let is_measured = matches!(self.engine, CpuEngine::Signals | CpuEngine::KernelRing);
        if !is_measured || self.taken_before + self.taken == 0 {
            return Ok(());
        }
        self.costs.wait();
        match self.costs.known() {
            Some(RingCosts { sample: None, .. }) => {
                Err("what a CPU sample costs could not be measured here: the stated cost lacks it")
            }
            _ => Ok(()),
        }
    }

    /// Forgets what came so far.
    pub fn forget(&mut self) {
        let mut forgotten = Vec::new();
        let _ = self.take(Duration::ZERO, &mut forgotten);
    }

    /// Whether it may be opened before its process has begun: it then takes samples of whatever
    /// program the process runs.
    pub fn is_of_processors(&self) -> bool {
        matches!(self.source, Engine::Ring(_)) && self.binding == Binding::Processors
    }

    /// A stack was deeper than what was copied of it.
    pub fn was_cut(&mut self) {
        self.cut.stacks += 1;
    }

    /// Copies more of each stack from now on, if too many were cut, and takes what the ring still
    /// holds. Says how much is copied now, in bytes.
    pub fn grow(&mut self, taken: &mut Vec<Taken>) -> Option<u32> {
        let Engine::Ring(ring) = &mut self.source else { return None };
        if self.stack >= STACK_MOST || !self.cut.are_too_many(self.taken, self.rate_hz) {
            return None;
        }
        let stack = self.stack * 2;
        // Where a bigger ring is unavailable, the smaller one continues.
        let bigger = KernelRing::open(self.pid, &options(self.binding, self.rate_hz, stack));
        self.stack = stack;
        let bigger = bigger.ok()?;
        self.description = bigger.description() + &self.why;
        if self.costs.is_later() {
            self.costs = Costs::later(bigger.measure_costs());
        }
        ring.drain(|event| taken.extend(own(event)));
        **ring = bigger;
        self.taken_before += self.taken;
        (self.taken, self.cut, self.reported) = (0, Cut::default(), [0; 4]);
        Some(stack)
    }

    /// What keeps samples from coming as often as was asked for, where that is so. `status` is the
    /// agent's.
    pub fn limits(&self, status: &wire::Status) -> Limits {
        let of = |pairs: &[(String, u64)], name: &str| {
            pairs.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
        };
        let mut limits = Limits::default();
        match &self.source {
            Engine::Off => limits.reason.clone_from(&self.ring_limit),
            Engine::Ring(ring) => limits.reason = limit_of(ring),
            Engine::Shared(_) => {
                limits.threads_without_timer =
                    WITHOUT_TIMER.iter().map(|name| of(&status.dropped, name)).sum();
                limits.tick_hz = rate::kernel_tick_hz();
                limits.reason = limits.tick_hz.filter(|tick| *tick < self.rate_hz).map(|tick| {
                    format!(
                        "timers on CPU time fire at most once in each tick of the kernel, \
                        which ticks at {tick} Hz"
                    )
                });
            }
            Engine::Walk if of(&status.counters, SPARED) > 0 => {
                limits.reason = Some(
                    "ticks were left out so that the runtime is not suspended for too long".into(),
                );
            }
            Engine::Walk => limits.reason = Some("ticks that came late were left out".into()),
        }
        limits
    }

    /// Samples per second of a thread's CPU time that were asked for.
    pub fn rate_hz(&self) -> u32 {
        self.rate_hz
    }

    /// No further samples. What the ring holds already is lost unless it is taken before.
    pub fn stop(&mut self) {
        if let Engine::Ring(ring) = &self.source {
            self.ring_limit = limit_of(ring);
            self.source = Engine::Off;
        }
    }
}

/// What keeps a ring from sampling as often as was asked for.
fn limit_of(ring: &KernelRing) -> Option<String> {
    if ring.counters().throttled > 0 {
        return Some("the kernel left samples out (kernel.perf_event_max_sample_rate)".into());
    }
    (ring.kernel_time() != KernelTime::Sampled)
        .then(|| "the time in the kernel has no samples of its own".into())
}

fn options(binding: Binding, rate_hz: u32, stack_bytes: u32) -> RingOptions {
    RingOptions { binding, rate_hz, stack_bytes, ..RingOptions::default() }
}

fn own(event: RingEvent<'_>) -> Option<Taken> {
    match event {
        RingEvent::Sample(sample) => Some(Taken::Sample(own_sample(&sample))),
        // Time without user space: a sample whose stack is empty.
        RingEvent::KernelOnly { .. } | RingEvent::ThreadStarted { .. } | RingEvent::Lost(_) => None,
        RingEvent::Mapped { mapping, .. } => Some(Taken::Mapped(mapping)),
        RingEvent::ThreadEnded { time, tid } => Some(Taken::Ended { os_tid: tid, time }),
        RingEvent::ThreadNamed { tid, name, .. } => {
            Some(Taken::Named { os_tid: tid, name: name.into_owned() })
        }
        RingEvent::Replaced { .. } => Some(Taken::Replaced),
    }
}

fn own_sample(sample: &ThreadSample<'_>) -> TakenSample {
    TakenSample {
        time: sample.time,
        os_tid: sample.tid,
        weight: sample.cpu,
        registers: sample.registers,
        stack: sample.stack.to_vec(),
        callers: sample.callers.iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 100,000 samples were taken when more was copied, where this many of each
    /// thousand are cut.
    fn grows_after(cut_of_thousand: u64, rate_hz: u32) -> Option<u64> {
        let mut cut = Cut::default();
        (1..=100_000).find(|taken| {
            cut.stacks += u64::from(taken % 1000 >= 1000 - cut_of_thousand);
            taken % 10 == 0 && cut.are_too_many(*taken, rate_hz)
        })
    }

    #[test]
    fn more_is_copied_where_many_stacks_are_cut_and_not_after_a_burst() {
        assert_eq!(grows_after(1000, 1000), Some(10));
        // The cut ones follow each other.
        assert_eq!(grows_after(150, 1000), Some(950));
        assert_eq!(grows_after(50, 1000), Some(2000));
        assert_eq!(grows_after(50, 100), Some(960));
        assert_eq!(grows_after(11, 100), Some(1000));
        assert_eq!(grows_after(9, 1000), None);
        assert_eq!(grows_after(0, 100), None);
    }
}
