//! The Windows x64 `UNWIND_INFO`, in the dialect of CoreCLR on Unix.
//!
//! Layout and codes: "x64 exception handling" in Microsoft's documentation,
//! `src/coreclr/inc/win64unwind.h` in dotnet/runtime. CoreCLR adds `UWOP_SET_FPREG_LARGE` for
//! frames that are over 240 bytes away from their frame pointer.

use super::instructions::by_encoding;
use crate::StackBytes;
use crate::context::{Context, StepError};

const UWOP_PUSH_NONVOL: u8 = 0;
const UWOP_ALLOC_LARGE: u8 = 1;
const UWOP_ALLOC_SMALL: u8 = 2;
const UWOP_SET_FPREG: u8 = 3;
const UWOP_SAVE_NONVOL: u8 = 4;
const UWOP_SAVE_NONVOL_FAR: u8 = 5;
/// Version 2 only: describes an epilog, which we recognise from the code instead.
const UWOP_EPILOG: u8 = 6;
const UWOP_SAVE_XMM128: u8 = 8;
const UWOP_SAVE_XMM128_FAR: u8 = 9;
const UWOP_PUSH_MACHFRAME: u8 = 10;
const UWOP_SET_FPREG_LARGE: u8 = 11;

/// What a prolog did to the stack, to be undone from the last operation to the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    /// Behind this many bytes of the function all of it is done.
    prolog_size: u8,
    operations: Vec<(u8, Operation)>,
}

/// One operation; the `u8` beside it is the offset behind the instruction that did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Beginning of an `UNWIND_INFO`: from where [`Operation::Save`] counts.
    Begin {
        /// The frame register, how far it is above the base, and from which offset on it is set.
        frame: Option<(u16, u64, u8)>,
    },
    /// A register was pushed.
    Push(u16),
    /// Stack was allocated, in bytes.
    Allocate(u64),
    /// The frame register was set this far above the stack pointer.
    SetFrame(u16, u64),
    /// A register was stored this far above the base.
    Save(u16, u64),
    /// The processor pushed the frame of an interrupt, with an error code or without.
    MachineFrame { error_code: bool },
}

impl Program {
    /// A program of operations that are given in the order in which the prolog does them.
    pub(crate) fn from_prolog(prolog_size: u8, mut operations: Vec<(u8, Operation)>) -> Self {
        operations.reverse();
        Self { prolog_size, operations }
    }

    /// Reads `UNWIND_INFO`s: the function's own first, then those that it is chained to. `None` if
    /// one of them is malformed or of an unknown version.
    pub(crate) fn parse<'a>(infos: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut program = Self::default();
        for (index, info) in infos.into_iter().enumerate() {
            let (&[version_and_flags, prolog_size, count, frame], codes) =
                info.split_first_chunk::<4>()?;
            matches!(version_and_flags & 7, 1 | 2).then_some(())?;
            let chained = index > 0;
            if !chained {
                program.prolog_size = prolog_size;
            }
            let codes = codes.get(..usize::from(count) * 2)?;
            program.parse_codes(codes, frame, chained)?;
        }
        (!program.operations.is_empty()).then_some(program)
    }

    fn parse_codes(&mut self, codes: &[u8], frame: u8, chained: bool) -> Option<()> {
        let frame_register = by_encoding(frame);
        let mut frame_offset = u64::from(frame >> 4) * 16;
        let mut set_at = 0;
        let begin = self.operations.len();
        self.operations.push((0, Operation::Begin { frame: None }));
        let mut slots = codes.as_chunks::<2>().0.iter();
        let slot = |slots: &mut std::slice::Iter<'_, [u8; 2]>| {
            slots.next().map(|slot| u64::from(u16::from_le_bytes(*slot)))
        };
        let far =
            |slots: &mut std::slice::Iter<'_, [u8; 2]>| Some(slot(slots)? | slot(slots)? << 16);
        while let Some(&[offset, operation]) = slots.next() {
            let (operation, info) = (operation & 15, operation >> 4);
            let offset = if chained { 0 } else { offset };
            let operation = match operation {
                UWOP_PUSH_NONVOL => Operation::Push(by_encoding(info)),
                UWOP_ALLOC_LARGE if info == 0 => Operation::Allocate(slot(&mut slots)? * 8),
                UWOP_ALLOC_LARGE if info == 1 => Operation::Allocate(far(&mut slots)?),
                UWOP_ALLOC_SMALL => Operation::Allocate(u64::from(info) * 8 + 8),
                UWOP_SET_FPREG => {
                    set_at = offset;
                    Operation::SetFrame(frame_register, frame_offset)
                }
                UWOP_SET_FPREG_LARGE => {
                    set_at = offset;
                    frame_offset = far(&mut slots)? * 16;
                    Operation::SetFrame(frame_register, frame_offset)
                }
                UWOP_SAVE_NONVOL => Operation::Save(by_encoding(info), slot(&mut slots)? * 8),
                UWOP_SAVE_NONVOL_FAR => Operation::Save(by_encoding(info), far(&mut slots)?),
                UWOP_SAVE_XMM128 => {
                    slot(&mut slots)?;
                    continue;
                }
                UWOP_SAVE_XMM128_FAR => {
                    far(&mut slots)?;
                    continue;
                }
                UWOP_EPILOG => continue,
                UWOP_PUSH_MACHFRAME => Operation::MachineFrame { error_code: info != 0 },
                _ => return None,
            };
            self.operations.push((offset, operation));
        }
        if frame & 15 != 0
            && let Some((_, Operation::Begin { frame })) = self.operations.get_mut(begin)
        {
            *frame = Some((frame_register, frame_offset, set_at));
        }
        Some(())
    }

    /// Undoes what the function has done after `offset` bytes of its code, and returns.
    pub(crate) fn undo(
        &self,
        offset: u64,
        context: &mut Context,
        stack: &StackBytes<'_>,
    ) -> Result<(), StepError> {
        self.undo_from(offset, context, stack, false)
    }

    /// The same where the frame register is unknown: the stack pointer is taken for where the
    /// prolog has left it.
    pub(crate) fn undo_by_size(
        &self,
        offset: u64,
        context: &mut Context,
        stack: &StackBytes<'_>,
    ) -> Result<(), StepError> {
        self.undo_from(offset, context, stack, true)
    }

    fn undo_from(
        &self,
        offset: u64,
        context: &mut Context,
        stack: &StackBytes<'_>,
        by_size: bool,
    ) -> Result<(), StepError> {
        let done = |at: u8| offset >= u64::from(at) || offset >= u64::from(self.prolog_size);
        let mut base = context.sp();
        for &(at, operation) in &self.operations {
            if !done(at) {
                continue;
            }
            let sp = context.sp();
            match operation {
                Operation::Begin { frame } => {
                    base = match frame {
                        Some((register, above, set_at)) if done(set_at) && !by_size => {
                            let frame = context.get(register).ok_or(StepError::UnknownRegister)?;
                            frame.checked_sub(above).ok_or(StepError::Overflow)?
                        }
                        _ => sp,
                    };
                }
                Operation::Push(register) => {
                    context.set(register, Some(stack.word(sp)?));
                    context.set_sp(sp.checked_add(8).ok_or(StepError::Overflow)?);
                }
                Operation::Allocate(size) => {
                    context.set_sp(sp.checked_add(size).ok_or(StepError::Overflow)?)
                }
                Operation::SetFrame(..) if by_size => {}
                Operation::SetFrame(register, above) => {
                    let frame = context.get(register).ok_or(StepError::UnknownRegister)?;
                    context.set_sp(frame.checked_sub(above).ok_or(StepError::Overflow)?);
                }
                Operation::Save(register, above) => {
                    let place = base.checked_add(above).ok_or(StepError::Overflow)?;
                    context.set(register, Some(stack.word(place)?));
                }
                Operation::MachineFrame { error_code } => {
                    let frame =
                        sp.checked_add(u64::from(error_code) * 8).ok_or(StepError::Overflow)?;
                    let stack_pointer = frame.checked_add(24).ok_or(StepError::Overflow)?;
                    context.set_ip(stack.word(frame)?);
                    context.set_sp(stack.word(stack_pointer)?);
                    return Ok(());
                }
            }
        }
        let sp = context.sp();
        context.set_ip(stack.word(sp)?);
        context.set_sp(sp.checked_add(8).ok_or(StepError::Overflow)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use gimli::X86_64;
    use proptest::prelude::*;

    use super::*;
    use crate::Registers;

    const RBX: u16 = X86_64::RBX.0;
    const RBP: u16 = X86_64::RBP.0;
    const R15: u16 = X86_64::R15.0;

    fn context(sp: u64, fp: u64) -> Context {
        let mut registers = Registers::default();
        registers.set(X86_64::RSP.0, sp);
        registers.set(RBP, fp);
        Context::new(&registers)
    }

    /// A stack at 0x1000 whose words are 0xa0, 0xa1, …
    fn words(count: u64) -> Vec<u8> {
        (0..count).flat_map(|index| (0xa0 + index).to_le_bytes()).collect()
    }

    /// push rbp; push r15; push rbx; sub rsp, 0x20; lea rbp, [rsp+0x30]
    const FRAMED: &[u8] = &[
        1, 13, 5, 0x35, // frame register rbp, 3 * 16 above
        13, 0x03, // SET_FPREG
        8, 0x32, // ALLOC_SMALL 3 * 8 + 8
        4, 0x30, // PUSH rbx
        3, 0xf0, // PUSH r15
        1, 0x50, // PUSH rbp
        0, 0, // padding, not counted
    ];

    #[test]
    fn undoes_a_framed_method_at_every_point_of_its_prolog() {
        let program = Program::parse([FRAMED]).unwrap();
        let bytes = words(16);
        let stack = StackBytes::new(0x1000, &bytes);
        // In the body the stack pointer does not matter, such as after a stackalloc.
        let mut body = context(0x1000, 0x1030 + 0x10);
        program.undo(100, &mut body, &stack).unwrap();
        // Base 0x1010, behind the allocation 0x1030: rbx, r15, rbp, return address.
        assert_eq!(body.get(RBX), Some(0xa6));
        assert_eq!(body.get(R15), Some(0xa7));
        assert_eq!(body.fp(), Some(0xa8));
        assert_eq!((body.ip(), body.sp()), (0xa9, 0x1050));

        // Before anything: the return address is on top.
        let mut entry = context(0x1008, 7);
        program.undo(0, &mut entry, &stack).unwrap();
        assert_eq!((entry.ip(), entry.sp(), entry.fp()), (0xa1, 0x1010, Some(7)));
        // After push rbp, push r15.
        let mut pushed = context(0x1008, 7);
        program.undo(3, &mut pushed, &stack).unwrap();
        assert_eq!((pushed.ip(), pushed.get(R15), pushed.fp()), (0xa3, Some(0xa1), Some(0xa2)));
        // After sub rsp, before rbp is set: rbp is still the caller's and must not be used.
        let mut allocated = context(0x1000, u64::MAX);
        program.undo(8, &mut allocated, &stack).unwrap();
        assert_eq!(
            (allocated.ip(), allocated.get(RBX), allocated.fp()),
            (0xa7, Some(0xa4), Some(0xa6))
        );
    }

    #[test]
    fn undoes_large_frames_and_saves() {
        // sub rsp, 0x1000 (ALLOC_LARGE, scaled), mov [rsp+0x10], rbx (SAVE_NONVOL)
        let saved = [1, 20, 4, 0, 15, 0x34, 2, 0, 7, 0x01, 0x00, 0x02];
        let program = Program::parse([&saved[..]]).unwrap();
        let bytes = words(0x1010 / 8);
        let stack = StackBytes::new(0x1000, &bytes);
        let mut body = context(0x1000, 5);
        program.undo(30, &mut body, &stack).unwrap();
        assert_eq!(body.get(RBX), Some(0xa2));
        assert_eq!((body.ip(), body.sp()), (0xa0 + 0x200, 0x2008));

        // ALLOC_LARGE with 32 bits, unscaled; SET_FPREG_LARGE: rbp 0x200 * 16 above the base.
        let far = [1, 20, 7, 0xf5, 20, 0x0b, 0x00, 0x02, 0, 0, 10, 0x11, 0x08, 0x20, 0, 0];
        let program = Program::parse([&far[..]]).unwrap_or_default();
        assert_eq!(program, Program::default(), "a code too many is malformed");
        let far = [1, 20, 6, 0xf5, 20, 0x0b, 0x00, 0x02, 0, 0, 10, 0x11, 0x08, 0x20, 0, 0];
        let program = Program::parse([&far[..]]).unwrap();
        let bytes = words(0x800);
        let stack = StackBytes::new(0x1000, &bytes);
        let mut body = context(0x1000, 0x1100 + 0x2000);
        program.undo(30, &mut body, &stack).unwrap();
        assert_eq!(body.sp(), 0x1100 + 0x2008 + 8);
    }

    #[test]
    fn follows_chained_infos_in_full() {
        // Inner part saves rbx; the chained function has pushed rbp and allocated 0x10.
        let inner = [0x21, 4, 2, 0, 4, 0x34, 0, 0];
        let outer = [1, 5, 2, 0, 5, 0x12, 1, 0x50];
        let program = Program::parse([&inner[..], &outer[..]]).unwrap();
        let bytes = words(8);
        let stack = StackBytes::new(0x1000, &bytes);
        let mut at_start = context(0x1000, 9);
        program.undo(0, &mut at_start, &stack).unwrap();
        assert_eq!(at_start.get(RBX), Some(0), "not saved yet");
        assert_eq!((at_start.fp(), at_start.ip(), at_start.sp()), (Some(0xa2), 0xa3, 0x1020));
        let mut later = context(0x1000, 9);
        program.undo(4, &mut later, &stack).unwrap();
        assert_eq!(later.get(RBX), Some(0xa0));
    }

    #[test]
    fn a_machine_frame_gives_back_stack_and_address() {
        let program = Program::parse([&[1, 0, 1, 0, 0, 0x0a][..]]).unwrap();
        let bytes: Vec<u8> = [0x5555u64, 0x33, 0x202, 0x1f00, 0x2b]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let mut interrupted = context(0x1000, 1);
        program.undo(0, &mut interrupted, &StackBytes::new(0x1000, &bytes)).unwrap();
        assert_eq!((interrupted.ip(), interrupted.sp()), (0x5555, 0x1f00));
    }

    #[test]
    fn a_lost_frame_register_is_an_error_and_no_guess() {
        let program = Program::parse([FRAMED]).unwrap();
        let mut body = context(0x1000, 0x1040);
        body.set(RBP, None);
        assert_eq!(
            program.undo(100, &mut body, &StackBytes::new(0x1000, &words(16))),
            Err(StepError::UnknownRegister)
        );
    }

    #[test]
    fn a_frame_of_known_size_is_left_without_its_register() {
        let program = Program::parse([FRAMED]).unwrap();
        let bytes = words(16);
        let mut body = context(0x1000, 0x1040);
        body.set(RBP, None);
        program.undo_by_size(100, &mut body, &StackBytes::new(0x1000, &bytes)).unwrap();
        // 0x20 bytes, then rbx, r15, rbp and the return address.
        assert_eq!((body.get(RBX), body.get(R15), body.fp()), (Some(0xa4), Some(0xa5), Some(0xa6)));
        assert_eq!((body.ip(), body.sp()), (0xa7, 0x1040));
    }

    proptest! {
        #[test]
        fn random_infos_never_panic(
            infos in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 0..4),
            offset in 0u64..300,
            sp in any::<u64>(),
            fp in any::<u64>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..256),
        ) {
            if let Some(program) = Program::parse(infos.iter().map(Vec::as_slice)) {
                for base in [sp, 0x1000] {
                    let _ = program.undo(offset, &mut context(base, fp), &StackBytes::new(base, &bytes));
                    let _ = program.undo_by_size(offset, &mut context(base, fp), &StackBytes::new(base, &bytes));
                }
            }
        }
    }
}
