//! One attempt at a cell: starts the target and clrscope, and strikes them as the cell says.

use super::judge::Outcome;
use super::{
    Attempt, LAUNCHED, LIMIT, LIMIT_AFTER_BLOW, NotMade, POLL, READY, Schedule, Verdict, WARM_UP,
};
use crate::harm::driver::{Driver, Ended};
use crate::harm::endings::{Blow, UNREAD};
use crate::harm::scene::{Live, find_below, is_alive, signal};
use crate::harm::state::{Before, State};
use crate::tool;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

impl Attempt<'_> {
    /// A launch after which the target was never found: a refusal says why, everything else is a
    /// failure.
    pub(super) fn refused_launch(&self, ended: &Ended, error: &anyhow::Error) -> Verdict {
        let said = ended.errors.iter().find(|line| line.starts_with("error: "));
        match (ended.status.and_then(|status| status.code()), said) {
            (Some(code), Some(why)) if self.may_refuse(code, why, true) => {
                Verdict::Refused(code, why.clone())
            }
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

    pub(super) fn attached(
        &mut self,
        driver: &Driver,
        blows: &[(u64, Blow)],
        like: Option<&Before>,
    ) -> Result<(Live, Outcome)> {
        let mut live = self.ready(driver)?;
        let before = before(live.target, &self.scene.tmp);
        let before = like.unwrap_or(&before);
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
                None if started.elapsed() > Duration::from_millis(1500)
                    && self.passes_on().is_none() =>
                {
                    break;
                }
                None if !is_alive(live.target) => break,
                None => {}
            }
            if Instant::now() > limit {
                let failure = match self.passes_on() {
                    Some(signal) => still_runs(signal),
                    None => {
                        format!("clrscope hangs: it still runs after {:.0?}", started.elapsed())
                    }
                };
                self.failures.push(failure);
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
        self.settle(&mut live, driver, schedule, before)?;
        Ok((live, outcome))
    }

    pub(super) fn launched(
        &mut self,
        driver: &Driver,
        blows: &[(u64, Blow)],
        before: &Before,
    ) -> Result<(Live, Outcome)> {
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
            // A blow before the program runs would be lost. A runtime that is starting loses
            // SIGTERM itself: it is asked to end when it works.
            let is_early = live.is_none() && self.passes_on().is_some();
            if let (Some(target), Some((at, blow))) = (early, blows.first().copied())
                && at <= Instant::now()
                && !is_early
            {
                blows.remove(0);
                self.strike(blow, &Live { target, clrscope: Some(driver.pid) }, driver);
                if blow == Blow::KillTarget {
                    end = Some(Instant::now());
                }
                if self.passes_on().is_some() {
                    end = Some(Instant::now() + LIMIT_AFTER_BLOW * self.patience);
                }
            }
            let is_gone = early.is_some_and(|target| !is_alive(target));
            let is_ended = self.passes_on().is_some() && blows.is_empty();
            if is_gone && (is_ended || live.is_none() && self.ends_target()) {
                break;
            }
            ensure!(live.is_some() || early.is_some() || !driver.is_over(), "the target never ran");
            ensure!(
                live.is_some() || Instant::now() < until,
                "the target was not ready within {READY:?}"
            );
            thread::sleep(POLL);
        }
        self.must_have_ended(early, driver);
        let mut live = match (live, early) {
            (Some(live), _) => live,
            (None, Some(target)) => Live { target, clrscope: None },
            (None, None) => bail!("the target never ran"),
        };
        self.settle(&mut live, driver, schedule, before)?;
        Ok((live, Outcome::Good))
    }

    /// A target that was asked to end, by a signal to its launch, has ended.
    fn must_have_ended(&mut self, target: Option<u32>, driver: &Driver) {
        if let (Some(signal), Some(target)) = (self.passes_on(), target)
            && is_alive(target)
        {
            self.failures.push(still_runs(signal));
            self.evidence(&Live { target, clrscope: Some(driver.pid) });
        }
    }

    pub(super) fn spawn(&mut self, pid: u32) -> Result<Child> {
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
        // A target that was launched is a zombie as long as clrscope is stopped.
        if self.ending.name == UNREAD
            && blow == Blow::Clrscope(Signal::CONT)
            && self.patience == 1
            && is_alive(live.target)
        {
            self.failures.push("the target waits for a clrscope that is stopped".into());
            self.evidence(live);
        }
        // Whoever is gone already cannot be hit.
        let _ = match blow {
            Blow::Clrscope(what) if !self.with && self.passes_on() == Some(what) => {
                signal(live.target, what)
            }
            Blow::Clrscope(what) => live.clrscope.map_or(Ok(()), |pid| signal(pid, what)),
            Blow::StopTarget => {
                driver.stop();
                Ok(())
            }
            Blow::KillTarget => signal(live.target, Signal::KILL),
        };
    }
}

/// What is wrong with a target that does not end when it is asked to.
fn still_runs(signal: Signal) -> String {
    format!("the target still runs after {signal:?}")
}

/// States of an undisturbed process, until they are steady.
pub(super) fn before(pid: u32, tmp: &Path) -> Before {
    let mut states: Vec<State> = Vec::new();
    let counts = |state: &State| (state.threads, state.all_descriptors());
    for _ in 0..WARM_UP {
        thread::sleep(Duration::from_millis(80));
        states.extend(State::of(pid, tmp));
        // Steady ones are ready soon; the others are looked at for as long as that takes.
        if let [.., a, b, c, d, e] = &states[..]
            && [a, b, c, d].iter().all(|other| counts(other) == counts(e))
        {
            break;
        }
    }
    Before::new(states)
}
