//! What the agent itself counted of what it held in the target.

use super::{Attempt, LIMIT};
use crate::tool;
use serde::Deserialize;
use std::fmt::Write as _;
use std::process::Command;
use wire::Resource;

/// Profilers after which the agent stays.
const RESIDENT: [&str; 3] = ["calls", "transitions", "exact-allocations"];

/// The part of a JSON report that says what was held.
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    resources: Vec<Use>,
}

/// One resource.
#[derive(Deserialize)]
struct Use {
    name: String,
    highest: u64,
    budget: u64,
    /// Absent where the agent did not come to its last record.
    left: Option<u64>,
}

impl Use {
    /// What is wrong with it: more than the budget, or something that is left and neither of what
    /// `keeps` all nor `kept`.
    fn wrong(&self, keeps: bool, kept: &[Resource]) -> Option<String> {
        if self.highest > self.budget {
            return Some(format!("{} {} of at most {}", self.highest, self.name, self.budget));
        }
        let keeps = kept.iter().any(|resource| resource.name() == self.name) || keeps;
        self.left
            .filter(|left| *left > 0 && !keeps)
            .map(|left| format!("{left} {} are left", self.name))
    }
}

impl Attempt<'_> {
    /// Reads the agent's account in the session file. A session that broke off has none, or cannot
    /// be read.
    pub(super) fn ledger(&mut self) {
        if !self.with || !self.scene.output.is_file() {
            return;
        }
        let mut command = Command::new(&self.bench.clrscope);
        command.arg("report").arg(&self.scene.output).arg("--json");
        let report = tool::output(&mut command, LIMIT)
            .and_then(|text| Ok(serde_json::from_str::<Report>(&text)?));
        match report {
            Ok(report) => {
                let _ = writeln!(self.log, "ledger: {} resources", report.resources.len());
                // A process that ends takes all of it along, and agents that count calls stay with
                // the tables of threads.
                let keeps = self.ends_target()
                    || self.action.traces()
                    || RESIDENT.iter().any(|profiler| self.action.name.ends_with(profiler));
                // Threads keep alternate stacks until they end, and a handler that another one may
                // call stays.
                let mut kept = vec![Resource::AlternateStacks];
                if self.scene.foreign_signals != 0 {
                    kept.push(Resource::SignalHandlers);
                }
                let wrong = report.resources.iter().filter_map(|used| used.wrong(keeps, &kept));
                self.failures.extend(wrong.map(|wrong| format!("the agent's account: {wrong}")));
            }
            Err(error) => {
                let _ = writeln!(self.log, "ledger: {error:#}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_or_too_much_is_wrong() {
        let used = |name: &str, highest, left| Use { name: name.into(), highest, budget: 8, left };
        assert_eq!(used("threads", 8, Some(0)).wrong(false, &[]), None);
        assert_eq!(used("threads", 8, None).wrong(false, &[]), None);
        assert_eq!(used("threads", 9, None).wrong(true, &[]).unwrap(), "9 threads of at most 8");
        assert_eq!(used("timers", 3, Some(2)).wrong(false, &[]).unwrap(), "2 timers are left");
        assert_eq!(used("mappings", 3, Some(2)).wrong(true, &[]), None);
        let stacks = used(Resource::AlternateStacks.name(), 3, Some(2));
        assert_eq!(stacks.wrong(false, &[Resource::AlternateStacks]), None);
    }
}
