//! What `trace` shows.

pub mod report;
pub mod rules;
pub mod text;
