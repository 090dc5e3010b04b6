use super::launch::NewLaunch;
use crate::{
    problem::Problem,
    recordings::{Job, LaunchPlan, Plan, Work},
    store::SessionId,
};
use diagnose::LimitsOf;
use diagnostics::DotnetProcess;
use profilers::Selection;
use recorder::{AgentFile, EngineChoice, RecordOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

/// CPU samples per second and running thread if none are named.
pub const RATE: u32 = 100;

/// Longest recording with a duration, in seconds.
const LONGEST: f64 = 7.0 * 24.0 * 3600.0;

/// Seconds of a check-up if none are named.
const CHECKUP: f64 = 10.0;

/// What to record.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRecording {
    /// Process id, as in the list of processes. Either this, `process` or `launch` is needed.
    pid: Option<u32>,
    /// Name of the process, as in the list of processes.
    process: Option<String>,
    /// A program to start and record, if the server allows it.
    launch: Option<NewLaunch>,
    /// Profilers with their parameters; the usual ones if none are named.
    profilers: Option<Profilers>,
    /// CPU samples per second and running thread, 1 to 1000; 100 if none are named.
    #[schemars(range(min = 1, max = 1000))]
    rate_hz: Option<u32>,
    /// How to take CPU samples: the best that the machine allows if none is named.
    engine: Option<String>,
    /// How long to record; until it is stopped if nothing is said.
    duration_seconds: Option<f64>,
    /// Name of the session; made of the process and the time if none is given.
    name: Option<String>,
}

/// Profilers with their parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Profilers {
    /// As on the command line: `cpu,wall:rate=50`.
    Text(String),
    /// One by one.
    List(Vec<Profiler>),
}

/// A profiler with its parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProfilerChoice")]
struct Profiler {
    /// As in the list of profilers.
    id: String,
    /// Those that are not to have their default: texts or numbers.
    #[serde(default)]
    params: BTreeMap<String, Value>,
}

impl Profiler {
    /// As on the command line.
    fn text(&self) -> Result<String, Problem> {
        let mut text = self.id.clone();
        for (name, value) in &self.params {
            let value = match value {
                Value::String(value) => value.clone(),
                Value::Number(value) => value.to_string(),
                _ => return Err(Problem::request(format!("`{name}` is no text and no number"))),
            };
            // These separate parts on the command line, where values have none of them.
            if [&self.id, name, &value].iter().any(|part| part.contains([':', ','])) {
                return Err(Problem::request(format!("`{name}` of `{}` has a : or ,", self.id)));
            }
            text.push_str(&format!(":{name}={value}"));
        }
        Ok(text)
    }
}

impl NewRecording {
    /// What it is for, if there is such a process. `allowed`: whether programs may be started.
    pub fn job(self, agent: AgentFile, allowed: bool) -> Result<Job, Problem> {
        let options = self.options(agent)?;
        let name = self.name.as_deref().map(SessionId::parse).transpose()?;
        match (&self.launch, self.pid, &self.process) {
            (Some(_), None, None) if !allowed => Err(NewLaunch::refused()),
            (Some(launch), None, None) => {
                let program = launch.program()?;
                Ok(Job::Launch(Box::new(LaunchPlan { program, name, options })))
            }
            (Some(_), ..) => {
                Err(Problem::request("`launch` has no `pid` and no `process` beside it"))
            }
            (None, pid, of) => {
                let (process, work) = (process(pid, of.as_deref())?, Work::Record(options));
                let plan = Plan { process, name, work, warnings: Vec::new() };
                Ok(Job::Process(Box::new(plan)))
            }
        }
    }

    fn options(&self, agent: AgentFile) -> Result<RecordOptions, Problem> {
        let rate_hz = self.rate_hz.unwrap_or(RATE);
        if !(1..=1000).contains(&rate_hz) {
            return Err(Problem::request("`rate_hz` is from 1 to 1000"));
        }
        let duration = self.duration_seconds.map(duration).transpose()?;
        Ok(RecordOptions {
            profilers: self.selections()?,
            rate_hz,
            engine: self.engine()?,
            duration,
            output: None,
            instrument: None,
            live: true,
            sdk_tools: false,
            agent,
        })
    }

    fn selections(&self) -> Result<Vec<Selection>, Problem> {
        let text = match &self.profilers {
            None => profilers::DEFAULT.to_owned(),
            Some(Profilers::Text(text)) => text.clone(),
            Some(Profilers::List(list)) => {
                list.iter().map(Profiler::text).collect::<Result<Vec<_>, _>>()?.join(",")
            }
        };
        let selections = Selection::parse_list(&text).map_err(|error| {
            Problem::new(
                axum::http::StatusCode::BAD_REQUEST,
                error.to_string(),
                "GET /api/v1/profilers lists the profilers and their parameters",
            )
        })?;
        match selections.is_empty() {
            true => Err(Problem::request("no profiler is named")),
            false => Ok(selections),
        }
    }

    fn engine(&self) -> Result<EngineChoice, Problem> {
        let Some(engine) = &self.engine else { return Ok(EngineChoice::Auto) };
        let found = EngineChoice::ALL.iter().find(|(_, word)| word == engine);
        found.map(|(choice, _)| *choice).ok_or_else(|| {
            let words = EngineChoice::ALL.map(|(_, word)| word).join(", ");
            Problem::request(format!("`engine` is one of {words}"))
        })
    }
}

/// What to check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCheckup {
    /// Process id, as in the list of processes. Either this or `process` is needed.
    pid: Option<u32>,
    /// Name of the process, as in the list of processes.
    process: Option<String>,
    /// How long to observe; 10 if nothing is said. Growth-based findings need at least 8.
    duration_seconds: Option<f64>,
    /// Whether to take heap snapshots, each of which pauses the process; yes if nothing is said.
    heap: Option<bool>,
    /// Limits of findings that are not to have their default, such as
    /// `exception-storm:rate=500`.
    #[serde(default)]
    limits: Vec<String>,
    /// Name of the session; made of the process and the time if none is given.
    name: Option<String>,
}

impl NewCheckup {
    /// What it is for, if there is such a process.
    pub fn plan(self) -> Result<Plan, Problem> {
        let mut limits = LimitsOf::default();
        for limit in &self.limits {
            limits.set(limit).map_err(|error| Problem::request(error.to_string()))?;
        }
        let duration = duration(self.duration_seconds.unwrap_or(CHECKUP))?;
        let name = self.name.as_deref().map(SessionId::parse).transpose()?;
        let process = process(self.pid, self.process.as_deref())?;
        let work = Work::CheckUp { duration, heap: self.heap.unwrap_or(true), limits };
        Ok(Plan { process, name, work, warnings: Vec::new() })
    }
}

/// The process that a request names.
pub fn process(pid: Option<u32>, name: Option<&str>) -> Result<DotnetProcess, Problem> {
    match (pid, name) {
        (Some(pid), None) => Ok(diagnostics::find_pid(pid)?),
        (None, Some(name)) => Ok(diagnostics::find_name(name)?),
        _ => Err(Problem::request("either `pid` or `process` is needed, and not both")),
    }
}

/// The duration that a request names.
pub fn duration(seconds: f64) -> Result<Duration, Problem> {
    match seconds > 0.0 && seconds <= LONGEST {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(Problem::request(format!(
            "`duration_seconds` is greater than 0 and at most {LONGEST}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> NewRecording {
        serde_json::from_str(json).unwrap()
    }

    fn options(json: &str) -> Result<RecordOptions, Problem> {
        read(json).options(AgentFile::Embedded(&[]))
    }

    #[test]
    fn profilers_are_texts_or_lists() {
        for (json, expected) in [
            (r#"{"profilers":"cpu,wall:rate=50"}"#, "cpu wall"),
            (r#"{"profilers":[{"id":"cpu"},{"id":"wall","params":{"rate":50}}]}"#, "cpu wall"),
            ("{}", "cpu wall exceptions gc"),
        ] {
            let selections = options(json).unwrap().profilers;
            let ids: Vec<_> = selections.iter().map(|selection| selection.spec.id).collect();
            assert_eq!(ids.join(" "), expected);
            if json != "{}" {
                assert_eq!(selections[1].param("rate"), Some("50"));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (json, part) in [
            (r#"{"profilers":""}"#, "no profiler"),
            (r#"{"profilers":"nope"}"#, "nope"),
            (r#"{"profilers":[{"id":"wall","params":{"rate":"5:x"}}]}"#, "has a :"),
            (r#"{"profilers":[{"id":"wall","params":{"rate":[]}}]}"#, "no text"),
            (r#"{"profilers":[{"id":"wall","params":{"rate":0}}]}"#, "rate"),
            (r#"{"rate_hz":0}"#, "rate_hz"),
            (r#"{"engine":"steam"}"#, "kernel-ring"),
            (r#"{"duration_seconds":-1}"#, "duration_seconds"),
            (r#"{"duration_seconds":1e300}"#, "duration_seconds"),
        ] {
            let problem = options(json).unwrap_err();
            assert!(problem.cause.contains(part), "{json}: {}", problem.cause);
        }
        let plan = |json| read(json).job(AgentFile::Embedded(&[]), false).unwrap_err().cause;
        assert!(
            plan("{}").contains("`pid`") && plan(r#"{"pid":1,"process":"a"}"#).contains("both")
        );
        assert!(plan(r#"{"pid":1,"name":"../x"}"#).contains("letters"));
        let checkup = |json| {
            let request: NewCheckup = serde_json::from_str(json).unwrap();
            request.plan().unwrap_err().cause
        };
        assert!(checkup(r#"{"pid":1,"limits":["leak:nope=1"]}"#).contains("nope"));
        assert!(checkup(r#"{"pid":1,"duration_seconds":0}"#).contains("duration_seconds"));
        assert!(serde_json::from_str::<NewRecording>(r#"{"pod":1}"#).is_err());
    }
}
