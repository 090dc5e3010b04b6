//! `cargo xtask web`: builds the pages of the web UI, and checks that those that are checked in are
//! built from the sources.

use crate::tool;
use anyhow::{Context, Result, bail, ensure};
use flate2::{Compression, write::GzEncoder};
use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use testkit::source_root;

/// What npm may take to install, and a build to run.
const LIMIT: Duration = Duration::from_secs(600);

/// The Node that Vite needs, as major and minor version.
const NODE: (u32, u32) = (20, 19);

/// Bytes that the pages may have on their way to a browser, compressed: the goal of
/// `cargo xtask bench ui`.
const MOST_COMPRESSED: usize = 150_000;

fn web() -> PathBuf {
    source_root().join("web")
}

/// Builds the pages into the source tree.
///
/// # Errors
/// When a program is missing or fails.
pub fn build() -> Result<()> {
    prepare()?;
    npm(&["run", "build"])
}

/// Builds the pages, and compares them with those that are checked in. The latter are restored if
/// they differ.
///
/// # Errors
/// When they are not the same or too large, or the sources have errors.
pub fn check() -> Result<()> {
    let dist = web().join("dist");
    let before = files(&dist)?;
    build()?;
    let after = files(&dist)?;
    let names = before.keys().chain(after.keys());
    let mut different: Vec<&String> =
        names.filter(|name| before.get(*name) != after.get(*name)).collect();
    different.sort();
    different.dedup();
    if !different.is_empty() {
        restore(&dist, &before)?;
        bail!(
            "web/dist is not what web/src is built to ({}): run `cargo xtask web`, and check it in",
            different.into_iter().cloned().collect::<Vec<_>>().join(", ")
        );
    }
    let size: usize = after.values().map(Vec::len).sum();
    let sent = compressed(&after)?;
    println!(
        "web: {} files, {} kB, as checked in; {} kB are sent compressed",
        after.len(),
        size / 1000,
        sent / 1000
    );
    ensure!(
        sent <= MOST_COMPRESSED,
        "the pages have {sent} bytes compressed, more than {MOST_COMPRESSED}"
    );
    Ok(())
}

/// Bytes of what is sent to a browser that opens the pages for the first time: all but the files of
/// the one-file report.
fn compressed(files: &BTreeMap<String, Vec<u8>>) -> Result<usize> {
    let mut sum = 0;
    for (_, bytes) in files.iter().filter(|(name, _)| !name.starts_with("report.")) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes)?;
        sum += encoder.finish()?.len();
    }
    Ok(sum)
}

/// Installs the packages where they are not what the lockfile says, and checks the types.
fn prepare() -> Result<()> {
    node()?;
    install()?;
    npm(&["run", "check"])
}

/// Installs the packages of `web`, if they are not those of the lockfile.
///
/// # Errors
/// When npm is missing or fails.
pub fn install() -> Result<()> {
    let (lockfile, installed) =
        (web().join("package-lock.json"), web().join("node_modules/.clrscope-lockfile"));
    let wanted = fs::read(&lockfile).with_context(|| lockfile.display().to_string())?;
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    npm(&["ci", "--no-audit", "--no-fund"])?;
    fs::write(&installed, wanted).with_context(|| installed.display().to_string())
}

fn npm(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("npm");
    // Browsers are those of the system.
    command.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
    tool::run(command.args(arguments).current_dir(web()), LIMIT)
}

/// Checks that Node is new enough.
fn node() -> Result<()> {
    let said = tool::output(Command::new("node").arg("--version"), LIMIT)?;
    let version = version(&said).with_context(|| format!("`node --version` says {said}"))?;
    let (major, minor) = NODE;
    ensure!(version >= NODE, "Node {major}.{minor} or newer is needed, not {}", said.trim());
    Ok(())
}

/// Major and minor version in `v20.19.2`.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().trim_start_matches('v').split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Contents of all files of a folder that has no folders.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
    }
    Ok(files)
}

fn restore(folder: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    fs::remove_dir_all(folder)?;
    fs::create_dir(folder)?;
    files.iter().try_for_each(|(name, bytes)| Ok(fs::write(folder.join(name), bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_weighed_without_the_report() {
        let all = files(&web().join("dist")).unwrap();
        let sent = compressed(&all).unwrap();
        assert!((10_000..=MOST_COMPRESSED).contains(&sent), "{sent} bytes");
        let plain: usize = all.values().map(Vec::len).sum();
        assert!(sent < plain / 2, "{sent} of {plain}");
        let report = BTreeMap::from([("report.js".to_owned(), vec![0; 1000])]);
        assert_eq!(compressed(&report).unwrap(), 0);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("v20.19.2\n"), Some((20, 19)));
        assert_eq!(version("nonsense"), None);
        assert!(version("v22.3.0") >= Some(NODE) && version("v20.9.0") < Some(NODE));
    }
}
