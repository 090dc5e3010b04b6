//! What is answered to a viewer. Weights are nanoseconds, bytes or numbers of things, as `unit` of
//! the series says; times are nanoseconds since the start of the recording.

mod description;
mod flame;
mod lines;
mod lists;
mod stacks;
mod timeline;

use std::collections::HashMap;

pub use description::{Description, SeriesInfo, StateInfo, ThreadInfo, describe};
pub use flame::{FlameHead, FlameQuery, PathNode};
pub use lines::{LineRow, LinesAnswer};
pub use lists::{
    CalledFunction, CallersAnswer, ChildRow, ChildrenAnswer, FunctionRow, FunctionsAnswer, Sort,
};
pub use stacks::{StackFrame, StackRow, StacksAnswer};
pub use timeline::{LaneInfo, TimelineHead, TimelineQuery};

use profile::{Line, NONE, NameStyle, Profile, Unit, session::FunctionId};
use schemars::JsonSchema;
use serde::Serialize;

/// A question that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExploreError {
    /// There is no such node.
    #[error("there is no node {0} in this tree, which has {1}")]
    NoNode(u32, usize),
    /// There is no such function.
    #[error("there is no function {0} in this session, which has {1}")]
    NoFunction(u32, usize),
    /// The expression that is searched for takes too long.
    #[error("the search takes too long: search for a part of a name, or a simpler expression")]
    SearchTooLong,
    /// There is no such type.
    #[error("there is no type {0} in this snapshot, which has {1}")]
    NoType(u32, usize),
    /// The snapshot is a partial one.
    #[error("the snapshot has no references: it does not show what retains what")]
    NoReferences,
    /// Growth shows only in several snapshots.
    #[error("growth shows in two or more heap snapshots with objects; this session has {0}")]
    NoGrowth(usize),
    /// The answer cannot be written.
    #[error("the answer cannot be written: {0}")]
    Json(String),
}

/// A function, as a viewer shows it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ShownFunction {
    /// Its number in the session.
    id: u32,
    /// Its full name.
    name: String,
    /// Its name without namespaces and parameters.
    short: String,
    /// What kind of code it is: an index into `kinds` of the description.
    kind: u8,
    /// Its module, where known.
    module: Option<String>,
}

impl ShownFunction {
    fn of(profile: &Profile, id: FunctionId) -> Self {
        let tables = &profile.tables;
        Self {
            id: id.0,
            name: shortened(&tables.function_name(id, NameStyle::FULL), MOST_NAME),
            short: shortened(&tables.function_name(id, NameStyle::SHORT), MOST_NAME),
            kind: tables.frame_kind(id),
            module: tables.function_module(id).map(|module| shortened(module, MOST_NAME)),
        }
    }
}

/// Letters of a name.
const MOST_NAME: usize = 4096;

/// Nodes of a path that are shown at its beginning, and at its end.
const PATH: (usize, usize) = (2, 6);

/// What is shown of a path from a root: its beginning and its end, and how many nodes are left out
/// between them.
pub fn ends_of_path<T>(mut path: Vec<T>) -> (Vec<T>, usize) {
    let left_out = path.len().saturating_sub(PATH.0 + PATH.1);
    if left_out > 0 {
        path.drain(PATH.0..PATH.0 + left_out);
    }
    (path, left_out)
}

/// A text with at most `most` letters, and a sign where there were more.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Where a function is in the source: file and line.
fn place(profile: &Profile, line: Option<Line>) -> Option<String> {
    let file = |line: Line| shortened(profile.tables.file(line.file), MOST_NAME);
    line.map(|line| format!("{}:{}", file(line), line.line))
}

/// Functions or places of an answer: each is in it once.
#[derive(Debug)]
struct Once<K, V> {
    numbers: HashMap<K, u32>,
    values: Vec<V>,
}

impl<K: Copy + Eq + std::hash::Hash, V> Once<K, V> {
    fn new() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }

    /// The number of a thing in the answer.
    fn number(&mut self, key: Option<K>, value: impl FnOnce(K) -> V) -> u32 {
        let Some(key) = key else { return NONE };
        let next = self.values.len() as u32;
        *self.numbers.entry(key).or_insert_with(|| {
            self.values.push(value(key));
            next
        })
    }
}

/// Word for the unit of weights.
fn unit_id(unit: Unit) -> &'static str {
    unit.id()
}
