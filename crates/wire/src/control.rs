use serde::{Deserialize, Serialize};

/// The only messages that an agent gets after it said hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Start the process: the other side is ready. Sent once, to launched agents only.
    Go,
    /// Say what code stands at these addresses: each is answered by a [`crate::Record::Code`] that covers it
    /// (sent once for each method) or by [`crate::Record::NotCode`]. At most [`Control::MAX_RESOLVE`] at a time.
    Resolve(Vec<u64>),
    /// Answer with [`crate::Record::Status`].
    Status,
    /// Write everything collected so far, then [`crate::Record::Flushed`].
    Flush,
    /// Stop collecting, write what is left, say [`crate::Record::Bye`], and detach.
    Stop,
}

impl Control {
    /// Most addresses in one [`Control::Resolve`].
    pub const MAX_RESOLVE: usize = 4096;
}
