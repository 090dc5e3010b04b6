use std::{
    io::Write,
    time::{Duration, Instant},
};

use crate::{
    FileHeader, SampleBatch, SessionError, SessionRecord, Sink, Validator,
    format::{BLOCK_HEAD, BLOCK_TARGET, FORMAT, MAGIC, MAX_BATCH, MAX_BLOCK, MAX_HEADER, RECORDS},
};

/// How old a record may get before it is written: what a killed recorder loses at most.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// Writes a session. Records are checked, gathered to blocks of about 256 KiB, compressed and
/// written, and at the latest with the first record or [`Self::flush_if_due`] after one second.
/// Nothing is buffered beyond a block, so `W` may be a bare file.
#[derive(Debug)]
pub struct SessionWriter<W: Write> {
    /// `None` once finished.
    out: Option<W>,
    validator: Validator,
    raw: Vec<u8>,
    scratch: Vec<u8>,
    block: Vec<u8>,
    oldest: Option<Instant>,
    written: u64,
}

impl<W: Write> SessionWriter<W> {
    /// Begins a session and writes the file's header at once.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn new(mut out: W, tool_version: &str) -> Result<Self, SessionError> {
        let header = FileHeader { tool_version: tool_version.to_owned() };
        let header = postcard::to_stdvec(&header).map_err(SessionError::Encode)?;
        if header.len() > MAX_HEADER {
            return Err(SessionError::RecordTooLarge { size: header.len(), limit: MAX_HEADER });
        }
        let mut head = Vec::with_capacity(64);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&FORMAT.to_le_bytes());
        head.extend_from_slice(&(header.len() as u32).to_le_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head);
        crc.update(&header);
        head.extend_from_slice(&crc.finalize().to_le_bytes());
        head.extend_from_slice(&header);
        out.write_all(&head)?;
        out.flush()?;
        Ok(Self {
            out: Some(out),
            validator: Validator::new(),
            raw: Vec::new(),
            scratch: Vec::new(),
            block: Vec::new(),
            oldest: None,
            written: head.len() as u64,
        })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// When it breaks the order of the model or is too large (then it is left out and the session
    /// continues), or when the file cannot be written.
    pub fn write(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        match record {
            SessionRecord::CpuSamples(batch) if batch.time_delta.len() > MAX_BATCH => {
                self.split(batch, SessionRecord::CpuSamples)
            }
            SessionRecord::WallSamples(batch) if batch.time_delta.len() > MAX_BATCH => {
                self.split(batch, SessionRecord::WallSamples)
            }
            SessionRecord::PoolSamples(batch) if batch.time_delta.len() > MAX_BATCH => {
                self.split(batch, SessionRecord::PoolSamples)
            }
            _ => self.write_one(record),
        }
    }

    fn write_one(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        let before = self.validator.clone();
        self.validator.check(record)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        self.scratch = postcard::to_extend(record, scratch).map_err(SessionError::Encode)?;
        if self.scratch.len() > MAX_BLOCK {
            self.validator = before;
            return Err(SessionError::RecordTooLarge {
                size: self.scratch.len(),
                limit: MAX_BLOCK,
            });
        }
        if self.raw.len() + self.scratch.len() > MAX_BLOCK {
            self.flush()?;
        }
        self.raw.extend_from_slice(&self.scratch);
        self.oldest.get_or_insert_with(Instant::now);
        if self.raw.len() >= BLOCK_TARGET {
            return self.flush();
        }
        self.flush_if_due()
    }

    fn split(
        &mut self,
        batch: &SampleBatch,
        record: impl Fn(SampleBatch) -> SessionRecord,
    ) -> Result<(), SessionError> {
        // The whole batch is checked once, so that a bad one is not written in part.
        self.validator.clone().check(&record(batch.clone()))?;
        let mut start = batch.start;
        for from in (0..batch.time_delta.len()).step_by(MAX_BATCH) {
            let rows = from..batch.time_delta.len().min(from + MAX_BATCH);
            let part = SampleBatch {
                start,
                time_delta: batch.time_delta[rows.clone()].to_vec(),
                thread: batch.thread[rows.clone()].to_vec(),
                stack: batch.stack[rows.clone()].to_vec(),
                weight: batch.weight[rows.clone()].to_vec(),
                state: batch.state[rows.clone()].to_vec(),
                truncated: batch.truncated[rows].to_vec(),
            };
            start = part.time_delta.iter().fold(start, |time, delta| time.wrapping_add(*delta));
            self.write_one(&record(part))?;
        }
        Ok(())
    }

    /// Writes what is gathered if the oldest of it is a second old. To be called now and then while
    /// nothing comes.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush_if_due(&mut self) -> Result<(), SessionError> {
        match self.oldest {
            Some(oldest) if oldest.elapsed() >= FLUSH_AFTER => self.flush(),
            _ => Ok(()),
        }
    }

    /// Writes what is gathered.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&mut self) -> Result<(), SessionError> {
        self.oldest = None;
        let Some(out) = self.out.as_mut() else { return Ok(()) };
        if self.raw.is_empty() {
            return Ok(());
        }
        self.block.clear();
        self.block.resize(BLOCK_HEAD + lz4_flex::block::get_maximum_output_size(self.raw.len()), 0);
        let length = lz4_flex::block::compress_into(&self.raw, &mut self.block[BLOCK_HEAD..])
            .map_err(|error| std::io::Error::other(error.to_string()))?;
        self.block.truncate(BLOCK_HEAD + length);
        self.block[0] = RECORDS;
        self.block[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        self.block[8..12].copy_from_slice(&(self.raw.len() as u32).to_le_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(&self.block[..12]);
        crc.update(&self.block[BLOCK_HEAD..]);
        self.block[12..16].copy_from_slice(&crc.finalize().to_le_bytes());
        self.raw.clear();
        // One write for a block: a kill leaves a whole block or a cut one, and both can be read.
        out.write_all(&self.block)?;
        out.flush()?;
        self.written += self.block.len() as u64;
        Ok(())
    }

    /// Bytes written so far.
    pub fn bytes_written(&self) -> u64 {
        self.written
    }

    /// Writes the rest and gives the file back.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self) -> Result<W, SessionError> {
        self.flush()?;
        self.out.take().ok_or_else(|| std::io::Error::other("the session is finished").into())
    }
}

impl<W: Write> Drop for SessionWriter<W> {
    fn drop(&mut self) {
        // Whoever did not call `finish` gets no error, but what can be kept is kept.
        let _ = self.flush();
    }
}

impl<W: Write> Sink for SessionWriter<W> {
    fn record(&mut self, record: &SessionRecord) -> Result<(), SessionError> {
        self.write(record)
    }

    fn idle(&mut self) -> Result<(), SessionError> {
        self.flush_if_due()
    }
}
