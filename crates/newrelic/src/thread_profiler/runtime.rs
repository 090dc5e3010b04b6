//! The runtime's functions that the thread profiler calls.

use corprof::ids::{FunctionId, ModuleId, ThreadId};
use corprof::info::{Result, SnapshotFlags, SuspendedRuntime};
use corprof::metadata::{MethodDef, TypeDef};
use corprof::{HResult, ProfilerInfo};
use std::ops::ControlFlow;

/// `CORPROF_E_SUSPENSION_IN_PROGRESS` (corerror.h): a collection suspends the runtime.
pub const SUSPENSION_IN_PROGRESS: HResult = HResult::from_bits(0x8013_1388);

/// The runtime. Tests use a fake one.
pub trait Runtime: Send + Sync + 'static {
    /// The runtime is suspended until this is dropped.
    type Suspended<'a>;

    /// Whether stacks can be walked at all.
    fn can_walk(&self) -> bool;

    /// Whether [`Self::suspend`] suspends: .NET Framework can only stop one thread at a time, for
    /// its walk.
    fn can_suspend(&self) -> bool;

    /// Prepares the calling thread for the other calls.
    ///
    /// # Errors
    /// The runtime is out of memory.
    fn initialize_current_thread(&self) -> Result<()>;

    /// The managed thread that calls.
    fn current_thread(&self) -> Option<ThreadId>;

    /// All managed threads whose end was not reported.
    ///
    /// # Errors
    /// The runtime refuses.
    fn threads(&self) -> Result<Vec<ThreadId>>;

    /// Suspends the runtime, where it can.
    ///
    /// # Errors
    /// [`SUSPENSION_IN_PROGRESS`]: try again.
    fn suspend(&self) -> Result<Self::Suspended<'_>>;

    /// Resumes the runtime.
    ///
    /// # Errors
    /// The runtime refuses.
    fn resume(&self, suspended: Self::Suspended<'_>) -> Result<()>;

    /// Hands over the frames of a thread, leaf first; `None` is a run of native frames. Does not
    /// allocate.
    ///
    /// # Errors
    /// The thread has no managed frames, or cannot be walked now.
    fn walk(&self, thread: ThreadId, each: impl FnMut(Option<FunctionId>)) -> Result<()>;

    /// Module and token of a live function. Does not allocate and takes no lock.
    ///
    /// # Errors
    /// The function is still being loaded.
    fn function(&self, function: FunctionId) -> Result<(ModuleId, MethodDef)>;

    /// Type and name of a method of a loaded module. The type is nil for a global method.
    ///
    /// # Errors
    /// The metadata cannot be read.
    fn method(&self, module: ModuleId, method: MethodDef) -> Result<(TypeDef, String)>;

    /// Name of a type of a loaded module, without the names of its enclosing types.
    ///
    /// # Errors
    /// The metadata cannot be read.
    fn class(&self, module: ModuleId, class: TypeDef) -> Result<String>;
}

impl Runtime for ProfilerInfo {
    type Suspended<'a> = Option<SuspendedRuntime<'a>>;

    fn can_walk(&self) -> bool {
        self.can_suspend() || cfg!(windows)
    }

    fn can_suspend(&self) -> bool {
        self.info10().is_ok()
    }

    fn initialize_current_thread(&self) -> Result<()> {
        self.initialize_current_thread()
    }

    fn current_thread(&self) -> Option<ThreadId> {
        self.current_thread().ok().flatten()
    }

    fn threads(&self) -> Result<Vec<ThreadId>> {
        self.threads()?.filter(|thread| !matches!(thread, Ok(thread) if thread.is_null())).collect()
    }

    fn suspend(&self) -> Result<Self::Suspended<'_>> {
        self.can_suspend().then(|| self.suspend_runtime()).transpose()
    }

    fn resume(&self, suspended: Self::Suspended<'_>) -> Result<()> {
        suspended.map_or(Ok(()), SuspendedRuntime::resume)
    }

    fn walk(&self, thread: ThreadId, mut each: impl FnMut(Option<FunctionId>)) -> Result<()> {
        self.stack_snapshot(Some(thread), SnapshotFlags::DEFAULT, None, |frame| {
            each(frame.function);
            ControlFlow::Continue(())
        })
    }

    fn function(&self, function: FunctionId) -> Result<(ModuleId, MethodDef)> {
        self.function_info(function).map(|info| (info.module, info.token))
    }

    fn method(&self, module: ModuleId, method: MethodDef) -> Result<(TypeDef, String)> {
        let mut name = String::new();
        let class = self.module_metadata(module)?.method_into(method, &mut name)?.class;
        Ok((class, name))
    }

    fn class(&self, module: ModuleId, class: TypeDef) -> Result<String> {
        let mut name = String::new();
        self.module_metadata(module)?.type_def_into(class, &mut name)?;
        Ok(name)
    }
}
