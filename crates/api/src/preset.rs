use schemars::JsonSchema;
use serde::Serialize;

/// Profilers that answer a question together.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Preset {
    /// Short name.
    pub id: &'static str,
    /// The question.
    pub title: &'static str,
    /// Profilers with their parameters, as on the command line.
    pub profilers: &'static str,
}

/// All presets, the usual one first.
pub const PRESETS: &[Preset] = &[
    Preset { id: "usual", title: "What does it do?", profilers: profilers::DEFAULT },
    Preset { id: "cpu", title: "What takes the CPU time?", profilers: "cpu" },
    Preset { id: "waits", title: "What do requests wait for?", profilers: "wall,locks,threadpool" },
    Preset { id: "memory", title: "What allocates?", profilers: "allocations,gc" },
    Preset { id: "retained", title: "What retains memory?", profilers: "heap,gc" },
    Preset { id: "errors", title: "What fails?", profilers: "exceptions" },
    Preset { id: "warm-up", title: "Why is it slow at first?", profilers: "cpu,jit,loads" },
];

#[cfg(test)]
mod tests {
    use super::*;
    use profilers::Selection;

    #[test]
    fn all_can_be_recorded() {
        for preset in PRESETS {
            let selections = Selection::parse_list(preset.profilers).unwrap();
            let record = |spec: &profilers::ProfilerSpec| spec.commands().contains(&"record");
            assert!(selections.iter().all(|selection| record(selection.spec)), "{}", preset.id);
        }
    }
}
