//! What a .NET process is to a launch, by its command line: a program, MSBuild, or another tool of
//! the SDK.
//!
//! `clrscope launch -- dotnet run` starts several .NET processes: the command line of the SDK,
//! build nodes, the compiler, and then the program. Only the program is wanted. The agent decides
//! inside which processes to leave alone, and clrscope decides outside which one the named file is
//! of, so both need the same answer.

use serde::{Deserialize, Serialize};

/// What a .NET process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A program of the user's own, or the host of its tests.
    Program,
    /// The command line of the SDK (`dotnet build`, `dotnet run`); whether its command is one that
    /// runs MSBuild, which it does in this process.
    CommandLine {
        /// Whether the command is a build.
        builds: bool,
    },
    /// MSBuild as a process of its own, and no node of another one.
    MsBuild,
    /// A build node, a compiler, a server or another tool of the SDK.
    Tool(&'static str),
}

/// Which tools of the SDK a launch records beside programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SdkTools {
    /// None of them.
    #[default]
    None,
    /// MSBuild, which runs in the process of the command line.
    Build,
    /// MSBuild, which the command line starts as a process of its own
    /// (`DOTNET_CLI_RUN_MSBUILD_OUTOFPROC`).
    SeparateBuild,
    /// All of them.
    All,
}

/// Commands of the SDK that are a build and nothing else.
const BUILDS: [&str; 6] = ["build", "msbuild", "publish", "pack", "restore", "clean"];

/// Options of the host that are followed by a value.
const HOST_OPTIONS: [&str; 7] = [
    "--additionalprobingpath",
    "--depsfile",
    "--runtimeconfig",
    "--fx-version",
    "--roll-forward",
    "--additional-deps",
    "--roll-forward-on-no-candidate-fx",
];

/// Tools that also come in packages, so that not all of them are in the folder of an SDK.
const TOOLS: [(&str, &[&str]); 5] = [
    ("a compiler", &["csc", "vbc", "fsc", "illink", "crossgen2", "ilc"]),
    ("a compiler server", &["VBCSCompiler", "rzc"]),
    ("a test runner", &["vstest.console", "datacollector"]),
    ("a build process", &["MSBuildTaskHost"]),
    (
        "a tool of the .NET SDK",
        &["NuGet", "NuGet.CommandLine.XPlat", "NuGet.Build.Tasks.Console", "dotnet-watch"],
    ),
];

impl Role {
    /// By the command line, the program first.
    pub fn of(command_line: &[impl AsRef<str>]) -> Self {
        let Some((first, rest)) = command_line.split_first() else { return Self::Program };
        if !matches!(file_name(first.as_ref()), "dotnet" | "dotnet.exe") {
            return Self::of_application(first.as_ref(), rest);
        }
        let mut at = 0;
        while let Some(argument) = rest.get(at).map(AsRef::as_ref) {
            at += 1;
            match argument {
                "exec" => {}
                option if HOST_OPTIONS.contains(&option) => at += 1,
                option if option.starts_with('-') => {}
                application if is_assembly(application) => {
                    return Self::of_application(application, rest.get(at..).unwrap_or_default());
                }
                // Everything else is a command of the SDK: build, run, test, tools.
                command => return Self::CommandLine { builds: BUILDS.contains(&command) },
            }
        }
        // `dotnet --info` and the like.
        Self::CommandLine { builds: false }
    }

    /// The role of an application, with or without a host of its own.
    fn of_application(path: &str, arguments: &[impl AsRef<str>]) -> Self {
        let name = file_name(path);
        let name = if is_assembly(name) {
            name.rsplit_once('.').map_or(name, |(stem, _)| stem)
        } else {
            name
        };
        // It runs the user's code, wherever it lies.
        if name == "testhost" || name.starts_with("testhost.") {
            return Self::Program;
        }
        let mut arguments = arguments.iter().map(AsRef::as_ref);
        if name == "MSBuild" {
            let is_node = arguments.any(|argument| {
                let option = argument.trim_start_matches(['/', '-']).to_ascii_lowercase();
                option.len() < argument.len()
                    && (option.starts_with("nodemode") || option.starts_with("nmode"))
            });
            return if is_node { Self::Tool("an MSBuild node") } else { Self::MsBuild };
        }
        if name == "dotnet" {
            let command = arguments.find(|argument| !argument.starts_with('-'));
            return Self::CommandLine {
                builds: command.is_some_and(|command| BUILDS.contains(&command)),
            };
        }
        match TOOLS.iter().find(|(_, names)| names.contains(&name)) {
            Some((what, _)) => Self::Tool(what),
            None if is_in_sdk(path) => Self::Tool("a tool of the .NET SDK"),
            None => Self::Program,
        }
    }

    /// What a process of this role is called where it is left alone.
    pub fn word(self) -> &'static str {
        match self {
            Self::Program => "a program",
            Self::CommandLine { .. } => "the dotnet command line",
            Self::MsBuild => "MSBuild",
            Self::Tool(what) => what,
        }
    }
}

impl SdkTools {
    /// What is recorded of a command where nothing more is asked for: MSBuild if the command itself
    /// is a build. `separate` is whether the command line is set to start MSBuild as a process of
    /// its own.
    pub fn of_command(command: &[impl AsRef<str>], separate: bool) -> Self {
        match Role::of(command) {
            Role::CommandLine { builds: true } if separate => Self::SeparateBuild,
            Role::CommandLine { builds: true } | Role::MsBuild => Self::Build,
            Role::CommandLine { builds: false } | Role::Program | Role::Tool(_) => Self::None,
        }
    }

    /// Whether a process of this role is recorded.
    pub fn records(self, role: Role) -> bool {
        role == Role::Program || self == Self::All || self.is_build(role)
    }

    /// Whether a process of this role is what the command is for, so that the named file is of the
    /// first one.
    pub fn is_main(self, role: Role) -> bool {
        match self {
            Self::None | Self::All => role == Role::Program,
            Self::Build | Self::SeparateBuild => self.is_build(role),
        }
    }

    fn is_build(self, role: Role) -> bool {
        match role {
            Role::MsBuild => matches!(self, Self::Build | Self::SeparateBuild),
            Role::CommandLine { builds } => builds && self == Self::Build,
            Role::Program | Role::Tool(_) => false,
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn is_assembly(argument: &str) -> bool {
    let end = argument.rsplit_once('.').map(|(_, end)| end);
    end.is_some_and(|end| end.eq_ignore_ascii_case("dll") || end.eq_ignore_ascii_case("exe"))
}

/// Whether a file lies in the folder of an SDK: `…/sdk/9.0.100/…`.
fn is_in_sdk(path: &str) -> bool {
    let parts: Vec<&str> = path.split(['/', '\\']).collect();
    parts.windows(3).any(|parts| matches!(parts, ["sdk", version, _] if is_sdk_version(version)))
}

/// Whether a name is a version of an SDK: three numbers, and what a preview adds behind them.
fn is_sdk_version(name: &str) -> bool {
    let release = name.split_once('-').map_or(name, |(release, _)| release);
    let numbers: Vec<&str> = release.split('.').collect();
    numbers.len() == 3
        && numbers
            .iter()
            .all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(text: &str) -> Role {
        Role::of(&text.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn programs_and_hosts_of_tests_are_programs() {
        for text in [
            "dotnet App.dll",
            "/usr/share/dotnet/dotnet /srv/app/Web.dll --urls http://*:80 build",
            "dotnet exec --runtimeconfig a.json --depsfile d.json App.dll test",
            "dotnet --roll-forward Major ./App.dll",
            "dotnet App.exe",
            "/srv/app/Web run",
            "./azmcp server start",
            "/opt/MSBuilder",
            "/home/me/src/sdk/App",
            "/home/me/sdk/v2/App",
            "dotnet /home/me/sdk/9.0/App.dll",
            "/usr/bin/dotnet exec --runtimeconfig /t/T.runtimeconfig.json --depsfile \
                /t/T.deps.json \
                /home/me/.nuget/packages/microsoft.testplatform.testhost/17.12.0/lib/net8.0/testhost.dll \
                --port 4",
            "dotnet exec /usr/share/dotnet/sdk/9.0.100/testhost.dll --port 4",
            "/t/bin/Debug/net9.0/testhost --port 4",
            "/t/bin/testhost.x86 --port 4",
            "",
        ] {
            assert_eq!(role(text), Role::Program, "{text}");
            for tools in [SdkTools::None, SdkTools::Build, SdkTools::SeparateBuild, SdkTools::All] {
                assert!(tools.records(role(text)), "{text}");
            }
        }
    }

    #[test]
    fn the_command_line_of_the_sdk_is_known_with_its_builds() {
        for (text, builds) in [
            ("dotnet build", true),
            ("dotnet -d build x.csproj", true),
            ("dotnet restore", true),
            ("dotnet publish -c Release", true),
            ("dotnet msbuild /t:Build", true),
            ("dotnet exec /usr/share/dotnet/sdk/9.0.100/dotnet.dll build", true),
            ("dotnet run --project x", false),
            ("dotnet run build", false),
            ("dotnet test Some.Tests", false),
            ("dotnet test Tests.csproj", false),
            ("dotnet vstest a.dll", false),
            ("dotnet watch run", false),
            ("dotnet app.cs", false),
            ("dotnet --info", false),
            ("dotnet", false),
            ("dotnet exec /usr/share/dotnet/sdk/9.0.100/dotnet.dll run", false),
        ] {
            assert_eq!(role(text), Role::CommandLine { builds }, "{text}");
            assert!(
                !SdkTools::None.records(role(text)) && SdkTools::All.records(role(text)),
                "{text}"
            );
        }
    }

    #[test]
    fn tools_of_the_sdk_are_recorded_only_with_all_others() {
        for text in [
            "/usr/bin/dotnet exec /usr/share/dotnet/sdk/9.0.100/Roslyn/bincore/VBCSCompiler.dll \
                -pipename:x",
            "/usr/bin/dotnet exec /usr/share/dotnet/sdk/9.0.100/Roslyn/bincore/csc.dll /noconfig \
                @/tmp/x.rsp",
            "/usr/share/dotnet/sdk/10.0.100/Roslyn/bincore/csc /noconfig @/tmp/x.rsp",
            "/usr/share/dotnet/sdk/10.0.100-rc.1.25451.107/Roslyn/bincore/VBCSCompiler -pipename:x",
            "dotnet \
                /home/me/.nuget/packages/microsoft.net.compilers.toolset/4.12.0/tasks/netcore/bincore/csc.dll \
                @x",
            "dotnet exec /usr/share/dotnet/sdk/9.0.100/FSharp/fsc.dll @x",
            "dotnet /usr/share/dotnet/sdk/9.0.100/MSBuild.dll /nologo /nodemode:1 /nodeReuse:true",
            "dotnet /usr/share/dotnet/sdk/9.0.100/MSBuild.dll -nodeMode:8",
            "/sdk/MSBuild /nmode:2",
            "dotnet exec /usr/share/dotnet/sdk/9.0.100/vstest.console.dll a.dll",
            "dotnet exec /sdk/vstest.console.dll a.dll",
            "/opt/vstest.console",
            "dotnet exec /usr/share/dotnet/sdk/9.0.100/datacollector.dll --port 4",
            "dotnet exec \
                /usr/share/dotnet/sdk/9.0.100/DotnetTools/dotnet-watch/9.0.100/tools/net9.0/any/dotnet-watch.dll \
                run",
            "dotnet /usr/share/dotnet/sdk/9.0.100/DotnetTools/dotnet-format/dotnet-format.dll",
            "dotnet /usr/share/dotnet/sdk/9.0.100/Sdks/Microsoft.NET.Sdk.Razor/tools/rzc.dll \
                server",
            "dotnet \
                /home/me/.nuget/packages/microsoft.net.illink.tasks/9.0.0/tools/net9.0/illink.dll \
                @x",
        ] {
            assert!(matches!(role(text), Role::Tool(_)), "{text}: {:?}", role(text));
            for tools in [SdkTools::None, SdkTools::Build, SdkTools::SeparateBuild] {
                assert!(!tools.records(role(text)) && !tools.is_main(role(text)), "{text}");
            }
            assert!(
                SdkTools::All.records(role(text)) && !SdkTools::All.is_main(role(text)),
                "{text}"
            );
        }
    }

    #[test]
    fn msbuild_is_recorded_where_the_command_is_a_build() {
        let of = |text: &str, separate| {
            SdkTools::of_command(&text.split_whitespace().collect::<Vec<_>>(), separate)
        };
        assert_eq!(
            (of("dotnet run", false), of("dotnet test", true)),
            (SdkTools::None, SdkTools::None)
        );
        assert_eq!(
            (of("sh -c dotnet", false), of("./App", false)),
            (SdkTools::None, SdkTools::None)
        );
        assert_eq!(
            (of("dotnet build", false), of("dotnet build", true)),
            (SdkTools::Build, SdkTools::SeparateBuild)
        );
        let (here, apart) = (
            role("dotnet build"),
            role("dotnet exec /d/sdk/9.0.100/MSBuild.dll -maxcpucount x.csproj"),
        );
        assert_eq!(apart, Role::MsBuild);
        // `dotnet build` in `dotnet run` or in a script is no program.
        assert!(!SdkTools::None.records(here) && !SdkTools::None.records(apart));
        assert!(
            SdkTools::Build.is_main(here)
                && SdkTools::Build.records(here)
                && SdkTools::Build.is_main(apart)
        );
        assert!(!SdkTools::SeparateBuild.records(here) && SdkTools::SeparateBuild.is_main(apart));
        // A program that a build starts is recorded, and the named file is of MSBuild.
        assert!(SdkTools::Build.records(Role::Program) && !SdkTools::Build.is_main(Role::Program));
        assert!(SdkTools::None.is_main(Role::Program) && SdkTools::All.is_main(Role::Program));
    }
}
