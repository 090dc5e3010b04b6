//! `counters`: values of EventCounters and of meters.

use super::{Context, EventReader, EventSample, ReadSession, Samples, Source};
use crate::linux::window::Window;
use nettrace::{
    Event,
    counters::{Collector, Counted, Output},
};
use profilers::counters::{CounterDef, CounterValue, SPEC};
use std::collections::HashMap;

pub const SOURCE: Source = Source::of_events(SPEC.id, |session| Box::new(Counters::all(session)));

/// Most counters of a recording: a program may make up new ones for ever.
const MOST: usize = 20_000;

/// Reads values out of the events of a session.
pub(super) struct Counters {
    collector: Collector,
    /// Which counters are wanted; `None` for all, as `counters` has them.
    wanted: Option<fn(&CounterDef) -> bool>,
}

impl Counters {
    fn all(session: &ReadSession<'_>) -> Self {
        Self { collector: Collector::new(session.id), wanted: None }
    }

    /// Reads those counters that another profiler wants.
    pub fn some(session: &ReadSession<'_>, wanted: fn(&CounterDef) -> bool) -> Self {
        Self { collector: Collector::new(session.id), wanted: Some(wanted) }
    }
}

impl EventReader for Counters {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        match self.collector.push(event) {
            Some(Output::Values(mut values)) => {
                if let Some(wanted) = self.wanted {
                    values.retain(|counted| wanted(&counted.counter));
                }
                if !values.is_empty() {
                    let are_counted = self.wanted.is_none();
                    out.push(Box::new(Values { time: event.timestamp, values, are_counted }));
                }
            }
            Some(Output::Complaint(text)) => out.push(Box::new(Complaint(text))),
            None => {}
        }
    }
}

/// Values at a time.
#[derive(Debug)]
struct Values {
    time: u64,
    values: Vec<Counted>,
    /// Whether they count in the summary of the recording.
    are_counted: bool,
}

/// The numbers of counters, by what tells them apart.
#[derive(Default)]
struct Numbers(HashMap<String, u32>);

impl EventSample for Values {
    fn time(&self) -> u64 {
        self.time
    }

    /// Those of counters for which there is room are counted as they are written.
    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        let Self { time, values, are_counted } = *self;
        let came = values.len() as u64;
        let mut known = 0;
        for Counted { counter, value } in values {
            if let Some(counter) = number_of(context, counter) {
                context.row(&CounterValue { time, counter, value });
                known += 1;
            }
        }
        if are_counted {
            context.statistics.count(SPEC.id, known);
        }
        context.statistics.dropped("values of too many counters", came - known);
    }
}

/// The number of a counter, which becomes a row if it is new; `None` if there are too many.
fn number_of(context: &mut Context<'_>, counter: CounterDef) -> Option<u32> {
    // An EventSource and a meter may have one name.
    let CounterDef { source, name, tags, kind, .. } = &counter;
    let key = format!("{source}\0{name}\0{tags}\0{kind:?}");
    let numbers = &mut context.states.of::<Numbers>().0;
    if let Some(number) = numbers.get(&key) {
        return Some(*number);
    }
    if numbers.len() >= MOST {
        return None;
    }
    let number = numbers.len() as u32;
    numbers.insert(key, number);
    context.row(&CounterDef { counter: number, ..counter });
    Some(number)
}

/// Why values are missing, in words for a user.
#[derive(Debug)]
struct Complaint(String);

impl EventSample for Complaint {
    fn time(&self) -> u64 {
        0
    }

    fn clip(&mut self, _window: &Window) -> bool {
        true
    }

    fn count(&self) -> u64 {
        0
    }

    fn write(self: Box<Self>, context: &mut Context<'_>) {
        context.output.note(self.0);
    }
}
