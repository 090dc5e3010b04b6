//! Metadata tokens: a table number in the high byte, a row number (`rid`) in the other three.
//!
//! [`Token`] may point into any table; the newtypes beside it ([`TypeDef`], [`MethodDef`] …) point into one, so
//! a method token cannot be passed where a type is wanted. All of them are as wide as the runtime's `mdToken` and
//! cross the ABI unchanged. Source: ECMA-335 II.22, `corhdr.h` (`CorTokenType`).

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

/// A token turned out to be of another table than the one wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata token {token} is not a {wanted:?}")]
pub struct WrongTokenKind {
    /// The token.
    pub token: Token,
    /// What was wanted.
    pub wanted: TokenKind,
}

macro_rules! token_types {
    ($( $(#[$doc:meta])* $name:ident; )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The table this type stands for.
            pub const KIND: TokenKind = TokenKind::$name;

            /// The token that points nowhere in this table.
            pub const NIL: Self = Self((TokenKind::$name as u32) << 24);

            /// Row `rid`, from 1; only the low 24 bits count.
            #[must_use]
            pub const fn from_rid(rid: u32) -> Self {
                Self(Token::new(TokenKind::$name, rid).0)
            }

            /// The token as the runtime gave it, unchecked: the caller knows its table.
            #[must_use]
            pub const fn from_raw(token: u32) -> Self {
                Self(token)
            }

            /// The number that crosses the ABI.
            #[must_use]
            pub const fn raw(self) -> u32 {
                self.0
            }

            /// The row number, from 1; 0 means "none".
            #[must_use]
            pub const fn rid(self) -> u32 {
                self.0 & 0x00ff_ffff
            }

            /// Whether it points nowhere.
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

        impl Default for $name {
            fn default() -> Self {
                Self::NIL
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&Token(self.0), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&Token(self.0), f)
            }
        }

        impl From<$name> for Token {
            fn from(token: $name) -> Self {
                Self(token.0)
            }
        }

        impl TryFrom<Token> for $name {
            type Error = WrongTokenKind;

            fn try_from(token: Token) -> Result<Self, WrongTokenKind> {
                if token.kind() == Some(TokenKind::$name) {
                    Ok(Self(token.0))
                } else {
                    Err(WrongTokenKind { token, wanted: TokenKind::$name })
                }
            }
        }
    )* };
}

token_types! {
    /// The module itself (`mdModule`).
    Module;
    /// A type of another module (`mdTypeRef`).
    TypeRef;
    /// A type of this module (`mdTypeDef`).
    TypeDef;
    /// A field of this module (`mdFieldDef`).
    FieldDef;
    /// A method of this module (`mdMethodDef`).
    MethodDef;
    /// A parameter (`mdParamDef`).
    ParamDef;
    /// An implemented interface (`mdInterfaceImpl`).
    InterfaceImpl;
    /// A member of another type (`mdMemberRef`).
    MemberRef;
    /// A custom attribute (`mdCustomAttribute`).
    CustomAttribute;
    /// Declarative security (`mdPermission`).
    Permission;
    /// A stand-alone signature (`mdSignature`).
    Signature;
    /// An event (`mdEvent`).
    Event;
    /// A property (`mdProperty`).
    Property;
    /// Another module (`mdModuleRef`).
    ModuleRef;
    /// A constructed type (`mdTypeSpec`).
    TypeSpec;
    /// The assembly of this manifest (`mdAssembly`).
    Assembly;
    /// An assembly that this one uses (`mdAssemblyRef`).
    AssemblyRef;
    /// A file of this assembly (`mdFile`).
    File;
    /// A type exported from another file or forwarded (`mdExportedType`).
    ExportedType;
    /// A resource (`mdManifestResource`).
    ManifestResource;
    /// A generic parameter (`mdGenericParam`).
    GenericParam;
    /// An instantiated generic method (`mdMethodSpec`).
    MethodSpec;
    /// A constraint of a generic parameter (`mdGenericParamConstraint`).
    GenericParamConstraint;
    /// A literal string (`mdString`).
    UserString;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_nil() {
        let token = Token(0x0600_0012);
        assert_eq!(token.kind(), Some(TokenKind::MethodDef));
        assert_eq!(token.rid(), 0x12);
        assert_eq!(MethodDef::try_from(token), Ok(MethodDef::from_rid(0x12)));
        assert_eq!(TypeDef::try_from(token), Err(WrongTokenKind { token, wanted: TokenKind::TypeDef }));
        assert!(MethodDef::NIL.is_nil());
        assert_eq!(MethodDef::NIL.raw(), 0x0600_0000);
        assert_eq!(format!("{token:?} {token}"), "MethodDef(0x12) 0x06000012");
    }

    #[test]
    fn every_kind_comes_back_from_its_byte() {
        let known = (0..=u8::MAX).filter_map(|b| TokenKind::from_byte(b).map(|k| (b, k))).collect::<Vec<_>>();
        assert_eq!(known.len(), 26);
        assert!(known.iter().all(|(b, k)| *k as u8 == *b));
    }
}
