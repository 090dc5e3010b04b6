//! Metadata: what a module says of its types, members, references and attributes.
//!
//! [`Metadata`] reads it, [`MetadataEmit`] adds to it, both over the runtime's own interfaces,
//! whose raw tables are in [`abi`]. The methods stand in files by topic; each names the runtime's
//! method that it calls.
//!
//! Blobs (signatures, constants, custom attributes) are slices of the runtime's memory. They, like
//! the interfaces themselves, are good until the module is unloaded: drop what you hold of a module
//! in `ModuleUnloadStarted`.
//!
//! Sources: ECMA-335 partition II, `cor.h`, `corhdr.h`.

pub mod abi;
mod assembly;
mod attributes;
mod constant;
mod dispenser;
mod emit;
mod emit_assembly;
mod emit_members;
mod enumerate;
mod fields;
pub mod flags;
mod generics;
mod methods;
mod properties;
mod references;
mod tables;
pub mod token;
mod types;

use com::{Guid, HResult, IUnknown, Interface};

use crate::info::call::{check, raw, text};
use crate::info::error::{Error, Result};
use abi::{HCORENUM, IMetaDataImport2, IMetaDataInfo};

pub use assembly::{
    AssemblyIdentity, AssemblyProps, AssemblyRefProps, AssemblyVersion, ExportedTypeProps,
    FileProps, Manifest, ManifestResourceProps,
};
pub use attributes::{CustomAttributeProps, PermissionProps};
pub use constant::Constant;
pub use dispenser::{DispenserOption, GetDispenserFn, MetadataDispenser, OptionValue};
pub use emit::{MetadataEmit, MethodDefinition};
pub use emit_assembly::ManifestEmit;
pub use emit_members::{EventDefinition, FieldDefinition, PropertyDefinition, SecurityAttribute};
pub use enumerate::{EnumeratedToken, TokenEnum};
pub use fields::FieldProps;
pub use flags::*;
pub use generics::{GenericParamProps, MethodSpecProps, PeInfo};
pub use methods::{MethodProps, ParamProps};
pub use properties::{EventProps, MemberProps, PropertyProps};
pub use references::{MemberRefProps, PInvokeMap};
pub use tables::{CodedTokenInfo, ColumnInfo, MetadataStream, MetadataTables, TableInfo};
pub use token::*;
pub use types::{ClassLayout, FieldOffset, TypeDefProps, TypeRefProps};

/// Reads a module's metadata. Clones share the same scope.
#[derive(Clone, Debug)]
pub struct Metadata {
    import: IMetaDataImport2,
}

/// A module's name and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeProps {
    /// Name of its file.
    pub name: String,
    /// The `Mvid`: new with each build.
    pub mvid: Guid,
}

/// How the image behind a scope is mapped (`IMetaDataInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMapping<'a> {
    /// The image.
    pub image: &'a [u8],
    /// Whether it lies there as in the file; else as an executable image, at the addresses of its
    /// sections.
    pub flat: bool,
}

impl Metadata {
    /// Wraps the runtime's interface.
    #[must_use]
    pub const fn new(import: IMetaDataImport2) -> Self {
        Self { import }
    }

    /// Asks an object for its reading interface.
    ///
    /// # Errors
    /// `E_NOINTERFACE` if it has none.
    pub fn from_unknown(unknown: &IUnknown) -> Result<Self> {
        unknown
            .cast::<IMetaDataImport2>()
            .map(Self::new)
            .map_err(|hresult| Error::Hr { call: "QueryInterface(IMetaDataImport2)", hresult })
    }

    /// The interface below.
    #[must_use]
    pub const fn raw(&self) -> &IMetaDataImport2 {
        &self.import
    }

    /// Name and version of the module (`GetScopeProps`).
    ///
    /// # Errors
    /// `CLDB_E_FILE_CORRUPT` and the like.
    pub fn scope_props(&self) -> Result<ScopeProps> {
        let mut mvid = Guid::NULL;
        let name = text("GetScopeProps", |buffer, room, needed| {
            raw!(self.import, GetScopeProps(buffer, room, needed, &mut mvid))
        })?;
        Ok(ScopeProps { name, mvid })
    }

    /// Token of the module itself (`GetModuleFromScope`).
    ///
    /// # Errors
    /// None on any known runtime.
    pub fn module(&self) -> Result<Module> {
        let mut module = Module::NIL;
        check("GetModuleFromScope", raw!(self.import, GetModuleFromScope(&mut module)))?;
        Ok(module)
    }

    /// Whether a token points to a row that exists (`IsValidToken`).
    #[must_use]
    pub fn is_valid(&self, token: impl Into<Token>) -> bool {
        raw!(self.import, IsValidToken(token.into())) != 0
    }

    /// The name of a type, member or other thing as the metadata holds it, in UTF-8 and without its
    /// namespace (`GetNameFromToken`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a token of a table without names, `CLDB_E_INDEX_NOTFOUND` for a row that
    /// does not exist.
    pub fn name_of(&self, token: impl Into<Token>) -> Result<&str> {
        let mut name = core::ptr::null();
        check("GetNameFromToken", raw!(self.import, GetNameFromToken(token.into(), &mut name)))?;
        // SAFETY: the runtime answers with a zero-terminated text in the string heap.
        Ok(unsafe { self.heap_text(name) }.unwrap_or_default())
    }

    /// A text in the string heap; `None` if it is null or not UTF-8.
    ///
    /// # Safety
    /// `text` is null or zero-terminated, in memory of this scope.
    unsafe fn heap_text(&self, text: *const core::ffi::c_char) -> Option<&str> {
        if text.is_null() {
            return None;
        }
        // SAFETY: not null here; the rest is this function's contract.
        unsafe { core::ffi::CStr::from_ptr(text) }.to_str().ok()
    }

    /// How the image is mapped (`IMetaDataInfo::GetFileMapping`); `None` if the scope has no image.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn file_mapping(&self) -> Result<Option<FileMapping<'_>>> {
        let Ok(info) = self.import.cast::<IMetaDataInfo>() else { return Ok(None) };
        let (mut start, mut size, mut kind) = (core::ptr::null(), 0, 0);
        let hresult = raw!(info, GetFileMapping(&mut start, &mut size, &mut kind));
        if hresult == com::codes::COR_E_NOTSUPPORTED || start.is_null() {
            return Ok(None);
        }
        check("GetFileMapping", hresult)?;
        // SAFETY: the runtime answers with the mapped image and its size; it stays as long as the
        // scope.
        let image = unsafe { core::slice::from_raw_parts(start, size as usize) };
        Ok(Some(FileMapping { image, flat: kind == 0 }))
    }

    /// Starts an enumeration of this interface.
    fn tokens<'a, T: EnumeratedToken>(
        &'a self,
        call: &'static str,
        mut fetch: impl FnMut(&IMetaDataImport2, *mut HCORENUM, *mut T, u32, *mut u32) -> HResult + 'a,
    ) -> TokenEnum<'a, T> {
        // Every token is one number wide, so a buffer of numbers is a buffer of tokens.
        TokenEnum::new(
            enumerate::Scope::Import(&self.import),
            call,
            move |handle, buffer, room, fetched| {
                fetch(&self.import, handle, buffer.cast(), room, fetched)
            },
        )
    }
}
