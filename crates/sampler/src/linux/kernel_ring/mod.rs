mod buffer;
mod cost;
mod events;
mod filter;
mod records;
mod refusal;
mod registers;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use self::buffer::Buffer;
use self::events::{Setup, Variant, Whom};
use self::records::{Record, Sample};
use crate::{
    Binding, KernelTime, OpenError, Readiness, RingCosts, RingCounters, RingEvent, RingOptions,
    ThreadSample,
};

/// The largest stack copy that the kernel takes: it must be below 64 KB and a multiple of 8.
const MOST_STACK: u32 = 65_528;
/// Everything in a sample but the stack, generously.
const SAMPLE_OVERHEAD: u64 = 320;
/// A ring has at least room for this many samples, or it is not worth having.
const FEWEST_SAMPLES: u64 = 8;
const LARGEST_RING: u64 = 32 << 20;
/// All rings of a recording that is bound to processors, together: only samples of the target go
/// into them.
const LARGEST_RINGS: u64 = 64 << 20;
/// New threads may show up while we open events for the others. Beyond this many passes only heirs
/// are covered.
const MOST_PASSES: usize = 20;

/// How often it is looked whether processors were switched on or off.
const PROCESSORS_CHECK: Duration = Duration::from_secs(1);
/// The period of events that are bound to processors is longer by one part in this many, so that
/// they do not tick in step with work that a timer of the kernel starts (its ticks come at 100, 250
/// or 1000 Hz).
const OUT_OF_STEP: u64 = 61;

/// Samples of all threads of a process, taken by the kernel while they run.
///
/// Bound to processors ([`Binding::Processors`]), there is one event for each processor, which
/// ticks while the processor works, and a filter in the kernel that lets only samples of the
/// process through. The process does not know of it, and switching from thread to thread costs it
/// nothing.
///
/// Bound to threads ([`Binding::Threads`]), there is one event for each thread that exists when the
/// ring is opened, on each processor, and one buffer for each processor that all of them share.
/// Threads that are created later inherit the events of their creator, so no sample of them is
/// missed. Events tick by the CPU time of their thread: threads that wait cost nothing, but each
/// switch to a thread starts a timer of the kernel and each switch away stops it (some 2 to 9 µs).
///
/// Dropping it ends the sampling.
pub struct KernelRing {
    pid: u32,
    setup: Setup,
    variant: Variant,
    /// Bytes of each ring.
    size: usize,
    bound: Bound,
    processors: Vec<Processor>,
    /// All events; they sample as long as they are open.
    events: Vec<OwnedFd>,
    process: Option<OwnedFd>,
    state: State,
}

enum Bound {
    Processors { filter: OwnedFd, checked: Instant },
    Threads,
}

struct Processor {
    number: u32,
    /// The event that the buffer was mapped from: the one to wait for.
    owner: OwnedFd,
    /// Whether the owner's thread has ended, or its processor was switched off, so that waiting for
    /// it would return at once.
    ended: bool,
    buffer: Buffer,
}

#[derive(Default)]
struct State {
    counters: RingCounters,
    /// The thread that an event was opened for, by the event's id.
    owners: HashMap<u64, u32>,
    threads: HashMap<u32, Thread>,
}

#[derive(Default)]
struct Thread {
    /// When events of its own were opened for it, if they were.
    opened: Option<u64>,
    /// CPU time that each event of the thread had counted at its last sample.
    counts: Vec<(u64, u64)>,
}

impl KernelRing {
    /// Starts to sample all threads of a process, by its id in our own pid namespace.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; nothing is left running.
    pub fn open(pid: u32, options: &RingOptions) -> Result<Self, OpenError> {
        if !(1..=10_000).contains(&options.rate_hz) {
            return Err(OpenError::BadOptions("the rate must be 1 to 10000 samples per second"));
        }
        let stack_bytes = options.stack_bytes.clamp(8, MOST_STACK).next_multiple_of(8);
        let numbers = online_processors();
        let process = open_process(pid)?;
        let (period, bound, size) = match options.binding {
            Binding::Processors => {
                let filter =
                    filter::load_for(pid).map_err(|source| {
                        match Errno::from_io_error(&source) {
                            Some(Errno::NOENT | Errno::SRCH) => OpenError::NoSuchProcess { pid },
                            _ => OpenError::NoFilter { source },
                        }
                    })?;
                let period = 1_000_000_000 / u64::from(options.rate_hz);
                let most = LARGEST_RINGS / numbers.len().max(1).next_power_of_two() as u64;
                let size = ring_size(options, stack_bytes)
                    .min(usize::try_from(most).unwrap_or(usize::MAX));
                (
                    period + period / OUT_OF_STEP,
                    Bound::Processors { filter, checked: Instant::now() },
                    size,
                )
            }
            Binding::Threads => {
                raise_file_limit();
                (
                    1_000_000_000 / u64::from(options.rate_hz),
                    Bound::Threads,
                    ring_size(options, stack_bytes),
                )
            }
        };
        let mut ring = Self {
            pid,
            setup: Setup {
                period,
                stack_bytes,
                watermark: u32::try_from(size / 4).unwrap_or(u32::MAX),
            },
            variant: match bound {
                // Who may watch a processor may see the kernel's time on it, and no event has
                // heirs.
                Bound::Processors { .. } => {
                    Variant { user_only: false, read: false, threads_only: false }
                }
                Bound::Threads => Variant { user_only: false, read: true, threads_only: true },
            },
            size,
            bound,
            processors: Vec::new(),
            events: Vec::new(),
            process,
            state: State::default(),
        };
        match options.binding {
            Binding::Processors => ring.watch_processors(&numbers)?,
            Binding::Threads => ring.watch_threads(&numbers)?,
        }
        if ring.processors.is_empty() {
            return Err(OpenError::NoSuchProcess { pid });
        }
        Ok(ring)
    }

    /// Opens an event for each of these processors that has none.
    fn watch_processors(&mut self, numbers: &[u32]) -> Result<(), OpenError> {
        for &number in numbers {
            if self
                .processors
                .iter()
                .any(|processor| processor.number == number && !processor.ended)
            {
                continue;
            }
            let event = match self.open_event(Whom::Processor { number }) {
                Ok(event) => event,
                // It was switched off.
                Err(Errno::NODEV) => continue,
                Err(errno) => return Err(self.refused(errno, 0, numbers.len())),
            };
            let Bound::Processors { filter, .. } = &self.bound else { return Ok(()) };
            // The filter first: samples of others must not be written, not even for a moment.
            filter::put_on(&event, filter).map_err(|source| OpenError::NoFilter { source })?;
            let buffer = map(&event, self.size, self.setup.stack_bytes)?;
            events::enable(&event)
                .map_err(|source| OpenError::System { what: "switch an event on", source })?;
            self.processors.push(Processor { number, owner: event, ended: false, buffer });
        }
        Ok(())
    }

    /// Follows processors that are switched on and off.
    fn follow_processors(&mut self) {
        match &mut self.bound {
            Bound::Processors { checked, .. } if checked.elapsed() >= PROCESSORS_CHECK => {
                *checked = Instant::now()
            }
            _ => return,
        }
        let online = online_processors();
        for processor in &mut self.processors {
            processor.ended |= !online.contains(&processor.number);
        }
        // One that cannot be watched is tried again the next time.
        let _ = self.watch_processors(&online);
    }

    /// Opens the events of all threads, also of those that show up meanwhile.
    fn watch_threads(&mut self, numbers: &[u32]) -> Result<(), OpenError> {
        let pid = self.pid;
        let mut known = HashSet::new();
        for _ in 0..MOST_PASSES {
            let threads = threads(pid).map_err(|_| OpenError::NoSuchProcess { pid })?;
            let new: Vec<u32> = threads.into_iter().filter(|&tid| known.insert(tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                self.watch(tid, numbers, known.len())?;
            }
        }
        Ok(())
    }

    /// What it means that an event cannot be opened.
    fn refused(&self, errno: Errno, threads: usize, processors: usize) -> OpenError {
        match errno {
            Errno::MFILE | Errno::NFILE => {
                let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
                OpenError::TooManyFiles { threads, processors, limit }
            }
            Errno::ACCESS | Errno::PERM if matches!(self.bound, Bound::Processors { .. }) => {
                OpenError::NoProcessors
            }
            Errno::ACCESS | Errno::PERM => {
                OpenError::NotPermitted { pid: self.pid, reason: refusal::explain(self.pid) }
            }
            Errno::NOSYS | Errno::NOENT | Errno::OPNOTSUPP => OpenError::Unsupported,
            errno => OpenError::System { what: "open an event", source: errno.into() },
        }
    }

    /// Opens the events of one thread.
    fn watch(&mut self, tid: u32, numbers: &[u32], threads: usize) -> Result<(), OpenError> {
        let opened = now();
        for &number in numbers {
            let event = match self.open_event(Whom::Thread { tid, on: number }) {
                Ok(event) => event,
                // The thread has ended; or the processor was switched off.
                Err(Errno::SRCH) => return Ok(()),
                Err(Errno::NODEV) => continue,
                Err(errno) => return Err(self.refused(errno, threads, numbers.len())),
            };
            let id = events::id(&event)
                .map_err(|source| OpenError::System { what: "ask for an event's id", source })?;
            self.state.owners.insert(id, tid);
            match self.processors.iter().find(|processor| processor.number == number) {
                Some(processor) => {
                    events::redirect(&event, &processor.owner).map_err(|source| {
                        OpenError::System { what: "share a ring between events", source }
                    })?;
                    self.events.push(event);
                }
                None => {
                    let buffer = map(&event, self.size, self.setup.stack_bytes)?;
                    self.processors.push(Processor { number, owner: event, ended: false, buffer });
                }
            }
        }
        self.state.threads.entry(tid).or_default().opened = Some(opened);
        Ok(())
    }

    /// Opens an event in the best variant that the system takes. What it has turned down once is
    /// not tried again.
    fn open_event(&mut self, whom: Whom) -> Result<OwnedFd, Errno> {
        loop {
            let error = match events::open(&self.setup, self.variant, whom) {
                Ok(event) => return Ok(event),
                Err(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
            };
            match error {
                Errno::ACCESS | Errno::PERM
                    if !self.variant.user_only && matches!(self.bound, Bound::Threads) =>
                {
                    self.variant.user_only = true;
                }
                Errno::INVAL if self.variant.read => self.variant.read = false,
                Errno::INVAL if self.variant.threads_only => self.variant.threads_only = false,
                error => return Err(error),
            }
        }
    }

    /// What became of the time that threads spend in the kernel.
    pub fn kernel_time(&self) -> KernelTime {
        match self.variant {
            Variant { user_only: false, .. } => KernelTime::Sampled,
            Variant { read: true, .. } => KernelTime::InNextSample,
            Variant { .. } => KernelTime::Missing,
        }
    }

    /// In words for a reader: how samples are taken.
    pub fn description(&self) -> String {
        let kernel = match self.kernel_time() {
            KernelTime::Sampled => "time in the kernel included",
            KernelTime::InNextSample => {
                "time in the kernel counted with the thread's next sample in user space"
            }
            KernelTime::Missing => {
                "time in the kernel not included, because kernel.perf_event_paranoid forbids it"
            }
        };
        let bound = match self.bound {
            Bound::Processors { .. } => "on each processor, filtered in the kernel",
            Bound::Threads => "on each thread",
        };
        let stack = self.setup.stack_bytes.div_ceil(1024);
        format!("kernel ring (perf_event_open {bound}, {stack} KB of stack), {kernel}")
    }

    /// Waits until a ring fills up, the process ends, or the time is up.
    ///
    /// # Errors
    ///
    /// Those of `poll(2)`.
    pub fn poll(&mut self, timeout: Duration) -> io::Result<Readiness> {
        self.follow_processors();
        let waiting: Vec<usize> =
            (0..self.processors.len()).filter(|&index| !self.processors[index].ended).collect();
        let mut fds: Vec<PollFd<'_>> = waiting
            .iter()
            .map(|&index| PollFd::new(&self.processors[index].owner, PollFlags::IN))
            .collect();
        fds.extend(self.process.as_ref().map(|process| PollFd::new(process, PollFlags::IN)));
        let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Readiness::TimedOut),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        let mut filling = false;
        for (&index, flags) in waiting.iter().zip(&flags) {
            filling |= flags.contains(PollFlags::IN);
            self.processors[index].ended |= flags.intersects(PollFlags::HUP | PollFlags::ERR);
        }
        let process_ended = flags.get(waiting.len()).is_some_and(|flags| !flags.is_empty());
        Ok(match (process_ended, filling) {
            (true, _) => Readiness::ProcessEnded,
            (false, true) => Readiness::Filling,
            (false, false) => Readiness::TimedOut,
        })
    }

    /// Hands out all events that are in the rings. The bytes of a stack are those in the ring
    /// itself, so what is needed longer must be copied.
    pub fn drain(&mut self, mut handle: impl FnMut(RingEvent<'_>)) {
        let Self { pid, setup, variant, bound, processors, state, .. } = self;
        for processor in &mut *processors {
            let (bytes, disorder) =
                processor.buffer.drain(|record| match records::parse(record, variant.read) {
                    Some(record) => state.handle(record, *pid, setup.period, &mut handle),
                    None => state.counters.malformed += 1,
                });
            state.counters.bytes += bytes;
            state.counters.malformed += u64::from(disorder);
        }
        // What a processor wrote before it was switched off has been read now.
        if matches!(bound, Bound::Processors { .. }) {
            processors.retain(|processor| !processor.ended);
        }
    }

    /// What was counted since the ring was opened.
    pub fn counters(&self) -> RingCounters {
        self.state.counters
    }

    /// Measures on this machine what the kernel does for such a ring on the process's time. Takes
    /// some 20 ms; it needs no ring's thread, and may run beside.
    pub fn measure_costs(&self) -> impl FnOnce() -> RingCosts + Send + use<> {
        let (setup, variant) = (self.setup, self.variant);
        let has_switches = matches!(self.bound, Bound::Threads);
        move || RingCosts {
            sample: cost::of_sample(setup, variant.user_only).ok(),
            switch: if has_switches { cost::of_switch(setup, variant).ok() } else { Some(0) },
        }
    }

    /// Nanoseconds of CPU time between two samples. Longer than asked for where events are bound to
    /// processors, so that they do not tick in step with timers of the system.
    pub fn period(&self) -> u64 {
        self.setup.period
    }

    /// How many threads have events of their own: those that existed when the ring was opened, or
    /// none where events are bound to processors.
    pub fn threads(&self) -> usize {
        self.state.threads.values().filter(|thread| thread.opened.is_some()).count()
    }

    /// Bytes that the rings hold, of all processors together.
    pub fn capacity(&self) -> usize {
        self.processors.iter().map(|processor| processor.buffer.size()).sum()
    }
}

impl State {
    fn handle(
        &mut self,
        record: Record<'_>,
        pid: u32,
        period: u64,
        handle: &mut impl FnMut(RingEvent<'_>),
    ) {
        match record {
            Record::Sample(sample) if sample.of.pid == pid => self.sample(sample, period, handle),
            Record::Sample(_) => self.counters.of_others += 1,
            Record::Mapped { of, mapping } if of.pid == pid => {
                handle(RingEvent::Mapped { time: of.time, mapping })
            }
            Record::Named { of, exec, name } if of.pid == pid => {
                if exec {
                    handle(RingEvent::Replaced { time: of.time });
                }
                handle(RingEvent::ThreadNamed { time: of.time, tid: of.tid, name });
            }
            Record::Forked { of } if of.pid == pid => {
                // A new thread with the id of an ended one: what we know is about the other.
                if self
                    .threads
                    .get(&of.tid)
                    .is_some_and(|thread| thread.opened.is_none_or(|opened| opened < of.time))
                {
                    self.threads.remove(&of.tid);
                }
                handle(RingEvent::ThreadStarted { time: of.time, tid: of.tid });
            }
            Record::Exited { of } if of.pid == pid => {
                self.threads.remove(&of.tid);
                handle(RingEvent::ThreadEnded { time: of.time, tid: of.tid });
            }
            Record::Lost(count) => {
                self.counters.lost += count;
                handle(RingEvent::Lost(count));
            }
            Record::Throttled => self.counters.throttled += 1,
            // Child processes, before Linux 5.13, and what we do not use.
            _ => {}
        }
    }

    fn sample(&mut self, sample: Sample<'_>, period: u64, handle: &mut impl FnMut(RingEvent<'_>)) {
        let Sample { of, id, stream, count, in_kernel, callers, user } = sample;
        let thread = self.threads.entry(of.tid).or_default();
        // A thread that was created while we opened the events of the others has inherited some and
        // was given its own.
        if thread.opened.is_some() && self.owners.get(&id).is_some_and(|&owner| owner != of.tid) {
            self.counters.duplicates += 1;
            return;
        }
        let cpu = match count {
            None => period,
            Some(count) => match thread.counts.iter_mut().find(|(of, _)| *of == stream) {
                Some((_, last)) => count.saturating_sub(std::mem::replace(last, count)),
                None => {
                    thread.counts.push((stream, count));
                    count
                }
            },
        };
        self.counters.samples += 1;
        handle(match user {
            Some((registers, stack)) => RingEvent::Sample(ThreadSample {
                time: of.time,
                tid: of.tid,
                cpu,
                in_kernel,
                registers,
                stack,
                callers,
            }),
            None => RingEvent::KernelOnly { time: of.time, tid: of.tid, cpu },
        });
    }
}

/// A descriptor of the process, to wait for its end; `None` on kernels before 5.3, where only the
/// caller sees the end.
fn open_process(pid: u32) -> Result<Option<OwnedFd>, OpenError> {
    let process =
        i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(OpenError::NoSuchProcess { pid })?;
    match pidfd_open(process, PidfdFlags::empty()) {
        Ok(process) => Ok(Some(process)),
        Err(Errno::SRCH) => Err(OpenError::NoSuchProcess { pid }),
        Err(_) => Ok(None),
    }
}

/// Maps a ring, as large as the system lets us have it.
fn map(event: &OwnedFd, mut size: usize, stack_bytes: u32) -> Result<Buffer, OpenError> {
    let least = usize::try_from(FEWEST_SAMPLES * (u64::from(stack_bytes) + SAMPLE_OVERHEAD))
        .unwrap_or(usize::MAX);
    loop {
        match Buffer::map(event, size) {
            Ok(buffer) => return Ok(buffer),
            Err(error) => match Errno::from_io_error(&error) {
                // Over the limit of locked memory.
                Some(Errno::PERM | Errno::NOMEM) if size / 2 >= least => size /= 2,
                Some(Errno::PERM | Errno::NOMEM) => return Err(OpenError::NoLockedMemory),
                _ => {
                    return Err(OpenError::System {
                        what: "map the ring of an event",
                        source: error,
                    });
                }
            },
        }
    }
}

/// Bytes of one processor's ring: as much as one busy processor writes in the time it must last.
fn ring_size(options: &RingOptions, stack_bytes: u32) -> usize {
    let sample = u64::from(stack_bytes) + SAMPLE_OVERHEAD;
    let samples =
        (u64::from(options.rate_hz) * u64::from(options.buffer_ms) / 1000).max(FEWEST_SAMPLES);
    let size = (samples * sample).next_power_of_two().clamp(64 << 10, LARGEST_RING);
    usize::try_from(size).unwrap_or(LARGEST_RING as usize)
}

/// Threads of a process.
fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        threads.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(threads)
}

/// Numbers of the processors that are switched on.
fn online_processors() -> Vec<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let numbers = parse_list(list.trim());
    if !numbers.is_empty() {
        return numbers;
    }
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    (0..u32::try_from(count).unwrap_or(1)).collect()
}

/// Reads a list such as `0-3,8`.
fn parse_list(list: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            numbers.extend(first..=last.min(first.saturating_add(16_384)));
        }
    }
    numbers
}

/// Every thread takes a file for every processor, so the limit is raised as far as the system lets
/// us.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If this fails, opening may fail later, and says so.
        let _ =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_list("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list("0"), [0]);
        assert_eq!(parse_list(""), [0; 0]);
        assert!(!online_processors().is_empty());
    }

    #[test]
    fn rings_last_as_long_as_asked_within_limits() {
        let options = RingOptions {
            rate_hz: 1000,
            stack_bytes: 8192,
            buffer_ms: 250,
            ..RingOptions::default()
        };
        let size = ring_size(&options, 8192);
        assert!(size.is_power_of_two() && size >= 250 * 8192, "{size}");
        assert_eq!(ring_size(&RingOptions { buffer_ms: 1_000_000, ..options }, 8192), 32 << 20);
        assert_eq!(ring_size(&RingOptions { rate_hz: 1, ..options }, 8), 64 << 10);
    }
}
