//! Who waits for whom in a .NET process that is stuck already.
//!
//! - [`look`]: threads, the locks that they wait for, and who owns those, read from outside out of
//!   the runtime's own structures. The process is neither stopped nor asked, so one that hangs in
//!   every possible way can be looked at.
//! - [`Stacks::take`]: managed stacks of all threads, by a short recording; this needs a runtime
//!   that still answers.
//! - [`OutsideCode`]: what managed code stands at an address, for stacks of a process that does not
//!   answer.
//! - [`search_methods`]: methods by name, among the assemblies that the process has loaded.
//! - [`Findings::of`]: cycles, locks whose owner is gone, rows of waiting threads, and waits that
//!   are no locks.
//!
//! What is understood: `Monitor` (the `lock` statement) on .NET Core 3.1, .NET 8 and newer, and
//! `System.Threading.Lock` from .NET 9 on. Where the structures of a runtime are not where they
//! should be, [`look`] says so and finds nothing; it does not guess.
//!
//! Facts about the runtime come from dotnet/runtime (`syncblk.h`, `threads.h`,
//! `threaddebugblockinginfo.h`, `ThreadBlockingInfo.cs`, `Lock.cs`, `docs/design/datacontracts`)
//! and were checked on 3.1.23, 8.0.30, 9.0.5 and 10.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod error;
mod findings;
mod methods;
mod snapshot;
mod stacks;
mod thread_locks;
mod wait_kind;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
#[path = "other/mod.rs"]
mod linux;

pub use error::Error;
pub use findings::{
    BlockedGroup, BlockedThread, Chain, Cycle, Findings, LockShown, Orphan, Outcome, ThreadShown,
};
pub use linux::{OutsideCode, look, search_methods};
pub use methods::{FoundMethod, FoundMethods, MethodSearch};
pub use snapshot::{Lock, LockKind, ManagedThread, Owner, Snapshot, Wait};
pub use stacks::{Frame, Stacks, StacksError, ThreadStack};
pub use thread_locks::{LockWait, ThreadLocks};
pub use wait_kind::doing;
