//! Which events a profiler gets, and which abilities it needs.

use core::fmt;
use core::ops::{BitAnd, BitOr, BitOrAssign};

/// The runtime's event mask: the flags of `COR_PRF_MONITOR` in the lower half, those of
/// `COR_PRF_HIGH_MONITOR` in the upper.
///
/// Some flags can be set only while the profiler is initialized at launch
/// ([`EventMask::IMMUTABLE`]), some not at all by a profiler that attaches
/// ([`EventMask::AFTER_ATTACH`]) or that is notification-only ([`EventMask::NOTIFICATION_ONLY`]);
/// the runtime then answers with an error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EventMask(u64);

impl EventMask {
    /// From the runtime's two words.
    pub const fn from_words(low: u32, high: u32) -> EventMask {
        EventMask(((high as u64) << 32) | low as u64)
    }

    /// The `COR_PRF_MONITOR` flags.
    pub const fn low(self) -> u32 {
        self.0 as u32
    }

    /// The `COR_PRF_HIGH_MONITOR` flags. If any is set the runtime must have ICorProfilerInfo5.
    pub const fn high(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether no flag is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every flag of `other` is set.
    pub const fn contains(self, other: EventMask) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of both; the `const` form of `|`.
    pub const fn union(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }

    /// The flags without those of `other`.
    pub const fn without(self, other: EventMask) -> EventMask {
        EventMask(self.0 & !other.0)
    }
}

impl BitOr for EventMask {
    type Output = EventMask;

    fn bitor(self, other: EventMask) -> EventMask {
        self.union(other)
    }
}

impl BitOrAssign for EventMask {
    fn bitor_assign(&mut self, other: EventMask) {
        *self = *self | other;
    }
}

impl BitAnd for EventMask {
    type Output = EventMask;

    fn bitand(self, other: EventMask) -> EventMask {
        EventMask(self.0 & other.0)
    }
}

impl FromIterator<EventMask> for EventMask {
    fn from_iter<I: IntoIterator<Item = EventMask>>(masks: I) -> EventMask {
        masks.into_iter().fold(EventMask::NONE, EventMask::union)
    }
}

/// States each flag once: constant, header name, meaning.
macro_rules! flags {
    ($($name:ident = $low:literal, $high:literal, $header:literal, $doc:literal;)*) => {
        impl EventMask {
            $(
                #[doc = concat!($doc, " (`", $header, "`)")]
                #[doc(alias = $header)]
                pub const $name: EventMask = EventMask::from_words($low, $high);
            )*
        }

        /// The single flags with their names.
        const FLAGS: &[(EventMask, &str)] = &[$((EventMask::$name, stringify!($name)),)*];
    };
}

flags! {
    FUNCTION_UNLOADS = 0x0000_0001, 0, "COR_PRF_MONITOR_FUNCTION_UNLOADS", "Functions that are \
        unloaded.";
    CLASS_LOADS = 0x0000_0002, 0, "COR_PRF_MONITOR_CLASS_LOADS", "Classes loaded and unloaded.";
    MODULE_LOADS = 0x0000_0004, 0, "COR_PRF_MONITOR_MODULE_LOADS", "Modules loaded, unloaded and \
        attached to their assembly.";
    ASSEMBLY_LOADS = 0x0000_0008, 0, "COR_PRF_MONITOR_ASSEMBLY_LOADS", "Assemblies loaded and \
        unloaded.";
    APPDOMAIN_LOADS = 0x0000_0010, 0, "COR_PRF_MONITOR_APPDOMAIN_LOADS", "Application domains \
        created and ended.";
    JIT_COMPILATION = 0x0000_0020, 0, "COR_PRF_MONITOR_JIT_COMPILATION", "Methods compiled and \
        inlined.";
    EXCEPTIONS = 0x0000_0040, 0, "COR_PRF_MONITOR_EXCEPTIONS", "Exceptions: thrown, searched, \
        unwound, caught.";
    GC = 0x0000_0080, 0, "COR_PRF_MONITOR_GC", "Everything of garbage collections, with all \
        references and roots; turns concurrent collections off.";
    OBJECT_ALLOCATED = 0x0000_0100, 0, "COR_PRF_MONITOR_OBJECT_ALLOCATED", "Every allocation; \
        needs ENABLE_OBJECT_ALLOCATED.";
    THREADS = 0x0000_0200, 0, "COR_PRF_MONITOR_THREADS", "Managed threads created, ended, named.";
    REMOTING = 0x0000_0400, 0, "COR_PRF_MONITOR_REMOTING", "Remoting; .NET Framework only.";
    CODE_TRANSITIONS = 0x0000_0800, 0, "COR_PRF_MONITOR_CODE_TRANSITIONS", "Calls between managed \
        and native code.";
    ENTER_LEAVE = 0x0000_1000, 0, "COR_PRF_MONITOR_ENTERLEAVE", "The enter, leave and tailcall \
        hooks.";
    CCW = 0x0000_2000, 0, "COR_PRF_MONITOR_CCW", "COM callable wrappers.";
    REMOTING_COOKIE = 0x0000_4400, 0, "COR_PRF_MONITOR_REMOTING_COOKIE", "Remoting with cookies; \
        .NET Framework only.";
    REMOTING_ASYNC = 0x0000_8400, 0, "COR_PRF_MONITOR_REMOTING_ASYNC", "Asynchronous remoting; \
        .NET Framework only.";
    SUSPENDS = 0x0001_0000, 0, "COR_PRF_MONITOR_SUSPENDS", "The runtime suspended and resumed.";
    CACHE_SEARCHES = 0x0002_0000, 0, "COR_PRF_MONITOR_CACHE_SEARCHES", "Searches for precompiled \
        code, which the profiler may refuse.";
    ENABLE_REJIT = 0x0004_0000, 0, "COR_PRF_ENABLE_REJIT", "ReJIT.";
    ENABLE_INPROC_DEBUGGING = 0x0008_0000, 0, "COR_PRF_ENABLE_INPROC_DEBUGGING", "Does nothing any \
        more.";
    ENABLE_JIT_MAPS = 0x0010_0000, 0, "COR_PRF_ENABLE_JIT_MAPS", "Does nothing any more: the maps \
        are always there.";
    DISABLE_INLINING = 0x0020_0000, 0, "COR_PRF_DISABLE_INLINING", "No method is inlined.";
    DISABLE_OPTIMIZATIONS = 0x0040_0000, 0, "COR_PRF_DISABLE_OPTIMIZATIONS", "Code is compiled \
        without optimizations.";
    ENABLE_OBJECT_ALLOCATED = 0x0080_0000, 0, "COR_PRF_ENABLE_OBJECT_ALLOCATED", "OBJECT_ALLOCATED \
        may be set, now or later; makes every allocation slow.";
    CLR_EXCEPTIONS = 0x0100_0000, 0, "COR_PRF_MONITOR_CLR_EXCEPTIONS", "Exceptions caught by the \
        runtime itself.";
    ENABLE_FUNCTION_ARGS = 0x0200_0000, 0, "COR_PRF_ENABLE_FUNCTION_ARGS", "Enter hooks can see \
        arguments.";
    ENABLE_FUNCTION_RETVAL = 0x0400_0000, 0, "COR_PRF_ENABLE_FUNCTION_RETVAL", "Leave hooks can \
        see return values.";
    ENABLE_FRAME_INFO = 0x0800_0000, 0, "COR_PRF_ENABLE_FRAME_INFO", "Hooks can see exact generic \
        arguments.";
    ENABLE_STACK_SNAPSHOT = 0x1000_0000, 0, "COR_PRF_ENABLE_STACK_SNAPSHOT", "Stacks can be \
        walked.";
    USE_PROFILE_IMAGES = 0x2000_0000, 0, "COR_PRF_USE_PROFILE_IMAGES", "Native images are used \
        only if they were made for profiling.";
    DISABLE_TRANSPARENCY_CHECKS = 0x4000_0000, 0, "COR_PRF_DISABLE_TRANSPARENCY_CHECKS_UNDER_FULL_TRUST", "No \
        transparency checks; .NET Framework only.";
    DISABLE_ALL_NGEN_IMAGES = 0x8000_0000, 0, "COR_PRF_DISABLE_ALL_NGEN_IMAGES", "No precompiled \
        code is used.";
    ADD_ASSEMBLY_REFERENCES = 0, 0x0000_0001, "COR_PRF_HIGH_ADD_ASSEMBLY_REFERENCES", "Asks for \
        references to be added; .NET Framework only.";
    IN_MEMORY_SYMBOLS_UPDATED = 0, 0x0000_0002, "COR_PRF_HIGH_IN_MEMORY_SYMBOLS_UPDATED", "Symbols \
        of in-memory modules.";
    DYNAMIC_FUNCTION_UNLOADS = 0, 0x0000_0004, "COR_PRF_HIGH_MONITOR_DYNAMIC_FUNCTION_UNLOADS", "Dynamic \
        methods that are unloaded.";
    DISABLE_TIERED_COMPILATION = 0, 0x0000_0008, "COR_PRF_HIGH_DISABLE_TIERED_COMPILATION", "Every \
        method is compiled once, with optimizations.";
    BASIC_GC = 0, 0x0000_0010, "COR_PRF_HIGH_BASIC_GC", "Only start and end of garbage \
        collections; leaves concurrent collections on.";
    GC_MOVED_OBJECTS = 0, 0x0000_0020, "COR_PRF_HIGH_MONITOR_GC_MOVED_OBJECTS", "Also which \
        objects compacting collections move.";
    LARGE_OBJECT_ALLOCATED = 0, 0x0000_0040, "COR_PRF_HIGH_MONITOR_LARGEOBJECT_ALLOCATED", "Allocations \
        of large objects.";
    EVENT_PIPE = 0, 0x0000_0080, "COR_PRF_HIGH_MONITOR_EVENT_PIPE", "Events of our own EventPipe \
        sessions.";
    PINNED_OBJECT_ALLOCATED = 0, 0x0000_0100, "COR_PRF_HIGH_MONITOR_PINNEDOBJECT_ALLOCATED", "Allocations \
        on the heap of pinned objects.";
}

impl EventMask {
    /// No event at all.
    pub const NONE: EventMask = EventMask(0);

    /// Every event of the lower half, remoting too (`COR_PRF_MONITOR_ALL`). Nobody wants all of
    /// them.
    pub const EVERYTHING: EventMask = EventMask::from_words(0x0107_FFFF, 0);

    /// What keeps precompiled code from being used unless it was made for profiling
    /// (`COR_PRF_REQUIRE_PROFILE_IMAGE`).
    pub const REQUIRE_PROFILE_IMAGE: EventMask = EventMask::USE_PROFILE_IMAGES
        .union(EventMask::CODE_TRANSITIONS)
        .union(EventMask::ENTER_LEAVE);

    /// What a profiler that attaches may set: the last answer of the header,
    /// `COR_PRF_ALLOWABLE_AFTER_ATTACH` and its upper half. Older runtimes may allow less.
    pub const AFTER_ATTACH: EventMask = EventMask::THREADS
        .union(EventMask::MODULE_LOADS)
        .union(EventMask::ASSEMBLY_LOADS)
        .union(EventMask::APPDOMAIN_LOADS)
        .union(EventMask::ENABLE_STACK_SNAPSHOT)
        .union(EventMask::GC)
        .union(EventMask::SUSPENDS)
        .union(EventMask::CLASS_LOADS)
        .union(EventMask::EXCEPTIONS)
        .union(EventMask::JIT_COMPILATION)
        .union(EventMask::ENABLE_REJIT)
        .union(EventMask::IN_MEMORY_SYMBOLS_UPDATED)
        .union(EventMask::DYNAMIC_FUNCTION_UNLOADS)
        .union(EventMask::BASIC_GC)
        .union(EventMask::GC_MOVED_OBJECTS)
        .union(EventMask::LARGE_OBJECT_ALLOCATED)
        .union(EventMask::EVENT_PIPE);

    /// What a notification-only profiler may set (`COR_PRF_ALLOWABLE_NOTIFICATION_PROFILER` and its
    /// upper half).
    pub const NOTIFICATION_ONLY: EventMask = EventMask::FUNCTION_UNLOADS
        .union(EventMask::CLASS_LOADS)
        .union(EventMask::MODULE_LOADS)
        .union(EventMask::ASSEMBLY_LOADS)
        .union(EventMask::APPDOMAIN_LOADS)
        .union(EventMask::JIT_COMPILATION)
        .union(EventMask::EXCEPTIONS)
        .union(EventMask::OBJECT_ALLOCATED)
        .union(EventMask::THREADS)
        .union(EventMask::CODE_TRANSITIONS)
        .union(EventMask::CCW)
        .union(EventMask::SUSPENDS)
        .union(EventMask::CACHE_SEARCHES)
        .union(EventMask::DISABLE_INLINING)
        .union(EventMask::DISABLE_OPTIMIZATIONS)
        .union(EventMask::ENABLE_OBJECT_ALLOCATED)
        .union(EventMask::CLR_EXCEPTIONS)
        .union(EventMask::ENABLE_STACK_SNAPSHOT)
        .union(EventMask::USE_PROFILE_IMAGES)
        .union(EventMask::DISABLE_ALL_NGEN_IMAGES)
        .union(EventMask::IN_MEMORY_SYMBOLS_UPDATED)
        .union(EventMask::DYNAMIC_FUNCTION_UNLOADS)
        .union(EventMask::DISABLE_TIERED_COMPILATION)
        .union(EventMask::BASIC_GC)
        .union(EventMask::GC_MOVED_OBJECTS)
        .union(EventMask::LARGE_OBJECT_ALLOCATED)
        .union(EventMask::EVENT_PIPE);

    /// What can be set only while the profiler is initialized (`COR_PRF_MONITOR_IMMUTABLE` and its
    /// upper half).
    pub const IMMUTABLE: EventMask = EventMask::CODE_TRANSITIONS
        .union(EventMask::REMOTING)
        .union(EventMask::REMOTING_COOKIE)
        .union(EventMask::REMOTING_ASYNC)
        .union(EventMask::ENABLE_INPROC_DEBUGGING)
        .union(EventMask::ENABLE_JIT_MAPS)
        .union(EventMask::DISABLE_OPTIMIZATIONS)
        .union(EventMask::DISABLE_INLINING)
        .union(EventMask::ENABLE_OBJECT_ALLOCATED)
        .union(EventMask::ENABLE_FUNCTION_ARGS)
        .union(EventMask::ENABLE_FUNCTION_RETVAL)
        .union(EventMask::ENABLE_FRAME_INFO)
        .union(EventMask::USE_PROFILE_IMAGES)
        .union(EventMask::DISABLE_TRANSPARENCY_CHECKS)
        .union(EventMask::DISABLE_ALL_NGEN_IMAGES)
        .union(EventMask::DISABLE_TIERED_COMPILATION);
}

impl fmt::Debug for EventMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        let mut separator = "";
        for (flag, name) in FLAGS {
            if self.contains(*flag) {
                write!(f, "{separator}{name}")?;
                separator = " | ";
                rest = rest.without(*flag);
            }
        }
        if !rest.is_empty() || separator.is_empty() {
            write!(f, "{separator}{:#x}", rest.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_have_the_values_of_the_header() {
        // The compound values of corprof.idl, added up by hand.
        assert_eq!(
            (EventMask::AFTER_ATTACH.low(), EventMask::AFTER_ATTACH.high()),
            (0x1005_02FE, 0xF6)
        );
        assert_eq!(
            (EventMask::REQUIRE_PROFILE_IMAGE.low(), EventMask::REQUIRE_PROFILE_IMAGE.high()),
            (0x2000_1800, 0)
        );
        assert_eq!((EventMask::IMMUTABLE.low(), EventMask::IMMUTABLE.high()), (0xEEF8_CC00, 0x8));
        assert_eq!(
            (EventMask::NOTIFICATION_ONLY.low(), EventMask::NOTIFICATION_ONLY.high()),
            (0xB1E3_2B7F, 0xFE)
        );
    }

    #[test]
    fn set_operations() {
        let mask = EventMask::EXCEPTIONS | EventMask::BASIC_GC;
        assert_eq!((mask.low(), mask.high()), (0x40, 0x10));
        assert!(mask.contains(EventMask::BASIC_GC) && !mask.contains(EventMask::GC));
        assert_eq!(mask.without(EventMask::EXCEPTIONS), EventMask::BASIC_GC);
        assert_eq!(
            [EventMask::GC, EventMask::THREADS].into_iter().collect::<EventMask>().low(),
            0x280
        );
        assert_eq!(format!("{mask:?}"), "EXCEPTIONS | BASIC_GC");
        assert_eq!(
            format!("{:?}", EventMask::from_words(0x1, 0x8000_0000)),
            "FUNCTION_UNLOADS | 0x8000000000000000"
        );
        assert_eq!(format!("{:?}", EventMask::NONE), "0x0");
    }
}
