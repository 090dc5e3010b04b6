//! Files of `dotnet-gcdump` and PerfView (`.gcdump`), both ways.
//!
//! Such a file is a stream of objects in the container "FastSerialization": a length-prefixed
//! signature, objects between tags, each with a description of its type where that is met first, at
//! the end a table of the places that forward references mean, and in the last four bytes where
//! that table is. All numbers are little endian. Its one object is a `GCHeapDump`, with a
//! `Graphs.MemoryGraph` inside: types, for each node the offset of its description in one block of
//! bytes, that block, and for each node an address. A node is described by numbers of one to five
//! bytes: its type, its size if that is not the one of the type, how many references it has, and
//! those as distances between the numbers of nodes. Roots are nodes of types with names in
//! brackets, such as `[static vars]`.
//!
//! Sources of the format: `src/FastSerialization`, `src/MemoryGraph/graph.cs` and
//! `src/MemoryGraph/MemoryGraph.cs` of microsoft/perfview; `GCHeapDump.cs`, `DotNetHeapInfo.cs` and
//! `DotNetHeapDumpGraphReader.cs` of dotnet/diagnostics.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod read;
mod write;

pub use read::read;
pub use write::write;

use std::io;

/// What a file begins with, behind its length.
pub const SIGNATURE: &[u8] = b"!FastSerialization.1";

/// Whether a file that begins so is of this container.
pub fn is_gcdump(head: &[u8]) -> bool {
    head.get(4..4 + SIGNATURE.len()) == Some(SIGNATURE)
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum GcdumpError {
    /// Reading or writing failed.
    #[error("the heap dump could not be read or written: {0}")]
    Io(#[from] io::Error),
    /// It does not begin like one.
    #[error("this is not a .gcdump file")]
    NotGcdump,
    /// It is of a version that is not read.
    #[error("heap dumps of version {version} are not supported: 9 and 10 are")]
    Version {
        /// The one that it says it is, or needs.
        version: i32,
    },
    /// It ends too early.
    #[error("the heap dump is cut short at byte {at}")]
    Truncated {
        /// Where more was expected.
        at: u64,
    },
    /// Something does not have the form that it must have.
    #[error("the heap dump is damaged at byte {at}: {what}")]
    Damaged {
        /// Where.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// There is more than the format can hold: 2 GB of descriptions, or two billion nodes.
    #[error("the snapshot is too large for the format: {0}")]
    TooLarge(&'static str),
}

/// What stands between the parts of the container.
mod tag {
    pub const NULL: u8 = 1;
    pub const OBJECT_REFERENCE: u8 = 2;
    pub const FORWARD_REFERENCE: u8 = 3;
    pub const BEGIN_OBJECT: u8 = 4;
    pub const BEGIN_PRIVATE_OBJECT: u8 = 5;
    pub const END_OBJECT: u8 = 6;
    pub const FORWARD_DEFINITION: u8 = 7;
    pub const BYTE: u8 = 8;
    pub const INT16: u8 = 9;
    pub const INT32: u8 = 10;
    pub const INT64: u8 = 11;
    pub const SKIP_REGION: u8 = 12;
    pub const STRING: u8 = 13;
    pub const BLOB: u8 = 14;
}

/// 100 ns intervals between the year 1, with which .NET's time begins, and 1970.
const TICKS_TO_1970: i64 = 621_355_968_000_000_000;

#[cfg(test)]
mod tests;
