//! Records of format 1, and what they are today.
//!
//! Files have the number of a variant, so neither the variants here nor what they hold may change.
//! What is written today is [`SessionRecord`]: rows of tables have taken the place of some records.

mod records;

use records::{
    AllocatedObjects, AllocationBatch, CallBatch, CompilationBatch, ContentionBatch, Counter,
    CounterValues, Exception, ExceptionCounts, GcEvent, InducedGc, Load, PauseEvent, PoolEvent,
    PrecompiledCount, ThreadCreation, TypeLoadBatch, Unload, Window,
};
use rows::Row;
use serde::Deserialize;

use crate::{
    AsyncStateMachine, CallArguments, ClassFields, FrameDef, FunctionDef, HeapEnd,
    InstrumentedMethod, MethodParameters, ModelError, ModuleDef, Nanos, ObserverStatus,
    ProcessorUse, RecompiledMethod, ResourceUse, RewrittenMethod, RowBuffer, SampleBatch,
    SamplingRate, SessionEnd, SessionInfo, SessionRecord, SingleCall, StackDef, StaticField,
    SurvivorSnapshot, ThreadDef, ThreadSnapshot, TracedCalls, TypeDef,
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
    Exception(Exception),
    ExceptionCounts(ExceptionCounts),
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
    Counter(Counter),
    CounterValues(CounterValues),
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
    AssemblyLoad(Load),
    AssemblyUnload(Unload),
    TypeLoads(TypeLoadBatch),
    Survivors(SurvivorSnapshot),
    AsyncStateMachines {
        snapshot: u32,
        machines: Vec<AsyncStateMachine>,
    },
    AllocatedObjects(AllocatedObjects),
    AllocationWindow(Window),
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

/// Makes records of today of those of format 1.
#[derive(Debug, Default)]
pub(crate) struct Upgrade {
    buffer: RowBuffer,
}

impl Upgrade {
    /// What a record is today: one record, or a table and its rows.
    ///
    /// # Errors
    /// When the columns of a batch have different lengths.
    pub fn record(&mut self, record: Record) -> Result<Vec<SessionRecord>, ModelError> {
        use SessionRecord as S;
        let same = match record {
            Record::Exception(old) => return self.rows(old.rows()),
            Record::ExceptionCounts(old) => return self.rows(old.rows()),
            Record::Gc(old) => return self.rows(old.rows()),
            Record::Pause(old) => return self.rows(old.rows()),
            Record::InducedGc(old) => return self.rows(old.rows()),
            Record::Allocations(old) => return self.rows(old.rows()),
            Record::AllocationWindow(old) => return self.rows(old.rows()),
            Record::AllocatedObjects(old) => return self.rows(old.rows()),
            Record::Contentions(old) => return self.rows(old.rows()),
            Record::Counter(old) => return self.rows(old.rows()),
            Record::CounterValues(old) => return self.rows(old.rows()),
            Record::ThreadCreation(old) => return self.rows(old.rows()),
            Record::PoolEvent(old) => return self.rows(old.rows()),
            Record::Calls(old) if old.is_of_methods() => return self.rows(old.calls()),
            Record::Calls(old) => return self.rows(old.transitions()),
            Record::Compilations(old) => return self.rows(old.rows()),
            Record::Precompiled(old) => return self.rows(old.rows()),
            Record::AssemblyLoad(old) => return self.rows(old.rows()),
            Record::AssemblyUnload(old) => return self.rows(old.rows()),
            Record::TypeLoads(old) => return self.rows(old.rows()),
            Record::Info(of) => S::Info(of),
            Record::Thread(of) => S::Thread(of),
            Record::Module(of) => S::Module(of),
            Record::Function(of) => S::Function(of),
            Record::Frame(of) => S::Frame(of),
            Record::Stack(of) => S::Stack(of),
            Record::Type(of) => S::Type(of),
            Record::CpuSamples(of) => S::CpuSamples(of),
            Record::WallSamples(of) => S::WallSamples(of),
            Record::Observer(of) => S::Observer(of),
            Record::Note { time, message } => S::Note { time, message },
            Record::End(of) => S::End(of),
            Record::Engine { profiler, engine } => S::Engine { profiler, engine },
            Record::ThreadSnapshot(of) => S::ThreadSnapshot(of),
            Record::PoolSamples(of) => S::PoolSamples(of),
            Record::HeapBegin { snapshot, time } => S::HeapBegin { snapshot, time },
            Record::HeapChunk { snapshot, bytes } => S::HeapChunk { snapshot, bytes },
            Record::HeapClasses { snapshot, classes } => S::HeapClasses { snapshot, classes },
            Record::HeapMethods { snapshot, methods } => S::HeapMethods { snapshot, methods },
            Record::HeapEnd(of) => S::HeapEnd(of),
            Record::Survivors(of) => S::Survivors(of),
            Record::AsyncStateMachines { snapshot, machines } => {
                S::AsyncStateMachines { snapshot, machines }
            }
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
        Ok(vec![same])
    }

    fn rows<R: Row>(&mut self, rows: Option<Vec<R>>) -> Result<Vec<SessionRecord>, ModelError> {
        rows.ok_or(ModelError::RaggedBatch)?.iter().for_each(|row| self.buffer.push(row));
        Ok(self.buffer.take())
    }
}
