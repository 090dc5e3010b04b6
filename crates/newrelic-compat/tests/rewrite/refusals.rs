//! Methods that keep their bodies.

use crate::support::{TRACER, app, function, settings, tiny};
use newrelic_compat::log::Level;
use newrelic_compat::rewrite::{Function, IMPL_ASYNC, Refusal, instrument, instrument_api};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;

const VOID: [u8; 3] = [0, 0, 1];
/// A fat body of one `ret` whose header names the signature of its locals.
const WITH_LOCALS: [u8; 13] = [0x03, 0x30, 8, 0, 1, 0, 0, 0, 1, 0, 0, 0x11, 0x2a];

fn refused(function: &Function<'_>) -> Option<Refusal> {
    instrument(function, &TRACER, &settings(AgentShape::V10_54, CallingStrategy::Cache), &mut app())
        .err()
}

fn refusal(change: impl FnOnce(&mut Function<'_>)) -> Option<Refusal> {
    let body = tiny(&[0x2a]);
    let mut function = function(&VOID, &body);
    change(&mut function);
    refused(&function)
}

fn refused_body(body: &[u8], locals: Option<&[u8]>) -> Option<Refusal> {
    refused(&Function { locals, ..function(&VOID, body) })
}

fn refused_signature(signature: &[u8]) -> Option<Refusal> {
    let body = tiny(&[0x14, 0x7a]);
    let function = function(signature, &body);
    instrument(
        &function,
        &TRACER,
        &settings(AgentShape::V10_54, CallingStrategy::Cache),
        &mut app(),
    )
    .err()
}

#[test]
fn attributes_of_types_and_methods() {
    assert_eq!(refusal(|_| {}), None);
    let sequential = |function: &mut Function<'_>| function.outermost_type_attributes = 0x0010_0108;
    assert_eq!(refusal(sequential), Some(Refusal::SequentialLayout));
    assert_eq!(refusal(|function| function.outermost_type_attributes = 0x0010_0110), None);
    assert_eq!(refusal(|function| function.attributes = 0x0896), Some(Refusal::SpecialName));
    assert_eq!(
        refusal(|function| (function.attributes, function.name) = (0x1886, ".cctor")),
        Some(Refusal::SpecialName)
    );
    assert_eq!(refusal(|function| (function.attributes, function.name) = (0x1886, ".ctor")), None);
    assert_eq!(refusal(|function| function.attributes = 0x2096), Some(Refusal::Unmanaged));
    assert_eq!(refusal(|function| function.attributes = 0x009e), Some(Refusal::Unmanaged));
    assert_eq!(
        refusal(|function| function.implementation = IMPL_ASYNC),
        Some(Refusal::RuntimeAsync)
    );
    // The first of several reasons is given.
    let both = |function: &mut Function<'_>| {
        (function.outermost_type_attributes, function.attributes) = (0x8, 0x2896)
    };
    assert_eq!(refusal(both), Some(Refusal::SequentialLayout));
}

#[test]
fn bodies() {
    assert_eq!(refused_body(&[], None), Some(Refusal::InvalidMethod));
    assert_eq!(refused_body(&[0x0a, 0x2a, 0x00], None), Some(Refusal::InvalidMethod));
    let sections = [0x0b, 0x30, 8, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x2a, 0x02, 4, 0, 0];
    assert_eq!(refused_body(&sections, None), Some(Refusal::UnsupportedSection));
    assert_eq!(refused_body(&WITH_LOCALS, None), Some(Refusal::Locals));
    assert_eq!(refused_body(&WITH_LOCALS, Some(&[6, 8])), Some(Refusal::Locals));
    assert_eq!(refused_body(&WITH_LOCALS, Some(&[7, 1, 8])), None);
}

#[test]
fn too_many_locals() {
    let locals = |count: u16| {
        let mut blob = vec![7];
        blob.extend_from_slice(&(u32::from(count) | 0xc000_0000).to_be_bytes());
        blob.extend(std::iter::repeat_n(8, count.into()));
        blob
    };
    assert_eq!(refused_body(&WITH_LOCALS, Some(&locals(0xfffd))), None);
    assert_eq!(refused_body(&WITH_LOCALS, Some(&locals(0xfffe))), Some(Refusal::Locals));
}

#[test]
fn signatures() {
    assert_eq!(refused_signature(&[0, 0, 0x10, 8]), Some(Refusal::ByRefReturn));
    assert_eq!(refused_signature(&[0, 0, 0x0f, 8]), Some(Refusal::UnsupportedType));
    assert_eq!(refused_signature(&[0, 0, 0x1b, 0, 0, 1]), Some(Refusal::UnsupportedType));
    assert_eq!(refused_signature(&[0, 1]), Some(Refusal::Signature));
    // A class without a name, and a constructed type in the place of one.
    assert!(matches!(refused_signature(&[0, 1, 1, 0x12, 0x81, 1]), Some(Refusal::Text(_))));
    assert_eq!(refused_signature(&[0, 0, 0x12, 6]), Some(Refusal::UnsupportedType));
    assert_eq!(refused_signature(&[0, 0, 8]), None);
    let api = |signature: &[u8]| {
        let body = tiny(&[0x14, 0x7a]);
        let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
        instrument_api(&function(signature, &body), &settings, &mut app()).err()
    };
    assert_eq!(api(&[0, 0, 0x10, 8]), Some(Refusal::ByRefReturn));
    assert_eq!(api(&[0, 1, 1, 0x0f, 8]), Some(Refusal::UnsupportedType));
}

#[test]
fn levels() {
    assert_eq!(Refusal::InvalidMethod.level(), Level::Info);
    assert_eq!(Refusal::RuntimeAsyncReturn.level(), Level::Warn);
    assert_eq!(Refusal::SequentialLayout.level(), Level::Error);
    assert_eq!(Refusal::InvalidMethod.to_string(), "Skipping invalid method");
    assert_eq!(Refusal::SequentialLayout.to_string(), "Skipping sequential layout method");
    assert_eq!(Refusal::ByRefReturn.to_string(), "By ref tokenization not supported.");
}
