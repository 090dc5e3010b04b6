//! Names of the types of objects.

use super::{layout::TypeOffsets, memory::Memory};
use metadata::Metadata;
use std::{cell::RefCell, collections::HashMap, rc::Rc};
use unwind::Mapping;

/// Remembers what was read.
pub(super) struct TypeNames<'a> {
    memory: &'a Memory,
    offsets: TypeOffsets,
    mappings: &'a [Mapping],
    names: RefCell<HashMap<u64, Option<String>>>,
    modules: Rc<Modules>,
}

/// Start of the image and metadata, by address of the module.
pub(super) type Modules = RefCell<HashMap<u64, Option<(u64, Rc<Metadata<'static>>)>>>;

/// A type in its metadata.
pub(super) struct TypeRow {
    pub row: u32,
    /// Where the image of its module is.
    pub base: u64,
    pub metadata: Rc<Metadata<'static>>,
}

impl<'a> TypeNames<'a> {
    pub fn new(memory: &'a Memory, offsets: TypeOffsets, mappings: &'a [Mapping]) -> Self {
        Self::with_modules(memory, offsets, mappings, Rc::default())
    }

    /// With modules that were read before.
    pub fn with_modules(
        memory: &'a Memory,
        offsets: TypeOffsets,
        mappings: &'a [Mapping],
        modules: Rc<Modules>,
    ) -> Self {
        Self { memory, offsets, mappings, names: RefCell::default(), modules }
    }

    /// Full name of the type of an object. `None` for arrays, and where it cannot be read.
    pub fn of_object(&self, object: u64) -> Option<String> {
        // The garbage collector uses the low bits for itself while it works.
        let table = self.memory.pointer(object & !7)? & !7;
        if let Some(known) = self.names.borrow().get(&table) {
            return known.clone();
        }
        let name = self.of_type(table);
        self.names.borrow_mut().insert(table, name.clone());
        name
    }

    fn of_type(&self, table: u64) -> Option<String> {
        const PARENT: u64 = 16;
        // Of all classes, only one has no base.
        if self.memory.u64(table + PARENT)? == 0 {
            return Some("System.Object".to_owned());
        }
        let TypeRow { row, metadata, .. } = self.row_of_type(table)?;
        metadata.type_name(row, '+')
    }

    /// The row of a type, by the address of its `MethodTable`; `None` for arrays, and where it
    /// cannot be read.
    pub fn row_of_type(&self, table: u64) -> Option<TypeRow> {
        let (row, module) = match self.offsets {
            TypeOffsets::Image { flags, module, .. } => {
                (self.memory.u32(table + flags)? >> 8, self.memory.pointer(table + module)?)
            }
            // `m_wToken` and `m_pLoaderModule`; all bits are set where a token needs more than 16.
            TypeOffsets::Name { .. } => {
                let row = self.memory.u16(table + 10).filter(|&row| row != u16::MAX)?;
                (u32::from(row), self.memory.pointer(table + 24)?)
            }
        };
        let known = self.modules.borrow().get(&module).cloned();
        let known = known.unwrap_or_else(|| {
            let found = self.base(module).and_then(|base| {
                let metadata = Metadata::of_memory(|offset, size| {
                    self.memory.bytes(base.checked_add(offset)?, size)
                });
                Some((base, Rc::new(metadata?)))
            });
            self.modules.borrow_mut().insert(module, found.clone());
            found
        });
        let (base, metadata) = known?;
        (row > 0).then_some(TypeRow { row, base, metadata })
    }

    /// Where the image of a module is.
    fn base(&self, module: u64) -> Option<u64> {
        match self.offsets {
            TypeOffsets::Image { base, .. } => self.memory.pointer(module + base),
            TypeOffsets::Name { simple_name } => {
                let file = format!(
                    "/{}.dll",
                    self.memory.text(self.memory.pointer(module + simple_name)?, 512)?
                );
                let of_file = self
                    .mappings
                    .iter()
                    .filter(|mapping| mapping.offset == 0 && mapping.path.ends_with(&file));
                of_file.map(|mapping| mapping.start).min()
            }
        }
    }
}
