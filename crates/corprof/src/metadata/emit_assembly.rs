//! Adding to a manifest.

use super::abi::IMetaDataAssemblyEmit;
use super::assembly::AssemblyIdentity;
use super::methods::start_and_length;
use super::token::*;
use super::{AssemblyFlags, FileFlags, ManifestResourceFlags, TypeAttributes};
use crate::abi::ASSEMBLYMETADATA;
use crate::info::call::{check, raw, wide};
use crate::info::error::Result;

/// Adds to a manifest. Clones share the same scope.
#[derive(Clone, Debug)]
pub struct ManifestEmit {
    emit: IMetaDataAssemblyEmit,
}

/// Name, version and culture as the runtime wants them.
struct RawIdentity {
    name: Vec<u16>,
    culture: Vec<u16>,
    data: ASSEMBLYMETADATA,
}

impl RawIdentity {
    fn new(call: &'static str, identity: &AssemblyIdentity) -> Result<Self> {
        let mut culture = wide(call, &identity.culture)?;
        let data = ASSEMBLYMETADATA {
            major_version: identity.version.major,
            minor_version: identity.version.minor,
            build_number: identity.version.build,
            revision_number: identity.version.revision,
            // The buffer of the vector stays where it is when the vector is moved.
            locale: if identity.culture.is_empty() {
                core::ptr::null_mut()
            } else {
                culture.as_mut_ptr()
            },
            locale_len: if identity.culture.is_empty() { 0 } else { culture.len() as u32 },
            ..ASSEMBLYMETADATA::default()
        };
        Ok(Self { name: wide(call, &identity.name)?, culture, data })
    }

    /// The structure, for as long as `self` lives, which owns the culture's text.
    fn data(&self) -> *const ASSEMBLYMETADATA {
        debug_assert!(
            self.data.locale.is_null() || self.data.locale.cast_const() == self.culture.as_ptr()
        );
        &raw const self.data
    }
}

impl ManifestEmit {
    pub(super) const fn new(emit: IMetaDataAssemblyEmit) -> Self {
        Self { emit }
    }

    /// The interface below.
    #[must_use]
    pub const fn raw(&self) -> &IMetaDataAssemblyEmit {
        &self.emit
    }

    /// Makes the module an assembly (`DefineAssembly`). `hash_algorithm` is that of its files
    /// (`0x8004` is SHA-1).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_assembly(
        &self,
        identity: &AssemblyIdentity,
        public_key: &[u8],
        hash_algorithm: u32,
        flags: AssemblyFlags,
    ) -> Result<Assembly> {
        const CALL: &str = "DefineAssembly";
        let identity = RawIdentity::new(CALL, identity)?;
        let (key, key_length) = start_and_length(public_key);
        let mut assembly = Assembly::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineAssembly(
                    key,
                    key_length,
                    hash_algorithm,
                    identity.name.as_ptr(),
                    identity.data(),
                    flags.bits(),
                    &mut assembly,
                )
            ),
        )?;
        Ok(assembly)
    }

    /// Changes the assembly (`SetAssemblyProps`).
    ///
    /// # Errors
    /// As [`Self::define_assembly`].
    pub fn set_assembly_props(
        &self,
        assembly: Assembly,
        identity: &AssemblyIdentity,
        public_key: &[u8],
        hash_algorithm: u32,
        flags: AssemblyFlags,
    ) -> Result<()> {
        const CALL: &str = "SetAssemblyProps";
        let identity = RawIdentity::new(CALL, identity)?;
        let (key, key_length) = start_and_length(public_key);
        check(
            CALL,
            raw!(
                self.emit,
                SetAssemblyProps(
                    assembly,
                    key,
                    key_length,
                    hash_algorithm,
                    identity.name.as_ptr(),
                    identity.data(),
                    flags.bits(),
                )
            ),
        )
    }

    /// Refers to another assembly (`DefineAssemblyRef`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_assembly_ref(
        &self,
        identity: &AssemblyIdentity,
        public_key_or_token: &[u8],
        hash: &[u8],
        flags: AssemblyFlags,
    ) -> Result<AssemblyRef> {
        const CALL: &str = "DefineAssemblyRef";
        let identity = RawIdentity::new(CALL, identity)?;
        let (key, key_length) = start_and_length(public_key_or_token);
        let (hash, hash_length) = start_and_length(hash);
        let mut assembly = AssemblyRef::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineAssemblyRef(
                    key,
                    key_length,
                    identity.name.as_ptr(),
                    identity.data(),
                    hash,
                    hash_length,
                    flags.bits(),
                    &mut assembly,
                )
            ),
        )?;
        Ok(assembly)
    }

    /// Changes a reference to an assembly (`SetAssemblyRefProps`).
    ///
    /// # Errors
    /// As [`Self::define_assembly_ref`].
    pub fn set_assembly_ref_props(
        &self,
        assembly: AssemblyRef,
        identity: &AssemblyIdentity,
        public_key_or_token: &[u8],
        hash: &[u8],
        flags: AssemblyFlags,
    ) -> Result<()> {
        const CALL: &str = "SetAssemblyRefProps";
        let identity = RawIdentity::new(CALL, identity)?;
        let (key, key_length) = start_and_length(public_key_or_token);
        let (hash, hash_length) = start_and_length(hash);
        check(
            CALL,
            raw!(
                self.emit,
                SetAssemblyRefProps(
                    assembly,
                    key,
                    key_length,
                    identity.name.as_ptr(),
                    identity.data(),
                    hash,
                    hash_length,
                    flags.bits(),
                )
            ),
        )
    }

    /// Adds a file to the assembly (`DefineFile`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_file(&self, name: &str, hash: &[u8], flags: FileFlags) -> Result<File> {
        const CALL: &str = "DefineFile";
        let name = wide(CALL, name)?;
        let (hash, hash_length) = start_and_length(hash);
        let mut file = File::NIL;
        check(
            CALL,
            raw!(self.emit, DefineFile(name.as_ptr(), hash, hash_length, flags.bits(), &mut file)),
        )?;
        Ok(file)
    }

    /// Changes a file of the assembly (`SetFileProps`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_file_props(&self, file: File, hash: &[u8], flags: FileFlags) -> Result<()> {
        let (hash, hash_length) = start_and_length(hash);
        check("SetFileProps", raw!(self.emit, SetFileProps(file, hash, hash_length, flags.bits())))
    }

    /// Exports or forwards a type (`DefineExportedType`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_exported_type(
        &self,
        name: &str,
        implementation: Token,
        type_def: TypeDef,
        flags: TypeAttributes,
    ) -> Result<ExportedType> {
        const CALL: &str = "DefineExportedType";
        let name = wide(CALL, name)?;
        let mut exported = ExportedType::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineExportedType(
                    name.as_ptr(),
                    implementation,
                    type_def,
                    flags.bits(),
                    &mut exported
                )
            ),
        )?;
        Ok(exported)
    }

    /// Changes an exported type (`SetExportedTypeProps`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_exported_type_props(
        &self,
        exported: ExportedType,
        implementation: Token,
        type_def: TypeDef,
        flags: TypeAttributes,
    ) -> Result<()> {
        check(
            "SetExportedTypeProps",
            raw!(self.emit, SetExportedTypeProps(exported, implementation, type_def, flags.bits())),
        )
    }

    /// Adds a resource (`DefineManifestResource`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_manifest_resource(
        &self,
        name: &str,
        implementation: Token,
        offset: u32,
        flags: ManifestResourceFlags,
    ) -> Result<ManifestResource> {
        const CALL: &str = "DefineManifestResource";
        let name = wide(CALL, name)?;
        let mut resource = ManifestResource::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineManifestResource(
                    name.as_ptr(),
                    implementation,
                    offset,
                    flags.bits(),
                    &mut resource
                )
            ),
        )?;
        Ok(resource)
    }

    /// Changes a resource (`SetManifestResourceProps`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_manifest_resource_props(
        &self,
        resource: ManifestResource,
        implementation: Token,
        offset: u32,
        flags: ManifestResourceFlags,
    ) -> Result<()> {
        check(
            "SetManifestResourceProps",
            raw!(
                self.emit,
                SetManifestResourceProps(resource, implementation, offset, flags.bits())
            ),
        )
    }
}
