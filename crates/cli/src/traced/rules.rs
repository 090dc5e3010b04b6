//! What is traced, as it is said on a command line.

use crate::{
    console,
    exit::{Code, failure},
};
use profilers::Selection;
use rules::{Problem, Request, RequestError, RuleSet};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Which methods, and what is done with them.
#[derive(clap::Args, Debug)]
pub struct TraceArgs {
    /// File of rules to apply, beside the patterns: see docs/instrumentation.md
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Methods not to instrument, whatever else matches them
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Only count calls, which costs least
    #[arg(long)]
    count: bool,
    /// Revert the methods that match a pattern after this many calls in total
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    calls: Option<u64>,
    /// Time 1 in NUMBER calls; all are counted
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    one_in: u32,
    /// Record every timed call individually, not only the slowest: with -o, for `clrscope report -f
    /// chrome` (Perfetto) and `-f otlp` (spans)
    #[arg(long, conflicts_with = "count")]
    each_call: bool,
    /// Show the arguments of the slowest calls: numbers, strings up to 256 characters, and classes
    /// of objects. Those of parameters whose names look secret (password, token, …) are never read
    #[arg(long, conflicts_with = "count")]
    args: bool,
    /// Never read arguments of parameters with these names, such as `*address*`; case-insensitive
    #[arg(long, value_name = "GLOB")]
    redact: Vec<String>,
    /// Allow a pattern that matches every method of every assembly
    #[arg(long)]
    everything: bool,
    /// Allow heap snapshots of this process after the trace (heap, leaks, async, survivors). .NET
    /// then makes no background collections until the process ends: full collections block
    #[arg(long)]
    allow_heap: bool,
}

impl TraceArgs {
    /// The profiler with what it was asked for, and with the code of methods for an event log.
    pub fn profiler(&self, logged: bool) -> anyhow::Result<Selection> {
        let params = [("each", self.each_call), ("il", logged), ("heap", self.allow_heap)];
        let asked = params.iter().filter(|(_, asked)| *asked).map(|(name, _)| *name);
        Ok(profilers::trace::selection(asked)?)
    }

    /// Whether every call is to be kept.
    pub const fn keeps_each_call(&self) -> bool {
        self.each_call
    }

    /// Whether a file of rules is named.
    pub const fn has_file(&self) -> bool {
        self.rules.is_some()
    }

    /// The rules for these patterns and those of the file, checked.
    pub fn rules(&self, patterns: &[String]) -> anyhow::Result<RuleSet> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).map_err(|error| {
                failure(Code::File, format!("cannot read {}: {error}", path.display()))
            })
        };
        let request = Request {
            patterns: patterns.to_vec(),
            exclude: self.exclude.clone(),
            file: self.rules.as_ref().map(read).transpose()?,
            count: self.count,
            arguments: self.args,
            redact: self.redact.clone(),
            calls: self.calls,
            one_in: self.one_in,
            everything: self.everything,
        };
        let (rules, doubtful) =
            request.rules().map_err(|error| failure(Code::Usage, self.describe(&error)))?;
        doubtful.iter().for_each(|finding| console::say(&finding.to_string()));
        Ok(rules)
    }

    /// What is wrong, in the words of the command line.
    fn describe(&self, error: &RequestError) -> String {
        match error {
            RequestError::Redact { text, source } => format!("--redact {text}: {source}"),
            RequestError::File(error) => {
                let path = self.rules.as_deref().unwrap_or(Path::new("")).display();
                format!("{path}: {error}")
            }
            RequestError::Rule { problem: Problem::Everything, .. } => {
                format!("{error} (--everything on the command line)")
            }
            error => error.to_string(),
        }
    }
}
