use std::collections::HashMap;

use profile::{
    NONE, Tables,
    session::{FunctionId, StackId},
};

use crate::{ExploreError, Tree};

/// For each stack, the first one with the same functions from the root on. Stacks are only ever
/// added to a session, so the first one stays the same while the session is written.
#[derive(Debug)]
pub struct FirstStacks(Vec<u32>);

impl FirstStacks {
    /// Those of a session.
    pub fn new(tables: &Tables) -> Self {
        let mut known: HashMap<(u32, FunctionId), u32> = HashMap::new();
        let mut first: Vec<u32> = Vec::with_capacity(tables.stack_count());
        for stack in 0..tables.stack_count() as u32 {
            let id = StackId(stack);
            let parent = tables.parent(id).and_then(|parent| first.get(parent.index()).copied());
            let key = (parent.unwrap_or(NONE), tables.stack_function(id));
            first.push(*known.entry(key).or_insert(stack));
        }
        Self(first)
    }

    /// Whether a stack is the first one with its functions.
    fn is_first(&self, stack: usize) -> bool {
        self.0.get(stack).is_some_and(|first| *first as usize == stack)
    }

    /// Bytes of memory that it takes, about.
    pub fn size(&self) -> usize {
        self.0.len() * size_of::<u32>()
    }
}

/// How nodes of a tree are numbered in answers.
#[derive(Debug)]
pub enum Numbers<'a> {
    /// By their places in the tree.
    Places,
    /// By the first stack of each, which stays the same while a session is written.
    Stacks {
        /// The first stack of each stack.
        first: &'a FirstStacks,
        /// Number of each node.
        number: Vec<u32>,
        /// Node of each number, or [`NONE`].
        node: Vec<u32>,
    },
}

/// What is asked about in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All of it.
    Whole,
    /// A node with all below it.
    Node(usize),
    /// A call of the session of which nothing is in this tree: the first stack of the call. While
    /// the latest seconds of a recording are looked at, a call may have no sample for a time.
    Unsampled(StackId),
}

impl Asked {
    /// The node, or the whole; `None` where nothing is in the tree.
    pub fn node(self) -> Option<Option<usize>> {
        match self {
            Self::Whole => Some(None),
            Self::Node(node) => Some(Some(node)),
            Self::Unsampled(_) => None,
        }
    }
}

impl<'a> Numbers<'a> {
    /// Numbers by stacks, of a tree whose roots are the outermost calls.
    pub fn of_stacks(tree: &Tree, first: &'a FirstStacks) -> Self {
        let mut number = vec![NONE; tree.len()];
        let mut node = vec![NONE; first.0.len()];
        for (stack, of) in first.0.iter().enumerate().take(tree.calls().stacks()) {
            let Some(at) = tree.calls().node_of(StackId(stack as u32)) else { continue };
            if let (Some(number), Some(node)) = (number.get_mut(at), node.get_mut(*of as usize)) {
                (*number, *node) = (*of, at as u32);
            }
        }
        Self::Stacks { first, number, node }
    }

    /// What a number stands for that was asked for.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn asked(&self, tree: &Tree, asked: Option<usize>) -> Result<Asked, ExploreError> {
        let Some(asked) = asked else { return Ok(Asked::Whole) };
        let found = match self {
            Self::Places => Some(Asked::Node(asked)).filter(|_| asked < tree.len()),
            Self::Stacks { first, node, .. } => match node.get(asked) {
                Some(&NONE) if first.is_first(asked) => {
                    Some(Asked::Unsampled(StackId(asked as u32)))
                }
                Some(&NONE) | None => None,
                Some(node) => Some(Asked::Node(*node as usize)),
            },
        };
        found.ok_or(ExploreError::NoNode(asked as u32, tree.len()))
    }

    /// The way from the outermost call down to that of a stack: numbers and functions.
    pub fn way(&self, tables: &Tables, stack: StackId) -> Vec<(u32, FunctionId)> {
        let Self::Stacks { first, .. } = self else { return Vec::new() };
        let mut way = Vec::new();
        let mut at = Some(stack);
        while let Some(stack) = at {
            let number = first.0.get(stack.index()).copied().unwrap_or(NONE);
            way.push((number, tables.stack_function(stack)));
            at = tables.parent(stack);
        }
        way.reverse();
        way
    }

    /// The number of a node; [`NONE`] of none.
    pub fn number(&self, node: u32) -> u32 {
        match self {
            Self::Places => node,
            Self::Stacks { number, .. } => number.get(node as usize).copied().unwrap_or(NONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Explored, FlameQuery, Selection, View, shop};
    use profile::{
        Filter, SeriesKind,
        session::{SessionRecord, SessionWriter},
    };

    fn explored(records: &[SessionRecord]) -> Explored {
        let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        Explored::read(&writer.finish().unwrap()[..], None).unwrap()
    }

    /// Rows below a node, with all below them: numbers and names.
    fn names(explored: &Explored, selection: &Selection) -> Vec<(u64, String)> {
        let (mut all, mut open) = (Vec::new(), vec![None]);
        while let Some(node) = open.pop() {
            let rows = explored.children(selection, node, None, 0, 1000).unwrap();
            let rows = serde_json::to_value(rows).unwrap();
            for row in rows["rows"].as_array().unwrap() {
                let number = row["node"].as_u64().unwrap();
                all.push((number, row["function"]["name"].as_str().unwrap().to_owned()));
                open.push(Some(number as usize));
            }
        }
        all
    }

    #[test]
    fn numbers_of_calls_stay_the_same_while_a_session_becomes_longer() {
        let records = shop::records();
        let is_cpu = |record: &&SessionRecord| matches!(record, SessionRecord::CpuSamples(_));
        let few: Vec<SessionRecord> = records
            .iter()
            .map(|record| match record {
                SessionRecord::CpuSamples(batch) => {
                    let mut batch = batch.clone();
                    let left_out = batch.stack.len().saturating_sub(20);
                    // Calls of those that are left out come to the tree between the others.
                    batch.start += batch.time_delta.drain(..left_out).sum::<u64>();
                    batch.thread.drain(..left_out);
                    batch.stack.drain(..left_out);
                    batch.weight.drain(..left_out);
                    batch.state.drain(..left_out);
                    batch.truncated.drain(..left_out);
                    SessionRecord::CpuSamples(batch)
                }
                other => other.clone(),
            })
            .collect();
        assert!(records.iter().filter(is_cpu).count() > 0);
        let selection = Selection {
            kind: SeriesKind::Cpu,
            filter: Filter::default(),
            inverted: false,
            merge_recursion: false,
            stable: true,
        };
        let (before, after) = (explored(&few), explored(&records));
        let all = names(&after, &selection);
        let known = names(&before, &selection);
        assert!(known.len() > 3 && known.len() < all.len(), "{known:?} {all:?}");
        assert!(known.iter().all(|call| all.contains(call)), "{known:?} {all:?}");
        // Each has a number of its own, and nothing else is a node.
        let mut numbers: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all.len());
        // Calls of which there are no samples yet are empty, and have their way from the root.
        let rest: Vec<_> = all.iter().filter(|call| !known.contains(call)).collect();
        for (number, name) in rest {
            let root = Some(*number as usize);
            let below = before.children(&selection, root, None, 0, 1).unwrap();
            assert_eq!(serde_json::to_value(below).unwrap()["count"], 0, "{name}");
            let view = View { root, width: 100.0, top: 0, rows: 100 };
            let query = FlameQuery { selection: selection.clone(), view, search: None };
            let answer = before.flame(&query).unwrap().to_bytes();
            let length = u32::from_le_bytes(answer[4..8].try_into().unwrap()) as usize;
            let head: serde_json::Value = serde_json::from_slice(&answer[8..8 + length]).unwrap();
            assert_eq!((&head["total"], &head["height"]), (&0.into(), &0.into()), "{head}");
            let last = head["path"].as_array().unwrap().last().unwrap();
            let function = last["function"]["name"].as_str();
            assert_eq!((last["node"].as_u64(), function), (Some(*number), Some(&**name)));
        }
        let none = after.children(&selection, Some(1_000_000), None, 0, 1);
        assert!(none.unwrap_err().to_string().contains("no node 1000000"));
    }
}
