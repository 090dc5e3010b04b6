#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use unwind::Registers;
use wire::ring::{Layout, REGISTERS, slot_state};

use crate::{Nanos, ReturnAddresses, SharedRingCounters, SharedRingError, ThreadSample};

/// More than any ring of ours.
const LARGEST: u64 = 1 << 30;

// Offsets in a slot and in the header, see `wire::ring`.
const STATE: usize = 0;
const TID: usize = 4;
const TIME: usize = 8;
const FIRST_REGISTER: usize = 16;
const STACK_LENGTH: usize = 152;
const OVERRUNS: usize = 156;
const DROPPED_FULL: usize = 8;
const DROPPED_STACK: usize = 16;

/// The reading end of the ring that the agent's signal handlers fill.
///
/// The target can write whatever it likes into the ring at any time. So a slot is copied before it
/// is looked at, with reads that may race, and what makes no sense is left out.
pub struct SharedRing {
    base: NonNull<u8>,
    layout: Layout,
    period: Nanos,
    /// A slot, copied.
    slot: Vec<u8>,
    counters: SharedRingCounters,
}

// SAFETY: the mapping belongs to this value alone and may be used from any thread; all access to it
// is atomic.
unsafe impl Send for SharedRing {}

impl SharedRing {
    /// Maps a ring. `period` is the CPU time between two ticks of its timers.
    ///
    /// # Errors
    ///
    /// See [`SharedRingError`]. The memory file must have been made with `MFD_ALLOW_SEALING`, so
    /// that it can be sealed against shrinking.
    pub fn open(file: impl AsFd, layout: Layout, period: Nanos) -> Result<Self, SharedRingError> {
        let Layout { slots, slot_size } = layout;
        let expected = Layout::HEADER as u64 + u64::from(slots) * u64::from(slot_size);
        if slots == 0
            || slot_size as usize <= Layout::SLOT_HEADER
            || slot_size % 64 != 0
            || expected > LARGEST
        {
            return Err(SharedRingError::BadLayout { slots, slot_size });
        }
        let file = file.as_fd();
        // It may be sealed already, and then no seal may be added any more: what counts is that it
        // is.
        let added = fcntl_add_seals(file, SealFlags::SHRINK);
        match fcntl_get_seals(file) {
            Ok(seals) if seals.contains(SealFlags::SHRINK) => {}
            Ok(_) => {
                return Err(SharedRingError::NotSealed(
                    added.err().map_or_else(|| io::ErrorKind::Other.into(), io::Error::from),
                ));
            }
            Err(errno) => return Err(SharedRingError::NotSealed(errno.into())),
        }
        let size = fstat(file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or_default());
        if size < expected {
            return Err(SharedRingError::TooSmall { size, expected });
        }
        // SAFETY: a new mapping at an address of the kernel's choice: no memory of ours is touched.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                layout.size(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        let base = base.map_err(|errno| SharedRingError::NotMapped(errno.into()))?;
        let base = NonNull::new(base.cast())
            .ok_or_else(|| SharedRingError::NotMapped(io::ErrorKind::OutOfMemory.into()))?;
        let slot = vec![0; slot_size as usize];
        Ok(Self { base, layout, period, slot, counters: SharedRingCounters::default() })
    }

    /// Hands out all samples that are ready, and frees their slots. They come in no particular
    /// order.
    pub fn drain(&mut self, mut handle: impl FnMut(ThreadSample<'_>)) {
        for index in 0..self.layout.slots as usize {
            let at = Layout::HEADER + index * self.layout.slot_size as usize;
            if self.half(at + STATE).load(Ordering::Acquire) != slot_state::READY {
                continue;
            }
            let mut slot = std::mem::take(&mut self.slot);
            for (bytes, offset) in slot.as_chunks_mut::<8>().0.iter_mut().zip((at..).step_by(8)) {
                *bytes = self.word(offset).load(Ordering::Relaxed).to_ne_bytes();
            }
            // A handler leaves a slot alone while it is READY. If it is not any more, what was
            // copied may be torn.
            let freed = self.half(at + STATE).compare_exchange(
                slot_state::READY,
                slot_state::FREE,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match freed.ok().and_then(|_| parse(&slot, self.period)) {
                Some(sample) => {
                    self.counters.samples += 1;
                    handle(sample);
                }
                None => self.counters.malformed += 1,
            }
            self.slot = slot;
        }
    }

    /// What was counted since the ring was opened, the handlers' own counts included.
    pub fn counters(&self) -> SharedRingCounters {
        SharedRingCounters {
            dropped_full: self.word(DROPPED_FULL).load(Ordering::Relaxed),
            dropped_stack: self.word(DROPPED_STACK).load(Ordering::Relaxed),
            ..self.counters
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= self.layout.size() && offset.is_multiple_of(8));
        // SAFETY: the offset was just checked to be aligned and inside of the mapping, which cannot
        // shrink (it is sealed) and lives as long as `self`. All access to it is atomic, so a
        // writing target is no data race.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.layout.size() && offset.is_multiple_of(4));
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }
}

impl Drop for SharedRing {
    fn drop(&mut self) {
        // SAFETY: this is exactly what was mapped, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.layout.size()) };
    }
}

/// Reads the copy of a slot. `None` if it makes no sense.
fn parse(slot: &[u8], period: Nanos) -> Option<ThreadSample<'_>> {
    let half = |at: usize| slot.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let word = |at: usize| slot.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let tid = half(TID)?;
    let mut values = [0; REGISTERS];
    for (index, value) in values.iter_mut().enumerate() {
        *value = word(FIRST_REGISTER + index * 8)?;
    }
    let length = usize::try_from(half(STACK_LENGTH)?).ok()?;
    let stack = slot.get(Layout::SLOT_HEADER..Layout::SLOT_HEADER.checked_add(length)?)?;
    let ticks = 1 + u64::from(half(OVERRUNS)?);
    let registers = registers(&values)?;
    (tid != 0).then_some(ThreadSample {
        time: word(TIME)?,
        tid,
        cpu: period.saturating_mul(ticks),
        in_kernel: false,
        registers,
        stack,
        callers: ReturnAddresses::default(),
    })
}

#[cfg(target_arch = "x86_64")]
fn registers(values: &[u64; REGISTERS]) -> Option<Registers> {
    Some(Registers::from_slots(values))
}

/// The ring's registers are those of x86-64, so there is no such ring here.
#[cfg(not(target_arch = "x86_64"))]
fn registers(_values: &[u64; REGISTERS]) -> Option<Registers> {
    None
}
