/// Bytes of a thread's stack, copied from its stack pointer up.
#[derive(Clone, Copy, Debug)]
pub struct StackBytes<'a> {
    base: u64,
    bytes: &'a [u8],
}

/// Why a word of the stack could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// It lies behind the copied bytes, towards the root: more bytes would have helped.
    BehindCopy,
    /// It lies below the stack pointer of the sample: no stack of this thread is there.
    BelowCopy,
}

impl<'a> StackBytes<'a> {
    /// `bytes` as they stood at the address `base`, which is the stack pointer of the sample.
    pub fn new(base: u64, bytes: &'a [u8]) -> Self {
        Self { base, bytes }
    }

    /// First address behind the copied bytes.
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.bytes.len() as u64)
    }

    /// Whether the address lies in the copied bytes.
    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.end()).contains(&address)
    }

    /// The 64-bit word at an address.
    pub(crate) fn word(&self, address: u64) -> Result<u64, ReadError> {
        let offset = address.checked_sub(self.base).ok_or(ReadError::BelowCopy)?;
        let offset = usize::try_from(offset).map_err(|_| ReadError::BehindCopy)?;
        let bytes = offset
            .checked_add(8)
            .and_then(|end| self.bytes.get(offset..end))
            .ok_or(ReadError::BehindCopy)?;
        bytes.try_into().map(u64::from_le_bytes).map_err(|_| ReadError::BehindCopy)
    }

    /// All aligned words with their addresses, from `from` towards the root.
    pub(crate) fn words(&self, from: u64) -> impl Iterator<Item = (u64, u64)> + 'a {
        let start = from.max(self.base).next_multiple_of(8);
        let skip = usize::try_from(start - self.base).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(skip..).unwrap_or_default();
        bytes
            .as_chunks::<8>()
            .0
            .iter()
            .enumerate()
            .map(move |(index, word)| (start + index as u64 * 8, u64::from_le_bytes(*word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_words_inside_and_tells_the_sides_apart() {
        let bytes: Vec<u8> = (0..24).collect();
        let stack = StackBytes::new(0x1000, &bytes);
        assert_eq!(stack.word(0x1000), Ok(0x0706_0504_0302_0100));
        assert_eq!(stack.word(0x1010), Ok(0x1716_1514_1312_1110));
        assert_eq!(stack.word(0x1011), Err(ReadError::BehindCopy));
        assert_eq!(stack.word(0xff8), Err(ReadError::BelowCopy));
        assert_eq!(stack.word(u64::MAX), Err(ReadError::BehindCopy));
        assert!(stack.contains(0x1017) && !stack.contains(0x1018));
    }

    #[test]
    fn words_start_aligned_and_never_before_the_copy() {
        let bytes = [0u8; 40];
        let stack = StackBytes::new(0x1000, &bytes);
        let addresses = |from| stack.words(from).map(|(address, _)| address).collect::<Vec<_>>();
        assert_eq!(addresses(0), [0x1000, 0x1008, 0x1010, 0x1018, 0x1020]);
        assert_eq!(addresses(0x1019), [0x1020]);
        assert!(addresses(0x5000).is_empty());
    }
}
