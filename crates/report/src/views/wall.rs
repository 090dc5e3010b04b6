//! `wall`: what all threads do and wait for.

use std::collections::HashMap;

use profile::{
    ProcessorSummary, Profile, Recent, STATES, SeriesKind, Totals,
    session::{FunctionId, ThreadId, ThreadState},
    state_index,
};

use super::{
    Cell, Section, Table, Tile, Unit, View,
    cells::{STATE_WORDS, hot_paths, methods, name, state_word, with_place},
    is_wanted, left, right,
};
use crate::{
    Options, format,
    pane::{Detail, Pane, PaneContent, PaneOptions, ThreadChoice},
};

pub const VIEW: View =
    View { section, json: None, tab: ("threads", "Threads"), tile: Some(tile), rows_of: None };

pub const PANE: Pane = Pane {
    title: "Threads",
    headline: |_| Vec::new(),
    color: None,
    legend: &STATE_WORDS,
    thread_choice: ThreadChoice::Offers,
    content,
};

fn content(recent: &Recent, options: &PaneOptions) -> PaneContent {
    let profile = &recent.profile;
    let report = options.report();
    let mut content = PaneContent::default();
    for row in recent.threads() {
        let thread = profile.tables.thread(row.thread);
        let called = thread.name.as_deref().unwrap_or_default();
        let parts = match row.state {
            Some(_) => Cell::Parts(STATE_WORDS.into_iter().zip(row.states).collect()),
            None => Cell::Nothing,
        };
        let shares = if row.state.is_some() { parts.shown() } else { String::new() };
        let detail = Detail { text: format!("{called} {shares}"), thread: Some(row.thread) };
        content.details.push(detail);
        content.table.rows.push(vec![
            Cell::text(thread.os_tid.to_string()),
            Cell::quantity(row.cpu, Unit::WholePercent),
            row.state.map_or(Cell::Nothing, |state| Cell::Word(STATE_WORDS[state_index(state)])),
            parts,
            Cell::name(called),
            row.place.map_or(Cell::Nothing, |place| {
                let method = name(profile, &report, place.function);
                with_place(method, profile, &report, place.line)
            }),
        ]);
    }
    content.table.columns = vec![
        right("id").at_least(7),
        right("cpu").at_least(6),
        left("state").at_least(12),
        left("states"),
        left("name"),
        left("method"),
    ];
    content
}

fn tile(profile: &Profile) -> Option<Tile> {
    if profile.wall.is_empty() {
        return None;
    }
    let states = profile.wall.by_state();
    let average = |waits: &[ThreadState]| {
        let sum: f64 = waits.iter().map(|state| states[state_index(*state)].weight as f64).sum();
        format!("{:.2}", sum / profile.duration().max(1) as f64)
    };
    let (lock, task) = ([ThreadState::Lock], [ThreadState::Task]);
    let tile = Tile::new("Blocked", average(&[ThreadState::Lock, ThreadState::Task]));
    let note = format!("on locks {}, on tasks {}", average(&lock), average(&task));
    Some(tile.more("threads").note(note))
}

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Wall);
    is_shown.then(|| wall(profile, options))
}

fn wall(profile: &Profile, options: &Options) -> Section {
    let series = &profile.wall;
    let mut section = Section::new("Wall time");
    if series.is_empty() {
        section.say("No samples.".to_owned());
        return section;
    }
    let all = series.totals.weight.max(1) as f64;
    let states = series.by_state();
    let words: Vec<String> = STATES
        .into_iter()
        .filter(|state| states[state_index(*state)].weight > 0)
        .map(|state| {
            format!(
                "{} {}",
                format::percent(states[state_index(state)].weight as f64 / all),
                state_word(state)
            )
        })
        .collect();
    section.say(format!("Time of all threads: {}.", words.join(", ")));
    section.lead.extend(profile.processor_summary().map(|of| processors(&of)));

    section.add(threads(profile, options));
    running(profile, options, &mut section);

    let waits = waiting_places(profile);
    let rows = waits.into_iter().take(options.at_most(8)).map(|(state, function, weight)| {
        vec![
            Cell::share(weight as f64 / all),
            Cell::text(state_word(state)),
            name(profile, options, function),
        ]
    });
    let columns = vec![right("share"), left("waits for"), left("in")];
    section.extend(Table::of(columns, rows));
    section
}

/// Hot methods and hot paths of running threads, unless the report has CPU samples, which are
/// more precise. Imported traces of `dotnet-trace` have wall samples only.
fn running(profile: &Profile, options: &Options, section: &mut Section) {
    if is_wanted(profile, options, SeriesKind::Cpu) && !profile.cpu.is_empty() {
        return;
    }
    let running = profile.wall.in_state(ThreadState::Running);
    if running.is_empty() {
        return;
    }
    section.say(format!(
        "Shares of methods are of the time of running threads: {}. \
         ± is the 95 % interval in points.",
        format::duration(running.totals.weight),
    ));
    let functions = profile.top_functions_of(&running);
    section.add(methods(profile, options, &running, &functions));
    section.add(hot_paths(profile, options, &running));
}

/// What each thread did.
fn threads(profile: &Profile, options: &Options) -> Table {
    let series = &profile.wall;
    // Threads that did or waited for something, before those that only idled.
    let by_thread = series.by_thread_and_state(profile.tables.threads.len());
    let idle = state_index(ThreadState::Idle);
    let mut threads: Vec<(ThreadId, u64, u64)> = by_thread
        .iter()
        .enumerate()
        .map(|(thread, states)| {
            let sum = states.iter().fold(0_u64, |sum, state| sum.saturating_add(state.weight));
            (ThreadId(thread as u32), sum, sum - states[idle].weight)
        })
        .filter(|(_, sum, _)| *sum > 0)
        .collect();
    order::sort_by_key(&mut threads, |(thread, sum, active)| {
        (std::cmp::Reverse((*active, *sum)), *thread)
    });
    let states = series.by_state();
    let shown: Vec<ThreadState> =
        STATES.into_iter().filter(|state| states[state_index(*state)].weight > 0).collect();
    if options.drawn {
        return drawn_threads(profile, options, &threads, &by_thread);
    }
    let mut columns = vec![left("thread"), right("wall time")];
    columns.extend(shown.iter().map(|state| right(state_word(*state))));
    let most = options.at_most(10);
    let rows = threads.iter().map(|(thread, sum, _)| {
        let mut row =
            vec![Cell::text(profile.tables.thread_name(*thread)), Cell::nanoseconds(*sum)];
        for state in &shown {
            let weight = by_thread[thread.index()][state_index(*state)].weight;
            let share = weight as f64 / (*sum).max(1) as f64;
            row.push(match weight {
                0 => Cell::Nothing,
                _ => Cell::quantity(share, Unit::WholePercent),
            });
        }
        row
    });
    Table::top(columns, rows, most)
}

/// What each thread did, as a bar, and its processor time where that was sampled.
fn drawn_threads(
    profile: &Profile,
    options: &Options,
    threads: &[(ThreadId, u64, u64)],
    by_thread: &[[Totals; STATES.len()]],
) -> Table {
    let cpu = profile.cpu.by_thread(profile.tables.threads.len());
    let mut columns = vec![left("thread"), right("wall time")];
    if !profile.cpu.is_empty() {
        columns.push(right("CPU time"));
    }
    columns.push(left("what it did"));
    let rows = threads.iter().map(|(thread, sum, _)| {
        let name = profile.tables.thread_name(*thread);
        let mut row = vec![Cell::text(name), Cell::nanoseconds(*sum)];
        if !profile.cpu.is_empty() {
            row.push(Cell::nanoseconds(cpu[thread.index()].weight));
        }
        let states = by_thread[thread.index()];
        let share = |state: usize| states[state].weight as f64 / (*sum).max(1) as f64;
        let parts = STATE_WORDS.into_iter().enumerate().map(|(state, word)| (word, share(state)));
        row.push(Cell::Parts(parts.filter(|(_, share)| *share > 0.0).collect()));
        row
    });
    Table::top(columns, rows, options.rows)
}

/// How the process got on with its processors.
fn processors(of: &ProcessorSummary) -> String {
    let mut text = format!(
        "Processors: {} may be used; {:.2} ran the process on average, and {:.2} of its threads \
            were ready without one.",
        of.processors,
        of.average(of.ran),
        of.average(of.waited)
    );
    if let Some((time, period)) = of.quota {
        let quota = time as f64 / period.max(1) as f64;
        let (throttled, periods) = (format::count(of.throttled_periods), format::count(of.periods));
        text.push_str(&format!(
            " CPU quota: {quota:.2} processors, used up in {throttled} of {periods} periods."
        ));
    }
    text
}

/// Whether a thread in a state waits for something other than a processor.
fn waits(state: ThreadState) -> bool {
    !matches!(state, ThreadState::Running | ThreadState::NoProcessor | ThreadState::Throttled)
}

/// Where threads wait: the innermost managed frame that is the program's business, by state and
/// weight. Idle threads are left out.
fn waiting_places(profile: &Profile) -> Vec<(ThreadState, FunctionId, u64)> {
    let tables = &profile.tables;
    let mut sums = HashMap::new();
    for cell in &profile.wall.cells {
        if cell.state == ThreadState::Idle || !waits(cell.state) {
            continue;
        }
        let place = tables.place(cell.stack).function;
        let sum: &mut u64 = sums.entry((cell.state, place)).or_default();
        *sum = sum.saturating_add(cell.weight);
    }
    let mut places: Vec<_> =
        sums.into_iter().map(|((state, place), weight)| (state, place, weight)).collect();
    order::sort_by_key(&mut places, |(state, place, weight)| {
        (std::cmp::Reverse(*weight), *place, *state)
    });
    places
}
