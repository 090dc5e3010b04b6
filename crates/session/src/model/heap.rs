//! What heap snapshots and collections leave behind.

use serde::{Deserialize, Serialize};

use super::SourceLine;
use rows::TypeId;

pub use wire::{ClassFields, Field, FieldKind, HeapEnd, StaticField, SurvivedCollection};

/// Objects that survived one collection, and what retained the young ones among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivorSnapshot {
    /// The collection.
    pub collection: SurvivedCollection,
    /// Survivors by type and generations, most bytes first.
    pub counts: Vec<SurvivorCount>,
    /// Young survivors (of generations 0 and 1) by what retains them, most bytes first.
    pub held: Vec<HeldSurvivors>,
}

/// Survivors of one type between two generations. `Type` is how types are named: by the ids of a
/// session, or by those of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivorCount<Type = TypeId> {
    /// The type.
    pub ty: Type,
    /// Generation before: 0, 1, 2; 3 for large objects, 4 for pinned ones.
    pub before: u8,
    /// Generation after; 255 where that is not known.
    pub after: u8,
    /// How many.
    pub objects: u64,
    /// Their bytes, each size rounded up to the next 8.
    pub bytes: u64,
}

impl<Type> SurvivorCount<Type> {
    /// The same with the type named in another way.
    pub fn of<Other>(self, ty: impl FnOnce(Type) -> Other) -> SurvivorCount<Other> {
        let Self { before, after, objects, bytes, .. } = self;
        SurvivorCount { ty: ty(self.ty), before, after, objects, bytes }
    }
}

/// Young survivors of one type that one collection found held in the same way. `Type` and `Method`
/// are how these are named: by the id of a session and by name, or by the ids of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSurvivors<Type = TypeId, Method = String> {
    /// Where the shortest chain of references to them begins.
    pub holder: SurvivorHolder<Method>,
    /// Types along it, their own last. One after another of the same type count once.
    pub path: Vec<Type>,
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl<Type, Method> HeldSurvivors<Type, Method> {
    /// The same with types and methods named in another way.
    pub fn of<OtherType, OtherMethod>(
        self,
        ty: impl FnMut(Type) -> OtherType,
        method: impl FnOnce(Method) -> OtherMethod,
    ) -> HeldSurvivors<OtherType, OtherMethod> {
        let Self { holder, path, objects, bytes } = self;
        let path = path.into_iter().map(ty).collect();
        HeldSurvivors { holder: holder.of(method), path, objects, bytes }
    }
}

/// Where a chain of references to a survivor begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SurvivorHolder<Method = String> {
    /// An object of a generation that was not collected, or that was in generation 2 before; with
    /// its generation, 255 where that is not known. The first type of the path is its own.
    Older(u8),
    /// A handle: of `GCHandle`, or one of the runtime's own, by which statics are held.
    Handle,
    /// A variable of a method that runs; an empty name, or 0, where the runtime does not name it.
    Stack(Method),
    /// An entry of a `ConditionalWeakTable` whose key is older.
    Dependent,
    /// Somewhere else in the runtime.
    Other,
    /// The queue of objects to be finalized.
    Finalizer,
    /// No chain was found: its holder was not reported, or there was no room for it.
    Unknown,
}

impl<Method> SurvivorHolder<Method> {
    /// The same with a method named in another way.
    pub fn of<Other>(self, method: impl FnOnce(Method) -> Other) -> SurvivorHolder<Other> {
        match self {
            SurvivorHolder::Older(generation) => SurvivorHolder::Older(generation),
            SurvivorHolder::Handle => SurvivorHolder::Handle,
            SurvivorHolder::Stack(of) => SurvivorHolder::Stack(method(of)),
            SurvivorHolder::Dependent => SurvivorHolder::Dependent,
            SurvivorHolder::Other => SurvivorHolder::Other,
            SurvivorHolder::Finalizer => SurvivorHolder::Finalizer,
            SurvivorHolder::Unknown => SurvivorHolder::Unknown,
        }
    }
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
