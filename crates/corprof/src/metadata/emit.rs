//! Adding to metadata: scopes, types, methods, references.

mod methods;
mod references;
mod types;

pub use methods::MethodDefinition;

use core::ffi::c_void;

use com::{IUnknown, Interface};

use super::abi::{IMetaDataAssemblyEmit, IMetaDataEmit2, IMetaDataImport, IMetaDataImport2};
use super::emit_assembly::ManifestEmit;
use super::token::*;
use super::{Metadata, SaveSizeFlags};
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

    /// Deletes something, as far as metadata can (`DeleteToken`).
    ///
    /// # Errors
    /// `META_E_BADMETADATA` and the like for what cannot be deleted.
    pub fn delete_token(&self, token: Token) -> Result<()> {
        check("DeleteToken", raw!(self.emit, DeleteToken(token)))
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
