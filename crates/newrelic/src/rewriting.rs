//! Gives methods their new bodies: where a module is loaded, and where a method is compiled.

use crate::events::Bodies;
use crate::find;
use crate::instance::{Instance, Resolved};
use crate::mode::Mode;
use crate::modules::{Candidates, Module, Opened};
use crate::resolve::resolve;
use corprof::abi::{COR_PRF_MODULE_FLAGS, COR_PRF_REJIT_FLAGS};
use corprof::control::FunctionControl;
use corprof::ids::{FunctionId, ModuleId};
use corprof::info::ModuleMethod;
use corprof::metadata::MethodDef;
use newrelic_compat::Runtime;
use newrelic_compat::attributes::may_have;
use newrelic_compat::event_log::What;
use newrelic_compat::loaded::{LoadedMethod, LoadedModule};
use newrelic_compat::log::Level;
use newrelic_compat::plan::{Plan, plan};
use newrelic_compat::points::Points;
use newrelic_compat::rewrite::{
    API_ASSEMBLY, helpers, inject, instrument, instrument_api, is_core_library,
};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A module was loaded.
pub fn module_loaded(instance: &Instance, id: ModuleId) {
    let Ok(known) = instance.info.module_info(id) else { return };
    // One without assembly is not usable yet.
    let Some(Ok(assembly)) = known.assembly.map(|assembly| instance.info.assembly_info(assembly))
    else {
        return;
    };
    let is_core = is_core_library(&known.name, instance.runtime);
    if is_core && instance.resolved.get().is_none() {
        core_library_loaded(instance, id, &known.name);
    }
    let Some(resolved) = instance.resolved.get().filter(|resolved| resolved.complete) else {
        return;
    };
    let flags = known.flags.0;
    let has = |flag: COR_PRF_MODULE_FLAGS| flags & flag.0 != 0;
    let loading = Loading {
        id,
        is_core,
        is_api: assembly.name == API_ASSEMBLY,
        assembly: assembly.name,
        stays: !has(COR_PRF_MODULE_FLAGS::COLLECTIBLE) && !has(COR_PRF_MODULE_FLAGS::DYNAMIC),
    };
    let (module, wanted) = registered(instance, &loading, *resolved);
    if module.opened().is_some() {
        request(instance, &module, &wanted);
    }
}

/// A module that is being loaded: no other thread knows it or reads its metadata yet.
struct Loading {
    id: ModuleId,
    /// Simple name of its assembly.
    assembly: String,
    /// Whether it is the core library.
    is_core: bool,
    /// Whether it is the API of the agent.
    is_api: bool,
    /// See [`Module::stays`].
    stays: bool,
}

/// Looks at a module that is being loaded, opens it if it is to be extended, and makes it known.
/// Gives also the methods that the runtime is asked for at once.
///
/// If points change meanwhile, it is looked at again. It is opened here only until it is known, and
/// by refreshes only after that, so never twice.
fn registered(
    instance: &Instance,
    loading: &Loading,
    resolved: Resolved,
) -> (Arc<Module>, BTreeSet<MethodDef>) {
    let mut opened = None;
    loop {
        let points = instance.modules.points();
        if points.has_assembly(&loading.assembly) || loading.is_core {
            instance
                .log
                .line(Level::Trace, || format!("Assembly module loaded: {}", loading.assembly));
        }
        let wanted = wanted(instance, loading, &points);
        let at_first_compilation = at_first_compilation(instance, loading, &points, resolved);
        let is_extended =
            !wanted.is_empty() || at_first_compilation != Candidates::Only(BTreeSet::new());
        if is_extended && opened.is_none() {
            opened = open(instance, loading.id, resolved.direct);
        }
        let module = Arc::new(Module::new(
            loading.id,
            loading.assembly.clone(),
            loading.stays,
            at_first_compilation,
            opened.take(),
        ));
        if instance.modules.register(&module, &points) {
            return (module, wanted);
        }
        opened = module.opened().take();
    }
}

/// The methods of a module that is being loaded that are looked at when they are compiled for the
/// first time.
fn at_first_compilation(
    instance: &Instance,
    loading: &Loading,
    points: &Points,
    resolved: Resolved,
) -> Candidates {
    let Loading { id, assembly, is_core, is_api, .. } = loading;
    if instance.mode != Mode::Strict {
        return Candidates::Only(BTreeSet::new());
    }
    if *is_core && resolved.strategy == CallingStrategy::Cache {
        let metadata = instance.info.module_metadata(*id);
        let helpers = metadata.map(|metadata| find::helpers(&metadata));
        return Candidates::Only(helpers.unwrap_or_default());
    }
    if points.has_assembly(assembly) || *is_api || may_have(assembly) {
        return Candidates::All;
    }
    Candidates::Only(BTreeSet::new())
}

/// The methods of a module that is being loaded that the runtime is asked for at once.
fn wanted(instance: &Instance, loading: &Loading, points: &Points) -> BTreeSet<MethodDef> {
    let Loading { id, assembly, is_api, .. } = loading;
    let is_strict = instance.mode == Mode::Strict;
    let with_attributes = !is_strict && may_have(assembly);
    if !points.has_assembly(assembly) && !with_attributes && (is_strict || !is_api) {
        return BTreeSet::new();
    }
    // A module with resources only has no metadata.
    let Ok(metadata) = instance.info.module_metadata(*id) else { return BTreeSet::new() };
    let (mut wanted, missing) = find::by_points(&metadata, assembly, points, !is_strict);
    for class in missing {
        // CLDB_E_RECORD_NOTFOUND (corerror.h).
        instance
            .log
            .line(Level::Info, || format!("Unable to find {class} for rejit. HR:-2146234064"));
    }
    if with_attributes {
        wanted.extend(find::by_attributes(&metadata));
    }
    if *is_api && !is_strict {
        wanted.extend(find::of_api(&metadata));
    }
    wanted
}

/// Opens a module for additions, and adds what its methods come to the agent by. To be called while
/// no thread reads its metadata.
pub fn open(instance: &Instance, id: ModuleId, direct: bool) -> Option<Opened> {
    let loaded = match LoadedModule::open(&instance.info, id) {
        Ok(loaded) => loaded,
        Err(error) => {
            instance.log(Level::Warn, &format!("A module cannot be instrumented: {error}"));
            return None;
        }
    };
    let mut opened = Opened::new(loaded);
    if direct {
        add_direct(instance, &mut opened);
    }
    Some(opened)
}

/// Adds what methods come to the agent by. Without it they do so by reflection.
pub fn add_direct(instance: &Instance, opened: &mut Opened) {
    match opened.loaded.define_direct(&instance.settings()) {
        Ok(direct) => opened.direct = Some(direct),
        Err(refusal) => {
            let text = || {
                format!(
                    "Methods of {} call the agent by reflection: {refusal}",
                    opened.loaded.assembly()
                )
            };
            instance.log.line(Level::Warn, text);
        }
    }
}

/// Asks the runtime to compile methods again.
pub fn request(instance: &Instance, module: &Module, wanted: &BTreeSet<MethodDef>) {
    let methods: Vec<_> =
        wanted.iter().map(|&method| ModuleMethod { module: module.id, method }).collect();
    if methods.is_empty() {
        return;
    }
    if let Some(opened) = &mut *module.opened() {
        opened.requested.extend(wanted);
    }
    instance.log.line(Level::Debug, || {
        format!("Request reJIT of {} methods of {}", methods.len(), module.assembly)
    });
    let (with_inliners, alone): (Vec<_>, Vec<_>) =
        methods.into_iter().partition(|method| may_be_inlined(instance, method));
    let blocking = COR_PRF_REJIT_FLAGS::BLOCK_INLINING;
    let asked = [
        (!with_inliners.is_empty())
            .then(|| instance.info.request_rejit_with_inliners(blocking, &with_inliners)),
        (!alone.is_empty()).then(|| instance.info.request_rejit(&alone)),
    ];
    for error in asked.into_iter().flatten().filter_map(Result::err) {
        instance.log(
            Level::Error,
            &format!("The runtime does not compile methods of {} again: {error}", module.assembly),
        );
    }
}

/// Whether the runtime is asked for those that have a method inlined, too: precompiled code may
/// have it so.
///
/// .NET Core 3.1, which says 4, reads through a null pointer where the method itself was never
/// loaded (`ReJitManager::UpdateJitInlinerActiveILVersions`, src/coreclr/vm/rejit.cpp).
fn may_be_inlined(instance: &Instance, method: &ModuleMethod) -> bool {
    let keeps_precompiled = instance.mode == Mode::Fast && instance.runtime == Runtime::Core;
    keeps_precompiled
        && (instance.major >= 8
            || instance.info.function_from_token(method.module, method.method).is_ok())
}

/// The core library was loaded, before any other module.
fn core_library_loaded(instance: &Instance, id: ModuleId, path: &str) {
    let mut resolved = resolve(instance, id, path);
    if resolved.complete && resolved.strategy == CallingStrategy::Cache {
        let settings = instance.settings();
        resolved.strategy = match LoadedModule::open(&instance.info, id) {
            Ok(mut module) => {
                let injection = inject(path, &settings, &mut module);
                instance.log.messages(&injection.messages);
                injection.strategy
            }
            Err(error) => {
                instance
                    .log(Level::Error, &format!("The core library cannot be extended: {error}"));
                CallingStrategy::Reflection
            }
        };
    }
    let _known = instance.resolved.set(resolved);
}

/// A function is about to be compiled for the first time.
pub fn compiled(instance: &Instance, function: FunctionId) {
    // In the other modes all was asked for when the module was loaded.
    if instance.mode != Mode::Strict {
        return;
    }
    let Ok(known) = instance.info.function_info(function) else { return };
    let Some(module) = instance.modules.get(known.module) else { return };
    if known.token.is_nil() || !module.at_first_compilation.contains(known.token) {
        return;
    }
    let points = instance.modules.points();
    let settings = instance.settings();
    let mut guard = module.opened();
    let Some(opened) = &mut *guard else { return };
    // Methods without a type are not instrumented.
    let Ok(method) = LoadedMethod::read(&opened.loaded, known.token) else { return };
    instance.log.line(Level::Trace, || {
        format!("Possibly instrumenting: {}", method.full_name(&opened.loaded))
    });
    let plan =
        plan(method.names(&opened.loaded), &method.details(&opened.loaded), &points, &settings);
    // Agents up to 10.53 have no helpers in the core library, and know no such line.
    if instance.shape != AgentShape::V10_53
        && let Some(message) = instance.engagement.count(&plan)
    {
        instance.log(message.level, &message.text);
    }
    let made = match plan {
        Plan::Nothing => {
            let text =
                || format!("No instrumentation point for {}", method.full_name(&opened.loaded));
            instance.log.line(Level::Trace, text);
            return;
        }
        Plan::Helper(helper) => {
            let text =
                || format!("Instrumenting helper method: {}", method.full_name(&opened.loaded));
            instance.log.line(Level::Info, text);
            let before = match instance.events.are_wanted() {
                true => method
                    .original(&opened.loaded)
                    .map(|original| original.body().to_vec())
                    .unwrap_or_default(),
                false => Vec::new(),
            };
            let body = helpers::body(helper, &settings, &mut opened.loaded);
            let made = body.map(|after| Made { function: None, before, after });
            made.map_err(|refusal| (refusal.level(), refusal.to_string()))
        }
        Plan::Api => {
            let text = || format!("Instrumenting API method: {}", method.full_name(&opened.loaded));
            instance.log.line(Level::Info, text);
            warn_of_pointers(instance, &method);
            made(instance, &method, opened, known.token, Some(function), &plan)
        }
        Plan::Trace(_) => {
            // By ReJIT, so that it can be reverted.
            let is_new = opened.requested.insert(known.token);
            drop(guard);
            if is_new {
                request(instance, &module, &BTreeSet::from([known.token]));
            }
            return;
        }
    };
    let set = |body: &[u8]| instance.info.set_il_function_body(module.id, known.token, body);
    hand_over(instance, (&opened.loaded, &method), rule(&plan), made, set);
}

/// The runtime asks for the new body of a method that it was asked to compile again.
pub fn compiled_again(
    instance: &Instance,
    module: ModuleId,
    token: MethodDef,
    control: &FunctionControl<'_>,
) {
    let Some(module) = instance.modules.get(module) else { return };
    let points = instance.modules.points();
    let settings = instance.settings();
    let mut guard = module.opened();
    let Some(opened) = &mut *guard else { return };
    let Ok(method) = LoadedMethod::read(&opened.loaded, token) else { return };
    instance.log.line(Level::Trace, || "GetReJITParameters called");
    instance.log.line(Level::Trace, || {
        format!("Possibly instrumenting: {}", method.full_name(&opened.loaded))
    });
    let plan =
        plan(method.names(&opened.loaded), &method.details(&opened.loaded), &points, &settings);
    // Another overload, or another version.
    if matches!(plan, Plan::Nothing | Plan::Helper(_)) {
        let text = || format!("No instrumentation point for {}", method.full_name(&opened.loaded));
        instance.log.line(Level::Trace, text);
        return;
    }
    // The runtime does not know one of a generic method.
    let function = instance.info.function_from_token(module.id, token).ok();
    let made = made(instance, &method, opened, token, function, &plan);
    let rule = rule(&plan);
    if !made.as_ref().is_err_and(|(_, problem)| problem.starts_with("Skipping ")) {
        instance.log.line(Level::Info, || {
            format!("Instrumenting {rule}: {}", method.full_name(&opened.loaded))
        });
        warn_of_pointers(instance, &method);
    }
    let set = |body: &[u8]| control.set_il_function_body(body);
    hand_over(instance, (&opened.loaded, &method), rule, made, set);
}

/// The agent gets null in place of a pointer.
fn warn_of_pointers(instance: &Instance, method: &LoadedMethod) {
    if method.has_pointers() {
        instance.log(Level::Warn, "Pointer tokenization not supported.");
    }
}

/// What a method is instrumented as, in the words of the log.
const fn rule(plan: &Plan<'_>) -> &'static str {
    match plan {
        Plan::Api => "API method",
        Plan::Helper(_) => "helper method",
        Plan::Trace(_) | Plan::Nothing => "method",
    }
}

/// Gives the runtime a new body; reports that, or why there is none.
fn hand_over<E: std::fmt::Display>(
    instance: &Instance,
    (module, method): (&LoadedModule, &LoadedMethod),
    rule: &str,
    made: Result<Made, (Level, String)>,
    set: impl FnOnce(&[u8]) -> Result<(), E>,
) {
    let set = made.and_then(|made| {
        let set = set(&made.after);
        set.map_err(|error| {
            (Level::Error, format!("A potentially fatal error occurred: {error}"))
        })?;
        Ok(made)
    });
    match set {
        Ok(Made { function, before, after }) => {
            let bodies =
                Bodies { function, agent: &instance.agent, before: &before, after: &after };
            instance.events.rewritten(&instance.log, (module, method), rule, &bodies);
        }
        Err((level, problem)) => {
            instance.log.line(level, || format!("{problem}: {}", method.full_name(module)));
            instance.events.write(&instance.log, (module, method), rule, What::Refusal(&problem));
        }
    }
}

/// The bodies of a method.
struct Made {
    /// The id by which the new one names the method.
    function: Option<u64>,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// The new body of a method that is traced or belongs to the API.
fn made(
    instance: &Instance,
    method: &LoadedMethod,
    opened: &mut Opened,
    token: MethodDef,
    function: Option<FunctionId>,
    plan: &Plan<'_>,
) -> Result<Made, (Level, String)> {
    let settings = instance.settings();
    let refused =
        |error: newrelic_compat::rewrite::MetadataError| (Level::Error, error.to_string());
    let original = method.original(&opened.loaded).map_err(refused)?;
    let id = opened.id_of(token, function.map(|function| function.0 as u64));
    let function = method.function(FunctionId(id as usize), &original, opened.direct);
    let rewritten = match plan {
        Plan::Trace(tracer) => instrument(&function, tracer, &settings, &mut opened.loaded),
        _ => instrument_api(&function, &settings, &mut opened.loaded),
    };
    let rewritten = rewritten.map_err(|refusal| (refusal.level(), refusal.to_string()))?;
    // Only the event log shows it.
    let before = if instance.events.are_wanted() { original.body().to_vec() } else { Vec::new() };
    Ok(Made { function: Some(id), before, after: rewritten.bytes })
}

#[cfg(test)]
mod tests;
