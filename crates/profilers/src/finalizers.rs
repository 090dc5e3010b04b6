//! `finalizers`: what is finalized, how long that takes, and what blocks the thread that does it.

use crate::{
    Collector, EventPipeSpec, ParamKind, ParamSpec, ProfilerSpec, Settings, Tables, ValueSpec, wall,
};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "finalizers",
    summary: "Finalizers: which types, how long they take, and what blocks their thread",
    overhead: "One event for each finalized object, and one for each pinned object in each \
        collection, which lengthens GC pauses of programs with very many pinned objects.",
    description: "Shows what the finalizer thread does, which runs the finalizers of all objects \
        one after another. The runtime reports each object whose finalizer it runs, with its type, \
        and after each collection how many dead objects joined the queue. From this follow the \
        rate of each type, how long its finalizers take, and how many objects wait. The stack of \
        the finalizer thread is sampled at a low rate, and shows the method in which it is blocked.",
    values: &[
        ValueSpec { kind: "finalized", unit: "count" },
        ValueSpec { kind: "finalizers", unit: "nanoseconds" },
    ],
    params: &[ParamSpec {
        name: "rate",
        help: "Samples of the finalizer thread per second",
        default: "10",
        kind: ParamKind::Number(1, 100),
    }],
    // THREADS, SUSPENDS, ENABLE_STACK_SNAPSHOT; DYNAMIC_FUNCTION_UNLOADS.
    events: (0x200 | 0x1_0000 | 0x1000_0000, 0x4),
    event_pipe: &[
        // GC: what joins the queue, and when the thread begins and ends to empty it.
        EventPipeSpec {
            provider: "Microsoft-Windows-DotNETRuntime",
            keywords: 0x1,
            level: 4,
            arguments: "",
            runtimes: EventPipeSpec::ALL,
            stacks: false,
        },
        // GCPrivate: `PrvFinalizeObject`. Unlike `FinalizeObject` of the other provider, it has the
        // name of the type, and at its level there is nothing about allocations.
        EventPipeSpec {
            provider: "Microsoft-Windows-DotNETRuntimePrivate",
            keywords: 0x1,
            level: 5,
            arguments: "",
            runtimes: EventPipeSpec::ALL,
            stacks: false,
        },
    ],
    shows_running: true,
    engine: |facts| format!("{}; EventPipe", facts.stacks),
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables =
    &[Queued::table, Finalized::table, Unfinished::table, Run::table, Seen::table];

/// The collector: ticks as those of `wall`. Which thread runs the finalizers is determined outside
/// of the target.
pub(crate) fn create(settings: &Settings) -> Option<Box<dyn Collector>> {
    let interval = 1_000_000_000 / settings.number("rate").max(1);
    Some(Box::new(wall::Wall::new(SPEC.id, interval)))
}

/// What the finalizer thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doing {
    /// It waits for objects.
    Idle,
    /// It runs a finalizer.
    Running,
    /// A finalizer waits for a lock.
    Lock,
    /// A finalizer sleeps.
    Sleep,
    /// A finalizer waits for input or output.
    Io,
    /// A finalizer waits for a task.
    Task,
    /// A finalizer waits for a signal of another thread.
    Event,
    /// A finalizer waits for something else.
    Other,
}

impl rows::Words for Doing {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Doing::Idle, "idle"),
        (Doing::Running, "running"),
        (Doing::Lock, "lock"),
        (Doing::Sleep, "sleep"),
        (Doing::Io, "io"),
        (Doing::Task, "task"),
        (Doing::Event, "event"),
        (Doing::Other, "other"),
    ];
}

impl Doing {
    /// Whether a finalizer waits.
    pub fn is_blocked(self) -> bool {
        !matches!(self, Doing::Idle | Doing::Running)
    }
}

rows::rows! {
    /// Dead objects that joined the queue in a collection.
    #[derive(Copy, Eq)]
    pub struct Queued in "finalizers", "queued" {
        /// When the collection reported it.
        time: rows::Time,
        /// How many.
        objects: rows::Count,
        /// What they and the objects that they retain promoted, in bytes.
        promoted: rows::Bytes,
    }

    /// Objects of one type whose finalizers ran to their ends within about a quarter of a second.
    #[derive(Copy, Eq)]
    pub struct Finalized in "finalizers", "finalized" {
        /// When the last of these finalizers began.
        time: rows::Time,
        /// Their type.
        ty: rows::Type,
        /// How many.
        objects: rows::Count,
        /// How long the finalizers took together.
        took: rows::Duration,
        /// The longest.
        longest: rows::Duration,
    }

    /// A finalizer that had not returned when the recording ended.
    #[derive(Copy, Eq)]
    pub struct Unfinished in "finalizers", "unfinished" {
        /// When it began.
        time: rows::Time,
        /// The type of its object.
        ty: rows::Type,
    }

    /// Times in which the finalizer thread emptied the queue.
    #[derive(Copy, Eq)]
    pub struct Run in "finalizers", "runs" {
        /// From.
        time: rows::Time,
        /// How long.
        duration: rows::Duration,
        /// How many objects were finalized.
        objects: rows::Count,
    }

    /// The finalizer thread at regular times.
    #[derive(Copy, Eq)]
    pub struct Seen in "finalizers", "seen" {
        /// When.
        time: rows::Time,
        /// For how long this stands.
        elapsed: rows::Duration,
        /// The thread.
        thread: rows::Thread,
        /// Its stack.
        stack: rows::Stack,
        /// What it did.
        doing: rows::Word<Doing>,
    }
}
