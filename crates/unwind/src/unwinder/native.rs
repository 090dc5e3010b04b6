//! Steps over frames of native code, also where a register that they need is unknown.

use super::outcome::FrameCode;
use super::plausible::SCANNED_WORDS;
use super::{Left, Unwinder};
use crate::arch;
use crate::call_frames::NativeStep;
use crate::context::{Context, StepError};
use crate::modules::Region;
use crate::stack::{ReadError, StackBytes};
use wire::FrameTrust;

/// How many words of it a search for what the runtime notes of a call looks at: frames of native
/// code can be large.
const NOTE_WORDS: usize = 2048;

/// A call of native code from managed code that has not returned, as the runtime notes it.
#[derive(Clone, Copy)]
struct NativeCall {
    /// The return address.
    pub(super) ip: u64,
    /// Stack pointer and frame pointer of the caller at the call.
    pub(super) sp: u64,
    pub(super) fp: u64,
}

impl Unwinder {
    pub(super) fn step_native(
        &mut self,
        context: &mut Context,
        lookup: u64,
        stack: &StackBytes<'_>,
    ) -> Option<Result<Left, StepError>> {
        let Region::Native(image, bias) = self.modules.known(lookup) else { return None };
        self.forget_moved();
        let mut caller = *context;
        match self.call_frames.step(&image.elf, lookup, bias, &mut caller, stack) {
            Ok(NativeStep::Caller { interrupted }) => {
                *context = caller;
                Some(Ok(Left::Caller(FrameTrust::Tables, interrupted)))
            }
            Ok(NativeStep::Root) => Some(Ok(Left::Root)),
            Ok(NativeStep::NotDescribed) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Leaves a frame whose rule needs the frame pointer, which is unknown. Each way is checked: it
    /// must lead to a return address. `None` if none does.
    pub(super) fn step_without_register(
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
                    return Some(Left::Caller(FrameTrust::Learned, interrupted));
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
                    return Some(Left::Caller(FrameTrust::Learned, false));
                }
                Some(Err(StepError::Stack(ReadError::BehindCopy))) => return Some(Left::Truncated),
                _ => {}
            }
        }
        None
    }

    /// Leaves code whose frame pointer is unknown for a frame of which all that matters can be
    /// found on the stack. `None` if there is none.
    pub(super) fn step_to_record(
        &mut self,
        context: &mut Context,
        stack: &StackBytes<'_>,
    ) -> Option<Left> {
        let sp = context.sp();
        // Native code below a managed method that has called it: the note has all registers that
        // matter. Other managed methods in between would be lost.
        if let Some(note) = self.native_call_note(stack, sp)
            && note.sp > sp
            && !self.has_managed_return(stack, sp, note.sp.wrapping_sub(8))
        {
            context.jump(note.ip, note.sp, note.fp);
            return Some(Left::Caller(FrameTrust::Learned, false));
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
        Some(Left::Caller(FrameTrust::Scan, false))
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
}
