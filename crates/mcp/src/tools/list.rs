//! `list`: the processes.

use super::Ask;
use crate::{
    answer::Answer,
    call::{Call, Failure},
    foreign::{NAME, clean},
};
use diagnostics::DotnetProcess;
use document::format::{bytes, duration};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::time::SystemTime;

/// Letters of a command line.
const COMMAND: usize = 240;

/// Processes that are facts as well.
const MOST_FACTS: usize = 25;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Only processes whose name or command line has this.
    matching: Option<String>,
}

impl Ask for List {
    const NAME: &'static str = "list";
    const ABOUT: &'static str = "Lists running .NET processes: pid, name, runtime, uptime, memory, \
        command line, and why one cannot be observed. Costs the processes nothing. Use it to find a \
        pid.";

    async fn answer(self, call: Call) -> Result<Answer, Failure> {
        let matching = self.matching.map(|text| text.to_lowercase());
        call.blocking(move || {
            let all = diagnostics::discover()?;
            let is_wanted = |process: &&DotnetProcess| {
                // Who may ask for parts of a redacted text could find it letter by letter.
                let has = |part: &str| {
                    [process.name.clone(), process.command_line()]
                        .iter()
                        .any(|text| clean(text, usize::MAX).to_lowercase().contains(part))
                };
                matching.as_deref().is_none_or(has)
            };
            let found: Vec<_> = all.iter().filter(is_wanted).collect();
            Ok(answer(&found, all.len(), SystemTime::now()))
        })
        .await
    }
}

fn answer(found: &[&DotnetProcess], all: usize, now: SystemTime) -> Answer {
    let mut answer = Answer::new(format!("{} of {all} .NET processes.", found.len()));
    if all == 0 {
        answer.say("Those of other users are seen as root.");
    }
    // Those that can be observed first; the youngest last, because a service runs for long.
    let mut sorted = found.to_vec();
    order::sort_by_key(&mut sorted, |process| {
        (process.obstacle.is_some(), process.started_unix_ms.unwrap_or(u64::MAX), process.pid)
    });
    for process in &sorted {
        answer.add(line(process, now));
    }
    let facts: Vec<_> = sorted
        .iter()
        .take(MOST_FACTS)
        .map(|process| json!({"pid": process.pid, "attachable": process.obstacle.is_none()}))
        .collect();
    answer.fact("processes", facts);
    match sorted.first().filter(|process| process.obstacle.is_none()) {
        Some(first) if found.len() == 1 => {
            answer.next(format!("checkup {{\"pid\":{}}}", first.pid));
        }
        Some(_) => answer.next("checkup {\"pid\":…} of the one that is meant"),
        None => {}
    }
    answer
}

fn line(process: &DotnetProcess, now: SystemTime) -> String {
    let mut parts = vec![format!("pid {}", process.pid), clean(&process.name, NAME / 2)];
    parts.extend(process.runtime_version.as_ref().map(|own| format!(".NET {}", clean(own, 40))));
    let uptime = api::uptime(process, now);
    parts.extend(uptime.map(|up| format!("up {}", duration(up.as_secs() * 1_000_000_000))));
    let memory = diagnostics::memory(process.pid).ok();
    parts.extend(memory.map(|memory| bytes(memory.resident)));
    parts.extend(process.user.as_ref().map(|user| format!("user {}", clean(user, 40))));
    match &process.obstacle {
        Some(obstacle) => {
            parts.push(format!("CANNOT BE OBSERVED: {}", clean(&obstacle.to_string(), NAME)))
        }
        None => parts.push(clean(&process.command_line(), COMMAND)),
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn command_lines_are_clean() {
        let process = DotnetProcess {
            pid: u32::MAX,
            ns_pid: 1,
            uid: None,
            user: Some("web".into()),
            name: "Shop".into(),
            args: ["dotnet", "Shop.dll", "--token", "s3cr3t", "\u{202e}x"].map(Into::into).into(),
            executable: None,
            entry_assembly: None,
            started_unix_ms: Some(1_000_000),
            runtime_version: Some("9.0.5".into()),
            arch: None,
            hosting: None,
            contained: false,
            temp_dir: "/tmp".into(),
            socket: None,
            obstacle: None,
        };
        let answer = answer(&[&process], 2, UNIX_EPOCH + Duration::from_secs(1060));
        assert_eq!(answer.head, ["1 of 2 .NET processes."]);
        let expected = "Shop  .NET 9.0.5  up 1 min  user web  dotnet Shop.dll --token [redacted] \
            \\u{202e}x";
        let line = answer.data[0].split_once("  ").unwrap().1;
        assert_eq!(line.replace("60.0 s", "1 min"), expected);
        assert!(answer.next[0].contains("checkup"));
    }
}
