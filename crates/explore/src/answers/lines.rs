use std::collections::HashMap;

use profile::{CallTree, FileId, Line, TreeOptions, session::FunctionId};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ExploreError, MOST_NAME, ShownFunction, shortened};
use crate::{Explored, LineSums, Selection, lines};

/// Lines of a function with their sums.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LinesAnswer {
    /// The function.
    function: ShownFunction,
    /// Weight of all that is selected.
    whole: u64,
    /// How many samples of equal weight say as much as all that are selected.
    effective: f64,
    /// What was sampled in the function itself.
    own: u64,
    /// What was sampled in it or what it called.
    total: u64,
    /// Its source files, as the symbols name them; the file with the greatest total first.
    files: Vec<String>,
    /// How many lines were sampled.
    count: usize,
    /// Some of them: file by file, in the order of their numbers. Samples without a line come last.
    rows: Vec<LineRow>,
}

/// A line with its sums.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LineRow {
    /// Its file, as an index into `files`; null where the symbols give no line.
    file: Option<u32>,
    /// Its number, from 1; null where the symbols give no line.
    line: Option<u32>,
    /// What was sampled in the line itself.
    own: u64,
    /// Samples in the line itself; calls, where calls are counted.
    own_samples: u64,
    /// What was sampled in the line or what it called. A stack counts once, however often the line
    /// is on it.
    total: u64,
}

impl Explored {
    /// Lines of a function, from the row `first` on.
    ///
    /// # Errors
    /// [`ExploreError::NoFunction`].
    pub fn lines(
        &self,
        selection: &Selection,
        function: u32,
        first: usize,
        rows: usize,
    ) -> Result<LinesAnswer, ExploreError> {
        let profile = &self.profile;
        let count = profile.tables.functions.len();
        if function as usize >= count {
            return Err(ExploreError::NoFunction(function, count));
        }
        let own = profile.stack_sums(selection.kind, &selection.filter);
        let options = TreeOptions { lines: true, ..TreeOptions::default() };
        let tree = CallTree::of_sums(&profile.tables, &own, options);
        let found = lines(&tree, FunctionId(function));
        let files = files_of(&found, |file| profile.tables.file(file));
        let place = |file: FileId| files.iter().position(|known| *known == file);
        let mut all: Vec<LineRow> = (found.lines.iter())
            .map(|(line, sum)| LineRow {
                file: line.and_then(|line| place(line.file)).map(|place| place as u32),
                line: line.map(|line| line.line),
                own: sum.own.weight,
                own_samples: sum.own.samples,
                total: sum.total.weight,
            })
            .collect();
        order::sort_by_key(&mut all, |row| (row.file.is_none(), row.file, row.line));
        let whole = tree.total();
        let series = profile.series(selection.kind);
        let part = whole.samples as f64 / series.totals.samples.max(1) as f64;
        let name = |file: &FileId| shortened(profile.tables.file(*file), MOST_NAME);
        Ok(LinesAnswer {
            function: ShownFunction::of(profile, FunctionId(function)),
            whole: whole.weight,
            effective: series.effective_samples() * part,
            own: found.own.weight,
            total: found.total.weight,
            files: files.iter().map(name).collect(),
            count: all.len(),
            rows: all.into_iter().skip(first).take(rows).collect(),
        })
    }
}

/// Files of lines, those with the greatest total first.
fn files_of<'a>(found: &LineSums, name: impl Fn(FileId) -> &'a str) -> Vec<FileId> {
    let mut weights: HashMap<FileId, u64> = HashMap::new();
    for (line, sum) in &found.lines {
        let Some(Line { file, .. }) = *line else { continue };
        let weight = weights.entry(file).or_default();
        *weight = weight.saturating_add(sum.total.weight);
    }
    let mut files: Vec<(FileId, u64)> = weights.into_iter().collect();
    order::sort_by_key(&mut files, |(file, weight)| (std::cmp::Reverse(*weight), name(*file)));
    files.into_iter().map(|(file, _)| file).collect()
}
