//! Compiled methods out of the runtime's events, and how often precompiled code was found.
//!
//! Layouts are those of the runtime's manifest, `ClrEtwAll.man`, for processes of 64 bits.

use crate::cursor::Cursor;
use crate::runtime::PROVIDER;
use crate::{Collect, Event, Located, thread_id};
use profilers::jit::{Compilation, JitTier, PrecompiledCode};
use rows::StackId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Most characters of a name or a signature that are read. An event has at most 64 KB.
const MAX_TEXT: usize = 1 << 15;

/// Most threads that are followed, compilations within each other of one, and failed look-ups that
/// are remembered of one.
const MAX_THREADS: usize = 1 << 16;
const MAX_DEPTH: usize = 64;
const MAX_MISSING: usize = 16;

/// How thoroughly a method was compiled: `NativeCodeVersion::OptimizationTier` as bits 7 to 9 of an
/// event's flags.
fn tier(flags: u32) -> JitTier {
    match flags >> 7 & 7 {
        1 => JitTier::MinOpt,
        2 => JitTier::Optimized,
        3 => JitTier::Quick,
        4 => JitTier::Tier1,
        5 => JitTier::Tier1Osr,
        6 => JitTier::QuickInstrumented,
        7 => JitTier::Tier1Instrumented,
        _ => JitTier::Unknown,
    }
}

/// A compiled method. Its stack is the call that made it necessary, without the method itself; it
/// is empty on the runtime's own threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Its compilation. Where the beginning was not seen, its time is that of the end, and it has
    /// no size of IL.
    pub compilation: Located<Compilation>,
    /// The runtime's number of its module.
    pub module: u64,
    /// Metadata token (`mdMethodDef`); 0 where there is none.
    pub token: u32,
    /// Its type, as reflection writes it; `dynamicClass` for dynamic methods.
    pub type_name: String,
    /// Its name without generic arguments.
    pub name: String,
    /// Return type and parameters, as IL assemblers write them.
    pub signature: String,
    /// Where its code stands.
    pub code: u64,
    /// Whether it has no metadata: a dynamic method, or a stub of the runtime. The runtime's
    /// numbers of dynamic methods come again.
    pub dynamic: bool,
}

/// What the events tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A method was compiled.
    Compiled(Box<Compiled>),
    /// Precompiled code of a method was looked for.
    Lookup {
        /// When, in nanoseconds of the stream's clock.
        time: u64,
        /// Whether there is some that can be used.
        found: bool,
        /// How long that took, nanoseconds; `None` before .NET 5.
        duration: Option<u64>,
    },
    /// The code of a method was freed: of a dynamic one, or of one whose assembly was unloaded.
    Freed,
}

/// Pairs the beginning and the end of compilations, of events that come in the order of their
/// times.
#[derive(Debug, Default)]
pub struct Collector {
    threads: HashMap<u64, Thread>,
    output: VecDeque<Output>,
}

#[derive(Debug, Default)]
struct Thread {
    /// Compilations that have begun, the innermost last.
    begun: Vec<Begun>,
    /// Look-ups that have begun: method and time.
    lookups: Vec<(u64, u64)>,
    /// Methods for which no precompiled code was found of late.
    missing: VecDeque<u64>,
    /// Whether it is at its compilations in the background.
    background: bool,
}

#[derive(Debug)]
struct Begun {
    method: u64,
    time: u64,
    il_size: u32,
    stack: Arc<[u64]>,
    missing: bool,
    /// Time of compilations within it.
    nested: u64,
}

impl Collector {
    /// A collector that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn push_fields(
        &mut self,
        id: u32,
        payload: &[u8],
        time: u64,
        thread: u64,
        stack: &Arc<[u64]>,
    ) -> Option<()> {
        if !matches!(id, 143 | 144 | 145 | 159 | 160 | 283 | 284) {
            return None;
        }
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&thread) {
            return None;
        }
        let of_thread = self.threads.entry(thread).or_default();
        let mut fields = Cursor(payload);
        match id {
            143 => {
                let compiled = of_thread.loaded(fields, time, thread)?;
                self.output.push_back(Output::Compiled(Box::new(compiled)));
            }
            144 => self.output.push_back(Output::Freed),
            145 => of_thread.jitting(fields, time, stack)?,
            159 => {
                let method = fields.u64()?;
                for _ in 0..3 {
                    fields.skip_utf16z(MAX_TEXT)?;
                }
                let found = fields.u64()? != 0;
                let begun = of_thread.lookups.iter().rposition(|(begun, _)| *begun == method);
                let since = begun.and_then(|at| of_thread.lookups.drain(at..).next());
                let duration = since.map(|(_, begun)| time.saturating_sub(begun));
                if !found {
                    if of_thread.missing.len() >= MAX_MISSING {
                        of_thread.missing.pop_front();
                    }
                    of_thread.missing.push_back(method);
                }
                self.output.push_back(Output::Lookup { time, found, duration });
            }
            160 => {
                if of_thread.lookups.len() >= MAX_DEPTH {
                    of_thread.lookups.clear();
                }
                of_thread.lookups.push((fields.u64()?, time));
            }
            283 => of_thread.background = true,
            _ => of_thread.background = false,
        }
        Some(())
    }
}

impl Collect for Collector {
    type Output = Output;

    fn push(&mut self, event: &Event) {
        if event.ty.provider == PROVIDER {
            // What is cut short tells nothing.
            let _ = self.push_fields(
                event.ty.id,
                &event.payload,
                event.timestamp,
                event.thread_id,
                &event.stack,
            );
        }
    }

    fn next_output(&mut self) -> Option<Self::Output> {
        self.output.pop_front()
    }
}

impl Thread {
    /// `MethodJittingStarted`.
    fn jitting(&mut self, mut fields: Cursor<'_>, time: u64, stack: &Arc<[u64]>) -> Option<()> {
        let method = fields.u64()?;
        let _module = fields.u64()?;
        let _token = fields.u32()?;
        let il_size = fields.u32()?;
        let missing = self.missing.iter().position(|missing| *missing == method);
        let missing = missing.and_then(|at| self.missing.remove(at)).is_some();
        if self.begun.len() >= MAX_DEPTH {
            // Some never ended.
            self.begun.remove(0);
        }
        self.begun.push(Begun {
            method,
            time,
            il_size,
            stack: Arc::clone(stack),
            missing,
            nested: 0,
        });
        Some(())
    }

    /// `MethodLoadVerbose`; `None` for what was not compiled.
    fn loaded(&mut self, mut fields: Cursor<'_>, time: u64, thread: u64) -> Option<Compiled> {
        const DYNAMIC: u32 = 0x1;
        const JITTED: u32 = 0x8;
        const HELPER: u32 = 0x10;
        const REJECTED_BY_PROFILER: u32 = 0x20;
        const REJECTED: u32 = 0x40;
        let method = fields.u64()?;
        let module = fields.u64()?;
        let code = fields.u64()?;
        let native_size = fields.u32()?;
        let token = fields.u32()?;
        let flags = fields.u32()?;
        if flags & JITTED == 0 || flags & HELPER != 0 {
            return None;
        }
        let type_name = fields.utf16z(MAX_TEXT)?;
        let name = fields.utf16z(MAX_TEXT)?;
        let signature = fields.utf16z(MAX_TEXT)?;
        let at = self.begun.iter().rposition(|begun| begun.method == method);
        // Those within it that have not ended never will.
        let begun = at.and_then(|at| self.begun.drain(at..).next());
        let whole = begun.as_ref().map(|begun| time.saturating_sub(begun.time));
        if let (Some(outer), Some(whole)) = (self.begun.last_mut(), whole) {
            outer.nested = outer.nested.saturating_add(whole);
        }
        let nested = begun.as_ref().map_or(0, |begun| begun.nested);
        let precompiled = match flags {
            flags if flags & REJECTED_BY_PROFILER != 0 => PrecompiledCode::RejectedByProfiler,
            flags if flags & REJECTED != 0 => PrecompiledCode::Rejected,
            _ if begun.as_ref().is_some_and(|begun| begun.missing) => PrecompiledCode::Missing,
            _ => PrecompiledCode::NotSought,
        };
        let row = Compilation {
            time: begun.as_ref().map_or(time, |begun| begun.time),
            thread: thread_id(thread),
            stack: StackId::UNDEFINED,
            duration: whole.map(|whole| whole.saturating_sub(nested)),
            method,
            tier: tier(flags),
            il_size: begun.as_ref().map_or(0, |begun| begun.il_size),
            native_size,
            background: self.background,
            precompiled,
            truncated: false,
        };
        let stack = begun.map(|begun| begun.stack).unwrap_or_default();
        let compilation = Located { row, stack };
        let dynamic = flags & DYNAMIC != 0;
        Some(Compiled { compilation, module, token, type_name, name, signature, code, dynamic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::recorded;

    /// Feeds events of threads, ten nanoseconds apart from 100 on. Each is called from its thread's
    /// number.
    fn collect(events: &[(u32, u64, &[u8])]) -> Vec<Output> {
        let mut collector = Collector::new();
        for (time, (id, thread, payload)) in (10..).zip(events) {
            let _ = collector.push_fields(*id, payload, time * 10, *thread, &Arc::from([*thread]));
        }
        std::iter::from_fn(|| collector.next_output()).collect()
    }

    fn compiled(events: &[(u32, u64, &[u8])]) -> Vec<Compiled> {
        let outputs = collect(events).into_iter();
        outputs
            .filter_map(|output| {
                if let Output::Compiled(compiled) = output { Some(*compiled) } else { None }
            })
            .collect()
    }

    fn text(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    fn names() -> Vec<u8> {
        [text("N.Type"), text("Run"), text("void  ()")].concat()
    }

    fn jitting(method: u64) -> Vec<u8> {
        let fields = [method.to_le_bytes(), 9_u64.to_le_bytes()].concat();
        [fields, vec![1, 0, 0, 6], vec![44, 0, 0, 0], names(), vec![0, 0]].concat()
    }

    fn loaded(method: u64, flags: u32) -> Vec<u8> {
        let fields = [method, 9, 0x7000].map(u64::to_le_bytes).concat();
        let numbers = [123, 0x0600_0001, flags].map(u32::to_le_bytes).concat();
        [fields, numbers, names(), vec![0, 0]].concat()
    }

    fn lookup(method: u64, entry: u64) -> Vec<u8> {
        [method.to_le_bytes().to_vec(), names(), entry.to_le_bytes().to_vec(), vec![0, 0]].concat()
    }

    /// What the program `samples/jitter` made a runtime tell; of all of its events, those that are
    /// looked at here.
    fn of_jitter(lines: &str) -> (Vec<Compiled>, usize) {
        let mut collector = Collector::new();
        for (time, thread, id, payload) in recorded(lines) {
            let _ = collector.push_fields(id, &payload, time, thread, &Arc::from([]));
        }
        let outputs: Vec<_> = std::iter::from_fn(|| collector.next_output()).collect();
        let freed = outputs.iter().filter(|output| matches!(output, Output::Freed)).count();
        let compiled =
            |output| if let Output::Compiled(compiled) = output { Some(*compiled) } else { None };
        (outputs.into_iter().filter_map(compiled).collect(), freed)
    }

    #[test]
    fn real_runtimes() {
        let runtimes = [
            (3, include_str!("recorded/jitter-3.1.23.txt")),
            (8, include_str!("recorded/jitter-8.0.30.txt")),
            (9, include_str!("recorded/jitter-9.0.5.txt")),
        ];
        for (major, lines) in runtimes {
            let (all, freed) = of_jitter(lines);
            assert_eq!(freed, 2, "{major}: two of the dynamic methods");
            let of = |name: &str| all.iter().filter(|one| one.name == name).collect::<Vec<_>>();
            assert!(all.iter().all(|one| one.compilation.row.duration.is_some()), "{major}");

            let dynamic = of("dynamic_0")[0];
            assert_eq!(
                (dynamic.type_name.as_str(), dynamic.signature.as_str()),
                ("dynamicClass", "int32  (int32)")
            );
            assert_eq!(
                (dynamic.compilation.row.il_size, dynamic.token, dynamic.compilation.row.tier),
                (0, 0, JitTier::Optimized),
                "{major}"
            );
            assert!(
                dynamic.dynamic
                    && !dynamic.compilation.row.background
                    && dynamic.compilation.row.precompiled == PrecompiledCode::NotSought,
                "{major}"
            );
            // Too large for the compiler to optimize it.
            let large = of("large_method")[0];
            assert_eq!(
                (
                    large.compilation.row.il_size,
                    large.compilation.row.tier,
                    large.compilation.row.native_size
                ),
                (0, JitTier::MinOpt, 0x948b),
                "{major}"
            );
            assert!(large.compilation.row.duration > Some(5_000_000), "{major}: {large:?}");

            let instances = of("Instantiate");
            let methods: std::collections::HashSet<_> =
                instances.iter().map(|one| one.compilation.row.method).collect();
            assert_eq!((instances.len(), methods.len()), (8, 8), "{major}");
            assert!(
                instances
                    .iter()
                    .all(|one| one.compilation.row.tier == JitTier::Quick
                        && one.token == 0x0600_0007),
                "{major}"
            );
            assert!(
                instances.iter().all(|one| one.compilation.row.il_size == 0x19
                    && one.compilation.row.native_size > 0),
                "{major}: {instances:?}"
            );

            let tiers = |name: &str| {
                of(name)
                    .iter()
                    .map(|one| (one.compilation.row.tier, one.compilation.row.background))
                    .collect::<Vec<_>>()
            };
            let hot: &[_] = match major {
                3 => &[(JitTier::Quick, false), (JitTier::Tier1, true)],
                _ => &[
                    (JitTier::Quick, false),
                    (JitTier::QuickInstrumented, true),
                    (JitTier::Tier1, true),
                ],
            };
            assert_eq!(tiers("Hot"), hot, "{major}");
            let looping: &[_] = match major {
                3 => &[(JitTier::Optimized, false)],
                _ => &[(JitTier::Quick, false), (JitTier::Tier1Osr, false)],
            };
            assert_eq!(tiers("Loop"), looping, "{major}");
            let sought: Vec<_> = all
                .iter()
                .filter(|one| one.compilation.row.precompiled != PrecompiledCode::NotSought)
                .collect();
            if major != 8 {
                assert!(
                    sought
                        .iter()
                        .all(|one| one.compilation.row.precompiled == PrecompiledCode::Missing
                            && !one.dynamic),
                    "{sought:?}"
                );
                assert_eq!(sought.len(), 1, "{major}");
            }
        }
    }

    #[test]
    fn compilations_within_each_other_share_no_time() {
        let events = [
            (145, 1, jitting(1)),
            (145, 1, jitting(2)),
            (143, 1, loaded(2, 0x188)),
            (143, 1, loaded(1, 0x188)),
        ];
        let events: Vec<_> =
            events.iter().map(|(id, thread, payload)| (*id, *thread, payload.as_slice())).collect();
        let told: Vec<_> = compiled(&events)
            .iter()
            .map(|one| {
                (one.compilation.row.method, one.compilation.row.time, one.compilation.row.duration)
            })
            .collect();
        assert_eq!(told, [(2, 110, Some(10)), (1, 100, Some(20))]);
    }

    #[test]
    fn threads_do_not_mix_and_what_never_ends_is_passed_over() {
        let (start, other, end) = (jitting(1), jitting(2), loaded(1, 0x188));
        let told = compiled(&[
            (145, 1, &start),
            (145, 2, &start),
            (145, 1, &other),
            (143, 2, &end),
            (143, 1, &end),
        ]);
        let told: Vec<_> = told
            .iter()
            .map(|one| {
                (
                    one.compilation.row.thread.0,
                    one.compilation.row.time,
                    one.compilation.row.duration,
                )
            })
            .collect();
        assert_eq!(told, [(2, 110, Some(20)), (1, 100, Some(40))]);
        // The beginning was before the recording.
        let told = compiled(&[(143, 1, &end)]);
        let Located { row, stack } = &told[0].compilation;
        assert_eq!((row.time, row.duration, row.il_size, stack.len()), (100, None, 0, 0));
        // Neither a helper nor precompiled code is compiled.
        assert_eq!(compiled(&[(143, 1, &loaded(1, 0x18)), (143, 1, &loaded(1, 0))]), []);
    }

    #[test]
    fn what_became_of_precompiled_code() {
        let (none, some) = (lookup(1, 0), lookup(2, 0x9000));
        let events: [(u32, u64, &[u8]); 8] = [
            (160, 1, &1_u64.to_le_bytes()),
            (159, 1, &none),
            (145, 1, &jitting(1)),
            (143, 1, &loaded(1, 0x188)),
            (159, 1, &some),
            (145, 1, &jitting(2)),
            (143, 1, &loaded(2, 0x188 | 0x40)),
            (143, 1, &loaded(3, 0x188 | 0x20)),
        ];
        let outputs = collect(&events);
        let lookups: Vec<_> = outputs
            .iter()
            .filter(|output| matches!(output, Output::Lookup { .. }))
            .cloned()
            .collect();
        let expected = [
            Output::Lookup { time: 110, found: false, duration: Some(10) },
            Output::Lookup { time: 140, found: true, duration: None },
        ];
        assert_eq!(lookups, expected);
        let told: Vec<_> =
            compiled(&events).iter().map(|one| one.compilation.row.precompiled).collect();
        assert_eq!(
            told,
            [
                PrecompiledCode::Missing,
                PrecompiledCode::Rejected,
                PrecompiledCode::RejectedByProfiler
            ]
        );
        // The second compilation of the same method did not look.
        let again = compiled(&[
            (159, 1, &none),
            (145, 1, &jitting(1)),
            (143, 1, &loaded(1, 0x188)),
            (145, 1, &jitting(1)),
            (143, 1, &loaded(1, 0x208)),
        ]);
        assert_eq!(again[1].compilation.row.precompiled, PrecompiledCode::NotSought);
    }

    #[test]
    fn the_background_is_that_of_its_thread() {
        let (start, end) = (jitting(1), loaded(1, 0x208));
        let told = compiled(&[
            (283, 1, &[]),
            (145, 1, &start),
            (145, 2, &start),
            (143, 1, &end),
            (143, 2, &end),
            (284, 1, &[]),
            (145, 1, &start),
            (143, 1, &end),
        ]);
        let told: Vec<_> = told
            .iter()
            .map(|one| {
                (
                    one.compilation.row.thread.0,
                    one.compilation.row.background,
                    one.compilation.row.tier,
                )
            })
            .collect();
        assert_eq!(
            told,
            [(1, true, JitTier::Tier1), (2, false, JitTier::Tier1), (1, false, JitTier::Tier1)]
        );
    }

    #[test]
    fn what_is_cut_short_tells_nothing() {
        let (end, none) = (loaded(1, 0x188), lookup(1, 0));
        for cut in 0..end.len() - 2 {
            assert_eq!(collect(&[(143, 1, &end[..cut])]), [], "cut at {cut}");
        }
        for cut in 0..none.len() - 2 {
            assert_eq!(collect(&[(159, 1, &none[..cut])]), [], "cut at {cut}");
        }
    }
}
