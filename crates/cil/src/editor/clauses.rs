//! Exception clauses with labels in place of offsets.

use super::{InstructionId, Label, MethodEditor};
use crate::{ClauseKind, Token};

#[derive(Clone, Copy, Debug)]
pub(super) enum NewClauseKind {
    Catch(Token),
    Filter(Label),
    Finally,
    Fault,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NewClause {
    pub(super) kind: NewClauseKind,
    pub(super) try_block: (Label, Label),
    pub(super) handler: (Label, Label),
}

impl NewClause {
    /// Try block, filter if there is one, handler.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Label, Label)> {
        let filter = match self.kind {
            NewClauseKind::Filter(start) => Some((start, self.handler.0)),
            _ => None,
        };
        [self.try_block, self.handler].into_iter().chain(filter)
    }
}

impl MethodEditor {
    /// Adds a clause behind all others, so it has to be the outermost one, or to share nothing with
    /// them. Ends are the first instructions behind. A filter starts at the label `filter`,
    /// whatever offset `kind` says, and ends where the handler starts.
    pub fn add_clause(
        &mut self,
        kind: ClauseKind,
        filter: Option<Label>,
        try_block: (Label, Label),
        handler: (Label, Label),
    ) {
        let kind = match kind {
            ClauseKind::Catch(token) => NewClauseKind::Catch(token),
            ClauseKind::Filter(_) => NewClauseKind::Filter(filter.unwrap_or(handler.0)),
            ClauseKind::Finally => NewClauseKind::Finally,
            ClauseKind::Fault => NewClauseKind::Fault,
        };
        self.clauses.push(NewClause { kind, try_block, handler });
    }

    /// The first instructions of handlers that only run because of an exception: of catch, filter
    /// and fault clauses, as they are now.
    #[must_use]
    pub fn exception_handlers(&self) -> Vec<InstructionId> {
        let clauses =
            self.clauses.iter().filter(|clause| !matches!(clause.kind, NewClauseKind::Finally));
        clauses.filter_map(|clause| self.bound_to(clause.handler.0)).collect()
    }
}
