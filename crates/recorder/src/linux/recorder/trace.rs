//! Methods that are instrumented, and their calls.

use super::*;

impl Recorder {
    pub(super) fn instrumented(&mut self, method: wire::Instrumented) {
        let Some(function) = self.frames.function_of(method.method) else { return };
        let state = match method.state {
            wire::InstrumentState::Possible => InstrumentState::Possible,
            wire::InstrumentState::Requested => InstrumentState::Requested,
            wire::InstrumentState::Original => InstrumentState::Original,
            wire::InstrumentState::Refused(reason) => InstrumentState::Refused(reason),
        };
        // Counted as the report counts: methods that cannot be told apart by name are one.
        if state == InstrumentState::Requested {
            self.instrumented.insert(function);
        }
        self.write_definitions();
        let (slot, rule) = (method.slot, method.rule);
        self.write(&SessionRecord::Instrumented(InstrumentedMethod {
            time: now(),
            function,
            rule,
            slot,
            state,
        }));
    }

    pub(super) fn rewritten(&mut self, method: wire::Rewritten) {
        let Some(function) = self.frames.function_of(method.method) else { return };
        self.write_definitions();
        let il = |il: wire::Il| IlBody { bytes: il.bytes, text: il.text };
        let bodies = method.bodies.map(|(before, after)| (il(before), il(after)));
        let (time, rule, slot) = (method.time, method.rule, method.slot);
        self.write(&SessionRecord::Rewritten(RewrittenMethod {
            time,
            function,
            rule,
            slot,
            bodies,
        }));
    }

    pub(super) fn recompiled(&mut self, time: u64, method: u32, failed: Option<String>) {
        if let Some(function) = self.frames.function_of(method) {
            self.write_definitions();
            self.write(&SessionRecord::Recompiled(RecompiledMethod { time, function, failed }));
        }
    }

    pub(super) fn rules_applied(&mut self) {
        self.applied.get_or_insert_with(Instant::now);
        self.progress().rules_applied += 1;
        let methods = std::mem::take(&mut self.instrumented).len();
        self.stage(&format!("tracing {methods} method{}", if methods == 1 { "" } else { "s" }));
    }

    pub(super) fn traced(&mut self, calls: wire::Traced) {
        self.count("trace", calls.methods.iter().map(|method| method.calls).sum());
        let methods = calls.methods.into_iter();
        let methods = methods.map(|method| TracedMethod {
            slot: method.slot,
            calls: method.calls,
            timed: method.timed,
            failed: method.failed,
            ticks: method.ticks,
            longest: method.longest,
            buckets: method.buckets,
        });
        let (time, ticks_per_second) = (calls.time, calls.ticks_per_second);
        self.write(&SessionRecord::Traced(TracedCalls {
            time,
            ticks_per_second,
            methods: methods.collect(),
        }));
    }

    pub(super) fn single_calls(&mut self, calls: &[wire::SingleCall]) {
        let calls = calls.iter().map(|call| self.single_call(call)).collect();
        self.write_definitions();
        self.write(&SessionRecord::SingleCalls(calls));
    }

    pub(super) fn single_call(&mut self, call: &wire::SingleCall) -> SingleCall {
        let target = &self.sources.target;
        let os_tid = target.host_tid(call.os_tid);
        SingleCall {
            slot: call.slot,
            thread: self.definitions.thread_or_ended(os_tid, || target.thread_name(os_tid)),
            begun: call.begun,
            taken: call.taken,
            failed: call.failed,
            asynchronous: call.asynchronous,
        }
    }

    pub(super) fn parameters(&mut self, method: wire::Parameters) {
        let Some(function) = self.frames.function_of(method.method) else { return };
        let parameters = method.parameters.into_iter().map(|parameter| Parameter {
            name: parameter.name,
            type_name: parameter.type_name,
            shown: match parameter.shown {
                wire::ParameterShown::ByValue => ParameterShown::ByValue,
                wire::ParameterShown::Redacted => ParameterShown::Redacted,
                wire::ParameterShown::ByType => ParameterShown::ByType,
            },
        });
        let (parameters, refused) = (parameters.collect(), method.refused);
        self.write_definitions();
        self.write(&SessionRecord::Parameters(MethodParameters { function, parameters, refused }));
    }

    pub(super) fn calls_with_arguments(&mut self, calls: Vec<wire::CallArguments>) {
        let mut told = Vec::with_capacity(calls.len());
        for wire::CallArguments { call, arguments } in calls {
            let call = self.single_call(&call);
            let (frames, definitions) = (&self.frames, &mut self.definitions);
            let arguments = arguments.into_iter().map(|(index, argument)| {
                let argument = match argument {
                    wire::Argument::Number(number) => Argument::Number(number),
                    wire::Argument::Float(number) => Argument::Float(number),
                    wire::Argument::Text { text, length } => Argument::Text { text, length },
                    wire::Argument::Null => Argument::Null,
                    wire::Argument::Object { class, elements } => {
                        let ty = class.map(|class| definitions.ty(&frames.class_name(class)));
                        Argument::Object { ty, elements }
                    }
                };
                (index, argument)
            });
            told.push(CallArguments { call, arguments: arguments.collect() });
        }
        self.write_definitions();
        self.write(&SessionRecord::CallsWithArguments(told));
    }
}
