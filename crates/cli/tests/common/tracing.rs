//! `clrscope trace` under way, and what it says in the end.

use super::{Ended, Running, clrscope};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::Stdio,
};
use testkit::TargetProcess;

/// A trace under way, which ends on request.
pub struct Tracing(Running);

impl Tracing {
    /// Starts one, and waits until the methods are instrumented.
    #[track_caller]
    pub fn start(process: &TargetProcess, arguments: &[&str]) -> Self {
        Self::of(process.pid(), arguments)
    }

    /// The same for any process.
    #[track_caller]
    pub fn of(pid: u32, arguments: &[&str]) -> Self {
        let pid = pid.to_string();
        let mut command = clrscope(["trace", &pid, "--json"].iter().chain(arguments));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut error = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("tracing ")) {
            assert_ne!(error.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        Self(Running::adopt("trace", child, said, error))
    }

    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        self.0.signal(signal);
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(self) -> Ended {
        self.0.wait()
    }

    /// Ends it as Ctrl-C does.
    #[track_caller]
    pub fn end(self) -> Value {
        self.signal(Signal::INT);
        self.wait().expect(0).json()
    }
}

/// Calls, ended calls and errors of each method, by its name without parameters; overloads are put
/// together. What the compiler made of a method has the name of that, and no parameters.
pub fn by_name(report: &Value) -> BTreeMap<String, (u64, u64, u64)> {
    let mut found: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for method in report["methods"].as_array().unwrap() {
        let name = method["method"].as_str().unwrap();
        let Some((name, _)) = name.split_once('(') else { continue };
        let name = name.to_owned();
        let number = |key: &str| method[key].as_u64().unwrap();
        let sum = found.entry(name).or_default();
        *sum = (sum.0 + number("calls"), sum.1 + number("timed"), sum.2 + number("errors"));
    }
    found
}

/// Why methods are left alone, by their names without parameters.
pub fn refusals(report: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let refused = report["refused"].as_array().unwrap().iter();
    refused
        .map(|one| {
            (text(&one["method"]).split('(').next().unwrap().to_owned(), text(&one["reason"]))
        })
        .collect()
}
