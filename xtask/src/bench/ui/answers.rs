//! What answers while somebody waits: thread dumps, and the tools for assistants.

use super::super::table::{Distribution, Goal, Row};
use crate::tool;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Runtime, Sample};

/// For `--only`.
pub const STACKS: &str = "stacks of 200 threads";
/// For `--only`.
pub const ASSISTANT: &str = "assistant: bytes to a right diagnosis";

/// Threads of the sample that only sleep; some others make it 200.
const SLEEPERS: &str = "192";

/// How long the sample works.
const SECONDS: &str = "8";

/// Thread dumps.
const DUMPS: usize = 8;

/// What one command may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a dump takes, and for how long the thread that works is held up at most: beside what
/// holds it up without dumps.
///
/// # Errors
/// When a dump fails, or does not have the threads.
pub fn stacks(runtime: Runtime) -> Result<Vec<Row>> {
    let gap = |dumps: usize| -> Result<(f64, Vec<f64>)> {
        let mut target =
            Sample::named("waiter").start(runtime, &["--threads", SLEEPERS, "--seconds", SECONDS]);
        target.wait_for_ready();
        let mut times = Vec::new();
        for _ in 0..dumps {
            let mut dump = Command::new(tool::clrscope());
            dump.args(["stacks", &target.pid().to_string(), "--json"]);
            let begun = Instant::now();
            let said: Value = serde_json::from_str(&tool::output(&mut dump, LIMIT)?)?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            let threads = said["threads"].as_array().map_or(0, Vec::len);
            ensure!(threads >= 200, "the dump has {threads} threads");
        }
        let truth = target.truth(LIMIT);
        let gap = truth["longest_gap_ns"].as_f64().context("the sample says no gap")?;
        Ok((gap / 1e6, times))
    };
    let (without, _) = gap(0)?;
    let (with, times) = gap(DUMPS)?;
    let times = Distribution::of(times);
    let time = times.median();
    Ok(vec![
        Row::new(
            format!("{STACKS}: time"),
            runtime,
            time,
            format!("{time:.0} ms"),
            Goal::only(300.0, "ms"),
        ),
        Row::new(
            format!("{STACKS}: longest pause of a thread that works"),
            runtime,
            with,
            format!("{with:.1} ms, {without:.1} ms without dumps"),
            Goal::only(5.0, "ms"),
        ),
    ])
}

/// A scripted client of `clrscope mcp`, which counts what it receives.
struct Client {
    server: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    received: usize,
}

impl Client {
    fn start() -> Result<Self> {
        let sessions = tempfile::tempdir()?;
        let mut command = Command::new(tool::clrscope());
        command.args(["mcp", "--sessions"]).arg(sessions.path().join("sessions"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().context("cannot start clrscope")?;
        let input = server.stdin.take().context("no input")?;
        let output = BufReader::new(server.stdout.take().context("no output")?).lines();
        let mut client = Self { server, input, output, received: 0 };
        client.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }),
        )?;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(client.input, "{initialized}")?;
        client.ask("tools/list", json!({}))?;
        Ok(client)
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        let line = self.output.next().context("the server ended")??;
        self.received += line.len() + 1;
        Ok(serde_json::from_str(&line)?)
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}))?;
        Ok(answer["result"].clone())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Bytes that a client receives until it knows the culprit of a sick sample and what to do: it
/// makes the calls that answers suggest. `cargo nextest run -p cli --test mcp` does so for every
/// illness.
///
/// # Errors
/// When the diagnosis is wrong.
pub fn assistant(runtime: Runtime) -> Result<Vec<Row>> {
    let mut target = Sample::named("clinic")
        .launch(runtime, &["--ill", "hot-lock", "--seconds", "100"])
        .private_tmp()
        .start();
    target.wait_for_ready();
    let mut client = Client::start()?;
    let greeting = client.received;
    let checkup = client.call("checkup", &json!({"pid": target.pid(), "seconds": 6}))?;
    let worst = &checkup["structuredContent"]["findings"][0];
    ensure!(
        worst["id"] == "hot-lock"
            && worst["culprit"].as_str().is_some_and(|own| own.contains("HotLock.Reserve")),
        "the diagnosis is wrong: {worst}"
    );
    let text = checkup["content"][0]["text"].as_str().context("no text")?;
    let steps = text.lines().filter_map(|line| {
        let step = line.strip_prefix("Next: ").or_else(|| line.strip_prefix("- or: "))?;
        let (tool, arguments) = step.split_once(' ')?;
        Some((tool.to_owned(), serde_json::from_str::<Value>(arguments).ok()?))
    });
    let steps: Vec<_> = steps.collect();
    for (tool, arguments) in &steps {
        let said = client.call(tool, arguments)?;
        ensure!(said["isError"] != true, "{tool}: {said}");
        if tool == "explain" {
            break;
        }
    }
    let bytes = client.received as f64;
    let measured = format!("{bytes:.0} B, of which {greeting} B list the tools");
    Ok(vec![Row::new(ASSISTANT, runtime, bytes, measured, Goal::only(16384.0, "B"))])
}
