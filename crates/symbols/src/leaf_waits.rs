use crate::assembly_code::{AssemblyCode, Callee, PINVOKE};
use cil::{MethodBody, Opcode, Operand, Token};
use metadata::{Metadata, Row, column, table};
use std::ops::Range;

/// Of the flags of a method (ECMA-335 II.23.1.11): it holds a lock while it runs.
const SYNCHRONIZED: u32 = 0x0020;

/// Types whose methods wait in native code of the runtime without a frame of their own, as far as
/// the compiler has inlined what is managed of them. Up to .NET 9 nothing is of `Monitor.Enter`.
const MONITOR: &str = "System.Threading.Monitor";
const THREAD: &str = "System.Threading.Thread";

/// What a method can wait for while it is the innermost managed frame: the calls in its IL that run
/// as native code and show no frame.
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

impl AssemblyCode {
    /// What a method can wait for, by its token, in a part of its IL or in all of it; `None` where
    /// that cannot be read.
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
    let Callee { type_name, name, is_native } = Callee::of(metadata, called)?;
    if is_native {
        return Some(LeafWaits { native: true, ..LeafWaits::default() });
    }
    let starts = |known: &[&str]| known.iter().any(|known| name.starts_with(known));
    let nothing = LeafWaits::default();
    Some(match type_name.as_str() {
        MONITOR if starts(&["Enter", "TryEnter", "ReliableEnter"]) => {
            LeafWaits { lock: true, ..nothing }
        }
        MONITOR if name == "Wait" || starts(&["ObjWait"]) => LeafWaits { signal: true, ..nothing },
        THREAD if starts(&["Join"]) => LeafWaits { signal: true, ..nothing },
        THREAD if starts(&["Sleep", "UninterruptibleSleep"]) => {
            LeafWaits { sleep: true, ..nothing }
        }
        _ => nothing,
    })
}
