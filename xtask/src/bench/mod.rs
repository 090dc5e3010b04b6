//! `cargo xtask bench`: what observation costs, measured on real runtimes and printed as one table.
//!
//! Two things are compared only within one run and in turns: the workload keeps running, and
//! windows with an observer alternate with windows without one. What is compared is work done per
//! second of the process's own CPU time, so that neither other programs nor the observer outside of
//! the process disturb the figure.
//!
//! Everything is measured through the program that users have, as `cargo build --release` makes it.

mod costs;
mod cycles;
mod endurance;
mod il;
mod illness;
mod large;
mod newrelic;
mod observe;
#[cfg(target_os = "linux")]
mod service;
mod size;
mod slowdown;
mod split;
mod starts;
mod table;
mod tracing;
mod ui;
mod work;

use crate::setup;
use crate::tool::{self, cargo};
use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use table::{Row, markdown};
use testkit::Runtime;

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Options of all benchmarks.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// What to measure
    #[arg(value_enum)]
    pub suite: Suite,
    /// How many rounds of windows for each slow-down
    #[arg(long, default_value_t = 15)]
    pub pairs: usize,
    /// Length of a window in milliseconds
    #[arg(long, default_value_t = 500)]
    pub window: u64,
    /// How many rounds of `service`
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Length of a window of `service` in seconds
    #[arg(long, default_value_t = 3)]
    pub seconds: u64,
    /// How many times to attach and detach on each runtime
    #[arg(long, default_value_t = 200)]
    pub cycles: usize,
    /// Length of each endurance run, in minutes
    #[arg(long, default_value_t = 10.0)]
    pub minutes: f64,
    /// CPU engine of the endurance runs
    #[arg(long, default_value = "auto")]
    pub engine: String,
    /// Profilers of the endurance runs
    #[arg(long, default_value = "cpu,wall,exceptions,gc")]
    pub profilers: String,
    /// Only rows whose runtime and name contain this text, such as `9.0.5 slow-down`; for `service`
    /// also several with `|` between them
    #[arg(long, default_value = "")]
    pub only: String,
    /// Measure target/release as it is, without building it first
    #[arg(long)]
    pub no_build: bool,
}

/// Groups of measurements.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Every goal of docs/performance.md that a benchmark can tell, except for endurance
    Spine,
    /// The windows of the slow-downs, and the time of the cycles, with nothing switched on: how
    /// much of a difference is noise
    Noise,
    /// Looks at heaps and locks, check-ups, and exact counts of objects
    Illness,
    /// How fast method bodies are checked, read and written, and what traced methods cost
    Il,
    /// What `launch` adds to the start and to the end of a program
    Launch,
    /// What each profiler and each engine costs a service under full load, and threads that hand
    /// work over, beside EventPipe
    #[cfg(target_os = "linux")]
    Service,
    /// What the drop-in for the New Relic profiler costs: start-up, calls, size
    Newrelic,
    /// How soon the web pages show large sessions, and how smoothly; live pages, thread dumps and
    /// tools for assistants
    Ui,
    /// Ten minutes each of what is most likely to kill a process that is profiled
    Endurance,
}

impl Options {
    /// The defaults of a suite.
    #[cfg(test)]
    fn of(suite: Suite) -> Options {
        Options {
            suite,
            pairs: 15,
            window: 500,
            rounds: 5,
            seconds: 3,
            cycles: 200,
            minutes: 10.0,
            engine: "auto".into(),
            profilers: "cpu".into(),
            only: String::new(),
            no_build: true,
        }
    }
}

/// One measurement on one runtime; it may give several rows.
struct Job<'a> {
    name: &'a str,
    /// `None` where no runtime takes part.
    runtime: Option<Runtime>,
    run: Box<dyn Fn() -> Result<Vec<Row>> + 'a>,
}

/// Runs a suite and prints its table.
///
/// # Errors
/// When something could not be measured. A goal that is missed is no error: the table says it.
pub fn run(options: &Options) -> Result<()> {
    ensure!(
        options.pairs > 0 && options.window >= 50,
        "at least one round and windows of at least 50 ms are needed"
    );
    ensure!(options.minutes > 0.0, "the endurance runs need some time");
    setup::run()?;
    // That one does not run the program.
    if options.suite == Suite::Newrelic && !options.no_build {
        newrelic::build()?;
    } else if options.suite != Suite::Noise && !options.no_build {
        tool::run(cargo().args(["build", "--release"]), BUILD_LIMIT)?;
    }
    #[cfg(target_os = "linux")]
    if options.suite == Suite::Service {
        return service::run(options);
    }
    let jobs = jobs(options);
    let jobs: Vec<&Job<'_>> = jobs.iter().filter(|job| job.is_wanted(&options.only)).collect();
    ensure!(!jobs.is_empty(), "no row contains \"{}\"", options.only);
    let (machine, started) = (machine(), Instant::now());
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for (index, job) in jobs.iter().enumerate() {
        eprintln!(
            "[{} of {}, {:.0} s] {}",
            index + 1,
            jobs.len(),
            started.elapsed().as_secs_f64(),
            job.shown()
        );
        match job.measure() {
            Ok(found) => {
                found.iter().for_each(|row| eprintln!("    {row}"));
                rows.extend(found);
            }
            Err(error) => {
                eprintln!("    failed: {error:#}");
                failed.push(job.shown());
                let measured = format!("not measured: {error}").replace(['\n', '|'], " ");
                let runtime = job.runtime.map_or("·".to_owned(), |runtime| runtime.to_string());
                rows.push(Row::told(job.name, runtime, measured));
            }
        }
    }
    println!("\n{machine}; {:.0} s in all\n\n{}", started.elapsed().as_secs_f64(), markdown(&rows));
    if !failed.is_empty() {
        bail!("not measured: {}", failed.join("; "));
    }
    Ok(())
}

impl Job<'_> {
    fn shown(&self) -> String {
        self.runtime.map_or(self.name.to_owned(), |runtime| format!("{runtime} {}", self.name))
    }

    fn is_wanted(&self, only: &str) -> bool {
        self.shown().to_lowercase().contains(&only.to_lowercase())
    }

    fn measure(&self) -> Result<Vec<Row>> {
        caught(|| (self.run)())
    }
}

/// Makes an error of a panic: targets that do not start panic, as tests want it; here the other
/// rows continue.
fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            bail!("{}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked"))
        }
    }
}

/// Everything of a suite, in the order of the goals.
fn jobs(options: &Options) -> Vec<Job<'_>> {
    let mut jobs = Jobs(Vec::new());
    match options.suite {
        Suite::Spine => jobs.spine(options),
        Suite::Noise => jobs.noise(options),
        Suite::Illness => jobs.illness(options),
        Suite::Il => jobs.il(),
        Suite::Launch => {
            for runtime in starts::RUNTIMES {
                jobs.add(starts::NAME, Some(runtime), move || starts::run(runtime));
            }
        }
        Suite::Newrelic => jobs.newrelic(),
        Suite::Ui => jobs.ui(),
        // It has tables of its own.
        #[cfg(target_os = "linux")]
        Suite::Service => {}
        Suite::Endurance => {
            for ((name, work), runtime) in each(endurance::KINDS, &endurance::RUNTIMES) {
                let run = move || endurance::run(name, work, runtime, options);
                jobs.add(name, Some(runtime), run);
            }
        }
    }
    jobs.0
}

/// The measurements of a suite, one suite in each function.
struct Jobs<'a>(Vec<Job<'a>>);

impl<'a> Jobs<'a> {
    fn add(
        &mut self,
        name: &'a str,
        runtime: Option<Runtime>,
        run: impl Fn() -> Result<Vec<Row>> + 'a,
    ) {
        self.0.push(Job { name, runtime, run: Box::new(run) });
    }

    fn spine(&mut self, options: &'a Options) {
        for runtime in cycles::RUNTIMES {
            self.add(cycles::NAME, Some(runtime), move || cycles::run(runtime, options));
        }
        for (comparison, runtime) in each(slowdown::COMPARISONS, &slowdown::RUNTIMES) {
            self.add(comparison.name, Some(runtime), move || comparison.run(runtime, options));
        }
        for runtime in costs::SAMPLES {
            self.add(costs::WALL, Some(runtime), move || costs::wall(runtime));
            self.add(split::NAME, Some(runtime), move || split::run(runtime));
            self.add(costs::HANDLER, Some(runtime), move || costs::handler(runtime));
            self.add(costs::MEMORY, Some(runtime), move || costs::memory_of_agent(runtime));
        }
        for runtime in costs::ALL {
            self.add(costs::NAMING, Some(runtime), move || costs::naming(runtime));
        }
        self.add(large::NAME, None, large::run);
        self.add(size::NAME, None, size::run);
    }

    fn noise(&mut self, options: &'a Options) {
        for runtime in cycles::RUNTIMES {
            self.add(cycles::CONTROL, Some(runtime), move || cycles::control(runtime, options));
        }
        for (comparison, runtime) in each(slowdown::NOISE, &slowdown::RUNTIMES) {
            self.add(comparison.name, Some(runtime), move || comparison.run(runtime, options));
        }
    }

    fn illness(&mut self, options: &'a Options) {
        for runtime in illness::RUNTIMES {
            self.add(illness::HEAP, Some(runtime), move || illness::heap(runtime));
            self.add(illness::LESS, Some(runtime), move || illness::less(runtime));
            self.add(illness::LOCKS, Some(runtime), move || illness::locks(runtime));
            self.add(illness::TASKS, Some(runtime), move || illness::tasks(runtime));
            self.add(illness::CHECKUP, Some(runtime), move || illness::checkup(runtime));
            self.add(illness::EXACT, Some(runtime), move || {
                illness::exact_allocations(runtime, options)
            });
        }
        self.add(illness::ESTIMATES, Some(Runtime::V9), || {
            illness::estimates(Runtime::V9, illness::ESTIMATES)
        });
        // The profiler `allocations` is refused on older runtimes.
        for runtime in slowdown::RUNTIMES.into_iter().filter(|runtime| runtime.major() >= 6) {
            self.add(illness::STORM, Some(runtime), move || {
                illness::estimates(runtime, illness::STORM)
            });
        }
        let allocates = |name: &str| name == "slow-down, allocation-heavy";
        let all = each(illness::COMPARISONS, &slowdown::RUNTIMES);
        for (comparison, runtime) in
            all.filter(|(one, runtime)| runtime.major() >= 6 || !allocates(one.name))
        {
            self.add(comparison.name, Some(runtime), move || comparison.run(runtime, options));
        }
        self.add(illness::LARGE, None, illness::large);
    }

    fn il(&mut self) {
        self.add(il::NAME, Some(Runtime::V9), || il::run(Runtime::V9));
        for runtime in [Runtime::V3_1, Runtime::V9] {
            self.add(tracing::CALL, Some(runtime), move || tracing::call(runtime));
            self.add(tracing::REWRITE, Some(runtime), move || tracing::rewrite(runtime));
        }
        for runtime in tracing::APPLICATIONS {
            self.add(tracing::START, Some(runtime), move || tracing::start(runtime));
        }
    }

    fn ui(&mut self) {
        self.add(ui::LARGE, None, ui::large);
        self.add(ui::SMOOTH, None, ui::smooth);
        self.add(ui::EXTREME, None, ui::extreme);
        self.add(ui::LIVE, None, ui::live);
        self.add(ui::STACKS, Some(Runtime::V9), || ui::stacks(Runtime::V9));
        self.add(ui::ASSISTANT, Some(Runtime::V9), || ui::assistant(Runtime::V9));
    }

    fn newrelic(&mut self) {
        for runtime in newrelic::RUNTIMES {
            self.add(newrelic::START, Some(runtime), move || newrelic::start(runtime));
            self.add(newrelic::CALL, Some(runtime), move || newrelic::call(runtime));
            self.add(newrelic::COMPILE, Some(runtime), move || newrelic::compile_many(runtime));
            self.add(newrelic::LOG, Some(runtime), move || newrelic::log(runtime));
            self.add(newrelic::TOGGLE, Some(runtime), move || newrelic::toggle(runtime));
        }
        #[cfg(target_os = "linux")]
        self.add(newrelic::SERVICE, Some(Runtime::V9), newrelic::service);
        self.add(newrelic::SIZE, None, newrelic::size);
    }
}

/// Every pair of both.
fn each<'a, T>(things: &'a [T], runtimes: &'a [Runtime]) -> impl Iterator<Item = (&'a T, Runtime)> {
    things.iter().flat_map(move |thing| runtimes.iter().map(move |runtime| (thing, *runtime)))
}

/// What belongs to every figure: processor, kernel, and how busy the machine is with other things.
pub fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let about = read("/proc/cpuinfo");
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("processor unknown", |(_, model)| model.trim()).to_owned();
    let (kernel, load) = (read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"));
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    if load.parse().is_ok_and(|load: f64| load > 0.5) {
        eprintln!("warning: the machine is busy (load {load}); figures are worth less");
    }
    format!("{cpus} × {model}, Linux {}, load {load} before", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_runtime_and_name() {
        let options = Options::of(Suite::Spine);
        let wanted = |only: &str| jobs(&options).iter().filter(|job| job.is_wanted(only)).count();
        assert_eq!(wanted(""), 4 + 10 + 12 + 4 + 2);
        assert_eq!(wanted("9.0.5 slow-down"), 5);
        assert_eq!(wanted("html"), 1);
        assert_eq!(wanted("nothing of this kind"), 0);
        // Two rows of `allocations` are not there on .NET Core 3.1.
        assert_eq!(jobs(&Options::of(Suite::Illness)).len(), 6 * 3 + 1 + 2 + 3 * 2 + 1 - 2);
        assert_eq!(jobs(&Options::of(Suite::Il)).len(), 1 + 2 * 2 + 2);
        assert_eq!(jobs(&Options::of(Suite::Launch)).len(), 3);
        assert_eq!(jobs(&Options::of(Suite::Ui)).len(), 6);
        assert_eq!(
            jobs(&Options::of(Suite::Newrelic)).len(),
            2 * 5 + 1 + usize::from(cfg!(target_os = "linux"))
        );
    }

    #[test]
    fn what_panics_is_one_row_that_failed() {
        let job = Job { name: "x", runtime: None, run: Box::new(|| panic!("no {}", "target")) };
        assert_eq!(job.measure().unwrap_err().to_string(), "no target");
    }
}
