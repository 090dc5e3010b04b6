//! Static fields that refer to objects.
//!
//! The runtime keeps static fields of reference types in arrays of objects, which handles hold and
//! which never move. A heap snapshot records where each element of such an array is
//! ([`StaticArrays`]). When the runtime has resumed, the agent asks where the static fields of
//! loaded types are ([`find`]): a field is the element at its address. So nothing has to be asked
//! for while the runtime is suspended, and a field that changes meanwhile is named all the same.
//!
//! Only what does no harm is asked:
//!
//! - A type is loaded if one of its methods is known by its token (`GetFunctionFromToken`, a lookup
//!   in a table of the module that takes no lock). `GetClassFromToken` would load it.
//! - The runtime gives an address (`GetAppDomainStaticAddress`) only once the type is initialized.
//!   It initializes nothing. It ignores generic arguments, so generic types are left out.
//! - Modules that can be unloaded are left out: their fields go with them.
//! - A field that Edit and Continue has added has no place before it is used, and asking for its
//!   address would make one. So nothing is asked where code may be edited
//!   ([`crate::os::editing::may_be_edited`]).

use crate::engines::heap::object_fields::kind;
use crate::engines::snapshots::Ids;
use crate::host::runtime::Runtime;
use crate::os::clock;
use cil::TypeSig;
use com::codes::CORPROF_E_FUNCTION_IS_PARAMETERIZED;
use corprof::ObjectId;
use corprof::abi::COR_PRF_MODULE_FLAGS;
use corprof::ids::{AppDomainId, ClassId, ModuleId, RawObjectId};
use corprof::info::Error;
use corprof::metadata::FieldAttributes;
use corprof::metadata::MetadataTables;
use corprof::metadata::token::{FieldDef, MethodDef, TypeDef};
use corprof::signature::decode_field;
use std::ops::Range;
use std::sync::Arc;
use wire::{FieldKind, Nanos, StaticField};

/// Slots for addresses of objects that handles hold.
const HELD: usize = 64 << 10;
/// Most arrays whose elements are recorded, and most elements of all of them.
const MOST_ARRAYS: usize = 4096;
const MOST_ELEMENTS: usize = 1 << 20;
/// Bytes of an array of references but for its elements: header, class and length.
const ARRAY: usize = 24;
/// Where the length stands, and where the elements begin, from the address of the array.
const LENGTH: usize = 8;
const ELEMENTS: usize = 16;

/// Arrays of references that handles hold, as a snapshot meets them.
pub struct StaticArrays {
    held: Ids,
    /// Where the elements of those that were recorded are.
    arrays: Vec<Range<u64>>,
    elements: usize,
}

impl Default for StaticArrays {
    /// None so far.
    fn default() -> Self {
        Self { held: Ids::new(HELD), arrays: Vec::with_capacity(MOST_ARRAYS), elements: 0 }
    }
}

impl StaticArrays {
    /// Bytes that this holds.
    pub fn memory(&self) -> usize {
        self.held.memory() + self.arrays.capacity() * size_of::<Range<u64>>()
    }

    /// A handle holds this object.
    pub fn held(&mut self, object: RawObjectId) {
        self.held.insert(object.0 as u64);
    }

    /// The elements of an object of `size` bytes, if it is an array of references that a handle
    /// holds, each with its address. `references` are those of the object, in their order, as the
    /// runtime reports them. Nothing is taken for an array that does not have exactly these.
    ///
    /// # Safety
    /// The object has `size` bytes with its header, and stays what and where it is for as long as
    /// the result is used.
    pub unsafe fn elements<'o>(
        &mut self,
        object: ObjectId<'o>,
        size: usize,
        references: &[RawObjectId],
    ) -> Option<impl Iterator<Item = (u64, u64)> + use<'o>> {
        let bytes = size.checked_sub(ARRAY).filter(|bytes| *bytes > 0 && bytes % 8 == 0)?;
        let (start, length) = (object.address(), bytes / 8);
        // SAFETY: the object has at least as many bytes as an array without elements, of which the
        // last but one word of its head is the length of an array, and may hold any bits.
        let written = unsafe { ((start + LENGTH) as *const u32).read_unaligned() };
        if written as usize != length || !self.held.contains(start as u64) {
            return None;
        }
        if self.arrays.len() >= MOST_ARRAYS || self.elements + length > MOST_ELEMENTS {
            return None;
        }
        let first = (start + ELEMENTS) as *const usize;
        if !first.is_aligned() {
            return None;
        }
        // SAFETY: the words lie within the object, as was checked, and the object stays what and
        // where it is.
        let words: &'o [usize] = unsafe { std::slice::from_raw_parts(first, length) };
        let reported = references.iter().filter(|reference| !reference.is_null());
        if !words.iter().filter(|word| **word != 0).eq(reported.map(|reference| &reference.0)) {
            return None;
        }
        self.elements += length;
        let at = first as u64;
        self.arrays.push(at..at + bytes as u64);
        let elements = (at..).step_by(8).zip(words);
        Some(elements.filter(|(_, word)| **word != 0).map(|(at, word)| (at, *word as u64)))
    }

    fn contain(&self, address: u64) -> bool {
        self.arrays.iter().any(|array| array.contains(&address))
    }
}

/// Why the search for static fields ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// It took too long.
    Late,
    /// Code of the process may be edited.
    Edited,
}

/// Finds the static fields that are elements of recorded arrays, and hands them over module by
/// module until there are no more, `deadline` has passed, or `take` fails.
pub fn find<E>(
    runtime: &Runtime,
    arrays: &StaticArrays,
    deadline: Nanos,
    mut take: impl FnMut(Vec<StaticField>) -> Result<(), E>,
) -> Result<Result<(), Unfinished>, E> {
    if arrays.arrays.is_empty() {
        return Ok(Ok(()));
    }
    if crate::os::editing::may_be_edited() {
        return Ok(Err(Unfinished::Edited));
    }
    let modules: Vec<ModuleId> = runtime.unloads().hold_all(|| {
        let modules = runtime.info().modules().into_iter().flatten();
        modules.filter_map(|module| module.ok()?.non_null()).collect()
    });
    // .NET (Core) has one application domain. What .NET Core 3.1 says of its own assemblies is
    // none.
    let domain_of =
        |module: &ModuleId| runtime.unloads().hold(*module, || domain(runtime, *module));
    let Some(domain) = modules.iter().rev().find_map(|module| domain_of(module)?) else {
        return Ok(Ok(()));
    };
    for module in modules {
        let search = Search { runtime, arrays, deadline, module, domain };
        let found = runtime.unloads().hold(module, || search.run()).flatten().unwrap_or_default();
        if !found.is_empty() {
            take(found)?;
        }
        if clock::monotonic() > deadline {
            return Ok(Err(Unfinished::Late));
        }
    }
    Ok(Ok(()))
}

fn domain(runtime: &Runtime, module: ModuleId) -> Option<AppDomainId> {
    let assembly = runtime.info().module_info(module).ok()?.assembly?;
    runtime.info().assembly_info(assembly).ok()?.app_domain
}

/// Numbers of metadata tables (ECMA-335 II.22), and of their columns.
mod table {
    pub const TYPE_DEF: u32 = 2;
    pub const FIELD_PTR: u32 = 3;
    pub const FIELD: u32 = 4;
    pub const METHOD_PTR: u32 = 5;
    pub const METHOD: u32 = 6;
    pub const TYPE_FIELDS: u32 = 4;
    pub const TYPE_METHODS: u32 = 5;
    pub const FIELD_FLAGS: u32 = 0;
    pub const FIELD_SIGNATURE: u32 = 2;
}

/// Types after which modules that wait to be unloaded may go.
const PASS_AFTER: u32 = 64;
/// Methods of a type by which it is looked for: generic ones cannot be asked about.
const METHODS_ASKED: u32 = 16;

/// The static fields of one module. In a hold of it.
struct Search<'a> {
    runtime: &'a Runtime,
    arrays: &'a StaticArrays,
    deadline: Nanos,
    module: ModuleId,
    domain: AppDomainId,
}

impl Search<'_> {
    fn run(&self) -> Option<Vec<StaticField>> {
        const LEFT_OUT: u32 = COR_PRF_MODULE_FLAGS::COLLECTIBLE.0 | COR_PRF_MODULE_FLAGS::DYNAMIC.0;
        let runtime = self.runtime;
        if runtime.info().module_info(self.module).ok()?.flags.0 & LEFT_OUT != 0 {
            return None;
        }
        let tables = runtime.names().metadata(self.module).ok()?.tables().ok()?;
        let rows = |table: u32| tables.table(table).ok().map(|table| table.rows);
        // Edited metadata lists fields and methods by way of these.
        if rows(table::FIELD_PTR)? > 0 || rows(table::METHOD_PTR)? > 0 {
            return None;
        }
        let types = rows(table::TYPE_DEF)?;
        let ends = (rows(table::FIELD)?.checked_add(1)?, rows(table::METHOD)?.checked_add(1)?);
        let begins = |row: u32| -> Option<(u32, u32)> {
            if row > types {
                return Some(ends);
            }
            let column = |column| tables.value(table::TYPE_DEF, column, row).ok();
            // Lists are given as tokens.
            let row = |token: u32| token & 0x00ff_ffff;
            Some((row(column(table::TYPE_FIELDS)?), row(column(table::TYPE_METHODS)?)))
        };
        let mut found = Vec::new();
        let mut begin = begins(1)?;
        for row in 1..=types {
            let end = begins(row + 1)?;
            let (fields, methods) = (begin.0..end.0.min(ends.0), begin.1..end.1.min(ends.1));
            begin = end;
            if !fields.is_empty()
                && let Some(class) = self.loaded(TypeDef::from_rid(row), methods)
            {
                self.fields(&tables, class, fields, &mut found);
            }
            if row % PASS_AFTER == 0
                && (clock::monotonic() > self.deadline || !runtime.unloads().let_pass(self.module))
            {
                break;
            }
        }
        Some(found)
    }

    /// The class of a type that is loaded and not generic, by one of its methods.
    fn loaded(&self, type_def: TypeDef, methods: Range<u32>) -> Option<ClassId> {
        let info = self.runtime.info();
        for row in methods.take(METHODS_ASKED as usize) {
            match info.function_from_token(self.module, MethodDef::from_rid(row)) {
                Ok(function) => {
                    let class = info.function_info(function).ok()?.class?;
                    return (info.class_token(class).ok()? == (self.module, type_def))
                        .then_some(class);
                }
                // Perhaps only this method is generic.
                Err(Error::Hr { hresult: CORPROF_E_FUNCTION_IS_PARAMETERIZED, .. }) => {}
                Err(_) => return None,
            }
        }
        None
    }

    fn fields(
        &self,
        tables: &MetadataTables,
        class: ClassId,
        fields: Range<u32>,
        found: &mut Vec<StaticField>,
    ) {
        let mut type_name: Option<Arc<str>> = None;
        for row in fields.filter(|row| is_wanted(tables, *row).unwrap_or(false)) {
            let info = self.runtime.info();
            let field = FieldDef::from_rid(row);
            let Ok(Some(address)) = info.app_domain_static_address(class, field, self.domain)
            else {
                continue;
            };
            if !self.arrays.contain(address as u64) {
                continue;
            }
            if type_name.is_none() {
                type_name = self.runtime.names().class(class).ok();
            }
            let metadata = self.runtime.names().metadata(self.module);
            let name = metadata.and_then(|metadata| metadata.name_of(field).map(str::to_owned));
            if let (Some(type_name), Ok(name)) = (&type_name, name) {
                let (address, name) = (address as u64, format!("{type_name}.{name}"));
                found.push(StaticField { address, name });
            }
        }
    }
}

/// Whether a field is static and holds a reference.
fn is_wanted(tables: &MetadataTables, row: u32) -> Option<bool> {
    let flags = tables.value(table::FIELD, table::FIELD_FLAGS, row).ok()?;
    let (wanted, others) =
        (FieldAttributes::STATIC, FieldAttributes::LITERAL | FieldAttributes::HAS_FIELD_RVA);
    let flags = FieldAttributes::from_bits(flags);
    if !flags.contains(wanted) || flags.bits() & others.bits() != 0 {
        return Some(false);
    }
    let signature = tables.value(table::FIELD, table::FIELD_SIGNATURE, row).ok()?;
    Some(decode_field(tables.blob(signature).ok()?).is_ok_and(|sig| is_reference(&sig)))
}

fn is_reference(sig: &TypeSig) -> bool {
    kind(sig) == FieldKind::Reference
}

#[cfg(test)]
mod tests {
    use super::*;
    use cil::{Primitive, encode_field};

    /// Header, class, length and elements, as the runtime lays out an array of references.
    fn array(elements: &[u64]) -> Vec<u64> {
        [&[0, 0x7f00, elements.len() as u64][..], elements].concat()
    }

    fn elements(
        arrays: &mut StaticArrays,
        array: &[u64],
        references: &[usize],
    ) -> Option<Vec<(u64, u64)>> {
        // SAFETY: nobody changes the array.
        let object = unsafe { ObjectId::from_raw(RawObjectId(array[1..].as_ptr().addr())) };
        let references: Vec<RawObjectId> = references.iter().copied().map(RawObjectId).collect();
        // SAFETY: it has this size.
        let found = unsafe { arrays.elements(object, size_of_val(array), &references) };
        found.map(Iterator::collect)
    }

    #[test]
    fn elements_of_held_arrays_are_taken_with_their_addresses() {
        let mut arrays = StaticArrays::default();
        let array = array(&[0, 0x1000, 0, 0, 0x2000, 0x1000, 0]);
        let references = [0x1000, 0x2000, 0x1000];
        assert_eq!(elements(&mut arrays, &array, &references), None, "nothing holds it");
        let start = array[1..].as_ptr().addr();
        arrays.held(RawObjectId(start));
        let at = |element: u64| start as u64 + 16 + element * 8;
        let found = elements(&mut arrays, &array, &references).unwrap();
        assert_eq!(found, [(at(1), 0x1000), (at(4), 0x2000), (at(5), 0x1000)]);
        assert!(arrays.contain(at(0)) && arrays.contain(at(6)) && !arrays.contain(at(7)));
        // What is not such an array only looks like one.
        assert_eq!(elements(&mut arrays, &array, &[0x1000, 0x2000]), None);
        assert_eq!(elements(&mut arrays, &array, &[0x1000, 0x1000, 0x2000]), None);
        assert_eq!(elements(&mut arrays, &array[..9], &references), None);
        assert_eq!(elements(&mut arrays, &array[..3], &[]), None);
    }

    #[test]
    fn arrays_are_taken_within_bounds() {
        let mut arrays = StaticArrays::default();
        let large = array(&vec![8; MOST_ELEMENTS / 2 + 1]);
        let references = vec![8; MOST_ELEMENTS / 2 + 1];
        arrays.held(RawObjectId(large[1..].as_ptr().addr()));
        assert!(elements(&mut arrays, &large, &references).is_some());
        assert!(elements(&mut arrays, &large, &references).is_none());
    }

    #[test]
    fn references_are_told_from_values() {
        let is = |sig: &TypeSig| is_reference(&decode_field(&encode_field(sig).unwrap()).unwrap());
        let list = cil::Token(0x0200_0007);
        let inst = |value_type| TypeSig::GenericInst {
            value_type,
            definition: Box::new(if value_type {
                TypeSig::ValueType(list)
            } else {
                TypeSig::Class(list)
            }),
            arguments: vec![TypeSig::Primitive(Primitive::I4)],
        };
        let int = TypeSig::Primitive(Primitive::I4);
        assert!(is(&TypeSig::Primitive(Primitive::String)) && is(&TypeSig::Class(list)));
        assert!(is(&TypeSig::SzArray(Box::new(int.clone()))) && is(&inst(false)));
        assert!(!is(&int) && !is(&TypeSig::ValueType(list)) && !is(&inst(true)));
        assert!(!is(&TypeSig::Pointer(Box::new(TypeSig::Class(list)))));
    }
}
