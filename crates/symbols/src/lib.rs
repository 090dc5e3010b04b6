//! Names and source lines for code: symbols of native modules, lines of managed methods, and the
//! names that a programmer wrote behind those that a compiler made.
//!
//! - [`NativeSymbols`]: functions of an ELF file, from its own tables or from a debug file beside
//!   it.
//! - [`ModuleKind`]: which part of .NET a native module is.
//! - [`PortablePdb`]: file and line of an IL offset; [`SingleFileApp`] finds those of assemblies
//!   within an executable.
//! - [`demangle_compiler_names`]: `Shop+<LoadAsync>d__5.MoveNext` is `Shop.LoadAsync`,
//!   `Shop+<>c.<Main>b__0_3` is `Shop.Main.lambda#3`.
//! - [`AssemblyCode`]: what a method can wait for while it is the innermost managed frame, and
//!   which routes of a minimal API lambdas handle.
//!
//! Nothing is downloaded. Files are read as they are on disk, and a debug file counts only when its
//! id says that it belongs to the module.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod assembly_code;
mod compiler_names;
mod error;
mod leaf_waits;
mod module_kind;
mod native;
mod pdb;
mod routes;

pub use assembly_code::AssemblyCode;
pub use compiler_names::{StateMachine, UserMethod, demangle_compiler_names};
pub use error::Error;
pub use leaf_waits::LeafWaits;
pub use module_kind::ModuleKind;
pub use native::{NativeFunction, NativeSymbols, SymbolSource};
pub use pdb::{PortablePdb, SingleFileApp, SourceLine};
