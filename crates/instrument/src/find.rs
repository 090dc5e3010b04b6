//! Which methods of a module rules take, and which of those can be instrumented at all.

use crate::Refusal;
use cil::TokenKind;
use corprof::NameResolver;
use corprof::ids::ModuleId;
use corprof::metadata::token::{MemberRef, MethodDef, Token, TypeDef, TypeRef};
use corprof::metadata::{Metadata, MethodAttributes, MethodImplAttributes, MethodProps};
use rules::{AssemblyRules, MethodFacts, RuleSet, Signature, TypeRules, Version};
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A method that a rule matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its token.
    pub method: MethodDef,
    /// Place of the rule in [`RuleSet::rules`].
    pub rule: usize,
    /// `MoveNext` of its state machine, if it is asynchronous.
    pub machine: Option<MethodDef>,
    /// Whether it is an asynchronous iterator, whose state machine does not run before somebody
    /// goes through it.
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
    metadata: Metadata,
    assembly: String,
    version: Version,
    marked: OnceCell<Marked>,
    /// Full names of types with methods that were [looked at](find_one).
    type_names: RefCell<HashMap<TypeDef, Option<Arc<str>>>>,
}

impl ModuleFacts {
    /// `None` for a module without a manifest.
    pub(crate) fn of(metadata: Metadata) -> Option<Self> {
        let identity = {
            let manifest = metadata.manifest().ok()?;
            manifest.assembly_props(manifest.assembly().ok()??).ok()?.identity
        };
        let version = identity.version;
        Some(Self {
            metadata,
            assembly: identity.name,
            version: Version([version.major, version.minor, version.build, version.revision]),
            marked: OnceCell::new(),
            type_names: RefCell::default(),
        })
    }

    /// What rules may want of it.
    pub(crate) fn wanted<'r>(&self, rules: &'r RuleSet) -> AssemblyRules<'r> {
        rules.for_assembly(&self.assembly, self.version)
    }

    pub(crate) fn marked(&self) -> &Marked {
        self.marked.get_or_init(|| Marked::of(&self.metadata))
    }

    fn type_name(&self, type_def: TypeDef) -> Option<Arc<str>> {
        let name = || {
            let mut name = String::new();
            full_name(&self.metadata, type_def, &mut name, MOST_NESTED)?;
            Some(name.into())
        };
        self.type_names.borrow_mut().entry(type_def).or_insert_with(name).clone()
    }

    /// Describes a method that a rule matches. `props` are its own.
    fn found(
        &self,
        rule: usize,
        type_name: impl FnOnce() -> Option<Arc<str>>,
        method: MethodDef,
        props: &MethodProps<'_>,
    ) -> Option<Found> {
        let marked = self.marked();
        let refusal = match self.assembly == CORE && is_internal(&type_name()?) {
            true => Some(Refusal::RuntimeInternal),
            false => refusal(marked, method, props),
        };
        let is_async = marked.asynchronous.contains(&method);
        let machine = is_async.then(|| machine(&self.metadata, props.class, method)).flatten();
        let is_async_iterator = machine.is_none() && marked.iterators.contains(&method);
        Some(Found { method, rule, machine, is_async_iterator, refusal })
    }
}

/// The methods of a module that rules take, in the order of their tokens within each type.
///
/// # Errors
/// The module is gone, or has no metadata.
pub fn find(
    names: &NameResolver,
    module: ModuleId,
    rules: &RuleSet,
) -> Result<Vec<Found>, Refusal> {
    let Some(facts) = ModuleFacts::of(names.metadata(module)?) else { return Ok(Vec::new()) };
    let (metadata, wanted) = (&facts.metadata, facts.wanted(rules));
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let (mut type_name, mut name) = (String::new(), String::new());
    for type_def in metadata.type_defs() {
        let Ok(type_def) = type_def else { break };
        type_name.clear();
        if full_name(metadata, type_def, &mut type_name, MOST_NESTED).is_none() {
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
            let rule = rule(names, metadata, &types, module, (type_def, method), &name);
            found.extend(
                rule.and_then(|rule| {
                    facts.found(rule, || Some((&*type_name).into()), method, &props)
                }),
            );
        }
    }
    Ok(found)
}

/// One method of a module, if a rule matches it. `for_all` is [the rule](AssemblyRules::for_all)
/// that matches all of the module.
pub(crate) fn find_one(
    names: &NameResolver,
    facts: &ModuleFacts,
    for_all: Option<usize>,
    (module, method): (ModuleId, MethodDef),
    rules: &RuleSet,
) -> Option<Found> {
    let metadata = &facts.metadata;
    if let Some(rule) = for_all {
        let props = metadata.method_unnamed(method).ok()?;
        return facts.found(rule, || facts.type_name(props.class), method, &props);
    }
    let mut name = String::new();
    let props = metadata.method_into(method, &mut name).ok()?;
    let type_name = facts.type_name(props.class)?;
    let wanted = facts.wanted(rules);
    let rule =
        rule(names, metadata, &wanted.for_type(&type_name), module, (props.class, method), &name)?;
    facts.found(rule, || Some(type_name), method, &props)
}

/// The name with namespace and enclosing types, as metadata has it.
fn full_name(
    metadata: &Metadata,
    type_def: TypeDef,
    out: &mut String,
    deepest: usize,
) -> Option<()> {
    if let Some(enclosing) = metadata.enclosing_type(type_def).ok()? {
        full_name(metadata, enclosing, out, deepest.checked_sub(1)?)?;
        out.push('+');
    }
    metadata.type_def_into(type_def, out).ok()?;
    Some(())
}

/// The rule that takes a method. Signature and attributes are read only where they can make a
/// difference.
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
    let parameters =
        types.needs_signatures().then(|| parameters(names, metadata, module, method)).flatten();
    let texts: Vec<&str> =
        parameters.iter().flat_map(|(_, texts)| texts.iter().map(String::as_str)).collect();
    let signature = parameters
        .as_ref()
        .map(|(count, _)| Signature { type_parameters: *count, parameters: &texts });
    let attributes = types
        .needs_attributes()
        .then(|| attributes(metadata, [type_def.into(), method.into()]))
        .flatten();
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
    parts.extend(
        list.get(start..).map(str::trim).filter(|last| !last.is_empty()).map(str::to_owned),
    );
    parts
}

/// Full names of the attributes of these; `None` if one cannot be read.
fn attributes(metadata: &Metadata, owners: [Token; 2]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for owner in owners {
        for attribute in metadata.custom_attributes(Some(owner), None) {
            let constructor = metadata.custom_attribute_props(attribute.ok()?).ok()?.constructor;
            let of = match constructor.kind()? {
                TokenKind::MethodDef => metadata
                    .method_into(MethodDef::from_raw(constructor.0), &mut String::new())
                    .ok()?
                    .class
                    .into(),
                _ => metadata.member_ref_props(MemberRef::from_raw(constructor.0)).ok()?.parent,
            };
            let mut name = String::new();
            match of.kind()? {
                TokenKind::TypeRef => {
                    name = metadata.type_ref_props(TypeRef::from_raw(of.0)).ok()?.name
                }
                TokenKind::TypeDef => {
                    full_name(metadata, TypeDef::from_raw(of.0), &mut name, MOST_NESTED)?
                }
                // A generic attribute: known by no name that could be written.
                _ => continue,
            }
            all.push(name);
        }
    }
    Some(all)
}

/// Methods with the attributes that matter here. They are looked for once: to ask each method for
/// its attributes takes longer than all else.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    /// Those that have a [state machine](machine).
    asynchronous: HashSet<MethodDef>,
    /// Those whose state machine does not run before somebody goes through it.
    iterators: HashSet<MethodDef>,
    /// Those that native code calls directly.
    direct: HashSet<MethodDef>,
}

impl Marked {
    fn of(metadata: &Metadata) -> Self {
        let mut marked = Self::default();
        for type_ref in metadata.type_refs().filter_map(|of| of.ok()) {
            let methods =
                metadata.type_ref_props(type_ref).ok().and_then(|props| marked.by(&props.name));
            if let Some(methods) = methods {
                let constructors =
                    metadata.member_refs(type_ref).filter_map(|of| Some(of.ok()?.into()));
                methods.extend(constructors.flat_map(|constructor| owners(metadata, constructor)));
            }
        }
        // The core library has the types themselves.
        for name in [MACHINE, ITERATOR, UNMANAGED] {
            let type_def = metadata.find_type_def(name, None).ok().flatten();
            if let (Some(type_def), Some(methods)) = (type_def, marked.by(name)) {
                let constructors = metadata.methods_named(type_def, ".ctor").into_iter().flatten();
                let constructors = constructors.filter_map(|of| Some(of.ok()?.into()));
                methods.extend(constructors.flat_map(|constructor| owners(metadata, constructor)));
            }
        }
        marked
    }

    fn by(&mut self, name: &str) -> Option<&mut HashSet<MethodDef>> {
        match name {
            MACHINE => Some(&mut self.asynchronous),
            ITERATOR => Some(&mut self.iterators),
            UNMANAGED => Some(&mut self.direct),
            _ => None,
        }
    }
}

const MACHINE: &str = "System.Runtime.CompilerServices.AsyncStateMachineAttribute";
const ITERATOR: &str = "System.Runtime.CompilerServices.AsyncIteratorStateMachineAttribute";
const UNMANAGED: &str = "System.Runtime.InteropServices.UnmanagedCallersOnlyAttribute";

/// Methods with an attribute that this constructor has made.
fn owners(metadata: &Metadata, constructor: Token) -> impl Iterator<Item = MethodDef> {
    let attributes = metadata.custom_attributes(None, Some(constructor));
    attributes.filter_map(move |attribute| {
        let props = metadata.custom_attribute_props(attribute.ok()?).ok()?;
        // The runtime also gives those of another constructor whose token has the same row.
        (props.constructor == constructor).then(|| MethodDef::try_from(props.owner).ok()).flatten()
    })
}

/// `MoveNext` of the state machine of an asynchronous method. An attribute of the method names the
/// machine, which is nested in the same type.
fn machine(metadata: &Metadata, type_def: TypeDef, method: MethodDef) -> Option<MethodDef> {
    let blob = metadata.custom_attribute_named(method, MACHINE).ok()??;
    // Two bytes of prolog, then the full name of the type, behind its length: ECMA-335 II.23.3.
    let (length, text) = match blob.get(2..)? {
        [short @ 0..0x80, text @ ..] => (usize::from(*short), text),
        [high @ 0x80..0xc0, low, text @ ..] => {
            (usize::from(*high & 0x3f) << 8 | usize::from(*low), text)
        }
        _ => return None,
    };
    let name = std::str::from_utf8(text.get(..length)?).ok()?;
    let name = name.split(',').next()?.rsplit('+').next()?.replace('\\', "");
    let machine = metadata.find_type_def(&name, Some(type_def.into())).ok()??;
    metadata.methods_named(machine, "MoveNext").ok()?.next()?.ok()
}

/// Why a method cannot be instrumented, as far as its row in metadata tells.
fn refusal(
    marked: &Marked,
    method: MethodDef,
    &MethodProps { attributes, implementation, code_rva, .. }: &MethodProps<'_>,
) -> Option<Refusal> {
    let has = |flag| implementation.contains(flag);
    let is_il = implementation.bits() & MethodImplAttributes::CODE_TYPE_MASK.bits()
        == MethodImplAttributes::IL.bits();
    let external = attributes.contains(MethodAttributes::ABSTRACT)
        || attributes.contains(MethodAttributes::PINVOKE_IMPL);
    if external || !is_il || code_rva == 0 || has(MethodImplAttributes::INTERNAL_CALL) {
        return Some(Refusal::NoBody);
    }
    if has(MethodImplAttributes::ASYNC) {
        return Some(Refusal::RuntimeAsync);
    }
    marked.direct.contains(&method).then_some(Refusal::CalledByNativeCode)
}

/// Types of the core library whose methods compiled code calls as helpers, or that run while an
/// exception is dispatched or a call is marshalled: what they rely on is between them and the
/// runtime.
fn is_internal(type_name: &str) -> bool {
    let helpers = type_name
        .strip_prefix("System.Runtime.CompilerServices.")
        .is_some_and(|name| name.ends_with("Helpers"));
    let dispatch =
        ["System.Runtime.EH", "System.Runtime.StackFrameIterator", "System.StubHelpers."];
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
            is_internal("System.Runtime.CompilerServices.CastHelpers")
                && is_internal("System.Runtime.EH+RhEHClause")
        );
        assert!(
            !is_internal("System.Runtime.CompilerServices.Unsafe") && !is_internal("System.String")
        );
    }
}
