//! `sessions`: what was recorded before.

use super::Ask;
use crate::{
    answer::Answer,
    call::{Call, Failure},
    foreign::{NAME, clean},
};
use document::format::{bytes, utc};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use server::SessionRow;

/// Sessions that are looked at.
const MOST_READ: usize = 1000;

/// Sessions that are facts as well.
const MOST_FACTS: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Only sessions of this process id.
    pid: Option<u32>,
    /// Only sessions of processes whose name has this.
    process: Option<String>,
}

impl Ask for Sessions {
    const NAME: &'static str = "sessions";
    const ABOUT: &'static str = "Lists recorded sessions, newest first: process, time, profilers, \
        size. Costs the processes nothing. Use it to explore what was recorded before.";

    async fn answer(self, call: Call) -> Result<Answer, Failure> {
        let (all, rows) = call.work().light(|work| work.sessions(MOST_READ)).await?;
        let name = self.process.map(|name| name.to_lowercase());
        let is_wanted = |row: &&SessionRow| {
            let Some(target) = &row.target else { return self.pid.is_none() && name.is_none() };
            self.pid.is_none_or(|pid| target.pid == pid)
                && name.as_ref().is_none_or(|name| target.process.to_lowercase().contains(name))
        };
        let found: Vec<_> = rows.iter().filter(is_wanted).collect();
        let mut answer = Answer::new(format!("{} of {all} sessions.", found.len()));
        if all > rows.len() {
            answer.say(format!("Only the newest {} were looked at.", rows.len()));
        }
        found.iter().for_each(|row| answer.add(line(row)));
        // The names of sessions that others have recorded contain names of processes.
        let ids = found.iter().take(MOST_FACTS).map(|row| clean(&row.id, NAME));
        answer.fact("sessions", ids.map(|id| json!(id)).collect::<Vec<_>>());
        if !found.is_empty() {
            answer.next("explore {\"session\":…}");
        }
        if found.len() > 1 {
            answer.next("compare {\"before\":…,\"after\":…}");
        }
        Ok(answer)
    }
}

fn line(row: &SessionRow) -> String {
    let id = clean(&row.id, NAME);
    let time = utc(row.recorded_unix_ms);
    let about = match (&row.target, &row.problem) {
        (Some(target), _) => {
            let profilers: Vec<&str> =
                target.profilers.iter().map(|profiler| profiler.id.as_str()).collect();
            let process = clean(&target.process, NAME / 2);
            format!("{process} (pid {})  {}", target.pid, clean(&profilers.join(","), NAME))
        }
        (None, Some(problem)) => format!("cannot be read: {}", clean(problem, NAME)),
        (None, None) => "is being written".to_owned(),
    };
    format!("{id}  {time}  {}  {about}", bytes(row.bytes))
}
