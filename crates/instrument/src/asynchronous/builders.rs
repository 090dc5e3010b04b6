//! What makes the tasks of asynchronous methods, and how code names it.

use crate::Refusal;
use cil::{Token, TokenKind, TypeSig};
use corprof::metadata::Metadata;
use corprof::metadata::token::{MemberRef, MethodDef, TypeDef, TypeRef, TypeSpec};

/// What makes the task of an asynchronous method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builder {
    Task,
    ValueTask,
    Pooled,
    Void,
}

/// The builders, with and without a type parameter for the result.
const BUILDERS: [(&str, Builder); 4] = [
    ("AsyncTaskMethodBuilder", Builder::Task),
    ("AsyncValueTaskMethodBuilder", Builder::ValueTask),
    ("PoolingAsyncValueTaskMethodBuilder", Builder::Pooled),
    ("AsyncVoidMethodBuilder", Builder::Void),
];

const NAMESPACE: &str = "System.Runtime.CompilerServices.";

pub(super) const TASK: &str = "System.Threading.Tasks.Task";

pub(super) const TASK_OF: &str = "System.Threading.Tasks.Task`1";

const VALUE_TASKS: [&str; 2] =
    ["System.Threading.Tasks.ValueTask", "System.Threading.Tasks.ValueTask`1"];

/// `int32 get_Id()`.
pub(super) const GET_ID: &[u8] = &[0x20, 0, 0x08];

/// What the core library provides to identify tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tasks {
    /// Tasks have ids, and value tasks tell their tasks: programs are trimmed of what they do not
    /// use.
    has_ids: bool,
    has_as_task: bool,
    /// .NET 5 pools all value tasks if an environment variable says so.
    may_pool: bool,
}

impl Tasks {
    pub fn of(core: &Metadata) -> Self {
        let find = |name| core.find_type_def(name, None).ok().flatten();
        let has_as_task = |task| {
            core.methods_named(task, "AsTask")
                .is_ok_and(|mut found| found.next().is_some_and(|one| one.is_ok()))
        };
        // Others have a field of the type of the task.
        const OBJECT: &[u8] = &[0x06, 0x1c];
        let holds_objects =
            |builder| core.find_field(builder, "m_task", OBJECT).is_ok_and(|found| found.is_some());
        Self {
            has_ids: find(TASK).is_some_and(|task| {
                core.find_method(task, "get_Id", GET_ID).is_ok_and(|found| found.is_some())
            }),
            has_as_task: VALUE_TASKS.into_iter().all(|name| find(name).is_some_and(has_as_task)),
            may_pool: find(&format!("{NAMESPACE}AsyncValueTaskMethodBuilder"))
                .is_some_and(holds_objects),
        }
    }

    /// Why a method with such a builder cannot be timed.
    pub(super) fn refusal(self, builder: Builder) -> Option<Refusal> {
        match builder {
            Builder::Void => Some(Refusal::AsyncVoid),
            Builder::Pooled => Some(Refusal::PooledTask),
            Builder::ValueTask if self.may_pool => Some(Refusal::PooledTask),
            Builder::ValueTask if !self.has_as_task => Some(Refusal::TrimmedTask),
            _ if !self.has_ids => Some(Refusal::TrimmedTask),
            _ => None,
        }
    }
}

pub(super) struct Member<'a> {
    pub(super) name: String,
    pub(super) parent: Token,
    pub(super) signature: &'a [u8],
}

pub(super) fn member(metadata: &Metadata, token: Token) -> Option<Member<'_>> {
    match token.kind()? {
        TokenKind::MemberRef => {
            let props = metadata.member_ref_props(MemberRef::from_raw(token.0)).ok()?;
            Some(Member { name: props.name, parent: props.parent, signature: props.signature })
        }
        TokenKind::MethodDef => {
            let props = metadata.method_props(MethodDef::from_raw(token.0)).ok()?;
            Some(Member {
                name: props.name,
                parent: props.class.into(),
                signature: props.signature,
            })
        }
        _ => None,
    }
}

/// Which of the builders that are known a type is.
pub(super) fn builder(metadata: &Metadata, of: Token) -> Option<Builder> {
    let definition = definition(metadata, of)?;
    let name = match definition.kind()? {
        TokenKind::TypeRef => metadata.type_ref_props(TypeRef::from_raw(definition.0)).ok()?.name,
        _ => metadata.type_def_props(TypeDef::from_raw(definition.0)).ok()?.name,
    };
    let name = name.strip_prefix(NAMESPACE)?;
    let name = name.strip_suffix("`1").unwrap_or(name);
    BUILDERS.into_iter().find(|(known, _)| *known == name).map(|(_, builder)| builder)
}

/// The type or reference to one that a token means, without type arguments.
pub(super) fn definition(metadata: &Metadata, of: Token) -> Option<Token> {
    match of.kind()? {
        TokenKind::TypeRef | TokenKind::TypeDef => Some(of),
        TokenKind::TypeSpec => match type_spec(metadata, of)? {
            TypeSig::GenericInst { definition, .. } => named(&definition),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn type_spec(metadata: &Metadata, of: Token) -> Option<TypeSig> {
    TypeSig::decode(metadata.type_spec_signature(TypeSpec::from_raw(of.0)).ok()?).ok()
}

/// The token of a type that is no constructed one.
pub(super) fn named(of: &TypeSig) -> Option<Token> {
    match of {
        TypeSig::Class(token) | TypeSig::ValueType(token)
            if token.kind() != Some(TokenKind::TypeSpec) =>
        {
            Some(*token)
        }
        _ => None,
    }
}
