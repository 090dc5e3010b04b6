//! Any bytes as any format: an error or a session that can be read, never a panic.

mod common;

use common::{export, session_of};
use heap::{MemoryBudget, Root, RootKind, SnapshotBuilder, SnapshotEnd};
use import::Format;
use profile::{BuildOptions, Profile};
use proptest::prelude::*;
use std::{io::Read as _, sync::LazyLock};

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

fn gcdump() -> Vec<u8> {
    let mut builder = SnapshotBuilder::new(MemoryBudget::default());
    for (class, name) in [(1, "Shop.Cart"), (2, "System.String")] {
        builder.class(class, name, "Shop.dll");
    }
    builder.object(0x1000, 1, 32);
    builder.reference(0x1020);
    builder.object(0x1020, 2, 40);
    for (kind, id) in [(RootKind::Handle, 0), (RootKind::Statics, 9)] {
        let (target, pinned, weak, interior) = (0x1000, false, false, false);
        builder.root(Root { target, kind, pinned, weak, interior, id });
    }
    builder.root_name(9, "Shop.Cart.all");
    let end = SnapshotEnd { complete: true, process: "shop".into(), ..SnapshotEnd::default() };
    let mut out = Vec::new();
    heap::gcdump::write(&builder.finish(end), &mut out).unwrap();
    out
}

/// A whole file of each format.
static SEEDS: LazyLock<Vec<(Format, Vec<u8>)>> = LazyLock::new(|| {
    vec![
        (Format::Pprof, unpacked(&export("pprof", None))),
        (Format::Pprof, export("pprof", None)),
        (Format::Collapsed, export("collapsed", None)),
        (Format::Json, export("speedscope", None)),
        (Format::Json, export("firefox", None)),
        (Format::Gcdump, gcdump()),
        (Format::Nettrace, include_bytes!("data/small.nettrace").to_vec()),
    ]
});

#[derive(Clone, Debug)]
enum Change {
    Cut(prop::sample::Index),
    Byte(prop::sample::Index, u8),
    Repeat(prop::sample::Index, usize),
    Remove(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        at().prop_map(Change::Cut),
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (at(), 1..64_usize).prop_map(|(at, length)| Change::Repeat(at, length)),
        (at(), 1..64_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (at(), proptest::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
    ]
}

fn changed(bytes: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let range = |at: usize, length: usize, end: usize| at..(at + length).min(end);
        match change {
            Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Change::Byte(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Change::Repeat(at, length) => {
                let at = at.index(bytes.len());
                let part = bytes[range(at, *length, bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
            Change::Remove(at, length) => {
                let at = at.index(bytes.len());
                let range = range(at, *length, bytes.len());
                bytes.drain(range);
            }
            Change::Insert(at, more) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, more.iter().copied());
            }
        }
    }
    bytes
}

/// Imports bytes. What becomes a session can be read, all of it.
fn check(bytes: &[u8], format: Format) -> Result<(), TestCaseError> {
    if let Ok(session) = session_of(bytes, format) {
        let profile = Profile::read(&session[..], BuildOptions::default());
        let profile = profile.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(!profile.cut_short && profile.damage.is_none(), "{:?}", profile.damage);
    }
    Ok(())
}

#[test]
fn whole_files_are_read() {
    for (format, bytes) in SEEDS.iter() {
        session_of(bytes, *format).unwrap_or_else(|error| panic!("{format}: {error}"));
        let found = import::detect(&mut std::io::Cursor::new(bytes)).unwrap();
        assert_eq!(found, Some(*format));
    }
}

#[test]
fn a_heap_dump_keeps_its_graph() {
    let session = session_of(&gcdump(), Format::Gcdump).unwrap();
    let profile = Profile::read(&session[..], BuildOptions::default()).unwrap();
    assert_eq!(profile.info.process_name, "shop");
    assert!(profile.run("heap").is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn changed_files_do_no_harm(
        seed in any::<prop::sample::Index>(),
        changes in proptest::collection::vec(change(), 1..4),
    ) {
        let (format, bytes) = &SEEDS[seed.index(SEEDS.len())];
        check(&changed(bytes, &changes), *format)?;
    }

    #[test]
    fn any_bytes_do_no_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..512),
        seed in any::<prop::sample::Index>(),
    ) {
        let (format, seed) = &SEEDS[seed.index(SEEDS.len())];
        check(&bytes, *format)?;
        check(&[&seed[..seed.len().min(48)], &bytes].concat(), *format)?;
        drop(import::detect(&mut std::io::Cursor::new(&bytes)));
    }
}
