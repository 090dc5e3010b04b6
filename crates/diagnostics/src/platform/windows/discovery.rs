//! Finds .NET processes by their pipes, `\\.\pipe\dotnet-diagnostic-<pid>`. What the runtime itself
//! does not tell stays unknown.

use crate::process::{FLOOR, assembly_in_arguments, file_name};
use crate::{DotnetProcess, Error, Obstacle, Port};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whether the system tells which process listens at a pipe.
pub const CHECKS_PEER: bool = false;

/// The directory of all pipes.
const PIPES: &str = r"\\.\pipe\";

/// All .NET processes whose pipes we may open.
pub fn discover(timeout: Duration) -> Result<Vec<DotnetProcess>, Error> {
    let entries =
        fs::read_dir(PIPES).map_err(|source| Error::Io { command: "listing pipes", source })?;
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| {
            entry.ok()?.file_name().to_str()?.strip_prefix("dotnet-diagnostic-")?.parse().ok()
        })
        .collect();
    pids.sort_unstable();
    pids.dedup();
    Ok(pids.into_iter().filter_map(|pid| probe(pid, timeout)).collect())
}

/// One process.
pub fn inspect(pid: u32, timeout: Duration) -> Result<DotnetProcess, Error> {
    probe(pid, timeout).ok_or(Error::Unsupported {
        what: "determining why a process has no diagnostic pipe",
        reason: "on Windows only processes that answer at their pipe are seen",
    })
}

/// Asks the runtime; `None` when there is no pipe.
fn probe(pid: u32, timeout: Duration) -> Option<DotnetProcess> {
    let pipe = PathBuf::from(format!("{PIPES}dotnet-diagnostic-{pid}"));
    let mut process = DotnetProcess {
        pid,
        ns_pid: pid,
        uid: None,
        user: None,
        name: String::new(),
        args: Vec::new(),
        executable: None,
        entry_assembly: None,
        started_unix_ms: None,
        runtime_version: None,
        arch: None,
        hosting: None,
        contained: false,
        temp_dir: std::env::temp_dir(),
        socket: Some(pipe.clone()),
        obstacle: None,
    };
    match Port::new(&pipe, None).with_timeout(timeout).process_info() {
        Ok(info) => {
            process.args = info.command_line.split_whitespace().map(str::to_owned).collect();
            process.executable = process.args.first().map(|program| Path::new(program).to_owned());
            process.entry_assembly =
                info.entry_assembly.or_else(|| assembly_in_arguments(&process.args));
            process.runtime_version = info.runtime_version;
            process.arch = Some(info.arch);
        }
        Err(error) if error.is_unknown_command() => {}
        Err(Error::Connect { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return None;
        }
        Err(error) => process.obstacle = Some(Obstacle::NotAnswering { reason: error.to_string() }),
    }
    let program = || process.args.first().map(|program| file_name(program).to_owned());
    process.name =
        process.entry_assembly.clone().or_else(program).unwrap_or_else(|| pid.to_string());
    if let Some(version) = &process.runtime_version
        && process.runtime_major_minor().is_some_and(|version| version < FLOOR)
    {
        process.obstacle = Some(Obstacle::TooOld { version: version.clone() });
    }
    Some(process)
}
