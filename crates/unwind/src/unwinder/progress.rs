//! How far a stack was walked before an address had to be asked about.

use super::outcome::{Frame, Needed, Outcome};
use crate::context::Context;
use wire::FrameTrust;

/// How far a stack was walked before an address had to be asked about: over the frames that exact
/// tables have found, which no answer changes. What was found by what is plausible is looked for
/// again, because more is plausible with more code known. Empty for a stack of which nothing is
/// found.
#[derive(Clone, Debug, Default)]
pub struct Progress(Option<Box<Walk>>);

impl Progress {
    /// The frames that were found; the last of them has been left.
    pub fn frames(&self) -> &[Frame] {
        self.0.as_ref().map_or(&[], |walk| &walk.frames)
    }

    /// Keeps the first `length` frames, and which one comes next, until what is needed is there.
    pub(super) fn stop(
        &mut self,
        (length, next): (usize, Next),
        mut frames: Vec<Frame>,
        needed: Needed,
    ) -> Outcome {
        frames.truncate(length);
        self.0 = (length > 0).then(|| Box::new(Walk { frames, next }));
        Outcome::NeedCode(needed)
    }

    pub(super) fn take(&mut self) -> Option<Walk> {
        self.0.take().map(|walk| *walk)
    }
}

/// A walk over a stack.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// What was found so far.
    pub(super) frames: Vec<Frame>,
    pub(super) next: Next,
}

impl Walk {
    pub(super) fn new(context: Context) -> Self {
        let (trust, exact) = (FrameTrust::Context, true);
        let next = Next { context, trust, exact, signal_frames: 0, by_tables: None };
        Self { frames: Vec::with_capacity(48), next }
    }
}

/// The frame that comes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) context: Context,
    pub(super) trust: FrameTrust,
    /// Whether the instruction pointer is exact: not a return address.
    pub(super) exact: bool,
    /// Frames of signals so far.
    pub(super) signal_frames: u32,
    /// Where the last frame was left by its tables: from which context, and whether its instruction
    /// pointer was exact. If that led nowhere, the frame is left once more by what is plausible.
    pub(super) by_tables: Option<(Context, bool)>,
}
