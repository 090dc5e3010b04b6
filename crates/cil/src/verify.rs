//! Whether a body is well formed: everything that the runtime checks without looking at types, so
//! that a body which passes is not turned down by the JIT for its structure. Sources: ECMA-335
//! I.12.4.2.8, III.1.7, III.2, II.19 and the importer of the JIT of dotnet/runtime.

mod error;
mod prefixes;

pub use error::VerifyError;

use crate::opcode::Step;
use crate::regions::{ROOT, RegionKind, Regions};
use crate::stack::Rules;
use crate::{Flow, Instruction, MethodBody, MethodShape, Opcode, StackError, StackHeights, Tokens};
use prefixes::Prefixes;

/// Checks the structure of a body; gives the height of the stack everywhere. Types are not looked
/// at.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify(
    body: &MethodBody<'_>,
    shape: MethodShape,
    tokens: &impl Tokens,
) -> Result<StackHeights, VerifyError> {
    let mut verifier = Verifier::default();
    verifier.verify(body, shape, tokens)?;
    Ok(verifier.heights)
}

/// Checks many bodies, one after the other, in the same room: what [`verify()`] does, without a new
/// piece of memory for each.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    regions: Regions,
    heights: StackHeights,
    pending: Vec<u32>,
    behind_prefixes: Vec<u32>,
}

impl Verifier {
    /// One without any room yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks the structure of a body; gives its highest stack. Types are not looked at.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(
        &mut self,
        body: &MethodBody<'_>,
        shape: MethodShape,
        tokens: &impl Tokens,
    ) -> Result<u16, VerifyError> {
        let needed = self.verify_stack_apart(body, shape, tokens)?;
        let declared = body.header.max_stack;
        if needed > declared { Err(VerifyError::MaxStack { needed, declared }) } else { Ok(needed) }
    }

    /// The same, whatever the header says about the stack: gives what it has to say.
    pub(crate) fn verify_stack_apart(
        &mut self,
        body: &MethodBody<'_>,
        shape: MethodShape,
        tokens: &impl Tokens,
    ) -> Result<u16, VerifyError> {
        let code_size = u32::try_from(body.code.len()).unwrap_or(u32::MAX);
        // First, because the messages about ranges are better than what their consequences would
        // give.
        self.regions.rebuild(&body.clauses, code_size)?;
        self.behind_prefixes.clear();
        let mut check = Check::new(&self.regions, shape, code_size, &mut self.behind_prefixes);
        self.heights.walk(body, shape.returns, tokens, &mut check, &mut self.pending)?;
        if let Some(branch) = self.heights.backward_branch() {
            return Err(VerifyError::BackwardBranch {
                offset: branch.offset,
                target: branch.target,
            });
        }
        for region in self.regions.inner() {
            let offset = region.range.start;
            if let (RegionKind::Try, Some(height @ 1..)) =
                (region.kind, self.heights.before(offset))
            {
                return Err(VerifyError::TryEntry { offset, height });
            }
        }
        // Few bodies have prefixes or code that the walk found no way to.
        if self.heights.has_leaps() || !self.behind_prefixes.is_empty() {
            self.look_again(&body.code)?;
        }
        Ok(self.heights.max())
    }

    /// Looks for what shows only when the whole code is known: whether branches out of dead code
    /// lead to instructions, whether any lead behind a prefix, and how high the stack is where only
    /// a way back leads.
    fn look_again(&self, code: &[u8]) -> Result<(), VerifyError> {
        let mut next = 0;
        while let Some(&first) = code.get(next as usize) {
            let step = Step::of(first);
            // Neither a branch nor of two bytes.
            if step.marks & Step::TURNS == 0 {
                next += u32::from(step.size);
                continue;
            }
            let instruction = Instruction::decode(code, next).map_err(StackError::from)?;
            next = instruction.end();
            let Instruction { offset, opcode, .. } = instruction;
            for target in instruction.targets() {
                if !self.heights.is_start(target)
                    || self.behind_prefixes.binary_search(&target).is_ok()
                {
                    return Err(VerifyError::Target { offset, target });
                }
            }
            if opcode == Opcode::Localloc
                && self.heights.before(offset).is_some_and(|height| height != 1)
            {
                return Err(VerifyError::Misplaced { offset, opcode });
            }
        }
        Ok(())
    }

    /// The stack before each instruction of the body that was checked last.
    #[must_use]
    pub const fn heights(&self) -> &StackHeights {
        &self.heights
    }
}

/// What is asked of each instruction in its place, while the walk for the stack passes over it.
struct Check<'a> {
    regions: &'a Regions,
    shape: MethodShape,
    code_size: u32,
    /// The region that the instruction is in.
    region: u32,
    /// The one that starts next.
    next: u32,
    /// From here to the next border, or the end of the code, all is in that region.
    since: u32,
    border: u32,
    prefixes: Prefixes,
    /// A call behind `tail.`: `ret` has to follow.
    tail_call: Option<u32>,
    /// Where no branch may lead, in order.
    behind_prefixes: &'a mut Vec<u32>,
}

impl Rules for Check<'_> {
    type Error = VerifyError;

    fn marks(&self) -> u16 {
        Step::beyond(self.shape.arguments, self.shape.locals)
    }

    #[inline]
    fn calm_until(&self) -> u32 {
        if self.is_behind_prefix() { 0 } else { self.border }
    }

    #[inline]
    fn is_calm(&self, target: u32) -> bool {
        (self.since..self.border).contains(&target)
    }

    #[inline]
    fn ends(&mut self, opcode: Opcode, target: Option<u32>, end: u32) -> bool {
        let is_allowed = match opcode.flow() {
            Flow::Return => self.region == ROOT,
            Flow::EndFinally => self.regions.get(self.region).kind == RegionKind::Finally,
            _ => target.is_none_or(|target| {
                self.regions.at(target).is_some_and(|to| self.may_leave(self.region, to, target))
            }),
        };
        if is_allowed && end >= self.border && end < self.code_size {
            self.settle(end);
        }
        is_allowed
    }

    #[inline]
    fn has(&self, step: Step, index: u8) -> bool {
        let count =
            if step.marks & Step::ARGUMENT != 0 { self.shape.arguments } else { self.shape.locals };
        u16::from(index) < count
    }

    #[inline]
    fn check(
        &mut self,
        instruction: &Instruction<'_>,
        height: Option<u16>,
    ) -> Result<(), VerifyError> {
        if instruction.end() > self.border {
            return Err(VerifyError::ClauseBoundary { offset: instruction.offset });
        }
        if self.is_behind_prefix() || instruction.opcode.flow() == Flow::Prefix {
            self.check_prefix(instruction)?;
        }
        self.check_index(instruction)?;
        self.check_flow(instruction, height)?;
        if instruction.end() >= self.border {
            self.cross(instruction)?;
        }
        Ok(())
    }
}

impl<'a> Check<'a> {
    fn new(
        regions: &'a Regions,
        shape: MethodShape,
        code_size: u32,
        behind_prefixes: &'a mut Vec<u32>,
    ) -> Self {
        let mut check = Self {
            regions,
            shape,
            code_size,
            region: ROOT,
            next: ROOT + 1,
            since: 0,
            border: 0,
            prefixes: Prefixes::default(),
            tail_call: None,
            behind_prefixes,
        };
        check.settle(0);
        check
    }

    /// Finds the region at `offset`, where one starts or ends, and the next border.
    fn settle(&mut self, offset: u32) {
        while self.region != ROOT && self.regions.get(self.region).range.end <= offset {
            self.region = self.regions.get(self.region).parent;
        }
        let mut start = None;
        while (self.next as usize) < self.regions.len() {
            start = Some(self.regions.get(self.next).range.start).filter(|&start| start > offset);
            if start.is_some() {
                break;
            }
            self.region = self.next;
            self.next += 1;
        }
        // The innermost region ends first.
        let end = Some(self.regions.get(self.region).range.end).filter(|_| self.region != ROOT);
        self.since = offset;
        self.border = start.into_iter().chain(end).min().unwrap_or(self.code_size);
    }

    /// An instruction at a border, or at the end of the code.
    fn cross(&mut self, instruction: &Instruction<'_>) -> Result<(), VerifyError> {
        let (offset, end, from) = (instruction.offset, instruction.end(), self.region);
        if end < self.code_size {
            self.settle(end);
        }
        let stays = end < self.code_size && self.may_enter(from, self.region, end);
        if instruction.opcode.flow().continues() && !stays {
            return Err(VerifyError::FallThrough { offset });
        }
        Ok(())
    }

    /// Whether the next instruction is behind a prefix, or behind a `tail.` call.
    const fn is_behind_prefix(&self) -> bool {
        self.prefixes.count != 0 || self.tail_call.is_some()
    }

    /// An instruction that is a prefix, or behind one, or behind a `tail.` call.
    fn check_prefix(&mut self, instruction: &Instruction<'_>) -> Result<(), VerifyError> {
        let Instruction { offset, opcode, .. } = *instruction;
        if let Some(call) = self.tail_call.take()
            && opcode != Opcode::Ret
        {
            return Err(VerifyError::Misplaced { offset: call, opcode: Opcode::Tail });
        }
        if self.prefixes.count > 0 {
            self.behind_prefixes.push(offset);
        }
        if opcode.flow() == Flow::Prefix {
            return self.prefixes.add(instruction);
        }
        let prefixes = std::mem::take(&mut self.prefixes);
        if prefixes.has(Opcode::Tail) {
            self.tail_call = Some(offset);
        }
        prefixes.check(offset, opcode)
    }

    fn check_index(&self, instruction: &Instruction<'_>) -> Result<(), VerifyError> {
        let offset = instruction.offset;
        if let Some(index) = instruction.argument()
            && index >= self.shape.arguments
        {
            return Err(VerifyError::Argument { offset, index, count: self.shape.arguments });
        }
        if let Some(index) = instruction.local()
            && index >= self.shape.locals
        {
            return Err(VerifyError::Local { offset, index, count: self.shape.locals });
        }
        Ok(())
    }

    fn check_flow(
        &self,
        instruction: &Instruction<'_>,
        height: Option<u16>,
    ) -> Result<(), VerifyError> {
        let Instruction { offset, opcode, .. } = *instruction;
        let region = self.region;
        let misplaced = Err(VerifyError::Misplaced { offset, opcode });
        match opcode.flow() {
            Flow::Branch | Flow::Conditional | Flow::Leave => {
                for target in instruction.targets() {
                    if self.is_calm(target) {
                        continue;
                    }
                    let to =
                        self.regions.at(target).ok_or(VerifyError::Target { offset, target })?;
                    let leaves = opcode.flow() == Flow::Leave;
                    let may = if leaves { Self::may_leave } else { Self::may_enter };
                    if !may(self, region, to, target) {
                        return Err(VerifyError::BranchAcross { offset, target });
                    }
                }
            }
            Flow::Return | Flow::Jump if region != ROOT => return misplaced,
            Flow::EndFinally if self.regions.get(region).kind != RegionKind::Finally => {
                return misplaced;
            }
            // A filter ends with the only `endfilter` in it.
            Flow::EndFilter => {
                let region = self.regions.get(region);
                if region.kind != RegionKind::Filter || region.range.end != instruction.end() {
                    return misplaced;
                }
            }
            Flow::Throw if opcode == Opcode::Rethrow && !self.may_rethrow(region) => {
                return misplaced;
            }
            Flow::Next
                if opcode == Opcode::Localloc
                    && (height.is_some_and(|height| height != 1)
                        || !self.only_inside_tries(region)) =>
            {
                return misplaced;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a branch out of region `from` may lead to `target` in region `to`: only inwards, and
    /// only to the first instruction of each try block on the way.
    fn may_enter(&self, from: u32, mut to: u32, target: u32) -> bool {
        while to != from {
            let region = self.regions.get(to);
            if to == ROOT || region.kind != RegionKind::Try || region.range.start != target {
                return false;
            }
            to = region.parent;
        }
        true
    }

    /// The same for `leave`, which may go outwards first: out of try blocks and catch handlers. Out
    /// of a catch handler it may go anywhere into the try block that the handler belongs to (Visual
    /// Basic's `Retry`).
    fn may_leave(&self, mut from: u32, to: u32, target: u32) -> bool {
        loop {
            if self.may_enter(from, to, target) {
                return true;
            }
            let region = self.regions.get(from);
            match region.kind {
                RegionKind::Try => {}
                RegionKind::Catch
                    if self.may_enter(self.regions.try_of(region.clauses.0), to, target) =>
                {
                    return true;
                }
                RegionKind::Catch => {}
                RegionKind::Method | RegionKind::Filter | RegionKind::Finally => return false,
            }
            from = region.parent;
        }
    }

    /// Inside a catch handler, with nothing but try blocks in between.
    fn may_rethrow(&self, mut region: u32) -> bool {
        while self.regions.get(region).kind == RegionKind::Try {
            region = self.regions.get(region).parent;
        }
        self.regions.get(region).kind == RegionKind::Catch
    }

    fn only_inside_tries(&self, mut region: u32) -> bool {
        while self.regions.get(region).kind == RegionKind::Try {
            region = self.regions.get(region).parent;
        }
        region == ROOT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CallEffect, ClauseKind, CodeRange, DecodeError, ExceptionClause, MethodHeader, Token,
    };
    use proptest::prelude::*;
    use std::borrow::Cow;

    /// Every call is `void M()`.
    struct Simple;

    impl Tokens for Simple {
        fn call_effect(&self, _: Token) -> Option<CallEffect> {
            Some(CallEffect { has_this: false, parameters: 0, returns: false })
        }
    }

    const SHAPE: MethodShape = MethodShape { arguments: 1, locals: 1, returns: false };

    fn check(code: &[u8], clauses: &[ExceptionClause]) -> Result<u16, VerifyError> {
        let body = MethodBody {
            header: MethodHeader::default(),
            code: Cow::Borrowed(code),
            clauses: clauses.to_vec(),
        };
        verify(&body, SHAPE, &Simple).map(|heights| heights.max())
    }

    fn clause(kind: ClauseKind, try_block: (u32, u32), handler: (u32, u32)) -> ExceptionClause {
        let range = |(start, end)| CodeRange { start, end };
        ExceptionClause { kind, try_block: range(try_block), handler: range(handler) }
    }

    const CATCH: ClauseKind = ClauseKind::Catch(Token(0x0100_0001));

    #[test]
    fn indices() {
        assert_eq!(check(&[0x02, 0x0a, 0x2a], &[]), Ok(1));
        assert_eq!(
            check(&[0x03, 0x0a, 0x2a], &[]),
            Err(VerifyError::Argument { offset: 0, index: 1, count: 1 })
        );
        assert_eq!(
            check(&[0x02, 0x13, 7, 0x2a], &[]),
            Err(VerifyError::Local { offset: 1, index: 7, count: 1 })
        );
    }

    #[test]
    fn max_stack_is_kept() {
        let code = [[0x17_u8; 9], [0x26; 9]].concat();
        let error = check(&[&code[..], &[0x2a]].concat(), &[]);
        assert_eq!(error, Err(VerifyError::MaxStack { needed: 9, declared: 8 }));
    }

    #[test]
    fn try_and_catch() {
        // 0: nop; 1: leave 7; 3: pop; 4: nop; 5: leave 7; 7: ret
        let code = [0x00, 0xde, 4, 0x26, 0x00, 0xde, 0, 0x2a];
        let good = clause(CATCH, (0, 3), (3, 7));
        assert_eq!(check(&code, &[good]), Ok(1));
        let with = |at: usize, bytes: &[u8]| {
            let mut code = code;
            code[at..at + bytes.len()].copy_from_slice(bytes);
            check(&code, &[good])
        };
        // Out of the try block by other means.
        assert_eq!(with(1, &[0x2b]), Err(VerifyError::BranchAcross { offset: 1, target: 7 }));
        assert_eq!(
            with(1, &[0x00, 0x00]),
            Err(VerifyError::Stack(StackError::Mismatch { to: 3, from: 2, first: 1, second: 0 }))
        );
        assert_eq!(with(1, &[0x00, 0x14]), Err(VerifyError::FallThrough { offset: 2 }));
        assert_eq!(
            with(0, &[0x2a]),
            Err(VerifyError::Misplaced { offset: 0, opcode: Opcode::Ret })
        );
        // Into the handler.
        assert_eq!(with(2, &[2]), Err(VerifyError::BranchAcross { offset: 1, target: 5 }));
        // Back from the handler into the middle of its own try block is fine.
        assert_eq!(with(6, &[0xfa]), Ok(1));
        assert_eq!(
            with(4, &[0xdc]),
            Err(VerifyError::Misplaced { offset: 4, opcode: Opcode::Endfinally })
        );
        // The ranges.
        assert_eq!(
            check(&code, &[clause(CATCH, (0, 2), (3, 7))]),
            Err(VerifyError::ClauseBoundary { offset: 1 })
        );
        assert_eq!(
            check(&code, &[clause(CATCH, (2, 3), (3, 7))]),
            Err(VerifyError::ClauseBoundary { offset: 1 })
        );
        assert_eq!(
            check(&code, &[clause(CATCH, (0, 3), (3, 9))]),
            Err(VerifyError::ClauseRange { clause: 0 })
        );
    }

    #[test]
    fn finally_filter_and_rethrow() {
        // 0: leave 3; 2: endfinally; 3: ret
        assert_eq!(
            check(&[0xde, 1, 0xdc, 0x2a], &[clause(ClauseKind::Finally, (0, 2), (2, 3))]),
            Ok(0)
        );
        let leave_finally = [0xde, 2, 0xde, 0, 0x2a];
        let error = Err(VerifyError::BranchAcross { offset: 2, target: 4 });
        assert_eq!(check(&leave_finally, &[clause(ClauseKind::Fault, (0, 2), (2, 4))]), error);
        // 0: leave 9; 2: pop; 3: ldc 1; 4: endfilter; 6: pop; 7: rethrow; 9: ret
        let code = [0xde, 7, 0x26, 0x17, 0xfe, 0x11, 0x26, 0xfe, 0x1a, 0x2a];
        assert_eq!(check(&code, &[clause(ClauseKind::Filter(2), (0, 2), (6, 9))]), Ok(1));
        let misplaced = |offset, opcode| Err(VerifyError::Misplaced { offset, opcode });
        assert_eq!(check(&[0xfe, 0x1a], &[]), misplaced(0, Opcode::Rethrow));
        assert_eq!(check(&[0x17, 0xfe, 0x11], &[]), misplaced(1, Opcode::Endfilter));
    }

    #[test]
    fn try_entry_needs_an_empty_stack() {
        // 0: ldc 1; 1: leave 4; 3: endfinally; 4: ret
        let error =
            check(&[0x17, 0xde, 1, 0xdc, 0x2a], &[clause(ClauseKind::Finally, (1, 3), (3, 4))]);
        assert_eq!(error, Err(VerifyError::TryEntry { offset: 1, height: 1 }));
    }

    #[test]
    fn prefixes() {
        // ldarg.0; volatile. ldind.i4; pop; ret
        assert_eq!(check(&[0x02, 0xfe, 0x13, 0x4a, 0x26, 0x2a], &[]), Ok(1));
        let wrong =
            VerifyError::Prefix { offset: 3, prefix: Opcode::Volatile, opcode: Opcode::Pop };
        assert_eq!(check(&[0x02, 0xfe, 0x13, 0x26, 0x2a], &[]), Err(wrong));
        let twice =
            VerifyError::Prefix { offset: 3, prefix: Opcode::Volatile, opcode: Opcode::Volatile };
        assert_eq!(check(&[0x02, 0xfe, 0x13, 0xfe, 0x13, 0x4a, 0x26, 0x2a], &[]), Err(twice));
        let operand = VerifyError::PrefixOperand { offset: 1, opcode: Opcode::Unaligned, value: 3 };
        assert_eq!(check(&[0x02, 0xfe, 0x12, 3, 0x4a, 0x26, 0x2a], &[]), Err(operand));
        // tail. call M; ret, and with a nop in between.
        assert_eq!(check(&[0xfe, 0x14, 0x28, 1, 0, 0, 6, 0x2a], &[]), Ok(0));
        let tail = VerifyError::Misplaced { offset: 2, opcode: Opcode::Tail };
        assert_eq!(check(&[0xfe, 0x14, 0x28, 1, 0, 0, 6, 0x00, 0x2a], &[]), Err(tail));
        // ldarg.0; ldarg.0; brtrue behind the prefix; volatile. ldind.i4; pop; ret
        let between = check(&[0x02, 0x02, 0x2d, 2, 0xfe, 0x13, 0x4a, 0x26, 0x2a], &[]);
        assert_eq!(between, Err(VerifyError::Target { offset: 2, target: 6 }));
        // ldarg.0; volatile. ldind.i4; pop; ldarg.0; br.s back behind the prefix
        let back = check(&[0x02, 0xfe, 0x13, 0x4a, 0x26, 0x02, 0x2b, 0xfb], &[]);
        assert_eq!(back, Err(VerifyError::Target { offset: 6, target: 3 }));
    }

    #[test]
    fn code_that_no_way_leads_to() {
        // 0: ret; 1: br.s into the middle of 3: ldc 0; 8: pop; 9: ret
        let error = check(&[0x2a, 0x2b, 1, 0x20, 0, 0, 0, 0, 0x26, 0x2a], &[]);
        assert_eq!(error, Err(VerifyError::Target { offset: 1, target: 4 }));
        assert_eq!(
            check(&[0x2a, 0x2b, 9], &[]),
            Err(VerifyError::Target { offset: 1, target: 12 })
        );
        assert_eq!(check(&[0x2a, 0x00], &[]), Err(VerifyError::FallThrough { offset: 1 }));
        assert_eq!(
            check(&[0x2a, 0x03, 0x2a], &[]),
            Err(VerifyError::Argument { offset: 1, index: 1, count: 1 })
        );
        // What it would do to the stack is not asked.
        assert_eq!(check(&[0x2a, 0x26, 0x26, 0x2a], &[]), Ok(0));
    }

    #[test]
    fn localloc_needs_its_size_alone_on_the_stack() {
        assert_eq!(check(&[0x17, 0xfe, 0x0f, 0x26, 0x2a], &[]), Ok(1));
        let misplaced = |offset| Err(VerifyError::Misplaced { offset, opcode: Opcode::Localloc });
        assert_eq!(check(&[0x17, 0x17, 0xfe, 0x0f, 0x26, 0x26, 0x2a], &[]), misplaced(2));
        // 0: leave 10; 2: pop; 3: ldc 1; 4: localloc; 6: pop; 7: leave 10; 9: nop; 10: ret
        let code = [0xde, 8, 0x26, 0x17, 0xfe, 0x0f, 0x26, 0xde, 1, 0x00, 0x2a];
        assert_eq!(check(&code, &[clause(CATCH, (0, 2), (2, 9))]), misplaced(4));
    }

    #[test]
    fn bad_code_is_named() {
        let unknown = StackError::Decode(DecodeError::UnknownOpcode { offset: 1, byte: 0x24 });
        assert_eq!(check(&[0x00, 0x24], &[]), Err(VerifyError::Stack(unknown)));
        let text = check(&[0x2b, 9], &[]).unwrap_err().to_string();
        assert_eq!(text, "IL_0000: branches to IL_000b, where no instruction starts");
    }

    fn any_clause() -> impl Strategy<Value = ExceptionClause> {
        (0_u8..4, 0_u32..12, 0_u32..12, 0_u32..12, 0_u32..12, 0_u32..12).prop_map(
            |(kind, filter, a, b, c, d)| {
                let kind = match kind {
                    0 => CATCH,
                    1 => ClauseKind::Filter(filter),
                    2 => ClauseKind::Finally,
                    _ => ClauseKind::Fault,
                };
                clause(kind, (a, b), (c, d))
            },
        )
    }

    proptest! {
        #[test]
        fn any_code_is_verified_or_an_error(
            code in prop::collection::vec(any::<u8>(), 0..60),
            clauses in prop::collection::vec(any_clause(), 0..4),
        ) {
            let _ = check(&code, &clauses);
        }

        #[test]
        fn simple_code_is_verified_or_an_error(
            code in prop::collection::vec(
                prop::sample::select(vec![0x00, 0x02, 0x06, 0x17, 0x25, 0x26, 0x2a, 0x2b, 0x2d, 0x58, 0x7a, 0xdc, 0xde, 0xfe]),
                0..24,
            ),
            clauses in prop::collection::vec(any_clause(), 0..3),
        ) {
            let _ = check(&code, &clauses);
        }
    }
}
