//! Offsets for all that has none: which branches are short, and the bytes.

use super::{EditError, MethodEditor, NewInstruction, NewOperand};
use crate::Opcode;
use crate::instruction::{push_opcode, push_operand};

/// Where each node goes, and which branches are short.
pub(super) struct Layout {
    /// By node; the end has the size of the code.
    pub offsets: Vec<u32>,
    /// By node: whether it is written in the short form, if it is a branch.
    is_short: Vec<bool>,
    pub size: u32,
}

/// Rounds after which all branches become long. Real code needs three or four; each round takes as long as the
/// code, and code can be made so that every round lengthens one branch.
const ROUNDS: usize = 50;

impl Layout {
    /// Starts with all branches short and lengthens those that do not reach, until all do. Branches only grow, so
    /// this ends, and with the least code.
    pub fn fix(editor: &MethodEditor, order: &[u32]) -> Result<Self, EditError> {
        let mut is_short = vec![true; editor.nodes.len()];
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
                return Ok(Self { offsets, is_short, size: at as u32 });
            }
        }
        Err(EditError::TooLarge)
    }

    pub fn is_short(&self, node: u32) -> bool {
        self.is_short.get(node as usize) == Some(&true)
    }
}

impl MethodEditor {
    /// Appends an instruction; `short` says in which form a branch is.
    pub(super) fn write(
        &self,
        instruction: &NewInstruction,
        short: bool,
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
                push_operand(opcode, *operand, code).ok_or(EditError::Operand { opcode })?;
            }
            NewOperand::Label(label) => {
                let (Some(short_form), Some(long)) = (opcode.short(), opcode.long()) else {
                    return Err(EditError::Operand { opcode });
                };
                let target = find(*label)?;
                if short {
                    let distance = i64::from(target) - i64::from(start + short_form.size() + 1);
                    push_opcode(short_form, code);
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
