//! Names of the functions on stacks.
//!
//! A function id is an address: it becomes invalid when its assembly is unloaded, and may be reused
//! for another function. So the module and token of each function are read while the runtime is
//! suspended and everything on a stack is alive. Names are then read from the modules' metadata
//! after the runtime is resumed, and only from modules that are still loaded: `ModuleUnloadStarted`
//! does not return while metadata is being read, the runtime frees nothing before it returns, and
//! afterwards the module is not used any more. Reading one name takes microseconds and waits for
//! nothing that an unloading thread holds.

use super::abi::{FunctionName, Wide, address, wide};
use super::runtime::Runtime;
use super::snapshot::{Place, Snapshot};
use corprof::ids::{FunctionId, ModuleId};
use corprof::metadata::TypeDef;
use std::collections::{HashMap, HashSet, TryReserveError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Type and method name for unknown functions.
const UNKNOWN: (&str, &str) = ("UnknownClass", "UnknownMethod(error)");

/// The type of global methods (ECMA-335, II.10.8).
const MODULE: &str = "<Module>";

/// How many outdated functions are kept: some programs generate and unload code for as long as they
/// run.
const MAX_OUTDATED: usize = 10_000;

/// Names by function.
#[derive(Debug, Default)]
pub struct Names {
    known: Mutex<Known>,
}

/// The cache. It is locked while metadata is read.
#[derive(Debug, Default)]
pub struct Known {
    functions: HashMap<FunctionId, Named>,
    /// Names of types, shared by their methods. Tokens are unique within a module only.
    classes: HashMap<(ModuleId, TypeDef), Wide>,
    /// How many of the functions are outdated.
    outdated: usize,
    /// Modules unloaded since the snapshot began; `None` when there is no snapshot.
    unloaded: Option<HashSet<ModuleId>>,
}

/// A function with its names.
#[derive(Clone, Debug)]
struct Named {
    place: Place,
    /// The module was unloaded: the id may stand for another function in a later snapshot.
    is_outdated: bool,
    /// Of its type and of the method.
    names: (Wide, Wide),
}

impl Names {
    /// Records modules that are unloaded. One snapshot at a time.
    pub fn watch_unloads(&self) -> UnloadWatch<'_> {
        self.known().unloaded = Some(HashSet::new());
        UnloadWatch(self)
    }

    /// A module is about to be unloaded: when this returns, its metadata is not read any more.
    pub fn module_unload_started(&self, module: ModuleId) {
        let mut known = self.known();
        let known = &mut *known;
        known.classes.retain(|(of, _), _| *of != module);
        for named in known
            .functions
            .values_mut()
            .filter(|named| named.place.module == module && !named.is_outdated)
        {
            named.is_outdated = true;
            known.outdated += 1;
        }
        if let Some(unloaded) = &mut known.unloaded {
            unloaded.insert(module);
        }
    }

    /// Delays the unloading of modules until the guard is dropped.
    pub fn hold(&self) -> MutexGuard<'_, Known> {
        self.known()
    }

    /// The names of functions; [`UNKNOWN`] for functions that were on no stack.
    ///
    /// # Errors
    /// There is no memory.
    pub fn find(&self, functions: &[usize]) -> Result<Answer, TryReserveError> {
        let known = self.known();
        let unknown = (wide(UNKNOWN.0), wide(UNKNOWN.1));
        let (mut entries, mut texts) = (Vec::new(), Vec::new());
        entries.try_reserve_exact(functions.len())?;
        texts.try_reserve_exact(functions.len())?;
        for function in functions {
            let named = known.functions.get(&FunctionId(*function));
            let (class, method) = named.map_or(&unknown, |named| &named.names);
            entries.push(FunctionName {
                function: *function,
                type_name: address(class),
                method_name: address(method),
            });
            texts.push((Arc::clone(class), Arc::clone(method)));
        }
        Ok(Answer { entries, _texts: texts })
    }

    /// Removes everything.
    pub fn clear(&self) {
        let mut known = self.known();
        *known = Known { unloaded: known.unloaded.take(), ..Known::default() };
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records modules that are unloaded, until it is dropped.
#[derive(Debug)]
pub struct UnloadWatch<'a>(&'a Names);

impl UnloadWatch<'_> {
    /// Resolves the names of functions that are not in the cache. The snapshot began after this
    /// watch.
    pub fn learn(&self, runtime: &impl Runtime, snapshot: &Snapshot) {
        let functions = snapshot.functions().collect::<HashMap<_, _>>();
        self.0.known().limit();
        for (function, place) in functions {
            // The lock is released after each function, so that an unloading thread waits for one
            // name only.
            self.0.known().learn(runtime, function, place);
        }
    }
}

impl Drop for UnloadWatch<'_> {
    fn drop(&mut self) {
        self.0.known().unloaded = None;
    }
}

impl Known {
    /// Removes functions of unloaded modules if there are too many.
    fn limit(&mut self) {
        if self.outdated > MAX_OUTDATED {
            self.functions.retain(|_, named| !named.is_outdated);
            self.outdated = 0;
        }
    }

    fn learn(&mut self, runtime: &impl Runtime, function: FunctionId, place: Place) {
        let earlier = self.functions.get(&function);
        if earlier.is_some_and(|named| named.place == place && !named.is_outdated) {
            return;
        }
        let was_outdated = earlier.is_some_and(|named| named.is_outdated);
        let is_unloaded =
            self.unloaded.as_ref().is_none_or(|unloaded| unloaded.contains(&place.module));
        let names = if is_unloaded { None } else { self.ask(runtime, place) };
        self.outdated -= usize::from(was_outdated);
        match names {
            Some(names) => {
                self.functions.insert(function, Named { place, is_outdated: false, names })
            }
            // The id does not stand for the earlier function any more.
            None => self.functions.remove(&function),
        };
    }

    /// Reads names from the metadata of a loaded module.
    fn ask(&mut self, runtime: &impl Runtime, place: Place) -> Option<(Wide, Wide)> {
        let (class, method) = runtime.method(place.module, place.method).ok()?;
        let key = (place.module, class);
        let class = match self.classes.get(&key) {
            Some(name) => Arc::clone(name),
            None => {
                let name = if class.is_nil() {
                    MODULE.to_owned()
                } else {
                    runtime.class(place.module, class).ok()?
                };
                let name = wide(&name);
                self.classes.insert(key, Arc::clone(&name));
                name
            }
        };
        Some((class, wide(&method)))
    }
}

/// Result of `RequestFunctionNames`.
#[derive(Debug)]
pub struct Answer {
    entries: Vec<FunctionName>,
    /// What the addresses in `entries` point to.
    _texts: Vec<(Wide, Wide)>,
}

impl Answer {
    /// One entry per requested function, in order. Its addresses stay valid when the answer is
    /// moved.
    pub fn entries(&self) -> &[FunctionName] {
        &self.entries
    }
}
