//! Metadata signatures: the blobs that say what types a method, field, property, local or type has.
//!
//! Decoding is total: any bytes give a value or a [`SignatureError`], never a panic, and nesting is
//! bounded by [`MAX_DEPTH`], so a hostile module cannot overflow the stack. Encoding gives the
//! shortest form that ECMA-335 II.23.2 defines. Two elements exist only inside a running CoreCLR
//! and are understood as well: `INTERNAL` and `CMOD_INTERNAL` carry a type handle in place of a
//! token (signatures of dynamic methods and IL stubs).

mod decoder;
mod element;
mod encoder;
mod error;

pub use element::Primitive;
pub use error::SignatureError;

use crate::{CallEffect, Token};
use decoder::Decoder;
use encoder::Encoder;

/// How deep types may nest in a signature. The runtime itself accepts a few hundred; compilers
/// write fewer than twenty.
pub const MAX_DEPTH: u32 = 64;

/// What stands for a type in a custom modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modifier {
    /// A type by its token.
    Token(Token),
    /// A type handle of the running process (`CMOD_INTERNAL`).
    Internal(usize),
}

/// A type in a signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TypeSig {
    /// A type with an element type of its own.
    Primitive(Primitive),
    /// A reference type, by `TypeDef`, `TypeRef` or `TypeSpec` token.
    Class(Token),
    /// A value type, by `TypeDef`, `TypeRef` or `TypeSpec` token.
    ValueType(Token),
    /// An instantiated generic type.
    GenericInst {
        /// Whether the definition is a value type.
        value_type: bool,
        /// The definition; [`TypeSig::Internal`] in signatures of dynamic methods.
        definition: Box<TypeSig>,
        /// The arguments, in order, those of enclosing types first.
        arguments: Vec<TypeSig>,
    },
    /// Generic parameter of the type, from 0.
    TypeParam(u32),
    /// Generic parameter of the method, from 0.
    MethodParam(u32),
    /// An array of one dimension that starts at 0.
    SzArray(Box<TypeSig>),
    /// Any other array.
    Array {
        /// Type of an element.
        element: Box<TypeSig>,
        /// Number of dimensions.
        rank: u32,
        /// Sizes of the first dimensions, as far as stated.
        sizes: Vec<u32>,
        /// Lower bounds of the first dimensions, as far as stated.
        lower_bounds: Vec<i32>,
    },
    /// An unmanaged pointer.
    Pointer(Box<TypeSig>),
    /// A managed reference: `ref`, `out` and `in` parameters, ref locals and returns.
    ByRef(Box<TypeSig>),
    /// A function pointer.
    FunctionPointer(Box<MethodSig>),
    /// A type with a custom modifier (`modreq` or `modopt`).
    Modified {
        /// Whether one who does not know the modifier must refuse.
        required: bool,
        /// The modifier.
        modifier: Modifier,
        /// The modified type.
        inner: Box<TypeSig>,
    },
    /// A pinned local.
    Pinned(Box<TypeSig>),
    /// A type handle of the running process, the same number as its `ClassID`.
    Internal(usize),
}

impl TypeSig {
    /// The type below custom modifiers and pins.
    #[must_use]
    pub fn unmodified(&self) -> &Self {
        let mut at = self;
        while let Self::Modified { inner, .. } | Self::Pinned(inner) = at {
            at = inner;
        }
        at
    }

    /// Decodes a type alone: the blob of a `TypeSpec`.
    ///
    /// # Errors
    /// The blob is no type.
    pub fn decode(blob: &[u8]) -> Result<Self, SignatureError> {
        let mut decoder = Decoder::new(blob);
        let sig = decoder.type_sig(0)?;
        decoder.end(sig)
    }

    /// Decodes the type at the start of a blob, whatever follows it.
    ///
    /// # Errors
    /// The blob does not begin with a type.
    pub fn decode_start(blob: &[u8]) -> Result<Self, SignatureError> {
        Decoder::new(blob).type_sig(0)
    }

    /// Encodes it.
    ///
    /// # Errors
    /// [`SignatureError::TooLarge`] for numbers over 29 bits, [`SignatureError::BadToken`] for a
    /// token that is no type, [`SignatureError::TooDeep`] for what the decoder would refuse.
    pub fn encode(&self) -> Result<Vec<u8>, SignatureError> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes)?;
        Ok(bytes)
    }

    /// Encodes it behind what is there, which stays as it is if that fails.
    pub(crate) fn append_to(&self, bytes: &mut Vec<u8>) -> Result<(), SignatureError> {
        let before = bytes.len();
        let mut out = Encoder { bytes: std::mem::take(bytes) };
        let encoded = out.type_sig(self, 0);
        *bytes = out.bytes;
        if encoded.is_err() {
            bytes.truncate(before);
        }
        encoded
    }
}

/// The first byte of a signature: calling convention in the low four bits, flags above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallingConvention(pub u8);

impl CallingConvention {
    /// An ordinary managed method.
    pub const DEFAULT: Self = Self(0x0);
    /// Native cdecl.
    pub const C: Self = Self(0x1);
    /// Native stdcall.
    pub const STDCALL: Self = Self(0x2);
    /// Native thiscall.
    pub const THISCALL: Self = Self(0x3);
    /// Native fastcall.
    pub const FASTCALL: Self = Self(0x4);
    /// Managed, with a variable argument list.
    pub const VARARG: Self = Self(0x5);
    /// A field signature.
    pub const FIELD: Self = Self(0x6);
    /// A signature of local variables.
    pub const LOCALS: Self = Self(0x7);
    /// A property signature.
    pub const PROPERTY: Self = Self(0x8);
    /// Native, as the platform likes or as modifiers of the return type say.
    pub const UNMANAGED: Self = Self(0x9);
    /// The arguments of a `MethodSpec`.
    pub const GENERIC_INST: Self = Self(0xa);
    /// Native, with a variable argument list.
    pub const NATIVE_VARARG: Self = Self(0xb);

    /// The convention without flags.
    #[must_use]
    pub const fn kind(self) -> Self {
        Self(self.0 & 0x0f)
    }

    /// Whether the method has generic parameters of its own.
    #[must_use]
    pub const fn is_generic(self) -> bool {
        self.0 & 0x10 != 0
    }

    /// Whether there is a `this`.
    #[must_use]
    pub const fn has_this(self) -> bool {
        self.0 & 0x20 != 0
    }

    /// Whether `this` is the first of the listed parameters.
    #[must_use]
    pub const fn explicit_this(self) -> bool {
        self.0 & 0x40 != 0
    }

    /// With a `this`.
    #[must_use]
    pub const fn with_this(self) -> Self {
        Self(self.0 | 0x20)
    }

    /// With generic parameters.
    #[must_use]
    pub const fn with_generics(self) -> Self {
        Self(self.0 | 0x10)
    }
}

/// A method's signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MethodSig {
    /// Convention and flags.
    pub convention: CallingConvention,
    /// Number of generic parameters of the method itself.
    pub generic_parameters: u32,
    /// What it returns.
    pub return_type: TypeSig,
    /// Its parameters, without `this`.
    pub parameters: Vec<TypeSig>,
    /// At a call of a vararg method: index of the first variable argument.
    pub sentinel: Option<usize>,
}

impl MethodSig {
    /// Decodes the signature of a method, a `MemberRef` to one, or a `calli` target.
    ///
    /// # Errors
    /// The blob is no method signature.
    pub fn decode(blob: &[u8]) -> Result<Self, SignatureError> {
        let mut decoder = Decoder::new(blob);
        let mut sig = decoder.method_sig(0)?;
        // Not in the grammar, but written by C++/CLI for a call without variable arguments.
        if sig.sentinel.is_none() && decoder.peek() == Some(element::SENTINEL) {
            decoder.at += 1;
            sig.sentinel = Some(sig.parameters.len());
        }
        decoder.end(sig)
    }

    /// Decodes the signature at the start of a blob, whatever follows it.
    ///
    /// # Errors
    /// The blob does not begin with a method signature.
    pub fn decode_start(blob: &[u8]) -> Result<Self, SignatureError> {
        Decoder::new(blob).method_sig(0)
    }

    /// What a call of it does to the stack.
    #[must_use]
    pub fn call_effect(&self) -> CallEffect {
        CallEffect {
            has_this: self.convention.has_this() && !self.convention.explicit_this(),
            parameters: u16::try_from(self.parameters.len()).unwrap_or(u16::MAX),
            returns: self.return_type.unmodified() != &TypeSig::Primitive(Primitive::Void),
        }
    }

    /// Encodes it.
    ///
    /// # Errors
    /// As [`TypeSig::encode`].
    pub fn encode(&self) -> Result<Vec<u8>, SignatureError> {
        let mut out = Encoder::default();
        out.method_sig(self, 0)?;
        Ok(out.bytes)
    }
}

/// Decodes the signature of a field.
///
/// # Errors
/// The blob is no field signature.
pub fn decode_field(blob: &[u8]) -> Result<TypeSig, SignatureError> {
    let mut decoder = Decoder::new(blob);
    decoder.kind(CallingConvention::FIELD, "field signature")?;
    let sig = decoder.type_sig(0)?;
    decoder.end(sig)
}

/// Encodes the signature of a field.
///
/// # Errors
/// As [`TypeSig::encode`].
pub fn encode_field(field_type: &TypeSig) -> Result<Vec<u8>, SignatureError> {
    let mut out = Encoder::default();
    out.bytes.push(CallingConvention::FIELD.0);
    out.type_sig(field_type, 0)?;
    Ok(out.bytes)
}

/// The signature of a property.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PropertySig {
    /// Whether it belongs to an instance.
    pub has_this: bool,
    /// Its type.
    pub property_type: TypeSig,
    /// Parameters of an indexer.
    pub parameters: Vec<TypeSig>,
}

impl PropertySig {
    /// Decodes the signature of a property.
    ///
    /// # Errors
    /// The blob is no property signature.
    pub fn decode(blob: &[u8]) -> Result<Self, SignatureError> {
        let mut decoder = Decoder::new(blob);
        let convention = decoder.kind(CallingConvention::PROPERTY, "property signature")?;
        let count = decoder.number()?;
        let property_type = decoder.type_sig(0)?;
        let parameters = decoder.types(count, 0)?;
        decoder.end(Self { has_this: convention.has_this(), property_type, parameters })
    }

    /// Encodes it.
    ///
    /// # Errors
    /// As [`TypeSig::encode`].
    pub fn encode(&self) -> Result<Vec<u8>, SignatureError> {
        let mut out = Encoder::default();
        let convention = CallingConvention::PROPERTY;
        out.bytes.push(if self.has_this { convention.with_this().0 } else { convention.0 });
        out.count(self.parameters.len())?;
        out.type_sig(&self.property_type, 0)?;
        self.parameters.iter().try_for_each(|parameter| out.type_sig(parameter, 0))?;
        Ok(out.bytes)
    }
}

/// Decodes the types of local variables (the blob of a stand-alone signature).
///
/// # Errors
/// The blob is no locals signature.
pub fn decode_locals(blob: &[u8]) -> Result<Vec<TypeSig>, SignatureError> {
    let mut decoder = Decoder::new(blob);
    decoder.kind(CallingConvention::LOCALS, "locals signature")?;
    let count = decoder.number()?;
    let types = decoder.types(count, 0)?;
    decoder.end(types)
}

/// How many local variables a signature declares, without reading their types.
///
/// # Errors
/// The blob is no locals signature, or too short for that many.
pub fn count_locals(blob: &[u8]) -> Result<u16, SignatureError> {
    let mut decoder = Decoder::new(blob);
    decoder.kind(CallingConvention::LOCALS, "locals signature")?;
    let count = decoder.number()?;
    // Each type takes a byte at least.
    let fits = u16::try_from(count).ok().filter(|&count| usize::from(count) <= blob.len());
    fits.ok_or(SignatureError::Truncated { offset: blob.len() })
}

/// The place of a type among those that follow each other in a blob.
pub(crate) fn position_of_type(blob: &[u8], count: u16, of: &TypeSig) -> Option<u16> {
    let mut decoder = Decoder::new(blob);
    let found = (0..count)
        .map_while(|index| Some((index, decoder.type_sig(0).ok()?)))
        .find(|(_, found)| found == of);
    found.map(|(index, _)| index)
}

/// What a call does to the stack, according to the blob of a method's signature: like
/// [`MethodSig::call_effect`], but without reading the types of the parameters.
///
/// # Errors
/// The blob does not begin like a method signature.
pub fn call_effect(blob: &[u8]) -> Result<CallEffect, SignatureError> {
    let mut decoder = Decoder::new(blob);
    let (convention, _) = decoder.method_head()?;
    let parameters = u16::try_from(decoder.number()?).unwrap_or(u16::MAX);
    loop {
        match decoder.byte()? {
            element::CMOD_REQD | element::CMOD_OPT => drop(decoder.token()?),
            element::CMOD_INTERNAL => {
                decoder.byte()?;
                decoder.handle()?;
            }
            element::PINNED => {}
            element => {
                let has_this = convention.has_this() && !convention.explicit_this();
                return Ok(CallEffect {
                    has_this,
                    parameters,
                    returns: element != Primitive::Void as u8,
                });
            }
        }
    }
}

/// Encodes the types of local variables.
///
/// # Errors
/// As [`TypeSig::encode`].
pub fn encode_locals(locals: &[TypeSig]) -> Result<Vec<u8>, SignatureError> {
    Encoder::list(CallingConvention::LOCALS, locals)
}

/// Decodes the arguments of an instantiated generic method (the blob of a `MethodSpec`).
///
/// # Errors
/// The blob is no method instantiation.
pub fn decode_method_spec(blob: &[u8]) -> Result<Vec<TypeSig>, SignatureError> {
    let mut decoder = Decoder::new(blob);
    decoder.kind(CallingConvention::GENERIC_INST, "method instantiation")?;
    let count = decoder.number()?;
    let types = decoder.types(count, 0)?;
    decoder.end(types)
}

/// Encodes the arguments of an instantiated generic method.
///
/// # Errors
/// As [`TypeSig::encode`].
pub fn encode_method_spec(arguments: &[TypeSig]) -> Result<Vec<u8>, SignatureError> {
    Encoder::list(CallingConvention::GENERIC_INST, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TokenKind;
    use proptest::prelude::*;

    const INT: TypeSig = TypeSig::Primitive(Primitive::I4);

    #[test]
    fn numbers_as_in_the_standard() {
        // ECMA-335 II.23.2, the examples.
        for (bytes, value) in [
            (&[0x03_u8][..], 0x03_u32),
            (&[0x7f], 0x7f),
            (&[0x80, 0x80], 0x80),
            (&[0xae, 0x57], 0x2e57),
            (&[0xbf, 0xff], 0x3fff),
            (&[0xc0, 0x00, 0x40, 0x00], 0x4000),
            (&[0xdf, 0xff, 0xff, 0xff], 0x1fff_ffff),
        ] {
            assert_eq!(Decoder::new(bytes).number(), Ok(value));
            let mut out = Encoder::default();
            out.number(value).unwrap();
            assert_eq!(out.bytes, bytes);
        }
        for (bytes, value) in [
            (&[0x06_u8][..], 3_i32),
            (&[0x7b], -3),
            (&[0x80, 0x80], 64),
            (&[0x01], -64),
            (&[0xc0, 0x00, 0x40, 0x00], 8192),
            (&[0x80, 0x01], -8192),
            (&[0xdf, 0xff, 0xff, 0xfe], 268_435_455),
            (&[0xc0, 0x00, 0x00, 0x01], -268_435_456),
        ] {
            assert_eq!(Decoder::new(bytes).signed(), Ok(value), "{bytes:02x?}");
            let mut out = Encoder::default();
            out.signed(value).unwrap();
            assert_eq!(out.bytes, bytes);
        }
        assert_eq!(Decoder::new(&[0xe0]).number(), Err(SignatureError::BadNumber { offset: 0 }));
        assert_eq!(Decoder::new(&[0xc0, 1]).number(), Err(SignatureError::Truncated { offset: 2 }));
    }

    #[test]
    fn a_generic_method() {
        // instance !!0 M<T>(int32[], class List`1<!0>&, valuetype T modreq(U))
        let blob = [
            0x30, 0x01, 0x03, 0x1e, 0x00, 0x1d, 0x08, 0x10, 0x15, 0x12, 0x05, 0x01, 0x13, 0x00,
            0x1f, 0x09, 0x11, 0x08,
        ];
        let sig = MethodSig::decode(&blob).unwrap();
        assert!(sig.convention.has_this() && sig.convention.is_generic());
        assert_eq!(sig.generic_parameters, 1);
        assert_eq!(sig.return_type, TypeSig::MethodParam(0));
        assert_eq!(sig.parameters[0], TypeSig::SzArray(Box::new(INT)));
        let list = TypeSig::GenericInst {
            value_type: false,
            definition: Box::new(TypeSig::Class(Token::new(TokenKind::TypeRef, 1))),
            arguments: vec![TypeSig::TypeParam(0)],
        };
        assert_eq!(sig.parameters[1], TypeSig::ByRef(Box::new(list)));
        assert_eq!(
            sig.parameters[2].unmodified(),
            &TypeSig::ValueType(Token::new(TokenKind::TypeDef, 2))
        );
        assert_eq!(sig.encode().unwrap(), blob);
    }

    #[test]
    fn other_kinds() {
        assert_eq!(decode_field(&[0x06, 0x0e]), Ok(TypeSig::Primitive(Primitive::String)));
        assert!(matches!(decode_field(&[0x07, 0x0e]), Err(SignatureError::BadKind { .. })));
        assert_eq!(decode_locals(&[0x07, 0x02, 0x08, 0x45, 0x1c]).unwrap().len(), 2);
        assert_eq!(decode_method_spec(&[0x0a, 0x01, 0x08]), Ok(vec![INT]));
        assert!(matches!(MethodSig::decode(&[0x06, 0x08]), Err(SignatureError::BadKind { .. })));
        assert_eq!(decode_field(&[0x06, 0x0e, 0x0e]), Err(SignatureError::Trailing { offset: 2 }));
        assert_eq!(TypeSig::decode_start(&[0x0e, 0x0e]), Ok(TypeSig::Primitive(Primitive::String)));
        assert_eq!(MethodSig::decode_start(&[0, 0, 0x01, 0x0e]), MethodSig::decode(&[0, 0, 0x01]));
        // vararg void (int32, ..., string), then the same without variable arguments as C++/CLI
        // writes it.
        for (blob, sentinel) in
            [(&[0x05, 0x02, 0x01, 0x08, 0x41, 0x0e][..], 1), (&[0x05, 0x01, 0x01, 0x08, 0x41], 1)]
        {
            let sig = MethodSig::decode(blob).unwrap();
            assert_eq!(sig.sentinel, Some(sentinel));
            assert_eq!(sig.encode().unwrap(), blob);
        }
        let property = PropertySig { has_this: true, property_type: INT, parameters: vec![INT] };
        assert_eq!(property.encode().unwrap(), [0x28, 0x01, 0x08, 0x08]);
        assert_eq!(PropertySig::decode(&[0x28, 0x01, 0x08, 0x08]), Ok(property));
    }

    #[test]
    fn call_effects() {
        let effect = |blob: &[u8]| MethodSig::decode(blob).unwrap().call_effect();
        assert_eq!(
            effect(&[0x20, 1, 0x01, 0x08]),
            CallEffect { has_this: true, parameters: 1, returns: false }
        );
        // An init accessor: void with a required modifier.
        assert!(!effect(&[0x20, 1, 0x1f, 0x05, 0x01, 0x08]).returns);
        // instance explicit int32 (object): `this` is in the list.
        assert_eq!(
            effect(&[0x60, 1, 0x08, 0x1c]),
            CallEffect { has_this: false, parameters: 1, returns: true }
        );
    }

    #[test]
    fn depth_is_bounded() {
        let mut deep = vec![element::SZARRAY; 1 << 20];
        deep.push(Primitive::I4 as u8);
        assert_eq!(
            TypeSig::decode(&deep),
            Err(SignatureError::TooDeep { offset: MAX_DEPTH as usize + 1 })
        );
        // A function pointer that returns a function pointer that …
        let deep = [element::FNPTR, 0, 0].repeat(1 << 16);
        assert!(matches!(TypeSig::decode(&deep), Err(SignatureError::TooDeep { .. })));
    }

    #[test]
    fn a_huge_count_reserves_no_memory() {
        assert_eq!(
            decode_locals(&[0x07, 0xdf, 0xff, 0xff, 0xff]),
            Err(SignatureError::Truncated { offset: 5 })
        );
    }

    fn any_token() -> impl Strategy<Value = Token> {
        (
            prop_oneof![
                Just(TokenKind::TypeDef),
                Just(TokenKind::TypeRef),
                Just(TokenKind::TypeSpec)
            ],
            0_u32..0xff_ffff,
        )
            .prop_map(|(kind, rid)| Token::new(kind, rid))
    }

    fn any_type() -> impl Strategy<Value = TypeSig> {
        let leaf = prop_oneof![
            (0..Primitive::ALL.len()).prop_map(|i| TypeSig::Primitive(Primitive::ALL[i])),
            any_token().prop_map(TypeSig::Class),
            any_token().prop_map(TypeSig::ValueType),
            (0_u32..0x1fff_ffff).prop_map(TypeSig::TypeParam),
            (0_u32..300).prop_map(TypeSig::MethodParam),
            any::<usize>().prop_map(TypeSig::Internal),
        ];
        leaf.prop_recursive(6, 48, 4, |inner| {
            let boxed = inner.clone().prop_map(Box::new).boxed();
            let modifier = prop_oneof![
                any_token().prop_map(Modifier::Token),
                any::<usize>().prop_map(Modifier::Internal)
            ];
            prop_oneof![
                boxed.clone().prop_map(TypeSig::SzArray),
                boxed.clone().prop_map(TypeSig::Pointer),
                boxed.clone().prop_map(TypeSig::ByRef),
                boxed.clone().prop_map(TypeSig::Pinned),
                (any::<bool>(), modifier, boxed.clone()).prop_map(|(required, modifier, inner)| {
                    TypeSig::Modified { required, modifier, inner }
                }),
                (any::<bool>(), any_token(), prop::collection::vec(inner.clone(), 0..4)).prop_map(
                    |(value_type, token, arguments)| TypeSig::GenericInst {
                        value_type,
                        definition: Box::new(if value_type {
                            TypeSig::ValueType(token)
                        } else {
                            TypeSig::Class(token)
                        }),
                        arguments,
                    }
                ),
                (
                    boxed,
                    0_u32..40,
                    prop::collection::vec(0_u32..0x1fff_ffff, 0..4),
                    prop::collection::vec(-268_435_456_i32..268_435_456, 0..4)
                )
                    .prop_map(|(element, rank, sizes, lower_bounds)| {
                        TypeSig::Array { element, rank, sizes, lower_bounds }
                    }),
                (0_u8..5, inner.clone(), prop::collection::vec(inner, 0..3)).prop_map(
                    |(kind, ret, parameters)| {
                        TypeSig::FunctionPointer(Box::new(MethodSig {
                            convention: CallingConvention(kind),
                            generic_parameters: 0,
                            return_type: ret,
                            parameters,
                            sentinel: None,
                        }))
                    }
                ),
            ]
        })
    }

    proptest! {
        #[test]
        fn decoding_never_panics(blob in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = TypeSig::decode(&blob);
            let _ = count_locals(&blob);
            if let Ok(sig) = MethodSig::decode(&blob) {
                prop_assert_eq!(call_effect(&blob), Ok(sig.call_effect()));
            }
            let _ = PropertySig::decode(&blob);
            let _ = decode_field(&blob);
            let _ = decode_locals(&blob);
            let _ = decode_method_spec(&blob);
        }

        #[test]
        fn what_is_encoded_decodes_to_the_same(types in prop::collection::vec(any_type(), 1..5), this in any::<bool>()) {
            prop_assert_eq!(&TypeSig::decode(&types[0].encode().unwrap()).unwrap(), &types[0]);
            prop_assert_eq!(&decode_locals(&encode_locals(&types).unwrap()).unwrap(), &types);
            prop_assert_eq!(count_locals(&encode_locals(&types).unwrap()), Ok(types.len() as u16));
            prop_assert_eq!(&decode_method_spec(&encode_method_spec(&types).unwrap()).unwrap(), &types);
            prop_assert_eq!(&decode_field(&encode_field(&types[0]).unwrap()).unwrap(), &types[0]);
            let convention = CallingConvention::VARARG.with_generics();
            let method = MethodSig {
                convention: if this { convention.with_this() } else { convention },
                generic_parameters: 7,
                return_type: types[0].clone(),
                parameters: types.clone(),
                sentinel: this.then_some(types.len() - 1),
            };
            prop_assert_eq!(call_effect(&method.encode().unwrap()), Ok(method.call_effect()));
            prop_assert_eq!(MethodSig::decode(&method.encode().unwrap()).unwrap(), method);
        }

        #[test]
        fn every_cut_of_a_signature_is_an_error(sig in any_type()) {
            let blob = sig.encode().unwrap();
            for end in 0..blob.len() {
                prop_assert!(TypeSig::decode(&blob[..end]).is_err());
            }
        }
    }
}
