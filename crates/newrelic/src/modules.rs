//! The loaded modules, and what was added to them.

use corprof::ids::ModuleId;
use corprof::metadata::MethodDef;
use newrelic_compat::loaded::LoadedModule;
use newrelic_compat::points::Points;
use newrelic_compat::rewrite::direct::Direct;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    /// Its id, which stands for nothing once the module is unloaded.
    pub id: ModuleId,
    /// Simple name of its assembly.
    pub assembly: String,
    /// Whether it stays as long as the process: only such modules may be asked about outside of
    /// callbacks.
    pub stays: bool,
    /// Which of its methods are looked at when they are compiled for the first time.
    pub at_first_compilation: Candidates,
    opened: Mutex<Option<Opened>>,
}

/// Methods that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// All of a module.
    All,
    /// These.
    Only(BTreeSet<MethodDef>),
}

impl Candidates {
    /// Whether a method is one of them.
    pub fn contains(&self, method: MethodDef) -> bool {
        match self {
            Self::All => true,
            Self::Only(methods) => methods.contains(&method),
        }
    }
}

/// A module whose metadata are extended.
#[derive(Debug)]
pub struct Opened {
    /// Its metadata.
    pub loaded: LoadedModule,
    /// What methods come to the agent by, if that was added.
    pub direct: Option<Direct>,
    /// Methods that the runtime was asked to compile again.
    pub requested: HashSet<MethodDef>,
    ids: HashMap<MethodDef, u64>,
}

impl Opened {
    /// A module with nothing added yet.
    pub fn new(loaded: LoadedModule) -> Self {
        Self { loaded, direct: None, requested: HashSet::new(), ids: HashMap::new() }
    }

    /// What the agent knows a method by: the same for all of its life. `known` is the runtime's id
    /// of the function, which generic methods do not have one of; they get an odd number, which is
    /// no address of anything.
    pub fn id_of(&mut self, method: MethodDef, known: Option<u64>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        *self
            .ids
            .entry(method)
            .or_insert_with(|| known.unwrap_or_else(|| NEXT.fetch_add(1, Relaxed) << 1 | 1))
    }
}

impl Module {
    /// A module that was loaded.
    pub fn new(
        id: ModuleId,
        assembly: String,
        stays: bool,
        at_first_compilation: Candidates,
        opened: Option<Opened>,
    ) -> Self {
        Self { id, assembly, stays, at_first_compilation, opened: Mutex::new(opened) }
    }

    /// What was added to it. Do not call anything that waits for the runtime's other threads while
    /// this is held.
    pub fn opened(&self) -> MutexGuard<'_, Option<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All loaded modules, and the points that they were looked at with.
///
/// A module that is loaded while points change must not be missed. So it becomes known only while
/// the points that it was looked at with are the current ones ([`Self::register`]). Whoever sets
/// others ([`Self::set_points`]) and asks for the modules then ([`Self::that_stay`]) gets all that
/// were looked at with earlier ones.
#[derive(Debug, Default)]
pub struct Modules {
    /// Held while a module becomes known, so that both happen in an order.
    points: RwLock<Arc<Points>>,
    known: RwLock<HashMap<ModuleId, Arc<Module>>>,
}

impl Modules {
    /// What is instrumented now.
    pub fn points(&self) -> Arc<Points> {
        Arc::clone(&self.points.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Instruments these from now on; gives what was instrumented before.
    pub fn set_points(&self, points: Arc<Points>) -> Arc<Points> {
        let mut current = self.points.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, points)
    }

    /// A module, unless it is unloaded.
    pub fn get(&self, id: ModuleId) -> Option<Arc<Module>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// A module was loaded, and looked at with these points. False if others have taken their
    /// place: the module is still not known then, and has to be looked at again.
    #[must_use]
    pub fn register(&self, module: &Arc<Module>, points: &Arc<Points>) -> bool {
        let current = self.points.read().unwrap_or_else(PoisonError::into_inner);
        let is_current = Arc::ptr_eq(&current, points);
        if is_current {
            self.known
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(module.id, Arc::clone(module));
        }
        is_current
    }

    /// A module is being unloaded.
    pub fn remove(&self, id: ModuleId) {
        let removed = self.known.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(module) = removed {
            // Whoever still holds the module must not ask about it any more.
            *module.opened() = None;
        }
    }

    /// The modules of these assemblies that stay as long as the process.
    pub fn that_stay(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Arc<Module>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known
            .values()
            .filter(|module| module.stays && is_wanted(&module.assembly))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    fn module(id: usize) -> Arc<Module> {
        let candidates = Candidates::Only(BTreeSet::new());
        Arc::new(Module::new(ModuleId(id), format!("Assembly{id}"), true, candidates, None))
    }

    #[test]
    fn a_module_is_known_with_the_current_points_only() {
        let modules = Modules::default();
        let (old, late, early) = (modules.points(), module(1), module(2));
        assert!(modules.register(&early, &old));
        modules.set_points(Arc::default());
        let listed = modules.that_stay(|_| true);
        assert!(matches!(&listed[..], [one] if one.id == early.id));
        // It was looked at with points that are not the current ones any more.
        assert!(!modules.register(&late, &old));
        assert!(modules.get(late.id).is_none());
        assert!(modules.register(&late, &modules.points()));
        assert!(modules.get(late.id).is_some());
    }

    /// Each module is looked at with the new points, or is among those that the refresh lists.
    #[test]
    fn none_is_missed_by_a_refresh() {
        const MODULES: usize = 200;
        for _ in 0..50 {
            let (modules, start) = (Modules::default(), Barrier::new(2));
            let old = modules.points();
            let (with_new, listed) = thread::scope(|scope| {
                let loading = scope.spawn(|| {
                    start.wait();
                    let load = |id| {
                        let module = module(id);
                        let points = modules.points();
                        // Here the module would be looked at.
                        thread::yield_now();
                        if modules.register(&module, &points) {
                            return !Arc::ptr_eq(&points, &old);
                        }
                        assert!(modules.register(&module, &modules.points()));
                        true
                    };
                    (0..MODULES).map(load).collect::<Vec<_>>()
                });
                start.wait();
                modules.set_points(Arc::default());
                let listed = modules.that_stay(|_| true);
                let listed: HashSet<usize> = listed.iter().map(|module| module.id.0).collect();
                (loading.join().unwrap(), listed)
            });
            for (id, with_new) in with_new.into_iter().enumerate() {
                assert!(with_new || listed.contains(&id), "module {id}");
            }
        }
    }
}
