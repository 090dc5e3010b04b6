//! What the windows of all rounds say: each recorded window against the mean of the two unrecorded
//! ones around it.

use super::target::Window;
use crate::bench::table::Distribution;
use std::fmt::Write as _;

/// What stands where there is no figure.
const NONE: &str = "·";

/// A window with a recording, and its neighbors.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Without a recording, before.
    pub before: Window,
    /// With it.
    pub on: Window,
    /// Without a recording, after.
    pub after: Window,
    /// CPU time of the process that records, in seconds per second; `None` where nothing records.
    pub own_cpu: Option<f64>,
    /// What the recording says of itself.
    pub stated: Option<Stated>,
}

/// What a recording says that it costs the program, both in seconds per second.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    /// CPU time of clrscope's threads and handlers in the process.
    pub cpu: f64,
    /// Time in which it suspended the runtime.
    pub paused: f64,
}

impl Recorded {
    /// How much more CPU time an operation takes, in percent.
    pub fn cpu(&self) -> f64 {
        self.change(Window::cpu_per_operation)
    }

    /// How much the throughput changes, in percent: below zero where it is lower.
    pub fn throughput(&self) -> f64 {
        self.change(Window::rate)
    }

    /// How much the 99th percentile of the latency changes, in percent.
    pub fn p99(&self) -> Option<f64> {
        let known = [self.before, self.on, self.after].iter().all(|window| window.p99_ms.is_some());
        known.then(|| self.change(|window| window.p99_ms.unwrap_or(f64::NAN)))
    }

    /// The stated CPU time as a share of the program's own, in percent: what [`Recorded::cpu`] is
    /// to be compared with.
    pub fn stated_cpu(&self) -> Option<f64> {
        self.stated.map(|stated| 100.0 * stated.cpu / self.on.processors())
    }

    /// How much of the work is lost by what the recording states, in percent: CPU time in the
    /// program, time in which it is suspended, and the processors that clrscope's own process takes
    /// from a program that keeps all of them busy. What [`Recorded::throughput`] is to be compared
    /// with.
    pub fn stated_throughput(&self, processors: f64) -> Option<f64> {
        let (stated, own) = (self.stated?, self.own_cpu?);
        Some(100.0 * (stated.cpu / self.on.processors() + stated.paused + own / processors))
    }

    fn change(&self, of: impl Fn(&Window) -> f64) -> f64 {
        let without = (of(&self.before) + of(&self.after)) / 2.0;
        100.0 * (of(&self.on) / without - 1.0)
    }
}

/// What became of one recording in all rounds.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// Its windows.
    pub windows: Vec<Recorded>,
    /// Why there are no more.
    pub failed: Option<String>,
}

/// The heading and the Markdown table of one program.
pub fn table(
    program: &str,
    operation: &str,
    unrecorded: &[Window],
    outcomes: &[Outcome],
) -> String {
    let mut text = format!(
        "**{program}**\n\n\
         | recording | CPU per {operation} | throughput | p99 latency | stated: CPU | stated: paused | CPU outside |\n|---|---|---|---|---|---|---|\n"
    );
    let of = |value: fn(&Window) -> f64| Distribution::of(unrecorded.iter().map(value).collect());
    let latency = Distribution::of(unrecorded.iter().filter_map(|window| window.p99_ms).collect());
    let latency = if latency.len() > 0 { latency.with_quartiles("ms") } else { NONE.to_owned() };
    let rate = of(Window::rate);
    let _ = writeln!(
        text,
        "| none | {} | {:.0} /s ({:.0} … {:.0}) | {latency} | {NONE} | {NONE} | {NONE} |",
        of(Window::cpu_per_operation).with_quartiles("µs"),
        rate.median(),
        rate.at(0.25),
        rate.at(0.75)
    );
    for outcome in outcomes {
        let windows = &outcome.windows;
        let name = match (&outcome.failed, windows.len()) {
            (None, 0) => continue,
            (Some(_), 0) => {
                let _ = writeln!(
                    text,
                    "| {} | not measured | {} |",
                    outcome.name,
                    [NONE; 5].join(" | ")
                );
                continue;
            }
            (Some(_), count) => format!("{} (failed after {count} windows)", outcome.name),
            (None, _) => outcome.name.clone(),
        };
        let all = |value: fn(&Recorded) -> f64| {
            signed(&Distribution::of(windows.iter().map(value).collect()))
        };
        let some = |value: fn(&Recorded) -> Option<f64>| {
            Distribution::of(windows.iter().filter_map(value).collect())
        };
        let p99 = some(Recorded::p99);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            name,
            all(Recorded::cpu),
            all(Recorded::throughput),
            if p99.len() > 0 { signed(&p99) } else { NONE.to_owned() },
            share(&some(Recorded::stated_cpu)),
            share(&some(|recorded| recorded.stated.map(|stated| 100.0 * stated.paused))),
            share(&some(|recorded| recorded.own_cpu.map(|own| 100.0 * own))),
        );
    }
    text
}

/// The name of the row whose windows have no recording.
pub const NOISE: &str = "none again: noise";

/// How far a stated cost may be from a measured loss.
const FACTOR: f64 = 2.0;

/// A table of what recordings state, beside the loss that was measured. `processors` are those of
/// the machine.
pub fn stated_and_lost(program: &str, processors: f64, outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "**{program}: stated cost and measured loss**\n\n\
         | recording | CPU: stated | CPU: lost | lost / stated | throughput: stated | throughput: lost | lost / stated |\n|---|---|---|---|---|---|---|\n"
    );
    let of = |windows: &[Recorded], value: &dyn Fn(&Recorded) -> Option<f64>| {
        Distribution::of(windows.iter().filter_map(value).collect())
    };
    let cpu = |one: &Recorded| Some(one.cpu());
    let throughput = |one: &Recorded| Some(-one.throughput());
    let silent = outcomes
        .iter()
        .find(|outcome| outcome.name == NOISE)
        .map_or(&[][..], |outcome| outcome.windows.as_slice());
    let noise = |value: &dyn Fn(&Recorded) -> Option<f64>| {
        let noise = of(silent, value);
        if noise.len() > 0 { noise.at(0.25).abs().max(noise.at(0.75).abs()) } else { 0.0 }
    };
    let noises = (noise(&cpu), noise(&throughput));
    for outcome in
        outcomes.iter().filter(|outcome| outcome.windows.iter().any(|one| one.stated.is_some()))
    {
        let windows = &outcome.windows;
        let stated = (
            of(windows, &Recorded::stated_cpu),
            of(windows, &|one| one.stated_throughput(processors)),
        );
        let lost = (of(windows, &cpu), of(windows, &throughput));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            outcome.name,
            share(&stated.0),
            signed(&lost.0),
            ratio(&stated.0, &lost.0, noises.0),
            share(&stated.1),
            signed(&lost.1),
            ratio(&stated.1, &lost.1, noises.1),
        );
    }
    let _ = writeln!(text, "\nNoise: CPU {:.1} %, throughput {:.1} %.", noises.0, noises.1);
    text
}

/// How a loss relates to the stated cost, and whether that is good: within a factor of two, or both
/// below the noise.
fn ratio(stated: &Distribution, lost: &Distribution, noise: f64) -> String {
    if stated.len() == 0 || lost.len() == 0 {
        return NONE.to_owned();
    }
    let (cost, loss) = (stated.median(), lost.median());
    if loss.abs() <= noise {
        let good = cost <= noise;
        return if good {
            "both below the noise"
        } else {
            "**loss below the noise, stated above it**"
        }
        .to_owned();
    }
    let times = |lost: f64| lost / cost;
    let figures =
        format!("{:.1} × ({:.1} … {:.1})", times(loss), times(lost.at(0.25)), times(lost.at(0.75)));
    let good = (1.0 / FACTOR..=FACTOR).contains(&times(loss));
    if good { figures } else { format!("**{figures}**") }
}

/// Median and quartiles of differences.
fn signed(values: &Distribution) -> String {
    format!("{:+.1} % ({:+.1} … {:+.1})", values.median(), values.at(0.25), values.at(0.75))
}

/// The median of shares.
fn share(values: &Distribution) -> String {
    if values.len() > 0 { format!("{:.2} %", values.median()) } else { NONE.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of one second.
    fn window(operations: f64, cpu: f64, p99_ms: f64) -> Window {
        Window { operations, seconds: 1.0, cpu, p99_ms: Some(p99_ms) }
    }

    fn recorded(on: Window) -> Recorded {
        let stated = Some(Stated { cpu: 0.012, paused: 0.001 });
        // Together 10 µs of CPU time for each operation, 100,000 operations per second, 2 ms.
        let (before, after) = (window(90_000.0, 0.99, 1.0), window(110_000.0, 0.99, 3.0));
        Recorded { before, on, after, own_cpu: Some(0.05), stated }
    }

    #[test]
    fn a_window_is_compared_with_the_mean_of_its_neighbors() {
        // The mean of 11 and 9 µs is 10 µs.
        let one = recorded(window(95_000.0, 1.2 * 0.95, 2.5));
        assert!((one.cpu() - 20.0).abs() < 1e-9, "{}", one.cpu());
        assert!((one.throughput() + 5.0).abs() < 1e-9, "{}", one.throughput());
        assert!((one.p99().unwrap() - 25.0).abs() < 1e-9, "{:?}", one.p99());
        // 12 ms of 1.14 s.
        assert!((one.stated_cpu().unwrap() - 1.0526).abs() < 1e-3, "{:?}", one.stated_cpu());
        let silent = Recorded { on: Window { p99_ms: None, ..one.on }, stated: None, ..one };
        assert_eq!((silent.p99(), silent.stated_cpu()), (None, None));
    }

    #[test]
    fn a_stated_cost_is_held_against_the_loss() {
        let row = |name: &str, cpus: [f64; 3]| {
            // 5 % of CPU time are stated, and 0.5 % of pauses; outside are 5 % of one of two
            // processors.
            let stated = Some(Stated { cpu: 0.05, paused: 0.005 });
            let windows = cpus
                .map(|cpu| Recorded { stated, ..recorded(window(100_000.0, cpu, 2.0)) })
                .to_vec();
            Outcome { name: name.into(), windows, failed: None }
        };
        let mut noise = row(NOISE, [0.99, 1.0, 1.01]);
        noise.windows.iter_mut().for_each(|one| one.stated = None);
        let rows = [
            noise,
            row("right", [1.05, 1.08, 1.09]),
            row("too low", [1.2, 1.2, 1.2]),
            row("none", [1.0; 3]),
        ];
        let table = stated_and_lost("P", 2.0, &rows);
        let lines: Vec<&str> = table.lines().collect();
        assert!(
            lines[4].starts_with(
                "| right | 4.63 % | +8.0 % (+6.5 … +8.5) | 1.7 × (1.4 … 1.8) | 7.63 % |"
            ),
            "{table}"
        );
        assert!(lines[5].contains("| **4.8 × (4.8 … 4.8)** |"), "{table}");
        assert!(lines[6].contains("**loss below the noise, stated above it**"), "{table}");
        assert!(lines[8].starts_with("Noise: CPU 0.5 %"), "{table}");
        let cheap = Stated { cpu: 0.001, paused: 0.0 };
        let windows = rows[3].windows.iter().map(|one| Recorded {
            stated: Some(cheap),
            own_cpu: Some(0.0),
            ..*one
        });
        let cheap = Outcome { windows: windows.collect(), ..rows[3].clone() };
        let table = stated_and_lost("P", 2.0, &[rows[0].clone(), cheap]);
        assert!(table.contains("| both below the noise |"), "{table}");
    }

    #[test]
    fn what_drifts_cancels_out() {
        let drifting = Recorded {
            before: window(100.0, 0.1, 1.0),
            on: window(110.0, 0.11, 1.1),
            after: window(120.0, 0.12, 1.2),
            own_cpu: None,
            stated: None,
        };
        assert!(drifting.throughput().abs() < 1e-9 && drifting.cpu().abs() < 1e-9);
    }

    #[test]
    fn rounds_make_a_table_of_medians_and_quartiles() {
        let windows = [1.1, 1.2, 1.3].map(|cpu| recorded(window(100_000.0, cpu, 2.0))).to_vec();
        let unrecorded: Vec<Window> =
            windows.iter().flat_map(|one| [one.before, one.after]).collect();
        let none = |name: &str, failed: Option<&str>| Outcome {
            name: name.into(),
            windows: vec![],
            failed: failed.map(str::to_owned),
        };
        let broken = Outcome {
            name: "gc".into(),
            windows: windows.clone(),
            failed: Some("it ended".into()),
        };
        let outcomes = [
            Outcome { name: "default set".into(), windows, failed: None },
            none("cpu signals, 100 Hz", Some("no room")),
            none("interrupted before it began", None),
            broken,
        ];
        let table = table(".NET 9.0.5, service /ok", "request", &unrecorded, &outcomes);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "**.NET 9.0.5, service /ok**");
        assert!(lines[2].starts_with("| recording | CPU per request |"), "{table}");
        assert_eq!(
            lines[4],
            "| none | 10.00 µs (9.00 … 11.00) | 100000 /s (90000 … 110000) | 2.00 ms (1.00 … 3.00) \
                | · | · | · |"
        );
        assert_eq!(
            lines[5],
            "| default set | +20.0 % (+15.0 … +25.0) | +0.0 % (+0.0 … +0.0) | +0.0 % (+0.0 … +0.0) \
                | 1.00 % | 0.10 % | 5.00 % |"
        );
        assert_eq!(lines[6], "| cpu signals, 100 Hz | not measured | · | · | · | · | · |");
        assert!(lines[7].starts_with("| gc (failed after 3 windows) | +20.0 % (+15.0"), "{table}");
        assert_eq!(lines.len(), 8, "{table}");
    }
}
