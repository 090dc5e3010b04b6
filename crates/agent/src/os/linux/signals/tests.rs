use super::disposition::*;
use super::end::*;
use super::slots::*;
use super::timers::*;
use super::*;
use crate::ledger;
use crate::os::neighbors::{Neighbors, neighbors};
use crate::os::threads::current_tid;
use crate::os::{alternate, clock, maps, tasks};
use std::os::fd::AsRawFd;
use wire::ring::{REGISTERS, Register, slot_state};

/// Only one engine can run in a process.
static ONE: Mutex<()> = Mutex::new(());

fn limit_descriptors(limit: u64) {
    let mut both = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limits are a local.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut both), 0);
        both.rlim_cur = limit;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &both), 0);
    }
}

#[test]
fn without_descriptors_nobody_is_said_to_have_moved_on() {
    let _one = lock(&ONE);
    let (send, receive) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        tell.send(current_tid()).unwrap();
        let _ = receive.recv();
    });
    let tid = told.recv().unwrap();
    // Close to the limit threads are still seen.
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 + 3;
    limit_descriptors(open);
    assert!((0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        tasks::state_now(tid) == b'S'
    }));
    assert!(!may_be_inside(tid));
    // At the limit they are not.
    limit_descriptors(0);
    assert_eq!(tasks::all_tids(), None);
    assert_ne!(neighbors(), Neighbors::default());
    assert!(tasks::Sleepers::default().awake().is_none());
    assert!(!have_moved_on(clock::monotonic() + 5_000_000));
    limit_descriptors(1024);
    assert!(tasks::all_tids().is_some_and(|tids| tids.contains(&tid)));
    drop(send);
    sleeper.join().unwrap();
}

#[test]
fn descriptors_that_are_left_to_the_program_are_used_only_at_the_end() {
    let _one = lock(&ONE);
    let null = || std::fs::File::open("/dev/null").unwrap();
    // From 10 on, the last number of all is in the last tenth.
    let _some: Vec<_> = (0..16).map(|_| null()).collect();
    let next = null().as_raw_fd();
    limit_descriptors(next as u64 + 1);
    let refused = |error: Option<io::Error>| error.unwrap().raw_os_error();
    assert_eq!(refused(ledger::open("/proc/self/maps").err()), Some(libc::EMFILE));
    assert_eq!(refused(ledger::folder("/proc/self/task").err()), Some(libc::EMFILE));
    assert_eq!(tasks::all_tids(), None);
    assert!(tasks::all_tids_now().is_some_and(|tids| tids.contains(&current_tid())));
    assert_eq!(neighbors(), Neighbors::default());
    // Nothing was kept.
    assert_eq!(null().as_raw_fd(), next);
    limit_descriptors(1024);
    assert!(tasks::all_tids().is_some());
}

fn burn(nanos: u64) {
    let end = clock::thread_cpu() + nanos;
    while clock::thread_cpu() < end {}
}

struct Sample {
    tid: u32,
    registers: [u64; REGISTERS],
    stack: Vec<u8>,
    overrun: u32,
}

/// All samples that are ready; frees their slots.
fn take(engine: &SignalEngine) -> Vec<Sample> {
    let shared = &engine.shared;
    let mut samples = Vec::new();
    for index in 0..shared.layout.slots as usize {
        // SAFETY: the slot lies in the ring, and is ours while it is ready.
        unsafe {
            let slot =
                shared.ring.as_ptr().add(Layout::HEADER + index * shared.layout.slot_size as usize);
            let state = &*slot.cast::<AtomicU32>();
            if state.load(Ordering::Acquire) != slot_state::READY {
                continue;
            }
            let length = slot.add(152).cast::<u32>().read() as usize;
            samples.push(Sample {
                tid: slot.add(4).cast::<u32>().read(),
                registers: slot.add(16).cast::<[u64; REGISTERS]>().read(),
                stack: std::slice::from_raw_parts(slot.add(Layout::SLOT_HEADER), length).to_vec(),
                overrun: slot.add(156).cast::<u32>().read(),
            });
            state.store(slot_state::FREE, Ordering::Release);
        }
    }
    samples
}

#[test]
fn a_burning_thread_is_sampled_in_proportion_to_its_cpu_time() {
    let _one = lock(&ONE);
    let engine = SignalEngine::start(100).unwrap();
    let tid = current_tid();
    engine.add_current(1, tid);
    let mut ticks = 0;
    let mut count = 0;
    for _ in 0..10 {
        burn(50_000_000);
        for sample in take(&engine) {
            assert_eq!(sample.tid, tid);
            assert!(sample.stack.len() > 256 && sample.stack.len() <= SLOT_STACK as usize);
            let rip = sample.registers[Register::Rip as usize];
            assert!(maps::mapping_of(rip).unwrap().executable, "{rip:x}");
            assert_ne!(sample.registers[Register::Rsp as usize], 0);
            ticks += 1 + sample.overrun;
            count += 1;
        }
    }
    // 500 ms at 100 Hz; the first one comes early, and the kernel rounds to its own ticks.
    assert!((35..=56).contains(&ticks), "{ticks} ticks in {count} samples");
    assert_eq!(engine.dropped(), (0, 0));
    assert_eq!(engine.unsampled(), 0);
    let (median, handled) = engine.handler_time();
    // One more may have come since they were taken last.
    assert!((count..=count + 1).contains(&handled), "{handled} handled, {count} taken");
    eprintln!("handler: {median} ns, {handled} times");
    engine.remove_current(2);
    assert_eq!(engine.sampled().len(), 1, "that was another thread");
    engine.remove_current(1);
    burn(50_000_000);
    take(&engine);
    burn(50_000_000);
    assert_eq!(take(&engine).len(), 0);
}

/// How many of our alternate stacks are mapped.
fn mapped() -> usize {
    // Each is a guard page and the rest.
    maps::mappings()
        .iter()
        .filter(|one| one.path.contains("clrscope-stack") && one.end - one.start == 4096)
        .count()
}

fn threads_of(tids: &[u32]) -> Vec<(u64, u32)> {
    tids.iter().map(|&tid| (u64::from(tid) << 8, tid)).collect()
}

fn visit_all(engine: &SignalEngine, tids: &[u32]) -> Visits {
    let visits = engine.prepare(&threads_of(tids));
    engine.visit(&visits);
    engine.arm_visited(&visits);
    visits
}

#[test]
fn threads_that_run_already_are_visited_and_get_their_alternate_stacks_back() {
    let _one = lock(&ONE);
    let engine = SignalEngine::start(1000).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let stop = AtomicBool::new(false);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for sleeps in [true, false] {
            let (send, stop, ended) = (send.clone(), &stop, &ended);
            scope.spawn(move || {
                let before = alternate::own().unwrap();
                send.send(current_tid()).unwrap();
                while !stop.load(Ordering::SeqCst) {
                    if sleeps {
                        std::thread::sleep(std::time::Duration::from_millis(100));
                    }
                }
                let during = alternate::own().unwrap();
                assert_eq!(during.ss_size, alternate::SIZE);
                while !ended.load(Ordering::SeqCst) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                let after = alternate::own().unwrap();
                assert_eq!((after.ss_sp, after.ss_size), (before.ss_sp, before.ss_size));
            });
        }
        let tids: Vec<u32> = receive.iter().take(2).collect();
        let visits = visit_all(&engine, &tids);
        let unsampled = engine.unsampled();
        // As long as it takes the burning one to get to a processor.
        let mut samples = Vec::new();
        let deadline = clock::monotonic() + 30_000_000_000;
        while samples.len() < 10 && clock::monotonic() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(50));
            samples.extend(take(&engine));
        }
        // First of all, so that the threads end whatever is found.
        stop.store(true, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let during = mapped();
        let left = engine.stop();
        ended.store(true, Ordering::SeqCst);
        assert_eq!((visits.len(), unsampled, during), (2, 0, 2));
        assert_eq!((left, mapped(), must_stay()), (Left::default(), 0, false));
        assert!(samples.len() >= 10, "{}", samples.len());
        // The sleeping one uses no CPU time.
        assert!(
            samples.iter().all(|sample| sample.tid == samples[0].tid && tids.contains(&sample.tid))
        );
    });
}

#[test]
fn a_thread_that_is_visited_before_it_says_that_it_runs_keeps_its_stack() {
    let _one = lock(&ONE);
    let engine = SignalEngine::start(1000).unwrap();
    for thread_says in [1, 2] {
        let (visited, says) = (AtomicBool::new(false), AtomicBool::new(false));
        let (tid, done) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tid.store(current_tid(), Ordering::SeqCst);
                while !visited.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                engine.add_current(thread_says, current_tid());
                says.store(true, Ordering::SeqCst);
                while !done.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                let own = alternate::own().unwrap();
                assert_eq!(own.ss_size, alternate::SIZE);
                // SAFETY: asks only whether it is mapped.
                assert_eq!(unsafe { libc::msync(own.ss_sp, own.ss_size, libc::MS_ASYNC) }, 0);
                engine.remove_current(thread_says);
                assert_ne!(alternate::own().unwrap().ss_size, alternate::SIZE);
            });
            while tid.load(Ordering::SeqCst) == 0 {
                std::hint::spin_loop();
            }
            // The runtime may know it by another number when it says that it runs.
            let visits = engine.prepare(&[(1, tid.load(Ordering::SeqCst))]);
            engine.visit(&visits);
            visited.store(true, Ordering::SeqCst);
            while !says.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            engine.reclaim();
            assert_eq!(engine.arm_visited(&visits), (1, 1));
            engine.reclaim();
            done.store(true, Ordering::SeqCst);
        });
        assert_eq!((mapped(), engine.free.len(), engine.timers().len()), (0, THREADS, 0));
    }
    assert_eq!(engine.stop(), Left::default());
}

#[test]
fn alternate_stacks_of_threads_that_end_are_given_back_and_those_of_others_stay() {
    let _one = lock(&ONE);
    let engine = SignalEngine::start(1000).unwrap();
    for says in [true, false] {
        for _ in 0..20 {
            // As Go and Rust make them: on the heap.
            let mut own = vec![7u8; 32 << 10];
            let start = own.as_mut_ptr() as u64;
            let tid = std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let before = alternate::own().unwrap();
                    let heap = alternate::of(start, 32 << 10);
                    // SAFETY: it lives longer than the thread, and nothing else is on it.
                    assert!(unsafe { alternate::set_own(&heap) });
                    engine.add_current(5, current_tid());
                    burn(2_000_000);
                    assert_eq!(alternate::own().unwrap().ss_size, alternate::SIZE);
                    if says {
                        engine.remove_current(5);
                        assert_eq!(alternate::own().unwrap().ss_sp as u64, start);
                        assert_eq!(mapped(), 0);
                    }
                    // SAFETY: as the thread had it.
                    unsafe { alternate::set_own(&before) };
                    current_tid()
                });
                thread.join().unwrap()
            });
            engine.remove(5, tid);
            assert!(own.iter().all(|&byte| byte == 7));
        }
        let gone = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            engine.reclaim();
            mapped() == 0
        });
        assert!(gone, "{}", mapped());
    }
    assert_eq!((engine.unsampled(), engine.free.len()), (0, THREADS));
    assert_eq!(engine.stop(), Left::default());
}

#[test]
fn at_most_half_of_what_may_be_queued_is_used() {
    let _one = lock(&ONE);
    assert_eq!(parse_queued("Threads:\t1\nSigQ:\t12/96365\nSigPnd:\t0\n"), Some((12, 96365)));
    let (queued, _) = queued_signals();
    let limit = |soft| {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a valid limit; the hard one stays where it is for root only, and this process
        // ends with its test.
        unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &limit) }
    };
    if limit(queued + 10) != 0 {
        return;
    }
    let engine = SignalEngine::start(100).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(Mutex::new(wait));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (send, wait) = (send.clone(), std::sync::Arc::clone(&wait));
            std::thread::spawn(move || {
                send.send(current_tid()).unwrap();
                let _ = lock(&wait).recv();
            })
        })
        .collect();
    let tids: Vec<u32> = receive.iter().take(8).collect();
    visit_all(&engine, &tids);
    let armed = engine.sampled().len();
    let (free, without) = (engine.has_room(), engine.without_timer());
    // A thread that begins now has none either.
    engine.add_current(1, current_tid());
    let more = engine.sampled().len();
    engine.disarm();
    let room = engine.has_room();
    drop(stop);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(engine);
    // Others of the same user may queue signals meanwhile.
    assert!((1..=5).contains(&armed) && !free && more == armed && room, "{armed} {free} {more}");
    assert!(without >= 3, "{without}");
    assert_eq!(limit(queued_signals().0), 0);
    assert!(matches!(SignalEngine::start(100), Err(SignalError::Queue { .. })));
}

#[test]
fn a_handler_that_has_not_returned_keeps_everything() {
    let _one = lock(&ONE);
    let engine = SignalEngine::start(100).unwrap();
    let (shared, ring) = (engine.shared, engine.shared.ring);
    // As if it was held.
    IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
    let left = engine.stop();
    assert!(left.stays.is_some() && must_stay());
    // SAFETY: this is what is tested: it is still there.
    unsafe { ring.as_ptr().write_volatile(1) };
    assert_eq!(shared.threads.len(), THREADS);
    IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
}

#[test]
fn a_handler_that_was_set_meanwhile_stays() {
    let _one = lock(&ONE);
    unsafe extern "C" fn theirs(_: libc::c_int) {}
    let engine = SignalEngine::start(1000).unwrap();
    let tid = current_tid();
    engine.add_current(1, tid);
    let mut action = empty_action();
    action.sa_sigaction = theirs as *const () as usize;
    let was = exchange_action(&action);
    assert!(is_ours(&was) && engine.is_displaced());
    burn(20_000_000);
    let left = engine.stop();
    assert!(left.stays.is_some() && must_stay());
    assert_eq!(current_action().sa_sigaction, theirs as *const () as usize);
    assert!(matches!(SignalEngine::start(100), Err(SignalError::HandlerTaken)));
    // They restore what they found, and nobody is hurt; and the next recording uses it.
    exchange_action(&was);
    // SAFETY: no pointers.
    unsafe { libc::raise(libc::SIGPROF) };
    let engine = SignalEngine::start(1000).unwrap();
    engine.add_current(1, tid);
    burn(20_000_000);
    assert!(!take(&engine).is_empty());
    engine.stop();
    assert_eq!(current_action().sa_sigaction, libc::SIG_DFL);
}

#[test]
fn a_handler_that_is_set_after_ours_was_read_and_restored_keeps_the_library() {
    let _one = lock(&ONE);
    unsafe extern "C" fn theirs(_: libc::c_int) {}
    STAYS.store(false, Ordering::SeqCst);
    let engine = SignalEngine::start(1000).unwrap();
    assert!(engine.stop().stays.is_none() && !must_stay());
    let mut action = empty_action();
    action.sa_sigaction = theirs as *const () as usize;
    let free = exchange_action(&action);
    assert!(must_stay());
    // It stays when they have left: they may have passed on what they read.
    exchange_action(&free);
    assert!(must_stay());
}

#[test]
fn the_stack_of_the_first_thread_ends_above_what_is_below() {
    let mapping =
        |start, end, path: &str| maps::Mapping { start, end, executable: false, path: path.into() };
    let megabyte = 1 << 20;
    let stack = mapping(1000 * megabyte, 1001 * megabyte, "[stack]");
    let (sp, tcb) = (stack.start + 100, 5);
    let below = |below| stack_of(&[mapping(0, below, ""), stack.clone()], sp, tcb, 8 * megabyte);
    assert_eq!(below(500 * megabyte), Some((993 * megabyte, stack.end)));
    // An alternate stack, as it lies where addresses are not random.
    assert_eq!(below(996 * megabyte), Some((996 * megabyte, stack.end)));
    assert_eq!(stack_of(std::slice::from_ref(&stack), sp, tcb, 1 << 30), Some((0, stack.end)));
    // It was allowed to be larger when it grew.
    assert_eq!(
        stack_of(std::slice::from_ref(&stack), sp, tcb, 4096),
        Some((stack.start, stack.end))
    );
    assert_eq!(stack_of(&[stack], 7, tcb, megabyte), None);
    // Another thread's, with something that follows in the same mapping.
    let other = [mapping(megabyte, 3 * megabyte, "")];
    assert_eq!(stack_of(&other, megabyte, 2 * megabyte, 0), Some((megabyte, 2 * megabyte)));
    assert_eq!(stack_of(&other, 2 * megabyte, megabyte, 0), None);
}

#[test]
fn signals_of_others_are_nobodys() {
    let _one = lock(&ONE);
    let engine = SignalEngine::start(100).unwrap();
    let base = engine.shared.threads.as_ptr() as usize;
    assert!(engine.shared.slot(base).is_some());
    for value in
        [0, 1, base + 1, base - size_of::<ThreadSlot>(), base + THREADS * size_of::<ThreadSlot>()]
    {
        assert!(engine.shared.slot(value).is_none(), "{value:x}");
    }
}

#[test]
fn a_foreign_handler_is_left_alone() {
    let _one = lock(&ONE);
    unsafe extern "C" fn theirs(_: libc::c_int) {}
    let mut action = empty_action();
    action.sa_sigaction = theirs as *const () as usize;
    let mut before = empty_action();
    // SAFETY: these are valid actions; the previous one is restored below.
    unsafe { libc::sigaction(libc::SIGPROF, &action, &mut before) };
    assert!(matches!(SignalEngine::start(100), Err(SignalError::HandlerTaken)));
    let mut now = empty_action();
    // SAFETY: as above.
    unsafe { libc::sigaction(libc::SIGPROF, &before, &mut now) };
    assert_eq!(now.sa_sigaction, theirs as *const () as usize);
    // And the refusal left room for the next.
    let engine = SignalEngine::start(100).unwrap();
    assert!(matches!(SignalEngine::start(100), Err(SignalError::Busy)));
    drop(engine);
    // SAFETY: asks only.
    unsafe { libc::sigaction(libc::SIGPROF, ptr::null(), &mut now) };
    assert_eq!(now.sa_sigaction, libc::SIG_DFL);
}

#[test]
fn starting_and_stopping_under_fire_is_safe() {
    let _one = lock(&ONE);
    let stop = AtomicBool::new(false);
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (send, stop) = (send.clone(), &stop);
            scope.spawn(move || {
                send.send(current_tid()).unwrap();
                while !stop.load(Ordering::SeqCst) {}
            });
        }
        let tids: Vec<u32> = receive.iter().take(4).collect();
        for _ in 0..30 {
            let engine = SignalEngine::start(1000).unwrap();
            visit_all(&engine, &tids);
            std::thread::sleep(std::time::Duration::from_millis(10));
            assert_eq!(engine.stop().stays, None);
        }
        stop.store(true, Ordering::SeqCst);
        assert_eq!(mapped(), 0);
    });
}
