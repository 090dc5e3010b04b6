//! Runs one cell, and judges it.

use super::actions::{Action, Given};
use super::conditions::Condition;
use super::driver::{self, Driver, Ended};
use super::endings::{Blow, Ending};
use super::evidence;
use super::random::Random;
use super::scene::{Live, Scene, Step, find_below, is_alive, signal};
use super::state::{Before, Budget, Growth, Leftover, State, files_of_ours};
use super::table::{Cell, Table};
use super::targets::{Target, Work};
use crate::tool;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use testkit::Runtime;

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
    /// What each target computes, without clrscope.
    truths: Mutex<HashMap<(Runtime, &'static str), i64>>,
}

impl Bench {
    /// Nothing is known yet.
    pub fn new(clrscope: PathBuf, native: PathBuf, evidence: PathBuf) -> Bench {
        Bench { clrscope, native, evidence, truths: Mutex::default() }
    }

    /// What a target computes on a runtime without clrscope.
    ///
    /// # Errors
    /// When it does not live even so.
    fn truth(&self, target: &Target, runtime: Runtime) -> Result<i64> {
        let key = (runtime, target.name);
        if let Some(unit) = self.truths.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(*unit);
        }
        let launch = driver::launch(target, runtime, SECONDS)
            .env("LD_LIBRARY_PATH", &self.native)
            .private_tmp();
        let driver = Driver::start(target.work, launch)?;
        let until = Instant::now() + READY;
        while !driver.is_ready() && !driver.is_over() && Instant::now() < until {
            thread::sleep(POLL);
        }
        let ended = driver.wait()?;
        ensure!(ended.wrong.is_none(), "without clrscope: {:?}", ended.wrong);
        ensure!(
            ended.status.is_some_and(|status| status.success()),
            "without clrscope: {:?}",
            ended.status
        );
        self.truths.lock().unwrap_or_else(PoisonError::into_inner).insert(key, ended.unit);
        Ok(ended.unit)
    }

    /// Where the evidence of a hang is kept.
    pub fn hang_file(&self, name: &str) -> PathBuf {
        self.evidence.join(format!("{}.hang", name.replace([' ', '/'], "_")))
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
        let verdict = attempt.run(truth, blows)?;
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

/// One half of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// With clrscope.
    With,
    /// Without, looked at for at least so long.
    Without(Duration),
}

/// What was seen in an attempt.
struct Seen {
    verdict: Verdict,
    /// What was left over, which is not in the verdict.
    left: Vec<Leftover>,
    /// Without clrscope: by how much the target grew.
    growth: Growth,
    /// From when the state before was known until there was no use in waiting any longer.
    lasted: Duration,
}

/// The verdict on what failed, by what the target does without clrscope: that is not clrscope's,
/// the rest is. Of one that dies by itself all is. Gives also what was left over and is explained.
fn weigh(reasons: Vec<String>, left: Vec<Leftover>, without: Seen) -> (Verdict, Vec<Leftover>) {
    let same = match &without.verdict {
        Verdict::Failed(same) => same.as_slice(),
        _ => &[],
    };
    let dies = same.iter().any(|reason| is_death(reason));
    // What is no matter of numbers is the same if it is there at all.
    let same_kind = |leftover: &Leftover| {
        !without.growth.contains_key(&leftover.what)
            && without.left.iter().any(|other| other.what == leftover.what)
    };
    let (explained, unexplained): (Vec<_>, Vec<_>) = left.into_iter().partition(|leftover| {
        dies || leftover.is_explained(&without.growth) || same_kind(leftover)
    });
    let ours = |reason: &String| !dies && !same.iter().any(|other| kind(other) == kind(reason));
    let mut rest: Vec<String> = reasons.into_iter().filter(ours).collect();
    rest.extend(unexplained.iter().map(Leftover::to_string));
    let verdict = if !rest.is_empty() {
        Verdict::Failed(rest)
    } else if same.is_empty() {
        let grown: Vec<_> = explained.iter().map(Leftover::to_string).collect();
        Verdict::Unfit(format!("without clrscope it grows as much: {}", grown.join("; ")))
    } else {
        Verdict::Unfit(format!("without clrscope: {}", same.join("; ")))
    };
    (verdict, explained)
}

/// Whether a failure says that the target did not come to its own end.
fn is_death(reason: &str) -> bool {
    reason.starts_with(DEAD)
}

/// What a failure is about: its text up to where details begin.
fn kind(reason: &str) -> String {
    let end = reason.find(['{', '(', '[']).unwrap_or(reason.len());
    reason[..end].chars().filter(|c| !c.is_ascii_digit()).collect()
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
    fn command(&self, pid: &str) -> Vec<String> {
        let length =
            if self.ending.is_natural() || self.action.launches { LENGTH.0 } else { LENGTH.1 };
        let output = self.scene.output.display().to_string();
        self.action.arguments(&Given { pid, length, output: &output, pattern: self.target.pattern })
    }

    fn run(&mut self, truth: i64, blows: Vec<(u64, Blow)>) -> Result<Verdict> {
        let launched = self.with && self.action.launches;
        let mut prefix = self.scene.prefix()?;
        if launched {
            let mut own = vec![self.bench.clrscope.display().to_string()];
            own.extend(self.command(""));
            prefix.splice(0..0, own);
        }
        let mut launch =
            driver::launch(self.target, self.runtime, SECONDS).env("TMPDIR", &self.scene.tmp);
        launch = launch.env("LD_LIBRARY_PATH", &self.bench.native);
        for (name, value) in &self.scene.env {
            launch = launch.env(name, value);
        }
        let launch = if prefix.is_empty() { launch } else { launch.under(prefix) };
        let _ = writeln!(self.log, "{:?}", launch.command());
        let driver = Driver::start(self.target.work, launch)?;
        let result =
            if launched { self.launched(&driver, &blows) } else { self.attached(&driver, &blows) };
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
        let outcome = self.judge(&ended, truth).unwrap_or(outcome);
        if let Some(text) = &ended.hang {
            self.keep(text);
        }
        drop_process(live.target);
        let _ = writeln!(self.log, "{ended:#?}\n{outcome:#?}");
        self.files();
        Ok(match (std::mem::take(&mut self.failures), outcome) {
            (failures, _) if !failures.is_empty() || !self.left.is_empty() => {
                Verdict::Failed(failures)
            }
            (_, Outcome::Refused(code, why)) => Verdict::Refused(code, why),
            _ => Verdict::Passed,
        })
    }

    /// A launch after which the target was never found: a refusal says why, everything else is a
    /// failure.
    fn refused_launch(&self, ended: &Ended, error: &anyhow::Error) -> Verdict {
        let said = ended.errors.iter().find(|line| line.starts_with("error: "));
        match (ended.status.and_then(|status| status.code()), said) {
            (Some(code @ (2 | 4 | 7 | 125)), Some(why)) => Verdict::Refused(code, why.clone()),
            (code, _) => Verdict::Failed(vec![format!(
                "{error:#}; the launch ended with {code:?} ({:?}): {}",
                ended.status,
                ended.errors.join(" / ")
            )]),
        }
    }

    /// Waits until the target works, finds it, and sets up what needs it.
    fn ready(&mut self, driver: &Driver) -> Result<Live> {
        let until = Instant::now() + READY * self.patience;
        while !driver.is_ready() {
            ensure!(!driver.is_over(), "the target ended before it was ready");
            ensure!(Instant::now() < until, "the target was not ready within {READY:?}");
            thread::sleep(POLL);
        }
        self.found(driver)
    }

    fn found(&mut self, driver: &Driver) -> Result<Live> {
        let live = Live { target: find_below(driver.pid, &self.scene.executable)?, clrscope: None };
        for step in std::mem::take(&mut self.scene.ready) {
            step(&live)?;
        }
        Ok(live)
    }

    fn attached(&mut self, driver: &Driver, blows: &[(u64, Blow)]) -> Result<(Live, Outcome)> {
        let mut live = self.ready(driver)?;
        let before = self.before(live.target);
        // What happens before it comes is nothing that clrscope did.
        ensure!(
            is_alive(live.target) && !driver.is_over(),
            "the target ended before clrscope came"
        );
        self.compared = Instant::now();
        let mut schedule = Schedule { steps: Vec::new() };
        let started = Instant::now();
        schedule.add(std::mem::take(&mut self.scene.meanwhile), started);
        let mut child = if self.with { Some(self.spawn(live.target)?) } else { None };
        live.clrscope = child.as_ref().map(Child::id);
        let mut blows: Vec<(Instant, Blow)> =
            blows.iter().map(|(ms, blow)| (started + Duration::from_millis(*ms), *blow)).collect();
        let mut limit = started + LIMIT * self.patience;
        let mut status = None;
        loop {
            let wrong = schedule.due(&live, false);
            ensure!(wrong.is_empty(), "{}", wrong.join("; "));
            while let Some((at, blow)) = blows.first().copied()
                && at <= Instant::now()
            {
                blows.remove(0);
                self.strike(blow, &live, driver);
                limit = Instant::now() + LIMIT_AFTER_BLOW * self.patience;
            }
            match &mut child {
                Some(child) => {
                    status = child.try_wait()?;
                    if status.is_some() {
                        break;
                    }
                }
                None if started.elapsed() > Duration::from_millis(1500) => break,
                None => {}
            }
            if Instant::now() > limit {
                self.failures
                    .push(format!("clrscope hangs: it still runs after {:.0?}", started.elapsed()));
                self.evidence(&live);
                break;
            }
            thread::sleep(POLL);
        }
        if let Some(child) = &mut child {
            // Only where it hangs.
            let _ = child.kill();
            let _ = child.wait();
        }
        for (_, blow) in blows {
            if matches!(blow, Blow::KillTarget | Blow::StopTarget) {
                self.strike(blow, &live, driver);
            }
        }
        let outcome = self.outcome(status);
        self.settle(&mut live, driver, schedule, &before)?;
        Ok((live, outcome))
    }

    fn launched(&mut self, driver: &Driver, blows: &[(u64, Blow)]) -> Result<(Live, Outcome)> {
        let started = Instant::now();
        let mut schedule = Schedule { steps: Vec::new() };
        let mut blows: Vec<(Instant, Blow)> =
            blows.iter().map(|(ms, blow)| (started + Duration::from_millis(*ms), *blow)).collect();
        let mut live: Option<Live> = None;
        let mut early = None;
        let until = started + READY * self.patience;
        let mut end = None;
        while end.is_none_or(|end| Instant::now() < end) || !blows.is_empty() {
            if live.is_none() && driver.is_ready() {
                let mut found = match early {
                    // Clrscope may be gone: its former child is nobody's below it.
                    Some(target) => Live { target, clrscope: None },
                    None => Live {
                        target: find_below(driver.pid, &self.scene.executable)?,
                        clrscope: None,
                    },
                };
                found.clrscope = Some(driver.pid).filter(|pid| is_alive(*pid));
                for step in std::mem::take(&mut self.scene.ready) {
                    step(&found).context(NotMade)?;
                }
                schedule.add(std::mem::take(&mut self.scene.meanwhile), Instant::now());
                end = Some(Instant::now() + LAUNCHED * self.patience);
                live = Some(found);
            }
            if let Some(live) = &live {
                let wrong = schedule.due(live, false);
                if !wrong.is_empty() {
                    return Err(anyhow::Error::msg(wrong.join("; ")).context(NotMade));
                }
            }
            if early.is_none() {
                early = find_below(driver.pid, &self.scene.executable).ok();
            }
            // A blow before the program runs would hit nobody.
            if let (Some(target), Some((at, blow))) = (early, blows.first().copied())
                && at <= Instant::now()
            {
                blows.remove(0);
                self.strike(blow, &Live { target, clrscope: Some(driver.pid) }, driver);
                if blow == Blow::KillTarget {
                    end = Some(Instant::now());
                }
            }
            if live.is_none()
                && self.ending.ends_target()
                && early.is_some_and(|target| !is_alive(target))
            {
                break;
            }
            ensure!(live.is_some() || early.is_some() || !driver.is_over(), "the target never ran");
            ensure!(
                live.is_some() || Instant::now() < until,
                "the target was not ready within {READY:?}"
            );
            thread::sleep(POLL);
        }
        let mut live = match (live, early) {
            (Some(live), _) => live,
            (None, Some(target)) => Live { target, clrscope: None },
            (None, None) => bail!("the target never ran"),
        };
        self.settle(&mut live, driver, schedule, &Before::new(Vec::new()))?;
        Ok((live, Outcome::Good))
    }

    fn before(&self, pid: u32) -> Before {
        let mut states: Vec<State> = Vec::new();
        let counts = |state: &State| (state.threads, state.all_descriptors());
        for _ in 0..WARM_UP {
            thread::sleep(Duration::from_millis(80));
            states.extend(State::of(pid, &self.scene.tmp));
            // Steady ones are ready soon; the others are looked at for as long as that takes.
            if let [.., a, b, c, d, e] = &states[..]
                && [a, b, c, d].iter().all(|other| counts(other) == counts(e))
            {
                break;
            }
        }
        Before::new(states)
    }

    fn spawn(&mut self, pid: u32) -> Result<Child> {
        let mut command = Command::new(&self.bench.clrscope);
        command
            .args(self.command(&pid.to_string()))
            .env("TMPDIR", &self.scene.own_tmp)
            .stdin(Stdio::null());
        command.current_dir(&self.scene.own_tmp);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CLRSCOPE_") && name != "CLRSCOPE_CACHE" {
                command.env_remove(name);
            }
        }
        command
            .stdout(File::create(self.scene.path("stdout"))?)
            .stderr(File::create(self.scene.path("stderr"))?);
        let _ = writeln!(self.log, "{}", tool::shown(&command));
        Ok(command.spawn()?)
    }

    fn strike(&mut self, blow: Blow, live: &Live, driver: &Driver) {
        let _ = writeln!(self.log, "{blow:?}");
        // Whoever is gone already cannot be hit.
        let _ = match blow {
            Blow::Clrscope(what) => live.clrscope.map_or(Ok(()), |pid| signal(pid, what)),
            Blow::StopTarget => {
                driver.stop();
                Ok(())
            }
            Blow::KillTarget => signal(live.target, Signal::KILL),
        };
    }

    /// After clrscope: undoes what stops or slows the target, and waits until nothing is left in
    /// it.
    fn settle(
        &mut self,
        live: &mut Live,
        driver: &Driver,
        mut schedule: Schedule,
        before: &Before,
    ) -> Result<()> {
        if !live.clrscope.is_some_and(is_alive) {
            live.clrscope = None;
        }
        let wrong = schedule.due(live, true);
        for step in std::mem::take(&mut self.scene.done) {
            if let Err(error) = step(live) {
                let _ = writeln!(self.log, "afterwards: {error:#}");
            }
        }
        if is_alive(live.target) {
            ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        }
        if self.ending.ends_target() {
            return Ok(());
        }
        if self.with && self.left_in_haste {
            self.again(live)?;
        }
        let launched = self.with && self.action.launches;
        let files = usize::from(launched && live.clrscope.is_some());
        let stays = if self.with && self.action.stays { Budget::RESIDENT } else { Budget::NONE };
        let budget = Budget { files, ..stays };
        let (until, units) = (Instant::now() + SETTLE * self.patience, driver.units());
        let mut left = Vec::new();
        loop {
            if let Some(mut after) = State::of(live.target, &self.scene.tmp) {
                let foreign = self.scene.foreign_signals;
                left = before.leftovers(&after, budget, foreign);
                // Looking into memory takes its time.
                if !self.with || left.iter().any(Leftover::is_mapping) {
                    after = after.without_known(live.target, self.with && self.action.traces());
                    left = before.leftovers(&after, budget, foreign);
                }
                if !self.with {
                    before.growth(&after, &mut self.growth);
                }
            } else if driver.is_over() || !is_alive(live.target) {
                // The judge says that it died.
                return Ok(());
            }
            let goes_on = driver.units() > units;
            let enough = self.compared.elapsed() >= self.lasts;
            if (left.is_empty() && goes_on && enough) || (enough && Instant::now() > until) {
                if !goes_on {
                    self.failures.push("the target does no work any more".into());
                    self.evidence(live);
                }
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.lasts = self.compared.elapsed();
        self.left = left;
        for check in std::mem::take(&mut self.scene.checks) {
            self.failures.extend(check(live));
        }
        Ok(())
    }

    /// After clrscope was killed the next one works, and removes what that could not.
    fn again(&mut self, live: &Live) -> Result<()> {
        let mut command = Command::new(&self.bench.clrscope);
        command.args(["record", &live.target.to_string(), "-q", "-p", "gc", "-d", "100ms", "-o"]);
        // Where the killed one had its temporary files.
        let tmp = if self.action.launches { &self.scene.tmp } else { &self.scene.own_tmp };
        command.arg(self.scene.path("again.clrscope")).env("TMPDIR", tmp);
        let file = self.scene.path("again");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&file)?);
        let mut child = command.spawn()?;
        let until = Instant::now() + LIMIT * self.patience;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break Some(status),
                None if Instant::now() > until => break None,
                None => thread::sleep(POLL),
            }
        };
        if status.is_none() {
            self.evidence(&Live { target: live.target, clrscope: Some(child.id()) });
            child.kill()?;
            child.wait()?;
        }
        let said = fs::read_to_string(&file).unwrap_or_default();
        let _ = writeln!(self.log, "the next one: {status:?} {said}");
        match status.map(|status| status.code()) {
            Some(Some(0)) => {}
            Some(Some(4 | 7)) if !self.plain() => {}
            Some(Some(code))
                if self.conditions.iter().any(|condition| condition.good.contains(&code)) => {}
            Some(code) => self
                .failures
                .push(format!("the next recording ended with {code:?}: {}", said.trim())),
            None => self.failures.push("the next recording hangs".into()),
        }
        Ok(())
    }

    /// What is to be said of how clrscope ended.
    fn outcome(&mut self, status: Option<ExitStatus>) -> Outcome {
        if !self.with {
            return Outcome::Good;
        }
        let read = |name: &str| fs::read_to_string(self.scene.path(name)).unwrap_or_default();
        let (out, errors) = (read("stdout"), read("stderr"));
        let _ = writeln!(
            self.log,
            "clrscope: {status:?}\n{}\n{errors}",
            out.chars().take(2000).collect::<String>()
        );
        // A hang has been reported already.
        let Some(status) = status else { return Outcome::Good };
        let said =
            errors.lines().find(|line| line.starts_with("error: ")).unwrap_or_default().to_owned();
        let sent: &[Signal] = match self.ending.name {
            "killed" => &[Signal::KILL],
            "ctrl-c" | "ctrl-c-twice" => &[Signal::INT],
            "sigterm" => &[Signal::TERM],
            "hangup" => &[Signal::HUP],
            _ => &[],
        };
        if let Some(number) = status.signal() {
            // Before it listens to them, the others end it as they end any program.
            if !sent.iter().any(|signal| signal.as_raw() == number) {
                self.failures.push(format!("clrscope was ended by signal {number}"));
            }
            return Outcome::Good;
        }
        let code = status.code().unwrap_or(-1);
        self.left_in_haste |= code == INTERRUPTED_TWICE;
        let of_ending: &[i32] = match self.ending.name {
            // A process that hardly answers is not waited for.
            "sigterm" | "hangup" if self.patience > 1 => &[5, INTERRUPTED_TWICE],
            "ctrl-c" | "sigterm" | "hangup" => &[5],
            "ctrl-c-twice" => &[5, INTERRUPTED_TWICE],
            "target-stops" | "target-killed" => &[3, 5],
            _ => &[],
        };
        let of_conditions =
            || self.conditions.iter().any(|condition| condition.good.contains(&code));
        match code {
            0 => Outcome::Good,
            _ if self.action.good.contains(&code) || of_ending.contains(&code) => Outcome::Good,
            _ if !self.ending.is_natural() && self.action.interrupted.contains(&code) => {
                Outcome::Good
            }
            4 | 7 if !said.is_empty() && self.plain() && self.ending.is_natural() => {
                self.failures.push(format!("clrscope refused without a reason to: {said}"));
                Outcome::Good
            }
            4 if self.ending.ends_target() && !said.is_empty() => Outcome::Good,
            4 | 7 if !said.is_empty() => Outcome::Refused(code, said),
            _ if of_conditions() && !said.is_empty() => Outcome::Refused(code, said),
            _ => {
                self.failures.push(format!(
                    "clrscope ended with {code}: {}",
                    errors.trim().replace('\n', " / ")
                ));
                Outcome::Good
            }
        }
    }

    fn plain(&self) -> bool {
        self.conditions.iter().all(|condition| condition.name == super::conditions::NONE)
    }

    /// The target's own end, compared with one without clrscope.
    /// Gives what clrscope said of a launch, where that is a refusal.
    fn judge(&mut self, ended: &Ended, truth: i64) -> Option<Outcome> {
        let launched = self.with && self.action.launches;
        if self.ending.name == "target-killed" {
            return None;
        }
        if let Some(wrong) = &ended.wrong {
            let fared = self
                .scene
                .memory
                .as_ref()
                .map_or_else(String::new, |group| format!("; {}", group.fared()));
            self.failures.push(format!(
                "{DEAD}: {} ({}){fared}",
                wrong.lines().next().unwrap_or_default(),
                shown(ended.status)
            ));
            return None;
        }
        if ended.unit != truth {
            self.failures.push(format!("the target computed {} instead of {truth}", ended.unit));
        }
        let said = ended.errors.iter().find(|line| line.starts_with("error: "));
        if let (true, Some(125), Some(why)) =
            (launched, ended.status.and_then(|status| status.code()), said)
            && !self.plain()
        {
            return Some(Outcome::Refused(125, why.clone()));
        }
        let sudden = launched && self.ending.is_sudden();
        let right = ended
            .status
            .is_some_and(|status| status.success() || sudden && status.signal() == Some(9));
        if !right {
            self.failures.push(format!(
                "{DEAD}: it ended with {} instead of 0: {}",
                shown(ended.status),
                ended.errors.join(" / ")
            ));
        }
        if !launched && matches!(self.target.work, Work::Sample(_)) && !ended.errors.is_empty() {
            self.failures.push(format!("the target wrote {:?}", ended.errors));
        }
        if launched
            && ended
                .errors
                .iter()
                .any(|line| line.contains("internal error") || line.contains("panicked"))
        {
            self.failures.push(format!("clrscope: {}", ended.errors.join(" / ")));
        }
        None
    }

    /// What is left in folders when all is over.
    fn files(&mut self) {
        let mut left: BTreeSet<String> = files_of_ours(&self.scene.tmp);
        if self.action.launches && self.conditions.iter().any(|condition| condition.keeps_files) {
            left.clear();
        }
        left.extend(files_of_ours(&self.scene.own_tmp));
        if !left.is_empty() {
            self.failures.push(format!("left: files {left:?}"));
        }
    }

    /// Keeps what shows where something hangs.
    fn evidence(&mut self, live: &Live) {
        let text: String =
            [Some(live.target), live.clrscope].into_iter().flatten().map(evidence::of).collect();
        self.keep(&text);
    }

    fn keep(&mut self, text: &str) {
        let file = self.bench.hang_file(&self.name);
        // Clrscope may hang first, and then the target. Evidence that cannot be kept is in nobody's
        // way.
        let _ = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&file)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        let _ = writeln!(self.log, "evidence: {}", file.display());
    }
}

/// How clrscope ended, where that is right.
#[derive(Debug)]
enum Outcome {
    Good,
    Refused(i32, String),
}

fn shown(status: Option<ExitStatus>) -> String {
    status.map_or("no end".into(), |status| status.to_string())
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
