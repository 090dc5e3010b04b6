//! `cargo xtask docs`: writes what pages say of each profiler's parameters, out of the registry,
//! the budgets of docs/safety.md, and docs/api.md, out of the OpenAPI document of the server.
//!
//! On each page in `docs/profilers` the part between a line [`BEGIN`] with the profiler's id and
//! the line [`END`] comes from here.

use crate::tool::{self, cargo};
use anyhow::{Context, Result, ensure};
use profilers::{PROFILERS, ProfilerSpec};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use testkit::source_root;

const BEGIN: &str = "<!-- registry: ";
const END: &str = "<!-- registry end -->";

/// What building the server may take.
const LIMIT: Duration = Duration::from_secs(1800);

/// Writes the parts that are not as they should be.
///
/// # Errors
/// When a page or a part is missing.
pub fn run() -> Result<()> {
    for (path, old, new) in pages()? {
        if old != new {
            fs::write(&path, new).with_context(|| path.display().to_string())?;
            println!("{}: written", path.display());
        }
    }
    api()
}

/// Writes the page with the requests of the server. A test of the crate `server` checks it.
fn api() -> Result<()> {
    let path = source_root().join("docs/api.md");
    let mut print = cargo();
    print.args(["run", "--quiet", "-p", "server", "--example", "api_page"]);
    let new = tool::output(&mut print, LIMIT)?;
    if fs::read_to_string(&path).unwrap_or_default() != new {
        fs::write(&path, new).with_context(|| path.display().to_string())?;
        println!("{}: written", path.display());
    }
    Ok(())
}

/// All pages: where they are, what they say, what they should say.
fn pages() -> Result<Vec<(PathBuf, String, String)>> {
    let mut pages: Vec<_> = PROFILERS.iter().map(|spec| page(spec)).collect::<Result<_>>()?;
    pages.push(budgets()?);
    Ok(pages)
}

/// The page with the budgets of the agent.
fn budgets() -> Result<(PathBuf, String, String)> {
    let path = source_root().join("docs/safety.md");
    let old = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let begin = format!("{BEGIN}budgets, written by `cargo xtask docs` -->\n");
    let (before, rest) =
        old.split_once(&begin).with_context(|| format!("{}: no {begin}", path.display()))?;
    let (_, after) =
        rest.split_once(END).with_context(|| format!("{}: no {END}", path.display()))?;
    let mut table = "| resource | at most | |\n|---|---|---|\n".to_owned();
    for resource in wire::Resource::ALL {
        let budget = match (resource.unit(), resource.budget()) {
            ("bytes", budget) if budget >= 1 << 30 => format!("{} GB", budget >> 30),
            ("bytes", budget) => format!("{} MB", budget >> 20),
            (_, budget) => budget.to_string(),
        };
        table.push_str(&format!("| {} | {budget} | {} |\n", resource.name(), resource.what()));
    }
    let new = format!("{before}{begin}{table}{END}{after}");
    Ok((path, old, new))
}

/// Page of a profiler: where it is, what it says, what it should say.
fn page(spec: &ProfilerSpec) -> Result<(PathBuf, String, String)> {
    let folder = source_root().join("docs/profilers");
    let begin = format!("{BEGIN}{}, written by `cargo xtask docs` -->\n", spec.id);
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let old = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let Some((before, rest)) = old.split_once(&begin) else { continue };
        let (_, after) =
            rest.split_once(END).with_context(|| format!("{}: no {END}", path.display()))?;
        ensure!(!after.contains(&begin), "{}: {} is there twice", path.display(), spec.id);
        let new = format!("{before}{begin}{}{END}{after}", part(spec));
        return Ok((path, old, new));
    }
    anyhow::bail!("no page in {} has the line {begin}", folder.display())
}

/// What the registry knows of a profiler.
fn part(spec: &ProfilerSpec) -> String {
    let since =
        if spec.since == 3 { ".NET Core 3.1".to_owned() } else { format!(".NET {}", spec.since) };
    let mut text = format!(
        "| | |\n|---|---|\n| entry | {} |\n| runtimes | {since} and newer |\n\
            | beside another profiler | {} |\n",
        spec.commands()
            .iter()
            .map(|command| format!("`{command}`"))
            .collect::<Vec<_>>()
            .join(" and "),
        if spec.needs_main_slot() {
            "no: it needs the main profiler slot"
        } else {
            "yes, on .NET 6 and newer"
        },
    );
    if !spec.params.is_empty() {
        text.push_str("\n| parameter | values | default | |\n|---|---|---|---|\n");
    }
    for param in spec.params {
        let default = if param.default.is_empty() {
            "none".to_owned()
        } else {
            format!("`{}`", param.default)
        };
        let (kind, help) = (param.kind.to_string(), param.help);
        text.push_str(&format!("| `{}` | {kind} | {default} | {help} |\n", param.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_say_what_the_registry_says() {
        for (path, old, new) in pages().unwrap() {
            assert!(old == new, "{}: run `cargo xtask docs`", path.display());
        }
    }
}
