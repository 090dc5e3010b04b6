//! Which methods are instrumented, and what the runtime knows of it.

mod bodies;
mod change;
mod first_calls;
mod rejit;

pub use change::{Change, Method, State};

use crate::arguments::{Arguments, Types};
use crate::asynchronous::Tasks;
use crate::{Found, Probes, Refusal, Rewritten, Scope, Template, find};
use bodies::Prepared;
use corprof::NameResolver;
use corprof::abi::COR_PRF_MODULE_FLAGS;
use corprof::ids::{FunctionId, ModuleId};
use corprof::info::{ModuleMethod, ProfilerInfo};
use corprof::metadata::token::MethodDef;
use first_calls::FirstCalls;
use rules::{Action, RuleSet};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
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

#[derive(Debug)]
struct Installed {
    /// The method that this is done for: itself, or the asynchronous one whose machine it runs.
    method: Method,
    /// `MoveNext` of its state machine, if that is rewritten as well.
    machine: Option<MethodDef>,
    /// The new body and its map, once the runtime has asked for them. It may do so more than once.
    prepared: Option<Arc<Prepared>>,
}

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

    /// Rules of the set end: their methods get their original bodies back, and they take no more.
    pub fn expire(&self, rules: &[usize]) -> Vec<Change> {
        {
            // Nobody is amid a first call then.
            let _first_calls = lock(&self.first_calls);
            self.known().expired.extend(rules);
        }
        self.revert(|method| rules.contains(&method.rule))
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

    /// Module and token of a function; `None` if it is gone, or has none.
    #[must_use]
    pub fn method_of(&self, function: FunctionId) -> Option<(ModuleId, MethodDef)> {
        self.info.function_info(function).ok().map(|of| (of.module, of.token))
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

fn template(rules: &RuleSet, rule: usize) -> Template {
    match rules.rules().get(rule).map(|rule| rule.action) {
        Some(Action::Count) => Template::Count,
        _ => Template::Time,
    }
}
