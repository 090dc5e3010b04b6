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
        let protected = self.protected(start, end)?;
        let end = protected.end;
        let falls_out =
            self.opcode(self.preceding(end.0)).is_some_and(|last| last.flow().continues());
        if falls_out && end == Self::END {
            return Err(EditError::FallsOff);
        }
        self.check_entries(&protected)?;
        let (index, inner) = self.clauses_around(&protected)?;

        let exit = self.label();
        let (has_returns, detours) = self.redirect_exits(&protected, result, exit);
        // A removed `tail.` may have been the first instruction.
        let try_start = self.new_label_at(protected.start);
        // Behind the handler: the code that follows, or the `ret` at the end.
        let behind = if end == Self::END { exit } else { self.new_label_at(end) };
        let mut appended = Appended { end, first: None };
        if falls_out {
            appended.push(self, NewInstruction::branch(Opcode::Leave, behind));
        }
        for (target, detour) in detours.list {
            let leave = appended.push(self, NewInstruction::branch(Opcode::Leave, target));
            self.bind(detour, leave);
        }
        let continues = matches!(handler, Handler::Catch { .. } | Handler::Filter { .. });
        let (kind, try_end, handler_start) = appended.handler(self, handler, behind);

        self.end_clauses_before(&inner, end, appended.first.unwrap_or(end));
        let handler_end = self.new_label_at(end);
        let new = NewClause {
            kind,
            try_block: (try_start, try_end),
            handler: (handler_start, handler_end),
        };
        self.clauses.insert(index, new);

        if has_returns || continues && end == Self::END {
            self.return_at(exit, result);
        }
        Ok(())
    }

    /// The instructions from `start` to in front of `end`.
    fn protected(&self, start: InstructionId, end: InstructionId) -> Result<Protected, EditError> {
        let (start, end) = (InstructionId(self.live(start)), InstructionId(self.live(end)));
        let positions = self.positions();
        let (from, to) = (positions.of(start.0), positions.of(end.0));
        if from >= to {
            return Err(EditError::EmptyRange);
        }
        Ok(Protected { start, end, from, to, positions })
    }

    /// Nobody but the protected code itself may go to its middle.
    fn check_entries(&self, protected: &Protected) -> Result<(), EditError> {
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_turning()) {
            if protected.contains(node.place) {
                if node.opcode == Opcode::Jmp {
                    return Err(EditError::Jump);
                }
                continue;
            }
            for &label in self.targets(index) {
                let target = self.bound_to(label);
                if target
                    .is_some_and(|target| target != protected.start && protected.contains(target.0))
                {
                    return Err(EditError::BranchInto);
                }
            }
        }
        Ok(())
    }

    /// Where a new clause goes in the list, and the numbers of the clauses that are inside of it.
    fn clauses_around(&self, protected: &Protected) -> Result<(usize, Vec<usize>), EditError> {
        let &Protected { from, to, .. } = protected;
        // Inner clauses come first, so the new one goes in front of the first one around.
        let mut index = self.clauses.len();
        let mut inner = Vec::new();
        for (number, clause) in self.clauses.iter().enumerate() {
            let place =
                |label: Label| self.bound_to(label).map_or(NONE, |id| protected.positions.of(id.0));
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
        Ok((index, inner))
    }

    /// Lets everything that leaves the protected code do so by a `leave`, and drops `tail.`.
    /// Returns whether any `ret` goes to `exit` now, and the detours that are still to be placed.
    fn redirect_exits(
        &mut self,
        protected: &Protected,
        result: Option<u16>,
        exit: Label,
    ) -> (bool, Detours) {
        let mut has_returns = false;
        let mut detours = Detours::default();
        for index in 0..self.nodes.len() {
            let node = self
                .nodes
                .get(index)
                .filter(|node| node.is_turning() && protected.contains(node.place));
            let Some(&Node { opcode, place, .. }) = node else { continue };
            let id = InstructionId(place);
            match opcode.flow() {
                Flow::Return => {
                    self.replace_return(id, result, exit);
                    has_returns = true;
                }
                Flow::Prefix if opcode == Opcode::Tail => self.remove(id),
                Flow::Branch | Flow::Conditional => {
                    self.redirect_branch(index, protected, &mut detours);
                }
                _ => {}
            }
        }
        (has_returns, detours)
    }

    /// Makes a `leave` of a branch out of the protected code, or lets a conditional one go there by
    /// way of a `leave`.
    fn redirect_branch(&mut self, index: usize, protected: &Protected, detours: &mut Detours) {
        let goes_out = |editor: &Self, label| {
            editor.bound_to(label).is_none_or(|target| !protected.contains(target.0))
        };
        let Some(&Node { opcode, place, .. }) = self.nodes.get(index) else { return };
        let id = InstructionId(place);
        let labels = self.targets(index);
        if !labels.iter().any(|&label| goes_out(self, label)) {
            return;
        }
        let mut targets = labels.to_vec();
        if let (Flow::Branch, Some(&label)) = (opcode.flow(), targets.first()) {
            self.replace(id, NewInstruction::branch(Opcode::Leave, label));
            return;
        }
        for label in &mut targets {
            if goes_out(self, *label) {
                *label = detours.by_way_of(*label, || self.label());
            }
        }
        self.targets_mut(id).copy_from_slice(&targets);
    }

    /// Lets clauses inside the protected code that ended at `end` end at `inserted`, which is in
    /// front of it. Clauses around stay as they are.
    fn end_clauses_before(&mut self, inner: &[usize], end: InstructionId, inserted: InstructionId) {
        for &number in inner {
            let Some(&NewClause { mut try_block, mut handler, .. }) = self.clauses.get(number)
            else {
                continue;
            };
            // Another label instead of another place for the same one: branches may use it too.
            for label in [&mut try_block.1, &mut handler.1] {
                if self.bound_to(*label) == Some(end) {
                    *label = self.new_label_at(inserted);
                }
            }
            if let Some(clause) = self.clauses.get_mut(number) {
                (clause.try_block, clause.handler) = (try_block, handler);
            }
        }
    }

    /// Ends the method by a `ret` at `exit`, which returns what is in `result`.
    fn return_at(&mut self, exit: Label, result: Option<u16>) {
        let load = result.map(NewInstruction::ldloc);
        let mut first = None;
        for instruction in load.into_iter().chain([Opcode::Ret.into()]) {
            let id = self.push(instruction);
            first.get_or_insert(id);
        }
        self.bind(exit, first.unwrap_or(Self::END));
    }
}

/// The instructions that a new clause protects.
struct Protected {
    start: InstructionId,
    end: InstructionId,
    /// Positions of both.
    from: u32,
    to: u32,
    positions: Positions,
}

impl Protected {
    fn contains(&self, place: u32) -> bool {
        (self.from..self.to).contains(&self.positions.of(place))
    }
}

/// What is inserted between the protected code and what followed it.
struct Appended {
    /// Where the protected code ended.
    end: InstructionId,
    first: Option<InstructionId>,
}

impl Appended {
    fn push(&mut self, editor: &mut MethodEditor, instruction: NewInstruction) -> InstructionId {
        let id = editor.insert_before(self.end, instruction);
        self.first.get_or_insert(id);
        id
    }

    /// Appends a handler or a filter with the instruction that ends it. Returns its start.
    fn part(
        &mut self,
        editor: &mut MethodEditor,
        code: Vec<NewInstruction>,
        last: NewInstruction,
    ) -> Label {
        let mut first = None;
        for instruction in code.into_iter().chain([last]) {
            let id = self.push(editor, instruction);
            first.get_or_insert(id);
        }
        editor.new_label_at(first.unwrap_or(self.end))
    }

    /// Appends all parts of a handler. Returns its kind, the end of its try block and its start.
    fn handler(
        &mut self,
        editor: &mut MethodEditor,
        handler: Handler,
        behind: Label,
    ) -> (NewClauseKind, Label, Label) {
        let leave = NewInstruction::branch(Opcode::Leave, behind);
        let end_finally = NewInstruction::from(Opcode::Endfinally);
        match handler {
            Handler::Catch { exception, code } => {
                let start = self.part(editor, code, leave);
                (NewClauseKind::Catch(exception), start, start)
            }
            Handler::Filter { filter, code } => {
                let filter = self.part(editor, filter, Opcode::Endfilter.into());
                let start = self.part(editor, code, leave);
                (NewClauseKind::Filter(filter), filter, start)
            }
            Handler::Finally(code) => {
                let start = self.part(editor, code, end_finally);
                (NewClauseKind::Finally, start, start)
            }
            Handler::Fault(code) => {
                let start = self.part(editor, code, end_finally);
                (NewClauseKind::Fault, start, start)
            }
        }
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
