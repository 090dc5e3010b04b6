//! What the resident memory of a process is made of, by its mappings.

use super::proc::{Map, parse_maps};
use crate::MemorySplit;
use std::{fs, io};

/// Largest inaccessible mapping below a stack that is taken for its guard: glibc makes one page,
/// the runtime up to four.
const MOST_GUARD: u64 = 4 * 4096;

/// An arena of glibc's `malloc`: memory of this size and alignment, of which the first part is in
/// use (`HEAP_MAX_SIZE`, malloc/arena.c).
const ARENA: u64 = 64 << 20;

/// Smallest segment of the managed heap: memory of which the first part is in use, and the rest is
/// reserved. 256 MB by default, 4 GB with Server GC, less under a memory limit (gc.cpp,
/// `get_valid_segment_size`).
const LEAST_SEGMENT: u64 = 16 << 20;

/// Segments under a memory limit have a multiple of this size (gc.cpp,
/// `align_on_segment_hard_limit`); without a limit, their size is a power of two.
const SEGMENT_STEP: u64 = 16 << 20;

/// Reads `/proc/<pid>/smaps`.
///
/// # Errors
/// When the process has ended or belongs to somebody else.
pub fn memory(pid: u32) -> io::Result<MemorySplit> {
    Ok(split(&fs::read(format!("/proc/{pid}/smaps"))?))
}

/// Mappings with the bytes of each that are in memory.
fn resident(smaps: &[u8]) -> Vec<(Map, u64)> {
    let mut maps: Vec<(Map, u64)> = Vec::new();
    for line in smaps.split(|&byte| byte == b'\n') {
        if let Some(rest) = line.strip_prefix(b"Rss:") {
            let text = String::from_utf8_lossy(rest);
            let kilobytes =
                text.trim().strip_suffix("kB").and_then(|number| number.trim().parse::<u64>().ok());
            if let (Some((_, resident)), Some(kilobytes)) = (maps.last_mut(), kilobytes) {
                *resident = kilobytes.saturating_mul(1024);
            }
        } else if line
            .first()
            .is_some_and(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte))
        {
            maps.extend(parse_maps(line).pop().map(|map| (map, 0)));
        }
    }
    maps
}

/// How many bytes at the end of a mapping and what is reserved behind it are a segment. The kernel
/// joins what a program maps right below a segment with the part of the segment that is in use.
fn segment_of(total: u64) -> u64 {
    if total.is_multiple_of(SEGMENT_STEP) { total } else { 1 << total.ilog2() }
}

fn split(smaps: &[u8]) -> MemorySplit {
    let maps = resident(smaps);
    let mut split = MemorySplit::default();
    let size = |map: &Map| map.range.end.saturating_sub(map.range.start);
    let locked = |map: &Map| !map.read && !map.write && !map.execute;
    for (at, (map, resident)) in maps.iter().enumerate() {
        let mut resident = *resident;
        split.resident = split.resident.saturating_add(resident);
        let below = at.checked_sub(1).and_then(|at| maps.get(at)).map(|(map, _)| map);
        let above = maps.get(at + 1).map(|(map, _)| map);
        let path = map.path.as_deref().map(|path| path.to_string_lossy());
        let path = path.as_deref().unwrap_or_default();
        let part = if path.contains("doublemapper") || (map.inode == 0 && map.execute) {
            &mut split.code
        } else if path.ends_with(".dll") || path.ends_with(".exe") {
            &mut split.assemblies
        } else if map.file().is_some() && !map.shared {
            &mut split.native_modules
        } else if path.starts_with("[stack")
            || below.is_some_and(|guard| {
                path.is_empty()
                    && map.write
                    && locked(guard)
                    && size(guard) <= MOST_GUARD
                    && guard.range.end == map.range.start
            })
        {
            &mut split.stacks
        } else if path == "[heap]"
            || above.is_some_and(|rest| {
                path.is_empty()
                    && map.range.start % ARENA == 0
                    && locked(rest)
                    && rest.range.start == map.range.end
                    && rest.range.end == map.range.start.saturating_add(ARENA)
            })
        {
            &mut split.native_heap
        } else if let Some(total) = above
            .filter(|rest| path.is_empty() && map.write && locked(rest))
            // Blocks of native memory may end at the guard of a stack.
            .filter(|rest| rest.range.start == map.range.end && size(rest) > MOST_GUARD)
            .map(|rest| size(map).saturating_add(size(rest)))
            .filter(|total| *total >= LEAST_SEGMENT)
        {
            // Which of the pages are in memory is not known; those of a program that keeps growing
            // are.
            let below = resident.min(total - segment_of(total));
            split.other = split.other.saturating_add(below);
            resident -= below;
            &mut split.segments
        } else {
            &mut split.other
        };
        *part = part.saturating_add(resident);
    }
    split
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resident_byte_is_in_one_part() {
        let split = memory(std::process::id()).unwrap();
        let parts = [
            split.assemblies,
            split.native_modules,
            split.code,
            split.stacks,
            split.native_heap,
            split.segments,
            split.other,
        ];
        assert_eq!(parts.iter().sum::<u64>(), split.resident);
        assert!(split.native_modules > 0 && split.stacks > 0 && split.native_heap > 0, "{split:?}");
    }

    #[test]
    fn mappings_are_told_apart() {
        let smaps = b"\
7ef9dc000000-7ef9dc021000 rw-p 00000000 00:00 0 \nRss:                 132 kB\n\
7ef9dc021000-7ef9e0000000 ---p 00000000 00:00 0 \nRss:                   0 kB\n\
7ef9e2ffe000-7ef9e2fff000 ---p 00000000 00:00 0 \nRss:                   0 kB\n\
7ef9e2fff000-7ef9e37ff000 rw-p 00000000 00:00 0 \nRss:                  16 kB\n\
7ef9f0000000-7ef9f0001000 rwxs 00000000 00:01 9  /memfd:doublemapper (deleted)\n\
Rss:                   4 kB\n\
7ef9f1000000-7ef9f1001000 r--p 00000000 08:01 7  /app/System.Private.CoreLib.dll\n\
Rss:                   8 kB\n\
7ef9f2000000-7ef9f2001000 r-xp 00000000 08:01 8  /app/libcoreclr.so\nRss:                  12 kB\n\
7ef9f8000000-7ef9f8901000 rw-p 00000000 00:00 0 \nRss:                 900 kB\n\
7ef9fbffe000-7ef9fc0d0000 rw-p 00000000 00:00 0 \nRss:                 832 kB\n\
7ef9fc0d0000-7efa0bffe000 ---p 00000000 00:00 0 \nRss:                   0 kB\n\
7efa0c000000-7efa0c001000 rw-p 00000000 00:00 0 \nRss:                   3 kB\n\
7efa0c001000-7efa0c100000 ---p 00000000 00:00 0 \nRss:                   0 kB\n";
        let split = split(smaps);
        assert_eq!(
            [
                split.native_heap,
                split.stacks,
                split.code,
                split.assemblies,
                split.native_modules,
                split.segments,
                split.other
            ]
            .map(|bytes| bytes / 1024),
            [132, 16, 4, 8, 12, 832, 903]
        );
    }

    #[test]
    fn what_is_mapped_right_below_a_segment_is_not_of_it() {
        let split_of = |start: &str| {
            let smaps = format!(
                "{start}-7ef9fc0d0000 rw-p 00000000 00:00 0 \nRss:               12000 kB\n\
                7ef9fc0d0000-7efa0bffe000 ---p 00000000 00:00 0 \nRss:                   0 kB\n"
            );
            let split = split(smaps.as_bytes());
            assert_eq!(split.resident, 12_000 << 10);
            [split.segments, split.other].map(|bytes| bytes / 1024)
        };
        // 256 MB, and the same with 2,052 KB below.
        assert_eq!(split_of("7ef9fbffe000"), [12_000, 0]);
        assert_eq!(split_of("7ef9fbdfd000"), [9_948, 2_052]);
        // 272 MB, as there may be under a memory limit.
        assert_eq!(split_of("7ef9faffe000"), [12_000, 0]);
    }

    #[test]
    fn what_ends_at_the_guard_of_a_stack_is_no_segment() {
        let smaps = b"\
7eff9c8d0000-7eff9f7ff000 rw-p 00000000 00:00 0 \nRss:               48128 kB\n\
7eff9f7ff000-7eff9f800000 ---p 00000000 00:00 0 \nRss:                   0 kB\n";
        let split = split(smaps);
        assert_eq!([split.segments, split.other], [0, 48_128 << 10]);
    }
}
