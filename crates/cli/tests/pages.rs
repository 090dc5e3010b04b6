//! The pages of `clrscope serve` in a real browser, on real processes: `web/tests`.
#![cfg(target_os = "linux")]
mod common;
#[path = "../../compare/tests/common/mod.rs"]
mod made;

use common::{clrscope, file, scratch};
use made::{MS, Made};
use profile::session::{SessionRecord, SessionWriter, SourceLine};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};
use testkit::{Runtime, Sample, TargetProcess, source_root};

/// A program that a page starts, in one line.
fn program(runtime: Runtime) -> String {
    let launch = Sample::named("burn").launch(runtime, &["--seconds", "600"]);
    let command = launch.command();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| format!("'{}'", word.to_str().unwrap()));
    words.collect::<Vec<_>>().join(" ")
}

/// Names that would run a script, turn the text around, or be wider than any page.
const HOSTILE: [&str; 3] = [
    "<img src=x onerror=\"window.ran=1\"><script>window.ran=1</script>",
    "\u{202e}txet\u{2066} \u{200b}\u{7}\u{1b}[31m",
    "javascript:window.ran=1//'\"`${window.ran=1}{{window.ran=1}}</style></title>",
];

/// A name of a method: one of these, or one of 4 kB.
fn hostile_name(method: usize) -> String {
    HOSTILE.get(method).map_or_else(|| "Long".repeat(1024), |name| (*name).to_owned())
}

/// A session in which everything has such a name.
fn hostile() -> Vec<u8> {
    let samples = (0..400).map(|at| (at as u64 * 10 * MS, at % 4)).collect();
    let mut made = Made { name_of: hostile_name, ..Made::of(5, 4, samples) };
    made.info.process_name = format!("{}{}", HOSTILE[0], HOSTILE[1]);
    made.info.command_line = HOSTILE.concat();
    made.info.runtime = HOSTILE[0].into();
    let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
    for mut record in made.records() {
        match &mut record {
            SessionRecord::Thread(thread) => thread.name = Some(HOSTILE.concat()),
            SessionRecord::Module(module) => {
                (module.name, module.path) = (HOSTILE[0].into(), HOSTILE.concat());
            }
            SessionRecord::Function(function) => {
                function.type_name = format!("{}{}", HOSTILE[2], HOSTILE[0]);
                function.parameters = format!("({})", HOSTILE[0]);
            }
            SessionRecord::Frame(frame) => {
                let file = format!("/src/{}.cs", HOSTILE[0]);
                frame.line = Some(SourceLine { file, line: 1 });
            }
            _ => {}
        }
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap()
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
    // The oldest runtime, and one inside a single-file application.
    let mut old = Sample::named("clinic")
        .launch(Runtime::V3_1.require(), &["--ill", "exception-storm", "--seconds", "900"])
        .private_tmp()
        .start();
    let mut bundled = TargetProcess::azmcp(Runtime::V10.require());
    bundled.ask("tools/list", &serde_json::json!({})).unwrap();
    sick.wait_for_ready();
    traced.wait_for_ready();
    old.wait_for_ready();
    traced.send_line("spin").unwrap();

    let sessions = file(&folder, "sessions");
    fs::create_dir(&sessions).unwrap();
    fs::set_permissions(&sessions, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // A method that calls more others than the server answers at once.
    let samples = (0..3000).map(|method| (method as u64 * MS, method)).collect();
    fs::write(sessions.join("wide.clrscope"), Made::of(3, 3000, samples).file()).unwrap();
    fs::write(sessions.join("hostile.clrscope"), hostile()).unwrap();
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
        .env("CLRSCOPE_OLD", old.pid().to_string())
        .env("CLRSCOPE_BUNDLED", bundled.pid().to_string())
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
    assert!(old.is_running() && bundled.is_running());
}
