//! What stages have in common.

use crate::linux::context::Context;

/// A kind of data on its way. What is common to all is in the [`Context`].
pub(in crate::linux) trait Stage {
    /// Takes what need not wait any longer to the session; everything if `all` is set, because
    /// nothing more comes.
    fn settle(&mut self, _cx: &mut Context, _all: bool) {}

    /// Does what is due once a second.
    fn second(&mut self, _cx: &mut Context) {}

    /// Whether the recording was for something that is done, or cannot be done.
    fn is_over(&self) -> bool {
        false
    }
}
