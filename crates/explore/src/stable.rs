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

    /// Bytes of memory that it takes, about.
    pub fn size(&self) -> usize {
        self.0.len() * size_of::<u32>()
    }
}

/// How nodes of a tree are numbered in answers.
#[derive(Debug)]
pub enum Numbers {
    /// By their places in the tree.
    Places,
    /// By the first stack of each, which stays the same while a session is written.
    Stacks {
        /// Number of each node.
        number: Vec<u32>,
        /// Node of each number, or [`NONE`].
        node: Vec<u32>,
    },
}

impl Numbers {
    /// Numbers by stacks, of a tree whose roots are the outermost calls.
    pub fn of_stacks(tree: &Tree, first: &FirstStacks) -> Self {
        let mut number = vec![NONE; tree.len()];
        let mut node = vec![NONE; first.0.len()];
        for (stack, first) in first.0.iter().enumerate().take(tree.calls().stacks()) {
            let Some(at) = tree.calls().node_of(StackId(stack as u32)) else { continue };
            if let (Some(number), Some(node)) = (number.get_mut(at), node.get_mut(*first as usize))
            {
                (*number, *node) = (*first, at as u32);
            }
        }
        Self::Stacks { number, node }
    }

    /// The node of a number that was asked for.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn node(&self, tree: &Tree, asked: Option<usize>) -> Result<Option<usize>, ExploreError> {
        let Some(asked) = asked else { return Ok(None) };
        let found = match self {
            Self::Places => Some(asked).filter(|node| *node < tree.len()),
            Self::Stacks { node, .. } => {
                node.get(asked).filter(|node| **node != NONE).map(|node| *node as usize)
            }
        };
        found.map(Some).ok_or(ExploreError::NoNode(asked as u32, tree.len()))
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
    use crate::{Explored, Selection, shop};
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
        let none = after.children(&selection, Some(1_000_000), None, 0, 1);
        assert!(none.unwrap_err().to_string().contains("no node 1000000"));
    }
}
