use super::request::{RATE, duration, process};
use crate::{
    problem::Problem,
    recordings::{Plan, Work},
    store::SessionId,
};
use recorder::{AgentFile, EngineChoice, RecordOptions};
use rules::Request;
use schemars::JsonSchema;
use serde::Deserialize;

/// Which methods to trace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTrace {
    /// Process id, as in the list of processes. Either this or `process` is needed.
    pid: Option<u32>,
    /// Name of the process, as in the list of processes.
    process: Option<String>,
    /// Methods to trace, such as `MyApp.Orders.*.{Load,Save}*`.
    #[serde(default)]
    patterns: Vec<String>,
    /// Methods not to trace, whatever else matches them.
    #[serde(default)]
    exclude: Vec<String>,
    /// Rules beside the patterns: the text of a rule file.
    rules: Option<String>,
    /// Whether calls are only counted, which costs least.
    #[serde(default)]
    count: bool,
    /// Calls in total after which the methods of a pattern are reverted.
    #[schemars(range(min = 1))]
    calls: Option<u64>,
    /// Time 1 in N calls, at least 1; all are counted. 1 if nothing is said.
    #[schemars(range(min = 1))]
    one_in: Option<u32>,
    /// Whether every timed call is kept, not only the slowest.
    #[serde(default)]
    each_call: bool,
    /// Whether the arguments of the slowest calls are kept. Those of parameters whose names look
    /// secret (password, token, …) are never read.
    #[serde(default)]
    arguments: bool,
    /// Names of further parameters whose arguments are never read, such as `*address*`.
    #[serde(default)]
    redact: Vec<String>,
    /// Whether a pattern may match every method of every assembly.
    #[serde(default)]
    everything: bool,
    /// Whether heap snapshots of the process shall be possible afterwards. .NET then makes no
    /// background collections until the process ends.
    #[serde(default)]
    allow_heap: bool,
    /// Whether to find only which methods would be instrumented, and to change nothing.
    #[serde(default)]
    dry_run: bool,
    /// How long to trace, from when the methods are instrumented; until it is stopped if nothing is
    /// said.
    duration_seconds: Option<f64>,
    /// Name of the session; made of the process and the time if none is given.
    name: Option<String>,
}

impl NewTrace {
    /// What it is for, if there is such a process.
    pub fn plan(self, agent: AgentFile) -> Result<Plan, Problem> {
        if self.calls == Some(0) || self.one_in == Some(0) {
            return Err(Problem::request("`calls` and `one_in` are at least 1"));
        }
        let request = Request {
            patterns: self.patterns,
            exclude: self.exclude,
            file: self.rules,
            count: self.count,
            arguments: self.arguments,
            redact: self.redact,
            calls: self.calls,
            one_in: self.one_in.unwrap_or(1),
            everything: self.everything,
        };
        let (rules, doubtful) =
            request.rules().map_err(|error| Problem::request(error.to_string()))?;
        let params = [("dry", self.dry_run), ("each", self.each_call), ("heap", self.allow_heap)];
        let asked = params.iter().filter(|(_, asked)| *asked).map(|(name, _)| *name);
        let profiler = profilers::trace::selection(asked);
        let options = RecordOptions {
            profilers: vec![profiler.map_err(|error| Problem::internal(error.to_string()))?],
            rate_hz: RATE,
            engine: EngineChoice::Auto,
            duration: self.duration_seconds.map(duration).transpose()?,
            output: None,
            instrument: Some(rules),
            live: true,
            sdk_tools: false,
            agent,
        };
        let name = self.name.as_deref().map(SessionId::parse).transpose()?;
        let process = process(self.pid, self.process.as_deref())?;
        let warnings = doubtful.iter().map(ToString::to_string).collect();
        Ok(Plan { process, name, work: Work::Record(options), warnings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        for (json, part) in [
            (r#"{"pid":1}"#, "no rule"),
            (r#"{"pid":1,"patterns":["a.{b"]}"#, "a.{b"),
            (r#"{"pid":1,"patterns":["**"]}"#, "**"),
            (r#"{"pid":1,"patterns":["a.b"],"one_in":0}"#, "one_in"),
            (r#"{"pid":1,"patterns":["a.b"],"rules":"[[nope]]"}"#, "nope"),
            (r#"{"pid":1,"patterns":["a.b"],"duration_seconds":0}"#, "duration_seconds"),
            (r#"{"patterns":["a.b"]}"#, "`pid`"),
        ] {
            let request: NewTrace = serde_json::from_str(json).unwrap();
            let problem = request.plan(AgentFile::Embedded(&[])).unwrap_err();
            assert!(problem.cause.contains(part), "{json}: {}", problem.cause);
        }
    }
}
