//! All threads of a process at one time, with their stacks.

use session::{FunctionKind, ThreadState};
use std::time::Duration;

/// All threads of a process at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadDump {
    /// By ascending thread id. The agent's own threads are not among them.
    pub threads: Vec<DumpedThread>,
    /// How long it took to read the threads, from the first to the last. They ran on meanwhile.
    pub reading: Duration,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct DumpedThread {
    /// Thread id of the operating system, in our pid namespace.
    pub os_tid: u32,
    /// Its name for the runtime or the system, where it has one.
    pub name: Option<String>,
    /// Whether the runtime knows it: it has run managed code, or will.
    pub managed: bool,
    /// Its state for the kernel: the letter of `/proc/<pid>/stat`.
    pub os_state: char,
    /// What it does or waits for.
    pub state: ThreadState,
    /// Number of the system call in which it waits; `None` where it is in none, or may not be seen.
    pub call: Option<u32>,
    /// Whether that system call has a time limit, where that is known.
    pub limited: Option<bool>,
    /// Time on a processor since it began.
    pub cpu: Duration,
    /// How long ago it began.
    pub age: Duration,
    /// Its frames from the leaf to the root; empty where none could be taken.
    pub frames: Vec<DumpedFrame>,
    /// How its frames end.
    pub end: StackEnd,
}

/// How the frames of a thread end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// At the root of the thread.
    Complete,
    /// The stack is deeper than what is copied of one.
    Truncated,
    /// The caller of the last frame was not found.
    CallersNotFound,
    /// The thread ran, and was not met on a processor in time.
    NotSampled,
    /// Its stack may not be read.
    NotReadable,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpedFrame {
    /// What it runs.
    pub kind: FunctionKind,
    /// Full name of the declaring type; empty where there is none.
    pub type_name: String,
    /// Name of the method or function. In brackets where it is not known which one it is: then it
    /// is that of the module, or words for the kind of code.
    pub name: String,
    /// Parameter types in parentheses; empty where they are not known.
    pub parameters: String,
    /// Name of the assembly or library.
    pub module: Option<String>,
    /// Source file, where symbols tell.
    pub file: Option<String>,
    /// Line in it, from 1.
    pub line: Option<u32>,
    /// Whether it was found by a search of the stack, which may be wrong.
    pub guessed: bool,
}

impl DumpedFrame {
    /// Whether it is a method of a program or library.
    pub fn is_managed(&self) -> bool {
        matches!(self.kind, FunctionKind::Managed | FunctionKind::Dynamic)
    }

    /// Type, name and parameters as they are written in a line.
    pub fn full_name(&self) -> String {
        let Self { type_name, name, parameters, .. } = self;
        match type_name.is_empty() {
            true => format!("{name}{parameters}"),
            false => format!("{type_name}.{name}{parameters}"),
        }
    }
}

/// Says what code stands at addresses of a process that has no agent.
pub trait CodeReader {
    /// What stands at an address: the code with its method and module before it, each of them once;
    /// [`wire::Record::NotCode`] if it is none.
    fn explain(&mut self, address: u64) -> Vec<wire::Record>;
}
