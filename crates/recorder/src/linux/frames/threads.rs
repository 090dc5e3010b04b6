//! Stacks of threads that the agent walked or copied.

use super::{Copied, Frames};
use crate::{StackEnd, linux::define::Definitions};
use session::{FrameId, FrameTrust, FunctionKind, StackId};
use symbols::LeafWaits;
use unwind::{BlockedSample, Frame, FrameCode, Needed, Outcome, Stack, Unknown};

/// The innermost managed frame of a stack that the agent walked.
pub(super) struct Leaf {
    method: u32,
    version: u32,
    /// Where in its code.
    offset: u32,
    /// Whether it is in a call of native code, through a stub.
    in_stub: bool,
}

impl Frames {
    pub fn walked_stack(&mut self, definitions: &mut Definitions, stack: &wire::Stack) {
        let mut frames: Vec<FrameId> = Vec::with_capacity(stack.ips.len() + 1);
        if stack.truncated {
            frames.push(self.truncated_mark(definitions));
        }
        for (index, ip) in stack.ips.iter().enumerate().rev() {
            let lookup = if index == 0 { *ip } else { ip.saturating_sub(1) };
            let mut code = self.unwinder.classify(lookup);
            if !matches!(code, FrameCode::Managed { .. }) {
                // The first instruction of a method is interrupted there, not called from there.
                code = self.unwinder.classify(*ip);
            }
            let frame = Frame { ip: *ip, lookup, trust: FrameTrust::Runtime, code };
            frames.push(self.name(definitions, &frame));
        }
        let id = definitions.stack(frames);
        self.walked.insert(stack.id, (id, stack.truncated));
        if let Some(leaf) = self.leaf(&stack.ips) {
            self.leaves.insert(stack.id, leaf);
        }
    }

    /// The innermost managed frame, through stubs that lead to native code.
    fn leaf(&mut self, ips: &[u64]) -> Option<Leaf> {
        let mut in_stub = false;
        for ip in ips {
            // A thread that waits has called something: the address is the one behind the call.
            let FrameCode::Managed { method, version, offset } =
                self.unwinder.classify(ip.saturating_sub(1))
            else {
                return None;
            };
            if !self.names.is_stub(method) {
                return Some(Leaf { method, version, offset, in_stub });
            }
            in_stub = true;
        }
        None
    }

    /// Unwinds the stack of a blocked thread: its managed frames, as a walk by the runtime gives
    /// them. They stand under its id like a stack that the agent walked. Says whether it was cut,
    /// or what must be known first; `ask` is off when the agent cannot say more.
    pub fn blocked_stack(
        &mut self,
        definitions: &mut Definitions,
        copied: &mut Copied<wire::BlockedStack>,
        ask: bool,
    ) -> Result<bool, Needed> {
        let (found, end) = self.callers_of_blocked(copied, ask)?;
        let truncated = end == StackEnd::Truncated;
        let mark = self.end_mark(definitions, end);
        let stack = &copied.sample;
        let (mut leaf, mut in_stub) = (None, false);
        let mut managed: Vec<FrameId> = Vec::new();
        for frame in &found.frames {
            let FrameCode::Managed { method, version, offset } = frame.code else { continue };
            if self.names.is_stub(method) {
                in_stub |= leaf.is_none();
                continue;
            }
            leaf.get_or_insert(Leaf { method, version, offset, in_stub });
            managed.push(self.frame(definitions, frame));
        }
        if leaf.is_none() && found.frames.iter().any(|frame| self.is_unanswered(frame)) {
            self.unread += 1;
            managed.push(self.unread_mark(definitions));
        }
        // A thread of native code shows nothing: why its walk has ended says nothing either.
        managed.extend(mark.filter(|_| leaf.is_some()));
        managed.reverse();
        self.walked.insert(stack.id, (definitions.stack(managed), truncated));
        if let Some(leaf) = leaf {
            self.leaves.insert(stack.id, leaf);
        }
        Ok(truncated)
    }

    /// Unwinds the stack of a blocked thread: all its frames, native ones too, below the
    /// [mark](Self::end_mark) of its end. Says how they end, or what must be known first.
    pub fn whole_stack(
        &mut self,
        definitions: &mut Definitions,
        copied: &mut Copied<wire::BlockedStack>,
        ask: bool,
    ) -> Result<(StackId, StackEnd), Needed> {
        let (found, end) = self.callers_of_blocked(copied, ask)?;
        let mut in_stub = false;
        for frame in &found.frames {
            let FrameCode::Managed { method, version, offset } = frame.code else { continue };
            if !self.names.is_stub(method) {
                let leaf = Leaf { method, version, offset, in_stub };
                self.leaves.insert(copied.sample.id, leaf);
                break;
            }
            in_stub = true;
        }
        let mark = self.end_mark(definitions, end);
        Ok((self.named_stack(definitions, &found, mark), end))
    }

    /// The frames of a blocked thread, and how they end.
    fn callers_of_blocked(
        &mut self,
        copied: &mut Copied<wire::BlockedStack>,
        ask: bool,
    ) -> Result<(Stack, StackEnd), Needed> {
        let unknown = if ask { Unknown::Ask } else { Unknown::Guess };
        let Copied { sample: stack, progress } = copied;
        let sample = BlockedSample { ip: stack.ip, sp: stack.sp, stack: &stack.bytes };
        match self.unwinder.unwind_blocked_further(&sample, unknown, progress) {
            Outcome::NeedCode(needed) => Err(needed),
            Outcome::Complete(found) => Ok((found, StackEnd::Complete)),
            Outcome::Truncated(found) => Ok((found, StackEnd::Truncated)),
            Outcome::Broken(found, _) => Ok((found, StackEnd::CallersNotFound)),
        }
    }

    /// A frame that says how a stack ends, where that is not at its root.
    pub(super) fn end_mark(
        &mut self,
        definitions: &mut Definitions,
        end: StackEnd,
    ) -> Option<FrameId> {
        match end {
            StackEnd::Truncated => Some(self.truncated_mark(definitions)),
            StackEnd::CallersNotFound => Some(self.broken_mark(definitions)),
            StackEnd::Complete | StackEnd::NotSampled | StackEnd::NotReadable => None,
        }
    }

    /// The stack of a blocked thread is not named any more.
    pub fn forget_blocked(&mut self, id: u32) {
        self.walked.remove(&id);
        self.leaves.remove(&id);
    }

    /// A stack that the agent walked; threads without managed frames have the stack without frames.
    pub fn walked(&self, definitions: &mut Definitions, id: Option<u32>) -> (StackId, bool) {
        match id.and_then(|id| self.walked.get(&id)) {
            Some(known) => *known,
            None => (definitions.stack([]), false),
        }
    }

    /// Type and method of the managed frames from the leaf on.
    pub fn leaf_names<'a>(
        &self,
        definitions: &'a Definitions,
        stack: StackId,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        definitions
            .frames_of(stack)
            .filter_map(|frame| definitions.function_facts(definitions.frame_function(frame)?))
            .filter(|facts| matches!(facts.kind, FunctionKind::Managed | FunctionKind::Dynamic))
            .map(|facts| (facts.type_name.as_str(), facts.name.as_str()))
    }

    /// What the innermost managed method of a stack that the agent walked can wait for without a
    /// frame of its own; `None` where its IL cannot be read. A stub between it and native code says
    /// that it called that.
    pub fn leaf_waits(&mut self, walked: Option<u32>) -> Option<LeafWaits> {
        let leaf = self.leaves.get(&walked?)?;
        let waits = self.names.leaf_waits(leaf.method, leaf.version, leaf.offset);
        if leaf.in_stub {
            Some(LeafWaits { native: true, ..waits.unwrap_or_default() })
        } else {
            waits
        }
    }
}
