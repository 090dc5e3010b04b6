//! Metadata tokens: a table number in the high byte, a row number (`rid`) in the other three.
//!
//! [`Token`] may point into any table; the newtypes beside it ([`TypeDef`], [`MethodDef`] …) point
//! into one, so a method token cannot be passed where a type is wanted. All of them are as wide as
//! the runtime's `mdToken` and cross the ABI unchanged. Source: ECMA-335 II.22, `corhdr.h`
//! (`CorTokenType`).

pub use cil::{Token, TokenKind};
use std::fmt;

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
        assert_eq!(
            TypeDef::try_from(token),
            Err(WrongTokenKind { token, wanted: TokenKind::TypeDef })
        );
        assert!(MethodDef::NIL.is_nil());
        assert_eq!(MethodDef::NIL.raw(), 0x0600_0000);
        assert_eq!(format!("{token:?} {token}"), "MethodDef(0x12) 0x06000012");
    }
}
