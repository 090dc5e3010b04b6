//! How many values are on the evaluation stack at each instruction. Source: ECMA-335 III.1.7.

use crate::{ClauseKind, DecodeError, ExceptionClause, Flow, Instruction, MethodBody, Opcode, OperandKind, Token};

/// What a call does to the stack. `newobj` takes no `this` and always gives a value; `calli` takes the function
/// pointer besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallEffect {
    /// Whether there is a `this` that is not listed among the parameters.
    pub has_this: bool,
    /// How many parameters are passed, variable arguments included.
    pub parameters: u16,
    /// Whether a value comes back.
    pub returns: bool,
}

/// What tokens in code mean: looked up in the metadata of the module that the code belongs to.
pub trait Tokens {
    /// What a call of the method (`MethodDef`, `MemberRef`, `MethodSpec`) or signature (stand-alone) does to the
    /// stack; `None` if there is no such thing. See [`crate::MethodSig::call_effect`].
    fn call_effect(&self, token: Token) -> Option<CallEffect>;
}

/// What the signatures of a method and of its locals tell about its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MethodShape {
    /// Number of arguments, `this` included.
    pub arguments: u16,
    /// Number of local variables.
    pub locals: u16,
    /// Whether it returns a value.
    pub returns: bool,
}

/// Why the stack has no definite height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// The code cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An instruction takes more values than there are.
    #[error("IL_{offset:04x}: takes {pops} values off a stack of {height}")]
    Underflow {
        /// Where.
        offset: u32,
        /// Values taken.
        pops: u32,
        /// Values there.
        height: u16,
    },
    /// The stack grows beyond what a header can express.
    #[error("IL_{offset:04x}: the stack grows too high")]
    Overflow {
        /// Where.
        offset: u32,
    },
    /// Two ways to an instruction bring different heights.
    #[error("IL_{to:04x}: reached with {second} values on the stack from IL_{from:04x}, otherwise with {first}")]
    Mismatch {
        /// The instruction.
        to: u32,
        /// Where the second way comes from.
        from: u32,
        /// Height by the way found first.
        first: u16,
        /// Height by the other.
        second: u16,
    },
    /// A branch leads to no instruction.
    #[error("IL_{offset:04x}: branches to IL_{target:04x}, where no instruction starts")]
    Target {
        /// Where.
        offset: u32,
        /// Where to.
        target: u32,
    },
    /// Control runs off the end of the code.
    #[error("IL_{offset:04x}: control runs off the end of the code")]
    FallsOff {
        /// The last instruction.
        offset: u32,
    },
    /// A call of something that [`Tokens`] does not know.
    #[error("IL_{offset:04x}: unknown method or signature {token}")]
    UnknownCall {
        /// Where.
        offset: u32,
        /// Of what.
        token: Token,
    },
    /// Values are left on the stack by `ret`, `jmp` or `endfilter`.
    #[error("IL_{offset:04x}: leaves {height} values on the stack")]
    NotEmpty {
        /// Where.
        offset: u32,
        /// How many.
        height: u16,
    },
}

/// No way to this instruction is known (yet).
const UNREACHED: u16 = u16::MAX;
/// No instruction starts here.
const INSIDE: u16 = u16::MAX - 1;
/// Highest stack that is not one of the marks above.
const LIMIT: u32 = u16::MAX as u32 - 2;

/// The height of the stack before each instruction that can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackHeights {
    /// By offset.
    heights: Vec<u16>,
    max: u16,
    backward: Option<BackwardBranch>,
}

/// A branch that brings values to an earlier instruction which no earlier way leads to. ECMA-335 III.1.7.5 forbids
/// it, so that one pass over the code can tell all heights; the runtime does not mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackwardBranch {
    /// The branch.
    pub offset: u32,
    /// Where it leads.
    pub target: u32,
}

impl StackHeights {
    /// Follows all ways through the code of `body`, from its start and from each handler.
    ///
    /// # Errors
    /// The first contradiction on a way that can be taken. Code that cannot be reached is only decoded.
    pub fn compute(body: &MethodBody<'_>, returns: bool, tokens: &impl Tokens) -> Result<Self, StackError> {
        let mut heights = Self::default();
        heights.walk(body, returns, tokens, &mut Vec::new())?;
        Ok(heights)
    }

    /// The same into what is there already, whose room is used again. `pending` is only room.
    pub(crate) fn walk(
        &mut self,
        body: &MethodBody<'_>,
        returns: bool,
        tokens: &impl Tokens,
        pending: &mut Vec<u32>,
    ) -> Result<Seen, StackError> {
        self.heights.clear();
        self.heights.resize(body.code.len(), UNREACHED);
        pending.clear();
        let mut walk = Walk {
            code: &body.code,
            tokens,
            returns,
            heights: &mut self.heights,
            max: 0,
            pending,
            backward: None,
            seen: Seen::default(),
        };
        walk.seed(&body.clauses)?;
        walk.run()?;
        (self.max, self.backward) = (walk.max, walk.backward);
        Ok(walk.seen)
    }

    /// The highest stack.
    #[must_use]
    pub const fn max(&self) -> u16 {
        self.max
    }

    /// Values on the stack before the instruction at `offset`; `None` if control does not get there or no
    /// instruction starts there.
    #[must_use]
    pub fn before(&self, offset: u32) -> Option<u16> {
        self.heights.get(offset as usize).copied().filter(|&height| u32::from(height) <= LIMIT)
    }

    /// The first branch that breaks the rule on backward branches.
    #[must_use]
    pub const fn backward_branch(&self) -> Option<BackwardBranch> {
        self.backward
    }
}

/// The least `max_stack` with which the body runs.
///
/// # Errors
/// As [`StackHeights::compute`].
pub fn max_stack(body: &MethodBody<'_>, returns: bool, tokens: &impl Tokens) -> Result<u16, StackError> {
    StackHeights::compute(body, returns, tokens).map(|heights| heights.max)
}

/// What a walk met on its way, so that nobody has to look again at code that is plain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// One more than the highest argument that is named; 0 if none is.
    pub arguments: u32,
    /// The same of locals.
    pub locals: u32,
    /// There is a prefix, or an instruction that is not allowed everywhere.
    pub special: bool,
    /// There is code that the first pass found no way to. Its branches were not looked at.
    pub dead: bool,
}

struct Walk<'a, T> {
    code: &'a [u8],
    tokens: &'a T,
    returns: bool,
    heights: &'a mut Vec<u16>,
    max: u16,
    /// Instructions with a known height that the pass over the code has already gone by.
    pending: &'a mut Vec<u32>,
    backward: Option<BackwardBranch>,
    seen: Seen,
}

impl<T: Tokens> Walk<'_, T> {
    fn seed(&mut self, clauses: &[ExceptionClause]) -> Result<(), StackError> {
        if self.code.is_empty() {
            return Err(StackError::FallsOff { offset: 0 });
        }
        self.seed_at(0, 0)?;
        for clause in clauses {
            // Catch handlers and filters start with the exception.
            let height = match clause.kind {
                ClauseKind::Catch(_) => 1,
                ClauseKind::Filter(start) => {
                    self.seed_at(start, 1)?;
                    1
                }
                ClauseKind::Finally | ClauseKind::Fault => 0,
            };
            self.seed_at(clause.handler.start, height)?;
        }
        Ok(())
    }

    fn seed_at(&mut self, offset: u32, height: u16) -> Result<(), StackError> {
        self.max = self.max.max(height);
        let slot = self.heights.get_mut(offset as usize).ok_or(StackError::Target { offset, target: offset })?;
        match *slot {
            UNREACHED => *slot = height,
            first if first != height => {
                return Err(StackError::Mismatch { to: offset, from: offset, first, second: height });
            }
            _ => {}
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), StackError> {
        let code = self.code;
        let mut offset = 0;
        // One pass settles all code that compilers write, except loops that are entered in the middle.
        while (offset as usize) < code.len() {
            let instruction = Instruction::decode(code, offset)?;
            let end = instruction.end();
            if instruction.size > 1 {
                self.mark_inside(offset, end)?;
            }
            self.note(&instruction);
            match self.height(offset) {
                Some(height) => self.step(&instruction, height, end)?,
                None => self.seen.dead = true,
            }
            offset = end;
        }
        while let Some(mut offset) = self.pending.pop() {
            // On from here until known ground.
            while let Some(height) = self.height(offset) {
                let instruction = Instruction::decode(code, offset)?;
                let end = instruction.end();
                let known = self.height(end).is_some();
                self.step(&instruction, height, 0)?;
                if known || !instruction.opcode.flow().continues() {
                    break;
                }
                offset = end;
            }
        }
        Ok(())
    }

    /// Nobody may have gone into the middle of an instruction, and nobody may later.
    #[inline]
    fn mark_inside(&mut self, offset: u32, end: u32) -> Result<(), StackError> {
        let inside = self.heights.get_mut(offset as usize + 1..end as usize).unwrap_or_default();
        for (target, slot) in (offset + 1..).zip(inside) {
            if *slot != UNREACHED {
                return Err(StackError::Target { offset, target });
            }
            *slot = INSIDE;
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, instruction: &Instruction<'_>) {
        let opcode = instruction.opcode;
        match opcode.operand() {
            OperandKind::None | OperandKind::Argument8 | OperandKind::Argument16 => {
                if let Some(index) = instruction.argument() {
                    self.seen.arguments = self.seen.arguments.max(u32::from(index) + 1);
                } else if let Some(index) = opcode.implied_local() {
                    self.seen.locals = self.seen.locals.max(u32::from(index) + 1);
                }
            }
            OperandKind::Local8 | OperandKind::Local16 => {
                if let Some(index) = instruction.local() {
                    self.seen.locals = self.seen.locals.max(u32::from(index) + 1);
                }
            }
            _ => {}
        }
        let everywhere = match opcode.flow() {
            Flow::Prefix | Flow::EndFinally | Flow::EndFilter => false,
            Flow::Throw => opcode != Opcode::Rethrow,
            Flow::Next => opcode != Opcode::Localloc,
            _ => true,
        };
        self.seen.special |= !everywhere;
    }

    #[inline]
    fn height(&self, offset: u32) -> Option<u16> {
        self.heights.get(offset as usize).copied().filter(|&height| u32::from(height) <= LIMIT)
    }

    /// Pops and pushes of an instruction.
    #[inline]
    fn effect(&self, instruction: &Instruction<'_>) -> Result<(u32, u32), StackError> {
        let opcode = instruction.opcode;
        if let (Some(pops), Some(pushes)) = (opcode.pops(), opcode.pushes()) {
            return Ok((pops.into(), pushes.into()));
        }
        if opcode == Opcode::Ret {
            return Ok((self.returns.into(), 0));
        }
        let token = instruction.token().unwrap_or_default();
        let unknown = StackError::UnknownCall { offset: instruction.offset, token };
        let effect = self.tokens.call_effect(token).ok_or(unknown)?;
        let parameters = u32::from(effect.parameters);
        let this = u32::from(effect.has_this);
        Ok(match opcode {
            Opcode::Newobj => (parameters, 1),
            Opcode::Calli => (parameters + this + 1, effect.returns.into()),
            _ => (parameters + this, effect.returns.into()),
        })
    }

    /// Passes the height on to all that may follow. `passed` is the end of the code that the first pass has been
    /// through; what it goes on to needs no second visit.
    #[inline]
    fn step(&mut self, instruction: &Instruction<'_>, height: u16, passed: u32) -> Result<(), StackError> {
        let offset = instruction.offset;
        let (pops, pushes) = self.effect(instruction)?;
        let rest = u32::from(height).checked_sub(pops).ok_or(StackError::Underflow { offset, pops, height })?;
        let after = rest + pushes;
        if after > LIMIT {
            return Err(StackError::Overflow { offset });
        }
        let after = after as u16;
        self.max = self.max.max(after);
        let flow = instruction.opcode.flow();
        match flow {
            Flow::Return | Flow::Jump | Flow::EndFilter if after != 0 => {
                return Err(StackError::NotEmpty { offset, height: after });
            }
            Flow::Branch | Flow::Conditional | Flow::Leave => {
                let brought = if flow == Flow::Leave { 0 } else { after };
                for target in instruction.targets() {
                    self.join(offset, target, brought, passed)?;
                }
            }
            _ => {}
        }
        if flow.continues() {
            let end = instruction.end();
            match self.heights.get_mut(end as usize) {
                None => return Err(StackError::FallsOff { offset }),
                Some(slot) if *slot == UNREACHED => *slot = after,
                Some(&mut first) if first != after => {
                    return Err(StackError::Mismatch { to: end, from: offset, first, second: after });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn join(&mut self, offset: u32, target: u32, height: u16, passed: u32) -> Result<(), StackError> {
        let slot = self.heights.get_mut(target as usize).ok_or(StackError::Target { offset, target })?;
        match *slot {
            UNREACHED => {
                *slot = height;
                if passed == 0 || target < passed {
                    self.pending.push(target);
                }
                if target <= offset && height != 0 && self.backward.is_none() {
                    self.backward = Some(BackwardBranch { offset, target });
                }
                Ok(())
            }
            INSIDE => Err(StackError::Target { offset, target }),
            first if first != height => Err(StackError::Mismatch { to: target, from: offset, first, second: height }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeRange, MethodHeader};
    use std::borrow::Cow;

    /// Token 1 is `int M(int)`, 2 is `instance void M(int, int)`.
    struct Two;

    impl Tokens for Two {
        fn call_effect(&self, token: Token) -> Option<CallEffect> {
            match token.0 {
                1 => Some(CallEffect { has_this: false, parameters: 1, returns: true }),
                2 => Some(CallEffect { has_this: true, parameters: 2, returns: false }),
                _ => None,
            }
        }
    }

    fn heights(code: &[u8], returns: bool, clauses: Vec<ExceptionClause>) -> Result<StackHeights, StackError> {
        let body = MethodBody { header: MethodHeader::default(), code: Cow::Borrowed(code), clauses };
        StackHeights::compute(&body, returns, &Two)
    }

    fn max(code: &[u8], returns: bool) -> Result<u16, StackError> {
        heights(code, returns, Vec::new()).map(|heights| heights.max())
    }

    #[test]
    fn straight_lines_and_calls() {
        assert_eq!(max(&[0x2a], false), Ok(0));
        assert_eq!(max(&[0x17, 0x28, 1, 0, 0, 0, 0x2a], true), Ok(1));
        assert_eq!(max(&[0x17, 0x25, 0x25, 0x28, 2, 0, 0, 0, 0x2a], false), Ok(3));
        assert_eq!(max(&[0x17, 0x25, 0x73, 2, 0, 0, 0, 0x2a], true), Ok(2));
        assert_eq!(max(&[0x17, 0x25, 0x29, 1, 0, 0, 0, 0x2a], true), Ok(2));
        let unknown = StackError::UnknownCall { offset: 0, token: Token(9) };
        assert_eq!(max(&[0x28, 9, 0, 0, 0, 0x2a], false), Err(unknown));
        assert_eq!(max(&[0x26, 0x2a], false), Err(StackError::Underflow { offset: 0, pops: 1, height: 0 }));
        assert_eq!(max(&[0x17, 0x2a], false), Err(StackError::NotEmpty { offset: 1, height: 1 }));
        assert_eq!(max(&[0x00], false), Err(StackError::FallsOff { offset: 0 }));
        assert_eq!(max(&[], false), Err(StackError::FallsOff { offset: 0 }));
    }

    #[test]
    fn joins() {
        // ldc 1; brtrue +1; ldc 1; ret
        let mismatch = StackError::Mismatch { to: 4, from: 3, first: 0, second: 1 };
        assert_eq!(max(&[0x17, 0x2d, 1, 0x17, 0x2a], false), Err(mismatch));
        assert_eq!(max(&[0x2b, 1, 0x20, 0, 0, 0, 0, 0x2a], false), Err(StackError::Target { offset: 2, target: 3 }));
        assert_eq!(max(&[0x20, 0, 0, 0, 0, 0x2b, 0xfa], false), Err(StackError::Target { offset: 5, target: 1 }));
        assert_eq!(max(&[0x2b, 9], false), Err(StackError::Target { offset: 0, target: 11 }));
    }

    #[test]
    fn code_that_is_only_reached_backwards() {
        // br L2; L1: pop; ret; L2: ldc 1; br L1
        let found = heights(&[0x2b, 2, 0x26, 0x2a, 0x17, 0x2b, 0xfb], false, Vec::new()).unwrap();
        assert_eq!(found.backward_branch(), Some(BackwardBranch { offset: 5, target: 2 }));
        assert_eq!(found.before(2), Some(1));
        // With nothing on the stack it is allowed, and followed: L1 needs two values.
        let found = heights(&[0x2b, 5, 0x17, 0x17, 0x26, 0x26, 0x2a, 0x2b, 0xf9], false, Vec::new()).unwrap();
        assert_eq!((found.backward_branch(), found.max()), (None, 2));
    }

    #[test]
    fn dead_code_is_not_followed() {
        let found = heights(&[0x2a, 0x26, 0x2a], false, Vec::new()).unwrap();
        assert_eq!((found.before(0), found.before(1), found.max()), (Some(0), None, 0));
    }

    #[test]
    fn handlers_start_with_the_exception() {
        // leave +3; pop; leave +0; ret
        let code = [0xde, 3, 0x26, 0xde, 0, 0x2a];
        let clause = ExceptionClause {
            kind: ClauseKind::Catch(Token(0x0100_0001)),
            try_block: CodeRange { start: 0, end: 2 },
            handler: CodeRange { start: 2, end: 5 },
        };
        assert_eq!(heights(&code, false, vec![clause]).unwrap().max(), 1);
        let finally = ExceptionClause { kind: ClauseKind::Finally, ..clause };
        assert!(matches!(heights(&code, false, vec![finally]), Err(StackError::Underflow { offset: 2, .. })));
        let outside = ExceptionClause { handler: CodeRange { start: 6, end: 7 }, ..clause };
        assert!(matches!(heights(&code, false, vec![outside]), Err(StackError::Target { target: 6, .. })));
    }
}
