//! Finds the methods of a module that are instrumented.

use corprof::metadata::{Metadata, MethodDef, Token, TypeDef};
use newrelic_compat::attributes::{TRACE, TRANSACTION};
use newrelic_compat::points::Points;
use newrelic_compat::rewrite::helpers::HELPER_TYPE;
use newrelic_compat::rewrite::{API_TYPE, is_api_method};
use std::collections::BTreeSet;

/// A type by its full name, with `+` between a type and those in it.
pub fn class(metadata: &Metadata, name: &str) -> Option<TypeDef> {
    let mut found = None;
    for part in name.split('+') {
        found = Some(metadata.find_type_def(part, found.map(TypeDef::into)).ok()??);
    }
    found
}

/// All methods of a class with a name.
pub fn methods(metadata: &Metadata, class: TypeDef, name: &str) -> Vec<MethodDef> {
    metadata.methods_named(class, name).into_iter().flatten().flatten().collect()
}

/// The methods of an assembly that points name. `nested` says whether types in other types are
/// looked at. Gives also the classes that are not there.
pub fn by_points(
    metadata: &Metadata,
    assembly: &str,
    points: &Points,
    nested: bool,
) -> (BTreeSet<MethodDef>, Vec<String>) {
    let (mut found, mut missing) = (BTreeSet::new(), Vec::new());
    for (name, method) in points.methods_of(assembly) {
        let is_looked_for = nested || !name.contains('+');
        match is_looked_for.then(|| class(metadata, name)).flatten() {
            Some(class) => found.extend(methods(metadata, class, method)),
            None => missing.push(name.to_owned()),
        }
    }
    missing.sort();
    missing.dedup();
    (found, missing)
}

/// The methods that ask for instrumentation by attributes.
pub fn by_attributes(metadata: &Metadata) -> BTreeSet<MethodDef> {
    let mut found = BTreeSet::new();
    for constructor in constructors(metadata) {
        for attribute in metadata.custom_attributes(None, Some(constructor)).flatten() {
            let owner = metadata.custom_attribute_props(attribute).map(|props| props.owner);
            found.extend(owner.ok().and_then(|owner| MethodDef::try_from(owner).ok()));
        }
    }
    found
}

/// The constructors of the attributes that ask for instrumentation.
fn constructors(metadata: &Metadata) -> Vec<Token> {
    let is_attribute = |name: &str| [TRACE, TRANSACTION].contains(&name);
    let mut found = Vec::new();
    for reference in metadata.type_refs().flatten() {
        // The name alone costs little, and most differ.
        let may_be = metadata.name_of(reference).is_ok_and(|name| {
            name.ends_with("TraceAttribute") || name.ends_with("TransactionAttribute")
        });
        if may_be && metadata.type_ref_props(reference).is_ok_and(|props| is_attribute(&props.name))
        {
            found.extend(metadata.member_refs(reference).flatten().map(Token::from));
        }
    }
    for name in [TRACE, TRANSACTION] {
        if let Ok(Some(class)) = metadata.find_type_def(name, None) {
            found.extend(methods(metadata, class, ".ctor").into_iter().map(Token::from));
        }
    }
    found
}

/// The methods of the type that has the helpers.
pub fn helpers(metadata: &Metadata) -> BTreeSet<MethodDef> {
    class(metadata, HELPER_TYPE)
        .into_iter()
        .flat_map(|class| metadata.methods(class).flatten())
        .collect()
}

/// The methods of the API that call the managed agent.
pub fn of_api(metadata: &Metadata) -> BTreeSet<MethodDef> {
    let Some(class) = class(metadata, API_TYPE) else { return BTreeSet::new() };
    let is_one = |method: &MethodDef| {
        metadata.name_of(*method).is_ok_and(|name| is_api_method(API_TYPE, name))
    };
    metadata.methods(class).flatten().filter(is_one).collect()
}
