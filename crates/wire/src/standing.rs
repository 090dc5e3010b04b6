//! Where a thread stands, as the kernel says in `/proc/<pid>/task/<tid>/syscall`.

use crate::BlockedCall;

/// Where the kernel says that a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It runs, or is ready to.
    Running,
    /// It is blocked.
    Blocked {
        /// In this system call; `None` where it waits for something else, such as memory.
        call: Option<BlockedCall>,
        /// Its stack pointer.
        sp: u64,
        /// Its instruction pointer.
        ip: u64,
    },
}

impl Standing {
    /// Longest line: a number of at most 20 digits, and eight of 18 characters.
    pub const LONGEST_LINE: usize = 256;

    /// Reads `running`, or the number of the system call with six arguments, stack and instruction
    /// pointer, or -1 and these two where the thread waits for something else (fs/proc/base.c,
    /// `proc_pid_syscall`). `None` for any other line, such as an empty one. Allocates nothing.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?;
        if first == "running" {
            return Some(Self::Running);
        }
        let number: i64 = first.parse().ok()?;
        let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let call = match u32::try_from(number) {
            Ok(number) => {
                let mut arguments = [0; 6];
                for argument in &mut arguments {
                    *argument = next()?;
                }
                Some(BlockedCall { number, arguments })
            }
            Err(_) => None,
        };
        let (sp, ip) = (next()?, next()?);
        Some(Self::Blocked { call, sp, ip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_threads_stand_is_read() {
        let line = b"202 0x7f6810 0x189 0x0 0x0 0x0 0xffffffff 0x7f26e2d4c0d0 0x7f6811ca3f16\n";
        let call = BlockedCall { number: 202, arguments: [0x7f_6810, 0x189, 0, 0, 0, 0xffff_ffff] };
        let (sp, ip) = (0x7f26_e2d4_c0d0, 0x7f68_11ca_3f16);
        assert_eq!(Standing::parse(line), Some(Standing::Blocked { call: Some(call), sp, ip }));
        assert_eq!(Standing::parse(b"running\n"), Some(Standing::Running));
        assert_eq!(
            Standing::parse(b"-1 0x10 0x20\n"),
            Some(Standing::Blocked { call: None, sp: 0x10, ip: 0x20 })
        );
        for bad in [
            &b""[..],
            b"202 0x1",
            b"-1 0x10",
            b"x",
            b"-1 10 20",
            b"202 1 2 3 4 5 6 7 8",
            b"\xff\xfe",
        ] {
            assert_eq!(Standing::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_longest_line_fits() {
        let widest = format!("{:#018x}", u64::MAX);
        let line = [i64::MIN.to_string()].into_iter().chain(std::iter::repeat_n(widest, 8));
        let line = line.collect::<Vec<_>>().join(" ") + "\n";
        assert!(line.len() <= Standing::LONGEST_LINE, "{}", line.len());
    }
}
