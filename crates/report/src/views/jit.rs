//! `jit`: compilations.

use profile::{
    Compilation, JitRow, JitSummary, JitTotals, Profile, SeriesKind, Totals,
    session::{FunctionKind, JitTier, PrecompiledCode, PrecompiledCount},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Cell, Section, Table, View,
    cells::{name, place_cell},
    is_wanted, json_part, left, right,
};
use crate::{
    Options, format,
    html::{Interner, MOST_ROWS},
    json::{PlaceJson, since},
};

pub const VIEW: View =
    View { section, json: Some(json_part!("jit", Json, json)), page: Some(("jit", page)) };

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = is_wanted(profile, options, SeriesKind::Jit);
    is_shown.then(|| jit(profile, options))
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
    let summary = profile.jit_summary();
    let lookups = profile.jit.lookups();
    let mut section = Section::new("Compilation");
    let is_any = summary.all.totals.samples > 0;
    section.say(match is_any {
        true => totals(profile, &summary),
        false => "No method was compiled.".to_owned(),
    });
    section.lead.extend(precompiled(&lookups));
    if !is_any {
        return section;
    }
    section.lead.extend(among_them(&summary, &lookups));
    let rows = profile.jit_rows();
    section.add(tiers(&summary));
    section.add(over_time(profile));
    section.extend(expensive(profile, options, &rows));
    section.extend(again(profile, options, &rows));
    section.extend(not_precompiled(profile, options, &rows));
    section.extend(threads(profile, options, &summary));
    section
}

fn precompiled(lookups: &PrecompiledCount) -> Option<String> {
    if lookups.found + lookups.missing == 0 {
        return None;
    }
    let took = if lookups.duration > 0 {
        format!(", found in {}", format::duration(lookups.duration))
    } else {
        String::new()
    };
    Some(format!(
        "Precompiled code was used for {}{took}; {} had none that could be used.",
        format::counted(lookups.found, "method"),
        format::count(lookups.missing),
    ))
}

/// How many compilations took how long.
fn number_and_time(sums: &JitTotals) -> String {
    match sums.totals.samples {
        0 => "none".to_owned(),
        samples => {
            format!("{} in {}", format::count(samples), format::duration(sums.totals.weight))
        }
    }
}

fn totals(profile: &Profile, summary: &JitSummary) -> String {
    let main = summary
        .by_thread
        .iter()
        .find(|(thread, _)| profile.tables.threads[thread.index()].os_tid == profile.info.pid);
    let of_main = main
        .map(|(_, sums)| format!(", {} of it on the main thread", format::duration(sums.weight)));
    format!(
        "{} in {}, {} on average over the recording; threads waited for {}{}; in the background \
         {}. {} of IL became {} of code.",
        format::counted(summary.all.totals.samples, "compilation"),
        format::duration(summary.all.totals.weight),
        format::rate(summary.all.totals.samples as f64 / (profile.duration().max(1) as f64 / 1e9)),
        number_and_time(&summary.blocking),
        of_main.unwrap_or_default(),
        number_and_time(&summary.background),
        format::bytes(summary.all.il),
        format::bytes(summary.all.native),
    )
}

fn among_them(summary: &JitSummary, lookups: &PrecompiledCount) -> Option<String> {
    let kinds = [
        (&summary.again, "of methods that had been compiled before"),
        (&summary.missing, "although their module is precompiled"),
        (&summary.rejected, "because precompiled code was refused"),
        (&summary.dynamic, "of dynamic methods"),
        (&summary.stubs, "of stubs"),
    ];
    let kinds = kinds.into_iter().filter(|(sums, _)| sums.totals.samples > 0);
    let mut parts: Vec<String> =
        kinds.map(|(sums, what)| format!("{} {what}", number_and_time(sums))).collect();
    if summary.untimed > 0 {
        parts.push(format!("{} whose beginning was not seen", format::count(summary.untimed)));
    }
    if lookups.freed > 0 {
        parts.push(format!("code of {} was freed", format::counted(lookups.freed, "method")));
    }
    (!parts.is_empty()).then(|| format!("Among them {}.", parts.join(", ")))
}

fn sizes(sums: &JitTotals) -> [Cell; 2] {
    [Cell::bytes(sums.il), Cell::bytes(sums.native)]
}

fn tiers(summary: &JitSummary) -> Table {
    let all = summary.all.totals.weight.max(1) as f64;
    let rows = summary.tiers.iter().map(|(tier, sums)| {
        let mut row = vec![
            Cell::count(sums.totals.samples),
            Cell::nanoseconds(sums.totals.weight),
            Cell::share(sums.totals.weight as f64 / all),
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
    Table::new(columns, rows)
}

fn over_time(profile: &Profile) -> Table {
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
            Cell::per_second(most as f64 / part),
            Cell::text("methods compiled"),
        ],
        vec![
            line(|part| part.weight),
            Cell::text(format!("{longest:.2}")),
            Cell::text("threads that compile"),
        ],
    ];
    Table::new(vec![left("over time"), right("peak"), left("of")], rows)
}

fn method(profile: &Profile, options: &Options, row: &JitRow) -> Cell {
    let Cell::Name { forms, .. } = name(profile, options, row.function) else {
        return Cell::text("");
    };
    let more = if row.methods > 1 {
        format!(" ({} of them)", format::count(row.methods))
    } else {
        String::new()
    };
    Cell::Name { forms: forms.into_iter().map(|form| form + &more).collect(), place: None }
}

/// The tiers that a method was compiled to, and how often.
fn tier_words(row: &JitRow) -> Cell {
    let tier = |(tier, count): &(JitTier, u64)| match count {
        1 => tier_word(*tier).to_owned(),
        count => format!("{count} × {}", tier_word(*tier)),
    };
    Cell::text(row.tiers.iter().map(tier).collect::<Vec<_>>().join(", "))
}

fn expensive(profile: &Profile, options: &Options, rows: &[JitRow]) -> Option<Table> {
    let rows = rows.iter().take(options.rows).map(|row| {
        let mut cells = vec![
            Cell::nanoseconds(row.sums.totals.weight),
            Cell::nanoseconds(row.blocking),
            Cell::nanoseconds(row.longest),
        ];
        cells.extend(sizes(&row.sums));
        let caller = match &row.called_at {
            Some(place) => place_cell(profile, options, place, ""),
            None => Cell::Nothing,
        };
        cells.extend([tier_words(row), method(profile, options, row), caller]);
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
    Table::of(columns, rows)
}

fn again(profile: &Profile, options: &Options, rows: &[JitRow]) -> Option<Table> {
    let mut again: Vec<&JitRow> = rows.iter().filter(|row| row.most > 1).collect();
    again.sort_by_key(|row| (std::cmp::Reverse((row.most, row.sums.totals.weight)), row.function));
    let rows = again.iter().take(options.rows.min(10)).map(|row| {
        vec![
            Cell::count(row.most),
            Cell::nanoseconds(row.sums.totals.weight),
            tier_words(row),
            method(profile, options, row),
        ]
    });
    let columns = vec![right("times"), right("time"), left("tiers"), left("most often compiled")];
    Table::of(columns, rows)
}

/// Methods whose module is precompiled, and which were compiled nevertheless.
fn not_precompiled(profile: &Profile, options: &Options, rows: &[JitRow]) -> Option<Table> {
    let without = rows.iter().filter(|row| {
        row.precompiled != PrecompiledCode::NotSought
            && profile.tables.function(row.function).kind == FunctionKind::Managed
    });
    let rows = without.take(options.rows.min(10)).map(|row| {
        let module = profile.tables.function_module(row.function).unwrap_or("not known");
        vec![
            Cell::nanoseconds(row.sums.totals.weight),
            Cell::text(precompiled_word(row.precompiled)),
            Cell::text(module),
            method(profile, options, row),
        ]
    });
    let columns = vec![right("time"), left("precompiled code"), left("module"), left("method")];
    Table::of(columns, rows)
}

fn threads(profile: &Profile, options: &Options, summary: &JitSummary) -> Option<Table> {
    let several = summary.by_thread.iter().filter(|_| summary.by_thread.len() > 1);
    let rows = several.take(options.rows.min(8)).map(|(thread, sums)| {
        vec![
            Cell::nanoseconds(sums.weight),
            Cell::count(sums.samples),
            Cell::text(profile.tables.thread_name(*thread)),
        ]
    });
    Table::of(vec![right("waited"), right("methods"), left("thread")], rows)
}

/// Compilations of methods.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Jit")]
struct Json {
    /// All methods.
    all: TotalsJson,
    /// Methods that threads waited for.
    blocking: TotalsJson,
    /// Methods compiled in the background.
    background: TotalsJson,
    /// Methods made at run time.
    dynamic: TotalsJson,
    /// Stubs.
    stubs: TotalsJson,
    /// Methods compiled before in this recording.
    again: TotalsJson,
    /// Methods whose module is precompiled, but has no code for them that could be used.
    precompiled_missing: TotalsJson,
    /// Methods whose precompiled code was rejected.
    precompiled_rejected: TotalsJson,
    /// Compilations whose beginning was not seen.
    untimed: u64,
    /// Sums by tier.
    tiers: Vec<TierJson>,
    /// What each thread waited for.
    threads: Vec<ThreadJson>,
    precompiled: PrecompiledJson,
    /// Longest first.
    methods: Vec<MethodJson>,
    /// All compilations, by the time at which they began.
    compilations: Vec<CompilationJson>,
}

/// Sums of compilations.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JitTotals")]
struct TotalsJson {
    /// Number of compiled methods.
    methods: u64,
    /// Time, nanoseconds.
    time_ns: u64,
    /// Bytes of IL, where the runtime reports it: not for dynamic methods.
    il_bytes: u64,
    /// Bytes of machine code.
    native_bytes: u64,
}

impl From<&JitTotals> for TotalsJson {
    fn from(sums: &JitTotals) -> Self {
        Self {
            methods: sums.totals.samples,
            time_ns: sums.totals.weight,
            il_bytes: sums.il,
            native_bytes: sums.native,
        }
    }
}

/// Compilations to a tier.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JitTier")]
struct TierJson {
    #[schemars(schema_with = "tier_schema")]
    tier: &'static str,
    #[serde(flatten)]
    sums: TotalsJson,
}

/// Compilations that a thread waited for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JitThread")]
struct ThreadJson {
    /// Index in `threads` of the report.
    thread: u32,
    /// Number of compiled methods.
    methods: u64,
    /// Time, nanoseconds.
    time_ns: u64,
}

/// Lookups of precompiled code.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PrecompiledCode")]
struct PrecompiledJson {
    /// Methods whose precompiled code was found.
    found: u64,
    /// Methods without precompiled code that could be used.
    missing: u64,
    /// How long the lookups took, nanoseconds; 0 where the runtime does not report it (before
    /// .NET 5).
    lookup_ns: u64,
    /// Methods whose code was freed: dynamic ones, and those of unloaded assemblies.
    freed: u64,
}

/// Compilations of methods of one name.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JitMethod")]
struct MethodJson {
    /// Index in `functions`.
    function: u32,
    /// Number of compilations.
    compilations: u64,
    /// Different methods by this name.
    methods: u64,
    /// Most compilations of one of them.
    most: u64,
    /// Time of all compilations, nanoseconds.
    time_ns: u64,
    /// Bytes of IL, where the runtime reports it.
    il_bytes: u64,
    /// Bytes of machine code.
    native_bytes: u64,
    /// Time that threads waited, nanoseconds.
    blocking_ns: u64,
    /// The longest compilation, nanoseconds.
    longest_ns: u64,
    tiers: Vec<TierCountJson>,
    /// Why no precompiled code was used; null where none was looked for.
    #[schemars(schema_with = "precompiled_schema")]
    precompiled: Option<&'static str>,
    /// The call that made most of it necessary, where known.
    called_at: Option<PlaceJson>,
}

/// How often a method was compiled to a tier.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JitTierCount")]
struct TierCountJson {
    #[schemars(schema_with = "tier_schema")]
    tier: &'static str,
    compilations: u64,
}

/// A compilation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Compilation")]
struct CompilationJson {
    /// When it began, nanoseconds since the start of the recording.
    time_ns: u64,
    /// Nanoseconds, without other compilations within it; null where the beginning was not seen.
    duration_ns: Option<u64>,
    /// Index in `threads` of the report.
    thread: u32,
    /// The call that made it necessary, with the method as its leaf: index in `stacks`.
    stack: u32,
    /// Index in `functions`.
    function: u32,
    /// The runtime's number of the method, as hexadecimal text: each instantiation of a generic
    /// method has its own.
    method: String,
    #[schemars(schema_with = "tier_schema")]
    tier: &'static str,
    /// Bytes of IL; 0 where the runtime does not report it.
    il_bytes: u32,
    /// Bytes of machine code.
    native_bytes: u32,
    /// Whether the runtime did it on a thread of its own, so that none waited for it.
    background: bool,
    /// Why no precompiled code was used; null where none was looked for.
    #[schemars(schema_with = "precompiled_schema")]
    precompiled: Option<&'static str>,
}

fn json(profile: &Profile) -> Json {
    let summary = profile.jit_summary();
    let lookups = profile.jit.lookups();
    let tiers = summary.tiers.iter();
    let threads = summary.by_thread.iter();
    let compilations = profile.jit.compilations.iter();
    Json {
        all: (&summary.all).into(),
        blocking: (&summary.blocking).into(),
        background: (&summary.background).into(),
        dynamic: (&summary.dynamic).into(),
        stubs: (&summary.stubs).into(),
        again: (&summary.again).into(),
        precompiled_missing: (&summary.missing).into(),
        precompiled_rejected: (&summary.rejected).into(),
        untimed: summary.untimed,
        tiers: tiers
            .map(|(tier, sums)| TierJson { tier: tier_id(*tier), sums: sums.into() })
            .collect(),
        threads: threads
            .map(|(thread, sums)| ThreadJson {
                thread: thread.0,
                methods: sums.samples,
                time_ns: sums.weight,
            })
            .collect(),
        precompiled: PrecompiledJson {
            found: lookups.found,
            missing: lookups.missing,
            lookup_ns: lookups.duration,
            freed: lookups.freed,
        },
        methods: profile.jit_rows().iter().map(method_json).collect(),
        compilations: compilations.map(|one| compilation_json(profile, one)).collect(),
    }
}

fn method_json(row: &JitRow) -> MethodJson {
    let tiers = row.tiers.iter();
    MethodJson {
        function: row.function.0,
        compilations: row.sums.totals.samples,
        methods: row.methods,
        most: row.most,
        time_ns: row.sums.totals.weight,
        il_bytes: row.sums.il,
        native_bytes: row.sums.native,
        blocking_ns: row.blocking,
        longest_ns: row.longest,
        tiers: tiers
            .map(|(tier, n)| TierCountJson { tier: tier_id(*tier), compilations: *n })
            .collect(),
        precompiled: precompiled_id(row.precompiled),
        called_at: row.called_at.as_ref().map(Into::into),
    }
}

fn compilation_json(profile: &Profile, one: &Compilation) -> CompilationJson {
    CompilationJson {
        time_ns: since(profile, one.time),
        duration_ns: one.duration,
        thread: one.thread.0,
        stack: one.stack.0,
        function: profile.compiled_function(one).0,
        // As text: JavaScript has no whole numbers of 64 bits.
        method: format!("{:#x}", one.method),
        tier: tier_id(one.tier),
        il_bytes: one.il_size,
        native_bytes: one.native_size,
        background: one.background,
        precompiled: precompiled_id(one.precompiled),
    }
}

/// The words of [`tier_id`].
pub(crate) fn tier_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": TIERS.map(tier_id) })
}

/// All tiers.
const TIERS: [JitTier; 8] = [
    JitTier::Unknown,
    JitTier::MinOpt,
    JitTier::Optimized,
    JitTier::Quick,
    JitTier::QuickInstrumented,
    JitTier::Tier1,
    JitTier::Tier1Instrumented,
    JitTier::Tier1Osr,
];

pub(crate) fn tier_id(tier: JitTier) -> &'static str {
    match tier {
        JitTier::Unknown => "unknown",
        JitTier::MinOpt => "min-opt",
        JitTier::Optimized => "optimized",
        JitTier::Quick => "tier-0",
        JitTier::Tier1 => "tier-1",
        JitTier::Tier1Osr => "tier-1-osr",
        JitTier::QuickInstrumented => "tier-0-instrumented",
        JitTier::Tier1Instrumented => "tier-1-instrumented",
    }
}

fn precompiled_id(precompiled: PrecompiledCode) -> Option<&'static str> {
    match precompiled {
        PrecompiledCode::NotSought => None,
        PrecompiledCode::Missing => Some("missing"),
        PrecompiledCode::Rejected => Some("rejected"),
        PrecompiledCode::RejectedByProfiler => Some("rejected-by-profiler"),
    }
}

/// The words of [`precompiled_id`].
fn precompiled_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["string", "null"],
        "enum": ["missing", "rejected", "rejected-by-profiler", null],
    })
}

/// Parts of the line of compilations over time.
const JIT_PARTS: usize = 120;

fn page(profile: &Profile, interner: &mut Interner<'_>, options: &Options) -> Value {
    let nanos = |nanos: u64| nanos as f64 / 1e3;
    let sums = |sums: &JitTotals| {
        json!([sums.totals.samples, nanos(sums.totals.weight), sums.il, sums.native])
    };
    let summary = profile.jit_summary();
    let lookups = profile.jit.lookups();
    let rows = profile.jit_rows();
    let shown = rows.iter().take(MOST_ROWS).map(|row| {
        let (file, line) = interner.line(row.called_at.and_then(|place| place.line).filter(|_| options.lines));
        json!({
            "function": interner.function(row.function),
            "sums": sums(&row.sums),
            "blocking": nanos(row.blocking),
            "longest": nanos(row.longest),
            "methods": row.methods,
            "most": row.most,
            "tiers": row.tiers.iter().map(|(tier, count)| json!([tier_word(*tier), count])).collect::<Vec<_>>(),
            "precompiled": precompiled_word(row.precompiled),
            "at": row.called_at.map(|place| interner.function(place.function)),
            "file": file,
            "line": line,
        })
    });
    let shown: Vec<Value> = shown.collect();
    let part = profile.duration() as f64 / 1e3 / JIT_PARTS as f64;
    let over_time = profile.jit_over_time(JIT_PARTS).into_iter().enumerate();
    json!({
        "on": profile.run("jit").is_some() || !rows.is_empty(),
        "all": sums(&summary.all),
        "blocking": sums(&summary.blocking),
        "background": sums(&summary.background),
        "again": sums(&summary.again),
        "missing": sums(&summary.missing),
        "rejected": sums(&summary.rejected),
        "dynamic": sums(&summary.dynamic),
        "tiers": summary.tiers.iter().map(|(tier, of)| json!([tier_word(*tier), sums(of)])).collect::<Vec<_>>(),
        "threads": summary.by_thread.iter().take(MOST_ROWS).map(|(thread, sums)| json!([
            profile.tables.thread_name(*thread), sums.samples, nanos(sums.weight),
        ])).collect::<Vec<_>>(),
        "found": lookups.found,
        "lookups": lookups.found.saturating_add(lookups.missing),
        "overTime": over_time.map(|(index, sums)| json!([part * index as f64, sums.samples as f64 / (part / 1e6).max(1e-9)])).collect::<Vec<_>>(),
        "rows": shown,
    })
}
