//! Exceptions.

use super::*;

/// How long a thrown exception waits to be caught before it is written without a catcher.
const CATCH_LIMIT: Duration = Duration::from_secs(1);

impl Recorder {
    pub(super) fn exception(&mut self, exception: Exception) {
        let counted = self.window.exception(exception.class, exception.time, exception.weight);
        let Some(weight) = counted else { return };
        let os_tid = self.sources.target.host_tid(exception.os_tid);
        let target = &self.sources.target;
        let thread = self.definitions.thread(os_tid, || target.thread_name(os_tid));
        let (stack, _) = self.frames.walked(&mut self.definitions, Some(exception.stack));
        let sample = ExceptionSample {
            time: exception.time,
            thread,
            ty: self.definitions.ty(&self.frames.class_name(exception.class)),
            message: exception.message,
            stack,
            weight,
            caught_by: None,
            time_to_catch: None,
        };
        self.exceptions.insert(exception.sequence, (sample, Instant::now()));
    }

    pub(super) fn exception_caught(&mut self, caught: &wire::ExceptionCaught) {
        let method = caught.method.and_then(|method| self.frames.function_of(method));
        if let Some((sample, _)) = self.exceptions.get_mut(&caught.sequence) {
            sample.caught_by = method;
            sample.time_to_catch = Some(caught.time.saturating_sub(sample.time));
            self.write_exception(caught.sequence);
        }
    }

    pub(super) fn exception_counts(&mut self, time: u64, counts: Vec<(u32, u64)>) {
        if !self.window.exceptions(&counts) {
            return;
        }
        let total = counts.iter().map(|(_, count)| count).sum();
        for (class, count) in counts {
            let ty = self.definitions.ty(&self.frames.class_name(class));
            self.definitions.row(&ExceptionCount { time, ty, count });
        }
        self.count("exceptions", total);
    }

    pub(super) fn write_exception(&mut self, sequence: u64) {
        if let Some((sample, _)) = self.exceptions.remove(&sequence) {
            self.definitions.row(&sample);
        }
    }

    pub(super) fn settle_exceptions(&mut self, all: bool) {
        let mut due: Vec<u64> = self
            .exceptions
            .iter()
            .filter(|(_, (_, since))| all || since.elapsed() > CATCH_LIMIT)
            .map(|(sequence, _)| *sequence)
            .collect();
        due.sort_unstable();
        for sequence in due {
            self.write_exception(sequence);
        }
    }
}
