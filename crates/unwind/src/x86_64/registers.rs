use gimli::X86_64;
use wire::ring::{REGISTERS as WIRE_REGISTERS, Register};

use super::{FP, REGISTERS, SP};

/// Registers of a sampled thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// By DWARF number.
    by_number: [u64; REGISTERS],
    /// The instruction pointer.
    pub ip: u64,
}

/// DWARF numbers in the order of [`Register`], which is the order of their slots.
const WIRE_ORDER: [(Register, u16); REGISTERS] = [
    (Register::Rax, X86_64::RAX.0),
    (Register::Rbx, X86_64::RBX.0),
    (Register::Rcx, X86_64::RCX.0),
    (Register::Rdx, X86_64::RDX.0),
    (Register::Rsi, X86_64::RSI.0),
    (Register::Rdi, X86_64::RDI.0),
    (Register::Rbp, X86_64::RBP.0),
    (Register::Rsp, X86_64::RSP.0),
    (Register::R8, X86_64::R8.0),
    (Register::R9, X86_64::R9.0),
    (Register::R10, X86_64::R10.0),
    (Register::R11, X86_64::R11.0),
    (Register::R12, X86_64::R12.0),
    (Register::R13, X86_64::R13.0),
    (Register::R14, X86_64::R14.0),
    (Register::R15, X86_64::R15.0),
];

impl Registers {
    /// From the slots of the signal engine's ring, in the order of [`Register`].
    pub fn from_slots(slots: &[u64; WIRE_REGISTERS]) -> Self {
        let ip = slots.get(Register::Rip as usize).copied().unwrap_or_default();
        let mut registers = Self { ip, ..Self::default() };
        for (slot, number) in WIRE_ORDER {
            registers.set(number, slots.get(slot as usize).copied().unwrap_or_default());
        }
        registers
    }

    /// The register with a DWARF number; `None` if there is none with this number.
    pub fn get(&self, number: u16) -> Option<u64> {
        self.by_number.get(usize::from(number)).copied()
    }

    /// Sets the register with a DWARF number; numbers that do not exist are ignored.
    pub fn set(&mut self, number: u16, value: u64) {
        if let Some(register) = self.by_number.get_mut(usize::from(number)) {
            *register = value;
        }
    }

    /// The stack pointer, `rsp`.
    pub fn sp(&self) -> u64 {
        self.get(SP).unwrap_or_default()
    }

    /// The frame pointer, `rbp`.
    pub fn fp(&self) -> u64 {
        self.get(FP).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_land_in_the_registers_of_their_name() {
        let slots: [u64; WIRE_REGISTERS] = std::array::from_fn(|index| 100 + index as u64);
        let registers = Registers::from_slots(&slots);
        assert_eq!(registers.sp(), 100 + Register::Rsp as u64);
        assert_eq!(registers.fp(), 100 + Register::Rbp as u64);
        assert_eq!(registers.ip, 100 + Register::Rip as u64);
        assert_eq!(registers.get(X86_64::RDX.0), Some(100 + Register::Rdx as u64));
        assert_eq!(registers.get(X86_64::R15.0), Some(100 + Register::R15 as u64));
        assert_eq!(registers.get(16), None);
    }
}
