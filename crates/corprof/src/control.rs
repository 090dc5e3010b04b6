//! What some callbacks hand out to be answered.

use com::hresult::E_INVALIDARG;
use com::{HResult, InterfaceRef};

use crate::abi::{
    ASSEMBLYMETADATA, COR_IL_MAP, COR_PRF_ASSEMBLY_REFERENCE_INFO, COR_PRF_CODEGEN_FLAGS,
    ICorProfilerAssemblyReferenceProvider, ICorProfilerFunctionControl,
};

pub use crate::abi::COR_PRF_CODEGEN_FLAGS as CodegenFlags;

/// Takes the new body of a method that is being ReJITted. Good only inside the callback.
#[derive(Clone, Copy, Debug)]
pub struct FunctionControl<'cx> {
    raw: InterfaceRef<'cx, ICorProfilerFunctionControl>,
}

impl<'cx> FunctionControl<'cx> {
    pub(crate) fn new(raw: InterfaceRef<'cx, ICorProfilerFunctionControl>) -> FunctionControl<'cx> {
        FunctionControl { raw }
    }

    /// How the body is compiled.
    pub fn set_codegen_flags(&self, flags: COR_PRF_CODEGEN_FLAGS) -> Result<(), HResult> {
        // SAFETY: no pointer is passed.
        unsafe { self.raw.SetCodegenFlags(flags.0) }.ok()
    }

    /// The new body: header, IL, exception clauses, as in a file. The runtime copies it.
    pub fn set_il_function_body(&self, body: &[u8]) -> Result<(), HResult> {
        let len = u32::try_from(body.len()).map_err(|_| E_INVALIDARG)?;
        // SAFETY: `body` has `len` bytes.
        unsafe { self.raw.SetILFunctionBody(len, body.as_ptr()) }.ok()
    }

    /// How offsets of the old body relate to those of the new one, for debuggers. The runtime
    /// copies it.
    pub fn set_il_instrumented_code_map(&self, map: &[COR_IL_MAP]) -> Result<(), HResult> {
        let len = u32::try_from(map.len()).map_err(|_| E_INVALIDARG)?;
        // SAFETY: `map` has `len` entries.
        unsafe { self.raw.SetILInstrumentedCodeMap(len, map.as_ptr()) }.ok()
    }
}

/// Takes references that the profiler is going to add to an assembly. Good only inside the
/// callback.
#[derive(Clone, Copy, Debug)]
pub struct AssemblyReferenceProvider<'cx> {
    raw: InterfaceRef<'cx, ICorProfilerAssemblyReferenceProvider>,
}

/// A reference to an assembly, as [`AssemblyReferenceProvider::add`] takes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AssemblyReference<'a> {
    /// Simple name, without a zero.
    pub name: &'a str,
    /// Version: major, minor, build, revision.
    pub version: (u16, u16, u16, u16),
    /// Culture; empty for the neutral one.
    pub culture: &'a str,
    /// Public key or its token; empty if there is none.
    pub public_key_or_token: &'a [u8],
    /// CorAssemblyFlags.
    pub flags: u32,
}

impl<'cx> AssemblyReferenceProvider<'cx> {
    pub(crate) fn new(
        raw: InterfaceRef<'cx, ICorProfilerAssemblyReferenceProvider>,
    ) -> AssemblyReferenceProvider<'cx> {
        AssemblyReferenceProvider { raw }
    }

    /// Declares a reference. The runtime copies it.
    pub fn add(&self, reference: &AssemblyReference<'_>) -> Result<(), HResult> {
        let name: Vec<u16> = reference.name.encode_utf16().chain([0]).collect();
        let mut culture: Vec<u16> = reference.culture.encode_utf16().chain([0]).collect();
        let culture_len = u32::try_from(culture.len()).map_err(|_| E_INVALIDARG)?;
        let key_len =
            u32::try_from(reference.public_key_or_token.len()).map_err(|_| E_INVALIDARG)?;
        let (major_version, minor_version, build_number, revision_number) = reference.version;
        let metadata = ASSEMBLYMETADATA {
            major_version,
            minor_version,
            build_number,
            revision_number,
            locale: if reference.culture.is_empty() {
                core::ptr::null_mut()
            } else {
                culture.as_mut_ptr()
            },
            locale_len: if reference.culture.is_empty() { 0 } else { culture_len },
            ..ASSEMBLYMETADATA::default()
        };
        let info = COR_PRF_ASSEMBLY_REFERENCE_INFO {
            public_key_or_token: reference.public_key_or_token.as_ptr().cast_mut().cast(),
            public_key_or_token_len: key_len,
            name: name.as_ptr(),
            metadata: &raw const metadata,
            flags: reference.flags,
            ..COR_PRF_ASSEMBLY_REFERENCE_INFO::default()
        };
        // SAFETY: everything that `info` points to lives until the end of this function, and is
        // only read.
        unsafe { self.raw.AddAssemblyReference(&raw const info) }.ok()
    }
}
