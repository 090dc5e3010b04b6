//! Offsets for all that has none: which branches are short, and the bytes.

use super::{EditError, MethodEditor, NewInstruction, NewOperand};
use crate::{Opcode, Operand, OperandKind};

/// Where each node goes, and which branches are short.
pub(super) struct Layout {
    /// By node; the end has the size of the code.
    pub offsets: Vec<u32>,
    /// Offsets of the short branches, ascending.
    short: Vec<u32>,
    pub size: u32,
}

/// Rounds after which all branches become long. Real code needs three or four; each round takes as long as the
/// code, and code can be made so that every round lengthens one branch.
const ROUNDS: usize = 50;

impl Layout {
    /// Starts with all branches short and lengthens those that do not reach, until all do. Branches only grow, so
    /// this ends, and with the least code.
    pub fn fix(editor: &MethodEditor, order: &[u32]) -> Result<Self, EditError> {
        let mut is_short: Vec<bool> = editor.nodes.iter().map(|_| true).collect();
        let mut offsets = vec![0_u32; editor.nodes.len()];
        for round in 0.. {
            let mut at = 0_u64;
            for &node in order {
                let Some(found) = editor.node(node) else { continue };
                if let Some(offset) = offsets.get_mut(node as usize) {
                    *offset = at as u32;
                }
                at += found.instruction.size(is_short.get(node as usize) == Some(&true));
                if at > i32::MAX as u64 {
                    return Err(EditError::TooLarge);
                }
            }
            if let Some(end) = offsets.first_mut() {
                *end = at as u32;
            }
            let mut grown = false;
            for &node in order {
                let Some(found) = editor.node(node) else { continue };
                let NewOperand::Label(label) = found.instruction.operand else { continue };
                let Some(short) = is_short.get_mut(node as usize).filter(|short| **short) else { continue };
                let offset = |node: u32| offsets.get(node as usize).copied().map_or(0, i64::from);
                let target = editor.bound_to(label).map_or(0, |target| offset(target.0));
                let end = offset(node) + i64::from(found.instruction.opcode.size()) + 1;
                if i8::try_from(target - end).is_err() || round >= ROUNDS {
                    *short = false;
                    grown = true;
                }
            }
            if !grown {
                let short = order
                    .iter()
                    .filter(|&&node| {
                        let operand = editor.node(node).map(|found| &found.instruction.operand);
                        matches!(operand, Some(NewOperand::Label(_))) && is_short.get(node as usize) == Some(&true)
                    })
                    .filter_map(|&node| offsets.get(node as usize).copied())
                    .collect();
                return Ok(Self { offsets, short, size: at as u32 });
            }
        }
        Err(EditError::TooLarge)
    }

    fn is_short(&self, offset: u32) -> bool {
        self.short.binary_search(&offset).is_ok()
    }
}

impl MethodEditor {
    pub(super) fn write(
        &self,
        instruction: &NewInstruction,
        layout: &Layout,
        code: &mut Vec<u8>,
    ) -> Result<(), EditError> {
        let unbound = EditError::UnboundLabel { what: instruction.opcode };
        let find = |label| self.offset(layout, label).ok_or(unbound);
        let opcode = instruction.opcode;
        let start = code.len() as u32;
        match &instruction.operand {
            NewOperand::Plain(operand) => {
                push_opcode(opcode, code);
                write_plain(opcode, *operand, code)?;
            }
            NewOperand::Label(label) => {
                let (Some(short), Some(long)) = (opcode.short(), opcode.long()) else {
                    return Err(EditError::Operand { opcode });
                };
                let target = find(*label)?;
                if layout.is_short(start) {
                    let distance = i64::from(target) - i64::from(start + short.size() + 1);
                    push_opcode(short, code);
                    code.push((distance as i8).cast_unsigned());
                } else {
                    push_opcode(long, code);
                    let end = start + long.size() + 4;
                    code.extend_from_slice(&target.wrapping_sub(end).to_le_bytes());
                }
            }
            NewOperand::Switch(labels) => {
                if opcode != Opcode::Switch {
                    return Err(EditError::Operand { opcode });
                }
                push_opcode(opcode, code);
                let end = start + instruction.size(false) as u32;
                code.extend_from_slice(&(labels.len() as u32).to_le_bytes());
                for &label in labels {
                    code.extend_from_slice(&find(label)?.wrapping_sub(end).to_le_bytes());
                }
            }
        }
        Ok(())
    }
}

fn push_opcode(opcode: Opcode, code: &mut Vec<u8>) {
    let [high, low] = opcode.code().to_be_bytes();
    if opcode.size() == 2 {
        code.push(high);
    }
    code.push(low);
}

fn write_plain(opcode: Opcode, operand: Operand<'static>, code: &mut Vec<u8>) -> Result<(), EditError> {
    let wrong = EditError::Operand { opcode };
    let byte = |index: u16| u8::try_from(index).map_err(|_| wrong);
    match (opcode.operand(), operand) {
        (OperandKind::None, Operand::None) => {}
        (OperandKind::Int8, Operand::Int8(value)) => code.push(value.cast_unsigned()),
        (OperandKind::Uint8, Operand::Uint8(value)) => code.push(value),
        (OperandKind::Int32, Operand::Int32(value)) => code.extend_from_slice(&value.to_le_bytes()),
        (OperandKind::Int64, Operand::Int64(value)) => code.extend_from_slice(&value.to_le_bytes()),
        (OperandKind::Float32, Operand::Float32(bits)) => code.extend_from_slice(&bits.to_le_bytes()),
        (OperandKind::Float64, Operand::Float64(bits)) => code.extend_from_slice(&bits.to_le_bytes()),
        (OperandKind::Argument8, Operand::Argument(index)) | (OperandKind::Local8, Operand::Local(index)) => {
            code.push(byte(index)?);
        }
        (OperandKind::Argument16, Operand::Argument(index)) | (OperandKind::Local16, Operand::Local(index)) => {
            code.extend_from_slice(&index.to_le_bytes());
        }
        (kind, Operand::Token(token)) if kind.is_token() => code.extend_from_slice(&token.0.to_le_bytes()),
        _ => return Err(wrong),
    }
    Ok(())
}
