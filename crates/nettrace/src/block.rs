//! What stands in the blocks of a stream.

use crate::cursor::Cursor;
use crate::field::Field;

/// The name of events with values of EventCounters.
pub(crate) const EVENT_COUNTERS: &str = "EventCounters";

/// The provider of the values of all meters.
pub(crate) const METERS: &str = "System.Diagnostics.Metrics";

/// Longest name of a provider or an event, in UTF-16 units.
const MAX_NAME: usize = 4096;

/// One event as it stands in an event or metadata block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blob<'a> {
    pub metadata_id: u32,
    pub sequence_number: u32,
    pub capture_thread_id: u64,
    pub processor: u32,
    pub thread_id: u64,
    pub stack_id: u32,
    pub timestamp: u64,
    pub activity: [u8; 16],
    pub related_activity: [u8; 16],
    pub is_sorted: bool,
    pub payload: &'a [u8],
}

/// The events of an event or metadata block.
pub(crate) struct Blobs<'a> {
    rest: Cursor<'a>,
    compressed: bool,
    /// Fields that a compressed header leaves out are those of the event before it.
    last: Blob<'a>,
    payload_size: usize,
}

impl<'a> Blobs<'a> {
    /// `None` when the block's header is not in order.
    pub fn new(block: &'a [u8]) -> Option<Self> {
        let mut header = Cursor(block);
        let size = usize::from(header.u16()?);
        let flags = header.u16()?;
        let rest = Cursor(block.get(size.max(4)..)?);
        Some(Self { rest, compressed: flags & 1 != 0, last: Blob::default(), payload_size: 0 })
    }

    /// The next event, `Ok(None)` at the end, `Err` when the block is damaged.
    pub fn next(&mut self) -> Result<Option<Blob<'a>>, ()> {
        // Uncompressed events are aligned, so up to three bytes may be left.
        if self.rest.is_empty() {
            return Ok(None);
        }
        let blob = if self.compressed { self.compressed() } else { self.plain() };
        blob.map(Some).ok_or(())
    }

    fn plain(&mut self) -> Option<Blob<'a>> {
        let size = self.rest.u32()? as usize;
        let mut fields = Cursor(self.rest.bytes(size)?);
        let id = fields.u32()?;
        let mut blob = Blob {
            metadata_id: id & 0x7fff_ffff,
            // The bit says that the event is not sorted.
            is_sorted: id >> 31 == 0,
            sequence_number: fields.u32()?,
            thread_id: fields.u64()?,
            capture_thread_id: fields.u64()?,
            processor: fields.u32()?,
            stack_id: fields.u32()?,
            timestamp: fields.u64()?,
            activity: fields.guid()?,
            related_activity: fields.guid()?,
            payload: &[],
        };
        let payload = fields.u32()? as usize;
        blob.payload = fields.bytes(payload)?;
        Some(blob)
    }

    fn compressed(&mut self) -> Option<Blob<'a>> {
        let fields = &mut self.rest;
        let flags = fields.u8()?;
        let has = |bit: u8| flags & bit != 0;
        let mut blob = self.last;
        if has(1) {
            blob.metadata_id = fields.varint32()?;
        }
        if has(2) {
            blob.sequence_number = blob.sequence_number.wrapping_add(fields.varint32()?);
            blob.capture_thread_id = fields.varint()?;
            blob.processor = fields.varint32()?;
        }
        if blob.metadata_id != 0 {
            blob.sequence_number = blob.sequence_number.wrapping_add(1);
        }
        if has(4) {
            blob.thread_id = fields.varint()?;
        }
        if has(8) {
            blob.stack_id = fields.varint32()?;
        }
        blob.timestamp = blob.timestamp.wrapping_add(fields.varint()?);
        if has(16) {
            blob.activity = fields.guid()?;
        }
        if has(32) {
            blob.related_activity = fields.guid()?;
        }
        blob.is_sorted = has(64);
        if has(128) {
            self.payload_size = fields.varint32()? as usize;
        }
        blob.payload = fields.bytes(self.payload_size)?;
        self.last = blob;
        Some(blob)
    }
}

/// The description of one kind of event: id, then the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub id: u32,
    pub provider: String,
    pub event_id: u32,
    pub name: String,
    pub keywords: u64,
    pub version: u32,
    pub level: u32,
    pub fields: Vec<Field>,
}

impl Metadata {
    /// From the payload of an event in a metadata block.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut fields = Cursor(payload);
        let mut metadata = Self {
            id: fields.u32()?,
            provider: fields.utf16z(MAX_NAME)?,
            event_id: fields.u32()?,
            name: fields.utf16z(MAX_NAME)?,
            keywords: fields.u64()?,
            version: fields.u32()?,
            level: fields.u32()?,
            fields: Vec::new(),
        };
        // Kept only where they are read: there may be tens of thousands of kinds of events.
        if metadata.name == EVENT_COUNTERS || metadata.provider == METERS {
            metadata.fields = Field::parse_all(&mut fields, 0).unwrap_or_default();
        }
        Some(metadata)
    }
}

/// Stacks of a stack block, with their ids.
pub(crate) struct Stacks<'a> {
    rest: Cursor<'a>,
    next_id: u32,
    left: u32,
    pointer_size: usize,
}

impl<'a> Stacks<'a> {
    /// `pointer_size` is 4 or 8 bytes.
    pub fn new(block: &'a [u8], pointer_size: usize) -> Option<Self> {
        let mut rest = Cursor(block);
        let next_id = rest.u32()?;
        let left = rest.u32()?;
        Some(Self { rest, next_id, left, pointer_size })
    }

    /// The next stack with its id, the leaf first.
    pub fn next(&mut self) -> Result<Option<(u32, Vec<u64>)>, ()> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let size = self.rest.u32().ok_or(())? as usize;
        let bytes = self.rest.bytes(size).ok_or(())?;
        let addresses = bytes.chunks_exact(self.pointer_size).map(|bytes| {
            let mut fields = Cursor(bytes);
            fields.u64().or_else(|| fields.u32().map(u64::from)).unwrap_or_default()
        });
        Ok(Some((id, addresses.collect())))
    }
}

/// Threads of a sequence point with the numbers of their last events.
pub(crate) fn sequence_point(block: &[u8]) -> Option<Vec<(u64, u32)>> {
    let mut fields = Cursor(block);
    let _timestamp = fields.u64()?;
    let count = fields.u32()? as usize;
    // 12 bytes for each, so the count is checked by what is there.
    let mut bytes = Cursor(fields.bytes(count.checked_mul(12)?)?);
    let mut threads = Vec::with_capacity(count);
    while !bytes.is_empty() {
        threads.push((bytes.u64()?, bytes.u32()?));
    }
    Some(threads)
}
