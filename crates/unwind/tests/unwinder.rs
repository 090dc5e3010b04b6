//! The whole unwinder on made-up processes: what it asks for, what it takes for plausible, and that
//! nothing makes it fail badly.
#![cfg(target_arch = "x86_64")]

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use unwind::{
    BlockedSample, Failure, FrameCode, FrameTrust, Lookup, Mapping, Needed, Outcome, Progress,
    Registers, Sample, Target, Unknown, Unwinder,
};
use wire::{Code, UnwindEntry, UnwindTable};

const RBP: u16 = 6;
const RSP: u16 = 7;
/// Where the made-up stack is.
const STACK: u64 = 0x7fff_0000;
/// Executable memory of the made-up process: a code heap and a precompiled assembly.
const HEAP: u64 = 0x1000_0000;
const ASSEMBLY: u64 = 0x2000_0000;

/// A process with code heaps only.
struct Heaps;

impl Target for Heaps {
    fn mappings(&self) -> io::Result<Vec<Mapping>> {
        let mapping = |start, path: &str| Mapping {
            start,
            end: start + 0x10_0000,
            executable: true,
            offset: 0,
            inode: u64::from(!path.is_empty()),
            path: path.into(),
        };
        Ok(vec![mapping(HEAP, ""), mapping(ASSEMBLY, "/app/System.Private.CoreLib.dll")])
    }

    fn open(&self, _mapping: &Mapping) -> io::Result<File> {
        // No native image: what an assembly is to an unwinder. This source file is none either.
        File::open(file!().trim_start_matches("crates/unwind/"))
    }

    fn vdso(&self) -> Option<Vec<u8>> {
        None
    }
}

fn registers(ip: u64, sp: u64, fp: u64) -> Registers {
    let mut registers = Registers::default();
    registers.ip = ip;
    registers.set(RSP, sp);
    registers.set(RBP, fp);
    registers
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A method of 64 bytes with a call that ends 16 bytes into it, and this unwind information.
fn method(id: u32, start: u64, info: &[u8]) -> Code {
    let mut code = vec![0x90; 64];
    code[11] = 0xe8;
    let entry = UnwindEntry { begin: start, end: start + 64, info: vec![info.to_vec()] };
    Code {
        method: id,
        rejit: 0,
        ranges: vec![(start, 64)],
        unwind: Some(UnwindTable { entries: vec![entry] }),
        bytes: code,
        il_map: Vec::new(),
    }
}

/// No frame at all.
const FRAMELESS: &[u8] = &[1, 0, 0, 0];
/// push rbp; mov rbp, rsp
const FRAMED: &[u8] = &[1, 4, 2, 5, 4, 3, 1, 0x50];

#[test]
fn asks_for_all_code_of_a_stack_at_once_and_then_unwinds_it() {
    let mut unwinder = Unwinder::new(Heaps);
    let (leaf, caller, root) = (HEAP + 0x100, ASSEMBLY + 0x200, HEAP + 0x900);
    // A frameless leaf; its caller with a frame; the root, which returns to 0.
    let fp = STACK + 16;
    let stack = bytes(&[caller + 16, 0x1234, STACK + 32, root + 16, 0, 0, HEAP + 0x777]);
    let registers = registers(leaf + 40, STACK, fp);
    let sample = Sample { registers: &registers, stack: &stack };
    let guessed = vec![HEAP + 0x776, root + 15, caller + 15];
    let needed = Needed { executed: Some(leaf + 40), guessed };
    assert_eq!(unwinder.unwind(&sample, Unknown::Ask), Outcome::NeedCode(needed));

    unwinder.code_mut().insert(&method(1, leaf, FRAMELESS));
    unwinder.code_mut().insert(&method(2, caller, FRAMED));
    unwinder.code_mut().insert(&method(3, root, FRAMED));
    unwinder.code_mut().insert_not_code(HEAP + 0x776);
    let Outcome::Complete(found) = unwinder.unwind(&sample, Unknown::Ask) else { panic!() };
    let frames: Vec<_> = found
        .frames
        .iter()
        .map(|frame| (frame.ip, frame.lookup, frame.trust, frame.code))
        .collect();
    let managed = |method, version, offset| FrameCode::Managed { method, version, offset };
    assert_eq!(
        frames,
        [
            (leaf + 40, leaf + 40, FrameTrust::Context, managed(1, 0, 40)),
            (caller + 16, caller + 15, FrameTrust::Tables, managed(2, 1, 15)),
            (root + 16, root + 15, FrameTrust::Tables, managed(3, 2, 15)),
        ]
    );
    let counters = unwinder.counters();
    assert_eq!((counters.need_code, counters.complete, counters.frames_by_tables), (1, 1, 2));
}

/// The answer to a question: the methods that hold an address, and no code at all others.
fn answer(unwinder: &mut Unwinder, needed: &Needed, methods: &[Code]) {
    for address in needed.all() {
        let holds = |method: &&Code| (method.ranges[0].0..).take(64).any(|at| at == address);
        match methods.iter().find(holds) {
            Some(method) => {
                unwinder.code_mut().insert(method);
            }
            None => unwinder.code_mut().insert_not_code(address),
        }
    }
}

#[test]
fn unwinding_continues_behind_the_frames_that_tables_have_found() {
    let (leaf, caller, root) = (HEAP + 0x100, ASSEMBLY + 0x200, HEAP + 0x900);
    let known = [method(1, leaf, FRAMELESS), method(2, caller, FRAMED)];
    let stack = bytes(&[caller + 16, 0x1234, STACK + 32, root + 16, 0, 0]);
    let registers = registers(leaf + 40, STACK, STACK + 16);
    let sample = Sample { registers: &registers, stack: &stack };
    let mut unwinder = Unwinder::new(Heaps);
    for method in &known {
        unwinder.code_mut().insert(method);
    }
    let mut progress = Progress::default();
    let outcome = unwinder.unwind_further(&sample, &[], Unknown::Ask, &mut progress);
    let Outcome::NeedCode(needed) = outcome else { panic!("{outcome:?}") };
    let found: Vec<u64> = progress.frames().iter().map(|frame| frame.ip).collect();
    assert_eq!(found, [leaf + 40, caller + 16]);
    // Code that was freed meanwhile was there when the sample was taken.
    unwinder.code_mut().remove(leaf);
    answer(&mut unwinder, &needed, &[method(3, root, FRAMED)]);
    let outcome = unwinder.unwind_further(&sample, &[], Unknown::Ask, &mut progress);
    let Outcome::Complete(found) = outcome else { panic!("{outcome:?}") };
    assert_eq!(found.frames.len(), 3);
    assert!(progress.frames().is_empty());
    assert_eq!(unwinder.counters().frames_by_tables, 2);
}

/// A stub that has pushed something: its caller is searched for, and a nearer one may be known by
/// then.
#[test]
fn what_is_only_plausible_is_looked_for_again() {
    let (stub, near, far, root) = (HEAP + 0x100, HEAP + 0x200, HEAP + 0x300, HEAP + 0x400);
    let mut unwinder = Unwinder::new(Heaps);
    unwinder.code_mut().insert_not_code(stub + 40);
    unwinder.code_mut().insert(&method(1, far, FRAMELESS));
    let stack = bytes(&[1, near + 16, far + 16, root + 16, 0, 0]);
    let registers = registers(stub + 40, STACK, 1);
    let sample = Sample { registers: &registers, stack: &stack };
    let mut progress = Progress::default();
    let outcome = unwinder.unwind_further(&sample, &[], Unknown::Ask, &mut progress);
    let Outcome::NeedCode(needed) = outcome else { panic!("{outcome:?}") };
    assert_eq!(needed.guessed, [root + 15]);
    assert!(progress.frames().is_empty());
    for (id, start) in [(2, near), (3, root)] {
        unwinder.code_mut().insert(&method(id, start, FRAMELESS));
    }
    let outcome = unwinder.unwind_further(&sample, &[], Unknown::Ask, &mut progress);
    let Outcome::Complete(found) = outcome else { panic!("{outcome:?}") };
    let found: Vec<u64> = found.frames.iter().map(|frame| frame.ip).collect();
    assert_eq!(found, [stub + 40, near + 16, far + 16, root + 16]);
}

#[test]
fn a_stack_deeper_than_the_copy_is_truncated() {
    let mut unwinder = Unwinder::new(Heaps);
    unwinder.code_mut().insert(&method(1, HEAP, FRAMED));
    // The frame record lies behind what was copied.
    let registers = registers(HEAP + 40, STACK, STACK + 64);
    let stack = bytes(&[0; 4]);
    let outcome = unwinder.unwind(&Sample { registers: &registers, stack: &stack }, Unknown::Ask);
    assert!(
        matches!(&outcome, Outcome::Truncated(stack) if stack.frames.len() == 1),
        "{outcome:?}"
    );
}

/// A stack of five frames of which the outer ones lie behind the copy, as the kernel saw it.
struct Deep {
    unwinder: Unwinder,
    registers: Registers,
    stack: Vec<u8>,
    callers: [u64; 5],
}

impl Deep {
    /// `outer` is the unwind information of the last frame but one.
    fn new(outer: &[u8]) -> Self {
        let mut unwinder = Unwinder::new(Heaps);
        let starts = [0x100, 0x200, 0x300, 0x400, 0x500].map(|at| HEAP + at);
        for (id, start) in (1..).zip(starts) {
            let info = if id == 4 { outer } else { FRAMED };
            unwinder.code_mut().insert(&method(id, start, info));
        }
        let [leaf, callers @ ..] = starts.map(|start| start + 16);
        // Each frame is 48 bytes large. The copy ends in the third one, below its record.
        let stack = bytes(&[1, 2, STACK + 64, callers[0], 1, 2, 3, 4, STACK + 1000, callers[1], 5]);
        let registers = registers(leaf, STACK, STACK + 16);
        Self {
            unwinder,
            registers,
            stack,
            callers: [callers[0], callers[1], callers[2], callers[3], 0],
        }
    }

    fn unwind(&mut self, callers: &[u64]) -> Outcome {
        let sample = Sample { registers: &self.registers, stack: &self.stack };
        self.unwinder.unwind_further(&sample, callers, Unknown::Ask, &mut Progress::default())
    }
}

#[test]
fn a_stack_deeper_than_the_copy_is_continued_by_frame_pointers() {
    let mut deep = Deep::new(FRAMED);
    let callers = deep.callers;
    let Outcome::Complete(found) = deep.unwind(&callers) else { panic!() };
    let ips: Vec<u64> = found.frames.iter().skip(1).map(|frame| frame.ip).collect();
    assert_eq!(ips, callers[..4]);
    assert!(found.frames.iter().skip(1).all(|frame| frame.trust == FrameTrust::Tables));
    // Without them, and where they do not reach the root.
    for cut in 0..callers.len() {
        let outcome = deep.unwind(&callers[..cut]);
        assert!(matches!(&outcome, Outcome::Truncated(found) if found.frames.len() == 3));
    }
    // What they say of the copied part is not what stands there.
    for wrong in 0..2 {
        let mut other = callers;
        other[wrong] += 1;
        assert!(matches!(deep.unwind(&other), Outcome::Truncated(_)), "{wrong}");
    }
    // No code at all.
    let mut other = callers;
    other[3] = 0x666;
    assert!(matches!(deep.unwind(&other), Outcome::Truncated(_)));
}

#[test]
fn frame_pointers_count_only_where_every_frame_has_one() {
    let mut deep = Deep::new(FRAMELESS);
    let callers = deep.callers;
    assert!(matches!(deep.unwind(&callers), Outcome::Truncated(_)));
}

#[test]
fn code_behind_the_copy_is_asked_for() {
    let mut deep = Deep::new(FRAMED);
    let callers = deep.callers;
    for start in [HEAP + 0x400, HEAP + 0x500] {
        deep.unwinder.code_mut().remove(start);
    }
    let guessed = vec![callers[2] - 1, callers[3] - 1];
    assert_eq!(deep.unwind(&callers), Outcome::NeedCode(Needed { executed: None, guessed }));
    deep.unwinder.code_mut().insert(&method(4, HEAP + 0x400, FRAMED));
    deep.unwinder.code_mut().insert_not_code(callers[3] - 1);
    // A stub tells nothing about its frame.
    assert!(matches!(deep.unwind(&callers), Outcome::Truncated(_)));
}

#[test]
fn stubs_are_passed_by_what_is_plausible_and_say_so() {
    let mut unwinder = Unwinder::new(Heaps);
    unwinder.code_mut().insert(&method(1, HEAP, FRAMED));
    let stub = HEAP + 0x5000;
    unwinder.code_mut().insert_not_code(stub);
    let mut leave = |words: &[u64], fp| {
        let registers = registers(stub, STACK, fp);
        match unwinder.unwind(&Sample { registers: &registers, stack: &bytes(words) }, Unknown::Ask)
        {
            Outcome::Complete(stack) => {
                stack.frames.iter().map(|frame| (frame.ip, frame.trust)).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let leaf = (stub, FrameTrust::Context);
    // The return address on top of the stack.
    assert_eq!(
        leave(&[HEAP + 16, STACK + 16, 0, 0], STACK + 16),
        [leaf, (HEAP + 16, FrameTrust::Learned)]
    );
    // The frame pointer; what lies on top stands behind no call.
    let words = [HEAP + 17, STACK + 32, STACK + 40, HEAP + 16, 0, 0, 0];
    assert_eq!(leave(&words, STACK + 16), [leaf, (HEAP + 16, FrameTrust::Learned)]);
    // Neither: the next return address there is.
    assert_eq!(
        leave(&[1, 2, HEAP + 16, 0, 0, 0], STACK + 24),
        [leaf, (HEAP + 16, FrameTrust::Scan)]
    );
}

/// Unwinds a blocked thread in a stub, with three known methods: frameless, and two with frames.
fn blocked(words: &[u64]) -> Vec<(u64, FrameTrust)> {
    let mut unwinder = Unwinder::new(Heaps);
    unwinder.code_mut().insert(&method(1, HEAP, FRAMELESS));
    unwinder.code_mut().insert(&method(2, HEAP + 0x100, FRAMED));
    unwinder.code_mut().insert(&method(3, ASSEMBLY, FRAMED));
    unwinder.code_mut().insert_not_code(HEAP + 0x5000);
    let sample = BlockedSample { ip: HEAP + 0x5000, sp: STACK, stack: &bytes(words) };
    match unwinder.unwind_blocked(&sample, Unknown::Ask) {
        Outcome::Complete(stack) => {
            stack.frames.iter().map(|frame| (frame.ip, frame.trust)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocked_threads_are_unwound_without_their_registers() {
    let leaf = (HEAP + 0x5000, FrameTrust::Context);
    let (frameless, caller, root) = (HEAP + 16, HEAP + 0x100 + 16, ASSEMBLY + 16);
    // By the stack pointer alone, then by the size of a frame, which gives the frame pointer of the
    // next.
    let words = [frameless, caller, STACK + 40, root, 7, 0, 0, 0];
    let expected = [
        leaf,
        (frameless, FrameTrust::Learned),
        (caller, FrameTrust::Tables),
        (root, FrameTrust::Learned),
    ];
    assert_eq!(blocked(&words), expected);
    // A frame that has grown: its size leads nowhere, but the runtime has noted the call that it is
    // in.
    let words = [caller, 1, 2, STACK + 8, caller, STACK + 56, 0, STACK + 80, root, 0, 0, 0, 0];
    assert_eq!(blocked(&words), [leaf, (caller, FrameTrust::Learned), (root, FrameTrust::Learned)]);
    // In code of which nothing is known: the same note, and a frame record where there is none.
    let words = [1, caller, STACK + 16, caller, STACK + 48, 0, STACK + 72, root, 0, 0, 0, 0];
    assert_eq!(blocked(&words), [leaf, (caller, FrameTrust::Learned), (root, FrameTrust::Tables)]);
    let words = [1, caller, 3, STACK + 48, root, 0, 0, 0];
    assert_eq!(blocked(&words), [leaf, (root, FrameTrust::Scan)]);
}

#[test]
fn an_unknown_frame_pointer_is_not_the_root() {
    let mut unwinder = Unwinder::new(Heaps);
    unwinder.code_mut().insert(&method(1, HEAP, FRAMED));
    // Nothing on the stack looks like a caller; as 0 the frame pointer would end it.
    let stack = bytes(&[[HEAP + 16].as_slice(), &[1; 2000]].concat());
    let sample = BlockedSample { ip: HEAP + 40, sp: STACK + 8, stack: &stack[8..] };
    let outcome = unwinder.unwind_blocked(&sample, Unknown::Ask);
    assert!(matches!(&outcome, Outcome::Broken(_, Failure::NoCallerFound)), "{outcome:?}");
}

#[test]
fn all_that_a_blocked_thread_may_return_to_is_asked_for_first() {
    let mut unwinder = Unwinder::new(Heaps);
    let stack = bytes(&[HEAP + 16, 1, ASSEMBLY + 16, 0]);
    let sample = BlockedSample { ip: HEAP + 0x5000, sp: STACK, stack: &stack };
    let needed = Needed { executed: None, guessed: vec![HEAP + 15, ASSEMBLY + 15] };
    assert_eq!(unwinder.unwind_blocked(&sample, Unknown::Ask), Outcome::NeedCode(needed));
    unwinder.code_mut().insert_not_code(HEAP + 15);
    unwinder.code_mut().insert_not_code(ASSEMBLY + 15);
    let needed = Needed { executed: Some(HEAP + 0x5000), guessed: Vec::new() };
    assert_eq!(unwinder.unwind_blocked(&sample, Unknown::Ask), Outcome::NeedCode(needed));
}

#[test]
fn nowhere_to_go_is_told_apart_from_the_end_of_the_copy() {
    let mut unwinder = Unwinder::new(Heaps);
    let lost = registers(0x666, STACK, 1);
    let nothing = bytes(&[0; 2000]);
    let outcome = unwinder.unwind(&Sample { registers: &lost, stack: &nothing }, Unknown::Ask);
    assert!(matches!(&outcome, Outcome::Broken(_, Failure::NoCallerFound)), "{outcome:?}");
    let outcome =
        unwinder.unwind(&Sample { registers: &lost, stack: &nothing[..80] }, Unknown::Ask);
    assert!(matches!(&outcome, Outcome::Truncated(_)), "{outcome:?}");
    assert_eq!(unwinder.counters().broken.get(&Failure::NoCallerFound), Some(&1));

    // A method whose table leads to no code at all, and nothing else that is plausible.
    unwinder.code_mut().insert(&method(1, HEAP, FRAMELESS));
    let registers = registers(HEAP + 40, STACK, 1);
    let words = bytes(&[[0x666].as_slice(), &[1; 2000]].concat());
    let outcome = unwinder.unwind(&Sample { registers: &registers, stack: &words }, Unknown::Ask);
    assert!(
        matches!(&outcome, Outcome::Broken(stack, Failure::NoCallerFound) if stack.frames.len() == 1),
        "{outcome:?}"
    );
}

#[test]
fn a_fault_at_the_first_instruction_belongs_to_its_method() {
    let mut unwinder = Unwinder::new(Heaps);
    unwinder.code_mut().insert(&method(1, HEAP + 0x100, FRAMELESS));
    unwinder.code_mut().insert(&method(2, HEAP + 0x200, FRAMED));
    // As seen from a fault handler: the faulting instruction looks like a return address, one byte
    // into nothing.
    let registers = registers(HEAP + 0x100 + 30, STACK, 1);
    let stack = bytes(&[HEAP + 0x200, 0, 0]);
    unwinder.code_mut().insert_not_code(HEAP + 0x1ff);
    let Outcome::Complete(found) =
        unwinder.unwind(&Sample { registers: &registers, stack: &stack }, Unknown::Ask)
    else {
        panic!()
    };
    assert_eq!(found.frames[1].code, FrameCode::Managed { method: 2, version: 1, offset: 0 });
}

#[test]
fn freed_code_is_asked_for_again() {
    let mut unwinder = Unwinder::new(Heaps);
    unwinder.code_mut().insert(&method(1, HEAP, FRAMELESS));
    let registers = registers(HEAP + 40, STACK, 1);
    let stack = bytes(&[0]);
    let sample = Sample { registers: &registers, stack: &stack };
    assert!(matches!(unwinder.unwind(&sample, Unknown::Ask), Outcome::Complete(_)));
    unwinder.code_mut().remove(HEAP);
    assert_eq!(
        unwinder.unwind(&sample, Unknown::Ask),
        Outcome::NeedCode(Needed { executed: Some(HEAP + 40), guessed: vec![] })
    );
    assert_eq!(unwinder.code().lookup(HEAP + 40), Lookup::Unknown);
    // Nobody answers: a guess, then.
    assert!(!matches!(unwinder.unwind(&sample, Unknown::Guess), Outcome::NeedCode(_)));
}

/// Words that look like what is on stacks.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0u64..0x800).prop_map(|offset| STACK + offset),
        (0u64..0x200).prop_map(|offset| HEAP + offset),
        Just(HEAP + 16),
        Just(HEAP + 0x40 + 16),
        Just(0),
    ]
}

proptest! {
    #[test]
    fn random_stacks_end_in_bounded_time(
        words in proptest::collection::vec(word(), 0..250),
        ip in word(),
        sp in prop_oneof![Just(STACK), word()],
        fp in word(),
        infos in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 4..40), 4),
        ask in any::<bool>(),
    ) {
        let mut unwinder = Unwinder::new(Heaps);
        for (index, info) in infos.iter().enumerate() {
            unwinder.code_mut().insert(&method(index as u32, HEAP + index as u64 * 0x40, info));
        }
        let (registers, stack) = (registers(ip, sp, fp), bytes(&words));
        let begun = Instant::now();
        let unknown = if ask { Unknown::Ask } else { Unknown::Guess };
        let outcome = unwinder.unwind(&Sample { registers: &registers, stack: &stack }, unknown);
        let blocked = unwinder.unwind_blocked(&BlockedSample { ip, sp, stack: &stack }, unknown);
        prop_assert!(begun.elapsed() < Duration::from_secs(1));
        for outcome in [outcome, blocked] {
            match outcome {
                Outcome::Complete(found) | Outcome::Truncated(found) | Outcome::Broken(found, _) => {
                    // Each frame takes a word at least.
                    prop_assert!((1..=words.len() + 20).contains(&found.frames.len()));
                    prop_assert_eq!(found.frames[0].ip, ip);
                }
                Outcome::NeedCode(needed) => {
                    prop_assert!(ask && needed.all().next().is_some() && needed.guessed.is_sorted());
                    prop_assert!(needed.executed.is_none_or(|executed| executed == ip));
                }
            }
        }
    }

    /// To continue finds what starting again finds, however many answers come in between.
    #[test]
    fn progress_changes_no_outcome(
        words in proptest::collection::vec(word(), 0..250),
        ip in word(),
        fp in word(),
        infos in proptest::collection::vec(
            prop_oneof![
                Just(FRAMELESS.to_vec()),
                Just(FRAMED.to_vec()),
                proptest::collection::vec(any::<u8>(), 4..40),
            ],
            8,
        ),
        callers in proptest::collection::vec(word(), 0..8),
        blocked in any::<bool>(),
    ) {
        let mut unwinder = Unwinder::new(Heaps);
        let start = |index: usize| HEAP + index as u64 * 0x40;
        let methods = infos.iter().enumerate();
        let methods: Vec<Code> =
            methods.map(|(index, info)| method(index as u32, start(index), info)).collect();
        let (registers, stack) = (registers(ip, STACK, fp), bytes(&words));
        let sample = Sample { registers: &registers, stack: &stack };
        let of_blocked = BlockedSample { ip, sp: STACK, stack: &stack };
        let mut progress = Progress::default();
        loop {
            let again = match blocked {
                true => unwinder.unwind_blocked(&of_blocked, Unknown::Ask),
                false => {
                    let progress = &mut Progress::default();
                    unwinder.unwind_further(&sample, &callers, Unknown::Ask, progress)
                }
            };
            let further = match blocked {
                true => unwinder.unwind_blocked_further(&of_blocked, Unknown::Ask, &mut progress),
                false => unwinder.unwind_further(&sample, &callers, Unknown::Ask, &mut progress),
            };
            prop_assert_eq!(&again, &further);
            let Outcome::NeedCode(needed) = further else { break };
            // One answer at a time leaves more questions.
            let one = Needed { executed: needed.executed, guessed: Vec::new() };
            let met = if one.executed.is_some() { one } else { needed };
            answer(&mut unwinder, &met, &methods);
        }
    }
}
