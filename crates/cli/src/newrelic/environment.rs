//! The environment variables that count, and which of several names wins.

use newrelic_compat::environment::{DETACH_VARIABLE, Environment, MODE_VARIABLE, SHAPE_VARIABLE};
use schemars::JsonSchema;
use serde::Serialize;

/// Variables for one purpose. The first that is set wins.
struct Group {
    purpose: &'static str,
    names: &'static [&'static str],
}

const fn group(purpose: &'static str, names: &'static [&'static str]) -> Group {
    Group { purpose, names }
}

/// What the profiler reads. Keys and other secrets are for the managed agent only, and not among
/// these.
const GROUPS: [Group; 20] = [
    group("home folder", &["CORECLR_NEW_RELIC_HOME", "CORECLR_NEWRELIC_HOME"]),
    group("folder of the managed agent", &["NEW_RELIC_INSTALL_PATH", "NEWRELIC_INSTALL_PATH"]),
    group("instrument in any case", &["NEW_RELIC_FORCE_PROFILING", "NEWRELIC_FORCE_PROFILING"]),
    group("included applications", &["NEW_RELIC_INCLUDED_APPLICATION_NAMES"]),
    group("excluded applications", &["NEW_RELIC_EXCLUDED_APPLICATION_NAMES"]),
    group("log level", &["NEW_RELIC_LOG_LEVEL", "NEWRELIC_LOG_LEVEL"]),
    group(
        "log folder",
        &[
            "NEW_RELIC_PROFILER_LOG_DIRECTORY",
            "NEWRELIC_PROFILER_LOG_DIRECTORY",
            "NEW_RELIC_LOG_DIRECTORY",
            "NEWRELIC_LOG_DIRECTORY",
        ],
    ),
    group("log", &["NEW_RELIC_LOG_ENABLED"]),
    group("log to standard output", &["NEW_RELIC_LOG_CONSOLE"]),
    group("reflection in place of the cache", &["NEW_RELIC_DISABLE_APPDOMAIN_CACHING"]),
    group("application pool", &["APP_POOL_ID", "ASPNETCORE_IIS_APP_POOL_ID"]),
    group("worker of Azure functions", &["FUNCTIONS_WORKER_RUNTIME"]),
    group("rules for Azure functions", &["NEW_RELIC_AZURE_FUNCTION_MODE_ENABLED"]),
    group(
        "details in the log of Azure functions",
        &["NEW_RELIC_AZURE_FUNCTION_LOG_LEVEL_OVERRIDE"],
    ),
    group("handler of AWS Lambda", &["NEW_RELIC_LAMBDA_HANDLER", "_HANDLER"]),
    group("mode", &[MODE_VARIABLE]),
    group("shape of the managed agent", &[SHAPE_VARIABLE]),
    group("agentEnabled counts", &[DETACH_VARIABLE]),
    group("profiling", &["CORECLR_ENABLE_PROFILING"]),
    group("class id of the profiler", &["CORECLR_PROFILER"]),
];

/// Variables of .NET Framework, which users take for those of .NET Core.
const FRAMEWORK: [(&str, &str); 5] = [
    ("NEW_RELIC_HOME", "CORECLR_NEW_RELIC_HOME"),
    ("NEWRELIC_HOME", "CORECLR_NEW_RELIC_HOME"),
    ("COR_ENABLE_PROFILING", "CORECLR_ENABLE_PROFILING"),
    ("COR_PROFILER", "CORECLR_PROFILER"),
    ("COR_PROFILER_PATH", "CORECLR_PROFILER_PATH"),
];

/// A variable that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Variable {
    /// What it is for.
    pub purpose: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Others for the same, which are set and do not count.
    pub overrides: Vec<Overridden>,
}

/// A variable that does not count because another one wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Overridden {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

/// The variables that are set. `paths` are those that name the native library, the most important
/// one first.
pub fn variables(environment: &Environment, paths: &'static [&'static str]) -> Vec<Variable> {
    let path = group("native library", paths);
    GROUPS.iter().chain([&path]).filter_map(|group| counting(group, environment)).collect()
}

fn counting(group: &Group, environment: &Environment) -> Option<Variable> {
    let mut set = group
        .names
        .iter()
        .filter_map(|&name| Some(Overridden { name, value: environment.get(name)? }));
    let Overridden { name, value } = set.next()?;
    Some(Variable { purpose: group.purpose, name, value, overrides: set.collect() })
}

/// What is said about variables that are set and count on .NET Framework only, where those for .NET
/// Core are not set.
pub fn for_framework_only(environment: &Environment) -> Vec<String> {
    let is_set = |name| environment.get(name).is_some();
    FRAMEWORK
        .iter()
        .filter(|(name, instead)| is_set(name) && !is_set(instead))
        .map(|(name, instead)| {
            format!("{name} counts for .NET Framework only; for .NET set {instead}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use newrelic_compat::{Runtime, environment::Platform};

    const PATHS: &[&str] = &["CORECLR_PROFILER_PATH_64", "CORECLR_PROFILER_PATH"];

    fn of(pairs: &[(&str, &str)]) -> Environment {
        Environment::new(Platform::Unix, pairs.iter().copied())
    }

    /// The profiler's own answer, for a group that it has one about.
    fn asked(purpose: &str, environment: &Environment) -> Option<String> {
        match purpose {
            "home folder" => environment.home(Runtime::Core),
            "folder of the managed agent" => environment.install_path(),
            "log level" => environment.log_level(),
            "log folder" => environment.log_directory(),
            "application pool" => environment.application_pool(""),
            "handler of AWS Lambda" => environment.lambda_handlers().into_iter().next(),
            "included applications" => {
                environment.included_applications().map(|list| list.join(","))
            }
            "excluded applications" => {
                environment.excluded_applications().map(|list| list.join(","))
            }
            "reflection in place of the cache" => {
                environment.caching_disabled().map(|(value, _)| value)
            }
            "worker of Azure functions" => environment.azure_function_runtime(),
            _ => None,
        }
    }

    #[test]
    fn the_winner_is_that_of_the_profiler() {
        let mut compared = 0;
        for group in &GROUPS {
            for first in 0..group.names.len() {
                let set: Vec<_> = group.names[first..].iter().map(|&name| (name, name)).collect();
                let environment = of(&set);
                let found = counting(group, &environment).unwrap();
                assert_eq!(found.name, group.names[first], "{}", group.purpose);
                assert_eq!(found.overrides.len(), set.len() - 1, "{}", group.purpose);
                if let Some(value) = asked(group.purpose, &environment) {
                    assert_eq!(found.value, value, "{}", group.purpose);
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, 18);
        assert!(of(&[("NEWRELIC_FORCE_PROFILING", "0")]).forces_profiling());
    }

    #[test]
    fn only_what_is_set_is_listed() {
        assert_eq!(
            variables(&of(&[("PATH", "/bin"), ("NEW_RELIC_LICENSE_KEY", "secret")]), PATHS),
            []
        );
        let both = of(&[("CORECLR_PROFILER_PATH", "/a"), ("CORECLR_PROFILER_PATH_64", "/b")]);
        let found = variables(&both, PATHS);
        assert_eq!((found[0].name, found[0].value.as_str()), ("CORECLR_PROFILER_PATH_64", "/b"));
        assert_eq!(
            found[0].overrides,
            [Overridden { name: "CORECLR_PROFILER_PATH", value: "/a".to_owned() }]
        );
    }

    #[test]
    fn variables_of_the_other_runtime() {
        let found = for_framework_only(&of(&[
            ("NEW_RELIC_HOME", "/h"),
            ("COR_PROFILER", "{}"),
            ("CORECLR_PROFILER", "{}"),
        ]));
        assert_eq!(
            found,
            ["NEW_RELIC_HOME counts for .NET Framework only; for .NET set CORECLR_NEW_RELIC_HOME"]
        );
    }
}
