use std::collections::BTreeMap;
use std::ops::Range;

/// A mapping of the target's address space, as a line of `/proc/<pid>/maps` tells it
/// (`proc_pid_maps(5)`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind.
    pub end: u64,
    /// Whether code in it may run.
    pub executable: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// Number of the file's inode; 0 where no file is behind it.
    pub inode: u64,
    /// Path of the file as the target sees it, `[vdso]` and the like, or empty.
    pub path: String,
}

impl Mapping {
    /// Reads one line of `/proc/<pid>/maps`. `None` if it is not one.
    pub fn parse(line: &str) -> Option<Self> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let (permissions, rest) = rest.split_once(' ')?;
        let (offset, rest) = rest.split_once(' ')?;
        let (_device, rest) = rest.split_once(' ')?;
        let (inode, path) = rest.split_once(' ').unwrap_or((rest, ""));
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        (start < end).then_some(())?;
        Some(Self {
            start,
            end,
            executable: permissions.as_bytes().get(2) == Some(&b'x'),
            offset: u64::from_str_radix(offset, 16).ok()?,
            inode: inode.trim().parse().ok()?,
            path: path.trim_start().to_owned(),
        })
    }

    /// Reads a whole `/proc/<pid>/maps`. Lines that make no sense are left out.
    pub fn parse_all(maps: &str) -> Vec<Self> {
        maps.lines().filter_map(Self::parse).collect()
    }

    /// Whether a file on some file system stands behind it. Memory files (`memfd_create`), through
    /// which .NET 7 and newer map their code heaps twice, and shared memory do not count.
    pub fn is_file(&self) -> bool {
        self.inode != 0
            && self.path.starts_with('/')
            && !self.path.starts_with("/memfd:")
            && !self.path.starts_with("/dev/")
    }
}

/// The executable mappings of a process by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mappings {
    by_start: BTreeMap<u64, Mapping>,
}

impl Mappings {
    pub(crate) fn new(all: Vec<Mapping>) -> Self {
        let mut mappings = Self::default();
        for mapping in all.into_iter().filter(|mapping| mapping.executable) {
            mappings.insert(mapping);
        }
        mappings
    }

    /// Adds a mapping; what it covers of older ones is cut off, as `mmap` does. Returns whether
    /// that changed which code of files is where.
    pub(crate) fn insert(&mut self, mapping: Mapping) -> bool {
        let Range { start, end } = mapping.start..mapping.end;
        let covered: Vec<u64> = self
            .by_start
            .range(..end)
            .rev()
            .take_while(|(_, old)| old.end > start)
            .map(|(&at, _)| at)
            .collect();
        let mut files = mapping.executable && mapping.is_file();
        for at in covered {
            let Some(old) = self.by_start.remove(&at) else { continue };
            files |= old.is_file();
            if old.end > end {
                let rest = Mapping {
                    start: end,
                    offset: old.offset.wrapping_add(end - old.start),
                    ..old.clone()
                };
                self.by_start.insert(end, rest);
            }
            if old.start < start {
                self.by_start.insert(old.start, Mapping { end: start, ..old });
            }
        }
        if mapping.executable {
            self.by_start.insert(start, mapping);
        }
        files
    }

    /// Whether the same code of files is at the same places.
    pub(crate) fn same_files(&self, other: &Self) -> bool {
        let files = |mappings: &Self| {
            mappings.iter().filter(|mapping| mapping.is_file()).cloned().collect::<Vec<_>>()
        };
        files(self) == files(other)
    }

    pub(crate) fn find(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.by_start.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.by_start.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(start: u64, end: u64, offset: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end,
            executable: true,
            offset,
            inode: u64::from(!path.is_empty()),
            path: path.into(),
        }
    }

    #[test]
    fn parses_lines_of_all_kinds() {
        let maps = "\
55d0c0a2b000-55d0c0a2d000 r-xp 00002000 fe:00 131 /usr/bin/a b (deleted)
7f0000000000-7f0000001000 rwxp 00000000 00:00 0 
7ffd1000-7ffd3000 r-xp 00000000 00:00 0                          [vdso]
7f1000000000-7f1000010000 r-xs 00010000 00:01 1034 /memfd:doublemapper (deleted)
nonsense
3-2 r-xp 0 0:0 0";
        let all = Mapping::parse_all(maps);
        assert_eq!(all.len(), 4);
        assert_eq!(
            all[0],
            Mapping {
                start: 0x55d0_c0a2_b000,
                end: 0x55d0_c0a2_d000,
                executable: true,
                offset: 0x2000,
                inode: 131,
                path: "/usr/bin/a b (deleted)".into()
            }
        );
        assert!(all[0].is_file());
        assert_eq!((all[1].path.as_str(), all[1].is_file()), ("", false));
        assert_eq!(all[2].path, "[vdso]");
        assert!(!all[3].is_file());
    }

    #[test]
    fn a_new_mapping_cuts_what_it_covers() {
        let mut mappings =
            Mappings::new(vec![exec(0x1000, 0x5000, 0, "/a"), exec(0x6000, 0x7000, 0, "/b")]);
        mappings.insert(exec(0x2000, 0x3000, 0x40, "/c"));
        assert_eq!(mappings.find(0x1fff).unwrap().path, "/a");
        assert_eq!(mappings.find(0x2000).unwrap().path, "/c");
        let rest = mappings.find(0x3000).unwrap();
        assert_eq!((rest.path.as_str(), rest.offset, rest.end), ("/a", 0x2000, 0x5000));
        assert!(mappings.find(0x5000).is_none());
        // Data over code takes the code away.
        mappings.insert(Mapping { executable: false, ..exec(0x1000, 0x8000, 0, "/d") });
        assert_eq!(mappings.iter().count(), 0);
    }
}
