//! Compiles sample programs with Mono's `mcs` against the reference assemblies of a runtime.
//!
//! `mcs` writes debug information in a form of its own; a small program (`tools/PortablePdb.cs`)
//! makes a portable PDB out of it, as an SDK would have. The result goes into the cache under a
//! hash of everything that it depends on, so that a program is compiled once.

use crate::cache::{Cache, source_root};
use crate::runtime::{Host, Runtime};
use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Raised when what the compiler is given changes in a way that the sources do not show.
const RECIPE: u32 = 2;

/// The program that makes portable PDBs.
const PORTABLE_PDB: &str = include_str!("../tools/PortablePdb.cs");

/// Why a program could not be compiled.
#[derive(Debug)]
pub enum CompileError {
    /// There is no C# compiler on this machine.
    NoCompiler,
    /// A part of Mono that makes portable PDBs is missing.
    NoPart {
        /// What was looked for.
        part: PathBuf,
    },
    /// A file could not be read or written.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The compiler refused the source.
    Refused {
        /// The program's name.
        program: String,
        /// What the compiler said.
        messages: String,
    },
    /// The debug information of a program could not be turned into a portable PDB.
    NoPdb {
        /// The program's name.
        program: String,
        /// What the tool said.
        messages: String,
    },
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CompileError::NoCompiler => f.write_str(
                "the C# compiler `mcs` is not on PATH: run `cargo xtask setup` (Debian's package \
                    is mono-mcs)",
            ),
            CompileError::NoPart { part } => write!(
                f,
                "{} is missing: run `cargo xtask setup` (Debian's packages are mono-mcs and \
                    libmono-cecil-private-cil)",
                part.display()
            ),
            CompileError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            CompileError::Refused { program, messages } => write!(
                f,
                "mcs refused {program}:\n\
                {messages}"
            ),
            CompileError::NoPdb { program, messages } => {
                write!(f, "no portable PDB for {program}:\n{messages}")
            }
        }
    }
}

impl std::error::Error for CompileError {}

/// What a program needs beside its source and the framework.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extras<'a> {
    /// Assemblies that it refers to.
    pub libraries: &'a [&'a Path],
    /// Symbols that are defined for its conditional parts.
    pub symbols: &'a [&'a str],
}

/// Mono's C# compiler.
#[derive(Clone, Debug)]
pub struct Compiler {
    mcs: PathBuf,
    /// The compiler as an assembly: it holds the reader of its own debug information.
    assembly: PathBuf,
    /// The library that writes portable PDBs.
    cecil: PathBuf,
}

impl Compiler {
    /// The compiler on `PATH`, or the one that `CLRSCOPE_MCS` names, with the parts of Mono beside
    /// it.
    ///
    /// # Errors
    /// [`CompileError::NoCompiler`] and [`CompileError::NoPart`].
    pub fn find() -> Result<Compiler, CompileError> {
        let named = env::var_os("CLRSCOPE_MCS").map(PathBuf::from);
        let on_path = || {
            env::split_paths(&env::var_os("PATH")?)
                .map(|folder| folder.join("mcs"))
                .find(|file| file.is_file())
        };
        let mcs =
            named.filter(|file| file.is_file()).or_else(on_path).ok_or(CompileError::NoCompiler)?;
        let mono =
            mcs.parent().and_then(Path::parent).unwrap_or(Path::new("/usr")).join("lib/mono");
        let assembly = mono.join("4.5/mcs.exe");
        if !assembly.is_file() {
            return Err(CompileError::NoPart { part: assembly });
        }
        // Versions before 0.10 cannot write portable PDBs; the newest one is wanted.
        let versions = mono.join("gac/Mono.Cecil");
        let cecil = fs::read_dir(&versions)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|folder| {
                folder.file_name().is_some_and(|name| !name.to_string_lossy().starts_with("0.9."))
            })
            .map(|folder| folder.join("Mono.Cecil.dll"))
            .filter(|file| file.is_file())
            .max()
            .ok_or(CompileError::NoPart { part: versions.join("*/Mono.Cecil.dll") })?;
        Ok(Compiler { mcs, assembly, cecil })
    }

    /// The compiler's file.
    pub fn path(&self) -> &Path {
        &self.mcs
    }

    /// Compiles one C# file into `<cache>/samples/<name>-<hash>/<name>.dll`, with `<name>.pdb`
    /// (portable) and `<name>.runtimeconfig.json` beside it, and gives the assembly's path. A
    /// program that is already there is not compiled again.
    ///
    /// `runtime` decides the reference assemblies: those of 3.1 serve every supported runtime, 2.1
    /// needs its own.
    ///
    /// # Errors
    /// When a file cannot be read or written, or the compiler refuses the source.
    pub fn compile(
        &self,
        name: &str,
        source: &Path,
        runtime: Runtime,
        library: bool,
    ) -> Result<PathBuf, CompileError> {
        self.compile_with(name, source, runtime, library, Extras::default())
    }

    /// As [`Compiler::compile`], with what the program needs beside the framework. Libraries are
    /// copied beside the assembly.
    ///
    /// # Errors
    /// As [`Compiler::compile`].
    pub fn compile_with(
        &self,
        name: &str,
        source: &Path,
        runtime: Runtime,
        library: bool,
        extras: Extras<'_>,
    ) -> Result<PathBuf, CompileError> {
        let references = if runtime == Runtime::V2_1 { Runtime::V2_1 } else { Runtime::V3_1 };
        let text = read(source)?;
        let mut hasher = DefaultHasher::new();
        (RECIPE, PORTABLE_PDB, name, &text, source, references, library).hash(&mut hasher);
        if extras != Extras::default() {
            extras.hash(&mut hasher);
        }
        let folder = Cache::of_user().samples().join(format!("{name}-{:016x}", hasher.finish()));
        let file = format!("{name}.dll");
        in_place(&folder, &file, |temporary| {
            let plain = temporary.join("plain");
            fs::create_dir(&plain)
                .map_err(|source| CompileError::Io { path: plain.clone(), source })?;
            let plain = plain.join(&file);
            self.compile_plain(name, source, references, library, extras, &plain)?;
            for library in extras.libraries {
                let copy = temporary.join(library.file_name().unwrap_or_default());
                fs::copy(library, &copy)
                    .map_err(|source| CompileError::Io { path: copy, source })?;
            }
            self.make_pdb(name, &plain, &temporary.join(&file))?;
            let config = temporary.join(format!("{name}.runtimeconfig.json"));
            fs::write(&config, runtime_config(references))
                .map_err(|source| CompileError::Io { path: config, source })
        })
    }

    fn compile_plain(
        &self,
        name: &str,
        source: &Path,
        references: Runtime,
        library: bool,
        extras: Extras<'_>,
        out: &Path,
    ) -> Result<(), CompileError> {
        let Host::Muxer { framework, .. } = references.require().host() else {
            unreachable!("reference assemblies come from a multi-file runtime")
        };
        let mut command = Command::new(&self.mcs);
        command.args([
            "-langversion:latest",
            "-optimize+",
            "-debug+",
            "-unsafe+",
            "-nostdlib",
            "-noconfig",
            "-nologo",
        ]);
        command.arg(if library { "-target:library" } else { "-target:exe" });
        let framework = managed_assemblies(&framework)?;
        for reference in
            framework.iter().map(PathBuf::as_path).chain(extras.libraries.iter().copied())
        {
            command.arg(format!("-r:{}", reference.display()));
        }
        command.args(extras.symbols.iter().map(|symbol| format!("-define:{symbol}")));
        command.arg(format!("-out:{}", out.display())).arg(source);
        said(&mut command)?
            .map_err(|messages| CompileError::Refused { program: name.into(), messages })
    }

    /// Rewrites an assembly so that it names a portable PDB, which is put beside it.
    fn make_pdb(&self, name: &str, plain: &Path, out: &Path) -> Result<(), CompileError> {
        let mut hasher = DefaultHasher::new();
        (RECIPE, PORTABLE_PDB, &self.assembly, &self.cecil).hash(&mut hasher);
        let folder =
            Cache::of_user().samples().join(format!("portablepdb-{:016x}", hasher.finish()));
        let tool = in_place(&folder, "PortablePdb.exe", |temporary| {
            let source = temporary.join("PortablePdb.cs");
            fs::write(&source, PORTABLE_PDB)
                .map_err(|error| CompileError::Io { path: source.clone(), source: error })?;
            let mut command = Command::new(&self.mcs);
            command.args(["-nologo", "-optimize+", "-r:System.Core.dll"]);
            command
                .arg(format!("-r:{}", self.cecil.display()))
                .arg(format!("-r:{}", self.assembly.display()));
            command
                .arg(format!("-out:{}", temporary.join("PortablePdb.exe").display()))
                .arg(&source);
            said(&mut command)?.map_err(|messages| CompileError::Refused {
                program: "PortablePdb".into(),
                messages,
            })
        })?;
        let mut command = Command::new(self.mcs.with_file_name("mono"));
        command.env("MONO_PATH", self.assembly.parent().unwrap_or(Path::new("/")));
        let mut debug = plain.as_os_str().to_owned();
        debug.push(".mdb");
        command.arg(tool).arg(plain).arg(debug).arg(out);
        said(&mut command)?
            .map_err(|messages| CompileError::NoPdb { program: name.into(), messages })
    }
}

/// Makes a folder in one step: fills a temporary one and renames it. Gives the named file in it;
/// when that is there already nothing is done.
fn in_place(
    folder: &Path,
    file: &str,
    fill: impl FnOnce(&Path) -> Result<(), CompileError>,
) -> Result<PathBuf, CompileError> {
    let wanted = folder.join(file);
    if wanted.is_file() {
        return Ok(wanted);
    }
    let parent = folder.parent().unwrap_or(folder);
    let problem = |source| CompileError::Io { path: parent.to_path_buf(), source };
    fs::create_dir_all(parent).map_err(problem)?;
    let temporary =
        tempfile::Builder::new().prefix(".compiling-").tempdir_in(parent).map_err(problem)?;
    let filled = temporary.path().join("filled");
    fs::create_dir(&filled).map_err(problem)?;
    fill(&filled)?;
    // Another process may have been quicker: then its folder stays and ours goes.
    if fs::rename(&filled, folder).is_err() && !wanted.is_file() {
        let source = io::Error::other("cannot be put in place");
        return Err(CompileError::Io { path: folder.to_path_buf(), source });
    }
    Ok(wanted)
}

/// Runs a command; what it said is the inner error when it failed.
fn said(command: &mut Command) -> Result<Result<(), String>, CompileError> {
    let program = PathBuf::from(command.get_program());
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| CompileError::Io { path: program, source })?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    let mut messages = String::from_utf8_lossy(&output.stdout).into_owned();
    messages.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(Err(messages))
}

/// The framework's own assemblies; native libraries start with `lib` and do not end in `.dll` on
/// Linux.
fn managed_assemblies(framework: &Path) -> Result<Vec<PathBuf>, CompileError> {
    let problem = |source| CompileError::Io { path: framework.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(framework).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ours = name.starts_with("System.") || name.starts_with("Microsoft.Win32.");
        // The projections of WinRT need an assembly that exists only on Windows.
        if name.ends_with(".dll") && ours && !name.contains("WindowsRuntime") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Any newer runtime will do, so that one assembly serves them all. 2.1 knows no `rollForward`.
fn runtime_config(references: Runtime) -> String {
    let (version, roll) =
        if references == Runtime::V2_1 { ("2.1.0", "Minor") } else { ("3.1.0", "LatestMajor") };
    let config = serde_json::json!({
        "runtimeOptions": {
            "framework": { "name": "Microsoft.NETCore.App", "version": version },
            "rollForward": roll,
            "configProperties": { "System.Globalization.Invariant": true },
        },
    });
    format!("{config:#}\n")
}

fn read(path: &Path) -> Result<String, CompileError> {
    fs::read_to_string(path).map_err(|source| CompileError::Io { path: path.to_path_buf(), source })
}

/// The source file of a sample: `samples/<name>/<name>.cs`, with the folder in snake case and the
/// file as C# spells it.
pub(crate) fn source_of(name: &str) -> Result<PathBuf, CompileError> {
    let folder = source_root().join("samples").join(name);
    let problem = |source| CompileError::Io { path: folder.clone(), source };
    for entry in fs::read_dir(&folder).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.extension().is_some_and(|extension| extension == "cs") {
            return Ok(path);
        }
    }
    Err(problem(io::Error::new(io::ErrorKind::NotFound, "holds no C# file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_compiled_once_and_a_wrong_one_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("P.cs");
        let compiler = Compiler::find().unwrap();
        fs::write(&source, "static class P { static int Main() { return 7; } }").unwrap();
        let first = compiler.compile("probe", &source, Runtime::V3_1, false).unwrap();
        let second = compiler.compile("probe", &source, Runtime::V9, false).unwrap();
        assert_eq!(first, second);
        fs::write(&source, "static class P { static int Main() { return nothing; } }").unwrap();
        match compiler.compile("probe", &source, Runtime::V3_1, false) {
            Err(CompileError::Refused { messages, .. }) => {
                assert!(messages.contains("nothing"), "{messages}")
            }
            other => panic!("{other:?}"),
        }
        fs::remove_dir_all(first.parent().unwrap()).unwrap();
    }

    /// The runtime itself reads the portable PDB when it prints the stack of an exception that
    /// nobody caught.
    #[test]
    fn the_runtime_finds_lines_in_the_pdb() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("Thrower.cs");
        let program =
            "static class P {\n static int Main() {\n  throw new System.Exception(\"x\");\n }\n}\n";
        fs::write(&source, program).unwrap();
        let assembly =
            Compiler::find().unwrap().compile("pdbprobe", &source, Runtime::V3_1, false).unwrap();
        for runtime in [Runtime::V3_1, Runtime::V9] {
            let mut process = crate::Launch::new(runtime.executable()).arg(&assembly).start();
            process.wait(std::time::Duration::from_secs(60)).unwrap();
            assert!(
                process.transcript().contains("Thrower.cs:line 3"),
                "{runtime}: {}",
                process.transcript()
            );
        }
        fs::remove_dir_all(assembly.parent().unwrap()).unwrap();
    }
}
