//! What the drop-in for the native profiler of the New Relic agent costs: at start-up, for each call of an instrumented
//! method, and on disk.
//!
//! The managed agent is one that only makes what each call needs. The figures of the agent's own profiler, which is not built
//! here, are those of docs/newrelic.md: ratios to a program without a profiler carry over to other machines, single
//! nanoseconds less so.

use super::table::{Distribution, Goal, Row};
use crate::tool::{self, cargo};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::{Compiler, Extras, Launch, Runtime, source_root};

/// For `--only`.
pub const START: &str = "drop-in, start of a program";
pub const CALL: &str = "drop-in, one call";
pub const SIZE: &str = "drop-in, size of the library";
/// The runtimes that are measured.
pub const RUNTIMES: [Runtime; 2] = [Runtime::V3_1, Runtime::V9];

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
const STARTS: usize = 20;
const PROCESSES: usize = 5;

/// The shapes of the managed agent, with the symbols that make them.
const SHAPES: [(&str, &[&str]); 3] =
    [("10.53", &[]), ("10.54", &["SHAPE_10_54"]), ("10.55", &["SHAPE_10_54", "SHAPE_10_55"])];

const POINTS: &str = "<extension><instrumentation><tracerFactory>\
    <match assemblyName='Calls' className='Calls'><exactMethodMatcher methodName='Traced'/></match>\
    <match assemblyName='Hello' className='Hello'><exactMethodMatcher methodName='Greet'/></match>\
    </tracerFactory></instrumentation></extension>";

/// A home of the agent.
struct Home {
    folder: TempDir,
    library: PathBuf,
}

impl Home {
    fn new(symbols: &[&str]) -> Result<Home> {
        let home = Home { folder: tempfile::tempdir()?, library: library()? };
        let folder = home.folder.path();
        fs::create_dir(folder.join("extensions"))?;
        let agent = compile("NewRelic.Agent.Core", "Agent.cs", true, Extras { symbols, ..Extras::default() })?;
        fs::copy(agent, folder.join("NewRelic.Agent.Core.dll"))?;
        fs::write(folder.join("newrelic.config"), "<configuration><log level=\"info\"/></configuration>")?;
        fs::write(folder.join("extensions/points.xml"), POINTS)?;
        Ok(home)
    }

    fn under(&self, launch: Launch, mode: &str) -> Launch {
        launch
            .env("CORECLR_ENABLE_PROFILING", "1")
            .env("CORECLR_PROFILER", "{36032161-FFC0-4B61-B559-F6C5D41BAE5A}")
            .env("CORECLR_PROFILER_PATH", &self.library)
            .env("CORECLR_NEW_RELIC_HOME", self.folder.path())
            .env("NEW_RELIC_CLRSCOPE_MODE", mode)
            .env("AGENT_QUIET", "true")
    }
}

fn compile(name: &str, source: &str, is_library: bool, extras: Extras<'_>) -> Result<PathBuf> {
    let source = source_root().join("crates/newrelic/tests/programs").join(source);
    Ok(Compiler::find()?.compile_with(name, &source, Runtime::V3_1, is_library, extras)?)
}

fn library() -> Result<PathBuf> {
    let library = tool::target_folder().join("release/libNewRelicProfiler.so");
    ensure!(library.is_file(), "{} is missing: leave out --no-build", library.display());
    Ok(library)
}

/// Builds the library as users get it.
///
/// # Errors
/// When it cannot be built.
pub fn build() -> Result<()> {
    tool::run(cargo().args(["build", "--release", "--package", "newrelic"]), BUILD_LIMIT)
}

/// What a program that greets and ends takes, as a ratio to the same without a profiler.
///
/// # Errors
/// When a program fails.
pub fn start(runtime: Runtime) -> Result<Vec<Row>> {
    let program = compile("Hello", "Hello.cs", false, Extras::default())?;
    let homes = SHAPES.iter().map(|(_, symbols)| Home::new(symbols)).collect::<Result<Vec<_>>>()?;
    let limit = if runtime == Runtime::V3_1 { 2.0 } else { 3.5 };
    let mut variants: Vec<(String, &Home, &str, Option<f64>)> = Vec::new();
    for ((shape, _), home) in SHAPES.iter().zip(&homes) {
        variants.push((format!("{shape}, default"), home, "default", Some(limit)));
        variants.push((format!("{shape}, fast"), home, "fast", Some(1.15)));
    }
    let cached = homes.get(1).context("no home")?;
    variants.push(("10.54, strict".to_owned(), cached, "strict", None));
    let launch = || Launch::assembly(&program, runtime, &[""; 0]);
    let (mut alone, mut ratios) = (Vec::new(), vec![Vec::new(); variants.len()]);
    // The first round finds the files on the disk.
    for round in 0..=STARTS {
        for turn in 0..variants.len() {
            let index = (round + turn) % variants.len();
            let plain = once(launch().command())?;
            let Some((_, home, mode, _)) = variants.get(index) else { continue };
            let with = once(home.under(launch(), mode).command())?;
            if round > 0 {
                alone.push(plain);
                ratios[index].push(with / plain);
            }
        }
    }
    let mut rows = vec![Row::told(format!("{START}, alone"), runtime, Distribution::of(alone).with_quartiles("ms"))];
    for ((name, _, _, goal), ratios) in variants.iter().zip(ratios) {
        let ratio = Distribution::of(ratios);
        let (what, told) = (format!("{START}: agent {name}"), ratio.with_quartiles("×"));
        rows.push(match goal {
            Some(goal) => Row::new(what, runtime, ratio.median(), told, Goal::only(*goal, "×")),
            None => Row::told(what, runtime, told),
        });
    }
    Ok(rows)
}

/// What one call of an instrumented method that does nothing takes, with one thread and with two.
///
/// # Errors
/// When a program fails.
pub fn call(runtime: Runtime) -> Result<Vec<Row>> {
    let program = compile("Calls", "Calls.cs", false, Extras::default())?;
    let is_old = runtime == Runtime::V3_1;
    let mut rows = Vec::new();
    for (shape, symbols) in SHAPES {
        let home = Home::new(symbols)?;
        // What the agent's own profiler of that shape takes, and what the fast mode may take.
        let (own, fast) = match (shape, is_old) {
            ("10.53", true) => (3044.0, 100.0),
            ("10.53", false) => (1974.0, 100.0),
            ("10.54", true) => (411.0, 65.0),
            ("10.54", false) => (117.0, 45.0),
            (_, true) => (81.0, 65.0),
            (_, false) => (56.0, 45.0),
        };
        for (mode, goal) in [("default", own), ("fast", fast)] {
            let (mut one, mut two) = (Vec::new(), Vec::new());
            for _ in 0..PROCESSES {
                for (threads, found) in [("1", &mut one), ("2", &mut two)] {
                    let launch = home.under(Launch::assembly(&program, runtime, &[threads]), mode);
                    found.push(traced(&launch)?);
                }
            }
            let (one, two) = (Distribution::of(one), Distribution::of(two));
            let told = format!("{}; with 2 threads {}", one.with_quartiles("ns"), two.with_quartiles("ns"));
            let what = format!("{CALL}: agent {shape}, {mode}");
            rows.push(Row::new(what, runtime, one.median(), told, Goal::only(goal, "ns")));
        }
    }
    Ok(rows)
}

/// Nanoseconds of a traced call, as `Calls.cs` prints them.
fn traced(launch: &Launch) -> Result<f64> {
    let output = launch.command().stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let shown = || format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{}", shown());
    let mut words = text.split_whitespace().skip_while(|word| *word != "traced");
    words.nth(1).and_then(|word| word.parse().ok()).with_context(shown)
}

/// The stripped library: its size, and that it loads where all symbols are bound at once.
///
/// # Errors
/// When it cannot be stripped, or does not load.
pub fn size() -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let stripped = folder.path().join("libNewRelicProfiler.so");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(library()?);
    tool::run(&mut strip, Duration::from_secs(60))?;
    let megabytes = fs::metadata(&stripped)?.len() as f64 / 1e6;
    let mut home = Home::new(&[])?;
    home.library = stripped;
    let program = compile("Hello", "Hello.cs", false, Extras::default())?;
    let launch = home.under(Launch::assembly(&program, Runtime::V9, &[""; 0]), "default");
    let output = launch.env("LD_BIND_NOW", "1").env("AGENT_QUIET", "false").command().output()?;
    let traced = String::from_utf8_lossy(&output.stdout).contains("GETTRACER ");
    ensure!(traced, "with LD_BIND_NOW=1 nothing is traced: {output:?}");
    let told = format!("{megabytes:.2} MB; loads with LD_BIND_NOW=1");
    Ok(vec![Row::new(SIZE, "·", megabytes, told, Goal::only(2.0, "MB"))])
}

/// Milliseconds that a command takes until its end.
fn once(mut command: Command) -> Result<f64> {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && text.contains("Hello, world"), "{}: {output:?}", tool::shown(&command));
    Ok(took)
}
