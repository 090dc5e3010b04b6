//! User registers in the order in which the kernel writes them (`asm/perf_regs.h`).

use unwind::Registers;

/// Which registers the kernel is asked for: a bit for each.
#[cfg(target_arch = "x86_64")]
pub(super) const USER_REGISTERS: u64 = {
    // All integer registers and the instruction pointer; neither flags nor segments.
    let low = 0x1ff;
    let high = 0xff << 16;
    low | high
};
#[cfg(target_arch = "aarch64")]
pub(super) const USER_REGISTERS: u64 = (1 << 33) - 1;

/// Where each value goes, by DWARF number; [`IP`] is the instruction pointer.
#[cfg(target_arch = "x86_64")]
const ORDER: [u16; 17] = [
    0, // ax
    3, // bx
    2, // cx
    1, // dx
    4, // si
    5, // di
    6, // bp
    7, // sp
    IP, 8, 9, 10, 11, 12, 13, 14, 15,
];
#[cfg(target_arch = "aarch64")]
const ORDER: [u16; 33] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
    26, 27, 28, 29, 30, 31, IP,
];

const IP: u16 = u16::MAX;

/// How many registers are in a sample.
pub(super) const COUNT: usize = ORDER.len();

/// Registers from the values of a sample.
pub(super) fn read(values: &[[u8; 8]; COUNT]) -> Registers {
    let mut registers = Registers::default();
    for (number, value) in ORDER.into_iter().zip(values) {
        let value = u64::from_le_bytes(*value);
        if number == IP {
            registers.ip = value;
        } else {
            registers.set(number, value);
        }
    }
    registers
}

const _: () = assert!(USER_REGISTERS.count_ones() as usize == COUNT);
