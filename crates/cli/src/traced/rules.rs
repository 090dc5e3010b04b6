//! What is traced, as it is said on a command line.

use crate::{
    console,
    exit::{Code, failure},
};
use profilers::Selection;
use rules::{Action, Limits, MethodPattern, Pattern, Problem, Rule, RuleSet, Severity};
use std::{fs, path::PathBuf};

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
        let asked =
            params.iter().filter(|(_, asked)| *asked).map(|(name, _)| format!(":{name}=yes"));
        Ok(Selection::parse(&format!("trace{}", asked.collect::<String>()))?)
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
        let wrong = |message: String| failure(Code::Usage, message);
        let pattern = |text: &String| {
            MethodPattern::parse(text).map_err(|error| wrong(format!("{text}: {error}")))
        };
        let action = match self.count {
            true => Action::Count,
            false => Action::Trace { slowest: Action::USUAL_SLOWEST, arguments: self.args },
        };
        let mut rules = Vec::new();
        for text in patterns {
            let mut rule =
                Rule::new(text.chars().take(60).collect::<String>(), pattern(text)?, action);
            rule.limits = Limits { one_in: self.one_in, calls: self.calls, seconds: None };
            rule.everything = self.everything;
            rules.push(rule);
        }
        let mut exclude = self.exclude.iter().map(pattern).collect::<anyhow::Result<Vec<_>>>()?;
        let name = |text: &String| {
            Pattern::parse(text).map_err(|error| wrong(format!("--redact {text}: {error}")))
        };
        let mut redact = self.redact.iter().map(name).collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(path) = &self.rules {
            let text = fs::read_to_string(path).map_err(|error| {
                failure(Code::File, format!("cannot read {}: {error}", path.display()))
            })?;
            let more = RuleSet::from_toml(&text)
                .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
            rules.extend(more.rules().iter().cloned());
            exclude.extend(more.exclude().iter().cloned());
            redact.extend(more.redact().iter().cloned());
        }
        let rules = RuleSet::new(rules, exclude).redacting(redact);
        for finding in rules.validate() {
            match finding.problem.severity() {
                Severity::Error => {
                    let rule = finding
                        .rule
                        .as_ref()
                        .map_or_else(String::new, |rule| format!("rule `{rule}`: "));
                    let help = match finding.problem {
                        Problem::Everything => " (--everything on the command line)",
                        _ => "",
                    };
                    return Err(wrong(format!("{rule}{}{help}", finding.problem)));
                }
                Severity::Warning => console::say(&finding.to_string()),
            }
        }
        Ok(rules)
    }
}
