//! The metadata of a loaded module.

use super::by_ref_like::is_by_ref_like;
use super::refused;
use crate::rewrite::{AssemblyReference, MetadataError, ModuleMetadata};
use cil::{Token, TokenKind};
use corprof::ProfilerInfo;
use corprof::ids::ModuleId;
use corprof::metadata::{
    AssemblyFlags, AssemblyIdentity, AssemblyVersion, Metadata, MetadataEmit, TypeDef,
    TypeDefProps, TypeRef,
};
use rules::Version;

/// A module of the running process, with metadata that can be extended.
///
/// Drop it when the unloading of the module starts: what it refers to is gone after that.
#[derive(Debug)]
pub struct LoadedModule {
    pub(super) info: ProfilerInfo,
    pub(super) id: ModuleId,
    pub(super) metadata: Metadata,
    pub(super) emit: MetadataEmit,
    path: String,
    assembly: String,
    version: Version,
}

impl LoadedModule {
    /// Opens a module.
    ///
    /// # Errors
    /// It has no metadata, its metadata cannot be extended, or it belongs to no assembly yet.
    pub fn open(info: &ProfilerInfo, id: ModuleId) -> Result<Self, MetadataError> {
        let module = info.module_info(id).map_err(refused)?;
        let missing = || MetadataError(format!("{} belongs to no assembly yet", module.name));
        let assembly =
            info.assembly_info(module.assembly.ok_or_else(missing)?).map_err(refused)?.name;
        let emit = info.module_metadata_emit(id).map_err(refused)?;
        let metadata = emit.metadata().map_err(refused)?;
        let version = version(&metadata).map_err(refused)?;
        Ok(Self { info: info.clone(), id, metadata, emit, path: module.name, assembly, version })
    }

    /// Path of its file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Simple name of its assembly.
    #[must_use]
    pub fn assembly(&self) -> &str {
        &self.assembly
    }

    /// Version of its assembly; zeros for a module without manifest.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    pub(super) fn type_props(&self, class: TypeDef) -> Result<TypeDefProps, MetadataError> {
        self.metadata.type_def_props(class).map_err(refused)
    }
}

fn version(metadata: &Metadata) -> corprof::Result<Version> {
    let manifest = metadata.manifest()?;
    let Some(assembly) = manifest.assembly()? else { return Ok(Version::default()) };
    let AssemblyVersion { major, minor, build, revision } =
        manifest.assembly_props(assembly)?.identity.version;
    Ok(Version([major, minor, build, revision]))
}

impl ModuleMetadata for LoadedModule {
    fn assembly_references(&self) -> Vec<(Token, String)> {
        let Ok(manifest) = self.metadata.manifest() else { return Vec::new() };
        let references = manifest.assembly_refs().flatten();
        references
            .filter_map(|reference| {
                Some((reference.into(), manifest.assembly_ref_props(reference).ok()?.identity.name))
            })
            .collect()
    }

    fn define_assembly_reference(
        &mut self,
        reference: &AssemblyReference,
    ) -> Result<Token, MetadataError> {
        let [major, minor, build, revision] = reference.version;
        let identity = AssemblyIdentity {
            name: reference.name.to_owned(),
            version: AssemblyVersion { major, minor, build, revision },
            culture: String::new(),
        };
        let manifest = self.emit.manifest().map_err(refused)?;
        manifest
            .define_assembly_ref(
                &identity,
                reference.public_key_token,
                &[],
                AssemblyFlags::from_bits(0),
            )
            .map(Token::from)
            .map_err(refused)
    }

    fn find_type_reference(&self, scope: Token, name: &str) -> Option<Token> {
        self.metadata.find_type_ref(scope, name).ok()?.map(Token::from)
    }

    fn define_type_reference(&mut self, scope: Token, name: &str) -> Result<Token, MetadataError> {
        self.emit.define_type_ref(scope, name).map(Token::from).map_err(refused)
    }

    fn find_type_definition(&self, name: &str) -> Option<Token> {
        self.metadata.find_type_def(name, None).ok()?.map(Token::from)
    }

    fn find_member_reference(&self, parent: Token, name: &str, signature: &[u8]) -> Option<Token> {
        let mut members = self.metadata.member_refs(parent).flatten();
        members
            .find(|&member| {
                self.metadata.member_ref_signature(member).is_ok_and(|other| other == signature)
                    && self.metadata.name_of(member).is_ok_and(|other| other == name)
            })
            .map(Token::from)
    }

    fn define_member_reference(
        &mut self,
        parent: Token,
        name: &str,
        signature: &[u8],
    ) -> Result<Token, MetadataError> {
        self.emit.define_member_ref(parent, name, signature).map(Token::from).map_err(refused)
    }

    fn find_method_definition(&self, parent: Token, name: &str, signature: &[u8]) -> Option<Token> {
        self.metadata
            .find_method(TypeDef::try_from(parent).ok()?, name, signature)
            .ok()?
            .map(Token::from)
    }

    fn find_field_definition(&self, parent: Token, name: &str) -> Option<Token> {
        self.metadata
            .fields_named(TypeDef::try_from(parent).ok()?, name)
            .ok()?
            .flatten()
            .next()
            .map(Token::from)
    }

    fn type_specification(&mut self, signature: &[u8]) -> Result<Token, MetadataError> {
        self.emit.token_from_type_spec(signature).map(Token::from).map_err(refused)
    }

    fn local_signature(&mut self, signature: &[u8]) -> Result<Token, MetadataError> {
        self.emit.token_from_signature(signature).map(Token::from).map_err(refused)
    }

    fn user_string(&mut self, text: &str) -> Result<Token, MetadataError> {
        self.emit.define_user_string(text).map(|string| Token(string.raw())).map_err(refused)
    }

    fn type_name(&self, token: Token) -> Option<String> {
        match token.kind()? {
            TokenKind::TypeDef => {
                Some(self.metadata.type_def_props(TypeDef::try_from(token).ok()?).ok()?.name)
            }
            TokenKind::TypeRef => {
                Some(self.metadata.type_ref_props(TypeRef::try_from(token).ok()?).ok()?.name)
            }
            _ => None,
        }
    }

    fn is_by_ref_like(&self, token: Token) -> bool {
        is_by_ref_like(&self.info, &self.metadata, token)
    }
}
