//! `cargo xtask harm`: whether clrscope harms what it looks at, and under which circumstances.
//!
//! One table of runtimes × targets × conditions × conditions × actions × endings. Each cell runs a
//! real target and the real program, and compares the target with one that nobody looked at: what
//! it computes, how it ends, and what is left in it. Cells are drawn so that each pair of values
//! meets. To add a value, add an entry to the list of its axis.

mod actions;
mod cell;
mod chaos;
mod conditions;
mod draw;
mod driver;
mod endings;
pub mod evidence;
pub mod inside;
mod memory;
mod native;
mod random;
mod refusals;
mod report;
mod scene;
pub mod squat;
mod state;
mod table;
mod targets;

use crate::tool::{self, cargo};
use crate::{bench, setup};
use anyhow::{Context, Result, bail, ensure};
use cell::{Bench, Verdict};
use clap::Args;
use draw::Drawn;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
use signal_hook::flag;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use table::{Cell, Table};

/// Options of the matrix.
#[derive(Args, Debug, Clone, Default)]
pub struct Options {
    /// Draw until every pair meets, at least 1,500 cells, and write docs/reliability.md
    #[arg(long)]
    pub long: bool,
    /// Only cells with these values, such as `9 nre attach-wall killed`; with `--chaos` runtimes,
    /// and parts of actions' names
    #[arg(long, default_value = "")]
    pub only: String,
    /// Seed of the draw [default: a fixed one]
    #[arg(long)]
    pub seed: Option<u64>,
    /// How many cells to draw at most
    #[arg(long)]
    pub cells: Option<usize>,
    /// Random actions and kills under load instead, on each runtime at once, for this number of
    /// minutes
    #[arg(long, value_name = "MINUTES")]
    pub chaos: Option<f64>,
    /// Only show which cells are drawn
    #[arg(long)]
    pub list: bool,
    /// Test target/debug as it is, without building it first
    #[arg(long)]
    pub no_build: bool,
}

/// Seed of the short form.
const SEED: u64 = 20_261_123;

/// Cells of the short form.
const SHORT: usize = 60;

/// Cells of the long form, at least.
const LONG: usize = 1_500;

/// Cells at the same time: they wait for most of their time.
const AT_ONCE: usize = 2;

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// One cell that was run.
pub struct Ran {
    /// The cell.
    pub cell: Cell,
    /// What it came to.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// Runs the matrix.
///
/// # Errors
/// When a cell fails, or nothing can be run.
pub fn run(options: &Options) -> Result<()> {
    // Targets inherit which signals are ignored, but not which are handled.
    for signal in [SIGHUP, SIGINT, SIGQUIT] {
        flag::register_conditional_default(signal, Arc::new(true.into()))?;
    }
    if !options.list {
        setup::run()?;
        if !options.no_build {
            // All at once, so that dependencies have the features that they have in the tests.
            let build = ["build", "--quiet", "--workspace", "--all-targets"];
            tool::run(cargo().args(build), BUILD_LIMIT)?;
        }
    }
    let (table, absent) = Table::of_machine();
    let clrscope = tool::target_folder().join("debug/clrscope");
    let evidence = tool::target_folder().join("harm");
    fs::create_dir_all(&evidence).with_context(|| evidence.display().to_string())?;
    scene::launcher()?;
    evidence::allow_cores()?;
    let bench = Bench::new(clrscope, native::folder()?, evidence);
    if let Some(minutes) = options.chaos {
        return chaos::run(&bench, &table, minutes, &options.only, options.seed.unwrap_or(SEED));
    }
    let seed = options.seed.unwrap_or(SEED);
    let (least, limit) = match (options.cells, options.long) {
        (Some(cells), _) => (cells, cells),
        (None, true) => (LONG, usize::MAX),
        (None, false) => (SHORT, SHORT),
    };
    let drawn = draw::draw(&table, &table.wanted(&options.only)?, seed, least, limit);
    ensure!(!drawn.cells.is_empty(), "no cell has all of \"{}\" and makes sense", options.only);
    println!(
        "harm: seed {seed}, {} cells, {} pairs meet, {} do not",
        drawn.cells.len(),
        drawn.met,
        drawn.left
    );
    for (name, why) in &absent {
        println!("harm: without {name}: {why}");
    }
    if options.list {
        drawn.cells.iter().for_each(|cell| println!("{}", table.shown(cell)));
        return Ok(());
    }
    let (machine, started) = (bench::machine(), Instant::now());
    let ran = run_all(&bench, &table, &drawn, seed);
    let report = report::Report {
        table: &table,
        drawn: &drawn,
        ran: &ran,
        absent: &absent,
        machine: &machine,
        seed,
    };
    println!("\n{}", report.summary(started.elapsed()));
    if options.long {
        report.write(started.elapsed(), &options.only)?;
    }
    let failed = ran.iter().filter(|ran| matches!(ran.verdict, Verdict::Failed(_))).count();
    if failed > 0 {
        bail!(
            "{failed} of {} cells failed; what they wrote is in {}",
            ran.len(),
            bench.evidence.display()
        );
    }
    Ok(())
}

fn run_all(bench: &Bench, table: &Table, drawn: &Drawn, seed: u64) -> Vec<Ran> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = drawn.cells.get(index) else { return };
                    let begun = Instant::now();
                    let (verdict, log) = bench.run(table, cell, seed_of(seed, table, cell));
                    let took = begun.elapsed();
                    tell(bench, table, cell, &verdict, &log, took);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, Ran { cell: *cell, verdict, took }));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, ran)| ran).collect()
}

/// The moments of a cell depend on the seed and on the cell, not on which others were drawn: so a
/// cell can be run again alone.
fn seed_of(seed: u64, table: &Table, cell: &Cell) -> u64 {
    // FNV-1a.
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    table.shown(cell).bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, hash)
}

fn tell(bench: &Bench, table: &Table, cell: &Cell, verdict: &Verdict, log: &str, took: Duration) {
    let name = table.shown(cell);
    let (word, details) = match verdict {
        Verdict::Passed => ("passed", Vec::new()),
        Verdict::Refused(code, why) => ("refused", vec![format!("{code}: {why}")]),
        Verdict::Unfit(why) => ("UNFIT", vec![why.clone()]),
        Verdict::Failed(reasons) => ("FAILED", reasons.clone()),
    };
    println!("{word:<8} {:>4.1} s  {name}", took.as_secs_f64());
    for detail in &details {
        println!("         {}", detail.chars().take(400).collect::<String>());
    }
    if !matches!(verdict, Verdict::Passed) {
        let file: PathBuf = bench.evidence.join(format!("{}.log", name.replace([' ', '/'], "_")));
        // Evidence that cannot be kept is in nobody's way.
        let _ = fs::write(file, format!("{name}\n{word}\n{}\n\n{log}", details.join("\n")));
    }
}
