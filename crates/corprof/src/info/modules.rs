//! Modules, assemblies, application domains, and their metadata.

use com::{Interface, hresult::S_OK};

use super::ProfilerInfo;
use super::call::{check, list, raw, text};
use super::enumerate::HandleEnum;
use super::error::{Error, Result};
use crate::abi::{COR_PRF_MODULE_FLAGS, ICorProfilerModuleEnum};
use crate::ids::{AppDomainId, AssemblyId, ModuleId, ProcessId};
use crate::metadata::abi::{IMetaDataEmit2, IMetaDataImport2};
use crate::metadata::{Metadata, MetadataEmit, OpenFlags};

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    /// Where its image is in memory; `None` for one made by Reflection.Emit.
    pub base: Option<usize>,
    /// Path of its file, or its name if it has none.
    pub name: String,
    /// Its assembly; `None` until it is attached to one.
    pub assembly: Option<AssemblyId>,
    /// What it is: flags.
    pub flags: COR_PRF_MODULE_FLAGS,
}

/// A loaded assembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyInfo {
    /// Simple name.
    pub name: String,
    /// The application domain that it was loaded into.
    pub app_domain: Option<AppDomainId>,
    /// The module with its manifest.
    pub manifest_module: Option<ModuleId>,
}

/// An application domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppDomainInfo {
    /// Friendly name.
    pub name: String,
    /// Process.
    pub process: Option<ProcessId>,
}

impl ProfilerInfo {
    /// Path, address, assembly and flags of a module (`GetModuleInfo2`).
    ///
    /// # Errors
    /// `CORPROF_E_DATAINCOMPLETE` before the module is attached to its assembly.
    pub fn module_info(&self, module: ModuleId) -> Result<ModuleInfo> {
        let (mut base, mut assembly, mut flags) = (core::ptr::null(), AssemblyId::NULL, 0);
        let name = text("GetModuleInfo2", |buffer, room, needed| {
            raw!(
                self.raw,
                GetModuleInfo2(module, &mut base, room, needed, buffer, &mut assembly, &mut flags)
            )
        })?;
        Ok(ModuleInfo {
            base: (!base.is_null()).then(|| base.addr()),
            name,
            assembly: known(assembly),
            flags: COR_PRF_MODULE_FLAGS(flags),
        })
    }

    /// As [`Self::module_info`], without flags (`GetModuleInfo`).
    ///
    /// # Errors
    /// As [`Self::module_info`].
    pub fn module_info_without_flags(&self, module: ModuleId) -> Result<ModuleInfo> {
        let (mut base, mut assembly) = (core::ptr::null(), AssemblyId::NULL);
        let name = text("GetModuleInfo", |buffer, room, needed| {
            raw!(self.raw, GetModuleInfo(module, &mut base, room, needed, buffer, &mut assembly))
        })?;
        Ok(ModuleInfo {
            base: (!base.is_null()).then(|| base.addr()),
            name,
            assembly: known(assembly),
            flags: COR_PRF_MODULE_FLAGS(0),
        })
    }

    /// A module's metadata, to read (`GetModuleMetaData`).
    ///
    /// # Errors
    /// [`Error::Nothing`] for a module that has only resources.
    pub fn module_metadata(&self, module: ModuleId) -> Result<Metadata> {
        const CALL: &str = "GetModuleMetaData";
        let mut unknown = None;
        let hresult = raw!(
            self.raw,
            GetModuleMetaData(module, OpenFlags::READ.bits(), &IMetaDataImport2::IID, &mut unknown)
        );
        check(CALL, hresult)?;
        // S_FALSE comes with nothing: a resource module.
        let unknown = unknown.filter(|_| hresult == S_OK).ok_or(Error::Nothing { call: CALL })?;
        Metadata::from_unknown(&unknown)
    }

    /// A module's metadata, to add to (`GetModuleMetaData` with `ofRead | ofWrite`). From then on
    /// the runtime reads this module's metadata in a slower form. What is added counts after
    /// [`Self::apply_metadata`], or at once inside `ModuleLoadFinished`.
    ///
    /// # Errors
    /// As [`Self::module_metadata`]; `CORPROF_E_MODULE_IS_ENC`, or a refusal for collectible and
    /// dynamic modules.
    pub fn module_metadata_emit(&self, module: ModuleId) -> Result<MetadataEmit> {
        const CALL: &str = "GetModuleMetaData";
        let flags = OpenFlags::READ | OpenFlags::WRITE;
        let mut unknown = None;
        let hresult = raw!(
            self.raw,
            GetModuleMetaData(module, flags.bits(), &IMetaDataEmit2::IID, &mut unknown)
        );
        check(CALL, hresult)?;
        let unknown = unknown.filter(|_| hresult == S_OK).ok_or(Error::Nothing { call: CALL })?;
        MetadataEmit::from_unknown(&unknown)
    }

    /// Makes what was added to a module's metadata known to the runtime (`ApplyMetaData`), outside
    /// of `ModuleLoadFinished`.
    ///
    /// # Errors
    /// `E_INVALIDARG`, `CORPROF_E_MODULE_IS_DYNAMIC`, or what was added is not allowed.
    pub fn apply_metadata(&self, module: ModuleId) -> Result<()> {
        check("ApplyMetaData", raw!(*self.info7()?, ApplyMetaData(module)))
    }

    /// Name and manifest module of an assembly (`GetAssemblyInfo`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a null handle.
    pub fn assembly_info(&self, assembly: AssemblyId) -> Result<AssemblyInfo> {
        let (mut app_domain, mut module) = (AppDomainId::NULL, ModuleId::NULL);
        let name = text("GetAssemblyInfo", |buffer, room, needed| {
            raw!(
                self.raw,
                GetAssemblyInfo(assembly, room, needed, buffer, &mut app_domain, &mut module)
            )
        })?;
        Ok(AssemblyInfo {
            name,
            app_domain: app_domain.non_null(),
            manifest_module: module.non_null(),
        })
    }

    /// Name of an application domain (`GetAppDomainInfo`).
    ///
    /// # Errors
    /// `CORPROF_E_DATAINCOMPLETE` while it is being made.
    pub fn app_domain_info(&self, app_domain: AppDomainId) -> Result<AppDomainInfo> {
        let mut process = ProcessId::NULL;
        let name = text("GetAppDomainInfo", |buffer, room, needed| {
            raw!(self.raw, GetAppDomainInfo(app_domain, room, needed, buffer, &mut process))
        })?;
        Ok(AppDomainInfo { name, process: process.non_null() })
    }

    /// The application domains that a module is loaded in (`GetAppDomainsContainingModule`).
    ///
    /// # Errors
    /// `CORPROF_E_DATAINCOMPLETE` too early.
    pub fn app_domains_containing_module(&self, module: ModuleId) -> Result<Vec<AppDomainId>> {
        list("GetAppDomainsContainingModule", 2, |room, needed, domains| {
            raw!(self.raw, GetAppDomainsContainingModule(module, room, needed, domains))
        })
    }

    /// All loaded modules (`EnumModules`).
    ///
    /// # Errors
    /// `CORPROF_E_RUNTIME_UNINITIALIZED` too early.
    pub fn modules(&self) -> Result<HandleEnum<ICorProfilerModuleEnum>> {
        let mut modules = None;
        check("EnumModules", raw!(self.raw, EnumModules(&mut modules)))?;
        HandleEnum::new("EnumModules", modules)
    }

    /// The symbols that a module made in memory brought along, whole (`GetInMemorySymbolsLength`,
    /// `ReadInMemorySymbols`); empty if it has none.
    ///
    /// # Errors
    /// `CORPROF_E_MODULE_IS_DYNAMIC` for one made by Reflection.Emit.
    pub fn in_memory_symbols(&self, module: ModuleId) -> Result<Vec<u8>> {
        let info = self.info7()?;
        let mut length = 0;
        check(
            "GetInMemorySymbolsLength",
            raw!(*info, GetInMemorySymbolsLength(module, &mut length)),
        )?;
        let mut symbols = vec![0; length as usize];
        let mut filled = 0_usize;
        while let Some(rest) = symbols.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let mut read = 0;
            check(
                "ReadInMemorySymbols",
                raw!(
                    *info,
                    ReadInMemorySymbols(
                        module,
                        filled as u32,
                        rest.as_mut_ptr(),
                        rest.len() as u32,
                        &mut read
                    )
                ),
            )?;
            if read == 0 {
                break;
            }
            filled += read as usize;
        }
        symbols.truncate(filled);
        Ok(symbols)
    }
}

/// The assembly, or nothing while it is not known (`PROFILER_PARENT_UNKNOWN`, which is 32 bits wide
/// everywhere).
fn known(assembly: AssemblyId) -> Option<AssemblyId> {
    const PARENT_UNKNOWN: usize = crate::abi::COR_PRF_MISC::PROFILER_PARENT_UNKNOWN.0 as usize;
    assembly.non_null().filter(|assembly| assembly.0 != PARENT_UNKNOWN)
}
