//! `cargo xtask bench service`: what recording costs a service whose processors are busy, and
//! threads that hand work over.
//!
//! Work, observer and stopwatch are three processes: the program, `clrscope record`, and the load
//! generator `wrk`. What counts is the CPU time that the program takes for a request, throughput,
//! and latency. Each window with a recording stands between two windows without one.

mod interrupt;
mod rounds;
mod target;
mod wrk;

use super::observe::{EventPipe, Observer as _, Recording};
use super::table::Distribution;
use super::{Options, caught, machine};
use crate::tool;
use anyhow::{Context, Result, bail, ensure};
use diagnostics::Provider;
use interrupt::Interrupt;
use profilers::PROFILERS;
use rounds::{NOISE, Outcome, Recorded, Stated, stated_and_lost, table};
use std::io::{Read as _, Write as _, pipe};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use target::{Target, WARM_UP, Window, Work, cpu_seconds};
use testkit::{Runtime, sample_runtimes};

/// Routes of the service, each with its number of requests under way: one that does nothing, so
/// that any cost shows; one that allocates and converts; one in which each request waits for 10 ms.
const ROUTES: [Work; 3] = [
    Work::Service { route: "/ok", connections: 8 },
    Work::Service { route: "/json", connections: 8 },
    Work::Service { route: "/price", connections: 128 },
];

/// The runtime of set-up that has ASP.NET Core: that of 8 is without, and that of 10 runs no
/// program but its own.
const WITH_ASP_NET: Runtime = Runtime::V9;

/// Samples per second of each engine: the default, and the most that does not beat with a timer of
/// 1 ms.
const RATES: [u32; 2] = [100, 999];

/// Seconds under load before a window counts: connections are made, and a recording has named what
/// it met at first.
const SETTLE: u64 = 1;

/// What a recording takes around its window, for the estimate of the whole.
const COMING_AND_GOING: Duration = Duration::from_millis(1500);

/// What `clrscope record -h` may take.
const HELP_LIMIT: Duration = Duration::from_secs(30);

/// Who records.
#[derive(Clone, Debug, PartialEq)]
enum Recorder {
    /// No recorder: the differences are noise.
    None,
    /// `clrscope record` with these arguments.
    Clrscope(Vec<String>),
    /// EventPipe, as dotnet-trace asks for it.
    EventPipe,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
struct Subject {
    name: String,
    recorder: Recorder,
    /// How many windows it gets in each round.
    times: usize,
}

/// One table.
struct Comparison {
    runtime: Runtime,
    work: Work,
    subjects: Vec<Subject>,
}

/// How many requests a service answers in a second under full load.
///
/// # Errors
/// When wrk is missing, or the load fails.
pub fn requests_per_second(url: &str, connections: u32, seconds: u64) -> Result<f64> {
    let load = wrk::run(url, connections, seconds, &Interrupt::never())?;
    Ok(load.requests as f64 / load.seconds)
}

/// Runs all comparisons and prints their tables.
///
/// # Errors
/// When something could not be measured, and when it is interrupted; what was measured is printed
/// all the same.
pub fn run(options: &Options) -> Result<()> {
    ensure!(
        options.rounds > 0 && options.seconds > 0,
        "at least one round and windows of at least a second are needed: --rounds 1 --seconds 1"
    );
    let engines = engines()?;
    let comparisons = wanted(&engines, &options.only);
    ensure!(!comparisons.is_empty(), "no row contains \"{}\"", options.only);
    let interrupt = Interrupt::watch()?;
    let (machine, switches) = (machine(), switches()?);
    let started = Instant::now();
    let expected: Duration =
        comparisons.iter().map(|comparison| comparison.expected(options)).sum();
    eprintln!(
        "{} programs, {} rounds, windows of {} s: about {:.0} min",
        comparisons.len(),
        options.rounds,
        options.seconds,
        (expected.as_secs_f64() / 60.0).ceil()
    );
    let (mut tables, mut failed) = (String::new(), Vec::new());
    for comparison in &comparisons {
        let mut measured = Measured::of(&comparison.subjects);
        let result = caught(|| comparison.measure(options, &interrupt, started, &mut measured));
        if let (Err(error), false) = (result, interrupt.came()) {
            eprintln!("    failed: {error:#}");
            failed.push(format!("{}: {error:#}", comparison.name()));
        }
        for outcome in &measured.outcomes {
            failed.extend(
                outcome
                    .failed
                    .iter()
                    .map(|why| format!("{}, {}: {why}", comparison.name(), outcome.name)),
            );
        }
        if !measured.unrecorded.is_empty() {
            let table = table(
                &comparison.name(),
                comparison.work.operation(),
                &measured.unrecorded,
                &measured.outcomes,
            );
            let processors =
                thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
            let costs = stated_and_lost(&comparison.name(), processors, &measured.outcomes);
            tables = tables + &table + "\n" + &costs + "\n";
        }
        if interrupt.came() {
            break;
        }
    }
    println!(
        "\n{machine}; {:.0} s in all; {switches}\n\n{tables}",
        started.elapsed().as_secs_f64()
    );
    if interrupt.came() {
        bail!("interrupted: the tables hold the windows that were complete by then");
    }
    if !failed.is_empty() {
        bail!("not measured:\n  {}", failed.join("\n  "));
    }
    Ok(())
}

/// What one comparison has found so far.
struct Measured {
    unrecorded: Vec<Window>,
    outcomes: Vec<Outcome>,
}

impl Measured {
    fn of(subjects: &[Subject]) -> Measured {
        let outcome = |subject: &Subject| Outcome {
            name: subject.name.clone(),
            windows: vec![],
            failed: None,
        };
        Measured { unrecorded: vec![], outcomes: subjects.iter().map(outcome).collect() }
    }
}

impl Comparison {
    fn name(&self) -> String {
        format!("{}, {}", self.runtime, self.work.name())
    }

    /// About how long it takes.
    fn expected(&self, options: &Options) -> Duration {
        let windows = u32::try_from(self.turns().len()).unwrap_or(u32::MAX);
        let window = Duration::from_secs(SETTLE + options.seconds);
        let round = window * (2 * windows) + COMING_AND_GOING * windows;
        Duration::from_secs(WARM_UP)
            + window
            + round * u32::try_from(options.rounds).unwrap_or(u32::MAX)
    }

    /// Which subject has its turn when, by index: those with several windows a round have them
    /// apart.
    fn turns(&self) -> Vec<usize> {
        let most = self.subjects.iter().map(|subject| subject.times).max().unwrap_or(0);
        let turn = |time| {
            let subjects = self.subjects.iter().enumerate();
            subjects.filter(move |(_, subject)| time < subject.times).map(|(index, _)| index)
        };
        (0..most).flat_map(turn).collect()
    }

    /// Measures all rounds. What was complete before an error is kept.
    fn measure(
        &self,
        options: &Options,
        interrupt: &Interrupt,
        started: Instant,
        measured: &mut Measured,
    ) -> Result<()> {
        let name = self.name();
        eprintln!("{name}: starting and warming up");
        let mut target = self.work.start(self.runtime, interrupt)?;
        let turns = self.turns();
        let mut before = unrecorded(&mut target, options, interrupt, measured)?;
        for round in 0..options.rounds {
            // The order changes from round to round, so that no row always follows the same one.
            for turn in 0..turns.len() {
                let index = turns[(round + turn) % turns.len()];
                let subject = &self.subjects[index];
                if measured.outcomes[index].failed.is_some() {
                    continue;
                }
                let result = subject.record(&mut target, options, interrupt);
                let after = unrecorded(&mut target, options, interrupt, measured)?;
                let (round, rounds) = (round + 1, options.rounds);
                let said = match result {
                    Ok((on, own_cpu, stated)) => {
                        let recorded = Recorded { before, on, after, own_cpu, stated };
                        measured.outcomes[index].windows.push(recorded);
                        format!(
                            "CPU {:+.1} %, throughput {:+.1} %",
                            recorded.cpu(),
                            recorded.throughput()
                        )
                    }
                    Err(error) => {
                        measured.outcomes[index].failed = Some(format!("{error:#}"));
                        format!("failed: {error:#}")
                    }
                };
                let time = started.elapsed().as_secs_f64();
                eprintln!(
                    "[round {round} of {rounds}, {time:.0} s] {name}: {}: {said}",
                    subject.name
                );
                before = after;
            }
        }
        Ok(())
    }
}

/// A window without a recording.
fn unrecorded(
    target: &mut Target,
    options: &Options,
    interrupt: &Interrupt,
    measured: &mut Measured,
) -> Result<Window> {
    target.window(SETTLE, interrupt)?;
    let window = target.window(options.seconds, interrupt)?;
    measured.unrecorded.push(window);
    Ok(window)
}

impl Subject {
    fn new(name: impl Into<String>, recorder: Recorder) -> Subject {
        Subject { name: name.into(), recorder, times: 1 }
    }

    /// One that `clrscope record` with these arguments makes.
    fn clrscope(name: impl Into<String>, arguments: &[&str]) -> Subject {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Subject::new(name, Recorder::Clrscope(arguments))
    }

    /// Records a window: with what is measured inside of it, the CPU time of who records, per
    /// second, and what the recording says.
    fn record(
        &self,
        target: &mut Target,
        options: &Options,
        interrupt: &Interrupt,
    ) -> Result<(Window, Option<f64>, Option<Stated>)> {
        let pid = target.pid();
        let mut measure = |observer: u32| -> Result<(Window, f64)> {
            target.window(SETTLE, interrupt)?;
            let (before, clock) = (cpu_seconds(observer)?, Instant::now());
            let window = target.window(options.seconds, interrupt)?;
            Ok((window, (cpu_seconds(observer)? - before) / clock.elapsed().as_secs_f64()))
        };
        match &self.recorder {
            Recorder::None => {
                let (window, _) = measure(std::process::id())?;
                Ok((window, None, None))
            }
            Recorder::Clrscope(arguments) => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let recording = Recording::start(pid, &arguments)?.settle()?;
                let (window, own) = measure(recording.pid())?;
                let recorded = recording.stop()?;
                let duration = recorded.number("duration_seconds")?;
                ensure!(
                    duration >= window.seconds,
                    "the recording of {duration:.1} s did not cover the window of {:.1} s; use a \
                        longer one: --seconds {}",
                    window.seconds,
                    options.seconds * 2
                );
                let engine = recorded.summary["engine"].as_str().unwrap_or_default();
                // The program names another engine than the one asked for with the reason.
                ensure!(
                    !(arguments.contains(&"--engine") && engine.contains(", because ")),
                    "{engine}"
                );
                ensure!(
                    engine.is_empty() || recorded.samples("cpu") > 0.0,
                    "no CPU sample was taken: {}",
                    recorded.summary
                );
                let stated = Stated {
                    cpu: recorded.number("target_cpu_seconds")? / duration,
                    paused: recorded.number("target_stopped_seconds")? / duration,
                };
                Ok((window, Some(own), Some(stated)))
            }
            Recorder::EventPipe => {
                let pipe = EventPipe::start_with(pid, cpu_sampling())?;
                // Its events are read, and dropped, in this process.
                let measured = measure(std::process::id());
                // Also after an error: a session that stays would be in all later windows.
                Box::new(pipe).end()?;
                let (window, own) = measured?;
                Ok((window, Some(own), None))
            }
        }
    }
}

/// The providers of dotnet-trace's profile `cpu-sampling`, its default for years: keywords and
/// levels as it prints them when it starts.
fn cpu_sampling() -> Vec<Provider> {
    vec![
        Provider::new("Microsoft-DotNETCore-SampleProfiler", 0xf000_0000_0000, 4),
        Provider::new(Provider::RUNTIME, 0x14_c14f_ccbd, 4),
    ]
}

/// The comparisons whose rows contain this text, or one of several with `|` between them, in
/// runtime, program and name, each with its noise; empty ones are left out.
fn wanted(engines: &[String], only: &str) -> Vec<Comparison> {
    let only = only.to_lowercase();
    let texts: Vec<&str> = only.split('|').map(str::trim).collect();
    let services = ROUTES.iter().map(|work| (WITH_ASP_NET, *work));
    let all =
        services.chain(sample_runtimes().into_iter().map(|runtime| (runtime, Work::HandOver)));
    let comparisons = all.filter_map(|(runtime, work)| {
        let mut comparison = Comparison { runtime, work, subjects: subjects(runtime, engines) };
        let name = comparison.name();
        let fits = |subject: &Subject| {
            let row = format!("{name}, {}", subject.name).to_lowercase();
            texts.iter().any(|text| row.contains(text))
        };
        if !comparison.subjects.iter().any(fits) {
            return None;
        }
        // What a figure is worth shows only beside the noise of the same rounds.
        comparison.subjects.retain(|subject| subject.recorder == Recorder::None || fits(subject));
        Some(comparison)
    });
    comparisons.collect()
}

/// Everything that is compared on a runtime.
fn subjects(runtime: Runtime, engines: &[String]) -> Vec<Subject> {
    let nothing = Subject { times: 2, ..Subject::new(NOISE, Recorder::None) };
    let mut all = vec![nothing];
    for rate in RATES.map(|rate| rate.to_string()) {
        all.push(Subject::clrscope(format!("default set, {rate} Hz"), &["--rate", &rate]));
    }
    for engine in engines {
        for rate in RATES.map(|rate| rate.to_string()) {
            let name = format!("cpu {engine}, {rate} Hz");
            all.push(Subject::clrscope(name, &["-p", "cpu", "--engine", engine, "--rate", &rate]));
        }
    }
    // What needs the main slot suspends the runtime for long, on purpose: `bench illness` measures
    // that.
    let beside =
        PROFILERS.iter().filter(|spec| spec.attach && !spec.needs_main_slot() && spec.id != "cpu");
    let known = beside.filter(|spec| spec.since <= runtime.major());
    all.extend(known.map(|spec| Subject::clrscope(spec.id, &["-p", spec.id])));
    all.push(Subject::new("EventPipe, cpu-sampling of dotnet-trace", Recorder::EventPipe));
    all
}

/// The engines that the program offers, without the choice that stands for one of them.
fn engines() -> Result<Vec<String>> {
    let mut command = Command::new(tool::clrscope());
    let help = tool::output(command.args(["record", "-h"]), HELP_LIMIT)?;
    engines_of(&help)
        .with_context(|| format!("`{}` lists no engines:\n{help}", tool::shown(&command)))
}

/// The values of `--engine` in a help text, whose lines may be broken anywhere.
fn engines_of(help: &str) -> Option<Vec<String>> {
    let text = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, option) = text.split_once("--engine <")?;
    let (values, _) = option.split_once("[possible values: ")?.1.split_once(']')?;
    Some(values.split(", ").filter(|value| *value != "auto").map(str::to_owned).collect())
}

/// What this machine takes to wake a thread and switch to it: a byte goes back and forth between
/// two threads.
fn switches() -> Result<String> {
    const ROUNDS: u32 = 5_000;
    const REPEATS: usize = 5;
    let (mut asked, mut ask) = pipe()?;
    let (mut answered, mut answer) = pipe()?;
    let echo = thread::spawn(move || -> std::io::Result<()> {
        let mut byte = [0];
        // It ends when the other side is closed.
        while asked.read(&mut byte)? > 0 {
            answer.write_all(&byte)?;
        }
        Ok(())
    });
    let mut each = Vec::new();
    for _ in 0..REPEATS {
        let begun = Instant::now();
        for _ in 0..ROUNDS {
            ask.write_all(&[0])?;
            answered.read_exact(&mut [0])?;
        }
        each.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(2 * ROUNDS));
    }
    drop(ask);
    echo.join().map_err(|_| anyhow::anyhow!("the thread that answers panicked"))??;
    Ok(format!(
        "a switch between two threads of a pipe {}",
        Distribution::of(each).with_quartiles("µs")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "\
      --rate <HZ>            CPU samples per second and running thread, 1 to 1000 [default: 100]
      --engine <ENGINE>      How to take CPU samples; auto is the best that the machine allows
                             [default: auto] [possible values: auto, kernel-ring, signals,
                             suspend-walk]
  -d, --duration <DURATION>  How long to record: 10s, 1m30s, 500ms
      --format <FORMAT>      Form [possible values: text, json]
";

    fn two_engines() -> Vec<String> {
        vec!["kernel-ring".into(), "signals".into()]
    }

    #[test]
    fn engines_come_from_the_program() {
        assert_eq!(engines_of(HELP).unwrap(), ["kernel-ring", "signals", "suspend-walk"]);
        assert_eq!(engines_of(&HELP.replace("--engine", "--motor")), None);
    }

    #[test]
    fn everything_that_runs_beside_a_service_is_compared() {
        let names = |runtime| {
            subjects(runtime, &two_engines()).into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        let on_9 = names(Runtime::V9);
        assert_eq!(
            on_9[..4],
            [
                "none again: noise",
                "default set, 100 Hz",
                "default set, 999 Hz",
                "cpu kernel-ring, 100 Hz"
            ]
        );
        let expected = [
            "wall",
            "exceptions",
            "gc",
            "allocations",
            "locks",
            "counters",
            "threads",
            "threadpool",
            "jit",
            "loads",
        ];
        assert!(expected.iter().all(|id| on_9.contains(&(*id).to_owned())), "{on_9:?}");
        assert!(
            !on_9.contains(&"heap".to_owned()) && !on_9.contains(&"calls".to_owned()),
            "{on_9:?}"
        );
        assert!(on_9.last().unwrap().starts_with("EventPipe"), "{on_9:?}");
        // `allocations` and `counters` need .NET 6.
        let on_3 = names(Runtime::V3_1);
        assert!(!on_3.contains(&"allocations".to_owned()), "{on_3:?}");
        assert!(!on_3.contains(&"counters".to_owned()), "{on_3:?}");
        let newer = |name: &&String| {
            PROFILERS.iter().any(|spec| spec.id == **name && spec.since > Runtime::V3_1.major())
        };
        let left_out = on_9.iter().filter(|name| !on_3.contains(name)).collect::<Vec<_>>();
        assert!(left_out.iter().all(newer), "{left_out:?}");
        assert!(on_3.iter().all(|name| on_9.contains(name)), "{on_3:?}");
    }

    #[test]
    fn rows_are_chosen_by_runtime_program_and_name() {
        let count = |only: &str| {
            let all = wanted(&two_engines(), only);
            (all.len(), all.iter().map(|comparison| comparison.subjects.len()).sum::<usize>())
        };
        let programs = 3 + sample_runtimes().len();
        assert_eq!(count("").0, programs);
        assert_eq!(count("/json").0, 1);
        assert_eq!(count("CPU signals"), (programs, 3 * programs));
        assert_eq!(count("9.0.5, hand-over, 2 pairs of threads, wall"), (1, 2));
        assert_eq!(count("/ok, 8 connections, none again"), (1, 1));
        assert_eq!(
            count("/json, 8 connections, wall | 9.0.5, hand-over, 2 pairs of threads, wall"),
            (2, 4)
        );
        assert_eq!(count("nothing of this kind"), (0, 0));
    }

    #[test]
    fn noise_has_its_windows_apart() {
        let subjects = subjects(Runtime::V9, &two_engines());
        let comparison = Comparison { runtime: Runtime::V9, work: Work::HandOver, subjects };
        let turns = comparison.turns();
        assert_eq!(turns.len(), comparison.subjects.len() + 1);
        assert_eq!((turns[0], *turns.last().unwrap()), (0, 0));
    }

    #[test]
    fn a_switch_takes_some_time() {
        assert!(switches().unwrap().contains(" µs ("));
    }
}
