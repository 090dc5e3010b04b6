//! The small interfaces that the profiling API hands out (`corprof.idl`), row by row in vtable
//! order.

use core::ffi::c_void;

use com::hresult::E_NOTIMPL;
use com::{ComClass, HResult, IUnknown, com_interface};

use super::types::*;
use crate::ids::*;

com_interface! {
    /// Enumerator of objects.
    interface ICorProfilerObjectEnum(ICorProfilerObjectEnumVtbl, ICorProfilerObjectEnumImpl): IUnknown(ComClass)
        = "2C6269BD-2D13-4321-AE12-6686365FD6AF", default E_NOTIMPL;
    fn Skip(celt: u32) -> HResult;
    fn Reset() -> HResult;
    fn Clone(enumerator: *mut Option<ICorProfilerObjectEnum>) -> HResult;
    fn GetCount(pcelt: *mut u32) -> HResult;
    fn Next(celt: u32, objects: *mut RawObjectId, pcelt_fetched: *mut u32) -> HResult;
}

com_interface! {
    /// Enumerator of functions with the ReJIT id of their body.
    interface ICorProfilerFunctionEnum(ICorProfilerFunctionEnumVtbl, ICorProfilerFunctionEnumImpl): IUnknown(ComClass)
        = "FF71301A-B994-429D-A10B-B345A65280EF", default E_NOTIMPL;
    fn Skip(celt: u32) -> HResult;
    fn Reset() -> HResult;
    fn Clone(enumerator: *mut Option<ICorProfilerFunctionEnum>) -> HResult;
    fn GetCount(pcelt: *mut u32) -> HResult;
    fn Next(celt: u32, ids: *mut COR_PRF_FUNCTION, pcelt_fetched: *mut u32) -> HResult;
}

com_interface! {
    /// Enumerator of modules.
    interface ICorProfilerModuleEnum(ICorProfilerModuleEnumVtbl, ICorProfilerModuleEnumImpl): IUnknown(ComClass)
        = "B0266D75-2081-4493-AF7F-028BA34DB891", default E_NOTIMPL;
    fn Skip(celt: u32) -> HResult;
    fn Reset() -> HResult;
    fn Clone(enumerator: *mut Option<ICorProfilerModuleEnum>) -> HResult;
    fn GetCount(pcelt: *mut u32) -> HResult;
    fn Next(celt: u32, ids: *mut ModuleId, pcelt_fetched: *mut u32) -> HResult;
}

com_interface! {
    /// Enumerator of methods as module and token.
    interface ICorProfilerMethodEnum(ICorProfilerMethodEnumVtbl, ICorProfilerMethodEnumImpl): IUnknown(ComClass)
        = "FCCEE788-0088-454B-A811-C99F298D1942", default E_NOTIMPL;
    fn Skip(celt: u32) -> HResult;
    fn Reset() -> HResult;
    fn Clone(enumerator: *mut Option<ICorProfilerMethodEnum>) -> HResult;
    fn GetCount(pcelt: *mut u32) -> HResult;
    fn Next(celt: u32, elements: *mut COR_PRF_METHOD, pcelt_fetched: *mut u32) -> HResult;
}

com_interface! {
    /// Enumerator of managed threads.
    interface ICorProfilerThreadEnum(ICorProfilerThreadEnumVtbl, ICorProfilerThreadEnumImpl): IUnknown(ComClass)
        = "571194F7-25ED-419F-AA8B-7016B3159701", default E_NOTIMPL;
    fn Skip(celt: u32) -> HResult;
    fn Reset() -> HResult;
    fn Clone(enumerator: *mut Option<ICorProfilerThreadEnum>) -> HResult;
    fn GetCount(pcelt: *mut u32) -> HResult;
    fn Next(celt: u32, ids: *mut ThreadId, pcelt_fetched: *mut u32) -> HResult;
}

com_interface! {
    /// Allocator of memory for method bodies of one module; what it gives is never freed.
    interface IMethodMalloc(IMethodMallocVtbl, IMethodMallocImpl): IUnknown(ComClass)
        = "A0EFB28B-6EE2-4D7B-B983-A75EF7BEEDB8", default E_NOTIMPL;
    fn Alloc(cb: u32) -> *mut c_void;
}

com_interface! {
    /// Takes the new body and code generation flags of a method that is being ReJITted.
    interface ICorProfilerFunctionControl(ICorProfilerFunctionControlVtbl, ICorProfilerFunctionControlImpl): IUnknown(ComClass)
        = "F0963021-E1EA-4732-8581-E01B0BD3C0C6", default E_NOTIMPL;
    fn SetCodegenFlags(flags: u32) -> HResult;
    fn SetILFunctionBody(cb_new_il_method_header: u32, new_il_method_header: *const u8) -> HResult;
    fn SetILInstrumentedCodeMap(c_il_map_entries: u32, rg_il_map_entries: *const COR_IL_MAP) -> HResult;
}

com_interface! {
    /// Takes references that the profiler is going to add to an assembly's metadata.
    interface ICorProfilerAssemblyReferenceProvider(ICorProfilerAssemblyReferenceProviderVtbl, ICorProfilerAssemblyReferenceProviderImpl): IUnknown(ComClass)
        = "66A78C24-2EEF-4F65-B45F-DD1D8038BF3C", default E_NOTIMPL;
    fn AddAssemblyReference(assembly_ref_info: *const COR_PRF_ASSEMBLY_REFERENCE_INFO) -> HResult;
}
