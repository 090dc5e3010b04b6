//! Files of format 1 are read as records of today.

use profilers::{
    allocations::{AllocationSample, AllocationWindow},
    calls::Calls,
    counters::{CounterDef, CounterValue},
    exact_allocations::Allocated,
    exceptions::{ExceptionCount, ExceptionSample},
    gc::{Collection, Induced, Pause},
    jit::{Compilation, Lookups},
    loads::{AssemblyLoad, TypeLoad, Unloaded},
    locks::Wait,
    threadpool::{PoolChange, PoolEvent},
    threads::Creation,
};
use rows::Row;
use session::{InstrumentedMethod, RowBatch, SessionReader, SessionRecord, TableDef};

/// Rows as the text of the records that they were. The text has what `Debug` gives.
type Describe = fn(&TableDef, &RowBatch) -> Option<String>;

/// All tables whose rows were records.
const TABLES: &[Describe] = &[
    |table, batch| {
        let rows = read::<Compilation>(table, batch)?;
        let times = times(rows.iter().map(|row| row.time));
        let columns = [
            column("thread", rows.iter().map(|row| row.thread)),
            column("stack", rows.iter().map(|row| row.stack)),
            column("duration", rows.iter().map(|row| row.duration)),
            column("method", rows.iter().map(|row| row.method)),
            column("tier", rows.iter().map(|row| row.tier)),
            column("il_size", rows.iter().map(|row| row.il_size)),
            column("native_size", rows.iter().map(|row| row.native_size)),
            column("background", rows.iter().map(|row| row.background)),
            column("precompiled", rows.iter().map(|row| row.precompiled)),
            column("truncated", rows.iter().map(|row| row.truncated)),
        ];
        let columns = columns.join(", ");
        Some(format!("Compilations(CompilationBatch {{ {times}, {columns} }})"))
    },
    |table, batch| {
        let rows = read::<Lookups>(table, batch)?;
        Some(format!("Precompiled({})", renamed(&rows[0], "Lookups", "PrecompiledCount")))
    },
    |table, batch| {
        let rows = read::<Collection>(table, batch)?;
        Some(format!("Gc({})", renamed(&rows[0], "Collection", "GcEvent")))
    },
    |table, batch| {
        let rows = read::<Pause>(table, batch)?;
        Some(format!("Pause({})", renamed(&rows[0], "Pause", "PauseEvent")))
    },
    |table, batch| {
        let rows = read::<Induced>(table, batch)?;
        Some(format!("InducedGc({})", renamed(&rows[0], "Induced", "InducedGc")))
    },
    |table, batch| {
        let rows = read::<Wait>(table, batch)?;
        let times = times(rows.iter().map(|row| row.time));
        let columns = [
            column("thread", rows.iter().map(|row| row.thread)),
            column("stack", rows.iter().map(|row| row.stack)),
            column("duration", rows.iter().map(|row| row.duration)),
            // 0 was a lock that is not known.
            column("lock", rows.iter().map(|row| row.lock.unwrap_or(0))),
            column("owner", rows.iter().map(|row| row.owner)),
            column("truncated", rows.iter().map(|row| row.truncated)),
        ];
        Some(format!("Contentions(ContentionBatch {{ {times}, {} }})", columns.join(", ")))
    },
    |table, batch| {
        let rows = read::<Creation>(table, batch)?;
        let Creation { time, thread, creator, stack, managed_id, pool } = rows[0];
        let creator = creator.zip(stack);
        Some(format!(
            "ThreadCreation(ThreadCreation {{ time: {time}, thread: {thread:?}, creator: \
             {creator:?}, managed_id: {managed_id}, pool: {pool} }})"
        ))
    },
    |table, batch| {
        let rows = read::<PoolEvent>(table, batch)?;
        let PoolEvent { time, change, workers, throughput, reason, .. } = &rows[0];
        assert_eq!(*change, PoolChange::Adjusted);
        let (throughput, reason) = (throughput.unwrap(), reason.as_ref().unwrap());
        Some(format!(
            "PoolEvent(PoolEvent {{ time: {time}, change: Adjusted {{ workers: {workers}, \
             throughput: {throughput}, reason: {reason:?} }} }})"
        ))
    },
    |table, batch| {
        let rows = read::<Calls>(table, batch)?;
        let Calls { time, thread, .. } = rows[0];
        let columns = [
            column("stack", rows.iter().map(|row| row.stack)),
            column("count", rows.iter().map(|row| row.count)),
            column("own", rows.iter().map(|row| row.own)),
        ];
        let columns = columns.join(", ");
        Some(format!(
            "Calls(CallBatch {{ kind: Methods, time: {time}, thread: {thread:?}, {columns} }})"
        ))
    },
    |table, batch| {
        let rows = read::<CounterDef>(table, batch)?;
        let text = renamed(&rows[0], "CounterDef { counter: ", "CounterDef { id: CounterId(");
        Some(format!("Counter({})", text.replacen(", source", "), source", 1)))
    },
    |table, batch| {
        let rows = read::<CounterValue>(table, batch)?;
        let values =
            rows.iter().map(|row| format!("(CounterId({}), {:?})", row.counter, row.value));
        let values = values.collect::<Vec<_>>().join(", ");
        Some(format!("CounterValues {{ time: {}, values: [{values}] }}", rows[0].time))
    },
    |table, batch| {
        let rows = read::<ExceptionSample>(table, batch)?;
        Some(format!("Exception({:?})", rows[0]))
    },
    |table, batch| {
        let rows = read::<ExceptionCount>(table, batch)?;
        let counts: Vec<_> = rows.iter().map(|row| (row.ty, row.count)).collect();
        Some(format!("ExceptionCounts {{ time: {}, counts: {counts:?} }}", rows[0].time))
    },
    |table, batch| {
        let rows = read::<AllocationSample>(table, batch)?;
        let sampling = rows[0].sampling;
        let times = times(rows.iter().map(|row| row.time));
        let columns = [
            column("thread", rows.iter().map(|row| row.thread)),
            column("stack", rows.iter().map(|row| row.stack)),
            column("ty", rows.iter().map(|row| row.ty)),
            column("heap", rows.iter().map(|row| row.heap)),
            column("size", rows.iter().map(|row| row.size)),
            column("bytes", rows.iter().map(|row| row.bytes)),
            column("truncated", rows.iter().map(|row| row.truncated)),
        ];
        let columns = columns.join(", ");
        Some(format!(
            "Allocations(AllocationBatch {{ sampling: {sampling:?}, {times}, {columns} }})"
        ))
    },
    |table, batch| {
        let rows = read::<AllocationWindow>(table, batch)?;
        Some(format!("AllocationWindow({:?})", rows[0]))
    },
    |table, batch| {
        let rows = read::<Allocated>(table, batch)?;
        let Allocated { time, thread, .. } = rows[0];
        let counts: Vec<_> = rows.iter().map(|row| (row.ty, row.objects, row.bytes)).collect();
        Some(format!(
            "AllocatedObjects(AllocatedObjects {{ time: {time}, thread: {thread:?}, counts: \
             {counts:?} }})"
        ))
    },
    |table, batch| {
        let rows = read::<AssemblyLoad>(table, batch)?;
        let text = renamed(&rows[0], "AssemblyLoad", "AssemblyLoad");
        let (before, rest) = text.split_once("step: ").unwrap();
        let (_, after) = rest.split_once(", dynamic: ").unwrap();
        let steps: Vec<String> =
            rows[0].steps().map(|step| renamed(&step, "LoadStep", "LoadStep")).collect();
        let steps = steps.join(", ");
        Some(format!("AssemblyLoad({before}steps: [{steps}], dynamic: {after})"))
    },
    |table, batch| {
        let rows = read::<TypeLoad>(table, batch)?;
        let times = times(rows.iter().map(|row| row.time));
        let columns = [
            column("thread", rows.iter().map(|row| row.thread)),
            column("stack", rows.iter().map(|row| row.stack)),
            column("ty", rows.iter().map(|row| row.ty)),
            column("duration", rows.iter().map(|row| row.duration)),
            column("own", rows.iter().map(|row| row.own)),
            column("truncated", rows.iter().map(|row| row.truncated)),
        ];
        Some(format!("TypeLoads(TypeLoadBatch {{ {times}, {} }})", columns.join(", ")))
    },
    |table, batch| {
        let rows = read::<Unloaded>(table, batch)?;
        Some(renamed(&rows[0], "Unloaded", "AssemblyUnload"))
    },
];

/// The rows of a batch of this table, none of another.
fn read<R: Row>(table: &TableDef, batch: &RowBatch) -> Option<Vec<R>> {
    R::is(table).then(|| R::read(table, batch).unwrap())
}

/// The first columns of a batch. Its times began with that of the first row.
fn times(times: impl Iterator<Item = u64>) -> String {
    let times: Vec<u64> = times.collect();
    let deltas = std::iter::once(0).chain(times.windows(2).map(|pair| pair[1] - pair[0]));
    format!("start: {}, {}", times[0], column("time_delta", deltas))
}

/// A column of a batch.
fn column<V: std::fmt::Debug>(name: &str, values: impl Iterator<Item = V>) -> String {
    format!("{name}: {:?}", values.collect::<Vec<_>>())
}

/// A row whose structure had another name.
fn renamed(row: &impl std::fmt::Debug, today: &str, then: &str) -> String {
    let text = format!("{row:?}");
    format!("{then}{}", text.strip_prefix(today).unwrap())
}

/// A record as the text of what it was. Structures that are those of the agent today had names of
/// their own.
fn described(record: &SessionRecord) -> String {
    match record {
        SessionRecord::Type(ty) => format!("Type({})", renamed(ty, "Class", "TypeDef")),
        SessionRecord::Survivors(of) => {
            let collection = renamed(&of.collection, "SurvivedCollection {", "");
            let collection = collection.strip_suffix(" }").unwrap();
            let (counts, held) = (&of.counts, &of.held);
            format!(
                "Survivors(SurvivorSnapshot {{{collection}, counts: {counts:?}, held: {held:?} }})"
            )
        }
        SessionRecord::Instrumented(InstrumentedMethod { time, of }) => {
            let of = renamed(of, "Instrumented { method", "function");
            format!("Instrumented(InstrumentedMethod {{ time: {time}, {of})")
        }
        SessionRecord::Rewritten(method) => {
            let text = renamed(method, "Rewritten", "RewrittenMethod").replace("Il {", "IlBody {");
            format!("Rewritten({})", text.replacen("method:", "function:", 1))
        }
        SessionRecord::Recompiled(method) => {
            let text = renamed(method, "Recompiled", "RecompiledMethod");
            format!("Recompiled({})", text.replacen("method:", "function:", 1))
        }
        SessionRecord::Parameters(method) => {
            let text = renamed(method, "Parameters", "MethodParameters");
            format!("Parameters({})", text.replacen("method:", "function:", 1))
        }
        SessionRecord::Traced(calls) => {
            format!("Traced({})", renamed(calls, "Traced", "TracedCalls"))
        }
        SessionRecord::CallsWithArguments(_) => {
            format!("{record:?}").replace("Object { class:", "Object { ty:")
        }
        record => format!("{record:?}"),
    }
}

/// The records of the file of format 1.
fn records() -> Vec<SessionRecord> {
    let bytes = include_bytes!("data/format1.session");
    assert_eq!(bytes[8..12], [1, 0, 0, 0]);
    let mut reader = SessionReader::new(&bytes[..]).unwrap();
    let records = reader.by_ref().map(Result::unwrap).collect();
    assert!(!reader.cut_short());
    records
}

/// The file was written by the last version of format 1, and so was the text, which says of each
/// record what was written.
#[test]
fn files_of_format_1_are_read_as_records_of_today() {
    let records = records();
    let mut tables: Vec<&TableDef> = Vec::new();
    let mut texts = Vec::new();
    for record in &records {
        match record {
            // Ids count up, and a table is defined once: the reader has checked both.
            SessionRecord::Table(table) => tables.push(table),
            SessionRecord::Rows(batch) => {
                let table = tables[batch.table.0 as usize];
                let text = TABLES.iter().find_map(|describe| describe(table, batch));
                texts.push(text.unwrap_or_else(|| panic!("{table:?}")));
            }
            record => texts.push(described(record)),
        }
    }
    let lines: Vec<&str> = include_str!("data/format1.txt").lines().collect();
    for (text, line) in texts.iter().zip(&lines) {
        assert_eq!(text, line);
    }
    assert_eq!(texts.len(), lines.len());
    assert_eq!(tables.len(), TABLES.len(), "the file has rows of every table");
}
