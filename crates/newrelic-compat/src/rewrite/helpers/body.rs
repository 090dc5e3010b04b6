//! The bodies of helper methods.

use super::{FIELDS_TYPE, Helper, METHOD_FIELD, SHIM_FIELD, SHIM_METHOD_FIELD};
use crate::rewrite::assembler::Assembler;
use crate::rewrite::references::{
    References, array_of, instance_of, instance_sig, object, static_sig, string,
};
use crate::rewrite::tracer::SHIM_CLASS;
use crate::rewrite::{ModuleMetadata, Refusal, Settings};
use crate::shape::AgentShape;
use crate::strategy::CallingStrategy;
use cil::{MethodBody, MethodHeader, Opcode, Primitive, Token, TypeSig};
use std::borrow::Cow;

/// Code of a method with a tiny header is not longer.
const TINY_CODE: usize = 63;

/// The body of a helper, with its header. `metadata` are those of the core library.
///
/// # Errors
/// The core library lacks something that the body names.
pub fn body<M: ModuleMetadata + ?Sized>(
    helper: Helper,
    settings: &Settings<'_>,
    metadata: &mut M,
) -> Result<Vec<u8>, Refusal> {
    let mut writer = HelperWriter {
        code: Assembler::default(),
        references: References::new(settings, true, metadata),
        settings,
    };
    writer.write(helper)?;
    let (code, _) = writer.code.finish()?;
    if code.len() > TINY_CODE {
        return Err(Refusal::HelperTooLong { size: code.len() });
    }
    let body =
        MethodBody { header: MethodHeader::default(), code: Cow::Owned(code), clauses: Vec::new() };
    body.encode().map_err(|_| Refusal::Malformed)
}

struct HelperWriter<'s, 'm, M: ?Sized> {
    code: Assembler,
    references: References<'m, M>,
    settings: &'s Settings<'s>,
}

impl<M: ModuleMetadata + ?Sized> HelperWriter<'_, '_, M> {
    fn write(&mut self, helper: Helper) -> Result<(), Refusal> {
        match helper {
            Helper::LoadAssemblyOrThrow => {
                self.arguments(0, 1);
                let method = self.references.load_from()?;
                self.code.token(Opcode::Call, method);
                self.throw_if_null("Failed to load assembly.")?;
            }
            Helper::GetTypeViaReflectionOrThrow => {
                self.arguments(0, 1);
                self.call(Helper::LoadAssemblyOrThrow)?;
                self.arguments(1, 1);
                let method = self.references.get_type()?;
                self.code.token(Opcode::Callvirt, method);
                self.throw_if_null("Failed to load type from assembly via reflection.")?;
            }
            Helper::GetMethodViaReflectionOrThrow => self.get_method()?,
            Helper::GetMethodFromAppDomainStorage => {
                self.load_stored(|writer| {
                    writer.arguments(0, 1);
                    Ok(())
                })?;
                let class = self.references.class("System.Reflection.MethodInfo")?;
                self.code.token(Opcode::Castclass, class);
            }
            Helper::GetMethodFromAppDomainStorageOrReflectionOrThrow => {
                self.arguments(0, 1);
                self.call(Helper::GetMethodFromAppDomainStorage)?;
                self.unless_null(|writer| {
                    writer.arguments(1, 4);
                    writer.call(Helper::GetMethodViaReflectionOrThrow)?;
                    writer.code.emit(Opcode::Dup);
                    writer.arguments(0, 1);
                    writer.call(Helper::StoreMethodInAppDomainStorageOrThrow)
                })?;
            }
            Helper::GetAgentShimMethodFromAppDomainStorageOrReflectionOrThrow => {
                let field = self.field(SHIM_METHOD_FIELD)?;
                self.code.token(Opcode::Ldsfld, field);
                self.unless_null(|writer| {
                    writer.arguments(0, 5);
                    writer.call(Helper::GetMethodFromAppDomainStorageOrReflectionOrThrow)?;
                    writer.keep(field);
                    Ok(())
                })?;
            }
            Helper::StoreMethodInAppDomainStorageOrThrow => {
                let domain = self.app_domain()?;
                self.arguments(1, 1);
                self.arguments(0, 1);
                let parameters = vec![string(), object()];
                let signature = instance_sig(TypeSig::Primitive(Primitive::Void), parameters);
                let method = self.references.method(domain, "SetData", &signature)?;
                self.code.token(Opcode::Callvirt, method);
            }
            Helper::StoreAgentMethodInvokerFunc => {
                self.store(
                    "NewRelic.Agent.Core.ProfilerAgentMethodInvoker",
                    "GetInvoker",
                    METHOD_FIELD,
                )?;
            }
            Helper::StoreAgentShimFinishTracerDelegateFunc => {
                self.store(SHIM_CLASS, "GetFinishTracerDelegateFunc", SHIM_FIELD)?;
            }
            Helper::EnsureInitialized => self.ensure_initialized()?,
            Helper::InvokeAgentMethodInvokerFunc => self.invoke_method()?,
            Helper::InvokeAgentShimFinishTracerDelegateFunc => self.invoke_shim()?,
            Helper::GetAgentMethodInvokerObject => self.load_kept(METHOD_FIELD)?,
            Helper::GetAgentShimFinishTracerDelegateFunc => self.load_kept(SHIM_FIELD)?,
        }
        self.code.emit(Opcode::Ret);
        Ok(())
    }

    /// Loads that many arguments from an index on.
    fn arguments(&mut self, first: u16, count: u16) {
        (first..first + count).for_each(|index| self.code.ldarg(index));
    }

    /// Calls another helper.
    fn call(&mut self, helper: Helper) -> Result<(), Refusal> {
        let token = helper.reference(&mut self.references, self.settings)?;
        self.code.token(Opcode::Call, token);
        Ok(())
    }

    fn field(&mut self, name: &str) -> Result<Token, Refusal> {
        self.references.own_field(FIELDS_TYPE, name)
    }

    fn ldstr(&mut self, text: &str) -> Result<(), Refusal> {
        let token = self.references.string(text)?;
        self.code.token(Opcode::Ldstr, token);
        Ok(())
    }

    /// Stores what is on the stack in a field, and leaves it there.
    fn keep(&mut self, field: Token) {
        self.code.emit(Opcode::Dup);
        self.code.token(Opcode::Stsfld, field);
    }

    /// Leaves what is on the stack unless it is null; then `instead` provides another value.
    fn unless_null(
        &mut self,
        instead: impl FnOnce(&mut Self) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let end = self.code.label();
        self.code.emit(Opcode::Dup);
        self.code.branch(Opcode::Brtrue, end);
        self.code.emit(Opcode::Pop);
        instead(self)?;
        self.code.bind(end);
        Ok(())
    }

    /// Throws `System.Exception` if null is on the stack.
    fn throw_if_null(&mut self, message: &str) -> Result<(), Refusal> {
        let end = self.code.label();
        self.code.emit(Opcode::Dup);
        self.code.branch(Opcode::Brtrue, end);
        self.ldstr(message)?;
        let exception = self.references.class("System.Exception")?;
        let signature = instance_sig(TypeSig::Primitive(Primitive::Void), vec![string()]);
        let constructor = self.references.method(exception, ".ctor", &signature)?;
        self.code.token(Opcode::Newobj, constructor);
        self.code.emit(Opcode::Throw);
        self.code.bind(end);
        Ok(())
    }

    /// Loads the application domain, and gives its type.
    fn app_domain(&mut self) -> Result<Token, Refusal> {
        let domain = self.references.class("System.AppDomain")?;
        let signature = static_sig(TypeSig::Class(domain), Vec::new());
        let current = self.references.method(domain, "get_CurrentDomain", &signature)?;
        self.code.token(Opcode::Call, current);
        self.throw_if_null("System.AppDomain.CurrentDomain == null.")?;
        Ok(domain)
    }

    /// Loads what the application domain keeps under the name that `key` loads.
    fn load_stored(
        &mut self,
        key: impl FnOnce(&mut Self) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let domain = self.app_domain()?;
        key(self)?;
        let method =
            self.references.method(domain, "GetData", &instance_sig(object(), vec![string()]))?;
        self.code.token(Opcode::Callvirt, method);
        Ok(())
    }

    fn get_method(&mut self) -> Result<(), Refusal> {
        let (without_types, end) = (self.code.label(), self.code.label());
        self.arguments(0, 2);
        self.call(Helper::GetTypeViaReflectionOrThrow)?;
        self.arguments(2, 2);
        self.code.branch(Opcode::Brfalse, without_types);
        self.arguments(3, 1);
        let method = self.references.get_method(true)?;
        self.code.token(Opcode::Callvirt, method);
        self.code.branch(Opcode::Br, end);
        self.code.bind(without_types);
        let method = self.references.get_method(false)?;
        self.code.token(Opcode::Callvirt, method);
        // Leads to the next instruction. Without it the body would not be that of the agent's own
        // profiler.
        self.code.branch(Opcode::Br, end);
        self.code.bind(end);
        self.throw_if_null("Failed to load method from type via reflection.")
    }

    /// Calls a method of the managed agent that makes a delegate, and keeps that in a field and in
    /// the application domain.
    fn store(&mut self, class: &str, method: &str, field: &str) -> Result<(), Refusal> {
        self.arguments(0, 1);
        self.ldstr(class)?;
        self.ldstr(method)?;
        self.code.emit(Opcode::Ldnull);
        self.call(Helper::GetMethodViaReflectionOrThrow)?;
        self.code.emit(Opcode::Ldnull);
        self.code.emit(Opcode::Ldnull);
        let invoke = self.references.invoke()?;
        self.code.token(Opcode::Callvirt, invoke);
        let token = self.field(field)?;
        self.keep(token);
        self.ldstr(&key_of(field))?;
        self.call(Helper::StoreMethodInAppDomainStorageOrThrow)
    }

    fn ensure_initialized(&mut self) -> Result<(), Refusal> {
        let end = self.code.label();
        self.call(Helper::GetAgentMethodInvokerObject)?;
        self.code.branch(Opcode::Brtrue, end);
        for helper in
            [Helper::StoreAgentShimFinishTracerDelegateFunc, Helper::StoreAgentMethodInvokerFunc]
        {
            self.arguments(0, 1);
            self.call(helper)?;
        }
        self.code.bind(end);
        Ok(())
    }

    fn invoke_method(&mut self) -> Result<(), Refusal> {
        let is_older_cache = self.settings.shape == AgentShape::V10_54
            && self.settings.strategy == CallingStrategy::Cache;
        if !is_older_cache {
            self.arguments(0, 1);
            self.call(Helper::EnsureInitialized)?;
        }
        self.call(Helper::GetAgentMethodInvokerObject)?;
        let class = self.references.class_sig("System.Type")?;
        let mut arguments = vec![string(); 3];
        arguments.extend([array_of(class.clone()), class, array_of(object()), object()]);
        self.delegate("System.Func`7", arguments, 1)
    }

    fn invoke_shim(&mut self) -> Result<(), Refusal> {
        self.arguments(0, 1);
        self.call(Helper::EnsureInitialized)?;
        self.call(Helper::GetAgentShimFinishTracerDelegateFunc)?;
        let exception = self.references.class_sig("System.Exception")?;
        let action =
            instance_of(self.references.class("System.Action`2")?, vec![object(), exception]);
        self.delegate("System.Func`2", vec![array_of(object()), action], 1)
    }

    /// Calls the delegate on the stack with the arguments from `first` on; the last type is that of
    /// its result.
    fn delegate(
        &mut self,
        definition: &str,
        types: Vec<TypeSig>,
        first: u16,
    ) -> Result<(), Refusal> {
        let count = types.len().saturating_sub(1) as u16;
        let definition = self.references.class(definition)?;
        let delegate = self.references.type_token(&instance_of(definition, types))?;
        self.code.token(Opcode::Castclass, delegate);
        self.arguments(first, count);
        let parameters = (0..count).map(|index| TypeSig::TypeParam(index.into())).collect();
        let signature = instance_sig(TypeSig::TypeParam(count.into()), parameters);
        let invoke = self.references.method(delegate, "Invoke", &signature)?;
        self.code.token(Opcode::Callvirt, invoke);
        Ok(())
    }

    /// Loads a field; where that is still empty, what the application domain keeps for it.
    fn load_kept(&mut self, field: &str) -> Result<(), Refusal> {
        let token = self.field(field)?;
        self.code.token(Opcode::Ldsfld, token);
        let writes_back = self.settings.shape == AgentShape::V10_55;
        self.unless_null(|writer| {
            writer.load_stored(|writer| writer.ldstr(&key_of(field)))?;
            if writes_back {
                writer.keep(token);
            }
            Ok(())
        })
    }
}

/// The name under which the application domain keeps a field.
fn key_of(field: &str) -> String {
    format!("{FIELDS_TYPE}::{field}")
}
