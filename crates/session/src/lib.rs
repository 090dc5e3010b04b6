//! The session file: what a recording leaves behind, and its live twin.
//!
//! A recording is one stream of [`SessionRecord`]s in an order that [`Validator`] checks. It goes
//! into [`Sink`]s: a [`SessionWriter`] keeps it in a file, [`live`] hands it to a view in the same
//! process, [`Tee`] does both. A [`SessionReader`] gives the same records back, also from a file
//! whose writer was killed.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod error;
mod format;
mod format1;
mod model;
mod output;
mod reader;
mod recorded;
mod row_buffer;
mod sink;
mod validate;
mod writer;

pub use error::*;
pub use format::{EXTENSION, FORMAT, FileHeader, MAGIC};
pub use model::*;
pub use output::{check_file, create_file};
pub use reader::*;
pub use row_buffer::*;
pub use rows::{FunctionId, RowBatch, RowsError, StackId, TableDef, TableId, ThreadId, TypeId};
pub use sink::*;
pub use validate::*;
pub use writer::*;
