//! How fast the bodies of `System.Private.CoreLib` (.NET 9) are decoded, written back, and protected by a finally
//! handler and verified. A round is the whole library; criterion's throughput is bodies per second.

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/support/mod.rs"]
mod support;

use cil::{Handler, MethodBody, MethodEditor, Opcode, Token, TokenKind, instructions, verify};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use support::{Assembly, framework};
use testkit::Runtime;

fn bodies(criterion: &mut Criterion) {
    let path = framework(Runtime::V9).into_iter().find(|path| path.ends_with("System.Private.CoreLib.dll")).unwrap();
    let assembly = Assembly::read(&path).unwrap();
    let mut group = criterion.benchmark_group("bodies");
    group.sample_size(10);
    group.throughput(Throughput::Elements(assembly.methods.len() as u64));
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            for method in &assembly.methods {
                let body = MethodBody::parse(assembly.body_bytes(method)).unwrap();
                for instruction in instructions(&body.code) {
                    black_box(instruction.unwrap());
                }
            }
        });
    });
    group.bench_function("round trip", |bencher| {
        bencher.iter(|| {
            for method in &assembly.methods {
                black_box(MethodBody::parse(assembly.body_bytes(method)).unwrap().encode().unwrap());
            }
        });
    });
    group.bench_function("verify", |bencher| {
        bencher.iter(|| {
            for method in &assembly.methods {
                let body = MethodBody::parse(assembly.body_bytes(method)).unwrap();
                let shape = assembly.shape(method, body.header.local_signature);
                black_box(verify(&body, shape, &assembly).unwrap());
            }
        });
    });
    group.bench_function("wrap and verify", |bencher| {
        bencher.iter(|| {
            for method in &assembly.methods {
                let body = MethodBody::parse(assembly.body_bytes(method)).unwrap();
                let locals = assembly.locals(body.header.local_signature);
                let mut shape = assembly.shape(method, body.header.local_signature);
                let mut editor = MethodEditor::new(&body, locals).unwrap();
                let result = shape.returns.then(|| editor.add_local(&method.signature.return_type).unwrap());
                shape.locals += u16::from(shape.returns);
                editor.set_local_signature(Token::new(TokenKind::Signature, 0xff_ffff));
                editor.wrap_body(Handler::Finally(vec![Opcode::Nop.into()]), result).unwrap();
                let edited = editor.finish(shape.returns, &assembly).unwrap();
                black_box(verify(&edited.body, shape, &assembly).unwrap());
                black_box(edited.body.encode().unwrap());
            }
        });
    });
    group.finish();
}

criterion_group!(benches, bodies);
criterion_main!(benches);
