//! Numbers and texts, as the files have them.

use crate::gcdump::GcdumpError;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn damaged(&self, what: &'static str) -> GcdumpError {
        GcdumpError::Damaged { at: self.at as u64, what }
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], GcdumpError> {
        let end = self.at.checked_add(length);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += length;
                Ok(bytes)
            }
            None => Err(GcdumpError::Truncated { at: self.bytes.len() as u64 }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GcdumpError> {
        let end = GcdumpError::Truncated { at: self.bytes.len() as u64 };
        self.bytes(N)?.first_chunk().copied().ok_or(end)
    }

    pub(super) fn u8(&mut self) -> Result<u8, GcdumpError> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    pub(super) fn i32(&mut self) -> Result<i32, GcdumpError> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GcdumpError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, GcdumpError> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, GcdumpError> {
        self.array().map(u64::from_le_bytes)
    }

    /// How many things follow that take at least `bytes` bytes each: not more than the file can
    /// hold.
    pub(super) fn count(&mut self, bytes: usize) -> Result<usize, GcdumpError> {
        let count = usize::try_from(self.i32()?)
            .map_err(|_| self.damaged("a number of things is negative"))?;
        match count.checked_mul(bytes) {
            Some(length) if length <= self.bytes.len().saturating_sub(self.at) => Ok(count),
            _ => Err(self.damaged("there are more things than the file has room for")),
        }
    }

    /// A text: the number of its UTF-16 units, and each of them as one to three bytes. `None` is no
    /// text, not an empty one.
    pub(super) fn text(&mut self) -> Result<Option<String>, GcdumpError> {
        let length = self.i32()?;
        if length < 0 {
            return Ok(None);
        }
        let length = length as usize;
        if length > self.bytes.len().saturating_sub(self.at) {
            return Err(self.damaged("a text is longer than the file"));
        }
        let mut units = Vec::with_capacity(length);
        for _ in 0..length {
            let first = u16::from(self.u8()?);
            let mut more = |bits: u16| self.u8().map(|byte| bits << 6 | u16::from(byte & 0x3f));
            units.push(match first {
                0..0x80 => first,
                0x80..0xe0 => more(first & 0x1f)?,
                _ => {
                    let high = more(first & 0xf)?;
                    more(high)?
                }
            });
        }
        Ok(Some(String::from_utf16_lossy(&units)))
    }

    /// A number of one to five bytes, seven bits in each, the highest first; the first bit is the
    /// sign.
    pub(super) fn compressed(&mut self) -> Result<i32, GcdumpError> {
        let first = self.u8()?;
        let mut value = i32::from(((first << 1) as i8) >> 1);
        let mut byte = first;
        for _ in 0..4 {
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            byte = self.u8()?;
            value = value.wrapping_shl(7).wrapping_add(i32::from(byte & 0x7f));
        }
        if byte & 0x80 == 0 {
            Ok(value)
        } else {
            Err(self.damaged("a number of a node has more than five bytes"))
        }
    }
}
