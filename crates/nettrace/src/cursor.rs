/// Reads numbers and texts off the front of the fields of an event ([`Event::payload`]); `None`
/// where they are not there. Numbers are little-endian.
///
/// [`Event::payload`]: crate::Event::payload
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// Whether nothing is left.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    /// A number of one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    /// A number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// A number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A GUID.
    pub fn guid(&mut self) -> Option<[u8; 16]> {
        self.array()
    }

    /// A number in groups of seven bits, the lowest first, at most ten bytes.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            // Bits beyond the 64th must be none.
            let bits = u64::from(byte & 0x7f);
            let shifted = bits.checked_shl(shift)?;
            if shifted >> shift != bits {
                return None;
            }
            value |= shifted;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// As [`Self::varint`], of at most 32 bits.
    pub fn varint32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    /// UTF-16 up to a NUL, of at most `limit` units.
    pub fn utf16z(&mut self, limit: usize) -> Option<String> {
        let mut units = Vec::new();
        loop {
            match self.u16()? {
                0 => break,
                _ if units.len() == limit => return None,
                unit => units.push(unit),
            }
        }
        Some(String::from_utf16_lossy(&units))
    }

    /// Passes over UTF-16 up to a NUL, of at most `limit` units.
    pub fn skip_utf16z(&mut self, limit: usize) -> Option<()> {
        (0..=limit).find_map(|_| match self.u16() {
            Some(0) => Some(Some(())),
            Some(_) => None,
            None => Some(None),
        })?
    }
}

/// Events as they were recorded: one a line, with time, thread, number, and fields in hexadecimal
/// digits.
#[cfg(test)]
pub(crate) fn recorded(lines: &str) -> Vec<(u64, u64, u32, Vec<u8>)> {
    let line = |line: &str| {
        let [time, thread, id, digits] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let digits: Vec<u8> =
            digits.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
        let bytes = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        (time.parse().unwrap(), thread.parse().unwrap(), id.parse().unwrap(), bytes)
    };
    lines.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        let value = |bytes: &[u8]| Cursor(bytes).varint();
        assert_eq!(value(&[0x7f]), Some(127));
        assert_eq!(value(&[0x80, 0x01]), Some(128));
        assert_eq!(
            value(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
            Some(u64::MAX)
        );
        assert_eq!(value(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert_eq!(value(&[0x80; 11]), None);
        assert_eq!(value(&[0x80]), None);
        assert_eq!(Cursor(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint32(), None);
    }

    #[test]
    fn texts() {
        assert_eq!(Cursor(b"a\0b\0\0\0rest").utf16z(10).as_deref(), Some("ab"));
        assert_eq!(Cursor(b"a\0b\0\0\0").utf16z(1), None);
        assert_eq!(Cursor(b"a\0b\0").utf16z(10), None);
        let mut cursor = Cursor(b"a\0b\0\0\0rest");
        assert_eq!((cursor.skip_utf16z(10), cursor.0), (Some(()), b"rest".as_slice()));
        assert_eq!(Cursor(b"a\0b\0\0\0").skip_utf16z(1), None);
        assert_eq!(Cursor(b"a\0b\0").skip_utf16z(10), None);
    }
}
