use cil::Token;
use metadata::{Metadata, PeHeaders, Row, column, table};
use rootfs::Root;
use std::path::Path;

/// Largest assembly that is read.
const MAX_ASSEMBLY: u64 = 256 << 20;

/// Of the flags of a method (ECMA-335 II.23.1.10): it stands for a function of a native library.
pub(crate) const PINVOKE: u32 = 0x2000;

/// The IL of an assembly.
#[derive(Clone, Debug)]
pub struct AssemblyCode {
    pub(crate) bytes: Vec<u8>,
    pub(crate) headers: PeHeaders,
}

impl AssemblyCode {
    /// Reads an assembly in the file system of the process that has loaded it. `None` where it
    /// cannot be read, or where another build stands there now.
    #[must_use]
    pub fn read(root: &Root, assembly: &Path, module_version_id: [u8; 16]) -> Option<Self> {
        Self::new(root.read(assembly, MAX_ASSEMBLY).ok()?, module_version_id)
    }

    fn new(bytes: Vec<u8>, module_version_id: [u8; 16]) -> Option<Self> {
        let headers = PeHeaders::parse(&bytes).ok()?;
        let code = Self { bytes, headers };
        (code.metadata()?.module_version_id() == Some(module_version_id)).then_some(code)
    }

    pub(crate) fn metadata(&self) -> Option<Metadata<'_>> {
        Metadata::of_file(&self.bytes).ok()
    }
}

/// A method that code calls.
pub(crate) struct Callee {
    /// Full name of its type, where that is not nested in another; generic ones have none.
    pub type_name: String,
    pub name: String,
    /// Whether it stands for a function of a native library.
    pub is_native: bool,
}

impl Callee {
    /// The one that a call names. `None` where it cannot be read.
    pub fn of(metadata: &Metadata<'_>, called: Token) -> Option<Self> {
        let called = match Row::of(called)? {
            row if row.table == table::METHOD_SPEC => {
                metadata.reference(row.table, row.row, column::METHOD_SPEC_METHOD)?
            }
            row => row,
        };
        let (owner, name, flags) = match called.table {
            table::MEMBER_REF => (
                metadata.reference(called.table, called.row, column::MEMBER_REF_PARENT)?,
                column::MEMBER_REF_NAME,
                0,
            ),
            table::METHOD_DEF => {
                let owner =
                    Row { table: table::TYPE_DEF, row: metadata.type_of_method(called.row)? };
                (
                    owner,
                    column::METHOD_NAME,
                    metadata.get(called.table, called.row, column::METHOD_FLAGS)?,
                )
            }
            _ => return None,
        };
        Some(Self {
            type_name: type_of(metadata, owner)?,
            name: metadata.name(called.table, called.row, name)?.into_owned(),
            is_native: flags & PINVOKE != 0,
        })
    }
}

/// Full name of a type that is not nested in another.
fn type_of(metadata: &Metadata<'_>, row: Row) -> Option<String> {
    match row.table {
        table::TYPE_REF | table::TYPE_DEF => {
            let space = metadata.name(row.table, row.row, column::TYPE_SPACE)?;
            Some(format!("{space}.{}", metadata.name(row.table, row.row, column::TYPE_NAME)?))
        }
        _ => None,
    }
}
