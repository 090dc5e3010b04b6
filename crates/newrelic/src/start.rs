//! What happens before the first event: configuration, log, decision.

use crate::events::Events;
use crate::instance::{Instance, Parts};
use crate::log::Log;
use crate::mode::Mode;
use crate::process::{self, ThisProcess};
use corprof::ProfilerInfo;
use corprof::abi::COR_PRF_RUNTIME_TYPE;
use newrelic_compat::Runtime;
use newrelic_compat::configuration::Configuration;
use newrelic_compat::decision::{Decision, Process, Reason, decide};
use newrelic_compat::environment::{DETACH_VARIABLE, Environment, SHAPE_VARIABLE};
use newrelic_compat::event_log::Head;
use newrelic_compat::files::{
    AGENT_LIMIT, ConfigurationFiles, ConfigurationPaths, agent_candidates, find_agent, read,
};
use newrelic_compat::log::{Level, Settings, Sink, directory, texts};
use newrelic_compat::shape::{AgentShape, ShapeChoice, Shim, of_file};
use newrelic_compat::strategy::CallingStrategy;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The process is not instrumented. The log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotStarted;

/// Initializes the profiler.
///
/// # Errors
/// The process is not to be instrumented, or something is missing.
pub fn start(info: &ProfilerInfo) -> Result<Arc<Instance>, NotStarted> {
    let known = info.runtime_information().map_err(|_| NotStarted)?;
    let runtime = match known.kind {
        COR_PRF_RUNTIME_TYPE::CORE_CLR => Runtime::Core,
        COR_PRF_RUNTIME_TYPE::DESKTOP_CLR => Runtime::Framework,
        _ => return Err(NotStarted),
    };
    let environment = Environment::of_process();
    // The program may change its folder later.
    let home = process::home(&environment, runtime).map(absolute);
    let configuration = match &home {
        Some(home) => configuration(&environment, Path::new(home)),
        None => Err(
            "The agent's home folder is not known: set CORECLR_NEW_RELIC_HOME (.NET Framework: \
                NEW_RELIC_HOME)."
                .into(),
        ),
    };
    let log = open_log(&environment, home.as_deref(), configuration.as_ref().ok());
    let failed = |text: &str| {
        log.line(Level::Error, || text);
        log.line(Level::Error, || texts::INITIALIZATION_FAILED);
        NotStarted
    };
    let configuration = configuration.map_err(|problem| failed(&problem))?;
    log.messages(&configuration.messages);
    let version = known.version.map(|part| part.to_string()).join(".");
    if !is_supported(info, runtime) {
        let needed = match runtime {
            Runtime::Core => texts::CORE_TOO_OLD,
            Runtime::Framework => ".NET Framework 4.6.1 or greater required",
        };
        return Err(failed(&format!("{needed}. This process runs on {version}.")));
    }
    let home_folder = home.as_deref().unwrap_or_default();
    let Some(agent) = find_agent(&environment, home.as_deref(), runtime) else {
        log.line(Level::Error, || "The managed agent NewRelic.Agent.Core.dll was not found.");
        let places =
            agent_candidates(environment.install_path().as_deref(), home.as_deref(), runtime);
        let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        return Err(failed(&format!("It was looked for at: {}", places.join(", "))));
    };
    if !is_instrumented(runtime, &configuration, &environment, &log) {
        return Err(NotStarted);
    }
    let (shape, shim) = shape(&environment, &agent, &log);
    let mode = mode(&environment, &log);
    log.line(Level::Info, || {
        format!("The managed agent is of shape {shape}; mode {mode}; runtime {version}.")
    });
    let events = events(&environment, (shape, mode, &version), &log);
    let disabled = environment.caching_disabled();
    let is_disabled = disabled.as_ref().is_some_and(|(_, disabled)| *disabled);
    let configured = CallingStrategy::configured(shape, runtime, is_disabled);
    let strategy =
        texts::strategy(shape, configured, disabled.as_ref().map(|(value, _)| value.as_str()));
    let instance = Instance::new(Parts {
        info: info.clone(),
        environment,
        runtime,
        major: known.version[0],
        home: PathBuf::from(home_folder),
        agent: agent.to_string_lossy().into_owned(),
        shape,
        shim,
        mode,
        configured,
        log,
        events,
        ignored: configuration.ignored,
    });
    if let Some(message) = strategy {
        instance.log(message.level, &message.text);
    }
    Ok(Arc::new(instance))
}

fn absolute(home: String) -> String {
    std::path::absolute(&home).map_or(home, |path| path.to_string_lossy().into_owned())
}

/// Whether the process is instrumented. The log says why.
fn is_instrumented(
    runtime: Runtime,
    configuration: &Configuration,
    environment: &Environment,
    log: &Log,
) -> bool {
    let decision = decision(runtime, configuration, environment);
    let (level, verb) =
        if decision.instrument { (Level::Debug, "is") } else { (Level::Info, "is not") };
    log.line(level, || format!("This process {verb} instrumented: {}.", decision.reason));
    decision.instrument
}

/// The mode that the environment names. The log says if there is none of that name.
fn mode(environment: &Environment, log: &Log) -> Mode {
    let (mode, unknown) = Mode::of(environment);
    if let Some(text) = unknown {
        log.line(Level::Warn, || {
            format!("Unknown mode \"{text}\": write strict, default or fast.")
        });
    }
    mode
}

/// The event log; one that cannot be made is no reason not to start.
fn events(
    environment: &Environment,
    (shape, mode, runtime): (AgentShape, Mode, &str),
    log: &Log,
) -> Events {
    let process = std::env::current_exe().unwrap_or_default();
    let head = Head {
        process: &process.to_string_lossy(),
        pid: std::process::id(),
        runtime,
        agent: &shape.to_string(),
        mode: &mode.to_string(),
    };
    let events = Events::open(environment, &head).unwrap_or_else(|problem| {
        log.line(Level::Warn, || problem);
        Events::default()
    });
    if let Some(path) = events.path() {
        log.line(Level::Info, || {
            format!("Methods with new bodies are logged in {}", path.display())
        });
    }
    events
}

/// Whether the process is instrumented.
fn decision(
    runtime: Runtime,
    configuration: &Configuration,
    environment: &Environment,
) -> Decision {
    let this = ThisProcess::read();
    let process = Process {
        runtime,
        path: &this.path,
        parent_path: &this.parent_path,
        command_line: &this.command_line,
    };
    let decision = decide(process, configuration, environment);
    let detaches = environment
        .get(DETACH_VARIABLE)
        .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"));
    if runtime == Runtime::Core
        && detaches
        && !configuration.agent_enabled
        && decision.reason != Reason::Forced
    {
        return Decision { instrument: false, reason: Reason::AgentDisabled };
    }
    decision
}

/// Whether the runtime is one that the agent works on: it has the interface that came with the
/// oldest one.
fn is_supported(info: &ProfilerInfo, runtime: Runtime) -> bool {
    info.version()
        >= match runtime {
            Runtime::Core => 11,
            Runtime::Framework => 7,
        }
}

/// The shape of the managed agent, and what its file shows, if that was read.
fn shape(environment: &Environment, agent: &Path, log: &Log) -> (AgentShape, Option<Shim>) {
    let choice = environment.get(SHAPE_VARIABLE).map_or(Ok(ShapeChoice::Auto), |text| text.parse());
    match choice {
        Ok(ShapeChoice::Fixed(shape)) => return (shape, None),
        Ok(ShapeChoice::Auto) => {}
        Err(error) => log.line(Level::Warn, || format!("{SHAPE_VARIABLE}: {error}")),
    }
    let found = read(agent, AGENT_LIMIT).map_err(|error| error.to_string());
    let found = found.and_then(|bytes| of_file(&bytes).map_err(|error| error.to_string()));
    match found {
        Ok(shim) => (shim.shape, Some(shim)),
        Err(problem) => {
            let shape = AgentShape::V10_53;
            log.line(Level::Warn, || {
                format!("{}: {problem}. Shape {shape} is assumed.", agent.display())
            });
            (shape, None)
        }
    }
}

/// Reads the configuration.
///
/// # Errors
/// It is missing or cannot be read.
pub fn configuration(environment: &Environment, home: &Path) -> Result<Configuration, String> {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("."));
    let paths = ConfigurationPaths::of(home, &program, environment.platform());
    let files = ConfigurationFiles::read(&paths);
    let global = paths.global.display();
    let bytes = files
        .bytes()
        .map_err(|error| format!("Unable to read the configuration {global}: {error}"))?;
    let mut configuration = Configuration::read(bytes, environment)
        .map_err(|error| format!("Unable to use {global}: {error}"))?;
    configuration.messages.splice(0..0, files.messages.iter().cloned());
    Ok(configuration)
}

/// The settings of the log, and whether its level was raised.
pub fn log_settings(environment: &Environment, configuration: &Configuration) -> (Settings, bool) {
    configuration.log.effective(
        environment.azure_function_runtime().is_some(),
        environment.azure_log_level_override(),
    )
}

fn open_log(
    environment: &Environment,
    home: Option<&str>,
    configuration: Option<&Configuration>,
) -> Log {
    let (settings, raised) = configuration.map_or((Settings::default(), false), |configuration| {
        log_settings(environment, configuration)
    });
    let folder = directory(environment, home);
    let (sink, problem) = Sink::open(settings, Path::new(&folder), std::process::id());
    let is_console = matches!(sink, Sink::Console(_));
    let log = Log::new(settings.level, sink);
    // Without a log there is no place to report it; the program runs on.
    drop(problem);
    log.line(Level::Info, || texts::LOGGER_INITIALIZED);
    if is_console {
        log.line(Level::Info, || texts::CONSOLE_ENABLED);
    }
    if raised {
        log.line(Level::Warn, || "The log level is limited to \"info\" here.");
    }
    log
}
