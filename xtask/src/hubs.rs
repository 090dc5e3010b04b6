//! Hubs serve all profilers and name none: what a profiler has to say is in files of its own.
//!
//! Every source file of a crate is a hub, unless a part of its path is the id of a profiler, such
//! as `sources/gc.rs` and `threads/starts.rs`. [`EXCEPTIONS`] lists the others that name profilers,
//! with the reason. An exception that is not needed any more is an error, so the list only gets
//! shorter.

use crate::tool;
use anyhow::{Context, Result};
use profilers::PROFILERS;
use regex::Regex;
use std::{collections::BTreeSet, fs, path::Path};

/// Files that name profilers, or folders if they end with `/`; the ids that they name, none of
/// which stands for all; and why.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    // What belongs to some profilers, under another name.
    ("crates/agent/src/engines/hooks/", &["calls"], "the engine of `calls` and `transitions`"),
    ("crates/agent/src/engines/probes/", &["trace"], "the engine of `trace`"),
    ("crates/cli/src/commands/tasks.rs", &["async"], "the command of `async`"),
    ("crates/cli/src/traced/", &["trace"], "the command of `trace`"),
    ("crates/nettrace/src/thread_pool.rs", &["threadpool"], "makes its rows"),
    ("crates/profile/src/pool.rs", &["threadpool"], "analyzes its rows"),
    ("crates/recorder/src/linux/rate.rs", &["cpu"], "measures the rate of the CPU engine"),
    ("crates/recorder/src/linux/stages/ticks/snapshots.rs", &["threads"], "its snapshots"),
    // What uses some profilers.
    ("crates/diagnose/src/", &[], "a finding names the profilers whose rows it reads"),
    ("crates/import/src/readers/", &[], "a format names what its figures are"),
    ("crates/api/src/preset.rs", &[], "a preset is a choice of profilers"),
    ("crates/profilers/src/selection.rs", &[], "the profilers of a recording that names none"),
    ("crates/inspect/src/stacks.rs", &["threads"], "takes stacks with a short recording of it"),
    ("crates/recorder/src/linux/dump/mod.rs", &["cpu"], "takes stacks of running threads with it"),
    ("crates/mcp/src/tools/next.rs", &[], "says after a finding which samples to look at"),
    ("crates/session/src/format1/", &[], "reads files of the former format, which has no tables"),
    // Parts of the agent that were there before its engines had a registry.
    ("crates/agent/src/host/mod.rs", &["cpu"], "a CPU engine that walks is a collector"),
    ("crates/agent/src/session/agent.rs", &["cpu", "survivors"], "owns the engines"),
    ("crates/agent/src/session/callbacks.rs", &["trace"], "the callback for IL of methods"),
    ("crates/agent/src/session/entry.rs", &["trace"], "a session that rewrites methods differs"),
    ("crates/agent/src/session/event_mask.rs", &["exceptions", "trace"], "two ways to get events"),
    ("crates/agent/src/session/reattach.rs", &["trace"], "a session that rewrites methods differs"),
    ("crates/agent/src/session/writer/", &["heap", "survivors", "trace"], "starts the engines"),
    // Series and sums of the profilers that had these before there were typed rows.
    ("crates/profile/src/builder/taking.rs", &["allocations"], "sums while it reads"),
    ("crates/profile/src/profile.rs", &["gc"], "has collections as fields"),
    ("crates/profile/src/live.rs", &["gc"], "shifts collections in time"),
    ("crates/profile/src/series.rs", &[], "the kinds of series"),
    ("crates/api/src/live.rs", &["gc"], "GC pauses of the last second"),
    ("crates/explore/src/markers.rs", &["gc"], "marks GC pauses on timelines"),
    // The same word for something else.
    ("crates/cli/src/commands/schema.rs", &["async", "heap", "trace"], "names of commands"),
    ("crates/cli/src/commands/stacks.rs", &["async"], "an option"),
    ("crates/cli/src/stacks/report.rs", &["async"], "a key in JSON"),
    ("crates/cli/src/traced/", &["calls", "heap"], "a column; a parameter of `trace`"),
    ("crates/cli/src/validated/log.rs", &["jit"], "a kind of event"),
    ("crates/diagnostics/src/platform/linux/", &["cpu"], "files of the kernel"),
    ("crates/import/src/out.rs", &["threads"], "what a limit is about"),
    ("crates/mcp/src/tools.rs", &["trace"], "a tool"),
    ("crates/mcp/src/tools/stacks.rs", &["threads"], "a fact"),
    ("crates/profile/src/names.rs", &["async", "gc", "jit"], "kinds of functions and states"),
    ("crates/report/src/chrome.rs", &["gc"], "a category of the format"),
    ("crates/report/src/json/tables.rs", &["async", "gc", "jit"], "kinds of functions"),
    ("crates/rules/src/file.rs", &["trace"], "what a rule does"),
    ("crates/server/src/openapi/page.rs", &["cpu", "heap"], "an example, and an address"),
    ("crates/server/src/pages.rs", &["trace"], "a page"),
    ("crates/symbols/src/compiler_names.rs", &["async"], "a part of generated names"),
    ("crates/wire/src/resource.rs", &["heap", "threads"], "kinds of resources"),
];

/// Every place at which a hub names a profiler, and every exception without need.
pub fn problems(root: &Path) -> Result<Vec<String>> {
    let names = Names::new()?;
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for path in tool::files(&root.join("crates"), "rs")? {
        let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if !is_hub(&file) {
            continue;
        }
        let source = fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
        for (line, id) in names.in_source(&source) {
            let allowed = allowing(&file, id);
            if allowed.is_empty() {
                problems.push(format!(
                    "{file}:{line} names the profiler {id}; a hub serves all profilers"
                ));
            }
            used.extend(allowed.into_iter().map(|exception| (exception, id)));
        }
    }
    problems.extend(needless(&used));
    Ok(problems)
}

/// The exceptions that allow a file to name a profiler.
fn allowing(file: &str, id: &str) -> Vec<usize> {
    let allows = |(path, ids, _): &(&str, &[&str], &str)| {
        let is_of = file == *path || path.ends_with('/') && file.starts_with(path);
        is_of && (ids.is_empty() || ids.contains(&id))
    };
    let exceptions = EXCEPTIONS.iter().enumerate();
    exceptions.filter(|(_, exception)| allows(exception)).map(|(index, _)| index).collect()
}

/// The exceptions that allow what no file does.
fn needless(used: &BTreeSet<(usize, &'static str)>) -> Vec<String> {
    let exceptions = EXCEPTIONS.iter().enumerate();
    exceptions
        .flat_map(|(index, (path, ids, _))| {
            let is_used =
                move |id: &str| used.iter().any(|(of, named)| *of == index && *named == id);
            let any = used.iter().any(|(of, _)| *of == index);
            let unused = ids.iter().filter(move |id| !is_used(id)).map(|id| (*id).to_owned());
            let whole = (ids.is_empty() && !any).then(|| "any profiler".to_owned());
            unused.chain(whole).map(move |id| {
                format!("xtask/src/hubs.rs: {path} does not name {id}; remove the exception")
            })
        })
        .collect()
}

/// Whether a file is a source file, and none of a profiler.
fn is_hub(file: &str) -> bool {
    let Some((_, within)) = file.split_once("/src/") else { return false };
    let mut parts = within.trim_end_matches(".rs").split('/');
    parts.all(|part| {
        part != "tests" && PROFILERS.iter().all(|spec| spec.id.replace('-', "_") != part)
    })
}

/// How profilers are named in sources.
struct Names {
    /// As a text that is an id, or begins with one as selections do (`"gc"`, `"cpu,wall"`,
    /// `"wall:rate=50"`).
    text: Regex,
    /// As a module of `profilers`, in a path or within the braces of a `use`.
    module: Regex,
}

impl Names {
    fn new() -> Result<Names> {
        let ids: Vec<&str> = PROFILERS.iter().map(|spec| spec.id).collect();
        let (texts, modules) = (ids.join("|"), ids.join("|").replace('-', "_"));
        Ok(Names {
            text: Regex::new(&format!(r#""({texts})(?:"|,[a-z]|:[a-z])"#))?,
            module: Regex::new(&format!(r"\b(?:r#)?({modules})::"))?,
        })
    }

    /// Lines of a source file, without its tests and comments, that name a profiler.
    fn in_source(&self, source: &str) -> Vec<(usize, &'static str)> {
        let code = source.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        let mut found = Vec::new();
        // Whether the line is within the braces of a `use` of `profilers`.
        let mut imports = false;
        for (index, line) in code.enumerate().filter(|(_, line)| !line.trim().starts_with("//")) {
            let texts = self.text.captures_iter(line).filter_map(|found| found.get(1));
            found.extend(texts.filter_map(|id| Some((index + 1, known(id.as_str())?))));
            let path = line.split_once("profilers::").map(|(_, path)| path);
            let modules = path.or(imports.then_some(line)).unwrap_or_default();
            let modules = self.module.captures_iter(modules).filter_map(|found| found.get(1));
            found.extend(modules.filter_map(|id| Some((index + 1, known(id.as_str())?))));
            imports = match path {
                Some(path) => path.starts_with('{') && !path.contains('}'),
                None => imports && !line.contains('}'),
            };
        }
        found
    }
}

/// The id of a profiler by its name in a text or in a path.
fn known(name: &str) -> Option<&'static str> {
    let mut ids = PROFILERS.iter().map(|spec| spec.id);
    ids.find(|id| *id == name || id.replace('-', "_") == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profiler_in_a_hub_is_found() {
        let names = Names::new().unwrap();
        let found = |source: &str| names.in_source(source);
        assert_eq!(
            found("run(\"gc\");\nrun(\"gcs\");\n// \"wall\"\n\n#[cfg(test)]\nrun(\"cpu\");\n"),
            [(1, "gc")]
        );
        assert_eq!(found("list(\"cpu,wall\");\nlist(\"wall:rate=9\");"), [(1, "cpu"), (2, "wall")]);
        assert_eq!(found("say(\"threads: none\");"), []);
        let path = "let id = profilers::r#async::SPEC.id;\nprofilers::exact_allocations::Sums;";
        assert_eq!(found(path), [(1, "async"), (2, "exact-allocations")]);
        let group = "use profilers::{\n    Selection,\n    gc::Pause,\n};\nheap::report();\n";
        assert_eq!(found(group), [(3, "gc")]);
        assert_eq!(found("heap::report(); mine::cpu::open();"), []);
    }

    #[test]
    fn files_of_a_profiler_are_no_hubs() {
        for file in [
            "crates/recorder/src/linux/sources/gc.rs",
            "crates/report/src/views/threads/starts.rs",
            "crates/profilers/src/exact_allocations.rs",
            "crates/report/tests/gc_view.rs",
            "crates/cli/src/top/tests.rs",
        ] {
            assert!(!is_hub(file), "{file}");
        }
        for file in ["crates/report/src/text.rs", "crates/recorder/src/linux/start/engine.rs"] {
            assert!(is_hub(file), "{file}");
        }
    }

    #[test]
    fn exceptions_are_for_their_files_and_ids_only() {
        let reader = "crates/import/src/readers/pprof.rs";
        assert_eq!(allowing(reader, "gc").len(), 1);
        assert_eq!(allowing("crates/mcp/src/tools.rs", "trace").len(), 1);
        assert!(allowing("crates/mcp/src/tools.rs", "gc").is_empty());
        assert!(allowing("crates/mcp/src/tools/trace.rs", "trace").is_empty());
        assert_eq!(needless(&BTreeSet::new()).len(), {
            EXCEPTIONS.iter().map(|(_, ids, _)| ids.len().max(1)).sum::<usize>()
        });
    }
}
