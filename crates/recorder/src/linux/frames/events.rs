//! Stacks of events, whose addresses the runtime has walked.

use super::Frames;
use crate::linux::define::Definitions;
use session::{FrameId, FrameTrust, FunctionKind, StackId};
use std::sync::Arc;
use unwind::{Frame, FrameCode};
use wire::{Method, MethodKind};

/// Most frames of an event's stack: the runtime gives no more (`EP_MAX_STACK_DEPTH`).
const MOST_EVENT_FRAMES: usize = 100;

/// Most stacks of events that are remembered: about 50 MB of them.
const MOST_EVENT_STACKS: usize = 1 << 16;

/// The type of the base library that writes events of the runtime for what is managed code since
/// .NET 9.
const EVENT_WRITER: &str = "System.Diagnostics.Tracing.NativeRuntimeEventSource";

/// Types that are the lock which such an event is about, and types nested in them.
const LOCKS: [&str; 3] =
    ["System.Threading.Lock", "System.Threading.Monitor", "System.Threading.ObjectHeader"];

/// What an event says of a method, in the form that clrscope writes names.
pub(in crate::linux) struct EventMethod {
    pub dynamic: bool,
    pub type_name: String,
    pub name: String,
    pub parameters: String,
}

impl Frames {
    /// Those of the addresses of an event's stack of which it is not known what stands there.
    pub fn unknown_of(&self, ips: &[u64]) -> Vec<u64> {
        if self.of_events.contains_key(ips) {
            return Vec::new();
        }
        ips.iter().map(|ip| ip.saturating_sub(1)).filter(|lookup| !self.knows(*lookup)).collect()
    }

    /// The method whose code stands at an address, if its metadata token is this one: code may have
    /// been freed, and other code may stand there now.
    pub fn method_at(&mut self, address: u64, token: u32) -> Option<session::FunctionId> {
        match self.unwinder.classify(address) {
            FrameCode::Managed { method, .. } => self.names.function_with_token(method, token),
            FrameCode::Native | FrameCode::Stub | FrameCode::Unknown => None,
        }
    }

    /// A method by what an event says of it, for where the agent cannot say more.
    pub fn method_of_event(
        &mut self,
        definitions: &mut Definitions,
        of: &EventMethod,
    ) -> session::FunctionId {
        let method = Method {
            id: 0,
            module: None,
            token: 0,
            kind: match of.dynamic {
                true if of.name.starts_with("IL_STUB") => MethodKind::IlStub,
                true => MethodKind::Dynamic,
                false => MethodKind::Normal,
            },
            // The runtime calls the type of all dynamic methods so.
            type_name: if of.dynamic { String::new() } else { of.type_name.clone() },
            name: of.name.clone(),
            parameters: of.parameters.clone(),
        };
        self.names.define(definitions, None, method)
    }

    /// The stack of an event, with what the event is about as its leaf. Without callers `alone` is
    /// what called it.
    pub fn event_stack_of(
        &mut self,
        definitions: &mut Definitions,
        ips: &Arc<[u64]>,
        leaf: session::FunctionId,
        alone: &str,
    ) -> (StackId, bool) {
        let (caller, truncated) = match ips.is_empty() {
            true => {
                let function = definitions.named(FunctionKind::Runtime, alone, None);
                let frame = definitions.frame(function, None, FrameTrust::Runtime);
                (definitions.stack([frame]), false)
            }
            false => self.event_stack(definitions, ips),
        };
        let frame = definitions.frame(leaf, None, FrameTrust::Runtime);
        (definitions.called(caller, frame), truncated)
    }

    /// The stack of an event. All of its addresses are return addresses: the leaf has called the
    /// runtime.
    pub fn event_stack(
        &mut self,
        definitions: &mut Definitions,
        ips: &Arc<[u64]>,
    ) -> (StackId, bool) {
        if let Some(known) = self.of_events.get(ips) {
            return *known;
        }
        let truncated = ips.len() >= MOST_EVENT_FRAMES;
        let mut frames: Vec<FrameId> = Vec::with_capacity(ips.len() + 1);
        if truncated {
            frames.push(self.truncated_mark(definitions));
        }
        let marks = frames.len();
        for ip in ips.iter().rev() {
            let lookup = ip.saturating_sub(1);
            let code = self.unwinder.classify(lookup);
            let frame = Frame { ip: *ip, lookup, trust: FrameTrust::Runtime, code };
            frames.push(self.name(definitions, &frame));
        }
        let facts = frames.iter().skip(marks).rev().map(|frame| {
            let facts = definitions.function_facts(definitions.frame_function(*frame)?)?;
            Some((facts.kind, facts.type_name.as_str(), facts.name.as_str()))
        });
        let writer = frames_of_event_writer(
            &facts
                .map(|facts| facts.unwrap_or((FunctionKind::Unknown, "", "")))
                .collect::<Vec<_>>(),
        );
        frames.truncate(frames.len() - writer);
        let stack = (definitions.stack(frames), truncated);
        if self.of_events.len() >= MOST_EVENT_STACKS {
            self.of_events.clear();
        }
        self.of_events.insert(Arc::clone(ips), stack);
        stack
    }
}

/// How many frames, from the leaf on, only write an event, of kind, type and method of all frames:
/// those of the event writer, and those of the lock that called it. All that is known of the event
/// happened to their caller. An event that native code writes has none.
fn frames_of_event_writer(frames: &[(FunctionKind, &str, &str)]) -> usize {
    // The writer calls the runtime through a stub. What listens to events is a method of the writer
    // too, and not one of these.
    let is_stub = |(kind, ..): &(FunctionKind, &str, &str)| *kind == FunctionKind::Stub;
    let writes =
        |(_, ty, name): &(FunctionKind, &str, &str)| *ty == EVENT_WRITER && *name != "ProcessEvent";
    let is_lock = |(_, ty, _): &(FunctionKind, &str, &str)| {
        LOCKS.iter().any(|lock| {
            ty.strip_prefix(lock).is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
        })
    };
    let stubs = frames.iter().take_while(|frame| is_stub(frame)).count();
    let writers = frames.iter().skip(stubs).take_while(|frame| writes(frame)).count();
    if writers == 0 {
        return 0;
    }
    let locks = frames.iter().skip(stubs + writers).take_while(|frame| is_lock(frame)).count();
    let all = stubs + writers + locks;
    // A stack without any other frame is better than none.
    if all < frames.len() { all } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks as .NET 9.0.5 gave them with its events.
    #[test]
    fn the_event_writer_and_its_lock_are_left_out() {
        use FunctionKind::{Dynamic, Managed, Stub};
        let writer = (Managed, EVENT_WRITER, "ContentionStart");
        let lock = |name| (Managed, "System.Threading.Lock", name);
        let slow =
            [writer, lock("TryEnterSlow"), lock("EnterAndGetCurrentThreadId"), lock("EnterScope")];
        let callers = [(Managed, "Tickets", "Sell"), (Dynamic, "", "lambda_method3")];
        let with_lock = [&slow[..], &callers].concat();
        assert_eq!(frames_of_event_writer(&with_lock), 4);
        // The runtime compiles the stub between the writer and native code for each program.
        let stub = (Stub, "", "IL_STUB_PInvoke");
        assert_eq!(frames_of_event_writer(&[&[stub][..], &with_lock].concat()), 5);
        let nested = (Managed, "System.Threading.Lock+Scope", "Dispose");
        assert_eq!(frames_of_event_writer(&[&[writer, nested][..], &callers].concat()), 2);
        // Events of native code: nothing is left out, also where a lock is the leaf.
        assert_eq!(frames_of_event_writer(&callers), 0);
        assert_eq!(frames_of_event_writer(&with_lock[1..]), 0);
        assert_eq!(frames_of_event_writer(&[(Managed, "System.Threading.Locker", "Enter")]), 0);
        // A listener is called by the same type, and is no event.
        let listens = [(Managed, EVENT_WRITER, "ProcessEvent"), (Managed, "Shop", "Listen")];
        assert_eq!(frames_of_event_writer(&listens), 0);
        // There is nothing else to show.
        assert_eq!(frames_of_event_writer(&slow), 0);
        assert_eq!(frames_of_event_writer(&[]), 0);
    }
}
