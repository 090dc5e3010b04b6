mod buffer;
mod events;
mod records;
mod refusal;
mod registers;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use self::buffer::Buffer;
use self::events::{Setup, Variant};
use self::records::{Record, Sample};
use crate::{KernelTime, OpenError, Readiness, RingCounters, RingEvent, RingOptions, ThreadSample};

/// The largest stack copy that the kernel takes: it must be below 64 KB and a multiple of 8.
const MOST_STACK: u32 = 65_528;
/// Everything in a sample but the stack, generously.
const SAMPLE_OVERHEAD: u64 = 320;
/// A ring has at least room for this many samples, or it is not worth having.
const FEWEST_SAMPLES: u64 = 8;
const LARGEST_RING: u64 = 32 << 20;
/// New threads may show up while we open events for the others. Beyond this many passes only heirs are covered.
const MOST_PASSES: usize = 20;

/// Samples of all threads of a process, taken by the kernel while they run.
///
/// There is one event for each thread that exists when the ring is opened, on each processor, and one buffer for
/// each processor that all of them share. Threads that are created later inherit the events of their creator,
/// so no sample of them is missed. Events tick by the CPU time of their thread: threads that wait cost nothing.
///
/// Dropping it ends the sampling.
pub struct KernelRing {
    pid: u32,
    period: u64,
    variant: Variant,
    stack_bytes: u32,
    processors: Vec<Processor>,
    /// All events; they sample as long as they are open.
    events: Vec<OwnedFd>,
    process: Option<OwnedFd>,
    state: State,
}

struct Processor {
    number: u32,
    /// The event that the buffer was mapped from: the one to wait for.
    owner: OwnedFd,
    /// Whether the owner's thread has ended, so that waiting for it would return at once.
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
        raise_file_limit();
        let period = 1_000_000_000 / u64::from(options.rate_hz);
        let stack_bytes = options.stack_bytes.clamp(8, MOST_STACK).next_multiple_of(8);
        let size = ring_size(options, stack_bytes);
        let setup = Setup { period, stack_bytes, watermark: u32::try_from(size / 4).unwrap_or(u32::MAX) };
        let numbers = online_processors();
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(OpenError::NoSuchProcess { pid })?;
        let process = match pidfd_open(process, PidfdFlags::empty()) {
            Ok(process) => Some(process),
            Err(Errno::SRCH) => return Err(OpenError::NoSuchProcess { pid }),
            // Kernels before 5.3: the end of the process is then seen by the caller only.
            Err(_) => None,
        };
        let mut ring = Self {
            pid,
            period,
            variant: Variant { user_only: false, read: true, threads_only: true },
            stack_bytes,
            processors: Vec::new(),
            events: Vec::new(),
            process,
            state: State::default(),
        };
        let mut known = HashSet::new();
        for _ in 0..MOST_PASSES {
            let threads = threads(pid).map_err(|_| OpenError::NoSuchProcess { pid })?;
            let new: Vec<u32> = threads.into_iter().filter(|&tid| known.insert(tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                ring.watch(tid, &numbers, &setup, size, known.len())?;
            }
        }
        if ring.processors.is_empty() {
            return Err(OpenError::NoSuchProcess { pid });
        }
        Ok(ring)
    }

    /// Opens the events of one thread.
    fn watch(
        &mut self,
        tid: u32,
        numbers: &[u32],
        setup: &Setup,
        size: usize,
        threads: usize,
    ) -> Result<(), OpenError> {
        let opened = now();
        for &number in numbers {
            let event = match self.open_event(setup, tid, number) {
                Ok(event) => event,
                // The thread has ended; or the processor was switched off.
                Err(Errno::SRCH) => return Ok(()),
                Err(Errno::NODEV) => continue,
                Err(Errno::MFILE | Errno::NFILE) => {
                    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
                    return Err(OpenError::TooManyFiles { threads, processors: numbers.len(), limit });
                }
                Err(Errno::ACCESS | Errno::PERM) => {
                    return Err(OpenError::NotPermitted { pid: self.pid, reason: refusal::explain(self.pid) });
                }
                Err(Errno::NOSYS | Errno::NOENT | Errno::OPNOTSUPP) => return Err(OpenError::Unsupported),
                Err(errno) => return Err(OpenError::System { what: "open an event", source: errno.into() }),
            };
            let id =
                events::id(&event).map_err(|source| OpenError::System { what: "ask for an event's id", source })?;
            self.state.owners.insert(id, tid);
            match self.processors.iter().find(|processor| processor.number == number) {
                Some(processor) => {
                    events::redirect(&event, &processor.owner)
                        .map_err(|source| OpenError::System { what: "share a ring between events", source })?;
                    self.events.push(event);
                }
                None => {
                    let buffer = map(&event, size, setup.stack_bytes)?;
                    self.processors.push(Processor { number, owner: event, ended: false, buffer });
                }
            }
        }
        self.state.threads.entry(tid).or_default().opened = Some(opened);
        Ok(())
    }

    /// Opens an event in the best variant that the system takes. What it has turned down once is not tried again.
    fn open_event(&mut self, setup: &Setup, tid: u32, processor: u32) -> Result<OwnedFd, Errno> {
        loop {
            let error = match events::open(setup, self.variant, tid, processor) {
                Ok(event) => return Ok(event),
                Err(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
            };
            match error {
                Errno::ACCESS | Errno::PERM if !self.variant.user_only => self.variant.user_only = true,
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
            KernelTime::InNextSample => "time in the kernel counted with the thread's next sample in user space",
            KernelTime::Missing => "time in the kernel not included, because kernel.perf_event_paranoid forbids it",
        };
        format!("kernel ring (perf_event_open, {} KB of stack), {kernel}", self.stack_bytes.div_ceil(1024))
    }

    /// Waits until a ring fills up, the process ends, or the time is up.
    ///
    /// # Errors
    ///
    /// Those of `poll(2)`.
    pub fn poll(&mut self, timeout: Duration) -> io::Result<Readiness> {
        let waiting: Vec<usize> = (0..self.processors.len()).filter(|&index| !self.processors[index].ended).collect();
        let mut fds: Vec<PollFd<'_>> =
            waiting.iter().map(|&index| PollFd::new(&self.processors[index].owner, PollFlags::IN)).collect();
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

    /// Hands out all events that are in the rings. The bytes of a stack are those in the ring itself, so what is
    /// needed longer must be copied.
    pub fn drain(&mut self, mut handle: impl FnMut(RingEvent<'_>)) {
        let Self { pid, period, variant, processors, state, .. } = self;
        for processor in processors {
            let (bytes, disorder) = processor.buffer.drain(|record| match records::parse(record, variant.read) {
                Some(record) => state.handle(record, *pid, *period, &mut handle),
                None => state.counters.malformed += 1,
            });
            state.counters.bytes += bytes;
            state.counters.malformed += u64::from(disorder);
        }
    }

    /// What was counted since the ring was opened.
    pub fn counters(&self) -> RingCounters {
        self.state.counters
    }

    /// How many threads have events of their own: those that existed when the ring was opened.
    pub fn threads(&self) -> usize {
        self.state.threads.values().filter(|thread| thread.opened.is_some()).count()
    }

    /// Bytes that the rings hold, of all processors together.
    pub fn capacity(&self) -> usize {
        self.processors.iter().map(|processor| processor.buffer.size()).sum()
    }
}

impl State {
    fn handle(&mut self, record: Record<'_>, pid: u32, period: u64, handle: &mut impl FnMut(RingEvent<'_>)) {
        match record {
            Record::Sample(sample) if sample.of.pid == pid => self.sample(sample, period, handle),
            Record::Mapped { of, mapping } if of.pid == pid => handle(RingEvent::Mapped { time: of.time, mapping }),
            Record::Named { of, exec, name } if of.pid == pid => {
                if exec {
                    handle(RingEvent::Replaced { time: of.time });
                }
                handle(RingEvent::ThreadNamed { time: of.time, tid: of.tid, name });
            }
            Record::Forked { of } if of.pid == pid => {
                // A new thread with the id of an ended one: what we know is about the other.
                if self.threads.get(&of.tid).is_some_and(|thread| thread.opened.is_none_or(|opened| opened < of.time)) {
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
        let Sample { of, id, stream, count, in_kernel, user } = sample;
        let thread = self.threads.entry(of.tid).or_default();
        // A thread that was created while we opened the events of the others has inherited some and was given its own.
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
            Some((registers, stack)) => {
                RingEvent::Sample(ThreadSample { time: of.time, tid: of.tid, cpu, in_kernel, registers, stack })
            }
            None => RingEvent::KernelOnly { time: of.time, tid: of.tid, cpu },
        });
    }
}

/// Maps a ring, as large as the system lets us have it.
fn map(event: &OwnedFd, mut size: usize, stack_bytes: u32) -> Result<Buffer, OpenError> {
    let least = usize::try_from(FEWEST_SAMPLES * (u64::from(stack_bytes) + SAMPLE_OVERHEAD)).unwrap_or(usize::MAX);
    loop {
        match Buffer::map(event, size) {
            Ok(buffer) => return Ok(buffer),
            Err(error) => match Errno::from_io_error(&error) {
                // Over the limit of locked memory.
                Some(Errno::PERM | Errno::NOMEM) if size / 2 >= least => size /= 2,
                Some(Errno::PERM | Errno::NOMEM) => return Err(OpenError::NoLockedMemory),
                _ => return Err(OpenError::System { what: "map the ring of an event", source: error }),
            },
        }
    }
}

/// Bytes of one processor's ring: as much as one busy processor writes in the time it must last.
fn ring_size(options: &RingOptions, stack_bytes: u32) -> usize {
    let sample = u64::from(stack_bytes) + SAMPLE_OVERHEAD;
    let samples = (u64::from(options.rate_hz) * u64::from(options.buffer_ms) / 1000).max(FEWEST_SAMPLES);
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

/// Every thread takes a file for every processor, so the limit is raised as far as the system lets us.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If this fails, opening may fail later, and says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
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
        let options = RingOptions { rate_hz: 1000, stack_bytes: 8192, buffer_ms: 250 };
        let size = ring_size(&options, 8192);
        assert!(size.is_power_of_two() && size >= 250 * 8192, "{size}");
        assert_eq!(ring_size(&RingOptions { buffer_ms: 1_000_000, ..options }, 8192), 32 << 20);
        assert_eq!(ring_size(&RingOptions { rate_hz: 1, ..options }, 8), 64 << 10);
    }
}
