//! The runtime's enumerators as iterators.

use com::HResult;

use super::call::{check, raw};
use super::error::{Error, Result};
use crate::abi::*;
use crate::ids::{FunctionId, ModuleId, RawObjectId, ReJitId, ThreadId};
use crate::metadata::token::MethodDef;

/// A function and one version of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionVersion {
    /// The function.
    pub function: FunctionId,
    /// Which ReJIT made the body; null is the original.
    pub rejit: ReJitId,
}

/// A method by its place in metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleMethod {
    /// The module.
    pub module: ModuleId,
    /// The method in it.
    pub method: MethodDef,
}

/// How many items are fetched by one call.
const BATCH: usize = 64;

/// One of the runtime's enumerators.
pub trait Enumerator {
    /// What the runtime writes.
    type Raw: Copy + Default;
    /// What comes out.
    type Item;
    /// Name of the fetching method.
    const CALL: &'static str;

    /// Fetches up to `room` items.
    #[doc(hidden)]
    fn fetch(&self, room: u32, items: *mut Self::Raw, fetched: *mut u32) -> HResult;
    /// Passes over items.
    #[doc(hidden)]
    fn pass_over(&self, count: u32) -> HResult;
    /// How many there are.
    #[doc(hidden)]
    fn count(&self, count: *mut u32) -> HResult;
    /// Starts again.
    #[doc(hidden)]
    fn restart(&self) -> HResult;
    /// The safe form of an item.
    #[doc(hidden)]
    fn lift(raw: Self::Raw) -> Self::Item;
}

macro_rules! enumerators {
    ($( $interface:ident: $raw:ty => $item:ty, |$value:ident| $lift:expr; )*) => { $(
        impl Enumerator for $interface {
            type Raw = $raw;
            type Item = $item;
            const CALL: &'static str = concat!(stringify!($interface), "::Next");

            fn fetch(&self, room: u32, items: *mut $raw, fetched: *mut u32) -> HResult {
                raw!(*self, Next(room, items, fetched))
            }

            fn pass_over(&self, count: u32) -> HResult {
                raw!(*self, Skip(count))
            }

            fn count(&self, count: *mut u32) -> HResult {
                raw!(*self, GetCount(count))
            }

            fn restart(&self) -> HResult {
                raw!(*self, Reset())
            }

            fn lift($value: $raw) -> $item {
                $lift
            }
        }
    )* };
}

enumerators! {
    ICorProfilerObjectEnum: RawObjectId => RawObjectId, |raw| raw;
    ICorProfilerModuleEnum: ModuleId => ModuleId, |raw| raw;
    ICorProfilerThreadEnum: ThreadId => ThreadId, |raw| raw;
    ICorProfilerFunctionEnum: COR_PRF_FUNCTION => FunctionVersion,
        |raw| FunctionVersion { function: raw.function_id, rejit: raw.rejit_id };
    ICorProfilerMethodEnum: COR_PRF_METHOD => ModuleMethod,
        |raw| ModuleMethod { module: raw.module_id, method: raw.method_id };
}

/// Iterator over what the runtime enumerates: a snapshot, taken when it was asked for. Items are
/// fetched in batches.
///
/// After an error the iterator ends.
#[derive(Debug)]
pub struct HandleEnum<E: Enumerator> {
    enumerator: E,
    batch: Vec<E::Raw>,
    at: usize,
    ended: bool,
}

impl<E: Enumerator> HandleEnum<E> {
    /// Wraps what a successful call gave.
    pub(super) fn new(call: &'static str, enumerator: Option<E>) -> Result<Self> {
        let enumerator = enumerator.ok_or(Error::Nothing { call })?;
        Ok(Self { enumerator, batch: Vec::new(), at: 0, ended: false })
    }

    /// How many items the whole enumeration has, also those already taken.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn total(&self) -> Result<u32> {
        let mut count = 0;
        check("GetCount", self.enumerator.count(&mut count))?;
        Ok(count)
    }

    /// Passes over `count` items.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn pass_over(&mut self, count: u32) -> Result<()> {
        let fetched = ((self.batch.len() - self.at) as u32).min(count);
        self.at += fetched as usize;
        if count > fetched {
            check("Skip", self.enumerator.pass_over(count - fetched))?;
        }
        Ok(())
    }

    /// Starts again from the first item.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn restart(&mut self) -> Result<()> {
        self.batch.clear();
        (self.at, self.ended) = (0, false);
        check("Reset", self.enumerator.restart())
    }

    fn refill(&mut self) -> Result<()> {
        self.at = 0;
        self.batch.clear();
        self.batch.resize(BATCH, E::Raw::default());
        let mut fetched = 0;
        let hresult = self.enumerator.fetch(BATCH as u32, self.batch.as_mut_ptr(), &mut fetched);
        // S_FALSE says that fewer came than were asked for: nothing follows.
        self.batch.truncate(if hresult.is_ok() { fetched as usize } else { 0 });
        self.ended = hresult != com::hresult::S_OK || self.batch.len() < BATCH;
        check(E::CALL, hresult)
    }
}

impl<E: Enumerator> Iterator for HandleEnum<E> {
    type Item = Result<E::Item>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.batch.len() {
            if self.ended {
                return None;
            }
            if let Err(error) = self.refill() {
                return Some(Err(error));
            }
        }
        let item = *self.batch.get(self.at)?;
        self.at += 1;
        Some(Ok(E::lift(item)))
    }
}

impl<E: Enumerator> core::iter::FusedIterator for HandleEnum<E> {}
