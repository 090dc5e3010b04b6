//! The layout of the file, read by hand as docs/formats.md describes it and not by the reader: what
//! both get wrong together would not show otherwise.

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
        .write(&SessionRecord::End(SessionEnd {
            time: 6,
            reason: EndReason::AgentLost,
            exit_code: Some(-1),
        }))
        .unwrap();
    let file = writer.finish().unwrap();

    assert_eq!(&file[..8], b"\x89CLRS\r\n\x1a");
    assert_eq!((u32_at(&file, 8), u32_at(&file, 12)), (2, 6));
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
        b"\x0a\x05\x02ok",
        // Numbers with a sign are zigzag.
        b"\x0b\x06\x02\x01\x01",
    ];
    assert_eq!(records, expected.concat());
}

#[test]
fn the_document_has_all_records_with_their_numbers() {
    let document = include_str!("../../../docs/formats.md");
    let model = include_str!("../src/model.rs");
    let names = variants(model, "pub enum SessionRecord {");
    assert_eq!((names.first(), names.last()), (Some(&"Info"), Some(&"HeapFields")));
    for (number, name) in names.iter().enumerate() {
        let row = format!("| {number} | `{name}` |");
        assert!(document.contains(&row), "docs/formats.md lacks the row: {row}");
    }
}

#[test]
fn the_document_has_the_records_of_format_1_in_their_order() {
    let document = include_str!("../../../docs/formats.md");
    let format1 = include_str!("../src/format1.rs");
    let names = variants(format1, "pub(crate) enum Record {");
    assert_eq!((names.first(), names.last()), (Some(&"Info"), Some(&"HeapFields")));
    let list: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let words: Vec<&str> = document.split_whitespace().collect();
    assert!(words.join(" ").contains(&format!("{}.", list.join(", "))), "{list:?}");
}

/// Names of the variants of an enumeration in a source file.
fn variants<'a>(source: &'a str, head: &str) -> Vec<&'a str> {
    let body = source.split(head).nth(1).unwrap().split("\n}\n").next().unwrap();
    let names = body.lines().filter_map(|line| {
        let name = line.strip_prefix("    ")?;
        name.starts_with(char::is_uppercase).then(|| name.split(['(', ' ', '{']).next().unwrap())
    });
    names.collect()
}

/// A session with one row in each of these states, and where its only block begins.
fn with_states(states: &[ThreadState]) -> (Vec<u8>, usize) {
    let mut writer = SessionWriter::new(Vec::new(), "1.2.3").unwrap();
    let info = SessionInfo {
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
    };
    writer.write(&SessionRecord::Info(info)).unwrap();
    let thread = ThreadDef {
        id: ThreadId(0),
        os_tid: 1,
        name: None,
        managed: true,
        started: None,
        ended: None,
    };
    writer.write(&SessionRecord::Thread(thread)).unwrap();
    let function = FunctionDef {
        id: FunctionId(0),
        kind: FunctionKind::Managed,
        module: None,
        type_name: String::new(),
        name: "Main".into(),
        parameters: String::new(),
        state_machine: None,
    };
    writer.write(&SessionRecord::Function(function)).unwrap();
    let (id, function, line, trust) = (FrameId(0), FunctionId(0), None, FrameTrust::Runtime);
    writer.write(&SessionRecord::Frame(FrameDef { id, function, line, trust })).unwrap();
    writer
        .write(&SessionRecord::Stack(StackDef { id: StackId(0), parent: None, frame: FrameId(0) }))
        .unwrap();
    let rows = states.len();
    let batch = SampleBatch {
        start: 5,
        time_delta: vec![0; rows],
        thread: vec![ThreadId(0); rows],
        stack: vec![StackId(0); rows],
        weight: vec![1; rows],
        state: states.to_vec(),
        truncated: vec![false; rows],
    };
    writer.write(&SessionRecord::WallSamples(batch)).unwrap();
    (writer.finish().unwrap(), 26)
}

/// The states of all samples of a session, and whether it was found damaged.
fn read_states(file: &[u8]) -> (Vec<ThreadState>, bool) {
    let mut states = Vec::new();
    for record in SessionReader::new(file).unwrap() {
        match record {
            Ok(SessionRecord::WallSamples(batch)) => states.extend(batch.state),
            Ok(_) => {}
            Err(_) => return (states, true),
        }
    }
    (states, false)
}

#[test]
fn states_keep_their_numbers() {
    use ThreadState::*;
    // The first eight are those of files from before there were more.
    let all =
        [Running, Lock, Sleep, Io, Idle, Gc, Task, Other, Event, Runtime, NoProcessor, Throttled];
    let (file, block) = with_states(&all);
    let payload = &file[block + 16..];
    let records = lz4_flex::block::decompress(payload, u32_at(&file[block..], 8) as usize).unwrap();
    let numbers: Vec<u8> = [12].into_iter().chain(0..12).collect();
    assert!(records.windows(13).any(|bytes| bytes == numbers), "{records:?}");
    assert_eq!(read_states(&file), (all.to_vec(), false));
}

#[test]
fn a_state_of_a_later_version_is_an_error_and_no_panic() {
    let (mut file, block) = with_states(&[ThreadState::Throttled; 3]);
    let raw_length = u32_at(&file[block..], 8) as usize;
    let mut records = lz4_flex::block::decompress(&file[block + 16..], raw_length).unwrap();
    let at = records.windows(4).rposition(|bytes| bytes == [3, 11, 11, 11]).unwrap();
    records[at + 2] = 99;
    let payload = lz4_flex::block::compress(&records);
    file.truncate(block + 16);
    file[block + 4..block + 8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let crc = crc32(&[&file[block..block + 12], payload.as_slice()].concat());
    file[block + 12..block + 16].copy_from_slice(&crc.to_le_bytes());
    file.extend(payload);
    let (states, damaged) = read_states(&file);
    assert!(states.is_empty() && damaged, "{states:?}");
}

#[test]
fn the_document_has_all_kinds_and_forms_of_cells() {
    let document = include_str!("../../../docs/formats.md");
    let rows = include_str!("../../rows/src/lib.rs");
    let variants = |name: &str| {
        let text = rows.split(&format!("pub enum {name} {{")).nth(1).unwrap();
        let lines = text.split("\n}\n").next().unwrap().lines();
        let names = lines.filter_map(|line| line.strip_prefix("    "));
        let names = names.filter(|name| name.starts_with(char::is_uppercase));
        let names = names.map(|name| name.split(['(', ' ', '{', ',']).next().unwrap());
        names.collect::<Vec<_>>()
    };
    let kinds = variants("Kind");
    assert_eq!((kinds.first(), kinds.last()), (Some(&"Time"), Some(&"List")));
    for (number, kind) in kinds.iter().enumerate() {
        assert!(document.contains(&format!("| {number} | `{kind}` |")), "{number} {kind}");
    }
    let forms = variants("Values");
    assert_eq!(forms, ["Times", "Whole", "Real", "Text", "Optional", "List"]);
    for (form, start) in
        [(0, "a list of times"), (4, "for each row, whether"), (5, "for each row, how many")]
    {
        assert!(document.contains(&format!("\n| {form} | {start}")), "{form}");
    }
}

/// Checks the bytes of a record: those of files that have been written.
fn check_bytes(record: &SessionRecord, bytes: &[u8]) {
    let written = postcard::to_stdvec(record).unwrap();
    assert_eq!(written, bytes, "{record:?}");
    assert_eq!(&postcard::from_bytes::<SessionRecord>(bytes).unwrap(), record);
}

#[test]
fn records_of_heap_snapshots_keep_their_bytes() {
    let snapshot = 3;
    let fields = vec![StaticField { address: 300, name: "A.b".into() }];
    let statics = SessionRecord::HeapStatics { snapshot, fields };
    check_bytes(&statics, b"\x23\x03\x01\xac\x02\x03A.b");
    let kinds = [FieldKind::Reference, FieldKind::Value, FieldKind::Other];
    let field = |kind| Field { offset: 8, name: "c".into(), kind };
    let fields = kinds.map(field).to_vec();
    let classes = vec![ClassFields { class: 5, parent: 6, fields }];
    let fields = SessionRecord::HeapFields { snapshot, classes };
    check_bytes(&fields, b"\x24\x03\x01\x05\x06\x03\x08\x01c\x00\x08\x01c\x01\x08\x01c\x02");
    let (time, paused, objects) = (300, 7, 8);
    let reason = Some("no".into());
    let end = HeapEnd { snapshot, time, paused, objects, complete: true, reason };
    check_bytes(&SessionRecord::HeapEnd(end), b"\x18\x03\xac\x02\x07\x08\x01\x01\x02no");
}

#[test]
fn records_of_survivors_keep_their_bytes() {
    let counts =
        vec![SurvivorCount { ty: TypeId(4), before: 0, after: 255, objects: 2, bytes: 48 }];
    let held =
        |holder| HeldSurvivors { holder, path: vec![TypeId(5), TypeId(4)], objects: 1, bytes: 24 };
    let holders = [
        SurvivorHolder::Older(2),
        SurvivorHolder::Handle,
        SurvivorHolder::Stack("M".into()),
        SurvivorHolder::Dependent,
        SurvivorHolder::Other,
        SurvivorHolder::Finalizer,
        SurvivorHolder::Unknown,
    ];
    let collection = SurvivedCollection {
        time: 300,
        generation: 1,
        induced: true,
        paused: 9,
        telling: 6,
        before: [10, 11, 12, 13, 14],
        moved: 15,
        objects: 16,
        complete: false,
        reason: Some("no".into()),
    };
    let snapshot = SurvivorSnapshot { collection, counts, held: holders.map(held).to_vec() };
    let expected = [
        &b"\x19\xac\x02\x01\x01\x09\x06\x0a\x0b\x0c\x0d\x0e\x0f\x10\x00\x01\x02no"[..],
        b"\x01\x04\x00\xff\x02\x30",
        b"\x07\x00\x02\x02\x05\x04\x01\x18\x01\x02\x05\x04\x01\x18\x02\x01M\x02\x05\x04\x01\x18",
        b"\x03\x02\x05\x04\x01\x18\x04\x02\x05\x04\x01\x18",
        b"\x05\x02\x05\x04\x01\x18\x06\x02\x05\x04\x01\x18",
    ];
    check_bytes(&SessionRecord::Survivors(snapshot), &expected.concat());
}

#[test]
fn records_of_instrumented_methods_keep_their_bytes() {
    let (method, rule) = (FunctionId(5), String::from("r"));
    let states: [(_, &[u8]); 4] = [
        (InstrumentState::Possible, b"\x00"),
        (InstrumentState::Requested, b"\x01"),
        (InstrumentState::Original, b"\x02"),
        (InstrumentState::Refused("no".into()), b"\x03\x02no"),
    ];
    for (state, bytes) in states {
        let of = Instrumented { method, rule: rule.clone(), slot: Some(7), state };
        let record = SessionRecord::Instrumented(InstrumentedMethod { time: 300, of });
        check_bytes(&record, &[&b"\x1b\xac\x02\x05\x01r\x01\x07"[..], bytes].concat());
    }
    let il = |byte| Il { bytes: vec![byte], text: "x".into() };
    let bodies = Ok((il(200), il(1)));
    let rewritten = RewrittenMethod { time: 300, method, rule, slot: 7, bodies };
    let record = SessionRecord::Rewritten(rewritten);
    check_bytes(&record, b"\x1d\xac\x02\x05\x01r\x07\x00\x01\xc8\x01x\x01\x01\x01x");
    let recompiled = RecompiledMethod { time: 300, method, failed: Some("no".into()) };
    check_bytes(&SessionRecord::Recompiled(recompiled), b"\x1e\xac\x02\x05\x01\x02no");
    let shown = [ParameterShown::ByValue, ParameterShown::Redacted, ParameterShown::ByType];
    let parameter = |shown| Parameter { name: "n".into(), type_name: "t".into(), shown };
    let parameters = shown.map(parameter).to_vec();
    let parameters = MethodParameters { method, parameters, refused: None };
    let record = SessionRecord::Parameters(parameters);
    check_bytes(&record, b"\x20\x05\x03\x01n\x01t\x00\x01n\x01t\x01\x01n\x01t\x02\x00");
}

#[test]
fn records_of_calls_keep_their_bytes() {
    let buckets = vec![(17, 2)];
    let (slot, calls, timed, failed, ticks, longest) = (7, 3, 2, 1, 300, 200);
    let method = TracedMethod { slot, calls, timed, failed, ticks, longest, buckets };
    let calls = TracedCalls { time: 300, ticks_per_second: 1000, methods: vec![method] };
    let bytes = b"\x1c\xac\x02\xe8\x07\x01\x07\x03\x02\x01\xac\x02\xc8\x01\x01\x11\x02";
    check_bytes(&SessionRecord::Traced(calls), bytes);
    let (thread, begun, taken) = (ThreadId(4), 300, 5);
    let call = SingleCall { slot, thread, begun, taken, failed: true, asynchronous: false };
    let of_call = b"\x07\x04\xac\x02\x05\x01\x00";
    let bytes = [&b"\x1f\x01"[..], of_call].concat();
    check_bytes(&SessionRecord::SingleCalls(vec![call]), &bytes);
    let arguments = [
        Argument::Number(-1),
        Argument::Float(0.5),
        Argument::Text { text: "x".into(), length: 9 },
        Argument::Null,
        Argument::Object { class: Some(TypeId(6)), elements: None },
    ];
    let call = CallArguments { call, arguments: (0..).zip(arguments).collect() };
    let bytes = [
        &b"\x21\x01"[..],
        of_call,
        b"\x05\x00\x00\x01\x01\x01\0\0\0\0\0\0\xe0\x3f\x02\x02\x01x\x09\x03\x03\x04\x04\x01\x06\x00",
    ];
    check_bytes(&SessionRecord::CallsWithArguments(vec![call]), &bytes.concat());
    let record = SessionRecord::Type(TypeDef { id: TypeId(6), name: "T".into() });
    check_bytes(&record, b"\x06\x06\x01T");
}
