//! Whether the shares of a program that knows its own truth come out.

use super::observe::Recorded;
use super::table::{Goal, Row};
use crate::tool;
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Duration;
use testkit::{Runtime, Sample};

/// For `--only`.
pub const NAME: &str = "known 70/20/10 split";

/// How long is recorded: 10,000 samples at 1000 Hz, and some more for a machine that is busy
/// otherwise.
const LENGTH: Duration = Duration::from_secs(11);

/// Records the sample `burn` and compares.
///
/// # Errors
/// When the target, the recording or its report fails.
pub fn run(runtime: Runtime) -> Result<Vec<Row>> {
    let mut burn = Sample::named("burn").start(runtime, &["--seconds", "12"]);
    burn.wait_for_ready();
    let recorded = Recorded::make(burn.pid(), &["-p", "cpu", "--rate", "1000"], LENGTH)?;
    let truth = burn.truth(Duration::from_secs(30));
    let mut command = Command::new(tool::clrscope());
    command.arg("report").arg(recorded.file()).args(["--format", "collapsed"]);
    let stacks = tool::output(&mut command, Duration::from_secs(60))?;
    let methods = truth["methods"].as_object().context("the sample told no methods")?;
    let mut found = Vec::new();
    for (method, share) in methods {
        let name = format!(".{}{}", method[..1].to_uppercase(), &method[1..]);
        found.push((method, weight_below(&stacks, &name), share.as_f64().context("not a share")?));
    }
    let all: f64 = found.iter().map(|(_, weight, _)| weight).sum();
    ensure!(all > 0.0, "none of the methods was met in:\n{stacks}");
    let mut worst: f64 = 0.0;
    let mut shares = Vec::new();
    for (method, weight, truth) in &found {
        worst = worst.max(100.0 * (weight / all - truth).abs());
        shares.push(format!("{method} {:.2} of {:.2}", 100.0 * weight / all, 100.0 * truth));
    }
    let measured = format!(
        "{worst:.2} points ({}), {:.0} samples",
        shares.join(", "),
        recorded.samples("cpu")
    );
    Ok(vec![Row::new(NAME, runtime, worst, measured, Goal::new(1.0, 0.5, "points"))])
}

/// The weight of all collapsed stacks that hold a method, by the end of its name, whatever it is
/// generic over.
fn weight_below(stacks: &str, method: &str) -> f64 {
    let holds = |stack: &str| {
        stack.split(';').any(|frame| {
            frame.split(['(', '[']).next().is_some_and(|name| plain(name).ends_with(method))
        })
    };
    let lines = stacks.lines().filter_map(|line| line.rsplit_once(' '));
    lines
        .filter(|(stack, _)| holds(stack))
        .filter_map(|(_, weight)| weight.parse::<f64>().ok())
        .fold(0.0, |a, b| a + b)
}

/// A name without what stands between angle brackets.
fn plain(name: &str) -> String {
    let mut depth = 0_usize;
    let mut keep = |letter: &char| {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    name.trim_end().chars().filter(|letter| keep(letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_met_once_per_stack_and_by_its_whole_name() {
        let stacks = "burner-0;A.Burn.Work(int);A.Burn.Slow(int);A.Burn.Slow(int) 5\n\
            burner-0;A.Burn.NotSlow() 7\nx;B.Slow 2\n";
        assert_eq!(weight_below(stacks, ".Slow"), 7.0);
        assert_eq!(weight_below(stacks, ".NotSlow"), 7.0);
        assert_eq!(
            weight_below("x;A<System.String, B<int>>.Nested.Medium<T>(A<T>, int) 3", ".Medium"),
            3.0
        );
    }
}
