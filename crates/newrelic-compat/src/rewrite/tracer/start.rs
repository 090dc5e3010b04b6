//! The code in front of an instrumented method, which starts a tracer.

use super::{SHIM_CLASS, SHIM_METHOD, Slots};
use crate::points::flags;
use crate::rewrite::calls::{AgentMethod, Writer};
use crate::rewrite::direct::{self, Direct};
use crate::rewrite::helpers::Helper;
use crate::rewrite::runtime_async::effective_return_type;
use crate::rewrite::{Function, ModuleMetadata, Refusal, Settings, Tracer};
use crate::shape::AgentShape;
use crate::strategy::CallingStrategy;
use cil::{MethodSig, NewInstruction, Opcode, Primitive, Token, TypeSig};

/// Under this name the core library keeps the method of the agent that starts tracers.
const SHIM_KEY: &str = "NewRelic.Agent.Core.AgentShim.GetFinishTracerDelegate_0";

/// What the code that starts a tracer is made from.
pub(super) struct Facts<'a> {
    pub function: &'a Function<'a>,
    pub tracer: &'a Tracer<'a>,
    pub settings: &'a Settings<'a>,
    pub signature: &'a MethodSig,
    /// Text of the parameters.
    pub parameters: &'a str,
    /// Whether the agent receives the value of which the runtime makes a task.
    pub effective: bool,
    /// The shortest way to the agent, if the module has it.
    pub direct: Option<Direct>,
}

impl Facts<'_> {
    fn flags(&self) -> u32 {
        let from_method = if self.function.is_async { flags::ASYNC_METHOD } else { 0 };
        self.tracer.flags | from_method | if self.effective { flags::RUNTIME_ASYNC } else { 0 }
    }
}

/// Starts the tracer, in a try block that swallows all exceptions.
pub(super) fn start<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    facts: &Facts<'_>,
    slots: Slots,
    exception: Token,
) -> Result<(), Refusal> {
    let Facts { settings, .. } = facts;
    let (start, end) = (writer.code.offset(), writer.code.label());
    let shim = AgentMethod { class: SHIM_CLASS, name: SHIM_METHOD };
    match (settings.strategy, settings.shape) {
        _ if let Some(direct) = facts.direct => {
            direct.load(writer, settings, end)?;
            for slot in 0..slots_of(settings.shape) {
                value(writer, facts, slot)?;
            }
            let invoke = direct::invoke(&mut writer.references, settings)?;
            writer.code.token(Opcode::Callvirt, invoke);
        }
        (CallingStrategy::Cache, AgentShape::V10_55) => {
            writer.ldstr(settings.agent_path)?;
            description(writer, facts)?;
            let helper = Helper::InvokeAgentShimFinishTracerDelegateFunc
                .reference(&mut writer.references, settings)?;
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
    let handler = match facts.direct {
        Some(direct) => direct.swallow(writer, end),
        None => writer.swallow(end),
    };
    writer.code.catch(exception, start, handler);
    writer.code.bind(end);
    Ok(())
}

/// How much the agent is told about a call.
pub(in crate::rewrite) const fn slots_of(shape: AgentShape) -> i32 {
    match shape {
        AgentShape::V10_53 | AgentShape::V10_54 => 11,
        AgentShape::V10_55 => 12,
    }
}

/// Loads the array that describes the call to the agent.
fn description<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    facts: &Facts<'_>,
) -> Result<(), Refusal> {
    let slots = slots_of(facts.settings.shape);
    writer.code.emit(NewInstruction::ldc_i4(slots));
    let object = writer.references.class("System.Object")?;
    writer.code.token(Opcode::Newarr, object);
    for slot in 0..slots {
        writer.code.emit(Opcode::Dup);
        writer.code.emit(NewInstruction::ldc_i4(slot));
        value(writer, facts, slot)?;
        let number = match slot {
            1 => Some("System.UInt32"),
            10 => Some("System.UInt64"),
            _ => None,
        };
        if let Some(number) = number {
            let number = writer.references.class(number)?;
            writer.code.token(Opcode::Box, number);
        }
        writer.code.emit(Opcode::StelemRef);
    }
    Ok(())
}

/// Loads one of the values that describe the call; numbers as they are.
fn value<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    facts: &Facts<'_>,
    slot: i32,
) -> Result<(), Refusal> {
    let Facts { function, tracer, signature, .. } = facts;
    match slot {
        0 => writer.ldstr(tracer.factory)?,
        1 => writer.code.ldc_i4_long(facts.flags().cast_signed()),
        2 => writer.ldstr(tracer.metric)?,
        3 => writer.ldstr(function.assembly)?,
        4 => writer.load_type(function.type_token)?,
        5 => writer.ldstr(function.type_name)?,
        6 => writer.ldstr(function.name)?,
        7 => writer.ldstr(facts.parameters)?,
        8 if signature.convention.has_this() => writer.this(function)?,
        8 => writer.code.emit(Opcode::Ldnull),
        9 => writer.arguments(signature)?,
        10 => writer.ldc_i8(function.id),
        _ => effective_type(writer, facts)?,
    }
    Ok(())
}

/// Loads the type that the runtime makes a task of; null for methods that return what they leave,
/// and for none.
fn effective_type<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    facts: &Facts<'_>,
) -> Result<(), Refusal> {
    let result = if facts.effective {
        effective_return_type(facts.signature, writer.references.metadata())
    } else {
        None
    };
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
