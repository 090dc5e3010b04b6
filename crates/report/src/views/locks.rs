//! `locks`: waits for locks.

mod graph;

use profile::{NameStyle, Profile, SeriesKind, WaitTimes};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Cell, Section, Table, Tile, View, cells::with_place, is_wanted, json_part, left, right,
};
use crate::{Options, format, json::values::PlaceJson};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("locks", Json, json)),
    tab: ("locks", "Locks"),
    tile: Some(tile),
    rows_of: None,
};

fn tile(profile: &Profile) -> Option<Tile> {
    if profile.locks.waits.is_empty() && profile.run("locks").is_none() {
        return None;
    }
    let times = profile.locks.durations();
    let average = times.total as f64 / profile.duration().max(1) as f64;
    let tile = Tile::new("Waited for locks", format!("{average:.2}")).more("threads");
    Some(tile.note(match times.count {
        0 => "no wait".to_owned(),
        count => {
            format!("{}, longest {}", format::counted(count, "wait"), format::duration(times.max))
        }
    }))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Locks);
    is_shown.then(|| locks(profile, options))
}

fn locks(profile: &Profile, options: &Options) -> Section {
    let mut section = Section::new("Locks");
    let times = profile.locks.durations();
    if times.count == 0 {
        section.say("No thread had to wait for a lock.".to_owned());
        return section;
    }
    let rows = profile.lock_rows();
    let known = rows.iter().any(|row| row.lock.is_some());
    let seconds = profile.duration().max(1) as f64 / 1e9;
    section.say(format!(
        "{}, {}; threads waited {} in total. Half of the waits took up to {}, 90 % up to {}, 99 % \
         up to {}, the longest {}.",
        format::counted(times.count, "wait"),
        format::rate(times.count as f64 / seconds),
        format::duration(times.total),
        format::duration(times.p50),
        format::duration(times.p90),
        format::duration(times.p99),
        format::duration(times.max),
    ));
    if !known {
        section.say(
            "This runtime does not say which lock a thread waited for (.NET 8 and newer do): waits \
             are grouped by where they happened."
                .to_owned(),
        );
    }
    let hot = rows.iter().take(options.rows).map(|row| {
        let forms = [NameStyle::PLAIN, NameStyle::SHORT];
        let forms = forms.map(|style| profile.tables.function_name(row.waited_at.function, style));
        let more =
            if row.places > 1 { format!(" (+{} other)", row.places - 1) } else { String::new() };
        let forms = forms.into_iter().map(|form| form + &more).collect();
        vec![
            Cell::nanoseconds(row.waits.total),
            Cell::share(row.share),
            Cell::count(row.waits.count),
            Cell::nanoseconds(row.waits.p50),
            Cell::nanoseconds(row.waits.p90),
            Cell::nanoseconds(row.waits.p99),
            Cell::nanoseconds(row.waits.max),
            with_place(Cell::Name { forms, place: None }, profile, options, row.waited_at.line),
            Cell::text(
                row.owner.map_or("not known".to_owned(), |owner| profile.tables.thread_name(owner)),
            ),
        ]
    });
    let columns = vec![
        right("waited"),
        right("share"),
        right("waits"),
        right("p50"),
        right("p90"),
        right("p99"),
        right("max"),
        left("mostly waited in"),
        left("mostly held by"),
    ];
    section.extend(graph::figure(profile));
    section.add(Table::new(columns, hot));
    section.add(histogram(&times));
    section
}

fn histogram(times: &WaitTimes) -> Table {
    let bars = times.histogram.iter().map(|(from, count)| {
        let share = *count as f64 / times.count as f64;
        vec![Cell::nanoseconds(*from), Cell::count(*count), Cell::Bar(share)]
    });
    let columns = vec![right("waits from"), right("number"), left("")];
    Table::new(columns, bars)
}

/// Waits for locks.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Locks")]
struct Json {
    /// How long all waits were, nanoseconds.
    waits_ns: WaitTimesJson,
    /// Longest waits first.
    locks: Vec<LockJson>,
}

/// Waits for a lock.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Lock")]
struct LockJson {
    /// The runtime's number of the lock, as hexadecimal text; null before .NET 8, where there is
    /// one row for each place where threads waited instead.
    lock: Option<String>,
    /// How long the waits for it were, nanoseconds.
    waits_ns: WaitTimesJson,
    /// Share in the time of all waits, 0 to 1.
    share: f64,
    /// Where most of that time was spent.
    waited_at: PlaceJson,
    /// In how many places threads waited for it.
    places: u64,
    /// How many threads waited for it.
    threads: u64,
    /// The thread that held it during most of that time, where known: index in `threads` of the
    /// report.
    owner: Option<u32>,
}

/// Waits, and how long they were, nanoseconds.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WaitTimes")]
struct WaitTimesJson {
    /// Number of waits.
    count: u64,
    /// Their sum.
    total: u64,
    /// The median.
    p50: u64,
    /// 90 % are at most this.
    p90: u64,
    /// 99 % are at most this.
    p99: u64,
    /// The longest.
    max: u64,
    /// Waits by powers of two of nanoseconds; only those that occur.
    histogram: Vec<BucketJson>,
}

/// Waits from a power of two up to the next.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WaitBucket")]
struct BucketJson {
    /// Nanoseconds: a power of two, or 0.
    from: u64,
    count: u64,
}

impl From<&WaitTimes> for WaitTimesJson {
    fn from(times: &WaitTimes) -> Self {
        let &WaitTimes { count, total, p50, p90, p99, max, .. } = times;
        let histogram = times.histogram.iter();
        let histogram = histogram.map(|(from, count)| BucketJson { from: *from, count: *count });
        Self { count, total, p50, p90, p99, max, histogram: histogram.collect() }
    }
}

fn json(profile: &Profile) -> Json {
    let rows = profile.lock_rows();
    let locks = rows.iter().map(|row| LockJson {
        // As text: JavaScript has no whole numbers of 64 bits.
        lock: row.lock.map(|lock| format!("{lock:#x}")),
        waits_ns: (&row.waits).into(),
        share: row.share,
        waited_at: (&row.waited_at).into(),
        places: row.places,
        threads: row.threads,
        owner: row.owner.map(|owner| owner.0),
    });
    Json { waits_ns: (&profile.locks.durations()).into(), locks: locks.collect() }
}
