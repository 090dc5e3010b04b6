//! Every method body and every signature of two frameworks, as their compilers wrote them: some 219 000 bodies of
//! C# and Visual Basic.

mod support;

use cil::{
    EditError, Handler, HeaderFormat, Instruction, MethodBody, MethodEditor, MethodSig, NewInstruction, NoNames,
    Opcode, PropertySig, Token, TokenKind, TypeSig, decode_field, decode_locals, decode_method_spec, disassemble,
    encode_field, encode_locals, encode_method_spec, verify,
};
use std::collections::HashMap;
use support::{Assembly, Method, framework};
use testkit::Runtime;

/// Laying out without a change and disassembling is done for one body in this many, to stay within a minute.
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
        let Some(assembly) = Assembly::read(&path) else { continue };
        counts.assemblies += 1;
        check_signatures(&assembly, &mut counts);
        for method in &assembly.methods {
            check_body(&assembly, method, &mut counts);
        }
    }
    println!("{runtime}: {counts:?}");
    assert!(counts.bodies >= least, "{runtime} has only {} bodies", counts.bodies);
    // Compilers compute the same stack; what passed through an IL rewriter may allow more.
    assert!(counts.exact_stacks * 1000 >= counts.fat * 999, "{} of {} stacks", counts.exact_stacks, counts.fat);
    // One in ten thousand has clauses that a small section could hold, but in a fat one.
    assert!(counts.shortened * 10_000 <= counts.bodies, "{} bodies come back shorter", counts.shortened);
}

fn check_body(assembly: &Assembly, method: &Method, counts: &mut Counts) {
    let place = format!("{} {}", assembly.name, method.token);
    let bytes = assembly.body_bytes(method);
    let (body, size) = MethodBody::parse_sized(bytes).unwrap_or_else(|error| panic!("{place}: {error}"));
    let encoded = body.encode().unwrap();
    if encoded != bytes[..size] {
        assert!(encoded.len() < size, "{place}");
        assert_eq!(MethodBody::parse(&encoded).unwrap(), body, "{place}");
        counts.shortened += 1;
    }
    let shape = assembly.shape(method, body.header.local_signature);
    let heights = verify(&body, shape, assembly).unwrap_or_else(|error| panic!("{place}: {error}"));
    counts.bodies += 1;
    counts.clauses += body.clauses.len() as u32;
    if body.header.format == HeaderFormat::Fat {
        counts.fat += 1;
        counts.exact_stacks += u32::from(heights.max() == body.header.max_stack);
    }

    let locals = assembly.locals(body.header.local_signature);
    let mut editor = MethodEditor::new(&body, locals).unwrap_or_else(|error| panic!("{place}: {error}"));
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
        editor.add_local(&method.signature.return_type).unwrap()
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
    let edited = editor.finish(shape.returns, assembly).unwrap_or_else(|error| panic!("{place}: {error}"));
    let encoded = edited.body.encode().unwrap();
    let again = MethodBody::parse(&encoded).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(again.clauses, edited.body.clauses, "{place}");
    assert_eq!(again.clauses.len(), body.clauses.len() + 1, "{place}");
    verify(&again, shape, assembly).unwrap_or_else(|error| panic!("{place}: wrapped: {error}"));
    counts.wrapped += 1;
}

/// Without a change, only branches that were longer than they need to be are different.
fn check_unchanged(body: &MethodBody<'_>, editor: &MethodEditor, place: &str) {
    let again = editor.finish_with(body.header.max_stack).unwrap_or_else(|error| panic!("{place}: {error}"));
    let (old, new) = (body.decode().unwrap(), again.body.decode().unwrap());
    assert_eq!((old.len(), old.len()), (new.len(), again.offsets.len()), "{place}");
    assert!(again.body.code.len() <= body.code.len(), "{place}");
    let moved: HashMap<u32, u32> = again.offsets.iter().map(|pair| (pair.old, pair.new)).collect();
    for (old, new) in old.iter().zip(&new) {
        let long = |instruction: &Instruction<'_>| instruction.opcode.long().unwrap_or(instruction.opcode);
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

fn check_signatures(assembly: &Assembly, counts: &mut Counts) {
    let mut check = |kind: &str, blob: &[u8], encoded: Vec<u8>| {
        assert_eq!(encoded, blob, "{}: {kind}", assembly.name);
        counts.signatures += 1;
    };
    for blob in &assembly.method_signatures {
        check("method", blob, MethodSig::decode(blob).unwrap().encode().unwrap());
    }
    for blob in &assembly.field_signatures {
        check("field", blob, encode_field(&decode_field(blob).unwrap()).unwrap());
    }
    for blob in &assembly.property_signatures {
        check("property", blob, PropertySig::decode(blob).unwrap().encode().unwrap());
    }
    for blob in &assembly.type_specs {
        check("type", blob, TypeSig::decode(blob).unwrap().encode().unwrap());
    }
    for blob in &assembly.method_specs {
        check("instantiation", blob, encode_method_spec(&decode_method_spec(blob).unwrap()).unwrap());
    }
    for blob in assembly.local_signatures.values() {
        check("locals", blob, encode_locals(&decode_locals(blob).unwrap()).unwrap());
    }
}
