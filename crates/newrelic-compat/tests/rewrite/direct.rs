//! Bodies that call the managed agent through a delegate in a field of their module.

use crate::support::{TRACER, app, function, listing, settings, tiny};
use cil::{MethodBody, MethodSig, Opcode, Operand, Primitive, Token, TypeSig};
use newrelic_compat::Runtime;
use newrelic_compat::rewrite::direct::{
    Direct, Fields, RETRY_MILLISECONDS, fields, resolve_body, resolve_signature,
};
use newrelic_compat::rewrite::{Function, Settings, external_types, instrument};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;

const DIRECT: Direct = Direct { field: Token(0x0400_0009), resolve: Token(0x0600_0009) };
const FIELDS: Fields<Token> = Fields {
    start: DIRECT.field,
    checked: Token(0x0400_000a),
    made: Token(0x0400_000b),
    again: Token(0x0400_000c),
};
const SHAPES: [(AgentShape, usize); 3] =
    [(AgentShape::V10_53, 11), (AgentShape::V10_54, 11), (AgentShape::V10_55, 12)];

fn all(shape: AgentShape) -> [Settings<'static>; 2] {
    [CallingStrategy::Cache, CallingStrategy::Reflection].map(|strategy| settings(shape, strategy))
}

#[test]
fn no_array_no_box_and_no_helper() {
    let body = tiny(&[0x2a]);
    for (shape, slots) in SHAPES {
        for settings in all(shape) {
            let mut model = app();
            let function = Function { direct: Some(DIRECT), ..function(&[0, 0, 1], &body) };
            let new = instrument(&function, &TRACER, &settings, &mut model).unwrap();
            let lines = listing(&new.bytes);
            let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
            // Without a delegate nothing is made for the agent.
            let load = [
                "ldsfld 04000009",
                "dup",
                "brtrue",
                "pop",
                "ldstr",
                "call 06000009",
                "dup",
                "brtrue",
                "pop",
                "leave",
            ];
            assert_eq!(lines[4..4 + load.len()], load, "behind two locals");
            // What the agent throws has the next call ask for it again.
            let swallow = ["pop", "ldnull", "stsfld 04000009", "leave"];
            assert!(lines.windows(swallow.len()).any(|lines| lines == swallow), "{lines:?}");
            // Only the array of the method's arguments is left.
            assert_eq!(
                [count("newarr"), count("stelem"), count("box"), count("castclass")],
                [1, 0, 0, 0],
                "{lines:?}"
            );
            assert!(
                !model
                    .log
                    .iter()
                    .any(|line| line.contains("CannotUnload") || line.contains("MethodBase"))
            );
            let mut named: Vec<&str> =
                model.log.iter().filter_map(|line| line.strip_prefix("type ")).collect();
            let listed = external_types(&settings, true).into_iter();
            let mut listed: Vec<String> =
                listed.map(|(library, name)| format!("[{library}]{name}")).collect();
            named.sort_unstable();
            listed.sort_unstable();
            assert_eq!(named, listed);
            assert!(named.contains(&format!("[System.Core]System.Func`{}", slots + 1).as_str()));
            // The local has the type of what finishes the tracer, which the delegate returns.
            assert!(matches!(
                &cil::decode_locals(&new.locals).unwrap()[0],
                TypeSig::GenericInst { .. }
            ));
        }
    }
}

#[test]
fn framework_has_the_usual_bodies() {
    let body = tiny(&[0x2a]);
    let settings = Settings {
        runtime: Runtime::Framework,
        ..settings(AgentShape::V10_54, CallingStrategy::Cache)
    };
    let made = |direct| {
        let function = Function { direct, ..function(&[0, 0, 1], &body) };
        instrument(&function, &TRACER, &settings, &mut app()).unwrap()
    };
    assert_eq!(made(Some(DIRECT)), made(None));
}

#[test]
fn the_delegate_has_the_parameters_of_the_agents_method() {
    for (shape, slots) in SHAPES {
        for settings in all(shape) {
            let mut model = app();
            let fields = fields(&settings, &mut model).unwrap();
            let field = fields.start.signature;
            let TypeSig::GenericInst { arguments, value_type: false, .. } =
                cil::decode_field(&field).unwrap()
            else {
                panic!("{field:02x?}")
            };
            assert_eq!(arguments.len(), slots + 1);
            let primitive = |index: usize| match &arguments[index] {
                TypeSig::Primitive(primitive) => Some(*primitive),
                _ => None,
            };
            assert_eq!(
                [0, 1, 8, 10].map(primitive),
                [Primitive::String, Primitive::U4, Primitive::Object, Primitive::U8].map(Some)
            );
            assert_eq!(fields.checked.signature, field);
            let others = [fields.made.signature, fields.again.signature];
            let others = others.map(|signature| cil::decode_field(&signature).unwrap());
            assert_eq!(others, [Primitive::Boolean, Primitive::I8].map(TypeSig::Primitive));
            let resolve = resolve_signature(&settings, &mut model).unwrap();
            let resolve = MethodSig::decode(&resolve).unwrap();
            assert_eq!(
                (resolve.parameters.len(), resolve.return_type),
                (1, cil::decode_field(&field).unwrap())
            );
        }
    }
}

#[test]
fn the_delegate_is_made_once_and_what_fails_is_swallowed() {
    const BY_NAME: [&str; 2] = ["Assembly::GetType", "Type::GetMethod"];
    const BY_TOKEN: [&str; 2] = ["Assembly::get_ManifestModule", "Module::ResolveMethod"];
    const ALWAYS: [&str; 5] = [
        "Assembly::LoadFrom",
        "Delegate::CreateDelegate",
        "RuntimeHelpers::RunClassConstructor",
        "RuntimeHelpers::PrepareMethod",
        "Environment::get_TickCount64",
    ];
    for (shape, _) in SHAPES {
        for settings in all(shape) {
            for start_method in [None, Some(Token(0x0600_0123))] {
                let mut model = app();
                let settings = Settings { start_method, ..settings };
                let bytes = resolve_body(FIELDS, &settings, &mut model).unwrap();
                let body = MethodBody::parse(&bytes).unwrap();
                let method = cil::MethodShape { arguments: 1, locals: 3, returns: true };
                cil::verify(&body, method, &model).unwrap();
                assert!(cil::max_stack(&body, true, &model).unwrap() <= body.header.max_stack);
                let [inner @ .., outer] = &body.clauses[..] else { panic!("no clause") };
                assert_eq!(
                    inner.len(),
                    usize::from(start_method.is_some()),
                    "what is not found by its token is looked for by its name"
                );
                // All calls but those of the clock are in a try block.
                let calls = body.decode().unwrap().into_iter();
                let outside = calls.filter(|instruction| {
                    matches!(instruction.opcode, Opcode::Call | Opcode::Callvirt)
                        && !(outer.try_block.start..outer.try_block.end)
                            .contains(&instruction.offset)
                });
                assert_eq!(outside.count(), 2);
                let lines = listing(&bytes);
                assert_eq!(lines[lines.len() - 2..], ["ldloc.2", "ret"]);
                let names = |member: &str| model.log.iter().any(|line| line.ends_with(member));
                for member in ALWAYS.iter().chain(&BY_NAME) {
                    assert!(names(member), "{member}: {:?}", model.log);
                }
                for member in BY_TOKEN {
                    assert_eq!(names(member), start_method.is_some(), "{member}: {:?}", model.log);
                }
            }
        }
    }
}

#[test]
fn a_failure_is_remembered_for_a_while() {
    let settings = settings(AgentShape::V10_54, CallingStrategy::Cache);
    let bytes = resolve_body(FIELDS, &settings, &mut app()).unwrap();
    let body = MethodBody::parse(&bytes).unwrap();
    let outer = body.clauses.last().unwrap();
    let handler: Vec<_> = body.decode().unwrap();
    let handler = handler.iter().filter(|instruction| {
        (outer.handler.start..outer.handler.end).contains(&instruction.offset)
    });
    let (mut stored, mut pause) = (Vec::new(), None);
    for instruction in handler {
        match instruction.operand {
            Operand::Token(token) if instruction.opcode == Opcode::Stsfld => stored.push(token),
            Operand::Int64(milliseconds) => pause = Some(milliseconds),
            _ => {}
        }
    }
    assert_eq!((stored, pause), (vec![FIELDS.again], Some(RETRY_MILLISECONDS)));
}
