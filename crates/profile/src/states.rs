use session::ThreadState;

/// States of a thread, in the order of their index.
pub const STATES: [ThreadState; 12] = [
    ThreadState::Running,
    ThreadState::Lock,
    ThreadState::Sleep,
    ThreadState::Io,
    ThreadState::Idle,
    ThreadState::Gc,
    ThreadState::Task,
    ThreadState::Other,
    ThreadState::Event,
    ThreadState::Runtime,
    ThreadState::NoProcessor,
    ThreadState::Throttled,
];

/// Index of a state in [`STATES`].
pub fn state_index(state: ThreadState) -> usize {
    state as usize
}
