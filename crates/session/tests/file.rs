//! The session file: what is written is read back, truncation and damage are reported, nothing
//! panics.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use profilers::{gc::Induced, loads::Unloaded};
use proptest::prelude::*;
use rows::{ColumnDef, Kind, Values};
use session::*;

fn info() -> SessionRecord {
    SessionRecord::Info(SessionInfo {
        tool_version: "0.1.0".into(),
        pid: 4711,
        process_name: "shop".into(),
        command_line: "dotnet shop.dll --urls http://*:80".into(),
        runtime: "9.0.5".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 1_700_000_000_000,
        start: 1_000_000,
        cpus: 8,
        profilers: vec![ProfilerRun {
            id: "cpu".into(),
            engine: "kernel ring".into(),
            rate_hz: Some(99),
            params: vec![("depth".into(), "256".into())],
        }],
    })
}

fn end() -> SessionRecord {
    SessionRecord::End(SessionEnd {
        time: 99,
        reason: EndReason::ProcessExited,
        exit_code: Some(-1),
    })
}

/// What a random record is made of; ids are made to fit by [`build`].
#[derive(Clone, Debug)]
enum Seed {
    Thread(String, bool),
    Module(String),
    Function(String, u8),
    Frame(u32, Option<u32>),
    Stack(u32, u32),
    Type(String),
    Samples(bool, u64, Vec<(u64, u32, u32, u64, u8, bool)>),
    Induced(u64, u32, bool),
    Snapshot(u64, Vec<(u64, u32, u32, u64, u8, bool)>),
    SingleCalls(Vec<(u32, u64, u64, bool)>),
    Parameters(String, u8),
    CallsWithArguments(Vec<(u32, u64, Option<String>, i64)>),
    AssemblyUnload(u64, String),
    HeapSnapshot(Vec<Vec<u8>>, Vec<(u64, String, String)>, Option<String>),
    Survivors(u64, Vec<(u64, u32, u32, u64, u8, bool)>, Option<String>),
    Observer(u64, Vec<(String, u64)>),
    Note(String),
}

fn seed() -> impl Strategy<Value = Seed> {
    let row = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u64>(), any::<u8>(), any::<bool>());
    prop_oneof![
        ("[a-z]{0,12}", any::<bool>()).prop_map(|(n, m)| Seed::Thread(n, m)),
        "\\PC{0,20}".prop_map(Seed::Module),
        ("\\PC{0,20}", any::<u8>()).prop_map(|(n, k)| Seed::Function(n, k)),
        (any::<u32>(), any::<Option<u32>>()).prop_map(|(f, l)| Seed::Frame(f, l)),
        (any::<u32>(), any::<u32>()).prop_map(|(p, f)| Seed::Stack(p, f)),
        "\\PC{0,20}".prop_map(Seed::Type),
        (any::<bool>(), any::<u64>(), prop::collection::vec(row, 0..40))
            .prop_map(|(c, s, r)| Seed::Samples(c, s, r)),
        (any::<u64>(), prop::collection::vec(row, 0..40)).prop_map(|(t, r)| Seed::Snapshot(t, r)),
        prop::collection::vec(any::<(u32, u64, u64, bool)>(), 0..5).prop_map(Seed::SingleCalls),
        any::<(String, u8)>().prop_map(|(name, shown)| Seed::Parameters(name, shown)),
        prop::collection::vec(any::<(u32, u64, Option<String>, i64)>(), 0..5)
            .prop_map(Seed::CallsWithArguments),
        (any::<u64>(), "\\PC{0,20}").prop_map(|(a, n)| Seed::AssemblyUnload(a, n)),
        (
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..4),
            prop::collection::vec((any::<u64>(), "\\PC{0,20}", "\\PC{0,20}"), 0..4),
            any::<Option<String>>(),
        )
            .prop_map(|(b, c, r)| Seed::HeapSnapshot(b, c, r)),
        (any::<u64>(), prop::collection::vec(row, 0..40), any::<Option<String>>())
            .prop_map(|(t, r, m)| Seed::Survivors(t, r, m)),
        (any::<u64>(), any::<u32>(), any::<bool>()).prop_map(|(t, i, c)| Seed::Induced(t, i, c)),
        (any::<u64>(), prop::collection::vec(("[a-z]{1,5}", any::<u64>()), 0..3))
            .prop_map(|(t, d)| Seed::Observer(t, d)),
        "\\PC{0,40}".prop_map(Seed::Note),
    ]
}

const STATES: [ThreadState; 12] = [
    ThreadState::Running,
    ThreadState::Lock,
    ThreadState::Sleep,
    ThreadState::Io,
    ThreadState::Idle,
    ThreadState::Gc,
    ThreadState::Task,
    ThreadState::Other,
    ThreadState::Event,
    ThreadState::Runtime,
    ThreadState::NoProcessor,
    ThreadState::Throttled,
];

const KINDS: [FunctionKind; 9] = [
    FunctionKind::Managed,
    FunctionKind::Dynamic,
    FunctionKind::Stub,
    FunctionKind::Native,
    FunctionKind::Runtime,
    FunctionKind::Gc,
    FunctionKind::Jit,
    FunctionKind::Kernel,
    FunctionKind::Unknown,
];

/// Makes valid records of seeds: references are taken modulo what is defined, and left out where
/// nothing is.
fn build(seeds: Vec<Seed>, ended: bool) -> Vec<SessionRecord> {
    let (mut threads, mut modules, mut functions, mut frames, mut stacks, mut types) =
        (0, 0, 0, 0, 0, 0);
    let (mut snapshots, mut tables) = (0, RowBuffer::default());
    let next = |count: &mut u32| {
        *count += 1;
        *count - 1
    };
    let mut records = vec![info()];
    for seed in seeds {
        let record = match seed {
            Seed::Thread(name, again) => SessionRecord::Thread(ThreadDef {
                id: ThreadId(if again && threads > 0 { threads - 1 } else { next(&mut threads) }),
                os_tid: 7,
                name: Some(name),
                managed: again,
                started: None,
                ended: Some(3),
            }),
            Seed::Module(name) => SessionRecord::Module(ModuleDef {
                id: ModuleId(next(&mut modules)),
                managed: true,
                path: name.clone(),
                name,
                build_id: None,
            }),
            Seed::Function(name, kind) => SessionRecord::Function(FunctionDef {
                id: FunctionId(next(&mut functions)),
                kind: KINDS[kind as usize % KINDS.len()],
                module: (modules > 0).then(|| ModuleId(modules - 1)),
                type_name: name.clone(),
                name,
                parameters: "(int)".into(),
                state_machine: (kind % 2 == 0).then_some(StateMachine::Async),
            }),
            Seed::Frame(function, line) if functions > 0 => SessionRecord::Frame(FrameDef {
                id: FrameId(next(&mut frames)),
                function: FunctionId(function % functions),
                line: line.map(|line| SourceLine { file: "a.cs".into(), line }),
                trust: FrameTrust::Tables,
            }),
            Seed::Stack(parent, frame) if frames > 0 => SessionRecord::Stack(StackDef {
                parent: (stacks > 0).then(|| StackId(parent % stacks)),
                id: StackId(next(&mut stacks)),
                frame: FrameId(frame % frames),
            }),
            Seed::Type(name) => SessionRecord::Type(TypeDef { id: TypeId(next(&mut types)), name }),
            Seed::Samples(cpu, start, rows) if threads > 0 && stacks > 0 => {
                let mut batch = SampleBatch { start, ..SampleBatch::default() };
                for (delta, thread, stack, weight, state, truncated) in rows {
                    batch.time_delta.push(delta);
                    batch.thread.push(ThreadId(thread % threads));
                    batch.stack.push(StackId(stack % stacks));
                    batch.weight.push(weight);
                    batch.state.push(STATES[state as usize % STATES.len()]);
                    batch.truncated.push(truncated);
                }
                if cpu {
                    SessionRecord::CpuSamples(batch)
                } else {
                    SessionRecord::WallSamples(batch)
                }
            }
            Seed::Snapshot(time, rows) if threads > 0 && stacks > 0 => {
                let seen =
                    |(cpu, id, call, born, os_state, limited): (u64, u32, u32, u64, u8, bool)| {
                        ThreadSeen {
                            thread: ThreadId(id % threads),
                            stack: StackId(id % stacks),
                            state: ThreadState::Idle,
                            os_state,
                            cpu,
                            born: born as i64,
                            call: limited.then_some(call),
                            limited: Some(limited),
                        }
                    };
                SessionRecord::ThreadSnapshot(ThreadSnapshot {
                    time,
                    threads: rows.into_iter().map(seen).collect(),
                })
            }
            Seed::AssemblyUnload(assembly, name) => {
                tables.push(&Unloaded { time: 5, assembly, name });
                records.extend(tables.take());
                continue;
            }
            Seed::HeapSnapshot(chunks, classes, reason) => {
                let snapshot = next(&mut snapshots);
                records.push(SessionRecord::HeapBegin { snapshot, time: 1 });
                records.extend(
                    chunks.into_iter().map(|bytes| SessionRecord::HeapChunk { snapshot, bytes }),
                );
                let methods = classes.iter().map(|(id, name, _)| (*id, name.clone())).collect();
                let machine = |(id, name, _): &(u64, String, String)| AsyncStateMachine {
                    class: *id,
                    points: vec![
                        AwaitPoint { state: *id as i32, line: None },
                        AwaitPoint {
                            state: 1,
                            line: Some(SourceLine { file: name.clone(), line: 7 }),
                        },
                    ],
                };
                let machines = classes.iter().map(machine).collect();
                let of = |(id, name, _): &(u64, String, String)| {
                    let field =
                        Field { offset: *id as u32, name: name.clone(), kind: FieldKind::Value };
                    let class = ClassFields { class: *id, parent: 0, fields: vec![field] };
                    (StaticField { address: *id, name: name.clone() }, class)
                };
                let (statics, fields) = classes.iter().map(of).unzip();
                records.push(SessionRecord::HeapClasses { snapshot, classes });
                records.push(SessionRecord::HeapMethods { snapshot, methods });
                records.push(SessionRecord::HeapStatics { snapshot, fields: statics });
                records.push(SessionRecord::HeapFields { snapshot, classes: fields });
                records.push(SessionRecord::AsyncStateMachines { snapshot, machines });
                SessionRecord::HeapEnd(HeapEnd {
                    snapshot,
                    time: 2,
                    paused: 1,
                    objects: 3,
                    complete: reason.is_none(),
                    reason,
                })
            }
            Seed::Survivors(time, rows, text) if types > 0 => {
                SessionRecord::Survivors(SurvivorSnapshot {
                    collection: SurvivedCollection {
                        time,
                        generation: 1,
                        induced: false,
                        paused: 2,
                        telling: 1,
                        before: [time; 5],
                        moved: 3,
                        objects: rows.len() as u64,
                        complete: text.is_none(),
                        reason: text.clone(),
                    },
                    counts: rows
                        .iter()
                        .map(|row| SurvivorCount {
                            ty: TypeId(row.1 % types),
                            before: row.4,
                            after: row.4,
                            objects: row.0,
                            bytes: row.3,
                        })
                        .collect(),
                    held: rows
                        .iter()
                        .map(|row| HeldSurvivors {
                            holder: match &text {
                                Some(text) => SurvivorHolder::Stack(text.clone()),
                                None => SurvivorHolder::Older(row.4),
                            },
                            path: vec![TypeId(row.1 % types), TypeId(row.2 % types)],
                            objects: row.0,
                            bytes: row.3,
                        })
                        .collect(),
                })
            }
            Seed::Induced(time, id, truncated) if threads > 0 && stacks > 0 => {
                let (thread, stack) = (ThreadId(id % threads), StackId(id % stacks));
                tables.push(&Induced { time, thread, stack, truncated });
                records.extend(tables.take());
                continue;
            }
            Seed::SingleCalls(calls) if threads > 0 => SessionRecord::SingleCalls(
                calls
                    .into_iter()
                    .map(|(slot, begun, taken, failed)| SingleCall {
                        slot,
                        thread: ThreadId(slot % threads),
                        begun,
                        taken,
                        failed,
                        asynchronous: !failed,
                    })
                    .collect(),
            ),
            Seed::Parameters(name, shown) if functions > 0 => {
                SessionRecord::Parameters(MethodParameters {
                    method: FunctionId(u32::from(shown) % functions),
                    refused: (shown == 0).then(|| name.clone()),
                    parameters: vec![Parameter {
                        type_name: name.clone(),
                        name,
                        shown: match shown % 3 {
                            0 => ParameterShown::ByValue,
                            1 => ParameterShown::Redacted,
                            _ => ParameterShown::ByType,
                        },
                    }],
                })
            }
            Seed::CallsWithArguments(calls) if threads > 0 => SessionRecord::CallsWithArguments(
                calls
                    .into_iter()
                    .map(|(slot, begun, text, number)| CallArguments {
                        call: SingleCall {
                            slot,
                            thread: ThreadId(slot % threads),
                            begun,
                            taken: 4,
                            failed: false,
                            asynchronous: false,
                        },
                        arguments: vec![
                            (
                                0,
                                text.map_or(Argument::Null, |text| Argument::Text {
                                    length: text.len() as u32,
                                    text,
                                }),
                            ),
                            (1, Argument::Number(number)),
                            (2, Argument::Float(number as f64 / 3.0)),
                            (
                                7,
                                Argument::Object {
                                    class: types.checked_sub(1).map(TypeId),
                                    elements: Some(slot),
                                },
                            ),
                        ],
                    })
                    .collect(),
            ),
            Seed::Observer(time, dropped) => SessionRecord::Observer(ObserverStatus {
                time,
                dropped,
                ..ObserverStatus::default()
            }),
            Seed::Note(message) => SessionRecord::Note { time: 1, message },
            _ => continue,
        };
        records.push(record);
    }
    if ended {
        records.push(end());
    }
    records
}

fn write(records: &[SessionRecord], flush_every: usize) -> Vec<u8> {
    let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
    for (index, record) in records.iter().enumerate() {
        writer.write(record).unwrap();
        if index % flush_every == flush_every - 1 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap()
}

struct Outcome {
    records: Vec<SessionRecord>,
    error: Option<SessionError>,
    cut_short: bool,
}

fn read(bytes: &[u8]) -> Outcome {
    let mut reader = match SessionReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return Outcome { records: Vec::new(), error: Some(error), cut_short: false },
    };
    let (mut records, mut error) = (Vec::new(), None);
    for record in &mut reader {
        match record {
            Ok(record) => records.push(record),
            Err(cause) => error = Some(cause),
        }
    }
    assert!(reader.next().is_none(), "a reader that has ended stays ended");
    Outcome { records, error, cut_short: reader.cut_short() }
}

fn mixed() -> Vec<SessionRecord> {
    let row = |i: u32| (u64::from(i), i, i * 7, u64::from(i) * 1000, i as u8, i.is_multiple_of(5));
    let mut seeds = vec![
        Seed::Thread("main".into(), false),
        Seed::Thread("worker".into(), false),
        Seed::Module("shop.dll".into()),
        Seed::Function("Run".into(), 0),
        Seed::Function("Burn".into(), 1),
        Seed::Frame(0, Some(12)),
        Seed::Frame(1, None),
        Seed::Stack(0, 0),
        Seed::Stack(0, 1),
        Seed::Type("System.InvalidOperationException".into()),
    ];
    seeds.extend(
        (0..6).map(|i| Seed::Samples(i % 2 == 0, u64::from(i) * 10, (0..i * 3).map(row).collect())),
    );
    seeds.extend([
        Seed::SingleCalls(vec![(3, 90, 4, true), (0, 91, 400, false)]),
        Seed::Parameters("id".into(), 4),
        Seed::CallsWithArguments(vec![(3, 90, None, 4), (0, 91, Some("é".into()), -1)]),
        Seed::Snapshot(92, (0..9).map(row).collect()),
        Seed::Induced(99, 3, true),
        Seed::Observer(5, vec![("ring full".into(), 3)]),
        Seed::Note("attached".into()),
    ]);
    build(seeds, true)
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(seeds in prop::collection::vec(seed(), 0..60), every in 1..20usize, ended: bool) {
        let records = build(seeds, ended);
        let outcome = read(&write(&records, every));
        prop_assert!(outcome.error.is_none(), "{:?}", outcome.error);
        prop_assert_eq!(outcome.records, records);
        prop_assert_eq!(outcome.cut_short, !ended);
    }

    #[test]
    fn changed_bytes_never_panic_and_never_pass(
        seeds in prop::collection::vec(seed(), 0..30),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..6),
    ) {
        let records = build(seeds, true);
        let good = write(&records, 4);
        let mut bytes = good.clone();
        for (index, bit) in flips {
            let index = index.index(bytes.len());
            bytes[index] ^= 1 << bit;
        }
        let outcome = read(&bytes);
        prop_assert_eq!(&outcome.records[..], &records[..outcome.records.len()], "what is given is \
            what was written");
        if bytes != good {
            prop_assert!(outcome.error.is_some() || outcome.cut_short);
        }
    }

    #[test]
    fn garbage_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..400), keep in 0..60usize) {
        read(&bytes);
        // The same behind a good beginning, so that more than the mark is reached.
        let good = write(&mixed(), 3);
        let mut long = good[..keep].to_vec();
        long.append(&mut bytes);
        read(&long);
    }
}

#[test]
fn a_file_cut_at_any_byte_gives_all_blocks_before_the_cut() {
    let records = mixed();
    let bytes = write(&records, 2);
    let mut most = 0;
    for length in 0..bytes.len() {
        let outcome = read(&bytes[..length]);
        assert_eq!(outcome.records, records[..outcome.records.len()], "cut at {length}");
        assert!(outcome.records.len() >= most, "cut at {length}: a longer file gives no less");
        most = outcome.records.len();
        match outcome.error {
            None => assert!(outcome.cut_short, "cut at {length}"),
            Some(SessionError::NotASession) => assert_eq!(length, 0),
            Some(SessionError::Empty) => assert!(length < 40, "cut at {length}"),
            Some(other) => panic!("cut at {length}: {other}"),
        }
    }
    assert_eq!(most, (records.len() - 1) / 2 * 2, "the last block needs its last byte");
    assert_eq!(read(&bytes).records, records);
    assert!(!read(&bytes).cut_short);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let records = mixed();
    let bytes = write(&records, 5);
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[index] ^= 1 << bit;
            let outcome = read(&bytes);
            assert!(outcome.error.is_some() || outcome.cut_short, "byte {index}, bit {bit}");
            assert_eq!(
                outcome.records,
                records[..outcome.records.len()],
                "byte {index}, bit {bit}"
            );
        }
    }
}

#[test]
fn damage_is_named_with_its_place_and_cause() {
    let records = mixed();
    let header = write(&[], 1).len() as u64;
    let first = write(&records[..5], 5).len();
    let mut bytes = write(&records, 5);
    bytes[first + 20] ^= 0x40;
    let outcome = read(&bytes);
    assert_eq!(outcome.records, records[..5]);
    let Some(SessionError::Corrupt { offset, cause: Corruption::Checksum { .. } }) = outcome.error
    else {
        panic!("{:?}", outcome.error)
    };
    assert_eq!(offset, first as u64);
    assert!(header < offset);
    let text = read(&bytes).error.unwrap().to_string();
    assert!(text.contains(&format!("byte {first}")) && text.contains("checksum"), "{text}");
}

#[test]
fn a_newer_format_is_told_apart_from_damage() {
    let mut bytes = write(&mixed(), 5);
    bytes[8] = 9;
    let error = read(&bytes).error.unwrap();
    assert!(matches!(error, SessionError::NewerFormat { format: 9, known: FORMAT }));
    assert!(error.to_string().contains("recorded by a newer clrscope (format 9"), "{error}");
    assert!(error.to_string().contains("update"), "{error}");
}

#[test]
fn other_files_are_no_sessions() {
    for other in [
        &b""[..],
        b"\x7fELF\x02\x01\x01",
        b"{\"json\": true}",
        b"Nettrace\x14\0\0\0!FastSerialization.1",
    ] {
        assert!(matches!(read(other).error, Some(SessionError::NotASession)), "{other:?}");
    }
}

/// A block as a hostile writer may make it: the checksum is right, the rest is not.
fn block(kind: u8, length: u32, raw_length: u32, payload: &[u8]) -> Vec<u8> {
    let mut head = [0; 16];
    head[0] = kind;
    head[4..8].copy_from_slice(&length.to_le_bytes());
    head[8..12].copy_from_slice(&raw_length.to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..12]);
    crc.update(payload);
    head[12..].copy_from_slice(&crc.finalize().to_le_bytes());
    [&head[..], payload].concat()
}

fn packed(raw: &[u8]) -> Vec<u8> {
    let payload = lz4_flex::block::compress(raw);
    block(1, payload.len() as u32, raw.len() as u32, &payload)
}

#[test]
fn hostile_lengths_allocate_nothing_and_are_named() {
    let head = write(&[], 1);
    let error = |block: Vec<u8>| read(&[head.clone(), block].concat()).error.unwrap().to_string();
    assert!(error(block(1, u32::MAX, 10, b"")).contains("exceeds the limit of"));
    assert!(error(block(1, 3, u32::MAX, b"abc")).contains("exceeds the limit of"));
    assert!(error(block(1, 3, 1000, b"abc")).contains("cannot be decompressed"));
    assert!(error(block(7, 0, 0, b"")).contains("its kind 7 does not exist"));
    // A note whose text says to be 2^60 bytes long.
    let info = postcard::to_stdvec(&info()).unwrap();
    let note =
        [info.clone(), vec![10, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]].concat();
    assert!(error(packed(&note)).contains("its record 1 cannot be decoded"));
    // A batch whose columns say to have 2^32 rows.
    let batch = [info, vec![16, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1]].concat();
    assert!(error(packed(&batch)).contains("its record 1 cannot be decoded"));
    // Blocks that a later version may add are passed over; an empty block of records is no end.
    let rest = [
        block(200, 3, 0, b"new"),
        packed(b""),
        packed(&postcard::to_stdvec(&self::info()).unwrap()),
    ]
    .concat();
    let outcome = read(&[head.clone(), rest].concat());
    assert_eq!(outcome.records, [self::info()]);
    assert!(outcome.error.is_none() && outcome.cut_short);
    // Zeros at the end are a file that was extended and not written.
    let outcome = read(&[write(&mixed(), 4), vec![0; 5000]].concat());
    assert_eq!(outcome.records, mixed());
    assert!(outcome.error.is_none() && outcome.cut_short);
}

#[test]
fn records_that_do_not_fit_are_refused_by_writer_and_reader() {
    let thread = |id| {
        let (name, started, ended) = (None, None, None);
        SessionRecord::Thread(ThreadDef {
            id: ThreadId(id),
            os_tid: 1,
            name,
            managed: true,
            started,
            ended,
        })
    };
    let frame = |id, function| {
        let (function, trust) = (FunctionId(function), FrameTrust::Context);
        SessionRecord::Frame(FrameDef { id: FrameId(id), function, line: None, trust })
    };
    let stack = |id, parent: Option<u32>, frame| {
        SessionRecord::Stack(StackDef {
            id: StackId(id),
            parent: parent.map(StackId),
            frame: FrameId(frame),
        })
    };
    let ragged = SampleBatch { time_delta: vec![1], ..SampleBatch::default() };
    let unknown = SampleBatch {
        time_delta: vec![1],
        thread: vec![ThreadId(9)],
        stack: vec![StackId(0)],
        weight: vec![1],
        state: vec![ThreadState::Running],
        truncated: vec![false],
        ..SampleBatch::default()
    };
    let seen = ThreadSeen {
        thread: ThreadId(6),
        stack: StackId(0),
        state: ThreadState::Sleep,
        os_state: b'S',
        cpu: 1,
        born: -5,
        call: None,
        limited: None,
    };
    let base = mixed();
    let base = &base[..base.len() - 1];
    let cases = [
        (thread(5), ModelError::OutOfOrder { kind: "thread", id: 5, expected: 2 }),
        (frame(2, 8), ModelError::Undefined { kind: "function", id: 8 }),
        (stack(2, Some(2), 0), ModelError::Undefined { kind: "stack", id: 2 }),
        (stack(2, None, 44), ModelError::Undefined { kind: "frame", id: 44 }),
        (stack(0, None, 0), ModelError::OutOfOrder { kind: "stack", id: 0, expected: 2 }),
        (SessionRecord::CpuSamples(ragged), ModelError::RaggedBatch),
        (SessionRecord::WallSamples(unknown), ModelError::Undefined { kind: "thread", id: 9 }),
        (
            SessionRecord::ThreadSnapshot(ThreadSnapshot { time: 5, threads: vec![seen] }),
            ModelError::Undefined { kind: "thread", id: 6 },
        ),
        (info(), ModelError::SecondInfo),
    ];
    for (bad, expected) in cases {
        let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
        base.iter().for_each(|record| writer.write(record).unwrap());
        let Err(SessionError::Model(cause)) = writer.write(&bad) else {
            panic!("{bad:?} was taken")
        };
        assert_eq!(cause, expected);
        // The session continues after it.
        writer.write(&end()).unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(read(&bytes).records.len(), base.len() + 1);

        // The same from a file that another program wrote.
        let raw: Vec<u8> = base
            .iter()
            .chain([&bad])
            .flat_map(|record| postcard::to_stdvec(record).unwrap())
            .collect();
        let outcome = read(&[write(&[], 1), packed(&raw)].concat());
        assert_eq!(outcome.records, base);
        let Some(SessionError::Corrupt { cause: Corruption::Model { index, source }, .. }) =
            outcome.error
        else {
            panic!("{:?}", outcome.error)
        };
        assert_eq!((index, source), (base.len(), expected));
    }
    let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
    assert!(matches!(writer.write(&thread(0)), Err(SessionError::Model(ModelError::NoInfo))));
    writer.write(&info()).unwrap();
    writer.write(&end()).unwrap();
    assert!(matches!(writer.write(&thread(0)), Err(SessionError::Model(ModelError::AfterEnd))));
}

#[test]
fn large_batches_are_split_and_large_records_refused() {
    let rows = 50_000_u32;
    let base = mixed();
    let batch = SampleBatch {
        start: 1000,
        time_delta: (0..u64::from(rows)).collect(),
        thread: (0..rows).map(|i| ThreadId(i % 2)).collect(),
        stack: (0..rows).map(|i| StackId(i % 2)).collect(),
        weight: vec![u64::MAX; rows as usize],
        state: vec![ThreadState::Io; rows as usize],
        truncated: (0..rows).map(|i| i % 3 == 0).collect(),
    };
    let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
    base[..base.len() - 1].iter().for_each(|record| writer.write(record).unwrap());
    writer.write(&SessionRecord::WallSamples(batch.clone())).unwrap();
    let message = "x".repeat(5 << 20);
    let large = SessionRecord::Note { time: 1, message };
    assert!(matches!(writer.write(&large), Err(SessionError::RecordTooLarge { .. })));
    writer.write(&end()).unwrap();
    let outcome = read(&writer.finish().unwrap());
    assert!(outcome.error.is_none() && !outcome.cut_short);

    let times = |batches: &[SampleBatch]| -> Vec<u64> {
        let mut times = Vec::new();
        for batch in batches {
            let mut time = batch.start;
            times.extend(batch.time_delta.iter().map(|delta| {
                time += delta;
                time
            }));
        }
        times
    };
    let parts: Vec<SampleBatch> = outcome.records[base.len() - 1..]
        .iter()
        .filter_map(|record| {
            if let SessionRecord::WallSamples(batch) = record { Some(batch.clone()) } else { None }
        })
        .collect();
    assert!(parts.len() > 1);
    assert_eq!(times(&parts), times(std::slice::from_ref(&batch)));
    assert_eq!(
        parts.iter().flat_map(|part| part.truncated.clone()).collect::<Vec<_>>(),
        batch.truncated
    );
    assert_eq!(parts.iter().flat_map(|part| part.stack.clone()).collect::<Vec<_>>(), batch.stack);
}

#[test]
fn how_much_was_recorded_is_read_from_the_end_of_the_file() {
    let recorded =
        |file: &[u8]| SessionReader::new(std::io::Cursor::new(file)).unwrap().recorded().unwrap();
    let start = 1_000_000;
    let at = |time: u64| SessionRecord::Observer(ObserverStatus { time, ..Default::default() });
    let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
    writer.write(&info()).unwrap();
    writer.write(&at(start + 5)).unwrap();
    writer.flush().unwrap();
    let mut written = vec![writer.bytes_written() as usize];
    for second in 1..=40 {
        // What is written last need not be the latest.
        writer.write(&at(start + second * 1000)).unwrap();
        writer.write(&at(start + second * 1000 - 10)).unwrap();
        writer.flush().unwrap();
        written.push(writer.bytes_written() as usize);
    }
    let file = writer.finish().unwrap();
    assert_eq!(recorded(&file[..written[0]]), 5);
    for blocks in [1, 2, 9, 40] {
        let end = written[blocks];
        assert_eq!(recorded(&file[..end]), blocks as u64 * 1000);
        // What is being written does not count yet, nor do zeros behind it.
        assert_eq!(recorded(&[&file[..end], &[0; 100]].concat()), blocks as u64 * 1000);
        let before = if blocks == 1 { 5 } else { (blocks as u64 - 1) * 1000 };
        assert_eq!(recorded(&file[..end - 1]), before);
    }
    // A batch of samples and rows of a table have the times of their last rows.
    let mixed = mixed();
    let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
    mixed[..mixed.len() - 1].iter().for_each(|record| writer.write(record).unwrap());
    let batch = SampleBatch {
        start: start + 100,
        time_delta: vec![0, 20, 3],
        thread: vec![ThreadId(0); 3],
        stack: vec![StackId(0); 3],
        weight: vec![1; 3],
        state: vec![ThreadState::Running; 3],
        truncated: vec![false; 3],
    };
    writer.write(&SessionRecord::CpuSamples(batch)).unwrap();
    assert_eq!(recorded(&writer.finish().unwrap()), 123);
}

/// A file that another thread may look into.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_killed_writer_loses_no_more_than_a_second() {
    let file = Shared::default();
    let records = mixed();
    let mut writer = SessionWriter::new(file.clone(), "0.1.0").unwrap();
    records[..10].iter().for_each(|record| writer.write(record).unwrap());
    assert_eq!(read(&file.0.lock().unwrap()).records, [], "a block is gathered first");
    std::thread::sleep(Duration::from_millis(1010));
    writer.idle().unwrap();
    assert_eq!(
        read(&file.0.lock().unwrap()).records,
        records[..10],
        "an idle recorder writes what is a second old"
    );
    writer.write(&records[10]).unwrap();
    std::thread::sleep(Duration::from_millis(1010));
    writer.write(&records[11]).unwrap();
    assert_eq!(read(&file.0.lock().unwrap()).records, records[..12], "so does a busy one");
    assert_eq!(writer.bytes_written(), file.0.lock().unwrap().len() as u64);
    // Killed here: nothing of the writer runs any more.
    std::mem::forget(writer);
    let outcome = read(&file.0.lock().unwrap());
    assert!(outcome.cut_short && outcome.error.is_none());
}

#[test]
fn blocks_stay_small() {
    let file = Shared::default();
    let mut writer = SessionWriter::new(file.clone(), "0.1.0").unwrap();
    writer.write(&info()).unwrap();
    let mut state = 1_u64;
    for _ in 0..3000 {
        let message = (0..1000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                char::from(b' ' + (state >> 33) as u8 % 90)
            })
            .collect();
        writer.write(&SessionRecord::Note { time: 1, message }).unwrap();
    }
    let bytes = file.0.lock().unwrap().clone();
    assert!(read(&bytes).records.len() > 2700, "about 256 KiB at most are gathered");
}

#[test]
fn a_live_view_gets_the_stream_that_the_file_gets() {
    let records = mixed();
    let (sink, stream) = live(1000);
    let consumer = std::thread::spawn(move || stream.collect::<Vec<_>>());
    let mut tee = Tee(SessionWriter::new(Vec::new(), "0.1.0").unwrap(), sink);
    records.iter().for_each(|record| tee.record(record).unwrap());
    let Tee(writer, sink) = tee;
    assert_eq!(sink.left_out(), 0);
    drop(sink);
    assert_eq!(consumer.join().unwrap(), records);
    assert_eq!(read(&writer.finish().unwrap()).records, records);
}

#[test]
fn a_slow_view_never_holds_the_recording_back() {
    const CAPACITY: usize = 10;
    let records = mixed();
    let (mut sink, stream) = live(CAPACITY);
    let samples =
        records.iter().filter(|record| matches!(record, SessionRecord::CpuSamples(_))).count();
    records[..CAPACITY].iter().for_each(|record| sink.record(record).unwrap());
    let rest = || {
        records[CAPACITY..].iter().filter(|record| matches!(record, SessionRecord::CpuSamples(_)))
    };
    rest().for_each(|record| sink.record(record).unwrap());
    assert_eq!(sink.left_out(), samples as u64, "samples have the room that was given");
    assert_eq!(stream.try_next(), Ok(Some(records[0].clone())));
    // Definitions have more, but not all there is. Nobody reads here: whoever waits, waits for
    // ever.
    let note = SessionRecord::Note { time: 0, message: "kept".into() };
    let most = CAPACITY * 64;
    for _ in 0..most {
        sink.record(&note).unwrap();
    }
    let dropped = samples as u64 + CAPACITY as u64 - 1;
    assert_eq!((sink.left_out(), stream.left_out()), (dropped, dropped));
    drop(sink);
    let rest: Vec<_> =
        std::iter::from_fn(|| stream.next_timeout(Duration::from_secs(10)).ok().flatten())
            .collect();
    assert_eq!(rest.len(), most);
    assert_eq!(rest[CAPACITY - 1..], vec![note; most - CAPACITY + 1]);
    assert_eq!(stream.try_next(), Err(LiveEnded));
    // A view that is gone hinders nobody.
    let (mut sink, stream) = live(1);
    drop(stream);
    (0..100).for_each(|_| sink.record(&records[0]).unwrap());
    assert_eq!(sink.left_out(), 0);
}

#[test]
fn tables_and_rows_that_break_the_rules_are_refused() {
    let table = |id, name: &str, kind| {
        let column = ColumnDef { name: "n".into(), kind, summary: String::new() };
        SessionRecord::Table(TableDef {
            id: TableId(id),
            profiler: "p".into(),
            name: name.into(),
            summary: String::new(),
            columns: vec![column],
        })
    };
    let rows = |table, cells: &[u64]| {
        let columns = vec![Values::Whole(cells.to_vec())];
        SessionRecord::Rows(RowBatch { table: TableId(table), rows: cells.len() as u32, columns })
    };
    let mut validator = Validator::new();
    validator.check(&info()).unwrap();
    let undefined = validator.check(&rows(0, &[1])).unwrap_err();
    assert_eq!(undefined, ModelError::Undefined { kind: "table", id: 0 });
    let late = validator.check(&table(1, "t", Kind::Count)).unwrap_err();
    assert!(matches!(late, ModelError::OutOfOrder { kind: "table", id: 1, expected: 0 }));
    let name = validator.check(&table(0, "T", Kind::Count)).unwrap_err();
    assert!(matches!(name, ModelError::Rows(RowsError::Name { .. })));
    validator.check(&table(0, "t", Kind::Thread)).unwrap();
    let again = validator.check(&table(1, "t", Kind::Count)).unwrap_err();
    assert!(matches!(again, ModelError::SecondTable { .. }));
    let thread = validator.check(&rows(0, &[0])).unwrap_err();
    assert_eq!(thread, ModelError::Rows(RowsError::Undefined { kind: "thread", id: 0 }));
    validator.check(&rows(0, &[])).unwrap();
    for id in 1..rows::MAX_TABLES {
        validator.check(&table(id, &format!("t{id}"), Kind::Count)).unwrap();
    }
    let many = validator.check(&table(rows::MAX_TABLES, "last", Kind::Count)).unwrap_err();
    assert!(matches!(many, ModelError::TooMany { kind: "table", .. }));
}

/// The records of a hostile file, as a reader sees them: a block of these bytes behind the first
/// record.
fn read_behind_info(bytes: &[u8]) -> SessionError {
    let mut writer = SessionWriter::new(Vec::new(), "").unwrap();
    writer.write(&info()).unwrap();
    let mut file = writer.finish().unwrap();
    let payload = lz4_flex::block::compress(bytes);
    let number = |number: usize| (number as u32).to_le_bytes();
    let head = [&[1, 0, 0, 0][..], &number(payload.len()), &number(bytes.len())].concat();
    let crc = crc32fast::hash(&[&head[..], &payload].concat());
    file.extend([&head[..], &crc.to_le_bytes(), &payload].concat());
    SessionReader::new(&file[..]).unwrap().find_map(Result::err).unwrap()
}

#[test]
fn what_is_nested_without_end_is_refused_and_no_stack_overflows() {
    let bytes = |record: &SessionRecord| postcard::to_allocvec(record).unwrap();
    // Cells within cells: a kind, an empty list, and again.
    let inner = Box::new(Values::Real(Vec::new()));
    let columns = vec![Values::Optional { present: Vec::new(), values: inner }];
    let rows = bytes(&SessionRecord::Rows(RowBatch { table: TableId(0), rows: 0, columns }));
    let (start, level) = rows.split_at(rows.len() - 4);
    let deep = [start, &level[..2].repeat(1_000_000), &level[2..]].concat();
    assert!(read_behind_info(&deep).to_string().contains("cannot be decoded"));
    // Kinds within kinds.
    let column = ColumnDef {
        name: "n".into(),
        kind: Kind::Optional(Box::new(Kind::Real)),
        summary: String::new(),
    };
    let table = bytes(&SessionRecord::Table(TableDef {
        id: TableId(0),
        profiler: "p".into(),
        name: "t".into(),
        summary: String::new(),
        columns: vec![column],
    }));
    let (start, level) = table.split_at(table.len() - 3);
    let deep = [start, &level[..1].repeat(3_000_000), &level[1..]].concat();
    assert!(read_behind_info(&deep).to_string().contains("cannot be decoded"));
}
