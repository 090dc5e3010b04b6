//! How many values are on the evaluation stack at each instruction. Source: ECMA-335 III.1.7.

mod error;
mod rules;

pub use error::StackError;
pub(crate) use rules::Rules;

use crate::opcode::Step;
use crate::{
    ClauseKind, ExceptionClause, Flow, Instruction, MethodBody, Opcode, Token, instructions,
};
use rules::NoRules;

/// What a call does to the stack. `newobj` takes no `this` and always gives a value; `calli` takes
/// the function pointer besides.
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
    /// What a call of the method (`MethodDef`, `MemberRef`, `MethodSpec`) or signature
    /// (stand-alone) does to the stack; `None` if there is no such thing. See
    /// [`crate::MethodSig::call_effect`].
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

/// No way to this instruction is known (yet).
const UNREACHED: u16 = u16::MAX;
/// No instruction is known to start here: it is inside of one, or the pass has not come here.
const INSIDE: u16 = u16::MAX - 1;
/// Highest stack that is not one of the marks above.
const LIMIT: u32 = u16::MAX as u32 - 2;
/// The height where no way leads to. Too high, whatever an instruction takes off it.
const DEAD: u32 = u32::MAX / 2;

/// The height of the stack before each instruction that can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackHeights {
    /// By offset.
    heights: Vec<u16>,
    max: u16,
    backward: Option<BackwardBranch>,
    leaps: bool,
}

/// A branch that brings values to an earlier instruction which no earlier way leads to. ECMA-335
/// III.1.7.5 forbids it, so that one pass over the code can tell all heights; the runtime does not
/// mind.
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
    /// The first contradiction on a way that can be taken. Code that cannot be reached is only
    /// decoded.
    pub fn compute(
        body: &MethodBody<'_>,
        returns: bool,
        tokens: &impl Tokens,
    ) -> Result<Self, StackError> {
        let mut heights = Self::default();
        heights.walk(body, returns, tokens, &mut NoRules, &mut Vec::new())?;
        Ok(heights)
    }

    /// The same into what is there already, whose room is used again, and by more rules. `pending`
    /// is only room.
    pub(crate) fn walk<R: Rules>(
        &mut self,
        body: &MethodBody<'_>,
        returns: bool,
        tokens: &impl Tokens,
        rules: &mut R,
        pending: &mut Vec<u32>,
    ) -> Result<(), R::Error> {
        self.heights.clear();
        self.heights.resize(body.code.len(), INSIDE);
        pending.clear();
        let mut walk = Walk {
            code: &body.code,
            tokens,
            returns,
            heights: &mut self.heights,
            max: 0,
            ahead: 0,
            pending,
            backward: None,
            leaps: false,
        };
        walk.seed(&body.clauses)?;
        walk.pass(rules)?;
        walk.go_back()?;
        (self.max, self.backward, self.leaps) = (walk.max, walk.backward, walk.leaps);
        Ok(())
    }

    /// The highest stack.
    #[must_use]
    pub const fn max(&self) -> u16 {
        self.max
    }

    /// Values on the stack before the instruction at `offset`; `None` if control does not get there
    /// or no instruction starts there.
    #[must_use]
    pub fn before(&self, offset: u32) -> Option<u16> {
        self.heights.get(offset as usize).copied().filter(|&height| u32::from(height) <= LIMIT)
    }

    /// Whether there is code that no way from in front leads to.
    pub(crate) const fn has_leaps(&self) -> bool {
        self.leaps
    }

    /// Whether an instruction starts at `offset`.
    pub(crate) fn is_start(&self, offset: u32) -> bool {
        self.heights.get(offset as usize).is_some_and(|&height| height != INSIDE)
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
pub fn max_stack(
    body: &MethodBody<'_>,
    returns: bool,
    tokens: &impl Tokens,
) -> Result<u16, StackError> {
    StackHeights::compute(body, returns, tokens).map(|heights| heights.max)
}

struct Walk<'a, T> {
    code: &'a [u8],
    tokens: &'a T,
    returns: bool,
    heights: &'a mut [u16],
    max: u16,
    /// Offsets with a height that the pass over the code has not come to.
    ahead: u32,
    /// Instructions with a known height that the pass over the code has already gone by.
    pending: &'a mut Vec<u32>,
    backward: Option<BackwardBranch>,
    /// There was an instruction that the pass found no way to.
    leaps: bool,
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
        let slot = self
            .heights
            .get_mut(offset as usize)
            .ok_or(StackError::Target { offset, target: offset })?;
        match *slot {
            INSIDE => {
                *slot = height;
                self.ahead += 1;
            }
            first if first != height => {
                return Err(StackError::Mismatch {
                    to: offset,
                    from: offset,
                    first,
                    second: height,
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Goes over the code once. That settles all code that compilers write, except loops that are
    /// entered in the middle.
    fn pass<R: Rules>(&mut self, rules: &mut R) -> Result<(), R::Error> {
        let code = self.code;
        let marks = Step::ODD | rules.marks();
        // The last instruction is looked at more closely anyway: none may reach over the end.
        let size = u32::try_from(code.len()).unwrap_or(0);
        let mut calm_until = rules.calm_until().min(size);
        let (mut offset, mut previous, mut height) = (0, 0, DEAD);
        while let (Some(&first), Some(slot)) =
            (code.get(offset as usize), self.heights.get_mut(offset as usize))
        {
            match *slot {
                INSIDE if height == DEAD => {
                    *slot = UNREACHED;
                    self.leaps = true;
                }
                INSIDE => *slot = height as u16,
                known => {
                    self.ahead -= 1;
                    if height != known.into() && height != DEAD {
                        return Err(mismatch(previous, offset, known, height).into());
                    }
                    height = known.into();
                }
            }
            previous = offset;
            let step = Step::of(first);
            let end = offset.wrapping_add(step.size.into());
            let rest = height.wrapping_sub(step.pops.into());
            if end < calm_until {
                // No instruction without a mark puts more than two values.
                if step.marks & marks == 0 && rest <= LIMIT - 2 {
                    height = rest + u32::from(step.pushes);
                    self.max = self.max.max(height as u16);
                    offset = end;
                    continue;
                }
                if let Some(after) = self.behind(step, offset, height, end, marks, rules)? {
                    height = after;
                    offset = end;
                    continue;
                }
            }
            if end <= calm_until
                && step.marks & Step::ENDS != 0
                && self.ends(first, offset, height, end, rules)?
            {
                calm_until = rules.calm_until().min(size);
                height = DEAD;
                offset = end;
                continue;
            }
            let instruction = Instruction::decode(code, offset).map_err(StackError::from)?;
            let end = instruction.end();
            let before = if height == DEAD { None } else { Some(height as u16) };
            if let Some(before) = before {
                height = self.step(&instruction, before, end)?.into();
                if instruction.opcode.flow().continues() {
                    self.go_on(offset, end, height)?;
                } else {
                    height = DEAD;
                }
            }
            rules.check(&instruction, before)?;
            calm_until = rules.calm_until().min(size);
            offset = end;
        }
        if self.ahead == 0 { Ok(()) } else { Err(self.led_inside().into()) }
    }

    /// Whether a height may be carried on to the instruction behind. Otherwise that is said before
    /// what rules say.
    fn go_on(&self, offset: u32, end: u32, height: u32) -> Result<(), StackError> {
        match self.heights.get(end as usize) {
            None => Err(StackError::FallsOff { offset }),
            Some(&known) if known != INSIDE && height != known.into() => {
                Err(mismatch(offset, end, known, height))
            }
            Some(_) => Ok(()),
        }
    }

    /// Follows the ways into code that the pass found no way to.
    fn go_back(&mut self) -> Result<(), StackError> {
        while let Some(mut offset) = self.pending.pop() {
            // On from here until known ground.
            while let (Some(&height), Some(&first)) =
                (self.heights.get(offset as usize), self.code.get(offset as usize))
            {
                let step = Step::of(first);
                let mut end = offset + u32::from(step.size);
                let after = match self.behind(
                    step,
                    offset,
                    height.into(),
                    u32::MAX,
                    Step::ODD,
                    &NoRules,
                )? {
                    Some(DEAD) => break,
                    Some(after) => after as u16,
                    None => {
                        let instruction = Instruction::decode(self.code, offset)?;
                        let after = self.step(&instruction, height, u32::MAX)?;
                        if !instruction.opcode.flow().continues() {
                            break;
                        }
                        end = instruction.end();
                        after
                    }
                };
                match self.heights.get_mut(end as usize) {
                    None => return Err(StackError::FallsOff { offset }),
                    Some(slot) if *slot == UNREACHED => *slot = after,
                    Some(&mut first) if first != after => {
                        return Err(StackError::Mismatch {
                            to: end,
                            from: offset,
                            first,
                            second: after,
                        });
                    }
                    Some(_) => break,
                }
                offset = end;
            }
        }
        Ok(())
    }

    /// Finds the instruction into whose middle a branch or clause leads.
    fn led_inside(&self) -> StackError {
        for instruction in instructions(self.code).map_while(Result::ok) {
            let offset = instruction.offset;
            let inside = self
                .heights
                .get(offset as usize + 1..instruction.end() as usize)
                .unwrap_or_default();
            if let Some(index) = inside.iter().position(|&height| height != INSIDE) {
                return StackError::Target { offset, target: offset + 1 + index as u32 };
            }
        }
        // Not reached: what is ahead was counted where it is.
        StackError::Target { offset: 0, target: self.code.len() as u32 }
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
        self.call(opcode, token).ok_or(unknown)
    }

    /// Pops and pushes of a call.
    #[inline]
    fn call(&self, opcode: Opcode, token: Token) -> Option<(u32, u32)> {
        let effect = self.tokens.call_effect(token)?;
        let parameters = u32::from(effect.parameters);
        let this = u32::from(effect.has_this);
        Some(match opcode {
            Opcode::Newobj => (parameters, 1),
            Opcode::Calli => (parameters + this + 1, effect.returns.into()),
            _ => (parameters + this, effect.returns.into()),
        })
    }

    /// The height behind the instruction at `offset` if it is one of those that are frequent and
    /// easily followed, and nothing is wrong with it; `None` otherwise. `passed` is as in
    /// [`Walk::step`]; others with one of `marks` are not followed.
    #[inline]
    fn behind<R: Rules>(
        &mut self,
        step: Step,
        offset: u32,
        height: u32,
        passed: u32,
        marks: u16,
        rules: &R,
    ) -> Result<Option<u32>, StackError> {
        let rest = self.code.get(offset as usize..).unwrap_or_default();
        let Some(&[first, index, b1, b2, b3]) = rest.first_chunk() else { return Ok(None) };
        let operand = [index, b1, b2, b3];
        let mut effect = Some((step.pops.into(), step.pushes.into()));
        if step.marks & Step::CALLS != 0 {
            if height != DEAD {
                effect = Opcode::decode(&[first])
                    .and_then(|call| self.call(call, Token(u32::from_le_bytes(operand))));
            }
        } else if step.marks & (Step::ARGUMENT | Step::LOCAL) != 0 {
            effect = effect.filter(|_| rules.has(step, index));
        } else if step.marks & marks != 0 && step.marks & Step::BRANCHES == 0 {
            return Ok(None);
        }
        let after = match effect {
            // Where no way leads to, nothing is followed.
            Some(_) if height == DEAD => DEAD,
            Some((pops, pushes)) if height >= pops && height - pops + pushes <= LIMIT => {
                height - pops + pushes
            }
            _ => return Ok(None),
        };
        if step.marks & Step::BRANCHES != 0 {
            let target = self.target(offset, offset + u32::from(step.size));
            let Some(target) = target.filter(|&target| rules.is_calm(target)) else {
                return Ok(None);
            };
            if height != DEAD {
                self.join(offset, target, after as u16, passed)?;
            }
            if step.pops == 0 {
                return Ok(Some(DEAD));
            }
        }
        if height != DEAD {
            self.max = self.max.max(after as u16);
        }
        Ok(Some(after))
    }

    /// Where the branch from `offset` to `end` leads; `None` if it is no branch to a single target.
    #[inline]
    fn target(&self, offset: u32, end: u32) -> Option<u32> {
        let distance = match *self.code.get(offset as usize + 1..end as usize)? {
            [distance] => distance.cast_signed().into(),
            [b0, b1, b2, b3] => i32::from_le_bytes([b0, b1, b2, b3]),
            _ => return None,
        };
        Some(end.wrapping_add_signed(distance))
    }

    /// Whether nothing is wrong with the instruction at `offset`, which has [`Step::ENDS`], so that
    /// it is done with.
    #[inline]
    fn ends<R: Rules>(
        &mut self,
        first: u8,
        offset: u32,
        height: u32,
        end: u32,
        rules: &mut R,
    ) -> Result<bool, StackError> {
        let Some(opcode) = Opcode::decode(&[first]) else { return Ok(false) };
        let is_good = match opcode.flow() {
            Flow::Return => height == self.returns.into(),
            Flow::Throw => (1..DEAD).contains(&height),
            _ => height != DEAD,
        };
        if !is_good {
            return Ok(false);
        }
        let target = self.target(offset, end);
        if !rules.ends(opcode, target, end) {
            return Ok(false);
        }
        target.map_or(Ok(()), |target| self.join(offset, target, 0, end))?;
        Ok(true)
    }

    /// Takes a height through an instruction and to its targets; gives the one behind it. `passed`
    /// is the end of the code that the pass has been through: what comes later needs no second
    /// visit.
    #[inline]
    fn step(
        &mut self,
        instruction: &Instruction<'_>,
        height: u16,
        passed: u32,
    ) -> Result<u16, StackError> {
        let offset = instruction.offset;
        let (pops, pushes) = self.effect(instruction)?;
        let rest = u32::from(height).checked_sub(pops).ok_or(StackError::Underflow {
            offset,
            pops,
            height,
        })?;
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
        Ok(after)
    }

    fn join(
        &mut self,
        offset: u32,
        target: u32,
        height: u16,
        passed: u32,
    ) -> Result<(), StackError> {
        let slot =
            self.heights.get_mut(target as usize).ok_or(StackError::Target { offset, target })?;
        match *slot {
            INSIDE if target < passed => Err(StackError::Target { offset, target }),
            INSIDE => {
                *slot = height;
                self.ahead += 1;
                Ok(())
            }
            UNREACHED => {
                *slot = height;
                self.pending.push(target);
                if target <= offset && height != 0 && self.backward.is_none() {
                    self.backward = Some(BackwardBranch { offset, target });
                }
                Ok(())
            }
            first if first != height => {
                Err(StackError::Mismatch { to: target, from: offset, first, second: height })
            }
            _ => Ok(()),
        }
    }
}

fn mismatch(from: u32, to: u32, first: u16, second: u32) -> StackError {
    StackError::Mismatch { to, from, first, second: second as u16 }
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

    fn heights(
        code: &[u8],
        returns: bool,
        clauses: Vec<ExceptionClause>,
    ) -> Result<StackHeights, StackError> {
        let body =
            MethodBody { header: MethodHeader::default(), code: Cow::Borrowed(code), clauses };
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
        assert_eq!(
            max(&[0x26, 0x2a], false),
            Err(StackError::Underflow { offset: 0, pops: 1, height: 0 })
        );
        assert_eq!(max(&[0x17, 0x2a], false), Err(StackError::NotEmpty { offset: 1, height: 1 }));
        assert_eq!(max(&[0x00], false), Err(StackError::FallsOff { offset: 0 }));
        assert_eq!(max(&[], false), Err(StackError::FallsOff { offset: 0 }));
    }

    #[test]
    fn joins() {
        // ldc 1; brtrue +1; ldc 1; ret
        let mismatch = StackError::Mismatch { to: 4, from: 3, first: 0, second: 1 };
        assert_eq!(max(&[0x17, 0x2d, 1, 0x17, 0x2a], false), Err(mismatch));
        assert_eq!(
            max(&[0x2b, 1, 0x20, 0, 0, 0, 0, 0x2a], false),
            Err(StackError::Target { offset: 2, target: 3 })
        );
        assert_eq!(
            max(&[0x20, 0, 0, 0, 0, 0x2b, 0xfa], false),
            Err(StackError::Target { offset: 5, target: 1 })
        );
        assert_eq!(max(&[0x2b, 9], false), Err(StackError::Target { offset: 0, target: 11 }));
    }

    #[test]
    fn code_that_is_only_reached_backwards() {
        // br L2; L1: pop; ret; L2: ldc 1; br L1
        let found = heights(&[0x2b, 2, 0x26, 0x2a, 0x17, 0x2b, 0xfb], false, Vec::new()).unwrap();
        assert_eq!(found.backward_branch(), Some(BackwardBranch { offset: 5, target: 2 }));
        assert_eq!(found.before(2), Some(1));
        // With nothing on the stack it is allowed, and followed: L1 needs two values.
        let found =
            heights(&[0x2b, 5, 0x17, 0x17, 0x26, 0x26, 0x2a, 0x2b, 0xf9], false, Vec::new())
                .unwrap();
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
        assert!(matches!(
            heights(&code, false, vec![finally]),
            Err(StackError::Underflow { offset: 2, .. })
        ));
        let outside = ExceptionClause { handler: CodeRange { start: 6, end: 7 }, ..clause };
        assert!(matches!(
            heights(&code, false, vec![outside]),
            Err(StackError::Target { target: 6, .. })
        ));
    }
}
