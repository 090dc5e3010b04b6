//! What the runtime's events have told, on its way from the EventPipe session to the session file:
//! it waits until it is known what code stands at the addresses of its stack.

use super::{
    define::Definitions,
    frames::Frames,
    sources::{Context, EventSample, States},
    target::Target,
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Most samples that wait at a time. They are small, and at the end of a recording all that the
/// runtime has buffered comes at once.
const MAX_WAITING: usize = 1 << 17;

struct Waiting {
    sample: Box<dyn EventSample>,
    /// Addresses that the agent has to explain first.
    needs: Vec<u64>,
    since: Instant,
}

/// Samples that wait, and those that are ready to be written.
#[derive(Default)]
pub(super) struct EventSamples {
    waiting: VecDeque<Waiting>,
    ready: Vec<Box<dyn EventSample>>,
    states: States,
}

impl EventSamples {
    /// Takes a sample; false if there is no room.
    pub fn push(&mut self, sample: Box<dyn EventSample>, frames: &Frames) -> bool {
        let needs = sample.needs(frames, &self.states);
        if needs.is_empty() {
            self.ready.push(sample);
            return true;
        }
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        self.waiting.push_back(Waiting { sample, needs, since: Instant::now() });
        true
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.ready.is_empty()
    }

    /// What the agent has to explain.
    pub fn needs(&self) -> impl Iterator<Item = &u64> {
        self.waiting.iter().flat_map(|waiting| &waiting.needs)
    }

    /// What sources need to write rows.
    pub fn context<'a>(
        &'a mut self,
        frames: &'a mut Frames,
        definitions: &'a mut Definitions,
        target: &'a Target,
    ) -> Context<'a> {
        Context { frames, definitions, target, states: &mut self.states }
    }

    /// Makes rows of all samples whose addresses are known, in the order of their times. Those that
    /// have waited longer than the limit (all, if `all` is set) no longer wait: what is unknown
    /// then is shown as such.
    pub fn settle(
        &mut self,
        frames: &mut Frames,
        definitions: &mut Definitions,
        target: &Target,
        limit: Duration,
        all: bool,
    ) {
        self.release(frames, limit, all);
        let mut ready = std::mem::take(&mut self.ready);
        ready.sort_by_key(|sample| sample.time());
        let mut context = self.context(frames, definitions, target);
        ready.into_iter().for_each(|sample| sample.write(&mut context));
    }

    /// Finds the samples that no longer wait.
    fn release(&mut self, frames: &mut Frames, limit: Duration, all: bool) {
        for _ in 0..self.waiting.len() {
            let Some(mut waiting) = self.waiting.pop_front() else { break };
            waiting.needs.retain(|address| !frames.knows(*address));
            if !waiting.needs.is_empty() && (all || waiting.since.elapsed() > limit) {
                waiting.needs.drain(..).for_each(|address| frames.give_up(address));
            }
            if waiting.needs.is_empty() {
                self.ready.push(waiting.sample);
            } else {
                self.waiting.push_back(waiting);
            }
        }
    }
}
