use serde::{Deserialize, Serialize};

/// How a frame was found, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FrameTrust {
    /// The registers of the thread: the leaf.
    Context,
    /// The runtime's own stack walk.
    Runtime,
    /// Exact unwind information of the frame it called.
    Tables,
    /// A rule learned from the code, a return address where a leaf must have it, or the frame
    /// pointer.
    Learned,
    /// Found by looking for return addresses: a guess.
    Scan,
}
