//! Every method body and every signature of two frameworks, as their compilers wrote them: some 219
//! 000 bodies of C# and Visual Basic.

use cil::{
    EditError, Handler, HeaderFormat, Instruction, MethodBody, MethodEditor, MethodSig,
    NewInstruction, NoNames, Opcode, PropertySig, Token, TokenKind, TypeSig, Verifier, call_effect,
    decode_field, decode_locals, decode_method_spec, disassemble, encode_field, encode_locals,
    encode_method_spec, verify,
};
use metadata::{Assembly, Method, column, table};
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use testkit::{Host, Runtime};

/// Laying out without a change and disassembling is done for one body in this many, to stay within
/// a minute.
const SAMPLE: u32 = 8;

/// What was seen, for the one who reads the output.
#[derive(Debug, Default)]
struct Counts {
    assemblies: u32,
    bodies: u32,
    instructions: u32,
    clauses: u32,
    /// Bodies that come back with the same instructions, but other bytes.
    shortened: u32,
    /// Fat headers that allow exactly the stack that their body needs.
    exact_stacks: u32,
    /// Bodies with a fat header: the others always allow 8.
    fat: u32,
    wrapped: u32,
    /// Bodies that were laid out unchanged and disassembled: one in [`SAMPLE`].
    shown: u32,
    signatures: u32,
}

#[test]
fn bodies_and_signatures_of_net_core_3_1() {
    check(Runtime::V3_1, 50_000);
}

#[test]
fn bodies_and_signatures_of_net_9() {
    check(Runtime::V9, 80_000);
}

fn check(runtime: Runtime, least: u32) {
    let mut counts = Counts::default();
    for path in framework(runtime) {
        let bytes = fs::read(&path).unwrap();
        let assembly = match Assembly::parse(&bytes) {
            Err(metadata::Error::Native) => continue,
            assembly => assembly.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        };
        counts.assemblies += 1;
        check_signatures(&assembly, &mut counts);
        for method in assembly.methods() {
            check_body(&assembly, &method, &mut counts);
        }
    }
    println!("{runtime}: {counts:?}");
    assert!(counts.bodies >= least, "{runtime} has only {} bodies", counts.bodies);
    // Compilers compute the same stack; what passed through an IL rewriter may allow more.
    assert!(
        counts.exact_stacks * 1000 >= counts.fat * 999,
        "{} of {} stacks",
        counts.exact_stacks,
        counts.fat
    );
    // One in ten thousand has clauses that a small section could hold, but in a fat one.
    assert!(
        counts.shortened * 10_000 <= counts.bodies,
        "{} bodies come back shorter",
        counts.shortened
    );
}

/// The framework's files that may be assemblies, by name.
fn framework(runtime: Runtime) -> Vec<PathBuf> {
    let Host::Muxer { framework, .. } = runtime.require().host() else {
        panic!("{runtime} has no framework folder")
    };
    let files = fs::read_dir(&framework).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "dll")).collect();
    files.sort();
    files
}

fn check_body(assembly: &Assembly<'_>, method: &Method<'_, '_>, counts: &mut Counts) {
    let place = format!("{} {}", assembly.name().unwrap(), method.token());
    let Some(bytes) = method.body_bytes().unwrap() else { return };
    let (body, size) =
        MethodBody::parse_sized(bytes).unwrap_or_else(|error| panic!("{place}: {error}"));
    let encoded = body.encode().unwrap();
    if encoded != bytes[..size] {
        assert!(encoded.len() < size, "{place}");
        assert_eq!(MethodBody::parse(&encoded).unwrap(), body, "{place}");
        counts.shortened += 1;
    }
    let shape = method.shape(&body).unwrap();
    let heights = verify(&body, shape, assembly).unwrap_or_else(|error| panic!("{place}: {error}"));
    check_instructions(&body, &place);
    counts.bodies += 1;
    counts.clauses += body.clauses.len() as u32;
    if body.header.format == HeaderFormat::Fat {
        counts.fat += 1;
        counts.exact_stacks += u32::from(heights.max() == body.header.max_stack);
    }

    let locals = assembly.locals(body.header.local_signature);
    let signature = MethodSig::decode(method.signature().unwrap()).unwrap();
    let mut editor =
        MethodEditor::new(&body, locals).unwrap_or_else(|error| panic!("{place}: {error}"));
    let before = editor.ids().count();
    counts.instructions += before as u32;
    if counts.bodies.is_multiple_of(SAMPLE) {
        check_unchanged(&body, &editor, &place);
        check_text(&body, locals, &place);
        counts.shown += 1;
    }
    let mut shape = shape;
    let result = shape.returns.then(|| {
        shape.locals += 1;
        editor.add_local(&signature.return_type).unwrap()
    });
    if result.is_some() {
        let blob = editor.local_signature().unwrap();
        assert_eq!(decode_locals(&blob).unwrap().len(), usize::from(shape.locals), "{place}");
        editor.set_local_signature(Token::new(TokenKind::Signature, 0xff_ffff));
    }
    let handler = Handler::Finally(vec![Opcode::Nop.into(), NewInstruction::from(Opcode::Nop)]);
    match editor.wrap_body(handler, result) {
        Err(EditError::Jump) => return,
        wrapped => wrapped.unwrap_or_else(|error| panic!("{place}: {error}")),
    }
    let edited = editor.finish_verified(shape, assembly, &mut Verifier::new());
    let edited = edited.unwrap_or_else(|error| panic!("{place}: {error}"));
    let encoded = edited.body.encode().unwrap();
    let again = MethodBody::parse(&encoded).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(again.clauses, edited.body.clauses, "{place}");
    assert_eq!(again.clauses.len(), body.clauses.len() + 1, "{place}");
    let heights =
        verify(&again, shape, assembly).unwrap_or_else(|error| panic!("{place}: wrapped: {error}"));
    assert_eq!(heights.max(), again.header.max_stack, "{place}");
    counts.wrapped += 1;
}

/// Each instruction is written as it was read.
fn check_instructions(body: &MethodBody<'_>, place: &str) {
    let mut code = Vec::with_capacity(body.code.len());
    for instruction in body.instructions() {
        instruction.unwrap().encode(&mut code).unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    assert_eq!(code, *body.code, "{place}");
}

/// Without a change, only branches that were longer than they need to be are different.
fn check_unchanged(body: &MethodBody<'_>, editor: &MethodEditor, place: &str) {
    let again = editor
        .finish_with(body.header.max_stack)
        .unwrap_or_else(|error| panic!("{place}: {error}"));
    let (old, new) = (body.decode().unwrap(), again.body.decode().unwrap());
    assert_eq!((old.len(), old.len()), (new.len(), again.offsets.len()), "{place}");
    assert!(again.body.code.len() <= body.code.len(), "{place}");
    let moved: HashMap<u32, u32> = again.offsets.iter().map(|pair| (pair.old, pair.new)).collect();
    for (old, new) in old.iter().zip(&new) {
        let long =
            |instruction: &Instruction<'_>| instruction.opcode.long().unwrap_or(instruction.opcode);
        assert_eq!((long(old), old.token()), (long(new), new.token()), "{place}");
        assert!(old.targets().map(|target| moved[&target]).eq(new.targets()), "{place}");
        assert_eq!(moved[&old.offset], new.offset, "{place}");
    }
}

/// One line for each instruction, and as many brackets closed as opened.
fn check_text(body: &MethodBody<'_>, locals: Option<&[u8]>, place: &str) {
    let locals = locals.map_or(Vec::new(), |blob| decode_locals(blob).unwrap());
    let mut text = String::new();
    disassemble(&mut text, body, &locals, &NoNames).unwrap();
    let lines = text.lines().filter(|line| line.trim_start().starts_with("IL_")).count();
    assert_eq!(lines, body.instructions().count(), "{place}:\n{text}");
    assert_eq!(text.matches('{').count(), text.matches('}').count(), "{place}:\n{text}");
}

fn check_signatures(assembly: &Assembly<'_>, counts: &mut Counts) {
    let metadata = assembly.metadata();
    let blobs = |table, column| {
        (1..=metadata.rows(table)).map(move |row| metadata.blob_of(table, row, column).unwrap())
    };
    let mut check = |kind: &str, blob: &[u8], encoded: Vec<u8>| {
        assert_eq!(encoded, blob, "{}: {kind}", assembly.name().unwrap());
        counts.signatures += 1;
    };
    let methods = blobs(table::METHOD_DEF, column::METHOD_SIGNATURE);
    let mixed = blobs(table::MEMBER_REF, column::MEMBER_REF_SIGNATURE);
    let fields = blobs(table::FIELD, column::FIELD_SIGNATURE);
    let stand_alone = blobs(table::STAND_ALONE_SIG, column::SIGNATURE);
    for blob in methods.chain(mixed).chain(fields).chain(stand_alone) {
        match blob[0] & 0xf {
            6 => check("field", blob, encode_field(&decode_field(blob).unwrap()).unwrap()),
            7 => check("locals", blob, encode_locals(&decode_locals(blob).unwrap()).unwrap()),
            _ => {
                let signature = MethodSig::decode(blob).unwrap();
                assert_eq!(call_effect(blob), Ok(signature.call_effect()));
                check("method", blob, signature.encode().unwrap());
            }
        }
    }
    for blob in blobs(table::PROPERTY, column::PROPERTY_SIGNATURE) {
        check("property", blob, PropertySig::decode(blob).unwrap().encode().unwrap());
    }
    for blob in blobs(table::TYPE_SPEC, column::SIGNATURE) {
        check("type", blob, TypeSig::decode(blob).unwrap().encode().unwrap());
    }
    for blob in blobs(table::METHOD_SPEC, column::METHOD_SPEC_ARGUMENTS) {
        check(
            "instantiation",
            blob,
            encode_method_spec(&decode_method_spec(blob).unwrap()).unwrap(),
        );
    }
}
