//! `cargo xtask docs`: writes what pages say of each profiler's parameters, out of the registry,
//! the budgets of docs/safety.md, the JSON Schemas of what clrscope prints and its server sends,
//! out of the types, and docs/api.md, out of the OpenAPI document of the server.
//!
//! On each page in `docs/profilers` the part between a line [`BEGIN`] with the profiler's id and
//! the line [`END`] comes from here. So does the part with the tables of its rows, between a line
//! [`TABLES`] and the line [`TABLES_END`].

use crate::tool::{self, cargo};
use anyhow::{Context, Result, ensure};
use profilers::{PROFILERS, ProfilerSpec};
use rows::{Kind, TableDef};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use testkit::source_root;

const BEGIN: &str = "<!-- registry: ";
const END: &str = "<!-- registry end -->";
const TABLES: &str = "<!-- tables: ";
const TABLES_END: &str = "<!-- tables end -->";

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
    schemas()?;
    api()
}

/// Writes the schemas by the tests that check them.
fn schemas() -> Result<()> {
    let mut write = cargo();
    write.args(["test", "--quiet", "-p", "cli", "--bin", "clrscope", "-p", "server", "--lib"]);
    write.args(["--", "schema"]).env("CLRSCOPE_WRITE_KEPT", "1");
    tool::run(&mut write, LIMIT)
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
    let mut pages = Vec::new();
    let folder = source_root().join("docs/profilers");
    for path in tool::files(&folder, "md")? {
        let page = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        pages.push((path, page.clone(), page));
    }
    let tables = profilers::tables();
    for spec in PROFILERS {
        let begin = format!("{BEGIN}{}, written by `cargo xtask docs` -->\n", spec.id);
        fill(&mut pages, &begin, END, &part(spec))?;
        let own: Vec<_> = tables.iter().filter(|table| table.profiler == spec.id).collect();
        if !own.is_empty() {
            let begin = format!("{TABLES}{}, written by `cargo xtask docs` -->\n", spec.id);
            fill(&mut pages, &begin, TABLES_END, &columns(&own))?;
        }
    }
    pages.push(budgets()?);
    Ok(pages)
}

/// Puts a part into the page that has its place.
fn fill(pages: &mut [(PathBuf, String, String)], begin: &str, end: &str, part: &str) -> Result<()> {
    let mut places = pages.iter_mut().filter(|(_, _, page)| page.contains(begin));
    let (path, _, page) = places.next().with_context(|| format!("no page has the line {begin}"))?;
    let (before, rest) = page.split_once(begin).unwrap_or_default();
    let (_, after) =
        rest.split_once(end).with_context(|| format!("{}: no {end}", path.display()))?;
    let twice = after.contains(begin) || places.next().is_some();
    ensure!(!twice, "{}: {begin} is there twice", path.display());
    *page = format!("{before}{begin}{part}{end}{after}");
    Ok(())
}

/// What the registry knows of tables: their columns.
fn columns(tables: &[&TableDef]) -> String {
    let mut text = String::new();
    for (index, table) in tables.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text.push_str(&format!("`{}.{}`: {}\n\n", table.profiler, table.name, table.summary));
        text.push_str("| column | kind | |\n|---|---|---|\n");
        for column in &table.columns {
            let (name, kind, what) = (&column.name, kind(&column.kind), &column.summary);
            text.push_str(&format!("| `{name}` | {kind} | {what} |\n"));
        }
    }
    text
}

/// The kind of a column in words.
fn kind(of: &Kind) -> String {
    match of {
        Kind::Time => "time".to_owned(),
        Kind::Duration => "nanoseconds".to_owned(),
        Kind::Count => "count".to_owned(),
        Kind::Bytes => "bytes".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Real => "number with a fraction".to_owned(),
        Kind::Flag => "yes or no".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Thread => "thread".to_owned(),
        Kind::Function => "function".to_owned(),
        Kind::Stack => "stack".to_owned(),
        Kind::Type => "type".to_owned(),
        Kind::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Kind::Optional(kind_of) => format!("{}, or nothing", kind(kind_of)),
        Kind::List(kind_of) => format!("list: {}", kind(kind_of)),
    }
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
