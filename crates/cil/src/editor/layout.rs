//! Offsets for all that has none: which branches are short, and the bytes.

use super::{EditError, MethodEditor, NewInstruction, NewOperand};
use crate::Opcode;
use crate::instruction::{push_opcode, push_operand};

/// Where each node goes, and which branches are short.
pub(super) struct Layout {
    /// By node; the end has the size of the code.
    pub offsets: Vec<u32>,
    /// The branches in the order of the code.
    branches: Vec<Branch>,
    pub size: u32,
}

struct Branch {
    node: u32,
    is_short: bool,
}

/// Rounds after which all branches become long. Real code needs one or two; each round takes as long as the
/// code, and code can be made so that every round lengthens one branch.
const ROUNDS: usize = 50;

impl Layout {
    /// Starts with all branches short and lengthens those that do not reach, until all do. Branches only grow, so
    /// this ends, and with the least code.
    pub fn fix(editor: &MethodEditor) -> Result<Self, EditError> {
        let mut offsets = vec![0_u32; editor.nodes.len()];
        let mut branches: Vec<Branch> = Vec::new();
        for round in 0.. {
            let mut at = 0_u64;
            let mut known = branches.iter();
            let mut found = Vec::new();
            for (index, node) in editor.in_order() {
                if let Some(offset) = offsets.get_mut(index as usize) {
                    *offset = at as u32;
                }
                let is_branch = matches!(node.instruction.operand, NewOperand::Label(_));
                let is_short = is_branch && known.next().is_none_or(|branch| branch.is_short);
                if is_branch && round == 0 {
                    found.push(Branch { node: index, is_short: true });
                }
                at += node.instruction.size(is_short);
                if at > i32::MAX as u64 {
                    return Err(EditError::TooLarge);
                }
            }
            if round == 0 {
                branches = found;
            }
            if let Some(end) = offsets.first_mut() {
                *end = at as u32;
            }
            let offset = |node: u32| offsets.get(node as usize).copied().map_or(0, i64::from);
            let mut grown = false;
            for branch in branches.iter_mut().filter(|branch| branch.is_short) {
                let Some(node) = editor.node(branch.node) else { continue };
                let target = node.instruction.labels().first().and_then(|label| editor.bound_to(*label));
                let end = offset(branch.node) + i64::from(node.instruction.opcode.size()) + 1;
                if i8::try_from(target.map_or(0, |target| offset(target.0)) - end).is_err() || round >= ROUNDS {
                    branch.is_short = false;
                    grown = true;
                }
            }
            if !grown {
                return Ok(Self { offsets, branches, size: at as u32 });
            }
        }
        Err(EditError::TooLarge)
    }

    /// For each branch in the order of the code, whether it is written in the short form.
    pub fn short(&self) -> impl Iterator<Item = bool> {
        self.branches.iter().map(|branch| branch.is_short)
    }
}

impl MethodEditor {
    /// Appends an instruction; `short` says in which form the next branch is.
    pub(super) fn write(
        &self,
        instruction: &NewInstruction,
        short: &mut impl Iterator<Item = bool>,
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
                if short.next() == Some(true) {
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
