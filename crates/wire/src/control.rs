use serde::{Deserialize, Serialize};

/// The only messages that an agent gets after it said hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Start the process: the other side is ready. Sent once, to launched agents only.
    Go,
    /// Say what code stands at these addresses: each is answered by a [`crate::Record::Code`] that
    /// covers it (sent once for each method) or by [`crate::Record::NotCode`]. At most
    /// [`Control::MAX_RESOLVE`] of each at a time.
    ///
    /// The runtime must not be asked about just any address: it looks for the method of an address
    /// in ready-to-run code by going back to one that has run, and if there is none it runs off the
    /// front of its table. So those that are guesses are told apart, and the agent looks at them
    /// itself first.
    Resolve {
        /// Addresses of instructions that were being executed.
        executed: Vec<u64>,
        /// Addresses in front of what looks like a return address.
        guessed: Vec<u64>,
    },
    /// Instrument the methods that these rules match: each method is answered by a
    /// [`crate::Record::Instrumented`], all of them by [`crate::Record::Applied`]. Only for agents
    /// with the profiler `trace`; those with its parameter `dry` only say what would happen. Rules
    /// that come later replace those before: all methods are reverted to their original bodies
    /// first.
    Instrument(rules::RuleSet),
    /// Copy this many bytes of the stacks of blocked threads from now on, within the bounds of
    /// [`crate::BlockedStack`].
    CopyMore(u32),
    /// Take CPU samples from inside from now on, by timer signals or, where these do not work, by
    /// suspending the runtime and walking stacks: the kernel's ring cannot be used, or costs too
    /// much. Answered by [`crate::Record::SampleRing`] or [`crate::Record::EngineFallback`]. Only
    /// for agents that were asked for [`crate::CpuEngine::KernelRing`].
    SampleInside,
    /// Answer with [`crate::Record::Status`].
    Status,
    /// Write everything collected so far, then [`crate::Record::Flushed`]. Answered once all
    /// profilers have begun.
    Flush,
    /// Stop collecting, write what is left, say [`crate::Record::Bye`], and detach.
    Stop,
}

impl Control {
    /// Most addresses of a kind in one [`Control::Resolve`].
    pub const MAX_RESOLVE: usize = 4096;
}
