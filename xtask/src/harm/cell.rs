//! Runs one cell, and judges it.

mod judge;
mod ledger;
mod run;
mod weigh;

use super::actions::{Action, Given};
use super::conditions::Condition;
use super::driver::{self, Driver};
use super::endings::{Blow, Ending};
use super::random::Random;
use super::scene::{Live, Scene, Step, is_alive, signal};
use super::state::{Before, Growth, Leftover};
use super::table::{Cell, Table};
use super::targets::Target;
use anyhow::{Context, Result, ensure};
use judge::Outcome;
use rustix::process::Signal;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};
use testkit::Runtime;
use weigh::{Part, Seen, is_death, weigh};

/// How long clrscope works where it has an end of its own, and where it is ended before.
const LENGTH: (&str, &str) = ("700ms", "3s");

/// How long a launched target is left alone after that: clrscope detaches meanwhile.
const LAUNCHED: Duration = Duration::from_millis(1500);

/// What a target may take until it works.
const READY: Duration = Duration::from_secs(30);

/// What clrscope may take, before it counts as hanging: until its own end, and after it was asked
/// to end.
const LIMIT: Duration = Duration::from_secs(25);
const LIMIT_AFTER_BLOW: Duration = Duration::from_secs(12);

/// How long it may take until nothing is left, after clrscope is gone.
const SETTLE: Duration = Duration::from_secs(6);

/// When a target ends by itself at the latest, so that none stays behind.
const SECONDS: u64 = 300;

/// How often the target is looked at before clrscope comes, at most: the runtime makes threads of
/// its own for a second.
const WARM_UP: usize = 16;

/// A folder without files of clrscope's.
const NO_FOLDER: &str = "/nonexistent";

/// Exit code of clrscope when it was interrupted twice, or could not end in order after a polite
/// signal.
const INTERRUPTED_TWICE: i32 = 130;

/// How a failure begins that says that the target did not come to its own end.
const DEAD: &str = "the target died, or went wrong";

/// How often at most a target that died is watched without clrscope: one that dies by itself does
/// not do so each time.
const CONTROLS: usize = 6;

const POLL: Duration = Duration::from_millis(10);

/// What a cell came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The target was unharmed, nothing was left, and clrscope did what it should.
    Passed,
    /// The same, but clrscope refused: exit code and message.
    Refused(i32, String),
    /// What was wrong.
    Failed(Vec<String>),
    /// The circumstances themselves could not be made, or the target does not live in them without
    /// clrscope.
    Unfit(String),
}

/// What everything runs with.
pub struct Bench {
    /// The program under test.
    pub clrscope: PathBuf,
    /// Folder of the native library.
    pub native: PathBuf,
    /// Folder of evidence.
    pub evidence: PathBuf,
    /// What each target computes, and what there is of it, without clrscope.
    truths: Mutex<HashMap<(Runtime, &'static str), Truth>>,
}

/// A target without clrscope.
#[derive(Clone)]
struct Truth {
    /// What it computes in each unit of its work.
    unit: i64,
    /// Its state some time after its start, as that of a target that clrscope has launched.
    launched: Before,
}

impl Bench {
    /// Nothing is known yet.
    pub fn new(clrscope: PathBuf, native: PathBuf, evidence: PathBuf) -> Bench {
        Bench { clrscope, native, evidence, truths: Mutex::default() }
    }

    /// What a target does on a runtime without clrscope.
    ///
    /// # Errors
    /// When it does not live even so.
    fn truth(&self, target: &Target, runtime: Runtime) -> Result<Truth> {
        let key = (runtime, target.name);
        if let Some(truth) = self.truths.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(truth.clone());
        }
        let launch = driver::launch(target, runtime, SECONDS)
            .env("LD_LIBRARY_PATH", &self.native)
            .private_tmp();
        let driver = Driver::start(target.work, launch)?;
        let until = Instant::now() + READY;
        while !driver.is_ready() && !driver.is_over() && Instant::now() < until {
            thread::sleep(POLL);
        }
        let launched = run::before(driver.pid, Path::new(NO_FOLDER)).of_others();
        let ended = driver.wait()?;
        ensure!(ended.wrong.is_none(), "without clrscope: {:?}", ended.wrong);
        ensure!(
            ended.status.is_some_and(|status| status.success()),
            "without clrscope: {:?}",
            ended.status
        );
        let truth = Truth { unit: ended.unit, launched };
        self.truths.lock().unwrap_or_else(PoisonError::into_inner).insert(key, truth.clone());
        Ok(truth)
    }

    /// Where the evidence of a hang is kept.
    pub fn hang_file(&self, name: &str) -> PathBuf {
        self.evidence.join(format!("{}.hang", name.replace([' ', '/'], "_")))
    }

    /// Where the core file of a process of a cell is kept.
    fn core_file(&self, name: &str, who: &str) -> PathBuf {
        self.evidence.join(format!("{}_{who}.core", name.replace([' ', '/'], "_")))
    }

    /// Runs a cell with this seed. What fails is run once more without clrscope: where that fails
    /// as well, the cell is unfit.
    pub fn run(&self, table: &Table, cell: &Cell, seed: u64) -> (Verdict, String) {
        let mut log = String::new();
        // That of an earlier run, as a rule there is none.
        let _ = fs::remove_file(self.hang_file(&table.shown(cell)));
        let (verdict, left) = match self.attempt(table, cell, seed, Part::With, &mut log) {
            Ok(Seen { verdict: Verdict::Failed(reasons), left, lasted, .. }) => {
                let controls =
                    if reasons.iter().any(|reason| is_death(reason)) { CONTROLS } else { 1 };
                match self.control(table, cell, seed, lasted, controls, &mut log) {
                    Ok(without) => weigh(reasons, left, without),
                    Err(error) => {
                        (Verdict::Unfit(format!("without clrscope: {error:#}")), Vec::new())
                    }
                }
            }
            Ok(seen) => (seen.verdict, Vec::new()),
            Err(error) => (Verdict::Unfit(format!("{error:#}")), Vec::new()),
        };
        for leftover in left {
            let _ = writeln!(log, "the target has as much more of it by itself: {leftover}");
        }
        (verdict, log)
    }

    /// The same without clrscope, up to `times` times, until the target dies.
    fn control(
        &self,
        table: &Table,
        cell: &Cell,
        seed: u64,
        lasted: Duration,
        times: usize,
        log: &mut String,
    ) -> Result<Seen> {
        let mut time = 1;
        loop {
            let _ = writeln!(log, "\n== the same without clrscope, {time} of {times}");
            let seen = self.attempt(table, cell, seed, Part::Without(lasted), log)?;
            let died = matches!(&seen.verdict, Verdict::Failed(reasons) if reasons.iter().any(|reason| is_death(reason)));
            if died || time == times {
                return Ok(seen);
            }
            time += 1;
        }
    }

    fn attempt(
        &self,
        table: &Table,
        cell: &Cell,
        seed: u64,
        part: Part,
        log: &mut String,
    ) -> Result<Seen> {
        let runtime = table.runtimes[cell[0]];
        let target = &table.targets[cell[1]];
        let truth = self.truth(target, runtime)?;
        let conditions = [&table.conditions[cell[2]], &table.conditions[cell[3]]];
        let executable = fs::canonicalize(runtime.executable())?;
        let mut random = Random::new(seed);
        let blows = (table.endings[cell[5]].blows)(&mut random);
        let mut scene = Scene::new(
            random,
            target.name,
            executable,
            self.native.clone(),
            self.clrscope.clone(),
        )?;
        for condition in conditions {
            (condition.apply)(&mut scene)
                .with_context(|| format!("{} cannot be set up", condition.name))?;
        }
        let action = &table.actions[cell[4]];
        let patience = conditions
            .iter()
            .map(|condition| condition.patience)
            .max()
            .unwrap_or(1)
            .max(action.patience);
        let mut attempt = Attempt {
            bench: self,
            runtime,
            target,
            conditions,
            action,
            ending: &table.endings[cell[5]],
            with: part == Part::With,
            patience,
            scene,
            failures: Vec::new(),
            left: Vec::new(),
            growth: Growth::new(),
            compared: Instant::now(),
            lasts: if let Part::Without(lasts) = part { lasts } else { Duration::ZERO },
            left_in_haste: table.endings[cell[5]].is_sudden(),
            log,
            name: table.shown(cell),
        };
        let verdict = attempt.run(&truth, blows)?;
        let Attempt { left, growth, lasts: lasted, .. } = attempt;
        Ok(Seen { verdict, left, growth, lasted })
    }
}

/// The circumstances could not be made: whatever else happens then, says nothing of clrscope.
#[derive(Debug)]
struct NotMade;

impl std::fmt::Display for NotMade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the circumstances could not be made")
    }
}

/// One run of a cell.
struct Attempt<'a> {
    bench: &'a Bench,
    runtime: Runtime,
    target: &'a Target,
    conditions: [&'a Condition; 2],
    action: &'a Action,
    ending: &'a Ending,
    /// Whether clrscope takes part.
    with: bool,
    patience: u32,
    scene: Scene,
    failures: Vec<String>,
    /// What there is more of than there may be.
    left: Vec<Leftover>,
    /// Without clrscope: by how much the target grew.
    growth: Growth,
    /// When the state before was known.
    compared: Instant,
    /// How long it is looked at from then on: without clrscope as long as it was with it.
    lasts: Duration,
    /// Whether clrscope had no time to clean up.
    left_in_haste: bool,
    log: &'a mut String,
    name: String,
}

/// What is still to be done, soonest first.
struct Schedule {
    steps: Vec<(Instant, Step)>,
}

impl Schedule {
    fn add(&mut self, steps: Vec<(u64, Step)>, from: Instant) {
        self.steps
            .extend(steps.into_iter().map(|(ms, step)| (from + Duration::from_millis(ms), step)));
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// Does what is due; gives what went wrong.
    fn due(&mut self, live: &Live, everything: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        while self.steps.first().is_some_and(|(at, _)| everything || *at <= Instant::now()) {
            let (_, step) = self.steps.remove(0);
            if let Err(error) = step(live) {
                wrong.push(format!("{error:#}"));
            }
        }
        wrong
    }
}

impl Attempt<'_> {
    /// Whether the target ends before its work is done: a launch passes signals on.
    fn ends_target(&self) -> bool {
        self.ending.ends_target() || self.passes_on().is_some()
    }

    /// The signal that a launch passes on to the target; without clrscope it is sent there.
    fn passes_on(&self) -> Option<Signal> {
        self.ending.polite().filter(|_| self.action.launches)
    }

    fn command(&self, pid: &str) -> Vec<String> {
        let length =
            if self.ending.is_natural() || self.action.launches { LENGTH.0 } else { LENGTH.1 };
        let output = self.scene.output.display().to_string();
        self.action.arguments(&Given { pid, length, output: &output, pattern: self.target.pattern })
    }

    fn run(&mut self, truth: &Truth, blows: Vec<(u64, Blow)>) -> Result<Verdict> {
        let launched = self.with && self.action.launches;
        let mut prefix = self.scene.prefix()?;
        if launched {
            let mut own = vec![self.bench.clrscope.display().to_string()];
            own.extend(self.command(""));
            prefix.splice(0..0, own);
        }
        let mut launch =
            driver::launch(self.target, self.runtime, SECONDS).env("TMPDIR", &self.scene.tmp);
        // A core file lies where the process ran that died.
        launch = launch.current_dir(&self.scene.home);
        launch = launch.env("LD_LIBRARY_PATH", &self.bench.native);
        for (name, value) in &self.scene.env {
            launch = launch.env(name, value);
        }
        let launch = if prefix.is_empty() { launch } else { launch.under(prefix) };
        let _ = writeln!(self.log, "{:?}", launch.command());
        let driver = Driver::start(self.target.work, launch)?;
        let before = self.action.launches.then_some(&truth.launched);
        let result = match before {
            Some(before) if launched => self.launched(&driver, &blows, before),
            _ => self.attached(&driver, &blows, before),
        };
        // Whatever happened, the target is released and comes to its end within limits.
        driver.stop();
        let (live, outcome) = match result {
            Ok(done) => done,
            Err(error) => {
                let _ = signal(driver.pid, Signal::KILL);
                let ended = driver.wait()?;
                let _ = writeln!(self.log, "{error:#}\n{ended:#?}");
                // A launch that clrscope refuses never starts anything.
                if launched && !error.is::<NotMade>() {
                    return Ok(self.refused_launch(&ended, &error));
                }
                return Err(error);
            }
        };
        let ended = driver.wait()?;
        let outcome = self.judge(&ended, truth.unit).unwrap_or(outcome);
        if let Some(text) = &ended.hang {
            self.keep(text);
        }
        drop_process(live.target);
        let _ = writeln!(self.log, "{ended:#?}\n{outcome:#?}");
        self.cores();
        self.files();
        self.ledger();
        Ok(match (std::mem::take(&mut self.failures), outcome) {
            (failures, _) if !failures.is_empty() || !self.left.is_empty() => {
                Verdict::Failed(failures)
            }
            (_, Outcome::Refused(code, why)) => Verdict::Refused(code, why),
            _ => Verdict::Passed,
        })
    }
}

/// A target that clrscope launched and that did not end is nobody's child.
fn drop_process(pid: u32) {
    let until = Instant::now() + Duration::from_secs(2);
    while is_alive(pid) && Instant::now() < until {
        thread::sleep(POLL);
    }
    if is_alive(pid) && Path::new(&format!("/proc/{pid}")).exists() {
        let _ = signal(pid, Signal::KILL);
    }
}
