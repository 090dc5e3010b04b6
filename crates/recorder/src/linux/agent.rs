//! The agent as the recorder sees it: its connection, and how it left.

use super::link::{AgentLink, FromAgent};
use std::collections::VecDeque;
use wire::ByeReason;

/// The connection to the agent, and what became of it.
pub(super) struct Agent {
    pub link: AgentLink,
    /// What it wrote before the recording began, to be taken first.
    pub early: VecDeque<FromAgent>,
    /// When it had last written all sums, as it was asked to.
    pub flushed: Option<u64>,
    /// How it said goodbye.
    pub bye: Option<ByeReason>,
    /// Whether the connection has ended.
    pub closed: bool,
}

impl Agent {
    pub fn new(link: AgentLink) -> Self {
        Self { link, early: VecDeque::new(), flushed: None, bye: None, closed: false }
    }

    /// The next thing that came, without waiting.
    pub fn next(&mut self) -> Option<FromAgent> {
        self.early.pop_front().or_else(|| self.link.try_next())
    }

    /// Whether it says nothing more.
    pub fn has_left(&self) -> bool {
        self.closed || self.bye.is_some()
    }
}
