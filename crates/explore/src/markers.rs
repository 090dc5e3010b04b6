use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
    ops::Range,
};

use profile::{
    NameStyle, PROFILER_PAUSE, Profile, SingleCall, format, pause_length,
    profilers::gc::{Collection, Pause},
};
use session::{Nanos, ThreadId};

use crate::answers::shortened;

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

/// Markers of an answer. Where there would be more, they are of wider times.
pub const MOST_MARKERS: usize = if cfg!(test) { 100 } else { 100_000 };

/// Letters of the text of a marker.
const MOST_TEXT: usize = 500;

/// What happened in a time, in the order of time. `row_of` says in which row things of a thread
/// are: that of a thread, that of all threads (`Some(None)`), or none. Things of one kind and row
/// that begin in the same pixel are one marker; in the same few pixels, where that makes more than
/// [`MOST_MARKERS`].
pub fn markers(
    profile: &Profile,
    time: Range<Nanos>,
    pixels: usize,
    row_of: impl Fn(ThreadId) -> Option<Option<ThreadId>>,
) -> Vec<Marker> {
    let calls = profile.traced.slowest();
    let mut pixel = (time.end.saturating_sub(time.start) / pixels.max(1) as u64).max(1);
    let mut all = Together::new();
    let mut add = |source: Source, thread: Option<ThreadId>, begun: Nanos, length: Nanos| {
        let end = begun.saturating_add(length);
        if end < time.start || begun >= time.end {
            return;
        }
        let Some(thread) = thread.map_or(Some(None), &row_of) else { return };
        let at = begun.saturating_sub(time.start) / pixel;
        let one = Gathered { time: begun, end, longest: length, count: 1, source };
        put(&mut all, (source.0, thread, at), one);
        // Halving the pixels ends: with one of them there is a marker for each kind and thread.
        while all.len() > MOST_MARKERS && pixel <= time.end.saturating_sub(time.start) {
            pixel = pixel.saturating_mul(2);
            for ((kind, thread, at), gathered) in std::mem::take(&mut all) {
                put(&mut all, (kind, thread, at / 2), gathered);
            }
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
    let collections = profile.gcs.iter().rev().map(|gc| (gc.number, gc)).collect();
    let described = Described { profile, calls: &calls, collections };
    let mut markers: Vec<Marker> = (all.into_iter())
        .map(|((kind, thread, _), gathered)| Marker {
            kind,
            thread,
            time: gathered.time,
            length: gathered.end.saturating_sub(gathered.time),
            count: gathered.count,
            text: described.text(gathered.source),
        })
        .collect();
    order::sort_by_key(&mut markers, |marker| (marker.time, marker.kind, marker.thread));
    markers
}

/// Things of one kind and row, by the pixel in which they begin.
type Together = HashMap<(MarkerKind, Option<ThreadId>, u64), Gathered>;

/// Adds things to those that begin in the same pixel.
fn put(all: &mut Together, key: (MarkerKind, Option<ThreadId>, u64), more: Gathered) {
    match all.entry(key) {
        Entry::Vacant(entry) => drop(entry.insert(more)),
        Entry::Occupied(mut entry) => {
            let known = entry.get_mut();
            known.count += more.count;
            known.time = known.time.min(more.time);
            known.end = known.end.max(more.end);
            // The first of those of a length, in whatever order they come together.
            let is_longer =
                (more.longest, Reverse(more.source)) > (known.longest, Reverse(known.source));
            if is_longer {
                (known.longest, known.source) = (more.longest, more.source);
            }
        }
    }
}

/// What texts of markers are made of.
struct Described<'a> {
    profile: &'a Profile,
    calls: &'a [&'a SingleCall],
    collections: HashMap<u32, &'a Collection>,
}

impl Described<'_> {
    /// What there is to say of one.
    fn text(&self, (kind, index): Source) -> String {
        let tables = &self.profile.tables;
        let text = match kind {
            MarkerKind::Pause => self.pause(&self.profile.pauses[index]),
            MarkerKind::Exception => {
                let sample = &self.profile.exceptions.samples[index];
                let ty = shortened(&tables.ty(sample.ty).name, MOST_TEXT);
                match &sample.message {
                    Some(message) => format!("{ty}: {}", shortened(message, MOST_TEXT)),
                    None => ty,
                }
            }
            MarkerKind::Lock => {
                let wait = &self.profile.locks.waits[index];
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
                let call = self.calls[index];
                let name = tables.function_name(call.function, NameStyle::SHORT);
                let failed = if call.failed { ", failed" } else { "" };
                format!("{} in {name}{failed}", format::duration(call.taken))
            }
        };
        shortened(&text, MOST_TEXT)
    }

    fn pause(&self, pause: &Pause) -> String {
        let length = format::duration(pause_length(pause));
        match pause.gc.and_then(|number| self.collections.get(&number)) {
            Some(gc) => format!(
                "{length} for collection {} of generation {} ({}, {})",
                gc.number, gc.generation, gc.reason, gc.kind
            ),
            None => format!("{length}, {}", pause.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_markers_become_fewer_and_none_is_lost() {
        let mut profile = crate::shop::profile();
        let mut sample = profile.exceptions.samples[0].clone();
        sample.message = Some("x".repeat(2000));
        let time = profile.start..profile.stop;
        let step = (time.end - time.start) / 10_000;
        profile.exceptions.samples = (0..10_000)
            .map(|number| {
                let mut own = sample.clone();
                own.time = time.start + number * step;
                own
            })
            .collect();
        let found = markers(&profile, time, 1_000_000, |thread| Some(Some(thread)));
        assert!((10..=MOST_MARKERS).contains(&found.len()), "{}", found.len());
        let exceptions = found.iter().filter(|marker| marker.kind == MarkerKind::Exception);
        assert_eq!(exceptions.map(|marker| marker.count).sum::<u64>(), 10_000);
        assert!(found.iter().all(|marker| marker.text.chars().count() <= MOST_TEXT + 1));
    }
}
