//! Prefixes of instructions, and which instructions take them.

use super::error::VerifyError;
use crate::{Instruction, Opcode, Operand};

/// The prefixes in front of an instruction, each at most once. Source: ECMA-335 III.2.
#[derive(Default)]
pub(super) struct Prefixes {
    seen: [Option<Opcode>; 6],
    pub(super) count: usize,
}

impl Prefixes {
    pub(super) fn has(&self, prefix: Opcode) -> bool {
        self.seen.contains(&Some(prefix))
    }

    pub(super) fn add(&mut self, instruction: &Instruction<'_>) -> Result<(), VerifyError> {
        let Instruction { offset, opcode, operand, .. } = *instruction;
        if let Operand::Uint8(value) = operand {
            // Alignments are 1, 2 and 4; the checks to leave out are type, range and null.
            let good = if opcode == Opcode::Unaligned {
                matches!(value, 1 | 2 | 4)
            } else {
                matches!(value, 1..=7)
            };
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

    pub(super) fn check(&self, offset: u32, opcode: Opcode) -> Result<(), VerifyError> {
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
    // `ldind.*`, `stind.*` and their like, through a pointer; the two `stind` columns of the table
    // are apart.
    let pointer = matches!(code, 0x46..=0x57)
        || matches!(
            opcode,
            O::StindI | O::Ldfld | O::Stfld | O::Ldobj | O::Stobj | O::Initblk | O::Cpblk
        );
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
                    O::Castclass
                        | O::Unbox
                        | O::Ldelema
                        | O::Ldfld
                        | O::Stfld
                        | O::Callvirt
                        | O::Ldvirtftn
                )
        }
        _ => false,
    }
}
