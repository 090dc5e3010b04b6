//! What views show of a recording while it is being made, in panes of a live screen.
//!
//! A view that shows something live has a `PANE` constant, and [`PANES`] is the one registry of
//! them. The screen knows none by name.

use crate::{
    pane::Pane,
    views::{cpu, exceptions, gc, wall},
};

/// All panes, in the order of the screen.
pub const PANES: &[Pane] = &[cpu::PANE, wall::PANE, exceptions::PANE, gc::PANE];
