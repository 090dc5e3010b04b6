//! The tables that the rest of a report refers to by index.

use profile::{NameStyle, Tables, kind_id, session, state_machine_id};
use schemars::JsonSchema;
use serde::Serialize;

use super::values::since;
use profile::Profile;

/// A thread of the process.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Thread")]
pub(super) struct ThreadJson<'a> {
    /// Its index in `threads`.
    id: u32,
    /// Thread id of the operating system, in clrscope's pid namespace.
    os_tid: u32,
    /// Name given by the program, the runtime or the system, where there is one.
    name: Option<&'a str>,
    /// Whether it ran managed code.
    managed: bool,
    /// When it started, if during the recording: nanoseconds since the start of the recording.
    started_ns: Option<u64>,
    /// When it ended, if during the recording: nanoseconds since the start of the recording.
    ended_ns: Option<u64>,
}

pub(super) fn threads(profile: &Profile) -> Vec<ThreadJson<'_>> {
    let threads = profile.tables.threads.iter();
    threads
        .map(|thread| ThreadJson {
            id: thread.id.0,
            os_tid: thread.os_tid,
            name: thread.name.as_deref(),
            managed: thread.managed,
            started_ns: thread.started.map(|time| since(profile, time)),
            ended_ns: thread.ended.map(|time| since(profile, time)),
        })
        .collect()
}

/// A module, managed or native.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Module")]
pub(super) struct ModuleJson<'a> {
    /// Its index in `modules`.
    id: u32,
    /// Whether it is an assembly.
    managed: bool,
    /// File name or assembly name.
    name: &'a str,
    /// Path as the process sees it; empty for modules made in memory.
    path: &'a str,
    /// Build id (ELF, hexadecimal) or module version id (assembly), where known.
    build_id: Option<&'a str>,
}

pub(super) fn modules(tables: &Tables) -> Vec<ModuleJson<'_>> {
    let modules = tables.modules.iter();
    modules
        .map(|session::ModuleDef { id, managed, name, path, build_id }| ModuleJson {
            id: id.0,
            managed: *managed,
            name,
            path,
            build_id: build_id.as_deref(),
        })
        .collect()
}

/// A function and the parts of its name.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Function")]
pub(super) struct FunctionJson<'a> {
    /// Its index in `functions`.
    id: u32,
    /// Full name.
    name: String,
    #[schemars(extend("enum" = [
        "managed", "dynamic", "stub", "native", "runtime", "gc", "jit", "kernel", "unknown"
    ]))]
    kind: &'static str,
    /// Index in `modules`, where known.
    module: Option<u32>,
    /// Full name of the type, with namespace, nesting and generic arguments; empty where there is
    /// none. For an asynchronous or iterator method this is the type in the source code, not the
    /// state machine of the compiler.
    type_name: &'a str,
    /// Name of the method in the source code, with generic arguments.
    method: &'a str,
    /// Types of the parameters, in parentheses; empty where unknown.
    parameters: &'a str,
    /// Which kind of state machine the compiler made of the method, if it did.
    #[schemars(extend("enum" = ["async", "iterator", "async-or-iterator", null]))]
    state_machine: Option<&'static str>,
}

pub(super) fn functions(tables: &Tables) -> Vec<FunctionJson<'_>> {
    let functions = tables.functions.iter();
    functions
        .map(|function| FunctionJson {
            id: function.id.0,
            name: tables.function_name(function.id, NameStyle::FULL),
            kind: kind_id(function.kind),
            module: function.module.map(|module| module.0),
            type_name: &function.type_name,
            method: &function.name,
            parameters: &function.parameters,
            state_machine: function.state_machine.map(state_machine_id),
        })
        .collect()
}

/// A function at a line.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Frame")]
pub(super) struct FrameJson {
    /// Index in `functions`.
    function: u32,
    /// Index in `files`; missing where the line is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    file: Option<u32>,
    /// Line in the file, from 1; missing where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    line: Option<u32>,
    /// How the frame was found, best first: `context`, `runtime`, `tables`, `learned`, `scan`.
    #[schemars(extend("enum" = ["context", "runtime", "tables", "learned", "scan"]))]
    trust: &'static str,
}

pub(super) fn frames(tables: &Tables) -> Vec<FrameJson> {
    let frames = tables.frames.iter();
    frames
        .map(|frame| FrameJson {
            function: frame.function.0,
            file: frame.line.map(|line| line.file.0),
            line: frame.line.map(|line| line.line),
            trust: trust(frame.trust),
        })
        .collect()
}

fn trust(trust: session::FrameTrust) -> &'static str {
    match trust {
        session::FrameTrust::Context => "context",
        session::FrameTrust::Runtime => "runtime",
        session::FrameTrust::Tables => "tables",
        session::FrameTrust::Learned => "learned",
        session::FrameTrust::Scan => "scan",
    }
}

/// The tree of all stacks, in columns. A stack is the path from its node to the root.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stacks")]
pub(super) struct StacksJson {
    /// Index of the parent in these columns: null at a root, always less than the index of the
    /// stack itself.
    parent: Vec<Option<u32>>,
    /// Index in `frames`.
    frame: Vec<u32>,
}

pub(super) fn stacks(tables: &Tables) -> StacksJson {
    let stacks = (0..tables.stack_count()).map(|id| session::StackId(id as u32));
    StacksJson {
        parent: stacks.clone().map(|id| tables.parent(id).map(|parent| parent.0)).collect(),
        frame: stacks.map(|id| tables.stack_frame(id).0).collect(),
    }
}
