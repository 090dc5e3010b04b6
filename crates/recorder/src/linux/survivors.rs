//! Sums up what the agent reports of a collection as it arrives, so that a session keeps little of
//! each collection.

use std::collections::HashMap;

use heap::SurvivorBuilder;
use session::{SurvivedCollection, SurvivorHolder, SurvivorSnapshot};
use wire::heap::{HeapItem, NOT_COLLECTED, RootKind};

use super::define::Definitions;

/// Ways of being held that are kept of one collection; of the others the greatest are as small.
const MOST_HELD: usize = 500;
/// Names that are kept; a session of more classes than that calls the others by number.
const MOST_NAMES: usize = 1 << 20;

/// Looks at collections, as far as they have come.
#[derive(Debug, Default)]
pub(super) struct Survivors {
    under_way: Option<Box<SurvivorBuilder>>,
    /// Where the next objects were before.
    origin: Option<u8>,
    classes: HashMap<u64, String>,
    methods: HashMap<u64, String>,
    /// Survivors and references beyond what one snapshot keeps.
    lost: u64,
}

impl Survivors {
    /// A snapshot begins.
    pub fn begin(&mut self) {
        self.under_way = Some(Box::default());
        self.origin = None;
    }

    /// Whether one is under way.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Takes a part of the snapshot. False if it is damaged.
    pub fn chunk(&mut self, bytes: &[u8]) -> bool {
        let Some(snapshot) = &mut self.under_way else { return true };
        for item in wire::heap::decode(bytes) {
            match item {
                Ok(HeapItem::Origin { generation }) => {
                    self.origin = (generation != NOT_COLLECTED).then_some(generation);
                }
                Ok(HeapItem::Object { address, class, size, .. }) => {
                    snapshot.object(address, class, size, self.origin)
                }
                Ok(HeapItem::Reference { target }) => snapshot.reference(target),
                Ok(HeapItem::Root { target, kind, id, .. }) => {
                    let holder = match kind {
                        RootKind::Stack => SurvivorHolder::Stack(id),
                        RootKind::Finalizer => SurvivorHolder::Finalizer,
                        RootKind::Handle => SurvivorHolder::Handle,
                        RootKind::Other => SurvivorHolder::Other,
                    };
                    snapshot.root(holder, target);
                }
                Ok(HeapItem::Dependent { key, value, .. }) => snapshot.dependent(key, value),
                Ok(HeapItem::Generation { generation, start, length, .. }) => {
                    snapshot.generation(generation, start, length)
                }
                Ok(HeapItem::Sum { generation, class, objects, bytes }) => {
                    snapshot.sum(generation, class, objects, bytes)
                }
                // Nobody asked for these.
                Ok(
                    HeapItem::StringContent { .. } | HeapItem::Field { .. } | HeapItem::Slot { .. },
                ) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Names of classes.
    pub fn classes(&mut self, classes: Vec<(u64, String, String)>) {
        for (class, name, _) in classes {
            if self.classes.len() < MOST_NAMES {
                self.classes.insert(class, name);
            }
        }
    }

    /// Names of methods.
    pub fn methods(&mut self, methods: Vec<(u64, String)>) {
        if self.methods.len() < MOST_NAMES {
            self.methods.extend(methods);
        }
    }

    /// What there was no room for, since the last time.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// The snapshot has ended; `None` if there was no collection to be looked at.
    pub fn end(
        &mut self,
        definitions: &mut Definitions,
        mut collection: SurvivedCollection,
    ) -> Option<SurvivorSnapshot> {
        let snapshot = self.under_way.take()?;
        if collection.time == 0 {
            return None;
        }
        let sums = snapshot.finish();
        self.lost += sums.lost;
        collection.complete &= sums.lost == 0;
        let mut ty = |class: u64| match self.classes.get(&class) {
            Some(name) => definitions.ty(name),
            None => definitions.ty(&format!("class {class:#x}")),
        };
        let name = |method: u64| self.methods.get(&method).cloned().unwrap_or_default();
        let counts = sums.counts.into_iter().map(|count| count.of(&mut ty)).collect();
        let held = sums.held.into_iter().take(MOST_HELD);
        let held = held.map(|held| held.of(&mut ty, name)).collect();
        Some(SurvivorSnapshot { collection, counts, held })
    }
}
