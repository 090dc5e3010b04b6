//! The programs under `samples/`: each knows the truth about itself.

use crate::compile::{CompileError, Compiler, source_of};
use crate::process::{Launch, TargetProcess};
use crate::runtime::{Host, Runtime};
use crate::source_root;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The library that runs a sample inside of a single-file application.
const HOOK: &str = "startuphook";

/// Separates the arguments that the startup hook passes on (the ASCII unit separator).
const SEPARATOR: &str = "\u{1f}";

impl Launch {
    /// A program that [`Compiler`] made, with these arguments on a runtime.
    ///
    /// # Panics
    /// When the runtime is missing or cannot run programs of ours.
    #[track_caller]
    pub fn assembly<A: Into<OsString> + Clone>(
        assembly: &Path,
        runtime: Runtime,
        arguments: &[A],
    ) -> Launch {
        let arguments: Vec<OsString> = arguments.iter().cloned().map(A::into).collect();
        match runtime.require().host() {
            Host::Muxer { dotnet, .. } => Launch::new(dotnet).arg(assembly).args(arguments),
            Host::StartupHook { app } => {
                let hook = match Sample::named(HOOK).compile(Runtime::V3_1) {
                    Ok(hook) => hook,
                    Err(error) => panic!("{error}"),
                };
                Launch::new(app)
                    .env("DOTNET_STARTUP_HOOKS", hook)
                    .env("CLRSCOPE_SAMPLE", assembly)
                    .env("CLRSCOPE_SAMPLE_ARGUMENTS", arguments.join(SEPARATOR.as_ref()))
            }
            Host::App { .. } => {
                panic!("no program of ours runs on {runtime}: use TargetProcess::azmcp")
            }
        }
    }
}

/// One program under `samples/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    name: String,
}

impl Sample {
    /// The sample in the folder of that name. Whether it exists shows when it is compiled.
    pub fn named(name: &str) -> Sample {
        Sample { name: name.into() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles it for a runtime, unless that has been done, and gives the assembly.
    ///
    /// # Errors
    /// When the compiler is missing or refuses it.
    pub fn compile(&self, runtime: Runtime) -> Result<PathBuf, CompileError> {
        let compiler = Compiler::find()?;
        if runtime == Runtime::V8 {
            compiler.compile(HOOK, &source_of(HOOK)?, Runtime::V3_1, true)?;
        }
        compiler.compile(&self.name, &source_of(&self.name)?, runtime, self.name == HOOK)
    }

    /// The program with these arguments on a runtime, ready to be adapted and started.
    ///
    /// # Panics
    /// When the runtime is missing or cannot run samples, or the sample does not compile.
    #[track_caller]
    pub fn launch<A: Into<OsString> + Clone>(&self, runtime: Runtime, arguments: &[A]) -> Launch {
        let assembly = match self.compile(runtime) {
            Ok(assembly) => assembly,
            Err(error) => panic!("{error}"),
        };
        Launch::assembly(&assembly, runtime, arguments)
    }

    /// Starts the program on a runtime.
    ///
    /// # Panics
    /// As [`Sample::launch`], and when it cannot be started.
    #[track_caller]
    pub fn start<A: Into<OsString> + Clone>(
        &self,
        runtime: Runtime,
        arguments: &[A],
    ) -> TargetProcess {
        self.launch(runtime, arguments).start()
    }
}

/// Every program under `samples/`, by name.
///
/// # Panics
/// When the folder cannot be read.
pub fn samples() -> Vec<Sample> {
    let folder = source_root().join("samples");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => panic!("cannot read {}: {error}", folder.display()),
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != HOOK)
        .collect();
    names.sort();
    names.iter().map(|name| Sample::named(name)).collect()
}
