//! What all tests need: a home of the agent, and programs under the library.

use newrelic_compat::shape::{AgentShape, of_file};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tempfile::TempDir;
use testkit::{Compiler, Extras, Launch, Runtime, Stream, source_root};

pub const LIMIT: Duration = Duration::from_secs(120);
pub const SHAPES: [AgentShape; 3] = [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55];
pub const CONFIGURATION: &str = "<configuration xmlns=\"urn:newrelic-config\" \
    agentEnabled=\"true\"><log level=\"all\"/></configuration>";

/// The library; `cargo test` builds it beside the tests.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libNewRelicProfiler.so");
    assert!(
        library.is_file(),
        "{} is missing: build it with `cargo build -p newrelic`",
        library.display()
    );
    library
}

pub fn compile(name: &str, source: &str, is_library: bool, extras: Extras<'_>) -> PathBuf {
    let source = source_root().join("crates/newrelic/tests/programs").join(source);
    let assembly = Compiler::find()
        .and_then(|mcs| mcs.compile_with(name, &source, Runtime::V3_1, is_library, extras));
    assembly.unwrap_or_else(|error| panic!("{error}"))
}

/// The managed agent of a shape.
pub fn agent(shape: AgentShape) -> PathBuf {
    let symbols: &[&str] = match shape {
        AgentShape::V10_53 => &[],
        AgentShape::V10_54 => &["SHAPE_10_54"],
        AgentShape::V10_55 => &["SHAPE_10_54", "SHAPE_10_55"],
    };
    let agent =
        compile("NewRelic.Agent.Core", "Agent.cs", true, Extras { symbols, ..Extras::default() });
    assert_eq!(of_file(&fs::read(&agent).unwrap()).map(|shim| shim.shape), Ok(shape));
    agent
}

/// A home folder of the agent.
pub struct Home {
    folder: TempDir,
}

impl Home {
    /// One with the managed agent of a shape, a configuration and points.
    pub fn new(shape: AgentShape, points: Option<&str>) -> Home {
        let home = Home { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(home.path().join("extensions")).unwrap();
        fs::copy(agent(shape), home.path().join("NewRelic.Agent.Core.dll")).unwrap();
        fs::write(home.path().join("newrelic.config"), CONFIGURATION).unwrap();
        if let Some(points) = points {
            fs::write(home.path().join("extensions/points.xml"), points).unwrap();
        }
        home
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A program under the library.
    pub fn launch<A: Into<OsString> + Clone>(
        &self,
        program: &Path,
        runtime: Runtime,
        arguments: &[A],
    ) -> Launch {
        self.under(Launch::assembly(program, runtime, arguments))
    }

    /// The same for any program.
    pub fn under(&self, launch: Launch) -> Launch {
        launch
            .env("CORECLR_ENABLE_PROFILING", "1")
            // The library takes every class id.
            .env("CORECLR_PROFILER", "{5A0C4E0E-6B1B-4C57-A1F1-2E6D0B8D4C12}")
            .env("CORECLR_PROFILER_PATH", library())
            .env("CORECLR_NEW_RELIC_HOME", self.path())
    }

    /// The lines of all logs in a folder.
    pub fn log(&self) -> Vec<String> {
        let logs = fs::read_dir(self.path().join("logs")).into_iter().flatten().flatten();
        let mut lines = Vec::new();
        for log in logs {
            lines.extend(fs::read_to_string(log.path()).unwrap().lines().map(str::to_owned));
        }
        lines
    }
}

/// What a program did.
pub struct Ran {
    pub status: ExitStatus,
    pub out: Vec<String>,
    pub err: Vec<String>,
}

/// Runs a program until its end, with all of its output.
pub fn run(launch: Launch) -> Ran {
    let mut process = launch.start();
    // No line is the wanted one, so this ends with the output.
    let ended = process.wait_for_line(LIMIT, |_| false).unwrap_err().to_string();
    assert!(ended.contains("` ended before "), "{ended}\n{}", process.transcript());
    let status = process.wait(LIMIT).unwrap();
    Ran { status, out: process.lines(Stream::Out), err: process.lines(Stream::Err) }
}

impl Ran {
    /// Checks that the program ended well and said nothing on standard error.
    pub fn well(self, case: &str) -> Vec<String> {
        assert!(
            self.status.success(),
            "{case}: {}\n{}\n{}",
            self.status,
            self.out.join("\n"),
            self.err.join("\n")
        );
        assert_eq!(self.err, Vec::<String>::new(), "{case}");
        self.out
    }
}
