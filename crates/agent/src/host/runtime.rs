//! What the agent asks of the runtime, in the form in which a recording needs it.

use crate::heap_memory;
use crate::host::code_map::CodeMap;
use crate::host::id_table::IdTable;
use crate::host::thread_registry::LiveThreads;
use crate::host::unloads::{HOLD_PAUSE, Unloads};
use crate::os::turn::Turn;
use crate::os::{clock, maps};
use com::codes::CORPROF_E_SUSPENSION_IN_PROGRESS;
use corprof::NameResolver;
use corprof::abi::COR_PRF_MODULE_FLAGS;
use corprof::ids::{ClassId, FunctionId, ModuleId, RawObjectId, ReJitId, ThreadId};
use corprof::info::{
    CodeRange, Error, IlOffset, ProfilerInfo, Result, SnapshotFlags, SuspendedRuntime,
};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use wire::Nanos;

/// The expected time that `RequestProfilerDetach` gets, in milliseconds: after this time the
/// runtime checks whether callbacks still run. With less it sometimes sleeps for seconds instead.
const DETACH_EXPECTATION: u32 = 300;
/// The same on a runtime whose thread for this may begin late. If it begins after twice that time,
/// .NET Core 3.1 checks only after ten minutes, and newer ones after five seconds
/// (`ProfilingAPIDetach::SleepWhileProfilerEvacuates`, profdetach.cpp).
const LATE_DETACH_EXPECTATION: u32 = 5000;
/// Runnable threads for each processor up to which a thread of the runtime begins soon.
const RUNNABLE_SOON: f64 = 4.0;
/// How often a suspension is requested while a collection holds the runtime, and the pause between,
/// nanoseconds.
const SUSPEND_TRIES: u32 = 40;
const SUSPEND_PAUSE: u64 = 500_000;
/// How often a suspension is requested for lookups, which can wait.
const SUSPEND_LOOKUP_TRIES: u32 = 4;
/// How long the end of the process waits for a suspension of ours, nanoseconds.
const CLOSE_LIMIT: Nanos = 1_000_000_000;
/// Most lookups in one suspension, which takes less than a millisecond.
const SUSPENDED_LOOKUPS: usize = 32;

/// What to tell the runtime of the time until no callback runs any more, in milliseconds.
/// `runnable` is only asked where it matters.
fn detach_expectation(
    major: u16,
    quota: Option<u32>,
    runnable: impl FnOnce() -> Option<f64>,
) -> u32 {
    // Newer ones were never seen to wait for longer than the five seconds.
    if major >= 6 {
        return DETACH_EXPECTATION;
    }
    if quota.is_some_and(|quota| quota < 1000) {
        return LATE_DETACH_EXPECTATION;
    }
    let Some(runnable) = runnable() else { return LATE_DETACH_EXPECTATION };
    if runnable <= RUNNABLE_SOON {
        return DETACH_EXPECTATION;
    }
    let longer = f64::from(DETACH_EXPECTATION) * runnable;
    (longer as u32).min(LATE_DETACH_EXPECTATION)
}

/// The runtime of this process, .NET Core 3.1 or newer.
#[derive(Debug)]
pub struct Runtime {
    info: ProfilerInfo,
    version: [u16; 4],
    /// Held while one of our threads has the runtime suspended. The runtime has one flag for
    /// "stopped by the profiler" and sets it before it waits for its turn. If two threads ask at
    /// once, the second cannot resume the runtime (`ProfToEEInterfaceImpl::SuspendRuntime` and
    /// `ResumeRuntime`, src/coreclr/vm/proftoeeinterfaceimpl.cpp). Between the agents of several
    /// recordings a [`Turn`] does the same.
    stopping: Mutex<()>,
    /// The process ends: the runtime is not suspended any more.
    closed: AtomicBool,
    unloads: Unloads,
    code_map: CodeMap,
    /// When a session began there were modules that can be unloaded.
    has_collectible: AtomicBool,
    ids: IdTable,
    names: NameResolver,
}

/// A method's native code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeCode {
    /// The function.
    pub function: FunctionId,
    /// Which ReJIT version.
    pub rejit: ReJitId,
    /// Start and length, the entry first.
    pub ranges: Vec<(u64, u32)>,
    /// Native offset from the entry and IL offset, ascending, special IL offsets left out.
    pub il_map: Vec<(u32, u32)>,
}

/// What became of lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// Whether they were made: the runtime may not be suspended, or stay suspended, for too long.
    pub done: bool,
    /// For how long the runtime was suspended for them, nanoseconds; 0 if it was not.
    pub stopped: Nanos,
}

impl NativeCode {
    fn contains(&self, ip: u64) -> bool {
        self.ranges.iter().any(|&(start, length)| ip >= start && ip - start < u64::from(length))
    }
}

/// A suspension of the runtime, which lasts until this is dropped.
#[derive(Debug)]
pub struct Suspended<'a> {
    // Dropped in this order: the runtime resumes before another thread may suspend it.
    world: SuspendedRuntime<'a>,
    _turn: Turn,
    _stopping: MutexGuard<'a, ()>,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// At the root.
    Whole,
    /// At the limit of frames, or where the runtime could not continue.
    Truncated,
    /// The thread has no managed frames.
    Nothing,
    /// The runtime could not walk it.
    Failed,
}

impl Runtime {
    /// Takes what the runtime hands to a profiler.
    ///
    /// # Errors
    /// [`Error::NeedsRuntime`] before .NET Core 3.0, which has no way to suspend.
    pub fn new(info: &ProfilerInfo) -> Result<Self> {
        info.info10()?;
        let version = match info.runtime_information()?.version {
            // What .NET Framework 4 says of itself, and .NET Core up to 3.1 too.
            [4, 0, 30319, _] => version_of_core_3(),
            version => version,
        };
        Ok(Self {
            version,
            names: NameResolver::new(info.clone()),
            info: info.clone(),
            stopping: Mutex::default(),
            closed: AtomicBool::default(),
            unloads: Unloads::default(),
            code_map: CodeMap::default(),
            has_collectible: AtomicBool::default(),
            ids: IdTable::default(),
        })
    }

    /// The interface itself.
    pub fn info(&self) -> &ProfilerInfo {
        &self.info
    }

    /// Major, minor, build, fix.
    pub fn version(&self) -> [u16; 4] {
        self.version
    }

    /// Asks the runtime to detach the agent. `ProfilerDetachSucceeded` comes when no callback runs
    /// any more. `quota` is the CPU time that the process's control groups allow, in thousandths of
    /// a processor.
    ///
    /// # Errors
    /// As of [`ProfilerInfo::request_detach`].
    pub fn request_detach(&self, quota: Option<u32>) -> Result<()> {
        let runnable = crate::os::load::runnable_per_processor;
        self.info.request_detach(detach_expectation(self.version[0], quota, runnable))
    }

    /// Every managed thread that the runtime knows at this moment.
    ///
    /// # Errors
    /// The runtime does not list them at this moment.
    pub fn threads(&self) -> Result<Vec<ThreadId>> {
        Ok(self.info.threads()?.filter_map(|thread| thread.ok()?.non_null()).collect())
    }

    /// Thread id of the operating system, where the thread has one.
    pub fn os_tid(&self, thread: ThreadId) -> Option<u32> {
        self.info.thread_os_id(thread).ok().flatten().filter(|&tid| tid != 0)
    }

    /// Modules that come and go.
    pub fn unloads(&self) -> &Unloads {
        &self.unloads
    }

    /// Lookups of code, and suspensions.
    pub fn code_map(&self) -> &CodeMap {
        &self.code_map
    }

    /// Numbers of what callbacks have met.
    pub fn ids(&self) -> &IdTable {
        &self.ids
    }

    /// Names. To be asked in a [hold](Unloads::hold_all), or in a callback about what is certainly
    /// loaded.
    pub fn names(&self) -> &NameResolver {
        &self.names
    }

    /// The callback `ModuleUnloadStarted`: when this returns, nothing asks about the module any
    /// more.
    pub fn module_unloading(&self, module: ModuleId) {
        self.unloads.module_unloading(module, || {
            self.ids.before_unload(&self.names, &self.unloads, module);
            self.names.forget_module(module);
        });
    }

    /// The callback `DynamicMethodUnloaded`.
    pub fn function_goes(&self, function: FunctionId) {
        // Before the wait, so that no question that begins meanwhile is about it.
        self.ids.function_freed(function);
        self.unloads.function_goes(function);
    }

    /// Hands over, for each of these addresses, the managed code that holds it: of all versions of
    /// the function the one that does. An address in code that was handed over in the same call is
    /// left out. Until `then` has returned, the module of the code is there. Code of modules that
    /// were unloaded is none.
    ///
    /// At most [`Self::lookups_at_a_time`]: a program that unloads waits. The end of a suspension
    /// is waited for until `limit` has passed, nanoseconds.
    pub fn with_code_at(
        &self,
        ips: &[u64],
        limit: Nanos,
        mut then: impl FnMut(u64, Option<NativeCode>),
    ) -> LookedUp {
        if let Some(done) = self.with_code_of_running(ips, limit, &mut then) {
            return LookedUp { done, stopped: 0 };
        }
        let mut stopped: Nanos = 0;
        for _ in 0..SUSPEND_LOOKUP_TRIES {
            let begun = clock::monotonic();
            // A suspension while a module goes would be for nothing, and where no memory is left
            // the program would wait with us for some.
            if self.unloads.may_ask()
                && !heap_memory::is_exhausted()
                && let Ok(suspended) = self.suspend()
            {
                // Not waited for: who asks meanwhile may wait for the end of the suspension.
                let asking = self.unloads.try_asking();
                let found = asking.as_ref().map(|_| self.look_up_each(ips));
                drop(suspended);
                stopped = stopped.saturating_add(clock::monotonic().saturating_sub(begun));
                if let Some(found) = found {
                    found.into_iter().for_each(|(ip, code)| then(ip, code));
                    return LookedUp { done: true, stopped };
                }
            }
            clock::sleep_until(clock::monotonic() + SUSPEND_PAUSE);
        }
        LookedUp { done: false, stopped }
    }

    /// As [`Self::with_code_at`], while the runtime runs: whether they were looked up; `None` where
    /// that is not safe.
    ///
    /// The end of a suspension is never waited for in a hold: a thread of the program that waits
    /// for the hold may be one that the suspension waits for.
    fn with_code_of_running(
        &self,
        ips: &[u64],
        limit: Nanos,
        then: &mut dyn FnMut(u64, Option<NativeCode>),
    ) -> Option<bool> {
        let deadline = clock::monotonic() + limit;
        while !self.removes_while_running() {
            if self.code_map.is_hopeless() || self.closed.load(SeqCst) {
                return Some(false);
            }
            {
                let _asking = self.unloads.asking();
                // A module may have begun to go just before.
                if self.removes_while_running() {
                    return None;
                }
                if let Some(found) = self.code_map.try_look_up(|| self.look_up_each(ips)) {
                    found.into_iter().for_each(|(ip, code)| then(ip, code));
                    return Some(true);
                }
            }
            if clock::monotonic() > deadline {
                if limit >= CodeMap::LOOKUP_LIMIT {
                    self.code_map.takes_long();
                }
                return Some(false);
            }
            clock::sleep_until(clock::monotonic() + HOLD_PAUSE);
        }
        None
    }

    /// How many addresses may be looked up in a call. As many as make a suspension worthwhile if
    /// there is one.
    pub fn lookups_at_a_time(&self) -> usize {
        if self.removes_while_running() { SUSPENDED_LOOKUPS } else { 1 }
    }

    fn look_up_each(&self, ips: &[u64]) -> Vec<(u64, Option<NativeCode>)> {
        let mut found: Vec<(u64, Option<NativeCode>)> = Vec::with_capacity(ips.len());
        for &ip in ips {
            let is_found = |(_, code): &(u64, Option<NativeCode>)| {
                code.as_ref().is_some_and(|c| c.contains(ip))
            };
            if !found.iter().any(is_found) {
                found.push((ip, self.code_at(ip)));
            }
        }
        found
    }

    /// Whether code may be removed from the runtime's map while the runtime is not suspended, so
    /// that lookups need a suspension: from .NET 8 on, once an assembly was unloaded. Its stubs are
    /// removed when the next collection of generation 2 has ended, on the finalizer's thread in
    /// cooperative mode, so that it is not under way in a suspension
    /// (`SystemDomain::ProcessDelayedUnloadLoaderAllocators`, src/coreclr/vm/appdomain.cpp, and
    /// `ExecutionManager::DeleteRange`, codeman.cpp).
    pub fn removes_while_running(&self) -> bool {
        self.version[0] >= 8 && (self.unloads.went() > 0 || self.has_collectible.load(SeqCst))
    }

    /// A session begins: unloading was not reported before. Where no module can be unloaded,
    /// probably none was.
    pub fn session_begins(&self) {
        let is_collectible = |module| {
            let info = self.info.module_info(module);
            info.is_ok_and(|info| info.flags.0 & COR_PRF_MODULE_FLAGS::COLLECTIBLE.0 != 0)
        };
        let has_collectible = self.unloads.hold_all(|| {
            let modules = self.info.modules().into_iter().flatten();
            modules.filter_map(|module| module.ok()?.non_null()).any(is_collectible)
        });
        self.has_collectible.fetch_or(has_collectible, SeqCst);
    }

    /// Whether an address is in code of a module that was unloaded. What this asks looks no further
    /// than the method itself, which stays as long as its code. Dynamic methods are not found so;
    /// what they belong to lives as long as they do. Most processes never unload anything.
    fn is_of_unloaded(&self, address: usize) -> bool {
        self.unloads.any_gone()
            && self.info.function_from_ip(address).is_ok_and(|function| {
                let info = self.info.function_info(function);
                info.is_ok_and(|of| self.unloads.is_gone(of.module))
            })
    }

    fn code_at(&self, ip: u64) -> Option<NativeCode> {
        let address = usize::try_from(ip).ok()?;
        if self.is_of_unloaded(address) {
            return None;
        }
        let found = self.info.function_from_ip3(address).ok()?;
        let (function, rejit) = (found.function, found.rejit);
        let holds = |ranges: &Vec<CodeRange>| ranges.iter().any(|range| range.contains(address));
        let starts = self.info.native_code_start_addresses(function, rejit).unwrap_or_default();
        // The newest version comes last, and is the one that runs most often.
        let versions = starts.iter().rev().filter_map(|&start| self.info.code_info4(start).ok());
        // Functions whose versions are not listed, such as dynamic ones, have one.
        let first = || self.info.code_info3(function, rejit).ok().filter(holds);
        let ranges = versions.into_iter().find(holds).or_else(first)?;
        let il_map = self.il_map(ranges.first()?.start);
        let ranges =
            ranges.iter().map(|range| Some((range.start as u64, u32::try_from(range.size).ok()?)));
        Some(NativeCode { function, rejit, ranges: ranges.collect::<Option<_>>()?, il_map })
    }

    fn il_map(&self, start: usize) -> Vec<(u32, u32)> {
        let map = self.info.il_to_native_mapping3(start).unwrap_or_default();
        let pairs = map.into_iter().filter_map(|entry| match entry.il {
            IlOffset::At(offset) => Some((entry.native_start, offset)),
            IlOffset::NoMapping | IlOffset::Prolog | IlOffset::Epilog => None,
        });
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Address of a module's image (0 for none), its path or name, and the name of its assembly.
    pub fn module(&self, module: ModuleId) -> (u64, String, String) {
        let Ok(info) = self.info.module_info(module) else {
            return (0, String::new(), String::new());
        };
        let assembly = info.assembly.and_then(|assembly| self.info.assembly_info(assembly).ok());
        (
            info.base.unwrap_or_default() as u64,
            info.name,
            assembly.map(|a| a.name).unwrap_or_default(),
        )
    }

    /// Module version id of a module's metadata, as its bytes lie in memory; zeros if it is
    /// unavailable.
    pub fn mvid(&self, module: ModuleId) -> [u8; 16] {
        let scope = self.info.module_metadata(module).and_then(|metadata| metadata.scope_props());
        let Ok(scope) = scope else { return [0; 16] };
        let guid = scope.mvid;
        let mut bytes = [0; 16];
        let parts = guid.data1.to_le_bytes().into_iter().chain(guid.data2.to_le_bytes());
        let parts = parts.chain(guid.data3.to_le_bytes()).chain(guid.data4);
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        bytes
    }

    /// Class of an object that the running callback was given.
    pub fn class_of(&self, object: RawObjectId) -> Option<ClassId> {
        let mut class = ClassId::NULL;
        // SAFETY: the runtime only reads the object, which a callback holds still; the answer goes
        // to a local.
        unsafe { self.info.raw().GetClassFromObject(object, &mut class) }.ok().ok()?;
        class.non_null()
    }

    /// Suspends the runtime. While a collection holds it, this waits for about 20 ms at most.
    ///
    /// # Errors
    /// As of [`ProfilerInfo::suspend_runtime`].
    pub fn suspend(&self) -> Result<Suspended<'_>> {
        let stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tries = 1;
        loop {
            if self.closed.load(SeqCst) {
                return Err(Error::Hr {
                    call: "SuspendRuntime",
                    hresult: CORPROF_E_SUSPENSION_IN_PROGRESS,
                });
            }
            let refused = match Turn::take() {
                Some(turn) => match self.info.suspend_runtime() {
                    Ok(world) => {
                        self.code_map.suspended_for_us();
                        return Ok(Suspended { world, _turn: turn, _stopping: stopping });
                    }
                    Err(error) => error,
                },
                None => {
                    Error::Hr { call: "SuspendRuntime", hresult: CORPROF_E_SUSPENSION_IN_PROGRESS }
                }
            };
            let is_passing =
                matches!(refused, Error::Hr { hresult: CORPROF_E_SUSPENSION_IN_PROGRESS, .. });
            if !is_passing || tries >= SUSPEND_TRIES {
                return Err(refused);
            }
            tries += 1;
            clock::sleep_until(clock::monotonic() + SUSPEND_PAUSE);
        }
    }

    /// The process ends: the runtime is not suspended any more when this returns. .NET Core 3.1
    /// resumes nothing from then on (`PROFILER_TO_CLR_ENTRYPOINT_SYNC_EX` in `ResumeRuntime`,
    /// src/vm/proftoeeinterfaceimpl.cpp, after `TerminateProfiling` in ceemain.cpp), and would wait
    /// for ever for a suspension of ours. To be called in the callback `Shutdown`, whose thread
    /// holds up no suspension.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        let deadline = clock::monotonic() + CLOSE_LIMIT;
        while matches!(self.stopping.try_lock(), Err(TryLockError::WouldBlock))
            && clock::monotonic() < deadline
        {
            clock::sleep_until(clock::monotonic() + HOLD_PAUSE);
        }
    }

    /// Whether the process ends, see [`Self::close`].
    pub fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// The calling thread's managed frames, leaf first, added to `ips` until that holds `most`.
    pub fn walk_own(&self, ips: &mut Vec<u64>, most: usize) -> Walked {
        walk(&self.info, None, ips, most)
    }
}

impl Suspended<'_> {
    /// A thread's managed frames, leaf first, added to `ips` until that holds `most`. A thread that
    /// is not in the set of live ones is not walked: it may have been freed.
    pub fn walk(
        &self,
        live: &LiveThreads,
        thread: ThreadId,
        ips: &mut Vec<u64>,
        most: usize,
    ) -> Walked {
        if live.contains(thread) {
            walk(self.world.info(), Some(thread), ips, most)
        } else {
            Walked::Failed
        }
    }
}

fn walk(info: &ProfilerInfo, thread: Option<ThreadId>, ips: &mut Vec<u64>, most: usize) -> Walked {
    let before = ips.len();
    let mut cut = false;
    let result = info.stack_snapshot(thread, SnapshotFlags::DEFAULT, None, |frame| {
        // A run of native frames has no function.
        if frame.function.is_some() {
            if ips.len() >= most {
                cut = true;
                return ControlFlow::Break(());
            }
            ips.push(frame.ip as u64);
        }
        ControlFlow::Continue(())
    });
    match (ips.len() > before, cut || result.is_err()) {
        (true, false) => Walked::Whole,
        // Ended half-way by an error: what is known is kept, and said to be cut.
        (true, true) => Walked::Truncated,
        (false, false) => Walked::Nothing,
        (false, true) => Walked::Failed,
    }
}

/// Version of a .NET Core 3 that does not tell it itself: the name of the folder that it was loaded
/// from. Only 3.1 is left of those that have what [`Runtime::new`] asks for.
fn version_of_core_3() -> [u16; 4] {
    let library =
        maps::mappings().into_iter().find(|mapping| mapping.path.ends_with("/libcoreclr.so"));
    let folder = library.as_ref().and_then(|mapping| mapping.path.rsplit('/').nth(1));
    folder.and_then(parse_version).unwrap_or([3, 1, 0, 0])
}

fn parse_version(text: &str) -> Option<[u16; 4]> {
    let mut version = [0; 4];
    let mut parts = text.split('-').next()?.split('.');
    // Three numbers, as in 3.1.23.
    for number in version.iter_mut().take(3) {
        *number = parts.next()?.parse().ok()?;
    }
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_thread_begins_late_the_runtime_is_given_longer() {
        let of = |major, runnable, quota| detach_expectation(major, quota, || runnable);
        assert_eq!(of(9, None, Some(50)), 300);
        assert_eq!(of(3, Some(1.5), None), 300);
        assert_eq!(of(3, Some(1.5), Some(2000)), 300);
        assert_eq!(of(3, Some(1.5), Some(50)), 5000);
        assert_eq!(of(3, Some(5.0), None), 1500);
        assert_eq!(of(3, Some(90.0), None), 5000);
        assert_eq!(of(3, None, None), 5000);
        detach_expectation(9, None, || unreachable!("newer runtimes need not know"));
    }

    #[test]
    fn folder_names_are_versions_or_not() {
        assert_eq!(parse_version("3.1.23"), Some([3, 1, 23, 0]));
        assert_eq!(parse_version("3.1.0-preview"), Some([3, 1, 0, 0]));
        assert_eq!(parse_version("publish"), None);
        assert_eq!(parse_version("3.1"), None);
    }
}
