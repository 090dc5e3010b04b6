//! Bodies of the helper methods in the core library.

use crate::model::Model;
use crate::support::{core_library, settings};
use newrelic_compat::rewrite::helpers::{self, Helper, all_defined, body, fields};
use newrelic_compat::rewrite::{ModuleMetadata, Refusal};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;
use serde_json::json;

const SHAPES: [AgentShape; 3] = [AgentShape::V10_53, AgentShape::V10_54, AgentShape::V10_55];
const STRATEGIES: [CallingStrategy; 2] = [CallingStrategy::Cache, CallingStrategy::Reflection];

/// The bytes of code of a helper, and the first of them.
fn size_of(helper: Helper, shape: AgentShape, strategy: CallingStrategy) -> (usize, u8) {
    let bytes = body(helper, &settings(shape, strategy), &mut core_library()).unwrap();
    assert_eq!(bytes[0] & 3, 2, "{} has a tiny header", helper.name());
    assert_eq!(usize::from(bytes[0] >> 2), bytes.len() - 1);
    (bytes.len() - 1, bytes[1])
}

#[test]
fn sizes_and_first_bytes_with_10_54() {
    const LDARG: u8 = 0x02;
    const CALL: u8 = 0x28;
    const LDSFLD: u8 = 0x7e;
    for (helper, cache, reflection, first) in [
        (Helper::LoadAssemblyOrThrow, 24, 24, LDARG),
        (Helper::GetTypeViaReflectionOrThrow, 30, 30, LDARG),
        (Helper::GetMethodViaReflectionOrThrow, 53, 53, LDARG),
        (Helper::GetMethodFromAppDomainStorage, 34, 34, CALL),
        (Helper::GetMethodFromAppDomainStorageOrReflectionOrThrow, 31, 31, LDARG),
        (Helper::GetAgentShimMethodFromAppDomainStorageOrReflectionOrThrow, 30, 30, LDSFLD),
        (Helper::StoreMethodInAppDomainStorageOrThrow, 30, 30, CALL),
        (Helper::StoreAgentMethodInvokerFunc, 41, 41, LDARG),
        (Helper::StoreAgentShimFinishTracerDelegateFunc, 41, 41, LDARG),
        (Helper::EnsureInitialized, 23, 23, CALL),
        (Helper::GetAgentMethodInvokerObject, 45, 45, LDSFLD),
        (Helper::GetAgentShimFinishTracerDelegateFunc, 45, 45, LDSFLD),
    ] {
        let sizes = STRATEGIES.map(|strategy| size_of(helper, AgentShape::V10_54, strategy));
        assert_eq!(sizes, [(cache, first), (reflection, first)], "{}", helper.name());
    }
    let sizes = STRATEGIES.map(|strategy| {
        size_of(Helper::InvokeAgentMethodInvokerFunc, AgentShape::V10_54, strategy)
    });
    assert_eq!(sizes, [(25, CALL), (31, LDARG)]);
}

#[test]
fn sizes_with_10_55() {
    for (helper, size) in [
        (Helper::GetAgentMethodInvokerObject, 51),
        (Helper::GetAgentShimFinishTracerDelegateFunc, 51),
        (Helper::StoreAgentMethodInvokerFunc, 41),
        (Helper::StoreAgentShimFinishTracerDelegateFunc, 41),
        (Helper::InvokeAgentShimFinishTracerDelegateFunc, 23),
        (Helper::EnsureInitialized, 23),
        (Helper::InvokeAgentMethodInvokerFunc, 31),
    ] {
        let sizes = STRATEGIES.map(|strategy| size_of(helper, AgentShape::V10_55, strategy).0);
        assert_eq!(sizes, [size; 2], "{}", helper.name());
    }
}

#[test]
fn none_is_too_long_for_its_header() {
    for shape in SHAPES {
        for helper in Helper::of(shape) {
            for strategy in STRATEGIES {
                assert!(size_of(*helper, shape, strategy).0 <= 63, "{}", helper.name());
            }
        }
    }
}

#[test]
fn each_shape_has_its_own() {
    let names = |shape| Helper::of(shape).iter().map(|helper| helper.name()).collect::<Vec<_>>();
    assert_eq!(SHAPES.map(|shape| Helper::of(shape).len()), [6, 13, 11]);
    assert_eq!(SHAPES.map(|shape| fields(shape).len()), [0, 3, 2]);
    assert_eq!(
        names(AgentShape::V10_54)[..3],
        ["LoadAssemblyOrThrow", "GetTypeViaReflectionOrThrow", "GetMethodViaReflectionOrThrow"]
    );
    let own = "InvokeAgentShimFinishTracerDelegateFunc";
    assert!(
        Helper::named(own, AgentShape::V10_54).is_none()
            && Helper::named(own, AgentShape::V10_55).is_some()
    );
    for shape in SHAPES {
        let all = Helper::of(shape).iter().map(|helper| Helper::named(helper.name(), shape));
        assert!(all.eq(Helper::of(shape).iter().map(|helper| Some(*helper))));
        assert!(Helper::named(".cctor", shape).is_none());
    }
}

#[test]
fn signatures() {
    let blob = |helper: Helper, shape| {
        helper
            .signature_blob(&settings(shape, CallingStrategy::Cache), &mut core_library())
            .unwrap()
    };
    let store = Helper::StoreMethodInAppDomainStorageOrThrow;
    // Types 3 and 2 are MethodInfo and Type.
    assert_eq!(blob(store, AgentShape::V10_53), [0, 2, 1, 0x12, 3 << 2, 0x0e]);
    assert_eq!(blob(store, AgentShape::V10_54), [0, 2, 1, 0x1c, 0x0e]);
    let shim = Helper::GetAgentShimMethodFromAppDomainStorageOrReflectionOrThrow;
    assert_eq!(
        blob(shim, AgentShape::V10_54),
        [0, 5, 0x12, 12, 0x0e, 0x0e, 0x0e, 0x0e, 0x1d, 0x12, 8]
    );
    let invoke = Helper::InvokeAgentMethodInvokerFunc;
    let expected = [0, 7, 0x1c, 0x0e, 0x0e, 0x0e, 0x0e, 0x1d, 0x12, 8, 0x12, 8, 0x1d, 0x1c];
    assert_eq!(blob(invoke, AgentShape::V10_55), expected);
}

/// The core library with the helpers of a shape but one.
fn with_helpers(shape: AgentShape, without: Option<Helper>, without_fields: bool) -> Model {
    let mut methods = serde_json::Map::new();
    for helper in Helper::of(shape).iter().filter(|helper| Some(**helper) != without) {
        let settings = settings(shape, CallingStrategy::Cache);
        let blob = helper.signature_blob(&settings, &mut core_library()).unwrap();
        let hex: String = blob.iter().map(|byte| format!("{byte:02x}")).collect();
        methods.insert(
            format!("{}::{} sig:{hex}", helpers::HELPER_TYPE, helper.name()),
            json!("06000001"),
        );
    }
    let mut fields_of = serde_json::Map::new();
    for field in fields(shape).iter().filter(|_| !without_fields) {
        fields_of.insert(format!("{}::{field}", helpers::FIELDS_TYPE), json!("04000001"));
    }
    Model::new(&json!({
        "typeDefs": {
            "System.Reflection.Assembly": "02000001", "System.Type": "02000002", "System.Reflection.MethodInfo": "02000003",
            "System.CannotUnloadAppDomainException": "02000007", "__NRInitializer__": "02000008",
        },
        "methodDefs": methods,
        "fieldDefs": fields_of,
        "nextString": "70000001",
    }))
}

#[test]
fn every_helper_is_looked_for_by_name() {
    for shape in SHAPES {
        let settings = settings(shape, CallingStrategy::Cache);
        assert!(all_defined(&settings, &mut with_helpers(shape, None, false)), "{shape}");
        assert_eq!(
            all_defined(&settings, &mut with_helpers(shape, None, true)),
            fields(shape).is_empty(),
            "{shape}"
        );
        for helper in Helper::of(shape) {
            let mut model = with_helpers(shape, Some(*helper), false);
            assert!(!all_defined(&settings, &mut model), "{shape} {}", helper.name());
        }
    }
    let mut empty = Model::new(&json!({ "nextString": "70000001" }));
    assert!(!all_defined(&settings(AgentShape::V10_54, CallingStrategy::Cache), &mut empty));
}

#[test]
fn a_core_library_that_lacks_something_is_refused() {
    let mut model = with_helpers(AgentShape::V10_54, None, false);
    assert_eq!(model.find_type_definition("System.AppDomain"), None);
    let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
    let refused = body(Helper::GetMethodFromAppDomainStorage, &settings, &mut model);
    assert_eq!(refused, Err(Refusal::MissingMember { name: "System.AppDomain".to_owned() }));
    assert!(
        body(
            Helper::GetAgentMethodInvokerObject,
            &settings,
            &mut Model::new(&json!({ "nextString": "70000001" }))
        )
        .is_err()
    );
}
