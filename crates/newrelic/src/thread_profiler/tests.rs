//! Tests with a fake runtime.

use super::*;
use corprof::ids::FunctionId;
use corprof::info::{Error, Result};
use corprof::metadata::{MethodDef, TypeDef};
use runtime::SUSPENSION_IN_PROGRESS;
use std::collections::{HashMap, HashSet};
use std::ptr::with_exposed_provenance;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;

type Hook = Box<dyn FnMut() + Send>;

/// State of the fake runtime. Function `n` is the method with row `n` of type `n % 100 / 10` of
/// module `n / 100`.
#[derive(Default)]
struct Script {
    threads: Mutex<Vec<(usize, Option<Vec<usize>>)>>,
    /// Unloaded modules: their use is an error.
    unloaded: Mutex<HashSet<usize>>,
    /// Module and row of functions that differ from that rule.
    places: Mutex<HashMap<usize, (usize, u32)>>,
    questions: AtomicU32,
    is_old: AtomicBool,
    refusals: AtomicU32,
    suspended: AtomicBool,
    suspensions: AtomicU32,
    /// Called before the runtime is suspended, in each walk, and after it is resumed.
    before: Mutex<Option<Hook>>,
    during: Mutex<Option<Hook>>,
    after: Mutex<Option<Hook>>,
}

struct Fake(Arc<Script>);

/// Resumes.
struct Standstill(Arc<Script>);

impl Drop for Standstill {
    fn drop(&mut self) {
        assert!(self.0.suspended.swap(false, SeqCst));
        call(&self.0.after);
    }
}

fn call(hook: &Mutex<Option<Hook>>) {
    if let Some(hook) = hook.lock().unwrap().as_mut() {
        hook();
    }
}

fn failure() -> Error {
    Error::Hr { call: "Test", hresult: E_FAIL }
}

const WORKER: ThreadId = ThreadId(99);

impl Runtime for Fake {
    type Suspended<'a> = Standstill;

    fn can_walk(&self) -> bool {
        !self.0.is_old.load(SeqCst)
    }

    fn can_suspend(&self) -> bool {
        true
    }

    fn initialize_current_thread(&self) -> Result<()> {
        Ok(())
    }

    fn current_thread(&self) -> Option<ThreadId> {
        Some(WORKER)
    }

    fn threads(&self) -> Result<Vec<ThreadId>> {
        assert!(!self.0.suspended.load(SeqCst), "lists allocate");
        Ok(self.0.threads.lock().unwrap().iter().map(|(thread, _)| ThreadId(*thread)).collect())
    }

    fn suspend(&self) -> Result<Standstill> {
        call(&self.0.before);
        if self.0.refusals.load(SeqCst) > 0 {
            self.0.refusals.fetch_sub(1, SeqCst);
            return Err(Error::Hr { call: "SuspendRuntime", hresult: SUSPENSION_IN_PROGRESS });
        }
        assert!(!self.0.suspended.swap(true, SeqCst));
        self.0.suspensions.fetch_add(1, SeqCst);
        Ok(Standstill(Arc::clone(&self.0)))
    }

    fn resume(&self, suspended: Standstill) -> Result<()> {
        drop(suspended);
        Ok(())
    }

    fn walk(&self, thread: ThreadId, mut each: impl FnMut(Option<FunctionId>)) -> Result<()> {
        assert!(self.0.suspended.load(SeqCst) && thread != WORKER);
        call(&self.0.during);
        let threads = self.0.threads.lock().unwrap();
        let (_, stack) = threads.iter().find(|(id, _)| *id == thread.0).unwrap();
        let Some(stack) = stack else {
            each(Some(FunctionId(7)));
            return Err(failure());
        };
        stack.iter().for_each(|function| each(FunctionId(*function).non_null()));
        Ok(())
    }

    fn function(&self, function: FunctionId) -> Result<(ModuleId, MethodDef)> {
        assert!(self.0.suspended.load(SeqCst), "the function may be gone");
        let usual = (function.0 / 100, u32::try_from(function.0).unwrap());
        let (module, token) =
            self.0.places.lock().unwrap().get(&function.0).copied().unwrap_or(usual);
        Ok((ModuleId(module), MethodDef::from_raw(0x0600_0000 + token)))
    }

    fn method(&self, module: ModuleId, method: MethodDef) -> Result<(TypeDef, String)> {
        assert!(!self.0.suspended.load(SeqCst), "names allocate");
        assert!(!self.0.unloaded.lock().unwrap().contains(&module.0), "the module is gone");
        self.0.questions.fetch_add(1, SeqCst);
        Ok((TypeDef::from_raw(0x0200_0000 + method.rid() % 100 / 10), format!("M{}", method.rid())))
    }

    fn class(&self, module: ModuleId, class: TypeDef) -> Result<String> {
        assert!(!self.0.unloaded.lock().unwrap().contains(&module.0), "the module is gone");
        self.0.questions.fetch_add(1, SeqCst);
        Ok(format!("C{}.{}", module.0, class.rid()))
    }
}

fn profiler(threads: &[(usize, Option<Vec<usize>>)]) -> (Arc<ThreadProfiler<Fake>>, Arc<Script>) {
    let script = Arc::new(Script::default());
    *script.threads.lock().unwrap() = threads.to_vec();
    (Arc::new(ThreadProfiler::of(Fake(Arc::clone(&script)))), script)
}

/// Reads a profile as the managed agent does: thread, result and functions of each thread.
#[allow(unsafe_code, reason = "the managed agent reads memory, too")]
fn read((threads, count): (usize, i32)) -> Vec<(usize, i32, Vec<usize>)> {
    assert_eq!(threads == 0, count == 0);
    let threads = with_exposed_provenance::<ThreadProfile>(threads);
    let threads = (0..usize::try_from(count).unwrap()).map(|index| {
        // SAFETY: the profile was not released, and has that many threads.
        let thread = unsafe { *threads.add(index) };
        let functions = with_exposed_provenance::<usize>(thread.functions);
        let frames = 0..usize::try_from(thread.frame_count).unwrap();
        // SAFETY: likewise, and the thread that many frames.
        let functions = frames.map(|frame| unsafe { *functions.add(frame) }).collect();
        (thread.thread, thread.hresult, functions)
    });
    threads.collect()
}

#[allow(unsafe_code, reason = "the managed agent reads memory, too")]
fn names(profiler: &ThreadProfiler<Fake>, functions: &[usize]) -> Vec<String> {
    let text = |address: usize| {
        let start = with_exposed_provenance::<u16>(address);
        // SAFETY: the answer is the last one, and its texts end with a zero.
        let units = (0..).map(|index| unsafe { *start.add(index) }).take_while(|unit| *unit != 0);
        String::from_utf16(&units.collect::<Vec<_>>()).unwrap()
    };
    let entries = with_exposed_provenance::<FunctionName>(
        profiler.request_function_names(functions).unwrap(),
    );
    let named = functions.iter().enumerate().map(|(index, function)| {
        // SAFETY: the answer is the last one, and has as many entries as there were functions.
        let entry = unsafe { *entries.add(index) };
        assert_eq!(entry.function, *function);
        format!("{}::{}", text(entry.type_name), text(entry.method_name))
    });
    named.collect()
}

const UNKNOWN: &str = "UnknownClass::UnknownMethod(error)";

#[test]
fn stacks_and_names() {
    let threads = [
        (8, Some(vec![0, 112, 113])),
        (16, None),
        (WORKER.0, None),
        (24, Some(vec![])),
        (32, Some(vec![212, 112])),
    ];
    let (profiler, script) = profiler(&threads);
    let profile = profiler.request_profile().unwrap();
    // Of one that cannot be walked nothing stays, though it has given a frame.
    assert_eq!(
        read(profile),
        [(8, 0, vec![0, 112, 113]), (24, 0, vec![]), (32, 0, vec![212, 112])]
    );
    // Equal tokens in two modules are two types.
    let wanted = ["C1.1::M112", "C1.1::M113", "C2.1::M212", UNKNOWN, UNKNOWN];
    assert_eq!(names(&profiler, &[112, 113, 212, 0, 7]), wanted);
    assert_eq!(script.questions.load(SeqCst), 5);
    assert!(matches!(profiler.request_function_names(&[]), Err(Refusal::InvalidArgument)));

    assert!(matches!(profiler.request_profile(), Err(Refusal::NotReleased)));
    assert_eq!(read(profile).len(), 3);
    profiler.release_profile();
    assert_eq!(read(profiler.request_profile().unwrap()).len(), 3);
    assert_eq!(script.questions.load(SeqCst), 5);

    profiler.shutdown();
    assert_eq!(names(&profiler, &[112]), [UNKNOWN]);
    assert_eq!(read(profiler.request_profile().unwrap()).len(), 3);
    assert_eq!(names(&profiler, &[112]), ["C1.1::M112"]);
    assert_eq!((script.questions.load(SeqCst), script.suspensions.load(SeqCst)), (10, 3));
    assert_eq!(profiler.current_thread(), WORKER.0);
    profiler.shutdown();
    profiler.shutdown();
}

#[test]
fn nothing_need_not_be_released() {
    let (profiler, _) = profiler(&[]);
    assert_eq!(profiler.request_profile().unwrap(), (0, 0));
    assert_eq!(profiler.request_profile().unwrap(), (0, 0));
    profiler.shutdown();
}

#[test]
fn deep_stacks_keep_their_root() {
    let most = abi::MAX_FRAMES;
    let depths = [most - 1, most, most + 1, 2 * most, 3 * most + 5];
    let stack = |depth: usize| (1..=depth).map(|frame| 1000 * frame).collect::<Vec<_>>();
    let threads = depths.map(|depth| (depth, Some(stack(depth))));
    let (profiler, _) = profiler(&threads);
    let profile = profiler.request_profile().unwrap();
    let wanted = depths.map(|depth| {
        let kept = stack(depth).split_off(depth.saturating_sub(most));
        (depth, i32::from(depth > most), kept)
    });
    assert_eq!(read(profile), wanted);
    profiler.shutdown();
}

#[test]
fn threads_that_end_are_not_walked() {
    let (profiler, script) = profiler(&[(8, Some(vec![100])), (16, Some(vec![100]))]);
    let ending = Arc::downgrade(&profiler);
    *script.before.lock().unwrap() =
        Some(Box::new(move || ending.upgrade().unwrap().thread_destroyed(ThreadId(16))));
    assert_eq!(read(profiler.request_profile().unwrap()), [(8, 0, vec![100])]);
    profiler.shutdown();
}

#[test]
fn a_collection_is_waited_for() {
    let (profiler, script) = profiler(&[(8, Some(vec![100]))]);
    script.refusals.store(3, SeqCst);
    assert_eq!(read(profiler.request_profile().unwrap()).len(), 1);
    assert_eq!((script.suspensions.load(SeqCst), script.refusals.load(SeqCst)), (1, 0));
    profiler.shutdown();
}

#[test]
fn a_panic_resumes() {
    let (profiler, script) = profiler(&[(8, Some(vec![100]))]);
    *script.during.lock().unwrap() = Some(Box::new(|| panic!("as the test wants it")));
    assert!(matches!(profiler.request_profile(), Err(Refusal::Panicked)));
    assert!(!script.suspended.load(SeqCst));
    // Nobody waits for a walk that is over.
    profiler.thread_destroyed(ThreadId(8));
    script.during.clear_poison();
    *script.during.lock().unwrap() = None;
    assert_eq!(read(profiler.request_profile().unwrap()).len(), 1);
    assert_eq!(script.suspensions.load(SeqCst), 2);
    profiler.shutdown();
}

#[test]
fn a_shutdown_aborts() {
    let (profiler, script) = profiler(&[(8, Some(vec![100]))]);
    let (walks, is_walking) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    *script.during.lock().unwrap() = Some(Box::new(move || {
        walks.send(()).unwrap();
        may_go.recv().unwrap();
    }));
    thread::scope(|scope| {
        let asking = scope.spawn(|| profiler.request_profile());
        is_walking.recv().unwrap();
        assert!(matches!(profiler.request_profile(), Err(Refusal::NotReleased)));
        let shutdown = scope.spawn(|| profiler.shutdown());
        // The caller returns at once, before the snapshot is complete.
        assert!(matches!(asking.join().unwrap(), Err(Refusal::Aborted)));
        go.send(()).unwrap();
        shutdown.join().unwrap();
    });
    assert!(!script.suspended.load(SeqCst));
    *script.during.lock().unwrap() = None;
    assert_eq!(read(profiler.request_profile().unwrap()).len(), 1);
    profiler.shutdown();
}

#[test]
fn modules_that_are_unloaded_are_left_alone() {
    let (profiler, script) = profiler(&[(8, Some(vec![112, 212]))]);
    let unload = |module: usize| {
        let (unloading, script) = (Arc::downgrade(&profiler), Arc::clone(&script));
        let hook: Hook = Box::new(move || {
            unloading.upgrade().unwrap().module_unload_started(ModuleId(module));
            script.unloaded.lock().unwrap().insert(module);
        });
        Some(hook)
    };
    // Unloaded after the stacks were taken, before names are.
    *script.after.lock().unwrap() = unload(2);
    profiler.request_profile().unwrap();
    profiler.release_profile();
    *script.after.lock().unwrap() = None;
    assert_eq!(names(&profiler, &[112, 212]), ["C1.1::M112", UNKNOWN]);

    // Names stay when their module goes, until the id is another function's.
    unload(1).unwrap()();
    assert_eq!(names(&profiler, &[112]), ["C1.1::M112"]);
    script.places.lock().unwrap().insert(112, (3, 345));
    script.unloaded.lock().unwrap().remove(&2);
    profiler.request_profile().unwrap();
    profiler.release_profile();
    assert_eq!(names(&profiler, &[112, 212]), ["C3.4::M345", "C2.1::M212"]);

    // The same place again, of a module that was loaded where the other one was.
    let asked = script.questions.load(SeqCst);
    unload(3).unwrap()();
    script.unloaded.lock().unwrap().remove(&3);
    profiler.request_profile().unwrap();
    assert_eq!(script.questions.load(SeqCst), asked + 2);
    profiler.shutdown();
}

#[test]
fn old_runtimes_are_refused() {
    let (profiler, script) = profiler(&[(8, Some(vec![100]))]);
    script.is_old.store(true, SeqCst);
    assert!(matches!(profiler.request_profile(), Err(Refusal::OldRuntime)));
    assert_eq!(script.suspensions.load(SeqCst), 0);
}

#[test]
fn refusals() {
    let of = |refusal: Refusal| refusal.hresult().bits();
    assert_eq!(of(Refusal::InvalidArgument), 0x8007_0057);
    assert_eq!(of(Refusal::OldRuntime), 0x8000_FFFF);
    assert_eq!(of(Refusal::NotReleased), 0x8000_4005);
    assert_eq!(of(Refusal::Aborted), 0x8000_4004);
    assert_eq!(of(Refusal::NoThread(io::ErrorKind::WouldBlock.into())), 0x8000_4005);
    assert_eq!(of(Refusal::Runtime(Error::Nothing { call: "X" })), 0x8000_4005);
    assert_eq!(
        of(Refusal::Runtime(Error::Hr { call: "X", hresult: SUSPENSION_IN_PROGRESS })),
        0x8013_1388
    );
}
