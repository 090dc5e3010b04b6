//! Renderers and other hubs serve all profilers and name none: what a profiler has to say is in a
//! file of its own.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use profilers::PROFILERS;

/// Source files that are hubs.
const HUBS: &[&str] = &[
    "crates/cli/src/top/draw.rs",
    "crates/cli/src/top/mod.rs",
    "crates/cli/src/top/screen.rs",
    "crates/cli/src/top/state.rs",
    "crates/compare/src/estimate.rs",
    "crates/compare/src/finding.rs",
    "crates/compare/src/functions.rs",
    "crates/compare/src/grid.rs",
    "crates/compare/src/junit.rs",
    "crates/compare/src/lib.rs",
    "crates/compare/src/measures/mod.rs",
    "crates/compare/src/notes.rs",
    "crates/compare/src/sarif.rs",
    "crates/compare/src/series.rs",
    "crates/compare/src/tree.rs",
    "crates/compare/src/view.rs",
    "crates/document/src/cell.rs",
    "crates/document/src/format.rs",
    "crates/document/src/html.rs",
    "crates/document/src/lib.rs",
    "crates/document/src/markdown.rs",
    "crates/document/src/plain.rs",
    "crates/document/src/text.rs",
    "crates/profile/src/other_tables.rs",
    "crates/recorder/src/linux/blocked.rs",
    "crates/recorder/src/linux/context.rs",
    "crates/recorder/src/linux/events.rs",
    "crates/recorder/src/linux/held.rs",
    "crates/recorder/src/linux/output.rs",
    "crates/recorder/src/linux/recorder.rs",
    "crates/recorder/src/linux/recorder/ending.rs",
    "crates/recorder/src/linux/recorder/opening.rs",
    "crates/recorder/src/linux/sources/mod.rs",
    "crates/recorder/src/linux/stages.rs",
    "crates/recorder/src/linux/stages/events.rs",
    "crates/recorder/src/linux/stages/ticks.rs",
    "crates/recorder/src/linux/stages/ticks/rows.rs",
    "crates/recorder/src/linux/start/event_pipes.rs",
    "crates/recorder/src/linux/statistics.rs",
    "crates/recorder/src/linux/waiting.rs",
    "crates/report/src/html.rs",
    "crates/report/src/html/series.rs",
    "crates/report/src/json.rs",
    "crates/report/src/lib.rs",
    "crates/report/src/markdown.rs",
    "crates/report/src/page.rs",
    "crates/report/src/panes.rs",
    "crates/report/src/text.rs",
    "crates/report/src/views/mod.rs",
    "crates/report/src/views/others.rs",
    "crates/rows/src/check.rs",
    "crates/rows/src/field.rs",
    "crates/rows/src/lib.rs",
    "crates/rows/src/row.rs",
    "crates/rows/src/select.rs",
    "crates/server/src/endpoints.rs",
    "crates/server/src/endpoints/compare.rs",
    "crates/server/src/endpoints/processes.rs",
    "crates/server/src/endpoints/recordings.rs",
    "crates/server/src/endpoints/recordings/events.rs",
    "crates/server/src/endpoints/recordings/request.rs",
    "crates/server/src/endpoints/sessions.rs",
    "crates/server/src/endpoints/sessions/detail.rs",
    "crates/server/src/endpoints/sessions/params.rs",
    "crates/server/src/lib.rs",
    "crates/server/src/openapi.rs",
    "crates/server/src/recordings.rs",
    "crates/server/src/store.rs",
    "crates/server/src/store/row.rs",
    "crates/session/src/reader.rs",
    "crates/session/src/row_buffer.rs",
    "crates/session/src/validate.rs",
    "crates/session/src/writer.rs",
];

/// Every place at which a hub names a profiler.
pub fn problems(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for hub in HUBS {
        let file = root.join(hub);
        let source =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let named = named(&source).into_iter();
        problems.extend(named.map(|(line, id)| {
            format!("{hub}:{line} names the profiler {id}; a hub serves all profilers")
        }));
    }
    Ok(problems)
}

/// Lines of a source file, without its tests, that hold a profiler's id as a string.
fn named(source: &str) -> Vec<(usize, &'static str)> {
    let code = source.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    code.enumerate()
        .flat_map(|(index, line)| {
            let holds = move |id: &&str| line.contains(&format!("\"{id}\""));
            PROFILERS.iter().map(|spec| spec.id).filter(holds).map(move |id| (index + 1, id))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profiler_in_a_hub_is_found() {
        let source = "run(\"gc\");\nrun(\"gcs\");\n\n#[cfg(test)]\nrun(\"cpu\");\n";
        assert_eq!(named(source), [(1, "gc")]);
    }
}
