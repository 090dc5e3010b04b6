//! Compilations in JSON.

use profile::profilers::jit::{Compilation, JitTier, PrecompiledCode};
use profile::rows::Words;
use profile::{JitRow, JitTotals, Profile};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::json::values::{PlaceJson, since};

/// Compilations of methods.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Jit")]
pub(super) struct Json {
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
pub(super) struct TotalsJson {
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
pub(super) struct TierJson {
    #[schemars(schema_with = "tier_schema")]
    tier: &'static str,
    #[serde(flatten)]
    sums: TotalsJson,
}

/// Compilations that a thread waited for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "JitThread")]
pub(super) struct ThreadJson {
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
pub(super) struct PrecompiledJson {
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

pub(super) fn json(profile: &Profile) -> Json {
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
            .map(|(tier, sums)| TierJson { tier: tier.word(), sums: sums.into() })
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
            .map(|(tier, n)| TierCountJson { tier: tier.word(), compilations: *n })
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
        tier: one.tier.word(),
        il_bytes: one.il_size,
        native_bytes: one.native_size,
        background: one.background,
        precompiled: precompiled_id(one.precompiled),
    }
}

/// The words of tiers.
pub(crate) fn tier_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": TIERS.map(JitTier::word) })
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

fn precompiled_id(precompiled: PrecompiledCode) -> Option<&'static str> {
    match precompiled {
        PrecompiledCode::NotSought => None,
        precompiled => Some(precompiled.word()),
    }
}

/// The words of [`precompiled_id`].
fn precompiled_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["string", "null"],
        "enum": ["missing", "rejected", "rejected-by-profiler", null],
    })
}
