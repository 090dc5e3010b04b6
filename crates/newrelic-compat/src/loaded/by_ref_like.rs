//! Whether a type is a `ref struct`, wherever it is defined.

use cil::{Token, TokenKind};
use corprof::ProfilerInfo;
use corprof::metadata::{AssemblyRef, Metadata, TypeDef, TypeRef};

/// The attribute that compilers give to a `ref struct`.
const ATTRIBUTE: &str = "System.Runtime.CompilerServices.IsByRefLikeAttribute";
/// Most types around a type, and most assemblies that forward a type from one to the next.
const LIMIT: usize = 16;

/// Whether a `TypeDef` or `TypeRef` is a `ref struct`.
///
/// A type that no loaded module has counts as one: a value that is not boxed is missing for the
/// agent, but a `ref struct` that is boxed makes the method invalid.
pub(super) fn is_by_ref_like(info: &ProfilerInfo, metadata: &Metadata, token: Token) -> bool {
    match token.kind() {
        Some(TokenKind::TypeDef) => is_marked(metadata, token),
        Some(TokenKind::TypeRef) => Reference::read(metadata, token)
            .and_then(|reference| reference.resolve(info))
            .is_none_or(|(metadata, class)| is_marked(&metadata, class.into())),
        _ => false,
    }
}

pub(super) fn is_marked(metadata: &Metadata, class: Token) -> bool {
    metadata.custom_attribute_named(class, ATTRIBUTE).is_ok_and(|value| value.is_some())
}

/// A type of another assembly by its names.
struct Reference {
    assembly: String,
    /// The type and those around it, outermost first.
    names: Vec<String>,
}

impl Reference {
    fn read(metadata: &Metadata, token: Token) -> Option<Self> {
        let mut names = Vec::new();
        let mut scope = token;
        while let Ok(class) = TypeRef::try_from(scope) {
            let props = metadata.type_ref_props(class).ok()?;
            names.insert(0, props.name);
            scope = props.scope.filter(|_| names.len() <= LIMIT)?;
        }
        let manifest = metadata.manifest().ok()?;
        let assembly =
            manifest.assembly_ref_props(AssemblyRef::try_from(scope).ok()?).ok()?.identity.name;
        Some(Self { assembly, names })
    }

    /// The type in the module that defines it. Assemblies that only forward it are followed.
    fn resolve(&self, info: &ProfilerInfo) -> Option<(Metadata, TypeDef)> {
        let mut assembly = self.assembly.clone();
        for _ in 0..LIMIT {
            let mut forwarded = None;
            for metadata in modules_of(info, &assembly) {
                if let Some(class) = self.find(&metadata) {
                    return Some((metadata, class));
                }
                forwarded = forwarded.or_else(|| self.forwarded(&metadata));
            }
            assembly = forwarded?;
        }
        None
    }

    fn find(&self, metadata: &Metadata) -> Option<TypeDef> {
        let mut found: Option<TypeDef> = None;
        for name in &self.names {
            found = Some(metadata.find_type_def(name, found.map(Token::from)).ok()??);
        }
        found
    }

    /// The assembly that another one forwards the type to.
    fn forwarded(&self, metadata: &Metadata) -> Option<String> {
        let manifest = metadata.manifest().ok()?;
        let exported = manifest.find_exported_type(self.names.first()?, None).ok()??;
        let to = manifest.exported_type_props(exported).ok()?.implementation;
        Some(manifest.assembly_ref_props(AssemblyRef::try_from(to).ok()?).ok()?.identity.name)
    }
}

/// The metadata of all loaded modules of assemblies with this name.
fn modules_of(info: &ProfilerInfo, assembly: &str) -> impl Iterator<Item = Metadata> {
    info.modules().into_iter().flatten().flatten().filter_map(move |module| {
        let owner = info.module_info(module).ok()?.assembly?;
        let is_wanted = info.assembly_info(owner).ok()?.name == assembly;
        is_wanted.then(|| info.module_metadata(module).ok()).flatten()
    })
}
