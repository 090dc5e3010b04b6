//! What follows from the core library that the process has.

use crate::find::class;
use crate::instance::{Instance, Resolved};
use crate::mode::Mode;
use corprof::ids::ModuleId;
use corprof::metadata::Metadata;
use newrelic_compat::Runtime;
use newrelic_compat::log::Level;
use newrelic_compat::rewrite::helpers::HELPER_TYPE;
use newrelic_compat::rewrite::{CORE_LIBRARY, LONG_DELEGATES, Scopes, Settings, external_types};
use newrelic_compat::strategy::CallingStrategy;
use std::path::Path;

/// The core library was loaded: decides how methods come to the agent. Whether helpers can be added
/// is known later.
pub fn resolve(instance: &Instance, core: ModuleId, path: &str) -> Resolved {
    let metadata = match instance.info.module_metadata(core) {
        Ok(metadata) => metadata,
        Err(error) => {
            instance.log(Level::Error, &format!("The core library cannot be read: {error}"));
            return Resolved {
                strategy: CallingStrategy::Reflection,
                scopes: Scopes::Facades,
                direct: false,
                complete: false,
            };
        }
    };
    // Where the runtime finds the other libraries, in programs that are not in one file.
    let facade = Path::new(path).with_file_name("System.Core.dll");
    let resolved = chosen(instance, &metadata, facade.is_file());
    if !resolved.complete {
        let text = "The core library lacks types that instrumented methods need, as in a trimmed \
            program: no method is instrumented.";
        instance.log(Level::Warn, text);
    }
    resolved
}

fn chosen(instance: &Instance, metadata: &Metadata, has_facade: bool) -> Resolved {
    let has = |name: &str| class(metadata, name).is_some();
    if instance.runtime == Runtime::Framework || instance.mode == Mode::Strict {
        let resolved = Resolved {
            strategy: instance.configured,
            scopes: Scopes::Facades,
            direct: false,
            complete: true,
        };
        return Resolved { complete: is_complete(instance, &resolved, &has), ..resolved };
    }
    let has_long_delegates = LONG_DELEGATES.iter().all(|name| has(name));
    // The agent's own profiler lets users ask for reflection.
    let wants_reflection =
        instance.environment.caching_disabled().is_some_and(|(_, disabled)| disabled);
    // .NET Core 3.1, which says 4, has long delegates in another library; a newer runtime without
    // them is a trimmed one.
    let direct = !wants_reflection && (has_long_delegates || instance.major < 5 && has_facade);
    let scopes = Scopes::CoreLibrary { has_long_delegates };
    let resolved =
        Resolved { strategy: CallingStrategy::Reflection, scopes, direct, complete: true };
    Resolved { complete: is_complete(instance, &resolved, &has), ..resolved }
}

/// Whether the core library has all types that bodies name. That with the helpers is used by no
/// program: where it is missing, the program is trimmed, and members of other types may be missing
/// as well.
fn is_complete(instance: &Instance, resolved: &Resolved, has: &dyn Fn(&str) -> bool) -> bool {
    let settings = Settings {
        runtime: instance.runtime,
        shape: instance.shape,
        start_method: instance.shim.map(|shim| shim.start),
        strategy: resolved.strategy,
        agent_path: &instance.agent,
        scopes: resolved.scopes,
    };
    let is_elsewhere =
        |library: &str, name: &str| library != CORE_LIBRARY && LONG_DELEGATES.contains(&name);
    let types = external_types(&settings, resolved.direct);
    has(HELPER_TYPE)
        && types.into_iter().all(|(library, name)| is_elsewhere(library, name) || has(name))
}
