//! Adding to metadata: scopes, types, methods, references.

use core::ffi::c_void;

use com::{IUnknown, Interface};

use super::abi::{IMetaDataAssemblyEmit, IMetaDataEmit2, IMetaDataImport, IMetaDataImport2};
use super::emit_assembly::ManifestEmit;
use super::methods::start_and_length;
use super::token::*;
use super::{
    FieldOffset, GenericParamAttributes, Manifest, Metadata, MethodAttributes,
    MethodImplAttributes, PInvokeAttributes, SaveSizeFlags, TypeAttributes,
};
use crate::abi::COR_FIELD_OFFSET;
use crate::info::call::{check, raw, wide};
use crate::info::error::{Error, Result};

/// Adds to a module's metadata. Clones share the same scope.
///
/// After a module is loaded, the runtime lets one add references, signatures, strings, new types
/// with their members, and methods that are not virtual; not fields or virtual methods of types
/// that exist. See [`ProfilerInfo::apply_metadata`](crate::info::ProfilerInfo::apply_metadata).
#[derive(Clone, Debug)]
pub struct MetadataEmit {
    pub(super) emit: IMetaDataEmit2,
}

/// A method to be defined.
#[derive(Clone, Copy, Debug)]
pub struct MethodDefinition<'a> {
    /// Its name.
    pub name: &'a str,
    /// Flags.
    pub attributes: MethodAttributes,
    /// Its signature, as [`MethodSig::encode`](crate::signature::MethodSig::encode) makes it.
    pub signature: &'a [u8],
    /// Where its body is in the image; 0 for none, to be set by
    /// [`ProfilerInfo::set_il_function_body`](crate::info::ProfilerInfo::set_il_function_body).
    pub code_rva: u32,
    /// How it is implemented.
    pub implementation: MethodImplAttributes,
}

/// A list of tokens as the runtime wants it: ended by a nil one. Null for "leave as it is" or
/// "none".
pub(super) fn ended(tokens: &[Token]) -> Vec<Token> {
    tokens.iter().copied().chain([Token::NIL]).collect()
}

/// As [`ended`], for the other accessors of properties and events.
pub(super) fn ended_methods(methods: &[MethodDef]) -> Vec<MethodDef> {
    methods.iter().copied().chain([MethodDef::NIL]).collect()
}

impl MetadataEmit {
    /// Wraps the runtime's interface.
    #[must_use]
    pub const fn new(emit: IMetaDataEmit2) -> Self {
        Self { emit }
    }

    /// Asks an object for its writing interface.
    ///
    /// # Errors
    /// `E_NOINTERFACE` if it has none: it was opened to read.
    pub fn from_unknown(unknown: &IUnknown) -> Result<Self> {
        unknown
            .cast::<IMetaDataEmit2>()
            .map(Self::new)
            .map_err(|hresult| Error::Hr { call: "QueryInterface(IMetaDataEmit2)", hresult })
    }

    /// The interface below.
    #[must_use]
    pub const fn raw(&self) -> &IMetaDataEmit2 {
        &self.emit
    }

    /// The reading side of the same scope.
    ///
    /// # Errors
    /// `E_NOINTERFACE` if it has none.
    pub fn metadata(&self) -> Result<Metadata> {
        self.emit
            .cast::<IMetaDataImport2>()
            .map(Metadata::new)
            .map_err(|hresult| Error::Hr { call: "QueryInterface(IMetaDataImport2)", hresult })
    }

    /// The manifest of the same scope, to add to.
    ///
    /// # Errors
    /// `E_NOINTERFACE` if it has none.
    pub fn manifest(&self) -> Result<ManifestEmit> {
        self.emit
            .cast::<IMetaDataAssemblyEmit>()
            .map(ManifestEmit::new)
            .map_err(|hresult| Error::Hr { call: "QueryInterface(IMetaDataAssemblyEmit)", hresult })
    }

    /// Sets the module's name (`SetModuleProps`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn set_module_props(&self, name: &str) -> Result<()> {
        const CALL: &str = "SetModuleProps";
        let name = wide(CALL, name)?;
        check(CALL, raw!(self.emit, SetModuleProps(name.as_ptr())))
    }

    /// Writes the metadata to a file (`Save`).
    ///
    /// # Errors
    /// The file cannot be written; `E_NOTIMPL` where the runtime only saves to memory.
    pub fn save(&self, path: &str) -> Result<()> {
        const CALL: &str = "Save";
        let path = wide(CALL, path)?;
        check(CALL, raw!(self.emit, Save(path.as_ptr(), 0)))
    }

    /// Writes the metadata to an `IStream` (`SaveToStream`).
    ///
    /// # Safety
    /// `stream` is a live `IStream`.
    ///
    /// # Errors
    /// The stream refuses.
    pub unsafe fn save_to_stream(&self, stream: *mut c_void) -> Result<()> {
        check("SaveToStream", raw!(self.emit, SaveToStream(stream, 0)))
    }

    /// Size of the metadata when it is written, in bytes (`GetSaveSize`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn save_size(&self, how: SaveSizeFlags) -> Result<u32> {
        let mut size = 0;
        check("GetSaveSize", raw!(self.emit, GetSaveSize(how.bits(), &mut size)))?;
        Ok(size)
    }

    /// The metadata as bytes (`SaveToMemory`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn save_to_memory(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.save_size(SaveSizeFlags::ACCURATE)? as usize];
        check(
            "SaveToMemory",
            raw!(self.emit, SaveToMemory(bytes.as_mut_ptr(), bytes.len() as u32)),
        )?;
        Ok(bytes)
    }

    /// Sets the object that is notified of moved tokens and of faults (`SetHandler`): it has
    /// [`IMapToken`](super::abi::IMapToken) and [`IMetaDataError`](super::abi::IMetaDataError).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_handler(&self, handler: Option<&IUnknown>) -> Result<()> {
        check("SetHandler", raw!(self.emit, SetHandler(handler.map(Interface::to_ref))))
    }

    /// Defines a type (`DefineTypeDef`). `extends` is nil for interfaces; `implements` are its
    /// interfaces.
    ///
    /// # Errors
    /// `META_S_DUPLICATE` is a success; `E_INVALIDARG` for a name with a zero inside.
    pub fn define_type_def(
        &self,
        name: &str,
        attributes: TypeAttributes,
        extends: Token,
        implements: &[Token],
    ) -> Result<TypeDef> {
        const CALL: &str = "DefineTypeDef";
        let (name, implements) = (wide(CALL, name)?, ended(implements));
        let mut type_def = TypeDef::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineTypeDef(
                    name.as_ptr(),
                    attributes.bits(),
                    extends,
                    implements.as_ptr(),
                    &mut type_def
                )
            ),
        )?;
        Ok(type_def)
    }

    /// Defines a type nested in another one (`DefineNestedType`).
    ///
    /// # Errors
    /// As [`Self::define_type_def`].
    pub fn define_nested_type(
        &self,
        name: &str,
        attributes: TypeAttributes,
        extends: Token,
        implements: &[Token],
        enclosing: TypeDef,
    ) -> Result<TypeDef> {
        const CALL: &str = "DefineNestedType";
        let (name, implements) = (wide(CALL, name)?, ended(implements));
        let mut type_def = TypeDef::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineNestedType(
                    name.as_ptr(),
                    attributes.bits(),
                    extends,
                    implements.as_ptr(),
                    enclosing,
                    &mut type_def,
                )
            ),
        )?;
        Ok(type_def)
    }

    /// Changes a type (`SetTypeDefProps`). What is `None` stays.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_type_def_props(
        &self,
        type_def: TypeDef,
        attributes: Option<TypeAttributes>,
        extends: Option<Token>,
        implements: Option<&[Token]>,
    ) -> Result<()> {
        let implements = implements.map(ended);
        check(
            "SetTypeDefProps",
            raw!(
                self.emit,
                SetTypeDefProps(
                    type_def,
                    attributes.map_or(u32::MAX, TypeAttributes::bits),
                    extends.unwrap_or(Token(u32::MAX)),
                    implements.as_ref().map_or(core::ptr::null(), |implements| implements.as_ptr()),
                )
            ),
        )
    }

    /// States a type's layout (`SetClassLayout`). All ones as an offset leave that field without
    /// one.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_class_layout(
        &self,
        type_def: TypeDef,
        pack_size: u32,
        fields: &[FieldOffset],
        class_size: u32,
    ) -> Result<()> {
        let end = COR_FIELD_OFFSET { field: FieldDef::NIL, offset: 0 };
        let fields = fields
            .iter()
            .map(|field| COR_FIELD_OFFSET { field: field.field, offset: field.offset })
            .chain([end])
            .collect::<Vec<_>>();
        check(
            "SetClassLayout",
            raw!(self.emit, SetClassLayout(type_def, pack_size, fields.as_ptr(), class_size)),
        )
    }

    /// Takes a type's layout away (`DeleteClassLayout`).
    ///
    /// # Errors
    /// `CLDB_E_RECORD_NOTFOUND` if it has none.
    pub fn delete_class_layout(&self, type_def: TypeDef) -> Result<()> {
        check("DeleteClassLayout", raw!(self.emit, DeleteClassLayout(type_def)))
    }

    /// Defines a method (`DefineMethod`); nil as the class makes it a global one.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_method(
        &self,
        class: TypeDef,
        method: &MethodDefinition<'_>,
    ) -> Result<MethodDef> {
        const CALL: &str = "DefineMethod";
        let name = wide(CALL, method.name)?;
        let (signature, length) = start_and_length(method.signature);
        let mut token = MethodDef::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineMethod(
                    class,
                    name.as_ptr(),
                    method.attributes.bits(),
                    signature,
                    length,
                    method.code_rva,
                    method.implementation.bits(),
                    &mut token,
                )
            ),
        )?;
        Ok(token)
    }

    /// Makes a method the body of another one that it does not match by name (`DefineMethodImpl`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn define_method_impl(
        &self,
        class: TypeDef,
        body: Token,
        declaration: Token,
    ) -> Result<()> {
        check("DefineMethodImpl", raw!(self.emit, DefineMethodImpl(class, body, declaration)))
    }

    /// Changes a method (`SetMethodProps`). What is `None` stays.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_method_props(
        &self,
        method: MethodDef,
        attributes: Option<MethodAttributes>,
        code_rva: Option<u32>,
        implementation: Option<MethodImplAttributes>,
    ) -> Result<()> {
        check(
            "SetMethodProps",
            raw!(
                self.emit,
                SetMethodProps(
                    method,
                    attributes.map_or(u32::MAX, MethodAttributes::bits),
                    code_rva.unwrap_or(u32::MAX),
                    implementation.map_or(u32::MAX, MethodImplAttributes::bits),
                )
            ),
        )
    }

    /// Says how a method is implemented (`SetMethodImplFlags`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_method_impl_flags(
        &self,
        method: MethodDef,
        implementation: MethodImplAttributes,
    ) -> Result<()> {
        check(
            "SetMethodImplFlags",
            raw!(self.emit, SetMethodImplFlags(method, implementation.bits())),
        )
    }

    /// Says where a method's body is in the image (`SetRVA`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_rva(&self, method: MethodDef, rva: u32) -> Result<()> {
        check("SetRVA", raw!(self.emit, SetRVA(method, rva)))
    }

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

    /// Defines a generic parameter (`DefineGenericParam`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_generic_param(
        &self,
        owner: Token,
        sequence: u32,
        attributes: GenericParamAttributes,
        name: &str,
        constraints: &[Token],
    ) -> Result<GenericParam> {
        const CALL: &str = "DefineGenericParam";
        let (name, constraints) = (wide(CALL, name)?, ended(constraints));
        let mut param = GenericParam::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineGenericParam(
                    owner,
                    sequence,
                    attributes.bits(),
                    name.as_ptr(),
                    0,
                    constraints.as_ptr(),
                    &mut param,
                )
            ),
        )?;
        Ok(param)
    }

    /// Changes a generic parameter (`SetGenericParamProps`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn set_generic_param_props(
        &self,
        param: GenericParam,
        attributes: GenericParamAttributes,
        name: &str,
        constraints: &[Token],
    ) -> Result<()> {
        const CALL: &str = "SetGenericParamProps";
        let (name, constraints) = (wide(CALL, name)?, ended(constraints));
        check(
            CALL,
            raw!(
                self.emit,
                SetGenericParamProps(
                    param,
                    attributes.bits(),
                    name.as_ptr(),
                    0,
                    constraints.as_ptr()
                )
            ),
        )
    }

    /// Says which native function is behind a method (`DefinePinvokeMap`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_pinvoke_map(
        &self,
        method: Token,
        flags: PInvokeAttributes,
        name: &str,
        library: ModuleRef,
    ) -> Result<()> {
        const CALL: &str = "DefinePinvokeMap";
        let name = wide(CALL, name)?;
        check(CALL, raw!(self.emit, DefinePinvokeMap(method, flags.bits(), name.as_ptr(), library)))
    }

    /// Changes which native function is behind a method (`SetPinvokeMap`).
    ///
    /// # Errors
    /// As [`Self::define_pinvoke_map`].
    pub fn set_pinvoke_map(
        &self,
        method: Token,
        flags: PInvokeAttributes,
        name: &str,
        library: ModuleRef,
    ) -> Result<()> {
        const CALL: &str = "SetPinvokeMap";
        let name = wide(CALL, name)?;
        check(CALL, raw!(self.emit, SetPinvokeMap(method, flags.bits(), name.as_ptr(), library)))
    }

    /// Takes the native function behind a method away (`DeletePinvokeMap`).
    ///
    /// # Errors
    /// `CLDB_E_RECORD_NOTFOUND` if it has none.
    pub fn delete_pinvoke_map(&self, method: Token) -> Result<()> {
        check("DeletePinvokeMap", raw!(self.emit, DeletePinvokeMap(method)))
    }

    /// Deletes something, as far as metadata can (`DeleteToken`).
    ///
    /// # Errors
    /// `META_E_BADMETADATA` and the like for what cannot be deleted.
    pub fn delete_token(&self, token: Token) -> Result<()> {
        check("DeleteToken", raw!(self.emit, DeleteToken(token)))
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

    /// Applies an edit-and-continue delta (`ApplyEditAndContinue`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn apply_edit_and_continue(&self, delta: &IUnknown) -> Result<()> {
        check("ApplyEditAndContinue", raw!(self.emit, ApplyEditAndContinue(Some(delta.to_ref()))))
    }

    /// Notes another scope to be merged into this one (`Merge`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core).
    pub fn merge(&self, other: &Metadata, handler: Option<&IUnknown>) -> Result<()> {
        let other: &IMetaDataImport = other.raw();
        check(
            "Merge",
            raw!(self.emit, Merge(Some(other.to_ref()), None, handler.map(Interface::to_ref))),
        )
    }

    /// Merges the noted scopes (`MergeEnd`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core).
    pub fn merge_end(&self) -> Result<()> {
        check("MergeEnd", raw!(self.emit, MergeEnd()))
    }

    /// Size of what changed since the scope was opened, in bytes (`GetDeltaSaveSize`). Only for
    /// scopes in edit-and-continue mode.
    ///
    /// # Errors
    /// The scope is not in that mode.
    pub fn delta_save_size(&self, how: SaveSizeFlags) -> Result<u32> {
        let mut size = 0;
        check("GetDeltaSaveSize", raw!(self.emit, GetDeltaSaveSize(how.bits(), &mut size)))?;
        Ok(size)
    }

    /// Writes what changed to a file (`SaveDelta`).
    ///
    /// # Errors
    /// As [`Self::delta_save_size`]; the file cannot be written.
    pub fn save_delta(&self, path: &str) -> Result<()> {
        const CALL: &str = "SaveDelta";
        let path = wide(CALL, path)?;
        check(CALL, raw!(self.emit, SaveDelta(path.as_ptr(), 0)))
    }

    /// Writes what changed to an `IStream` (`SaveDeltaToStream`).
    ///
    /// # Safety
    /// `stream` is a live `IStream`.
    ///
    /// # Errors
    /// As [`Self::delta_save_size`]; the stream refuses.
    pub unsafe fn save_delta_to_stream(&self, stream: *mut c_void) -> Result<()> {
        check("SaveDeltaToStream", raw!(self.emit, SaveDeltaToStream(stream, 0)))
    }

    /// What changed, as bytes (`SaveDeltaToMemory`).
    ///
    /// # Errors
    /// As [`Self::delta_save_size`].
    pub fn save_delta_to_memory(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.delta_save_size(SaveSizeFlags::ACCURATE)? as usize];
        check(
            "SaveDeltaToMemory",
            raw!(self.emit, SaveDeltaToMemory(bytes.as_mut_ptr(), bytes.len() as u32)),
        )?;
        Ok(bytes)
    }

    /// Forgets what changed (`ResetENCLog`).
    ///
    /// # Errors
    /// As [`Self::delta_save_size`].
    pub fn reset_enc_log(&self) -> Result<()> {
        check("ResetENCLog", raw!(self.emit, ResetENCLog()))
    }
}
