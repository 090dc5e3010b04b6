//! Processes of a launched command that run as other users: which of them belong to it, and why one
//! of them was not recorded.

use diagnostics::proc;
use std::{collections::HashSet, fs, path::Path};
use wire::SessionConfig;

/// Most processes below a command that are searched.
const MOST: usize = 4096;

/// Most steps from a process up to the command that it is below.
const DEEPEST: usize = 64;

/// Whether a process is below the command and was started with the configuration of this launch in
/// its environment. The token in it is known only to processes below the command.
///
/// The environment of other processes is not read: it lies in their memory, which a user can map to
/// files that never answer.
pub(super) fn belongs(pid: u32, command: u32, config: &SessionConfig) -> bool {
    is_below(pid, command) && configuration(pid).is_some_and(|text| text == config.to_hex())
}

/// Whether a process is the command or was started by it, as far as those between still live.
fn is_below(pid: u32, command: u32) -> bool {
    let parent =
        |pid: &u32| proc::stat(*pid).ok().map(|stat| stat.parent).filter(|parent| *parent != 0);
    std::iter::successors(Some(pid), parent).take(DEEPEST).any(|pid| pid == command)
}

/// The configuration that a process was started with; none where it has none or may not be looked
/// at.
fn configuration(pid: u32) -> Option<String> {
    let environment = proc::environ(pid).ok()?;
    let found = environment.into_iter().find(|(name, _)| name == wire::CONFIG_ENV)?;
    found.1.into_string().ok()
}

/// A .NET process that runs as another user.
#[derive(Debug)]
pub(super) struct OtherUser {
    pid: u32,
    uid: u32,
    command: String,
    /// Whether the variables that load the agent are missing in its environment, where that can be
    /// read.
    lacks_variables: bool,
}

impl OtherUser {
    /// The first .NET process below a command that runs as another user than `own`.
    pub fn below(command: u32, own: u32) -> Option<Self> {
        let mut seen = HashSet::from([command]);
        let mut todo = vec![command];
        while let Some(pid) = todo.pop() {
            if let Some(found) = Self::of(pid, own) {
                return Some(found);
            }
            todo.extend(
                children(pid).into_iter().filter(|child| seen.len() < MOST && seen.insert(*child)),
            );
        }
        None
    }

    fn of(pid: u32, own: u32) -> Option<Self> {
        let uid = proc::status(pid).ok()?.uid;
        if uid == own || !is_dotnet(pid) {
            return None;
        }
        let command = proc::command_line(pid).unwrap_or_default().join(" ");
        let lacks_variables = proc::environ(pid).is_ok() && configuration(pid).is_none();
        Some(Self { pid, uid, command, lacks_variables })
    }

    /// Why it was not recorded, and what to do.
    pub fn hint(&self, library: &Path) -> String {
        let Self { pid, uid, command, lacks_variables } = self;
        let why = if *lacks_variables {
            "its environment lacks the variables that load the agent; sudo and su remove them"
                .to_owned()
        } else {
            format!(
                "that user cannot reach the agent in {}",
                library.parent().unwrap_or(library).display()
            )
        };
        format!(
            "process {pid} ({command}) ran as user {uid}, and {why}. Run clrscope itself as that \
            user, or record the process as root while it runs: clrscope record {pid}"
        )
    }
}

/// Processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let threads = proc::threads(pid).unwrap_or_default();
    let lists = threads
        .iter()
        .filter_map(|tid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a process runs .NET, as far as one may see: by its memory, or else by the program that
/// it is.
fn is_dotnet(pid: u32) -> bool {
    if let Ok(maps) = proc::maps(pid) {
        return maps
            .iter()
            .filter_map(|map| map.file())
            .any(|file| file.ends_with("libcoreclr.so"));
    }
    let command = proc::command_line(pid).unwrap_or_default();
    command
        .first()
        .is_some_and(|program| Path::new(program).file_name().is_some_and(|name| name == "dotnet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_named_with_what_to_do() {
        let mut other =
            OtherUser { pid: 7, uid: 33, command: "dotnet web.dll".into(), lacks_variables: true };
        let hint = |other: &OtherUser| other.hint(Path::new("/tmp/clrscope-1-2/lib.so"));
        assert!(
            hint(&other).starts_with(
                "process 7 (dotnet web.dll) ran as user 33, and its environment lacks"
            )
        );
        other.lacks_variables = false;
        assert!(
            hint(&other).contains("cannot reach the agent in /tmp/clrscope-1-2. Run"),
            "{}",
            hint(&other)
        );
        assert!(hint(&other).ends_with(": clrscope record 7"));
    }

    #[test]
    fn children_are_found_below_a_process() {
        let mut shell =
            std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while children(shell.id()).is_empty() {
            assert!(std::time::Instant::now() < until);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(children(std::process::id()).contains(&shell.id()));
        let sleep = children(shell.id())[0];
        assert!(is_below(sleep, shell.id()) && is_below(shell.id(), shell.id()));
        assert!(!is_below(std::process::id(), shell.id()) && !is_below(1, shell.id()));
        // It is no .NET process, whoever runs it.
        assert!(OtherUser::below(shell.id(), u32::MAX - 1).is_none());
        let sleep = rustix::process::Pid::from_raw(sleep as i32).unwrap();
        rustix::process::kill_process(sleep, rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
    }
}
