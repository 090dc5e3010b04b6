use std::{collections::HashMap, ops::Range};

use profile::{
    NONE, STATES, SeriesKind,
    session::{Nanos, ThreadId},
    state_index,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ExploreError, unit_id};
use crate::{Column, Columns, Explored, Lanes, MarkerKind, markers};

/// Which part of a timeline is visible.
#[derive(Clone, Debug)]
pub struct TimelineQuery {
    /// For the sums of all threads.
    pub kind: SeriesKind,
    /// Nanoseconds since the start of the recording; `None` for all.
    pub time: Option<Range<Nanos>>,
    /// Width in pixels, at least 1.
    pub pixels: usize,
    /// The first thread that is visible, the busiest being 0.
    pub first: usize,
    /// How many threads are visible.
    pub rows: usize,
}

/// The head of a timeline.
///
/// The columns `state` and `share` have a number for each visible thread and pixel, thread by
/// thread: what the thread did most, as an index into `states` of the description (255 where
/// nothing is known), and the share of the time for which samples stand. The column `weights` has a
/// number for each of `shown_states` and each pixel, state by state: the weight per second, of all
/// threads. The columns that begin with `marker_` are of markers: `marker_time` and `marker_length`
/// in nanoseconds, `marker_lane` (an index into `lanes`, `u32::MAX` for all threads), `marker_kind`
/// (an index into `kinds`), `marker_count` and `marker_text` (an index into `texts`).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TimelineHead {
    /// Where it begins, in nanoseconds since the start of the recording.
    from: u64,
    /// Where it ends, in nanoseconds since the start of the recording.
    to: u64,
    /// Pixels of each row.
    pixels: usize,
    /// What `weights` count: `nanoseconds`, `bytes` or `count`.
    unit: &'static str,
    /// States that occur in the sums, as indexes into `states` of the description.
    shown_states: Vec<usize>,
    /// How many threads there are.
    threads: usize,
    /// Those that are visible.
    lanes: Vec<LaneInfo>,
    /// What markers are of.
    kinds: Vec<&'static str>,
    /// What there is to say of markers.
    texts: Vec<String>,
}

/// A thread in a timeline.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LaneInfo {
    /// Its id in the operating system, for the parameter `thread`.
    id: u32,
    /// Its name.
    name: String,
}

impl Explored {
    /// What threads did, and what happened to them.
    ///
    /// # Errors
    /// [`ExploreError`].
    pub fn timeline(&self, query: &TimelineQuery) -> Result<Columns, ExploreError> {
        let profile = &self.profile;
        let start = profile.info.start;
        let time = match &query.time {
            Some(time) => start.saturating_add(time.start)..start.saturating_add(time.end),
            None => profile.start..profile.stop,
        };
        let time = time.start.max(profile.start)..time.end.min(profile.stop);
        let time = time.start..time.end.max(time.start.saturating_add(1));
        let lanes = self.lanes(query.kind);
        let (threads, visible) = self.visible(lanes, query);
        let (mut state, mut share) = (Vec::new(), Vec::new());
        for thread in &visible {
            let strip = lanes.strip(*thread, time.clone(), query.pixels);
            state.extend(strip.state);
            share.extend(strip.share);
        }
        let rows: HashMap<ThreadId, u32> =
            visible.iter().enumerate().map(|(row, thread)| (*thread, row as u32)).collect();
        let found = markers(profile, time.clone(), query.pixels, |thread| {
            rows.contains_key(&thread).then_some(Some(thread))
        });
        let (shown_states, weights) = self.sums(query.kind, &time, query.pixels);
        let row = |thread: Option<ThreadId>| {
            thread.and_then(|thread| rows.get(&thread).copied()).unwrap_or(NONE)
        };
        let since = |time: Nanos| time.saturating_sub(start) as f64;
        let u32s = |values: &mut dyn Iterator<Item = u32>| Column::U32(values.collect());
        let columns = vec![
            ("state", Column::U8(state)),
            ("share", Column::F32(share)),
            ("weights", Column::F32(weights)),
            ("marker_time", Column::F64(found.iter().map(|one| since(one.time)).collect())),
            ("marker_length", Column::F64(found.iter().map(|one| one.length as f64).collect())),
            ("marker_lane", u32s(&mut found.iter().map(|one| row(one.thread)))),
            ("marker_kind", Column::U8(found.iter().map(|one| one.kind as u8).collect())),
            ("marker_count", Column::F64(found.iter().map(|one| one.count as f64).collect())),
            ("marker_text", u32s(&mut (0..found.len()).map(|index| index as u32))),
        ];
        let head = TimelineHead {
            from: time.start.saturating_sub(start),
            to: time.end.saturating_sub(start),
            pixels: query.pixels,
            unit: unit_id(query.kind.value_type().unit),
            shown_states,
            threads,
            lanes: (visible.iter())
                .map(|thread| LaneInfo {
                    id: profile.tables.thread(*thread).os_tid,
                    name: profile.tables.thread_name(*thread),
                })
                .collect(),
            kinds: MarkerKind::ALL.map(MarkerKind::title).to_vec(),
            texts: found.into_iter().map(|one| one.text).collect(),
        };
        Columns::new(&head, columns).map_err(|error| ExploreError::Json(error.to_string()))
    }

    /// How many threads have lanes, and which of them are visible. Those that did most come first.
    fn visible(&self, lanes: &Lanes, query: &TimelineQuery) -> (usize, Vec<ThreadId>) {
        let profile = &self.profile;
        let count = profile.tables.threads.len();
        let idle = state_index(session::ThreadState::Idle);
        let wall = profile.wall.by_thread_and_state(count);
        let cpu = profile.cpu.by_thread(count);
        let mut threads: Vec<ThreadId> = lanes.threads().collect();
        order::sort_by_key(&mut threads, |thread| {
            let states = wall[thread.index()].iter().enumerate();
            let busy = states.filter(|(state, _)| *state != idle);
            let busy = busy.fold(0_u64, |sum, (_, state)| sum.saturating_add(state.weight));
            (std::cmp::Reverse((cpu[thread.index()].weight, busy)), *thread)
        });
        let all = threads.len();
        (all, threads.into_iter().skip(query.first).take(query.rows).collect())
    }

    /// States that occur, and the weight per second of all threads in each of them, by pixels.
    fn sums(&self, kind: SeriesKind, time: &Range<Nanos>, pixels: usize) -> (Vec<usize>, Vec<f32>) {
        let series = self.profile.series(kind);
        let by_state = series.by_state();
        let states: Vec<usize> =
            (0..STATES.len()).filter(|state| by_state[*state].samples > 0).collect();
        let timeline = &series.timeline;
        let pixel = (time.end - time.start) as f64 / pixels as f64;
        let width = timeline.width() as f64;
        let offset = timeline.start() as f64 - time.start as f64;
        let mut weights = vec![0.0_f64; states.len() * pixels];
        for (index, bucket) in timeline.buckets().iter().enumerate() {
            let from = (offset + index as f64 * width) / pixel;
            // The last bucket may end after the recording, where nothing was recorded.
            let to = (from + width / pixel).min(pixels as f64).max(from + f64::EPSILON);
            let (first, last) = (from.max(0.0) as usize, (to.ceil().max(0.0) as usize).min(pixels));
            for at in first..last {
                let overlap = (to.min(at as f64 + 1.0) - from.max(at as f64)).max(0.0);
                let part = overlap / (to - from) / (pixel / 1e9);
                for (row, state) in states.iter().enumerate() {
                    weights[row * pixels + at] += bucket[*state] as f64 * part;
                }
            }
        }
        (states, weights.into_iter().map(|weight| weight as f32).collect())
    }
}
