//! Which IL native code was made of, as the runtime keeps it for debuggers.
//!
//! Source: `CompressDebugInfo` in `debuginfostore.cpp` of dotnet/runtime, up to .NET 9. What is
//! read must agree with itself, so that the form of a newer version gives nothing.

use super::memory::{Memory, u32_in};

/// Longest information that is read, with what stands before it.
const LONGEST: usize = 64 << 10;

/// Flags before the information of code that was compiled at run time, from .NET 5 on.
const PATCHPOINTS: u8 = 1;
const RICH: u8 = 2;

/// What is added to IL offsets, so that those below zero, which mark prologs, epilogs and code of
/// no IL, are numbers too (`ICorDebugInfo::MAX_MAPPING_VALUE`).
const SHIFT: u32 = 3;

/// The mark of a prolog, with which every method begins.
const PROLOG: u32 = SHIFT - 2;

/// Native and IL offsets, ascending, of code of this size: by the address of its information, with
/// which code that was compiled at run time is described.
pub(super) fn of_jitted(memory: &Memory, address: u64, size: u32) -> Option<Vec<(u32, u32)>> {
    let bytes = (9..=16).rev().find_map(|bits| memory.bytes(address, (1 << bits).min(LONGEST)))?;
    // .NET Core 3.1 has no flags.
    behind_flags(&bytes).and_then(|bytes| il_map(bytes, size)).or_else(|| il_map(&bytes, size))
}

/// What follows the flags and what they announce.
fn behind_flags(bytes: &[u8]) -> Option<&[u8]> {
    let (&flags, mut rest) = bytes.split_first()?;
    if flags & !(PATCHPOINTS | RICH) != 0 {
        return None;
    }
    if flags & PATCHPOINTS != 0 {
        rest = rest.get(patchpoint_size(rest)?..)?;
    }
    if flags & RICH != 0 {
        let length = u32_in(rest, 0)? as usize;
        rest = rest.get(4..)?.get(length..)?;
    }
    Some(rest)
}

/// Size of a `PatchpointInfo` (`patchpointinfo.h`): a head, and four bytes for each local.
fn patchpoint_size(bytes: &[u8]) -> Option<usize> {
    /// Saved registers (8 bytes), number of locals, size of the frame, and four offsets.
    const HEAD: usize = 32;
    const MOST_LOCALS: u32 = 1 << 14;
    let locals = u32_in(bytes, 8).filter(|locals| *locals <= MOST_LOCALS)?;
    Some(HEAD + 4 * locals as usize)
}

/// Native and IL offsets, ascending, from the information itself.
pub(super) fn il_map(bytes: &[u8], size: u32) -> Option<Vec<(u32, u32)>> {
    const MOST: u32 = 1 << 16;
    let mut head = Nibbles { bytes, at: 0 };
    let (length, _variables) = (head.number()? as usize, head.number()?);
    let bytes = bytes.get(head.at.div_ceil(2)..)?.get(..length)?;
    let mut nibbles = Nibbles { bytes, at: 0 };
    let count = nibbles.number().filter(|count| (1..=MOST).contains(count))?;
    let mut map = Vec::with_capacity(count as usize);
    let mut native = 0u32;
    for index in 0..count {
        native = native.checked_add(nibbles.number()?).filter(|native| *native <= size)?;
        let il = nibbles.number()?;
        let _source = nibbles.number()?;
        if index == 0 && (native, il) != (0, PROLOG) {
            return None;
        }
        if il >= SHIFT {
            map.push((native, il - SHIFT));
        }
    }
    // All of it was used up.
    (nibbles.at.div_ceil(2) == length).then_some(map)
}

/// Numbers in pieces of three bits, each with one that says whether another follows.
struct Nibbles<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Nibbles<'_> {
    fn number(&mut self) -> Option<u32> {
        let mut number = 0u32;
        loop {
            let byte = *self.bytes.get(self.at / 2)?;
            let nibble = if self.at.is_multiple_of(2) { byte & 15 } else { byte >> 4 };
            self.at += 1;
            number = number.checked_mul(8)? | u32::from(nibble & 7);
            if nibble & 8 == 0 {
                return Some(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The information of a method of the base library of 3.1.23, whose code has 60 bytes: from
    /// IL 6 at 11, IL 22 at 45.
    fn information() -> Vec<u8> {
        let mut nibbles = Vec::new();
        let mut number = |number: u32| {
            let pieces = (0..11).rev().map(|piece| (number >> (3 * piece) & 7) as u8);
            let mut pieces: Vec<u8> = pieces.skip_while(|piece| *piece == 0).collect();
            if pieces.is_empty() {
                pieces.push(0);
            }
            let last = pieces.len() - 1;
            nibbles.extend(
                pieces
                    .iter()
                    .enumerate()
                    .map(|(index, piece)| piece | (u8::from(index < last) << 3)),
            );
        };
        let entries = [(0, 1), (11, 9), (34, 25), (0, 0), (9, 2)];
        number(entries.len() as u32);
        for (native, il) in entries {
            number(native);
            number(il);
            number(2);
        }
        let pack = |nibbles: &[u8]| -> Vec<u8> {
            nibbles.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4).collect()
        };
        let bounds = pack(&nibbles);
        // A length below eight has one nibble, below 64 two.
        let length = bounds.len() as u8;
        let mut all = pack(&[length >> 3 | 8, length & 7, 0]);
        all.extend(bounds);
        all
    }

    #[test]
    fn offsets_are_read_without_special_ones() {
        let bytes = information();
        assert_eq!(il_map(&bytes, 60), Some(vec![(11, 6), (45, 22)]));
        assert_eq!(il_map(&bytes, 40), None, "it reaches behind the code");
        assert_eq!(il_map(&bytes[..4], 60), None);
        let mut other = bytes.clone();
        other[2] ^= 1;
        assert_eq!(il_map(&other, 60), None, "it contradicts itself");
        assert_eq!(il_map(&[], 60), None);
    }

    #[test]
    fn flags_come_before() {
        let plain = information();
        let mut bytes = vec![0];
        bytes.extend(&plain);
        assert_eq!(behind_flags(&bytes), Some(&plain[..]));
        let mut bytes = vec![RICH, 3, 0, 0, 0, 7, 7, 7];
        bytes.extend(&plain);
        assert_eq!(behind_flags(&bytes), Some(&plain[..]));
        assert_eq!((behind_flags(&[8, 0]), behind_flags(&[])), (None, None));
    }
}
