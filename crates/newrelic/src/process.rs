//! This process, as the decision about it needs it, and what the system knows of the agent.

#[cfg(windows)]
mod windows;

use newrelic_compat::Runtime;
use newrelic_compat::environment::Environment;
use std::env;

/// What stands for a path that cannot be read.
const UNKNOWN: &str = ".";

/// What is known of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThisProcess {
    /// The path of its program.
    pub path: String,
    /// The file name of its parent's program; unknown on Linux, as for the agent's own profiler.
    pub parent_path: String,
    /// Its arguments in one line.
    pub command_line: String,
}

impl ThisProcess {
    /// Asks the system. What it does not tell is [`UNKNOWN`] or empty.
    pub fn read() -> Self {
        let path = env::current_exe()
            .map_or_else(|_| UNKNOWN.to_owned(), |path| path.to_string_lossy().into_owned());
        Self {
            path,
            parent_path: parent().unwrap_or_else(|| UNKNOWN.to_owned()),
            command_line: command_line(),
        }
    }
}

/// The agent's home folder: from the environment, or where its installer has noted it.
pub fn home(environment: &Environment, runtime: Runtime) -> Option<String> {
    environment.home(runtime).or_else(installed_home)
}

#[cfg(windows)]
use windows::{command_line, installed_home};

#[cfg(not(windows))]
fn installed_home() -> Option<String> {
    None
}

#[cfg(not(windows))]
fn command_line() -> String {
    let arguments: Vec<String> =
        env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    newrelic_compat::decision::unix_command_line(arguments.iter().map(String::as_str))
}

#[cfg(windows)]
fn parent() -> Option<String> {
    parent_in(windows::processes(), std::process::id())
}

#[cfg(not(windows))]
fn parent() -> Option<String> {
    None
}

/// A process of the system.
#[cfg(any(windows, test))]
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    pid: u32,
    parent: u32,
    /// The file name of its program.
    program: String,
}

/// The program of the parent of a process. It is unknown if the parent has ended.
#[cfg(any(windows, test))]
fn parent_in(processes: impl IntoIterator<Item = Known>, pid: u32) -> Option<String> {
    let processes: Vec<Known> = processes.into_iter().collect();
    let parent = processes.iter().find(|known| known.pid == pid)?.parent;
    let parent = processes.into_iter().find(|known| known.pid == parent && parent != pid)?;
    Some(parent.program).filter(|program| !program.is_empty())
}

/// The text in a buffer of the system, up to its first zero.
#[cfg(any(windows, test))]
fn text_in(buffer: &[u16]) -> String {
    let text = buffer.split(|unit| *unit == 0).next().unwrap_or_default();
    String::from_utf16_lossy(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_tests() {
        let process = ThisProcess::read();
        let program = process.path.rsplit(['/', '\\']).next().unwrap();
        assert!(program.starts_with("NewRelicProfiler-"), "{process:?}");
        assert!(process.command_line.contains(program), "{process:?}");
        // On Linux each argument is followed by a space, and the parent is not read.
        if cfg!(target_os = "linux") {
            assert!(process.command_line.ends_with(' '), "{process:?}");
            assert_eq!(process.parent_path, UNKNOWN);
        }
    }

    #[test]
    fn parents() {
        let known = |pid, parent, program: &str| Known { pid, parent, program: program.to_owned() };
        let processes = [
            known(0, 0, "[System Process]"),
            known(4, 0, "System"),
            known(70, 4, "w3wp.exe"),
            known(71, 70, "dotnet.exe"),
            known(72, 69, "orphan.exe"),
            known(73, 74, "child.exe"),
            known(74, 4, ""),
        ];
        let parent = |pid| parent_in(processes.clone(), pid);
        assert_eq!(parent(71).as_deref(), Some("w3wp.exe"));
        assert_eq!(parent(70).as_deref(), Some("System"));
        for (pid, why) in [
            (72, "its parent has ended"),
            (73, "the parent has no name"),
            (0, "it is its own parent"),
            (99, "there is no such process"),
        ] {
            assert_eq!(parent(pid), None, "{why}");
        }
    }

    #[test]
    fn texts_end_with_a_zero() {
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        assert_eq!(text_in(&units("w3wp.exe\0more")), "w3wp.exe");
        assert_eq!(text_in(&units("Grüße \u{1F600}")), "Grüße \u{1F600}");
        assert_eq!(text_in(&units("\0")), "");
        assert_eq!(text_in(&[]), "");
        assert_eq!(text_in(&[0x41, 0xd800, 0]), "A\u{fffd}");
    }

    #[test]
    fn the_environment_names_the_home() {
        use newrelic_compat::environment::Platform;
        let named = Environment::new(Platform::Unix, [("CORECLR_NEW_RELIC_HOME", "/nr")]);
        assert_eq!(home(&named, Runtime::Core).as_deref(), Some("/nr"));
        if cfg!(not(windows)) {
            assert_eq!(home(&named, Runtime::Framework), None);
        }
    }
}
