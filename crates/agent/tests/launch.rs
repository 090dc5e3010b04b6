//! The agent in a process from its first instruction, and beside another profiler.

mod client;

use client::{Client, LIMIT, Listener, attach, config, library, wait_gone, wait_threads_gone};
use std::time::{Duration, Instant};
use testkit::{Launch, Runtime, Sample, TargetProcess, runtimes, sample_runtimes};
use wire::{ByeReason, Control, CpuEngine, Record, SessionConfig};

fn supported() -> Vec<Runtime> {
    runtimes().into_iter().filter(|runtime| runtime.is_supported()).collect()
}

fn profiled(launch: Launch, config: &SessionConfig) -> Launch {
    launch
        .env("CORECLR_ENABLE_PROFILING", "1")
        .env("CORECLR_PROFILER", diagnostics::clsid_text(wire::CLSID_MAIN))
        .env("CORECLR_PROFILER_PATH", library())
        .env(wire::CONFIG_ENV, config.to_hex())
}

fn launched(listener: &Listener, profilers: &[&str]) -> SessionConfig {
    let mut config = config(profilers, CpuEngine::SuspendWalk);
    config.socket = listener.path();
    config.launched = true;
    config
}

#[test]
fn a_launched_process_is_held_until_go_and_says_bye_at_its_end() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        let listener = Listener::new();
        let config = launched(&listener, &["cpu", "exceptions", "wall"]);
        let sample = Sample::named("thrower").launch(runtime, &["--count", "500", "--rate", "0"]);
        let mut process = profiled(sample, &config).start();
        let mut client = listener.accept();
        let hello = client.hello.clone().unwrap();
        assert_eq!(hello.pid, process.pid());
        assert!(!hello.command_line.is_empty());
        client.collect(Duration::from_millis(700));
        assert!(
            process.lines(testkit::Stream::Out).is_empty(),
            "{runtime}: it went on without being told"
        );
        client.send(&Control::Go);
        let truth = process.truth(LIMIT);
        client.wait(|client| client.bye.is_some());
        assert_eq!(client.bye.as_ref().unwrap().reason, ByeReason::Shutdown);
        assert!(process.wait(LIMIT).unwrap().success());
        let counted: u64 = client
            .records
            .iter()
            .filter_map(|record| {
                if let Record::ExceptionCounts { counts, .. } = record {
                    Some(counts)
                } else {
                    None
                }
            })
            .flatten()
            .map(|(_, count)| count)
            .sum();
        // The runtime may throw some of its own as it starts.
        let thrown = truth["total"].as_u64().unwrap();
        assert!((thrown..thrown + 20).contains(&counted), "{runtime}: {counted} of {thrown}");
        assert!(client.records.iter().any(|record| matches!(record, Record::RuntimeWork(_))));
    }
}

#[test]
fn a_process_is_not_held_for_ever() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        let listener = Listener::new();
        let config = launched(&listener, &[]);
        let begun = Instant::now();
        let mut process =
            profiled(Sample::named("burn").launch(runtime, &["--seconds", "30"]), &config).start();
        let mut client = listener.accept();
        process.wait_for_ready();
        assert!(begun.elapsed() >= Duration::from_millis(1900), "{runtime}");
        // Having been there from the start does not hinder the detach, nor the next attach.
        client.stop();
        wait_gone(process.pid());
        Client::attach(&process, client::config(&["wall"], CpuEngine::Off)).stop();
        wait_threads_gone(process.pid());
    }
}

#[test]
fn a_launched_application_of_others_runs_as_ever() {
    for runtime in [Runtime::V10, Runtime::Azmcp9] {
        let listener = Listener::new();
        let config = launched(&listener, &["cpu", "wall", "exceptions"]);
        let mut process: TargetProcess =
            profiled(TargetProcess::azmcp_launch(runtime), &config).start();
        let mut client = listener.accept();
        client.send(&Control::Go);
        process.feed(3).unwrap();
        client.collect(Duration::from_millis(500));
        let bye = client.stop();
        eprintln!("{runtime}: {:?}", bye.status);
        wait_gone(process.pid());
        process.feed(1).unwrap();
    }
}

#[test]
fn nobody_listening_or_no_configuration_lets_the_program_run() {
    for runtime in sample_runtimes().into_iter().filter(|runtime| runtime.is_supported()) {
        let mut config = config(&["cpu"], CpuEngine::SuspendWalk);
        config.socket = "/nonexistent/socket".into();
        let sample = || Sample::named("thrower").launch(runtime, &["--count", "10", "--rate", "0"]);
        let mut process = profiled(sample(), &config).start();
        assert_eq!(process.truth(LIMIT)["sample"], "thrower");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
        let mut process = profiled(sample(), &config).env(wire::CONFIG_ENV, "no hex").start();
        assert_eq!(process.truth(LIMIT)["sample"], "thrower");
        assert!(process.wait(LIMIT).unwrap().success(), "{runtime}");
    }
}

#[test]
fn a_command_host_is_left_alone() {
    // Any command line of the SDK will do: the runtime starts, and with it the profiler, before it
    // is found missing.
    let directory = tempfile::tempdir().unwrap();
    let program = Sample::named("burn").compile(Runtime::V9).unwrap();
    for (from, to) in
        [("dll", "VBCSCompiler.dll"), ("runtimeconfig.json", "VBCSCompiler.runtimeconfig.json")]
    {
        std::fs::copy(program.with_extension(from), directory.path().join(to)).unwrap();
    }
    let listener = Listener::new();
    let config = launched(&listener, &["cpu"]);
    let host = Runtime::V9.executable();
    let launch =
        Launch::new(host).arg(directory.path().join("VBCSCompiler.dll")).args(["--seconds", "1"]);
    let mut process = profiled(launch, &config).start();
    let mut client = listener.accept();
    client.wait(|client| client.bye.is_some());
    assert_eq!(client.bye.as_ref().unwrap().reason, ByeReason::Skipped);
    process.wait(LIMIT).unwrap();
}

#[test]
fn beside_another_profiler_only_what_that_allows_is_asked_for() {
    for runtime in supported() {
        let mut process = client::running(runtime);
        let mut first =
            Client::attach_as(&process, config(&["wall"], CpuEngine::Off), wire::CLSID_MAIN);
        let mut second = config(&["wall", "exceptions", "cpu"], CpuEngine::SuspendWalk);
        let listener = Listener::new();
        second.socket = listener.path();
        let beside = attach(process.pid(), &second, wire::CLSID_NOTIFY_ONLY);
        if runtime.major() < 6 {
            beside.unwrap_err();
        } else {
            beside.unwrap();
            let mut beside = listener.accept();
            let hello = beside.hello.clone().unwrap();
            assert!(hello.notify_only);
            assert_eq!(hello.event_mask.0 & !0x1001_027e, 0, "{:x}", hello.event_mask.0);
            assert_eq!(hello.event_mask.1 & !0xf6, 0, "{:x}", hello.event_mask.1);
            beside.wait(|client| {
                client
                    .records
                    .iter()
                    .filter(|record| matches!(record, Record::ThreadTick { .. }))
                    .count()
                    > 10
            });
            assert_eq!(beside.stop().reason, ByeReason::Stopped);
        }
        // The other one was not disturbed.
        first.wait(|client| {
            client.records.iter().filter(|r| matches!(r, Record::ThreadTick { .. })).count() > 10
        });
        assert_eq!(first.stop().reason, ByeReason::Stopped);
        wait_gone(process.pid());
        // The main place is taken at most once. Refusing leaves the library mapped, in every
        // runtime since .NET 6: the runtime has opened it to ask whether it would be content with
        // less, and does not close it.
        let mut first =
            Client::attach_as(&process, config(&["wall"], CpuEngine::Off), wire::CLSID_MAIN);
        attach(process.pid(), &second, wire::CLSID_MAIN).unwrap_err();
        assert_eq!(first.stop().reason, ByeReason::Stopped);
        wait_threads_gone(process.pid());
        assert!(process.is_running());
    }
}

#[test]
fn two_that_stop_the_world_take_turns() {
    for runtime in supported().into_iter().filter(|runtime| runtime.major() >= 6) {
        let mut process = client::running(runtime);
        let mut clients: Vec<Client> = (0..3)
            .map(|_| Client::attach(&process, config(&["wall:rate=200"], CpuEngine::Off)))
            .collect();
        for _ in 0..5 {
            let before: Vec<usize> = clients.iter().map(wall_ticks).collect();
            for (client, before) in clients.iter_mut().zip(before) {
                client.collect(Duration::from_millis(300));
                // One whose stops took long leaves ticks out to spare the program.
                let deadline = Instant::now() + Duration::from_secs(40);
                while wall_ticks(client) == before && Instant::now() < deadline {
                    client.collect(Duration::from_millis(100));
                }
                assert!(wall_ticks(client) > before, "{runtime}: the world stands still");
            }
        }
        for mut client in clients {
            assert_eq!(client.stop().reason, ByeReason::Stopped, "{runtime}");
        }
        wait_threads_gone(process.pid());
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
    }
}

fn wall_ticks(client: &Client) -> usize {
    client.records.iter().filter(|record| matches!(record, Record::ThreadTick { .. })).count()
}

#[test]
fn a_main_profiler_that_leaves_does_not_take_the_process_with_it() {
    for runtime in supported().into_iter().filter(|runtime| runtime.major() >= 6) {
        let mut process = client::running(runtime);
        let wall = || config(&["wall"], CpuEngine::Off);
        // It leaves while another is there, which then is not called any more, and cannot leave.
        let mut main = Client::attach_as(&process, wall(), wire::CLSID_MAIN);
        let mut beside = Client::attach(&process, wall());
        beside.wait(|client| wall_ticks(client) > 3);
        assert_eq!(main.stop().reason, ByeReason::Stopped);
        beside.wait(|client| client.bye.is_some());
        assert_eq!(beside.bye.as_ref().unwrap().reason, ByeReason::Stays, "{runtime}");
        assert!(
            beside.complaints().iter().any(|text| text.contains("no longer calls")),
            "{:?}",
            beside.complaints()
        );
        // The one that stays makes up for it.
        let mut next = Client::attach(&process, wall());
        next.wait(|client| wall_ticks(client) > 3);
        assert_eq!(next.stop().reason, ByeReason::Stopped, "{runtime}");
        // It leaves while nobody else is there: the next one says so at once, and the one after it
        // is served.
        let mut main = Client::attach_as(&process, wall(), wire::CLSID_MAIN);
        main.wait(|client| wall_ticks(client) > 3);
        assert_eq!(main.stop().reason, ByeReason::Stopped);
        std::thread::sleep(Duration::from_millis(600));
        let mut deaf = Client::attach_as(&process, wall(), wire::CLSID_NOTIFY_ONLY);
        deaf.wait(|client| client.bye.is_some());
        assert_eq!(deaf.bye.as_ref().unwrap().reason, ByeReason::Stays, "{runtime}");
        let mut next = Client::attach(&process, wall());
        next.wait(|client| wall_ticks(client) > 3);
        assert_eq!(next.stop().reason, ByeReason::Stopped, "{runtime}");
        wait_threads_gone(process.pid());
        assert!(process.is_running(), "{runtime}: {}", process.transcript());
    }
}
