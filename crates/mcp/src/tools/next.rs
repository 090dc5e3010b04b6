//! What to ask next, in words of clrscope.

use crate::assistant::Config;

/// The call that shows more of what a finding is about. `None` where the page of the finding is the
/// next step.
pub fn after_finding(id: &str, pid: u32, session: &str, config: &Config) -> Option<String> {
    let explore = |series: &str| {
        Some(format!("explore {{\"session\":\"{session}\",\"series\":\"{series}\"}}"))
    };
    match id {
        "cpu-hot-spot" => explore("cpu"),
        "exception-storm" => explore("exceptions"),
        "hot-lock" => explore("locks"),
        // A check-up has no samples of allocations, and of compilations only where it was asked to.
        "gc-pressure" | "jit-storm" => Some(format!("explore {{\"session\":\"{session}\"}}")),
        "pool-starvation" => explore("threadpool"),
        "sync-over-async" | "zombie-thread" | "thread-leak" | "deadlock" => {
            Some(format!("stacks {{\"pid\":{pid}}}"))
        }
        "leak" | "duplicate-strings" | "timer-leak" | "finalizer-backlog" | "stuck-task"
            if config.limits.heap > 0 =>
        {
            Some(format!("heap {{\"pid\":{pid}}}"))
        }
        _ => None,
    }
}

/// The call that shows who calls a function.
pub fn function(session: &str, series: &str, function: u32) -> String {
    format!("explore {{\"session\":\"{session}\",\"series\":\"{series}\",\"of\":\"f{function}\"}}")
}

/// The call that shows what a fix has changed.
pub fn compare(session: &str) -> String {
    format!("after a fix checkup again, then compare {{\"before\":\"{session}\",\"after\":…}}")
}

/// The call that explains a finding.
pub fn explain(id: &str, session: &str) -> String {
    format!("explain {{\"finding\":\"{id}\",\"session\":\"{session}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Limits;

    #[test]
    fn each_finding_has_a_next_step_or_its_page() {
        let config = Config::default();
        let known: Vec<&str> = diagnose::RULES
            .iter()
            .map(|rule| rule.id)
            .filter(|id| after_finding(id, 1, "s", &config).is_none())
            .collect();
        assert_eq!(known, ["cpu-starved", "induced-gc", "native-memory"]);
        let without = Config { limits: Limits { heap: 0, ..Limits::default() }, ..config };
        assert!(after_finding("leak", 1, "s", &without).is_none());
    }

    #[test]
    fn series_exist() {
        for rule in diagnose::RULES {
            let next = after_finding(rule.id, 1, "s", &Config::default()).unwrap_or_default();
            if let Some((_, series)) = next.split_once("\"series\":\"") {
                let id = series.trim_end_matches("\"}");
                let known = profile::SeriesKind::ALL.iter().any(|kind| kind.id() == id);
                assert!(known, "{id}");
            }
        }
    }
}
