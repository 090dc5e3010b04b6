//! Static fields: what they belong to and where they are.

use core::ffi::c_void;

use super::ProfilerInfo;
use super::call::{check, raw};
use super::error::Result;
use crate::abi::COR_PRF_STATIC_TYPE;
use crate::ids::{AppDomainId, ClassId, ContextId, ThreadId};
use crate::metadata::token::FieldDef;

/// What a static field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaticKind {
    /// It is not static.
    NotStatic,
    /// One for each application domain: an ordinary static field.
    AppDomain,
    /// One for each thread.
    Thread,
    /// One for each remoting context.
    Context,
    /// Its bytes are in the image.
    Rva,
}

/// The address, or `None` where the runtime gave null on success.
fn address(address: *mut c_void) -> Option<usize> {
    (!address.is_null()).then(|| address.addr())
}

impl ProfilerInfo {
    /// What a static field belongs to (`GetStaticFieldInfo`).
    ///
    /// # Errors
    /// `CORPROF_E_DATAINCOMPLETE` while the class is being loaded,
    /// `CORPROF_E_LITERALS_HAVE_NO_ADDRESS` for constants.
    pub fn static_field_info(&self, class: ClassId, field: FieldDef) -> Result<StaticKind> {
        let mut kind = COR_PRF_STATIC_TYPE::default();
        check("GetStaticFieldInfo", raw!(self.raw, GetStaticFieldInfo(class, field, &mut kind)))?;
        let has = |flag: COR_PRF_STATIC_TYPE| kind.0 & flag.0 != 0;
        Ok(if has(COR_PRF_STATIC_TYPE::FIELD_THREAD_STATIC) {
            StaticKind::Thread
        } else if has(COR_PRF_STATIC_TYPE::FIELD_CONTEXT_STATIC) {
            StaticKind::Context
        } else if has(COR_PRF_STATIC_TYPE::FIELD_RVA_STATIC) {
            StaticKind::Rva
        } else if has(COR_PRF_STATIC_TYPE::FIELD_APP_DOMAIN_STATIC) {
            StaticKind::AppDomain
        } else {
            StaticKind::NotStatic
        })
    }

    /// Address of a static field whose bytes are in the image (`GetRVAStaticAddress`).
    ///
    /// # Errors
    /// `E_INVALIDARG` if it is none, `CORPROF_E_DATAINCOMPLETE` before the class is initialized.
    pub fn rva_static_address(&self, class: ClassId, field: FieldDef) -> Result<Option<usize>> {
        let mut at = core::ptr::null_mut();
        check("GetRVAStaticAddress", raw!(self.raw, GetRVAStaticAddress(class, field, &mut at)))?;
        Ok(address(at))
    }

    /// Address of an ordinary static field (`GetAppDomainStaticAddress`).
    ///
    /// # Errors
    /// As [`Self::rva_static_address`].
    pub fn app_domain_static_address(
        &self,
        class: ClassId,
        field: FieldDef,
        app_domain: AppDomainId,
    ) -> Result<Option<usize>> {
        let mut at = core::ptr::null_mut();
        check(
            "GetAppDomainStaticAddress",
            raw!(self.raw, GetAppDomainStaticAddress(class, field, app_domain, &mut at)),
        )?;
        Ok(address(at))
    }

    /// Address of a field that each thread has its own of (`GetThreadStaticAddress`). Before .NET 8
    /// only for the calling thread.
    ///
    /// # Errors
    /// As [`Self::rva_static_address`]; `CORPROF_E_NOT_MANAGED_THREAD`.
    pub fn thread_static_address(
        &self,
        class: ClassId,
        field: FieldDef,
        thread: ThreadId,
    ) -> Result<Option<usize>> {
        let mut at = core::ptr::null_mut();
        check(
            "GetThreadStaticAddress",
            raw!(self.raw, GetThreadStaticAddress(class, field, thread, &mut at)),
        )?;
        Ok(address(at))
    }

    /// The same with an application domain (`GetThreadStaticAddress2`).
    ///
    /// # Errors
    /// As [`Self::thread_static_address`].
    pub fn thread_static_address2(
        &self,
        class: ClassId,
        field: FieldDef,
        app_domain: AppDomainId,
        thread: ThreadId,
    ) -> Result<Option<usize>> {
        let mut at = core::ptr::null_mut();
        check(
            "GetThreadStaticAddress2",
            raw!(self.raw, GetThreadStaticAddress2(class, field, app_domain, thread, &mut at)),
        )?;
        Ok(address(at))
    }

    /// Address of a field that each remoting context has its own of (`GetContextStaticAddress`).
    ///
    /// # Errors
    /// `E_NOTIMPL` on .NET (Core).
    pub fn context_static_address(
        &self,
        class: ClassId,
        field: FieldDef,
        context: ContextId,
    ) -> Result<Option<usize>> {
        let mut at = core::ptr::null_mut();
        check(
            "GetContextStaticAddress",
            raw!(self.raw, GetContextStaticAddress(class, field, context, &mut at)),
        )?;
        Ok(address(at))
    }
}
