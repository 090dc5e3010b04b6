//! How large what users get is.

use super::table::{Goal, Row};
use crate::tool;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// For `--only`.
pub const NAME: &str = "size of the program and of the agent";

/// Where the build script of the program has the agent built, for each target that it was built
/// for.
const AGENTS: &str = "clrscope-agent";

/// The program without its symbols, and the agent as it is placed for a process to load.
///
/// # Errors
/// When one of them is not there, or cannot be stripped.
pub fn run() -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("clrscope");
    strip(&tool::clrscope(), &program)?;
    let agents = tool::target_folder().join(AGENTS);
    let targets = fs::read_dir(&agents).with_context(|| agents.display().to_string())?;
    let libraries =
        targets.flatten().map(|target| target.path().join("release/libclrscope_agent.so"));
    let agent = libraries
        .filter_map(|library| fs::metadata(library).ok())
        .max_by_key(|library| library.modified().ok())
        .with_context(|| format!("no library below {}", agents.display()))?;
    let (program, agent) = (megabytes(&fs::metadata(&program)?), megabytes(&agent));
    let row = |what, value, must| {
        Row::new(what, "·", value, format!("{value:.2} MB"), Goal::only(must, "MB"))
    };
    Ok(vec![
        row("size of the stripped program, which has the agent in it", program, 15.0),
        row("size of the agent", agent, 3.0),
    ])
}

/// Writes a program or a library without its symbols.
///
/// # Errors
/// When it cannot be stripped.
pub fn strip(file: &Path, to: &Path) -> Result<()> {
    tool::run(Command::new("strip").arg("-o").arg(to).arg(file), Duration::from_secs(60))
}

fn megabytes(file: &fs::Metadata) -> f64 {
    file.len() as f64 / 1e6
}
