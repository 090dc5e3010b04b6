//! `threadpool`: the queue, the workers, and what blocks them.

use profile::{
    NameStyle, PoolHealth, PoolSummary, Profile, QueueEvidence, STATES, SeriesKind,
    session::{PoolChange, ThreadState},
    state_id, state_index,
};
use serde_json::{Value, json};

use super::{
    Cell, Section, Table, View,
    cells::{place_cell, state_word},
    is_wanted, left, right,
};
use crate::{
    Options, format,
    html::{Interner, MOST_POINTS, MOST_ROWS, at, micros},
    json::{place, since},
};

pub const VIEW: View =
    View { section, json: Some(("threadpool", json)), page: Some(("pool", page)) };

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
    let mut section =
        Section { title: "Thread pool".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let summary = profile.pool_summary();
    section.lead.push(pool_verdict(profile, &summary));
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
        section.lead.push(format!("Workers: {}.", facts.join("; ")));
    }
    section.tables.extend(counters(profile));
    section.tables.extend(adjustments(profile, &summary));
    section.tables.extend(at_work(&summary));
    section.tables.extend(blocking(profile, options, &summary));
    section
}

fn counters(profile: &Profile) -> Option<Table> {
    let rows = POOL_COUNTERS.iter().filter_map(|(name, word)| {
        let counter = profile.pool_counter(name)?;
        let known = counter.summary()?;
        let mut row = vec![Cell::text(*word)];
        row.extend(
            [known.last, known.mean, known.max].map(|value| Cell::text(format::number(value))),
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
            Cell::text(format::count(row.count)),
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
    kinds.sort_by_key(|(state, time)| (std::cmp::Reverse(*time), *state));
    let rows = kinds.into_iter().map(|(state, time)| {
        let share = time as f64 / summary.at_work as f64;
        let word = if profile::blocks(state) { waited_for(state) } else { state_word(state) };
        vec![
            Cell::text(format::percent(share)),
            Cell::Bar(share),
            Cell::text(format::duration(time)),
            Cell::text(word),
        ]
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
            Cell::text(format::percent(row.share)),
            Cell::text(format::duration(row.time)),
            Cell::text(format::duration(row.time_queued)),
            Cell::text(format::count(row.threads)),
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

fn json(profile: &Profile) -> Value {
    let summary = profile.pool_summary();
    let by_state = STATES.iter().zip(summary.by_state).filter(|(_, time)| *time > 0);
    json!({
        "health": summary.health.id(),
        "verdict": pool_verdict(profile, &summary),
        "queue_evidence": summary.evidence.id(),
        "queued_share": summary.queued,
        "blocked_share": summary.blocked.0,
        "blocked_share_while_queued": summary.blocked.1,
        "time_ns": by_state.map(|(state, time)| (state_id(*state).to_owned(), json!(time))).collect::<serde_json::Map<_, _>>(),
        "at_work_ns": summary.at_work,
        "min_workers": summary.limits.map(|(min, _)| min),
        "max_workers": summary.limits.map(|(_, max)| max),
        "workers_started": summary.started,
        "workers_stopped": summary.stopped,
        "counters": POOL_COUNTERS.iter().filter_map(|(name, _)| {
            let values = profile.pool_counter(name)?.values.iter().copied();
            let values = values.map(|(time, value)| json!({"time_ns": since(profile, time), "value": value}));
            Some((name.replace('-', "_"), Value::Array(values.collect())))
        }).collect::<serde_json::Map<_, _>>(),
        "adjustments": summary.adjustments.iter().map(|row| json!({
            "reason": row.reason, "count": row.count, "workers": row.workers,
            "first_ns": since(profile, row.times.0), "last_ns": since(profile, row.times.1),
        })).collect::<Vec<_>>(),
        "events": profile.pool.events.iter().map(|event| {
            let mut value = match &event.change {
                PoolChange::Started { active } => json!({"what": "started", "workers": active}),
                PoolChange::Stopped { active } => json!({"what": "stopped", "workers": active}),
                PoolChange::Adjusted { workers, throughput, reason } => {
                    json!({"what": "adjusted", "workers": workers, "throughput": throughput, "reason": reason})
                }
                PoolChange::Limits { min, max } => json!({"what": "limits", "min": min, "max": max}),
            };
            value["time_ns"] = json!(since(profile, event.time));
            value
        }).collect::<Vec<_>>(),
        "blocking": summary.blocking.iter().map(|row| json!({
            "state": state_id(row.state), "at": place(&row.place), "stack": row.stack.0, "time_ns": row.time,
            "time_while_queued_ns": row.time_queued, "share": row.share, "threads": row.threads,
        })).collect::<Vec<_>>(),
    })
}

fn page(profile: &Profile, interner: &mut Interner<'_>, options: &Options) -> Value {
    let summary = profile.pool_summary();
    let charts = POOL_COUNTERS.iter().filter_map(|(name, word)| {
        let values = &profile.pool_counter(name)?.values;
        let part = values.len().div_ceil(MOST_POINTS).max(1);
        // The greatest of each part: a short queue between two long ones hides nothing.
        let points = values.chunks(part).filter_map(|part| {
            let most = part.iter().map(|(_, value)| *value).fold(0.0, f64::max);
            Some(json!([micros(profile, part.first()?.0), most]))
        });
        Some(json!({ "title": word, "values": points.collect::<Vec<_>>() }))
    });
    let kinds = STATES.iter().filter(|state| **state != ThreadState::Idle).filter_map(|state| {
        let time = summary.by_state[state_index(*state)];
        let word = if profile::blocks(*state) { waited_for(*state) } else { state_word(*state) };
        (time > 0).then(|| json!([word, time as f64 / 1e3]))
    });
    let blocking = summary.blocking.iter().take(MOST_ROWS).map(|row| {
        json!({
            "word": waited_for(row.state), "share": row.share, "time": row.time as f64 / 1e3,
            "queued": row.time_queued as f64 / 1e3, "threads": row.threads, "at": at(interner, &row.place, options),
        })
    });
    json!({
        "on": profile.run("threadpool").is_some() || !profile.pool.series.is_empty(),
        "health": summary.health.id(),
        "verdict": pool_verdict(profile, &summary),
        "charts": charts.collect::<Vec<_>>(),
        "kinds": kinds.collect::<Vec<_>>(),
        "blocking": blocking.collect::<Vec<_>>(),
        "adjustments": summary.adjustments.iter().map(|row| json!([
            row.reason, row.count, row.workers, micros(profile, row.times.0), micros(profile, row.times.1),
        ])).collect::<Vec<_>>(),
    })
}
