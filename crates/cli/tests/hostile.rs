//! What comes from others is only shown: names that mislead, and files that are none.
#![cfg(unix)]
mod common;

use common::{Running, agent_is_mapped, clrscope, file, run, scratch};
use document::plain::is_hostile;
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::getuid,
};
use std::{fs, path::Path, process::Command, time::Duration};
use testkit::{Runtime, Sample, TargetProcess, on_sample_runtimes_at_once};

/// On the command line of the program.
const ARGUMENT: &str = "args\u{202e}txt\u{9b}31m";

fn start(runtime: Runtime) -> TargetProcess {
    let mut process = Sample::named("hostile").launch(runtime, &[ARGUMENT]).private_tmp().start();
    process.wait_for_ready();
    process
}

/// Nothing in it acts on a terminal or on the text around it.
#[track_caller]
fn is_plain(what: &str, text: &str) {
    let hostile = |letter: &char| is_hostile(*letter) && !matches!(letter, '\n' | '\t');
    let found: Vec<char> = text.chars().filter(hostile).collect();
    assert!(found.is_empty(), "{what} has {found:?}");
}

#[test]
fn names_of_the_program_do_nothing_where_they_are_shown() {
    on_sample_runtimes_at_once(|runtime| {
        let process = start(runtime);
        let folder = scratch();
        let output = file(&folder, "x.clrscope");
        let (pid, session) = (process.pid().to_string(), output.to_str().unwrap());
        let profilers = "cpu,wall,exceptions,threads,jit";
        let summary = run(["record", &pid, "-o", session, "-d", "3s", "-p", profilers]).expect(0);
        is_plain("the summary", &summary.out);
        let all = [
            "text",
            "json",
            "markdown",
            "html",
            "collapsed",
            "speedscope",
            "firefox",
            "chrome",
            "otlp",
            "events",
        ];
        for format in all {
            let page = run(["report", session, "--format", format]).expect(0);
            is_plain(format, &page.out);
            is_plain(format, &page.err);
            // The same names in words of the format.
            let shown = match format {
                "text" | "collapsed" => "Evil\\u{202e}txt\\u{1b}[2J\\u{9b}31m",
                "markdown" => "\\u{202e}txt",
                "html" => "Evil\\\\u{202e}txt\\\\u{1b}[2J\\\\u{9b}31m",
                _ => "Evil\\u202etxt\\u001b[2J\\u009b31m\\u2028\\udb40\\udc41End",
            };
            // Text wraps long names.
            let unwrapped: String = page.out.split_whitespace().collect();
            // Which has spans of traced calls only.
            let is_shown =
                format == "otlp" || page.out.contains(shown) || unwrapped.contains(shown);
            assert!(is_shown, "{runtime}: {format} has not {shown}: {}", page.out);
        }
        let pprof = Command::new(common::binary())
            .args(["report", session, "--format", "pprof"])
            .output()
            .unwrap();
        assert!(pprof.status.success());
        for args in [
            vec!["ps"],
            vec!["ps", "--json"],
            vec!["top", &pid, "--json", "-d", "2s"],
            vec!["checkup", &pid, "-d", "2s"],
            vec!["checkup", &pid, "-d", "2s", "--format", "html", "--no-heap"],
            vec!["heap", &pid, "--top", "100000"],
            vec!["heap", &pid, "--top", "100000", "--json"],
            vec!["deadlocks", &pid],
            vec!["trace", &pid, "evil!**", "--for", "1s", "--everything"],
        ] {
            let ended = Running::start(clrscope(&args)).wait();
            is_plain(&format!("{runtime}: {args:?}"), &ended.out);
            is_plain(&format!("{runtime}: {args:?} on standard error"), &ended.err);
            assert!(ended.code() == 0 || args[0] == "trace", "{runtime}: {args:?}: {ended:?}");
        }
    });
}

#[test]
fn names_on_the_command_line_do_nothing_in_errors() {
    for args in [
        vec!["record", ARGUMENT],
        vec!["report", ARGUMENT],
        vec!["heap", ARGUMENT],
        vec!["il", ARGUMENT],
    ] {
        let ended = run(&args);
        assert_ne!(ended.code(), 0);
        assert!(ended.err.contains("args\\u{202e}txt\\u{9b}31m"), "{args:?}: {}", ended.err);
        is_plain(&format!("{args:?}"), &ended.err);
    }
}

/// A file that is none, as an output.
fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn only_regular_files_are_written() {
    let process = start(Runtime::V9);
    let folder = scratch();
    let (pipe, session) = (file(&folder, "pipe"), file(&folder, "x.clrscope"));
    fifo(&pipe);
    let (pipe, good, pid) =
        (pipe.to_str().unwrap(), session.to_str().unwrap(), process.pid().to_string());
    run(["record", &pid, "-d", "500ms", "-o", good, "-q"]).expect(0);
    let writes = |output: &str| -> Vec<Vec<String>> {
        let all: [&[&str]; 8] = [
            &["record", &pid, "-d", "1s", "-o", output],
            &["report", good, "-o", output],
            &["report", good, "--format", "html", "-o", output],
            &["heap", &pid, "--gcdump", output],
            &["trace", &pid, "hostile!*.Burn", "--for", "300ms", "--event-log", output],
            &["checkup", &pid, "-d", "1s", "--no-heap", "--report", output],
            &["checkup", &pid, "-d", "1s", "--no-heap", "-o", output],
            &["launch", "-o", output, "--", "true"],
        ];
        all.iter().map(|args| args.iter().map(|arg| (*arg).to_owned()).collect()).collect()
    };
    let mut outputs =
        vec![(pipe, "FIFO"), ("/dev/null", "a device"), ("/dev/stdout", "not a regular file")];
    let as_folder = folder.path().to_str().unwrap();
    outputs.push((as_folder, "folder"));
    std::thread::scope(|scope| {
        for (output, why) in outputs {
            for args in writes(output) {
                scope.spawn(move || {
                    let code = if args[0] == "launch" { 125 } else { 6 };
                    let ended = Running::start(clrscope(&args)).wait().expect(code);
                    assert!(
                        ended.err.contains(output) && ended.err.contains(why),
                        "{args:?}: {}",
                        ended.err
                    );
                });
            }
        }
    });
    assert!(!fs::metadata(pipe).unwrap().is_file(), "the pipe was replaced");
    assert!(!agent_is_mapped(process.pid()), "an agent was loaded for nothing");
}

/// A disk without room: the session and the report say so, and where.
#[test]
fn a_full_disk_is_an_error() {
    let folder = scratch();
    let session = file(&folder, "good.clrscope");
    let mut process = start(Runtime::V8);
    run(["record", &process.pid().to_string(), "-d", "2s", "-o", session.to_str().unwrap(), "-q"])
        .expect(0);
    let full = file(&folder, "full");
    fs::create_dir(&full).unwrap();
    let within = |size: &str, args: &[&str]| {
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !getuid().is_root() {
            command.arg("--map-root-user");
        }
        let script = "mount -t tmpfs -o size=\"$1\" full \"$2\" && shift 2 && exec \"$@\"";
        command.args(["sh", "-c", script, "sh", size]).arg(&full).arg(common::binary()).args(args);
        Running::start(command).wait()
    };
    let output = full.join("x");
    let (output, good, pid) =
        (output.to_str().unwrap(), session.to_str().unwrap(), process.pid().to_string());
    within("4k", &["report", good, "--format", "html", "-o", output])
        .expect_error(6, &[output, "No space left on device"]);
    let began = std::time::Instant::now();
    within("32k", &["record", &pid, "-d", "30s", "--rate", "1000", "-o", output])
        .expect_error(6, &[output, "No space left on device"]);
    assert!(began.elapsed() < Duration::from_secs(25), "it continues without a place to write to");
    assert!(process.is_running());
}
