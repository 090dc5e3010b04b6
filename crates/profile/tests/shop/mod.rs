//! A small recording with a bit of everything, the same in each run, and names that no format may
//! stumble over.
#![allow(dead_code)]

use profile::{BuildOptions, Profile, rows::Row, session::*};
use profilers::{
    exceptions::{ExceptionCount, ExceptionSample},
    gc::{Collection, Induced, Pause},
};

/// A type name that would end a script element, an HTML comment, a Markdown cell, a collapsed frame
/// and a terminal line.
pub const HOSTILE: &str =
    "Evil</script><script>document.title='owned'</script><!--|`;\u{1b}[31m\n\"'&\\";

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// The recording begins at this time of its clock.
pub const START: u64 = 5_000 * MS;

pub struct Builder {
    pub records: Vec<SessionRecord>,
    functions: u32,
    frames: u32,
    stacks: u32,
    known: std::collections::HashMap<(Option<StackId>, FrameId), StackId>,
    rows: RowBuffer,
}

impl Builder {
    fn row(&mut self, row: &impl Row) {
        self.rows.push(row);
        self.records.extend(self.rows.take());
    }

    fn function(
        &mut self,
        kind: FunctionKind,
        module: u32,
        ty: &str,
        name: &str,
        parameters: &str,
    ) -> FunctionId {
        let id = FunctionId(self.functions);
        self.functions += 1;
        let state_machine = name.ends_with("Async").then_some(StateMachine::Async);
        self.records.push(SessionRecord::Function(FunctionDef {
            id,
            kind,
            module: Some(ModuleId(module)),
            type_name: ty.into(),
            name: name.into(),
            parameters: parameters.into(),
            state_machine,
        }));
        id
    }

    fn frame(&mut self, function: FunctionId, line: Option<(&str, u32)>) -> FrameId {
        let id = FrameId(self.frames);
        self.frames += 1;
        let line = line.map(|(file, line)| SourceLine { file: format!("/src/shop/{file}"), line });
        self.records.push(SessionRecord::Frame(FrameDef {
            id,
            function,
            line,
            trust: FrameTrust::Tables,
        }));
        id
    }

    /// A stack of frames, root first.
    fn stack(&mut self, frames: &[FrameId]) -> StackId {
        let mut at = None;
        for frame in frames {
            at = Some(*self.known.entry((at, *frame)).or_insert_with(|| {
                let id = StackId(self.stacks);
                self.stacks += 1;
                self.records.push(SessionRecord::Stack(StackDef { id, parent: at, frame: *frame }));
                id
            }));
        }
        at.unwrap()
    }
}

/// Samples in columns, given by time.
#[derive(Default)]
struct Rows(Vec<(u64, u32, StackId, u64, ThreadState, bool)>);

impl Rows {
    fn batch(mut self) -> SampleBatch {
        self.0.sort_by_key(|row| row.0);
        let mut batch = SampleBatch { start: START, ..SampleBatch::default() };
        let mut last = START;
        for (time, thread, stack, weight, state, truncated) in self.0 {
            batch.time_delta.push(time - last);
            last = time;
            batch.thread.push(ThreadId(thread));
            batch.stack.push(stack);
            batch.weight.push(weight);
            batch.state.push(state);
            batch.truncated.push(truncated);
        }
        batch
    }
}

/// Ten seconds of a sick little shop.
pub fn records() -> Vec<SessionRecord> {
    use FunctionKind::*;
    let mut b = Builder {
        records: Vec::new(),
        functions: 0,
        frames: 0,
        stacks: 0,
        known: Default::default(),
        rows: RowBuffer::default(),
    };
    let run = |id: &str, engine: &str, rate_hz| ProfilerRun {
        id: id.into(),
        engine: engine.into(),
        rate_hz,
        params: vec![],
    };
    b.records.push(SessionRecord::Info(SessionInfo {
        tool_version: "0.1.0".into(),
        pid: 4711,
        process_name: "shop".into(),
        command_line: "dotnet /app/shop.dll --urls http://localhost:5000".into(),
        runtime: "9.0.5".into(),
        platform: "linux-x64".into(),
        entry: Entry::Attached,
        start_unix_ms: 1_700_000_000_000,
        start: START,
        cpus: 8,
        profilers: vec![
            ProfilerRun {
                params: vec![("max-depth".into(), "256".into())],
                ..run("cpu", "kernel ring, read from outside", Some(99))
            },
            run("wall", "suspend and walk", Some(20)),
            run("exceptions", "callbacks of the runtime", None),
            run("gc", "events of the runtime", None),
        ],
    }));
    for (id, name, managed) in [
        (0, Some("Main"), true),
        (1, Some(".NET TP Worker"), true),
        (2, Some(".NET TP Worker"), true),
        (3, Some("Audit <log> & \"mail\""), true),
        (4, None, false),
    ] {
        b.records.push(SessionRecord::Thread(ThreadDef {
            id: ThreadId(id),
            os_tid: 4711 + id,
            name: name.map(str::to_owned),
            managed,
            started: (id == 3).then_some(START + 100 * MS),
            ended: None,
        }));
    }
    for (id, (name, managed)) in [
        ("shop.dll", true),
        ("System.Private.CoreLib.dll", true),
        ("Microsoft.AspNetCore.Server.Kestrel.Core.dll", true),
        ("libcoreclr.so", false),
        ("libclrgc.so", false),
        ("libc.so.6", false),
        ("[kernel]", false),
    ]
    .into_iter()
    .enumerate()
    {
        b.records.push(SessionRecord::Module(ModuleDef {
            id: ModuleId(id as u32),
            managed,
            name: name.into(),
            path: if managed { format!("/app/{name}") } else { format!("/usr/lib/{name}") },
            build_id: (!managed).then(|| format!("{id:040x}")),
        }));
    }
    let main = b.function(Managed, 0, "Shop.Program", "Main", "(System.String[])");
    let host = b.function(
        Managed,
        2,
        "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http.HttpProtocol",
        "ProcessRequestsAsync<TContext>",
        "(Microsoft.AspNetCore.Hosting.Server.IHttpApplication<TContext>)",
    );
    let pool = b.function(
        Managed,
        1,
        "System.Threading.PortableThreadPool.WorkerThread",
        "WorkerThreadStart",
        "()",
    );
    let checkout =
        b.function(Managed, 0, "Shop.Orders.CheckoutHandler", "HandleAsync", "(Shop.Orders.Order)");
    let price = b.function(
        Managed,
        0,
        "Shop.Pricing.PriceList",
        "Price",
        "(System.Collections.Generic.List<Shop.Orders.Line>, int)",
    );
    let discount = b.function(
        Managed,
        0,
        "Shop.Pricing.Discounts",
        "Best",
        "(System.ReadOnlySpan<System.Decimal>)",
    );
    let recurse = b.function(Managed, 0, "Shop.Pricing.Discounts", "Search", "(int)");
    let sort = b.function(
        Managed,
        1,
        "System.Collections.Generic.ArraySortHelper<System.__Canon>",
        "IntrospectiveSort",
        "(System.Span<System.__Canon>, System.Comparison<System.__Canon>)",
    );
    let dynamic = b.function(
        Dynamic,
        0,
        "",
        "lambda_method1",
        "(System.Runtime.CompilerServices.Closure, Shop.Orders.Order)",
    );
    let stub = b.function(Stub, 3, "", "JIT_WriteBarrier", "");
    let gc_mark = b.function(Gc, 4, "", "SVR::gc_heap::mark_object_simple", "");
    let jit = b.function(Jit, 3, "", "Compiler::compCompile", "");
    let runtime = b.function(Runtime, 3, "", "ThreadNative::SpinWait", "");
    let memcpy = b.function(Native, 5, "", "__memmove_avx_unaligned_erms", "");
    let nameless = b.function(Native, 5, "", "0x9ca4e", "");
    let futex = b.function(Kernel, 6, "", "futex_wait_queue", "");
    let monitor = b.function(Managed, 1, "System.Threading.Monitor", "Enter", "(System.Object)");
    let sleep = b.function(Managed, 1, "System.Threading.Thread", "Sleep", "(int)");
    let log = b.function(Managed, 0, "Shop.Audit.Log", "Flush", "()");
    let socket = b.function(Managed, 1, "System.Net.Sockets.SocketAsyncEngine", "EventLoop", "()");
    let semaphore =
        b.function(Managed, 1, "System.Threading.LowLevelLifoSemaphore", "WaitForSignal", "(int)");
    let throws = b.function(Managed, 0, "Shop.Orders.Stock", "Take", "(int)");
    let evil = b.function(Managed, 0, HOSTILE, "Run<script>", "(System.Int32)");
    let unknown = b.function(Unknown, 5, "", "", "");

    let f_main = b.frame(main, Some(("Program.cs", 12)));
    let f_pool = b.frame(pool, None);
    let f_host = b.frame(host, None);
    let f_checkout = b.frame(checkout, Some(("CheckoutHandler.cs", 31)));
    let f_checkout2 = b.frame(checkout, Some(("CheckoutHandler.cs", 44)));
    let f_price = b.frame(price, Some(("PriceList.cs", 87)));
    let f_price2 = b.frame(price, Some(("PriceList.cs", 90)));
    let f_discount = b.frame(discount, Some(("Discounts.cs", 19)));
    let f_recurse = b.frame(recurse, Some(("Discounts.cs", 40)));
    let [
        f_sort,
        f_dynamic,
        f_stub,
        f_gc,
        f_jit,
        f_runtime,
        f_memcpy,
        f_nameless,
        f_futex,
        f_monitor,
        f_sleep,
        f_log,
    ] = [sort, dynamic, stub, gc_mark, jit, runtime, memcpy, nameless, futex, monitor, sleep, log]
        .map(|f| b.frame(f, None));
    let [f_socket, f_semaphore, f_unknown] = [socket, semaphore, unknown].map(|f| b.frame(f, None));
    let f_throws = b.frame(throws, Some(("Stock.cs", 5)));
    let f_evil = b.frame(evil, Some(("</script>.cs", 1)));

    let request = [f_pool, f_host, f_checkout];
    let on = |b: &mut Builder, rest: &[FrameId]| b.stack(&[&request[..], rest].concat());
    let s_price = on(&mut b, &[f_price]);
    let s_price2 = on(&mut b, &[f_price2]);
    let s_discount = on(&mut b, &[f_price, f_discount]);
    let s_recurse = on(&mut b, &[f_price, f_discount, f_recurse, f_recurse, f_recurse]);
    let s_sort = on(&mut b, &[f_price2, f_sort]);
    let s_dynamic = on(&mut b, &[f_dynamic]);
    let s_stub = on(&mut b, &[f_price, f_stub]);
    let s_jit = on(&mut b, &[f_jit]);
    let s_spin = on(&mut b, &[f_runtime]);
    let s_memcpy = on(&mut b, &[f_price2, f_sort, f_memcpy]);
    let s_nameless = on(&mut b, &[f_nameless]);
    let s_evil = on(&mut b, &[f_evil]);
    let s_gc = b.stack(&[f_gc]);
    let s_unknown = b.stack(&[f_unknown]);
    let s_kernel = b.stack(&[f_pool, f_host, f_checkout2, f_monitor, f_futex]);
    let s_main = b.stack(&[f_main, f_sleep, f_futex]);
    let s_lock = b.stack(&[f_pool, f_host, f_checkout2, f_monitor, f_futex]);
    let s_audit = b.stack(&[f_log, f_sleep, f_futex]);
    let s_socket = b.stack(&[f_socket, f_futex]);
    let s_idle = b.stack(&[f_pool, f_semaphore, f_futex]);
    let s_throw = on(&mut b, &[f_throws]);

    // 1000 CPU samples of 10 ms: every hundredth is of the first hundred, so that shares are exact.
    let plan = [
        (s_price, 34),
        (s_price2, 8),
        (s_discount, 12),
        (s_recurse, 9),
        (s_sort, 11),
        (s_dynamic, 3),
        (s_stub, 2),
        (s_jit, 3),
        (s_spin, 1),
        (s_memcpy, 4),
        (s_nameless, 1),
        (s_evil, 2),
        (s_gc, 7),
        (s_unknown, 1),
        (s_kernel, 2),
    ];
    let cycle: Vec<StackId> =
        plan.iter().flat_map(|(stack, n)| std::iter::repeat_n(*stack, *n)).collect();
    assert_eq!(cycle.len(), 100);
    let mut cpu = Rows::default();
    for i in 0..1000_u64 {
        // Not in the order of the plan, each stack exactly its share.
        let stack = cycle[(i * 37 % 100) as usize];
        let thread = if stack == s_gc { 4 } else { 1 + (i / 3 % 2) as u32 };
        cpu.0.push((
            START + i * 10 * MS,
            thread,
            stack,
            10 * MS,
            ThreadState::Running,
            stack == s_recurse && i % 5 == 0,
        ));
    }
    b.records.push(SessionRecord::CpuSamples(cpu.batch()));
    let mut wall = Rows::default();
    for tick in 0..200_u64 {
        let time = START + tick * 50 * MS;
        let mut row =
            |thread, stack, state| wall.0.push((time, thread, stack, 50 * MS, state, false));
        row(0, s_main, ThreadState::Sleep);
        match tick % 10 {
            0..=4 => row(1, s_price, ThreadState::Running),
            5..=7 => row(1, s_lock, ThreadState::Lock),
            _ => row(1, s_idle, ThreadState::Idle),
        }
        if tick % 4 == 0 {
            row(2, s_discount, ThreadState::Running)
        } else {
            row(2, s_idle, ThreadState::Idle)
        }
        if tick > 2 {
            row(3, s_audit, if tick % 25 == 0 { ThreadState::Gc } else { ThreadState::Sleep });
        }
        row(4, s_socket, ThreadState::Io);
    }
    b.records.push(SessionRecord::WallSamples(wall.batch()));

    for (id, name) in
        ["System.InvalidOperationException", "Shop.Orders.OutOfStockException", HOSTILE]
            .iter()
            .enumerate()
    {
        b.records
            .push(SessionRecord::Type(TypeDef { id: TypeId(id as u32), name: (*name).into() }));
    }
    for i in 0..40_u64 {
        let ty = u32::from(i % 5 == 4) + u32::from(i == 39);
        b.row(&ExceptionSample {
            time: START + 200 * MS * i + 3 * MS,
            thread: ThreadId(1 + (i % 2) as u32),
            ty: TypeId(ty),
            message: match ty {
                0 => Some(format!(
                    "Sequence contains no {}",
                    if i % 3 == 0 { "matching element" } else { "elements" }
                )),
                1 => Some("Only 3 of article 17 are left".into()),
                _ => Some(HOSTILE.into()),
            },
            stack: if ty == 0 { s_price } else { s_throw },
            weight: if ty == 0 { 25 } else { 1 },
            caught_by: (ty < 2).then_some(if ty == 0 { host } else { checkout }),
            time_to_catch: (ty < 2).then_some(20_000 + i * 1000),
        });
    }
    for (second, count) in [(3_u64, 300_u64), (6, 301), (10, 211)] {
        let time = START + second * 1000 * MS - 1;
        b.row(&ExceptionCount { time, ty: TypeId(0), count });
        let count = 2 + u64::from(second == 10);
        b.row(&ExceptionCount { time, ty: TypeId(1), count });
    }
    b.row(&ExceptionCount { time: START + 9_999 * MS, ty: TypeId(2), count: 1 });

    for i in 0..30_u32 {
        let generation = if i % 15 == 14 { 2 } else { u8::from(i % 5 == 4) };
        let start = START + u64::from(i) * 330 * MS + 5 * MS;
        let length =
            [400_000, 1_500_000, 12_000_000][usize::from(generation)] + u64::from(i) * 10_000;
        let background = i == 29;
        let grown = u64::from(i % 15) * 700_000;
        if i == 14 {
            b.row(&Induced {
                time: start - 100_000,
                thread: ThreadId(1),
                stack: s_price,
                truncated: false,
            });
        }
        b.row(&Collection {
            number: 100 + i,
            generation,
            reason: if i == 14 { "Induced" } else { "AllocSmall" }.into(),
            kind: if background { "BackgroundGC" } else { "NonConcurrentGC" }.into(),
            induced: i == 14,
            start,
            end: start + length,
            size_after: [262_144, 1_200_000 + grown / 4, 24_000_000 + grown, 8_500_000, 65_536],
            promoted: [
                90_000 + u64::from(i) * 100,
                30_000,
                if generation == 2 { 20_000_000 } else { 0 },
                0,
                0,
            ],
            pinned_objects: 3,
            gc_handles: 420,
        });
        b.row(&Pause {
            reason: "SuspendForGC".into(),
            gc: Some(100 + i),
            suspend_start: start - 60_000,
            suspend_end: start - 10_000,
            resume_start: start + length,
            resume_end: start + length + 15_000,
        });
    }
    b.row(&Pause {
        reason: "SuspendForProfiler".into(),
        gc: None,
        suspend_start: START + 5_000 * MS,
        suspend_end: START + 5_000 * MS + 40_000,
        resume_start: START + 5_000 * MS + 700_000,
        resume_end: START + 5_000 * MS + 710_000,
    });
    b.records.push(SessionRecord::Observer(ObserverStatus {
        time: START + 10_000 * MS,
        target_memory: 3_400_000,
        target_cpu: 31 * MS,
        target_stopped: 12 * MS,
        own_cpu: 410 * MS,
        dropped: vec![("ring full".into(), 12), ("agent lost".into(), 0)],
        counters: vec![("frames by table".into(), 20_412), ("frames by scan".into(), 3)],
    }));
    let held = |name: &str, unit: &str, highest, budget, refused, left| ResourceUse {
        name: name.into(),
        unit: unit.into(),
        highest,
        budget,
        refused,
        left: Some(left),
    };
    b.records.push(SessionRecord::Resources(vec![
        held("file descriptors", "", 5, 16, 0, 0),
        held("heap", "bytes", 3_400_000, 4_000_000, 7, 0),
        held("threads", "", 2, 8, 0, 1),
    ]));
    let note = "source lines of Microsoft.AspNetCore.Server.Kestrel.Core.dll are not known: its \
        portable PDB was not found";
    b.records.push(SessionRecord::Note { time: START + 40 * MS, message: note.into() });
    b.records.push(SessionRecord::End(SessionEnd {
        time: START + 10_000 * MS,
        reason: EndReason::Stopped,
        exit_code: None,
    }));
    b.records
}

/// The recording as a session file.
pub fn file() -> Vec<u8> {
    let mut writer = SessionWriter::new(Vec::new(), "0.1.0").unwrap();
    records().iter().for_each(|record| writer.write(record).unwrap());
    writer.finish().unwrap()
}

/// The recording as a profile, with single samples.
pub fn profile() -> Profile {
    Profile::read(&file()[..], BuildOptions { keep_samples: true, ..BuildOptions::default() })
        .unwrap()
}
