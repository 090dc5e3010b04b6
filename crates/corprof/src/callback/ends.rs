//! Which callbacks come even after a panic of the profiler.

/// Callbacks that come even after a panic: those that end what an id stands for, and those that end
/// what others began. A profiler whose threads still run would take for alive what is freed.
const ENDS: [&str; 21] = [
    "AppDomainShutdownStarted",
    "AppDomainShutdownFinished",
    "AssemblyUnloadStarted",
    "AssemblyUnloadFinished",
    "ModuleLoadStarted",
    "ModuleUnloadStarted",
    "ModuleUnloadFinished",
    "ClassUnloadStarted",
    "ClassUnloadFinished",
    "FunctionUnloadStarted",
    "DynamicMethodUnloaded",
    "ThreadDestroyed",
    "JITCompilationFinished",
    "DynamicMethodJITCompilationFinished",
    "ReJITCompilationFinished",
    "RuntimeSuspendStarted",
    "RuntimeSuspendAborted",
    "RuntimeResumeStarted",
    "RuntimeResumeFinished",
    "GarbageCollectionFinished",
    "HandleDestroyed",
];

#[expect(clippy::indexing_slicing, reason = "done when this is compiled")]
pub(super) const fn tells_an_end(callback: &str) -> bool {
    let mut index = 0;
    while index < ENDS.len() {
        if is_same(ENDS[index].as_bytes(), callback.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

#[expect(clippy::indexing_slicing, reason = "done when this is compiled")]
const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}
