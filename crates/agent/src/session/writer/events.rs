//! Writes what callbacks and ticks handed over, each definition before it is named.

use super::{Gone, Writer};
use crate::host::context::number_of_class;
use crate::host::queue::Event;
use crate::host::resolver::Resolver;
use crate::os::{clock, threads};
use crate::session::agent::Agent;
use corprof::ids::ClassId;
use profilers::{CallbackSample, Class, FlushCx};
use wire::{LogLevel, Nanos, Record};

impl Writer<'_> {
    /// Writes what callbacks and ticks handed over.
    pub(super) fn drain(&mut self) -> Result<(), Gone> {
        // At most a queue full, so that a storm cannot keep us here.
        for _ in 0..8192 {
            let Some(event) = self.agent.events.pop() else { break };
            self.events.push(event);
        }
        // Before their modules may be gone.
        let mut records = Vec::new();
        self.calls.define(self.agent, &mut self.resolver, &mut records);
        self.put_all(&mut records)?;
        self.define_instrumented()?;
        // Asked after the events were taken: what came later is written as it should be.
        let lost_ends = self.agent.events.take_lost_ends();
        // Taken after the events: every stack that they name is there, or was written before.
        self.define_stacks()?;
        let mut events = std::mem::take(&mut self.events);
        let result = events.drain(..).try_for_each(|event| self.event(event));
        self.events = events;
        result?;
        if lost_ends { self.forget_ended() } else { Ok(()) }
    }

    /// Forgets everything that may have ended: too much has ended to report all of it.
    pub(super) fn forget_ended(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        let mut records = Vec::new();
        self.resolver.forget_loaded(&mut records);
        self.instrumented.retain(|(module, _), _| !agent.runtime.unloads().is_gone(*module));
        let running: Vec<_> = agent.threads().running().collect();
        for (thread, os_tid) in running.into_iter().filter(|(_, os_tid)| threads::is_gone(*os_tid))
        {
            agent.signals.with(|engine| engine.remove(thread.0 as u64, os_tid));
            records.extend(agent.threads().ended(thread, clock::monotonic()));
        }
        records.push(Record::Log {
            level: LogLevel::Warning,
            message: "more threads, modules or dynamic methods ended at a time than could be \
                recorded: they were looked up again"
                .to_owned(),
        });
        self.put_all(&mut records)?;
        self.list_threads()
    }

    /// Writes stacks that have no definition outside yet, and the code that they lie in.
    pub(super) fn define_stacks(&mut self) -> Result<(), Gone> {
        let agent = self.agent;
        let mut stacks = agent.stacks().take_new().into_iter();
        let mut records = Vec::new();
        loop {
            // Many at a time: a lookup may need a suspension, and they share most of their code.
            let part: Vec<_> = stacks.by_ref().take(64).collect();
            if part.is_empty() {
                return Ok(());
            }
            let ips: Vec<u64> = part.iter().flat_map(|stack| stack.ips.iter().copied()).collect();
            self.resolver.resolve(&agent.runtime, &agent.counters, &ips, &mut records);
            self.put_all(&mut records)?;
            records.extend(part.into_iter().map(Record::Stack));
            self.put_all(&mut records)?;
        }
    }

    pub(super) fn event(&mut self, event: Event) -> Result<(), Gone> {
        let agent = self.agent;
        let mut records = Vec::new();
        match event {
            Event::ThreadRuns { thread, os_tid, time } => {
                records.extend(agent.threads().runs(thread, os_tid, Some(time)));
            }
            Event::ThreadNamed { thread, name } => {
                records.extend(agent.threads().named(thread, name))
            }
            Event::ThreadEnded { thread, time } => {
                let ended = agent.threads().ended(thread, time);
                if let Some(Record::ThreadEnded { os_tid, .. }) = ended {
                    agent.signals.with(|engine| engine.remove(thread.0 as u64, os_tid));
                }
                records.extend(ended);
            }
            Event::Work(work) => records.push(Record::RuntimeWork(work)),
            Event::FunctionFreed(function) => self.resolver.freed(function, &mut records),
            Event::ModuleUnloaded(module) => {
                self.instrumented.retain(|(of, _), _| *of != module);
                self.resolver.unloaded(module, &mut records);
            }
            Event::Record(record) => records.push(record),
            Event::Log(level, message) => records.push(Record::Log { level, message }),
            Event::Sample(CallbackSample::Exception {
                sequence,
                time,
                os_tid,
                class,
                message,
                ips,
                truncated,
                weight,
            }) => {
                let class = class_id(agent, &mut self.resolver, class, &mut records);
                let stack = agent.stacks().intern(&ips, truncated);
                self.put_all(&mut records)?;
                self.define_stacks()?;
                let exception =
                    wire::Exception { sequence, time, os_tid, class, message, stack, weight };
                records.push(Record::Exception(exception));
            }
            Event::Sample(CallbackSample::ExceptionCaught { sequence, time, function }) => {
                let number = u32::try_from(function.0).ok().filter(|number| *number != 0);
                let method = number.and_then(|number| {
                    self.resolver.numbered_method(
                        &agent.runtime,
                        &agent.counters,
                        number,
                        &mut records,
                    )
                });
                records.push(Record::ExceptionCaught(wire::ExceptionCaught {
                    sequence,
                    time,
                    method,
                }));
            }
        }
        self.put_all(&mut records)
    }

    pub(super) fn flush_collectors(&mut self) -> Result<(), Gone> {
        self.dropped.clear();
        let mut records = Vec::new();
        let mut flush = Flush {
            agent: self.agent,
            resolver: &mut self.resolver,
            records: &mut records,
            dropped: &mut self.dropped,
        };
        self.agent.each_collector(|collector| collector.flush(&mut flush));
        self.put_all(&mut records)
    }

    /// Writes everything collected so far.
    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        let begun = clock::monotonic();
        self.flush_collectors()?;
        self.flush_calls(false)?;
        self.flush_allocated()?;
        self.flush_traced()?;
        let ended = clock::monotonic();
        self.drain()?;
        self.put(Record::Flushed { begun, ended })
    }
}

/// Id of a class on the wire, whether the runtime has a number for it or it is known by name only.
fn class_id(
    agent: &Agent,
    resolver: &mut Resolver,
    class: Class,
    records: &mut Vec<Record>,
) -> u32 {
    let runtime = &agent.runtime;
    match agent.exceptions.classes.name(class) {
        Some(name) => resolver.event_class(runtime, ClassId(class.0), name, records),
        None => resolver.numbered_class(runtime, number_of_class(class), records),
    }
}

struct Flush<'a> {
    agent: &'a Agent,
    resolver: &'a mut Resolver,
    records: &'a mut Vec<Record>,
    dropped: &'a mut Vec<(&'static str, u64)>,
}

impl FlushCx for Flush<'_> {
    fn now(&self) -> Nanos {
        clock::monotonic()
    }

    fn class(&mut self, class: Class) -> u32 {
        class_id(self.agent, self.resolver, class, self.records)
    }

    fn write(&mut self, record: Record) {
        self.records.push(record);
    }

    fn dropped(&mut self, reason: &'static str, total: u64) {
        self.dropped.push((reason, total));
    }
}
