//! What classes are called, and when their ids stop to mean them.
//!
//! Class ids are addresses: when a collectible assembly is unloaded, its ids may come again with
//! another meaning. So names are asked for under one lock, which is also held while a module that
//! goes is seen off: whoever names a class knows that it is there. Counts that nobody has read yet
//! get their names then.

use super::table::Row;
use corprof::NameResolver;
use corprof::ids::{ClassId, ModuleId};
use corprof::info::ProfilerInfo;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Types of allocated objects, numbered from 1.
pub struct Types {
    names: NameResolver,
    known: Mutex<Known>,
}

/// See [`Types::lock`].
#[derive(Default)]
pub struct Known {
    classes: HashMap<u64, KnownClass>,
    /// Names since the last [`Types::take_fresh`], in the order of their numbers.
    fresh: Vec<Arc<str>>,
    last: u32,
}

struct KnownClass {
    number: u32,
    /// Where its name comes from; empty if it has none.
    modules: Vec<ModuleId>,
}

impl Types {
    /// Nothing is known yet.
    pub fn new(info: &ProfilerInfo) -> Self {
        Self { names: NameResolver::new(info.clone()), known: Mutex::default() }
    }

    /// As long as this is held no module goes.
    pub fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a row's type.
    pub fn number_of(&self, row: &Row) -> Option<u32> {
        row.number().or_else(|| self.number(&mut self.lock(), row))
    }

    /// Like [`Self::number_of`], for a caller that already holds the lock.
    fn number(&self, known: &mut Known, row: &Row) -> Option<u32> {
        if let Some(number) = row.number() {
            return Some(number);
        }
        let class = row.class()?;
        let number = match known.classes.get(&class) {
            Some(class) => class.number,
            None => {
                let (name, modules) = match self.names.class_and_modules(ClassId(class as usize)) {
                    Ok(named) => named,
                    Err(error) => (format!("[unnamed: {error}]").into(), Vec::new()),
                };
                known.last = known.last.wrapping_add(1);
                known.fresh.push(name);
                known.classes.insert(class, KnownClass { number: known.last, modules });
                known.last
            }
        };
        row.set_number(number);
        Some(number)
    }

    /// Handles the unloading of a module. Every row gets its number while names are still
    /// available. Rows of the module's classes are then retired: they never stand for another
    /// class. `rows` passes all rows that exist.
    pub fn module_unloading<'a>(
        &self,
        known: &mut Known,
        module: ModuleId,
        rows: impl Fn(&mut dyn FnMut(&'a Row)),
    ) {
        rows(&mut |row| {
            self.number(known, row);
        });
        // One without a name may be of any module.
        let goes = |class: &KnownClass| class.modules.is_empty() || class.modules.contains(&module);
        rows(&mut |row| {
            if row.class().and_then(|class| known.classes.get(&class)).is_some_and(goes) {
                row.retire();
            }
        });
        known.classes.retain(|_, class| !goes(class));
        self.names.forget_module(module);
    }

    /// Names of the types that were numbered since the last call, in the order of their numbers.
    pub fn take_fresh(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.lock().fresh)
    }
}
