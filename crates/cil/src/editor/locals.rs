//! Local variables: those that a body has, and those that are added.

use super::MethodEditor;
use super::error::EditError;
use crate::signature::position_of_type;
use crate::{Token, TypeSig};

#[derive(Clone, Debug)]
pub(super) struct Locals {
    pub(super) count: u16,
    /// The types, encoded, without anything in front.
    pub(super) types: Vec<u8>,
    pub(super) grown: bool,
}

impl MethodEditor {
    /// Adds a local variable and gives its index. [`MethodEditor::set_local_signature`] has to
    /// follow.
    ///
    /// # Errors
    /// The other locals are unknown, there are too many, or the type cannot be encoded.
    pub fn add_local(&mut self, local: &TypeSig) -> Result<u16, EditError> {
        let locals = self.locals.as_mut().ok_or(EditError::LocalsUnknown)?;
        // Indices end at 65534: ECMA-335 III.3.43.
        let index = locals.count;
        let count = index.checked_add(1).ok_or(EditError::TooManyLocals)?;
        local.append_to(&mut locals.types)?;
        (locals.count, locals.grown) = (count, true);
        Ok(index)
    }

    /// Whether locals were added and [`MethodEditor::set_local_signature`] has not followed.
    #[must_use]
    pub fn has_new_locals(&self) -> bool {
        self.locals.as_ref().is_some_and(|locals| locals.grown)
    }

    /// The first local variable of exactly this type; `None` also if the locals are unknown.
    #[must_use]
    pub fn local_of(&self, of: &TypeSig) -> Option<u16> {
        let locals = self.locals.as_ref()?;
        position_of_type(&locals.types, locals.count, of)
    }

    /// The blob of the local signature as it is now: to be made a token of. `None` if it is unknown
    /// or there are no locals.
    #[must_use]
    pub fn local_signature(&self) -> Option<Vec<u8>> {
        let locals = self.locals.as_ref().filter(|locals| locals.count != 0)?;
        let mut blob = Vec::with_capacity(5 + locals.types.len());
        blob.push(0x07);
        push_compressed(locals.count.into(), &mut blob);
        blob.extend_from_slice(&locals.types);
        Some(blob)
    }

    /// Sets the token of the local signature.
    pub fn set_local_signature(&mut self, token: Token) {
        self.header.local_signature = token;
        if let Some(locals) = &mut self.locals {
            locals.grown = false;
        }
    }

    /// Whether locals start as zero.
    pub const fn set_init_locals(&mut self, init: bool) {
        self.header.init_locals = init;
    }
}

/// Appends a compressed unsigned number. ECMA-335 II.23.2.
fn push_compressed(value: u32, out: &mut Vec<u8>) {
    match value {
        0..=0x7f => out.push(value as u8),
        0x80..=0x3fff => out.extend_from_slice(&(value as u16 | 0x8000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000).to_be_bytes()),
    }
}

/// Bytes of a compressed number.
pub(super) const fn compressed_size(value: u32) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        _ => 4,
    }
}
