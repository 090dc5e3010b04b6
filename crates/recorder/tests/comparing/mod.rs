//! Compares the unwinder with the runtime's own stack walk: the other side of
//! [`wire::CpuEngine::Compare`], and of [`wire::CpuEngine::CompareBlocked`] for stacks of blocked
//! threads.
//!
//! The agent suspends the runtime, makes every managed thread copy itself into the shared ring, and
//! has the runtime walk the same thread. Here the copy is unwound with the very crate that
//! recordings use, and both lists of managed frames have to be the same.

mod tally;

pub use tally::{Tally, Verdict};

use diagnostics::Port;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use sampler::SharedRing;
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    io::IoSliceMut,
    mem::MaybeUninit,
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    time::{Duration, Instant},
};
use testkit::TargetProcess;
use unwind::{
    BlockedSample, Failure, FrameCode, LiveProcess, Needed, Outcome, Progress, Registers, Sample,
    Unknown, Unwinder,
};
use wire::{
    Comparison, Control, CpuEngine, Method, MethodKind, ProfilerConfig, Record, SessionConfig,
    Stack, frame,
};

/// Longest wait for the agent to do anything at all.
const LIMIT: Duration = Duration::from_secs(20);
/// How long a comparison waits for its sample, and a sample for the code that it runs through.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is known of the registers of a copied thread.
enum Known {
    /// All, out of the ring.
    Registers(Registers),
    /// Instruction pointer and stack pointer.
    Pointers(u64, u64),
}

/// A copied thread.
struct Copied {
    known: Known,
    stack: Vec<u8>,
    since: Instant,
    /// Addresses that the agent was asked for.
    asked: Needed,
    /// How far it was unwound before.
    progress: Progress,
}

impl Copied {
    fn new(known: Known, stack: Vec<u8>) -> Self {
        let (since, asked, progress) = (Instant::now(), Needed::default(), Progress::default());
        Self { known, stack, since, asked, progress }
    }
}

/// A session with the agent of a process.
pub struct Comparing {
    stream: UnixStream,
    buffer: VecDeque<u8>,
    descriptors: VecDeque<OwnedFd>,
    ring: Option<SharedRing>,
    unwinder: Unwinder,
    methods: HashMap<u32, Method>,
    /// Functions of methods by their start: their end, and whether it is the method's first.
    functions: BTreeMap<u64, (u64, bool)>,
    stacks: HashMap<u32, Stack>,
    /// By thread and time.
    samples: HashMap<(u32, u64), Copied>,
    waiting: VecDeque<(Comparison, Instant)>,
    asked: HashSet<u64>,
    answered: HashSet<u64>,
    most_examples: usize,
    /// What came out so far.
    pub tally: Tally,
    /// Warnings and errors of the agent.
    pub log: Vec<String>,
    ended: bool,
}

impl Comparing {
    /// Attaches the agent to a process, to compare `rate_hz` times a second.
    pub fn attach(
        process: &TargetProcess,
        agent: &Path,
        rate_hz: u32,
        most_examples: usize,
    ) -> Self {
        Self::attach_with(CpuEngine::Compare, process, agent, rate_hz, most_examples)
    }

    /// The same for the threads that are blocked.
    pub fn attach_blocked(
        process: &TargetProcess,
        agent: &Path,
        rate_hz: u32,
        most_examples: usize,
    ) -> Self {
        Self::attach_with(CpuEngine::CompareBlocked, process, agent, rate_hz, most_examples)
    }

    fn attach_with(
        cpu: CpuEngine,
        process: &TargetProcess,
        agent: &Path,
        rate_hz: u32,
        most_examples: usize,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let config = SessionConfig {
            protocol: wire::PROTOCOL_VERSION,
            socket: socket.to_str().unwrap().to_owned(),
            token: [1; 16],
            profilers: vec![ProfilerConfig { id: "cpu".into(), params: Vec::new() }],
            cpu,
            rate_hz,
            max_frames: 2048,
            launched: false,
            sdk_tools: wire::sdk::SdkTools::None,
            placeholder: false,
            stays: false,
            quota: None,
            free_memory: None,
        };
        let port: Port = diagnostics::find_pid(process.pid()).unwrap().port().unwrap();
        port.attach_profiler(wire::CLSID_MAIN, agent.to_str().unwrap(), &config.to_bytes(), LIMIT)
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        Self {
            stream,
            buffer: VecDeque::new(),
            descriptors: VecDeque::new(),
            ring: None,
            unwinder: Unwinder::new(LiveProcess::new(process.pid())),
            methods: HashMap::new(),
            functions: BTreeMap::new(),
            stacks: HashMap::new(),
            samples: HashMap::new(),
            waiting: VecDeque::new(),
            asked: HashSet::new(),
            answered: HashSet::new(),
            most_examples,
            tally: Tally::default(),
            log: Vec::new(),
            ended: false,
        }
    }

    /// Compares until there are `enough` comparisons, or until time is up.
    pub fn run(&mut self, enough: u64, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.tally.counted() < enough && Instant::now() < deadline && !self.ended {
            self.step();
        }
    }

    /// Ends the session, and waits for the agent's last words.
    pub fn stop(mut self) -> (Tally, Vec<String>) {
        frame::write(&mut self.stream, &Control::Stop).unwrap();
        let deadline = Instant::now() + LIMIT;
        while !self.ended && Instant::now() < deadline {
            self.step();
        }
        (self.tally, self.log)
    }

    fn step(&mut self) {
        self.receive();
        let mut copied = Vec::new();
        if let Some(ring) = &mut self.ring {
            ring.drain(|sample| {
                let (known, stack) = (Known::Registers(sample.registers), sample.stack.to_vec());
                copied.push(((sample.tid, sample.time), Copied::new(known, stack)));
            });
        }
        self.samples.extend(copied);
        for _ in 0..self.waiting.len() {
            let Some((comparison, since)) = self.waiting.pop_front() else { break };
            if !self.compare(&comparison) {
                if since.elapsed() > PATIENCE {
                    self.tally.lost += 1;
                } else {
                    self.waiting.push_back((comparison, since));
                }
            }
        }
        self.samples.retain(|_, sample| sample.since.elapsed() < PATIENCE * 2);
        let mut executed: Vec<u64> =
            self.samples.values().filter_map(|sample| sample.asked.executed).collect();
        executed.retain(|&address| self.asked.insert(address));
        let mut guessed: Vec<u64> =
            self.samples.values().flat_map(|sample| &sample.asked.guessed).copied().collect();
        guessed.retain(|&address| self.asked.insert(address));
        while !(executed.is_empty() && guessed.is_empty() || self.ended) {
            let part =
                |all: &mut Vec<u64>| all.split_off(all.len().saturating_sub(Control::MAX_RESOLVE));
            let message =
                Control::Resolve { executed: part(&mut executed), guessed: part(&mut guessed) };
            self.ended = frame::write(&mut self.stream, &message).is_err();
        }
    }

    fn receive(&mut self) {
        let mut bytes = vec![0; 64 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        match recvmsg(&self.stream, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) if received.bytes == 0 => self.ended = true,
            Ok(received) => {
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                        self.descriptors.extend(descriptors);
                    }
                }
                self.buffer.extend(&bytes[..received.bytes]);
            }
            // Nothing came in the time limit.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
            Err(error) => panic!("{error}"),
        }
        loop {
            let bytes = self.buffer.make_contiguous();
            let Some((length, rest)) = bytes.split_first_chunk::<4>() else { break };
            let length = u32::from_le_bytes(*length) as usize;
            let Some(body) = rest.get(..length) else { break };
            let records = frame::decode::<Record>(body).unwrap();
            self.buffer.drain(..4 + length);
            for record in records {
                self.record(record);
            }
        }
    }

    fn record(&mut self, record: Record) {
        match record {
            Record::Method(method) => drop(self.methods.insert(method.id, method)),
            Record::Code(code) => {
                for entry in code.unwind.iter().flat_map(|table| &table.entries) {
                    let is_first =
                        code.ranges.first().is_some_and(|&(start, _)| start == entry.begin);
                    self.functions.insert(entry.begin, (entry.end, is_first));
                }
                self.unwinder.code_mut().insert(&code);
            }
            Record::NotCode(address) => {
                self.unwinder.code_mut().insert_not_code(address);
                self.answered.insert(address);
            }
            Record::CodeFreed(start) => {
                self.unwinder.code_mut().remove(start);
                self.asked.clear();
                self.answered.clear();
                for sample in self.samples.values_mut() {
                    sample.asked = Needed::default();
                }
            }
            Record::BlockedStack(stack) => {
                let known = Known::Pointers(stack.ip, stack.sp);
                let copy = Copied::new(known, stack.bytes);
                self.samples.insert((stack.os_tid, stack.time), copy);
            }
            Record::Stack(stack) => drop(self.stacks.insert(stack.id, stack)),
            Record::Comparison(comparison) => self.waiting.push_back((comparison, Instant::now())),
            Record::SampleRing(layout) => {
                let descriptor = self.descriptors.pop_front().expect("the ring's descriptor");
                self.ring = Some(SharedRing::open(descriptor, layout, 1).unwrap());
            }
            Record::Log { level, message } if level >= wire::LogLevel::Warning => {
                self.log.push(message)
            }
            Record::Bye(bye) => {
                self.log.extend(
                    bye.status
                        .dropped
                        .iter()
                        .map(|(reason, count)| format!("dropped: {reason}: {count}")),
                );
                self.log.extend(
                    bye.status.counters.iter().map(|(name, count)| format!("{name}: {count}")),
                );
                self.ended = true;
            }
            _ => {}
        }
    }

    /// Compares, if all that it takes is there.
    fn compare(&mut self, comparison: &Comparison) -> bool {
        let key = (comparison.os_tid, comparison.time);
        let Some(sample) = self.samples.get_mut(&key) else { return false };
        let known = |unwinder: &mut Unwinder, answered: &HashSet<u64>, address: u64| {
            answered.contains(&address)
                || matches!(unwinder.classify(address), FrameCode::Managed { .. })
        };
        if !sample.asked.all().all(|address| known(&mut self.unwinder, &self.answered, address)) {
            return false;
        }
        let Copied { known, stack, progress, .. } = sample;
        let outcome = match known {
            Known::Registers(registers) => {
                let copy = Sample { registers, stack };
                self.unwinder.unwind_further(&copy, &[], Unknown::Ask, progress)
            }
            Known::Pointers(ip, sp) => {
                let copy = BlockedSample { ip: *ip, sp: *sp, stack };
                self.unwinder.unwind_blocked_further(&copy, Unknown::Ask, progress)
            }
        };
        if let Outcome::NeedCode(needed) = outcome {
            sample.asked = needed;
            return false;
        }
        self.samples.remove(&key);
        let runtimes = match comparison.stack {
            Some(id) => {
                self.stacks.get(&id).cloned().expect("stacks are defined before they are named")
            }
            None => Stack { id: 0, ips: Vec::new(), truncated: false },
        };
        self.judge(comparison, &runtimes, outcome);
        true
    }

    fn judge(&mut self, comparison: &Comparison, runtimes: &Stack, outcome: Outcome) {
        let (found, failure, truncated) = match outcome {
            Outcome::Complete(stack) => (stack, None, false),
            Outcome::Truncated(stack) => (stack, None, true),
            Outcome::Broken(stack, failure) => (stack, Some(failure), false),
            Outcome::NeedCode(_) => unreachable!("asked for above"),
        };
        let managed =
            found.frames.iter().filter(|frame| matches!(frame.code, FrameCode::Managed { .. }));
        let ours: Vec<u64> = managed.map(|frame| frame.ip).collect();
        if ours.is_empty() && runtimes.ips.is_empty() && failure.is_none() {
            self.tally.without += 1;
            return;
        }
        let verdict = self.verdict(&ours, runtimes, failure, truncated);
        self.tally.distinct.insert(runtimes.ips.clone());
        *self.tally.verdicts.entry(verdict).or_default() += 1;
        if verdict != Verdict::Equal
            && self
                .tally
                .examples
                .get(&verdict)
                .is_none_or(|examples| examples.len() < self.most_examples)
        {
            let mut text = format!("thread {} at {}\n", comparison.os_tid, comparison.time);
            for frame in &found.frames {
                text += &format!(
                    "    {:?} {:?} {}\n",
                    frame.trust,
                    frame.code,
                    self.name(frame.lookup, frame.ip)
                );
            }
            text += &format!(
                "  the runtime{}:\n",
                if runtimes.truncated { " (truncated)" } else { "" }
            );
            for (index, ip) in runtimes.ips.iter().enumerate() {
                let lookup = if index == 0 { *ip } else { ip.wrapping_sub(1) };
                text += &format!("    {}\n", self.name(lookup, *ip));
            }
            self.tally.examples.entry(verdict).or_default().push(text);
        }
    }

    fn verdict(
        &mut self,
        ours: &[u64],
        runtimes: &Stack,
        failure: Option<Failure>,
        truncated: bool,
    ) -> Verdict {
        // Where a method is called for the first time, the runtime takes its stub for the method
        // itself.
        let theirs: Vec<u64> =
            runtimes.ips.iter().copied().filter(|&ip| self.is_code(ip)).collect();
        if theirs.len() < runtimes.ips.len() {
            let runtimes = Stack { ips: theirs, ..*runtimes };
            let verdict = self.verdict(ours, &runtimes, failure, truncated);
            return if verdict == Verdict::Equal { Verdict::EqualButLeftOut } else { verdict };
        }
        if let Some(failure) = failure {
            return Verdict::Broken(failure);
        }
        if truncated || runtimes.truncated {
            let both = ours.len().min(theirs.len());
            let equal = ours[..both].iter().zip(&theirs[..both]).skip(1).all(|(a, b)| a == b);
            return if equal { Verdict::Truncated } else { Verdict::TruncatedDifferent };
        }
        if *ours == theirs {
            return Verdict::Equal;
        }
        let visible: Vec<u64> = ours.iter().copied().filter(|&ip| !self.is_left_out(ip)).collect();
        if visible.len() < ours.len() {
            let verdict = self.verdict(&visible, runtimes, failure, truncated);
            return if verdict.is_equal() { Verdict::EqualButLeftOut } else { verdict };
        }
        let ours_by_method = self.by_method(ours);
        let theirs_by_method = self.by_method(&theirs);
        if ours_by_method == theirs_by_method {
            return if ours[1..] == theirs[1..] {
                Verdict::EqualButPlaceInLeaf
            } else {
                Verdict::OtherPlaces
            };
        }
        if self.is_equal_but_handler(ours, &theirs) {
            return Verdict::EqualButHandler;
        }
        let is_part = |part: &[Option<u32>], whole: &[Option<u32>]| {
            let mut whole = whole.iter();
            part.iter().all(|method| whole.any(|other| other == method))
        };
        match (
            is_part(&ours_by_method, &theirs_by_method),
            is_part(&theirs_by_method, &ours_by_method),
        ) {
            (true, _) => Verdict::Missing,
            (_, true) => Verdict::More,
            _ => Verdict::Different,
        }
    }

    fn is_code(&mut self, ip: u64) -> bool {
        self.by_method(&[ip]).pop().flatten().is_some()
    }

    /// Whether the lists are the same once each handler, and all below it, is left out up to its
    /// own method.
    fn is_equal_but_handler(&mut self, ours: &[u64], theirs: &[u64]) -> bool {
        let (methods, wanted) = (self.by_method(ours), self.by_method(theirs));
        let mut at = 0;
        for (index, ip) in theirs.iter().enumerate() {
            // The place in the leaf may differ: see `EqualButPlaceInLeaf`.
            let is_it = |at: usize| ours[at] == *ip || index == 0 && methods[at] == wanted[index];
            while at < ours.len()
                && (!is_it(at) || index == 0 && ours[at] != *ip && self.is_handler(ours[at]))
            {
                if !self.is_handler(ours[at]) {
                    return false;
                }
                let Some(below) =
                    methods.iter().skip(at + 1).position(|method| *method == methods[at])
                else {
                    return false;
                };
                at += 1 + below;
            }
            at += 1;
        }
        at == ours.len()
    }

    /// Whether an address is in a filter, handler or finally block: in a function of the method's
    /// that is not its first.
    fn is_handler(&self, ip: u64) -> bool {
        let entry = self.functions.range(..ip).next_back();
        entry.is_some_and(|(_, &(end, is_first))| ip <= end && !is_first)
    }

    fn is_left_out(&mut self, ip: u64) -> bool {
        let method =
            self.by_method(&[ip]).pop().flatten().and_then(|method| self.methods.get(&method));
        method.is_some_and(|method| {
            method.kind != MethodKind::Normal || method.type_name == "System.Runtime.EH"
        })
    }

    fn by_method(&mut self, ips: &[u64]) -> Vec<Option<u32>> {
        let mut methods = Vec::with_capacity(ips.len());
        for &ip in ips {
            // A return address may stand behind the last instruction; an interrupted instruction
            // may be the first.
            methods.push([ip.wrapping_sub(1), ip].into_iter().find_map(|at| {
                match self.unwinder.classify(at) {
                    FrameCode::Managed { method, .. } => Some(method),
                    _ => None,
                }
            }));
        }
        methods
    }

    fn name(&mut self, lookup: u64, ip: u64) -> String {
        match self.unwinder.classify(lookup) {
            FrameCode::Managed { method, offset, .. } => {
                let method = self.methods.get(&method);
                let name = method
                    .map(|method| format!("{}.{}", method.type_name, method.name))
                    .unwrap_or_default();
                format!("{ip:x} {name} + {offset:x}")
            }
            FrameCode::Native => match self.unwinder.locate(lookup) {
                Some(at) => format!("{ip:x} {}+{:x}", at.path, at.address),
                None => format!("{ip:x} ?"),
            },
            FrameCode::Stub => format!("{ip:x} [stub]"),
            FrameCode::Unknown => format!("{ip:x} [unknown]"),
        }
    }
}
