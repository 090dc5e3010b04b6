//! Exit codes: one table for the program, its help and its manual.

use std::{fmt, process::ExitCode};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $meaning:literal;)*) => {
        /// How clrscope ends. The numbers are a contract with scripts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $($(#[$doc])* $name,)*
            /// The exit code of a launched command, passed through.
            Command(u8),
        }

        impl Code {
            /// Number and meaning of all codes but [`Code::Command`], in ascending order.
            pub const TABLE: &[(u8, &str)] = &[$(($number, $meaning),)*];

            /// As the system sees it.
            pub fn number(self) -> u8 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Command(code) => code,
                }
            }
        }
    };
}

codes! {
    /// All is well.
    Success = 0, "success";
    /// A bug in clrscope.
    Internal = 1, "internal error: a bug in clrscope";
    /// The command line is wrong.
    Usage = 2, "wrong arguments";
    /// The process that was named cannot be determined.
    NoTarget = 3, "no such process, or the name matches several";
    /// The process cannot be profiled, or does not let itself.
    Refused = 4, "the process cannot be profiled: not .NET, another user's, stopped, diagnostics \
        off ...";
    /// The process ended too early.
    Ended = 5, "the process ended, or the connection to it was lost, before the recording was \
        complete";
    /// A file cannot be read or written.
    File = 6, "a file cannot be read or written";
    /// Something asked for does not exist on this machine.
    Unsupported = 7, "not possible on this machine: engine, operating system";
    /// A session file cannot be used, or not all of it.
    BadSession = 8, "the session is damaged, cut short, of a newer version, or lacks what was \
        requested";
    /// What was looked for was found, and it is bad.
    Deadlock = 9, "deadlocks: threads block each other permanently";
    /// Code that the runtime would not take.
    BadIl = 10, "il --verify: the code of a method is not well formed";
    /// Two that should be the same are not.
    Differs = 11, "validate: the two differ";
    /// Something got worse.
    Worse = 12, "compare --fail-on: something got worse by more than the limit";
    /// `launch` itself failed.
    LaunchFailed = 125, "launch: clrscope failed, or found nothing to profile in a command that \
        succeeded";
    /// The command of `launch` cannot be executed.
    NotExecutable = 126, "launch: the command cannot be executed";
    /// The command of `launch` does not exist.
    NotFound = 127, "launch: the command does not exist";
    /// The user asked twice.
    Aborted = 130, "interrupted twice: ended at once";
}

impl Code {
    /// The table as help shows it.
    pub fn help() -> String {
        use fmt::Write as _;
        let mut text = String::from("Exit codes:\n");
        for (number, meaning) in Self::TABLE {
            let _ = writeln!(text, "  {number:>3}  {meaning}");
        }
        text.push_str(
            "  launch passes the exit code of the command through (128 + n when signal n \
            ended it).",
        );
        text
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// An error with its exit code. Everything below `main` returns `anyhow` errors; this one, as their
/// root, says how the program ends. [`of`] gives the exit codes of the libraries' errors.
#[derive(Debug)]
pub struct Failure {
    /// How to end.
    pub code: Code,
    /// Cause and next step.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// An error that ends the program with `code`.
pub fn failure(code: Code, message: impl Into<String>) -> anyhow::Error {
    Failure { code, message: message.into() }.into()
}

/// The exit code of an error: that of the first link of its chain that has one.
pub fn of(error: &anyhow::Error) -> Code {
    error.chain().find_map(of_link).unwrap_or(Code::Internal)
}

fn of_link(error: &(dyn std::error::Error + 'static)) -> Option<Code> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return Some(failure.code);
    }
    if let Some(error) = error.downcast_ref::<recorder::RecordError>() {
        return Some(of_record_error(error));
    }
    if let Some(error) = error.downcast_ref::<diagnostics::Error>() {
        return Some(of_port_error(error));
    }
    if let Some(error) = error.downcast_ref::<report::ReportError>() {
        return Some(of_report_error(error));
    }
    if let Some(error) = error.downcast_ref::<session::SessionError>() {
        return Some(of_session_error(error));
    }
    if let Some(error) = error.downcast_ref::<server::ServeError>() {
        return Some(match error {
            server::ServeError::NoToken(_) => Code::Usage,
            _ => Code::File,
        });
    }
    if let Some(error) = error.downcast_ref::<mcp::ServeError>() {
        return Some(match error {
            mcp::ServeError::Protocol(_) => Code::Usage,
            mcp::ServeError::Io(_) => Code::File,
        });
    }
    if error.is::<server::TokenError>() || error.is::<server::FolderError>() {
        return Some(Code::File);
    }
    error.downcast_ref::<std::io::Error>().map(|_| Code::File)
}

fn of_record_error(error: &recorder::RecordError) -> Code {
    match error {
        recorder::RecordError::Port(error) => of_port_error(error),
        error => match error.exit_code() {
            2 => Code::Usage,
            4 => Code::Refused,
            5 => Code::Ended,
            6 => Code::File,
            7 => Code::Unsupported,
            126 => Code::NotExecutable,
            127 => Code::NotFound,
            _ => Code::Internal,
        },
    }
}

fn of_port_error(error: &diagnostics::Error) -> Code {
    match error {
        diagnostics::Error::NoSuchProcess { .. }
        | diagnostics::Error::NoProcessNamed { .. }
        | diagnostics::Error::Ambiguous { .. } => Code::NoTarget,
        diagnostics::Error::Unsupported { .. } => Code::Unsupported,
        _ => Code::Refused,
    }
}

fn of_report_error(error: &report::ReportError) -> Code {
    use profile::ProfileError;
    use report::ReportError;
    match error {
        ReportError::Io(_) => Code::File,
        ReportError::Filter(_) => Code::Usage,
        ReportError::Profile(ProfileError::Session(error)) => of_session_error(error),
        // Nothing in it, or not what was asked for.
        _ => Code::BadSession,
    }
}

fn of_session_error(error: &session::SessionError) -> Code {
    match error {
        session::SessionError::Io(_) => Code::File,
        _ => Code::BadSession,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ascending_and_without_the_code_of_panics() {
        assert!(Code::TABLE.is_sorted_by(|a, b| a.0 < b.0));
        assert!(Code::TABLE.iter().all(|(number, _)| *number != 101));
    }

    #[test]
    fn the_manual_has_the_table() {
        let manual = include_str!("../../../docs/cli.md");
        for (number, meaning) in Code::TABLE {
            let row = format!("| {number} | {meaning} |");
            assert!(manual.contains(&row), "docs/cli.md lacks the row: {row}");
        }
    }

    #[test]
    fn errors_tell_their_code_through_context() {
        let error = failure(Code::File, "no room").context("while writing");
        assert_eq!(of(&error), Code::File);
        let error = anyhow::Error::new(recorder::RecordError::Exited { pid: 1 });
        assert_eq!(of(&error), Code::Ended);
        let error =
            anyhow::Error::new(recorder::RecordError::Port(diagnostics::Error::NoSuchProcess {
                pid: 1,
            }));
        assert_eq!(of(&error), Code::NoTarget);
        let error = anyhow::Error::new(session::SessionError::NotASession).context("x.clrscope");
        assert_eq!(of(&error), Code::BadSession);
        let error = report::ReportError::Profile(session::SessionError::NotASession.into());
        assert_eq!(of(&anyhow::Error::new(error).context("x.clrscope")), Code::BadSession);
        assert_eq!(of(&anyhow::anyhow!("who knows")), Code::Internal);
    }
}
