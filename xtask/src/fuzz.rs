//! `cargo xtask fuzz`: what reads bytes of others gets those that nobody has thought of.
//!
//! Coverage leads to the inputs, so this needs cargo-fuzz and a C++ compiler. The same targets are
//! run without both by `cargo test -p rules --test fuzz`.

use crate::tool::{self, cargo};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::fs;
use std::time::Duration;
use testkit::source_root;

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Longest input that is made, in bytes; most memory that one may take, in MB. As in
/// crates/rules/tests/fuzz.rs, but for what the fuzzer itself takes.
const LIMITS: [&str; 2] = ["-max_len=4096", "-rss_limit_mb=2048"];

/// What is run for how long.
#[derive(Args, Debug)]
pub struct Options {
    /// For how long each target is run
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Only these targets, of those in fuzz/fuzz_targets
    targets: Vec<String>,
}

/// Runs the targets one after the other. One with a fault ends it, with the input saved in
/// fuzz/artifacts.
pub fn run(options: &Options) -> Result<()> {
    if tool::find("cargo-fuzz").is_none() {
        bail!("cargo-fuzz is not installed: run `cargo install --locked cargo-fuzz`");
    }
    let known = targets()?;
    if let Some(unknown) = options.targets.iter().find(|target| !known.contains(target)) {
        bail!("there is no fuzz target {unknown}; there are: {}", known.join(", "));
    }
    // Packed inputs become single files, as the fuzzer wants them.
    let mut unpack = cargo();
    unpack
        .args(["test", "--quiet", "-p", "rules", "--test", "fuzz"])
        .env("CLRSCOPE_FUZZ_UNPACK", "1");
    tool::run(&mut unpack, BUILD_LIMIT)?;
    let seconds = options.minutes * 60;
    for target in
        known.iter().filter(|target| options.targets.is_empty() || options.targets.contains(target))
    {
        let inputs = format!("fuzz/unpacked/{target}");
        let mut fuzz = cargo();
        // Instrumented code needs options of the compiler that are not stable; with this a stable
        // one has them, too.
        fuzz.env("RUSTC_BOOTSTRAP", "1").args(["fuzz", "run", target, &inputs, "--"]);
        fuzz.arg(format!("-max_total_time={seconds}")).args(LIMITS);
        println!("fuzz: {}", tool::shown(&fuzz));
        tool::run(&mut fuzz, BUILD_LIMIT + Duration::from_secs(2 * seconds)).with_context(
            || {
                format!(
                    "{target}: the input is in fuzz/artifacts/{target}, unless it could not be \
                built"
                )
            },
        )?;
    }
    Ok(())
}

/// Names of all targets.
fn targets() -> Result<Vec<String>> {
    let folder = source_root().join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let names =
        entries.flatten().filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    ensure!(!names.is_empty(), "there is no fuzz target in {}", folder.display());
    Ok(names)
}
