//! What rewriting asks of a module's metadata.

use cil::Token;

/// The metadata of a module did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MetadataError(pub String);

/// Another assembly, as an `AssemblyRef` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssemblyReference {
    /// Simple name.
    pub name: &'static str,
    /// Major, minor, build, revision.
    pub version: [u16; 4],
    /// Public key token; empty for none.
    pub public_key_token: &'static [u8],
}

/// The metadata of the module whose methods are rewritten.
///
/// Names of types are full names without assembly, such as `System.Reflection.Assembly`. What is
/// found has to include what was defined before, so that nothing is defined twice.
pub trait ModuleMetadata {
    /// All `AssemblyRef`s with their simple names, in the order of the table.
    fn assembly_references(&self) -> Vec<(Token, String)>;
    /// Defines an `AssemblyRef`.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn define_assembly_reference(
        &mut self,
        reference: &AssemblyReference,
    ) -> Result<Token, MetadataError>;
    /// The `TypeRef` with this name in this scope.
    fn find_type_reference(&self, scope: Token, name: &str) -> Option<Token>;
    /// Defines a `TypeRef`.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn define_type_reference(&mut self, scope: Token, name: &str) -> Result<Token, MetadataError>;
    /// The type of this module with this name.
    fn find_type_definition(&self, name: &str) -> Option<Token>;
    /// The `MemberRef` with this parent, name and signature.
    fn find_member_reference(&self, parent: Token, name: &str, signature: &[u8]) -> Option<Token>;
    /// Defines a `MemberRef`.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn define_member_reference(
        &mut self,
        parent: Token,
        name: &str,
        signature: &[u8],
    ) -> Result<Token, MetadataError>;
    /// The method of a type of this module with this name and signature.
    fn find_method_definition(&self, parent: Token, name: &str, signature: &[u8]) -> Option<Token>;
    /// The field of a type of this module with this name.
    fn find_field_definition(&self, parent: Token, name: &str) -> Option<Token>;
    /// A `TypeSpec` for this signature; one that exists is used again.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn type_specification(&mut self, signature: &[u8]) -> Result<Token, MetadataError>;
    /// A token for the signature of local variables; one that exists is used again.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn local_signature(&mut self, signature: &[u8]) -> Result<Token, MetadataError>;
    /// A user string; one that exists is used again.
    ///
    /// # Errors
    /// The metadata cannot be extended.
    fn user_string(&mut self, text: &str) -> Result<Token, MetadataError>;
    /// The name of a `TypeDef` or `TypeRef`: with its namespace, without enclosing types.
    fn type_name(&self, token: Token) -> Option<String>;
    /// Whether a `TypeDef` or `TypeRef` is a `ref struct`, which cannot be boxed.
    fn is_by_ref_like(&self, token: Token) -> bool;
}
