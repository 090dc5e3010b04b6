//! Generic parameters and instantiations, and what kind of image this is.

use super::token::*;
use super::{GenericParamAttributes, Metadata, PeKind, TokenEnum};
use crate::info::call::{blob, check, raw, text};
use crate::info::error::Result;

/// A generic parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenericParamProps {
    /// Its place, from 0.
    pub sequence: u32,
    /// Flags: variance and constraints.
    pub attributes: GenericParamAttributes,
    /// The type or method that it belongs to.
    pub owner: Token,
    /// Its name.
    pub name: String,
}

/// An instantiated generic method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodSpecProps<'a> {
    /// The method: `MethodDef` or `MemberRef`.
    pub parent: Token,
    /// Its arguments, for [`decode_method_spec`](crate::signature::decode_method_spec).
    pub signature: &'a [u8],
}

/// What an image runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeInfo {
    /// Its kind.
    pub kind: PeKind,
    /// Machine number of its header (`IMAGE_FILE_MACHINE_…`).
    pub machine: u32,
}

impl Metadata {
    /// The generic parameters of a type or method, in order (`EnumGenericParams`).
    pub fn generic_params(&self, owner: impl Into<Token>) -> TokenEnum<'_, GenericParam> {
        let owner = owner.into();
        self.tokens("EnumGenericParams", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumGenericParams(handle, owner, buffer, room, fetched))
        })
    }

    /// Name, place and constraints of a generic parameter (`GetGenericParamProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn generic_param_props(&self, param: GenericParam) -> Result<GenericParamProps> {
        let (mut sequence, mut attributes, mut owner) = (0, 0, Token::NIL);
        let name = text("GetGenericParamProps", |buffer, room, needed| {
            raw!(
                self.import,
                GetGenericParamProps(
                    param,
                    &mut sequence,
                    &mut attributes,
                    &mut owner,
                    core::ptr::null_mut(),
                    buffer,
                    room,
                    needed,
                )
            )
        })?;
        Ok(GenericParamProps {
            sequence,
            attributes: GenericParamAttributes::from_bits(attributes),
            owner,
            name,
        })
    }

    /// The constraints of a generic parameter (`EnumGenericParamConstraints`).
    pub fn generic_param_constraints(
        &self,
        param: GenericParam,
    ) -> TokenEnum<'_, GenericParamConstraint> {
        self.tokens("EnumGenericParamConstraints", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumGenericParamConstraints(handle, param, buffer, room, fetched))
        })
    }

    /// Which parameter a constraint belongs to, and the type that it demands
    /// (`GetGenericParamConstraintProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn generic_param_constraint_props(
        &self,
        constraint: GenericParamConstraint,
    ) -> Result<(GenericParam, Token)> {
        let (mut param, mut demanded) = (GenericParam::NIL, Token::NIL);
        check(
            "GetGenericParamConstraintProps",
            raw!(
                self.import,
                GetGenericParamConstraintProps(constraint, &mut param, &mut demanded)
            ),
        )?;
        Ok((param, demanded))
    }

    /// The instantiations of a generic method (`EnumMethodSpecs`); of all of them for a nil token.
    pub fn method_specs(&self, method: impl Into<Token>) -> TokenEnum<'_, MethodSpec> {
        let method = method.into();
        self.tokens("EnumMethodSpecs", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumMethodSpecs(handle, method, buffer, room, fetched))
        })
    }

    /// Method and arguments of an instantiation (`GetMethodSpecProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn method_spec_props(&self, method: MethodSpec) -> Result<MethodSpecProps<'_>> {
        let (mut parent, mut signature, mut length) = (Token::NIL, core::ptr::null(), 0);
        check(
            "GetMethodSpecProps",
            raw!(self.import, GetMethodSpecProps(method, &mut parent, &mut signature, &mut length)),
        )?;
        // SAFETY: the runtime answers with a blob of that length in the scope's memory.
        Ok(MethodSpecProps { parent, signature: unsafe { blob(signature, length) } })
    }

    /// What the image runs on (`GetPEKind`).
    ///
    /// # Errors
    /// The scope has no image.
    pub fn pe_kind(&self) -> Result<PeInfo> {
        let (mut kind, mut machine) = (0, 0);
        check("GetPEKind", raw!(self.import, GetPEKind(&mut kind, &mut machine)))?;
        Ok(PeInfo { kind: PeKind::from_bits(kind), machine })
    }

    /// Version of the metadata's format, such as `v4.0.30319` (`GetVersionString`).
    ///
    /// # Errors
    /// None on any known runtime.
    pub fn version_string(&self) -> Result<String> {
        text("GetVersionString", |buffer, room, needed| {
            raw!(self.import, GetVersionString(buffer, room, needed))
        })
    }
}
