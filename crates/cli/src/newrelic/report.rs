//! Everything that is found out, in the form of the JSON.

use super::{
    assembly::AssemblyReport,
    environment::{Variable, for_framework_only, variables},
    home::{self, Agent, ConfigurationReport, Home, HomeSource, PointsReport},
    library::{Library, Machine},
    location::Location,
    modules::{Modules, Question},
    process::{self, Target},
    runtime::{Profiling, path_variables},
    verdict::{self, DecisionReport, Facts, Verdict},
};
use crate::exit::{Code, failure};
use anyhow::Context as _;
use diagnostics::Hosting;
use newrelic_compat::{
    Runtime,
    configuration::IgnoreList,
    environment::{Environment, Platform},
    shape::AgentShape,
    strategy::CallingStrategy,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Version of the form of the JSON.
const SCHEMA: u32 = 1;

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'s> {
    /// The home folder alone.
    Home,
    /// A process, by its id or name.
    Process(&'s str),
    /// An assembly or a single-file application.
    Assembly(&'s Path),
}

/// What a New Relic agent does, or would do, in a process or with an assembly.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    schema: u32,
    /// Whether the process is instrumented; `null` without a process.
    pub verdict: Option<Verdict>,
    /// The process that was asked about.
    pub process: Option<ProcessReport>,
    /// The home folder.
    pub home: HomeReport,
    /// The managed agent.
    pub agent: Agent,
    /// The native library.
    pub library: Library,
    /// The runtime's own variables; `null` without a process.
    pub profiling: Option<Profiling>,
    /// What the configuration says.
    pub configuration: ConfigurationReport,
    /// Whether `agentEnabled` counts: on .NET it does not, unless a variable says so.
    pub agent_enabled_counts: bool,
    /// What is decided about the process by its name, command line and environment; `null` without
    /// a process or a usable configuration.
    pub decision: Option<DecisionReport>,
    /// The instrumentation points.
    pub points: PointsReport,
    /// The assemblies that were looked at, as far as points or attributes are about them; `null` if
    /// none was asked about.
    pub modules: Option<ModulesReport>,
    /// The environment variables that count.
    pub variables: Vec<Variable>,
    /// What else users should know.
    pub notes: Vec<String>,
}

/// A process.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProcessReport {
    /// Its id.
    pub pid: u32,
    /// Its short name.
    pub name: String,
    /// Version of its runtime.
    pub runtime: Option<String>,
    /// `library`, `single-file` or `native-aot`.
    pub hosting: Option<&'static str>,
    /// Its executable, as it sees it.
    pub executable: String,
}

/// The home folder.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HomeReport {
    /// As it was written.
    pub path: String,
    /// Who wrote it.
    pub source: HomeSource,
}

/// Assemblies.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesReport {
    /// How many there are, with those that nothing is about.
    pub seen: usize,
    /// Whether they are inside of a single-file application.
    pub single_file: bool,
    /// Those with points, or with methods that ask for instrumentation by attributes.
    pub assemblies: Vec<AssemblyReport>,
    /// Assemblies of the process that points name and it has not loaded, or not yet; for a process
    /// only.
    pub not_loaded: Option<usize>,
    /// Why not everything was looked at.
    pub problems: Vec<String>,
}

impl Report {
    /// Finds everything out.
    ///
    /// # Errors
    /// No home folder is known or readable, the process cannot be looked into, or the assembly
    /// cannot be read.
    pub fn make(named: Option<&Path>, subject: Subject<'_>) -> anyhow::Result<Self> {
        let own = Location::own().context("cannot open the root directory")?;
        let target = match subject {
            Subject::Process(target) => Some(process::find(target)?),
            Subject::Home | Subject::Assembly(_) => None,
        };
        let target = target.as_ref();
        let environment = match target {
            Some(target) => Environment::new(Platform::CURRENT, target.environment.iter().cloned()),
            None => Environment::of_process(),
        };
        let machine = target.and_then(process_machine).unwrap_or(Machine::OWN);
        let profiling = Profiling::of(&environment, machine, target.and_then(Target::major));
        let home = find_home(named, &environment, target, &own, &profiling)?;
        let place = target.map_or(&own, |target| &target.place);

        let (agent, shape) = home::agent(&home, &environment, place, target);
        let library_path = home::library_path(&home, &profiling, target);
        let library_place = if profiling.path.is_some() { place } else { home.place };
        let library =
            Library::read(profiling.variable, library_path.as_deref(), library_place, target);
        let (configuration, read) = home::configuration(&home, &environment, target);
        let ignored = read.as_ref().map_or_else(IgnoreList::default, |read| read.ignored.clone());
        let (points_report, points) = home::points(&home, &environment, &ignored, shape);
        let decision = target.zip(read.as_ref()).map(|(target, read)| {
            verdict::decision(target, read, &environment, library.is_clrscope)
        });
        let question = Question {
            points: &points,
            shape,
            agent: agent.path.as_deref().unwrap_or_default(),
            is_strict: agent.mode == "strict" || library.is_clrscope == Some(false),
            direct: agent.direct && library.is_clrscope != Some(false),
            strategy: strategy(shape, &environment),
        };
        let modules = match (subject, target) {
            (Subject::Assembly(path), _) => Some(Modules::of_file(path, &own, question)?),
            (_, Some(target)) => Some(Modules::of_process(target, question)),
            _ => None,
        };
        let verdict = target.map(|target| {
            verdict::verdict(&Facts {
                target,
                environment: &environment,
                home_source: home.source,
                profiling: &profiling,
                library: &library,
                configuration: &configuration,
                agent: &agent,
                decision: decision.as_ref(),
                trimmed: modules.as_ref().and_then(|modules| modules.trimmed.as_deref()),
            })
        });
        let notes = notes(&home, &environment, &library, modules.as_ref(), verdict.as_ref());
        Ok(Self {
            schema: SCHEMA,
            process: target.map(ProcessReport::of),
            home: HomeReport { path: home.path.clone(), source: home.source },
            agent_enabled_counts: verdict::detaches_if_disabled(&environment)
                && library.is_clrscope != Some(false),
            modules: modules
                .map(|modules| ModulesReport::of(modules, &points_report, target.is_some())),
            variables: variables(&environment, path_variables(machine)),
            profiling: target.map(|_| profiling),
            verdict,
            agent,
            library,
            configuration,
            decision,
            points: points_report,
            notes,
        })
    }
}

impl ProcessReport {
    fn of(target: &Target) -> Self {
        Self {
            pid: target.pid,
            name: target.name.clone(),
            runtime: target.runtime.clone(),
            hosting: target.hosting.map(|hosting| match hosting {
                Hosting::Library => "library",
                Hosting::SingleFile => "single-file",
                Hosting::NativeAot => "native-aot",
            }),
            executable: target.executable.clone(),
        }
    }
}

impl ModulesReport {
    fn of(modules: Modules, points: &PointsReport, is_process: bool) -> Self {
        let is_there = |name: &str| modules.assemblies.iter().any(|assembly| assembly.name == name);
        let not_loaded = points.assemblies.iter().filter(|points| !is_there(&points.name)).count();
        Self {
            seen: modules.seen,
            single_file: modules.is_bundle,
            // What is inside of an executable may be loaded or not.
            not_loaded: (is_process && !modules.is_bundle).then_some(not_loaded),
            assemblies: modules.assemblies,
            problems: modules.problems,
        }
    }
}

/// What else users should know.
fn notes(
    home: &Home<'_>,
    environment: &Environment,
    library: &Library,
    modules: Option<&Modules>,
    verdict: Option<&Verdict>,
) -> Vec<String> {
    let mut notes = for_framework_only(environment);
    notes.extend(home_note(home, environment));
    let trimmed = modules.and_then(|modules| modules.trimmed.as_deref());
    // Only the library of this project looks, and only with a process there is a verdict.
    let is_told = verdict.is_some() && library.is_clrscope != Some(false);
    notes.extend(trimmed.filter(|_| !is_told).map(str::to_owned));
    notes.extend(verdict.and_then(|verdict| surprise(verdict, library, trimmed)));
    notes
}

/// The strategy that the environment asks for.
fn strategy(shape: AgentShape, environment: &Environment) -> CallingStrategy {
    let disabled = environment.caching_disabled().is_some_and(|(_, disabled)| disabled);
    CallingStrategy::configured(shape, Runtime::Core, disabled)
}

/// The processor that a process's program is for.
fn process_machine(target: &Target) -> Option<Machine> {
    Machine::of_program(target.executable_file.as_ref()?)
}

/// The home folder: the one that was named, or that of the environment.
fn find_home<'p>(
    named: Option<&Path>,
    environment: &Environment,
    target: Option<&'p Target>,
    own: &'p Location,
    profiling: &Profiling,
) -> anyhow::Result<Home<'p>> {
    let ours = |path: String, source| {
        own.entries(Path::new(&path), 1).map_err(|error| {
            let step = "name the folder with newrelic.config and NewRelic.Agent.Core.dll";
            failure(Code::File, format!("cannot read the home folder {path}: {error}; {step}"))
        })?;
        Ok(Home { path: own.absolute(Path::new(&path)).display().to_string(), source, place: own })
    };
    if let Some(named) = named {
        return ours(named.to_string_lossy().into_owned(), HomeSource::Argument);
    }
    if let Some(target) = target
        && let Some(path) = environment.home(Runtime::Core)
    {
        let path = target.place.absolute(Path::new(&path)).display().to_string();
        return Ok(Home { path, source: HomeSource::Process, place: &target.place });
    }
    if let Some(path) = Environment::of_process().home(Runtime::Core) {
        return ours(path, HomeSource::Clrscope);
    }
    let text = match target {
        Some(target) => {
            let missing = match profiling.missing.as_slice() {
                [] => String::new(),
                missing => format!(" It also lacks {}.", missing.join(", ")),
            };
            format!(
                "process {} ({}) has no CORECLR_NEW_RELIC_HOME in its environment, so no agent \
                 starts in it.{missing} Set it where the process is started, or name the agent's \
                 home folder: clrscope newrelic check HOME --pid {}",
                target.pid, target.name, target.pid
            )
        }
        None => {
            "the agent's home folder is not known: name it (clrscope newrelic check HOME), set \
                 CORECLR_NEW_RELIC_HOME, or name a process that has it in its environment (--pid \
                 PID)"
                .to_owned()
        }
    };
    Err(failure(Code::Usage, text))
}

/// What is said where the process has another home folder than the one that was looked at.
fn home_note(home: &Home<'_>, environment: &Environment) -> Option<String> {
    let of_process =
        environment.home(Runtime::Core).filter(|_| home.source == HomeSource::Argument)?;
    let is_same = home.place.absolute(Path::new(&of_process)) == Path::new(&home.path);
    (!is_same).then(|| format!("the environment names another home folder: {of_process}"))
}

/// What is said where a process has loaded what it would not, or the other way round. In a trimmed
/// program the library is loaded and leaves everything alone.
fn surprise(verdict: &Verdict, library: &Library, trimmed: Option<&str>) -> Option<String> {
    if verdict.reasons.iter().map(String::as_str).eq(trimmed) {
        return None;
    }
    match (verdict.instrumented, library.mapped?) {
        (true, false) => Some(
            "the native library is not loaded in the process: files may have changed since it was \
             started, or it cannot load the library for another reason (permissions, SELinux); \
             restart it, and look for the log"
                .to_owned(),
        ),
        (false, true) => Some(
            "the native library is loaded in the process all the same: files have changed since it \
                was started"
                .to_owned(),
        ),
        _ => None,
    }
}
