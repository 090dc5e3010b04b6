//! The pages of `clrscope serve` in a real browser, on real processes: `web/tests`.
#![cfg(target_os = "linux")]
mod common;

use common::{clrscope, file, scratch};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};
use testkit::{Runtime, Sample, source_root};

#[test]
fn all_pages_in_a_browser() {
    let folder = scratch();
    let web = source_root().join("web");
    assert!(
        web.join("node_modules/@playwright").is_dir(),
        "the packages of web/ are not installed: run `cargo xtask web`"
    );
    let runtime = Runtime::V9.require();
    let mut sick = Sample::named("clinic")
        .launch(runtime, &["--ill", "exception-storm,leak,deadlock", "--seconds", "900"])
        .private_tmp()
        .start();
    let mut traced = Sample::named("traced").start(runtime, &[] as &[&str]);
    sick.wait_for_ready();
    traced.wait_for_ready();
    traced.send_line("spin").unwrap();

    let sessions = file(&folder, "sessions");
    let mut command = clrscope(["serve", "--sessions", sessions.to_str().unwrap()]);
    let mut serving = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut url).unwrap();

    let run = file(&folder, "run");
    let status = Command::new("npx")
        .args(["--no-install", "playwright", "test"])
        .current_dir(&web)
        .env("CLRSCOPE_URL", url.trim_end())
        .env("CLRSCOPE_SICK", sick.pid().to_string())
        .env("CLRSCOPE_TRACED", traced.pid().to_string())
        .env("CLRSCOPE_FOLDER", &run)
        .stdin(Stdio::null())
        .status();
    let _ = serving.kill();
    let _ = serving.wait();
    // To look at them after the run.
    if let Some(kept) = std::env::var_os("CLRSCOPE_PICTURES") {
        fs::create_dir_all(&kept).unwrap();
        for picture in fs::read_dir(run.join("pictures")).into_iter().flatten().flatten() {
            fs::copy(picture.path(), std::path::Path::new(&kept).join(picture.file_name()))
                .unwrap();
        }
    }
    assert!(status.unwrap().success(), "a test of web/tests failed");
    assert!(sick.is_running() && traced.is_running());
}
