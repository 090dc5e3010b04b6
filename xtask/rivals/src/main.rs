//! How fast the method bodies of one assembly are checked, read and written, and wrapped, on one
//! processor, beside what dotscope takes to decode the same code. Prints one line of JSON: for each
//! row the rates of all rounds, in bodies per second. `cargo xtask bench il` runs it.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use cil::{
    Handler, MethodBody, MethodEditor, MethodShape, MethodSig, Opcode, Token, TokenKind, TypeSig,
    Verifier,
};
use dotscope::{Parser, assembly::decode_stream};
use metadata::Assembly;
use std::hint::black_box;
use std::time::Instant;

/// A method with everything that is known before its body is looked at.
struct Known<'a> {
    bytes: &'a [u8],
    body: MethodBody<'a>,
    shape: MethodShape,
    locals: Option<&'a [u8]>,
    returned: TypeSig,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("the path of an assembly is needed")?;
    let rounds: usize = arguments.next().context("the number of rounds is needed")?.parse()?;
    let file = std::fs::read(&path).with_context(|| path.clone())?;
    let assembly = Assembly::parse(&file)?;
    let mut methods = Vec::new();
    for method in assembly.methods() {
        let Some(bytes) = method.body_bytes()? else { continue };
        let body = MethodBody::parse(bytes)?;
        methods.push(Known {
            bytes,
            shape: method.shape(&body)?,
            locals: assembly.locals(body.header.local_signature),
            returned: MethodSig::decode(method.signature().context("a method without signature")?)?
                .return_type,
            body,
        });
    }
    ensure!(!methods.is_empty(), "{path} has no method bodies");
    let rate = |work: &mut dyn FnMut(&Known<'_>) -> Result<()>| -> Result<f64> {
        let started = Instant::now();
        methods.iter().try_for_each(work)?;
        Ok(methods.len() as f64 / started.elapsed().as_secs_f64())
    };
    let mut rates: [Vec<f64>; 5] = Default::default();
    let (mut editor, mut verifier) = (MethodEditor::empty(), Verifier::new());
    let mut code = Vec::new();
    // In turns, so that what else the machine does meets all of them alike. The first round warms
    // up.
    for round in 0..=rounds {
        let found = [
            rate(&mut |method| {
                black_box(verifier.verify(&method.body, method.shape, &assembly)?);
                Ok(())
            })?,
            rate(&mut |method| {
                black_box(MethodBody::parse(method.bytes)?.encode()?);
                Ok(())
            })?,
            rate(&mut |method| {
                let mut body = MethodBody::parse(method.bytes)?;
                code.clear();
                for instruction in cil::instructions(&body.code) {
                    instruction?.encode(&mut code)?;
                }
                body.code = code.as_slice().into();
                black_box(body.encode()?);
                Ok(())
            })?,
            rate(&mut |method| {
                black_box(decode_stream(&mut Parser::new(&method.body.code), 0)?);
                Ok(())
            })?,
            rate(&mut |method| wrap(method, &assembly, &mut editor, &mut verifier))?,
        ];
        if round > 0 {
            rates.iter_mut().zip(found).for_each(|(rates, rate)| rates.push(rate));
        }
    }
    let [verify, kept, encode, rival, wrap] = rates;
    let rates = serde_json::json!({
        "bodies": methods.len(), "verify": verify, "kept": kept, "encode": encode, "rival": rival, "wrap": wrap,
    });
    println!("{rates}");
    Ok(())
}

fn wrap(
    method: &Known<'_>,
    assembly: &Assembly<'_>,
    editor: &mut MethodEditor,
    verifier: &mut Verifier,
) -> Result<()> {
    let body = MethodBody::parse(method.bytes)?;
    let mut shape = method.shape;
    editor.open(&body, method.locals)?;
    let result = shape.returns.then(|| editor.add_local(&method.returned)).transpose()?;
    shape.locals += u16::from(shape.returns);
    editor.set_local_signature(Token::new(TokenKind::Signature, 0xff_ffff));
    editor.wrap_body(Handler::Finally(vec![Opcode::Nop.into()]), result)?;
    let edited = editor.finish_verified(shape, assembly, verifier)?;
    black_box(edited.body.encode()?);
    Ok(())
}
