//! `clrscope completions`: for the shell.

use crate::{console, exit::Code};
use clap::CommandFactory;

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Shell to write for
    shell: clap_complete::Shell,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let mut script = Vec::new();
    let mut command = crate::Cli::command();
    clap_complete::generate(args.shell, &mut command, "clrscope", &mut script);
    console::print(&String::from_utf8(script)?)?;
    Ok(Code::Success)
}
