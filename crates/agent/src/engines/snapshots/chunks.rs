//! The way of reported data to clrscope while the runtime is suspended.

use super::{CALM_LIMIT, WRITE_LIMIT};
use crate::host::{Host, Phase};
use crate::os::clock;
use crate::os::connection::Outgoing;
use corprof::callback::{DependentReference, GcRootKind, Root};
use corprof::ids::RawObjectId;
use std::io;
use wire::Nanos;
use wire::frame;
use wire::heap::{Encoder, MAX_CHUNK, RootKind};

/// Bytes that may wait for clrscope meanwhile, so that one that is only slow is not waited for at
/// all.
const MOST_WAITING: usize = 8 << 20;

/// Why a snapshot ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// The recording ends.
    Stopped,
    /// It took too long.
    Late,
    /// clrscope does not read. What is left of the last frame comes later.
    Unread,
    /// clrscope is gone.
    Gone,
}

/// Reported data on its way to clrscope: it is encoded into one buffer, which is written whenever
/// it is full.
pub struct Chunks {
    number: u32,
    outgoing: Outgoing,
    /// Where the next item goes, once [`Self::has_room`] has said that it fits.
    pub encoder: Encoder,
    /// Objects seen.
    pub objects: u64,
    /// When the snapshot is given up.
    pub deadline: Nanos,
    /// Why it was given up.
    pub abort: Option<Abort>,
}

impl Chunks {
    /// Those of a snapshot.
    pub fn new(number: u32, outgoing: &Outgoing, deadline: Nanos) -> Self {
        let (outgoing, encoder) = (outgoing.clone(), Encoder::new(MAX_CHUNK));
        Self { number, outgoing, encoder, objects: 0, deadline, abort: None }
    }

    /// Begins another snapshot with the same buffer.
    pub fn restart(&mut self, number: u32, deadline: Nanos) {
        self.encoder.clear();
        (self.number, self.deadline, self.objects, self.abort) = (number, deadline, 0, None);
    }

    /// Whether there is room for the next item; makes some if need be. False once the snapshot is
    /// given up.
    pub fn has_room(&mut self, host: &Host) -> bool {
        self.encoder.has_room() && self.abort.is_none() || self.make_room(host)
    }

    #[cold]
    fn make_room(&mut self, host: &Host) -> bool {
        if self.abort.is_none() {
            self.abort = if host.phase() == Phase::Stopping {
                Some(Abort::Stopped)
            } else if clock::monotonic() >= self.deadline {
                Some(Abort::Late)
            } else {
                self.send(MOST_WAITING, WRITE_LIMIT).err()
            };
        }
        self.abort.is_none()
    }

    /// Adds a root that refers to something, for which there is room. Says of what kind it is.
    #[inline]
    pub fn root(&mut self, target: RawObjectId, root: &Root) -> RootKind {
        let kind = match root.kind {
            GcRootKind::STACK => RootKind::Stack,
            GcRootKind::FINALIZER => RootKind::Finalizer,
            GcRootKind::HANDLE => RootKind::Handle,
            _ => RootKind::Other,
        };
        // The runtime's flags are those of the format.
        self.encoder.root(target.0 as u64, kind, root.flags.0 as u8, root.id as u64);
        kind
    }

    /// Adds an entry of a `ConditionalWeakTable`, for which there is room.
    #[inline]
    pub fn dependent(&mut self, reference: &DependentReference) {
        let (key, value) = (reference.key.0 as u64, reference.value.0 as u64);
        self.encoder.dependent(reference.handle.0 as u64, key, value);
    }

    /// Adds where generations lie.
    pub fn generations(&mut self, host: &Host) {
        for range in host.runtime.info().generation_bounds().unwrap_or_default() {
            if self.has_room(host) {
                let generation = u8::try_from(range.generation.0).unwrap_or(u8::MAX);
                let (start, used, reserved) =
                    (range.start as u64, range.used as u64, range.reserved as u64);
                self.encoder.generation(generation, start, used, reserved);
            }
        }
    }

    /// Writes what is left, if the snapshot was not given up. Says whether clrscope reads.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.abort.is_none() {
            self.abort = self.send(0, CALM_LIMIT).err();
        }
        match self.abort {
            Some(Abort::Gone) => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }

    /// Writes the chunk and begins the next. Up to `most` bytes may wait for clrscope.
    fn send(&mut self, most: usize, limit: Nanos) -> Result<(), Abort> {
        let bytes = self.encoder.bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let head = frame::head_of_chunk(self.number, self.objects, bytes.len());
        let sent = self.outgoing.send_later([&head, bytes], most, limit);
        self.encoder.clear();
        match sent {
            Ok(true) => Ok(()),
            Ok(false) => Err(Abort::Unread),
            Err(_) => Err(Abort::Gone),
        }
    }
}
