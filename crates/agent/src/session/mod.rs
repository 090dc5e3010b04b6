//! A recording in the target, from the runtime's first call to the agent's last word.

pub mod agent;
mod callbacks;
pub mod entry;
pub mod event_mask;
pub mod fault;
pub mod leaving;
pub mod reattach;
pub mod sessions;
pub mod writer;
