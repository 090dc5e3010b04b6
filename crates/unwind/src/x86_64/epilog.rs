use super::instructions::{Instruction, decode};
use crate::StackBytes;
use crate::context::Context;

/// More instructions than any epilog has: up to six pops, two stack adjustments of OSR methods with
/// the registers saved by the first tier, `vzeroupper`, return.
const LONGEST_EPILOG: usize = 24;

/// Runs the code at the instruction pointer forward, as long as it consists of what epilogs are
/// made of. If that ends in a return or a tail call, the context is the caller's.
///
/// This is exact wherever it succeeds: the instructions are executed as the processor would have.
/// So there is no harm in trying it in the middle of a method. Only a jump takes judgement: one
/// that leaves the method is a tail call; one through a register is taken for a tail call if it
/// bears the JIT's mark for that.
///
/// `code` are the bytes from the instruction pointer on; `inside` tells whether an address is in
/// this method.
pub(crate) fn run(
    context: &Context,
    mut code: &[u8],
    inside: impl Fn(u64) -> bool,
    stack: &StackBytes<'_>,
) -> Option<Context> {
    let mut context = *context;
    let mut at = context.ip();
    for step in 0..LONGEST_EPILOG {
        let (instruction, length) = decode(code)?;
        code = code.get(length..)?;
        at = at.wrapping_add(length as u64);
        let sp = context.sp();
        match instruction {
            Instruction::Pop(register) => {
                let value = stack.word(sp).ok()?;
                context.set_sp(sp.checked_add(8)?);
                context.set(register, Some(value));
            }
            Instruction::MoveSp(value) => context.set_sp(sp.checked_add_signed(value)?),
            Instruction::SetSp { base, offset } => {
                context.set_sp(context.get(base)?.checked_add_signed(offset)?)
            }
            Instruction::Load { register, base, offset } => {
                let place = context.get(base)?.checked_add_signed(offset)?;
                context.set(register, stack.word(place).ok());
            }
            Instruction::Leave => {
                let frame = context.fp()?;
                let value = stack.word(frame).ok()?;
                context.set_sp(frame.checked_add(8)?);
                context.set(super::FP, Some(value));
            }
            Instruction::Other => {}
            Instruction::Return => return returned(context, stack),
            Instruction::Jump(distance) => {
                let left = !inside(at.wrapping_add_signed(distance));
                return if left { returned(context, stack) } else { None };
            }
            Instruction::JumpIndirect { tail } => {
                return if tail || step > 0 { returned(context, stack) } else { None };
            }
            Instruction::Push(_) | Instruction::SetFp { .. } | Instruction::Store => return None,
        }
    }
    None
}

fn returned(mut context: Context, stack: &StackBytes<'_>) -> Option<Context> {
    let sp = context.sp();
    context.set_ip(stack.word(sp).ok()?);
    context.set_sp(sp.checked_add(8)?);
    Some(context)
}

#[cfg(test)]
mod tests {
    use gimli::X86_64;
    use proptest::prelude::*;

    use super::*;
    use crate::Registers;

    fn context(sp: u64, fp: u64, ip: u64) -> Context {
        let mut registers = Registers::default();
        registers.ip = ip;
        registers.set(X86_64::RSP.0, sp);
        registers.set(X86_64::RBP.0, fp);
        Context::new(&registers)
    }

    fn words(count: u64) -> Vec<u8> {
        (0..count).flat_map(|index| (0xa0 + index).to_le_bytes()).collect()
    }

    fn try_at(code: &[u8], sp: u64, fp: u64) -> Option<Context> {
        let bytes = words(16);
        // The method is 0x4000..0x4100.
        run(
            &context(sp, fp, 0x4010),
            code,
            |address| (0x4000..0x4100).contains(&address),
            &StackBytes::new(0x1000, &bytes),
        )
    }

    /// vzeroupper; add rsp, 0x10; pop rbx; pop rbp; ret
    const PLAIN: &[u8] = &[0xc5, 0xf8, 0x77, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0x5d, 0xc3];

    #[test]
    fn every_point_of_an_epilog_leads_to_the_same_caller() {
        for (skip, sp) in [(0, 0x1000), (3, 0x1000), (7, 0x1010), (8, 0x1018), (9, 0x1020)] {
            let caller = try_at(&PLAIN[skip..], sp, 0xa3).unwrap();
            assert_eq!((caller.ip(), caller.sp()), (0xa4, 0x1028), "from byte {skip}");
            assert_eq!(caller.fp(), Some(0xa3), "from byte {skip}");
        }
    }

    #[test]
    fn frame_pointer_epilogs_and_loads() {
        // lea rsp, [rbp-0x10]; pop r14; pop rbx; pop rbp; ret
        let caller =
            try_at(&[0x48, 0x8d, 0x65, 0xf0, 0x41, 0x5e, 0x5b, 0x5d, 0xc3], 0x1000, 0x1020)
                .unwrap();
        assert_eq!(
            (caller.ip(), caller.get(X86_64::R14.0), caller.fp()),
            (0xa5, Some(0xa2), Some(0xa4))
        );
        // OSR: mov rbx, [rsp+0x18]; add rsp, 0x28; pop rbp; ret
        let caller =
            try_at(&[0x48, 0x8b, 0x5c, 0x24, 0x18, 0x48, 0x83, 0xc4, 0x28, 0x5d, 0xc3], 0x1000, 1)
                .unwrap();
        assert_eq!(
            (caller.ip(), caller.get(X86_64::RBX.0), caller.fp()),
            (0xa6, Some(0xa3), Some(0xa5))
        );
        // leave; ret
        assert_eq!(try_at(&[0xc9, 0xc3], 0x1000, 0x1008).unwrap().ip(), 0xa2);
    }

    #[test]
    fn jumps_count_only_when_they_leave() {
        // add rsp, 8; jmp out of the method
        assert_eq!(try_at(&[0x48, 0x83, 0xc4, 8, 0xe9, 0, 1, 0, 0], 0x1000, 1).unwrap().ip(), 0xa1);
        // jmp within it
        assert!(try_at(&[0xeb, 0x10], 0x1000, 1).is_none());
        // A switch: jmp rax. With the mark of a tail call it is one.
        assert!(try_at(&[0xff, 0xe0], 0x1000, 1).is_none());
        assert_eq!(try_at(&[0x48, 0xff, 0xe0], 0x1000, 1).unwrap().ip(), 0xa0);
        assert_eq!(try_at(&[0x5d, 0xff, 0xe0], 0x1000, 1).unwrap().ip(), 0xa1);
    }

    #[test]
    fn ordinary_code_is_no_epilog() {
        // mov eax, 1; ret
        assert!(try_at(&[0xb8, 1, 0, 0, 0, 0xc3], 0x1000, 1).is_none());
        assert!(try_at(&[], 0x1000, 1).is_none());
        // Nothing but nops, and more of them than an epilog can have.
        assert!(try_at(&[0x90; 100], 0x1000, 1).is_none());
        // Pops over the end of the copy.
        assert!(try_at(&[0x5b, 0x5d, 0xc3], 0x1078, 1).is_none());
    }

    proptest! {
        #[test]
        fn random_code_never_panics(code in proptest::collection::vec(any::<u8>(), 0..64), sp in any::<u64>(), fp in any::<u64>()) {
            for sp in [sp, 0x1000] {
                let _ = try_at(&code, sp, fp);
            }
        }
    }
}
