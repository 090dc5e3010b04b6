//! `docs/writing-a-profiler.md`, worked through as it is written: its files are written, its
//! commands run in one shell, and what it says they print is looked for. On .NET Core 3.1 and on
//! .NET 9.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use testkit::{Cache, Launch, Runtime, Sample, source_root};

/// Limit for one block of commands; the longest builds the crate and what it depends on.
const LIMIT: Duration = Duration::from_secs(300);

/// A marked block of the page.
enum Step {
    /// Commands for the shell.
    Run(String),
    /// A file of the reader's crate.
    File { name: String, text: String },
    /// Lines that the last commands print, with `…` for whatever varies.
    Prints(Vec<String>),
}

/// The marked blocks. A block without a mark fails the test: nothing on the page is left out by
/// accident.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut mark: Option<&str> = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"))
        {
            mark = Some(comment);
        } else if line.starts_with("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let text = block.join("\n") + "\n";
            steps.push(match mark.take() {
                Some("run") => Step::Run(text),
                Some("prints") => Step::Prints(block.into_iter().map(str::to_owned).collect()),
                Some(other) => match other.strip_prefix("file: ") {
                    Some(name) => Step::File { name: name.to_owned(), text },
                    None => panic!("unknown mark {other:?}"),
                },
                None => panic!("a block without a mark: {text}"),
            });
        } else if !line.is_empty() {
            assert!(mark.is_none(), "the mark {mark:?} is not followed by a block but by {line:?}");
        }
    }
    steps
}

/// Whether `line` contains the parts between the `…` of `pattern`, in that order.
fn prints(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    pattern.split('…').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Runs commands where the last ones stopped: same folder, same variables. Returns what they
/// printed.
fn run(folder: &Path, commands: &str) -> Vec<String> {
    let state = folder.display();
    let script = format!(
        "set -ae\nexec >'{state}/printed' 2>&1\ncd \"$(cat '{state}/pwd')\"\n\
         . '{state}/variables'\n\
         {commands}\n\
         pwd >'{state}/pwd'\nexport -p >'{state}/variables'\n"
    );
    let mut shell = Launch::new("bash")
        .args(["-c", script.as_str()])
        // What the reader's crate needs has been fetched for this workspace already.
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .start();
    let status = shell.wait(LIMIT).unwrap();
    let printed = fs::read_to_string(folder.join("printed")).unwrap();
    assert!(status.success(), "{commands}{status}\n{printed}");
    printed.lines().map(str::to_owned).collect()
}

/// The sample knows how many exceptions it threw; it throws each type once more to warm up.
fn assert_counts(lines: &[String]) {
    let truth =
        lines.iter().find(|line| line.starts_with('{')).expect("the sample says what it did");
    let truth: serde_json::Value = serde_json::from_str(truth).unwrap();
    let types = truth["exceptions"].as_object().unwrap();
    assert!(types.len() > 5, "{truth}");
    for (name, facts) in types {
        let thrown = facts["count"].as_u64().unwrap();
        let name = name.replace("`1", "<int>");
        let counted = lines.iter().find_map(|line| {
            line.strip_prefix("throw-counter: ")?
                .strip_suffix(&format!(" of {name}"))?
                .parse::<u64>()
                .ok()
        });
        let counted = counted.unwrap_or_else(|| panic!("{name} is missing in {lines:#?}"));
        assert!(
            (thrown..=thrown + 1).contains(&counted),
            "{counted} of {name} were counted, {thrown} thrown"
        );
    }
}

#[test]
fn the_tutorial_works_as_written_on_net_core_3_1_and_net_9() {
    let runtimes = [Runtime::V3_1.require(), Runtime::V9.require()];
    for runtime in runtimes {
        Sample::named("thrower").compile(runtime).unwrap();
    }
    let page = fs::read_to_string(source_root().join("docs/writing-a-profiler.md")).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::os::unix::fs::symlink(source_root(), folder.join("clrscope")).unwrap();
    fs::write(folder.join("pwd"), folder.to_str().unwrap()).unwrap();
    fs::write(folder.join("variables"), "").unwrap();

    let cache = Cache::of_user();
    // What the last commands printed: once, or once on each runtime.
    let mut printed: Vec<Vec<String>> = Vec::new();
    let (mut files, mut runs, mut checks, mut counted) = (0, 0, 0, 0);
    for step in steps(&page) {
        match step {
            Step::Run(commands) => {
                let commands =
                    commands.replace("~/.cache/clrscope", cache.folder().to_str().unwrap());
                printed = if commands.contains("$DOTNET") {
                    // The page names one runtime; the reader may take another.
                    let on = |runtime: &Runtime| {
                        run(
                            folder,
                            &format!("DOTNET='{}'\n{commands}", runtime.executable().display()),
                        )
                    };
                    runtimes.iter().map(on).collect()
                } else {
                    vec![run(folder, &commands)]
                };
                runs += 1;
            }
            Step::File { name, text } => {
                fs::write(folder.join("throw-counter").join(name), text).unwrap();
                files += 1;
            }
            Step::Prints(patterns) => {
                for printed in &printed {
                    for pattern in &patterns {
                        let found = printed.iter().any(|line| prints(line, pattern));
                        assert!(found, "no line is like {pattern:?} in {printed:#?}");
                    }
                    if printed
                        .iter()
                        .any(|line| line.starts_with("throw-counter: ") && line.contains(" of "))
                    {
                        assert_counts(printed);
                        counted += 1;
                    }
                }
                checks += 1;
            }
        }
    }
    assert_eq!(
        (files, runs, checks, counted),
        (3, 5, 3, 2),
        "the page has other blocks than this test knows of"
    );
}
