//! What tokens stand for, in the syntax of ILAsm. Source: ECMA-335 II.5 to II.7 and II.15.

use crate::{Assembly, Metadata, Row, column, table};
use cil::{
    MethodSig, Names, Token, TypeSig, decode_field, decode_method_spec, method_text, nested,
    quoted, type_text, types_text,
};
use std::cell::Cell;

/// How deep constructed types may refer to each other. Nothing keeps bad metadata from doing so in
/// a circle.
const DEEPEST: u32 = 8;
/// Most characters of the names inside one name.
const LONGEST: usize = 1 << 16;
/// Signatures that are longer are no name. Real ones have some hundred bytes.
const LONGEST_SIGNATURE: usize = 1 << 14;
/// Stands for what is too deep or too long.
const CUT: &str = "…";

/// The names of one assembly.
pub(crate) struct Naming<'b, 'a> {
    assembly: &'b Assembly<'a>,
    depth: Cell<u32>,
    /// Characters of all names inside the one that is asked for.
    written: Cell<usize>,
}

impl<'b, 'a> Naming<'b, 'a> {
    pub const fn of(assembly: &'b Assembly<'a>) -> Self {
        Self { assembly, depth: Cell::new(0), written: Cell::new(0) }
    }

    const fn metadata(&self) -> &'b Metadata<'a> {
        self.assembly.metadata()
    }

    fn blob(&self, table: usize, row: u32, column: usize) -> Option<&'b [u8]> {
        self.metadata().blob_of(table, row, column).filter(|blob| blob.len() <= LONGEST_SIGNATURE)
    }

    pub fn method_sig(&self, blob: &[u8]) -> Option<MethodSig> {
        (blob.len() <= LONGEST_SIGNATURE).then(|| MethodSig::decode(blob).ok())?
    }

    /// A method or field of this module, with its type.
    pub fn member(&self, member: Row, name: &str) -> String {
        let owner = self.assembly.owner(member).and_then(|owner| self.metadata().type_parts(owner));
        match owner {
            // What belongs to no type belongs to this one.
            Some(parts) if parts != ["<Module>"] => format!("{}::{}", nested(&parts), quoted(name)),
            _ => quoted(name),
        }
    }

    /// Names of the generic parameters of a type or method. The table is sorted by their owners.
    pub fn generic_parameters(&self, owner: Row) -> Vec<String> {
        const TABLE: usize = table::GENERIC_PARAM;
        let metadata = self.metadata();
        let Some(coded) = Metadata::coded(TABLE, column::GENERIC_PARAM_OWNER, owner) else {
            return Vec::new();
        };
        let Some(first) = metadata.first_of(TABLE, column::GENERIC_PARAM_OWNER, coded) else {
            return Vec::new();
        };
        (first..=metadata.rows(TABLE))
            .take_while(|&row| metadata.get(TABLE, row, column::GENERIC_PARAM_OWNER) == Some(coded))
            .map(|row| {
                quoted(&metadata.name(TABLE, row, column::GENERIC_PARAM_NAME).unwrap_or_default())
            })
            .collect()
    }

    fn type_ref(&self, row: u32) -> Option<String> {
        let (parts, scope) = self.metadata().reference_parts(row)?;
        let place = match scope {
            Some(Row { table: table::ASSEMBLY_REF, row }) => {
                format!(
                    "[{}]",
                    quoted(&self.metadata().name(
                        table::ASSEMBLY_REF,
                        row,
                        column::ASSEMBLY_REF_NAME
                    )?)
                )
            }
            Some(Row { table: table::MODULE_REF, row }) => self.module_ref(row)?,
            _ => String::new(),
        };
        Some(place + &nested(&parts))
    }

    fn module_ref(&self, row: u32) -> Option<String> {
        let name = self.metadata().name(table::MODULE_REF, row, column::MODULE_REF_NAME)?;
        Some(format!("[.module {}]", quoted(&name)))
    }

    fn type_spec(&self, row: u32) -> Option<String> {
        let blob = self.blob(table::TYPE_SPEC, row, column::SIGNATURE)?;
        Some(type_text(&TypeSig::decode(blob).ok()?, self))
    }

    fn field(&self, row: u32) -> Option<String> {
        let name = self.metadata().name(table::FIELD, row, column::FIELD_NAME)?;
        let field = decode_field(self.blob(table::FIELD, row, column::FIELD_SIGNATURE)?).ok()?;
        Some(format!(
            "{} {}",
            type_text(&field, self),
            self.member(Row { table: table::FIELD, row }, &name)
        ))
    }

    /// A method of this module or elsewhere, with the arguments of its instantiation.
    fn method(&self, method: Row, arguments: &str) -> Option<String> {
        match method.table {
            table::METHOD_DEF => {
                let name =
                    self.metadata().name(table::METHOD_DEF, method.row, column::METHOD_NAME)?;
                let blob = self.blob(table::METHOD_DEF, method.row, column::METHOD_SIGNATURE)?;
                let called = self.member(method, &name) + arguments;
                Some(method_text(&self.method_sig(blob)?, &called, self))
            }
            table::MEMBER_REF => self.member_ref(method.row, arguments),
            _ => None,
        }
    }

    fn member_ref(&self, row: u32, arguments: &str) -> Option<String> {
        const FIELD: u8 = 6;
        let metadata = self.metadata();
        let name = quoted(&metadata.name(table::MEMBER_REF, row, column::MEMBER_REF_NAME)?);
        let parent = metadata.reference(table::MEMBER_REF, row, column::MEMBER_REF_PARENT)?;
        let called = match parent.table {
            table::MODULE_REF => format!("{}::{name}", self.module_ref(parent.row)?),
            // A call with variable arguments of a method of this module.
            table::METHOD_DEF => {
                self.member(parent, &metadata.name(parent.table, parent.row, column::METHOD_NAME)?)
            }
            _ => format!("{}::{name}", self.name(parent.token()?)?),
        };
        let blob = self.blob(table::MEMBER_REF, row, column::MEMBER_REF_SIGNATURE)?;
        if blob.first()? & 0xf == FIELD {
            return Some(format!("{} {called}", type_text(&decode_field(blob).ok()?, self)));
        }
        Some(method_text(&self.method_sig(blob)?, &(called + arguments), self))
    }

    fn method_spec(&self, row: u32) -> Option<String> {
        let arguments = decode_method_spec(self.blob(
            table::METHOD_SPEC,
            row,
            column::METHOD_SPEC_ARGUMENTS,
        )?)
        .ok()?;
        let method =
            self.metadata().reference(table::METHOD_SPEC, row, column::METHOD_SPEC_METHOD)?;
        self.method(method, &format!("<{}>", types_text(&arguments, self)))
    }

    fn text(&self, Row { table, row }: Row) -> Option<String> {
        match table {
            table::TYPE_DEF => Some(nested(&self.metadata().type_parts(row)?)),
            table::TYPE_REF => self.type_ref(row),
            table::TYPE_SPEC => self.type_spec(row),
            table::FIELD => self.field(row),
            table::METHOD_DEF | table::MEMBER_REF => self.method(Row { table, row }, ""),
            table::METHOD_SPEC => self.method_spec(row),
            table::STAND_ALONE_SIG => {
                let blob = self.blob(table, row, column::SIGNATURE)?;
                Some(method_text(&self.method_sig(blob)?, "", self))
            }
            _ => None,
        }
    }
}

impl Names for Naming<'_, '_> {
    fn name(&self, token: Token) -> Option<String> {
        let row = Row::of(token)?;
        let depth = self.depth.get();
        if depth == 0 {
            self.written.set(0);
        }
        if depth >= DEEPEST || self.written.get() >= LONGEST {
            return Some(CUT.to_owned());
        }
        self.depth.set(depth + 1);
        let text = self.text(row);
        self.depth.set(depth);
        self.written.set(self.written.get() + text.as_ref().map_or(0, String::len));
        text
    }

    fn literal(&self, token: Token) -> Option<Vec<u16>> {
        self.metadata().literal(token)
    }
}
