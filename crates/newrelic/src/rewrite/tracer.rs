//! The template of instrumented methods: start a tracer, run the method, finish the tracer.

use super::assembler::Assembler;
use super::calls::{AgentMethod, Writer};
use super::helpers::Helper;
use super::preprocess;
use super::references::References;
use super::runtime_async::{IMPL_ASYNC, effective_return_type};
use super::{Function, Locals, ModuleMetadata, Refusal, Rewritten, STACK, Settings, assemble, unmodified};
use crate::points::flags;
use crate::shape::AgentShape;
use crate::signature_text;
use crate::strategy::CallingStrategy;
use cil::{MethodSig, NewInstruction, Opcode, Primitive, Token, TypeSig};

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
const SHIM_METHOD: &str = "GetFinishTracerDelegate";
/// Under this name the core library keeps that method.
const SHIM_KEY: &str = "NewRelic.Agent.Core.AgentShim.GetFinishTracerDelegate_0";

/// What the managed agent is told about a method.
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
    let mut writer = Writer { code: Assembler::default(), references: References::new(settings, false, metadata) };
    let object = writer.references.class_sig("System.Object")?;
    let exception = writer.references.class("System.Exception")?;
    let slots = Slots {
        tracer: locals.add(object)?,
        exception: locals.add(TypeSig::Class(exception))?,
        result: result.clone().map(|result| locals.add(result)).transpose()?,
    };
    let facts = Facts { function, tracer, settings, signature: &signature, parameters: &parameters, effective };
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
    assemble(writer.code, &original, STACK.max(arguments.saturating_add(1)), &locals, metadata)
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

/// What the body leaves as its result, `None` for nothing; and whether the runtime makes a task of it.
fn result_of<M: ModuleMetadata + ?Sized>(
    function: &Function<'_>,
    signature: &MethodSig,
    settings: &Settings<'_>,
    metadata: &M,
) -> Result<(Option<TypeSig>, bool), Refusal> {
    let is_runtime_async = function.implementation & IMPL_ASYNC != 0;
    let result = match (is_runtime_async, settings.shape) {
        (false, _) => unmodified(&signature.return_type),
        (true, AgentShape::V10_55) => effective_return_type(signature, metadata).ok_or(Refusal::RuntimeAsyncReturn)?,
        (true, AgentShape::V10_53 | AgentShape::V10_54) => return Err(Refusal::RuntimeAsync),
    };
    match result {
        TypeSig::Primitive(Primitive::Void) => Ok((None, is_runtime_async)),
        TypeSig::ByRef(_) => Err(Refusal::ByRefReturn),
        TypeSig::Pointer(_) | TypeSig::FunctionPointer(_) => Err(Refusal::UnsupportedType),
        result => Ok((Some(result), is_runtime_async)),
    }
}

/// What the code that starts a tracer is made from.
struct Facts<'a> {
    function: &'a Function<'a>,
    tracer: &'a Tracer<'a>,
    settings: &'a Settings<'a>,
    signature: &'a MethodSig,
    /// Text of the parameters.
    parameters: &'a str,
    /// Whether the agent is told what the runtime makes a task of.
    effective: bool,
}

impl Facts<'_> {
    fn flags(&self) -> u32 {
        let from_method = if self.function.is_async { flags::ASYNC_METHOD } else { 0 };
        self.tracer.flags | from_method | if self.effective { flags::RUNTIME_ASYNC } else { 0 }
    }
}

/// Starts the tracer, in a try block that swallows all exceptions.
fn start<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    facts: &Facts<'_>,
    slots: Slots,
    exception: Token,
) -> Result<(), Refusal> {
    let Facts { settings, .. } = facts;
    let (start, end) = (writer.code.offset(), writer.code.label());
    let shim = AgentMethod { class: SHIM_CLASS, name: SHIM_METHOD };
    match (settings.strategy, settings.shape) {
        (CallingStrategy::Cache, AgentShape::V10_55) => {
            writer.ldstr(settings.agent_path)?;
            description(writer, facts)?;
            let helper = Helper::InvokeAgentShimFinishTracerDelegateFunc.reference(&mut writer.references, settings)?;
            writer.code.token(Opcode::Call, helper);
        }
        (strategy, _) => {
            if strategy == CallingStrategy::Cache {
                for text in [SHIM_KEY, settings.agent_path, SHIM_CLASS, SHIM_METHOD] {
                    writer.ldstr(text)?;
                }
                writer.code.emit(Opcode::Ldnull);
                let helper = if settings.shape == AgentShape::V10_53 {
                    Helper::GetMethodFromAppDomainStorageOrReflectionOrThrow
                } else {
                    Helper::GetAgentShimMethodFromAppDomainStorageOrReflectionOrThrow
                };
                let helper = helper.reference(&mut writer.references, settings)?;
                writer.code.token(Opcode::Call, helper);
            } else {
                writer.find_by_reflection(settings.agent_path, &shim, None)?;
            }
            writer.code.emit(Opcode::Ldnull);
            description(writer, facts)?;
            let invoke = writer.references.invoke()?;
            writer.code.token(Opcode::Callvirt, invoke);
        }
    }
    writer.code.stloc(slots.tracer);
    writer.code.branch(Opcode::Leave, end);
    let handler = writer.swallow(end);
    writer.code.catch(exception, start, handler);
    writer.code.bind(end);
    Ok(())
}

/// Loads the array that describes the call to the agent.
fn description<M: ModuleMetadata + ?Sized>(writer: &mut Writer<'_, M>, facts: &Facts<'_>) -> Result<(), Refusal> {
    let Facts { function, tracer, signature, .. } = facts;
    let slots: i32 = if facts.settings.shape == AgentShape::V10_55 { 12 } else { 11 };
    writer.code.emit(NewInstruction::ldc_i4(slots));
    let object = writer.references.class("System.Object")?;
    writer.code.token(Opcode::Newarr, object);
    for slot in 0..slots {
        writer.code.emit(Opcode::Dup);
        writer.code.emit(NewInstruction::ldc_i4(slot));
        match slot {
            0 => writer.ldstr(tracer.factory)?,
            1 => {
                writer.code.ldc_i4_long(facts.flags().cast_signed());
                let boxed = writer.references.class("System.UInt32")?;
                writer.code.token(Opcode::Box, boxed);
            }
            2 => writer.ldstr(tracer.metric)?,
            3 => writer.ldstr(function.assembly)?,
            4 => writer.load_type(function.type_token)?,
            5 => writer.ldstr(function.type_name)?,
            6 => writer.ldstr(function.name)?,
            7 => writer.ldstr(facts.parameters)?,
            8 if signature.convention.has_this() => writer.this(function)?,
            8 => writer.code.emit(Opcode::Ldnull),
            9 => writer.arguments(signature)?,
            10 => {
                writer.ldc_i8(function.id);
                let boxed = writer.references.class("System.UInt64")?;
                writer.code.token(Opcode::Box, boxed);
            }
            _ => effective_type(writer, facts)?,
        }
        writer.code.emit(Opcode::StelemRef);
    }
    Ok(())
}

/// Loads the type that the runtime makes a task of; null for methods that return what they leave, and for none.
fn effective_type<M: ModuleMetadata + ?Sized>(writer: &mut Writer<'_, M>, facts: &Facts<'_>) -> Result<(), Refusal> {
    let result =
        if facts.effective { effective_return_type(facts.signature, writer.references.metadata()) } else { None };
    match result {
        Some(result) if result != TypeSig::Primitive(Primitive::Void) => {
            let token = writer.references.type_token(&result)?;
            writer.load_type(token)
        }
        _ => {
            writer.code.emit(Opcode::Ldnull);
            Ok(())
        }
    }
}

/// Finishes the tracer, if one was started: with the exception where `result` is `None`, else with what was returned.
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
    writer.code.token(Opcode::Castclass, action);
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
