//! Finds .NET processes by their sockets in our own directory for temporary files, which on this
//! system belongs to one user. What the runtime itself does not tell stays unknown.

use crate::process::{FLOOR, assembly_in_arguments, file_name};
use crate::{DotnetProcess, Error, Obstacle, Port};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whether the system tells which process listens at a socket.
pub const CHECKS_PEER: bool = false;

/// All .NET processes of our user.
pub fn discover(timeout: Duration) -> Result<Vec<DotnetProcess>, Error> {
    let mut sockets = list_sockets(&std::env::temp_dir());
    // The newest of each process; others are leftovers.
    sockets.sort_by_key(|socket| (socket.0, std::cmp::Reverse(socket.1)));
    sockets.dedup_by_key(|socket| socket.0);
    Ok(sockets.into_iter().filter_map(|(pid, _, path)| probe(pid, &path, timeout)).collect())
}

/// One process.
pub fn inspect(pid: u32, timeout: Duration) -> Result<DotnetProcess, Error> {
    let mut sockets = list_sockets(&std::env::temp_dir());
    sockets.retain(|socket| socket.0 == pid);
    sockets.sort_by_key(|socket| std::cmp::Reverse(socket.1));
    let found = sockets.first().and_then(|(pid, _, path)| probe(*pid, path, timeout));
    found.ok_or(Error::Unsupported {
        what: "determining why a process has no diagnostic socket",
        reason: "on macOS only processes that answer at a socket in our own TMPDIR are seen",
    })
}

/// Process id, start time in seconds, and path of each socket.
fn list_sockets(directory: &Path) -> Vec<(u32, u64, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let sockets = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let name = name.to_str()?.strip_prefix("dotnet-diagnostic-")?.strip_suffix("-socket")?;
        let (pid, start) = name.split_once('-')?;
        Some((pid.parse().ok()?, start.parse().ok()?, entry.path()))
    });
    sockets.collect()
}

/// Asks the runtime; `None` when nobody listens any more.
fn probe(pid: u32, socket: &Path, timeout: Duration) -> Option<DotnetProcess> {
    let uid = fs::metadata(socket).ok().map(|metadata| metadata.uid());
    let mut process = DotnetProcess {
        pid,
        ns_pid: pid,
        uid,
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
        socket: Some(socket.to_owned()),
        obstacle: None,
    };
    match Port::new(socket, None).with_timeout(timeout).process_info() {
        Ok(info) => {
            process.args = info.command_line.split_whitespace().map(str::to_owned).collect();
            process.executable = process.args.first().map(PathBuf::from);
            process.entry_assembly =
                info.entry_assembly.or_else(|| assembly_in_arguments(&process.args));
            process.runtime_version = info.runtime_version;
            process.arch = Some(info.arch);
        }
        Err(error) if error.is_unknown_command() => {}
        // Nobody listens: a leftover.
        Err(Error::Connect { .. }) => return None,
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
