//! Some of the rows of a batch.

use crate::{Kind, Nanos, RowBatch, TableDef, Values};

impl TableDef {
    /// The column that says when each row was: the first of moments, if there is one.
    pub fn time_column(&self) -> Option<usize> {
        self.columns.iter().position(|column| column.kind == Kind::Time)
    }

    /// When each row of a batch of this table was; empty where the table does not say.
    pub fn times<'b>(&self, batch: &'b RowBatch) -> &'b [Nanos] {
        let column = self.time_column().and_then(|at| batch.columns.get(at));
        match column {
            Some(Values::Times(times)) => times,
            _ => &[],
        }
    }
}

impl TableDef {
    /// The cells of a batch of this table in its first column of a kind that holds ids or numbers;
    /// empty where it has none.
    pub fn first_of<'b>(&self, kind: &Kind, batch: &'b RowBatch) -> &'b [u64] {
        let at = self.columns.iter().position(|column| column.kind == *kind);
        match at.and_then(|at| batch.columns.get(at)) {
            Some(Values::Whole(values)) => values,
            _ => &[],
        }
    }
}

impl RowBatch {
    /// The rows of which this says that they are kept, by their place.
    pub fn kept(&self, keep: impl Fn(usize) -> bool) -> RowBatch {
        let keep: Vec<bool> = (0..self.rows as usize).map(keep).collect();
        let rows = keep.iter().filter(|kept| **kept).count() as u32;
        let columns = self.columns.iter().map(|column| column.kept(&keep)).collect();
        RowBatch { table: self.table, rows, columns }
    }
}

impl Values {
    /// The cells of which this says that they are kept.
    fn kept(&self, keep: &[bool]) -> Values {
        match self {
            Values::Times(values) => Values::Times(chosen(values, keep)),
            Values::Whole(values) => Values::Whole(chosen(values, keep)),
            Values::Real(values) => Values::Real(chosen(values, keep)),
            Values::Text(values) => Values::Text(chosen(values, keep)),
            Values::Optional { present, values } => {
                let inner: Vec<bool> = chosen(keep, present);
                let values = Box::new(values.kept(&inner));
                Values::Optional { present: chosen(present, keep), values }
            }
            Values::List { lengths, values } => {
                let inner = lengths.iter().zip(keep);
                let inner = inner.flat_map(|(length, kept)| (0..*length).map(|_| *kept));
                let values = Box::new(values.kept(&inner.collect::<Vec<_>>()));
                Values::List { lengths: chosen(lengths, keep), values }
            }
        }
    }
}

/// The values of which this says that they are kept.
fn chosen<T: Clone>(values: &[T], keep: &[bool]) -> Vec<T> {
    let kept = values.iter().zip(keep).filter(|(_, kept)| **kept);
    kept.map(|(value, _)| value.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnyCell, Cells, TableId};

    #[test]
    fn kept_rows_have_their_own_cells() {
        let texts = |texts: &[&str]| Values::Text(texts.iter().map(|&text| text.into()).collect());
        let batch = RowBatch {
            table: TableId(0),
            rows: 4,
            columns: vec![
                Values::Times(vec![10, 20, 30, 40]),
                Values::Optional {
                    present: vec![true, false, true, true],
                    values: Box::new(texts(&["a", "c", "d"])),
                },
                Values::List {
                    lengths: vec![2, 1, 0, 3],
                    values: Box::new(Values::Whole(vec![1, 2, 3, 4, 5, 6])),
                },
            ],
        };
        let kept = batch.kept(|row| row != 2);
        assert_eq!((kept.rows, &kept.columns[0]), (3, &Values::Times(vec![10, 20, 40])));
        let cells = |column: usize| {
            let mut cells = Cells::of(&kept.columns[column]);
            std::iter::from_fn(move || cells.any()).collect::<Vec<_>>()
        };
        assert_eq!(cells(1), [AnyCell::Text("a"), AnyCell::Nothing, AnyCell::Text("d")]);
        let list = |numbers: &[u64]| {
            AnyCell::List(numbers.iter().map(|number| AnyCell::Whole(*number)).collect())
        };
        assert_eq!(cells(2), [list(&[1, 2]), list(&[3]), list(&[4, 5, 6])]);
        assert_eq!(batch.kept(|_| true), batch);
        assert_eq!(batch.kept(|_| false).columns[0], Values::Times(vec![]));
    }
}
