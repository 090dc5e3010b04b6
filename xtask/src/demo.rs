//! `cargo xtask demo`: a sick web service under load, ten seconds of all profilers, and the
//! pictures.

use crate::setup;
use crate::tool::{self, cargo};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;
use std::time::Duration;
use testkit::{Runtime, Sample, source_root};

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Ten seconds of recording, with time for what comes before and after.
const RECORD_LIMIT: Duration = Duration::from_secs(120);
const REPORT_LIMIT: Duration = Duration::from_secs(120);
/// Longer than everything that is done with it.
const SERVICE_SECONDS: &str = "300";
/// Requests under way at any time.
const LOAD: &str = "8";

/// Runs the demo.
pub fn run() -> Result<()> {
    setup::run()?;
    println!("demo: building clrscope");
    tool::run(cargo().args(["build", "--release"]), BUILD_LIMIT)?;

    println!(
        "demo: starting samples/sickservice on {} with {LOAD} requests under way",
        Runtime::V9
    );
    let mut service = Sample::named("sickservice")
        .start(Runtime::V9, &["--seconds", SERVICE_SECONDS, "--load", LOAD]);
    service.wait_for_line(Duration::from_secs(60), |line| line == "ready")?;

    let folder = tool::target_folder().join("demo");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let (recording, page) = (folder.join("sickservice.clrscope"), folder.join("sickservice.html"));
    let mut record = clrscope();
    record.arg("record").arg(service.pid().to_string());
    record.args(["-p", "cpu,wall,exceptions,gc", "--duration", "10s", "-o"]).arg(&recording);
    println!("demo: {}", tool::shown(&record));
    tool::run(&mut record, RECORD_LIMIT)?;

    println!("demo: what it found\n");
    tool::run(clrscope().arg("report").arg(&recording).args(["--format", "text"]), REPORT_LIMIT)?;
    tool::run(
        clrscope().arg("report").arg(&recording).args(["--format", "html", "-o"]).arg(&page),
        REPORT_LIMIT,
    )?;
    println!("\ndemo: recording    {}", recording.display());
    println!("demo: flame graph  {} (open it in a browser)", page.display());
    println!(
        "demo: what is wrong with the service, on purpose: {}",
        source_root().join("samples/sickservice/SickService.cs").display()
    );
    Ok(())
}

fn clrscope() -> Command {
    Command::new(tool::clrscope())
}
