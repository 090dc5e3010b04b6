//! The profiler's log: its levels, its format, and where it goes.

mod location;
mod logger;

pub mod texts;

pub use location::{directory, file_name};
pub use logger::{Clock, Logger, Sink, SystemClock, timestamp};
pub(crate) use logger::{create_new, file_size_limit};

/// How much is logged, and how important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Everything.
    Trace,
    /// What helps to find mistakes in configuration and instrumentation.
    Debug,
    /// What a user wants to know.
    Info,
    /// What is probably wrong.
    Warn,
    /// What went wrong. Nothing switches these off but [`Settings::enabled`].
    Error,
}

impl Level {
    /// The level that configuration or environment name, in any case; `None` for unknown names,
    /// which change nothing.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        Some(match () {
            () if is("off") || is("error") => Self::Error,
            () if is("warn") => Self::Warn,
            () if is("info") => Self::Info,
            () if is("debug") || is("fine") => Self::Debug,
            () if is("verbose") || is("finest") || is("all") => Self::Trace,
            () => return None,
        })
    }

    /// The name in log lines, five characters long.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Trace => "Trace",
            Self::Debug => "Debug",
            Self::Info => "Info ",
            Self::Warn => "Warn ",
            Self::Error => "Error",
        }
    }
}

/// What is logged, and whether to a file or to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The least important lines that are logged.
    pub level: Level,
    /// Standard output in place of a file.
    pub console: bool,
    /// Whether anything is logged at all.
    pub enabled: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { level: Level::Info, console: false, enabled: true }
    }
}

impl Settings {
    /// The settings that are used. Standard output gets no lines less important than
    /// [`Level::Info`], and in an Azure function no log does, unless `azure_override` is set. The
    /// second value tells whether the level was raised.
    #[must_use]
    pub fn effective(self, is_azure_function: bool, azure_override: bool) -> (Self, bool) {
        let limited = self.console || (is_azure_function && !azure_override);
        let level = if limited { self.level.max(Level::Info) } else { self.level };
        (Self { level, ..self }, level != self.level)
    }
}

/// A line that is logged once the log is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How important it is.
    pub level: Level,
    /// The text.
    pub text: String,
}

impl Message {
    /// A line.
    pub fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_levels() {
        let cases = [
            ("off", Level::Error),
            ("ERROR", Level::Error),
            ("Warn", Level::Warn),
            ("info", Level::Info),
            ("debug", Level::Debug),
            ("fine", Level::Debug),
            ("verbose", Level::Trace),
            ("FINEST", Level::Trace),
            ("all", Level::Trace),
        ];
        for (name, level) in cases {
            assert_eq!(Level::named(name), Some(level), "{name}");
        }
        for name in ["", "trace", "warning", " info"] {
            assert_eq!(Level::named(name), None, "{name}");
        }
    }

    #[test]
    fn standard_output_and_azure_functions_get_no_details() {
        let settings = Settings { level: Level::Trace, ..Settings::default() };
        assert_eq!(settings.effective(false, false), (settings, false));
        assert_eq!(settings.effective(true, true), (settings, false));
        assert_eq!(settings.effective(true, false).0.level, Level::Info);
        let console = Settings { console: true, ..settings };
        assert_eq!(
            console.effective(false, false),
            (Settings { level: Level::Info, ..console }, true)
        );
        assert_eq!(console.effective(true, true).0.level, Level::Info);
        let quiet = Settings { console: true, level: Level::Error, enabled: true };
        assert_eq!(quiet.effective(true, false), (quiet, false));
    }
}
