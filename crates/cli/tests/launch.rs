//! `clrscope launch` on every runtime: the truth from the first instruction on, and a command that
//! does not notice us.
#![cfg(unix)]
mod common;

use common::{Ended, Report, Running, clrscope, file, open_type, scratch};
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use testkit::{Host, Launch, Runtime, Sample, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(120);

/// A launch of ours around a launch of the test kit.
fn under(launch: Launch, output: &Path, more: &[&str]) -> Launch {
    let prefix =
        [&[common::binary(), "launch", "-o", output.to_str().unwrap()], more, &["--"]].concat();
    launch.under(prefix)
}

#[test]
fn cpu_time_from_the_first_instruction_on() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "burn.clrscope");
        let launch = Sample::named("burn").launch(runtime, &["--seconds", "5"]);
        let mut process =
            under(launch, &output, &["-p", "cpu", "--rate", "1000"]).private_tmp().start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        assert_eq!(report.0["recording"]["entry"], "launched", "{runtime}");
        assert_eq!(report.0["recording"]["end"]["reason"], "process-exited", "{runtime}");
        let weights = [
            report.total_weight("cpu", "Clrscope.Samples.Burn", "Slow"),
            report.total_weight("cpu", "Clrscope.Samples.Burners", "Medium"),
            report.total_weight("cpu", "Clrscope.Samples.Burn", "Light"),
        ];
        let all = weights.iter().sum::<u64>() as f64;
        for ((weight, share), method) in
            weights.into_iter().zip([0.7, 0.2, 0.1]).zip(["Slow", "Medium", "Light"])
        {
            let seen = weight as f64 / all;
            assert!((seen - share).abs() < 0.04, "{runtime}: {method} has {seen:.3}, not {share}");
        }
        let cpu = truth["cpu_ns"].as_f64().unwrap();
        assert!(all > cpu * 0.85, "{runtime}: {all} of {cpu} nanoseconds were seen");
        // The start of the program is in it: the entry point is on stacks, and the runtime's
        // compiler has worked.
        assert!(report.total_weight("cpu", "Clrscope.Samples.Burn", "Main") > 0, "{runtime}");
        assert_eq!(common::left_behind(process.tmp().unwrap()), Vec::<String>::new(), "{runtime}");
    }
}

#[test]
fn without_the_right_to_watch_processors_each_moment_is_sampled_once() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "ordinary.clrscope");
        let launch = Sample::named("burn").launch(runtime, &["--seconds", "3"]);
        // Root, but with no more rights over events than others have.
        let without_rights = ["setpriv", "--bounding-set=-sys_admin,-perfmon,-bpf"];
        let record = [
            common::binary(),
            "launch",
            "-o",
            output.to_str().unwrap(),
            "-p",
            "cpu",
            "--rate",
            "500",
            "--",
        ];
        let mut process = launch.under([&without_rights[..], &record].concat()).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        let engine = &report.0["recording"]["profilers"][0]["engine"];
        assert!(engine.as_str().unwrap().starts_with("timer signals"), "{runtime}: {engine}");
        let methods = [("Burn", "Slow"), ("Burners", "Medium"), ("Burn", "Light")];
        let weight =
            |(class, name)| report.total_weight("cpu", &format!("Clrscope.Samples.{class}"), name);
        let seen =
            methods.into_iter().map(weight).sum::<u64>() as f64 / truth["cpu_ns"].as_f64().unwrap();
        // The program's own figure is of some four fifths of its time.
        assert!(
            (0.9..1.7).contains(&seen),
            "{runtime}: {seen:.3} of the measured CPU time has samples"
        );
    }
}

/// A shell that sets limits and becomes a launch of ours.
fn limited(limits: &str, output: &Path, command: &[&str]) -> Ended {
    let script = format!("{limits}; exec \"$@\"");
    let launch =
        [common::binary(), "launch", "-p", "cpu", "-q", "-o", output.to_str().unwrap(), "--"];
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).args(launch).args(command).stdin(Stdio::null());
    Running::start(shell).wait()
}

#[test]
fn a_command_without_room_for_the_agent_is_not_started() {
    let folder = scratch();
    let (output, marker) = (file(&folder, "x.clrscope"), file(&folder, "marker"));
    let touch = ["touch", marker.to_str().unwrap()];
    for (limits, what) in [
        ("ulimit -n 50", "50 file descriptors at most"),
        ("ulimit -v 600000", "585 MB of address space at most"),
    ] {
        let ended = limited(limits, &output, &touch);
        ended.expect_error(
            125,
            &["no room for the agent", what, "raise its limit", "was not started"],
        );
        assert!(!marker.exists() && !output.exists(), "{limits}");
    }
    // A limit that the command sets itself is met when the process is there: it runs, unrecorded.
    let burn = Sample::named("burn").launch(Runtime::V3_1, &["--seconds", "1"]).command();
    let mut script = Command::new(common::binary());
    script.args(["launch", "-p", "cpu", "-q", "-o", output.to_str().unwrap(), "--"]);
    script
        .args(["sh", "-c", "ulimit -n 26; exec \"$@\"", "sh"])
        .arg(burn.get_program())
        .args(burn.get_args());
    script
        .envs(burn.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null());
    let ended = Running::start(script).wait();
    assert!(ended.out.contains("cpu_ns"), "{ended:?}");
    ended.expect_error(125, &["has no room for the agent", "of at most 26 file descriptors"]);
    assert!(!output.exists());
}

#[test]
fn a_profiler_in_the_environment_is_named_where_the_runtime_loads_only_one() {
    let folder = scratch();
    let output = file(&folder, "burn.clrscope");
    let burn = Sample::named("burn").launch(Runtime::V3_1, &["--seconds", "1"]).command();
    let mut command = clrscope(["launch", "-p", "gc", "-q", "-o", output.to_str().unwrap(), "--"]);
    command
        .arg(burn.get_program())
        .args(burn.get_args())
        .envs(burn.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("CORECLR_ENABLE_PROFILING", "1")
        .env("CORECLR_PROFILER", "{00000000-0000-0000-0000-000000000001}")
        .stdin(Stdio::null());
    let ended = Running::start(command).wait();
    assert!(ended.out.contains("cpu_ns"), "{ended:?}");
    ended.expect_error(125, &["CORECLR_PROFILER", ".NET Core 3.1", "CORECLR_ENABLE_PROFILING=0"]);
}

#[test]
fn the_command_has_the_limits_that_it_would_have_without_us() {
    let folder = scratch();
    let ended =
        limited("ulimit -Sn 300", &file(&folder, "x.clrscope"), &["sh", "-c", "ulimit -Sn"]);
    assert_eq!(ended.out.trim(), "300", "{ended:?}");
}

#[test]
fn every_exception_of_a_whole_run() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "thrower.clrscope");
        let launch =
            Sample::named("thrower").launch(runtime, &["--count", "2000", "--rate", "4000"]);
        let mut process = under(launch, &output, &["-p", "exceptions"]).start();
        let truth = process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let counts = Report::of(&output).exceptions();
        let known: BTreeMap<&str, u64> = truth["exceptions"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(ty, known)| (open_type(ty), known["count"].as_u64().unwrap()))
            .collect();
        for (ty, count) in known {
            // The program throws one of each before it begins to count.
            assert_eq!(counts.get(ty).copied(), Some(count + 1), "{runtime}: {ty}: {counts:?}");
        }
    }
}

#[test]
fn every_collection_of_a_launched_process() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "gc.clrscope");
        let launch = Sample::named("gcforce").launch(runtime, &["--rounds", "10", "--gate"]);
        let launch = launch.env("COMPlus_GCgen0size", "2000000");
        let mut process = under(launch, &output, &["-p", "gc"]).start();
        process.wait_for_ready();
        // The runtime takes orders for its events a moment after it has begun to run programs.
        std::thread::sleep(Duration::from_secs(1));
        process.send_line("go").unwrap();
        let truth = process.truth(LIMIT);
        std::thread::sleep(Duration::from_secs(1));
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        // What the round before the counting did may be in it or not.
        let induced = report.0["gc"]["induced"].as_u64().unwrap();
        assert!((30..=33).contains(&induced), "{runtime}: {induced} induced collections: {truth}");
        for (generation, count) in report.collections().into_iter().enumerate() {
            let counted = truth["by_generation"][generation].as_u64().unwrap();
            assert!(
                count >= counted && count <= counted * 6 / 5 + 1,
                "{runtime}: generation {generation}: {count}, {truth}"
            );
        }
    }
}

#[test]
fn a_real_application_as_it_starts() {
    for runtime in [Runtime::Azmcp9, Runtime::V10] {
        let folder = scratch();
        let output = file(&folder, "azmcp.clrscope");
        let Host::App { app } = runtime.require().host() else {
            panic!("{runtime} is no application")
        };
        let mut process =
            under(Launch::new(app).arg("--version"), &output, &["--rate", "1000"]).start();
        process.wait_for_line(LIMIT, |line| line.contains('.')).unwrap();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
        let report = Report::of(&output);
        assert!(report.series("cpu")["samples"].as_u64().unwrap() > 50, "{runtime}");
        let functions = report.0["functions"].as_array().unwrap();
        let main = functions
            .iter()
            .any(|function| function["method"].as_str().is_some_and(|name| name.contains("Main")));
        assert!(main, "{runtime}: the entry point is on no stack");
    }
}

/// `sh -c script` under `launch`, with the .NET program of the test as its arguments.
fn script(script: &str, output: &Path, more: &[&str]) -> Command {
    let burn = Sample::named("burn").launch(Runtime::V9, &["--seconds", "1"]).command();
    let mut words: Vec<String> =
        vec!["launch".into(), "-o".into(), output.to_str().unwrap().into()];
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words.extend(["--", "sh", "-c", script, "sh"].map(str::to_owned));
    words.push(burn.get_program().to_str().unwrap().into());
    words.extend(burn.get_args().map(|word| word.to_str().unwrap().to_owned()));
    let mut command = clrscope(words);
    for (name, value) in burn.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn run(text: &str, more: &[&str]) -> (Ended, tempfile::TempDir) {
    let folder = scratch();
    let ended = Running::start(script(text, &file(&folder, "x.clrscope"), more)).wait();
    (ended, folder)
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    for code in [0, 1, 7, 255] {
        run(&format!("\"$@\"; exit {code}"), &[]).0.expect(code);
    }
    run("\"$@\"; kill -TERM $$", &[]).0.expect(128 + 15);
    let (ended, _folder) = run("exit 3", &[]);
    assert!(ended.expect(3).err.contains("no .NET process"));
    let (ended, _folder) = run("exit 0", &[]);
    ended.expect_error(125, &["no .NET process"]);
}

#[test]
fn the_streams_are_those_of_the_command() {
    let folder = scratch();
    let mut command =
        script("cat; echo oops >&2; \"$@\" > /dev/null", &file(&folder, "x.clrscope"), &[]);
    let input = file(&folder, "input");
    std::fs::write(&input, "from standard input\n").unwrap();
    command.stdin(std::fs::File::open(input).unwrap());
    let ended = Running::start(command).wait().expect(0);
    assert_eq!(ended.out, "from standard input\n");
    assert!(ended.err.starts_with("oops\n") && ended.err.contains("Recorded "), "{}", ended.err);
    let (quiet, _folder) = run("\"$@\" > /dev/null", &["--quiet"]);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
    let (json, _folder) = run("\"$@\" > /dev/null", &["--json"]);
    let summary: serde_json::Value =
        serde_json::from_str(json.err.lines().last().unwrap()).unwrap();
    assert!(
        summary["exit_code"] == 0 && summary["sessions"][0]["samples"]["cpu"].as_u64().unwrap() > 0,
        "{summary}"
    );
}

#[test]
fn signals_reach_the_command() {
    for (signal, name) in
        [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::USR1, "USR1"), (Signal::HUP, "HUP")]
    {
        let folder = scratch();
        let text = format!(
            "trap 'echo got {name}; done=1' {name}; echo armed; \"$@\" > /dev/null; \
            while [ -z \"$done\" ]; do sleep 0.05; done; exit 9"
        );
        let mut command = script(&text, &file(&folder, "x.clrscope"), &["--quiet"]);
        // A session of its own: no terminal would send the signal to the command by itself.
        let mut wrapped = Command::new("setsid");
        wrapped
            .arg("--wait")
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null());
        for (variable, value) in command.get_envs() {
            match value {
                Some(value) => wrapped.env(variable, value),
                None => wrapped.env_remove(variable),
            };
        }
        command = wrapped;
        let running = Running::start(command);
        // `setsid` forks only where it leads a group already; the clrscope to signal is it or its
        // child.
        let pid = clrscope_below(running.pid());
        std::thread::sleep(Duration::from_secs(3));
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), signal)
            .unwrap();
        let ended = running.wait().expect(9);
        assert_eq!(ended.out, format!("armed\ngot {name}\n"));
    }
}

/// The process of that number if it is `clrscope` by now, or its child that is.
fn clrscope_below(pid: u32) -> u32 {
    let is_clrscope = |pid: u32| {
        std::fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|exe| exe == Path::new(common::binary()))
    };
    for _ in 0..500 {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let mut candidates = std::iter::once(pid)
            .chain(children.split_whitespace().filter_map(|word| word.parse().ok()));
        if let Some(found) = candidates.find(|pid| is_clrscope(*pid)) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no clrscope below {pid}");
}

#[test]
fn the_duration_ends_the_recording_and_not_the_command() {
    let folder = scratch();
    let output = file(&folder, "burn.clrscope");
    let launch = Sample::named("burn").launch(Runtime::V9, &["--seconds", "5"]);
    let mut process = under(launch, &output, &["--duration", "2s"]).start();
    process.truth(LIMIT);
    assert!(process.wait(LIMIT).unwrap().success(), "{}", process.transcript());
    let report = Report::of(&output);
    assert_eq!(report.0["recording"]["end"]["reason"], "stopped");
    let seconds = report.0["recording"]["duration_ns"].as_f64().unwrap() / 1e9;
    assert!((1.8..3.5).contains(&seconds), "{seconds}");
}

#[test]
fn several_processes_get_a_file_each() {
    let (ended, folder) = run("\"$@\" > /dev/null; \"$@\" > /dev/null", &[]);
    let ended = ended.expect(0);
    let names = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut sessions: Vec<String> = names.filter(|name| name.ends_with(".clrscope")).collect();
    sessions.sort();
    assert_eq!(sessions.len(), 2, "{sessions:?}: {}", ended.err);
    let pids: Vec<u64> = sessions
        .iter()
        .map(|name| {
            Report::of(&folder.path().join(name)).0["recording"]["process"]["pid"].as_u64().unwrap()
        })
        .collect();
    assert_ne!(pids[0], pids[1]);
}

#[test]
fn the_default_file_is_named_after_the_command() {
    let folder = scratch();
    let mut command = script("\"$@\"", Path::new("unused"), &[]);
    let words: Vec<_> = command
        .get_args()
        .map(std::ffi::OsStr::to_owned)
        .filter(|word| word != "-o" && word != "unused")
        .collect();
    let environment: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.map(|v| v.to_owned())))
        .collect();
    command = clrscope(words);
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(folder.path());
    Running::start(command).wait().expect(0);
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() == 1 && names[0].to_str().unwrap().starts_with("sh-20"), "{names:?}");
}

#[test]
fn a_launch_within_a_launch_records_once() {
    testkit::on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let (inner, outer) = (file(&folder, "inner.clrscope"), file(&folder, "outer.clrscope"));
        for (seconds, code) in [("1", 0), ("1", 7)] {
            let launch = Sample::named("burn").launch(runtime, &["--seconds", seconds]).command();
            // The command ends as the inner launch does, or in its own way.
            let script = format!("\"$@\" > /dev/null || exit 99; exit {code}");
            let mut command = clrscope(["launch", "-o"]);
            command.arg(&outer).args([
                "--",
                "sh",
                "-c",
                &script,
                "sh",
                common::binary(),
                "launch",
                "-o",
            ]);
            command.arg(&inner).arg("--").arg(launch.get_program()).args(launch.get_args());
            for (name, value) in launch.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            let ended = Running::start(command).wait().expect(code);
            assert!(
                ended.err.contains("has called `clrscope launch` itself"),
                "{runtime}: {}",
                ended.err
            );
            let report = Report::of(&inner);
            assert!(report.series("cpu")["samples"].as_u64().unwrap() > 20, "{runtime}");
            let files: Vec<_> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            assert_eq!(files, std::slice::from_ref(&inner), "{runtime}");
        }
    });
}

#[test]
fn sessions_for_events_do_not_hold_a_start_up() {
    let folder = scratch();
    let time = |profilers: &str| {
        // Starts nothing, and ends.
        let launch = Sample::named("starter").launch(Runtime::V9, &[] as &[&str]);
        let mut command =
            under(launch, &file(&folder, "x.clrscope"), &["-q", "-p", profilers]).command();
        let began = Instant::now();
        let ended = command.stdin(Stdio::null()).status().unwrap();
        assert!(ended.success());
        began.elapsed()
    };
    // In turns, and the quickest of each: what else the machine does only adds to them. A wait
    // would be in each of them.
    let (mut cpu, mut all) = (Duration::MAX, Duration::MAX);
    for round in 1..=40 {
        cpu = cpu.min(time("cpu"));
        all = all.min(time("cpu,wall,exceptions,gc"));
        if round >= 7 && all.saturating_sub(cpu) < Duration::from_millis(150) {
            return;
        }
    }
    panic!("{all:?} with event sessions, {cpu:?} without");
}

/// A `dotnet` with an SDK in which programs of ours stand for its tools: the command line, which
/// starts what its arguments name, and the compiler, its server and MSBuild, which burn. The muxer
/// finds them as it finds those of a real one.
struct Sdk {
    folder: tempfile::TempDir,
    runtime: Runtime,
    /// Whether its command line starts MSBuild as a process of its own.
    separate: bool,
}

impl Sdk {
    const TOOLS: [&'static str; 5] = [
        "MSBuild.dll",
        "Roslyn/bincore/csc.dll",
        "Roslyn/bincore/VBCSCompiler.dll",
        "vstest.console.dll",
        // Known by its folder alone.
        "Sdks/Some.Sdk/tools/generate.dll",
    ];

    fn new(runtime: Runtime) -> Self {
        let Host::Muxer { dotnet, .. } = runtime.require().host() else {
            panic!("{runtime} has no muxer")
        };
        let sdk = Self { folder: scratch(), runtime, separate: false };
        let root = dotnet.parent().unwrap();
        std::fs::copy(&dotnet, sdk.path("dotnet")).unwrap();
        for part in ["host", "shared"] {
            std::os::unix::fs::symlink(root.join(part), sdk.path(part)).unwrap();
        }
        sdk.place("starter", "sdk/9.9.9/dotnet.dll");
        for tool in Self::TOOLS {
            sdk.place("burn", &format!("sdk/9.9.9/{tool}"));
        }
        for program in ["app/Shop.dll", "app/Other.dll", "test/testhost.dll"] {
            sdk.place("burn", program);
        }
        sdk
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a program of ours into a place of another name.
    fn place(&self, sample: &str, at: &str) {
        let assembly = Sample::named(sample).compile(self.runtime).unwrap();
        let to = self.path(at);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&assembly, &to).unwrap();
        std::fs::copy(
            assembly.with_extension("runtimeconfig.json"),
            to.with_extension("runtimeconfig.json"),
        )
        .unwrap();
    }

    /// `dotnet exec <assembly>`, which burns for a moment.
    fn exec(&self, assembly: &str, more: &[&str]) -> Vec<String> {
        let assembly = self.path(assembly).display().to_string();
        let words = [self.path("dotnet").to_str().unwrap(), "exec", &assembly, "--seconds", "1"]
            .map(str::to_owned);
        words.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Runs `dotnet <command>`, which starts these one after the other, under a launch of ours.
    fn launch(
        &self,
        options: &[&str],
        command: &[&str],
        starts: &[Vec<String>],
    ) -> (Ended, std::path::PathBuf) {
        let output = self.path("x.clrscope");
        let mut words: Vec<String> =
            ["launch", "-p", "cpu", "-o", output.to_str().unwrap()].map(str::to_owned).into();
        words.extend(options.iter().map(|option| (*option).to_owned()));
        words.extend(["--".to_owned(), self.path("dotnet").display().to_string()]);
        words.extend(command.iter().map(|word| (*word).to_owned()));
        words.push("--start".to_owned());
        words.extend(starts.join(&"--then".to_owned()));
        let mut command = clrscope(words);
        command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
        match self.separate {
            true => command.env("DOTNET_CLI_RUN_MSBUILD_OUTOFPROC", "true"),
            false => command.env_remove("DOTNET_CLI_RUN_MSBUILD_OUTOFPROC"),
        };
        (Running::start(command).wait(), output)
    }

    /// Session files, without the named one.
    fn others(&self) -> Vec<std::path::PathBuf> {
        let files =
            std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let others = files.filter(|file| file.extension().is_some_and(|end| end == "clrscope"));
        others.filter(|file| *file != self.path("x.clrscope")).collect()
    }
}

/// The command line of the process that a session is of.
fn command_of(session: &Path) -> String {
    Report::of(session).0["recording"]["process"]["command_line"].as_str().unwrap().to_owned()
}

#[test]
fn the_named_file_is_of_what_the_command_of_the_sdk_runs() {
    testkit::on_sample_runtimes_at_once(|runtime| {
        if !matches!(runtime.host(), Host::Muxer { .. }) {
            return;
        }
        let sdk = Sdk::new(runtime);
        let compile = [
            sdk.exec("sdk/9.9.9/Sdks/Some.Sdk/tools/generate.dll", &[]),
            sdk.exec("sdk/9.9.9/Roslyn/bincore/csc.dll", &[]),
            sdk.exec("sdk/9.9.9/Roslyn/bincore/VBCSCompiler.dll", &[]),
        ];
        let node = sdk.exec("sdk/9.9.9/MSBuild.dll", &["/nodemode:1"]);
        let (shop, other) = (sdk.exec("app/Shop.dll", &[]), sdk.exec("app/Other.dll", &[]));
        let tests = [
            sdk.exec("sdk/9.9.9/vstest.console.dll", &[]),
            sdk.exec("test/testhost.dll", &["--port", "4"]),
        ];

        // Of `dotnet run` it is the program's, though the compiler and a node ran before.
        let starts = [&compile[..], &[node.clone(), shop.clone()]].concat();
        let (ended, output) = sdk.launch(&[], &["run"], &starts);
        let ended = ended.expect(0);
        assert!(command_of(&output).contains("app/Shop.dll"), "{runtime}: {}", command_of(&output));
        assert!(
            Report::of(&output).total_weight("cpu", "Clrscope.Samples.Burn", "Slow") > 0,
            "{runtime}"
        );
        assert_eq!(sdk.others(), <[std::path::PathBuf; 0]>::default(), "{runtime}: {}", ended.err);
        let next = format!("Next:\n  clrscope report {}\n", output.display());
        assert!(
            ended.err.contains(&next) && !ended.err.contains("processes:"),
            "{runtime}: {}",
            ended.err
        );

        // Of `dotnet test` the test host's. A second program has a file of its own, and all are
        // listed.
        let (ended, output) = sdk.launch(
            &[],
            &["test", "x.csproj"],
            &[&tests[..], std::slice::from_ref(&other)].concat(),
        );
        let ended = ended.expect(0);
        assert!(
            command_of(&output).contains("test/testhost.dll"),
            "{runtime}: {}",
            command_of(&output)
        );
        let [further] = &sdk.others()[..] else {
            panic!("{runtime}: {:?}: {}", sdk.others(), ended.err)
        };
        assert!(command_of(further).contains("app/Other.dll"), "{runtime}");
        assert!(
            ended.err.contains("Recorded 2 processes:") && ended.err.contains(&next),
            "{runtime}: {}",
            ended.err
        );
        assert!(
            ended.err.contains(&format!("  {}  ", further.display())),
            "{runtime}: {}",
            ended.err
        );
        std::fs::remove_file(further).unwrap();

        // Of `dotnet build` MSBuild's, which is the command itself; the compiler is left alone.
        let (ended, output) = sdk.launch(&[], &["build"], &compile);
        ended.expect(0);
        assert!(command_of(&output).contains("dotnet build"), "{runtime}: {}", command_of(&output));
        assert_eq!(sdk.others(), <[std::path::PathBuf; 0]>::default(), "{runtime}");
    });
}

#[test]
fn msbuild_has_the_named_file_also_as_a_process_of_its_own() {
    let sdk = Sdk { separate: true, ..Sdk::new(Runtime::V9) };
    let starts = [
        sdk.exec("sdk/9.9.9/MSBuild.dll", &["-maxcpucount"]),
        sdk.exec("sdk/9.9.9/MSBuild.dll", &["/nodemode:1"]),
    ];
    let (ended, output) = sdk.launch(&[], &["build"], &starts);
    ended.expect(0);
    assert!(
        command_of(&output).contains("MSBuild.dll --seconds 1 -maxcpucount"),
        "{}",
        command_of(&output)
    );
    assert_eq!(sdk.others(), <[std::path::PathBuf; 0]>::default());
}

#[test]
fn with_children_tools_of_the_sdk_are_recorded_too() {
    let sdk = Sdk::new(Runtime::V9);
    let compile = sdk.exec("sdk/9.9.9/Roslyn/bincore/csc.dll", &[]);
    let (ended, output) = sdk.launch(
        &["--children", "--json"],
        &["run"],
        &[compile.clone(), sdk.exec("app/Shop.dll", &[])],
    );
    let ended = ended.expect(0);
    // The program has the named file, though the command line and the compiler were there before.
    assert!(command_of(&output).contains("app/Shop.dll"), "{}", command_of(&output));
    let mut commands: Vec<String> = sdk.others().iter().map(|file| command_of(file)).collect();
    commands.sort_by_key(String::len);
    assert_eq!(commands.len(), 2, "{commands:?}");
    assert!(
        commands[0].contains("bincore/csc.dll --seconds")
            && commands[1].contains("dotnet run --start"),
        "{commands:?}"
    );
    let summary: serde_json::Value =
        serde_json::from_str(ended.err.lines().last().unwrap()).unwrap();
    let sessions = summary["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 3, "{summary}");
    assert_eq!(sessions[0]["file"], output.to_str().unwrap(), "{summary}");
    for session in sessions {
        assert_eq!(
            session["command"],
            command_of(Path::new(session["file"].as_str().unwrap())),
            "{summary}"
        );
    }
    sdk.others().iter().for_each(|file| std::fs::remove_file(file).unwrap());

    // Without a program, the command itself has it.
    let (ended, output) =
        sdk.launch(&["--children"], &["tool", "list"], std::slice::from_ref(&compile));
    let ended = ended.expect(0);
    assert!(command_of(&output).contains("dotnet tool list"), "{}", command_of(&output));
    assert_eq!(sdk.others().len(), 1, "{}", ended.err);
    assert!(
        ended.err.contains(&format!("Next:\n  clrscope report {}\n", output.display())),
        "{}",
        ended.err
    );
    std::fs::remove_file(&output).unwrap();
    sdk.others().iter().for_each(|file| std::fs::remove_file(file).unwrap());

    // Nothing is recorded where only tools ran, and what can be done about it is said.
    let (ended, output) = sdk.launch(&[], &["tool", "list"], &[compile]);
    ended.expect_error(
        125,
        &["only tools of the .NET SDK ran", "a compiler", "the dotnet command line", "--children"],
    );
    assert!(!output.exists());
}

#[test]
fn a_launch_within_a_launch_passes_its_exit_code_and_each_program_has_one_file() {
    let sdk = Sdk::new(Runtime::V9);
    let (inner, shop, other) =
        (sdk.path("inner.clrscope"), sdk.exec("app/Shop.dll", &[]), sdk.exec("app/Other.dll", &[]));
    let nested = [common::binary(), "launch", "-p", "cpu", "-o", inner.to_str().unwrap(), "--"]
        .map(str::to_owned);
    let (ended, output) = sdk.launch(&[], &["run"], &[[&nested[..], &shop].concat(), other]);
    let ended = ended.expect(0);
    assert!(
        command_of(&inner).contains("app/Shop.dll")
            && command_of(&output).contains("app/Other.dll"),
        "{}",
        ended.err
    );
    assert_eq!(sdk.others(), [inner], "{}", ended.err);
}
