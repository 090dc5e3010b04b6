//! Whether code of this process may be edited while it runs.

use crate::ledger;
use std::path::Path;

/// Variables by which a runtime lets tools edit code (hot reload). Any value but `none` does.
const SWITCHES: [&str; 2] = ["DOTNET_MODIFIABLE_ASSEMBLIES=", "COMPlus_MODIFIABLE_ASSEMBLIES="];
/// How the pipes of the runtime's debugger are called. They are open while a debugger is attached.
const DEBUGGER: &str = "clr-debug-pipe-";

/// Whether a debugger is attached or hot reload is on, so that a type may have got new fields. Also
/// where that cannot be known.
pub fn may_be_edited() -> bool {
    let Ok(environment) = ledger::read("/proc/self/environ") else { return true };
    lets_edit(&environment) || is_debugged().unwrap_or(true)
}

fn lets_edit(environment: &[u8]) -> bool {
    environment.split(|byte| *byte == 0).any(|variable| {
        let text = String::from_utf8_lossy(variable);
        let value = SWITCHES.iter().find_map(|switch| {
            let (name, value) = text.split_at_checked(switch.len())?;
            name.eq_ignore_ascii_case(switch).then_some(value)
        });
        value.is_some_and(|value| !value.is_empty() && !value.eq_ignore_ascii_case("none"))
    })
}

fn is_debugged() -> Option<bool> {
    let mut entries = ledger::folder("/proc/self/fd").ok()?;
    let is_pipe = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = entry.and_then(|entry| std::fs::read_link(entry.path()));
        target.is_ok_and(|target| is_debugger_pipe(&target))
    };
    Some(entries.by_ref().any(is_pipe))
}

fn is_debugger_pipe(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DEBUGGER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_reload_is_seen_in_the_environment() {
        let lets = |text: &str| lets_edit(text.as_bytes());
        assert!(lets("A=1\0DOTNET_MODIFIABLE_ASSEMBLIES=debug\0B=2\0"));
        assert!(lets("complus_modifiable_assemblies=Debug"));
        assert!(!lets("A=DOTNET_MODIFIABLE_ASSEMBLIES=debug\0DOTNET_MODIFIABLE_ASSEMBLIES=none\0"));
        assert!(!lets("DOTNET_MODIFIABLE_ASSEMBLIES=\0\0"));
    }

    #[test]
    fn a_debugger_is_seen_by_its_pipes() {
        assert!(is_debugger_pipe(Path::new("/tmp/clr-debug-pipe-42-1234-in")));
        assert!(!is_debugger_pipe(Path::new("/tmp/dotnet-diagnostic-42-1234-socket")));
        assert_eq!(is_debugged(), Some(false));
    }
}
