//! What `clrscope validate` does: what was seen twice is brought together by name.

pub mod aspects;
pub mod bytes;
pub mod compare;
pub mod diff;
pub mod il;
pub mod log;
pub mod report;
