//! `cargo xtask faults`: makes every allocation and system call of the agent fail, one call site
//! after the other, in real processes.
//!
//! A build of the agent with the feature `fault-injection` counts its call sites in an ordinary
//! recording. Then each site is made to fail once, in a recording of its own. After each the
//! process must run on, its results must be right, clrscope must have ended with a result or an
//! error that says why, and nothing may be left in the process. A site that several profilers share
//! fails under the first of them that comes to it again, unless `--all` is given.

mod cell;
mod held;
mod works;

use crate::tool::{self, cargo};
use anyhow::{Context, Result, ensure};
use cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use testkit::{Runtime, source_root};
use works::{Work, works};

/// The variable that the agent reads; see `faults.rs` of crate `agent`.
const FILE: &str = "CLRSCOPE_FAULT_FILE";
/// The variable by which clrscope takes another agent than its own.
const AGENT: &str = "CLRSCOPE_AGENT";
/// How long a recording with a fault in it may take. A process that is out of memory waits for some
/// five seconds.
const LIMIT: Duration = Duration::from_secs(75);
/// What clrscope and the process do after so long is kept: nothing should take it.
const SLOW: Duration = Duration::from_secs(25);
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
const TOGETHER_TRIES: usize = 24;
/// Runs at a time.
const AT_ONCE: usize = 2;
/// Where the results stand in docs/reliability.md.
const BEGIN: &str = "<!-- faults: written by `cargo xtask faults --write` -->\n";
const END: &str = "<!-- faults end -->";

/// Functions of the C library that the agent calls and that cannot fail, or whose failure cannot be
/// acted upon. Those whose names begin with `_` are of the unwinder and of the compiler.
const NEVER_FAIL: &[&str] = &[
    // They only compute, or say what the process knows.
    "abort",
    "bcmp",
    "dirfd",
    "getcwd",
    "getenv",
    "geteuid",
    "getpid",
    "gettid",
    "getuid",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "pthread_getspecific",
    "pthread_self",
    "sched_yield",
    "sigdelset",
    "sigfillset",
    "strlen",
    // The allocator of the library calls these, and fails itself: `alloc`.
    "calloc",
    "free",
    "malloc",
    "posix_memalign",
    "realloc",
    // They give back. A mapping that is unmapped as a whole takes no memory for that.
    "close",
    "closedir",
    "munmap",
    "pthread_attr_destroy",
    "pthread_key_delete",
    // They fail for arguments only that the agent never gives.
    "dl_iterate_phdr",
    "dlsym",
    "prctl",
    "pthread_attr_getstack",
    "pthread_attr_setstacksize",
    "pthread_join",
    "pthread_sigmask",
];

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

/// A call site, with the functions that lead to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Site {
    hash: String,
    /// The call and its caller, whatever leads to them.
    call: String,
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
    let (done, met, failed): (Mutex<Sites>, Mutex<Sites>, Mutex<Sites>) = Default::default();
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
                        failed: &failed,
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
    let (met, failed) = (lock(&met), lock(&failed));
    let [calls, failed_calls] = [calls(&met), calls(&failed)];
    let never: Vec<&Site> = met
        .iter()
        .filter(|(runtime, site)| !failed_calls.contains(&(runtime.as_str(), site.call.as_str())))
        .map(|(_, site)| site)
        .collect();
    for site in &never {
        println!("never failed: {} ({} {})", site.function, site.call, site.hash);
    }
    let bad: usize = rows.values().map(|row| row.bad.len()).sum();
    let seconds = started.elapsed().as_secs();
    let summary = format!(
        "{} of {} call sites failed, each in a recording of its own, in {} min {} s; of the calls \
            at them, whatever leads there, {} of {} failed; {bad} times something was harmed or left",
        failed.len(),
        met.len(),
        seconds / 60,
        seconds % 60,
        failed_calls.len(),
        calls.len()
    );
    println!("{summary}");
    if options.write {
        write(&table(&summary, options.seed, &cells, rows.values()))?;
    }
    ensure!(bad == 0, "{bad} times something was harmed or left");
    Ok(())
}

/// The calls at sites, whatever leads to them, by runtime.
fn calls(sites: &Sites) -> BTreeSet<(&str, &str)> {
    sites.iter().map(|(runtime, site)| (runtime.as_str(), site.call.as_str())).collect()
}

/// The profilers and runtimes that are asked for.
fn cells(options: &Options) -> Result<Vec<(Runtime, Work)>> {
    let runtimes = [Runtime::V3_1, Runtime::V9].into_iter();
    let runtimes: Vec<Runtime> = runtimes
        .filter(|runtime| {
            options.runtime.is_empty()
                || options.runtime.iter().any(|r| runtime.version().starts_with(r))
        })
        .collect();
    let wanted = |work: &Work| {
        options.profiler.is_empty() || options.profiler.iter().any(|name| name == work.name)
    };
    let cells = works()
        .into_iter()
        .filter(wanted)
        .flat_map(|work| runtimes.iter().map(move |runtime| (*runtime, work.clone())));
    // Some are refused on older runtimes.
    let runs = |(runtime, work): &(Runtime, Work)| {
        profilers::by_id(work.name).is_none_or(|spec| spec.since <= runtime.major())
    };
    let cells: Vec<_> = cells.filter(runs).collect();
    ensure!(!cells.is_empty(), "there is no such profiler or runtime");
    Ok(cells)
}

/// The table of docs/reliability.md.
fn table<'r>(
    summary: &str,
    seed: u64,
    cells: &[(Runtime, Work)],
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

/// The functions that the library defines again must be its own affair, and there must be no other
/// function of the C library that can fail and never does here.
fn hidden(library: &Path) -> Result<()> {
    let symbols = |which: &str| -> Result<Vec<String>> {
        let mut command = Command::new("nm");
        command.args(["-D", which]).arg(library);
        let text = tool::output(&mut command, Duration::from_secs(60))?;
        let names = text.lines().filter_map(|line| line.split_whitespace().last());
        Ok(names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect())
    };
    let defined = symbols("--defined-only")?;
    for name in ["open64", "mmap", "read", "syscall", "sigaction", "pthread_create"] {
        let exported = defined.iter().any(|symbol| symbol == name);
        ensure!(!exported, "{} exports {name}: the process would use it", library.display());
    }
    let missing: Vec<String> = symbols("--undefined-only")?
        .into_iter()
        .filter(|name| !NEVER_FAIL.contains(&name.as_str()) && !name.starts_with('_'))
        .collect();
    ensure!(
        missing.is_empty(),
        "no fault injection makes {} fail: add it to `wrapped!` in crates/agent/src/faults, or to \
         `NEVER_FAIL` in xtask/src/faults.rs, with the reason",
        missing.join(", ")
    );
    Ok(())
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
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["failed", count] => said.failed = count.parse()?,
            ["failed-site", hash] => said.failed_site = (*hash).to_owned(),
            ["lost", count] => ensure!(*count == "0", "the table of sites is too small"),
            ["site", hash, call, rest] => {
                let function = rest.split(' ').next().unwrap_or_default().to_owned();
                said.sites.insert(Site {
                    hash: (*hash).to_owned(),
                    call: (*call).to_owned(),
                    function,
                });
            }
            ["held", count, name @ ..] => {
                said.held.insert(name.join(" "), count.parse()?);
            }
            ["unloaded"] => said.unloaded = true,
            _ => {}
        }
    }
    Ok(said)
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
