//! The call tree of one thread.
//!
//! Its thread alone writes it, in hooks and callbacks; the agent's main thread reads along.
//! Everything is an atomic number that is loaded and stored without order, which on a processor is
//! a plain load or store. Everything has its fixed place, so that the hooks, which are assembly,
//! find it: offsets of frames and nodes are bytes from the tree's own address. The memory is
//! reserved as a whole and used page by page as the tree grows.

use super::key_of_slot;
use crate::os::map::{Zeroed, populate};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Most calls within each other that are kept.
pub const MOST_DEEP: usize = 131_072;
/// Most nodes of a tree.
pub const MOST_NODES: usize = 131_072;
/// Most nodes of all trees of the process: 64 MB.
const MOST_IN_ALL: u32 = 1 << 20;
/// Slots of the table of children: never more than half of them are used.
const SLOTS: usize = MOST_NODES * 2;
/// Slots that are searched first for the children of a few parents that were created one after the
/// other. In most cases they are one cache line, and the one that was just used, because a program
/// continues where it is.
const NEAR: usize = 8;
/// Bits of a slot that have the index of a node; those above are of its key.
const INDEX_BITS: u32 = MOST_NODES.ilog2();
/// Nodes whose pages come together: 64 KB.
const AT_A_TIME: usize = 1024;
/// Children that a node remembers by itself.
pub const REMEMBERED: usize = 8;

/// When a call has begun that is not timed.
pub const UNTIMED: u64 = 0;
/// Above every stack pointer.
pub const GUARDED: u64 = u64::MAX;

/// Which calls a tree is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TreeKind {
    /// Of methods with hooks.
    Hooked,
    /// Between managed and native code.
    Crossings,
    /// Of methods that were rewritten.
    Traced,
}

/// Nodes of all trees.
static IN_ALL: AtomicU32 = AtomicU32::new(0);

/// A call that has not returned yet.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct Frame {
    /// The caller's stack pointer at the call: the same in the enter and the leave hook of a call,
    /// and lower for what it calls. [`GUARDED`] for a call that tells its end however it ends.
    pub sp: AtomicU64,
    /// Offset of the node: the caller's, if this call has none.
    pub node: AtomicU32,
    /// Of a method that was rewritten: its slot,
    slot: AtomicU32,
    /// and when it was called, or [`UNTIMED`].
    begun: AtomicU64,
}

/// A method as it is called by its parent: as many as there are ways to it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Node {
    /// Calls.
    pub count: AtomicU64,
    /// Time in it and not in its children, in ticks.
    pub own: AtomicU64,
    /// Which method; never 0 but in the root.
    pub key: AtomicU64,
    /// Index of the parent; that of the root is 0 as the root's own.
    pub parent: AtomicU32,
    /// Number of the function in the [table of ids](crate::host::id_table), where the key is its
    /// id; 0 while there is none.
    pub number: AtomicU32,
    /// Offsets of children that were called lately, by bits 2 to 4 of their keys; 0 for none.
    pub children: [AtomicU32; REMEMBERED],
}

/// The tree. All zeros are the state before [`Tree::init`].
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Tree {
    /// Offset of the innermost frame.
    pub top: AtomicU32,
    kind: AtomicU32,
    /// When time was last given to a node, in ticks.
    pub last: AtomicU64,
    /// 0: as a node at offset 0 this is none that is looked for. At the place of a node's key.
    no_key: AtomicU64,
    os_tid: AtomicU32,
    number: AtomicU32,
    /// Nodes there are; those below can be read.
    count: AtomicU32,
    /// Calls of rewritten methods that have not returned and have no frame, as all of them are
    /// taken.
    beyond: AtomicU32,
    /// Calls that are not in the tree, as they were too deep.
    too_deep: AtomicU64,
    /// Calls that are not in the tree, as there was no room for their node.
    no_room: AtomicU64,
    /// The first has the root, and is never left.
    pub frames: [Frame; MOST_DEEP],
    /// The first is the root.
    pub nodes: [Node; MOST_NODES],
    table: [AtomicU32; SLOTS],
}

/// Bytes from one frame to the next.
pub const FRAME: usize = size_of::<Frame>();
const NODE: usize = size_of::<Node>();
/// Offset of the last frame that there is.
pub const LAST_FRAME: usize = offset_of!(Tree, frames) + (MOST_DEEP - 1) * FRAME;

// What a hook reads as the key of the node at offset 0.
const _: () = assert!(offset_of!(Tree, no_key) == offset_of!(Node, key));
const _: () = assert!(size_of::<Tree>() < u32::MAX as usize);
const _: () = assert!(MOST_NODES.is_power_of_two() && NEAR.is_power_of_two());

impl Tree {
    /// Memory for a tree.
    pub fn reserve() -> Option<Zeroed<Tree>> {
        // SAFETY: a tree is made of atomic numbers only, for which zero is a value.
        unsafe { Zeroed::reserve() }
    }

    /// Makes it the empty tree of a thread.
    pub fn init(&self, kind: TreeKind, os_tid: u32, number: u32, now: u64) {
        self.kind.store(kind as u32, Relaxed);
        self.os_tid.store(os_tid, Relaxed);
        self.number.store(number, Relaxed);
        self.last.store(now, Relaxed);
        if let Some(base) = self.frames.first() {
            // It is never left.
            base.sp.store(GUARDED, Relaxed);
            base.node.store(offset_of!(Tree, nodes) as u32, Relaxed);
        }
        self.top.store(offset_of!(Tree, frames) as u32, Relaxed);
        self.count.store(1, Release);
    }

    /// Which calls it is of.
    pub fn kind(&self) -> TreeKind {
        match self.kind.load(Relaxed) {
            0 => TreeKind::Hooked,
            1 => TreeKind::Crossings,
            _ => TreeKind::Traced,
        }
    }

    /// Whose it is.
    pub fn os_tid(&self) -> u32 {
        self.os_tid.load(Relaxed)
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Calls that were too deep, and those for which there was no room.
    pub fn dropped(&self) -> (u64, u64) {
        (self.too_deep.load(Relaxed), self.no_room.load(Relaxed))
    }

    /// The nodes that there are, the root first, each behind its parent.
    pub fn nodes(&self) -> &[Node] {
        self.nodes.get(..self.count.load(Acquire) as usize).unwrap_or_default()
    }

    /// About how many bytes it uses.
    pub fn memory(&self) -> usize {
        self.count.load(Relaxed) as usize * (NODE + 2 * size_of::<u32>()) + 4096
    }

    /// The index of the node that runs, and since when; 0 for none.
    pub fn running(&self) -> (usize, u64) {
        let node = self.frame(self.top.load(Relaxed)).map_or(0, |frame| frame.node.load(Relaxed));
        (index_of(node), self.last.load(Relaxed))
    }

    /// Forgets the nodes in the sum of all trees. To be called once, before the memory goes.
    pub fn forget(&self) {
        IN_ALL.fetch_sub(self.count.load(Relaxed).saturating_sub(1), Relaxed);
    }

    fn frame(&self, offset: u32) -> Option<&Frame> {
        self.frames.get((offset as usize).wrapping_sub(offset_of!(Tree, frames)) / FRAME)
    }

    /// Gives the time since the last one to the node that runs.
    #[inline]
    fn charge(&self, now: u64) {
        self.charge_to(self.running().0, now);
    }

    #[inline(always)]
    fn charge_to(&self, running: usize, now: u64) {
        let spent = now.wrapping_sub(self.last.swap_relaxed(now));
        if let Some(node) = self.nodes.get(running) {
            node.own.add_relaxed(spent);
        }
    }

    /// Leaves all frames up to the first that `stays`; gives its offset.
    fn leave_while(&self, leaves: impl Fn(&Frame) -> bool) -> u32 {
        let mut top = self.top.load(Relaxed);
        while top as usize > offset_of!(Tree, frames) && self.frame(top).is_some_and(&leaves) {
            top -= FRAME as u32;
        }
        self.top.store(top, Relaxed);
        top
    }

    /// Records the call of a method. Frames that are not above it were left by exceptions that
    /// nobody reported.
    pub fn enter(&self, key: u64, sp: u64, now: u64) {
        self.enter_if(key, sp, now, |frame| frame.sp.load(Relaxed) <= sp);
    }

    /// The same for one that is called from the other side: of those with a key for which
    /// `may_leave` holds only.
    pub fn cross(&self, key: u64, sp: u64, now: u64, may_leave: impl Fn(u64) -> bool) {
        self.enter_if(key, sp, now, |frame| {
            frame.sp.load(Relaxed) <= sp && may_leave(self.key_of(frame))
        });
    }

    fn enter_if(&self, key: u64, sp: u64, now: u64, is_left: impl Fn(&Frame) -> bool) {
        self.charge(now);
        let top = self.leave_while(is_left);
        if top as usize >= LAST_FRAME {
            self.too_deep.add_relaxed(1);
            return;
        }
        let parent = index_of(self.frame(top).map_or(0, |frame| frame.node.load(Relaxed)));
        let Some(node) = self.child(parent, key) else {
            self.no_room.add_relaxed(1);
            return;
        };
        if let Some(node) = self.nodes.get(node) {
            node.count.add_relaxed(1);
        }
        let top = top + FRAME as u32;
        if let Some(frame) = self.frame(top) {
            frame.sp.store(sp, Relaxed);
            frame.node.store(offset_of_node(node), Relaxed);
            self.top.store(top, Relaxed);
        }
    }

    /// Gives the innermost call's node its [number](Node::number), if it has this key and none yet.
    pub fn number_top(&self, key: u64, number: impl FnOnce() -> u32) {
        let top = self.frame(self.top.load(Relaxed)).map_or(0, |frame| frame.node.load(Relaxed));
        if let Some(node) = self.nodes.get(index_of(top))
            && node.key.load(Relaxed) == key
            && node.number.load(Relaxed) == 0
        {
            node.number.store(number(), Relaxed);
        }
    }

    /// The method that was called at this stack pointer returns. Frames below it were left by
    /// exceptions.
    pub fn leave(&self, sp: u64, now: u64) {
        self.charge(now);
        let top = self.leave_while(|frame| frame.sp.load(Relaxed) < sp);
        if self.frame(top).is_some_and(|frame| frame.sp.load(Relaxed) == sp) {
            self.top.store(top - FRAME as u32, Relaxed);
        }
    }

    /// The innermost call of a method returns, and what it called; nothing happens where it is not
    /// being called.
    pub fn leave_key(&self, key: u64, now: u64) {
        let mut at = self.top.load(Relaxed);
        while at as usize > offset_of!(Tree, frames) {
            if self.frame(at).is_some_and(|frame| self.key_of(frame) == key) {
                self.charge(now);
                self.top.store(at - FRAME as u32, Relaxed);
                return;
            }
            at -= FRAME as u32;
        }
    }

    /// A rewritten method is called, with this stack pointer or [`GUARDED`]. A call that is [not
    /// timed](UNTIMED) gets a frame, so that its end is known for its own, and no node.
    #[inline(always)]
    pub fn begin(&self, slot: u32, sp: u64, begun: u64) {
        let top = self.top.load(Relaxed);
        let next = top + FRAME as u32;
        let (Some(running), Some(frame)) = (self.frame(top), self.frame(next)) else {
            return self.begin_beyond();
        };
        let mut node = running.node.load(Relaxed);
        if begun != UNTIMED {
            let parent = index_of(node);
            self.charge_to(parent, begun);
            match self.child(parent, key_of_slot(slot)) {
                Some(child) => {
                    if let Some(child) = self.nodes.get(child) {
                        child.count.add_relaxed(1);
                    }
                    node = offset_of_node(child);
                }
                None => self.no_room.add_relaxed(1),
            }
        }
        frame.sp.store(sp, Relaxed);
        frame.node.store(node, Relaxed);
        frame.slot.store(slot, Relaxed);
        frame.begun.store(begun, Relaxed);
        self.top.store(next, Relaxed);
    }

    #[cold]
    fn begin_beyond(&self) {
        self.beyond.store(self.beyond.load(Relaxed).wrapping_add(1), Relaxed);
        self.too_deep.add_relaxed(1);
    }

    /// A rewritten method is called whose calls are not counted any more. It may be called by
    /// itself: of the two, this one ends first.
    #[cold]
    pub fn begin_uncounted(&self, slot: u32, sp: u64) {
        if self.depth() > 0 {
            self.begin(slot, sp, UNTIMED);
        }
    }

    /// Ends the innermost call of a rewritten method, and all calls within it, which exceptions
    /// have left without a report. `left` is called for each of those that is timed, with its slot
    /// and the times at which it began and ended. If the call of the method is timed, this returns
    /// when it began and what `now` returns. It does nothing if the method is not being called.
    #[inline(always)]
    pub fn end(
        &self,
        slot: u32,
        now: impl Fn() -> u64,
        left: impl Fn(u32, u64, u64),
    ) -> Option<(u64, u64)> {
        let mut top = self.top.load(Relaxed);
        let is_it = |frame: &&Frame| frame.slot.load(Relaxed) == slot;
        if self.frame(top).filter(is_it).is_none()
            || top as usize == LAST_FRAME
            || top as usize == offset_of!(Tree, frames)
        {
            top = self.find(slot, &now, &left)?;
        }
        let frame = self.frame(top)?;
        self.top.store(top - FRAME as u32, Relaxed);
        let begun = frame.begun.load(Relaxed);
        if begun == UNTIMED {
            return None;
        }
        let now = now();
        self.charge_to(index_of(frame.node.load(Relaxed)), now);
        Some((begun, now))
    }

    /// The innermost frame of a method, once all within it are left.
    #[cold]
    fn find(
        &self,
        slot: u32,
        now: &impl Fn() -> u64,
        left: &impl Fn(u32, u64, u64),
    ) -> Option<u32> {
        let beyond = self.beyond.load(Relaxed);
        if beyond > 0 {
            self.beyond.store(beyond - 1, Relaxed);
            return None;
        }
        let base = offset_of!(Tree, frames) as u32;
        let top = self.top.load(Relaxed);
        let is_it =
            |at: &u32| self.frame(*at).is_some_and(|frame| frame.slot.load(Relaxed) == slot);
        let found = (base + FRAME as u32..=top).rev().step_by(FRAME).find(is_it)?;
        if found < top {
            self.leave_to((found - base) / FRAME as u32, now(), left);
        }
        Some(found)
    }

    /// How many calls have begun and not ended.
    pub fn depth(&self) -> u32 {
        let frames = (self.top.load(Relaxed) - offset_of!(Tree, frames) as u32) / FRAME as u32;
        frames + self.beyond.load(Relaxed)
    }

    /// Ends all calls except the outermost `depth` ones: exceptions have left them. For `left`, see
    /// [`Self::end`].
    #[cold]
    pub fn leave_to(&self, depth: u32, now: u64, left: &impl Fn(u32, u64, u64)) {
        self.charge(now);
        while self.depth() > depth {
            let beyond = self.beyond.load(Relaxed);
            if beyond > 0 {
                self.beyond.store(beyond - 1, Relaxed);
                continue;
            }
            let top = self.top.load(Relaxed);
            let Some(frame) = self.frame(top) else { return };
            self.top.store(top - FRAME as u32, Relaxed);
            let begun = frame.begun.load(Relaxed);
            if begun != UNTIMED {
                left(frame.slot.load(Relaxed), begun, now);
            }
        }
    }

    /// Ends stale calls before a method is called with this stack pointer: exceptions that nobody
    /// reported have left the calls that are not above it. Where stubs of the runtime have methods
    /// inlined, several calls have the same stack pointer.
    #[inline(always)]
    pub fn leave_stale(
        &self,
        slot: u32,
        sp: u64,
        now: impl Fn() -> u64,
        left: &impl Fn(u32, u64, u64),
    ) {
        let is_stale = || {
            self.frame(self.top.load(Relaxed)).is_some_and(|frame| {
                let stands = frame.sp.load(Relaxed);
                stands < sp || stands == sp && frame.slot.load(Relaxed) == slot
            })
        };
        while is_stale() {
            self.leave_to(self.depth() - 1, now(), left);
        }
    }

    /// An exception leaves a method. Nothing happens where another one runs.
    pub fn unwind_key(&self, key: u64, now: u64) {
        let top = self.top.load(Relaxed);
        if top as usize > offset_of!(Tree, frames)
            && self.frame(top).is_some_and(|frame| self.key_of(frame) == key)
        {
            self.charge(now);
            self.top.store(top - FRAME as u32, Relaxed);
        }
    }

    fn key_of(&self, frame: &Frame) -> u64 {
        self.nodes.get(index_of(frame.node.load(Relaxed))).map_or(0, |node| node.key.load(Relaxed))
    }

    /// Index of a node, which is made if need be; `None` if there is no room.
    #[inline]
    fn child(&self, parent: usize, key: u64) -> Option<usize> {
        let remembered = self.nodes.get(parent)?.children.get((key >> 2) as usize % REMEMBERED)?;
        let index = index_of(remembered.load(Relaxed));
        // The root, which stands for none, has no key.
        if self.nodes.get(index).is_some_and(|node| node.key.load(Relaxed) == key) {
            return Some(index);
        }
        self.look_up(parent, key, remembered)
    }

    #[cold]
    fn look_up(&self, parent: usize, key: u64, remembered: &AtomicU32) -> Option<usize> {
        let mixed = (key ^ (parent as u64).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let part_of_key = (mixed >> INDEX_BITS) as u32 >> INDEX_BITS << INDEX_BITS;
        let near = parent * 2 / NEAR * NEAR;
        let far = (mixed >> 32) as usize;
        for slot in (near..near + NEAR).chain(far..) {
            let slot = self.table.get(slot % SLOTS)?;
            let taken = slot.load(Relaxed);
            if taken == 0 {
                let index = self.add(parent, key)?;
                slot.store(part_of_key | index as u32, Relaxed);
                remembered.store(offset_of_node(index), Relaxed);
                return Some(index);
            }
            if (taken ^ part_of_key) >> INDEX_BITS != 0 {
                continue;
            }
            let index = (taken & (MOST_NODES as u32 - 1)) as usize;
            let node = self.nodes.get(index)?;
            if node.key.load(Relaxed) == key && node.parent.load(Relaxed) as usize == parent {
                remembered.store(offset_of_node(index), Relaxed);
                return Some(index);
            }
        }
        None
    }

    fn add(&self, parent: usize, key: u64) -> Option<usize> {
        let index = self.count.load(Relaxed) as usize;
        let node = self.nodes.get(index)?;
        if IN_ALL.fetch_add(1, Relaxed) >= MOST_IN_ALL {
            IN_ALL.fetch_sub(1, Relaxed);
            return None;
        }
        if index.is_multiple_of(AT_A_TIME) {
            let rest = self.nodes.len() - index;
            populate(NonNull::from_ref(node).cast(), rest.min(AT_A_TIME) * NODE);
        }
        node.key.store(key, Relaxed);
        node.parent.store(parent as u32, Relaxed);
        // Whoever reads it finds it whole.
        self.count.store(index as u32 + 1, Release);
        Some(index)
    }
}

fn index_of(node: u32) -> usize {
    (node as usize).saturating_sub(offset_of!(Tree, nodes)) / NODE
}

fn offset_of_node(index: usize) -> u32 {
    (offset_of!(Tree, nodes) + index * NODE) as u32
}

/// Changes by the one thread that writes: without the bus lock that others would need.
trait OneWriter {
    fn add_relaxed(&self, amount: u64);
    fn swap_relaxed(&self, value: u64) -> u64;
}

impl OneWriter for AtomicU64 {
    #[inline]
    fn add_relaxed(&self, amount: u64) {
        self.store(self.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    #[inline]
    fn swap_relaxed(&self, value: u64) -> u64 {
        let before = self.load(Relaxed);
        self.store(value, Relaxed);
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn tree() -> Zeroed<Tree> {
        let tree = Tree::reserve().unwrap();
        tree.init(TreeKind::Hooked, 1, 1, 100);
        tree
    }

    /// Path of keys, calls and time of each node.
    fn told(tree: &Tree) -> Vec<(Vec<u64>, u64, u64)> {
        let nodes = tree.nodes();
        let path = |mut index: usize| {
            let mut path = Vec::new();
            while index != 0 {
                path.insert(0, nodes[index].key.load(Relaxed));
                index = nodes[index].parent.load(Relaxed) as usize;
            }
            path
        };
        let one = |index: usize| {
            (path(index), nodes[index].count.load(Relaxed), nodes[index].own.load(Relaxed))
        };
        (1..nodes.len()).map(one).collect()
    }

    #[test]
    fn calls_are_counted_on_their_paths_and_time_is_their_own() {
        let tree = tree();
        tree.enter(4, 1000, 110);
        for _ in 0..3 {
            let now = tree.last.load(Relaxed);
            tree.enter(8, 900, now + 10);
            tree.enter(4, 800, now + 15);
            tree.leave(800, now + 18);
            tree.leave(900, now + 20);
        }
        tree.leave(1000, 180);
        assert_eq!(
            told(&tree),
            [(vec![4], 1, 10 * 3 + 10), (vec![4, 8], 3, 3 * 7), (vec![4, 8, 4], 3, 3 * 3)]
        );
        assert_eq!(tree.running().0, 0);
        assert_eq!(tree.nodes()[0].own.load(Relaxed), 10, "before the first call");
    }

    #[test]
    fn frames_that_exceptions_have_left_are_found_by_the_stack_pointer() {
        let tree = tree();
        for key in [4, 8, 12, 16] {
            tree.enter(key, 1000 - key, 110);
        }
        // 16 and 12 are gone; 8 catches and calls 20.
        tree.leave(1000 - 8, 120);
        assert_eq!(tree.running().0, 1);
        for key in [8, 12, 16] {
            tree.enter(key, 1000 - key, 110);
        }
        tree.enter(20, 999, 130);
        assert_eq!(told(&tree).last().unwrap().0, [20], "also 4 is gone, which stood lower");
        tree.leave(5, 140);
        tree.leave(u64::MAX, 140);
        assert_eq!(tree.running().0, 0, "the base stays, whatever comes");
    }

    #[test]
    fn frames_are_left_by_key_where_there_is_one() {
        let tree = tree();
        for key in [4, 8, 4, 12] {
            tree.enter(key, 1000 - key, 110);
        }
        tree.unwind_key(8, 120);
        assert_eq!(tree.running().0, 3);
        tree.leave_key(99, 120);
        assert_eq!(tree.running().0, 3);
        tree.unwind_key(12, 120);
        tree.leave_key(8, 120);
        assert_eq!(tree.running().0, 1);
    }

    #[test]
    fn each_end_finds_its_begin() {
        let tree = tree();
        let abandoned = RefCell::new(Vec::new());
        let mut clock = 1000;
        let mut end = |slot| {
            clock += 10;
            let left = |slot, begun, _| abandoned.borrow_mut().push((slot, begun));
            tree.end(slot, || clock, left).map(|(begun, _)| begun)
        };
        assert_eq!(end(0), None, "nothing has begun");
        (1..=1000).for_each(|begun| tree.begin(begun as u32 % 7, GUARDED, begun));
        assert_eq!(end(7), None, "this one has not");
        for begun in (1..=1000).rev() {
            assert_eq!(end(begun as u32 % 7), Some(begun));
        }
        // Two of which nobody has told the end.
        (1..=4).for_each(|begun| tree.begin(begun as u32, GUARDED, begun));
        assert_eq!([2, 4, 1].map(&mut end), [Some(2), None, Some(1)]);
        assert_eq!(abandoned.take(), [(4, 4), (3, 3)]);
        // Those that are not timed have their places, too.
        [11, UNTIMED].into_iter().for_each(|begun| tree.begin(5, GUARDED, begun));
        assert_eq!([end(5), end(5), end(5)], [None, Some(11), None]);
        tree.begin_uncounted(5, GUARDED);
        assert_eq!(
            (tree.running().0, tree.top.load(Relaxed) as usize),
            (0, offset_of!(Tree, frames))
        );
        // Too deep.
        let deep = MOST_DEEP - 1;
        (0..deep).for_each(|_| tree.begin(6, GUARDED, 1));
        (0..3).for_each(|_| tree.begin(8, GUARDED, 1));
        (0..2).for_each(|_| tree.begin(6, GUARDED, 1));
        assert_eq!(tree.dropped().0, 5);
        assert_eq!([6, 6, 8, 8, 8].map(&mut end), [None; 5]);
        (0..deep).for_each(|_| assert_eq!(end(6), Some(1)));
        assert_eq!(end(6), None);
        tree.forget();
    }

    #[test]
    fn calls_that_exceptions_have_left_end_when_somebody_says_so_or_by_their_place_on_the_stack() {
        let tree = tree();
        let abandoned = RefCell::new(Vec::new());
        let left = |slot, begun, now| abandoned.borrow_mut().push((slot, begun, now));
        for (slot, sp, begun) in [(1, 900, 110), (2, 800, 120), (3, 700, UNTIMED), (4, 600, 130)] {
            tree.begin(slot, sp, begun);
        }
        assert_eq!(tree.depth(), 4);
        tree.leave_to(1, 140, &left);
        assert_eq!((tree.depth(), abandoned.take()), (1, vec![(4, 130, 140), (2, 120, 140)]));
        let begin = |slot, sp, begun| {
            tree.leave_stale(slot, sp, || begun, &left);
            tree.begin(slot, sp, begun);
        };
        begin(5, 800, 150);
        begin(6, 700, 160);
        begin(7, 700, 170);
        assert_eq!((tree.depth(), abandoned.take()), (4, vec![]), "inlined into the same frame");
        begin(7, 700, 180);
        begin(5, 800, 190);
        assert_eq!(
            (tree.depth(), abandoned.take()),
            (2, vec![(7, 170, 180), (7, 180, 190), (6, 160, 190), (5, 150, 190)])
        );
        tree.leave_to(0, 200, &left);
        begin(8, GUARDED, 210);
        begin(9, 1 << 62, 220);
        assert_eq!(tree.depth(), 2, "one that tells by itself is not left by others");
        assert_eq!(
            told(&tree).iter().map(|(_, _, time)| time).sum::<u64>(),
            100,
            "nothing is counted twice"
        );
        tree.forget();
    }

    #[test]
    fn calls_without_a_node_take_the_time_of_their_caller() {
        let tree = tree();
        let end = |slot, now| tree.end(slot, || now, |_, _, _| ());
        tree.begin(1, GUARDED, 110);
        tree.begin(2, GUARDED, UNTIMED);
        tree.begin(3, GUARDED, 130);
        assert_eq!(
            (end(3, 140), end(2, 150), end(1, 160)),
            (Some((130, 140)), None, Some((110, 160)))
        );
        assert_eq!(told(&tree), [(vec![8], 1, 40), (vec![8, 16], 1, 10)]);
        tree.forget();
    }

    #[test]
    fn the_bounds_hold_and_what_is_beyond_is_counted() {
        let deep = tree();
        for depth in 0..MOST_DEEP as u64 + 10 {
            deep.enter(4, u64::MAX - 1 - depth, 200);
        }
        assert_eq!(deep.dropped(), (11, 0));
        for depth in (0..MOST_DEEP as u64 + 10).rev() {
            deep.leave(u64::MAX - 1 - depth, 200);
        }
        assert_eq!(deep.running().0, 0);
        let wide = tree();
        for key in 1..=MOST_NODES as u64 + 5 {
            wide.enter(key << 2, 1000, 200);
            wide.leave(1000, 200);
        }
        assert_eq!(wide.nodes().len(), MOST_NODES);
        assert_eq!(wide.dropped(), (0, 6));
        for key in 1..=10 {
            wide.enter(key << 2, 1000, 200);
            wide.leave(1000, 200);
        }
        assert_eq!((told(&wide)[3].1, wide.dropped()), (2, (0, 6)));
        deep.forget();
        wide.forget();
    }
}
