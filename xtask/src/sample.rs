//! `cargo xtask sample`: a program with problems on purpose, to try clrscope on.

use crate::setup;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use testkit::{Runtime, Sample, samples};

/// Options.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Name of a folder in samples/
    name: String,
    /// Its arguments; its source says which there are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs it until it ends.
///
/// # Errors
/// When there is none of this name, or it fails.
pub fn run(options: &Options) -> Result<()> {
    setup::run()?;
    let known: Vec<_> = samples().iter().map(|sample| sample.name().to_owned()).collect();
    ensure!(known.contains(&options.name), "the samples are {}", known.join(", "));
    let launch = Sample::named(&options.name).launch(Runtime::V9, &options.arguments);
    let status = launch.command().status().context("the sample cannot be started")?;
    ensure!(status.success(), "the sample ended with {status}");
    Ok(())
}
