/// The length of a call instruction, in bytes.
pub const LONGEST_CALL: usize = 4;

/// Whether the bytes end in a call instruction, so that the address behind them can be a return
/// address: `BL`, or `BLR` with or without pointer authentication (Arm ARM, C6.2).
pub fn ends_in_call(bytes: &[u8]) -> bool {
    let Some(&instruction) = bytes.last_chunk::<4>() else { return false };
    let instruction = u32::from_le_bytes(instruction);
    instruction >> 26 == 0b10_0101 || instruction & 0xfeff_f000 == 0xd63f_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_calls() {
        assert!(ends_in_call(&0x9400_0010u32.to_le_bytes()));
        assert!(ends_in_call(&0xd63f_0200u32.to_le_bytes()));
        assert!(!ends_in_call(&0xd65f_03c0u32.to_le_bytes()), "ret");
        assert!(!ends_in_call(&0x1400_0010u32.to_le_bytes()), "b");
        assert!(!ends_in_call(&[0x94, 0, 0]));
    }
}
