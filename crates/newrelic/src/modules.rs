//! The loaded modules, and what was added to them.

use corprof::ids::ModuleId;
use corprof::metadata::MethodDef;
use newrelic_compat::loaded::LoadedModule;
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

/// All loaded modules.
#[derive(Debug, Default)]
pub struct Modules {
    known: RwLock<HashMap<ModuleId, Arc<Module>>>,
}

impl Modules {
    /// A module, unless it is unloaded.
    pub fn get(&self, id: ModuleId) -> Option<Arc<Module>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// A module was loaded.
    pub fn insert(&self, module: Module) -> Arc<Module> {
        let module = Arc::new(module);
        self.known
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(module.id, Arc::clone(&module));
        module
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
