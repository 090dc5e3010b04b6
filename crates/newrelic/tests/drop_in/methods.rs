//! Methods of every shape: what tracers get is compared with what the program says of itself
//! (`programs/Methods.cs`).

use crate::support::{Home, compile, run};
use newrelic_compat::shape::{AgentShape, of_file};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use testkit::{Extras, Launch, Runtime};

/// How many shapes there are at least.
const COUNTS: [(&str, usize); 4] =
    [("basic/", 22), ("generics/", 59), ("interop/", 8), ("more/", 140)];

/// Agents and modes; in the last ones the agent is found by reflection at each call.
const CASES: [(AgentShape, &str, bool); 11] = [
    (AgentShape::V10_53, "strict", false),
    (AgentShape::V10_53, "default", false),
    (AgentShape::V10_53, "fast", false),
    (AgentShape::V10_54, "strict", false),
    (AgentShape::V10_54, "default", false),
    (AgentShape::V10_54, "fast", false),
    (AgentShape::V10_55, "strict", false),
    (AgentShape::V10_55, "default", false),
    (AgentShape::V10_55, "fast", false),
    (AgentShape::V10_54, "strict", true),
    (AgentShape::V10_55, "default", true),
];

/// The program, in a folder of its own.
struct Program {
    folder: TempDir,
}

impl Program {
    fn new() -> Program {
        let api = compile(
            "NewRelic.Api.Agent",
            "Methods.cs",
            true,
            Extras { symbols: &["API"], ..Extras::default() },
        );
        let program = compile(
            "Methods",
            "Methods.cs",
            false,
            Extras { libraries: &[&api], ..Extras::default() },
        );
        let folder = tempfile::tempdir().unwrap();
        for file in fs::read_dir(program.parent().unwrap()).unwrap() {
            let file = file.unwrap().path();
            if file.is_file() {
                fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
            }
        }
        let copy = Program { folder };
        let mut bytes = fs::read(copy.path()).unwrap();
        add_tail_call(&mut bytes);
        fs::write(copy.path(), bytes).unwrap();
        copy
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("Methods.dll")
    }

    /// The program without the library.
    fn alone(&self, runtime: Runtime, arguments: &[&str]) -> Vec<String> {
        run(Launch::assembly(&self.path(), runtime, arguments)).well("without the library")
    }
}

/// Puts the prefix `tail.` in front of a call; the C# compiler makes none. The program has two
/// `not` there.
fn add_tail_call(assembly: &mut [u8]) {
    const ADD_NOT_NOT_CALL: [u8; 4] = [0x58, 0x66, 0x66, 0x28];
    const TAIL: [u8; 2] = [0xfe, 0x14];
    let windows = assembly.windows(ADD_NOT_NOT_CALL.len()).enumerate();
    let found: Vec<_> =
        windows.filter(|(_, bytes)| *bytes == ADD_NOT_NOT_CALL).map(|(at, _)| at).collect();
    let [at] = found[..] else { panic!("not one place for the tail call: {found:?}") };
    assembly[at + 1..at + 3].copy_from_slice(&TAIL);
}

/// A home with the managed agent that records.
fn home(shape: AgentShape, points: &str) -> Home {
    let symbols: &[&str] = match shape {
        AgentShape::V10_53 => &["AGENT"],
        AgentShape::V10_54 => &["AGENT", "SHAPE_10_54"],
        AgentShape::V10_55 => &["AGENT", "SHAPE_10_54", "SHAPE_10_55"],
    };
    let agent =
        compile("NewRelic.Agent.Core", "Methods.cs", true, Extras { symbols, ..Extras::default() });
    let home = Home::new(shape, Some(points));
    let bytes = fs::read(agent).unwrap();
    assert_eq!(of_file(&bytes).map(|shim| shim.shape), Ok(shape));
    fs::write(home.path().join("NewRelic.Agent.Core.dll"), bytes).unwrap();
    home
}

/// What was printed about the calls of one shape.
#[derive(Debug, Default)]
struct Shape {
    name: String,
    /// What tracers have to get.
    wanted: Vec<String>,
    /// What they got.
    seen: Vec<String>,
    /// Lines of the log about methods that get no tracer.
    refused: Vec<String>,
    /// Starts of the names of methods without a body.
    unwritten: Vec<String>,
    /// What has to be the same without the library; the numbers of objects are taken out.
    printed: Vec<String>,
    /// Whether it depends on the agent what is printed.
    by_agent: bool,
    /// Calls that have a tracer and have not ended.
    open: Vec<String>,
}

/// What a run printed.
#[derive(Debug, Default)]
struct Run {
    shapes: Vec<Shape>,
    /// The ids by which methods were named to the agent.
    ids: BTreeMap<String, BTreeSet<String>>,
}

impl Run {
    fn new(lines: &[String], case: &str) -> Run {
        let mut run = Run::default();
        let (last, lines) = lines.split_last().unwrap();
        assert_eq!(last, "END", "{case}");
        for line in lines {
            let (kind, text) = line.split_once(' ').unwrap_or((line, ""));
            if kind == "SHAPE" {
                run.shapes.push(Shape { name: text.to_owned(), ..Shape::default() });
                continue;
            }
            let Some(shape) = run.shapes.last_mut() else {
                panic!("{case}: a call before all shapes: {line}")
            };
            match kind {
                "WANT" => shape.wanted.push(text.to_owned()),
                "SEEN" => shape.seen(text, &mut run.ids),
                "REFUSED" => shape.refused.push(text.to_owned()),
                "UNWRITTEN" => shape.unwritten.push(text.to_owned()),
                "AGENT" => shape.by_agent = true,
                "OUT" => {}
                _ => panic!("{case}: unknown line {line:?}"),
            }
            if kind != "SEEN" {
                shape.printed.push(without_numbers(line));
            }
        }
        run
    }
}

impl Shape {
    /// Adds what a tracer got, without what differs from call to call.
    fn seen(&mut self, text: &str, ids: &mut BTreeMap<String, BTreeSet<String>>) {
        match text.splitn(4, ' ').collect::<Vec<_>>()[..] {
            ["START", call, id, rest] => {
                self.open.push(call.to_owned());
                self.seen.push(format!("START {rest}"));
                ids.entry(method(rest)).or_default().insert(id.to_owned());
            }
            ["FINISH", call, result, rest] => {
                // Tracers are finished by the call that they were started for, the innermost first.
                let of =
                    if self.open.pop().as_deref() == Some(call) { "" } else { " of another call" };
                self.seen.push(format!("FINISH{of} {result} {rest}"));
            }
            _ => self.seen.push(text.to_owned()),
        }
    }

    /// Names of the methods that were to have a tracer, as the log has them.
    fn traced(&self) -> BTreeSet<String> {
        self.wanted
            .iter()
            .filter(|line| line.starts_with("START "))
            .map(|line| method(line))
            .collect()
    }
}

/// The full name of the method that a tracer was started for.
fn method(start: &str) -> String {
    let value = |from: &str, to: &str| {
        let rest = start.split_once(from).unwrap_or_else(|| panic!("no {from:?} in {start}")).1;
        rest.split_once(to).unwrap_or_else(|| panic!("no {to:?} in {start}")).0
    };
    let [assembly, class] = [value(" assembly=", " type="), value(" typeName=", " method=")];
    format!(
        "[{assembly}]{class}.{}({})",
        value(" method=", " signature="),
        value(" signature=(", ") this=")
    )
}

/// A text without the numbers of objects, which differ from run to run.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split('@');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.trim_start_matches(|digit: char| digit.is_ascii_digit())
    })
}

/// Checks the run under the library.
fn check(run: &Run, alone: &Run, log: &[String], case: &str) {
    let starts = |level: &str, text: &str| {
        log.iter().any(|line| line.starts_with(level) && line.ends_with(&format!(" {text}")))
    };
    assert_eq!(run.shapes.len(), alone.shapes.len(), "{case}");
    for (shape, alone) in run.shapes.iter().zip(&alone.shapes) {
        let case = format!("{}: {case}", shape.name);
        assert_eq!(shape.seen, shape.wanted, "{case}");
        assert!(
            shape.by_agent || shape.printed == alone.printed,
            "{case}: {:#?}",
            (&shape.printed, &alone.printed)
        );
        for method in shape.traced() {
            assert!(
                starts("[Info ] ", &format!("Instrumenting method: {method}")),
                "{case}: no line for {method}"
            );
        }
        for refused in &shape.refused {
            let level = if refused.starts_with("Skipping invalid method: ") {
                "[Info ] "
            } else {
                "[Error] "
            };
            assert!(starts(level, refused), "{case}: {refused}\n{}", log.join("\n"));
            let (reason, method) = refused.split_once(": ").unwrap();
            // What is found out later follows that line, as with the agent's own profiler.
            let is_said = starts("[Info ] ", &format!("Instrumenting method: {method}"));
            assert_eq!(is_said, !reason.starts_with("Skipping "), "{case}");
        }
        for method in &shape.unwritten {
            assert!(!log.iter().any(|line| line.contains(method)), "{case}: {method}");
        }
    }
    for line in log {
        assert!(is_log_line(line), "{case}: {line:?}");
    }
    // One id for each method, and one method for each id.
    let mut known = BTreeSet::new();
    for (method, ids) in &run.ids {
        let is_new = ids.iter().all(|id| id != "0" && known.insert(id));
        assert!(ids.len() == 1 && is_new, "{case}: {method} has the ids {ids:?}");
    }
}

/// Whether a line of the log has a level, a date, a time and a text.
fn is_log_line(line: &str) -> bool {
    const LEVELS: [&str; 5] = ["[Trace] ", "[Debug] ", "[Info ] ", "[Warn ] ", "[Error] "];
    const TIME: &str = "0000-00-00 00:00:00 ";
    let Some(rest) = LEVELS.iter().find_map(|level| line.strip_prefix(level)) else { return false };
    let Some((time, text)) = rest.split_at_checked(TIME.len()) else { return false };
    let form: String =
        time.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    form == TIME && !text.is_empty()
}

fn every_shape(runtime: Runtime) {
    let program = Program::new();
    let points = program.alone(runtime, &["points"]).join("\n");
    let alone = Run::new(&program.alone(runtime, &[]), "without the library");
    let names: BTreeSet<_> = alone.shapes.iter().map(|shape| &shape.name).collect();
    assert_eq!(names.len(), alone.shapes.len());
    for (group, count) in COUNTS {
        let found = names.iter().filter(|name| name.starts_with(group)).count();
        assert!(found >= count, "{found} of {count} shapes: {group}");
    }
    // Without the library there are no tracers, so what is checked below fails.
    for shape in &alone.shapes {
        assert_eq!(
            shape.seen,
            Vec::<String>::new(),
            "{}: {runtime}, without the library",
            shape.name
        );
        let has_expectation =
            !shape.wanted.is_empty() || !shape.refused.is_empty() || !shape.unwritten.is_empty();
        assert!(has_expectation || shape.name == MISSING, "{}: {runtime}", shape.name);
    }
    for (agent, mode, by_reflection) in CASES {
        let way = if by_reflection { ", by reflection" } else { "" };
        let case = format!("{runtime}, agent {agent}, {mode}{way}");
        let home = home(agent, &points);
        let launch =
            home.launch(&program.path(), runtime, &[""; 0]).env("NEW_RELIC_CLRSCOPE_MODE", mode);
        let launch = launch.env("NEW_RELIC_DISABLE_APPDOMAIN_CACHING", by_reflection.to_string());
        check(&Run::new(&run(launch).well(&case), &case), &alone, &home.log(), &case);
    }
}

/// A method of the API that the agent has none for: it does what it did before.
const MISSING: &str = "more/API, missing in the agent";

#[test]
fn every_shape_on_3_1() {
    every_shape(Runtime::V3_1);
}

#[test]
fn every_shape_on_9() {
    every_shape(Runtime::V9);
}
