//! What another tool has recorded: values of stacks that are none of our own samples.

use session::{ImportedUnit, ImportedValue, Nanos, ThreadState};

use crate::{
    Series, SeriesKind,
    series::{Keep, Row},
};

/// Values of stacks from a file of another tool, by their units.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Samples, or things that the file does not name.
    pub samples: Series,
    /// Time.
    pub time: Series,
    /// Bytes.
    pub bytes: Series,
}

impl Imported {
    pub(crate) fn new(start: Nanos, keep: Keep) -> Self {
        let of = |kind| Series::new(kind, start, keep);
        Self {
            samples: of(SeriesKind::Samples),
            time: of(SeriesKind::Time),
            bytes: of(SeriesKind::Bytes),
        }
    }

    pub(crate) fn add(&mut self, value: &ImportedValue) {
        let ImportedValue { time, thread, stack, samples, weight, truncated, .. } = *value;
        let series = match value.unit {
            ImportedUnit::Samples => &mut self.samples,
            ImportedUnit::Nanoseconds => &mut self.time,
            ImportedUnit::Bytes => &mut self.bytes,
        };
        let state = ThreadState::Running;
        let samples = u32::try_from(samples).unwrap_or(u32::MAX);
        series.add(Row { time, thread, stack, state, truncated, weight }, samples);
    }

    pub(crate) fn settle(&mut self) {
        self.map(Series::settle);
    }

    /// What `change` makes of each.
    pub(crate) fn map(&mut self, change: impl Fn(&mut Series)) {
        [&mut self.samples, &mut self.time, &mut self.bytes].into_iter().for_each(change);
    }
}
