//! What `trace` shows.

pub mod live;
pub mod report;
pub mod rules;
pub mod view;
