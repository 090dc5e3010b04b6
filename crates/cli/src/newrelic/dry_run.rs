//! Metadata of a module that is only looked at: what a new body would add to it gets tokens that
//! lead nowhere.

use cil::{Token, TokenKind};
use metadata::{Metadata, Row, column, table};
use newrelic_compat::rewrite::{AssemblyReference, MetadataError, ModuleMetadata};

/// The metadata of a file, to which everything can be added and nothing is.
#[derive(Debug)]
pub struct DryRun<'m, 'a> {
    metadata: &'m Metadata<'a>,
    added: u32,
}

impl<'m, 'a> DryRun<'m, 'a> {
    /// The metadata of a file.
    pub const fn new(metadata: &'m Metadata<'a>) -> Self {
        Self { metadata, added: 0 }
    }

    fn add(&mut self, kind: TokenKind) -> Token {
        self.added += 1;
        // Behind all rows that a table can have in a file of this size.
        Token::new(kind, 0x0080_0000 | self.added)
    }
}

/// The name of a `TypeDef` or `TypeRef`: with its namespace, without the types around it.
pub fn type_name(metadata: &Metadata<'_>, token: Token) -> Option<String> {
    let row =
        Row::of(token).filter(|row| matches!(row.table, table::TYPE_DEF | table::TYPE_REF))?;
    let name = metadata.name(row.table, row.row, column::TYPE_NAME)?;
    let space = metadata.name(row.table, row.row, column::TYPE_SPACE)?;
    Some(if space.is_empty() { name.into_owned() } else { format!("{space}.{name}") })
}

impl ModuleMetadata for DryRun<'_, '_> {
    fn assembly_references(&self) -> Vec<(Token, String)> {
        let rows = 1..=self.metadata.rows(table::ASSEMBLY_REF);
        rows.filter_map(|row| {
            let name = self.metadata.name(table::ASSEMBLY_REF, row, column::ASSEMBLY_REF_NAME)?;
            Some((Token::new(TokenKind::AssemblyRef, row), name.into_owned()))
        })
        .collect()
    }

    fn define_assembly_reference(
        &mut self,
        _reference: &AssemblyReference,
    ) -> Result<Token, MetadataError> {
        Ok(self.add(TokenKind::AssemblyRef))
    }

    fn find_type_reference(&self, _scope: Token, _name: &str) -> Option<Token> {
        None
    }

    fn define_type_reference(
        &mut self,
        _scope: Token,
        _name: &str,
    ) -> Result<Token, MetadataError> {
        Ok(self.add(TokenKind::TypeRef))
    }

    fn find_type_definition(&self, _name: &str) -> Option<Token> {
        None
    }

    fn find_member_reference(
        &self,
        _parent: Token,
        _name: &str,
        _signature: &[u8],
    ) -> Option<Token> {
        None
    }

    fn define_member_reference(
        &mut self,
        _: Token,
        _name: &str,
        _signature: &[u8],
    ) -> Result<Token, MetadataError> {
        Ok(self.add(TokenKind::MemberRef))
    }

    fn find_method_definition(
        &self,
        _parent: Token,
        _name: &str,
        _signature: &[u8],
    ) -> Option<Token> {
        None
    }

    fn find_field_definition(&self, _parent: Token, _name: &str) -> Option<Token> {
        None
    }

    fn type_specification(&mut self, _signature: &[u8]) -> Result<Token, MetadataError> {
        Ok(self.add(TokenKind::TypeSpec))
    }

    fn local_signature(&mut self, _signature: &[u8]) -> Result<Token, MetadataError> {
        Ok(self.add(TokenKind::Signature))
    }

    fn user_string(&mut self, _text: &str) -> Result<Token, MetadataError> {
        self.added += 1;
        // Strings are in a heap, and no kind of row (ECMA-335 II.24.2.4).
        Ok(Token(0x7080_0000 | self.added))
    }

    fn type_name(&self, token: Token) -> Option<String> {
        type_name(self.metadata, token)
    }

    /// Unknown: such values are passed on as null, which refuses no method.
    fn is_by_ref_like(&self, _token: Token) -> bool {
        false
    }
}
