//! What is done with bytes of anybody: for cargo-fuzz, and for an ordinary test
//! (crates/rules/tests/fuzz.rs), which has this file as a module. A fault is a panic.

use cil::{
    CallEffect, EditError, Handler, MethodBody, MethodEditor, MethodShape, MethodSig,
    NewInstruction, NoNames, Opcode, PropertySig, SignatureError, Token, Tokens, TypeSig, Verifier,
};
use rules::{MethodFacts, MethodPattern, Pattern, RuleSet, Signature, Version};
use session::{FORMAT, MAGIC, SessionReader, SessionWriter};
use std::fmt::Debug;

/// Every token is something that can be called; its number says what.
struct Anything;

impl Tokens for Anything {
    fn call_effect(&self, token: Token) -> Option<CallEffect> {
        let bits = token.0;
        (bits % 7 != 6).then_some(CallEffect {
            has_this: bits & 1 != 0,
            parameters: (bits >> 1 & 3) as u16,
            returns: bits & 8 != 0,
        })
    }
}

/// A method body: it is read, checked, shown, written, laid out anew, and rewritten.
pub fn body(data: &[u8]) {
    let Ok((body, size)) = MethodBody::parse_sized(data) else { return };
    assert!(size <= data.len());
    let encoded = body.encode().expect("what was read can be written");
    assert_eq!(MethodBody::parse(&encoded).as_ref(), Ok(&body));
    let mut text = String::new();
    cil::disassemble(&mut text, &body, &[], &NoNames).expect("a text takes everything");
    let mut verifier = Verifier::new();
    for returns in [false, true] {
        let shape = MethodShape { arguments: 4, locals: 6, returns };
        let verified = verifier.verify(&body, shape, &Anything).is_ok();
        edited(&body, shape, verified);
    }
}

fn edited(body: &MethodBody<'_>, shape: MethodShape, verified: bool) {
    // The number of locals is six, whatever token the header has.
    let locals = [7, 6, 8, 8, 10, 13, 28, 14];
    let editor = match MethodEditor::new(body, Some(&locals)) {
        Ok(editor) => editor,
        Err(error) => return assert!(!verified, "{error}"),
    };
    let finish = |editor: &MethodEditor, shape| {
        editor.finish_verified(shape, &Anything, &mut Verifier::new())
    };
    match finish(&editor, shape) {
        Ok(edited) => {
            let count = |body: &MethodBody<'_>| body.instructions().map_while(Result::ok).count();
            assert_eq!(count(&edited.body), count(body));
            assert_eq!(edited.offsets.len(), count(body));
            drop(edited.body.encode().expect("what was laid out can be written"));
        }
        Err(error) => assert!(!verified, "it was well formed, and is not laid out anew: {error}"),
    }

    let mut nops = editor.clone();
    for (index, at) in nops.ids().collect::<Vec<_>>().into_iter().enumerate() {
        if index % 3 == 0 {
            nops.insert_at(at, Opcode::Nop);
        } else if index % 7 == 0 {
            nops.remove(at);
        }
    }
    let _ = finish(&nops, shape);

    let mut wrapped = editor;
    let (mut result, mut locals) = (None, shape.locals);
    if shape.returns {
        result = wrapped.add_local(&TypeSig::Primitive(cil::Primitive::I4)).ok();
        locals += 1;
    }
    wrapped.set_local_signature(Token(0x1100_0001));
    let handler = Handler::Fault(vec![NewInstruction::ldc_i4(7), Opcode::Pop.into()]);
    match wrapped.wrap_body(handler, result) {
        Ok(()) => drop(finish(&wrapped, MethodShape { locals, ..shape })),
        Err(EditError::Jump | EditError::EmptyRange | EditError::FallsOff) => {}
        Err(error) => assert!(!verified, "it was well formed, and cannot be wrapped: {error}"),
    }
}

/// Sections behind code: the first byte says how many of the following ones are the code.
pub fn sections(data: &[u8]) {
    let Some((&length, rest)) = data.split_first() else { return };
    let Some((code, sections)) = rest.split_at_checked(length.into()) else { return };
    let mut whole = vec![0x1b, 0x30, 8, 0];
    whole.extend((code.len() as u32).to_le_bytes());
    whole.extend([0; 4]);
    whole.extend(code);
    // Sections begin at multiples of four.
    whole.resize(whole.len().next_multiple_of(4), 0);
    whole.extend(sections);
    body(&whole);
}

/// Signatures of all kinds: what can be read is written as the same again.
pub fn signature(data: &[u8]) {
    again(data, TypeSig::decode, TypeSig::encode);
    again(data, MethodSig::decode, MethodSig::encode);
    again(data, PropertySig::decode, PropertySig::encode);
    again(data, cil::decode_field, cil::encode_field);
    again(data, cil::decode_locals, |types: &Vec<TypeSig>| cil::encode_locals(types));
    again(data, cil::decode_method_spec, |types: &Vec<TypeSig>| cil::encode_method_spec(types));
    let _ = TypeSig::decode_start(data);
    let _ = MethodSig::decode_start(data);
    if let Ok(signature) = MethodSig::decode(data) {
        assert_eq!(cil::call_effect(data), Ok(signature.call_effect()));
        let _ = cil::method_text(&signature, "name", &NoNames);
    }
    if let Ok(types) = cil::decode_locals(data) {
        assert_eq!(cil::count_locals(data).map(usize::from), Ok(types.len()));
        let _ = cil::types_text(&types, &NoNames);
    }
}

fn again<T: PartialEq + Debug>(
    data: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, SignatureError>,
    encode: impl Fn(&T) -> Result<Vec<u8>, SignatureError>,
) {
    let Ok(first) = decode(data) else { return };
    let encoded = encode(&first).expect("what was read can be written");
    assert_eq!(decode(&encoded), Ok(first));
}

/// A rule file, and each of its lines as a pattern.
pub fn rules(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for line in text.lines() {
        pattern(line);
    }
    let set = match RuleSet::from_toml(text) {
        Ok(set) => set,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for finding in set.validate() {
        assert!(!finding.to_string().is_empty());
    }
    assert_eq!(RuleSet::from_toml(&set.to_toml()).as_ref(), Ok(&set));
    for (assembly, type_name) in [("MyApp", "MyApp.Orders.Service"), ("", ""), ("é", "A+B`2")] {
        let assembly = set.for_assembly(assembly, Version([2, 1, 0, 0]));
        let types = assembly.for_type(type_name);
        for name in ["Load", ".ctor", "System.IDisposable.Dispose"] {
            let signature =
                Some(Signature { type_parameters: 1, parameters: &["int", "MyApp.Order[]"] });
            let facts =
                MethodFacts { name, signature, attributes: Some(&["System.ObsoleteAttribute"]) };
            let found = types.for_method(&facts);
            assert!(found.is_none() || types.may_take(name));
            let unknown = MethodFacts { name, signature: None, attributes: None };
            if let Some(found) = types.for_method(&unknown) {
                assert!(found.index < set.rules().len());
            }
        }
    }
}

fn pattern(text: &str) {
    if let Ok(pattern) = Pattern::parse(text) {
        assert_eq!(Pattern::parse(pattern.as_str()).as_ref(), Ok(&pattern));
        assert!(pattern.covers(&pattern));
        for name in ["", "MyApp.Orders.Service", text] {
            assert!(!pattern.matches(name) || name.starts_with(pattern.literal_prefix()));
        }
        if let Some(literal) = pattern.as_literal() {
            assert!(pattern.matches(literal));
        }
    }
    // What is escaped stands for itself, if it is not too long.
    if let Ok(escaped) = Pattern::parse(&Pattern::escape(text)) {
        assert!(escaped.matches(text), "{text:?}");
    }
    if let Ok(pattern) = MethodPattern::parse(text) {
        assert_eq!(MethodPattern::parse(pattern.as_str()).as_ref(), Ok(&pattern));
        assert!(pattern.covers(&pattern));
    }
}

/// Records of a session, as its unpacked bytes: they are read in each format, and what could be
/// read is written and read again as the same.
pub fn session(data: &[u8]) {
    for format in 1..=FORMAT {
        let file = session_file(format, data);
        let reader = SessionReader::new(&file[..]).expect("the header is right");
        let records: Vec<_> = reader.map_while(Result::ok).collect();
        let mut writer = SessionWriter::new(Vec::new(), "").expect("a vector takes everything");
        for record in &records {
            writer.write(record).expect("what was read can be written");
        }
        let again = writer.finish().expect("a vector takes everything");
        let again = SessionReader::new(&again[..]).expect("it was just written");
        let again: Vec<_> = again.map(|record| record.expect("it was just written")).collect();
        // Numbers that are not equal to themselves come back as well.
        assert_eq!(format!("{again:?}"), format!("{records:?}"));
    }
}

/// A session file with one block.
fn session_file(format: u32, records: &[u8]) -> Vec<u8> {
    // The version of clrscope: an empty text.
    let header = [0];
    let number = |number: usize| (number as u32).to_le_bytes();
    let mut file = [&MAGIC[..], &format.to_le_bytes(), &number(header.len())].concat();
    file.extend(crc32fast::hash(&[&file[..], &header].concat()).to_le_bytes());
    file.extend(header);
    let payload = lz4_flex::block::compress(records);
    let head = [&[1, 0, 0, 0][..], &number(payload.len()), &number(records.len())].concat();
    let crc = crc32fast::hash(&[&head[..], &payload].concat());
    file.extend([&head[..], &crc.to_le_bytes(), &payload].concat());
    file
}
