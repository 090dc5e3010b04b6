//! One module: what its tokens mean, and the signatures that are added to it.

use crate::Refusal;
use crate::probes::Probes;
use cil::{CallEffect, Token, TokenKind, Tokens, call_effect};
use corprof::ids::ModuleId;
use corprof::info::ProfilerInfo;
use corprof::metadata::token::{MemberRef, MethodDef, MethodSpec, Signature};
use corprof::metadata::{Metadata, MetadataEmit};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

/// Where additions go.
#[derive(Debug)]
enum Additions {
    /// Into the metadata.
    Made(MetadataEmit),
    /// Nowhere: tokens from [`PRETENDED`] on, with the signatures that they would have.
    Pretended(RefCell<Vec<Vec<u8>>>),
}

/// The first row that no table has.
const PRETENDED: u32 = 0x00f0_0000;

/// The metadata of a module whose methods are rewritten.
#[derive(Debug)]
pub struct Scope {
    module: ModuleId,
    metadata: Metadata,
    additions: Additions,
    call: OnceCell<Token>,
    completed: OnceCell<Token>,
    /// Signatures that have been asked for: the runtime looks through all that there are for each.
    signatures: RefCell<HashMap<Vec<u8>, Token>>,
}

impl Scope {
    /// Opens the metadata of a module for additions.
    ///
    /// # Errors
    /// The module is gone, or has no metadata that can be extended.
    pub fn open(info: &ProfilerInfo, module: ModuleId) -> Result<Self, Refusal> {
        let emit = info.module_metadata_emit(module).map_err(added)?;
        // What was added is only seen through the same object.
        let metadata = emit.metadata().map_err(added)?;
        Ok(Self::new(module, metadata, Additions::Made(emit)))
    }

    /// As [`Self::open`], for bodies that are only made to see whether they can be: nothing is
    /// added.
    ///
    /// # Errors
    /// The module is gone, or has no metadata.
    pub fn look(info: &ProfilerInfo, module: ModuleId) -> Result<Self, Refusal> {
        Ok(Self::new(
            module,
            info.module_metadata(module)?,
            Additions::Pretended(RefCell::default()),
        ))
    }

    fn new(module: ModuleId, metadata: Metadata, additions: Additions) -> Self {
        let [call, completed] = [const { OnceCell::new() }; 2];
        Self { module, metadata, additions, call, completed, signatures: RefCell::default() }
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

    /// A token for a signature of locals, or of a function that is called by its address. One that
    /// is there already is found again.
    pub(crate) fn signature(&self, blob: &[u8]) -> Result<Token, Refusal> {
        if let Some(token) = self.signatures.borrow().get(blob) {
            return Ok(*token);
        }
        let token = match &self.additions {
            Additions::Made(emit) => {
                emit.token_from_signature(blob).map(Into::into).map_err(added)?
            }
            Additions::Pretended(made) => pretend(made, TokenKind::Signature, blob),
        };
        self.signatures.borrow_mut().insert(blob.to_vec(), token);
        Ok(token)
    }

    fn remembered(&self, cell: &OnceCell<Token>, blob: &[u8]) -> Result<Token, Refusal> {
        if let Some(token) = cell.get() {
            return Ok(*token);
        }
        let token = self.signature(blob)?;
        Ok(*cell.get_or_init(|| token))
    }

    /// Signature of [`Probes::count`] and of all the others that get a slot and answer nothing.
    pub(crate) fn call(&self) -> Result<Token, Refusal> {
        self.remembered(&self.call, Probes::CALL)
    }

    /// A token for a member of another type. One that is there already is found again.
    pub(crate) fn member(
        &self,
        parent: Token,
        name: &str,
        signature: &[u8],
    ) -> Result<Token, Refusal> {
        let known =
            self.metadata.member_refs(parent).filter_map(|member| member.ok()).find(|member| {
                let props = self.metadata.member_ref_props(*member);
                props.is_ok_and(|props| props.name == name && props.signature == signature)
            });
        match (known, &self.additions) {
            (Some(known), _) => Ok(known.into()),
            (None, Additions::Made(emit)) => {
                emit.define_member_ref(parent, name, signature).map(Into::into).map_err(added)
            }
            (None, Additions::Pretended(made)) => {
                Ok(pretend(made, TokenKind::MemberRef, signature))
            }
        }
    }

    /// A token for a type of another assembly. One that is there already is found again.
    pub(crate) fn type_ref(&self, scope: Token, name: &str) -> Result<Token, Refusal> {
        match (self.metadata.find_type_ref(scope, name)?, &self.additions) {
            (Some(known), _) => Ok(known.into()),
            (None, Additions::Made(emit)) => {
                emit.define_type_ref(scope, name).map(Into::into).map_err(added)
            }
            (None, Additions::Pretended(made)) => Ok(pretend(made, TokenKind::TypeRef, &[])),
        }
    }

    /// A token for a constructed type. One that is there already is found again.
    pub(crate) fn type_spec(&self, blob: &[u8]) -> Result<Token, Refusal> {
        match &self.additions {
            Additions::Made(emit) => emit.token_from_type_spec(blob).map(Into::into).map_err(added),
            Additions::Pretended(made) => Ok(pretend(made, TokenKind::TypeSpec, &[])),
        }
    }

    /// Signature of [`Probes::completed`].
    pub(crate) fn completed(&self) -> Result<Token, Refusal> {
        self.remembered(&self.completed, Probes::COMPLETED)
    }
}

/// A token for what would be added.
fn pretend(made: &RefCell<Vec<Vec<u8>>>, kind: TokenKind, signature: &[u8]) -> Token {
    let mut made = made.borrow_mut();
    made.push(signature.to_vec());
    Token::new(kind, PRETENDED + made.len() as u32 - 1)
}

fn added(error: corprof::Error) -> Refusal {
    Refusal::Metadata(error.to_string())
}

impl Tokens for Scope {
    fn call_effect(&self, token: Token) -> Option<CallEffect> {
        if let (Additions::Pretended(made), Some(index)) =
            (&self.additions, token.rid().checked_sub(PRETENDED))
        {
            return call_effect(made.borrow().get(index as usize)?).ok();
        }
        let metadata = &self.metadata;
        let blob = match token.kind()? {
            TokenKind::MethodDef => {
                metadata.method_unnamed(MethodDef::from_raw(token.0)).ok()?.signature
            }
            TokenKind::MemberRef => {
                metadata.member_ref_signature(MemberRef::from_raw(token.0)).ok()?
            }
            TokenKind::Signature => metadata.signature(Signature::from_raw(token.0)).ok()?,
            TokenKind::MethodSpec => {
                let generic =
                    metadata.method_spec_props(MethodSpec::from_raw(token.0)).ok()?.parent;
                // Of a method, never of another specification.
                return (generic.kind() != Some(TokenKind::MethodSpec))
                    .then(|| self.call_effect(generic))
                    .flatten();
            }
            _ => return None,
        };
        call_effect(blob).ok()
    }
}
