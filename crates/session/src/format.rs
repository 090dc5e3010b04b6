//! Layout of a session file, format 2. All numbers are little-endian. docs/formats.md describes the
//! same for readers in other languages; a test holds the two together.
//!
//! ```text
//! file   = MAGIC[8] version:u32 header_length:u32 header_crc:u32 header  block*
//! header = postcard(FileHeader)
//! block  = kind:u8 0[3] length:u32 raw_length:u32 crc:u32 payload[length]
//! ```
//!
//! `header_crc` is the CRC-32 of the 16 bytes before it and of the header. `crc` is the CRC-32
//! (IEEE) of the first twelve bytes of the block head and of the payload. The payload of a block of
//! kind [`RECORDS`] is lz4 (block format, without length prefix) of `raw_length` bytes: postcard
//! records, one after another. Kinds from [`OPTIONAL`] on may be skipped by a reader that does not
//! know them.

use serde::{Deserialize, Serialize};

/// First bytes of a session. Like PNG's: a byte that is no ASCII, a name, and line ends that show a
/// transfer as text.
pub const MAGIC: [u8; 8] = *b"\x89CLRS\r\n\x1a";

/// Format that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 2;

/// Extension of a session file, without the dot.
pub const EXTENSION: &str = "clrscope";

/// Kind of a block of records.
pub(crate) const RECORDS: u8 = 1;

/// First kind that a reader may skip.
pub(crate) const OPTIONAL: u8 = 128;

/// Bytes of a file head before the header itself.
pub(crate) const FILE_HEAD: usize = 20;

/// Bytes of a block head.
pub(crate) const BLOCK_HEAD: usize = 16;

/// Largest header.
pub(crate) const MAX_HEADER: usize = 4096;

/// Records of one block before compression: a writer begins a new block at this size …
pub(crate) const BLOCK_TARGET: usize = 256 * 1024;

/// … and a reader takes none larger than this, nor a writer a single record.
pub(crate) const MAX_BLOCK: usize = 4 * 1024 * 1024;

/// Rows of one batch of samples; larger batches are split when written. At most 33 bytes are
/// written for a row.
pub(crate) const MAX_BATCH: usize = 16 * 1024;

/// What stands in the header of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHeader {
    /// Version of the clrscope that wrote it.
    pub tool_version: String,
}
