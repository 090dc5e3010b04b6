//! One module: what its tokens mean, and the signatures that are added to it.

use crate::Refusal;
use crate::probes::Probes;
use cil::{CallEffect, Token, TokenKind, Tokens, call_effect};
use corprof::ids::ModuleId;
use corprof::info::ProfilerInfo;
use corprof::metadata::token::{MemberRef, MethodDef, MethodSpec, Signature};
use corprof::metadata::{Metadata, MetadataEmit};
use std::cell::OnceCell;

/// The metadata of a module whose methods are rewritten.
#[derive(Debug)]
pub struct Scope {
    module: ModuleId,
    metadata: Metadata,
    emit: MetadataEmit,
    count: OnceCell<Token>,
    enter: OnceCell<Token>,
    leave: OnceCell<Token>,
}

impl Scope {
    /// Opens the metadata of a module for additions.
    ///
    /// # Errors
    /// The module is gone, or has no metadata that can be extended.
    pub fn open(info: &ProfilerInfo, module: ModuleId) -> Result<Self, Refusal> {
        let emit = info.module_metadata_emit(module).map_err(|error| Refusal::Metadata(error.to_string()))?;
        // What was added is only seen through the same object.
        let metadata = emit.metadata().map_err(|error| Refusal::Metadata(error.to_string()))?;
        let [count, enter, leave] = [const { OnceCell::new() }; 3];
        Ok(Self { module, metadata, emit, count, enter, leave })
    }

    /// Which module.
    #[must_use]
    pub const fn module(&self) -> ModuleId {
        self.module
    }

    /// Its metadata.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// A token for a signature of locals, or of a function that is called by its address. One that is there already is found again.
    pub(crate) fn signature(&self, blob: &[u8]) -> Result<Token, Refusal> {
        let token = self.emit.token_from_signature(blob).map_err(|error| Refusal::Metadata(error.to_string()))?;
        Ok(token.into())
    }

    fn remembered(&self, cell: &OnceCell<Token>, blob: &[u8]) -> Result<Token, Refusal> {
        if let Some(token) = cell.get() {
            return Ok(*token);
        }
        let token = self.signature(blob)?;
        Ok(*cell.get_or_init(|| token))
    }

    /// Signature of [`Probes::count`].
    pub(crate) fn count(&self) -> Result<Token, Refusal> {
        self.remembered(&self.count, Probes::COUNT)
    }

    /// Signature of [`Probes::enter`].
    pub(crate) fn enter(&self) -> Result<Token, Refusal> {
        self.remembered(&self.enter, Probes::ENTER)
    }

    /// Signature of [`Probes::leave`].
    pub(crate) fn leave(&self) -> Result<Token, Refusal> {
        self.remembered(&self.leave, Probes::LEAVE)
    }
}

impl Tokens for Scope {
    fn call_effect(&self, token: Token) -> Option<CallEffect> {
        let metadata = &self.metadata;
        let blob = match token.kind()? {
            TokenKind::MethodDef => metadata.method_into(MethodDef::from_raw(token.0), &mut String::new()).ok()?.signature,
            TokenKind::MemberRef => metadata.member_ref_props(MemberRef::from_raw(token.0)).ok()?.signature,
            TokenKind::Signature => metadata.signature(Signature::from_raw(token.0)).ok()?,
            TokenKind::MethodSpec => {
                let generic = metadata.method_spec_props(MethodSpec::from_raw(token.0)).ok()?.parent;
                // Of a method, never of another specification.
                return (generic.kind() != Some(TokenKind::MethodSpec)).then(|| self.call_effect(generic)).flatten();
            }
            _ => return None,
        };
        call_effect(blob).ok()
    }
}
