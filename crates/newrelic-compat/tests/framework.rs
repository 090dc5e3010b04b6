//! Methods of two frameworks, as their compilers wrote them, are given bodies that pass the
//! structural checks: the runtime's own compiler would have to take them.

use cil::{
    CallEffect, MethodBody, MethodShape, MethodSig, Token, TokenKind, Tokens, decode_locals,
    max_stack, verify,
};
use metadata::{Assembly, Row, column, table};
use newrelic_compat::Runtime as Family;
use newrelic_compat::rewrite::direct::Direct;
use newrelic_compat::rewrite::{
    AssemblyReference, Function, MetadataError, ModuleMetadata, Owner, RefStructs, Refusal, Scopes,
    Settings, Tracer, instrument,
};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use testkit::{Host, Runtime};

/// One method in this many is tried, to stay within some seconds.
const SAMPLE: u32 = 4;

/// First row of tokens that are given out: no table has that many.
const NEW: u32 = 0x00f0_0000;

/// Members that the module would have got.
const DIRECT: Direct = Direct { field: Token(0x04ff_0001), resolve: Token(0x06ff_0001) };

/// The metadata of a file, and what was added to them.
struct Module<'b, 'a> {
    assembly: &'b Assembly<'a>,
    /// What was added, by table, names and signature.
    added: HashMap<(TokenKind, Token, String, Vec<u8>), Token>,
    effects: HashMap<Token, CallEffect>,
    assemblies: Vec<(Token, String)>,
}

impl<'b, 'a> Module<'b, 'a> {
    fn new(assembly: &'b Assembly<'a>) -> Self {
        let metadata = assembly.metadata();
        let name = |row| metadata.name(table::ASSEMBLY_REF, row, column::ASSEMBLY_REF_NAME);
        let rows = 1..=metadata.rows(table::ASSEMBLY_REF);
        let assemblies = rows.filter_map(|row| {
            Some((Token::new(TokenKind::AssemblyRef, row), name(row)?.into_owned()))
        });
        let resolve = CallEffect { has_this: false, parameters: 1, returns: true };
        let effects = HashMap::from([(DIRECT.resolve, resolve)]);
        Self { assembly, added: HashMap::new(), effects, assemblies: assemblies.collect() }
    }

    fn add(&mut self, kind: TokenKind, parent: Token, name: &str, signature: &[u8]) -> Token {
        let next = Token::new(kind, NEW + self.added.len() as u32);
        *self.added.entry((kind, parent, name.to_owned(), signature.to_vec())).or_insert(next)
    }

    fn find(&self, kind: TokenKind, parent: Token, name: &str, signature: &[u8]) -> Option<Token> {
        self.added.get(&(kind, parent, name.to_owned(), signature.to_vec())).copied()
    }
}

impl ModuleMetadata for Module<'_, '_> {
    fn assembly_references(&self) -> Vec<(Token, String)> {
        self.assemblies.clone()
    }

    fn define_assembly_reference(
        &mut self,
        reference: &AssemblyReference,
    ) -> Result<Token, MetadataError> {
        let token = self.add(TokenKind::AssemblyRef, Token::NIL, reference.name, &[]);
        self.assemblies.push((token, reference.name.to_owned()));
        Ok(token)
    }

    fn find_type_reference(&self, scope: Token, name: &str) -> Option<Token> {
        self.find(TokenKind::TypeRef, scope, name, &[])
    }

    fn define_type_reference(&mut self, scope: Token, name: &str) -> Result<Token, MetadataError> {
        Ok(self.add(TokenKind::TypeRef, scope, name, &[]))
    }

    fn find_type_definition(&self, _name: &str) -> Option<Token> {
        None
    }

    fn find_member_reference(&self, parent: Token, name: &str, signature: &[u8]) -> Option<Token> {
        self.find(TokenKind::MemberRef, parent, name, signature)
    }

    fn define_member_reference(
        &mut self,
        parent: Token,
        name: &str,
        signature: &[u8],
    ) -> Result<Token, MetadataError> {
        let token = self.add(TokenKind::MemberRef, parent, name, signature);
        self.effects.insert(token, cil::call_effect(signature).unwrap());
        Ok(token)
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

    fn type_specification(&mut self, signature: &[u8]) -> Result<Token, MetadataError> {
        Ok(self.add(TokenKind::TypeSpec, Token::NIL, "", signature))
    }

    fn local_signature(&mut self, signature: &[u8]) -> Result<Token, MetadataError> {
        Ok(self.add(TokenKind::Signature, Token::NIL, "", signature))
    }

    fn user_string(&mut self, text: &str) -> Result<Token, MetadataError> {
        Ok(self.add(TokenKind::UserString, Token::NIL, text, &[]))
    }

    fn type_name(&self, token: Token) -> Option<String> {
        let Row { table, row } =
            Row::of(token).filter(|row| [table::TYPE_DEF, table::TYPE_REF].contains(&row.table))?;
        let metadata = self.assembly.metadata();
        let name = metadata.name(table, row, column::TYPE_NAME)?;
        match metadata.name(table, row, column::TYPE_SPACE)? {
            space if space.is_empty() => Some(name.into_owned()),
            space => Some(format!("{space}.{name}")),
        }
    }

    fn is_by_ref_like(&self, token: Token) -> bool {
        self.type_name(token)
            .is_some_and(|name| ["System.Span`1", "System.ReadOnlySpan`1"].contains(&name.as_str()))
    }
}

impl Tokens for Module<'_, '_> {
    fn call_effect(&self, token: Token) -> Option<CallEffect> {
        self.effects.get(&token).copied().or_else(|| self.assembly.call_effect(token))
    }
}

#[test]
fn methods_of_net_core_3_1() {
    check(Runtime::V3_1, 20_000);
}

#[test]
fn methods_of_net_9() {
    check(Runtime::V9, 25_000);
}

fn check(runtime: Runtime, least: u32) {
    let (mut seen, mut instrumented) = (0, 0);
    let mut refused: BTreeMap<String, u32> = BTreeMap::new();
    for path in framework(runtime) {
        let bytes = fs::read(&path).unwrap();
        let Ok(assembly) = Assembly::parse(&bytes) else { continue };
        let mut module = Module::new(&assembly);
        for method in assembly.methods() {
            let Some(body) = method.body_bytes().unwrap() else { continue };
            seen += 1;
            if !u32::is_multiple_of(seen, SAMPLE) {
                continue;
            }
            let place = format!("{} {}", path.display(), method.token());
            let signature = method.signature().unwrap();
            match try_one(body, signature, seen / SAMPLE, &mut module, &place) {
                Ok(()) => instrumented += 1,
                Err(refusal) => *refused.entry(refusal.to_string()).or_default() += 1,
            }
        }
    }
    println!("{runtime}: {instrumented} instrumented, refused {refused:?}");
    assert!(instrumented >= least, "{instrumented} methods of {runtime}");
    // Bodies that return somewhere and end in something else, mostly in `throw`.
    let invalid = refused.get(&Refusal::InvalidMethod.to_string()).copied().unwrap_or(0);
    assert!(invalid * 50 <= instrumented, "{invalid} of {instrumented} are called invalid");
    let others = refused.keys().filter(|name| {
        let known = [Refusal::InvalidMethod, Refusal::ByRefReturn, Refusal::UnsupportedType];
        !known.iter().any(|known| known.to_string() == **name)
    });
    assert_eq!(others.count(), 0, "{refused:?}");
}

/// Gives a method each kind of body in turn.
fn try_one(
    bytes: &[u8],
    signature: &[u8],
    turn: u32,
    module: &mut Module<'_, '_>,
    place: &str,
) -> Result<(), Refusal> {
    let shape = [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55][turn as usize % 3];
    let strategy = [CallingStrategy::Cache, CallingStrategy::Reflection][turn as usize / 3 % 2];
    let settings = Settings {
        runtime: Family::Core,
        shape,
        start_method: None,
        strategy,
        agent_path: "/agent.dll",
        scopes: Scopes::Facades,
    };
    let original = MethodBody::parse(bytes).unwrap();
    let assembly = module.assembly;
    let locals = assembly.locals(original.header.local_signature);
    let function = Function {
        id: 1,
        assembly: "Assembly",
        type_name: "Class",
        name: "Method",
        type_token: Token(0x0200_0002),
        outermost_type_attributes: 0,
        owner: [Owner::Class, Owner::ValueType, Owner::ByRefLike][turn as usize / 6 % 3],
        type_parameters: turn / 18 % 2,
        ref_structs: RefStructs::default(),
        attributes: 0x96,
        implementation: 0,
        signature,
        body: bytes,
        locals,
        is_async: false,
        direct: (turn / 36 % 2 == 1).then_some(DIRECT),
    };
    let tracer = Tracer { factory: "Factory", metric: "", flags: 0x3400 };
    let new = instrument(&function, &tracer, &settings, module)?;
    let parsed = MethodBody::parse(&new.bytes).unwrap();
    let sig = MethodSig::decode(signature).unwrap();
    let effect = sig.call_effect();
    let shape = MethodShape {
        arguments: effect.parameters + u16::from(effect.has_this),
        locals: decode_locals(&new.locals).unwrap().len() as u16,
        returns: effect.returns,
    };
    let before = original.decode().unwrap().len();
    assert!(parsed.decode().unwrap().len() > before + 50, "{place}");
    verify(&parsed, shape, module).unwrap_or_else(|error| panic!("{place} {settings:?}: {error}"));
    assert!(
        parsed.header.max_stack >= max_stack(&parsed, effect.returns, module).unwrap(),
        "{place}"
    );
    Ok(())
}

/// The framework's files that may be assemblies, by name.
fn framework(runtime: Runtime) -> Vec<PathBuf> {
    let Host::Muxer { framework, .. } = runtime.require().host() else {
        panic!("{runtime} has no framework folder")
    };
    let files = fs::read_dir(&framework).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "dll")).collect();
    files.sort();
    files
}
