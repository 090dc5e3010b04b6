use std::collections::HashMap;

use profilers::exceptions::{ExceptionCount, ExceptionSample};
use session::{FunctionId, FunctionKind, Nanos, ThreadState, TypeId};

use crate::{
    Distribution, Line, Profile, Series, SeriesKind, Tables,
    call_sites::MOST_FRAMES,
    series::{Keep, Row},
};

/// Thrown exceptions.
#[derive(Clone, Debug)]
pub struct Exceptions {
    /// Where they were thrown; weights are numbers of exceptions.
    pub series: Series,
    /// Single exceptions.
    pub samples: Vec<ExceptionSample>,
    /// Exact numbers by type, where the recording has them; see [`Self::exact`].
    counts: Vec<u64>,
    exact: bool,
}

impl Exceptions {
    pub(crate) fn new(start: Nanos, keep: Keep) -> Self {
        let keep = Keep { samples: false, ..keep };
        let series = Series::new(SeriesKind::Exceptions, start, keep);
        Self { series, samples: Vec::new(), counts: Vec::new(), exact: false }
    }

    pub(crate) fn add(&mut self, sample: ExceptionSample) {
        let row = Row {
            time: sample.time,
            thread: sample.thread,
            stack: sample.stack,
            state: ThreadState::Running,
            truncated: false,
            weight: sample.weight,
        };
        self.series.add(row, 1);
        self.samples.push(sample);
    }

    pub(crate) fn count(&mut self, more: ExceptionCount) {
        let ExceptionCount { ty, count, .. } = more;
        if ty.index() >= self.counts.len() {
            self.counts.resize(ty.index() + 1, 0);
        }
        self.counts[ty.index()] = self.counts[ty.index()].saturating_add(count);
        self.exact = true;
    }

    /// Whether the numbers are exact; else they are estimated from the samples' weights.
    pub fn exact(&self) -> bool {
        self.exact
    }

    /// A filter by thread, state or text took samples away: exact numbers of the rest are not
    /// known.
    pub(crate) fn forget_counts(&mut self) {
        self.counts.clear();
        self.exact = false;
    }

    /// Number of all exceptions.
    pub fn total(&self) -> u64 {
        match self.exact {
            true => self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count)),
            false => self.series.totals.weight,
        }
    }
}

/// All exceptions of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct ExceptionRow {
    /// The type.
    pub ty: TypeId,
    /// How many were thrown; see [`Exceptions::exact`].
    pub count: u64,
    /// How many of them in a second.
    pub per_second: f64,
    /// How many were kept with message and stack.
    pub samples: u64,
    /// The most frequent message.
    pub message: Option<String>,
    /// How many different messages there were among the samples.
    pub messages: u64,
    /// The method that threw most of them, the innermost managed frame, and its line.
    pub thrown_at: Option<(FunctionId, Option<Line>)>,
    /// The method that caught most of them.
    pub caught_by: Option<FunctionId>,
    /// Nanoseconds from throw to catch.
    pub time_to_catch: Distribution,
}

/// The entry with the greatest weight; the least key among equals, so that reports do not change
/// from run to run.
pub(crate) fn heaviest<K: Ord + Copy>(weights: HashMap<K, u64>) -> Option<K> {
    weights.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0))).map(|(key, _)| key)
}

fn thrower(tables: &Tables, sample: &ExceptionSample) -> Option<(FunctionId, Option<Line>)> {
    let frames = tables.walk(sample.stack).take(MOST_FRAMES);
    let mut frames = frames.map(|frame| tables.frame(frame));
    let leaf = tables.frame(tables.stack_frame(sample.stack));
    let managed = frames.find(|frame| {
        matches!(
            tables.function(frame.function).kind,
            FunctionKind::Managed | FunctionKind::Dynamic
        )
    });
    let frame = managed.unwrap_or(leaf);
    Some((frame.function, frame.line))
}

impl Profile {
    /// Exceptions by type, most frequent first.
    pub fn exception_rows(&self) -> Vec<ExceptionRow> {
        let seconds = self.duration() as f64 / 1e9;
        let mut by_type: HashMap<TypeId, Vec<&ExceptionSample>> = HashMap::new();
        for sample in &self.exceptions.samples {
            by_type.entry(sample.ty).or_default().push(sample);
        }
        for (ty, count) in self.exceptions.counts.iter().enumerate() {
            if *count > 0 {
                by_type.entry(TypeId(ty as u32)).or_default();
            }
        }
        let mut rows: Vec<ExceptionRow> = by_type
            .into_iter()
            .map(|(ty, samples)| {
                let sampled =
                    samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.weight));
                let count = match self.exceptions.exact {
                    true => self.exceptions.counts.get(ty.index()).copied().unwrap_or_default(),
                    false => sampled,
                };
                let (mut messages, mut throwers, mut catchers) =
                    (HashMap::new(), HashMap::new(), HashMap::new());
                for sample in &samples {
                    if let Some(message) = &sample.message {
                        *messages.entry(message.as_str()).or_insert(0) += sample.weight;
                    }
                    if let Some(thrower) = thrower(&self.tables, sample) {
                        *throwers.entry(thrower).or_insert(0) += sample.weight;
                    }
                    if let Some(catcher) = sample.caught_by {
                        *catchers.entry(catcher).or_insert(0) += sample.weight;
                    }
                }
                ExceptionRow {
                    ty,
                    count,
                    per_second: if seconds > 0.0 { count as f64 / seconds } else { 0.0 },
                    samples: samples.len() as u64,
                    messages: messages.len() as u64,
                    message: heaviest(messages).map(str::to_owned),
                    thrown_at: heaviest(throwers),
                    caught_by: heaviest(catchers),
                    time_to_catch: Distribution::of(
                        samples.iter().filter_map(|sample| sample.time_to_catch),
                    ),
                }
            })
            .collect();
        order::sort_by(&mut rows, |a, b| b.count.cmp(&a.count).then(a.ty.cmp(&b.ty)));
        rows
    }
}
