//! Offsets for all that has none: which branches are short, and the bytes.

use super::{END, EditError, Label, MethodEditor, NONE, NewInstruction, NewOperand, OffsetPair, Place};
use crate::Opcode;
use crate::instruction::{push_opcode, push_operand};

/// Where everything goes, and which branches are short.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// In the order of the code; the last one is the end, which is empty.
    pieces: Vec<Piece>,
    /// By label: the piece that it is in front of, or [`NONE`].
    bound: Vec<u32>,
}

/// Original instructions without a change, or a single new one.
#[derive(Clone, Debug)]
struct Piece {
    /// Place of the first instruction.
    first: u32,
    /// Behind that of the last one.
    end: u32,
    offset: u32,
    size: u32,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// The bytes of the original, from this offset on.
    Kept(u32),
    New,
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
            for piece in &mut layout.pieces {
                piece.offset = at as u32;
                at += u64::from(piece.size);
            }
            if at > i32::MAX as u64 {
                return Err(EditError::TooLarge);
            }
            // Within so little code all branches reach.
            if at <= i8::MAX as u64 || !layout.lengthen(round >= ROUNDS) {
                break;
            }
        }
        Ok(())
    }

    /// Cuts the code at nodes and labels.
    fn cut(&mut self, editor: &MethodEditor) {
        let layout = self;
        layout.pieces.clear();
        layout.pieces.reserve(2 * editor.nodes.len() + editor.labels.len());
        layout.bound.clear();
        layout.bound.resize(editor.labels.len(), NONE);
        for stretch in editor.stretches() {
            let places = editor.places.get(stretch.first as usize..stretch.end as usize).unwrap_or_default();
            if let Some(new) = stretch.node.and_then(|node| node.instruction.as_ref()) {
                places.iter().for_each(|place| layout.bind(editor, place));
                let form = match new.operand {
                    NewOperand::Label(label) => Form::Short(label),
                    _ => Form::New,
                };
                // What is too large for the number is too large for any code.
                let size = new.size(true).try_into().unwrap_or(u32::MAX);
                layout.pieces.push(Piece { first: stretch.first, end: stretch.end, offset: 0, size, form });
                continue;
            }
            let mut first = stretch.first;
            for (index, place) in (first..).zip(places).filter(|(_, place)| place.label != NONE) {
                layout.keep(editor, first, index);
                layout.bind(editor, place);
                first = index;
            }
            layout.keep(editor, first, stretch.end);
        }
        if let Some(end) = editor.place(END) {
            layout.bind(editor, end);
        }
        layout.pieces.push(Piece { first: END, end: END, offset: 0, size: 0, form: Form::New });
    }

    /// Binds the labels of a place in front of the next piece.
    fn bind(&mut self, editor: &MethodEditor, place: &Place) {
        for label in editor.labels_at(place) {
            if let Some(slot) = self.bound.get_mut(label.0 as usize) {
                *slot = self.pieces.len() as u32;
            }
        }
    }

    /// Original instructions as one piece, if there are any.
    fn keep(&mut self, editor: &MethodEditor, first: u32, end: u32) {
        let offset = |place| editor.place(place).map_or(0, |place| place.original);
        let start = offset(first);
        let behind = if end > editor.originals { editor.code.len() as u32 } else { offset(end) };
        if first < end {
            self.pieces.push(Piece { first, end, offset: 0, size: behind - start, form: Form::Kept(start) });
        }
    }

    /// Makes those branches long that do not reach, or all; tells whether there were any.
    fn lengthen(&mut self, all: bool) -> bool {
        let mut grown = false;
        for index in 0..self.pieces.len() {
            let Some(&Piece { offset, size, form: Form::Short(label), .. }) = self.pieces.get(index) else { continue };
            let distance = self.offset(label).map_or(0, i64::from) - i64::from(offset + size);
            if (all || i8::try_from(distance).is_err())
                && let Some(piece) = self.pieces.get_mut(index)
            {
                piece.form = Form::Long;
                piece.size += 3;
                grown = true;
            }
        }
        grown
    }

    /// Where a label is; `None` if it is not bound.
    pub fn offset(&self, label: Label) -> Option<u32> {
        let piece = *self.bound.get(label.0 as usize)?;
        self.pieces.get(piece as usize).map(|piece| piece.offset)
    }

    /// The code, and where the original instructions are in it.
    pub fn write(&self, editor: &MethodEditor) -> Result<(Vec<u8>, Vec<OffsetPair>), EditError> {
        let mut code = Vec::with_capacity(self.pieces.last().map_or(0, |end| end.offset as usize));
        let mut offsets = Vec::with_capacity(editor.originals as usize);
        for piece in &self.pieces {
            let new = piece.offset;
            if let Form::Kept(start) = piece.form {
                let bytes = editor.code.get(start as usize..(start + piece.size) as usize);
                code.extend_from_slice(bytes.unwrap_or_default());
                let places = editor.places.get(piece.first as usize..piece.end as usize).unwrap_or_default();
                let pair = |place: &Place| OffsetPair { old: place.original, new: new + (place.original - start) };
                offsets.extend(places.iter().map(pair));
                continue;
            }
            let node = editor.node(piece.first);
            let Some(instruction) = node.and_then(|node| node.instruction.as_ref()) else { continue };
            if let Some(place) = editor.place(piece.first).filter(|place| place.original != NONE) {
                offsets.push(OffsetPair { old: place.original, new });
            }
            self.push(instruction, piece, &mut code)?;
        }
        Ok((code, offsets))
    }

    /// Appends a new instruction.
    fn push(&self, instruction: &NewInstruction, piece: &Piece, code: &mut Vec<u8>) -> Result<(), EditError> {
        let opcode = instruction.opcode;
        let unbound = EditError::UnboundLabel { what: opcode };
        let end = piece.offset + piece.size;
        let distance = |label| self.offset(label).map(|target| target.wrapping_sub(end)).ok_or(unbound);
        match &instruction.operand {
            NewOperand::Plain(operand) => {
                push_opcode(opcode, code);
                push_operand(opcode, *operand, code).ok_or(EditError::Operand { opcode })?;
            }
            NewOperand::Label(label) => {
                let (Some(short), Some(long)) = (opcode.short(), opcode.long()) else {
                    return Err(EditError::Operand { opcode });
                };
                let distance = distance(*label)?;
                if let Form::Short(_) = piece.form {
                    push_opcode(short, code);
                    code.push(distance as u8);
                } else {
                    push_opcode(long, code);
                    code.extend_from_slice(&distance.to_le_bytes());
                }
            }
            NewOperand::Switch(labels) => {
                if opcode != Opcode::Switch {
                    return Err(EditError::Operand { opcode });
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
