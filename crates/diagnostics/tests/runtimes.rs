//! Discovery and commands on real runtimes.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

use diagnostics::{
    DotnetProcess, Error, EventPipeConfig, HResult, Hosting, Obstacle, Port, Provider, ReversePort,
    discover, find, find_pid, proc,
};
use nettrace::{
    Collect,
    gc::{Collection, Collector, Output, Pause},
};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::{Compiler, Host, Runtime, Sample, TargetProcess, runtimes, sample_runtimes};

/// A program of ours, or `azmcp` where none can run.
fn start(runtime: Runtime) -> TargetProcess {
    if runtime.runs_samples() {
        let mut burn = Sample::named("burn").start(runtime, &["--seconds", "120"]);
        burn.wait_for_ready();
        burn
    } else {
        let mut app = TargetProcess::azmcp(runtime);
        app.feed(1).unwrap();
        app
    }
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn obstacle(pid: u32) -> Obstacle {
    match find_pid(pid) {
        Err(Error::Unattachable { obstacle, .. }) => obstacle,
        other => panic!("{other:?}"),
    }
}

/// Waits until the process has its runtime: it cannot say so where nothing of ours runs in it.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_runtime_is_found_with_its_facts() {
    for runtime in runtimes() {
        let target = start(runtime);
        let all = discover().unwrap();
        let process = all.iter().find(|process| process.pid == target.pid()).expect("it is listed");
        assert_eq!(process.obstacle, None, "{runtime}");
        let version = process.runtime_version.as_deref().expect("a version");
        assert!(version.starts_with(&runtime.version()), "{version} on {runtime}");
        assert_eq!(
            process.arch.as_deref(),
            Some(if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" })
        );
        let single_file = matches!(runtime, Runtime::V8 | Runtime::V10);
        let hosting = if single_file { Hosting::SingleFile } else { Hosting::Library };
        assert_eq!(process.hosting, Some(hosting), "{runtime}");
        let name = match runtime {
            Runtime::V8 => "Sarif.Multitool",
            Runtime::V10 | Runtime::Azmcp9 => "azmcp",
            _ => "burn",
        };
        assert_eq!(process.name, name);
        assert_eq!(
            process.executable,
            Some(runtime.executable().canonicalize().unwrap()),
            "{runtime}"
        );
        assert!(!process.contained && process.ns_pid == process.pid);
        let own = proc::status(std::process::id()).unwrap();
        assert_eq!(process.uid, Some(own.uid));
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
        let started = process.started_unix_ms.unwrap();
        assert!(started < now + 2000 && started + 120_000 > now, "{started} {now}");

        let found = find_pid(target.pid()).unwrap();
        assert_eq!(found.socket, process.socket);
        let port = found.port().unwrap();
        if runtime == Runtime::V3_1 {
            assert!(port.process_info().unwrap_err().is_unknown_command());
        } else {
            let info = port.process_info().unwrap();
            assert_eq!(info.pid, u64::from(target.pid()));
            assert!(info.command_line.contains(&*process.args[0]), "{}", info.command_line);
            assert_eq!((info.os.as_str(), info.cookie == [0; 16]), ("Linux", false));
            let environment = port.environment().unwrap();
            assert!(
                environment.contains(&("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT".into(), "1".into()))
            );
        }
    }
}

#[test]
fn what_attach_refuses_says_why() {
    for runtime in runtimes() {
        let target = start(runtime);
        let port = find_pid(target.pid()).unwrap().port().unwrap();
        let attach = |path: &str| {
            port.attach_profiler([7; 16], path, b"x", Duration::from_secs(10)).unwrap_err()
        };
        let error = attach("/nowhere/libnothing.so");
        assert_eq!(error.hresult(), Some(HResult::MODULE_NOT_FOUND), "{runtime}: {error}");
        // A library that is none of a profiler.
        let library = proc::maps(std::process::id()).unwrap().into_iter().find_map(|map| {
            map.file().filter(|path| path.to_string_lossy().contains("libc.so")).map(Path::to_owned)
        });
        let error = attach(library.unwrap().to_str().unwrap());
        assert!(error.hresult().is_some_and(|code| !code.is_success()), "{runtime}: {error}");
    }
}

#[test]
fn a_private_temporary_directory() {
    let mut target =
        Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]).private_tmp().start();
    target.wait_for_ready();
    let process = find_pid(target.pid()).unwrap();
    assert_eq!(process.temp_dir, target.tmp().unwrap());
    assert!(process.socket.unwrap().ends_with(format!(
        "dotnet-diagnostic-{}-{}-socket",
        target.pid(),
        proc::stat(target.pid()).unwrap().start_ticks
    )));
}

#[test]
fn another_mount_and_pid_namespace() {
    // The runtime is process 1 or 2 in there, on a /tmp of its own.
    let launch = Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]);
    let inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c"];
    let script = "mount -t tmpfs none /tmp && exec \"$0\" \"$@\"";
    let mut target = launch.under(inside.into_iter().chain([script])).start();
    target.wait_for_ready();
    let process = discover()
        .unwrap()
        .into_iter()
        .find(|process| {
            process.contained
                && proc::stat(process.pid).is_ok_and(|stat| stat.parent == target.pid())
        })
        .expect("the process in the namespaces is listed");
    assert_eq!((process.ns_pid, process.obstacle.clone()), (1, None));
    assert!(
        process.socket.as_ref().unwrap().starts_with(format!("/proc/{}/root/tmp", process.pid))
    );
    assert_eq!(find_pid(process.pid).unwrap().runtime_version.as_deref(), Some("9.0.5"));
    assert_eq!(process.port().unwrap().process_info().unwrap().pid, 1);
}

#[test]
fn what_cannot_be_attached_says_why() {
    // No such process.
    let mut child = Command::new("true").spawn().unwrap();
    let gone = child.id();
    wait_until("it ends", || proc::state(gone).is_ok_and(|state| state.is_over()));
    assert!(matches!(find_pid(gone), Err(Error::NoSuchProcess { .. })), "a zombie");
    child.wait().unwrap();
    assert!(matches!(find(&gone.to_string()), Err(Error::NoSuchProcess { pid }) if pid == gone));
    assert!(matches!(find("no such name"), Err(Error::NoProcessNamed { .. })));

    // Not .NET.
    let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
    let error = find_pid(sleep.id()).unwrap_err();
    assert!(matches!(&error, Error::NotDotnet { name, .. } if name == "sleep"), "{error}");
    sleep.kill().unwrap();
    sleep.wait().unwrap();

    // Switched off.
    let off = Sample::named("burn")
        .launch(Runtime::V9, &["--seconds", "60"])
        .env("DOTNET_EnableDiagnostics", "0");
    let mut target = off.start();
    target.wait_for_ready();
    assert_eq!(
        obstacle(target.pid()),
        Obstacle::Disabled { variable: "DOTNET_EnableDiagnostics=0".into() }
    );

    // Its socket was deleted, and somebody else listens at the same name.
    let mut target =
        Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]).private_tmp().start();
    target.wait_for_ready();
    let socket = find_pid(target.pid()).unwrap().socket.unwrap();
    std::fs::remove_file(&socket).unwrap();
    assert!(
        matches!(obstacle(target.pid()), Obstacle::SocketRemoved { path } if path.ends_with(socket.file_name().unwrap()))
    );
    let _impostor = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(matches!(obstacle(target.pid()), Obstacle::NoSocket { .. }));

    // A temporary directory that does not exist.
    let nowhere =
        Sample::named("burn").launch(Runtime::V9, &["--seconds", "60"]).env("TMPDIR", "/nowhere");
    let mut target = nowhere.start();
    target.wait_for_ready();
    assert_eq!(obstacle(target.pid()), Obstacle::NoSocket { directory: "/nowhere".into() });
}

#[test]
fn a_stopped_process_does_not_hold_anybody() {
    let target = start(Runtime::V9);
    let port = find_pid(target.pid()).unwrap().port().unwrap();
    signal(target.pid(), "-STOP");
    wait_until("it stops", || proc::state(target.pid()).unwrap().is_stopped());
    let start = Instant::now();
    assert_eq!(obstacle(target.pid()), Obstacle::Stopped { tracer: None });
    let listed: Vec<DotnetProcess> = discover().unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(listed.iter().any(|process| process.pid == target.pid()));
    let error = port.with_timeout(Duration::from_millis(300)).process_info().unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    signal(target.pid(), "-CONT");
    wait_until("it goes on", || !proc::state(target.pid()).unwrap().is_stopped());
    find_pid(target.pid()).unwrap();
}

#[test]
fn the_floor_is_told() {
    let mut target = Sample::named("burn").start(Runtime::V2_1.require(), &["--seconds", "60"]);
    target.wait_for_ready();
    let error = find_pid(target.pid()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot attach to process {} (burn): it runs .NET Core 2.1.30: .NET Core 3.1 or newer \
                is needed",
            target.pid()
        )
    );
}

/// A stand-in for NativeAOT, which no package here holds: a program that exports what such programs
/// export.
#[test]
fn code_compiled_ahead_of_time_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("aot.c");
    std::fs::write(
        &source,
        "int DotNetRuntimeDebugHeader;\nint pause(void);\nint main(void) { return pause(); }\n",
    )
    .unwrap();
    let program = folder.path().join("aot");
    let built =
        Command::new("cc").arg("-rdynamic").arg(&source).arg("-o").arg(&program).status().unwrap();
    assert!(built.success());
    let mut child = Command::new(&program).spawn().unwrap();
    wait_until("it runs", || {
        proc::executable(child.id()).is_ok_and(|path| path == program.canonicalize().unwrap())
    });
    let found = obstacle(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found, Obstacle::NativeAot);
}

/// Runs this test program again as a user who may see nothing of ours.
#[test]
fn another_user_is_told_whose_process_it_is() {
    const NOBODY: u32 = 65534;
    if let Ok(pid) = std::env::var("PID_OF_ANOTHER_USER") {
        println!("found: {}", find_pid(pid.parse().unwrap()).unwrap_err());
        let listed = discover().unwrap();
        println!(
            "listed: {:?}",
            listed.iter().find(|process| process.pid.to_string() == pid).unwrap().obstacle
        );
        return;
    }
    assert_eq!(
        proc::status(std::process::id()).unwrap().uid,
        0,
        "this test changes its user, so it needs root"
    );
    let target = start(Runtime::V9);
    // The build may be where others cannot read.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("again");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let output = Command::new(&copy)
        .args(["another_user_is_told_whose_process_it_is", "--exact", "--nocapture"])
        .env("PID_OF_ANOTHER_USER", target.pid().to_string())
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let told = "it belongs to another user, root: run as that user, or as root";
    assert!(
        text.contains(&format!("found: cannot attach to process {} (burn): {told}", target.pid())),
        "{text}"
    );
    assert!(text.contains("listed: Some(OtherUser { user: \"root\" })"), "{text}");
}

/// Reads GC events of a target until it says that it is done, then stops the session.
fn collect_gc(
    port: &Port,
    mut done: impl FnMut() -> bool,
) -> (Vec<Collection>, Vec<Pause>, nettrace::Statistics) {
    let session = port.collect(&EventPipeConfig::new(vec![Provider::gc()])).unwrap();
    let stopper = session.stopper();
    let mut reader = nettrace::Reader::new(session);
    let mut collector = Collector::new();
    let (started, has_started) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let (mut gcs, mut pauses) = (Vec::new(), Vec::new());
        loop {
            if reader.trace().is_some() {
                let _ = started.send(());
            }
            match reader.next_event() {
                Ok(Some(event)) => collector.push(&event),
                Ok(None) => break,
                Err(error) if error.is_timeout() => {}
                Err(error) => panic!("{error}"),
            }
            while let Some(output) = collector.next_output() {
                match output {
                    Output::Gc(gc) => gcs.push(gc),
                    Output::Pause(pause) => pauses.push(pause),
                    Output::Induced(_) => {}
                }
            }
        }
        (gcs, pauses, reader.statistics())
    });
    // .NET Core 3.1 answers before the session runs; its head comes when it does.
    has_started.recv_timeout(Duration::from_secs(20)).unwrap();
    wait_until("the target is done", &mut done);
    stopper.stop(Duration::from_secs(20)).unwrap();
    reading.join().unwrap()
}

#[test]
fn collections_are_counted_as_the_runtime_counts_them() {
    const ROUNDS: usize = 20;
    for runtime in sample_runtimes() {
        let rounds = ROUNDS.to_string();
        // Where memory is short, the runtime makes one that it was asked for a background
        // collection of an older generation.
        let launch = Sample::named("gcforce").launch(runtime, &["--rounds", &rounds, "--gate"]);
        let mut target = launch.env("COMPlus_gcConcurrent", "0").start();
        target.wait_for_ready();
        let port = find_pid(target.pid()).unwrap().port().unwrap();
        let mut truth = None;
        let (gcs, pauses, statistics) = {
            let mut told = false;
            collect_gc(&port, || {
                if !told {
                    target.send_line("go").unwrap();
                    told = true;
                }
                truth = Some(target.truth(Duration::from_secs(60)));
                true
            })
        };
        let truth = truth.unwrap();
        assert_eq!((statistics.lost, statistics.undescribed), (0, 0), "{runtime}");
        for generation in 0..3u8 {
            let found = gcs.iter().filter(|gc| gc.generation == generation).count() as u64;
            assert_eq!(
                Some(found),
                truth["by_generation"][usize::from(generation)].as_u64(),
                "{runtime}: {truth}"
            );
        }
        // Each was asked for; the runtime may collect an older generation than it was asked to, but
        // never a younger one.
        let induced =
            |oldest: u8| gcs.iter().filter(|gc| gc.generation >= oldest && gc.induced).count();
        assert_eq!(induced(0), 3 * ROUNDS, "{runtime}");
        assert!(induced(1) >= 2 * ROUNDS && induced(2) >= ROUNDS, "{runtime}");
        // Numbers are without gaps, each collection is within one pause, and each has left
        // something.
        assert!(gcs.windows(2).all(|pair| pair[0].number + 1 == pair[1].number), "{runtime}");
        for gc in &gcs {
            let of_it: Vec<_> = pauses.iter().filter(|pause| pause.gc == Some(gc.number)).collect();
            assert_eq!(of_it.len(), 1, "{runtime}: {gc:?}");
            assert!(
                of_it[0].suspend_end <= gc.start && gc.end <= of_it[0].resume_start,
                "{runtime}: {gc:?}"
            );
            assert!(
                gc.size_after.iter().sum::<u64>() > 1 << 20 && gc.gc_handles > 0,
                "{runtime}: {gc:?}"
            );
            assert_eq!(gc.kind, "NonConcurrentGC");
        }
        let forced = gcs.iter().rfind(|gc| gc.generation == 2).unwrap();
        assert_eq!(forced.reason, "Induced");
        assert!(
            forced.promoted[2] + forced.promoted[1] > 1 << 20 && forced.promoted[3] > 1 << 20,
            "{forced:?}"
        );
        // The runtime counts pauses itself from .NET 7 on.
        if let Some(paused_ms) = truth["paused_ms"].as_f64() {
            let of_gcs = pauses.iter().filter(|pause| pause.gc.is_some());
            let ours: u64 = of_gcs.map(|pause| pause.resume_end - pause.suspend_start).sum();
            let ours = ours as f64 / 1e6;
            assert!(
                (ours - paused_ms).abs() <= paused_ms * 0.25 + 1.0,
                "{runtime}: {ours} ms of {paused_ms} ms"
            );
        }
        // The clock is CLOCK_MONOTONIC.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        assert!(gcs.iter().all(|gc| gc.end < now && gc.end + 120_000_000_000 > now), "{runtime}");
    }
}

#[test]
fn background_collections_are_told_from_those_within_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/Background.cs");
    for runtime in [Runtime::V3_1, Runtime::V9] {
        let program =
            Compiler::find().unwrap().compile("background", &source, runtime, false).unwrap();
        let Host::Muxer { dotnet, .. } = runtime.require().host() else {
            panic!("{runtime} is multi-file")
        };
        let mut target = testkit::Launch::new(dotnet)
            .arg(program)
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .env("COMPlus_gcConcurrent", "1")
            // Sixteen megabytes, so that young collections are frequent, but not frequent enough
            // that events are dropped.
            .env("COMPlus_GCgen0size", "1000000")
            .start();
        target.wait_for_ready();
        let port = find_pid(target.pid()).unwrap().port().unwrap();
        let mut told = 0;
        let (gcs, pauses, statistics) = collect_gc(&port, || {
            target.send_line("go").unwrap();
            let done = target
                .wait_for_line(Duration::from_secs(60), |line| line.starts_with("done "))
                .unwrap();
            told = done["done ".len()..].parse().unwrap();
            true
        });
        assert_eq!(statistics.lost, 0);
        assert_eq!(gcs.iter().filter(|gc| gc.generation == 2).count(), told, "{runtime}");
        let background: Vec<_> = gcs.iter().filter(|gc| gc.kind == "BackgroundGC").collect();
        assert!((2..=5).contains(&background.len()), "{runtime}: {}", background.len());
        let foreground: Vec<_> = gcs.iter().filter(|gc| gc.kind == "ForegroundGC").collect();
        assert!(!foreground.is_empty(), "{runtime}");
        for gc in &background {
            assert_eq!((gc.generation, gc.induced), (2, true), "{gc:?}");
            assert!(gc.size_after.iter().sum::<u64>() > 1 << 20, "{gc:?}");
            let of_it: Vec<_> = pauses.iter().filter(|pause| pause.gc == Some(gc.number)).collect();
            assert!(of_it.len() >= 2, "{runtime}: {gc:?} {of_it:?}");
            let paused: u64 =
                of_it.iter().map(|pause| pause.resume_end - pause.suspend_start).sum();
            assert!(paused < gc.end - gc.start, "{runtime}: {gc:?} {of_it:?}");
        }
        for gc in &foreground {
            assert!(
                background.iter().any(|outer| outer.start <= gc.start && gc.end <= outer.end),
                "{runtime}: {gc:?}"
            );
            assert_eq!(
                pauses.iter().filter(|pause| pause.gc == Some(gc.number)).count(),
                1,
                "{runtime}: {gc:?}"
            );
        }
        // Pauses never overlap.
        assert!(
            pauses.windows(2).all(|pair| pair[0].resume_start <= pair[1].suspend_end),
            "{runtime}"
        );
    }
}

#[test]
fn a_session_ends_with_the_process() {
    let mut target = start(Runtime::V9);
    let port = find_pid(target.pid()).unwrap().port().unwrap();
    let session = port.collect(&EventPipeConfig::new(vec![Provider::gc()])).unwrap();
    assert_eq!(session.form(), 4);
    let mut reader = nettrace::Reader::new(session);
    signal(target.pid(), "-KILL");
    target.close_stdin();
    let start = Instant::now();
    loop {
        match reader.next_event() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) if error.is_timeout() => {}
            Err(error) => {
                assert!(
                    matches!(error, nettrace::Error::Truncated { .. } | nettrace::Error::Io(_)),
                    "{error}"
                );
                break;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    drop(reader);
    assert!(start.elapsed() < Duration::from_secs(12));
}

#[test]
fn a_runtime_waits_at_its_start_for_the_reverse_port() {
    for runtime in [Runtime::V8, Runtime::V9, Runtime::V10] {
        let folder = tempfile::tempdir().unwrap();
        let reverse = ReversePort::bind(&folder.path().join("port")).unwrap();
        let launch = if runtime.runs_samples() {
            Sample::named("burn").launch(runtime, &["--seconds", "60"])
        } else {
            TargetProcess::azmcp_launch(runtime)
        };
        let mut target =
            launch.env("DOTNET_DiagnosticPorts", reverse.environment_value(true)).start();
        let connected = reverse.accept(Duration::from_secs(30)).unwrap();
        assert_eq!(connected.pid, u64::from(target.pid()), "{runtime}");
        let info = connected.port.process_info().unwrap();
        assert_eq!(info.cookie, connected.cookie, "{runtime}");
        // Before the runtime is resumed, its environment can be changed; afterwards it is as we
        // made it.
        connected.port.set_environment_variable("CLRSCOPE_TEST", "höchst").unwrap();
        connected.port.resume_runtime().unwrap();
        if runtime.runs_samples() {
            target.wait_for_ready();
        } else {
            target.feed(1).unwrap();
        }
        let environment = connected.port.environment().unwrap();
        assert!(environment.contains(&("CLRSCOPE_TEST".into(), "höchst".into())), "{runtime}");
        // The usual port is there as well.
        find_pid(target.pid()).unwrap();
    }
}

#[test]
fn a_core_dump_is_written_where_we_say() {
    let target = start(Runtime::V9);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    let port = find_pid(target.pid()).unwrap().port().unwrap();
    let dumped = port.create_core_dump(
        path.to_str().unwrap(),
        diagnostics::DumpType::Triage,
        diagnostics::DumpFlags::default(),
        Duration::from_secs(60),
    );
    match dumped {
        Ok(()) => assert!(std::fs::metadata(&path).unwrap().len() > 1 << 16),
        // The tool that writes dumps is a part of its own of the runtime.
        Err(error) => assert!(matches!(error, Error::Refused { .. }), "{error}"),
    }
    assert!(proc::state(target.pid()).is_ok_and(|state| !state.is_over()));
}
