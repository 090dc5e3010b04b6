//! The runtime's garbage collection events.
//!
//! Runtimes write them without a description of their fields that is right in every version, so the
//! fields are known here. Source: `src/coreclr/vm/ClrEtwAll.man` of dotnet/runtime.

use crate::Event;
use crate::cursor::Cursor;

/// The provider of all events here.
pub const PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";

/// A garbage collection event of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeEvent {
    /// `GCStart`: a collection begins.
    GcStart {
        /// Number since the process started.
        number: u32,
        /// Generation, 0 to 2.
        generation: u32,
        /// Why.
        reason: GcReason,
        /// How.
        kind: GcKind,
    },
    /// `GCEnd`: it ends.
    GcEnd {
        /// Number since the process started.
        number: u32,
        /// Generation, 0 to 2.
        generation: u32,
    },
    /// `GCHeapStats`: what it left. Follows the end, on the same thread.
    GcHeapStats(HeapStats),
    /// `GCSuspendEEBegin`: the runtime begins to stop all threads.
    SuspendBegin {
        /// Why.
        reason: SuspendReason,
        /// Number of the last collection that began, where it is for one.
        last_gc: u32,
    },
    /// `GCSuspendEEEnd`: all threads stand.
    SuspendEnd,
    /// `GCRestartEEBegin`: the runtime begins to resume the threads.
    RestartBegin,
    /// `GCRestartEEEnd`: all may run.
    RestartEnd,
    /// `GCTriggered`: somebody wants a collection.
    GcTriggered {
        /// Why.
        reason: GcReason,
    },
    /// `GCGlobalHeapHistory`: how the runtime decided.
    GcGlobalHeapHistory(GlobalHeapHistory),
}

/// Fields of `GCHeapStats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// Bytes in the generations 0, 1, 2, the large and the pinned object heap.
    pub size: [u64; 5],
    /// Bytes promoted from the generations 0, 1, 2, the large and the pinned object heap.
    pub promoted: [u64; 5],
    /// Bytes of objects that wait for their finalizers.
    pub finalization_promoted_size: u64,
    /// Objects that wait for their finalizers.
    pub finalization_promoted_count: u64,
    /// Pinned objects met.
    pub pinned_objects: u32,
    /// Synchronisation blocks in use.
    pub sink_blocks: u32,
    /// GC handles in use.
    pub gc_handles: u32,
}

/// Fields of `GCGlobalHeapHistory` that all versions have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalHeapHistory {
    /// Bytes that may be allocated before the next collection of generation 0.
    pub final_youngest_desired: u64,
    /// Heaps: 1 for workstation collection, else one for each processor used.
    pub heaps: i32,
    /// Generation that was collected in the end.
    pub condemned_generation: u32,
    /// Why, as in `GCStart`.
    pub reason: GcReason,
    /// Bits: 1 concurrent, 2 compaction, 4 promotion, 8 demotion, 16 card bundles.
    pub global_mechanisms: u32,
    /// Share of the machine's memory in use, in percent; 0 where the version does not have it.
    pub memory_pressure: u32,
}

macro_rules! value_map {
    ($(#[$doc:meta])* $name:ident { $($value:literal $variant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
            /// A value that is not in our table.
            Other(u32),
        }

        impl $name {
            /// From the number in an event.
            pub fn from_number(number: u32) -> Self {
                match number {
                    $($value => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// The runtime's own name; a number where we do not know it.
            pub fn name(self) -> String {
                match self {
                    $(Self::$variant => $text.to_owned(),)*
                    Self::Other(number) => number.to_string(),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from_number(0)
            }
        }
    };
}

value_map! {
    /// Why a collection happens: `GCReasonMap`, and from 10 on the values of the collector's own
    /// list.
    GcReason {
        0 AllocSmall "AllocSmall",
        1 Induced "Induced",
        2 LowMemory "LowMemory",
        3 Empty "Empty",
        4 AllocLarge "AllocLarge",
        5 OutOfSpaceSmall "OutOfSpaceSOH",
        6 OutOfSpaceLarge "OutOfSpaceLOH",
        7 InducedNotForced "InducedNotForced",
        8 Stress "Stress",
        9 InducedLowMemory "InducedLowMemory",
        10 InducedCompacting "InducedCompacting",
        11 LowMemoryHost "LowMemoryHost",
        12 ProvisionalFull "PMFullGC",
        13 LowMemoryHostBlocking "LowMemoryHostBlocking",
        14 BackgroundTuningSmall "BGCTuningSOH",
        15 BackgroundTuningLarge "BGCTuningLOH",
        16 BackgroundStepping "BGCStepping",
        17 InducedAggressive "InducedAggressive",
    }
}

impl GcReason {
    /// Whether the program asked for it, by `GC.Collect` in one of its modes.
    pub fn is_induced(self) -> bool {
        matches!(
            self,
            GcReason::Induced
                | GcReason::InducedNotForced
                | GcReason::InducedCompacting
                | GcReason::InducedAggressive
        )
    }
}

value_map! {
    /// How a collection works: `GCTypeMap`.
    GcKind {
        0 NonConcurrent "NonConcurrentGC",
        1 Background "BackgroundGC",
        2 Foreground "ForegroundGC",
    }
}

value_map! {
    /// Why all threads are stopped: `GCSuspendEEReasonMap`.
    SuspendReason {
        0 Unspecified "SuspendOther",
        1 Gc "SuspendForGC",
        2 AppDomainShutdown "SuspendForAppDomainShutdown",
        3 CodePitching "SuspendForCodePitching",
        4 Shutdown "SuspendForShutdown",
        5 Debugger "SuspendForDebugger",
        6 GcPrep "SuspendForGCPrep",
        7 DebuggerSweep "SuspendForDebuggerSweep",
        8 Profiler "SuspendForProfiler",
    }
}

/// What a garbage collection event of the runtime says; `None` for any other event, and for one
/// that is cut short.
pub fn parse(event: &Event) -> Option<RuntimeEvent> {
    if event.ty.provider != PROVIDER {
        return None;
    }
    parse_fields(event.ty.id, &event.payload)
}

/// The same from the event's number and its fields.
pub fn parse_fields(id: u32, payload: &[u8]) -> Option<RuntimeEvent> {
    let mut fields = Cursor(payload);
    Some(match id {
        1 => RuntimeEvent::GcStart {
            number: fields.u32()?,
            generation: fields.u32()?,
            reason: GcReason::from_number(fields.u32()?),
            kind: GcKind::from_number(fields.u32()?),
        },
        2 => RuntimeEvent::GcEnd { number: fields.u32()?, generation: fields.u32()? },
        3 => RuntimeEvent::RestartEnd,
        4 => RuntimeEvent::GcHeapStats(heap_stats(fields)?),
        7 => RuntimeEvent::RestartBegin,
        8 => RuntimeEvent::SuspendEnd,
        9 => RuntimeEvent::SuspendBegin {
            reason: SuspendReason::from_number(fields.u32()?),
            last_gc: fields.u32()?,
        },
        35 => RuntimeEvent::GcTriggered { reason: GcReason::from_number(fields.u32()?) },
        205 => RuntimeEvent::GcGlobalHeapHistory(global_heap_history(fields)?),
        _ => return None,
    })
}

/// Version 1 has four heaps; version 2 adds the pinned object heap at the end.
fn heap_stats(mut fields: Cursor<'_>) -> Option<HeapStats> {
    let mut stats = HeapStats::default();
    for (size, promoted) in stats.size.iter_mut().zip(&mut stats.promoted).take(4) {
        *size = fields.u64()?;
        *promoted = fields.u64()?;
    }
    stats.finalization_promoted_size = fields.u64()?;
    stats.finalization_promoted_count = fields.u64()?;
    stats.pinned_objects = fields.u32()?;
    stats.sink_blocks = fields.u32()?;
    stats.gc_handles = fields.u32()?;
    let _runtime_instance = fields.u16()?;
    if let (Some(size), Some(promoted)) = (fields.u64(), fields.u64()) {
        let ([.., pinned_size], [.., pinned_promoted]) = (&mut stats.size, &mut stats.promoted);
        *pinned_size = size;
        *pinned_promoted = promoted;
    }
    Some(stats)
}

/// Version 1 ends with the mechanisms; version 2 adds pause mode and memory pressure.
fn global_heap_history(mut fields: Cursor<'_>) -> Option<GlobalHeapHistory> {
    let mut history =
        GlobalHeapHistory { final_youngest_desired: fields.u64()?, ..GlobalHeapHistory::default() };
    // A 32-bit number in all versions, written as unsigned.
    history.heaps = i32::try_from(fields.u32()?).ok()?;
    history.condemned_generation = fields.u32()?;
    let _gen0_reductions = fields.u32()?;
    history.reason = GcReason::from_number(fields.u32()?);
    history.global_mechanisms = fields.u32()?;
    let _runtime_instance = fields.u16()?;
    if let (Some(_pause_mode), Some(pressure)) = (fields.u32(), fields.u32()) {
        history.memory_pressure = pressure;
    }
    Some(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn heap_stats_of_both_versions() {
        let mut payload = words(&[10, 1, 20, 2, 30, 3, 40, 4, 7, 8]);
        payload.extend([5u32, 6, 9].into_iter().flat_map(u32::to_le_bytes));
        payload.extend([0, 0]);
        let mut expected = HeapStats {
            size: [10, 20, 30, 40, 0],
            promoted: [1, 2, 3, 4, 0],
            finalization_promoted_size: 7,
            finalization_promoted_count: 8,
            pinned_objects: 5,
            sink_blocks: 6,
            gc_handles: 9,
        };
        assert_eq!(parse_fields(4, &payload), Some(RuntimeEvent::GcHeapStats(expected)));
        payload.extend(words(&[50, 5]));
        (expected.size[4], expected.promoted[4]) = (50, 5);
        assert_eq!(parse_fields(4, &payload), Some(RuntimeEvent::GcHeapStats(expected)));
        assert_eq!(parse_fields(4, &payload[..80]), None);
    }

    #[test]
    fn names_are_the_runtimes() {
        assert_eq!(GcReason::from_number(0).name(), "AllocSmall");
        assert_eq!(GcReason::from_number(99).name(), "99");
        assert_eq!(GcKind::from_number(2).name(), "ForegroundGC");
        assert_eq!(SuspendReason::from_number(6).name(), "SuspendForGCPrep");
        assert!(GcReason::Induced.is_induced() && !GcReason::AllocLarge.is_induced());
    }

    #[test]
    fn other_events_are_none() {
        assert_eq!(parse_fields(10, &[0; 100]), None);
        assert_eq!(parse_fields(1, &[0; 15]), None);
    }
}
