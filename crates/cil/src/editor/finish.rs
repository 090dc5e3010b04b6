//! The body that an edit comes to.

use super::clauses::NewClauseKind;
use super::error::EditError;
use super::{Edited, Label, MethodEditor};
use crate::{
    ClauseKind, CodeRange, ExceptionClause, HeaderFormat, MethodBody, MethodHeader, MethodShape,
    Opcode, StackHeights, Tokens, Verifier,
};
use std::borrow::Cow;

impl MethodEditor {
    /// Lays the code out and computes its maximal stack. `returns` says whether the method returns
    /// a value.
    ///
    /// # Errors
    /// An unbound label, an operand that does not fit its opcode, locals without a token, or code
    /// without a definite stack. What [`crate::verify()`] finds beyond that is not looked for.
    pub fn finish(&self, returns: bool, tokens: &impl Tokens) -> Result<Edited, EditError> {
        let mut edited = self.finish_with(self.header.max_stack)?;
        edited.body.header.max_stack = StackHeights::compute(&edited.body, returns, tokens)?.max();
        Ok(edited)
    }

    /// Lays the code out, computes its maximal stack, and checks it all as [`crate::verify()`]
    /// does, in one go and in the room of `verifier`. `shape` is that of the method with the locals
    /// that were added.
    ///
    /// # Errors
    /// As [`MethodEditor::finish`], and what the check finds.
    pub fn finish_verified(
        &self,
        shape: MethodShape,
        tokens: &impl Tokens,
        verifier: &mut Verifier,
    ) -> Result<Edited, EditError> {
        let mut edited = self.finish_with(self.header.max_stack)?;
        edited.body.header.max_stack = verifier.verify_stack_apart(&edited.body, shape, tokens)?;
        Ok(edited)
    }

    /// The same as [`MethodEditor::finish`] with a maximal stack that the caller knows.
    ///
    /// # Errors
    /// As [`MethodEditor::finish`], the stack aside.
    pub fn finish_with(&self, max_stack: u16) -> Result<Edited, EditError> {
        if self.has_new_locals() {
            return Err(EditError::LocalsWithoutToken);
        }
        let mut layout = self.layout.borrow_mut();
        let (code, offsets) = layout.write(self)?;
        let unbound = EditError::UnboundLabel { what: Opcode::Nop };
        let offset = |label: Label| layout.offset(self, label).ok_or(unbound);
        let range = |(start, end)| {
            Ok::<_, EditError>(CodeRange { start: offset(start)?, end: offset(end)? })
        };
        let mut clauses = Vec::with_capacity(self.clauses.len());
        for clause in &self.clauses {
            let kind = match clause.kind {
                NewClauseKind::Catch(token) => ClauseKind::Catch(token),
                NewClauseKind::Filter(start) => ClauseKind::Filter(offset(start)?),
                NewClauseKind::Finally => ClauseKind::Finally,
                NewClauseKind::Fault => ClauseKind::Fault,
            };
            clauses.push(ExceptionClause {
                kind,
                try_block: range(clause.try_block)?,
                handler: range(clause.handler)?,
            });
        }
        let header = MethodHeader { max_stack, ..self.header };
        Ok(Edited { body: MethodBody { header, code: Cow::Owned(code), clauses }, offsets })
    }

    /// How the header will be written.
    pub const fn set_format(&mut self, format: HeaderFormat) {
        self.header.format = format;
    }
}
