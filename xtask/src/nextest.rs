//! The tests, by cargo-nextest: each in a process of its own and with a limit.

use crate::tool::{self, cargo};
use anyhow::{Context, Result, ensure};
use quick_xml::{Reader, events::Event};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// How many of the slowest tests are listed.
const SLOWEST: usize = 20;

/// What nextest draws above its summary, and between the outputs of failed tests.
const LINE: &str = "────────";

/// Tests that compare pages with `--help`, the registries and the formats.
const OF_PAGES: [&str; 5] = [
    "(package(=cli) & binary(=help))",
    "(package(=corprof) & binary(=tutorial))",
    "(package(=report) & binary(=golden))",
    "(package(=session) & binary(=layout))",
    "package(=xtask)",
];

/// Tests that run side by side, as a filter.
pub const SIDE_BY_SIDE: &str = "not group(alone)";

/// Tests that measure, as a filter: each gets the machine for itself (`.config/nextest.toml`).
pub const ALONE: &str = "group(alone)";

/// What one run of tests has to say at its end.
#[derive(Debug)]
pub struct Ran {
    command: String,
    status: ExitStatus,
    /// Nextest's own summary.
    summary: Vec<Vec<u8>>,
    /// Seconds of each test, and its name.
    times: Vec<(f64, String)>,
}

/// Runs the tests that a filter picks (nextest's filterset language), or all. What comes at the end
/// is left to [`finish`].
///
/// # Errors
/// When they cannot be run, or all together take longer than the limit.
pub fn run(filter: Option<&str>, limit: Duration) -> Result<Ran> {
    let mut command = cargo();
    command.args(["nextest", "run", "--workspace", "--no-fail-fast", "--status-level", "slow"]);
    command.args(["--final-status-level", "fail", "--profile", "ci"]);
    // Many of them wait most of the time; those that measure take all slots. What only computes
    // runs last (`.config/nextest.toml`), so that it takes no processor from those that wait.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    command.args(["--test-threads", &(2 * processors).to_string()]);
    command.args(filter.into_iter().flat_map(|filter| ["--filterset", filter]));
    // Of an earlier run.
    let report = tool::target_folder().join("nextest/ci/junit.xml");
    let _ = fs::remove_file(&report);
    let text = tool::shown(&command);
    let mut child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{text}`"))?;
    let lines = BufReader::new(child.stderr.take().context("no pipe")?).split(b'\n');
    let shown = std::thread::spawn(move || {
        let mut held = Vec::new();
        for line in lines.map_while(Result::ok) {
            hold_back(&mut held, line, &mut std::io::stderr());
        }
        held
    });
    let status = tool::wait(&mut child, limit).with_context(|| format!("`{text}`"));
    let summary = shown.join().unwrap_or_default();
    let times = fs::read_to_string(&report).map(|xml| times(&xml)).unwrap_or_default();
    Ok(Ran { command: text, status: status?, summary, times })
}

/// Shows the slowest tests of all runs, and then nextest's summaries, which end the output.
///
/// # Errors
/// When a test failed.
pub fn finish(runs: Vec<Ran>) -> Result<()> {
    for (seconds, test) in slowest(runs.iter().flat_map(|run| run.times.clone()).collect()) {
        eprintln!("   {seconds:>6.1} s  {test}");
    }
    for line in runs.iter().flat_map(|run| &run.summary) {
        eprintln!("{}", String::from_utf8_lossy(line));
    }
    let failed: Vec<String> = runs
        .iter()
        .filter(|run| !run.status.success())
        .map(|run| format!("`{}` failed with {}", run.command, run.status))
        .collect();
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// Passes lines on, but for the summary at the end and the line above it, which stay in `held`.
fn hold_back(held: &mut Vec<Vec<u8>>, line: Vec<u8>, out: &mut impl Write) {
    let is_line = line.starts_with(LINE.as_bytes());
    let is_summary = String::from_utf8_lossy(&line).trim_start().starts_with("Summary [");
    match held.len() {
        0 if is_line => held.push(line),
        1 if !is_summary => {
            for line in held.drain(..).chain((!is_line).then_some(line.clone())) {
                let _ = writeln!(out, "{}", String::from_utf8_lossy(&line));
            }
            held.extend(is_line.then_some(line));
        }
        0 => {
            let _ = writeln!(out, "{}", String::from_utf8_lossy(&line));
        }
        _ => held.push(line),
    }
}

/// The tests of a JUnit report: seconds, and the name with the package.
fn times(xml: &str) -> Vec<(f64, String)> {
    let mut reader = Reader::from_str(xml);
    let mut tests = Vec::new();
    while let Ok(event) = reader.read_event() {
        match event {
            Event::Eof => break,
            Event::Start(element) | Event::Empty(element)
                if element.name().as_ref() == b"testcase" =>
            {
                let value = |name: &str| {
                    let attribute = element.try_get_attribute(name).ok().flatten()?;
                    Some(String::from_utf8_lossy(&attribute.value).into_owned())
                };
                if let (Some(seconds), Some(package), Some(name)) =
                    (value("time"), value("classname"), value("name"))
                {
                    let seconds = seconds.parse().unwrap_or_default();
                    tests.push((seconds, format!("{package} {name}")));
                }
            }
            _ => {}
        }
    }
    tests
}

/// The slowest ones, slowest first.
fn slowest(mut tests: Vec<(f64, String)>) -> Vec<(f64, String)> {
    tests.sort_by(|(one, _), (other, _)| f64::total_cmp(other, one));
    tests.truncate(SLOWEST);
    tests
}

/// The tests that changes since a commit can affect, as a filter; those that are not committed
/// included. `None` if that is all of them, empty if it is none.
///
/// # Errors
/// When git fails.
pub fn affected(since: &str) -> Result<Option<String>> {
    let git = |arguments: &[&str]| {
        tool::output(Command::new("git").args(arguments), Duration::from_secs(60))
    };
    let changed = git(&["diff", "--name-only", since])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(filter_of(changed.lines().chain(new.lines())))
}

fn filter_of<'a>(paths: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut parts = BTreeSet::new();
    for path in paths {
        match path.split('/').collect::<Vec<_>>()[..] {
            // A package has the name of its folder.
            ["crates", package, _, ..] | [package @ "xtask", _, ..] => {
                parts.insert(format!("rdeps(={package})"));
            }
            ["docs", ..]
            | [
                "README.md" | "CHANGELOG.md" | "CONTRIBUTING.md" | "LICENSE-APACHE" | "LICENSE-MIT",
            ] => {
                parts.extend(OF_PAGES.map(str::to_owned));
            }
            // Programs that are recorded, settings of the workspace and of the tests.
            _ => return None,
        }
    }
    Some(parts.into_iter().collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_held_back() {
        let mut out = Vec::new();
        let mut held = Vec::new();
        let all = [
            "   Starting 2 tests",
            "────────────",
            "   output of a test",
            "────────────",
            "────────────",
            "     Summary [ 1.0s] 2 tests run",
            "  FLAKY  a_test",
        ];
        for line in all {
            hold_back(&mut held, line.into(), &mut out);
        }
        let text = |lines: &[Vec<u8>]| String::from_utf8(lines.join(&b'\n')).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), all[..4].join("\n") + "\n");
        assert_eq!(text(&held), all[4..].join("\n"));
    }

    #[test]
    fn the_slowest_tests_are_first() {
        let xml = r#"<testsuites><testsuite name="cli">
            <testcase name="fast" classname="cli" time="0.5"></testcase>
            <testcase name="slow" classname="cli::trace" time="70.25"/>
            </testsuite></testsuites>"#;
        let expected = [(70.25, "cli::trace slow".to_owned()), (0.5, "cli fast".to_owned())];
        assert_eq!(slowest(times(xml)), expected);
    }

    #[test]
    fn what_a_change_can_affect() {
        let filter = |paths: &[&str]| filter_of(paths.iter().copied());
        let both =
            filter(&["crates/report/src/text.rs", "crates/report/Cargo.toml", "xtask/src/main.rs"]);
        assert_eq!(both.as_deref(), Some("rdeps(=report) | rdeps(=xtask)"));
        let pages = filter(&["docs/wall.md", "README.md"]);
        assert_eq!(pages, Some(OF_PAGES.join(" | ")));
        assert_eq!(filter(&["samples/mixed/Mixed.cs", "xtask/src/main.rs"]), None);
        assert_eq!(filter(&[]).as_deref(), Some(""));
    }
}
