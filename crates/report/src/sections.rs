//! What text and Markdown both say: sections of sentences and tables.

use profile::{
    CallSite, CallTree, Confidence, HEAPS, JitRow, JitTotals, NameStyle, OBJECT_HEAPS,
    PROFILER_PAUSE, PoolHealth, PoolSummary, ProcessorSummary, Profile, QueueEvidence, STATES,
    SeriesKind, ShownArgument, SingleCall, Standing, Starter, ThreadRole, ThreadRow, Totals,
    TreeOptions, generation_word,
    session::{
        AllocationHeap, AllocationSampling, AssemblyLoad, CounterDef, CounterKind, FunctionId,
        FunctionKind, JitTier, LoadOutcome, PrecompiledCode, ResourceUse, ThreadId, ThreadState,
        TypeId,
    },
    state_index,
};

use crate::{Options, SnapshotSection, format};

/// A part of a report.
pub struct Section {
    pub title: String,
    /// Sentences before the tables.
    pub lead: Vec<String>,
    pub tables: Vec<Table>,
}

/// A table.
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
pub struct Column {
    pub title: &'static str,
    pub right: bool,
}

/// A cell of a table.
pub enum Cell {
    Text(String),
    /// A share to be drawn.
    Bar(f64),
    /// Values over time to be drawn.
    Line(Vec<f64>),
    /// A name to be fitted to the room: the longest that fits.
    Name {
        forms: Vec<String>,
        place: Option<String>,
    },
}

impl Cell {
    fn text(text: impl Into<String>) -> Self {
        Cell::Text(text.into())
    }
}

fn left(title: &'static str) -> Column {
    Column { title, right: false }
}

fn right(title: &'static str) -> Column {
    Column { title, right: true }
}

/// Word for a state of a thread.
pub fn state_word(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "running",
        ThreadState::Lock => "lock",
        ThreadState::Sleep => "sleep",
        ThreadState::Io => "I/O",
        ThreadState::Idle => "pool idle",
        ThreadState::Gc => "GC",
        ThreadState::Task => "task",
        ThreadState::Other => "other",
        ThreadState::Event => "event",
        ThreadState::Runtime => "runtime",
        ThreadState::NoProcessor => "no processor",
        ThreadState::Throttled => "throttled",
    }
}

/// A part of a page.
pub enum Part<'a> {
    Section(Section),
    /// What heap snapshots say.
    Snapshots(&'a SnapshotSection),
}

/// All parts that have something to say.
pub fn parts<'a>(profile: &Profile, options: &'a Options) -> Vec<Part<'a>> {
    let of_recording = observer(profile).into_iter().chain(notes(profile));
    let of_profilers = sections(profile, options).into_iter().map(Part::Section);
    let of_snapshots = options.snapshots.iter().map(Part::Snapshots);
    of_profilers.chain(of_snapshots).chain(of_recording.map(Part::Section)).collect()
}

/// The sections of the recording and of its profilers.
fn sections(profile: &Profile, options: &Options) -> Vec<Section> {
    let wanted = |kind: SeriesKind| options.series.is_none_or(|series| series == kind);
    let mut sections = vec![recording(profile)];
    if wanted(SeriesKind::Cpu) && (!profile.cpu.is_empty() || profile.run("cpu").is_some()) {
        sections.push(cpu(profile, options));
    }
    if wanted(SeriesKind::Wall) && (!profile.wall.is_empty() || profile.run("wall").is_some()) {
        sections.push(wall(profile, options));
    }
    if wanted(SeriesKind::Exceptions)
        && (profile.exceptions.total() > 0 || profile.run("exceptions").is_some())
    {
        sections.push(exceptions(profile, options));
    }
    if options.series.is_none()
        && (!profile.gcs.is_empty() || !profile.pauses.is_empty() || profile.run("gc").is_some())
    {
        sections.push(gc(profile, options));
    }
    if options.series.is_none()
        && (!profile.survivors.is_empty() || profile.run("survivors").is_some())
    {
        sections.push(survivors(profile, options));
    }
    if wanted(SeriesKind::Allocations)
        && (!profile.allocations.series.is_empty()
            || !profile.allocations.exact.is_empty()
            || profile.run("allocations").is_some()
            || profile.run("exact-allocations").is_some())
    {
        sections.push(allocations(profile, options));
    }
    if wanted(SeriesKind::Locks)
        && (!profile.locks.series.is_empty() || profile.run("locks").is_some())
    {
        sections.push(locks(profile, options));
    }
    if wanted(SeriesKind::Threads)
        && (!profile.threads.tracks.is_empty() || profile.run("threads").is_some())
    {
        sections.push(threads(profile, options));
    }
    if wanted(SeriesKind::Pool)
        && (!profile.pool.series.is_empty() || profile.run("threadpool").is_some())
    {
        sections.push(threadpool(profile, options));
    }
    if options.series.is_none() && (!profile.traced.is_empty() || profile.run("trace").is_some()) {
        sections.push(traced(profile, options));
    }
    for kind in [SeriesKind::Calls, SeriesKind::Transitions] {
        if wanted(kind) && (!profile.series(kind).is_empty() || profile.run(kind.id()).is_some()) {
            sections.push(calls(profile, options, kind));
        }
    }
    if wanted(SeriesKind::Jit) && (!profile.jit.series.is_empty() || profile.run("jit").is_some()) {
        sections.push(jit(profile, options));
    }
    if wanted(SeriesKind::Loads)
        && (!profile.loads.series.is_empty() || profile.run("loads").is_some())
    {
        sections.push(loads(profile, options));
    }
    // Those of the thread pool are in its section.
    let own = profile.run("counters").is_some()
        || profile.run("threadpool").is_none() && !profile.counters.is_empty();
    if options.series.is_none() && own {
        sections.push(counters(profile, options));
    }
    sections
}

fn recording(profile: &Profile) -> Section {
    let info = &profile.info;
    let mut rows = vec![
        ("command", info.command_line.clone()),
        (
            "runtime",
            format!(
                ".NET {} on {}, {}",
                info.runtime,
                info.platform,
                format::counted(info.cpus.into(), "processor")
            ),
        ),
        (
            "recorded",
            format!(
                "{} from {}, {}; {}",
                format::duration(profile.duration()),
                format::utc(info.start_unix_ms),
                format::entry(info.entry),
                format::ending(profile)
            ),
        ),
    ];
    for run in &info.profilers {
        let mut text = run.engine.clone();
        if let Some(rate) = run.rate_hz {
            text = format!("{rate} Hz, {text}");
        }
        // As measured, where that is not what was asked for.
        if let Some(rate) =
            profile.sampling_rate(&run.id).map(ToString::to_string).filter(|rate| !rate.is_empty())
        {
            text = format!("{rate}; {text}");
        }
        for (name, value) in &run.params {
            text.push_str(&format!(", {name} = {value}"));
        }
        rows.push((run.id.as_str(), text));
    }
    let mut samples: Vec<String> = Vec::new();
    for kind in SeriesKind::ALL {
        let series = profile.series(kind);
        if !series.is_empty() {
            let truncated = match series.truncated {
                0 => String::new(),
                cut => format!(" ({} with a stack cut at the depth limit)", format::count(cut)),
            };
            samples.push(format!(
                "{} {}{truncated}",
                format::count(series.totals.samples),
                kind.id()
            ));
        }
    }
    samples.push(format!("{} dropped", format::count(profile.dropped())));
    rows.push(("samples", samples.join(", ")));
    if let Some(filtered) = &profile.filtered {
        rows.push(("shown", format!("only {filtered}")));
    }
    let rows =
        rows.into_iter().map(|(name, value)| vec![Cell::text(name), Cell::text(value)]).collect();
    Section {
        title: format::process(info),
        lead: Vec::new(),
        tables: vec![Table { columns: vec![left(""), left("")], rows }],
    }
}

fn name(profile: &Profile, options: &Options, function: FunctionId) -> Cell {
    let mut forms: Vec<String> = [options.names, NameStyle::PLAIN, NameStyle::SHORT]
        .into_iter()
        .filter(|style| {
            style.parameters <= options.names.parameters
                && style.namespaces <= options.names.namespaces
        })
        .map(|style| profile.tables.function_name(function, style))
        .collect();
    forms.dedup();
    Cell::Name { forms, place: None }
}

fn with_place(
    cell: Cell,
    profile: &Profile,
    options: &Options,
    line: Option<profile::Line>,
) -> Cell {
    match (cell, line.filter(|_| options.lines)) {
        (Cell::Name { forms, .. }, Some(line)) => {
            let place =
                format!("{}:{}", format::file_name(profile.tables.file(line.file)), line.line);
            Cell::Name { forms, place: Some(place) }
        }
        (cell, _) => cell,
    }
}

fn cpu(profile: &Profile, options: &Options) -> Section {
    let series = &profile.cpu;
    let busy = series.totals.weight as f64 / profile.duration().max(1) as f64;
    let mut section = Section {
        title: "CPU".to_owned(),
        lead: vec![format!(
            "{} of processor time: {busy:.2} of {} busy. ± is the 95 % interval in points.",
            format::duration(series.totals.weight),
            format::counted(profile.info.cpus.into(), "processor"),
        )],
        tables: Vec::new(),
    };
    if series.is_empty() {
        section.lead = vec!["No samples: no thread was seen on a processor.".to_owned()];
        return section;
    }
    let functions = profile.top_functions(SeriesKind::Cpu);
    section.tables.push(methods(profile, options, SeriesKind::Cpu, &functions));

    let kinds = by_kind(profile, &functions);
    if kinds.len() > 1 {
        let text: Vec<_> = kinds
            .iter()
            .map(|(word, share)| format!("{} {word}", format::percent(*share)))
            .collect();
        section.lead.push(format!("By kind: {}.", text.join(", ")));
    }
    section.tables.push(hot_paths(profile, options, SeriesKind::Cpu));
    section
}

/// Methods by their own weight.
fn methods(
    profile: &Profile,
    options: &Options,
    kind: SeriesKind,
    functions: &[profile::FunctionTotals],
) -> Table {
    let lines = heaviest_lines(profile, kind);
    let rows = functions
        .iter()
        .take(options.rows)
        .map(|row| {
            let name = name(profile, options, row.function);
            vec![
                Cell::text(format::estimate(&row.own_share)),
                Cell::Bar(row.own_share.share),
                Cell::text(format::estimate(&row.total_share)),
                with_place(name, profile, options, lines[row.function.index()]),
            ]
        })
        .collect();
    Table { columns: vec![right("self"), left(""), right("total"), left("method")], rows }
}

/// Shares of the kinds of functions by their own weight, greatest first.
fn by_kind(profile: &Profile, functions: &[profile::FunctionTotals]) -> Vec<(&'static str, f64)> {
    let mut kinds: Vec<(&'static str, f64)> = Vec::new();
    for row in functions {
        let word = match profile.tables.function(row.function).kind {
            FunctionKind::Managed => "managed code",
            FunctionKind::Dynamic => "code made at run time",
            FunctionKind::Stub => "stubs",
            FunctionKind::Native => "native code",
            FunctionKind::Runtime => "the runtime",
            FunctionKind::Gc => "garbage collection",
            FunctionKind::Jit => "compilation",
            FunctionKind::Kernel => "the kernel",
            FunctionKind::Unknown => "unknown code",
        };
        match kinds.iter_mut().find(|(known, _)| *known == word) {
            Some((_, share)) => *share += row.own_share.share,
            None => kinds.push((word, row.own_share.share)),
        }
    }
    kinds.retain(|(_, share)| *share >= 0.0005);
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    kinds
}

/// The line of each function where it has most weight itself, or else below it.
pub fn heaviest_lines(profile: &Profile, kind: SeriesKind) -> Vec<Option<profile::Line>> {
    let tree = CallTree::new(
        &profile.tables,
        profile.series(kind),
        TreeOptions { lines: true, ..TreeOptions::default() },
    );
    let mut sums = std::collections::HashMap::new();
    for node in tree.nodes() {
        if let Some(line) = node.line {
            let sum: &mut (u64, u64) = sums.entry((node.function, line)).or_default();
            sum.0 = sum.0.saturating_add(node.own.weight);
            sum.1 = sum.1.saturating_add(node.total.weight);
        }
    }
    let mut best = vec![None; profile.tables.functions.len()];
    for ((function, line), sum) in sums {
        let best: &mut Option<((u64, u64), std::cmp::Reverse<profile::Line>)> =
            &mut best[function.index()];
        *best = (*best).max(Some((sum, std::cmp::Reverse(line))));
    }
    best.into_iter().map(|best| best.map(|(_, line)| line.0)).collect()
}

/// The heaviest places, each with the managed calls that led to it.
fn hot_paths(profile: &Profile, options: &Options, kind: SeriesKind) -> Table {
    const CALLERS: usize = 5;
    let tree = CallTree::new(
        &profile.tables,
        profile.series(kind),
        TreeOptions { merge_recursion: true, ..TreeOptions::default() },
    );
    let mut leaves: Vec<usize> =
        (0..tree.nodes().len()).filter(|node| tree.nodes()[*node].own.weight > 0).collect();
    leaves.sort_by_key(|node| (std::cmp::Reverse(tree.nodes()[*node].own.weight), *node));
    let short = |function| profile.tables.function_name(function, NameStyle::SHORT);
    let rows = leaves
        .into_iter()
        .take(5.min(options.rows))
        .map(|leaf| {
            let share = profile.share(kind, tree.nodes()[leaf].own.weight);
            let mut path = vec![short(tree.nodes()[leaf].function)];
            let mut at = tree.parent(leaf);
            while let Some(node) = at {
                let function = tree.nodes()[node].function;
                at = tree.parent(node);
                if profile.tables.is_managed(function) {
                    path.push(short(function));
                }
            }
            // As many callers as there is room for.
            let forms = (1..=path.len().min(1 + CALLERS)).rev().map(|length| {
                let left_out = path.len() - length;
                let rest =
                    if left_out > 0 { format!(" ← … {left_out} more") } else { String::new() };
                path[..length].join(" ← ") + &rest
            });
            vec![
                Cell::text(format::percent(share.share)),
                Cell::Name { forms: forms.collect(), place: None },
            ]
        })
        .collect();
    Table { columns: vec![right("share"), left("hot path, leaf first")], rows }
}

fn wall(profile: &Profile, options: &Options) -> Section {
    let series = &profile.wall;
    let mut section =
        Section { title: "Wall time".to_owned(), lead: Vec::new(), tables: Vec::new() };
    if series.is_empty() {
        section.lead.push("No samples.".to_owned());
        return section;
    }
    let all = series.totals.weight.max(1) as f64;
    let states = series.by_state();
    let words: Vec<String> = STATES
        .into_iter()
        .filter(|state| states[state_index(*state)].weight > 0)
        .map(|state| {
            format!(
                "{} {}",
                format::percent(states[state_index(state)].weight as f64 / all),
                state_word(state)
            )
        })
        .collect();
    section.lead.push(format!("Time of all threads: {}.", words.join(", ")));
    section.lead.extend(profile.processor_summary().map(|of| processors(&of)));

    // Threads that did or waited for something, before those that only idled.
    let by_thread = series.by_thread_and_state(profile.tables.threads.len());
    let idle = state_index(ThreadState::Idle);
    let mut threads: Vec<(ThreadId, u64, u64)> = by_thread
        .iter()
        .enumerate()
        .map(|(thread, states)| {
            let sum = states.iter().fold(0_u64, |sum, state| sum.saturating_add(state.weight));
            (ThreadId(thread as u32), sum, sum - states[idle].weight)
        })
        .filter(|(_, sum, _)| *sum > 0)
        .collect();
    threads.sort_by_key(|(thread, sum, active)| (std::cmp::Reverse((*active, *sum)), *thread));
    let shown: Vec<ThreadState> =
        STATES.into_iter().filter(|state| states[state_index(*state)].weight > 0).collect();
    let mut columns = vec![left("thread"), right("wall time")];
    columns.extend(shown.iter().map(|state| right(state_word(*state))));
    let most = 10.min(options.rows);
    let mut rows: Vec<Vec<Cell>> = threads
        .iter()
        .take(most)
        .map(|(thread, sum, _)| {
            let mut row = vec![
                Cell::text(profile.tables.thread_name(*thread)),
                Cell::text(format::duration(*sum)),
            ];
            for state in &shown {
                let weight = by_thread[thread.index()][state_index(*state)].weight;
                let share = weight as f64 / (*sum).max(1) as f64;
                row.push(Cell::text(if weight == 0 {
                    "·".to_owned()
                } else {
                    format!("{:.0} %", share * 100.0)
                }));
            }
            row
        })
        .collect();
    if threads.len() > most {
        let mut row = vec![Cell::text(format!("… {} more", threads.len() - most))];
        row.resize_with(columns.len(), || Cell::text(""));
        rows.push(row);
    }
    section.tables.push(Table { columns, rows });

    let waits = waiting_places(profile);
    if !waits.is_empty() {
        let rows = waits
            .into_iter()
            .take(8.min(options.rows))
            .map(|(state, function, weight)| {
                vec![
                    Cell::text(format::percent(weight as f64 / all)),
                    Cell::text(state_word(state)),
                    name(profile, options, function),
                ]
            })
            .collect();
        section
            .tables
            .push(Table { columns: vec![right("share"), left("waits for"), left("in")], rows });
    }
    section
}

/// How the process got on with its processors.
fn processors(of: &ProcessorSummary) -> String {
    let mut text = format!(
        "Processors: {} may be used; {:.2} ran the process on average, and {:.2} of its threads \
            were ready without one.",
        of.processors,
        of.average(of.ran),
        of.average(of.waited)
    );
    if let Some((time, period)) = of.quota {
        let quota = time as f64 / period.max(1) as f64;
        let (throttled, periods) = (format::count(of.throttled_periods), format::count(of.periods));
        text.push_str(&format!(
            " CPU quota: {quota:.2} processors, used up in {throttled} of {periods} periods."
        ));
    }
    text
}

/// Whether a thread in a state waits for something other than a processor.
fn waits(state: ThreadState) -> bool {
    !matches!(state, ThreadState::Running | ThreadState::NoProcessor | ThreadState::Throttled)
}

/// Where threads wait: the innermost managed frame that is the program's business, by state and
/// weight. Idle threads are left out.
fn waiting_places(profile: &Profile) -> Vec<(ThreadState, FunctionId, u64)> {
    let tables = &profile.tables;
    let mut sums = std::collections::HashMap::new();
    for cell in &profile.wall.cells {
        if cell.state == ThreadState::Idle || !waits(cell.state) {
            continue;
        }
        let functions = || tables.walk(cell.stack).map(|frame| tables.frame(frame).function);
        let place = functions()
            .find(|function| tables.is_managed(*function) && !tables.is_framework(*function))
            .or_else(|| functions().find(|function| tables.is_managed(*function)))
            .unwrap_or_else(|| tables.stack_function(cell.stack));
        let sum: &mut u64 = sums.entry((cell.state, place)).or_default();
        *sum = sum.saturating_add(cell.weight);
    }
    let mut places: Vec<_> =
        sums.into_iter().map(|((state, place), weight)| (state, place, weight)).collect();
    places.sort_by_key(|(state, place, weight)| (std::cmp::Reverse(*weight), *place, *state));
    places
}

fn exceptions(profile: &Profile, options: &Options) -> Section {
    let rows = profile.exception_rows();
    let total = profile.exceptions.total();
    let seconds = profile.duration().max(1) as f64 / 1e9;
    let how = if profile.exceptions.exact() { "counted exactly" } else { "estimated from samples" };
    let mut section = Section {
        title: "Exceptions".to_owned(),
        lead: vec![match total {
            0 => "None were thrown.".to_owned(),
            _ => format!(
                "{} of {} thrown ({how}), {}; {} kept with message and stack.",
                format::counted(total, "exception"),
                format::counted(rows.len() as u64, "type"),
                format::rate(total as f64 / seconds),
                format::count(profile.exceptions.samples.len() as u64)
            ),
        }],
        tables: Vec::new(),
    };
    if rows.is_empty() {
        return section;
    }
    let types = rows
        .iter()
        .take(options.rows)
        .map(|row| {
            let message = row.message.as_deref().unwrap_or("");
            let mut message: String =
                message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            if row.messages > 1 {
                message.push_str(&format!(" (+{} other)", row.messages - 1));
            }
            let caught =
                (row.time_to_catch.count > 0).then(|| format::duration(row.time_to_catch.p50));
            vec![
                Cell::text(format::count(row.count)),
                Cell::text(format::rate(row.per_second)),
                Cell::text(caught.unwrap_or_else(|| "·".to_owned())),
                type_name(profile, row.ty),
                Cell::Name { forms: vec![message], place: None },
            ]
        })
        .collect();
    section.tables.push(Table {
        columns: vec![
            right("count"),
            right("rate"),
            right("to catch p50"),
            left("type"),
            left("most frequent message"),
        ],
        rows: types,
    });
    let place = |function| {
        let forms = [NameStyle::PLAIN, NameStyle::SHORT]
            .map(|style| profile.tables.function_name(function, style));
        Cell::Name { forms: forms.to_vec(), place: None }
    };
    let places: Vec<_> = rows
        .iter()
        .take(options.rows)
        .filter_map(|row| {
            let (function, line) = row.thrown_at?;
            let thrown = with_place(place(function), profile, options, line);
            Some(vec![
                type_name(profile, row.ty),
                thrown,
                row.caught_by.map_or(Cell::text("not known"), place),
            ])
        })
        .collect();
    if !places.is_empty() {
        let columns = vec![left("type"), left("mostly thrown at"), left("mostly caught by")];
        section.tables.push(Table { columns, rows: places });
    }
    section
}

fn type_name(profile: &Profile, ty: TypeId) -> Cell {
    let name = &profile.tables.ty(ty).name;
    Cell::Name { forms: vec![name.clone(), profile::without_namespaces(name)], place: None }
}

fn gc(profile: &Profile, options: &Options) -> Section {
    let summary = profile.gc_summary();
    let collections: u64 = summary.collections.iter().sum();
    let mut section = Section {
        title: "Garbage collection".to_owned(),
        lead: vec![format!(
            "{}; {}, {} in total, {} of the time.",
            format::counted(collections, "collection"),
            format::counted(summary.pauses.count, "GC pause"),
            format::duration(summary.pauses.total),
            format::percent(summary.share)
        )],
        tables: Vec::new(),
    };
    if collections > 0 {
        let mut facts = vec![format!(
            "{} induced, {} in the background",
            format::count(summary.induced),
            format::count(summary.background)
        )];
        let reasons: Vec<_> = summary
            .reasons
            .iter()
            .map(|(name, n)| format!("{name} {}", format::count(*n)))
            .collect();
        facts.push(format!("reasons: {}", reasons.join(", ")));
        section.lead.push(format!("{}.", facts.join("; ")));
        let heap: Vec<_> = (HEAPS.iter().zip(summary.heap_last))
            .map(|(heap, size)| format!("{heap} {}", format::bytes(size)))
            .collect();
        section.lead.push(format!(
            "Heap after the last collection {} ({}); peak {}; promoted {}.",
            format::bytes(summary.heap_last.iter().fold(0, |sum, size| sum.saturating_add(*size))),
            heap.join(", "),
            format::bytes(summary.heap_peak),
            format::bytes(summary.promoted.iter().fold(0, |sum, size| sum.saturating_add(*size))),
        ));
    }
    let row = |name: &str, collections: Option<u64>, pauses: &profile::Distribution| {
        let time = |value: u64| {
            Cell::text(if pauses.count == 0 { "·".to_owned() } else { format::duration(value) })
        };
        vec![
            Cell::text(name),
            Cell::text(collections.map_or("·".to_owned(), format::count)),
            Cell::text(format::count(pauses.count)),
            time(pauses.p50),
            time(pauses.p95),
            time(pauses.max),
            time(pauses.total),
        ]
    };
    let mut rows: Vec<_> =
        (summary.collections.iter().zip(&summary.pauses_by_generation).enumerate())
            .map(|(generation, (count, pauses))| {
                row(&format!("gen {generation}"), Some(*count), pauses)
            })
            .collect();
    rows.push(row("all pauses", Some(collections), &summary.pauses));
    if summary.pauses.count > 0 {
        rows.push(row("  of it stopping threads", None, &summary.suspending));
    }
    for (reason, pauses) in &summary.pause_reasons {
        let ours = if reason == PROFILER_PAUSE { ", excluded" } else { "" };
        rows.push(row(&format!("  {reason}{ours}"), None, pauses));
    }
    let columns = vec![
        left(""),
        right("collections"),
        right("pauses"),
        right("p50"),
        right("p95"),
        right("max"),
        right("total"),
    ];
    section.tables.push(Table { columns, rows });
    let inducers = profile.inducers();
    if !inducers.is_empty() {
        let rows = inducers.iter().take(options.rows).map(|inducer| {
            let calls = Cell::text(format::count(inducer.calls));
            vec![calls, place_cell(profile, options, &inducer.at, "")]
        });
        let columns = vec![right("collections"), left("induced by")];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    section
}

/// Ways of being held that are shown of a type.
const MOST_CHAINS: usize = 3;

fn survivors(profile: &Profile, options: &Options) -> Section {
    let mut section =
        Section { title: "Survivors".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let summary = profile.survivor_summary();
    let snapshots: u64 = summary.collections.iter().sum();
    if snapshots == 0 {
        section.lead.push("There was no collection to take a snapshot of.".to_owned());
        return section;
    }
    let by_generation = (summary.collections.iter().enumerate())
        .filter(|(_, count)| **count > 0)
        .map(|(generation, count)| format!("gen {generation}: {}", format::count(*count)));
    section.lead.push(format!(
        "{} with a snapshot ({}); {} in their GC pauses, {} of it for the snapshots ({} at most).",
        format::counted(snapshots, "collection"),
        by_generation.collect::<Vec<_>>().join(", "),
        format::duration(summary.paused),
        format::duration(summary.telling),
        format::duration(summary.longest),
    ));
    if summary.incomplete > 0 {
        section.lead.push(format!(
            "In {} of them some survivors are missing; they are left out below{}.",
            format::count(summary.incomplete),
            profile
                .survivors
                .iter()
                .find_map(|snapshot| snapshot.reason.as_ref().filter(|_| !snapshot.complete))
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default(),
        ));
    }
    let rows = (summary.generations.iter().enumerate())
        .filter(|(_, generation)| generation.collections > 0 && generation.before > 0)
        .map(|(index, generation)| {
            vec![
                Cell::text(generation_word(index as u8)),
                Cell::text(format::count(generation.collections)),
                Cell::text(format::bytes(generation.before)),
                Cell::text(format::bytes(generation.survived.weight)),
                Cell::text(generation.rate().map_or("·".to_owned(), format::percent)),
                Cell::text(format::count(generation.survived.samples)),
            ]
        })
        .collect();
    section.tables.push(Table {
        columns: vec![
            left("generation"),
            right("collected"),
            right("in use before"),
            right("survived"),
            right("share"),
            right("objects"),
        ],
        rows,
    });
    let bytes_and_objects = |totals: Totals| match totals.samples {
        0 => Cell::text("·"),
        objects => {
            Cell::text(format!("{} ({})", format::bytes(totals.weight), format::count(objects)))
        }
    };
    let rows = (summary.types.iter().filter(|row| row.young.samples > 0).take(options.rows))
        .map(|row| {
            let others = row.moves.iter().filter(|((before, after), _)| {
                *before <= 1 && ![(0, 0), (0, 1), (1, 2)].contains(&(*before, *after))
            });
            let others = others.fold(Totals::default(), |sum, (_, of)| Totals {
                samples: sum.samples + of.samples,
                weight: sum.weight + of.weight,
            });
            vec![
                Cell::text(format::bytes(row.young.weight)),
                Cell::text(format::count(row.young.samples)),
                bytes_and_objects(row.between(0, 0)),
                bytes_and_objects(row.between(0, 1)),
                bytes_and_objects(row.between(1, 2)),
                bytes_and_objects(others),
                type_name(profile, row.ty),
            ]
        })
        .collect::<Vec<_>>();
    if !rows.is_empty() {
        section.tables.push(Table {
            columns: vec![
                right("young survivors"),
                right("objects"),
                right("left in gen 0"),
                right("gen 0→1"),
                right("gen 1→2"),
                right("otherwise"),
                left("type"),
            ],
            rows,
        });
    }
    // Of each of the heaviest types the ways that hold most of it.
    let mut rows = Vec::new();
    for row in summary.types.iter().filter(|row| row.young.samples > 0).take(options.rows) {
        for chain in
            summary.chains.iter().filter(|chain| chain.ty() == Some(row.ty)).take(MOST_CHAINS)
        {
            rows.push(vec![
                Cell::text(format::bytes(chain.totals.weight)),
                Cell::text(format::count(chain.totals.samples)),
                Cell::text(format::count(chain.collections)),
                Cell::Name {
                    forms: [false, true].map(|short| profile.chain_text(chain, short)).to_vec(),
                    place: None,
                },
            ]);
        }
    }
    if !rows.is_empty() {
        let columns = vec![
            right("retained"),
            right("objects"),
            right("in collections"),
            left("by, shortest path"),
        ];
        section.tables.push(Table { columns, rows });
    }
    section
}

fn allocations(profile: &Profile, options: &Options) -> Section {
    let mut section =
        Section { title: "Allocations".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let allocations = &profile.allocations;
    let seconds = profile.duration().max(1) as f64 / 1e9;
    exact_allocations(profile, options, seconds, &mut section);
    if allocations.samples.is_empty() {
        if profile.run("allocations").is_some() || profile.run("exact-allocations").is_none() {
            section.lead.push("No samples: fewer than about 100 KB were allocated.".to_owned());
        }
        return section;
    }
    let bytes = allocations.bytes();
    let objects = allocations
        .objects()
        .map(|objects| format!(" in {} objects", format::amount(&objects, format::count)));
    section.lead.push(format!(
        "{} allocated{}, {}/s; estimated from {}. ± is the 95 % interval.",
        format::amount(&bytes, format::bytes),
        objects.unwrap_or_default(),
        format::bytes((bytes.value / seconds) as u64),
        format::counted(allocations.samples.len() as u64, "sample"),
    ));
    if !allocations.windows.is_empty() {
        section.lead.push(format!(
            "Allocations were recorded in windows (duty cycle {}), so that the program was not \
             slowed down more; the rest is estimated from them, and the intervals include that.",
            format::percent(allocations.followed(profile.duration())),
        ));
    }
    if allocations.sampling == Some(AllocationSampling::Tick) {
        section.lead.push(
            "This runtime reports the object that fills up each 100 KB of a heap: shares are \
             biased where a program allocates in a regular pattern. From .NET 10 on allocations \
             are randomly sampled."
                .to_owned(),
        );
    }
    let heaps: Vec<String> = (OBJECT_HEAPS.iter().zip(allocations.heaps()))
        .filter(|(_, bytes)| bytes.value > 0.0)
        .map(|(heap, bytes)| {
            format!("{} {}", heap_word(*heap), format::amount(&bytes, format::bytes))
        })
        .collect();
    section.lead.push(format!("By heap: {}.", heaps.join(", ")));

    let place = |place: &CallSite| {
        let forms = [NameStyle::PLAIN, NameStyle::SHORT]
            .map(|style| profile.tables.function_name(place.function, style));
        with_place(Cell::Name { forms: forms.to_vec(), place: None }, profile, options, place.line)
    };
    let types = profile
        .allocation_rows()
        .iter()
        .take(options.rows)
        .map(|row| {
            vec![
                Cell::text(format::amount(&row.bytes, format::bytes)),
                Cell::text(format::estimate(&row.share)),
                Cell::text(
                    row.objects
                        .map_or("·".to_owned(), |objects| format::amount(&objects, format::count)),
                ),
                type_name(profile, row.ty),
                row.allocated_at.as_ref().map_or(Cell::text("not known"), place),
            ]
        })
        .collect();
    let columns = vec![
        right("bytes"),
        right("share"),
        right("objects"),
        left("type"),
        left("mostly allocated at"),
    ];
    section.tables.push(Table { columns, rows: types });
    let functions = profile.top_functions(SeriesKind::Allocations);
    section.tables.push(methods(profile, options, SeriesKind::Allocations, &functions));
    section
}

/// What is known of every object, where all were counted.
fn exact_allocations(profile: &Profile, options: &Options, seconds: f64, section: &mut Section) {
    let types = profile.allocations.exact_types();
    if types.is_empty() {
        if profile.run("exact-allocations").is_some() {
            let filtered = if profile.filtered.is_some() {
                ", or none is known to match the filter"
            } else {
                ""
            };
            section.lead.push(format!("No object was counted{filtered}."));
        }
        return;
    }
    let total = profile.allocations.exact_total();
    section.lead.push(format!(
        "{} allocated in {} of {}, {}/s; every one counted.",
        format::bytes(total.bytes),
        format::counted(total.objects, "object"),
        format::counted(types.len() as u64, "type"),
        format::bytes((total.bytes as f64 / seconds) as u64),
    ));
    let rows = types.iter().take(options.rows).map(|(ty, count)| {
        vec![
            Cell::text(format::bytes(count.bytes)),
            Cell::text(format::percent(count.bytes as f64 / total.bytes.max(1) as f64)),
            Cell::text(format::count(count.objects)),
            type_name(profile, *ty),
        ]
    });
    let columns = vec![right("bytes"), right("share"), right("objects"), left("type")];
    section.tables.push(Table { columns, rows: rows.collect() });
}

/// Word for a heap of objects.
pub fn heap_word(heap: AllocationHeap) -> &'static str {
    match heap {
        AllocationHeap::Small => "small objects",
        AllocationHeap::Large => "large objects",
        AllocationHeap::Pinned => "pinned objects",
    }
}

fn locks(profile: &Profile, options: &Options) -> Section {
    let mut section = Section { title: "Locks".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let times = profile.locks.durations();
    if times.count == 0 {
        section.lead.push("No thread had to wait for a lock.".to_owned());
        return section;
    }
    let rows = profile.lock_rows();
    let known = rows.iter().any(|row| row.lock.is_some());
    let seconds = profile.duration().max(1) as f64 / 1e9;
    section.lead.push(format!(
        "{}, {}; threads waited {} in total. Half of the waits took up to {}, 90 % up to {}, 99 % \
         up to {}, the longest {}.",
        format::counted(times.count, "wait"),
        format::rate(times.count as f64 / seconds),
        format::duration(times.total),
        format::duration(times.p50),
        format::duration(times.p90),
        format::duration(times.p99),
        format::duration(times.max),
    ));
    if !known {
        section.lead.push(
            "This runtime does not say which lock a thread waited for (.NET 8 and newer do): waits \
             are grouped by where they happened."
                .to_owned(),
        );
    }
    let hot = rows
        .iter()
        .take(options.rows)
        .map(|row| {
            let forms = [NameStyle::PLAIN, NameStyle::SHORT];
            let forms =
                forms.map(|style| profile.tables.function_name(row.waited_at.function, style));
            let more = if row.places > 1 {
                format!(" (+{} other)", row.places - 1)
            } else {
                String::new()
            };
            let forms = forms.into_iter().map(|form| form + &more).collect();
            vec![
                Cell::text(format::duration(row.waits.total)),
                Cell::text(format::percent(row.share)),
                Cell::text(format::count(row.waits.count)),
                Cell::text(format::duration(row.waits.p50)),
                Cell::text(format::duration(row.waits.p90)),
                Cell::text(format::duration(row.waits.p99)),
                Cell::text(format::duration(row.waits.max)),
                with_place(Cell::Name { forms, place: None }, profile, options, row.waited_at.line),
                Cell::text(
                    row.owner
                        .map_or("not known".to_owned(), |owner| profile.tables.thread_name(owner)),
                ),
            ]
        })
        .collect();
    let columns = vec![
        right("waited"),
        right("share"),
        right("waits"),
        right("p50"),
        right("p90"),
        right("p99"),
        right("max"),
        left("mostly waited in"),
        left("mostly held by"),
    ];
    section.tables.push(Table { columns, rows: hot });
    let bars = times.histogram.iter().map(|(from, count)| {
        let share = *count as f64 / times.count as f64;
        vec![
            Cell::text(format::duration(*from)),
            Cell::text(format::count(*count)),
            Cell::Bar(share),
        ]
    });
    let columns = vec![right("waits from"), right("number"), left("")];
    section.tables.push(Table { columns, rows: bars.collect() });
    section
}

/// Word for whose business a thread does.
pub fn role_word(role: ThreadRole) -> &'static str {
    match role {
        ThreadRole::Main => "main",
        ThreadRole::Program => "program",
        ThreadRole::Pool => "thread pool",
        ThreadRole::Runtime => "runtime",
        ThreadRole::Native => "native",
    }
}

/// Word for whether a thread makes progress.
pub fn standing_word(standing: Standing, confidence: Option<Confidence>) -> &'static str {
    match (standing, confidence) {
        (Standing::ZombieSuspect, Some(Confidence::High)) => "zombie, nearly sure",
        (Standing::ZombieSuspect, Some(Confidence::Medium)) => "zombie, likely",
        (Standing::ZombieSuspect, _) => "zombie, perhaps",
        (Standing::Blocked, _) => "blocked",
        (Standing::Idle, _) => "idle",
        (Standing::Progress, _) => "progress",
        (Standing::Unjudged, _) => "not judged",
    }
}

fn place_cell(profile: &Profile, options: &Options, place: &CallSite, more: &str) -> Cell {
    let forms = [NameStyle::PLAIN, NameStyle::SHORT];
    let forms = forms.map(|style| profile.tables.function_name(place.function, style) + more);
    with_place(Cell::Name { forms: forms.to_vec(), place: None }, profile, options, place.line)
}

fn threads(profile: &Profile, options: &Options) -> Section {
    let mut section = Section { title: "Threads".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let rows = profile.thread_rows();
    let counts: Vec<f64> = profile.threads.counts.iter().map(|(_, count)| *count as f64).collect();
    let (Some(first), Some(last)) = (profile.threads.counts.first(), profile.threads.counts.last())
    else {
        section.lead.push("No thread snapshot was taken: the recording was too short.".to_owned());
        return section;
    };
    let words = |words: Vec<(u64, &str)>| {
        let words: Vec<String> = words
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, word)| format!("{} {word}", format::count(n)))
            .collect();
        words.join(", ")
    };
    let alive: Vec<&ThreadRow> = rows.iter().filter(|row| row.alive).collect();
    let roles = [
        ThreadRole::Main,
        ThreadRole::Program,
        ThreadRole::Pool,
        ThreadRole::Runtime,
        ThreadRole::Native,
    ];
    let by_role = roles
        .map(|role| (alive.iter().filter(|row| row.role == role).count() as u64, role_word(role)));
    section.lead.push(format!(
        "{} in the last of {} ({} in the first): {}.",
        format::counted(last.1, "thread"),
        format::counted(counts.len() as u64, "snapshot"),
        format::count(first.1),
        words(by_role.to_vec()),
    ));
    let of =
        |standing: Standing| alive.iter().filter(|row| row.standing == standing).count() as u64;
    let suspects = of(Standing::ZombieSuspect);
    section.lead.push(format!(
        "{}.",
        words(vec![
            (suspects, "blocked indefinitely with no waker observed (zombie suspects)"),
            (of(Standing::Blocked), "did nothing and wait for others (blocked)"),
            (of(Standing::Idle), "had nothing to do (idle)"),
            (of(Standing::Progress), "made progress"),
            (of(Standing::Unjudged), "not judged (in too few snapshots)"),
        ])
    ));
    let summary = |values: &[f64]| {
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, 0_f64), |(low, high), n| (low.min(*n), high.max(*n)));
        [low, high].map(|value| Cell::text(format::number(value)))
    };
    let [low, high] = summary(&counts);
    section.tables.push(Table {
        columns: vec![left("threads"), right("least"), right("most"), left("over time")],
        rows: vec![vec![Cell::text("all"), low, high, Cell::Line(counts)]],
    });

    // Threads that did nothing, together where they stand for the same reason at the same place.
    let mut stuck: Vec<(&ThreadRow, CallSite, u64)> = Vec::new();
    for row in alive
        .iter()
        .filter(|row| matches!(row.standing, Standing::ZombieSuspect | Standing::Blocked))
    {
        let place = profile.tables.place(row.seen.stack);
        let kind = |row: &ThreadRow| (row.standing, row.confidence, row.reason.clone());
        match stuck.iter_mut().find(|(known, at, _)| *at == place && kind(known) == kind(row)) {
            Some((_, _, count)) => *count += 1,
            None => stuck.push((row, place, 1)),
        }
    }
    stuck.sort_by_key(|(row, place, count)| {
        (row.standing, std::cmp::Reverse((row.confidence, *count)), *place)
    });
    if !stuck.is_empty() {
        let rows = stuck.iter().take(options.rows).map(|(row, place, count)| {
            vec![
                Cell::text(format::count(*count)),
                Cell::text(standing_word(row.standing, row.confidence)),
                Cell::text(profile.tables.thread_name(row.thread)),
                place_cell(profile, options, place, ""),
                Cell::text(format!(
                    "{}; observed for {}",
                    row.reason,
                    format::duration(row.watched)
                )),
            ]
        });
        let columns = vec![right("threads"), left("is"), left("such as"), left("in"), left("")];
        section.tables.push(Table { columns, rows: rows.collect() });
    }

    let starts = profile.start_rows();
    if !starts.is_empty() {
        let rows = starts.iter().take(options.rows).map(|row| {
            let by = match (row.starter, &row.place) {
                (Starter::Method(_), Some(place)) => place_cell(profile, options, place, ""),
                (Starter::Pool, _) => Cell::text("the thread pool"),
                (Starter::Native, _) => Cell::text("native code"),
                _ => Cell::text("the runtime, or not known"),
            };
            vec![
                Cell::text(format::count(row.started)),
                Cell::text(format::rate(row.per_second)),
                Cell::text(format::count(row.ended)),
                Cell::text(format::count(row.started - row.ended)),
                Cell::text(if row.leak { "leak" } else { "·" }),
                by,
                Cell::text(&row.reason),
            ]
        });
        let columns = vec![
            right("started"),
            right("rate"),
            right("ended"),
            right("left"),
            left(""),
            left("started in"),
            left(""),
        ];
        section.tables.push(Table { columns, rows: rows.collect() });
    }

    let mut by_cpu = alive.clone();
    by_cpu.sort_by_key(|row| (std::cmp::Reverse(row.cpu), row.thread));
    let columns = vec![
        left("thread"),
        left("of"),
        right("id"),
        right("CPU"),
        right("age"),
        left("state"),
        left("is"),
        left("in"),
    ];
    let shown = by_cpu.iter().take(options.rows).map(|row| {
        let os_state = char::from(row.seen.os_state);
        vec![
            Cell::text(profile.tables.thread_name(row.thread)),
            Cell::text(role_word(row.role)),
            Cell::text(row.managed_id.map_or("·".to_owned(), |id| id.to_string())),
            Cell::text(format::duration(row.cpu)),
            Cell::text(format::duration(row.age)),
            Cell::text(format!("{os_state} {}", state_word(row.seen.state))),
            Cell::text(standing_word(row.standing, row.confidence)),
            place_cell(profile, options, &profile.tables.place(row.seen.stack), ""),
        ]
    });
    section.tables.push(Table { columns, rows: shown.collect() });
    section.tables.push(merged_stacks(profile, options));
    section
}

/// The last snapshot as a tree: threads that stand in the same calls are together. Calls without a
/// branch are one row.
fn merged_stacks(profile: &Profile, options: &Options) -> Table {
    let options_of_tree = TreeOptions { merge_recursion: true, ..TreeOptions::default() };
    let tree = CallTree::new(&profile.tables, &profile.threads.series, options_of_tree);
    let short =
        |node: usize| profile.tables.function_name(tree.nodes()[node].function, NameStyle::SHORT);
    let mut rows = Vec::new();
    let mut open: Vec<(usize, usize)> =
        tree.children(None).into_iter().rev().map(|root| (root, 0)).collect();
    while let Some((node, depth)) = open.pop()
        && rows.len() < options.rows * 2
    {
        let mut chain = vec![short(node)];
        let mut at = node;
        let mut children = tree.children(Some(at));
        while let [only] = children[..]
            && tree.nodes()[at].own.weight == 0
        {
            chain.push(short(only));
            at = only;
            children = tree.children(Some(at));
        }
        let indent = "  ".repeat(depth.min(12));
        // The end of a chain says what threads do.
        let forms = (1..=chain.len()).rev().map(|length| {
            let cut = if length < chain.len() { "… → " } else { "" };
            format!("{indent}{cut}{}", chain[chain.len() - length..].join(" → "))
        });
        let threads = format::count(tree.nodes()[node].total.weight);
        rows.push(vec![Cell::text(threads), Cell::Name { forms: forms.collect(), place: None }]);
        open.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
    }
    Table { columns: vec![right("threads"), left("merged stacks, from the root")], rows }
}

/// What the health of a thread pool rests on, in sentences.
pub fn pool_verdict(profile: &Profile, summary: &PoolSummary) -> String {
    let share = format::percent(summary.queued.unwrap_or_default());
    let (waited, samples) = match summary.evidence {
        QueueEvidence::Length => {
            (format!("items waited in {share} of the queue samples"), "queue samples")
        }
        QueueEvidence::Workers => {
            (format!("items waited, and no worker was free, in {share} of the seconds"), "seconds")
        }
    };
    let (all, meanwhile) = (format::percent(summary.blocked.0), format::percent(summary.blocked.1));
    let mostly = summary.blocking.first().map_or(String::new(), |row| {
        let name = profile.tables.function_name(row.place.function, NameStyle::SHORT);
        format!(" Mostly they wait for {} in {name}.", waited_for(row.state))
    });
    match summary.health {
        PoolHealth::Starved => format!(
            "Starved: {waited}, and the workers were blocked \
             {meanwhile} of their time meanwhile.{mostly}"
        ),
        PoolHealth::Blocking => format!(
            "Workers block: {all} of the time of those that had work. The pool compensates with \
             more threads; {waited}.{mostly}"
        ),
        PoolHealth::Busy => format!(
            "Busy, not starved: {waited}, while the workers \
             ran; they were blocked {meanwhile} of their time."
        ),
        PoolHealth::Healthy => format!(
            "Healthy: {waited}; workers with work were \
                blocked {all} of the time."
        ),
        PoolHealth::Unknown => {
            format!("Too little data to judge: fewer than three {samples}, or no worker at work.")
        }
    }
}

/// What blocked workers wait for.
pub fn waited_for(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Task => "tasks (sync over async)",
        ThreadState::Sleep => "time (sleep)",
        ThreadState::Lock => "locks",
        ThreadState::Event => "events and semaphores",
        ThreadState::Io => "input or output",
        state => state_word(state),
    }
}

/// The counters of the thread pool, with their words.
pub const POOL_COUNTERS: [(&str, &str); 3] = [
    ("queue-length", "items in the queue"),
    ("thread-count", "threads"),
    ("completed-items-count", "finished items /s"),
];

fn threadpool(profile: &Profile, options: &Options) -> Section {
    let mut section =
        Section { title: "Thread pool".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let summary = profile.pool_summary();
    section.lead.push(pool_verdict(profile, &summary));
    let mut facts = Vec::new();
    if let Some((min, max)) = summary.limits {
        facts.push(format!(
            "between {} and {} are allowed",
            format::count(min.into()),
            format::count(max.into())
        ));
    }
    if summary.started + summary.stopped > 0 {
        let (started, stopped) = (format::count(summary.started), format::count(summary.stopped));
        facts.push(format!("{started} began, {stopped} ended"));
    }
    if !facts.is_empty() {
        section.lead.push(format!("Workers: {}.", facts.join("; ")));
    }
    let counters = POOL_COUNTERS.iter().filter_map(|(name, word)| {
        let counter = profile.pool_counter(name)?;
        let known = counter.summary()?;
        let mut row = vec![Cell::text(*word)];
        row.extend(
            [known.last, known.mean, known.max].map(|value| Cell::text(format::number(value))),
        );
        row.push(Cell::Line(counter.values.iter().map(|(_, value)| *value).collect()));
        Some(row)
    });
    let counters: Vec<_> = counters.collect();
    if !counters.is_empty() {
        let columns =
            vec![left(""), right("last"), right("mean"), right("most"), left("over time")];
        section.tables.push(Table { columns, rows: counters });
    }
    if !summary.adjustments.is_empty() {
        let rows = summary.adjustments.iter().map(|row| {
            let at = |time: u64| {
                format!("{:.1} s", time.saturating_sub(profile.info.start) as f64 / 1e9)
            };
            vec![
                Cell::text(&row.reason),
                Cell::text(format::count(row.count)),
                Cell::text(format!("{:+}", row.workers)),
                Cell::text(at(row.times.0)),
                Cell::text(at(row.times.1)),
            ]
        });
        let columns = vec![
            left("number of workers changed for"),
            right("times"),
            right("by"),
            right("first"),
            right("last"),
        ];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    if summary.at_work > 0 {
        let mut kinds: Vec<(ThreadState, u64)> = STATES
            .into_iter()
            .filter(|state| *state != ThreadState::Idle)
            .map(|state| (state, summary.by_state[state_index(state)]))
            .filter(|(_, time)| *time > 0)
            .collect();
        kinds.sort_by_key(|(state, time)| (std::cmp::Reverse(*time), *state));
        let rows = kinds.into_iter().map(|(state, time)| {
            let share = time as f64 / summary.at_work as f64;
            let word = if profile::blocks(state) { waited_for(state) } else { state_word(state) };
            vec![
                Cell::text(format::percent(share)),
                Cell::Bar(share),
                Cell::text(format::duration(time)),
                Cell::text(word),
            ]
        });
        let columns = vec![
            right("share"),
            left(""),
            right("time"),
            left("workers with work: running, or waiting for"),
        ];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    if !summary.blocking.is_empty() {
        let rows = summary.blocking.iter().take(options.rows).map(|row| {
            vec![
                Cell::text(format::percent(row.share)),
                Cell::text(format::duration(row.time)),
                Cell::text(format::duration(row.time_queued)),
                Cell::text(format::count(row.threads)),
                Cell::text(waited_for(row.state)),
                place_cell(profile, options, &row.place, ""),
            ]
        });
        let columns = vec![
            right("share"),
            right("time"),
            right("while items waited"),
            right("workers"),
            left("wait for"),
            left("in"),
        ];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    section
}

/// Word for a tier of compilation.
pub fn tier_word(tier: JitTier) -> &'static str {
    match tier {
        JitTier::Unknown => "unknown",
        JitTier::MinOpt => "not optimized",
        JitTier::Optimized => "optimized at once",
        JitTier::Quick => "tier 0",
        JitTier::Tier1 => "tier 1",
        JitTier::Tier1Osr => "tier 1 in a loop (OSR)",
        JitTier::QuickInstrumented => "tier 0 instrumented",
        JitTier::Tier1Instrumented => "tier 1 instrumented",
    }
}

/// Word for what became of precompiled code; empty where there is nothing to say.
pub fn precompiled_word(precompiled: PrecompiledCode) -> &'static str {
    match precompiled {
        PrecompiledCode::NotSought => "",
        PrecompiledCode::Missing => "not in the image",
        PrecompiledCode::Rejected => "refused",
        PrecompiledCode::RejectedByProfiler => "refused by a profiler",
    }
}

/// Parts of a line over the time of the recording.
const LINE_PARTS: usize = 48;

fn jit(profile: &Profile, options: &Options) -> Section {
    let mut section =
        Section { title: "Compilation".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let summary = profile.jit_summary();
    let lookups = profile.jit.lookups();
    if lookups.found + lookups.missing > 0 {
        let took = if lookups.duration > 0 {
            format!(", found in {}", format::duration(lookups.duration))
        } else {
            String::new()
        };
        section.lead.push(format!(
            "Precompiled code was used for {}{took}; {} had none that could be used.",
            format::counted(lookups.found, "method"),
            format::count(lookups.missing),
        ));
    }
    if summary.all.totals.samples == 0 {
        section.lead.insert(0, "No method was compiled.".to_owned());
        return section;
    }
    let of = |sums: &JitTotals| match sums.totals.samples {
        0 => "none".to_owned(),
        samples => {
            format!("{} in {}", format::count(samples), format::duration(sums.totals.weight))
        }
    };
    let main = summary
        .by_thread
        .iter()
        .find(|(thread, _)| profile.tables.threads[thread.index()].os_tid == profile.info.pid);
    let of_main = main
        .map(|(_, sums)| format!(", {} of it on the main thread", format::duration(sums.weight)));
    section.lead.insert(0, format!(
        "{} in {}, {} on average over the recording; threads waited for {}{}; in the background \
         {}. {} of IL became {} of code.",
        format::counted(summary.all.totals.samples, "compilation"),
        format::duration(summary.all.totals.weight),
        format::rate(summary.all.totals.samples as f64 / (profile.duration().max(1) as f64 / 1e9)),
        of(&summary.blocking),
        of_main.unwrap_or_default(),
        of(&summary.background),
        format::bytes(summary.all.il),
        format::bytes(summary.all.native),
    ));
    let mut parts = Vec::new();
    for (sums, what) in [
        (&summary.again, "of methods that had been compiled before"),
        (&summary.missing, "although their module is precompiled"),
        (&summary.rejected, "because precompiled code was refused"),
        (&summary.dynamic, "of dynamic methods"),
        (&summary.stubs, "of stubs"),
    ] {
        if sums.totals.samples > 0 {
            parts.push(format!("{} {what}", of(sums)));
        }
    }
    if summary.untimed > 0 {
        parts.push(format!("{} whose beginning was not seen", format::count(summary.untimed)));
    }
    if lookups.freed > 0 {
        parts.push(format!("code of {} was freed", format::counted(lookups.freed, "method")));
    }
    if !parts.is_empty() {
        section.lead.push(format!("Among them {}.", parts.join(", ")));
    }
    let all = summary.all.totals.weight.max(1) as f64;
    let sizes = |sums: &JitTotals| {
        [Cell::text(format::bytes(sums.il)), Cell::text(format::bytes(sums.native))]
    };
    let tiers = summary.tiers.iter().map(|(tier, sums)| {
        let mut row = vec![
            Cell::text(format::count(sums.totals.samples)),
            Cell::text(format::duration(sums.totals.weight)),
            Cell::text(format::percent(sums.totals.weight as f64 / all)),
        ];
        row.extend(sizes(sums));
        row.push(Cell::text(tier_word(*tier)));
        row
    });
    let columns = vec![
        right("methods"),
        right("time"),
        right("share"),
        right("IL"),
        right("code"),
        left("tier"),
    ];
    section.tables.push(Table { columns, rows: tiers.collect() });
    let over_time = profile.jit_over_time(LINE_PARTS);
    let line = |value: fn(&Totals) -> u64| {
        Cell::Line(over_time.iter().map(|part| value(part) as f64).collect())
    };
    let part = profile.duration().max(1) as f64 / 1e9 / LINE_PARTS as f64;
    let most = over_time.iter().map(|part| part.samples).max().unwrap_or(0);
    let longest = over_time.iter().map(|part| part.weight).max().unwrap_or(0) as f64 / 1e9 / part;
    let rows = vec![
        vec![
            line(|part| part.samples),
            Cell::text(format::rate(most as f64 / part)),
            Cell::text("methods compiled"),
        ],
        vec![
            line(|part| part.weight),
            Cell::text(format!("{longest:.2}")),
            Cell::text("threads that compile"),
        ],
    ];
    section
        .tables
        .push(Table { columns: vec![left("over time"), right("peak"), left("of")], rows });

    let rows = profile.jit_rows();
    let method = |row: &JitRow| {
        let Cell::Name { forms, .. } = name(profile, options, row.function) else {
            return Cell::text("");
        };
        let more = if row.methods > 1 {
            format!(" ({} of them)", format::count(row.methods))
        } else {
            String::new()
        };
        Cell::Name { forms: forms.into_iter().map(|form| form + &more).collect(), place: None }
    };
    let caller = |row: &JitRow| match row.called_at {
        Some(place) => {
            let forms = [NameStyle::PLAIN, NameStyle::SHORT];
            let forms = forms.map(|style| profile.tables.function_name(place.function, style));
            with_place(
                Cell::Name { forms: forms.to_vec(), place: None },
                profile,
                options,
                place.line,
            )
        }
        None => Cell::text("·"),
    };
    let words = |row: &JitRow| {
        let tier = |(tier, count): &(JitTier, u64)| match count {
            1 => tier_word(*tier).to_owned(),
            count => format!("{count} × {}", tier_word(*tier)),
        };
        row.tiers.iter().map(tier).collect::<Vec<_>>().join(", ")
    };
    let expensive = rows.iter().take(options.rows).map(|row| {
        let mut cells = vec![
            Cell::text(format::duration(row.sums.totals.weight)),
            Cell::text(format::duration(row.blocking)),
            Cell::text(format::duration(row.longest)),
        ];
        cells.extend(sizes(&row.sums));
        cells.extend([Cell::text(words(row)), method(row), caller(row)]);
        cells
    });
    let columns = vec![
        right("time"),
        right("waited"),
        right("longest"),
        right("IL"),
        right("code"),
        left("tier"),
        left("method"),
        left("mostly for a call in"),
    ];
    section.tables.push(Table { columns, rows: expensive.collect() });
    let mut again: Vec<&JitRow> = rows.iter().filter(|row| row.most > 1).collect();
    again.sort_by_key(|row| (std::cmp::Reverse((row.most, row.sums.totals.weight)), row.function));
    if !again.is_empty() {
        let rows = again.iter().take(options.rows.min(10)).map(|row| {
            vec![
                Cell::text(format::count(row.most)),
                Cell::text(format::duration(row.sums.totals.weight)),
                Cell::text(words(row)),
                method(row),
            ]
        });
        let columns =
            vec![right("times"), right("time"), left("tiers"), left("most often compiled")];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    let mut without: Vec<&JitRow> = rows
        .iter()
        .filter(|row| {
            row.precompiled != PrecompiledCode::NotSought
                && profile.tables.function(row.function).kind == FunctionKind::Managed
        })
        .collect();
    without.truncate(options.rows.min(10));
    if !without.is_empty() {
        let rows = without.iter().map(|row| {
            let module =
                profile.tables.function_module(row.function).unwrap_or("not known").to_owned();
            let time = Cell::text(format::duration(row.sums.totals.weight));
            vec![
                time,
                Cell::text(precompiled_word(row.precompiled)),
                Cell::text(module),
                method(row),
            ]
        });
        let columns = vec![right("time"), left("precompiled code"), left("module"), left("method")];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    if summary.by_thread.len() > 1 {
        let rows = summary.by_thread.iter().take(options.rows.min(8)).map(|(thread, sums)| {
            let time = Cell::text(format::duration(sums.weight));
            vec![
                time,
                Cell::text(format::count(sums.samples)),
                Cell::text(profile.tables.thread_name(*thread)),
            ]
        });
        let columns = vec![right("waited"), right("methods"), left("thread")];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    section
}

/// Simple name and version of an assembly by its full name.
pub fn assembly_name(name: &str) -> (&str, &str) {
    let mut parts = name.split(',').map(str::trim);
    let simple = parts.next().unwrap_or(name);
    (simple, parts.find_map(|part| part.strip_prefix("Version=")).unwrap_or_default())
}

/// What became of a request for an assembly, in words.
pub fn load_word(load: &AssemblyLoad) -> String {
    let mut word = match load.outcome {
        LoadOutcome::Loaded if load.dynamic => "made at run time",
        LoadOutcome::Loaded => "loaded",
        LoadOutcome::Known => "known",
        LoadOutcome::Failed => "not found",
    }
    .to_owned();
    if load.collectible {
        word.push_str(", can be unloaded");
    }
    word
}

fn loads(profile: &Profile, options: &Options) -> Section {
    let mut section = Section { title: "Loads".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let summary = profile.load_summary();
    let loads = &profile.loads;
    if loads.assemblies.is_empty() && loads.types.is_empty() && loads.unloads.is_empty() {
        section.lead.push("Nothing was loaded.".to_owned());
        return section;
    }
    let mut lead = format!(
        "{} loaded ({} with precompiled code, {} made at run time, {} that can be unloaded), {} \
            unloaded",
        match summary.loaded {
            1 => "1 assembly".to_owned(),
            loaded => format!("{} assemblies", format::count(loaded)),
        },
        format::count(summary.precompiled),
        format::count(summary.dynamic),
        format::count(summary.collectible),
        format::count(summary.unloaded),
    );
    if summary.timed {
        lead.push_str(&format!(
            "; {} for what was known already, {} failed. Threads spent {} on assemblies, {} of it \
                on what was not found",
            format::counted(summary.known, "request"),
            format::count(summary.failed),
            format::duration(summary.assembly_time),
            format::duration(summary.failed_time),
        ));
    }
    section.lead.push(lead + ".");
    if summary.timed {
        section.lead.push(format!(
            "{} loaded in {}, for {}.",
            format::counted(summary.distinct_types, "type"),
            format::counted(summary.types.samples, "step"),
            format::duration(summary.types.weight),
        ));
    } else {
        section.lead.push(
            "This runtime does not say how long loads took, what was not found, and which types \
                were loaded (.NET 5 and newer do)."
                .to_owned(),
        );
    }
    let main = summary
        .by_thread
        .iter()
        .find(|(thread, ..)| profile.tables.threads[thread.index()].os_tid == profile.info.pid);
    if let (Some((_, assemblies, types)), true) = (main, summary.timed) {
        section.lead.push(format!(
            "The main thread waited {} for assemblies and {} for types.",
            format::duration(assemblies.weight),
            format::duration(types.weight)
        ));
    }
    let unknown = || Cell::text("·");
    let time =
        |time: Option<u64>| time.map_or_else(unknown, |time| Cell::text(format::duration(time)));
    let at = |load: &AssemblyLoad| {
        Cell::text(format::duration(load.time.saturating_sub(profile.info.start)))
    };
    let caller = |stack| {
        let place = profile.tables.place(stack);
        if !profile.tables.is_managed(place.function) {
            return Cell::text("the runtime itself");
        }
        let forms = [NameStyle::PLAIN, NameStyle::SHORT]
            .map(|style| profile.tables.function_name(place.function, style));
        with_place(Cell::Name { forms: forms.to_vec(), place: None }, profile, options, place.line)
    };
    let mut loaded: Vec<&AssemblyLoad> =
        loads.assemblies.iter().filter(|load| load.outcome == LoadOutcome::Loaded).collect();
    loaded.sort_by_key(|load| (std::cmp::Reverse(load.own), load.time));
    let rows = loaded.iter().take(options.rows).map(|load| {
        let (simple, version) = assembly_name(&load.name);
        let path = if load.path.is_empty() { load_word(load) } else { load.path.clone() };
        vec![
            at(load),
            time(load.own),
            time(load.resolution),
            Cell::text(simple),
            Cell::text(version),
            Cell::text(profile.tables.thread_name(load.thread)),
            caller(load.stack),
            Cell::Name {
                forms: vec![path.clone(), format::file_name(&path).to_owned()],
                place: None,
            },
        ]
    });
    if !loaded.is_empty() {
        let columns = vec![
            right("at"),
            right("took"),
            right("to find it"),
            left("assembly"),
            left("version"),
            left("thread"),
            left("for a call in"),
            left("file"),
        ];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    let mut failed: Vec<&AssemblyLoad> =
        loads.assemblies.iter().filter(|load| load.outcome == LoadOutcome::Failed).collect();
    failed.sort_by_key(|load| (std::cmp::Reverse(load.own), load.time));
    let rows = failed.iter().take(options.rows).map(|load| {
        vec![
            at(load),
            time(load.own),
            Cell::text(assembly_name(&load.requested).0),
            Cell::text(assembly_name(&load.requested_by).0),
            caller(load.stack),
        ]
    });
    if !failed.is_empty() {
        let columns = vec![
            right("at"),
            right("took"),
            left("not found"),
            left("requested by"),
            left("for a call in"),
        ];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    // Where the search itself took its time: handlers, and folders on slow disks.
    let steps =
        loads.assemblies.iter().flat_map(|load| load.steps.iter().map(move |step| (load, step)));
    let mut steps: Vec<_> = steps.filter(|(_, step)| step.took >= SLOW_STEP).collect();
    steps.sort_by_key(|(load, step)| (std::cmp::Reverse(step.took), load.time));
    let rows = steps.iter().take(options.rows.min(10)).map(|(load, step)| {
        let forms = vec![step.what.clone(), format::file_name(&step.what).to_owned()];
        vec![
            Cell::text(format::duration(step.took)),
            Cell::text(if step.found { "found" } else { "not found" }),
            Cell::text(assembly_name(&load.requested).0),
            Cell::Name { forms, place: None },
        ]
    });
    if !steps.is_empty() {
        let columns =
            vec![right("took"), left(""), left("searched for"), left("slow step of the search")];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    let types = profile.type_load_rows();
    let rows = types.iter().take(options.rows.min(15)).map(|row| {
        let place = row.called_at.map(|place| {
            let forms = [NameStyle::PLAIN, NameStyle::SHORT]
                .map(|style| profile.tables.function_name(place.function, style));
            with_place(
                Cell::Name { forms: forms.to_vec(), place: None },
                profile,
                options,
                place.line,
            )
        });
        vec![
            Cell::text(format::duration(row.totals.weight)),
            Cell::text(format::duration(row.longest)),
            Cell::text(format::count(row.totals.samples)),
            type_name(profile, row.ty),
            place.unwrap_or_else(unknown),
        ]
    });
    if !types.is_empty() {
        let columns = vec![
            right("took"),
            right("longest, inclusive"),
            right("steps"),
            left("type"),
            left("mostly for a call in"),
        ];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    if summary.timed && summary.by_thread.len() > 1 {
        let rows = summary.by_thread.iter().take(options.rows.min(8)).map(
            |(thread, assemblies, types)| {
                vec![
                    Cell::text(format::duration(assemblies.weight)),
                    Cell::text(format::count(assemblies.samples)),
                    Cell::text(format::duration(types.weight)),
                    Cell::text(format::count(types.samples)),
                    Cell::text(profile.tables.thread_name(*thread)),
                ]
            },
        );
        let columns = vec![
            right("for assemblies"),
            right("requests"),
            right("for types"),
            right("steps"),
            left("thread"),
        ];
        section.tables.push(Table { columns, rows: rows.collect() });
    }
    section
}

/// Steps of a search that took less are not shown, nanoseconds.
const SLOW_STEP: u64 = 1_000_000;

fn calls(profile: &Profile, options: &Options, kind: SeriesKind) -> Section {
    let title = if kind == SeriesKind::Calls { "Calls" } else { "Transitions" };
    let mut section = Section { title: title.to_owned(), lead: Vec::new(), tables: Vec::new() };
    let totals = profile.series(kind).totals;
    if totals.samples == 0 {
        let nothing = match kind {
            SeriesKind::Calls => "No method that matches the filter was called.",
            _ => "Managed and native code did not call each other.",
        };
        section.lead.push(nothing.to_owned());
        return section;
    }
    let what = match kind {
        SeriesKind::Calls => "in methods that match the filter",
        _ => "between managed and native code",
    };
    section.lead.push(format!(
        "{} {what}, every one counted; {} in them. Self is the time in a method without the calls \
         from it that are counted here; it includes the time that counting takes.",
        format::counted(totals.samples, "call"),
        format::duration(totals.weight),
    ));
    // What stands right below native code was called by it.
    let tables = &profile.tables;
    let called_by_native = |stack| {
        let caller =
            tables.parent(stack).map(|caller| tables.function(tables.stack_function(caller)).kind);
        caller == Some(FunctionKind::Native)
    };
    let cells = profile.series(kind).cells.iter().filter(|cell| called_by_native(cell.stack));
    let managed: std::collections::HashSet<FunctionId> =
        cells.map(|cell| tables.stack_function(cell.stack)).collect();
    let rows = profile.top_functions(kind);
    let rows = rows
        .iter()
        .filter(|row| row.own.samples > 0 || row.own.weight > 0)
        .take(options.rows)
        .map(|row| {
            let mean = row.total.weight.checked_div(row.own.samples).unwrap_or_default();
            let into = if managed.contains(&row.function) { "managed" } else { "native" };
            let mut cells =
                if kind == SeriesKind::Transitions { vec![Cell::text(into)] } else { Vec::new() };
            cells.extend([
                Cell::text(format::count(row.own.samples)),
                Cell::text(format::duration(row.own.weight)),
                Cell::text(format::percent(row.own_share.share)),
                Cell::Bar(row.own_share.share),
                Cell::text(format::duration(row.total.weight)),
                Cell::text(format::duration(mean)),
                name(profile, options, row.function),
            ]);
            cells
        });
    let mut columns = if kind == SeriesKind::Transitions { vec![left("to")] } else { Vec::new() };
    columns.extend([
        right("calls"),
        right("self"),
        right("share"),
        left(""),
        right("total"),
        right("per call"),
        left("method"),
    ]);
    section.tables.push(Table { rows: rows.collect(), columns });
    section.tables.push(hot_paths(profile, options, kind));
    section
}

fn traced(profile: &Profile, options: &Options) -> Section {
    let mut section =
        Section { title: "Traced methods".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let called = profile.traced.called();
    let refused: Vec<_> = profile
        .traced
        .methods()
        .filter_map(|method| method.refusal().map(|why| (method, why)))
        .collect();
    let instrumented = profile.traced.methods().count() - refused.len();
    section.lead.push(format!(
        "{} instrumented, {} called in {}. Times are from the call to its end, also of \
            asynchronous methods; a percentile is exact to 3 %.",
        format::counted(instrumented as u64, "method"),
        format::count(called.len() as u64),
        format::duration(profile.traced.time().as_nanos() as u64),
    ));
    if !called.is_empty() {
        let time = |nanos: Option<f64>| {
            Cell::text(
                nanos
                    .map_or_else(|| "-".to_owned(), |nanos| format::duration(nanos.round() as u64)),
            )
        };
        let rows = called.iter().take(options.rows).map(|method| {
            let calls = &method.calls;
            let timed = calls.timed > 0;
            vec![
                Cell::text(format::count(calls.calls)),
                Cell::text(if timed { format::count(calls.failed) } else { "-".to_owned() }),
                time(timed.then_some(calls.total)),
                time(calls.quantile(0.5)),
                time(calls.quantile(0.9)),
                time(calls.quantile(0.99)),
                time(timed.then_some(calls.longest)),
                name(profile, options, method.function),
            ]
        });
        let columns =
            ["calls", "errors", "total", "p50", "p90", "p99", "max"].map(right).into_iter();
        section.tables.push(Table {
            rows: rows.collect(),
            columns: columns.chain([left("method")]).collect(),
        });
    }
    let slowest = profile.traced.slowest();
    if !slowest.is_empty() {
        let rows = slowest.iter().take(options.rows).map(|call| {
            let from = call.begun.saturating_sub(profile.start) as f64 / 1e9;
            vec![
                Cell::text(format::duration(call.taken)),
                Cell::text(format!("{from:.3} s")),
                Cell::text(if call.failed { "error" } else { "" }),
                Cell::text(profile.tables.thread_name(call.thread)),
                name(profile, options, call.function),
            ]
        });
        let columns =
            vec![right("slowest"), right("from"), left(""), left("thread"), left("method")];
        section.tables.push(Table { rows: rows.collect(), columns });
        section.tables.extend(arguments(profile, &slowest, options));
    }
    if !refused.is_empty() {
        let rows = refused.iter().take(options.rows);
        let rows = rows
            .map(|(method, why)| vec![Cell::text(*why), name(profile, options, method.function)])
            .collect();
        section
            .tables
            .push(Table { rows, columns: vec![left("not instrumented, because"), left("method")] });
    }
    section
}

/// The slowest calls with their arguments, if those were asked for.
fn arguments(profile: &Profile, slowest: &[SingleCall], options: &Options) -> Option<Table> {
    let rows = slowest.iter().take(options.rows).filter_map(|call| {
        let method =
            profile.traced.method(call.function).filter(|method| !method.parameters.is_empty())?;
        let arguments = ShownArgument::of(&profile.tables, method, call);
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let name = profile.tables.function_name(call.function, NameStyle::SHORT);
        let text = format!("{name}({})", arguments.join(", "));
        Some(vec![Cell::text(format::duration(call.taken)), Cell::text(text)])
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty())
        .then(|| Table { rows, columns: vec![right("slowest"), left("with its arguments")] })
}

/// Counters that are shown even where fewer rows of other things are.
const MOST_COUNTERS: usize = 100;

fn counters(profile: &Profile, options: &Options) -> Section {
    let mut section =
        Section { title: "Counters".to_owned(), lead: Vec::new(), tables: Vec::new() };
    let known = profile.counters.iter().filter_map(|counter| Some((counter, counter.summary()?)));
    let mut known: Vec<_> = known.collect();
    if known.is_empty() {
        section.lead.push("No values: recordings shorter than the interval have none.".to_owned());
        return section;
    }
    known.sort_by(|(one, _), (other, _)| {
        one.def.source.cmp(&other.def.source).then(one.def.title.cmp(&other.def.title))
    });
    // A program has some dozens; with tags it may have any number.
    let most = options.rows.max(MOST_COUNTERS);
    if known.len() > most {
        let (all, rest) =
            (format::count(known.len() as u64), format::count((known.len() - most) as u64));
        section.lead.push(format!("{all} counters; the last {rest} by name are left out here."));
        known.truncate(most);
    }
    let rows = known.iter().map(|(counter, summary)| {
        let CounterDef { title, unit, tags, kind, source, .. } = &counter.def;
        let per = if *kind == CounterKind::Rate { "/s" } else { "" };
        let values: Vec<&str> = tags
            .split(',')
            .map(|tag| tag.split_once('=').map_or(tag, |(_, value)| value))
            .collect();
        let in_brackets =
            |text: &str| if text.is_empty() { String::new() } else { format!(" [{text}]") };
        let (tags, values) = (in_brackets(tags), in_brackets(&values.join(", ")));
        let mut cells: Vec<Cell> = [summary.last, summary.mean, summary.min, summary.max]
            .map(|value| Cell::text(format::number(value)))
            .into();
        cells.push(Cell::text(format!("{unit}{per}")));
        cells.push(Cell::Line(counter.values.iter().map(|(_, value)| *value).collect()));
        let forms = vec![
            format!("{title}{tags}  {source}"),
            format!("{title}{tags}"),
            format!("{title}{values}"),
        ];
        cells.push(Cell::Name { forms, place: None });
        cells
    });
    let columns = vec![
        right("last"),
        right("mean"),
        right("min"),
        right("max"),
        left("unit"),
        left("over time"),
        left("counter"),
    ];
    section.tables.push(Table { rows: rows.collect(), columns });
    section
}

fn observer(profile: &Profile) -> Option<Section> {
    let status = profile.observer_total()?;
    let seconds = (profile.stop.saturating_sub(profile.info.start)).max(1) as f64;
    let share = |nanos: u64| format::percent(nanos as f64 / seconds);
    let mut lead = vec![format!(
        "In the process: {} of processor time ({} of one processor), {} of memory, the runtime \
         suspended for {} ({}). clrscope itself: {} of processor time.",
        format::duration(status.target_cpu),
        share(status.target_cpu),
        format::bytes(status.target_memory),
        format::duration(status.target_stopped),
        share(status.target_stopped),
        format::duration(status.own_cpu),
    )];
    let named = |pairs: &[(String, u64)]| {
        let pairs: Vec<_> = pairs
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| format!("{name} {}", format::count(*n)))
            .collect();
        pairs.join(", ")
    };
    let dropped = named(&status.dropped);
    if !dropped.is_empty() {
        lead.push(format!("Dropped: {dropped}."));
    }
    lead.extend(held(profile));
    Some(Section { title: "Cost of the observation".to_owned(), lead, tables: Vec::new() })
}

/// What a user has to know of what the agent held in the process: whether something is left, and
/// what it would have needed more of. The rest is in the JSON report and on the HTML page.
fn held(profile: &Profile) -> Vec<String> {
    let amount = |used: &ResourceUse, amount: u64| {
        let bytes = used.unit == "bytes";
        let amount = if bytes { format::bytes(amount) } else { format::count(amount) };
        format!("{} {amount}", used.name)
    };
    let list = |parts: Vec<String>| parts.join(", ");
    let left = |used: &&ResourceUse| used.left.is_some_and(|left| left > 0);
    let left = profile.resources.iter().filter(left);
    let left = list(left.map(|used| amount(used, used.left.unwrap_or_default())).collect());
    let refused = profile.resources.iter().filter(|used| used.refused > 0);
    let refused = list(refused.map(|used| amount(used, used.budget)).collect());
    let mut said = Vec::new();
    if !left.is_empty() {
        said.push(format!("Left in the process: {left}."));
    } else if profile.resources.iter().any(|used| used.left.is_some()) {
        said.push("Nothing is left in the process.".to_owned());
    }
    if !refused.is_empty() {
        said.push(format!("More was needed than the agent allows itself: {refused}."));
    }
    said
}

fn notes(profile: &Profile) -> Option<Section> {
    if profile.notes.is_empty() {
        return None;
    }
    let start = profile.info.start;
    let rows = profile
        .notes
        .iter()
        .map(|(time, message)| {
            vec![
                Cell::text(format!("{:.1} s", time.saturating_sub(start) as f64 / 1e9)),
                Cell::text(message),
            ]
        })
        .collect();
    Some(Section {
        title: "Notes".to_owned(),
        lead: Vec::new(),
        tables: vec![Table { columns: vec![right("at"), left("")], rows }],
    })
}
