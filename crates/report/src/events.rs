//! All that happened, one event a line; docs/formats.md describes every field, and [`schema`] too.

use std::io::Write;

use profile::{NameStyle, Profile, TracedEvent, rows::Words, session};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use session::{
    FunctionId, InstrumentState, InstrumentedMethod, Nanos, RecompiledMethod, RewrittenMethod,
};

use crate::{
    Exporter, Options, ReportError,
    json::{schema_of, values::since},
    views::{jit::tier_schema, loads::assembly_name},
};

pub const EXPORTER: Exporter = Exporter {
    id: "events",
    extension: "jsonl",
    summary: "event log: loads, compilations, rewritten code, exceptions, one JSON object per line",
    binary: false,
    single_samples: true,
    snapshots: false,
    render,
};

/// Version of the lines as docs/formats.md describes them. It grows when a field changes its
/// meaning or goes away.
const SCHEMA: u32 = 1;

/// A line of an event log: the first is about the recording, each further one is an event. Lines
/// are in the order of their times.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "EventLogLine", title = "clrscope event log line")]
enum Line<'a> {
    Recording(Recording<'a>),
    Event(Event<'a>),
}

/// What was recorded: the first line.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EventLog")]
struct Recording<'a> {
    #[schemars(extend("const" = "clrscope-events"))]
    format: &'static str,
    /// Grows when a field changes its meaning or goes away.
    #[schemars(extend("const" = SCHEMA))]
    version: u32,
    /// Name of the process.
    process: &'a str,
    /// Process id.
    pid: u32,
    /// Version of the runtime, such as `9.0.5`.
    runtime: &'a str,
    /// Version of clrscope that recorded.
    tool_version: &'a str,
    /// The start on the wall clock, milliseconds since 1970, UTC.
    start_unix_ms: u64,
    /// Ids of the profilers that ran.
    profilers: Vec<&'a str>,
}

/// Something that happened. `time_ns` is nanoseconds since the start of the recording.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event<'a> {
    /// A method has a new body. It has either `before` and `after`, or `left_out`.
    Rewrite(Rewrite<'a>),
    /// A method keeps its body, though it matches a rule.
    Refusal(Refusal<'a>),
    /// A method could be instrumented: a dry run.
    Possible(OfRule<'a>),
    /// A method has its original body again.
    Revert(OfRule<'a>),
    /// The runtime has compiled a new body, or could not.
    Rejit(Rejit<'a>),
    /// A method was compiled.
    Jit(Compilation<'a>),
    /// An assembly was loaded or requested.
    Load(Load<'a>),
    /// An assembly was unloaded.
    Unload(Unload<'a>),
    /// A type was loaded.
    TypeLoad(TypeLoad<'a>),
    /// An exception was thrown.
    Exception(Exception<'a>),
}

/// A method.
#[derive(Serialize, JsonSchema)]
struct Method<'a> {
    /// Name of the module, null where there is none.
    module: Option<&'a str>,
    /// Full name of the method, with parameters.
    name: String,
    /// Number of the function, as in the report.
    function: u32,
}

/// An event of a method that matches a rule.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct OfRule<'a> {
    /// When it was reported to clrscope.
    time_ns: u64,
    #[serde(flatten)]
    method: Method<'a>,
    /// Name of the rule.
    rule: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Refusal<'a> {
    #[serde(flatten)]
    of: OfRule<'a>,
    /// Why the method was not instrumented.
    reason: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Rewrite<'a> {
    time_ns: u64,
    #[serde(flatten)]
    method: Method<'a>,
    /// Name of the rule.
    rule: &'a str,
    /// The number by which the new code identifies its method; differs from run to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    slot: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Il<'a>")]
    before: Option<Il<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Il<'a>")]
    after: Option<Il<'a>>,
    /// Why `before` and `after` are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "&'a str")]
    left_out: Option<&'a str>,
}

/// The body of a method.
#[derive(Serialize, JsonSchema)]
struct Il<'a> {
    /// Header, code and clauses in hexadecimal, with the tokens of the process.
    bytes: String,
    /// Lines in the syntax of ILAsm, with names in place of tokens, and `&clrscope.<name>` in place
    /// of the address of a probe.
    il: Vec<&'a str>,
}

impl<'a> From<&'a session::Il> for Il<'a> {
    fn from(body: &'a session::Il) -> Self {
        let bytes = body.bytes.iter().map(|byte| format!("{byte:02x}"));
        Self { bytes: bytes.collect(), il: body.text.lines().collect() }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Rejit<'a> {
    time_ns: u64,
    #[serde(flatten)]
    method: Method<'a>,
    /// Why the new body could not be compiled, or null.
    failed: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Compilation<'a> {
    /// When it began.
    time_ns: u64,
    #[serde(flatten)]
    method: Method<'a>,
    #[schemars(schema_with = "tier_schema")]
    tier: &'static str,
    /// Nanoseconds, without other compilations within it; null where the beginning was not seen.
    duration_ns: Option<u64>,
    /// Bytes of IL; 0 where the runtime does not report it.
    il_size: u32,
    /// Bytes of machine code.
    native_size: u32,
    /// Whether the runtime did it on a thread of its own, so that none waited for it.
    background: bool,
    /// Number of the thread.
    thread: u32,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Load<'a> {
    time_ns: u64,
    /// Simple name of the assembly.
    name: &'a str,
    /// Version of the assembly.
    version: &'a str,
    #[schemars(extend("enum" = ["loaded", "known", "failed"]))]
    outcome: &'static str,
    /// Path of its file; empty where there is none.
    path: &'a str,
    /// Whether it was made at run time.
    dynamic: bool,
    /// Whether it can be unloaded.
    collectible: bool,
    /// Number of the thread.
    thread: u32,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Unload<'a> {
    time_ns: u64,
    /// Simple name of the assembly.
    name: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct TypeLoad<'a> {
    time_ns: u64,
    /// Full name of the type.
    name: &'a str,
    /// Number of the type, as in the report.
    r#type: u32,
    /// Number of the thread.
    thread: u32,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Exception<'a> {
    time_ns: u64,
    /// Full name of its type.
    name: &'a str,
    /// Number of its type, as in the report.
    r#type: u32,
    /// Its message, where the thrower set one.
    message: Option<&'a str>,
    /// Full name of the method that threw it.
    thrown_at: String,
    /// Full name of the method that caught it, where known.
    caught_by: Option<String>,
    /// How many exceptions of its type it stands for.
    stands_for: u64,
    /// Number of the thread.
    thread: u32,
}

/// The JSON Schema of a line.
pub fn schema() -> Schema {
    schema_of::<Line<'_>>()
}

fn render(profile: &Profile, _: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let info = &profile.info;
    let head = Recording {
        format: "clrscope-events",
        version: SCHEMA,
        process: &info.process_name,
        pid: info.pid,
        runtime: &info.runtime,
        tool_version: &info.tool_version,
        start_unix_ms: info.start_unix_ms,
        profilers: info.profilers.iter().map(|run| run.id.as_str()).collect(),
    };
    write(&Line::Recording(head), out)?;
    let mut events = Vec::new();
    traced(profile, &mut events);
    jit(profile, &mut events);
    loads(profile, &mut events);
    exceptions(profile, &mut events);
    events.sort_by_key(|(time, _)| *time);
    for (_, event) in events {
        write(&Line::Event(event), out)?;
    }
    Ok(())
}

/// Writes a line, with keys in alphabetical order.
fn write(line: &Line<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
    let line = serde_json::to_value(line)?;
    Ok(writeln!(out, "{}", document::plain::json(&line)?)?)
}

type Events<'a> = Vec<(Nanos, Event<'a>)>;

fn method(profile: &Profile, function: FunctionId) -> Method<'_> {
    let tables = &profile.tables;
    Method {
        module: tables.function(function).module.map(|module| tables.module(module).name.as_str()),
        name: tables.function_name(function, NameStyle::FULL),
        function: function.0,
    }
}

fn traced<'a>(profile: &'a Profile, events: &mut Events<'a>) {
    let all = &profile.traced.events;
    // Where bodies are recorded, they report what was requested as well.
    let has_bodies = all.iter().any(|event| matches!(event, TracedEvent::Rewritten(_)));
    events.extend(all.iter().filter_map(|event| match event {
        TracedEvent::State(of) if has_bodies && of.of.state == InstrumentState::Requested => None,
        TracedEvent::State(of) => Some((of.time, state(profile, of))),
        TracedEvent::Rewritten(of) => Some((of.time, rewritten(profile, of))),
        TracedEvent::Recompiled(of) => Some((of.time, recompiled(profile, of))),
    }));
}

fn state<'a>(profile: &'a Profile, of: &'a InstrumentedMethod) -> Event<'a> {
    let time_ns = since(profile, of.time);
    let of = &of.of;
    let method = method(profile, of.method);
    let rule = of.rule.as_str();
    match &of.state {
        InstrumentState::Requested => Event::Rewrite(Rewrite {
            time_ns,
            method,
            rule,
            slot: None,
            before: None,
            after: None,
            left_out: Some("the recording was made without trace:il=yes"),
        }),
        InstrumentState::Possible => Event::Possible(OfRule { time_ns, method, rule }),
        InstrumentState::Original => Event::Revert(OfRule { time_ns, method, rule }),
        InstrumentState::Refused(reason) => {
            Event::Refusal(Refusal { of: OfRule { time_ns, method, rule }, reason })
        }
    }
}

fn rewritten<'a>(profile: &'a Profile, of: &'a RewrittenMethod) -> Event<'a> {
    let bodies = of.bodies.as_ref();
    Event::Rewrite(Rewrite {
        time_ns: since(profile, of.time),
        method: method(profile, of.method),
        rule: &of.rule,
        slot: Some(of.slot),
        before: bodies.ok().map(|(before, _)| before.into()),
        after: bodies.ok().map(|(_, after)| after.into()),
        left_out: bodies.err().map(String::as_str),
    })
}

fn recompiled<'a>(profile: &'a Profile, of: &'a RecompiledMethod) -> Event<'a> {
    Event::Rejit(Rejit {
        time_ns: since(profile, of.time),
        method: method(profile, of.method),
        failed: of.failed.as_deref(),
    })
}

fn jit<'a>(profile: &'a Profile, events: &mut Events<'a>) {
    events.extend(profile.jit.compilations.iter().map(|one| {
        let event = Compilation {
            time_ns: since(profile, one.time),
            method: method(profile, profile.compiled_function(one)),
            tier: one.tier.word(),
            duration_ns: one.duration,
            il_size: one.il_size,
            native_size: one.native_size,
            background: one.background,
            thread: one.thread.0,
        };
        (one.time, Event::Jit(event))
    }));
}

fn loads<'a>(profile: &'a Profile, events: &mut Events<'a>) {
    events.extend(profile.loads.assemblies.iter().map(|load| {
        let (name, version) = assembly_name(&load.name);
        let event = Load {
            time_ns: since(profile, load.time),
            name,
            version,
            outcome: load.outcome.word(),
            path: &load.path,
            dynamic: load.dynamic,
            collectible: load.collectible,
            thread: load.thread.0,
        };
        (load.time, Event::Load(event))
    }));
    events.extend(profile.loads.unloads.iter().map(|unload| {
        let (name, _) = assembly_name(&unload.name);
        let event = Unload { time_ns: since(profile, unload.time), name };
        (unload.time, Event::Unload(event))
    }));
    events.extend(profile.loads.types.iter().map(|load| {
        let event = TypeLoad {
            time_ns: since(profile, load.time),
            name: &profile.tables.ty(load.ty).name,
            r#type: load.ty.0,
            thread: load.thread.0,
        };
        (load.time, Event::TypeLoad(event))
    }));
}

fn exceptions<'a>(profile: &'a Profile, events: &mut Events<'a>) {
    let name = |function| profile.tables.function_name(function, NameStyle::FULL);
    events.extend(profile.exceptions.samples.iter().map(|sample| {
        let event = Exception {
            time_ns: since(profile, sample.time),
            name: &profile.tables.ty(sample.ty).name,
            r#type: sample.ty.0,
            message: sample.message.as_deref(),
            thrown_at: name(profile.tables.stack_function(sample.stack)),
            caught_by: sample.caught_by.map(name),
            stands_for: sample.weight,
            thread: sample.thread.0,
        };
        (sample.time, Event::Exception(event))
    }));
}
