use std::{collections::HashMap, ops::Range};

use profile::{NameStyle, PROFILER_PAUSE, Profile, format, pause_length};
use session::{Nanos, ThreadId};

/// What a marker in a timeline is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MarkerKind {
    /// The runtime was suspended.
    Pause,
    /// An exception was thrown.
    Exception,
    /// A wait for a lock.
    Lock,
    /// A single call of a traced method.
    Call,
}

impl MarkerKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [MarkerKind; 4] =
        [MarkerKind::Pause, MarkerKind::Exception, MarkerKind::Lock, MarkerKind::Call];

    /// Words for a reader.
    pub fn title(self) -> &'static str {
        match self {
            MarkerKind::Pause => "GC pause",
            MarkerKind::Exception => "exception",
            MarkerKind::Lock => "wait for a lock",
            MarkerKind::Call => "traced call",
        }
    }
}

/// Something that happened, or several things of a kind in the same pixel.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// What.
    pub kind: MarkerKind,
    /// To which thread; `None` if to all.
    pub thread: Option<ThreadId>,
    /// When it began.
    pub time: Nanos,
    /// How long it took, from the beginning of the first to the end of the last.
    pub length: Nanos,
    /// How many there are.
    pub count: u64,
    /// About the longest of them.
    pub text: String,
}

/// What a marker is about: its kind and its place in the list of the profile.
type Source = (MarkerKind, usize);

struct Gathered {
    time: Nanos,
    end: Nanos,
    longest: Nanos,
    count: u64,
    source: Source,
}

/// What happened in a time, in the order of time. `row_of` says in which row things of a thread
/// are: that of a thread, that of all threads (`Some(None)`), or none. Things of one kind and row
/// that begin in the same pixel are one marker.
pub fn markers(
    profile: &Profile,
    time: Range<Nanos>,
    pixels: usize,
    row_of: impl Fn(ThreadId) -> Option<Option<ThreadId>>,
) -> Vec<Marker> {
    let calls = profile.traced.slowest();
    let pixel = (time.end.saturating_sub(time.start) / pixels.max(1) as u64).max(1);
    let mut all: HashMap<(MarkerKind, Option<ThreadId>, u64), Gathered> = HashMap::new();
    let mut add = |source: Source, thread: Option<ThreadId>, begun: Nanos, length: Nanos| {
        let end = begun.saturating_add(length);
        if end < time.start || begun >= time.end {
            return;
        }
        let Some(thread) = thread.map_or(Some(None), &row_of) else { return };
        let at = begun.saturating_sub(time.start) / pixel;
        let gathered = all.entry((source.0, thread, at)).or_insert(Gathered {
            time: begun,
            end,
            longest: length,
            count: 0,
            source,
        });
        gathered.count += 1;
        gathered.time = gathered.time.min(begun);
        gathered.end = gathered.end.max(end);
        if length > gathered.longest {
            (gathered.longest, gathered.source) = (length, source);
        }
    };
    for (index, pause) in profile.pauses.iter().enumerate() {
        if pause.reason != PROFILER_PAUSE {
            add((MarkerKind::Pause, index), None, pause.suspend_start, pause_length(pause));
        }
    }
    for (index, sample) in profile.exceptions.samples.iter().enumerate() {
        add((MarkerKind::Exception, index), Some(sample.thread), sample.time, 0);
    }
    for (index, wait) in profile.locks.waits.iter().enumerate() {
        add((MarkerKind::Lock, index), Some(wait.thread), wait.time, wait.duration);
    }
    for (index, call) in calls.iter().enumerate() {
        add((MarkerKind::Call, index), Some(call.thread), call.begun, call.taken);
    }
    let mut markers: Vec<Marker> = (all.into_iter())
        .map(|((kind, thread, _), gathered)| Marker {
            kind,
            thread,
            time: gathered.time,
            length: gathered.end.saturating_sub(gathered.time),
            count: gathered.count,
            text: text(profile, &calls, gathered.source),
        })
        .collect();
    markers.sort_by_key(|marker| (marker.time, marker.kind, marker.thread));
    markers
}

/// What there is to say of one.
fn text(profile: &Profile, calls: &[profile::SingleCall], (kind, index): Source) -> String {
    let tables = &profile.tables;
    match kind {
        MarkerKind::Pause => {
            let pause = &profile.pauses[index];
            let number = pause.gc;
            let collection = profile.gcs.iter().find(|gc| Some(gc.number) == number);
            let length = format::duration(pause_length(pause));
            match collection {
                Some(gc) => format!(
                    "{length} for collection {} of generation {} ({}, {})",
                    gc.number, gc.generation, gc.reason, gc.kind
                ),
                None => format!("{length}, {}", pause.reason),
            }
        }
        MarkerKind::Exception => {
            let sample = &profile.exceptions.samples[index];
            let ty = &tables.ty(sample.ty).name;
            match &sample.message {
                Some(message) => format!("{ty}: {message}"),
                None => ty.clone(),
            }
        }
        MarkerKind::Lock => {
            let wait = &profile.locks.waits[index];
            let place = tables.place(wait.stack).function;
            let length = format::duration(wait.duration);
            let place = tables.function_name(place, NameStyle::SHORT);
            match wait.owner {
                Some(owner) => {
                    format!("{length} in {place}, held by {}", tables.thread_name(owner))
                }
                None => format!("{length} in {place}"),
            }
        }
        MarkerKind::Call => {
            let call = &calls[index];
            let name = tables.function_name(call.function, NameStyle::SHORT);
            let failed = if call.failed { ", failed" } else { "" };
            format!("{} in {name}{failed}", format::duration(call.taken))
        }
    }
}
