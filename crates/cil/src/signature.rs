//! Metadata signatures: the blobs that say what types a method, field, property, local or type has.
//!
//! Decoding is total: any bytes give a value or a [`SignatureError`], never a panic, and nesting is
//! bounded by [`MAX_DEPTH`], so a hostile module cannot overflow the stack. Encoding gives the
//! shortest form that ECMA-335 II.23.2 defines. Two elements exist only inside a running CoreCLR
//! and are understood as well: `INTERNAL` and `CMOD_INTERNAL` carry a type handle in place of a
//! token (signatures of dynamic methods and IL stubs).

use crate::{CallEffect, Token, TokenKind};

/// How deep types may nest in a signature. The runtime itself accepts a few hundred; compilers
/// write fewer than twenty.
pub const MAX_DEPTH: u32 = 64;

/// Items that are reserved up front for a list; longer lists grow as they are read, so that a count
/// that lies costs nothing.
const RESERVE: u32 = 16;

/// Why a blob is not a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The blob ends in the middle.
    #[error("signature ends too early, at byte {offset}")]
    Truncated {
        /// Where more bytes were wanted.
        offset: usize,
    },
    /// A compressed number starts with the bits 111, which no encoder writes.
    #[error("signature has a malformed number at byte {offset}")]
    BadNumber {
        /// Where it stands.
        offset: usize,
    },
    /// A type starts with a byte that names no type.
    #[error("signature has an unknown element type {element:#04x} at byte {offset}")]
    BadElement {
        /// The byte.
        element: u8,
        /// Where it stands.
        offset: usize,
    },
    /// The first byte is not that of the kind of signature asked for.
    #[error("signature starts with {found:#04x}, which is not a {wanted}")]
    BadKind {
        /// The byte.
        found: u8,
        /// What was asked for.
        wanted: &'static str,
    },
    /// A token points to a table that a signature cannot refer to.
    #[error("signature refers to an unknown metadata table at byte {offset}")]
    BadToken {
        /// Where it stands.
        offset: usize,
    },
    /// Types nest deeper than [`MAX_DEPTH`].
    #[error("signature nests types too deeply at byte {offset}")]
    TooDeep {
        /// Where.
        offset: usize,
    },
    /// The signature is over but the blob is not.
    #[error("signature ends at byte {offset}, but the blob continues")]
    Trailing {
        /// First byte behind it.
        offset: usize,
    },
    /// A number or token is too large for the compressed form (29 bits).
    #[error("{value:#x} does not fit into a signature")]
    TooLarge {
        /// The number.
        value: u32,
    },
}

/// A type that is one byte in a signature. The discriminants are those of `CorElementType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Primitive {
    /// `void`.
    Void = 0x01,
    /// `System.Boolean`.
    Boolean = 0x02,
    /// `System.Char`.
    Char = 0x03,
    /// `System.SByte`.
    I1 = 0x04,
    /// `System.Byte`.
    U1 = 0x05,
    /// `System.Int16`.
    I2 = 0x06,
    /// `System.UInt16`.
    U2 = 0x07,
    /// `System.Int32`.
    I4 = 0x08,
    /// `System.UInt32`.
    U4 = 0x09,
    /// `System.Int64`.
    I8 = 0x0a,
    /// `System.UInt64`.
    U8 = 0x0b,
    /// `System.Single`.
    R4 = 0x0c,
    /// `System.Double`.
    R8 = 0x0d,
    /// `System.String`.
    String = 0x0e,
    /// `System.TypedReference`.
    TypedByRef = 0x16,
    /// `System.IntPtr`.
    IntPtr = 0x18,
    /// `System.UIntPtr`.
    UIntPtr = 0x19,
    /// `System.Object`.
    Object = 0x1c,
}

impl Primitive {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Void,
        Self::Boolean,
        Self::Char,
        Self::I1,
        Self::U1,
        Self::I2,
        Self::U2,
        Self::I4,
        Self::U4,
        Self::I8,
        Self::U8,
        Self::R4,
        Self::R8,
        Self::String,
        Self::TypedByRef,
        Self::IntPtr,
        Self::UIntPtr,
        Self::Object,
    ];

    /// The primitive with this element type.
    #[must_use]
    pub const fn from_element(element: u8) -> Option<Self> {
        Some(match element {
            0x01 => Self::Void,
            0x02 => Self::Boolean,
            0x03 => Self::Char,
            0x04 => Self::I1,
            0x05 => Self::U1,
            0x06 => Self::I2,
            0x07 => Self::U2,
            0x08 => Self::I4,
            0x09 => Self::U4,
            0x0a => Self::I8,
            0x0b => Self::U8,
            0x0c => Self::R4,
            0x0d => Self::R8,
            0x0e => Self::String,
            0x16 => Self::TypedByRef,
            0x18 => Self::IntPtr,
            0x19 => Self::UIntPtr,
            0x1c => Self::Object,
            _ => return None,
        })
    }

    /// The C# keyword; `System.TypedReference` has none and comes with its name.
    #[must_use]
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Boolean => "bool",
            Self::Char => "char",
            Self::I1 => "sbyte",
            Self::U1 => "byte",
            Self::I2 => "short",
            Self::U2 => "ushort",
            Self::I4 => "int",
            Self::U4 => "uint",
            Self::I8 => "long",
            Self::U8 => "ulong",
            Self::R4 => "float",
            Self::R8 => "double",
            Self::String => "string",
            Self::TypedByRef => "System.TypedReference",
            Self::IntPtr => "nint",
            Self::UIntPtr => "nuint",
            Self::Object => "object",
        }
    }

    /// The name of the type in the core library.
    #[must_use]
    pub const fn full_name(self) -> &'static str {
        match self {
            Self::Void => "System.Void",
            Self::Boolean => "System.Boolean",
            Self::Char => "System.Char",
            Self::I1 => "System.SByte",
            Self::U1 => "System.Byte",
            Self::I2 => "System.Int16",
            Self::U2 => "System.UInt16",
            Self::I4 => "System.Int32",
            Self::U4 => "System.UInt32",
            Self::I8 => "System.Int64",
            Self::U8 => "System.UInt64",
            Self::R4 => "System.Single",
            Self::R8 => "System.Double",
            Self::String => "System.String",
            Self::TypedByRef => "System.TypedReference",
            Self::IntPtr => "System.IntPtr",
            Self::UIntPtr => "System.UIntPtr",
            Self::Object => "System.Object",
        }
    }

    /// The name in ILAsm.
    #[must_use]
    pub const fn ilasm(self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Boolean => "bool",
            Self::Char => "char",
            Self::I1 => "int8",
            Self::U1 => "uint8",
            Self::I2 => "int16",
            Self::U2 => "uint16",
            Self::I4 => "int32",
            Self::U4 => "uint32",
            Self::I8 => "int64",
            Self::U8 => "uint64",
            Self::R4 => "float32",
            Self::R8 => "float64",
            Self::String => "string",
            Self::TypedByRef => "typedref",
            Self::IntPtr => "native int",
            Self::UIntPtr => "native uint",
            Self::Object => "object",
        }
    }
}

mod element {
    pub const PTR: u8 = 0x0f;
    pub const BYREF: u8 = 0x10;
    pub const VALUETYPE: u8 = 0x11;
    pub const CLASS: u8 = 0x12;
    pub const VAR: u8 = 0x13;
    pub const ARRAY: u8 = 0x14;
    pub const GENERICINST: u8 = 0x15;
    pub const FNPTR: u8 = 0x1b;
    pub const SZARRAY: u8 = 0x1d;
    pub const MVAR: u8 = 0x1e;
    pub const CMOD_REQD: u8 = 0x1f;
    pub const CMOD_OPT: u8 = 0x20;
    pub const INTERNAL: u8 = 0x21;
    pub const CMOD_INTERNAL: u8 = 0x22;
    pub const SENTINEL: u8 = 0x41;
    pub const PINNED: u8 = 0x45;
}

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

/// Reads a signature from front to back.
struct Decoder<'a> {
    blob: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    const fn new(blob: &'a [u8]) -> Self {
        Self { blob, at: 0 }
    }

    fn byte(&mut self) -> Result<u8, SignatureError> {
        let byte = *self.blob.get(self.at).ok_or(SignatureError::Truncated { offset: self.at })?;
        self.at += 1;
        Ok(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.blob.get(self.at).copied()
    }

    /// A compressed unsigned number, ECMA-335 II.23.2: 7, 14 or 29 bits.
    fn number(&mut self) -> Result<u32, SignatureError> {
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
    fn signed(&mut self) -> Result<i32, SignatureError> {
        let (value, bits) = self.sized_number()?;
        let magnitude = (value >> 1).cast_signed();
        Ok(if value & 1 == 0 { magnitude } else { magnitude - (1 << (bits - 1)) })
    }

    /// A `TypeDefOrRefOrSpecEncoded` token: the table in the two low bits.
    fn token(&mut self) -> Result<Token, SignatureError> {
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
    fn handle(&mut self) -> Result<usize, SignatureError> {
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

    fn kind(
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
    fn end<T>(&self, value: T) -> Result<T, SignatureError> {
        if self.at < self.blob.len() {
            Err(SignatureError::Trailing { offset: self.at })
        } else {
            Ok(value)
        }
    }

    fn types(&mut self, count: u32, depth: u32) -> Result<Vec<TypeSig>, SignatureError> {
        let mut types = Vec::with_capacity(count.min(RESERVE) as usize);
        for _ in 0..count {
            types.push(self.type_sig(depth)?);
        }
        Ok(types)
    }

    fn boxed(&mut self, depth: u32) -> Result<Box<TypeSig>, SignatureError> {
        self.type_sig(depth + 1).map(Box::new)
    }

    fn type_sig(&mut self, depth: u32) -> Result<TypeSig, SignatureError> {
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
    fn method_head(&mut self) -> Result<(CallingConvention, u32), SignatureError> {
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

    fn method_sig(&mut self, depth: u32) -> Result<MethodSig, SignatureError> {
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

/// Writes a signature.
#[derive(Default)]
struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    fn list(convention: CallingConvention, types: &[TypeSig]) -> Result<Vec<u8>, SignatureError> {
        let mut out = Self::default();
        out.bytes.push(convention.0);
        out.count(types.len())?;
        types.iter().try_for_each(|one| out.type_sig(one, 0))?;
        Ok(out.bytes)
    }

    fn number(&mut self, value: u32) -> Result<(), SignatureError> {
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

    fn count(&mut self, count: usize) -> Result<(), SignatureError> {
        self.number(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn signed(&mut self, value: i32) -> Result<(), SignatureError> {
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

    fn token(&mut self, token: Token) -> Result<(), SignatureError> {
        let tag = match token.kind() {
            Some(TokenKind::TypeDef) => 0,
            Some(TokenKind::TypeRef) => 1,
            Some(TokenKind::TypeSpec) => 2,
            _ => return Err(SignatureError::BadToken { offset: self.bytes.len() }),
        };
        self.number((token.rid() << 2) | tag)
    }

    fn handle(&mut self, handle: usize) {
        self.bytes.extend_from_slice(&handle.to_ne_bytes());
    }

    fn nested(&mut self, element: u8, inner: &TypeSig, depth: u32) -> Result<(), SignatureError> {
        self.bytes.push(element);
        self.type_sig(inner, depth + 1)
    }

    fn modifier(&mut self, required: bool, modifier: Modifier) -> Result<(), SignatureError> {
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
    fn definition(&mut self, value_type: bool, definition: &TypeSig) -> Result<(), SignatureError> {
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

    fn type_sig(&mut self, sig: &TypeSig, depth: u32) -> Result<(), SignatureError> {
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

    fn method_sig(&mut self, method: &MethodSig, depth: u32) -> Result<(), SignatureError> {
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

#[cfg(test)]
mod tests {
    use super::*;
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
