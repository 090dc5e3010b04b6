//! ReJIT: new bodies for methods that already run.
//!
//! All of it needs `EventMask::ENABLE_REJIT`, which can never be cleared again: a profiler that has
//! set it cannot detach.

use com::HResult;

use super::ProfilerInfo;
use super::call::{check, raw};
use super::enumerate::ModuleMethod;
use super::error::Result;
use crate::abi::COR_PRF_REJIT_FLAGS;
use crate::ids::{FunctionId, ModuleId};
use crate::metadata::token::MethodDef;

/// The two parallel arrays that the runtime wants.
fn split(methods: &[ModuleMethod]) -> (Vec<ModuleId>, Vec<MethodDef>) {
    methods.iter().map(|method| (method.module, method.method)).unzip()
}

impl ProfilerInfo {
    /// Asks for new bodies of methods (`RequestReJIT`). The runtime calls `GetReJITParameters` for
    /// each, on another thread, when it is next called. Callers that have it inlined keep the old
    /// body: see [`Self::request_rejit_with_inliners`].
    ///
    /// # Errors
    /// `CORPROF_E_REJIT_NOT_ENABLED`, `CORPROF_E_CALLBACK4_REQUIRED`, `E_INVALIDARG`,
    /// `CORPROF_E_PROFILER_DETACHING` after `Shutdown`. Faults of single methods come by the
    /// callback `ReJITError`.
    pub fn request_rejit(&self, methods: &[ModuleMethod]) -> Result<()> {
        let (modules, tokens) = split(methods);
        let info = self.info4()?;
        self.before_the_end("RequestReJIT", || {
            check(
                "RequestReJIT",
                raw!(*info, RequestReJIT(methods.len() as u32, modules.as_ptr(), tokens.as_ptr())),
            )
        })
    }

    /// As [`Self::request_rejit`], also for every method that has one of them inlined
    /// (`RequestReJITWithInliners`). `flags` must contain [`COR_PRF_REJIT_FLAGS::BLOCK_INLINING`].
    ///
    /// # Errors
    /// As [`Self::request_rejit`]; `E_INVALIDARG` without that flag;
    /// [`Error::NeedsRuntime`](super::Error::NeedsRuntime) before .NET Core 3.0.
    pub fn request_rejit_with_inliners(
        &self,
        flags: COR_PRF_REJIT_FLAGS,
        methods: &[ModuleMethod],
    ) -> Result<()> {
        let (modules, tokens) = split(methods);
        let info = self.info10()?;
        self.before_the_end("RequestReJITWithInliners", || {
            check(
                "RequestReJITWithInliners",
                raw!(
                    *info,
                    RequestReJITWithInliners(
                        flags.0,
                        methods.len() as u32,
                        modules.as_ptr(),
                        tokens.as_ptr()
                    )
                ),
            )
        })
    }

    /// Gives methods their original bodies back (`RequestRevert`), and answers for each whether it
    /// did.
    ///
    /// # Errors
    /// `CORPROF_E_REJIT_NOT_ENABLED`, `CORPROF_E_CALLBACK4_REQUIRED`, `E_INVALIDARG`.
    pub fn request_revert(&self, methods: &[ModuleMethod]) -> Result<Vec<HResult>> {
        let (modules, tokens) = split(methods);
        let mut status = vec![HResult::default(); methods.len()];
        let info = self.info4()?;
        self.before_the_end("RequestRevert", || {
            check(
                "RequestRevert",
                raw!(
                    *info,
                    RequestRevert(
                        methods.len() as u32,
                        modules.as_ptr(),
                        tokens.as_ptr(),
                        status.as_mut_ptr()
                    )
                ),
            )
        })?;
        Ok(status)
    }

    /// ReJIT of .NET Framework 1.0 (`SetFunctionReJIT`), which no later runtime has.
    ///
    /// # Errors
    /// `E_NOTIMPL`.
    pub fn set_function_rejit(&self, function: FunctionId) -> Result<()> {
        check("SetFunctionReJIT", raw!(self.raw, SetFunctionReJIT(function)))
    }
}
