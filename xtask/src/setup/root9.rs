//! Makes a dotnet root for 9.0.5 out of the self-contained application that carries that runtime.
//!
//! The application's `.deps.json` tells which of its files are which framework's: they are linked
//! (copied where links do not work) into `shared/<framework>/<version>/`, each with a `.deps.json`
//! that lists them. The muxer comes from the 3.1 root: `dotnet` loads any newer `libhostfxr.so`.

use super::Temporary;
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use testkit::{Cache, Runtime};

const VERSION: &str = "9.0.5";
const RID: &str = "linux-x64";
const FRAMEWORKS: [&str; 2] = ["Microsoft.NETCore.App", "Microsoft.AspNetCore.App"];

/// Builds the root unless it is there.
pub fn build(cache: &Cache) -> Result<()> {
    let root = cache.root(VERSION);
    if root.join(".unpacked").is_file() {
        return Ok(());
    }
    println!("setup: building the dotnet root {VERSION}");
    let app = cache.app("azmcp-0.5.0").join("dist");
    let deps: Value = serde_json::from_slice(&fs::read(app.join("azmcp.deps.json"))?)?;
    let parent = root.parent().context("the cache has no parent folder")?;
    let temporary = Temporary::new(parent, "root9")?;
    let new = temporary.0.join("root");
    for framework in FRAMEWORKS {
        let folder = new.join("shared").join(framework).join(VERSION);
        fs::create_dir_all(&folder)?;
        let files = files_of(&deps, framework)?;
        for group in ["runtime", "native"] {
            for name in files.get(group).and_then(Value::as_object).into_iter().flat_map(Map::keys)
            {
                let base = name.rsplit('/').next().unwrap_or(name);
                place(&app.join(base), &folder.join(base))?;
            }
        }
        let deps = serde_json::to_vec_pretty(&framework_deps(framework, files))?;
        fs::write(folder.join(format!("{framework}.deps.json")), deps)?;
    }
    let host = new.join("host/fxr").join(VERSION);
    fs::create_dir_all(&host)?;
    place(&app.join("libhostfxr.so"), &host.join("libhostfxr.so"))?;
    let muxer = Runtime::V3_1.executable();
    fs::copy(&muxer, new.join("dotnet"))
        .with_context(|| format!("cannot copy {}", muxer.display()))?;
    fs::write(new.join(".unpacked"), VERSION)?;
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    fs::rename(&new, &root)?;
    Ok(())
}

/// The files of one framework as the application's `.deps.json` lists them.
fn files_of<'a>(deps: &'a Value, framework: &str) -> Result<&'a Value> {
    let target = deps["targets"]
        .as_object()
        .and_then(|targets| targets.iter().find(|(name, _)| name.ends_with(&format!("/{RID}"))))
        .with_context(|| format!("the application's deps.json has no target for {RID}"))?;
    let library = format!("runtimepack.{framework}.Runtime.{RID}/{VERSION}");
    match target.1.get(&library) {
        Some(files) => Ok(files),
        None => bail!("the application's deps.json has no library {library}"),
    }
}

/// A framework's own `.deps.json`: one library that holds every file.
fn framework_deps(framework: &str, files: &Value) -> Value {
    let target = format!(".NETCoreApp,Version=v9.0/{RID}");
    let library = format!("{framework}.Runtime.{RID}/{VERSION}");
    json!({
        "runtimeTarget": { "name": target, "signature": "" },
        "targets": { target: { library.clone(): files } },
        "libraries": { library: { "type": "package", "serviceable": true, "sha512": "" } },
    })
}

fn place(from: &Path, to: &Path) -> Result<()> {
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framework_files_are_found_and_listed_again() {
        let deps = json!({ "targets": {
            ".NETCoreApp,Version=v9.0": {},
            ".NETCoreApp,Version=v9.0/linux-x64": {
                "runtimepack.Microsoft.NETCore.App.Runtime.linux-x64/9.0.5": { "runtime": { "A.dll": {} }, "native": { "libb.so": {} } },
            },
        }});
        let files = files_of(&deps, "Microsoft.NETCore.App").unwrap();
        let own = framework_deps("Microsoft.NETCore.App", files);
        let target = &own["targets"][".NETCoreApp,Version=v9.0/linux-x64"];
        assert!(
            target["Microsoft.NETCore.App.Runtime.linux-x64/9.0.5"]["runtime"]["A.dll"].is_object()
        );
        assert!(files_of(&deps, "Microsoft.AspNetCore.App").is_err());
    }
}
