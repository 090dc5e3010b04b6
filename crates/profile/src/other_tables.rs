use std::sync::Arc;

use rows::{AnyCell, Cells, RowBatch, TableDef};

/// A table that no analysis here knows, such as one of a later version of clrscope.
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
}
