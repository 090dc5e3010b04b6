use cil::{MethodBody, Opcode, Operand, Token};
use metadata::{Metadata, PeHeaders, Row, column, table};
use rootfs::Root;
use std::ops::Range;
use std::path::Path;

/// Largest assembly that is read.
const MAX_ASSEMBLY: u64 = 256 << 20;

/// Of the flags of a method (ECMA-335 II.23.1.10 and 11): it stands for a function of a native library, and it holds
/// a lock while it runs.
const PINVOKE: u32 = 0x2000;
const SYNCHRONIZED: u32 = 0x0020;

/// Types whose methods wait in native code of the runtime without a frame of their own, as far as the compiler has
/// inlined what is managed of them. Up to .NET 9 nothing is of `Monitor.Enter`.
const MONITOR: &str = "System.Threading.Monitor";
const THREAD: &str = "System.Threading.Thread";

/// What a method can wait for while it is the innermost managed frame: the calls in its IL that run as native code and
/// show no frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafWaits {
    /// `lock`: it calls `Monitor.Enter` or `TryEnter`, or is synchronized.
    pub lock: bool,
    /// It calls `Monitor.Wait` or `Thread.Join`.
    pub signal: bool,
    /// It calls `Thread.Sleep`.
    pub sleep: bool,
    /// It calls a native function.
    pub native: bool,
}

impl LeafWaits {
    /// What either can wait for.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            lock: self.lock || other.lock,
            signal: self.signal || other.signal,
            sleep: self.sleep || other.sleep,
            native: self.native || other.native,
        }
    }
}

/// The IL of an assembly.
#[derive(Clone, Debug)]
pub struct AssemblyCode {
    bytes: Vec<u8>,
    headers: PeHeaders,
}

impl AssemblyCode {
    /// Reads an assembly in the file system of the process that has loaded it. `None` where it cannot be read, or where
    /// another build stands there now.
    #[must_use]
    pub fn read(root: &Root, assembly: &Path, module_version_id: [u8; 16]) -> Option<Self> {
        Self::new(root.read(assembly, MAX_ASSEMBLY).ok()?, module_version_id)
    }

    fn new(bytes: Vec<u8>, module_version_id: [u8; 16]) -> Option<Self> {
        let headers = PeHeaders::parse(&bytes).ok()?;
        let code = Self { bytes, headers };
        (code.metadata()?.module_version_id() == Some(module_version_id)).then_some(code)
    }

    fn metadata(&self) -> Option<Metadata<'_>> {
        Metadata::of_file(&self.bytes).ok()
    }

    /// What a method can wait for, by its token, in a part of its IL or in all of it; `None` where that cannot be read.
    #[must_use]
    pub fn leaf_waits(&self, token: u32, il: Option<Range<u32>>) -> Option<LeafWaits> {
        let metadata = self.metadata()?;
        let row = Row::of(Token(token)).filter(|row| row.table == table::METHOD_DEF)?.row;
        let get = |column| metadata.get(table::METHOD_DEF, row, column);
        let mut waits = LeafWaits {
            lock: get(column::METHOD_IMPL_FLAGS)? & SYNCHRONIZED != 0,
            native: get(column::METHOD_FLAGS)? & PINVOKE != 0,
            ..LeafWaits::default()
        };
        let address = get(column::METHOD_ADDRESS)?;
        if address == 0 {
            return Some(waits);
        }
        let Range { start, end } = self.headers.file_range(address)?;
        let body = MethodBody::parse(self.bytes.get(start..end.min(self.bytes.len()))?).ok()?;
        for instruction in body.instructions() {
            let instruction = instruction.ok()?;
            if il.as_ref().is_some_and(|il| !il.contains(&instruction.offset)) {
                continue;
            }
            match (instruction.opcode, instruction.operand) {
                (Opcode::Call | Opcode::Callvirt, Operand::Token(called)) => {
                    waits = waits.or(waits_of(&metadata, called).unwrap_or_default());
                }
                (Opcode::Calli, _) => waits.native = true,
                _ => {}
            }
        }
        Some(waits)
    }
}

/// What a call can wait for without a frame.
fn waits_of(metadata: &Metadata<'_>, called: Token) -> Option<LeafWaits> {
    let called = match Row::of(called)? {
        row if row.table == table::METHOD_SPEC => metadata.reference(row.table, row.row, column::METHOD_SPEC_METHOD)?,
        row => row,
    };
    let (ty, name) = match called.table {
        table::MEMBER_REF => {
            let parent = metadata.reference(called.table, called.row, column::MEMBER_REF_PARENT)?;
            let name = metadata.name(called.table, called.row, column::MEMBER_REF_NAME)?;
            (type_of(metadata, parent)?, name)
        }
        table::METHOD_DEF => {
            if metadata.get(called.table, called.row, column::METHOD_FLAGS)? & PINVOKE != 0 {
                return Some(LeafWaits { native: true, ..LeafWaits::default() });
            }
            let owner = Row { table: table::TYPE_DEF, row: owner(metadata, called.row)? };
            (type_of(metadata, owner)?, metadata.name(called.table, called.row, column::METHOD_NAME)?)
        }
        _ => return None,
    };
    let starts = |known: &[&str]| known.iter().any(|known| name.starts_with(known));
    let nothing = LeafWaits::default();
    Some(match ty.as_str() {
        MONITOR if starts(&["Enter", "TryEnter", "ReliableEnter"]) => LeafWaits { lock: true, ..nothing },
        MONITOR if name == "Wait" || starts(&["ObjWait"]) => LeafWaits { signal: true, ..nothing },
        THREAD if starts(&["Join"]) => LeafWaits { signal: true, ..nothing },
        THREAD if starts(&["Sleep", "UninterruptibleSleep"]) => LeafWaits { sleep: true, ..nothing },
        _ => nothing,
    })
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

/// The type that defines a method, by row: the last one whose methods begin at or before it.
fn owner(metadata: &Metadata<'_>, method: u32) -> Option<u32> {
    let (mut low, mut high) = (0, metadata.rows(table::TYPE_DEF));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if metadata.get(table::TYPE_DEF, middle, column::TYPE_METHODS)? <= method {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    (low > 0).then_some(low)
}
