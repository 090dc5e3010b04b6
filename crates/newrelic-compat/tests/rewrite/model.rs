//! A model of a module's metadata that gives out tokens as the runtime does.

use crate::support::unhex;
use cil::{CallEffect, Token, TokenKind, Tokens, call_effect};
use newrelic_compat::rewrite::{
    AssemblyReference, CoreLibraryMetadata, MetadataError, ModuleMetadata, NewMethod,
};
use serde_json::Value;
use std::collections::HashMap;

/// Tables that grow, in the order of the recording.
const GROWING: [TokenKind; 4] =
    [TokenKind::TypeRef, TokenKind::MemberRef, TokenKind::TypeSpec, TokenKind::Signature];

type MemberKey = (Token, String, Vec<u8>);

/// The metadata of a module, as far as rewriting looks at them.
#[derive(Debug)]
pub struct Model {
    assembly_references: Vec<(Token, String)>,
    rows: HashMap<TokenKind, u32>,
    type_references: HashMap<(Token, String), Token>,
    type_names: HashMap<Token, String>,
    type_definitions: HashMap<String, Token>,
    methods: HashMap<MemberKey, Token>,
    fields: HashMap<(Token, String), Token>,
    member_references: HashMap<MemberKey, Token>,
    specifications: HashMap<Vec<u8>, Token>,
    signatures: HashMap<Vec<u8>, Token>,
    strings: HashMap<String, Token>,
    next_string: u32,
    agent_path_length: usize,
    /// Whether its types have all members that are asked for.
    has_all_members: bool,
    /// Types that cannot be boxed.
    by_ref_like: Vec<String>,
    /// A part of the names of what cannot be defined.
    pub fails: Option<String>,
    /// Everything that was defined, as text.
    pub log: Vec<String>,
}

fn token(hex: &str) -> Token {
    Token(u32::from_str_radix(hex, 16).unwrap())
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &str)> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
}

impl Model {
    /// The state of a module before its first method is rewritten.
    pub fn new(state: &Value) -> Self {
        let references = state["assemblyRefs"].as_array().into_iter().flatten().enumerate();
        let assembly_references: Vec<(Token, String)> = references
            .map(|(index, name)| {
                (
                    Token::new(TokenKind::AssemblyRef, index as u32 + 1),
                    name.as_str().unwrap().to_owned(),
                )
            })
            .collect();
        let scope = |name: &str| {
            assembly_references.iter().find(|(_, other)| other == name).map(|(token, _)| *token)
        };
        let mut type_references = HashMap::new();
        let mut type_names = HashMap::new();
        for (row, name) in entries(&state["types"]) {
            let row = token(row);
            let plain = match name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((assembly, plain)) => {
                    if let Some(scope) = scope(assembly) {
                        type_references.insert((scope, plain.to_owned()), row);
                    }
                    plain
                }
                None => name.rsplit('+').next().unwrap(),
            };
            type_names.insert(row, plain.to_owned());
        }
        let type_definitions: HashMap<String, Token> =
            entries(&state["typeDefs"]).map(|(name, row)| (name.to_owned(), token(row))).collect();
        let methods = entries(&state["methodDefs"]).filter_map(|(name, row)| {
            let (member, signature) = name.split_once(" sig:")?;
            let (class, member) = member.split_once("::")?;
            let signature = unhex(signature);
            Some(((*type_definitions.get(class)?, member.to_owned(), signature), token(row)))
        });
        let fields = entries(&state["fieldDefs"]).filter_map(|(name, row)| {
            let (class, field) = name.split_once("::")?;
            Some(((*type_definitions.get(class)?, field.to_owned()), token(row)))
        });
        let rows = state["rows"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|rows| rows.as_u64().unwrap() as u32);
        let specifications = entries(&state["typeSpecs"]);
        Self {
            rows: GROWING.into_iter().zip(rows).collect(),
            methods: methods.collect(),
            fields: fields.collect(),
            specifications: specifications.map(|(row, blob)| (unhex(blob), token(row))).collect(),
            strings: entries(&state["strings"])
                .map(|(text, row)| (text.to_owned(), token(row)))
                .collect(),
            next_string: token(state["nextString"].as_str().unwrap()).0,
            agent_path_length: state["agentPathLength"].as_u64().unwrap_or(0) as usize,
            has_all_members: state["hasAllMembers"] == true,
            by_ref_like: entries(&state["byRefLike"]).map(|(name, _)| name.to_owned()).collect(),
            fails: None,
            log: Vec::new(),
            assembly_references,
            type_references,
            type_names,
            type_definitions,
            member_references: HashMap::new(),
            signatures: HashMap::new(),
        }
    }

    /// How long the path of the managed agent was.
    pub fn agent_path_length(&self) -> usize {
        self.agent_path_length
    }

    fn next(&mut self, kind: TokenKind) -> Token {
        let rows = self.rows.entry(kind).or_default();
        *rows += 1;
        Token::new(kind, *rows)
    }
}

impl ModuleMetadata for Model {
    fn assembly_references(&self) -> Vec<(Token, String)> {
        self.assembly_references.clone()
    }

    fn define_assembly_reference(
        &mut self,
        reference: &AssemblyReference,
    ) -> Result<Token, MetadataError> {
        let token = Token::new(TokenKind::AssemblyRef, self.assembly_references.len() as u32 + 1);
        self.log.push(format!("assembly {} {:?}", reference.name, reference.version));
        self.assembly_references.push((token, reference.name.to_owned()));
        Ok(token)
    }

    fn find_type_reference(&self, scope: Token, name: &str) -> Option<Token> {
        self.type_references.get(&(scope, name.to_owned())).copied()
    }

    fn define_type_reference(&mut self, scope: Token, name: &str) -> Result<Token, MetadataError> {
        let token = self.next(TokenKind::TypeRef);
        let scope_name = self
            .assembly_references
            .iter()
            .find(|(other, _)| *other == scope)
            .map(|(_, name)| name.as_str());
        self.log.push(format!("type [{}]{name}", scope_name.unwrap_or("?")));
        self.type_names.insert(token, name.to_owned());
        self.type_references.insert((scope, name.to_owned()), token);
        Ok(token)
    }

    fn find_type_definition(&self, name: &str) -> Option<Token> {
        self.type_definitions.get(name).copied()
    }

    fn find_member_reference(&self, parent: Token, name: &str, signature: &[u8]) -> Option<Token> {
        self.member_references.get(&(parent, name.to_owned(), signature.to_vec())).copied()
    }

    fn define_member_reference(
        &mut self,
        parent: Token,
        name: &str,
        signature: &[u8],
    ) -> Result<Token, MetadataError> {
        let token = self.next(TokenKind::MemberRef);
        let parent_name = self.type_names.get(&parent).map_or("?", String::as_str);
        self.log.push(format!("member {parent_name}::{name}"));
        self.member_references.insert((parent, name.to_owned(), signature.to_vec()), token);
        Ok(token)
    }

    fn find_method_definition(&self, parent: Token, name: &str, signature: &[u8]) -> Option<Token> {
        let known = self.methods.get(&(parent, name.to_owned(), signature.to_vec())).copied();
        known.or_else(|| self.has_all_members.then_some(Token(0x0600_0001)))
    }

    fn find_field_definition(&self, parent: Token, name: &str) -> Option<Token> {
        let known = self.fields.get(&(parent, name.to_owned())).copied();
        known.or_else(|| self.has_all_members.then_some(Token(0x0400_0001)))
    }

    fn type_specification(&mut self, signature: &[u8]) -> Result<Token, MetadataError> {
        if let Some(known) = self.specifications.get(signature) {
            return Ok(*known);
        }
        let token = self.next(TokenKind::TypeSpec);
        self.specifications.insert(signature.to_vec(), token);
        Ok(token)
    }

    fn local_signature(&mut self, signature: &[u8]) -> Result<Token, MetadataError> {
        if let Some(known) = self.signatures.get(signature) {
            return Ok(*known);
        }
        let token = self.next(TokenKind::Signature);
        self.signatures.insert(signature.to_vec(), token);
        Ok(token)
    }

    fn user_string(&mut self, text: &str) -> Result<Token, MetadataError> {
        if let Some(known) = self.strings.get(text) {
            return Ok(*known);
        }
        let token = Token(self.next_string);
        // UTF-16, a byte that marks special characters, and the length in front: ECMA-335
        // II.24.2.4.
        let size = 2 * text.encode_utf16().count() as u32 + 1;
        self.next_string += size + if size < 0x80 { 1 } else { 2 };
        self.strings.insert(text.to_owned(), token);
        Ok(token)
    }

    fn type_name(&self, token: Token) -> Option<String> {
        self.type_names.get(&token).cloned()
    }

    fn is_by_ref_like(&self, token: Token) -> bool {
        self.type_names.get(&token).is_some_and(|name| self.by_ref_like.contains(name))
    }
}

impl Model {
    /// A definition; an error if it was chosen to fail.
    fn define(
        &mut self,
        kind: TokenKind,
        name: &str,
        text: String,
    ) -> Result<Token, MetadataError> {
        self.log.push(text);
        if self.fails.as_ref().is_some_and(|part| name.contains(part)) {
            return Err(MetadataError("chosen to fail".to_owned()));
        }
        Ok(self.next(kind))
    }
}

impl CoreLibraryMetadata for Model {
    fn define_type(
        &mut self,
        name: &str,
        attributes: u32,
        _extends: Token,
    ) -> Result<Token, MetadataError> {
        let token =
            self.define(TokenKind::TypeDef, name, format!("type {name} {attributes:#x}"))?;
        self.type_definitions.insert(name.to_owned(), token);
        Ok(token)
    }

    fn define_field(
        &mut self,
        parent: Token,
        name: &str,
        attributes: u32,
        signature: &[u8],
    ) -> Result<Token, MetadataError> {
        let token = self.define(
            TokenKind::FieldDef,
            name,
            format!("field {name} {attributes:#x} {signature:02x?}"),
        )?;
        self.fields.insert((parent, name.to_owned()), token);
        Ok(token)
    }

    fn define_method(
        &mut self,
        parent: Token,
        method: &NewMethod<'_>,
    ) -> Result<Token, MetadataError> {
        let NewMethod { name, attributes, implementation, signature, body_of } = *method;
        let text =
            format!("method {name} {attributes:#x} {implementation:#x} body {:08x}", body_of.0);
        let token = self.define(TokenKind::MethodDef, name, text)?;
        self.methods.insert((parent, name.to_owned(), signature.to_vec()), token);
        Ok(token)
    }

    fn add_attribute(&mut self, _method: Token, constructor: Token) -> Result<(), MetadataError> {
        self.log.push(format!("attribute {:08x}", constructor.0));
        Ok(())
    }

    fn assert_unmanaged_code(&mut self, _method: Token) -> Result<(), MetadataError> {
        self.log.push("assert".to_owned());
        Ok(())
    }
}

impl Tokens for Model {
    fn call_effect(&self, token: Token) -> Option<CallEffect> {
        let (_, _, signature) =
            self.member_references.iter().find(|(_, member)| **member == token)?.0;
        call_effect(signature).ok()
    }
}
