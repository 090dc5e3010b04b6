//! Types, and signatures of methods and fields, as bytes: what references to members and
//! specifications of types consist of. Expected bytes are from ECMA-335 II.23.2.

use cil::{MethodSig, Modifier, Primitive, Token, TypeSig};

const INT: TypeSig = TypeSig::Primitive(Primitive::I4);
const STRING: TypeSig = TypeSig::Primitive(Primitive::String);
const OBJECT: TypeSig = TypeSig::Primitive(Primitive::Object);
const VOID: TypeSig = TypeSig::Primitive(Primitive::Void);
const DEFINITION: Token = Token(0x0200_0002);
const REFERENCE: Token = Token(0x0100_0003);

fn boxed(sig: TypeSig) -> Box<TypeSig> {
    Box::new(sig)
}

fn instance(value_type: bool, definition: TypeSig, arguments: Vec<TypeSig>) -> TypeSig {
    TypeSig::GenericInst { value_type, definition: boxed(definition), arguments }
}

fn array(element: TypeSig, rank: u32, sizes: Vec<u32>, lower_bounds: Vec<i32>) -> TypeSig {
    TypeSig::Array { element: boxed(element), rank, sizes, lower_bounds }
}

fn modified(required: bool, token: Token, inner: TypeSig) -> TypeSig {
    TypeSig::Modified { required, modifier: Modifier::Token(token), inner: boxed(inner) }
}

fn method(blob: &[u8]) -> MethodSig {
    MethodSig::decode(blob).unwrap()
}

/// Both directions, and that no shorter blob and no longer one is the type.
fn check(sig: &TypeSig, bytes: &[u8]) {
    assert_eq!(sig.encode().unwrap(), bytes, "{sig:?}");
    assert_eq!(TypeSig::decode(bytes).as_ref(), Ok(sig), "{bytes:02x?}");
    for cut in 0..bytes.len() {
        assert!(TypeSig::decode(&bytes[..cut]).is_err(), "{bytes:02x?} cut to {cut}");
    }
    assert!(
        TypeSig::decode(&[bytes, &[0x08]].concat()).is_err(),
        "{bytes:02x?} with more behind it"
    );
}

#[test]
fn primitives_are_one_byte() {
    for (primitive, byte, name) in [
        (Primitive::Void, 0x01, "System.Void"),
        (Primitive::Boolean, 0x02, "System.Boolean"),
        (Primitive::Char, 0x03, "System.Char"),
        (Primitive::I1, 0x04, "System.SByte"),
        (Primitive::U1, 0x05, "System.Byte"),
        (Primitive::I2, 0x06, "System.Int16"),
        (Primitive::U2, 0x07, "System.UInt16"),
        (Primitive::I4, 0x08, "System.Int32"),
        (Primitive::U4, 0x09, "System.UInt32"),
        (Primitive::I8, 0x0a, "System.Int64"),
        (Primitive::U8, 0x0b, "System.UInt64"),
        (Primitive::R4, 0x0c, "System.Single"),
        (Primitive::R8, 0x0d, "System.Double"),
        (Primitive::String, 0x0e, "System.String"),
        (Primitive::TypedByRef, 0x16, "System.TypedReference"),
        (Primitive::IntPtr, 0x18, "System.IntPtr"),
        (Primitive::UIntPtr, 0x19, "System.UIntPtr"),
        (Primitive::Object, 0x1c, "System.Object"),
    ] {
        check(&TypeSig::Primitive(primitive), &[byte]);
        assert_eq!(primitive.full_name(), name);
    }
}

#[test]
fn tokens_are_compressed() {
    // The row is shifted by two bits, which hold the table: 0 TypeDef, 1 TypeRef, 2 TypeSpec.
    for (token, bytes) in [
        (0x0200_0000, &[0x00][..]),
        (0x0100_0000, &[0x01]),
        (0x1b00_0000, &[0x02]),
        (0x0200_0001, &[0x04]),
        (0x0100_0001, &[0x05]),
        (0x1b00_0001, &[0x06]),
        // The last row of one byte, and the first one of two.
        (0x0200_001f, &[0x7c]),
        (0x0100_001f, &[0x7d]),
        (0x1b00_001f, &[0x7e]),
        (0x0200_0020, &[0x80, 0x80]),
        (0x0100_0020, &[0x80, 0x81]),
        // The last row of two bytes, and the first one of four.
        (0x0200_0fff, &[0xbf, 0xfc]),
        (0x1b00_0fff, &[0xbf, 0xfe]),
        (0x0200_1000, &[0xc0, 0x00, 0x40, 0x00]),
        (0x0100_1000, &[0xc0, 0x00, 0x40, 0x01]),
        // The last row that a token has room for.
        (0x02ff_ffff, &[0xc3, 0xff, 0xff, 0xfc]),
        (0x1bff_ffff, &[0xc3, 0xff, 0xff, 0xfe]),
    ] {
        check(&TypeSig::Class(Token(token)), &[&[0x12], bytes].concat());
        check(&TypeSig::ValueType(Token(token)), &[&[0x11], bytes].concat());
        check(&modified(true, Token(token), INT), &[&[0x1f], bytes, &[0x08]].concat());
        check(&modified(false, Token(token), INT), &[&[0x20], bytes, &[0x08]].concat());
    }
    // Tables that no type is in, and the fourth number of a table, which none has.
    for token in [0x0600_0001, 0x0a00_0001, 0x7000_0001] {
        assert!(TypeSig::Class(Token(token)).encode().is_err(), "{token:08x}");
    }
    assert!(TypeSig::decode(&[0x12, 0x07]).is_err());
}

#[test]
fn numbers_are_compressed() {
    for (number, bytes) in [
        (0, &[0x00][..]),
        (1, &[0x01]),
        (0x7f, &[0x7f]),
        (0x80, &[0x80, 0x80]),
        (0x3fff, &[0xbf, 0xff]),
        (0x4000, &[0xc0, 0x00, 0x40, 0x00]),
        (0x1fff_ffff, &[0xdf, 0xff, 0xff, 0xff]),
    ] {
        check(&TypeSig::TypeParam(number), &[&[0x13], bytes].concat());
        check(&TypeSig::MethodParam(number), &[&[0x1e], bytes].concat());
        check(&array(INT, number, vec![], vec![]), &[&[0x14, 0x08], bytes, &[0, 0]].concat());
        check(&array(INT, 1, vec![number], vec![]), &[&[0x14, 0x08, 1, 1], bytes, &[0]].concat());
    }
    for number in [0x2000_0000, u32::MAX] {
        assert!(TypeSig::TypeParam(number).encode().is_err(), "{number:#x}");
        assert!(array(INT, 1, vec![number], vec![]).encode().is_err(), "{number:#x}");
    }
    assert!(
        TypeSig::decode(&[0x13, 0xe0, 0, 0, 0]).is_err(),
        "no number starts with three bits that are set"
    );
}

#[test]
fn composed_types() {
    let list = || TypeSig::Class(REFERENCE);
    for (sig, bytes) in [
        (TypeSig::SzArray(boxed(INT)), &[0x1d, 0x08][..]),
        (TypeSig::SzArray(boxed(STRING)), &[0x1d, 0x0e]),
        (TypeSig::SzArray(boxed(TypeSig::SzArray(boxed(INT)))), &[0x1d, 0x1d, 0x08]),
        (TypeSig::SzArray(boxed(TypeSig::Class(DEFINITION))), &[0x1d, 0x12, 0x08]),
        (TypeSig::SzArray(boxed(TypeSig::TypeParam(0))), &[0x1d, 0x13, 0]),
        (array(STRING, 2, vec![], vec![]), &[0x14, 0x0e, 2, 0, 0]),
        (array(INT, 2, vec![], vec![0, 0]), &[0x14, 0x08, 2, 0, 2, 0, 0]),
        (array(INT, 2, vec![3, 4], vec![]), &[0x14, 0x08, 2, 2, 3, 4, 0]),
        // Lower bounds are signed: rotated by one bit, the sign last.
        (array(INT, 1, vec![3], vec![1]), &[0x14, 0x08, 1, 1, 3, 1, 2]),
        (array(INT, 1, vec![], vec![-1]), &[0x14, 0x08, 1, 0, 1, 0x7f]),
        (TypeSig::Pointer(boxed(VOID)), &[0x0f, 0x01]),
        (TypeSig::Pointer(boxed(TypeSig::Pointer(boxed(INT)))), &[0x0f, 0x0f, 0x08]),
        (TypeSig::Pointer(boxed(TypeSig::ValueType(DEFINITION))), &[0x0f, 0x11, 0x08]),
        (TypeSig::ByRef(boxed(INT)), &[0x10, 0x08]),
        (TypeSig::ByRef(boxed(TypeSig::SzArray(boxed(OBJECT)))), &[0x10, 0x1d, 0x1c]),
        (TypeSig::Pinned(boxed(TypeSig::ByRef(boxed(INT)))), &[0x45, 0x10, 0x08]),
        (instance(false, list(), vec![INT]), &[0x15, 0x12, 0x0d, 1, 0x08]),
        (instance(false, list(), vec![STRING, OBJECT]), &[0x15, 0x12, 0x0d, 2, 0x0e, 0x1c]),
        (instance(true, TypeSig::ValueType(DEFINITION), vec![INT]), &[0x15, 0x11, 0x08, 1, 0x08]),
        (instance(false, list(), vec![TypeSig::TypeParam(0)]), &[0x15, 0x12, 0x0d, 1, 0x13, 0]),
        (instance(false, list(), vec![TypeSig::MethodParam(1)]), &[0x15, 0x12, 0x0d, 1, 0x1e, 1]),
        (
            instance(false, list(), vec![instance(false, list(), vec![INT])]),
            &[0x15, 0x12, 0x0d, 1, 0x15, 0x12, 0x0d, 1, 0x08],
        ),
        (
            instance(
                false,
                list(),
                vec![TypeSig::SzArray(boxed(STRING)), array(INT, 2, vec![], vec![])],
            ),
            &[0x15, 0x12, 0x0d, 2, 0x1d, 0x0e, 0x14, 0x08, 2, 0, 0],
        ),
        (
            TypeSig::SzArray(boxed(instance(false, list(), vec![INT]))),
            &[0x1d, 0x15, 0x12, 0x0d, 1, 0x08],
        ),
        (
            TypeSig::ByRef(boxed(instance(false, list(), vec![INT]))),
            &[0x10, 0x15, 0x12, 0x0d, 1, 0x08],
        ),
        (
            modified(true, REFERENCE, modified(false, DEFINITION, INT)),
            &[0x1f, 0x0d, 0x20, 0x08, 0x08],
        ),
        (TypeSig::Pointer(boxed(modified(false, REFERENCE, INT))), &[0x0f, 0x20, 0x0d, 0x08]),
        (TypeSig::FunctionPointer(Box::new(method(&[0, 0, 1]))), &[0x1b, 0, 0, 1]),
        (
            TypeSig::FunctionPointer(Box::new(method(&[0, 2, 8, 0x0e, 0x1c]))),
            &[0x1b, 0, 2, 8, 0x0e, 0x1c],
        ),
    ] {
        check(&sig, bytes);
    }
}

#[test]
fn bytes_that_are_no_type() {
    for bytes in [
        &[][..],
        &[0x00],
        &[0x17],
        &[0x1a],
        &[0x23],
        &[0x41],
        &[0x7f],
        &[0xff],
        &[0x15, 0x08, 1, 0x08],
    ] {
        assert!(TypeSig::decode(bytes).is_err(), "{bytes:02x?}");
    }
}

#[test]
fn methods() {
    for (blob, has_this, generic, parameters) in [
        (&[0x00, 0, 0x01][..], false, 0, 0),
        (&[0x20, 0, 0x01], true, 0, 0),
        (&[0x60, 1, 0x01, 0x1c], false, 0, 1),
        (&[0x00, 1, 0x01, 0x0e], false, 0, 1),
        (&[0x20, 2, 0x08, 0x0e, 0x1c], true, 0, 2),
        (&[0x10, 1, 0, 0x01], false, 1, 0),
        (&[0x30, 2, 2, 0x1e, 0, 0x1e, 1, 0x13, 0], true, 2, 2),
        (&[0x00, 1, 0x1d, 0x08, 0x1d, 0x0e], false, 0, 1),
        (&[0x00, 1, 0x01, 0x10, 0x08], false, 0, 1),
        (&[0x00, 1, 0x01, 0x10, 0x16], false, 0, 1),
        (&[0x00, 1, 0x10, 0x08, 0x08], false, 0, 1),
        (&[0x00, 1, 0x16, 0x16], false, 0, 1),
        (&[0x20, 1, 0x1f, 0x0d, 0x01, 0x08], true, 0, 1),
        (&[0x00, 1, 0x20, 0x0d, 0x08, 0x1f, 0x0d, 0x20, 0x08, 0x08], false, 0, 1),
        (&[0x00, 1, 0x01, 0x1f, 0x0d, 0x10, 0x08], false, 0, 1),
        (&[0x00, 1, 0x01, 0x14, 0x08, 2, 2, 3, 4, 2, 0, 0], false, 0, 1),
        (&[0x05, 2, 0x01, 0x08, 0x41, 0x0e], false, 0, 2),
        (&[0x00, 2, 0x12, 0x08, 0x11, 0x0d, 0x15, 0x12, 0x0d, 1, 0x08], false, 0, 2),
    ] {
        let sig = method(blob);
        assert_eq!(sig.encode().unwrap(), blob, "{blob:02x?}");
        let found = (sig.call_effect().has_this, sig.generic_parameters, sig.parameters.len());
        assert_eq!(found, (has_this, generic, parameters), "{blob:02x?}");
        for cut in 0..blob.len() {
            assert!(MethodSig::decode(&blob[..cut]).is_err(), "{blob:02x?} cut to {cut}");
        }
    }
    // A number that takes more bytes than it needs is read, and written in the shortest form.
    assert_eq!(method(&[0x00, 0x80, 0x01, 0x01, 0x08]).encode().unwrap(), [0x00, 1, 0x01, 0x08]);
}

#[test]
fn fields() {
    for (blob, expected) in [
        (&[0x06, 0x1c][..], OBJECT),
        (&[0x06, 0x08], INT),
        (&[0x06, 0x12, 0x08], TypeSig::Class(DEFINITION)),
        (&[0x06, 0x1f, 0x0d, 0x08], modified(true, REFERENCE, INT)),
        (&[0x06, 0x20, 0x0d, 0x1d, 0x08], modified(false, REFERENCE, TypeSig::SzArray(boxed(INT)))),
    ] {
        assert_eq!(cil::decode_field(blob).as_ref(), Ok(&expected), "{blob:02x?}");
        assert_eq!(cil::encode_field(&expected).unwrap(), blob);
    }
    assert!(cil::decode_field(&[0x07, 0x08]).is_err());
}

#[test]
fn instantiations_of_methods() {
    for (arguments, blob) in [
        (vec![INT], &[0x0a, 1, 0x08][..]),
        (vec![STRING, OBJECT], &[0x0a, 2, 0x0e, 0x1c]),
        (vec![TypeSig::TypeParam(0), TypeSig::MethodParam(1)], &[0x0a, 2, 0x13, 0, 0x1e, 1]),
        (
            vec![instance(false, TypeSig::Class(REFERENCE), vec![INT])],
            &[0x0a, 1, 0x15, 0x12, 0x0d, 1, 0x08],
        ),
    ] {
        assert_eq!(cil::encode_method_spec(&arguments).unwrap(), blob);
        assert_eq!(cil::decode_method_spec(blob).unwrap(), arguments);
    }
    assert!(cil::decode_method_spec(&[0x06, 1, 0x08]).is_err());
}
