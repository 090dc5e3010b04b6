//! Names of types out of the metadata of an assembly that is mapped into the process (ECMA-335 II.22 and II.24).

use super::memory::{Memory, u32_in};

/// Number of tables that can stand before and at NestedClass.
const TABLES: usize = 0x2a;
const TYPE_DEF: usize = 0x02;
const NESTED_CLASS: usize = 0x29;

/// Deeper nesting than this is none.
const DEEPEST: usize = 16;

/// The metadata of an assembly, as far as names of types need it.
#[derive(Debug)]
pub(super) struct Metadata {
    bytes: Vec<u8>,
    strings: usize,
    wide_strings: bool,
    rows: [u32; 64],
    starts: [usize; TABLES],
    sizes: [usize; TABLES],
}

impl Metadata {
    /// Reads that of the image at an address, whether the image is mapped as it is in the file or as it is to be loaded.
    pub fn of_image(memory: &Memory, base: u64) -> Option<Self> {
        const CLI_HEADER: usize = 14;
        let head = memory.bytes(base, 0x400)?;
        if head.get(..2)? != b"MZ" {
            return None;
        }
        let pe = u32_in(&head, 0x3c)? as usize;
        if head.get(pe..pe.checked_add(4)?)? != b"PE\0\0" {
            return None;
        }
        let number = |at: usize| head.get(at..)?.first_chunk().copied().map(u16::from_le_bytes);
        let sections = usize::from(number(pe + 6)?);
        let optional_size = usize::from(number(pe + 20)?);
        let optional = pe + 24;
        // PE32 or PE32+: the directories stand further behind in the latter.
        let directories = optional + if number(optional)? == 0x20b { 112 } else { 96 };
        let cli = u32_in(&head, directories + 8 * CLI_HEADER)?;
        let table = optional + optional_size;
        let flat = |rva: u32| {
            (0..sections.min(16)).find_map(|index| {
                let section = table + 40 * index;
                let (size, start) = (u32_in(&head, section + 8)?, u32_in(&head, section + 12)?);
                let inside = rva.checked_sub(start).filter(|&offset| offset < size)?;
                u32_in(&head, section + 20)?.checked_add(inside)
            })
        };
        let read = |place: &dyn Fn(u32) -> Option<u32>| {
            let header = memory.bytes(base + u64::from(place(cli)?), 16)?;
            let start = place(u32_in(&header, 8)?)?;
            Self::parse(memory.bytes(base + u64::from(start), u32_in(&header, 12)? as usize)?)
        };
        read(&|rva| Some(rva)).or_else(|| read(&flat))
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        if bytes.get(..4)? != b"BSJB" {
            return None;
        }
        let u16_at = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes);
        let mut at = 16usize.checked_add(u32_in(&bytes, 12)? as usize)?;
        let streams = u16_at(at + 2)?;
        at += 4;
        let (mut tables, mut strings) = (None, None);
        for _ in 0..streams {
            let offset = u32_in(&bytes, at)? as usize;
            let name = bytes.get(at + 8..)?;
            let length = name.iter().take(32).position(|&byte| byte == 0)?;
            match name.get(..length)? {
                b"#~" | b"#-" => tables = Some(offset),
                b"#Strings" => strings = Some(offset),
                _ => {}
            }
            at += 8 + ((length + 4) & !3);
        }
        let (tables, strings) = (tables?, strings?);
        let heaps = *bytes.get(tables + 6)?;
        let present = u64::from(u32_in(&bytes, tables + 8)?) | u64::from(u32_in(&bytes, tables + 12)?) << 32;
        let mut rows = [0; 64];
        at = tables + 24;
        for (table, rows) in rows.iter_mut().enumerate() {
            if present >> table & 1 != 0 {
                *rows = u32_in(&bytes, at)?;
                at += 4;
            }
        }
        let sizes = row_sizes(&rows, heaps);
        let mut starts = [0; TABLES];
        for (table, start) in starts.iter_mut().enumerate() {
            *start = at;
            at = at.checked_add(sizes.get(table)?.checked_mul(*rows.get(table)? as usize)?)?;
        }
        Some(Self { wide_strings: heaps & 1 != 0, bytes, strings, rows, starts, sizes })
    }

    fn row(&self, table: usize, row: u32) -> Option<&[u8]> {
        let index = row.checked_sub(1).filter(|_| row <= self.rows.get(table).copied().unwrap_or(0))? as usize;
        let size = *self.sizes.get(table)?;
        let start = self.starts.get(table)?.checked_add(index.checked_mul(size)?)?;
        self.bytes.get(start..start.checked_add(size)?)
    }

    fn string(&self, index: u32) -> Option<String> {
        let bytes = self.bytes.get(self.strings.checked_add(index as usize)?..)?;
        let end = bytes.iter().take(1024).position(|&byte| byte == 0)?;
        String::from_utf8(bytes.get(..end)?.to_vec()).ok()
    }

    /// Full name of a type definition by its row, from 1: `Space.Outer+Inner`. Generic types keep their arity (`List`1`).
    pub fn type_name(&self, row: u32) -> Option<String> {
        let mut name = String::new();
        let mut next = row;
        for _ in 0..DEEPEST {
            let fields = self.row(TYPE_DEF, next)?;
            let width = if self.wide_strings { 4 } else { 2 };
            let own = self.string(index_in(fields, 4, self.wide_strings)?)?;
            let space = self.string(index_in(fields, 4 + width, self.wide_strings)?)?;
            name = match name.is_empty() {
                true => own,
                false => format!("{own}+{name}"),
            };
            match self.enclosing(next) {
                Some(outer) => next = outer,
                None if space.is_empty() => return Some(name),
                None => return Some(format!("{space}.{name}")),
            }
        }
        None
    }

    /// The type that a type is nested in. The table is sorted by the nested type.
    fn enclosing(&self, nested: u32) -> Option<u32> {
        let wide = self.rows.get(TYPE_DEF).is_some_and(|&rows| rows > 0xffff);
        let width = if wide { 4 } else { 2 };
        let count = *self.rows.get(NESTED_CLASS)?;
        let (mut low, mut high) = (1, count.checked_add(1)?);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.row(NESTED_CLASS, middle)?;
            match index_in(row, 0, wide)?.cmp(&nested) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return index_in(row, width, wide),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

fn index_in(row: &[u8], at: usize, wide: bool) -> Option<u32> {
    match wide {
        true => u32_in(row, at),
        false => row.get(at..)?.first_chunk().copied().map(u16::from_le_bytes).map(u32::from),
    }
}

/// Sizes of the rows of all tables up to NestedClass (ECMA-335 II.22).
fn row_sizes(rows: &[u32; 64], heaps: u8) -> [usize; TABLES] {
    let count = |table: usize| rows.get(table).copied().unwrap_or(0);
    let heap = |bit: u8| if heaps & bit != 0 { 4 } else { 2 };
    let (string, guid, blob) = (heap(1), heap(2), heap(4));
    let index = |table: usize| if count(table) > 0xffff { 4 } else { 2 };
    let coded = |bits: u32, tables: &[usize]| {
        let most = tables.iter().map(|&table| count(table)).max().unwrap_or(0);
        if most >= 1 << (16 - bits) { 4 } else { 2 }
    };
    let type_def_or_ref = coded(2, &[0x02, 0x01, 0x1b]);
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
    let resolution_scope = coded(2, &[0x00, 0x1a, 0x23, 0x01]);
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
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::{Host, Runtime, Sample};

    fn of_file(path: &std::path::Path) -> Metadata {
        let image = std::fs::read(path).unwrap();
        // The image lies in our own memory as it does in the file.
        Metadata::of_image(&Memory::open(std::process::id()).unwrap(), image.as_ptr() as u64).unwrap()
    }

    #[test]
    fn names_of_real_assemblies() {
        let sample = of_file(&Sample::named("locker").compile(Runtime::V3_1).unwrap());
        let names: Vec<String> = (1..).map_while(|row| sample.type_name(row)).collect();
        assert!(names.contains(&"Clrscope.Samples.Locker".to_owned()), "{names:?}");
        assert!(names.contains(&"Clrscope.Samples.Locker+Pair".to_owned()), "{names:?}");
        for runtime in [Runtime::V3_1, Runtime::V9] {
            let Host::Muxer { framework, .. } = runtime.require().host() else { panic!("{runtime} has files") };
            let library = of_file(&framework.join("System.Private.CoreLib.dll"));
            let names: Vec<String> = (1..).map_while(|row| library.type_name(row)).collect();
            assert!(names.len() > 1000 && names.contains(&"System.Threading.Tasks.Task+DelayPromise".to_owned()));
            assert_eq!(names.contains(&"System.Threading.Lock".to_owned()), runtime == Runtime::V9);
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400), row in any::<u32>()) {
            if let Some(metadata) = Metadata::parse([&b"BSJB"[..], &bytes].concat()) {
                let _ = metadata.type_name(row);
            }
            let mut image = [&b"MZ"[..], &bytes].concat();
            image.resize(0x500, 0);
            let _ = Metadata::of_image(&Memory::open(std::process::id()).unwrap(), image.as_ptr() as u64);
        }
    }
}
