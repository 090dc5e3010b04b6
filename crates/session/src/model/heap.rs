//! What heap snapshots and collections leave behind.

use serde::{Deserialize, Serialize};

use super::{Nanos, SourceLine};
use rows::TypeId;

/// The fields of the objects of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassFields {
    /// The runtime's number of the class (`ClassID`).
    pub class: u64,
    /// The class that it is derived from, which has further fields; 0 for none.
    pub parent: u64,
    /// Its own fields.
    pub fields: Vec<Field>,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Where it is, in bytes from the address of the object.
    pub offset: u32,
    /// Its name; empty where it can hold no reference.
    pub name: String,
    /// What it can hold.
    pub kind: FieldKind,
}

/// What a field can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FieldKind {
    /// A reference.
    Reference,
    /// A value type, which may have references.
    Value,
    /// No reference.
    Other,
}

/// A static field that refers to an object of a heap snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticField {
    /// Where its value is: the address of a slot in the parts of the snapshot.
    pub address: u64,
    /// Type and field, such as `Shop.Cache.entries`.
    pub name: String,
}

/// Objects that survived one collection, and what retained the young ones among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivorSnapshot {
    /// When the runtime was asked to suspend for it.
    pub time: Nanos,
    /// The oldest generation that was collected: 0, 1 or 2.
    pub generation: u8,
    /// Whether it was induced.
    pub induced: bool,
    /// How long the runtime was suspended for the collection with the snapshot; 0 if that is not
    /// known.
    pub paused: Nanos,
    /// How much of it the snapshot added.
    pub telling: Nanos,
    /// Bytes in use before in generations 0, 1, 2, large and pinned objects; 0 for those that were
    /// not collected.
    pub before: [u64; 5],
    /// Bytes that the collection moved.
    pub moved: u64,
    /// Objects on the whole heap that the runtime reported for it.
    pub objects: u64,
    /// Whether all survivors were seen.
    pub complete: bool,
    /// Why not; also, in a complete one, what else is missing.
    pub reason: Option<String>,
    /// Survivors by type and generations, most bytes first.
    pub counts: Vec<SurvivorCount>,
    /// Young survivors (of generations 0 and 1) by what retains them, most bytes first.
    pub held: Vec<HeldSurvivors>,
}

/// Survivors of one type between two generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivorCount {
    /// The type.
    pub ty: TypeId,
    /// Generation before: 0, 1, 2; 3 for large objects, 4 for pinned ones.
    pub before: u8,
    /// Generation after; 255 where that is not known.
    pub after: u8,
    /// How many.
    pub objects: u64,
    /// Their bytes, each size rounded up to the next 8.
    pub bytes: u64,
}

/// Young survivors of one type that one collection found held in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSurvivors {
    /// Where the shortest chain of references to them begins.
    pub holder: SurvivorHolder,
    /// Types along it, their own last. One after another of the same type count once.
    pub path: Vec<TypeId>,
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Where a chain of references to a survivor begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SurvivorHolder {
    /// An object of a generation that was not collected, or that was in generation 2 before; with
    /// its generation, 255 where that is not known. The first type of the path is its own.
    Older(u8),
    /// A handle: of `GCHandle`, or one of the runtime's own, by which statics are held.
    Handle,
    /// A variable of a method that runs; empty where the runtime does not name it.
    Stack(String),
    /// An entry of a `ConditionalWeakTable` whose key is older.
    Dependent,
    /// Somewhere else in the runtime.
    Other,
    /// The queue of objects to be finalized.
    Finalizer,
    /// No chain was found.
    Unknown,
}

/// The state machine of an asynchronous method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsyncStateMachine {
    /// The runtime's number of the class of the box around it (`ClassID`), as in
    /// [`crate::SessionRecord::HeapClasses`].
    pub class: u64,
    /// Where it waits.
    pub points: Vec<AwaitPoint>,
}

/// A place where an asynchronous method waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitPoint {
    /// The state in which it waits there.
    pub state: i32,
    /// Its source line, where symbols give one.
    pub line: Option<SourceLine>,
}

/// How a heap snapshot ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapEnd {
    /// Number of the snapshot.
    pub snapshot: u32,
    /// When.
    pub time: Nanos,
    /// How long the runtime was suspended for it; 0 if that is not known.
    pub paused: Nanos,
    /// Objects seen.
    pub objects: u64,
    /// Whether every object and every root was seen.
    pub complete: bool,
    /// Why not; also, in a complete snapshot, what else is missing.
    pub reason: Option<String>,
}
