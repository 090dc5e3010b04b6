//! Which task continues after which: as tasks say, or as references between objects suggest.

use std::collections::{HashSet, VecDeque};

use super::names::{Kind, cause_of, machine_of};
use super::{Cause, Continuations};
use crate::snapshot::{NodeId, Snapshot};

/// References of one box that are looked at.
const MOST_REFERENCES: usize = 256;

/// Objects between a task and who awaits it, at most: a list, its array, what remembers a context,
/// a delegate.
const FARTHEST: u8 = 4;

/// At most this number of those that await one task are found.
const MOST_AWAITERS: usize = 1 << 20;

/// Steps from method to method in all, of those that no other awaits. Where many await many, there
/// are more stacks than anybody could look at.
pub(super) const MOST_STEPS: u64 = 16 << 20;

/// Who awaits whom in a snapshot.
pub(super) struct Graph<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) kinds: Vec<Kind>,
    /// Tasks of a `TaskCompletionSource`.
    pub(super) completed_by_source: HashSet<NodeId>,
    /// Who awaits, and what: in order.
    pub(super) awaits: Vec<(NodeId, NodeId)>,
}

impl<'a> Graph<'a> {
    pub(super) fn kind(&self, node: NodeId) -> Kind {
        self.kinds.get(self.snapshot.type_of(node) as usize).copied().unwrap_or(Kind::Other)
    }

    pub(super) fn name(&self, node: NodeId) -> &'a str {
        self.snapshot
            .types()
            .get(self.snapshot.type_of(node) as usize)
            .map_or("", |info| info.name.as_str())
    }

    pub(super) fn references(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<'a> {
        self.snapshot.references(node).iter().take(MOST_REFERENCES).copied()
    }

    /// Whether a task has completed, as far as is known.
    fn has_completed(&self, node: NodeId) -> bool {
        match self.snapshot.continuation_of(node) {
            Some(Some(next)) => self.kind(next) == Kind::Mark,
            Some(None) => false,
            None => self.references(node).any(|to| self.kind(to) == Kind::Mark),
        }
    }

    /// Whether a method has begun and not ended. One that has ended refers to nothing any more, but
    /// for a mark that it has, and its result.
    pub(super) fn is_pending(&self, node: NodeId) -> bool {
        let ended = match self.snapshot.continuation_of(node) {
            Some(Some(next)) => self.kind(next) == Kind::Mark,
            _ => false,
        };
        !ended && self.references(node).any(|to| self.kind(to) != Kind::Mark)
    }

    /// Where a method stands.
    pub(super) fn state(&self, node: NodeId) -> Option<i32> {
        self.snapshot.state_of(node).or_else(|| {
            // A state machine that is an object of its own.
            let own = machine_of(self.name(node))?;
            self.references(node)
                .filter(|to| self.name(*to) == own)
                .find_map(|to| self.snapshot.state_of(to))
        })
    }

    /// Methods and links that are reached from the continuation of a task.
    fn behind(&self, from: impl Iterator<Item = NodeId>, found: &mut Vec<NodeId>) {
        let mut steps = u64::MAX;
        self.behind_within(&mut steps, from, found);
    }

    /// As [`Self::behind`], in at most `steps` steps. The steps it uses are subtracted from
    /// `steps`.
    fn behind_within(
        &self,
        steps: &mut u64,
        from: impl Iterator<Item = NodeId>,
        found: &mut Vec<NodeId>,
    ) {
        found.clear();
        let mut todo: Vec<(NodeId, u8)> = from.map(|node| (node, 0)).collect();
        while let Some((node, far)) = todo.pop() {
            let Some(left) = steps.checked_sub(1) else { return };
            *steps = left;
            match self.kind(node) {
                Kind::Method | Kind::Link => found.push(node),
                Kind::Way if far < FARTHEST && found.len() < MOST_AWAITERS => {
                    let most = MOST_AWAITERS.min(usize::try_from(left).unwrap_or(MOST_AWAITERS));
                    todo.extend(
                        self.snapshot.references(node).iter().take(most).map(|to| (*to, far + 1)),
                    );
                }
                _ => {}
            }
        }
    }

    /// Which object continues after which task or method that has not completed. Where that field
    /// was not read, any object that the task refers to may be it: a task refers to few others.
    pub(super) fn continuations(&self) -> Continuations {
        let (mut keys, mut found) = (HashSet::new(), Vec::new());
        // Methods may refer to large lists, many to the same one.
        let mut steps = MOST_STEPS;
        for node in self.snapshot.nodes() {
            if !matches!(self.kind(node), Kind::Method | Kind::Link | Kind::Task) {
                continue;
            }
            match self.snapshot.continuation_of(node) {
                Some(next) => self.behind_within(&mut steps, next.into_iter(), &mut found),
                None => self.behind_within(&mut steps, self.references(node), &mut found),
            }
            keys.extend(found.iter().map(|next| Continuations::key(self.snapshot, *next, node)));
        }
        Continuations(keys)
    }

    /// Finds who awaits whom.
    pub(super) fn connect(&mut self, pending: &[NodeId]) {
        let mut awaits = Vec::new();
        let mut found = Vec::new();
        for node in self.snapshot.nodes() {
            let kind = self.kind(node);
            let is_one = matches!(kind, Kind::Link | Kind::Task)
                || (kind == Kind::Method && pending.binary_search(&node).is_ok());
            if !is_one {
                continue;
            }
            match self.snapshot.continuation_of(node) {
                Some(next) => {
                    self.behind(next.into_iter(), &mut found);
                    awaits.extend(found.iter().map(|awaiter| (*awaiter, node)));
                }
                // What refers to what does not say who awaits whom, but a plain task awaits nobody.
                None if kind != Kind::Method => {
                    self.behind(self.references(node), &mut found);
                    found.retain(|one| {
                        self.kind(*one) == Kind::Method
                            && self.references(*one).any(|to| to == node)
                    });
                    awaits.extend(found.iter().map(|awaiter| (*awaiter, node)));
                }
                None => {}
            }
        }
        awaits.retain(|(awaiter, node)| {
            awaiter != node
                && (self.kind(*awaiter) == Kind::Link || pending.binary_search(awaiter).is_ok())
        });
        awaits.sort_unstable();
        awaits.dedup();
        self.awaits = awaits;
        self.guess(pending);
    }

    /// Connects methods of which it was not read who awaits them: two that refer to each other are
    /// a method and one that awaits it. Those that wait for something else are the ends where
    /// waiting begins; then the ends of what is left; then what has no end.
    fn guess(&mut self, pending: &[NodeId]) {
        let unread: Vec<NodeId> = pending
            .iter()
            .copied()
            .filter(|node| self.snapshot.continuation_of(*node).is_none())
            .collect();
        let place = |node: NodeId| unread.binary_search(&node).ok();
        let near: Vec<Vec<usize>> = unread
            .iter()
            .map(|&node| {
                let both =
                    |to: &NodeId| *to != node && self.references(*to).any(|back| back == node);
                let mut near: Vec<usize> =
                    self.references(node).filter(both).filter_map(place).collect();
                near.sort_unstable();
                near.dedup();
                near
            })
            .collect();
        let has_leaf: Vec<bool> = unread
            .iter()
            .map(|node| !self.awaited_by(*node).is_empty() || self.leaf(*node).0.is_some())
            .collect();
        let mut seen = vec![false; unread.len()];
        let mut todo: VecDeque<usize> = VecDeque::new();
        let mut guessed = Vec::new();
        for pass in 0..3 {
            for first in 0..unread.len() {
                let begins = match pass {
                    0 => has_leaf[first],
                    1 => near[first].len() <= 1,
                    _ => true,
                };
                if !begins || seen[first] {
                    continue;
                }
                seen[first] = true;
                todo.push_back(first);
                // Of what has no end, one begins for all that hang together.
                if pass < 2 {
                    continue;
                }
                self.spread(&unread, &near, &has_leaf, &mut seen, &mut todo, &mut guessed);
            }
            self.spread(&unread, &near, &has_leaf, &mut seen, &mut todo, &mut guessed);
        }
        self.awaits.append(&mut guessed);
        self.awaits.sort_unstable();
        self.awaits.dedup();
    }

    fn spread(
        &self,
        unread: &[NodeId],
        near: &[Vec<usize>],
        has_leaf: &[bool],
        seen: &mut [bool],
        todo: &mut VecDeque<usize>,
        guessed: &mut Vec<(NodeId, NodeId)>,
    ) {
        while let Some(at) = todo.pop_front() {
            for &next in &near[at] {
                if !seen[next] && !has_leaf[next] {
                    seen[next] = true;
                    guessed.push((unread[next], unread[at]));
                    todo.push_back(next);
                }
            }
        }
    }

    /// What a method or link awaits.
    pub(super) fn awaited_by(&self, node: NodeId) -> &[(NodeId, NodeId)] {
        let from = self.awaits.partition_point(|(awaiter, _)| *awaiter < node);
        let length = self.awaits[from..].partition_point(|(awaiter, _)| *awaiter == node);
        &self.awaits[from..from + length]
    }

    /// What a method or link waits for that awaits nothing itself.
    pub(super) fn leaf(&self, node: NodeId) -> (Option<NodeId>, Cause) {
        match self.kind(node) {
            Kind::Task => return (Some(node), self.cause_of_task(node)),
            Kind::Link => return (Some(node), Cause::Tasks),
            _ => {}
        }
        if self.state(node).is_some_and(|state| state < 0) {
            return (None, Cause::Running);
        }
        let task = |to: &NodeId| {
            matches!(self.kind(*to), Kind::Task | Kind::Link) && !self.has_completed(*to)
        };
        if let Some(task) = self.references(node).find(task) {
            return (Some(task), self.cause_of_task(task));
        }
        let waits = |to: &NodeId| {
            *to != node
                && self.kind(*to) == Kind::Waitable
                && self.references(*to).any(|back| back == node)
        };
        match self.references(node).find(waits) {
            Some(other) => (Some(other), cause_of(self.name(other))),
            None => (None, Cause::Unknown),
        }
    }

    fn cause_of_task(&self, task: NodeId) -> Cause {
        match cause_of(self.name(task)) {
            Cause::Promise if self.completed_by_source.contains(&task) => Cause::CompletionSource,
            Cause::Promise => {
                let next = self.snapshot.continuation_of(task).flatten();
                let is_work = |to: NodeId| {
                    let name = self.name(to);
                    Some(to) != next
                        && (name.starts_with("System.Func<") || name.starts_with("System.Action"))
                };
                let is_work = next.is_some() && self.references(task).any(is_work);
                if is_work { Cause::Work } else { Cause::Promise }
            }
            cause => cause,
        }
    }
}
