//! Cells that the short form leaves out, because they fail for a reason that is known. Delete an entry when it is mended.

use super::table::{Cell, Table};

/// A fault: words that a cell's name holds, all of them, and why it fails.
struct Fault {
    words: &'static [&'static str],
    why: &'static str,
}

const FAULTS: &[Fault] = &[
    Fault {
        words: &["squatter"],
        why: "names of the agent's abstract sockets can be taken by any local user, and clrscope then waits too long",
    },
    Fault {
        words: &["seccomp-kill"],
        why: "the agent calls process_vm_readv and timer_create without looking first whether a filter kills for that",
    },
    Fault {
        words: &["churn1000", "pid-namespace"],
        why: "clrscope reads the status of all threads again for each one that is gone, and never catches up",
    },
];

/// Why a cell is known to fail.
pub fn fault(table: &Table, cell: &Cell) -> Option<&'static str> {
    let name = table.shown(cell);
    let words: Vec<&str> = name.split(' ').collect();
    let fault = FAULTS.iter().find(|fault| fault.words.iter().all(|word| words.contains(word)))?;
    Some(fault.why)
}
