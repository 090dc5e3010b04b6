//! Wrong arguments and processes that cannot be profiled: a clear error with the next step, the
//! right exit code, no hang, and nothing left behind.
#![cfg(unix)]
mod common;

use common::{
    Report, Running, agent_is_mapped, clrscope, file, freeze, left_behind, run, scratch,
    wait_until_clean, wait_until_recording, words,
};
use rustix::process::Signal;
use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};
use testkit::{Launch, Runtime, Sample, TargetProcess};

#[test]
fn wrong_arguments() {
    for (line, part) in [
        ("frobnicate", "frobnicate"),
        ("record", "PID|NAME"),
        ("record 1 -p nope", "no profiler \"nope\""),
        ("record 1 -p cpu,cpu", "twice"),
        ("record 1 -p wall:rate=0", "from 1 to 100"),
        ("record 1 -p wall:speed=1", "no parameter \"speed\""),
        ("record 1 -p ,", "no profiler is named"),
        ("record 1 --rate 0", "1..=1000"),
        ("record 1 --rate 1001", "1..=1000"),
        ("record 1 --duration 10", "no unit"),
        ("record 1 --duration 0s", "longer than 0"),
        ("record 1 --duration soon", "not a duration"),
        ("record 1 --engine magic", "kernel-ring"),
        ("record 1 --json --quiet", "cannot be used with"),
        ("launch", "COMMAND"),
        ("launch dotnet x.dll", "unexpected argument"),
        ("report", "FILE"),
        ("top 1", "needs a terminal"),
    ] {
        run(words(line)).expect_error(2, &[part]);
    }
    let ended = run::<&str>([]).expect(2);
    assert!(ended.err.contains("Usage: clrscope <COMMAND>"), "{}", ended.err);
    assert!(run(["--version"]).expect(0).out.starts_with("clrscope 0."));
}

/// A number that is no process: one above the kernel's limit.
const NO_PID: &str = "4194305";

#[test]
fn no_such_process() {
    run(["record", NO_PID]).expect_error(3, &[NO_PID, "clrscope ps"]);
    run(["record", "no-such-name-anywhere"])
        .expect_error(3, &["no-such-name-anywhere", "clrscope ps"]);
    run(["top", "--json", NO_PID]).expect_error(3, &[NO_PID, "clrscope ps"]);
    run(["record", "99999999999999999999"]).expect_error(3, &[]);
    run(["record", "0"]).expect_error(3, &[]);
}

#[test]
fn a_process_that_is_not_dotnet() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let sleeper = Launch::new("sleep").arg("60").start();
    run(["record", &sleeper.pid().to_string(), "-o", output.to_str().unwrap()])
        .expect_error(4, &["is not a .NET process", "sleep"]);
    assert!(!output.exists(), "nothing was recorded");
}

#[test]
fn a_command_that_cannot_run() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let launch = |command: &str| run(["launch", "-o", output.to_str().unwrap(), "--", command]);
    launch("/no/such/program").expect_error(127, &["/no/such/program"]);
    launch("/etc/passwd").expect_error(126, &["/etc/passwd"]);
    launch("true").expect_error(125, &["no .NET process"]);
    assert!(launch("false").expect(1).err.contains("no .NET process"));
    assert!(!output.exists(), "nothing was recorded");
}

#[test]
fn a_process_of_another_user() {
    // The binary where nobody can run it from.
    let folder = tempfile::Builder::new().prefix("clrscope-test-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = folder.path().join("clrscope");
    fs::copy(common::binary(), &binary).unwrap();
    let burn = Sample::named("burn").start(Runtime::V9, &["--seconds", "60"]);
    let pid = burn.pid().to_string();
    let mut command = match rustix::process::geteuid().is_root() {
        // 65534 is nobody on every Linux.
        true => {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(&binary)
                .args(["record", &pid]);
            command
        }
        // Without root, the first process is another user's.
        false => clrscope(["record", "1"]),
    };
    command.current_dir("/");
    let ended = Running::start(command).wait();
    assert_eq!(ended.code(), 4, "{ended:?}");
    if rustix::process::geteuid().is_root() {
        assert!(ended.err.contains("another user") && ended.err.contains("as root"), "{ended:?}");
    }
}

/// `burn` on .NET 9 in a folder of its own for temporary files.
fn burn(seconds: &str) -> TargetProcess {
    let mut process =
        Sample::named("burn").launch(Runtime::V9, &["--seconds", seconds]).private_tmp().start();
    process.wait_for_ready();
    process
}

fn record(process: &TargetProcess, output: &Path, more: &[&str]) -> Command {
    let pid = process.pid().to_string();
    clrscope([&["record", &pid, "-o", output.to_str().unwrap()], more].concat())
}

#[test]
fn a_process_that_exits_half_way() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let mut process = burn("3");
    let ended = Running::start(record(&process, &output, &["--duration", "60s"])).wait();
    ended.expect_error(5, &["ended before the recording was complete", "x.clrscope"]);
    assert!(process.wait(Duration::from_secs(20)).unwrap().success(), "{}", process.transcript());
    let report = Report::of(&output);
    assert_eq!(report.0["recording"]["end"]["reason"], "process-exited");
    assert!(report.series("cpu")["samples"].as_u64().unwrap() > 20);
    assert_eq!(left_behind(process.tmp().unwrap()), Vec::<String>::new());
}

#[test]
fn a_stopped_process() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let mut process = burn("120");
    freeze(&mut process);
    let started = Instant::now();
    Running::start(record(&process, &output, &[]))
        .wait()
        .expect_error(4, &["stopped", "kill -CONT"]);
    assert!(started.elapsed() < Duration::from_secs(15), "that took {:?}", started.elapsed());
    assert!(!output.exists());
    process.thaw().unwrap();
    Running::start(record(&process, &output, &["--duration", "500ms"])).wait().expect(0);
}

#[test]
fn a_process_that_is_stopped_while_it_is_recorded() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let mut process = burn("120");
    let mut recorder = Running::start(record(&process, &output, &["--duration", "3s"]));
    wait_until_recording(&output, &mut recorder);
    freeze(&mut process);
    // It may not wait for an answer for ever; what it says depends on when the agent fell silent.
    let ended = recorder.wait();
    assert!(matches!(ended.code(), 0 | 5), "{ended:?}");
    process.thaw().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(process.is_running(), "{}", process.transcript());
    wait_until_clean(process.tmp().unwrap());
}

#[test]
fn a_runtime_below_the_floor() {
    let mut process = Sample::named("burn").start(Runtime::V2_1, &["--seconds", "60"]);
    process.wait_for_ready();
    let pid = process.pid().to_string();
    run(["record", &pid]).expect_error(4, &["2.1", "3.1 or newer"]);
    assert!(process.is_running());
    let assembly = Sample::named("burn").launch(Runtime::V2_1, &["--seconds", "2"]).command();
    let mut words = vec!["launch".to_owned(), "--".to_owned()];
    words.push(assembly.get_program().to_str().unwrap().to_owned());
    words.extend(assembly.get_args().map(|word| word.to_str().unwrap().to_owned()));
    let folder = scratch();
    let mut command = clrscope(words);
    command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1").current_dir(folder.path());
    let ended = Running::start(command).wait();
    assert_eq!(ended.code(), 125, "{ended:?}");
    assert!(ended.out.contains("ready"), "the program ran undisturbed: {ended:?}");
}

#[test]
fn a_natively_compiled_process() {
    // What tells such a program is the symbol that its runtime exports for debuggers.
    let folder = scratch();
    let (source, program) = (file(&folder, "aot.c"), file(&folder, "aot"));
    fs::write(
        &source,
        "#include <unistd.h>\nint DotNetRuntimeDebugHeader = 1;\n\
            int main(void) { for (;;) pause(); }\n",
    )
    .unwrap();
    let status =
        Command::new("cc").args(["-rdynamic", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(status.success());
    let process = Launch::new(&program).start();
    run(["record", &process.pid().to_string()]).expect_error(4, &["NativeAOT", "perf"]);
}

#[test]
fn diagnostics_switched_off() {
    let launch = Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]);
    let mut process = launch.env("DOTNET_EnableDiagnostics", "0").private_tmp().start();
    process.wait_for_ready();
    run(["record", &process.pid().to_string()])
        .expect_error(4, &["DOTNET_EnableDiagnostics=0", "restart it"]);
    assert!(process.is_running());
}

/// The diagnostic socket of a process.
fn socket(process: &TargetProcess) -> std::path::PathBuf {
    let prefix = format!("dotnet-diagnostic-{}-", process.pid());
    let entries = fs::read_dir(process.tmp().unwrap()).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix))
        .unwrap()
}

#[test]
fn a_socket_that_is_gone() {
    let process = burn("60");
    fs::remove_file(socket(&process)).unwrap();
    run(["record", &process.pid().to_string()]).expect_error(4, &["socket", "restart the process"]);
}

#[test]
fn a_socket_where_somebody_else_answers_nothing() {
    let process = burn("60");
    let path = socket(&process);
    fs::remove_file(&path).unwrap();
    // We listen now, and never answer.
    let _listener = UnixListener::bind(&path).unwrap();
    let started = Instant::now();
    let ended = run(["record", &process.pid().to_string()]);
    ended.expect_error(4, &["socket"]);
    assert!(started.elapsed() < Duration::from_secs(15), "that took {:?}", started.elapsed());
    // And a list is made all the same.
    run(["ps"]).expect(0);
}

#[test]
fn another_profiler_is_there() {
    for runtime in testkit::sample_runtimes() {
        let folder = scratch();
        let (first, second) = (file(&folder, "first.clrscope"), file(&folder, "second.clrscope"));
        let path = first.to_str().unwrap();
        let launch = Sample::named("burn").launch(runtime, &["--seconds", "60"]);
        let profiler =
            [common::binary(), "launch", "-p", "cpu", "--duration", "6s", "-o", path, "--"];
        let mut launched = launch.under(profiler).start();
        launched.wait_for_ready();
        // The program itself is what clrscope started.
        let pid = common::child_of(launched.pid()).to_string();
        let record = |duration| {
            ["record", &pid, "-p", "cpu", "--duration", duration, "-o", second.to_str().unwrap()]
        };
        let beside = run(record("1s"));
        if runtime.major() >= 6 {
            beside.expect(0);
            assert_eq!(Report::of(&second).0["recording"]["entry"], "attached-beside", "{runtime}");
            // It goes while we are there. That must neither end the process nor keep us or the next
            // one.
            for duration in ["6s", "1s"] {
                let ended = run(record(duration)).expect(0);
                assert!(!ended.out.contains("note"), "{runtime}: {}", ended.out);
            }
        } else {
            beside.expect_error(4, &["profiler"]);
        }
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap(),
            Signal::TERM,
        )
        .unwrap();
        launched.wait(Duration::from_secs(20)).unwrap();
        assert_eq!(
            Report::of(&first).0["recording"]["entry"],
            "launched",
            "{runtime}: the first one was disturbed"
        );
    }
}

#[test]
fn another_recording_is_under_way() {
    for runtime in testkit::sample_runtimes() {
        let folder = scratch();
        let (first, second) = (file(&folder, "first.clrscope"), file(&folder, "second.clrscope"));
        let mut process =
            Sample::named("burn").launch(runtime, &["--seconds", "120"]).private_tmp().start();
        process.wait_for_ready();
        let mut recorder = Running::start(record(&process, &first, &["--duration", "60s"]));
        wait_until_recording(&first, &mut recorder);
        let beside = Running::start(record(&process, &second, &["--duration", "1s"])).wait();
        if runtime.major() >= 6 {
            beside.expect(0);
        } else {
            beside.expect_error(4, &["profiler"]);
        }
        recorder.signal(Signal::INT);
        recorder.wait().expect(0);
        assert_eq!(
            Report::of(&first).0["recording"]["entry"],
            "attached",
            "{runtime}: the first one was disturbed"
        );
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
        wait_until_clean(process.tmp().unwrap());
    }
}

/// `burn` in a mount namespace of its own, where every folder for temporary files is this small.
fn burn_with_small_tmp(size: &str) -> TargetProcess {
    let script = format!(
        "for folder in /tmp /dev/shm /var/tmp; do mount -t tmpfs -o size={size} none $folder || \
         exit 99; done; export TMPDIR=/tmp; exec \"$@\""
    );
    let own = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    let mut process = Sample::named("burn")
        .launch(Runtime::V9, &["--seconds", "120"])
        .under(["unshare", own, "sh", "-c", &script, "sh"])
        .start();
    process.wait_for_ready();
    process
}

fn inside(process: &TargetProcess, folder: &str) -> Vec<String> {
    left_behind(Path::new(&format!("/proc/{}/root{folder}", process.pid())))
}

#[test]
fn no_room_for_the_agent() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let mut process = burn_with_small_tmp("64k");
    Running::start(record(&process, &output, &[]))
        .wait()
        .expect_error(4, &["/tmp", "No space left", "TMPDIR"]);
    assert!(process.is_running() && !output.exists());
    for folder in ["/tmp", "/dev/shm", "/var/tmp"] {
        assert_eq!(inside(&process, folder), Vec::<String>::new(), "{folder}");
    }
}

#[test]
fn a_read_only_tmp() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let mut process = burn_with_small_tmp("64m");
    let remount =
        "for folder in /tmp /dev/shm /var/tmp; do mount -o remount,ro $folder || exit 99; done";
    let pid = process.pid().to_string();
    let status =
        Command::new("nsenter").args(["-t", &pid, "-m", "sh", "-c", remount]).status().unwrap();
    assert!(status.success());
    Running::start(record(&process, &output, &[]))
        .wait()
        .expect_error(4, &["/tmp", "Read-only", "TMPDIR"]);
    assert!(process.is_running() && !output.exists());
}

#[test]
fn a_session_file_that_cannot_be_written() {
    let process = burn("60");
    let ended =
        Running::start(record(&process, Path::new("/no/such/folder/x.clrscope"), &[])).wait();
    ended.expect_error(6, &["/no/such/folder/x.clrscope", "-o"]);
    assert_eq!(left_behind(process.tmp().unwrap()), Vec::<String>::new());
    assert!(!agent_is_mapped(process.pid()), "the process was not touched");
    // No room for the samples: the recording ends with an error, the process continues.
    let mut process = burn("60");
    Running::start(record(&process, Path::new("/dev/full"), &["--duration", "20s"]))
        .wait()
        .expect_error(6, &["/dev/full"]);
    assert!(process.is_running());
    wait_until_clean(process.tmp().unwrap());
}

#[test]
fn clrscope_is_killed_while_it_records() {
    for runtime in testkit::sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "x.clrscope");
        let mut process =
            Sample::named("burn").launch(runtime, &["--seconds", "120"]).private_tmp().start();
        process.wait_for_ready();
        let mut recorder = Running::start(record(&process, &output, &["--duration", "60s"]));
        wait_until_recording(&output, &mut recorder);
        std::thread::sleep(Duration::from_secs(2));
        recorder.signal(Signal::KILL);
        recorder.wait();
        wait_until_clean(process.tmp().unwrap());
        // The agent leaves by itself, so that the next one can come.
        let again = file(&folder, "again.clrscope");
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let ended = Running::start(record(&process, &again, &["--duration", "1s"])).wait();
            if ended.code() == 0 && Report::of(&again).0["recording"]["entry"] == "attached" {
                break;
            }
            assert!(Instant::now() < until, "{runtime}: the slot did not become free: {ended:?}");
            std::thread::sleep(Duration::from_millis(500));
        }
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
        // What came before the kill can be read.
        let rest = run(["report", output.to_str().unwrap(), "--format", "json"])
            .expect_error(8, &["cut short"]);
        assert!(rest.json()["series"][0]["samples"].as_u64().unwrap() > 10, "{runtime}");
    }
}

#[test]
fn a_broken_agent_library() {
    let folder = scratch();
    let (agent, output) = (file(&folder, "agent.so"), file(&folder, "x.clrscope"));
    fs::write(&agent, "not a library").unwrap();
    let mut process = burn("60");
    let mut command = record(&process, &output, &["--duration", "1s"]);
    command.env("CLRSCOPE_AGENT", &agent);
    let ended = Running::start(command).wait().expect(4);
    assert!(ended.err.starts_with("error: "), "{ended:?}");
    assert!(process.is_running());
    wait_until_clean(process.tmp().unwrap());
    let mut command = record(&process, &output, &[]);
    command.env("CLRSCOPE_AGENT", "/no/such/agent.so");
    Running::start(command).wait().expect_error(6, &["/no/such/agent.so"]);
}
