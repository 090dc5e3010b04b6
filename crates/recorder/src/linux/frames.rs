//! From addresses to frames: unwinds copied stacks, and names what stands at an address.

mod events;
mod threads;

pub(super) use self::events::EventMethod;

use self::threads::Leaf;
use super::{cpu::TakenSample, define::Definitions, names::Names, target::Target};
use crate::StackEnd;
use session::{AsyncStateMachine, FrameId, FrameTrust, FunctionKind, StackId};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use unwind::{
    Frame, FrameCode, LiveProcess, Needed, Outcome, Progress, Sample, Stack, Unknown, Unwinder,
};
use wire::{Class, Code, Machine, Method, Module, RuntimeWorkKind};

/// Most addresses of which it is remembered that the agent has not answered.
const MOST_UNANSWERED: usize = 1 << 16;

/// A copied stack, and how far it was unwound before the agent had to be asked.
pub(super) struct Copied<S> {
    pub sample: S,
    progress: Progress,
}

impl<S> Copied<S> {
    pub fn new(sample: S) -> Self {
        Self { sample, progress: Progress::default() }
    }
}

/// What became of a sample.
pub(super) enum Unwound {
    /// The agent has to say first what stands at these addresses.
    Needs(Needed),
    /// Its stack.
    Stack {
        stack: StackId,
        /// How it ends; where that is not at its root, a mark of that is its outermost frame.
        end: StackEnd,
        /// Whether the leaf is native code of the runtime.
        runtime_leaf: bool,
    },
}

/// What a frame looks like depends on these alone, so that frames are named once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FrameKey {
    lookup: u64,
    trust: FrameTrust,
    code: FrameCode,
}

/// Unwinds, names, and remembers both.
pub(super) struct Frames {
    unwinder: Unwinder,
    names: Names,
    cache: HashMap<FrameKey, FrameId>,
    /// Stacks that the agent walked, by its ids.
    walked: HashMap<u32, (StackId, bool)>,
    /// The innermost managed frames of these.
    leaves: HashMap<u32, Leaf>,
    /// Stacks of events, by their addresses.
    of_events: HashMap<Arc<[u64]>, (StackId, bool)>,
    /// Stacks in which the runtime's work is named, by the stack in which it is not.
    worked: HashMap<(StackId, RuntimeWorkName), StackId>,
    marks: Marks,
    /// See [`Self::give_up`].
    unanswered: HashSet<u64>,
    /// Stacks of blocked threads whose managed frames are not known.
    unread: u64,
    /// Whether equal frames that follow each other are kept, as of recursive methods.
    keeps_repeated: bool,
}

/// [`RuntimeWorkKind`] as a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum RuntimeWorkName {
    Gc,
    Jit,
}

/// Roots that say why a stack ends there.
#[derive(Default)]
struct Marks {
    truncated: Option<FrameId>,
    broken: Option<FrameId>,
    unread: Option<FrameId>,
}

impl Frames {
    pub fn new(target: &Target) -> Self {
        Self {
            unwinder: Unwinder::new(LiveProcess::new(target.pid)),
            names: Names::new(target.pid),
            cache: HashMap::new(),
            walked: HashMap::new(),
            leaves: HashMap::new(),
            of_events: HashMap::new(),
            worked: HashMap::new(),
            marks: Marks::default(),
            unanswered: HashSet::new(),
            unread: 0,
            keeps_repeated: false,
        }
    }

    /// Stacks with all their frames, also those that are equal to the one before.
    pub fn of_every_frame(target: &Target) -> Self {
        Self { keeps_repeated: true, ..Self::new(target) }
    }

    pub fn module(&mut self, definitions: &mut Definitions, module: Module) {
        self.names.module(definitions, module);
    }

    pub fn class(&mut self, class: Class) {
        self.names.class(class);
    }

    /// An asynchronous method, with the lines where it waits.
    pub fn machine(&mut self, machine: Machine) -> AsyncStateMachine {
        self.names.machine(machine)
    }

    pub fn class_name(&self, class: u32) -> String {
        self.names.class_name(class)
    }

    pub fn method(&mut self, definitions: &mut Definitions, method: Method) {
        self.names.method(definitions, method);
    }

    pub fn function_of(&self, method: u32) -> Option<session::FunctionId> {
        self.names.function_of(method)
    }

    pub fn code(&mut self, code: Code) {
        if let Some(version) = self.unwinder.code_mut().insert(&code) {
            self.names.code(version, code.il_map);
        }
    }

    /// No managed code stands at this address, the agent says.
    pub fn not_code(&mut self, address: u64) {
        self.unanswered.remove(&address);
        if !self.knows(address) {
            self.unwinder.code_mut().insert_not_code(address);
        }
    }

    /// The agent did not say in time what stands at this address. It is taken for no code until an
    /// answer comes.
    pub fn give_up(&mut self, address: u64) {
        if !self.knows(address) {
            if self.unanswered.len() >= MOST_UNANSWERED {
                self.unanswered.clear();
            }
            self.unanswered.insert(address);
            self.unwinder.code_mut().insert_not_code(address);
        }
    }

    /// Whether the managed frames of a stack may be missing, because the agent has not said what
    /// stands at an address of it.
    fn is_unanswered(&self, frame: &Frame) -> bool {
        match self.unwinder.code().lookup(frame.lookup) {
            unwind::Lookup::Unknown => frame.code == FrameCode::Unknown,
            _ => frame.code == FrameCode::Stub && self.unanswered.contains(&frame.lookup),
        }
    }

    /// Whether it is known what stands at an address.
    pub fn knows(&self, address: u64) -> bool {
        self.unwinder.code().lookup(address) != unwind::Lookup::Unknown
    }

    /// Code was freed; other code may come to stand there.
    pub fn freed(&mut self, start: u64) {
        self.unwinder.code_mut().remove(start);
        self.of_events.clear();
        // Cached frames are keyed by code version, which does not come again; only addresses
        // without code are not.
        self.cache
            .retain(|key, _| matches!(key.code, FrameCode::Managed { .. } | FrameCode::Native));
    }

    /// The target has mapped executable memory.
    pub fn mapped(&mut self, mapping: unwind::Mapping) {
        self.unwinder.add_mapping(mapping);
    }

    /// The target has replaced its program.
    pub fn replaced(&mut self) {
        self.unwinder.refresh();
        self.cache.clear();
    }

    /// Unwinds a sample, from where that stopped before. `ask` is off when the agent cannot say
    /// more.
    pub fn unwind(
        &mut self,
        definitions: &mut Definitions,
        copied: &mut Copied<TakenSample>,
        ask: bool,
    ) -> Unwound {
        let unknown = if ask { Unknown::Ask } else { Unknown::Guess };
        let Copied { sample, progress } = copied;
        let stack = Sample { registers: &sample.registers, stack: &sample.stack };
        let callers = &sample.callers;
        let (found, end) = match self.unwinder.unwind_further(&stack, callers, unknown, progress) {
            Outcome::NeedCode(needed) => return Unwound::Needs(needed),
            Outcome::Complete(found) => (found, StackEnd::Complete),
            Outcome::Truncated(found) => (found, StackEnd::Truncated),
            Outcome::Broken(found, _) => (found, StackEnd::CallersNotFound),
        };
        let leaf = found.frames.first().map(|frame| self.frame(definitions, frame));
        let runtime_leaf =
            leaf.is_some_and(|leaf| self.kind(definitions, leaf) == FunctionKind::Runtime);
        let mark = self.end_mark(definitions, end);
        let stack = self.named_stack(definitions, &found, mark);
        Unwound::Stack { stack, end, runtime_leaf }
    }

    /// A stack with all its frames, below a mark if there is one.
    fn named_stack(
        &mut self,
        definitions: &mut Definitions,
        found: &Stack,
        mark: Option<FrameId>,
    ) -> StackId {
        let mut frames: Vec<FrameId> = mark.into_iter().collect();
        for frame in found.frames.iter().rev() {
            let frame = self.frame(definitions, frame);
            // Native code without symbols has one name for a whole module: once is enough.
            if self.keeps_repeated || frames.last() != Some(&frame) {
                frames.push(frame);
            }
        }
        definitions.stack(frames)
    }

    fn truncated_mark(&mut self, definitions: &mut Definitions) -> FrameId {
        *self
            .marks
            .truncated
            .get_or_insert_with(|| mark(definitions, "[deeper than the copied stack]"))
    }

    fn broken_mark(&mut self, definitions: &mut Definitions) -> FrameId {
        *self.marks.broken.get_or_insert_with(|| mark(definitions, "[callers not found]"))
    }

    /// Stands for a stack that could not be read.
    fn unread_mark(&mut self, definitions: &mut Definitions) -> FrameId {
        *self.marks.unread.get_or_insert_with(|| mark(definitions, "[stack not read]"))
    }

    /// Whether this is the stack of a thread that could not be read.
    pub fn is_unread(&self, definitions: &Definitions, stack: StackId) -> bool {
        self.marks.unread.is_some_and(|mark| definitions.frames_of(stack).eq([mark]))
    }

    /// Stacks of blocked threads that could not be read since this was last asked.
    pub fn take_unread(&mut self) -> u64 {
        std::mem::take(&mut self.unread)
    }

    fn kind(&self, definitions: &Definitions, frame: FrameId) -> FunctionKind {
        let function = definitions.frame_function(frame);
        function
            .and_then(|id| definitions.function_facts(id))
            .map_or(FunctionKind::Unknown, |facts| facts.kind)
    }

    fn frame(&mut self, definitions: &mut Definitions, frame: &Frame) -> FrameId {
        let key = FrameKey { lookup: frame.lookup, trust: frame.trust, code: frame.code };
        if let Some(known) = self.cache.get(&key) {
            return *known;
        }
        let named = self.name(definitions, frame);
        self.cache.insert(key, named);
        named
    }

    fn name(&mut self, definitions: &mut Definitions, frame: &Frame) -> FrameId {
        let trust = frame.trust;
        match frame.code {
            FrameCode::Managed { method, version, offset } => {
                let (function, line) = self.names.managed(definitions, method, version, offset);
                definitions.frame(function, line, trust)
            }
            FrameCode::Native => {
                let location = self.unwinder.locate(frame.lookup);
                let function = self.names.native(definitions, location.as_ref());
                definitions.frame(function, None, trust)
            }
            FrameCode::Stub => {
                let function = definitions.named(FunctionKind::Stub, "[runtime stub]", None);
                definitions.frame(function, None, trust)
            }
            FrameCode::Unknown => {
                let function = definitions.named(FunctionKind::Unknown, "[unknown]", None);
                definitions.frame(function, None, trust)
            }
        }
    }

    /// The same stack with the runtime's frames at its leaf named as what they did.
    pub fn name_runtime_work(
        &mut self,
        definitions: &mut Definitions,
        stack: StackId,
        work: RuntimeWorkKind,
    ) -> StackId {
        let (name, kind, label) = match work {
            RuntimeWorkKind::Gc => (RuntimeWorkName::Gc, FunctionKind::Gc, "[garbage collector]"),
            RuntimeWorkKind::Jit => (RuntimeWorkName::Jit, FunctionKind::Jit, "[JIT compiler]"),
            RuntimeWorkKind::Suspended => return stack,
        };
        if let Some(known) = self.worked.get(&(stack, name)) {
            return *known;
        }
        let mut frames: Vec<FrameId> = definitions.frames_of(stack).collect();
        // From the leaf, the run of frames of the runtime, as far as they have no better name.
        let run = frames
            .iter()
            .take_while(|frame| self.kind(definitions, **frame) == FunctionKind::Runtime)
            .count();
        let mut named: Vec<FrameId> = Vec::with_capacity(frames.len());
        for (index, frame) in frames.drain(..).enumerate() {
            let facts = definitions
                .frame_function(frame)
                .and_then(|id| definitions.function_facts(id))
                .cloned();
            let frame = match facts {
                Some(facts) if index < run => {
                    let text = if facts.name.starts_with('[') { label } else { &facts.name };
                    let function = definitions.named(kind, text, facts.module);
                    definitions.frame(function, None, FrameTrust::Tables)
                }
                _ => frame,
            };
            if named.last() != Some(&frame) {
                named.push(frame);
            }
        }
        named.reverse();
        let result = definitions.stack(named);
        self.worked.insert((stack, name), result);
        result
    }

    /// What the unwinder counted.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.unwinder.counters();
        let mut all = vec![
            ("stacks complete".to_owned(), counters.complete),
            ("stacks truncated".to_owned(), counters.truncated),
            ("frames by exact tables".to_owned(), counters.frames_by_tables),
            ("frames by learned rules".to_owned(), counters.frames_learned),
            ("frames by search".to_owned(), counters.frames_scanned),
            ("frames left without their register".to_owned(), counters.frames_without_register),
        ];
        let broken = counters.broken.iter();
        all.extend(
            broken.map(|(reason, count)| (format!("stacks broken: {}", reason.name()), *count)),
        );
        all
    }
}

/// A frame that says why a stack ends there.
fn mark(definitions: &mut Definitions, text: &str) -> FrameId {
    let function = definitions.named(FunctionKind::Unknown, text, None);
    definitions.frame(function, None, FrameTrust::Context)
}
