//! What `launch` adds to the start and to the end of a program.
//!
//! The sample `hello` writes a line and ends. It is started alone and under `launch`, in turns.
//! Each run under `launch` is compared with the run alone just before it, so that a machine that
//! becomes slower for a while disturbs both.

use super::table::{Distribution, Goal, Row};
use crate::tool;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample};

/// For `--only`.
pub const NAME: &str = "launch adds until the first line";
/// The runtimes that are measured.
pub const RUNTIMES: [Runtime; 3] = [Runtime::V3_1, Runtime::V8, Runtime::V9];

/// Rounds, in each of which everything is started once, in turns.
const ROUNDS: usize = 20;
/// What the default profilers may add, in milliseconds.
const GOAL: f64 = 40.0;
/// What is launched, with the goal where there is one.
const SETS: [(&str, &[&str], Option<f64>); 7] = [
    ("nothing: noise", &[], None),
    ("default profilers", &["launch", "-q"], Some(GOAL)),
    ("-p cpu", &["launch", "-q", "-p", "cpu"], None),
    ("-p cpu --engine signals", &["launch", "-q", "-p", "cpu", "--engine", "signals"], None),
    ("-p wall", &["launch", "-q", "-p", "wall"], None),
    ("-p exceptions", &["launch", "-q", "-p", "exceptions"], None),
    ("-p gc", &["launch", "-q", "-p", "gc"], None),
];

/// What one run took, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// From the command to its line.
    line: f64,
    /// From the command to the end of all.
    end: f64,
}

/// Time that is added until the program's first line, and until all has ended.
///
/// # Errors
/// When a program or a recording fails.
pub fn run(runtime: Runtime) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let session = folder.path().join("start.clrscope");
    let (mut alone, mut added) = (Vec::new(), vec![Vec::new(); SETS.len()]);
    // The first round finds the files on the disk.
    for round in 0..=ROUNDS {
        for turn in 0..SETS.len() {
            let set = (round + turn) % SETS.len();
            let plain = once(Sample::named("hello").launch(runtime, &[""; 0]).command())?;
            let launch = Sample::named("hello").launch(runtime, &[""; 0]);
            let command = match SETS[set].1 {
                [] => launch.command(),
                words => {
                    let mut prefix = vec![tool::clrscope().into_os_string()];
                    prefix.extend(words.iter().map(Into::into));
                    prefix.extend(["-o".into(), session.clone().into_os_string(), "--".into()]);
                    launch.under(prefix).command()
                }
            };
            let with = once(command)?;
            if round > 0 {
                alone.push(plain);
                added[set].push(Run { line: with.line - plain.line, end: with.end - plain.end });
            }
        }
    }
    let of =
        |runs: &[Run], value: fn(&Run) -> f64| Distribution::of(runs.iter().map(value).collect());
    let (line, end) = (of(&alone, |run| run.line), of(&alone, |run| run.end));
    let told = format!(
        "{} until its line, {} until its end",
        line.with_quartiles("ms"),
        end.with_quartiles("ms")
    );
    let mut rows = vec![Row::told("a program that writes one line, alone", runtime, told)];
    for ((name, _, goal), runs) in SETS.iter().zip(&added) {
        let (line, end) = (of(runs, |run| run.line), of(runs, |run| run.end));
        let told =
            format!("{}; {} until the end", line.with_quartiles("ms"), end.with_quartiles("ms"));
        let what = format!("{NAME}: {name}");
        rows.push(match goal {
            Some(goal) => Row::new(what, runtime, line.median(), told, Goal::only(*goal, "ms")),
            None => Row::told(what, runtime, told),
        });
    }
    Ok(rows)
}

/// Runs a command to its end.
fn once(mut command: Command) -> Result<Run> {
    let shown = tool::shown(&command);
    let begun = Instant::now();
    let took = |begun: Instant| Duration::as_secs_f64(&begun.elapsed()) * 1e3;
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut first = String::new();
    let read = BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut first);
    let line = took(begun);
    let status = child.wait()?;
    let end = took(begun);
    read?;
    ensure!(
        status.success() && first == "ready\n",
        "`{shown}` ended with {status} and wrote {first:?}"
    );
    Ok(Run { line, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_timed_to_its_line_and_to_its_end() {
        let run = once(Sample::named("hello").launch(Runtime::V9, &[""; 0]).command()).unwrap();
        assert!(run.line > 1.0 && run.end > run.line, "{run:?}");
        let mut silent = Command::new("sh");
        silent.args(["-c", "exit 3"]);
        assert!(once(silent).unwrap_err().to_string().contains("exit status: 3"));
    }
}
