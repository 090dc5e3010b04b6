//! Which methods are instrumented, and what the runtime knows of it.

use crate::arguments::{Arguments, Types};
use crate::asynchronous::{self, Source, Tasks};
use crate::find::{ModuleFacts, find_one, parameters};
use crate::{
    Body, ExceptionExit, Found, Probes, Refusal, Rewritten, Scope, Template, find, rewrite,
};
use cil::Edited;
use corprof::abi::{COR_IL_MAP, COR_PRF_MODULE_FLAGS, COR_PRF_REJIT_FLAGS};
use corprof::control::FunctionControl;
use corprof::ids::{FunctionId, ModuleId, ReJitId};
use corprof::info::{IlMapEntry, ModuleMethod, ProfilerInfo};
use corprof::metadata::token::MethodDef;
use corprof::{HResult, NameResolver};
use rules::{Action, RuleSet};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::iter;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// When new bodies are proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyPolicy {
    /// At once, and nothing is changed: only to report what would happen.
    Dry,
    /// Before the runtime is asked to use them.
    First,
    /// When the runtime compiles them or [`Manager::verify_pending`] comes to them, whatever is
    /// first: for modules whose load waits. A program calls few of the methods that it loads. A
    /// method whose new body cannot be proved keeps its original body, and
    /// [`Manager::take_failures`] reports it.
    Later,
}

/// How far a method is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It could be instrumented; only asked for by a [dry run](VerifyPolicy::Dry).
    Possible,
    /// The runtime was asked to use the new body, and does from the next call on.
    Requested,
    /// The original body is back, or was never replaced.
    Original,
    /// It is left alone.
    Refused(Refusal),
}

/// A method that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    /// Its module.
    pub module: ModuleId,
    /// Its token.
    pub method: MethodDef,
    /// Place of the rule in the set.
    pub rule: usize,
    /// Name of the rule.
    pub rule_name: Arc<str>,
    /// The number that probes receive: from 0, and the same for a method in all its life; `None` if
    /// it has none because it was refused.
    pub slot: Option<u32>,
    /// What the new body does.
    pub template: Template,
    /// What is reported about the arguments of individual calls.
    pub arguments: Arguments,
}

/// What has become of a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which.
    pub method: Method,
    /// What.
    pub state: State,
}

#[derive(Debug)]
struct Installed {
    /// The method that this is done for: itself, or the asynchronous one whose machine it runs.
    method: Method,
    /// `MoveNext` of its state machine, if that is rewritten as well.
    machine: Option<MethodDef>,
    /// The new body and its map, once the runtime has asked for them. It may do so more than once.
    prepared: Option<Arc<Prepared>>,
}

/// What [`Manager::first_call`] has seen.
#[derive(Debug, Default)]
struct FirstCalls {
    rules: Option<Arc<RuleSet>>,
    /// Modules; `None` for those without methods.
    modules: HashMap<ModuleId, Option<Inspected>>,
    seen: HashSet<Key>,
}

/// What [`Manager::first_call`] needs to know of a module.
#[derive(Debug)]
struct Inspected {
    facts: ModuleFacts,
    /// The rule that takes all methods.
    for_all: Option<usize>,
    /// Why none can be instrumented.
    refusal: Option<Refusal>,
}

type Prepared = (Vec<u8>, Vec<COR_IL_MAP>);

type Key = (ModuleId, MethodDef);

#[derive(Debug, Default)]
struct Known {
    installed: HashMap<Key, Installed>,
    /// Slots by method. A method keeps its slot, so its counts continue.
    slots: HashMap<Key, u32>,
    next_slot: u32,
    /// Methods that were [instrumented at their first call](Manager::first_call), and the bodies
    /// that they had and have not got back.
    first_bodies: HashMap<Key, Option<Vec<u8>>>,
    /// Those of which the runtime does not know yet [what is where](Manager::map_first_calls).
    /// A function's id is an address, also of an instantiation over types that are unloaded: each
    /// stands with the number that `first_call` was given.
    unmapped: Vec<(u64, FunctionId, Arc<Prepared>)>,
    /// Places of rules that have [ended](Manager::expire).
    expired: HashSet<usize>,
    /// Those that are to be proved [later](VerifyPolicy::Later).
    unproved: VecDeque<Key>,
    /// Those that could not be proved later, for [`Manager::take_failures`].
    unprovable: Vec<Change>,
    /// What callbacks have found out, for [`Manager::take_failures`].
    failures: Vec<(Key, Refusal)>,
}

/// Has the runtime use new bodies, and the original ones again.
#[derive(Debug)]
pub struct Manager {
    info: ProfilerInfo,
    names: NameResolver,
    probes: Probes,
    tasks: OnceLock<Tasks>,
    types: Types,
    /// Whether the runtime bears being asked for the inliners of methods that are not loaded.
    asks_for_unloaded: bool,
    /// Held only for a lookup: callbacks wait for it.
    known: Mutex<Known>,
    /// Methods that were looked at, and asked for.
    progress: AtomicU64,
    /// Modules with methods that are instrumented. Each is held while one body is made.
    scopes: Mutex<HashMap<ModuleId, Arc<Mutex<Scope>>>>,
    /// Held while one method is instrumented at its first call: whoever else calls it first waits.
    first_calls: Mutex<FirstCalls>,
}

impl Manager {
    /// Most methods that ever get a slot.
    pub const MOST: u32 = 1 << 16;
    /// Methods that a program of some size calls as it starts.
    const MANY: usize = 6000;
    /// Methods that the runtime is asked for at a time: it holds a lock meanwhile.
    const AT_A_TIME: usize = 256;
    /// Methods that are proved later at a time: meanwhile, their module cannot go, and one that is
    /// loaded waits.
    const PROVED_AT_A_TIME: usize = 32;

    /// Nothing is instrumented. `major` is the version of the runtime, which must have accepted
    /// `ENABLE_REJIT`.
    #[must_use]
    pub fn new(info: ProfilerInfo, major: u16, probes: Probes) -> Self {
        Self {
            names: NameResolver::new(info.clone()),
            info,
            probes,
            tasks: OnceLock::new(),
            types: Types::default(),
            asks_for_unloaded: major >= 8,
            known: Mutex::default(),
            progress: AtomicU64::new(0),
            scopes: Mutex::default(),
            first_calls: Mutex::default(),
        }
    }

    /// Gives back what it holds of the runtime, for an agent that leaves.
    pub fn forget(&self) {
        self.set_first_calls(None);
        lock(&self.scopes).clear();
        self.names.forget_all();
    }

    /// Changes as long as [`Self::apply`] gets on, for those who wait for it.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.progress.load(Relaxed)
    }

    /// Names of methods.
    #[must_use]
    pub const fn names(&self) -> &NameResolver {
        &self.names
    }

    /// Instruments what rules take in these modules. What they do not take stays as it is, also
    /// where it is instrumented. `see`, if there is one, is shown each new body before the runtime
    /// is asked to use it, unless that is [later](VerifyPolicy::Later).
    ///
    /// To be proved, new bodies are made, and thrown away. They are made again when the runtime
    /// compiles them: a program calls few of its methods, and every addition to metadata is
    /// searched for in all that there is, while the program waits to read it. Those that `see` is
    /// shown are kept.
    ///
    /// Once `is_over`, no more methods are looked at, and those of the module that is looked at
    /// stay as they are.
    ///
    /// To be called on an own thread, never in a callback. `still` does something while nobody
    /// reads metadata: see [`Self::open_for_first_calls`].
    pub fn apply(
        &self,
        modules: &[ModuleId],
        rules: &RuleSet,
        proof: VerifyPolicy,
        see: Option<&dyn Fn(Rewritten<'_>)>,
        is_over: &dyn Fn() -> bool,
        still: &dyn Fn(&mut dyn FnMut()),
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for &module in modules {
            if is_over() {
                break;
            }
            // A module that is gone, or has only resources, has no methods.
            let Ok(mut found) = find(&self.names, module, rules) else { continue };
            {
                let known = self.known();
                found.retain(|found| !known.expired.contains(&found.rule));
            }
            if found.is_empty() {
                continue;
            }
            let scope = match self.refusal_of(module) {
                Some(refusal) => Err(refusal),
                None if proof == VerifyPolicy::Dry => Scope::look(&self.info, module),
                None => self.opened(module, still).and_then(|_| Scope::look(&self.info, module)),
            };
            // What runs for an asynchronous method is not a method of its own.
            let is_timed = |found: &&Found| {
                template(rules, found.rule) == Template::Time && found.refusal.is_none()
            };
            let machines: HashSet<MethodDef> =
                found.iter().filter(is_timed).filter_map(|found| found.machine).collect();
            let (mut asked, mut keys) = (Vec::new(), Vec::new());
            for found in found.into_iter().filter(|found| !machines.contains(&found.method)) {
                if is_over() {
                    let mut known = self.known();
                    keys.iter().for_each(|key| drop(known.installed.remove(key)));
                    return changes;
                }
                let change =
                    self.prepare(module, found, rules, scope.as_ref(), proof, see, &mut keys);
                self.progress.fetch_add(1, Relaxed);
                match change.state {
                    State::Requested => asked.push(change),
                    _ => changes.push(change),
                }
            }
            if let Err(refusal) = self.request(&keys) {
                let mut known = self.known();
                for change in &mut asked {
                    change.state = State::Refused(refusal.clone());
                    known.installed.retain(|_, installed| installed.method != change.method);
                }
            }
            changes.append(&mut asked);
        }
        changes
    }

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

    /// Rules of the set end: their methods get their original bodies back, and they take no more.
    pub fn expire(&self, rules: &[usize]) -> Vec<Change> {
        {
            // Nobody is amid a first call then.
            let _first_calls = lock(&self.first_calls);
            self.known().expired.extend(rules);
        }
        self.revert(|method| rules.contains(&method.rule))
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

    fn look(&self, module: ModuleId, rules: &RuleSet) -> Option<Inspected> {
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

    /// A module that is open for additions. `still` opens it if it is not.
    fn opened(
        &self,
        module: ModuleId,
        still: &dyn Fn(&mut dyn FnMut()),
    ) -> Result<Arc<Mutex<Scope>>, Refusal> {
        // Locked before the program is stopped: who waits for it then does not hold it.
        Ok(Arc::clone(match lock(&self.scopes).entry(module) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(free) => {
                let mut opened = None;
                still(&mut || opened = Some(Scope::open(&self.info, module)));
                let scope = opened.ok_or(Refusal::NeverStill)??;
                free.insert(Arc::new(Mutex::new(scope)))
            }
        }))
    }

    /// Why no method of a module can be instrumented.
    fn refusal_of(&self, module: ModuleId) -> Option<Refusal> {
        let flags = self.info.module_info(module).map(|info| info.flags.0).unwrap_or_default();
        let is = |flag: COR_PRF_MODULE_FLAGS| flags & flag.0 != 0;
        match () {
            () if is(COR_PRF_MODULE_FLAGS::DYNAMIC) => Some(Refusal::DynamicModule),
            () if is(COR_PRF_MODULE_FLAGS::COLLECTIBLE) => Some(Refusal::CollectibleModule),
            () => None,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call, of what `apply` has at hand")]
    fn prepare(
        &self,
        module: ModuleId,
        found: Found,
        rules: &RuleSet,
        scope: Result<&Scope, &Refusal>,
        proof: VerifyPolicy,
        see: Option<&dyn Fn(Rewritten<'_>)>,
        asked: &mut Vec<Key>,
    ) -> Change {
        let (mut method, machine) = taken(module, &found, rules);
        let admitted = self.admit(&mut method, &found, machine, rules, scope);
        let proved = admitted.and_then(|(scope, slot)| match proof {
            VerifyPolicy::Later => Ok(slot),
            _ => self.bodies(scope, &method, machine, ExceptionExit::Own, slot).map(|_| slot),
        });
        match proved {
            Ok(slot) => method.slot = Some(slot),
            Err(refusal) => return Change { method, state: State::Refused(refusal) },
        }
        let see = match proof {
            VerifyPolicy::Dry => return Change { method, state: State::Possible },
            VerifyPolicy::First => see,
            VerifyPolicy::Later => None,
        };
        let [own, of_machine] =
            see.and_then(|see| self.show(&method, machine, see)).unwrap_or_default();
        let mut known = self.known();
        if proof == VerifyPolicy::Later {
            known.unproved.push_back((module, found.method));
        }
        for (of, prepared) in [(Some(found.method), own), (machine, of_machine)] {
            let Some(of) = of else { continue };
            known
                .installed
                .insert((module, of), Installed { method: method.clone(), machine, prepared });
            asked.push((module, of));
        }
        Change { method, state: State::Requested }
    }

    /// Makes the bodies that the runtime will get, and shows them.
    fn show(
        &self,
        method: &Method,
        machine: Option<MethodDef>,
        see: &dyn Fn(Rewritten<'_>),
    ) -> Option<[Option<Arc<Prepared>>; 2]> {
        let scope = lock(&self.scopes).get(&method.module).map(Arc::clone)?;
        let scope = lock(&scope);
        let (own, of_machine) =
            self.bodies(&scope, method, machine, ExceptionExit::Own, method.slot?).ok()?;
        let shown = |body_of: MethodDef, after: &Edited| {
            let after = prepared(after).ok()?;
            let before = self.info.il_function_body(method.module, body_of).ok()?;
            let body = |bytes| Body { bytes, scope: &scope, probes: &self.probes };
            see(Rewritten { method, body_of, before: body(before), after: body(&after.0) });
            Some(Arc::new(after))
        };
        let of_machine =
            machine.zip(of_machine.as_ref()).and_then(|(machine, after)| shown(machine, after));
        Some([shown(method.method, &own), of_machine])
    }

    /// The slot of a method, if it can be instrumented as far as is known without its body.
    fn admit<'a>(
        &self,
        method: &mut Method,
        found: &Found,
        machine: Option<MethodDef>,
        rules: &RuleSet,
        scope: Result<&'a Scope, &Refusal>,
    ) -> Result<(&'a Scope, u32), Refusal> {
        // The refusal of a whole module comes first: methods made at run time may seem to have no
        // IL.
        let scope = scope.map_err(Refusal::clone)?;
        if let Some(refusal) = &found.refusal {
            return Err(refusal.clone());
        }
        if found.is_async_iterator && method.template == Template::Time {
            return Err(Refusal::AsyncIterator);
        }
        let module = method.module;
        let slot = {
            let mut known = self.known();
            let mut keys =
                [Some(found.method), machine].into_iter().flatten().map(|of| (module, of));
            if keys.any(|key| known.installed.contains_key(&key)) {
                return Err(Refusal::Taken);
            }
            known.slot((module, found.method)).ok_or(Refusal::TooMany(Self::MOST))?
        };
        method.arguments = self.arguments(scope, method, machine, rules)?;
        Ok((scope, slot))
    }

    /// Proves some of the bodies that are to be proved [later](VerifyPolicy::Later), all of one module.
    /// `hold` does something while a module is there, and answers whether it was. Whether there
    /// were any.
    ///
    /// To be called on the thread of [`Self::apply`].
    pub fn verify_pending(&self, hold: impl FnOnce(ModuleId, &dyn Fn()) -> bool) -> bool {
        let some: Vec<Key> = {
            let mut known = self.known();
            let Some(&(module, _)) = known.unproved.front() else { return false };
            let count = known
                .unproved
                .iter()
                .take(Self::PROVED_AT_A_TIME)
                .take_while(|(of, _)| *of == module)
                .count();
            known.unproved.drain(..count).collect()
        };
        let Some(&(module, _)) = some.first() else { return false };
        hold(module, &|| {
            // Nothing is added for what may never be called.
            let Ok(scope) = Scope::look(&self.info, module) else { return };
            for &key in &some {
                let (method, machine) = match self.known().installed.get(&key) {
                    Some(Installed { method, machine, prepared: None }) => {
                        (method.clone(), *machine)
                    }
                    // Proved when it was compiled, or reverted.
                    _ => continue,
                };
                let proved = method
                    .slot
                    .map(|slot| self.bodies(&scope, &method, machine, ExceptionExit::Own, slot));
                if let Some(Err(refusal)) = proved {
                    self.cannot_prove(key, refusal);
                }
            }
        })
    }

    /// A method that was asked for cannot have a new body. The runtime compiles the one that it
    /// had, and is not asked to put anything back.
    fn cannot_prove(&self, key: Key, refusal: Refusal) {
        let mut known = self.known();
        let Some(Installed { method, machine, .. }) = known.installed.get(&key) else { return };
        let (method, machine) = (method.clone(), *machine);
        let keys = [Some(method.method), machine].map(|of| of.map(|of| (method.module, of)));
        let is_used = |key: &Key| {
            known.installed.get(key).is_some_and(|installed| installed.prepared.is_some())
        };
        // Half of an asynchronous one must not stay.
        if keys.iter().flatten().any(is_used) {
            drop(known);
            return self.fails(key, refusal);
        }
        keys.iter().flatten().for_each(|key| drop(known.installed.remove(key)));
        known.unprovable.push(Change { method, state: State::Refused(refusal) });
    }

    /// What is reported about the arguments of a method.
    fn arguments(
        &self,
        scope: &Scope,
        method: &Method,
        machine: Option<MethodDef>,
        rules: &RuleSet,
    ) -> Result<Arguments, Refusal> {
        let Some(Action::Trace { arguments: true, .. }) =
            rules.rules().get(method.rule).map(|rule| rule.action)
        else {
            return Ok(Arguments::Off);
        };
        let (metadata, of) = (scope.metadata(), method.method);
        let names = parameters(&self.names, metadata, method.module, of)
            .map(|(_, names)| names)
            .unwrap_or_default();
        let told = self.types.parameters(&self.info, metadata, of, &names, rules)?;
        let Some(machine) = machine else { return Ok(Arguments::Told(told)) };
        let source = |of| self.source(scope, method.module, of);
        let kept = asynchronous::kept(metadata, source(of)?, source(machine)?)?;
        Ok(Arguments::only_kept(told, |index| kept.get(index).is_some_and(Option::is_some)))
    }

    fn source<'a>(
        &'a self,
        scope: &'a Scope,
        module: ModuleId,
        of: MethodDef,
    ) -> Result<Source<'a>, Refusal> {
        let signature = scope.metadata().method_unnamed(of)?.signature;
        Ok(Source { body: self.info.il_function_body(module, of)?, signature })
    }

    /// The new body of a method, and that of its state machine if it is asynchronous.
    fn bodies(
        &self,
        scope: &Scope,
        method: &Method,
        machine: Option<MethodDef>,
        guard: ExceptionExit,
        slot: u32,
    ) -> Result<(Edited, Option<Edited>), Refusal> {
        let source = |of| self.source(scope, method.module, of);
        let (own, parameters) = (source(method.method)?, method.arguments.parameters());
        match machine {
            Some(machine) => {
                let machine = source(machine)?;
                let tasks = self.tasks();
                let both = asynchronous::rewrite(
                    scope,
                    own,
                    machine,
                    (parameters, guard),
                    tasks,
                    slot,
                    &self.probes,
                )?;
                Ok((both.method, Some(both.machine)))
            }
            None => {
                let what = (method.template, guard);
                let own =
                    rewrite(scope, own.body, own.signature, what, parameters, slot, &self.probes)?;
                Ok((own, None))
            }
        }
    }

    /// What the runtime is to use; `None` for a method that is not instrumented.
    fn prepared(&self, key: Key) -> Result<Option<Arc<Prepared>>, Refusal> {
        let (method, machine) = match self.known().installed.get(&key) {
            Some(Installed { prepared: Some(prepared), .. }) => {
                return Ok(Some(Arc::clone(prepared)));
            }
            Some(installed) => (installed.method.clone(), installed.machine),
            // Reverted in the meantime, or one that had another one inlined.
            None => return Ok(None),
        };
        let scope = lock(&self.scopes).get(&key.0).map(Arc::clone);
        let (Some(scope), Some(slot)) = (scope, method.slot) else { return Ok(None) };
        let (own, of_machine) =
            self.bodies(&lock(&scope), &method, machine, ExceptionExit::Own, slot)?;
        let body = if key.1 == method.method { Some(own) } else { of_machine };
        let Some(body) = body else { return Ok(None) };
        let prepared = Arc::new(prepared(&body)?);
        if let Some(installed) = self.known().installed.get_mut(&key) {
            installed.prepared = Some(Arc::clone(&prepared));
        }
        Ok(Some(prepared))
    }

    /// What the core library provides to identify tasks.
    fn tasks(&self) -> Tasks {
        *self.tasks.get_or_init(|| {
            let modules = self.info.modules().into_iter().flatten();
            let mut known = modules
                .filter_map(|module| self.info.module_metadata(module.ok()?.non_null()?).ok());
            // It is loaded before everything else.
            known.next().map(|core| Tasks::of(&core)).unwrap_or_default()
        })
    }

    /// Asks for the new bodies.
    fn request(&self, keys: &[Key]) -> Result<(), Refusal> {
        for part in keys.chunks(Self::AT_A_TIME) {
            self.progress.fetch_add(1, Relaxed);
            let methods = part.iter().map(module_method);
            let (whole, alone): (Vec<_>, Vec<_>) =
                methods.partition(|method| self.may_have_inliners(*method));
            let mut asked = Ok(());
            if !whole.is_empty() {
                // With callbacks for inliners: one that is itself instrumented would get its
                // original body else, on 3.1.
                let flags = COR_PRF_REJIT_FLAGS::BLOCK_INLINING.0
                    | COR_PRF_REJIT_FLAGS::INLINING_CALLBACKS.0;
                asked = self.info.request_rejit_with_inliners(COR_PRF_REJIT_FLAGS(flags), &whole);
            }
            if !alone.is_empty() {
                asked = asked.and_then(|()| self.info.request_rejit(&alone));
            }
            asked.map_err(not_asked)?;
        }
        Ok(())
    }

    /// Whether the runtime may be asked for those that have a method inlined.
    ///
    /// .NET Core 3.1 reads through a null pointer where the method itself has never been loaded
    /// (`ReJitManager::UpdateJitInlinerActiveILVersions`, src/coreclr/vm/rejit.cpp; seen to be so
    /// in 3.1 and not in 8 and 9). One that was never loaded has no code that was compiled in the
    /// process, alone or inlined.
    fn may_have_inliners(&self, of: ModuleMethod) -> bool {
        self.asks_for_unloaded || self.info.function_from_token(of.module, of.method).is_ok()
    }

    /// Puts original bodies back: of the methods for which `of` holds. Calls that are under way end
    /// as they began.
    pub fn revert(&self, of: impl Fn(&Method) -> bool) -> Vec<Change> {
        let gone: Vec<(Key, Installed)> = {
            let mut known = self.known();
            let known = &mut *known;
            let gone = known.installed.extract_if(|_, installed| of(&installed.method)).collect();
            known.unproved.retain(|key| known.installed.contains_key(key));
            gone
        };
        let (first, gone): (Vec<_>, Vec<_>) =
            gone.into_iter().partition(|(key, _)| self.known().first_bodies.contains_key(key));
        let mut changes = Vec::with_capacity(first.len() + gone.len());
        let parts = first.chunks(Self::AT_A_TIME).map(|part| (part, true));
        for (part, at_first_call) in
            parts.chain(gone.chunks(Self::AT_A_TIME).map(|part| (part, false)))
        {
            let methods: Vec<ModuleMethod> =
                part.iter().map(|(key, _)| module_method(key)).collect();
            let answers = match at_first_call {
                true => self.put_back(&methods).map(|()| Vec::new()),
                false => self.info.request_revert(&methods),
            };
            for (index, (key, installed)) in part.iter().enumerate() {
                // A method is reported once, also if it has a state machine.
                if key.1 != installed.method.method {
                    continue;
                }
                let failed = match &answers {
                    Ok(answers) => answers.get(index).and_then(|answer| answer.ok().err()),
                    Err(corprof::Error::Hr { hresult, .. }) => Some(*hresult),
                    Err(_) => None,
                };
                let state = failed
                    .map_or(State::Original, |hresult| State::Refused(Refusal::Runtime(hresult)));
                changes.push(Change { method: installed.method.clone(), state });
            }
        }
        changes
    }

    /// Restores the bodies of methods that were [instrumented at their first
    /// call](Self::first_call). The first code that the runtime has of such a method is that of the
    /// new body, and the runtime would use this code if it were asked to revert the method. So
    /// these methods are requested again, and [`Self::rejit_parameters`] has no other body for them
    /// than they have.
    fn put_back(&self, methods: &[ModuleMethod]) -> corprof::info::Result<()> {
        for method in methods {
            let key = (method.module, method.method);
            let before = self.known().first_bodies.get(&key).cloned().flatten();
            if let Some(before) = before {
                self.info.set_il_function_body(key.0, key.1, &before)?;
                // Once is enough, and each time takes memory of the runtime.
                self.known().first_bodies.insert(key, None);
            }
        }
        self.info.request_rejit(methods)
    }

    /// How many methods have got slots so far: all slots are less.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.known().next_slot
    }

    /// How many methods are instrumented.
    #[must_use]
    pub fn installed(&self) -> usize {
        self.known().installed.len()
    }

    /// What was found out since the last time: methods that could not be proved, and those that the
    /// runtime refuses after all, which are reverted.
    pub fn take_failures(&self) -> Vec<Change> {
        let (failures, mut unprovable) = {
            let mut known = self.known();
            (std::mem::take(&mut known.failures), std::mem::take(&mut known.unprovable))
        };
        if failures.is_empty() {
            return unprovable;
        }
        let why: HashMap<Method, Refusal> = {
            let known = self.known();
            let failures = failures.into_iter();
            failures
                .filter_map(|(key, refusal)| {
                    Some((known.installed.get(&key)?.method.clone(), refusal))
                })
                .collect()
        };
        let mut changes = self.revert(|method| why.contains_key(method));
        for change in &mut changes {
            if let Some(refusal) = why.get(&change.method) {
                change.state = State::Refused(refusal.clone());
            }
        }
        unprovable.append(&mut changes);
        unprovable
    }

    /// The callback `GetReJITParameters`: hands the new body over. Where there is none, or it is
    /// not taken, the runtime compiles the body that it had.
    pub fn rejit_parameters(
        &self,
        module: ModuleId,
        method: MethodDef,
        control: &FunctionControl<'_>,
    ) {
        let prepared = match self.prepared((module, method)) {
            Ok(Some(prepared)) => prepared,
            Ok(None) => return,
            Err(refusal) => return self.cannot_prove((module, method), refusal),
        };
        let (body, map) = &*prepared;
        match control.set_il_function_body(body) {
            // Only debuggers and stack traces use the map.
            Ok(()) => drop(control.set_il_instrumented_code_map(map)),
            Err(hresult) => self.fails((module, method), Refusal::Runtime(hresult)),
        }
    }

    /// Handles the callbacks `ReJITCompilationFinished` and, with the number 0,
    /// `JITCompilationFinished`. A body that cannot be compiled is reverted at the next
    /// [`Self::take_failures`].
    pub fn compiled(&self, function: FunctionId, rejit: ReJitId, status: Result<(), HResult>) {
        let Err(hresult) = status else { return };
        if let Some(of) = self.method_of(function)
            && (rejit.0 != 0 || self.known().first_bodies.contains_key(&of))
        {
            self.fails(of, Refusal::Compile(hresult));
        }
    }

    /// Module and token of a function; `None` if it is gone, or has none.
    #[must_use]
    pub fn method_of(&self, function: FunctionId) -> Option<(ModuleId, MethodDef)> {
        self.info.function_info(function).ok().map(|of| (of.module, of.token))
    }

    /// The callback `ReJITError`.
    pub fn refused(&self, module: ModuleId, method: MethodDef, status: HResult) {
        self.fails((module, method), Refusal::Runtime(status));
    }

    fn fails(&self, key: Key, refusal: Refusal) {
        let mut known = self.known();
        if known.installed.contains_key(&key) && known.failures.len() < Self::MOST as usize {
            known.failures.push((key, refusal));
        }
    }

    /// A module was unloaded. Its id may come again; the slots of its methods do not.
    pub fn unloaded(&self, module: ModuleId) {
        self.names.forget_module(module);
        lock(&self.scopes).remove(&module);
        {
            let mut first_calls = lock(&self.first_calls);
            first_calls.modules.remove(&module);
            first_calls.seen.retain(|(of, _)| *of != module);
        }
        let mut known = self.known();
        known.installed.retain(|(of, _), _| *of != module);
        known.slots.retain(|(of, _), _| *of != module);
        known.first_bodies.retain(|(of, _), _| *of != module);
        known.unproved.retain(|(of, _)| *of != module);
        known.unprovable.retain(|change| change.method.module != module);
        known.failures.retain(|((of, _), _)| *of != module);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    fn slot(&mut self, key: Key) -> Option<u32> {
        match self.slots.entry(key) {
            Entry::Occupied(slot) => Some(*slot.get()),
            Entry::Vacant(_) if self.next_slot >= Manager::MOST => None,
            Entry::Vacant(free) => {
                let slot = *free.insert(self.next_slot);
                self.next_slot += 1;
                Some(slot)
            }
        }
    }
}

fn module_method(&(module, method): &Key) -> ModuleMethod {
    ModuleMethod { module, method }
}

/// What a rule wants of a method, and the state machine that has to do with it.
fn taken(module: ModuleId, found: &Found, rules: &RuleSet) -> (Method, Option<MethodDef>) {
    let template = template(rules, found.rule);
    let rule_name = rules.rules().get(found.rule).map_or("", |rule| &rule.name).into();
    let (rule, arguments) = (found.rule, Arguments::Off);
    let method =
        Method { module, method: found.method, rule, rule_name, slot: None, template, arguments };
    (method, found.machine.filter(|_| template == Template::Time))
}

fn not_asked(error: corprof::Error) -> Refusal {
    match error {
        corprof::Error::Hr { hresult, .. } => Refusal::Runtime(hresult),
        error => Refusal::Unreadable(error.to_string()),
    }
}

fn template(rules: &RuleSet, rule: usize) -> Template {
    match rules.rules().get(rule).map(|rule| rule.action) {
        Some(Action::Count) => Template::Count,
        _ => Template::Time,
    }
}

fn prepared(edited: &Edited) -> Result<Prepared, Refusal> {
    let map = edited.offsets.iter();
    let map =
        map.map(|pair| COR_IL_MAP { old_offset: pair.old, new_offset: pair.new, accurate: 1 });
    Ok((edited.body.encode()?, map.collect()))
}
