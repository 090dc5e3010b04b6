//! The pages of `clrscope serve` in a real browser, on real processes: `web/tests`.
#![cfg(target_os = "linux")]
mod common;
#[path = "../../compare/tests/common/mod.rs"]
mod made;

use common::{clrscope, file, scratch};
use made::{MS, Made};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};
use testkit::{Runtime, Sample, source_root};

/// A program that a page starts, in one line.
fn program(runtime: Runtime) -> String {
    let launch = Sample::named("burn").launch(runtime, &["--seconds", "600"]);
    let command = launch.command();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| format!("'{}'", word.to_str().unwrap()));
    words.collect::<Vec<_>>().join(" ")
}

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
    fs::create_dir(&sessions).unwrap();
    fs::set_permissions(&sessions, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // A method that calls more others than the server answers at once.
    let samples = (0..3000).map(|method| (method as u64 * MS, method)).collect();
    fs::write(sessions.join("wide.clrscope"), Made::of(3, 3000, samples).file()).unwrap();
    let mut command =
        clrscope(["serve", "--allow-launch", "--sessions", sessions.to_str().unwrap()]);
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
        .env("CLRSCOPE_PROGRAM", program(runtime))
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
