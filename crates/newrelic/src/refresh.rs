//! Changes what is instrumented while the program runs.

use crate::find;
use crate::instance::Instance;
use crate::modules::{Module, Opened};
use crate::rewriting::{add_direct, request};
use crate::suspension;
use corprof::HResult;
use corprof::info::ModuleMethod;
use corprof::metadata::MethodDef;
use newrelic_compat::event_log::What;
use newrelic_compat::loaded::LoadedModule;
use newrelic_compat::log::Level;
use newrelic_compat::points::{MethodName, Points, Refresh, refresh};
use newrelic_compat::rewrite::IMPL_ASYNC;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

/// Points take the place of the current ones: methods without one get their original bodies back,
/// the others new ones.
///
/// # Errors
/// No thread could be started, and nothing has changed. The runtime wants one of ours for this: the
/// caller's runs managed code.
pub fn apply(instance: &Arc<Instance>, new: Points) -> Result<(), String> {
    instance.engagement.refreshed();
    let (old, new) = (instance.modules.points(), Arc::new(new));
    let changes = refresh(&old, &new);
    if changes.is_empty() || instance.resolved.get().is_none_or(|resolved| !resolved.complete) {
        instance.modules.set_points(new);
        return Ok(());
    }
    let own = Arc::clone(instance);
    let work = move || {
        // First, so that no module is missed: see `Modules`.
        own.modules.set_points(new);
        for module in own.modules.that_stay(|assembly| changes.contains_key(assembly)) {
            let Some(change) = changes.get(&module.assembly) else { continue };
            if own.while_it_runs(|| change_module(&own, &module, change)).is_none() {
                break;
            }
        }
    };
    let thread = thread::Builder::new().name("newrelic-refresh".into()).spawn(work);
    let thread = thread.map_err(|error| {
        format!("Unable to refresh the instrumentation, as no thread can be started: {error}")
    })?;
    thread.join().map_err(|_| {
        // The next refresh knows what there is to revert.
        instance.modules.set_points(old);
        "The refresh of the instrumentation failed because of a fault of the profiler.".to_owned()
    })
}

fn change_module(instance: &Instance, module: &Module, change: &Refresh) {
    if !open_if_needed(instance, module) {
        return;
    }
    let (revert, asynchronous, wanted) = {
        let guard = module.opened();
        let Some(opened) = &*guard else { return };
        let Ok(metadata) = instance.info.module_metadata(module.id) else { return };
        let methods = |names: &BTreeSet<MethodName>| -> BTreeSet<MethodDef> {
            let classes = names
                .iter()
                .filter_map(|(class, method)| Some((find::class(&metadata, class)?, method)));
            classes.flat_map(|(class, method)| find::methods(&metadata, class, method)).collect()
        };
        // Only what was asked for can be reverted.
        let revert: Vec<_> = methods(&change.revert)
            .intersection(&opened.requested.iter().copied().collect())
            .copied()
            .collect();
        let wanted = methods(&change.instrument);
        let is_async = |&method: &MethodDef| {
            metadata
                .method_props(method)
                .is_ok_and(|props| props.implementation.bits() & IMPL_ASYNC != 0)
        };
        (revert, wanted.iter().filter(|method| is_async(method)).count(), wanted)
    };
    if asynchronous > 0 {
        // Previews of .NET 11 say nothing of it: all calls for the new body succeed.
        let text = || {
            format!(
                "{asynchronous} runtime-async methods of {} get points while the program runs: \
                 those that have run keep their bodies in previews of .NET 11 \
                 (dotnet/runtime#128944)",
                module.assembly
            )
        };
        instance.log.line(Level::Warn, text);
    }
    let methods: Vec<_> =
        revert.iter().map(|&method| ModuleMethod { module: module.id, method }).collect();
    if !methods.is_empty() {
        instance.log.line(Level::Debug, || {
            format!("Request revert of {} methods of {}", methods.len(), module.assembly)
        });
        match instance.info.request_revert(&methods) {
            Ok(answers) => reverted(instance, module, &revert, &answers),
            Err(error) => {
                instance.log(
                    Level::Error,
                    &format!("Methods of {} are not reverted: {error}", module.assembly),
                );
            }
        }
    }
    request(instance, module, &wanted);
}

/// The runtime has answered for each method whether it has its original body again.
fn reverted(instance: &Instance, module: &Module, methods: &[MethodDef], answers: &[HResult]) {
    let (reverted, refused) = by_answer(methods, answers);
    for (method, answer) in refused {
        let text = || format!("Not reverted: {}, method {method:?}: {answer}", module.assembly);
        instance.log.line(Level::Debug, text);
    }
    if !instance.events.are_wanted() {
        return;
    }
    if let Some(opened) = &*module.opened() {
        instance.events.write_all(&instance.log, &opened.loaded, reverted, "method", What::Revert);
    }
}

/// The methods that were reverted, and those that were not, with the error.
fn by_answer(
    methods: &[MethodDef],
    answers: &[HResult],
) -> (Vec<MethodDef>, Vec<(MethodDef, HResult)>) {
    let all = methods.iter().copied().zip(answers.iter().copied());
    let (reverted, refused): (Vec<_>, Vec<_>) = all.partition(|(_, answer)| answer.is_ok());
    (reverted.into_iter().map(|(method, _)| method).collect(), refused)
}

/// Opens a module for additions that had no points before. Whether it is open.
fn open_if_needed(instance: &Instance, module: &Module) -> bool {
    // Not held while the runtime is suspended: a thread that waits for it would be suspended with
    // it.
    if module.opened().is_some() {
        return true;
    }
    let opened = {
        // The runtime puts other structures in the place of those that its threads read: nobody
        // must read them then. Where it cannot be suspended it is done all the same, as the agent's
        // own profiler does.
        let turn = suspension::take();
        let _suspended = turn.as_ref().map(|_| instance.info.suspend_runtime());
        LoadedModule::open(&instance.info, module.id)
    };
    match opened {
        Ok(loaded) => {
            let mut opened = Opened::new(loaded);
            if instance.resolved.get().is_some_and(|resolved| resolved.direct) {
                add_direct(instance, &mut opened);
            }
            let mut guard = module.opened();
            guard.get_or_insert(opened);
            true
        }
        Err(error) => {
            instance
                .log(Level::Warn, &format!("{} cannot be instrumented: {error}", module.assembly));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_runtime_refuses_is_not_reverted() {
        let methods = [1, 2, 3].map(|row| MethodDef::from_raw(0x0600_0000 | row));
        // E_INVALIDARG.
        let refused = HResult::from_bits(0x8007_0057);
        let found = by_answer(&methods, &[HResult::default(), refused, HResult::default()]);
        assert_eq!(found, (vec![methods[0], methods[2]], vec![(methods[1], refused)]));
    }
}
