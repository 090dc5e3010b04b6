//! The web pages in headless Chromium: how soon a large session is there, how smooth a very large
//! one is, and what both need; what a live page costs. Beside them what else answers while somebody
//! waits: thread dumps, and the tools for assistants.

mod answers;

pub use answers::{ASSISTANT, STACKS, assistant, stacks};

use super::BUILD_LIMIT;
use super::observe::memory;
use super::table::{Goal, Row};
use crate::tool::{self, cargo};
use crate::web;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample, source_root};

/// For `--only`.
pub const LARGE: &str = "web pages: large sessions";
/// For `--only`.
pub const SMOOTH: &str = "web pages: 1 M stacks";
/// For `--only`.
pub const EXTREME: &str = "web pages: extreme sessions";
/// For `--only`.
pub const LIVE: &str = "web pages: live";

/// What a script in the browser may take.
const LIMIT: Duration = Duration::from_secs(600);

/// For how long a live page is watched.
const WATCHED: Duration = Duration::from_secs(10);

/// A server with sessions of its own, so that its memory is that for them.
struct Serving {
    server: Child,
    /// With a token that lets one browser in.
    url: String,
    folder: tempfile::TempDir,
}

impl Serving {
    fn start(fill: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let sessions = folder.path().join("sessions");
        fs::create_dir(&sessions)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&sessions, fs::Permissions::from_mode(0o700))?;
        }
        fill(&sessions)?;
        let mut serve = Command::new(tool::clrscope());
        serve.arg("serve").arg("--sessions").arg(&sessions);
        serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = serve.spawn().context("cannot start clrscope")?;
        let mut url = String::new();
        BufReader::new(server.stdout.take().context("no output")?).read_line(&mut url)?;
        Ok(Self { server, url: url.trim().to_owned(), folder })
    }

    fn session(&self, name: &str) -> PathBuf {
        self.folder.path().join("sessions").join(format!("{name}.clrscope"))
    }

    /// Runs a part of `web/bench/ui.mjs`.
    fn browse<T: DeserializeOwned>(&self, part: &str, about: &str) -> Result<T> {
        let said = tool::output(&mut node(part, &self.url, about), LIMIT)?;
        serde_json::from_str(&said).with_context(|| format!("{part} printed {said}"))
    }

    /// Peak of the server's memory, in MB.
    fn peak(&self) -> f64 {
        memory(self.server.id(), "VmHWM").unwrap_or(0) as f64 / 1e6
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // What was measured is known; the sessions go as well.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn node(part: &str, url: &str, about: &str) -> Command {
    let mut node = Command::new("node");
    node.args(["bench/ui.mjs", part, url, about]).current_dir(source_root().join("web"));
    node
}

/// Makes a session with the example of the crate `report`.
fn make(session: &Path, what: &str, numbers: &[&str]) -> Result<()> {
    let mut write = cargo();
    write.args(["run", "--quiet", "--release", "-p", "report", "--example", "large_session"]);
    write.args(["--", what]).arg(session).args(numbers);
    tool::output(&mut write, BUILD_LIMIT)?;
    Ok(())
}

/// A row of milliseconds.
fn ms(what: &str, value: f64, more: &str, goal: Goal) -> Row {
    Row::new(what, "·", value, format!("{value:.0} ms{more}"), goal)
}

/// A row of megabytes.
fn mb(what: &str, value: f64, most: f64) -> Row {
    Row::new(what, "·", value, format!("{value:.0} MB"), Goal::only(most, "MB"))
}

/// What the part `open` prints: milliseconds and bytes.
#[derive(Deserialize)]
struct Opened {
    first: f64,
    open: f64,
    again: f64,
    heap: f64,
    assets: f64,
}

/// How soon the first page and large sessions are there.
///
/// # Errors
/// When something fails.
pub fn large() -> Result<Vec<Row>> {
    web::install()?;
    let serving =
        Serving::start(|folder| make(&folder.join("large.clrscope"), "write", &["10000000"]))?;
    let opened: Opened = serving.browse("open", "large")?;
    let peak = serving.peak();
    drop(serving);
    // With so many samples, its JSON for the Firefox Profiler is about as large as asked for.
    let serving =
        Serving::start(|folder| make(&folder.join("heavy.clrscope"), "write", &["25000000"]))?;
    let heavy: Opened = serving.browse("open", "heavy")?;
    let json = serving.folder.path().join("heavy.json");
    let mut convert = Command::new(tool::clrscope());
    convert.arg("report").arg(serving.session("heavy")).args(["--format", "firefox", "-o"]);
    tool::output(convert.arg(&json), LIMIT)?;
    let json = json.metadata()?.len() as f64 / 1e6;
    let again = format!(", again {:.0} ms", opened.again);
    Ok(vec![
        ms("first page usable, cold", opened.first, "", Goal::only(500.0, "ms")),
        Row::new(
            "assets, compressed",
            "·",
            opened.assets / 1e3,
            format!("{:.0} kB", opened.assets / 1e3),
            Goal::only(150.0, "kB"),
        ),
        ms(
            "10 M samples, 100,000 stacks: opened and painted",
            opened.open,
            &again,
            Goal::only(1000.0, "ms"),
        ),
        mb("10 M samples, 100,000 stacks: heap of the browser", opened.heap / 1e6, 150.0),
        mb("10 M samples, 100,000 stacks: peak memory of the server", peak, 400.0),
        ms(
            "25 M samples: opened and painted",
            heavy.open,
            &format!("; as JSON it is {json:.0} MB"),
            Goal::only(2000.0, "ms"),
        ),
    ])
}

/// What the part `smooth` prints: milliseconds and bytes.
#[derive(Deserialize)]
struct Smooth {
    open: f64,
    frames: usize,
    p95: f64,
    heap: f64,
}

/// How smooth zooming and scrolling are.
///
/// # Errors
/// When something fails.
pub fn smooth() -> Result<Vec<Row>> {
    web::install()?;
    let numbers = ["10000000", "1000000"];
    let serving =
        Serving::start(|folder| make(&folder.join("million.clrscope"), "write", &numbers))?;
    let smooth: Smooth = serving.browse("smooth", "million")?;
    let frames = format!("{:.1} ms, {} frames", smooth.p95, smooth.frames);
    let goal = Goal::only(18.0, "ms");
    Ok(vec![
        Row::told(
            "1 M stacks, 10 M samples: opened and painted",
            "·",
            format!("{:.0} ms", smooth.open),
        ),
        Row::new(
            "1 M stacks: 95 % of frames in zooming and panning",
            "·",
            smooth.p95,
            frames,
            goal,
        ),
        mb("1 M stacks: heap of the browser", smooth.heap / 1e6, 150.0),
        mb("1 M stacks: peak memory of the server", serving.peak(), 400.0),
    ])
}

/// What the part `extreme` prints: milliseconds.
#[derive(Deserialize)]
struct Extreme {
    open: f64,
    deepest: f64,
    last: f64,
    zoomed: f64,
}

/// Whether what other viewers fail at can be used.
///
/// # Errors
/// When it cannot.
pub fn extreme() -> Result<Vec<Row>> {
    web::install()?;
    let serving = Serving::start(|folder| make(&folder.join("extreme.clrscope"), "extreme", &[]))?;
    let Extreme { open, deepest, last, zoomed } = serving.browse("extreme", "extreme")?;
    let row = |what, value| ms(what, value, "", Goal::only(2000.0, "ms"));
    Ok(vec![
        row("depth 50,000, 10,000 methods, names of 4 kB: opened and painted", open),
        row("depth 50,000: scrolled to the deepest frame", deepest),
        row("10,000 rows: moved to the last one by keyboard", last),
        row("name of 4 kB: zoomed to", zoomed),
    ])
}

/// What a live page costs, in percent of a processor: the server and the target with the recording
/// alone, and with the page.
///
/// # Errors
/// When something fails.
pub fn live() -> Result<Vec<Row>> {
    web::install()?;
    let mut target = Sample::named("steady").start::<&str>(Runtime::V9, &[]);
    target.wait_for_ready();
    let serving = Serving::start(|_| Ok(()))?;
    let mut watching = node("live", &serving.url, &target.pid().to_string());
    let watching = watching.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut browser = watching.spawn().context("cannot start node")?;
    let mut said = BufReader::new(browser.stdout.take().context("no output")?).lines();
    let mut next = || anyhow::Ok(said.next().context("the browser ended")??);
    let expect = |line: &str, word: &str| -> Result<()> {
        ensure!(line == word, "the browser says {line} instead of {word}");
        Ok(())
    };
    expect(&next()?, "recording")?;
    thread::sleep(Duration::from_secs(2));
    let processes = [serving.server.id(), target.pid()];
    let [server_alone, target_alone] = shares(processes)?;
    let input = browser.stdin.as_mut().context("no input")?;
    input.write_all(b"open\n")?;
    expect(&next()?, "open")?;
    let [server, observed] = shares(processes)?;
    input.write_all(b"rate\n")?;
    let rate: f64 = next()?.parse().context("the browser says no rate")?;
    drop(browser.stdin.take());
    tool::wait(&mut browser, Duration::from_secs(60))?;
    target.kill();
    let more = observed - target_alone;
    Ok(vec![
        Row::new(
            "live page: the whole server",
            Runtime::V9,
            server,
            format!("{server:.1} % of a processor, {server_alone:.1} % without the page"),
            Goal::only(5.0, "%"),
        ),
        Row::new(
            "live page: the process, beyond the recording",
            Runtime::V9,
            more,
            format!("{more:+.1} % of a processor; {target_alone:.1} % without the page"),
            Goal::only(1.0, "%"),
        ),
        // Less is better in this table, so this is the time between two changes.
        Row::new(
            "live page: time between two changes",
            Runtime::V9,
            1000.0 / rate,
            format!("{:.0} ms: {rate:.1} changes per second", 1000.0 / rate),
            Goal::only(125.0, "ms"),
        ),
    ])
}

/// Percent of a processor that each process uses, over some seconds.
fn shares(processes: [u32; 2]) -> Result<[f64; 2]> {
    let used = |pid: u32| {
        let usage = diagnostics::usage(pid);
        usage.map(|usage| usage.cpu).with_context(|| format!("process {pid} has ended"))
    };
    let (begun, before) = (Instant::now(), [used(processes[0])?, used(processes[1])?]);
    thread::sleep(WATCHED);
    let after = [used(processes[0])?, used(processes[1])?];
    let seconds = begun.elapsed().as_secs_f64();
    let share = |at: usize| after[at].saturating_sub(before[at]).as_secs_f64() * 100.0 / seconds;
    Ok([share(0), share(1)])
}
