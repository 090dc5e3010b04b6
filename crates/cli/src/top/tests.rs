//! The live view of a made-up recording, at the size of the smallest usual terminal.

use super::{
    content_of,
    draw::Theme,
    screen::{self, Shown},
    state::State,
};
use api::live::View;
use profile::Live;
use profilers::{
    exceptions::{ExceptionCount, ExceptionSample},
    gc::{Collection, Pause},
};
use ratatui::{Terminal, backend::TestBackend};
use report::{PANES, PaneContent};
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

/// What the chosen pane shows.
fn content(live: &Live, state: &State) -> PaneContent {
    content_of(live.recent(state.window()).as_ref(), state)
}

/// Draws the screen.
fn draw(live: &Live, state: &State, (width, height): (u16, u16), theme: Theme) -> String {
    let recent = live.recent(state.window());
    let content = content_of(recent.as_ref(), state);
    let (left_out, ended) = (0, live.has_ended());
    let shown = Shown { recent: recent.as_ref(), content: &content, left_out, ended };
    let mut terminal =
        Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| screen::draw(frame, shown, state, theme)).expect("drawing in memory");
    terminal.backend().to_string()
}

/// The screen at the size of the smallest usual terminal.
fn drawn(live: &Live, state: &State) -> String {
    draw(live, state, (80, 24), Theme::new(true))
}

#[test]
fn the_panes_at_80_by_24() {
    let live = live();
    let mut state = State::new();
    for (index, pane) in PANES.iter().enumerate() {
        state.pane = index;
        insta::assert_snapshot!(format!("top-{}", pane.title.to_lowercase()), drawn(&live, &state));
    }
    state.help = true;
    insta::assert_snapshot!("top-help", drawn(&live, &state));
}

#[test]
fn the_numbers_are_those_of_the_records() {
    let live = live();
    let view = View::of(live.recent(Duration::from_secs(5)).as_ref());
    let method = |name: &str| view.methods.iter().find(|row| row.name.contains(name)).expect(name);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(method("Price").own, 0.7) && near(method("Tax").own, 0.3));
    assert!(near(method("Main").own, 0.0) && near(method("Main").total, 1.0));
    assert!(near(method("Price").own_ms, 700.0));
    assert!(
        near(view.cpu, 1.0) && near(view.paused, 0.031) && near(view.exceptions_per_second, 120.0)
    );
    assert_eq!((view.samples, view.dropped, view.window_seconds), (100, 3, 1.0));
    assert_eq!(view.allocated_per_second, None, "no profiler recorded allocations");
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
    assert!(content(&live, &state).table.rows.is_empty());
    assert!(drawn(&live, &state).contains("only worker (4243)"));
    state.thread = Some(ThreadId(0));
    assert_eq!(content(&live, &state).table.rows.len(), 3);
}

#[test]
fn methods_are_sorted_by_self_or_by_total() {
    let live = live();
    let mut state = State::new();
    let first = |state: &State| content(&live, state).details[0].text.clone();
    assert!(first(&state).contains("Price"), "{}", first(&state));
    state.by_total = true;
    assert!(first(&state).contains("Main"), "{}", first(&state));
}

#[test]
fn a_search_leaves_rows_with_its_text() {
    let live = live();
    let mut state = State::new();
    let mut rows = |pane, text: &str| {
        (state.pane, state.search) = (pane, text.to_owned());
        content(&live, &state).table.rows.len()
    };
    // Also of what the table has no room for; upper and lower case are the same.
    assert_eq!([rows(0, "price"), rows(0, "contoso"), rows(0, "70")], [1, 3, 0]);
    assert_eq!([rows(1, "4243"), rows(1, "lock"), rows(2, "cart is")], [1, 1, 1]);
    assert_eq!(rows(0, "nothing like it"), 0);
    let screen = drawn(&live, &state);
    assert!(screen.contains("No row has this text."), "{screen}");
}

#[test]
fn the_window_slides() {
    let mut live = live();
    for _ in 0..10 {
        live.cut(Duration::from_secs(1));
    }
    let view = |live: &Live, seconds| View::of(live.recent(Duration::from_secs(seconds)).as_ref());
    assert_eq!(view(&live, 5).samples, 0, "five idle seconds");
    let minute = view(&live, 60);
    assert_eq!((minute.samples, minute.cpu_history.len()), (100, 11));
    assert_eq!(minute.exceptions[0].count, 120, "counts are since the start");
    for _ in 0..100 {
        live.cut(Duration::from_secs(1));
    }
    assert_eq!(view(&live, 60).samples, 0);
}

#[test]
fn every_size_can_be_drawn() {
    let live = live();
    let mut state = State::new();
    for size in [(1, 1), (10, 3), (40, 10), (80, 24), (300, 100)] {
        for pane in 0..PANES.len() {
            for help in [false, true] {
                (state.pane, state.help) = (pane, help);
                draw(&live, &state, size, Theme::new(false));
            }
        }
    }
}

#[test]
fn before_the_first_record_there_is_something_to_see() {
    let text = drawn(&Live::new(), &State::new());
    assert!(text.contains("waiting for the first samples"), "{text}");
}
