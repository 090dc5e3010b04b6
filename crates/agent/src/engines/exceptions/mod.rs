//! Exceptions recorded by events, where the runtime's callbacks are not safe.
//!
//! .NET 9 handles exceptions in a new way that has a gap: a collection between two handlers of one
//! exception misses references (dotnet/runtime issue 110769, closed for .NET 10). On its own, a
//! program hits this gap once in days. The callbacks of `COR_PRF_MONITOR_EXCEPTIONS` come in
//! exactly this gap and let collections in, whatever a profiler does in them, so that programs die
//! in seconds. Events of the runtime's own tracing do not: an EventPipe session whose events come
//! to a callback on the throwing thread reports type, message and catcher as well.
//!
//! Four events come for each exception. Three of them report its way to the catcher, and they cause
//! three quarters of the cost. In a storm, these three are therefore requested only from time to
//! time ([`Storm`]); every exception is still counted.

mod late;

use crate::host::context::Context;
use crate::host::{Host, lock};
use crate::ledger::{self, Counted};
use crate::os::clock;
use com::hresult::E_OUTOFMEMORY;
use corprof::Error;
use corprof::abi::COR_PRF_EVENTPIPE_LEVEL;
use corprof::ids::FunctionId;
use corprof::info::{EventPipeSession, ProviderConfig};
use profilers::{CallbackSample, Class, ExceptionCx, Function, Object};
use std::cell::Cell;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wire::{LogLevel, Nanos, Resource};

/// `ExceptionThrown_V1` and `ExceptionCatchStart` (ClrEtwAll.man).
const THROWN: u32 = 80;
const CATCH_START: u32 = 250;
/// `ExceptionKeyword`; throws are of level error, all else of level informational.
const KEYWORD: u64 = 0x8000;
/// Exceptions per second from which on not every catch is followed.
const STORM_RATE: u64 = 5_000;
/// How long the rate is looked at, and how long catches are followed at a time in a storm.
const LOOK: Nanos = 100_000_000;
/// How long they are then not followed.
const PAUSE: Nanos = 2_000_000_000;
/// Most bytes of a message that are kept: 4096 UTF-16 units.
const MESSAGE_BYTES: usize = 8192;
/// Stands in a slot whose name is being written. No class has this number: those of events are odd.
const BEING_NAMED: usize = 2;
/// How long the runtime may take to start or switch a session before it is said not to answer, and
/// how long to end one before the recording ends without it.
const START_LIMIT: Nanos = 10_000_000_000;
const END_LIMIT: Nanos = 2_000_000_000;
/// Pause between two attempts to end a session that could not be ended.
const END_PAUSE: Nanos = 100_000_000;
/// Classes that are told apart.
const CLASSES: usize = 2048;

impl Drop for Exceptions {
    /// A session that could not be ended is left to the runtime: this thread may not end it, and
    /// would wait for it without a limit. The library stays in the process then.
    fn drop(&mut self) {
        let session = self.session.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(session.live.take());
    }
}

/// Whether exceptions must be recorded by events in this runtime.
pub fn needed(version: [u16; 4]) -> bool {
    match version {
        // .NET 8 has the new way too, switched off. `0` switches the old one off.
        [8, ..] => {
            std::env::var("DOTNET_LegacyExceptionHandling").is_ok_and(|value| value.trim() == "0")
        }
        [9, ..] => true,
        _ => false,
    }
}

/// Exceptions that come as events.
#[derive(Debug, Default)]
pub struct Exceptions {
    /// Classes that are known by name.
    pub classes: EventClasses,
    state: EventState,
    session: Mutex<Session>,
}

/// The session of the runtime that events come from.
#[derive(Debug, Default)]
struct Session {
    live: Option<Counted<EventPipeSession>>,
    /// No more events are wanted: who starts one ends it.
    is_over: bool,
}

impl Exceptions {
    /// With room for classes, if events will come.
    pub fn new(by_events: bool) -> Self {
        let classes = if by_events { EventClasses::with_room() } else { EventClasses::default() };
        Self { classes, state: EventState::default(), session: Mutex::default() }
    }

    /// Starts the events. A thread that does this becomes one of the runtime's own, and may ask it
    /// nothing any more outside of callbacks: so it is done on a thread that then ends.
    pub fn start(self: &Arc<Self>, host: &Arc<Host>) -> Result<(), String> {
        let (this, on) = (Arc::clone(self), Arc::clone(host));
        let started = late::run(host, START_LIMIT, move || this.switch_here(&on, true));
        let answered =
            started.map_err(|error| error.to_string())?.ok_or("the runtime does not answer")?;
        answered.map_err(|error| error.to_string())
    }

    /// Stops the events: none comes afterwards, unless [`Self::is_kept`]. In a process that ends
    /// the runtime has done so itself, and might not answer.
    pub fn stop(self: &Arc<Self>, host: &Host) {
        {
            let mut session = lock(&self.session);
            session.is_over = true;
            if host.is_shutdown() {
                std::mem::forget(session.live.take());
            }
            if session.live.is_none() {
                return;
            }
        }
        // A thread that is late ends the session as soon as it returns. Where the system gives no
        // thread, the session waits for the next attempt: a thread that ends it may not be ours.
        let this = Arc::clone(self);
        let _ = late::run(host, END_LIMIT, move || this.end_here());
    }

    /// Whether the runtime keeps a thread of ours, or a session that could not be ended: then the
    /// library must stay.
    pub fn is_kept(&self) -> bool {
        late::any() || lock(&self.session).live.is_some()
    }

    /// Waits until nothing is kept any more, or the process ends. To be called after
    /// [`Self::stop`].
    pub fn wait_until_released(self: &Arc<Self>, host: &Host) {
        while !host.is_shutdown() && self.is_kept() {
            clock::sleep_until(clock::monotonic() + END_PAUSE);
            self.stop(host);
        }
    }

    /// Ends the session, on the thread that starts and ends sessions. Waits for the events that are
    /// under way.
    fn end_here(&self) {
        let session = lock(&self.session).live.take();
        drop(session);
    }

    /// An event came, on the thread that it is about.
    pub fn on_event(&self, host: &Host, id: u32, data: &[u8]) {
        // Nothing is an object here: what would be asked of it came with the event.
        const NO_OBJECT: Object = Object(0);
        match id {
            THROWN if self.state.is_second(data, clock::monotonic) => {}
            THROWN => {
                self.state.throws.fetch_add(1, Relaxed);
                let context = EventContext {
                    inner: Context::new(host),
                    events: self,
                    thrown: Thrown::parse(data),
                };
                host.each_collector(|collector| collector.exception_thrown(&context, NO_OBJECT));
                self.state.dealt_with(data, clock::monotonic);
            }
            CATCH_START => {
                let Some(function) = catcher(data) else { return };
                let context =
                    EventContext { inner: Context::new(host), events: self, thrown: None };
                host.each_collector(|collector| {
                    collector.exception_caught(&context, Function(function.0), NO_OBJECT)
                });
            }
            _ => {}
        }
    }

    /// Replaces the session by one that tells catches too, or throws only. For a moment two run, so
    /// that nothing is missed; see [`EventState::is_second`].
    fn switch_here(&self, host: &Host, catches: bool) -> corprof::Result<()> {
        let state = &self.state;
        let switch = state.switches.fetch_add(1, Relaxed).wrapping_add(1);
        state.switching.store(true, Release);
        state.catches.store(0, Release);
        let done = self.replace_session(host, catches);
        if !catches && done.is_ok() {
            // When a session stops, the runtime computes the level of its provider with that
            // session still included, and continues to prepare events that nobody receives. It
            // computes the level anew with the next session. If that one fails, events are prepared
            // in vain, but nothing worse happens.
            let _ = self.replace_session(host, catches);
        }
        state.switching.store(false, Release);
        // If it failed all is as it was, and nothing is switched again.
        state.catches.store(if catches == done.is_ok() { switch } else { 0 }, Release);
        done
    }

    fn replace_session(&self, host: &Host, catches: bool) -> corprof::Result<()> {
        if lock(&self.session).is_over {
            return Ok(());
        }
        let provider = ProviderConfig {
            name: "Microsoft-Windows-DotNETRuntime".to_owned(),
            keywords: KEYWORD,
            level: if catches {
                COR_PRF_EVENTPIPE_LEVEL::INFORMATIONAL
            } else {
                COR_PRF_EVENTPIPE_LEVEL::ERROR
            },
            arguments: None,
        };
        let held = ledger::take(Resource::EventSessions, 1);
        let held = held.ok_or(Error::Hr { call: "StartSession", hresult: E_OUTOFMEMORY })?;
        let session = host.runtime.info().start_event_pipe_session(&[provider], false)?;
        let session = Counted::new(session, held);
        // Not while the lock is held: it waits for the events of the old one that are under way.
        let before = lock(&self.session).live.replace(session);
        drop(before);
        // The recording may have ended meanwhile, and this thread may be late.
        if lock(&self.session).is_over {
            self.end_here();
        }
        Ok(())
    }
}

/// How exceptions are followed at the moment. Shared by all threads that throw.
#[derive(Debug, Default)]
pub struct EventState {
    throws: AtomicU64,
    switches: AtomicU32,
    /// Whether sessions are being switched, so that two may run.
    switching: AtomicBool,
    /// Number of the switch since which catches are reported; 0 while they are not.
    catches: AtomicU32,
}

thread_local! {
    // Without a destructor: one that runs at the end of a thread of the target would keep the
    // library mapped.
    /// Where the data of this thread's last throw were, and when it was dealt with, while sessions
    /// were switched.
    static FIRST: Cell<(usize, Nanos)> = const { Cell::new((0, 0)) };
}

/// Two sessions get an event one right after the other; the next exception takes several times as
/// long to come.
const SAME_EVENT: Nanos = 1_500;

impl EventState {
    /// Whether this is an event that another session has told already. While two run, each event
    /// comes twice on its thread, one right after the other and with its data at the same place.
    fn is_second(&self, data: &[u8], now: impl Fn() -> Nanos) -> bool {
        self.switching.load(Acquire)
            && FIRST.try_with(Cell::get).is_ok_and(|(at, dealt_with)| {
                at == data.as_ptr().addr() && now().saturating_sub(dealt_with) < SAME_EVENT
            })
    }

    /// To be called at the end of each event that was no second one.
    fn dealt_with(&self, data: &[u8], now: impl Fn() -> Nanos) {
        if self.switching.load(Acquire) {
            let _ = FIRST.try_with(|first| first.set((data.as_ptr().addr(), now())));
        }
    }
}

/// Decides how far exceptions are followed, by how many there are.
#[derive(Debug)]
pub struct Storm {
    looked: Nanos,
    throws: u64,
    /// When catches are to be followed again; `None` while they are.
    resume: Option<Nanos>,
    /// The runtime refused to go the other way.
    stuck: bool,
    told: bool,
}

impl Storm {
    /// Catches are followed.
    pub fn new(now: Nanos) -> Self {
        Self { looked: now, throws: 0, resume: None, stuck: false, told: false }
    }

    /// To be called every [`LOOK`] or so.
    pub fn look(&mut self, events: &Arc<Exceptions>, host: &Arc<Host>, now: Nanos) {
        let Some(catches) = self.next(events.state.throws.load(Relaxed), now) else { return };
        let (for_thread, of_thread) = (Arc::clone(events), Arc::clone(host));
        let switched =
            late::run(host, START_LIMIT, move || for_thread.switch_here(&of_thread, catches));
        if !matches!(switched, Ok(Some(Ok(())))) {
            self.stuck = true;
            if host.is_shutdown() {
                return;
            }
            host.log(
                LogLevel::Warning,
                "the runtime refused to change how exceptions are recorded".to_owned(),
            );
        } else if !catches && !self.told {
            self.told = true;
            let text = format!(
                "there are more than {STORM_RATE} exceptions per second: all are counted, give or \
                 take one per thread now and then, but who catches them is recorded only in \
                 windows of a tenth of a second every two seconds"
            );
            host.log(LogLevel::Warning, text);
        }
        // Not what was thrown while that was done.
        (self.looked, self.throws) = (clock::monotonic(), events.state.throws.load(Relaxed));
    }

    /// Which way to go from now on, if another: with catches or without.
    fn next(&mut self, throws: u64, now: Nanos) -> Option<bool> {
        let passed = now.saturating_sub(self.looked);
        if self.stuck || passed < LOOK {
            return None;
        }
        if let Some(resume) = self.resume {
            return (now >= resume).then(|| {
                (self.looked, self.throws, self.resume) = (now, throws, None);
                true
            });
        }
        let thrown = throws.saturating_sub(self.throws);
        (self.looked, self.throws) = (now, throws);
        let storm =
            u128::from(thrown) * 1_000_000_000 > u128::from(STORM_RATE) * u128::from(passed);
        storm.then(|| {
            self.resume = Some(now + PAUSE);
            false
        })
    }
}

/// What the event says of an exception: texts in UTF-16, as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thrown<'a> {
    type_name: &'a [u8],
    message: &'a [u8],
}

impl<'a> Thrown<'a> {
    /// Type and message, each ended by a zero, are the first of its fields.
    fn parse(data: &'a [u8]) -> Option<Self> {
        let (type_name, rest) = text(data)?;
        let (message, _) = text(rest)?;
        (!type_name.is_empty()).then_some(Self { type_name, message })
    }
}

/// The units before the next zero, and what follows it.
fn text(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let units = data.chunks_exact(2).position(|unit| unit == [0, 0])?;
    Some((data.get(..units * 2)?, data.get(units * 2 + 2..)?))
}

/// The function that catches: entry address, then the function.
fn catcher(data: &[u8]) -> Option<FunctionId> {
    let function = u64::from_le_bytes(*data.get(8..)?.first_chunk()?);
    FunctionId(usize::try_from(function).ok()?).non_null()
}

fn decode(units: &[u8]) -> String {
    let units =
        units.chunks_exact(2).filter_map(|unit| Some(u16::from_le_bytes(*unit.first_chunk()?)));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

struct EventContext<'a> {
    inner: Context<'a>,
    events: &'a Exceptions,
    thrown: Option<Thrown<'a>>,
}

impl ExceptionCx for EventContext<'_> {
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn second(&self) -> u32 {
        self.inner.second()
    }

    fn os_tid(&self) -> u32 {
        self.inner.os_tid()
    }

    fn class_of(&self, _object: Object) -> Option<Class> {
        self.events.classes.class(self.thrown?.type_name)
    }

    fn message_of(&self, _object: Object) -> Option<String> {
        let message = self.thrown?.message;
        let message = message.get(..message.len().min(MESSAGE_BYTES))?;
        (!message.is_empty()).then(|| decode(message))
    }

    fn catches(&self) -> Option<u32> {
        let catches = self.events.state.catches.load(Acquire);
        (catches != 0).then_some(catches)
    }

    fn own_stack(&self) -> (Vec<u64>, bool) {
        self.inner.own_stack()
    }

    fn send(&self, sample: CallbackSample) {
        self.inner.send(sample);
    }
}

/// Classes that are known by name only. Looked up without a lock. The default has no room: most
/// sessions have no use for it.
#[derive(Debug, Default)]
pub struct EventClasses {
    slots: Box<[(AtomicUsize, OnceLock<String>)]>,
}

impl EventClasses {
    /// Room for all that can come.
    pub fn with_room() -> Self {
        Self { slots: (0..CLASSES).map(|_| Default::default()).collect() }
    }

    /// The class of this name, by a number that no class of the runtime has: those are addresses,
    /// and even.
    fn class(&self, type_name: &[u8]) -> Option<Class> {
        let key = hash(type_name) | 1;
        for step in 0..CLASSES {
            let (taken, name) = self.slots.get((key.wrapping_shr(8) + step) % CLASSES)?;
            let found = taken.load(Acquire);
            if found == key {
                return Some(Class(key));
            }
            // Two threads that meet a class for the first time at once may enter it twice; nobody
            // waits.
            if found == 0 && taken.compare_exchange(0, BEING_NAMED, Relaxed, Relaxed).is_ok() {
                let _ = name.set(decode(type_name));
                taken.store(key, Release);
                return Some(Class(key));
            }
        }
        None
    }

    /// The name of a class as the event has it. Always there for one that [`Self::class`] gave;
    /// `None` for the runtime's own numbers.
    pub fn name(&self, class: Class) -> Option<&str> {
        if class.0 & 1 == 0 {
            return None;
        }
        let (_, name) = self.slots.iter().find(|(taken, _)| taken.load(Acquire) == class.0)?;
        name.get().map(String::as_str)
    }
}

/// 64 bits of a name: a confusion among a thousand classes comes once in 10^13 programs.
fn hash(bytes: &[u8]) -> usize {
    let mut words = bytes.chunks_exact(8);
    let mut hash = bytes.len() as u64;
    for word in words.by_ref() {
        let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        hash = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    for &byte in words.remainder() {
        hash = (hash.rotate_left(11) ^ u64::from(byte)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    }
    (hash ^ hash >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn payloads_are_read_and_cut_ones_are_not() {
        let mut data = utf16("N.Bad\0went wrong\0");
        data.extend([9; 14]);
        let thrown = Thrown::parse(&data).unwrap();
        assert_eq!(
            (decode(thrown.type_name), decode(thrown.message)),
            ("N.Bad".into(), "went wrong".into())
        );
        for length in 0..utf16("N.Bad\0went wrong\0").len() {
            assert_eq!(Thrown::parse(&data[..length]), None, "{length}");
        }
        assert_eq!(Thrown::parse(&utf16("\0\0")), None);
        let mut data = 5u64.to_le_bytes().to_vec();
        data.extend(0x7000u64.to_le_bytes());
        assert_eq!(catcher(&data), Some(FunctionId(0x7000)));
        assert_eq!(catcher(&data[..15]), None);
    }

    #[test]
    fn of_two_sessions_one_counts() {
        let state = EventState::default();
        let (one, other) = ([0u8; 8], [0u8; 8]);
        state.dealt_with(&one, || 100);
        assert!(!state.is_second(&one, || 100), "only one session runs");
        state.switching.store(true, Release);
        state.dealt_with(&one, || 1_000);
        assert!(state.is_second(&one, || 1_100));
        assert!(!state.is_second(&other, || 1_100));
        assert!(!state.is_second(&one, || 4_000), "the next one at the same place");
        state.switching.store(false, Release);
        assert!(!state.is_second(&one, || 1_100));
    }

    #[test]
    fn catches_of_a_storm_are_followed_now_and_then() {
        let mut storm = Storm::new(0);
        // 4,000 per second are none.
        for look in 1..=10 {
            assert_eq!(storm.next(look * 400, look * LOOK), None);
        }
        let mut throws = 4000;
        let mut switches = Vec::new();
        for look in 11..=60 {
            throws += 10_000;
            switches.extend(storm.next(throws, look * LOOK).map(|catches| (look, catches)));
        }
        assert_eq!(switches, [(11, false), (31, true), (32, false), (52, true), (53, false)]);
        for look in 61..=100 {
            switches.extend(storm.next(throws, look * LOOK).map(|catches| (look, catches)));
        }
        assert_eq!(switches.last(), Some(&(73, true)), "the storm is over");
    }

    #[test]
    fn classes_have_one_number_each() {
        let classes = EventClasses::with_room();
        let a = classes.class(&utf16("N.A")).unwrap();
        let b = classes.class(&utf16("N.B`1[System.String]")).unwrap();
        assert_ne!(a, b);
        assert_eq!(classes.class(&utf16("N.A")), Some(a));
        assert_eq!(classes.name(a), Some("N.A"));
        assert_eq!(classes.name(b), Some("N.B`1[System.String]"));
        assert_eq!(classes.name(Class(0x7f00_0000)), None);
        assert_eq!(classes.name(Class(0x7f00_0001)), None);
        for number in 0..CLASSES {
            classes.class(&utf16(&format!("N.Of{number}")));
        }
        assert_eq!(classes.class(&utf16("N.Further")), None);
        assert_eq!(EventClasses::default().class(&utf16("N.A")), None);
    }
}
