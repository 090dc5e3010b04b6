//! How much memory a profile takes. It is asked after each record that is read, so nothing here
//! walks over samples.

use crate::{Allocations, Jit, Loads, Pool, Profile, Series, SeriesKind, Tables, Threads, Traced};
use rows::{RowBatch, Values};

/// What an entry of a map takes beside its key and value.
const ENTRY: usize = 16;

/// Bytes of the items of a list.
fn list<T>(items: &Vec<T>) -> usize {
    items.capacity() * size_of::<T>()
}

/// Bytes of the cells of a batch, and of their texts alone.
pub(crate) fn of_batch(batch: &RowBatch) -> (usize, usize) {
    let parts = batch.columns.iter().map(of_values);
    parts.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

fn of_values(values: &Values) -> (usize, usize) {
    match values {
        Values::Times(cells) | Values::Whole(cells) => (list(cells), 0),
        Values::Real(cells) => (list(cells), 0),
        Values::Text(cells) => {
            let texts = cells.iter().map(String::capacity).sum();
            (list(cells) + texts, texts)
        }
        Values::Optional { present, values } => {
            let (all, texts) = of_values(values);
            (all + list(present), texts)
        }
        Values::List { lengths, values } => {
            let (all, _) = of_values(values);
            // Each row has a list of its own, whatever is in it.
            (all + list(lengths), all)
        }
    }
}

impl Profile {
    /// Bytes of memory that it takes, about.
    pub fn size(&self) -> u64 {
        let series = SeriesKind::ALL.iter().map(|kind| self.series(*kind).size());
        let exceptions = list(&self.exceptions.samples);
        let lists = list(&self.counters)
            + list(&self.gcs)
            + list(&self.inductions)
            + list(&self.pauses)
            + list(&self.survivors)
            + list(&self.observer)
            + list(&self.processors)
            + list(&self.notes)
            + list(&self.locks.waits);
        let all = series.sum::<usize>()
            + self.tables.size()
            + exceptions
            + self.allocations.size()
            + self.jit.size()
            + self.loads.size()
            + self.threads.size()
            + self.pool.size()
            + self.traced.size()
            + lists
            + self.inner;
        all as u64
    }
}

impl Tables {
    /// Bytes of memory that they take, about.
    pub(crate) fn size(&self) -> usize {
        list(&self.threads)
            + list(&self.modules)
            + list(&self.functions)
            // Each path is in the list and in the map.
            + self.files.len() * (2 * size_of::<String>() + ENTRY)
            + list(&self.frames)
            + list(&self.types)
            + self.stack_count() * 8
            + self.texts
    }
}

impl Series {
    fn size(&self) -> usize {
        let single = self.samples.as_ref().map_or(0, |table| table.time.capacity() * 26);
        let slices = self.slices.as_ref().map_or(0, |slices| slices.len() * 64);
        list(&self.cells) + single + slices
    }
}

impl Allocations {
    fn size(&self) -> usize {
        list(&self.samples) + list(&self.windows) + self.exact.len() * (24 + ENTRY)
    }
}

impl Jit {
    fn size(&self) -> usize {
        list(&self.compilations) + list(&self.lookups)
    }
}

impl Loads {
    fn size(&self) -> usize {
        list(&self.assemblies) + list(&self.unloads) + list(&self.types)
    }
}

impl Threads {
    fn size(&self) -> usize {
        self.tracks.len() * (size_of::<crate::ThreadTrack>() + ENTRY)
            + list(&self.counts)
            + list(&self.creations)
    }
}

impl Pool {
    fn size(&self) -> usize {
        list(&self.samples) + list(&self.events)
    }
}

impl Traced {
    fn size(&self) -> usize {
        self.inner + list(&self.events) + list(&self.single)
    }
}
