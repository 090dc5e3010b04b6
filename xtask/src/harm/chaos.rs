//! `cargo xtask harm --chaos MINUTES`: random actions, ended at random moments and in random ways,
//! on one target for each runtime that works all the time.

use super::actions::{Action, Given};
use super::cell::Bench;
use super::driver::{self, Driver, Ended};
use super::endings::{Blow, Ending};
use super::evidence;
use super::random::Random;
use super::scene::{find_below, is_alive, signal};
use super::state::State;
use super::table::{Table, runtime_name};
use super::targets::{Target, Work};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use testkit::Runtime;

/// What samples do meanwhile, chosen by the seed. `gcstress` is not among them: it uses 0.4 to 1.4
/// GB by itself, so that its growth says nothing.
const MODES: &[&str] = &["exceptions", "churn20", "collectible", "async", "nre"];

/// How much more resident memory may be used in the last part of the time than in the first, at
/// least: programs that allocate use more and less by themselves. The growth of the same program
/// without clrscope does not count, nor does a step that does not go on: in .NET 9 one more region
/// of the managed heap is 4 MB.
const GROWTH: i64 = 5 << 20;

/// Actions after which memory is measured for the first time, at least: caches of the runtime and
/// of the agent are full then.
const WARM: usize = 15;

/// How long that takes besides: this part of the whole, and no longer than so. Each kind of action
/// has run by then.
const WARM_PART: u32 = 6;
const WARM_TIME: Duration = Duration::from_secs(600);

/// What is traced: one method. The runtime keeps each version of a rewritten method, so that memory
/// grows by all that are traced.
const TRACED: (&str, &str) =
    ("Clrscope.Samples.HarmTarget.Mix", "System.Text.Json.Utf8JsonWriter.Flush");

/// How often it says how far it has come.
const NEWS: Duration = Duration::from_secs(300);

/// Which runtimes run at the same time.
const RUNTIMES: [Runtime; 4] = [Runtime::V3_1, Runtime::V8, Runtime::V9, Runtime::V10];

/// What one action may take.
const LIMIT: Duration = Duration::from_secs(30);

/// After so many actions in a row for which the target does not answer, it hangs.
const UNANSWERED: usize = 3;

/// Actions that the evidence of a hang names.
const LAST_ACTIONS: usize = 20;

/// What clrscope says of a target that does not answer.
const NO_ANSWER: &str = "timed out";

/// What became of one target.
struct Ran {
    runtime: Runtime,
    target: &'static str,
    actions: usize,
    endings: BTreeMap<&'static str, usize>,
    /// How often each exit code came, and what clrscope said when it came last.
    codes: BTreeMap<String, (usize, String)>,
    /// What it said last.
    said: String,
    hangs: Vec<String>,
    units: u64,
    growth: Option<Growth>,
    /// Growth of the same program with the same work and without clrscope.
    alone: Option<Growth>,
    libraries: usize,
    failure: Option<String>,
}

impl Ran {
    fn new(runtime: Runtime, target: &'static str) -> Self {
        Self {
            runtime,
            target,
            actions: 0,
            endings: BTreeMap::new(),
            codes: BTreeMap::new(),
            said: String::new(),
            hangs: Vec::new(),
            units: 0,
            growth: None,
            alone: None,
            libraries: 0,
            failure: None,
        }
    }

    /// Counts an action by the exit code of clrscope, which wrote to `stderr` in a folder.
    fn count(&mut self, code: Result<String>, action: &Action, ending: &Ending, folder: &Path) {
        let code = code.unwrap_or_else(|error| format!("{error:#}"));
        if code == "hang" {
            self.hangs.push(format!("{} {}", action.name, ending.name));
        }
        let (count, said) = self.codes.entry(code).or_default();
        *count += 1;
        *said = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        self.said.clone_from(said);
        *self.endings.entry(ending.name).or_insert(0) += 1;
        self.actions += 1;
    }

    /// Says how far it has come.
    fn tell(&self, elapsed: Duration, resident: &[u64], alone: &[u64]) {
        let minutes = elapsed.as_secs() / 60;
        let [megabytes, beside] = [resident, alone].map(|sizes| sizes.last().unwrap_or(&0) >> 20);
        println!(
            "after {minutes} min: {} {}, {} actions, {} hangs, {megabytes} MB, twin {beside} MB",
            runtime_name(self.runtime),
            self.target,
            self.actions,
            self.hangs.len()
        );
    }
}

/// Whether the target still answers, by what clrscope says of it.
#[derive(Default)]
struct Answers {
    /// The last actions.
    actions: VecDeque<String>,
    /// Actions in a row without an answer.
    missing: usize,
}

impl Answers {
    /// An action is over. Whether it shows that the target hangs: so many had no answer.
    fn note(&mut self, action: &Action, ending: &Ending, said: &str) -> bool {
        self.actions.push_back(format!("{} {}: {}", action.name, ending.name, said.trim()));
        if self.actions.len() > LAST_ACTIONS {
            self.actions.pop_front();
        }
        self.missing = if said.contains(NO_ANSWER) { self.missing + 1 } else { 0 };
        self.missing == UNANSWERED
    }

    fn shown(&self) -> String {
        Vec::from_iter(self.actions.iter().map(String::as_str)).join("\n")
    }
}

/// Runs chaos on 3.1, 8, 9 and 10 at the same time, or on those that `only` names; its other words
/// choose actions by a part of their names.
///
/// # Errors
/// When a target fails, computes something else, or grows; or when an action hangs.
pub fn run(bench: &Bench, table: &Table, minutes: f64, only: &str, seed: u64) -> Result<()> {
    println!("harm: chaos for {minutes} minutes, seed {seed}");
    let length = Duration::from_secs_f64(minutes * 60.0);
    let (wanted, only): (Vec<&str>, Vec<&str>) = only
        .split_whitespace()
        .partition(|word| RUNTIMES.iter().any(|&runtime| runtime_name(runtime) == *word));
    let is_wanted = |runtime: &Runtime| {
        wanted.is_empty() || wanted.iter().any(|word| *word == runtime_name(*runtime))
    };
    let runtimes: Vec<Runtime> = RUNTIMES.into_iter().filter(is_wanted).collect();
    let count = runtimes.len();
    let only = &only;
    if let Some(word) =
        only.iter().find(|&&word| !table.actions.iter().any(|action| action.name.contains(word)))
    {
        bail!("\"{word}\" is neither a runtime of the chaos run nor a part of an action's name");
    }
    let ran: Vec<Result<Ran>> = thread::scope(|scope| {
        let start = |(index, runtime)| {
            scope.spawn(move || {
                let ran =
                    one(bench, table, runtime, length, only, Random::new(seed.wrapping_add(index)));
                // The others continue for as long as an hour.
                ran.inspect_err(|error| {
                    println!("{} could not be run: {error:#}", runtime_name(runtime))
                })
            })
        };
        let threads: Vec<_> = (0..).zip(runtimes).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .collect()
    });
    let mut failed = 0;
    println!(
        "\n\
            | runtime | target | actions | units of work | growth (later) | without clrscope | libraries | hangs | failure |\n|---|---|--:|--:|--:|--:|--:|--:|---|"
    );
    for ran in ran {
        let ran = ran?;
        let [growth, alone] =
            [ran.growth, ran.alone].map(|growth| growth.map_or("·".to_owned(), Growth::shown));
        let grown = ran.growth.is_some_and(|growth| growth.is_leak(ran.alone.unwrap_or_default()));
        let bad = ran.failure.is_some() || grown || !ran.hangs.is_empty() || ran.libraries > 2;
        failed += usize::from(bad);
        println!(
            "| {} | {} | {} | {} | {growth} | {alone} | {} | {} | {} |",
            runtime_name(ran.runtime),
            ran.target,
            ran.actions,
            ran.units,
            ran.libraries,
            ran.hangs.len(),
            ran.failure.as_deref().unwrap_or("none"),
        );
        println!("  endings {:?}", ran.endings);
        for (code, (count, said)) in &ran.codes {
            println!(
                "  exit code {code}: {count}, such as {:?}",
                said.lines().last().unwrap_or_default()
            );
        }
        ran.hangs.iter().for_each(|hang| println!("  hang: {hang}"));
    }
    if failed > 0 {
        bail!("chaos harmed {failed} of {count} targets");
    }
    Ok(())
}

fn one(
    bench: &Bench,
    table: &Table,
    runtime: Runtime,
    length: Duration,
    only: &[&str],
    mut random: Random,
) -> Result<Ran> {
    let wanted = |target: &&Target| match target.work {
        Work::Sample(mode) => runtime.runs_samples() && MODES.contains(&mode),
        Work::App => !runtime.runs_samples(),
    };
    let targets: Vec<&Target> = table.targets.iter().filter(wanted).collect();
    let target = *random.of(&targets).context("no target")?;
    let folder = tempfile::Builder::new().prefix("harm-").tempdir_in("/var/tmp")?;
    let tmp = folder.path().join("t");
    fs::create_dir(&tmp)?;
    let start = || start(bench, target, runtime, length, &tmp);
    // Programs grow by themselves: azmcp for hours, and others by some megabytes at a time.
    let (twin, twin_pid) = start()?;
    let (driver, pid) = start()?;
    let begun = Instant::now();
    let possible = |action: &&Action| {
        let is_named = only.is_empty() || only.iter().any(|&word| action.name.contains(word));
        is_named && !action.launches && action.since <= runtime.major()
    };
    let actions: Vec<&Action> = table.actions.iter().filter(possible).collect();
    let endings: Vec<&Ending> =
        table.endings.iter().filter(|ending| !ending.ends_target()).collect();
    let mut ran = Ran::new(runtime, target.name);
    let (mut resident, mut alone) = (Vec::new(), Vec::new());
    let (mut news, mut warm) = (NEWS, WARM);
    let hang_file = bench.hang_file(&format!("chaos {} {}", runtime_name(runtime), target.name));
    // That of an earlier run, as a rule there is none.
    let _ = fs::remove_file(&hang_file);
    let mut answers = Answers::default();
    while begun.elapsed() < length && is_alive(pid) && !driver.is_over() {
        let (Some(action), Some(ending)) = (random.of(&actions), random.of(&endings)) else {
            break;
        };
        let blows = (ending.blows)(&mut random);
        let code = act(bench, target, action, &blows, pid, folder.path(), &hang_file);
        ran.count(code, action, ending, folder.path());
        if answers.note(action, ending, &ran.said) {
            append(&hang_file, &format!("{}\n{}", answers.shown(), evidence::of(pid)))?;
            ran.hangs.push(format!("the target, see {}", hang_file.display()));
        }
        if let Some(state) = State::of(pid, &tmp) {
            ran.libraries = ran.libraries.max(state.libraries.len());
            resident.push(state.resident);
        }
        if let Some(state) = State::of(twin_pid, &tmp) {
            alone.push(state.resident);
        }
        if begun.elapsed() < WARM_TIME.min(length / WARM_PART) {
            warm = warm.max(resident.len());
        }
        if begun.elapsed() >= news {
            news += NEWS;
            ran.tell(begun.elapsed(), &resident, &alone);
        }
    }
    (ran.growth, ran.alone) = (Growth::of(&resident, warm), Growth::of(&alone, warm));
    twin.wait()?;
    let died = !is_alive(pid);
    let ended = driver.wait()?;
    if let Some(hang) = &ended.hang {
        append(&hang_file, &format!("{}\n{hang}", answers.shown()))?;
    }
    ran.units = ended.units;
    ran.failure = failure(ended, died);
    Ok(ran)
}

/// Starts a target and waits until it works. Returns its process id as well, below its launcher.
fn start(
    bench: &Bench,
    target: &Target,
    runtime: Runtime,
    length: Duration,
    tmp: &Path,
) -> Result<(Driver, u32)> {
    let launch = driver::launch(target, runtime, length.as_secs() + 300);
    let driver = Driver::start(
        target.work,
        launch.env("TMPDIR", tmp).env("LD_LIBRARY_PATH", &bench.native),
    )?;
    let begun = Instant::now();
    while !driver.is_ready() && !driver.is_over() && begun.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(20));
    }
    let pid = find_below(driver.pid, &fs::canonicalize(runtime.executable())?)?;
    Ok((driver, pid))
}

/// Why a target failed, if it did.
fn failure(ended: Ended, died: bool) -> Option<String> {
    let wrong = ended.wrong.or_else(|| {
        let right = ended.status.is_some_and(|status| status.success());
        (!right).then(|| format!("it ended with {:?}", ended.status))
    });
    wrong.or_else(|| died.then(|| "it died".into())).map(|why| {
        format!(
            "{} ({:?}) {}",
            why.lines().next().unwrap_or_default(),
            ended.status,
            ended.errors.join(" / ")
        )
    })
}

/// Adds to what is kept of a hang.
fn append(file: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    Ok(file.write_all(text.as_bytes())?)
}

/// How much the least resident memory of the last quarter of the time exceeds that of an earlier
/// one, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Growth {
    /// Of the first.
    whole: i64,
    /// Of the second.
    late: i64,
}

impl Growth {
    /// `None` where too few actions were counted.
    fn of(resident: &[u64], warm: usize) -> Option<Growth> {
        let warm = resident.get(warm..)?;
        let length = warm.len() / 4;
        let least = |part: &[u64]| part.iter().min().map(|least| *least as i64);
        let first = least(warm.get(..length)?)?;
        let second = least(warm.get(length..2 * length)?)?;
        let last = least(warm.get(warm.len() - length..)?)?;
        Some(Growth { whole: last - first, late: last - second })
    }

    /// Whether it exceeds that of the same program without clrscope by too much, and continues.
    fn is_leak(self, alone: Growth) -> bool {
        let whole = self.whole - alone.whole.max(0);
        let late = self.late - alone.late.max(0);
        // Two of the three quarters.
        whole > GROWTH && late > GROWTH * 2 / 3
    }

    fn shown(self) -> String {
        let megabytes = |bytes: i64| bytes as f64 / 1_048_576.0;
        format!("{:.1} MB ({:.1})", megabytes(self.whole), megabytes(self.late))
    }
}

/// One action; gives its exit code, in words.
fn act(
    bench: &Bench,
    target: &Target,
    action: &Action,
    blows: &[(u64, Blow)],
    pid: u32,
    folder: &Path,
    hang_file: &Path,
) -> Result<String> {
    let output = folder.join("chaos.clrscope").display().to_string();
    let pid = pid.to_string();
    let length = if blows.is_empty() { "500ms" } else { "3s" };
    let pattern = if target.work == Work::App { TRACED.1 } else { TRACED.0 };
    let given = Given { pid: &pid, length, output: &output, pattern };
    let mut command = Command::new(&bench.clrscope);
    command.args(action.arguments(&given)).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child =
        command.stderr(File::create(folder.join("stderr"))?).env("TMPDIR", folder).spawn()?;
    let started = Instant::now();
    let mut blows = blows.iter();
    let mut next = blows.next();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().map_or_else(|| status.to_string(), |code| code.to_string()));
        }
        if let Some((at, Blow::Clrscope(what))) = next
            && started.elapsed() >= Duration::from_millis(*at)
        {
            // It may have ended in this moment.
            let _ = signal(child.id(), *what);
            next = blows.next();
        }
        if started.elapsed() > LIMIT {
            append(hang_file, &format!("{command:?}\n{}", evidence::of(child.id())))?;
            child.kill()?;
            child.wait()?;
            return Ok("hang".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_comes_and_goes_has_not_grown() {
        let up_and_down: Vec<u64> = (0..100).map(|action| 100 + action % 7).collect();
        assert_eq!(Growth::of(&up_and_down, WARM), Some(Growth { whole: 0, late: 0 }));
        let leaking: Vec<u64> = (0..WARM as u64 + 40).collect();
        assert_eq!(Growth::of(&leaking, WARM), Some(Growth { whole: 30, late: 20 }));
        assert_eq!(Growth::of(&up_and_down[..WARM], WARM), None);
    }

    #[test]
    fn a_leak_goes_on() {
        let of = |size: fn(u64) -> u64| {
            Growth::of(&(0..400).map(|action| size(action) << 10).collect::<Vec<_>>(), 0).unwrap()
        };
        let (leaks, step) = (of(|action| 20 * action), of(|action| 7000 * u64::from(action > 90)));
        assert!(leaks.is_leak(Growth::default()) && !leaks.is_leak(leaks), "{leaks:?}");
        assert!(step.whole > GROWTH && !step.is_leak(Growth::default()), "{step:?}");
    }
}
