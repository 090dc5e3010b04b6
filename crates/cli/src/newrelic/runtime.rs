//! What a .NET runtime wants before it loads a profiler.
//!
//! Source of all rules: `ProfilingAPIUtility::AttemptLoadProfilerForStartup`
//! (src/coreclr/vm/profilinghelper.cpp).

use super::library::Machine;
use newrelic_compat::environment::Environment;
use schemars::JsonSchema;
use serde::Serialize;

/// The class id of the agent's own profiler. The library of this project takes every class id.
pub const CLASS_ID: &str = "{36032161-FFC0-4B61-B559-F6C5D41BAE5A}";

/// The runtime's switches for profilers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Profiling {
    /// Variables that have to be set and are not, or say no.
    pub missing: Vec<&'static str>,
    /// What keeps the runtime from loading a profiler, with the next step.
    pub problems: Vec<String>,
    /// The variable that names the library.
    #[serde(skip)]
    pub variable: Option<&'static str>,
    /// What it says.
    #[serde(skip)]
    pub path: Option<String>,
}

/// The variables that name the library, the most important one first.
pub const fn path_variables(machine: Machine) -> &'static [&'static str] {
    match machine {
        Machine::Arm64 => {
            &["CORECLR_PROFILER_PATH_ARM64", "CORECLR_PROFILER_PATH_64", "CORECLR_PROFILER_PATH"]
        }
        Machine::Arm => {
            &["CORECLR_PROFILER_PATH_ARM32", "CORECLR_PROFILER_PATH_32", "CORECLR_PROFILER_PATH"]
        }
        Machine::X86 => &["CORECLR_PROFILER_PATH_32", "CORECLR_PROFILER_PATH"],
        Machine::X64 | Machine::Other(_) => &["CORECLR_PROFILER_PATH_64", "CORECLR_PROFILER_PATH"],
    }
}

impl Profiling {
    /// The switches in an environment. `major` is that of the runtime, if it is known.
    pub fn of(environment: &Environment, machine: Machine, major: Option<u32>) -> Self {
        // The runtime takes an empty variable for one that is not set.
        let value = |name: &str| environment.get(name).filter(|value| !value.is_empty());
        let (mut missing, mut problems) = (Vec::new(), Vec::new());
        match value("CORECLR_ENABLE_PROFILING") {
            Some(enabled) if number(&enabled) != 0 => {}
            other => {
                missing.push("CORECLR_ENABLE_PROFILING");
                let state = other
                    .map_or_else(|| "is not set".to_owned(), |value| format!("is \"{value}\""));
                problems.push(format!(
                    "CORECLR_ENABLE_PROFILING {state}: set it to 1 where the process is started"
                ));
            }
        }
        match value("CORECLR_PROFILER") {
            Some(class) if is_class_id(&class) => {}
            Some(class) => problems.push(format!(
                "CORECLR_PROFILER is \"{class}\", no class id: set it to {CLASS_ID}"
            )),
            None => {
                missing.push("CORECLR_PROFILER");
                problems.push(format!(
                    "CORECLR_PROFILER is not set: set it to {CLASS_ID} where the process is started"
                ));
            }
        }
        let named = path_variables(machine).iter().find_map(|&name| Some((name, value(name)?)));
        if named.is_none() {
            missing.push("CORECLR_PROFILER_PATH");
            let step = "set it to the path of libNewRelicProfiler.so where the process is started";
            problems.push(format!("CORECLR_PROFILER_PATH is not set: {step}"));
        }
        for name in ["DOTNET_EnableDiagnostics", "COMPlus_EnableDiagnostics"] {
            problems.extend(switched_off(environment, name));
        }
        // .NET 8 was the first to know these.
        if major.is_none_or(|major| major >= 8) {
            for name in ["DOTNET_EnableDiagnostics_Profiler", "COMPlus_EnableDiagnostics_Profiler"]
            {
                problems.extend(switched_off(environment, name));
            }
        }
        let (variable, path) = named.unzip();
        Self { missing, problems, variable, path }
    }
}

/// What is said about a variable that switches profilers off.
fn switched_off(environment: &Environment, name: &str) -> Option<String> {
    let value =
        environment.get(name).filter(|value| starts_with_digit(value) && number(value) == 0)?;
    Some(format!("{name}={value} switches profilers off: start the process without it"))
}

fn digits(text: &str) -> &str {
    let text = text.trim_start();
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text)
}

fn starts_with_digit(text: &str) -> bool {
    digits(text).starts_with(|first: char| first.is_ascii_hexdigit())
}

/// A setting of the runtime: hexadecimal digits, as far as they go; 0 where there are none.
fn number(text: &str) -> u64 {
    digits(text)
        .chars()
        .map_while(|digit| digit.to_digit(16))
        .fold(0_u64, |number, digit| number.saturating_mul(16).saturating_add(u64::from(digit)))
}

/// Whether a text is a class id in braces.
fn is_class_id(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return false;
    };
    let parts: Vec<&str> = inner.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use newrelic_compat::environment::Platform;

    fn of(pairs: &[(&str, &str)], machine: Machine, major: Option<u32>) -> Profiling {
        Profiling::of(&Environment::new(Platform::Unix, pairs.iter().copied()), machine, major)
    }

    const SET: [(&str, &str); 3] = [
        ("CORECLR_ENABLE_PROFILING", "1"),
        ("CORECLR_PROFILER", CLASS_ID),
        ("CORECLR_PROFILER_PATH", "/p.so"),
    ];

    #[test]
    fn all_that_is_needed() {
        let found = of(&SET, Machine::X64, Some(9));
        assert_eq!((found.missing.len(), found.problems.len()), (0, 0));
        assert_eq!(
            (found.variable, found.path.as_deref()),
            (Some("CORECLR_PROFILER_PATH"), Some("/p.so"))
        );
        let none = of(&[], Machine::X64, None);
        assert_eq!(
            none.missing,
            ["CORECLR_ENABLE_PROFILING", "CORECLR_PROFILER", "CORECLR_PROFILER_PATH"]
        );
        let empty = of(
            &[("CORECLR_ENABLE_PROFILING", "0"), ("CORECLR_PROFILER", "NewRelic"), SET[2]],
            Machine::X64,
            None,
        );
        assert_eq!(empty.missing, ["CORECLR_ENABLE_PROFILING"]);
        assert!(empty.problems[0].contains("is \"0\""), "{empty:?}");
        assert!(empty.problems[1].contains("no class id"), "{empty:?}");
    }

    #[test]
    fn the_path_for_the_machine_wins() {
        let all = [
            ("CORECLR_PROFILER_PATH_ARM64", "/arm64"),
            ("CORECLR_PROFILER_PATH_64", "/64"),
            ("CORECLR_PROFILER_PATH_32", "/32"),
            ("CORECLR_PROFILER_PATH", "/any"),
        ];
        let path = |pairs: &[(&str, &str)], machine| of(pairs, machine, None).path;
        assert_eq!(path(&all, Machine::Arm64).as_deref(), Some("/arm64"));
        assert_eq!(path(&all[1..], Machine::Arm64).as_deref(), Some("/64"));
        assert_eq!(path(&all, Machine::X64).as_deref(), Some("/64"));
        assert_eq!(path(&all, Machine::Arm).as_deref(), Some("/32"));
        assert_eq!(path(&all[3..], Machine::X86).as_deref(), Some("/any"));
        assert_eq!(
            path(&[("CORECLR_PROFILER_PATH_64", ""), all[3]], Machine::X64).as_deref(),
            Some("/any")
        );
    }

    #[test]
    fn switches_of_the_runtime() {
        let with = |name, value, major| {
            let mut pairs = SET.to_vec();
            pairs.push((name, value));
            of(&pairs, Machine::X64, major).problems.len()
        };
        assert_eq!(with("DOTNET_EnableDiagnostics", "0", Some(3)), 1);
        assert_eq!(with("COMPlus_EnableDiagnostics", "0x0", Some(3)), 1);
        assert_eq!(with("DOTNET_EnableDiagnostics", "1", Some(9)), 0);
        assert_eq!(with("DOTNET_EnableDiagnostics", "", Some(9)), 0);
        assert_eq!(with("DOTNET_EnableDiagnostics_Profiler", "0", Some(9)), 1);
        assert_eq!(with("DOTNET_EnableDiagnostics_Profiler", "0", Some(6)), 0);
        assert_eq!(with("DOTNET_EnableDiagnostics_IPC", "0", Some(9)), 0);
    }

    #[test]
    fn numbers_are_hexadecimal() {
        assert_eq!(["1", "0x10", "a", "00", "true", "", "1x"].map(number), [1, 16, 10, 0, 0, 0, 1]);
        // Its first letter is a digit.
        assert_eq!(number("false"), 0xfa);
    }

    #[test]
    fn class_ids() {
        assert!(is_class_id(CLASS_ID) && is_class_id("{5a0c4e0e-6b1b-4c57-a1f1-2e6d0b8d4c12}"));
        for text in [
            "",
            "{}",
            "36032161-FFC0-4B61-B559-F6C5D41BAE5A",
            "{36032161-FFC0-4B61-B559-F6C5D41BAE5G}",
        ] {
            assert!(!is_class_id(text), "{text}");
        }
    }
}
