//! What a file may take. These are far beyond what tools write and viewers show, and keep memory
//! within about 2 GB for the worst file.

/// Bytes of a file after decompression that is read as a whole: JSON.
pub const TEXT: u64 = 512 << 20;

/// Bytes of a file after decompression that is read piece by piece: pprof, collapsed stacks.
pub const STREAM: u64 = 8 << 30;

/// Bytes that lists of JSON may take in memory.
pub const LISTS: usize = 512 << 20;

/// Bytes of one line, and of one message of pprof.
pub const PIECE: usize = 4 << 20;

/// Frames of one stack. The outer ones of a deeper stack are left out.
pub const DEPTH: usize = 65_536;

/// Distinct stacks: nodes of the tree of all.
pub const STACKS: usize = 8_000_000;

/// Functions, frames, files, modules and types, each.
pub const NAMES: usize = 4_000_000;

/// Threads.
pub const THREADS: usize = 100_000;

/// Bytes of all names.
pub const NAME_BYTES: usize = 512 << 20;

/// Bytes of what samples of pprof refer to, without names: in memory up to eight times as many.
pub const REFERRED: usize = 128 << 20;

/// Frames of the stacks of all samples together: what bounds the time that a file takes.
pub const WALKED: u64 = 4_000_000_000;

/// Rows of samples. Of what counts more, a row stands for several.
pub const SAMPLES: u64 = 100_000_000;

/// Length of a recording, nanoseconds: 100 days.
pub const LENGTH: u64 = 100 * 24 * 3600 * 1_000_000_000;
