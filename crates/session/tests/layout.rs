//! The layout of the file, read by hand as docs/formats.md describes it and not by the reader: what both get wrong together would
//! not show otherwise.

use session::*;

/// CRC-32 (IEEE 802.3), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn a_session_has_the_documented_layout() {
    let mut writer = SessionWriter::new(Vec::new(), "1.2.3").unwrap();
    writer
        .write(&SessionRecord::Info(SessionInfo {
            tool_version: "1.2.3".into(),
            pid: 300,
            process_name: "a".into(),
            command_line: String::new(),
            runtime: "9.0.5".into(),
            platform: "linux-x64".into(),
            entry: Entry::Launched,
            start_unix_ms: 0,
            start: 128,
            cpus: 2,
            profilers: Vec::new(),
        }))
        .unwrap();
    writer.write(&SessionRecord::Note { time: 5, message: "ok".into() }).unwrap();
    writer
        .write(&SessionRecord::End(SessionEnd { time: 6, reason: EndReason::AgentLost, exit_code: Some(-1) }))
        .unwrap();
    let file = writer.finish().unwrap();

    assert_eq!(&file[..8], b"\x89CLRS\r\n\x1a");
    assert_eq!((u32_at(&file, 8), u32_at(&file, 12)), (1, 6));
    assert_eq!(&file[20..26], b"\x051.2.3");
    assert_eq!(u32_at(&file, 16), crc32(&[&file[..16], &file[20..26]].concat()));
    let block = &file[26..];
    assert_eq!(block[..4], [1, 0, 0, 0]);
    let (length, raw_length) = (u32_at(block, 4) as usize, u32_at(block, 8) as usize);
    let payload = &block[16..];
    assert_eq!(payload.len(), length);
    assert_eq!(u32_at(block, 12), crc32(&[&block[..12], payload].concat()));
    let records = lz4_flex::block::decompress(payload, raw_length).unwrap();
    let expected = [
        // 300 and 128 take two bytes of seven bits each.
        &b"\x00\x051.2.3\xac\x02\x01a\x00\x059.0.5\x09linux-x64\x02\x00\x80\x01\x02\x00"[..],
        b"\x0e\x05\x02ok",
        // Numbers with a sign are zigzag.
        b"\x0f\x06\x02\x01\x01",
    ];
    assert_eq!(records, expected.concat());
}

#[test]
fn the_document_has_all_records_with_their_numbers() {
    let document = include_str!("../../../docs/formats.md");
    let model = include_str!("../src/model.rs");
    let variants = model.split("pub enum SessionRecord {").nth(1).unwrap().split("\n}\n").next().unwrap();
    let names = variants.lines().filter_map(|line| {
        let name = line.strip_prefix("    ")?;
        name.starts_with(char::is_uppercase).then(|| name.split(['(', ' ', '{']).next().unwrap())
    });
    let names: Vec<&str> = names.collect();
    assert_eq!((names.first(), names.last()), (Some(&"Info"), Some(&"Collection")));
    for (number, name) in names.iter().enumerate() {
        let row = format!("| {number} | `{name}` |");
        assert!(document.contains(&row), "docs/formats.md lacks the row: {row}");
    }
}
