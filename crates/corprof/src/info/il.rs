//! IL bodies of methods: reading them, and replacing them before they are first compiled.

use com::hresult::E_OUTOFMEMORY;

use super::ProfilerInfo;
use super::call::{blob, check, raw};
use super::error::{Error, Result};
use super::memory::give_away;
use crate::abi::{COR_IL_MAP, IMethodMalloc};
use crate::ids::{FunctionId, ModuleId};
use crate::metadata::token::MethodDef;

/// A method's body as it lies in memory: header, IL, exception clauses.
pub type IlBody<'a> = &'a [u8];

/// One step of the map from old IL offsets to new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IlMapEntry {
    /// Offset in the original body, in bytes.
    pub old_offset: u32,
    /// Offset in the new body, in bytes.
    pub new_offset: u32,
}

impl ProfilerInfo {
    /// The current body of a method (`GetILFunctionBody`): what was last set, else what the module
    /// has. It is good until the module is unloaded.
    ///
    /// # Errors
    /// `CORPROF_E_FUNCTION_NOT_IL` for a method without one.
    pub fn il_function_body(&self, module: ModuleId, method: MethodDef) -> Result<IlBody<'_>> {
        let (mut start, mut size) = (core::ptr::null(), 0);
        check(
            "GetILFunctionBody",
            raw!(self.raw, GetILFunctionBody(module, method, &mut start, &mut size)),
        )?;
        // SAFETY: the runtime answers with a body of that size, in memory of the module.
        Ok(unsafe { blob(start, size) })
    }

    /// The allocator for new bodies of a module's methods (`GetILFunctionBodyAllocator`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null handle.
    pub fn il_function_body_allocator(&self, module: ModuleId) -> Result<IMethodMalloc> {
        const CALL: &str = "GetILFunctionBodyAllocator";
        let mut allocator = None;
        check(CALL, raw!(self.raw, GetILFunctionBodyAllocator(module, &mut allocator)))?;
        allocator.ok_or(Error::Nothing { call: CALL })
    }

    /// Replaces a method's body (`SetILFunctionBody`), before it is first compiled: in
    /// `ModuleLoadFinished` or `JITCompilationStarted`. The bytes are copied into memory of the
    /// module's own allocator. A profiler that has used this can no longer detach.
    ///
    /// `body` is header, IL and clauses; that they are valid is not checked, and code that is not
    /// crashes the process when it runs, as any invalid module would.
    ///
    /// # Errors
    /// `E_INVALIDARG` and the like; `E_OUTOFMEMORY` if there is no memory near the module.
    pub fn set_il_function_body(
        &self,
        module: ModuleId,
        method: MethodDef,
        body: &[u8],
    ) -> Result<()> {
        let allocator = self.il_function_body_allocator(module)?;
        let memory = raw!(allocator, Alloc(body.len() as u32)).cast::<u8>();
        if memory.is_null() {
            return Err(Error::Hr { call: "IMethodMalloc::Alloc", hresult: E_OUTOFMEMORY });
        }
        // SAFETY: the block is new and as large as the body.
        unsafe { core::ptr::copy_nonoverlapping(body.as_ptr(), memory, body.len()) };
        check("SetILFunctionBody", raw!(self.raw, SetILFunctionBody(module, method, memory)))
    }

    /// Tells debuggers how the IL offsets of a replaced body map to those of the original one
    /// (`SetILInstrumentedCodeMap`). `start_jit` is whether this comes before the function is first
    /// compiled.
    ///
    /// # Errors
    /// `E_INVALIDARG`, `CORPROF_E_DEBUGGING_DISABLED`, `E_OUTOFMEMORY`.
    pub fn set_il_instrumented_code_map(
        &self,
        function: FunctionId,
        start_jit: bool,
        map: &[IlMapEntry],
    ) -> Result<()> {
        const CALL: &str = "SetILInstrumentedCodeMap";
        let entries = map
            .iter()
            .map(|entry| COR_IL_MAP {
                old_offset: entry.old_offset,
                new_offset: entry.new_offset,
                accurate: 1,
            })
            .collect::<Vec<_>>();
        // The runtime keeps the map and frees it later.
        let memory = give_away(&entries);
        if memory.is_null() && !entries.is_empty() {
            return Err(Error::Hr { call: CALL, hresult: E_OUTOFMEMORY });
        }
        check(
            CALL,
            raw!(
                self.raw,
                SetILInstrumentedCodeMap(
                    function,
                    i32::from(start_jit),
                    entries.len() as u32,
                    memory
                )
            ),
        )
    }
}
