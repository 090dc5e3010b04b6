//! COM objects made in Rust.

use core::any::Any;
use core::ffi::c_void;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering, fence};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::hresult::{E_NOINTERFACE, E_POINTER, E_UNEXPECTED, S_OK};
use crate::{Guid, HResult, IUnknown, IUnknownVtbl, Interface};

/// A Rust type that can stand behind a COM interface pointer.
///
/// One chain of interfaces per object: `Interface` is the most derived, its bases come with it.
pub trait ComClass: Send + Sync + Sized + 'static {
    /// The most derived interface of the object.
    type Interface: Implementable<Self>;

    /// Further interfaces outside of the chain, as other objects ("tear-offs"). The pointer's type
    /// must be the one that `iid` names.
    fn query_further(&self, _iid: &Guid) -> Option<IUnknown> {
        None
    }

    /// Whether the object denies an interface of its own chain. An object says the same each time.
    fn refuses(&self, _iid: &Guid) -> bool {
        false
    }

    /// A method panicked; the panic went no further than this. `method` is `Interface::Method`.
    ///
    /// The caller of the method gets a failure. Panics in here are swallowed.
    fn panicked(&self, _method: &'static str, _payload: &(dyn Any + Send)) {}
}

/// An interface that `T` can be behind. Implemented by [`com_interface!`](crate::com_interface)
/// only.
///
/// # Safety
///
/// Every function of `VTABLE` takes as `this` a pointer to the first field of the box of a
/// [`ComObject<T>`].
pub unsafe trait Implementable<T: 'static>: Interface {
    /// The function table.
    const VTABLE: Self::Vtable;

    /// The same with an address.
    const VTABLE_REF: &'static Self::Vtable;
}

/// What a method returns when its body cannot run.
pub trait AbiReturn: Sized {
    /// For a method that is not overridden, in an interface whose default result is `default`.
    fn not_overridden(default: HResult) -> Self;

    /// For a method that panicked.
    fn after_panic() -> Self;
}

impl AbiReturn for HResult {
    fn not_overridden(default: HResult) -> HResult {
        default
    }

    fn after_panic() -> HResult {
        E_UNEXPECTED
    }
}

/// Nothing, zero or null: the same for both cases.
macro_rules! zero_returns {
    ($($ty:ty = $zero:expr),* $(,)?) => {
        $(impl AbiReturn for $ty {
            fn not_overridden(_default: HResult) -> $ty {
                $zero
            }

            fn after_panic() -> $ty {
                $zero
            }
        })*
    };
}

zero_returns!(() = (), i32 = 0, u32 = 0, usize = 0);

impl<T> AbiReturn for *mut T {
    fn not_overridden(_default: HResult) -> *mut T {
        core::ptr::null_mut()
    }

    fn after_panic() -> *mut T {
        core::ptr::null_mut()
    }
}

/// Objects alive plus server locks held, in this library.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Whether no object of this library is alive and no server lock is held: the answer to
/// `DllCanUnloadNow`.
pub fn can_unload_now() -> bool {
    LIVE.load(Ordering::Acquire) == 0
}

/// What `IClassFactory::LockServer` does.
pub(crate) fn lock_server(lock: bool) {
    if lock {
        LIVE.fetch_add(1, Ordering::Relaxed);
    } else {
        // An unlock without a lock must not wrap round.
        let _ = LIVE.fetch_update(Ordering::Release, Ordering::Relaxed, |live| live.checked_sub(1));
    }
}

/// What an interface pointer to an object of ours points to.
#[repr(C)]
struct ComBox<T: ComClass> {
    vtable: &'static <T::Interface as Interface>::Vtable,
    references: AtomicUsize,
    value: T,
}

/// An owning pointer to a Rust value that is also a COM object.
///
/// There is never a `&mut T`: the other side holds references too and calls from any thread.
pub struct ComObject<T: ComClass> {
    boxed: NonNull<ComBox<T>>,
}

// SAFETY: `T` is Send and Sync (bound of `ComClass`), the count is atomic.
unsafe impl<T: ComClass> Send for ComObject<T> {}
// SAFETY: as above.
unsafe impl<T: ComClass> Sync for ComObject<T> {}

impl<T: ComClass> ComObject<T> {
    /// Makes `value` a COM object with one reference.
    pub fn new(value: T) -> ComObject<T> {
        LIVE.fetch_add(1, Ordering::Relaxed);
        let boxed = Box::new(ComBox {
            vtable: <T::Interface as Implementable<T>>::VTABLE_REF,
            references: AtomicUsize::new(1),
            value,
        });
        ComObject { boxed: NonNull::from(Box::leak(boxed)) }
    }

    /// Another reference, as the pointer that COM knows.
    pub fn to_interface(&self) -> T::Interface {
        self.clone().into_interface()
    }

    /// This reference, as the pointer that COM knows.
    pub fn into_interface(self) -> T::Interface {
        let raw = self.boxed.cast();
        core::mem::forget(self);
        // SAFETY: the box begins with the pointer to the interface's vtable, is free-threaded, and
        // its reference was `self`'s.
        unsafe { T::Interface::from_raw(raw) }
    }

    fn boxed(&self) -> &ComBox<T> {
        // SAFETY: `self` holds a reference, so the box is live; nobody has a unique borrow of it.
        unsafe { self.boxed.as_ref() }
    }
}

impl<T: ComClass> Deref for ComObject<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.boxed().value
    }
}

impl<T: ComClass> Clone for ComObject<T> {
    fn clone(&self) -> ComObject<T> {
        add_ref(self.boxed());
        ComObject { boxed: self.boxed }
    }
}

impl<T: ComClass> Drop for ComObject<T> {
    fn drop(&mut self) {
        // SAFETY: gives back the one reference that `self` holds.
        unsafe { release(self.boxed) };
    }
}

fn add_ref<T: ComClass>(boxed: &ComBox<T>) -> u32 {
    // Relaxed is enough: the caller has a reference, so the object cannot go away meanwhile.
    let before = boxed.references.fetch_add(1, Ordering::Relaxed);
    u32::try_from(before.wrapping_add(1)).unwrap_or(u32::MAX)
}

/// # Safety
///
/// The caller gives up one reference that it holds.
unsafe fn release<T: ComClass>(boxed: NonNull<ComBox<T>>) -> u32 {
    // SAFETY: live, since the caller still holds its reference.
    let references = unsafe { &boxed.as_ref().references };
    // Release: what this thread did with the object happens before its end, whichever thread ends
    // it.
    let before = references.fetch_sub(1, Ordering::Release);
    if before == 1 {
        fence(Ordering::Acquire);
        // SAFETY: that was the last reference, and the pointer came from `Box::leak`.
        let owned = unsafe { Box::from_raw(boxed.as_ptr()) };
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(owned)));
        if let Err(payload) = dropped {
            forget_payload(payload);
        }
        // Last of all, so that nothing of ours runs once the library may go.
        LIVE.fetch_sub(1, Ordering::Release);
    }
    u32::try_from(before.wrapping_sub(1)).unwrap_or(u32::MAX)
}

/// A payload's destructor may panic in its turn; leaking it is the safe way to be rid of it.
fn forget_payload(payload: Box<dyn Any + Send>) {
    if payload.is::<&'static str>() || payload.is::<String>() {
        drop(payload);
    } else {
        core::mem::forget(payload);
    }
}

/// Runs the body of a method; a panic ends here. Used by the thunks that
/// [`com_interface!`](crate::com_interface) makes.
///
/// On the way without a panic this touches no thread-local storage, and on the way with one none
/// that has a destructor: a destructor registered on a thread of the host would pin this library
/// until that thread ends.
///
/// # Safety
///
/// `this` is the interface pointer of a live [`ComObject<T>`].
pub unsafe fn call<T: ComClass, R: AbiReturn>(
    this: *mut c_void,
    method: &'static str,
    body: impl FnOnce(&T) -> R,
) -> R {
    // SAFETY: the caller's contract; the caller of a COM method holds a reference during the call.
    let boxed = unsafe { &*this.cast::<ComBox<T>>() };
    match catch_unwind(AssertUnwindSafe(|| body(&boxed.value))) {
        Ok(result) => result,
        Err(payload) => {
            let told = catch_unwind(AssertUnwindSafe(|| boxed.value.panicked(method, &*payload)));
            if let Err(second) = told {
                forget_payload(second);
            }
            forget_payload(payload);
            R::after_panic()
        }
    }
}

unsafe extern "system" fn query_interface<T: ComClass>(
    this: *mut c_void,
    iid: *const Guid,
    out: *mut *mut c_void,
) -> HResult {
    if iid.is_null() || out.is_null() {
        return E_POINTER;
    }
    // SAFETY: not null, and valid by COM's contract of QueryInterface.
    let iid = unsafe { *iid };
    let answer = |object: &T| {
        if T::Interface::implements(&iid) && !object.refuses(&iid) {
            // SAFETY: `this` is a box of ours, see `Implementable`.
            add_ref(unsafe { &*this.cast::<ComBox<T>>() });
            this
        } else {
            object.query_further(&iid).map_or(core::ptr::null_mut(), Interface::into_raw)
        }
    };
    // SAFETY: `this` is a box of ours, see `Implementable`.
    let answer = unsafe { call::<T, *mut c_void>(this, "IUnknown::QueryInterface", answer) };
    // SAFETY: `out` is not null, and valid by COM's contract.
    unsafe { *out = answer };
    if answer.is_null() { E_NOINTERFACE } else { S_OK }
}

unsafe extern "system" fn add_ref_thunk<T: ComClass>(this: *mut c_void) -> u32 {
    // SAFETY: `this` is a box of ours, see `Implementable`.
    add_ref(unsafe { &*this.cast::<ComBox<T>>() })
}

unsafe extern "system" fn release_thunk<T: ComClass>(this: *mut c_void) -> u32 {
    let Some(boxed) = NonNull::new(this.cast::<ComBox<T>>()) else { return 0 };
    // SAFETY: the caller gives up a reference by calling Release.
    unsafe { release(boxed) }
}

// SAFETY: the functions take `this` as the box of a `ComObject<T>`.
unsafe impl<T: ComClass> Implementable<T> for IUnknown {
    const VTABLE: IUnknownVtbl = IUnknownVtbl {
        QueryInterface: query_interface::<T>,
        AddRef: add_ref_thunk::<T>,
        Release: release_thunk::<T>,
    };
    const VTABLE_REF: &'static IUnknownVtbl = &<IUnknown as Implementable<T>>::VTABLE;
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU32;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::hresult::{CLASS_E_NOAGGREGATION, E_NOTIMPL};
    use crate::{ClassFactory, IClassFactory, com_interface, get_class_object};

    com_interface! {
        /// First.
        interface IFirst(IFirstVtbl, IFirstImpl): IUnknown(ComClass)
            = "10000000-0000-0000-0000-000000000001", default E_NOTIMPL;
        fn Add(by: u32, sum: *mut u32) -> HResult;
        fn Untouched() -> HResult;
    }

    com_interface! {
        /// Second, with everything that a return type can be.
        interface ISecond(ISecondVtbl, ISecondImpl): IFirst(IFirstImpl)
            = "10000000-0000-0000-0000-000000000002", default S_OK;
        fn Panic(how: u32) -> HResult;
        fn PanicNumber() -> u32;
        fn PanicPointer() -> *mut c_void;
        fn Untouched2() -> HResult;
    }

    com_interface! {
        /// Another chain.
        interface IOther(IOtherVtbl, IOtherImpl): IUnknown(ComClass)
            = "10000000-0000-0000-0000-000000000003", default E_NOTIMPL;
    }

    #[derive(Default)]
    struct Seen {
        sum: AtomicU32,
        drops: AtomicU32,
        panics: Mutex<Vec<(String, Option<String>)>>,
    }

    struct Object {
        seen: Arc<Seen>,
        refuses_second: bool,
        panics_on_drop: bool,
    }

    impl Drop for Object {
        fn drop(&mut self) {
            self.seen.drops.fetch_add(1, Ordering::Relaxed);
            if self.panics_on_drop {
                panic!("in drop");
            }
        }
    }

    struct TearOff;

    impl ComClass for TearOff {
        type Interface = IOther;
    }

    impl IOtherImpl for TearOff {}

    impl ComClass for Object {
        type Interface = ISecond;

        fn query_further(&self, iid: &Guid) -> Option<IUnknown> {
            (*iid == IOther::IID)
                .then(|| ComObject::new(TearOff).into_interface().as_unknown().clone())
        }

        fn refuses(&self, iid: &Guid) -> bool {
            self.refuses_second && *iid == ISecond::IID
        }

        fn panicked(&self, method: &'static str, payload: &(dyn Any + Send)) {
            let message = payload.downcast_ref::<&str>().map(ToString::to_string);
            self.seen.panics.lock().unwrap().push((method.to_owned(), message));
            panic!("while told of a panic");
        }
    }

    impl IFirstImpl for Object {
        unsafe fn Add(&self, by: u32, sum: *mut u32) -> HResult {
            let now = self.seen.sum.fetch_add(by, Ordering::Relaxed) + by;
            // SAFETY: a valid out pointer.
            unsafe { *sum = now };
            S_OK
        }
    }

    /// A payload that panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the payload's destructor");
        }
    }

    impl ISecondImpl for Object {
        unsafe fn Panic(&self, how: u32) -> HResult {
            match how {
                0 => panic!("a text"),
                _ => std::panic::panic_any(Bomb),
            }
        }

        unsafe fn PanicNumber(&self) -> u32 {
            panic!("number")
        }

        unsafe fn PanicPointer(&self) -> *mut c_void {
            panic!("pointer")
        }
    }

    fn object() -> (ComObject<Object>, Arc<Seen>) {
        let seen = Arc::new(Seen::default());
        (
            ComObject::new(Object {
                seen: seen.clone(),
                refuses_second: false,
                panics_on_drop: false,
            }),
            seen,
        )
    }

    fn drops(seen: &Seen) -> u32 {
        seen.drops.load(Ordering::Relaxed)
    }

    #[test]
    fn methods_of_every_level_are_called() {
        let (object, _) = object();
        let second = object.to_interface();
        let mut sum = 0;
        // SAFETY: a valid out pointer.
        assert_eq!(unsafe { second.Add(2, &mut sum) }, S_OK);
        // SAFETY: as above.
        assert_eq!(unsafe { second.to_ref().Add(3, &mut sum) }, S_OK);
        assert_eq!(sum, 5);
        assert_eq!(object.seen.sum.load(Ordering::Relaxed), 5);
        // SAFETY: no pointers.
        assert_eq!(unsafe { (second.Untouched(), second.Untouched2()) }, (E_NOTIMPL, S_OK));
    }

    #[test]
    fn the_last_reference_drops_the_object_whoever_holds_it() {
        let (object, seen) = object();
        let second = object.to_interface();
        let first: IFirst = second.cast().unwrap();
        let unknown = first.as_unknown().clone();
        drop(object);
        drop(first);
        drop(second);
        assert_eq!(drops(&seen), 0);
        let again: ISecond = unknown.cast().unwrap();
        drop(unknown);
        assert_eq!(drops(&seen), 0);
        drop(again);
        assert_eq!(drops(&seen), 1);
    }

    #[test]
    fn references_may_be_dropped_on_many_threads() {
        let (object, seen) = object();
        let second = object.into_interface();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let mine = second.clone();
                scope.spawn(move || {
                    for _ in 0..1000 {
                        drop(mine.cast::<IFirst>().unwrap().clone());
                    }
                });
            }
        });
        assert_eq!(drops(&seen), 0);
        drop(second);
        assert_eq!(drops(&seen), 1);
    }

    #[test]
    fn query_interface_knows_its_chain_and_tear_offs_and_nothing_else() {
        let (object, seen) = object();
        let second = object.into_interface();
        assert!(second.cast::<IUnknown>().is_ok());
        assert!(second.cast::<IFirst>().is_ok());
        let other: IOther = second.cast().unwrap();
        assert_eq!(other.cast::<IFirst>().unwrap_err(), E_NOINTERFACE);
        assert_eq!(second.cast::<IClassFactory>().unwrap_err(), E_NOINTERFACE);

        let shy = ComObject::new(Object {
            seen: seen.clone(),
            refuses_second: true,
            panics_on_drop: false,
        });
        assert_eq!(shy.to_interface().cast::<ISecond>().unwrap_err(), E_NOINTERFACE);
        assert!(shy.to_interface().cast::<IFirst>().is_ok());

        let mut out = core::ptr::null_mut();
        // SAFETY: null pointers are answered with an error.
        let codes = unsafe {
            let query = second.as_unknown().vtable().QueryInterface;
            (
                query(second.as_raw(), core::ptr::null(), &mut out),
                query(second.as_raw(), &IFirst::IID, core::ptr::null_mut()),
            )
        };
        assert_eq!(codes, (E_POINTER, E_POINTER));
    }

    #[test]
    fn panics_stop_at_the_thunk() {
        let (object, seen) = object();
        let second = object.to_interface();
        // SAFETY: no pointers.
        unsafe {
            assert_eq!(second.Panic(0), E_UNEXPECTED);
            assert_eq!(second.Panic(1), E_UNEXPECTED);
            assert_eq!(second.PanicNumber(), 0);
            assert!(second.PanicPointer().is_null());
        }
        let panics = seen.panics.lock().unwrap().clone();
        assert_eq!(panics[0], ("ISecond::Panic".to_owned(), Some("a text".to_owned())));
        assert_eq!(panics[1], ("ISecond::Panic".to_owned(), None));
        assert_eq!(panics.len(), 4);
    }

    #[test]
    fn a_panic_in_drop_stops_too() {
        let seen = Arc::new(Seen::default());
        let object = ComObject::new(Object {
            seen: seen.clone(),
            refuses_second: false,
            panics_on_drop: true,
        });
        drop(object.into_interface());
        assert_eq!(drops(&seen), 1);
    }

    #[test]
    fn a_class_factory_makes_objects_and_gives_them_away() {
        let seen = Arc::new(Seen::default());
        let makes = seen.clone();
        let factory: IClassFactory = ClassFactory::new(move || {
            let object =
                Object { seen: makes.clone(), refuses_second: false, panics_on_drop: false };
            Ok(ComObject::new(object).into_interface().as_unknown().clone())
        })
        .into_interface();
        let mut out = core::ptr::null_mut();
        // SAFETY: valid pointers; the answer is a pointer to the interface asked for.
        unsafe {
            assert_eq!(get_class_object(&factory, &IClassFactory::IID, &mut out), S_OK);
            let same = IClassFactory::from_nullable(out).unwrap();
            assert_eq!(same.CreateInstance(core::ptr::null_mut(), &IFirst::IID, &mut out), S_OK);
            let first = IFirst::from_nullable(out).unwrap();
            let mut sum = 0;
            assert_eq!(first.Add(7, &mut sum), S_OK);
            drop(first);
            assert_eq!(drops(&seen), 1);

            // An interface that it does not have: the object goes at once.
            assert_eq!(
                same.CreateInstance(core::ptr::null_mut(), &IClassFactory::IID, &mut out),
                E_NOINTERFACE
            );
            assert!(out.is_null());
            assert_eq!(drops(&seen), 2);

            assert_eq!(
                same.CreateInstance(same.as_raw(), &IFirst::IID, &mut out),
                CLASS_E_NOAGGREGATION
            );
            assert_eq!(
                same.CreateInstance(core::ptr::null_mut(), core::ptr::null(), &mut out),
                E_POINTER
            );
            assert_eq!(get_class_object(&same, core::ptr::null(), &mut out), E_POINTER);
        }
    }

    #[test]
    fn a_nullable_pointer_is_one_word() {
        assert_eq!(size_of::<Option<ISecond>>(), size_of::<usize>());
        assert_eq!(size_of::<Option<crate::InterfaceRef<'_, ISecond>>>(), size_of::<usize>());
        assert_eq!(core::mem::offset_of!(ISecondVtbl, Panic), 5 * size_of::<usize>());
        assert_eq!(size_of::<ISecondVtbl>(), 9 * size_of::<usize>());
    }
}
