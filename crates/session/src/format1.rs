//! Records of format 1, and what they are today.
//!
//! Files have the number of a variant, so neither the variants here nor what they hold may change.
//! What is written today is [`SessionRecord`]: rows of tables have taken the place of some records.

use profilers::{gc::Induced, loads::Unloaded};
use rows::{Row, TableId};
use serde::Deserialize;

use crate::{
    AllocatedObjects, AllocationBatch, AllocationWindow, AssemblyLoad, AsyncStateMachine,
    CallArguments, CallBatch, ClassFields, CompilationBatch, ContentionBatch, CounterDef,
    CounterId, ExceptionSample, FrameDef, FunctionDef, GcEvent, HeapEnd, InstrumentedMethod,
    MethodParameters, ModuleDef, Nanos, ObserverStatus, PauseEvent, PoolEvent, PrecompiledCount,
    ProcessorUse, RecompiledMethod, ResourceUse, RewrittenMethod, SampleBatch, SamplingRate,
    SessionEnd, SessionInfo, SessionRecord, SingleCall, StackDef, StackId, StaticField,
    SurvivorSnapshot, ThreadCreation, ThreadDef, ThreadId, ThreadSnapshot, TracedCalls, TypeDef,
    TypeId, TypeLoadBatch,
};

/// One entry of a session of format 1.
#[derive(Deserialize)]
pub(crate) enum Record {
    Info(SessionInfo),
    Thread(ThreadDef),
    Module(ModuleDef),
    Function(FunctionDef),
    Frame(FrameDef),
    Stack(StackDef),
    Type(TypeDef),
    CpuSamples(SampleBatch),
    WallSamples(SampleBatch),
    Exception(ExceptionSample),
    ExceptionCounts {
        time: Nanos,
        counts: Vec<(TypeId, u64)>,
    },
    Gc(GcEvent),
    Pause(PauseEvent),
    Observer(ObserverStatus),
    Note {
        time: Nanos,
        message: String,
    },
    End(SessionEnd),
    Engine {
        profiler: String,
        engine: String,
    },
    Allocations(AllocationBatch),
    Contentions(ContentionBatch),
    Counter(CounterDef),
    CounterValues {
        time: Nanos,
        values: Vec<(CounterId, f64)>,
    },
    ThreadSnapshot(ThreadSnapshot),
    ThreadCreation(ThreadCreation),
    PoolSamples(SampleBatch),
    PoolEvent(PoolEvent),
    HeapBegin {
        snapshot: u32,
        time: Nanos,
    },
    HeapChunk {
        snapshot: u32,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    HeapClasses {
        snapshot: u32,
        classes: Vec<(u64, String, String)>,
    },
    HeapMethods {
        snapshot: u32,
        methods: Vec<(u64, String)>,
    },
    HeapEnd(HeapEnd),
    Calls(CallBatch),
    Compilations(CompilationBatch),
    Precompiled(PrecompiledCount),
    AssemblyLoad(AssemblyLoad),
    AssemblyUnload {
        time: Nanos,
        assembly: u64,
        name: String,
    },
    TypeLoads(TypeLoadBatch),
    Survivors(SurvivorSnapshot),
    AsyncStateMachines {
        snapshot: u32,
        machines: Vec<AsyncStateMachine>,
    },
    AllocatedObjects(AllocatedObjects),
    AllocationWindow(AllocationWindow),
    Instrumented(InstrumentedMethod),
    Traced(TracedCalls),
    Rewritten(RewrittenMethod),
    Recompiled(RecompiledMethod),
    SingleCalls(Vec<SingleCall>),
    Parameters(MethodParameters),
    CallsWithArguments(Vec<CallArguments>),
    Resources(Vec<ResourceUse>),
    Collection {
        start: Nanos,
        end: Nanos,
    },
    Processors(ProcessorUse),
    SamplingRate(SamplingRate),
    InducedGc(InducedGc),
    HeapStatics {
        snapshot: u32,
        fields: Vec<StaticField>,
    },
    HeapFields {
        snapshot: u32,
        classes: Vec<ClassFields>,
    },
}

/// A call that induces a collection.
#[derive(Deserialize)]
pub(crate) struct InducedGc {
    time: Nanos,
    thread: ThreadId,
    stack: StackId,
    truncated: bool,
}

/// Makes records of today of those of format 1.
#[derive(Debug, Default)]
pub(crate) struct Upgrade {
    /// Profiler and name of the tables that are defined.
    tables: Vec<(&'static str, &'static str)>,
}

impl Upgrade {
    /// What a record is today: one record, or a table and its row.
    pub fn record(&mut self, record: Record) -> Vec<SessionRecord> {
        use SessionRecord as S;
        let same = match record {
            Record::AssemblyUnload { time, assembly, name } => {
                return self.row(Unloaded { time, assembly, name });
            }
            Record::InducedGc(InducedGc { time, thread, stack, truncated }) => {
                let (thread, stack) = (thread.into(), stack.into());
                return self.row(Induced { time, thread, stack, truncated });
            }
            Record::Info(of) => S::Info(of),
            Record::Thread(of) => S::Thread(of),
            Record::Module(of) => S::Module(of),
            Record::Function(of) => S::Function(of),
            Record::Frame(of) => S::Frame(of),
            Record::Stack(of) => S::Stack(of),
            Record::Type(of) => S::Type(of),
            Record::CpuSamples(of) => S::CpuSamples(of),
            Record::WallSamples(of) => S::WallSamples(of),
            Record::Exception(of) => S::Exception(of),
            Record::ExceptionCounts { time, counts } => S::ExceptionCounts { time, counts },
            Record::Gc(of) => S::Gc(of),
            Record::Pause(of) => S::Pause(of),
            Record::Observer(of) => S::Observer(of),
            Record::Note { time, message } => S::Note { time, message },
            Record::End(of) => S::End(of),
            Record::Engine { profiler, engine } => S::Engine { profiler, engine },
            Record::Allocations(of) => S::Allocations(of),
            Record::Contentions(of) => S::Contentions(of),
            Record::Counter(of) => S::Counter(of),
            Record::CounterValues { time, values } => S::CounterValues { time, values },
            Record::ThreadSnapshot(of) => S::ThreadSnapshot(of),
            Record::ThreadCreation(of) => S::ThreadCreation(of),
            Record::PoolSamples(of) => S::PoolSamples(of),
            Record::PoolEvent(of) => S::PoolEvent(of),
            Record::HeapBegin { snapshot, time } => S::HeapBegin { snapshot, time },
            Record::HeapChunk { snapshot, bytes } => S::HeapChunk { snapshot, bytes },
            Record::HeapClasses { snapshot, classes } => S::HeapClasses { snapshot, classes },
            Record::HeapMethods { snapshot, methods } => S::HeapMethods { snapshot, methods },
            Record::HeapEnd(of) => S::HeapEnd(of),
            Record::Calls(of) => S::Calls(of),
            Record::Compilations(of) => S::Compilations(of),
            Record::Precompiled(of) => S::Precompiled(of),
            Record::AssemblyLoad(of) => S::AssemblyLoad(of),
            Record::TypeLoads(of) => S::TypeLoads(of),
            Record::Survivors(of) => S::Survivors(of),
            Record::AsyncStateMachines { snapshot, machines } => {
                S::AsyncStateMachines { snapshot, machines }
            }
            Record::AllocatedObjects(of) => S::AllocatedObjects(of),
            Record::AllocationWindow(of) => S::AllocationWindow(of),
            Record::Instrumented(of) => S::Instrumented(of),
            Record::Traced(of) => S::Traced(of),
            Record::Rewritten(of) => S::Rewritten(of),
            Record::Recompiled(of) => S::Recompiled(of),
            Record::SingleCalls(of) => S::SingleCalls(of),
            Record::Parameters(of) => S::Parameters(of),
            Record::CallsWithArguments(of) => S::CallsWithArguments(of),
            Record::Resources(of) => S::Resources(of),
            Record::Collection { start, end } => S::Collection { start, end },
            Record::Processors(of) => S::Processors(of),
            Record::SamplingRate(of) => S::SamplingRate(of),
            Record::HeapStatics { snapshot, fields } => S::HeapStatics { snapshot, fields },
            Record::HeapFields { snapshot, classes } => S::HeapFields { snapshot, classes },
        };
        vec![same]
    }

    fn row<R: Row>(&mut self, row: R) -> Vec<SessionRecord> {
        let name = (R::PROFILER, R::TABLE);
        let known = self.tables.iter().position(|table| *table == name);
        let id = TableId(known.unwrap_or(self.tables.len()) as u32);
        let mut records = Vec::new();
        if known.is_none() {
            self.tables.push(name);
            records.push(SessionRecord::Table(R::table(id)));
        }
        records.extend(R::batches(id, &[row]).map(SessionRecord::Rows));
        records
    }
}
