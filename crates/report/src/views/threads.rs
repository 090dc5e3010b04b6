//! `threads`: all threads, which make no progress, and who starts them.

use profile::{
    CallSite, CallTree, Confidence, NameStyle, Profile, SeriesKind, Standing, Starter, ThreadRole,
    ThreadRow, TreeOptions, state_id,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

use super::{
    Cell, Section, Table, Tile, Unit, View,
    cells::{place_cell, state_word},
    is_wanted, json_part, left, right,
};
use crate::{
    Options, format,
    json::values::{PlaceJson, since, state_schema},
};

pub const VIEW: View = View {
    section,
    json: Some(json_part!("all_threads", Json, json)),
    tab: ("all-threads", "All threads"),
    tile: Some(tile),
    rows_of: None,
};

fn tile(profile: &Profile) -> Option<Tile> {
    let rows = profile.thread_rows();
    if rows.is_empty() && profile.run("threads").is_none() {
        return None;
    }
    let suspects = rows.iter().filter(|row| row.standing == Standing::ZombieSuspect).count();
    let leaks = profile.start_rows().iter().filter(|row| row.leak).count();
    let tile = Tile::new("Zombie suspects", format::count(suspects as u64)).more("threads");
    let (all, leaks) = (format::count(rows.len() as u64), format::counted(leaks as u64, "leak"));
    Some(tile.note(format!("of {all}; {leaks}")))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Threads);
    is_shown.then(|| threads(profile, options))
}

/// Word for whose business a thread does.
pub fn role_word(role: ThreadRole) -> &'static str {
    match role {
        ThreadRole::Main => "main",
        ThreadRole::Program => "program",
        ThreadRole::Pool => "thread pool",
        ThreadRole::Runtime => "runtime",
        ThreadRole::Native => "native",
    }
}

/// Word for whether a thread makes progress.
pub fn standing_word(standing: Standing, confidence: Option<Confidence>) -> &'static str {
    match (standing, confidence) {
        (Standing::ZombieSuspect, Some(Confidence::High)) => "zombie, nearly sure",
        (Standing::ZombieSuspect, Some(Confidence::Medium)) => "zombie, likely",
        (Standing::ZombieSuspect, _) => "zombie, perhaps",
        (Standing::Blocked, _) => "blocked",
        (Standing::Idle, _) => "idle",
        (Standing::Progress, _) => "progress",
        (Standing::Unjudged, _) => "not judged",
    }
}

fn threads(profile: &Profile, options: &Options) -> Section {
    let mut section = Section::new("Threads");
    let rows = profile.thread_rows();
    let counts: Vec<f64> = profile.threads.counts.iter().map(|(_, count)| *count as f64).collect();
    let (Some(first), Some(last)) = (profile.threads.counts.first(), profile.threads.counts.last())
    else {
        section.say("No thread snapshot was taken: the recording was too short.".to_owned());
        return section;
    };
    let alive: Vec<&ThreadRow> = rows.iter().filter(|row| row.alive).collect();
    section.lead = lead(&alive, first.1, last.1, counts.len());
    let (low, high) =
        counts.iter().fold((f64::INFINITY, 0_f64), |(low, high), n| (low.min(*n), high.max(*n)));
    let [low, high] = [low, high].map(|value| Cell::quantity(value, Unit::Number));
    let columns = vec![left("threads"), right("least"), right("most"), left("over time")];
    section.add(Table::new(columns, [vec![Cell::text("all"), low, high, Cell::Line(counts)]]));
    section.extend(stuck(profile, options, &alive));
    section.extend(starts(profile, options));
    section.add(by_cpu(profile, options, alive));
    section.add(merged_stacks(profile, options));
    section
}

/// Those numbers that are not zero, with their words.
fn words<const N: usize>(words: [(u64, &str); N]) -> String {
    let words = words.into_iter().filter(|(n, _)| *n > 0);
    let words: Vec<String> =
        words.map(|(n, word)| format!("{} {word}", format::count(n))).collect();
    words.join(", ")
}

/// How many threads there are, whose they are, and what they do.
fn lead(alive: &[&ThreadRow], first: u64, last: u64, snapshots: usize) -> Vec<String> {
    let roles = [
        ThreadRole::Main,
        ThreadRole::Program,
        ThreadRole::Pool,
        ThreadRole::Runtime,
        ThreadRole::Native,
    ];
    let by_role = roles
        .map(|role| (alive.iter().filter(|row| row.role == role).count() as u64, role_word(role)));
    let of =
        |standing: Standing| alive.iter().filter(|row| row.standing == standing).count() as u64;
    let by_standing = [
        (
            of(Standing::ZombieSuspect),
            "blocked indefinitely with no waker observed (zombie suspects)",
        ),
        (of(Standing::Blocked), "did nothing and wait for others (blocked)"),
        (of(Standing::Idle), "had nothing to do (idle)"),
        (of(Standing::Progress), "made progress"),
        (of(Standing::Unjudged), "not judged (in too few snapshots)"),
    ];
    vec![
        format!(
            "{} in the last of {} ({} in the first): {}.",
            format::counted(last, "thread"),
            format::counted(snapshots as u64, "snapshot"),
            format::count(first),
            words(by_role),
        ),
        format!("{}.", words(by_standing)),
    ]
}

/// Threads that did nothing, together where they stand for the same reason at the same place.
fn stuck(profile: &Profile, options: &Options, alive: &[&ThreadRow]) -> Option<Table> {
    let mut stuck: Vec<(&ThreadRow, CallSite, u64)> = Vec::new();
    let mut known = HashMap::new();
    for row in alive
        .iter()
        .filter(|row| matches!(row.standing, Standing::ZombieSuspect | Standing::Blocked))
    {
        let place = profile.tables.place(row.seen.stack);
        let kind = (row.standing, row.confidence, &row.reason, place);
        let at = *known.entry(kind).or_insert(stuck.len());
        match stuck.get_mut(at) {
            Some((_, _, count)) => *count += 1,
            None => stuck.push((row, place, 1)),
        }
    }
    order::sort_by_key(&mut stuck, |(row, place, count)| {
        (row.standing, std::cmp::Reverse((row.confidence, *count)), *place)
    });
    let rows = stuck.iter().take(options.rows).map(|(row, place, count)| {
        let watched = format::duration(row.watched);
        vec![
            Cell::count(*count),
            Cell::text(standing_word(row.standing, row.confidence)),
            Cell::text(profile.tables.thread_name(row.thread)),
            place_cell(profile, options, place, ""),
            Cell::text(format!("{}; observed for {watched}", row.reason)),
        ]
    });
    let columns = vec![right("threads"), left("is"), left("such as"), left("in"), left("")];
    Table::of(columns, rows)
}

/// Who starts threads.
fn starts(profile: &Profile, options: &Options) -> Option<Table> {
    let starts = profile.start_rows();
    let rows = starts.iter().take(options.rows).map(|row| {
        let by = match (row.starter, &row.place) {
            (Starter::Method(_), Some(place)) => place_cell(profile, options, place, ""),
            (Starter::Pool, _) => Cell::text("the thread pool"),
            (Starter::Native, _) => Cell::text("native code"),
            _ => Cell::text("the runtime, or not known"),
        };
        vec![
            Cell::count(row.started),
            Cell::per_second(row.per_second),
            Cell::count(row.ended),
            Cell::count(row.started - row.ended),
            if row.leak { Cell::text("leak") } else { Cell::Nothing },
            by,
            Cell::text(&row.reason),
        ]
    });
    let columns = vec![
        right("started"),
        right("rate"),
        right("ended"),
        right("left"),
        left(""),
        left("started in"),
        left(""),
    ];
    Table::of(columns, rows)
}

/// The threads that used most processor time.
fn by_cpu(profile: &Profile, options: &Options, mut threads: Vec<&ThreadRow>) -> Table {
    order::sort_by_key(&mut threads, |row| (std::cmp::Reverse(row.cpu), row.thread));
    let columns = vec![
        left("thread"),
        left("of"),
        right("id"),
        right("CPU"),
        right("age"),
        left("state"),
        left("is"),
        left("in"),
    ];
    let rows = threads.iter().take(options.rows).map(|row| {
        let os_state = char::from(row.seen.os_state);
        vec![
            Cell::text(profile.tables.thread_name(row.thread)),
            Cell::text(role_word(row.role)),
            row.managed_id.map_or(Cell::Nothing, |id| Cell::text(id.to_string())),
            Cell::nanoseconds(row.cpu),
            Cell::nanoseconds(row.age),
            Cell::text(format!("{os_state} {}", state_word(row.seen.state))),
            Cell::text(standing_word(row.standing, row.confidence)),
            place_cell(profile, options, &profile.tables.place(row.seen.stack), ""),
        ]
    });
    Table::new(columns, rows)
}

/// The last snapshot as a tree: threads that stand in the same calls are together. Calls without a
/// branch are one row.
fn merged_stacks(profile: &Profile, options: &Options) -> Table {
    let options_of_tree = TreeOptions { merge_recursion: true, ..TreeOptions::default() };
    let tree = CallTree::new(&profile.tables, &profile.threads.series, options_of_tree);
    let short =
        |node: usize| profile.tables.function_name(tree.nodes()[node].function, NameStyle::SHORT);
    let mut rows = Vec::new();
    let mut open: Vec<(usize, usize)> =
        tree.children(None).into_iter().rev().map(|root| (root, 0)).collect();
    while let Some((node, depth)) = open.pop()
        && rows.len() < options.rows * 2
    {
        let mut chain = vec![short(node)];
        let mut at = node;
        let mut children = tree.children(Some(at));
        while let [only] = children[..]
            && tree.nodes()[at].own.weight == 0
        {
            chain.push(short(only));
            at = only;
            children = tree.children(Some(at));
        }
        let indent = "  ".repeat(depth.min(12));
        // The end of a chain says what threads do.
        let forms = (1..=chain.len()).rev().map(|length| {
            let cut = if length < chain.len() { "… → " } else { "" };
            format!("{indent}{cut}{}", chain[chain.len() - length..].join(" → "))
        });
        let threads = Cell::count(tree.nodes()[node].total.weight);
        rows.push(vec![threads, Cell::Name { forms: forms.collect(), place: None }]);
        open.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
    }
    Table::new(vec![right("threads"), left("merged stacks, from the root")], rows)
}

/// All threads, which make no progress, and who starts them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AllThreads")]
struct Json {
    /// The thread snapshots, in order.
    snapshots: Vec<SnapshotJson>,
    /// Suspects first.
    threads: Vec<ThreadJson>,
    /// Threads that were started during the recording, leaks first.
    starts: Vec<StartJson>,
}

/// A thread snapshot.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ThreadSnapshot")]
struct SnapshotJson {
    /// Nanoseconds since the start of the recording.
    time_ns: u64,
    /// Number of threads.
    threads: u64,
}

/// What is known of a thread by the snapshots.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ThreadInSnapshots")]
struct ThreadJson {
    /// Index in `threads` of the report.
    thread: u32,
    /// Whose work it does.
    #[schemars(extend("enum" = ["main", "program", "pool", "runtime", "native"]))]
    role: &'static str,
    /// The runtime's number of it, where known.
    managed_id: Option<u32>,
    /// Age at its last snapshot, nanoseconds.
    age_ns: u64,
    /// CPU time during the recording, nanoseconds.
    cpu_ns: u64,
    /// CPU time in its life, nanoseconds.
    cpu_of_life_ns: u64,
    /// State letter of the kernel: `R`, `S`, `D` …; `?` where it could not be read.
    os_state: String,
    #[schemars(schema_with = "state_schema")]
    state: &'static str,
    /// Index in `stacks`.
    stack: u32,
    /// The innermost method of the program.
    at: PlaceJson,
    /// Number of the system call in which it waits, where known.
    system_call: Option<u32>,
    /// Whether that call has a time limit; null where not known.
    time_limit: Option<bool>,
    /// Number of snapshots with it.
    snapshots: u32,
    /// Time from its first snapshot to its last, nanoseconds.
    watched_ns: u64,
    /// Whether it is in the last snapshot.
    alive: bool,
    /// Whether it makes progress.
    #[schemars(extend("enum" = ["zombie-suspect", "blocked", "idle", "progress", "unjudged"]))]
    standing: &'static str,
    /// How sure it is that a suspect is one; null for others.
    #[schemars(extend("enum" = ["high", "medium", "low", null]))]
    confidence: Option<&'static str>,
    /// The reason in words.
    reason: String,
    /// Where it was started, where known.
    started_at: Option<PlaceJson>,
}

/// Threads that were started in one place.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ThreadStart")]
struct StartJson {
    #[schemars(extend("enum" = ["method", "pool", "unknown", "native"]))]
    starter: &'static str,
    /// The place, where known.
    at: Option<PlaceJson>,
    /// Index in `stacks`, where known.
    stack: Option<u32>,
    /// Number of threads that were started.
    started: u64,
    /// Those of them that have ended.
    ended: u64,
    /// Threads started per second.
    per_second: f64,
    /// Name of one of them.
    example: String,
    /// Whether threads accumulate.
    leak: bool,
    /// The reason in words.
    reason: String,
}

fn json(profile: &Profile) -> Json {
    let snapshots = profile.threads.counts.iter();
    let snapshots = snapshots
        .map(|(time, threads)| SnapshotJson { time_ns: since(profile, *time), threads: *threads });
    let starts = profile.start_rows().into_iter().map(|row| StartJson {
        starter: match row.starter {
            Starter::Method(_) => "method",
            Starter::Pool => "pool",
            Starter::Unknown => "unknown",
            Starter::Native => "native",
        },
        at: row.place.as_ref().map(Into::into),
        stack: row.stack.map(|stack| stack.0),
        started: row.started,
        ended: row.ended,
        per_second: row.per_second,
        example: row.example,
        leak: row.leak,
        reason: row.reason,
    });
    Json {
        snapshots: snapshots.collect(),
        threads: profile.thread_rows().into_iter().map(|row| thread(profile, row)).collect(),
        starts: starts.collect(),
    }
}

fn thread(profile: &Profile, row: ThreadRow) -> ThreadJson {
    ThreadJson {
        thread: row.thread.0,
        role: row.role.id(),
        managed_id: row.managed_id,
        age_ns: row.age,
        cpu_ns: row.cpu,
        cpu_of_life_ns: row.cpu_of_life,
        os_state: char::from(row.seen.os_state).to_string(),
        state: state_id(row.seen.state),
        stack: row.seen.stack.0,
        at: (&profile.tables.place(row.seen.stack)).into(),
        system_call: row.seen.call,
        time_limit: row.seen.limited,
        snapshots: row.snapshots,
        watched_ns: row.watched,
        alive: row.alive,
        standing: row.standing.id(),
        confidence: row.confidence.map(Confidence::id),
        reason: row.reason,
        started_at: row.started_at.as_ref().map(Into::into),
    }
}
