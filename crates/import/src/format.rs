//! The formats of other tools.

use std::fmt;

/// A format of another tool. The two in JSON are distinguished when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `profile.proto` of pprof, usually compressed.
    Pprof,
    /// A line for each stack.
    Collapsed,
    /// Speedscope, or the Firefox Profiler.
    Json,
    /// What `dotnet-trace` writes.
    Nettrace,
    /// What `dotnet-gcdump` writes.
    Gcdump,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Pprof => "a pprof profile",
            Format::Collapsed => "collapsed stacks",
            Format::Json => "a profile in JSON",
            Format::Nettrace => "a .nettrace file",
            Format::Gcdump => "a .gcdump file",
        })
    }
}
