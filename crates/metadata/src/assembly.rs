//! An assembly: its methods, their bodies, and what their tokens do to the stack.

mod method;
mod names;

pub use method::{Method, matches};

use crate::pe::Image;
use crate::{Error, Metadata, Row, column, table};
use cil::{
    BodyError, CallEffect, SignatureError, Token, TokenKind, Tokens, VerifyError, call_effect,
};

/// What is wrong with a method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyProblem {
    /// The address of its body is in no section of the image.
    #[error("its body is at {address:#x}, which is outside of the image")]
    Address {
        /// The address, relative to the image.
        address: u32,
    },
    /// Header, code size or clauses cannot be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Its signature, or that of its locals, cannot be read.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Its signature, or that of its locals, does not exist.
    #[error("it has no signature, or its locals ({locals}) have none")]
    NoSignature {
        /// The token of the locals, from the header.
        locals: Token,
    },
    /// The code is not well formed.
    #[error(transparent)]
    Code(#[from] VerifyError),
}

/// What calls of the methods in one table do to the stack, by row from 1. `None` where the
/// signature is none.
type Effects = Vec<Option<CallEffect>>;

/// An assembly in memory.
#[derive(Clone, Debug)]
pub struct Assembly<'a> {
    image: Image<'a>,
    metadata: Metadata<'a>,
    defined: Effects,
    referenced: Effects,
    stand_alone: Effects,
    instantiated: Effects,
    /// By row of methods and fields, from 1: the row of their type; 0 if it has none.
    method_owners: Vec<u32>,
    field_owners: Vec<u32>,
}

impl<'a> Assembly<'a> {
    /// Reads an assembly. Names, signatures and bodies are looked at when they are asked for.
    ///
    /// # Errors
    /// It is no assembly, or its metadata are not whole.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let image = Image::parse(bytes)?;
        let metadata = Metadata::parse(image.metadata()?)?;
        let effects = |table, column| -> Effects {
            (1..=metadata.rows(table))
                .map(|row| call_effect(metadata.blob_of(table, row, column)?).ok())
                .collect()
        };
        let mut assembly = Self {
            defined: effects(table::METHOD_DEF, column::METHOD_SIGNATURE),
            referenced: effects(table::MEMBER_REF, column::MEMBER_REF_SIGNATURE),
            stand_alone: effects(table::STAND_ALONE_SIG, column::SIGNATURE),
            instantiated: Vec::new(),
            method_owners: owners(&metadata, table::METHOD_DEF, column::TYPE_METHODS),
            field_owners: owners(&metadata, table::FIELD, column::TYPE_FIELDS),
            image,
            metadata,
        };
        assembly.instantiated = (1..=assembly.metadata.rows(table::METHOD_SPEC))
            .map(|row| {
                let method = assembly.metadata.reference(
                    table::METHOD_SPEC,
                    row,
                    column::METHOD_SPEC_METHOD,
                )?;
                assembly.call_effect(method.token()?)
            })
            .collect();
        Ok(assembly)
    }

    /// Tables and heaps.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata<'a> {
        &self.metadata
    }

    /// The bytes from an address to the end of its section.
    pub(crate) fn at(&self, address: u32) -> Option<&'a [u8]> {
        self.image.at(address)
    }

    /// Its simple name; that of the module where there is no assembly.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let name = self.metadata.name(table::ASSEMBLY, 1, column::ASSEMBLY_NAME);
        // A module's name is the second column, as a type's.
        name.or_else(|| self.metadata.name(table::MODULE, 1, column::TYPE_NAME))
            .map(|name| name.into_owned())
    }

    /// The four numbers of its version.
    #[must_use]
    pub fn version(&self) -> Option<[u32; 4]> {
        let number = |part| self.metadata.get(table::ASSEMBLY, 1, column::ASSEMBLY_VERSION + part);
        Some([number(0)?, number(1)?, number(2)?, number(3)?])
    }

    /// How many methods it defines, with or without bodies.
    #[must_use]
    pub fn method_count(&self) -> u32 {
        self.metadata.rows(table::METHOD_DEF)
    }

    /// All methods that it defines.
    pub fn methods(&self) -> impl Iterator<Item = Method<'_, 'a>> {
        (1..=self.method_count()).map(|row| Method::new(self, row))
    }

    /// A method by its row, from 1; `None` if there is none.
    #[must_use]
    pub fn method(&self, row: u32) -> Option<Method<'_, 'a>> {
        (1..=self.method_count()).contains(&row).then(|| Method::new(self, row))
    }

    /// The type that a method or field of this module belongs to, by row.
    pub(crate) fn owner(&self, member: Row) -> Option<u32> {
        let owners =
            if member.table == table::FIELD { &self.field_owners } else { &self.method_owners };
        owners.get((member.row as usize).checked_sub(1)?).copied().filter(|&owner| owner != 0)
    }

    /// The signature that the token of a header's locals stands for.
    #[must_use]
    pub fn locals(&self, token: Token) -> Option<&[u8]> {
        let row = Row::of(token).filter(|row| row.table == table::STAND_ALONE_SIG)?;
        self.metadata.blob_of(row.table, row.row, column::SIGNATURE)
    }
}

impl Tokens for Assembly<'_> {
    #[inline]
    fn call_effect(&self, token: Token) -> Option<CallEffect> {
        let effects = match token.kind()? {
            TokenKind::MethodDef => &self.defined,
            TokenKind::MemberRef => &self.referenced,
            TokenKind::MethodSpec => &self.instantiated,
            TokenKind::Signature => &self.stand_alone,
            _ => return None,
        };
        effects.get((token.rid() as usize).checked_sub(1)?).copied().flatten()
    }
}

/// By member: the row of its type.
fn owners(metadata: &Metadata<'_>, of: usize, column: usize) -> Vec<u32> {
    let mut owners = vec![0; metadata.rows(of) as usize];
    // In good metadata no member has two owners. In bad ones every type could claim all of them.
    let mut claims = owners.len();
    for row in 1..=metadata.rows(table::TYPE_DEF) {
        for member in metadata.members(table::TYPE_DEF, row, column).take(claims) {
            claims -= 1;
            if let Some(owner) =
                (member as usize).checked_sub(1).and_then(|index| owners.get_mut(index))
            {
                *owner = row;
            }
        }
    }
    owners
}
