use profile::{
    Profile, Series, SliceKey, SliceSums, Slices,
    session::{Nanos, ThreadState},
};

use crate::estimate::Slice;

/// The slices of a recording: all that is compared is summed up by them.
#[derive(Clone, Debug)]
pub struct Grid {
    start: Nanos,
    width: Nanos,
    /// Length of each slice in seconds. The last one has what is left of the recording.
    pub seconds: Vec<f64>,
}

impl Grid {
    /// The slices of a recording that was read with [`profile::BuildOptions::slices`].
    pub fn of(profile: &Profile) -> Self {
        let duration = profile.duration();
        let all = profile::SeriesKind::ALL.map(|kind| profile.series(kind).slices.as_ref());
        // A sample can be later than the end of the recording.
        let widest = all.into_iter().flatten().map(Slices::width).max();
        let mut width = widest.unwrap_or(Slices::LEAST_WIDTH);
        while duration / width >= Slices::MOST && width < 1 << 62 {
            width *= 2;
        }
        let (whole, rest) = (duration / width, duration % width);
        let mut lengths = vec![width; whole as usize];
        match lengths.last_mut() {
            // Too short to be a slice of its own.
            Some(last) if rest < width / 2 => *last += rest,
            _ => lengths.push(rest),
        }
        let seconds = lengths.into_iter().map(|length| length as f64 / 1e9).collect();
        Self { start: profile.start, width, seconds }
    }

    /// How many slices there are: at least one.
    pub fn len(&self) -> usize {
        self.seconds.len()
    }

    /// The length of all.
    pub fn duration(&self) -> f64 {
        self.seconds.iter().sum()
    }

    fn clamped(&self, slice: u64) -> usize {
        (slice as usize).min(self.len() - 1)
    }

    /// What a series has in each slice, by stack, thread and state.
    pub fn cells<'a>(
        &'a self,
        series: &'a Series,
    ) -> impl Iterator<Item = (usize, SliceKey, SliceSums)> + 'a {
        let wider = |slices: &Slices| self.width.ilog2().saturating_sub(slices.width().ilog2());
        let cells = series.slices.iter().flat_map(move |slices| slices.cells(wider(slices)));
        cells.map(|(key, sums)| (self.clamped(u64::from(key.slice)), key, sums))
    }

    /// The sums of all samples of a series, or of those of one state.
    pub fn sums(&self, series: &Series, state: Option<ThreadState>) -> Vec<Slice> {
        let mut slices = vec![Slice::default(); self.len()];
        for (slice, key, sums) in self.cells(series) {
            if state.is_none_or(|state| state == key.state) {
                slices[slice].add(sums.weight, sums.squares);
            }
        }
        slices
    }

    /// The sums of amounts at times.
    pub fn sums_of(&self, points: impl IntoIterator<Item = (Nanos, f64)>) -> Vec<Slice> {
        let mut slices = vec![Slice::default(); self.len()];
        for (time, amount) in points {
            let slice = self.clamped(time.saturating_sub(self.start) / self.width);
            slices[slice].add(amount, amount * amount);
        }
        slices
    }
}
