use profilers::{ParamKind, ProfilerSpec};
use schemars::JsonSchema;
use serde::Serialize;

/// A profiler.
#[derive(Serialize, JsonSchema)]
pub struct Profiler {
    /// Id on the command line and in sessions.
    pub id: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// What it measures and how to read it.
    pub description: &'static str,
    /// What it costs the program that is recorded.
    pub overhead: &'static str,
    /// The oldest runtime that it works on.
    pub since: String,
    /// Whether it can be attached to a running process.
    pub attach: bool,
    /// The commands that run it.
    pub commands: &'static [&'static str],
    /// Whether it cannot run beside another profiler that holds the main profiler slot.
    pub needs_main_slot: bool,
    /// Whether the agent remains in the process until the process ends.
    pub resident_agent: bool,
    /// What its samples count.
    pub values: Vec<Value>,
    /// Its parameters.
    pub params: Vec<Param>,
}

/// What a sample counts.
#[derive(Serialize, JsonSchema)]
pub struct Value {
    /// Such as `cpu`.
    pub kind: &'static str,
    /// Such as `nanoseconds`.
    pub unit: &'static str,
}

/// A parameter of a profiler.
#[derive(Serialize, JsonSchema)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub help: &'static str,
    /// The value where none is given.
    pub default: &'static str,
    /// The smallest and the largest number, of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<(u64, u64)>,
    /// The words, of a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<&'static [&'static str]>,
}

impl Profiler {
    /// What the registry says of a profiler.
    pub fn of(spec: &ProfilerSpec) -> Self {
        let param = |param: &profilers::ParamSpec| {
            let (range, choices) = match param.kind {
                ParamKind::Number(from, to) => (Some((from, to)), None),
                ParamKind::Choice(words) => (None, Some(words)),
                ParamKind::Names => (None, None),
            };
            Param { name: param.name, help: param.help, default: param.default, range, choices }
        };
        let value = |value: &profilers::ValueSpec| Value { kind: value.kind, unit: value.unit };
        Self {
            id: spec.id,
            summary: spec.summary,
            description: spec.description,
            overhead: spec.overhead,
            since: since(spec),
            attach: spec.attach,
            commands: spec.commands(),
            needs_main_slot: spec.needs_main_slot(),
            resident_agent: spec.is_irreversible(),
            values: spec.values.iter().map(value).collect(),
            params: spec.params.iter().map(param).collect(),
        }
    }
}

/// The oldest runtime that a profiler works on, as .NET calls it.
pub fn since(spec: &ProfilerSpec) -> String {
    match spec.since {
        3 => ".NET Core 3.1".to_owned(),
        major => format!(".NET {major}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_the_agent_says_the_same() {
        let (nul, json) = profilers::CATALOGUE.split_last().unwrap();
        assert_eq!(*nul, 0);
        let said: serde_json::Value = serde_json::from_slice(json).unwrap();
        let all: Vec<_> = profilers::PROFILERS.iter().map(|spec| Profiler::of(spec)).collect();
        assert_eq!(said, serde_json::to_value(all).unwrap());
    }
}
