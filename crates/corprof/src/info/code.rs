//! Native code of functions: where it stands, and which IL it came from.

use super::ProfilerInfo;
use super::call::{check, list, raw};
use super::error::Result;
use crate::abi::{COR_DEBUG_IL_TO_NATIVE_MAP, COR_PRF_CODE_INFO, CorDebugIlToNativeMappingTypes};
use crate::ids::{FunctionId, ReJitId};

/// A piece of native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeRange {
    /// First address.
    pub start: usize,
    /// Length in bytes.
    pub size: usize,
}

impl CodeRange {
    /// Whether `address` is inside.
    #[must_use]
    pub const fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.size
    }
}

/// Where in the IL a stretch of native code came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IlOffset {
    /// The instruction at this offset.
    At(u32),
    /// No instruction.
    NoMapping,
    /// The method's prologue.
    Prolog,
    /// The method's epilogue.
    Epilog,
}

/// A stretch of native code and the IL that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeMapping {
    /// Where it came from.
    pub il: IlOffset,
    /// First byte, from the start of the code.
    pub native_start: u32,
    /// First byte behind it.
    pub native_end: u32,
}

fn ranges(infos: Vec<COR_PRF_CODE_INFO>) -> Vec<CodeRange> {
    infos.into_iter().map(|info| CodeRange { start: info.start_address, size: info.size }).collect()
}

fn mappings(map: Vec<COR_DEBUG_IL_TO_NATIVE_MAP>) -> Vec<NativeMapping> {
    map.into_iter()
        .map(|entry| NativeMapping {
            il: match CorDebugIlToNativeMappingTypes(entry.il_offset) {
                CorDebugIlToNativeMappingTypes::NO_MAPPING => IlOffset::NoMapping,
                CorDebugIlToNativeMappingTypes::PROLOG => IlOffset::Prolog,
                CorDebugIlToNativeMappingTypes::EPILOG => IlOffset::Epilog,
                CorDebugIlToNativeMappingTypes(offset) => IlOffset::At(offset),
            },
            native_start: entry.native_start_offset,
            native_end: entry.native_end_offset,
        })
        .collect()
}

impl ProfilerInfo {
    /// First piece of a function's original code (`GetCodeInfo`).
    ///
    /// # Errors
    /// `CORPROF_E_FUNCTION_NOT_COMPILED` if it has none.
    pub fn code_info(&self, function: FunctionId) -> Result<CodeRange> {
        let (mut start, mut size) = (core::ptr::null(), 0);
        check("GetCodeInfo", raw!(self.raw, GetCodeInfo(function, &mut start, &mut size)))?;
        Ok(CodeRange { start: start.addr(), size: size as usize })
    }

    /// All pieces of a function's original code, the entry first (`GetCodeInfo2`).
    ///
    /// # Errors
    /// `CORPROF_E_FUNCTION_NOT_COMPILED` if it has none.
    pub fn code_info2(&self, function: FunctionId) -> Result<Vec<CodeRange>> {
        list("GetCodeInfo2", 2, |room, needed, infos| {
            raw!(self.raw, GetCodeInfo2(function, room, needed, infos))
        })
        .map(ranges)
    }

    /// All pieces of the code of one ReJIT version (`GetCodeInfo3`).
    ///
    /// # Errors
    /// `CORPROF_E_FUNCTION_NOT_COMPILED` if it has none, `E_INVALIDARG` for an unknown version.
    pub fn code_info3(&self, function: FunctionId, rejit: ReJitId) -> Result<Vec<CodeRange>> {
        let info = self.info4()?;
        list("GetCodeInfo3", 2, |room, needed, infos| {
            raw!(*info, GetCodeInfo3(function, rejit, room, needed, infos))
        })
        .map(ranges)
    }

    /// All pieces of the code that starts at `start`, an answer of
    /// [`Self::native_code_start_addresses`] (`GetCodeInfo4`).
    ///
    /// # Errors
    /// `CORPROF_E_FUNCTION_NOT_COMPILED` or `E_INVALIDARG` if no code starts there.
    pub fn code_info4(&self, start: usize) -> Result<Vec<CodeRange>> {
        let info = self.info9()?;
        list("GetCodeInfo4", 2, |room, needed, infos| {
            raw!(*info, GetCodeInfo4(start, room, needed, infos))
        })
        .map(ranges)
    }

    /// Where the code of each tier of one ReJIT version starts (`GetNativeCodeStartAddresses`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for an unknown version; [`Error::NeedsRuntime`](super::Error::NeedsRuntime)
    /// before .NET Core 2.1.
    pub fn native_code_start_addresses(
        &self,
        function: FunctionId,
        rejit: ReJitId,
    ) -> Result<Vec<usize>> {
        let info = self.info9()?;
        list("GetNativeCodeStartAddresses", 4, |room, needed, starts| {
            raw!(*info, GetNativeCodeStartAddresses(function, rejit, room, needed, starts))
        })
    }

    /// Map from native code to IL of a function's original code (`GetILToNativeMapping`).
    ///
    /// # Errors
    /// `CORPROF_E_FUNCTION_NOT_COMPILED` if it has no code, `CORPROF_E_DEBUGGING_DISABLED` without
    /// the debugger's part of the runtime.
    pub fn il_to_native_mapping(&self, function: FunctionId) -> Result<Vec<NativeMapping>> {
        list("GetILToNativeMapping", 64, |room, needed, map| {
            raw!(self.raw, GetILToNativeMapping(function, room, needed, map))
        })
        .map(mappings)
    }

    /// The same for one ReJIT version (`GetILToNativeMapping2`).
    ///
    /// # Errors
    /// As [`Self::il_to_native_mapping`].
    pub fn il_to_native_mapping2(
        &self,
        function: FunctionId,
        rejit: ReJitId,
    ) -> Result<Vec<NativeMapping>> {
        let info = self.info4()?;
        list("GetILToNativeMapping2", 64, |room, needed, map| {
            raw!(*info, GetILToNativeMapping2(function, rejit, room, needed, map))
        })
        .map(mappings)
    }

    /// The same for the code that starts at `start` (`GetILToNativeMapping3`).
    ///
    /// # Errors
    /// `E_INVALIDARG` if no code starts there; [`Error::NeedsRuntime`](super::Error::NeedsRuntime)
    /// before .NET Core 2.1.
    pub fn il_to_native_mapping3(&self, start: usize) -> Result<Vec<NativeMapping>> {
        let info = self.info9()?;
        list("GetILToNativeMapping3", 64, |room, needed, map| {
            raw!(*info, GetILToNativeMapping3(start, room, needed, map))
        })
        .map(mappings)
    }

    /// Every ReJIT version of a function (`GetReJITIDs`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null handle.
    pub fn rejit_ids(&self, function: FunctionId) -> Result<Vec<ReJitId>> {
        let info = self.info4()?;
        list("GetReJITIDs", 4, |room, needed, ids| {
            raw!(*info, GetReJITIDs(function, room, needed, ids))
        })
    }
}
