//! Whether a body is well formed: everything that the runtime checks without looking at types, so that a body which
//! passes is not turned down by the JIT for its structure. Sources: ECMA-335 I.12.4.2.8, III.1.7, III.2, II.19 and
//! the importer of the JIT of dotnet/runtime.

use crate::regions::{ROOT, RegionError, RegionKind, Regions};
use crate::{
    Flow, Instruction, MethodBody, MethodShape, Opcode, Operand, StackError, StackHeights, Tokens, instructions,
};

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The code cannot be read, or the stack has no definite height.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// More values on the stack than the header allows.
    #[error("the stack grows to {needed} values, but the header allows {declared}")]
    MaxStack {
        /// The highest stack.
        needed: u16,
        /// What the header says.
        declared: u16,
    },
    /// A branch brings values to an earlier instruction that no earlier way leads to.
    #[error("IL_{offset:04x}: brings values back to IL_{target:04x}, which no earlier instruction leads to")]
    BackwardBranch {
        /// The branch.
        offset: u32,
        /// Where it leads.
        target: u32,
    },
    /// A part of a clause is empty or outside of the code.
    #[error("clause {clause}: a range is empty or ends behind the code")]
    ClauseRange {
        /// Index of the clause.
        clause: u32,
    },
    /// A part of a clause overlaps another part, of this or another clause, without being inside of it.
    #[error("clause {clause}: a range overlaps another one")]
    ClauseOverlap {
        /// Index of the clause.
        clause: u32,
    },
    /// Try block, filter and handler of a clause are not in the same region.
    #[error("clause {clause}: its parts are in different regions")]
    ClauseApart {
        /// Index of the clause.
        clause: u32,
    },
    /// A clause comes before one that is inside of it.
    #[error("clause {clause}: comes before a clause inside of it")]
    ClauseOrder {
        /// Index of the outer clause.
        clause: u32,
    },
    /// A part of a clause starts or ends in the middle of an instruction.
    #[error("IL_{offset:04x}: a clause starts or ends inside this instruction")]
    ClauseBoundary {
        /// The instruction.
        offset: u32,
    },
    /// A try block is entered with values on the stack.
    #[error("IL_{offset:04x}: a try block starts with {height} values on the stack")]
    TryEntry {
        /// Its start.
        offset: u32,
        /// How many.
        height: u16,
    },
    /// A branch leads into a try block other than at its start, into a filter or handler, or out of any of them.
    #[error("IL_{offset:04x}: may not branch to IL_{target:04x} across the border of a try block or handler")]
    BranchAcross {
        /// The branch.
        offset: u32,
        /// Where it leads.
        target: u32,
    },
    /// A branch leads between a prefix and what it belongs to, or into the middle of an instruction.
    #[error("IL_{offset:04x}: branches to IL_{target:04x}, inside an instruction or behind a prefix")]
    Target {
        /// The branch.
        offset: u32,
        /// Where it leads.
        target: u32,
    },
    /// Control runs over the border of a try block, filter or handler, or off the end of the code.
    #[error("IL_{offset:04x}: control runs out of its try block, handler or method")]
    FallThrough {
        /// The last instruction inside.
        offset: u32,
    },
    /// An instruction is where it may not be.
    #[error("IL_{offset:04x}: {} is not allowed here", opcode.mnemonic())]
    Misplaced {
        /// Where.
        offset: u32,
        /// Which.
        opcode: Opcode,
    },
    /// A prefix in front of an instruction that does not take it, or twice.
    #[error("IL_{offset:04x}: {} does not take the prefix {}", opcode.mnemonic(), prefix.mnemonic())]
    Prefix {
        /// The instruction behind the prefix.
        offset: u32,
        /// The prefix.
        prefix: Opcode,
        /// The instruction.
        opcode: Opcode,
    },
    /// `unaligned.` or `no.` with an operand that means nothing.
    #[error("IL_{offset:04x}: {} does not take {value}", opcode.mnemonic())]
    PrefixOperand {
        /// The prefix.
        offset: u32,
        /// Which.
        opcode: Opcode,
        /// Its operand.
        value: u8,
    },
    /// There is no such argument.
    #[error("IL_{offset:04x}: argument {index} of {count}")]
    Argument {
        /// Where.
        offset: u32,
        /// Its index.
        index: u16,
        /// How many there are.
        count: u16,
    },
    /// There is no such local variable.
    #[error("IL_{offset:04x}: local {index} of {count}")]
    Local {
        /// Where.
        offset: u32,
        /// Its index.
        index: u16,
        /// How many there are.
        count: u16,
    },
}

impl From<RegionError> for VerifyError {
    fn from(error: RegionError) -> Self {
        match error {
            RegionError::Range(clause) => Self::ClauseRange { clause },
            RegionError::Overlap(clause) => Self::ClauseOverlap { clause },
            RegionError::Apart(clause) => Self::ClauseApart { clause },
            RegionError::Order(clause) => Self::ClauseOrder { clause },
        }
    }
}

/// Checks the structure of a body; gives the height of the stack everywhere. Types are not looked at.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify(body: &MethodBody<'_>, shape: MethodShape, tokens: &impl Tokens) -> Result<StackHeights, VerifyError> {
    let mut verifier = Verifier::default();
    verifier.verify(body, shape, tokens)?;
    Ok(verifier.heights)
}

/// Checks many bodies, one after the other, in the same room: what [`verify()`] does, without a new piece of memory for
/// each.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    regions: Regions,
    heights: StackHeights,
    pending: Vec<u32>,
    /// By offset; see [`NO_START`].
    places: Vec<u32>,
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
        // First, because the messages about ranges are better than what their consequences would give.
        self.regions.rebuild(&body.clauses, code_size)?;
        let seen = self.heights.walk(body, shape.returns, tokens, &mut self.pending)?;
        if let Some(branch) = self.heights.backward_branch() {
            return Err(VerifyError::BackwardBranch { offset: branch.offset, target: branch.target });
        }
        // What is looked for from here on is about clauses, prefixes, instructions that belong into handlers, indices,
        // and code that the walk did not follow. Most bodies have nothing of that.
        let plain = body.clauses.is_empty() && !seen.special && !seen.dead;
        if !plain || seen.arguments > shape.arguments.into() || seen.locals > shape.locals.into() {
            self.look_again(&body.code, shape)?;
        }
        Ok(self.heights.max())
    }

    fn look_again(&mut self, code: &[u8], shape: MethodShape) -> Result<(), VerifyError> {
        for index in 1..self.regions.len() as u32 {
            let region = self.regions.get(index);
            let offset = region.range.start;
            if let (RegionKind::Try, Some(height @ 1..)) = (region.kind, self.heights.before(offset)) {
                return Err(VerifyError::TryEntry { offset, height });
            }
        }
        let mut check = Check { regions: &self.regions, places: &mut self.places, shape, heights: &self.heights };
        check.place(code)?;
        check.check(code)
    }

    /// The stack before each instruction of the body that was checked last.
    #[must_use]
    pub const fn heights(&self) -> &StackHeights {
        &self.heights
    }
}

/// Instruction starts have the index of their region; other bytes have this.
const NO_START: u32 = u32::MAX;
/// Added to the index behind a prefix.
const BEHIND_PREFIX: u32 = 1 << 31;

struct Check<'a> {
    regions: &'a Regions,
    /// By offset.
    places: &'a mut Vec<u32>,
    shape: MethodShape,
    heights: &'a StackHeights,
}

impl Check<'_> {
    /// Says for each instruction where it is. Decoding was checked before.
    fn place(&mut self, code: &[u8]) -> Result<(), VerifyError> {
        self.places.clear();
        self.places.resize(code.len(), NO_START);
        let (mut current, mut next, mut mark) = (ROOT, 1, 0);
        for instruction in instructions(code) {
            let instruction = instruction.map_err(StackError::from)?;
            let Instruction { offset, .. } = instruction;
            let end = instruction.end();
            while current != ROOT && self.regions.get(current).range.end <= offset {
                current = self.regions.get(current).parent;
            }
            while (next as usize) < self.regions.len() && self.regions.get(next).range.start < end {
                if self.regions.get(next).range.start != offset {
                    return Err(VerifyError::ClauseBoundary { offset });
                }
                current = next;
                next += 1;
            }
            // The innermost region ends first.
            if current != ROOT && self.regions.get(current).range.end < end {
                return Err(VerifyError::ClauseBoundary { offset });
            }
            if let Some(place) = self.places.get_mut(offset as usize) {
                *place = current | mark;
            }
            mark = if instruction.opcode.flow() == Flow::Prefix { BEHIND_PREFIX } else { 0 };
        }
        Ok(())
    }

    fn check(&self, code: &[u8]) -> Result<(), VerifyError> {
        let mut prefixes = Prefixes::default();
        let mut after_tail_call = None;
        for instruction in instructions(code) {
            let instruction = instruction.map_err(StackError::from)?;
            let Instruction { offset, opcode, .. } = instruction;
            let region = self.region(offset).unwrap_or(ROOT);
            if let Some(call) = after_tail_call.take()
                && opcode != Opcode::Ret
            {
                return Err(VerifyError::Misplaced { offset: call, opcode: Opcode::Tail });
            }
            if opcode.flow() == Flow::Prefix {
                prefixes.add(&instruction)?;
            } else {
                if prefixes.has(Opcode::Tail) {
                    after_tail_call = Some(offset);
                }
                prefixes.check(offset, opcode)?;
                prefixes = Prefixes::default();
            }
            self.check_index(&instruction)?;
            self.check_flow(&instruction, region)?;
            if let (Opcode::Localloc, height) = (opcode, self.heights.before(offset))
                && (height.is_some_and(|height| height != 1) || !self.only_inside_tries(region))
            {
                return Err(VerifyError::Misplaced { offset, opcode });
            }
        }
        Ok(())
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

    fn check_flow(&self, instruction: &Instruction<'_>, region: u32) -> Result<(), VerifyError> {
        let Instruction { offset, opcode, .. } = *instruction;
        let end = instruction.end();
        let misplaced = Err(VerifyError::Misplaced { offset, opcode });
        match opcode.flow() {
            Flow::Branch | Flow::Conditional => {
                for target in instruction.targets() {
                    let to = self.target(offset, target)?;
                    if !self.may_enter(region, to, target) {
                        return Err(VerifyError::BranchAcross { offset, target });
                    }
                }
            }
            Flow::Leave => {
                for target in instruction.targets() {
                    let to = self.target(offset, target)?;
                    if !self.may_leave(region, to, target) {
                        return Err(VerifyError::BranchAcross { offset, target });
                    }
                }
            }
            Flow::Return | Flow::Jump if region != ROOT => return misplaced,
            Flow::EndFinally if self.regions.get(region).kind != RegionKind::Finally => return misplaced,
            // A filter ends with the only `endfilter` in it.
            Flow::EndFilter => {
                let region = self.regions.get(region);
                if region.kind != RegionKind::Filter || region.range.end != end {
                    return misplaced;
                }
            }
            Flow::Throw if opcode == Opcode::Rethrow && !self.may_rethrow(region) => return misplaced,
            _ => {}
        }
        if opcode.flow().continues() {
            let stays = self.region(end).is_some_and(|to| self.may_enter(region, to, end));
            if !stays {
                return Err(VerifyError::FallThrough { offset });
            }
        }
        Ok(())
    }

    fn region(&self, offset: u32) -> Option<u32> {
        self.places.get(offset as usize).filter(|&&place| place != NO_START).map(|place| place & !BEHIND_PREFIX)
    }

    /// The region of a branch target.
    fn target(&self, offset: u32, target: u32) -> Result<u32, VerifyError> {
        match self.places.get(target as usize) {
            Some(&place) if place & BEHIND_PREFIX == 0 => Ok(place),
            _ => Err(VerifyError::Target { offset, target }),
        }
    }

    /// Whether a branch out of region `from` may lead to `target` in region `to`: only inwards, and only to the first
    /// instruction of each try block on the way.
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

    /// The same for `leave`, which may go outwards first: out of try blocks and catch handlers. Out of a catch handler
    /// it may go anywhere into the try block that the handler belongs to (Visual Basic's `Retry`).
    fn may_leave(&self, mut from: u32, to: u32, target: u32) -> bool {
        loop {
            if self.may_enter(from, to, target) {
                return true;
            }
            let region = self.regions.get(from);
            match region.kind {
                RegionKind::Try => {}
                RegionKind::Catch if self.may_enter(self.regions.try_of(region.clauses.0), to, target) => return true,
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

/// The prefixes in front of an instruction, each at most once. Source: ECMA-335 III.2.
#[derive(Default)]
struct Prefixes {
    seen: [Option<Opcode>; 6],
    count: usize,
}

impl Prefixes {
    fn has(&self, prefix: Opcode) -> bool {
        self.seen.contains(&Some(prefix))
    }

    fn add(&mut self, instruction: &Instruction<'_>) -> Result<(), VerifyError> {
        let Instruction { offset, opcode, operand, .. } = *instruction;
        if let Operand::Uint8(value) = operand {
            // Alignments are 1, 2 and 4; the checks to leave out are type, range and null.
            let good = if opcode == Opcode::Unaligned { matches!(value, 1 | 2 | 4) } else { matches!(value, 1..=7) };
            if !good {
                return Err(VerifyError::PrefixOperand { offset, opcode, value });
            }
        }
        if self.has(opcode) {
            return Err(VerifyError::Prefix { offset, prefix: opcode, opcode });
        }
        if let Some(slot) = self.seen.get_mut(self.count) {
            *slot = Some(opcode);
            self.count += 1;
        }
        Ok(())
    }

    fn check(&self, offset: u32, opcode: Opcode) -> Result<(), VerifyError> {
        for &prefix in self.seen.iter().flatten() {
            if !takes(opcode, prefix) {
                return Err(VerifyError::Prefix { offset, prefix, opcode });
            }
        }
        Ok(())
    }
}

/// Whether an instruction may have a prefix.
fn takes(opcode: Opcode, prefix: Opcode) -> bool {
    use Opcode as O;
    let code = opcode.code();
    // `ldind.*`, `stind.*` and their like, through a pointer; the two `stind` columns of the table are apart.
    let pointer = matches!(code, 0x46..=0x57)
        || matches!(opcode, O::StindI | O::Ldfld | O::Stfld | O::Ldobj | O::Stobj | O::Initblk | O::Cpblk);
    match prefix {
        O::Unaligned => pointer,
        O::Volatile => pointer || matches!(opcode, O::Ldsfld | O::Stsfld),
        O::Tail => matches!(opcode, O::Call | O::Calli | O::Callvirt),
        // Static abstract members (.NET 7) brought the last two.
        O::Constrained => matches!(opcode, O::Callvirt | O::Call | O::Ldftn),
        // `Address` methods of arrays are called.
        O::Readonly => matches!(opcode, O::Ldelema | O::Call | O::Callvirt),
        O::No => {
            matches!(code, 0x90..=0xa4)
                || matches!(
                    opcode,
                    O::Castclass | O::Unbox | O::Ldelema | O::Ldfld | O::Stfld | O::Callvirt | O::Ldvirtftn
                )
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallEffect, ClauseKind, CodeRange, DecodeError, ExceptionClause, MethodHeader, Token};
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
        let body = MethodBody { header: MethodHeader::default(), code: Cow::Borrowed(code), clauses: clauses.to_vec() };
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
        assert_eq!(check(&[0x03, 0x0a, 0x2a], &[]), Err(VerifyError::Argument { offset: 0, index: 1, count: 1 }));
        assert_eq!(check(&[0x02, 0x13, 7, 0x2a], &[]), Err(VerifyError::Local { offset: 1, index: 7, count: 1 }));
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
        assert_eq!(with(0, &[0x2a]), Err(VerifyError::Misplaced { offset: 0, opcode: Opcode::Ret }));
        // Into the handler.
        assert_eq!(with(2, &[2]), Err(VerifyError::BranchAcross { offset: 1, target: 5 }));
        // Back from the handler into the middle of its own try block is fine.
        assert_eq!(with(6, &[0xfa]), Ok(1));
        assert_eq!(with(4, &[0xdc]), Err(VerifyError::Misplaced { offset: 4, opcode: Opcode::Endfinally }));
        // The ranges.
        assert_eq!(check(&code, &[clause(CATCH, (0, 2), (3, 7))]), Err(VerifyError::ClauseBoundary { offset: 1 }));
        assert_eq!(check(&code, &[clause(CATCH, (2, 3), (3, 7))]), Err(VerifyError::ClauseBoundary { offset: 1 }));
        assert_eq!(check(&code, &[clause(CATCH, (0, 3), (3, 9))]), Err(VerifyError::ClauseRange { clause: 0 }));
    }

    #[test]
    fn finally_filter_and_rethrow() {
        // 0: leave 3; 2: endfinally; 3: ret
        assert_eq!(check(&[0xde, 1, 0xdc, 0x2a], &[clause(ClauseKind::Finally, (0, 2), (2, 3))]), Ok(0));
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
        let error = check(&[0x17, 0xde, 1, 0xdc, 0x2a], &[clause(ClauseKind::Finally, (1, 3), (3, 4))]);
        assert_eq!(error, Err(VerifyError::TryEntry { offset: 1, height: 1 }));
    }

    #[test]
    fn prefixes() {
        // ldarg.0; volatile. ldind.i4; pop; ret
        assert_eq!(check(&[0x02, 0xfe, 0x13, 0x4a, 0x26, 0x2a], &[]), Ok(1));
        let wrong = VerifyError::Prefix { offset: 3, prefix: Opcode::Volatile, opcode: Opcode::Pop };
        assert_eq!(check(&[0x02, 0xfe, 0x13, 0x26, 0x2a], &[]), Err(wrong));
        let twice = VerifyError::Prefix { offset: 3, prefix: Opcode::Volatile, opcode: Opcode::Volatile };
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
    }

    #[test]
    fn bad_code_is_named() {
        let unknown = StackError::Decode(DecodeError::UnknownOpcode { offset: 1, byte: 0x24 });
        assert_eq!(check(&[0x00, 0x24], &[]), Err(VerifyError::Stack(unknown)));
        let text = check(&[0x2b, 9], &[]).unwrap_err().to_string();
        assert_eq!(text, "IL_0000: branches to IL_000b, where no instruction starts");
    }

    fn any_clause() -> impl Strategy<Value = ExceptionClause> {
        (0_u8..4, 0_u32..12, 0_u32..12, 0_u32..12, 0_u32..12, 0_u32..12).prop_map(|(kind, filter, a, b, c, d)| {
            let kind = match kind {
                0 => CATCH,
                1 => ClauseKind::Filter(filter),
                2 => ClauseKind::Finally,
                _ => ClauseKind::Fault,
            };
            clause(kind, (a, b), (c, d))
        })
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
