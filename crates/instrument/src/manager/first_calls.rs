//! Methods that are instrumented when the program calls them for the first time: their bodies are
//! replaced before they are compiled.

use super::bodies::{Prepared, prepared};
use super::change::{Change, Method, State};
use super::rejit::not_asked;
use super::{Installed, Key, Manager, lock, taken};
use crate::arguments::Arguments;
use crate::find::{ModuleFacts, find_one};
use crate::{ExceptionExit, Found, Refusal, Scope};
use corprof::ids::{FunctionId, ModuleId};
use corprof::info::IlMapEntry;
use corprof::metadata::token::MethodDef;
use rules::RuleSet;
use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;

/// What [`Manager::first_call`] has seen.
#[derive(Debug, Default)]
pub(super) struct FirstCalls {
    pub(super) rules: Option<Arc<RuleSet>>,
    /// Modules; `None` for those without methods.
    pub(super) modules: HashMap<ModuleId, Option<Inspected>>,
    pub(super) seen: HashSet<Key>,
}

/// What [`Manager::first_call`] needs to know of a module.
#[derive(Debug)]
pub(super) struct Inspected {
    facts: ModuleFacts,
    /// The rule that takes all methods.
    for_all: Option<usize>,
    /// Why none can be instrumented.
    pub(super) refusal: Option<Refusal>,
}

impl Manager {
    /// Other rules come: those of before have not ended any more. From now on methods are
    /// instrumented [when they are called](Self::first_call) for the first time if these take them;
    /// `None` for no more. What has begun is over then.
    pub fn set_first_calls(&self, rules: Option<Arc<RuleSet>>) {
        let mut known = self.known();
        known.expired.clear();
        let mut first_calls = FirstCalls { rules, ..FirstCalls::default() };
        if first_calls.rules.is_some() {
            // Now, and not while a program waits for it.
            first_calls.seen.reserve(Self::MANY);
            known.installed.reserve(Self::MANY);
            known.slots.reserve(Self::MANY);
            known.first_bodies.reserve(Self::MANY);
        }
        drop(known);
        *lock(&self.first_calls) = first_calls;
    }

    /// Instruments a method that the runtime is about to compile, if there are
    /// [rules](Self::set_first_calls) that match it and this was not done before. Returns what has
    /// become of the method.
    ///
    /// That is far less work than to request all methods, of which few are called. But it counts
    /// all calls only if code that was compiled before the process began is used for no method, and
    /// no method is inlined: methods that were not seen here would be in there.
    ///
    /// Call this in the callback `JITCompilationStarted`. There it is too late to request another
    /// body: the runtime would compile both. So the method's own body is replaced, and
    /// [`Self::revert`] restores it. `limit` is called before the method can be. `went` is handed
    /// on to [`Self::map_first_calls`]: a number that changes when something is unloaded.
    pub fn first_call(
        &self,
        function: FunctionId,
        went: u64,
        limit: impl FnOnce(&Method, &RuleSet),
    ) -> Option<Change> {
        let mut first_calls = lock(&self.first_calls);
        let FirstCalls { rules: Some(rules), modules, seen } = &mut *first_calls else {
            return None;
        };
        let key = self.method_of(function)?;
        let change = if seen.insert(key) {
            let module = modules.entry(key.0).or_insert_with(|| self.look(key.0, rules)).as_ref();
            let found = module.and_then(|Inspected { facts, for_all, refusal }| {
                Some((find_one(&self.names, facts, *for_all, key, rules)?, refusal))
            });
            found.filter(|(found, _)| !self.known().expired.contains(&found.rule))
        } else {
            None
        };
        let change = change.map(|(found, refusal)| {
            let (method, machine) = taken(key.0, &found, rules);
            let keys: Vec<Key> =
                iter::once(key).chain(machine.map(|machine| (key.0, machine))).collect();
            if found.refusal.is_none() {
                // What runs for an asynchronous method is not a method of its own.
                seen.extend(&keys);
            }
            let scope = refusal.clone().map_or_else(|| self.opened(key.0, &|open| open()), Err);
            let made = scope
                .and_then(|scope| self.make(&lock(&scope), method.clone(), &found, machine, rules));
            let replaced = made.and_then(|(method, bodies)| {
                limit(&method, rules);
                self.replace(&method, machine, &keys, bodies)?;
                Ok(method)
            });
            match replaced {
                Ok(method) => Change { method, state: State::Requested },
                Err(refusal) => Change { method, state: State::Refused(refusal) },
            }
        });
        drop(first_calls);
        let mut known = self.known();
        if let Some(Installed { prepared: Some(prepared), .. }) = known.installed.get(&key) {
            let prepared = Arc::clone(prepared);
            known.unmapped.push((went, function, prepared));
        }
        change
    }

    /// Tells the runtime which instructions of bodies that were replaced at their first call are
    /// which of the ones before. Only debuggers and stack traces use that, so the calls need not
    /// wait for it. To be called soon after, on another thread. `hold` calls what it is given only
    /// while nothing has been unloaded since the number, and nothing can be meanwhile.
    pub fn map_first_calls(&self, hold: &dyn Fn(u64, &mut dyn FnMut())) {
        let unmapped = std::mem::take(&mut self.known().unmapped);
        for (went, function, prepared) in unmapped {
            let map = prepared.1.iter();
            let map = map.map(|step| IlMapEntry {
                old_offset: step.old_offset,
                new_offset: step.new_offset,
            });
            let map: Vec<IlMapEntry> = map.collect();
            hold(went, &mut || {
                let _ = self.info.set_il_instrumented_code_map(function, true, &map);
            });
        }
    }

    /// Prepares a module that was loaded, with methods that may be [called for the first
    /// time](Self::first_call). Call this in the callback `ModuleLoadFinished`. When the module's
    /// metadata is made extensible, the runtime lays out its tables anew, and a reader that looks
    /// for a method in there meanwhile may not find it (`MDInternalRW`,
    /// src/coreclr/md/enc/mdinternalrw.cpp, dotnet/runtime#127957; 1 of 450 starts of a program on
    /// .NET 9 ended with a `MissingMethodException`). As long as the callback has not returned,
    /// there are no readers.
    pub fn open_for_first_calls(&self, module: ModuleId) {
        // Not to be locked here: what is done for another first call may have the module loaded.
        if self.refusal_of(module).is_none() {
            // One without methods has no metadata, and needs none.
            let _ = self.opened(module, &|open| open());
        }
    }

    /// Looks at it, so that first calls need not wait for that. To be called on another thread,
    /// soon.
    pub fn prepare_first_calls(&self, module: ModuleId) {
        let rules = lock(&self.first_calls).rules.clone();
        let Some(rules) = rules else { return };
        self.tasks();
        let looked = self.look(module, &rules);
        let mut first_calls = lock(&self.first_calls);
        if first_calls.rules.as_ref().is_some_and(|now| Arc::ptr_eq(now, &rules)) {
            first_calls.modules.entry(module).or_insert(looked);
        }
    }

    pub(super) fn look(&self, module: ModuleId, rules: &RuleSet) -> Option<Inspected> {
        let facts = ModuleFacts::of(self.names.metadata(module).ok()?)?;
        facts.marked();
        let for_all = facts.wanted(rules).for_all();
        Some(Inspected { facts, for_all, refusal: self.refusal_of(module) })
    }

    /// The new body of a method, and that of its state machine.
    fn make(
        &self,
        scope: &Scope,
        mut method: Method,
        found: &Found,
        machine: Option<MethodDef>,
        rules: &RuleSet,
    ) -> Result<(Method, Vec<Prepared>), Refusal> {
        let (_, slot) = self.admit(&mut method, found, machine, rules, Ok(scope))?;
        // All that is called is instrumented, so those who catch exceptions are, too. Where
        // arguments are shown, they are when an exception comes.
        let guard = if method.arguments == Arguments::Off {
            ExceptionExit::Catchers
        } else {
            ExceptionExit::OwnAndCatchers
        };
        let (own, of_machine) = self.bodies(scope, &method, machine, guard, slot)?;
        method.slot = Some(slot);
        let bodies = iter::once(&own).chain(&of_machine).map(prepared).collect::<Result<_, _>>()?;
        Ok((method, bodies))
    }

    /// Replaces bodies that have not been compiled.
    fn replace(
        &self,
        method: &Method,
        machine: Option<MethodDef>,
        keys: &[Key],
        bodies: Vec<Prepared>,
    ) -> Result<(), Refusal> {
        let before = keys.iter().map(|key| Ok(self.info.il_function_body(key.0, key.1)?.to_vec()));
        let before = before.collect::<Result<Vec<_>, Refusal>>()?;
        let replaced = keys.iter().zip(&bodies).try_for_each(|(key, (body, _))| {
            self.info.set_il_function_body(key.0, key.1, body).map_err(not_asked)
        });
        if replaced.is_err() {
            for (key, before) in keys.iter().zip(&before) {
                // Half of an asynchronous one must not stay.
                let _ = self.info.set_il_function_body(key.0, key.1, before);
            }
            return replaced;
        }
        let mut known = self.known();
        for ((&key, before), body) in keys.iter().zip(before).zip(bodies) {
            known.first_bodies.insert(key, Some(before));
            let prepared = Some(Arc::new(body));
            known.installed.insert(key, Installed { method: method.clone(), machine, prepared });
        }
        Ok(())
    }
}
