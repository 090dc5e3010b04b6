//! The live view of a made-up recording, at the size of the smallest usual terminal.

use super::{
    model::Live,
    screen::{self, Theme},
    state::{State, Tab},
};
use profilers::{
    exceptions::{ExceptionCount, ExceptionSample},
    gc::{Collection, Pause},
};
use ratatui::{Terminal, backend::TestBackend};
use session::{
    Entry, FrameDef, FrameId, FrameTrust, FunctionDef, FunctionId, FunctionKind, ModuleDef,
    ModuleId, ObserverStatus, ProfilerRun, RowBuffer, SampleBatch, SessionInfo, SessionRecord,
    StackDef, StackId, ThreadDef, ThreadId, ThreadState, TypeDef, TypeId,
};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// Two threads: one burns 70 : 30 in two methods below `Main`, one waits for a lock; 120 exceptions
/// and a collection.
fn live() -> Live {
    let mut live = Live::new();
    let mut add = |record: SessionRecord| live.add(&record).expect("the records fit each other");
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
        profilers: vec![ProfilerRun {
            id: "cpu".into(),
            engine: "kernel ring".into(),
            rate_hz: Some(100),
            params: vec![],
        }],
    }));
    add(SessionRecord::Module(ModuleDef {
        id: ModuleId(0),
        managed: true,
        name: "Shop".into(),
        path: "/srv/Shop.dll".into(),
        build_id: None,
    }));
    for (id, name) in [(0, Some("main")), (1, Some("worker"))] {
        add(SessionRecord::Thread(ThreadDef {
            id: ThreadId(id),
            os_tid: 4242 + id,
            name: name.map(Into::into),
            managed: true,
            started: None,
            ended: None,
        }));
    }
    for (id, name) in [(0, "Main"), (1, "Price"), (2, "Tax")] {
        add(SessionRecord::Function(FunctionDef {
            id: FunctionId(id),
            kind: FunctionKind::Managed,
            module: Some(ModuleId(0)),
            type_name: "Contoso.Shop.Cart<System.Decimal>".into(),
            name: name.into(),
            parameters: "(System.String)".into(),
            state_machine: None,
        }));
        let function = FunctionId(id);
        add(SessionRecord::Frame(FrameDef {
            id: FrameId(id),
            function,
            line: None,
            trust: FrameTrust::Tables,
        }));
    }
    for (id, parent) in [(0, None), (1, Some(0)), (2, Some(0))] {
        add(SessionRecord::Stack(StackDef {
            id: StackId(id),
            parent: parent.map(StackId),
            frame: FrameId(id),
        }));
    }
    add(SessionRecord::Type(TypeDef {
        id: TypeId(0),
        name: "System.InvalidOperationException".into(),
    }));
    let batch = |rows: &[(u32, u32, ThreadState)], weight| SampleBatch {
        start: 10 * SECOND,
        time_delta: vec![weight; rows.len()],
        thread: rows.iter().map(|row| ThreadId(row.0)).collect(),
        stack: rows.iter().map(|row| StackId(row.1)).collect(),
        weight: vec![weight; rows.len()],
        state: rows.iter().map(|row| row.2).collect(),
        truncated: vec![false; rows.len()],
    };
    let cpu: Vec<_> =
        (0..100).map(|row| (0, if row < 70 { 1 } else { 2 }, ThreadState::Running)).collect();
    add(SessionRecord::CpuSamples(batch(&cpu, SECOND / 100)));
    let mut wall = vec![(0, 1, ThreadState::Running); 20];
    wall.extend([(1, 0, ThreadState::Lock); 16]);
    wall.extend([(1, 0, ThreadState::Sleep); 4]);
    add(SessionRecord::WallSamples(batch(&wall, SECOND / 20)));
    let mut rows = RowBuffer::default();
    rows.push(&ExceptionSample {
        time: 10 * SECOND,
        thread: ThreadId(0),
        ty: TypeId(0),
        message: Some("the cart is\x1b[31m empty".into()),
        stack: StackId(2),
        weight: 120,
        caught_by: None,
        time_to_catch: None,
    });
    rows.push(&ExceptionCount { time: 11 * SECOND, ty: TypeId(0), count: 120 });
    rows.push(&Collection {
        number: 17,
        generation: 2,
        reason: "AllocSmall".into(),
        kind: "NonConcurrentGC".into(),
        induced: false,
        start: 10 * SECOND,
        end: 10 * SECOND + 30_000_000,
        size_after: [0, 1_000_000, 20_000_000, 3_000_000, 0],
        promoted: [0, 500_000, 0, 0, 0],
        pinned_objects: 0,
        gc_handles: 0,
    });
    rows.push(&Pause {
        reason: "SuspendForGC".into(),
        gc: Some(17),
        suspend_start: 10 * SECOND,
        suspend_end: 10 * SECOND + 1_000_000,
        resume_start: 10 * SECOND + 30_000_000,
        resume_end: 10 * SECOND + 31_000_000,
    });
    rows.take().into_iter().for_each(&mut add);
    add(SessionRecord::Observer(ObserverStatus {
        time: 11 * SECOND,
        dropped: vec![("ring full".into(), 3)],
        ..ObserverStatus::default()
    }));
    live.cut(Duration::from_secs(1));
    live
}

/// The screen as text.
fn drawn(live: &Live, state: &State) -> String {
    let view = live.view(state.question());
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal in memory");
    terminal
        .draw(|frame| screen::draw(frame, &view, state, Theme::new(true)))
        .expect("drawing in memory");
    terminal.backend().to_string()
}

#[test]
fn the_pages_at_80_by_24() {
    let live = live();
    let mut state = State::new();
    for (tab, title) in Tab::ALL {
        state.tab = tab;
        insta::assert_snapshot!(format!("top-{}", title.to_lowercase()), drawn(&live, &state));
    }
    state.help = true;
    insta::assert_snapshot!("top-help", drawn(&live, &state));
}

#[test]
fn the_numbers_are_those_of_the_records() {
    let live = live();
    let view = live.view(State::new().question());
    let method = |name: &str| view.methods.iter().find(|row| row.name.contains(name)).expect(name);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(method("Price").own, 0.7) && near(method("Tax").own, 0.3));
    assert!(near(method("Main").own, 0.0) && near(method("Main").total, 1.0));
    assert!(
        near(view.cpu, 1.0) && near(view.paused, 0.031) && near(view.exceptions_per_second, 120.0)
    );
    assert_eq!((view.samples, view.dropped), (100, 3));
    let worker = view.threads.iter().find(|row| row.name == "worker").expect("worker");
    assert_eq!(worker.state, Some("lock"));
    assert_eq!(view.collections[0].pause_ms, Some(31.0));
    assert_eq!(view.exceptions[0].count, 120);
}

#[test]
fn a_thread_filter_leaves_its_methods_only() {
    let live = live();
    let mut state = State::new();
    state.thread = Some(ThreadId(1));
    let view = live.view(state.question());
    assert!(view.methods.is_empty());
    assert_eq!(view.thread_filter.as_deref(), Some("worker (4243)"));
    state.thread = Some(ThreadId(0));
    assert_eq!(live.view(state.question()).methods.len(), 3);
}

#[test]
fn the_window_slides() {
    let mut live = live();
    for _ in 0..10 {
        live.cut(Duration::from_secs(1));
    }
    let mut question = State::new().question();
    assert_eq!(live.view(question).samples, 0, "five idle seconds");
    question.window = Duration::from_secs(60);
    let view = live.view(question);
    assert_eq!((view.samples, view.cpu_history.len()), (100, 11));
    assert_eq!(view.exceptions[0].count, 120, "counts are since the start");
    for _ in 0..100 {
        live.cut(Duration::from_secs(1));
    }
    assert_eq!(live.view(question).samples, 0);
}

#[test]
fn every_size_can_be_drawn() {
    let live = live();
    let mut state = State::new();
    let view = live.view(state.question());
    for (width, height) in [(1, 1), (10, 3), (40, 10), (80, 24), (300, 100)] {
        for (tab, _) in Tab::ALL {
            for help in [false, true] {
                (state.tab, state.help) = (tab, help);
                let mut terminal =
                    Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
                terminal
                    .draw(|frame| screen::draw(frame, &view, &state, Theme::new(false)))
                    .expect("drawing");
            }
        }
    }
}

#[test]
fn before_the_first_record_there_is_something_to_see() {
    let text = drawn(&Live::new(), &State::new());
    assert!(text.contains("waiting for the first samples"), "{text}");
}
