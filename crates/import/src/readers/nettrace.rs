//! What `dotnet-trace` writes: samples of its sample profiler, and events of the runtime.
//!
//! A file is read twice: first where the code of methods stands, which is often described at the
//! end only, then everything else.

mod methods;

use crate::{
    ImportError, limits,
    out::{Function, Out, Stack},
    samples::Sample,
};
use methods::{Methods, RUNDOWN};
use nettrace::{
    Collect, Event, Fields, Located, Reader, TraceInfo, allocations,
    gc::{self, Output},
    jit, locks, names, runtime,
};
use profilers::exceptions::ExceptionSample;
use rustc_hash::FxHashMap;
use session::{FunctionKind, StackId, ThreadId, ThreadState};
use std::{
    io::{BufReader, Read, Seek, SeekFrom},
    sync::Arc,
};

const SAMPLER: &str = "Microsoft-DotNETCore-SampleProfiler";

/// Stacks that are remembered by their addresses, and addresses of all of them.
const KNOWN: usize = 4 << 20;

/// Characters of a message or a name in an event.
const TEXT: usize = 4096;

/// Weight of the very first sample: the interval of the sampler unless another one was set.
const INTERVAL: u64 = 1_000_000;

pub fn read(file: &mut (impl Read + Seek), out: &mut Out<'_>) -> Result<(), ImportError> {
    let mut methods = Methods::default();
    each(file, out, |_, event| methods.see(event))?;
    methods.settle();
    file.seek(SeekFrom::Start(0))?;
    let mut reader = Reader::new(BufReader::new(&mut *file));
    // The head of the stream comes before the first event.
    let first = reader.next_event();
    let trace = reader.trace().copied();
    first.map_err(|error| failure(error, out))?;
    let Some(trace) = trace else { return Err(ImportError::Empty(out.format)) };
    begin(&trace, &methods, out)?;
    let mut reading = Reading::new(methods);
    let lost = each(file, out, |out, event| reading.event(event, out))?;
    reading.finish(out)?;
    reading.notes(lost, out);
    Ok(())
}

fn failure(error: nettrace::Error, out: &Out<'_>) -> ImportError {
    match error {
        nettrace::Error::Io(error) => ImportError::Io(error),
        error @ nettrace::Error::Version { .. } => {
            ImportError::Unsupported(format!("{error}; record with `dotnet-trace collect`"))
        }
        error => out.damaged(error.to_string()),
    }
}

/// Gives all events to `take`. What is cut short, as when the process ended, is read up to there.
/// The number of events that the runtime has lost.
fn each(
    file: &mut (impl Read + Seek),
    out: &mut Out<'_>,
    mut take: impl FnMut(&mut Out<'_>, &Event) -> Result<(), ImportError>,
) -> Result<u64, ImportError> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = Reader::new(BufReader::new(file));
    loop {
        match reader.next_event() {
            Ok(Some(event)) => take(out, &event)?,
            Ok(None) => break,
            Err(error @ nettrace::Error::Truncated { .. }) if reader.trace().is_some() => {
                out.note(format!("{error}; what came before is shown."));
                break;
            }
            Err(error) => return Err(failure(error, out)),
        }
    }
    Ok(reader.statistics().lost)
}

fn begin(trace: &TraceInfo, methods: &Methods, out: &mut Out<'_>) -> Result<(), ImportError> {
    let ids = methods.profilers.iter().map(|id| (*id, "dotnet-trace".to_owned())).collect();
    out.begin(ids, |info| {
        info.start = trace.start;
        info.start_unix_ms = unix_ms(trace.start_utc);
        info.pid = trace.pid;
        info.cpus = trace.processors;
        info.runtime.clone_from(&methods.runtime);
        info.command_line.clone_from(&methods.command_line);
        if let Some(name) = methods.process_name() {
            info.process_name = name;
        }
    })
}

/// Milliseconds since 1970 of a date; 0 if it is before.
fn unix_ms([year, month, day, hour, minute, second, millisecond]: [u16; 7]) -> u64 {
    // Days of the civil calendar, with years that begin in March (Howard Hinnant's algorithm).
    let (year, month) = match month {
        ..=2 => (i64::from(year) - 1, i64::from(month) + 9),
        _ => (i64::from(year), i64::from(month) - 3),
    };
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468;
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    let ms = (days * 86_400 + seconds) * 1000 + i64::from(millisecond);
    u64::try_from(ms).unwrap_or(0)
}

/// What is known of a thread.
struct Thread {
    id: ThreadId,
    /// Time of its last sample.
    sampled: Option<u64>,
}

struct Reading {
    methods: Methods,
    threads: FxHashMap<u64, Thread>,
    stacks: FxHashMap<Arc<[u64]>, Stack>,
    known: usize,
    /// Distance of the last two samples of a thread.
    gap: u64,
    gc: gc::Collector,
    locks: locks::Collector,
    jit: jit::Collector,
    /// Events that are not shown.
    others: u64,
}

impl Reading {
    fn new(methods: Methods) -> Self {
        Self {
            methods,
            threads: FxHashMap::default(),
            stacks: FxHashMap::default(),
            known: 0,
            gap: INTERVAL,
            gc: gc::Collector::new(),
            locks: locks::Collector::new(),
            jit: jit::Collector::new(),
            others: 0,
        }
    }

    fn event(&mut self, event: &Event, out: &mut Out<'_>) -> Result<(), ImportError> {
        out.time(event.timestamp)?;
        if event.ty.provider == SAMPLER {
            return self.sample(event, out);
        }
        if event.ty.provider != runtime::PROVIDER {
            self.others += u64::from(event.ty.provider != RUNDOWN);
            return Ok(());
        }
        if let Some(allocation) = allocations::parse(event) {
            let Located { mut row, stack } = allocation.sample;
            row.thread = self.thread(row.thread.0.into(), out)?;
            row.ty = out.ty(&names::type_name(&allocation.type_name))?;
            (row.stack, row.truncated) = self.stack(&stack, out)?;
            return out.row(&row);
        }
        if event.ty.id == 80 {
            return self.exception(event, out);
        }
        self.gc.push(event);
        self.locks.push(event);
        self.jit.push(event);
        self.collected(out)
    }

    /// Writes what became known of collections, waits and compilations.
    fn collected(&mut self, out: &mut Out<'_>) -> Result<(), ImportError> {
        while let Some(output) = self.gc.next_output() {
            match output {
                Output::Gc(collection) => out.row(&collection)?,
                Output::Pause(pause) => out.row(&pause)?,
                Output::Induced(Located { stack, .. }) if stack.is_empty() => {}
                Output::Induced(Located { mut row, stack }) => {
                    row.thread = self.thread(row.thread.0.into(), out)?;
                    (row.stack, row.truncated) = self.stack(&stack, out)?;
                    out.row(&row)?;
                }
            }
        }
        while let Some(Located { mut row, stack }) = self.locks.next_output() {
            row.thread = self.thread(row.thread.0.into(), out)?;
            row.owner = match row.owner {
                Some(owner) => Some(self.thread(owner.0.into(), out)?),
                None => None,
            };
            (row.stack, row.truncated) = self.stack(&stack, out)?;
            out.row(&row)?;
        }
        while let Some(output) = self.jit.next_output() {
            if let jit::Output::Compiled(compiled) = output {
                self.compiled(*compiled, out)?;
            }
        }
        Ok(())
    }

    fn compiled(&mut self, compiled: jit::Compiled, out: &mut Out<'_>) -> Result<(), ImportError> {
        let Located { mut row, stack } = compiled.compilation;
        // Methods that were compiled before are described as well, without a beginning.
        if row.duration.is_none() {
            return Ok(());
        }
        row.thread = self.thread(row.thread.0.into(), out)?;
        let callers = if stack.is_empty() { None } else { Some(self.stack(&stack, out)?) };
        let name = methods::full_name(&compiled.type_name, &compiled.name, &compiled.signature);
        let kind = if compiled.dynamic { FunctionKind::Dynamic } else { FunctionKind::Managed };
        let function = out.function(&Function { name: &name, module: "", kind })?;
        let frame = out.frame(function, None)?;
        row.stack = out.child(callers.map(|(stack, _)| stack), frame)?;
        row.truncated = callers.is_some_and(|(_, truncated)| truncated);
        out.row(&row)
    }

    /// A sample of a thread stands for the time since the one before it.
    fn sample(&mut self, event: &Event, out: &mut Out<'_>) -> Result<(), ImportError> {
        let (time, kind) = (event.timestamp, Fields(&event.payload).u32());
        let gap = self.gap;
        let id = self.thread(event.thread_id, out)?;
        let Some(thread) = self.threads.get_mut(&event.thread_id) else { return Ok(()) };
        let weight = match thread.sampled.replace(time) {
            Some(before) => time.saturating_sub(before),
            None => gap,
        };
        self.gap = weight.max(1);
        if event.stack.is_empty() {
            return Ok(());
        }
        let (stack, truncated) = self.stack(&event.stack, out)?;
        // 1 is native code, where a thread runs or waits; 2 is managed code.
        let state = if kind == Some(2) { ThreadState::Running } else { ThreadState::Other };
        out.wall(Sample { time, thread: id, stack, weight, state, truncated })
    }

    fn exception(&mut self, event: &Event, out: &mut Out<'_>) -> Result<(), ImportError> {
        let mut fields = Fields(&event.payload);
        let Some(ty) = fields.utf16z(TEXT) else { return Ok(()) };
        let message = fields.utf16z(TEXT).filter(|message| !message.is_empty());
        let thread = self.thread(event.thread_id, out)?;
        let (stack, _) = self.stack(&event.stack, out)?;
        let (time, ty) = (event.timestamp, out.ty(&names::type_name(&ty))?);
        out.row(&ExceptionSample {
            time,
            thread,
            ty,
            message,
            stack,
            weight: 1,
            caught_by: None,
            time_to_catch: None,
        })
    }

    fn thread(&mut self, number: u64, out: &mut Out<'_>) -> Result<ThreadId, ImportError> {
        if let Some(thread) = self.threads.get(&number) {
            return Ok(thread.id);
        }
        let id = out.thread(u32::try_from(number).ok(), "")?;
        self.threads.insert(number, Thread { id, sampled: None });
        Ok(id)
    }

    /// The stack of addresses, leaf first.
    fn stack(&mut self, addresses: &Arc<[u64]>, out: &mut Out<'_>) -> Result<Stack, ImportError> {
        if let Some(stack) = self.stacks.get(addresses) {
            return Ok(*stack);
        }
        if self.known > KNOWN {
            self.stacks.clear();
            self.known = 0;
        }
        let depth = addresses.len().min(limits::DEPTH);
        let mut stack: Option<StackId> = None;
        for (index, address) in addresses.iter().enumerate().take(depth).rev() {
            // A return address may be that of the next method.
            let address = if index > 0 { address.saturating_sub(1) } else { *address };
            let frame = self.methods.frame(address, out)?;
            stack = Some(out.child(stack, frame)?);
        }
        let stack = match stack {
            Some(stack) => (stack, depth < addresses.len()),
            None => out.no_stack()?,
        };
        self.known += addresses.len() + 8;
        self.stacks.insert(Arc::clone(addresses), stack);
        Ok(stack)
    }

    fn finish(&mut self, out: &mut Out<'_>) -> Result<(), ImportError> {
        self.gc.finish();
        self.locks.finish();
        self.jit.finish();
        self.collected(out)
    }

    fn notes(&self, lost: u64, out: &mut Out<'_>) {
        if self.methods.profilers.contains(&"wall") {
            out.note(
                "Samples are of the runtime's sample profiler: managed threads at safepoints, \
                 running or waiting. `other` is time in native code, where a thread runs or waits.",
            );
        }
        if lost > 0 {
            out.note(format!("The runtime has lost {lost} events, because its buffers were full."));
        }
        if self.others > 0 {
            out.note(format!("{} events of other providers are not imported.", self.others));
        }
        if self.methods.is_empty() {
            out.note(
                "The file does not say where the code of methods stands, so stacks have no names: \
                 its end is missing, or it was recorded without rundown.",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_milliseconds() {
        assert_eq!(unix_ms([1970, 1, 1, 0, 0, 0, 1]), 1);
        assert_eq!(unix_ms([2024, 2, 29, 12, 30, 15, 250]), 1_709_209_815_250);
        assert_eq!(unix_ms([2026, 11, 29, 0, 0, 0, 0]), 1_795_910_400_000);
        assert_eq!(unix_ms([0; 7]), 0);
        assert!(unix_ms([u16::MAX; 7]) > 0);
    }
}
