//! The enumerations of metadata as iterators.

use core::marker::PhantomData;

use com::HResult;

use super::abi::{HCORENUM, IMetaDataAssemblyImport, IMetaDataImport2};
use super::token::*;
use crate::info::call::{check, raw};
use crate::info::error::Result;

/// What is enumerated: a token of one table or of any.
pub trait EnumeratedToken: Copy {
    /// From the number that the runtime gave.
    fn from_number(number: u32) -> Self;
}

macro_rules! enumerated {
    ($($name:ident),*) => { $(
        impl EnumeratedToken for $name {
            fn from_number(number: u32) -> Self {
                Self::from_raw(number)
            }
        }
    )* };
}

enumerated!(
    TypeRef,
    TypeDef,
    FieldDef,
    MethodDef,
    ParamDef,
    InterfaceImpl,
    MemberRef,
    CustomAttribute,
    Permission,
    Signature,
    Event,
    Property,
    ModuleRef,
    TypeSpec,
    AssemblyRef,
    File,
    ExportedType,
    ManifestResource,
    GenericParam,
    MethodSpec,
    GenericParamConstraint,
    UserString
);

impl EnumeratedToken for Token {
    fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Who closes an enumeration.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope<'a> {
    /// The interface for types and members.
    Import(&'a IMetaDataImport2),
    /// The interface for the manifest.
    Assembly(&'a IMetaDataAssemblyImport),
}

/// An enumeration that the runtime has begun, closed on drop.
#[derive(Debug)]
pub(super) struct OpenEnum<'a> {
    pub(super) scope: Scope<'a>,
    pub(super) handle: HCORENUM,
}

impl<'a> OpenEnum<'a> {
    pub(super) const fn new(scope: Scope<'a>) -> Self {
        Self { scope, handle: core::ptr::null_mut() }
    }
}

impl Drop for OpenEnum<'_> {
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        match self.scope {
            Scope::Import(import) => raw!(import, CloseEnum(self.handle)),
            Scope::Assembly(import) => raw!(import, CloseEnum(self.handle)),
        }
    }
}

/// How many tokens are fetched by one call.
const BATCH: usize = 32;

/// Fetches the next tokens: enumeration, buffer, room, number fetched.
type Fetch<'a> = dyn FnMut(*mut HCORENUM, *mut u32, u32, *mut u32) -> HResult + 'a;

/// Iterator over metadata tokens. They are fetched in batches; the enumeration is closed on drop.
///
/// After an error the iterator ends.
pub struct TokenEnum<'a, T> {
    open: OpenEnum<'a>,
    call: &'static str,
    fetch: Box<Fetch<'a>>,
    batch: [u32; BATCH],
    at: usize,
    filled: usize,
    ended: bool,
    token: PhantomData<T>,
}

impl<T> core::fmt::Debug for TokenEnum<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TokenEnum")
            .field("call", &self.call)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<'a, T: EnumeratedToken> TokenEnum<'a, T> {
    pub(super) fn new(
        scope: Scope<'a>,
        call: &'static str,
        fetch: impl FnMut(*mut HCORENUM, *mut u32, u32, *mut u32) -> HResult + 'a,
    ) -> Self {
        Self {
            open: OpenEnum::new(scope),
            call,
            fetch: Box::new(fetch),
            batch: [0; BATCH],
            at: 0,
            filled: 0,
            ended: false,
            token: PhantomData,
        }
    }

    fn refill(&mut self) -> Result<()> {
        let mut filled = 0;
        let hresult =
            (self.fetch)(&mut self.open.handle, self.batch.as_mut_ptr(), BATCH as u32, &mut filled);
        self.at = 0;
        self.filled = (filled as usize).min(BATCH);
        // S_FALSE means that there are no more; so does an S_OK that brings nothing.
        self.ended = self.filled == 0 || hresult.is_err();
        if hresult.is_err() {
            self.filled = 0;
        }
        check(self.call, hresult)
    }

    /// How many tokens the whole enumeration has, also those that were already taken.
    ///
    /// # Errors
    /// The runtime refuses; enumerations of the manifest cannot be counted (`E_NOTIMPL`).
    pub fn total(&mut self) -> Result<u32> {
        const CALL: &str = "IMetaDataImport::CountEnum";
        let Scope::Import(import) = self.open.scope else {
            check(CALL, com::hresult::E_NOTIMPL)?;
            return Ok(0);
        };
        if self.open.handle.is_null() && !self.ended && self.at == self.filled {
            self.refill()?;
        }
        // An empty enumeration may have no handle.
        let mut count = self.filled as u32;
        if !self.open.handle.is_null() {
            check(CALL, raw!(import, CountEnum(self.open.handle, &mut count)))?;
        }
        Ok(count)
    }

    /// Starts again at token number `position`, from 0.
    ///
    /// # Errors
    /// The runtime refuses; enumerations of the manifest cannot be reset (`E_NOTIMPL`).
    pub fn reset(&mut self, position: u32) -> Result<()> {
        const CALL: &str = "IMetaDataImport::ResetEnum";
        if !self.open.handle.is_null() {
            match self.open.scope {
                Scope::Import(import) => {
                    check(CALL, raw!(import, ResetEnum(self.open.handle, position)))?
                }
                Scope::Assembly(_) => check(CALL, com::hresult::E_NOTIMPL)?,
            }
        }
        (self.at, self.filled, self.ended) = (0, 0, false);
        Ok(())
    }
}

impl<T: EnumeratedToken> Iterator for TokenEnum<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if self.at == self.filled {
            if self.ended {
                return None;
            }
            if let Err(error) = self.refill() {
                return Some(Err(error));
            }
        }
        let token = self.batch.get(self.at).filter(|_| self.at < self.filled)?;
        self.at += 1;
        Some(Ok(T::from_number(*token)))
    }
}

impl<T: EnumeratedToken> core::iter::FusedIterator for TokenEnum<'_, T> {}
