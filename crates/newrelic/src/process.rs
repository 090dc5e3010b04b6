//! This process, as the decision about it needs it.

use newrelic_compat::decision::unix_command_line;
use std::env;

/// What stands for a path that cannot be read.
const UNKNOWN: &str = ".";

/// What is known of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThisProcess {
    /// The path of its program.
    pub path: String,
    /// The path of its parent's program; unknown, as for the agent's own profiler on Linux.
    pub parent_path: String,
    /// Its arguments in one line.
    pub command_line: String,
}

impl ThisProcess {
    /// Asks the system. What it does not tell is [`UNKNOWN`] or empty.
    pub fn read() -> Self {
        let path = env::current_exe()
            .map_or_else(|_| UNKNOWN.to_owned(), |path| path.to_string_lossy().into_owned());
        let arguments: Vec<String> =
            env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let command_line = unix_command_line(arguments.iter().map(String::as_str));
        Self { path, parent_path: UNKNOWN.to_owned(), command_line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_tests() {
        let process = ThisProcess::read();
        let program = process.path.rsplit('/').next().unwrap();
        assert!(program.starts_with("NewRelicProfiler-"), "{process:?}");
        assert!(
            process.command_line.contains(program) && process.command_line.ends_with(' '),
            "{process:?}"
        );
    }
}
