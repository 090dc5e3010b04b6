//! Functions: which one an address belongs to, what it is, where it was declared.

use com::Interface;

use super::ProfilerInfo;
use super::call::{blob, check, raw, text};
use super::classes::TypeArguments;
use super::enumerate::{FunctionVersion, HandleEnum};
use super::error::{Error, Result};
use super::stacks::FrameInfo;
use crate::abi::{ICorProfilerFunctionEnum, ICorProfilerMethodEnum};
use crate::ids::{ClassId, FunctionId, ModuleId, ReJitId};
use crate::metadata::Metadata;
use crate::metadata::abi::IMetaDataImport2;
use crate::metadata::token::{MethodDef, Token};

/// Where a function was declared, and with which generic arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Its class; `None` where the code is shared by several instantiations and no frame tells
    /// which one it is.
    pub class: Option<ClassId>,
    /// Its module.
    pub module: ModuleId,
    /// Its token; nil for functions without metadata (dynamic methods, IL stubs).
    pub token: MethodDef,
    /// Generic arguments of the method itself, without those of its class.
    pub type_arguments: TypeArguments,
}

/// A function that the runtime or the program made without metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicFunction<'a> {
    /// The module that it counts as part of.
    pub module: Option<ModuleId>,
    /// Its signature; types in it are handles, not tokens.
    pub signature: &'a [u8],
    /// Its name: what the program gave, or `IL_STUB_…`.
    pub name: String,
}

/// Methods of one module that have another one inlined.
#[derive(Debug)]
pub struct Inliners {
    /// Whether modules that could have inliners too were not looked at yet.
    pub incomplete: bool,
    /// The methods.
    pub methods: HandleEnum<ICorProfilerMethodEnum>,
}

impl ProfilerInfo {
    /// The function whose code stands at `ip` (`GetFunctionFromIP`). Dynamic methods are not found.
    ///
    /// Does not allocate and takes no lock that managed code holds.
    ///
    /// # Errors
    /// `E_FAIL` if no managed function has code there.
    pub fn function_from_ip(&self, ip: usize) -> Result<FunctionId> {
        let mut function = FunctionId::NULL;
        check(
            "GetFunctionFromIP",
            raw!(self.raw, GetFunctionFromIP(ip as *const u8, &mut function)),
        )?;
        Ok(function)
    }

    /// As [`Self::function_from_ip`], with the version of the body (`GetFunctionFromIP2`).
    ///
    /// # Errors
    /// `E_FAIL` if no managed function has code there.
    pub fn function_from_ip2(&self, ip: usize) -> Result<FunctionVersion> {
        let (mut function, mut rejit) = (FunctionId::NULL, ReJitId::NULL);
        let info = self.info4()?;
        check(
            "GetFunctionFromIP2",
            raw!(*info, GetFunctionFromIP2(ip as *const u8, &mut function, &mut rejit)),
        )?;
        Ok(FunctionVersion { function, rejit })
    }

    /// The function and body version at `ip`, dynamic methods and IL stubs included
    /// (`GetFunctionFromIP3`): the fastest look-up there is, and the most complete.
    ///
    /// Does not allocate.
    ///
    /// # Errors
    /// `E_FAIL` if no managed function has code there; [`Error::NeedsRuntime`] before .NET Core
    /// 2.0.
    pub fn function_from_ip3(&self, ip: usize) -> Result<FunctionVersion> {
        let (mut function, mut rejit) = (FunctionId::NULL, ReJitId::NULL);
        let info = self.info8()?;
        check(
            "GetFunctionFromIP3",
            raw!(*info, GetFunctionFromIP3(ip as *const u8, &mut function, &mut rejit)),
        )?;
        Ok(FunctionVersion { function, rejit })
    }

    /// The function of a method that is not generic, nor in a generic type
    /// (`GetFunctionFromToken`).
    ///
    /// # Errors
    /// `CORPROF_E_FUNCTION_IS_PARAMETERIZED` for a generic one, `CORPROF_E_DATAINCOMPLETE` if it is
    /// not loaded.
    pub fn function_from_token(&self, module: ModuleId, method: MethodDef) -> Result<FunctionId> {
        let mut function = FunctionId::NULL;
        check(
            "GetFunctionFromToken",
            raw!(self.raw, GetFunctionFromToken(module, method.into(), &mut function)),
        )?;
        Ok(function)
    }

    /// The function of a method with generic arguments (`GetFunctionFromTokenAndTypeArgs`). May
    /// load types.
    ///
    /// # Errors
    /// `E_INVALIDARG` if the number of arguments is wrong, `CORPROF_E_DATAINCOMPLETE` if the class
    /// is not loaded.
    pub fn function_from_token_and_type_arguments(
        &self,
        module: ModuleId,
        method: MethodDef,
        class: Option<ClassId>,
        arguments: &[ClassId],
    ) -> Result<FunctionId> {
        let mut function = FunctionId::NULL;
        check(
            "GetFunctionFromTokenAndTypeArgs",
            raw!(
                self.raw,
                GetFunctionFromTokenAndTypeArgs(
                    module,
                    method,
                    class.unwrap_or_default(),
                    arguments.len() as u32,
                    arguments.as_ptr(),
                    &mut function,
                )
            ),
        )?;
        Ok(function)
    }

    /// Class, module and token of a function (`GetFunctionInfo`), without generic arguments.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null handle, `CORPROF_E_DATAINCOMPLETE` while the function is being
    /// loaded.
    pub fn function_info(&self, function: FunctionId) -> Result<FunctionInfo> {
        let (mut class, mut module, mut token) = (ClassId::NULL, ModuleId::NULL, Token::NIL);
        check(
            "GetFunctionInfo",
            raw!(self.raw, GetFunctionInfo(function, &mut class, &mut module, &mut token)),
        )?;
        Ok(FunctionInfo {
            class: class.non_null(),
            module,
            token: MethodDef::from_raw(token.0),
            type_arguments: TypeArguments::default(),
        })
    }

    /// Class, module, token and generic arguments of a function (`GetFunctionInfo2`). With the
    /// frame that an enter or leave hook got, shared generic code is told apart by its
    /// instantiation. Without one, or with that of a stack snapshot, its class is `None`, and of
    /// the method's own arguments the shared ones are `System.__Canon`.
    ///
    /// Allocates only for more than eight generic arguments.
    ///
    /// # Errors
    /// As [`Self::function_info`].
    pub fn function_info2(
        &self,
        function: FunctionId,
        frame: Option<FrameInfo<'_>>,
    ) -> Result<FunctionInfo> {
        let (mut class, mut module, mut token) = (ClassId::NULL, ModuleId::NULL, Token::NIL);
        let frame = frame.map_or(0, FrameInfo::raw);
        let type_arguments = TypeArguments::ask("GetFunctionInfo2", |room, needed, arguments| {
            raw!(
                self.raw,
                GetFunctionInfo2(
                    function,
                    frame,
                    &mut class,
                    &mut module,
                    &mut token,
                    room,
                    needed,
                    arguments
                )
            )
        })?;
        Ok(FunctionInfo {
            class: class.non_null(),
            module,
            token: MethodDef::from_raw(token.0),
            type_arguments,
        })
    }

    /// Metadata of a function's module, and its token there (`GetTokenAndMetaDataFromFunction`).
    ///
    /// # Errors
    /// As [`Self::function_info`]; also for functions without metadata.
    pub fn metadata_of_function(&self, function: FunctionId) -> Result<(Metadata, Token)> {
        const CALL: &str = "GetTokenAndMetaDataFromFunction";
        let (mut unknown, mut token) = (None, Token::NIL);
        check(
            CALL,
            raw!(
                self.raw,
                GetTokenAndMetaDataFromFunction(
                    function,
                    &IMetaDataImport2::IID,
                    &mut unknown,
                    &mut token
                )
            ),
        )?;
        let unknown = unknown.ok_or(Error::Nothing { call: CALL })?;
        Ok((Metadata::from_unknown(&unknown)?, token))
    }

    /// Whether a function has no metadata: a dynamic method or an IL stub (`IsFunctionDynamic`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null handle; [`Error::NeedsRuntime`] before .NET Core 2.0.
    pub fn is_function_dynamic(&self, function: FunctionId) -> Result<bool> {
        let mut dynamic = 0;
        check(
            "IsFunctionDynamic",
            raw!(*self.info8()?, IsFunctionDynamic(function, &mut dynamic)),
        )?;
        Ok(dynamic != 0)
    }

    /// Name and signature of a function without metadata (`GetDynamicFunctionInfo`). The signature
    /// is only good until the function is unloaded.
    ///
    /// # Errors
    /// `E_INVALIDARG` if it has metadata; [`Error::NeedsRuntime`] before .NET Core 2.0.
    pub fn dynamic_function_info(&self, function: FunctionId) -> Result<DynamicFunction<'_>> {
        let info = self.info8()?;
        let (mut module, mut signature, mut length) = (ModuleId::NULL, core::ptr::null(), 0);
        let name = text("GetDynamicFunctionInfo", |buffer, room, needed| {
            raw!(
                *info,
                GetDynamicFunctionInfo(
                    function,
                    &mut module,
                    &mut signature,
                    &mut length,
                    room,
                    needed,
                    buffer
                )
            )
        })?;
        // SAFETY: the runtime answers with a signature of that length, which lives as long as the
        // function.
        let signature = unsafe { blob(signature, length) };
        Ok(DynamicFunction { module: module.non_null(), signature, name })
    }

    /// Functions that have native code now, precompiled ones left out (`EnumJITedFunctions2`;
    /// before .NET Framework 4.5 `EnumJITedFunctions`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn jitted_functions(&self) -> Result<HandleEnum<ICorProfilerFunctionEnum>> {
        let mut functions = None;
        if let Ok(info) = self.info4() {
            check("EnumJITedFunctions2", raw!(*info, EnumJITedFunctions2(&mut functions)))?;
            return HandleEnum::new("EnumJITedFunctions2", functions);
        }
        check("EnumJITedFunctions", raw!(self.raw, EnumJITedFunctions(&mut functions)))?;
        HandleEnum::new("EnumJITedFunctions", functions)
    }

    /// Precompiled methods of module `inliners` that have `method` of module `inlinee` inlined
    /// (`EnumNgenModuleMethodsInliningThisMethod`).
    ///
    /// # Errors
    /// `CORPROF_E_DATAINCOMPLETE` if the module has no inlining information loaded yet.
    pub fn inliners(
        &self,
        inliners: ModuleId,
        inlinee: ModuleId,
        method: MethodDef,
    ) -> Result<Inliners> {
        const CALL: &str = "EnumNgenModuleMethodsInliningThisMethod";
        let (mut incomplete, mut methods) = (0, None);
        check(
            CALL,
            raw!(
                *self.info6()?,
                EnumNgenModuleMethodsInliningThisMethod(
                    inliners,
                    inlinee,
                    method,
                    &mut incomplete,
                    &mut methods
                )
            ),
        )?;
        Ok(Inliners { incomplete: incomplete != 0, methods: HandleEnum::new(CALL, methods)? })
    }
}
