use std::{cmp::Reverse, collections::HashMap};

use profilers::dns::{Begun, Ended, SPEC};
use session::Nanos;

use crate::{Profile, series::add};

/// What the profiler `dns` has recorded, in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DnsSummary {
    /// All lookups.
    pub all: Lookups,
    /// Lookups by host, those first that took longest.
    pub hosts: Vec<HostLookups>,
}

/// Lookups in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// How many began.
    pub count: u64,
    /// How many failed.
    pub failed: u64,
    /// How many have no known end.
    pub open: u64,
    /// How long those with a known end took together.
    pub took: Nanos,
    /// The longest of them.
    pub longest: Nanos,
}

/// Lookups of one host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostLookups {
    /// Its name or address, as the program writes it.
    pub host: String,
    /// Its lookups.
    pub lookups: Lookups,
    /// Share of their time in that of all hosts, 0 to 1.
    pub share: f64,
}

impl Lookups {
    fn add(&mut self, ended: &Ended) {
        self.open = self.open.saturating_sub(1);
        self.failed += u64::from(ended.failed);
        add(&mut self.took, ended.took);
        self.longest = self.longest.max(ended.took);
    }

    /// How long one took on average, if the end of one is known.
    pub fn average(&self) -> Option<Nanos> {
        self.took.checked_div(self.count - self.open)
    }
}

impl Profile {
    /// Which hosts were looked up; `None` where that was not recorded.
    pub fn dns_summary(&self) -> Option<DnsSummary> {
        let (begun, ended) = (self.rows::<Begun>(), self.rows::<Ended>());
        (self.run(SPEC.id).is_some() || !begun.is_empty()).then(|| summary(begun, &ended))
    }
}

fn summary(begun: Vec<Begun>, ended: &[Ended]) -> DnsSummary {
    let mut all = Lookups::default();
    let mut hosts: HashMap<String, Lookups> = HashMap::new();
    for Begun { host, .. } in begun {
        for lookups in [&mut all, hosts.entry(host).or_default()] {
            lookups.count += 1;
            lookups.open += 1;
        }
    }
    for ended in ended {
        if let Some(lookups) = hosts.get_mut(&ended.host) {
            lookups.add(ended);
            all.add(ended);
        }
    }
    let host = |(host, lookups): (String, Lookups)| {
        let share = lookups.took as f64 / all.took.max(1) as f64;
        HostLookups { host, lookups, share }
    };
    let mut hosts: Vec<HostLookups> = hosts.into_iter().map(host).collect();
    hosts.sort_by(|one, other| {
        let order = |of: &HostLookups| Reverse((of.lookups.took, of.lookups.count));
        order(one).cmp(&order(other)).then_with(|| one.host.cmp(&other.host))
    });
    DnsSummary { all, hosts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rows::ThreadId;

    const THREAD: ThreadId = ThreadId(0);

    #[test]
    fn lookups_are_summed_by_host() {
        let begun = ["a", "b", "a", "a", "c"];
        let begun = begun.map(|host| Begun { time: 1, thread: THREAD, host: host.to_owned() });
        let ended = [("a", 10, false), ("b", 70, true), ("a", 20, false)];
        let ended = ended.map(|(host, took, failed)| Ended {
            time: 1,
            thread: THREAD,
            host: host.to_owned(),
            took,
            failed,
        });
        let found = summary(begun.into(), &ended);
        assert_eq!(found.all, Lookups { count: 5, failed: 1, open: 2, took: 100, longest: 70 });
        let hosts: Vec<_> = found.hosts.iter().map(|of| (of.host.as_str(), of.share)).collect();
        assert_eq!(hosts, [("b", 0.7), ("a", 0.3), ("c", 0.0)]);
        let a = found.hosts[1].lookups;
        assert_eq!(a, Lookups { count: 3, failed: 0, open: 1, took: 30, longest: 20 });
        assert_eq!((a.average(), found.hosts[2].lookups.average()), (Some(15), None));
    }
}
