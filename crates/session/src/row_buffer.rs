use rows::{MAX_ROWS, Row, RowBatch, TableDef, TableId};

use crate::SessionRecord;

/// Bytes of a batch, before compression, from which on it takes no more rows: those of a block that
/// a writer begins anew.
const MAX_BYTES: usize = 256 * 1024;

/// Rows on their way into a session. Gathers them to batches, and defines each table before its
/// first rows.
#[derive(Debug, Default)]
pub struct RowBuffer {
    /// All tables that rows came for, by their ids.
    tables: Vec<Gathered>,
    /// New tables and full batches.
    ready: Vec<SessionRecord>,
}

/// Rows of a table.
#[derive(Debug)]
struct Gathered {
    table: TableDef,
    batch: RowBatch,
    /// Most bytes that the batch takes.
    bytes: usize,
}

impl Gathered {
    /// The rows that came since the last time.
    fn take(&mut self) -> SessionRecord {
        self.bytes = 0;
        SessionRecord::Rows(std::mem::replace(&mut self.batch, RowBatch::none(&self.table)))
    }
}

impl RowBuffer {
    /// Takes a row.
    pub fn push<R: Row>(&mut self, row: &R) {
        let known = self.tables.iter().position(|gathered| R::is(&gathered.table));
        let index =
            known.unwrap_or_else(|| self.define(R::table(TableId(self.tables.len() as u32))));
        let Some(gathered) = self.tables.get_mut(index) else { return };
        row.push(&mut gathered.batch.columns);
        gathered.batch.rows += 1;
        gathered.bytes += row.bytes();
        if gathered.batch.rows as usize >= MAX_ROWS || gathered.bytes >= MAX_BYTES {
            self.end_batches();
        }
    }

    /// Rows may refer to those of tables that were defined before theirs: all batches end together,
    /// in the order of tables.
    fn end_batches(&mut self) {
        let gathered = self.tables.iter_mut().filter(|gathered| gathered.batch.rows > 0);
        self.ready.extend(gathered.map(Gathered::take));
    }

    fn define(&mut self, table: TableDef) -> usize {
        self.ready.push(SessionRecord::Table(table.clone()));
        self.tables.push(Gathered { batch: RowBatch::none(&table), table, bytes: 0 });
        self.tables.len() - 1
    }

    /// What came since the last time: tables that are new, and rows. The rows of a table are in the
    /// order in which they came; of rows of several tables, those of the table that was defined
    /// first come first.
    pub fn take(&mut self) -> Vec<SessionRecord> {
        self.end_batches();
        std::mem::take(&mut self.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rows::{Bytes, Text};

    rows::rows! {
        /// Sizes.
        struct Size in "test", "sizes" {
            bytes: Bytes,
        }

        /// Texts.
        struct Line in "test", "lines" {
            text: Text,
        }
    }

    #[test]
    fn rows_come_in_batches_after_their_table() {
        let mut buffer = RowBuffer::default();
        assert_eq!(buffer.take(), []);
        let rows = [Size { bytes: 1 }, Size { bytes: 2 }];
        rows.iter().for_each(|row| buffer.push(row));
        let other = Line { text: "a".into() };
        buffer.push(&other);
        let [first, second] = [Size::table(TableId(0)), Line::table(TableId(1))];
        assert_eq!(
            buffer.take(),
            [
                SessionRecord::Table(first),
                SessionRecord::Table(second),
                SessionRecord::Rows(Size::batch(TableId(0), &rows)),
                SessionRecord::Rows(Line::batch(TableId(1), std::slice::from_ref(&other))),
            ]
        );
        let again = SessionRecord::Rows(Line::batch(TableId(1), std::slice::from_ref(&other)));
        buffer.push(&other);
        assert_eq!(buffer.take(), [again]);
        assert_eq!(buffer.take(), []);
    }

    #[test]
    fn batches_are_limited() {
        let mut buffer = RowBuffer::default();
        let row = Size { bytes: u64::MAX };
        (0..MAX_ROWS + 1).for_each(|_| buffer.push(&row));
        let text = Line { text: "x".repeat(MAX_BYTES / 2) };
        (0..3).for_each(|_| buffer.push(&text));
        let counts = buffer.take().into_iter().filter_map(|record| match record {
            SessionRecord::Rows(batch) => Some((batch.table.0, batch.rows as usize)),
            _ => None,
        });
        assert_eq!(counts.collect::<Vec<_>>(), [(0, MAX_ROWS), (0, 1), (1, 2), (1, 1)]);
    }
}
