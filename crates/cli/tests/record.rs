//! `clrscope record` on every runtime, with programs that know the truth about themselves.
#![cfg(unix)]
mod common;

use common::{
    Fed, Report, Running, agent_is_mapped, clrscope, file, freeze, open_type, run, scratch,
    wait_until_clean, wait_until_recording,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    num::NonZero,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use testkit::{
    Launch, Runtime, Sample, TargetProcess, on_sample_runtimes_at_once, sample_runtimes,
};

const LIMIT: Duration = Duration::from_secs(120);

fn start(launch: Launch) -> TargetProcess {
    let mut process = launch.private_tmp().start();
    process.wait_for_ready();
    process
}

fn record(pid: u32, output: &Path, more: &[&str]) -> Running {
    let pid = pid.to_string();
    Running::start(clrscope([&["record", &pid, "-o", output.to_str().unwrap()], more].concat()))
}

/// Shares of the three methods of `burn`, of the time that the three have together.
fn split(report: &Report) -> [f64; 3] {
    let weights = [
        report.total_weight("cpu", "Clrscope.Samples.Burn", "Slow"),
        report.total_weight("cpu", "Clrscope.Samples.Burners", "Medium"),
        report.total_weight("cpu", "Clrscope.Samples.Burn", "Light"),
    ];
    let all = weights.iter().sum::<u64>();
    assert!(all > 0, "none of the methods was seen: {}", report.series("cpu")["functions"]);
    weights.map(|weight| weight as f64 / all as f64)
}

#[track_caller]
fn assert_split(report: &Report, runtime: Runtime) {
    let samples = report.series("cpu")["effective_samples"].as_f64().unwrap();
    for ((share, truth), method) in
        split(report).into_iter().zip([0.7, 0.2, 0.1]).zip(["Slow", "Medium", "Light"])
    {
        // Four standard deviations of that number of samples, and one percentage point for what the
        // program itself is off by.
        let tolerance = 4.0 * (truth * (1.0 - truth) / samples).sqrt() + 0.01;
        assert!(
            (share - truth).abs() < tolerance,
            "{runtime}: {method} has {share:.3}, not {truth} ± {tolerance:.3}"
        );
    }
}

#[test]
fn cpu_time_is_where_the_program_spends_it() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "burn.clrscope");
        let mut process = start(Sample::named("burn").launch(runtime, &["--seconds", "8"]));
        let (cpu_before, stolen_before) = (cpu_time(process.pid()), stolen_time());
        let ended = record(
            process.pid(),
            &output,
            &["-p", "cpu", "--rate", "1000", "--duration", "4s", "--json"],
        )
        .wait();
        let (cpu, stolen) = (cpu_time(process.pid()) - cpu_before, stolen_time() - stolen_before);
        let summary = ended.expect(0).json();
        let report = Report::of(&output);
        assert_split(&report, runtime);
        let series = report.series("cpu");
        let weight = Duration::from_nanos(series["weight"].as_u64().unwrap());
        // The recording begins a little after the first reading of the clock and ends before the
        // second. The kernel leaves what interrupts and the host of a virtual machine take out of a
        // process's time, but not out of the samples'.
        let (least, most) = (cpu.mul_f64(0.8), (cpu + stolen).mul_f64(1.1));
        assert!(
            weight > least && weight < most,
            "{runtime}: {weight:?} of {cpu:?} were seen, {stolen:?} stolen"
        );
        assert_eq!(series["samples"], summary["sessions"][0]["samples"]["cpu"], "{runtime}");
        assert_eq!(report.0["recording"]["process"]["pid"], process.pid());
        assert_eq!(report.0["recording"]["entry"], "attached");
        let version = report.0["recording"]["runtime"].as_str().unwrap();
        assert!(version.starts_with(&format!("{}.", runtime.major())), "{runtime}: {version}");
        // The names of asynchronous methods are those that the user wrote.
        let functions = report.0["functions"].as_array().unwrap();
        let light =
            functions.iter().find(|f| f["method"] == "Light" && f["state_machine"] == "async");
        assert!(light.is_some(), "{runtime}: {functions:?}");
        let truth = process.truth(LIMIT);
        assert!(truth["cpu_ns"].as_u64().unwrap() > 0);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

/// CPU time of a process so far.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    ticks(&fields[11..13])
}

/// Time of all processors so far in which they ran, but no process: interrupts, and what the host
/// took.
fn stolen_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let fields: Vec<&str> = stat.lines().next().unwrap().split_whitespace().collect();
    // After the name: user, nice, system, idle, iowait, irq, softirq, steal.
    ticks(&fields[6..9])
}

fn ticks(fields: &[&str]) -> Duration {
    let ticks: u64 = fields.iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Shares of the program's own CPU time, however much of that it gets beside the others.
#[test]
fn every_engine_finds_the_same_split() {
    on_sample_runtimes_at_once(|runtime| {
        for engine in ["kernel-ring", "signals", "kernel-ring-threads", "suspend-walk"] {
            let folder = scratch();
            let output = file(&folder, "burn.clrscope");
            let mut process = start(Sample::named("burn").launch(runtime, &["--seconds", "120"]));
            let line = ["-p", "cpu", "--rate", "500", "--duration", "4s", "--engine", engine];
            let cpu_before = cpu_time(process.pid());
            record(process.pid(), &output, &line).wait().expect(0);
            let cpu = cpu_time(process.pid()) - cpu_before;
            let report = Report::of(&output);
            let samples = report.series("cpu")["samples"].as_f64().unwrap();
            // Timers tick no more often than the kernel (250 Hz, often), and walking takes turns
            // with the program.
            let least = cpu.as_secs_f64() * if engine == "suspend-walk" { 25.0 } else { 100.0 };
            assert!(samples > least, "{runtime}: {engine}: {samples} samples of {cpu:?}");
            // Suspending waits for a safepoint: what it sees is biased, and said to be.
            if engine != "suspend-walk" {
                assert_split(&report, runtime);
            }
            let named = report.0["recording"]["profilers"][0]["engine"].as_str().unwrap();
            assert!(!named.is_empty(), "{runtime}: {engine}");
            assert!(process.is_running(), "{runtime}: {engine}: {}", process.transcript());
        }
    });
}

#[test]
fn exceptions_are_counted_exactly() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "thrower.clrscope");
        let arguments = ["--count", "5000", "--rate", "2000", "--rare", "100", "--gate"];
        let mut process = start(Sample::named("thrower").launch(runtime, &arguments));
        let mut recorder = record(process.pid(), &output, &["-p", "exceptions"]);
        wait_until_recording(&output, &mut recorder);
        std::thread::sleep(Duration::from_millis(500));
        process.send_line("go").unwrap();
        let truth = process.truth(LIMIT);
        recorder.signal(Signal::INT);
        recorder.wait().expect(0);
        let report = Report::of(&output);
        let known = truth["exceptions"].as_object().unwrap();
        let expected: BTreeMap<String, u64> = known
            .iter()
            .map(|(ty, known)| (open_type(ty).to_owned(), known["count"].as_u64().unwrap()))
            .collect();
        assert_eq!(report.exceptions(), expected, "{runtime}");
        for row in report.0["exceptions"]["types"].as_array().unwrap() {
            let ty = open_type(row["type_name"].as_str().unwrap());
            let (_, truth) = known.iter().find(|(name, _)| open_type(name) == ty).unwrap();
            assert!(
                row["samples"].as_u64().unwrap() > 0,
                "{runtime}: the storm has swallowed {row}"
            );
            assert!(row["message"].is_string(), "{runtime}: {row}");
            let thrown_in =
                &report.0["functions"][row["thrown_at"]["function"].as_u64().unwrap() as usize];
            let name = format!(
                "{}.{}",
                thrown_in["type_name"].as_str().unwrap(),
                thrown_in["method"].as_str().unwrap()
            );
            assert_eq!(name, truth["thrown_in"].as_str().unwrap(), "{runtime}: {row}");
            let caught_in = &report.0["functions"][row["caught_by"].as_u64().unwrap() as usize];
            let name = format!(
                "{}.{}",
                caught_in["type_name"].as_str().unwrap(),
                caught_in["method"].as_str().unwrap()
            );
            assert_eq!(name, truth["caught_in"].as_str().unwrap(), "{runtime}: {row}");
        }
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn collections_are_counted_by_generation() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "gc.clrscope");
        let launch = Sample::named("gcforce").launch(runtime, &["--rounds", "10", "--gate"]);
        let mut process = start(launch.env("COMPlus_GCgen0size", "2000000"));
        let mut recorder = record(process.pid(), &output, &["-p", "gc"]);
        wait_until_recording(&output, &mut recorder);
        std::thread::sleep(Duration::from_millis(500));
        process.send_line("go").unwrap();
        let truth = process.truth(LIMIT);
        // Events come in blocks, a moment late.
        std::thread::sleep(Duration::from_secs(1));
        recorder.signal(Signal::TERM);
        recorder.wait().expect(0);
        let report = Report::of(&output);
        let expected: Vec<u64> = truth["by_generation"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .collect();
        assert_eq!(report.collections().to_vec(), expected, "{runtime}: {truth}");
        let gc = &report.0["gc"];
        let induced_by = gc["induced_by"].as_array().unwrap();
        let calls: u64 = induced_by.iter().map(|row| row["calls"].as_u64().unwrap()).sum();
        assert_eq!(calls, 30, "{runtime}: {induced_by:?}");
        let function = &induced_by[0]["called_at"]["function"];
        let function =
            report.0["functions"].as_array().unwrap().iter().find(|known| known["id"] == *function);
        assert_eq!(
            function.unwrap()["type_name"],
            "Clrscope.Samples.GcForce",
            "{runtime}: {function:?}"
        );
        assert_eq!(gc["induced"], 30, "{runtime}: three rounds of ten: {truth}");
        let pauses = gc["pauses_ns"]["count"].as_u64().unwrap();
        assert!(
            pauses >= expected.iter().sum(),
            "{runtime}: {pauses} pauses for {expected:?} collections"
        );
        if let Some(paused) = truth["paused_ms"].as_f64() {
            let seen = gc["pauses_ns"]["total"].as_f64().unwrap() / 1e6;
            assert!(
                (seen - paused).abs() < paused * 0.15 + 1.0,
                "{runtime}: paused {seen} ms, the runtime says {paused}"
            );
        }
        assert!(gc["heap_peak"].as_u64().unwrap() > 1_000_000, "{runtime}: {gc}");
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn waiting_threads_are_seen_with_the_class_of_their_wait() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "waiter.clrscope");
        let mut process = start(Sample::named("waiter").launch(runtime, &["--seconds", "5"]));
        record(process.pid(), &output, &["-p", "wall", "--duration", "3s"]).wait().expect(0);
        let report = Report::of(&output);
        let truth = process.truth(LIMIT);
        let threads = report.0["threads"].as_array().unwrap();
        let sums = &report.series("wall")["sums"];
        for (name, known) in truth["threads"].as_object().unwrap() {
            let thread = threads
                .iter()
                .find(|thread| thread["os_tid"] == known["tid"])
                .unwrap_or_else(|| panic!("{runtime}: {name} is missing: {threads:?}"));
            // .NET Core 3.1 tells the system no names, and the profiler only those that are given
            // while it is there.
            if runtime.major() >= 5 {
                // The kernel keeps fifteen bytes of a name.
                let kept = &name[..name.len().min(15)];
                assert!(
                    thread["name"].as_str().is_some_and(|seen| seen.starts_with(kept)),
                    "{runtime}: {thread}"
                );
            }
            let mut states = states(sums, thread["id"].as_u64().unwrap());
            // On a busy machine a thread that works has a processor only some of the time.
            let ready: f64 = ["running", "no-processor", "throttled"]
                .iter()
                .filter_map(|state| states.remove(*state))
                .sum();
            states.insert("running".to_owned(), ready);
            let (state, share) = states
                .iter()
                .max_by(|a, b| a.1.total_cmp(b.1))
                .unwrap_or_else(|| panic!("{runtime}: {name} has no samples"));
            let expected = match known["class"].as_str().unwrap() {
                // The end of another thread is a signal of it.
                "join" => "event",
                class => class,
            };
            assert!(
                state == expected && *share > 0.8,
                "{runtime}: {name} is {states:?}, the truth is {known}"
            );
        }
    }
}

/// Share of each state in the samples of a thread.
fn states(sums: &Value, thread: u64) -> BTreeMap<String, f64> {
    let column = |name: &str| sums[name].as_array().unwrap().clone();
    let (threads, states, weights) = (column("thread"), column("state"), column("weight"));
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for ((row_thread, state), weight) in threads.iter().zip(&states).zip(&weights) {
        if row_thread.as_u64() == Some(thread) {
            *shares.entry(state.as_str().unwrap().to_owned()).or_default() +=
                weight.as_f64().unwrap();
        }
    }
    let all: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share /= all);
    shares
}

#[test]
fn all_four_profilers_at_once_leave_a_clean_process() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        let output = file(&folder, "mixed.clrscope");
        let mut process = start(Sample::named("mixed").launch(runtime, &["--wait"]));
        let ended = record(process.pid(), &output, &["--duration", "4s"]).wait().expect(0);
        for part in ["Recorded ", "samples ", "engine ", "dropped  ", "clrscope report "] {
            assert!(ended.out.contains(part), "{runtime}: `{part}` is missing in:\n{}", ended.out);
        }
        assert_eq!(ended.err, "", "{runtime}: nothing is shown where there is no terminal");
        let report = Report::of(&output);
        // Exceptions over the limit of samples are counted without a stack; that is no loss.
        let dropped =
            report.0["observer"].as_array().unwrap().last().unwrap()["dropped"].as_array().unwrap();
        let lost = dropped
            .iter()
            .filter(|drop| drop[1] != 0 && !drop[0].as_str().unwrap().starts_with("exception"));
        assert_eq!(lost.count(), 0, "{runtime}: {dropped:?}");
        for profiler in ["cpu", "wall", "exceptions"] {
            assert!(
                report.series(profiler)["samples"].as_u64().unwrap() > 20,
                "{runtime}: {profiler}"
            );
        }
        assert!(report.collections().iter().sum::<u64>() > 0, "{runtime}");
        wait_until_clean(process.tmp().unwrap());
        // Every format can be made of it.
        for format in
            ["text", "markdown", "html", "collapsed", "pprof", "speedscope", "firefox", "events"]
        {
            let path = file(&folder, format);
            run(["report", output.to_str().unwrap(), "-f", format, "-o", path.to_str().unwrap()])
                .expect(0);
            assert!(path.metadata().unwrap().len() > 100, "{runtime}: {format}");
        }
        process.close_stdin();
        process.truth(LIMIT);
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn a_real_application_on_9_and_10() {
    for runtime in [Runtime::Azmcp9, Runtime::V10] {
        let folder = scratch();
        let output = file(&folder, "azmcp.clrscope");
        let fed = Fed::start(runtime);
        record(fed.pid, &output, &["--rate", "500", "--duration", "5s"]).wait().expect(0);
        wait_until_clean(&fed.tmp);
        let mut process = fed.finish();
        let report = Report::of(&output);
        let version = report.0["recording"]["runtime"].as_str().unwrap();
        assert!(version.starts_with(&format!("{}.", runtime.major())), "{version}");
        let series = report.series("cpu");
        let samples = series["samples"].as_u64().unwrap();
        assert!(samples > 200, "{runtime}: {samples}");
        assert!(
            report.total_weight("cpu", "System.Text.Json", "") > 0,
            "{runtime}: it writes JSON all the time"
        );
        assert!(report.has_series("wall"), "{runtime}");
        process.feed(1).unwrap();
        process.close_stdin();
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}: {}", process.transcript());
    }
}

#[test]
fn a_process_is_found_by_name_and_the_file_is_named_after_it() {
    let folder = scratch();
    // Other tests run the same sample under its usual name; this copy is ours alone.
    let name = format!("burn{}", std::process::id());
    let assembly = Sample::named("burn").compile(Runtime::V9).unwrap();
    std::fs::copy(&assembly, file(&folder, &format!("{name}.dll"))).unwrap();
    let config = assembly.with_extension("runtimeconfig.json");
    std::fs::copy(config, file(&folder, &format!("{name}.runtimeconfig.json"))).unwrap();
    let launch = || {
        let dll = file(&folder, &format!("{name}.dll"));
        start(Launch::new(Runtime::V9.require().executable()).arg(dll).args(["--seconds", "60"]))
    };
    let process = launch();
    let mut command = clrscope(["record", &name, "-p", "cpu", "--duration", "300ms"]);
    command.current_dir(folder.path());
    Running::start(command).wait().expect(0);
    let names = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let sessions: Vec<String> = names.filter(|name| name.ends_with(".clrscope")).collect();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert!(sessions[0].starts_with(&format!("{name}-{}-20", process.pid())), "{sessions:?}");
    // With a second one, the name says no longer which.
    let other = launch();
    let (one, two) = (process.pid().to_string(), other.pid().to_string());
    run(["record", &name]).expect_error(3, &[&name, &one, &two, "use the id"]);
}

/// What was sampled and thrown while the recorder was not ready is of another time than the one
/// that the report states.
#[test]
fn nothing_from_outside_of_the_window_counts() {
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let folder = scratch();
        let output = file(&folder, "x.clrscope");
        let work = ["--work", "paced", "--rate", "1000", "--threads", "2"];
        let process = start(Sample::named("throughput").launch(runtime, &work));
        let more = ["-p", "cpu,exceptions,gc", "--rate", "100", "--duration", "1s", "--json"];
        let mut recorder = record(process.pid(), &output, &more);
        // The ring of samples is open by then, and the agent begins.
        while !agent_is_mapped(process.pid()) && !recorder.has_ended() {
            std::thread::sleep(Duration::from_micros(200));
        }
        recorder.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(2));
        recorder.signal(Signal::CONT);
        let summary = &recorder.wait().expect(0).json()["sessions"][0];
        let report = Report::of(&output);
        let seconds = summary["duration_seconds"].as_f64().unwrap();
        assert_eq!(
            report.0["recording"]["duration_ns"].as_f64().unwrap() / 1e9,
            seconds,
            "{runtime}"
        );
        assert_eq!(
            report.0["recording"]["end"]["time_ns"], report.0["recording"]["duration_ns"],
            "{runtime}"
        );
        let cpus = std::thread::available_parallelism().unwrap().get() as f64;
        let (samples, exceptions) = (&summary["samples"]["cpu"], &summary["samples"]["exceptions"]);
        // One more of each thread, as ticks do not begin with the window.
        let most = 100.0 * cpus * seconds + 4.0;
        assert!(
            (1.0..=most).contains(&samples.as_f64().unwrap()),
            "{runtime}: {samples} samples in {seconds} s"
        );
        // The program throws at most 1000 exceptions per second of CPU time, and makes up for what
        // it has missed for a moment.
        let most = 1000.0 * cpus.min(2.0) * seconds * 1.1;
        assert!(
            (1.0..=most).contains(&exceptions.as_f64().unwrap()),
            "{runtime}: {exceptions} exceptions in {seconds} s"
        );
        let cpu = report.series("cpu")["weight"].as_f64().unwrap() / 1e9;
        assert!(cpu <= cpus * seconds * 1.02, "{runtime}: {cpu} s of CPU time in {seconds} s");
    }
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let mut process = start(Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]));
    let mut recorder = record(process.pid(), &output, &["--duration", "60s"]);
    wait_until_recording(&output, &mut recorder);
    // A stopped process keeps the first end waiting for the agent's goodbye.
    freeze(&mut process);
    recorder.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    let mut code = 0;
    if !recorder.has_ended() {
        recorder.signal(Signal::INT);
        code = 130;
    }
    let ended = recorder.wait();
    assert!(ended.code() == code || ended.code() == 0, "{ended:?}");
    process.thaw().unwrap();
    wait_until_clean(process.tmp().unwrap());
    assert!(process.is_running());
}

#[test]
fn progress_is_shown_on_terminals_only() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let process = start(Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]));
    let line =
        format!("{} record {} -d 1s -o {}", common::binary(), process.pid(), output.display());
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::null())
        .env("TERM", "xterm");
    let ended = Running::start(command).wait().expect(0);
    assert!(
        ended.out.contains("\r") && ended.out.contains("of 1.00s") && ended.out.contains("cpu "),
        "{}",
        ended.out
    );
}

#[test]
fn top_shows_the_hot_method_and_leaves_on_q() {
    let mut process = start(Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]));
    // A terminal of the usual size, and a user who looks for four seconds.
    let line = format!(
        "stty rows 24 cols 80; (sleep 4; printf 2; sleep 1; printf q) | script --quiet --return \
         --command 'stty rows 24 cols 80; {} top {}' /dev/null",
        common::binary(),
        process.pid()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]).stdin(Stdio::null()).env("TERM", "xterm");
    let ended = Running::start(command).wait();
    let (shown, after) = ended.out.rsplit_once("\x1b[?1049l").expect("it leaves its screen");
    assert!(!after.contains("\x1b[?1049h"), "{after:?}");
    // Each drawing only writes what has changed, so the screen is looked at after each of them.
    let [rows, columns] = [24, 80].map(|size| NonZero::new(size).unwrap());
    let mut screen = vt100::Parser::new(rows, columns, 0);
    let mut seen = String::new();
    for drawing in shown.split_inclusive("\x1b[?25l") {
        screen.process(drawing.as_bytes());
        seen.push_str(&screen.screen().contents());
    }
    for part in ["burn (", "METHOD", "Burn.Slow", "Burn.cs:", "STATES", "RRRR", "burner-0"] {
        assert!(seen.contains(part), "`{part}` is missing in {seen}");
    }
    wait_until_clean(process.tmp().unwrap());
    assert!(process.is_running());
}

#[test]
fn top_prints_json_for_scripts() {
    let mut process = start(Sample::named("burn").launch(Runtime::V3_1, &["--seconds", "60"]));
    let ended = run(["top", &process.pid().to_string(), "--json", "--duration", "4s"]).expect(0);
    let lines: Vec<Value> =
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 3, "{}", ended.out);
    let hot = lines.iter().any(|line| {
        line["methods"][0]["name"].as_str().is_some_and(|name| name.contains("Burn.Slow"))
    });
    assert!(hot, "{}", ended.out);
    assert_eq!(lines.last().unwrap()["ended"], true);
    assert!(process.is_running());
}
