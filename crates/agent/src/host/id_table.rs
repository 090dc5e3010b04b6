//! Classes and functions that callbacks have met, by numbers that never change their meaning.
//!
//! An id of the runtime is the address of a structure. When a collectible assembly is unloaded the
//! structure is freed, and the id may come again with another meaning. So callbacks exchange each
//! id for a number here, while the class or function is certainly loaded: an object of it is alive,
//! or it runs. Numbers may wait in queues and tables for as long as they like. Before a module
//! goes, everything that has a number and no name gets one ([`IdTable::before_unload`]).

use crate::host::unloads::Unloads;
use corprof::ids::{ClassId, FunctionId, ModuleId};
use corprof::{MethodName, NameResolver};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most classes, and most functions, that have numbers at a time.
const MOST: usize = 16_384;

/// The numbers. The lock is never held while the runtime is asked: callbacks wait for it in
/// cooperative mode, in which a thread holds up the collector.
#[derive(Debug, Default)]
pub struct IdTable {
    classes: Mutex<Numbers<Arc<str>>>,
    functions: Mutex<Numbers<MethodName>>,
}

/// What is known of a number.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning<I, N> {
    /// The id stands for it still; it may be asked about in a
    /// [hold](crate::host::unloads::Unloads::hold_all).
    Loaded(I),
    /// It was unloaded, and had this name.
    Unloaded(N),
    /// It was unloaded, and nobody knows what it was.
    Unknown,
}

#[derive(Debug)]
struct Numbers<N> {
    /// The number of each id, while it stands for what was given that number.
    current: HashMap<usize, u32>,
    entries: HashMap<u32, Entry<N>>,
    /// Those whose modules are not known yet.
    fresh: Vec<u32>,
    last: u32,
    /// Whether any of the entries was unloaded.
    any_unloaded: bool,
}

#[derive(Debug)]
struct Entry<N> {
    id: usize,
    /// Known from the first unloading on that came after it.
    name: Option<N>,
    /// Without these the id stands for nothing; empty if the runtime could not say, `None` before
    /// it was asked.
    modules: Option<Vec<ModuleId>>,
    is_loaded: bool,
}

impl<N> Default for Numbers<N> {
    fn default() -> Self {
        Self {
            current: HashMap::new(),
            entries: HashMap::new(),
            fresh: Vec::new(),
            last: 0,
            any_unloaded: false,
        }
    }
}

impl<N: Clone> Numbers<N> {
    fn number(&mut self, id: usize) -> Option<u32> {
        if let Some(&number) = self.current.get(&id) {
            return Some(number);
        }
        if self.entries.len() >= MOST && std::mem::take(&mut self.any_unloaded) {
            self.entries.retain(|_, entry| entry.is_loaded);
            // They are taken when a module goes, which a program with dynamic methods need not do.
            self.fresh.retain(|number| self.entries.contains_key(number));
        }
        if id == 0 || self.entries.len() >= MOST {
            return None;
        }
        self.last = self.last.checked_add(1)?;
        self.current.insert(id, self.last);
        self.entries.insert(self.last, Entry { id, name: None, modules: None, is_loaded: true });
        self.fresh.push(self.last);
        Some(self.last)
    }

    fn meaning(&self, number: u32) -> Meaning<usize, N> {
        match self.entries.get(&number) {
            Some(entry) if entry.is_loaded => Meaning::Loaded(entry.id),
            Some(Entry { name: Some(name), .. }) => Meaning::Unloaded(name.clone()),
            _ => Meaning::Unknown,
        }
    }

    /// Ids whose names and modules are to be found out.
    fn take_fresh(&mut self) -> Vec<(u32, usize)> {
        let fresh = std::mem::take(&mut self.fresh);
        // A dynamic method may have gone meanwhile.
        let loaded = |number: &u32| self.entries.get(number).filter(|entry| entry.is_loaded);
        fresh.into_iter().filter_map(|number| Some((number, loaded(&number)?.id))).collect()
    }

    fn is_loaded(&self, number: u32) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.is_loaded)
    }

    fn keep(&mut self, number: u32, name: Option<N>, modules: Vec<ModuleId>) {
        if let Some(entry) = self.entries.get_mut(&number) {
            (entry.name, entry.modules) = (name, Some(modules));
        }
    }

    /// What depends on a module is unloaded with it, and so may be all that the runtime could not
    /// name the modules of. What was met after the runtime was asked was alive at that moment, so
    /// the module that goes now is not among its own.
    fn unload(&mut self, module: ModuleId) {
        for entry in self.entries.values_mut().filter(|entry| entry.is_loaded) {
            let depends = |of: &Vec<ModuleId>| of.is_empty() || of.contains(&module);
            if entry.modules.as_ref().is_some_and(depends) {
                entry.is_loaded = false;
                self.any_unloaded = true;
                self.current.remove(&entry.id);
            }
        }
    }

    fn forget(&mut self, id: usize) {
        if let Some(number) = self.current.remove(&id)
            && let Some(entry) = self.entries.get_mut(&number)
        {
            entry.is_loaded = false;
            self.any_unloaded = true;
        }
    }
}

impl IdTable {
    /// The number of a class, for a callback in which an object of it is alive; `None` if there are
    /// too many.
    pub fn class(&self, class: ClassId) -> Option<u32> {
        lock(&self.classes).number(class.0)
    }

    /// The number of a function, for a callback during which it runs; `None` if there are too many.
    pub fn function(&self, function: FunctionId) -> Option<u32> {
        lock(&self.functions).number(function.0)
    }

    /// What a class's number stands for.
    pub fn class_of(&self, number: u32) -> Meaning<ClassId, Arc<str>> {
        lock(&self.classes).meaning(number).map(ClassId)
    }

    /// What a function's number stands for.
    pub fn function_of(&self, number: u32) -> Meaning<FunctionId, MethodName> {
        lock(&self.functions).meaning(number).map(FunctionId)
    }

    /// A module is about to be unloaded: whatever has no name yet gets one, and what depends on the
    /// module is loaded no more. To be called before the runtime frees anything of it, and while
    /// nobody else asks.
    pub fn before_unload(&self, names: &NameResolver, unloads: &Unloads, module: ModuleId) {
        let fresh = lock(&self.classes).take_fresh();
        for (number, id) in fresh {
            // Without a name its modules are not known either: then it is taken for unloaded.
            let (name, modules) = names.class_and_modules(ClassId(id)).ok().unzip();
            lock(&self.classes).keep(number, name, modules.unwrap_or_default());
        }
        let fresh = lock(&self.functions).take_fresh();
        for (number, id) in fresh {
            // No module goes besides, but a dynamic method may: it waits for a question, and is not
            // asked about once it has begun to go.
            unloads.hold_all(|| {
                if lock(&self.functions).is_loaded(number) {
                    let name = names.method(FunctionId(id)).ok();
                    let modules = modules_of(names, FunctionId(id)).unwrap_or_default();
                    lock(&self.functions).keep(number, name, modules);
                }
            });
        }
        lock(&self.classes).unload(module);
        lock(&self.functions).unload(module);
    }

    /// The code of a dynamic method is freed: its id may come again.
    pub fn function_freed(&self, function: FunctionId) {
        lock(&self.functions).forget(function.0);
    }

    /// About how many bytes it holds.
    pub fn memory(&self) -> usize {
        let of_class = lock(&self.classes).entries.len() * (size_of::<Entry<Arc<str>>>() + 128);
        of_class + lock(&self.functions).entries.len() * (size_of::<Entry<MethodName>>() + 192)
    }
}

impl<N> Meaning<usize, N> {
    fn map<I>(self, id: impl FnOnce(usize) -> I) -> Meaning<I, N> {
        match self {
            Self::Loaded(of) => Meaning::Loaded(id(of)),
            Self::Unloaded(name) => Meaning::Unloaded(name),
            Self::Unknown => Meaning::Unknown,
        }
    }
}

/// The modules without which a function's id stands for nothing: its own, and those of all generic
/// arguments.
fn modules_of(names: &NameResolver, function: FunctionId) -> Option<Vec<ModuleId>> {
    let Ok(about) = names.info().function_info2(function, None) else {
        // Without metadata.
        return names.method(function).ok()?.module.map(|module| vec![module]);
    };
    let mut modules = vec![about.module];
    let classes = about.class.into_iter().chain(about.type_arguments.iter().copied());
    for class in classes.filter(|class| !class.is_null()) {
        modules.extend(names.class_and_modules(class).ok()?.1);
    }
    Some(modules)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_comes_again_has_another_number() {
        let mut numbers = Numbers::<&str>::default();
        let first = numbers.number(0x10).unwrap();
        let other = numbers.number(0x20).unwrap();
        assert_eq!(
            (numbers.number(0x10), numbers.meaning(first)),
            (Some(first), Meaning::Loaded(0x10))
        );
        assert_eq!(numbers.take_fresh(), [(first, 0x10), (other, 0x20)]);
        numbers.keep(first, Some("first"), vec![ModuleId(1), ModuleId(2)]);
        numbers.keep(other, Some("other"), vec![ModuleId(1)]);
        numbers.unload(ModuleId(2));
        assert_eq!(numbers.meaning(first), Meaning::Unloaded("first"));
        assert_eq!(numbers.meaning(other), Meaning::Loaded(0x20));
        let again = numbers.number(0x10).unwrap();
        assert!(again != first && again != other);
        assert_eq!(numbers.meaning(again), Meaning::Loaded(0x10));
        // One of which nothing could be found out may have gone with any module.
        numbers.take_fresh();
        numbers.keep(again, None, Vec::new());
        numbers.unload(ModuleId(9));
        assert_eq!(
            (numbers.meaning(again), numbers.meaning(other)),
            (Meaning::Unknown, Meaning::Loaded(0x20))
        );
        numbers.forget(0x20);
        assert_eq!(numbers.meaning(other), Meaning::Unloaded("other"));
        assert_eq!(numbers.meaning(77), Meaning::Unknown);
    }

    #[test]
    fn what_is_met_while_names_are_asked_for_stays_loaded() {
        let mut numbers = Numbers::<&str>::default();
        let asked = numbers.number(0x10).unwrap();
        assert_eq!(numbers.take_fresh(), [(asked, 0x10)]);
        let met_meanwhile = numbers.number(0x20).unwrap();
        numbers.keep(asked, Some("asked"), vec![ModuleId(1)]);
        numbers.unload(ModuleId(1));
        assert_eq!(numbers.meaning(asked), Meaning::Unloaded("asked"));
        assert_eq!(numbers.meaning(met_meanwhile), Meaning::Loaded(0x20));
        // Its turn comes when the next module goes.
        assert_eq!(numbers.take_fresh(), [(met_meanwhile, 0x20)]);
        numbers.keep(met_meanwhile, Some("met"), vec![ModuleId(2)]);
        numbers.unload(ModuleId(2));
        assert_eq!(numbers.meaning(met_meanwhile), Meaning::Unloaded("met"));
    }

    #[test]
    fn what_is_freed_before_its_name_was_asked_for_is_never_asked_about() {
        let mut numbers = Numbers::<&str>::default();
        let freed = numbers.number(0x10).unwrap();
        numbers.forget(0x10);
        let again = numbers.number(0x10).unwrap();
        assert_eq!(numbers.take_fresh(), [(again, 0x10)]);
        assert_eq!(numbers.meaning(freed), Meaning::Unknown);
        // Nor if it is freed when the names of others are being asked for.
        assert!(numbers.is_loaded(again) && !numbers.is_loaded(freed));
        numbers.forget(0x10);
        assert!(!numbers.is_loaded(again));
    }

    #[test]
    fn what_was_freed_takes_no_room() {
        let mut numbers = Numbers::<&str>::default();
        for id in 1..=10 * MOST {
            assert!(numbers.number(id * 8).is_some());
            numbers.forget(id * 8);
        }
        assert!(numbers.fresh.len() <= MOST && numbers.entries.len() <= MOST);
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let mut numbers = Numbers::<&str>::default();
        assert_eq!(numbers.number(0), None);
        assert_eq!((1..=MOST + 5).filter_map(|id| numbers.number(id * 8)).count(), MOST);
        // Those that are unloaded make room.
        let fresh = numbers.take_fresh();
        for &(number, _) in fresh.iter().take(10) {
            numbers.keep(number, Some("gone"), vec![ModuleId(1)]);
        }
        fresh
            .iter()
            .skip(10)
            .for_each(|&(number, _)| numbers.keep(number, Some("there"), vec![ModuleId(2)]));
        numbers.unload(ModuleId(1));
        assert_eq!((MOST + 6..MOST + 20).filter_map(|id| numbers.number(id * 8)).count(), 10);
    }
}
