//! Managed stacks of all threads, by a short recording.

use crate::wait_kind::doing;
use diagnostics::DotnetProcess;
use profilers::Selection;
use recorder::{AgentFile, EngineChoice, RecordError, RecordOptions, StopHandle};
use schemars::JsonSchema;
use serde::Serialize;
use session::{
    FrameDef, FunctionDef, SessionRecord, StackDef, StackId, ThreadId, ThreadSnapshot, ThreadState,
};
use std::{
    collections::HashMap,
    sync::mpsc,
    time::{Duration, Instant},
};

/// Each of its snapshots walks all threads; the first one is enough.
const PROFILER: &str = "threads";

/// Deeper stacks are cut behind this many frames.
const DEEPEST: usize = 256;

/// A managed frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Frame {
    /// Type, method and parameters as the programmer wrote them.
    pub name: String,
    /// Source file, where symbols tell.
    pub file: Option<String>,
    /// Line in it, from 1.
    pub line: Option<u32>,
}

/// What one thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStack {
    /// Its name.
    pub name: Option<String>,
    /// What it does, roughly.
    pub state: ThreadState,
    /// The wait that it is in as a programmer calls it (`SemaphoreSlim`, `Task.Wait`), else words
    /// for what it does.
    pub doing: &'static str,
    /// Frames from the leaf to the root.
    pub frames: Vec<Frame>,
}

/// Stacks by thread id of the operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// One for each thread that has run managed code.
    pub threads: HashMap<u32, ThreadStack>,
}

/// Why there are no stacks.
#[derive(Debug, thiserror::Error)]
pub enum StacksError {
    /// It cannot be attached to.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The runtime did not load the agent, or did not stop its threads for us, in time.
    #[error("the runtime returned no stacks within {} s", .0.as_secs_f64())]
    Late(Duration),
}

impl Stacks {
    /// Attaches, takes one snapshot of all threads, and detaches. Never takes longer than `limit`
    /// plus a moment: when that is over, the recording is left to itself and the agent detaches by
    /// itself as soon as this program ends. `begun` gets a handle that ends it before.
    ///
    /// # Errors
    /// When the process cannot be attached to, or its runtime does not answer in time.
    pub fn take(
        process: &DotnetProcess,
        agent: AgentFile,
        limit: Duration,
        begun: impl FnOnce(StopHandle) + Send + 'static,
    ) -> Result<Self, StacksError> {
        let until = Instant::now() + limit;
        let options = RecordOptions {
            profilers: Selection::parse_list(PROFILER).unwrap_or_default(),
            rate_hz: 100,
            engine: EngineChoice::Auto,
            duration: Some(limit),
            output: None,
            instrument: None,
            live: true,
            sdk_tools: false,
            agent,
        };
        let process = process.clone();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let taken = Self::record(&process, options, until, begun);
            // Nobody listens any more when the limit is over.
            let _ = sender.send(taken);
        });
        match receiver.recv_timeout(limit) {
            Ok(taken) => Ok(taken?).and_then(|taken| match taken.threads.is_empty() {
                true => Err(StacksError::Late(limit)),
                false => Ok(taken),
            }),
            Err(_) => Err(StacksError::Late(limit)),
        }
    }

    fn record(
        process: &DotnetProcess,
        options: RecordOptions,
        until: Instant,
        begun: impl FnOnce(StopHandle),
    ) -> Result<Self, RecordError> {
        let mut recording = recorder::attach(process, options)?;
        let mut collected = Collected::default();
        let stop = recording.stop_handle();
        begun(stop.clone());
        if let Some(stream) = recording.subscribe() {
            // The limit is for a recording that does not end on request.
            while let Ok(Some(record)) =
                stream.next_timeout(until.saturating_duration_since(Instant::now()))
            {
                if collected.take(record) {
                    stop.stop();
                }
            }
        }
        stop.stop();
        // The agent leaves in order.
        recording.finishes_within(until.saturating_duration_since(Instant::now()));
        Ok(collected.stacks())
    }
}

/// Definitions by their ids, which count up without gaps, and the stack of each thread that has
/// one.
#[derive(Default)]
struct Collected {
    /// Managed ones.
    threads: HashMap<ThreadId, (u32, Option<String>)>,
    functions: Vec<FunctionDef>,
    frames: Vec<FrameDef>,
    stacks: Vec<StackDef>,
    looked_at: Option<ThreadSnapshot>,
}

impl Collected {
    /// Whether this was what was waited for.
    fn take(&mut self, record: SessionRecord) -> bool {
        match record {
            SessionRecord::Thread(thread) if thread.managed => {
                self.threads.insert(thread.id, (thread.os_tid, thread.name));
            }
            SessionRecord::Function(function) => self.functions.push(function),
            SessionRecord::Frame(frame) => self.frames.push(frame),
            SessionRecord::Stack(stack) => self.stacks.push(stack),
            SessionRecord::ThreadSnapshot(look) => {
                self.looked_at = Some(look);
                return true;
            }
            _ => {}
        }
        false
    }

    fn stacks(&self) -> Stacks {
        let seen = self.looked_at.iter().flat_map(|look| &look.threads);
        let threads = seen.filter_map(|seen| {
            let (os_tid, name) = self.threads.get(&seen.thread)?;
            let (functions, state) = (self.functions(seen.stack), seen.state);
            let named = functions
                .iter()
                .map(|(function, _)| (function.type_name.as_str(), function.name.as_str()));
            let doing = doing(state, named);
            let frames = functions.iter().map(|(function, frame)| Frame {
                name: match function.type_name.is_empty() {
                    true => format!("{}{}", function.name, function.parameters),
                    false => {
                        format!("{}.{}{}", function.type_name, function.name, function.parameters)
                    }
                },
                file: frame.line.as_ref().map(|line| line.file.clone()),
                line: frame.line.as_ref().map(|line| line.line),
            });
            Some((
                *os_tid,
                ThreadStack { name: name.clone(), state, doing, frames: frames.collect() },
            ))
        });
        Stacks { threads: threads.collect() }
    }

    /// Functions and frames of a stack, from the leaf on.
    fn functions(&self, stack: StackId) -> Vec<(&FunctionDef, &FrameDef)> {
        let mut functions = Vec::new();
        let mut next = Some(stack);
        while let Some(stack) = next.and_then(|stack| self.stacks.get(stack.index())) {
            let Some(frame) = self.frames.get(stack.frame.index()) else { break };
            let Some(function) = self.functions.get(frame.function.index()) else { break };
            functions.push((function, frame));
            if functions.len() >= DEEPEST {
                break;
            }
            next = stack.parent;
        }
        functions
    }
}
