//! GUIDs as COM lays them out.

use core::fmt;

/// A 128-bit identifier of an interface (IID) or a class (CLSID).
///
/// The first three fields are native-endian integers, so the 16 bytes in memory are not the order
/// in which the text form is written.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Guid {
    /// First eight hexadecimal digits.
    pub data1: u32,
    /// Next four.
    pub data2: u16,
    /// Next four.
    pub data3: u16,
    /// The last sixteen digits, in the order they are written.
    pub data4: [u8; 8],
}

/// The text was not 32 hexadecimal digits in groups of 8-4-4-4-12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuidParseError;

impl fmt::Display for GuidParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a GUID: expected XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX, in braces or without",
        )
    }
}

impl core::error::Error for GuidParseError {}

impl Guid {
    /// The all-zero GUID.
    pub const NULL: Guid = Guid { data1: 0, data2: 0, data3: 0, data4: [0; 8] };

    /// From a number whose hexadecimal digits are the text form's digits.
    pub const fn from_u128(value: u128) -> Guid {
        Guid {
            data1: (value >> 96) as u32,
            data2: (value >> 80) as u16,
            data3: (value >> 64) as u16,
            data4: (value as u64).to_be_bytes(),
        }
    }

    /// From 16 bytes in the order in which the text form is written.
    pub const fn from_text_order_bytes(bytes: [u8; 16]) -> Guid {
        Guid::from_u128(u128::from_be_bytes(bytes))
    }

    /// From 16 bytes as a little-endian machine has them in memory (and as files and messages carry
    /// them): the first three fields are reversed against the text form.
    pub const fn from_le_bytes(bytes: [u8; 16]) -> Guid {
        let [a0, a1, a2, a3, b0, b1, c0, c1, d @ ..] = bytes;
        Guid {
            data1: u32::from_le_bytes([a0, a1, a2, a3]),
            data2: u16::from_le_bytes([b0, b1]),
            data3: u16::from_le_bytes([c0, c1]),
            data4: d,
        }
    }

    /// The inverse of [`Guid::from_u128`].
    pub const fn to_u128(self) -> u128 {
        ((self.data1 as u128) << 96)
            | ((self.data2 as u128) << 80)
            | ((self.data3 as u128) << 64)
            | u64::from_be_bytes(self.data4) as u128
    }

    /// Parses the text form, with or without braces.
    pub const fn parse(text: &str) -> Result<Guid, GuidParseError> {
        let mut rest = text.as_bytes();
        if let [b'{', inner @ .., b'}'] = rest {
            rest = inner;
        }
        if rest.len() != 36 {
            return Err(GuidParseError);
        }
        let mut value = 0u128;
        let mut position = 0;
        while let [byte, tail @ ..] = rest {
            rest = tail;
            let digit = match *byte {
                b'0'..=b'9' => *byte - b'0',
                b'a'..=b'f' => *byte - b'a' + 10,
                b'A'..=b'F' => *byte - b'A' + 10,
                b'-' if matches!(position, 8 | 13 | 18 | 23) => {
                    position += 1;
                    continue;
                }
                _ => return Err(GuidParseError),
            };
            if matches!(position, 8 | 13 | 18 | 23) {
                return Err(GuidParseError);
            }
            value = (value << 4) | digit as u128;
            position += 1;
        }
        Ok(Guid::from_u128(value))
    }
}

impl core::str::FromStr for Guid {
    type Err = GuidParseError;

    fn from_str(text: &str) -> Result<Guid, GuidParseError> {
        Guid::parse(text)
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tail = u64::from_be_bytes(self.data4);
        write!(
            f,
            "{:08X}-{:04X}-{:04X}-{:04X}-{:012X}",
            self.data1,
            self.data2,
            self.data3,
            tail >> 48,
            tail & 0xFFFF_FFFF_FFFF
        )
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// A GUID from its text form, checked when it is compiled.
///
/// ```
/// const IID_IUNKNOWN: com::Guid = com::guid!("00000000-0000-0000-C000-000000000046");
/// assert_eq!(IID_IUNKNOWN.data4[0], 0xC0);
/// ```
#[macro_export]
macro_rules! guid {
    ($text:literal) => {
        const {
            match $crate::Guid::parse($text) {
                Ok(guid) => guid,
                Err(_) => panic!("not a GUID: expected XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX"),
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "176FBED1-A55C-4796-98CA-A9DA0EF883E7";

    #[test]
    fn text_form_round_trips() {
        let guid: Guid = TEXT.parse().unwrap();
        assert_eq!(
            guid,
            Guid {
                data1: 0x176F_BED1,
                data2: 0xA55C,
                data3: 0x4796,
                data4: [0x98, 0xCA, 0xA9, 0xDA, 0x0E, 0xF8, 0x83, 0xE7]
            }
        );
        assert_eq!(guid.to_string(), TEXT);
        assert_eq!(format!("{guid:?}"), format!("{{{TEXT}}}"));
        assert_eq!(format!("{{{}}}", TEXT.to_lowercase()).parse(), Ok(guid));
        assert_eq!(Guid::from_u128(guid.to_u128()), guid);
        let in_memory = [
            0xD1, 0xBE, 0x6F, 0x17, 0x5C, 0xA5, 0x96, 0x47, 0x98, 0xCA, 0xA9, 0xDA, 0x0E, 0xF8,
            0x83, 0xE7,
        ];
        assert_eq!(Guid::from_le_bytes(in_memory), guid);
        assert_eq!(Guid::from_text_order_bytes(guid.to_u128().to_be_bytes()), guid);
    }

    #[test]
    fn bad_texts_are_refused() {
        for bad in [
            "",
            "176FBED1",
            "176FBED1A55C479698CAA9DA0EF883E7",
            "176FBED1-A55C-4796-98CA-A9DA0EF883E",
            "176FBED1-A55C-4796-98CA-A9DA0EF883E77",
            "176FBED1-A55C-4796-98CA-A9DA0EF883Eg",
            "176FBED1-A55C-4796-98CAA-9DA0EF883E7",
            "{176FBED1-A55C-4796-98CA-A9DA0EF883E7",
            "176FBED10A55C047960-98CA-A9DA0EF883E7",
            "------------------------------------",
        ] {
            assert_eq!(Guid::parse(bad), Err(GuidParseError), "{bad:?}");
        }
    }
}
