//! Versions 4 to 9 of ICorProfilerInfo.

use com::HResult;
use com::hresult::{E_INVALIDARG, S_OK};
use corprof::EventMask;
use corprof::abi::*;
use corprof::ids::*;

use super::Runtime;
use super::lookup::{known, slice};
use crate::enumerators::{Functions, Threads};
use crate::out::{put, put_list, put_text};

// SAFETY of every block below: the caller keeps the contract of the method, so out pointers are
// null or places, lists have the length that is passed with them, and texts end with a zero.

impl ICorProfilerInfo4Impl for Runtime {
    unsafe fn EnumThreads(&self, enumerator: *mut Option<ICorProfilerThreadEnum>) -> HResult {
        self.answer("EnumThreads", |model| {
            // SAFETY: see above.
            unsafe {
                put(enumerator, Some(Threads::over(model.threads.keys().copied().collect())))
            };
            Ok(S_OK)
        })
    }

    unsafe fn InitializeCurrentThread(&self) -> HResult {
        self.answer("InitializeCurrentThread", |_| Ok(S_OK))
    }

    unsafe fn RequestReJIT(
        &self,
        len: u32,
        modules: *const ModuleId,
        methods: *const mdMethodDef,
    ) -> HResult {
        self.answer("RequestReJIT", |model| {
            // SAFETY: see above.
            let (modules, methods) = unsafe { (slice(modules, len), slice(methods, len)) };
            model.rejitted.extend(modules.iter().copied().zip(methods.iter().copied()));
            Ok(S_OK)
        })
    }

    unsafe fn RequestRevert(
        &self,
        len: u32,
        modules: *const ModuleId,
        methods: *const mdMethodDef,
        status: *mut HResult,
    ) -> HResult {
        self.answer("RequestRevert", |model| {
            // SAFETY: see above.
            let (modules, methods) = unsafe { (slice(modules, len), slice(methods, len)) };
            let pairs: Vec<_> = modules.iter().copied().zip(methods.iter().copied()).collect();
            let codes: Vec<HResult> = pairs
                .iter()
                .map(|pair| if model.rejitted.contains(pair) { S_OK } else { E_INVALIDARG })
                .collect();
            model.rejitted.retain(|pair| !pairs.contains(pair));
            // SAFETY: see above.
            Ok(unsafe { put_list(len, core::ptr::null_mut(), status, &codes) })
        })
    }

    unsafe fn GetCodeInfo3(
        &self,
        function: FunctionId,
        rejit: ReJitId,
        room: u32,
        needed: *mut u32,
        pieces: *mut COR_PRF_CODE_INFO,
    ) -> HResult {
        self.answer("GetCodeInfo3", |model| {
            let body = model.body(function, rejit)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, pieces, &body.pieces) })
        })
    }

    unsafe fn GetFunctionFromIP2(
        &self,
        ip: *const u8,
        function: *mut FunctionId,
        rejit: *mut ReJitId,
    ) -> HResult {
        self.answer("GetFunctionFromIP2", |model| {
            let (found, found_rejit) = model.function_at(ip.addr())?;
            // SAFETY: see above.
            unsafe {
                put(function, found);
                put(rejit, found_rejit);
            }
            Ok(S_OK)
        })
    }

    unsafe fn GetReJITIDs(
        &self,
        function: FunctionId,
        room: u32,
        needed: *mut u32,
        rejits: *mut ReJitId,
    ) -> HResult {
        self.answer("GetReJITIDs", |model| {
            let found: Vec<ReJitId> = model
                .function(function)?
                .bodies
                .iter()
                .filter_map(|body| body.rejit.non_null())
                .collect();
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, rejits, &found) })
        })
    }

    unsafe fn GetILToNativeMapping2(
        &self,
        function: FunctionId,
        rejit: ReJitId,
        room: u32,
        needed: *mut u32,
        map: *mut COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        self.answer("GetILToNativeMapping2", |model| {
            let body = model.body(function, rejit)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, map, &body.map) })
        })
    }

    unsafe fn EnumJITedFunctions2(
        &self,
        enumerator: *mut Option<ICorProfilerFunctionEnum>,
    ) -> HResult {
        self.answer("EnumJITedFunctions2", |model| {
            // SAFETY: see above.
            unsafe { put(enumerator, Some(Functions::over(model.compiled()))) };
            Ok(S_OK)
        })
    }

    unsafe fn GetObjectSize2(&self, object: RawObjectId, size: *mut usize) -> HResult {
        self.answer("GetObjectSize2", |model| {
            let found = known(model.objects.get(&object))?.size;
            // SAFETY: see above.
            unsafe { put(size, found) };
            Ok(S_OK)
        })
    }
}

impl ICorProfilerInfo5Impl for Runtime {
    unsafe fn GetEventMask2(&self, low: *mut u32, high: *mut u32) -> HResult {
        self.answer("GetEventMask2", |model| {
            // SAFETY: see above.
            unsafe {
                put(low, model.event_mask.low());
                put(high, model.event_mask.high());
            }
            Ok(S_OK)
        })
    }

    unsafe fn SetEventMask2(&self, low: u32, high: u32) -> HResult {
        self.answer("SetEventMask2", |model| {
            model.event_mask = EventMask::from_words(low, high);
            Ok(S_OK)
        })
    }
}

impl ICorProfilerInfo6Impl for Runtime {}

impl ICorProfilerInfo7Impl for Runtime {
    unsafe fn ApplyMetaData(&self, module: ModuleId) -> HResult {
        self.answer("ApplyMetaData", |model| known(model.modules.get(&module)).map(|_| S_OK))
    }

    unsafe fn GetInMemorySymbolsLength(&self, module: ModuleId, len: *mut u32) -> HResult {
        self.answer("GetInMemorySymbolsLength", |model| {
            let found = known(model.modules.get(&module))?.symbols.len();
            // SAFETY: see above.
            unsafe { put(len, u32::try_from(found).unwrap_or(u32::MAX)) };
            Ok(S_OK)
        })
    }

    unsafe fn ReadInMemorySymbols(
        &self,
        module: ModuleId,
        offset: u32,
        bytes: *mut u8,
        room: u32,
        read: *mut u32,
    ) -> HResult {
        self.answer("ReadInMemorySymbols", |model| {
            let symbols = &known(model.modules.get(&module))?.symbols;
            let rest = known(symbols.get(offset as usize..))?;
            let part = rest.get(..room as usize).unwrap_or(rest);
            // SAFETY: see above.
            Ok(unsafe { put_list(room, read, bytes, part) })
        })
    }
}

impl ICorProfilerInfo8Impl for Runtime {
    unsafe fn IsFunctionDynamic(&self, function: FunctionId, dynamic: *mut BOOL) -> HResult {
        self.answer("IsFunctionDynamic", |model| {
            let found = model.function(function)?.dynamic_name.is_some();
            // SAFETY: see above.
            unsafe { put(dynamic, BOOL::from(found)) };
            Ok(S_OK)
        })
    }

    unsafe fn GetFunctionFromIP3(
        &self,
        ip: *const u8,
        function: *mut FunctionId,
        rejit: *mut ReJitId,
    ) -> HResult {
        self.answer("GetFunctionFromIP3", |model| {
            let (found, found_rejit) = model.function_at(ip.addr())?;
            // SAFETY: see above.
            unsafe {
                put(function, found);
                put(rejit, found_rejit);
            }
            Ok(S_OK)
        })
    }

    unsafe fn GetDynamicFunctionInfo(
        &self,
        function: FunctionId,
        module: *mut ModuleId,
        signature: *mut *const u8,
        signature_len: *mut u32,
        room: u32,
        needed: *mut u32,
        name: *mut u16,
    ) -> HResult {
        self.answer("GetDynamicFunctionInfo", |model| {
            let found = model.function(function)?;
            let found_name = known(found.dynamic_name.as_deref())?;
            // SAFETY: see above.
            unsafe {
                put(module, found.module);
                put(signature, core::ptr::null());
                put(signature_len, 0);
                Ok(put_text(room, needed, name, found_name))
            }
        })
    }
}

impl ICorProfilerInfo9Impl for Runtime {
    unsafe fn GetNativeCodeStartAddresses(
        &self,
        function: FunctionId,
        rejit: ReJitId,
        room: u32,
        needed: *mut u32,
        starts: *mut usize,
    ) -> HResult {
        self.answer("GetNativeCodeStartAddresses", |model| {
            let bodies = model.function(function)?.bodies.iter().filter(|body| body.rejit == rejit);
            let found: Vec<usize> =
                bodies.filter_map(|body| Some(body.pieces.first()?.start_address)).collect();
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, starts, &found) })
        })
    }

    unsafe fn GetILToNativeMapping3(
        &self,
        start: usize,
        room: u32,
        needed: *mut u32,
        map: *mut COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        self.answer("GetILToNativeMapping3", |model| {
            let body = model.body_at_start(start)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, map, &body.map) })
        })
    }

    unsafe fn GetCodeInfo4(
        &self,
        start: usize,
        room: u32,
        needed: *mut u32,
        pieces: *mut COR_PRF_CODE_INFO,
    ) -> HResult {
        self.answer("GetCodeInfo4", |model| {
            let body = model.body_at_start(start)?;
            // SAFETY: see above.
            Ok(unsafe { put_list(room, needed, pieces, &body.pieces) })
        })
    }
}
