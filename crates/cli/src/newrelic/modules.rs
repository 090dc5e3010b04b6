//! The assemblies that are looked at: a file, those that a process has loaded, or those inside of a
//! single-file application.

use super::{
    assembly::{AssemblyReport, examine, may_matter},
    location::Location,
    process::Target,
};
use crate::exit::{Code, failure};
use anyhow::Context as _;
use diagnostics::Hosting;
use metadata::{Bundle, Metadata};
use newrelic_compat::{
    points::Points,
    rewrite::{
        CORE_LIBRARY, LONG_DELEGATES, Scopes, Settings, external_types, helpers::HELPER_TYPE,
    },
    shape::AgentShape,
    strategy::CallingStrategy,
};
use std::{
    collections::HashSet,
    fs::File,
    io::{Read as _, Seek as _},
    path::Path,
};

/// Largest assembly that is read.
const LARGEST: u64 = 256 << 20;
/// Largest single-file application that is opened; only parts of it are read.
const LARGEST_BUNDLE: u64 = 2 << 30;
/// Most bytes of all assemblies of a process together.
const MOST_BYTES: u64 = 2 << 30;

/// What was looked at.
#[derive(Debug, Default)]
pub struct Modules {
    /// Assemblies that have points, or methods with attributes.
    pub assemblies: Vec<AssemblyReport>,
    /// How many assemblies were found at all.
    pub seen: usize,
    /// Whether they are inside of a single-file application, so that nobody sees from outside which
    /// of them are loaded.
    pub is_bundle: bool,
    /// Why not all of them were looked at.
    pub problems: Vec<String>,
    /// Why no method is instrumented, told from the core library; `None` if it was not found, or
    /// has all that is needed.
    pub trimmed: Option<String>,
}

/// What is asked about assemblies.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The points.
    pub points: &'q Points,
    /// The shape of the managed agent.
    pub shape: AgentShape,
    /// Path of the managed agent.
    pub agent: &'q str,
    /// Whether bodies are as the agent's own profiler makes them.
    pub is_strict: bool,
    /// Whether methods come to the agent by a delegate of their module.
    pub direct: bool,
    /// How methods come to the agent in mode `strict`.
    pub strategy: CallingStrategy,
}

impl Modules {
    /// The assembly in a file, or those of a single-file application.
    ///
    /// # Errors
    /// The file cannot be read, or is neither.
    pub fn of_file(path: &Path, place: &Location, question: Question<'_>) -> anyhow::Result<Self> {
        let shown = || format!("cannot read {}", path.display());
        let mut file = place.open(path, LARGEST_BUNDLE).with_context(shown)?;
        let mut modules = Self::default();
        let mut magic = Vec::new();
        (&file).take(2).read_to_end(&mut magic).with_context(shown)?;
        let mut problem = metadata::Error::NotPe;
        if magic == b"MZ" {
            let bytes = place.read(path, LARGEST).with_context(shown)?;
            match examine(
                path.display().to_string(),
                &bytes,
                question.points,
                question.shape,
                question.agent,
            ) {
                Ok(report) => {
                    modules.assemblies.push(report);
                    modules.seen = 1;
                    return Ok(modules);
                }
                Err(error) => problem = error,
            }
        }
        let may_be_bundle = matches!(problem, metadata::Error::NotPe | metadata::Error::Native);
        if may_be_bundle && modules.bundle(&mut file, question).with_context(shown)? {
            return Ok(modules);
        }
        let step = match may_be_bundle {
            true => "name the .dll of the program, or a single-file application",
            false => "build it again",
        };
        Err(failure(Code::File, format!("{}: {problem}; {step}", path.display())))
    }

    /// The assemblies that a process has loaded.
    pub fn of_process(target: &Target, question: Question<'_>) -> Self {
        let mut modules = Self::default();
        if target.hosting == Some(Hosting::SingleFile)
            && let Some(file) = &target.executable_file
        {
            match file.try_clone().and_then(|mut file| modules.bundle(&mut file, question)) {
                Ok(_) => {}
                Err(error) => {
                    modules.problems.push(format!("the executable cannot be read: {error}"))
                }
            }
        }
        let mut left = MOST_BYTES;
        for mapped in &target.mapped {
            let name = mapped.name();
            let Some(simple) = simple_name(&name) else { continue };
            modules.seen += 1;
            let is_core = simple == CORE_LIBRARY;
            if !is_core && !may_matter(simple, question.points) {
                continue;
            }
            let shown = mapped.path.display().to_string();
            let points = question.points.iter().filter(|point| point.assembly == simple).count();
            let unreadable = |text: String| {
                AssemblyReport::unreadable(shown.clone(), simple.to_owned(), points, text)
            };
            let read = match mapped.deleted {
                true => {
                    Err("its file was replaced since the process loaded it: restart the process"
                        .to_owned())
                }
                false => {
                    target.place.read(&mapped.path, LARGEST).map_err(|error| error.to_string())
                }
            };
            let bytes = match read {
                Ok(bytes) => bytes,
                Err(problem) => {
                    modules.assemblies.push(unreadable(problem));
                    continue;
                }
            };
            let Some(rest) = left.checked_sub(bytes.len() as u64) else {
                modules.too_much();
                break;
            };
            left = rest;
            if is_core {
                let facade = mapped.path.with_file_name("System.Core.dll");
                let is_old =
                    target.major().is_some_and(|major| major < 5) && target.place.is_file(&facade);
                modules.core_library(&bytes, is_old, question);
            }
            if may_matter(simple, question.points) {
                let found =
                    examine(shown.clone(), &bytes, question.points, question.shape, question.agent);
                let found = found.unwrap_or_else(|error| unreadable(error.to_string()));
                modules.assemblies.extend(Some(found).filter(AssemblyReport::matters));
            }
        }
        order::sort_by(&mut modules.assemblies, |one, other| {
            (&one.name, &one.path).cmp(&(&other.name, &other.path))
        });
        modules
    }

    /// The assemblies inside of a single-file application; whether it is one.
    fn bundle(&mut self, file: &mut File, question: Question<'_>) -> std::io::Result<bool> {
        file.rewind()?;
        let Some(mut bundle) = Bundle::open(file)? else { return Ok(false) };
        self.is_bundle = true;
        let paths: Vec<String> = bundle.files().iter().map(|file| file.path.clone()).collect();
        let mut left = MOST_BYTES;
        for path in paths {
            let Some(simple) = simple_name(path.rsplit('/').next().unwrap_or(&path)) else {
                continue;
            };
            self.seen += 1;
            let is_core = simple == CORE_LIBRARY;
            if !is_core && !may_matter(simple, question.points) {
                continue;
            }
            let bytes = match bundle.read(&path) {
                Ok(bytes) => bytes.unwrap_or_default(),
                Err(error) => {
                    self.problems.push(format!("{path} in the executable cannot be read: {error}"));
                    continue;
                }
            };
            let Some(rest) = left.checked_sub(bytes.len() as u64) else {
                self.too_much();
                break;
            };
            left = rest;
            if is_core {
                self.core_library(&bytes, false, question);
            }
            if may_matter(simple, question.points)
                && let Ok(found) =
                    examine(path.clone(), &bytes, question.points, question.shape, question.agent)
                && found.matters()
            {
                self.assemblies.push(found);
            }
        }
        Ok(true)
    }

    fn too_much(&mut self) {
        self.problems.push(format!(
            "the assemblies have more than {} GB together; the others are left out",
            MOST_BYTES >> 30
        ));
    }

    /// Looks whether the core library has all that new bodies name, as the profiler does before it
    /// makes the first one. `is_old` says whether long delegates are in another library, which is
    /// there: so it is on .NET Core 3.1.
    fn core_library(&mut self, bytes: &[u8], is_old: bool, question: Question<'_>) {
        use metadata::{column, table};
        let Ok(metadata) = Metadata::of_file(bytes) else { return };
        let name = |row, column| metadata.name(table::TYPE_DEF, row, column).unwrap_or_default();
        let types: HashSet<String> = (1..=metadata.rows(table::TYPE_DEF))
            .map(|row| {
                format!("{}.{}", name(row, column::TYPE_SPACE), name(row, column::TYPE_NAME))
            })
            .collect();
        let has_long_delegates = LONG_DELEGATES.iter().all(|name| types.contains(*name));
        // A newer runtime without them is a trimmed one.
        let direct = question.direct && (has_long_delegates || is_old);
        let (strategy, scopes) = match question.is_strict {
            true => (question.strategy, Scopes::Facades),
            false => (CallingStrategy::Reflection, Scopes::CoreLibrary { has_long_delegates }),
        };
        let settings = Settings {
            runtime: newrelic_compat::Runtime::Core,
            shape: question.shape,
            start_method: None,
            strategy,
            agent_path: question.agent,
            scopes,
        };
        let is_elsewhere =
            |library: &str, name: &str| library != CORE_LIBRARY && LONG_DELEGATES.contains(&name);
        let needed = external_types(&settings, direct)
            .into_iter()
            .filter(|(library, name)| !is_elsewhere(library, name));
        let missing =
            needed.map(|(_, name)| name).chain([HELPER_TYPE]).find(|name| !types.contains(*name));
        self.trimmed = missing.map(|name| {
            format!(
                "the program is trimmed: its core library lacks {name}, which instrumented methods \
                 need; publish it without trimming (PublishTrimmed=false)"
            )
        });
    }
}

/// The simple name of the assembly in a file of this name, if it may be one.
fn simple_name(file: &str) -> Option<&str> {
    let dot = file.len().checked_sub(4)?;
    let (name, end) = (file.get(..dot)?, file.get(dot..)?);
    (end.eq_ignore_ascii_case(".dll") && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        assert_eq!(simple_name("My.App.dll"), Some("My.App"));
        assert_eq!(simple_name("App.DLL"), Some("App"));
        for other in [".dll", "libcoreclr.so", "App.dll.config", "", "é"] {
            assert_eq!(simple_name(other), None, "{other}");
        }
    }
}
