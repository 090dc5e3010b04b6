//! Attributes that ask for the instrumentation of methods, or forbid it.

use super::owners::Owners;
use crate::newrelic::dry_run::type_name;
use metadata::{Metadata, Row, column, table};
use newrelic_compat::attributes::{ASYNC_STATE_MACHINE, TRACE, TRANSACTION};
use std::collections::{HashMap, HashSet};

/// Attributes of a method that count.
#[derive(Clone, Debug, Default)]
pub(super) struct MethodAttributes {
    /// `[Transaction]` and `[Trace]`: names with their values.
    pub(super) values: Vec<(String, Vec<u8>)>,
    pub(super) is_async: bool,
}

impl MethodAttributes {
    pub(super) fn asks(&self) -> bool {
        !self.values.is_empty()
    }
}

/// Attributes of an assembly's methods and types that count.
pub(super) struct Attributes {
    pub(super) methods: HashMap<u32, MethodAttributes>,
    /// `ref struct`s, by row.
    pub(super) by_ref_like: HashSet<u32>,
    /// Whether a method asks for instrumentation by an attribute.
    pub(super) any_method: bool,
}

const BY_REF_LIKE: &str = "System.Runtime.CompilerServices.IsByRefLikeAttribute";

impl Attributes {
    /// Reads them. `ask` says whether methods of this assembly may ask for instrumentation.
    pub(super) fn of(metadata: &Metadata<'_>, owners: &Owners, ask: bool) -> Self {
        let mut found =
            Self { methods: HashMap::new(), by_ref_like: HashSet::new(), any_method: false };
        let class_of = |constructor: Row| match constructor.table {
            table::MEMBER_REF => {
                metadata.reference(table::MEMBER_REF, constructor.row, column::MEMBER_REF_PARENT)
            }
            table::METHOD_DEF => {
                Some(Row { table: table::TYPE_DEF, row: *owners.of_method.get(&constructor.row)? })
            }
            _ => None,
        };
        let mut names: HashMap<Row, Option<&'static str>> = HashMap::new();
        for row in 1..=metadata.rows(table::CUSTOM_ATTRIBUTE) {
            let of = |column| metadata.reference(table::CUSTOM_ATTRIBUTE, row, column);
            let (Some(parent), Some(constructor)) =
                (of(column::CUSTOM_ATTRIBUTE_PARENT), of(column::CUSTOM_ATTRIBUTE_TYPE))
            else {
                continue;
            };
            let name = names.entry(constructor).or_insert_with(|| {
                let name = type_name(metadata, class_of(constructor)?.token()?)?;
                [TRACE, TRANSACTION, ASYNC_STATE_MACHINE, BY_REF_LIKE]
                    .into_iter()
                    .find(|known| *known == name)
            });
            match (*name, parent.table) {
                (Some(BY_REF_LIKE), table::TYPE_DEF) => drop(found.by_ref_like.insert(parent.row)),
                (Some(ASYNC_STATE_MACHINE), table::METHOD_DEF) => {
                    found.methods.entry(parent.row).or_default().is_async = true;
                }
                (Some(name @ (TRACE | TRANSACTION)), table::METHOD_DEF) if ask => {
                    let value = metadata.blob_of(
                        table::CUSTOM_ATTRIBUTE,
                        row,
                        column::CUSTOM_ATTRIBUTE_VALUE,
                    );
                    let method = found.methods.entry(parent.row).or_default();
                    method.values.push((name.to_owned(), value.unwrap_or_default().to_vec()));
                    found.any_method = true;
                }
                _ => {}
            }
        }
        found
    }
}
