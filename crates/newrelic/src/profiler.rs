//! What the runtime tells the profiler.

use crate::instance::{Instance, set_current};
use crate::rewriting;
use crate::start::start;
use corprof::control::FunctionControl;
use corprof::ids::{FunctionId, ModuleId, ThreadId};
use corprof::metadata::MethodDef;
use corprof::{
    CallbackCx, EventMask, HResult, PanicReport, Profiler, ProfilerCallback, ProfilerInfo,
};
use newrelic_compat::event_log::What;
use newrelic_compat::log::{Level, texts};
use std::sync::{Arc, OnceLock};

/// `CORPROF_E_PROFILER_CANCEL_ACTIVATION` (corerror.h): the program runs on without a profiler, and
/// without an error in the system's log.
const CANCEL_ACTIVATION: HResult = HResult::from_bits(0x8013_1375);

/// The profiler, as the runtime makes it.
#[derive(Default)]
pub struct DropIn {
    instance: OnceLock<Arc<Instance>>,
}

impl DropIn {
    fn with(&self, run: impl FnOnce(&Arc<Instance>)) {
        if let Some(instance) = self.instance.get() {
            run(instance);
        }
    }
}

impl Profiler for DropIn {
    // The agent's own has no newer one.
    const NEWEST_CALLBACK: u8 = 4;

    fn initialize(&self, info: &ProfilerInfo) -> Result<EventMask, HResult> {
        let instance = self.instance.get_or_init_with(info)?;
        instance.log(Level::Info, texts::PROFILER_INITIALIZED);
        set_current(Some(Arc::clone(instance)));
        Ok(instance.mode.events(instance.runtime))
    }

    fn initialize_failed(&self) {
        set_current(None);
        self.with(|instance| instance.log(Level::Error, texts::INITIALIZATION_FAILED));
    }

    fn shutdown(&self, _: &CallbackCx<'_>) {
        self.with(|instance| {
            instance.log(Level::Info, "Profiler shutting down");
            instance.threads().shutdown();
            instance.end();
            instance.log(Level::Info, "Profiler shutdown");
        });
        set_current(None);
    }

    fn panicked(&self, report: PanicReport<'_>) {
        let message = report.message.unwrap_or("no message");
        self.with(|instance| {
            instance.log(
                Level::Error,
                &format!(
                    "A fault in {}: {message}. Nothing more is instrumented.",
                    report.callback
                ),
            );
        });
    }
}

/// Fallible initialization of the cell, which is done once.
trait InitializeOnce {
    fn get_or_init_with(&self, info: &ProfilerInfo) -> Result<&Arc<Instance>, HResult>;
}

impl InitializeOnce for OnceLock<Arc<Instance>> {
    fn get_or_init_with(&self, info: &ProfilerInfo) -> Result<&Arc<Instance>, HResult> {
        let started = start(info).map_err(|_| CANCEL_ACTIVATION)?;
        Ok(self.get_or_init(|| started))
    }
}

impl ProfilerCallback for DropIn {
    fn module_load_finished(
        &self,
        _: &CallbackCx<'_>,
        module: ModuleId,
        status: Result<(), HResult>,
    ) {
        if status.is_ok() {
            self.with(|instance| rewriting::module_loaded(instance, module));
        }
    }

    fn module_unload_started(&self, _: &CallbackCx<'_>, module: ModuleId) {
        self.with(|instance| {
            instance.threads().module_unload_started(module);
            instance.modules.remove(module);
        });
    }

    fn jit_compilation_started(&self, _: &CallbackCx<'_>, function: FunctionId, _: bool) {
        self.with(|instance| rewriting::compiled(instance, function));
    }

    fn get_rejit_parameters(
        &self,
        _: &CallbackCx<'_>,
        module: ModuleId,
        method: MethodDef,
        control: Option<FunctionControl<'_>>,
    ) {
        if let Some(control) = control {
            self.with(|instance| rewriting::compiled_again(instance, module, method, &control));
        }
    }

    fn rejit_error(
        &self,
        _: &CallbackCx<'_>,
        module: ModuleId,
        method: MethodDef,
        _: Option<FunctionId>,
        status: HResult,
    ) {
        self.with(|instance| {
            let module = instance.modules.get(module);
            let name = module.as_ref().map_or("", |module| &module.assembly);
            instance.log(
                Level::Error,
                &format!("A new body was refused: {name}, method {method:?}: {status}"),
            );
            let Some(module) = module.filter(|_| instance.events.are_wanted()) else { return };
            if let Some(opened) = &*module.opened() {
                let failed = What::Failed(&status.to_string());
                instance.events.write_all(&instance.log, &opened.loaded, [method], "", failed);
            }
        });
    }

    fn thread_destroyed(&self, _: &CallbackCx<'_>, thread: ThreadId) {
        self.with(|instance| instance.threads().thread_destroyed(thread));
    }
}
