//! Element types: the bytes that say what kind of type follows, and the types that are a byte of
//! their own. Source: ECMA-335 II.23.1.16.

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

pub(super) const PTR: u8 = 0x0f;
pub(super) const BYREF: u8 = 0x10;
pub(super) const VALUETYPE: u8 = 0x11;
pub(super) const CLASS: u8 = 0x12;
pub(super) const VAR: u8 = 0x13;
pub(super) const ARRAY: u8 = 0x14;
pub(super) const GENERICINST: u8 = 0x15;
pub(super) const FNPTR: u8 = 0x1b;
pub(super) const SZARRAY: u8 = 0x1d;
pub(super) const MVAR: u8 = 0x1e;
pub(super) const CMOD_REQD: u8 = 0x1f;
pub(super) const CMOD_OPT: u8 = 0x20;
pub(super) const INTERNAL: u8 = 0x21;
pub(super) const CMOD_INTERNAL: u8 = 0x22;
pub(super) const SENTINEL: u8 = 0x41;
pub(super) const PINNED: u8 = 0x45;
