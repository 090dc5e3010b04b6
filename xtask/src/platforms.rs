//! `cargo xtask check-platforms`: type-checks the code for platforms that nobody here runs.
//!
//! A toolchain that has the target's standard library (`rustup target add …`) checks directly.
//! Where there is none, Debian's own compiler does it: its package `rust-web-src` holds the source
//! of the very same version, so that cargo builds the standard library for any target
//! (`-Zbuild-std`). No linker and no C compiler is needed.

use crate::outcome::Outcome;
use crate::setup::debian;
use crate::tool::{self, cargo};
use anyhow::{Context, Result, bail};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::source_root;

/// What is checked for a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Every crate and every target of it that does not need a test harness of its own.
    Everything,
    /// Only these crates.
    Only(&'static [&'static str]),
}

struct Platform {
    triple: &'static str,
    scope: Scope,
}

const PLATFORMS: &[Platform] = &[
    Platform { triple: "x86_64-pc-windows-gnu", scope: Scope::Everything },
    Platform { triple: "aarch64-unknown-linux-gnu", scope: Scope::Everything },
    Platform { triple: "x86_64-unknown-linux-musl", scope: Scope::Everything },
    Platform { triple: "aarch64-apple-darwin", scope: Scope::Everything },
    // The only platform where the calling convention of COM is not the one of C.
    Platform { triple: "i686-pc-windows-gnu", scope: Scope::Only(&["com", "corprof"]) },
];

/// Debian's packages: the compiler, its cargo, the source of its standard library, and `dlltool`,
/// which makes the import libraries that the standard library of Windows wants.
const PACKAGES: &[&str] = &[
    "rustc-web",
    "cargo-web",
    "rust-web-src",
    "binutils-mingw-w64-x86-64",
    "binutils-mingw-w64-i686",
];

const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// Five targets with cold standard libraries take about six minutes on two cores. Beside tests, a
/// check gets only the time that they leave, so this limit is that of a whole run.
const LIMIT: Duration = Duration::from_secs(50 * 60);
const PROBE: Duration = Duration::from_secs(30);

/// What to do where no compiler can check foreign targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Fail with the command that helps.
    Fail,
    /// Say so and continue, but only where nothing can be installed: where it can, that is a
    /// failure as well.
    NotRun,
}

/// Checks every platform.
pub fn check(missing: Missing) -> Result<Outcome> {
    let foreign: Vec<&Platform> =
        PLATFORMS.iter().filter(|platform| !has_standard_library(platform.triple)).collect();
    if !foreign.is_empty()
        && let Err(error) = debian_compiler()
    {
        return match missing {
            Missing::NotRun if !debian::may_install() => Ok(Outcome::NotRun(format!("{error:#}"))),
            Missing::Fail | Missing::NotRun => Err(error),
        };
    }
    // A folder of its own, so that checks and ordinary builds do not throw away each other's
    // results.
    let target = tool::target_folder().join("platforms");
    fs::create_dir_all(&target)?;
    let by_debian =
        |platform: &Platform| foreign.iter().any(|other| other.triple == platform.triple);
    // Those that one command can check are checked side by side: the first crates of a standard
    // library keep one processor busy only.
    let mut groups: Vec<Vec<&Platform>> = Vec::new();
    for platform in PLATFORMS {
        let alike = |group: &&mut Vec<&Platform>| {
            group[0].scope == platform.scope && by_debian(group[0]) == by_debian(platform)
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(platform),
            None => groups.push(vec![platform]),
        }
    }
    let mut failed = Vec::new();
    for group in groups {
        let started = Instant::now();
        let triples = |platforms: &[&Platform]| {
            platforms.iter().map(|platform| platform.triple).collect::<Vec<_>>()
        };
        if tool::status(&mut command(&group, by_debian(group[0]), &target)?, LIMIT)?.success() {
            println!(
                "{}: checked in {:.0} s",
                triples(&group).join(", "),
                started.elapsed().as_secs_f64()
            );
            continue;
        }
        // Which of them it is, each says by itself; what is right has been done already.
        for platform in group {
            if !tool::status(&mut command(&[platform], by_debian(platform), &target)?, LIMIT)?
                .success()
            {
                failed.push(platform.triple);
            }
        }
    }
    if !failed.is_empty() {
        bail!("the code does not compile for {}", failed.join(", "));
    }
    Ok(Outcome::Done)
}

/// Whether the toolchain in use can check for this target as it is.
fn has_standard_library(triple: &str) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    tool::output(Command::new(rustc).args(["--print", "target-libdir", "--target", triple]), PROBE)
        .is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

/// Checks platforms of one scope.
fn command(platforms: &[&Platform], debian: bool, target: &Path) -> Result<Command> {
    let mut command = if debian { Command::new(DEBIAN_CARGO) } else { cargo() };
    command.current_dir(source_root()).args(["check", "--quiet", "--keep-going"]);
    command.args(platforms.iter().flat_map(|platform| ["--target", platform.triple]));
    match platforms[0].scope {
        Scope::Everything => command.args(["--workspace", "--exclude", "xtask"]),
        Scope::Only(packages) => {
            command.args(packages.iter().flat_map(|package| ["--package", package]))
        }
    };
    command.env("CARGO_TARGET_DIR", target);
    command.env("CARGO_INCREMENTAL", "0");
    for platform in platforms {
        let mut flags = Vec::new();
        if platform.triple.ends_with("-musl") {
            // Only code that links the C library dynamically can be a library that a process loads.
            flags.push("-Ctarget-feature=-crt-static");
        }
        if debian {
            // Even for a check cargo builds the standard library as a whole, which takes more than
            // twice as long.
            flags.push("-Zno-codegen");
        }
        let variable =
            format!("CARGO_TARGET_{}_RUSTFLAGS", platform.triple.replace('-', "_").to_uppercase());
        command.env(variable, flags.join(" "));
    }
    // The program carries the agent; a check needs no real one.
    let agent = target.join("no-agent");
    if !agent.is_file() {
        fs::write(&agent, b"")?;
    }
    command.env("CLRSCOPE_AGENT_PATH", agent);
    if debian {
        command.arg("-Zbuild-std=std,panic_abort");
        // Optimised is only what runs, and of this nothing does.
        command.args([
            "--config",
            "profile.dev.package.'*'.opt-level=0",
            "--config",
            "profile.dev.debug=0",
        ]);
        command
            .env("RUSTC", DEBIAN_RUSTC)
            .env("RUSTDOC", "/usr/bin/rustdoc")
            .env("RUSTC_BOOTSTRAP", "1");
        for variable in
            ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTUP_HOME", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"]
        {
            command.env_remove(variable);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(
            [PathBuf::from("/usr/bin")].into_iter().chain(env::split_paths(&path)),
        )?;
        command.env("PATH", path);
    }
    Ok(command)
}

/// Makes sure of a compiler of the distribution that is new enough and has the source of its
/// standard library.
fn debian_compiler() -> Result<()> {
    if usable().is_err() {
        // The first release of the distribution has an older compiler of the same package name;
        // only fresh lists know the newer one.
        if debian::may_install() {
            debian::update()?;
        }
        debian::install("a compiler with the source of its standard library", PACKAGES)?;
    }
    usable().with_context(|| format!("the packages {} do not fit together", PACKAGES.join(", ")))
}

fn usable() -> Result<()> {
    let text = tool::output(Command::new(DEBIAN_RUSTC).arg("--version"), PROBE)?;
    let found = version(&text).with_context(|| format!("{DEBIAN_RUSTC} says: {text}"))?;
    let wanted =
        version(env!("CARGO_PKG_RUST_VERSION")).context("the workspace has no rust-version")?;
    if found < wanted {
        bail!("{DEBIAN_RUSTC} is {}.{}, needed is {}.{}", found.0, found.1, wanted.0, wanted.1);
    }
    let sysroot = tool::output(Command::new(DEBIAN_RUSTC).args(["--print", "sysroot"]), PROBE)?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/std");
    if !library.is_dir() {
        bail!("the source of its standard library is missing ({})", library.display());
    }
    for dlltool in ["x86_64-w64-mingw32-dlltool", "i686-w64-mingw32-dlltool"] {
        tool::find(dlltool).with_context(|| format!("{dlltool} is missing"))?;
    }
    Path::new(DEBIAN_CARGO)
        .is_file()
        .then_some(())
        .with_context(|| format!("{DEBIAN_CARGO} is missing"))
}

/// The first two numbers of a version such as `rustc 1.96.0 (…)` or `1.95`.
fn version(text: &str) -> Option<(u32, u32)> {
    let word =
        text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split('.').map(|number| number.parse::<u32>());
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_both_spellings() {
        assert_eq!(
            version("rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)"),
            Some((1, 96))
        );
        assert_eq!(version("1.95"), Some((1, 95)));
        assert_eq!(version("nothing"), None);
        assert!(version("1.100.0") > version("1.95.0"));
    }

    #[test]
    fn the_promised_platforms_are_checked_whole() {
        for triple in [
            "x86_64-pc-windows-gnu",
            "aarch64-unknown-linux-gnu",
            "x86_64-unknown-linux-musl",
            "aarch64-apple-darwin",
        ] {
            let platform = PLATFORMS.iter().find(|platform| platform.triple == triple).unwrap();
            assert!(matches!(platform.scope, Scope::Everything), "{triple}");
        }
    }
}
