//! What fault injection writes when a session ends, and when the library is unloaded.

use super::*;
use crate::ledger;

/// Writes what was called and what failed. `unloaded` when the library goes, and nothing may be
/// held any more.
pub fn write(unloaded: bool) {
    let Some(path) = path(c".out") else { return };
    let mode = MODE.swap(OFF, SeqCst);
    let file = open_file(&path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC);
    let mut text = Text { bytes: [0; 4096], used: 0, file };
    let _ = writeln!(text, "failed {}", FAILED.load(Relaxed));
    let _ = writeln!(text, "failed-site {:x}", FAILED_SITE.load(Relaxed));
    let _ = writeln!(text, "lost {}", LOST.load(Relaxed));
    let _ = writeln!(text, "allocations {}", ALLOCATIONS.load(Relaxed));
    let counted = HASHES.iter().zip(&NEAR_HASHES).zip(&COUNTS).zip(&FUNCTIONS);
    for (((hash, near), count), function) in counted {
        let hash = hash.load(Relaxed);
        if hash != 0 {
            let _ = writeln!(
                text,
                "site {hash:x} {:x} {} {}",
                near.load(Relaxed),
                name(function.load(Relaxed)),
                count.load(Relaxed)
            );
        }
    }
    if unloaded {
        for resource in wire::Resource::ALL {
            let _ = writeln!(text, "held {} {}", ledger::held(*resource), resource.name());
        }
    }
    let _ = writeln!(text, "{}", if unloaded { "unloaded" } else { "ended" });
    text.empty();
    // SAFETY: it was just opened.
    unsafe { libc::close(file) };
    MODE.store(mode, SeqCst);
}

extern "C" fn loaded() {
    begin();
}

extern "C" fn unloaded() {
    write(true);
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
// The linker puts numbered ones first, and they run from the last to the first: this one runs after
// what gives back the key of thread-local values.
#[used]
#[unsafe(link_section = ".fini_array.00101")]
static UNLOADED: extern "C" fn() = unloaded;
