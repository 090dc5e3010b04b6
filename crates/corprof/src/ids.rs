//! The runtime's handles, each its own type.
//!
//! A handle is an address inside the runtime; profilers only pass it back. Zero is no handle
//! (`is_null`). How long one stays valid: functions, classes and modules until the unload callback
//! of their module (or of the collectible assembly) has returned; threads until `ThreadDestroyed`;
//! objects only until the next collection moves them, which is why [`ObjectId`] has a lifetime.

use core::fmt;
use core::marker::PhantomData;

/// Declares handle types.
macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident;)*) => {
        $(
            $(#[$meta])*
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
            pub struct $name(pub usize);

            impl $name {
                /// No handle.
                pub const NULL: $name = $name(0);

                /// Whether this is no handle at all.
                pub const fn is_null(self) -> bool {
                    self.0 == 0
                }

                /// The handle, or `None` if it is null.
                pub const fn non_null(self) -> Option<$name> {
                    if self.is_null() { None } else { Some(self) }
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    write!(f, concat!(stringify!($name), "({:#x})"), self.0)
                }
            }
        )*
    };
}

ids! {
    /// A process, as application domains know it. .NET (Core) has nothing to say about it.
    ProcessId;
    /// A loaded assembly.
    AssemblyId;
    /// An application domain. .NET (Core) has one for code and a shared one that older runtimes
    /// report too.
    AppDomainId;
    /// A loaded module: one file of an assembly, or one made by Reflection.Emit.
    ModuleId;
    /// A loaded type; each instantiation of a generic type has its own.
    ClassId;
    /// A managed thread.
    ThreadId;
    /// A remoting context of .NET Framework.
    ContextId;
    /// A method; each unshared instantiation of a generic method has its own.
    FunctionId;
    /// A GC handle as the GC's root callbacks know it.
    GcHandleId;
    /// A version of a method's body that ReJIT made; zero is the original.
    ReJitId;
    /// An object's address, with nothing known of how long it holds. Safe interfaces use
    /// [`ObjectId`].
    RawObjectId;
}

/// An object's address, good for as long as `'cx`.
///
/// The garbage collector moves objects whenever it runs, so an address from a callback means
/// nothing once the callback has returned. The lifetime ties it to the callback's
/// [`CallbackCx`](crate::CallbackCx).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId<'cx> {
    raw: RawObjectId,
    scope: PhantomData<&'cx ()>,
}

impl<'cx> ObjectId<'cx> {
    /// Claims that `raw` is an object that neither moves nor dies during `'cx`.
    ///
    /// # Safety
    ///
    /// That claim is true: no garbage collection can run meanwhile, for instance because the
    /// runtime is suspended, or is waiting for a callback of ours to return.
    pub unsafe fn from_raw(raw: RawObjectId) -> ObjectId<'cx> {
        ObjectId { raw, scope: PhantomData }
    }

    /// The address without the lifetime.
    pub const fn raw(self) -> RawObjectId {
        self.raw
    }

    /// The address as a number.
    pub const fn address(self) -> usize {
        self.raw.0
    }
}

impl fmt::Debug for ObjectId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({:#x})", self.raw.0)
    }
}
