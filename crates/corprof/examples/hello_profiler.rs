//! Writes the name of every method that is compiled, and how many there were.
//!
//! ```sh
//! cargo build -p corprof --example hello_profiler
//! CORECLR_ENABLE_PROFILING=1 \
//! CORECLR_PROFILER={2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F01} \
//! CORECLR_PROFILER_PATH=$PWD/target/debug/examples/libhello_profiler.so \
//!     dotnet App.dll
//! ```

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use corprof::ids::FunctionId;
use corprof::{
    CallbackCx, EventMask, HResult, NameResolver, Profiler, ProfilerCallback, ProfilerInfo,
    export_profiler, guid,
};

#[derive(Default)]
struct HelloProfiler {
    names: OnceLock<NameResolver>,
    compiled: AtomicU64,
}

impl ProfilerCallback for HelloProfiler {
    fn jit_compilation_finished(
        &self,
        _: &CallbackCx<'_>,
        function: FunctionId,
        status: Result<(), HResult>,
        _: bool,
    ) {
        let Some(names) = self.names.get() else { return };
        self.compiled.fetch_add(1, Ordering::Relaxed);
        match (names.method(function), status) {
            (Ok(name), Ok(())) => eprintln!("hello, {name}"),
            (Ok(name), Err(code)) => {
                eprintln!("hello, {name}, which could not be compiled: {code}")
            }
            (Err(error), _) => eprintln!("hello, {function:?}, whose name is not known: {error}"),
        }
    }
}

impl Profiler for HelloProfiler {
    fn initialize(&self, info: &ProfilerInfo) -> Result<EventMask, HResult> {
        self.names.get_or_init(|| NameResolver::new(info.clone()));
        Ok(EventMask::JIT_COMPILATION)
    }

    fn shutdown(&self, _: &CallbackCx<'_>) {
        eprintln!("{} methods were compiled", self.compiled.load(Ordering::Relaxed));
    }
}

export_profiler! {
    guid!("2F6A4C1E-5B6D-4C63-8A0E-5D7C9B1E3F01") => |_clsid| HelloProfiler::default(),
}
