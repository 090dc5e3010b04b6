//! The memory map of this process.

/// A mapping, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind.
    pub end: u64,
    /// Whether code in it may run.
    pub executable: bool,
    /// Path of the file, or a name in brackets; empty for anonymous memory.
    pub path: String,
}

/// All mappings, ascending. Empty if `/proc/self/maps` cannot be read.
pub fn mappings() -> Vec<Mapping> {
    parsed(crate::ledger::read("/proc/self/maps"))
}

/// The same with the descriptors that are left to the program, too.
pub fn mappings_now() -> Vec<Mapping> {
    parsed(crate::ledger::read_now("/proc/self/maps"))
}

fn parsed(text: std::io::Result<Vec<u8>>) -> Vec<Mapping> {
    text.map(|text| parse(&String::from_utf8_lossy(&text))).unwrap_or_default()
}

/// How many mappings there are; `None` if that cannot be read. Takes no memory for them: there may
/// be tens of thousands.
pub fn count() -> Option<u64> {
    use std::io::Read;
    let mut file = crate::ledger::open("/proc/self/maps").ok()?;
    let (mut buffer, mut count) = ([0; 4096], 0);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(count),
            read => {
                let lines = buffer.iter().take(read).filter(|byte| **byte == b'\n');
                count += lines.count() as u64;
            }
        }
    }
}

fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let path = fields.nth(3).unwrap_or_default().trim_start();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        path: path.to_owned(),
    })
}

/// The mapping of this library itself, from its first to its last page, by the address of one of
/// its functions.
pub fn mapping_of(address: u64) -> Option<Mapping> {
    mappings().into_iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let text = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 17                       /tmp/a b.so\n\
                    7ffc0000-7ffd0000 rw-p 00000000 00:00 0 \n\
                    garbage\n";
        let expected = [
            Mapping {
                start: 0x7f0000000000,
                end: 0x7f0000001000,
                executable: true,
                path: "/tmp/a b.so".into(),
            },
            Mapping { start: 0x7ffc0000, end: 0x7ffd0000, executable: false, path: String::new() },
        ];
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn all_mappings_are_counted() {
        let (some, count, more) = (mappings().len() as u64, count().unwrap(), mappings().len());
        assert!(count > 10 && (some.saturating_sub(2)..=more as u64 + 2).contains(&count));
    }

    #[test]
    fn our_own_code_is_found() {
        let mapping = mapping_of(mappings as *const () as u64).unwrap();
        assert!(mapping.executable && !mapping.path.is_empty(), "{mapping:?}");
    }
}
