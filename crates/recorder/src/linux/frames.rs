//! From addresses to frames: unwinds copied stacks, and names what stands at an address.

use super::{cpu::TakenSample, define::Definitions, names::Names, target::Target};
use session::{AsyncStateMachine, FrameId, FrameTrust, FunctionKind, StackId};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use symbols::LeafWaits;
use unwind::{
    BlockedSample, Frame, FrameCode, LiveProcess, Needed, Outcome, Sample, Trust, Unknown, Unwinder,
};
use wire::{Class, Code, Machine, Method, MethodKind, Module, RuntimeWorkKind};

/// Most frames of an event's stack: the runtime gives no more (`EP_MAX_STACK_DEPTH`).
const MOST_EVENT_FRAMES: usize = 100;

/// Most stacks of events that are remembered: about 50 MB of them.
const MOST_EVENT_STACKS: usize = 1 << 16;

/// Most addresses of which it is remembered that the agent has not answered.
const MOST_UNANSWERED: usize = 1 << 16;

/// The type of the base library that writes events of the runtime for what is managed code since
/// .NET 9.
const EVENT_WRITER: &str = "System.Diagnostics.Tracing.NativeRuntimeEventSource";

/// Types that are the lock which such an event is about, and types nested in them.
const LOCKS: [&str; 3] =
    ["System.Threading.Lock", "System.Threading.Monitor", "System.Threading.ObjectHeader"];

/// What became of a sample.
pub(super) enum Unwound {
    /// The agent has to say first what stands at these addresses.
    Needs(Needed),
    /// Its stack.
    Stack {
        stack: StackId,
        truncated: bool,
        /// Whether the leaf is native code of the runtime.
        runtime_leaf: bool,
    },
}

/// What an event says of a method, in the form that clrscope writes names.
pub(super) struct EventMethod {
    pub dynamic: bool,
    pub type_name: String,
    pub name: String,
    pub parameters: String,
}

/// What a frame looks like depends on these alone, so that frames are named once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FrameKey {
    lookup: u64,
    trust: Trust,
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
}

/// The innermost managed frame of a stack that the agent walked.
struct Leaf {
    method: u32,
    version: u32,
    /// Where in its code.
    offset: u32,
    /// Whether it is in a call of native code, through a stub.
    in_stub: bool,
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
        }
    }

    // What the agent tells

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

    // Samples

    /// Unwinds a sample. `ask` is off when the agent cannot say more.
    pub fn unwind(
        &mut self,
        definitions: &mut Definitions,
        sample: &TakenSample,
        ask: bool,
    ) -> Unwound {
        let unknown = if ask { Unknown::Ask } else { Unknown::Guess };
        let stack = Sample { registers: &sample.registers, stack: &sample.stack };
        let (stack, truncated, mark) = match self.unwinder.unwind(&stack, unknown) {
            Outcome::NeedCode(needed) => return Unwound::Needs(needed),
            Outcome::Complete(stack) => (stack, false, None),
            Outcome::Truncated(stack) => (stack, true, Some(self.truncated_mark(definitions))),
            Outcome::Broken(stack, _) => (stack, false, Some(self.broken_mark(definitions))),
        };
        let leaf = stack.frames.first().map(|frame| self.frame(definitions, frame));
        let runtime_leaf =
            leaf.is_some_and(|leaf| self.kind(definitions, leaf) == FunctionKind::Runtime);
        let mut frames: Vec<FrameId> = mark.into_iter().collect();
        for frame in stack.frames.iter().rev() {
            let frame = self.frame(definitions, frame);
            // Native code without symbols has one name for a whole module: once is enough.
            if frames.last() != Some(&frame) {
                frames.push(frame);
            }
        }
        Unwound::Stack { stack: definitions.stack(frames), truncated, runtime_leaf }
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
        let trust = match frame.trust {
            Trust::Context => FrameTrust::Context,
            Trust::Tables => FrameTrust::Tables,
            Trust::Learned => FrameTrust::Learned,
            Trust::Scan => FrameTrust::Scan,
        };
        let named = self.name(definitions, frame, trust);
        self.cache.insert(key, named);
        named
    }

    fn name(&mut self, definitions: &mut Definitions, frame: &Frame, trust: FrameTrust) -> FrameId {
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

    // Stacks walked by the agent

    pub fn walked_stack(&mut self, definitions: &mut Definitions, stack: &wire::Stack) {
        let mut frames: Vec<FrameId> = Vec::with_capacity(stack.ips.len() + 1);
        if stack.truncated {
            frames.push(self.truncated_mark(definitions));
        }
        for (index, ip) in stack.ips.iter().enumerate().rev() {
            let lookup = if index == 0 { *ip } else { ip.saturating_sub(1) };
            let mut code = self.unwinder.classify(lookup);
            if !matches!(code, FrameCode::Managed { .. }) {
                // The first instruction of a method is interrupted there, not called from there.
                code = self.unwinder.classify(*ip);
            }
            let frame = Frame { ip: *ip, lookup, trust: Trust::Tables, code };
            frames.push(self.name(definitions, &frame, FrameTrust::Runtime));
        }
        let id = definitions.stack(frames);
        self.walked.insert(stack.id, (id, stack.truncated));
        if let Some(leaf) = self.leaf(&stack.ips) {
            self.leaves.insert(stack.id, leaf);
        }
    }

    /// The innermost managed frame, through stubs that lead to native code.
    fn leaf(&mut self, ips: &[u64]) -> Option<Leaf> {
        let mut in_stub = false;
        for ip in ips {
            // A thread that waits has called something: the address is the one behind the call.
            let FrameCode::Managed { method, version, offset } =
                self.unwinder.classify(ip.saturating_sub(1))
            else {
                return None;
            };
            if !self.names.is_stub(method) {
                return Some(Leaf { method, version, offset, in_stub });
            }
            in_stub = true;
        }
        None
    }

    // Stacks of blocked threads

    /// Unwinds the stack of a blocked thread: its managed frames, as a walk by the runtime gives
    /// them. They stand under its id like a stack that the agent walked. Says whether it was cut,
    /// or what must be known first; `ask` is off when the agent cannot say more.
    pub fn blocked_stack(
        &mut self,
        definitions: &mut Definitions,
        stack: &wire::BlockedStack,
        ask: bool,
    ) -> Result<bool, Needed> {
        let unknown = if ask { Unknown::Ask } else { Unknown::Guess };
        let sample = BlockedSample { ip: stack.ip, sp: stack.sp, stack: &stack.bytes };
        let (found, truncated, mark) = match self.unwinder.unwind_blocked(&sample, unknown) {
            Outcome::NeedCode(needed) => return Err(needed),
            Outcome::Complete(found) => (found, false, None),
            Outcome::Truncated(found) => (found, true, Some(self.truncated_mark(definitions))),
            Outcome::Broken(found, _) => (found, false, Some(self.broken_mark(definitions))),
        };
        let (mut leaf, mut in_stub) = (None, false);
        let mut managed: Vec<FrameId> = Vec::new();
        for frame in &found.frames {
            let FrameCode::Managed { method, version, offset } = frame.code else { continue };
            if self.names.is_stub(method) {
                in_stub |= leaf.is_none();
                continue;
            }
            leaf.get_or_insert(Leaf { method, version, offset, in_stub });
            managed.push(self.frame(definitions, frame));
        }
        if leaf.is_none() && found.frames.iter().any(|frame| self.is_unanswered(frame)) {
            self.unread += 1;
            managed.push(self.unread_mark(definitions));
        }
        // A thread of native code shows nothing: why its walk has ended says nothing either.
        managed.extend(mark.filter(|_| leaf.is_some()));
        managed.reverse();
        self.walked.insert(stack.id, (definitions.stack(managed), truncated));
        if let Some(leaf) = leaf {
            self.leaves.insert(stack.id, leaf);
        }
        Ok(truncated)
    }

    /// The stack of a blocked thread is not named any more.
    pub fn forget_blocked(&mut self, id: u32) {
        self.walked.remove(&id);
        self.leaves.remove(&id);
    }

    // Stacks of events

    /// Those of the addresses of an event's stack of which it is not known what stands there.
    pub fn unknown_of(&self, ips: &[u64]) -> Vec<u64> {
        if self.of_events.contains_key(ips) {
            return Vec::new();
        }
        ips.iter().map(|ip| ip.saturating_sub(1)).filter(|lookup| !self.knows(*lookup)).collect()
    }

    /// The method whose code stands at an address, if its metadata token is this one: code may have
    /// been freed, and other code may stand there now.
    pub fn method_at(&mut self, address: u64, token: u32) -> Option<session::FunctionId> {
        match self.unwinder.classify(address) {
            FrameCode::Managed { method, .. } => self.names.function_with_token(method, token),
            FrameCode::Native | FrameCode::Stub | FrameCode::Unknown => None,
        }
    }

    /// A method by what an event says of it, for where the agent cannot say more.
    pub fn method_of_event(
        &mut self,
        definitions: &mut Definitions,
        of: &EventMethod,
    ) -> session::FunctionId {
        let method = Method {
            id: 0,
            module: None,
            token: 0,
            kind: match of.dynamic {
                true if of.name.starts_with("IL_STUB") => MethodKind::IlStub,
                true => MethodKind::Dynamic,
                false => MethodKind::Normal,
            },
            // The runtime calls the type of all dynamic methods so.
            type_name: if of.dynamic { String::new() } else { of.type_name.clone() },
            name: of.name.clone(),
            parameters: of.parameters.clone(),
        };
        self.names.define(definitions, None, method)
    }

    /// The stack of an event, with what the event is about as its leaf. Without callers `alone` is
    /// what called it.
    pub fn event_stack_of(
        &mut self,
        definitions: &mut Definitions,
        ips: &Arc<[u64]>,
        leaf: session::FunctionId,
        alone: &str,
    ) -> (StackId, bool) {
        let (caller, truncated) = match ips.is_empty() {
            true => {
                let function = definitions.named(FunctionKind::Runtime, alone, None);
                let frame = definitions.frame(function, None, FrameTrust::Runtime);
                (definitions.stack([frame]), false)
            }
            false => self.event_stack(definitions, ips),
        };
        let frame = definitions.frame(leaf, None, FrameTrust::Runtime);
        (definitions.called(caller, frame), truncated)
    }

    /// The stack of an event. All of its addresses are return addresses: the leaf has called the
    /// runtime.
    pub fn event_stack(
        &mut self,
        definitions: &mut Definitions,
        ips: &Arc<[u64]>,
    ) -> (StackId, bool) {
        if let Some(known) = self.of_events.get(ips) {
            return *known;
        }
        let truncated = ips.len() >= MOST_EVENT_FRAMES;
        let mut frames: Vec<FrameId> = Vec::with_capacity(ips.len() + 1);
        if truncated {
            frames.push(self.truncated_mark(definitions));
        }
        let marks = frames.len();
        for ip in ips.iter().rev() {
            let lookup = ip.saturating_sub(1);
            let code = self.unwinder.classify(lookup);
            let frame = Frame { ip: *ip, lookup, trust: Trust::Tables, code };
            frames.push(self.name(definitions, &frame, FrameTrust::Runtime));
        }
        let facts = frames.iter().skip(marks).rev().map(|frame| {
            let facts = definitions.function_facts(definitions.frame_function(*frame)?)?;
            Some((facts.kind, facts.type_name.as_str(), facts.name.as_str()))
        });
        let writer = frames_of_event_writer(
            &facts
                .map(|facts| facts.unwrap_or((FunctionKind::Unknown, "", "")))
                .collect::<Vec<_>>(),
        );
        frames.truncate(frames.len() - writer);
        let stack = (definitions.stack(frames), truncated);
        if self.of_events.len() >= MOST_EVENT_STACKS {
            self.of_events.clear();
        }
        self.of_events.insert(Arc::clone(ips), stack);
        stack
    }

    /// A stack that the agent walked; threads without managed frames have the stack without frames.
    pub fn walked(&self, definitions: &mut Definitions, id: Option<u32>) -> (StackId, bool) {
        match id.and_then(|id| self.walked.get(&id)) {
            Some(known) => *known,
            None => (definitions.stack([]), false),
        }
    }

    /// Type and method of the managed frames from the leaf on.
    pub fn leaf_names<'a>(
        &self,
        definitions: &'a Definitions,
        stack: StackId,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        definitions
            .frames_of(stack)
            .filter_map(|frame| definitions.function_facts(definitions.frame_function(frame)?))
            .filter(|facts| matches!(facts.kind, FunctionKind::Managed | FunctionKind::Dynamic))
            .map(|facts| (facts.type_name.as_str(), facts.name.as_str()))
    }

    /// What the innermost managed method of a stack that the agent walked can wait for without a
    /// frame of its own; `None` where its IL cannot be read. A stub between it and native code says
    /// that it called that.
    pub fn leaf_waits(&mut self, walked: Option<u32>) -> Option<LeafWaits> {
        let leaf = self.leaves.get(&walked?)?;
        let waits = self.names.leaf_waits(leaf.method, leaf.version, leaf.offset);
        if leaf.in_stub {
            Some(LeafWaits { native: true, ..waits.unwrap_or_default() })
        } else {
            waits
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

/// How many frames, from the leaf on, only write an event, of kind, type and method of all frames:
/// those of the event writer, and those of the lock that called it. All that is known of the event
/// happened to their caller. An event that native code writes has none.
fn frames_of_event_writer(frames: &[(FunctionKind, &str, &str)]) -> usize {
    // The writer calls the runtime through a stub. What listens to events is a method of the writer
    // too, and not one of these.
    let is_stub = |(kind, ..): &(FunctionKind, &str, &str)| *kind == FunctionKind::Stub;
    let writes =
        |(_, ty, name): &(FunctionKind, &str, &str)| *ty == EVENT_WRITER && *name != "ProcessEvent";
    let is_lock = |(_, ty, _): &(FunctionKind, &str, &str)| {
        LOCKS.iter().any(|lock| {
            ty.strip_prefix(lock).is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
        })
    };
    let stubs = frames.iter().take_while(|frame| is_stub(frame)).count();
    let writers = frames.iter().skip(stubs).take_while(|frame| writes(frame)).count();
    if writers == 0 {
        return 0;
    }
    let locks = frames.iter().skip(stubs + writers).take_while(|frame| is_lock(frame)).count();
    let all = stubs + writers + locks;
    // A stack without any other frame is better than none.
    if all < frames.len() { all } else { 0 }
}

/// A frame that says why a stack ends there.
fn mark(definitions: &mut Definitions, text: &str) -> FrameId {
    let function = definitions.named(FunctionKind::Unknown, text, None);
    definitions.frame(function, None, FrameTrust::Context)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks as .NET 9.0.5 gave them with its events.
    #[test]
    fn the_event_writer_and_its_lock_are_left_out() {
        use FunctionKind::{Dynamic, Managed, Stub};
        let writer = (Managed, EVENT_WRITER, "ContentionStart");
        let lock = |name| (Managed, "System.Threading.Lock", name);
        let slow =
            [writer, lock("TryEnterSlow"), lock("EnterAndGetCurrentThreadId"), lock("EnterScope")];
        let callers = [(Managed, "Tickets", "Sell"), (Dynamic, "", "lambda_method3")];
        let with_lock = [&slow[..], &callers].concat();
        assert_eq!(frames_of_event_writer(&with_lock), 4);
        // The runtime compiles the stub between the writer and native code for each program.
        let stub = (Stub, "", "IL_STUB_PInvoke");
        assert_eq!(frames_of_event_writer(&[&[stub][..], &with_lock].concat()), 5);
        let nested = (Managed, "System.Threading.Lock+Scope", "Dispose");
        assert_eq!(frames_of_event_writer(&[&[writer, nested][..], &callers].concat()), 2);
        // Events of native code: nothing is left out, also where a lock is the leaf.
        assert_eq!(frames_of_event_writer(&callers), 0);
        assert_eq!(frames_of_event_writer(&with_lock[1..]), 0);
        assert_eq!(frames_of_event_writer(&[(Managed, "System.Threading.Locker", "Enter")]), 0);
        // A listener is called by the same type, and is no event.
        let listens = [(Managed, EVENT_WRITER, "ProcessEvent"), (Managed, "Shop", "Listen")];
        assert_eq!(frames_of_event_writer(&listens), 0);
        // There is nothing else to show.
        assert_eq!(frames_of_event_writer(&slow), 0);
        assert_eq!(frames_of_event_writer(&[]), 0);
    }
}
