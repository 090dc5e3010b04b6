//! Instrumentation in a session: rules come in, methods are rewritten on a thread of its own, and
//! what becomes of them goes out.

pub mod arguments;
pub mod individual_calls;
pub mod jit_activity;
pub mod quiescence;
pub mod reader;
pub mod traced;

use crate::engines::probes::quiescence::{Done, QuiescencePoint};
use crate::host::counters::Counters;
use crate::host::runtime::Runtime;
use crate::host::{Host, Phase, lock};
use crate::os::clock;
use crate::os::threads::OwnThread;
use corprof::ids::FunctionId;
use corprof::ids::ModuleId;
use corprof::metadata::token::MethodDef;
use instrument::{Change, Manager, Method, Rewritten, State, VerifyPolicy};
use profilers::trace::{Rewriting, tells_il};
use rules::{Action, RuleSet};
use std::collections::VecDeque;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, SeqCst},
};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};
use wire::{Il, Nanos};

/// How long the load of a module waits at most for its methods to be rewritten, before any of them
/// is called, while nothing happens: whoever does that may need something that the loading thread
/// holds. A large module with all of its methods takes seconds.
const LOAD_LIMIT: Nanos = 250_000_000;
/// How long after the begin of a session by attach a compilation may still inline what was allowed
/// to it before: one that began unseen.
const UNSEEN_LIMIT: Nanos = 300_000_000;
/// How long compilations that have begun are waited for at most, see
/// [`Instrumentation::may_inline`]. None takes nearly as long.
const COMPILE_LIMIT: Nanos = 5_000_000_000;
/// How often it is looked for bodies that could not be compiled.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long no module must have been loaded before bodies are proved that nobody waits for: a
/// program that starts needs the processors itself.
const QUIET: Duration = Duration::from_secs(1);
/// Most bytes of bodies that wait to be written; what is rewritten meanwhile waits, too,
const MOST_UNTOLD: usize = 4 << 20;
/// but no longer than this for each body.
const ROOM_LIMIT: Nanos = 1_000_000_000;
/// What is held for an event beside the bodies themselves, about.
const EVENT_SIZE: usize = 128;

/// Knows what is rewritten. There is one for the life of the process, as rewritten methods may
/// outlive a session that was cut.
static MANAGER: OnceLock<Manager> = OnceLock::new();

/// The one manager of this process, once there was a session that may rewrite.
pub fn manager() -> Option<&'static Manager> {
    MANAGER.get()
}

/// A runtime that has accepted to rewrite methods.
pub fn allow(runtime: &Runtime) {
    MANAGER.get_or_init(|| {
        // Without it no texts are shown.
        if let Ok(layout) = runtime.info().string_layout() {
            traced::set_text_layout(layout);
        }
        Manager::new(runtime.info().clone(), runtime.version()[0], traced::probes())
    });
}

fn inlines_blindly(host: &Host) -> bool {
    host.runtime.version()[0] < 9
}

#[derive(Debug)]
enum Job {
    /// Apply rules to all modules that exist, and to those that are loaded later. A dry run only
    /// reports what would happen.
    Apply { rules: Arc<RuleSet>, dry: bool },
    /// A module was loaded.
    Module(ModuleId),
    /// The same for one whose methods are instrumented when they are called for the first time.
    Prepare(ModuleId),
    /// Rules end: places in the set.
    Expire(Vec<usize>),
}

/// Something that happened to a method, for those who want to see it.
#[derive(Debug)]
pub struct Told {
    /// When.
    pub time: Nanos,
    /// Module of the method.
    pub module: ModuleId,
    /// The method.
    pub method: MethodDef,
    /// What.
    pub what: What,
}

/// What happened to a method.
#[derive(Debug)]
pub enum What {
    /// It has a new body: name of the rule, slot, the bodies before and after or why they are left
    /// out.
    Rewritten(Arc<str>, u32, Result<(Il, Il), String>),
    /// The new body was compiled, or why it could not be.
    Recompiled(Option<String>),
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Backlog {
    events: VecDeque<Told>,
    bytes: usize,
    /// Compilations for which there was no room.
    lost: u64,
}

/// What a session has rewritten.
#[derive(Debug, Default)]
pub struct Instrumentation {
    jobs: Mutex<VecDeque<Job>>,
    wake: Condvar,
    /// Jobs that were handed over, and those that are done.
    given: AtomicU64,
    done: AtomicU64,
    /// Jobs for whose sake nothing may be inlined, where [that
    /// matters](Instrumentation::may_inline).
    asking: AtomicUsize,
    /// Whether compilations are waited for: who compiles must not wait for us.
    waits_for_compilers: AtomicBool,
    /// Whether methods are instrumented when they are called for the first time.
    by_first_calls: AtomicBool,
    /// Rules for modules that come.
    rules: Mutex<Option<Arc<RuleSet>>>,
    changes: Mutex<Vec<Change>>,
    backlog: Mutex<Backlog>,
    /// Whether the rules have been applied to all modules that there were.
    applied: AtomicBool,
    quiescence: Mutex<QuiescencePoint>,
    worker: Mutex<Option<OwnThread>>,
}

impl Instrumentation {
    /// Applies rules.
    pub fn apply(&self, rules: RuleSet, rewriting: Rewriting) {
        let rules = Arc::new(rules);
        if let Rewriting::On { each_call } = rewriting {
            *lock(&self.rules) = Some(Arc::clone(&rules));
            traced::switch_on(each_call);
        }
        self.give(Job::Apply { rules, dry: rewriting == Rewriting::Dry });
    }

    /// Ends rules: their methods get their original bodies back.
    pub fn expire(&self, rules: Vec<usize>) {
        self.give(Job::Expire(rules));
    }

    /// The rules, once there are some that are applied.
    pub fn rules(&self) -> Option<Arc<RuleSet>> {
        lock(&self.rules).clone()
    }

    /// A module was loaded. Its load waits a moment until its methods are rewritten.
    pub fn module_loaded(&self, module: ModuleId) {
        if lock(&self.rules).is_none() {
            return;
        }
        if self.is_by_first_calls() {
            if let Some(manager) = manager() {
                manager.open_for_first_calls(module);
            }
            self.give(Job::Prepare(module));
            return;
        }
        self.asking.fetch_add(1, SeqCst);
        let number = self.give(Job::Module(module));
        self.wait(number, || self.waits_for_compilers.load(SeqCst));
    }

    /// Whether methods are instrumented when they are called for the first time: code that was
    /// compiled before the process began must not be used then.
    pub fn is_by_first_calls(&self) -> bool {
        self.by_first_calls.load(SeqCst)
    }

    /// The runtime is about to compile a method. `went` is how many modules have begun to go
    /// ([`Unloads::went`](crate::host::unloads::Unloads::went)).
    pub fn first_call(&self, function: FunctionId, went: u64) {
        if let Some(manager) = manager().filter(|_| self.is_by_first_calls()) {
            let change = manager.first_call(function, went, limit);
            lock(&self.changes).extend(change);
        }
    }

    /// From now on methods are instrumented by these rules when they are called for the first time,
    /// or no more.
    fn set_first_calls(&self, manager: &Manager, rules: Option<Arc<RuleSet>>) {
        let is_by_first_calls = rules.is_some();
        manager.set_first_calls(rules);
        self.by_first_calls.store(is_by_first_calls, SeqCst);
    }

    /// Waits a moment until all is done that was given so far.
    pub fn wait_done(&self) {
        self.wait(self.given.load(SeqCst), || false);
    }

    fn wait(&self, number: u64, gives_up: impl Fn() -> bool) {
        let progress = || manager().map_or(0, Manager::progress);
        let (mut deadline, mut seen) = (clock::monotonic() + LOAD_LIMIT, progress());
        while self.done.load(Acquire) < number && clock::monotonic() < deadline && !gives_up() {
            clock::sleep_until(clock::monotonic() + 50_000);
            let now = progress();
            if now != seen {
                (deadline, seen) = (clock::monotonic() + LOAD_LIMIT, now);
            }
        }
    }

    fn give(&self, job: Job) -> u64 {
        let mut jobs = lock(&self.jobs);
        jobs.push_back(job);
        let number = self.given.fetch_add(1, SeqCst) + 1;
        drop(jobs);
        self.wake.notify_all();
        number
    }

    /// Methods will be asked for: from now on none is inlined, and none that is being compiled was
    /// allowed to be, where [that matters](Instrumentation::may_inline).
    fn begin_asking(&self, host: &Host) {
        let inlines_blindly = inlines_blindly(host);
        self.waits_for_compilers.store(inlines_blindly, SeqCst);
        if inlines_blindly && !host.config.launched {
            clock::sleep_until(host.entered + UNSEEN_LIMIT);
        }
        self.asking.fetch_add(1, SeqCst);
        if inlines_blindly {
            jit_activity::wait(COMPILE_LIMIT);
        }
        self.waits_for_compilers.store(false, SeqCst);
    }

    /// What has become of methods since the last time.
    pub fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut *lock(&self.changes))
    }

    /// Takes what has happened to methods since the last time, where it is to be reported. Call
    /// this after [`Self::take_changes`].
    pub fn take_told(&self) -> VecDeque<Told> {
        let mut backlog = lock(&self.backlog);
        backlog.bytes = 0;
        std::mem::take(&mut backlog.events)
    }

    /// Number of compilations that could not be reported.
    pub fn lost(&self) -> u64 {
        lock(&self.backlog).lost
    }

    /// Bytes of what waits to be written, about.
    pub fn memory(&self) -> usize {
        lock(&self.backlog).bytes
    }

    /// Whether so much more may wait. What is larger than all the room may, if it is alone.
    fn has_room(&self, bytes: usize) -> bool {
        let held = lock(&self.backlog).bytes;
        held == 0 || held + bytes <= MOST_UNTOLD
    }

    fn tell(&self, event: Told, bytes: usize) {
        let mut backlog = lock(&self.backlog);
        backlog.bytes += bytes;
        backlog.events.push_back(event);
    }

    /// The runtime has compiled a new body, or could not. Called in a callback: waits for nobody.
    pub fn recompiled(&self, manager: &Manager, function: FunctionId, failed: Option<String>) {
        if !self.has_room(EVENT_SIZE) {
            lock(&self.backlog).lost += 1;
        } else if let Some((module, method)) = manager.method_of(function) {
            let event =
                Told { time: clock::monotonic(), module, method, what: What::Recompiled(failed) };
            self.tell(event, EVENT_SIZE);
        }
    }

    /// Whether the rules have been applied since the last time that it was asked.
    pub fn take_applied(&self) -> bool {
        self.applied.swap(false, SeqCst)
    }

    /// Keeps the working thread for [`Self::stop`].
    pub fn keep(&self, worker: OwnThread) {
        *lock(&self.worker) = Some(worker);
    }

    /// Ends the worker thread, which ends when the session stops, and reverts all methods to their
    /// original bodies, unless the process ends.
    pub fn stop(&self, process_ends: bool) {
        *lock(&self.rules) = None;
        self.wake.notify_all();
        let worker = lock(&self.worker).take();
        let Some(worker) = worker else { return };
        // A runtime that ends may not answer any more what the thread has asked.
        if process_ends {
            return;
        }
        worker.join();
        if let Some(manager) = manager() {
            manager.set_first_calls(None);
            let changes = manager.revert(|_| true);
            lock(&self.changes).extend(changes);
            // Until now nothing could be inlined that is not as it was.
            self.by_first_calls.store(false, SeqCst);
        }
        // What has not begun will not: from now on no method is asked for.
        self.done.store(self.given.load(SeqCst), SeqCst);
        self.asking.store(0, SeqCst);
        traced::switch_off();
    }
}

impl Instrumentation {
    /// Whether methods may be inlined now.
    ///
    /// A compiler that has inlined a method reports that. Before .NET 9 the runtime then checks
    /// whether a rewrite of the method was requested since the compiler was allowed to inline it.
    /// If so, it requests a rewrite of the caller as well, in a way that is faulty
    /// (`CEEInfo::reportInliningDecision`, src/coreclr/vm/jitinterface.cpp). .NET Core 3.1 uses
    /// another number of the caller's module instead of the one that it needs, and reads through a
    /// null pointer. .NET 5 to 8 make the request while they hold the lock of code versions.
    /// Another thread that makes a request waits for this lock, and holds the lock that they wait
    /// for: the process hangs forever (dotnet/runtime#97771; observed in 8). So on these versions
    /// nothing is inlined as long as there are methods to be requested, and none is requested until
    /// the compilations from before are done.
    ///
    /// A method that is [instrumented at its first call](Self::first_call) must not have
    /// been inlined before.
    pub fn may_inline(&self, host: &Host) -> bool {
        let is_safe = !inlines_blindly(host) || self.asking.load(SeqCst) == 0;
        is_safe && !self.is_by_first_calls()
    }

    /// The working thread of a session.
    pub fn run(&self, host: &Host) {
        let Some(manager) = manager() else { return };
        let (mut pause, mut last_job) = (LOOK_INTERVAL, Instant::now());
        while host.phase() != Phase::Stopping {
            let job = {
                let jobs = lock(&self.jobs);
                let waited = self.wake.wait_timeout_while(jobs, pause, |jobs| jobs.is_empty());
                let mut jobs =
                    waited.map_or_else(|poisoned| poisoned.into_inner().0, |(jobs, _)| jobs);
                jobs.pop_front()
            };
            manager.map_first_calls(&|went, map| {
                host.runtime.unloads().hold_since(went, map);
            });
            let mut changes = manager.take_failures();
            pause = LOOK_INTERVAL;
            if let Some(job) = job {
                changes.extend(self.work(host, manager, job));
                self.done.fetch_add(1, SeqCst);
                last_job = Instant::now();
            } else if last_job.elapsed() >= QUIET
                && manager.verify_pending(|module, prove| {
                    host.runtime.unloads().hold(module, prove).is_some()
                })
            {
                pause = Duration::ZERO;
            }
            if !changes.is_empty() {
                lock(&self.changes).append(&mut changes);
                host.wake.wake();
            }
        }
    }

    fn work(&self, host: &Host, manager: &Manager, job: Job) -> Vec<Change> {
        let mut changes = Vec::new();
        match job {
            Job::Apply { rules, dry } => {
                // A process that has not begun has no modules.
                let began = !host.config.launched || host.go.load(SeqCst);
                let by_first_calls = !began && !dry && is_by_first_calls(host, &rules);
                self.set_first_calls(manager, by_first_calls.then(|| Arc::clone(&rules)));
                changes = manager.revert(|_| true);
                // Methods of modules that come cannot have been inlined before: for those nobody is
                // waited for.
                if !dry {
                    self.begin_asking(host);
                }
                let proof = if dry { VerifyPolicy::Dry } else { VerifyPolicy::First };
                let modules =
                    began.then(|| host.runtime.info().modules()).into_iter().flatten().flatten();
                for module in modules.filter_map(|module| module.ok()?.non_null()) {
                    changes.extend(self.one(host, manager, module, &rules, proof));
                }
                if !dry {
                    self.asking.fetch_sub(1, SeqCst);
                }
                lock(&self.changes).append(&mut changes);
                self.applied.store(true, SeqCst);
                host.wake.wake();
            }
            Job::Module(module) => {
                if let Some(rules) = self.rules() {
                    // Those who want to see new bodies want to see all of them.
                    let proof = if tells_il(&host.config) {
                        VerifyPolicy::First
                    } else {
                        VerifyPolicy::Later
                    };
                    changes = self.one(host, manager, module, &rules, proof);
                }
                self.asking.fetch_sub(1, SeqCst);
            }
            Job::Prepare(module) => {
                host.runtime.unloads().hold(module, || manager.prepare_first_calls(module));
            }
            Job::Expire(expired) => {
                changes = manager.expire(&expired);
            }
        }
        lock(&self.quiescence).close();
        changes
    }

    fn one(
        &self,
        host: &Host,
        manager: &Manager,
        module: ModuleId,
        rules: &RuleSet,
        proof: VerifyPolicy,
    ) -> Vec<Change> {
        let see = |rewritten: Rewritten<'_>| self.tell_rewritten(host, &rewritten);
        let see = tells_il(&host.config).then_some(&see as &dyn Fn(Rewritten<'_>));
        // A module that goes waits until we are through with a method.
        let unloads = host.runtime.unloads();
        let is_over = || host.phase() == Phase::Stopping || !unloads.let_pass(module);
        let still = |open: &mut dyn FnMut()| {
            let found = lock(&self.quiescence).wait(&host.runtime, open);
            let counters = &host.counters;
            Counters::add(&counters.extended, u64::from(found.done != Done::No));
            Counters::add(&counters.extended_restlessly, u64::from(found.done == Done::Restlessly));
            Counters::add(&counters.extending, found.stopped);
        };
        let apply = || manager.apply(&[module], rules, proof, see, &is_over, &still);
        let changes = unloads.hold(module, apply).unwrap_or_default();
        changes
            .iter()
            .filter(|change| change.state == State::Requested)
            .for_each(|change| limit(&change.method, rules));
        changes
    }

    /// Keeps the bodies of a method for the writer, and waits a while if that has not come to the
    /// ones before.
    fn tell_rewritten(&self, host: &Host, rewritten: &Rewritten<'_>) {
        let il = |body: &instrument::Body<'_>| {
            let text =
                (body.bytes.len() <= Il::MOST_BYTES).then(|| body.text(Il::MOST_TEXT)).flatten()?;
            Some(Il { bytes: body.bytes.to_vec(), text })
        };
        let bodies = il(&rewritten.before).zip(il(&rewritten.after));
        let bodies = bodies.ok_or_else(|| {
            let (bytes, text) = (Il::MOST_BYTES >> 10, Il::MOST_TEXT >> 10);
            format!("a body is larger than {bytes} KiB, or its text than {text} KiB")
        });
        let size = |il: &Il| il.bytes.len() + il.text.len();
        let bytes =
            EVENT_SIZE + bodies.as_ref().map_or(0, |(before, after)| size(before) + size(after));
        let (bodies, bytes) = match self.waits_for_room(host, bytes) {
            true => (bodies, bytes),
            false => (Err("too many bodies at a time".to_owned()), EVENT_SIZE),
        };
        let (method, rule) = (rewritten.method, Arc::clone(&rewritten.method.rule_name));
        let what = What::Rewritten(rule, method.slot.unwrap_or_default(), bodies);
        let event = Told {
            time: clock::monotonic(),
            module: method.module,
            method: rewritten.body_of,
            what,
        };
        self.tell(event, bytes);
    }

    /// Waits a while for the writer. Whether there is room in the end.
    fn waits_for_room(&self, host: &Host, bytes: usize) -> bool {
        let deadline = clock::monotonic() + ROOM_LIMIT;
        while !self.has_room(bytes) {
            if host.phase() == Phase::Stopping || clock::monotonic() > deadline {
                return false;
            }
            host.wake.wake();
            clock::sleep_until(clock::monotonic() + 1_000_000);
        }
        true
    }
}

/// How many calls of a method are timed, and told.
fn limit(method: &Method, rules: &RuleSet) {
    if let (Some(rule), Some(slot)) = (rules.rules().get(method.rule), method.slot) {
        let slowest = if let Action::Trace { slowest, .. } = rule.action { slowest } else { 0 };
        traced::set_limits(slot, rule.limits.one_in, slowest);
    }
}

/// Whether rules match such a large part of the program that methods are better instrumented one by
/// one, when they are called for the first time. This excludes methods whose new bodies somebody
/// wants to see: instrumentation waits for that reader, and callbacks must not wait. It also
/// excludes runtimes in which methods that are reverted [must not be
/// inlined](Instrumentation::may_inline).
fn is_by_first_calls(host: &Host, rules: &RuleSet) -> bool {
    rules.takes_everything() && !tells_il(&host.config) && !inlines_blindly(host)
}
