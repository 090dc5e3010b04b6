//! The two example profilers in real processes: what they print against what the sample program
//! knows of itself.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::time::Duration;

use testkit::{Runtime, Sample, Stream};

const LIMIT: Duration = Duration::from_secs(60);
const RUNTIMES: [Runtime; 3] = [Runtime::V3_1, Runtime::V8, Runtime::V9];

/// An example's library; `cargo test` builds the examples beside the tests.
fn library(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let library = profile.join("examples").join(format!("lib{example}.so"));
    assert!(
        library.is_file(),
        "{} is missing: build it with `cargo build -p corprof --examples`",
        library.display()
    );
    library
}

/// Runs the thrower under an example; returns its ground truth and the lines of its standard error.
fn profiled(
    example: &str,
    clsid: &str,
    runtime: Runtime,
    count: u32,
) -> (serde_json::Value, Vec<String>) {
    let mut process = Sample::named("thrower")
        .launch(runtime.require(), &["--count", &count.to_string(), "--rate", "0"])
        .env("CORECLR_ENABLE_PROFILING", "1")
        .env("CORECLR_PROFILER", clsid)
        .env("CORECLR_PROFILER_PATH", library(example))
        .start();
    let truth = process.truth(LIMIT);
    let status = process.wait(LIMIT).unwrap();
    assert!(status.success(), "{runtime}: {status}\n{}", process.transcript());
    // The last line of the profiler can still be on its way through the pipe.
    for _ in 0..200 {
        if process
            .lines(Stream::Err)
            .iter()
            .any(|line| line.contains("methods were compiled") || line.contains(" all "))
        {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    (truth, process.lines(Stream::Err))
}

#[test]
fn hello_profiler_names_every_compiled_method() {
    for runtime in RUNTIMES {
        let (_, lines) =
            profiled("hello_profiler", "{2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F01}", runtime, 100);
        let hello: Vec<&str> =
            lines.iter().filter_map(|line| line.strip_prefix("hello, ")).collect();
        for method in [
            "Clrscope.Samples.Thrower.Deep(int)",
            "Clrscope.Samples.WrappedException..ctor(string, System.Exception)",
            "Clrscope.Samples.GenericException<int>..ctor(T)",
            "Clrscope.Samples.Outer+FilteredException..ctor(int)",
        ] {
            assert!(hello.contains(&method), "{runtime}: {method} is missing in {hello:#?}");
        }
        let unnamed: Vec<_> =
            hello.iter().filter(|name| name.contains("whose name is not known")).collect();
        assert!(unnamed.is_empty(), "{runtime}: {unnamed:#?}");
        let total = lines
            .iter()
            .find_map(|line| line.strip_suffix(" methods were compiled"))
            .expect("the last line");
        assert_eq!(total.parse::<usize>().unwrap(), hello.len(), "{runtime}");
    }
}

#[test]
fn count_allocations_counts_every_exception_object() {
    for runtime in RUNTIMES {
        let (truth, lines) =
            profiled("count_allocations", "{2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F02}", runtime, 4000);
        let rows: Vec<(u64, u64, &str)> = lines
            .iter()
            .filter_map(|line| {
                let mut columns = line.split_whitespace();
                let (objects, bytes) =
                    (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
                Some((objects, bytes, columns.next()?))
            })
            .collect();
        for name in
            ["PlainException", "DeepException", "WrappedException", "Outer+FilteredException"]
        {
            let name = format!("Clrscope.Samples.{name}");
            let thrown = truth["exceptions"][&name]["count"].as_u64().unwrap();
            let row = rows.iter().find(|(_, _, class)| *class == name);
            let (objects, bytes, _) =
                row.unwrap_or_else(|| panic!("{runtime}: {name} is missing in {lines:#?}"));
            // One of each type is thrown to warm up.
            assert!(
                (thrown..=thrown + 1).contains(objects),
                "{runtime}: {objects} of {name}, {thrown} thrown"
            );
            assert!(
                (64 * objects..512 * objects).contains(bytes),
                "{runtime}: {objects} of {name} have {bytes} bytes"
            );
        }
    }
}
