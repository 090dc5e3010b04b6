//! Which methods a type has, and which types are around it.

use crate::newrelic::dry_run::type_name;
use cil::MethodSig;
use metadata::{Metadata, Row, column, table};
use newrelic_compat::signature_text;
use std::collections::HashMap;

/// Most types around a type.
const DEEPEST: usize = 64;

/// Which methods belong to which type, by rows.
pub(super) struct Owners {
    pub(super) of_method: HashMap<u32, u32>,
    by_class: HashMap<u32, Vec<u32>>,
}

impl Owners {
    pub(super) fn of(metadata: &Metadata<'_>) -> Self {
        let mut owners = Self { of_method: HashMap::new(), by_class: HashMap::new() };
        // In good metadata no method has two owners. In bad ones every type could claim all of
        // them.
        let mut claims = metadata.rows(table::METHOD_DEF) as usize;
        for class in 1..=metadata.rows(table::TYPE_DEF) {
            for method in
                metadata.members(table::TYPE_DEF, class, column::TYPE_METHODS).take(claims)
            {
                claims -= 1;
                owners.of_method.insert(method, class);
                owners.by_class.entry(class).or_default().push(method);
            }
        }
        owners
    }

    /// The methods of a type whose names fit.
    pub(super) fn methods_of(
        &self,
        metadata: &Metadata<'_>,
        class: u32,
        fits: impl Fn(&str) -> bool,
    ) -> Vec<u32> {
        let name = |method: u32| metadata.name(table::METHOD_DEF, method, column::METHOD_NAME);
        let methods = self.by_class.get(&class).into_iter().flatten().copied();
        methods.filter(|&method| name(method).is_some_and(|name| fits(&name))).collect()
    }
}

/// Text of the parameters of a method.
pub(super) fn parameters(metadata: &Metadata<'_>, method: u32) -> Option<String> {
    let blob = metadata.blob_of(table::METHOD_DEF, method, column::METHOD_SIGNATURE)?;
    signature_text::parameters(&MethodSig::decode(blob).ok()?, &|token| type_name(metadata, token))
        .ok()
}

/// Which types there are.
pub(super) struct Types {
    pub(super) by_name: HashMap<String, u32>,
    /// The type around a type.
    outer: HashMap<u32, u32>,
    /// How many generic parameters a type has.
    pub(super) generic: HashMap<u32, u32>,
}

impl Types {
    pub(super) fn of(metadata: &Metadata<'_>) -> Self {
        let outer = (1..=metadata.rows(table::NESTED_CLASS)).filter_map(|row| {
            let of = |column| metadata.get(table::NESTED_CLASS, row, column);
            Some((of(column::NESTED_INNER)?, of(column::NESTED_OUTER)?))
        });
        let mut by_name = HashMap::new();
        for row in 1..=metadata.rows(table::TYPE_DEF) {
            if let Some(name) = metadata.type_name(row, '+') {
                by_name.entry(name).or_insert(row);
            }
        }
        let mut generic: HashMap<u32, u32> = HashMap::new();
        for row in 1..=metadata.rows(table::GENERIC_PARAM) {
            let owner = metadata.reference(table::GENERIC_PARAM, row, column::GENERIC_PARAM_OWNER);
            if let Some(Row { table: table::TYPE_DEF, row }) = owner {
                *generic.entry(row).or_default() += 1;
            }
        }
        Self { by_name, outer: outer.collect(), generic }
    }

    /// The type that is in no other, around a type.
    pub(super) fn outermost(&self, class: u32) -> u32 {
        let mut class = class;
        for _ in 0..DEEPEST {
            match self.outer.get(&class) {
                Some(&outer) => class = outer,
                None => break,
            }
        }
        class
    }
}
