//! What the latest slices of a recording say that is being made.

use profile::{Live, session::*};
use profilers::{
    allocations::{AllocationHeap, AllocationSample, AllocationSampling},
    exact_allocations::Allocated,
};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// A recording of a thread in `Main`, of which nothing was sampled yet.
fn live(rows: &mut RowBuffer) -> Live {
    let mut live = Live::new();
    let mut add = |record: SessionRecord| live.add(&record).unwrap();
    add(SessionRecord::Info(SessionInfo {
        tool_version: "0.1.0".into(),
        pid: 4242,
        process_name: "Shop".into(),
        command_line: "dotnet Shop.dll".into(),
        runtime: "9.0.5".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 0,
        start: 10 * SECOND,
        cpus: 2,
        profilers: Vec::new(),
    }));
    add(SessionRecord::Thread(ThreadDef {
        id: ThreadId(0),
        os_tid: 4242,
        name: None,
        managed: true,
        started: None,
        ended: None,
    }));
    add(SessionRecord::Function(FunctionDef {
        id: FunctionId(0),
        kind: FunctionKind::Managed,
        module: None,
        type_name: "Shop".into(),
        name: "Main".into(),
        parameters: "()".into(),
        state_machine: None,
    }));
    let (id, function, trust) = (FrameId(0), FunctionId(0), FrameTrust::Tables);
    add(SessionRecord::Frame(FrameDef { id, function, line: None, trust }));
    add(SessionRecord::Stack(StackDef { id: StackId(0), parent: None, frame: FrameId(0) }));
    add(SessionRecord::Type(TypeDef { id: TypeId(0), name: "System.Byte[]".into() }));
    rows.take().into_iter().for_each(add);
    live
}

/// Bytes per second in the latest seconds.
fn rate(live: &Live, seconds: u64) -> Option<f64> {
    live.recent(Duration::from_secs(seconds)).unwrap().allocated_per_second
}

#[test]
fn allocations_have_a_rate_once_there_are_any() {
    let mut rows = RowBuffer::default();
    let mut live = live(&mut rows);
    live.cut(Duration::from_secs(1));
    assert_eq!(rate(&live, 5), None, "nothing says that it allocates");
    for bytes in [100_000, 300_000] {
        rows.push(&AllocationSample {
            time: 11 * SECOND,
            thread: ThreadId(0),
            stack: StackId(0),
            ty: TypeId(0),
            heap: AllocationHeap::Small,
            size: 24,
            bytes,
            truncated: false,
            sampling: AllocationSampling::Tick,
        });
    }
    rows.take().iter().for_each(|record| live.add(record).unwrap());
    live.cut(Duration::from_secs(2));
    assert_eq!(rate(&live, 1), Some(200_000.0));
    assert_eq!(rate(&live, 3), Some(400_000.0 / 3.0));
    live.cut(Duration::from_secs(1));
    assert_eq!(rate(&live, 1), Some(0.0), "an idle second");
}

#[test]
fn objects_that_are_all_counted_have_a_rate() {
    let mut rows = RowBuffer::default();
    let mut live = live(&mut rows);
    let time = 11 * SECOND;
    rows.push(&Allocated { time, thread: ThreadId(0), ty: TypeId(0), objects: 3, bytes: 72 });
    rows.take().iter().for_each(|record| live.add(record).unwrap());
    live.cut(Duration::from_secs(1));
    assert_eq!(rate(&live, 1), Some(72.0));
}
