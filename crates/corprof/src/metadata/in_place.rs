//! Metadata read where it lies: the tables that names are made of, straight out of the memory that the runtime reads them
//! from, without a call for each fact.
//!
//! Only of scopes that cannot be written and whose tables are laid out as compilers lay them out; for all others, and for
//! rows that are not there, the answer is `None`, and the runtime is to be asked. Nothing in the bytes is believed:
//! every index is checked.
//!
//! Sources: ECMA-335 II.22 (tables), II.24.2 (layout).

use core::cmp::Ordering;
use core::ffi::CStr;

use super::token::{MethodDef, Token, TokenKind, TypeDef, TypeRef, TypeSpec};
use super::{Metadata, MetadataTables, ParamAttributes};

const TYPE_REF: usize = 0x01;
const TYPE_DEF: usize = 0x02;
const METHOD_DEF: usize = 0x06;
const PARAM: usize = 0x08;
const TYPE_SPEC: usize = 0x1b;
const NESTED_CLASS: usize = 0x29;
const GENERIC_PARAM: usize = 0x2a;

/// Tables up to the last one that is read.
const TABLES: usize = GENERIC_PARAM + 1;

/// Tables that stand between others where those are not in order; compilers do not make them.
const INDIRECT: [usize; 5] = [0x03, 0x05, 0x07, 0x13, 0x16];

/// Metadata that is read in place.
#[derive(Debug)]
pub(crate) struct InPlace {
    view: View<'static>,
    /// Holds the scope, whose memory the view is of.
    _scope: MetadataTables,
}

/// A method as its row has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MethodRow<'a> {
    /// Its type.
    pub class: TypeDef,
    /// Its name.
    pub name: &'a str,
    /// Its signature.
    pub signature: &'a [u8],
}

/// A type as its row has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TypeRow<'a> {
    /// Its namespace; empty for none.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What it is nested in.
    pub outer: Option<Token>,
}

impl InPlace {
    /// That of a scope; `None` if it cannot be read in place.
    pub(crate) fn open(metadata: &Metadata) -> Option<Self> {
        let scope = metadata.tables().ok()?;
        let bytes: *const [u8] = scope.storage().ok()?;
        // SAFETY: the bytes stay as long as the scope, which is held beside them; what is given out is bound to both.
        let bytes: &'static [u8] = unsafe { &*bytes };
        let view = View::parse(bytes)?;
        Some(Self { view, _scope: scope })
    }

    /// A method.
    pub(crate) fn method(&self, method: MethodDef) -> Option<MethodRow<'_>> {
        self.view.method(method.rid())
    }

    /// A type of this module.
    pub(crate) fn type_def(&self, type_def: TypeDef) -> Option<TypeRow<'_>> {
        self.view.type_def(type_def.rid())
    }

    /// A type of another module.
    pub(crate) fn type_ref(&self, type_ref: TypeRef) -> Option<TypeRow<'_>> {
        self.view.type_ref(type_ref.rid())
    }

    /// The signature of a constructed type.
    pub(crate) fn type_spec(&self, type_spec: TypeSpec) -> Option<&[u8]> {
        self.view.blob(self.view.cell(TYPE_SPEC, type_spec.rid(), 0, self.view.wide_blobs)?)
    }

    /// Names of the generic parameters of a type or method of this module, in order.
    pub(crate) fn generic_params(&self, owner: Token) -> Option<Vec<Box<str>>> {
        self.view.generic_params(owner)
    }

    /// Flags of a parameter of a method by its place from 1; none where the metadata has nothing to say of it.
    pub(crate) fn param_attributes(&self, method: MethodDef, sequence: u32) -> Option<ParamAttributes> {
        self.view.param_attributes(method.rid(), sequence)
    }
}

/// The bytes of the metadata, and where in them things are.
#[derive(Debug)]
struct View<'a> {
    bytes: &'a [u8],
    strings: &'a [u8],
    blobs: &'a [u8],
    rows: [u32; TABLES],
    starts: [usize; TABLES],
    sizes: [usize; TABLES],
    wide_strings: bool,
    wide_blobs: bool,
    wide_type_defs: bool,
    wide_methods: bool,
    wide_params: bool,
    wide_resolution_scope: bool,
    wide_type_or_method: bool,
}

const fn width(wide: bool) -> usize {
    if wide { 4 } else { 2 }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn index_at(bytes: &[u8], at: usize, wide: bool) -> Option<u32> {
    if wide { u32_at(bytes, at) } else { u16_at(bytes, at).map(u32::from) }
}

impl<'a> View<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        if bytes.get(..4)? != b"BSJB" {
            return None;
        }
        let mut at = 16_usize.checked_add(u32_at(bytes, 12)? as usize)?;
        let streams = u16_at(bytes, at.checked_add(2)?)?;
        at += 4;
        let (mut tables, mut strings, mut blobs) = (None, None, None);
        for _ in 0..streams {
            let (offset, size) = (u32_at(bytes, at)? as usize, u32_at(bytes, at + 4)? as usize);
            let name = CStr::from_bytes_until_nul(bytes.get(at + 8..)?).ok()?.to_bytes();
            let stream = || bytes.get(offset..offset.checked_add(size)?);
            match name {
                b"#~" => tables = Some(offset),
                b"#Strings" => strings = stream(),
                b"#Blob" => blobs = stream(),
                // Tables that are not in order, as edit and continue makes them.
                b"#-" | b"#JTD" => return None,
                _ => {}
            }
            at += 8 + ((name.len() + 4) & !3);
        }
        let (tables, strings) = (tables?, strings?);
        let heaps = *bytes.get(tables.checked_add(6)?)?;
        // A number of no known meaning follows the numbers of rows.
        if heaps & 0x40 != 0 {
            return None;
        }
        let mask = |at: usize| Some(u64::from(u32_at(bytes, at)?) | u64::from(u32_at(bytes, at + 4)?) << 32);
        let (present, sorted) = (mask(tables + 8)?, mask(tables + 16)?);
        let mut all_rows = [0_u32; 64];
        at = tables + 24;
        for (table, rows) in all_rows.iter_mut().enumerate() {
            if present >> table & 1 != 0 {
                *rows = u32_at(bytes, at)?;
                at += 4;
            }
        }
        let count = |table: usize| all_rows.get(table).copied().unwrap_or(0);
        if INDIRECT.iter().any(|&table| count(table) > 0) {
            return None;
        }
        if [NESTED_CLASS, GENERIC_PARAM].iter().any(|&table| count(table) > 0 && sorted >> table & 1 == 0) {
            return None;
        }
        let wide = |table: usize| count(table) > 0xffff;
        let wide_coded = |bits: u32, tables: &[usize]| tables.iter().any(|&table| count(table) >= 1 << (16 - bits));
        let sizes = row_sizes(heaps, wide, wide_coded);
        let (mut rows, mut starts) = ([0; TABLES], [0; TABLES]);
        for (table, (rows, start)) in rows.iter_mut().zip(&mut starts).enumerate() {
            (*rows, *start) = (count(table), at);
            at = at.checked_add(sizes.get(table)?.checked_mul(*rows as usize)?)?;
        }
        // With the end of the last table every row is within the bytes.
        bytes.get(..at)?;
        Some(Self {
            bytes,
            strings,
            blobs: blobs.unwrap_or_default(),
            rows,
            starts,
            sizes,
            wide_strings: heaps & 1 != 0,
            wide_blobs: heaps & 4 != 0,
            wide_type_defs: wide(TYPE_DEF),
            wide_methods: wide(METHOD_DEF),
            wide_params: wide(PARAM),
            wide_resolution_scope: wide_coded(2, &RESOLUTION_SCOPE),
            wide_type_or_method: wide_coded(1, &[TYPE_DEF, METHOD_DEF]),
        })
    }

    fn count(&self, table: usize) -> u32 {
        self.rows.get(table).copied().unwrap_or(0)
    }

    /// A row, from 1.
    fn row(&self, table: usize, row: u32) -> Option<&'a [u8]> {
        let index = row.checked_sub(1).filter(|_| row <= self.count(table))? as usize;
        let size = *self.sizes.get(table)?;
        let start = self.starts.get(table)?.checked_add(index.checked_mul(size)?)?;
        self.bytes.get(start..start.checked_add(size)?)
    }

    fn cell(&self, table: usize, row: u32, at: usize, wide: bool) -> Option<u32> {
        index_at(self.row(table, row)?, at, wide)
    }

    /// A text. One that is no UTF-8 is for the runtime to make something of.
    fn string(&self, index: u32) -> Option<&'a str> {
        CStr::from_bytes_until_nul(self.strings.get(index as usize..)?).ok()?.to_str().ok()
    }

    fn blob(&self, index: u32) -> Option<&'a [u8]> {
        let bytes = self.blobs.get(index as usize..)?;
        let first = *bytes.first()?;
        let (length, at) = match first {
            0..0x80 => (usize::from(first), 1_usize),
            0x80..0xc0 => (usize::from(first & 0x3f) << 8 | usize::from(*bytes.get(1)?), 2),
            0xc0..0xe0 => {
                let rest: [u8; 4] = bytes.first_chunk().copied()?;
                ((u32::from_be_bytes(rest) & 0x1fff_ffff) as usize, 4)
            }
            _ => return None,
        };
        bytes.get(at..at.checked_add(length)?)
    }

    /// The first row of a table, which is sorted by a column, whose value there is not below this one. One behind the last
    /// row if there is none.
    fn lower_bound(&self, table: usize, at: usize, wide: bool, value: u32) -> Option<u32> {
        let (mut low, mut high) = (1_u32, self.count(table).checked_add(1)?);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.cell(table, middle, at, wide)?.cmp(&value) {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        Some(low)
    }

    fn method(&self, rid: u32) -> Option<MethodRow<'a>> {
        let row = self.row(METHOD_DEF, rid)?;
        let name = self.string(index_at(row, 8, self.wide_strings)?)?;
        let signature = self.blob(index_at(row, 8 + width(self.wide_strings), self.wide_blobs)?)?;
        // Each type has the methods from its first to that of the next: the last type that begins at or before it.
        let first_method = self.sizes.get(TYPE_DEF)?.checked_sub(width(self.wide_methods))?;
        let class = self.lower_bound(TYPE_DEF, first_method, self.wide_methods, rid.checked_add(1)?)?.checked_sub(1)?;
        let class = (class > 0).then(|| TypeDef::from_raw((TYPE_DEF as u32) << 24 | class))?;
        Some(MethodRow { class, name, signature })
    }

    fn type_def(&self, rid: u32) -> Option<TypeRow<'a>> {
        let row = self.row(TYPE_DEF, rid)?;
        let name = self.string(index_at(row, 4, self.wide_strings)?)?;
        let namespace = self.string(index_at(row, 4 + width(self.wide_strings), self.wide_strings)?)?;
        let nested = self.lower_bound(NESTED_CLASS, 0, self.wide_type_defs, rid)?;
        let outer = self.row(NESTED_CLASS, nested).and_then(|row| {
            let enclosing = index_at(row, width(self.wide_type_defs), self.wide_type_defs)?;
            (index_at(row, 0, self.wide_type_defs)? == rid && enclosing > 0)
                .then_some(Token((TYPE_DEF as u32) << 24 | enclosing))
        });
        Some(TypeRow { namespace, name, outer })
    }

    fn type_ref(&self, rid: u32) -> Option<TypeRow<'a>> {
        /// What marks a `TypeRef` among the scopes.
        const NESTED: u32 = 3;
        let row = self.row(TYPE_REF, rid)?;
        let scope = index_at(row, 0, self.wide_resolution_scope)?;
        let at = width(self.wide_resolution_scope);
        let name = self.string(index_at(row, at, self.wide_strings)?)?;
        let namespace = self.string(index_at(row, at + width(self.wide_strings), self.wide_strings)?)?;
        let outer = (scope & 3 == NESTED && scope >> 2 != 0).then_some(Token((TYPE_REF as u32) << 24 | scope >> 2));
        Some(TypeRow { namespace, name, outer })
    }

    fn generic_params(&self, owner: Token) -> Option<Vec<Box<str>>> {
        let (table, mark) = match owner.kind()? {
            TokenKind::TypeDef => (TYPE_DEF, 0),
            TokenKind::MethodDef => (METHOD_DEF, 1),
            _ => return None,
        };
        // What came later is not in these tables.
        self.row(table, owner.rid())?;
        let coded = owner.rid() << 1 | mark;
        let first = self.lower_bound(GENERIC_PARAM, 4, self.wide_type_or_method, coded)?;
        let mut params = Vec::new();
        for rid in first..=self.count(GENERIC_PARAM) {
            let row = self.row(GENERIC_PARAM, rid)?;
            if index_at(row, 4, self.wide_type_or_method)? != coded {
                break;
            }
            let name = self.string(index_at(row, 4 + width(self.wide_type_or_method), self.wide_strings)?)?;
            params.push((u16_at(row, 0)?, name));
        }
        params.sort_by_key(|(sequence, _)| *sequence);
        Some(params.into_iter().map(|(_, name)| name.into()).collect())
    }

    fn param_attributes(&self, method: u32, sequence: u32) -> Option<ParamAttributes> {
        let at = 8 + width(self.wide_strings) + width(self.wide_blobs);
        let first = self.cell(METHOD_DEF, method, at, self.wide_params)?;
        // One behind its last: the first of the next method.
        let end = match self.row(METHOD_DEF, method.checked_add(1)?) {
            Some(next) => index_at(next, at, self.wide_params)?,
            None => self.count(PARAM).checked_add(1)?,
        };
        for rid in first..end {
            let row = self.row(PARAM, rid)?;
            if u32::from(u16_at(row, 2)?) == sequence {
                return Some(ParamAttributes::from_bits(u16_at(row, 0)?.into()));
            }
        }
        Some(ParamAttributes::default())
    }
}

const RESOLUTION_SCOPE: [usize; 4] = [0x00, 0x1a, 0x23, TYPE_REF];

/// Sizes of the rows of all tables up to the last one that is read, in the order of their numbers (II.22). `wide` tells of
/// a table whether its indexes take four bytes, `wide_coded` of several that share so many bits to tell them apart.
fn row_sizes(heaps: u8, wide: impl Fn(usize) -> bool, wide_coded: impl Fn(u32, &[usize]) -> bool) -> [usize; TABLES] {
    let heap = |bit: u8| width(heaps & bit != 0);
    let (string, guid, blob) = (heap(1), heap(2), heap(4));
    let index = |table: usize| width(wide(table));
    let coded = |bits: u32, tables: &[usize]| width(wide_coded(bits, tables));
    let type_def_or_ref = coded(2, &[TYPE_DEF, TYPE_REF, TYPE_SPEC]);
    let has_constant = coded(2, &[0x04, 0x08, 0x17]);
    let has_custom_attribute = coded(
        5,
        &[
            0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14, 0x11, 0x1a, 0x1b, 0x20, 0x23, 0x26, 0x27,
            0x28, 0x2a, 0x2c, 0x2b,
        ],
    );
    let has_field_marshal = coded(1, &[0x04, 0x08]);
    let has_decl_security = coded(2, &[0x02, 0x06, 0x20]);
    let member_ref_parent = coded(3, &[0x02, 0x01, 0x1a, 0x06, 0x1b]);
    let has_semantics = coded(1, &[0x14, 0x17]);
    let method_def_or_ref = coded(1, &[0x06, 0x0a]);
    let member_forwarded = coded(1, &[0x04, 0x06]);
    let implementation = coded(2, &[0x26, 0x23, 0x27]);
    let attribute_type = coded(3, &[0x06, 0x0a]);
    let resolution_scope = coded(2, &RESOLUTION_SCOPE);
    let type_or_method_def = coded(1, &[TYPE_DEF, METHOD_DEF]);
    [
        2 + string + 3 * guid,                                  // 00 Module
        resolution_scope + 2 * string,                          // 01 TypeRef
        4 + 2 * string + type_def_or_ref + index(4) + index(6), // 02 TypeDef
        index(4),                                               // 03 FieldPtr
        2 + string + blob,                                      // 04 Field
        index(6),                                               // 05 MethodPtr
        8 + string + blob + index(8),                           // 06 MethodDef
        index(8),                                               // 07 ParamPtr
        4 + string,                                             // 08 Param
        index(2) + type_def_or_ref,                             // 09 InterfaceImpl
        member_ref_parent + string + blob,                      // 0a MemberRef
        2 + has_constant + blob,                                // 0b Constant
        has_custom_attribute + attribute_type + blob,           // 0c CustomAttribute
        has_field_marshal + blob,                               // 0d FieldMarshal
        2 + has_decl_security + blob,                           // 0e DeclSecurity
        6 + index(2),                                           // 0f ClassLayout
        4 + index(4),                                           // 10 FieldLayout
        blob,                                                   // 11 StandAloneSig
        index(2) + index(0x14),                                 // 12 EventMap
        index(0x14),                                            // 13 EventPtr
        2 + string + type_def_or_ref,                           // 14 Event
        index(2) + index(0x17),                                 // 15 PropertyMap
        index(0x17),                                            // 16 PropertyPtr
        2 + string + blob,                                      // 17 Property
        2 + index(6) + has_semantics,                           // 18 MethodSemantics
        index(2) + 2 * method_def_or_ref,                       // 19 MethodImpl
        string,                                                 // 1a ModuleRef
        blob,                                                   // 1b TypeSpec
        2 + member_forwarded + string + index(0x1a),            // 1c ImplMap
        4 + index(4),                                           // 1d FieldRVA
        8,                                                      // 1e EncLog
        4,                                                      // 1f EncMap
        16 + blob + 2 * string,                                 // 20 Assembly
        4,                                                      // 21 AssemblyProcessor
        12,                                                     // 22 AssemblyOS
        12 + 2 * blob + 2 * string,                             // 23 AssemblyRef
        4 + index(0x23),                                        // 24 AssemblyRefProcessor
        12 + index(0x23),                                       // 25 AssemblyRefOS
        4 + string + blob,                                      // 26 File
        8 + 2 * string + implementation,                        // 27 ExportedType
        8 + string + implementation,                            // 28 ManifestResource
        2 * index(2),                                           // 29 NestedClass
        4 + type_or_method_def + string,                        // 2a GenericParam
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::{Runtime, Sample};

    fn ask_all(view: &View<'_>, rid: u32) {
        let _ = (view.method(rid), view.type_def(rid), view.type_ref(rid));
        let _ = view.generic_params(Token((TYPE_DEF as u32) << 24 | rid & 0xff_ffff));
        let _ = view.generic_params(Token((METHOD_DEF as u32) << 24 | rid & 0xff_ffff));
        let _ = (view.param_attributes(rid, 1), view.blob(rid), view.string(rid));
    }

    /// The metadata in a file of a compiler.
    fn of_sample() -> Vec<u8> {
        let image = std::fs::read(Sample::named("allocator").compile(Runtime::V3_1).unwrap()).unwrap();
        let start = image.windows(4).position(|window| window == b"BSJB").unwrap();
        image[start..].to_vec()
    }

    #[test]
    fn rows_of_a_real_assembly() {
        let bytes = of_sample();
        let view = View::parse(&bytes).unwrap();
        let methods: Vec<_> = (1..).map_while(|rid| view.method(rid)).collect();
        assert_eq!(methods.len(), view.count(METHOD_DEF) as usize);
        let make = methods.iter().find(|method| method.name == "MakeHeavy").unwrap();
        let class = view.type_def(make.class.rid()).unwrap();
        assert_eq!((class.namespace, class.name, class.outer), ("Clrscope.Samples", "Allocator", None));
        // A static method without parameters that returns nothing.
        assert_eq!(make.signature, [0, 0, 1]);
        let refs: Vec<_> = (1..).map_while(|rid| view.type_ref(rid)).collect();
        assert!(refs.iter().any(|one| (one.namespace, one.name) == ("System.Diagnostics", "Stopwatch")));
        let pair = (1..).map_while(|rid| Some((rid, view.type_def(rid)?))).find(|(_, one)| one.name == "Pair`1");
        let owner = Token((TYPE_DEF as u32) << 24 | pair.unwrap().0);
        assert_eq!(view.generic_params(owner), Some(vec!["T".into()]));
        assert_eq!(view.generic_params(Token((TYPE_DEF as u32) << 24 | 0xffff)), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn damaged_bytes_never_panic(
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), rid in any::<u32>(),
        ) {
            let mut bytes = of_sample();
            let head = 2048.min(bytes.len());
            for (place, byte) in places {
                bytes[place.index(head)] = byte;
            }
            if let Some(view) = View::parse(&bytes) {
                (0..50).chain([rid, u32::MAX]).for_each(|rid| ask_all(&view, rid));
            }
        }
    }
}
