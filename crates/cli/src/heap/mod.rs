//! What `heap` and `leaks` have in common: where looks come from, and how they are shown.

pub mod source;
pub mod text;
