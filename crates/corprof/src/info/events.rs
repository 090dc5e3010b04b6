//! The event mask, and what may be asked during a callback.

use super::ProfilerInfo;
use super::call::{check, raw};
use super::error::{Error, Result};
use crate::abi::{COR_PRF_CLAUSE_TYPE, COR_PRF_EX_CLAUSE_INFO};
use crate::events::EventMask;

/// The exception clause that is being entered or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceptionClause {
    /// Its kind.
    pub kind: COR_PRF_CLAUSE_TYPE,
    /// Native address of its handler.
    pub program_counter: usize,
    /// Frame pointer of its handler.
    pub frame_pointer: usize,
    /// Shadow stack pointer; 0 on today's processors.
    pub shadow_stack_pointer: usize,
}

impl ProfilerInfo {
    /// The events that are on (`GetEventMask2`; `GetEventMask` before .NET Framework 4.5.2).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn event_mask(&self) -> Result<EventMask> {
        let (mut low, mut high) = (0, 0);
        match self.info5() {
            Ok(info) => check("GetEventMask2", raw!(*info, GetEventMask2(&mut low, &mut high)))?,
            Err(_) => check("GetEventMask", raw!(self.raw, GetEventMask(&mut low)))?,
        }
        Ok(EventMask::from_words(low, high))
    }

    /// Sets which events are delivered and which abilities are on (`SetEventMask2`; `SetEventMask`
    /// where that is missing and only the lower half is used).
    ///
    /// # Errors
    /// `CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER` or `E_FAIL` for a flag that cannot be set
    /// (any more); `CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE` for `GC` at any time but in
    /// `InitializeForAttach`; [`Error::NeedsRuntime`] if the upper half is used on a runtime that
    /// does not have it; `CORPROF_E_PROFILER_DETACHING` after `Shutdown`.
    pub fn set_event_mask(&self, mask: EventMask) -> Result<()> {
        self.before_the_end("SetEventMask2", || match self.info5() {
            Ok(info) => check("SetEventMask2", raw!(*info, SetEventMask2(mask.low(), mask.high()))),
            Err(error @ Error::NeedsRuntime { .. }) if mask.high() != 0 => Err(error),
            Err(_) => check("SetEventMask", raw!(self.raw, SetEventMask(mask.low()))),
        })
    }

    /// The exception clause that the calling thread is about to run or has just left
    /// (`GetNotifiedExceptionClauseInfo`): inside the callbacks for finally and catch blocks.
    /// `None` elsewhere.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn notified_exception_clause(&self) -> Result<Option<ExceptionClause>> {
        let mut clause = COR_PRF_EX_CLAUSE_INFO::default();
        let known = super::call::check_s_ok(
            "GetNotifiedExceptionClauseInfo",
            raw!(self.raw, GetNotifiedExceptionClauseInfo(&mut clause)),
        )?;
        Ok(known.then_some(ExceptionClause {
            kind: clause.clause_type,
            program_counter: clause.program_counter,
            frame_pointer: clause.frame_pointer,
            shadow_stack_pointer: clause.shadow_stack_pointer,
        }))
    }
}
