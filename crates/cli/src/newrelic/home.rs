//! The agent's home folder: managed agent, configuration, instrumentation files.

use super::{
    location::Location,
    process::{Target, UNKNOWN},
    runtime::Profiling,
};
use newrelic_compat::{
    Runtime,
    configuration::{Configuration, Files, IgnoreList},
    environment::{Environment, MODE_VARIABLE, SHAPE_VARIABLE},
    files::{AGENT_LIMIT, ConfigurationPaths, TEXT_LIMIT, agent_candidates, extension_folders},
    log::{Level, Message, Settings, directory, file_name},
    points::{Points, is_deprecated, is_extension, lambda_point, load},
    shape::{AgentShape, ShapeChoice, of_file},
    strategy::CallingStrategy,
    xml,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// Most entries of a folder with instrumentation files.
const MOST_ENTRIES: usize = 10_000;
/// Most bytes of all instrumentation files together.
const MOST_BYTES: usize = 64 << 20;

/// How a home folder came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HomeSource {
    /// It was named on the command line.
    Argument,
    /// The environment of the process names it.
    Process,
    /// The environment of clrscope names it.
    Clrscope,
}

/// The home folder.
#[derive(Debug)]
pub struct Home<'a> {
    /// As it was written.
    pub path: String,
    /// Who wrote it.
    pub source: HomeSource,
    /// Whose files it is among.
    pub place: &'a Location,
}

/// The managed agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Agent {
    /// Its path; `None` where it was not found.
    pub path: Option<String>,
    /// Everywhere it was searched for, up to where it was found.
    #[serde(rename = "searched")]
    pub looked_at: Vec<String>,
    /// What injected code has to expect of it.
    pub shape: String,
    /// Where that is from: `file`, `variable` or `assumed`.
    pub shape_source: &'static str,
    /// Why it shows no shape, or why the variable names none.
    pub problem: Option<String>,
    /// Whether the process has it mapped, which is so once the first instrumented method was
    /// called.
    pub mapped: Option<bool>,
    /// How far the library of this project may differ from the agent's own: `strict`, `default` or
    /// `fast`.
    pub mode: &'static str,
    /// How methods come to the agent in mode `strict`, and with the agent's own library.
    pub strategy: String,
    /// Whether they come to it by a delegate of their module in place of that.
    pub direct: bool,
}

/// How the managed agent is found and called.
pub fn agent(
    home: &Home<'_>,
    environment: &Environment,
    place: &Location,
    target: Option<&Target>,
) -> (Agent, AgentShape) {
    let install = environment.install_path();
    let candidates = agent_candidates(install.as_deref(), None, Runtime::Core)
        .into_iter()
        .map(|path| (path, place));
    let candidates = candidates.chain(
        agent_candidates(None, Some(&home.path), Runtime::Core)
            .into_iter()
            .map(|path| (path, home.place)),
    );
    let mut looked_at = Vec::new();
    let mut found = None;
    for (path, place) in candidates {
        let path = place.absolute(&path);
        looked_at.push(path.display().to_string());
        if place.is_file(&path) {
            found = Some((path, place));
            break;
        }
    }
    let choice = environment.get(SHAPE_VARIABLE).map_or(Ok(ShapeChoice::Auto), |text| text.parse());
    let mut problem = choice.as_ref().err().map(|error| format!("{SHAPE_VARIABLE}: {error}"));
    let of_the_file = || {
        let (path, place) = found.as_ref()?;
        let bytes = place.read(path, AGENT_LIMIT).map_err(|error| error.to_string());
        Some(bytes.and_then(|bytes| {
            of_file(&bytes).map(|shim| shim.shape).map_err(|error| error.to_string())
        }))
    };
    let (shape, shape_source) = match choice {
        Ok(ShapeChoice::Fixed(shape)) => (shape, "variable"),
        _ => match of_the_file() {
            Some(Ok(shape)) => (shape, "file"),
            Some(Err(unreadable)) => {
                problem = Some(format!("{unreadable}; install the agent again"));
                (AgentShape::V10_53, "assumed")
            }
            None => (AgentShape::V10_53, "assumed"),
        },
    };
    let disabled = environment.caching_disabled().is_some_and(|(_, disabled)| disabled);
    let mode = mode(environment);
    let agent = Agent {
        mapped: found.as_ref().and(target).map(is_mapped),
        path: found.map(|(path, _)| path.display().to_string()),
        looked_at,
        shape: shape.to_string(),
        shape_source,
        problem,
        mode,
        strategy: CallingStrategy::configured(shape, Runtime::Core, disabled).to_string(),
        direct: mode != "strict" && !disabled,
    };
    (agent, shape)
}

fn is_mapped(target: &Target) -> bool {
    target.mapped_named(|name| name == newrelic_compat::shape::AGENT_FILE).is_some()
}

/// The mode that the environment names; what names none is the default.
fn mode(environment: &Environment) -> &'static str {
    let text = environment.get(MODE_VARIABLE).unwrap_or_default();
    ["strict", "fast"]
        .into_iter()
        .find(|mode| mode.eq_ignore_ascii_case(&text))
        .unwrap_or("default")
}

/// A configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConfigurationFile {
    /// `global`, `local` or `application`.
    pub kind: &'static str,
    /// Its path.
    pub path: String,
    /// `read`, `missing` or `unreadable`.
    pub state: &'static str,
    /// Why it is unreadable.
    pub problem: Option<String>,
}

/// Where the profiler's log is, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Log {
    /// Whether there is one.
    pub enabled: bool,
    /// Whether it goes to standard output in place of a file.
    pub console: bool,
    /// The least important lines that are in it.
    pub level: &'static str,
    /// Its folder.
    pub folder: String,
    /// The file of the process; `None` without a process.
    pub file: Option<String>,
}

/// A class, or a whole assembly, that is not instrumented.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ignored {
    /// Simple name of the assembly.
    pub assembly: String,
    /// Full name of the class; `None` for all of them.
    pub class: Option<String>,
}

/// What the configuration says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConfigurationReport {
    /// The files, in the order in which they are read.
    pub files: Vec<ConfigurationFile>,
    /// Why no process is instrumented with this configuration.
    pub problem: Option<String>,
    /// What the files say about the agent.
    pub agent_enabled: bool,
    /// Names of processes to instrument.
    pub included: Vec<String>,
    /// Names of processes not to instrument.
    pub excluded: Vec<String>,
    /// Classes not to instrument.
    pub ignored: Vec<Ignored>,
    /// The log.
    pub log: Log,
    /// What is wrong in the files.
    pub messages: Vec<String>,
}

/// Reads the configuration. Only a process has a local and an application configuration.
pub fn configuration(
    home: &Home<'_>,
    environment: &Environment,
    target: Option<&Target>,
) -> (ConfigurationReport, Option<Configuration>) {
    let program = target.map_or(UNKNOWN, |target| &target.executable);
    let paths =
        ConfigurationPaths::of(Path::new(&home.path), Path::new(program), environment.platform());
    let mut files = Vec::new();
    let mut read = |kind, path: &Path, place: &Location| {
        let path = normal(&place.absolute(path));
        let bytes = place.read(&path, TEXT_LIMIT);
        let (state, problem) = match &bytes {
            Ok(_) => ("read", None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => ("missing", None),
            Err(error) => ("unreadable", Some(error.to_string())),
        };
        files.push(ConfigurationFile { kind, path: path.display().to_string(), state, problem });
        bytes
    };
    let global = read("global", &paths.global, home.place);
    let local = target.and_then(|target| read("local", &paths.local, &target.place).ok());
    let application =
        target.and_then(|target| read("application", &paths.application, &target.place).ok());
    let path = files.first().map(|file| file.path.clone()).unwrap_or_default();
    let configuration = match &global {
        Ok(global) => {
            let files =
                Files { global, local: local.as_deref(), application: application.as_deref() };
            Configuration::read(files, environment)
                .map_err(|error| format!("Unable to use {path}: {error}"))
        }
        Err(error) => Err(format!("Unable to read the configuration {path}: {error}")),
    };
    let problem = configuration.as_ref().err().cloned();
    let configuration = configuration.ok();
    let known = configuration.as_ref();
    let ignored = known.iter().flat_map(|known| known.ignored.rules());
    let report = ConfigurationReport {
        files,
        problem,
        agent_enabled: known.is_none_or(|known| known.agent_enabled),
        included: known.map(|known| known.included.clone()).unwrap_or_default(),
        excluded: known.map(|known| known.excluded.clone()).unwrap_or_default(),
        ignored: ignored
            .map(|(assembly, class)| Ignored {
                assembly: assembly.to_owned(),
                class: class.map(str::to_owned),
            })
            .collect(),
        log: log(home, environment, known, target),
        messages: known.map(|known| texts(&known.messages)).unwrap_or_default(),
    };
    (report, configuration)
}

/// A path without `.` in it.
fn normal(path: &Path) -> PathBuf {
    path.components().collect()
}

fn log(
    home: &Home<'_>,
    environment: &Environment,
    configuration: Option<&Configuration>,
    target: Option<&Target>,
) -> Log {
    let settings = configuration.map_or_else(Settings::default, |configuration| configuration.log);
    let (settings, _) = settings.effective(
        environment.azure_function_runtime().is_some(),
        environment.azure_log_level_override(),
    );
    Log {
        enabled: settings.enabled,
        console: settings.console,
        level: level(settings.level),
        folder: directory(environment, Some(&home.path)),
        file: target.map(|target| file_name(target.ns_pid)),
    }
}

const fn level(level: Level) -> &'static str {
    match level {
        Level::Trace => "finest",
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    }
}

/// Texts of what is wrong; lesser lines are left out.
fn texts(messages: &[Message]) -> Vec<String> {
    let wrong = messages.iter().filter(|message| message.level >= Level::Warn);
    wrong.map(|message| message.text.clone()).collect()
}

/// An instrumentation file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PointsFile {
    /// Its path.
    pub path: String,
    /// Points that it has.
    pub points: usize,
    /// `read`, `deprecated`, `invalid` or `unreadable`.
    pub state: &'static str,
    /// What is wrong in it, as the log says it.
    pub messages: Vec<String>,
}

/// Points for the methods of an assembly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AssemblyPoints {
    /// Simple name of the assembly.
    pub name: String,
    /// How many there are.
    pub points: usize,
}

/// The instrumentation points of a home folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PointsReport {
    /// How many there are.
    pub total: usize,
    /// By assembly, in the order of their names.
    pub assemblies: Vec<AssemblyPoints>,
    /// The files, in the order in which they are read.
    pub files: Vec<PointsFile>,
    /// Files that are no instrumentation; a refresh fails while there are some.
    pub invalid_files: usize,
    /// The handler of an AWS Lambda function that the environment names.
    pub lambda: Option<String>,
    /// Folders that cannot be read, and files that are left out.
    pub problems: Vec<String>,
}

/// Reads the instrumentation files.
pub fn points(
    home: &Home<'_>,
    environment: &Environment,
    ignored: &IgnoreList,
    shape: AgentShape,
) -> (PointsReport, Points) {
    let ExtensionTexts { texts_by_path, mut files, problems, unreadable } =
        ExtensionTexts::read(home, environment);
    let mut loaded = load(&texts_by_path, ignored, shape);
    loaded.points.add_lambda(environment);
    for (path, text) in texts_by_path {
        files.push(file_by_itself(path, text, ignored, shape));
    }
    order::sort_by(&mut files, |one, other| one.path.cmp(&other.path));
    let mut assemblies: BTreeMap<&str, usize> = BTreeMap::new();
    for point in loaded.points.iter() {
        *assemblies.entry(&point.assembly).or_default() += 1;
    }
    let assemblies = assemblies
        .into_iter()
        .map(|(name, points)| AssemblyPoints { name: name.to_owned(), points });
    let report = PointsReport {
        total: loaded.points.len(),
        assemblies: assemblies.collect(),
        files,
        invalid_files: loaded.invalid_files + unreadable,
        lambda: lambda_point(environment)
            .map(|point| format!("{}::{}::{}", point.assembly, point.class, point.method)),
        problems,
    };
    (report, loaded.points)
}

/// What a file has by itself, so that it is known what comes from which.
fn file_by_itself(
    path: String,
    text: String,
    ignored: &IgnoreList,
    shape: AgentShape,
) -> PointsFile {
    let alone = load(&BTreeMap::from([(path.clone(), text)]), ignored, shape);
    let state = match alone.invalid_files {
        _ if is_deprecated(&path) => "deprecated",
        0 => "read",
        _ => "invalid",
    };
    // The last one of an invalid file is a count, of this file alone.
    let mut messages = texts(&alone.messages);
    messages.truncate(messages.len() - usize::from(state == "invalid"));
    PointsFile { path, points: alone.points.len(), state, messages }
}

/// The texts of the instrumentation files.
struct ExtensionTexts {
    texts_by_path: BTreeMap<String, String>,
    /// Those that cannot be read.
    files: Vec<PointsFile>,
    problems: Vec<String>,
    /// How many files and folders cannot be read.
    unreadable: usize,
}

impl ExtensionTexts {
    fn read(home: &Home<'_>, environment: &Environment) -> Self {
        let mut found = Self {
            texts_by_path: BTreeMap::new(),
            files: Vec::new(),
            problems: Vec::new(),
            unreadable: 0,
        };
        let mut left = MOST_BYTES;
        for folder in extension_folders(Path::new(&home.path), Runtime::Core) {
            let folder = home.place.absolute(&folder);
            for path in found.paths(&folder, home.place, environment) {
                let shown = path.display().to_string();
                match text(home.place, &path) {
                    Ok(text) if text.len() <= left => {
                        left -= text.len();
                        found.texts_by_path.insert(shown, text);
                    }
                    Ok(_) => found.problems.push(format!(
                        "{shown} is left out: instrumentation files have more than {} MB together",
                        MOST_BYTES >> 20
                    )),
                    Err(error) => found.files.push(PointsFile {
                        path: shown,
                        points: 0,
                        state: "unreadable",
                        messages: vec![error],
                    }),
                }
            }
        }
        found.unreadable += found.files.len();
        found
    }

    /// The paths of the instrumentation files in a folder, in their order.
    fn paths(
        &mut self,
        folder: &Path,
        place: &Location,
        environment: &Environment,
    ) -> Vec<PathBuf> {
        let names = match place.entries(folder, MOST_ENTRIES) {
            Ok(names) => names,
            Err(error) => {
                self.problems.push(format!(
                    "Unable to read the extensions folder {}: {error}",
                    folder.display()
                ));
                // One that is there and cannot be read may hold what is instrumented now.
                self.unreadable += usize::from(error.kind() != io::ErrorKind::NotFound);
                return Vec::new();
            }
        };
        if names.len() == MOST_ENTRIES {
            self.problems.push(format!(
                "{} has more than {MOST_ENTRIES} entries; the others are left out",
                folder.display()
            ));
        }
        let mut names: Vec<_> = names
            .into_iter()
            .filter(|name| is_extension(&name.to_string_lossy(), environment.platform()))
            .collect();
        order::sort_by(&mut names, Ord::cmp);
        names.into_iter().map(|name| folder.join(name)).filter(|path| place.is_file(path)).collect()
    }
}

fn text(place: &Location, path: &Path) -> Result<String, String> {
    let bytes = place.read(path, TEXT_LIMIT).map_err(|error| error.to_string())?;
    xml::decode(&bytes).map(str::to_owned).map_err(|error| error.to_string())
}

/// Where the native library is: where the environment says, else in the home folder.
pub fn library_path(
    home: &Home<'_>,
    profiling: &Profiling,
    target: Option<&Target>,
) -> Option<String> {
    let in_home =
        || Path::new(&home.path).join("libNewRelicProfiler.so").to_string_lossy().into_owned();
    // A process without the variable loads none.
    profiling.path.clone().or_else(|| target.is_none().then(in_home))
}

#[cfg(test)]
mod tests {
    use super::*;
    use newrelic_compat::environment::Platform;
    use std::fs;

    fn home<'a>(path: &Path, place: &'a Location) -> Home<'a> {
        Home { path: path.display().to_string(), source: HomeSource::Argument, place }
    }

    fn of(pairs: &[(&str, &str)]) -> Environment {
        Environment::new(Platform::Unix, pairs.iter().copied())
    }

    #[test]
    fn an_agent_that_is_missing_or_no_agent() {
        let (folder, place) = (tempfile::tempdir().unwrap(), Location::own().unwrap());
        let home = home(folder.path(), &place);
        let (agent, shape) =
            agent(&home, &of(&[("NEW_RELIC_INSTALL_PATH", "/nowhere")]), &place, None);
        assert_eq!((agent.path, agent.shape_source, shape), (None, "assumed", AgentShape::V10_53));
        assert_eq!(agent.looked_at.len(), 4);
        assert!(agent.looked_at[0].starts_with("/nowhere"), "{:?}", agent.looked_at);
        fs::write(folder.path().join("NewRelic.Agent.Core.dll"), "MZ").unwrap();
        let (agent, _) = super::agent(&home, &of(&[]), &place, None);
        assert_eq!((agent.looked_at.len(), agent.shape_source), (1, "assumed"));
        assert!(agent.problem.unwrap().contains("not a .NET assembly"));
        let (agent, shape) = super::agent(&home, &of(&[(SHAPE_VARIABLE, "10.55")]), &place, None);
        assert_eq!(
            (agent.shape_source, shape, agent.problem),
            ("variable", AgentShape::V10_55, None)
        );
        let (agent, _) = super::agent(&home, &of(&[(SHAPE_VARIABLE, "9")]), &place, None);
        assert!(agent.problem.is_some());
    }

    #[test]
    fn modes() {
        let direct = |pairs: &[(&str, &str)]| {
            let (folder, place) = (tempfile::tempdir().unwrap(), Location::own().unwrap());
            let (agent, _) = agent(&home(folder.path(), &place), &of(pairs), &place, None);
            (agent.mode, agent.direct)
        };
        assert_eq!(direct(&[]), ("default", true));
        assert_eq!(direct(&[(MODE_VARIABLE, "Strict")]), ("strict", false));
        assert_eq!(direct(&[(MODE_VARIABLE, "quick")]), ("default", true));
        assert_eq!(
            direct(&[(MODE_VARIABLE, "fast"), ("NEW_RELIC_DISABLE_APPDOMAIN_CACHING", "1")]),
            ("fast", false)
        );
    }

    #[test]
    fn configuration_and_points_of_a_home() {
        let (folder, place) = (tempfile::tempdir().unwrap(), Location::own().unwrap());
        let home = home(folder.path(), &place);
        let (report, configuration) = configuration(&home, &of(&[]), None);
        assert!(configuration.is_none() && report.problem.unwrap().contains("newrelic.config"));
        assert_eq!((report.files.len(), report.files[0].state), (1, "missing"));
        let text = "<configuration agentEnabled='false'><log \
                    level='debug'/><instrumentation><applications>\
                    <application name='x' include='false'/></applications><rules>\
                    <ignore assemblyName='A' className='C'/><ignore assemblyName='B'/></rules>\
                    </instrumentation></configuration>";
        fs::write(folder.path().join("newrelic.config"), text).unwrap();
        let (report, configuration) = super::configuration(&home, &of(&[]), None);
        assert!(!report.agent_enabled && report.problem.is_none());
        assert_eq!((report.log.level, report.log.file), ("debug", None));
        assert_eq!((report.excluded, report.ignored.len()), (vec!["x".to_owned()], 2));

        let [common, own] = extension_folders(folder.path(), Runtime::Core);
        fs::create_dir_all(&own).unwrap();
        let point = |assembly: &str| {
            format!(
                "<extension><instrumentation><tracerFactory><match assemblyName='{assembly}' \
                 className='C'>\
                 <exactMethodMatcher \
                 methodName='M'/></match></tracerFactory></instrumentation></extension>"
            )
        };
        fs::write(common.join("good.xml"), point("App")).unwrap();
        fs::write(own.join("ignored.xml"), point("B")).unwrap();
        fs::write(common.join("invalid.xml"), "<extension").unwrap();
        fs::write(common.join("binary.xml"), [0xff]).unwrap();
        fs::write(
            common.join("NewRelic.Providers.Wrapper.Logging.Instrumentation.xml"),
            point("Old"),
        )
        .unwrap();
        fs::write(common.join("notes.txt"), "").unwrap();
        let ignored = configuration.unwrap().ignored;
        let (report, points) =
            points(&home, &of(&[("_HANDLER", "L::C::M")]), &ignored, AgentShape::V10_54);
        assert_eq!((report.total, points.len(), report.invalid_files), (2, 2, 2));
        let states: Vec<_> = report
            .files
            .iter()
            .map(|file| (file.state, file.points, file.messages.len()))
            .collect();
        let expected = [
            ("deprecated", 0, 1),
            ("unreadable", 0, 1),
            ("read", 1, 0),
            ("invalid", 0, 1),
            ("read", 0, 0),
        ];
        assert_eq!(states, expected);
        assert_eq!(report.lambda.as_deref(), Some("L::C::M"));
        let names: Vec<_> =
            report.assemblies.iter().map(|assembly| assembly.name.as_str()).collect();
        assert_eq!(names, ["App", "L"]);
    }
}
