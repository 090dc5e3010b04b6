//! Writes the code of a method from front to back.

use super::Refusal;
use cil::{
    ClauseKind, CodeRange, ExceptionClause, Instruction, NewInstruction, NewOperand, Opcode,
    Operand, Token,
};

/// A place in the code that branches lead to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(usize);

/// Code that is being written. All its branches have the four-byte form.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u8>,
    /// By label, where it is bound.
    labels: Vec<Option<u32>>,
    /// Ends of branch instructions, with the labels that they lead to.
    branches: Vec<(usize, Label)>,
    clauses: Vec<ExceptionClause>,
    is_malformed: bool,
}

impl Assembler {
    /// Where the next instruction stands.
    pub fn offset(&self) -> u32 {
        self.code.len() as u32
    }

    /// Appends an instruction that does not branch.
    pub fn emit(&mut self, instruction: impl Into<NewInstruction>) {
        let NewInstruction { opcode, operand } = instruction.into();
        let encoded = match operand {
            NewOperand::Plain(operand) => {
                Instruction { offset: 0, size: 0, opcode, operand }.encode(&mut self.code)
            }
            NewOperand::Label(_) | NewOperand::Switch(_) => {
                self.is_malformed = true;
                return;
            }
        };
        self.is_malformed |= encoded.is_err();
    }

    /// Appends an instruction with a token.
    pub fn token(&mut self, opcode: Opcode, token: Token) {
        self.emit(NewInstruction::token(opcode, token));
    }

    /// Loads a number in the five-byte form.
    pub fn ldc_i4_long(&mut self, value: i32) {
        self.emit(NewInstruction::plain(Opcode::LdcI4, Operand::Int32(value)));
    }

    /// Loads an argument. Index 255 takes the long form, as the agent's own profiler writes it.
    pub fn ldarg(&mut self, index: u16) {
        self.emit(match index {
            255 => NewInstruction::plain(Opcode::Ldarg, Operand::Argument(index)),
            _ => NewInstruction::ldarg(index),
        });
    }

    /// Loads a local variable.
    pub fn ldloc(&mut self, index: u16) {
        self.emit(match index {
            255 => NewInstruction::plain(Opcode::Ldloc, Operand::Local(index)),
            _ => NewInstruction::ldloc(index),
        });
    }

    /// Stores into a local variable.
    pub fn stloc(&mut self, index: u16) {
        self.emit(match index {
            255 => NewInstruction::plain(Opcode::Stloc, Operand::Local(index)),
            _ => NewInstruction::stloc(index),
        });
    }

    /// A label that is not bound yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Makes a label stand for the next instruction.
    pub fn bind(&mut self, label: Label) {
        let offset = self.offset();
        if let Some(slot) = self.labels.get_mut(label.0) {
            *slot = Some(offset);
        }
    }

    /// Appends a branch; `opcode` is of the four-byte form.
    pub fn branch(&mut self, opcode: Opcode, to: Label) {
        self.emit(NewInstruction::plain(opcode, Operand::Target(0)));
        self.branches.push((self.code.len(), to));
    }

    /// Appends code as it is. Its clauses come in front of those that are there: they are inside of
    /// whatever surrounds it.
    pub fn body(&mut self, code: &[u8], clauses: &[ExceptionClause]) {
        let shift = self.offset();
        self.code.extend_from_slice(code);
        let moved = |range: CodeRange| CodeRange {
            start: range.start.saturating_add(shift),
            end: range.end.saturating_add(shift),
        };
        let clauses = clauses.iter().map(|clause| ExceptionClause {
            kind: match clause.kind {
                ClauseKind::Filter(start) => ClauseKind::Filter(start.saturating_add(shift)),
                kind => kind,
            },
            try_block: moved(clause.try_block),
            handler: moved(clause.handler),
        });
        self.clauses.splice(0..0, clauses);
    }

    /// Adds a handler that ends here. Clauses have to be added inner ones first.
    pub fn catch(&mut self, exception: Token, try_start: u32, handler_start: u32) {
        self.clauses.push(ExceptionClause {
            kind: ClauseKind::Catch(exception),
            try_block: CodeRange { start: try_start, end: handler_start },
            handler: CodeRange { start: handler_start, end: self.offset() },
        });
    }

    /// The code and its clauses.
    pub fn finish(mut self) -> Result<(Vec<u8>, Vec<ExceptionClause>), Refusal> {
        for (end, label) in self.branches {
            let target = self.labels.get(label.0).copied().flatten().ok_or(Refusal::Malformed)?;
            let distance = target.wrapping_sub(end as u32);
            let field = self.code.get_mut(end - 4..end).ok_or(Refusal::Malformed)?;
            field.copy_from_slice(&distance.to_le_bytes());
        }
        if self.is_malformed || i32::try_from(self.code.len()).is_err() {
            return Err(Refusal::Malformed);
        }
        Ok((self.code, self.clauses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_lead_forward_and_backward() {
        let mut code = Assembler::default();
        let (front, end) = (code.label(), code.label());
        code.bind(front);
        code.branch(Opcode::Br, end);
        code.branch(Opcode::Leave, front);
        code.bind(end);
        code.emit(Opcode::Ret);
        let (code, _) = code.finish().unwrap();
        assert_eq!(code, [0x38, 5, 0, 0, 0, 0xdd, 0xf6, 0xff, 0xff, 0xff, 0x2a]);
    }

    #[test]
    fn indices_take_the_form_of_the_original() {
        let encoded = |index| {
            let mut code = Assembler::default();
            code.ldarg(index);
            code.ldloc(index);
            code.stloc(index);
            code.finish().unwrap().0
        };
        assert_eq!(encoded(3), [0x05, 0x09, 0x0d]);
        assert_eq!(encoded(254), [0x0e, 254, 0x11, 254, 0x13, 254]);
        assert_eq!(encoded(255), [0xfe, 0x09, 255, 0, 0xfe, 0x0c, 255, 0, 0xfe, 0x0e, 255, 0]);
        assert_eq!(encoded(256)[..4], [0xfe, 0x09, 0, 1]);
    }

    #[test]
    fn unbound_labels_and_wrong_operands_are_refused() {
        let mut code = Assembler::default();
        let label = code.label();
        code.branch(Opcode::Br, label);
        assert_eq!(code.finish(), Err(Refusal::Malformed));
        let mut code = Assembler::default();
        code.emit(Opcode::Ldstr);
        assert_eq!(code.finish(), Err(Refusal::Malformed));
    }
}
