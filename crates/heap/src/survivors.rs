//! What survived one collection: sums by type, and through which types young survivors are held.

use session::{HeldSurvivors, SurvivorCount, SurvivorHolder};
use std::collections::HashMap;

/// Young survivors and references that are kept of one collection; what comes beyond is counted.
const MOST_OBJECTS: usize = 4 << 20;
const MOST_REFERENCES: usize = 16 << 20;
/// Different paths of types that are kept.
const MOST_PATHS: usize = 1 << 20;
/// Longest path of types. What lies deeper counts as held by its last type but one directly.
const MOST_STEPS: usize = 24;
/// The oldest generation whose objects are young.
const YOUNG: u8 = 1;
/// For none.
const NONE: u32 = u32::MAX;

/// Survivors of one class, by the runtime's `ClassID`.
type Count = SurvivorCount<u64>;
/// Young survivors of one class that are held in the same way, by `ClassID`s.
type Held = HeldSurvivors<u64, u64>;
/// Where the shortest chain of references to a young survivor begins; a method by its `FunctionID`,
/// 0 if that is none.
type Holder = SurvivorHolder<u64>;

/// What survived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurvivorSums {
    /// By class and generations, most bytes first.
    pub counts: Vec<SurvivorCount<u64>>,
    /// Young ones by what retains them, most bytes first.
    pub held: Vec<HeldSurvivors<u64, u64>>,
    /// Young survivors and references that were dropped because there was no room for them. No
    /// count includes objects among them.
    pub lost: u64,
}

#[derive(Clone, Copy, Debug)]
struct Object {
    address: u64,
    class: u64,
    size: u64,
    before: u8,
}

/// Builds [`SurvivorSums`] from what is reported of one collection, in the order in which it
/// arrives.
#[derive(Debug, Default)]
pub struct SurvivorBuilder {
    young: Vec<Object>,
    /// Older objects that refer to young survivors.
    older: Vec<Object>,
    /// From an object, as `Ok` an index among the young ones, as `Err` among the older ones; and to
    /// which address.
    references: Vec<(Result<u32, u32>, u64)>,
    roots: Vec<(Holder, u64)>,
    /// Key and value.
    dependents: Vec<(u64, u64)>,
    /// First address, first address behind, generation.
    generations: Vec<(u64, u64, u8)>,
    sums: Vec<Count>,
    last: Option<Result<u32, u32>>,
    lost: u64,
}

impl SurvivorBuilder {
    /// An object. `before` is the generation that it was in before it was collected, `None` if it
    /// was not.
    pub fn object(&mut self, address: u64, class: u64, size: u64, before: Option<u8>) {
        let is_young = before.is_some_and(|before| before <= YOUNG);
        self.last = None;
        if self.young.len() + self.older.len() >= MOST_OBJECTS {
            self.lost += 1;
            return;
        }
        let object = Object {
            address,
            class,
            size: size.saturating_add(7) & !7,
            before: before.unwrap_or(u8::MAX),
        };
        let list = if is_young { &mut self.young } else { &mut self.older };
        let index = list.len() as u32;
        list.push(object);
        self.last = Some(if is_young { Ok(index) } else { Err(index) });
    }

    /// A reference of the last object to a young survivor.
    pub fn reference(&mut self, target: u64) {
        match self.last {
            Some(last) if self.references.len() < MOST_REFERENCES => {
                self.references.push((last, target))
            }
            Some(_) => self.lost += 1,
            // The object was lost, and is counted.
            None => {}
        }
    }

    /// A root that refers to a young survivor.
    pub fn root(&mut self, holder: SurvivorHolder<u64>, target: u64) {
        if self.roots.len() < MOST_REFERENCES {
            self.roots.push((holder, target));
        } else {
            self.lost += 1;
        }
    }

    /// An entry of a `ConditionalWeakTable` whose value is a young survivor.
    pub fn dependent(&mut self, key: u64, value: u64) {
        if self.dependents.len() < MOST_REFERENCES {
            self.dependents.push((key, value));
        } else {
            self.lost += 1;
        }
    }

    /// A stretch of the heap as it is after the collection.
    pub fn generation(&mut self, generation: u8, start: u64, length: u64) {
        if self.generations.len() < MOST_OBJECTS {
            self.generations.push((start, start.saturating_add(length), generation));
        }
    }

    /// Older survivors, which are told as sums.
    pub fn sum(&mut self, before: u8, class: u64, objects: u64, bytes: u64) {
        // The collector leaves what is in these generations where it is.
        if self.sums.len() < MOST_OBJECTS {
            self.sums.push(SurvivorCount { ty: class, before, after: before, objects, bytes });
        }
    }

    /// Sums it up.
    pub fn finish(mut self) -> SurvivorSums {
        self.generations.sort_unstable();
        let mut order: Vec<u32> = (0..self.young.len() as u32).collect();
        order.sort_unstable_by_key(|index| self.young[*index as usize].address);
        let paths = self.paths(&order);
        let held = self.held(&paths);
        SurvivorSums { counts: self.counts(), held, lost: self.lost + paths.lost }
    }

    fn generation_of(&self, address: u64) -> Option<u8> {
        let after = self.generations.partition_point(|(start, ..)| *start <= address);
        let (_, end, generation) = self.generations.get(after.checked_sub(1)?)?;
        (address < *end).then_some(*generation)
    }

    fn counts(&self) -> Vec<Count> {
        let mut counts: HashMap<(u64, u8, u8), (u64, u64)> = HashMap::new();
        for object in &self.young {
            let after = self.generation_of(object.address).unwrap_or(u8::MAX);
            let sums = counts.entry((object.class, object.before, after)).or_default();
            *sums = (sums.0 + 1, sums.1.saturating_add(object.size));
        }
        let young = counts.into_iter().map(|((class, before, after), (objects, bytes))| {
            SurvivorCount { ty: class, before, after, objects, bytes }
        });
        let mut all: Vec<_> = young.chain(self.sums.iter().copied()).collect();
        order::sort_by_key(&mut all, |count| {
            (std::cmp::Reverse(count.bytes), count.ty, count.before, count.after)
        });
        all
    }

    /// Shortest paths to all young survivors, breadth first. At the same distance older objects
    /// come before handles, these before variables, and the finalizer's queue comes last: it holds
    /// only what nothing else does.
    fn paths(&self, order: &[u32]) -> Paths {
        let find = |address: u64| {
            let at = order
                .binary_search_by_key(&address, |index| self.young[*index as usize].address)
                .ok()?;
            Some(order[at])
        };
        let mut paths = Paths { of: vec![NONE; self.young.len()], ..Paths::default() };
        // References between young survivors, by where they come from.
        let mut from: Vec<(u32, u32)> = Vec::new();
        let mut starts: Vec<(Holder, Option<u64>, u32)> = Vec::new();
        for (source, target) in &self.references {
            let Some(target) = find(*target) else { continue };
            match source {
                Ok(source) => from.push((*source, target)),
                Err(source) => {
                    let holder = self.older[*source as usize];
                    // What was in generation 2 is there still; of what was not collected, the
                    // bounds tell.
                    let generation = self.generation_of(holder.address).unwrap_or(u8::MAX);
                    starts.push((Holder::Older(generation), Some(holder.class), target));
                }
            }
        }
        for (key, value) in &self.dependents {
            let Some(value) = find(*value) else { continue };
            match find(*key) {
                Some(key) => from.push((key, value)),
                None => starts.push((Holder::Dependent, None, value)),
            }
        }
        starts.extend(
            self.roots.iter().filter_map(|(holder, target)| Some((*holder, None, find(*target)?))),
        );
        starts.sort_unstable_by_key(|(holder, class, target)| (*holder, *class, *target));
        from.sort_unstable();
        let mut queue = std::collections::VecDeque::new();
        for (holder, class, target) in starts {
            if paths.of[target as usize] == NONE {
                let mut path = paths.root(holder);
                if let Some(class) = class {
                    path = paths.step(path, class, true);
                }
                paths.of[target as usize] =
                    paths.step(path, self.young[target as usize].class, class.is_some());
                queue.push_back(target);
            }
        }
        while let Some(source) = queue.pop_front() {
            let path = paths.of[source as usize];
            let first = from.partition_point(|(other, _)| *other < source);
            for (_, target) in from[first..].iter().take_while(|(other, _)| *other == source) {
                if paths.of[*target as usize] == NONE {
                    paths.of[*target as usize] =
                        paths.step(path, self.young[*target as usize].class, false);
                    queue.push_back(*target);
                }
            }
        }
        paths
    }

    fn held(&self, paths: &Paths) -> Vec<Held> {
        let mut sums: HashMap<(u32, u64), (u64, u64)> = HashMap::new();
        for (object, path) in self.young.iter().zip(&paths.of) {
            // Those without a path are told apart by their class.
            let key = (*path, if *path == NONE { object.class } else { 0 });
            let sum = sums.entry(key).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(object.size));
        }
        let mut held: Vec<_> = sums
            .into_iter()
            .map(|((path, class), (objects, bytes))| {
                let (holder, path) =
                    if path == NONE { (Holder::Unknown, vec![class]) } else { paths.path(path) };
                HeldSurvivors { holder, path, objects, bytes }
            })
            .collect();
        order::sort_by(&mut held, |a, b| {
            b.bytes.cmp(&a.bytes).then_with(|| (a.holder, &a.path).cmp(&(b.holder, &b.path)))
        });
        held
    }
}

/// Paths of types as a tree: each is one step more than another.
#[derive(Debug, Default)]
struct Paths {
    nodes: Vec<PathNode>,
    known: HashMap<(u32, u64), u32>,
    roots: HashMap<Holder, u32>,
    /// Path of each young survivor.
    of: Vec<u32>,
    lost: u64,
}

#[derive(Clone, Copy, Debug)]
struct PathNode {
    holder: Holder,
    /// `NONE` for a root, which has no class.
    parent: u32,
    class: u64,
    steps: usize,
}

impl Paths {
    fn root(&mut self, holder: Holder) -> u32 {
        let next = self.nodes.len() as u32;
        let node = *self.roots.entry(holder).or_insert(next);
        if node == next {
            self.nodes.push(PathNode { holder, parent: NONE, class: 0, steps: 0 });
        }
        node
    }

    /// A path with a class more. `is_new` keeps it from being one with a last one of the same
    /// class.
    fn step(&mut self, mut path: u32, class: u64, is_new: bool) -> u32 {
        let node = self.nodes[path as usize];
        if node.parent != NONE && node.class == class && !is_new {
            return path;
        }
        if node.steps >= MOST_STEPS {
            path = node.parent;
        }
        if let Some(known) = self.known.get(&(path, class)) {
            return *known;
        }
        if self.known.len() >= MOST_PATHS {
            // Better the place of its holder than none.
            self.lost += 1;
            return path;
        }
        let (next, steps) = (self.nodes.len() as u32, self.nodes[path as usize].steps + 1);
        self.nodes.push(PathNode { holder: node.holder, parent: path, class, steps });
        self.known.insert((path, class), next);
        next
    }

    fn path(&self, mut path: u32) -> (Holder, Vec<u64>) {
        let mut classes = Vec::new();
        let holder = self.nodes[path as usize].holder;
        while let Some(node) = self.nodes.get(path as usize).filter(|node| node.parent != NONE) {
            classes.push(node.class);
            path = node.parent;
        }
        classes.reverse();
        (holder, classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: u64 = 1;
    const PARCEL: u64 = 2;
    const LINK: u64 = 3;

    #[test]
    fn survivors_are_summed_and_their_holders_found() {
        let mut builder = SurvivorBuilder::default();
        builder.root(Holder::Stack(77), 0x2000);
        builder.root(Holder::Finalizer, 0x1000);
        // An older array holds two parcels, each of which holds the next of a list.
        builder.object(0x9000, QUEUE, 100, None);
        builder.reference(0x1000);
        builder.reference(0x1020);
        for (at, next) in [(0x1000, 0x2000), (0x1020, 0x2010)] {
            builder.object(at, PARCEL, 27, Some(0));
            builder.reference(next);
        }
        for at in 0..1000 {
            builder.object(0x2000 + at * 0x10, LINK, 16, Some(1));
            builder.reference(0x2000 + (at + 1) * 0x10);
        }
        builder.object(0xa000, QUEUE, 24, Some(0));
        builder.sum(2, QUEUE, 5, 500);
        builder.generation(2, 0x2000, 0x8000);
        builder.generation(1, 0x1000, 0x1000);
        builder.generation(0, 0xa000, 0x1000);
        let sums = builder.finish();
        let count =
            |ty, before, after, objects, bytes| SurvivorCount { ty, before, after, objects, bytes };
        assert_eq!(
            sums.counts,
            [
                count(LINK, 1, 2, 1000, 16_000),
                count(QUEUE, 2, 2, 5, 500),
                count(PARCEL, 0, 1, 2, 64),
                count(QUEUE, 0, 0, 1, 24),
            ]
        );
        let held = |holder, path: &[u64], objects, bytes| HeldSurvivors {
            holder,
            path: path.to_vec(),
            objects,
            bytes,
        };
        assert_eq!(
            sums.held,
            [
                held(Holder::Older(2), &[QUEUE, PARCEL, LINK], 999, 15_984),
                held(Holder::Older(2), &[QUEUE, PARCEL], 2, 64),
                held(Holder::Unknown, &[QUEUE], 1, 24),
                held(Holder::Stack(77), &[LINK], 1, 16),
            ]
        );
        assert_eq!(sums.lost, 0);
    }

    #[test]
    fn deep_and_many_paths_end() {
        let mut builder = SurvivorBuilder::default();
        builder.root(Holder::Handle, 0);
        for at in 0..100_000 {
            builder.object(at * 8, 100 + at % 7, 24, Some(0));
            builder.reference((at + 1) * 8);
        }
        let sums = builder.finish();
        assert!(
            sums.held.iter().all(|held| held.path.len() <= MOST_STEPS + 1),
            "{:?}",
            sums.held.len()
        );
        assert_eq!(sums.held.iter().map(|held| held.objects).sum::<u64>(), 100_000);
        assert_eq!(sums.lost, 0);
    }
}
