//! Threads that have the same stack, together.

use super::{ExploreError, ShownFunction, place, shortened};
use crate::{Explored, Pattern, Selection};
use profile::{
    Profile, Totals,
    session::{StackId, ThreadId},
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{cmp::Reverse, collections::BTreeMap};

/// Frames of a stack that are answered.
const MOST_FRAMES: usize = 200;

/// Threads of a stack that are named, and letters of a name.
const MOST_THREADS: usize = 20;
const MOST_NAME: usize = 200;

/// Stacks of a selection. Stacks with the same functions are one, whatever their lines.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StacksAnswer {
    /// Weight of all that is selected.
    whole: u64,
    /// How many different stacks there are, or are found.
    count: usize,
    /// Some of them, those of most threads first.
    rows: Vec<StackRow>,
}

/// A stack, and the threads that were sampled in it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StackRow {
    /// How many threads were sampled in it.
    threads: usize,
    /// Names of some of them, heaviest first.
    names: Vec<String>,
    /// What its samples stand for.
    weight: u64,
    /// Its samples.
    samples: u64,
    /// Its frames, innermost first.
    frames: Vec<StackFrame>,
    /// Further frames towards the root that are not answered.
    left_out: usize,
}

/// A frame of a stack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StackFrame {
    /// The function.
    function: ShownFunction,
    /// Where in it most of the samples are, where known.
    place: Option<String>,
}

/// What is known of a stack.
#[derive(Default)]
struct Group {
    sum: Totals,
    threads: BTreeMap<ThreadId, u64>,
    /// Of the stacks that differ in lines only: the heaviest, and its weight.
    heaviest: Option<(u64, StackId)>,
}

impl Explored {
    /// Stacks of a selection with their threads, from the row `first` on. With a search, those with
    /// a function that it finds.
    ///
    /// # Errors
    /// [`ExploreError::SearchTooLong`].
    pub fn stacks(
        &self,
        selection: &Selection,
        search: Option<&Pattern>,
        first: usize,
        rows: usize,
    ) -> Result<StacksAnswer, ExploreError> {
        let profile = &self.profile;
        let found = search.map(|search| search.functions(&profile.tables)).transpose()?;
        let same = same_functions(profile);
        let mut groups: BTreeMap<StackId, Group> = BTreeMap::new();
        let mut whole = 0_u64;
        profile.each_cell(selection.kind, &selection.filter, |cell| {
            whole = whole.saturating_add(cell.weight);
            let group = groups.entry(same[cell.stack.index()]).or_default();
            group.sum.samples = group.sum.samples.saturating_add(cell.samples.into());
            group.sum.weight = group.sum.weight.saturating_add(cell.weight);
            let thread = group.threads.entry(cell.thread).or_default();
            *thread = thread.saturating_add(cell.weight);
            if group.heaviest.is_none_or(|(weight, _)| cell.weight > weight) {
                group.heaviest = Some((cell.weight, cell.stack));
            }
        });
        let is_found = |stack: StackId| {
            let function = |frame| profile.tables.frame(frame).function.index();
            found
                .as_ref()
                .is_none_or(|found| profile.tables.walk(stack).any(|frame| found[function(frame)]))
        };
        let mut groups: Vec<(StackId, Group)> =
            groups.into_iter().filter(|(stack, _)| is_found(*stack)).collect();
        order::sort_by_key(&mut groups, |(stack, group)| {
            (Reverse((group.threads.len(), group.sum.weight)), *stack)
        });
        Ok(StacksAnswer {
            whole,
            count: groups.len(),
            rows: (groups.into_iter().skip(first).take(rows))
                .map(|(stack, group)| StackRow::of(profile, stack, group))
                .collect(),
        })
    }
}

impl StackRow {
    fn of(profile: &Profile, stack: StackId, group: Group) -> Self {
        let stack = group.heaviest.map_or(stack, |(_, stack)| stack);
        let mut threads: Vec<(ThreadId, u64)> = group.threads.into_iter().collect();
        order::sort_by_key(&mut threads, |(thread, weight)| (Reverse(*weight), *thread));
        let name = |(thread, _): &(ThreadId, u64)| {
            shortened(&profile.tables.thread_name(*thread), MOST_NAME)
        };
        let mut frames = profile.tables.walk(stack);
        let shown = frames.by_ref().take(MOST_FRAMES).map(|frame| {
            let frame = profile.tables.frame(frame);
            let function = ShownFunction::of(profile, frame.function);
            StackFrame { function, place: place(profile, frame.line) }
        });
        Self {
            threads: threads.len(),
            names: threads.iter().take(MOST_THREADS).map(name).collect(),
            weight: group.sum.weight,
            samples: group.sum.samples,
            frames: shown.collect(),
            left_out: frames.count(),
        }
    }
}

/// For each stack, the first one with the same functions.
fn same_functions(profile: &Profile) -> Vec<StackId> {
    let tables = &profile.tables;
    let mut known = BTreeMap::new();
    let mut same: Vec<StackId> = Vec::with_capacity(tables.stack_count());
    for id in (0..tables.stack_count() as u32).map(StackId) {
        // A stack is defined after the one that it continues.
        let parent = tables.parent(id).map(|parent| same[parent.index()]);
        same.push(*known.entry((parent, tables.stack_function(id))).or_insert(id));
    }
    same
}

#[cfg(test)]
mod tests {
    use crate::{Explored, Pattern, Selection, shop};
    use profile::{Filter, SeriesKind};

    fn wall() -> Selection {
        Selection {
            kind: SeriesKind::Wall,
            filter: Filter::default(),
            inverted: false,
            merge_recursion: false,
            stable: false,
        }
    }

    #[test]
    fn threads_with_the_same_stack_are_together() {
        let open = Explored::read(&shop::file()[..], None).unwrap();
        let answer = open.stacks(&wall(), None, 0, 100).unwrap();
        // Both workers of the pool have waited for work, and no other stack has two threads.
        let threads: Vec<usize> = answer.rows.iter().map(|row| row.threads).collect();
        assert_eq!((threads[0], threads[1], answer.count), (2, 1, threads.len()), "{answer:#?}");
        let first = &answer.rows[0];
        assert!(first.names.iter().all(|name| name.starts_with(".NET TP Worker")), "{first:#?}");
        assert!(first.frames[1].function.short.contains("WaitForSignal"), "{first:#?}");
        assert_eq!((first.frames.len(), first.left_out), (3, 0));
        let weights: u64 = answer.rows.iter().map(|row| row.weight).sum();
        assert_eq!(weights, answer.whole);

        let search = Pattern::parse("EventLoop").unwrap();
        let found = open.stacks(&wall(), search.as_ref(), 0, 100).unwrap();
        assert_eq!((found.count, found.whole), (1, answer.whole));
        let last = open.stacks(&wall(), None, answer.count - 1, 100).unwrap();
        assert_eq!(last.rows.len(), 1);
    }
}
