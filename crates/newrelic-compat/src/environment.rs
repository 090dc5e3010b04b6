//! The environment variables that the profiler knows, and which of them wins.
//!
//! Most have a new name (`NEW_RELIC_…`) and an old one (`NEWRELIC_…`). The new one wins where it is
//! set.

use crate::Runtime;
use std::collections::BTreeMap;

/// The variable that chooses the shape of the managed agent: `auto`, `10.53`, `10.54` or `10.55`.
/// Only this profiler knows it.
pub const SHAPE_VARIABLE: &str = "NEW_RELIC_CLRSCOPE_AGENT_SHAPE";

/// The variable that chooses how far this profiler may differ from the agent's own: `strict`,
/// `default` or `fast`. Only this profiler knows it.
pub const MODE_VARIABLE: &str = "NEW_RELIC_CLRSCOPE_MODE";

/// The variable that makes `agentEnabled="false"` count on .NET Core: `true` or `1`. Only this
/// profiler knows it.
pub const DETACH_VARIABLE: &str = "NEW_RELIC_CLRSCOPE_DETACH_IF_DISABLED";

/// The variable that names the file of the event log. Only this profiler knows it.
pub const EVENT_LOG_VARIABLE: &str = "NEW_RELIC_CLRSCOPE_EVENT_LOG";

/// A family of operating systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// Linux: a variable that is empty is set. Names are case-sensitive.
    Unix,
    /// Windows: a variable that is empty is not set. Names are case-insensitive.
    Windows,
}

impl Platform {
    /// The one that this was built for.
    pub const CURRENT: Self = if cfg!(windows) { Self::Windows } else { Self::Unix };
}

/// Environment variables.
#[derive(Clone, Debug)]
pub struct Environment {
    platform: Platform,
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// These variables.
    pub fn new<N: Into<String>, V: Into<String>>(
        platform: Platform,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables =
            variables.into_iter().map(|(name, value)| (key(platform, name.into()), value.into()));
        Self { platform, variables: variables.collect() }
    }

    /// The variables of this process. What is not Unicode is replaced.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self::new(
            Platform::CURRENT,
            std::env::vars_os().map(|(name, value)| (text(name), text(value))),
        )
    }

    /// The family of systems that it is from.
    #[must_use]
    pub const fn platform(&self) -> Platform {
        self.platform
    }

    /// A variable, if it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let value = self.variables.get(&key(self.platform, name.to_owned()))?;
        (self.platform == Platform::Unix || !value.is_empty()).then(|| value.clone())
    }

    /// The first of some variables that is set.
    fn first(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.get(name))
    }

    /// A variable that says yes or no; `None` if it is not set or says anything else.
    fn flag(&self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        match value.to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }

    /// The agent's home folder. On .NET Core the variables of .NET Framework do not count.
    #[must_use]
    pub fn home(&self, runtime: Runtime) -> Option<String> {
        self.first(match runtime {
            Runtime::Core => &["CORECLR_NEW_RELIC_HOME", "CORECLR_NEWRELIC_HOME"],
            Runtime::Framework => &["NEW_RELIC_HOME", "NEWRELIC_HOME"],
        })
    }

    /// Another folder in which the managed agent is looked for, before [`Self::home`].
    #[must_use]
    pub fn install_path(&self) -> Option<String> {
        self.first(&["NEW_RELIC_INSTALL_PATH", "NEWRELIC_INSTALL_PATH"])
    }

    /// Whether the process is instrumented in any case. The variable counts when it is set,
    /// whatever it says.
    #[must_use]
    pub fn forces_profiling(&self) -> bool {
        self.first(&["NEW_RELIC_FORCE_PROFILING", "NEWRELIC_FORCE_PROFILING"]).is_some()
    }

    /// The level of the log. While it is set, the element `log` of the configuration is ignored.
    #[must_use]
    pub fn log_level(&self) -> Option<String> {
        self.first(&["NEW_RELIC_LOG_LEVEL", "NEWRELIC_LOG_LEVEL"])
    }

    /// The folder of the log.
    #[must_use]
    pub fn log_directory(&self) -> Option<String> {
        self.first(&[
            "NEW_RELIC_PROFILER_LOG_DIRECTORY",
            "NEWRELIC_PROFILER_LOG_DIRECTORY",
            "NEW_RELIC_LOG_DIRECTORY",
            "NEWRELIC_LOG_DIRECTORY",
        ])
    }

    /// The log folder of an Azure web site, in one.
    #[must_use]
    pub fn azure_web_site_logs(&self) -> Option<String> {
        let expanded = self.get("HOME_EXPANDED")?;
        let home = self.get("HOME").filter(|_| expanded.contains(":\\DWASFiles\\Sites"))?;
        Some(format!("{home}\\LogFiles\\NewRelic"))
    }

    /// Whether there is a log, if a variable says so.
    #[must_use]
    pub fn log_enabled(&self) -> Option<bool> {
        self.flag("NEW_RELIC_LOG_ENABLED")
    }

    /// Whether the log goes to standard output, if a variable says so.
    #[must_use]
    pub fn log_console(&self) -> Option<bool> {
        self.flag("NEW_RELIC_LOG_CONSOLE")
    }

    /// Names of processes to instrument. While it is set, those of the configuration are ignored.
    #[must_use]
    pub fn included_applications(&self) -> Option<Vec<String>> {
        self.get("NEW_RELIC_INCLUDED_APPLICATION_NAMES").map(|list| names(&list))
    }

    /// Names of processes not to instrument. While it is set, those of the configuration are
    /// ignored.
    #[must_use]
    pub fn excluded_applications(&self) -> Option<Vec<String>> {
        self.get("NEW_RELIC_EXCLUDED_APPLICATION_NAMES").map(|list| names(&list))
    }

    /// The pool of IIS that the process belongs to: from a variable, or on Windows from `-ap
    /// <name>` on the command line.
    #[must_use]
    pub fn application_pool(&self, command_line: &str) -> Option<String> {
        self.first(&["APP_POOL_ID", "ASPNETCORE_IIS_APP_POOL_ID"]).or_else(|| {
            let pool = || pool_argument(command_line);
            (self.platform == Platform::Windows).then(pool).flatten()
        })
    }

    /// The value of the variable that asks for reflection in place of the cache, if it is set, and
    /// whether it does.
    #[must_use]
    pub fn caching_disabled(&self) -> Option<(String, bool)> {
        const NAME: &str = "NEW_RELIC_DISABLE_APPDOMAIN_CACHING";
        let value = self.get(NAME)?;
        Some((value, self.flag(NAME) == Some(true)))
    }

    /// The worker runtime of an Azure function; `None` outside of one.
    #[must_use]
    pub fn azure_function_runtime(&self) -> Option<String> {
        self.get("FUNCTIONS_WORKER_RUNTIME").filter(|value| !value.is_empty())
    }

    /// Whether Azure functions have rules of their own in the process decision: yes, unless a
    /// variable says otherwise.
    #[must_use]
    pub fn azure_function_mode(&self) -> bool {
        const NAME: &str = "NEW_RELIC_AZURE_FUNCTION_MODE_ENABLED";
        self.get(NAME).is_none() || self.flag(NAME) == Some(true)
    }

    /// Whether the log of an Azure function may have details.
    #[must_use]
    pub fn azure_log_level_override(&self) -> bool {
        self.flag("NEW_RELIC_AZURE_FUNCTION_LOG_LEVEL_OVERRIDE") == Some(true)
    }

    /// Handlers of an AWS Lambda function, the more important one first: `assembly::class::method`.
    #[must_use]
    pub fn lambda_handlers(&self) -> Vec<String> {
        ["NEW_RELIC_LAMBDA_HANDLER", "_HANDLER"].iter().filter_map(|name| self.get(name)).collect()
    }
}

fn key(platform: Platform, name: String) -> String {
    match platform {
        Platform::Unix => name,
        Platform::Windows => name.to_ascii_uppercase(),
    }
}

/// The parts of a list. Blanks belong to the names; empty names are none.
fn names(list: &str) -> Vec<String> {
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// What follows `-ap` on a command line, without one pair of quotes.
fn pool_argument(command_line: &str) -> Option<String> {
    const OPTION: &str = "-ap ";
    let is_word = |at: usize| {
        command_line.get(..at).is_some_and(|front| front.is_empty() || front.ends_with(' '))
    };
    let (at, _) = command_line.match_indices(OPTION).find(|(at, _)| is_word(*at))?;
    let rest = command_line.get(at + OPTION.len()..)?.trim_start();
    let pool = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').map_or(quoted, |(pool, _)| pool),
        None => rest.split_once(' ').map_or(rest, |(pool, _)| pool),
    };
    (!pool.is_empty()).then(|| pool.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(variables: &[(&str, &str)]) -> Environment {
        Environment::new(Platform::Unix, variables.iter().copied())
    }

    fn windows(variables: &[(&str, &str)]) -> Environment {
        Environment::new(Platform::Windows, variables.iter().copied())
    }

    /// The value of a getter with both names set, with only one of them, and with none.
    fn precedence(names: [&str; 2], get: impl Fn(&Environment) -> Option<String>) {
        let [new, old] = names;
        assert_eq!(get(&unix(&[(new, "n"), (old, "o")])).as_deref(), Some("n"), "{new}");
        assert_eq!(get(&unix(&[(new, "n")])).as_deref(), Some("n"), "{new}");
        assert_eq!(get(&unix(&[(old, "o")])).as_deref(), Some("o"), "{old}");
        assert_eq!(get(&unix(&[])), None, "{new}");
        assert_eq!(get(&unix(&[(new, ""), (old, "o")])).as_deref(), Some(""), "{new}");
        assert_eq!(get(&windows(&[(new, ""), (old, "o")])).as_deref(), Some("o"), "{new}");
    }

    #[test]
    fn new_names_win() {
        precedence(["CORECLR_NEW_RELIC_HOME", "CORECLR_NEWRELIC_HOME"], |env| {
            env.home(Runtime::Core)
        });
        precedence(["NEW_RELIC_HOME", "NEWRELIC_HOME"], |env| env.home(Runtime::Framework));
        precedence(["NEW_RELIC_INSTALL_PATH", "NEWRELIC_INSTALL_PATH"], Environment::install_path);
        precedence(["NEW_RELIC_LOG_LEVEL", "NEWRELIC_LOG_LEVEL"], Environment::log_level);
        precedence(
            ["NEW_RELIC_LOG_DIRECTORY", "NEWRELIC_LOG_DIRECTORY"],
            Environment::log_directory,
        );
        precedence(
            ["NEW_RELIC_PROFILER_LOG_DIRECTORY", "NEW_RELIC_LOG_DIRECTORY"],
            Environment::log_directory,
        );
        precedence(["APP_POOL_ID", "ASPNETCORE_IIS_APP_POOL_ID"], |env| env.application_pool(""));
    }

    #[test]
    fn each_runtime_has_its_own_home() {
        let environment = unix(&[("NEW_RELIC_HOME", "f"), ("NEWRELIC_HOME", "g")]);
        assert_eq!(environment.home(Runtime::Core), None);
        let environment = unix(&[("CORECLR_NEW_RELIC_HOME", "c")]);
        assert_eq!(environment.home(Runtime::Framework), None);
    }

    #[test]
    fn force_counts_when_it_is_set() {
        for name in ["NEW_RELIC_FORCE_PROFILING", "NEWRELIC_FORCE_PROFILING"] {
            for value in ["1", "0", "false", ""] {
                assert!(unix(&[(name, value)]).forces_profiling(), "{name}={value}");
                assert_eq!(
                    windows(&[(name, value)]).forces_profiling(),
                    !value.is_empty(),
                    "{name}={value}"
                );
            }
        }
        assert!(!unix(&[]).forces_profiling());
    }

    #[test]
    fn flags() {
        for (value, expected) in [
            ("true", Some(true)),
            ("TRUE", Some(true)),
            ("1", Some(true)),
            ("False", Some(false)),
            ("0", Some(false)),
            ("yes", None),
            ("", None),
            (" 1", None),
        ] {
            assert_eq!(
                unix(&[("NEW_RELIC_LOG_ENABLED", value)]).log_enabled(),
                expected,
                "{value}"
            );
            assert_eq!(
                unix(&[("NEW_RELIC_LOG_CONSOLE", value)]).log_console(),
                expected,
                "{value}"
            );
            let disabled =
                unix(&[("NEW_RELIC_DISABLE_APPDOMAIN_CACHING", value)]).caching_disabled();
            assert_eq!(disabled, Some((value.to_owned(), expected == Some(true))), "{value}");
            let mode =
                unix(&[("NEW_RELIC_AZURE_FUNCTION_MODE_ENABLED", value)]).azure_function_mode();
            assert_eq!(mode, expected == Some(true), "{value}");
        }
        assert_eq!((unix(&[]).log_enabled(), unix(&[]).caching_disabled()), (None, None));
        assert!(unix(&[]).azure_function_mode() && !unix(&[]).azure_log_level_override());
        assert!(
            unix(&[("NEW_RELIC_AZURE_FUNCTION_LOG_LEVEL_OVERRIDE", "true")])
                .azure_log_level_override()
        );
    }

    #[test]
    fn lists_are_not_trimmed() {
        let environment = unix(&[("NEW_RELIC_INCLUDED_APPLICATION_NAMES", "a.exe, b.exe,,c")]);
        assert_eq!(environment.included_applications().unwrap(), ["a.exe", " b.exe", "c"]);
        assert_eq!(environment.excluded_applications(), None);
        let environment = unix(&[("NEW_RELIC_EXCLUDED_APPLICATION_NAMES", "")]);
        assert_eq!(environment.excluded_applications().unwrap(), [""; 0]);
    }

    #[test]
    fn pools_from_the_command_line() {
        let pool = |line: &str| windows(&[]).application_pool(line);
        assert_eq!(pool("w3wp.exe -ap DefaultAppPool -v 4").as_deref(), Some("DefaultAppPool"));
        assert_eq!(pool("w3wp.exe -ap \"My Pool\" -v 4").as_deref(), Some("My Pool"));
        assert_eq!(pool("w3wp.exe -ap \"My Pool").as_deref(), Some("My Pool"));
        assert_eq!(pool("w3wp.exe --x-ap no -ap yes").as_deref(), Some("yes"));
        assert_eq!(pool("w3wp.exe -v 4"), None);
        assert_eq!(pool("w3wp.exe -ap "), None);
        assert_eq!(unix(&[]).application_pool("w3wp.exe -ap Pool"), None);
        let both = windows(&[("ASPNETCORE_IIS_APP_POOL_ID", "Core")]);
        assert_eq!(both.application_pool("w3wp.exe -ap Pool").as_deref(), Some("Core"));
    }

    #[test]
    fn functions_and_handlers() {
        assert_eq!(unix(&[("FUNCTIONS_WORKER_RUNTIME", "")]).azure_function_runtime(), None);
        let isolated = unix(&[("FUNCTIONS_WORKER_RUNTIME", "dotnet-isolated")]);
        assert_eq!(isolated.azure_function_runtime().as_deref(), Some("dotnet-isolated"));
        let both = unix(&[("_HANDLER", "b::B::b"), ("NEW_RELIC_LAMBDA_HANDLER", "a::A::a")]);
        assert_eq!(both.lambda_handlers(), ["a::A::a", "b::B::b"]);
        assert!(unix(&[]).lambda_handlers().is_empty());
    }

    #[test]
    fn names_on_windows_are_case_insensitive() {
        assert_eq!(windows(&[("Path", "x")]).get("PATH").as_deref(), Some("x"));
        assert_eq!(unix(&[("Path", "x")]).get("PATH"), None);
    }
}
