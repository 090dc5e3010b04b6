use rows::{RowBatch, StackId, TableDef, ThreadId};
use serde::{Deserialize, Serialize};

mod costs;
mod definitions;
mod heap;
mod imported;
mod traced;

pub use costs::*;
pub use definitions::*;
pub use heap::*;
pub use imported::*;
pub use traced::*;

pub use rows::Nanos;
pub use wire::FrameTrust;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into the table that the definitions of a session make in order.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A loaded module, managed or native.
    ModuleId;
    /// A frame: a function at a place.
    FrameId;
}

/// One entry of a session. Ids count up from 0 without gaps, each kind for itself, and an id is
/// defined before its first use; a [`ThreadDef`] may come again with the same id when more is
/// known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SessionRecord {
    /// First of all.
    Info(SessionInfo),
    /// A thread.
    Thread(ThreadDef),
    /// A module.
    Module(ModuleDef),
    /// A function.
    Function(FunctionDef),
    /// A frame.
    Frame(FrameDef),
    /// A stack.
    Stack(StackDef),
    /// A type.
    Type(TypeDef),
    /// A table of a profiler.
    Table(TableDef),
    /// Rows of a table.
    Rows(RowBatch),
    /// State of the observer: costs and drops.
    Observer(ObserverStatus),
    /// Something a user should know.
    Note {
        /// When.
        time: Nanos,
        /// One sentence.
        message: String,
    },
    /// Last of all; missing in a session that was cut short.
    End(SessionEnd),
    /// A profiler continues with another engine than [`SessionInfo::profilers`] says.
    Engine {
        /// Its id.
        profiler: String,
        /// How it takes samples from now on, in the words of [`ProfilerRun::engine`].
        engine: String,
    },
    /// What the agent held in the target, resource by resource. A later one replaces an earlier
    /// one.
    Resources(Vec<ResourceUse>),
    /// How much of the processors the process had and lacked.
    Processors(ProcessorUse),
    /// How often threads were sampled, measured. A later one of the same profiler replaces an
    /// earlier one.
    SamplingRate(SamplingRate),
    /// CPU samples.
    CpuSamples(SampleBatch),
    /// Wall samples.
    WallSamples(SampleBatch),
    /// What the workers of the thread pool did or waited for.
    PoolSamples(SampleBatch),
    /// A thread snapshot.
    ThreadSnapshot(ThreadSnapshot),
    /// A heap snapshot begins.
    HeapBegin {
        /// Number of the snapshot, from 0.
        snapshot: u32,
        /// When it was asked for.
        time: Nanos,
    },
    /// Part of the snapshot that has begun: objects, references, roots, strings in the format of
    /// clrscope's crate `wire::heap`.
    HeapChunk {
        /// Number of the snapshot.
        snapshot: u32,
        /// At most [`MAX_HEAP_CHUNK`] bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Classes of the snapshot that has begun. They come after the chunks that name them.
    HeapClasses {
        /// Number of the snapshot.
        snapshot: u32,
        /// The runtime's number of the class (`ClassID`), full name, and name of the assembly,
        /// empty where that is not known.
        classes: Vec<(u64, String, String)>,
    },
    /// Methods whose variables are roots of the snapshot that has begun.
    HeapMethods {
        /// Number of the snapshot.
        snapshot: u32,
        /// The runtime's number of the method (`FunctionID`), and its full name.
        methods: Vec<(u64, String)>,
    },
    /// A snapshot has ended.
    HeapEnd(HeapEnd),
    /// What survived a collection.
    Survivors(SurvivorSnapshot),
    /// Asynchronous methods of the snapshot that has begun, each in the first snapshot that met it.
    AsyncStateMachines {
        /// Number of the snapshot.
        snapshot: u32,
        /// The methods.
        machines: Vec<AsyncStateMachine>,
    },
    /// The state of a method that matches a rule.
    Instrumented(InstrumentedMethod),
    /// Calls of instrumented methods.
    Traced(TracedCalls),
    /// The IL of a method before and after it was rewritten.
    Rewritten(RewrittenMethod),
    /// The runtime has compiled a new body.
    Recompiled(RecompiledMethod),
    /// Single calls of instrumented methods: the slowest, or all.
    SingleCalls(Vec<SingleCall>),
    /// The parameters of an instrumented method whose arguments are asked for.
    Parameters(MethodParameters),
    /// Single calls of instrumented methods with their arguments.
    CallsWithArguments(Vec<CallArguments>),
    /// A collection, also one for a heap snapshot, from the first heap snapshot on.
    Collection {
        /// When it began.
        start: Nanos,
        /// When it was over.
        end: Nanos,
    },
    /// Static fields that refer to objects of the snapshot that has begun.
    HeapStatics {
        /// Number of the snapshot.
        snapshot: u32,
        /// The fields.
        fields: Vec<StaticField>,
    },
    /// Fields of classes of the snapshot that has begun, whose objects refer to others.
    HeapFields {
        /// Number of the snapshot.
        snapshot: u32,
        /// The classes, and those that they are derived from.
        classes: Vec<ClassFields>,
    },
}

/// Largest [`SessionRecord::HeapChunk`], in bytes.
pub const MAX_HEAP_CHUNK: usize = 1 << 20;

/// What was recorded, where and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Version of clrscope that recorded.
    pub tool_version: String,
    /// Process id in clrscope's pid namespace.
    pub pid: u32,
    /// Name of the process, as `clrscope ps` shows it.
    pub process_name: String,
    /// Command line.
    pub command_line: String,
    /// Runtime version as text, such as `9.0.5`.
    pub runtime: String,
    /// Operating system and processor of the target, such as `linux-x64`.
    pub platform: String,
    /// How we came in.
    pub entry: Entry,
    /// Start of the recording on the wall clock, milliseconds since 1970.
    pub start_unix_ms: u64,
    /// Start of the recording on the recording's own clock.
    pub start: Nanos,
    /// Processors that the machine has.
    pub cpus: u32,
    /// What ran.
    pub profilers: Vec<ProfilerRun>,
}

/// How we came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// Attached, with no other profiler that is known of.
    Attached,
    /// Attached beside another profiler, which holds the main slot.
    AttachedBeside,
    /// Launched with the process, as its main profiler.
    Launched,
    /// Launched with the process beside another profiler, which holds the main slot.
    LaunchedBeside,
    /// Not at all: another tool recorded, and its file was imported. Numbers and texts of the
    /// process that the file does not have are 0 and empty.
    Imported,
}

/// One profiler of the recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfilerRun {
    /// Id as in `clrscope profilers`.
    pub id: String,
    /// How it took its samples, in words for a reader: the name of the engine.
    pub engine: String,
    /// Samples per second and thread, where it samples.
    pub rate_hz: Option<u32>,
    /// Parameters that differ from the defaults.
    pub params: Vec<(String, String)>,
}

/// What a thread was doing when it was sampled. Files hold the number of the variant, so new ones
/// come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ThreadState {
    /// On a processor. Where the kernel does not report how long a thread waits for one, that wait
    /// is in here too.
    Running,
    /// For a lock that another thread holds.
    Lock,
    /// For time to pass.
    Sleep,
    /// For a file, a socket, a process.
    Io,
    /// For work: an idle pool or housekeeping thread.
    Idle,
    /// For a garbage collection to end.
    Gc,
    /// For a task: blocking on asynchronous work.
    Task,
    /// For something else.
    Other,
    /// For a signal of another thread: an event, a semaphore, `Monitor.Wait`, the end of a thread.
    Event,
    /// For the runtime itself: its allocator, its compiler, a suspension.
    Runtime,
    /// For a processor: ready to run, and none is free.
    NoProcessor,
    /// For a processor as well, because the CPU quota of its control group is used up.
    Throttled,
}

/// Samples in columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleBatch {
    /// Time of the first sample.
    pub start: Nanos,
    /// Nanoseconds since the sample before (since `start` for the first). Ascending times: never
    /// negative.
    pub time_delta: Vec<u64>,
    /// Thread.
    pub thread: Vec<ThreadId>,
    /// Stack.
    pub stack: Vec<StackId>,
    /// Nanoseconds that the sample stands for: CPU time in a CPU batch, wall time in a wall batch.
    pub weight: Vec<u64>,
    /// What the thread was doing.
    pub state: Vec<ThreadState>,
    /// Whether the stack is cut before the root of the thread: it was deeper than the limit.
    pub truncated: Vec<bool>,
}

/// All threads at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSnapshot {
    /// When.
    pub time: Nanos,
    /// The threads, managed and native.
    pub threads: Vec<ThreadSeen>,
}

/// A thread in a [`ThreadSnapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSeen {
    /// Which.
    pub thread: ThreadId,
    /// Its managed stack; for a thread without managed frames the stack that is one unknown frame.
    pub stack: StackId,
    /// What it was doing.
    pub state: ThreadState,
    /// State letter of the kernel: `R`, `S`, `D` …; `?` where it could not be read.
    pub os_state: u8,
    /// Time on a processor since it began, nanoseconds.
    pub cpu: u64,
    /// When it began, on the recording's clock; below zero if the clock began later. Exact to 10
    /// ms.
    pub born: i64,
    /// Number of the system call in which it waits, where that may be seen.
    pub call: Option<u32>,
    /// Whether that call has a time limit, where it is of a kind of which that is known.
    pub limited: Option<bool>,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// Its time was up, or the user ended it.
    Stopped,
    /// The process ended.
    ProcessExited,
    /// The connection to the agent was lost.
    AgentLost,
}

/// Last of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// When.
    pub time: Nanos,
    /// Why.
    pub reason: EndReason,
    /// Exit code of the process, where it ended and we know.
    pub exit_code: Option<i32>,
}
