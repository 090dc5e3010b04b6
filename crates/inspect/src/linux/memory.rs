//! Reads of another process's memory that never stop it and never fault: what is not mapped is not
//! there.

use std::{fs::File, io, os::unix::fs::FileExt};

/// `/proc/<pid>/mem`.
#[derive(Debug)]
pub(super) struct Memory(File);

/// Most bytes in one read: the metadata of the largest assemblies have some megabytes.
const MOST: usize = 64 << 20;

impl Memory {
    pub fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Fills a buffer; `None` when not all of it is mapped.
    pub fn fill(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.0.read_exact_at(buffer, address).ok()
    }

    pub fn array<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(address, &mut bytes)?;
        Some(bytes)
    }

    pub fn bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        if length > MOST {
            return None;
        }
        let mut bytes = vec![0; length];
        self.fill(address, &mut bytes)?;
        Some(bytes)
    }

    pub fn u16(&self, address: u64) -> Option<u16> {
        self.array(address).map(u16::from_le_bytes)
    }

    pub fn u32(&self, address: u64) -> Option<u32> {
        self.array(address).map(u32::from_le_bytes)
    }

    pub fn u64(&self, address: u64) -> Option<u64> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// A pointer that is not null, nor an address that no program has.
    pub fn pointer(&self, address: u64) -> Option<u64> {
        self.u64(address).filter(|&pointer| is_pointer(pointer))
    }

    /// Text up to a NUL, at most `most` bytes, that is UTF-8.
    pub fn text(&self, address: u64, most: usize) -> Option<String> {
        let mut bytes = Vec::new();
        // Byte by byte would be many calls, all at once could run into what is not mapped.
        while bytes.len() < most {
            let at = address.checked_add(bytes.len() as u64)?;
            let chunk: [u8; 16] = self.array(at)?;
            if let Some(end) = chunk.iter().position(|&byte| byte == 0) {
                bytes.extend(chunk.iter().take(end));
                return String::from_utf8(bytes).ok();
            }
            bytes.extend(chunk);
        }
        None
    }
}

impl wire::memory::Memory for Memory {
    fn read(&self, address: u64, out: &mut [u8]) -> bool {
        self.fill(address, out).is_some()
    }
}

/// Whether a number could be an address of something in user space.
pub(super) fn is_pointer(number: u64) -> bool {
    (0x1_0000..1 << 47).contains(&number)
}

/// Number at an offset of bytes.
pub(super) fn u64_in(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().copied().map(u64::from_le_bytes)
}

/// Number at an offset of bytes.
pub(super) fn u32_in(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory() {
        let memory = Memory::open(std::process::id()).unwrap();
        let text = *b"some text that is long enough\0and more\0";
        let address = text.as_ptr() as u64;
        assert_eq!(memory.text(address, 100).as_deref(), Some("some text that is long enough"));
        assert_eq!(memory.text(address, 16), None);
        assert_eq!(memory.u16(address), Some(u16::from_le_bytes(*b"so")));
        assert_eq!(memory.u32(address), u32_in(&text, 0));
        assert_eq!(memory.u64(address + 3), u64_in(&text, 3));
        assert_eq!(
            (memory.u64(0), memory.u64(u64::MAX - 3), memory.bytes(address, usize::MAX)),
            (None, None, None)
        );
        assert_eq!((memory.pointer(address), u64_in(&text, 60)), (None, None));
    }
}
