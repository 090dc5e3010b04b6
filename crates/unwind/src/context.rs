use crate::arch::{self, Registers};
use crate::stack::ReadError;

/// Registers while unwinding: those that a rule did not give back are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    registers: Registers,
    /// One bit for each register of [`Registers`], by DWARF number.
    known: u64,
    /// Whether most registers were unknown from the beginning.
    partial: bool,
}

impl Context {
    pub(crate) fn new(registers: &Registers) -> Self {
        Self { registers: *registers, known: (1 << arch::REGISTERS) - 1, partial: false }
    }

    /// Of a thread of which only these two are known.
    pub(crate) fn of_pointers(ip: u64, sp: u64) -> Self {
        let mut context = Self { registers: Registers::default(), known: 0, partial: true };
        context.set_sp(sp);
        context.set_ip(ip);
        context
    }

    /// See the field.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    /// To a frame further up, of which only these are known.
    pub(crate) fn jump(&mut self, ip: u64, sp: u64, fp: u64) {
        *self = Self::of_pointers(ip, sp);
        self.set(arch::FP, Some(fp));
    }

    /// The register with a DWARF number, if its value is known.
    pub(crate) fn get(&self, register: u16) -> Option<u64> {
        if register < 64 && self.known & (1 << register) != 0 {
            self.registers.get(register)
        } else {
            None
        }
    }

    /// Sets a register by DWARF number, or makes it unknown.
    pub(crate) fn set(&mut self, register: u16, value: Option<u64>) {
        if register as usize >= arch::REGISTERS {
            return;
        }
        match value {
            Some(value) => {
                self.registers.set(register, value);
                self.known |= 1 << register;
            }
            None => self.known &= !(1 << register),
        }
    }

    /// The stack pointer: always known.
    pub(crate) fn sp(&self) -> u64 {
        self.registers.sp()
    }

    pub(crate) fn set_sp(&mut self, sp: u64) {
        self.set(arch::SP, Some(sp));
    }

    /// The frame pointer.
    pub(crate) fn fp(&self) -> Option<u64> {
        self.get(arch::FP)
    }

    /// The instruction pointer: always known.
    pub(crate) fn ip(&self) -> u64 {
        self.registers.ip
    }

    pub(crate) fn set_ip(&mut self, ip: u64) {
        self.registers.ip = ip;
    }

    /// Registers that a callee may change are unknown in the caller.
    pub(crate) fn forget_scratch(&mut self) {
        self.known &= arch::PRESERVED;
    }
}

/// Why a frame could not be left by its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepError {
    /// The stack could not be read.
    Stack(ReadError),
    /// The rule needs a register whose value is not known any more.
    UnknownRegister,
    /// An address ran over.
    Overflow,
    /// The rule itself makes no sense.
    BadRule,
}

impl From<ReadError> for StepError {
    fn from(error: ReadError) -> Self {
        Self::Stack(error)
    }
}
