//! Native frames by their call frame information (DWARF 5, section 6.4; LSB core, `.eh_frame`).
//!
//! The rules of an address are evaluated in full, so that signal trampolines (whose frame is found
//! by an expression over the signal context) and realigned frames are left exactly. What nearly all
//! code has, a frame at a fixed distance from one register, is kept in a small cache in a form that
//! is quick to apply.

use gimli::{
    CfaRule, Encoding, EndianSlice, EvaluationResult, Expression, LittleEndian, Location, Register,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, Value,
};

use crate::StackBytes;
use crate::arch;
use crate::context::{Context, StepError};
use crate::elf::Elf;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// What following a native frame led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NativeStep {
    /// The context is the caller's.
    Caller {
        /// The frame left was that of a signal handler's trampoline: the new instruction pointer is
        /// where the signal hit, no return address, and the stack may be another one.
        interrupted: bool,
    },
    /// The code says that it has no caller.
    Root,
    /// The code has no description.
    NotDescribed,
}

/// Entries of the rule cache, a power of two.
const CACHE: usize = 8192;

/// Evaluates call frame information, with a cache of simple rules.
pub(crate) struct CallFrames {
    context: UnwindContext<usize>,
    cache: Box<[CacheEntry]>,
    generation: u32,
}

#[derive(Clone, Copy)]
struct CacheEntry {
    address: u64,
    generation: u32,
    rule: Rule,
}

#[derive(Clone, Copy)]
enum Rule {
    Simple(SimpleRule),
    Root,
    NotDescribed,
}

/// A frame at a fixed distance from one register, with registers saved at fixed distances from it.
#[derive(Clone, Copy)]
struct SimpleRule {
    frame_register: u16,
    frame_offset: i32,
    /// For each of [`arch::SAVED`] where it is, from the frame address; [`SAME`] or [`LOST`].
    saved: [i32; arch::SAVED.len()],
    /// Where the return address is, from the frame address; [`SAME`]: in its register.
    return_address: i32,
}

const SAME: i32 = i32::MAX;
const LOST: i32 = i32::MIN;

impl Default for CallFrames {
    fn default() -> Self {
        let empty = CacheEntry { address: 0, generation: 0, rule: Rule::NotDescribed };
        Self {
            context: UnwindContext::new(),
            cache: vec![empty; CACHE].into_boxed_slice(),
            generation: 1,
        }
    }
}

impl CallFrames {
    /// Forgets all cached rules, because other code may now stand at their addresses.
    pub(crate) fn forget(&mut self) {
        match self.generation.checked_add(1) {
            Some(generation) => self.generation = generation,
            None => *self = Self::default(),
        }
    }

    /// Goes from the context to its caller, or says why not. `address` is what to look up: the
    /// instruction pointer, or for a return address the byte before; `bias` is what to take from it
    /// for the address in the file.
    pub(crate) fn step(
        &mut self,
        elf: &Elf,
        address: u64,
        bias: u64,
        context: &mut Context,
        stack: &StackBytes<'_>,
    ) -> Result<NativeStep, StepError> {
        let slot = (address ^ address >> 13) as usize & (CACHE - 1);
        if let Some(entry) = self.cache.get(slot)
            && entry.address == address
            && entry.generation == self.generation
        {
            return entry.rule.apply(context, stack);
        }
        let stated = address.wrapping_sub(bias);
        let section = elf.eh_frame();
        let description = elf.description(stated);
        let rule = match &description {
            None => Some(Rule::NotDescribed),
            Some(description) => {
                let row = description
                    .unwind_info_for_address(&section, elf.bases(), &mut self.context, stated)
                    .map_err(|_| StepError::BadRule)?;
                let interrupted = description.is_signal_trampoline();
                match Rule::simple(row) {
                    Some(rule) if !interrupted => {
                        let code = elf.code(description.initial_address());
                        Some(if code.is_some_and(arch::is_hijack) { rule.hijacked() } else { rule })
                    }
                    _ => {
                        let encoding = description.cie().encoding();
                        return Full { section: &section, encoding, stack }.apply(
                            row,
                            interrupted,
                            context,
                        );
                    }
                }
            }
        };
        let Some(rule) = rule else { return Err(StepError::BadRule) };
        if let Some(entry) = self.cache.get_mut(slot) {
            *entry = CacheEntry { address, generation: self.generation, rule };
        }
        rule.apply(context, stack)
    }
}

impl Rule {
    /// The rule in its simple form, if it has one.
    fn simple(row: &UnwindTableRow<usize>) -> Option<Self> {
        let offset = |rule: Option<RegisterRule<usize>>| match rule {
            None | Some(RegisterRule::SameValue) => Some(SAME),
            Some(RegisterRule::Undefined) => Some(LOST),
            Some(RegisterRule::Offset(offset)) => {
                i32::try_from(offset).ok().filter(|&offset| offset != SAME && offset != LOST)
            }
            _ => None,
        };
        let return_address = match row.register(arch::RETURN_ADDRESS) {
            Some(RegisterRule::Undefined) => return Some(Self::Root),
            rule => offset(rule)?,
        };
        let &CfaRule::RegisterAndOffset { register, offset: frame_offset } = row.cfa() else {
            return None;
        };
        let mut saved = [SAME; arch::SAVED.len()];
        for (place, number) in saved.iter_mut().zip(arch::SAVED) {
            *place = offset(row.register(Register(number)))?;
        }
        Some(Self::Simple(SimpleRule {
            frame_register: register.0,
            frame_offset: i32::try_from(frame_offset).ok()?,
            saved,
            return_address,
        }))
    }

    /// The rule as it should be for code that has come to be by a return, not by a call (see
    /// [`arch::is_hijack`]): its first push makes the room that a call would have made, and the
    /// return address is written there later. Its description counts that push too, and forgets to
    /// say what the others save.
    fn hijacked(self) -> Self {
        let Self::Simple(rule) = self else { return self };
        let pushed = i64::from(rule.frame_offset);
        // Only in its middle part are all of them pushed.
        if rule.saved.iter().any(|&place| place != SAME) || pushed < arch::HIJACK_PUSHED {
            return self;
        }
        let saved = arch::HIJACK_SAVED;
        Self::Simple(SimpleRule { frame_offset: rule.frame_offset - 8, saved, ..rule })
    }

    fn apply(
        &self,
        context: &mut Context,
        stack: &StackBytes<'_>,
    ) -> Result<NativeStep, StepError> {
        let rule = match self {
            Self::Simple(rule) => rule,
            Self::Root => return Ok(NativeStep::Root),
            Self::NotDescribed => return Ok(NativeStep::NotDescribed),
        };
        let frame = context.get(rule.frame_register).ok_or(StepError::UnknownRegister)?;
        let frame =
            frame.checked_add_signed(rule.frame_offset.into()).ok_or(StepError::Overflow)?;
        let at = |offset: i32| frame.checked_add_signed(offset.into()).ok_or(StepError::Overflow);
        let return_address = match rule.return_address {
            // On x86-64 no register holds it, so this is only met where one does.
            SAME => context.get(arch::RETURN_ADDRESS.0).ok_or(StepError::UnknownRegister)?,
            offset => stack.word(at(offset)?)?,
        };
        for (&place, number) in rule.saved.iter().zip(arch::SAVED) {
            match place {
                SAME => {}
                LOST => context.set(number, None),
                offset => {
                    // Epilogs often still state where a register was after it was popped. Below the
                    // stack pointer nothing was copied, and the register has its value again.
                    match stack.word(at(offset)?) {
                        Ok(value) => context.set(number, Some(value)),
                        Err(_) if at(offset)? < context.sp() => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        context.set_sp(frame);
        context.set_ip(arch::plain_address(return_address));
        context.forget_scratch();
        Ok(NativeStep::Caller { interrupted: false })
    }
}

/// Evaluates rules of any form.
struct Full<'a, S> {
    section: &'a S,
    encoding: Encoding,
    stack: &'a StackBytes<'a>,
}

impl<'i, S: UnwindSection<Slice<'i>>> Full<'_, S> {
    fn apply(
        &self,
        row: &UnwindTableRow<usize>,
        interrupted: bool,
        context: &mut Context,
    ) -> Result<NativeStep, StepError> {
        let old = *context;
        let frame = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = old.get(register.0).ok_or(StepError::UnknownRegister)?;
                base.checked_add_signed(*offset).ok_or(StepError::Overflow)?
            }
            CfaRule::Expression(expression) => self.evaluate(expression, &old, None)?,
        };
        if !interrupted {
            context.forget_scratch();
        }
        context.set_sp(frame);
        let mut return_address = None;
        for (register, rule) in row.registers() {
            let value = match self.register(rule, register.0, frame, &old) {
                // Where a register was saved may depend on one that is unknown; only it is lost
                // then.
                Err(StepError::UnknownRegister) if *register != arch::RETURN_ADDRESS => None,
                value => value?,
            };
            if *register == arch::RETURN_ADDRESS {
                match value {
                    None => return Ok(NativeStep::Root),
                    value => return_address = value,
                }
            }
            context.set(register.0, value);
        }
        let return_address =
            return_address.or_else(|| old.get(arch::RETURN_ADDRESS.0)).ok_or(StepError::BadRule)?;
        context.set_ip(if interrupted {
            return_address
        } else {
            arch::plain_address(return_address)
        });
        Ok(NativeStep::Caller { interrupted })
    }

    fn register(
        &self,
        rule: &RegisterRule<usize>,
        number: u16,
        frame: u64,
        old: &Context,
    ) -> Result<Option<u64>, StepError> {
        let at = |offset: i64| frame.checked_add_signed(offset).ok_or(StepError::Overflow);
        Ok(match rule {
            RegisterRule::Undefined => None,
            RegisterRule::SameValue => old.get(number),
            RegisterRule::Offset(offset) => Some(self.stack.word(at(*offset)?)?),
            RegisterRule::ValOffset(offset) => Some(at(*offset)?),
            RegisterRule::Register(register) => old.get(register.0),
            RegisterRule::Expression(expression) => {
                Some(self.stack.word(self.evaluate(expression, old, Some(frame))?)?)
            }
            RegisterRule::ValExpression(expression) => {
                Some(self.evaluate(expression, old, Some(frame))?)
            }
            _ => return Err(StepError::BadRule),
        })
    }

    /// Evaluates an expression over registers and stack. Expressions for registers start with the
    /// frame address on their stack (DWARF 5, 6.4.2.3).
    fn evaluate(
        &self,
        expression: &UnwindExpression<usize>,
        old: &Context,
        initial: Option<u64>,
    ) -> Result<u64, StepError> {
        let expression: Expression<Slice<'i>> =
            expression.get(self.section).map_err(|_| StepError::BadRule)?;
        let mut evaluation = expression.evaluation(self.encoding);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        // Loops are possible in this language.
        evaluation.set_max_iterations(10_000);
        let mut result = evaluation.evaluate().map_err(|_| StepError::BadRule)?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = if register == arch::RETURN_ADDRESS
                        && usize::from(register.0) >= arch::REGISTERS
                    {
                        Some(old.ip())
                    } else {
                        old.get(register.0)
                    };
                    let value = value.ok_or(StepError::UnknownRegister)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(self.stack.word(address)?))
                }
                _ => return Err(StepError::BadRule),
            }
            .map_err(|_| StepError::BadRule)?;
        }
        match evaluation.result().last().map(|piece| piece.location) {
            Some(Location::Address { address }) => Ok(address),
            _ => Err(StepError::BadRule),
        }
    }
}
