//! A thread dump: all threads at one time, read from outside while they run on.
//!
//! Of a blocked thread, its registers and a copy of its stack are read while it stays as it is. A
//! running one gets the stack of its next CPU sample, or that of the wait that it begins. Who says
//! what managed code stands at an address is the agent, or a [`CodeReader`] where there is none.

mod departure;
mod reading;

pub use departure::Departure;

use self::reading::{Reading, ThreadReader};
use super::{
    attach,
    context::OWN_THREADS,
    cpu::{CpuSource, Taken, TakenSample},
    define::Definitions,
    frames::{Copied, Frames, Unwound},
    link::{AgentLink, FromAgent},
    target::{Activity, Target},
    waiting::{Needs, Waiting, WaitingSample},
    waits,
};
use crate::{
    AgentFile, CodeReader, DumpedFrame, DumpedThread, EngineChoice, RecordError, RecordOptions,
    StackEnd, ThreadDump,
};
use diagnostics::DotnetProcess;
use profilers::Selection;
use rustix::time::{ClockId, clock_gettime};
use sampler::Binding;
use session::{FrameDef, FrameTrust, FunctionDef, ModuleDef, SessionRecord, StackId, ThreadState};
use std::{
    collections::{BTreeMap, HashMap},
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};
use wire::{LogLevel, Record};

/// How long running threads are waited for: that long they may wait for a processor.
const SAMPLES_LIMIT: Duration = Duration::from_millis(150);

/// How long answers about addresses are waited for.
const ANSWERS_LIMIT: Duration = Duration::from_secs(2);

/// How long one round waits for an answer.
const ROUND: Duration = Duration::from_millis(1);

/// How often running threads are looked at again: by then they may wait.
const READ_AGAIN: Duration = Duration::from_millis(10);

/// CPU samples per second of a running thread. No multiple of what timers of programs have.
const RATE_HZ: u32 = 997;

/// Takes a thread dump of a process, with an agent that says what its managed code is. The agent is
/// still there afterwards: see [`Departure::finish`].
///
/// # Errors
/// What [`super::attach()`] refuses; and [`RecordError::Io`] where the memory of the process may
/// not be read.
pub fn dump(
    process: &DotnetProcess,
    agent: AgentFile,
) -> Result<(ThreadDump, Departure), RecordError> {
    let pid = process.pid;
    // Before anything is loaded.
    ThreadReader::open(pid).map_err(|source| not_readable(pid, source))?;
    let options = RecordOptions {
        profilers: Selection::parse_list(profilers::cpu::SPEC.id).unwrap_or_default(),
        rate_hz: RATE_HZ,
        engine: EngineChoice::Auto,
        duration: None,
        output: None,
        instrument: None,
        live: false,
        sdk_tools: false,
        agent,
    };
    let served = attach::serve(process, &options)?;
    let reader = ThreadReader::open(pid).map_err(|source| not_readable(pid, source))?;
    let mut link = served.link;
    let mut dumper = Dumper::new(served.target, reader, served.cpu, Code::Agent(&mut link));
    let dump = dumper.take();
    let Dumper { target, .. } = dumper;
    Ok((dump, Departure { link, target, library: served.library }))
}

/// Takes a thread dump of a process without any help of its runtime. Threads that run have frames
/// only where the kernel samples them for us.
///
/// # Errors
/// [`RecordError::Exited`], and [`RecordError::Io`] where the memory of the process may not be
/// read.
pub fn dump_outside(pid: u32, code: &mut dyn CodeReader) -> Result<ThreadDump, RecordError> {
    let target = Target::new(pid).map_err(|_| RecordError::Exited { pid })?;
    let reader = ThreadReader::open(pid).map_err(|source| not_readable(pid, source))?;
    let ring = CpuSource::kernel_ring(pid, RATE_HZ, Binding::Processors);
    let cpu = ring.unwrap_or_else(|_| CpuSource::off());
    Ok(Dumper::new(target, reader, cpu, Code::Reader(code)).take())
}

fn not_readable(pid: u32, source: io::Error) -> RecordError {
    match source.kind() {
        io::ErrorKind::NotFound => RecordError::Exited { pid },
        _ => RecordError::Io { what: format!("reading the memory of process {pid}"), source },
    }
}

/// Who says what managed code stands at an address.
enum Code<'a> {
    Agent(&'a mut AgentLink),
    Reader(&'a mut dyn CodeReader),
}

/// What was found of a thread.
#[derive(Clone, Copy)]
struct Found {
    stack: Option<StackId>,
    end: StackEnd,
    /// What it did in the kernel then.
    activity: Activity,
    /// Number of its copied stack.
    id: Option<u32>,
}

impl Found {
    fn nothing(end: StackEnd) -> Self {
        Self { stack: None, end, activity: Activity::Running, id: None }
    }
}

struct Dumper<'a> {
    target: Target,
    reader: ThreadReader,
    cpu: CpuSource,
    code: Code<'a>,
    definitions: Definitions,
    frames: Frames,
    waiting: Waiting,
    /// How many stacks wait for answers.
    unanswered: usize,
    /// By thread; those that are not there yet run, or wait for answers.
    found: HashMap<u32, Found>,
    /// Threads that run, and of which there is no stack yet.
    running: Vec<u32>,
    /// What blocked threads did in the kernel, by the number of their copied stack.
    activities: HashMap<u32, Activity>,
    /// The agent says nothing more.
    closed: bool,
    notes: Vec<String>,
}

impl<'a> Dumper<'a> {
    fn new(target: Target, reader: ThreadReader, cpu: CpuSource, code: Code<'a>) -> Self {
        Self {
            frames: Frames::of_every_frame(&target),
            target,
            reader,
            cpu,
            code,
            definitions: Definitions::default(),
            waiting: Waiting::default(),
            unanswered: 0,
            found: HashMap::new(),
            running: Vec::new(),
            activities: HashMap::new(),
            closed: false,
            notes: Vec::new(),
        }
    }

    fn take(&mut self) -> ThreadDump {
        // Samples of before are of another time.
        self.cpu.forget();
        let begun = Instant::now();
        let threads = self.threads();
        for thread in &threads {
            self.read(thread.0);
        }
        let reading = begun.elapsed();
        let mut read = Instant::now();
        while begun.elapsed() < ANSWERS_LIMIT && !self.closed {
            let samples = !self.running.is_empty() && self.is_sampled();
            let samples = samples && begun.elapsed() < SAMPLES_LIMIT;
            if self.unanswered == 0 && !samples {
                break;
            }
            self.sample();
            self.hear();
            self.settle(false);
            // One that runs no more has no further sample.
            if read.elapsed() >= READ_AGAIN {
                std::mem::take(&mut self.running).into_iter().for_each(|tid| self.read(tid));
                read = Instant::now();
            }
        }
        self.settle(true);
        self.cpu.stop();
        self.dumped(threads, reading)
    }

    /// All threads but our own: id, state letter, CPU time, time of birth.
    fn threads(&mut self) -> Vec<(u32, u8, u64, i64)> {
        let mut threads = self.target.thread_times();
        threads.retain(|(tid, ..)| {
            let target = &self.target;
            self.definitions.thread(*tid, || target.thread_name(*tid));
            let name = self.definitions.thread_name(*tid);
            !name.is_some_and(|name| name.starts_with(OWN_THREADS))
        });
        threads
    }

    /// Whether running threads have samples.
    fn is_sampled(&self) -> bool {
        self.cpu.engine != wire::CpuEngine::Off
    }

    /// Reads a thread that has no stack yet.
    fn read(&mut self, tid: u32) {
        let id = self.activities.len() as u32;
        match self.reader.read(tid, u32::MAX - id) {
            Reading::Blocked(stack, activity) => {
                self.activities.insert(stack.id, activity);
                let copied = Box::new(Copied::new(stack));
                self.wait(WaitingSample::Blocked(copied), Needs::default());
            }
            Reading::Running => self.running.push(tid),
            Reading::NotReadable => {
                self.found.insert(tid, Found::nothing(StackEnd::NotReadable));
            }
        }
    }

    fn wait(&mut self, sample: WaitingSample, needs: Needs) {
        // There is no room for more CPU samples than threads have any use for.
        self.unanswered += usize::from(self.waiting.push(sample, needs));
    }

    /// Takes CPU samples of threads that run.
    fn sample(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let mut taken = Vec::new();
        let _ = self.cpu.take(Duration::ZERO, &mut taken);
        for taken in taken {
            match taken {
                Taken::Sample(mut sample) => {
                    if self.cpu.has_inner_tids() {
                        sample.os_tid = self.target.host_tid(sample.os_tid);
                    }
                    if self.no_longer_runs(sample.os_tid) {
                        let copied = Box::new(Copied::new(sample));
                        self.wait(WaitingSample::Cpu(copied), Needs::default());
                    }
                }
                Taken::Mapped(mapping) => self.frames.mapped(mapping),
                Taken::Replaced => self.frames.replaced(),
                Taken::Named { .. } | Taken::Ended { .. } => {}
            }
        }
    }

    /// Whether a thread was one without a stack; it is none from now on.
    fn no_longer_runs(&mut self, tid: u32) -> bool {
        let before = self.running.len();
        self.running.retain(|running| *running != tid);
        self.running.len() < before
    }

    /// Asks what code stands at addresses, and takes the answers.
    fn hear(&mut self) {
        let mut heard = Vec::new();
        match &mut self.code {
            Code::Agent(link) => {
                for message in self.waiting.messages() {
                    if link.send(&message).is_err() {
                        break;
                    }
                }
                link.wait(ROUND);
                while let Some(event) = link.try_next() {
                    let closed = matches!(event, FromAgent::Closed(_));
                    heard.push(event);
                    if closed {
                        break;
                    }
                }
            }
            Code::Reader(reader) => {
                let Needs { executed, guessed } = self.waiting.questions();
                let records: Vec<Record> = executed
                    .into_iter()
                    .chain(guessed)
                    .flat_map(|address| reader.explain(address))
                    .collect();
                heard.push(FromAgent::Frame(records, Vec::new()));
            }
        }
        for event in heard {
            match event {
                FromAgent::Closed(_) => self.closed = true,
                FromAgent::Frame(records, descriptors) => {
                    let mut descriptors = descriptors.into_iter();
                    for record in records {
                        self.record(record, &mut descriptors);
                    }
                }
            }
        }
    }

    fn record(&mut self, record: Record, descriptors: &mut impl Iterator<Item = OwnedFd>) {
        let Self { frames, definitions, target, .. } = self;
        match record {
            Record::Module(module) => frames.module(definitions, module),
            Record::Class(class) => frames.class(class),
            Record::Method(method) => frames.method(definitions, method),
            Record::Code(code) => frames.code(code),
            Record::NotCode(ip) => frames.not_code(ip),
            Record::CodeFreed(start) => {
                frames.freed(start);
                self.waiting.code_freed();
            }
            Record::ThreadStarted(thread) => {
                definitions.update_thread(target.host_tid(thread.os_tid), |known| {
                    known.managed = true;
                    known.name = thread.name.or(known.name.take());
                });
            }
            Record::ThreadNamed { os_tid, name } => {
                let os_tid = target.host_tid(os_tid);
                definitions.update_thread(os_tid, |known| known.name = Some(name));
            }
            Record::Stack(stack) => frames.walked_stack(definitions, &stack),
            Record::CpuSample(sample) => {
                let tid = target.host_tid(sample.os_tid);
                let (stack, truncated) = frames.walked(definitions, Some(sample.stack));
                let end = if truncated { StackEnd::Truncated } else { StackEnd::Complete };
                if self.no_longer_runs(tid) {
                    let found = Found { stack: Some(stack), ..Found::nothing(end) };
                    self.found.insert(tid, found);
                }
            }
            Record::SampleRing(layout) => {
                if let Some(error) =
                    descriptors.next().and_then(|ring| self.cpu.share(ring, layout).err())
                {
                    self.notes.push(format!("running threads cannot be sampled: {error}"));
                }
            }
            Record::EngineFallback { reason } => self.cpu.walk_instead(&reason),
            Record::Log { level, message } if level >= LogLevel::Warning => {
                self.notes.push(message);
            }
            Record::Bye(_) => self.closed = true,
            _ => {}
        }
    }

    /// Unwinds the stacks whose code is known by now; all of them if nothing more is answered.
    fn settle(&mut self, all: bool) {
        for released in self.waiting.release(&mut self.frames, all || self.closed) {
            self.unanswered = self.unanswered.saturating_sub(1);
            let ask = !released.late;
            match released.sample {
                WaitingSample::Blocked(copied) => self.unwind_blocked(copied, ask),
                WaitingSample::Cpu(copied) => self.unwind_running(copied, ask),
                WaitingSample::Event(_) => {}
            }
        }
    }

    fn unwind_blocked(&mut self, mut copied: Box<Copied<wire::BlockedStack>>, ask: bool) {
        match self.frames.whole_stack(&mut self.definitions, &mut copied, ask) {
            Err(needed) => self.wait(WaitingSample::Blocked(copied), needed.into()),
            Ok((stack, end)) => {
                let (tid, id) = (copied.sample.os_tid, copied.sample.id);
                let activity = self.activities.get(&id).copied().unwrap_or(Activity::Unknown);
                let found = Found { stack: Some(stack), end, activity, id: Some(id) };
                self.found.insert(tid, found);
            }
        }
    }

    fn unwind_running(&mut self, mut copied: Box<Copied<TakenSample>>, ask: bool) {
        match self.frames.unwind(&mut self.definitions, &mut copied, ask) {
            Unwound::Needs(needed) => self.wait(WaitingSample::Cpu(copied), needed.into()),
            Unwound::Stack { stack, end, .. } => {
                let found = Found { stack: Some(stack), ..Found::nothing(end) };
                self.found.insert(copied.sample.os_tid, found);
            }
        }
    }

    /// Puts together what was found.
    fn dumped(&mut self, threads: Vec<(u32, u8, u64, i64)>, reading: Duration) -> ThreadDump {
        let time = clock_gettime(ClockId::Boottime);
        let now = time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec);
        let mut found: BTreeMap<u32, (Found, ThreadState)> = BTreeMap::new();
        for (tid, os_state, ..) in &threads {
            let of = self.found.get(tid).copied();
            let of = of.unwrap_or(Found::nothing(StackEnd::NotSampled));
            // A stopped thread that is in no system call is stopped while it runs.
            let state = match (os_state, of.activity) {
                (b'T' | b't', Activity::Unknown) => ThreadState::Running,
                _ => self.state(&of),
            };
            found.insert(*tid, (of, state));
        }
        let named = Named::of(self.definitions.take());
        let threads = threads.into_iter().filter_map(|(tid, os_state, cpu, born)| {
            let (found, state) = found.get(&tid).copied()?;
            let call: Option<wire::BlockedCall> = match found.activity {
                Activity::Call(call) => Some(call),
                Activity::Running | Activity::Unknown => None,
            };
            let (managed, ended) = self.definitions.thread_facts(tid);
            let mut frames: Vec<DumpedFrame> = found
                .stack
                .map(|stack| self.definitions.frames_of(stack).map(|id| named.frame(id.index())))
                .into_iter()
                .flatten()
                .flatten()
                .collect();
            if matches!(found.end, StackEnd::Truncated | StackEnd::CallersNotFound) {
                // A mark that says the same.
                frames.pop();
            }
            (!ended).then(|| DumpedThread {
                os_tid: tid,
                name: self.definitions.thread_name(tid).map(str::to_owned),
                managed,
                os_state: char::from(os_state),
                state,
                call: call.map(|call| call.number),
                limited: call.as_ref().and_then(waits::time_limit),
                cpu: Duration::from_nanos(cpu),
                age: Duration::from_nanos(u64::try_from(now - born).unwrap_or_default()),
                frames,
                end: found.end,
            })
        });
        ThreadDump { threads: threads.collect(), reading, notes: std::mem::take(&mut self.notes) }
    }

    /// What a thread does or waits for.
    fn state(&mut self, found: &Found) -> ThreadState {
        let Found { stack, activity, id, end } = *found;
        let Some(stack) = stack.filter(|_| activity != Activity::Running) else {
            return match end {
                StackEnd::NotReadable => ThreadState::Other,
                _ => ThreadState::Running,
            };
        };
        let call = match activity {
            Activity::Call(call) => Some(call.number),
            Activity::Running | Activity::Unknown => None,
        };
        if self.frames.leaf_names(&self.definitions, stack).next().is_none() {
            return waits::classify_unmanaged(call);
        }
        match waits::classify(self.frames.leaf_names(&self.definitions, stack)) {
            ThreadState::Other => waits::classify_leaf(activity, self.frames.leaf_waits(id)),
            known => known,
        }
    }
}

/// Definitions by their ids, which count up without gaps.
#[derive(Default)]
struct Named {
    modules: Vec<ModuleDef>,
    functions: Vec<FunctionDef>,
    frames: Vec<FrameDef>,
}

impl Named {
    fn of(records: Vec<SessionRecord>) -> Self {
        let mut named = Self::default();
        for record in records {
            match record {
                SessionRecord::Module(module) => named.modules.push(module),
                SessionRecord::Function(function) => named.functions.push(function),
                SessionRecord::Frame(frame) => named.frames.push(frame),
                _ => {}
            }
        }
        named
    }

    fn frame(&self, index: usize) -> Option<DumpedFrame> {
        let frame = self.frames.get(index)?;
        let function = self.functions.get(frame.function.index())?;
        let module = function.module.and_then(|module| self.modules.get(module.index()));
        Some(DumpedFrame {
            kind: function.kind,
            type_name: function.type_name.clone(),
            name: function.name.clone(),
            parameters: function.parameters.clone(),
            module: module.map(|module| module.name.clone()),
            file: frame.line.as_ref().map(|line| line.file.clone()),
            line: frame.line.as_ref().map(|line| line.line),
            guessed: frame.trust == FrameTrust::Scan,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A process without managed code.
    struct Nothing;

    impl CodeReader for Nothing {
        fn explain(&mut self, address: u64) -> Vec<Record> {
            vec![Record::NotCode(address)]
        }
    }

    #[test]
    fn our_own_threads_are_dumped_from_outside() {
        let (send, receive) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("dumped".to_owned()).spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = wait.recv();
        });
        let tid = receive.recv().unwrap();
        // It takes a moment from what it told to its wait.
        std::thread::sleep(Duration::from_millis(50));
        let dump = dump_outside(std::process::id(), &mut Nothing).unwrap();
        drop(go);
        thread.unwrap().join().unwrap();
        let find = |tid: u32| dump.threads.iter().find(|thread| thread.os_tid == tid).unwrap();
        let waiting = find(tid);
        assert_eq!(waiting.name.as_deref(), Some("dumped"));
        assert_eq!((waiting.os_state, waiting.state), ('S', ThreadState::Idle));
        assert_eq!((waiting.limited, waiting.managed), (Some(false), false));
        assert_eq!(waiting.end, StackEnd::Complete, "{waiting:#?}");
        assert!(waiting.frames.len() > 3, "{waiting:#?}");
        assert!(waiting.frames.iter().all(|frame| !frame.is_managed() && !frame.guessed));
        let has = |name: &str| waiting.frames.iter().any(|frame| frame.name.contains(name));
        assert!(has("recv") && has("thread_start"), "{waiting:#?}");
        assert!(waiting.age < Duration::from_secs(60), "{waiting:#?}");
    }

    #[test]
    fn a_process_that_has_ended_is_not_dumped() {
        let dump = dump_outside(1 << 22, &mut Nothing);
        assert!(matches!(dump, Err(RecordError::Exited { .. })), "{dump:?}");
    }
}
