//! How a step of a task ends.

/// What a step has to say at its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and everything holds.
    Done,
    /// It could not run on this machine, for this reason.
    NotRun(String),
}
