//! `dns`: which hosts are looked up, how long that takes, and which fail.

use profile::{DnsSummary, HostLookups, Lookups, Profile, profilers::dns::SPEC};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Cell, Section, Table, View, json_part, left, right};
use crate::{Options, format};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("dns", Json, json)),
    tab: (SPEC.id, "DNS lookups"),
    tile: None,
    rows_of: Some(SPEC.id),
};

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let summary = profile.dns_summary().filter(|_| options.series.is_none())?;
    let mut section = Section::new("DNS lookups");
    let Lookups { count, failed, open, took, longest } = summary.all;
    if count == 0 {
        section.say("The program looked up no host.");
        return Some(section);
    }
    section.say(format!(
        "{} of {}, {}; {} failed; they took {} in total and {} at most.",
        format::counted(count, "lookup"),
        format::counted(summary.hosts.len() as u64, "host"),
        format::rate(count as f64 / seconds(profile)),
        format::count(failed),
        format::duration(took),
        format::duration(longest),
    ));
    if open > 0 {
        section.say(format!(
            "The end of {} is not known: whether they failed, and how long they took.",
            format::counted(open, "lookup")
        ));
    }
    section.add(hosts(options, &summary));
    Some(section)
}

fn seconds(profile: &Profile) -> f64 {
    profile.duration().max(1) as f64 / 1e9
}

fn hosts(options: &Options, summary: &DnsSummary) -> Table {
    let columns = vec![
        right("share"),
        right("time"),
        right("lookups"),
        right("failed"),
        right("average"),
        right("longest"),
        left("host"),
    ];
    let rows = summary.hosts.iter().map(|HostLookups { host, lookups, share }| {
        vec![
            Cell::share(*share),
            Cell::nanoseconds(lookups.took),
            Cell::count(lookups.count),
            Cell::count(lookups.failed),
            lookups.average().map_or(Cell::Nothing, Cell::nanoseconds),
            Cell::nanoseconds(lookups.longest),
            Cell::name(host),
        ]
    });
    Table::top(columns, rows, options.rows)
}

/// Which hosts the program looked up.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Dns")]
struct Json {
    /// All of them.
    #[serde(flatten)]
    all: LookupsJson,
    /// By host, those first that took longest.
    hosts: Vec<HostJson>,
}

/// Lookups in numbers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Lookups")]
struct LookupsJson {
    /// Lookups that began.
    lookups: u64,
    failed: u64,
    /// Those whose end is not known.
    open: u64,
    /// How long those with a known end took together.
    took_ns: u64,
    longest_ns: u64,
}

/// Lookups of one host.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HostLookups")]
struct HostJson {
    /// Its name or address, as the program writes it.
    host: String,
    #[serde(flatten)]
    of: LookupsJson,
    /// Share in the time of all hosts, 0 to 1.
    share: f64,
}

impl From<Lookups> for LookupsJson {
    fn from(of: Lookups) -> Self {
        let Lookups { count, failed, open, took, longest } = of;
        Self { lookups: count, failed, open, took_ns: took, longest_ns: longest }
    }
}

fn json(profile: &Profile) -> Json {
    let DnsSummary { all, hosts } = profile.dns_summary().unwrap_or_default();
    let host = |HostLookups { host, lookups, share }: HostLookups| HostJson {
        host,
        of: lookups.into(),
        share,
    };
    Json { all: all.into(), hosts: hosts.into_iter().map(host).collect() }
}
