//! What a viewer shows of a session: flame graphs that are laid out, searches, callers and callees,
//! and timelines of threads.
//!
//! A session of any size is opened once ([`Explored`]). Each answer has only what is visible: it is
//! bounded by the pixels and rows of the view, not by the size of the session. Nothing here
//! recurses, so stacks may be as deep as they like.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod answers;
mod columns;
mod explored;
mod functions;
mod heap;
mod lanes;
mod layout;
mod markers;
mod search;
mod stable;
mod tree;

#[cfg(test)]
#[path = "../../profile/tests/shop/mod.rs"]
mod shop;

pub use self::heap::{
    GrowthSnapshot, GrowthSort, GrowthView, HeapChildren, HeapDescription, HeapGrowth,
    HeapGrowthRow, HeapPaths, HeapTypes, HeapView, MOST_SIDE, TreemapHead, TypeSort,
};
pub use answers::*;
pub use columns::{Column, Columns};
pub use explored::{Explored, Part, Selection};
pub use functions::{FunctionSums, LineSum, LineSums, Neighbors, functions, lines, neighbors};
pub use lanes::{Lane, Lanes, Strip};
pub use layout::{Boxes, Hit, Layered, Nodes, Spot, View, lay_out, place};
pub use markers::{Marker, MarkerKind, markers};
pub use search::{Pattern, PatternError};
pub use tree::{Shape, Tree};
