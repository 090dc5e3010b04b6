//! Metadata signatures: the blobs that say what types a method, field, property, local or type has.
//! They are read and written by the `cil` crate, which needs them for code.

pub use cil::{
    CallingConvention, MAX_DEPTH, MethodSig, Modifier, Primitive, PropertySig, SignatureError,
    TypeSig, decode_field, decode_locals, decode_method_spec, encode_field, encode_locals,
    encode_method_spec,
};
