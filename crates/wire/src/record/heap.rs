//! Heap snapshots and survivors of collections.
//!
//! Session files hold [`SurvivedCollection`], [`ClassFields`], [`StaticField`] and [`HeapEnd`] as
//! they are. What these hold may change only together with the format of session files.

use serde::{Deserialize, Serialize};

use super::Nanos;

/// What survived a collection has been reported, or none came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivorsEnd {
    /// Number of the snapshot.
    pub snapshot: u32,
    /// The collection.
    pub collection: SurvivedCollection,
}

/// A collection whose survivors were reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivedCollection {
    /// When the runtime was asked to suspend for it; from the agent 0 if none came.
    pub time: Nanos,
    /// The oldest generation that was collected: 0, 1 or 2.
    pub generation: u8,
    /// Whether it was induced.
    pub induced: bool,
    /// How long the runtime was suspended for the collection with the snapshot; 0 if that is not
    /// known.
    pub paused: Nanos,
    /// How much of it the snapshot added: from the first root to the last object.
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
}

/// The state machine of an asynchronous method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// `ClassID` of the box around it.
    pub class: u64,
    /// Path of the module that has the method, as the target sees it.
    pub path: String,
    /// Module version id (`Mvid`) of its metadata: which build this is.
    pub mvid: [u8; 16],
    /// Metadata token of the state machine's `MoveNext`.
    pub token: u32,
    /// States in which it waits, each with the IL offset in `MoveNext` at which the state is
    /// entered.
    pub points: Vec<(i32, u32)>,
}

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
    /// Where its value is: [`crate::heap::HeapItem::Slot`].
    pub address: u64,
    /// Type and field, such as `Shop.Cache.entries`.
    pub name: String,
}

/// How a heap snapshot ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapEnd {
    /// Number of the snapshot.
    pub snapshot: u32,
    /// When.
    pub time: Nanos,
    /// How long the runtime was suspended for it, from suspension to resume; 0 if that is not
    /// known.
    pub paused: Nanos,
    /// Objects seen.
    pub objects: u64,
    /// Whether every object and every root was seen.
    pub complete: bool,
    /// Why not; also, in a complete snapshot, what else is missing.
    pub reason: Option<String>,
}
