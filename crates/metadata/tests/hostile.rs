//! Files that are not what they say: an error or a cut text, never a panic, a hang or a text
//! without end.

use cil::Verifier;
use metadata::{Assembly, Error, Metadata, bundled_files, table};
use proptest::prelude::*;
use std::fs;
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample};

/// Looks at everything there is to look at.
fn look(bytes: &[u8]) -> Result<usize, Error> {
    let assembly = Assembly::parse(bytes)?;
    let (mut text, mut verifier) = (String::new(), Verifier::new());
    for method in assembly.methods() {
        let _ = method.verify(&mut verifier);
        let _ = (method.full_name(), method.is_meant("*x*"));
        method.disassemble(&mut text).unwrap();
    }
    Ok(text.len())
}

/// A file of one section with metadata of these tables: their rows as they stand in the file.
/// Written by hand, so that the reader does not confirm itself. All indices take two bytes.
fn assembly(tables: &[(u8, &[&[u8]])], strings: &[u8], blobs: &[u8]) -> Vec<u8> {
    let mut stream = vec![0, 0, 0, 0, 2, 0, 0, 1];
    let present = tables.iter().fold(0_u64, |bits, (table, _)| bits | 1 << table);
    stream.extend(present.to_le_bytes());
    stream.extend([0; 8]);
    tables.iter().for_each(|(_, rows)| stream.extend((rows.len() as u32).to_le_bytes()));
    tables.iter().flat_map(|(_, rows)| rows.iter()).for_each(|row| stream.extend(*row));
    stream.resize(stream.len().next_multiple_of(4), 0);
    let mut metadata = b"BSJB\x01\0\x01\0\0\0\0\0\x04\0\0\0v4\0\0\0\0\x03\0".to_vec();
    let mut at = metadata.len() as u32 + 12 + 20 + 16;
    for (name, heap) in
        [(&b"#~\0\0"[..], &stream[..]), (b"#Strings\0\0\0\0", strings), (b"#Blob\0\0\0", blobs)]
    {
        metadata.extend(at.to_le_bytes());
        metadata.extend((heap.len() as u32).to_le_bytes());
        metadata.extend(name);
        at += heap.len() as u32;
    }
    metadata.extend([&stream[..], strings, blobs].concat());

    let mut file = vec![0; 0x200];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    let size = metadata.len() as u32 + 72;
    put(0, b"MZ");
    put(0x3c, &[0x80]);
    put(0x80, b"PE\0\0\x4c\x01\x01\0");
    put(0x94, &224_u16.to_le_bytes());
    put(0x98, &0x10b_u16.to_le_bytes());
    put(0x98 + 92, &16_u32.to_le_bytes());
    // The CLI header is the first thing in the section, the metadata are behind it.
    put(0x98 + 96 + 14 * 8, &0x2000_u32.to_le_bytes());
    put(
        0x178 + 8,
        &[
            size.to_le_bytes(),
            0x2000_u32.to_le_bytes(),
            size.to_le_bytes(),
            0x200_u32.to_le_bytes(),
        ]
        .concat(),
    );
    let mut header = vec![0; 72];
    header[8..16].copy_from_slice(&[0x2048_u32.to_le_bytes(), (size - 72).to_le_bytes()].concat());
    [file, header, metadata].concat()
}

/// `TypeDef` `T` with the first method, and a method `M` with this signature and a body address
/// of 0.
const TYPE: [u8; 14] = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0];
const METHOD: [u8; 14] = [0, 0, 0, 0, 0, 0, 0x16, 0, 3, 0, 1, 0, 1, 0];
const STRINGS: &[u8] = b"\0T\0M\0\0\0\0";

#[test]
fn types_inside_themselves() {
    // The second type is in the first and the first in the second.
    let nested: [&[u8]; 2] = [&[1, 0, 2, 0], &[2, 0, 1, 0]];
    let tables: [(u8, &[&[u8]]); 3] =
        [(0x02, &[&TYPE, &TYPE]), (0x06, &[&METHOD]), (0x29, &nested)];
    let file = assembly(&tables, STRINGS, &[0, 3, 0, 0, 1, 0, 0, 0]);
    let read = Assembly::parse(&file).unwrap();
    assert_eq!(read.metadata().rows(table::TYPE_DEF), 2);
    assert_eq!(read.metadata().type_name(1, '+'), None);
    assert_eq!(read.method(1).unwrap().full_name(), "M");
    look(&file).unwrap();
    // The same without the circle, so that it is the circle that was refused.
    let file =
        assembly(&[(0x02, &[&TYPE]), (0x06, &[&METHOD])], STRINGS, &[0, 3, 0, 0, 1, 0, 0, 0]);
    let read = Assembly::parse(&file).unwrap();
    assert_eq!(read.method(1).unwrap().full_name(), "T::M");
    assert_eq!(
        read.method(1).unwrap().declaration(),
        ".method public static void T::M() cil managed"
    );
}

#[test]
fn signatures_without_end() {
    // void M(int32[][][]…), 10 000 deep.
    let mut blob = vec![0, 1, 1];
    blob.extend(vec![0x1d; 10_000]);
    blob.push(8);
    let mut blobs = vec![0];
    blobs.extend((blob.len() as u16 | 0x8000).to_be_bytes());
    blobs.extend(&blob);
    blobs.resize(blobs.len().next_multiple_of(4), 0);
    let file = assembly(&[(0x02, &[&TYPE]), (0x06, &[&METHOD])], STRINGS, &blobs);
    let read = Assembly::parse(&file).unwrap();
    assert_eq!(read.method(1).unwrap().declaration(), ".method public static T::M cil managed");

    // A constructed type whose sixty arguments are all itself, and a method that returns it.
    let mut blobs = vec![0, 4, 0, 0, 0x12, 0x06];
    let spec = blobs.len() as u8;
    blobs.extend([124, 0x15, 0x12, 0x04, 60]);
    blobs.extend([0x12, 0x06].repeat(60));
    blobs.resize(blobs.len().next_multiple_of(4), 0);
    let tables: [(u8, &[&[u8]]); 3] = [(0x02, &[&TYPE]), (0x06, &[&METHOD]), (0x1b, &[&[spec, 0]])];
    let file = assembly(&tables, STRINGS, &blobs);
    let before = Instant::now();
    let text = Assembly::parse(&file).unwrap().method(1).unwrap().declaration();
    assert!(text.contains('…') && text.len() < 1 << 20, "{} characters", text.len());
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

#[test]
fn no_assemblies() {
    assert_eq!(look(b"").unwrap_err(), Error::NotPe);
    assert_eq!(look(b"\x7fELF and more").unwrap_err(), Error::NotPe);
    let mut native = assembly(&[(0x02, &[&TYPE])], STRINGS, &[0; 4]);
    native[0x98 + 96 + 14 * 8..][..4].fill(0);
    assert_eq!(look(&native).unwrap_err(), Error::Native);
    // More rows than there are bytes, in a table that indices would be wide of.
    let mut many = assembly(&[(0x02, &[&TYPE])], STRINGS, &[0; 4]);
    let rows = many.windows(4).position(|bytes| bytes == [2, 0, 0, 1]).unwrap() + 20;
    many[rows..rows + 4].fill(0xff);
    assert_eq!(look(&many).unwrap_err(), Error::Truncated { what: "a metadata table" });
    assert_eq!(bundled_files(b"nothing"), Ok(None));
}

#[test]
fn a_real_assembly_changed_everywhere() {
    let whole = fs::read(Sample::named("locker").compile(Runtime::V3_1).unwrap()).unwrap();
    let text = look(&whole).unwrap();
    assert!(text > 10_000, "{text}");
    for cut in (0..whole.len()).step_by(97) {
        let _ = look(&whole[..cut]);
    }
    // Odd steps, so that every field of every table is met somewhere.
    for (at, value) in
        (0..whole.len() - 4).step_by(11).zip([0xff_u8, 0x7f, 0x01, 0x80].into_iter().cycle())
    {
        let mut bytes = whole.clone();
        bytes[at] = value;
        bytes[at + 1] ^= value;
        let _ = look(&bytes);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_metadata_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400), row in any::<u32>()) {
        if let Ok(metadata) = Metadata::parse([&b"BSJB"[..], &bytes].concat()) {
            let _ = (metadata.type_name(row, '+'), metadata.blob(row), metadata.string(row), metadata.pdb_id());
        }
        let mut image = [&b"MZ"[..], &bytes].concat();
        image.resize(0x500, 0);
        let _ = Metadata::of_memory(|offset, size| {
            let start = usize::try_from(offset).ok()?;
            Some(image.get(start..start.checked_add(size)?)?.to_vec())
        });
    }
}
