use std::collections::BTreeMap;

use profile::{
    FRAME_KINDS, Profile, STATES, SeriesKind, format,
    session::{Entry, ThreadId, ThreadState},
    state_id, state_index, state_word,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::unit_id;
use crate::Explored;

/// What can be explored in a session, or in a part of its time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Description {
    /// The process.
    process: String,
    /// Its id.
    pid: u32,
    /// Where the part begins, in nanoseconds since the start of the recording.
    from: u64,
    /// Where the part ends, in nanoseconds since the start of the recording.
    to: u64,
    /// What a reader has to know: that the recording is incomplete, or what was dropped.
    warnings: Vec<String>,
    /// Kinds of code that have colors of their own; `kind` of functions is an index into this.
    kinds: [&'static str; FRAME_KINDS.len()],
    /// All states of threads; states in columns are indexes into this.
    states: Vec<&'static str>,
    /// Samples with stacks, in the order of reports.
    series: Vec<SeriesInfo>,
    /// Threads that have samples, the busiest first.
    threads: Vec<ThreadInfo>,
}

/// Samples of a kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SeriesInfo {
    /// For the parameter `profiler`.
    id: &'static str,
    /// For a reader.
    title: &'static str,
    /// What weights count: `nanoseconds`, `bytes` or `count`.
    unit: &'static str,
    /// What is counted, where the unit is `count`; else empty.
    noun: &'static str,
    /// Number of samples.
    samples: u64,
    /// What they stand for.
    weight: u64,
    /// How many samples of equal weight say as much: the base of error bars.
    effective: f64,
    /// Whether its samples are calls, all of them.
    calls: bool,
    /// Whether its shares are no estimates.
    exact: bool,
    /// States that occur.
    states: Vec<StateInfo>,
    /// Numbers of threads that have samples.
    threads: usize,
}

/// A state of threads.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StateInfo {
    /// For the parameter `states`.
    id: &'static str,
    /// For a reader.
    title: &'static str,
    /// Its index in `states` of the description.
    index: usize,
    /// What its samples stand for.
    weight: u64,
    /// Whether it is of interest at first: idle threads would hide all others.
    shown: bool,
}

/// A thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadInfo {
    /// Its id in the operating system, for the parameter `thread`.
    id: u32,
    /// Its name.
    name: String,
    /// Whether it has run managed code.
    managed: bool,
    /// What its samples stand for, by series.
    weights: BTreeMap<&'static str, u64>,
}

impl Explored {
    /// What can be explored.
    pub fn describe(&self) -> Description {
        let kinds = SeriesKind::ALL.into_iter();
        let kinds: Vec<_> = kinds.filter(|kind| !self.profile.series(*kind).is_empty()).collect();
        describe(&self.profile, &kinds)
    }
}

/// What can be explored of these samples.
pub fn describe(profile: &Profile, kinds: &[SeriesKind]) -> Description {
    let threads = profile.tables.threads.len();
    let mut weights: Vec<BTreeMap<&'static str, u64>> = vec![BTreeMap::new(); threads];
    let mut series = Vec::new();
    for kind in kinds {
        let by_thread = profile.series(*kind).by_thread(threads);
        let mut count = 0;
        for (weights, total) in weights.iter_mut().zip(by_thread) {
            if total.samples > 0 {
                weights.insert(kind.id(), total.weight);
                count += 1;
            }
        }
        series.push(series_info(profile, *kind, count));
    }
    let numbered = weights.into_iter().enumerate();
    let mut threads: Vec<ThreadInfo> = numbered
        .filter(|(_, weights)| !weights.is_empty())
        .map(|(id, weights)| {
            let id = ThreadId(id as u32);
            let thread = profile.tables.thread(id);
            let (managed, name) = (thread.managed, profile.tables.thread_name(id));
            ThreadInfo { id: thread.os_tid, name, managed, weights }
        })
        .collect();
    order::sort_by_cached_key(&mut threads, |thread| {
        let weight = |kind: &SeriesKind| thread.weights.get(kind.id()).copied().unwrap_or(0);
        (std::cmp::Reverse(kinds.iter().map(weight).collect::<Vec<_>>()), thread.id)
    });
    Description {
        process: profile.info.process_name.clone(),
        pid: profile.info.pid,
        from: profile.start.saturating_sub(profile.info.start),
        to: profile.stop.saturating_sub(profile.info.start),
        warnings: warnings(profile),
        kinds: FRAME_KINDS,
        states: STATES.map(state_word).to_vec(),
        series,
        threads,
    }
}

fn series_info(profile: &Profile, kind: SeriesKind, threads: usize) -> SeriesInfo {
    let series = profile.series(kind);
    let by_state = series.by_state();
    let totals = |state: ThreadState| by_state[state_index(state)];
    let present: Vec<ThreadState> =
        STATES.into_iter().filter(|state| totals(*state).samples > 0).collect();
    let only_idle = present == [ThreadState::Idle];
    let states = present.into_iter().map(|state| StateInfo {
        id: state_id(state),
        title: state_word(state),
        index: state_index(state),
        weight: totals(state).weight,
        shown: only_idle || state != ThreadState::Idle,
    });
    SeriesInfo {
        id: kind.id(),
        title: kind.title(),
        unit: unit_id(kind.value_type().unit),
        noun: kind.noun(),
        samples: series.totals.samples,
        weight: series.totals.weight,
        effective: series.effective_samples(),
        calls: kind.is_calls(),
        exact: kind.is_calls() || kind == SeriesKind::Exceptions,
        states: states.collect(),
        threads,
    }
}

fn warnings(profile: &Profile) -> Vec<String> {
    let mut warnings = Vec::new();
    if profile.cut_short || profile.damage.is_some() {
        warnings.push(format!("The recording is incomplete: {}.", format::ending(profile)));
    }
    let dropped = profile.dropped();
    if dropped > 0 {
        warnings.push(format!("{} were dropped.", format::counted(dropped, "sample")));
    }
    if profile.info.entry == Entry::Imported {
        warnings.extend(profile.notes.iter().map(|(_, note)| note.clone()));
    }
    warnings
}
