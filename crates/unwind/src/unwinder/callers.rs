//! Continues a stack that is deeper than its copy, with the return addresses that the kernel found
//! by following frame pointers.
//!
//! Copying a stack costs the process more than anything else of a sample, and following frame
//! pointers costs almost nothing. But frame pointers alone leave frames out: a frame that does not
//! keep one hides its caller. So inside the copy only tables count, and behind it the addresses
//! count as far as tables prove that each frame keeps a frame pointer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Frame, FrameCode, Left, MOST_ADDRESSES, Needed, Unknown, Unwinder};
use crate::arch;
use crate::context::Context;
use crate::modules::Region;
use crate::stack::StackBytes;
use wire::FrameTrust;

/// Ways in which threads begin that are remembered. A process has few of them.
const MOST_ROOTS: usize = 256;

/// How many frames of a root are remembered: `main` is called by two functions of the C library,
/// the function of any other thread by one.
const FRAMES_OF_ROOT: usize = 3;

/// Bytes of the stack that stands in for one that was not copied, and where it begins: nothing is
/// ever there.
const STAND_IN: usize = 4096;
const STAND_IN_BASE: u64 = 0x0010_0000;

/// What the stand-in says of the caller, so that it can be recognized.
const CALLER_FP: u64 = 0x0070_1000;
const CALLER_IP: u64 = 0x0070_2001;

/// How stacks end: their outermost native frames, by the return address of the first of them.
/// `None` if an address was seen with different callers.
#[derive(Default)]
pub(super) struct Roots(HashMap<u64, Option<Box<[Frame]>>>);

impl Roots {
    /// Remembers how a stack ended whose root was reached.
    pub(super) fn learn(&mut self, frames: &[Frame]) {
        let is_known =
            |frame: &Frame| frame.code == FrameCode::Native && frame.trust == FrameTrust::Tables;
        let native = frames.iter().rev().take_while(|frame| is_known(frame));
        // The last frame alone has no callers that would be worth remembering.
        for length in 2..=native.take(FRAMES_OF_ROOT).count() {
            let Some(root) = frames.get(frames.len() - length..) else { continue };
            let Some(first) = root.first() else { continue };
            let is_full = self.0.len() >= MOST_ROOTS;
            match self.0.entry(first.ip) {
                Entry::Vacant(new) if !is_full => {
                    new.insert(Some(root.into()));
                }
                Entry::Occupied(mut known) if known.get().as_deref() != Some(root) => {
                    known.insert(None);
                }
                Entry::Vacant(_) | Entry::Occupied(_) => {}
            }
        }
    }

    /// The mapped memory has changed.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The frames from a return address on. `next` is the address that the kernel found behind it:
    /// none or anything, because the C library keeps no frame pointers. But the longer roots begin
    /// in a function that may also be called from elsewhere: there, another address is a caller.
    fn from(&self, return_address: u64, next: Option<&u64>) -> Option<&[Frame]> {
        let root = self.0.get(&return_address)?.as_deref()?;
        let caller = root.get(1).map(|frame| frame.ip);
        (root.len() < FRAMES_OF_ROOT || next.is_none() || next.copied() == caller).then_some(root)
    }
}

/// What the addresses came to.
pub(super) enum Continued {
    /// The root was reached.
    Root,
    /// They do not lead to the root, or it is not certain that they do.
    No,
    /// These must be resolved first.
    Unresolved(Needed),
}

impl Unwinder {
    /// Adds the frames behind the copy, if that leads to the root. `last` is the context of the
    /// last of the frames, which could not be left.
    pub(super) fn continue_by(
        &mut self,
        frames: &mut Vec<Frame>,
        last: &Context,
        callers: &Callers<'_>,
        stack: &StackBytes<'_>,
        unknown: Unknown,
    ) -> Continued {
        // A signal handler may have interrupted code on another stack.
        let Some(last_frame) = frames.last().filter(|frame| frame.ip == last.ip()) else {
            return Continued::No;
        };
        let Some(rest) = callers.behind(stack, last) else { return Continued::No };
        let (lookup, code) = (last_frame.lookup, last_frame.code);
        let exact = last_frame.ip == lookup;
        if !self.keeps_frame_pointer(last.ip(), lookup, code, exact) {
            return Continued::No;
        }
        if unknown == Unknown::Ask {
            let guessed = self.unknown_of(rest);
            if !guessed.is_empty() {
                self.counters.need_code += 1;
                return Continued::Unresolved(Needed { executed: None, guessed });
            }
        }
        let length = frames.len();
        for (index, &ip) in rest.iter().enumerate() {
            if ip == 0 {
                return Continued::Root;
            }
            if let Some(root) = self.roots.from(ip, rest.get(index + 1)) {
                frames.extend_from_slice(root);
                return Continued::Root;
            }
            let lookup = ip.wrapping_sub(1);
            let code = self.classify(lookup);
            let called = code != FrameCode::Native || self.is_known_return_address(ip);
            if !called || !self.keeps_frame_pointer(ip, lookup, code, false) {
                break;
            }
            frames.push(Frame { ip, lookup, trust: FrameTrust::Tables, code });
        }
        frames.truncate(length);
        Continued::No
    }

    /// Managed code among these return addresses of which nothing is known, up to the root.
    fn unknown_of(&mut self, rest: &[u64]) -> Vec<u64> {
        let mut unknown = Vec::new();
        for (index, &ip) in rest.iter().enumerate().take(MOST_ADDRESSES) {
            if self.roots.from(ip, rest.get(index + 1)).is_some() {
                break;
            }
            let lookup = ip.wrapping_sub(1);
            if self.classify(lookup) == FrameCode::Unknown
                && matches!(self.modules.find(lookup), Region::Managed)
                && self.classify(lookup) == FrameCode::Unknown
            {
                unknown.push(lookup);
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    /// Whether the tables of a frame say that its return address, and the frame pointer of its
    /// caller, stand where the frame pointer points to. They are applied to a stack on which
    /// nothing else stands.
    fn keeps_frame_pointer(&mut self, ip: u64, lookup: u64, code: FrameCode, exact: bool) -> bool {
        let (return_at, _) = arch::FRAME_RECORD;
        let mut bytes = [0; STAND_IN];
        // No stack pointer and no sum of frame sizes reaches an odd address.
        let record = STAND_IN - 33;
        let mut put = |at: usize, word: u64| {
            if let Some(place) = bytes.get_mut(at..at + 8) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        };
        put(record, CALLER_FP);
        put(record + usize::try_from(return_at).unwrap_or(8), CALLER_IP);
        let stack = StackBytes::new(STAND_IN_BASE, &bytes);
        let mut context = Context::of_pointers(ip, STAND_IN_BASE);
        context.set(arch::FP, Some(STAND_IN_BASE + record as u64));
        let left = match code {
            FrameCode::Managed { .. } => self.step_managed(&mut context, lookup, exact, &stack),
            FrameCode::Native => self.step_native(&mut context, lookup, &stack),
            FrameCode::Stub | FrameCode::Unknown => None,
        };
        matches!(left, Some(Ok(Left::Caller(FrameTrust::Tables, false))))
            && (context.ip(), context.fp()) == (CALLER_IP, Some(CALLER_FP))
    }
}

/// The return addresses that were found by following frame pointers from a sample's.
pub(super) struct Callers<'a> {
    /// The frame pointer of the sample.
    pub(super) fp: Option<u64>,
    /// The addresses, innermost first.
    pub(super) found: &'a [u64],
}

impl<'a> Callers<'a> {
    /// Of a stack of which no such addresses are known.
    pub(super) const NONE: Callers<'static> = Callers { fp: None, found: &[] };

    /// The addresses from the caller of the last frame on. The frame pointers inside the copy are
    /// followed once more: they must lead to the frame pointer of the last frame.
    fn behind(&self, stack: &StackBytes<'_>, last: &Context) -> Option<&'a [u64]> {
        let (mut fp, wanted) = (self.fp?, last.fp()?);
        let mut rest = self.found;
        let (return_at, _) = arch::FRAME_RECORD;
        while fp != wanted {
            let (first, behind) = rest.split_first()?;
            let address = stack.word(fp.checked_add(return_at)?).ok()?;
            if arch::plain_address(address) != *first {
                return None;
            }
            (fp, rest) = (stack.word(fp).ok()?, behind);
        }
        // Nothing of it was copied, or it need not have been asked for.
        (!rest.is_empty()).then_some(rest)
    }
}
