//! What is loaded into a process has no thread-local storage that its loader knows of.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod support;

use object::elf::{FileHeader64, PT_LOAD, PT_TLS, ProgramType};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSymbol};
use recorder::AgentFile;
use std::sync::Arc;

fn segments(bytes: &[u8]) -> Vec<ProgramType> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).unwrap();
    let headers = header.program_headers(LittleEndian, bytes).unwrap();
    headers.iter().map(|header| header.p_type(LittleEndian)).collect()
}

#[test]
fn the_agent_has_no_segment_of_thread_local_storage() {
    let built = std::fs::read(support::agent()).unwrap();
    assert!(segments(&built).contains(&PT_TLS));
    let symbols = object::File::parse(&*built).unwrap();
    assert!(
        !symbols.dynamic_symbols().any(|symbol| symbol.name() == Ok("__tls_get_addr")),
        "the loader is asked"
    );
    let placed = AgentFile::Path(Arc::new(support::agent())).read().unwrap();
    let (built, placed) = (segments(&built), segments(&placed));
    assert!(placed.contains(&PT_LOAD) && !placed.contains(&PT_TLS), "{placed:x?}");
    assert_eq!(built.iter().zip(&placed).filter(|(built, placed)| built != placed).count(), 1);
}

#[test]
fn a_library_that_asks_the_loader_keeps_its_segment() {
    // The C library has storage of its own, with places that are built in.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.contains("/libc.so"))
        .unwrap();
    let placed = AgentFile::Path(Arc::new(libc.into())).read().unwrap();
    assert!(segments(&placed).contains(&PT_TLS));
}
