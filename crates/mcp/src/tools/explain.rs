//! `explain`: what a finding means, how it is detected and what to do; of a check-up, with all of
//! its evidence.

use super::{Ask, checkup::Found, next};
use crate::{
    answer::Answer,
    call::{Call, Failure, session},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

macro_rules! pages {
    ($($id:literal),+ $(,)?) => {
        /// The pages about findings, by their ids.
        const PAGES: &[(&str, &str)] = &[
            $(($id, include_str!(concat!("../../../../docs/findings/", $id, ".md")))),+
        ];
    };
}

pages!(
    "cpu-hot-spot",
    "cpu-starved",
    "gc-pressure",
    "induced-gc",
    "exception-storm",
    "hot-lock",
    "sync-over-async",
    "pool-starvation",
    "jit-storm",
    "native-memory",
    "zombie-thread",
    "thread-leak",
    "deadlock",
    "leak",
    "duplicate-strings",
    "timer-leak",
    "finalizer-backlog",
    "stuck-task",
);

/// Lines of evidence of a finding.
const EVIDENCE: usize = 40;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// Id of the finding, such as hot-lock.
    finding: String,
    /// Session of a checkup of this server: adds all evidence.
    session: Option<String>,
}

impl Ask for Explain {
    const NAME: &'static str = "explain";
    const ABOUT: &'static str = "Explains a finding of checkup: what it means, how it is detected, \
        what to do, limitations; with a session also all evidence. Costs the process nothing. Use it \
        before you advise a fix.";

    async fn answer(self, call: Call) -> Result<Answer, Failure> {
        let Some((id, page)) = PAGES.iter().find(|(id, _)| *id == self.finding) else {
            let known: Vec<&str> = PAGES.iter().map(|(id, _)| *id).collect();
            return Err(Failure::Arguments(format!("`finding` is one of {}", known.join(", "))));
        };
        let mut answer = Answer::new(about(page));
        let Some(name) = &self.session else { return Ok(answer) };
        let session = session(name)?;
        let all = call.work().recordings();
        let entry = all.iter().find(|entry| entry.id == session);
        let checkup = entry.and_then(|entry| {
            let end = entry.state().end?;
            (*end).as_ref().ok()?.checkup.clone().map(|checkup| (entry.pid, checkup))
        });
        match checkup {
            Some((pid, checkup)) => {
                evidence(&mut answer, id, &checkup);
                answer.next.extend(next::after_finding(id, pid, name, &call.shared.config));
                answer.next(next::compare(name));
            }
            None => answer.say("(This server has not made that checkup, or has forgotten it.)"),
        }
        Ok(answer)
    }
}

/// The page without what is for the command line.
fn about(page: &str) -> String {
    let mut kept = Vec::new();
    for part in page.split("\n\n") {
        if !(part.starts_with("Change ") && part.contains("--limit")) {
            kept.push(part.trim_end());
        }
    }
    kept.join("\n").replace("## ", "\n## ")
}

fn evidence(answer: &mut Answer, id: &str, checkup: &Value) {
    let found = Found::all(checkup);
    let mut any = false;
    for (index, finding) in found.iter().enumerate().filter(|(_, finding)| finding.id == id) {
        any = true;
        finding.lines(index + 1, EVIDENCE).into_iter().for_each(|line| answer.add(line));
    }
    if !any {
        answer.say("(That checkup has no such finding.)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::MOST;

    #[test]
    fn each_finding_has_its_page() {
        let rules: Vec<&str> = diagnose::RULES.iter().map(|rule| rule.id).collect();
        let pages: Vec<&str> = PAGES.iter().map(|(id, _)| *id).collect();
        assert_eq!(pages, rules);
        for (id, page) in PAGES {
            let about = about(page);
            assert!(about.contains("What to do") && !about.contains("--limit"), "{id}: {about}");
            assert!(Answer::new(about).bytes() < MOST * 8 / 10, "{id} leaves no room for evidence");
        }
    }
}
