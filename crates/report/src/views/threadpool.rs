//! `threadpool`: the queue, the workers, and what blocks them.

use std::collections::BTreeMap;

use profile::{
    NameStyle, PoolHealth, PoolSummary, Profile, QueueEvidence, STATES, SeriesKind,
    profilers::threadpool::{PoolChange, PoolEvent},
    session::ThreadState,
    state_id, state_index,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Cell, Section, Table, Tile, Unit, View,
    cells::{place_cell, state_word},
    is_wanted, json_part, left, right,
};
use crate::{
    Options, format,
    json::values::{PlaceJson, PointJson, since, state_schema},
};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("threadpool", Json<'_>, json)),
    tab: ("pool", "Thread pool"),
    tile: Some(tile),
    rows_of: None,
};

fn tile(profile: &Profile) -> Option<Tile> {
    if profile.pool.series.is_empty() && profile.run("threadpool").is_none() {
        return None;
    }
    let summary = profile.pool_summary();
    let tile = Tile::new("Thread pool", summary.health.id());
    Some(tile.note(if profile.pool.series.is_empty() { "no worker was seen" } else { "" }))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Pool);
    is_shown.then(|| threadpool(profile, options))
}

/// What the health of a thread pool rests on, in sentences.
pub fn pool_verdict(profile: &Profile, summary: &PoolSummary) -> String {
    let share = format::percent(summary.queued.unwrap_or_default());
    let (waited, samples) = match summary.evidence {
        QueueEvidence::Length => {
            (format!("items waited in {share} of the queue samples"), "queue samples")
        }
        QueueEvidence::Workers => {
            (format!("items waited, and no worker was free, in {share} of the seconds"), "seconds")
        }
    };
    let (all, meanwhile) = (format::percent(summary.blocked.0), format::percent(summary.blocked.1));
    let mostly = summary.blocking.first().map_or(String::new(), |row| {
        let name = profile.tables.function_name(row.place.function, NameStyle::SHORT);
        format!(" Mostly they wait for {} in {name}.", waited_for(row.state))
    });
    match summary.health {
        PoolHealth::Starved => format!(
            "Starved: {waited}, and the workers were blocked \
             {meanwhile} of their time meanwhile.{mostly}"
        ),
        PoolHealth::Blocking => format!(
            "Workers block: {all} of the time of those that had work. The pool compensates with \
             more threads; {waited}.{mostly}"
        ),
        PoolHealth::Busy => format!(
            "Busy, not starved: {waited}, while the workers \
             ran; they were blocked {meanwhile} of their time."
        ),
        PoolHealth::Healthy => format!(
            "Healthy: {waited}; workers with work were \
                blocked {all} of the time."
        ),
        PoolHealth::Unknown => {
            format!("Too little data to judge: fewer than three {samples}, or no worker at work.")
        }
    }
}

/// What blocked workers wait for.
pub fn waited_for(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Task => "tasks (sync over async)",
        ThreadState::Sleep => "time (sleep)",
        ThreadState::Lock => "locks",
        ThreadState::Event => "events and semaphores",
        ThreadState::Io => "input or output",
        state => state_word(state),
    }
}

/// The counters of the thread pool, with their words.
pub const POOL_COUNTERS: [(&str, &str); 3] = [
    ("queue-length", "items in the queue"),
    ("thread-count", "threads"),
    ("completed-items-count", "finished items /s"),
];

fn threadpool(profile: &Profile, options: &Options) -> Section {
    let mut section = Section::new("Thread pool");
    let summary = profile.pool_summary();
    section.say(pool_verdict(profile, &summary));
    let mut facts = Vec::new();
    if let Some((min, max)) = summary.limits {
        facts.push(format!(
            "between {} and {} are allowed",
            format::count(min.into()),
            format::count(max.into())
        ));
    }
    if summary.started + summary.stopped > 0 {
        let (started, stopped) = (format::count(summary.started), format::count(summary.stopped));
        facts.push(format!("{started} began, {stopped} ended"));
    }
    if !facts.is_empty() {
        section.say(format!("Workers: {}.", facts.join("; ")));
    }
    section.extend(counters(profile));
    section.extend(adjustments(profile, &summary));
    section.extend(at_work(&summary));
    section.extend(blocking(profile, options, &summary));
    section
}

fn counters(profile: &Profile) -> Option<Table> {
    let rows = POOL_COUNTERS.iter().filter_map(|(name, word)| {
        let counter = profile.pool_counter(name)?;
        let known = counter.summary()?;
        let mut row = vec![Cell::text(*word)];
        row.extend(
            [known.last, known.mean, known.max].map(|value| Cell::quantity(value, Unit::Number)),
        );
        row.push(Cell::Line(counter.values.iter().map(|(_, value)| *value).collect()));
        Some(row)
    });
    let columns = vec![left(""), right("last"), right("mean"), right("most"), left("over time")];
    Table::of(columns, rows)
}

/// How the pool changed the number of its workers.
fn adjustments(profile: &Profile, summary: &PoolSummary) -> Option<Table> {
    let rows = summary.adjustments.iter().map(|row| {
        let at =
            |time: u64| format!("{:.1} s", time.saturating_sub(profile.info.start) as f64 / 1e9);
        vec![
            Cell::text(&row.reason),
            Cell::count(row.count),
            Cell::text(format!("{:+}", row.workers)),
            Cell::text(at(row.times.0)),
            Cell::text(at(row.times.1)),
        ]
    });
    let columns = vec![
        left("number of workers changed for"),
        right("times"),
        right("by"),
        right("first"),
        right("last"),
    ];
    Table::of(columns, rows)
}

/// What workers with work did.
fn at_work(summary: &PoolSummary) -> Option<Table> {
    let mut kinds: Vec<(ThreadState, u64)> = STATES
        .into_iter()
        .filter(|state| *state != ThreadState::Idle && summary.at_work > 0)
        .map(|state| (state, summary.by_state[state_index(state)]))
        .filter(|(_, time)| *time > 0)
        .collect();
    order::sort_by_key(&mut kinds, |(state, time)| (std::cmp::Reverse(*time), *state));
    let rows = kinds.into_iter().map(|(state, time)| {
        let share = time as f64 / summary.at_work as f64;
        let word = if profile::blocks(state) { waited_for(state) } else { state_word(state) };
        vec![Cell::share(share), Cell::Bar(share), Cell::nanoseconds(time), Cell::text(word)]
    });
    let columns = vec![
        right("share"),
        left(""),
        right("time"),
        left("workers with work: running, or waiting for"),
    ];
    Table::of(columns, rows)
}

/// Where workers were blocked.
fn blocking(profile: &Profile, options: &Options, summary: &PoolSummary) -> Option<Table> {
    let rows = summary.blocking.iter().take(options.rows).map(|row| {
        vec![
            Cell::share(row.share),
            Cell::nanoseconds(row.time),
            Cell::nanoseconds(row.time_queued),
            Cell::count(row.threads),
            Cell::text(waited_for(row.state)),
            place_cell(profile, options, &row.place, ""),
        ]
    });
    let columns = vec![
        right("share"),
        right("time"),
        right("while items waited"),
        right("workers"),
        left("wait for"),
        left("in"),
    ];
    Table::of(columns, rows)
}

/// The thread pool: its queue, its workers, and what blocks them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ThreadPool")]
struct Json<'a> {
    #[schemars(extend("enum" = ["starved", "blocking", "busy", "healthy", "unknown"]))]
    health: &'static str,
    /// The verdict in words.
    verdict: String,
    /// What says whether items waited: `length` (samples of the queue length) or `workers` (on
    /// runtimes that do not report it: what the workers did, second by second).
    #[schemars(extend("enum" = ["length", "workers"]))]
    queue_evidence: &'static str,
    /// Share of the queue samples that found items in the queue, or of the seconds in which items
    /// waited and no worker was free; 0 to 1, null where nothing is known.
    queued_share: Option<f64>,
    /// Share of the time of workers with work in which they were blocked, 0 to 1.
    blocked_share: f64,
    /// The same while items were queued.
    blocked_share_while_queued: f64,
    /// Time of all workers by state, nanoseconds; only states that occur.
    time_ns: BTreeMap<&'static str, u64>,
    /// Time of workers with work, nanoseconds.
    at_work_ns: u64,
    /// Fewest workers, where the runtime reported it.
    min_workers: Option<u32>,
    /// Most workers, where the runtime reported it.
    max_workers: Option<u32>,
    workers_started: u64,
    workers_stopped: u64,
    /// Values of `queue_length`, `thread_count` and `completed_items_count`; empty on .NET Core 3.1
    /// and .NET 5.
    counters: BTreeMap<String, Vec<PointJson>>,
    /// How the pool changed the number of its workers.
    adjustments: Vec<AdjustmentJson>,
    /// By time.
    events: Vec<EventJson<'a>>,
    /// Where workers were blocked, longest first.
    blocking: Vec<BlockingJson>,
}

/// Changes of the number of workers for one reason.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PoolAdjustment")]
struct AdjustmentJson {
    /// In the words of the runtime.
    reason: String,
    /// Number of changes.
    count: u64,
    /// By how many workers in total.
    workers: i64,
    /// The first, nanoseconds since the start of the recording.
    first_ns: u64,
    /// The last, nanoseconds since the start of the recording.
    last_ns: u64,
}

/// Something that happened to the thread pool. `time_ns` is nanoseconds since the start of the
/// recording.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "what", rename_all = "lowercase")]
#[schemars(rename = "PoolEvent")]
enum EventJson<'a> {
    /// A worker began.
    Started {
        time_ns: u64,
        /// Workers that are active now.
        workers: u32,
    },
    /// A worker ended.
    Stopped {
        time_ns: u64,
        /// Workers that are active now.
        workers: u32,
    },
    /// The pool changed the number of workers that it wants.
    Adjusted {
        time_ns: u64,
        /// Workers that it wants now.
        workers: u32,
        /// Finished items per second that it has measured.
        throughput: f64,
        /// In the words of the runtime.
        reason: &'a str,
    },
    /// The limits of the number of workers were set.
    Limits { time_ns: u64, min: u32, max: u32 },
}

/// Workers that were blocked in one place.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PoolBlocking")]
struct BlockingJson {
    #[schemars(schema_with = "state_schema")]
    state: &'static str,
    at: PlaceJson,
    /// Index in `stacks`.
    stack: u32,
    /// Blocked time, nanoseconds.
    time_ns: u64,
    /// The part of it while items were queued, nanoseconds.
    time_while_queued_ns: u64,
    /// Share in the time of workers with work, 0 to 1.
    share: f64,
    /// Number of workers.
    threads: u64,
}

fn json(profile: &Profile) -> Json<'_> {
    let summary = profile.pool_summary();
    let by_state = STATES.iter().zip(summary.by_state).filter(|(_, time)| *time > 0);
    let counters = POOL_COUNTERS.iter().filter_map(|(name, _)| {
        let values = profile.pool_counter(name)?.values.iter();
        let values = values.map(|(time, value)| PointJson::of(profile, *time, *value));
        Some((name.replace('-', "_"), values.collect()))
    });
    let blocking = summary.blocking.iter().map(|row| BlockingJson {
        state: state_id(row.state),
        at: (&row.place).into(),
        stack: row.stack.0,
        time_ns: row.time,
        time_while_queued_ns: row.time_queued,
        share: row.share,
        threads: row.threads,
    });
    Json {
        health: summary.health.id(),
        verdict: pool_verdict(profile, &summary),
        queue_evidence: summary.evidence.id(),
        queued_share: summary.queued,
        blocked_share: summary.blocked.0,
        blocked_share_while_queued: summary.blocked.1,
        time_ns: by_state.map(|(state, time)| (state_id(*state), time)).collect(),
        at_work_ns: summary.at_work,
        min_workers: summary.limits.map(|(min, _)| min),
        max_workers: summary.limits.map(|(_, max)| max),
        workers_started: summary.started,
        workers_stopped: summary.stopped,
        counters: counters.collect(),
        blocking: blocking.collect(),
        events: profile.pool.events.iter().map(|event| event_json(profile, event)).collect(),
        adjustments: (summary.adjustments.into_iter())
            .map(|row| AdjustmentJson {
                reason: row.reason,
                count: row.count,
                workers: row.workers,
                first_ns: since(profile, row.times.0),
                last_ns: since(profile, row.times.1),
            })
            .collect(),
    }
}

fn event_json<'a>(profile: &Profile, event: &'a PoolEvent) -> EventJson<'a> {
    let (time_ns, workers) = (since(profile, event.time), event.workers);
    match event.change {
        PoolChange::Started => EventJson::Started { time_ns, workers },
        PoolChange::Stopped => EventJson::Stopped { time_ns, workers },
        PoolChange::Adjusted => EventJson::Adjusted {
            time_ns,
            workers,
            throughput: event.throughput.unwrap_or_default(),
            reason: event.reason.as_deref().unwrap_or_default(),
        },
        PoolChange::Limits => {
            EventJson::Limits { time_ns, min: workers, max: event.most.unwrap_or_default() }
        }
    }
}
