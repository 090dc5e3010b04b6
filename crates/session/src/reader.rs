use std::{
    cmp::max,
    collections::VecDeque,
    io::{ErrorKind, Read},
};

use crate::{
    Corruption, FileHeader, Nanos, SessionError, SessionRecord, Validator,
    format::{BLOCK_HEAD, FILE_HEAD, FORMAT, MAGIC, MAX_BLOCK, MAX_HEADER, OPTIONAL, RECORDS},
    format1::{self, Upgrade},
    recorded::time_of,
};

/// Reads a session, record by record, and checks all of it: checksums, sizes, and that the records
/// fit each other. Memory is bounded by the size of one block, whatever the file says.
///
/// A file that ends within a block, as a killed recorder leaves it, gives all blocks before and is
/// then [`Self::cut_short`]. A damaged block gives one error and ends the iteration.
#[derive(Debug)]
pub struct SessionReader<R: Read> {
    input: R,
    header: FileHeader,
    /// For files of format 1.
    upgrade: Option<Upgrade>,
    /// Records that were read and not given yet.
    read: VecDeque<SessionRecord>,
    validator: Validator,
    /// Offset of the next byte that `input` gives.
    offset: u64,
    /// Bytes of all records so far, unpacked.
    unpacked: u64,
    /// Offset of the block in `raw`.
    block_offset: u64,
    packed: Vec<u8>,
    raw: Vec<u8>,
    position: usize,
    index: usize,
    done: bool,
    torn: bool,
}

impl<R: Read> SessionReader<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// [`SessionError::NotASession`], [`SessionError::Empty`], [`SessionError::NewerFormat`], a
    /// damaged header, or that the file cannot be read.
    pub fn new(mut input: R) -> Result<Self, SessionError> {
        let mut head = [0; FILE_HEAD];
        let length = read_full(&mut input, &mut head)?;
        let magic = length.min(MAGIC.len());
        if length == 0 || head.get(..magic) != MAGIC.get(..magic) {
            return Err(SessionError::NotASession);
        }
        if length < FILE_HEAD {
            return Err(SessionError::Empty);
        }
        let format = u32_at(&head, 8);
        if format > FORMAT {
            return Err(SessionError::NewerFormat { format, known: FORMAT });
        }
        let corrupt = |cause| SessionError::Corrupt { offset: 0, cause };
        let header_length = u32_at(&head, 12) as usize;
        if header_length > MAX_HEADER {
            return Err(corrupt(Corruption::TooLong {
                length: header_length as u64,
                limit: MAX_HEADER as u64,
            }));
        }
        let mut header = vec![0; header_length];
        if read_full(&mut input, &mut header)? < header_length {
            return Err(SessionError::Empty);
        }
        let mut crc = crc32fast::Hasher::new();
        crc.update(head.get(..16).unwrap_or_default());
        crc.update(&header);
        let (stated, actual) = (u32_at(&head, 16), crc.finalize());
        if stated != actual {
            return Err(corrupt(Corruption::Checksum { stated, actual }));
        }
        let header =
            postcard::from_bytes(&header).map_err(|error| corrupt(Corruption::Header(error)))?;
        Ok(Self {
            input,
            header,
            upgrade: (format < FORMAT).then(Upgrade::default),
            read: VecDeque::new(),
            validator: Validator::new(),
            offset: (FILE_HEAD + header_length) as u64,
            unpacked: 0,
            block_offset: 0,
            packed: Vec::new(),
            raw: Vec::new(),
            position: 0,
            index: 0,
            done: false,
            torn: false,
        })
    }

    /// What the file says about itself.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Bytes of the records so far, unpacked: a small file can have very many.
    pub fn unpacked(&self) -> u64 {
        self.unpacked
    }

    /// Whether the recording did not end in order: the file ends within a block, or without an
    /// `End` record. Known when the iteration is over, false before.
    pub fn cut_short(&self) -> bool {
        self.done && (self.torn || !self.validator.ended())
    }

    /// Where blocks are read from.
    pub(crate) fn input(&mut self) -> &mut R {
        &mut self.input
    }

    /// Whether the file is of an older format.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.upgrade.is_some()
    }

    /// The latest time of the records that are left of the block that has been unpacked. They are
    /// not given any more.
    pub(crate) fn rest_of_block(&mut self) -> Result<Nanos, SessionError> {
        let mut latest = 0;
        while self.position < self.raw.len() {
            self.read_record()?;
            latest = self.read.drain(..).filter_map(|record| time_of(&record)).fold(latest, max);
        }
        Ok(latest)
    }

    /// The latest time of the next block, whatever it refers to; `None` at the end of the file.
    pub(crate) fn next_time(&mut self) -> Result<Option<Nanos>, SessionError> {
        match self.next_block()? {
            true => self.rest_of_block().map(Some),
            false => Ok(None),
        }
    }

    /// Reads and unpacks the next block of records; false at the end of the file.
    fn next_block(&mut self) -> Result<bool, SessionError> {
        loop {
            let offset = self.offset;
            let corrupt = |cause| SessionError::Corrupt { offset, cause };
            let mut head = [0; BLOCK_HEAD];
            let length = read_full(&mut self.input, &mut head)?;
            self.offset += length as u64;
            // A file system may leave zeros where a file was extended and not written.
            if length < BLOCK_HEAD || head == [0; BLOCK_HEAD] {
                self.torn = length > 0;
                return Ok(false);
            }
            let kind = head[0];
            let limit = lz4_flex::block::get_maximum_output_size(MAX_BLOCK);
            let (length, raw_length) = (u32_at(&head, 4) as usize, u32_at(&head, 8) as usize);
            if kind != RECORDS && kind < OPTIONAL {
                return Err(corrupt(Corruption::UnknownKind(kind)));
            }
            if length > limit {
                return Err(corrupt(Corruption::TooLong {
                    length: length as u64,
                    limit: limit as u64,
                }));
            }
            if raw_length > MAX_BLOCK {
                return Err(corrupt(Corruption::TooLong {
                    length: raw_length as u64,
                    limit: MAX_BLOCK as u64,
                }));
            }
            self.packed.resize(length, 0);
            let read = read_full(&mut self.input, &mut self.packed)?;
            self.offset += read as u64;
            if read < length {
                self.torn = true;
                return Ok(false);
            }
            let mut crc = crc32fast::Hasher::new();
            crc.update(head.get(..12).unwrap_or_default());
            crc.update(&self.packed);
            let (stated, actual) = (u32_at(&head, 12), crc.finalize());
            if stated != actual {
                return Err(corrupt(Corruption::Checksum { stated, actual }));
            }
            if kind != RECORDS {
                continue;
            }
            self.raw.resize(raw_length, 0);
            let unpacked = lz4_flex::block::decompress_into(&self.packed, &mut self.raw)
                .map_err(|error| corrupt(Corruption::Decompress(error.to_string())))?;
            if unpacked != raw_length {
                let text = format!("{unpacked} bytes instead of {raw_length}");
                return Err(corrupt(Corruption::Decompress(text)));
            }
            (self.block_offset, self.position, self.index) = (offset, 0, 0);
            return Ok(true);
        }
    }

    fn next_record(&mut self) -> Result<Option<SessionRecord>, SessionError> {
        while self.read.is_empty() {
            while self.position >= self.raw.len() {
                if !self.next_block()? {
                    return Ok(None);
                }
            }
            self.read_record()?;
        }
        let Some(record) = self.read.pop_front() else { return Ok(None) };
        self.validator.check(&record).map_err(|source| SessionError::Corrupt {
            offset: self.block_offset,
            cause: Corruption::Model { index: self.index - 1, source },
        })?;
        Ok(Some(record))
    }

    /// Reads a record from the block.
    fn read_record(&mut self) -> Result<(), SessionError> {
        let bytes = self.raw.get(self.position..).unwrap_or_default();
        let (offset, index) = (self.block_offset, self.index);
        let damaged = |cause| SessionError::Corrupt { offset, cause };
        let unreadable = |source| damaged(Corruption::Record { index, source });
        let rest = match &mut self.upgrade {
            None => {
                let (record, rest) = postcard::take_from_bytes(bytes).map_err(unreadable)?;
                self.read.push_back(record);
                rest
            }
            Some(upgrade) => {
                let (record, rest) =
                    postcard::take_from_bytes::<format1::Record>(bytes).map_err(unreadable)?;
                let records = upgrade.record(record);
                let model = |source| damaged(Corruption::Model { index, source });
                self.read.extend(records.map_err(model)?);
                rest
            }
        };
        self.unpacked += (bytes.len() - rest.len()) as u64;
        self.position = self.raw.len() - rest.len();
        self.index += 1;
        Ok(())
    }
}

impl<R: Read> Iterator for SessionReader<R> {
    type Item = Result<SessionRecord, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_record().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Reads until the buffer is full or the input ends; the number of bytes read.
pub(crate) fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, SessionError> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(length)
}

/// A number at a place of a head; heads are long enough by their type.
pub(crate) fn u32_at(head: &[u8], at: usize) -> u32 {
    head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}
