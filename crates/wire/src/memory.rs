//! Reading memory that may not be there.

/// A source of bytes by address. Nothing is dereferenced, so any address may be asked for.
pub trait Memory {
    /// Fills `out` from `address` on; false if not all of it could be read.
    fn read(&self, address: u64, out: &mut [u8]) -> bool;

    /// A little-endian `u32`.
    fn u32(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes).then(|| u32::from_le_bytes(bytes))
    }

    /// A little-endian `u64`.
    fn u64(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// `length` bytes. The caller has checked that the length is sane.
    fn bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes).then_some(bytes)
    }
}
