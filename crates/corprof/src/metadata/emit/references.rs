//! Adding references to types and members of other modules, signatures and strings.

use com::Interface;

use super::MetadataEmit;
use crate::info::call::{check, raw, wide};
use crate::info::error::Result;
use crate::metadata::abi::IMetaDataImport;
use crate::metadata::emit_assembly::ManifestEmit;
use crate::metadata::methods::start_and_length;
use crate::metadata::token::*;
use crate::metadata::{Manifest, Metadata};

impl MetadataEmit {
    /// Refers to a type by the scope that it is in and its name (`DefineTypeRefByName`). The scope
    /// is an `AssemblyRef`, `ModuleRef`, `Module`, or the `TypeRef` around it.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_type_ref(&self, scope: Token, name: &str) -> Result<TypeRef> {
        const CALL: &str = "DefineTypeRefByName";
        let name = wide(CALL, name)?;
        let mut type_ref = TypeRef::NIL;
        check(CALL, raw!(self.emit, DefineTypeRefByName(scope, name.as_ptr(), &mut type_ref)))?;
        Ok(type_ref)
    }

    /// Refers to a type of another scope (`DefineImportType`), with a reference to its assembly
    /// where one is needed.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn define_import_type(
        &self,
        assembly: Option<&Manifest>,
        hash: &[u8],
        from: &Metadata,
        type_def: TypeDef,
        to: Option<&ManifestEmit>,
    ) -> Result<TypeRef> {
        let (hash, hash_length) = start_and_length(hash);
        let from: &IMetaDataImport = from.raw();
        let mut type_ref = TypeRef::NIL;
        check(
            "DefineImportType",
            raw!(
                self.emit,
                DefineImportType(
                    assembly.map(|assembly| assembly.raw().to_ref()),
                    hash,
                    hash_length,
                    Some(from.to_ref()),
                    type_def,
                    to.map(|to| to.raw().to_ref()),
                    &mut type_ref,
                )
            ),
        )?;
        Ok(type_ref)
    }

    /// Refers to a member of a type (`DefineMemberRef`): `TypeRef`, `TypeSpec`, `TypeDef`,
    /// `ModuleRef` or a vararg `MethodDef`.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_member_ref(
        &self,
        parent: Token,
        name: &str,
        signature: &[u8],
    ) -> Result<MemberRef> {
        const CALL: &str = "DefineMemberRef";
        let name = wide(CALL, name)?;
        let (signature, length) = start_and_length(signature);
        let mut member = MemberRef::NIL;
        check(
            CALL,
            raw!(self.emit, DefineMemberRef(parent, name.as_ptr(), signature, length, &mut member)),
        )?;
        Ok(member)
    }

    /// Refers to a member of a type of another scope (`DefineImportMember`); `parent` is the type's
    /// reference here.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn define_import_member(
        &self,
        assembly: Option<&Manifest>,
        hash: &[u8],
        from: &Metadata,
        member: Token,
        to: Option<&ManifestEmit>,
        parent: Token,
    ) -> Result<MemberRef> {
        let (hash, hash_length) = start_and_length(hash);
        let from: &IMetaDataImport = from.raw();
        let mut reference = MemberRef::NIL;
        check(
            "DefineImportMember",
            raw!(
                self.emit,
                DefineImportMember(
                    assembly.map(|assembly| assembly.raw().to_ref()),
                    hash,
                    hash_length,
                    Some(from.to_ref()),
                    member,
                    to.map(|to| to.raw().to_ref()),
                    parent,
                    &mut reference,
                )
            ),
        )?;
        Ok(reference)
    }

    /// Gives a reference to a member another type (`SetParent`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_parent(&self, member: MemberRef, parent: Token) -> Result<()> {
        check("SetParent", raw!(self.emit, SetParent(member, parent)))
    }

    /// Refers to a module or native library (`DefineModuleRef`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_module_ref(&self, name: &str) -> Result<ModuleRef> {
        const CALL: &str = "DefineModuleRef";
        let name = wide(CALL, name)?;
        let mut module = ModuleRef::NIL;
        check(CALL, raw!(self.emit, DefineModuleRef(name.as_ptr(), &mut module)))?;
        Ok(module)
    }

    /// The token of a stand-alone signature, which is added if it is new (`GetTokenFromSig`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn token_from_signature(&self, signature: &[u8]) -> Result<Signature> {
        let (start, length) = start_and_length(signature);
        let mut token = Signature::NIL;
        check("GetTokenFromSig", raw!(self.emit, GetTokenFromSig(start, length, &mut token)))?;
        Ok(token)
    }

    /// The token of a constructed type, which is added if it is new (`GetTokenFromTypeSpec`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn token_from_type_spec(&self, signature: &[u8]) -> Result<TypeSpec> {
        let (start, length) = start_and_length(signature);
        let mut token = TypeSpec::NIL;
        check(
            "GetTokenFromTypeSpec",
            raw!(self.emit, GetTokenFromTypeSpec(start, length, &mut token)),
        )?;
        Ok(token)
    }

    /// Adds a literal string, for `ldstr` (`DefineUserString`).
    ///
    /// # Errors
    /// `META_E_STRINGSPACE_FULL` over 16 MB of them.
    pub fn define_user_string(&self, text: &str) -> Result<UserString> {
        let units = text.encode_utf16().collect::<Vec<_>>();
        let mut string = UserString::NIL;
        check(
            "DefineUserString",
            raw!(self.emit, DefineUserString(units.as_ptr(), units.len() as u32, &mut string)),
        )?;
        Ok(string)
    }

    /// Refers to an instantiation of a generic method (`DefineMethodSpec`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn define_method_spec(&self, method: Token, signature: &[u8]) -> Result<MethodSpec> {
        let (start, length) = start_and_length(signature);
        let mut spec = MethodSpec::NIL;
        check(
            "DefineMethodSpec",
            raw!(self.emit, DefineMethodSpec(method, start, length, &mut spec)),
        )?;
        Ok(spec)
    }

    /// Rewrites a signature's tokens from another scope to this one (`TranslateSigWithScope`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn translate_signature(
        &self,
        assembly: Option<&Manifest>,
        from: &Metadata,
        signature: &[u8],
        to: Option<&ManifestEmit>,
    ) -> Result<Vec<u8>> {
        let (start, length) = start_and_length(signature);
        let from: &IMetaDataImport = from.raw();
        crate::info::call::list(
            "TranslateSigWithScope",
            signature.len() * 4 + 64,
            |room, needed, buffer| {
                raw!(
                    self.emit,
                    TranslateSigWithScope(
                        assembly.map(|assembly| assembly.raw().to_ref()),
                        core::ptr::null(),
                        0,
                        Some(from.to_ref()),
                        start,
                        length,
                        to.map(|to| to.raw().to_ref()),
                        Some((*self.emit).to_ref()),
                        buffer,
                        room,
                        needed,
                    )
                )
            },
        )
    }
}
