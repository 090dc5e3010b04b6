//! What managed code stands at an address of a process that is not asked.

use super::{
    image::Image,
    jitted::{self, MethodOf},
    layout::Layout,
    memory::Memory,
    ready_to_run::ReadyToRun,
    tasks,
    types::{Modules, TypeNames, TypeRow},
};
use metadata::{Metadata, column, table};
use recorder::CodeReader;
use std::{collections::HashMap, rc::Rc};
use unwind::{LiveProcess, Mapping, Target};
use wire::{Code, Method, MethodKind, Module, Record, UnwindTable, as_csharp, unwind_table as pe};

/// Largest code whose bytes are read.
const MOST_BYTES: u32 = 256 << 10;

/// Names managed code by what can be read of it: precompiled images in memory, and the runtime's
/// own structures.
///
/// Methods have neither the arguments of generic types nor parameters. What is read must agree with
/// itself; where it does not, there is no name, or no line.
pub struct OutsideCode {
    memory: Option<Memory>,
    mappings: Vec<Mapping>,
    layout: Option<Layout>,
    /// Modules of types.
    types: Rc<Modules>,
    /// Start of the precompiled image that a mapping belongs to, by start of the mapping.
    bases: HashMap<u64, Option<u64>>,
    /// By start of the image.
    images: HashMap<u64, Option<Precompiled>>,
    /// Numbers of modules, by start of the image.
    modules: HashMap<u64, u32>,
    /// Numbers of methods, by module and row, or by address of the `MethodDesc`.
    methods: HashMap<(u64, u32), u32>,
}

/// A precompiled image.
struct Precompiled {
    code: ReadyToRun,
    metadata: Rc<Metadata<'static>>,
}

impl OutsideCode {
    /// Of a process, by its id in our pid namespace.
    pub fn new(pid: u32) -> Self {
        let memory = Memory::open(pid).ok();
        let mappings = LiveProcess::new(pid).mappings().unwrap_or_default();
        let layout = memory.as_ref().and_then(|memory| {
            let image = Image::find(pid, &mappings).ok()?;
            Layout::find(memory, &image, &tasks::read(pid).ok()?).ok()
        });
        Self {
            memory,
            mappings,
            layout,
            types: Rc::default(),
            bases: HashMap::new(),
            images: HashMap::new(),
            modules: HashMap::new(),
            methods: HashMap::new(),
        }
    }

    fn code_at(&mut self, address: u64) -> Option<Vec<Record>> {
        let index = self.mappings.partition_point(|mapping| mapping.end <= address);
        let mapping = self.mappings.get(index);
        let mapping = mapping.filter(|found| found.start <= address && found.executable)?.clone();
        let base = *self
            .bases
            .entry(mapping.start)
            .or_insert_with(|| image_of(self.memory.as_ref()?, self.mappings.get(..=index)?));
        match base {
            Some(base) => self.precompiled(base, address),
            None => self.jitted(&mapping, address),
        }
    }

    fn precompiled(&mut self, base: u64, address: u64) -> Option<Vec<Record>> {
        let memory = self.memory.as_ref()?;
        let image = self.images.entry(base).or_insert_with(|| {
            let code = ReadyToRun::read(memory, base)?;
            let metadata =
                Metadata::of_memory(|offset, size| memory.bytes(base.checked_add(offset)?, size));
            Some(Precompiled { code, metadata: Rc::new(metadata?) })
        });
        let image = image.as_ref()?;
        let found = image.code.method_at(memory, address)?;
        let metadata = Rc::clone(&image.metadata);
        let mut records = Vec::new();
        let method = match found.row {
            Some(row) => {
                let owner = metadata.type_of_method(row)?;
                self.method(base, &metadata, owner, row, &mut records)
            }
            None => self.unnamed(found.range.0, "[precompiled generic method]", &mut records),
        };
        records.push(self.code(method, found.range, found.unwind, found.il_map));
        Some(records)
    }

    fn jitted(&mut self, mapping: &Mapping, address: u64) -> Option<Vec<Record>> {
        let memory = self.memory.as_ref()?;
        let found = jitted::code_at(memory, mapping.start, address)?;
        let of = self.layout.as_ref().and_then(|layout| {
            let modules = Rc::clone(&self.types);
            let types = TypeNames::with_modules(memory, layout.types, &self.mappings, modules);
            jitted::method_of(memory, &types, found.method)
        });
        let mut records = Vec::new();
        let method = match of {
            Some(MethodOf::Row(TypeRow { row: owner, base, metadata }, row)) => {
                self.method(base, &metadata, owner, row, &mut records)
            }
            Some(MethodOf::Dynamic(name)) => {
                let name = name.unwrap_or_else(|| "[dynamic method]".to_owned());
                self.unnamed(found.method, &name, &mut records)
            }
            None => self.unnamed(found.method, "[compiled method]", &mut records),
        };
        let range = (found.start, found.size);
        records.push(self.code(method, range, found.unwind, found.il_map));
        Some(records)
    }

    fn code(
        &self,
        method: u32,
        range: (u64, u32),
        unwind: Option<UnwindTable>,
        il_map: Vec<(u32, u32)>,
    ) -> Record {
        let (start, length) = range;
        let memory = self.memory.as_ref().filter(|_| length <= MOST_BYTES);
        let bytes = memory.and_then(|memory| memory.bytes(start, length as usize));
        let (rejit, ranges, bytes) = (0, vec![range], bytes.unwrap_or_default());
        Record::Code(Code { method, rejit, ranges, unwind, bytes, il_map })
    }

    /// Number of a method with metadata.
    fn method(
        &mut self,
        base: u64,
        metadata: &Metadata<'_>,
        owner: u32,
        row: u32,
        records: &mut Vec<Record>,
    ) -> u32 {
        if let Some(known) = self.methods.get(&(base, row)) {
            return *known;
        }
        let module = self.module(base, metadata, records);
        let id = self.methods.len() as u32;
        self.methods.insert((base, row), id);
        let name = metadata.name(table::METHOD_DEF, row, column::METHOD_NAME);
        let type_name = metadata.type_name(owner, '+').unwrap_or_default();
        records.push(Record::Method(Method {
            id,
            module: Some(module),
            token: 0x0600_0000 | row,
            kind: MethodKind::Normal,
            type_name: as_csharp(&type_name),
            name: name.map_or_else(|| "[no name]".to_owned(), |name| name.into_owned()),
            parameters: String::new(),
        }));
        id
    }

    /// Number of a method of which only this name is known.
    fn unnamed(&mut self, address: u64, name: &str, records: &mut Vec<Record>) -> u32 {
        if let Some(known) = self.methods.get(&(address, 0)) {
            return *known;
        }
        let id = self.methods.len() as u32;
        self.methods.insert((address, 0), id);
        records.push(Record::Method(Method {
            id,
            module: None,
            token: 0,
            kind: match name.starts_with("IL_STUB") {
                true => MethodKind::IlStub,
                false => MethodKind::Dynamic,
            },
            type_name: String::new(),
            name: name.to_owned(),
            parameters: String::new(),
        }));
        id
    }

    fn module(&mut self, base: u64, metadata: &Metadata<'_>, records: &mut Vec<Record>) -> u32 {
        if let Some(known) = self.modules.get(&base) {
            return *known;
        }
        let id = self.modules.len() as u32;
        self.modules.insert(base, id);
        let path = self.mappings.iter().find(|mapping| mapping.start == base);
        let path = path.map(|mapping| mapping.path.clone()).unwrap_or_default();
        let assembly = metadata.name(table::ASSEMBLY, 1, column::ASSEMBLY_NAME);
        records.push(Record::Module(Module {
            id,
            base,
            path,
            assembly: assembly.map(|name| name.into_owned()).unwrap_or_default(),
            mvid: metadata.module_version_id().unwrap_or_default(),
        }));
        id
    }
}

impl CodeReader for OutsideCode {
    fn explain(&mut self, address: u64) -> Vec<Record> {
        self.code_at(address).unwrap_or_else(|| vec![Record::NotCode(address)])
    }
}

/// Where the precompiled image begins that the last of these mappings belongs to.
fn image_of(memory: &Memory, mappings: &[Mapping]) -> Option<u64> {
    /// Parts of an image that are looked at.
    const MOST_PARTS: usize = 64;
    let part = mappings.last()?;
    let (mut above, mut found) = (part.start, None);
    for mapping in mappings.iter().rev().take(MOST_PARTS) {
        // An image that was read instead of mapped is one piece of memory.
        match part.is_file() {
            true if mapping.path != part.path => continue,
            false if mapping.end < above => break,
            _ => above = mapping.start,
        }
        let contains = |image: &pe::Image| image.contains(part.start);
        // The head of a file may be mapped again within its image: the lowest one is the image's.
        found = pe::Image::at(memory, mapping.start).filter(contains).or(found);
        // All images within a single-file application have its path: the nearest one counts.
        if part.is_file() && found.is_none() {
            found = pe::Image::in_page(memory, mapping.start, part.start).filter(contains);
            if found.is_some() {
                break;
            }
        }
    }
    found.map(|image| image.base)
}
