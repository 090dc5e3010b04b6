//! What stays in a process after recordings that need the main profiler slot, and who can keep
//! clrscope from recording.
#![cfg(unix)]
mod common;

use common::{
    Running, agent_is_mapped, clrscope, file, libraries, run, scratch, wait_until_left,
    wait_until_recording,
};
use diagnostics::{EventPipeConfig, Provider};
use rustix::process::Signal;
use std::{
    io::{Read, sink},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use testkit::{Runtime, Sample, TargetProcess, on_sample_runtimes_at_once};

/// How often something is done: few times in the suite, and as often as this says by hand.
fn runs(few: usize) -> usize {
    std::env::var("CLRSCOPE_HARM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(few)
}

/// What a process has of what we may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Has {
    threads: usize,
    descriptors: usize,
    resident_kib: u64,
}

fn has(pid: u32) -> Has {
    let count = |what| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident_kib = rss.trim().trim_end_matches(" kB").parse().unwrap();
    // A single-file app opens its own file again for each assembly that it loads, at any time.
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let of_program = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let of_program = of_program
        .filter(|entry| {
            entry.as_ref().is_ok_and(|entry| {
                std::fs::read_link(entry.path()).is_ok_and(|target| target == program)
            })
        })
        .count();
    let descriptors = count("fd").saturating_sub(of_program);
    Has { threads: count("task"), descriptors, resident_kib }
}

fn heapster(runtime: Runtime) -> TargetProcess {
    let mut process =
        Sample::named("heapster").launch(runtime, &["--count", "1000"]).private_tmp().start();
    process.wait_for_ready();
    process
}

#[track_caller]
fn records(pid: u32, profilers: &str, output: &std::path::Path) -> Vec<String> {
    let pid = pid.to_string();
    let output = output.to_str().unwrap();
    let arguments = ["record", &pid, "-p", profilers, "-o", output, "--json"];
    let ends = profilers.starts_with("heap") || profilers.starts_with("async");
    let duration: &[&str] = if ends { &[] } else { &["--duration", "500ms"] };
    let json = run(arguments.iter().chain(duration)).expect(0).json();
    let notes = json["sessions"][0]["notes"].as_array().cloned().unwrap_or_default();
    notes.iter().map(|note| note.as_str().unwrap().to_owned()).collect()
}

/// Whether the process has a thread of ours that starts or ends event sessions.
fn has_event_thread(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    tasks.filter_map(|task| name(task.unwrap()).ok()).any(|name| name.trim() == "clrscope-events")
}

/// The runtime has one lock for all event sessions, and holds it until another tool has read the
/// rest of its own session. It keeps our thread that ends ours for as long.
#[test]
fn an_agent_waits_for_a_thread_that_the_runtime_keeps() {
    // The only runtime here whose exceptions come as events.
    let arguments = ["--seconds", "600", "--rate", "200"];
    let mut process =
        Sample::named("thrower").launch(Runtime::V9, &arguments).private_tmp().start();
    process.wait_for_ready();
    let pid = process.pid();
    // A session that ends with more than a pipe holds: descriptions of all code.
    let config = EventPipeConfig {
        rundown: true,
        ..EventPipeConfig::new(vec![Provider::new("Microsoft-Windows-DotNETRuntime", 0x8000, 4)])
    };
    let mut other = diagnostics::find_pid(pid).unwrap().port().unwrap().collect(&config).unwrap();
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let pid_text = pid.to_string();
    let path = output.to_str().unwrap();
    let arguments = ["record", &pid_text, "-p", "exceptions", "-d", "4s", "-o", path, "--json"];
    let mut recorder = Running::start(clrscope(arguments));
    wait_until_recording(&output, &mut recorder);
    let stopper = other.stopper();
    let stopping = std::thread::spawn(move || stopper.stop(Duration::from_secs(100)));
    let json = recorder.wait().expect(0).json();
    let notes = json["sessions"][0]["notes"].to_string();
    assert!(notes.contains("until the runtime releases its thread"), "{notes}");
    // Longer than any limit of ours.
    let end = Instant::now() + Duration::from_secs(12);
    while Instant::now() < end {
        assert!(agent_is_mapped(pid) && has_event_thread(pid), "its code was taken from a thread");
        std::thread::sleep(Duration::from_millis(50));
    }
    other.set_idle_limit(Duration::from_secs(100));
    std::io::copy(&mut other, &mut sink()).unwrap();
    stopping.join().unwrap().unwrap();
    wait_until_left(pid);
    assert!(!has_event_thread(pid));
    assert_eq!(libraries(pid).len(), 0);
    // And all is as it was.
    assert_eq!(records(pid, "exceptions", &output).len(), 0);
    wait_until_left(pid);
    assert!(process.is_running(), "{}", process.transcript());
}

#[test]
fn snapshots_do_not_use_up_the_runtime() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "s.clrscope");
        let mut process = heapster(runtime);
        let pid = process.pid();
        let (mut first, mut stays) = (None, 0);
        for round in 0..runs(3) {
            let notes = records(pid, "heap", &output);
            let resident = notes.iter().any(|note| note.contains("no background collections"));
            stays += usize::from(resident);
            // Only once the runtime's slots would be used up, and then for ever.
            assert_eq!(
                resident,
                runtime.major() >= 6 && round >= 16,
                "{runtime}, {round}: {notes:?}"
            );
            if !resident {
                wait_until_left(pid);
            }
            assert!(libraries(pid).len() <= 2, "{runtime}, {round}: {:?}", libraries(pid));
            let now = has(pid);
            if round == 0 || round == 16 {
                first = Some(now);
            }
            let first = first.unwrap();
            assert!(
                now.threads <= first.threads + 1,
                "{runtime}, {round}: {now:?} after {first:?}"
            );
            assert!(
                now.descriptors <= first.descriptors,
                "{runtime}, {round}: {now:?} after {first:?}"
            );
            assert!(
                now.resident_kib < first.resident_kib + (16 << 10),
                "{runtime}, {round}: {now:?} after {first:?}"
            );
        }
        // Whoever comes later is called.
        for profilers in ["cpu,exceptions", "wall", "heap"] {
            let notes = records(pid, profilers, &output);
            let quiet = notes.iter().all(|note| note.contains("no background collections"));
            assert!(quiet, "{runtime}, {profilers}: {notes:?}");
        }
        eprintln!("{runtime}: {:?}, then {:?}; {stays} stayed", first, has(pid));
        process.send_line("grow 1").unwrap();
        process.wait_for_line(Duration::from_secs(20), |line| line == "grown").unwrap();
        process.close_stdin();
        process.truth(Duration::from_secs(20));
    });
}

/// The runtime never takes hooks back, so the agent that has set them serves all later recordings
/// for which there is no other slot: on .NET Core 3.1 each of them.
#[test]
fn an_agent_with_hooks_serves_one_recording_after_another() {
    let folder = scratch();
    let (launched, output) = (file(&folder, "calls.clrscope"), file(&folder, "later.clrscope"));
    let record = [
        common::binary(),
        "launch",
        "-q",
        "-p",
        "calls",
        "-d",
        "300ms",
        "-o",
        launched.to_str().unwrap(),
    ];
    let launch = Sample::named("heapster").launch(Runtime::V3_1, &["--count", "1000"]);
    let mut process = launch.under([&record[..], &["--"]].concat()).private_tmp().start();
    process.wait_for_ready();
    let pid = common::child_of(process.pid());
    for round in 0..3 {
        let began = Instant::now();
        records(pid, "cpu,gc", &output);
        assert!(began.elapsed() < Duration::from_secs(30), "{round}: {:?}", began.elapsed());
        assert_eq!(libraries(pid).len(), 1, "{round}: {:?}", libraries(pid));
    }
    process.close_stdin();
    process.truth(Duration::from_secs(20));
}

/// `CLRSCOPE_HARM_RUNS=1000` is how it is run by hand. Programs use more memory with time by
/// themselves: one that nobody records says how much.
#[test]
fn recordings_follow_each_other_without_end() {
    let cycles = |runtime: Runtime, process: &mut TargetProcess, alone: &TargetProcess| {
        let (pid, folder) = (process.pid(), scratch());
        let output = file(&folder, "cycle.clrscope");
        let (pid_text, path) = (pid.to_string(), output.to_str().unwrap().to_owned());
        let mixes: [&[&str]; 3] =
            [&["cpu,exceptions,gc"], &["cpu", "--engine", "signals"], &["wall,exceptions"]];
        let (mut warm, most) = (None, runs(6));
        for round in 0..most {
            let fixed = ["record", &pid_text, "-q", "-o", &path, "-d", "100ms", "-p"];
            run(fixed.iter().chain(mixes[round % mixes.len()])).expect(0);
            wait_until_left(pid);
            assert!(libraries(pid).len() <= 2, "{runtime}, {round}: {:?}", libraries(pid));
            let (now, control) = (has(pid), has(alone.pid()));
            if round == most / 10 {
                warm = Some((now, control));
            }
            let Some((warm, _)) = warm else { continue };
            assert!(now.threads <= warm.threads + 8, "{runtime}, {round}: {now:?} after {warm:?}");
            assert!(
                now.descriptors <= warm.descriptors + 8,
                "{runtime}, {round}: {now:?} after {warm:?}"
            );
        }
        let ((warm, control_warm), now, control) = (warm.unwrap(), has(pid), has(alone.pid()));
        let grown = |from: Has, to: Has| to.resident_kib.saturating_sub(from.resident_kib);
        let (grown, by_itself) = (grown(warm, now), grown(control_warm, control));
        eprintln!(
            "{runtime}: {most} recordings, {grown} KiB more, {by_itself} where nobody records, \
                {warm:?} and then {now:?}"
        );
        assert!(grown < by_itself + (8 << 10), "{runtime}: {now:?} after {warm:?}");
        assert!(process.is_running(), "{runtime}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let [mut process, mut alone] = [0, 1].map(|_| TargetProcess::azmcp(Runtime::V10));
            process.feed(1).unwrap();
            alone.feed(1).unwrap();
            cycles(Runtime::V10, &mut process, &alone);
            process.feed(1).unwrap();
        });
        on_sample_runtimes_at_once(|runtime| {
            let [mut process, mut alone] = [0, 1].map(|_| {
                let launch =
                    Sample::named("tenant").launch(runtime, &["--files", "--threads", "10"]);
                launch.private_tmp().start()
            });
            process.wait_for_ready();
            alone.wait_for_ready();
            cycles(runtime, &mut process, &alone);
            process.close_stdin();
            assert_eq!(process.truth(Duration::from_secs(20))["failed_files"], 0, "{runtime}");
        });
    });
}

/// The folder for temporary files is a link, so that the memory map of the process shows other
/// names than those that were passed to it.
#[test]
fn snapshots_that_are_taken_at_once_leave_one_library() {
    let (folder, real) = (scratch(), scratch());
    let link = file(&folder, "tmp");
    std::os::unix::fs::symlink(real.path(), &link).unwrap();
    let launch = Sample::named("heapster").launch(Runtime::V9.require(), &["--count", "1000"]);
    let mut process = launch.env("TMPDIR", &link).start();
    process.wait_for_ready();
    let pid = process.pid();
    for round in 0..runs(2) {
        let heap = || Running::start(clrscope(["heap", &pid.to_string(), "--histogram"]));
        let codes = [heap(), heap(), heap()].map(|running| running.wait().code());
        // Whoever finds another one at work may say so.
        assert!(
            codes.contains(&0) && codes.iter().all(|code| [0, 4].contains(code)),
            "{round}: {codes:?}"
        );
        wait_until_left(pid);
        assert_eq!(libraries(pid).len(), 1, "{round}: {:?}", libraries(pid));
        run(["heap", &pid.to_string(), "--histogram"]).expect(0);
    }
    process.close_stdin();
    process.truth(Duration::from_secs(20));
}

/// As a cleaner of temporary files may do it. From .NET 6 on a main profiler that detaches is
/// counted as a notification-only one. One of those that asks to be detached right then would end
/// the process, so an instance that compensates has to be there before.
#[test]
fn a_launch_compensates_before_its_agent_leaves_the_main_profiler_slot() {
    on_sample_runtimes_at_once(|runtime| {
        if runtime == Runtime::V3_1 {
            return;
        }
        let folder = scratch();
        let output = file(&folder, "launched.clrscope");
        let launch = Sample::named("heapster").launch(runtime, &["--count", "1000"]);
        let prefix = [
            common::binary(),
            "launch",
            "-q",
            "-p",
            "threads",
            "-d",
            "300ms",
            "-o",
            output.to_str().unwrap(),
            "--",
        ];
        let mut process = launch.under(prefix).start();
        process.wait_for_ready();
        let children = format!("/proc/{0}/task/{0}/children", process.pid());
        let target: u32 = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
        let is_idle = |name: &String| name.starts_with("libclrscope-idle-");
        let until = Instant::now() + Duration::from_secs(30);
        let mut had_agent = false;
        loop {
            let loaded = libraries(target);
            let has_agent = loaded.iter().any(|name| !is_idle(name));
            if had_agent && !has_agent {
                assert!(
                    loaded.iter().any(is_idle),
                    "{runtime}: the agent left, and nothing compensates for it"
                );
                break;
            }
            had_agent |= has_agent;
            assert!(Instant::now() < until, "{runtime}: the agent stays: {loaded:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
    });
}

#[test]
fn a_library_that_is_removed_before_it_is_loaded_is_made_again() {
    let mut process = heapster(Runtime::V9.require());
    let (pid, tmp) = (process.pid().to_string(), process.tmp().unwrap().to_owned());
    for command in [
        &["record", &pid, "-p", "wall", "-d", "200ms", "-o", "/dev/null"][..],
        &["heap", &pid, "--histogram"],
    ] {
        let folder = scratch();
        let output = file(&folder, "x.clrscope");
        let command = command
            .iter()
            .map(|word| if *word == "/dev/null" { output.to_str().unwrap() } else { *word });
        let running = Running::start(clrscope(command));
        let until = Instant::now() + Duration::from_secs(5);
        let staged = || {
            let folders = std::fs::read_dir(&tmp).into_iter().flatten().flatten();
            let files = folders
                .filter_map(|folder| std::fs::read_dir(folder.path()).ok())
                .flatten()
                .flatten();
            files
                .map(|file| file.path())
                .find(|path| path.extension().is_some_and(|extension| extension == "so"))
        };
        while Instant::now() < until {
            if let Some(path) = staged() {
                let _ = std::fs::remove_file(path);
                break;
            }
        }
        running.wait().expect(0);
    }
    process.close_stdin();
    process.truth(Duration::from_secs(20));
}

/// Another user, who takes all names that can be guessed, and connects to whatever listens.
struct Hostile(std::process::Child);

impl Hostile {
    fn start(pid: u32) -> Self {
        let program = r"
import os, socket, sys, time
pid = int(sys.argv[1])
start = open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[19]
try: spaces = [os.readlink(f'/proc/{pid}/ns/pid'), os.readlink('/proc/self/ns/pid')]
except OSError: spaces = [os.readlink('/proc/self/ns/pid')]
names = [f'clrscope-{what}-{pid}-{start}' for what in ('suspends', 'door', 'turn')]
names += ['clrscope-door-' + ''.join(c for c in space if c.isdigit()) + f'-{pid}' for space in spaces]
held = []
for name in set(names):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        s = socket.socket(socket.AF_UNIX, kind)
        try: s.bind('\0' + name); held.append(s)
        except OSError: continue
        if kind == socket.SOCK_STREAM: s.listen()
print('ready', len(held), flush=True)
while True:
    for line in open('/proc/net/unix'):
        name = line.split()[-1]
        if 'clrscope' not in name: continue
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            s = socket.socket(socket.AF_UNIX, kind)
            s.setblocking(False)
            try: s.connect(name.replace('@', '\0', 1)); s.send(b'x' * 100)
            except OSError: pass
    for what in ('maps', 'mem', 'fd'):
        try: os.open(f'/proc/{pid}/{what}', os.O_RDONLY); print('opened', what, flush=True)
        except OSError: pass
    time.sleep(0.002)
";
        let mut command = Command::new("python3");
        command
            .args(["-c", program, &pid.to_string()])
            .uid(65534)
            .gid(65534)
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        assert_eq!(&ready, b"ready");
        Self(child)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_other_user_can_keep_clrscope_from_recording() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "h.clrscope");
        let mut process = heapster(runtime);
        let pid = process.pid();
        let hostile = Hostile::start(pid);
        for profilers in ["wall,cpu", "heap", "wall"] {
            let begun = Instant::now();
            let notes = records(pid, profilers, &output);
            let took = begun.elapsed();
            assert!(
                notes.is_empty(),
                "{runtime}, {profilers}: {notes:?}, {:?}",
                process.wait(Duration::from_millis(100))
            );
            // Half a second is recorded, and to detach takes a third of one.
            assert!(took < Duration::from_secs(10), "{runtime}, {profilers}: {took:?}");
            eprintln!("{runtime}, {profilers}: {took:?}");
            wait_until_left(pid);
        }
        drop(hostile);
        process.close_stdin();
        process.truth(Duration::from_secs(20));
    });
}

#[test]
fn server_collections_are_told_whole() {
    on_sample_runtimes_at_once(|runtime| {
        let folder = scratch();
        let output = file(&folder, "server.clrscope");
        let launch = Sample::named("heapster")
            .launch(runtime, &["--count", "100000", "--churn", "2"])
            .private_tmp();
        let mut process = launch.env("DOTNET_gcServer", "1").env("COMPlus_gcServer", "1").start();
        process.wait_for_ready();
        let pid = process.pid();
        let mut heap_objects = 0;
        let events = if runtime.major() < 6 { "locks" } else { "allocations,locks" };
        for profilers in [
            "heap",
            "async:every=1",
            "survivors:every=10",
            "cpu,wall,exceptions,gc,threads",
            events,
        ] {
            let notes = records(pid, profilers, &output);
            let reads_heap =
                ["heap", "async", "survivors"].iter().any(|id| profilers.starts_with(id));
            assert!(notes.is_empty() || !reads_heap, "{runtime}, {profilers}: {notes:?}");
            if profilers != "heap" {
                continue;
            }
            // Each object is reported, and what retains it.
            let reader =
                session::SessionReader::new(std::fs::File::open(&output).unwrap()).unwrap();
            let ends: Vec<session::HeapEnd> = reader
                .filter_map(|record| match record.unwrap() {
                    session::SessionRecord::HeapEnd(end) => Some(end),
                    _ => None,
                })
                .collect();
            assert!(ends.len() == 1 && ends[0].complete, "{runtime}: {ends:?}");
            heap_objects = ends[0].objects;
        }
        eprintln!("{runtime}: {heap_objects} objects");
        process.send_line("grow 1").unwrap();
        process.wait_for_line(Duration::from_secs(20), |line| line == "grown").unwrap();
        process.close_stdin();
        process.truth(Duration::from_secs(20));
    });
}

#[test]
fn heap_snapshots_follow_a_trace_that_allows_them() {
    on_sample_runtimes_at_once(|runtime| {
        let mut process = heapster(runtime);
        let pid = process.pid().to_string();
        let (folder, steady) = (scratch(), "heapster!**");
        let traced = run([
            "trace",
            &pid,
            steady,
            "--for",
            "300ms",
            "--allow-heap",
            "-o",
            file(&folder, "t").to_str().unwrap(),
        ]);
        traced.expect(0);
        for round in 0..2 {
            let heap = run(["heap", &pid, "--json"]).expect(0).json();
            assert!(heap.to_string().contains("Heapster"), "{runtime}, {round}: {heap}");
            run(["async", &pid]).expect(0);
            run(["trace", &pid, steady, "--for", "300ms"]).expect(0);
        }
        run(["leaks", &pid, "--snapshots", "3", "--every", "1s"]).expect(0);
        assert_eq!(libraries(process.pid()).len(), 1, "{runtime}");
        // One that is there already and has not asked cannot any more, and says so.
        let mut other = heapster(runtime);
        let pid = other.pid().to_string();
        run(["trace", &pid, steady, "--for", "300ms"]).expect(0);
        run(["heap", &pid]).expect_error(4, &["--allow-heap"]);
        let again = run(["trace", &pid, steady, "--for", "300ms", "--allow-heap"]);
        assert!(
            (again.out.clone() + &again.err).contains("heap snapshots cannot be allowed"),
            "{runtime}: {}{}",
            again.out,
            again.err
        );
        for process in [&mut process, &mut other] {
            process.close_stdin();
            process.truth(Duration::from_secs(20));
        }
    });
}

#[test]
fn a_trace_follows_another_at_once_while_the_program_collects() {
    on_sample_runtimes_at_once(|runtime| {
        let arguments = ["--churn", "2", "--count", "1000"];
        let mut process =
            Sample::named("heapster").launch(runtime, &arguments).private_tmp().start();
        process.wait_for_ready();
        let pid = process.pid().to_string();
        let mut slowest = Duration::ZERO;
        for round in 0..runs(3) {
            let first = Running::start(clrscope(["trace", &pid, "heapster!**", "--for", "60s"]));
            std::thread::sleep(Duration::from_millis(1500));
            first.signal(Signal::KILL);
            first.wait();
            let begun = Instant::now();
            run(["trace", &pid, "heapster!**", "--for", "300ms"]).expect(0);
            slowest = slowest.max(begun.elapsed());
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "{runtime}, {round}: {:?}",
                begun.elapsed()
            );
        }
        eprintln!("{runtime}: {slowest:?} at most");
        assert_eq!(libraries(process.pid()).len(), 1, "{runtime}");
        process.close_stdin();
        process.truth(Duration::from_secs(20));
    });
}

/// The runtime loads a main profiler before it looks at whether the slot is free, and leaves the
/// library of one that it refuses in the process.
#[test]
fn another_profiler_in_the_main_slot_is_seen_before_anything_is_loaded() {
    let folder = scratch();
    let session = file(&folder, "beside.clrscope");
    let examples = std::path::Path::new(common::binary()).with_file_name("examples");
    on_sample_runtimes_at_once(|runtime| {
        let launch = Sample::named("heapster").launch(runtime, &["--count", "1000"]);
        let mut process = launch
            .env("CORECLR_ENABLE_PROFILING", "1")
            .env("CORECLR_PROFILER", "{2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F04}")
            .env("CORECLR_PROFILER_PATH", examples.join("libempty_allocated.so"))
            .private_tmp()
            .start();
        process.wait_for_ready();
        let pid = process.pid();
        for _ in 0..3 {
            let refused = run(["heap", &pid.to_string()]).expect(4);
            assert!(
                refused.err.contains("another profiler holds it"),
                "{runtime}: {}",
                refused.err
            );
            assert_eq!(libraries(pid).len(), 0, "{runtime}: {:?}", libraries(pid));
        }
        if runtime.major() >= 6 {
            let session = session.with_extension(runtime.major().to_string());
            records(pid, "exceptions", &session);
            wait_until_left(pid);
        }
        process.close_stdin();
        assert!(process.wait(Duration::from_secs(30)).unwrap().success(), "{runtime}");
    });
}
