//! What a profiler may ask of the runtime and tell it: `ICorProfilerInfo` 1 to 15, safe.
//!
//! [`ProfilerInfo`] holds the newest interface that the runtime answers to. A method that needs a
//! newer one returns [`Error::NeedsRuntime`] and does nothing else, so a profiler is written once
//! and told what it cannot have. The methods stand in files by topic; each names the runtime's
//! method that it calls.
//!
//! Rules that hold everywhere:
//! * A success is whatever is not negative. Where `S_FALSE` has a meaning, it is in the return
//!   type.
//! * What may be missing on success is an `Option`, and zero handles never come out.
//! * Lists and texts come whole: sizes are asked for inside.
//! * No method allocates for a single value; the address look-ups are one call of the runtime each.

pub(crate) mod call;
mod classes;
mod code;
mod ending;
mod enumerate;
mod environment;
pub(crate) mod error;
mod event_pipe;
mod events;
mod functions;
mod gc;
mod hooks;
mod il;
mod memory;
mod modules;
mod objects;
mod rejit;
mod runtime;
mod stacks;
mod statics;
mod threads;

use std::sync::Arc;

use com::{HResult, IUnknown, Interface};

use crate::abi::*;

pub use classes::{ArrayClass, ClassInfo, ClassLayout, StringLayout, TypeArguments};
pub use code::{CodeRange, IlOffset, NativeMapping};
pub use enumerate::{FunctionVersion, HandleEnum, ModuleMethod};
pub use error::{Error, Result};
pub use event_pipe::{
    EventData, EventDefinition, EventField, EventPipeEvent, EventPipeProvider, EventPipeSession,
    FieldKind, ProviderConfig,
};
pub use events::ExceptionClause;
pub use functions::{DynamicFunction, FunctionInfo, Inliners};
pub use gc::{GenerationRange, NonGcRange};
pub use hooks::{ArgumentInfo, ArgumentRange};
pub use il::{IlBody, IlMapEntry};
pub use modules::{AppDomainInfo, AssemblyInfo, ModuleInfo};
pub use objects::{ArrayObject, ObjectHandle};
pub use runtime::{RuntimeInfo, SuspendedRuntime};
pub use stacks::{FrameInfo, SnapshotFlags, StackFrame};
pub use statics::StaticKind;
pub use threads::OsThreadId;

/// The runtime, as a profiler talks to it. Clones share the same connection; it may be used on any
/// thread.
///
/// Its methods may be called as long as the profiler is attached. Many of them take locks of the
/// runtime or look at structures that a collection moves, so inside a signal handler only the
/// address look-ups may be called, and inside some callbacks others are barred: the runtime then
/// answers `CORPROF_E_UNSUPPORTED_CALL_SEQUENCE`. When the callback `Shutdown` has returned, other
/// threads get `CORPROF_E_PROFILER_DETACHING` for new event masks and ReJIT, because .NET Core 3.1
/// would crash.
#[derive(Clone, Debug)]
pub struct ProfilerInfo {
    /// A pointer to interface number `version`, kept as the oldest one that is supported.
    raw: ICorProfilerInfo3,
    version: u8,
    cache: Arc<objects::ObjectCache>,
    ending: Arc<ending::Ending>,
}

macro_rules! newer {
    ($( $method:ident: $interface:ident = $version:literal, $since:literal; )*) => {
        impl ProfilerInfo {
            $(
                #[doc = concat!("The runtime as [`", stringify!($interface), "`].")]
                ///
                /// # Errors
                #[doc = concat!("[`Error::NeedsRuntime`] before ", $since, ".")]
                pub fn $method(&self) -> Result<&$interface> {
                    if self.version < $version {
                        return Err(Error::NeedsRuntime { interface: stringify!($interface), since: $since });
                    }
                    // SAFETY: the pointer came from QueryInterface for interface number `version`.
                    // The interfaces are one chain, each beginning with the slots of the one
                    // before, and the pointer types are transparent wrappers of each other, so it
                    // is also a pointer to this one.
                    Ok(unsafe { &*(&raw const self.raw).cast::<$interface>() })
                }
            )*

            /// Asks for the newest interface, down to number 4.
            fn newest(unknown: &IUnknown) -> Option<(ICorProfilerInfo3, u8)> {
                let mut newest = None;
                $(
                    if let Ok(interface) = unknown.cast::<$interface>() {
                        // SAFETY: the reference is taken over from a pointer to a later interface
                        // of the same chain, whose vtable begins with the slots of
                        // ICorProfilerInfo3; `into_raw` is never null.
                        newest = unsafe { ICorProfilerInfo3::from_nullable(interface.into_raw()) }
                            .map(|interface| (interface, $version));
                    }
                )*
                newest
            }
        }
    };
}

newer! {
    info4: ICorProfilerInfo4 = 4, ".NET Framework 4.5 or .NET Core 1.0";
    info5: ICorProfilerInfo5 = 5, ".NET Framework 4.5.2 or .NET Core 1.0";
    info6: ICorProfilerInfo6 = 6, ".NET Framework 4.6 or .NET Core 1.0";
    info7: ICorProfilerInfo7 = 7, ".NET Framework 4.6.1 or .NET Core 1.0";
    info8: ICorProfilerInfo8 = 8, ".NET Framework 4.7.2 or .NET Core 2.0";
    info9: ICorProfilerInfo9 = 9, ".NET Core 2.1";
    info10: ICorProfilerInfo10 = 10, ".NET Core 3.0";
    info11: ICorProfilerInfo11 = 11, ".NET Core 3.1";
    info12: ICorProfilerInfo12 = 12, ".NET 5";
    info13: ICorProfilerInfo13 = 13, ".NET 7";
    info14: ICorProfilerInfo14 = 14, ".NET 8";
    info15: ICorProfilerInfo15 = 15, ".NET 9";
}

impl ProfilerInfo {
    /// Asks the object that the runtime passes to `Initialize` or `InitializeForAttach` for the
    /// newest interface it has.
    ///
    /// # Errors
    /// `E_NOINTERFACE` if it does not even have `ICorProfilerInfo3` (.NET Framework 4.0).
    pub fn new(unknown: &IUnknown) -> Result<Self, HResult> {
        let (raw, version) = match Self::newest(unknown) {
            Some(newest) => newest,
            None => (unknown.cast::<ICorProfilerInfo3>()?, 3),
        };
        Ok(Self { raw, version, cache: Arc::default(), ending: Arc::default() })
    }

    /// Number of the newest `ICorProfilerInfo` that the runtime answers to, from 3.
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.version
    }

    /// The interface below, for what is not lifted here. See `info4()` … `info15()` for the newer
    /// ones.
    #[must_use]
    pub const fn raw(&self) -> &ICorProfilerInfo3 {
        &self.raw
    }
}
