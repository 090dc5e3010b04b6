//! `allocations`: what is allocated, by type and call stack.

use crate::{Collector, EventPipeSpec, ParamKind, ParamSpec, ProfilerSpec, Settings, ValueSpec};

/// What it is.
pub const SPEC: ProfilerSpec = ProfilerSpec {
    id: "allocations",
    summary: "Allocated bytes and objects by type and call stack",
    description: "Estimates what is allocated from samples, about one for each 100 KB, each with \
        type, size, heap and call stack. On .NET 10 and newer the runtime samples randomly, each \
        byte with the same probability, so estimates are unbiased. Older runtimes report the \
        object that fills up each 100 KB of a heap. That is good for large or frequent objects, \
        and biased where a program allocates in a regular pattern. Shows what was allocated, not \
        what stays in memory. While a program allocates very much, only windows are recorded, and \
        the rest is estimated from them, so that the program is not slowed down.",
    values: &[ValueSpec { kind: "samples", unit: "count" }, ValueSpec { kind: "allocations", unit: "bytes" }],
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
        },
        // GCAllocationTick, which the verbose level has.
        EventPipeSpec {
            provider: "Microsoft-Windows-DotNETRuntime",
            keywords: 0x1,
            level: 5,
            arguments: "",
            runtimes: (6, 9),
        },
    ],
    // Older runtimes can hang for good when a session ends while threads write events to it,
    // however it ends.
    since: 6,
    too_old: "a runtime that old can hang permanently when tracing of events that its threads \
        write all the time ends; leave out allocations, or start the program with clrscope launch \
        -p allocations:exact",
    attach: true,
};

/// Nothing runs inside but what answers about addresses.
pub(crate) fn create(_settings: &Settings) -> Option<Box<dyn Collector>> {
    None
}
