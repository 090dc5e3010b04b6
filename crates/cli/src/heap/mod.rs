//! What `heap` and `leaks` have in common: where snapshots come from, and how they are shown.

pub mod source;
pub mod view;
