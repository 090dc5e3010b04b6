use gimli::X86_64;

use super::instructions::{Instruction, decode};
use super::unwind_info::{Operation, Program};

/// Reads the prolog of a method from its code, for methods whose unwind information could not be had.
///
/// Only what CoreCLR's JIT writes at the start of a method is understood: pushes, the allocation, the frame
/// pointer. `None` for code that does not begin like that although it has a frame: an OSR method (it begins with
/// a load through the frame pointer of its first tier, whose frame it keeps), or a frame that is probed page
/// by page.
pub(crate) fn learn(code: &[u8]) -> Option<Program> {
    let mut operations = vec![(0, Operation::Begin { frame: None })];
    let mut at = 0usize;
    let mut size = 0u8;
    while let Some((instruction, length)) = code.get(at..).and_then(decode) {
        let end = u8::try_from(at + length).ok()?;
        let operation = match instruction {
            Instruction::Push(register) => Operation::Push(register),
            Instruction::MoveSp(value) if value < 0 => Operation::Allocate(value.unsigned_abs()),
            Instruction::SetFp { offset } => Operation::SetFrame(X86_64::RBP.0, u64::try_from(offset).ok()?),
            Instruction::Load { base, .. } if base == X86_64::RBP.0 && at == 0 => return None,
            Instruction::Other | Instruction::Store => {
                at += length;
                continue;
            }
            _ => break,
        };
        let frame_set = matches!(operation, Operation::SetFrame(..));
        operations.push((end, operation));
        size = end;
        at += length;
        if frame_set {
            break;
        }
    }
    Some(Program::from_prolog(size, operations))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::{Registers, StackBytes};

    fn undo(program: &Program, offset: u64, sp: u64, fp: u64) -> (u64, u64) {
        let mut registers = Registers::default();
        registers.set(X86_64::RSP.0, sp);
        registers.set(X86_64::RBP.0, fp);
        let mut context = Context::new(&registers);
        let bytes: Vec<u8> = (0..16u64).flat_map(|index| (0xa0 + index).to_le_bytes()).collect();
        program.undo(offset, &mut context, &StackBytes::new(0x1000, &bytes)).unwrap();
        (context.ip(), context.sp())
    }

    #[test]
    fn learns_framed_and_frameless_methods() {
        // push rbp; push rbx; sub rsp, 0x18; lea rbp, [rsp+0x20]; mov rbx, rdi
        let framed =
            learn(&[0x55, 0x53, 0x48, 0x83, 0xec, 0x18, 0x48, 0x8d, 0x6c, 0x24, 0x20, 0x48, 0x8b, 0xdf]).unwrap();
        assert_eq!(undo(&framed, 50, 0x1000, 0x1028), (0xa6, 0x1038));
        assert_eq!(undo(&framed, 0, 0x1000, 5), (0xa0, 0x1008));
        assert_eq!(undo(&framed, 2, 0x1000, 5), (0xa2, 0x1018));
        // push rbp; mov rbp, rsp; pushes behind it belong to the body
        let classic = learn(&[0x55, 0x48, 0x89, 0xe5, 0x53]).unwrap();
        assert_eq!(undo(&classic, 50, 0x1000, 0x1010), (0xa3, 0x1020));
        // sub rsp, 8; call …
        let frameless = learn(&[0x48, 0x83, 0xec, 8, 0xe8, 0, 0, 0, 0]).unwrap();
        assert_eq!(undo(&frameless, 20, 0x1000, 5), (0xa1, 0x1010));
        // mov eax, edi; ret: a leaf
        assert_eq!(undo(&learn(&[0x8b, 0xc7, 0xc3]).unwrap(), 2, 0x1000, 5), (0xa0, 0x1008));
    }

    #[test]
    fn does_not_pretend_to_know_osr_methods() {
        // mov rax, [rbp]; push rax; sub rsp, 0x20
        assert_eq!(learn(&[0x48, 0x8b, 0x45, 0, 0x50, 0x48, 0x83, 0xec, 0x20]), None);
    }
}
