//! Tokens of the types and members that injected code names.

use super::helpers::HELPER_TYPE;
use super::{AssemblyReference, ModuleMetadata, Refusal, Scopes, Settings};
use crate::Runtime;
use crate::shape::AgentShape;
use crate::strategy::CallingStrategy;
use cil::{CallingConvention, MethodSig, Primitive, Token, TokenKind, TypeSig};
use std::collections::HashMap;

/// Name of the library that defines the basic types of .NET Core.
pub const CORE_LIBRARY: &str = "System.Private.CoreLib";
/// The same of .NET Framework.
pub const FRAMEWORK_LIBRARY: &str = "mscorlib";

/// The core library as its helper methods are called: every version from 3.1 on takes its place.
const CORE_REFERENCE: AssemblyReference = AssemblyReference {
    name: CORE_LIBRARY,
    version: [6, 0, 0, 0],
    public_key_token: &[0x7c, 0xec, 0x85, 0xd7, 0xbe, 0xa7, 0x79, 0x8e],
};

/// The core library of .NET Framework, for modules that do not refer to it.
const FRAMEWORK_REFERENCE: AssemblyReference = AssemblyReference {
    name: FRAMEWORK_LIBRARY,
    version: [4, 0, 0, 0],
    public_key_token: &[0xb7, 0x7a, 0x5c, 0x56, 0x19, 0x34, 0xe0, 0x89],
};

/// What finishes a tracer is an instance of this.
const ACTION: &str = "System.Action`2";

/// Delegates with more than nine parameters, which are not in the core library of .NET Core 3.1.
pub const LONG_DELEGATES: [&str; 2] = ["System.Func`12", "System.Func`13"];

/// The assembly that injected code looks for a type in.
fn library_of(name: &str, runtime: Runtime, shape: AgentShape, scopes: Scopes) -> &'static str {
    if runtime == Runtime::Framework {
        return FRAMEWORK_LIBRARY;
    }
    if let Scopes::CoreLibrary { has_long_delegates } = scopes {
        return if LONG_DELEGATES.contains(&name) && !has_long_delegates {
            "System.Core"
        } else {
            CORE_LIBRARY
        };
    }
    match name {
        "System.Exception" | "System.Type" => "System.Runtime",
        "System.Reflection.Assembly"
        | "System.Reflection.Module"
        | "System.Reflection.MethodInfo"
        | "System.Reflection.MethodBase" => "System.Reflection",
        ACTION => "System.Core",
        _ if LONG_DELEGATES.contains(&name) => "System.Core",
        _ if shape == AgentShape::V10_53 => "System.Runtime",
        _ => CORE_LIBRARY,
    }
}

/// The types that the code around every instrumented method names, with the libraries that they are
/// looked for in. `is_direct` says whether the methods have [`super::Function::direct`].
///
/// In a trimmed program some of them are missing. A method that named one could not be compiled, so
/// this has to be checked before the first one is given a new body. Types of parameters and results
/// come in addition; the method itself has those.
#[must_use]
pub fn external_types(
    settings: &Settings<'_>,
    is_direct: bool,
) -> Vec<(&'static str, &'static str)> {
    let mut types = vec![
        "System.Object",
        "System.Exception",
        "System.Type",
        "System.RuntimeTypeHandle",
        ACTION,
    ];
    if !is_direct {
        types.extend(["System.UInt32", "System.UInt64"]);
    }
    match (settings.strategy, settings.shape) {
        (_, AgentShape::V10_53 | AgentShape::V10_54) if is_direct => types.push("System.Func`12"),
        (_, AgentShape::V10_55) if is_direct => types.push("System.Func`13"),
        (CallingStrategy::Reflection, _) => types.extend([
            "System.Reflection.Assembly",
            "System.Reflection.MethodInfo",
            "System.Reflection.MethodBase",
        ]),
        (CallingStrategy::Cache, AgentShape::V10_55) => types.push(HELPER_TYPE),
        (CallingStrategy::Cache, _) => {
            types.extend([
                HELPER_TYPE,
                "System.Reflection.MethodInfo",
                "System.Reflection.MethodBase",
            ]);
        }
    }
    types
        .into_iter()
        .map(|name| (library_of(name, settings.runtime, settings.shape, settings.scopes), name))
        .collect()
}

/// Finds or defines what injected code names, in one module.
pub(super) struct References<'m, M: ?Sized> {
    metadata: &'m mut M,
    runtime: Runtime,
    shape: AgentShape,
    strategy: CallingStrategy,
    scopes: Scopes,
    /// Whether the module is the core library, so that its types are its own.
    is_core_library: bool,
    /// Tokens of libraries and types that were asked for.
    libraries: HashMap<&'static str, Token>,
    classes: HashMap<String, Token>,
}

impl<'m, M: ModuleMetadata + ?Sized> References<'m, M> {
    pub fn new(settings: &Settings<'_>, is_core_library: bool, metadata: &'m mut M) -> Self {
        Self {
            metadata,
            runtime: settings.runtime,
            shape: settings.shape,
            strategy: settings.strategy,
            scopes: settings.scopes,
            is_core_library,
            libraries: HashMap::new(),
            classes: HashMap::new(),
        }
    }

    pub fn metadata(&mut self) -> &mut M {
        self.metadata
    }

    /// The `AssemblyRef` for a library: one that exists, or a new one.
    fn scope(&mut self, library: &'static str) -> Result<Token, Refusal> {
        if let Some(known) = self.libraries.get(library) {
            return Ok(*known);
        }
        let token = self.find_or_define(library)?;
        self.libraries.insert(library, token);
        Ok(token)
    }

    /// Names have to be equal. The agent's own profiler takes one that ends alike, which need not
    /// be the library.
    fn find_or_define(&mut self, library: &'static str) -> Result<Token, Refusal> {
        let references = self.metadata.assembly_references();
        let named = |name: &str| {
            references.iter().find(|(_, other)| other == name).map(|(token, _)| *token)
        };
        if let Some(known) = named(library) {
            return Ok(known);
        }
        let reference = match (self.runtime, self.strategy) {
            (Runtime::Core, CallingStrategy::Cache) if library == CORE_LIBRARY => CORE_REFERENCE,
            (Runtime::Core, _) => {
                AssemblyReference { name: library, version: [0; 4], public_key_token: &[] }
            }
            (Runtime::Framework, CallingStrategy::Cache) => FRAMEWORK_REFERENCE,
            (Runtime::Framework, CallingStrategy::Reflection) => {
                let facade = named("netstandard").or_else(|| named("System.Runtime"));
                return facade.ok_or(Refusal::NoCoreReference);
            }
        };
        Ok(self.metadata.define_assembly_reference(&reference)?)
    }

    /// The token of a type by its full name.
    pub fn class(&mut self, name: &str) -> Result<Token, Refusal> {
        if let Some(known) = self.classes.get(name) {
            return Ok(*known);
        }
        let token = self.find_or_define_class(name)?;
        self.classes.insert(name.to_owned(), token);
        Ok(token)
    }

    fn find_or_define_class(&mut self, name: &str) -> Result<Token, Refusal> {
        if self.is_core_library {
            let own = self.metadata.find_type_definition(name);
            return own.ok_or_else(|| Refusal::MissingMember { name: name.to_owned() });
        }
        let scope = self.scope(library_of(name, self.runtime, self.shape, self.scopes))?;
        match self.metadata.find_type_reference(scope, name) {
            Some(known) => Ok(known),
            None => Ok(self.metadata.define_type_reference(scope, name)?),
        }
    }

    /// The token of a method by its parent, name and signature.
    pub fn method(
        &mut self,
        parent: Token,
        name: &str,
        signature: &MethodSig,
    ) -> Result<Token, Refusal> {
        let blob = signature.encode().map_err(|_| Refusal::Malformed)?;
        if let Some(known) = self.metadata.find_member_reference(parent, name, &blob) {
            return Ok(known);
        }
        if parent.kind() == Some(TokenKind::TypeDef) {
            return self
                .metadata
                .find_method_definition(parent, name, &blob)
                .ok_or_else(|| Refusal::MissingMember { name: name.to_owned() });
        }
        Ok(self.metadata.define_member_reference(parent, name, &blob)?)
    }

    /// The token of a field of the core library, from inside of it.
    pub fn own_field(&mut self, parent: &str, name: &str) -> Result<Token, Refusal> {
        let missing = || Refusal::MissingMember { name: name.to_owned() };
        let parent = self.metadata.find_type_definition(parent).ok_or_else(missing)?;
        self.metadata.find_field_definition(parent, name).ok_or_else(missing)
    }

    /// A class in a signature.
    pub fn class_sig(&mut self, name: &str) -> Result<TypeSig, Refusal> {
        self.class(name).map(TypeSig::Class)
    }

    /// The token to box a value of a type with, or to load its type object.
    pub fn type_token(&mut self, sig: &TypeSig) -> Result<Token, Refusal> {
        match sig {
            TypeSig::Class(token) | TypeSig::ValueType(token) => match token.kind() {
                Some(TokenKind::TypeDef | TokenKind::TypeRef) => Ok(*token),
                _ => Err(Refusal::UnsupportedType),
            },
            TypeSig::Primitive(primitive) if *primitive != Primitive::Void => {
                self.class(primitive.full_name())
            }
            TypeSig::GenericInst { .. }
            | TypeSig::SzArray(_)
            | TypeSig::Array { .. }
            | TypeSig::TypeParam(_)
            | TypeSig::MethodParam(_) => {
                let blob = sig.encode().map_err(|_| Refusal::UnsupportedType)?;
                Ok(self.metadata.type_specification(&blob)?)
            }
            _ => Err(Refusal::UnsupportedType),
        }
    }

    /// `Type.GetTypeFromHandle`.
    pub fn type_from_handle(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Type")?;
        let handle = self.class("System.RuntimeTypeHandle")?;
        self.method(
            parent,
            "GetTypeFromHandle",
            &static_sig(TypeSig::Class(parent), vec![TypeSig::ValueType(handle)]),
        )
    }

    /// `MethodBase.Invoke(object, object[])`.
    pub fn invoke(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Reflection.MethodBase")?;
        self.method(parent, "Invoke", &instance_sig(object(), vec![object(), array_of(object())]))
    }

    /// `Assembly.LoadFrom(string)`.
    pub fn load_from(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Reflection.Assembly")?;
        self.method(parent, "LoadFrom", &static_sig(TypeSig::Class(parent), vec![string()]))
    }

    /// `Assembly.GetType(string)`.
    pub fn get_type(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Reflection.Assembly")?;
        let result = self.class_sig("System.Type")?;
        self.method(parent, "GetType", &instance_sig(result, vec![string()]))
    }

    /// `Type.GetMethod(string)`, or with the types of its parameters.
    pub fn get_method(&mut self, with_types: bool) -> Result<Token, Refusal> {
        let parent = self.class("System.Type")?;
        let result = self.class_sig("System.Reflection.MethodInfo")?;
        let mut parameters = vec![string()];
        if with_types {
            parameters.push(array_of(TypeSig::Class(parent)));
        }
        self.method(parent, "GetMethod", &instance_sig(result, parameters))
    }

    /// `Assembly.ManifestModule`.
    pub fn manifest_module(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Reflection.Assembly")?;
        let result = self.class_sig("System.Reflection.Module")?;
        self.method(parent, "get_ManifestModule", &instance_sig(result, Vec::new()))
    }

    /// `Module.ResolveMethod(int)`, by a token.
    pub fn resolve_method(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Reflection.Module")?;
        let result = self.class_sig("System.Reflection.MethodBase")?;
        self.method(
            parent,
            "ResolveMethod",
            &instance_sig(result, vec![TypeSig::Primitive(Primitive::I4)]),
        )
    }

    /// `Delegate.CreateDelegate(Type, MethodInfo)`.
    pub fn create_delegate(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Delegate")?;
        let class = self.class_sig("System.Type")?;
        let method = self.class_sig("System.Reflection.MethodInfo")?;
        let signature = static_sig(TypeSig::Class(parent), vec![class, method]);
        self.method(parent, "CreateDelegate", &signature)
    }

    /// `MemberInfo.DeclaringType`.
    pub fn declaring_type(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Reflection.MemberInfo")?;
        let result = self.class_sig("System.Type")?;
        self.method(parent, "get_DeclaringType", &instance_sig(result, Vec::new()))
    }

    /// `Type.TypeHandle`.
    pub fn type_handle(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Type")?;
        let handle = self.class("System.RuntimeTypeHandle")?;
        self.method(parent, "get_TypeHandle", &instance_sig(TypeSig::ValueType(handle), Vec::new()))
    }

    /// `MethodBase.MethodHandle`.
    pub fn method_handle(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Reflection.MethodBase")?;
        let handle = self.class("System.RuntimeMethodHandle")?;
        self.method(
            parent,
            "get_MethodHandle",
            &instance_sig(TypeSig::ValueType(handle), Vec::new()),
        )
    }

    /// `RuntimeHelpers.RunClassConstructor(RuntimeTypeHandle)`.
    pub fn run_class_constructor(&mut self) -> Result<Token, Refusal> {
        self.runtime_helper("RunClassConstructor", "System.RuntimeTypeHandle")
    }

    /// `RuntimeHelpers.PrepareMethod(RuntimeMethodHandle)`.
    pub fn prepare_method(&mut self) -> Result<Token, Refusal> {
        self.runtime_helper("PrepareMethod", "System.RuntimeMethodHandle")
    }

    fn runtime_helper(&mut self, name: &str, handle: &str) -> Result<Token, Refusal> {
        let parent = self.class("System.Runtime.CompilerServices.RuntimeHelpers")?;
        let handle = TypeSig::ValueType(self.class(handle)?);
        let signature = static_sig(TypeSig::Primitive(Primitive::Void), vec![handle]);
        self.method(parent, name, &signature)
    }

    /// `Environment.TickCount64`.
    pub fn tick_count(&mut self) -> Result<Token, Refusal> {
        let parent = self.class("System.Environment")?;
        let signature = static_sig(TypeSig::Primitive(Primitive::I8), Vec::new());
        self.method(parent, "get_TickCount64", &signature)
    }

    /// `Action<object, Exception>`.
    pub fn action_sig(&mut self, exception: Token) -> Result<TypeSig, Refusal> {
        let definition = self.class(ACTION)?;
        Ok(instance_of(definition, vec![object(), TypeSig::Class(exception)]))
    }

    /// The same as a token, and its `Invoke`.
    pub fn finish_action(&mut self, exception: Token) -> Result<(Token, Token), Refusal> {
        let action = self.action_sig(exception)?;
        let action = self.type_token(&action)?;
        let parameters = vec![TypeSig::TypeParam(0), TypeSig::TypeParam(1)];
        let invoke = self.method(
            action,
            "Invoke",
            &instance_sig(TypeSig::Primitive(Primitive::Void), parameters),
        )?;
        Ok((action, invoke))
    }

    /// A user string.
    pub fn string(&mut self, text: &str) -> Result<Token, Refusal> {
        Ok(self.metadata.user_string(text)?)
    }
}

/// `System.Object` in a signature.
pub(super) const fn object() -> TypeSig {
    TypeSig::Primitive(Primitive::Object)
}

/// `System.String` in a signature.
pub(super) const fn string() -> TypeSig {
    TypeSig::Primitive(Primitive::String)
}

/// An array in a signature.
pub(super) fn array_of(element: TypeSig) -> TypeSig {
    TypeSig::SzArray(Box::new(element))
}

/// An instantiated generic class in a signature.
pub(super) fn instance_of(definition: Token, arguments: Vec<TypeSig>) -> TypeSig {
    TypeSig::GenericInst {
        value_type: false,
        definition: Box::new(TypeSig::Class(definition)),
        arguments,
    }
}

/// The signature of a static method.
pub(super) const fn static_sig(return_type: TypeSig, parameters: Vec<TypeSig>) -> MethodSig {
    let convention = CallingConvention::DEFAULT;
    MethodSig { convention, generic_parameters: 0, return_type, parameters, sentinel: None }
}

/// The signature of an instance method.
pub(super) const fn instance_sig(return_type: TypeSig, parameters: Vec<TypeSig>) -> MethodSig {
    let convention = CallingConvention::DEFAULT.with_this();
    MethodSig { convention, generic_parameters: 0, return_type, parameters, sentinel: None }
}
