//! .NET assemblies as they lie in files: the one reader of PE images and metadata outside of the
//! target.
//!
//! [`PeHeaders`] finds things by their addresses, in a file or in the memory of a process.
//! [`Metadata`] gives the fields of the tables and what they refer to. [`Assembly`] puts both
//! together with `cil`: methods, their bodies, what calls do to the stack, and names in the syntax
//! of ILAsm. [`bundled_files`] gives the files inside a single-file application, [`Bundle`] reads
//! one at a time.
//!
//! Nothing here panics, recurses without bound or reserves memory by a number that it has read:
//! files may come from anywhere. What is wrong is an [`Error`], or `None` where a row or heap index
//! leads nowhere.
//!
//! Source for everything: ECMA-335, sixth edition, II.22 to II.25; for portable PDBs
//! `PortablePdb-Metadata.md`, for bundles `bundle.md` of dotnet/runtime. Ready-to-run images keep
//! their IL, so they are read like others.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod assembly;
mod bundle;
mod bytes;
mod pe;
mod schema;
mod tables;

pub use assembly::{Assembly, BodyProblem, Method, matches};
pub use bundle::{Bundle, BundledFile, bundled_files};
pub use pe::PeHeaders;
pub use schema::{column, table};
pub use tables::{Metadata, Row};

/// Why bytes are no assembly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no PE image at all.
    #[error("not a .NET assembly: it is not a PE image")]
    NotPe,
    /// A PE image without a CLI header: a native library.
    #[error("not a .NET assembly: a native image without metadata")]
    Native,
    /// The file ends, or a stated range ends, in the middle of something.
    #[error("damaged: {what} is cut short or leads outside of the file")]
    Truncated {
        /// What is not whole.
        what: &'static str,
    },
    /// Something that cannot be so.
    #[error("damaged: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
}
