//! Which guesses at addresses of code the runtime may be asked about.
//!
//! Words on a stack may be old, or no return addresses at all. Of code that was compiled at run
//! time the runtime has a map that says for any address whether it is code. In a ready-to-run image
//! it goes back from the address to the nearest function that has been called; if there is none
//! before it, it runs off the front of the table of functions and the process dies
//! (`ReadyToRunJitManager::JitCodeToMethodInfo`, src/coreclr/vm/codeman.cpp). So a guess in an
//! image is looked at here first: it must lie in a function, behind a call. Such a word is a return
//! address, and a function that will be returned to has been called. What was being executed must
//! lie in a function, too.

use crate::os::{
    clock,
    maps::{self, Mapping},
};
use std::collections::HashMap;
use wire::Nanos;
use wire::call_site::{LONGEST_CALL, ends_in_call};
use wire::memory::Memory;
use wire::unwind_table::Image;

/// Mappings of one image, or of one piece of memory, that are looked at for its headers.
const MOST_PARTS: usize = 64;

/// What executable memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    /// Code that was compiled at run time, and stubs.
    Heap,
    /// A ready-to-run image.
    Image(Image),
    /// Native code and the like.
    Other,
    /// It could not be read, so that it may be anything.
    Unread,
}

/// How an address came to be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The instruction there was being executed.
    Executed,
    /// It stands before what may be a return address.
    Guessed,
}

/// How long the memory map is believed: heaps of methods that were freed may become images.
const BELIEVED: Nanos = 100_000_000;
/// After it was read, it is not read again for this many times as long as that has taken: with
/// thousands of mappings, it takes some milliseconds.
const REST: u64 = 20;

/// The executable memory of this process.
#[derive(Debug, Default)]
pub struct CodeRegions {
    /// Ascending.
    parts: Vec<(Mapping, Ground)>,
    /// 0 if it must be read.
    read_at: Nanos,
    /// When it may be read again.
    rests: Nanos,
}

impl CodeRegions {
    /// Whether addresses can be judged now. Otherwise the memory map would be read too often.
    pub fn is_ready(&self) -> bool {
        let now = clock::monotonic();
        now.saturating_sub(self.read_at) <= BELIEVED || now >= self.rests
    }

    /// Those of these addresses that may be asked about, in their order; the others go to
    /// `refused`, or to `later` where that is not known yet: they may be in memory that is new.
    pub fn filter_safe(
        &mut self,
        memory: &impl Memory,
        addresses: &[u64],
        trust: Trust,
        mut refused: impl FnMut(u64),
        mut later: impl FnMut(u64),
    ) -> Vec<u64> {
        let now = clock::monotonic();
        let is_believed = now.saturating_sub(self.read_at) <= BELIEVED;
        let (mut is_fresh, rests) = (false, now < self.rests);
        let mut allowed = Vec::with_capacity(addresses.len());
        for &address in addresses {
            if !is_fresh && (!is_believed || self.at(address).is_none() && !rests) {
                is_fresh = true;
                self.look(memory);
            }
            let is_executed = trust == Trust::Executed;
            if !is_fresh && !is_executed && self.at(address).is_none() {
                later(address);
                continue;
            }
            let may_be_code = match self.at(address) {
                Some(Ground::Heap) => true,
                // Other processors have other tables.
                Some(Ground::Image(image)) => {
                    (cfg!(not(target_arch = "x86_64")) || image.has_function_at(memory, address))
                        && (is_executed || is_in_call(memory, address))
                }
                Some(Ground::Other) => is_executed,
                // Where the map could not be read either, it may be an image.
                None => is_executed && !self.parts.is_empty(),
                Some(Ground::Unread) => false,
            };
            if may_be_code {
                allowed.push(address);
            } else {
                refused(address);
            }
        }
        allowed
    }

    /// The ready-to-run image that an address lies in.
    pub fn image_at(&mut self, memory: &impl Memory, address: u64) -> Option<Image> {
        if clock::monotonic().saturating_sub(self.read_at) > BELIEVED {
            self.look(memory);
        }
        match self.at(address)? {
            Ground::Image(image) => Some(image),
            Ground::Heap | Ground::Other | Ground::Unread => None,
        }
    }

    /// Forgets everything: memory was given back.
    pub fn forget(&mut self) {
        self.parts.clear();
        self.read_at = 0;
    }

    fn at(&self, address: u64) -> Option<Ground> {
        let behind = self.parts.partition_point(|(part, _)| part.start <= address);
        let (part, ground) = self.parts.get(behind.checked_sub(1)?)?;
        (address < part.end).then_some(*ground)
    }

    fn look(&mut self, memory: &impl Memory) {
        let begun = clock::thread_cpu();
        self.read_at = clock::monotonic();
        self.read(memory, maps::mappings());
        let taken = clock::thread_cpu().saturating_sub(begun);
        self.rests = clock::monotonic().saturating_add(taken.saturating_mul(REST));
    }

    fn read(&mut self, memory: &impl Memory, mappings: Vec<Mapping>) {
        // The map cannot be read: descriptors are short. What was known is better than nothing.
        if mappings.is_empty() {
            return;
        }
        let mut known: HashMap<u64, (Mapping, Ground)> =
            self.parts.drain(..).map(|(part, ground)| (part.start, (part, ground))).collect();
        for (index, part) in mappings.iter().enumerate().filter(|(_, part)| part.executable) {
            let ground = match known.remove(&part.start) {
                // Anonymous memory may have become something else without a sign.
                Some((same, ground))
                    if same == *part && !part.path.is_empty() && ground != Ground::Unread =>
                {
                    ground
                }
                _ => ground(memory, mappings.get(..=index).unwrap_or_default()),
            };
            self.parts.push((part.clone(), ground));
        }
    }
}

/// What the last of these mappings is.
fn ground(memory: &impl Memory, mappings: &[Mapping]) -> Ground {
    let Some(part) = mappings.last() else { return Ground::Other };
    let is_anonymous = part.path.is_empty() || part.path.starts_with("[anon");
    if part.path.starts_with('[') && !is_anonymous {
        return Ground::Other;
    }
    if !memory.read(part.start, &mut [0]) {
        return Ground::Unread;
    }
    // Where the runtime may not both write and execute memory, it maps its heaps twice.
    let is_file = !(is_anonymous || part.path.starts_with("/memfd:"));
    let (mut above, mut found) = (part.start, None);
    for mapping in mappings.iter().rev().take(MOST_PARTS) {
        // An image that was read instead of mapped is one piece of memory.
        let belongs = if is_file { mapping.path == part.path } else { mapping.end >= above };
        if !belongs {
            if is_file {
                continue;
            }
            break;
        }
        above = mapping.start;
        // The head of a file may be mapped again within its image: the lowest one is the image's
        // own.
        let contains = |image: &Image| image.contains(part.start);
        found = Image::at(memory, mapping.start).filter(contains).or(found);
        // All images within a single-file application have its path: the nearest one is that of the
        // code.
        if is_file && found.is_none() {
            found = Image::in_page(memory, mapping.start, part.start).filter(contains);
            if found.is_some() {
                break;
            }
        }
    }
    match found {
        Some(image) => Ground::Image(image),
        None if is_file => Ground::Other,
        None => Ground::Heap,
    }
}

/// Whether an address is the last byte of a call instruction.
fn is_in_call(memory: &impl Memory, address: u64) -> bool {
    let Some(behind) = address.checked_add(1) else { return false };
    let mut code = [0; LONGEST_CALL];
    let Some(start) = behind.checked_sub(code.len() as u64) else { return false };
    memory.read(start, &mut code) && ends_in_call(&code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::memory::OwnMemory;

    fn mapping(start: u64, end: u64, executable: bool, path: &str) -> Mapping {
        Mapping { start, end, executable, path: path.into() }
    }

    #[test]
    fn native_code_is_never_asked_about_and_anonymous_code_is() {
        let mut regions = CodeRegions::default();
        let memory = OwnMemory::default();
        let here = maps::mappings as *const () as u64;
        let mut refused = Vec::new();
        let asked = regions.filter_safe(
            &memory,
            &[here, 8, u64::MAX],
            Trust::Guessed,
            |address| refused.push(address),
            |_| {},
        );
        assert!(asked.is_empty(), "{asked:x?}");
        assert_eq!(refused, [here, 8, u64::MAX]);
        assert_eq!(
            regions.filter_safe(&memory, &[here], Trust::Executed, |_| {}, |_| {}),
            [here],
            "what runs is what it is"
        );
        struct Blank;
        impl Memory for Blank {
            fn read(&self, _: u64, out: &mut [u8]) -> bool {
                out.fill(0);
                true
            }
        }
        let heap = [mapping(0x1000, 0x2000, false, ""), mapping(0x2000, 0x3000, true, "")];
        regions.read(&Blank, heap.to_vec());
        assert_eq!(regions.at(0x2fff), Some(Ground::Heap));
        assert_eq!(regions.at(0x1fff), None, "what cannot run is no code");
        regions.forget();
        assert_eq!(regions.at(0x2fff), None);
    }

    #[test]
    fn what_cannot_be_read_is_not_asked_about() {
        struct Nothing;
        impl Memory for Nothing {
            fn read(&self, _: u64, _: &mut [u8]) -> bool {
                false
            }
        }
        let mut regions = CodeRegions::default();
        let now = clock::monotonic();
        // Neither the map, nor what is in it.
        (regions.read_at, regions.rests) = (now, now + 60_000_000_000);
        let ask = |regions: &mut CodeRegions| {
            regions.read_at = clock::monotonic();
            regions.filter_safe(&Nothing, &[0x2005], Trust::Executed, |_| {}, |_| {})
        };
        assert_eq!(ask(&mut regions), []);
        for path in ["", "/app/lib.dll"] {
            regions.read(&Nothing, vec![mapping(0x2000, 0x3000, true, path)]);
            assert_eq!(ask(&mut regions), [], "{path}");
        }
        // It can be read again, and is what it is.
        let memory = OwnMemory::default();
        let here = maps::mappings as *const () as u64;
        let of_code =
            maps::mappings().into_iter().find(|part| (part.start..part.end).contains(&here));
        let of_code = vec![of_code.unwrap()];
        regions.read(&Nothing, of_code.clone());
        assert_eq!(regions.at(here), Some(Ground::Unread));
        regions.read(&memory, of_code.clone());
        assert_eq!(regions.at(here), Some(Ground::Other));
        // Without a map, what was known stays.
        regions.read(&memory, Vec::new());
        assert_eq!(regions.at(here), Some(Ground::Other));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn in_an_image_only_what_lies_behind_a_call_is_asked_about() {
        const BASE: u64 = 0x10_0000;
        // Headers of a PE32+ image of 64 KiB with one function at 0x2000 to 0x2010, and its code:
        // two calls.
        let mut image = vec![0_u8; 0x1_0000];
        let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"MZ");
        put(60, &0x80_u32.to_le_bytes());
        put(0x80, b"PE\0\0");
        put(0x80 + 24, &0x20b_u16.to_le_bytes());
        put(0x80 + 24 + 56, &0x1_0000_u32.to_le_bytes());
        put(0x80 + 24 + 112 + 24, &0x1000_u32.to_le_bytes());
        put(0x80 + 24 + 112 + 28, &12_u32.to_le_bytes());
        put(0x1000, &[0x2000_u32, 0x2010, 0x3000].map(u32::to_le_bytes).concat());
        put(0x2000, &[0x90, 0xe8, 1, 2, 3, 4, 0x90]);
        put(0x2800, &[0x90, 0xe8, 1, 2, 3, 4, 0x90]);
        struct Fake(Vec<u8>);
        impl Memory for Fake {
            fn read(&self, address: u64, out: &mut [u8]) -> bool {
                let Some(at) = address.checked_sub(BASE) else { return false };
                let Some(bytes) = self.0.get(at as usize..at as usize + out.len()) else {
                    return false;
                };
                out.copy_from_slice(bytes);
                true
            }
        }
        // Loaders may leave the head of the file where the code begins, too.
        image.copy_within(0..0x200, 0x1800);
        let memory = Fake(image);
        let path = "/app/lib.dll";
        for path in [path, ""] {
            let mut regions = CodeRegions::default();
            let mappings = [
                mapping(BASE, BASE + 0x1800, false, path),
                mapping(BASE + 0x1800, BASE + 0x5000, true, path),
            ];
            regions.read(&memory, mappings.to_vec());
            let guesses =
                [0x2005, 0x2004, 0x2006, 0x200f, 0x2805, 0x4fff].map(|offset| BASE + offset);
            let mut refused = 0;
            regions.read_at = clock::monotonic();
            assert_eq!(
                regions.filter_safe(&memory, &guesses, Trust::Guessed, |_| refused += 1, |_| {}),
                [BASE + 0x2005],
                "{path}"
            );
            assert_eq!(refused, 5);
            assert_eq!(
                regions.image_at(&memory, BASE + 0x2000).map(|image| image.base),
                Some(BASE),
                "{path}"
            );
            assert_eq!(regions.image_at(&memory, BASE - 1), None);
            let executed =
                regions.filter_safe(&memory, &guesses, Trust::Executed, |_| refused += 1, |_| {});
            assert_eq!(executed, guesses[..4], "what is executed lies in a function");
        }
    }
}
