//! Anything may come in: what cannot be instrumented is refused, and nothing panics.

use crate::support::{TRACER, app, function, settings};
use cil::MethodBody;
use newrelic_compat::rewrite::{
    Function, IMPL_ASYNC, Owner, RefStructs, instrument, instrument_api,
};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;
use proptest::prelude::*;

fn any_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

/// Bytes that are signatures more often than not.
fn signature_like() -> impl Strategy<Value = Vec<u8>> {
    let element = prop::sample::select(vec![
        0x00, 0x01, 0x02, 0x08, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x1b, 0x1c,
        0x1d, 0x1e, 0x1f, 0x20, 0x20, 0x41, 0x45, 0x80,
    ]);
    prop::collection::vec(element, 0..24)
}

/// A body around some code: tiny or fat, with whatever follows.
fn body_like() -> impl Strategy<Value = Vec<u8>> {
    (any_bytes(60), any_bytes(40), any::<bool>()).prop_map(|(mut code, sections, fat)| {
        code.push(0x2a);
        let mut bytes = if fat {
            vec![0x1b, 0x30, 2, 0, code.len() as u8, 0, 0, 0, 1, 0, 0, 0x11]
        } else {
            vec![(code.len() as u8) << 2 | 2]
        };
        bytes.extend(code);
        bytes.extend(sections);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_method_is_instrumented_or_refused(
        signature in prop_oneof![signature_like(), any_bytes(24)],
        body in prop_oneof![3 => body_like(), 1 => any_bytes(60)],
        locals in prop_oneof![Just(None), prop_oneof![signature_like(), any_bytes(24)].prop_map(Some)],
        choice in any::<u32>(),
    ) {
        let shape = [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55][choice as usize % 3];
        let strategy = [CallingStrategy::Cache, CallingStrategy::Reflection][choice as usize / 3 % 2];
        let function = Function {
            owner: [Owner::Class, Owner::ValueType, Owner::ByRefLike][choice as usize / 6 % 3],
            type_parameters: choice / 18 % 3,
            ref_structs: RefStructs::default(),
            implementation: if choice & 0x1_0000 == 0 { 0 } else { IMPL_ASYNC },
            locals: locals.as_deref(),
            ..function(&signature, &body)
        };
        let settings = settings(shape, strategy);
        if let Ok(new) = instrument(&function, &TRACER, &settings, &mut app()) {
            let parsed = MethodBody::parse(&new.bytes).unwrap();
            prop_assert!(parsed.decode().is_ok() && parsed.clauses.len() >= 4);
            prop_assert!(cil::decode_locals(&new.locals).unwrap().len() >= 2);
        }
        if let Ok(new) = instrument_api(&function, &settings, &mut app()) {
            prop_assert!(MethodBody::parse(&new.bytes).unwrap().decode().is_ok());
        }
    }
}
