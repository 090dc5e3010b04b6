//! Sessions that were made to do harm: they are read as far as there is room, and say so.

use profile::{BuildOptions, Profile, SeriesKind, session::*};
use profilers::calls::Calls;

/// A session with one thread, functions of these names, and these stacks: parent and function.
fn session(
    names: impl Iterator<Item = String>,
    stacks: &[(Option<u32>, u32)],
    more: &[SessionRecord],
) -> Vec<u8> {
    let mut writer = SessionWriter::new(Vec::new(), "0").unwrap();
    let mut write = |record: SessionRecord| writer.write(&record).unwrap();
    write(SessionRecord::Info(SessionInfo {
        tool_version: "0".into(),
        pid: 1,
        process_name: "x".into(),
        command_line: "x".into(),
        runtime: "9".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 0,
        start: 0,
        cpus: 1,
        profilers: vec![],
    }));
    write(SessionRecord::Thread(ThreadDef {
        id: ThreadId(0),
        os_tid: 1,
        name: None,
        managed: true,
        started: None,
        ended: None,
    }));
    for (id, name) in names.enumerate() {
        let id = id as u32;
        write(SessionRecord::Function(FunctionDef {
            id: FunctionId(id),
            kind: FunctionKind::Managed,
            module: None,
            type_name: String::new(),
            name,
            parameters: String::new(),
            state_machine: None,
        }));
        write(SessionRecord::Frame(FrameDef {
            id: FrameId(id),
            function: FunctionId(id),
            line: None,
            trust: FrameTrust::Tables,
        }));
    }
    for (id, (parent, function)) in stacks.iter().enumerate() {
        let (id, frame) = (StackId(id as u32), FrameId(*function));
        write(SessionRecord::Stack(StackDef { id, parent: parent.map(StackId), frame }));
    }
    more.iter().for_each(|record| write(record.clone()));
    write(SessionRecord::End(SessionEnd {
        time: 1_000_000_000,
        reason: EndReason::Stopped,
        exit_code: None,
    }));
    writer.finish().unwrap()
}

#[test]
fn a_session_is_read_as_far_as_there_is_memory() {
    let file = session((0..20_000).map(|number| format!("Method{number}")), &[], &[]);
    let read = |memory| {
        let options = BuildOptions { memory, ..BuildOptions::default() };
        Profile::read(&file[..], options).unwrap()
    };
    let whole = read(BuildOptions::default().memory);
    assert_eq!((whole.tables.functions.len(), whole.damage.as_deref()), (20_000, None));
    let size = whole.size();
    assert!((2_000_000..10_000_000).contains(&size), "{size}");
    let part = read(size / 2);
    let damage = part.damage.as_deref().unwrap();
    assert!(damage.contains("too large") && damage.contains("--from"), "{damage}");
    assert!((5_000..15_000).contains(&part.tables.functions.len()));
}

#[test]
fn rows_and_their_texts_count() {
    let notes: Vec<SessionRecord> =
        (0..100).map(|time| SessionRecord::Note { time, message: "x".repeat(100_000) }).collect();
    let file = session(std::iter::empty(), &[], &notes);
    // It is small: the same text is compressed.
    assert!(file.len() < 100_000, "{}", file.len());
    let options = BuildOptions { memory: 1_000_000, ..BuildOptions::default() };
    let profile = Profile::read(&file[..], options).unwrap();
    assert!(profile.damage.unwrap().contains("too large"));
    assert!((5..15).contains(&profile.notes.len()), "{}", profile.notes.len());
}

#[test]
fn long_names_are_cut() {
    let file = session(std::iter::once("x".repeat(1_000_000)), &[], &[]);
    let profile = Profile::read(&file[..], BuildOptions::default()).unwrap();
    let name = &profile.tables.functions[0].name;
    assert!(name.len() < 20_000 && name.ends_with("more bytes]"), "{}", name.len());
}

/// One long name that many frames have.
#[test]
fn copies_of_names_count() {
    let stacks: Vec<_> = (0..1000).map(|_| (None, 0)).collect();
    let file = session(std::iter::once("x".repeat(10_000)), &stacks, &[]);
    let options = BuildOptions { memory: 1_000_000, ..BuildOptions::default() };
    let profile = Profile::read(&file[..], options).unwrap();
    assert!(profile.damage.is_some() && profile.tables.stack_count() < 110);
}

#[test]
fn a_row_of_endless_calls_takes_no_memory_without_end() {
    let row = Calls { time: 1, thread: ThreadId(0), stack: StackId(0), count: u64::MAX, own: 7 };
    let mut rows = RowBuffer::default();
    rows.push(&row);
    let file = session(std::iter::once("F".into()), &[(None, 0)], &rows.take());
    let profile = Profile::read(&file[..], BuildOptions::default()).unwrap();
    let calls = profile.series(SeriesKind::Calls);
    assert!(calls.cells.len() < 100, "{}", calls.cells.len());
    assert_eq!(calls.totals.weight, 7);
}
