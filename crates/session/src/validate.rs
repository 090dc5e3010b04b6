use rows::{Defined, Kind, MAX_TABLES, RowBatch, RowsError, TableDef};
use std::sync::Arc;

use crate::{
    Argument, CallArguments, FrameId, FunctionId, MAX_HEAP_CHUNK, ModuleId, SampleBatch,
    SessionRecord, StackDef, StackId, SurvivorSnapshot, ThreadId, TypeId,
};

/// How a record breaks the rules of the stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The first record is not `Info`.
    #[error("the first record is not the description of the recording")]
    NoInfo,
    /// `Info` came a second time.
    #[error("the description of the recording came a second time")]
    SecondInfo,
    /// A record came after `End`.
    #[error("a record came after the end of the recording")]
    AfterEnd,
    /// A definition left out ids, or repeated one.
    #[error("the {kind} {id} is defined where {expected} is next")]
    OutOfOrder {
        /// Kind of the definition.
        kind: &'static str,
        /// Its id.
        id: u32,
        /// The id that is next.
        expected: u32,
    },
    /// A record uses an id that is not defined.
    #[error("the {kind} {id} is used and not defined")]
    Undefined {
        /// Kind of the id.
        kind: &'static str,
        /// The id.
        id: u32,
    },
    /// There are no more ids of this kind.
    #[error("there are more than {limit} of the kind {kind}")]
    TooMany {
        /// Kind of the definition.
        kind: &'static str,
        /// The limit.
        limit: u32,
    },
    /// The columns of a batch of samples have different lengths.
    #[error("the columns of a batch of samples have different lengths")]
    RaggedBatch,
    /// A table or its rows break the rules of tables.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A table is defined a second time.
    #[error("the table {profiler}.{name} is defined a second time")]
    SecondTable {
        /// Id of its profiler.
        profiler: String,
        /// Its name.
        name: String,
    },
    /// Part of a heap snapshot came while that snapshot was not under way.
    #[error("part of heap snapshot {snapshot} came while that was not in progress")]
    NoSnapshot {
        /// The snapshot.
        snapshot: u32,
    },
    /// A heap snapshot began while another was under way.
    #[error("a heap snapshot began while snapshot {snapshot} was in progress")]
    SnapshotUnderWay {
        /// The one that was under way.
        snapshot: u32,
    },
    /// A part of a heap snapshot is too large.
    #[error("part of a heap snapshot has {size} bytes, over the limit of {limit}")]
    LargeChunk {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

/// Checks that records come as the model says: `Info` first, ids without gaps, definitions before
/// use, nothing after `End`. The writer, the reader and every live consumer use it, so that tables
/// may be indexed without fear.
#[derive(Clone, Debug, Default)]
pub struct Validator {
    info: bool,
    end: bool,
    threads: u32,
    modules: u32,
    functions: u32,
    frames: u32,
    stacks: u32,
    types: u32,
    /// Shared, because a writer keeps the state before each record.
    tables: Arc<Vec<Table>>,
    snapshots: u32,
    /// The heap snapshot that is under way.
    snapshot: Option<u32>,
}

/// What has to be known of a table to check its rows.
#[derive(Clone, Debug)]
struct Table {
    profiler: String,
    name: String,
    kinds: Vec<Kind>,
}

fn define(kind: &'static str, next: &mut u32, id: u32) -> Result<(), ModelError> {
    if id != *next {
        return Err(ModelError::OutOfOrder { kind, id, expected: *next });
    }
    // The last id stays free: tables use it for "none".
    if id >= u32::MAX - 1 {
        return Err(ModelError::TooMany { kind, limit: u32::MAX - 1 });
    }
    *next += 1;
    Ok(())
}

fn defined(kind: &'static str, count: u32, id: u32) -> Result<(), ModelError> {
    if id < count { Ok(()) } else { Err(ModelError::Undefined { kind, id }) }
}

impl Validator {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether `End` has come.
    pub fn ended(&self) -> bool {
        self.end
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// How it breaks the rules; the validator is then as it was before.
    pub fn check(&mut self, record: &SessionRecord) -> Result<(), ModelError> {
        if self.end {
            return Err(ModelError::AfterEnd);
        }
        match record {
            SessionRecord::Info(_) if self.info => Err(ModelError::SecondInfo),
            SessionRecord::Info(_) => {
                self.info = true;
                Ok(())
            }
            _ if !self.info => Err(ModelError::NoInfo),
            SessionRecord::End(_) => {
                self.end = true;
                Ok(())
            }
            _ => self.content(record),
        }
    }

    /// Takes a record between `Info` and `End`.
    fn content(&mut self, record: &SessionRecord) -> Result<(), ModelError> {
        match record {
            // A thread may come again when more is known of it.
            SessionRecord::Thread(thread) if thread.id.0 < self.threads => Ok(()),
            SessionRecord::Thread(thread) => define("thread", &mut self.threads, thread.id.0),
            SessionRecord::Module(module) => define("module", &mut self.modules, module.id.0),
            SessionRecord::Function(function) => {
                self.module(function.module)?;
                define("function", &mut self.functions, function.id.0)
            }
            SessionRecord::Frame(frame) => {
                self.function(frame.function)?;
                define("frame", &mut self.frames, frame.id.0)
            }
            SessionRecord::Stack(stack) => self.stack_definition(stack),
            SessionRecord::Type(ty) => define("type", &mut self.types, ty.id.0),
            SessionRecord::CpuSamples(batch)
            | SessionRecord::WallSamples(batch)
            | SessionRecord::PoolSamples(batch) => self.batch(batch),
            SessionRecord::Survivors(snapshot) => self.survivors(snapshot),
            SessionRecord::ThreadSnapshot(snapshot) => {
                snapshot.threads.iter().try_for_each(|seen| self.place(seen.thread, seen.stack))
            }
            SessionRecord::Table(table) => self.table(table),
            SessionRecord::Rows(batch) => self.rows(batch),
            SessionRecord::Instrumented(method) => self.function(method.of.method),
            SessionRecord::Rewritten(method) => self.function(method.method),
            SessionRecord::Recompiled(method) => self.function(method.method),
            SessionRecord::SingleCalls(calls) => {
                calls.iter().try_for_each(|call| self.thread(call.thread))
            }
            SessionRecord::Parameters(method) => self.function(method.method),
            SessionRecord::CallsWithArguments(calls) => {
                calls.iter().try_for_each(|call| self.call_with_arguments(call))
            }
            SessionRecord::Info(_)
            | SessionRecord::End(_)
            | SessionRecord::Traced(_)
            | SessionRecord::Observer(_)
            | SessionRecord::Resources(_)
            | SessionRecord::Collection { .. }
            | SessionRecord::Processors(_)
            | SessionRecord::SamplingRate(_)
            | SessionRecord::Note { .. }
            | SessionRecord::Engine { .. } => Ok(()),
            SessionRecord::HeapBegin { snapshot, .. } => self.begin_snapshot(*snapshot),
            SessionRecord::HeapChunk { snapshot, bytes } => self.heap_chunk(*snapshot, bytes.len()),
            SessionRecord::HeapClasses { snapshot, .. }
            | SessionRecord::HeapMethods { snapshot, .. }
            | SessionRecord::HeapStatics { snapshot, .. }
            | SessionRecord::HeapFields { snapshot, .. }
            | SessionRecord::AsyncStateMachines { snapshot, .. } => self.snapshot(*snapshot),
            SessionRecord::HeapEnd(end) => self.end_snapshot(end.snapshot),
        }
    }

    fn table(&mut self, table: &TableDef) -> Result<(), ModelError> {
        let mut next = self.tables.len() as u32;
        define("table", &mut next, table.id.0)?;
        if next > MAX_TABLES {
            return Err(ModelError::TooMany { kind: "table", limit: MAX_TABLES });
        }
        table.check()?;
        let TableDef { profiler, name, columns, .. } = table;
        if self.tables.iter().any(|table| table.profiler == *profiler && table.name == *name) {
            let (profiler, name) = (profiler.clone(), name.clone());
            return Err(ModelError::SecondTable { profiler, name });
        }
        let kinds = columns.iter().map(|column| column.kind.clone()).collect();
        let (profiler, name) = (profiler.clone(), name.clone());
        Arc::make_mut(&mut self.tables).push(Table { profiler, name, kinds });
        Ok(())
    }

    fn rows(&self, batch: &RowBatch) -> Result<(), ModelError> {
        let id = batch.table.0;
        let table = self.tables.get(id as usize);
        let table = table.ok_or(ModelError::Undefined { kind: "table", id })?;
        let defined = Defined {
            threads: self.threads,
            functions: self.functions,
            stacks: self.stacks,
            types: self.types,
        };
        Ok(batch.check(table.kinds.iter(), &defined)?)
    }

    fn stack_definition(&mut self, stack: &StackDef) -> Result<(), ModelError> {
        if let Some(StackId(parent)) = stack.parent {
            defined("stack", self.stacks, parent)?;
        }
        self.frame(stack.frame)?;
        define("stack", &mut self.stacks, stack.id.0)
    }

    fn survivors(&self, snapshot: &SurvivorSnapshot) -> Result<(), ModelError> {
        snapshot.counts.iter().try_for_each(|count| self.ty(count.ty))?;
        snapshot.held.iter().flat_map(|held| &held.path).try_for_each(|ty| self.ty(*ty))
    }

    fn call_with_arguments(&self, call: &CallArguments) -> Result<(), ModelError> {
        self.thread(call.call.thread)?;
        call.arguments.iter().try_for_each(|(_, argument)| match argument {
            Argument::Object { class: Some(class), .. } => self.ty(*class),
            _ => Ok(()),
        })
    }

    fn begin_snapshot(&mut self, snapshot: u32) -> Result<(), ModelError> {
        if let Some(snapshot) = self.snapshot {
            return Err(ModelError::SnapshotUnderWay { snapshot });
        }
        define("heap snapshot", &mut self.snapshots, snapshot)?;
        self.snapshot = Some(snapshot);
        Ok(())
    }

    fn end_snapshot(&mut self, snapshot: u32) -> Result<(), ModelError> {
        self.snapshot(snapshot)?;
        self.snapshot = None;
        Ok(())
    }

    fn heap_chunk(&self, snapshot: u32, size: usize) -> Result<(), ModelError> {
        self.snapshot(snapshot)?;
        let limit = MAX_HEAP_CHUNK;
        if size > limit { Err(ModelError::LargeChunk { size, limit }) } else { Ok(()) }
    }

    fn batch(&self, batch: &SampleBatch) -> Result<(), ModelError> {
        let others = [batch.weight.len(), batch.state.len(), batch.truncated.len()];
        self.columns(&batch.time_delta, &batch.thread, &batch.stack, &others)
    }

    /// What all batches have in common.
    fn columns(
        &self,
        times: &[u64],
        threads: &[ThreadId],
        stacks: &[StackId],
        others: &[usize],
    ) -> Result<(), ModelError> {
        let length = times.len();
        if threads.len() != length
            || stacks.len() != length
            || others.iter().any(|other| *other != length)
        {
            return Err(ModelError::RaggedBatch);
        }
        if let Some(thread) = threads.iter().max() {
            self.thread(*thread)?;
        }
        if let Some(StackId(stack)) = stacks.iter().max() {
            defined("stack", self.stacks, *stack)?;
        }
        Ok(())
    }

    fn snapshot(&self, snapshot: u32) -> Result<(), ModelError> {
        if self.snapshot == Some(snapshot) {
            Ok(())
        } else {
            Err(ModelError::NoSnapshot { snapshot })
        }
    }

    /// Where a thread was.
    fn place(&self, thread: ThreadId, stack: StackId) -> Result<(), ModelError> {
        self.thread(thread)?;
        self.stack(stack)
    }

    fn thread(&self, id: ThreadId) -> Result<(), ModelError> {
        defined("thread", self.threads, id.0)
    }

    fn module(&self, id: Option<ModuleId>) -> Result<(), ModelError> {
        id.map_or(Ok(()), |id| defined("module", self.modules, id.0))
    }

    fn function(&self, id: FunctionId) -> Result<(), ModelError> {
        defined("function", self.functions, id.0)
    }

    fn frame(&self, id: FrameId) -> Result<(), ModelError> {
        defined("frame", self.frames, id.0)
    }

    fn stack(&self, id: StackId) -> Result<(), ModelError> {
        defined("stack", self.stacks, id.0)
    }

    fn ty(&self, id: TypeId) -> Result<(), ModelError> {
        defined("type", self.types, id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, HeapEnd, SessionInfo};

    fn begun() -> Validator {
        let mut validator = Validator::new();
        let info = SessionInfo {
            tool_version: String::new(),
            pid: 1,
            process_name: String::new(),
            command_line: String::new(),
            runtime: String::new(),
            platform: String::new(),
            entry: Entry::Attached,
            start_unix_ms: 0,
            start: 0,
            cpus: 1,
            profilers: vec![],
        };
        validator.check(&SessionRecord::Info(info)).unwrap();
        validator
    }

    #[test]
    fn the_parts_of_a_look_come_while_it_is_under_way() {
        let begin = |snapshot| SessionRecord::HeapBegin { snapshot, time: 0 };
        let chunk = |snapshot, size| SessionRecord::HeapChunk { snapshot, bytes: vec![0; size] };
        let end = |snapshot| {
            SessionRecord::HeapEnd(HeapEnd {
                snapshot,
                time: 0,
                paused: 0,
                objects: 0,
                complete: true,
                reason: None,
            })
        };
        let mut validator = begun();
        assert_eq!(validator.check(&chunk(0, 1)), Err(ModelError::NoSnapshot { snapshot: 0 }));
        let refused = validator.check(&begin(1));
        assert!(matches!(
            refused,
            Err(ModelError::OutOfOrder { kind: "heap snapshot", id: 1, expected: 0 })
        ));
        validator.check(&begin(0)).unwrap();
        assert_eq!(validator.check(&begin(1)), Err(ModelError::SnapshotUnderWay { snapshot: 0 }));
        validator.check(&chunk(0, MAX_HEAP_CHUNK)).unwrap();
        assert!(matches!(
            validator.check(&chunk(0, MAX_HEAP_CHUNK + 1)),
            Err(ModelError::LargeChunk { .. })
        ));
        assert_eq!(validator.check(&chunk(1, 1)), Err(ModelError::NoSnapshot { snapshot: 1 }));
        validator.check(&SessionRecord::HeapClasses { snapshot: 0, classes: vec![] }).unwrap();
        assert_eq!(validator.check(&end(1)), Err(ModelError::NoSnapshot { snapshot: 1 }));
        validator.check(&end(0)).unwrap();
        assert_eq!(validator.check(&end(0)), Err(ModelError::NoSnapshot { snapshot: 0 }));
        validator.check(&begin(1)).unwrap();
        validator.check(&SessionRecord::HeapMethods { snapshot: 1, methods: vec![] }).unwrap();
        validator
            .check(&SessionRecord::AsyncStateMachines { snapshot: 1, machines: vec![] })
            .unwrap();
        validator.check(&end(1)).unwrap();
        let late = SessionRecord::AsyncStateMachines { snapshot: 1, machines: vec![] };
        assert_eq!(validator.check(&late), Err(ModelError::NoSnapshot { snapshot: 1 }));
    }
}
