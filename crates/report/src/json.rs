//! The complete profile as JSON; docs/formats.md describes every field.

use std::{collections::BTreeMap, io::Write};

use profile::{
    Amount, Counter, Distribution, ExceptionRow, FunctionTotals, HEAPS, JitTotals, NameStyle, OBJECT_HEAPS, CallSite,
    Profile, SampleTable, SeriesKind, ShownArgument, Starter, Timeline, WaitTimes, generation_word, kind_id, session,
    session::PoolChange, state_id, state_machine_id,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Exporter, Options, ReportError, format, kinds,
    sections::{POOL_COUNTERS, assembly_name, heap_word, pool_verdict},
};

pub const EXPORTER: Exporter = Exporter {
    id: "json",
    extension: "json",
    summary: "everything, for programs",
    binary: false,
    single_samples: false,
    snapshots: true,
    render,
};

/// Version of the schema in docs/formats.md. It grows when a field changes its meaning or goes
/// away, not when one is added.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct File<'a> {
    format: &'static str,
    version: u32,
    recording: Value,
    threads: Vec<Value>,
    modules: &'a [session::ModuleDef],
    functions: Vec<Value>,
    files: &'a [String],
    frames: Vec<Value>,
    stacks: Stacks,
    types: Vec<&'a str>,
    series: Vec<Series>,
    exceptions: Value,
    gc: Value,
    survivors: Value,
    allocations: Value,
    locks: Value,
    traced: Value,
    jit: Value,
    loads: Value,
    counters: Vec<Value>,
    all_threads: Value,
    threadpool: Value,
    observer: &'a [session::ObserverStatus],
    #[serde(skip_serializing_if = "Option::is_none")]
    processor_use: Option<Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    resources: &'a [session::ResourceUse],
    notes: Vec<Value>,
    /// `heap` and `async`, in recordings of these profilers.
    #[serde(flatten)]
    snapshots: BTreeMap<&'static str, &'a Value>,
}

#[derive(Serialize)]
struct Stacks {
    parent: Vec<Option<u32>>,
    frame: Vec<u32>,
}

#[derive(Serialize)]
struct Series {
    profiler: &'static str,
    unit: &'static str,
    samples: u64,
    weight: u64,
    truncated: u64,
    effective_samples: f64,
    states: Value,
    functions: Vec<Value>,
    sums: Sums,
    timeline: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    single: Option<Value>,
}

#[derive(Default, Serialize)]
struct Sums {
    stack: Vec<u32>,
    thread: Vec<u32>,
    state: Vec<&'static str>,
    truncated: Vec<bool>,
    samples: Vec<u32>,
    weight: Vec<u64>,
}

fn render(profile: &Profile, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    let tables = &profile.tables;
    let stacks = (0..tables.stack_count()).map(|id| session::StackId(id as u32));
    let file = File {
        format: "clrscope-profile",
        version: SCHEMA,
        recording: recording(profile),
        threads: tables.threads.iter().map(|thread| json!({
            "id": thread.id.0, "os_tid": thread.os_tid, "name": thread.name, "managed": thread.managed,
            "started_ns": thread.started.map(|time| since(profile, time)),
            "ended_ns": thread.ended.map(|time| since(profile, time)),
        })).collect(),
        modules: &tables.modules,
        functions: tables.functions.iter().map(|function| json!({
            "id": function.id.0,
            "name": tables.function_name(function.id, NameStyle::FULL),
            "kind": kind_id(function.kind),
            "module": function.module,
            "type_name": function.type_name,
            "method": function.name,
            "parameters": function.parameters,
            "state_machine": function.state_machine.map(state_machine_id),
        })).collect(),
        files: &tables.files,
        frames: tables.frames.iter().map(|frame| match frame.line {
            Some(line) => json!({"function": frame.function.0, "file": line.file.0, "line": line.line, "trust": trust(frame.trust)}),
            None => json!({"function": frame.function.0, "trust": trust(frame.trust)}),
        }).collect(),
        stacks: Stacks {
            parent: stacks.clone().map(|id| tables.parent(id).map(|parent| parent.0)).collect(),
            frame: stacks.map(|id| tables.stack_frame(id).0).collect(),
        },
        types: tables.types.iter().map(|ty| ty.name.as_str()).collect(),
        series: kinds(profile, options).into_iter().map(|kind| series(profile, kind)).collect(),
        exceptions: exceptions(profile),
        gc: gc(profile),
        survivors: survivors(profile),
        allocations: allocations(profile),
        locks: locks(profile),
        traced: traced(profile),
        jit: jit(profile),
        loads: loads(profile),
        counters: profile.counters.iter().map(|counter| self::counter(profile, counter)).collect(),
        all_threads: all_threads(profile),
        threadpool: threadpool(profile),
        observer: &profile.observer,
        processor_use: profile.processor_summary().map(|of| json!({
            "elapsed_ns": of.elapsed,
            "processors": of.processors,
            "ran_ns": of.ran,
            "waited_ns": of.waited,
            "busy_ns": of.busy,
            "quota": of.quota.map(|(time, period)| json!({"time_ns": time, "period_ns": period})),
            "periods": of.periods,
            "throttled_periods": of.throttled_periods,
            "throttled_ns": of.throttled,
        })),
        resources: &profile.resources,
        notes: profile.notes.iter().map(|(time, message)| json!({"time_ns": since(profile, *time), "message": message})).collect(),
        snapshots: options.snapshots.iter().map(|section| (section.id, &section.json)).collect(),
    };
    crate::plain::write_json(&mut *out, &file)?;
    writeln!(out)?;
    Ok(())
}

/// Nanoseconds since the start of the recording.
fn since(profile: &Profile, time: session::Nanos) -> u64 {
    time.saturating_sub(profile.info.start)
}

fn trust(trust: session::FrameTrust) -> &'static str {
    match trust {
        session::FrameTrust::Context => "context",
        session::FrameTrust::Runtime => "runtime",
        session::FrameTrust::Tables => "tables",
        session::FrameTrust::Learned => "learned",
        session::FrameTrust::Scan => "scan",
    }
}

fn recording(profile: &Profile) -> Value {
    let info = &profile.info;
    json!({
        "tool_version": info.tool_version,
        "process": {"pid": info.pid, "name": info.process_name, "command_line": info.command_line},
        "runtime": info.runtime,
        "platform": info.platform,
        "processors": info.cpus,
        "entry": match info.entry {
            session::Entry::Attached => "attached",
            session::Entry::AttachedBeside => "attached-beside",
            session::Entry::Launched => "launched",
            session::Entry::LaunchedBeside => "launched-beside",
        },
        "start_unix_ms": info.start_unix_ms,
        "clock_start_ns": info.start,
        "from_ns": since(profile, profile.start),
        "duration_ns": profile.duration(),
        "profilers": info.profilers.iter().map(|run| json!({
            "id": run.id, "engine": run.engine, "rate_hz": run.rate_hz,
            "sampling": profile.sampling_rate(&run.id).map(|rate| json!({
                "achieved_hz": rate.achieved_hz(),
                "differs": rate.differs(),
                "limit": rate.limit.as_ref().filter(|_| rate.differs()),
                "kernel_tick_hz": rate.tick_hz,
                "samples": rate.samples,
                "cpu_ns": rate.cpu,
                "threads_without_timer": rate.threads_without_timer,
            })),
            "parameters": run.params.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>(),
        })).collect::<Vec<_>>(),
        "end": profile.end.as_ref().map(|end| json!({
            "time_ns": since(profile, end.time),
            "reason": match end.reason {
                session::EndReason::Stopped => "stopped",
                session::EndReason::ProcessExited => "process-exited",
                session::EndReason::AgentLost => "agent-lost",
            },
            "exit_code": end.exit_code,
        })),
        "cut_short": profile.cut_short,
        "damage": profile.damage,
        "filtered": profile.filtered,
        "dropped": profile.dropped(),
        "summary": format::ending(profile),
    })
}

fn function(row: &FunctionTotals) -> Value {
    let share = |share: &profile::Estimate| json!({"share": share.share, "low": share.low, "high": share.high});
    json!({
        "function": row.function.0,
        "self_samples": row.own.samples, "self_weight": row.own.weight, "self": share(&row.own_share),
        "total_samples": row.total.samples, "total_weight": row.total.weight, "total": share(&row.total_share),
    })
}

fn series(profile: &Profile, kind: SeriesKind) -> Series {
    let series = profile.series(kind);
    let mut sums = Sums::default();
    for cell in &series.cells {
        sums.stack.push(cell.stack.0);
        sums.thread.push(cell.thread.0);
        sums.state.push(state_id(cell.state));
        sums.truncated.push(cell.truncated);
        sums.samples.push(cell.samples);
        sums.weight.push(cell.weight);
    }
    let states = profile::STATES.iter().zip(series.by_state());
    let states = states.filter(|(_, totals)| totals.samples > 0).map(|(state, totals)| {
        (state_id(*state).to_owned(), json!({"samples": totals.samples, "weight": totals.weight}))
    });
    Series {
        profiler: kind.id(),
        unit: kind.value_type().unit.id(),
        samples: series.totals.samples,
        weight: series.totals.weight,
        truncated: series.truncated,
        effective_samples: series.effective_samples(),
        states: Value::Object(states.collect()),
        functions: profile.top_functions(kind).iter().map(function).collect(),
        sums,
        timeline: timeline(profile, &series.timeline),
        single: series.samples.as_ref().map(|table| single(profile, table)),
    }
}

fn timeline(profile: &Profile, timeline: &Timeline) -> Value {
    let states: serde_json::Map<String, Value> = profile::STATES
        .iter()
        .map(|state| {
            let weights = timeline.buckets().iter().map(|bucket| bucket[profile::state_index(*state)]);
            (*state, weights.collect::<Vec<_>>())
        })
        .filter(|(_, weights)| weights.iter().any(|weight| *weight > 0))
        .map(|(state, weights)| (state_id(state).to_owned(), json!(weights)))
        .collect();
    json!({"from_ns": since(profile, timeline.start()), "width_ns": timeline.width(), "weight": states})
}

fn single(profile: &Profile, table: &SampleTable) -> Value {
    json!({
        "time_ns": table.time.iter().map(|time| since(profile, *time)).collect::<Vec<_>>(),
        "thread": table.thread,
        "stack": table.stack,
        "weight": table.weight,
        "state": table.state.iter().map(|state| state_id(*state)).collect::<Vec<_>>(),
        "truncated": table.truncated,
    })
}

fn distribution(distribution: &Distribution) -> Value {
    let Distribution { count, total, p50, p95, p99, max } = distribution;
    json!({"count": count, "total": total, "p50": p50, "p95": p95, "p99": p99, "max": max})
}

fn exceptions(profile: &Profile) -> Value {
    let row = |row: &ExceptionRow| {
        json!({
            "type": row.ty.0,
            "type_name": profile.tables.ty(row.ty).name,
            "count": row.count,
            "per_second": row.per_second,
            "samples": row.samples,
            "message": row.message,
            "messages": row.messages,
            "thrown_at": row.thrown_at.map(|(function, line)| json!({
                "function": function.0,
                "file": line.map(|line| line.file.0),
                "line": line.map(|line| line.line),
            })),
            "caught_by": row.caught_by.map(|function| function.0),
            "time_to_catch_ns": distribution(&row.time_to_catch),
        })
    };
    json!({
        "total": profile.exceptions.total(),
        "exact": profile.exceptions.exact(),
        "types": profile.exception_rows().iter().map(row).collect::<Vec<_>>(),
        "samples": profile.exceptions.samples.iter().map(|sample| json!({
            "time_ns": since(profile, sample.time),
            "thread": sample.thread.0,
            "type": sample.ty.0,
            "message": sample.message,
            "stack": sample.stack.0,
            "weight": sample.weight,
            "caught_by": sample.caught_by.map(|function| function.0),
            "time_to_catch_ns": sample.time_to_catch,
        })).collect::<Vec<_>>(),
    })
}

fn gc(profile: &Profile) -> Value {
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

fn survivors(profile: &Profile) -> Value {
    let summary = profile.survivor_summary();
    let generations: Vec<&str> = (0..5).map(generation_word).collect();
    let key = |name: &str| name.replace(' ', "_");
    let sums = |totals: &profile::Totals| json!({"objects": totals.samples, "bytes": totals.weight});
    json!({
        "collections": summary.collections,
        "incomplete": summary.incomplete,
        "induced": summary.induced,
        "paused_ns": summary.paused,
        "snapshot_ns": summary.telling,
        "longest_snapshot_ns": summary.longest,
        "objects_reported": summary.objects,
        "moved": summary.moved,
        "generations": generations.iter().zip(&summary.generations).map(|(name, generation)| (key(name), json!({
            "collections": generation.collections, "before": generation.before,
            "survived": generation.survived.weight, "objects": generation.survived.samples, "rate": generation.rate(),
        }))).collect::<serde_json::Map<_, _>>(),
        "types": summary.types.iter().map(|row| json!({
            "type": row.ty.0, "type_name": profile.tables.ty(row.ty).name,
            "objects": row.totals.samples, "bytes": row.totals.weight, "young": sums(&row.young),
            "moves": row.moves.iter().map(|((before, after), totals)| json!({
                "before": before, "after": (*after != u8::MAX).then_some(after), "objects": totals.samples, "bytes": totals.weight,
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "held": summary.chains.iter().map(|chain| json!({
            "holder": match &chain.holder {
                session::SurvivorHolder::Older(_) => "older_object",
                session::SurvivorHolder::Handle => "handle",
                session::SurvivorHolder::Stack(_) => "variable",
                session::SurvivorHolder::Dependent => "conditional_weak_table",
                session::SurvivorHolder::Other => "runtime",
                session::SurvivorHolder::Finalizer => "finalizer_queue",
                session::SurvivorHolder::Unknown => "unknown",
            },
            "generation": match &chain.holder {
                session::SurvivorHolder::Older(generation) if *generation != u8::MAX => Some(generation),
                _ => None,
            },
            "method": match &chain.holder {
                session::SurvivorHolder::Stack(method) if !method.is_empty() => Some(method),
                _ => None,
            },
            "path": chain.path.iter().map(|ty| ty.0).collect::<Vec<_>>(),
            "text": profile.chain_text(chain, false),
            "objects": chain.totals.samples, "bytes": chain.totals.weight, "collections": chain.collections,
        })).collect::<Vec<_>>(),
        "snapshots": profile.survivors.iter().map(|snapshot| json!({
            "time_ns": since(profile, snapshot.time), "generation": snapshot.generation, "induced": snapshot.induced,
            "paused_ns": snapshot.paused, "snapshot_ns": snapshot.telling, "before": snapshot.before, "moved": snapshot.moved,
            "objects_reported": snapshot.objects, "complete": snapshot.complete, "reason": snapshot.reason,
            "survived": snapshot.counts.iter().fold(0_u64, |sum, count| sum.saturating_add(count.bytes)),
        })).collect::<Vec<_>>(),
    })
}

fn amount(amount: &Amount) -> Value {
    json!({"value": amount.value, "margin": amount.margin})
}

fn place(place: &CallSite) -> Value {
    json!({
        "function": place.function.0,
        "file": place.line.map(|line| line.file.0),
        "line": place.line.map(|line| line.line),
    })
}

fn allocations(profile: &Profile) -> Value {
    let allocations = &profile.allocations;
    let key = |heap: session::AllocationHeap| heap_word(heap).replace(' ', "_");
    json!({
        "samples": allocations.samples.len(),
        "sampling": allocations.sampling.map(|sampling| match sampling {
            session::AllocationSampling::Random => "random",
            session::AllocationSampling::Tick => "tick",
        }),
        "duty_cycle": allocations.followed(profile.duration()),
        "exact": exact_allocations(profile),
        "bytes": amount(&allocations.bytes()),
        "objects": allocations.objects().as_ref().map(amount),
        "heaps": OBJECT_HEAPS.iter().zip(allocations.heaps()).map(|(heap, bytes)| (key(*heap), amount(&bytes)))
            .collect::<serde_json::Map<_, _>>(),
        "types": profile.allocation_rows().iter().map(|row| json!({
            "type": row.ty.0,
            "type_name": profile.tables.ty(row.ty).name,
            "samples": row.samples,
            "bytes": amount(&row.bytes),
            "objects": row.objects.as_ref().map(amount),
            "share": {"share": row.share.share, "low": row.share.low, "high": row.share.high},
            "heaps": OBJECT_HEAPS.iter().zip(row.heaps).map(|(heap, bytes)| (key(*heap), json!(bytes)))
                .collect::<serde_json::Map<_, _>>(),
            "allocated_at": row.allocated_at.as_ref().map(place),
        })).collect::<Vec<_>>(),
    })
}

fn exact_allocations(profile: &Profile) -> Value {
    let allocations = &profile.allocations;
    if allocations.exact.is_empty() && profile.run("exact-allocations").is_none() {
        return Value::Null;
    }
    let total = allocations.exact_total();
    json!({
        "objects": total.objects,
        "bytes": total.bytes,
        "types": allocations.exact_types().iter().map(|(ty, count)| json!({
            "type": ty.0,
            "type_name": profile.tables.ty(*ty).name,
            "objects": count.objects,
            "bytes": count.bytes,
        })).collect::<Vec<_>>(),
        "threads": allocations.exact_threads().iter().map(|(thread, count)| json!({
            "thread": thread.0,
            "objects": count.objects,
            "bytes": count.bytes,
        })).collect::<Vec<_>>(),
    })
}

fn wait_times(times: &WaitTimes) -> Value {
    json!({
        "count": times.count, "total": times.total,
        "p50": times.p50, "p90": times.p90, "p99": times.p99, "max": times.max,
        "histogram": times.histogram.iter().map(|(from, count)| json!({"from": from, "count": count})).collect::<Vec<_>>(),
    })
}

fn counter(profile: &Profile, counter: &Counter) -> Value {
    let session::CounterDef { source, name, title, unit, tags, kind, .. } = &counter.def;
    json!({
        "source": source, "name": name, "title": title, "unit": unit, "tags": tags,
        "kind": match kind {
            session::CounterKind::Level => "level",
            session::CounterKind::Rate => "rate",
        },
        "values": counter.values.iter().map(|(time, value)| json!({"time_ns": since(profile, *time), "value": value}))
            .collect::<Vec<_>>(),
    })
}

fn all_threads(profile: &Profile) -> Value {
    json!({
        "snapshots": profile.threads.counts.iter().map(|(time, threads)| json!({"time_ns": since(profile, *time), "threads": threads}))
            .collect::<Vec<_>>(),
        "threads": profile.thread_rows().iter().map(|row| json!({
            "thread": row.thread.0,
            "role": row.role.id(),
            "managed_id": row.managed_id,
            "age_ns": row.age,
            "cpu_ns": row.cpu,
            "cpu_of_life_ns": row.cpu_of_life,
            "os_state": char::from(row.seen.os_state).to_string(),
            "state": state_id(row.seen.state),
            "stack": row.seen.stack.0,
            "at": place(&profile.tables.place(row.seen.stack)),
            "system_call": row.seen.call,
            "time_limit": row.seen.limited,
            "snapshots": row.snapshots,
            "watched_ns": row.watched,
            "alive": row.alive,
            "standing": row.standing.id(),
            "confidence": row.confidence.map(|confidence| confidence.id()),
            "reason": row.reason,
            "started_at": row.started_at.as_ref().map(place),
        })).collect::<Vec<_>>(),
        "starts": profile.start_rows().iter().map(|row| json!({
            "starter": match row.starter {
                Starter::Method(_) => "method",
                Starter::Pool => "pool",
                Starter::Unknown => "unknown",
                Starter::Native => "native",
            },
            "at": row.place.as_ref().map(place),
            "stack": row.stack.map(|stack| stack.0),
            "started": row.started,
            "ended": row.ended,
            "per_second": row.per_second,
            "example": row.example,
            "leak": row.leak,
            "reason": row.reason,
        })).collect::<Vec<_>>(),
    })
}

fn threadpool(profile: &Profile) -> Value {
    let summary = profile.pool_summary();
    let by_state = profile::STATES.iter().zip(summary.by_state).filter(|(_, time)| *time > 0);
    json!({
        "health": summary.health.id(),
        "verdict": pool_verdict(profile, &summary),
        "queue_evidence": summary.evidence.id(),
        "queued_share": summary.queued,
        "blocked_share": summary.blocked.0,
        "blocked_share_while_queued": summary.blocked.1,
        "time_ns": by_state.map(|(state, time)| (state_id(*state).to_owned(), json!(time))).collect::<serde_json::Map<_, _>>(),
        "at_work_ns": summary.at_work,
        "min_workers": summary.limits.map(|(min, _)| min),
        "max_workers": summary.limits.map(|(_, max)| max),
        "workers_started": summary.started,
        "workers_stopped": summary.stopped,
        "counters": POOL_COUNTERS.iter().filter_map(|(name, _)| {
            let values = profile.pool_counter(name)?.values.iter().copied();
            let values = values.map(|(time, value)| json!({"time_ns": since(profile, time), "value": value}));
            Some((name.replace('-', "_"), Value::Array(values.collect())))
        }).collect::<serde_json::Map<_, _>>(),
        "adjustments": summary.adjustments.iter().map(|row| json!({
            "reason": row.reason, "count": row.count, "workers": row.workers,
            "first_ns": since(profile, row.times.0), "last_ns": since(profile, row.times.1),
        })).collect::<Vec<_>>(),
        "events": profile.pool.events.iter().map(|event| {
            let mut value = match &event.change {
                PoolChange::Started { active } => json!({"what": "started", "workers": active}),
                PoolChange::Stopped { active } => json!({"what": "stopped", "workers": active}),
                PoolChange::Adjusted { workers, throughput, reason } => {
                    json!({"what": "adjusted", "workers": workers, "throughput": throughput, "reason": reason})
                }
                PoolChange::Limits { min, max } => json!({"what": "limits", "min": min, "max": max}),
            };
            value["time_ns"] = json!(since(profile, event.time));
            value
        }).collect::<Vec<_>>(),
        "blocking": summary.blocking.iter().map(|row| json!({
            "state": state_id(row.state), "at": place(&row.place), "stack": row.stack.0, "time_ns": row.time,
            "time_while_queued_ns": row.time_queued, "share": row.share, "threads": row.threads,
        })).collect::<Vec<_>>(),
    })
}

fn locks(profile: &Profile) -> Value {
    json!({
        "waits_ns": wait_times(&profile.locks.durations()),
        "locks": profile.lock_rows().iter().map(|row| json!({
            // As text: JavaScript has no whole numbers of 64 bits.
            "lock": row.lock.map(|lock| format!("{lock:#x}")),
            "waits_ns": wait_times(&row.waits),
            "share": row.share,
            "waited_at": place(&row.waited_at),
            "places": row.places,
            "threads": row.threads,
            "owner": row.owner.map(|owner| owner.0),
        })).collect::<Vec<_>>(),
    })
}

fn jit_totals(sums: &JitTotals) -> Value {
    json!({"methods": sums.totals.samples, "time_ns": sums.totals.weight, "il_bytes": sums.il, "native_bytes": sums.native})
}

fn traced(profile: &Profile) -> Value {
    let methods = profile.traced.methods().map(|method| {
        let calls = &method.calls;
        let nanos = |time: Option<f64>| time.map(|time| time.round() as u64);
        json!({
            "function": method.function.0,
            "rule": method.rule,
            "refused": method.refusal(),
            "calls": calls.calls,
            "timed": calls.timed,
            "errors": calls.failed,
            "total_ns": calls.total.round() as u64,
            "p50_ns": nanos(calls.quantile(0.5)),
            "p90_ns": nanos(calls.quantile(0.9)),
            "p99_ns": nanos(calls.quantile(0.99)),
            "max_ns": nanos((calls.timed > 0).then_some(calls.longest)),
            "histogram": calls.histogram().map(|(from, to, count)| json!([from.round() as u64, to.round() as u64, count])).collect::<Vec<_>>(),
            "slowest": method.slowest.iter().map(|call| json!({
                "ns": call.taken,
                "time_ns": call.begun.saturating_sub(profile.start),
                "thread": call.thread.0,
                "error": call.failed,
                "arguments": ShownArgument::of(&profile.tables, method, call),
            })).collect::<Vec<_>>(),
        })
    });
    json!({"seconds": profile.traced.time().as_secs_f64(), "methods": methods.collect::<Vec<_>>()})
}

fn jit(profile: &Profile) -> Value {
    let summary = profile.jit_summary();
    let lookups = profile.jit.lookups();
    json!({
        "all": jit_totals(&summary.all),
        "blocking": jit_totals(&summary.blocking),
        "background": jit_totals(&summary.background),
        "dynamic": jit_totals(&summary.dynamic),
        "stubs": jit_totals(&summary.stubs),
        "again": jit_totals(&summary.again),
        "precompiled_missing": jit_totals(&summary.missing),
        "precompiled_rejected": jit_totals(&summary.rejected),
        "untimed": summary.untimed,
        "tiers": summary.tiers.iter().map(|(tier, sums)| {
            let mut of = jit_totals(sums);
            of["tier"] = tier_id(*tier).into();
            of
        }).collect::<Vec<_>>(),
        "threads": summary.by_thread.iter().map(|(thread, sums)| json!({
            "thread": thread.0, "methods": sums.samples, "time_ns": sums.weight,
        })).collect::<Vec<_>>(),
        "precompiled": {
            "found": lookups.found, "missing": lookups.missing, "lookup_ns": lookups.duration, "freed": lookups.freed,
        },
        "methods": profile.jit_rows().iter().map(|row| {
            let mut of = jit_totals(&row.sums);
            of["compilations"] = of["methods"].take();
            of["function"] = row.function.0.into();
            of["methods"] = row.methods.into();
            of["most"] = row.most.into();
            of["blocking_ns"] = row.blocking.into();
            of["longest_ns"] = row.longest.into();
            of["precompiled"] = precompiled_id(row.precompiled).into();
            of["called_at"] = row.called_at.as_ref().map_or(Value::Null, place);
            of["tiers"] = row.tiers.iter().map(|(tier, n)| json!({"tier": tier_id(*tier), "compilations": n})).collect();
            of
        }).collect::<Vec<_>>(),
        "compilations": profile.jit.compilations.iter().map(|one| json!({
            "time_ns": since(profile, one.time),
            "duration_ns": one.duration,
            "thread": one.thread.0,
            "stack": one.stack.0,
            "function": profile.compiled_function(one).0,
            // As text: JavaScript has no whole numbers of 64 bits.
            "method": format!("{:#x}", one.method),
            "tier": tier_id(one.tier),
            "il_bytes": one.il_size,
            "native_bytes": one.native_size,
            "background": one.background,
            "precompiled": precompiled_id(one.precompiled),
        })).collect::<Vec<_>>(),
    })
}

pub(crate) fn tier_id(tier: session::JitTier) -> &'static str {
    match tier {
        session::JitTier::Unknown => "unknown",
        session::JitTier::MinOpt => "min-opt",
        session::JitTier::Optimized => "optimized",
        session::JitTier::Quick => "tier-0",
        session::JitTier::Tier1 => "tier-1",
        session::JitTier::Tier1Osr => "tier-1-osr",
        session::JitTier::QuickInstrumented => "tier-0-instrumented",
        session::JitTier::Tier1Instrumented => "tier-1-instrumented",
    }
}

fn precompiled_id(precompiled: session::PrecompiledCode) -> Option<&'static str> {
    match precompiled {
        session::PrecompiledCode::NotSought => None,
        session::PrecompiledCode::Missing => Some("missing"),
        session::PrecompiledCode::Rejected => Some("rejected"),
        session::PrecompiledCode::RejectedByProfiler => Some("rejected-by-profiler"),
    }
}

fn loads(profile: &Profile) -> Value {
    let summary = profile.load_summary();
    let id = |assembly: u64| (assembly != 0).then(|| format!("{assembly:#x}"));
    json!({
        "loaded": summary.loaded,
        "known": summary.known,
        "failed": summary.failed,
        "dynamic": summary.dynamic,
        "collectible": summary.collectible,
        "precompiled": summary.precompiled,
        "unloaded": summary.unloaded,
        "timed": summary.timed,
        "assembly_ns": summary.assembly_time,
        "failed_ns": summary.failed_time,
        "type_steps": summary.types.samples,
        "type_ns": summary.types.weight,
        "distinct_types": summary.distinct_types,
        "threads": summary.by_thread.iter().map(|(thread, assemblies, types)| json!({
            "thread": thread.0, "requests": assemblies.samples, "assembly_ns": assemblies.weight,
            "type_steps": types.samples, "type_ns": types.weight,
        })).collect::<Vec<_>>(),
        "assemblies": profile.loads.assemblies.iter().map(|load| json!({
            "time_ns": since(profile, load.time),
            "duration_ns": load.duration,
            "own_ns": load.own,
            "resolution_ns": load.resolution,
            "thread": load.thread.0,
            "stack": load.stack.0,
            "called_at": place(&profile.tables.place(load.stack)),
            "outcome": match load.outcome {
                session::LoadOutcome::Loaded => "loaded",
                session::LoadOutcome::Known => "known",
                session::LoadOutcome::Failed => "failed",
            },
            // As text: JavaScript has no whole numbers of 64 bits.
            "assembly": id(load.assembly),
            "name": assembly_name(&load.name).0,
            "version": assembly_name(&load.name).1,
            "full_name": load.name,
            "path": load.path,
            "requested": load.requested,
            "requested_by": load.requested_by,
            "context": load.context,
            "dynamic": load.dynamic,
            "collectible": load.collectible,
            "precompiled": load.precompiled,
            "steps": load.steps.iter().map(|step| json!({
                "what": step.what, "found": step.found, "result": step.result, "took_ns": step.took,
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "unloads": profile.loads.unloads.iter().map(|unload| json!({
            "time_ns": since(profile, unload.time), "assembly": id(unload.assembly), "full_name": unload.name,
        })).collect::<Vec<_>>(),
        "types": profile.type_load_rows().iter().map(|row| json!({
            "type": row.ty.0, "steps": row.totals.samples, "own_ns": row.totals.weight, "longest_ns": row.longest,
            "called_at": row.called_at.as_ref().map(place),
        })).collect::<Vec<_>>(),
    })
}
