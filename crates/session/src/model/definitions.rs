//! What samples and rows refer to.

use serde::{Deserialize, Serialize};

use super::{FrameId, FrameTrust, ModuleId, Nanos};
use rows::{FunctionId, StackId, ThreadId, TypeId};

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadDef {
    /// Its id.
    pub id: ThreadId,
    /// Thread id of the operating system, in clrscope's pid namespace.
    pub os_tid: u32,
    /// Name given by the program, the runtime or the system, where there is one.
    pub name: Option<String>,
    /// Whether it ran managed code.
    pub managed: bool,
    /// When it started, if during the recording.
    pub started: Option<Nanos>,
    /// When it ended, if during the recording.
    pub ended: Option<Nanos>,
}

/// A module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleDef {
    /// Its id.
    pub id: ModuleId,
    /// Whether it is an assembly.
    pub managed: bool,
    /// File name or assembly name.
    pub name: String,
    /// Path as the target sees it; empty for modules made in memory.
    pub path: String,
    /// Build id (ELF, hexadecimal) or module version id (assembly), where known.
    pub build_id: Option<String>,
}

/// What a function is. Reports give each kind its colour and may fold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FunctionKind {
    /// A method of an application or library.
    Managed,
    /// A method made at run time.
    Dynamic,
    /// A stub of the runtime: marshalling, dispatch, write barrier.
    Stub,
    /// Native code that is none of the below.
    Native,
    /// The runtime itself.
    Runtime,
    /// The runtime's garbage collector.
    Gc,
    /// The runtime's compiler.
    Jit,
    /// The kernel.
    Kernel,
    /// Not known, or a mark that the stack is cut here.
    Unknown,
}

/// A function and the parts of its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionDef {
    /// Its id.
    pub id: FunctionId,
    /// What it is.
    pub kind: FunctionKind,
    /// Where it is from.
    pub module: Option<ModuleId>,
    /// Full type name with namespace, nesting and generic arguments; empty where there is none. For
    /// an async or iterator method this is the type that the user wrote, not the compiler's state
    /// machine.
    pub type_name: String,
    /// Name as the user wrote it, with generic arguments.
    pub name: String,
    /// Parameter types in parentheses; empty where unknown.
    pub parameters: String,
    /// Whether the compiler turned it into a state machine, and which.
    pub state_machine: Option<StateMachine>,
}

/// What kind of state machine the compiler made of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StateMachine {
    /// `async`.
    Async,
    /// `yield`.
    Iterator,
    /// One of the two: Roslyn names both alike.
    AsyncOrIterator,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameDef {
    /// Its id.
    pub id: FrameId,
    /// Function.
    pub function: FunctionId,
    /// Source line, where symbols give one.
    pub line: Option<SourceLine>,
    /// How it was found.
    pub trust: FrameTrust,
}

/// A source line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    /// Path of the file as the compiler saw it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

/// A node in the tree of all stacks. A stack is the path from its node to the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackDef {
    /// Its id, greater than its parent's.
    pub id: StackId,
    /// The caller; `None` at the root.
    pub parent: Option<StackId>,
    /// The frame.
    pub frame: FrameId,
}

/// A type.
pub type TypeDef = wire::Class<TypeId>;
