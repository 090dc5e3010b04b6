//! Bodies as bytes and as text, for those who want to see what was rewritten.

use crate::{Probes, Scope};
use cil::{
    MethodBody, Names, Token, TokenKind, decode_field, decode_locals, decode_method_spec,
    disassemble,
};
use cil::{MethodSig, TypeSig, method_text, nested, quoted, type_text, types_text};
use corprof::metadata::Metadata;
use corprof::metadata::token::{
    AssemblyRef, FieldDef, MemberRef, MethodDef, MethodSpec, ModuleRef, Signature, TypeDef,
    TypeRef, TypeSpec, UserString,
};
use std::cell::Cell;
use std::fmt::{self, Write};

/// A method has a new body.
#[derive(Clone, Debug)]
pub struct Rewritten<'a> {
    /// The method that this is done for.
    pub method: &'a crate::Method,
    /// The one whose body it is: the same, or `MoveNext` of its state machine.
    pub body_of: MethodDef,
    /// The original body.
    pub before: Body<'a>,
    /// The new one.
    pub after: Body<'a>,
}

/// A body, and what its tokens mean.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// Header, code and clauses, as the runtime takes them.
    pub bytes: &'a [u8],
    pub(crate) scope: &'a Scope,
    pub(crate) probes: &'a Probes,
}

impl Body<'_> {
    /// The body in the syntax of ILAsm, with names in place of tokens and of the addresses of
    /// probes; `None` if that takes more than `most` bytes.
    #[must_use]
    pub fn text(&self, most: usize) -> Option<String> {
        let mut out = Limited { text: String::new(), most };
        self.write(&mut out).ok().map(|()| out.text)
    }

    fn write(&self, out: &mut Limited) -> fmt::Result {
        let body = match MethodBody::parse(self.bytes) {
            Ok(body) => body,
            Err(error) => return writeln!(out, "// {error}"),
        };
        let metadata = self.scope.metadata();
        let locals = match body.header.local_signature.non_nil() {
            Some(token) => metadata.signature(Signature::from_raw(token.0)).ok().map(decode_locals),
            None => None,
        };
        let locals = match locals.transpose() {
            Ok(locals) => locals.unwrap_or_default(),
            Err(error) => {
                writeln!(out, "// the signature of the locals: {error}")?;
                Vec::new()
            }
        };
        disassemble(
            out,
            &body,
            &locals,
            &Naming { metadata, probes: self.probes, depth: Cell::new(0) },
        )
    }
}

/// Text up to a size.
struct Limited {
    text: String,
    most: usize,
}

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > self.most {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// How deep constructed types may refer to each other, and types may be nested. Nothing keeps bad
/// metadata from doing so in a circle.
const DEEPEST: u32 = 8;

/// What tokens stand for, in the syntax of ILAsm: as `clrscope il` writes it, but out of the
/// metadata that the runtime has, with all that was added.
struct Naming<'a> {
    metadata: &'a Metadata,
    probes: &'a Probes,
    depth: Cell<u32>,
}

impl Naming<'_> {
    fn type_def(&self, type_def: TypeDef) -> Option<String> {
        let mut parts = Vec::new();
        let mut next = Some(type_def);
        while let Some(type_def) = next.filter(|_| parts.len() < DEEPEST as usize) {
            let mut name = String::new();
            self.metadata.type_def_into(type_def, &mut name).ok()?;
            parts.insert(0, name);
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
                let assembly = self.metadata.manifest().ok()?;
                let props = assembly.assembly_ref_props(AssemblyRef::from_raw(scope.0)).ok()?;
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
        let mut name = String::new();
        let props = self.metadata.method_into(MethodDef::from_raw(method.0), &mut name).ok()?;
        let called = self.member(props.class, &name)? + arguments;
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

    fn text(&self, token: Token) -> Option<String> {
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
        if depth >= DEEPEST {
            return Some("…".to_owned());
        }
        self.depth.set(depth + 1);
        let text = self.text(token);
        self.depth.set(depth);
        text
    }

    fn literal(&self, token: Token) -> Option<Vec<u16>> {
        let text = self.metadata.user_string(UserString::from_raw(token.0)).ok()?;
        Some(text.encode_utf16().collect())
    }

    fn number(&self, value: i64) -> Option<String> {
        let name = self.probes.name_of(usize::try_from(value).ok()?)?;
        Some(format!("&clrscope.{name}"))
    }
}
