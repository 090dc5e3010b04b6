use gimli::X86_64;

use super::instructions::{Instruction, decode};
use super::unwind_info::{Operation, Program};

/// Reads the prolog of a method from its code, for methods whose unwind information could not be
/// had.
///
/// Only what CoreCLR's JIT writes at the start of a method is understood: pushes, the allocation,
/// the frame pointer. `None` for code that does not begin like that although it has a frame: an OSR
/// method (it begins with a load through the frame pointer of its first tier, whose frame it
/// keeps), or a frame that is probed page by page.
pub(crate) fn learn(code: &[u8]) -> Option<Program> {
    let mut operations = vec![(0, Operation::Begin { frame: None })];
    let mut at = 0usize;
    let mut size = 0u8;
    while let Some((instruction, length)) = code.get(at..).and_then(decode) {
        let end = u8::try_from(at + length).ok()?;
        let operation = match instruction {
            Instruction::Push(register) => Operation::Push(register),
            Instruction::MoveSp(value) if value < 0 => Operation::Allocate(value.unsigned_abs()),
            Instruction::SetFp { offset } => {
                Operation::SetFrame(X86_64::RBP.0, u64::try_from(offset).ok()?)
            }
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

/// See [`super::frame_above_stack`]. Compilers of native code push what they save behind the frame
/// pointer, and take the rest of the frame in one piece.
pub(crate) fn frame_above_stack(code: &[u8]) -> Option<u64> {
    // endbr64
    let mut rest = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    let (mut framed, mut above) = (0, 0u64);
    while let Some((instruction, length)) = decode(rest) {
        match (framed, instruction) {
            (0, Instruction::Push(register)) if register == X86_64::RBP.0 => framed = 1,
            (1, Instruction::SetFp { offset: 0 }) => framed = 2,
            (2, Instruction::Push(_)) => above += 8,
            (2, Instruction::MoveSp(value)) if value < 0 => {
                return above.checked_add(value.unsigned_abs());
            }
            _ => break,
        }
        rest = rest.get(length..)?;
    }
    // and rsp, …: the size depends on where the stack was.
    let is_aligned = matches!(rest, [0x48, 0x81 | 0x83, 0xe4, ..]);
    (framed == 2 && !is_aligned).then_some(above)
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
        let framed = learn(&[
            0x55, 0x53, 0x48, 0x83, 0xec, 0x18, 0x48, 0x8d, 0x6c, 0x24, 0x20, 0x48, 0x8b, 0xdf,
        ])
        .unwrap();
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
    fn the_frame_of_native_code_is_read_from_its_prolog() {
        // push rbp; mov rbp, rsp; push r15; push r14; push rbx; sub rsp, 0x28; mov ebx, edi
        let saves = [
            0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56, 0x53, 0x48, 0x83, 0xec, 0x28, 0x89,
            0xfb,
        ];
        assert_eq!(frame_above_stack(&saves), Some(0x40));
        let marked = [&[0xf3, 0x0f, 0x1e, 0xfa][..], &saves].concat();
        assert_eq!(frame_above_stack(&marked), Some(0x40));
        // push rbp; mov rbp, rsp; push rax; call …
        assert_eq!(frame_above_stack(&[0x55, 0x48, 0x89, 0xe5, 0x50, 0xe8, 0, 0, 0, 0]), Some(8));
        // push rbp; push rbx: no frame pointer. sub rsp, 8: no frame.
        assert_eq!(frame_above_stack(&[0x55, 0x53, 0x48, 0x83, 0xec, 8]), None);
        assert_eq!(frame_above_stack(&[0x48, 0x83, 0xec, 8]), None);
        // push rbp; mov rbp, rsp; and rsp, -32
        assert_eq!(frame_above_stack(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0]), None);
        assert_eq!(frame_above_stack(&[]), None);
    }

    #[test]
    fn does_not_pretend_to_know_osr_methods() {
        // mov rax, [rbp]; push rax; sub rsp, 0x20
        assert_eq!(learn(&[0x48, 0x8b, 0x45, 0, 0x50, 0x48, 0x83, 0xec, 0x20]), None);
    }
}
