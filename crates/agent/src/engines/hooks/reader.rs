//! Reads the trees, and tells what has been added to them.

use super::tree::{Tree, TreeKind};
use super::{METHODS, WITHOUT_NUMBER, WITHOUT_TREE, arch, crossed_of_key, give_back, next_tree};
use crate::host::Host;
use crate::host::resolver::Resolver;
use crate::os::{clock, threads};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use wire::{CallKind, CallNode, Calls, Record};

/// Most nodes of one record: it has to fit into a frame.
const MOST_NODES: usize = 8192;

/// New nodes that are [much](Reader::has_much).
const MUCH: usize = 4096;

/// Reads the call trees, and remembers what it has reported of them so far.
pub struct Reader {
    /// Of each node of each tree: calls, and time in ticks.
    told: HashMap<u32, Vec<(u64, u64)>>,
    /// What was counted before this began: trees outlive sessions.
    before: HashMap<u32, Vec<(u64, u64)>>,
    /// Ids on the wire of the methods with hooks, by their numbers from 1.
    methods: Vec<u32>,
    /// Those of methods that were rewritten, by slot.
    traced: Vec<Option<u32>>,
    /// When this began, and when it last began to read, in ticks and in nanoseconds.
    begun: (u64, u64),
    now: (u64, u64),
    /// Drops of trees that are gone.
    gone: (u64, u64),
    dropped: (u64, u64),
    memory: usize,
}

impl Reader {
    /// Creates a reader that has reported nothing yet.
    pub fn new() -> Self {
        let begun = (arch::ticks(), clock::monotonic());
        let trees = std::iter::successors(next_tree(0), |(place, ..)| next_tree(place + 1));
        let counted = |tree: &Tree| {
            let nodes = tree.nodes().iter();
            nodes.map(|node| (node.count.load(Relaxed), node.own.load(Relaxed))).collect()
        };
        Self {
            told: HashMap::new(),
            before: trees.map(|(_, _, tree)| (tree.number(), counted(tree))).collect(),
            methods: Vec::new(),
            traced: Vec::new(),
            begun,
            now: begun,
            gone: (0, 0),
            dropped: (0, 0),
            memory: 0,
        }
    }

    /// What is not in the trees, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let (too_deep, no_room) = self.dropped;
        [
            ("calls nested too deeply", too_deep),
            ("calls, no room in the call tree", no_room),
            ("calls in threads without a call tree", WITHOUT_TREE.load(Relaxed)),
        ]
        .into_iter()
    }

    /// About how many bytes all of it holds.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// A method with this slot has this id on the wire.
    pub fn name_slot(&mut self, slot: u32, method: u32) {
        let slot = slot as usize;
        if self.traced.len() <= slot {
            self.traced.resize(slot + 1, None);
        }
        if let Some(place) = self.traced.get_mut(slot) {
            *place = Some(method);
        }
    }

    /// Names the methods that have got hooks.
    pub fn define(&mut self, host: &Host, resolver: &mut Resolver, out: &mut Vec<Record>) {
        for (function, name) in
            METHODS.get().map(|methods| methods.take_fresh()).unwrap_or_default()
        {
            self.methods.push(resolver.define(&host.runtime, function, Ok(name), out));
        }
    }

    /// Whether the trees have grown so much that they should be reported soon. When the process
    /// ends, somebody waits for everything that has not been reported by then.
    pub fn has_much(&self) -> bool {
        let trees = std::iter::successors(next_tree(0), |(place, ..)| next_tree(place + 1));
        let told = |tree: &Tree| self.told.get(&tree.number()).map_or(0, Vec::len);
        trees.map(|(_, _, tree)| tree.nodes().len().saturating_sub(told(tree))).sum::<usize>()
            >= MUCH
    }

    /// Begins to read all trees.
    pub fn begin(&mut self) {
        self.now = (arch::ticks(), clock::monotonic());
        self.dropped = self.gone;
        self.memory =
            self.told.values().map(|told| told.capacity() * size_of::<(u64, u64)>()).sum();
    }

    /// Tells what was called since the last time, of one tree: the first at this place or behind
    /// it. Gives the place behind that tree; `None` if there are no more. The last of all times,
    /// calls that have not returned get their time too.
    pub fn read(
        &mut self,
        place: usize,
        host: &Host,
        resolver: &mut Resolver,
        is_last: bool,
        out: &mut Vec<Record>,
    ) -> Option<usize> {
        let (place, slot, tree) = next_tree(place)?;
        let (now, time) = self.now;
        let rate = time.saturating_sub(self.begun.1) as f64
            / now.saturating_sub(self.begun.0).max(1) as f64;
        // Asked first: what is read of a thread that is gone is all there is.
        let ended = threads::is_gone(tree.os_tid());
        // Trees of methods that were rewritten outlive the session that did it.
        let told = tree.kind() != TreeKind::Traced || !self.traced.is_empty();
        let grown = self.grown(tree, (is_last && !ended).then_some(now));
        let (too_deep, no_room) = tree.dropped();
        self.dropped = (self.dropped.0 + too_deep, self.dropped.1 + no_room);
        self.memory += tree.memory();
        // A method may have got its hooks since.
        self.define(host, resolver, out);
        let mut nodes = Vec::with_capacity(grown.len());
        for Grown { node, parent, key, number, count, ticks } in grown.into_iter().filter(|_| told)
        {
            let (method, from_native) = match tree.kind() {
                TreeKind::Hooked => {
                    let index = ((key >> 2) as usize).checked_sub(1);
                    (index.and_then(|index| self.methods.get(index)).copied(), false)
                }
                TreeKind::Traced => {
                    let slot = ((key >> 2) as usize).checked_sub(1);
                    (slot.and_then(|slot| self.traced.get(slot).copied().flatten()), false)
                }
                TreeKind::Crossings => {
                    let number =
                        Some(number).filter(|number| ![0, WITHOUT_NUMBER].contains(number));
                    let id = |number| {
                        resolver.numbered_method(&host.runtime, &host.counters, number, out)
                    };
                    (number.and_then(id), crossed_of_key(key).1)
                }
            };
            let own = (ticks as f64 * rate) as u64;
            nodes.push(CallNode { node, parent, method, from_native, count, own });
        }
        let kind = match tree.kind() {
            TreeKind::Hooked | TreeKind::Traced => CallKind::Methods,
            TreeKind::Crossings => CallKind::Transitions,
        };
        let (number, os_tid) = (tree.number(), tree.os_tid());
        let record = |nodes: &[CallNode], ended| {
            Record::Calls(Calls { kind, tree: number, os_tid, time, nodes: nodes.to_vec(), ended })
        };
        out.extend(nodes.chunks(MOST_NODES).map(|nodes| record(nodes, false)));
        if ended {
            out.extend(told.then(|| record(&[], true)));
            self.told.remove(&number);
            self.before.remove(&number);
            self.gone = (self.gone.0 + too_deep, self.gone.1 + no_room);
            // SAFETY: the thread is gone, and this is the one reader.
            unsafe { give_back(slot) };
        }
        Some(place + 1)
    }

    /// What was added to a tree. With a time, that which runs gets its time up to then.
    fn grown(&mut self, tree: &Tree, until: Option<u64>) -> Vec<Grown> {
        let told = self.told.entry(tree.number()).or_default();
        let before = self.before.get(&tree.number()).map(Vec::as_slice).unwrap_or_default();
        let running = until.map(|until| {
            let (node, since) = tree.running();
            (node, until.saturating_sub(since))
        });
        let mut grown = Vec::new();
        for (index, node) in tree.nodes().iter().enumerate() {
            let is_new = index >= told.len();
            if is_new {
                told.push(before.get(index).copied().unwrap_or_default());
            }
            let (count, mut ticks) = (node.count.load(Relaxed), node.own.load(Relaxed));
            if let Some((_, more)) = running.filter(|(running, _)| *running == index) {
                ticks = ticks.wrapping_add(more);
            }
            let (key, number) = (node.key.load(Relaxed), node.number.load(Relaxed));
            // Its number comes in a moment, and with it the name.
            let comes = tree.kind() == TreeKind::Crossings
                && number == 0
                && crossed_of_key(key).0.is_some();
            if comes && until.is_none() {
                continue;
            }
            // The root is no call.
            let Some(told) = told.get_mut(index).filter(|_| index > 0) else { continue };
            if is_new || *told != (count, ticks) {
                let (count_before, ticks_before) = std::mem::replace(told, (count, ticks));
                grown.push(Grown {
                    node: index as u32,
                    parent: node.parent.load(Relaxed),
                    key,
                    number,
                    count: count.saturating_sub(count_before),
                    ticks: ticks.saturating_sub(ticks_before),
                });
            }
        }
        grown
    }
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

/// Growth of a node.
struct Grown {
    node: u32,
    parent: u32,
    key: u64,
    number: u32,
    count: u64,
    ticks: u64,
}
