//! Which methods the code is that was compiled at run time.
//!
//! Before the first instruction of such code stands a pointer to its header: debug information,
//! exception clauses, GC information, the `MethodDesc`, and the table of its functions (`codeman.h`
//! of dotnet/runtime; equal in 3.1, 8, 9 and 10). So a search backwards from an address finds it.
//! What is found must agree with itself: the functions must begin at that first instruction and
//! cover the address, and each must have unwind information that is sound.

use super::{
    debug_info,
    memory::{Memory, is_pointer, u32_in, u64_in},
    types::{TypeNames, TypeRow},
};
use metadata::{column, table};
use wire::{UnwindTable, unwind_table};

/// How far back code is searched for its beginning: most methods are short.
const REACHES: [u64; 3] = [4 << 10, 32 << 10, 256 << 10];

/// Code begins at multiples of this.
const ALIGNMENT: u64 = 8;

/// Offsets in the header.
const METHOD: usize = 24;
const COUNT: usize = 32;
const FUNCTIONS: usize = 36;

/// Bytes of an entry of the table of functions.
const FUNCTION: u64 = 12;

/// Most functions and funclets of a method.
const MOST_FUNCTIONS: u32 = 4096;

/// Size of a `MethodDescChunk`, which stands before the `MethodDesc`s in it (`method.hpp`).
const CHUNK: u64 = 24;

/// Code of a method.
pub(super) struct Jitted {
    pub start: u64,
    pub size: u32,
    /// Address of its `MethodDesc`.
    pub method: u64,
    pub unwind: Option<UnwindTable>,
    /// Native and IL offsets, ascending; empty where they are not known.
    pub il_map: Vec<(u32, u32)>,
}

/// The code around an address, in executable memory from `from` on.
pub(super) fn code_at(memory: &Memory, from: u64, address: u64) -> Option<Jitted> {
    REACHES.iter().find_map(|reach| {
        let first = from.max(address.saturating_sub(*reach)).next_multiple_of(ALIGNMENT);
        let length = usize::try_from(address.checked_sub(first)?).ok()?;
        let bytes = memory.bytes(first, length)?;
        // From the nearest on: where the pointer to the header would be.
        let mut slots = (0..length.saturating_sub(7)).step_by(ALIGNMENT as usize).rev();
        slots.find_map(|at| {
            let header = u64_in(&bytes, at).filter(|header| {
                is_pointer(*header) && header % 8 == 0 && !(first..=address).contains(header)
            })?;
            header_of(memory, header, first + at as u64 + 8, address)
        })
    })
}

fn header_of(memory: &Memory, header: u64, start: u64, address: u64) -> Option<Jitted> {
    let bytes: [u8; FUNCTIONS + FUNCTION as usize] = memory.array(header)?;
    let method = u64_in(&bytes, METHOD).filter(|method| is_pointer(*method) && method % 8 == 0)?;
    let count = u32_in(&bytes, COUNT).filter(|count| (1..=MOST_FUNCTIONS).contains(count))?;
    let (begin, end) = (u32_in(&bytes, FUNCTIONS)?, u32_in(&bytes, FUNCTIONS + 4)?);
    let base = start.checked_sub(u64::from(begin))?;
    if base % ALIGNMENT != 0 || end <= begin {
        return None;
    }
    let last = header + FUNCTIONS as u64 + FUNCTION * u64::from(count - 1);
    let end = memory.u32(last + 4).filter(|last| *last >= end)?;
    let size = end - begin;
    if address >= start.checked_add(u64::from(size))? {
        return None;
    }
    let unwind = unwind_table::of_jitted(memory, start, size)?;
    let debug_info = u64_in(&bytes, 0).filter(|address| is_pointer(*address));
    let il_map = debug_info.and_then(|address| debug_info::of_jitted(memory, address, size));
    let il_map = il_map.unwrap_or_default();
    Some(Jitted { start, size, method, unwind: Some(unwind), il_map })
}

/// What a `MethodDesc` is.
pub(super) enum MethodOf {
    /// A method with metadata: its type and its row.
    Row(TypeRow, u32),
    /// Made at run time: `DynamicMethod`, or a stub of the runtime; its name where it is known.
    Dynamic(Option<String>),
}

/// Reads a `MethodDesc` (`method.hpp`). Its row must be one of the methods of its type.
pub(super) fn method_of(memory: &Memory, types: &TypeNames<'_>, method: u64) -> Option<MethodOf> {
    /// `mcDynamic` in the low bits of `m_wFlags`.
    const CLASSIFICATION: u16 = 7;
    const DYNAMIC: u16 = 7;
    let [rest_low, rest_high, index, _, _, _, flags_low, flags_high] = memory.array(method)?;
    if u16::from_le_bytes([flags_low, flags_high]) & CLASSIFICATION == DYNAMIC {
        return Some(MethodOf::Dynamic(dynamic_name(memory, method)));
    }
    let chunk = method.checked_sub(8 * u64::from(index) + CHUNK)?;
    let range = u32::from(memory.u16(chunk + 18)?);
    let rest = u32::from(u16::from_le_bytes([rest_low, rest_high]));
    let word = memory.u64(chunk)?;
    // On .NET Core 3.1 it is a distance.
    let candidates = [word, chunk.wrapping_add(word)];
    let owner = candidates
        .into_iter()
        .filter(|table| is_pointer(*table) && table % 8 == 0)
        .find_map(|table| types.row_of_type(table))?;
    // How the bits of the token are divided differs between versions.
    let rows = [(12, 0xfff), (14, 0x3ff)]
        .map(|(bits, ranges)| (range & ranges) << bits | rest & ((1 << bits) - 1));
    let row = owner
        .metadata
        .members(table::TYPE_DEF, owner.row, column::TYPE_METHODS)
        .find(|row| rows.contains(row))?;
    Some(MethodOf::Row(owner, row))
}

/// Name of a `DynamicMethodDesc`, which stands behind its signature (`method.hpp`). A
/// `MethodDesc` has 8 bytes, and 16 from .NET 9 on.
fn dynamic_name(memory: &Memory, method: u64) -> Option<String> {
    const LONGEST: usize = 256;
    let is_name = |name: &String| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_graphic() || letter == ' ')
    };
    [24, 32].into_iter().find_map(|offset| {
        let at = method + offset;
        let word = memory.u64(at)?;
        // On .NET Core 3.1 it is a distance.
        let candidates = [word, at.wrapping_add(word)].into_iter().filter(|at| is_pointer(*at));
        candidates.filter_map(|at| memory.text(at, LONGEST)).find(is_name)
    })
}
