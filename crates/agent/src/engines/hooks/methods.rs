//! Which methods have hooks, and by which numbers the hooks know them.

use corprof::MethodName;
use corprof::ids::{FunctionId, ModuleId};
use corprof::info::ProfilerInfo;
use corprof::{FunctionKind, NameResolver};
use profilers::calls::Filter;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most methods with hooks.
const MOST: usize = 200_000;

/// Decides about each method once. The compiler asks on many threads; the lock is held only for a
/// lookup.
pub struct Methods {
    filter: Filter,
    names: NameResolver,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Number of each method that was asked about, `None` for those without hooks.
    decided: HashMap<FunctionId, Option<u32>>,
    /// Modules of those with hooks.
    modules: HashMap<FunctionId, ModuleId>,
    /// Those with hooks that the writer does not know yet, in the order of their numbers.
    fresh: Vec<(FunctionId, MethodName)>,
    /// Number of the last one.
    last: u32,
}

impl Methods {
    /// Nothing is decided yet.
    pub fn new(info: &ProfilerInfo, filter: Filter) -> Self {
        Self { filter, names: NameResolver::new(info.clone()), known: Mutex::default() }
    }

    /// The number of a method, from 1; `None` if it has no hooks.
    pub fn number(&self, function: FunctionId) -> Option<u32> {
        if let Some(decided) = self.known().decided.get(&function) {
            return *decided;
        }
        let name = self.names.method(function).ok();
        let name = name.filter(|name| {
            name.kind == FunctionKind::Normal
                && self.filter.fits(name.type_name.as_ref(), &name.name)
        });
        let mut known = self.known();
        // Another thread may have been faster.
        if let Some(decided) = known.decided.get(&function) {
            return *decided;
        }
        let name = name.filter(|_| (known.last as usize) < MOST);
        let number = name.map(|name| {
            known.last += 1;
            known.modules.extend(name.module.map(|module| (function, module)));
            known.fresh.push((function, name));
            known.last
        });
        known.decided.insert(function, number);
        number
    }

    /// The number of a method that has hooks.
    pub fn hooked(&self, function: FunctionId) -> Option<u32> {
        self.known().decided.get(&function).copied().flatten()
    }

    /// Those with hooks since the last call, in the order of their numbers.
    pub fn take_fresh(&self) -> Vec<(FunctionId, MethodName)> {
        std::mem::take(&mut self.known().fresh)
    }

    /// A module was unloaded: the ids of its functions may come again.
    pub fn unloaded(&self, module: ModuleId) {
        self.names.forget_module(module);
        let mut known = self.known();
        let known = &mut *known;
        let gone: Vec<FunctionId> =
            known.modules.extract_if(|_, of| *of == module).map(|(function, _)| function).collect();
        for function in gone {
            known.decided.remove(&function);
        }
        // Those without hooks have no module here; they are decided again.
        known.decided.retain(|_, number| number.is_some());
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
