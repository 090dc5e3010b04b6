//! Loaded assemblies, modules and types out of the runtime's events: what each took, who asked, and
//! how assemblies were looked for.
//!
//! Layouts are those of the runtime's manifest, `ClrEtwAll.man`, for processes of 64 bits. How
//! assemblies were looked for, and types, are reported from .NET 5 on.

use crate::Event;
use crate::cursor::Cursor;
use crate::runtime::PROVIDER;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Most characters of a name or a path that are read. An event has at most 64 KB.
const MAX_TEXT: usize = 1 << 15;

/// Most threads that are followed, loads within each other of one, requests of one that wait for
/// their assembly to be loaded, steps of a request, and assemblies that wait for their module.
const MAX_THREADS: usize = 1 << 16;
const MAX_DEPTH: usize = 256;
const MAX_ANSWERED: usize = 32;
const MAX_STEPS: usize = 64;
const MAX_ASSEMBLIES: usize = 1 << 16;

/// Flag of an assembly that can be unloaded.
const COLLECTIBLE: u32 = 0x8;

/// How long after a request was answered its assembly may be loaded, nanoseconds of the stream's
/// clock.
const LOAD_LIMIT: u64 = 1_000_000_000;

/// What became of a request for an assembly, or how one came without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was loaded.
    Loaded,
    /// It had been loaded before.
    Known,
    /// It could not be found, or not be loaded.
    Failed,
}

/// One thing that was tried to find an assembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What.
    pub kind: StepKind,
    /// Name of the handler, or path of the file.
    pub what: String,
    /// Whether it gave an assembly.
    pub found: bool,
    /// What was found, or why nothing was; may be empty.
    pub result: String,
    /// Time since the step before, or since the request, nanoseconds.
    pub took: u64,
}

/// What was tried to find an assembly: stages in the runtime's order (`ResolutionAttempted`), and
/// what happens in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Among those that the load context has.
    InContext,
    /// `AssemblyLoadContext.Load`.
    ContextLoad,
    /// Among the assemblies of the application.
    Application,
    /// The default load context.
    DefaultContext,
    /// As resources of a language.
    Satellite,
    /// The event `AssemblyLoadContext.Resolving`.
    ContextResolving,
    /// The event `AppDomain.AssemblyResolve`.
    AppDomainResolve,
    /// A stage that is not in our table.
    OtherStage,
    /// A handler of `AssemblyLoadContext.Resolving` was called.
    ContextHandler,
    /// A handler of `AppDomain.AssemblyResolve` was called.
    AppDomainHandler,
    /// The runtime's own handler looked beside the assembly that asks (`Assembly.LoadFrom`).
    LoadFromHandler,
    /// A file was looked for.
    Probe,
}

/// An assembly that was loaded or asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// When it was requested, in nanoseconds of the stream's clock; when it was loaded, where the
    /// request is not reported.
    pub start: u64,
    /// From the request until its module was loaded, or until it was refused, nanoseconds; `None`
    /// without a request: before .NET 5, from bytes, made at run time.
    pub duration: Option<u64>,
    /// The same without other loads within it.
    pub own: Option<u64>,
    /// How long it took to find it.
    pub resolution: Option<u64>,
    /// Thread, in the process's own pid namespace.
    pub thread: u64,
    /// What made it necessary, leaf first.
    pub stack: Arc<[u64]>,
    /// What became of it.
    pub outcome: Outcome,
    /// The runtime's number of the assembly; 0 unless it was loaded here.
    pub assembly: u64,
    /// Full name: that of the assembly, else the one asked for.
    pub name: String,
    /// Path of its file; empty where there is none.
    pub path: String,
    /// Full name that was asked for; empty without a request.
    pub requested: String,
    /// Full name of the assembly that asked; may be empty.
    pub requested_by: String,
    /// Load context that it was asked for in; may be empty.
    pub context: String,
    /// How it was looked for.
    pub steps: Vec<Step>,
    /// Whether it was made at run time.
    pub dynamic: bool,
    /// Whether it can be unloaded.
    pub collectible: bool,
    /// Whether it has precompiled (ready-to-run) code.
    pub precompiled: bool,
}

/// A type that was loaded, or brought a step further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeLoad {
    /// When, in nanoseconds of the stream's clock.
    pub start: u64,
    /// How long, nanoseconds.
    pub duration: u64,
    /// The same without other loads within it.
    pub own: u64,
    /// Thread, in the process's own pid namespace.
    pub thread: u64,
    /// What made it necessary, leaf first.
    pub stack: Arc<[u64]>,
    /// Its name, as reflection writes it, with generic arguments in angle brackets.
    pub name: String,
    /// How far it is loaded now, as the runtime numbers it (`ClassLoadLevel`): whole is 6, from
    /// .NET 9 on 4.
    pub level: u16,
}

/// What the events tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// An assembly was loaded, or asked for.
    Load(Box<Load>),
    /// An assembly was unloaded.
    Unloaded {
        /// When, in nanoseconds of the stream's clock.
        time: u64,
        /// The runtime's number of it.
        assembly: u64,
        /// Its full name.
        name: String,
    },
    /// A type was loaded.
    Type(TypeLoad),
}

/// Puts loads together, of events that come in the order of their times.
#[derive(Debug, Default)]
pub struct Collector {
    threads: HashMap<u64, Thread>,
    /// Assemblies that have been loaded and wait for their module, by the runtime's number; with
    /// the thread that loads them, and its time.
    loading: HashMap<u64, (Load, u64)>,
    output: VecDeque<Output>,
}

#[derive(Debug, Default)]
struct Thread {
    /// What has begun, the innermost last.
    begun: Vec<Begun>,
    /// Requests that were answered with an assembly that may be about to be loaded, with the time
    /// of the answer.
    answered: VecDeque<(Load, u64)>,
}

#[derive(Debug)]
struct Begun {
    time: u64,
    /// Time of loads within it.
    nested: u64,
    stack: Arc<[u64]>,
    what: What,
}

#[derive(Debug)]
enum What {
    Type(u32),
    Request { load: Box<Load>, last_step: u64 },
}

impl Collector {
    /// A collector that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event; others than those of loads are passed over.
    pub fn push(&mut self, event: &Event) {
        if event.ty.provider == PROVIDER {
            // What is cut short tells nothing.
            let _ = self.push_fields(
                event.ty.id,
                &event.payload,
                event.timestamp,
                event.thread_id,
                &event.stack,
            );
        }
    }

    /// Nothing more will come: gives what waits for more.
    pub fn finish(&mut self) {
        self.settle(None);
    }

    /// What has come to be known.
    pub fn next_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    fn push_fields(
        &mut self,
        id: u32,
        payload: &[u8],
        time: u64,
        thread: u64,
        stack: &Arc<[u64]>,
    ) -> Option<()> {
        if !matches!(id, 73 | 74 | 152 | 154 | 155 | 290..=296) {
            return None;
        }
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&thread) {
            return None;
        }
        if !matches!(id, 73 | 74) {
            self.settle(Some(time));
        }
        let fields = Cursor(payload);
        let of_thread = self.threads.entry(thread).or_default();
        match id {
            73 => of_thread.begin(time, stack, What::Type({ fields }.u32()?)),
            74 => {
                let loaded = of_thread.type_loaded(fields, time, thread)?;
                self.output.push_back(Output::Type(loaded));
            }
            152 => self.module(fields, time, thread)?,
            154 => self.assembly(fields, time, thread, stack)?,
            155 => {
                let (assembly, flags, name) = assembly_fields(fields)?;
                // Some runtimes tell it of all assemblies when the process ends.
                if flags & COLLECTIBLE != 0 {
                    self.output.push_back(Output::Unloaded { time, assembly, name });
                }
            }
            290 => of_thread.requested(fields, time, thread, stack)?,
            291 => {
                let done = of_thread.answered(fields, time)?;
                self.output.extend(done.map(|load| Output::Load(Box::new(load))));
            }
            _ => of_thread.step(step(id, fields)?, time),
        }
        Some(())
    }

    /// Handles `AssemblyLoad`. The request may still be running, may have been answered a moment
    /// ago, or there is none.
    fn assembly(
        &mut self,
        fields: Cursor<'_>,
        time: u64,
        thread: u64,
        stack: &Arc<[u64]>,
    ) -> Option<()> {
        let (assembly, flags, name) = assembly_fields(fields)?;
        let of_thread = self.threads.get_mut(&thread)?;
        if let Some(request) = of_thread.request_for(simple_name(&name)) {
            request.loaded(assembly, name, flags);
            return Some(());
        }
        let answered = of_thread.answered.iter().rposition(|(load, _)| load.name == name);
        let mut load = match answered.and_then(|at| of_thread.answered.remove(at)) {
            Some((load, _)) => load,
            None => Load::new(time, thread, stack),
        };
        load.loaded(assembly, name, flags);
        if self.loading.len() < MAX_ASSEMBLIES {
            self.loading.insert(assembly, (load, time));
        }
        Some(())
    }

    /// `ModuleLoad`: the assembly is there.
    fn module(&mut self, mut fields: Cursor<'_>, time: u64, thread: u64) -> Option<()> {
        let _module = fields.u64()?;
        let assembly = fields.u64()?;
        let _flags = fields.u32()?;
        let _reserved = fields.u32()?;
        // Without a file, it is the name of the module.
        let path = Some(fields.utf16z(MAX_TEXT)?).filter(|path| path.contains(['/', '\\']));
        if let Some((mut load, _)) = self.loading.remove(&assembly) {
            load.path = path.unwrap_or(load.path);
            if let Some(whole) = load.duration {
                // What came behind the answer.
                let rest = time.saturating_sub(load.start).saturating_sub(whole);
                load.duration = Some(whole.saturating_add(rest));
                load.own = load.own.map(|own| own.saturating_add(rest));
                let of_thread = self.threads.get_mut(&load.thread);
                if let Some(outer) = of_thread.and_then(|thread| thread.begun.last_mut()) {
                    outer.nested = outer.nested.saturating_add(rest);
                }
            }
            self.output.push_back(Output::Load(Box::new(load)));
        } else if let Some(path) = path {
            let mut requests = self.threads.get_mut(&thread)?.requests();
            if let Some((request, _)) = requests.find(|(load, _)| load.assembly == assembly) {
                request.path = path;
            }
        }
        Some(())
    }

    /// Gives answered requests whose assembly was not loaded in time, and assemblies without a
    /// module; all without a time.
    fn settle(&mut self, now: Option<u64>) {
        let late = |since: u64| now.is_none_or(|now| now.saturating_sub(since) > LOAD_LIMIT);
        for of_thread in self.threads.values_mut() {
            while let Some((load, _)) = of_thread.answered.pop_front_if(|(_, since)| late(*since)) {
                self.output.push_back(Output::Load(Box::new(load)));
            }
        }
        if self.loading.values().any(|(_, since)| late(*since)) {
            let mut done: Vec<Load> = self
                .loading
                .extract_if(|_, (_, since)| late(*since))
                .map(|(_, (load, _))| load)
                .collect();
            done.sort_by_key(|load| load.start);
            self.output.extend(done.into_iter().map(|load| Output::Load(Box::new(load))));
        }
    }
}

impl Load {
    fn new(time: u64, thread: u64, stack: &Arc<[u64]>) -> Self {
        Self {
            start: time,
            duration: None,
            own: None,
            resolution: None,
            thread,
            stack: Arc::clone(stack),
            outcome: Outcome::Loaded,
            assembly: 0,
            name: String::new(),
            path: String::new(),
            requested: String::new(),
            requested_by: String::new(),
            context: String::new(),
            steps: Vec::new(),
            dynamic: false,
            collectible: false,
            precompiled: false,
        }
    }

    /// What `AssemblyLoad` says.
    fn loaded(&mut self, assembly: u64, name: String, flags: u32) {
        const DYNAMIC: u32 = 0x2;
        const PRECOMPILED: u32 = 0x10;
        self.outcome = Outcome::Loaded;
        (self.assembly, self.name) = (assembly, name);
        self.dynamic = flags & DYNAMIC != 0;
        self.collectible = flags & COLLECTIBLE != 0;
        self.precompiled = flags & PRECOMPILED != 0;
    }
}

impl Thread {
    /// Requests that are still running, the innermost first, each with the time of its last step.
    fn requests(&mut self) -> impl Iterator<Item = (&mut Load, &mut u64)> {
        self.begun.iter_mut().rev().filter_map(|begun| match &mut begun.what {
            What::Request { load, last_step } => Some((&mut **load, last_step)),
            What::Type(_) => None,
        })
    }

    /// The running request for an assembly of this name that has not loaded one yet.
    fn request_for(&mut self, simple: &str) -> Option<&mut Load> {
        let mut requests = self.requests().map(|(load, _)| load);
        requests.find(|load| load.assembly == 0 && simple_name(&load.requested) == simple)
    }

    fn begin(&mut self, time: u64, stack: &Arc<[u64]>, what: What) {
        if self.begun.len() >= MAX_DEPTH {
            // Some never ended.
            self.begun.remove(0);
        }
        self.begun.push(Begun { time, nested: 0, stack: Arc::clone(stack), what });
    }

    /// Ends the innermost that fits, with all in it that have not ended; how long it took, and how
    /// long by itself.
    fn end(&mut self, time: u64, fits: impl Fn(&What) -> bool) -> Option<(Begun, u64, u64)> {
        let at = self.begun.iter().rposition(|begun| fits(&begun.what))?;
        let begun = self.begun.drain(at..).next()?;
        let whole = time.saturating_sub(begun.time);
        if let Some(outer) = self.begun.last_mut() {
            outer.nested = outer.nested.saturating_add(whole);
        }
        let own = whole.saturating_sub(begun.nested);
        Some((begun, whole, own))
    }

    /// `TypeLoadStop`.
    fn type_loaded(&mut self, mut fields: Cursor<'_>, time: u64, thread: u64) -> Option<TypeLoad> {
        let number = fields.u32()?;
        let _runtime_instance = fields.u16()?;
        let level = fields.u16()?;
        let _type_id = fields.u64()?;
        let name = fields.utf16z(MAX_TEXT)?;
        let (begun, duration, own) =
            self.end(time, |what| matches!(what, What::Type(begun) if *begun == number))?;
        Some(TypeLoad { start: begun.time, duration, own, thread, stack: begun.stack, name, level })
    }

    /// `AssemblyLoadStart`.
    fn requested(
        &mut self,
        mut fields: Cursor<'_>,
        time: u64,
        thread: u64,
        stack: &Arc<[u64]>,
    ) -> Option<()> {
        let _runtime_instance = fields.u16()?;
        let mut load = Load::new(time, thread, stack);
        load.requested = fields.utf16z(MAX_TEXT)?;
        load.path = known(fields.utf16z(MAX_TEXT)?);
        load.requested_by = known(fields.utf16z(MAX_TEXT)?);
        load.context = known(fields.utf16z(MAX_TEXT)?);
        self.begin(time, stack, What::Request { load: Box::new(load), last_step: time });
        Some(())
    }

    /// `AssemblyLoadStop`; what it says, unless the assembly may be about to be loaded.
    fn answered(&mut self, mut fields: Cursor<'_>, time: u64) -> Option<Option<Load>> {
        let _runtime_instance = fields.u16()?;
        let requested = fields.utf16z(MAX_TEXT)?;
        for _ in 0..4 {
            fields.skip_utf16z(MAX_TEXT)?;
        }
        let success = fields.u32()? != 0;
        let name = fields.utf16z(MAX_TEXT)?;
        let path = fields.utf16z(MAX_TEXT)?;
        let cached = fields.u32()? != 0;
        let is_it =
            |what: &What| matches!(what, What::Request { load, .. } if load.requested == requested);
        let (begun, whole, own) = self.end(time, is_it)?;
        let What::Request { mut load, .. } = begun.what else { return None };
        (load.duration, load.own, load.resolution) = (Some(whole), Some(own), Some(whole));
        if !known_ref(&path).is_empty() {
            load.path = path;
        }
        if load.assembly != 0 {
            return Some(Some(*load));
        }
        if !success {
            load.outcome = Outcome::Failed;
            load.name = requested;
            return Some(Some(*load));
        }
        load.outcome = Outcome::Known;
        load.name = if known_ref(&name).is_empty() { requested } else { name };
        if cached {
            return Some(Some(*load));
        }
        let mut first = None;
        if self.answered.len() >= MAX_ANSWERED {
            first = self.answered.pop_front().map(|(load, _)| load);
        }
        self.answered.push_back((*load, time));
        Some(first)
    }

    /// Adds a step to the request that is being answered.
    fn step(&mut self, mut step: Step, time: u64) {
        let Some((load, last_step)) = self.requests().next() else { return };
        step.took = time.saturating_sub(*last_step);
        *last_step = time;
        if load.steps.len() < MAX_STEPS {
            load.steps.push(step);
        }
    }
}

/// What an event says that is one of the steps of a request.
fn step(id: u32, mut fields: Cursor<'_>) -> Option<Step> {
    let _runtime_instance = fields.u16()?;
    let first = fields.utf16z(MAX_TEXT)?;
    let (kind, what, found, result) = match id {
        292 => {
            let kind = match fields.u16()? {
                0 => StepKind::InContext,
                1 => StepKind::ContextLoad,
                2 => StepKind::Application,
                3 => StepKind::DefaultContext,
                4 => StepKind::Satellite,
                5 => StepKind::ContextResolving,
                6 => StepKind::AppDomainResolve,
                _ => StepKind::OtherStage,
            };
            let _context = fields.utf16z(MAX_TEXT)?;
            let found = fields.u16()? == 0;
            let name = known(fields.utf16z(MAX_TEXT)?);
            let path = known(fields.utf16z(MAX_TEXT)?);
            let error = fields.utf16z(MAX_TEXT)?;
            (
                kind,
                String::new(),
                found,
                [path, name, error].into_iter().find(|text| !text.is_empty()),
            )
        }
        293 | 294 => {
            let handler = fields.utf16z(MAX_TEXT)?;
            if id == 293 {
                let _context = fields.utf16z(MAX_TEXT)?;
            }
            let name = known(fields.utf16z(MAX_TEXT)?);
            let kind =
                if id == 293 { StepKind::ContextHandler } else { StepKind::AppDomainHandler };
            (kind, handler, !name.is_empty(), Some(name))
        }
        295 => {
            let _tracked = fields.u32()?;
            let by = known(fields.utf16z(MAX_TEXT)?);
            let path = known(fields.utf16z(MAX_TEXT)?);
            // The handler's own event reports whether that returned something.
            (
                StepKind::LoadFromHandler,
                path,
                false,
                (!by.is_empty()).then(|| format!("beside {by}")),
            )
        }
        296 => {
            let _source = fields.u16()?;
            let code = fields.u32()?;
            let failed = code.cast_signed() < 0;
            (StepKind::Probe, first, !failed, failed.then(|| format!("{code:#010x}")))
        }
        _ => return None,
    };
    Some(Step { kind, what, found, result: result.unwrap_or_default(), took: 0 })
}

/// Number, flags and full name, of `AssemblyLoad` and `AssemblyUnload`.
fn assembly_fields(mut fields: Cursor<'_>) -> Option<(u64, u32, String)> {
    let assembly = fields.u64()?;
    let _domain = fields.u64()?;
    let _binding = fields.u64()?;
    let flags = fields.u32()?;
    Some((assembly, flags, fields.utf16z(MAX_TEXT)?))
}

/// The runtime writes `NULL` for some texts that it does not have.
fn known(text: String) -> String {
    if text == "NULL" { String::new() } else { text }
}

fn known_ref(text: &str) -> &str {
    if text == "NULL" { "" } else { text }
}

/// Name of an assembly without version, culture and key.
pub fn simple_name(name: &str) -> &str {
    name.split(',').next().unwrap_or(name).trim()
}

/// Version in a full name; empty if there is none.
pub fn version(name: &str) -> &str {
    name.split(',').find_map(|part| part.trim().strip_prefix("Version=")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::recorded;

    fn text(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    /// Feeds events of threads, ten nanoseconds apart from 100 on. Each is called from its thread's
    /// number.
    fn collect(events: &[(u32, u64, Vec<u8>)]) -> Vec<Output> {
        let mut collector = Collector::new();
        for (time, (id, thread, payload)) in (10..).zip(events) {
            let _ = collector.push_fields(*id, payload, time * 10, *thread, &Arc::from([*thread]));
        }
        collector.finish();
        std::iter::from_fn(|| collector.next_output()).collect()
    }

    fn loads(events: &[(u32, u64, Vec<u8>)]) -> Vec<Load> {
        let outputs = collect(events).into_iter();
        outputs
            .filter_map(|output| if let Output::Load(load) = output { Some(*load) } else { None })
            .collect()
    }

    fn requested(name: &str) -> Vec<u8> {
        [
            vec![0, 0],
            text(name),
            text("NULL"),
            text("App, Version=1.0.0.0"),
            text("Default"),
            text("Default"),
        ]
        .concat()
    }

    fn answered(name: &str, success: bool, result: &str, cached: bool) -> Vec<u8> {
        let number = |truth: bool| u32::from(truth).to_le_bytes().to_vec();
        let parts = [requested(name), number(success), text(result), text(""), number(cached)];
        parts.concat()
    }

    fn assembly(id: u64, flags: u32, name: &str) -> Vec<u8> {
        let numbers = [id, 5, 0].map(u64::to_le_bytes).concat();
        [numbers, flags.to_le_bytes().to_vec(), text(name), vec![0, 0]].concat()
    }

    fn module(assembly: u64, path: &str) -> Vec<u8> {
        let numbers = [77, assembly].map(u64::to_le_bytes).concat();
        [numbers, vec![8, 0, 0, 0, 0, 0, 0, 0], text(path), text(""), vec![0, 0]].concat()
    }

    fn type_begin(number: u32) -> Vec<u8> {
        [number.to_le_bytes().to_vec(), vec![0, 0]].concat()
    }

    fn type_end(number: u32, name: &str) -> Vec<u8> {
        [number.to_le_bytes().to_vec(), vec![0, 0, 4, 0], 9_u64.to_le_bytes().to_vec(), text(name)]
            .concat()
    }

    /// What the program `samples/jitter` made a runtime tell; of all of its events, those that are
    /// looked at here.
    fn of_jitter(lines: &str) -> Vec<Output> {
        let mut collector = Collector::new();
        for (time, thread, id, payload) in recorded(lines) {
            let _ = collector.push_fields(id, &payload, time, thread, &Arc::from([]));
        }
        collector.finish();
        std::iter::from_fn(|| collector.next_output()).collect()
    }

    #[test]
    fn real_runtimes() {
        let runtimes = [
            (3, include_str!("recorded/jitter-3.1.23.txt")),
            (8, include_str!("recorded/jitter-8.0.30.txt")),
            (9, include_str!("recorded/jitter-9.0.5.txt")),
        ];
        for (major, lines) in runtimes {
            let outputs = of_jitter(lines);
            let loads: Vec<&Load> = outputs
                .iter()
                .filter_map(
                    |output| if let Output::Load(load) = output { Some(&**load) } else { None },
                )
                .collect();
            let of = |name: &str| {
                loads
                    .iter()
                    .copied()
                    .filter(|load| simple_name(&load.name) == name)
                    .collect::<Vec<_>>()
            };
            let asked = major > 3;

            let linq = of("System.Private.Xml.Linq")[0];
            assert!(
                linq.outcome == Outcome::Loaded
                    && linq.precompiled
                    && !linq.dynamic
                    && !linq.collectible,
                "{linq:?}"
            );
            assert!(linq.path.ends_with("/System.Private.Xml.Linq.dll"), "{major}: {linq:?}");
            assert!(version(&linq.name) >= "4.0.2.0", "{major}: {linq:?}");
            assert_eq!(
                (linq.duration.is_some(), linq.resolution.is_some()),
                (asked, asked),
                "{major}: {linq:?}"
            );
            assert!(
                linq.resolution <= linq.duration && linq.own <= linq.duration,
                "{major}: {linq:?}"
            );
            if asked {
                assert_eq!(simple_name(&linq.requested_by), "jitter", "{major}");
                let steps: Vec<_> = linq.steps.iter().map(|step| (step.kind, step.found)).collect();
                let expected = [
                    (StepKind::Probe, true),
                    (StepKind::InContext, false),
                    (StepKind::Application, true),
                ];
                assert_eq!(steps, expected, "{major}: {linq:?}");
                assert!(linq.steps[0].what.ends_with("Linq.dll"), "{major}: {linq:?}");
            }

            // Five from bytes, five (here one) from files, five in contexts that are unloaded.
            let own = of("jitter");
            assert!(own.iter().all(|load| load.outcome == Outcome::Loaded), "{major}: {own:?}");
            assert_eq!(own.iter().filter(|load| load.collectible).count(), 5, "{major}");
            let copy = own.iter().find(|load| load.path.ends_with("copy-0.dll")).unwrap();
            assert_eq!(copy.duration.is_some(), asked, "{major}: {copy:?}");

            let emitted = of("Emitted.At.RunTime0")[0];
            assert!(
                emitted.dynamic && emitted.duration.is_none() && emitted.path.is_empty(),
                "{major}: {emitted:?}"
            );

            let handled = of("Found.By.Handler");
            assert_eq!(
                (handled.len(), handled[0].dynamic, handled[0].outcome),
                (1, true, Outcome::Loaded),
                "{major}"
            );
            if asked {
                assert!(handled[0].duration > Some(60_000_000), "{major}: {handled:?}");
                let handler =
                    handled[0].steps.iter().find(|step| step.what == "SlowHandler").unwrap();
                assert!(
                    handler.kind == StepKind::AppDomainHandler && handler.found,
                    "{major}: {handler:?}"
                );
                assert!(handler.took > 60_000_000, "{major}: {handler:?}");
                let missing = of("No.Such.Assembly0")[0];
                assert_eq!((missing.outcome, missing.assembly), (Outcome::Failed, 0), "{major}");
                let stages: Vec<_> = missing.steps.iter().map(|step| step.kind).collect();
                assert!(stages.contains(&StepKind::AppDomainResolve), "{major}: {stages:?}");
                assert_eq!(
                    stages.contains(&StepKind::LoadFromHandler),
                    major == 8,
                    "{major}: {stages:?}"
                );
                assert!(missing.steps.iter().all(|step| !step.found), "{major}: {missing:?}");
                assert_eq!(missing.steps[0].result, "Could not locate assembly", "{major}");
            }

            let unloaded: Vec<_> = outputs
                .iter()
                .filter_map(|output| match output {
                    Output::Unloaded { assembly, name, .. } => Some((*assembly, simple_name(name))),
                    _ => None,
                })
                .collect();
            assert_eq!(unloaded.len(), 5, "{major}");
            let known = |id| own.iter().any(|load| load.assembly == id && load.collectible);
            assert!(
                unloaded.iter().all(|(id, name)| *name == "jitter" && known(*id)),
                "{major}: {unloaded:?}"
            );

            let holders = outputs.iter().filter(|output| {
                matches!(output, Output::Type(load) if matches!(load.level, 4 | 6) && load.name.contains("Holder`1<Clrscope"))
            });
            assert_eq!(holders.count(), if asked { 8 } else { 0 }, "{major}");
        }
    }

    #[test]
    fn the_load_behind_an_answer_belongs_to_it() {
        let told = loads(&[
            (290, 1, requested("Lib, Version=1.0.0.0")),
            (291, 1, answered("Lib, Version=1.0.0.0", true, "Lib, Version=2.0.0.0", false)),
            (154, 2, assembly(6, 0, "Other, Version=2.0.0.0")),
            (154, 1, assembly(7, 0x10, "Lib, Version=2.0.0.0")),
            (152, 1, module(7, "/app/Lib.dll")),
            (152, 2, module(6, "Other")),
        ]);
        assert_eq!(told.len(), 2);
        let (lib, other) = (&told[0], &told[1]);
        assert_eq!(
            (lib.start, lib.duration, lib.own, lib.resolution),
            (100, Some(40), Some(40), Some(10))
        );
        assert_eq!((lib.outcome, lib.assembly, lib.precompiled), (Outcome::Loaded, 7, true));
        assert_eq!(
            (lib.name.as_str(), lib.path.as_str()),
            ("Lib, Version=2.0.0.0", "/app/Lib.dll")
        );
        assert_eq!(
            (lib.requested.as_str(), lib.requested_by.as_str()),
            ("Lib, Version=1.0.0.0", "App, Version=1.0.0.0")
        );
        assert_eq!((simple_name(&lib.name), version(&lib.name)), ("Lib", "2.0.0.0"));
        // Nobody told how long that one took.
        assert_eq!(
            (other.start, other.duration, other.path.as_str(), other.requested.as_str()),
            (120, None, "", "")
        );
    }

    #[test]
    fn the_load_within_a_request_belongs_to_it() {
        let told = loads(&[
            (290, 1, requested("Lib, Version=1.0.0.0")),
            (154, 1, assembly(7, 0x8, "Lib, Version=1.0.0.0")),
            (152, 1, module(7, "/app/Lib.dll")),
            (291, 1, answered("Lib, Version=1.0.0.0", true, "Lib, Version=1.0.0.0", false)),
        ]);
        assert_eq!(told.len(), 1);
        assert_eq!(
            (told[0].outcome, told[0].assembly, told[0].collectible),
            (Outcome::Loaded, 7, true)
        );
        assert_eq!((told[0].duration, told[0].path.as_str()), (Some(30), "/app/Lib.dll"));
    }

    #[test]
    fn answers_without_a_load() {
        let told = loads(&[
            (290, 1, requested("A")),
            (291, 1, answered("A", true, "A", true)),
            (290, 1, requested("B")),
            (291, 1, answered("B", true, "B", false)),
            (290, 1, requested("C")),
            (291, 1, answered("C", false, "", false)),
            // Its beginning was not seen.
            (291, 1, answered("D", false, "", false)),
        ]);
        let told: Vec<_> =
            told.iter().map(|load| (load.name.as_str(), load.outcome, load.duration)).collect();
        let expected = [
            ("A", Outcome::Known, Some(10)),
            ("C", Outcome::Failed, Some(10)),
            ("B", Outcome::Known, Some(10)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn types_within_types_and_assemblies_within_them_share_no_time() {
        let outputs = collect(&[
            (73, 1, type_begin(1)),
            (73, 1, type_begin(2)),
            (290, 1, requested("A")),
            (73, 2, type_begin(9)),
            (291, 1, answered("A", true, "A", true)),
            (74, 1, type_end(2, "Inner")),
            (74, 1, type_end(1, "Outer")),
            // Neither has a beginning of its own thread.
            (74, 1, type_end(9, "Other")),
            (74, 2, type_end(9, "Other")),
        ]);
        let told: Vec<_> = outputs
            .iter()
            .filter_map(|output| match output {
                Output::Type(load) => {
                    Some((load.name.as_str(), load.start, load.duration, load.own))
                }
                _ => None,
            })
            .collect();
        assert_eq!(told, [("Inner", 110, 40, 20), ("Outer", 100, 60, 20), ("Other", 130, 50, 50)]);
    }

    #[test]
    fn what_is_cut_short_tells_nothing() {
        let request = (290, 1, requested("A"));
        let whole = answered("A", true, "A", true);
        for cut in 0..whole.len() {
            assert_eq!(
                loads(&[request.clone(), (291, 1, whole[..cut].to_vec())]),
                [],
                "cut at {cut}"
            );
        }
        let whole = type_end(1, "T");
        for cut in 0..whole.len() {
            assert_eq!(
                collect(&[(73, 1, type_begin(1)), (74, 1, whole[..cut].to_vec())]),
                [],
                "cut at {cut}"
            );
        }
    }
}
