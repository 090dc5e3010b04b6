//! The system calls around `perf_event_open(2)`, and how an event is set up.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use perf_event_open_sys as sys;
use rustix::time::ClockId;
use sys::bindings::{self, perf_event_attr};

use super::registers::USER_REGISTERS;

/// What of an event depends on what the system allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    /// Sample user space only: what `perf_event_paranoid` 2 demands of ordinary users.
    pub(super) user_only: bool,
    /// Put the count of CPU time into each sample. Together with inheritance only since Linux 6.12.
    pub(super) read: bool,
    /// Let threads inherit the event, but not other processes. Since Linux 5.13.
    pub(super) threads_only: bool,
}

/// How an event samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// Nanoseconds of CPU time between samples.
    pub(super) period: u64,
    /// How much of the stack is copied, a multiple of 8.
    pub(super) stack_bytes: u32,
    /// Wake the reader when this many bytes are in the ring.
    pub(super) watermark: u32,
}

/// What an event is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whom {
    /// Whoever runs on a processor. It must be switched on ([`enable`]) when its filter is on it.
    Processor { number: u32 },
    /// A thread while it is on a processor. It samples at once, and is inherited by the threads
    /// that this one creates.
    Thread { tid: u32, on: u32 },
    /// The calling thread. It must be switched on ([`enable`]).
    Own,
}

/// Opens an event.
pub(super) fn open(setup: &Setup, variant: Variant, whom: Whom) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr {
        type_: bindings::PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        // Of a thread it runs only while the thread is on the processor. `task-clock` does the
        // same, but its count goes through the clock of the whole context, which does not run while
        // sampling is paused.
        config: u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK),
        sample_regs_user: USER_REGISTERS,
        sample_stack_user: setup.stack_bytes,
        clockid: ClockId::Monotonic as i32,
        ..perf_event_attr::default()
    };
    attributes.__bindgen_anon_1.sample_period = setup.period;
    attributes.__bindgen_anon_2.wakeup_watermark = setup.watermark;
    attributes.sample_type = u64::from(
        bindings::PERF_SAMPLE_TID
            | bindings::PERF_SAMPLE_TIME
            | bindings::PERF_SAMPLE_ID
            | bindings::PERF_SAMPLE_STREAM_ID
            | bindings::PERF_SAMPLE_CALLCHAIN
            | bindings::PERF_SAMPLE_REGS_USER
            | bindings::PERF_SAMPLE_STACK_USER,
    );
    if variant.read {
        attributes.sample_type |= u64::from(bindings::PERF_SAMPLE_READ);
    }
    let number = |number: u32| i32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput);
    let (tid, processor) = match whom {
        Whom::Processor { number: processor } => {
            attributes.set_disabled(1);
            attributes.set_exclude_idle(1);
            (-1, number(processor)?)
        }
        Whom::Own => {
            attributes.set_disabled(1);
            (0, -1)
        }
        Whom::Thread { tid, on } => {
            attributes.set_inherit(1);
            attributes.set_inherit_thread(variant.threads_only.into());
            (number(tid)?, number(on)?)
        }
    };
    attributes.set_exclude_kernel(variant.user_only.into());
    attributes.set_exclude_hv(1);
    attributes.set_exclude_callchain_kernel(1);
    attributes.set_watermark(1);
    attributes.set_sample_id_all(1);
    attributes.set_use_clockid(1);
    attributes.set_mmap(1);
    attributes.set_mmap2(1);
    attributes.set_comm(1);
    attributes.set_comm_exec(1);
    attributes.set_task(1);
    // SAFETY: `attributes` is a whole, initialised attribute block of the size that it states; the
    // kernel copies it and does not keep the pointer. The event only samples; it changes no memory
    // of ours.
    let fd = unsafe {
        sys::perf_event_open(
            &mut attributes,
            tid,
            processor,
            -1,
            bindings::PERF_FLAG_FD_CLOEXEC.into(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this descriptor, so it is open and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Switches an event on.
pub(super) fn enable(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: it is an open event; the call only starts it.
    check(unsafe { sys::ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Switches an event off.
pub(super) fn disable(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: it is an open event; the call only stops it.
    check(unsafe { sys::ioctls::DISABLE(event.as_raw_fd(), 0) })
}

/// Lets an event write into the ring of another one of the same processor.
pub(super) fn redirect(event: &OwnedFd, ring: &OwnedFd) -> io::Result<()> {
    // SAFETY: both are open events; the call changes only where the first one writes to.
    check(unsafe { sys::ioctls::SET_OUTPUT(event.as_raw_fd(), ring.as_raw_fd()) })
}

/// The id that an event puts into its samples, the inherited ones included.
pub(super) fn id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: the kernel writes one `u64` to the address given, which is a local variable of that
    // type.
    check(unsafe { sys::ioctls::ID(event.as_raw_fd(), &mut id) })?;
    Ok(id)
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
