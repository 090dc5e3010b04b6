//! Which tokens values are boxed with, and which types are named for it.

use crate::support::{TRACER, app, function, listing, settings, tiny};
use cil::Primitive;
use newrelic_compat::rewrite::instrument;
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;

/// What is defined for a method with this signature beyond what all methods need, and the tokens
/// that are boxed with.
fn boxed(shape: AgentShape, signature: &[u8]) -> (Vec<String>, Vec<String>) {
    let settings = settings(shape, CallingStrategy::Cache);
    let body = tiny(&[0x14, 0x7a]);
    let plain = tiny(&[0x2a]);
    let mut model = app();
    instrument(&function(&[0, 0, 1], &plain), &TRACER, &settings, &mut model).unwrap();
    let before = model.log.len();
    let new = instrument(&function(signature, &body), &TRACER, &settings, &mut model).unwrap();
    let boxes = listing(&new.bytes)
        .into_iter()
        .filter_map(|line| Some(line.strip_prefix("box ")?.to_owned()));
    // Flags and function id are boxed as well.
    let mut boxes: Vec<String> = boxes.collect();
    boxes.remove(0);
    let id = signature[1] as usize;
    boxes.remove(id.min(boxes.len() - 1));
    (model.log.split_off(before), boxes)
}

#[test]
fn primitives_are_types_of_the_core_library() {
    let primitives = Primitive::ALL
        .into_iter()
        .filter(|one| !matches!(one, Primitive::Void | Primitive::TypedByRef));
    for primitive in primitives {
        for (shape, library) in [
            (AgentShape::V10_53, "System.Runtime"),
            (AgentShape::V10_54, "System.Private.CoreLib"),
            (AgentShape::V10_55, "System.Private.CoreLib"),
        ] {
            let (log, boxes) = boxed(shape, &[0, 1, primitive as u8, primitive as u8]);
            let named = ["System.Object", "System.UInt32", "System.UInt64"]
                .contains(&primitive.full_name());
            let expected = if named {
                vec![]
            } else {
                vec![format!("type [{library}]{}", primitive.full_name())]
            };
            assert_eq!(log, expected, "{shape}");
            assert_eq!(boxes.len(), 2, "parameter and result");
            assert!(boxes.iter().all(|token| token.starts_with("01")), "{boxes:?}");
        }
    }
}

#[test]
fn types_by_their_own_tokens() {
    // A class and a value type of the module, and a type of another one.
    let (log, boxes) = boxed(AgentShape::V10_54, &[0, 3, 1, 0x12, 8, 0x11, 8, 0x12, 9]);
    assert!(log.is_empty());
    assert_eq!(boxes, ["02000002", "02000002", "01000002"]);
}

#[test]
fn constructed_types_by_specifications() {
    for element in [
        &[0x1d, 0x08][..],
        &[0x1d, 0x1d, 0x0e],
        &[0x14, 0x08, 2, 0, 2, 0, 0],
        &[0x15, 0x12, 13, 1, 0x08],
        &[0x15, 0x12, 13, 1, 0x15, 0x12, 13, 1, 0x0e],
        &[0x15, 0x12, 13, 1, 0x1d, 0x08],
        &[0x15, 0x11, 21, 1, 0x13, 0],
        &[0x15, 0x12, 13, 1, 0x1e, 1],
        &[0x13, 0],
        &[0x1e, 3],
    ] {
        let signature = [&[0, 1][..], element, element].concat();
        let (log, boxes) = boxed(AgentShape::V10_54, &signature);
        assert!(log.is_empty(), "{log:?}");
        assert_eq!(boxes.len(), 2, "{element:02x?}");
        // One specification for both.
        assert!(boxes[0].starts_with("1b") && boxes[0] == boxes[1], "{boxes:?}");
    }
}

#[test]
fn what_is_passed_by_reference_or_pointer_is_not_boxed() {
    for element in
        [&[0x10, 0x08][..], &[0x10, 0x16], &[0x0f, 0x08], &[0x0f, 0x01], &[0x1b, 0, 0, 1], &[0x16]]
    {
        let signature = [&[0, 1, 1][..], element].concat();
        let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
        let body = tiny(&[0x2a]);
        let new = instrument(&function(&signature, &body), &TRACER, &settings, &mut app()).unwrap();
        let boxes = listing(&new.bytes).iter().filter(|line| line.starts_with("box")).count();
        assert_eq!(boxes, 2, "flags and function id: {element:02x?}");
    }
}
