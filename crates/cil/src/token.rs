//! Metadata tokens: a table number in the high byte, a row number (`rid`) in the other three.
//! Source: ECMA-335 II.22, `corhdr.h` (`CorTokenType`).

use std::fmt;

/// Which metadata table (or pseudo table) a token points into: the value of its high byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TokenKind {
    /// The module itself; there is one row.
    Module = 0x00,
    /// A type of another module or assembly.
    TypeRef = 0x01,
    /// A type of this module.
    TypeDef = 0x02,
    /// A field of this module.
    FieldDef = 0x04,
    /// A method of this module.
    MethodDef = 0x06,
    /// A parameter of a method of this module.
    ParamDef = 0x08,
    /// "This type implements that interface".
    InterfaceImpl = 0x09,
    /// A method or field of a type that is not defined here, or of a generic instantiation.
    MemberRef = 0x0a,
    /// A custom attribute.
    CustomAttribute = 0x0c,
    /// Declarative security of .NET Framework.
    Permission = 0x0e,
    /// A stand-alone signature: local variables or the target of `calli`.
    Signature = 0x11,
    /// An event.
    Event = 0x14,
    /// A property.
    Property = 0x17,
    /// An explicit override.
    MethodImpl = 0x19,
    /// Another module, also the library of a P/Invoke.
    ModuleRef = 0x1a,
    /// A constructed type, described by a signature.
    TypeSpec = 0x1b,
    /// The assembly of this manifest; there is one row at most.
    Assembly = 0x20,
    /// An assembly that this one uses.
    AssemblyRef = 0x23,
    /// Another file of this assembly.
    File = 0x26,
    /// A type that this assembly exports from another file, or forwards to another assembly.
    ExportedType = 0x27,
    /// A resource.
    ManifestResource = 0x28,
    /// "This type is nested in that one".
    NestedClass = 0x29,
    /// A generic parameter of a type or method.
    GenericParam = 0x2a,
    /// An instantiation of a generic method.
    MethodSpec = 0x2b,
    /// A constraint of a generic parameter.
    GenericParamConstraint = 0x2c,
    /// A literal string for `ldstr`: the row number is an offset into the `#US` heap.
    UserString = 0x70,
}

impl TokenKind {
    /// The kind with this high byte; `None` if the metadata interfaces know no such table.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x00 => Self::Module,
            0x01 => Self::TypeRef,
            0x02 => Self::TypeDef,
            0x04 => Self::FieldDef,
            0x06 => Self::MethodDef,
            0x08 => Self::ParamDef,
            0x09 => Self::InterfaceImpl,
            0x0a => Self::MemberRef,
            0x0c => Self::CustomAttribute,
            0x0e => Self::Permission,
            0x11 => Self::Signature,
            0x14 => Self::Event,
            0x17 => Self::Property,
            0x19 => Self::MethodImpl,
            0x1a => Self::ModuleRef,
            0x1b => Self::TypeSpec,
            0x20 => Self::Assembly,
            0x23 => Self::AssemblyRef,
            0x26 => Self::File,
            0x27 => Self::ExportedType,
            0x28 => Self::ManifestResource,
            0x29 => Self::NestedClass,
            0x2a => Self::GenericParam,
            0x2b => Self::MethodSpec,
            0x2c => Self::GenericParamConstraint,
            0x70 => Self::UserString,
            _ => return None,
        })
    }
}

/// A token of any table (`mdToken`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Token(pub u32);

impl Token {
    /// The token that points nowhere (`mdTokenNil`).
    pub const NIL: Self = Self(0);

    /// A token of table `kind`, row `rid` (from 1; only the low 24 bits count).
    #[must_use]
    pub const fn new(kind: TokenKind, rid: u32) -> Self {
        Self(((kind as u32) << 24) | (rid & 0x00ff_ffff))
    }

    /// The row number, from 1; 0 means "none".
    #[must_use]
    pub const fn rid(self) -> u32 {
        self.0 & 0x00ff_ffff
    }

    /// The table; `None` if the high byte names none.
    #[must_use]
    pub const fn kind(self) -> Option<TokenKind> {
        TokenKind::from_byte((self.0 >> 24) as u8)
    }

    /// Whether it points nowhere. A nil token of a table still has that table's high byte.
    #[must_use]
    pub const fn is_nil(self) -> bool {
        self.rid() == 0
    }

    /// The token if it points somewhere.
    #[must_use]
    pub const fn non_nil(self) -> Option<Self> {
        if self.is_nil() { None } else { Some(self) }
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
        assert_eq!(
            (token, token.kind(), token.rid()),
            (Token(0x0a00_0012), Some(TokenKind::MemberRef), 0x12)
        );
        assert_eq!(format!("{token} {token:?}"), "0x0a000012 MemberRef(0x12)");
        assert!(Token(0x0600_0000).is_nil() && Token(0x1500_0001).kind().is_none());
    }

    #[test]
    fn every_kind_comes_back_from_its_byte() {
        let known = (0..=u8::MAX)
            .filter_map(|b| TokenKind::from_byte(b).map(|k| (b, k)))
            .collect::<Vec<_>>();
        assert_eq!(known.len(), 26);
        assert!(known.iter().all(|(b, k)| *k as u8 == *b));
    }
}
