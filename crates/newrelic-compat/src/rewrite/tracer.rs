//! The template of instrumented methods: start a tracer, run the method, finish the tracer.

mod start;

use super::assembler::Assembler;
use super::calls::Writer;
use super::direct;
use super::preprocess;
use super::references::References;
use super::runtime_async::{IMPL_ASYNC, effective_return_type};
use super::{
    Function, Locals, ModuleMetadata, Refusal, Rewritten, STACK, Settings, assemble, unmodified,
};
use crate::Runtime;
use crate::shape::AgentShape;
use crate::signature_text;
use cil::{MethodSig, Opcode, Primitive, Token, TypeSig};
use start::{Facts, start};

/// `SequentialLayout` among the layout bits of a type (ECMA-335 II.23.1.15).
const LAYOUT_MASK: u32 = 0x18;
const SEQUENTIAL_LAYOUT: u32 = 0x08;
/// Attributes of methods (ECMA-335 II.23.1.10).
const UNMANAGED_EXPORT: u32 = 0x0008;
const SPECIAL_NAME: u32 = 0x0800;
const PINVOKE_IMPL: u32 = 0x2000;

/// Type of the managed agent that starts tracers.
pub(super) const SHIM_CLASS: &str = "NewRelic.Agent.Core.AgentShim";
/// Its method that does.
pub(super) const SHIM_METHOD: &str = "GetFinishTracerDelegate";

/// What the managed agent receives about a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracer<'a> {
    /// Full name of the factory that makes the tracer.
    pub factory: &'a str,
    /// Name of the metric; may be empty.
    pub metric: &'a str,
    /// Bits of [`crate::points::flags`], without those that come from the method itself.
    pub flags: u32,
}

/// Locals that the template adds.
#[derive(Clone, Copy)]
struct Slots {
    /// What finishes the tracer.
    tracer: u16,
    /// Whether that local has the type of what is in it.
    is_typed: bool,
    /// The exception that the method threw.
    exception: u16,
    /// What it returns, if it does.
    result: Option<u16>,
}

/// Makes a body that starts a tracer in front of the method and finishes it behind.
///
/// # Errors
/// The method cannot be instrumented, or the metadata not be extended.
pub fn instrument<M: ModuleMetadata + ?Sized>(
    function: &Function<'_>,
    tracer: &Tracer<'_>,
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<Rewritten, Refusal> {
    refuse(function)?;
    let original = preprocess::parse(function.body)?;
    let original = preprocess(&original)?;
    let signature = MethodSig::decode_start(function.signature).map_err(|_| Refusal::Signature)?;
    let (result, effective) = result_of(function, &signature, settings, metadata)?;
    let parameters = signature_text::parameters(&signature, &|token| metadata.type_name(token))?;

    let mut locals = Locals::of(function, &original)?;
    let mut writer = Writer {
        code: Assembler::default(),
        references: References::new(settings, false, metadata),
        ref_structs: function.ref_structs,
    };
    let direct = function.direct.filter(|_| settings.runtime == Runtime::Core);
    let object = writer.references.class("System.Object")?;
    let exception = writer.references.class("System.Exception")?;
    let tracer_type = match direct {
        Some(_) => writer.references.action_sig(exception)?,
        None => TypeSig::Class(object),
    };
    let slots = Slots {
        tracer: locals.add(tracer_type)?,
        is_typed: direct.is_some(),
        exception: locals.add(TypeSig::Class(exception))?,
        result: result.clone().map(|result| locals.add(result)).transpose()?,
    };
    let facts = Facts {
        function,
        tracer,
        settings,
        signature: &signature,
        parameters: &parameters,
        effective,
        direct,
    };
    for slot in [slots.tracer, slots.exception] {
        writer.code.emit(Opcode::Ldnull);
        writer.code.stloc(slot);
    }
    start(&mut writer, &facts, slots, exception)?;

    let (user, after) = (writer.code.offset(), writer.code.label());
    writer.code.body(&original.code, &original.clauses);
    if let Some(result) = slots.result {
        writer.code.stloc(result);
    }
    writer.code.branch(Opcode::Leave, after);
    let handler = writer.code.offset();
    writer.code.stloc(slots.exception);
    finish(&mut writer, slots, exception, None)?;
    writer.code.emit(Opcode::Rethrow);
    writer.code.branch(Opcode::Leave, after);
    writer.code.catch(exception, user, handler);
    writer.code.bind(after);
    finish(&mut writer, slots, exception, Some(result.as_ref()))?;
    if let Some(result) = slots.result {
        writer.code.ldloc(result);
    }
    writer.code.emit(Opcode::Ret);

    let arguments = u16::try_from(signature.parameters.len()).unwrap_or(u16::MAX);
    let stack = if direct.is_some() { direct::STACK } else { STACK };
    assemble(writer.code, &original, stack.max(arguments.saturating_add(1)), &locals, metadata)
}

fn refuse(function: &Function<'_>) -> Result<(), Refusal> {
    if function.outermost_type_attributes & LAYOUT_MASK == SEQUENTIAL_LAYOUT {
        return Err(Refusal::SequentialLayout);
    }
    if function.attributes & SPECIAL_NAME != 0 && function.name != ".ctor" {
        return Err(Refusal::SpecialName);
    }
    if function.attributes & (PINVOKE_IMPL | UNMANAGED_EXPORT) != 0 {
        return Err(Refusal::Unmanaged);
    }
    Ok(())
}

/// What the body leaves as its result, `None` for nothing; and whether the runtime makes a task of
/// it.
fn result_of<M: ModuleMetadata + ?Sized>(
    function: &Function<'_>,
    signature: &MethodSig,
    settings: &Settings<'_>,
    metadata: &M,
) -> Result<(Option<TypeSig>, bool), Refusal> {
    let is_runtime_async = function.implementation & IMPL_ASYNC != 0;
    let result = match (is_runtime_async, settings.shape) {
        (false, _) => unmodified(&signature.return_type),
        (true, AgentShape::V10_55) => {
            effective_return_type(signature, metadata).ok_or(Refusal::RuntimeAsyncReturn)?
        }
        (true, AgentShape::V10_53 | AgentShape::V10_54) => return Err(Refusal::RuntimeAsync),
    };
    match result {
        TypeSig::Primitive(Primitive::Void) => Ok((None, is_runtime_async)),
        TypeSig::ByRef(_) => Err(Refusal::ByRefReturn),
        TypeSig::Pointer(_) | TypeSig::FunctionPointer(_) => Err(Refusal::UnsupportedType),
        result => Ok((Some(result), is_runtime_async)),
    }
}

/// Finishes the tracer, if one was started: with the exception where `result` is `None`, else with
/// what was returned.
fn finish<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    slots: Slots,
    exception: Token,
    result: Option<Option<&TypeSig>>,
) -> Result<(), Refusal> {
    let end = writer.code.label();
    writer.code.ldloc(slots.tracer);
    writer.code.branch(Opcode::Brfalse, end);
    let start = writer.code.offset();
    writer.code.ldloc(slots.tracer);
    let (action, invoke) = writer.references.finish_action(exception)?;
    if !slots.is_typed {
        writer.code.token(Opcode::Castclass, action);
    }
    match (result.flatten(), slots.result) {
        (Some(sig), Some(slot)) if writer.can_box(sig) => {
            writer.code.ldloc(slot);
            let token = writer.references.type_token(sig)?;
            writer.code.token(Opcode::Box, token);
        }
        _ => writer.code.emit(Opcode::Ldnull),
    }
    if result.is_some() {
        writer.code.emit(Opcode::Ldnull);
    } else {
        writer.code.ldloc(slots.exception);
    }
    writer.code.token(Opcode::Callvirt, invoke);
    writer.code.branch(Opcode::Leave, end);
    let handler = writer.swallow(end);
    writer.code.catch(exception, start, handler);
    writer.code.bind(end);
    Ok(())
}
