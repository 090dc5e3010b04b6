//! `cargo xtask pictures`: follows the section "Two minutes in the browser" of the README in a real
//! browser, on a real process, and takes the pictures of the pages that it shows.

use crate::{setup, tool, tool::cargo, web};
use anyhow::{Context, Result};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::{Runtime, Sample, source_root};

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// What the walk through the pages may take.
const LIMIT: Duration = Duration::from_secs(300);

/// The arguments of the sample are those in the README.
const SICK: [&str; 4] = ["--ill", "hot-lock", "--seconds", "900"];

/// Takes the pictures.
///
/// # Errors
/// When a step cannot be followed.
pub fn run() -> Result<()> {
    setup::run()?;
    web::install()?;
    tool::run(cargo().args(["build", "--release"]), BUILD_LIMIT)?;
    let mut sick = Sample::named("clinic").start(Runtime::V9, &SICK);
    sick.wait_for_ready();
    let sessions = tempfile::tempdir()?;
    // There is no browser to open: the address is printed, as for whoever sits elsewhere.
    let mut ui = Command::new(tool::clrscope());
    ui.args(["ui", "--sessions"]).arg(sessions.path().join("sessions")).env("BROWSER", "false");
    let mut ui = ui.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut url = String::new();
    BufReader::new(ui.stdout.take().context("no output")?).read_line(&mut url)?;
    let mut node = Command::new("node");
    node.args(["bench/pictures.mjs", url.trim()]).arg(source_root().join("docs/images"));
    let followed = tool::run(node.current_dir(source_root().join("web")), LIMIT);
    tool::interrupt(&ui)?;
    tool::wait(&mut ui, Duration::from_secs(30))?;
    followed
}
