//! The rules of `deny.toml` about other people's crates: licences, sources, bans, known faults.
//!
//! `cargo-deny` checks them where it is installed (`cargo install --locked cargo-deny`). Where it
//! is not, the rules that need no database are checked here from the same file: licences, sources
//! and bans. Faults that were reported to the advisory database then stay unchecked, and that is
//! said.

use crate::outcome::Outcome;
use crate::tool::{self, cargo};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;
use testkit::source_root;

const LIMIT: Duration = Duration::from_secs(600);

/// Checks other people's crates by `deny.toml`.
pub fn check() -> Result<Outcome> {
    if tool::find("cargo-deny").is_none() {
        println!(
            "cargo-deny is not installed: licences, sources and bans are checked from deny.toml, \
                advisories are not"
        );
        by_hand()?;
        return Ok(Outcome::Done);
    }
    tool::run(
        cargo().args(["deny", "--log-level", "error", "check", "bans", "licenses", "sources"]),
        LIMIT,
    )?;
    if tool::succeeds(cargo().args(["deny", "fetch", "db"]), LIMIT) {
        tool::run(cargo().args(["deny", "--log-level", "error", "check", "advisories"]), LIMIT)?;
    } else {
        println!("the advisory database cannot be reached: advisories are not checked");
    }
    Ok(Outcome::Done)
}

fn by_hand() -> Result<()> {
    let file = source_root().join("deny.toml");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let rules: toml::Table =
        text.parse().with_context(|| format!("cannot read {}", file.display()))?;
    let metadata = tool::output(cargo().args(["metadata", "--format-version", "1"]), LIMIT)?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let (mut problems, warnings) = broken_rules(&rules, packages)?;
    problems.extend(banned(&rules, packages));
    for warning in warnings {
        println!("  {warning}");
    }
    if !problems.is_empty() {
        bail!("deny.toml is not kept:\n  {}", problems.join("\n  "));
    }
    println!("dependencies: {} packages keep to deny.toml", packages.len());
    Ok(())
}

/// What breaks a rule, and what is only worth checking.
fn broken_rules(rules: &toml::Table, packages: &[Value]) -> Result<(Vec<String>, Vec<String>)> {
    let allowed = words(rules, "licenses", "allow")?;
    let exceptions = exceptions(rules);
    let registries = words(rules, "sources", "allow-registry")?;
    let (mut problems, mut versions) = (Vec::new(), BTreeMap::<&str, BTreeSet<&str>>::new());
    for package in packages {
        let name = package["name"].as_str().context("a package without name")?;
        let version = package["version"].as_str().context("a package without version")?;
        versions.entry(name).or_default().insert(version);
        match package["license"].as_str() {
            Some(license) if permits(license, &allowed) => {}
            Some(license) if exceptions.get(name).is_some_and(|own| permits(license, own)) => {}
            Some(license) => problems.push(format!("{name} {version} has the licence {license}")),
            None => problems.push(format!("{name} {version} names no licence")),
        }
        // What has no source is a part of this workspace.
        if let Some(source) = package["source"].as_str() {
            let registry = source.strip_prefix("registry+").unwrap_or(source);
            if !registries.contains(registry) {
                problems.push(format!("{name} {version} comes from {source}"));
            }
        }
    }
    let warnings = versions
        .iter()
        .filter(|(_, all)| all.len() > 1)
        .map(|(name, all)| {
            format!(
                "{name} is there {} times: {}",
                all.len(),
                all.iter().copied().collect::<Vec<_>>().join(", ")
            )
        })
        .collect();
    Ok((problems, warnings))
}

/// Crates that `bans.deny` names: each one that is there, unless it has `wrappers`, and then each
/// crate that depends on it and is none of them.
fn banned(rules: &toml::Table, packages: &[Value]) -> Vec<String> {
    let list = rules.get("bans").and_then(|bans| bans.get("deny")).and_then(toml::Value::as_array);
    let mut problems = Vec::new();
    for entry in list.into_iter().flatten() {
        let name = entry.get("crate").or_else(|| entry.get("name")).unwrap_or(entry).as_str();
        let Some(name) = name else { continue };
        let wrappers = entry.get("wrappers").and_then(toml::Value::as_array);
        let Some(wrappers) = wrappers else {
            let found = packages.iter().find(|package| package["name"] == name);
            problems.extend(found.map(|_| format!("{name} is banned")));
            continue;
        };
        for package in packages {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            // What is optional or for another system may not be there at all.
            let mut needed = dependencies.filter(|needed| {
                needed["kind"].is_null()
                    && needed["optional"] == false
                    && needed["target"].is_null()
            });
            let user = package["name"].as_str().unwrap_or_default();
            let is_wrapper = wrappers.iter().any(|wrapper| wrapper.as_str() == Some(user));
            if !is_wrapper && needed.any(|needed| needed["name"] == name) {
                problems.push(format!("{name} is banned, and {user} depends on it"));
            }
        }
    }
    problems
}

/// Licences that are allowed to one crate only: `exceptions = [{ crate = "…", allow = ["…"] }]`.
fn exceptions(rules: &toml::Table) -> BTreeMap<String, BTreeSet<String>> {
    let list = rules
        .get("licenses")
        .and_then(|table| table.get("exceptions"))
        .and_then(toml::Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|entry| {
            let allow = entry
                .get("allow")?
                .as_array()?
                .iter()
                .filter_map(toml::Value::as_str)
                .map(str::to_owned);
            Some((entry.get("crate")?.as_str()?.to_owned(), allow.collect()))
        })
        .collect()
}

fn words(rules: &toml::Table, section: &str, key: &str) -> Result<BTreeSet<String>> {
    let list = rules.get(section).and_then(|table| table.get(key)).and_then(toml::Value::as_array);
    let list = list.with_context(|| format!("deny.toml has no list {section}.{key}"))?;
    Ok(list.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
}

/// Whether an SPDX expression can be fulfilled with the allowed licences. `AND` binds more tightly
/// than `OR`; the old spelling `MIT/Apache-2.0` means `OR`.
fn permits(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    either(&mut rest, allowed) && rest.is_empty()
}

fn either(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut permitted = both(tokens, allowed);
    while let ["OR", rest @ ..] = tokens {
        *tokens = rest;
        permitted |= both(tokens, allowed);
    }
    permitted
}

fn both(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut permitted = single(tokens, allowed);
    while let ["AND", rest @ ..] = tokens {
        *tokens = rest;
        permitted &= single(tokens, allowed);
    }
    permitted
}

fn single(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    match tokens {
        ["(", rest @ ..] => {
            *tokens = rest;
            let permitted = either(tokens, allowed);
            if let [")", rest @ ..] = tokens {
                *tokens = rest;
                permitted
            } else {
                false
            }
        }
        [license, "WITH", exception, rest @ ..] => {
            *tokens = rest;
            allowed.contains(&format!("{license} WITH {exception}"))
        }
        [license, rest @ ..] => {
            *tokens = rest;
            allowed.contains(*license)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_says() {
        let allowed: BTreeSet<String> = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"]
            .iter()
            .map(|name| (*name).into())
            .collect();
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "GPL-3.0 AND Unicode-3.0 OR MIT",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(permits(good, &allowed), "{good}");
        }
        for bad in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT",
            "Apache-2.0",
            "",
            "MIT)",
            "(GPL-3.0 OR X) AND MIT",
        ] {
            assert!(!permits(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn strangers_are_found() {
        let rules: toml::Table = "[licenses]\nallow = [\"MIT\"]\n\
                                  exceptions = [{ crate = \"good\", allow = [\"CDDL-1.0\"] }]\n\
                                  [sources]\nallow-registry = [\"here\"]\n\
                                  [bans]\ndeny = [{ crate = \"bad\" }, \
                                  { crate = \"rare\", wrappers = [\"good\"] }]\n"
            .parse()
            .unwrap();
        let packages = serde_json::json!([
            { "name": "good", "version": "1.0.0", "license": "MIT", "source": "registry+here" },
            { "name": "good", "version": "2.0.0", "license": "CDDL-1.0", "source": null },
            { "name": "bad", "version": "1.0.0", "license": "MIT", "source": "git+elsewhere" },
            { "name": "odd", "version": "1.0.0", "license": "CDDL-1.0", "source": "registry+here" },
            { "name": "odd", "version": "1.0.0", "license": null, "source": "registry+here" },
        ]);
        let (problems, warnings) = broken_rules(&rules, packages.as_array().unwrap()).unwrap();
        assert_eq!(
            problems,
            [
                "bad 1.0.0 comes from git+elsewhere",
                "odd 1.0.0 has the licence CDDL-1.0",
                "odd 1.0.0 names no licence",
            ]
        );
        assert_eq!(warnings, ["good is there 2 times: 1.0.0, 2.0.0"]);
        let need = |name: &str, optional: bool| {
            let needed = serde_json::json!([
                { "name": "rare", "kind": null, "optional": optional, "target": null },
            ]);
            serde_json::json!({ "name": name, "dependencies": needed })
        };
        let packages =
            [need("good", false), need("odd", false), need("other", true), need("bad", true)];
        assert_eq!(
            banned(&rules, &packages),
            ["bad is banned", "rare is banned, and odd depends on it"]
        );
    }
}
