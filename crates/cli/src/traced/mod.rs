//! What `trace` shows.

pub mod report;
pub mod text;
