//! What the kernel says of processors: which a process may use, how busy they are, and what its
//! control groups allow.

use super::limits::groups;
use super::proc::clock_ticks_per_second;
use std::fs;
use std::path::PathBuf;

/// How much CPU time the processes of a control group may use together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time in each period, nanoseconds.
    pub time: u64,
    /// Length of a period, nanoseconds.
    pub period: u64,
}

impl Quota {
    /// In processors.
    #[must_use]
    pub fn processors(self) -> f64 {
        self.time as f64 / self.period.max(1) as f64
    }
}

/// How often the quota of a control group was used up, since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the group had something to run.
    pub periods: u64,
    /// Those in which the quota was used up.
    pub throttled_periods: u64,
    /// For how long the group was kept from running, the sum over all processors, nanoseconds.
    pub throttled: u64,
}

/// A control group of the CPU controller that has a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuGroup {
    folder: PathBuf,
}

impl CpuGroup {
    /// The group of a process and those above it, as far as they can be seen and have a quota now.
    #[must_use]
    pub fn of_process(pid: u32) -> Vec<Self> {
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let all = groups(&cgroup, "cpu").into_iter().map(|folder| Self { folder });
        all.filter(|group| group.quota().is_some()).collect()
    }

    /// Its quota; `None` if it has none.
    #[must_use]
    pub fn quota(&self) -> Option<Quota> {
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).ok();
        match read("cpu.max") {
            Some(text) => quota_2(&text),
            None => quota_1(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?),
        }
    }

    /// How often it was used up.
    #[must_use]
    pub fn throttling(&self) -> Option<Throttling> {
        throttling(&fs::read_to_string(self.folder.join("cpu.stat")).ok()?)
    }
}

/// `cpu.max` of version 2: `max 100000` or `50000 100000`, microseconds.
fn quota_2(text: &str) -> Option<Quota> {
    let (time, period) = text.trim().split_once(' ')?;
    quota_1(time, period)
}

/// `cpu.cfs_quota_us` (-1 for none) and `cpu.cfs_period_us` of version 1.
fn quota_1(time: &str, period: &str) -> Option<Quota> {
    let nanos = |text: &str| text.trim().parse::<u64>().ok()?.checked_mul(1000);
    let (time, period) = (nanos(time)?, nanos(period)?);
    (period > 0).then_some(Quota { time, period })
}

/// `cpu.stat` of either version.
fn throttling(text: &str) -> Option<Throttling> {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    // Microseconds in version 2, nanoseconds in version 1.
    let in_micros = number("throttled_usec").map(|micros| micros.saturating_mul(1000));
    Some(Throttling {
        periods: number("nr_periods")?,
        throttled_periods: number("nr_throttled")?,
        throttled: in_micros.or_else(|| number("throttled_time"))?,
    })
}

/// The processors that the main thread of a process may run on.
#[must_use]
pub fn allowed(pid: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(list)
        .unwrap_or_default()
}

/// Numbers such as `0-3,7`. There are at most 8192 processors (`CONFIG_NR_CPUS`).
fn list(text: &str) -> Vec<u32> {
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?.min(8191))
    });
    ranges.flatten().collect()
}

/// For how long processors were busy since the machine started, and how long they were there,
/// nanoseconds. What the machine below a virtual one took counts as busy. `None` where `/proc/stat`
/// has none of them.
#[must_use]
pub fn busy(processors: &[u32]) -> Option<(u64, u64)> {
    busy_of(&fs::read_to_string("/proc/stat").ok()?, processors)
}

fn busy_of(stat: &str, processors: &[u32]) -> Option<(u64, u64)> {
    let nanos = |ticks: u64| ticks.saturating_mul(1_000_000_000 / clock_ticks_per_second());
    let mut found = None;
    for line in stat.lines() {
        let Some((name, times)) = line.split_once(' ') else { continue };
        let number = name.strip_prefix("cpu").and_then(|number| number.parse::<u32>().ok());
        if !number.is_some_and(|number| processors.contains(&number)) {
            continue;
        }
        // user nice system idle iowait irq softirq steal; time of guests is in user and nice
        // already.
        let times: Vec<u64> =
            times.split_whitespace().take(8).filter_map(|time| time.parse().ok()).collect();
        let all: u64 = times.iter().sum();
        let idle: u64 = times.get(3..5)?.iter().sum();
        let (busy, there) = found.unwrap_or((0, 0));
        found = Some((busy + nanos(all - idle), there + nanos(all)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_both_versions() {
        let half = Quota { time: 50_000_000, period: 100_000_000 };
        assert_eq!(
            (quota_2("50000 100000\n"), quota_1("50000\n", "100000\n")),
            (Some(half), Some(half))
        );
        assert_eq!(
            (quota_2("max 100000\n"), quota_1("-1\n", "100000\n"), quota_2("")),
            (None, None, None)
        );
        assert!((half.processors() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn throttling_of_both_versions() {
        let expected = Some(Throttling { periods: 40, throttled_periods: 7, throttled: 9_000 });
        let version_2 = "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 40\nnr_throttled 7\n\
                         throttled_usec 9\n\
                         nr_bursts 0\nburst_usec 0\n";
        assert_eq!(throttling(version_2), expected);
        assert_eq!(throttling("nr_periods 40\nnr_throttled 7\nthrottled_time 9000\n"), expected);
        // The root of version 2 has no quota, and says nothing of it.
        assert_eq!(throttling("usage_usec 5\nuser_usec 3\nsystem_usec 2\n"), None);
    }

    #[test]
    fn processors_are_listed_and_their_time_is_summed() {
        assert_eq!(list(" 0-2,7\n"), [0, 1, 2, 7]);
        assert_eq!((list(""), list("x-3"), list("0-4294967295").len()), (vec![], vec![], 8192));
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 1 1 5 1 0 0 1 9 9\ncpu1 2 0 0 8 0 0 0 0 0 0\n\
            intr 7\n";
        let tick = 1_000_000_000 / clock_ticks_per_second();
        assert_eq!(busy_of(stat, &[0]), Some((4 * tick, 10 * tick)));
        assert_eq!(busy_of(stat, &[0, 1]), Some((6 * tick, 20 * tick)));
        assert_eq!((busy_of(stat, &[2]), busy_of("", &[0])), (None, None));
    }

    #[test]
    fn our_own_processors_are_there() {
        let own = allowed(std::process::id());
        let (busy, there) = busy(&own).unwrap();
        assert!(!own.is_empty() && busy > 0 && there > busy, "{own:?} {busy} {there}");
    }
}
