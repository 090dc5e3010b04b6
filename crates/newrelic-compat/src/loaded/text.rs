//! Bodies as text, with names in place of tokens, as `clrscope il` writes them: but out of the
//! metadata that the runtime has, with all that was added.

use super::module::LoadedModule;
use crate::event_log::MOST_TEXT;
use cil::{
    MethodBody, MethodSig, Names, Token, TokenKind, TypeSig, decode_field, decode_locals,
    decode_method_spec, disassemble, method_text, nested, quoted, type_text, types_text,
};
use corprof::metadata::Metadata;
use corprof::metadata::token::{
    AssemblyRef, FieldDef, MemberRef, MethodDef, MethodSpec, ModuleRef, Signature, TypeDef,
    TypeRef, TypeSpec, UserString,
};
use std::cell::Cell;
use std::fmt::{self, Write};

/// How deep constructed types may refer to each other, and types may be nested. Nothing keeps bad
/// metadata from doing so in a circle.
const DEEPEST: u32 = 8;
/// Most bytes of all names in one name.
const LONGEST: usize = 1 << 16;
/// Stands for what is too deep or too long.
const CUT: &str = "…";

/// What differs from process to process in a new body, and is written in the same way all the same.
#[derive(Clone, Copy, Debug)]
pub struct Masked<'a> {
    /// The id by which the body names its method: `&function`.
    pub function: Option<u64>,
    /// The path of the managed agent: `&agent`.
    pub agent: &'a str,
}

impl LoadedModule {
    /// A body in the syntax of ILAsm; `None` if that takes more than [`MOST_TEXT`] bytes.
    #[must_use]
    pub fn text(&self, body: &[u8], masked: Masked<'_>) -> Option<String> {
        let mut out = Limited(String::new());
        self.write(body, masked, &mut out).ok().map(|()| out.0)
    }

    fn write(&self, body: &[u8], masked: Masked<'_>, out: &mut Limited) -> fmt::Result {
        let body = match MethodBody::parse(body) {
            Ok(body) => body,
            Err(error) => return writeln!(out, "// {error}"),
        };
        let locals = match body.header.local_signature.non_nil() {
            Some(token) => {
                self.metadata.signature(Signature::from_raw(token.0)).ok().map(decode_locals)
            }
            None => None,
        };
        let locals = match locals.transpose() {
            Ok(locals) => locals.unwrap_or_default(),
            Err(error) => {
                writeln!(out, "// the signature of the locals: {error}")?;
                Vec::new()
            }
        };
        let naming =
            Naming { metadata: &self.metadata, masked, depth: Cell::new(0), written: Cell::new(0) };
        disassemble(out, &body, &locals, &naming)
    }
}

/// Text up to a size.
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MOST_TEXT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// What tokens stand for.
struct Naming<'a> {
    metadata: &'a Metadata,
    masked: Masked<'a>,
    depth: Cell<u32>,
    /// Bytes of all names inside the one that is asked for.
    written: Cell<usize>,
}

impl Naming<'_> {
    fn type_def(&self, type_def: TypeDef) -> Option<String> {
        let mut parts = Vec::new();
        let mut next = Some(type_def);
        while let Some(type_def) = next.filter(|_| parts.len() < DEEPEST as usize) {
            parts.insert(0, self.metadata.type_def_props(type_def).ok()?.name);
            next = self.metadata.enclosing_type(type_def).ok()?;
        }
        Some(nested(&parts))
    }

    fn type_ref(&self, type_ref: TypeRef) -> Option<String> {
        let props = self.metadata.type_ref_props(type_ref).ok()?;
        let name = quoted(&props.name);
        let scope = props.scope?;
        Some(match scope.kind()? {
            TokenKind::AssemblyRef => {
                let manifest = self.metadata.manifest().ok()?;
                let props = manifest.assembly_ref_props(AssemblyRef::from_raw(scope.0)).ok()?;
                format!("[{}]{name}", quoted(&props.identity.name))
            }
            TokenKind::ModuleRef => self.module_ref(scope)? + &name,
            TokenKind::TypeRef => format!("{}/{name}", self.name(scope)?),
            _ => name,
        })
    }

    fn module_ref(&self, module: Token) -> Option<String> {
        let name = self.metadata.module_ref_name(ModuleRef::from_raw(module.0)).ok()?;
        Some(format!("[.module {}]", quoted(&name)))
    }

    /// A method or field of this module. What belongs to no type belongs to the module.
    fn member(&self, class: TypeDef, name: &str) -> Option<String> {
        const MODULE: u32 = 1;
        Some(match class {
            class if Token::from(class).rid() <= MODULE => quoted(name),
            class => format!("{}::{}", self.type_def(class)?, quoted(name)),
        })
    }

    /// A method of this module or elsewhere, with the arguments of its instantiation.
    fn method(&self, method: Token, arguments: &str) -> Option<String> {
        if method.kind()? == TokenKind::MemberRef {
            return self.member_ref(method, arguments);
        }
        let props = self.metadata.method_props(MethodDef::from_raw(method.0)).ok()?;
        let called = self.member(props.class, &props.name)? + arguments;
        Some(method_text(&MethodSig::decode(props.signature).ok()?, &called, self))
    }

    fn member_ref(&self, member: Token, arguments: &str) -> Option<String> {
        const FIELD: u8 = 6;
        let props = self.metadata.member_ref_props(MemberRef::from_raw(member.0)).ok()?;
        let name = quoted(&props.name);
        let called = match props.parent.kind()? {
            TokenKind::ModuleRef => format!("{}::{name}", self.module_ref(props.parent)?),
            // A call with variable arguments of a method of this module.
            TokenKind::MethodDef => {
                let method =
                    self.metadata.method_props(MethodDef::from_raw(props.parent.0)).ok()?;
                self.member(method.class, &method.name)?
            }
            _ => format!("{}::{name}", self.name(props.parent)?),
        };
        if props.signature.first()? & 0xf == FIELD {
            return Some(format!(
                "{} {called}",
                type_text(&decode_field(props.signature).ok()?, self)
            ));
        }
        Some(method_text(&MethodSig::decode(props.signature).ok()?, &(called + arguments), self))
    }

    fn token_text(&self, token: Token) -> Option<String> {
        let metadata = self.metadata;
        match token.kind()? {
            TokenKind::TypeDef => self.type_def(TypeDef::from_raw(token.0)),
            TokenKind::TypeRef => self.type_ref(TypeRef::from_raw(token.0)),
            TokenKind::TypeSpec => {
                let blob = metadata.type_spec_signature(TypeSpec::from_raw(token.0)).ok()?;
                Some(type_text(&TypeSig::decode(blob).ok()?, self))
            }
            TokenKind::FieldDef => {
                let props = metadata.field_props(FieldDef::from_raw(token.0)).ok()?;
                let field = decode_field(props.signature).ok()?;
                Some(format!(
                    "{} {}",
                    type_text(&field, self),
                    self.member(props.class, &props.name)?
                ))
            }
            TokenKind::MethodDef | TokenKind::MemberRef => self.method(token, ""),
            TokenKind::MethodSpec => {
                let props = metadata.method_spec_props(MethodSpec::from_raw(token.0)).ok()?;
                let arguments = decode_method_spec(props.signature).ok()?;
                self.method(props.parent, &format!("<{}>", types_text(&arguments, self)))
            }
            TokenKind::Signature => {
                let blob = metadata.signature(Signature::from_raw(token.0)).ok()?;
                Some(method_text(&MethodSig::decode(blob).ok()?, "", self))
            }
            _ => None,
        }
    }
}

impl Names for Naming<'_> {
    fn name(&self, token: Token) -> Option<String> {
        let depth = self.depth.get();
        if depth == 0 {
            self.written.set(0);
        }
        if depth >= DEEPEST || self.written.get() >= LONGEST {
            return Some(CUT.to_owned());
        }
        self.depth.set(depth + 1);
        let text = self.token_text(token);
        self.depth.set(depth);
        self.written.set(self.written.get() + text.as_ref().map_or(0, String::len));
        text
    }

    fn literal(&self, token: Token) -> Option<Vec<u16>> {
        let text = self.metadata.user_string(UserString::from_raw(token.0)).ok()?;
        Some(self.masked.literal(&text).encode_utf16().collect())
    }

    fn number(&self, value: i64) -> Option<String> {
        (self.masked.function == Some(value.cast_unsigned())).then(|| "&function".to_owned())
    }
}

impl Masked<'_> {
    /// A literal. The keys by which methods of the API find those of the agent end with the id of
    /// the method.
    fn literal(&self, text: &str) -> String {
        if text == self.agent {
            return "&agent".to_owned();
        }
        let is_key = text.starts_with("NewRelic.Agent.Core.");
        let start =
            self.function.filter(|_| is_key).and_then(|id| text.strip_suffix(&format!("_{id}")));
        start.map_or_else(|| text.to_owned(), |start| format!("{start}_&function"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_process_to_process_is_masked() {
        let masked = Masked { function: Some(12), agent: "/home/NewRelic.Agent.Core.dll" };
        let literal = |text| masked.literal(text);
        assert_eq!(literal("/home/NewRelic.Agent.Core.dll"), "&agent");
        assert_eq!(
            literal("NewRelic.Agent.Core.AgentApi.Do_12"),
            "NewRelic.Agent.Core.AgentApi.Do_&function"
        );
        for text in [
            "/home/NewRelic.Agent.Core.dll2",
            "NewRelic.Agent.Core.AgentApi.Do_112",
            "Do_12",
            "12",
            "",
        ] {
            assert_eq!(literal(text), text);
        }
        let unknown = Masked { function: None, ..masked };
        assert_eq!(
            unknown.literal("NewRelic.Agent.Core.AgentApi.Do_12"),
            "NewRelic.Agent.Core.AgentApi.Do_12"
        );
    }
}
