//! Whether a process waits long for a processor whenever it is ready to run.
//!
//! The end of an event session can make .NET Core 3.1 hang for good when a thread that is just
//! writing an event gets no processor for a long time (see [`keeper`](crate::keeper)). So such
//! sessions are not started, and not ended, while that is so.

use super::proc;
use std::collections::HashMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// With more ready threads than this for each processor, on the machine, waits are looked at.
const CROWDED: usize = 6;
/// A process is overloaded when its threads wait longer than this for a processor, on the average.
const LIMIT: Duration = Duration::from_millis(20);
/// For how long waits are observed.
const WINDOW: Duration = Duration::from_millis(100);
/// How long it is waited between two observations: each reads a file for every thread.
const AGAIN: Duration = Duration::from_millis(200);

/// How long the threads of a process wait for a processor each time that they are ready to run, on
/// the average, if that is longer than it should be. Takes a tenth of a second on a machine with
/// many ready threads, and no time on others.
///
/// A process that is kept from processors by a quota alone is not overloaded: all of its threads
/// wait together.
pub fn of_process(pid: u32) -> Option<Duration> {
    if !is_crowded() {
        return None;
    }
    let before = waits(pid);
    sleep(WINDOW);
    mean(&before, &waits(pid)).filter(|wait| *wait > LIMIT)
}

/// Waits until a process is not overloaded, for `limit` at most. How long its threads wait for a
/// processor if it still is.
pub fn wait_until_over(pid: u32, limit: Duration) -> Option<Duration> {
    let until = Instant::now() + limit;
    loop {
        let wait = of_process(pid)?;
        if Instant::now() >= until {
            return Some(wait);
        }
        sleep(AGAIN);
    }
}

/// Whether many threads are ready to run, or running, on the whole machine: quotas and masks of
/// processors do not count (`/proc/loadavg` and `/proc/stat`, proc(5)).
fn is_crowded() -> bool {
    let of = |name| fs::read_to_string(name).unwrap_or_default();
    ready(&of("/proc/loadavg"))
        .is_some_and(|ready| ready > CROWDED && ready > CROWDED * processors(&of("/proc/stat")))
}

fn processors(stat: &str) -> usize {
    // The first line is the sum of those that have a number.
    stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count()
}

fn ready(loadavg: &str) -> Option<usize> {
    loadavg.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// For each thread, for how long it has waited for a processor, in nanoseconds, and how often it
/// got one.
fn waits(pid: u32) -> HashMap<u32, (u64, u64)> {
    let threads = proc::threads(pid).unwrap_or_default();
    threads.into_iter().filter_map(|tid| Some((tid, proc::thread_waits(pid, tid).ok()?))).collect()
}

/// The average of the waits that have ended between two times; `None` where there were none.
fn mean(before: &HashMap<u32, (u64, u64)>, after: &HashMap<u32, (u64, u64)>) -> Option<Duration> {
    let (mut waited, mut times) = (0u64, 0u64);
    for (tid, (wait, count)) in after {
        let (old_wait, old_count) = before.get(tid).copied().unwrap_or_default();
        waited += wait.saturating_sub(old_wait);
        times += count.saturating_sub(old_count);
    }
    waited.checked_div(times).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::thread::available_parallelism;

    #[test]
    fn waits_of_all_threads_count_once_each() {
        let before = HashMap::from([(1, (1_000, 2)), (2, (500, 9))]);
        let after = HashMap::from([(1, (7_000, 4)), (2, (500, 9)), (3, (3_000, 1))]);
        assert_eq!(mean(&before, &after), Some(Duration::from_nanos(3_000)));
        assert_eq!(mean(&before, &before), None);
    }

    #[test]
    fn the_ready_threads_of_the_machine_are_known() {
        assert_eq!(ready("0.20 0.18 0.12 13/80 11206\n"), Some(13));
        assert_eq!(ready(""), None);
        assert!(ready(&fs::read_to_string("/proc/loadavg").unwrap()).unwrap() >= 1);
        assert_eq!(processors("cpu  9 9 9\ncpu0 4 4 4\ncpu1 5 5 5\nintr 7\n"), 2);
    }

    #[test]
    fn many_more_busy_processes_than_processors_are_an_overload_until_they_end() {
        struct Busy(Vec<Child>);
        impl Drop for Busy {
            fn drop(&mut self) {
                for child in &mut self.0 {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        }
        let processors = available_parallelism().unwrap().get();
        let one = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let target = Busy(vec![one()]);
        let pid = target.0[0].id();
        let others = Busy((0..processors * 24).map(|_| one()).collect());
        let until = Instant::now() + Duration::from_secs(20);
        while of_process(pid).is_none() {
            assert!(Instant::now() < until, "{:?} is no overload", waits(pid));
        }
        assert!(wait_until_over(pid, Duration::ZERO).is_some());
        drop(others);
        assert_eq!(wait_until_over(pid, Duration::from_secs(20)), None);
    }
}
