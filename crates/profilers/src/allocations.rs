//! `allocations`: what is allocated, by type and call stack.

use crate::{
    Collector, EventPipeSpec, ParamKind, ParamSpec, ProfilerSpec, Settings, Tables, ValueSpec,
};
use rows::Row;

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "allocations",
    summary: "Allocated bytes and objects by type and call stack",
    overhead: "0.7 to 3.1 % of the speed of a program that does nothing but allocate, once the \
        limit of samples applies.",
    description: "Estimates what is allocated from samples, about one for each 100 KB, each with \
        type, size, heap and call stack. On .NET 10 and newer the runtime samples randomly, each \
        byte with the same probability, so estimates are unbiased. Older runtimes report the \
        object that fills up each 100 KB of a heap. That is good for large or frequent objects, \
        and biased where a program allocates in a regular pattern. Shows what was allocated, not \
        what stays in memory. While a program allocates very much, only windows are recorded, and \
        the rest is estimated from them, so that the program is not slowed down.",
    values: &[
        ValueSpec { kind: "samples", unit: "count" },
        ValueSpec { kind: "allocations", unit: "bytes" },
    ],
    params: &[ParamSpec {
        name: "samples",
        help: "Samples per second, at most, on average; above that rate, only windows are recorded",
        default: "5000",
        kind: ParamKind::Number(1_000, 1_000_000),
    }],
    // THREADS, for their names; DYNAMIC_FUNCTION_UNLOADS, for stacks through code that is freed.
    events: (0x200, 0x4),
    event_pipe: &[
        // AllocationSampled.
        EventPipeSpec {
            provider: "Microsoft-Windows-DotNETRuntime",
            keywords: 0x800_0000_0000,
            level: 4,
            arguments: "",
            runtimes: (10, u16::MAX),
            stacks: true,
        },
        // GCAllocationTick, which the verbose level has.
        EventPipeSpec {
            provider: "Microsoft-Windows-DotNETRuntime",
            keywords: 0x1,
            level: 5,
            arguments: "",
            runtimes: (6, 9),
            stacks: true,
        },
    ],
    // Older runtimes can hang for good when a session ends while threads write events to it,
    // however it ends.
    since: 6,
    too_old: "a runtime that old can hang permanently when tracing of events that its threads \
        write all the time ends; leave out allocations, or start the program with clrscope launch \
        -p allocations:exact",
    attach: true,
    engine: |facts| {
        let sampled = "EventPipe, AllocationSampled: randomly sampled, unbiased";
        let ticks = "EventPipe, GCAllocationTick: one for each 100 KB, biased";
        if facts.major >= 10 { sampled } else { ticks }.to_owned()
    },
    ..ProfilerSpec::PLAIN
};

/// Its tables.
pub(crate) const TABLES: Tables = &[AllocationSample::table, AllocationWindow::table];

/// Nothing runs inside but what answers about addresses.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}

/// How the runtime picks the allocations that it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationSampling {
    /// Every byte has the same chance, independent of all others: `AllocationSampled`, .NET 10 and
    /// newer.
    Random,
    /// The object that fills up each 100 KB of a heap: `GCAllocationTick`. Regular, so a pattern of
    /// the program can favour some types.
    Tick,
}

impl rows::Words for AllocationSampling {
    const WORDS: &'static [(Self, &'static str)] =
        &[(AllocationSampling::Random, "random"), (AllocationSampling::Tick, "tick")];
}

/// The heap that an object was allocated on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocationHeap {
    /// Small objects, below 85,000 bytes unless configured otherwise.
    Small,
    /// Large objects.
    Large,
    /// Objects that were asked to be pinned for life.
    Pinned,
}

impl rows::Words for AllocationHeap {
    const WORDS: &'static [(Self, &'static str)] = &[
        (AllocationHeap::Small, "small"),
        (AllocationHeap::Large, "large"),
        (AllocationHeap::Pinned, "pinned"),
    ];
}

rows::rows! {
    /// Sampled allocations.
    #[derive(Copy, Eq)]
    pub struct AllocationSample in "allocations", "samples" {
        /// When.
        time: rows::Time,
        /// Thread that allocated.
        thread: rows::Thread,
        /// Where.
        stack: rows::Stack,
        /// Type of the object.
        ty: rows::Type,
        /// Heap that it is on.
        heap: rows::Word<AllocationHeap>,
        /// Size of the object; 0 where the runtime does not report it (.NET Core 3.1).
        size: rows::Bytes,
        /// Allocated bytes that the sample stands for. Divided by `size` it is a number of objects.
        bytes: rows::Bytes,
        /// Whether the stack is cut: it was deeper than the runtime reports.
        truncated: rows::Flag,
        /// How the runtime picked it.
        sampling: rows::Word<AllocationSampling>,
    }

    /// Times of which only a window was recorded, because there were too many allocations. Samples
    /// in the window stand for all of the time: their `bytes` are multiplied already.
    #[derive(Copy, Eq)]
    pub struct AllocationWindow in "allocations", "windows" {
        /// When it began.
        start: rows::Time,
        /// When it ended.
        end: rows::Time,
        /// When the window begins.
        followed_from: rows::Time,
        /// When the window ends. The same moment if the recording ended before the window began.
        followed_to: rows::Time,
    }
}

impl AllocationSample {
    /// Allocated objects that it stands for, where the size of the object is known.
    pub fn objects(&self) -> Option<f64> {
        (self.size > 0).then(|| self.bytes as f64 / self.size as f64)
    }
}
