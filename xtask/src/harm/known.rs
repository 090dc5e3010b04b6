//! Cells that the short form leaves out, because they fail for a reason that is known. Delete an entry when it is mended.

use super::table::{Cell, Table};

/// A fault: words that a cell's name holds, all of them, and why it fails.
struct Fault {
    words: &'static [&'static str],
    why: &'static str,
}

const FAULTS: &[Fault] = &[];

/// Why a cell is known to fail.
pub fn fault(table: &Table, cell: &Cell) -> Option<&'static str> {
    let name = table.shown(cell);
    let words: Vec<&str> = name.split(' ').collect();
    let fault = FAULTS.iter().find(|fault| fault.words.iter().all(|word| words.contains(word)))?;
    Some(fault.why)
}
