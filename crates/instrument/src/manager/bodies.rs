//! New bodies: for which methods there can be one, making, proving and keeping them.

use super::change::{Change, Method, State};
use super::{Installed, Key, Manager, VerifyPolicy, lock, taken};
use crate::arguments::Arguments;
use crate::asynchronous::{Source, Tasks};
use crate::find::parameters;
use crate::{
    Body, ExceptionExit, Found, Refusal, Rewritten, Scope, Template, asynchronous, rewrite,
};
use cil::Edited;
use corprof::abi::COR_IL_MAP;
use corprof::ids::ModuleId;
use corprof::metadata::token::MethodDef;
use rules::{Action, RuleSet};
use std::sync::Arc;

pub(super) type Prepared = (Vec<u8>, Vec<COR_IL_MAP>);

impl Manager {
    #[expect(clippy::too_many_arguments, reason = "one call, of what `apply` has at hand")]
    pub(super) fn prepare(
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
    pub(super) fn admit<'a>(
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

    /// Proves some of the bodies that are to be proved [later](VerifyPolicy::Later), all of one
    /// module. `hold` does something while a module is there, and answers whether it was. Whether
    /// there were any.
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
    pub(super) fn cannot_prove(&self, key: Key, refusal: Refusal) {
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
    pub(super) fn arguments(
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
    pub(super) fn bodies(
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
    pub(super) fn prepared(&self, key: Key) -> Result<Option<Arc<Prepared>>, Refusal> {
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
    pub(super) fn tasks(&self) -> Tasks {
        *self.tasks.get_or_init(|| {
            let modules = self.info.modules().into_iter().flatten();
            let mut known = modules
                .filter_map(|module| self.info.module_metadata(module.ok()?.non_null()?).ok());
            // It is loaded before everything else.
            known.next().map(|core| Tasks::of(&core)).unwrap_or_default()
        })
    }
}

pub(super) fn prepared(edited: &Edited) -> Result<Prepared, Refusal> {
    let map = edited.offsets.iter();
    let map =
        map.map(|pair| COR_IL_MAP { old_offset: pair.old, new_offset: pair.new, accurate: 1 });
    Ok((edited.body.encode()?, map.collect()))
}
