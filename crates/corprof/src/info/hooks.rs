//! Enter, leave and tailcall hooks, and what they may ask.
//!
//! The hooks themselves are called with the registers of the hooked method live, so they are
//! assembly, and setting them is `unsafe`. They can be set only while the profiler is initialized
//! at launch.

use core::ffi::c_void;

use super::ProfilerInfo;
use super::call::{check, raw};
use super::error::{Error, Result};
use super::stacks::FrameInfo;
use crate::abi::*;
use crate::ids::FunctionId;

/// Where one argument, or a part of it, lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentRange {
    /// First address.
    pub start: usize,
    /// Length in bytes.
    pub length: u32,
}

/// Where a call's arguments lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentInfo<'cx> {
    /// The frame, for [`ProfilerInfo::function_info2`].
    pub frame: FrameInfo<'cx>,
    /// Size of all arguments in bytes.
    pub total_size: u32,
    /// Where they are, left to right, `this` first.
    pub ranges: Vec<ArgumentRange>,
}

impl ProfilerInfo {
    /// Sets the hooks of .NET Framework 1.0 (`SetEnterLeaveFunctionHooks`).
    ///
    /// # Safety
    /// The functions keep to the hooks' calling convention: they preserve every register, and stay
    /// loaded for as long as the process lives.
    ///
    /// # Errors
    /// `CORPROF_E_CALL_ONLY_FROM_INIT`, `E_NOTIMPL` on runtimes without them.
    pub unsafe fn set_enter_leave_hooks(
        &self,
        enter: Option<FunctionEnter>,
        leave: Option<FunctionLeave>,
        tailcall: Option<FunctionTailcall>,
    ) -> Result<()> {
        check(
            "SetEnterLeaveFunctionHooks",
            raw!(self.raw, SetEnterLeaveFunctionHooks(enter, leave, tailcall)),
        )
    }

    /// Sets the hooks of .NET Framework 2.0 (`SetEnterLeaveFunctionHooks2`).
    ///
    /// # Safety
    /// As [`Self::set_enter_leave_hooks`].
    ///
    /// # Errors
    /// As [`Self::set_enter_leave_hooks`].
    pub unsafe fn set_enter_leave_hooks2(
        &self,
        enter: Option<FunctionEnter2>,
        leave: Option<FunctionLeave2>,
        tailcall: Option<FunctionTailcall2>,
    ) -> Result<()> {
        check(
            "SetEnterLeaveFunctionHooks2",
            raw!(self.raw, SetEnterLeaveFunctionHooks2(enter, leave, tailcall)),
        )
    }

    /// Sets the hooks of today without details (`SetEnterLeaveFunctionHooks3`).
    ///
    /// # Safety
    /// As [`Self::set_enter_leave_hooks`].
    ///
    /// # Errors
    /// `CORPROF_E_CALL_ONLY_FROM_INIT` after initialization, also for every profiler that attaches.
    pub unsafe fn set_enter_leave_hooks3(
        &self,
        enter: Option<FunctionEnter3>,
        leave: Option<FunctionLeave3>,
        tailcall: Option<FunctionTailcall3>,
    ) -> Result<()> {
        check(
            "SetEnterLeaveFunctionHooks3",
            raw!(self.raw, SetEnterLeaveFunctionHooks3(enter, leave, tailcall)),
        )
    }

    /// Sets the hooks of today with details (`SetEnterLeaveFunctionHooks3WithInfo`).
    ///
    /// # Safety
    /// As [`Self::set_enter_leave_hooks`].
    ///
    /// # Errors
    /// As [`Self::set_enter_leave_hooks3`]; `CORPROF_E_INCONSISTENT_WITH_FLAGS` without one of the
    /// flags `ENABLE_FUNCTION_ARGS`, `ENABLE_FUNCTION_RETVAL`, `ENABLE_FRAME_INFO`.
    pub unsafe fn set_enter_leave_hooks3_with_info(
        &self,
        enter: Option<FunctionEnter3WithInfo>,
        leave: Option<FunctionLeave3WithInfo>,
        tailcall: Option<FunctionTailcall3WithInfo>,
    ) -> Result<()> {
        check(
            "SetEnterLeaveFunctionHooks3WithInfo",
            raw!(self.raw, SetEnterLeaveFunctionHooks3WithInfo(enter, leave, tailcall)),
        )
    }

    /// Sets the function that decides which functions are hooked and under which number
    /// (`SetFunctionIDMapper`).
    ///
    /// # Safety
    /// The function may be called on any thread and stays loaded for as long as the process lives.
    ///
    /// # Errors
    /// The runtime refuses.
    pub unsafe fn set_function_id_mapper(&self, mapper: Option<FunctionIDMapper>) -> Result<()> {
        check("SetFunctionIDMapper", raw!(self.raw, SetFunctionIDMapper(mapper)))
    }

    /// The same with data of the profiler's own (`SetFunctionIDMapper2`).
    ///
    /// # Safety
    /// As [`Self::set_function_id_mapper`]; `client_data` is what the function expects.
    ///
    /// # Errors
    /// The runtime refuses.
    pub unsafe fn set_function_id_mapper2(
        &self,
        mapper: Option<FunctionIDMapper2>,
        client_data: *mut c_void,
    ) -> Result<()> {
        check("SetFunctionIDMapper2", raw!(self.raw, SetFunctionIDMapper2(mapper, client_data)))
    }

    /// Inside an enter hook: the frame and where the arguments lie (`GetFunctionEnter3Info`).
    ///
    /// # Safety
    /// `elt_info` is what the running enter hook got for `function`; the answer is not used after
    /// the hook returns.
    ///
    /// # Errors
    /// `CORPROF_E_INCONSISTENT_WITH_FLAGS` without `ENABLE_FUNCTION_ARGS`.
    pub unsafe fn function_enter3_info<'cx>(
        &self,
        function: FunctionId,
        elt_info: COR_PRF_ELT_INFO,
    ) -> Result<ArgumentInfo<'cx>> {
        const CALL: &str = "GetFunctionEnter3Info";
        /// Two words of head, then one range of two words for each argument.
        const HEAD: usize =
            core::mem::offset_of!(COR_PRF_FUNCTION_ARGUMENT_INFO, ranges) / size_of::<usize>();
        const RANGE: usize = size_of::<COR_PRF_FUNCTION_ARGUMENT_RANGE>() / size_of::<usize>();
        let mut frame = 0;
        // Words, so that the structure is aligned; 16 ranges to begin with.
        let mut words = vec![0_usize; HEAD + 16 * RANGE];
        for _ in 0..2 {
            let mut size = size_of_val(words.as_slice()) as u32;
            let hresult = raw!(
                self.raw,
                GetFunctionEnter3Info(
                    function,
                    elt_info,
                    &mut frame,
                    &mut size,
                    words.as_mut_ptr().cast()
                )
            );
            if hresult == com::hresult::E_INSUFFICIENT_BUFFER
                && size as usize > size_of_val(words.as_slice())
            {
                words = vec![0; (size as usize).div_ceil(size_of::<usize>())];
                continue;
            }
            check(CALL, hresult)?;
            let head = words.as_ptr().cast::<COR_PRF_FUNCTION_ARGUMENT_INFO>();
            // SAFETY: the buffer holds at least the head, which the runtime has filled.
            let (count, total_size) = unsafe { ((*head).num_ranges, (*head).total_argument_size) };
            let room = (words.len() - HEAD) / RANGE;
            // SAFETY: the ranges follow the head, and no more of them are read than the buffer has
            // room for.
            let ranges = unsafe {
                core::slice::from_raw_parts(
                    (&raw const (*head).ranges).cast::<COR_PRF_FUNCTION_ARGUMENT_RANGE>(),
                    (count as usize).min(room),
                )
            };
            let ranges = ranges
                .iter()
                .map(|range| ArgumentRange { start: range.start_address, length: range.length })
                .collect();
            // SAFETY: the frame is the hooked one, which is active for as long as the hook runs.
            let frame = unsafe { FrameInfo::from_raw(frame) };
            return Ok(ArgumentInfo { frame, total_size, ranges });
        }
        Err(Error::Hr { call: CALL, hresult: com::hresult::E_INSUFFICIENT_BUFFER })
    }

    /// Inside a leave hook: the frame and where the return value lies (`GetFunctionLeave3Info`).
    ///
    /// # Safety
    /// As [`Self::function_enter3_info`], for a leave hook.
    ///
    /// # Errors
    /// `CORPROF_E_INCONSISTENT_WITH_FLAGS` without `ENABLE_FUNCTION_RETVAL`.
    pub unsafe fn function_leave3_info<'cx>(
        &self,
        function: FunctionId,
        elt_info: COR_PRF_ELT_INFO,
    ) -> Result<(FrameInfo<'cx>, ArgumentRange)> {
        let (mut frame, mut range) = (0, COR_PRF_FUNCTION_ARGUMENT_RANGE::default());
        check(
            "GetFunctionLeave3Info",
            raw!(self.raw, GetFunctionLeave3Info(function, elt_info, &mut frame, &mut range)),
        )?;
        // SAFETY: the frame is the hooked one, which is active for as long as the hook runs.
        let frame = unsafe { FrameInfo::from_raw(frame) };
        Ok((frame, ArgumentRange { start: range.start_address, length: range.length }))
    }

    /// Inside a tailcall hook: the frame (`GetFunctionTailcall3Info`).
    ///
    /// # Safety
    /// As [`Self::function_enter3_info`], for a tailcall hook.
    ///
    /// # Errors
    /// `CORPROF_E_INCONSISTENT_WITH_FLAGS` without `ENABLE_FRAME_INFO`.
    pub unsafe fn function_tailcall3_info<'cx>(
        &self,
        function: FunctionId,
        elt_info: COR_PRF_ELT_INFO,
    ) -> Result<FrameInfo<'cx>> {
        let mut frame = 0;
        check(
            "GetFunctionTailcall3Info",
            raw!(self.raw, GetFunctionTailcall3Info(function, elt_info, &mut frame)),
        )?;
        // SAFETY: the frame is the hooked one, which is active for as long as the hook runs.
        Ok(unsafe { FrameInfo::from_raw(frame) })
    }
}
