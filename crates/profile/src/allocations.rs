use std::collections::{BTreeMap, HashMap};

use profilers::{
    allocations::{AllocationHeap, AllocationSample, AllocationSampling, AllocationWindow},
    exact_allocations::Allocated,
};
use session::{Nanos, StackId, ThreadId, ThreadState, TypeId};

use crate::{
    Amount, CallSite, Estimate, Profile, Series, SeriesKind,
    exceptions::heaviest,
    series::{Keep, Row},
};

/// Heaps of objects, in the order of their index.
pub const OBJECT_HEAPS: [AllocationHeap; 3] =
    [AllocationHeap::Small, AllocationHeap::Large, AllocationHeap::Pinned];

/// Index of a heap in [`OBJECT_HEAPS`].
pub fn heap_index(heap: AllocationHeap) -> usize {
    heap as usize
}

/// Sampled allocations.
#[derive(Clone, Debug)]
pub struct Allocations {
    /// Where they were made; weights are estimated bytes.
    pub series: Series,
    /// Single samples.
    pub samples: Vec<AllocationSample>,
    /// How the runtime picked them, once there are any.
    pub sampling: Option<AllocationSampling>,
    /// Times of which only a part was followed, in their order. Samples in them stand for all of
    /// it.
    pub windows: Vec<AllocationWindow>,
    /// Every object, where all were counted; by thread and type.
    pub exact: BTreeMap<(ThreadId, TypeId), ObjectCount>,
}

/// Objects, all of them counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCount {
    /// How many.
    pub objects: u64,
    /// Their bytes as allocated.
    pub bytes: u64,
}

impl ObjectCount {
    fn add(&mut self, more: Self) {
        self.objects = self.objects.saturating_add(more.objects);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

impl Allocations {
    pub(crate) fn new(start: Nanos, keep: Keep) -> Self {
        let series = Series::new(SeriesKind::Allocations, start, keep);
        Self {
            series,
            samples: Vec::new(),
            sampling: None,
            windows: Vec::new(),
            exact: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, sample: AllocationSample) {
        self.sampling = Some(sample.sampling);
        let row = Row {
            time: sample.time,
            thread: sample.thread,
            stack: sample.stack,
            state: ThreadState::Running,
            truncated: sample.truncated,
            weight: sample.bytes,
        };
        self.series.add(row, 1);
        self.samples.push(sample);
    }

    pub(crate) fn add_exact(&mut self, allocated: Allocated) {
        let Allocated { thread, ty, objects, bytes, .. } = allocated;
        self.exact.entry((thread, ty)).or_default().add(ObjectCount { objects, bytes });
    }

    /// All objects that were counted.
    pub fn exact_total(&self) -> ObjectCount {
        let mut total = ObjectCount::default();
        self.exact.values().for_each(|count| total.add(*count));
        total
    }

    /// Counted objects by type, most bytes first.
    pub fn exact_types(&self) -> Vec<(TypeId, ObjectCount)> {
        most_bytes_first(self.exact.iter().map(|((_, ty), count)| (*ty, *count)))
    }

    /// Counted objects by thread, most bytes first.
    pub fn exact_threads(&self) -> Vec<(ThreadId, ObjectCount)> {
        most_bytes_first(self.exact.iter().map(|((thread, _), count)| (*thread, *count)))
    }

    pub(crate) fn add_window(&mut self, window: AllocationWindow) {
        let at = self.windows.partition_point(|known| known.start <= window.start);
        self.windows.insert(at, window);
    }

    /// How much of a time of this length allocations were followed, 0 to 1.
    pub fn followed(&self, duration: Nanos) -> f64 {
        let not =
            self.windows.iter().map(|window| length(window) - length(window).min(followed(window)));
        (1.0 - not.sum::<f64>() / duration.max(1) as f64).clamp(0.0, 1.0)
    }

    /// Estimated bytes of all.
    pub fn bytes(&self) -> Amount {
        self.bytes_of(self.samples.iter())
    }

    /// Estimated number of all objects, where their sizes are known.
    pub fn objects(&self) -> Option<Amount> {
        self.objects_of(self.samples.iter())
    }

    /// Estimated bytes on each heap, in the order of [`OBJECT_HEAPS`].
    pub fn heaps(&self) -> [Amount; OBJECT_HEAPS.len()] {
        OBJECT_HEAPS
            .map(|heap| self.bytes_of(self.samples.iter().filter(|sample| sample.heap == heap)))
    }

    /// Estimated bytes of some of the samples.
    fn bytes_of<'a>(&self, samples: impl Iterator<Item = &'a AllocationSample>) -> Amount {
        self.amount(samples.map(|sample| (sample.time, sample.bytes as f64)))
    }

    /// Objects that samples stand for; `None` if the size of one of them is not known, or there is
    /// none.
    pub(crate) fn objects_of<'a>(
        &self,
        samples: impl Iterator<Item = &'a AllocationSample> + Clone,
    ) -> Option<Amount> {
        let known =
            samples.clone().next().is_some() && samples.clone().all(|sample| sample.size > 0);
        known.then(|| {
            self.amount(samples.filter_map(|sample| Some((sample.time, sample.objects()?))))
        })
    }

    /// The sum of weights with its error. The error has two sources: samples come randomly
    /// ([`Amount::of`]), and of some times (windows) only a part was recorded. The differences
    /// between windows include both sources, so within windows the larger of the two variances
    /// counts.
    fn amount(&self, weights: impl Iterator<Item = (Nanos, f64)>) -> Amount {
        let (mut sum, mut whole, mut thinned) = (0.0, 0.0, 0.0);
        let mut sums = vec![0.0; self.windows.len()];
        for (time, weight) in weights {
            sum += weight;
            match self.window_at(time) {
                Some(window) => {
                    sums[window] += weight;
                    thinned += weight * weight;
                }
                None => whole += weight * weight,
            }
        }
        Amount::with_variance(sum, whole + self.variance_between(&sums).max(thinned))
    }

    fn window_at(&self, time: Nanos) -> Option<usize> {
        let after = self.windows.partition_point(|window| window.start <= time);
        let last = after.checked_sub(1)?;
        (time < self.windows[last].end).then_some(last)
    }

    /// Variance of the sum of what was estimated of each window, from how much each differs from
    /// the one before: one part of each says nothing of the other parts, its neighbours do (the
    /// estimator by successive differences of systematic and stratified samples; Wolter,
    /// Introduction to Variance Estimation, chapter 8). Few differences are themselves uncertain:
    /// the last factor is about the square of Student's quantile over the normal one.
    fn variance_between(&self, sums: &[f64]) -> f64 {
        let rates: Vec<f64> =
            self.windows.iter().zip(sums).map(|(window, sum)| sum / length(window)).collect();
        let of = |(index, window): (usize, &AllocationWindow)| {
            let neighbour = if index > 0 { rates.get(index - 1) } else { rates.get(1) };
            // With nothing to compare it with all may be wrong.
            let difference = neighbour
                .map_or(rates[index] * std::f64::consts::SQRT_2, |other| rates[index] - other);
            let length = length(window);
            let not_followed = 1.0 - (followed(window) / length).min(1.0);
            (length * difference).powi(2) / 2.0 * not_followed
        };
        let few = 1.0 + 5.0 / self.windows.len().max(1) as f64;
        self.windows.iter().enumerate().map(of).sum::<f64>() * few
    }
}

/// In nanoseconds, at least one.
fn length(window: &AllocationWindow) -> f64 {
    window.end.saturating_sub(window.start).max(1) as f64
}

/// Length of the part that was followed, in nanoseconds.
fn followed(window: &AllocationWindow) -> f64 {
    window.followed_to.saturating_sub(window.followed_from) as f64
}

/// Sums by key.
fn most_bytes_first<K: Copy + Ord>(
    counts: impl Iterator<Item = (K, ObjectCount)>,
) -> Vec<(K, ObjectCount)> {
    let mut sums: BTreeMap<K, ObjectCount> = BTreeMap::new();
    counts.for_each(|(key, count)| sums.entry(key).or_default().add(count));
    let mut sums: Vec<(K, ObjectCount)> = sums.into_iter().collect();
    // The order of keys stays where bytes are the same.
    order::sort_by_key(&mut sums, |(_, count)| std::cmp::Reverse((count.bytes, count.objects)));
    sums
}

/// All allocations of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationRow {
    /// The type.
    pub ty: TypeId,
    /// Number of samples.
    pub samples: u64,
    /// Estimated bytes.
    pub bytes: Amount,
    /// Estimated number of objects, where their sizes are known.
    pub objects: Option<Amount>,
    /// Share in the bytes of all types.
    pub share: Estimate,
    /// Estimated bytes on each heap, in the order of [`OBJECT_HEAPS`].
    pub heaps: [u64; OBJECT_HEAPS.len()],
    /// Where most bytes were allocated: the innermost method of the program, or else of .NET.
    pub allocated_at: Option<CallSite>,
}

impl Profile {
    /// Allocations by type, most bytes first.
    pub fn allocation_rows(&self) -> Vec<AllocationRow> {
        let mut by_type: HashMap<TypeId, Vec<&AllocationSample>> = HashMap::new();
        for sample in &self.allocations.samples {
            by_type.entry(sample.ty).or_default().push(sample);
        }
        let mut places: HashMap<StackId, CallSite> = HashMap::new();
        let mut rows: Vec<AllocationRow> = by_type
            .into_iter()
            .map(|(ty, samples)| {
                let (mut heaps, mut weights) = ([0_u64; OBJECT_HEAPS.len()], HashMap::new());
                for sample in &samples {
                    let heap = &mut heaps[heap_index(sample.heap)];
                    *heap = heap.saturating_add(sample.bytes);
                    let place = *places
                        .entry(sample.stack)
                        .or_insert_with(|| self.tables.place(sample.stack));
                    let weight: &mut u64 = weights.entry(place).or_default();
                    *weight = weight.saturating_add(sample.bytes);
                }
                let weight = heaps.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
                AllocationRow {
                    ty,
                    samples: samples.len() as u64,
                    bytes: self.allocations.bytes_of(samples.iter().copied()),
                    objects: self.allocations.objects_of(samples.iter().copied()),
                    share: self.allocations.series.share(weight),
                    heaps,
                    allocated_at: heaviest(weights),
                }
            })
            .collect();
        order::sort_by(&mut rows, |a, b| {
            b.bytes.value.total_cmp(&a.bytes.value).then(a.ty.cmp(&b.ty))
        });
        rows
    }
}
