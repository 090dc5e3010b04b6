//! The template of `NewRelic.Api.Agent.dll`: its methods call the managed agent, and do what they
//! did where that fails.

use super::assembler::Assembler;
use super::calls::{AgentMethod, Writer};
use super::helpers::Helper;
use super::preprocess;
use super::references::References;
use super::{
    Function, Locals, ModuleMetadata, Refusal, Rewritten, STACK, Settings, assemble, unmodified,
};
use crate::shape::AgentShape;
use crate::strategy::CallingStrategy;
use cil::{MethodSig, Opcode, Primitive, TypeSig};

/// Simple name of the assembly that programs call the agent by.
pub const API_ASSEMBLY: &str = "NewRelic.Api.Agent";
/// The type whose methods are given new bodies.
pub const API_TYPE: &str = "NewRelic.Api.Agent.NewRelic";
/// The type of the managed agent that has methods of the same names.
const AGENT_CLASS: &str = "NewRelic.Agent.Core.AgentApi";

/// Whether a method of [`API_ASSEMBLY`] calls the managed agent.
#[must_use]
pub fn is_api_method(type_name: &str, method: &str) -> bool {
    type_name == API_TYPE && !matches!(method, ".cctor" | "GetAgent")
}

/// Makes a body that calls the method of the managed agent with the same name, and runs the
/// original code where there is none or it throws.
///
/// # Errors
/// The method cannot be given such a body, or the metadata not be extended.
pub fn instrument_api<M: ModuleMetadata + ?Sized>(
    function: &Function<'_>,
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<Rewritten, Refusal> {
    let original = preprocess::parse(function.body)?;
    let original = preprocess(&original)?;
    let signature = MethodSig::decode_start(function.signature).map_err(|_| Refusal::Signature)?;
    let result = match unmodified(&signature.return_type) {
        TypeSig::Primitive(Primitive::Void) => None,
        TypeSig::ByRef(_) => return Err(Refusal::ByRefReturn),
        result => Some(result),
    };
    let mut locals = Locals::of(function, &original)?;
    let slot = result.clone().map(|result| locals.add(result)).transpose()?;
    let mut writer = Writer {
        code: Assembler::default(),
        references: References::new(settings, false, metadata),
        ref_structs: function.ref_structs,
    };
    let end = writer.code.label();
    call(&mut writer, function, settings, &signature, result.as_ref())?;
    match (slot, &result) {
        (Some(slot), Some(result)) => {
            if is_value(result) {
                let token = writer.references.type_token(result)?;
                writer.code.token(Opcode::UnboxAny, token);
            }
            writer.code.stloc(slot);
        }
        _ => writer.code.emit(Opcode::Pop),
    }
    writer.code.branch(Opcode::Leave, end);
    let handler = writer.code.offset();
    writer.code.emit(Opcode::Pop);
    writer.code.body(&original.code, &original.clauses);
    if let Some(slot) = slot {
        writer.code.stloc(slot);
    }
    writer.code.branch(Opcode::Leave, end);
    let exception = writer.references.class("System.Exception")?;
    writer.code.catch(exception, 0, handler);
    writer.code.bind(end);
    if let Some(slot) = slot {
        writer.code.ldloc(slot);
    }
    writer.code.emit(Opcode::Ret);
    assemble(writer.code, &original, STACK, &locals, metadata)
}

/// Whether a result has to be taken out of its box. The agent's own profiler never does, so that
/// methods with such results cannot be compiled.
const fn is_value(result: &TypeSig) -> bool {
    !matches!(
        result,
        TypeSig::Primitive(Primitive::String | Primitive::Object)
            | TypeSig::Class(_)
            | TypeSig::GenericInst { value_type: false, .. }
            | TypeSig::SzArray(_)
            | TypeSig::Array { .. }
    )
}

/// Calls the managed agent and leaves the result as an object.
fn call<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    function: &Function<'_>,
    settings: &Settings<'_>,
    signature: &MethodSig,
    result: Option<&TypeSig>,
) -> Result<(), Refusal> {
    // Overloads have the same name, so the key has the id of the function.
    let key = || format!("{AGENT_CLASS}.{}_{}", function.name, function.id);
    match (settings.strategy, settings.shape) {
        (CallingStrategy::Cache, AgentShape::V10_55) => {
            for text in [settings.agent_path, &key(), AGENT_CLASS, function.name] {
                writer.ldstr(text)?;
            }
            writer.parameter_types(signature)?;
            match result {
                Some(result) => {
                    let token = writer.references.type_token(result)?;
                    writer.load_type(token)?;
                }
                None => writer.code.emit(Opcode::Ldnull),
            }
            writer.arguments(signature)?;
            let helper =
                Helper::InvokeAgentMethodInvokerFunc.reference(&mut writer.references, settings)?;
            writer.code.token(Opcode::Call, helper);
        }
        (CallingStrategy::Cache, AgentShape::V10_53 | AgentShape::V10_54) => {
            for text in [&key(), settings.agent_path, AGENT_CLASS, function.name] {
                writer.ldstr(text)?;
            }
            writer.parameter_types(signature)?;
            let helper = Helper::GetMethodFromAppDomainStorageOrReflectionOrThrow;
            let helper = helper.reference(&mut writer.references, settings)?;
            writer.code.token(Opcode::Call, helper);
            invoke(writer, signature)?;
        }
        (CallingStrategy::Reflection, _) => {
            let method = AgentMethod { class: AGENT_CLASS, name: function.name };
            writer.find_by_reflection(settings.agent_path, &method, Some(signature))?;
            invoke(writer, signature)?;
        }
    }
    Ok(())
}

/// Invokes the `MethodInfo` on the stack with the arguments of the method.
fn invoke<M: ModuleMetadata + ?Sized>(
    writer: &mut Writer<'_, M>,
    signature: &MethodSig,
) -> Result<(), Refusal> {
    writer.code.emit(Opcode::Ldnull);
    writer.arguments(signature)?;
    let invoke = writer.references.invoke()?;
    writer.code.token(Opcode::Call, invoke);
    Ok(())
}
