//! Methods that are instrumented, and their calls.

use super::stage::Stage;
use crate::{
    RecordError, RuleHandle,
    linux::{clock::now, context::Context},
};
use session::{
    CallArguments, FunctionId, InstrumentState, InstrumentedMethod, SessionRecord, SingleCall,
};
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};
use wire::{Control, frame::FrameError};

/// How long the agent may say nothing of rules that it applies. It says each method, one that is
/// overloaded too, and looks at a module of some thousand methods in less than a second. With a
/// twentieth of a processor it takes longer.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// The profiler `trace`.
pub(in crate::linux) struct Trace {
    /// The rules by which methods are instrumented, if any are.
    rules: RuleHandle,
    /// Whether that is only told, and ends the recording.
    dry: bool,
    /// Which of the rules were sent.
    sent: u64,
    /// When the rules had been applied.
    applied: Option<Instant>,
    /// When the agent last said something of rules that it has not applied.
    heard: Option<Instant>,
    /// Methods that were instrumented since rules were sent.
    instrumented: HashSet<FunctionId>,
    /// Whether nothing is instrumented any more, as the rules wanted it.
    ended: bool,
}

impl Trace {
    pub fn new(rules: RuleHandle, dry: bool) -> Self {
        Self {
            rules,
            dry,
            sent: 0,
            applied: None,
            heard: None,
            instrumented: HashSet::new(),
            ended: false,
        }
    }

    /// Whether methods are instrumented.
    pub fn runs(cx: &Context) -> bool {
        cx.runs("trace")
    }

    /// From when on the time of the recording counts. Where methods are instrumented, that is when
    /// they are.
    pub fn begun(&self, cx: &Context, started: Instant) -> Option<Instant> {
        if Self::runs(cx) { self.applied } else { Some(started) }
    }

    /// Sends the rules, if there are some that were not sent.
    ///
    /// # Errors
    /// [`RecordError::RulesTooLarge`].
    pub fn send_rules(&mut self, cx: &mut Context) -> Result<(), RecordError> {
        let Some((number, rules)) = self.rules.newer_than(self.sent) else { return Ok(()) };
        self.sent = number;
        self.heard = Some(Instant::now());
        match cx.agent.link.send(&Control::Instrument(rules)) {
            Err(FrameError::TooLarge(_)) => Err(RecordError::RulesTooLarge),
            // An agent that is gone shows up as such in the first round.
            _ => Ok(()),
        }
    }

    /// What became of a method that matches the rules.
    pub fn instrumented(&mut self, cx: &mut Context, method: wire::Instrumented) {
        self.heard = self.heard.map(|_| Instant::now());
        let Some(function) = cx.frames.function_of(method.method) else { return };
        // Counted as the report counts: methods that cannot be told apart by name are one.
        if method.state == InstrumentState::Requested {
            self.instrumented.insert(function);
        }
        let method = InstrumentedMethod { time: now(), of: method.of(function) };
        cx.write(&SessionRecord::Instrumented(method));
    }

    /// A method has got a new body.
    pub fn rewritten(&mut self, cx: &mut Context, method: wire::Rewritten) {
        let Some(function) = cx.frames.function_of(method.method) else { return };
        cx.write(&SessionRecord::Rewritten(method.of(function)));
    }

    /// A method was compiled anew.
    pub fn recompiled(&mut self, cx: &mut Context, method: wire::Recompiled) {
        let Some(function) = cx.frames.function_of(method.method) else { return };
        cx.write(&SessionRecord::Recompiled(method.of(function)));
    }

    /// The rules were applied to all that is loaded.
    pub fn rules_applied(&mut self, cx: &mut Context) {
        self.applied.get_or_insert_with(Instant::now);
        self.heard = None;
        cx.progress().rules_applied += 1;
        let methods = std::mem::take(&mut self.instrumented).len();
        cx.announce(&format!("tracing {methods} method{}", if methods == 1 { "" } else { "s" }));
    }

    /// Whether nothing was heard for [`SILENCE_LIMIT`] of rules that are not applied. What is said
    /// of it is a note then.
    pub fn waits_in_vain(&mut self, cx: &mut Context) -> bool {
        let in_vain = self.heard.is_some_and(|heard| heard.elapsed() >= SILENCE_LIMIT);
        if in_vain {
            cx.note(format!(
                "the methods were not instrumented within {} s, so the recording ended: {}",
                SILENCE_LIMIT.as_secs(),
                match cx.target.is_stopped() {
                    true => "the process is stopped. Resume it first (kill -CONT)",
                    false =>
                        "the agent did not answer. The process may have no memory left, or \
                        get no processor",
                }
            ));
        }
        in_vain
    }

    /// Nothing is instrumented any more, as the rules wanted it.
    pub fn rules_ended(&mut self) {
        self.ended = true;
    }

    /// Sums of calls since the last time.
    pub fn traced(&mut self, cx: &mut Context, calls: wire::Traced) {
        cx.count("trace", calls.methods.iter().map(|method| method.calls).sum());
        cx.write(&SessionRecord::Traced(calls));
    }

    /// Calls that are recorded individually.
    pub fn single_calls(&mut self, cx: &mut Context, calls: Vec<wire::SingleCall>) {
        let calls = calls.into_iter().map(|call| single_call(cx, call)).collect();
        cx.write(&SessionRecord::SingleCalls(calls));
    }

    /// Parameters of a method whose arguments are recorded.
    pub fn parameters(&mut self, cx: &mut Context, method: wire::Parameters) {
        let Some(function) = cx.frames.function_of(method.method) else { return };
        cx.write(&SessionRecord::Parameters(method.of(function)));
    }

    /// Calls with their arguments.
    pub fn calls_with_arguments(&mut self, cx: &mut Context, calls: Vec<wire::CallArguments>) {
        let mut told = Vec::with_capacity(calls.len());
        for wire::CallArguments { call, arguments } in calls {
            let call = single_call(cx, call);
            let (frames, definitions) = (&cx.frames, &mut cx.definitions);
            let mut ty = |class| definitions.ty(&frames.class_name(class));
            let arguments = arguments.into_iter();
            let arguments = arguments.map(|(index, argument)| (index, argument.of(&mut ty)));
            told.push(CallArguments { call, arguments: arguments.collect() });
        }
        cx.write(&SessionRecord::CallsWithArguments(told));
    }
}

fn single_call(cx: &mut Context, call: wire::SingleCall) -> SingleCall {
    let os_tid = cx.target.host_tid(call.thread);
    call.on(cx.thread_or_ended(os_tid))
}

impl Stage for Trace {
    fn is_over(&self) -> bool {
        self.ended || self.dry && self.applied.is_some()
    }
}
