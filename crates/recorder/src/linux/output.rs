//! Where the records of a recording go.

use super::{clock::now, define::Definitions};
use crate::RecordError;
use session::{LiveSink, SessionError, SessionRecord, SessionWriter, Sink, Tee};
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The session file and the live view, as far as there are any.
pub(super) type Out = Tee<Option<SessionWriter<BufWriter<File>>>, Option<LiveSink>>;

/// The same, with what became of them.
pub(super) struct Output {
    out: Out,
    path: Option<PathBuf>,
    /// Why nothing more is written.
    failure: Option<SessionError>,
    /// Sentences that were written, each of them once.
    notes: Vec<String>,
    /// When rows of tables were last written.
    rows_written: Instant,
}

impl Output {
    /// `path` is that of the session file.
    pub fn new(out: Out, path: Option<PathBuf>) -> Self {
        let rows_written = Instant::now();
        Self { out, path, failure: None, notes: Vec::new(), rows_written }
    }

    /// Writes a record, whose definitions are written. After a failure nothing is.
    pub fn write(&mut self, record: &SessionRecord) {
        if self.failure.is_none()
            && let Err(error) = self.out.record(record)
        {
            self.failure = Some(error);
        }
    }

    /// Writes new definitions.
    pub fn write_definitions(&mut self, definitions: &mut Definitions) {
        definitions.take().iter().for_each(|record| self.write(record));
    }

    /// Writes the rows that have come, with their definitions.
    pub fn write_rows(&mut self, definitions: &mut Definitions) {
        self.write_definitions(definitions);
        definitions.take_rows().iter().for_each(|record| self.write(record));
        self.rows_written = Instant::now();
    }

    /// How long rows have been gathered.
    pub fn rows_gathered_for(&self) -> Duration {
        self.rows_written.elapsed()
    }

    /// Writes a sentence, unless it was written before.
    pub fn note(&mut self, message: String) {
        if !self.notes.contains(&message) {
            self.write(&SessionRecord::Note { time: now(), message: message.clone() });
            self.notes.push(message);
        }
    }

    /// The sentences so far.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Forgets the first sentence that begins like this: a newer one replaces it in the summary.
    pub fn forget_note(&mut self, beginning: &str) {
        let before = self.notes.iter().position(|note| note.starts_with(beginning));
        before.map(|index| self.notes.remove(index));
    }

    /// Nothing is written just now.
    pub fn idle(&mut self) {
        if let Err(error) = self.out.idle() {
            self.failure.get_or_insert(error);
        }
    }

    /// Whether writing has failed.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Bytes of the session file so far.
    pub fn bytes_written(&self) -> u64 {
        self.out.0.as_ref().map_or(0, SessionWriter::bytes_written)
    }

    /// The path of the session file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Closes the session file, and removes it where there was nothing to record.
    ///
    /// # Errors
    /// [`RecordError::Output`] where it could not be written, else why there was nothing.
    pub fn close(&mut self, refused: Option<RecordError>) -> Result<(), RecordError> {
        let path = self.path.clone().unwrap_or_default();
        let closed = match (self.failure.take(), self.out.0.take()) {
            (Some(error), _) => Err(error),
            (None, None) => Ok(()),
            (None, Some(writer)) => writer.finish().and_then(|mut file| Ok(file.flush()?)),
        };
        closed.map_err(|source| RecordError::Output { path: path.clone(), source })?;
        if let Some(refused) = refused {
            let _ = std::fs::remove_file(path);
            return Err(refused);
        }
        Ok(())
    }
}
