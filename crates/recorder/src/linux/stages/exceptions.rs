//! Exceptions, from their throw until it is known who caught them.

use super::stage::Stage;
use crate::linux::context::Context;
use profilers::exceptions::{ExceptionCount, ExceptionSample};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};
use wire::{Exception, ExceptionCaught};

/// How long a thrown exception waits to be caught before it is written without a catcher.
const CATCH_LIMIT: Duration = Duration::from_secs(1);

/// The profiler `exceptions`.
#[derive(Default)]
pub(in crate::linux) struct Exceptions {
    /// Those that were not caught so far, by the agent's numbers.
    thrown: HashMap<u64, (ExceptionSample, Instant)>,
}

impl Exceptions {
    /// Whether the agent counts by itself from the moment it is attached.
    pub fn are_counted(cx: &Context) -> bool {
        cx.runs("exceptions")
    }

    /// An exception was thrown.
    pub fn thrown(&mut self, cx: &mut Context, exception: Exception) {
        let counted = cx.window.exception(exception.class, exception.time, exception.weight);
        let Some(weight) = counted else { return };
        let os_tid = cx.target.host_tid(exception.os_tid);
        let thread = cx.thread(os_tid);
        let (stack, _) = cx.frames.walked(&mut cx.definitions, Some(exception.stack));
        let sample = ExceptionSample {
            time: exception.time,
            thread,
            ty: cx.definitions.ty(&cx.frames.class_name(exception.class)),
            message: exception.message,
            stack,
            weight,
            caught_by: None,
            time_to_catch: None,
        };
        self.thrown.insert(exception.sequence, (sample, Instant::now()));
    }

    /// An exception was caught.
    pub fn caught(&mut self, cx: &mut Context, caught: &ExceptionCaught) {
        let method = caught.method.and_then(|method| cx.frames.function_of(method));
        if let Some((mut sample, _)) = self.thrown.remove(&caught.sequence) {
            sample.caught_by = method;
            sample.time_to_catch = Some(caught.time.saturating_sub(sample.time));
            cx.definitions.row(&sample);
        }
    }

    /// How many exceptions of each class were thrown since the last time.
    pub fn counts(&mut self, cx: &mut Context, time: u64, counts: Vec<(u32, u64)>) {
        if !cx.window.exceptions(&counts) {
            return;
        }
        let total = counts.iter().map(|(_, count)| count).sum();
        for (class, count) in counts {
            let ty = cx.definitions.ty(&cx.frames.class_name(class));
            cx.definitions.row(&ExceptionCount { time, ty, count });
        }
        cx.count("exceptions", total);
    }
}

impl Stage for Exceptions {
    fn settle(&mut self, cx: &mut Context, all: bool) {
        let is_due = |since: Instant| all || since.elapsed() > CATCH_LIMIT;
        let mut due: Vec<(u64, ExceptionSample)> = self
            .thrown
            .extract_if(|_, (_, since)| is_due(*since))
            .map(|(sequence, (sample, _))| (sequence, sample))
            .collect();
        due.sort_unstable_by_key(|(sequence, _)| *sequence);
        due.iter().for_each(|(_, sample)| cx.definitions.row(sample));
    }
}
