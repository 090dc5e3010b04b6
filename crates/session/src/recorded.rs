use std::{
    collections::VecDeque,
    io::{Read, Seek, SeekFrom},
};

use rows::Values;

use crate::{
    Nanos, SampleBatch, SessionError, SessionReader, SessionRecord,
    format::{BLOCK_HEAD, MAX_BLOCK, OPTIONAL, RECORDS},
    reader::{read_full, u32_at},
};

/// Blocks at the end of a file in which the latest time is looked for. Tables gather their rows for
/// 400 ms, so the record that is written last need not have the latest time.
const BLOCKS: usize = 8;

impl<R: Read + Seek> SessionReader<R> {
    /// How much was recorded so far: nanoseconds from the start to the latest time that a record
    /// near the end of the file has; 0 if there is none. Only the last blocks are unpacked, so that
    /// it can be asked often while a file becomes longer. What is damaged has no time.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn recorded(mut self) -> Result<Nanos, SessionError> {
        let Some(SessionRecord::Info(info)) = self.next().transpose()? else { return Ok(0) };
        let mut latest = info.start.max(self.rest_of_block().unwrap_or_default());
        // Records of format 1 are made anew one after the other, from the first one on.
        if !self.is_upgraded() {
            self.skip_to_last_blocks()?;
        }
        while let Ok(Some(time)) = self.next_time() {
            latest = latest.max(time);
        }
        Ok(latest.saturating_sub(info.start))
    }

    /// Continues with the last blocks. The reader is between two blocks.
    fn skip_to_last_blocks(&mut self) -> Result<(), SessionError> {
        let input = self.input();
        let mut at = input.stream_position()?;
        let mut last = VecDeque::from([at]);
        let limit = lz4_flex::block::get_maximum_output_size(MAX_BLOCK);
        loop {
            let mut head = [0; BLOCK_HEAD];
            let (kind, length) = match read_full(input, &mut head)? {
                BLOCK_HEAD => (head[0], u32_at(&head, 4) as usize),
                _ => break,
            };
            if head == [0; BLOCK_HEAD] || (kind != RECORDS && kind < OPTIONAL) || length > limit {
                break;
            }
            if kind == RECORDS {
                last.push_back(at);
                last.drain(..last.len().saturating_sub(BLOCKS));
            }
            at = input.seek(SeekFrom::Current(length as i64))?;
        }
        if let Some(first) = last.front() {
            input.seek(SeekFrom::Start(*first))?;
        }
        Ok(())
    }
}

/// The latest time that a record has, if it has any.
pub(crate) fn time_of(record: &SessionRecord) -> Option<Nanos> {
    let of_batch = |batch: &SampleBatch| {
        let add = |time: Nanos, delta: &u64| time.saturating_add(*delta);
        batch.time_delta.iter().fold(batch.start, add)
    };
    match record {
        SessionRecord::CpuSamples(batch)
        | SessionRecord::WallSamples(batch)
        | SessionRecord::PoolSamples(batch) => Some(of_batch(batch)),
        SessionRecord::Rows(batch) => {
            let times = batch.columns.iter().filter_map(|column| match column {
                Values::Times(times) => times.iter().max().copied(),
                _ => None,
            });
            times.max()
        }
        SessionRecord::ThreadSnapshot(snapshot) => Some(snapshot.time),
        SessionRecord::Observer(status) => Some(status.time),
        SessionRecord::End(end) => Some(end.time),
        _ => None,
    }
}
