//! One recording after the other, in which a call fails, and what is wrong after each.

use super::held::{Held, MAY_STAY};
use super::works::{LONG, USUAL, Work};
use super::{
    AGENT, FILE, LIMIT, Options, PASSES, RECORDINGS, Row, SLOW, Site, Sites, TOGETHER,
    TOGETHER_TRIES, library, lock, out_of, said,
};
use crate::harm::evidence;
use crate::tool;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample, TargetProcess};

/// One profiler on one runtime.
pub(super) struct Cell<'a> {
    pub(super) options: &'a Options,
    pub(super) clrscope: &'a Path,
    pub(super) runtime: Runtime,
    pub(super) work: &'a Work,
    pub(super) done: &'a Mutex<Sites>,
    pub(super) met: &'a Mutex<Sites>,
    pub(super) failed: &'a Mutex<Sites>,
}

/// How long a recording of a running process takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Usual,
    Long,
}

/// How a run of clrscope ended.
pub(super) struct Ended {
    code: Option<i32>,
    pub(super) text: String,
}

impl Cell<'_> {
    pub(super) fn run(&self, row: &mut Row) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("fault");
        let mut target = None;
        let sites = self.sites(&file, &mut target, row)?;
        row.met = sites.len();
        let mut chosen = self.choose(sites);
        shuffle(&mut chosen, self.options.seed);
        chosen.truncate(self.options.most.unwrap_or(usize::MAX));
        let chosen = self.fail_each(chosen, &file, &mut target, row)?;
        let chosen = self.fail_together(chosen, &file, &mut target, row)?;
        row.missed = chosen.len();
        // Another profiler may come to them.
        for site in chosen {
            lock(self.done).remove(&(self.runtime.version(), site));
        }
        if let Some(target) = target.take() {
            finish(target)?;
        }
        Ok(())
    }

    /// The sites that recordings without faults come to.
    pub(super) fn sites(
        &self,
        file: &Path,
        target: &mut Option<TargetProcess>,
        row: &mut Row,
    ) -> Result<BTreeSet<Site>> {
        let mut sites = BTreeSet::new();
        // The second one knows what the first one has seen to be there, and the other way round.
        for _ in 0..2 {
            let ended = self.once("count", Length::Usual, file, target, row)?;
            ensure!(
                ended.code == Some(0),
                "the recording without faults failed: {:?} {}",
                ended.code,
                ended.text
            );
            sites.extend(said(file)?.sites);
        }
        Ok(sites)
    }

    /// Those that no other profiler has on this runtime so far, or all.
    fn choose(&self, sites: BTreeSet<Site>) -> Vec<Site> {
        let mut chosen = Vec::new();
        let mut done = lock(self.done);
        for site in sites {
            lock(self.met).insert((self.runtime.version(), site.clone()));
            if done.insert((self.runtime.version(), site.clone())) || self.options.all {
                chosen.push(site);
            }
        }
        chosen
    }

    /// Lets each site fail in a recording of its own. Returns those that none came to.
    fn fail_each(
        &self,
        mut chosen: Vec<Site>,
        file: &Path,
        target: &mut Option<TargetProcess>,
        row: &mut Row,
    ) -> Result<Vec<Site>> {
        let mut recordings = 0;
        for pass in 0..PASSES {
            let mut missed = Vec::new();
            for (number, site) in chosen.into_iter().enumerate() {
                if pass > 0 {
                    // What is done once in a process is done in a new one.
                    recordings = RECORDINGS;
                }
                if recordings >= RECORDINGS
                    && let Some(target) = target.take()
                    && let Err(error) = finish(target)
                {
                    row.bad.push(format!("before {}: {error:#}", site.function));
                }
                recordings %= RECORDINGS;
                let error = (number as u64).wrapping_add(self.options.seed) % 4;
                let sites = std::slice::from_ref(&site);
                if self.fail(sites, error, Length::Usual, file, target, row).is_none() {
                    missed.push(site);
                }
                recordings += 1;
                if row.bad.len() >= 12 {
                    bail!("no more is tried");
                }
            }
            chosen = missed;
        }
        Ok(chosen)
    }

    /// Lets sites that are rarely come to fail together, whichever of them comes first. Returns
    /// those that no recording came to.
    fn fail_together(
        &self,
        mut chosen: Vec<Site>,
        file: &Path,
        target: &mut Option<TargetProcess>,
        row: &mut Row,
    ) -> Result<Vec<Site>> {
        let mut tries = 0;
        while !chosen.is_empty() && tries < TOGETHER_TRIES {
            if let Some(target) = target.take()
                && let Err(error) = finish(target)
            {
                row.bad.push(format!("before sites that are rarely come to: {error:#}"));
            }
            let (error, together) = (tries as u64 % 4, chosen.len().min(TOGETHER));
            // Each of them comes among the first ones.
            chosen.rotate_left(together);
            // Half of the recordings are longer, so that more happens in them.
            let length = if tries % 2 == 0 { Length::Usual } else { Length::Long };
            match self.fail(&chosen[..together], error, length, file, target, row) {
                Some(hash) => {
                    chosen.retain(|site| site.hash != hash);
                    tries = 0;
                }
                None => tries += 1,
            }
            if row.bad.len() >= 12 {
                bail!("no more is tried");
            }
        }
        Ok(chosen)
    }

    /// One recording in which the first of these sites fails that it comes to; gives that one's
    /// hash.
    fn fail(
        &self,
        sites: &[Site],
        error: u64,
        length: Length,
        file: &Path,
        target: &mut Option<TargetProcess>,
        row: &mut Row,
    ) -> Option<String> {
        let hashes: Vec<&str> = sites.iter().map(|site| site.hash.as_str()).collect();
        let what = format!("site {error} {}", hashes.join(" "));
        let bad_before = row.bad.len();
        let ended = self.once(&what, length, file, target, row);
        let said = said(file).unwrap_or_default();
        // Where the process ended, nothing was said.
        let site = sites.iter().find(|site| site.hash == said.failed_site).or(sites.first())?;
        let context = format!("{} (site {error} {})", site.function, site.hash);
        for bad in row.bad.iter_mut().skip(bad_before) {
            *bad = format!("{context}: {bad}");
        }
        let reached = match ended {
            Err(error) => {
                row.bad.push(format!("{context}: {error:#}"));
                true
            }
            Ok(_) if said.failed == 0 => false,
            Ok(ended) => {
                row.failed += 1;
                lock(self.failed).insert((self.runtime.version(), site.clone()));
                match ended.code {
                    Some(0) => row.worked += 1,
                    Some(_) if !ended.text.trim().is_empty() => row.refused += 1,
                    code => row
                        .bad
                        .push(format!("{context}: clrscope ended with {code:?} and said nothing")),
                }
                if ended.text.contains("panicked") {
                    row.bad.push(format!("{context}: {}", ended.text.trim()));
                }
                true
            }
        };
        if row.bad.len() > bad_before {
            // What comes next starts anew.
            *target = None;
        }
        reached.then(|| site.hash.clone())
    }

    /// One recording, with what the agent is to do.
    fn once(
        &self,
        what: &str,
        length: Length,
        file: &Path,
        target: &mut Option<TargetProcess>,
        row: &mut Row,
    ) -> Result<Ended> {
        let _ = fs::remove_file(out_of(file));
        fs::write(file, what)?;
        let session = file.with_extension("clrscope");
        let mut command = Command::new(self.clrscope);
        command.env(AGENT, library());
        let launch = Sample::named("steady")
            .launch::<&str>(self.runtime, &[])
            .env(FILE, file)
            .env(AGENT, library());
        if self.work.launched {
            let arguments = self.work.arguments.iter().map(|argument| match *argument {
                "OUT" => session.clone().into_os_string(),
                other => other.into(),
            });
            let prefix = std::iter::once(self.clrscope.as_os_str().to_owned()).chain(arguments);
            let mut command = launch.under(prefix).command();
            let ended = ended(&mut command, None)?;
            // 125 is clrscope's own error: the program ran without it.
            ensure!(
                matches!(ended.code, Some(0 | 125)),
                "the program under clrscope ended with {:?}: {}",
                ended.code,
                ended.text.trim()
            );
            ensure!(ended.text.contains("\"wrong\":0}"), "wrong results: {}", ended.text.trim());
            return Ok(ended);
        }
        let process = match target {
            Some(process) => process,
            None => {
                let mut process = launch.try_start()?;
                process.wait_for_line(Duration::from_secs(60), |line| line == "ready")?;
                target.insert(process)
            }
        };
        let pid = process.pid();
        let before = Held::of(pid);
        for argument in &self.work.arguments {
            match *argument {
                "PID" => command.arg(pid.to_string()),
                "OUT" => command.arg(&session),
                USUAL if length == Length::Long => command.arg(LONG),
                other => command.arg(other),
            };
        }
        let ended = ended(&mut command, Some(pid));
        if !process.is_running() {
            let status = process.wait(LIMIT);
            let text = process.transcript();
            let clrscope = ended.map(|ended| ended.text).unwrap_or_default();
            bail!(
                "THE PROCESS ENDED ({status:?}): {} / {}",
                text.trim().replace('\n', " | "),
                clrscope.trim()
            );
        }
        let ended = ended?;
        if let Some(left) = before.left(pid, self.work.stays) {
            row.bad.push(format!("{left} (clrscope: {:?} {})", ended.code, brief(&ended.text)));
        }
        row.bad.extend(held_at_unload(file));
        Ok(ended)
    }
}

/// What the agent still held when its library was unloaded, if anything.
fn held_at_unload(file: &Path) -> Option<String> {
    let said = said(file).ok().filter(|said| said.unloaded)?;
    let held: Vec<String> = said
        .held
        .iter()
        .filter(|(name, held)| **held != 0 && !MAY_STAY.contains(&name.as_str()))
        .map(|(name, held)| format!("{held} {name}"))
        .collect();
    (!held.is_empty()).then(|| format!("unloaded while it held {}", held.join(", ")))
}

/// The beginning of what clrscope wrote, in one line.
fn brief(text: &str) -> String {
    text.trim().chars().map(|c| if c == '\n' { '|' } else { c }).take(200).collect()
}

/// Lets the program end, and checks what it computed.
fn finish(mut process: TargetProcess) -> Result<()> {
    process.close_stdin();
    let line = process.wait_for_line(Duration::from_secs(30), |line| line.starts_with('{'))?;
    ensure!(line.ends_with("\"wrong\":0}"), "wrong results: {line}");
    let status = process.wait(Duration::from_secs(10));
    // Where it hangs, before it is killed.
    let status = status.map_err(|error| error.context(evidence::of(process.pid())))?;
    ensure!(status.success(), "the program ended with {status}");
    Ok(())
}

/// Runs clrscope to its end. Where it hangs, what it and the `target` do then is kept.
pub(super) fn ended(command: &mut Command, target: Option<u32>) -> Result<Ended> {
    let text = tempfile::tempfile()?;
    let child =
        command.stdin(Stdio::null()).stdout(text.try_clone()?).stderr(text.try_clone()?).spawn();
    let code = wait(child.context("cannot start clrscope")?, target);
    let mut text = text;
    let mut written = String::new();
    std::io::Seek::rewind(&mut text)?;
    std::io::Read::read_to_string(&mut text, &mut written)?;
    let code = code.with_context(|| format!("it has written {:?}", brief(&written)))?;
    Ok(Ended { code, text: written })
}

fn wait(mut child: Child, target: Option<u32>) -> Result<Option<i32>> {
    let started = Instant::now();
    let kept = tool::target_folder().join(format!("faults/slow-{}.txt", child.id()));
    let mut is_slow = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if started.elapsed() > SLOW && !is_slow {
            is_slow = true;
            let both = [Some(child.id()), target].into_iter().flatten().map(evidence::of);
            fs::write(&kept, both.collect::<String>())
                .with_context(|| kept.display().to_string())?;
        }
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            bail!("clrscope hung for {} s; where is in {}", LIMIT.as_secs(), kept.display());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The same order for the same seed (Fisher-Yates with xorshift).
fn shuffle(sites: &mut [Site], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for last in (1..sites.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sites.swap(last, (state % (last as u64 + 1)) as usize);
    }
}
