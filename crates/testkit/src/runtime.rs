//! The runtimes that tests run on.

use crate::cache::Cache;
use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A real CLR on this machine.
///
/// The first four supported versions are always there after `cargo xtask setup`. A `dotnet` on
/// `PATH` adds its newest runtime as [`Runtime::OnPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Runtime {
    /// .NET Core 2.1.30, multi-file. Below the support floor: only for tests of the refusal.
    V2_1,
    /// .NET Core 3.1.23, multi-file: the oldest supported runtime.
    V3_1,
    /// .NET 8.0.30 inside an untrimmed single-file application; programs of ours enter by the
    /// startup hook.
    V8,
    /// .NET 9.0.5 with ASP.NET Core, as a dotnet root.
    V9,
    /// .NET 10 inside a trimmed single-file application (`azmcp` 2.0.5). No program of ours can run
    /// on it.
    V10,
    /// The `azmcp` 0.5.0 application on its own copy of .NET 9.0.5 with ASP.NET Core.
    Azmcp9,
    /// The newest runtime of the `dotnet` on `PATH`.
    OnPath {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
        /// Patch level.
        patch: u16,
    },
}

/// How a program gets onto a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// `dotnet program.dll`: the multi-file host. The reference folder is the framework's own.
    Muxer {
        /// The `dotnet` executable.
        dotnet: PathBuf,
        /// `shared/Microsoft.NETCore.App/<version>`.
        framework: PathBuf,
    },
    /// A single-file application that runs our program out of `DOTNET_STARTUP_HOOKS`.
    StartupHook {
        /// The application.
        app: PathBuf,
    },
    /// An application that runs only itself.
    App {
        /// The application.
        app: PathBuf,
    },
}

impl Runtime {
    /// The runtimes that `cargo xtask setup` makes, oldest first.
    pub const FETCHED: [Runtime; 6] =
        [Runtime::V2_1, Runtime::V3_1, Runtime::V8, Runtime::V9, Runtime::V10, Runtime::Azmcp9];

    /// The framework version, such as `9.0.5`.
    pub fn version(self) -> String {
        match self {
            Runtime::V2_1 => "2.1.30".into(),
            Runtime::V3_1 => "3.1.23".into(),
            Runtime::V8 => "8.0.30".into(),
            Runtime::V9 | Runtime::Azmcp9 => "9.0.5".into(),
            Runtime::V10 => "10".into(),
            Runtime::OnPath { major, minor, patch } => format!("{major}.{minor}.{patch}"),
        }
    }

    /// The major version of the runtime.
    pub fn major(self) -> u16 {
        match self {
            Runtime::V2_1 => 2,
            Runtime::V3_1 => 3,
            Runtime::V8 => 8,
            Runtime::V9 | Runtime::Azmcp9 => 9,
            Runtime::V10 => 10,
            Runtime::OnPath { major, .. } => major,
        }
    }

    /// Whether clrscope promises to work on it (3.1 and newer).
    pub fn is_supported(self) -> bool {
        self != Runtime::V2_1
    }

    /// Whether programs under `samples/` can run on it.
    pub fn runs_samples(self) -> bool {
        !matches!(self, Runtime::V10 | Runtime::Azmcp9)
    }

    /// How a program gets onto this runtime. The files may be missing: see [`Runtime::missing`].
    pub fn host(self) -> Host {
        let cache = Cache::of_user();
        match self {
            Runtime::V2_1 | Runtime::V3_1 | Runtime::V9 => {
                let version = self.version();
                let root = cache.root(&version);
                Host::Muxer {
                    dotnet: root.join("dotnet"),
                    framework: root.join("shared/Microsoft.NETCore.App").join(version),
                }
            }
            Runtime::V8 => Host::StartupHook {
                app: cache.app("sarif-multitool-5.7.0").join("Sarif.Multitool"),
            },
            Runtime::V10 => Host::App { app: cache.app("azmcp-2.0.5").join("dist/azmcp") },
            Runtime::Azmcp9 => Host::App { app: cache.app("azmcp-0.5.0").join("dist/azmcp") },
            Runtime::OnPath { .. } => match on_path() {
                Some(found) => {
                    Host::Muxer { dotnet: found.dotnet.clone(), framework: found.framework.clone() }
                }
                None => panic!("{self} is no longer on PATH"),
            },
        }
    }

    /// The executable that starts a process on this runtime.
    pub fn executable(self) -> PathBuf {
        match self.host() {
            Host::Muxer { dotnet, .. } => dotnet,
            Host::StartupHook { app } | Host::App { app } => app,
        }
    }

    /// The first needed file that does not exist.
    pub fn missing(self) -> Option<PathBuf> {
        let needed = match self.host() {
            Host::Muxer { dotnet, framework } => {
                vec![
                    dotnet,
                    framework.join("System.Private.CoreLib.dll"),
                    framework.join(core_library()),
                ]
            }
            Host::StartupHook { app } | Host::App { app } => vec![app],
        };
        needed.into_iter().find(|file| !file.is_file())
    }

    /// The same runtime, checked to be there.
    ///
    /// # Panics
    /// When it is not, with the command that fetches it.
    #[track_caller]
    pub fn require(self) -> Runtime {
        if let Some(file) = self.missing() {
            panic!(
                "{self} is not on this machine ({} is missing): run `cargo xtask setup`",
                file.display()
            );
        }
        self
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Runtime::V2_1 | Runtime::V3_1 => write!(f, ".NET Core {}", self.version()),
            Runtime::V8 | Runtime::V9 => write!(f, ".NET {}", self.version()),
            Runtime::V10 => f.write_str(".NET 10 (azmcp 2.0.5)"),
            Runtime::Azmcp9 => f.write_str(".NET 9.0.5 (azmcp 0.5.0)"),
            Runtime::OnPath { .. } => write!(f, ".NET {} (on PATH)", self.version()),
        }
    }
}

/// The file name of the runtime's main library on this platform.
fn core_library() -> &'static str {
    if cfg!(windows) {
        "coreclr.dll"
    } else if cfg!(target_os = "macos") {
        "libcoreclr.dylib"
    } else {
        "libcoreclr.so"
    }
}

/// The supported runtimes: 3.1, 8, 9, 10, and the one on `PATH` if there is one of a supported
/// version.
///
/// # Panics
/// When one of the fetched ones is missing, with the command that fetches it.
#[track_caller]
pub fn runtimes() -> Vec<Runtime> {
    let mut all = vec![
        Runtime::V3_1.require(),
        Runtime::V8.require(),
        Runtime::V9.require(),
        Runtime::V10.require(),
    ];
    all.extend(on_path().map(|found| found.runtime).filter(|runtime| runtime.major() >= 3));
    all
}

/// Those of [`runtimes`] on which programs under `samples/` run: 3.1, 8, 9 and the one on `PATH`.
///
/// # Panics
/// As [`runtimes`].
#[track_caller]
pub fn sample_runtimes() -> Vec<Runtime> {
    runtimes().into_iter().filter(|runtime| runtime.runs_samples()).collect()
}

/// Does something with each of [`sample_runtimes`] at the same time, for what waits for most of its
/// time. Gives what came out, in their order.
///
/// # Panics
/// As [`runtimes`], and as what is done does.
#[track_caller]
pub fn on_sample_runtimes_at_once<T: Send>(act: impl Fn(Runtime) -> T + Sync) -> Vec<T> {
    let runtimes = sample_runtimes();
    std::thread::scope(|scope| {
        let act = &act;
        let acts: Vec<_> =
            runtimes.into_iter().map(|runtime| scope.spawn(move || act(runtime))).collect();
        acts.into_iter()
            .map(|act| act.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

struct FoundOnPath {
    runtime: Runtime,
    dotnet: PathBuf,
    framework: PathBuf,
}

/// The newest `Microsoft.NETCore.App` of the `dotnet` on `PATH`, asked for once per process.
fn on_path() -> Option<&'static FoundOnPath> {
    static FOUND: OnceLock<Option<FoundOnPath>> = OnceLock::new();
    FOUND.get_or_init(find_on_path).as_ref()
}

fn find_on_path() -> Option<FoundOnPath> {
    let name = format!("dotnet{}", env::consts::EXE_SUFFIX);
    let paths = env::var_os("PATH")?;
    let dotnet =
        env::split_paths(&paths).map(|folder| folder.join(&name)).find(|file| file.is_file())?;
    let output = Command::new(&dotnet)
        .arg("--list-runtimes")
        .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let (version, framework) = newest_framework(&listed)?;
    let (major, minor, patch) = version;
    Some(FoundOnPath { runtime: Runtime::OnPath { major, minor, patch }, dotnet, framework })
}

/// Reads the output of `dotnet --list-runtimes`, lines such as `Microsoft.NETCore.App 9.0.5
/// [/usr/share/…]`. Preview versions (`10.0.0-rc.1`) are left out: they cannot be told apart by
/// three numbers.
fn newest_framework(listed: &str) -> Option<((u16, u16, u16), PathBuf)> {
    let mut found = BTreeSet::new();
    for line in listed.lines() {
        let Some(rest) = line.strip_prefix("Microsoft.NETCore.App ") else { continue };
        let Some((version, folder)) = rest.split_once(" [") else { continue };
        let folder = folder.trim_end().trim_end_matches(']');
        let mut parts = version.splitn(3, '.').map(|part| part.parse::<u16>().ok());
        if let (Some(Some(major)), Some(Some(minor)), Some(Some(patch))) =
            (parts.next(), parts.next(), parts.next())
        {
            found.insert(((major, minor, patch), Path::new(folder).join(version)));
        }
    }
    found.pop_last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_framework_is_by_number_not_by_text() {
        let listed = "Microsoft.AspNetCore.App 10.0.1 [/d/shared/Microsoft.AspNetCore.App]\n\
                      Microsoft.NETCore.App 9.0.5 [/d/shared/Microsoft.NETCore.App]\n\
                      Microsoft.NETCore.App 10.0.1 [/d/shared/Microsoft.NETCore.App]\n\
                      Microsoft.NETCore.App 11.0.0-preview.1 [/d/shared/Microsoft.NETCore.App]\n";
        let (version, folder) = newest_framework(listed).unwrap();
        assert_eq!(version, (10, 0, 1));
        assert_eq!(folder, Path::new("/d/shared/Microsoft.NETCore.App/10.0.1"));
        assert_eq!(newest_framework("nothing"), None);
    }

    #[test]
    fn four_supported_majors_are_there() {
        let majors: Vec<u16> = runtimes().iter().map(|runtime| runtime.major()).collect();
        assert_eq!(&majors[..4], [3, 8, 9, 10]);
        for runtime in runtimes() {
            assert!(runtime.is_supported());
            assert_eq!(runtime.missing(), None, "{runtime}");
        }
    }

    #[test]
    fn versions_agree_with_majors() {
        for runtime in Runtime::FETCHED {
            assert!(runtime.version().starts_with(&runtime.major().to_string()), "{runtime}");
        }
    }
}
