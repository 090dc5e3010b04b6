//! What is checked when clrscope has ended: its result, the state of the target, and what is left.

use super::{Attempt, DEAD, INTERRUPTED_TWICE, LIMIT, POLL, SETTLE, Schedule};
use crate::harm::driver::{Driver, Ended};
use crate::harm::endings::UNREAD;
use crate::harm::evidence;
use crate::harm::refusals::{BUSY_MACHINE, GONE, is_right};
use crate::harm::scene::{Live, is_alive};
use crate::harm::state::{Before, Budget, Leftover, State, files_of_ours};
use crate::harm::targets::Work;
use anyhow::{Result, ensure};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

impl Attempt<'_> {
    /// After clrscope: undoes what stops or slows the target, and waits until nothing is left in
    /// it.
    pub(super) fn settle(
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
        if self.ends_target() {
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
            Some(Some(code)) if self.may_refuse(code, &said, false) => {}
            Some(code) => self
                .failures
                .push(format!("the next recording ended with {code:?}: {}", said.trim())),
            None => self.failures.push("the next recording hangs".into()),
        }
        Ok(())
    }

    /// What is to be said of how clrscope ended.
    pub(super) fn outcome(&mut self, status: Option<ExitStatus>) -> Outcome {
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
        let sent = match self.ending.is_sudden() {
            true => Some(Signal::KILL),
            false => self.ending.polite(),
        };
        if let Some(number) = status.signal() {
            // Before it listens to them, the others end it as they end any program.
            if sent.is_none_or(|signal| signal.as_raw() != number) {
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
            "target-stops" | "target-killed" | UNREAD => &[3, 5],
            _ => &[],
        };
        match code {
            0 => Outcome::Good,
            _ if self.action.good.contains(&code) || of_ending.contains(&code) => Outcome::Good,
            _ if !self.ending.is_natural() && self.action.interrupted.contains(&code) => {
                Outcome::Good
            }
            _ if self.may_refuse(code, &said, self.action.launches) => Outcome::Refused(code, said),
            _ => {
                self.failures.push(format!(
                    "clrscope ended with {code}, and nothing here is a reason for that: {}",
                    errors.trim().replace('\n', " / ")
                ));
                Outcome::Good
            }
        }
    }

    /// Whether the circumstances of this cell are a reason to refuse in this way.
    pub(super) fn may_refuse(&self, code: i32, said: &str, launched: bool) -> bool {
        let conditions = self.conditions.iter().flat_map(|condition| condition.refusals);
        let of_ending = if self.ends_target() { GONE } else { &[] };
        is_right(conditions.chain(BUSY_MACHINE).chain(of_ending), code, said, launched)
    }

    /// The target's own end, compared with one without clrscope.
    /// Gives what clrscope said of a launch, where that is a refusal.
    pub(super) fn judge(&mut self, ended: &Ended, truth: i64) -> Option<Outcome> {
        let launched = self.with && self.action.launches;
        if self.ending.name == "target-killed" {
            return None;
        }
        if let Some(signal) = self.passes_on() {
            return self.ended_by(signal, ended);
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
        if let (true, Some(code), Some(why)) =
            (launched, ended.status.and_then(|status| status.code()), said)
            && self.may_refuse(code, why, true)
        {
            return Some(Outcome::Refused(code, why.clone()));
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

    /// A launch was asked to end, and its target with it: it ends as it would by itself, with the
    /// exit code of the signal, unless it was ready with its work before.
    fn ended_by(&mut self, signal: Signal, ended: &Ended) -> Option<Outcome> {
        let number = signal.as_raw();
        let code = ended.status.and_then(|status| status.code());
        let said = ended.errors.iter().find(|line| line.starts_with("error: "));
        if let (Some(code), Some(why)) = (code, said)
            && self.may_refuse(code, why, true)
        {
            return Some(Outcome::Refused(code, why.clone()));
        }
        let right = ended.status.is_some_and(|status| {
            status.success()
                || status.code() == Some(128 + number)
                || status.signal() == Some(number)
        });
        if !right {
            self.failures.push(format!(
                "{DEAD}: it ended with {} instead of signal {number}: {}",
                shown(ended.status),
                ended.errors.join(" / ")
            ));
        }
        None
    }

    /// What is left in folders when all is over.
    pub(super) fn files(&mut self) {
        let mut left: BTreeSet<String> = files_of_ours(&self.scene.tmp);
        if self.action.launches && self.conditions.iter().any(|condition| condition.keeps_files) {
            left.clear();
        }
        left.retain(|name| !self.scene.planted.contains(name));
        left.extend(files_of_ours(&self.scene.own_tmp));
        if !left.is_empty() {
            self.failures.push(format!("left: files {left:?}"));
        }
    }

    /// Writes down where a process died, target or clrscope, that left a core file.
    pub(super) fn cores(&mut self) {
        let clrscope = self.bench.clrscope.as_path();
        for (folder, executable, who) in [
            (&self.scene.home, self.scene.executable.as_path(), "target"),
            (&self.scene.own_tmp, clrscope, "clrscope"),
        ] {
            let kept = self.bench.core_file(&self.name, who);
            if let Some(text) = evidence::of_core(folder, executable, &kept) {
                let _ = writeln!(self.log, "{text}");
            }
        }
    }

    /// Keeps what shows where something hangs.
    pub(super) fn evidence(&mut self, live: &Live) {
        let text: String =
            [Some(live.target), live.clrscope].into_iter().flatten().map(evidence::of).collect();
        self.keep(&text);
    }

    pub(super) fn keep(&mut self, text: &str) {
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
pub(super) enum Outcome {
    Good,
    Refused(i32, String),
}

pub(super) fn shown(status: Option<ExitStatus>) -> String {
    status.map_or("no end".into(), |status| status.to_string())
}
