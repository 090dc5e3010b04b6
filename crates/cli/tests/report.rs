//! Reports of made-up sessions, through the built binary.
#![cfg(unix)]
mod common;

use common::{Ended, LIMIT, Running, clrscope, file, run, scratch};
use session::{
    EndReason, Entry, FrameDef, FrameId, FrameTrust, FunctionDef, FunctionId, FunctionKind, MAGIC,
    ModuleDef, ModuleId, ProfilerRun, SampleBatch, SessionEnd, SessionInfo, SessionRecord,
    SessionWriter, StackDef, StackId, ThreadDef, ThreadId, ThreadState,
};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const SECOND: u64 = 1_000_000_000;

/// Ten seconds, a thousand CPU samples: 70 : 30 in two methods of two threads.
fn records() -> Vec<SessionRecord> {
    let mut records = vec![
        SessionRecord::Info(SessionInfo {
            tool_version: "0.1.0".into(),
            pid: 4242,
            process_name: "Shop".into(),
            command_line: "dotnet Shop.dll".into(),
            runtime: "9.0.5".into(),
            platform: "linux-x64".into(),
            entry: Entry::Attached,
            start_unix_ms: 1_700_000_000_000,
            start: 5 * SECOND,
            cpus: 2,
            profilers: vec![ProfilerRun {
                id: "cpu".into(),
                engine: "kernel ring".into(),
                rate_hz: Some(100),
                params: vec![],
            }],
        }),
        SessionRecord::Module(ModuleDef {
            id: ModuleId(0),
            managed: true,
            name: "Shop".into(),
            path: "/srv/Shop.dll".into(),
            build_id: None,
        }),
    ];
    for (id, method) in [(0, "Price"), (1, "Tax")] {
        records.extend([
            SessionRecord::Thread(ThreadDef {
                id: ThreadId(id),
                os_tid: 100 + id,
                name: Some(format!("worker-{id}")),
                managed: true,
                started: None,
                ended: None,
            }),
            SessionRecord::Function(FunctionDef {
                id: FunctionId(id),
                kind: FunctionKind::Managed,
                module: Some(ModuleId(0)),
                type_name: "Contoso.Cart".into(),
                name: method.into(),
                parameters: "(System.String)".into(),
                state_machine: None,
            }),
            SessionRecord::Frame(FrameDef {
                id: FrameId(id),
                function: FunctionId(id),
                line: None,
                trust: FrameTrust::Tables,
            }),
            SessionRecord::Stack(StackDef { id: StackId(id), parent: None, frame: FrameId(id) }),
        ]);
    }
    for second in 0..10 {
        let which = |row: u32| u32::from(row % 10 >= 7);
        records.push(SessionRecord::CpuSamples(SampleBatch {
            start: (5 + second) * SECOND,
            time_delta: vec![SECOND / 100; 100],
            thread: (0..100).map(|row| ThreadId(which(row))).collect(),
            stack: (0..100).map(|row| StackId(which(row))).collect(),
            weight: vec![SECOND / 100; 100],
            state: vec![ThreadState::Running; 100],
            truncated: vec![false; 100],
        }));
    }
    records.push(SessionRecord::End(SessionEnd {
        time: 15 * SECOND,
        reason: EndReason::Stopped,
        exit_code: None,
    }));
    records
}

fn write(path: &Path, records: &[SessionRecord]) {
    let mut writer = SessionWriter::new(File::create(path).unwrap(), "0.1.0").unwrap();
    for record in records {
        writer.write(record).unwrap();
        // Blocks of one record: damage then costs little.
        writer.flush().unwrap();
    }
    writer.finish().unwrap();
}

/// A whole session in a folder of its own.
fn whole() -> (tempfile::TempDir, PathBuf) {
    let folder = scratch();
    let path = file(&folder, "shop.clrscope");
    write(&path, &records());
    (folder, path)
}

fn report(path: &Path, more: &[&str]) -> Ended {
    run([&["report", path.to_str().unwrap()], more].concat())
}

#[test]
fn every_format_is_written_to_a_file_and_to_standard_output() {
    let (folder, session) = whole();
    for (format, part) in [
        ("text", "Contoso.Cart.Price"),
        ("json", "\"clrscope-profile\""),
        ("markdown", "Contoso.Cart.Price"),
        ("html", "<!"),
        ("collapsed", "Contoso.Cart.Price"),
        ("speedscope", "speedscope.app/file-format-schema.json"),
        ("firefox", "\"meta\""),
        ("events", "\"clrscope-events\""),
    ] {
        let text = report(&session, &["--format", format]).expect(0).out;
        assert!(text.contains(part), "{format}: {text:.300}");
        let path = file(&folder, format);
        let silent =
            report(&session, &["--format", format, "-o", path.to_str().unwrap()]).expect(0);
        assert_eq!((silent.out.as_str(), silent.err.as_str()), ("", ""), "{format}");
        assert_eq!(fs::read_to_string(path).unwrap(), text, "{format}");
    }
    let path = file(&folder, "pprof");
    report(&session, &["--format", "pprof", "-o", path.to_str().unwrap()]).expect(0);
    assert_eq!(fs::read(path).unwrap()[..2], [0x1f, 0x8b], "pprof is gzip");
    report(&session, &["--format", "xml"]).expect_error(2, &["xml", "speedscope"]);
}

#[test]
fn text_is_the_default_and_has_no_colours_here() {
    let (_folder, session) = whole();
    let text = report(&session, &[]).expect(0).out;
    assert!(text.contains("Shop") && text.contains("70.0 %"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn filters_leave_what_was_asked_for() {
    let (_folder, session) = whole();
    let weight = |more: &[&str]| {
        let json = report(&session, &[&["--format", "json"], more].concat()).expect(0).json();
        json["series"]
            .as_array()
            .unwrap()
            .iter()
            .map(|series| series["weight"].as_u64().unwrap())
            .sum::<u64>()
            / SECOND
    };
    assert_eq!(weight(&[]), 10);
    assert_eq!(weight(&["--thread", "WORKER-0"]), 7);
    assert_eq!(weight(&["--thread", "101"]), 3);
    assert_eq!(weight(&["--function", "cart.tax"]), 3);
    assert_eq!(weight(&["--profiler", "cpu"]), 10);
    assert_eq!(weight(&["--from", "2s", "--to", "6s"]), 4);
    assert_eq!(weight(&["--from", "9500ms"]), 0);
    report(&session, &["--from", "6s", "--to", "2s"]).expect_error(2, &["--from", "--to"]);
    report(&session, &["--from", "6"]).expect_error(2, &["no unit"]);
    report(&session, &["--profiler", "heap"]).expect_error(2, &["heap", "wall"]);
    report(&session, &["--format", "collapsed", "--profiler", "wall"])
        .expect_error(8, &["no wall samples", "cpu"]);
}

#[test]
fn sessions_of_before_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../session/tests/data/format1.session");
    let json = report(&path, &["--format", "json"]).expect(0).json();
    assert!(json["series"].as_array().is_some_and(|series| !series.is_empty()), "{json}");
    let text = report(&path, &[]).expect(0).out;
    assert!(text.contains("Garbage collection"), "{text}");
}

#[test]
fn files_that_are_no_sessions() {
    let (folder, session) = whole();
    let missing = file(&folder, "missing.clrscope");
    report(&missing, &[]).expect_error(6, &["missing.clrscope", "No such file"]);
    report(folder.path(), &[]).expect_error(6, &["directory"]);
    let path = file(&folder, "other");
    fs::write(&path, "hello, this is text\n").unwrap();
    report(&path, &[]).expect_error(8, &["not a clrscope session", "clrscope record"]);
    fs::write(&path, "").unwrap();
    report(&path, &[]).expect_error(8, &["not a clrscope session"]);
    fs::write(&path, MAGIC).unwrap();
    report(&path, &[]).expect_error(8, &["empty", "record again"]);
    let output = file(&folder, "out.html");
    report(&path, &["--format", "html", "-o", output.to_str().unwrap()]).expect(8);
    assert!(!output.exists(), "no report of nothing");
    // Nothing of the session but its beginning.
    let bytes = fs::read(&session).unwrap();
    let mut header_only = File::create(&path).unwrap();
    std::io::copy(&mut &bytes[..40.min(bytes.len())], &mut header_only).unwrap();
    assert_eq!(report(&path, &[]).code(), 8);
}

#[test]
fn a_newer_format_says_to_update() {
    let (_folder, session) = whole();
    let mut bytes = fs::read(&session).unwrap();
    bytes[8..12].copy_from_slice(&(session::FORMAT + 1).to_le_bytes());
    fs::write(&session, bytes).unwrap();
    report(&session, &[]).expect_error(8, &["newer clrscope", "update clrscope"]);
}

#[test]
fn a_session_that_was_cut_short_is_reported_and_named() {
    let (_folder, session) = whole();
    let bytes = fs::read(&session).unwrap();
    fs::write(&session, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let ended = report(&session, &["--format", "json"]).expect_error(8, &["cut short"]);
    let json = ended.json();
    assert_eq!(json["recording"]["cut_short"], true);
    let samples = json["series"][0]["samples"].as_u64().unwrap();
    assert!(samples > 0 && samples < 1000, "{samples}");
}

#[test]
fn a_damaged_session_is_reported_up_to_the_damage() {
    let (_folder, session) = whole();
    let mut bytes = fs::read(&session).unwrap();
    let middle = bytes.len() * 2 / 3;
    bytes[middle] ^= 0x55;
    fs::write(&session, bytes).unwrap();
    let ended = report(&session, &["--format", "json"])
        .expect_error(8, &["damaged at byte", "can still be used"]);
    assert!(ended.json()["recording"]["damage"].is_string());
}

#[test]
fn every_length_of_a_truncated_session_ends_well() {
    let (folder, session) = whole();
    let bytes = fs::read(&session).unwrap();
    let path = file(&folder, "part");
    for length in (0..bytes.len()).step_by(bytes.len() / 40) {
        fs::write(&path, &bytes[..length]).unwrap();
        report(&path, &[]).expect_error(8, &[]);
    }
}

#[test]
fn a_session_is_not_overwritten_by_its_report() {
    let (_folder, session) = whole();
    let before = fs::read(&session).unwrap();
    report(&session, &["-o", session.to_str().unwrap()]).expect_error(2, &["overwrite"]);
    assert_eq!(fs::read(&session).unwrap(), before);
}

#[test]
fn an_output_that_cannot_be_written() {
    let (folder, session) = whole();
    let path = file(&folder, "no/such/folder.html");
    report(&session, &["-f", "html", "-o", path.to_str().unwrap()])
        .expect_error(6, &["folder.html"]);
}

#[test]
fn a_full_device_is_an_error() {
    let (_folder, session) = whole();
    let mut command = clrscope(["report", session.to_str().unwrap(), "--format", "json"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (_folder, session) = whole();
    for format in ["text", "json", "html"] {
        let mut command = clrscope(["report", session.to_str().unwrap(), "--format", format]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Gone before the first byte.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}: {output:?}");
        assert!(output.stderr.is_empty(), "{format}: {output:?}");
    }
}

/// Runs a command line on a terminal of its own.
fn on_a_terminal(line: &str, colour: bool) -> (i32, String) {
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--command", line, "/dev/null"])
        .stdin(Stdio::null())
        .env("TERM", "xterm");
    if colour {
        command.env_remove("NO_COLOR")
    } else {
        command.env("NO_COLOR", "1")
    };
    let ended = Running::start(command).wait();
    (ended.code(), ended.out)
}

#[test]
fn terminals_get_colours_and_no_binary() {
    let (_folder, session) = whole();
    let line = format!("{} report {}", common::binary(), session.display());
    let (code, text) = on_a_terminal(&line, true);
    assert!(code == 0 && text.contains("\x1b["), "{text}");
    let (code, text) = on_a_terminal(&line, false);
    assert!(code == 0 && !text.contains("\x1b["), "{text}");
    let (code, text) = on_a_terminal(&format!("{line} --format pprof"), true);
    assert!(code == 2 && text.contains("-o FILE"), "{text}");
}

#[test]
fn standard_output_may_be_read_slowly() {
    let (_folder, session) = whole();
    let mut command = clrscope(["report", session.to_str().unwrap(), "--format", "json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let started = std::time::Instant::now();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().count();
    assert!(lines > 0 && child.wait().unwrap().success() && started.elapsed() < LIMIT);
}
