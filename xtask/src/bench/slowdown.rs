//! What observation costs the observed: work done per second of the process's own CPU time, with
//! and without.

use super::Options;
use super::observe::{EventPipe, Nothing, Observer, Recording};
use super::table::{Distribution, Goal, Row};
use anyhow::{Result, bail};
use serde_json::Value;
use std::time::Duration;
use testkit::{Runtime, Sample, TargetProcess};

/// The runtimes of the goals.
pub const RUNTIMES: [Runtime; 2] = [Runtime::V3_1, Runtime::V9];

/// A kind of work and who observes it, in turns.
pub struct Comparison {
    /// What is compared, for the table and for `--only`.
    pub name: &'static str,
    /// Arguments of `--work` of the sample.
    pub work: &'static [&'static str],
    /// Who observes.
    pub observers: &'static [Watcher],
    /// What it takes until an observer does what it does most of the time; `None` for nothing
    /// beyond the usual.
    pub patience: Option<Patience>,
}

/// For observers that change their ways after a while, or now and then.
#[derive(Clone, Copy)]
pub struct Patience {
    /// Milliseconds until a window begins.
    pub settle: u64,
    /// Least length of a window, in milliseconds.
    pub window: u64,
}

/// Somebody who observes.
pub struct Watcher {
    /// What it does.
    pub what: &'static str,
    /// How.
    pub kind: Kind,
    /// Slow-down in percent.
    pub goal: Option<Goal>,
}

/// How to observe.
pub enum Kind {
    /// By `clrscope record` with these arguments.
    Clrscope(&'static [&'static str]),
    /// By EventPipe's sample profiler.
    EventPipe,
    /// Not at all.
    Nobody,
}

const CPU: &[Watcher] = &[
    Watcher {
        what: "cpu 100 Hz",
        kind: Kind::Clrscope(&["-p", "cpu", "--rate", "100"]),
        goal: Some(Goal::new(1.0, 0.5, "%")),
    },
    Watcher {
        what: "cpu 1000 Hz",
        kind: Kind::Clrscope(&["-p", "cpu", "--rate", "1000"]),
        goal: Some(Goal::new(4.0, 2.5, "%")),
    },
    Watcher { what: "EventPipe", kind: Kind::EventPipe, goal: None },
];

/// All comparisons of the goals.
pub const COMPARISONS: &[Comparison] = &[
    Comparison { name: "slow-down, CPU-bound", work: &["cpu"], observers: CPU, patience: None },
    Comparison {
        name: "slow-down, allocation-heavy",
        work: &["alloc"],
        observers: CPU,
        patience: None,
    },
    Comparison {
        name: "slow-down, exception-heavy",
        work: &["exceptions"],
        observers: CPU,
        patience: None,
    },
    Comparison {
        name: "slow-down, 10,000 exceptions/s",
        work: &["paced", "--rate", "10000"],
        observers: &[Watcher {
            what: "exceptions",
            kind: Kind::Clrscope(&["-p", "exceptions"]),
            goal: Some(Goal::new(5.0, 3.0, "%")),
        }],
        patience: None,
    },
    Comparison {
        name: "slow-down, exceptions at full speed",
        work: &["exceptions"],
        observers: &[Watcher {
            what: "exceptions",
            kind: Kind::Clrscope(&["-p", "exceptions"]),
            goal: Some(Goal::new(20.0, 12.0, "%")),
        }],
        patience: None,
    },
];

/// The same windows with nothing switched on: how much of a difference is noise.
pub const NOISE: &[Comparison] = &[
    Comparison { name: "noise, CPU-bound", work: &["cpu"], observers: NOBODY, patience: None },
    Comparison {
        name: "noise, allocation-heavy",
        work: &["alloc"],
        observers: NOBODY,
        patience: None,
    },
    Comparison {
        name: "noise, exception-heavy",
        work: &["exceptions"],
        observers: NOBODY,
        patience: None,
    },
];

const NOBODY: &[Watcher] = &[Watcher { what: "nothing", kind: Kind::Nobody, goal: None }];

/// Against EventPipe: ratio of the slow-downs.
const AGAINST: Goal = Goal::new(0.5, 0.3, "×");

/// A slow-down of theirs that is smaller than this, in percent, is noise: there is nothing to
/// compare with.
const NOTICEABLE: f64 = 0.2;

/// Share of a processor that a window needs to tell something.
const LEAST_CPU: f64 = 0.1;

/// How often a window is measured again that had less.
const RETRIES: usize = 20;

/// Work done in one window.
#[derive(Clone, Copy, Debug, Default)]
struct Speed {
    per_cpu_second: f64,
    per_second: f64,
    exceptions_per_cpu_second: f64,
}

impl Comparison {
    /// Runs it.
    ///
    /// # Errors
    /// When the target or an observer fails.
    pub fn run(&self, runtime: Runtime, options: &Options) -> Result<Vec<Row>> {
        let mut arguments = vec!["--work"];
        arguments.extend(self.work);
        let mut target = Sample::named("throughput").start(runtime, &arguments);
        target.wait_for_ready();
        let pid = target.pid();
        self.compare(runtime, pid, options, |length| window(&mut target, length))
    }

    /// The same with windows that are measured otherwise: each by its length in milliseconds.
    fn compare(
        &self,
        runtime: Runtime,
        pid: u32,
        options: &Options,
        mut window: impl FnMut(u64) -> Result<Speed>,
    ) -> Result<Vec<Row>> {
        let mut cpu = vec![Vec::new(); self.observers.len()];
        let mut wall = cpu.clone();
        let mut exceptions = 0.0;
        let length =
            self.patience.map_or(options.window, |patience| options.window.max(patience.window));
        for round in 0..options.pairs {
            // One window without an observer before the others and one after them: whatever drifts
            // cancels out. The order of the others changes from round to round.
            let before = window(length)?;
            let mut on = vec![Speed::default(); self.observers.len()];
            for turn in 0..self.observers.len() {
                let index = (round + turn) % self.observers.len();
                let observer = self.observers[index].start(pid, runtime)?;
                let settle = self.patience.map_or(0, |patience| patience.settle);
                std::thread::sleep(Duration::from_millis(settle));
                on[index] = window(length)?;
                observer.end()?;
            }
            let after = window(length)?;
            exceptions += (before.exceptions_per_cpu_second + after.exceptions_per_cpu_second)
                / (2 * options.pairs) as f64;
            for (index, on) in on.iter().enumerate() {
                cpu[index].push(
                    100.0
                        * (1.0
                            - 2.0 * on.per_cpu_second
                                / (before.per_cpu_second + after.per_cpu_second)),
                );
                wall[index].push(
                    100.0 * (1.0 - 2.0 * on.per_second / (before.per_second + after.per_second)),
                );
            }
        }
        let cpu: Vec<Distribution> = cpu.into_iter().map(Distribution::of).collect();
        let wall: Vec<f64> =
            wall.into_iter().map(|values| Distribution::of(values).median()).collect();
        let mut rows = Vec::new();
        for ((watcher, slow_down), wall) in self.observers.iter().zip(&cpu).zip(&wall) {
            let what = format!("{}: {}", self.name, watcher.what);
            let mut measured =
                format!("{}; by the clock {wall:.1} %", slow_down.with_quartiles("%"));
            if watcher.what == "exceptions" {
                measured += &format!("; {exceptions:.0} exceptions per CPU second");
            }
            rows.push(match watcher.goal {
                Some(goal) => Row::new(what, runtime, slow_down.median(), measured, goal),
                None => Row::told(what, runtime, measured),
            });
        }
        if let [_, ours, theirs] = &cpu[..] {
            let (ours, theirs) = (ours.median(), theirs.median());
            let what = format!("{}: 1000 Hz against EventPipe", self.name);
            rows.push(if theirs >= NOTICEABLE {
                // Ours may come out below zero by noise.
                let ratio = ours.max(0.0) / theirs;
                Row::new(
                    what,
                    runtime,
                    ratio,
                    format!("{ratio:.2} × ({ours:.2} % / {theirs:.2} %)"),
                    AGAINST,
                )
            } else {
                let measured = format!("theirs is not measurable ({ours:.2} % / {theirs:.2} %)");
                Row { value: None, ..Row::new(what, runtime, 0.0, measured, AGAINST) }
            });
        }
        Ok(rows)
    }
}

impl Watcher {
    fn start(&self, pid: u32, runtime: Runtime) -> Result<Box<dyn Observer>> {
        Ok(match self.kind {
            Kind::Clrscope(arguments) => {
                let fit: Vec<String> =
                    arguments.iter().map(|argument| fitting(argument, runtime)).collect();
                let fit: Vec<&str> = fit.iter().map(String::as_str).collect();
                Box::new(Recording::start(pid, &fit)?.settle()?)
            }
            Kind::EventPipe => Box::new(EventPipe::start(pid)?),
            Kind::Nobody => Box::new(Nothing),
        })
    }
}

/// A list of profilers without those that the runtime is too old for; other arguments as they are.
fn fitting(argument: &str, runtime: Runtime) -> String {
    let fits = |part: &&str| {
        let id = part.split(':').next().unwrap_or_default();
        profilers::by_id(id).is_none_or(|spec| spec.since <= runtime.major())
    };
    argument.split(',').filter(fits).collect::<Vec<_>>().join(",")
}

/// Operations per second of CPU time of the `throughput` sample, in one window.
///
/// # Errors
/// When the target fails, or gets no processor.
pub fn operations_per_cpu_second(target: &mut TargetProcess, milliseconds: u64) -> Result<f64> {
    window(target, milliseconds).map(|speed| speed.per_cpu_second)
}

/// One window of the `throughput` sample. A window in which other programs took nearly all
/// processors is measured again.
fn window(target: &mut TargetProcess, milliseconds: u64) -> Result<Speed> {
    for _ in 0..RETRIES {
        if let Some(speed) = speed(&answer(target, milliseconds)?)? {
            return Ok(speed);
        }
    }
    bail!("the workload got no processor, {RETRIES} times in turn");
}

fn answer(target: &mut TargetProcess, milliseconds: u64) -> Result<Value> {
    target.send_line(&format!("window {milliseconds}"))?;
    let line = target.wait_for_line(Duration::from_millis(milliseconds * 4 + 20_000), |line| {
        line.starts_with('{')
    })?;
    Ok(serde_json::from_str(&line)?)
}

/// What the program says of a window; `None` if it had next to no processor.
fn speed(answer: &Value) -> Result<Option<Speed>> {
    let number = |name: &str| answer[name].as_f64();
    let (Some(operations), Some(cpu), Some(wall)) =
        (number("operations"), number("cpu_ns"), number("wall_ns"))
    else {
        bail!("the workload answered {answer}");
    };
    if operations <= 0.0 || cpu <= 0.0 || cpu / wall < LEAST_CPU {
        return Ok(None);
    }
    Ok(Some(Speed {
        per_cpu_second: operations / cpu * 1e9,
        per_second: operations / wall * 1e9,
        exceptions_per_cpu_second: number("exceptions").unwrap_or(0.0) / cpu * 1e9,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of a program of which nobody else takes the processor.
    fn steady(per_cpu_second: f64) -> Speed {
        Speed { per_cpu_second, per_second: per_cpu_second / 2.0, exceptions_per_cpu_second: 0.0 }
    }

    #[test]
    fn windows_are_compared_and_named() {
        let options = Options { pairs: 2, window: 60, ..Options::of(super::super::Suite::Noise) };
        // Before, observed, after: twice.
        let mut speeds = [100.0, 90.0, 100.0, 110.0, 99.0, 90.0].into_iter();
        let mut lengths = Vec::new();
        let measured = |length| {
            lengths.push(length);
            Ok(steady(speeds.next().unwrap()))
        };
        let rows = NOISE[0].compare(Runtime::V9, 0, &options, measured).unwrap();
        assert_eq!(lengths, [60; 6]);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].what, "noise, CPU-bound: nothing");
        // 10 % and 1 % slower.
        assert!(
            rows[0].measured.starts_with("5.5") && rows[0].measured.contains("by the clock 5.5 %"),
            "{}",
            rows[0].measured
        );
        assert!(rows[0].goal.is_none());
    }

    /// The real program answers; how fast it is does not matter here.
    #[test]
    fn the_program_measures_a_window() {
        let mut target = Sample::named("throughput").start(Runtime::V9, &["--work", "cpu"]);
        target.wait_for_ready();
        let answer = answer(&mut target, 20).unwrap();
        assert!(
            ["operations", "cpu_ns", "wall_ns", "exceptions"]
                .iter()
                .all(|name| answer[name].is_number()),
            "{answer}"
        );
        assert!(speed(&answer).is_ok(), "{answer}");
    }
}
