//! Files as other tools write them, and files that no tool should write.

mod common;

use common::{read, session, sums};
use flate2::{Compression, write::GzEncoder};
use import::ImportError;
use profile::SeriesKind;
use std::{fmt::Write as _, io::Write as _};

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn path(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[track_caller]
fn refused(bytes: &[u8], part: &str) {
    let error = session(bytes).unwrap_err();
    assert!(error.to_string().contains(part), "{error}");
}

const EVENTED: &str = r#"{"exporter":"dotnet-trace","name":"app.nettrace",
    "$schema":"https://www.speedscope.app/file-format-schema.json",
    "shared":{"frames":[{"name":"app!Shop.Main()"},{"name":"app!Shop.Work(int32)","file":"a.cs","line":3},
    {"name":"ntdll!Wait"}]},
    "profiles":[{"type":"evented","name":"Thread (12)","unit":"milliseconds","startValue":10,
    "endValue":20,"events":[{"type":"O","frame":0,"at":10},{"type":"O","frame":1,"at":12},
    {"type":"C","frame":1,"at":15.5},{"type":"O","frame":2,"at":16},{"type":"C","frame":2,"at":19},
    {"type":"C","frame":0,"at":20}]}]}"#;

#[test]
fn speedscope_with_events() {
    let profile = read(EVENTED.as_bytes());
    let found = sums(&profile, SeriesKind::Time, |name| name);
    let weight = |names: &[&str]| found[&path(names)][1];
    assert_eq!(weight(&["Shop.Main()"]), 3_500_000);
    assert_eq!(weight(&["Shop.Main()", "Shop.Work(int32)"]), 3_500_000);
    assert_eq!(weight(&["Shop.Main()", "Wait"]), 3_000_000);
    assert_eq!((profile.tables.threads[0].os_tid, found.len()), (12, 3));
    assert_eq!(profile.tables.modules[0].name, "app");
    assert_eq!((profile.tables.files[0].as_str(), profile.duration()), ("a.cs", 9_000_000));
}

#[test]
fn damaged_speedscope_is_refused() {
    for (from, to, part) in [
        (r#""frame":1,"at":15.5"#, r#""frame":0,"at":15.5"#, "innermost"),
        (r#""frame":2,"at":16"#, r#""frame":7,"at":16"#, "frame 7"),
        (r#""at":19"#, r#""at":1"#, "event 4"),
        ("milliseconds", "parsecs", "parsecs"),
        (r#""events""#, r#""other""#, "no samples"),
        (r#"]}]}"#, "", "damaged"),
    ] {
        assert!(EVENTED.contains(from));
        refused(EVENTED.replace(from, to).as_bytes(), part);
    }
}

#[test]
fn collapsed_stacks_of_other_tools() {
    let text =
        "# comment\n\nmain;[libc.so];work_[k] 3\nmain;work 2\r\nmain;[libc.so];work_[k] 1.6\n";
    for bytes in [text.as_bytes().to_vec(), packed(text.as_bytes())] {
        let found = sums(&read(&bytes), SeriesKind::Samples, |name| name);
        assert_eq!(found[&path(&["main", "[libc.so]", "work_[k]"])], [5, 5]);
        assert_eq!(found[&path(&["main", "work"])], [2, 2]);
    }
    refused(b"main;work 2\nno number\n", "line 2");
    refused(b"main;work 0\n", "no samples");
}

#[test]
fn a_deep_stack_is_cut_at_its_outer_frames() {
    let mut text = String::new();
    for frame in 0..70_000 {
        write!(text, "{}f{frame}", if frame > 0 { ";" } else { "" }).unwrap();
    }
    text.push_str(" 1\n");
    let profile = read(text.as_bytes());
    let cell = profile.imported.samples.cells[0];
    assert_eq!(profile.tables.walk(cell.stack).count(), import::limits::DEPTH);
    let leaf = profile.tables.stack_function(cell.stack);
    assert_eq!(profile.tables.function(leaf).name, "f69999");
    assert_eq!(profile.imported.samples.truncated, 1);
}

/// A field of a message.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
    out
}

/// A heap profile as Go writes it: four types of values, and inlined functions.
fn go_heap() -> Vec<u8> {
    let strings = [
        "",
        "alloc_objects",
        "count",
        "alloc_space",
        "bytes",
        "inuse_objects",
        "inuse_space",
        "main.work",
        "main.inlined",
        "/src/main.go",
    ];
    let mut out = Vec::new();
    for (ty, unit) in [(1, 2), (3, 4), (5, 2), (6, 4)] {
        out.extend(field(1, &[8, ty, 16, unit]));
    }
    // Location 1 has an inlined function, with its caller behind it. Location 2 has an address
    // only.
    out.extend(field(2, &[&field(1, &[1, 2])[..], &field(2, &[10, 100, 3, 30])].concat()));
    out.extend(field(
        4,
        &[&[8, 1][..], &field(4, &[8, 2, 16, 5]), &field(4, &[8, 1, 16, 9])].concat(),
    ));
    out.extend(field(4, &[8, 2, 24, 0x40]));
    for (id, name) in [(1, 7), (2, 8)] {
        out.extend(field(5, &[8, id, 16, name, 32, 9]));
    }
    for text in strings {
        out.extend(field(6, text.as_bytes()));
    }
    out
}

#[test]
fn pprof_of_other_tools() {
    for bytes in [go_heap(), packed(&go_heap())] {
        let profile = read(&bytes);
        let expected = path(&["0x40", "main.work", "main.inlined"]);
        // What is in use is what Go shows, too: by convention the last value is the default.
        assert_eq!(sums(&profile, SeriesKind::Bytes, |name| name)[&expected], [3, 30]);
        assert_eq!(sums(&profile, SeriesKind::Samples, |name| name)[&expected], [3, 3]);
        let notes: Vec<_> = profile.notes.iter().map(|(_, note)| note.as_str()).collect();
        assert!(notes.iter().any(|note| note.contains("alloc_space")), "{notes:?}");
        assert!(profile.allocations.samples.is_empty());
    }
}

#[test]
fn damaged_pprof_is_refused() {
    let whole = go_heap();
    refused(&whole[..whole.len() - 3], "cut short");
    let mut strange = whole.clone();
    strange.extend(field(2, &[&field(1, &[9])[..], &field(2, &[1, 1, 1, 1])].concat()));
    refused(&strange, "location 9");
    // A length that promises more than a message may have, and more than there is.
    let mut long = whole.clone();
    long.extend([0x12, 0xff, 0xff, 0xff, 0x7f]);
    refused(&long, "bytes in one message");
    refused(&packed(&whole)[..40], "read");
    // A compressed file of zeros is far larger than it looks; its first byte is wrong already.
    refused(&packed(&[0; 1 << 20]), "no field at byte 0");
}

#[test]
fn json_of_others_is_named() {
    refused(br#"{"traceEvents":[]}"#, "Chrome");
    refused(br#"{"nodes":[],"samples":[]}"#, "V8");
    refused(br#"{"a":1}"#, "neither");
    refused(br#"{"meta":{"version":24},"threads":[]}"#, "profiler.firefox.com");
    refused(br#"{"meta":{"preprocessedProfileVersion":50},"threads":[]}"#, "no samples");
    refused(&[b"{\"a\":".repeat(100_000), b"1".to_vec()].concat(), "damaged");
}

#[test]
fn lists_of_json_have_a_budget() {
    // Three bytes of each frame are 56 in memory.
    let frames = "{},".repeat(9 << 20);
    let text = format!(r#"{{"profiles":[],"shared":{{"frames":[{frames}{{}}]}}}}"#);
    let error = session(text.as_bytes()).unwrap_err();
    assert!(matches!(error, ImportError::TooLarge { what: "bytes in lists", .. }), "{error}");
}

/// A profile with tables that threads share, as the Firefox Profiler writes them since version 56.
const SHARED: &str = r#"{"meta":{"preprocessedProfileVersion":58,"product":"app","interval":1,
    "startTime":1700000000000.5,"categories":[{"name":"Managed"},{"name":"Other"}],
    "sampleUnits":{"time":"ms","threadCPUDelta":"ns"}},
    "shared":{"stringArray":["main","work","lib.so"],
    "stackTable":{"frame":[0,1],"prefix":[null,0],"length":2},
    "frameTable":{"func":[0,1],"line":[null,7],"category":[0,1],"length":2},
    "funcTable":{"name":[0,1],"resource":[-1,0],"source":[null,0],"length":2},
    "resourceTable":{"name":[2],"length":1},"sources":{"filename":[2],"length":1}},
    "threads":[{"name":"T","tid":"7.1","pid":"12","samples":{"stack":[1,null,0],
    "timeDeltas":[1,2,3],"weight":null,"weightType":"samples","threadCPUDelta":[500,0,null]}}]}"#;

#[test]
fn firefox_profiles_with_shared_tables() {
    let profile = read(SHARED.as_bytes());
    let found = sums(&profile, SeriesKind::Samples, |name| name);
    assert_eq!(found[&path(&["main", "work"])], [1, 1]);
    assert_eq!(found[&path(&["main"])], [1, 1]);
    assert_eq!((profile.cpu.totals.weight, profile.duration()), (500, 6_000_000));
    assert_eq!((profile.info.pid, profile.tables.threads[0].os_tid), (12, 7));
    assert_eq!(profile.info.start_unix_ms, 1_700_000_000_000);
    assert_eq!(
        (profile.tables.modules[0].name.as_str(), profile.tables.files[0].as_str()),
        ("lib.so", "lib.so")
    );
    for (from, to, part) in [
        (r#""prefix":[null,0]"#, r#""prefix":[1,null]"#, "stack 0"),
        (r#""func":[0,1]"#, r#""func":[0,9]"#, "frame 1"),
        (r#""stack":[1,null,0]"#, r#""stack":[5,null,0]"#, "not there"),
        (r#""timeDeltas":[1,2,3]"#, r#""timeDeltas":[1,2]"#, "fewer times"),
        (r#""timeDeltas":[1,2,3]"#, r#""timeDeltas":[1,2,1e15]"#, "days"),
    ] {
        assert!(SHARED.contains(from), "{from}");
        refused(SHARED.replace(from, to).as_bytes(), part);
    }
}

#[test]
fn event_streams_have_names_states_and_exceptions() {
    let profile = read(include_bytes!("data/small.nettrace"));
    let found = sums(&profile, SeriesKind::Wall, |name| name);
    // A sample stands for the time since the one before it of its thread.
    assert_eq!(found[&path(&["Shop.Program.Main()", "Shop.Cart.Add(int, string)"])][0], 2);
    assert_eq!(found[&path(&["Shop.Program.Main()"])], [1, 1_000_000]);
    assert_eq!(found[&path(&["Shop.Program.Main()", "[unknown]"])][0], 1);
    let states = profile.wall.by_state();
    let of = |state| states[profile::state_index(state)].samples;
    assert_eq!(of(session::ThreadState::Running), 3);
    assert_eq!(of(session::ThreadState::Other), 1);
    let [thrown] = profile.exceptions.samples.as_slice() else { panic!("one exception") };
    assert_eq!(profile.tables.ty(thrown.ty).name, "Shop.Broken");
    assert_eq!(thrown.message.as_deref(), Some("it broke"));
    assert_eq!((profile.info.runtime.as_str(), profile.info.pid), ("9.0.5", 77));
    assert_eq!(profile.tables.modules[0].path, "/app/Shop.dll");
    // Of a file that is cut, what came before is there: samples come before names.
    let whole = include_bytes!("data/small.nettrace");
    let cut = read(&whole[..whole.len() - 200]);
    assert_eq!(cut.wall.totals.samples, 4);
    for part in ["cut short", "no names"] {
        assert!(cut.notes.iter().any(|(_, note)| note.contains(part)), "{:?}", cut.notes);
    }
}

/// The text report of a session, as `clrscope report` prints it.
fn report(profile: &profile::Profile) -> String {
    let document = report::document(profile, &report::Options::default());
    document::text::of(&document, document::text::Style::default())
}

/// The rows of the table with the headings `self`, `total` and `method`.
#[track_caller]
fn hot_methods(text: &str) -> Vec<&str> {
    let mut lines = text.lines();
    let is_heading = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words == ["self", "total", "method"]
    };
    assert!(lines.any(is_heading), "{text}");
    lines.take_while(|line| !line.trim().is_empty()).collect()
}

#[test]
fn a_trace_is_reported_with_its_hot_methods() {
    let profile = read(include_bytes!("data/small.nettrace"));
    let text = report(&profile);
    let rows = hot_methods(&text);
    // Two of the three samples of running threads are in `Add`. All three are below `Main`, which
    // is at the leaf only where a thread is in native code: that stays in the table of waits.
    let has = |row: &str, parts: &[&str]| parts.iter().all(|part| row.contains(part));
    assert!(has(rows[0], &["66.7 %", "Shop.Cart.Add(int, string)"]), "{text}");
    assert!(has(rows[2], &[" 0.0 %", "100.0 %", "Shop.Program.Main()"]), "{text}");
    assert!(text.contains("waits for") && rows.len() == 3, "{text}");
    assert!(text.contains("Add ← Program.Main"), "{text}");
    assert!(text.contains("of running threads: 3.00 ms"), "{text}");
    let options = report::Options::default();
    let mut markdown = Vec::new();
    report::exporter("markdown").unwrap().write(&profile, &options, &mut markdown).unwrap();
    let markdown = String::from_utf8(markdown).unwrap();
    assert!(markdown.contains("method |") && markdown.contains("Shop.Cart.Add"), "{markdown}");
}

#[test]
fn every_imported_format_is_reported_with_its_hot_methods() {
    let files = [
        ("evented speedscope", EVENTED.as_bytes().to_vec(), "Shop.Main()"),
        ("firefox", SHARED.as_bytes().to_vec(), "work"),
        ("collapsed", b"main;work 3\nmain;rest 1\n".to_vec(), "work"),
        ("pprof", go_heap(), "main.work"),
        ("own collapsed", common::export("collapsed", Some(SeriesKind::Wall)), "Shop"),
        ("own speedscope", common::export("speedscope", Some(SeriesKind::Wall)), "Shop"),
        ("own pprof", common::export("pprof", Some(SeriesKind::Wall)), "Shop"),
        ("own firefox", common::export("firefox", Some(SeriesKind::Wall)), "Shop"),
    ];
    for (format, bytes, method) in files {
        let text = report(&read(&bytes));
        let rows = hot_methods(&text);
        assert!(rows.iter().any(|row| row.contains(method)), "{format}: {text}");
    }
}
