//! Whether a process is instrumented, from everything that is known of it.

use super::{
    home::{Agent, ConfigurationReport, HomeSource},
    library::Library,
    process::Target,
    runtime::Profiling,
};
use diagnostics::Hosting;
use newrelic_compat::{
    Runtime,
    configuration::Configuration,
    decision::{Decision, Process, Reason, decide, unix_command_line},
    environment::{DETACH_VARIABLE, Environment},
};
use schemars::JsonSchema;
use serde::Serialize;

/// The oldest runtime that the agent works on.
const OLDEST: (u32, u32) = (3, 1);

/// Whether a process is instrumented.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verdict {
    /// Whether it is, or would be after a restart.
    pub instrumented: bool,
    /// What decides: the only reason, or all that stands in the way, in the order in which it would
    /// be noticed.
    pub reasons: Vec<String>,
}

/// What is decided about the process by its name, command line and environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DecisionReport {
    /// Whether it is instrumented.
    pub instrument: bool,
    /// Why.
    pub reason: String,
    /// The executable that was decided about.
    pub executable: String,
    /// The command line that was decided about.
    pub command_line: String,
}

/// Decides about a process as the profiler does. `is_clrscope` says whether the library is the one
/// of this project, which alone obeys the variable that makes `agentEnabled` count; `None` where
/// that is not known.
pub fn decision(
    target: &Target,
    configuration: &Configuration,
    environment: &Environment,
    is_clrscope: Option<bool>,
) -> DecisionReport {
    let command_line = unix_command_line(target.arguments.iter().map(String::as_str));
    let process = Process {
        runtime: Runtime::Core,
        path: &target.executable,
        // The profiler does not ask for it on Linux.
        parent_path: super::process::UNKNOWN,
        command_line: &command_line,
    };
    let mut decision = decide(process, configuration, environment);
    let obeys = is_clrscope != Some(false) && detaches_if_disabled(environment);
    if obeys && !configuration.agent_enabled && decision.reason != Reason::Forced {
        decision = Decision { instrument: false, reason: Reason::AgentDisabled };
    }
    DecisionReport {
        instrument: decision.instrument,
        reason: decision.reason.to_string(),
        executable: target.executable.clone(),
        command_line,
    }
}

/// Whether `agentEnabled="false"` counts on .NET Core.
pub fn detaches_if_disabled(environment: &Environment) -> bool {
    environment
        .get(DETACH_VARIABLE)
        .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
}

/// What the verdict is made from.
pub struct Facts<'f> {
    pub target: &'f Target,
    pub environment: &'f Environment,
    pub home_source: HomeSource,
    pub profiling: &'f Profiling,
    pub library: &'f Library,
    pub configuration: &'f ConfigurationReport,
    pub agent: &'f Agent,
    pub decision: Option<&'f DecisionReport>,
    pub trimmed: Option<&'f str>,
}

/// Whether a process is instrumented.
pub fn verdict(facts: &Facts<'_>) -> Verdict {
    let Facts { target, library, .. } = facts;
    let mut against = Vec::new();
    if target.hosting == Some(Hosting::NativeAot) {
        against.push(
            "it was compiled ahead of time (NativeAOT), and no profiler can be loaded into it"
                .to_owned(),
        );
    }
    against.extend(facts.profiling.problems.iter().cloned());
    if library.loadable == Some(false) {
        against.extend(
            library.problems.iter().map(|problem| format!("the native library: {problem}")),
        );
    }
    if facts.environment.home(Runtime::Core).is_none() {
        let source = match facts.home_source {
            HomeSource::Argument => "the one on the command line does not count for it",
            HomeSource::Process | HomeSource::Clrscope => "that of clrscope does not count for it",
        };
        against.push(format!(
            "its environment names no home folder ({source}): set CORECLR_NEW_RELIC_HOME where it \
                is started"
        ));
    }
    against.extend(facts.configuration.problem.clone());
    if target.runtime.as_deref().and_then(major_minor).is_some_and(|version| version < OLDEST) {
        against.push(".NET Core 3.1 or greater is required".to_owned());
    }
    if facts.agent.path.is_none() {
        against.push(format!(
            "NewRelic.Agent.Core.dll was not found: {}",
            facts.agent.looked_at.join(", ")
        ));
    }
    let decided = facts.decision.filter(|decision| !decision.instrument);
    against.extend(decided.map(|decision| decision.reason.clone()));
    // The agent's own library does not look.
    if library.is_clrscope != Some(false) {
        against.extend(facts.trimmed.map(str::to_owned));
    }
    match (against.is_empty(), facts.decision) {
        (true, Some(decision)) => {
            Verdict { instrumented: true, reasons: vec![decision.reason.clone()] }
        }
        _ => Verdict { instrumented: false, reasons: against },
    }
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newrelic::{location::Location, process::Target};
    use newrelic_compat::{configuration::Files, environment::Platform};

    fn target(executable: &str, arguments: &[&str]) -> Target {
        Target {
            pid: 1,
            ns_pid: 1,
            name: "App".into(),
            runtime: Some("9.0.5".into()),
            hosting: Some(Hosting::Library),
            executable: executable.into(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            environment: Vec::new(),
            place: Location::own().unwrap(),
            executable_file: None,
            mapped: Vec::new(),
        }
    }

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::new(Platform::Unix, pairs.iter().copied())
    }

    fn decided(
        enabled: bool,
        pairs: &[(&str, &str)],
        arguments: &[&str],
        is_clrscope: Option<bool>,
    ) -> (bool, String) {
        let environment = environment(pairs);
        let text = format!("<configuration agentEnabled='{enabled}'/>");
        let files = Files { global: text.as_bytes(), ..Files::default() };
        let configuration = Configuration::read(files, &environment).unwrap();
        let found = decision(
            &target("/usr/bin/dotnet", arguments),
            &configuration,
            &environment,
            is_clrscope,
        );
        (found.instrument, found.reason)
    }

    #[test]
    fn agent_enabled_counts_where_it_is_asked_for() {
        let asked = [(DETACH_VARIABLE, "TRUE")];
        let is = |pairs: &[(&str, &str)], own| decided(false, pairs, &["dotnet", "App.dll"], own).0;
        assert_eq!(
            [is(&[], Some(true)), is(&asked, Some(true)), is(&asked, None)],
            [true, false, false]
        );
        // The agent's own library does not know the variable.
        assert!(is(&asked, Some(false)));
        assert!(is(&[asked[0], ("NEW_RELIC_FORCE_PROFILING", "1")], Some(true)));
        assert!(is(&[(DETACH_VARIABLE, "yes")], Some(true)));
    }

    #[test]
    fn tools_are_left_alone() {
        let (instrument, reason) = decided(true, &[], &["dotnet", "run"], None);
        assert!(!instrument && reason.contains("dotnet run"), "{reason}");
    }

    #[test]
    fn everything_that_stands_in_the_way_in_its_order() {
        let target = Target { runtime: Some("2.1.30".into()), ..target("/usr/bin/dotnet", &[]) };
        let environment = environment(&[]);
        let profiling = Profiling::of(&environment, crate::newrelic::library::Machine::X64, None);
        let home = tempfile::tempdir().unwrap();
        let home = crate::newrelic::home::Home {
            path: home.path().display().to_string(),
            source: HomeSource::Argument,
            place: &target.place,
        };
        let (agent, _) =
            crate::newrelic::home::agent(&home, &environment, &target.place, Some(&target));
        let (configuration, read) =
            crate::newrelic::home::configuration(&home, &environment, Some(&target));
        let library = Library::read(None, None, &target.place, Some(&target));
        assert!(read.is_none());
        let facts = Facts {
            target: &target,
            environment: &environment,
            home_source: home.source,
            profiling: &profiling,
            library: &library,
            configuration: &configuration,
            agent: &agent,
            decision: None,
            trimmed: Some("trimmed"),
        };
        let found = verdict(&facts);
        assert!(!found.instrumented);
        let expected = [
            "CORECLR_ENABLE_PROFILING is not set",
            "CORECLR_PROFILER is not set",
            "CORECLR_PROFILER_PATH is not set",
            "names no home folder",
            "Unable to read the configuration",
            ".NET Core 3.1 or greater",
            "NewRelic.Agent.Core.dll was not found",
            "trimmed",
        ];
        assert_eq!(found.reasons.len(), expected.len(), "{found:?}");
        for (reason, part) in found.reasons.iter().zip(expected) {
            assert!(reason.contains(part), "{reason}");
        }
    }
}
