//! Walks a copied stack, frame by frame.

mod callers;
mod native;
mod outcome;
mod plausible;
mod progress;

pub use outcome::{
    BlockedSample, Counters, Failure, Frame, FrameCode, Needed, Outcome, Sample, Stack, Unknown,
};
pub use progress::Progress;

use std::collections::HashSet;

use crate::arch;
use crate::call_frames::CallFrames;
use crate::code_map::CodeMap;
use crate::context::{Context, StepError};
use crate::maps::Mapping;
use crate::modules::{Modules, NativeLocation, Region};
use crate::stack::{ReadError, StackBytes};
use crate::target::Target;
use callers::{Callers, Continued, Roots};
use plausible::RETURN_ADDRESSES;
use progress::{Next, Walk};
use wire::FrameTrust;

/// How many addresses one [`Outcome::NeedCode`] asks for at most.
const MOST_ADDRESSES: usize = 1024;
/// Signal handlers may be interrupted by other signals, but not without end.
const MOST_SIGNAL_FRAMES: u32 = 16;

/// Unwinds the stacks of one process.
pub struct Unwinder {
    modules: Modules,
    code: CodeMap,
    call_frames: CallFrames,
    /// Native return addresses that were found to stand behind a call; a cache.
    return_addresses: Box<[u64]>,
    /// How stacks ended whose root was reached.
    roots: Roots,
    counters: Counters,
}

/// How a frame was left.
enum Left {
    /// To its caller, by a rule of this trust; whether it was interrupted there by a signal.
    Caller(FrameTrust, bool),
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
            roots: Roots::default(),
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

    /// Forgets what was found out about native code, if other code may stand there now.
    fn forget_moved(&mut self) {
        if self.modules.take_changed() {
            self.call_frames.forget();
            self.return_addresses.fill(0);
            self.roots.clear();
        }
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
        self.unwind_further(sample, &[], unknown, &mut Progress::default())
    }

    /// Finds the callers in a sample, with the [`Progress`] that was made before code had to be
    /// asked for. What it finds is what [`Self::unwind`] would find.
    ///
    /// `callers` are the return addresses that following the frame pointers gives, innermost first
    /// and without the instruction pointer itself, or none. A stack that is deeper than its copy is
    /// continued with them where tables prove that they leave no frame out.
    pub fn unwind_further(
        &mut self,
        sample: &Sample<'_>,
        callers: &[u64],
        unknown: Unknown,
        progress: &mut Progress,
    ) -> Outcome {
        let stack = StackBytes::new(sample.registers.sp(), sample.stack);
        let begin = || Walk::new(Context::new(sample.registers));
        let callers = Callers { fp: Some(sample.registers.fp()), found: callers };
        self.walk(progress.take().unwrap_or_else(begin), stack, &callers, unknown, progress)
    }

    /// Finds the callers of a blocked thread.
    ///
    /// System calls are made by native code, whose call frame information mostly needs the stack
    /// pointer alone, and says where the other registers were saved. A frame pointer that nobody
    /// has saved yet is unknown.
    pub fn unwind_blocked(&mut self, sample: &BlockedSample<'_>, unknown: Unknown) -> Outcome {
        self.unwind_blocked_further(sample, unknown, &mut Progress::default())
    }

    /// The same with the [`Progress`] that was made before code had to be asked for.
    pub fn unwind_blocked_further(
        &mut self,
        sample: &BlockedSample<'_>,
        unknown: Unknown,
        progress: &mut Progress,
    ) -> Outcome {
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
        let begin = || Walk::new(Context::of_pointers(sample.ip, sample.sp));
        let begun = progress.take().unwrap_or_else(begin);
        self.walk(begun, stack, &Callers::NONE, unknown, progress)
    }

    fn walk(
        &mut self,
        Walk { mut frames, mut next }: Walk,
        stack: StackBytes<'_>,
        callers: &Callers<'_>,
        unknown: Unknown,
        progress: &mut Progress,
    ) -> Outcome {
        // The first frame that was not left by its tables, and how many are below it.
        let (mut uncertain, mut last): (Option<(usize, Next)>, Next) = (None, next);
        let end = loop {
            let ip = next.context.ip();
            if !frames.is_empty() && ip == 0 {
                break Left::Root;
            }
            let place = self.place(&next.context, next.exact, frames.is_empty(), &stack, unknown);
            let Place::Code { lookup, code, exact, ruled } = place else {
                if let Place::Unresolved(needed) = place {
                    let at = uncertain.unwrap_or((frames.len(), next));
                    return progress.stop(at, frames, needed);
                }
                let before = next;
                let Some((callee, callee_exact)) = next.by_tables.take() else {
                    break Left::Failed(Failure::NotExecutable);
                };
                uncertain.get_or_insert((frames.len(), before));
                // Some hand-written code of the runtime has wrong tables behind its first epilog.
                self.counters.failed_rules += 1;
                next.context = callee;
                match self.step_plausibly(&mut next.context, callee_exact, &stack) {
                    Left::Caller(found, _) => {
                        (next.trust, next.exact) = (found, false);
                        continue;
                    }
                    left => break left,
                }
            };
            last = next;
            let (length, callee) = (frames.len(), next.context);
            frames.push(Frame { ip, lookup, trust: next.trust, code });
            let context = &mut next.context;
            let left = match ruled {
                true => self.step(context, lookup, code, exact, &stack),
                false => self.step_plausibly(context, exact, &stack),
            };
            let Left::Caller(found, interrupted) = left else { break left };
            if found != FrameTrust::Tables {
                uncertain.get_or_insert((length, Next { context: callee, ..next }));
            }
            let (context, sp) = (&next.context, callee.sp());
            if interrupted {
                next.signal_frames += 1;
                if next.signal_frames > MOST_SIGNAL_FRAMES {
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
            next.by_tables =
                (found == FrameTrust::Tables && !interrupted).then_some((callee, exact));
            (next.trust, next.exact) = (found, interrupted);
        };
        if !matches!(end, Left::Truncated) {
            return self.outcome(frames, end);
        }
        match self.continue_by(&mut frames, &last.context, callers, &stack, unknown) {
            Continued::Root => self.outcome(frames, Left::Root),
            Continued::No => self.outcome(frames, end),
            Continued::Unresolved(needed) => {
                let at = uncertain.unwrap_or((frames.len().saturating_sub(1), last));
                progress.stop(at, frames, needed)
            }
        }
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
                FrameTrust::Context | FrameTrust::Runtime => {}
                FrameTrust::Tables => self.counters.frames_by_tables += 1,
                FrameTrust::Learned => self.counters.frames_learned += 1,
                FrameTrust::Scan => self.counters.frames_scanned += 1,
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
                self.roots.learn(&found.frames);
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
            Left::Caller(if rule.exact { FrameTrust::Tables } else { FrameTrust::Learned }, false)
        }))
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
