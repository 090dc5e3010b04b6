//! How fast method bodies are checked, read and written, and wrapped: by a program of its own
//! beside dotscope, which nothing else here depends on.

use super::BUILD_LIMIT;
use super::table::{Distribution, Goal, Row};
use crate::tool::{self, cargo};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use testkit::{Host, Runtime};

/// For `--only`.
pub const NAME: &str = "IL of System.Private.CoreLib";

/// The assembly whose bodies are taken.
const ASSEMBLY: &str = "System.Private.CoreLib.dll";

/// What all rounds may take.
const LIMIT: Duration = Duration::from_secs(120);

/// How often each thing is done, in turns; the figure is the median.
const ROUNDS: &str = "15";

/// Builds the program and runs it.
///
/// # Errors
/// When it cannot be built, or a body is not taken.
pub fn run(runtime: Runtime) -> Result<Vec<Row>> {
    let Host::Muxer { framework, .. } = runtime.require().host() else {
        anyhow::bail!("{runtime} has no folder of assemblies")
    };
    let root = testkit::source_root();
    let target = tool::target_folder().join("rivals");
    let mut build = cargo();
    build.args(["build", "--release", "--quiet", "--locked", "--manifest-path"]);
    tool::run(
        build.arg(root.join("xtask/rivals/Cargo.toml")).arg("--target-dir").arg(&target),
        BUILD_LIMIT,
    )?;
    let mut command = Command::new(target.join("release/rivals"));
    let line = tool::output(command.arg(framework.join(ASSEMBLY)).arg(ROUNDS), LIMIT)?;
    rows(runtime, &serde_json::from_str(&line).context("the program's output is no JSON")?)
}

fn rows(runtime: Runtime, found: &Value) -> Result<Vec<Row>> {
    // From bodies per second to nanoseconds of one.
    let times = |name: &str| -> Result<Distribution> {
        let rates = found[name].as_array().with_context(|| format!("no rates of {name}"))?;
        let times: Vec<f64> =
            rates.iter().filter_map(Value::as_f64).map(|rate| 1e9 / rate).collect();
        ensure!(!times.is_empty(), "no rates of {name}");
        Ok(Distribution::of(times))
    };
    let bodies = &found["bodies"];
    let told = |times: &Distribution| {
        let (low, median, high) = (times.at(0.25), times.median(), times.at(0.75));
        format!("{median:.0} ns ({low:.0} to {high:.0}), {:.2} M bodies/s", 1e3 / median)
    };
    let (verify, kept, encode) = (times("verify")?, times("kept")?, times("encode")?);
    let (rival, wrap) = (times("rival")?, times("wrap")?);
    let ratio = encode.median() / rival.median();
    let row = |what: &str, times: &Distribution, goal| {
        Row::new(format!("{what}, {bodies} bodies"), runtime, times.median(), told(times), goal)
    };
    Ok(vec![
        row("verify", &verify, Goal::only(1000.0, "ns")),
        Row::told(
            format!("parse → encode, code kept as bytes, {bodies} bodies"),
            runtime,
            told(&kept),
        ),
        Row::new(
            format!(
                "parse → encode, each instruction, against dotscope's decoding alone, {bodies} \
                    bodies"
            ),
            runtime,
            ratio,
            format!("{ratio:.2} × the time: {}; dotscope {}", told(&encode), told(&rival)),
            Goal::new(1.0, 0.5, "×"),
        ),
        row(
            "parse → wrap in try/finally → stack, verify → encode",
            &wrap,
            Goal::only(2000.0, "ns"),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_become_times() {
        let found = serde_json::json!({
            "bodies": 3, "verify": [2e6, 2e6, 1e6], "kept": [1e7], "encode": [4e6], "rival": [2e6], "wrap": [1e5],
        });
        let rows = rows(Runtime::V9, &found).unwrap();
        assert_eq!(
            rows.iter().map(|row| row.value).collect::<Vec<_>>(),
            [Some(500.0), None, Some(0.5), Some(10_000.0)]
        );
        assert!(rows[0].measured.contains("2.00 M bodies/s"), "{}", rows[0]);
    }
}
