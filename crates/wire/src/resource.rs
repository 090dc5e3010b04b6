//! What the agent may hold in the target: the one table of resources and their budgets.

use serde::{Deserialize, Serialize};

/// What the agent says when it ends a recording because there is no memory.
pub const OUT_OF_MEMORY: &str = "the recording ends: the process has no memory left for the agent, or the agent uses more than its \
     budget. Raise the limit on its memory (RLIMIT_AS, memory.max of its container, vm.overcommit_memory), or record less";

/// Bytes of the stack of each thread of the agent.
pub const THREAD_STACK: u64 = 512 << 10;

macro_rules! resources {
    ($($(#[$doc:meta])* $variant:ident {
        name: $name:literal, unit: $unit:literal, budget: $budget:expr, goodbye: $goodbye:expr, what: $what:literal,
    })+) => {
        /// Something that the agent takes in the target, counts, bounds and returns.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Resource {
            $($(#[$doc])* $variant,)+
        }

        impl Resource {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name, plural, lower case.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Its unit: `bytes`, or empty for things that are counted.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit),+ }
            }

            /// The most that one agent library holds at a time. More is refused.
            pub const fn budget(self) -> u64 {
                match self { $(Self::$variant => $budget),+ }
            }

            /// How much of it the agent needs to send its last record: what it holds beyond that is
            /// left behind. `None` if the record cannot tell, because it is in use until the
            /// library is unloaded.
            pub const fn goodbye(self) -> Option<u64> {
                match self { $(Self::$variant => $goodbye),+ }
            }

            /// What is counted, in one sentence.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$variant => $what),+ }
            }
        }
    };
}

resources! {
    /// File descriptors.
    Descriptors {
        name: "file descriptors", unit: "", budget: 16, goodbye: Some(4),
        what: "The connection to clrscope, two sockets to wake the agent, `/proc/self/mem`, the sample ring, and other files of `/proc` while they are read.",
    }
    /// Threads.
    Threads {
        name: "threads", unit: "", budget: 8, goodbye: Some(1),
        what: "The agent's own threads, named `clrscope-…`.",
    }
    /// Bytes of the stacks of those threads.
    ThreadStacks {
        name: "stacks of threads", unit: "bytes", budget: 4 << 20, goodbye: Some(THREAD_STACK),
        what: "Address space of the stacks of the agent's own threads, 512 KB each.",
    }
    /// Keys of thread-local values (`pthread_key_create`).
    ThreadKeys {
        name: "thread-local keys", unit: "", budget: 1, goodbye: Some(1),
        what: "The key under which threads keep what the agent knows of them, of the C library's 1,024.",
    }
    /// POSIX timers, one for each sampled thread.
    Timers {
        name: "timers", unit: "", budget: 4096, goodbye: Some(0),
        what: "One timer for each thread that the `signals` engine samples. Each takes one of the user's pending signals.",
    }
    /// Installed signal handlers.
    SignalHandlers {
        name: "signal handlers", unit: "", budget: 1, goodbye: Some(0),
        what: "`SIGPROF`, while the `signals` engine runs.",
    }
    /// Alternate signal stacks that threads of the target got from the agent.
    AlternateStacks {
        name: "alternate stacks", unit: "", budget: 4096, goodbye: Some(0),
        what: "Alternate signal stacks of 96 KB that threads got for the `signals` engine.",
    }
    /// Memory mappings made by the agent, without alternate stacks.
    Mappings {
        name: "mappings", unit: "", budget: 16_384, goodbye: Some(0),
        what: "The sample ring, and the tables of threads that count calls or allocations.",
    }
    /// Bytes of address space in those mappings.
    MappedBytes {
        name: "mapped address space", unit: "bytes", budget: 64 << 30, goodbye: Some(0),
        what: "Address space of these mappings. Tables of threads are reserved in full and use memory page by page.",
    }
    /// Bytes of the agent's heap.
    HeapBytes {
        name: "heap", unit: "bytes", budget: 512 << 20, goodbye: None,
        what: "Memory that the agent has allocated. Above the budget the recording ends.",
    }
    /// EventPipe sessions inside the process.
    EventSessions {
        name: "event sessions", unit: "", budget: 2, goodbye: Some(0),
        what: "EventPipe sessions inside the process, of the runtime's 64: exceptions on .NET 9.",
    }
    /// The main profiler slot.
    MainSlot {
        name: "main profiler slots", unit: "", budget: 1, goodbye: Some(1),
        what: "The runtime's one main profiler slot.",
    }
    /// A notification profiler slot.
    NotificationSlot {
        name: "notification profiler slots", unit: "", budget: 1, goodbye: Some(1),
        what: "One of the runtime's 32 slots for notification profilers.",
    }
    /// Profiler event masks that are set.
    EventMask {
        name: "event masks", unit: "", budget: 1, goodbye: Some(1),
        what: "The profiler event mask. A resident agent keeps module loads and what the runtime never clears.",
    }
}

/// How much of a resource one agent library holds and has held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldResource {
    /// The resource.
    pub resource: Resource,
    /// Held now.
    pub held: u64,
    /// The most that was held at a time since the session began.
    pub highest: u64,
    /// How often more was asked for than the budget allows.
    pub refused: u64,
}

impl HeldResource {
    /// What this leaves behind, if it is the state at the last record.
    pub fn left(&self) -> Option<u64> {
        self.resource.goodbye().map(|needed| self.held.saturating_sub(needed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_table() {
        for (number, resource) in Resource::ALL.iter().enumerate() {
            assert_eq!(*resource as usize, number, "{resource:?}");
            assert!(resource.goodbye().unwrap_or_default() <= resource.budget(), "{resource:?}");
        }
    }
}
