//! Whole names of classes of which an event has only the simple name.

use crate::host::runtime::Runtime;
use corprof::ids::ModuleId;
use wire::as_csharp;

/// Events name a nested class without what it is nested in, and so without a namespace. The first
/// nested class of that name is taken for it; `None` if there is none, or the name is whole.
pub(super) fn full_name(runtime: &Runtime, name: &str) -> Option<String> {
    let (simple, arguments) = name.split_at(name.find('[').unwrap_or(name.len()));
    if simple.contains('.') {
        return None;
    }
    let info = runtime.info();
    let listed = || {
        info.modules()
            .ok()
            .map(|modules| modules.filter_map(|module| module.ok()?.non_null()).collect())
    };
    let modules: Vec<ModuleId> = runtime.unloads().hold_all(listed)?;
    // One module at a time: each may go between two questions, and does not have to wait for all of
    // them.
    let is_whole = |module: &ModuleId| {
        let found = || {
            info.module_metadata(*module)
                .is_ok_and(|of| of.find_type_def(simple, None).is_ok_and(|found| found.is_some()))
        };
        runtime.unloads().hold(*module, found).unwrap_or(false)
    };
    if modules.iter().any(is_whole) {
        return None;
    }
    // The application's own modules were loaded last.
    let nested = modules.iter().rev().find_map(|module| {
        let found = || {
            let metadata = info.module_metadata(*module).ok()?;
            let mut buffer = String::new();
            let named =
                metadata.type_defs().filter_map(|type_def| type_def.ok()).find(|type_def| {
                    buffer.clear();
                    metadata.type_def_into(*type_def, &mut buffer).is_ok() && buffer == simple
                })?;
            runtime.names().type_def(*module, named).ok()
        };
        runtime.unloads().hold(*module, found)?
    })?;
    // The generic parameters that the definition has are replaced by the arguments that the event
    // names.
    let nested = nested.split('<').next().unwrap_or_default();
    Some(as_csharp(&format!("{nested}{arguments}")))
}
