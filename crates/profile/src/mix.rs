/// A quick hash for keys of small numbers, which are not chosen one by one from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mix(u64);

impl std::hash::Hasher for Mix {
    fn finish(&self) -> u64 {
        (self.0 ^ self.0 >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}
