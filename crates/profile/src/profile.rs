use std::sync::Arc;

use profilers::gc::{Collection, Induced, Pause};
use session::{
    FunctionId, Nanos, ObserverStatus, ProcessorUse, ProfilerRun, ResourceUse, SamplingRate,
    SessionEnd, SessionInfo, SurvivorSnapshot,
};

use crate::{
    Allocations, CallTree, Counter, Estimate, Exceptions, Imported, Jit, Loads, Locks, OtherTable,
    Pool, Series, SeriesKind, Tables, Threads, Totals, Traced, TreeOptions,
};

/// A recording, ready to be asked.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What was recorded, where and how.
    pub info: SessionInfo,
    /// What samples refer to.
    pub tables: Arc<Tables>,
    /// From when.
    pub start: Nanos,
    /// To when.
    pub stop: Nanos,
    /// CPU samples.
    pub cpu: Series,
    /// Wall samples.
    pub wall: Series,
    /// Exceptions.
    pub exceptions: Exceptions,
    /// Allocations.
    pub allocations: Allocations,
    /// Waits for locks.
    pub locks: Locks,
    /// Calls of methods with hooks: a sample is a call.
    pub calls: Series,
    /// Calls between managed and native code: a sample is a call.
    pub transitions: Series,
    /// Calls of instrumented methods.
    pub traced: Traced,
    /// Compiled methods.
    pub jit: Jit,
    /// Loaded assemblies and types.
    pub loads: Loads,
    /// What another tool has recorded.
    pub imported: Imported,
    /// What the process counted about itself, in the order of their ids.
    pub counters: Vec<Counter>,
    /// Thread snapshots.
    pub threads: Threads,
    /// The thread pool.
    pub pool: Pool,
    /// Garbage collections, in the order of their end.
    pub gcs: Vec<Collection>,
    /// Calls that induced collections, where the runtime reported their stacks.
    pub inductions: Vec<Induced>,
    /// All tables of the session, by their ids. Those whose rows are summed up elsewhere in here
    /// have no batches.
    pub other_tables: Vec<OtherTable>,
    /// Times when the runtime was suspended.
    pub pauses: Vec<Pause>,
    /// Collections whose survivors were looked at.
    pub survivors: Vec<SurvivorSnapshot>,
    /// What the observation cost, again and again; each counts from the start.
    pub observer: Vec<ObserverStatus>,
    /// How much of the processors the process had and lacked, by time.
    pub processors: Vec<ProcessorUse>,
    /// How often threads were sampled, measured, by profiler.
    pub rates: Vec<SamplingRate>,
    /// What the agent held in the target, as last reported.
    pub resources: Vec<ResourceUse>,
    /// What a user should know.
    pub notes: Vec<(Nanos, String)>,
    /// How it ended, where that was recorded.
    pub end: Option<SessionEnd>,
    /// The recording did not end in order: the recorder was killed, or the file is incomplete.
    pub cut_short: bool,
    /// Where and how the session is damaged; what came before is in here.
    pub damage: Option<String>,
    /// What was filtered away, in words for a reader.
    pub filtered: Option<String>,
    /// Bytes of texts and of lists within lists, of all that is kept as it came.
    pub(crate) inner: usize,
}

/// Sums of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunctionTotals {
    /// The function.
    pub function: FunctionId,
    /// Samples in the function itself.
    pub own: Totals,
    /// Samples in the function or what it called; a stack counts once, however often the function
    /// is on it.
    pub total: Totals,
    /// Share of `own` in all samples of the series.
    pub own_share: Estimate,
    /// Share of `total` in all samples of the series.
    pub total_share: Estimate,
}

impl Profile {
    /// Length of the recording, or of the part of it that the profile is of.
    pub fn duration(&self) -> Nanos {
        self.stop.saturating_sub(self.start)
    }

    /// The samples of a kind.
    pub fn series(&self, kind: SeriesKind) -> &Series {
        match kind {
            SeriesKind::Cpu => &self.cpu,
            SeriesKind::Wall => &self.wall,
            SeriesKind::Exceptions => &self.exceptions.series,
            SeriesKind::Allocations => &self.allocations.series,
            SeriesKind::Locks => &self.locks.series,
            SeriesKind::Threads => &self.threads.series,
            SeriesKind::Pool => &self.pool.series,
            SeriesKind::Calls => &self.calls,
            SeriesKind::Transitions => &self.transitions,
            SeriesKind::Jit => &self.jit.series,
            SeriesKind::Loads => &self.loads.series,
            SeriesKind::Samples => &self.imported.samples,
            SeriesKind::Time => &self.imported.time,
            SeriesKind::Bytes => &self.imported.bytes,
        }
    }

    /// How a profiler ran, if it did.
    pub fn run(&self, id: &str) -> Option<&ProfilerRun> {
        self.info.profilers.iter().find(|run| run.id == id)
    }

    /// How often a profiler sampled each thread, as measured; `None` for what does not sample, and
    /// in older recordings.
    pub fn sampling_rate(&self, id: &str) -> Option<&SamplingRate> {
        self.rates.iter().find(|rate| rate.profiler == id)
    }

    /// Samples per second of a thread's time, by a profiler: those achieved where they differ
    /// noticeably from those asked for.
    pub fn rate_hz(&self, id: &str) -> Option<f64> {
        let achieved = self
            .sampling_rate(id)
            .filter(|rate| rate.differs())
            .and_then(SamplingRate::achieved_hz);
        achieved.or_else(|| self.run(id)?.rate_hz.map(f64::from))
    }

    /// Costs and losses of the whole recording, where they were recorded.
    pub fn observer_total(&self) -> Option<&ObserverStatus> {
        self.observer.last()
    }

    /// What was dropped in the whole recording, by reason.
    pub fn dropped(&self) -> u64 {
        let dropped =
            self.observer_total().map(|status| status.dropped.as_slice()).unwrap_or_default();
        dropped.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Functions by their own weight, then by their total, greatest first.
    pub fn top_functions(&self, kind: SeriesKind) -> Vec<FunctionTotals> {
        self.top_functions_of(self.series(kind))
    }

    /// The same of samples whose stacks are in the tables of this profile, such as those of one
    /// state ([`Series::in_state`]). Shares are of all of `series`.
    pub fn top_functions_of(&self, series: &Series) -> Vec<FunctionTotals> {
        let tree = CallTree::new(&self.tables, series, TreeOptions::default());
        let (mut own, mut total) = (
            vec![Totals::default(); self.tables.functions.len()],
            vec![Totals::default(); self.tables.functions.len()],
        );
        // How often a function is on the path from the root to where the walk is.
        let mut on_path = vec![0_u32; self.tables.functions.len()];
        tree.visit(|node, entering| {
            let function = node.function.index();
            if !entering {
                on_path[function] -= 1;
                return;
            }
            own[function].add(node.own.samples, node.own.weight);
            if on_path[function] == 0 {
                total[function].add(node.total.samples, node.total.weight);
            }
            on_path[function] += 1;
        });
        let mut functions: Vec<FunctionTotals> = (own.into_iter().zip(total).enumerate())
            .filter(|(_, (_, total))| total.samples > 0 || total.weight > 0)
            .map(|(function, (own, total))| FunctionTotals {
                function: FunctionId(function as u32),
                own,
                total,
                own_share: series.share(own.weight),
                total_share: series.share(total.weight),
            })
            .collect();
        order::sort_by(&mut functions, |a, b| {
            let key = |f: &FunctionTotals| (f.own.weight, f.total.weight);
            key(b).cmp(&key(a)).then(a.function.cmp(&b.function))
        });
        functions
    }
}
