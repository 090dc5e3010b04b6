//! Metadata tokens, as far as code and signatures hold them.

use std::fmt;

/// The metadata tables that code and signatures refer to: the high byte of a token. Source: ECMA-335 II.22.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TokenKind {
    /// A type of another module.
    TypeRef = 0x01,
    /// A type of this module.
    TypeDef = 0x02,
    /// A field of this module.
    FieldDef = 0x04,
    /// A method of this module.
    MethodDef = 0x06,
    /// A method or field of a type that is not defined here, or of a generic instantiation.
    MemberRef = 0x0a,
    /// A stand-alone signature: local variables or the target of `calli`.
    Signature = 0x11,
    /// A constructed type.
    TypeSpec = 0x1b,
    /// An instantiation of a generic method.
    MethodSpec = 0x2b,
    /// A literal of `ldstr`: the row number is an offset into the `#US` heap.
    UserString = 0x70,
}

/// A metadata token (`mdToken`): the table in the high byte, the row number (from 1) in the other three.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Token(pub u32);

impl Token {
    /// The token that points nowhere.
    pub const NIL: Self = Self(0);

    /// A token of table `kind`, row `rid` (only the low 24 bits count).
    #[must_use]
    pub const fn new(kind: TokenKind, rid: u32) -> Self {
        Self(((kind as u32) << 24) | (rid & 0x00ff_ffff))
    }

    /// The row number; 0 means "none".
    #[must_use]
    pub const fn rid(self) -> u32 {
        self.0 & 0x00ff_ffff
    }

    /// The table; `None` if it is not one that code refers to.
    #[must_use]
    pub const fn kind(self) -> Option<TokenKind> {
        Some(match self.0 >> 24 {
            0x01 => TokenKind::TypeRef,
            0x02 => TokenKind::TypeDef,
            0x04 => TokenKind::FieldDef,
            0x06 => TokenKind::MethodDef,
            0x0a => TokenKind::MemberRef,
            0x11 => TokenKind::Signature,
            0x1b => TokenKind::TypeSpec,
            0x2b => TokenKind::MethodSpec,
            0x70 => TokenKind::UserString,
            _ => return None,
        })
    }

    /// Whether it points nowhere.
    #[must_use]
    pub const fn is_nil(self) -> bool {
        self.rid() == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Some(kind) => write!(f, "{kind:?}({:#x})", self.rid()),
            None => write!(f, "Token({:#010x})", self.0),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let token = Token::new(TokenKind::MemberRef, 0x12);
        assert_eq!((token, token.kind(), token.rid()), (Token(0x0a00_0012), Some(TokenKind::MemberRef), 0x12));
        assert_eq!(format!("{token} {token:?}"), "0x0a000012 MemberRef(0x12)");
        assert!(Token(0x0600_0000).is_nil() && Token(0x1400_0001).kind().is_none());
    }
}
