use serde::{Deserialize, Serialize};

mod heap;
mod threads;
mod traced;

pub use heap::*;
pub use threads::*;
pub use traced::*;

pub use rows::Nanos;

/// What the agent writes. Ids are small numbers given by the agent, each defined before its first
/// use; a definition of a known id replaces the earlier one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// First of all: who speaks.
    Hello(Hello),
    /// A loaded module.
    Module(Module),
    /// A class, as far as samples need one.
    Class(Class),
    /// A method. Its native code follows in [`Record::Code`].
    Method(Method),
    /// Native code of a method: one record for each version (tier, ReJIT) that was met.
    Code(Code),
    /// No managed code stands at this address: a stub, or something native.
    NotCode(u64),
    /// The code that starts here was freed; its addresses may come again with another meaning.
    CodeFreed(u64),
    /// A managed thread was seen for the first time, or was created.
    ThreadStarted(ThreadStarted),
    /// A managed thread got a name.
    ThreadNamed {
        /// Thread id of the operating system, in the target's pid namespace.
        os_tid: u32,
        /// The name.
        name: String,
    },
    /// A managed thread ended.
    ThreadEnded {
        /// Thread id of the operating system, in the target's pid namespace.
        os_tid: u32,
        /// When.
        time: Nanos,
    },
    /// A stack walked inside the target, by instruction pointer. Every managed one is covered by an
    /// earlier [`Record::Code`].
    Stack(Stack),
    /// CPU sample of the suspend-and-walk engine.
    CpuSample(CpuSample),
    /// A thrown exception that was kept as a sample.
    Exception(Exception),
    /// Where a sampled exception was caught.
    ExceptionCaught(ExceptionCaught),
    /// Exceptions thrown since the last such record, exact, by class.
    ExceptionCounts {
        /// When the counts were taken.
        time: Nanos,
        /// Class id and how many were thrown.
        counts: Vec<(u32, u64)>,
    },
    /// Time in which a thread worked for the runtime: used to name native frames.
    RuntimeWork(RuntimeWork),
    /// The shared sample ring of the signal engine; its file descriptor comes with this frame
    /// (`SCM_RIGHTS`).
    SampleRing(crate::ring::Layout),
    /// What the runtime says of a thread whose registers and stack stand in the shared ring
    /// ([`crate::CpuEngine::Compare`]).
    Comparison(Comparison),
    /// Answer to [`crate::Control::Status`], and now and then unasked.
    Status(Status),
    /// Answer to [`crate::Control::Flush`]: what came before was collected before `ended`, and what
    /// follows after `begun`.
    Flushed {
        /// When counters began to be read.
        begun: Nanos,
        /// When all of them had been.
        ended: Nanos,
    },
    /// CPU samples come by suspend and walk from now on, because the signal engine that was asked
    /// for cannot be used.
    EngineFallback {
        /// Why.
        reason: String,
    },
    /// Something a user should know.
    Log {
        /// How grave.
        level: LogLevel,
        /// One sentence.
        message: String,
    },
    /// Last of all.
    Bye(Bye),
    /// One thread snapshot. The CPU time of each is all that
    /// it used since it began.
    ThreadSnapshot(WallTick),
    /// A heap snapshot begins; there is one at a time.
    HeapBegin {
        /// Number of the snapshot, from 0.
        snapshot: u32,
        /// When it was asked for.
        time: Nanos,
    },
    /// Part of a snapshot, see [`crate::heap`].
    HeapChunk {
        /// Number of the snapshot.
        snapshot: u32,
        /// Objects seen so far, those of this chunk included.
        objects: u64,
        /// At most [`crate::heap::MAX_CHUNK`] bytes.
        #[serde(with = "crate::bytes")]
        bytes: Vec<u8>,
    },
    /// Classes that a snapshot met. They come after the chunks that name them: names are not
    /// queried while the runtime is suspended.
    HeapClasses {
        /// Number of the snapshot.
        snapshot: u32,
        /// `ClassID`, full name, and name of the assembly, empty where that is not known.
        classes: Vec<(u64, String, String)>,
    },
    /// Methods whose variables are roots.
    HeapMethods {
        /// Number of the snapshot.
        snapshot: u32,
        /// `FunctionID` and full name.
        methods: Vec<(u64, String)>,
    },
    /// Static fields that refer to objects: the names of [`crate::heap::HeapItem::Slot`]s.
    HeapStatics {
        /// Number of the snapshot.
        snapshot: u32,
        /// The fields.
        fields: Vec<StaticField>,
    },
    /// Fields of classes whose objects refer to others.
    HeapFields {
        /// Number of the snapshot.
        snapshot: u32,
        /// The classes, and those that they are derived from.
        classes: Vec<ClassFields>,
    },
    /// A snapshot has ended.
    HeapEnd(HeapEnd),
    /// What a thread has called since the last such record of its tree.
    Calls(Calls),
    /// The next collection will be reported: objects that survive it come as [`Record::HeapChunk`],
    /// their names as [`Record::HeapClasses`] and [`Record::HeapMethods`], each name once in the
    /// session. There is one at a time, and never beside a heap snapshot.
    SurvivorsBegin {
        /// Number of the snapshot, from 0.
        snapshot: u32,
    },
    /// A collection has been reported, or none came.
    SurvivorsEnd(SurvivorsEnd),
    /// Asynchronous methods whose boxes a snapshot met, each in the first snapshot that did. They
    /// come before its end.
    AsyncStateMachines {
        /// Number of the snapshot.
        snapshot: u32,
        /// The methods.
        machines: Vec<Machine>,
    },
    /// What a thread has allocated since the last such record of it, every object counted.
    AllocatedObjects(AllocatedObjects),
    /// What has become of a method that a rule matches.
    Instrumented(Instrumented),
    /// Rules have been applied to all modules that there were.
    Applied,
    /// Calls of instrumented methods since the last such record.
    Traced(Traced),
    /// All rules have come to their ends, and original bodies are back.
    RulesEnded,
    /// The IL of a method before and after it was rewritten. Only where the parameter `il` of
    /// `trace` asks for it, and before the [`Record::Instrumented`] that says so.
    Rewritten(Rewritten),
    /// The runtime has compiled a new body. Only where the parameter `il` of `trace` asks for it.
    Recompiled(Recompiled),
    /// Single calls of instrumented methods: the slowest, or all, as the session asked.
    SingleCalls(Vec<SingleCall>),
    /// The parameters of an instrumented method whose arguments are asked for.
    Parameters(Parameters),
    /// As [`Record::SingleCalls`], of methods whose arguments are reported with them.
    CallsWithArguments(Vec<CallArguments>),
    /// Where a thread is blocked, and a copy of its stack, which is unwound outside. It comes
    /// before the records that name it.
    BlockedStack(BlockedStack),
    /// The stacks of profilers that show threads come by suspend and walk from now on, because
    /// blocked threads cannot be read.
    WalkBlocked {
        /// Why.
        reason: String,
    },
    /// One tick of a profiler that shows threads: all managed threads.
    ThreadTick {
        /// Id of the profiler.
        profiler: String,
        /// The threads.
        tick: WallTick,
    },
}

/// Who speaks, and what the runtime is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`crate::PROTOCOL_VERSION`] of the agent.
    pub protocol: u16,
    /// The token of the [`crate::SessionConfig`].
    pub token: [u8; 16],
    /// Process id in the target's own pid namespace.
    pub pid: u32,
    /// Version of the runtime: major, minor, build, fix.
    pub runtime: [u16; 4],
    /// Highest `ICorProfilerInfo` that the runtime answers to.
    pub info_version: u8,
    /// Whether the agent is a notification-only profiler beside another one.
    pub notify_only: bool,
    /// The event mask that the runtime accepted: low and high half.
    pub event_mask: (u32, u32),
    /// When `InitializeForAttach` or `Initialize` was entered.
    pub entered: Nanos,
    /// The command line of the process, for a launched one to be told apart from `dotnet` hosts.
    pub command_line: Vec<String>,
}

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Id.
    pub id: u32,
    /// Address of its image in memory, 0 where there is none.
    pub base: u64,
    /// Path of the file as the target sees it; the name for modules made in memory.
    pub path: String,
    /// Name of the assembly.
    pub assembly: String,
    /// Module version id (`Mvid`) of the metadata: which build this is.
    pub mvid: [u8; 16],
}

/// A class. Session files hold it as it is, with ids of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class<Id = u32> {
    /// Its id.
    pub id: Id,
    /// Full name: namespace, nesting and generic arguments, as C# writes them.
    pub name: String,
}

/// What kind of code a method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MethodKind {
    /// Has metadata.
    Normal,
    /// Made at run time: `DynamicMethod`, LINQ expressions.
    Dynamic,
    /// Made by the runtime itself: marshalling and other IL stubs.
    IlStub,
}

/// A method and its names, as parts so that each report can write them its own way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Method {
    /// Id.
    pub id: u32,
    /// Module that declares it; `None` for dynamic methods and stubs.
    pub module: Option<u32>,
    /// Metadata token (`mdMethodDef`), 0 where there is none.
    pub token: u32,
    /// What it is.
    pub kind: MethodKind,
    /// Full name of the declaring type with namespace, nesting (`+`) and generic arguments (`<…>`);
    /// empty for dynamic methods.
    pub type_name: String,
    /// Name with generic arguments.
    pub name: String,
    /// Parameter types in parentheses, as C# writes them.
    pub parameters: String,
}

/// Native code of one version of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The method.
    pub method: u32,
    /// ReJIT id, 0 for the original.
    pub rejit: u64,
    /// Where it stands: start and length, the entry first.
    pub ranges: Vec<(u64, u32)>,
    /// How its frames are unwound; `None` where the runtime's tables could not be read.
    pub unwind: Option<UnwindTable>,
    /// The bytes of the first range, for epilogs and prologs to be recognised; empty if over 256
    /// KB.
    pub bytes: Vec<u8>,
    /// Native offset and IL offset, ascending, special IL offsets left out.
    pub il_map: Vec<(u32, u32)>,
}

/// The runtime's own unwind information, in the Windows x64 format that CoreCLR uses on every x64
/// system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnwindTable {
    /// One entry for each function and funclet, ascending, as addresses.
    pub entries: Vec<UnwindEntry>,
}

/// One function or funclet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnwindEntry {
    /// First address.
    pub begin: u64,
    /// First address behind.
    pub end: u64,
    /// The bytes of its `UNWIND_INFO` up to the end of the unwind codes; chained ones follow each
    /// other, the most inner first.
    pub info: Vec<Vec<u8>>,
}

/// A thrown exception.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exception {
    /// Number of this sample, for [`ExceptionCaught`].
    pub sequence: u64,
    /// When it was thrown.
    pub time: Nanos,
    /// By which thread, in the target's pid namespace.
    pub os_tid: u32,
    /// Its class.
    pub class: u32,
    /// Its message as set by the thrower; `None` if it never set one.
    pub message: Option<String>,
    /// Where it was thrown.
    pub stack: u32,
    /// How many exceptions of this class this sample stands for.
    pub weight: u64,
}

/// Where a sampled exception was caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExceptionCaught {
    /// The sample.
    pub sequence: u64,
    /// When the catch block was entered.
    pub time: Nanos,
    /// Method that caught it; `None` if the runtime or nobody did.
    pub method: Option<u32>,
}

/// Which calls a call tree is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallKind {
    /// Of methods with enter and leave hooks.
    Methods,
    /// Between managed and native code.
    Transitions,
}

/// Growth of one thread's call tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Which calls.
    pub kind: CallKind,
    /// Number of the tree; no other tree of the session has it.
    pub tree: u32,
    /// Thread, in the target's pid namespace.
    pub os_tid: u32,
    /// When it was read.
    pub time: Nanos,
    /// The nodes that are new or have grown, parents before their children.
    pub nodes: Vec<CallNode>,
    /// Whether the thread has ended, so that this is the last of it.
    pub ended: bool,
}

/// A node of a call tree: a method as it is called by its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallNode {
    /// Its number in the tree, from 1.
    pub node: u32,
    /// Number of the caller, 0 for none.
    pub parent: u32,
    /// The method; `None` where the runtime does not tell.
    pub method: Option<u32>,
    /// Whether native code has called it: a reverse P/Invoke.
    pub from_native: bool,
    /// Calls since the last time.
    pub count: u64,
    /// Time in it and not in its children since the last time.
    pub own: Nanos,
}

/// Objects that a thread has allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedObjects {
    /// When they were counted.
    pub time: Nanos,
    /// Thread, in the target's pid namespace.
    pub os_tid: u32,
    /// Class id, objects, and their bytes, each size rounded up as the runtime allocates it.
    pub counts: Vec<(u32, u64, u64)>,
}

/// What a thread did for the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuntimeWorkKind {
    /// A garbage collection.
    Gc,
    /// The runtime was suspended, for whatever reason, from suspension to resume.
    Suspended,
    /// A method was compiled.
    Jit,
}

/// Time in which a thread worked for the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeWork {
    /// What it did.
    pub kind: RuntimeWorkKind,
    /// Thread, in the target's pid namespace.
    pub os_tid: u32,
    /// From.
    pub start: Nanos,
    /// To.
    pub end: Nanos,
}

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LogLevel {
    /// For those who look for a fault in clrscope.
    Debug,
    /// Good to know.
    Info,
    /// Something is missing in the result.
    Warning,
    /// A profiler had to stop.
    Error,
}

/// What the agent costs and what it lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// When.
    pub time: Nanos,
    /// Bytes the agent holds in the target.
    pub memory: u64,
    /// CPU time of the agent's own threads.
    pub cpu: Nanos,
    /// How long the runtime was suspended: for stack walks, for lookups of code, to prepare threads
    /// for signals, and to open modules for additions. Heap snapshots and looks at survivors report
    /// their pauses themselves.
    pub stopped: Nanos,
    /// What was dropped, by reason.
    pub dropped: Vec<(String, u64)>,
    /// What was counted, by name: callbacks, walks, names resolved.
    pub counters: Vec<(String, u64)>,
    /// What the agent holds in the target, and has held.
    pub resources: Vec<crate::HeldResource>,
}

/// Why an agent left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ByeReason {
    /// It was asked to stop.
    Stopped,
    /// The process ends.
    Shutdown,
    /// It could not continue; the last log line says why.
    Failed,
    /// The process is not to be profiled: a `dotnet` command host, an MSBuild node.
    Skipped,
    /// It cannot leave, because another profiler has left in a way that the runtime miscounts: it
    /// stays loaded, without a thread and without events. In the first frame this says that there
    /// is no session at all, and that an agent that is loaded now may have one.
    Stays,
    /// It was asked to stop, and cannot detach: it has set hooks, or requested events, that the
    /// runtime never reverts. They do nothing any more.
    Hooked,
    /// It was asked to stop, and waits for the next session, as its configuration says.
    Resident,
    /// There is no session: the runtime does not allow what it needs. The last log line says why.
    Refused,
    /// It was asked to stop, and cannot detach: a signal handler of it may still be called, or has
    /// not returned. The last log line says why.
    Handler,
    /// It was asked to stop, and will detach later: the runtime, which waits for the event session
    /// of another tool, keeps a thread of it.
    Kept,
}

/// The agent's last words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bye {
    /// Why.
    pub reason: ByeReason,
    /// Final account.
    pub status: Status,
}
