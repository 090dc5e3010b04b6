//! Builds the agent library and puts it, compressed, where `src/agent.rs` embeds it. The JSON
//! Schemas in `schemas` are put, compressed, where `src/commands/schema.rs` embeds them.
//!
//! The agent is a `cdylib` of this workspace. Cargo cannot make one an input of another package
//! (artifact dependencies are not stable), so a nested cargo builds it: always as a release build,
//! for the same target, in a target directory of its own that all builds of this checkout share.
//! `CLRSCOPE_AGENT_PATH` names a ready file instead, for checks of targets that cannot be linked
//! here.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

const READY_FILE: &str = "CLRSCOPE_AGENT_PATH";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={READY_FILE}");
    match provide_agent().and_then(|()| provide_schemas()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            for line in cause.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn provide_agent() -> Result<(), String> {
    let agent = match env::var_os(READY_FILE) {
        Some(path) => {
            let path = PathBuf::from(path);
            println!("cargo::rerun-if-changed={}", path.display());
            path
        }
        None => build_agent()?,
    };
    let bytes = fs::read(&agent)
        .map_err(|error| format!("cannot read the agent library {}: {error}", agent.display()))?;
    let embedded = out_dir()?.join("agent.lz4");
    fs::write(&embedded, lz4_flex::block::compress_prepend_size(&bytes))
        .map_err(|error| format!("cannot write {}: {error}", embedded.display()))
}

fn provide_schemas() -> Result<(), String> {
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("schemas");
    println!("cargo::rerun-if-changed={}", folder.display());
    let failed = |error| format!("cannot embed {}: {error}", folder.display());
    let compressed = out_dir()?.join("schemas");
    fs::create_dir_all(&compressed).map_err(failed)?;
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let bytes = lz4_flex::block::compress_prepend_size(&fs::read(&path).map_err(failed)?);
        let name = path.file_stem().unwrap_or_default();
        fs::write(compressed.join(name).with_extension("lz4"), bytes).map_err(failed)?;
    }
    Ok(())
}

/// Builds the agent; the path of the library.
fn build_agent() -> Result<PathBuf, String> {
    let manifest_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let workspace = manifest_dir.ancestors().nth(2).ok_or("the workspace has no root")?.to_owned();
    let target = variable("TARGET")?;
    let target_dir = shared_target_dir(&out_dir()?, &target);
    // When it fails before its sources are known, it is tried again after any change here.
    println!("cargo::rerun-if-changed={}", workspace.join("crates/agent").display());
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.toml").display());
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.lock").display());

    let mut cargo = Command::new(variable("CARGO")?);
    cargo
        .args(["rustc", "--release", "--package", "agent", "--lib", "--target", &target])
        // What the nested build prints is shown when it fails; colour codes would be noise there.
        .args(["--color", "never", "--config", "profile.release.debug=false"])
        .args(["--config", "profile.release.strip='debuginfo'"])
        // What is loaded into other processes is fast; only this program is small.
        .args(["--config", "profile.release.opt-level=3", "--config", "profile.release.lto='thin'"])
        .args(["--config", "profile.release.codegen-units=4", "--target-dir"])
        .arg(&target_dir)
        .current_dir(&workspace)
        .stdin(Stdio::null());
    // A release is small; in tests, a debugger shows the names of the agent's functions. Cargo does
    // not take `strip='symbols'` for a library that is also an `rlib`.
    if variable("PROFILE")? == "release" && variable("CARGO_CFG_TARGET_OS")? == "linux" {
        cargo.args(["--", "-Clink-arg=-Wl,--strip-all"]);
    }
    isolate(&mut cargo);
    let output =
        cargo.output().map_err(|error| format!("cannot run cargo to build the agent: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "the agent library could not be built ({}); {READY_FILE}=<file> takes a ready one instead\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        ));
    }
    let release = target_dir.join(&target).join("release");
    let library = release.join(library_name(&variable("CARGO_CFG_TARGET_OS")?));
    if !library.is_file() {
        return Err(format!(
            "the build of the agent made no {}; does the target {target} have dynamic libraries?\n\
                {}",
            library.display(),
            String::from_utf8_lossy(&output.stderr).trim_end()
        ));
    }
    watch_sources(&library)?;
    Ok(library)
}

/// Keeps what cargo tells this script about its own build from the nested one.
fn isolate(cargo: &mut Command) {
    // Set by `cargo clippy` for the outer build; the agent is checked by its own clippy run.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS", "CLIPPY_CONF_DIR"] {
        cargo.env_remove(name);
    }
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if ["CARGO_CFG_", "CARGO_FEATURE_", "CARGO_PKG_", "CARGO_MANIFEST_", "DEP_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            cargo.env_remove(&*name);
        }
    }
    // A static C library leaves no dynamic one that the agent could be.
    if env::var_os("CARGO_CFG_TARGET_ENV").is_some_and(|env| env == "musl") {
        let mut flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
        if !flags.is_empty() {
            flags.push('\x1f');
        }
        flags.push_str("-Ctarget-feature=-crt-static");
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags);
    }
}

/// A directory beside the outer build's profiles (`target/clrscope-agent`), so that debug, release
/// and clippy builds share one agent; inside `OUT_DIR` where cargo's layout is another one.
fn shared_target_dir(out_dir: &Path, target: &str) -> PathBuf {
    let profile_dir = out_dir
        .ancestors()
        .find(|dir| dir.file_name().is_some_and(|name| name == "build"))
        .and_then(Path::parent);
    let root = profile_dir.and_then(Path::parent).map(|root| {
        // target/<triple>/<profile> when built with --target, target/<profile> otherwise.
        if root.file_name().is_some_and(|name| name == target) {
            root.parent().unwrap_or(root)
        } else {
            root
        }
    });
    match root {
        Some(root) => root.join("clrscope-agent"),
        None => out_dir.join("clrscope-agent"),
    }
}

/// Asks cargo to run this script again when a source of the agent changes. The nested cargo leaves
/// the list of those files, of all crates of this workspace that the agent is made of, beside the
/// library.
fn watch_sources(library: &Path) -> Result<(), String> {
    let list = library.with_extension("d");
    let text = fs::read_to_string(&list)
        .map_err(|error| format!("cannot read {}: {error}", list.display()))?;
    let mut manifests = BTreeSet::new();
    for source in dependencies(&text) {
        println!("cargo::rerun-if-changed={source}");
        manifests.extend(
            Path::new(&source)
                .ancestors()
                .map(|dir| dir.join("Cargo.toml"))
                .find(|manifest| manifest.is_file()),
        );
    }
    for manifest in manifests {
        println!("cargo::rerun-if-changed={}", manifest.display());
    }
    Ok(())
}

/// The prerequisites in a Makefile-style dependency file, where a space in a name is written `\ `.
fn dependencies(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((_, prerequisites)) = line.split_once(": ") else { continue };
        let mut name = String::new();
        let mut letters = prerequisites.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' if letters.peek() == Some(&' ') => {
                    letters.next();
                    name.push(' ');
                }
                ' ' => found.push(std::mem::take(&mut name)),
                _ => name.push(letter),
            }
        }
        found.push(name);
    }
    found.retain(|name| !name.is_empty());
    found
}

fn library_name(target_os: &str) -> &'static str {
    match target_os {
        "windows" => "clrscope_agent.dll",
        "macos" => "libclrscope_agent.dylib",
        _ => "libclrscope_agent.so",
    }
}

fn out_dir() -> Result<PathBuf, String> {
    variable("OUT_DIR").map(PathBuf::from)
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}
