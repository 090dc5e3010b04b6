//! Labels: what branches and clauses refer to, and the instructions that they are bound to.

use super::nodes::{Content, LabelSlot, NONE};
use super::{InstructionId, Label, MethodEditor};

impl MethodEditor {
    /// A label that is not bound yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(LabelSlot { node: NONE, next: NONE });
        Label(self.labels.len() as u32 - 1)
    }

    /// A label on the instruction, shared with everyone who asks. It moves with those that branches
    /// have.
    pub fn label_of(&mut self, id: InstructionId) -> Label {
        let place = self.live(id);
        match self.node(place).map_or(NONE, |node| node.label) {
            NONE => self.new_label_at(InstructionId(place)),
            label => Label(label),
        }
    }

    pub(super) fn new_label_at(&mut self, id: InstructionId) -> Label {
        let (place, label) = (self.live(id), self.labels.len() as u32);
        let index = self.touch(place);
        let next = self
            .nodes
            .get_mut(index as usize)
            .map_or(NONE, |node| std::mem::replace(&mut node.label, label));
        self.labels.push(LabelSlot { node: index, next });
        Label(label)
    }

    /// Binds the label to an instruction, wherever it was bound before: all that refer to it go
    /// there from now on.
    pub fn bind(&mut self, label: Label, to: InstructionId) {
        let Some(&LabelSlot { node: old, next }) = self.labels.get(label.0 as usize) else {
            return;
        };
        if let Some(old) = self.nodes.get_mut(old as usize) {
            // Out of the list of its old node.
            let mut at = old.label;
            if at == label.0 {
                old.label = next;
            }
            while let Some(slot) = self.labels.get_mut(at as usize) {
                at = slot.next;
                if at == label.0 {
                    slot.next = next;
                }
            }
        }
        let to = self.live(to);
        let index = self.touch(to);
        let Some(node) = self.nodes.get_mut(index as usize) else { return };
        if let Some(slot) = self.labels.get_mut(label.0 as usize) {
            *slot = LabelSlot { node: index, next: node.label };
            node.label = label.0;
        }
    }

    /// The instruction that the label is bound to.
    #[must_use]
    pub fn bound_to(&self, label: Label) -> Option<InstructionId> {
        let slot = self.labels.get(label.0 as usize)?;
        self.nodes.get(slot.node as usize).map(|node| InstructionId(node.place))
    }

    /// Where a branch or the cases of a `switch` lead, to be changed; empty for other instructions.
    pub fn targets_mut(&mut self, id: InstructionId) -> &mut [Label] {
        let node = self.place(self.live(id)).map_or(NONE, |place| place.node);
        self.node_targets_mut(node as usize)
    }

    pub(super) fn node_targets_mut(&mut self, node: usize) -> &mut [Label] {
        match self.nodes.get_mut(node).map(|node| &mut node.content) {
            Some(Content::Branch(label)) => std::slice::from_mut(label),
            Some(Content::Switch(number)) => {
                self.switches.get_mut(*number as usize).map_or(&mut [], Vec::as_mut_slice)
            }
            _ => &mut [],
        }
    }

    /// Where the instruction of a node leads.
    pub(super) fn targets(&self, node: usize) -> &[Label] {
        match self.nodes.get(node).map(|node| &node.content) {
            Some(Content::Branch(label)) => std::slice::from_ref(label),
            Some(Content::Switch(number)) => {
                self.switches.get(*number as usize).map_or(&[], Vec::as_slice)
            }
            _ => &[],
        }
    }
}
