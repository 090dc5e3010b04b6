//! A method of a loaded module.

use super::by_ref_like::is_marked;
use super::module::LoadedModule;
use super::refused;
use crate::attributes::{ASYNC_STATE_MACHINE, TRACE, TRANSACTION};
use crate::plan::{Details, Names};
use crate::rewrite::direct::Direct;
use crate::rewrite::{Function, MetadataError, ModuleMetadata, Owner, RefStructs};
use crate::signature_text;
use cil::{MethodBody, MethodSig, TypeSig};
use corprof::ids::FunctionId;
use corprof::metadata::{Metadata, MethodDef, Signature, Token, TypeDef};

/// Most types around a type.
const LIMIT: usize = 64;

/// A method, as far as the decision needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedMethod {
    token: MethodDef,
    class: TypeDef,
    class_name: String,
    outermost_type_attributes: u32,
    name: String,
    attributes: u32,
    implementation: u32,
    signature: Vec<u8>,
}

/// The rest of a method that is given a new body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    assembly: String,
    body: Vec<u8>,
    locals: Option<Vec<u8>>,
    owner: Owner,
    type_parameters: u32,
    ref_structs: RefStructs,
    is_async: bool,
}

impl Original {
    /// Header, code and exception clauses.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

impl LoadedMethod {
    /// Reads a method of a module.
    ///
    /// # Errors
    /// The module has no such method, or the method is one without type.
    pub fn read(module: &LoadedModule, token: MethodDef) -> Result<Self, MetadataError> {
        let props = module.metadata.method_props(token).map_err(refused)?;
        let mut outermost = module.type_props(props.class)?;
        let mut class_name = outermost.name.clone();
        let mut inner = props.class;
        for _ in 0..LIMIT {
            let Some(outer) = module.metadata.enclosing_type(inner).map_err(refused)? else {
                break;
            };
            outermost = module.type_props(outer)?;
            class_name = format!("{}+{class_name}", outermost.name);
            inner = outer;
        }
        Ok(Self {
            token,
            class: props.class,
            class_name,
            outermost_type_attributes: outermost.attributes.bits(),
            name: props.name,
            attributes: props.attributes.bits(),
            implementation: props.implementation.bits(),
            signature: props.signature.to_vec(),
        })
    }

    /// Full name of its type, with `+` between a type and those in it.
    #[must_use]
    pub fn class_name(&self) -> &str {
        &self.class_name
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its full name with its parameters, as log lines have it.
    #[must_use]
    pub fn full_name(&self, module: &LoadedModule) -> String {
        format!("[{}]{}", module.assembly(), self.name_in_module(module))
    }

    /// The same without the assembly.
    #[must_use]
    pub fn name_in_module(&self, module: &LoadedModule) -> String {
        let parameters = self.details(module).parameters().unwrap_or_default();
        format!("{}.{}({parameters})", self.class_name, self.name)
    }

    /// Whether a parameter is a pointer, about which the agent receives nothing.
    #[must_use]
    pub fn has_pointers(&self) -> bool {
        let is_pointer =
            |sig: &TypeSig| matches!(sig, TypeSig::Pointer(_) | TypeSig::FunctionPointer(_));
        MethodSig::decode_start(&self.signature)
            .is_ok_and(|signature| signature.parameters.iter().any(is_pointer))
    }

    /// Its names, for [`crate::plan::plan`].
    #[must_use]
    pub fn names<'a>(&'a self, module: &'a LoadedModule) -> Names<'a> {
        Names {
            module: module.path(),
            assembly: module.assembly(),
            version: module.version(),
            class: &self.class_name,
            method: &self.name,
        }
    }

    /// What [`crate::plan::plan`] may ask.
    #[must_use]
    pub const fn details<'a>(&'a self, module: &'a LoadedModule) -> LoadedDetails<'a> {
        LoadedDetails { method: self, module }
    }

    /// Its current body and what rewriting needs beside it.
    ///
    /// # Errors
    /// It has no body, or metadata are missing.
    pub fn original(&self, module: &LoadedModule) -> Result<Original, MetadataError> {
        let metadata = &module.metadata;
        let body = module.info.il_function_body(module.id, self.token).map_err(refused)?;
        let header =
            MethodBody::parse(body).map_err(|error| MetadataError(error.to_string()))?.header;
        let locals = match Signature::try_from(header.local_signature) {
            Ok(locals) if !locals.is_nil() => {
                Some(metadata.signature(locals).map_err(refused)?.to_vec())
            }
            _ => None,
        };
        let is_async = metadata
            .custom_attribute_named(self.token, ASYNC_STATE_MACHINE)
            .map_err(refused)?
            .is_some();
        Ok(Original {
            assembly: module.assembly().to_owned(),
            body: body.to_vec(),
            locals,
            owner: self.owner(module)?,
            type_parameters: metadata.generic_params(self.class).count() as u32,
            ref_structs: RefStructs {
                of_type: ref_structs(metadata, self.class),
                of_method: ref_structs(metadata, self.token),
            },
            is_async,
        })
    }

    fn owner(&self, module: &LoadedModule) -> Result<Owner, MetadataError> {
        let base = module.type_props(self.class)?.extends.and_then(|base| module.type_name(base));
        // `Enum` derives from it and is a class.
        let is_value =
            base.as_deref() == Some("System.ValueType") && self.class_name != "System.Enum";
        Ok(match is_value {
            false => Owner::Class,
            true if is_marked(&module.metadata, self.class.into()) => Owner::ByRefLike,
            true => Owner::ValueType,
        })
    }

    /// The method for [`crate::rewrite`].
    #[must_use]
    pub fn function<'a>(
        &'a self,
        id: FunctionId,
        original: &'a Original,
        direct: Option<Direct>,
    ) -> Function<'a> {
        Function {
            id: id.0 as u64,
            assembly: &original.assembly,
            type_name: &self.class_name,
            name: &self.name,
            type_token: self.class.into(),
            outermost_type_attributes: self.outermost_type_attributes,
            owner: original.owner,
            type_parameters: original.type_parameters,
            ref_structs: original.ref_structs,
            attributes: self.attributes,
            implementation: self.implementation,
            signature: &self.signature,
            body: &original.body,
            locals: original.locals.as_deref(),
            is_async: original.is_async,
            direct,
        }
    }
}

/// The generic parameters of a type or method that may stand for a `ref struct`, by their bits.
fn ref_structs(metadata: &Metadata, owner: impl Into<Token>) -> u64 {
    // `AllowByRefLike` (corhdr.h of .NET 9).
    const ALLOWS: u32 = 0x20;
    let params = metadata
        .generic_params(owner)
        .flatten()
        .filter_map(|param| metadata.generic_param_props(param).ok());
    let allowed = params.filter(|props| props.attributes.bits() & ALLOWS != 0);
    allowed.fold(0, |bits, props| bits | 1_u64.checked_shl(props.sequence).unwrap_or_default())
}

/// Answers about a method that cost something.
#[derive(Clone, Copy, Debug)]
pub struct LoadedDetails<'a> {
    method: &'a LoadedMethod,
    module: &'a LoadedModule,
}

impl Details for LoadedDetails<'_> {
    fn parameters(&self) -> Option<String> {
        let signature = MethodSig::decode(&self.method.signature).ok()?;
        signature_text::parameters(&signature, &|token| self.module.type_name(token)).ok()
    }

    /// Only those that [`crate::attributes`] knows.
    fn attributes(&self) -> Vec<(String, Vec<u8>)> {
        let value = |name| {
            self.module.metadata.custom_attribute_named(self.method.token, name).ok().flatten()
        };
        [TRACE, TRANSACTION]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), value(name)?.to_vec())))
            .collect()
    }
}
