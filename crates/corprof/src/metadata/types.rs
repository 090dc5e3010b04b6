//! Types: definitions, references, layouts.

use core::ffi::c_void;

use com::{HResult, Interface};

use super::abi::IMetaDataImport2;
use super::token::*;
use super::{Metadata, TokenEnum, TypeAttributes};
use crate::abi::COR_FIELD_OFFSET;
use crate::info::call::{blob, check, found, list, raw, text, text_into, wide};
use crate::info::error::{Error, Result};

/// A type of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDefProps {
    /// Namespace and name with a dot between; of a nested type mostly only the name. Generic types
    /// end in a backtick and the number of their own parameters.
    pub name: String,
    /// Flags.
    pub attributes: TypeAttributes,
    /// What it derives from: `TypeDef`, `TypeRef` or `TypeSpec`. `None` for interfaces and
    /// `System.Object`.
    pub extends: Option<Token>,
}

/// A type of another module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRefProps {
    /// Where it is to be looked for: `AssemblyRef`, `ModuleRef`, `Module`, or the `TypeRef` that it
    /// is nested in.
    pub scope: Option<Token>,
    /// Namespace and name with a dot between.
    pub name: String,
}

/// Where a field lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldOffset {
    /// The field.
    pub field: FieldDef,
    /// Offset in bytes; all ones in metadata where it is not stated.
    pub offset: u32,
}

/// What a type says of its layout in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLayout {
    /// Alignment in bytes; 0 for the usual one.
    pub pack_size: u32,
    /// Size in bytes; 0 for what the fields take.
    pub class_size: u32,
    /// Fields and their stated offsets.
    pub fields: Vec<FieldOffset>,
}

impl Metadata {
    /// All types of the module but the one of its global members (`EnumTypeDefs`).
    pub fn type_defs(&self) -> TokenEnum<'_, TypeDef> {
        self.tokens("EnumTypeDefs", |import, handle, buffer, room, fetched| {
            raw!(import, EnumTypeDefs(handle, buffer, room, fetched))
        })
    }

    /// All references to types (`EnumTypeRefs`).
    pub fn type_refs(&self) -> TokenEnum<'_, TypeRef> {
        self.tokens("EnumTypeRefs", |import, handle, buffer, room, fetched| {
            raw!(import, EnumTypeRefs(handle, buffer, room, fetched))
        })
    }

    /// All constructed types (`EnumTypeSpecs`).
    pub fn type_specs(&self) -> TokenEnum<'_, TypeSpec> {
        self.tokens("EnumTypeSpecs", |import, handle, buffer, room, fetched| {
            raw!(import, EnumTypeSpecs(handle, buffer, room, fetched))
        })
    }

    /// The interfaces that a type states to implement (`EnumInterfaceImpls`).
    pub fn interface_impls(&self, type_def: TypeDef) -> TokenEnum<'_, InterfaceImpl> {
        self.tokens("EnumInterfaceImpls", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumInterfaceImpls(handle, type_def, buffer, room, fetched))
        })
    }

    /// Which type implements which interface (`GetInterfaceImplProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn interface_impl_props(&self, implementation: InterfaceImpl) -> Result<(TypeDef, Token)> {
        let (mut class, mut interface) = (TypeDef::NIL, Token::NIL);
        check(
            "GetInterfaceImplProps",
            raw!(self.import, GetInterfaceImplProps(implementation, &mut class, &mut interface)),
        )?;
        Ok((class, interface))
    }

    /// A type by namespace and name; for a nested one also by the type around it, a `TypeDef` or
    /// `TypeRef` (`FindTypeDefByName`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn find_type_def(&self, name: &str, enclosing: Option<Token>) -> Result<Option<TypeDef>> {
        const CALL: &str = "FindTypeDefByName";
        let name = wide(CALL, name)?;
        let mut type_def = TypeDef::NIL;
        let hresult = raw!(
            self.import,
            FindTypeDefByName(name.as_ptr(), enclosing.unwrap_or_default(), &mut type_def)
        );
        found(CALL, hresult, ()).map(|found| found.map(|()| type_def))
    }

    /// Name, flags and base of a type (`GetTypeDefProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn type_def_props(&self, type_def: TypeDef) -> Result<TypeDefProps> {
        let mut name = String::new();
        let (attributes, extends) = self.type_def_into(type_def, &mut name)?;
        Ok(TypeDefProps { name, attributes, extends })
    }

    /// As [`Self::type_def_props`], with the name appended to `name`: for those who build longer
    /// names.
    ///
    /// # Errors
    /// As [`Self::type_def_props`].
    pub fn type_def_into(
        &self,
        type_def: TypeDef,
        name: &mut String,
    ) -> Result<(TypeAttributes, Option<Token>)> {
        let (mut attributes, mut extends) = (0, Token::NIL);
        text_into(name, "GetTypeDefProps", |buffer, room, needed| {
            raw!(
                self.import,
                GetTypeDefProps(type_def, buffer, room, needed, &mut attributes, &mut extends)
            )
        })?;
        Ok((TypeAttributes::from_bits(attributes), extends.non_nil()))
    }

    /// Name and scope of a reference to a type (`GetTypeRefProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn type_ref_props(&self, type_ref: TypeRef) -> Result<TypeRefProps> {
        let mut scope = Token::NIL;
        let name = text("GetTypeRefProps", |buffer, room, needed| {
            raw!(self.import, GetTypeRefProps(type_ref, &mut scope, buffer, room, needed))
        })?;
        // Token::NIL is the module in disguise: table 0, row 0; a module scope has row 1.
        Ok(TypeRefProps { scope: scope.non_nil(), name })
    }

    /// A reference to a type by its scope and name (`FindTypeRef`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn find_type_ref(&self, scope: Token, name: &str) -> Result<Option<TypeRef>> {
        const CALL: &str = "FindTypeRef";
        let name = wide(CALL, name)?;
        let mut type_ref = TypeRef::NIL;
        let hresult = raw!(self.import, FindTypeRef(scope, name.as_ptr(), &mut type_ref));
        found(CALL, hresult, ()).map(|found| found.map(|()| type_ref))
    }

    /// The module and type that a reference resolves to (`ResolveTypeRef`).
    ///
    /// # Errors
    /// `E_NOTIMPL` or `E_FAIL` on .NET (Core), which does not look through loaded modules here;
    /// look the scope up among the modules instead.
    pub fn resolve_type_ref(&self, type_ref: TypeRef) -> Result<(Self, TypeDef)> {
        const CALL: &str = "ResolveTypeRef";
        let (mut scope, mut type_def): (*mut c_void, _) = (core::ptr::null_mut(), TypeDef::NIL);
        check(
            CALL,
            raw!(
                self.import,
                ResolveTypeRef(type_ref, &IMetaDataImport2::IID, &mut scope, &mut type_def)
            ),
        )?;
        // SAFETY: a successful call gives a referenced pointer to the interface asked for, or null.
        let scope = unsafe { IMetaDataImport2::from_nullable(scope) }
            .ok_or(Error::Nothing { call: CALL })?;
        Ok((Self::new(scope), type_def))
    }

    /// The type that this one is nested in (`GetNestedClassProps`); `None` if it is not nested.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn enclosing_type(&self, type_def: TypeDef) -> Result<Option<TypeDef>> {
        let mut enclosing = TypeDef::NIL;
        let hresult = raw!(self.import, GetNestedClassProps(type_def, &mut enclosing));
        Ok(found("GetNestedClassProps", hresult, ())?.and_then(|()| enclosing.non_nil()))
    }

    /// The signature of a constructed type (`GetTypeSpecFromToken`), for
    /// [`TypeSig::decode`](crate::signature::TypeSig::decode).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn type_spec_signature(&self, type_spec: TypeSpec) -> Result<&[u8]> {
        let (mut signature, mut length) = (core::ptr::null(), 0);
        check(
            "GetTypeSpecFromToken",
            raw!(self.import, GetTypeSpecFromToken(type_spec, &mut signature, &mut length)),
        )?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        Ok(unsafe { blob(signature, length) })
    }

    /// What a type says of its layout (`GetClassLayout`); `None` if it says nothing.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn class_layout(&self, type_def: TypeDef) -> Result<Option<ClassLayout>> {
        let (mut pack_size, mut class_size) = (0, 0);
        let fields = list::<COR_FIELD_OFFSET>("GetClassLayout", 16, |room, needed, fields| {
            raw!(
                self.import,
                GetClassLayout(type_def, &mut pack_size, fields, room, needed, &mut class_size)
            )
        });
        let fields = match fields {
            Err(Error::Hr { hresult, .. }) if not_found(hresult) => return Ok(None),
            fields => fields?,
        };
        let fields = fields
            .into_iter()
            .map(|field| FieldOffset { field: field.field, offset: field.offset })
            .collect();
        Ok(Some(ClassLayout { pack_size, class_size, fields }))
    }
}

/// Whether the answer is "no such record".
pub(super) fn not_found(hresult: HResult) -> bool {
    hresult == com::codes::CLDB_E_RECORD_NOTFOUND
}
