//! Offsets for all that has none: which branches are short, and the bytes.

use super::{END, EditError, Label, MethodEditor, NONE, NewInstruction, NewOperand, Node, OffsetPair, Place, Stretch};
use crate::Opcode;
use crate::instruction::{push_opcode, push_operand};
use std::ops::Range;

/// Where everything goes, and which branches are short.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// In the order of the code. That of the end is the first one, for what no node is in front of.
    pieces: Vec<Piece>,
    /// By node.
    offsets: Vec<u32>,
}

/// A new instruction or none, and original ones without a change behind it.
#[derive(Clone, Debug)]
struct Piece {
    node: u32,
    form: Form,
    /// Bytes of the new instruction.
    size: u32,
    /// Places of the original ones.
    kept: Range<u32>,
    /// Their bytes in the original.
    bytes: Range<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// The only one.
    Plain,
    /// A branch that reaches this label by a distance of one byte, as far as is known.
    Short(Label),
    /// One that does not.
    Long,
}

/// Rounds after which all branches become long. Real code needs one or two; each round takes as long as the
/// code, and code can be made so that every round lengthens one branch.
const ROUNDS: usize = 50;

impl Layout {
    /// Starts with all branches short and lengthens those that do not reach, until all do. Branches only grow, so
    /// this ends, and with the least code.
    pub fn fix(&mut self, editor: &MethodEditor) -> Result<(), EditError> {
        let layout = self;
        layout.cut(editor);
        for round in 0.. {
            let mut at = 0_u64;
            for piece in &layout.pieces {
                if let Some(offset) = layout.offsets.get_mut(piece.node as usize) {
                    *offset = at as u32;
                }
                at += u64::from(piece.size) + piece.bytes.len() as u64;
            }
            if at > i32::MAX as u64 {
                return Err(EditError::TooLarge);
            }
            if let Some(end) = layout.offsets.first_mut() {
                *end = at as u32;
            }
            // Within so little code all branches reach.
            if at <= i8::MAX as u64 || !layout.lengthen(editor, round >= ROUNDS) {
                break;
            }
        }
        Ok(())
    }

    /// Cuts the code at nodes.
    fn cut(&mut self, editor: &MethodEditor) {
        self.pieces.clear();
        self.pieces.reserve(editor.nodes.len());
        self.offsets.clear();
        self.offsets.resize(editor.nodes.len(), NONE);
        let original = |place: u32| match editor.place(place) {
            Some(place) if place.original != NONE => place.original,
            _ => editor.code.len() as u32,
        };
        for Stretch { node, end } in editor.stretches() {
            let (form, size) = match &node.instruction {
                // What is too large for the number is too large for any code.
                Some(new) => (form_of(new), new.size().try_into().unwrap_or(u32::MAX)),
                None => (Form::Plain, 0),
            };
            let is_kept = node.instruction.is_none() && node.place != END;
            let kept = if is_kept { node.place } else { node.place + 1 }..end;
            let bytes = if kept.is_empty() { 0..0 } else { original(kept.start)..original(end) };
            let index = editor.place(node.place).map_or(NONE, |place| place.node);
            self.pieces.push(Piece { node: index, form, size, kept, bytes });
        }
    }

    /// Makes those branches long that do not reach, or all; tells whether there were any.
    fn lengthen(&mut self, editor: &MethodEditor, all: bool) -> bool {
        let mut grown = false;
        for piece in &mut self.pieces {
            let Form::Short(label) = piece.form else { continue };
            let offset = |node: u32| self.offsets.get(node as usize).map_or(0, |&offset| i64::from(offset));
            let target = editor.labels.get(label.0 as usize).map_or(NONE, |slot| slot.node);
            let distance = offset(target) - offset(piece.node) - i64::from(piece.size);
            if all || i8::try_from(distance).is_err() {
                piece.form = Form::Long;
                piece.size += 3;
                grown = true;
            }
        }
        grown
    }

    /// Where a label is; `None` if it is not bound.
    pub fn offset(&self, editor: &MethodEditor, label: Label) -> Option<u32> {
        let slot = editor.labels.get(label.0 as usize)?;
        self.offsets.get(slot.node as usize).copied()
    }

    /// The code, and where the original instructions are in it.
    pub fn write(&self, editor: &MethodEditor) -> Result<(Vec<u8>, Vec<OffsetPair>), EditError> {
        let mut code = Vec::with_capacity(self.offsets.first().map_or(0, |&end| end as usize));
        let mut offsets = Vec::with_capacity(editor.originals as usize);
        for piece in &self.pieces {
            let node = editor.nodes.get(piece.node as usize);
            if let Some(Node { instruction: Some(instruction), place, .. }) = node {
                if let Some(place) = editor.place(*place).filter(|place| place.original != NONE) {
                    offsets.push(OffsetPair { old: place.original, new: code.len() as u32 });
                }
                self.push(editor, instruction, piece, &mut code)?;
            }
            if piece.kept.is_empty() {
                continue;
            }
            let (start, new) = (piece.bytes.start, code.len() as u32);
            let bytes = editor.code.get(start as usize..piece.bytes.end as usize);
            code.extend_from_slice(bytes.unwrap_or_default());
            let places = editor.places.get(piece.kept.start as usize..piece.kept.end as usize).unwrap_or_default();
            let pair = |place: &Place| OffsetPair { old: place.original, new: new + (place.original - start) };
            offsets.extend(places.iter().map(pair));
        }
        Ok((code, offsets))
    }

    /// Appends a new instruction.
    fn push(
        &self,
        editor: &MethodEditor,
        instruction: &NewInstruction,
        piece: &Piece,
        code: &mut Vec<u8>,
    ) -> Result<(), EditError> {
        let opcode = instruction.opcode;
        let unbound = EditError::UnboundLabel { what: opcode };
        let unfit = EditError::Operand { opcode };
        let end = code.len() as u32 + piece.size;
        let distance = |label| self.offset(editor, label).map(|target| target.wrapping_sub(end)).ok_or(unbound);
        match &instruction.operand {
            NewOperand::Plain(operand) => {
                push_opcode(opcode, code);
                push_operand(opcode, *operand, code).ok_or(unfit)?;
            }
            NewOperand::Label(label) => {
                if let Form::Short(_) = piece.form {
                    push_opcode(opcode.short().ok_or(unfit)?, code);
                    code.push(distance(*label)? as u8);
                } else {
                    push_opcode(opcode.long().ok_or(unfit)?, code);
                    code.extend_from_slice(&distance(*label)?.to_le_bytes());
                }
            }
            NewOperand::Switch(labels) => {
                if opcode != Opcode::Switch {
                    return Err(unfit);
                }
                push_opcode(opcode, code);
                code.extend_from_slice(&(labels.len() as u32).to_le_bytes());
                for &label in labels {
                    code.extend_from_slice(&distance(label)?.to_le_bytes());
                }
            }
        }
        Ok(())
    }
}

const fn form_of(new: &NewInstruction) -> Form {
    match new.operand {
        NewOperand::Label(label) => Form::Short(label),
        _ => Form::Plain,
    }
}
