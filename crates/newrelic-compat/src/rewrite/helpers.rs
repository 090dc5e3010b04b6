//! Methods that are added to the core library, so that every module can reach the managed agent
//! through one place.
//!
//! Their declarations are added when the core library is loaded ([`HELPER_TYPE`], [`FIELDS_TYPE`],
//! [`Helper::of`]), their bodies ([`body()`]) when the runtime compiles them. Code in other modules
//! may only name a helper that is there: a call to one that is missing makes the whole method fail
//! to compile.

mod body;

pub use body::body;

use super::references::{References, array_of, object, static_sig, string};
use super::{ModuleMetadata, Refusal, Settings};
use crate::shape::AgentShape;
use cil::{MethodSig, Primitive, Token, TypeSig};

/// The type of the core library that gets the helper methods.
pub const HELPER_TYPE: &str = "System.CannotUnloadAppDomainException";
/// Attributes of helper methods: public, static, hide by signature (ECMA-335 II.23.1.10).
pub const HELPER_ATTRIBUTES: u32 = 0x96;
/// Implementation attributes of helper methods: IL, not inlined (ECMA-335 II.23.1.11).
pub const HELPER_IMPLEMENTATION: u32 = 0x8;
/// The type that is added to the core library to keep what was found.
pub const FIELDS_TYPE: &str = "__NRInitializer__";
/// Attributes of that type: abstract, sealed (ECMA-335 II.23.1.15).
pub const FIELDS_TYPE_ATTRIBUTES: u32 = 0x180;
/// Attributes of its fields: public, static (ECMA-335 II.23.1.5).
pub const FIELD_ATTRIBUTES: u32 = 0x16;
/// The signature of its fields: `object`.
pub const FIELD_SIGNATURE: [u8; 2] = [0x06, 0x1c];

const METHOD_FIELD: &str = "_agentMethodFunc";
const SHIM_FIELD: &str = "_agentShimFunc";
const SHIM_METHOD_FIELD: &str = "_agentShimMethodInfo";

/// The fields of [`FIELDS_TYPE`], in the order of their definition; none for agents that keep
/// nothing there.
#[must_use]
pub const fn fields(shape: AgentShape) -> &'static [&'static str] {
    match shape {
        AgentShape::V10_53 => &[],
        AgentShape::V10_54 => &[METHOD_FIELD, SHIM_FIELD, SHIM_METHOD_FIELD],
        AgentShape::V10_55 => &[METHOD_FIELD, SHIM_FIELD],
    }
}

macro_rules! helpers {
    ($( $(#[$doc:meta])* $name:ident, )*) => {
        /// A method that is added to the core library. Variants have the names of their methods.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Helper {
            $( $(#[$doc])* $name, )*
        }

        impl Helper {
            /// All of them, whatever the agent.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name of the method.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$name => stringify!($name), )*
                }
            }
        }
    };
}

helpers! {
    /// `Assembly (string path)`
    LoadAssemblyOrThrow,
    /// `Type (string path, string type)`
    GetTypeViaReflectionOrThrow,
    /// `MethodInfo (string path, string type, string method, Type[] parameters)`
    GetMethodViaReflectionOrThrow,
    /// `MethodInfo (string key)`, which may be null
    GetMethodFromAppDomainStorage,
    /// `MethodInfo (string key, string path, string type, string method, Type[] parameters)`
    GetMethodFromAppDomainStorageOrReflectionOrThrow,
    /// The same for the method that starts tracers, which is kept in a field
    GetAgentShimMethodFromAppDomainStorageOrReflectionOrThrow,
    /// `void (object value, string key)`; agents of shape 10.53 have `MethodInfo` for the value
    StoreMethodInAppDomainStorageOrThrow,
    /// `void (string path)`
    StoreAgentMethodInvokerFunc,
    /// `void (string path)`
    StoreAgentShimFinishTracerDelegateFunc,
    /// `void (string path)`
    EnsureInitialized,
    /// `object (string path, string key, string type, string method, Type[] parameters, Type
    /// result, object[] arguments)`
    InvokeAgentMethodInvokerFunc,
    /// `object ()`
    GetAgentMethodInvokerObject,
    /// `object ()`
    GetAgentShimFinishTracerDelegateFunc,
    /// `object (string path, object[] arguments)`
    InvokeAgentShimFinishTracerDelegateFunc,
}

impl Helper {
    /// The helpers that an agent of some shape needs, in the order of their definition.
    #[must_use]
    pub const fn of(shape: AgentShape) -> &'static [Self] {
        match shape {
            AgentShape::V10_53 => &[
                Self::LoadAssemblyOrThrow,
                Self::GetTypeViaReflectionOrThrow,
                Self::GetMethodViaReflectionOrThrow,
                Self::GetMethodFromAppDomainStorage,
                Self::GetMethodFromAppDomainStorageOrReflectionOrThrow,
                Self::StoreMethodInAppDomainStorageOrThrow,
            ],
            AgentShape::V10_54 => &[
                Self::LoadAssemblyOrThrow,
                Self::GetTypeViaReflectionOrThrow,
                Self::GetMethodViaReflectionOrThrow,
                Self::GetMethodFromAppDomainStorage,
                Self::GetMethodFromAppDomainStorageOrReflectionOrThrow,
                Self::GetAgentShimMethodFromAppDomainStorageOrReflectionOrThrow,
                Self::StoreMethodInAppDomainStorageOrThrow,
                Self::StoreAgentMethodInvokerFunc,
                Self::StoreAgentShimFinishTracerDelegateFunc,
                Self::EnsureInitialized,
                Self::InvokeAgentMethodInvokerFunc,
                Self::GetAgentMethodInvokerObject,
                Self::GetAgentShimFinishTracerDelegateFunc,
            ],
            AgentShape::V10_55 => &[
                Self::LoadAssemblyOrThrow,
                Self::GetTypeViaReflectionOrThrow,
                Self::GetMethodViaReflectionOrThrow,
                Self::StoreMethodInAppDomainStorageOrThrow,
                Self::GetAgentShimFinishTracerDelegateFunc,
                Self::StoreAgentShimFinishTracerDelegateFunc,
                Self::InvokeAgentShimFinishTracerDelegateFunc,
                Self::EnsureInitialized,
                Self::GetAgentMethodInvokerObject,
                Self::InvokeAgentMethodInvokerFunc,
                Self::StoreAgentMethodInvokerFunc,
            ],
        }
    }

    /// The helper with this name, if an agent of this shape has it.
    #[must_use]
    pub fn named(name: &str, shape: AgentShape) -> Option<Self> {
        Self::of(shape).iter().copied().find(|helper| helper.name() == name)
    }

    /// A call of it from another module.
    pub(super) fn reference<M: ModuleMetadata + ?Sized>(
        self,
        references: &mut References<'_, M>,
        settings: &Settings<'_>,
    ) -> Result<Token, Refusal> {
        let parent = references.class(HELPER_TYPE)?;
        let signature = self.signature(references, settings.shape)?;
        references.method(parent, self.name(), &signature)
    }

    fn signature<M: ModuleMetadata + ?Sized>(
        self,
        references: &mut References<'_, M>,
        shape: AgentShape,
    ) -> Result<MethodSig, Refusal> {
        let void = TypeSig::Primitive(Primitive::Void);
        let strings = |count: usize| vec![string(); count];
        Ok(match self {
            Self::LoadAssemblyOrThrow => {
                static_sig(references.class_sig("System.Reflection.Assembly")?, strings(1))
            }
            Self::GetTypeViaReflectionOrThrow => {
                static_sig(references.class_sig("System.Type")?, strings(2))
            }
            Self::GetMethodFromAppDomainStorage => {
                static_sig(references.class_sig("System.Reflection.MethodInfo")?, strings(1))
            }
            Self::GetMethodViaReflectionOrThrow
            | Self::GetMethodFromAppDomainStorageOrReflectionOrThrow
            | Self::GetAgentShimMethodFromAppDomainStorageOrReflectionOrThrow => {
                let result = references.class_sig("System.Reflection.MethodInfo")?;
                let mut parameters =
                    strings(if self == Self::GetMethodViaReflectionOrThrow { 3 } else { 4 });
                parameters.push(array_of(references.class_sig("System.Type")?));
                static_sig(result, parameters)
            }
            Self::StoreMethodInAppDomainStorageOrThrow => {
                let value = match shape {
                    AgentShape::V10_53 => references.class_sig("System.Reflection.MethodInfo")?,
                    AgentShape::V10_54 | AgentShape::V10_55 => object(),
                };
                static_sig(void, vec![value, string()])
            }
            Self::StoreAgentMethodInvokerFunc
            | Self::StoreAgentShimFinishTracerDelegateFunc
            | Self::EnsureInitialized => static_sig(void, strings(1)),
            Self::InvokeAgentMethodInvokerFunc => {
                let class = references.class_sig("System.Type")?;
                let mut parameters = strings(4);
                parameters.extend([array_of(class.clone()), class, array_of(object())]);
                static_sig(object(), parameters)
            }
            Self::GetAgentMethodInvokerObject | Self::GetAgentShimFinishTracerDelegateFunc => {
                static_sig(object(), Vec::new())
            }
            Self::InvokeAgentShimFinishTracerDelegateFunc => {
                static_sig(object(), vec![string(), array_of(object())])
            }
        })
    }

    /// The blob of its signature in the core library.
    ///
    /// # Errors
    /// The core library lacks a type.
    pub fn signature_blob<M: ModuleMetadata + ?Sized>(
        self,
        settings: &Settings<'_>,
        metadata: &mut M,
    ) -> Result<Vec<u8>, Refusal> {
        let mut references = References::new(settings, true, metadata);
        self.signature(&mut references, settings.shape)?.encode().map_err(|_| Refusal::Malformed)
    }
}

/// Whether all helpers of a shape are defined in the core library. Where one is missing, the
/// strategy has to be reflection.
#[must_use]
pub fn all_defined<M: ModuleMetadata + ?Sized>(settings: &Settings<'_>, metadata: &mut M) -> bool {
    let Some(parent) = metadata.find_type_definition(HELPER_TYPE) else { return false };
    let fields = fields(settings.shape);
    let has_fields = fields.is_empty()
        || metadata.find_type_definition(FIELDS_TYPE).is_some_and(|keeper| {
            fields.iter().all(|field| metadata.find_field_definition(keeper, field).is_some())
        });
    has_fields
        && Helper::of(settings.shape).iter().all(|helper| {
            let Ok(signature) = helper.signature_blob(settings, metadata) else { return false };
            metadata.find_method_definition(parent, helper.name(), &signature).is_some()
        })
}
