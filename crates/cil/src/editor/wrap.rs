//! Code put into try blocks. Source of the rules: ECMA-335 III.1.7 and I.12.4.2.8.

use super::{
    END, EditError, InstructionId, Label, MethodEditor, NONE, NewClause, NewClauseKind,
    NewInstruction, Node,
};
use crate::{Flow, Opcode, Token};
use std::collections::BTreeMap;

/// A handler to add, without the instruction that ends it: `endfinally`, or `leave` to behind it,
/// is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// Starts with the exception on the stack and has to take it off.
    Catch {
        /// Type of the exceptions (`TypeDef`, `TypeRef` or `TypeSpec`).
        exception: Token,
        /// What to do.
        code: Vec<NewInstruction>,
    },
    /// Both parts start with the exception on the stack.
    Filter {
        /// Leaves 1 on the stack to handle the exception, 0 to pass; `endfilter` is added.
        filter: Vec<NewInstruction>,
        /// What to do.
        code: Vec<NewInstruction>,
    },
    /// Runs whenever control leaves the protected code.
    Finally(Vec<NewInstruction>),
    /// Runs when an exception leaves the protected code.
    Fault(Vec<NewInstruction>),
}

impl MethodEditor {
    /// Makes a `leave` to `exit` of every `ret`, with the value stored into the local `result`
    /// before, if the method returns one.
    pub fn replace_returns(&mut self, result: Option<u16>, exit: Label) {
        for index in 0..self.nodes.len() {
            let node =
                self.nodes.get(index).filter(|node| node.opcode == Opcode::Ret && !node.removed);
            if let Some(id) = node.map(|node| InstructionId(node.place)) {
                self.replace_return(id, result, exit);
            }
        }
    }

    fn replace_return(&mut self, at: InstructionId, result: Option<u16>, exit: Label) {
        let leave = NewInstruction::branch(Opcode::Leave, exit);
        match result {
            Some(local) => {
                self.replace(at, NewInstruction::stloc(local));
                self.insert_after(at, leave);
            }
            None => self.replace(at, leave),
        }
    }

    fn positions(&self) -> Positions {
        let places = self.places.len();
        if self.is_as_made {
            return Positions::AsMade(places as u32);
        }
        let mut positions = vec![NONE; places];
        let in_order = self.stretches().flat_map(|stretch| stretch.node.place..stretch.end);
        for (position, place) in (0..).zip(in_order) {
            if let Some(slot) = positions.get_mut(place as usize) {
                *slot = position;
            }
        }
        Positions::Moved(positions)
    }

    /// Protects the whole body. See [`MethodEditor::wrap`].
    ///
    /// # Errors
    /// As [`MethodEditor::wrap`].
    pub fn wrap_body(&mut self, handler: Handler, result: Option<u16>) -> Result<(), EditError> {
        self.wrap(self.first(), Self::END, handler, result)
    }

    /// Protects the instructions from `start` to in front of `end` by a handler, which is placed
    /// behind them.
    ///
    /// What leaves them leaves them by the rules afterwards: each `ret` becomes a `leave` to a
    /// `ret` at the end of the method, by way of the local `result`, which has to have the method's
    /// return type (`None` for a method without one); branches to the outside become `leave`.
    /// `tail.` prefixes are dropped, since a call inside a try block has to come back. A catch
    /// handler continues at `end`, or in front of the last `ret` if that is the end of the method;
    /// what is then in `result` is the value returned.
    ///
    /// The stack has to be empty at `start`, at `end` and on the branches to the outside;
    /// [`crate::verify()`] finds where it is not.
    ///
    /// # Errors
    /// Nothing to protect, `jmp` inside, a branch from outside to other than `start`, a clause that
    /// is partly inside, or an end that control runs off. Nothing is changed then.
    pub fn wrap(
        &mut self,
        start: InstructionId,
        end: InstructionId,
        handler: Handler,
        result: Option<u16>,
    ) -> Result<(), EditError> {
        let (start, end) = (InstructionId(self.live(start)), InstructionId(self.live(end)));
        let positions = self.positions();
        let position = |place: u32| positions.of(place);
        let (from, to) = (position(start.0), position(end.0));
        if from >= to {
            return Err(EditError::EmptyRange);
        }
        let is_inside = |place: u32| (from..to).contains(&position(place));

        let falls_out =
            self.opcode(self.preceding(end.0)).is_some_and(|last| last.flow().continues());
        if falls_out && end == Self::END {
            return Err(EditError::FallsOff);
        }

        // Nobody but the protected code itself may go to its middle.
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_turning()) {
            if is_inside(node.place) {
                if node.opcode == Opcode::Jmp {
                    return Err(EditError::Jump);
                }
                continue;
            }
            for &label in self.targets(index) {
                let target = self.bound_to(label);
                if target.is_some_and(|target| target != start && is_inside(target.0)) {
                    return Err(EditError::BranchInto);
                }
            }
        }

        // Inner clauses come first, so the new one goes in front of the first one around.
        let mut index = self.clauses.len();
        let mut inner = Vec::new();
        for (number, clause) in self.clauses.iter().enumerate() {
            let place = |label: Label| self.bound_to(label).map_or(NONE, |id| position(id.0));
            let (mut parts, mut inside, mut around) = (0, 0, 0);
            for (a, b) in clause.parts() {
                let (a, b) = (place(a), place(b));
                parts += 1;
                inside += u32::from(from <= a && b <= to);
                around += u32::from(a <= from && to <= b);
                let apart = b <= from || to <= a;
                if !(apart || from <= a && b <= to || a <= from && to <= b) {
                    return Err(EditError::CutsClause { clause: number });
                }
            }
            if inside == parts {
                inner.push(number);
            } else if around > 0 {
                index = index.min(number);
            } else if inside > 0 {
                return Err(EditError::CutsClause { clause: number });
            }
        }

        let exit = self.label();
        let mut exit_used = false;
        let mut detours = Detours::default();
        let goes_out = |editor: &Self, label| {
            editor.bound_to(label).is_none_or(|target: InstructionId| !is_inside(target.0))
        };
        for index in 0..self.nodes.len() {
            let node =
                self.nodes.get(index).filter(|node| node.is_turning() && is_inside(node.place));
            let Some(&Node { opcode, place, .. }) = node else { continue };
            let id = InstructionId(place);
            match opcode.flow() {
                Flow::Return => {
                    self.replace_return(id, result, exit);
                    exit_used = true;
                }
                Flow::Prefix if opcode == Opcode::Tail => self.remove(id),
                Flow::Branch | Flow::Conditional => {
                    let labels = self.targets(index);
                    if !labels.iter().any(|&label| goes_out(self, label)) {
                        continue;
                    }
                    let mut targets = labels.to_vec();
                    if let (Flow::Branch, Some(&label)) = (opcode.flow(), targets.first()) {
                        self.replace(id, NewInstruction::branch(Opcode::Leave, label));
                        continue;
                    }
                    for label in &mut targets {
                        if goes_out(self, *label) {
                            *label = detours.by_way_of(*label, || self.label());
                        }
                    }
                    self.targets_mut(id).copy_from_slice(&targets);
                }
                _ => {}
            }
        }

        // A removed `tail.` may have been the first instruction.
        let try_start = self.new_label_at(start);
        // Behind the handler: the code that follows, or the `ret` at the end.
        let behind = if end == Self::END { exit } else { self.new_label_at(end) };
        let mut first_inserted = None;
        if falls_out {
            first_inserted =
                Some(self.insert_before(end, NewInstruction::branch(Opcode::Leave, behind)));
        }
        for (target, detour) in detours.list {
            let leave = self.insert_before(end, NewInstruction::branch(Opcode::Leave, target));
            self.bind(detour, leave);
            first_inserted.get_or_insert(leave);
        }
        let mut emit = |editor: &mut Self, code: Vec<NewInstruction>, last: NewInstruction| {
            let mut first = None;
            for instruction in code.into_iter().chain([last]) {
                let id = editor.insert_before(end, instruction);
                first.get_or_insert(id);
                first_inserted.get_or_insert(id);
            }
            editor.new_label_at(first.unwrap_or(end))
        };
        let leave = NewInstruction::branch(Opcode::Leave, behind);
        let end_finally = NewInstruction::from(Opcode::Endfinally);
        let (kind, try_end, handler_start) = match handler {
            Handler::Catch { exception, code } => {
                exit_used |= end == Self::END;
                let start = emit(self, code, leave);
                (NewClauseKind::Catch(exception), start, start)
            }
            Handler::Filter { filter, code } => {
                exit_used |= end == Self::END;
                let filter = emit(self, filter, Opcode::Endfilter.into());
                let start = emit(self, code, leave);
                (NewClauseKind::Filter(filter), filter, start)
            }
            Handler::Finally(code) => {
                let start = emit(self, code, end_finally);
                (NewClauseKind::Finally, start, start)
            }
            Handler::Fault(code) => {
                let start = emit(self, code, end_finally);
                (NewClauseKind::Fault, start, start)
            }
        };

        // Clauses inside that ended at `end` end in front of what was inserted. Clauses around stay
        // as they are.
        for number in inner {
            let Some(&NewClause { mut try_block, mut handler, .. }) = self.clauses.get(number)
            else {
                continue;
            };
            // Another label instead of another place for the same one: branches may use it too.
            for label in [&mut try_block.1, &mut handler.1] {
                if self.bound_to(*label) == Some(end) {
                    *label = self.new_label_at(first_inserted.unwrap_or(end));
                }
            }
            if let Some(clause) = self.clauses.get_mut(number) {
                (clause.try_block, clause.handler) = (try_block, handler);
            }
        }
        let handler_end = self.new_label_at(end);
        let new = NewClause {
            kind,
            try_block: (try_start, try_end),
            handler: (handler_start, handler_end),
        };
        self.clauses.insert(index, new);

        if exit_used {
            let load = result.map(NewInstruction::ldloc);
            let mut first = None;
            for instruction in load.into_iter().chain([Opcode::Ret.into()]) {
                let id = self.push(instruction);
                first.get_or_insert(id);
            }
            self.bind(exit, first.unwrap_or(Self::END));
        }
        Ok(())
    }
}

/// Where places are in the code.
enum Positions {
    /// In the order in which they were made: those below a limit.
    AsMade(u32),
    /// By place.
    Moved(Vec<u32>),
}

impl Positions {
    /// [`NONE`] for the end, and for places that were made later.
    fn of(&self, place: u32) -> u32 {
        let known = match self {
            Self::AsMade(limit) => Some(place).filter(|place| place < limit),
            Self::Moved(positions) => positions.get(place as usize).copied(),
        };
        known.filter(|_| place != END).unwrap_or(NONE)
    }
}

/// `leave` instructions that conditional branches out of a try block go by.
#[derive(Default)]
struct Detours {
    by_target: BTreeMap<u32, Label>,
    /// Target and detour, in the order of need.
    list: Vec<(Label, Label)>,
}

impl Detours {
    fn by_way_of(&mut self, target: Label, new: impl FnOnce() -> Label) -> Label {
        *self.by_target.entry(target.0).or_insert_with(|| {
            let detour = new();
            self.list.push((target, detour));
            detour
        })
    }
}
