//! What taking a sample costs the process.

use sampler::RingCosts;
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// How long it may take to measure what a sample costs.
const COSTS_LIMIT: Duration = Duration::from_millis(200);

/// What one sample costs the process beside the time of threads of ours, in nanoseconds. Measured
/// on a thread of its own, which takes a processor for some 20 ms: not before somebody asks, so
/// that a program that is launched or attached to does not share its processors with that as well
/// while it begins.
#[derive(Default)]
pub(super) struct Costs {
    measured: Arc<OnceLock<RingCosts>>,
    measure: Option<Box<dyn FnOnce() -> RingCosts + Send>>,
}

impl Costs {
    /// Costs that are measured when somebody asks for them.
    pub fn later(measure: impl FnOnce() -> RingCosts + Send + 'static) -> Self {
        Self { measured: Arc::default(), measure: Some(Box::new(measure)) }
    }

    /// The costs, if they are known.
    pub fn known(&self) -> Option<RingCosts> {
        self.measured.get().copied()
    }

    /// Whether they were never asked for.
    pub fn is_later(&self) -> bool {
        self.measure.is_some()
    }

    /// The costs, or none so far.
    pub fn get(&mut self) -> RingCosts {
        if let Some(measure) = self.measure.take() {
            let measured = self.measured.clone();
            // Without the thread the costs are not known, and count as none.
            let _ = std::thread::Builder::new()
                .name("clrscope-cost".into())
                .spawn(move || measured.set(measure()));
        }
        self.known().unwrap_or_default()
    }

    /// Waits until they are known, where they can be.
    pub fn wait(&mut self) {
        let until = Instant::now() + COSTS_LIMIT;
        self.get();
        // The other one is that of the thread that measures.
        while self.known().is_none()
            && Arc::strong_count(&self.measured) > 1
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
