//! `cargo xtask format`: formats all sources, also those of modules that a macro declares, which
//! `cargo fmt` does not find: profilers, findings, views.

use crate::tool;
use anyhow::Result;
use std::{process::Command, time::Duration};
use testkit::source_root;

/// What formatting may take.
const LIMIT: Duration = Duration::from_secs(120);

/// What to do.
#[derive(clap::Args)]
pub struct Options {
    /// Change nothing; fail if something is not formatted
    #[arg(long)]
    check: bool,
}

/// Formats all sources.
///
/// # Errors
/// When a source cannot be formatted.
pub fn run(options: &Options) -> Result<()> {
    rustfmt(options.check)
}

/// Checks that all sources are formatted.
///
/// # Errors
/// When one is not.
pub fn check() -> Result<()> {
    rustfmt(true)
}

fn rustfmt(check: bool) -> Result<()> {
    let root = source_root();
    let mut command = Command::new("rustfmt");
    command.current_dir(&root).args(["--edition", "2024"]);
    if check {
        command.arg("--check");
    }
    for folder in ["crates", "fuzz", "xtask"] {
        command.args(tool::files(&root.join(folder), "rs")?);
    }
    tool::run(&mut command, LIMIT)
}
