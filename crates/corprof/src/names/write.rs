//! Writes names of types: as generic arguments, as parameters, and as signatures have them.

use super::{MAX_DEPTH, MAX_LENGTH, ModuleEntry, NameResolver, UNKNOWN};
use crate::ids::{ClassId, ModuleId};
use crate::metadata::token::{MethodDef, Token, TypeSpec};
use crate::metadata::{Metadata, ParamAttributes};
use crate::signature::{CallingConvention, MethodSig, SignatureError, TypeSig};

/// What the types in a signature refer to.
pub(super) struct Scope<'a> {
    pub(super) module: Option<&'a ModuleEntry>,
    pub(super) type_params: &'a [Box<str>],
    pub(super) method_params: &'a [Box<str>],
}

impl NameResolver {
    /// Writes a generic argument, or the parameter's name where code is shared or not instantiated.
    pub(super) fn write_argument(
        &self,
        out: &mut String,
        argument: Option<ClassId>,
        param: &str,
        depth: u32,
        modules: &mut Vec<ModuleId>,
    ) {
        // A type that has itself as an argument twice doubles its name at each level.
        if out.len() > MAX_LENGTH {
            return;
        }
        let Some(argument) = argument else {
            out.push_str(param);
            return;
        };
        match argument.non_null().map(|argument| self.class_entry(argument, depth)) {
            Some(Ok(entry)) if entry.canonical => out.push_str(param),
            Some(Ok(entry)) => {
                out.push_str(&entry.name);
                modules.extend(
                    entry
                        .modules
                        .iter()
                        .filter(|module| !modules.contains(module))
                        .collect::<Vec<_>>(),
                );
            }
            // Not loaded, or something without a name.
            Some(Err(_)) | None => out.push_str(UNKNOWN),
        }
    }

    /// Writes parameters in parentheses; `passing` gives the keyword of a by-reference one, by its
    /// place from 1.
    pub(super) fn write_parameters(
        &self,
        out: &mut String,
        sig: &MethodSig,
        scope: &Scope<'_>,
        passing: impl Fn(u32) -> &'static str,
    ) {
        out.push('(');
        for (index, parameter) in sig.parameters.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            if let TypeSig::ByRef(target) = parameter.unmodified() {
                out.push_str(passing(index as u32 + 1));
                self.write_type(out, target, scope, 0);
            } else {
                self.write_type(out, parameter, scope, 0);
            }
        }
        if sig.convention.kind() == CallingConvention::VARARG {
            out.push_str(if sig.parameters.is_empty() { "__arglist" } else { ", __arglist" });
        }
        out.push(')');
    }

    fn write_type(&self, out: &mut String, sig: &TypeSig, scope: &Scope<'_>, depth: u32) {
        if depth >= MAX_DEPTH || out.len() > MAX_LENGTH {
            if !out.ends_with('…') {
                out.push('…');
            }
            return;
        }
        let depth = depth + 1;
        match sig {
            TypeSig::Primitive(primitive) => out.push_str(primitive.keyword()),
            TypeSig::Class(token) | TypeSig::ValueType(token) => {
                self.write_token(out, *token, scope, depth)
            }
            TypeSig::Internal(handle) => match self.class_entry(ClassId(*handle), depth) {
                Ok(class) => out.push_str(&class.name),
                Err(_) => out.push_str(UNKNOWN),
            },
            TypeSig::GenericInst { definition, arguments, .. } => {
                let name = match (&**definition, scope.module) {
                    (TypeSig::Class(token) | TypeSig::ValueType(token), Some(module)) => {
                        self.type_name(module, *token, 0).ok()
                    }
                    (TypeSig::Internal(handle), _) => self.definition(ClassId(*handle)).ok(),
                    _ => None,
                };
                match name {
                    Some(name) => name.write(out, arguments.len(), |out, index| {
                        if let Some(argument) = arguments.get(index) {
                            self.write_type(out, argument, scope, depth);
                        }
                    }),
                    None => out.push_str(UNKNOWN),
                }
            }
            TypeSig::TypeParam(index) => write_param(out, scope.type_params, *index, "T"),
            TypeSig::MethodParam(index) => write_param(out, scope.method_params, *index, "TMethod"),
            TypeSig::SzArray(_) | TypeSig::Array { .. } => {
                // The brackets of the outer array come first: an array of int[,] is int[][,].
                let mut suffix = String::new();
                let mut at = sig;
                loop {
                    match at.unmodified() {
                        TypeSig::SzArray(element) => {
                            suffix.push_str("[]");
                            at = element;
                        }
                        TypeSig::Array { element, rank, .. } => {
                            suffix.push_str(&brackets(*rank));
                            at = element;
                        }
                        element => {
                            self.write_type(out, element, scope, depth);
                            break;
                        }
                    }
                }
                out.push_str(&suffix);
            }
            TypeSig::Pointer(target) => {
                self.write_type(out, target, scope, depth);
                out.push('*');
            }
            TypeSig::ByRef(target) => {
                out.push_str("ref ");
                self.write_type(out, target, scope, depth);
            }
            TypeSig::FunctionPointer(method) => {
                out.push_str("delegate*<");
                for parameter in &method.parameters {
                    self.write_type(out, parameter, scope, depth);
                    out.push_str(", ");
                }
                self.write_type(out, &method.return_type, scope, depth);
                out.push('>');
            }
            TypeSig::Modified { inner, .. } | TypeSig::Pinned(inner) => {
                self.write_type(out, inner, scope, depth)
            }
        }
    }

    fn write_token(&self, out: &mut String, token: Token, scope: &Scope<'_>, depth: u32) {
        let Some(module) = scope.module else {
            out.push_str(UNKNOWN);
            return;
        };
        if let Ok(spec) = TypeSpec::try_from(token) {
            let sig = module.metadata.type_spec_signature(spec).map(TypeSig::decode_start);
            match sig {
                Ok(Ok(sig)) => self.write_type(out, &sig, scope, depth),
                _ => out.push_str(UNKNOWN),
            }
            return;
        }
        match self.type_name(module, token, 0) {
            Ok(name) => name.write(out, 0, |_, _| {}),
            Err(_) => out.push_str(UNKNOWN),
        }
    }
}

/// `[]`, `[,]`, `[,,]` …
pub(super) fn brackets(rank: u32) -> String {
    // The runtime allows 32 dimensions; a signature may claim more.
    let commas = rank.clamp(1, 32) - 1;
    format!("[{}]", ",".repeat(commas as usize))
}

fn write_param(out: &mut String, params: &[Box<str>], index: u32, fallback: &str) {
    match params.get(index as usize) {
        Some(param) => out.push_str(param),
        None => {
            out.push_str(fallback);
            out.push_str(&index.to_string());
        }
    }
}

pub(super) fn unreadable(out: &mut String, _: SignatureError) {
    out.push_str("(…)");
}

/// The keyword of a by-reference parameter: `out` and `in` are only flags of the parameter.
pub(super) fn passing(metadata: &Metadata, method: MethodDef, sequence: u32) -> &'static str {
    let attributes = metadata
        .param_at(method, sequence)
        .ok()
        .flatten()
        .and_then(|param| metadata.param_attributes(param).ok())
        .unwrap_or_default();
    match (attributes.contains(ParamAttributes::IN), attributes.contains(ParamAttributes::OUT)) {
        (true, false) => "in ",
        (false, true) => "out ",
        _ => "ref ",
    }
}
