//! Analysis of heap snapshots of .NET processes.
//!
//! A [`SnapshotBuilder`] takes objects, references and roots in the order in which they come, a
//! [`Snapshot`] holds them in columns: an object is a number (`u32`, in the order of addresses),
//! its references are a slice. Everything else is computed from that:
//!
//! - [`Histogram`]: objects and bytes by type and generation;
//! - [`Dominators`]: which object alone keeps others alive, and how many bytes each object and each
//!   type retains;
//! - [`Paths`]: shortest paths from roots, and by which kinds of path the objects of a type are
//!   retained;
//! - [`Tasks`]: asynchronous methods that wait, and who awaits whom;
//! - [`growth`]: which types grow between snapshots, and whether that growth is more than random;
//! - [`LeakReport`]: which of them belong to one leak, and what retains it;
//! - [`PartialReport`]: a report on a partial snapshot, which has only objects or only roots;
//! - [`SurvivorSums`]: which objects survived one collection, and what retains them;
//! - [`Report`]: all of it in a form for people and programs;
//! - [`gcdump`]: files of `dotnet-gcdump` and PerfView, both ways.
//!
//! Nothing here recurses, so that lists of millions of links are as good as any other heap, and
//! memory stays within a [`MemoryBudget`]: what does not fit is left out, counted, and the snapshot
//! says that it is not complete.
#![forbid(unsafe_code)]

mod builder;
mod dominators;
mod fields;
pub mod gcdump;
mod graph;
pub mod growth;
mod histogram;
mod index;
mod leaks;
mod partial_report;
mod paths;
mod report;
mod snapshot;
mod strings;
mod survivors;
mod targets;
mod tasks;

pub use builder::{MemoryBudget, SnapshotBuilder};
pub use dominators::{Dominated, Dominators};
pub use graph::retention_graph;
pub use histogram::{Histogram, TypeCounts};
pub use leaks::{GrowthRow, LeakReport, Member, Owner, SnapshotRow, Suspect, leaks};
pub use partial_report::{BriefRow, BriefTotals, PartialReport, RootTypeRow, brief};
pub use paths::{Holding, Holdings, PathStep, PathTable, Paths, RootPath};
pub use report::{
    GenerationRow, HolderRow, Missing, PathRow, Report, ReportOptions, Retainer, RootRow, SCHEMA,
    Step, StringRow, Strings, Totals, TypeDetail, TypeRow, path_row, report,
};
pub use snapshot::{
    Extent, GENERATIONS, Gaps, Generation, NodeId, Root, RootKind, Snapshot, SnapshotEnd,
    SnapshotRoot, TypeId, TypeInfo, generation_name,
};
pub use strings::{DuplicateString, StringStatistics};
pub use survivors::{SurvivorBuilder, SurvivorSums};
pub use tasks::{AsyncStack, Cause, Continuations, Tasks, blocks_a_thread, is_link, machine_of};
