//! Texts as the runtime passes them.

use core::fmt;
use core::ops::Deref;

/// UTF-16 text of the runtime, borrowed; it may contain unpaired surrogates.
///
/// `Display` shows them as U+FFFD.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Utf16<'a>(pub &'a [u16]);

impl<'a> Utf16<'a> {
    /// Up to the first zero, which C strings end with; all of it if there is none.
    pub fn until_zero(units: &'a [u16]) -> Utf16<'a> {
        Utf16(units.split(|unit| *unit == 0).next().unwrap_or(units))
    }

    /// The characters, with U+FFFD for what is none.
    pub fn chars(self) -> impl Iterator<Item = char> + 'a {
        char::decode_utf16(self.0.iter().copied())
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

impl Deref for Utf16<'_> {
    type Target = [u16];

    fn deref(&self) -> &[u16] {
        self.0
    }
}

impl fmt::Display for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        self.chars().try_for_each(|character| f.write_char(character))
    }
}

impl fmt::Debug for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded() {
        let units: Vec<u16> = "a😀\0rest".encode_utf16().collect();
        assert_eq!(Utf16::until_zero(&units).to_string(), "a😀");
        assert_eq!(Utf16(&[0x41, 0xD800, 0x42]).to_string(), "A\u{FFFD}B");
        assert_eq!(Utf16::default().to_string(), "");
        assert_eq!(Utf16::until_zero(&[0x41, 0x42]).len(), 2);
    }
}
