//! clrscope for assistants: tools of the Model Context Protocol, on standard input and output or
//! over HTTP.
//!
//! [`Assistant`] is the service, [`tools`] has one file for each tool. Verdicts are those of
//! [`server::Workspace`], which commands and the server share; nothing here judges a process. What
//! is sent to a model is small ([`answer`]), and what comes from the observed process is clean and
//! marked as data ([`foreign`]).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod answer;
mod assistant;
mod budget;
mod call;
mod foreign;
mod observe;
mod redact;
mod shared;
mod stdio;
mod tools;
mod web;

pub use assistant::Assistant;
pub use budget::Limits;
pub use redact::redact;
pub use shared::Config;
pub use stdio::{ServeError, Stopper, serve};
pub use tools::MOST_TOOLS;
pub use web::routes;

use diagnostics::DotnetProcess;
use std::path::Path;

/// What the program around the assistant does for it.
pub trait Program: Send + Sync + 'static {
    /// Takes a thread dump of a process. `attach` says whether the agent may be loaded for a
    /// moment, which names more of the code.
    ///
    /// # Errors
    /// Cause and next step.
    fn stacks(&self, process: &DotnetProcess, attach: bool) -> Result<Dump, String>;

    /// What the last heap snapshot of a session file says.
    ///
    /// # Errors
    /// Cause and next step, such as that there is no snapshot in it.
    fn heap(&self, session: &Path, options: &heap::ReportOptions) -> Result<heap::Report, String>;
}

/// A thread dump.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dump {
    /// How many threads there are.
    pub threads: usize,
    /// What the locks mean, in a line.
    pub locks: Option<String>,
    /// What else a reader should know.
    pub notes: Vec<String>,
    /// Threads with equal stacks, most threads first.
    pub groups: Vec<DumpGroup>,
}

/// Threads with equal stacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DumpGroup {
    /// Thread ids of the operating system, with the names of the threads that have one.
    pub threads: Vec<(u32, Option<String>)>,
    /// What they do or wait for.
    pub doing: String,
    /// Locks that they wait for or hold, in words.
    pub locks: Vec<String>,
    /// From the leaf to the root.
    pub frames: Vec<DumpFrame>,
}

/// A frame of a stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DumpFrame {
    /// Name, with file and line where they are known.
    pub text: String,
    /// Whether it is a method of a program or library, and not native code.
    pub managed: bool,
}
