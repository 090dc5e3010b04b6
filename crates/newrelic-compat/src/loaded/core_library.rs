//! Definitions in the core library.

use super::module::LoadedModule;
use super::refused;
use crate::rewrite::{CoreLibraryMetadata, MetadataError, NewMethod};
use cil::Token;
use corprof::metadata::{
    FieldAttributes, FieldDefinition, MethodAttributes, MethodDef, MethodDefinition,
    MethodImplAttributes, TypeAttributes, TypeDef, WrongTokenKind,
};

/// The value of a custom attribute without arguments (ECMA-335 II.23.3).
const NO_ARGUMENTS: [u8; 4] = [1, 0, 0, 0];
/// The security action `Assert` (ECMA-335 II.22.11).
const ASSERT: u32 = 3;
/// The permission set of `[SecurityPermission(SecurityAction.Assert, UnmanagedCode = true)]`
/// (ECMA-335 II.22.11): one attribute, its type with the length of the name, the length of its
/// arguments and their number, and the Boolean property with its name and value.
const UNMANAGED_CODE: &[u8] = b".\x01\
    \x80\x84System.Security.Permissions.SecurityPermissionAttribute, \
    mscorlib, Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089\
    \x12\x01\x54\x02\x0dUnmanagedCode\x01";

fn wrong(error: WrongTokenKind) -> MetadataError {
    MetadataError(error.to_string())
}

impl CoreLibraryMetadata for LoadedModule {
    fn define_type(
        &mut self,
        name: &str,
        attributes: u32,
        extends: Token,
    ) -> Result<Token, MetadataError> {
        let attributes = TypeAttributes::from_bits(attributes);
        self.emit.define_type_def(name, attributes, extends, &[]).map(Token::from).map_err(refused)
    }

    fn define_field(
        &mut self,
        parent: Token,
        name: &str,
        attributes: u32,
        signature: &[u8],
    ) -> Result<Token, MetadataError> {
        let attributes = FieldAttributes::from_bits(attributes);
        let field = FieldDefinition { name, attributes, signature, constant: None };
        self.emit
            .define_field(TypeDef::try_from(parent).map_err(wrong)?, &field)
            .map(Token::from)
            .map_err(refused)
    }

    fn define_method(
        &mut self,
        parent: Token,
        method: &NewMethod<'_>,
    ) -> Result<Token, MetadataError> {
        let parent = TypeDef::try_from(parent).map_err(wrong)?;
        let (code_rva, _) = self
            .metadata
            .rva(MethodDef::try_from(method.body_of).map_err(wrong)?)
            .map_err(refused)?;
        let definition = MethodDefinition {
            name: method.name,
            attributes: MethodAttributes::from_bits(method.attributes),
            signature: method.signature,
            code_rva,
            implementation: MethodImplAttributes::from_bits(method.implementation),
        };
        self.emit.define_method(parent, &definition).map(Token::from).map_err(refused)
    }

    fn add_attribute(&mut self, method: Token, constructor: Token) -> Result<(), MetadataError> {
        self.emit
            .define_custom_attribute(method, constructor, &NO_ARGUMENTS)
            .map(drop)
            .map_err(refused)
    }

    fn assert_unmanaged_code(&mut self, method: Token) -> Result<(), MetadataError> {
        self.emit.define_permission_set(method, ASSERT, UNMANAGED_CODE).map(drop).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permission_set_states_its_lengths() {
        let [b'.', 1, high, low, rest @ ..] = UNMANAGED_CODE else {
            panic!("no permission set of one attribute")
        };
        let length = usize::from(*high & 0x3f) << 8 | usize::from(*low);
        let (name, rest) = rest.split_at(length);
        assert!(name.starts_with(b"System.Security.") && name.ends_with(b"=b77a5c561934e089"));
        let [length, arguments @ ..] = rest else { panic!("no arguments") };
        assert_eq!(usize::from(*length), arguments.len());
        let [1, 0x54, 2, length, argument @ ..] = arguments else { panic!("no Boolean property") };
        let (name, value) = argument.split_at(usize::from(*length));
        assert_eq!((name, value), (&b"UnmanagedCode"[..], &[1_u8][..]));
    }
}
