//! The manifest: the assembly, what it uses, what it exports.

use com::{HResult, Interface};

use super::abi::{HCORENUM, IMetaDataAssemblyImport};
use super::enumerate::{EnumeratedToken, Scope};
use super::token::*;
use super::{AssemblyFlags, FileFlags, ManifestResourceFlags, Metadata, TokenEnum, TypeAttributes};
use crate::abi::ASSEMBLYMETADATA;
use crate::info::call::{blob, check, found, raw, text, utf16, wide};
use crate::info::error::{Error, Result};

/// The four numbers of an assembly's version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssemblyVersion {
    /// First.
    pub major: u16,
    /// Second.
    pub minor: u16,
    /// Third.
    pub build: u16,
    /// Fourth.
    pub revision: u16,
}

/// What tells assemblies of one name apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssemblyIdentity {
    /// Simple name.
    pub name: String,
    /// Version.
    pub version: AssemblyVersion,
    /// Culture of a satellite assembly; empty for all others.
    pub culture: String,
}

/// The assembly itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyProps<'a> {
    /// Name, version and culture.
    pub identity: AssemblyIdentity,
    /// Public key; empty without a strong name.
    pub public_key: &'a [u8],
    /// Algorithm of the hashes of its files (`0x8004` is SHA-1).
    pub hash_algorithm: u32,
    /// Flags.
    pub flags: AssemblyFlags,
}

/// An assembly that this one uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyRefProps<'a> {
    /// Name, version and culture.
    pub identity: AssemblyIdentity,
    /// Public key, or its token if [`AssemblyFlags::PUBLIC_KEY`] is not set.
    pub public_key_or_token: &'a [u8],
    /// Hash of the assembly, mostly empty.
    pub hash: &'a [u8],
    /// Flags.
    pub flags: AssemblyFlags,
}

/// Another file of the assembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProps<'a> {
    /// Name.
    pub name: String,
    /// Hash of its content.
    pub hash: &'a [u8],
    /// Flags.
    pub flags: FileFlags,
}

/// A type that the assembly exports from another file, or forwards to another assembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedTypeProps {
    /// Namespace and name with a dot between.
    pub name: String,
    /// Where it is: `File`, `AssemblyRef`, or the `ExportedType` that it is nested in.
    pub implementation: Token,
    /// A guess at its token in that file.
    pub type_def: TypeDef,
    /// Flags.
    pub flags: TypeAttributes,
}

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestResourceProps {
    /// Name.
    pub name: String,
    /// Where it is: `File` or `AssemblyRef`; nil for this file.
    pub implementation: Token,
    /// Where it starts, in bytes from the start of the resources (or of the file).
    pub offset: u32,
    /// Flags.
    pub flags: ManifestResourceFlags,
}

/// Reads a manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    import: IMetaDataAssemblyImport,
}

/// Room for a culture's name. The longest that exist have a dozen letters.
const CULTURE_ROOM: usize = 128;

impl Metadata {
    /// The manifest in the same scope.
    ///
    /// # Errors
    /// `E_NOINTERFACE` if the scope has none.
    pub fn manifest(&self) -> Result<Manifest> {
        self.raw().cast::<IMetaDataAssemblyImport>().map(|import| Manifest { import }).map_err(
            |hresult| Error::Hr { call: "QueryInterface(IMetaDataAssemblyImport)", hresult },
        )
    }
}

/// Reads name and version at once: two texts whose sizes are unknown.
fn identity(
    call: &'static str,
    mut ask: impl FnMut(*mut u16, u32, *mut u32, *mut ASSEMBLYMETADATA) -> HResult,
) -> Result<AssemblyIdentity> {
    let mut culture = [0_u16; CULTURE_ROOM];
    let mut version = AssemblyVersion::default();
    let mut culture_length = 0;
    let name = text(call, |buffer, room, needed| {
        let mut data = ASSEMBLYMETADATA {
            locale: culture.as_mut_ptr(),
            locale_len: CULTURE_ROOM as u32,
            ..ASSEMBLYMETADATA::default()
        };
        let hresult = ask(buffer, room, needed, &mut data);
        version = AssemblyVersion {
            major: data.major_version,
            minor: data.minor_version,
            build: data.build_number,
            revision: data.revision_number,
        };
        culture_length = data.locale_len as usize;
        hresult
    })?;
    let culture = culture.get(..culture_length).unwrap_or(&culture);
    let culture = culture.split(|unit| *unit == 0).next().unwrap_or_default();
    Ok(AssemblyIdentity { name, version, culture: utf16(culture) })
}

impl Manifest {
    /// The interface below.
    #[must_use]
    pub const fn raw(&self) -> &IMetaDataAssemblyImport {
        &self.import
    }

    /// Token of the assembly (`GetAssemblyFromScope`); `None` if the scope is a module without
    /// manifest.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn assembly(&self) -> Result<Option<Assembly>> {
        let mut assembly = Assembly::NIL;
        let hresult = raw!(self.import, GetAssemblyFromScope(&mut assembly));
        found("GetAssemblyFromScope", hresult, ()).map(|found| found.map(|()| assembly))
    }

    /// Name, version and key of the assembly (`GetAssemblyProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn assembly_props(&self, assembly: Assembly) -> Result<AssemblyProps<'_>> {
        let (mut key, mut key_length, mut hash_algorithm, mut flags) = (core::ptr::null(), 0, 0, 0);
        let identity = identity("GetAssemblyProps", |buffer, room, needed, data| {
            raw!(
                self.import,
                GetAssemblyProps(
                    assembly,
                    &mut key,
                    &mut key_length,
                    &mut hash_algorithm,
                    buffer,
                    room,
                    needed,
                    data,
                    &mut flags,
                )
            )
        })?;
        Ok(AssemblyProps {
            identity,
            // SAFETY: the runtime answers with a blob of that length in the scope's memory.
            public_key: unsafe { blob(key, key_length) },
            hash_algorithm,
            flags: AssemblyFlags::from_bits(flags),
        })
    }

    /// Name, version and key of an assembly that this one uses (`GetAssemblyRefProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn assembly_ref_props(&self, assembly: AssemblyRef) -> Result<AssemblyRefProps<'_>> {
        let (mut key, mut key_length) = (core::ptr::null(), 0);
        let (mut hash, mut hash_length, mut flags) = (core::ptr::null(), 0, 0);
        let identity = identity("GetAssemblyRefProps", |buffer, room, needed, data| {
            raw!(
                self.import,
                GetAssemblyRefProps(
                    assembly,
                    &mut key,
                    &mut key_length,
                    buffer,
                    room,
                    needed,
                    data,
                    &mut hash,
                    &mut hash_length,
                    &mut flags,
                )
            )
        })?;
        Ok(AssemblyRefProps {
            identity,
            // SAFETY: the runtime answers with a blob of that length in the scope's memory.
            public_key_or_token: unsafe { blob(key, key_length) },
            // SAFETY: as above.
            hash: unsafe { blob(hash, hash_length) },
            flags: AssemblyFlags::from_bits(flags),
        })
    }

    /// Name and hash of a file of the assembly (`GetFileProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn file_props(&self, file: File) -> Result<FileProps<'_>> {
        let (mut hash, mut hash_length, mut flags) = (core::ptr::null(), 0, 0);
        let name = text("GetFileProps", |buffer, room, needed| {
            raw!(
                self.import,
                GetFileProps(file, buffer, room, needed, &mut hash, &mut hash_length, &mut flags)
            )
        })?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        let hash = unsafe { blob(hash, hash_length) };
        Ok(FileProps { name, hash, flags: FileFlags::from_bits(flags) })
    }

    /// Name and place of an exported or forwarded type (`GetExportedTypeProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn exported_type_props(&self, exported: ExportedType) -> Result<ExportedTypeProps> {
        let (mut implementation, mut type_def, mut flags) = (Token::NIL, TypeDef::NIL, 0);
        let name = text("GetExportedTypeProps", |buffer, room, needed| {
            raw!(
                self.import,
                GetExportedTypeProps(
                    exported,
                    buffer,
                    room,
                    needed,
                    &mut implementation,
                    &mut type_def,
                    &mut flags
                )
            )
        })?;
        Ok(ExportedTypeProps {
            name,
            implementation,
            type_def,
            flags: TypeAttributes::from_bits(flags),
        })
    }

    /// Name and place of a resource (`GetManifestResourceProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn manifest_resource_props(
        &self,
        resource: ManifestResource,
    ) -> Result<ManifestResourceProps> {
        let (mut implementation, mut offset, mut flags) = (Token::NIL, 0, 0);
        let name = text("GetManifestResourceProps", |buffer, room, needed| {
            raw!(
                self.import,
                GetManifestResourceProps(
                    resource,
                    buffer,
                    room,
                    needed,
                    &mut implementation,
                    &mut offset,
                    &mut flags
                )
            )
        })?;
        Ok(ManifestResourceProps {
            name,
            implementation,
            offset,
            flags: ManifestResourceFlags::from_bits(flags),
        })
    }

    /// The assemblies that this one uses (`EnumAssemblyRefs`).
    pub fn assembly_refs(&self) -> TokenEnum<'_, AssemblyRef> {
        self.tokens("EnumAssemblyRefs", |import, handle, buffer, room, fetched| {
            raw!(import, EnumAssemblyRefs(handle, buffer, room, fetched))
        })
    }

    /// The other files of the assembly (`EnumFiles`).
    pub fn files(&self) -> TokenEnum<'_, File> {
        self.tokens("EnumFiles", |import, handle, buffer, room, fetched| {
            raw!(import, EnumFiles(handle, buffer, room, fetched))
        })
    }

    /// The exported and forwarded types (`EnumExportedTypes`).
    pub fn exported_types(&self) -> TokenEnum<'_, ExportedType> {
        self.tokens("EnumExportedTypes", |import, handle, buffer, room, fetched| {
            raw!(import, EnumExportedTypes(handle, buffer, room, fetched))
        })
    }

    /// The resources (`EnumManifestResources`).
    pub fn manifest_resources(&self) -> TokenEnum<'_, ManifestResource> {
        self.tokens("EnumManifestResources", |import, handle, buffer, room, fetched| {
            raw!(import, EnumManifestResources(handle, buffer, room, fetched))
        })
    }

    /// An exported type by its name, and by the one that it is nested in
    /// (`FindExportedTypeByName`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn find_exported_type(
        &self,
        name: &str,
        enclosing: Option<ExportedType>,
    ) -> Result<Option<ExportedType>> {
        const CALL: &str = "FindExportedTypeByName";
        let name = wide(CALL, name)?;
        let enclosing = enclosing.map_or(Token::NIL, Token::from);
        let mut exported = ExportedType::NIL;
        let hresult =
            raw!(self.import, FindExportedTypeByName(name.as_ptr(), enclosing, &mut exported));
        found(CALL, hresult, ()).map(|found| found.map(|()| exported))
    }

    /// A resource by its name (`FindManifestResourceByName`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn find_manifest_resource(&self, name: &str) -> Result<Option<ManifestResource>> {
        const CALL: &str = "FindManifestResourceByName";
        let name = wide(CALL, name)?;
        let mut resource = ManifestResource::NIL;
        let hresult = raw!(self.import, FindManifestResourceByName(name.as_ptr(), &mut resource));
        found(CALL, hresult, ()).map(|found| found.map(|()| resource))
    }

    /// Scopes of the assemblies that a simple name finds under an application's folder
    /// (`FindAssembliesByName`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core).
    pub fn find_assemblies(
        &self,
        app_base: &str,
        private_bin: &str,
        name: &str,
    ) -> Result<Vec<Metadata>> {
        const CALL: &str = "FindAssembliesByName";
        const ROOM: usize = 16;
        let (app_base, private_bin, name) =
            (wide(CALL, app_base)?, wide(CALL, private_bin)?, wide(CALL, name)?);
        let (mut scopes, mut count) = ([core::ptr::null_mut(); ROOM], 0);
        check(
            CALL,
            raw!(
                self.import,
                FindAssembliesByName(
                    app_base.as_ptr(),
                    private_bin.as_ptr(),
                    name.as_ptr(),
                    scopes.as_mut_ptr(),
                    ROOM as u32,
                    &mut count,
                )
            ),
        )?;
        scopes
            .into_iter()
            .take(count as usize)
            // SAFETY: the runtime fills in `count` referenced pointers.
            .filter_map(|scope| unsafe { com::IUnknown::from_nullable(scope) })
            .map(|scope| Metadata::from_unknown(&scope))
            .collect()
    }

    /// Starts an enumeration of this interface.
    fn tokens<'a, T: EnumeratedToken>(
        &'a self,
        call: &'static str,
        mut fetch: impl FnMut(&IMetaDataAssemblyImport, *mut HCORENUM, *mut T, u32, *mut u32) -> HResult
        + 'a,
    ) -> TokenEnum<'a, T> {
        TokenEnum::new(Scope::Assembly(&self.import), call, move |handle, buffer, room, fetched| {
            fetch(&self.import, handle, buffer.cast(), room, fetched)
        })
    }
}
