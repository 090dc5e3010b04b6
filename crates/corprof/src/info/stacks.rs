//! Stack snapshots.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::ControlFlow;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use com::HResult;
use com::codes::CORPROF_E_STACKSNAPSHOT_ABORTED;
use com::hresult::{S_FALSE, S_OK};

use super::ProfilerInfo;
use super::call::{blob, check, raw};
use super::error::Result;
use crate::abi::COR_PRF_FRAME_INFO;
use crate::ids::{FunctionId, ThreadId};

/// How a snapshot is taken (`COR_PRF_SNAPSHOT_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFlags(pub u32);

impl SnapshotFlags {
    /// Only the frames.
    pub const DEFAULT: Self = Self(0);
    /// Each frame with its registers.
    pub const REGISTERS: Self = Self(1);
    /// A faster walk along EBP, on 32-bit x86 only.
    pub const X86_OPTIMIZED: Self = Self(2);
}

/// A frame as the runtime refers to it; good only inside the call that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo<'cx> {
    raw: COR_PRF_FRAME_INFO,
    scope: PhantomData<&'cx ()>,
}

impl FrameInfo<'_> {
    /// The number that crosses the ABI.
    #[must_use]
    pub const fn raw(self) -> COR_PRF_FRAME_INFO {
        self.raw
    }

    /// From the number that a callback or hook gave.
    ///
    /// # Safety
    /// It is a frame of the calling thread (or of the thread being walked) that stays active during
    /// the lifetime.
    #[must_use]
    pub const unsafe fn from_raw(raw: COR_PRF_FRAME_INFO) -> Self {
        Self { raw, scope: PhantomData }
    }
}

/// One frame of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct StackFrame<'cx> {
    /// The function; `None` for a run of native frames.
    pub function: Option<FunctionId>,
    /// Instruction pointer; a return address in all but the leaf. For a run of native frames, the
    /// most inner one's.
    pub ip: usize,
    /// For [`ProfilerInfo::function_info2`], to tell instantiations of shared code apart.
    pub frame: FrameInfo<'cx>,
    /// The platform's `CONTEXT` structure, if [`SnapshotFlags::REGISTERS`] asked for it, else
    /// empty.
    pub context: &'cx [u8],
}

/// A closure on its way through the runtime and back: panics are caught at the border and continue
/// on this side.
pub(super) struct Visitor<F> {
    visit: F,
    panic: Option<Box<dyn Any + Send>>,
}

impl<F> Visitor<F> {
    pub(super) const fn new(visit: F) -> Self {
        Self { visit, panic: None }
    }

    /// Calls the closure; `None` if it panicked, now or before.
    pub(super) fn call<R>(&mut self, call: impl FnOnce(&mut F) -> R) -> Option<R> {
        if self.panic.is_some() {
            return None;
        }
        match catch_unwind(AssertUnwindSafe(|| call(&mut self.visit))) {
            Ok(result) => Some(result),
            Err(panic) => {
                self.panic = Some(panic);
                None
            }
        }
    }

    /// Continues the panic of the closure, if it panicked.
    pub(super) fn finish(self) {
        if let Some(panic) = self.panic {
            resume_unwind(panic);
        }
    }
}

impl ProfilerInfo {
    /// Walks a thread's managed frames, leaf first (`DoStackSnapshot`); `None` is the calling
    /// thread. A run of native frames comes as one frame without a function.
    ///
    /// Walking another thread requires a suspended runtime ([`Self::suspend_runtime`]) or a
    /// suspended thread. `seed` is a `CONTEXT` of the target to start from. `visit` must neither
    /// block nor call managed code; it may end the walk early, which counts as success. If it
    /// panics, the walk ends and the panic continues from here.
    ///
    /// # Errors
    /// `CORPROF_E_INCONSISTENT_WITH_FLAGS` unless the event mask has `ENABLE_STACK_SNAPSHOT`;
    /// `CORPROF_E_STACKSNAPSHOT_UNSAFE`, `CORPROF_E_STACKSNAPSHOT_UNMANAGED_CTX` and
    /// `CORPROF_E_STACKSNAPSHOT_INVALID_TGT_THREAD` if the target cannot be walked now; `E_FAIL` if
    /// it has no managed frames.
    pub fn stack_snapshot(
        &self,
        thread: Option<ThreadId>,
        flags: SnapshotFlags,
        seed: Option<&[u8]>,
        visit: impl FnMut(&StackFrame<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        struct Walk<F> {
            visitor: Visitor<F>,
            broken_off: bool,
        }
        unsafe extern "system" fn each<F: FnMut(&StackFrame<'_>) -> ControlFlow<()>>(
            function: FunctionId,
            ip: usize,
            frame: COR_PRF_FRAME_INFO,
            context_size: u32,
            context: *mut u8,
            walk: *mut c_void,
        ) -> HResult {
            // SAFETY: the runtime passes back what we gave it, and calls from the calling thread
            // only.
            let walk = unsafe { &mut *walk.cast::<Walk<F>>() };
            let frame = StackFrame {
                function: function.non_null(),
                ip,
                // SAFETY: the frame is active while this callback runs, and the closure cannot keep
                // it longer.
                frame: unsafe { FrameInfo::from_raw(frame) },
                // SAFETY: the context has that size and stays as it is while this callback runs.
                context: unsafe { blob(context, context_size) },
            };
            match walk.visitor.call(|visit| visit(&frame)) {
                Some(ControlFlow::Continue(())) => S_OK,
                Some(ControlFlow::Break(())) | None => {
                    walk.broken_off = true;
                    S_FALSE
                }
            }
        }
        fn callback_of<F: FnMut(&StackFrame<'_>) -> ControlFlow<()>>(
            _: &Walk<F>,
        ) -> crate::abi::StackSnapshotCallback {
            each::<F>
        }
        let mut walk = Walk { visitor: Visitor::new(visit), broken_off: false };
        let callback = callback_of(&walk);
        let (context, context_size) =
            seed.map_or((core::ptr::null(), 0), |seed| (seed.as_ptr(), seed.len() as u32));
        let hresult = raw!(
            self.raw,
            DoStackSnapshot(
                thread.unwrap_or_default(),
                Some(callback),
                flags.0,
                (&raw mut walk).cast(),
                context,
                context_size,
            )
        );
        walk.visitor.finish();
        if walk.broken_off && hresult == CORPROF_E_STACKSNAPSHOT_ABORTED {
            return Ok(());
        }
        check("DoStackSnapshot", hresult)
    }
}
