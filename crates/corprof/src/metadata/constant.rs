//! Constants: default values of fields, parameters and properties.

use crate::info::call::{blob, utf16};

/// A constant in metadata (ECMA-335 II.22.9).
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// `true` or `false`.
    Bool(bool),
    /// A UTF-16 unit.
    Char(u16),
    /// Signed, 8 bits.
    I1(i8),
    /// Unsigned, 8 bits.
    U1(u8),
    /// Signed, 16 bits.
    I2(i16),
    /// Unsigned, 16 bits.
    U2(u16),
    /// Signed, 32 bits.
    I4(i32),
    /// Unsigned, 32 bits.
    U4(u32),
    /// Signed, 64 bits.
    I8(i64),
    /// Unsigned, 64 bits.
    U8(u64),
    /// IEEE 754, 32 bits.
    R4(f32),
    /// IEEE 754, 64 bits.
    R8(f64),
    /// A text.
    String(String),
    /// The null reference.
    Null,
}

impl Constant {
    /// The element type under which it is stored (`CorElementType`).
    #[must_use]
    pub const fn element(&self) -> u8 {
        match self {
            Self::Bool(_) => 0x02,
            Self::Char(_) => 0x03,
            Self::I1(_) => 0x04,
            Self::U1(_) => 0x05,
            Self::I2(_) => 0x06,
            Self::U2(_) => 0x07,
            Self::I4(_) => 0x08,
            Self::U4(_) => 0x09,
            Self::I8(_) => 0x0a,
            Self::U8(_) => 0x0b,
            Self::R4(_) => 0x0c,
            Self::R8(_) => 0x0d,
            Self::String(_) => 0x0e,
            Self::Null => 0x12,
        }
    }

    /// Reads what the runtime points to.
    ///
    /// # Safety
    /// `value` is null or points to a constant of this element type; for a string, to `units`
    /// UTF-16 units.
    pub(super) unsafe fn read(element: u32, value: *const u8, units: u32) -> Option<Self> {
        let width = match element {
            0x02 | 0x04 | 0x05 => 1,
            0x03 | 0x06 | 0x07 => 2,
            0x08 | 0x09 | 0x0c => 4,
            0x0a | 0x0b | 0x0d => 8,
            0x0e => units.checked_mul(2)?,
            0x12 if !value.is_null() => return Some(Self::Null),
            _ => return None,
        };
        if value.is_null() {
            return None;
        }
        // SAFETY: the caller says that the constant is there, and this is its width.
        Self::from_bytes(element, unsafe { blob(value, width) })
    }

    /// From the bytes in the metadata's blob heap.
    fn from_bytes(element: u32, bytes: &[u8]) -> Option<Self> {
        fn take<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
            bytes.get(..N)?.try_into().ok()
        }
        Some(match element {
            0x02 => Self::Bool(*bytes.first()? != 0),
            0x03 => Self::Char(u16::from_le_bytes(take(bytes)?)),
            0x04 => Self::I1(i8::from_le_bytes(take(bytes)?)),
            0x05 => Self::U1(*bytes.first()?),
            0x06 => Self::I2(i16::from_le_bytes(take(bytes)?)),
            0x07 => Self::U2(u16::from_le_bytes(take(bytes)?)),
            0x08 => Self::I4(i32::from_le_bytes(take(bytes)?)),
            0x09 => Self::U4(u32::from_le_bytes(take(bytes)?)),
            0x0a => Self::I8(i64::from_le_bytes(take(bytes)?)),
            0x0b => Self::U8(u64::from_le_bytes(take(bytes)?)),
            0x0c => Self::R4(f32::from_le_bytes(take(bytes)?)),
            0x0d => Self::R8(f64::from_le_bytes(take(bytes)?)),
            0x0e => {
                let units = bytes
                    .chunks_exact(2)
                    .filter_map(take)
                    .map(u16::from_le_bytes)
                    .collect::<Vec<_>>();
                Self::String(utf16(&units))
            }
            0x12 => Self::Null,
            _ => return None,
        })
    }

    /// The bytes as the emitting methods want them, and the number of UTF-16 units if it is a text
    /// (else 0).
    pub(super) fn to_bytes(&self) -> (Vec<u8>, u32) {
        let bytes = match self {
            Self::Bool(value) => vec![u8::from(*value)],
            Self::Char(value) | Self::U2(value) => value.to_le_bytes().to_vec(),
            Self::I1(value) => value.to_le_bytes().to_vec(),
            Self::U1(value) => vec![*value],
            Self::I2(value) => value.to_le_bytes().to_vec(),
            Self::I4(value) => value.to_le_bytes().to_vec(),
            Self::U4(value) => value.to_le_bytes().to_vec(),
            Self::I8(value) => value.to_le_bytes().to_vec(),
            Self::U8(value) => value.to_le_bytes().to_vec(),
            Self::R4(value) => value.to_le_bytes().to_vec(),
            Self::R8(value) => value.to_le_bytes().to_vec(),
            Self::String(value) => {
                let bytes = value.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
                let units = (bytes.len() / 2) as u32;
                return (bytes, units);
            }
            Self::Null => vec![0; 4],
        };
        (bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        for constant in [
            Constant::Bool(true),
            Constant::Char(0x20ac),
            Constant::I1(-1),
            Constant::U1(200),
            Constant::I2(-300),
            Constant::U2(60000),
            Constant::I4(i32::MIN),
            Constant::U4(u32::MAX),
            Constant::I8(i64::MIN),
            Constant::U8(u64::MAX),
            Constant::R4(1.5),
            Constant::R8(-2.25),
            Constant::String("Größe".to_owned()),
            Constant::Null,
        ] {
            let (bytes, units) = constant.to_bytes();
            // SAFETY: these are the bytes of that constant.
            let read =
                unsafe { Constant::read(u32::from(constant.element()), bytes.as_ptr(), units) };
            assert_eq!(read.as_ref(), Some(&constant));
            if !matches!(constant, Constant::Null | Constant::String(_)) {
                assert_eq!(
                    Constant::from_bytes(u32::from(constant.element()), &bytes[..bytes.len() - 1]),
                    None
                );
            }
        }
        // SAFETY: null is allowed.
        assert_eq!(unsafe { Constant::read(8, core::ptr::null(), 0) }, None);
    }
}
