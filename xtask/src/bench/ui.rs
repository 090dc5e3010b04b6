//! The web pages in headless Chromium: how soon a large session is there, how smooth a very large
//! one is, and what both need.

use super::BUILD_LIMIT;
use super::observe::memory;
use super::table::{Goal, Row};
use crate::tool::{self, cargo};
use crate::web;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::source_root;

/// For `--only`.
pub const NAME: &str = "web pages";

/// What a run may take.
const LIMIT: Duration = Duration::from_secs(600);

/// What `web/bench/ui.mjs` prints: milliseconds and bytes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    first: f64,
    open: f64,
    again: f64,
    open_large: f64,
    frames: usize,
    p95: f64,
    heap: f64,
    assets: f64,
}

/// Makes a session of samples with so many distinct stacks.
fn write(session: &Path, samples: &str, stacks: &str) -> Result<()> {
    let mut write = cargo();
    write.args(["run", "--quiet", "--release", "-p", "report", "--example", "large_session"]);
    write.args(["--", "write"]).arg(session).args([samples, stacks]);
    tool::output(&mut write, BUILD_LIMIT)?;
    Ok(())
}

/// Serves two sessions and looks at them.
///
/// # Errors
/// When something fails.
pub fn run() -> Result<Vec<Row>> {
    web::install()?;
    let folder = tempfile::tempdir()?;
    let sessions = folder.path().join("sessions");
    std::fs::create_dir(&sessions)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&sessions, std::fs::Permissions::from_mode(0o700))?;
    }
    write(&sessions.join("large.clrscope"), "10000000", "100000")?;
    write(&sessions.join("million.clrscope"), "10000000", "1000000")?;
    let mut serve = Command::new(tool::clrscope());
    serve.arg("serve").arg("--sessions").arg(&sessions);
    serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = serve.spawn().context("cannot start clrscope")?;
    let mut url = String::new();
    BufReader::new(server.stdout.take().context("no output")?).read_line(&mut url)?;
    let measure = |sessions: [&str; 2], url: &str| -> Result<Measured> {
        let mut node = Command::new("node");
        node.arg("bench/ui.mjs").arg(url).args(sessions).current_dir(source_root().join("web"));
        Ok(serde_json::from_str(&tool::output(&mut node, LIMIT)?)?)
    };
    let measured = measure(["large", "million"], url.trim());
    let peak = memory(server.id(), "VmHWM").unwrap_or(0) as f64 / 1e6;
    tool::interrupt(&server)?;
    tool::wait(&mut server, Duration::from_secs(30))?;
    Ok(rows(&measured?, peak))
}

fn rows(of: &Measured, peak: f64) -> Vec<Row> {
    let ms = |what: &str, value: f64, more: String, goal: Goal| {
        Row::new(format!("{NAME}: {what}"), "·", value, format!("{value:.0} ms{more}"), goal)
    };
    vec![
        ms("first page usable", of.first, String::new(), Goal::only(500.0, "ms")),
        ms(
            "10 M samples, 100,000 stacks: opened and painted",
            of.open,
            format!(", again {:.0} ms", of.again),
            Goal::only(1000.0, "ms"),
        ),
        Row::told(
            format!("{NAME}: 10 M samples, 1 M stacks: opened and painted"),
            "·",
            format!("{:.0} ms", of.open_large),
        ),
        Row::new(
            format!("{NAME}: 1 M stacks: 95 % of frames while zooming and scrolling"),
            "·",
            of.p95,
            format!("{:.1} ms, {} frames", of.p95, of.frames),
            Goal::only(18.0, "ms"),
        ),
        Row::new(
            format!("{NAME}: heap of the browser"),
            "·",
            of.heap / 1e6,
            format!("{:.0} MB", of.heap / 1e6),
            Goal::only(150.0, "MB"),
        ),
        Row::told(
            format!("{NAME}: peak memory of the server with both sessions"),
            "·",
            format!("{peak:.0} MB"),
        ),
        Row::new(
            format!("{NAME}: assets, compressed"),
            "·",
            of.assets / 1e3,
            format!("{:.0} kB", of.assets / 1e3),
            Goal::only(150.0, "kB"),
        ),
    ]
}
