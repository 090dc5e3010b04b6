//! The macro that states an interface once.

/// Declares a COM interface from its table of methods.
///
/// ```
/// use com::hresult::{E_NOTIMPL, S_OK};
/// use com::{ComClass, ComObject, HResult, IUnknown, com_interface};
///
/// com_interface! {
///     /// Counts.
///     interface ICounter(ICounterVtbl, ICounterImpl): IUnknown(ComClass)
///         = "6D2A4D5E-0A5B-4C57-9A3E-4B8A7E5B1F01", default E_NOTIMPL;
///     fn Count(by: u32, total: *mut u32) -> HResult;
///     fn Reset() -> HResult;
/// }
///
/// struct Counter(std::sync::atomic::AtomicU32);
///
/// impl ComClass for Counter {
///     type Interface = ICounter;
/// }
///
/// impl ICounterImpl for Counter {
///     unsafe fn Count(&self, by: u32, total: *mut u32) -> HResult {
///         let now = self.0.fetch_add(by, std::sync::atomic::Ordering::Relaxed) + by;
///         unsafe { *total = now };
///         S_OK
///     }
/// }
///
/// let counter: ICounter = ComObject::new(Counter(Default::default())).into_interface();
/// let mut total = 0;
/// assert_eq!(unsafe { counter.Count(3, &mut total) }, S_OK);
/// assert_eq!(total, 3);
/// assert_eq!(unsafe { counter.Reset() }, E_NOTIMPL);
/// ```
///
/// The head names, in this order: the interface, its vtable type, its implementer's trait; after
/// the colon the base interface and the base's implementer's trait (for
/// [`IUnknown`](crate::IUnknown) that is [`ComClass`](crate::ComClass)); the IID; the result of
/// methods that an implementer does not override. Then the rows, one for each slot in vtable order,
/// without `this`.
///
/// It makes:
/// * the `#[repr(C)]` vtable with `base` first and a function pointer for each row (`extern
///   "system"`: stdcall on 32-bit Windows, the C convention everywhere else);
/// * the owning pointer type, which dereferences to its base and has an `unsafe fn` for each row;
/// * the implementer's trait, every method with a default body;
/// * the thunks, which stop panics, and the constant vtable of every type that implements the
///   trait.
///
/// It does not know: overloads, properties, interfaces with two bases, IDispatch, in/out
/// annotations. Pointers that C would pass are written as pointers; a borrowed interface as
/// `Option<`[`InterfaceRef`](crate::InterfaceRef)`<'_, I>>`; one that the method returns as `*mut
/// Option<I>`.
#[macro_export]
macro_rules! com_interface {
    (
        $(#[$meta:meta])*
        interface $Name:ident($Vtbl:ident, $Impl:ident): $Base:ident($BaseImpl:ident) = $iid:literal, default $default:expr;
        $( fn $method:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty; )*
    ) => {
        #[doc = concat!("Function table of [`", stringify!($Name), "`].")]
        #[allow(non_snake_case)]
        #[repr(C)]
        pub struct $Vtbl {
            #[doc = concat!("Slots of [`", stringify!($Base), "`].")]
            pub base: <$Base as $crate::Interface>::Vtable,
            $(
                #[doc = concat!("Slot of [`", stringify!($Name), "::", stringify!($method), "`].")]
                pub $method: unsafe extern "system" fn(this: *mut ::core::ffi::c_void, $($arg: $ty),*) -> $ret,
            )*
        }

        $(#[$meta])*
        #[derive(Clone, Debug)]
        #[repr(transparent)]
        pub struct $Name($Base);

        impl ::core::ops::Deref for $Name {
            type Target = $Base;

            fn deref(&self) -> &$Base {
                &self.0
            }
        }

        // SAFETY: transparent wrapper of the base; the vtable begins with the base's and continues
        // with the rows.
        #[allow(unsafe_code)]
        unsafe impl $crate::Interface for $Name {
            type Vtable = $Vtbl;
            const IID: $crate::Guid = match $crate::Guid::parse($iid) {
                Ok(iid) => iid,
                Err(_) => panic!("the IID is malformed"),
            };
            const NAME: &'static str = stringify!($Name);

            fn implements(iid: &$crate::Guid) -> bool {
                *iid == <Self as $crate::Interface>::IID || <$Base as $crate::Interface>::implements(iid)
            }

            fn as_unknown(&self) -> &$crate::IUnknown {
                $crate::Interface::as_unknown(&self.0)
            }
        }

        #[allow(non_snake_case, unsafe_code, clippy::too_many_arguments)]
        impl $Name {
            $(
                #[doc = concat!("Calls `", stringify!($Name), "::", stringify!($method), "`.")]
                ///
                /// # Safety
                ///
                /// Pointers are valid for what the method's documentation says it reads and writes,
                /// and the method may be called at this time on this thread.
                pub unsafe fn $method(&self, $($arg: $ty),*) -> $ret {
                    // SAFETY: the pointer is live as long as `self`; the arguments are the caller's
                    // affair.
                    unsafe { ($crate::Interface::vtable(self).$method)($crate::Interface::as_raw(self), $($arg),*) }
                }
            )*
        }

        #[doc = concat!("The body of a [`", stringify!($Name), "`]. What is not overridden returns \
            `", stringify!($default), "` \
            (or zero).")]
        #[allow(non_snake_case, unused_variables, unsafe_code, clippy::too_many_arguments)]
        pub trait $Impl: $BaseImpl {
            $(
                #[doc = concat!("Body of `", stringify!($Name), "::", stringify!($method), "`.")]
                ///
                /// # Safety
                ///
                /// Pointers are valid for what the method's documentation says it reads and writes.
                unsafe fn $method(&self, $($arg: $ty),*) -> $ret {
                    <$ret as $crate::AbiReturn>::not_overridden($default)
                }
            )*
        }

        // SAFETY: every thunk hands `this` to `call` as the box of a `ComObject<T>`, as the base's
        // do.
        #[allow(non_snake_case, unsafe_code, clippy::too_many_arguments)]
        unsafe impl<T: $Impl> $crate::Implementable<T> for $Name {
            const VTABLE: $Vtbl = {
                $(
                    unsafe extern "system" fn $method<T: $Impl>(this: *mut ::core::ffi::c_void, $($arg: $ty),*) -> $ret {
                        // SAFETY: `this` is an object of ours; the arguments are passed on as they
                        // came.
                        unsafe {
                            $crate::object::call::<T, $ret>(
                                this,
                                concat!(stringify!($Name), "::", stringify!($method)),
                                |object| <T as $Impl>::$method(object, $($arg),*),
                            )
                        }
                    }
                )*
                $Vtbl { base: <$Base as $crate::Implementable<T>>::VTABLE, $($method: $method::<T>),* }
            };
            const VTABLE_REF: &'static $Vtbl = &<$Name as $crate::Implementable<T>>::VTABLE;
        }
    };
}
