use crate::Error;
use crate::block::{Blob, Blobs, Metadata, Stacks, sequence_point};
use crate::cursor::Cursor;
use crate::field::Field;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, Read};
use std::sync::Arc;

/// Largest block that is accepted, in bytes. Runtimes write blocks of about 100 KiB.
const MAX_BLOCK: usize = 2 << 20;

/// Most kinds of events that are accepted.
const MAX_METADATA: usize = 1 << 16;

/// Most addresses kept of stacks that events may still refer to.
const MAX_STACK_ADDRESSES: usize = 1 << 20;

/// Most threads whose event numbers are followed.
const MAX_THREADS: usize = 1 << 18;

/// Most bytes of events that wait for older ones. Beyond that the oldest are given out although an
/// even older one may still come.
const MAX_PENDING: usize = 64 << 20;

/// Bytes of one read.
const CHUNK: usize = 64 << 10;

/// Tags of the serialisation.
const NULL_REFERENCE: u8 = 1;
const BEGIN_OBJECT: u8 = 5;
const END_OBJECT: u8 = 6;

/// What a stream says of itself and of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceInfo {
    /// Start of the session on the wall clock, in UTC: year, month, day, hour, minute, second,
    /// millisecond.
    pub start_utc: [u16; 7],
    /// The same moment on the clock of the events, in nanoseconds. On Linux that is
    /// `CLOCK_MONOTONIC`.
    pub start: u64,
    /// Ticks in a second of the clock that the stream uses; times in [`Event`]s are nanoseconds
    /// already.
    pub frequency: u64,
    /// Size of an address in the process, 4 or 8 bytes.
    pub pointer_size: u32,
    /// Process id in the process's own pid namespace.
    pub pid: u32,
    /// Processors that the process may use.
    pub processors: u32,
}

/// A kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Who writes it, such as `Microsoft-Windows-DotNETRuntime`.
    pub provider: String,
    /// Its number at that provider.
    pub id: u32,
    /// Version of its fields.
    pub version: u32,
    /// Its name; often empty for the runtime's own events.
    pub name: String,
    /// Groups that it belongs to, a bit for each.
    pub keywords: u64,
    /// 1 critical to 5 verbose.
    pub level: u32,
    /// Its fields, for events with values of counters; empty for all others.
    pub fields: Vec<Field>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What kind it is of.
    pub ty: Arc<EventType>,
    /// When it happened, in nanoseconds of the stream's clock: `CLOCK_MONOTONIC` on Linux.
    pub timestamp: u64,
    /// The thread that it is about, in the process's own pid namespace.
    pub thread_id: u64,
    /// The thread that wrote it.
    pub capture_thread_id: u64,
    /// The processor that thread was on.
    pub processor: u32,
    /// The stack of the thread, leaf first; empty where the session collects none.
    pub stack: Arc<[u64]>,
    /// The activity that it belongs to, all zeros for none.
    pub activity: [u8; 16],
    /// The activity that started that one.
    pub related_activity: [u8; 16],
    /// The fields, packed.
    pub payload: Vec<u8>,
}

/// What was read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes of the stream.
    pub bytes: u64,
    /// Events found in it.
    pub events: u64,
    /// Events that the runtime dropped because its buffers were full, by the gaps in the threads'
    /// numbering.
    pub lost: u64,
    /// Events of a kind that was never described; they are not given out.
    pub undescribed: u64,
}

/// Reads a stream, and gives its events in the order of their times.
///
/// A runtime writes events thread by thread, so an event is held back until no older one can come.
/// That is the case when the runtime's next batch begins (it writes one every 100 ms), at the end,
/// or when reading times out.
pub struct Reader<R> {
    input: R,
    /// Bytes that were read; those before `consumed` are done with.
    buffer: Vec<u8>,
    consumed: usize,
    /// Position in the stream of the first byte of `buffer`.
    base: u64,
    started: bool,
    ended: bool,
    /// Why reading ended; told when all events before it were given out.
    failure: Option<Error>,
    trace: Option<TraceInfo>,
    metadata: HashMap<u32, Arc<EventType>>,
    stacks: HashMap<u32, Arc<[u64]>>,
    stack_addresses: usize,
    no_stack: Arc<[u64]>,
    /// The number of the last event of each thread.
    sequence: HashMap<u64, u32>,
    pending: BinaryHeap<Pending>,
    pending_bytes: usize,
    /// Pending events up to this time may be given out.
    watermark: u64,
    arrival: u64,
    statistics: Statistics,
}

/// An event that waits for older ones; the heap's greatest is the oldest.
struct Pending {
    arrival: u64,
    event: Event,
}

impl Pending {
    fn key(&self) -> (u64, u64) {
        (self.event.timestamp, self.arrival)
    }

    /// Roughly what it takes in memory.
    fn size(&self) -> usize {
        size_of::<Self>() + self.event.payload.len() + self.event.stack.len() * 8
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Pending {}

impl<R: Read> Reader<R> {
    /// Reads from `input`, nothing yet.
    pub fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            consumed: 0,
            base: 0,
            started: false,
            ended: false,
            failure: None,
            trace: None,
            metadata: HashMap::new(),
            stacks: HashMap::new(),
            stack_addresses: 0,
            no_stack: Arc::from([]),
            sequence: HashMap::new(),
            pending: BinaryHeap::new(),
            pending_bytes: 0,
            watermark: 0,
            arrival: 0,
            statistics: Statistics::default(),
        }
    }

    /// What the stream says of itself; `None` until its head was read.
    pub fn trace(&self) -> Option<&TraceInfo> {
        self.trace.as_ref()
    }

    /// What was read so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Where the bytes come from.
    pub fn get_ref(&self) -> &R {
        &self.input
    }

    /// The next event, or `None` at the end of the stream.
    ///
    /// After an error for which [`Error::is_timeout`] holds, the next call continues where reading
    /// stopped. Any other error comes after all events that were whole before it, and is the end:
    /// after it there is nothing more.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.take_pending() {
                return Ok(Some(event));
            }
            if self.ended {
                return self.failure.take().map_or(Ok(None), Err);
            }
            match self.step() {
                Ok(()) => {}
                Err(error) if error.is_timeout() && self.pending.is_empty() => return Err(error),
                // Everything that the runtime has written is here, so nothing older can come.
                Err(error) if error.is_timeout() => self.watermark = u64::MAX,
                Err(error) => {
                    self.ended = true;
                    self.failure = Some(error);
                }
            }
            if self.ended {
                self.watermark = u64::MAX;
            }
        }
    }

    fn take_pending(&mut self) -> Option<Event> {
        let oldest = self.pending.peek()?;
        if oldest.event.timestamp > self.watermark && self.pending_bytes <= MAX_PENDING {
            return None;
        }
        let pending = self.pending.pop()?;
        self.pending_bytes = self.pending_bytes.saturating_sub(pending.size());
        if self.pending.is_empty() && self.watermark == u64::MAX {
            // After a time-out more may come, and has to be sorted again.
            self.watermark = pending.event.timestamp;
        }
        Some(pending.event)
    }

    /// Position in the stream of what is read next.
    fn stream_position(&self) -> u64 {
        self.base.saturating_add(self.consumed as u64)
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { at: self.stream_position(), what }
    }

    /// Reads until `length` bytes are there. Nothing is consumed, so that reading can continue
    /// after a timeout.
    fn fill(&mut self, length: usize) -> Result<(), Error> {
        while self.buffer.len().saturating_sub(self.consumed) < length {
            if self.consumed > 0 {
                self.buffer.drain(..self.consumed);
                self.base = self.base.saturating_add(self.consumed as u64);
                self.consumed = 0;
            }
            // Memory grows by what really comes, not by what a length promises.
            let filled = self.buffer.len();
            self.buffer.resize(filled + CHUNK, 0);
            let read = match self.buffer.get_mut(filled..) {
                Some(free) => self.input.read(free),
                None => Ok(0),
            };
            self.buffer.truncate(filled + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => {
                    return Err(Error::Truncated { at: self.base.saturating_add(filled as u64) });
                }
                Ok(read) => self.statistics.bytes += read as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next `length` bytes, `offset` after what is consumed.
    fn peek(&mut self, offset: usize, length: usize) -> Result<&[u8], Error> {
        let end = offset.saturating_add(length);
        self.fill(end)?;
        let (from, to) = (self.consumed + offset, self.consumed + end);
        // They are there after `fill`.
        Ok(self.buffer.get(from..to).unwrap_or_default())
    }

    fn peek_u32(&mut self, offset: usize) -> Result<u32, Error> {
        Ok(Cursor(self.peek(offset, 4)?).u32().unwrap_or_default())
    }

    /// Reads the head, or one object, whole.
    fn step(&mut self) -> Result<(), Error> {
        if !self.started {
            return self.head();
        }
        match self.peek(0, 1)?.first() {
            Some(&NULL_REFERENCE) => {
                self.ended = true;
                return Ok(());
            }
            Some(&BEGIN_OBJECT) => {}
            _ => return Err(self.damaged("no object begins here")),
        }
        // Begin, begin of the type, null, version, oldest reader, length of the name.
        if !self.peek(1, 2)?.eq(&[BEGIN_OBJECT, NULL_REFERENCE]) {
            return Err(self.damaged("an object has no type"));
        }
        let oldest_reader = self.peek_u32(7)?;
        let name_length = self.peek_u32(11)? as usize;
        if name_length > 64 {
            return Err(self.damaged("the name of a type is too long"));
        }
        let name: [u8; 64] = {
            let mut name = [0; 64];
            let bytes = self.peek(15, name_length)?;
            for (to, from) in name.iter_mut().zip(bytes) {
                *to = *from;
            }
            name
        };
        let name = name.get(..name_length).unwrap_or_default();
        let body = 15 + name_length + 1;
        if self.peek(body - 1, 1)? != [END_OBJECT] {
            return Err(self.damaged("a type does not end"));
        }
        let known = if name == b"Trace" { 5 } else { 2 };
        if oldest_reader > known {
            return Err(Error::Version { version: oldest_reader });
        }
        if name == b"Trace" {
            return self.trace_object(body);
        }
        let size = self.peek_u32(body)? as usize;
        if size > MAX_BLOCK {
            return Err(self.damaged("a block is too large"));
        }
        // Aligned by the position in the stream.
        let after_size = self.stream_position().saturating_add(body as u64 + 4);
        let padding = (4 - after_size % 4) as usize % 4;
        let start = body + 4 + padding;
        self.fill(start + size + 1)?;
        if self.peek(start + size, 1)? != [END_OBJECT] {
            return Err(self.damaged("a block does not end where it should"));
        }
        // The block is taken out so that it can be read while the reader changes.
        let from = self.consumed + start;
        let buffer = std::mem::take(&mut self.buffer);
        let result = self.block(name, buffer.get(from..from + size).unwrap_or_default());
        self.buffer = buffer;
        result.map_err(|what| self.damaged(what))?;
        self.consumed += start + size + 1;
        Ok(())
    }

    fn head(&mut self) -> Result<(), Error> {
        if self.peek(0, 8)? != b"Nettrace" {
            return Err(Error::NotNettrace);
        }
        // From version 6 on: zero, the major version, the minor version.
        if self.peek_u32(8)? == 0 {
            return Err(Error::Version { version: self.peek_u32(12)? });
        }
        if self.peek(8, 24)? != b"\x14\0\0\0!FastSerialization.1" {
            return Err(Error::NotNettrace);
        }
        self.consumed += 32;
        self.started = true;
        Ok(())
    }

    fn trace_object(&mut self, body: usize) -> Result<(), Error> {
        const SIZE: usize = 48;
        let bytes = self.peek(body, SIZE + 1)?;
        let mut fields = Cursor(bytes);
        let parsed = (|| {
            let [year, month, _weekday, day, hour, minute, second, millisecond] = [
                fields.u16()?,
                fields.u16()?,
                fields.u16()?,
                fields.u16()?,
                fields.u16()?,
                fields.u16()?,
                fields.u16()?,
                fields.u16()?,
            ];
            let (ticks, frequency) = (fields.u64()?, fields.u64()?);
            let info = TraceInfo {
                start_utc: [year, month, day, hour, minute, second, millisecond],
                start: to_nanoseconds(ticks, frequency),
                frequency,
                pointer_size: fields.u32()?,
                pid: fields.u32()?,
                processors: fields.u32()?,
            };
            let _sampling_rate = fields.u32()?;
            Some((info, fields.u8()?))
        })();
        let Some((info, END_OBJECT)) = parsed else {
            return Err(self.damaged("the trace object does not end where it should"));
        };
        if info.frequency == 0 || !matches!(info.pointer_size, 4 | 8) {
            return Err(self.damaged("the trace object makes no sense"));
        }
        self.trace = Some(info);
        self.consumed += body + SIZE + 1;
        Ok(())
    }

    fn block(&mut self, name: &[u8], block: &[u8]) -> Result<(), &'static str> {
        let Some(trace) = self.trace else { return Err("a block stands before the trace object") };
        match name {
            b"EventBlock" => {
                let mut blobs =
                    Blobs::new(block).ok_or("the header of an event block is cut short")?;
                while let Some(blob) = blobs.next().map_err(|()| "an event is cut short")? {
                    self.event(&blob, trace.frequency);
                }
            }
            b"MetadataBlock" => {
                let mut blobs =
                    Blobs::new(block).ok_or("the header of a metadata block is cut short")?;
                while let Some(blob) = blobs.next().map_err(|()| "a description is cut short")? {
                    self.describe(blob.payload)?;
                }
            }
            b"StackBlock" => {
                let mut stacks = Stacks::new(block, trace.pointer_size as usize)
                    .ok_or("a stack block is cut short")?;
                while let Some((id, addresses)) =
                    stacks.next().map_err(|()| "a stack is cut short")?
                {
                    if self.stack_addresses > MAX_STACK_ADDRESSES {
                        self.forget_stacks();
                    }
                    // Some more for what an empty stack takes.
                    self.stack_addresses += addresses.len() + 8;
                    self.stacks.insert(id, addresses.into());
                }
            }
            b"SPBlock" => {
                let threads = sequence_point(block).ok_or("a sequence point is cut short")?;
                self.sequence_point(&threads);
            }
            _ => return Err("an object of unknown type"),
        }
        Ok(())
    }

    fn describe(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        let metadata = Metadata::parse(payload).ok_or("a description is cut short")?;
        if self.metadata.len() >= MAX_METADATA && !self.metadata.contains_key(&metadata.id) {
            return Err("there are too many kinds of events");
        }
        let ty = EventType {
            provider: metadata.provider,
            id: metadata.event_id,
            version: metadata.version,
            name: metadata.name,
            keywords: metadata.keywords,
            level: metadata.level,
            fields: metadata.fields,
        };
        self.metadata.insert(metadata.id, Arc::new(ty));
        Ok(())
    }

    fn event(&mut self, blob: &Blob<'_>, frequency: u64) {
        self.statistics.events += 1;
        self.follow_sequence(blob.capture_thread_id, blob.sequence_number);
        let timestamp = to_nanoseconds(blob.timestamp, frequency);
        if blob.is_sorted {
            // No event after this one is older.
            self.watermark = self.watermark.max(timestamp);
        }
        let Some(ty) = self.metadata.get(&blob.metadata_id) else {
            self.statistics.undescribed += 1;
            return;
        };
        let stack = self.stacks.get(&blob.stack_id).unwrap_or(&self.no_stack);
        let pending = Pending {
            arrival: self.arrival,
            event: Event {
                ty: Arc::clone(ty),
                timestamp,
                thread_id: blob.thread_id,
                capture_thread_id: blob.capture_thread_id,
                processor: blob.processor,
                stack: Arc::clone(stack),
                activity: blob.activity,
                related_activity: blob.related_activity,
                payload: blob.payload.to_vec(),
            },
        };
        self.arrival += 1;
        self.pending_bytes = self.pending_bytes.saturating_add(pending.size());
        self.pending.push(pending);
    }

    /// Counts the numbers that a thread's events skip. Numbers begin with 1.
    fn follow_sequence(&mut self, thread: u64, number: u32) {
        if self.sequence.len() >= MAX_THREADS && !self.sequence.contains_key(&thread) {
            self.sequence.clear();
        }
        let last = self.sequence.insert(thread, number).unwrap_or_default();
        // A new thread with a known id begins with 1 again.
        if number != 1 {
            self.count_lost(last.wrapping_add(1), number);
        }
    }

    /// Counts the numbers from `expected` up to before `found`; a step back is no loss.
    fn count_lost(&mut self, expected: u32, found: u32) {
        let gap = found.wrapping_sub(expected);
        if gap < 1 << 31 {
            self.statistics.lost = self.statistics.lost.saturating_add(gap.into());
        }
    }

    /// Everything before a sequence point is older than everything after it, and stacks are
    /// numbered anew.
    fn sequence_point(&mut self, threads: &[(u64, u32)]) {
        self.forget_stacks();
        let newest =
            self.pending.iter().map(|pending| pending.event.timestamp).max().unwrap_or_default();
        self.watermark = self.watermark.max(newest);
        let mut sequence = HashMap::new();
        for &(thread, number) in threads.iter().take(MAX_THREADS) {
            let last = self.sequence.get(&thread).copied().unwrap_or_default();
            // The number is that of the thread's last event, or a lower bound of it.
            let behind = number.wrapping_sub(last) < 1 << 31;
            if behind {
                self.count_lost(last, number);
            }
            sequence.insert(thread, if behind { number } else { last });
        }
        // Threads that are not listed have ended.
        self.sequence = sequence;
    }

    fn forget_stacks(&mut self) {
        self.stacks.clear();
        self.stack_addresses = 0;
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Event, Error>;

    /// As [`Reader::next_event`].
    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

/// Ticks as nanoseconds; times that do not fit are the last that does.
fn to_nanoseconds(ticks: u64, frequency: u64) -> u64 {
    const PER_SECOND: u64 = 1_000_000_000;
    if frequency == PER_SECOND {
        return ticks;
    }
    let nanoseconds = u128::from(ticks) * u128::from(PER_SECOND) / u128::from(frequency.max(1));
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}
