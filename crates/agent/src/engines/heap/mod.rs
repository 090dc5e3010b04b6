//! Heap snapshots.
//!
//! A thread of the agent induces a collection with the garbage collector's callbacks switched on.
//! The runtime then reports every root and every surviving object, one after another on one thread,
//! while it is suspended. These reports are encoded into one buffer of fixed size, and the callback
//! itself writes each full buffer to clrscope. So a snapshot of a heap of any size takes a few
//! megabytes. If clrscope does not read, the snapshot is given up and the runtime resumes.
//!
//! Only numbers are recorded while the runtime is suspended; names are queried afterwards. Where
//! tasks keep their states is queried afterwards, too, so these states are read from the second
//! snapshot on ([`crate::engines::heap::async_state_machines`]).

pub mod async_state_machines;
pub mod object_fields;
pub mod pending_tasks;
mod snapshot;
pub mod static_fields;

use crate::engines::heap::async_state_machines::Machines;
use crate::engines::heap::static_fields::Unfinished;
use crate::engines::snapshots::{Abort, Reported, STARTED, Slot, Taken, Teller, UNREAD};
use crate::host::counters::Counters;
use crate::host::unloads::Unloaded;
use crate::host::{Host, Phase};
use crate::os::clock;
use crate::os::connection::Outgoing;
use corprof::callback::{CollectedGenerations, GcGeneration, GcReason};
use profilers::heap::{HeapSettings, SnapshotKind};
use snapshot::{Snapshot, Strings};
use std::collections::HashSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wire::{HeapEnd, Nanos, Record};

/// The snapshot that is under way, where one is, as callbacks see it.
#[derive(Default)]
pub struct Heap {
    slot: Slot<Snapshot>,
    /// Whether the snapshot is for a collection that is not full.
    waits_for_small: AtomicBool,
}

impl Heap {
    /// Handles the start of a collection. `suspended` is when the runtime was asked to suspend.
    pub fn collection_started(
        &self,
        collected: CollectedGenerations<'_>,
        reason: GcReason,
        suspended: Nanos,
    ) {
        let fits = match collected.contains(GcGeneration::GEN_2) {
            // One that the program asks for just now is as good as ours.
            true => reason == GcReason::INDUCED && !self.waits_for_small.load(Relaxed),
            false => self.waits_for_small.load(Relaxed),
        };
        if fits {
            self.slot.begin(suspended);
        }
    }

    /// What the callbacks of a collection are reported to.
    pub fn reported(&self) -> &Slot<impl Reported + use<>> {
        &self.slot
    }

    /// Handles the end of the suspension: the runtime has resumed.
    pub fn resumed(&self, now: Nanos) {
        self.slot.resumed(now);
    }

    /// Takes the snapshots that are wanted.
    pub fn run(&self, host: &Host, outgoing: &Outgoing, settings: HeapSettings) {
        let Some(teller) = Teller::new(host, outgoing, "heap snapshots") else { return };
        let machines = settings.tasks.then(Machines::default);
        let mut looker = Walker {
            heap: self,
            host,
            outgoing,
            teller,
            settings,
            machines,
            gone: host.unloaded().modules,
        };
        // Otherwise the runtime would report each collection. Events that were requested while the
        // agent attached can be switched off and on later.
        looker.teller.listen(looker.teller.quiet);
        let every = settings.every * 1_000_000_000;
        // A launched process has nothing yet.
        let mut next = host.entered + if host.config.launched { every } else { 0 };
        for number in 0..settings.snapshots {
            if host.config.launched && number == 0 {
                // The runtime sets our events once more as it finishes to start us.
                looker.teller.wait(next.min(host.entered + STARTED), || false);
                looker.teller.listen(looker.teller.quiet);
            }
            looker.teller.wait(next, || false);
            if host.phase() == Phase::Stopping {
                return;
            }
            next = clock::monotonic() + every;
            let begun = clock::thread_cpu();
            let looked = looker.snapshot(number);
            host.tick_cpu.fetch_add(clock::thread_cpu().saturating_sub(begun), Relaxed);
            // A connection that is gone ends the session.
            if looked.is_err() {
                host.advance(Phase::Stopping);
                return;
            }
        }
    }

    /// Bytes that the snapshot under way holds.
    pub fn memory(&self) -> usize {
        self.slot.memory()
    }
}

struct Walker<'a> {
    heap: &'a Heap,
    host: &'a Host,
    outgoing: &'a Outgoing,
    teller: Teller<'a>,
    settings: HeapSettings,
    /// What is known of tasks, where that is wanted.
    machines: Option<Machines>,
    /// How many modules had been unloaded when that was asked for.
    gone: u64,
}

impl Walker<'_> {
    fn snapshot(&mut self, number: u32) -> io::Result<()> {
        let host = self.host;
        let kind = self.settings.kind;
        let wants_strings = self.settings.strings && kind == SnapshotKind::All;
        let find = || host.runtime.unloads().hold_all(|| Strings::find(&host.runtime));
        let strings = wants_strings.then(find).flatten();
        let lacks_strings = wants_strings && strings.is_none();
        let time = clock::monotonic();
        self.teller.send([Record::HeapBegin { snapshot: number, time }])?;
        let unloaded = host.unloaded();
        if unloaded.modules != self.gone {
            // Which classes have gone is not known, and others may come in their places.
            self.gone = unloaded.modules;
            self.machines.iter_mut().for_each(Machines::forget);
        }
        let plans = self.machines.as_ref().map(|machines| Arc::clone(&machines.plans));
        let deadline = time + self.settings.limit * 1_000_000_000;
        let snapshot = Snapshot::new(number, kind, self.outgoing, strings, plans, deadline);
        let (taken, forced) = self.collect(snapshot, deadline);
        let (told, paused) = (taken.told, taken.paused);
        let Some(mut snapshot) = taken.snapshot else { return Ok(()) };
        snapshot.chunks.finish()?;
        let complete = told && snapshot.chunks.abort.is_none();
        let lacks = self.send_names(number, &mut snapshot, unloaded, complete)?;
        let reason = self.why_incomplete(&snapshot, forced, told).or_else(|| match lacks {
            _ if snapshot.targets_lost > 0 => {
                Some(format!("the objects of {} roots", snapshot.targets_lost))
            }
            Some(lacks) => Some(lacks),
            None => lacks_strings.then(|| "the contents of strings".to_owned()),
        });
        let end = HeapEnd {
            snapshot: number,
            time: clock::monotonic(),
            paused,
            objects: snapshot.chunks.objects,
            complete,
            reason,
        };
        self.teller.send([Record::HeapEnd(end)])
    }

    /// Lets a collection be reported to a snapshot: one that is induced, or for a snapshot of roots
    /// the program's next one.
    fn collect(&self, snapshot: Snapshot, deadline: Nanos) -> (Taken<Snapshot>, Forced) {
        let (heap, kind) = (self.heap, self.settings.kind);
        let memory = snapshot.memory();
        heap.waits_for_small.store(kind == SnapshotKind::Roots, Relaxed);
        heap.slot.arm(Box::new(snapshot), memory);
        // Whatever happens, the runtime must not be left telling.
        let forced = catch_unwind(AssertUnwindSafe(|| {
            if !self.teller.listen(self.teller.telling) {
                return Forced::NotReported;
            }
            if kind == SnapshotKind::Roots {
                self.teller.wait(deadline, || heap.slot.is_told());
                return Forced::Yes;
            }
            self.host.runtime.info().force_gc().map_or_else(Forced::Refused, |()| Forced::Yes)
        }));
        // A collection that is being reported must be received to its end.
        let taken = heap.slot.disarm();
        self.teller.listen(self.teller.quiet);
        (taken, forced.unwrap_or(Forced::Fault))
    }

    /// Sends the names of what a snapshot met; says what is missing of them.
    fn send_names(
        &mut self,
        number: u32,
        snapshot: &mut Snapshot,
        unloaded: Unloaded,
        complete: bool,
    ) -> io::Result<Option<String>> {
        let teller = &self.teller;
        let met = (&snapshot.classes, &snapshot.methods);
        let unnamed = teller.send_names(number, met, unloaded, &mut HashSet::new())?;
        let gone = unloaded.modules;
        let mut unfinished = None;
        if complete {
            if let Some(statics) = &snapshot.statics {
                unfinished = teller.send_statics(number, statics)?;
            }
            teller.send_fields(number, &snapshot.with_fields, gone)?;
        }
        snapshot.plans = None;
        let unplanned = match &mut self.machines {
            Some(machines) => teller.send_machines(number, &snapshot.classes, machines, gone)?,
            None => 0,
        };
        Ok(match unfinished {
            _ if unnamed > 0 => Some(format!("the names of {unnamed} classes or methods")),
            _ if unplanned > 0 => Some(format!("the states of tasks of {unplanned} classes")),
            Some(Unfinished::Late) => Some("the names of some static fields".to_owned()),
            Some(Unfinished::Edited) => Some(
                "the names of static fields, because a debugger is attached or hot reload is on"
                    .to_owned(),
            ),
            None => None,
        })
    }

    /// Why a snapshot does not have all that it should, if it does not.
    fn why_incomplete(&self, snapshot: &Snapshot, forced: Forced, told: bool) -> Option<String> {
        let (host, limit) = (self.host, self.settings.limit);
        let waits_for_small = self.settings.kind == SnapshotKind::Roots;
        let reason = match (snapshot.chunks.abort, forced) {
            (Some(Abort::Stopped), _) => "the recording was stopped".to_owned(),
            (Some(Abort::Late), _) => format!("it took longer than {limit} s"),
            (Some(Abort::Unread), _) => UNREAD.to_owned(),
            (_, Forced::Refused(error)) => format!("the runtime refused to collect: {error}"),
            (_, Forced::NotReported) => "the runtime does not report collections".to_owned(),
            (_, Forced::Fault) => {
                Counters::add(&host.counters.panics, 1);
                "a fault in clrscope".to_owned()
            }
            _ if told => return None,
            _ if waits_for_small && host.phase() == Phase::Stopping => {
                "the recording was stopped".to_owned()
            }
            _ if waits_for_small => format!(
                "the program made no collection of its youngest objects within {limit} s, and a \
                    snapshot of roots needs one; a full snapshot forces a collection"
            ),
            _ => "the runtime made no full collection".to_owned(),
        };
        Some(reason)
    }
}

/// What became of the request for a collection.
enum Forced {
    /// It was made, or is not needed.
    Yes,
    /// The runtime would not report it.
    NotReported,
    /// The runtime refused.
    Refused(corprof::info::Error),
    /// We panicked.
    Fault,
}
