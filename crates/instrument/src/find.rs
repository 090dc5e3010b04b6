//! Which methods of a module rules take, and which of those can be instrumented at all.

use crate::Refusal;
use cil::TokenKind;
use corprof::NameResolver;
use corprof::ids::ModuleId;
use corprof::metadata::token::{MemberRef, MethodDef, Token, TypeDef, TypeRef};
use corprof::metadata::{Metadata, MethodAttributes, MethodImplAttributes, MethodProps};
use rules::{MethodFacts, RuleSet, Signature, TypeRules, Version};
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A method that a rule takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its token.
    pub method: MethodDef,
    /// Place of the rule in [`RuleSet::rules`].
    pub rule: usize,
    /// `MoveNext` of its state machine, if it is asynchronous.
    pub machine: Option<MethodDef>,
    /// Whether it is an asynchronous iterator, whose state machine does not run before somebody goes through it.
    pub is_async_iterator: bool,
    /// Why it cannot be instrumented, as far as its metadata tells.
    pub refusal: Option<Refusal>,
}

/// The assembly with the parts that the runtime cannot do without.
const CORE: &str = "System.Private.CoreLib";

/// Deepest nesting of types that is looked into.
const MOST_NESTED: usize = 64;

/// What is looked up once for all methods of a module.
#[derive(Debug)]
pub(crate) struct ModuleFacts {
    assembly: String,
    version: Version,
    /// Types in which others are nested. To look for attributes of each method takes longer than all else; a state machine is nested in
    /// the type of its method.
    enclosing: OnceCell<HashSet<TypeDef>>,
    /// Whether methods can be marked as called directly by native code.
    may_be_direct: OnceCell<bool>,
    /// Full names of types with methods that were [looked at](find_one).
    type_names: RefCell<HashMap<TypeDef, Option<Arc<str>>>>,
}

impl ModuleFacts {
    /// `None` for a module without a manifest.
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        let manifest = metadata.manifest().ok()?;
        let identity = manifest.assembly_props(manifest.assembly().ok()??).ok()?.identity;
        let version = identity.version;
        Some(Self {
            assembly: identity.name,
            version: Version([version.major, version.minor, version.build, version.revision]),
            enclosing: OnceCell::new(),
            may_be_direct: OnceCell::new(),
            type_names: RefCell::default(),
        })
    }

    fn type_name(&self, metadata: &Metadata, type_def: TypeDef) -> Option<Arc<str>> {
        let name = || {
            let mut name = String::new();
            full_name(metadata, type_def, &mut name, MOST_NESTED)?;
            Some(name.into())
        };
        self.type_names.borrow_mut().entry(type_def).or_insert_with(name).clone()
    }

    /// A method, if a rule takes it. `props` and `name` are its own.
    fn found(
        &self,
        names: &NameResolver,
        metadata: &Metadata,
        (types, type_name): (&TypeRules<'_>, &str),
        (module, type_def, method): (ModuleId, TypeDef, MethodDef),
        (props, name): (&MethodProps<'_>, &str),
    ) -> Option<Found> {
        let rule = rule(names, metadata, types, module, (type_def, method), name)?;
        let refusal = match self.assembly == CORE && is_internal(type_name) {
            true => Some(Refusal::RuntimeInternal),
            false => {
                refusal(metadata, || *self.may_be_direct.get_or_init(|| knows(metadata, UNMANAGED)), method, props)
            }
        };
        let may_be_async = self.enclosing.get_or_init(|| enclosing(metadata)).contains(&type_def);
        let machine = may_be_async.then(|| machine(metadata, type_def, method)).flatten();
        let is_async_iterator = may_be_async && machine.is_none() && is_async_iterator(metadata, method);
        Some(Found { method, rule, machine, is_async_iterator, refusal })
    }
}

/// The methods of a module that rules take, in the order of their tokens within each type.
///
/// # Errors
/// The module is gone, or has no metadata.
pub fn find(names: &NameResolver, module: ModuleId, rules: &RuleSet) -> Result<Vec<Found>, Refusal> {
    let metadata = names.metadata(module)?;
    let Some(facts) = ModuleFacts::of(&metadata) else { return Ok(Vec::new()) };
    let wanted = rules.for_assembly(&facts.assembly, facts.version);
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let (mut type_name, mut name) = (String::new(), String::new());
    for type_def in metadata.type_defs() {
        let Ok(type_def) = type_def else { break };
        type_name.clear();
        if full_name(&metadata, type_def, &mut type_name, MOST_NESTED).is_none() {
            continue;
        }
        let types = wanted.for_type(&type_name);
        if types.is_empty() {
            continue;
        }
        for method in metadata.methods(type_def) {
            let Ok(method) = method else { break };
            name.clear();
            let Ok(props) = metadata.method_into(method, &mut name) else { continue };
            let (types, of) = ((&types, &*type_name), (module, type_def, method));
            found.extend(facts.found(names, &metadata, types, of, (&props, &name)));
        }
    }
    Ok(found)
}

/// One method of a module, if a rule takes it.
pub(crate) fn find_one(
    names: &NameResolver,
    facts: &ModuleFacts,
    (module, method): (ModuleId, MethodDef),
    rules: &RuleSet,
) -> Option<Found> {
    let metadata = names.metadata(module).ok()?;
    let wanted = rules.for_assembly(&facts.assembly, facts.version);
    let mut name = String::new();
    let props = metadata.method_into(method, &mut name).ok()?;
    let type_name = facts.type_name(&metadata, props.class)?;
    let types = wanted.for_type(&type_name);
    facts.found(names, &metadata, (&types, &type_name), (module, props.class, method), (&props, &name))
}

/// The name with namespace and enclosing types, as metadata has it.
fn full_name(metadata: &Metadata, type_def: TypeDef, out: &mut String, deepest: usize) -> Option<()> {
    if let Some(enclosing) = metadata.enclosing_type(type_def).ok()? {
        full_name(metadata, enclosing, out, deepest.checked_sub(1)?)?;
        out.push('+');
    }
    metadata.type_def_into(type_def, out).ok()?;
    Some(())
}

/// The rule that takes a method. Signature and attributes are read only where they can make a difference.
fn rule(
    names: &NameResolver,
    metadata: &Metadata,
    types: &TypeRules<'_>,
    module: ModuleId,
    (type_def, method): (TypeDef, MethodDef),
    name: &str,
) -> Option<usize> {
    if !types.may_take(name) {
        return None;
    }
    let parameters = types.needs_signatures().then(|| parameters(names, metadata, module, method)).flatten();
    let texts: Vec<&str> = parameters.iter().flat_map(|(_, texts)| texts.iter().map(String::as_str)).collect();
    let signature = parameters.as_ref().map(|(count, _)| Signature { type_parameters: *count, parameters: &texts });
    let attributes = types.needs_attributes().then(|| attributes(metadata, [type_def.into(), method.into()])).flatten();
    let attributes: Option<Vec<&str>> =
        attributes.as_ref().map(|attributes| attributes.iter().map(String::as_str).collect());
    let facts = MethodFacts { name, signature, attributes: attributes.as_deref() };
    types.for_method(&facts).map(|found| found.index)
}

/// How many type parameters a method has, and the types of its parameters as C# writes them.
pub(crate) fn parameters(
    names: &NameResolver,
    metadata: &Metadata,
    module: ModuleId,
    method: MethodDef,
) -> Option<(u16, Vec<String>)> {
    let text = names.method_def(module, method).ok()?.parameters;
    let generic = metadata.generic_params(method).filter_map(|parameter| parameter.ok()).count();
    Some((u16::try_from(generic).ok()?, split(text.strip_prefix('(')?.strip_suffix(')')?)))
}

/// Parts between commas that stand in no brackets.
fn split(list: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '<' | '[' | '(' => depth += 1,
            '>' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.extend(list.get(start..at).map(|part| part.trim().to_owned()));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(list.get(start..).map(str::trim).filter(|last| !last.is_empty()).map(str::to_owned));
    parts
}

/// Full names of the attributes of these; `None` if one cannot be read.
fn attributes(metadata: &Metadata, owners: [Token; 2]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for owner in owners {
        for attribute in metadata.custom_attributes(Some(owner), None) {
            let constructor = metadata.custom_attribute_props(attribute.ok()?).ok()?.constructor;
            let of = match constructor.kind()? {
                TokenKind::MethodDef => {
                    metadata.method_into(MethodDef::from_raw(constructor.0), &mut String::new()).ok()?.class.into()
                }
                _ => metadata.member_ref_props(MemberRef::from_raw(constructor.0)).ok()?.parent,
            };
            let mut name = String::new();
            match of.kind()? {
                TokenKind::TypeRef => name = metadata.type_ref_props(TypeRef::from_raw(of.0)).ok()?.name,
                TokenKind::TypeDef => full_name(metadata, TypeDef::from_raw(of.0), &mut name, MOST_NESTED)?,
                // A generic attribute: known by no name that could be written.
                _ => continue,
            }
            all.push(name);
        }
    }
    Some(all)
}

/// `MoveNext` of the state machine of an asynchronous method. An attribute of the method names the machine, which is nested in the same type.
fn machine(metadata: &Metadata, type_def: TypeDef, method: MethodDef) -> Option<MethodDef> {
    const ATTRIBUTE: &str = "System.Runtime.CompilerServices.AsyncStateMachineAttribute";
    let blob = metadata.custom_attribute_named(method, ATTRIBUTE).ok()??;
    // Two bytes of prolog, then the full name of the type, behind its length: ECMA-335 II.23.3.
    let (length, text) = match blob.get(2..)? {
        [short @ 0..0x80, text @ ..] => (usize::from(*short), text),
        [high @ 0x80..0xc0, low, text @ ..] => (usize::from(*high & 0x3f) << 8 | usize::from(*low), text),
        _ => return None,
    };
    let name = std::str::from_utf8(text.get(..length)?).ok()?;
    let name = name.split(',').next()?.rsplit('+').next()?.replace('\\', "");
    let machine = metadata.find_type_def(&name, Some(type_def.into())).ok()??;
    metadata.methods_named(machine, "MoveNext").ok()?.next()?.ok()
}

fn is_async_iterator(metadata: &Metadata, method: MethodDef) -> bool {
    const ATTRIBUTE: &str = "System.Runtime.CompilerServices.AsyncIteratorStateMachineAttribute";
    metadata.custom_attribute_named(method, ATTRIBUTE).is_ok_and(|found| found.is_some())
}

/// Types in which others are nested.
fn enclosing(metadata: &Metadata) -> HashSet<TypeDef> {
    metadata.type_defs().filter_map(|nested| metadata.enclosing_type(nested.ok()?).ok()?).collect()
}

/// Whether a type of this name is in the module or referred to from it.
fn knows(metadata: &Metadata, name: &str) -> bool {
    let is_named = |of: TypeRef| metadata.type_ref_props(of).is_ok_and(|props| props.name == name);
    metadata.find_type_def(name, None).is_ok_and(|found| found.is_some())
        || metadata.type_refs().any(|of| of.is_ok_and(is_named))
}

/// What methods have that native code calls directly.
const UNMANAGED: &str = "System.Runtime.InteropServices.UnmanagedCallersOnlyAttribute";

/// Why a method cannot be instrumented, as far as its row in metadata tells. `may_be_direct` is whether its module knows that attribute.
fn refusal(
    metadata: &Metadata,
    may_be_direct: impl Fn() -> bool,
    method: MethodDef,
    &MethodProps { attributes, implementation, code_rva, .. }: &MethodProps<'_>,
) -> Option<Refusal> {
    let has = |flag| implementation.contains(flag);
    let is_il = implementation.bits() & MethodImplAttributes::CODE_TYPE_MASK.bits() == MethodImplAttributes::IL.bits();
    let external =
        attributes.contains(MethodAttributes::ABSTRACT) || attributes.contains(MethodAttributes::PINVOKE_IMPL);
    if external || !is_il || code_rva == 0 || has(MethodImplAttributes::INTERNAL_CALL) {
        return Some(Refusal::NoBody);
    }
    if has(MethodImplAttributes::ASYNC) {
        return Some(Refusal::RuntimeAsync);
    }
    let may_be_direct = attributes.contains(MethodAttributes::STATIC) && may_be_direct();
    if may_be_direct && metadata.custom_attribute_named(method, UNMANAGED).is_ok_and(|found| found.is_some()) {
        return Some(Refusal::CalledByNativeCode);
    }
    None
}

/// Types of the core library whose methods compiled code calls as helpers, or that run while an exception is dispatched or a call is
/// marshalled: what they rely on is between them and the runtime.
fn is_internal(type_name: &str) -> bool {
    let helpers =
        type_name.strip_prefix("System.Runtime.CompilerServices.").is_some_and(|name| name.ends_with("Helpers"));
    let dispatch = ["System.Runtime.EH", "System.Runtime.StackFrameIterator", "System.StubHelpers."];
    helpers || dispatch.iter().any(|start| type_name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_told_apart() {
        assert_eq!(split(""), [""; 0]);
        assert_eq!(split("int"), ["int"]);
        assert_eq!(split("A<int, B<C, D>>, int[,], ref X"), ["A<int, B<C, D>>", "int[,]", "ref X"]);
    }

    #[test]
    fn helpers_of_the_runtime_are_known() {
        assert!(
            is_internal("System.Runtime.CompilerServices.CastHelpers") && is_internal("System.Runtime.EH+RhEHClause")
        );
        assert!(!is_internal("System.Runtime.CompilerServices.Unsafe") && !is_internal("System.String"));
    }
}
