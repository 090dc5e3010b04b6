//! A session that is made of a file of another tool: definitions come once, before their first use.

use crate::{
    Format, ImportError, limits,
    samples::{Batch, Sample},
};
use rows::{Row, TypeId};
use rustc_hash::FxHashMap;
use session::{
    EndReason, Entry, FrameDef, FrameId, FrameTrust, FunctionDef, FunctionId, FunctionKind,
    ImportedUnit, ImportedValue, ModuleDef, ModuleId, Nanos, ProfilerRun, RowBuffer, SessionEnd,
    SessionInfo, SessionRecord, Sink, SourceLine, StackDef, StackId, ThreadDef, ThreadId, TypeDef,
};

/// A stack, and whether its outer frames were left out.
pub type Stack = (StackId, bool);

/// What a function is, as a file says it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function<'a> {
    /// As the file has it; for a method with its type, and perhaps with its parameters.
    pub name: &'a str,
    /// File name or path of the library or assembly; empty where it is not known.
    pub module: &'a str,
    pub kind: FunctionKind,
}

/// Key of a function that is defined.
type FunctionKey = (String, Option<ModuleId>, FunctionKind);

/// The session.
pub struct Out<'a> {
    sink: &'a mut dyn Sink,
    /// What it is made of.
    pub format: Format,
    info: Option<SessionInfo>,
    notes: Vec<String>,
    threads: u32,
    modules: FxHashMap<String, ModuleId>,
    functions: FxHashMap<FunctionKey, FunctionId>,
    files: FxHashMap<String, u32>,
    frames: FxHashMap<(FunctionId, Option<(u32, u32)>), FrameId>,
    stacks: FxHashMap<(Option<StackId>, FrameId), StackId>,
    types: FxHashMap<String, TypeId>,
    rows: RowBuffer,
    gathered: u32,
    cpu: Batch,
    wall: Batch,
    name_bytes: usize,
    samples: u64,
    /// Frames of all stacks so far.
    walked: u64,
    /// Start of the recording, and the latest time in it.
    start: Nanos,
    latest: Nanos,
    /// Whether something was written that can be shown.
    has_content: bool,
}

/// `Namespace.Type.Method(parameters)` in its parts. What is no such name is a name as it is.
pub fn parts(name: &str) -> [&str; 3] {
    let (name, parameters) = match (name.find('('), name.ends_with(')')) {
        (Some(at), true) if at > 0 => name.split_at(at),
        _ => (name, ""),
    };
    let mut depth = 0_usize;
    let mut dot = None;
    for (at, character) in name.char_indices() {
        match character {
            '<' | '[' | '(' => depth += 1,
            '>' | ']' | ')' => depth = depth.saturating_sub(1),
            '.' if depth == 0 => dot = Some(at),
            _ => {}
        }
    }
    // `.ctor` and `.cctor` begin with a dot.
    let dot = dot.map(|at| {
        if at > 0 && name.get(..at).is_some_and(|n| n.ends_with('.')) { at - 1 } else { at }
    });
    match dot.filter(|at| *at > 0) {
        Some(at) => {
            let (ty, method) = name.split_at(at);
            [ty, method.get(1..).unwrap_or_default(), parameters]
        }
        None => ["", name, parameters],
    }
}

impl<'a> Out<'a> {
    pub fn new(sink: &'a mut dyn Sink, format: Format, name: &str) -> Self {
        let info = SessionInfo {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: 0,
            process_name: name.to_owned(),
            command_line: String::new(),
            runtime: String::new(),
            platform: String::new(),
            entry: Entry::Imported,
            start_unix_ms: 0,
            start: 0,
            cpus: 0,
            profilers: Vec::new(),
        };
        Self {
            sink,
            format,
            info: Some(info),
            notes: Vec::new(),
            threads: 0,
            modules: FxHashMap::default(),
            functions: FxHashMap::default(),
            files: FxHashMap::default(),
            frames: FxHashMap::default(),
            stacks: FxHashMap::default(),
            types: FxHashMap::default(),
            rows: RowBuffer::default(),
            gathered: 0,
            cpu: Batch::new(SessionRecord::CpuSamples),
            wall: Batch::new(SessionRecord::WallSamples),
            name_bytes: 0,
            samples: 0,
            walked: 0,
            start: 0,
            latest: 0,
            has_content: false,
        }
    }

    pub fn damaged(&self, what: impl Into<String>) -> ImportError {
        ImportError::Damaged { format: self.format, what: what.into() }
    }

    /// Begins the session with what the file says of the recording. `profilers` are ids and where
    /// their samples are from.
    pub fn begin(
        &mut self,
        profilers: Vec<(&str, String)>,
        change: impl FnOnce(&mut SessionInfo),
    ) -> Result<(), ImportError> {
        let Some(mut info) = self.info.take() else { return Ok(()) };
        info.profilers = profilers
            .into_iter()
            .map(|(id, engine)| ProfilerRun {
                id: id.to_owned(),
                engine,
                rate_hz: None,
                params: Vec::new(),
            })
            .collect();
        change(&mut info);
        for text in [&mut info.process_name, &mut info.command_line, &mut info.platform] {
            // A record has a limit, and a name of a process none here.
            *text = text.chars().take(32 << 10).collect();
        }
        (self.start, self.latest) = (info.start, info.start);
        self.record(&SessionRecord::Info(info))
    }

    pub fn record(&mut self, record: &SessionRecord) -> Result<(), ImportError> {
        Ok(self.sink.record(record)?)
    }

    /// Something that a reader has to know; each is said once.
    pub fn note(&mut self, message: impl Into<String>) {
        let message = message.into();
        if !self.notes.contains(&message) && self.notes.len() < 32 {
            self.notes.push(message);
        }
    }

    /// A time within the recording.
    pub fn time(&mut self, time: Nanos) -> Result<Nanos, ImportError> {
        if time.saturating_sub(self.start) > limits::LENGTH {
            let what = "days";
            return Err(ImportError::TooLarge { what, limit: limits::LENGTH / 86_400_000_000_000 });
        }
        self.latest = self.latest.max(time);
        Ok(time.max(self.start))
    }

    fn bounded(&self, what: &'static str, count: usize, limit: usize) -> Result<(), ImportError> {
        if count >= limit {
            return Err(ImportError::TooLarge { what, limit: limit as u64 });
        }
        if self.name_bytes > limits::NAME_BYTES {
            let limit = limits::NAME_BYTES as u64;
            return Err(ImportError::TooLarge { what: "bytes of names", limit });
        }
        Ok(())
    }

    /// A new thread. Where the file has no number for it, it is numbered in the order of the file.
    pub fn thread(&mut self, os_tid: Option<u32>, name: &str) -> Result<ThreadId, ImportError> {
        self.name_bytes += name.len();
        self.bounded("threads", self.threads as usize, limits::THREADS)?;
        let id = ThreadId(self.threads);
        self.threads += 1;
        let (name, own) = numbered(name);
        let os_tid = own.or(os_tid).unwrap_or(self.threads);
        let name = Some(cut(name).to_owned()).filter(|name| !name.is_empty());
        let thread = ThreadDef { id, os_tid, name, managed: true, started: None, ended: None };
        self.record(&SessionRecord::Thread(thread))?;
        Ok(id)
    }

    fn module(&mut self, path: &str) -> Result<Option<ModuleId>, ImportError> {
        if path.is_empty() {
            return Ok(None);
        }
        let path = cut(path);
        if let Some(id) = self.modules.get(path) {
            return Ok(Some(*id));
        }
        self.name_bytes += path.len() * 2;
        self.bounded("modules", self.modules.len(), limits::NAMES)?;
        let id = ModuleId(self.modules.len() as u32);
        self.modules.insert(path.to_owned(), id);
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        let managed = [".dll", ".exe"].iter().any(|end| name.ends_with(end));
        let is_path = name.len() < path.len();
        let (name, path) = (name.to_owned(), if is_path { path.to_owned() } else { String::new() });
        let module = ModuleDef { id, managed, name, path, build_id: None };
        self.record(&SessionRecord::Module(module))?;
        Ok(Some(id))
    }

    pub fn function(&mut self, function: &Function<'_>) -> Result<FunctionId, ImportError> {
        let module = self.module(function.module)?;
        let key = (cut(function.name).to_owned(), module, function.kind);
        if let Some(id) = self.functions.get(&key) {
            return Ok(*id);
        }
        self.name_bytes += key.0.len() * 2;
        self.bounded("functions", self.functions.len(), limits::NAMES)?;
        let id = FunctionId(self.functions.len() as u32);
        let [type_name, name, parameters] = match key.2 {
            FunctionKind::Managed | FunctionKind::Dynamic => parts(&key.0),
            _ => ["", key.0.as_str(), ""],
        };
        let definition = FunctionDef {
            id,
            kind: key.2,
            module,
            type_name: type_name.to_owned(),
            name: name.to_owned(),
            parameters: parameters.to_owned(),
            state_machine: None,
        };
        self.functions.insert(key, id);
        self.record(&SessionRecord::Function(definition))?;
        Ok(id)
    }

    /// A function at a line, if the file says one.
    pub fn frame(
        &mut self,
        function: FunctionId,
        line: Option<(&str, u32)>,
    ) -> Result<FrameId, ImportError> {
        let line = line.filter(|(file, line)| !file.is_empty() && *line > 0);
        let line = line.map(|(file, line)| (cut(file), line));
        let place = match line {
            Some((file, line)) => Some((self.file(file)?, line)),
            None => None,
        };
        if let Some(id) = self.frames.get(&(function, place)) {
            return Ok(*id);
        }
        self.bounded("frames", self.frames.len(), limits::NAMES)?;
        let id = FrameId(self.frames.len() as u32);
        self.frames.insert((function, place), id);
        let line = line.map(|(file, line)| SourceLine { file: file.to_owned(), line });
        let frame = FrameDef { id, function, line, trust: FrameTrust::Tables };
        self.record(&SessionRecord::Frame(frame))?;
        Ok(id)
    }

    fn file(&mut self, file: &str) -> Result<u32, ImportError> {
        if let Some(id) = self.files.get(file) {
            return Ok(*id);
        }
        self.name_bytes += file.len();
        self.bounded("source files", self.files.len(), limits::NAMES)?;
        let id = self.files.len() as u32;
        self.files.insert(file.to_owned(), id);
        Ok(id)
    }

    /// The stack of a caller's stack, and a frame.
    pub fn child(
        &mut self,
        parent: Option<StackId>,
        frame: FrameId,
    ) -> Result<StackId, ImportError> {
        if let Some(id) = self.stacks.get(&(parent, frame)) {
            return Ok(*id);
        }
        self.bounded("distinct stacks", self.stacks.len(), limits::STACKS)?;
        let id = StackId(self.stacks.len() as u32);
        self.stacks.insert((parent, frame), id);
        self.record(&SessionRecord::Stack(StackDef { id, parent, frame }))?;
        Ok(id)
    }

    /// Counts frames that are looked at.
    pub fn walk(&mut self, frames: usize) -> Result<(), ImportError> {
        self.walked += frames as u64;
        let (what, limit) = ("frames in its stacks", limits::WALKED);
        match self.walked > limit {
            true => Err(ImportError::TooLarge { what, limit }),
            false => Ok(()),
        }
    }

    /// A stack of frames, root first; `None` for none. Outer frames of one that is too deep are
    /// left out.
    pub fn stack(&mut self, frames: &[FrameId]) -> Result<Option<Stack>, ImportError> {
        let cut = frames.len().saturating_sub(limits::DEPTH);
        self.walk(frames.len() - cut)?;
        let mut stack = None;
        for frame in frames.get(cut..).unwrap_or_default() {
            stack = Some(self.child(stack, *frame)?);
        }
        Ok(stack.map(|stack| (stack, cut > 0)))
    }

    /// What stands for a stack that the file does not have.
    pub fn no_stack(&mut self) -> Result<Stack, ImportError> {
        let function = Function { name: "[no stack]", module: "", kind: FunctionKind::Unknown };
        let function = self.function(&function)?;
        let frame = self.frame(function, None)?;
        Ok((self.child(None, frame)?, false))
    }

    pub fn ty(&mut self, name: &str) -> Result<TypeId, ImportError> {
        let name = cut(name);
        if let Some(id) = self.types.get(name) {
            return Ok(*id);
        }
        self.name_bytes += name.len() * 2;
        self.bounded("types", self.types.len(), limits::NAMES)?;
        let id = TypeId(self.types.len() as u32);
        self.types.insert(name.to_owned(), id);
        let definition = TypeDef { id, name: name.to_owned() };
        self.record(&SessionRecord::Type(definition))?;
        Ok(id)
    }

    fn counted(&mut self) -> Result<(), ImportError> {
        self.has_content = true;
        self.samples += 1;
        match self.samples > limits::SAMPLES {
            true => Err(ImportError::TooLarge { what: "samples", limit: limits::SAMPLES }),
            false => Ok(()),
        }
    }

    pub fn cpu(&mut self, sample: Sample) -> Result<(), ImportError> {
        self.counted()?;
        self.time(sample.time)?;
        self.cpu.push(sample).map_or(Ok(()), |full| self.record(&full))
    }

    pub fn wall(&mut self, sample: Sample) -> Result<(), ImportError> {
        self.counted()?;
        self.time(sample.time)?;
        self.wall.push(sample).map_or(Ok(()), |full| self.record(&full))
    }

    /// Samples that are neither CPU nor wall time: how many, and what they stand for together.
    pub fn value(
        &mut self,
        unit: ImportedUnit,
        time: Nanos,
        thread: ThreadId,
        (stack, truncated): Stack,
        [samples, weight]: [u64; 2],
    ) -> Result<(), ImportError> {
        let time = self.time(time)?;
        self.row(&ImportedValue { time, thread, stack, unit, samples, weight, truncated })
    }

    pub fn row<R: Row>(&mut self, row: &R) -> Result<(), ImportError> {
        self.counted()?;
        self.rows.push(row);
        self.gathered += 1;
        // A buffer keeps what is full until it is taken.
        if self.gathered >= 4096 {
            self.flush_rows()?;
        }
        Ok(())
    }

    fn flush_rows(&mut self) -> Result<(), ImportError> {
        self.gathered = 0;
        for record in self.rows.take() {
            self.record(&record)?;
        }
        Ok(())
    }

    /// Something was written that is no sample.
    pub fn has_content(&mut self) {
        self.has_content = true;
    }

    /// Writes the rest.
    pub fn finish(mut self) -> Result<(), ImportError> {
        if !self.has_content {
            return Err(ImportError::Empty(self.format));
        }
        for rest in [self.cpu.take(), self.wall.take()].into_iter().flatten() {
            self.record(&rest)?;
        }
        self.flush_rows()?;
        let time = self.latest;
        for message in std::mem::take(&mut self.notes) {
            self.record(&SessionRecord::Note { time, message })?;
        }
        let end = SessionEnd { time, reason: EndReason::Stopped, exit_code: None };
        self.record(&SessionRecord::End(end))
    }
}

/// Bytes of a name in a session.
const NAME: usize = 64 << 10;

fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.get(..end).unwrap_or_default()
}

/// The name and number of a thread that is called `name (12)` or `Thread 12`.
fn numbered(name: &str) -> (&str, Option<u32>) {
    if let Some(number) = name.strip_prefix("Thread ").and_then(|number| number.parse().ok()) {
        return ("", Some(number));
    }
    let inner = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
    match inner.and_then(|(name, number)| Some((name, number.parse().ok()?))) {
        Some((name, number)) => (name, Some(number)),
        None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_methods_have_parts() {
        for (name, expected) in [
            ("Shop.Cart.Add(System.Int32)", ["Shop.Cart", "Add", "(System.Int32)"]),
            ("Shop.Cart<System.String>.Add", ["Shop.Cart<System.String>", "Add", ""]),
            ("Shop.Cart..ctor()", ["Shop.Cart", ".ctor", "()"]),
            ("main", ["", "main", ""]),
            (".ctor", ["", ".ctor", ""]),
            ("(unknown)", ["", "(unknown)", ""]),
            ("", ["", "", ""]),
        ] {
            assert_eq!(parts(name), expected, "{name}");
            let [ty, method, parameters] = parts(name);
            let dot = if ty.is_empty() { "" } else { "." };
            assert_eq!(format!("{ty}{dot}{method}{parameters}"), name);
        }
    }

    #[test]
    fn names_of_threads_may_have_numbers() {
        assert_eq!(numbered("Main (12)"), ("Main", Some(12)));
        assert_eq!(numbered("Thread 7"), ("", Some(7)));
        assert_eq!(numbered("worker (idle)"), ("worker (idle)", None));
        assert_eq!(numbered(""), ("", None));
    }
}
