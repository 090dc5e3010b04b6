//! The instructions of a [`MethodEditor`] as a linked list: places, and the nodes of those that
//! something is done to.

use super::new_instruction::{NewInstruction, NewOperand};
use super::{InstructionId, Label, MethodEditor};
use crate::{Opcode, Operand};

/// In place of an index: none.
pub(super) const NONE: u32 = u32::MAX;

/// The list is a ring through this place, which has no instruction.
pub(super) const END: u32 = 0;

/// An instruction, or the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Offset in the original, or [`NONE`].
    pub(super) original: u32,
    /// Its node; [`NONE`] if it is as it was, between the same neighbours and without a label.
    pub(super) node: u32,
}

/// What is at a node besides an opcode.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// The instruction that has always been there; nothing at the end.
    Kept,
    /// A new one that does not branch.
    Plain(Operand<'static>),
    /// A branch to a single target.
    Branch(Label),
    /// A `switch`, by its number.
    Switch(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Of branches the long form: which one is written shows at the end.
    pub(super) opcode: Opcode,
    pub(super) content: Content,
    pub(super) place: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    /// First of the labels that are bound here, or [`NONE`].
    pub(super) label: u32,
    pub(super) removed: bool,
}

impl Node {
    /// Whether it is an instruction that is not passed over when a body is wrapped.
    pub(super) fn is_turning(&self) -> bool {
        turns(self.opcode) && !self.removed
    }
}

/// A place with a node, and the original instructions without one that follow it.
pub(super) struct Stretch<'a> {
    /// Of the node.
    pub(super) index: u32,
    pub(super) node: &'a Node,
    /// Behind the last one, in the numbers of places.
    pub(super) end: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LabelSlot {
    /// The node that it is bound to, or [`NONE`].
    pub(super) node: u32,
    /// Next label of the same node, or [`NONE`].
    pub(super) next: u32,
}

impl MethodEditor {
    /// All that there is, in the order of the code.
    pub(super) fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        let mut at = self.nodes.first().and_then(|end| self.place(end.next));
        std::iter::from_fn(move || {
            // The first node is that of the end.
            let index = at?.node;
            if index == 0 {
                return None;
            }
            let node = self.nodes.get(index as usize)?;
            // The first one without a node, if any is, is the next place too.
            let behind =
                self.places.get(node.next as usize..=self.originals as usize).unwrap_or_default();
            let count = behind.iter().position(|place| place.node != NONE).unwrap_or(behind.len());
            at = if count == 0 { self.place(node.next) } else { behind.get(count) };
            Some(Stretch { index, node, end: node.place + 1 + count as u32 })
        })
    }

    pub(super) fn place(&self, index: u32) -> Option<&Place> {
        self.places.get(index as usize)
    }

    /// The node of a place, if it has one.
    pub(super) fn node(&self, place: u32) -> Option<&Node> {
        self.nodes.get(self.place(place)?.node as usize)
    }

    pub(super) fn following(&self, place: u32) -> u32 {
        match self.node(place) {
            Some(node) => node.next,
            None if place >= self.originals => END,
            None => place + 1,
        }
    }

    pub(super) fn preceding(&self, place: u32) -> u32 {
        match self.node(place) {
            Some(node) => node.previous,
            None if place > self.originals => END,
            None => place.saturating_sub(1),
        }
    }

    pub(super) fn opcode(&self, place: u32) -> Option<Opcode> {
        match self.node(place) {
            Some(_) if place == END => None,
            Some(node) => Some(node.opcode),
            None => Opcode::decode(self.code.get(self.place(place)?.original as usize..)?),
        }
    }

    /// Changes the node of a place, which is made if there is none.
    pub(super) fn change(&mut self, place: u32, change: impl FnOnce(&mut Node)) {
        let node = self.touch(place);
        if let Some(node) = self.nodes.get_mut(node as usize) {
            change(node);
        }
    }

    /// The node of a place, which is made if there is none.
    #[inline]
    pub(super) fn touch(&mut self, place: u32) -> u32 {
        match self.place(place) {
            Some(&Place { node, .. }) if node != NONE => node,
            _ => self.make_node(place),
        }
    }

    /// Makes the node of a place that has none.
    fn make_node(&mut self, index: u32) -> u32 {
        let (previous, next) = (self.preceding(index), self.following(index));
        let opcode = self.opcode(index).unwrap_or(Opcode::Nop);
        let node = self.push_node(opcode, Content::Kept, index, (previous, next));
        if let Some(place) = self.places.get_mut(index as usize) {
            place.node = node;
        }
        node
    }

    /// Where the original instruction of a place starts; behind the last one the code ends.
    pub(super) fn original(&self, place: u32) -> u32 {
        let place = self.place(place).filter(|_| place <= self.originals);
        place.map_or(self.code.len() as u32, |place| place.original)
    }

    pub(super) fn push_node(
        &mut self,
        opcode: Opcode,
        content: Content,
        place: u32,
        (previous, next): (u32, u32),
    ) -> u32 {
        self.nodes.push(Node {
            opcode,
            content,
            place,
            previous,
            next,
            label: NONE,
            removed: false,
        });
        self.nodes.len() as u32 - 1
    }

    /// A new instruction as a node has it.
    pub(super) fn take(&mut self, new: NewInstruction) -> (Opcode, Content) {
        let opcode = new.opcode;
        match new.operand {
            NewOperand::Plain(operand) => (opcode, Content::Plain(operand)),
            NewOperand::Label(label) => (opcode.long().unwrap_or(opcode), Content::Branch(label)),
            NewOperand::Switch(labels) => (opcode, self.take_switch(labels)),
        }
    }

    pub(super) fn take_switch(&mut self, labels: Vec<Label>) -> Content {
        self.switches.push(labels);
        Content::Switch(self.switches.len() as u32 - 1)
    }

    /// The place that an id stands for. Ids of another editor stand for the end.
    pub(super) fn live(&self, id: InstructionId) -> u32 {
        let mut index = id.0;
        while let Some(place) = self.place(index) {
            match self.nodes.get(place.node as usize) {
                Some(node) if node.removed => index = node.next,
                _ => return index,
            }
        }
        END
    }

    /// Links a new instruction in front of a live place.
    pub(super) fn link(&mut self, next: u32, instruction: NewInstruction) -> InstructionId {
        let previous = self.preceding(next);
        let index = self.places.len() as u32;
        self.is_as_made &= next == END;
        let (opcode, content) = self.take(instruction);
        let node = self.push_node(opcode, content, index, (previous, next));
        self.places.push(Place { original: NONE, node });
        self.change(previous, |node| node.next = index);
        self.change(next, |node| node.previous = index);
        InstructionId(index)
    }

    pub(super) fn move_labels(&mut self, from: u32, to: u32) {
        let first = self.node(from).map_or(NONE, |node| node.label);
        if first == NONE {
            return;
        }
        let to = self.touch(to);
        let (mut at, mut last) = (first, NONE);
        while let Some(slot) = self.labels.get_mut(at as usize) {
            slot.node = to;
            last = at;
            at = slot.next;
        }
        if let (Some(slot), Some(to)) =
            (self.labels.get_mut(last as usize), self.nodes.get_mut(to as usize))
        {
            slot.next = std::mem::replace(&mut to.label, first);
        }
        self.change(from, |node| node.label = NONE);
    }
}

/// Whether an instruction is not passed over when a body is wrapped: it branches, returns, or may
/// not be in a try block.
pub(super) fn turns(opcode: Opcode) -> bool {
    // From the first to the last, all of them branch.
    (Opcode::Ret..=Opcode::Switch).contains(&opcode)
        || matches!(opcode, Opcode::Jmp | Opcode::Leave | Opcode::LeaveS | Opcode::Tail)
}
