//! Files of other tools, as the runtime itself writes them, through the built binary.
#![cfg(unix)]
mod common;

use common::{Report, file, run, scratch};
use diagnostics::{EventPipeConfig, Provider};
use std::{
    fs,
    io::Read as _,
    path::Path,
    time::{Duration, Instant},
};
use testkit::{Sample, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(120);

/// What `dotnet-trace collect` writes by default: the sample profiler, the runtime's events, and at
/// the end where methods are.
fn trace(pid: u32, seconds: u64, path: &Path) {
    let providers = vec![
        Provider::new("Microsoft-DotNETCore-SampleProfiler", 0, 4),
        // GC, loader, JIT, exceptions, contention.
        Provider::new(Provider::RUNTIME, 0x1 | 0x8 | 0x10 | 0x8000 | 0x4000, 4),
    ];
    let config = EventPipeConfig {
        rundown: true,
        stacks: true,
        buffer_mib: 256,
        ..EventPipeConfig::new(providers)
    };
    let process = diagnostics::find_pid(pid).unwrap();
    let mut session = process.port().unwrap().collect(&config).unwrap();
    let stopper = session.stopper();
    let stopping = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds));
        stopper.stop(LIMIT)
    });
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1 << 16]);
    let until = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < until, "the stream does not end");
        match session.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => bytes.extend(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {}
            Err(error) => panic!("{error}"),
        }
    }
    stopping.join().unwrap().unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_trace_of_the_runtime_has_names_times_and_collections() {
    for runtime in sample_runtimes() {
        let folder = scratch();
        // Its name says nothing.
        let path = file(&folder, "recorded.bin");
        let launch = Sample::named("burn").launch(runtime, &["--seconds", "600"]);
        let mut process = launch.private_tmp().start();
        process.wait_for_ready();
        trace(process.pid(), 3, &path);
        let name = path.to_str().unwrap();
        let report = Report::of(&path);
        assert_eq!(report.0["recording"]["entry"], "imported", "{runtime}");
        let weight = |method| report.total_weight("wall", "Clrscope.Samples.Burn", method) as f64;
        let (slow, light) = (weight("Slow"), weight("Light"));
        let whole = weight("Work");
        // It burns 70 : 20 : 10, and is sampled at safepoints, which favors some places.
        assert!(slow > light && slow > whole * 0.4, "{runtime}: {slow} {light} {whole}");
        assert!(whole > 1e9 && whole < 12e9, "{runtime}: {whole}");
        let text = run(["report", name]).expect(0).out;
        assert!(text.contains("sample profiler"), "{runtime}: {text}");
        run(["compare", name, name]).expect(0);
        // Of a file that is cut, what came before.
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let cut = run(["report", name]).expect(0).out;
        assert!(cut.contains("cut short"), "{runtime}: {cut}");
        assert!(process.is_running(), "{}", process.transcript());
    }
}

#[test]
fn files_that_cannot_be_imported_say_why() {
    let folder = scratch();
    let path = file(&folder, "file");
    let name = path.to_str().unwrap();
    for (bytes, part) in [
        (&b"main;work 3\nno number\n"[..], "line 2"),
        (b"Nettrace\x14\0\0\0!FastSerialization.1", "cut short"),
        (br#"{"nodes":[]}"#, "V8"),
        (b"\x1f\x8b\x08garbage", "gzip"),
        (b"\x14\0\0\0!FastSerialization.1\x05", "gcdump"),
    ] {
        fs::write(&path, bytes).unwrap();
        run(["report", name]).expect_error(8, &[part, name]);
        run(["compare", name, name]).expect_error(8, &[part]);
    }
    fs::write(&path, "main;work 3\nmain;rest 1\n").unwrap();
    let text = run(["report", name]).expect(0).out;
    assert!(text.contains("75.0 %") && text.contains("no times"), "{text}");
    let pprof = file(&folder, "out.pb.gz");
    run(["report", name, "-f", "pprof", "-o", pprof.to_str().unwrap()]).expect(0);
    let again = run(["report", pprof.to_str().unwrap(), "-f", "collapsed"]).expect(0).out;
    assert!(again.contains("main;work 3") && again.contains("main;rest 1"), "{again}");
}
