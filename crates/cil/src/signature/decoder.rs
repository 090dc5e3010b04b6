//! Reads the blobs of signatures.

use super::element::{self, Primitive};
use super::error::SignatureError;
use super::{CallingConvention, MAX_DEPTH, MethodSig, Modifier, TypeSig};
use crate::{Token, TokenKind};

/// Items that are reserved up front for a list; longer lists grow as they are read, so that a count
/// that lies costs nothing.
const RESERVE: u32 = 16;

/// Reads a signature from front to back.
pub(super) struct Decoder<'a> {
    pub(super) blob: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Decoder<'a> {
    pub(super) const fn new(blob: &'a [u8]) -> Self {
        Self { blob, at: 0 }
    }

    pub(super) fn byte(&mut self) -> Result<u8, SignatureError> {
        let byte = *self.blob.get(self.at).ok_or(SignatureError::Truncated { offset: self.at })?;
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.blob.get(self.at).copied()
    }

    /// A compressed unsigned number, ECMA-335 II.23.2: 7, 14 or 29 bits.
    pub(super) fn number(&mut self) -> Result<u32, SignatureError> {
        self.sized_number().map(|(value, _)| value)
    }

    /// A compressed number and how many bits it was written with.
    fn sized_number(&mut self) -> Result<(u32, u32), SignatureError> {
        let offset = self.at;
        let first = u32::from(self.byte()?);
        if first & 0x80 == 0 {
            return Ok((first, 7));
        }
        if first & 0x40 == 0 {
            return Ok((((first & 0x3f) << 8) | u32::from(self.byte()?), 14));
        }
        if first & 0x20 != 0 {
            return Err(SignatureError::BadNumber { offset });
        }
        let mut value = first & 0x1f;
        for _ in 0..3 {
            value = (value << 8) | u32::from(self.byte()?);
        }
        Ok((value, 29))
    }

    /// A compressed signed number: the sign is rotated into the lowest bit.
    pub(super) fn signed(&mut self) -> Result<i32, SignatureError> {
        let (value, bits) = self.sized_number()?;
        let magnitude = (value >> 1).cast_signed();
        Ok(if value & 1 == 0 { magnitude } else { magnitude - (1 << (bits - 1)) })
    }

    /// A `TypeDefOrRefOrSpecEncoded` token: the table in the two low bits.
    pub(super) fn token(&mut self) -> Result<Token, SignatureError> {
        let offset = self.at;
        let coded = self.number()?;
        let kind = match coded & 3 {
            0 => TokenKind::TypeDef,
            1 => TokenKind::TypeRef,
            2 => TokenKind::TypeSpec,
            _ => return Err(SignatureError::BadToken { offset }),
        };
        if coded >> 2 > 0x00ff_ffff {
            return Err(SignatureError::BadToken { offset });
        }
        Ok(Token::new(kind, coded >> 2))
    }

    /// A type handle, as wide as a pointer.
    pub(super) fn handle(&mut self) -> Result<usize, SignatureError> {
        let end = self.at + size_of::<usize>();
        let bytes = self
            .blob
            .get(self.at..end)
            .ok_or(SignatureError::Truncated { offset: self.blob.len() })?;
        self.at = end;
        let mut handle = [0; size_of::<usize>()];
        handle.copy_from_slice(bytes);
        Ok(usize::from_ne_bytes(handle))
    }

    pub(super) fn kind(
        &mut self,
        wanted: CallingConvention,
        wanted_text: &'static str,
    ) -> Result<CallingConvention, SignatureError> {
        let found = CallingConvention(self.byte()?);
        if found.kind() == wanted {
            Ok(found)
        } else {
            Err(SignatureError::BadKind { found: found.0, wanted: wanted_text })
        }
    }

    /// The signature has to end here.
    pub(super) fn end<T>(&self, value: T) -> Result<T, SignatureError> {
        if self.at < self.blob.len() {
            Err(SignatureError::Trailing { offset: self.at })
        } else {
            Ok(value)
        }
    }

    pub(super) fn types(&mut self, count: u32, depth: u32) -> Result<Vec<TypeSig>, SignatureError> {
        let mut types = Vec::with_capacity(count.min(RESERVE) as usize);
        for _ in 0..count {
            types.push(self.type_sig(depth)?);
        }
        Ok(types)
    }

    pub(super) fn boxed(&mut self, depth: u32) -> Result<Box<TypeSig>, SignatureError> {
        self.type_sig(depth + 1).map(Box::new)
    }

    pub(super) fn type_sig(&mut self, depth: u32) -> Result<TypeSig, SignatureError> {
        let offset = self.at;
        if depth > MAX_DEPTH {
            return Err(SignatureError::TooDeep { offset });
        }
        let element = self.byte()?;
        if let Some(primitive) = Primitive::from_element(element) {
            return Ok(TypeSig::Primitive(primitive));
        }
        Ok(match element {
            element::CLASS => TypeSig::Class(self.token()?),
            element::VALUETYPE => TypeSig::ValueType(self.token()?),
            element::VAR => TypeSig::TypeParam(self.number()?),
            element::MVAR => TypeSig::MethodParam(self.number()?),
            element::SZARRAY => TypeSig::SzArray(self.boxed(depth)?),
            element::PTR => TypeSig::Pointer(self.boxed(depth)?),
            element::BYREF => TypeSig::ByRef(self.boxed(depth)?),
            element::PINNED => TypeSig::Pinned(self.boxed(depth)?),
            element::INTERNAL => TypeSig::Internal(self.handle()?),
            element::FNPTR => TypeSig::FunctionPointer(Box::new(self.method_sig(depth + 1)?)),
            element::CMOD_REQD | element::CMOD_OPT => TypeSig::Modified {
                required: element == element::CMOD_REQD,
                modifier: Modifier::Token(self.token()?),
                inner: self.boxed(depth)?,
            },
            element::CMOD_INTERNAL => TypeSig::Modified {
                required: self.byte()? != 0,
                modifier: Modifier::Internal(self.handle()?),
                inner: self.boxed(depth)?,
            },
            element::GENERICINST => self.generic_inst(depth)?,
            element::ARRAY => self.array(depth)?,
            _ => return Err(SignatureError::BadElement { element, offset }),
        })
    }

    fn generic_inst(&mut self, depth: u32) -> Result<TypeSig, SignatureError> {
        let offset = self.at;
        let (value_type, definition) = match self.byte()? {
            element::CLASS => (false, TypeSig::Class(self.token()?)),
            element::VALUETYPE => (true, TypeSig::ValueType(self.token()?)),
            element::INTERNAL => (false, TypeSig::Internal(self.handle()?)),
            element => return Err(SignatureError::BadElement { element, offset }),
        };
        let count = self.number()?;
        let arguments = self.types(count, depth + 1)?;
        Ok(TypeSig::GenericInst { value_type, definition: Box::new(definition), arguments })
    }

    fn array(&mut self, depth: u32) -> Result<TypeSig, SignatureError> {
        let element = self.boxed(depth)?;
        let rank = self.number()?;
        let count = self.number()?;
        let mut sizes = Vec::with_capacity(count.min(RESERVE) as usize);
        for _ in 0..count {
            sizes.push(self.number()?);
        }
        let count = self.number()?;
        let mut lower_bounds = Vec::with_capacity(count.min(RESERVE) as usize);
        for _ in 0..count {
            lower_bounds.push(self.signed()?);
        }
        Ok(TypeSig::Array { element, rank, sizes, lower_bounds })
    }

    /// Convention and number of generic parameters.
    pub(super) fn method_head(&mut self) -> Result<(CallingConvention, u32), SignatureError> {
        let convention = CallingConvention(self.byte()?);
        if matches!(
            convention.kind(),
            CallingConvention::FIELD
                | CallingConvention::LOCALS
                | CallingConvention::PROPERTY
                | CallingConvention::GENERIC_INST
        ) {
            return Err(SignatureError::BadKind {
                found: convention.0,
                wanted: "method signature",
            });
        }
        let generic_parameters = if convention.is_generic() { self.number()? } else { 0 };
        Ok((convention, generic_parameters))
    }

    pub(super) fn method_sig(&mut self, depth: u32) -> Result<MethodSig, SignatureError> {
        let (convention, generic_parameters) = self.method_head()?;
        let count = self.number()?;
        let return_type = self.type_sig(depth)?;
        let mut parameters = Vec::with_capacity(count.min(RESERVE) as usize);
        let mut sentinel = None;
        for index in 0..count {
            if sentinel.is_none() && self.peek() == Some(element::SENTINEL) {
                self.at += 1;
                sentinel = Some(index as usize);
            }
            parameters.push(self.type_sig(depth)?);
        }
        Ok(MethodSig { convention, generic_parameters, return_type, parameters, sentinel })
    }
}
