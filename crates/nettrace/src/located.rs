//! Rows of profilers as events give them.

use rows::ThreadId;
use std::sync::Arc;

/// A row of a profiler as the runtime's events give it, before it is in a session.
///
/// Its threads are those of the operating system, in the process's own pid namespace. Its stack has
/// no id yet ([`rows::StackId::UNDEFINED`]), and it is not known yet whether that is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<R> {
    /// The row.
    pub row: R,
    /// Instruction pointers of its stack, leaf first. Empty where the runtime reports none.
    pub stack: Arc<[u64]>,
}

/// The thread of a row, by the number that events give it. What is no number of a thread on any
/// system becomes the greatest one.
pub(crate) fn thread_id(thread: u64) -> ThreadId {
    ThreadId(u32::try_from(thread).unwrap_or(u32::MAX))
}
