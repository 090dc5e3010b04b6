//! Writes the blobs of signatures.

use super::element;
use super::error::SignatureError;
use super::{CallingConvention, MAX_DEPTH, MethodSig, Modifier, TypeSig};
use crate::{Token, TokenKind};

/// Writes a signature.
#[derive(Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn list(
        convention: CallingConvention,
        types: &[TypeSig],
    ) -> Result<Vec<u8>, SignatureError> {
        let mut out = Self::default();
        out.bytes.push(convention.0);
        out.count(types.len())?;
        types.iter().try_for_each(|one| out.type_sig(one, 0))?;
        Ok(out.bytes)
    }

    pub(super) fn number(&mut self, value: u32) -> Result<(), SignatureError> {
        match value {
            0..=0x7f => self.bytes.push(value as u8),
            0x80..=0x3fff => self.bytes.extend_from_slice(&(value as u16 | 0x8000).to_be_bytes()),
            0x4000..=0x1fff_ffff => {
                self.bytes.extend_from_slice(&(value | 0xc000_0000).to_be_bytes())
            }
            _ => return Err(SignatureError::TooLarge { value }),
        }
        Ok(())
    }

    pub(super) fn count(&mut self, count: usize) -> Result<(), SignatureError> {
        self.number(u32::try_from(count).unwrap_or(u32::MAX))
    }

    pub(super) fn signed(&mut self, value: i32) -> Result<(), SignatureError> {
        // The width is chosen by magnitude first, then the sign is rotated into the lowest bit of
        // that width.
        for (bits, prefix) in [(7_u32, 0_u32), (14, 0x8000), (29, 0xc000_0000)] {
            let half = 1_i32 << (bits - 1);
            if (-half..half).contains(&value) {
                let rotated =
                    ((value << 1).cast_unsigned() & ((1 << bits) - 1)) | u32::from(value < 0);
                match bits {
                    7 => self.bytes.push(rotated as u8),
                    14 => self.bytes.extend_from_slice(&((rotated | prefix) as u16).to_be_bytes()),
                    _ => self.bytes.extend_from_slice(&(rotated | prefix).to_be_bytes()),
                }
                return Ok(());
            }
        }
        Err(SignatureError::TooLarge { value: value.cast_unsigned() })
    }

    pub(super) fn token(&mut self, token: Token) -> Result<(), SignatureError> {
        let tag = match token.kind() {
            Some(TokenKind::TypeDef) => 0,
            Some(TokenKind::TypeRef) => 1,
            Some(TokenKind::TypeSpec) => 2,
            _ => return Err(SignatureError::BadToken { offset: self.bytes.len() }),
        };
        self.number((token.rid() << 2) | tag)
    }

    pub(super) fn handle(&mut self, handle: usize) {
        self.bytes.extend_from_slice(&handle.to_ne_bytes());
    }

    fn nested(&mut self, element: u8, inner: &TypeSig, depth: u32) -> Result<(), SignatureError> {
        self.bytes.push(element);
        self.type_sig(inner, depth + 1)
    }

    pub(super) fn modifier(
        &mut self,
        required: bool,
        modifier: Modifier,
    ) -> Result<(), SignatureError> {
        match modifier {
            Modifier::Token(token) => {
                self.bytes.push(if required { element::CMOD_REQD } else { element::CMOD_OPT });
                self.token(token)?;
            }
            Modifier::Internal(handle) => {
                self.bytes.extend_from_slice(&[element::CMOD_INTERNAL, u8::from(required)]);
                self.handle(handle);
            }
        }
        Ok(())
    }

    /// The definition of an instantiated generic type.
    pub(super) fn definition(
        &mut self,
        value_type: bool,
        definition: &TypeSig,
    ) -> Result<(), SignatureError> {
        match (definition, value_type) {
            (TypeSig::Class(token) | TypeSig::ValueType(token), false) => {
                self.bytes.push(element::CLASS);
                self.token(*token)?;
            }
            (TypeSig::Class(token) | TypeSig::ValueType(token), true) => {
                self.bytes.push(element::VALUETYPE);
                self.token(*token)?;
            }
            (TypeSig::Internal(handle), _) => {
                self.bytes.push(element::INTERNAL);
                self.handle(*handle);
            }
            _ => return Err(SignatureError::BadToken { offset: self.bytes.len() }),
        }
        Ok(())
    }

    pub(super) fn type_sig(&mut self, sig: &TypeSig, depth: u32) -> Result<(), SignatureError> {
        if depth > MAX_DEPTH {
            return Err(SignatureError::TooDeep { offset: self.bytes.len() });
        }
        match sig {
            TypeSig::Primitive(primitive) => self.bytes.push(*primitive as u8),
            TypeSig::Class(token) => {
                self.bytes.push(element::CLASS);
                self.token(*token)?;
            }
            TypeSig::ValueType(token) => {
                self.bytes.push(element::VALUETYPE);
                self.token(*token)?;
            }
            TypeSig::TypeParam(index) => {
                self.bytes.push(element::VAR);
                self.number(*index)?;
            }
            TypeSig::MethodParam(index) => {
                self.bytes.push(element::MVAR);
                self.number(*index)?;
            }
            TypeSig::SzArray(inner) => self.nested(element::SZARRAY, inner, depth)?,
            TypeSig::Pointer(inner) => self.nested(element::PTR, inner, depth)?,
            TypeSig::ByRef(inner) => self.nested(element::BYREF, inner, depth)?,
            TypeSig::Pinned(inner) => self.nested(element::PINNED, inner, depth)?,
            TypeSig::Internal(handle) => {
                self.bytes.push(element::INTERNAL);
                self.handle(*handle);
            }
            TypeSig::FunctionPointer(method) => {
                self.bytes.push(element::FNPTR);
                self.method_sig(method, depth + 1)?;
            }
            TypeSig::Modified { required, modifier, inner } => {
                self.modifier(*required, *modifier)?;
                self.type_sig(inner, depth + 1)?;
            }
            TypeSig::GenericInst { value_type, definition, arguments } => {
                self.bytes.push(element::GENERICINST);
                self.definition(*value_type, definition)?;
                self.count(arguments.len())?;
                arguments.iter().try_for_each(|argument| self.type_sig(argument, depth + 1))?;
            }
            TypeSig::Array { element, rank, sizes, lower_bounds } => {
                self.nested(element::ARRAY, element, depth)?;
                self.number(*rank)?;
                self.count(sizes.len())?;
                sizes.iter().try_for_each(|size| self.number(*size))?;
                self.count(lower_bounds.len())?;
                lower_bounds.iter().try_for_each(|bound| self.signed(*bound))?;
            }
        }
        Ok(())
    }

    pub(super) fn method_sig(
        &mut self,
        method: &MethodSig,
        depth: u32,
    ) -> Result<(), SignatureError> {
        self.bytes.push(method.convention.0);
        if method.convention.is_generic() {
            self.number(method.generic_parameters)?;
        }
        self.count(method.parameters.len())?;
        self.type_sig(&method.return_type, depth)?;
        for (index, parameter) in method.parameters.iter().enumerate() {
            if method.sentinel == Some(index) {
                self.bytes.push(element::SENTINEL);
            }
            self.type_sig(parameter, depth)?;
        }
        if depth == 0 && method.sentinel == Some(method.parameters.len()) {
            self.bytes.push(element::SENTINEL);
        }
        Ok(())
    }
}
