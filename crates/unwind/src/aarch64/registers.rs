use super::{FP, REGISTERS, SP};

/// Registers of a sampled thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// By DWARF number.
    by_number: [u64; REGISTERS],
    /// The instruction pointer, `pc`.
    pub ip: u64,
}

impl Registers {
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

    /// The stack pointer, `sp`.
    pub fn sp(&self) -> u64 {
        self.get(SP).unwrap_or_default()
    }

    /// The frame pointer, `x29`.
    pub fn fp(&self) -> u64 {
        self.get(FP).unwrap_or_default()
    }
}
