//! Methods that the agent's own profiler gives bodies that crash or cannot be compiled.

use crate::support::{POINT, SPAN, TRACER, app, function, listing, settings, tiny};
use newrelic_compat::points::flags;
use newrelic_compat::rewrite::{Function, Owner, RefStructs, Tracer, instrument, instrument_api};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;

fn instrumented(function: &Function<'_>) -> Vec<String> {
    let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
    listing(&instrument(function, &TRACER, &settings, &mut app()).unwrap().bytes)
}

/// The instructions that load slot 8, which is `this`.
fn this(function: &Function<'_>) -> Vec<String> {
    let all = instrumented(function);
    let start = all.iter().position(|line| line == "ldc.i4.8").unwrap() + 1;
    let end = all[start..].iter().position(|line| line == "stelem.ref").unwrap() + start;
    all[start..end].to_vec()
}

#[test]
fn this_of_a_value_type_is_boxed() {
    let (signature, body) = ([0x20, 0, 1], tiny(&[0x2a]));
    let class = function(&signature, &body);
    assert_eq!(this(&class), ["ldarg.0"]);
    let point = Function { owner: Owner::ValueType, type_token: POINT, ..class };
    assert_eq!(this(&point), ["ldarg.0", "ldobj 02000002", "box 02000002"]);
    // A generic one is instantiated with its own parameters.
    let generic = Function { type_parameters: 2, ..point };
    assert_eq!(this(&generic), ["ldarg.0", "ldobj 1b000001", "box 1b000001"]);
    let span = Function { owner: Owner::ByRefLike, ..point };
    assert_eq!(this(&span), ["ldnull"]);
    let static_signature = [0, 0, 1];
    assert_eq!(this(&Function { signature: &static_signature, ..point }), ["ldnull"]);
}

#[test]
fn generic_parameters_that_may_be_a_ref_struct_are_passed_as_null() {
    let body = tiny(&[0x14, 0x7a]);
    // The first parameter of the type, and the second of the method; the method has two.
    let signature = [0x10, 2, 2, 1, 0x13, 0, 0x1e, 1];
    let boxes = |ref_structs| {
        let all = instrumented(&Function { ref_structs, ..function(&signature, &body) });
        all.iter().filter(|line| line.starts_with("box")).count()
    };
    assert_eq!(boxes(RefStructs::default()), 4);
    assert_eq!(boxes(RefStructs { of_type: 1, of_method: 1 }), 3);
    assert_eq!(boxes(RefStructs { of_type: 1, of_method: 2 }), 2);
}

#[test]
fn what_cannot_be_boxed_is_passed_as_null() {
    let body = tiny(&[0x14, 0x7a]);
    // Span<int>, TypedReference, by reference, pointer.
    let signature = [0, 4, 1, 0x15, 0x11, SPAN, 1, 8, 0x16, 0x10, 8, 0x0f, 8];
    let all = instrumented(&function(&signature, &body));
    assert_eq!(
        all.iter().filter(|line| line.starts_with("box")).count(),
        2,
        "only flags and function id"
    );
    let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
    // Span<int> as the result: it stays in its local and is returned.
    let signature = [0, 0, 0x15, 0x11, SPAN, 1, 8];
    let new = instrument(&function(&signature, &body), &TRACER, &settings, &mut app()).unwrap();
    assert!(new.locals.ends_with(&signature[2..]));
    assert_eq!(listing(&new.bytes).iter().filter(|line| line.starts_with("box")).count(), 2);
    assert_eq!(listing(&new.bytes).last().unwrap(), "ret");
}

#[test]
fn flags_of_one_method_do_not_reach_another() {
    let (signature, body) = ([0, 0, 1], tiny(&[0x2a]));
    let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
    let tracer = Tracer { flags: 0x3400, ..TRACER };
    let flags_of = |is_async| {
        let function = Function { is_async, ..function(&signature, &body) };
        let new = instrument(&function, &tracer, &settings, &mut app()).unwrap();
        let parsed = cil::MethodBody::parse(&new.bytes).unwrap().into_owned();
        let all = parsed.decode().unwrap();
        let value = all.iter().find_map(|instruction| match instruction.operand {
            cil::Operand::Int32(value) => Some(value.cast_unsigned()),
            _ => None,
        });
        value.unwrap()
    };
    assert_eq!([flags_of(true), flags_of(false)], [0x3400 | flags::ASYNC_METHOD, 0x3400]);
}

#[test]
fn modifiers_are_dropped_from_results_and_boxes() {
    let body = tiny(&[0x14, 0x7a]);
    // int modopt(Span) by a parameter, and a result with a modifier.
    let signature = [0, 1, 0x20, SPAN, 8, 0x1d, 0x20, SPAN, 8];
    let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
    let new = instrument(&function(&signature, &body), &TRACER, &settings, &mut app()).unwrap();
    assert_eq!(new.locals.last(), Some(&8));
}

#[test]
fn results_of_the_api_are_taken_out_of_their_boxes() {
    let body = tiny(&[0x16, 0x2a]);
    let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
    let all = |signature: &[u8]| {
        listing(&instrument_api(&function(signature, &body), &settings, &mut app()).unwrap().bytes)
    };
    let unboxes =
        |signature: &[u8]| all(signature).iter().any(|line| line.starts_with("unbox.any"));
    assert!(unboxes(&[0, 0, 8]) && unboxes(&[0, 0, 0x11, 8]));
    assert!(!unboxes(&[0, 0, 0x0e]) && !unboxes(&[0, 0, 0x1c]) && !unboxes(&[0, 0, 1]));
}

#[test]
fn libraries_are_found_by_their_whole_name() {
    let (signature, body) = ([0, 0, 1], tiny(&[0x2a]));
    let settings = settings(AgentShape::V10_54, CallingStrategy::Reflection);
    let mut model = crate::model::Model::new(&serde_json::json!({
        "assemblyRefs": ["Foo.System.Runtime"], "rows": [0, 0, 0, 0], "nextString": "70000001",
    }));
    instrument(&function(&signature, &body), &TRACER, &settings, &mut model).unwrap();
    assert!(
        model.log.contains(&"assembly System.Runtime [0, 0, 0, 0]".to_owned()),
        "{:?}",
        model.log
    );
    assert!(model.log.iter().all(|line| !line.contains("[Foo.System.Runtime]")));
}

#[test]
fn every_body_passes_the_structural_checks() {
    // if (x) return 2; return 1;
    let body = tiny(&[0x02, 0x2d, 0x02, 0x17, 0x2a, 0x18, 0x2a]);
    let signature = [0, 1, 8, 8];
    for shape in [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55] {
        for strategy in [CallingStrategy::Cache, CallingStrategy::Reflection] {
            let mut model = app();
            let new = instrument(
                &function(&signature, &body),
                &TRACER,
                &settings(shape, strategy),
                &mut model,
            )
            .unwrap();
            let parsed = cil::MethodBody::parse(&new.bytes).unwrap();
            let shape_of = cil::MethodShape { arguments: 1, locals: 3, returns: true };
            cil::verify(&parsed, shape_of, &model)
                .unwrap_or_else(|error| panic!("{shape} {strategy}: {error}"));
            assert!(parsed.header.max_stack >= cil::max_stack(&parsed, true, &model).unwrap());
        }
    }
}
