//! What is known of a process that the agent may be in.

use super::location::Location;
use diagnostics::Hosting;
use std::{fs::File, path::PathBuf};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub use linux::find;
#[cfg(not(target_os = "linux"))]
pub use other::find;

/// What stands for a path that cannot be read, as in the profiler itself.
pub const UNKNOWN: &str = ".";

/// A .NET process. Only on Linux one is found.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub struct Target {
    /// Its id here.
    pub pid: u32,
    /// Its id in its own pid namespace, which the name of its log has.
    pub ns_pid: u32,
    /// Its short name.
    pub name: String,
    /// Version of its runtime, if that is known.
    pub runtime: Option<String>,
    /// How the runtime came into it.
    pub hosting: Option<Hosting>,
    /// Its executable, as it sees it; [`UNKNOWN`] where that cannot be read.
    pub executable: String,
    /// Its arguments, the program first.
    pub arguments: Vec<String>,
    /// The environment that it was started with.
    pub environment: Vec<(String, String)>,
    /// Its files.
    pub place: Location,
    /// The file of its executable, opened.
    pub executable_file: Option<File>,
    /// Files that it has mapped, each once.
    pub mapped: Vec<Mapped>,
}

/// A mapped file.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its path, as the process sees it.
    pub path: PathBuf,
    /// Whether the file was deleted or replaced since.
    pub deleted: bool,
}

impl Mapped {
    /// Its file name.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Target {
    /// The first mapped file whose name fits.
    pub fn mapped_named(&self, fits: impl Fn(&str) -> bool) -> Option<&Mapped> {
        self.mapped.iter().find(|mapped| fits(&mapped.name()))
    }

    /// First number of the runtime's version.
    pub fn major(&self) -> Option<u32> {
        self.runtime.as_deref()?.split('.').next()?.parse().ok()
    }
}
