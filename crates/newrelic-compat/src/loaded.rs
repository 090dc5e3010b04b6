//! Modules of a running process: what [`crate::rewrite`] and [`crate::plan`] ask, answered by the
//! runtime.
//!
//! A profiler opens a module with [`LoadedModule::open`] when the first of its methods is compiled,
//! reads the method with [`LoadedMethod::read`], and passes both to [`crate::rewrite::instrument`].

mod by_ref_like;
mod core_library;
mod direct;
mod method;
mod module;
mod text;

pub use method::{LoadedDetails, LoadedMethod, Original};
pub use module::LoadedModule;
pub use text::Masked;

use crate::rewrite::MetadataError;

fn refused(error: corprof::Error) -> MetadataError {
    MetadataError(error.to_string())
}
