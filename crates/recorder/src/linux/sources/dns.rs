//! `dns`: lookups of host names.
//!
//! The events of `System.Net.NameResolution`, as seen on .NET 8 and 9: `ResolutionStart` with the
//! name, `ResolutionFailed` if nothing is found, `ResolutionStop` at the end of both. Those of one
//! lookup have the same activity. Where the runtime has lost track of it, an end has none, or that
//! of something else: to guess by threads would give wrong times.

use super::{Context, EventReader, EventSample, Samples, Source};
use nettrace::{Event, Fields};
use profilers::dns::{Begun, Ended, SPEC};
use rows::ThreadId;
use std::collections::HashMap;

pub const SOURCE: Source = Source::of_events(SPEC.id, |_| Box::new(Reader::default()));

const PROVIDER: &str = "System.Net.NameResolution";
const START: u32 = 1;
const STOP: u32 = 2;
const FAILED: u32 = 3;

/// Longest name of a host, in UTF-16 units; the base library takes none of more than 255.
const MAX_NAME: usize = 1024;

/// Most lookups that are remembered as not ended. The ends of some are never known.
const MAX_OPEN: usize = 10_000;

/// Reads the events of a session.
#[derive(Default)]
struct Reader {
    /// Lookups that have not ended, and whether they have failed, by activity.
    open: HashMap<Activity, (Begun, bool)>,
}

/// The id of an activity, which is unique in a process.
type Activity = [u8; 16];

const NONE: Activity = [0; 16];

impl EventReader for Reader {
    fn push(&mut self, event: &Event, out: &mut Samples) {
        if event.ty.provider != PROVIDER {
            return;
        }
        let activity = event.activity;
        match event.ty.id {
            START => {
                let Some(host) = Fields(&event.payload).utf16z(MAX_NAME) else { return };
                let thread = ThreadId(u32::try_from(event.thread_id).unwrap_or(u32::MAX));
                let begun = Begun { time: event.timestamp, thread, host };
                if activity != NONE {
                    if self.open.len() >= MAX_OPEN {
                        self.open.clear();
                    }
                    self.open.insert(activity, (begun.clone(), false));
                }
                out.push(Box::new(begun));
            }
            FAILED => {
                if let Some((_, failed)) = self.open.get_mut(&activity) {
                    *failed = true;
                }
            }
            STOP => {
                if let Some((Begun { time, thread, host }, failed)) = self.open.remove(&activity) {
                    let took = event.timestamp.saturating_sub(time);
                    out.push(Box::new(Ended { time, thread, host, took, failed }));
                }
            }
            _ => {}
        }
    }
}

impl EventSample for Begun {
    fn time(&self) -> u64 {
        self.time
    }

    fn write(mut self: Box<Self>, context: &mut Context<'_>) {
        self.thread = context.thread(self.thread);
        context.row(&*self);
    }
}

impl EventSample for Ended {
    fn time(&self) -> u64 {
        self.time
    }

    /// It was counted when it began.
    fn count(&self) -> u64 {
        0
    }

    fn write(mut self: Box<Self>, context: &mut Context<'_>) {
        self.thread = context.thread(self.thread);
        context.row(&*self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nettrace::EventType;
    use std::sync::Arc;

    fn event(id: u32, timestamp: u64, thread: u64, activity: u8, host: &str) -> Event {
        let payload = host.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
        Event {
            ty: Arc::new(EventType {
                provider: PROVIDER.to_owned(),
                id,
                version: 0,
                name: String::new(),
                keywords: 0,
                level: 4,
                fields: Vec::new(),
            }),
            timestamp,
            thread_id: thread,
            capture_thread_id: thread,
            processor: 0,
            stack: [].into(),
            activity: [activity; 16],
            related_activity: [0; 16],
            payload: payload.collect(),
        }
    }

    #[test]
    fn beginnings_and_ends_are_paired_by_activity() {
        let (mut reader, mut out) = (Reader::default(), Samples::new());
        for (id, time, thread, activity, host) in [
            (START, 10, 7, 1, "a"),
            (START, 20, 7, 2, "b"),
            (START, 30, 8, 0, "c"),
            (FAILED, 35, 9, 2, ""),
            (STOP, 40, 9, 2, ""),
            (STOP, 50, 8, 0, ""),
            // Of one that began before the recording.
            (STOP, 55, 7, 4, ""),
            (STOP, 70, 9, 1, ""),
        ] {
            reader.push(&event(id, time, thread, activity, host), &mut out);
        }
        let shown: Vec<String> = out.iter().map(|sample| format!("{sample:?}")).collect();
        let begun = |time, thread, host: &str| {
            format!("{:?}", Begun { time, thread: ThreadId(thread), host: host.to_owned() })
        };
        let ended = |time, host: &str, took, failed| {
            let (thread, host) = (ThreadId(7), host.to_owned());
            format!("{:?}", Ended { time, thread, host, took, failed })
        };
        assert_eq!(
            shown,
            [
                begun(10, 7, "a"),
                begun(20, 7, "b"),
                begun(30, 8, "c"),
                ended(20, "b", 20, true),
                ended(10, "a", 60, false),
            ]
        );
    }

    #[test]
    fn lookups_without_an_end_are_not_remembered_without_limit() {
        let (mut reader, mut out) = (Reader::default(), Samples::new());
        for number in 1..=MAX_OPEN as u128 + 1 {
            let activity = number.to_le_bytes();
            reader.push(&Event { activity, ..event(START, 1, 7, 0, "a") }, &mut out);
        }
        assert_eq!((out.len(), reader.open.len()), (MAX_OPEN + 1, 1));
    }
}
