//! Offsets for all that has none: which branches are short, and the bytes.

use super::{Content, EditError, Label, MethodEditor, NONE, OffsetPair, Place, Stretch};
use crate::Opcode;
use crate::instruction::{push_opcode, push_operand};

/// Where everything goes, and which branches are short.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// By node.
    offsets: Vec<u32>,
    /// By node: whether it is a branch that does not reach its label by a distance of one byte.
    is_long: Vec<bool>,
    distances: Vec<Distance>,
}

/// A distance in the code, which is written when all offsets are known.
#[derive(Clone, Copy, Debug)]
struct Distance {
    /// Of the branch.
    node: u32,
    to: Label,
    /// Where it is written.
    at: u32,
    /// Where the branch ends.
    end: u32,
}

/// Rounds after which all branches become long. Real code needs one or two; each round takes as
/// long as the code, and code can be made so that every round lengthens one branch.
const ROUNDS: usize = 50;

impl Layout {
    /// The code, and where the original instructions are in it. Starts with all branches short and
    /// lengthens those that do not reach, until all do. Branches only grow, so this ends, and with
    /// the least code.
    pub fn write(
        &mut self,
        editor: &MethodEditor,
    ) -> Result<(Vec<u8>, Vec<OffsetPair>), EditError> {
        // Most often enough: new instructions are short ones.
        let mut code = Vec::with_capacity(editor.code.len() + 3 * editor.nodes.len());
        let mut offsets = Vec::with_capacity(editor.originals as usize);
        self.offsets.clear();
        self.offsets.resize(editor.nodes.len(), NONE);
        self.is_long.clear();
        self.is_long.resize(editor.nodes.len(), false);
        for round in 0.. {
            code.clear();
            offsets.clear();
            self.distances.clear();
            for stretch in editor.stretches() {
                self.push(editor, &stretch, &mut code, &mut offsets)?;
            }
            if i32::try_from(code.len()).is_err() {
                return Err(EditError::TooLarge);
            }
            // The node of the end.
            self.set(0, code.len());
            if !self.measure(editor, &mut code, round >= ROUNDS)? {
                break;
            }
        }
        Ok((code, offsets))
    }

    fn set(&mut self, node: u32, offset: usize) {
        if let Some(slot) = self.offsets.get_mut(node as usize) {
            *slot = offset as u32;
        }
    }

    /// Appends a new instruction, if there is one, and the original ones behind it.
    fn push(
        &mut self,
        editor: &MethodEditor,
        stretch: &Stretch<'_>,
        code: &mut Vec<u8>,
        offsets: &mut Vec<OffsetPair>,
    ) -> Result<(), EditError> {
        let &Stretch { index, node, end } = stretch;
        self.set(index, code.len());
        let mut kept = node.place;
        if !matches!(node.content, Content::Kept) {
            if let Some(place) = editor.place(kept).filter(|place| place.original != NONE) {
                offsets.push(OffsetPair { old: place.original, new: code.len() as u32 });
            }
            self.push_new(editor, stretch, code)?;
            kept += 1;
        }
        if kept < end {
            let (start, new) = (editor.original(kept), code.len() as u32);
            let bytes = editor.code.get(start as usize..editor.original(end) as usize);
            code.extend_from_slice(bytes.unwrap_or_default());
            let places = editor.places.get(kept as usize..end as usize).unwrap_or_default();
            let pair = |place: &Place| OffsetPair {
                old: place.original,
                new: new + (place.original - start),
            };
            offsets.extend(places.iter().map(pair));
        }
        Ok(())
    }

    fn push_new(
        &mut self,
        editor: &MethodEditor,
        &Stretch { index, node, .. }: &Stretch<'_>,
        code: &mut Vec<u8>,
    ) -> Result<(), EditError> {
        let unfit = EditError::Operand { opcode: node.opcode };
        match node.content {
            Content::Kept => {}
            Content::Plain(operand) => {
                push_opcode(node.opcode, code);
                push_operand(node.opcode, operand, code).ok_or(unfit)?;
            }
            Content::Branch(to) => {
                let is_long = self.is_long.get(index as usize).is_some_and(|&is_long| is_long);
                let opcode = if is_long { node.opcode.long() } else { node.opcode.short() };
                push_opcode(opcode.ok_or(unfit)?, code);
                let at = code.len() as u32;
                code.extend_from_slice(if is_long { &[0; 4] } else { &[0] });
                self.distances.push(Distance { node: index, to, at, end: code.len() as u32 });
            }
            Content::Switch(number) => {
                if node.opcode != Opcode::Switch {
                    return Err(unfit);
                }
                let labels = editor.switches.get(number as usize).map_or(&[][..], Vec::as_slice);
                push_opcode(node.opcode, code);
                code.extend_from_slice(&(labels.len() as u32).to_le_bytes());
                let start = code.len();
                code.resize(start + 4 * labels.len(), 0);
                let end = code.len() as u32;
                let distance = |(at, &to)| Distance { node: index, to, at, end };
                self.distances.extend((start as u32..).step_by(4).zip(labels).map(distance));
            }
        }
        Ok(())
    }

    /// Writes the distances. Makes those branches long that do not reach, or all; tells whether
    /// there were any.
    fn measure(
        &mut self,
        editor: &MethodEditor,
        code: &mut [u8],
        all: bool,
    ) -> Result<bool, EditError> {
        let mut grown = false;
        for &Distance { node, to, at, end } in &self.distances {
            let what = editor.nodes.get(node as usize).map_or(Opcode::Nop, |node| node.opcode);
            let target = self.offset(editor, to).ok_or(EditError::UnboundLabel { what })?;
            let distance = target.wrapping_sub(end).cast_signed();
            let bytes = code.get_mut(at as usize..end as usize).unwrap_or_default();
            if let [byte] = bytes {
                *byte = distance as u8;
                if (all || i8::try_from(distance).is_err())
                    && let Some(is_long) = self.is_long.get_mut(node as usize)
                {
                    (*is_long, grown) = (true, true);
                }
            } else if let Some(bytes) = bytes.first_chunk_mut() {
                *bytes = distance.to_le_bytes();
            }
        }
        Ok(grown)
    }

    /// Where a label is; `None` if it is not bound.
    pub fn offset(&self, editor: &MethodEditor, label: Label) -> Option<u32> {
        let slot = editor.labels.get(label.0 as usize)?;
        self.offsets.get(slot.node as usize).copied()
    }
}
