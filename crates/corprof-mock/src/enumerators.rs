//! The runtime's enumerators, over lists.

use core::sync::atomic::{AtomicUsize, Ordering};

use com::hresult::{S_FALSE, S_OK};
use com::{ComClass, ComObject, HResult};
use corprof::abi::*;
use corprof::ids::*;

use crate::out::put;

/// An enumerator of each kind is the same code over another type.
macro_rules! enumerators {
    ($($name:ident: $Interface:ident, $Impl:ident, $item:ty;)*) => {
        $(
            /// A list behind the runtime's enumerator.
            pub(crate) struct $name {
                items: Vec<$item>,
                next: AtomicUsize,
            }

            impl $name {
                pub(crate) fn over(items: Vec<$item>) -> $Interface {
                    ComObject::new($name { items, next: AtomicUsize::new(0) }).into_interface()
                }
            }

            impl ComClass for $name {
                type Interface = $Interface;
            }

            impl $Impl for $name {
                unsafe fn Skip(&self, count: u32) -> HResult {
                    self.next.fetch_add(count as usize, Ordering::Relaxed);
                    S_OK
                }

                unsafe fn Reset(&self) -> HResult {
                    self.next.store(0, Ordering::Relaxed);
                    S_OK
                }

                unsafe fn Clone(&self, enumerator: *mut Option<$Interface>) -> HResult {
                    let copy = $name {
                        items: self.items.clone(),
                        next: AtomicUsize::new(self.next.load(Ordering::Relaxed)),
                    };
                    // SAFETY: an out pointer, by the method's contract.
                    unsafe { put(enumerator, Some(ComObject::new(copy).into_interface())) };
                    S_OK
                }

                unsafe fn GetCount(&self, count: *mut u32) -> HResult {
                    // SAFETY: an out pointer, by the method's contract.
                    unsafe { put(count, u32::try_from(self.items.len()).unwrap_or(u32::MAX)) };
                    S_OK
                }

                unsafe fn Next(&self, room: u32, places: *mut $item, fetched: *mut u32) -> HResult {
                    let from = self.next.load(Ordering::Relaxed).min(self.items.len());
                    let rest = self.items.get(from..).unwrap_or_default();
                    let given = rest.len().min(room as usize);
                    for (index, item) in rest.iter().take(given).enumerate() {
                        // SAFETY: `places` has `room` places, and `index` is below that.
                        unsafe { places.add(index).write(*item) };
                    }
                    self.next.store(from + given, Ordering::Relaxed);
                    // SAFETY: an out pointer, by the method's contract.
                    unsafe { put(fetched, u32::try_from(given).unwrap_or(u32::MAX)) };
                    if given == room as usize { S_OK } else { S_FALSE }
                }
            }
        )*
    };
}

enumerators! {
    Objects: ICorProfilerObjectEnum, ICorProfilerObjectEnumImpl, RawObjectId;
    Functions: ICorProfilerFunctionEnum, ICorProfilerFunctionEnumImpl, COR_PRF_FUNCTION;
    Modules: ICorProfilerModuleEnum, ICorProfilerModuleEnumImpl, ModuleId;
    Threads: ICorProfilerThreadEnum, ICorProfilerThreadEnumImpl, ThreadId;
}
