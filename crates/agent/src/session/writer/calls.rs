//! Writes calls: those of hooks and of methods that rules take, and objects that were counted.

use super::{Gone, Writer};
use crate::engines::probes::{self, Told, What};
use corprof::ids::ModuleId;
use corprof::metadata::token::MethodDef;
use instrument::{Arguments, Shown, State};
use std::sync::Arc;
use wire::{
    InstrumentState, Instrumented, Parameter, ParameterShown, Parameters, Recompiled, Record,
    Rewritten,
};

impl Writer<'_> {
    /// Writes what was called since the last time; in the end also what has not returned.
    pub(super) fn flush_calls(&mut self, is_last: bool) -> Result<(), Gone> {
        self.define_instrumented()?;
        let mut records = Vec::new();
        self.calls.begin();
        let mut next = Some(0);
        // One after the other: all together may be large.
        while let Some(place) = next {
            next = self.calls.read(place, self.agent, &mut self.resolver, is_last, &mut records);
            self.put_all(&mut records)?;
        }
        Ok(())
    }

    /// Writes what was allocated since the last time.
    pub(super) fn flush_allocated(&mut self) -> Result<(), Gone> {
        let mut records = Vec::new();
        self.allocated.begin();
        let mut next = Some(0);
        while let Some(place) = next {
            next = self.allocated.read(place, &mut self.resolver, &mut records);
            self.put_all(&mut records)?;
        }
        Ok(())
    }

    /// Writes what became of methods that rules take.
    pub(super) fn define_instrumented(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        // Asked first: what was applied has told its changes before.
        let applied = agent.instrumentation.take_applied();
        let changes = agent.instrumentation.take_changes();
        let mut records = Vec::new();
        // Taken after the changes: the new body of each of them has been reported by then.
        for Told { time, module, method, what } in agent.instrumentation.take_told() {
            let Some(method) = self.instrumented_id(module, method, &mut records) else { continue };
            records.push(match what {
                What::Rewritten(rule, slot, bodies) => Record::Rewritten(Rewritten {
                    time,
                    method,
                    rule: rule.as_ref().to_owned(),
                    slot,
                    bodies,
                }),
                What::Recompiled(failed) => Record::Recompiled(Recompiled { time, method, failed }),
            });
            self.put_all(&mut records)?;
        }
        for change in changes {
            let method = change.method;
            let Some(id) = self.instrumented_id(method.module, method.method, &mut records) else {
                continue;
            };
            if let Some(slot) = method.slot.filter(|_| change.state == State::Requested) {
                self.traced.begin(slot, method.rule);
                self.calls.name_slot(slot, id);
            }
            let is_new = change.state == State::Requested;
            let state = match change.state {
                State::Possible => InstrumentState::Possible,
                State::Requested => InstrumentState::Requested,
                State::Original => InstrumentState::Original,
                State::Refused(refusal) => InstrumentState::Refused(refusal.to_string()),
            };
            records.push(Record::Instrumented(Instrumented {
                method: id,
                rule: method.rule_name.as_ref().to_owned(),
                slot: method.slot,
                state,
            }));
            records.extend(parameters(id, &method.arguments).filter(|_| is_new));
            self.put_all(&mut records)?;
        }
        if applied { self.put(Record::Applied) } else { Ok(()) }
    }

    /// The id of a method that is instrumented; `None` if its module is gone.
    pub(super) fn instrumented_id(
        &mut self,
        module: ModuleId,
        method: MethodDef,
        records: &mut Vec<Record>,
    ) -> Option<u32> {
        if let Some(known) = self.instrumented.get(&(module, method)) {
            return Some(*known);
        }
        let runtime = &self.agent.runtime;
        let there = || self.resolver.method_def(runtime, module, method, records);
        let id = runtime.unloads().hold(module, there)?;
        self.instrumented.insert((module, method), id);
        Some(id)
    }

    /// Writes what was called of instrumented methods since the last time.
    pub(super) fn flush_traced(&mut self) -> Result<(), Gone> {
        self.define_instrumented()?;
        self.flush_single_calls()?;
        let mut records = Vec::new();
        self.traced.read(&mut records);
        if let Some(rules) = self.agent.instrumentation.rules() {
            if !self.rules.as_ref().is_some_and(|known| Arc::ptr_eq(known, &rules)) {
                self.traced.limits_begin();
                self.rules = Some(Arc::clone(&rules));
                self.ended = false;
            }
            let expired = self.traced.expired(&rules);
            if !expired.is_empty() {
                self.agent.instrumentation.expire(expired);
            }
            if !self.ended
                && self.traced.is_over(&rules)
                && probes::manager().is_some_and(|manager| manager.installed() == 0)
            {
                self.ended = true;
                self.define_instrumented()?;
                records.push(Record::RulesEnded);
            }
        }
        self.put_all(&mut records)
    }

    /// Writes the calls that are recorded individually.
    pub(super) fn flush_single_calls(&mut self) -> Result<(), Gone> {
        let mut records = Vec::new();
        self.traced.read_single(&self.agent.runtime, &mut self.resolver, &mut records);
        self.put_all(&mut records)
    }
}

/// What is reported about the arguments of a method, if anything is.
fn parameters(method: u32, arguments: &Arguments) -> Option<Record> {
    let (parameters, refused) = match arguments {
        Arguments::Off => return None,
        Arguments::Told(parameters) => (&**parameters, None),
        Arguments::Refused(why) => (&[][..], Some((*why).to_owned())),
    };
    let parameter = |parameter: &instrument::Parameter| Parameter {
        name: parameter.name.clone(),
        type_name: parameter.type_name.clone(),
        shown: match parameter.shown {
            Shown::Redacted => ParameterShown::Redacted,
            Shown::ByType => ParameterShown::ByType,
            Shown::Signed | Shown::Unsigned | Shown::Float | Shown::Text | Shown::Object => {
                ParameterShown::ByValue
            }
        },
    };
    let parameters = parameters.iter().map(parameter).collect();
    Some(Record::Parameters(Parameters { method, parameters, refused }))
}
