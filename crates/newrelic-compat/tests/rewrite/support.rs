//! Methods and modules to try templates on.

use crate::model::Model;
use cil::{MethodBody, Token, TokenKind};
use newrelic_compat::Runtime;
use newrelic_compat::rewrite::{Function, Owner, RefStructs, Scopes, Settings, Tracer};
use newrelic_compat::shape::AgentShape;
use newrelic_compat::strategy::CallingStrategy;
use serde_json::{Value, json};

/// Bytes from hexadecimal digits.
pub fn unhex(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The same from a JSON text.
pub fn bytes(hex: &Value) -> Vec<u8> {
    unhex(hex.as_str().unwrap())
}

pub const PATH: &str = "/home/NewRelic.Agent.Core.dll";
pub const TRACER: Tracer<'_> = Tracer { factory: "Factory", metric: "", flags: 0x3400 };

/// A value type, a class and types of tasks in the module of [`app`].
pub const POINT: Token = Token(0x0200_0002);
pub const SPAN: u8 = 0x05;

/// An application module: TypeRef 1 is `System.Span`1`, 2 to 5 are tasks.
pub fn app() -> Model {
    Model::new(&json!({
        "assemblyRefs": ["System.Runtime"],
        "rows": [5, 0, 0, 0],
        "types": {
            "02000002": "App.Point",
            "01000001": "[System.Runtime]System.Span`1",
            "01000002": "[System.Runtime]System.Threading.Tasks.Task",
            "01000003": "[System.Runtime]System.Threading.Tasks.Task`1",
            "01000004": "[System.Runtime]System.Threading.Tasks.ValueTask",
            "01000005": "[System.Runtime]System.Threading.Tasks.ValueTask`1",
        },
        "byRefLike": { "System.Span`1": "" },
        "nextString": "70000001",
    }))
}

/// The core library, with every member that is asked for.
pub fn core_library() -> Model {
    let names = [
        "System.Reflection.Assembly",
        "System.Type",
        "System.Reflection.MethodInfo",
        "System.Reflection.MethodBase",
        "System.AppDomain",
        "System.Exception",
        "System.CannotUnloadAppDomainException",
        "__NRInitializer__",
        "System.Func`7",
        "System.Func`2",
        "System.Action`2",
    ];
    let types: serde_json::Map<String, Value> = names
        .iter()
        .enumerate()
        .map(|(index, name)| ((*name).to_owned(), json!(format!("{:08x}", 0x0200_0001 + index))))
        .collect();
    Model::new(
        &json!({ "typeDefs": types, "hasAllMembers": true, "rows": [0, 0, 0, 0], "nextString": "70000001" }),
    )
}

pub fn settings(shape: AgentShape, strategy: CallingStrategy) -> Settings<'static> {
    Settings {
        runtime: Runtime::Core,
        shape,
        start_method: None,
        strategy,
        agent_path: PATH,
        scopes: Scopes::Facades,
    }
}

/// A static method of a class with a signature and code with a tiny header.
pub fn function<'a>(signature: &'a [u8], body: &'a [u8]) -> Function<'a> {
    Function {
        id: 0x1122_3344_5566_7788,
        assembly: "App",
        type_name: "App.Class",
        name: "Method",
        type_token: Token(0x0200_0003),
        outermost_type_attributes: 0x0010_0001,
        owner: Owner::Class,
        type_parameters: 0,
        ref_structs: RefStructs::default(),
        attributes: 0x96,
        implementation: 0,
        signature,
        body,
        locals: None,
        is_async: false,
        direct: None,
    }
}

/// A tiny body with this code.
pub fn tiny(code: &[u8]) -> Vec<u8> {
    let mut bytes = vec![(code.len() as u8) << 2 | 2];
    bytes.extend_from_slice(code);
    bytes
}

/// The code of a body as ILAsm mnemonics with operands, one for each instruction.
pub fn listing(body: &[u8]) -> Vec<String> {
    let body = MethodBody::parse(body).unwrap();
    let line = |instruction: cil::Instruction<'_>| match instruction.token() {
        Some(token) if token.kind() == Some(TokenKind::UserString) => {
            instruction.opcode.mnemonic().to_owned()
        }
        Some(token) => format!("{} {:08x}", instruction.opcode.mnemonic(), token.0),
        None => instruction.opcode.mnemonic().to_owned(),
    };
    body.decode().unwrap().into_iter().map(line).collect()
}
