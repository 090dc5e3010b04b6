//! What stands in front of the code of a method. Source: ECMA-335 II.25.4.

use crate::{BodyError, Token};

/// Low bits of the first byte: a header of one byte.
const TINY: u8 = 0x2;
/// Low bits of the first byte: a header of twelve bytes.
const FAT: u8 = 0x3;
const MORE_SECTIONS: u16 = 0x08;
const INIT_LOCALS: u16 = 0x10;
/// Four-byte words in a fat header.
const FAT_WORDS: u16 = 3;
/// The stack of a method with a tiny header.
const TINY_MAX_STACK: u16 = 8;
/// Code of a method with a tiny header is shorter than this.
const TINY_CODE: u32 = 64;

/// How the header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderFormat {
    /// One byte, where that can express everything; fat otherwise.
    Tiny,
    /// Twelve bytes, even where one would do.
    Fat,
}

/// The facts of a method body besides its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MethodHeader {
    /// How it is written.
    pub format: HeaderFormat,
    /// Most values on the evaluation stack at any time.
    pub max_stack: u16,
    /// Whether locals and `localloc` memory start as zero.
    pub init_locals: bool,
    /// Stand-alone signature of the locals; [`Token::NIL`] if there are none.
    pub local_signature: Token,
}

impl Default for MethodHeader {
    fn default() -> Self {
        Self {
            format: HeaderFormat::Tiny,
            max_stack: TINY_MAX_STACK,
            init_locals: false,
            local_signature: Token::NIL,
        }
    }
}

/// A header as it stands in front of code.
pub(crate) struct Parsed {
    pub header: MethodHeader,
    /// Bytes that the header takes.
    pub size: usize,
    /// Bytes of code.
    pub code_size: u32,
    /// Whether sections follow the code.
    pub more_sections: bool,
}

impl MethodHeader {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, BodyError> {
        let truncated = BodyError::Truncated { offset: bytes.len() };
        let &first = bytes.first().ok_or(truncated)?;
        // A tiny header keeps the code size in the upper six bits, so only two bits tell the
        // formats apart.
        match first & 0x3 {
            TINY => Ok(Parsed {
                header: Self::default(),
                size: 1,
                code_size: u32::from(first >> 2),
                more_sections: false,
            }),
            FAT => {
                let &[f0, f1, s0, s1, c0, c1, c2, c3, t0, t1, t2, t3] =
                    bytes.first_chunk::<12>().ok_or(truncated)?;
                let flags = u16::from_le_bytes([f0, f1]);
                let words = flags >> 12;
                if words < FAT_WORDS {
                    return Err(BodyError::HeaderSize { words });
                }
                let header = Self {
                    format: HeaderFormat::Fat,
                    max_stack: u16::from_le_bytes([s0, s1]),
                    init_locals: flags & INIT_LOCALS != 0,
                    local_signature: Token(u32::from_le_bytes([t0, t1, t2, t3])),
                };
                Ok(Parsed {
                    header,
                    size: usize::from(words) * 4,
                    code_size: u32::from_le_bytes([c0, c1, c2, c3]),
                    more_sections: flags & MORE_SECTIONS != 0,
                })
            }
            _ => Err(BodyError::HeaderFormat { byte: first }),
        }
    }

    /// Whether one byte expresses it.
    fn fits_tiny(&self, code_size: u32, more_sections: bool) -> bool {
        self.format == HeaderFormat::Tiny
            && code_size < TINY_CODE
            && !more_sections
            && !self.init_locals
            && self.local_signature == Token::NIL
            && self.max_stack <= TINY_MAX_STACK
    }

    pub(crate) fn encode(&self, code_size: u32, more_sections: bool, out: &mut Vec<u8>) {
        if self.fits_tiny(code_size, more_sections) {
            out.push((code_size as u8) << 2 | TINY);
            return;
        }
        let mut flags = u16::from(FAT) | FAT_WORDS << 12;
        if more_sections {
            flags |= MORE_SECTIONS;
        }
        if self.init_locals {
            flags |= INIT_LOCALS;
        }
        let ([f0, f1], [s0, s1]) = (flags.to_le_bytes(), self.max_stack.to_le_bytes());
        let [c0, c1, c2, c3] = code_size.to_le_bytes();
        let [t0, t1, t2, t3] = self.local_signature.0.to_le_bytes();
        out.extend_from_slice(&[f0, f1, s0, s1, c0, c1, c2, c3, t0, t1, t2, t3]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_until_it_no_longer_fits() {
        let encode = |header: MethodHeader, size, more| {
            let mut out = Vec::new();
            header.encode(size, more, &mut out);
            out
        };
        let tiny = MethodHeader::default();
        assert_eq!(encode(tiny, 63, false), [0xfe]);
        assert_eq!(encode(tiny, 64, false).len(), 12);
        assert_eq!(encode(tiny, 1, true).len(), 12);
        assert_eq!(encode(MethodHeader { max_stack: 9, ..tiny }, 1, false).len(), 12);
        assert_eq!(encode(MethodHeader { max_stack: 1, ..tiny }, 1, false).len(), 1);
        assert_eq!(encode(MethodHeader { init_locals: true, ..tiny }, 1, false).len(), 12);
        assert_eq!(
            encode(MethodHeader { local_signature: Token(0x1100_0001), ..tiny }, 1, false).len(),
            12
        );
        let fat = MethodHeader { format: HeaderFormat::Fat, ..tiny };
        assert_eq!(encode(fat, 1, false), [0x03, 0x30, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn bad_headers() {
        assert!(matches!(MethodHeader::parse(&[]), Err(BodyError::Truncated { .. })));
        assert!(matches!(MethodHeader::parse(&[0x13, 0x30, 8]), Err(BodyError::Truncated { .. })));
        assert!(matches!(MethodHeader::parse(&[0x01]), Err(BodyError::HeaderFormat { byte: 1 })));
        let two_words = [0x03, 0x20, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(matches!(MethodHeader::parse(&two_words), Err(BodyError::HeaderSize { words: 2 })));
    }
}
