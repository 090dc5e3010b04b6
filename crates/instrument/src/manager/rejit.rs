//! What the runtime is asked to compile again, with new bodies or with the original ones, and what
//! it answers.

use super::change::{Change, Method, State};
use super::{Installed, Key, Manager, module_method};
use crate::Refusal;
use corprof::HResult;
use corprof::abi::COR_PRF_REJIT_FLAGS;
use corprof::control::FunctionControl;
use corprof::ids::{FunctionId, ModuleId, ReJitId};
use corprof::info::ModuleMethod;
use corprof::metadata::token::MethodDef;
use std::sync::atomic::Ordering::Relaxed;

impl Manager {
    /// Asks for the new bodies.
    pub(super) fn request(&self, keys: &[Key]) -> Result<(), Refusal> {
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

    /// The callback `ReJITError`.
    pub fn refused(&self, module: ModuleId, method: MethodDef, status: HResult) {
        self.fails((module, method), Refusal::Runtime(status));
    }

    pub(super) fn fails(&self, key: Key, refusal: Refusal) {
        let mut known = self.known();
        if known.installed.contains_key(&key) && known.failures.len() < Self::MOST as usize {
            known.failures.push((key, refusal));
        }
    }
}

pub(super) fn not_asked(error: corprof::Error) -> Refusal {
    match error {
        corprof::Error::Hr { hresult, .. } => Refusal::Runtime(hresult),
        error => Refusal::Unreadable(error.to_string()),
    }
}
