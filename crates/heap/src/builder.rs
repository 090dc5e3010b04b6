//! Collects what is reported of a heap, and makes a snapshot of it.

mod finish;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use session::FieldKind;

use crate::fields::{Fields, Shapes, UNKNOWN_SHAPE};
use crate::snapshot::{BIG, Gaps, Generation, Root, RootKind, TypeInfo};
use crate::strings::StringColumns;
use crate::targets::Targets;
use finish::readable;

/// How much memory a snapshot and its analysis may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Bytes. What would need more is left out, and the snapshot says so.
    pub bytes: u64,
    /// Folder of the temporary file that takes references when they would need more than half of
    /// the budget; the system's place for such files if it is not set.
    pub folder: Option<PathBuf>,
}

impl Default for MemoryBudget {
    /// 3 GB: enough for 25 million objects with three references each.
    fn default() -> Self {
        Self { bytes: 3 << 30, folder: None }
    }
}

/// Bytes at the peak of the analysis, for each object: 28 of the snapshot, 44 of the dominator
/// tree.
const PER_OBJECT: u64 = 72;
/// For each reference: in both directions.
const PER_REFERENCE: u64 = 8;
/// For each root, string and dependent handle.
const PER_OTHER: u64 = 32;
/// While objects come, for each of them.
const PER_OBJECT_BUILDING: u64 = 36;

/// Takes a snapshot's parts in the order in which they come.
#[derive(Debug)]
pub struct SnapshotBuilder {
    budget: u64,
    /// What objects and references may take of it: roots often come after them, and without any
    /// nothing is held.
    for_objects: u64,
    addresses: Vec<u64>,
    /// Indices into `class_ids`.
    classes: Vec<u32>,
    sizes: Vec<u32>,
    /// Where each object holds its references.
    shapes: Vec<u32>,
    shape_index: Shapes,
    fields: Fields,
    /// Sizes that do not fit, by address.
    big: Vec<(u64, u64)>,
    /// References of each object.
    counts: Vec<u32>,
    targets: Targets,
    references: u64,
    class_ids: Vec<u64>,
    class_index: HashMap<u64, u32>,
    last_class: Option<(u64, u32)>,
    names: HashMap<u64, TypeInfo>,
    roots: Vec<Root>,
    root_names: HashMap<u64, Arc<str>>,
    /// What refers to what, outside of objects and in arrays of static fields.
    slots: Vec<(u64, u64)>,
    /// Address and name.
    static_fields: Vec<(u64, Arc<str>)>,
    generations: Vec<Generation>,
    dependents: Vec<(u64, u64)>,
    states: Vec<(u64, i32)>,
    continuations: Vec<(u64, u64)>,
    strings: StringColumns,
    gaps: Gaps,
    /// The last object did not fit, so its references are not wanted.
    skipping: bool,
}

impl SnapshotBuilder {
    /// Nothing yet.
    pub fn new(budget: MemoryBudget) -> Self {
        Self {
            budget: budget.bytes,
            for_objects: budget.bytes / 8 * 7,
            addresses: Vec::new(),
            classes: Vec::new(),
            sizes: Vec::new(),
            shapes: Vec::new(),
            shape_index: Shapes::default(),
            fields: Fields::default(),
            big: Vec::new(),
            counts: Vec::new(),
            targets: Targets::new(budget.bytes / 2, budget.folder),
            references: 0,
            class_ids: Vec::new(),
            class_index: HashMap::new(),
            last_class: None,
            names: HashMap::new(),
            roots: Vec::new(),
            root_names: HashMap::new(),
            slots: Vec::new(),
            static_fields: Vec::new(),
            generations: Vec::new(),
            dependents: Vec::new(),
            states: Vec::new(),
            continuations: Vec::new(),
            strings: StringColumns::default(),
            gaps: Gaps::default(),
            skipping: false,
        }
    }

    /// Bytes that the analysis would need for what is here.
    fn needed(&self) -> u64 {
        let objects = self.addresses.len() as u64;
        let statics = self.slots.len() + self.static_fields.len();
        let names = self.fields.count + self.shape_index.table.len();
        let fields = self.states.len() + self.continuations.len() + statics + names;
        let others =
            (self.roots.len() + self.dependents.len() + fields) as u64 + self.strings.len();
        let analysis = objects * PER_OBJECT + self.references * PER_REFERENCE;
        let in_memory = (self.references * 8).saturating_sub(self.targets.spooled());
        let building = objects * PER_OBJECT_BUILDING + in_memory + self.references * 4;
        analysis.max(building) + others * PER_OTHER
    }

    /// An object, with the runtime's number of its class and its size in bytes. References that
    /// follow are its own.
    pub fn object(&mut self, address: u64, class: u64, size: u64) {
        // Numbers of nodes leave the highest values of `u32` to say that there is none.
        self.skipping = self.needed() + PER_OBJECT > self.for_objects
            || self.addresses.len() as u64 >= u64::from(u32::MAX - 8);
        if self.skipping {
            self.gaps.objects_over_budget += 1;
            return;
        }
        let class = match self.last_class {
            Some((last, index)) if last == class => index,
            _ => {
                let next = self.class_ids.len() as u32;
                let index = *self.class_index.entry(class).or_insert(next);
                if index == next {
                    self.class_ids.push(class);
                }
                self.last_class = Some((class, index));
                index
            }
        };
        if size >= u64::from(BIG) {
            self.big.push((address, size));
        }
        self.addresses.push(address);
        self.classes.push(class);
        self.sizes.push(u32::try_from(size).unwrap_or(BIG));
        self.counts.push(0);
        self.shapes.push(UNKNOWN_SHAPE);
    }

    /// Which words of the last object hold its references, in their order: bit 1 is the word behind
    /// the class. 0 where that is not known.
    pub fn words(&mut self, words: u64) {
        if words == 0 || self.skipping {
            return;
        }
        if let (Some(shape), Some(class)) = (self.shapes.last_mut(), self.classes.last()) {
            *shape = self.shape_index.shape(*class, self.class_ids[*class as usize], words);
        }
    }

    /// The fields that a class has in addition to those of its parent, which is 0 for none: offset
    /// from the address of an object, name, and what it can hold.
    pub fn class_fields(
        &mut self,
        class: u64,
        parent: u64,
        fields: impl Iterator<Item = (u32, String, FieldKind)>,
    ) {
        if self.fits_one_more() {
            let fields = fields.map(|(offset, name, kind)| (offset, readable_field(&name), kind));
            self.fields.add(class, parent, fields.collect());
        }
    }

    /// A reference of the last object.
    pub fn reference(&mut self, target: u64) {
        match self.counts.last_mut() {
            Some(count) if !self.skipping => {
                if self.references >= u64::from(u32::MAX - 8) || *count == u32::MAX {
                    self.reference_left_out();
                    return;
                }
                *count += 1;
                self.references += 1;
                self.targets.push(target);
            }
            _ => self.reference_left_out(),
        }
        if self.needed() > self.for_objects {
            // The objects so far are kept with the references that they have; no further ones fit.
            self.skipping = true;
        }
    }

    fn reference_left_out(&mut self) {
        self.gaps.references_over_budget += 1;
        // A dependent handle may come in its place.
        self.shapes.last_mut().into_iter().for_each(|shape| *shape = UNKNOWN_SHAPE);
    }

    /// A root.
    pub fn root(&mut self, root: Root) {
        if self.fits_one_more() {
            self.roots.push(root);
        }
    }

    /// What the roots with this [`Root::id`] are called: a static field.
    pub fn root_name(&mut self, id: u64, name: impl Into<Arc<str>>) {
        if self.fits_one_more() {
            self.root_names.insert(id, name.into());
        }
    }

    /// A place that can be a static field, and the object that it refers to.
    pub fn slot(&mut self, address: u64, target: u64) {
        if self.fits_one_more() {
            self.slots.push((address, target));
        }
    }

    /// The static field at an address: type and field. What it refers to is that of the
    /// [`Self::slot`] at the address.
    pub fn static_field(&mut self, address: u64, name: &str) {
        if self.fits_one_more() {
            self.static_fields.push((address, readable(name).into()));
        }
    }

    /// Static fields are roots of their own: what they refer to is not held by an array that has
    /// the fields of many classes.
    fn add_static_fields(&mut self) {
        self.slots.sort_unstable();
        for (address, name) in std::mem::take(&mut self.static_fields) {
            let Ok(at) = self.slots.binary_search_by_key(&address, |(address, _)| *address) else {
                continue;
            };
            let target = self.slots[at].1;
            let kind = RootKind::Statics;
            let (pinned, weak, interior) = (false, false, false);
            self.roots.push(Root { target, kind, pinned, weak, interior, id: address });
            self.root_names.insert(address, name);
        }
        self.slots = Vec::new();
    }

    /// A handle that keeps `value` alive as long as `key` is: an entry of a `ConditionalWeakTable`.
    /// It is taken for a reference of `key`.
    pub fn dependent_handle(&mut self, key: u64, value: u64) {
        if self.fits_one_more() {
            self.dependents.push((key, value));
        }
    }

    /// Where the asynchronous method of an object stands, as its compiler counts.
    pub fn state(&mut self, object: u64, state: i32) {
        if self.fits_one_more() {
            self.states.push((object, state));
        }
    }

    /// Adds the continuation of a task: the address of the object that runs when the task has
    /// completed, 0 for none.
    pub fn continuation(&mut self, task: u64, next: u64) {
        if self.fits_one_more() {
            self.continuations.push((task, next));
        }
    }

    /// A range of addresses of one generation.
    pub fn generation(&mut self, generation: Generation) {
        if self.fits_one_more() {
            self.generations.push(generation);
        }
    }

    /// The content of a string object: a hash of it, its length in UTF-16 units, and its beginning,
    /// which has to come only once for each hash.
    pub fn string(&mut self, address: u64, hash: u64, length: u32, text: Option<&str>) {
        if self.fits_one_more() {
            self.strings.add(address, hash, length, text);
        }
    }

    fn fits_one_more(&mut self) -> bool {
        let fits = self.needed() + PER_OTHER <= self.budget;
        self.gaps.others_over_budget += u64::from(!fits);
        fits
    }

    /// What a class is called, and in which module it is. May come before or after the objects.
    pub fn class(&mut self, class: u64, name: &str, module: &str) {
        self.names.insert(class, TypeInfo { name: name.to_owned(), module: module.to_owned() });
    }
}

/// A field, or the property that it is for.
fn readable_field(name: &str) -> String {
    let property = name.strip_prefix('<').and_then(|rest| rest.strip_suffix(">k__BackingField"));
    property.unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{NodeId, SnapshotEnd};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn end() -> SnapshotEnd {
        SnapshotEnd { complete: true, ..SnapshotEnd::default() }
    }

    fn root(target: u64) -> Root {
        Root { target, kind: RootKind::Handle, pinned: false, weak: false, interior: false, id: 0 }
    }

    proptest! {
        /// Whatever comes in whatever order: the snapshot has the same objects with the same
        /// references.
        #[test]
        fn any_order_gives_the_same_snapshot(
            objects in prop::collection::vec((0u64..60, 0u64..5, 1u64..1000, prop::collection::vec(0u64..70, 0..5)), 0..60),
        ) {
            let mut builder = SnapshotBuilder::new(MemoryBudget::default());
            let mut expected = BTreeMap::new();
            let mut dangling = 0;
            for (place, class, size, references) in &objects {
                builder.object(place * 8, *class, *size);
                references.iter().for_each(|target| builder.reference(target * 8));
                expected.entry(*place).or_insert((*class, *size, references.clone()));
            }
            for class in 0..4 {
                builder.class(class, &format!("T{}", class / 2), "m");
            }
            let snapshot = builder.finish(end());
            prop_assert_eq!(snapshot.len(), expected.len());
            prop_assert_eq!(snapshot.gaps().duplicate_objects as usize, objects.len() - expected.len());
            for (node, (place, (class, size, references))) in expected.iter().enumerate() {
                let node = node as NodeId;
                prop_assert_eq!((snapshot.address(node), snapshot.size(node)), (place * 8, *size));
                let name = if *class < 4 { format!("T{}", class / 2) } else { "[class 0x4]".into() };
                prop_assert_eq!(&snapshot.types()[snapshot.type_of(node) as usize].name, &name);
                let known: Vec<u64> = references.iter().copied().filter(|target| expected.contains_key(target)).collect();
                let found: Vec<u64> = snapshot.references(node).iter().map(|to| snapshot.address(*to) / 8).collect();
                prop_assert_eq!(found, known);
            }
            for (_, _, _, references) in &objects {
                dangling += references.iter().filter(|target| !expected.contains_key(target)).count() as u64;
            }
            prop_assert_eq!(snapshot.gaps().dangling_references, dangling);
            prop_assert!(snapshot.end().complete);
        }
    }

    #[test]
    fn roots_generations_and_dependent_handles() {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        builder.object(0x1000, 1, 24);
        builder.reference(0x2000);
        builder.object(0x2000, 2, u64::from(u32::MAX) + 7);
        builder.object(0x1018, 1, 24);
        builder.generation(Generation { generation: 3, start: 0x2000, length: 0x10_0000 });
        builder.generation(Generation { generation: 0, start: 0x1010, length: 0x100 });
        builder.dependent_handle(0x1000, 0x1018);
        builder.dependent_handle(0x1000, 0x9999);
        builder.root(root(0x1000));
        builder.root(root(0x1008));
        builder.root(Root { interior: true, kind: RootKind::Stack, ..root(0x1008) });
        builder.root(Root { weak: true, ..root(0x1018) });
        let snapshot = builder.finish(end());
        assert_eq!(snapshot.references(0), [2, 1]);
        assert_eq!(snapshot.reference_count(), 2);
        assert_eq!(snapshot.size(2), u64::from(u32::MAX) + 7);
        assert_eq!((0..3).map(|node| snapshot.generation_of(node)).collect::<Vec<_>>(), [6, 0, 3]);
        assert_eq!((snapshot.gaps().dangling_references, snapshot.gaps().dangling_roots), (1, 1));
        assert_eq!(snapshot.root_of(0).map(|root| root.kind), Some(RootKind::Handle));
        assert_eq!(snapshot.root_of(1), None, "a weak handle holds nothing");
        assert_eq!(snapshot.roots().len(), 3);
    }

    #[test]
    fn what_does_not_fit_is_counted_and_told() {
        let mut builder =
            SnapshotBuilder::new(MemoryBudget { bytes: 100 * PER_OBJECT, folder: None });
        for at in 0..200 {
            builder.object(at * 8, 1, 8);
            builder.reference(0);
        }
        (0..100).for_each(|_| builder.root(root(0)));
        let snapshot = builder.finish(end());
        let gaps = snapshot.gaps();
        assert!((60..90).contains(&snapshot.len()), "{}", snapshot.len());
        assert_eq!(snapshot.len() as u64 + gaps.objects_over_budget, 200);
        assert_eq!(snapshot.reference_count() + gaps.references_over_budget, 200);
        assert_eq!(snapshot.roots().len() as u64 + gaps.others_over_budget, 100);
        assert!((10..90).contains(&snapshot.roots().len()), "{}", snapshot.roots().len());
        assert!(
            !snapshot.end().complete && snapshot.end().reason.contains("did not fit"),
            "{:?}",
            snapshot.end()
        );
    }

    #[test]
    fn references_have_the_names_of_their_fields() {
        use FieldKind::{Reference, Value};
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        builder.class(1, "Shop.Order", "shop.dll");
        builder.class(2, "Shop.Line", "shop.dll");
        builder.class(3, "Shop.Line[]", "shop.dll");
        let field = |offset, name: &str, kind| (offset, name.to_owned(), kind);
        let fields = [
            field(8, "<Line>k__BackingField", Reference),
            field(16, "Other", Reference),
            field(24, "Pair", Value),
        ];
        builder.class_fields(1, 0, fields.into_iter());
        let mut order = |address, words, references: &[u64]| {
            builder.object(address, 1, 48);
            builder.words(words);
            references.iter().for_each(|to| builder.reference(*to));
        };
        order(0x1000, 0b1_0010, &[0x2000, 0x2020]);
        order(0x1030, 0b100, &[0x2000]);
        // Nothing is known of one, and a reference of the other leads nowhere.
        order(0x1060, 0, &[0x2000]);
        order(0x1090, 0b110, &[0x9999, 0x2000]);
        builder.object(0x2000, 2, 24);
        builder.object(0x2020, 2, 24);
        builder.object(0x3000, 3, 32);
        builder.reference(0x2020);
        builder.dependent_handle(0x1030, 0x2020);
        let snapshot = builder.finish(end());
        let name = |from, to| {
            snapshot.field(snapshot.node_at(from).unwrap(), snapshot.node_at(to).unwrap())
        };
        assert_eq!(name(0x1000, 0x2000), Some("Line"));
        assert_eq!(name(0x1000, 0x2020), Some("Pair"));
        assert_eq!(name(0x1030, 0x2000), Some("Other"));
        assert_eq!(name(0x1030, 0x2020), None, "that is no reference of its own");
        assert_eq!([name(0x1060, 0x2000), name(0x1090, 0x2000)], [None, None]);
        assert_eq!(name(0x3000, 0x2020), Some("[]"));
    }

    #[test]
    fn static_fields_are_roots_with_names() {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        // Two elements of an array that a handle holds, and something else of it.
        builder.object(0x1000, 1, 48);
        for (at, target) in [0x2000, 0x2020, 0x2040].into_iter().enumerate() {
            builder.reference(target);
            builder.slot(0x1010 + at as u64 * 8, target);
            builder.object(target, 2, 24);
        }
        builder.root(root(0x1000));
        builder.static_field(0x1010, "Shop.Cache.<Entries>k__BackingField");
        builder.static_field(0x1018, "Shop.Cache.local");
        builder.static_field(0x9999, "Shop.Cache.none");
        let snapshot = builder.finish(end());
        let named = |node| {
            let root = snapshot.root_of(node)?;
            Some((root.kind, snapshot.root_name(root)))
        };
        assert_eq!(named(0), Some((RootKind::Handle, None)));
        assert_eq!(named(1), Some((RootKind::Statics, Some("Shop.Cache.Entries"))));
        assert_eq!(named(2), Some((RootKind::Statics, Some("Shop.Cache.local"))));
        assert_eq!(named(3), None);
        assert_eq!(snapshot.gaps().dangling_roots, 0);
    }

    #[test]
    fn an_empty_snapshot() {
        let mut builder = SnapshotBuilder::new(MemoryBudget::default());
        builder.reference(8);
        let snapshot = builder.finish(end());
        assert!(snapshot.is_empty());
        assert_eq!(snapshot.gaps().references_over_budget, 1);
    }
}
