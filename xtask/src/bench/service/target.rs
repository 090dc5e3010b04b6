//! What is recorded: a service under load, and threads that hand work over. Both never stop, and
//! are measured in windows.

use super::interrupt::Interrupt;
use super::wrk;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::time::Duration;
use testkit::{Kiosk, Runtime, Sample, TargetProcess};

/// How long a program runs under load before it is measured: until its code is compiled for the
/// last time.
pub const WARM_UP: u64 = 10;

/// How long an answer of the hand-over program may take beyond its window.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// A program and its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Requests for a route of the service.
    Service {
        /// The route.
        route: &'static str,
        /// How many requests are under way at any time.
        connections: u32,
    },
    /// Two pairs of threads that hand work over.
    HandOver,
}

impl Work {
    /// Its name in tables and for `--only`.
    pub fn name(self) -> String {
        match self {
            Work::Service { route, connections } => {
                format!("service {route}, {connections} connections")
            }
            Work::HandOver => "hand-over, 2 pairs of threads".into(),
        }
    }

    /// What is counted.
    pub fn operation(self) -> &'static str {
        match self {
            Work::Service { .. } => "request",
            Work::HandOver => "hand-over",
        }
    }

    /// Starts it and keeps it busy until it is warm.
    ///
    /// # Errors
    /// When it does not work.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(self, runtime: Runtime, interrupt: &Interrupt) -> Result<Target> {
        let mut target = match self {
            Work::Service { route, connections } => {
                let kiosk = Kiosk::start();
                let url = kiosk.url(route);
                Target::Service { kiosk, url, connections }
            }
            Work::HandOver => {
                let mut process = Sample::named("handover").start(runtime, &["--pairs", "2"]);
                process.wait_for_ready();
                Target::HandOver(process)
            }
        };
        target.window(WARM_UP, interrupt)?;
        Ok(target)
    }
}

/// A running program.
pub enum Target {
    /// The service.
    Service {
        /// It.
        kiosk: Kiosk,
        /// The address that is asked for.
        url: String,
        /// How many requests are under way at any time.
        connections: u32,
    },
    /// The hand-over program.
    HandOver(TargetProcess),
}

/// Work done in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Requests or hand-overs.
    pub operations: f64,
    /// Length.
    pub seconds: f64,
    /// CPU time of the program, in seconds.
    pub cpu: f64,
    /// 99 of 100 requests were answered within this many milliseconds.
    pub p99_ms: Option<f64>,
}

impl Window {
    /// CPU time of one operation, in microseconds.
    pub fn cpu_per_operation(&self) -> f64 {
        self.cpu / self.operations * 1e6
    }

    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.operations / self.seconds
    }

    /// How many processors the program kept busy.
    pub fn processors(&self) -> f64 {
        self.cpu / self.seconds
    }
}

impl Target {
    /// The process.
    pub fn pid(&self) -> u32 {
        match self {
            Target::Service { kiosk, .. } => kiosk.process.pid(),
            Target::HandOver(process) => process.pid(),
        }
    }

    /// Measures a window of `seconds` seconds.
    ///
    /// # Errors
    /// When the program or its load fails, and when the benchmark is interrupted.
    pub fn window(&mut self, seconds: u64, interrupt: &Interrupt) -> Result<Window> {
        interrupt.check()?;
        let window = match self {
            Target::Service { kiosk, url, connections } => {
                let pid = kiosk.process.pid();
                let before = cpu_seconds(pid)?;
                let load = wrk::run(url, *connections, seconds, interrupt);
                // Why a load failed shows in what the service wrote, if it did not survive.
                interrupt.check()?;
                ensure!(
                    kiosk.process.is_running(),
                    "the service ended\n{}",
                    kiosk.process.transcript()
                );
                let load = load?;
                Window {
                    operations: load.requests as f64,
                    seconds: load.seconds,
                    cpu: cpu_seconds(pid)? - before,
                    p99_ms: Some(load.p99_ms),
                }
            }
            Target::HandOver(process) => {
                process.send_line(&format!("window {}", seconds * 1000))?;
                let limit = Duration::from_secs(seconds) + ANSWER_LIMIT;
                let answer = process.wait_for_line(limit, |line| line.starts_with('{'))?;
                handed_over(&serde_json::from_str(&answer)?)?
            }
        };
        ensure!(
            window.operations > 0.0 && window.cpu > 0.0,
            "the program did nothing in a window: {window:?}"
        );
        Ok(window)
    }
}

/// A window as the hand-over program says it.
fn handed_over(answer: &Value) -> Result<Window> {
    let number = |name: &str| {
        answer[name].as_f64().with_context(|| format!("the hand-over program answered {answer}"))
    };
    Ok(Window {
        operations: number("operations")?,
        seconds: number("wall_ns")? / 1e9,
        cpu: number("cpu_ns")? / 1e9,
        p99_ms: None,
    })
}

/// CPU time of a process with all threads that it has and had, in user and kernel mode, in steps of
/// 10 ms.
///
/// # Errors
/// When the process has ended.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text =
        fs::read_to_string(&path).with_context(|| format!("{path}: process {pid} has ended"))?;
    let ticks = cpu_ticks(&text).with_context(|| format!("{path} has no CPU time: {text}"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Fields 14 and 15 of `/proc/<pid>/stat`, proc(5). The second field is a name that may hold spaces
/// and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "77 (a ) b) S 1 77 77 0 -1 4194304 900 0 1 0 1234 66 7 8 20 0 12 0 1000 2 3";
        assert_eq!(cpu_ticks(stat), Some(1300));
        assert_eq!(cpu_ticks("77 (a) S 1 77"), None);
        let begun = std::time::Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed() < Duration::from_millis(100) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_seconds(std::process::id()).unwrap() > 0.0);
        assert!(cpu_seconds(u32::MAX).is_err());
    }

    #[test]
    fn the_hand_over_program_measures_a_window() {
        let answer = serde_json::json!({"operations": 50_000, "cpu_ns": 1_500_000_000_u64, "wall_ns": 1_000_000_000});
        let window = handed_over(&answer).unwrap();
        assert_eq!(
            (window.cpu_per_operation(), window.rate(), window.processors()),
            (30.0, 50_000.0, 1.5)
        );
        assert!(handed_over(&serde_json::json!({"error": "unknown command"})).is_err());
    }

    /// The real service under the real load; how fast it is does not matter here.
    #[test]
    fn the_service_is_measured() {
        let interrupt = Interrupt::never();
        let kiosk = Kiosk::start();
        let url = kiosk.url("/ok");
        let mut target = Target::Service { kiosk, url, connections: 2 };
        let window = target.window(1, &interrupt).unwrap();
        assert!(window.rate() > 10.0 && window.p99_ms > Some(0.0), "{window:?}");
    }
}
