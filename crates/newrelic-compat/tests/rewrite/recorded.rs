//! Bodies are those that the agent's own native profiler makes, byte by byte, tokens included.
//!
//! The recordings are explained in `fixtures/README.md`. Nothing is masked: function ids are those
//! of the recording, and tokens are given out by a model of the module's metadata in the same
//! order.

use crate::model::Model;
use crate::support::bytes;
use cil::{MethodBody, Token};
use flate2::read::GzDecoder;
use newrelic_compat::Runtime;
use newrelic_compat::attributes;
use newrelic_compat::configuration::IgnoreList;
use newrelic_compat::points::{Points, load};
use newrelic_compat::rewrite::helpers::{self, Helper};
use newrelic_compat::rewrite::{
    API_ASSEMBLY, CORE_LIBRARY, Function, ModuleMetadata, Owner, RefStructs, Refusal, Scopes,
    Settings, instrument, instrument_api, is_api_method, preprocess,
};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::signature_text;
use newrelic_compat::strategy::CallingStrategy;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// Points of the recorded methods in the library of the framework.
const HTTP_POINTS: &str = "<extension><instrumentation><tracerFactory>\
    <match assemblyName='System.Net.Http' \
    className='System.Net.Http.HttpClient'><exactMethodMatcher methodName='SendAsync'/></match>\
    <match assemblyName='System.Net.Http' \
    className='System.Net.Http.SocketsHttpHandler'><exactMethodMatcher \
    methodName='SendAsync'/></match>\
    </tracerFactory></instrumentation></extension>";

fn recordings() -> Vec<Value> {
    let mut json = String::new();
    let mut compressed = &include_bytes!("../fixtures/recorded.json.gz")[..];
    GzDecoder::new(&mut compressed).read_to_string(&mut json).unwrap();
    serde_json::from_str(&json).unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn points() -> Points {
    let files = [("target.xml", include_str!("../fixtures/target.xml")), ("http.xml", HTTP_POINTS)];
    let files: BTreeMap<_, _> = files.map(|(name, xml)| (name.to_owned(), xml.to_owned())).into();
    let loaded = load(&files, &IgnoreList::default(), AgentShape::V10_53);
    assert_eq!(loaded.invalid_files, 0);
    loaded.points
}

/// The attributes of the program's methods that have some.
fn attributes_of(method: &str) -> Vec<(&'static str, &'static [u8])> {
    const NONE: &[u8] = &[1, 0, 0, 0];
    const WEB: &[u8] = b"\x01\0\x01\0\x54\x02\x03Web\x01";
    const NOT_WEB: &[u8] = b"\x01\0\x01\0\x54\x02\x03Web\0";
    match method {
        "Traced" => vec![(attributes::TRACE, NONE)],
        "Transacted" | "AsyncTransacted" => vec![(attributes::TRANSACTION, NONE)],
        "WebTransacted" => vec![(attributes::TRANSACTION, WEB)],
        "WebFalseTransacted" => vec![(attributes::TRANSACTION, NOT_WEB)],
        "Both" => vec![(attributes::TRANSACTION, WEB), (attributes::TRACE, NONE)],
        _ => Vec::new(),
    }
}

/// What was made of a recorded method: body and signature of the locals.
fn rewrite(
    method: &Value,
    points: &Points,
    settings: &Settings<'_>,
    model: &mut Model,
) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    let (assembly, class, name) =
        (text(method, "assembly"), text(method, "type"), text(method, "method"));
    if assembly == CORE_LIBRARY {
        let helper = Helper::named(name, settings.shape).unwrap();
        return Ok((helpers::body(helper, settings, model)?, Vec::new()));
    }
    let (signature, body) = (bytes(&method["methodSig"]), bytes(&method["before"]));
    let locals = bytes(&method["before_localsig"]);
    let function = Function {
        id: u64::from_str_radix(text(method, "functionId"), 16).unwrap(),
        assembly,
        type_name: class,
        name,
        type_token: Token(u32::from_str_radix(text(method, "typeToken"), 16).unwrap()),
        outermost_type_attributes: 0x0010_0001,
        owner: Owner::Class,
        type_parameters: u32::from(class.contains('`')),
        ref_structs: RefStructs::default(),
        attributes: if name == ".ctor" { 0x1886 } else { 0x86 },
        implementation: 0,
        signature: &signature,
        body: &body,
        locals: (!locals.is_empty()).then_some(&locals),
        is_async: name.starts_with("Async"),
        direct: None,
    };
    if is_api_method(class, name) {
        let rewritten = instrument_api(&function, settings, model)?;
        return Ok((rewritten.bytes, rewritten.locals));
    }
    let parsed = cil::MethodSig::decode(&signature).unwrap();
    let parameters = || signature_text::parameters(&parsed, &|token| model.type_name(token)).ok();
    let point = points
        .find(assembly, class, name, parameters, "0.0".parse().unwrap())
        .map(|point| point.tracer());
    let tracer = point.or_else(|| attributes::tracer(attributes_of(name))).unwrap();
    let rewritten = instrument(&function, &tracer, settings, model)?;
    Ok((rewritten.bytes, rewritten.locals))
}

fn shape_of(recording: &Value) -> AgentShape {
    match text(recording, "shape") {
        "10.53" => AgentShape::V10_53,
        _ => AgentShape::V10_54,
    }
}

#[test]
fn bodies_are_equal_byte_by_byte() {
    let points = points();
    let (mut all, mut different) = (0, Vec::new());
    for recording in recordings() {
        let mut models: BTreeMap<&str, Model> = recording["modules"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, state)| (name.as_str(), Model::new(state)))
            .collect();
        let strategy = match text(&recording, "strategy") {
            "cache" => CallingStrategy::Cache,
            _ => CallingStrategy::Reflection,
        };
        for method in recording["methods"].as_array().unwrap() {
            let model = models.get_mut(text(method, "assembly")).unwrap();
            if text(method, "method") == "Ptr" {
                // The method before, which returns a reference, is refused. The recorded profiler
                // notices that after it has defined these strings.
                for text in ["RefRet", "System.Int32[]"] {
                    model.user_string(text).unwrap();
                }
            }
            let agent_path = "p".repeat(model.agent_path_length());
            let shape = shape_of(&recording);
            let settings = Settings {
                runtime: Runtime::Core,
                shape,
                start_method: None,
                strategy,
                agent_path: &agent_path,
                scopes: Scopes::Facades,
            };
            let (body, locals) = rewrite(method, &points, &settings, model).unwrap();
            all += 1;
            let label = format!(
                "{} {}.{}",
                text(&recording, "name"),
                text(method, "type"),
                text(method, "method")
            );
            let expected = bytes(&method["after"]);
            if body != expected {
                let at = body.iter().zip(&expected).position(|(ours, theirs)| ours != theirs);
                different.push(format!(
                    "{label}: {} bytes, not {}, from {at:?} on",
                    body.len(),
                    expected.len()
                ));
            }
            if locals != bytes(&method["after_localsig"]) {
                different.push(format!(
                    "{label}: locals {locals:02x?}, not {}",
                    text(method, "after_localsig")
                ));
            }
        }
    }
    assert!(different.is_empty(), "{} of {all} differ:\n{}", different.len(), different.join("\n"));
    assert_eq!(all, 45 + 42 + 52 + 45 + 49 + 42 + 4 * 2);
}

#[test]
fn preprocessed_bodies_are_equal() {
    let mut all = 0;
    for recording in recordings() {
        let methods = recording["methods"].as_array().unwrap();
        // Methods of the API were recorded without this step.
        let is_recorded = |method: &&Value| {
            !method["preprocessed"].is_null() && text(method, "assembly") != API_ASSEMBLY
        };
        for method in methods.iter().filter(is_recorded) {
            let (before, expected) = (bytes(&method["before"]), bytes(&method["preprocessed"]));
            let ours = preprocess(&MethodBody::parse(&before).unwrap()).unwrap();
            let expected = MethodBody::parse(&expected).unwrap();
            // The recorded sections may be followed by padding; header, code and clauses are
            // compared.
            assert_eq!(ours, expected, "{} {}", text(&recording, "name"), text(method, "method"));
            all += 1;
        }
    }
    assert_eq!(all, 3 * 41 + 3 * 38 + 4 * 2);
}
