//! New method bodies.
//!
//! [`instrument`] surrounds a method with calls that start and finish a tracer, [`instrument_api`]
//! makes a method of `NewRelic.Api.Agent.dll` call the managed agent, and [`helpers`] are the
//! methods in the core library that both may go through. Every exception of the agent's is
//! swallowed by the injected code; those of the program pass.

mod api;
mod assembler;
mod calls;
mod injection;
mod module;
mod preprocess;
mod references;
mod refusal;
mod runtime_async;
mod tracer;

pub mod direct;
pub mod helpers;

pub use api::{API_ASSEMBLY, API_TYPE, instrument_api, is_api_method};
pub use injection::{CoreLibraryMetadata, Injection, NewMethod, inject, is_core_library};
pub use module::{AssemblyReference, MetadataError, ModuleMetadata};
pub use preprocess::preprocess;
pub use references::{CORE_LIBRARY, FRAMEWORK_LIBRARY, LONG_DELEGATES, external_types};
pub use refusal::Refusal;
pub use runtime_async::{IMPL_ASYNC, effective_return_type};
pub use tracer::{Tracer, instrument};

use crate::Runtime;
use crate::shape::AgentShape;
use crate::strategy::CallingStrategy;
use cil::{
    HeaderFormat, MethodBody, MethodHeader, Token, TypeSig, count_locals, decode_locals,
    encode_locals,
};
use std::borrow::Cow;

/// What is the same for all methods of a process.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The family of the runtime.
    pub runtime: Runtime,
    /// What the managed agent understands.
    pub shape: AgentShape,
    /// The `MethodDef` of its method that starts tracers, in its own file; `None` where the file
    /// could not be read.
    pub start_method: Option<Token>,
    /// How it is found.
    pub strategy: CallingStrategy,
    /// Path of `NewRelic.Agent.Core.dll`.
    pub agent_path: &'a str,
    /// Where the types of the framework are looked for.
    pub scopes: Scopes,
}

/// The libraries in which injected code looks for types of the framework.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scopes {
    /// Those that the agent's own profiler names. Some of them are facades, which are not whole in
    /// a trimmed program.
    #[default]
    Facades,
    /// The core library of .NET Core, whatever it defines itself.
    CoreLibrary {
        /// Whether it defines delegates with more than nine parameters; .NET Core 3.1 has them
        /// elsewhere.
        has_long_delegates: bool,
    },
}

/// A method to be instrumented, as its metadata describe it.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// The runtime's id of the function. Injected code passes it to the agent.
    pub id: u64,
    /// Simple name of the assembly.
    pub assembly: &'a str,
    /// Full name of the type, with `+` between a type and those in it.
    pub type_name: &'a str,
    /// Name of the method.
    pub name: &'a str,
    /// The `TypeDef`.
    pub type_token: Token,
    /// Attributes of the outermost type around the method (ECMA-335 II.23.1.15).
    pub outermost_type_attributes: u32,
    /// What kind of type it is a method of.
    pub owner: Owner,
    /// Generic parameters of the type, those of enclosing types included.
    pub type_parameters: u32,
    /// Generic parameters that may stand for a `ref struct`.
    pub ref_structs: RefStructs,
    /// Attributes of the method (ECMA-335 II.23.1.10).
    pub attributes: u32,
    /// Implementation attributes of the method (ECMA-335 II.23.1.11).
    pub implementation: u32,
    /// The signature blob.
    pub signature: &'a [u8],
    /// The body, from its header on.
    pub body: &'a [u8],
    /// The signature of its locals, if its header names one.
    pub locals: Option<&'a [u8]>,
    /// Whether the compiler made it the start of an asynchronous state machine.
    pub is_async: bool,
    /// The shortest way to the agent, if its module has got what that needs and the agent's own way
    /// is not asked for.
    pub direct: Option<direct::Direct>,
}

/// Generic parameters that may stand for a `ref struct` (C#: `allows ref struct`), by their bits:
/// values of these types cannot be boxed. Those from the 64th on count as such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefStructs {
    /// Of the type.
    pub of_type: u64,
    /// Of the method.
    pub of_method: u64,
}

impl RefStructs {
    /// Whether a type is such a parameter.
    fn contains(self, sig: &TypeSig) -> bool {
        let has = |bits: u64, index: u32| bits.checked_shr(index).is_none_or(|bits| bits & 1 != 0);
        match sig {
            TypeSig::TypeParam(index) => has(self.of_type, *index),
            TypeSig::MethodParam(index) => has(self.of_method, *index),
            _ => false,
        }
    }
}

/// What kind of type a method belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// A class or an interface: `this` is a reference.
    #[default]
    Class,
    /// A value type: `this` is a managed pointer.
    ValueType,
    /// A `ref struct`: `this` is a managed pointer to what cannot be boxed.
    ByRefLike,
}

/// A new body. [`ModuleMetadata`] has got what it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Header, code and exception clauses.
    pub bytes: Vec<u8>,
    /// The signature of its locals.
    pub locals: Vec<u8>,
}

/// Stack that injected code needs, without the parameters of the method.
const STACK: u16 = 10;

/// Locals of a body that is given new ones.
struct Locals {
    types: Vec<TypeSig>,
}

impl Locals {
    fn of(function: &Function<'_>, body: &MethodBody<'_>) -> Result<Self, Refusal> {
        let blob = match (function.locals, body.header.local_signature.is_nil()) {
            (_, true) => return Ok(Self { types: Vec::new() }),
            (Some(blob), false) => blob,
            (None, false) => return Err(Refusal::Locals),
        };
        count_locals(blob).map_err(|_| Refusal::Locals)?;
        Ok(Self { types: decode_locals(blob).map_err(|_| Refusal::Locals)? })
    }

    /// Adds one and gives its index. Indices end at 65534 (ECMA-335 III.3.43).
    fn add(&mut self, local: TypeSig) -> Result<u16, Refusal> {
        let index = u16::try_from(self.types.len())
            .ok()
            .filter(|&index| index < u16::MAX)
            .ok_or(Refusal::Locals)?;
        self.types.push(local);
        Ok(index)
    }

    fn encode(&self) -> Result<Vec<u8>, Refusal> {
        encode_locals(&self.types).map_err(|_| Refusal::Locals)
    }
}

/// Puts a new body together. `original` is the preprocessed body that is part of it.
fn assemble<M: ModuleMetadata + ?Sized>(
    assembler: assembler::Assembler,
    original: &MethodBody<'_>,
    max_stack: u16,
    locals: &Locals,
    metadata: &mut M,
) -> Result<Rewritten, Refusal> {
    let (code, clauses) = assembler.finish()?;
    let blob = locals.encode()?;
    let header = MethodHeader {
        format: HeaderFormat::Fat,
        max_stack: max_stack.max(original.header.max_stack),
        // A tiny header cannot say it, and such a body has no locals that could differ.
        init_locals: original.header.init_locals || original.header.format == HeaderFormat::Tiny,
        local_signature: metadata.local_signature(&blob)?,
    };
    let body = MethodBody { header, code: Cow::Owned(code), clauses };
    Ok(Rewritten {
        bytes: body.encode_fat_clauses().map_err(|_| Refusal::Malformed)?,
        locals: blob,
    })
}

/// A type without custom modifiers, at any depth.
fn unmodified(sig: &TypeSig) -> TypeSig {
    match sig {
        TypeSig::Modified { inner, .. } => unmodified(inner),
        TypeSig::Pinned(inner) => TypeSig::Pinned(Box::new(unmodified(inner))),
        TypeSig::SzArray(inner) => TypeSig::SzArray(Box::new(unmodified(inner))),
        TypeSig::Pointer(inner) => TypeSig::Pointer(Box::new(unmodified(inner))),
        TypeSig::ByRef(inner) => TypeSig::ByRef(Box::new(unmodified(inner))),
        TypeSig::Array { element, rank, sizes, lower_bounds } => TypeSig::Array {
            element: Box::new(unmodified(element)),
            rank: *rank,
            sizes: sizes.clone(),
            lower_bounds: lower_bounds.clone(),
        },
        TypeSig::GenericInst { value_type, definition, arguments } => TypeSig::GenericInst {
            value_type: *value_type,
            definition: definition.clone(),
            arguments: arguments.iter().map(unmodified).collect(),
        },
        other => other.clone(),
    }
}
