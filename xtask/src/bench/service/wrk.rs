//! The load generator `wrk`: how it is run, and what its report says.

use super::interrupt::Interrupt;
use crate::tool;
use anyhow::{Context, Result, bail, ensure};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What wrk may take beyond its duration.
const END_LIMIT: Duration = Duration::from_secs(20);

/// A request that takes longer has failed. By default that is 2 s, which a machine that is busy
/// with other things exceeds.
const SLOW: &str = "30s";

/// How often a running wrk is looked at.
const POLL: Duration = Duration::from_millis(5);

/// What wrk measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests that were answered.
    pub requests: u64,
    /// How long it ran.
    pub seconds: f64,
    /// 99 of 100 requests were answered within this many milliseconds.
    pub p99_ms: f64,
}

/// Keeps a number of connections busy for a time, from one thread.
///
/// # Errors
/// When wrk is missing, fails, or got other answers than success, and when the benchmark is
/// interrupted.
pub fn run(url: &str, connections: u32, seconds: u64, interrupt: &Interrupt) -> Result<Load> {
    let mut command = Command::new("wrk");
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "--latency"]);
    command.args(["--timeout", SLOW, url]);
    let shown = tool::shown(&command);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.with_context(|| {
        format!(
            "cannot start `{shown}`: `cargo xtask setup` installs the load generator (Debian's \
            package is wrk)"
        )
    })?;
    let mut child = Killed(child);
    let until = Instant::now() + Duration::from_secs(seconds) + END_LIMIT;
    // Its report is shorter than a pipe holds, so that it can be read at its end.
    let status = loop {
        match child.0.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > until => {
                bail!("`{shown}` did not end in time; does the service hang?")
            }
            None => interrupt.sleep(POLL)?,
        }
    };
    interrupt.check()?;
    let mut text = String::new();
    child.0.stdout.take().context("no pipe")?.read_to_string(&mut text)?;
    if !status.success() {
        child.0.stderr.take().context("no pipe")?.read_to_string(&mut text)?;
        bail!("`{shown}` failed with {status}: {}", text.trim());
    }
    parse(&text).map_err(|error| anyhow::anyhow!("{error:#}; `{shown}` wrote:\n{text}"))
}

/// A child that is killed when this value goes.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // After its end there is nothing left to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the report of `wrk --latency` says.
fn parse(text: &str) -> Result<Load> {
    let (mut counted, mut p99) = (None, None);
    for line in text.lines().map(str::trim) {
        if let Some(errors) = line.strip_prefix("Socket errors:") {
            bail!("connections failed:{errors}; the service does not keep up, or has ended");
        }
        if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses:") {
            bail!("{} answers were no success; is the address right?", count.trim());
        }
        if let Some(latency) = line.strip_prefix("99%") {
            p99 = Some(seconds_of(latency.trim())? * 1e3);
        }
        if let Some((requests, rest)) = line.split_once(" requests in ") {
            let time = rest.split(',').next().unwrap_or_default();
            counted = Some((
                requests.parse::<u64>().with_context(|| format!("no number: {requests}"))?,
                seconds_of(time)?,
            ));
        }
    }
    let (requests, seconds) = counted.context("no line says how many requests there were")?;
    let p99_ms = p99.context("no line says the 99th percentile")?;
    ensure!(requests > 0 && seconds > 0.0, "no request was answered");
    Ok(Load { requests, seconds, p99_ms })
}

/// A time as wrk writes it, such as `812.00us` or `1.50m`.
fn seconds_of(text: &str) -> Result<f64> {
    let split = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .with_context(|| format!("no unit: {text}"))?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => bail!("an unknown unit: {text}"),
    };
    Ok(number.parse::<f64>().with_context(|| format!("no number: {text}"))? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
Running 3s test @ http://127.0.0.1:41327/ok
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   137.41us  215.92us   9.90ms   97.99%
    Req/Sec    62.07k     5.40k   70.15k    83.87%
  Latency Distribution
     50%  106.00us
     75%  142.00us
     90%  199.00us
     99%  812.00us
  191473 requests in 3.10s, 27.58MB read
Requests/sec:  61770.22
Transfer/sec:      8.90MB
";

    #[test]
    fn a_report_is_read() {
        assert_eq!(parse(REPORT).unwrap(), Load { requests: 191_473, seconds: 3.1, p99_ms: 0.812 });
        let slow = REPORT.replace("812.00us", "1.25s").replace("in 3.10s", "in 1.50m");
        assert_eq!(
            parse(&slow).unwrap(),
            Load { requests: 191_473, seconds: 90.0, p99_ms: 1250.0 }
        );
    }

    #[test]
    fn a_load_that_failed_is_an_error() {
        let bad = format!("{REPORT}  Non-2xx or 3xx responses: 626\n");
        assert!(parse(&bad).unwrap_err().to_string().contains("626"));
        let bad = format!("{REPORT}  Socket errors: connect 0, read 0, write 0, timeout 3\n");
        assert!(parse(&bad).unwrap_err().to_string().contains("timeout 3"));
        assert!(parse(&REPORT.replace("191473 requests", "0 requests")).is_err());
        assert!(
            parse(&REPORT.replace("99%  812", "98%  812"))
                .unwrap_err()
                .to_string()
                .contains("99th")
        );
        assert!(parse("unable to connect").is_err());
    }

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("0.00us", 0.0), ("17.66ms", 0.01766), ("2.00h", 7200.0)] {
            assert!((seconds_of(text).unwrap() - seconds).abs() < 1e-12, "{text}");
        }
        for text in ["", "12", "12.0days", "x1ms"] {
            assert!(seconds_of(text).is_err(), "{text}");
        }
    }

    /// The real program, with a port that has no listener.
    #[test]
    fn wrk_says_that_there_is_no_answer() {
        let error = run("http://127.0.0.1:1/", 1, 1, &Interrupt::never()).unwrap_err();
        assert!(format!("{error:#}").contains("unable to connect"), "{error:#}");
    }
}
