//! `cargo xtask layering`: what is loaded into somebody else's process stays small and knows
//! nothing of the rest.

use crate::{
    circles, hubs,
    tool::{self, cargo},
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The crates that are loaded into the target. They depend on each other and on nothing else of
/// ours.
const INSIDE: &[&str] =
    &["agent", "cil", "com", "corprof", "instrument", "profilers", "rows", "rules", "wire"];

/// Exactly the crates of others that are linked into the agent on Linux x86-64, with what those
/// bring along.
const THIRD_PARTY: &[&str] = &[
    "cobs",
    "crossbeam-queue",
    "crossbeam-utils",
    "embedded-io",
    "libc",
    "postcard",
    "serde",
    "serde_core",
    "thiserror",
];

/// The library that the New Relic agent loads in place of its own profiler. It is apart from the
/// agent of clrscope, and has lists of its own: the crates of ours that it may use,
const DROP_IN: [(&str, &[&str]); 2] = [
    ("newrelic", &["corprof", "newrelic-compat"]),
    ("newrelic-compat", &["cil", "corprof", "metadata", "rules"]),
];

/// and exactly the crates of others that it links, with what those bring along. `cargo metadata`
/// gives all crates together one set of features: `serde` and `zlib-rs` are there because others
/// ask `rules` and `flate2` for them.
const DROP_IN_THIRD_PARTY: &[&str] = &[
    "adler2",
    "cfg-if",
    "crc32fast",
    "flate2",
    "memchr",
    "miniz_oxide",
    "quick-xml",
    "serde",
    "serde_core",
    "simd-adler32",
    "thiserror",
    "zlib-rs",
];

/// Optional dependencies of crates inside that only the outside asks for, by a feature of the same
/// name. `cargo metadata` gives all crates together one set of features; the agent is built by
/// itself and gets its own.
const OUTSIDE_ONLY: &[(&str, &str)] = &[("rules", "toml")];

/// Runs code that waits without a thread. Only the web server needs that, and the SDK of the
/// protocol for assistants.
const ASYNCHRONOUS: &str = "tokio";

/// The crates of ours that may link it: the server, the assistant's tools, and the program that
/// contains both.
const MAY_BE_ASYNCHRONOUS: &[&str] = &["cli", "mcp", "server"];

/// The crates of ours that may hold `unsafe`; all others forbid it.
const MAY_BE_UNSAFE: &[&str] = &["agent", "com", "corprof", "corprof-mock", "newrelic", "sampler"];

/// Nobody depends on these, except for tests and other helpers of developers.
const DEVELOPERS_ONLY: &[&str] = &["corprof-mock", "testkit", "xtask"];

/// The graph in the form that the rules need.
#[derive(Debug, Default)]
struct Graph {
    /// For each of our crates, those of ours that it depends on (not for tests).
    ours: BTreeMap<String, BTreeSet<String>>,
    /// For each of our crates, everything of others that it links, directly or not.
    linked: BTreeMap<String, BTreeSet<String>>,
}

/// Checks all rules and names everything that breaks one.
pub fn check() -> Result<()> {
    let mut command = cargo();
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]);
    let metadata: Value =
        serde_json::from_str(&tool::output(&mut command, Duration::from_secs(300))?)?;
    let mut problems = broken_rules(&Graph::read(&metadata)?);
    for package in members(&metadata)? {
        problems.extend(holds_unsafe(package)?);
        problems.extend(asks_for_outside(package)?);
        problems.extend(asks_for_faults(package)?);
        problems.extend(has_circles(package)?);
    }
    problems.extend(hubs::problems(&testkit::source_root())?);
    if !problems.is_empty() {
        bail!("the layering is broken:\n  {}", problems.join("\n  "));
    }
    println!(
        "layering: {} crates inside the target link only {}",
        INSIDE.len(),
        THIRD_PARTY.join(", ")
    );
    Ok(())
}

/// Circles of files that are left, by crate and one of the files, and why.
const CIRCLES: &[(&str, &str, &str)] = &[
    ("agent", "ledger", "the ledger asks the heap what it holds, and the heap maps by it"),
    ("profile", "profile", "a profile has all parts, and the file of each has its methods"),
];

/// Files of a package that depend on each other in a circle.
fn has_circles(package: &Value) -> Result<Vec<String>> {
    let name = package["name"].as_str().context("no name")?;
    let manifest = package["manifest_path"].as_str().context("no manifest")?;
    let source = Path::new(manifest).with_file_name("src");
    let known = |circle: &[String]| {
        CIRCLES.iter().any(|(of, file, _)| *of == name && circle.iter().any(|part| part == file))
    };
    let found = circles::of(&source)?.into_iter().filter(|circle| !known(circle));
    let shown = |circle: Vec<String>| {
        format!("{name}: {} depend on each other in a circle", circle.join(", "))
    };
    Ok(found.map(shown).collect())
}

fn members(metadata: &Value) -> Result<impl Iterator<Item = &Value>> {
    let members: BTreeSet<&str> = metadata["workspace_members"]
        .as_array()
        .context("no members")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let packages = metadata["packages"].as_array().context("no packages")?;
    Ok(packages
        .iter()
        .filter(move |package| package["id"].as_str().is_some_and(|id| members.contains(id))))
}

impl Graph {
    fn read(metadata: &Value) -> Result<Graph> {
        let packages = metadata["packages"].as_array().context("no packages")?;
        let names: BTreeMap<&str, &str> = packages
            .iter()
            .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
            .collect();
        // What is a macro runs in the compiler and is linked into nothing.
        let macros: BTreeSet<&str> = packages
            .iter()
            .filter(|package| {
                let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
                targets.iter().any(|target| {
                    target["kind"]
                        .as_array()
                        .is_some_and(|kinds| kinds.contains(&"proc-macro".into()))
                })
            })
            .filter_map(|package| package["id"].as_str())
            .collect();
        let mut edges: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in metadata["resolve"]["nodes"].as_array().context("no resolved graph")? {
            let id = node["id"].as_str().context("a node without id")?;
            for dependency in node["deps"].as_array().context("a node without dependencies")? {
                let normal = dependency["dep_kinds"]
                    .as_array()
                    .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
                let to = dependency["pkg"].as_str().context("a dependency without id")?;
                if normal && !macros.contains(to) {
                    edges.entry(id).or_default().push(to);
                }
            }
        }
        let ours: BTreeSet<&str> =
            members(metadata)?.filter_map(|package| package["id"].as_str()).collect();
        let mut graph = Graph::default();
        for (from, to) in OUTSIDE_ONLY {
            for id in ours.iter().filter(|id| names.get(**id) == Some(from)) {
                edges.entry(id).or_default().retain(|other| names.get(other) != Some(to));
            }
        }
        for id in &ours {
            let name = names.get(id).context("a member without name")?;
            let direct = edges.get(id).into_iter().flatten().filter(|to| ours.contains(**to));
            graph.ours.insert(
                (*name).into(),
                direct.filter_map(|to| names.get(to)).map(|to| (*to).into()).collect(),
            );
            let mut seen = BTreeSet::new();
            let mut open = vec![*id];
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(edges.get(next).into_iter().flatten());
                }
            }
            let linked =
                seen.iter().filter(|to| !ours.contains(**to)).filter_map(|to| names.get(to));
            graph.linked.insert((*name).into(), linked.map(|to| (*to).into()).collect());
        }
        Ok(graph)
    }
}

fn broken_rules(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for (from, to) in graph.ours.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)))
    {
        if INSIDE.contains(&from.as_str()) && !INSIDE.contains(&to.as_str()) {
            problems.push(format!(
                "{from} is loaded into the target and depends on {to}, which is not"
            ));
        }
        if DEVELOPERS_ONLY.contains(&to.as_str()) && !DEVELOPERS_ONLY.contains(&from.as_str()) {
            problems.push(format!("{from} depends on {to}, which is for developers only"));
        }
    }
    for name in INSIDE {
        match graph.linked.get(*name) {
            None => problems.push(format!("there is no crate {name}")),
            Some(linked) => {
                let strangers =
                    linked.iter().filter(|other| !THIRD_PARTY.contains(&other.as_str()));
                problems.extend(
                    strangers.map(|other| format!("{name} brings {other} into the target")),
                );
            }
        }
    }
    let linked: BTreeSet<&str> = INSIDE
        .iter()
        .filter_map(|name| graph.linked.get(*name))
        .flatten()
        .map(String::as_str)
        .collect();
    let unused = THIRD_PARTY.iter().filter(|name| !linked.contains(*name));
    problems.extend(
        unused.map(|name| format!("{name} is allowed in the target but no longer used there")),
    );
    problems.extend(drop_in(graph));
    problems.extend(asynchronous(graph));
    problems
}

/// Who links [`ASYNCHRONOUS`] without being allowed to.
fn asynchronous(graph: &Graph) -> Vec<String> {
    let links = graph.linked.iter().filter(|(_, linked)| linked.contains(ASYNCHRONOUS));
    let strangers = links.filter(|(name, _)| !MAY_BE_ASYNCHRONOUS.contains(&name.as_str()));
    strangers
        .map(|(name, _)| format!("{name} links {ASYNCHRONOUS}, which is for the server"))
        .collect()
}

/// What breaks the rules for [`DROP_IN`].
fn drop_in(graph: &Graph) -> Vec<String> {
    DROP_IN.iter().flat_map(|(name, allowed)| part_of_drop_in(graph, name, allowed)).collect()
}

fn part_of_drop_in(graph: &Graph, name: &str, allowed: &[&str]) -> Vec<String> {
    let (Some(ours), Some(linked)) = (graph.ours.get(name), graph.linked.get(name)) else {
        return vec![format!("there is no crate {name}")];
    };
    let strangers = ours.iter().filter(|other| !allowed.contains(&other.as_str()));
    let mut problems: Vec<String> =
        strangers.map(|other| format!("{name} depends on {other}")).collect();
    let brought = linked.iter().filter(|other| !DROP_IN_THIRD_PARTY.contains(&other.as_str()));
    problems.extend(brought.map(|other| format!("{name} links {other}")));
    let unused = DROP_IN_THIRD_PARTY.iter().filter(|other| !linked.contains(**other));
    problems.extend(
        unused.map(|other| format!("{other} is allowed in {name} but no longer used there")),
    );
    problems
}

/// A crate outside of the list must forbid `unsafe` in each of its roots.
fn holds_unsafe(package: &Value) -> Result<Vec<String>> {
    let name = package["name"].as_str().context("a package without name")?;
    if MAY_BE_UNSAFE.contains(&name) {
        return Ok(Vec::new());
    }
    let mut problems = Vec::new();
    for target in package["targets"].as_array().context("a package without targets")? {
        let kinds: Vec<&str> =
            target["kind"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !kinds.iter().any(|kind| ["lib", "bin", "cdylib"].contains(kind)) {
            continue;
        }
        let root = Path::new(target["src_path"].as_str().context("a target without source")?);
        let source =
            fs::read_to_string(root).with_context(|| format!("cannot read {}", root.display()))?;
        if !source.contains("#![forbid(unsafe_code)]") {
            problems.push(format!("{name}: {} does not forbid unsafe code", root.display()));
        }
    }
    Ok(problems)
}

/// A crate inside must not turn on what is only for the outside.
fn asks_for_outside(package: &Value) -> Result<Vec<String>> {
    let name = package["name"].as_str().context("a package without name")?;
    let mut problems = Vec::new();
    if !INSIDE.contains(&name) {
        return Ok(problems);
    }
    for dependency in
        package["dependencies"].as_array().context("a package without dependencies")?
    {
        let features = dependency["features"].as_array().map_or(&[][..], Vec::as_slice);
        for (ours, feature) in OUTSIDE_ONLY {
            let asks = features.contains(&(*feature).into())
                || dependency["uses_default_features"] == true;
            if dependency["kind"].is_null() && dependency["name"] == *ours && asks {
                problems.push(format!(
                    "{name} asks for the feature {feature} of {ours}, which is for the outside"
                ));
            }
        }
    }
    Ok(problems)
}

/// Faults are injected by a build of their own, for which nobody may ask: what is shipped has none.
fn asks_for_faults(package: &Value) -> Result<Vec<String>> {
    const FEATURE: &str = "fault-injection";
    let name = package["name"].as_str().context("a package without name")?;
    let has = |features: &Value| {
        features.as_array().is_some_and(|features| features.contains(&FEATURE.into()))
    };
    let dependencies =
        package["dependencies"].as_array().context("a package without dependencies")?;
    let asks = dependencies.iter().any(|dependency| has(&dependency["features"]))
        || has(&package["features"]["default"]);
    Ok(if asks {
        vec![format!("{name} turns on {FEATURE}, which is for `cargo xtask faults` only")]
    } else {
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(ours: &[(&str, &[&str])], linked: &[(&str, &[&str])]) -> Graph {
        let read = |all: &[(&str, &[&str])]| {
            all.iter()
                .map(|(name, to)| ((*name).into(), to.iter().map(|to| (*to).into()).collect()))
                .collect()
        };
        let mut graph = Graph { ours: read(ours), linked: read(linked) };
        for name in INSIDE {
            graph.linked.entry((*name).into()).or_default();
        }
        for (name, _) in DROP_IN {
            graph.ours.entry(name.into()).or_default();
            let linked = graph.linked.entry(name.into()).or_default();
            linked.extend(DROP_IN_THIRD_PARTY.iter().map(|name| (*name).into()));
        }
        graph
    }

    #[test]
    fn the_allowed_graph_breaks_no_rule() {
        let graph = graph(
            &[("agent", &["corprof", "wire"]), ("cli", &["wire"])],
            &[("agent", THIRD_PARTY)],
        );
        assert_eq!(broken_rules(&graph), Vec::<String>::new());
    }

    #[test]
    fn every_rule_is_held() {
        let graph = graph(
            &[("wire", &["session"]), ("cli", &["testkit"])],
            &[("agent", THIRD_PARTY), ("com", &["regex"])],
        );
        let problems = broken_rules(&graph).join("\n");
        assert!(
            problems.contains("wire is loaded into the target and depends on session"),
            "{problems}"
        );
        assert!(problems.contains("cli depends on testkit"), "{problems}");
        assert!(problems.contains("com brings regex into the target"), "{problems}");
    }

    #[test]
    fn the_drop_in_has_rules_of_its_own() {
        let mut graph = graph(
            &[("newrelic", &["corprof", "recorder"])],
            &[("agent", THIRD_PARTY), ("newrelic", &["regex"])],
        );
        graph.linked.entry("newrelic".into()).or_default().remove("quick-xml");
        let problems = broken_rules(&graph);
        let expected = [
            "newrelic depends on recorder",
            "newrelic links regex",
            "quick-xml is allowed in newrelic but no longer used there",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn only_the_server_is_asynchronous() {
        let tokio: &[&str] = &["tokio"];
        let linked = [("agent", THIRD_PARTY), ("server", tokio), ("cli", tokio), ("report", tokio)];
        let problems = broken_rules(&graph(&[], &linked));
        assert_eq!(problems, ["report links tokio, which is for the server"]);
    }

    #[test]
    fn an_allowance_that_nobody_needs_is_told() {
        let problems = broken_rules(&graph(&[], &[])).join("\n");
        assert!(
            problems.contains("libc is allowed in the target but no longer used there"),
            "{problems}"
        );
    }

    #[test]
    fn macros_and_dependencies_of_tests_are_not_linked() {
        let package = |name: &str, kind: &str| serde_json::json!({ "id": name, "name": name, "targets": [{ "kind": [kind], "src_path": "x" }] });
        let edge = |to: &str, kind: Value| serde_json::json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        let metadata = serde_json::json!({
            "packages": [package("a", "lib"), package("b", "lib"), package("c", "lib"), package("m", "proc-macro")],
            "workspace_members": ["a"],
            "resolve": { "nodes": [
                { "id": "a", "deps": [edge("b", Value::Null), edge("c", "dev".into()), edge("m", Value::Null)] },
                { "id": "b", "deps": [] }, { "id": "c", "deps": [] }, { "id": "m", "deps": [] },
            ] },
        });
        let graph = Graph::read(&metadata).unwrap();
        assert_eq!(graph.linked["a"], BTreeSet::from(["b".to_owned()]));
    }

    #[test]
    fn what_is_for_the_outside_counts_there_only() {
        let package = |name: &str| serde_json::json!({ "id": name, "name": name, "targets": [] });
        let edge = |to: &str| serde_json::json!({ "pkg": to, "dep_kinds": [{ "kind": null }] });
        let metadata = serde_json::json!({
            "packages": [package("rules"), package("toml"), package("cli")],
            "workspace_members": ["rules", "cli"],
            "resolve": { "nodes": [
                { "id": "rules", "deps": [edge("toml")] }, { "id": "toml", "deps": [] },
                { "id": "cli", "deps": [edge("rules"), edge("toml")] },
            ] },
        });
        let graph = Graph::read(&metadata).unwrap();
        assert_eq!(graph.linked["rules"], BTreeSet::new());
        assert_eq!(graph.linked["cli"], BTreeSet::from(["toml".to_owned()]));
        let asks = |name: &str, features: &[&str], default: bool| {
            let rules = serde_json::json!({
                "name": "rules", "kind": null, "features": features, "uses_default_features": default,
            });
            asks_for_outside(&serde_json::json!({ "name": name, "dependencies": [rules] }))
                .unwrap()
                .len()
        };
        assert_eq!([asks("agent", &["toml"], false), asks("agent", &[], true)], [1, 1]);
        assert_eq!([asks("agent", &["serde"], false), asks("cli", &["toml"], true)], [0, 0]);
    }
}
