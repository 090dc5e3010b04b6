//! Which launched processes are no programs of the user's own.
//!
//! `clrscope launch -- dotnet run` starts several .NET processes: the command host, build nodes, the compiler
//! server, and then the program. Only the program is wanted.

/// Why a process is not to be profiled, from its command line; `None` for one that is.
pub fn skipped(command_line: &[String]) -> Option<&'static str> {
    let (first, rest) = command_line.split_first()?;
    let host = file_name(first);
    if matches!(host, "MSBuild" | "VBCSCompiler" | "vstest.console" | "MSBuildTaskHost") {
        return Some("a build process");
    }
    if !matches!(host, "dotnet" | "dotnet.exe") {
        return None;
    }
    let mut arguments = rest.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            // Options of the host that are followed by a value.
            "--additionalprobingpath"
            | "--depsfile"
            | "--runtimeconfig"
            | "--fx-version"
            | "--roll-forward"
            | "--additional-deps"
            | "--roll-forward-on-no-candidate-fx" => {
                arguments.next();
            }
            "exec" => {}
            option if option.starts_with('-') => {}
            application if is_assembly(application) => {
                let name = file_name(application);
                let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
                let build = ["MSBuild", "VBCSCompiler", "csc", "vbc", "fsc", "vstest.console", "dotnet", "NuGet"];
                return build.contains(&name).then_some("a build process");
            }
            // Everything else is a command of the SDK: build, run, test, restore, publish, msbuild, vstest, tools.
            _ => return Some("a dotnet command"),
        }
    }
    // `dotnet --info` and the like.
    Some("a dotnet command")
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn is_assembly(argument: &str) -> bool {
    let end = argument.rsplit_once('.').map(|(_, end)| end);
    end.is_some_and(|end| end.eq_ignore_ascii_case("dll") || end.eq_ignore_ascii_case("exe"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skips(text: &str) -> bool {
        skipped(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).is_some()
    }

    #[test]
    fn programs_are_profiled() {
        for text in [
            "dotnet App.dll",
            "/usr/share/dotnet/dotnet /srv/app/Web.dll --urls http://*:80 build",
            "dotnet exec --runtimeconfig a.json --depsfile d.json App.dll test",
            "dotnet --roll-forward Major ./App.dll",
            "dotnet App.exe",
            "/srv/app/Web run",
            "./azmcp server start",
            "/opt/MSBuilder",
        ] {
            assert!(!skips(text), "{text}");
        }
    }

    #[test]
    fn hosts_and_build_nodes_are_not() {
        for text in [
            "dotnet build",
            "dotnet run --project x",
            "dotnet test Some.Tests",
            "dotnet test Tests.csproj",
            "dotnet restore",
            "dotnet publish -c Release",
            "dotnet msbuild /t:Build",
            "dotnet vstest a.dll",
            "dotnet --info",
            "dotnet",
            "/usr/bin/dotnet exec /usr/share/dotnet/sdk/9.0.100/Roslyn/bincore/VBCSCompiler.dll -pipename:x",
            "dotnet /usr/share/dotnet/sdk/9.0.100/MSBuild.dll /nologo /nodemode:1 /nodeReuse:true",
            "dotnet exec /sdk/vstest.console.dll a.dll",
            "dotnet /usr/share/dotnet/sdk/9.0.100/dotnet.dll run",
            "/sdk/MSBuild x",
        ] {
            assert!(skips(text), "{text}");
        }
    }

    #[test]
    fn nothing_is_not_skipped() {
        assert_eq!(skipped(&[]), None);
    }
}
