//! Prints which share of the samples reaches the root of its thread, for each engine on each
//! runtime.
//!
//! `cargo build -p agent && cargo run -p recorder --example completeness -- [SECONDS [RUNTIME]]`,
//! by default ten of each. Stacks deeper than the limit are marked as such, and counted apart.

#[cfg(target_os = "linux")]
#[path = "../tests/support/mod.rs"]
mod support;

#[cfg(target_os = "linux")]
fn main() {
    use recorder::EngineChoice;
    use std::time::Duration;
    use testkit::{Runtime, Sample, TargetProcess, runtimes};

    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(10, |text| text.parse().expect("a number of seconds"));
    let only = arguments.next().unwrap_or_default();
    println!(
        "| runtime | load | engine | samples | reach the root | deeper than the limit | broken | \
            signal handler p50, ns |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut all: Vec<Runtime> =
        runtimes().into_iter().filter(|runtime| runtime.is_supported()).collect();
    if !all.contains(&Runtime::Azmcp9) {
        all.push(Runtime::Azmcp9);
    }
    for runtime in all.into_iter().filter(|runtime| runtime.to_string().contains(&only)) {
        for (name, engine) in EngineChoice::ALL
            .into_iter()
            .map(|(engine, name)| (name, engine))
            .filter(|(name, _)| *name != "auto")
        {
            let load = if runtime.runs_samples() { "mixed" } else { "azmcp" };
            let mut process = if runtime.runs_samples() {
                let mut process = Sample::named("mixed").start(runtime, &["--seconds", "600"]);
                process.wait_for_ready();
                process
            } else {
                let mut process = TargetProcess::azmcp(runtime);
                process.feed(1).expect("an answer");
                process
            };
            let pid = process.pid();
            let options = support::options(engine, 500, Duration::from_secs(seconds), None);
            let recording = std::thread::spawn(move || support::record(pid, options));
            while !recording.is_finished() {
                if runtime.runs_samples() {
                    std::thread::sleep(Duration::from_millis(50));
                } else {
                    process.feed(1).expect("an answer");
                }
            }
            let summary = recording.join().expect("a recording");
            let samples =
                summary.samples.iter().find(|(id, _)| *id == "cpu").map_or(0, |(_, count)| *count);
            let whole = support::counter(&summary, "stacks complete");
            let truncated = support::counter(&summary, "stacks truncated");
            let broken = support::counter(&summary, "stacks broken");
            let handler = support::counter(&summary, "nanoseconds in the signal handler, median");
            // The runtime's own walks are whole by their nature: it says itself when one is not.
            let share = match whole + broken {
                0 => "by its nature".to_owned(),
                all => format!("{:.2} %", whole as f64 * 100.0 / all as f64),
            };
            println!(
                "| {runtime} | {load} | {name} | {samples} | {share} | {truncated} | {broken} | \
                    {handler} |"
            );
            if !summary.notes.is_empty() || broken > 0 {
                eprintln!("  {:?} {:?}", summary.notes, summary.observer.counters);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
