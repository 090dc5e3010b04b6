//! `gc`: collections and GC pauses.

use std::collections::HashMap;

use profile::{GcSummary, HEAPS, NameStyle, PROFILER_PAUSE, Profile, pause_length};
use serde_json::{Value, json};

use super::{Cell, Section, Table, View, cells::place_cell, left, right};
use crate::{
    Options, format,
    html::{Interner, MOST_ROWS, micros},
    json::{distribution, place, since},
};

pub const VIEW: View = View { section, json: Some(("gc", json)), page: Some(("gc", page)) };

fn section(profile: &Profile, options: &Options) -> Option<Section> {
    let is_shown = options.series.is_none()
        && (!profile.gcs.is_empty() || !profile.pauses.is_empty() || profile.run("gc").is_some());
    is_shown.then(|| gc(profile, options))
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
    section.tables.push(pauses(&summary));
    let inducers = profile.inducers();
    let rows = inducers.iter().take(options.rows).map(|inducer| {
        let calls = Cell::text(format::count(inducer.calls));
        vec![calls, place_cell(profile, options, &inducer.at, "")]
    });
    section.tables.extend(Table::of(vec![right("collections"), left("induced by")], rows));
    section
}

/// Collections and GC pauses by generation and reason.
fn pauses(summary: &GcSummary) -> Table {
    let collections = summary.collections.iter().sum();
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
    Table { columns, rows }
}

fn json(profile: &Profile) -> Value {
    let summary = profile.gc_summary();
    let heap = |sizes: &[u64; 5]| -> Value {
        HEAPS
            .iter()
            .zip(sizes)
            .map(|(heap, size)| (heap.replace(' ', "_"), json!(size)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    json!({
        "collections": summary.collections,
        "background": summary.background,
        "induced": summary.induced,
        "induced_by": profile.inducers().iter().map(|inducer| json!({
            "called_at": place(&inducer.at), "calls": inducer.calls, "stack": inducer.stack.0,
        })).collect::<Vec<_>>(),
        "reasons": summary.reasons.iter().map(|(reason, count)| (reason.clone(), json!(count))).collect::<serde_json::Map<_, _>>(),
        "pause_share": summary.share,
        "pauses_ns": distribution(&summary.pauses),
        "suspending_ns": distribution(&summary.suspending),
        "pauses_by_generation_ns": summary.pauses_by_generation.iter().map(distribution).collect::<Vec<_>>(),
        "pause_reasons_ns": summary.pause_reasons.iter().map(|(reason, pauses)| (reason.clone(), distribution(pauses))).collect::<serde_json::Map<_, _>>(),
        "heap_last": heap(&summary.heap_last),
        "heap_peak": summary.heap_peak,
        "promoted": heap(&summary.promoted),
        "events": profile.gcs.iter().map(|gc| json!({
            "number": gc.number, "generation": gc.generation, "reason": gc.reason, "kind": gc.kind, "induced": gc.induced,
            "start_ns": since(profile, gc.start), "end_ns": since(profile, gc.end),
            "size_after": heap(&gc.size_after), "promoted": heap(&gc.promoted),
            "pinned_objects": gc.pinned_objects, "gc_handles": gc.gc_handles,
        })).collect::<Vec<_>>(),
        "pauses": profile.pauses.iter().map(|pause| json!({
            "reason": pause.reason, "gc": pause.gc,
            "suspend_start_ns": since(profile, pause.suspend_start), "suspend_end_ns": since(profile, pause.suspend_end),
            "resume_start_ns": since(profile, pause.resume_start), "resume_end_ns": since(profile, pause.resume_end),
        })).collect::<Vec<_>>(),
    })
}

/// Most pauses that are drawn; the longest are kept.
const MOST_PAUSES: usize = 4000;

fn page(profile: &Profile, _: &mut Interner<'_>, _: &Options) -> Value {
    let summary = profile.gc_summary();
    let generation_of: HashMap<u32, u8> =
        profile.gcs.iter().map(|gc| (gc.number, gc.generation)).collect();
    let mut pauses: Vec<_> = profile.pauses.iter().collect();
    let left_out = pauses.len().saturating_sub(MOST_PAUSES);
    if left_out > 0 {
        pauses.sort_by_key(|pause| std::cmp::Reverse(pause_length(pause)));
        pauses.truncate(MOST_PAUSES);
        pauses.sort_by_key(|pause| pause.suspend_start);
    }
    let mut reasons: Vec<&str> = Vec::new();
    let pauses: Vec<Value> = pauses
        .into_iter()
        .map(|pause| {
            let reason =
                reasons.iter().position(|reason| *reason == pause.reason).unwrap_or_else(|| {
                    reasons.push(&pause.reason);
                    reasons.len() - 1
                });
            let generation = pause.gc.and_then(|number| generation_of.get(&number));
            json!([
                micros(profile, pause.suspend_start),
                pause_length(pause) as f64 / 1e3,
                pause.suspend_end.saturating_sub(pause.suspend_start) as f64 / 1e3,
                generation.map_or(-1, |generation| i32::from(*generation)),
                reason,
                pause.gc,
            ])
        })
        .collect();
    let distribution = |d: &profile::Distribution| {
        json!([
            d.count,
            d.p50 as f64 / 1e3,
            d.p95 as f64 / 1e3,
            d.max as f64 / 1e3,
            d.total as f64 / 1e3
        ])
    };
    json!({
        "on": profile.run("gc").is_some() || !profile.gcs.is_empty() || !profile.pauses.is_empty(),
        "collections": summary.collections,
        "background": summary.background,
        "induced": summary.induced,
        "inducedBy": profile.inducers().iter().take(MOST_ROWS).map(|inducer| json!([
            profile.tables.function_name(inducer.at.function, NameStyle::PLAIN), inducer.calls,
        ])).collect::<Vec<_>>(),
        "reasons": summary.reasons,
        "share": summary.share,
        "all": distribution(&summary.pauses),
        "suspending": distribution(&summary.suspending),
        "generations": summary.pauses_by_generation.iter().map(distribution).collect::<Vec<_>>(),
        "pauseReasons": summary.pause_reasons.iter().map(|(reason, d)| json!([reason, distribution(d)])).collect::<Vec<_>>(),
        "heapLast": summary.heap_last,
        "heapPeak": summary.heap_peak,
        "promoted": summary.promoted,
        "events": profile.gcs.iter().rev().take(MOST_PAUSES).rev().map(|gc| json!([
            micros(profile, gc.end), gc.number, gc.generation, gc.reason, gc.kind, gc.induced, gc.size_after, gc.promoted,
        ])).collect::<Vec<_>>(),
        "pauses": pauses,
        "pauseReason": reasons,
        "leftOut": left_out,
    })
}
