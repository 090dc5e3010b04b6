//! Thread dumps: what `clrscope stacks` takes, and how it shows it.

pub mod report;
pub mod take;
pub mod view;
