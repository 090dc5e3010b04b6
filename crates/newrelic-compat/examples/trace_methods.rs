//! A profiler that gives methods of one program the bodies that this crate makes: those that instrumentation points and
//! attributes name, those of the API, and the helpers in the core library.
//!
//! ```sh
//! cargo build -p newrelic --example trace_methods
//! CORECLR_ENABLE_PROFILING=1 \
//! CORECLR_PROFILER={5A0C4E0E-6B1B-4C57-A1F1-2E6D0B8D4C12} \
//! CORECLR_PROFILER_PATH=$PWD/target/debug/examples/libtrace_methods.so \
//! TRACE_METHODS_AGENT=/path/to/NewRelic.Agent.Core.dll \
//! TRACE_METHODS_POINTS=/path/to/points.xml \
//!     dotnet App.dll
//! ```
//!
//! `NEW_RELIC_DISABLE_APPDOMAIN_CACHING=true` asks for reflection, `TRACE_METHODS_DIRECTLY=true` for the shorter way of
//! `newrelic::rewrite::direct`. `TRACE_METHODS_HELPERS_TO` names a file for the methods of the type with the helpers.
//! What could not be done goes to standard error.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use corprof::ids::{FunctionId, ModuleId};
use corprof::metadata::MethodDef;
use corprof::{CallbackCx, EventMask, HResult, Profiler, ProfilerCallback, ProfilerInfo, export_profiler, guid};
use newrelic::Runtime;
use newrelic::configuration::IgnoreList;
use newrelic::loaded::{LoadedMethod, LoadedModule};
use newrelic::log::Level;
use newrelic::plan::{Plan, plan};
use newrelic::points::{Points, load};
use newrelic::rewrite::direct::Direct;
use newrelic::rewrite::{Settings, helpers, inject, instrument, instrument_api, is_core_library};
use newrelic::shape::{AgentShape, of_file};
use newrelic::strategy::CallingStrategy;

const E_FAIL: HResult = HResult::from_bits(0x8000_4005);

#[derive(Default)]
struct TraceMethods {
    setup: OnceLock<Setup>,
    state: Mutex<State>,
}

/// What is known from the start.
struct Setup {
    points: Points,
    shape: AgentShape,
    agent: String,
    configured: CallingStrategy,
    directly: bool,
}

#[derive(Default)]
struct State {
    /// The strategy after the core library was loaded.
    resolved: Option<CallingStrategy>,
    modules: HashMap<ModuleId, LoadedModule>,
    /// What was added to modules for calls without a helper.
    direct: HashMap<ModuleId, Direct>,
    /// Methods with a new body. Each instantiation of a generic method is compiled, and all have the same body.
    rewritten: HashSet<(ModuleId, MethodDef)>,
}

impl Setup {
    fn read() -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).map_err(|error| format!("{name}: {error}"));
        let agent = variable("TRACE_METHODS_AGENT")?;
        let bytes = std::fs::read(&agent).map_err(|error| format!("{agent}: {error}"))?;
        let shape = of_file(&bytes).map_err(|error| format!("{agent}: {error}"))?;
        let file = variable("TRACE_METHODS_POINTS")?;
        let xml = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let loaded = load(&BTreeMap::from([(file, xml)]), &IgnoreList::default(), shape);
        if let Some(message) = loaded.messages.into_iter().find(|message| message.level >= Level::Warn) {
            return Err(message.text);
        }
        let is_set = |name| variable(name).is_ok_and(|value| value == "true");
        let disabled = is_set("NEW_RELIC_DISABLE_APPDOMAIN_CACHING");
        let configured = CallingStrategy::configured(shape, Runtime::Core, disabled);
        let directly = is_set("TRACE_METHODS_DIRECTLY");
        Ok(Self { points: loaded.points, shape, agent, configured, directly })
    }

    fn settings(&self, strategy: Option<CallingStrategy>) -> Settings<'_> {
        Settings {
            runtime: Runtime::Core,
            shape: self.shape,
            strategy: strategy.unwrap_or(self.configured),
            agent_path: &self.agent,
        }
    }
}

impl TraceMethods {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a function that is about to be compiled its new body, if it gets one.
    fn rewrite(&self, info: &ProfilerInfo, function: FunctionId) -> Result<(), String> {
        let Some(setup) = self.setup.get() else { return Ok(()) };
        let known = info.function_info(function).map_err(|error| error.to_string())?;
        let mut state = self.state();
        let state = &mut *state;
        if known.token.is_nil() || state.rewritten.contains(&(known.module, known.token)) {
            return Ok(());
        }
        let settings = setup.settings(state.resolved);
        let module = match state.modules.entry(known.module) {
            Entry::Occupied(known) => known.into_mut(),
            // Not every module can be extended, such as those that the program makes.
            Entry::Vacant(new) => match LoadedModule::open(info, known.module) {
                Ok(module) => new.insert(module),
                Err(_) => return Ok(()),
            },
        };
        // Methods without a type are not instrumented.
        let Ok(method) = LoadedMethod::read(module, known.token) else { return Ok(()) };
        let plan = plan(method.names(module), &method.details(module), &setup.points, &settings);
        let body = match plan {
            Plan::Nothing => return Ok(()),
            Plan::Helper(helper) => helpers::body(helper, &settings, module),
            Plan::Api | Plan::Trace(_) => {
                let original = method.original(module).map_err(|error| error.to_string())?;
                let direct = match state.direct.entry(known.module) {
                    Entry::Occupied(known) => Some(*known.get()),
                    Entry::Vacant(new) if setup.directly && matches!(plan, Plan::Trace(_)) => {
                        Some(*new.insert(module.define_direct(&settings).map_err(|refusal| refusal.to_string())?))
                    }
                    Entry::Vacant(_) => None,
                };
                let function = method.function(function, &original, direct);
                let rewritten = match plan {
                    Plan::Trace(tracer) => instrument(&function, &tracer, &settings, module),
                    _ => instrument_api(&function, &settings, module),
                };
                rewritten.map(|rewritten| rewritten.bytes)
            }
        };
        let name = || format!("{}.{}", method.class_name(), method.name());
        let body = body.map_err(|refusal| format!("{}: {refusal}", name()))?;
        info.set_il_function_body(known.module, known.token, &body).map_err(|error| format!("{}: {error}", name()))?;
        state.rewritten.insert((known.module, known.token));
        Ok(())
    }

    /// Adds the helpers to the core library.
    fn inject(&self, info: &ProfilerInfo, id: ModuleId) -> Result<(), String> {
        let Some(setup) = self.setup.get() else { return Ok(()) };
        let path = info.module_info(id).map_err(|error| error.to_string())?.name;
        if !is_core_library(&path, Runtime::Core) {
            return Ok(());
        }
        let mut module = LoadedModule::open(info, id).map_err(|error| error.to_string())?;
        let injection = inject(&path, &setup.settings(None), &mut module);
        self.state().resolved = Some(injection.strategy);
        if let Some(file) = std::env::var_os("TRACE_METHODS_HELPERS_TO") {
            let methods = methods(info, id, helpers::HELPER_TYPE).map_err(|error| error.to_string())?;
            std::fs::write(&file, methods).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let problem = injection.messages.into_iter().find(|message| message.level >= Level::Warn);
        problem.map_or(Ok(()), |message| Err(message.text))
    }
}

/// The methods of a type as its metadata have them: one line for each.
fn methods(info: &ProfilerInfo, module: ModuleId, class: &str) -> corprof::Result<String> {
    let metadata = info.module_metadata(module)?;
    let mut lines = Vec::new();
    for method in metadata.find_type_def(class, None)?.into_iter().flat_map(|class| metadata.methods(class)) {
        let method = method?;
        let props = metadata.method_props(method)?;
        let signature: String = props.signature.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push(format!(
            "{} attr={:#x} impl={:#x} customAttributes={} sig={signature}\n",
            props.name,
            props.attributes.bits(),
            props.implementation.bits(),
            metadata.custom_attributes(Some(method.into()), None).count(),
        ));
    }
    lines.sort();
    Ok(lines.concat())
}

fn report(result: Result<(), String>) {
    if let Err(problem) = result {
        eprintln!("trace_methods: {problem}");
    }
}

impl ProfilerCallback for TraceMethods {
    fn module_load_finished(&self, cx: &CallbackCx<'_>, module: ModuleId, status: Result<(), HResult>) {
        if status.is_ok() {
            report(self.inject(cx.info(), module));
        }
    }

    fn module_unload_started(&self, _: &CallbackCx<'_>, module: ModuleId) {
        let mut state = self.state();
        state.modules.remove(&module);
        state.direct.remove(&module);
        state.rewritten.retain(|(other, _)| *other != module);
    }

    fn jit_compilation_started(&self, cx: &CallbackCx<'_>, function: FunctionId, _: bool) {
        report(self.rewrite(cx.info(), function));
    }
}

impl Profiler for TraceMethods {
    fn initialize(&self, _: &ProfilerInfo) -> Result<EventMask, HResult> {
        let setup = Setup::read().map_err(|problem| {
            report(Err(problem));
            E_FAIL
        })?;
        self.setup.get_or_init(|| setup);
        // A method that is inlined is never compiled by itself, and precompiled code was never instrumented.
        Ok(EventMask::JIT_COMPILATION
            .union(EventMask::MODULE_LOADS)
            .union(EventMask::DISABLE_ALL_NGEN_IMAGES)
            .union(EventMask::DISABLE_INLINING)
            .union(EventMask::DISABLE_TIERED_COMPILATION))
    }
}

export_profiler! {
    guid!("5A0C4E0E-6B1B-4C57-A1F1-2E6D0B8D4C12") => |_clsid| TraceMethods::default(),
}
