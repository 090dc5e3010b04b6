//! Interface pointers: owned ([`IUnknown`] and everything `com_interface!` declares) and borrowed
//! ([`InterfaceRef`]).

use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::hresult::E_NOINTERFACE;
use crate::{Guid, HResult};

/// Vtable of [`IUnknown`], the first three slots of every vtable.
#[repr(C)]
pub struct IUnknownVtbl {
    /// Asks for another interface of the object; the pointer that comes back holds one reference.
    pub QueryInterface: unsafe extern "system" fn(
        this: *mut c_void,
        iid: *const Guid,
        out: *mut *mut c_void,
    ) -> HResult,
    /// Adds a reference; the return value is only for diagnostics.
    pub AddRef: unsafe extern "system" fn(this: *mut c_void) -> u32,
    /// Gives a reference back; at zero the object is gone.
    pub Release: unsafe extern "system" fn(this: *mut c_void) -> u32,
}

/// A COM interface: an owning pointer type, its vtable and its id.
///
/// Implemented by [`com_interface!`](crate::com_interface) only.
///
/// # Safety
///
/// The type is a `#[repr(transparent)]` wrapper of its base interface, down to [`IUnknown`], and
/// `Vtable` is the `#[repr(C)]` layout of the interface that `IID` names, beginning with the base's
/// vtable.
pub unsafe trait Interface: Sized + Clone + Send + Sync + 'static {
    /// Layout of the function table.
    type Vtable: 'static;

    /// The interface's id.
    const IID: Guid;

    /// The interface's name.
    const NAME: &'static str;

    /// Whether a pointer to this interface answers to `iid`: its own id or that of one of its
    /// bases.
    fn implements(iid: &Guid) -> bool;

    /// The same pointer as its root interface.
    fn as_unknown(&self) -> &IUnknown;

    /// The pointer as C sees it. It lives as long as `self`.
    fn as_raw(&self) -> *mut c_void {
        self.as_unknown().0.as_ptr().cast()
    }

    /// Gives the reference away as a bare pointer, which [`Interface::from_raw`] or `Release` takes
    /// over.
    fn into_raw(self) -> *mut c_void {
        let raw = self.as_raw();
        core::mem::forget(self);
        raw
    }

    /// Takes over one reference.
    ///
    /// # Safety
    ///
    /// `raw` is a live pointer to this very interface, free-threaded (its methods may be called on
    /// any thread), and carries one reference that nobody else gives back.
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        const { assert!(size_of::<Self>() == size_of::<NonNull<c_void>>()) };
        // SAFETY: by the trait's contract `Self` is a transparent wrapper of the pointer; the
        // reference is ours by this function's contract.
        unsafe { core::mem::transmute_copy(&raw) }
    }

    /// Takes over one reference, or `None` if the pointer is null.
    ///
    /// # Safety
    ///
    /// Null, or as for [`Interface::from_raw`].
    unsafe fn from_nullable(raw: *mut c_void) -> Option<Self> {
        // SAFETY: the pointer is not null here, and the rest is this function's contract.
        NonNull::new(raw).map(|raw| unsafe { Self::from_raw(raw) })
    }

    /// The function table.
    fn vtable(&self) -> &Self::Vtable {
        // SAFETY: a live interface pointer points to a pointer to its vtable, which lives as long
        // as the code behind it; `Self::Vtable` is its layout by the trait's contract.
        unsafe { &**self.as_raw().cast::<*const Self::Vtable>() }
    }

    /// Asks the object for another interface (`QueryInterface`).
    fn cast<I: Interface>(&self) -> Result<I, HResult> {
        let mut out = core::ptr::null_mut();
        // SAFETY: `self` is live, and both pointers are valid for the call.
        let code = unsafe {
            (self.as_unknown().vtable().QueryInterface)(self.as_raw(), &I::IID, &mut out)
        };
        code.ok()?;
        // SAFETY: a successful QueryInterface returns a referenced pointer to the interface asked
        // for, or, from sloppy objects, null.
        unsafe { I::from_nullable(out) }.ok_or(E_NOINTERFACE)
    }

    /// Borrows the pointer in the form in which it is passed as an argument.
    fn to_ref(&self) -> InterfaceRef<'_, Self> {
        // SAFETY: `self` is not null and outlives the borrow.
        unsafe { InterfaceRef::from_raw(self.as_unknown().0.cast()) }
    }
}

/// Owning pointer to the root of all interfaces: clone is `AddRef`, drop is `Release`.
///
/// Interfaces of this crate are free-threaded, as everything around the runtime's profiling API is;
/// a pointer to an object that belongs to one apartment must not be wrapped.
#[repr(transparent)]
pub struct IUnknown(NonNull<*const IUnknownVtbl>);

// SAFETY: `from_raw` demands a free-threaded object, whose reference count is atomic.
unsafe impl Send for IUnknown {}
// SAFETY: as above.
unsafe impl Sync for IUnknown {}

// SAFETY: transparent pointer; the vtable is IUnknown's.
unsafe impl Interface for IUnknown {
    type Vtable = IUnknownVtbl;
    const IID: Guid = Guid::from_u128(0x00000000_0000_0000_C000_000000000046);
    const NAME: &'static str = "IUnknown";

    fn implements(iid: &Guid) -> bool {
        *iid == Self::IID
    }

    fn as_unknown(&self) -> &IUnknown {
        self
    }
}

impl Clone for IUnknown {
    fn clone(&self) -> IUnknown {
        // SAFETY: `self` holds a reference, so the object is live.
        unsafe { (self.vtable().AddRef)(self.as_raw()) };
        IUnknown(self.0)
    }
}

impl Drop for IUnknown {
    fn drop(&mut self) {
        // SAFETY: gives back the one reference that `self` holds.
        unsafe { (self.vtable().Release)(self.as_raw()) };
    }
}

impl fmt::Debug for IUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", self.0)
    }
}

/// A borrowed interface pointer, as arguments carry it: no reference is added or given back.
///
/// `Option<InterfaceRef<I>>` has the layout of a nullable C pointer.
#[repr(transparent)]
pub struct InterfaceRef<'a, I: Interface> {
    raw: NonNull<c_void>,
    borrow: PhantomData<&'a I>,
}

// SAFETY: a shared borrow of `I`, which is Sync.
unsafe impl<I: Interface> Send for InterfaceRef<'_, I> {}
// SAFETY: as above.
unsafe impl<I: Interface> Sync for InterfaceRef<'_, I> {}

impl<I: Interface> InterfaceRef<'_, I> {
    /// Borrows a bare pointer.
    ///
    /// # Safety
    ///
    /// `raw` is a live, free-threaded pointer to this very interface for as long as the borrow
    /// lasts.
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        InterfaceRef { raw, borrow: PhantomData }
    }

    /// The pointer as C sees it.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.as_ptr()
    }
}

impl<I: Interface> Deref for InterfaceRef<'_, I> {
    type Target = I;

    fn deref(&self) -> &I {
        // SAFETY: `I` is a transparent wrapper of a non-null pointer (contract of `Interface`), so
        // a reference to our pointer is a reference to an `I`; being shared, it can be neither
        // dropped nor moved out of.
        unsafe { &*(&raw const self.raw).cast::<I>() }
    }
}

impl<I: Interface> Clone for InterfaceRef<'_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Interface> Copy for InterfaceRef<'_, I> {}

impl<I: Interface> fmt::Debug for InterfaceRef<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "&{}({:p})", I::NAME, self.raw)
    }
}
