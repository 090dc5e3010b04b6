//! Loaded assemblies, modules and types out of the runtime's events: what each took, who asked, and
//! how assemblies were looked for.
//!
//! Layouts are those of the runtime's manifest, `ClrEtwAll.man`, for processes of 64 bits. How
//! assemblies were looked for, and types, are reported from .NET 5 on.

use crate::cursor::Cursor;
use crate::runtime::PROVIDER;
use crate::{Collect, Event, Located, thread_id};
use profilers::loads::{AssemblyLoad, LoadOutcome, TypeLoad, Unloaded};
use rows::{StackId, TypeId};
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

/// What was tried to find an assembly: stages in the runtime's order (`ResolutionAttempted`), and
/// what happens in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepKind {
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

impl StepKind {
    /// In words for a reader.
    fn words(self) -> &'static str {
        match self {
            StepKind::InContext => "assemblies of the load context",
            StepKind::ContextLoad => "AssemblyLoadContext.Load",
            StepKind::Application => "assemblies of the application",
            StepKind::DefaultContext => "the default load context",
            StepKind::Satellite => "satellite assemblies",
            StepKind::ContextResolving => "handlers of AssemblyLoadContext.Resolving",
            StepKind::AppDomainResolve => "handlers of AppDomain.AssemblyResolve",
            StepKind::OtherStage => "a stage of the runtime",
            StepKind::ContextHandler => "AssemblyLoadContext.Resolving handler",
            StepKind::AppDomainHandler => "AppDomain.AssemblyResolve handler",
            StepKind::LoadFromHandler => "beside the assembly that asks:",
            StepKind::Probe => "file",
        }
    }
}

/// A type that was loaded, or brought a step further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedType {
    /// Its load. The type has no id yet.
    pub load: Located<TypeLoad>,
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
    Load(Box<Located<AssemblyLoad>>),
    /// An assembly was unloaded.
    Unloaded(Unloaded),
    /// A type was loaded.
    Type(LoadedType),
}

/// Puts loads together, of events that come in the order of their times.
#[derive(Debug, Default)]
pub struct Collector {
    threads: HashMap<u64, Thread>,
    /// Assemblies that have been loaded and wait for their module, by the runtime's number; with
    /// the thread that loads them, and its time.
    loading: HashMap<u64, (Located<AssemblyLoad>, u64)>,
    output: VecDeque<Output>,
}

#[derive(Debug, Default)]
struct Thread {
    /// What has begun, the innermost last.
    begun: Vec<Begun>,
    /// Requests that were answered with an assembly that may be about to be loaded, with the time
    /// of the answer.
    answered: VecDeque<(Located<AssemblyLoad>, u64)>,
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
    Request { load: Box<Located<AssemblyLoad>>, last_step: u64 },
}

impl Collector {
    /// A collector that has seen nothing.
    pub fn new() -> Self {
        Self::default()
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
                    self.output.push_back(Output::Unloaded(Unloaded { time, assembly, name }));
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
            loaded(request, assembly, name, flags);
            return Some(());
        }
        let answered = of_thread.answered.iter().rposition(|(load, _)| load.row.name == name);
        let mut load = match answered.and_then(|at| of_thread.answered.remove(at)) {
            Some((load, _)) => load,
            None => Located { row: assembly_load(time, thread), stack: Arc::clone(stack) },
        };
        loaded(&mut load.row, assembly, name, flags);
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
            let row = &mut load.row;
            if let Some(path) = path {
                row.path = path;
            }
            if let Some(whole) = row.duration {
                // What came behind the answer.
                let rest = time.saturating_sub(row.time).saturating_sub(whole);
                row.duration = Some(whole.saturating_add(rest));
                row.own = row.own.map(|own| own.saturating_add(rest));
                let of_thread = self.threads.get_mut(&row.thread.0.into());
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
            let mut done: Vec<Located<AssemblyLoad>> = self
                .loading
                .extract_if(|_, (_, since)| late(*since))
                .map(|(_, (load, _))| load)
                .collect();
            order::sort_by_key(&mut done, |load| load.row.time);
            self.output.extend(done.into_iter().map(|load| Output::Load(Box::new(load))));
        }
    }
}

impl Collect for Collector {
    type Output = Output;

    fn push(&mut self, event: &Event) {
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

    fn next_output(&mut self) -> Option<Self::Output> {
        self.output.pop_front()
    }

    fn finish(&mut self) {
        self.settle(None);
    }
}

/// A load of which no more is known than where it came from.
fn assembly_load(time: u64, thread: u64) -> AssemblyLoad {
    AssemblyLoad {
        time,
        thread: thread_id(thread),
        stack: StackId::UNDEFINED,
        truncated: false,
        duration: None,
        own: None,
        resolution: None,
        outcome: LoadOutcome::Loaded,
        assembly: 0,
        name: String::new(),
        path: String::new(),
        requested: String::new(),
        requested_by: String::new(),
        context: String::new(),
        step: Vec::new(),
        step_found: Vec::new(),
        step_result: Vec::new(),
        step_took: Vec::new(),
        dynamic: false,
        collectible: false,
        precompiled: false,
    }
}

/// Adds what `AssemblyLoad` says.
fn loaded(load: &mut AssemblyLoad, assembly: u64, name: String, flags: u32) {
    const DYNAMIC: u32 = 0x2;
    const PRECOMPILED: u32 = 0x10;
    load.outcome = LoadOutcome::Loaded;
    (load.assembly, load.name) = (assembly, name);
    load.dynamic = flags & DYNAMIC != 0;
    load.collectible = flags & COLLECTIBLE != 0;
    load.precompiled = flags & PRECOMPILED != 0;
}

impl Thread {
    /// Requests that are still running, the innermost first, each with the time of its last step.
    fn requests(&mut self) -> impl Iterator<Item = (&mut AssemblyLoad, &mut u64)> {
        self.begun.iter_mut().rev().filter_map(|begun| match &mut begun.what {
            What::Request { load, last_step } => Some((&mut load.row, last_step)),
            What::Type(_) => None,
        })
    }

    /// The running request for an assembly of this name that has not loaded one yet.
    fn request_for(&mut self, simple: &str) -> Option<&mut AssemblyLoad> {
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
    fn type_loaded(
        &mut self,
        mut fields: Cursor<'_>,
        time: u64,
        thread: u64,
    ) -> Option<LoadedType> {
        let number = fields.u32()?;
        let _runtime_instance = fields.u16()?;
        let level = fields.u16()?;
        let _type_id = fields.u64()?;
        let name = fields.utf16z(MAX_TEXT)?;
        let (begun, duration, own) =
            self.end(time, |what| matches!(what, What::Type(begun) if *begun == number))?;
        let row = TypeLoad {
            time: begun.time,
            thread: thread_id(thread),
            stack: StackId::UNDEFINED,
            ty: TypeId::UNDEFINED,
            duration,
            own,
            truncated: false,
        };
        Some(LoadedType { load: Located { row, stack: begun.stack }, name, level })
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
        let mut row = assembly_load(time, thread);
        row.requested = fields.utf16z(MAX_TEXT)?;
        row.path = known(fields.utf16z(MAX_TEXT)?);
        row.requested_by = known(fields.utf16z(MAX_TEXT)?);
        row.context = known(fields.utf16z(MAX_TEXT)?);
        let load = Box::new(Located { row, stack: Arc::clone(stack) });
        self.begin(time, stack, What::Request { load, last_step: time });
        Some(())
    }

    /// `AssemblyLoadStop`; what it says, unless the assembly may be about to be loaded.
    fn answered(
        &mut self,
        mut fields: Cursor<'_>,
        time: u64,
    ) -> Option<Option<Located<AssemblyLoad>>> {
        let _runtime_instance = fields.u16()?;
        let requested = fields.utf16z(MAX_TEXT)?;
        for _ in 0..4 {
            fields.skip_utf16z(MAX_TEXT)?;
        }
        let success = fields.u32()? != 0;
        let name = fields.utf16z(MAX_TEXT)?;
        let path = fields.utf16z(MAX_TEXT)?;
        let cached = fields.u32()? != 0;
        let is_it = |what: &What| match what {
            What::Request { load, .. } => load.row.requested == requested,
            What::Type(_) => false,
        };
        let (begun, whole, own) = self.end(time, is_it)?;
        let What::Request { mut load, .. } = begun.what else { return None };
        let row = &mut load.row;
        (row.duration, row.own, row.resolution) = (Some(whole), Some(own), Some(whole));
        if !known_ref(&path).is_empty() {
            row.path = path;
        }
        if row.assembly != 0 {
            return Some(Some(*load));
        }
        if !success {
            row.outcome = LoadOutcome::Failed;
            row.name = requested;
            return Some(Some(*load));
        }
        row.outcome = LoadOutcome::Known;
        row.name = if known_ref(&name).is_empty() { requested } else { name };
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
    fn step(&mut self, step: Step, time: u64) {
        let Some((load, last_step)) = self.requests().next() else { return };
        let took = time.saturating_sub(*last_step);
        *last_step = time;
        if load.step.len() < MAX_STEPS {
            load.add_step(step.what, step.found, step.result, took);
        }
    }
}

/// A thing that was tried to find an assembly; what the fields are, [`profilers::loads::LoadStep`]
/// says.
struct Step {
    what: String,
    found: bool,
    result: String,
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
    let kind = kind.words();
    let what = if what.is_empty() { kind.to_owned() } else { format!("{kind} {what}") };
    Some(Step { what, found, result: result.unwrap_or_default() })
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

    fn loads(events: &[(u32, u64, Vec<u8>)]) -> Vec<AssemblyLoad> {
        let outputs = collect(events).into_iter();
        outputs
            .filter_map(
                |output| if let Output::Load(load) = output { Some(load.row) } else { None },
            )
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
            let loads: Vec<&AssemblyLoad> = outputs
                .iter()
                .filter_map(
                    |output| if let Output::Load(load) = output { Some(&load.row) } else { None },
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
                linq.outcome == LoadOutcome::Loaded
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
                assert_eq!(linq.step_found, [true, false, true], "{major}: {linq:?}");
                let [probe, context, application] = linq.step.as_slice() else {
                    panic!("{major}: {linq:?}")
                };
                let starts = probe.starts_with(StepKind::Probe.words());
                assert!(starts && probe.ends_with("Linq.dll"), "{major}: {linq:?}");
                assert_eq!(context, StepKind::InContext.words(), "{major}");
                assert_eq!(application, StepKind::Application.words(), "{major}");
            }

            // Five from bytes, five (here one) from files, five in contexts that are unloaded.
            let own = of("jitter");
            assert!(own.iter().all(|load| load.outcome == LoadOutcome::Loaded), "{major}: {own:?}");
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
                (1, true, LoadOutcome::Loaded),
                "{major}"
            );
            if asked {
                assert!(handled[0].duration > Some(60_000_000), "{major}: {handled:?}");
                let handler =
                    handled[0].steps().find(|step| step.what.ends_with(" SlowHandler")).unwrap();
                let expected = format!("{} SlowHandler", StepKind::AppDomainHandler.words());
                assert!(handler.what == expected && handler.found, "{major}: {handler:?}");
                assert!(handler.took > 60_000_000, "{major}: {handler:?}");
                let missing = of("No.Such.Assembly0")[0];
                assert_eq!(
                    (missing.outcome, missing.assembly),
                    (LoadOutcome::Failed, 0),
                    "{major}"
                );
                let has =
                    |kind: StepKind| missing.step.iter().any(|step| step.starts_with(kind.words()));
                assert!(has(StepKind::AppDomainResolve), "{major}: {missing:?}");
                assert_eq!(has(StepKind::LoadFromHandler), major == 8, "{major}: {missing:?}");
                assert!(missing.step_found.iter().all(|found| !found), "{major}: {missing:?}");
                assert_eq!(missing.step_result[0], "Could not locate assembly", "{major}");
            }

            let unloaded: Vec<_> = outputs
                .iter()
                .filter_map(|output| match output {
                    Output::Unloaded(Unloaded { assembly, name, .. }) => {
                        Some((*assembly, simple_name(name)))
                    }
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
            (lib.time, lib.duration, lib.own, lib.resolution),
            (100, Some(40), Some(40), Some(10))
        );
        assert_eq!((lib.outcome, lib.assembly, lib.precompiled), (LoadOutcome::Loaded, 7, true));
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
            (other.time, other.duration, other.path.as_str(), other.requested.as_str()),
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
            (LoadOutcome::Loaded, 7, true)
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
            ("A", LoadOutcome::Known, Some(10)),
            ("C", LoadOutcome::Failed, Some(10)),
            ("B", LoadOutcome::Known, Some(10)),
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
                    let TypeLoad { time, duration, own, .. } = load.load.row;
                    Some((load.name.as_str(), time, duration, own))
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
