use rows::{FunctionId, RowBatch, StackId, TableDef, ThreadId, TypeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Nanoseconds of `CLOCK_MONOTONIC` on the machine of the target.
pub type Nanos = u64;

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
    /// [`SessionRecord::HeapClasses`].
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

/// How a frame was found, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FrameTrust {
    /// The registers of the thread: the leaf.
    Context,
    /// The runtime's own stack walk.
    Runtime,
    /// Exact unwind tables.
    Tables,
    /// A rule learned from the code, or the frame pointer.
    Learned,
    /// Found by looking for return addresses: a guess.
    Scan,
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

/// A method that matches a rule, and its state. A later record replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstrumentedMethod {
    /// When it was reported.
    pub time: Nanos,
    /// The method.
    pub function: FunctionId,
    /// Name of the rule.
    pub rule: String,
    /// What [`TracedMethod`] calls it; `None` if it has no number because it was refused.
    pub slot: Option<u32>,
    /// Its state.
    pub state: InstrumentState,
}

/// State of a method that matches a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstrumentState {
    /// It could be instrumented: a dry run.
    Possible,
    /// It is instrumented from its next call on.
    Requested,
    /// It has its original body again.
    Original,
    /// It is left alone, and why.
    Refused(String),
}

/// A new body for a method: one for each method that matches a rule, and one more for the state
/// machine of an asynchronous one. Only where IL was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewrittenMethod {
    /// When it was made.
    pub time: Nanos,
    /// The method whose body it is.
    pub function: FunctionId,
    /// Name of the rule.
    pub rule: String,
    /// As in [`InstrumentedMethod::slot`]: the number that the new body passes to probes.
    pub slot: u32,
    /// The original body and the new one, or why they are left out.
    pub bodies: Result<(IlBody, IlBody), String>,
}

/// The body of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IlBody {
    /// Header, code and clauses, as the runtime takes them.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// The same in the syntax of ILAsm, with names in place of tokens and of the addresses of
    /// probes.
    pub text: String,
}

/// The runtime has compiled a new body of a method, which it does when the method is called, and
/// perhaps again for a later tier. Only where IL was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecompiledMethod {
    /// When.
    pub time: Nanos,
    /// The method.
    pub function: FunctionId,
    /// Why it could not be compiled.
    pub failed: Option<String>,
}

/// Calls of instrumented methods since the record before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedCalls {
    /// When they were read.
    pub time: Nanos,
    /// How many ticks are a second.
    pub ticks_per_second: u64,
    /// Those that were called.
    pub methods: Vec<TracedMethod>,
}

/// Calls of one method, of all threads together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedMethod {
    /// As in [`InstrumentedMethod::slot`].
    pub slot: u32,
    /// Calls that have begun.
    pub calls: u64,
    /// Timed calls that have ended.
    pub timed: u64,
    /// Those of them that ended by an exception.
    pub failed: u64,
    /// Ticks that they took together.
    pub ticks: u64,
    /// Ticks that the longest took.
    pub longest: u64,
    /// How many of them fell into which bucket of ticks: one each below 16, then 16 for each
    /// doubling.
    pub buckets: Vec<(u16, u64)>,
}

/// A call of an instrumented method that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SingleCall {
    /// As in [`InstrumentedMethod::slot`].
    pub slot: u32,
    /// The thread on which it ended.
    pub thread: ThreadId,
    /// When it began.
    pub begun: Nanos,
    /// How long it took.
    pub taken: Nanos,
    /// Whether it ended by an exception.
    pub failed: bool,
    /// Whether it is the call of an asynchronous method, to the end of its task.
    pub asynchronous: bool,
}

/// The parameters of an instrumented method whose arguments are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodParameters {
    /// The method.
    pub function: FunctionId,
    /// All of them, without `this`.
    pub parameters: Vec<Parameter>,
    /// Why no arguments of this method are recorded.
    pub refused: Option<String>,
}

/// A parameter of an instrumented method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name; `arg1` and so on where it has none.
    pub name: String,
    /// Its type as C# writes it.
    pub type_name: String,
    /// What is recorded of its arguments.
    pub shown: ParameterShown,
}

/// What is recorded of the arguments of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParameterShown {
    /// Their values.
    ByValue,
    /// Nothing: they were never read, because of the name of the parameter.
    Redacted,
    /// Nothing but the type of the parameter.
    ByType,
}

/// A call of an instrumented method that has ended, with its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallArguments {
    /// The call.
    pub call: SingleCall,
    /// Arguments, each with the place of its parameter in [`MethodParameters::parameters`]. One
    /// that is missing has found no room.
    pub arguments: Vec<(u16, Argument)>,
}

/// An argument of a call, as it was when that began; of an object the class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Argument {
    /// A number, a character, a truth value, or one of an enumeration; a number of 64 bits without
    /// a sign as the same bits.
    Number(i64),
    /// A number with a fraction.
    Float(f64),
    /// A string.
    Text {
        /// Its beginning.
        text: String,
        /// How many UTF-16 units the whole string has.
        length: u32,
    },
    /// No object.
    Null,
    /// Another object.
    Object {
        /// Its class, if that is known.
        ty: Option<TypeId>,
        /// How many elements it has, if it is an array.
        elements: Option<u32>,
    },
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

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeDef {
    /// Its id.
    pub id: TypeId,
    /// Full name: namespace, nesting and generic arguments, as C# writes them.
    pub name: String,
}

/// What the observation cost and lost so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObserverStatus {
    /// When.
    pub time: Nanos,
    /// Bytes our library holds in the target.
    pub target_memory: u64,
    /// CPU time of our threads in the target, and an estimate of what the samples cost its own
    /// threads: signal handlers, and what the kernel does at each sample and at each switch from
    /// thread to thread.
    pub target_cpu: Nanos,
    /// How long the runtime was suspended for us.
    pub target_stopped: Nanos,
    /// CPU time of clrscope itself.
    pub own_cpu: Nanos,
    /// What was dropped since the start, by reason.
    pub dropped: Vec<(String, u64)>,
    /// What was counted since the start, by name.
    pub counters: Vec<(String, u64)>,
}

/// How much of a resource of the target the agent held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Its name, plural: `file descriptors`.
    pub name: String,
    /// Its unit: `bytes`, or empty for things that are counted.
    pub unit: String,
    /// The most that was held at a time.
    pub highest: u64,
    /// The most that the agent allows itself.
    pub budget: u64,
    /// How often more was refused.
    pub refused: u64,
    /// What is left after the recording; `None` where that is not known, such as while it runs.
    pub left: Option<u64>,
}

/// How much of the processors the process had and lacked since the record before, or since the
/// recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorUse {
    /// When it was counted.
    pub time: Nanos,
    /// How long that is, nanoseconds.
    pub elapsed: u64,
    /// Processors that the process may use.
    pub processors: u32,
    /// Time of its threads on a processor, nanoseconds.
    pub ran: u64,
    /// Time in which its threads were ready to run and had no processor, nanoseconds.
    pub waited: u64,
    /// Time in which these processors were busy with whatever runs on the machine, the sum over
    /// all, nanoseconds.
    pub busy: u64,
    /// The smallest CPU quota of its control groups: CPU time in each period, and the period,
    /// nanoseconds.
    pub quota: Option<(u64, u64)>,
    /// Periods of the quota in which there was something to run.
    pub periods: u64,
    /// Those in which the quota was used up.
    pub throttled_periods: u64,
    /// Time in which processors were kept from running the process because of that, nanoseconds.
    pub throttled: u64,
}

/// How often threads were sampled, measured: samples of threads, and the CPU time of these threads
/// in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingRate {
    /// Id of the profiler.
    pub profiler: String,
    /// Samples that were asked for per second of a thread's CPU time.
    pub asked_hz: u32,
    /// Samples of the threads that were measured.
    pub samples: u64,
    /// CPU time that these threads used meanwhile, by the kernel's own account.
    pub cpu: Nanos,
    /// Ticks of the kernel per second, where no timer of the engine can fire more often.
    pub tick_hz: Option<u32>,
    /// What keeps the rate below the one that was asked for, in words for a reader, where that is
    /// known.
    pub limit: Option<String>,
    /// Threads that have no timer and therefore no samples.
    pub threads_without_timer: u64,
}

impl SamplingRate {
    /// Samples that must be expected before a difference means anything.
    const ENOUGH: f64 = 50.0;
    /// The smallest difference that is worth a word, as a share of what was asked for.
    const NOTICEABLE: f64 = 0.05;
    /// Standard deviations below which a difference does not count. Where ticks hit threads
    /// randomly, the standard deviation of the number of samples is its square root.
    const SPREAD: f64 = 3.0;

    /// Samples per second of CPU time that were achieved; `None` where too little was measured.
    pub fn achieved_hz(&self) -> Option<f64> {
        let seconds = self.cpu as f64 / 1e9;
        (self.expected() >= Self::ENOUGH).then(|| self.samples as f64 / seconds)
    }

    /// Whether that differs noticeably from the rate that was asked for: by more than 5 %, and by
    /// more than chance explains.
    pub fn differs(&self) -> bool {
        let expected = self.expected();
        let distance = (self.samples as f64 - expected).abs();
        expected >= Self::ENOUGH
            && distance > (Self::NOTICEABLE * expected).max(Self::SPREAD * expected.sqrt())
    }

    fn expected(&self) -> f64 {
        self.cpu as f64 / 1e9 * f64::from(self.asked_hz)
    }
}

impl fmt::Display for SamplingRate {
    /// For the header of a report; empty where all is as it was asked for.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let achieved = self.achieved_hz().filter(|_| self.differs());
        if let Some(achieved) = achieved {
            write!(out, "achieved {achieved:.0} Hz instead of {} Hz", self.asked_hz)?;
            if let Some(limit) = &self.limit {
                write!(out, ": {limit}")?;
            }
        }
        if self.threads_without_timer > 0 {
            let between = if achieved.is_some() { "; " } else { "" };
            let (count, s) = (
                self.threads_without_timer,
                if self.threads_without_timer == 1 { "" } else { "s" },
            );
            write!(
                out,
                "{between}no samples of {count} thread{s} without a timer (see what was dropped)"
            )?;
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(asked_hz: u32, samples: u64, seconds: u64) -> SamplingRate {
        SamplingRate { asked_hz, samples, cpu: seconds * 1_000_000_000, ..SamplingRate::default() }
    }

    #[test]
    fn a_rate_differs_by_more_than_chance_and_five_percent() {
        // The ring of processors has a period that is longer by one part in 61.
        for (samples, differs) in
            [(984, false), (1049, false), (920, false), (900, true), (1100, true), (0, true)]
        {
            assert_eq!(rate(100, samples, 10).differs(), differs, "{samples}");
        }
        assert_eq!(rate(100, 0, 0).achieved_hz(), None);
        assert!(!rate(100, 5, 0).differs(), "too little was measured");
        assert_eq!(rate(999, 2500, 10).achieved_hz(), Some(250.0));
    }

    #[test]
    fn a_rate_is_said_with_its_cause() {
        let limit = Some("the kernel ticks at 250 Hz".to_owned());
        let slow = SamplingRate { limit, ..rate(999, 2500, 10) };
        assert_eq!(
            slow.to_string(),
            "achieved 250 Hz instead of 999 Hz: the kernel ticks at 250 Hz"
        );
        assert_eq!(SamplingRate { samples: 9990, ..slow.clone() }.to_string(), "");
        let one = SamplingRate { threads_without_timer: 1, ..rate(100, 1000, 10) };
        assert_eq!(
            one.to_string(),
            "no samples of 1 thread without a timer (see what was dropped)"
        );
        let both = SamplingRate { threads_without_timer: 3, limit: None, ..slow };
        assert!(
            both.to_string().ends_with(
                "999 Hz; no samples of 3 threads without a timer (see what was dropped)"
            )
        );
    }
}
