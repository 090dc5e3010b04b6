//! Facts about a process from `/proc`.

use super::{Mapped, Target, UNKNOWN};
use crate::{
    exit::{Code, failure},
    newrelic::location::Location,
};
use diagnostics::{DotnetProcess, proc};
use rootfs::Root;
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

/// Largest executable that is opened: single-file applications take some hundred megabytes.
const LARGEST_EXECUTABLE: u64 = 2 << 30;

/// The process that a user means, by its id or name.
///
/// # Errors
/// There is none, it runs no .NET, or we may not look into it.
pub fn find(target: &str) -> anyhow::Result<Target> {
    let process = diagnostics::locate(target)?;
    read(&process).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let reason = match &process.obstacle {
                Some(obstacle) => obstacle.to_string(),
                None => {
                    "the system does not allow access to it: run as its user, or as root".to_owned()
                }
            };
            failure(
                Code::Refused,
                format!("cannot examine process {} ({}): {reason}", process.pid, process.name),
            )
        }
        // It was there before.
        _ => diagnostics::Error::NoSuchProcess { pid: process.pid }.into(),
    })
}

fn read(process: &DotnetProcess) -> io::Result<Target> {
    let pid = process.pid;
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let environment =
        proc::environ(pid)?.into_iter().map(|(name, value)| (text(name), text(value))).collect();
    let root = fs::read_link(format!("/proc/{pid}/root")).unwrap_or_else(|_| PathBuf::from("/"));
    let mut seen = HashSet::new();
    let mut mapped = Vec::new();
    for map in proc::maps(pid)? {
        if let Some(path) = map.file()
            && seen.insert(path.to_owned())
        {
            mapped.push(Mapped { path: rootfs::inside(&root, path), deleted: map.deleted });
        }
    }
    let folder = rootfs::inside(&root, &fs::read_link(format!("/proc/{pid}/cwd"))?);
    Ok(Target {
        pid,
        ns_pid: process.ns_pid,
        name: process.name.clone(),
        runtime: process.runtime_version.clone(),
        hosting: process.hosting,
        executable: proc::executable(pid).map_or_else(
            |_| UNKNOWN.to_owned(),
            |path| rootfs::inside(&root, &path).to_string_lossy().into_owned(),
        ),
        arguments: proc::command_line(pid)?,
        environment,
        place: Location::new(Root::of_process(pid)?, folder),
        executable_file: rootfs::open_at(
            Path::new(&format!("/proc/{pid}/exe")),
            LARGEST_EXECUTABLE,
        )
        .ok(),
        mapped,
    })
}
