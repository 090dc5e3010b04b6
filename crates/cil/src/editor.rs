//! Changes to code by labels: offsets exist only before and after.
//!
//! Code stays bytes where nothing happens to it. Instructions that branch or return, and those that
//! something is done to or next to, are nodes of a linked list, so that a probe at each instruction
//! costs no more than the code is long. Branches and clauses refer to labels, labels to
//! instructions; short and long forms of branches are chosen when it is all done.

mod clauses;
mod error;
mod finish;
mod labels;
mod layout;
mod locals;
mod new_instruction;
mod nodes;
mod wrap;

pub use error::EditError;
pub use new_instruction::{NewInstruction, NewOperand};
pub use wrap::Handler;

use crate::opcode::Step;
use crate::{ClauseKind, Instruction, MethodBody, MethodHeader, Opcode, Operand, count_locals};
use clauses::{NewClause, NewClauseKind};
use layout::Layout;
use locals::{Locals, compressed_size};
use nodes::{Content, END, LabelSlot, NONE, Node, Place, Stretch, turns};
use std::cell::RefCell;

/// A place in the code, bound to an instruction or to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(u32);

/// An instruction in a [`MethodEditor`]. It stays valid through all edits; a removed instruction
/// stands for the one that came after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstructionId(u32);

/// An instruction of the original and where it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetPair {
    /// In the original.
    pub old: u32,
    /// In the result.
    pub new: u32,
}

/// What an edit comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The new body.
    pub body: MethodBody<'static>,
    /// Where the instructions of the original have gone, in the order of the result. Removed ones
    /// are missing.
    pub offsets: Vec<OffsetPair>,
}

/// A method body that can be changed.
#[derive(Clone, Debug)]
pub struct MethodEditor {
    header: MethodHeader,
    /// The original.
    code: Vec<u8>,
    /// By [`InstructionId`]: the end, then the original instructions in order, then the new ones.
    places: Vec<Place>,
    originals: u32,
    nodes: Vec<Node>,
    /// Where the cases of each `switch` lead.
    switches: Vec<Vec<Label>>,
    /// Whether instructions follow one another in the order of their places.
    is_as_made: bool,
    labels: Vec<LabelSlot>,
    clauses: Vec<NewClause>,
    /// `None` if there are locals but their signature was not given.
    locals: Option<Locals>,
    /// Room for the next one; what is in it is of no use.
    layout: RefCell<Layout>,
}

impl MethodEditor {
    /// An editor without instructions, for a method that is written from scratch.
    #[must_use]
    pub fn empty() -> Self {
        let mut editor = Self {
            header: MethodHeader::default(),
            code: Vec::new(),
            places: Vec::new(),
            originals: 0,
            nodes: Vec::new(),
            switches: Vec::new(),
            is_as_made: true,
            labels: Vec::new(),
            clauses: Vec::new(),
            locals: None,
            layout: RefCell::default(),
        };
        editor.clear(0);
        editor
    }

    /// Forgets everything but its room, and makes some for that many bytes of code and a few
    /// changes.
    fn clear(&mut self, code_size: usize) {
        let mut types = self.locals.take().map(|locals| locals.types).unwrap_or_default();
        types.clear();
        self.locals = Some(Locals { count: 0, types, grown: false });
        self.header = MethodHeader::default();
        self.code.clear();
        self.labels.clear();
        self.clauses.clear();
        self.switches.clear();
        (self.originals, self.is_as_made) = (0, true);
        // Real code takes three bytes per instruction on average, and one instruction in six
        // branches or returns.
        self.labels.reserve(code_size / 16 + 8);
        self.places.clear();
        self.places.reserve(code_size / 2 + 8);
        self.places.push(Place { original: NONE, node: 0 });
        self.nodes.clear();
        self.nodes.reserve(code_size / 16 + 12);
        self.push_node(Opcode::Nop, Content::Kept, END, (END, END));
    }

    /// An editor of `body`. `locals` is the blob of its local signature; without it no local can be
    /// added to a body that has some.
    ///
    /// # Errors
    /// The code or the blob cannot be read, or a branch or clause refers to no instruction.
    pub fn new(body: &MethodBody<'_>, locals: Option<&[u8]>) -> Result<Self, EditError> {
        let mut editor = Self::empty();
        editor.open(body, locals)?;
        Ok(editor)
    }

    /// Makes it the editor of another body, as [`MethodEditor::new`] does, in the memory that it
    /// has: for many bodies, one after the other. Ids and labels of the body before are of no use
    /// any more.
    ///
    /// # Errors
    /// As [`MethodEditor::new`]. What is in the editor then is of no use, but it can be made that
    /// of another body.
    pub fn open(&mut self, body: &MethodBody<'_>, locals: Option<&[u8]>) -> Result<(), EditError> {
        if i32::try_from(body.code.len()).is_err() {
            return Err(EditError::TooLarge);
        }
        self.clear(body.code.len());
        let editor = self;
        editor.header = body.header;
        match (locals, &mut editor.locals) {
            (Some(blob), Some(locals)) => {
                locals.count = count_locals(blob)?;
                let known =
                    blob.get(1 + compressed_size(locals.count.into())..).unwrap_or_default();
                // Room for one more.
                locals.types.reserve(known.len() + 16);
                locals.types.extend_from_slice(known);
            }
            _ if body.header.local_signature.is_nil() => {}
            _ => editor.locals = None,
        }
        editor.code.extend_from_slice(&body.code);
        editor.read(&body.code)?;
        editor.bind_targets()?;
        // Then it is always a node that is in front of instructions without.
        editor.touch(editor.following(END));
        editor.clauses.reserve(body.clauses.len() + 1);
        for clause in &body.clauses {
            let mut bound = |offset| editor.find(offset).map(|id| editor.new_label_at(id));
            let try_block = (bound(clause.try_block.start)?, bound(clause.try_block.end)?);
            let handler = (bound(clause.handler.start)?, bound(clause.handler.end)?);
            let kind = match clause.kind {
                ClauseKind::Catch(token) => NewClauseKind::Catch(token),
                ClauseKind::Filter(start) => NewClauseKind::Filter(bound(start)?),
                ClauseKind::Finally => NewClauseKind::Finally,
                ClauseKind::Fault => NewClauseKind::Fault,
            };
            editor.clauses.push(NewClause { kind, try_block, handler });
        }
        Ok(())
    }

    /// Makes places of all instructions, and nodes of those that turn. Their labels are offsets
    /// still.
    fn read(&mut self, code: &[u8]) -> Result<(), EditError> {
        let mut offset = 0;
        while let Some(&first) = code.get(offset as usize) {
            let step = Step::of(first);
            let mut end = offset + u32::from(step.size);
            let mut node = NONE;
            if step.marks & Step::TURNS != 0 || end as usize > code.len() {
                let instruction = Instruction::decode(code, offset)?;
                end = instruction.end();
                if turns(instruction.opcode) {
                    let content = match instruction.operand {
                        Operand::Target(target) => Content::Branch(Label(target)),
                        Operand::Switch(targets) => {
                            self.take_switch(targets.iter().map(Label).collect())
                        }
                        _ => Content::Kept,
                    };
                    let opcode = instruction.opcode.long().unwrap_or(instruction.opcode);
                    let place = self.places.len() as u32;
                    node = self.push_node(opcode, content, place, (place - 1, place + 1));
                }
            }
            self.places.push(Place { original: offset, node });
            offset = end;
        }
        self.originals = self.places.len() as u32 - 1;
        let last = self.originals;
        if self.node(last).is_some() {
            self.change(last, |node| node.next = END);
        }
        self.change(END, |end| (end.previous, end.next) = (last, last.min(END + 1)));
        Ok(())
    }

    /// Makes labels of the offsets in the nodes that were read.
    fn bind_targets(&mut self) -> Result<(), EditError> {
        for index in 0..self.nodes.len() {
            let mut case = 0;
            while let Some(&Label(offset)) = self.targets(index).get(case) {
                let id = self.find(offset)?;
                let label = self.label_of(id);
                if let Some(slot) = self.node_targets_mut(index).get_mut(case) {
                    *slot = label;
                }
                case += 1;
            }
        }
        Ok(())
    }

    /// The instruction at an offset of the original that something refers to; behind the last one
    /// is the end.
    fn find(&self, offset: u32) -> Result<InstructionId, EditError> {
        if offset as usize == self.code.len() {
            return Ok(Self::END);
        }
        self.at_offset(offset).ok_or(EditError::Target { target: offset })
    }

    /// The end of the code: inserting before it appends.
    pub const END: InstructionId = InstructionId(END);

    /// The first instruction, or [`MethodEditor::END`].
    #[must_use]
    pub fn first(&self) -> InstructionId {
        self.next(Self::END)
    }

    /// The instruction behind, or [`MethodEditor::END`]. Behind the end is the first one.
    #[must_use]
    pub fn next(&self, id: InstructionId) -> InstructionId {
        InstructionId(self.following(self.live(id)))
    }

    /// The instruction in front; in front of the first one is [`MethodEditor::END`].
    #[must_use]
    pub fn previous(&self, id: InstructionId) -> InstructionId {
        InstructionId(self.preceding(self.live(id)))
    }

    /// All instructions in order.
    pub fn ids(&self) -> impl Iterator<Item = InstructionId> + '_ {
        std::iter::successors(Some(self.first()), |&id| Some(self.next(id)))
            .take_while(|&id| id != Self::END)
    }

    /// An instruction; `None` for the end.
    #[must_use]
    pub fn instruction(&self, id: InstructionId) -> Option<NewInstruction> {
        let place = self.live(id);
        let operand = match self.node(place).map(|node| node.content) {
            None | Some(Content::Kept) => {
                return Instruction::decode(&self.code, self.place(place)?.original).ok()?.to_new();
            }
            Some(Content::Plain(operand)) => NewOperand::Plain(operand),
            Some(Content::Branch(label)) => NewOperand::Label(label),
            Some(Content::Switch(number)) => {
                NewOperand::Switch(self.switches.get(number as usize)?.clone())
            }
        };
        Some(NewInstruction { opcode: self.opcode(place)?, operand })
    }

    /// The instruction that was at this offset of the original.
    #[must_use]
    pub fn at_offset(&self, offset: u32) -> Option<InstructionId> {
        let originals = self.places.get(1..=self.originals as usize)?;
        let index = originals.binary_search_by_key(&offset, |place| place.original).ok()?;
        Some(InstructionId(index as u32 + 1))
    }

    /// Where the instruction was in the original; `None` for a new one.
    #[must_use]
    pub fn original_offset(&self, id: InstructionId) -> Option<u32> {
        self.place(id.0).map(|place| place.original).filter(|&offset| offset != NONE)
    }

    /// Inserts in front of `at`, for those who come from the instruction before: branches to `at`
    /// still go to `at`, and a try block or handler that starts there starts behind the new
    /// instruction.
    pub fn insert_before(
        &mut self,
        at: InstructionId,
        new: impl Into<NewInstruction>,
    ) -> InstructionId {
        self.link(self.live(at), new.into())
    }

    /// Inserts in front of `at`, for everyone: branches to `at` and clauses that start or end there
    /// now mean the new instruction.
    pub fn insert_at(
        &mut self,
        at: InstructionId,
        new: impl Into<NewInstruction>,
    ) -> InstructionId {
        let at = self.live(at);
        let new = self.link(at, new.into());
        self.move_labels(at, new.0);
        new
    }

    /// Inserts behind `at`: as [`MethodEditor::insert_before`] in front of the instruction that
    /// follows.
    pub fn insert_after(
        &mut self,
        at: InstructionId,
        new: impl Into<NewInstruction>,
    ) -> InstructionId {
        let next = self.next(at);
        self.link(next.0, new.into())
    }

    /// Appends; labels that are bound to the end are bound to the new instruction.
    pub fn push(&mut self, new: impl Into<NewInstruction>) -> InstructionId {
        self.insert_at(Self::END, new)
    }

    /// Puts another instruction into the place of `at`; branches to it and clauses stay.
    pub fn replace(&mut self, at: InstructionId, new: impl Into<NewInstruction>) {
        let at = self.live(at);
        if at != END {
            let new = self.take(new.into());
            self.change(at, |node| (node.opcode, node.content) = new);
        }
    }

    /// Takes an instruction out; who went to it goes to the next one.
    pub fn remove(&mut self, at: InstructionId) {
        let at = self.live(at);
        if at == END {
            return;
        }
        let (previous, next) = (self.preceding(at), self.following(at));
        self.move_labels(at, next);
        self.change(previous, |node| node.next = next);
        self.change(next, |node| node.previous = previous);
        self.change(at, |node| (node.next, node.removed) = (next, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CallEffect, CodeRange, ExceptionClause, MethodShape, Primitive, Token, Tokens, TypeSig,
        VerifyError, decode_locals, encode_locals, verify,
    };
    use std::borrow::Cow;

    struct NoCalls;

    impl Tokens for NoCalls {
        fn call_effect(&self, _: Token) -> Option<CallEffect> {
            None
        }
    }

    const INT: TypeSig = TypeSig::Primitive(Primitive::I4);

    fn body(code: &[u8], clauses: Vec<ExceptionClause>) -> MethodBody<'_> {
        MethodBody { header: MethodHeader::default(), code: Cow::Borrowed(code), clauses }
    }

    fn editor(code: &[u8]) -> MethodEditor {
        MethodEditor::new(&body(code, Vec::new()), None).unwrap()
    }

    fn code(editor: &MethodEditor) -> Vec<u8> {
        editor.finish_with(8).unwrap().body.code.into_owned()
    }

    fn check(editor: &MethodEditor, shape: MethodShape) -> Result<Edited, VerifyError> {
        let edited = editor.finish(shape.returns, &NoCalls).unwrap();
        verify(&edited.body, shape, &NoCalls).map(|_| edited)
    }

    #[test]
    fn an_editor_takes_one_body_after_the_other() {
        let locals = encode_locals(&[INT]).unwrap();
        let with_locals =
            MethodHeader { local_signature: Token(0x1100_0001), ..MethodHeader::default() };
        // 0: br.s 3; 2: nop; 3: ret. Then one that cannot be read, and others.
        let first = body(&[0x2b, 1, 0x00, 0x2a], Vec::new());
        let broken = body(&[0x2b, 7], Vec::new());
        let second = MethodBody { header: with_locals, ..body(&[0x00, 0x2a], Vec::new()) };
        let mut editor = MethodEditor::empty();
        for (body, locals, same) in [
            (&first, None, true),
            (&broken, None, false),
            (&second, Some(&locals[..]), true),
            (&first, None, true),
        ] {
            let opened = editor.open(body, locals);
            assert_eq!(opened.is_ok(), same);
            let Ok(mut fresh) = MethodEditor::new(body, locals) else { continue };
            for editor in [&mut editor, &mut fresh] {
                editor.wrap_body(Handler::Finally(vec![Opcode::Nop.into()]), None).unwrap();
                assert_eq!(editor.add_local(&INT), Ok(u16::from(locals.is_some())));
                editor.set_local_signature(Token(0x1100_0002));
            }
            assert_eq!(editor.local_signature(), fresh.local_signature());
            assert_eq!(editor.finish_with(8), fresh.finish_with(8));
        }
    }

    #[test]
    fn three_ways_to_insert() {
        // 0: br.s 3; 2: nop; 3: ret
        let original = [0x2b, 1, 0x00, 0x2a];
        let at = |change: fn(&mut MethodEditor, InstructionId)| {
            let mut editor = editor(&original);
            let ret = editor.at_offset(3).unwrap();
            change(&mut editor, ret);
            code(&editor)
        };
        assert_eq!(at(|_, _| {}), original);
        assert_eq!(
            at(|e, ret| _ = e.insert_before(ret, Opcode::Break)),
            [0x2b, 2, 0x00, 0x01, 0x2a]
        );
        assert_eq!(at(|e, ret| _ = e.insert_at(ret, Opcode::Break)), [0x2b, 1, 0x00, 0x01, 0x2a]);
        assert_eq!(
            at(|e, ret| _ = e.insert_after(ret, Opcode::Break)),
            [0x2b, 1, 0x00, 0x2a, 0x01]
        );
        assert_eq!(at(|e, ret| e.replace(ret, Opcode::Throw)), [0x2b, 1, 0x00, 0x7a]);
        assert_eq!(editor(&original).at_offset(1), None);
    }

    #[test]
    fn instructions_without_a_node_are_there_all_the_same() {
        // 0: nop; 1: ldc 1000; 6: pop; 7: ret
        let original = [0x00, 0x20, 0xe8, 3, 0, 0, 0x26, 0x2a];
        let mut editor = editor(&original);
        let ids: Vec<InstructionId> = editor.ids().collect();
        let offsets: Vec<Option<u32>> = ids.iter().map(|&id| editor.original_offset(id)).collect();
        assert_eq!(offsets, [Some(0), Some(1), Some(6), Some(7)]);
        assert_eq!(editor.instruction(ids[1]), Some(NewInstruction::ldc_i4(1000)));
        assert_eq!(
            (editor.previous(ids[0]), editor.next(ids[3])),
            (MethodEditor::END, MethodEditor::END)
        );
        assert_eq!((editor.previous(ids[2]), editor.next(ids[2])), (ids[1], ids[3]));
        assert!(editor.targets_mut(ids[1]).is_empty());
        // Probes from the last one to the first one.
        let probes: Vec<_> =
            ids.iter().rev().map(|&id| editor.insert_before(id, Opcode::Break)).collect();
        assert_eq!((editor.previous(ids[2]), editor.next(ids[1])), (probes[1], probes[1]));
        assert_eq!(code(&editor), [1, 0, 1, 0x20, 0xe8, 3, 0, 0, 1, 0x26, 1, 0x2a]);
        probes.into_iter().for_each(|probe| editor.remove(probe));
        assert_eq!(code(&editor), original);
        assert!(editor.ids().eq(ids));
    }

    #[test]
    fn a_removed_instruction_stands_for_the_next() {
        let mut editor = editor(&[0x2b, 1, 0x00, 0x01, 0x2a]);
        let gone = editor.at_offset(3).unwrap();
        editor.remove(gone);
        editor.remove(editor.first());
        editor.insert_before(gone, Opcode::Break);
        assert_eq!(code(&editor), [0x00, 0x01, 0x2a]);
        assert_eq!(editor.instruction(gone).unwrap().opcode, Opcode::Ret);
        editor.remove(gone);
        editor.remove(gone);
        assert_eq!((code(&editor), editor.instruction(gone)), (vec![0x00, 0x01], None));
        // Ids and labels of nowhere do no harm.
        editor.remove(InstructionId(99));
        editor.bind(Label(99), InstructionId(99));
        assert_eq!(code(&editor), [0x00, 0x01]);
    }

    #[test]
    fn branches_are_as_long_as_they_need() {
        let with = |nops: usize| {
            let mut editor = MethodEditor::empty();
            let (start, end) = (editor.label(), editor.label());
            let first = editor.push(NewInstruction::branch(Opcode::Br, end));
            editor.bind(start, first);
            for _ in 0..nops {
                editor.push(Opcode::Nop);
            }
            let last = editor.push(NewInstruction::branch(Opcode::BrS, start));
            editor.bind(end, last);
            code(&editor)
        };
        // Forwards 127 fit; back, 126 and the two branches themselves.
        assert_eq!(with(124).len(), 128);
        assert_eq!(with(124)[124 + 2..], [0x2b, 0x80]);
        assert_eq!(with(125).len(), 2 + 125 + 5);
        assert_eq!(with(127).len(), 2 + 127 + 5);
        assert_eq!(with(128).len(), 5 + 128 + 5);
        assert_eq!(with(128)[..5], [0x38, 128, 0, 0, 0]);
    }

    #[test]
    fn one_long_branch_makes_another_one_long() {
        let mut editor = MethodEditor::empty();
        let (a, b) = (editor.label(), editor.label());
        // The first reaches `a` only while the second is short.
        editor.push(NewInstruction::branch(Opcode::Br, a));
        editor.push(NewInstruction::branch(Opcode::Br, b));
        for _ in 0..125 {
            editor.push(Opcode::Nop);
        }
        let id = editor.push(Opcode::Nop);
        editor.bind(a, id);
        for _ in 0..10 {
            editor.push(Opcode::Nop);
        }
        let id = editor.push(Opcode::Ret);
        editor.bind(b, id);
        let code = code(&editor);
        assert_eq!((code[0], code[5]), (0x38, 0x38));
        let targets: Vec<u32> =
            crate::instructions(&code).filter_map(Result::ok).flat_map(|i| i.targets()).collect();
        assert_eq!(targets, [135, 146]);
    }

    #[test]
    fn switches_and_retargeting() {
        let original = [0x17, 0x45, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x00, 0x00, 0x2a];
        let mut editor = editor(&original);
        assert_eq!(code(&editor), original);
        let switch = editor.at_offset(1).unwrap();
        let ret = editor.at_offset(16).unwrap();
        let to_ret = editor.label_of(ret);
        editor.targets_mut(switch)[0] = to_ret;
        editor.insert_at(ret, Opcode::Nop);
        assert_eq!(code(&editor)[6..14], [2, 0, 0, 0, 1, 0, 0, 0]);
        assert!(editor.targets_mut(ret).is_empty());
    }

    #[test]
    fn offsets_map_what_is_left() {
        let mut editor = editor(&[0x00, 0x01, 0x2a]);
        editor.remove(editor.at_offset(1).unwrap());
        editor.insert_before(editor.first(), NewInstruction::ldc_i4(1000));
        editor.insert_after(editor.first(), Opcode::Pop);
        let offsets = editor.finish_with(8).unwrap().offsets;
        assert_eq!(offsets, [OffsetPair { old: 0, new: 6 }, OffsetPair { old: 2, new: 7 }]);
    }

    #[test]
    fn locals_grow() {
        let header =
            MethodHeader { local_signature: Token(0x1100_0001), ..MethodHeader::default() };
        let known = MethodBody { header, ..body(&[0x2a], Vec::new()) };
        let mut editor = MethodEditor::new(&known, Some(&[0x07, 1, 0x0e])).unwrap();
        assert_eq!(editor.add_local(&INT), Ok(1));
        assert_eq!(editor.local_signature().unwrap(), [0x07, 2, 0x0e, 0x08]);
        assert_eq!(editor.finish_with(8), Err(EditError::LocalsWithoutToken));
        editor.set_local_signature(Token(0x1100_0002));
        assert_eq!(editor.finish_with(8).unwrap().body.header.local_signature, Token(0x1100_0002));
        // The count needs two bytes from 128 on.
        for _ in 2..128 {
            editor.add_local(&INT).unwrap();
        }
        let blob = editor.local_signature().unwrap();
        assert_eq!(
            (&blob[..4], decode_locals(&blob).unwrap().len()),
            (&[0x07, 0x80, 0x80, 0x0e][..], 128)
        );
        let again = MethodEditor::new(&known, Some(&blob)).unwrap();
        assert_eq!(again.local_signature().unwrap(), blob);

        let mut unknown = MethodEditor::new(&known, None).unwrap();
        assert_eq!(unknown.add_local(&INT), Err(EditError::LocalsUnknown));
        let mut none = MethodEditor::empty();
        assert_eq!((none.local_signature(), none.add_local(&INT)), (None, Ok(0)));
    }

    #[test]
    fn shortest_forms() {
        let bytes = |instruction: NewInstruction| {
            let mut editor = MethodEditor::empty();
            editor.push(instruction);
            code(&editor)
        };
        assert_eq!(bytes(NewInstruction::ldc_i4(-1)), [0x15]);
        assert_eq!(bytes(NewInstruction::ldc_i4(8)), [0x1e]);
        assert_eq!(bytes(NewInstruction::ldc_i4(-2)), [0x1f, 0xfe]);
        assert_eq!(bytes(NewInstruction::ldc_i4(128)), [0x20, 128, 0, 0, 0]);
        assert_eq!(bytes(NewInstruction::ldc_i4(i32::MIN)), [0x20, 0, 0, 0, 0x80]);
        assert_eq!(bytes(NewInstruction::ldloc(3)), [0x09]);
        assert_eq!(bytes(NewInstruction::ldloc(4)), [0x11, 4]);
        assert_eq!(bytes(NewInstruction::stloc(256)), [0xfe, 0x0e, 0, 1]);
        assert_eq!(bytes(NewInstruction::starg(0)), [0x10, 0]);
        let error = |instruction: NewInstruction| {
            let mut editor = MethodEditor::empty();
            editor.push(instruction);
            editor.finish_with(8).unwrap_err()
        };
        assert_eq!(error(Opcode::Call.into()), EditError::Operand { opcode: Opcode::Call });
        let wide = NewInstruction::plain(Opcode::LdlocS, Operand::Local(256));
        assert_eq!(error(wide), EditError::Operand { opcode: Opcode::LdlocS });
        let mut unbound = MethodEditor::empty();
        let label = unbound.label();
        unbound.push(NewInstruction::branch(Opcode::Br, label));
        assert_eq!(unbound.finish_with(8), Err(EditError::UnboundLabel { what: Opcode::Br }));
    }

    #[test]
    fn wrap_a_body_that_returns_from_two_places() {
        // 0: ldarg.0; 1: brfalse.s 5; 3: ldc 1; 4: ret; 5: ldc 2; 6: ret
        let mut editor = editor(&[0x02, 0x2c, 2, 0x17, 0x2a, 0x18, 0x2a]);
        let result = editor.add_local(&INT).unwrap();
        editor.set_local_signature(Token(0x1100_0001));
        editor.wrap_body(Handler::Finally(vec![Opcode::Nop.into()]), Some(result)).unwrap();
        let edited =
            check(&editor, MethodShape { arguments: 1, locals: 1, returns: true }).unwrap();
        assert_eq!(
            *edited.body.code,
            [0x02, 0x2c, 4, 0x17, 0x0a, 0xde, 6, 0x18, 0x0a, 0xde, 2, 0x00, 0xdc, 0x06, 0x2a]
        );
        assert_eq!(edited.body.clauses[0].try_block, CodeRange { start: 0, end: 11 });
        assert_eq!(edited.body.clauses[0].handler, CodeRange { start: 11, end: 13 });
        assert_eq!(edited.body.header.max_stack, 1);
    }

    #[test]
    fn wrap_by_a_filter() {
        let mut editor = editor(&[0x2a]);
        let filter = vec![Opcode::Pop.into(), NewInstruction::ldc_i4(1)];
        editor.wrap_body(Handler::Filter { filter, code: vec![Opcode::Pop.into()] }, None).unwrap();
        let edited = check(&editor, MethodShape::default()).unwrap();
        assert_eq!(*edited.body.code, [0xde, 7, 0x26, 0x17, 0xfe, 0x11, 0x26, 0xde, 0, 0x2a]);
        assert_eq!(edited.body.clauses[0].kind, ClauseKind::Filter(2));
    }

    #[test]
    fn wrap_inside_a_try_block() {
        // 0: nop; 1: ldarg.0; 2: brtrue.s 5; 4: nop; 5: leave.s 8; 7: endfinally; 8: ret
        let clause = ExceptionClause {
            kind: ClauseKind::Finally,
            try_block: CodeRange { start: 0, end: 7 },
            handler: CodeRange { start: 7, end: 8 },
        };
        let code = [0x00, 0x02, 0x2d, 1, 0x00, 0xde, 1, 0xdc, 0x2a];
        let mut editor = MethodEditor::new(&body(&code, vec![clause]), None).unwrap();
        let (start, end) = (editor.at_offset(1).unwrap(), editor.at_offset(5).unwrap());
        let exception = Token(0x0100_0001);
        let handler = Handler::Catch { exception, code: vec![Opcode::Pop.into()] };
        editor.wrap(start, end, handler, None).unwrap();
        let edited =
            check(&editor, MethodShape { arguments: 1, ..MethodShape::default() }).unwrap();
        let [inner, outer] = &edited.body.clauses[..] else { panic!("{:?}", edited.body.clauses) };
        assert_eq!((inner.kind, outer.kind), (ClauseKind::Catch(exception), ClauseKind::Finally));
        assert_eq!(inner.try_block, CodeRange { start: 1, end: 9 });
        assert_eq!(inner.handler, CodeRange { start: 9, end: 12 });
        assert_eq!(outer.try_block, CodeRange { start: 0, end: 14 });
        // The branch to behind the try block goes by way of a `leave`.
        assert_eq!(edited.body.code[1..9], [0x02, 0x2d, 3, 0x00, 0xde, 5, 0xde, 3]);
    }

    #[test]
    fn handlers_of_exceptions_can_begin_with_something_else() {
        let mut editor = editor(&[0x00, 0x2a]);
        let exception = Token(0x0100_0001);
        for handler in [
            Handler::Finally(vec![Opcode::Nop.into()]),
            Handler::Catch { exception, code: vec![Opcode::Pop.into()] },
            Handler::Filter {
                filter: vec![Opcode::Pop.into(), NewInstruction::ldc_i4(1)],
                code: vec![Opcode::Pop.into()],
            },
            Handler::Fault(vec![Opcode::Nop.into()]),
        ] {
            editor.wrap_body(handler, None).unwrap();
        }
        let before = check(&editor, MethodShape::default()).unwrap().body;
        let handlers = editor.exception_handlers();
        assert_eq!(handlers.len(), 3, "a finally block is none");
        for handler in handlers {
            editor.insert_at(handler, Opcode::Nop);
        }
        let after = check(&editor, MethodShape::default()).unwrap().body;
        let code = &after.code;
        for (before, after) in before.clauses.iter().zip(&after.clauses) {
            let length = |of: CodeRange| of.end - of.start;
            let grown = u32::from(before.kind != ClauseKind::Finally);
            assert_eq!(length(after.handler), length(before.handler) + grown, "{:?}", after.kind);
            assert_eq!(code[after.handler.start as usize], 0x00, "{:?}", after.kind);
        }
    }

    #[test]
    fn tail_calls_come_back() {
        struct Void;
        impl Tokens for Void {
            fn call_effect(&self, _: Token) -> Option<CallEffect> {
                Some(CallEffect { has_this: false, parameters: 0, returns: false })
            }
        }
        let mut editor = editor(&[0xfe, 0x14, 0x28, 1, 0, 0, 6, 0x2a]);
        editor.wrap_body(Handler::Fault(Vec::new()), None).unwrap();
        let edited = editor.finish(false, &Void).unwrap();
        assert_eq!(*edited.body.code, [0x28, 1, 0, 0, 6, 0xde, 1, 0xdc, 0x2a]);
        assert_eq!(edited.body.clauses[0].try_block.start, 0);
    }

    #[test]
    fn what_cannot_be_wrapped() {
        let wrap = |code: &[u8], start: u32, end: Option<u32>| {
            let mut editor = editor(code);
            let at = |offset| editor.at_offset(offset).unwrap();
            let (start, end) = (at(start), end.map_or(MethodEditor::END, at));
            editor.wrap(start, end, Handler::Finally(Vec::new()), None)
        };
        assert_eq!(wrap(&[0x27, 1, 0, 0, 6], 0, None), Err(EditError::Jump));
        assert_eq!(wrap(&[0x00, 0x2a], 1, Some(1)), Err(EditError::EmptyRange));
        assert_eq!(wrap(&[0x00, 0x2a], 1, Some(0)), Err(EditError::EmptyRange));
        assert_eq!(wrap(&[0x00], 0, None), Err(EditError::FallsOff));
        assert_eq!(wrap(&[0x00, 0x00, 0x2b, 0xfd], 0, Some(2)), Err(EditError::BranchInto));
        assert_eq!(wrap(&[0x00, 0x00, 0x2b, 0xfc], 0, Some(2)), Ok(()));
        let outside = MethodEditor::new(&body(&[0x2b, 9], Vec::new()), None);
        assert_eq!(outside.unwrap_err(), EditError::Target { target: 11 });
    }

    #[test]
    fn a_clause_is_wrapped_whole_or_not_at_all() {
        // 0: nop; 1: leave.s 5; 3: nop; 4: endfinally; 5: nop; 6: ret
        let clause = ExceptionClause {
            kind: ClauseKind::Finally,
            try_block: CodeRange { start: 0, end: 3 },
            handler: CodeRange { start: 3, end: 5 },
        };
        let code = [0x00, 0xde, 2, 0x00, 0xdc, 0x00, 0x2a];
        let wrap = |start, end| {
            let mut editor = MethodEditor::new(&body(&code, vec![clause]), None).unwrap();
            let (start, end) = (editor.at_offset(start).unwrap(), editor.at_offset(end).unwrap());
            let before = editor.finish_with(8).unwrap();
            let wrapped = editor.wrap(start, end, Handler::Fault(Vec::new()), None);
            assert!(wrapped.is_ok() || editor.finish_with(8).unwrap() == before);
            wrapped.map(|()| check(&editor, MethodShape::default()).unwrap().body.clauses.len())
        };
        let cut = Err(EditError::CutsClause { clause: 0 });
        assert_eq!([wrap(1, 4), wrap(1, 5), wrap(0, 4)], [cut; 3]);
        // All of it and more, exactly it, exactly the try block, a part of the try block, what
        // follows.
        for (start, end) in [(0, 6), (0, 5), (0, 3), (1, 3), (5, 6)] {
            assert_eq!(wrap(start, end), Ok(2), "{start} to {end}");
        }
    }
}
