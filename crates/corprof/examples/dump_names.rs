//! Writes the names of all functions that were compiled, as they are known when the process ends,
//! and how long one name takes.
//!
//! ```sh
//! cargo build -p corprof --example dump_names
//! CORECLR_ENABLE_PROFILING=1 \
//! CORECLR_PROFILER={6D1C2B7A-3E1F-4F0C-9A53-1C0B7E44A902} \
//! CORECLR_PROFILER_PATH=$PWD/target/debug/examples/libdump_names.so \
//! DUMP_NAMES_TO=/tmp/names.txt \
//!     dotnet App.dll
//! ```
//!
//! Each line is kind, type, name and parameters, with tabs between. The last line tells the time.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use corprof::ids::FunctionId;
use corprof::{
    CallbackCx, EventMask, HResult, NameResolver, Profiler, ProfilerCallback, ProfilerInfo,
    export_profiler, guid,
};

#[derive(Default)]
struct DumpNames {
    info: OnceLock<ProfilerInfo>,
    compiled: Mutex<HashSet<FunctionId>>,
}

impl DumpNames {
    fn met(&self, function: FunctionId) {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).insert(function);
    }

    fn report(&self, info: &ProfilerInfo) -> String {
        let mut functions = self.compiled.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Ok(jitted) = info.jitted_functions() {
            functions.extend(jitted.flatten().map(|version| version.function));
        }
        let functions = functions.into_iter().collect::<Vec<_>>();
        let names = NameResolver::new(info.clone());
        let mut report = String::new();
        // The first round meets everything for the first time; the others find scopes and types
        // remembered.
        let mut rounds = Vec::new();
        for round in 0..5 {
            let started = Instant::now();
            let mut unknown = 0;
            for function in &functions {
                match names.method(*function) {
                    Ok(name) if round == 0 => {
                        let _ = writeln!(
                            report,
                            "{:?}\t{}\t{}\t{}",
                            name.kind, name.type_name, name.name, name.parameters
                        );
                    }
                    Ok(_) => {}
                    Err(_) => unknown += 1,
                }
            }
            rounds.push((
                started.elapsed().as_nanos() as f64 / functions.len().max(1) as f64,
                unknown,
            ));
        }
        let per_round =
            rounds.iter().map(|(nanos, _)| format!("{nanos:.0}")).collect::<Vec<_>>().join(" ");
        let unknown = rounds.first().map_or(0, |(_, unknown)| *unknown);
        let _ = writeln!(
            report,
            "# {} functions, {unknown} without a name; ns per name by round: {per_round}",
            functions.len()
        );
        report
    }
}

impl ProfilerCallback for DumpNames {
    fn jit_compilation_finished(
        &self,
        _: &CallbackCx<'_>,
        function: FunctionId,
        _: Result<(), HResult>,
        _: bool,
    ) {
        self.met(function);
    }

    fn dynamic_method_jit_compilation_finished(
        &self,
        _: &CallbackCx<'_>,
        function: FunctionId,
        _: Result<(), HResult>,
        _: bool,
    ) {
        self.met(function);
    }
}

impl Profiler for DumpNames {
    fn initialize(&self, info: &ProfilerInfo) -> Result<EventMask, HResult> {
        self.info.get_or_init(|| info.clone());
        Ok(EventMask::JIT_COMPILATION)
    }

    fn shutdown(&self, _: &CallbackCx<'_>) {
        let Some(info) = self.info.get() else { return };
        let report = self.report(info);
        match std::env::var_os("DUMP_NAMES_TO") {
            Some(path) => {
                if let Err(error) = std::fs::write(&path, report) {
                    eprintln!("cannot write {}: {error}", path.display());
                }
            }
            None => eprint!("{report}"),
        }
    }
}

export_profiler! {
    guid!("6D1C2B7A-3E1F-4F0C-9A53-1C0B7E44A902") => |_clsid| DumpNames::default(),
}
