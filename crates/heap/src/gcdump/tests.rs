use super::*;
use crate::{
    Generation, MemoryBudget, NodeId, Root, RootKind, Snapshot, SnapshotBuilder, SnapshotEnd,
};
use proptest::prelude::*;
use std::cell::Cell;

fn end() -> SnapshotEnd {
    SnapshotEnd {
        complete: true,
        unix_ms: 1_700_000_000_123,
        process: "Löwe 🦁".into(),
        pid: 4711,
        ..SnapshotEnd::default()
    }
}

fn root(target: u64, kind: RootKind) -> Root {
    Root { target, kind, pinned: false, weak: false, interior: false, id: 0 }
}

fn written(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = write(snapshot, &mut bytes).unwrap();
    assert_eq!(length, bytes.len() as u64);
    bytes
}

fn small() -> Snapshot {
    let mut builder = SnapshotBuilder::new(MemoryBudget::default());
    builder.class(1, "A", "m.dll");
    builder.class(2, "B", "");
    builder.object(0x1000, 1, 24);
    builder.reference(0x2000);
    builder.object(0x2000, 2, 24);
    builder.reference(0x1000);
    builder.object(0x3000, 2, 300);
    builder.generation(Generation { generation: 2, start: 0x1000, length: 0x1000 });
    builder.generation(Generation { generation: 3, start: 0x3000, length: 0x1000 });
    builder.root_name(9, "A.cache");
    builder.root(Root { id: 9, ..root(0x1000, RootKind::Statics) });
    builder.root(Root { pinned: true, ..root(0x3000, RootKind::Handle) });
    builder.finish(end())
}

/// What the file has to be, byte by byte, by the description of the format and not by our reader.
#[test]
fn bytes_are_those_of_the_format() {
    let bytes = written(&small());
    let mut expected: Vec<u8> = Vec::new();
    fn i32s(to: &mut Vec<u8>, values: &[i32]) {
        values.iter().for_each(|value| to.extend(value.to_le_bytes()));
    }
    fn i64s(to: &mut Vec<u8>, values: &[i64]) {
        values.iter().for_each(|value| to.extend(value.to_le_bytes()));
    }
    fn text(to: &mut Vec<u8>, value: &str) {
        i32s(to, &[value.len() as i32]);
        to.extend(value.as_bytes());
    }
    text(&mut expected, "!FastSerialization.1");
    // BeginObject, its type: BeginObject, NullReference, version, least version of readers, name,
    // EndObject.
    expected.extend([4, 4, 1]);
    i32s(&mut expected, &[10, 8]);
    text(&mut expected, "GCHeapDump");
    expected.extend([6, 4, 4, 1]);
    i32s(&mut expected, &[1, 0]);
    text(&mut expected, "Graphs.MemoryGraph");
    expected.push(6);
    i64s(&mut expected, &[24 + 24 + 300]);
    // Root, number of types: three, four for roots, one for the static field.
    i32s(&mut expected, &[3, 8]);
    for (name, size, module) in [("UNDEFINED", 0, None), ("A", 24, Some("m.dll")), ("B", 24, None)]
    {
        text(&mut expected, name);
        i32s(&mut expected, &[size]);
        match module {
            Some(module) => text(&mut expected, module),
            None => i32s(&mut expected, &[-1]),
        }
    }
    for name in [
        "[.NET Roots]",
        "[static vars]",
        "[other roots]",
        "[pinning Handles]",
        "[static var A.cache]",
    ] {
        text(&mut expected, name);
        i32s(&mut expected, &[0, -1]);
    }
    let nodes: [&[u8]; 8] = [
        // Type 1 and no size of its own: 2; one reference, one node further on.
        &[2, 1, 1],
        // A distance of -1 in seven bits.
        &[4, 1, 0x7f],
        // Type 2 with a size of its own: 300 is 2 * 128 + 44.
        &[5, 0x82, 0x2c, 0],
        // [.NET Roots] with [static vars] and [other roots].
        &[6, 2, 1, 2],
        // The static field is three nodes further on.
        &[8, 1, 3],
        &[10, 1, 1],
        // Six and seven nodes back.
        &[12, 1, 0x7c],
        &[14, 1, 0x79],
    ];
    i32s(&mut expected, &[8]);
    let mut at = 2;
    for node in nodes {
        i32s(&mut expected, &[at]);
        at += node.len() as i32;
    }
    i32s(&mut expected, &[at]);
    expected.extend([0, 0]);
    nodes.iter().for_each(|node| expected.extend(*node));
    i32s(&mut expected, &[8]);
    i64s(&mut expected, &[0x1000, 0x2000, 0x3000, 0, 0, 0, 0, 0]);
    // 64 bits, tagged as a byte; EndObject; the same untagged; two multipliers; no JavaScript.
    expected.extend([8, 1, 6, 1]);
    expected.extend([1f32.to_le_bytes(), 1f32.to_le_bytes()].concat());
    expected.extend([1, 4, 4, 1]);
    i32s(&mut expected, &[0, 0]);
    text(&mut expected, "DotNetHeapInfo");
    expected.push(6);
    i64s(&mut expected, &[0x2000]);
    i32s(&mut expected, &[2]);
    let type_of_segment = expected.len() as i32 + 1;
    expected.extend([4, 4, 1]);
    i32s(&mut expected, &[1, 1]);
    text(&mut expected, "GCHeapDumpSegment");
    expected.push(6);
    i64s(&mut expected, &[0x1000, 0x2000, 0x2000, 0x2000, 0x2000, 0x1000, 0x1000]);
    expected.extend([6, 4, 2]);
    i32s(&mut expected, &[type_of_segment]);
    i64s(&mut expected, &[0x3000, 0x4000, 0x4000, 0x4000, 0x4000, 0x4000, 0x3000]);
    expected.extend([6, 6]);
    text(&mut expected, "");
    // 2023-11-14 22:13:20.123 in intervals of 100 ns since the year 1.
    i64s(&mut expected, &[638_355_968_001_230_000]);
    i32s(&mut expected, &[-1]);
    // Eight UTF-16 units: the pair of the lion is written as its two halves.
    i32s(&mut expected, &[7]);
    expected.extend([b'L', 0xc3, 0xb6, b'w', b'e', b' ', 0xed, 0xa0, 0xbe, 0xed, 0xb6, 0x81]);
    i32s(&mut expected, &[4711]);
    i64s(&mut expected, &[0, 0]);
    i32s(&mut expected, &[0]);
    // SkipRegion, forward reference 0, NullReference; the tool, tagged as a text; the end of the
    // object and of all.
    expected.extend([12, 0, 0, 0, 0, 1]);
    let behind = expected.len() as i32;
    expected.push(13);
    text(&mut expected, "clrscope");
    expected.extend([6, 6]);
    let table = expected.len() as i32;
    i32s(&mut expected, &[1, behind]);
    let trailer = expected.len() as i32;
    i32s(&mut expected, &[table, trailer]);
    let differs = bytes.iter().zip(&expected).position(|(one, other)| one != other);
    assert_eq!(
        differs,
        None,
        "{:?} instead of {:?}",
        &bytes[differs.unwrap()..],
        &expected[differs.unwrap()..]
    );
    assert_eq!(bytes.len(), expected.len());
}

fn same(one: &Snapshot, other: &Snapshot) {
    assert_eq!(one.len(), other.len());
    for node in one.nodes() {
        assert_eq!(one.address(node), other.address(node));
        assert_eq!(one.size(node), other.size(node));
        assert_eq!(
            one.types()[one.type_of(node) as usize],
            other.types()[other.type_of(node) as usize]
        );
        assert_eq!(one.references(node), other.references(node));
        assert_eq!(one.generation_of(node), other.generation_of(node));
    }
    let roots = |snapshot: &Snapshot| -> Vec<(NodeId, RootKind, bool, Option<String>)> {
        let mut roots: Vec<_> = snapshot
            .roots()
            .iter()
            .filter(|root| !root.weak)
            .map(|root| {
                // Of other kinds, the format does not tell which are pinned.
                let pinned = root.pinned && root.kind == RootKind::Handle;
                (root.node, root.kind, pinned, snapshot.root_name(root).map(str::to_owned))
            })
            .collect();
        roots.sort();
        roots.dedup();
        roots
    };
    assert_eq!(roots(one), roots(other));
    let end = |snapshot: &Snapshot| {
        (snapshot.end().process.clone(), snapshot.end().pid, snapshot.end().unix_ms)
    };
    assert_eq!(end(one), end(other));
}

#[test]
fn what_is_written_is_read() {
    let snapshot = small();
    let read = read(&written(&snapshot), MemoryBudget::default()).unwrap();
    same(&snapshot, &read);
    assert!(read.end().complete);
    assert_eq!(read.generation_of(2), 3);
}

proptest! {
    #[test]
    fn any_snapshot_comes_back(
        objects in prop::collection::btree_map(
            0u64..3000,
            (0u64..6, prop_oneof![0u64..100, 0u64..1 << 31], prop::collection::vec(0u64..3000, 0..6)),
            0..60,
        ),
        roots in prop::collection::vec((0u64..3000, 0usize..5, any::<bool>(), any::<bool>()), 0..12),
        name in "\\PC{0,12}",
    ) {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        for (place, (class, size, references)) in &objects {
            builder.object(0x7f00_0000 + place * 8, *class, *size);
            references.iter().for_each(|to| builder.reference(0x7f00_0000 + to * 8));
        }
        for class in 0..6 {
            builder.class(class, &format!("N.{name}{class}"), if class % 2 == 0 { "m" } else { "" });
        }
        for (place, kind, pinned, weak) in roots {
            builder.root(Root { pinned, weak, ..root(0x7f00_0000 + place * 8, RootKind::ALL[kind]) });
        }
        let snapshot = builder.finish(end());
        let read = read(&written(&snapshot), MemoryBudget::default()).unwrap();
        same(&snapshot, &read);
    }

    /// Whatever is changed, the answer is a snapshot or an error.
    #[test]
    fn damage_is_no_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = written(&small());
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(snapshot) = read(&bytes, MemoryBudget::default()) {
            prop_assert!(snapshot.len() <= 12);
        }
    }

    #[test]
    fn any_bytes_are_no_panic(tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = (SIGNATURE.len() as u32).to_le_bytes().to_vec();
        bytes.extend(SIGNATURE);
        bytes.extend(tail);
        let _ = read(&bytes, MemoryBudget::default());
    }
}

#[test]
fn every_cut_is_an_error_with_its_place() {
    let bytes = written(&small());
    // What comes behind the object is only looked at where something has to be skipped.
    let behind = bytes.windows(8).rposition(|part| part == b"clrscope").unwrap() + 9;
    for length in 0..behind {
        match read(&bytes[..length], MemoryBudget::default()) {
            Err(GcdumpError::NotGcdump) => assert!(length < 24),
            Err(GcdumpError::Truncated { at }) => assert!(at <= length as u64),
            Err(GcdumpError::Damaged { at, .. }) => {
                assert!(at <= length as u64, "{at} of {length}")
            }
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[test]
fn other_files_and_versions_are_told() {
    assert!(matches!(
        read(b"MDMP and more than 24 bytes", MemoryBudget::default()),
        Err(GcdumpError::NotGcdump)
    ));
    let bytes = written(&small());
    let version = bytes.windows(10).position(|part| part == b"GCHeapDump").unwrap() - 12;
    for (number, needs) in [(8i32, 8i32), (12, 11)] {
        let mut other = bytes.clone();
        other[version..version + 4].copy_from_slice(&number.to_le_bytes());
        other[version + 4..version + 8].copy_from_slice(&needs.to_le_bytes());
        let error = read(&other, MemoryBudget::default()).unwrap_err();
        assert!(matches!(error, GcdumpError::Version { version: 8 | 11 }), "{error}");
    }
}

#[test]
fn a_chain_of_nodes_for_roots_that_leads_back_ends() {
    // [other roots] gets itself as a child: the distance 0 in place of 1.
    let mut bytes = written(&small());
    let place = bytes.windows(4).position(|part| part == [6, 2, 1, 2]).unwrap() + 4 + 3;
    assert_eq!(bytes[place..place + 3], [10, 1, 1]);
    bytes[place + 2] = 0;
    let snapshot = read(&bytes, MemoryBudget::default()).unwrap();
    assert_eq!(snapshot.roots().len(), 1);
}

/// A file as an attacker makes it: names of types, where each node is described, and what stands
/// there. `segments` are as many segments of the heap, of a type with a name of `name` bytes.
fn made(types: &[&str], labels: &[u32], block: &[u8], segments: usize, name: usize) -> Vec<u8> {
    fn text(to: &mut Vec<u8>, value: &str) {
        to.extend((value.len() as i32).to_le_bytes());
        to.extend(value.as_bytes());
    }
    fn begin(to: &mut Vec<u8>, name: &str, version: i32) {
        to.extend([tag::BEGIN_OBJECT, tag::BEGIN_OBJECT, tag::NULL]);
        to.extend([version.to_le_bytes(), 0i32.to_le_bytes()].concat());
        text(to, name);
        to.push(tag::END_OBJECT);
    }
    let mut bytes = Vec::new();
    text(&mut bytes, "!FastSerialization.1");
    begin(&mut bytes, "GCHeapDump", 10);
    begin(&mut bytes, "Graphs.MemoryGraph", 1);
    bytes.extend([0; 8]);
    bytes.extend([0i32.to_le_bytes(), (types.len() as i32).to_le_bytes()].concat());
    for name in types {
        text(&mut bytes, name);
        bytes.extend([0i32.to_le_bytes(), (-1i32).to_le_bytes()].concat());
    }
    bytes.extend((labels.len() as i32).to_le_bytes());
    labels.iter().for_each(|label| bytes.extend(label.to_le_bytes()));
    bytes.extend((block.len() as i32).to_le_bytes());
    bytes.extend(block);
    bytes.extend((labels.len() as i32).to_le_bytes());
    bytes.resize(bytes.len() + labels.len() * 8, 0);
    bytes.extend([tag::END_OBJECT, 1]);
    bytes.extend([1f32.to_le_bytes(), 1f32.to_le_bytes()].concat());
    bytes.push(tag::NULL);
    begin(&mut bytes, "DotNetHeapInfo", 0);
    bytes.extend([0; 8]);
    bytes.extend((segments as i32).to_le_bytes());
    let place = bytes.len() as u32 + 1;
    for segment in 0..segments {
        match segment {
            0 => begin(&mut bytes, &"S".repeat(name), 0),
            _ => {
                bytes.extend([tag::BEGIN_OBJECT, tag::OBJECT_REFERENCE]);
                bytes.extend(place.to_le_bytes());
            }
        }
        bytes.extend([0; 48]);
        bytes.push(tag::END_OBJECT);
    }
    bytes.push(tag::END_OBJECT);
    text(&mut bytes, "");
    bytes.extend([0; 8]);
    text(&mut bytes, "");
    text(&mut bytes, "");
    bytes.extend([0; 24]);
    bytes.push(tag::END_OBJECT);
    bytes
}

/// As [`Out::compressed`](super::write), in five bytes.
fn number(value: i32) -> [u8; 5] {
    [28, 21, 14, 7, 0].map(|shift| (value >> shift) as u8 & 0x7f | if shift > 0 { 0x80 } else { 0 })
}

/// Described once, with a million references, and so a hundred thousand times: a hundred billion
/// references in 1.7 MB.
#[test]
fn nodes_that_share_a_description_cost_its_length_once() {
    let references = 1_000_000;
    // A node of type 1, whose references lead to itself.
    let shared = [&number(2)[..], &number(references), &vec![0; references as usize]].concat();
    let labels = |nodes: usize, of: u32| [vec![0], vec![of; nodes]].concat();
    // The root node, of type 0, has one reference: to the next node.
    let root = [&number(0)[..], &number(1), &number(1)].concat();
    let block = [root.clone(), shared].concat();
    let bytes = made(&["[.NET Roots]", "T"], &labels(100_000, root.len() as u32), &block, 0, 0);
    let decoded = Cell::new(0);
    let error = read::read_counted(&bytes, MemoryBudget::default(), &decoded).unwrap_err();
    assert!(
        matches!(error, GcdumpError::Damaged { what: "descriptions of nodes overlap", .. }),
        "{error}"
    );
    assert!(
        decoded.get() <= block.len() as u64,
        "{} references of {} bytes",
        decoded.get(),
        block.len()
    );

    // Nodes for roots, each with references to all others: to the first nodes, so that each is
    // followed.
    let count = 3000;
    let children = (0..count).flat_map(|_| number(1)).collect::<Vec<_>>();
    let block = [&number(0)[..], &number(count), &children].concat();
    let bytes = made(&["[other roots]"], &vec![0; 500_000], &block, 0, 0);
    decoded.set(0);
    let error = read::read_counted(&bytes, MemoryBudget::default(), &decoded).unwrap_err();
    assert!(
        matches!(error, GcdumpError::Damaged { what: "descriptions of nodes overlap", .. }),
        "{error}"
    );
    assert!(
        decoded.get() <= block.len() as u64,
        "{} references of {} bytes",
        decoded.get(),
        block.len()
    );

    // What tools write: nodes that nobody described share a description without references.
    let block = [&root[..], &number(0), &number(0)].concat();
    let bytes = made(&["UNDEFINED"], &labels(1000, root.len() as u32), &block, 0, 0);
    assert!(read(&bytes, MemoryBudget::default()).unwrap().is_empty());
}

/// A long name is there once, however many nodes and segments have it.
#[test]
fn long_names_are_not_copied_for_each_of_many() {
    // The root refers to all others, which are static fields of one name and refer to the one
    // object of the heap, the last node.
    let fields = 2000;
    let field = format!("[static var {}]", "x".repeat(100_000));
    let mut block = [&number(0)[..], &number(fields)].concat();
    block.extend((0..fields).flat_map(|field| number(field + 1)));
    let mut labels = vec![0];
    for to in (1..=fields).rev() {
        labels.push(block.len() as u32);
        block.extend([number(2), number(1), number(to)].concat());
    }
    labels.push(block.len() as u32);
    block.extend([number(4), number(0)].concat());
    // 630 GB, if the name of the type of segments were copied for each.
    let bytes = made(&["[.NET Roots]", &field, "T"], &labels, &block, 150_000, 4 << 20);
    let snapshot = read(&bytes, MemoryBudget::default()).unwrap();
    assert_eq!((snapshot.len(), snapshot.roots().len()), (1, fields as usize));
    let names: Vec<*const u8> =
        snapshot.roots().iter().map(|root| snapshot.root_name(root).unwrap().as_ptr()).collect();
    assert!(names.windows(2).all(|pair| pair[0] == pair[1]));
}
