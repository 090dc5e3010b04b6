//! `cargo xtask faults`: makes every allocation and system call of the agent fail, one call site
//! after the other, in real processes.
//!
//! A build of the agent with the feature `fault-injection` counts its call sites in an ordinary
//! recording. Then each site is made to fail once, in a recording of its own. After each the
//! process must run on, its results must be right, clrscope must have ended with a result or an
//! error that says why, and nothing may be left in the process. A site that several profilers share
//! fails under the first of them that comes to it again, unless `--all` is given.

use crate::tool::{self, cargo};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample, TargetProcess, source_root};

/// The variable that the agent reads; see `faults.rs` of crate `agent`.
const FILE: &str = "CLRSCOPE_FAULT_FILE";
/// The variable by which clrscope takes another agent than its own.
const AGENT: &str = "CLRSCOPE_AGENT";
/// How long a recording with a fault in it may take. A process that is out of memory waits for some
/// five seconds.
const LIMIT: Duration = Duration::from_secs(45);
/// After this number of recordings a process is ended in order, and its results are checked: after
/// sixteen snapshots of the heap the agent becomes resident.
const RECORDINGS: usize = 12;
/// How often a site is tried that a recording did not come to, from the second time on in a process
/// of its own.
const PASSES: usize = 3;
/// Sites that are still left then fail together, at most this number at a time: the first one of
/// them that a recording comes to. The second number of recordings in turn that come to none ends
/// it.
const TOGETHER: usize = 64;
const TOGETHER_TRIES: usize = 8;
/// What may be held as the library goes: threads that still run keep their alternate stacks.
const MAY_STAY: &[&str] = &["alternate stacks"];
/// Runs at a time.
const AT_ONCE: usize = 2;
/// Where the results stand in docs/reliability.md.
const BEGIN: &str = "<!-- faults: written by `cargo xtask faults --write` -->\n";
const END: &str = "<!-- faults end -->";

/// What to run.
#[derive(clap::Args)]
pub struct Options {
    /// Only this profiler, as the first column of the table names it; may be given more than once
    #[arg(long)]
    profiler: Vec<String>,
    /// Only this runtime: 3.1, 8.0 or 9.0
    #[arg(long)]
    runtime: Vec<String>,
    /// At most this number of faults for each profiler and runtime, chosen by the seed
    #[arg(long)]
    most: Option<usize>,
    /// Let each site fail under every profiler that has it
    #[arg(long)]
    all: bool,
    /// Chooses the faults where not all are wanted, and the errors
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the table into docs/reliability.md
    #[arg(long)]
    write: bool,
    /// Take the programs that an earlier run has built
    #[arg(long)]
    built: bool,
}

/// A way to use the agent.
struct Work {
    name: &'static str,
    /// Arguments of clrscope; `PID` is replaced, `OUT` is a file.
    arguments: &'static [&'static str],
    launched: bool,
    /// Whether the agent stays in the process for the next recording.
    stays: bool,
}

const fn attached(name: &'static str, arguments: &'static [&'static str]) -> Work {
    Work { name, arguments, launched: false, stays: false }
}

const fn launched(name: &'static str, arguments: &'static [&'static str]) -> Work {
    Work { name, arguments, launched: true, stays: false }
}

macro_rules! record {
    ($list:literal $(, $more:literal)*) => {
        &["record", "PID", "-q", "-d", "300ms", "-o", "OUT", "-p", $list $(, $more)*]
    };
}

const WORKS: &[Work] = &[
    attached("cpu by signals", record!("cpu", "--engine", "signals")),
    attached("cpu by walks", record!("cpu", "--engine", "suspend-walk")),
    attached("wall", record!("wall")),
    attached("exceptions", record!("exceptions")),
    attached("gc", record!("gc")),
    attached("allocations", record!("allocations")),
    attached("locks", record!("locks")),
    attached("counters", record!("counters")),
    attached("threads", record!("threads")),
    attached("threadpool", record!("threadpool")),
    attached("jit", record!("jit")),
    attached("loads", record!("loads")),
    attached("heap", &["heap", "PID", "-o", "OUT"]),
    attached("survivors", record!("survivors")),
    attached("async", &["async", "PID"]),
    Work {
        name: "trace",
        arguments: &["trace", "PID", "Clrscope.Samples.Steady.*", "--for", "300ms"],
        launched: false,
        stays: true,
    },
    launched(
        "calls",
        &["launch", "-q", "-p", "calls:filter=Clrscope.Samples.*", "-o", "OUT", "--"],
    ),
    launched("transitions", &["launch", "-q", "-p", "transitions", "-o", "OUT", "--"]),
    launched("exact-allocations", &["launch", "-q", "-p", "exact-allocations", "-o", "OUT", "--"]),
];

/// A call site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Site {
    hash: String,
    function: String,
}

/// Call sites by runtime.
type Sites = BTreeSet<(String, Site)>;

/// What the agent wrote.
#[derive(Debug, Default)]
struct Said {
    failed: u64,
    failed_site: String,
    sites: BTreeSet<Site>,
    held: BTreeMap<String, u64>,
    unloaded: bool,
}

/// One row of the table.
#[derive(Clone, Debug, Default)]
struct Row {
    /// Sites that a recording without faults met.
    met: usize,
    /// Sites that failed.
    failed: usize,
    /// Recordings that worked in spite of it, and that ended with an error that says why.
    worked: usize,
    refused: usize,
    /// Sites that the recording did not come to.
    missed: usize,
    /// What must not be.
    bad: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// When a process or a recording was harmed, or something is missing.
pub fn run(options: &Options) -> Result<()> {
    let started = Instant::now();
    if !options.built {
        build()?;
    }
    let clrscope = tool::target_folder().join("debug/clrscope");
    for needed in [&clrscope, &library()] {
        ensure!(needed.exists(), "{} is missing: run without --built", needed.display());
    }
    let cells = cells(options)?;
    let next = Mutex::new(0_usize);
    let (done, met): (Mutex<Sites>, Mutex<Sites>) = Default::default();
    let rows: Mutex<BTreeMap<usize, Row>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let index = {
                        let mut next = lock(&next);
                        *next += 1;
                        *next - 1
                    };
                    let Some((runtime, work)) = cells.get(index) else { return };
                    let mut row = Row::default();
                    let cell = Cell {
                        options,
                        clrscope: &clrscope,
                        runtime: *runtime,
                        work,
                        done: &done,
                        met: &met,
                    };
                    if let Err(error) = cell.run(&mut row) {
                        row.bad.push(format!("{error:#}"));
                    }
                    println!("{}", line(*runtime, work, &row));
                    for bad in &row.bad {
                        println!("    BAD: {bad}");
                    }
                    lock(&rows).insert(index, row);
                }
            });
        }
    });
    let rows = rows.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let failed: usize = rows.values().map(|row| row.failed).sum();
    let met = lock(&met).len();
    let bad: usize = rows.values().map(|row| row.bad.len()).sum();
    let seconds = started.elapsed().as_secs();
    let summary = format!(
        "{failed} of {met} call sites failed, each in a recording of its own, in {} min {} s; \
            {bad} times something was harmed or left",
        seconds / 60,
        seconds % 60
    );
    println!("{summary}");
    if options.write {
        write(&table(&summary, options.seed, &cells, rows.values()))?;
    }
    ensure!(bad == 0, "{bad} times something was harmed or left");
    Ok(())
}

/// The profilers and runtimes that are asked for.
fn cells(options: &Options) -> Result<Vec<(Runtime, &'static Work)>> {
    let runtimes = [Runtime::V3_1, Runtime::V9].into_iter();
    let runtimes: Vec<Runtime> = runtimes
        .filter(|runtime| {
            options.runtime.is_empty()
                || options.runtime.iter().any(|r| runtime.version().starts_with(r))
        })
        .collect();
    let wanted = |work: &&Work| {
        options.profiler.is_empty() || options.profiler.iter().any(|name| name == work.name)
    };
    let cells: Vec<(Runtime, &'static Work)> = WORKS
        .iter()
        .filter(wanted)
        .flat_map(|work| runtimes.iter().map(move |runtime| (*runtime, work)))
        .collect();
    // Some are refused on older runtimes.
    let runs = |(runtime, work): &(Runtime, &Work)| {
        profilers::by_id(work.name).is_none_or(|spec| spec.since <= runtime.major())
    };
    let cells: Vec<_> = cells.into_iter().filter(runs).collect();
    ensure!(!cells.is_empty(), "there is no such profiler or runtime");
    Ok(cells)
}

/// The table of docs/reliability.md.
fn table<'r>(
    summary: &str,
    seed: u64,
    cells: &[(Runtime, &Work)],
    rows: impl Iterator<Item = &'r Row>,
) -> String {
    let mut table = format!(
        "{summary} (`cargo xtask faults --write --seed {seed}`).\n\n\
         | runtime | profiler | call sites | failed | recording worked | ended with an error | not reached again | harm |\n|---|---|---|---|---|---|---|---|\n"
    );
    for ((runtime, work), row) in cells.iter().zip(rows) {
        table.push_str(&format!(
            "| {runtime} | {} | {} | {} | {} | {} | {} | {} |\n",
            work.name,
            row.met,
            row.failed,
            row.worked,
            row.refused,
            row.missed,
            row.bad.len()
        ));
    }
    table
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn line(runtime: Runtime, work: &Work, row: &Row) -> String {
    format!(
        "{runtime:<20} {:<18} {:>5} sites, {:>5} failed: {:>5} worked, {:>5} ended with an error, \
            {:>4} not reached again, {} bad",
        work.name,
        row.met,
        row.failed,
        row.worked,
        row.refused,
        row.missed,
        row.bad.len(),
        runtime = runtime.to_string()
    )
}

/// Where the agent that fails is.
fn library() -> PathBuf {
    tool::target_folder().join("faults/release/libclrscope_agent.so")
}

/// Builds the agent that fails, and clrscope.
fn build() -> Result<()> {
    let target_dir = tool::target_folder().join("faults");
    let limit = Duration::from_secs(1200);
    let mut agent = cargo();
    agent.args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "agent",
        "--lib",
        "--features",
        "fault-injection",
    ]);
    // Not optimized across crates: call sites stay apart.
    agent.args([
        "--config",
        "profile.release.lto=false",
        "--config",
        "profile.release.debug='line-tables-only'",
    ]);
    tool::run(agent.arg("--target-dir").arg(&target_dir), limit)?;
    hidden(&library())?;
    tool::run(cargo().args(["build", "--quiet", "--package", "cli"]), limit)?;
    Ok(())
}

/// The functions that the library defines again must be its own affair.
fn hidden(library: &Path) -> Result<()> {
    let mut command = Command::new("nm");
    let defined =
        tool::output(command.args(["-D", "--defined-only"]).arg(library), Duration::from_secs(60))?;
    for name in ["open64", "mmap", "read", "syscall", "sigaction", "pthread_create"] {
        let exported = defined.lines().any(|line| line.split_whitespace().last() == Some(name));
        ensure!(!exported, "{} exports {name}: the process would use it", library.display());
    }
    let mut command = Command::new("nm");
    let missing = tool::output(
        command.args(["-D", "--undefined-only"]).arg(library),
        Duration::from_secs(60),
    )?;
    for name in [
        "open64",
        "mmap",
        "read",
        "syscall",
        "sigaction",
        "pthread_create",
        "socket",
        "poll",
        "send",
        "recv",
    ] {
        let asked = missing.lines().any(|line| {
            line.split_whitespace()
                .last()
                .is_some_and(|symbol| symbol.split('@').next() == Some(name))
        });
        ensure!(!asked, "{} does not use its own {name}", library.display());
    }
    Ok(())
}

/// One profiler on one runtime.
struct Cell<'a> {
    options: &'a Options,
    clrscope: &'a Path,
    runtime: Runtime,
    work: &'a Work,
    done: &'a Mutex<Sites>,
    met: &'a Mutex<Sites>,
}

/// How a run of clrscope ended.
struct Ended {
    code: Option<i32>,
    text: String,
}

impl Cell<'_> {
    fn run(&self, row: &mut Row) -> Result<()> {
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
    fn sites(
        &self,
        file: &Path,
        target: &mut Option<TargetProcess>,
        row: &mut Row,
    ) -> Result<BTreeSet<Site>> {
        let mut sites = BTreeSet::new();
        // The second one knows what the first one has seen to be there, and the other way round.
        for _ in 0..2 {
            let ended = self.once("count", file, target, row)?;
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
                if self.fail(std::slice::from_ref(&site), error, file, target, row).is_none() {
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
            match self.fail(&chosen[..together], error, file, target, row) {
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
        file: &Path,
        target: &mut Option<TargetProcess>,
        row: &mut Row,
    ) -> Option<String> {
        let hashes: Vec<&str> = sites.iter().map(|site| site.hash.as_str()).collect();
        let what = format!("site {error} {}", hashes.join(" "));
        let bad_before = row.bad.len();
        let ended = self.once(&what, file, target, row);
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
            let ended = ended(&mut command)?;
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
        for argument in self.work.arguments {
            match *argument {
                "PID" => command.arg(pid.to_string()),
                "OUT" => command.arg(&session),
                other => command.arg(other),
            };
        }
        let ended = ended(&mut command);
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
        let said = said(file).unwrap_or_default();
        if said.unloaded {
            let held: Vec<String> = said
                .held
                .iter()
                .filter(|(name, held)| **held != 0 && !MAY_STAY.contains(&name.as_str()))
                .map(|(name, held)| format!("{held} {name}"))
                .collect();
            if !held.is_empty() {
                row.bad.push(format!("unloaded while it held {}", held.join(", ")));
            }
        }
        Ok(ended)
    }
}

/// The beginning of what clrscope wrote, in one line.
fn brief(text: &str) -> String {
    text.trim().chars().map(|c| if c == '\n' { '|' } else { c }).take(200).collect()
}

/// What is in a process.
struct Held {
    descriptors: usize,
    libraries: usize,
}

impl Held {
    fn of(pid: u32) -> Self {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let libraries: BTreeSet<&str> = maps
            .lines()
            .filter(|line| line.contains("libclrscope-"))
            .filter_map(|line| line.splitn(6, ' ').nth(5))
            .collect();
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        Self { descriptors, libraries: libraries.len() }
    }

    /// What has come since, after some seconds in which it may go.
    fn left(&self, pid: u32, stays: bool) -> Option<String> {
        let deadline = Instant::now() + Duration::from_secs(6);
        loop {
            let now = Self::of(pid);
            let threads = own_threads(pid);
            let allowed = usize::from(stays);
            let mut left = Vec::new();
            if threads.len() > allowed {
                left.push(format!("threads {threads:?}"));
            }
            if now.libraries > self.libraries.max(2) {
                left.push(format!("{} libraries", now.libraries));
            }
            // The program itself opens some now and then; a resident agent may hold eight.
            if now.descriptors > self.descriptors + if stays { 8 } else { 4 } {
                left.push(format!("{} descriptors, {} before", now.descriptors, self.descriptors));
            }
            if left.is_empty() {
                return None;
            }
            if Instant::now() > deadline {
                return Some(format!("left behind: {}", left.join(", ")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn own_threads(pid: u32) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let names =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("clrscope-")).collect()
}

/// Lets the program end, and checks what it computed.
fn finish(mut process: TargetProcess) -> Result<()> {
    process.close_stdin();
    let line = process.wait_for_line(Duration::from_secs(30), |line| line.starts_with('{'))?;
    ensure!(line.ends_with("\"wrong\":0}"), "wrong results: {line}");
    let status = process.wait(Duration::from_secs(10))?;
    ensure!(status.success(), "the program ended with {status}");
    Ok(())
}

fn ended(command: &mut Command) -> Result<Ended> {
    let text = tempfile::tempfile()?;
    let child =
        command.stdin(Stdio::null()).stdout(text.try_clone()?).stderr(text.try_clone()?).spawn();
    let code = wait(child.context("cannot start clrscope")?)?;
    let mut text = text;
    let mut written = String::new();
    std::io::Seek::rewind(&mut text)?;
    std::io::Read::read_to_string(&mut text, &mut written)?;
    Ok(Ended { code, text: written })
}

fn wait(mut child: Child) -> Result<Option<i32>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            bail!("clrscope hung for {} s", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where the agent writes.
fn out_of(file: &Path) -> PathBuf {
    file.with_extension("out")
}

/// What the agent wrote.
fn said(file: &Path) -> Result<Said> {
    let out = out_of(file);
    let text = fs::read_to_string(&out)
        .with_context(|| format!("the agent wrote no {}", out.display()))?;
    let mut said = Said::default();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words.as_slice() {
            ["failed", count] => said.failed = count.parse()?,
            ["failed-site", hash] => said.failed_site = (*hash).to_owned(),
            ["lost", count] => ensure!(*count == "0", "the table of sites is too small"),
            ["site", hash, rest] => {
                let function = rest.split(' ').next().unwrap_or_default().to_owned();
                said.sites.insert(Site { hash: (*hash).to_owned(), function });
            }
            ["held", count, name] => {
                said.held.insert((*name).to_owned(), count.parse()?);
            }
            ["unloaded"] => said.unloaded = true,
            _ => {}
        }
    }
    Ok(said)
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

/// Puts the table into its place in docs/reliability.md.
fn write(table: &str) -> Result<()> {
    let path = source_root().join("docs/reliability.md");
    let old = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (before, rest) =
        old.split_once(BEGIN).with_context(|| format!("{}: no {BEGIN}", path.display()))?;
    let (_, after) =
        rest.split_once(END).with_context(|| format!("{}: no {END}", path.display()))?;
    fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}"))?;
    Ok(())
}
