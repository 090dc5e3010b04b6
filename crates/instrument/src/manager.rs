//! Which methods are instrumented, and what the runtime knows of it.

use crate::{Found, Probes, Refusal, Scope, Template, find, rewrite};
use corprof::abi::{COR_IL_MAP, COR_PRF_MODULE_FLAGS, COR_PRF_REJIT_FLAGS};
use corprof::control::FunctionControl;
use corprof::ids::{FunctionId, ModuleId, ReJitId};
use corprof::info::{ModuleMethod, ProfilerInfo};
use corprof::metadata::token::MethodDef;
use corprof::{HResult, NameResolver};
use rules::{Action, RuleSet};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far a method is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It could be instrumented; only asked for by a [dry run](Manager::apply).
    Possible,
    /// The runtime was asked to use the new body, and does from the next call on.
    Requested,
    /// The original body is back, or was never replaced.
    Original,
    /// It is left alone.
    Refused(Refusal),
}

/// A method that a rule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Method {
    /// Its module.
    pub module: ModuleId,
    /// Its token.
    pub method: MethodDef,
    /// Place of the rule in the set.
    pub rule: usize,
    /// What probes are told: from 0, and the same for a method in all its life; `None` if it has none because it was refused.
    pub slot: Option<u32>,
    /// What the new body does.
    pub template: Template,
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
    method: Method,
    /// The new body and its map, until the runtime has taken them.
    prepared: Option<(Vec<u8>, Vec<COR_IL_MAP>)>,
}

type Key = (ModuleId, MethodDef);

#[derive(Debug, Default)]
struct Known {
    installed: HashMap<Key, Installed>,
    /// Slots stay with methods: their counts go on.
    slots: HashMap<Key, u32>,
    next_slot: u32,
    /// What callbacks have found out, for [`Manager::take_failures`].
    failures: Vec<(Key, Refusal)>,
}

/// Has the runtime use new bodies, and the original ones again.
#[derive(Debug)]
pub struct Manager {
    info: ProfilerInfo,
    names: NameResolver,
    probes: Probes,
    /// Held for a look only: callbacks wait for it.
    known: Mutex<Known>,
}

impl Manager {
    /// Most methods that ever get a slot.
    pub const MOST: u32 = 1 << 16;
    /// Methods that the runtime is asked for at a time: it holds a lock meanwhile.
    const AT_A_TIME: usize = 256;

    /// Nothing is instrumented. The runtime must have accepted `ENABLE_REJIT`.
    #[must_use]
    pub fn new(info: ProfilerInfo, probes: Probes) -> Self {
        Self { names: NameResolver::new(info.clone()), info, probes, known: Mutex::default() }
    }

    /// Names of methods.
    #[must_use]
    pub const fn names(&self) -> &NameResolver {
        &self.names
    }

    /// Instruments what rules take in these modules. What they do not take stays as it is, also where it is instrumented.
    /// With `dry` nothing is changed: new bodies are made and proved, and thrown away.
    ///
    /// To be called on an own thread, never in a callback.
    pub fn apply(&self, modules: &[ModuleId], rules: &RuleSet, dry: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for &module in modules {
            // A module that is gone, or has only resources, has no methods.
            let Ok(found) = find(&self.names, module, rules) else { continue };
            if found.is_empty() {
                continue;
            }
            let scope = match self.refusal_of(module) {
                Some(refusal) => Err(refusal),
                None => Scope::open(&self.info, module),
            };
            let mut asked = Vec::new();
            for found in found {
                let change = self.prepare(module, found, rules, scope.as_ref(), dry);
                match change.state {
                    State::Requested => asked.push(change),
                    _ => changes.push(change),
                }
            }
            for part in asked.chunks_mut(Self::AT_A_TIME) {
                self.request(part);
            }
            changes.append(&mut asked);
        }
        changes
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

    fn prepare(
        &self,
        module: ModuleId,
        found: Found,
        rules: &RuleSet,
        scope: Result<&Scope, &Refusal>,
        dry: bool,
    ) -> Change {
        let template = match rules.rules().get(found.rule).map(|rule| rule.action) {
            Some(Action::Count) => Template::Count,
            _ => Template::Time,
        };
        let mut method = Method { module, method: found.method, rule: found.rule, slot: None, template };
        match self.body(&mut method, found.refusal, scope, dry) {
            Ok(state) => Change { method, state },
            Err(refusal) => Change { method, state: State::Refused(refusal) },
        }
    }

    fn body(
        &self,
        method: &mut Method,
        refusal: Option<Refusal>,
        scope: Result<&Scope, &Refusal>,
        dry: bool,
    ) -> Result<State, Refusal> {
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let scope = scope.map_err(Refusal::clone)?;
        let key = (method.module, method.method);
        let slot = {
            let mut known = self.known();
            if known.installed.contains_key(&key) {
                return Err(Refusal::Taken);
            }
            known.slot(key).ok_or(Refusal::TooMany(Self::MOST))?
        };
        let body = self.info.il_function_body(method.module, method.method)?;
        let mut name = String::new();
        let signature = scope.metadata().method_into(method.method, &mut name)?.signature;
        let edited = rewrite(scope, body, signature, method.template, slot, &self.probes)?;
        let bytes = edited.body.encode()?;
        method.slot = Some(slot);
        if dry {
            return Ok(State::Possible);
        }
        let map = edited.offsets.iter();
        let map = map.map(|pair| COR_IL_MAP { old_offset: pair.old, new_offset: pair.new, accurate: 1 }).collect();
        self.known().installed.insert(key, Installed { method: *method, prepared: Some((bytes, map)) });
        Ok(State::Requested)
    }

    /// Asks for the new bodies.
    fn request(&self, changes: &mut [Change]) {
        let methods: Vec<ModuleMethod> = changes.iter().map(|change| module_method(&change.method)).collect();
        let asked = match self.info.request_rejit_with_inliners(COR_PRF_REJIT_FLAGS::BLOCK_INLINING, &methods) {
            Err(corprof::Error::NeedsRuntime { .. }) => self.info.request_rejit(&methods),
            answer => answer,
        };
        let Err(error) = asked else { return };
        let refusal = match error {
            corprof::Error::Hr { hresult, .. } => Refusal::Runtime(hresult),
            error => Refusal::Unreadable(error.to_string()),
        };
        let mut known = self.known();
        for change in changes {
            known.installed.remove(&(change.method.module, change.method.method));
            change.state = State::Refused(refusal.clone());
        }
    }

    /// Puts original bodies back: of the methods for which `of` holds. Calls that are under way end as they began.
    pub fn revert(&self, of: impl Fn(&Method) -> bool) -> Vec<Change> {
        let gone: Vec<Installed> = {
            let mut known = self.known();
            let keys: Vec<Key> =
                known.installed.iter().filter(|(_, installed)| of(&installed.method)).map(|(key, _)| *key).collect();
            keys.iter().filter_map(|key| known.installed.remove(key)).collect()
        };
        let mut changes = Vec::with_capacity(gone.len());
        for part in gone.chunks(Self::AT_A_TIME) {
            let methods: Vec<ModuleMethod> = part.iter().map(|installed| module_method(&installed.method)).collect();
            let answers = self.info.request_revert(&methods);
            for (index, installed) in part.iter().enumerate() {
                let failed = match &answers {
                    // One whose module was unloaded is as good as reverted.
                    Ok(answers) => answers.get(index).and_then(|answer| answer.ok().err()),
                    Err(corprof::Error::Hr { hresult, .. }) => Some(*hresult),
                    Err(_) => None,
                };
                let state = failed.map_or(State::Original, |hresult| State::Refused(Refusal::Runtime(hresult)));
                changes.push(Change { method: installed.method, state });
            }
        }
        changes
    }

    /// How many methods are instrumented.
    #[must_use]
    pub fn installed(&self) -> usize {
        self.known().installed.len()
    }

    /// What callbacks have found out since the last time: methods that the runtime refuses after all. Those are reverted.
    pub fn take_failures(&self) -> Vec<Change> {
        let failures = std::mem::take(&mut self.known().failures);
        if failures.is_empty() {
            return Vec::new();
        }
        let mut why: HashMap<Key, Refusal> = failures.into_iter().collect();
        let keys: HashSet<Key> = why.keys().copied().collect();
        let mut changes = self.revert(|method| keys.contains(&(method.module, method.method)));
        for change in &mut changes {
            if let Some(refusal) = why.remove(&(change.method.module, change.method.method)) {
                change.state = State::Refused(refusal);
            }
        }
        changes
    }

    /// The callback `GetReJITParameters`: hands the new body over. Where there is none, or it is not taken, the runtime
    /// compiles the body that it had.
    pub fn rejit_parameters(&self, module: ModuleId, method: MethodDef, control: &FunctionControl<'_>) {
        let prepared = match self.known().installed.get_mut(&(module, method)) {
            Some(installed) => installed.prepared.take(),
            // Reverted in the meantime.
            None => return,
        };
        let Some((body, map)) = prepared else { return };
        match control.set_il_function_body(&body) {
            // Only debuggers and stack traces use the map.
            Ok(()) => drop(control.set_il_instrumented_code_map(&map)),
            Err(hresult) => self.fails((module, method), Refusal::Runtime(hresult)),
        }
    }

    /// The callback `ReJITCompilationFinished`. A body that cannot be compiled is taken back at the next [`Self::take_failures`].
    pub fn compiled(&self, function: FunctionId, rejit: ReJitId, status: Result<(), HResult>) {
        let Err(hresult) = status else { return };
        if rejit.0 == 0 {
            return;
        }
        if let Ok(of) = self.info.function_info(function) {
            self.fails((of.module, of.token), Refusal::Compile(hresult));
        }
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
        let mut known = self.known();
        known.installed.retain(|(of, _), _| *of != module);
        known.slots.retain(|(of, _), _| *of != module);
        known.failures.retain(|((of, _), _)| *of != module);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

fn module_method(method: &Method) -> ModuleMethod {
    ModuleMethod { module: method.module, method: method.method }
}
