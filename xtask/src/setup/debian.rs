//! Packages of the distribution: installed where that is possible, else the command is named.

use crate::tool;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What `apt-get install` may take at most.
const INSTALL_LIMIT: Duration = Duration::from_secs(900);

/// The command that a person would type to get these packages.
pub fn command_text(packages: &[&str]) -> String {
    format!("apt-get install -y --no-install-recommends {}", packages.join(" "))
}

/// Whether this process may install packages of the distribution.
pub fn may_install() -> bool {
    tool::find("apt-get").is_some() && tool::is_root()
}

/// Installs packages of the distribution, or fails with the command that does.
pub fn install(why: &str, packages: &[&str]) -> Result<()> {
    let text = command_text(packages);
    if !may_install() {
        let how = if tool::find("apt-get").is_some() {
            "this user may not install it"
        } else {
            "there is no apt-get"
        };
        bail!(
            "{why} is missing, and {how}. Run as root (or install the like by your own means):\n  {text}"
        );
    }
    println!("  {text}");
    if Path::new("/var/lib/apt/lists").read_dir().map_or(0, Iterator::count) < 4 {
        update()?;
    }
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(packages);
    if apt(&install).is_err() {
        // The package lists may be older than what the mirror still holds.
        update()?;
        apt(&install)?;
    }
    Ok(())
}

/// Brings the package lists up to date: those of an image may name versions from long ago.
pub fn update() -> Result<()> {
    apt(&["update"])
}

fn apt(arguments: &[&str]) -> Result<()> {
    tool::output(
        Command::new("apt-get")
            .args(["-o", "DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive"),
        INSTALL_LIMIT,
    )?;
    Ok(())
}
