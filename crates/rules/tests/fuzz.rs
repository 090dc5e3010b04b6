//! The fuzz targets of `fuzz/` without a fuzzer: their saved inputs, and inputs made of those at
//! random. Nothing panics, and nothing takes more memory than it may.
//!
//! `CLRSCOPE_FUZZ_SECONDS` says for how long each target is tried, and `CLRSCOPE_FUZZ_SEED` with
//! which inputs. With `CLRSCOPE_FUZZ_UNPACK` the saved inputs are written to `fuzz/unpacked` as
//! single files, as cargo-fuzz wants them.
#![allow(unsafe_code)] // The allocator that counts.

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest input that is made.
const LONGEST: usize = 4096;
/// What any input may take at a time, and beyond that for each of its bytes: an instruction of one
/// byte is a place, a node and a line of text.
const FLOOR: usize = 256 << 10;
const PER_BYTE: usize = 1 << 10;
const SECONDS: u64 = 2;

/// Counts what a thread holds.
struct Counting;

thread_local! {
    /// Now, and the most so far.
    static HELD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

fn held(change: impl FnOnce(usize) -> usize) {
    // A thread that ends has no such value any more.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = change(now);
        held.set((now, most.max(now)));
    });
}

// SAFETY: everything is done by the system's allocator; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        held(|now| now.saturating_add(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        held(|now| now.saturating_sub(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Saved inputs: files as they are, and in files that end in `.hex` one in each line that is no
/// comment.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(fuzz_folder().join("corpus").join(target))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let mut inputs = Vec::new();
    for path in paths {
        if path.extension().is_none_or(|extension| extension != "hex") {
            inputs.push(fs::read(path).unwrap());
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        inputs.extend(lines.map(|line| line.as_bytes().chunks(2).map(byte).collect::<Vec<u8>>()));
    }
    inputs
}

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Makes new inputs of known ones.
struct Mutator(u64);

impl Mutator {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit.max(1)
    }

    fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut input, corpus);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        const NUMBERS: [u32; 9] =
            [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff];
        let at = self.below(input.len() + 1);
        let to = at + self.below(input.len() - at + 1).min(self.below(64));
        match self.below(9) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..to)),
            2 => {
                let part = input[at..to].to_vec();
                input.splice(at..at, part);
            }
            3 => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len() + 1);
                let end = from + self.below(other.len() - from + 1);
                input.splice(at..to, other[from..end].iter().copied());
            }
            4 => {
                let number = NUMBERS[self.below(NUMBERS.len())].to_le_bytes();
                let size = [1, 2, 4][self.below(3)];
                let end = (at + size).min(input.len());
                input.splice(at..end, number[..size].iter().copied());
            }
            5 => input.insert(at, self.next() as u8),
            // Small changes are worth most.
            6 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            7 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = byte.wrapping_add(self.below(9) as u8).wrapping_sub(4);
                }
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = self.next() as u8;
                }
            }
        }
    }
}

fn hex(input: &[u8]) -> String {
    input.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn try_one(target: &str, run: fn(&[u8]), input: &[u8]) -> usize {
    let before = HELD.with(Cell::get).0;
    HELD.with(|held| held.set((before, before)));
    if catch_unwind(AssertUnwindSafe(|| run(input))).is_err() {
        panic!("{target} panics with the input {}", hex(input));
    }
    let (after, most) = HELD.with(Cell::get);
    let taken = most - before;
    let may = FLOOR + PER_BYTE * input.len();
    assert!(
        taken <= may,
        "{target} takes {taken} bytes, more than {may}, with the input {}",
        hex(input)
    );
    assert_eq!(after, before, "{target} keeps memory with the input {}", hex(input));
    taken
}

fn fuzz(target: &str, run: fn(&[u8])) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let corpus = corpus(target);
    assert!(corpus.len() >= 10, "{target} has only {} inputs", corpus.len());
    if std::env::var_os("CLRSCOPE_FUZZ_UNPACK").is_some() {
        let folder = fuzz_folder().join("unpacked").join(target);
        fs::create_dir_all(&folder).unwrap();
        for (index, input) in corpus.iter().enumerate() {
            fs::write(folder.join(format!("{index:03}")), input).unwrap();
        }
    }
    // What is made only once, on the first use of something, belongs to no input.
    corpus.iter().for_each(|input| run(input));
    let mut most = 0;
    for input in &corpus {
        most = most.max(try_one(target, run, input));
    }
    let mut mutator =
        Mutator(number("CLRSCOPE_FUZZ_SEED").unwrap_or(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let end =
        Instant::now() + Duration::from_secs(number("CLRSCOPE_FUZZ_SECONDS").unwrap_or(SECONDS));
    let mut tried = 0;
    while Instant::now() < end {
        for _ in 0..16 {
            let input = mutator.input(&corpus);
            most = most.max(try_one(target, run, &input));
            tried += 1;
        }
    }
    println!(
        "{target}: {} saved inputs, {tried} made of them, at most {most} bytes at a time",
        corpus.len()
    );
    // Not even a hundred in all the time would be no test.
    assert!(tried >= 100, "{target}: only {tried} inputs");
}

#[test]
fn method_bodies_of_anybody_do_no_harm() {
    fuzz("body", targets::body);
}

#[test]
fn sections_of_anybody_do_no_harm() {
    fuzz("sections", targets::sections);
}

#[test]
fn signatures_of_anybody_do_no_harm() {
    fuzz("signature", targets::signature);
}

#[test]
fn rule_files_of_anybody_do_no_harm() {
    fuzz("rules", targets::rules);
}

#[test]
fn session_files_of_anybody_do_no_harm() {
    fuzz("session", targets::session);
}
