use std::sync::Arc;

use rows::{AnyCell, Cells, Kind, Row, RowBatch, StackId, TableDef, ThreadId};
use session::Nanos;

use crate::Profile;

/// A table whose rows are kept as they are. Analyses that know it read it with
/// [`Profile::rows`]; a table that none knows, such as one of a later version of clrscope, is shown
/// as it is.
#[derive(Clone, Debug)]
pub struct OtherTable {
    /// What it is.
    pub table: TableDef,
    /// Its rows, in order.
    pub batches: Vec<Arc<RowBatch>>,
}

impl OtherTable {
    /// How many rows.
    pub fn len(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows as usize).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows, each with a cell for each column.
    pub fn rows(&self) -> impl Iterator<Item = Vec<AnyCell<'_>>> {
        self.batches.iter().flat_map(|batch| {
            let mut columns: Vec<Cells<'_>> = batch.columns.iter().map(Cells::of).collect();
            (0..batch.rows).map_while(move |_| columns.iter_mut().map(Cells::any).collect())
        })
    }

    /// Keeps the rows of which this says that they are wanted, by their time and by their thread
    /// and stack, where they have them. Rows without a time are dropped.
    pub(crate) fn retain(
        &mut self,
        is_wanted: impl Fn(Nanos, Option<(ThreadId, StackId)>) -> bool,
    ) {
        for batch in &mut self.batches {
            let times = self.table.times(batch);
            let threads = self.table.first_of(&Kind::Thread, batch);
            let stacks = self.table.first_of(&Kind::Stack, batch);
            let kept = batch.kept(|row| {
                let ids = threads.get(row).zip(stacks.get(row));
                let ids =
                    ids.map(|(thread, stack)| (ThreadId(*thread as u32), StackId(*stack as u32)));
                times.get(row).is_some_and(|time| is_wanted(*time, ids))
            });
            *batch = Arc::new(kept);
        }
        self.batches.retain(|batch| batch.rows > 0);
    }
}

impl Profile {
    /// The rows of a table that a profiler has recorded, in the order in which they came. Empty
    /// where there are none, or where the session has the table in a form that is not this one.
    pub fn rows<R: Row>(&self) -> Vec<R> {
        let tables = self.other_tables.iter().filter(|known| R::is(&known.table));
        let batches =
            tables.flat_map(|known| known.batches.iter().map(move |batch| (&known.table, batch)));
        batches.flat_map(|(table, batch)| R::read(table, batch).unwrap_or_default()).collect()
    }
}
