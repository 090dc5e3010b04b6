use std::collections::{BTreeMap, HashSet};

use crate::arch::{self, LeafReturn, Registers};
use crate::call_frames::{CallFrames, NativeStep};
use crate::code_map::CodeMap;
use crate::context::{Context, StepError};
use crate::maps::Mapping;
use crate::modules::{Modules, NativeLocation, Region};
use crate::stack::{ReadError, StackBytes};
use crate::target::Target;

/// How many words of the stack a search for a return address looks at.
const SCANNED_WORDS: usize = 512;
/// How many words of it a search for what the runtime notes of a call looks at: frames of native
/// code can be large.
const NOTE_WORDS: usize = 2048;
/// How many addresses one [`Outcome::NeedCode`] asks for at most.
const MOST_ADDRESSES: usize = 1024;
/// Entries of the cache of return addresses, a power of two.
const RETURN_ADDRESSES: usize = 4096;
/// Signal handlers may be interrupted by other signals, but not without end.
const MOST_SIGNAL_FRAMES: u32 = 16;

/// What was taken of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Its registers, as they were in user space.
    pub registers: &'a Registers,
    /// The bytes of its stack from its stack pointer up.
    pub stack: &'a [u8],
}

/// What was taken of a blocked thread: of its registers only two are known.
#[derive(Clone, Copy, Debug)]
pub struct BlockedSample<'a> {
    /// The instruction that it executes when it continues.
    pub ip: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// The bytes of its stack from its stack pointer up.
    pub stack: &'a [u8],
}

/// What to do about executable addresses of which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Report them by [`Outcome::NeedCode`].
    Ask,
    /// Treat them like stubs: nobody can be asked, or the answer did not come.
    Guess,
}

/// How a frame was found, best first. The same scale as a session's `FrameTrust`, without the
/// runtime's own stack walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// The registers of the thread: the leaf.
    Context,
    /// Exact unwind information of the frame it called.
    Tables,
    /// A rule learned from the code, a return address where a leaf must have it, or the frame
    /// pointer.
    Learned,
    /// Found by looking for return addresses: a guess.
    Scan,
}

/// What kind of code a frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameCode {
    /// A managed method.
    Managed {
        /// The method, as in [`wire::Code::method`].
        method: u32,
        /// Number of the code version: what [`CodeMap::insert`] returned.
        version: u32,
        /// Offset of the instruction in its native code.
        offset: u32,
    },
    /// A native image: [`Unwinder::locate`] tells which.
    Native,
    /// Executable memory of the runtime that is no method.
    Stub,
    /// Executable memory that nobody could tell about, or none at all.
    Unknown,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The instruction that is executed next in this frame.
    pub ip: u64,
    /// The address to look up for names and lines: the instruction pointer, or for a return address
    /// one less, so that it lies in the call.
    pub lookup: u64,
    /// How it was found.
    pub trust: Trust,
    /// What it runs.
    pub code: FrameCode,
}

/// A chain of frames, leaf first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The frames.
    pub frames: Vec<Frame>,
}

/// What unwinding a sample came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The root of the thread was reached.
    Complete(Stack),
    /// The copied bytes ended before the root: the stack is deeper than the copy, or the thread was
    /// on another stack, such as that of a signal handler.
    Truncated(Stack),
    /// A frame could not be left, for another reason.
    Broken(Stack, Failure),
    /// These addresses must be resolved before the stack can be unwound. Feed [`CodeMap::insert`]
    /// or [`CodeMap::insert_not_code`] for each of them.
    NeedCode(Needed),
}

/// Addresses of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// The one that was met, if it is of an instruction that was being executed.
    pub executed: Option<u64>,
    /// What may be a return address to managed code, ascending: the one that was met, if it is none
    /// that was being executed, and all of the copied stack. Of each it is the address before,
    /// which lies in the call.
    pub guessed: Vec<u64>,
}

impl Needed {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.executed.into_iter().chain(self.guessed.iter().copied())
    }
}

/// Why a frame could not be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// The instruction pointer is in no executable memory.
    NotExecutable,
    /// There is no rule, and nothing plausible was found either.
    NoCallerFound,
    /// The caller's stack pointer would not lie above the callee's.
    StackNotGrowing,
    /// More signal frames than can be.
    TooManySignals,
}

impl Failure {
    /// A name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotExecutable => "instruction pointer in no executable memory",
            Self::NoCallerFound => "no caller found",
            Self::StackNotGrowing => "stack pointer not growing",
            Self::TooManySignals => "too many signal frames",
        }
    }
}

/// What was counted since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Stacks that reached the root.
    pub complete: u64,
    /// Stacks deeper than the copied bytes.
    pub truncated: u64,
    /// Broken stacks by reason.
    pub broken: BTreeMap<Failure, u64>,
    /// Times that code had to be asked for.
    pub need_code: u64,
    /// Frames found by exact tables.
    pub frames_by_tables: u64,
    /// Frames found by learned rules and what is plausible.
    pub frames_learned: u64,
    /// Frames found by search.
    pub frames_scanned: u64,
    /// Exact rules that failed on the stack they were applied to, so that the frame was left by
    /// what was plausible.
    pub failed_rules: u64,
    /// Frames whose rule needs a register that is unknown. They were left all the same, by what is
    /// true for all of them: the size of the frame, what the runtime notes of a call of native
    /// code.
    pub frames_without_register: u64,
}

/// Unwinds the stacks of one process.
pub struct Unwinder {
    modules: Modules,
    code: CodeMap,
    call_frames: CallFrames,
    /// Native return addresses that were found to stand behind a call; a cache.
    return_addresses: Box<[u64]>,
    counters: Counters,
}

/// A call of native code from managed code that has not returned, as the runtime notes it.
#[derive(Clone, Copy)]
struct NativeCall {
    /// The return address.
    ip: u64,
    /// Stack pointer and frame pointer of the caller at the call.
    sp: u64,
    fp: u64,
}

/// How a frame was left.
enum Left {
    /// To its caller, by a rule of this trust; whether it was interrupted there by a signal.
    Caller(Trust, bool),
    /// It is the root.
    Root,
    /// The copy ended.
    Truncated,
    /// Not at all.
    Failed(Failure),
}

/// What runs at an instruction pointer.
enum Place {
    Code {
        /// The address to look up.
        lookup: u64,
        code: FrameCode,
        /// Whether the instruction pointer is exact: not a return address.
        exact: bool,
        /// Whether the frame has a rule that can be trusted.
        ruled: bool,
    },
    /// Nothing that can have called the frame before.
    Nowhere,
    /// It must be resolved first.
    Unresolved(Needed),
}

impl Unwinder {
    /// An unwinder for a process. Its map and images are read when they are first needed.
    pub fn new(target: impl Target + Send + 'static) -> Self {
        Self {
            modules: Modules::new(Box::new(target)),
            code: CodeMap::default(),
            call_frames: CallFrames::default(),
            return_addresses: vec![0; RETURN_ADDRESSES].into_boxed_slice(),
            counters: Counters::default(),
        }
    }

    /// The managed code that is known.
    pub fn code(&self) -> &CodeMap {
        &self.code
    }

    /// The managed code that is known, to be fed.
    pub fn code_mut(&mut self) -> &mut CodeMap {
        &mut self.code
    }

    /// Adds a mapping that the target has just made, so that its map need not be read again for it.
    pub fn add_mapping(&mut self, mapping: Mapping) {
        self.modules.insert(mapping);
    }

    /// Reads the map of the target now. Otherwise it is read when an address is met that is in no
    /// known mapping; read it after the target has replaced its program.
    pub fn refresh(&mut self) {
        self.modules.refresh();
    }

    /// Which native image an address is in.
    pub fn locate(&mut self, address: u64) -> Option<NativeLocation> {
        self.modules.locate(address)
    }

    /// What kind of code stands at an address.
    pub fn classify(&mut self, address: u64) -> FrameCode {
        if let Some(place) = self.code.place(address) {
            let at = place.location;
            return FrameCode::Managed {
                method: at.method,
                version: at.version,
                offset: at.offset,
            };
        }
        match self.modules.known(address) {
            Region::Native(..) => FrameCode::Native,
            Region::Managed if self.code.is_not_code(address) => FrameCode::Stub,
            Region::Managed | Region::None => FrameCode::Unknown,
        }
    }

    /// What was counted since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Finds the callers in a sample.
    pub fn unwind(&mut self, sample: &Sample<'_>, unknown: Unknown) -> Outcome {
        let stack = StackBytes::new(sample.registers.sp(), sample.stack);
        self.unwind_from(Context::new(sample.registers), stack, unknown)
    }

    /// Finds the callers of a blocked thread.
    ///
    /// System calls are made by native code, whose call frame information mostly needs the stack
    /// pointer alone, and says where the other registers were saved. A frame pointer that nobody
    /// has saved yet is unknown.
    pub fn unwind_blocked(&mut self, sample: &BlockedSample<'_>, unknown: Unknown) -> Outcome {
        let stack = StackBytes::new(sample.sp, sample.stack);
        if unknown == Unknown::Ask {
            // Where a register is missing, the stack is searched for return addresses: all of them
            // must be known for that.
            self.modules.find(sample.ip);
            let needed = self.needed(sample.ip, true, &stack, sample.sp);
            if !needed.guessed.is_empty() {
                self.counters.need_code += 1;
                return Outcome::NeedCode(Needed { executed: None, ..needed });
            }
        }
        self.unwind_from(Context::of_pointers(sample.ip, sample.sp), stack, unknown)
    }

    fn unwind_from(
        &mut self,
        mut context: Context,
        stack: StackBytes<'_>,
        unknown: Unknown,
    ) -> Outcome {
        let mut frames = Vec::with_capacity(48);
        let mut trust = Trust::Context;
        // Whether the instruction pointer is exact: not a return address.
        let mut exact = true;
        let mut signal_frames = 0;
        // Where the last frame was left by its tables: from which context, and whether its
        // instruction pointer was exact. If that led nowhere, the frame is left once more by what
        // is plausible.
        let mut by_tables: Option<(Context, bool)> = None;
        let end = loop {
            let ip = context.ip();
            if !frames.is_empty() && ip == 0 {
                break Left::Root;
            }
            let place = self.place(&context, exact, frames.is_empty(), &stack, unknown);
            let Place::Code { lookup, code, exact: is_exact, ruled } = place else {
                if let Place::Unresolved(needed) = place {
                    return Outcome::NeedCode(needed);
                }
                let Some((callee, callee_exact)) = by_tables.take() else {
                    break Left::Failed(Failure::NotExecutable);
                };
                // Some hand-written code of the runtime has wrong tables behind its first epilog.
                self.counters.failed_rules += 1;
                context = callee;
                match self.step_plausibly(&mut context, callee_exact, &stack) {
                    Left::Caller(found, _) => {
                        (trust, exact) = (found, false);
                        continue;
                    }
                    left => break left,
                }
            };
            exact = is_exact;
            frames.push(Frame { ip, lookup, trust, code });
            let (callee, callee_exact, sp) = (context, exact, context.sp());
            let left = if ruled {
                self.step(&mut context, lookup, code, exact, &stack)
            } else {
                self.step_plausibly(&mut context, exact, &stack)
            };
            let Left::Caller(found, interrupted) = left else { break left };
            if interrupted {
                signal_frames += 1;
                if signal_frames > MOST_SIGNAL_FRAMES {
                    break Left::Failed(Failure::TooManySignals);
                }
                // The interrupted code may have been on another stack, of which nothing was copied.
                if !stack.contains(context.sp()) {
                    let ip = context.ip();
                    frames.push(Frame { ip, lookup: ip, trust: found, code: self.classify(ip) });
                    break Left::Truncated;
                }
            } else if context.sp() <= sp && !(exact && context.sp() == sp && context.ip() != ip) {
                break Left::Failed(Failure::StackNotGrowing);
            }
            by_tables = (found == Trust::Tables && !interrupted).then_some((callee, callee_exact));
            trust = found;
            exact = interrupted;
        };
        self.outcome(frames, end)
    }

    /// Finds out what runs at the instruction pointer of a context; `exact` is whether that is no
    /// return address.
    fn place(
        &mut self,
        context: &Context,
        mut exact: bool,
        is_leaf: bool,
        stack: &StackBytes<'_>,
        unknown: Unknown,
    ) -> Place {
        let ip = context.ip();
        let mut lookup = if exact { ip } else { ip.wrapping_sub(1) };
        let mut code = self.classify(lookup);
        if matches!(code, FrameCode::Unknown | FrameCode::Stub) {
            let region = self.modules.find(lookup);
            code = self.classify(lookup);
            // A fault at the first instruction of a method is reported to its handler with the
            // address of that instruction, which then looks like a return address of nothing.
            if matches!(code, FrameCode::Unknown | FrameCode::Stub) && !exact {
                let there = self.classify(ip);
                if matches!(there, FrameCode::Managed { offset: 0, .. }) {
                    (lookup, code, exact) = (ip, there, true);
                }
            }
            match region {
                Region::Managed if code == FrameCode::Unknown && unknown == Unknown::Ask => {
                    self.counters.need_code += 1;
                    return Place::Unresolved(self.needed(lookup, exact, stack, context.sp()));
                }
                Region::None if code == FrameCode::Unknown && !is_leaf => return Place::Nowhere,
                _ => {}
            }
        }
        let mut ruled = true;
        if code == FrameCode::Native && !exact && !self.is_known_return_address(ip) {
            if !self.starts_function(ip) {
                return Place::Nowhere;
            }
            // The runtime makes methods return into its own code, to stop their threads
            // ("hijacking"): `OnHijackTripThread` stands in place of the real return address, which
            // only the runtime knows. That one caller is lost, but not its frame.
            (lookup, ruled) = (ip, false);
        }
        Place::Code { lookup, code, exact, ruled }
    }

    /// Counts the frames that were found, and how the stack ended.
    fn outcome(&mut self, frames: Vec<Frame>, end: Left) -> Outcome {
        for frame in &frames {
            match frame.trust {
                Trust::Context => {}
                Trust::Tables => self.counters.frames_by_tables += 1,
                Trust::Learned => self.counters.frames_learned += 1,
                Trust::Scan => self.counters.frames_scanned += 1,
            }
        }
        let found = Stack { frames };
        match end {
            Left::Failed(failure) => {
                *self.counters.broken.entry(failure).or_default() += 1;
                Outcome::Broken(found, failure)
            }
            Left::Truncated => {
                self.counters.truncated += 1;
                Outcome::Truncated(found)
            }
            Left::Root | Left::Caller(..) => {
                self.counters.complete += 1;
                Outcome::Complete(found)
            }
        }
    }

    /// Leaves one frame.
    fn step(
        &mut self,
        context: &mut Context,
        lookup: u64,
        code: FrameCode,
        exact: bool,
        stack: &StackBytes<'_>,
    ) -> Left {
        let by_table = match code {
            FrameCode::Managed { .. } => self.step_managed(context, lookup, exact, stack),
            FrameCode::Native => self.step_native(context, lookup, stack),
            FrameCode::Stub | FrameCode::Unknown => None,
        };
        match by_table {
            Some(Ok(left)) => left,
            Some(Err(StepError::Stack(ReadError::BehindCopy))) => Left::Truncated,
            Some(Err(StepError::UnknownRegister)) => {
                let left = self.step_without_register(context, lookup, code, exact, stack);
                self.counters.frames_without_register += 1;
                // It has a frame, so that no return address is expected on top of the stack.
                left.unwrap_or_else(|| self.step_plausibly(context, false, stack))
            }
            // Such as the frame pointer of code that does not keep one: the tables are not to be
            // trusted here.
            Some(Err(_)) => {
                self.counters.failed_rules += 1;
                self.step_plausibly(context, exact, stack)
            }
            None => self.step_plausibly(context, exact, stack),
        }
    }

    fn step_managed(
        &mut self,
        context: &mut Context,
        lookup: u64,
        exact: bool,
        stack: &StackBytes<'_>,
    ) -> Option<Result<Left, StepError>> {
        let place = self.code.place(lookup)?;
        let rule = place.rule?;
        let mut caller = *context;
        let code = place.code_from(context.ip());
        let stepped =
            rule.step(&mut caller, exact, code, |address| place.same_method(address), stack);
        Some(stepped.map(|()| {
            *context = caller;
            Left::Caller(if rule.exact { Trust::Tables } else { Trust::Learned }, false)
        }))
    }

    fn step_native(
        &mut self,
        context: &mut Context,
        lookup: u64,
        stack: &StackBytes<'_>,
    ) -> Option<Result<Left, StepError>> {
        let Region::Native(image, bias) = self.modules.known(lookup) else { return None };
        if self.modules.take_changed() {
            self.call_frames.forget();
            self.return_addresses.fill(0);
        }
        let mut caller = *context;
        match self.call_frames.step(&image.elf, lookup, bias, &mut caller, stack) {
            Ok(NativeStep::Caller { interrupted }) => {
                *context = caller;
                Some(Ok(Left::Caller(Trust::Tables, interrupted)))
            }
            Ok(NativeStep::Root) => Some(Ok(Left::Root)),
            Ok(NativeStep::NotDescribed) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Leaves a frame whose rule needs the frame pointer, which is unknown. Each way is checked: it
    /// must lead to a return address. `None` if none does.
    fn step_without_register(
        &mut self,
        context: &mut Context,
        lookup: u64,
        code: FrameCode,
        exact: bool,
        stack: &StackBytes<'_>,
    ) -> Option<Left> {
        let sp = context.sp();
        // The runtime's note of the call that this frame is in, or how far the prolog has put the
        // frame pointer.
        let fp = match code {
            FrameCode::Managed { .. } => {
                self.native_call_note(stack, sp).filter(|note| note.sp == sp).map(|note| note.fp)
            }
            FrameCode::Native => self.frame_pointer_by_prolog(lookup, sp, stack),
            FrameCode::Stub | FrameCode::Unknown => None,
        };
        if let Some(fp) = fp {
            let mut caller = *context;
            caller.set(arch::FP, Some(fp));
            let stepped = match code {
                FrameCode::Managed { .. } => self.step_managed(&mut caller, lookup, exact, stack),
                _ => self.step_native(&mut caller, lookup, stack),
            };
            match stepped {
                Some(Ok(Left::Caller(_, interrupted))) => {
                    *context = caller;
                    return Some(Left::Caller(Trust::Learned, interrupted));
                }
                Some(Ok(Left::Root)) => return Some(Left::Root),
                Some(Err(StepError::Stack(ReadError::BehindCopy))) => return Some(Left::Truncated),
                _ => {}
            }
        }
        if matches!(code, FrameCode::Managed { .. }) {
            let mut caller = *context;
            let rule = self.code.place(lookup).and_then(|place| place.rule);
            match rule.map(|rule| rule.step_by_size(&mut caller, stack)) {
                Some(Ok(())) if caller.sp() > sp && self.is_return_address(caller.ip()) => {
                    *context = caller;
                    return Some(Left::Caller(Trust::Learned, false));
                }
                Some(Err(StepError::Stack(ReadError::BehindCopy))) => return Some(Left::Truncated),
                _ => {}
            }
        }
        None
    }

    /// Leaves code whose frame pointer is unknown for a frame of which all that matters can be
    /// found on the stack. `None` if there is none.
    fn step_to_record(&mut self, context: &mut Context, stack: &StackBytes<'_>) -> Option<Left> {
        let sp = context.sp();
        // Native code below a managed method that has called it: the note has all registers that
        // matter. Other managed methods in between would be lost.
        if let Some(note) = self.native_call_note(stack, sp)
            && note.sp > sp
            && !self.has_managed_return(stack, sp, note.sp.wrapping_sub(8))
        {
            context.jump(note.ip, note.sp, note.fp);
            return Some(Left::Caller(Trust::Learned, false));
        }
        // A frame record: a frame pointer further up the stack, and a return address above it.
        let (return_at, caller_at) = arch::FRAME_RECORD;
        let mut records = stack.words(sp).take(SCANNED_WORDS);
        let (at, saved, address) = records.find_map(|(at, saved)| {
            let looks_right = saved.is_multiple_of(8)
                && saved > at.saturating_add(return_at)
                && stack.contains(saved);
            let address =
                looks_right.then(|| stack.word(at.checked_add(return_at)?).ok()).flatten()?;
            let address = arch::plain_address(address);
            self.is_return_address(address).then_some((at, saved, address))
        })?;
        context.jump(address, at.saturating_add(caller_at), saved);
        Some(Left::Caller(Trust::Scan, false))
    }

    /// Where the frame pointer of a native function points by its prolog, if a frame record stands
    /// there.
    fn frame_pointer_by_prolog(
        &mut self,
        lookup: u64,
        sp: u64,
        stack: &StackBytes<'_>,
    ) -> Option<u64> {
        let Region::Native(image, bias) = self.modules.known(lookup) else { return None };
        let begin = image.elf.description(lookup.wrapping_sub(bias))?.initial_address();
        let code: [u8; arch::PROLOG_BYTES] = image.elf.code(begin)?;
        let fp = sp.checked_add(arch::frame_above_stack(&code)?)?;
        let address = stack.word(fp.checked_add(arch::FRAME_RECORD.0)?).ok()?;
        self.is_return_address(arch::plain_address(address)).then_some(fp)
    }

    /// The innermost call of native code that the runtime has noted on the stack from `from` on.
    /// The stack pointer in it lies below the note, and right below that lies the return address,
    /// which the note has once more: so nothing else is taken for one.
    fn native_call_note(&mut self, stack: &StackBytes<'_>, from: u64) -> Option<NativeCall> {
        if !arch::NATIVE_CALL_NOTE {
            return None;
        }
        for (at, sp) in stack.words(from).take(NOTE_WORDS) {
            if sp < from || sp > at || !sp.is_multiple_of(8) {
                continue;
            }
            let next = |words: u64| stack.word(at.checked_add(words * 8)?).ok();
            let (Some(ip), Some(fp)) = (next(1), next(2)) else { return None };
            let returns = sp.checked_sub(8).and_then(|at| stack.word(at).ok());
            // It may lie below `from`, where the callee has been left already: it is in the copy
            // still.
            if returns == Some(ip) && self.code.is_return_address(ip) == Some(true) {
                return Some(NativeCall { ip, sp, fp });
            }
        }
        None
    }

    /// Whether a word in a part of the stack can be a return address to managed code.
    fn has_managed_return(&self, stack: &StackBytes<'_>, from: u64, to: u64) -> bool {
        let mut words = stack.words(from).take_while(|(at, _)| *at < to);
        words.any(|(_, word)| self.code.is_return_address(word) == Some(true))
    }

    /// Leaves a frame for which there is no exact rule.
    fn step_plausibly(
        &mut self,
        context: &mut Context,
        exact: bool,
        stack: &StackBytes<'_>,
    ) -> Left {
        let sp = context.sp();
        // A leaf that has not touched the stack, such as nearly all stubs.
        if exact {
            let leaf = match arch::LEAF_RETURN {
                LeafReturn::OnStack => {
                    stack.word(sp).ok().map(|address| (address, sp.saturating_add(8)))
                }
                LeafReturn::Register(register) => {
                    context.get(register).map(|address| (address, sp))
                }
            };
            if let Some((address, caller_sp)) = leaf
                && self.is_return_address(arch::plain_address(address))
            {
                context.set_sp(caller_sp);
                context.set_ip(arch::plain_address(address));
                context.forget_scratch();
                return Left::Caller(Trust::Learned, false);
            }
        }
        let (return_at, caller_at) = arch::FRAME_RECORD;
        match context.fp() {
            // Where a thread starts, the frame pointer is 0 by convention (System V ABI, AMD64
            // supplement, 3.4.1).
            Some(0) if !exact => return Left::Root,
            Some(fp) if fp >= sp && fp.is_multiple_of(8) => {
                let saved = stack.word(fp);
                let address = fp
                    .checked_add(return_at)
                    .and_then(|at| stack.word(at).ok())
                    .map(arch::plain_address);
                if let (Ok(saved), Some(address), Some(caller_sp)) =
                    (saved, address, fp.checked_add(caller_at))
                    && self.is_return_address(address)
                {
                    context.set_sp(caller_sp);
                    context.set_ip(address);
                    context.set(arch::FP, Some(saved));
                    context.forget_scratch();
                    return Left::Caller(Trust::Learned, false);
                }
            }
            None if context.is_partial() => {
                if let Some(left) = self.step_to_record(context, stack) {
                    return left;
                }
            }
            _ => {}
        }
        let found = stack
            .words(sp)
            .take(SCANNED_WORDS)
            .find(|&(_, word)| self.is_return_address(arch::plain_address(word)));
        match found {
            Some((at, address)) => {
                let caller_sp = at.saturating_add(8);
                // A frame pointer into what was skipped is not the caller's.
                if context.fp().is_some_and(|fp| fp < caller_sp && fp >= sp) {
                    context.set(arch::FP, None);
                }
                context.set_sp(caller_sp);
                context.set_ip(arch::plain_address(address));
                context.forget_scratch();
                Left::Caller(Trust::Scan, false)
            }
            // All of the copy was searched: the caller is behind it, if anywhere.
            None if stack.end().saturating_sub(sp) < SCANNED_WORDS as u64 * 8 => Left::Truncated,
            None => Left::Failed(Failure::NoCallerFound),
        }
    }

    /// [`Self::is_return_address`] for native code, with a cache.
    fn is_known_return_address(&mut self, address: u64) -> bool {
        if self.modules.take_changed() {
            self.call_frames.forget();
            self.return_addresses.fill(0);
        }
        let slot = (address ^ address >> 13) as usize & (RETURN_ADDRESSES - 1);
        if self.return_addresses.get(slot) == Some(&address) {
            return true;
        }
        // Signal handlers return to a place that nobody calls from.
        let is = self.is_return_address(address)
            || match self.modules.known(address.wrapping_sub(1)) {
                Region::Native(image, bias) => {
                    image.elf.is_signal_trampoline(address.wrapping_sub(1).wrapping_sub(bias))
                }
                Region::Managed | Region::None => false,
            };
        if let Some(known) = self.return_addresses.get_mut(slot).filter(|_| is) {
            *known = address;
        }
        is
    }

    /// Whether a native function begins at an address.
    fn starts_function(&mut self, address: u64) -> bool {
        match self.modules.known(address) {
            Region::Native(image, bias) => image.elf.starts_function(address.wrapping_sub(bias)),
            Region::Managed | Region::None => false,
        }
    }

    /// Whether an address is one that a call in known code can return to.
    fn is_return_address(&mut self, address: u64) -> bool {
        if let Some(known) = self.code.is_return_address(address) {
            return known;
        }
        match self.modules.known(address.wrapping_sub(1)) {
            Region::Native(image, bias) => {
                image.elf.is_return_address(address.wrapping_sub(bias)).unwrap_or(false)
            }
            Region::Managed | Region::None => false,
        }
    }

    /// The address that was met, and all that the copied stack may return to and of which nothing
    /// is known.
    fn needed(&mut self, met: u64, executed: bool, stack: &StackBytes<'_>, sp: u64) -> Needed {
        let managed = self.modules.managed();
        let inside = |address: u64| {
            let behind = managed.partition_point(|&(start, _)| start <= address);
            behind
                .checked_sub(1)
                .and_then(|index| managed.get(index))
                .is_some_and(|&(_, end)| address < end)
        };
        let mut seen = HashSet::from([met]);
        for (_, word) in stack.words(sp) {
            let call = arch::plain_address(word).wrapping_sub(1);
            if inside(call) && self.code.place(call).is_none() && !self.code.is_not_code(call) {
                seen.insert(call);
                if seen.len() == MOST_ADDRESSES {
                    break;
                }
            }
        }
        if executed {
            seen.remove(&met);
        }
        let mut guessed: Vec<u64> = seen.into_iter().collect();
        guessed.sort_unstable();
        Needed { executed: executed.then_some(met), guessed }
    }
}
