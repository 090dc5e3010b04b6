//! The records in a ring (`perf_event_open(2)`, "MMAP layout"). They come from the kernel, but are
//! read as if they did not.

use std::borrow::Cow;

use perf_event_open_sys::bindings;
use unwind::{Mapping, Registers};

use super::registers;
use crate::event::ReturnAddresses;

/// A record without what all records have in common.
#[derive(Debug)]
pub(super) enum Record<'a> {
    Sample(Sample<'a>),
    Mapped {
        of: Task,
        mapping: Mapping,
    },
    Named {
        of: Task,
        exec: bool,
        name: Cow<'a, str>,
    },
    Forked {
        of: Task,
    },
    Exited {
        of: Task,
    },
    Lost(u64),
    Throttled,
    /// Nothing that we use.
    Other,
}

/// A thread at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) time: u64,
}

#[derive(Debug)]
pub(super) struct Sample<'a> {
    pub(super) of: Task,
    /// The event that we opened.
    pub(super) id: u64,
    /// The event that wrote this: one of its heirs, or itself.
    pub(super) stream: u64,
    /// CPU time that the writing event has counted so far, if it was asked for.
    pub(super) count: Option<u64>,
    pub(super) in_kernel: bool,
    /// Return addresses in user space, found by following frame pointers.
    pub(super) callers: ReturnAddresses<'a>,
    /// Registers and stack; `None` for a thread without user space.
    pub(super) user: Option<(Registers, &'a [u8])>,
}

/// Bytes of a record's header.
pub(super) const HEADER: usize = 8;
/// Bytes at the end of all records but samples: pid and tid, time, id, stream id.
const TRAILER: usize = 32;
/// `PROT_EXEC`.
const EXECUTABLE: u32 = 4;

/// Reads bytes from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Text up to the first zero byte.
    fn text(&mut self) -> Cow<'a, str> {
        let text = self.0.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text)
    }
}

/// Reads one record, header included. `read` tells whether samples carry a count. `None` if it is
/// malformed.
pub(super) fn parse(record: &[u8], read: bool) -> Option<Record<'_>> {
    let mut reader = Reader(record);
    let kind = reader.u32()?;
    let misc = reader.u32()? & 0xffff;
    if kind == bindings::PERF_RECORD_SAMPLE {
        return sample(reader, misc, read).map(Record::Sample);
    }
    // All others end with whom and when they are about.
    let body = reader.0.len().checked_sub(TRAILER)?;
    let mut trailer = Reader(reader.0.get(body..)?);
    let pid = trailer.u32()?;
    let tid = trailer.u32()?;
    let time = trailer.u64()?;
    let mut reader = Reader(reader.0.get(..body)?);
    let record = match kind {
        bindings::PERF_RECORD_MMAP2 => {
            let of = Task { pid: reader.u32()?, tid: reader.u32()?, time };
            let (start, length, offset) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let _device = reader.u64()?;
            let inode = reader.u64()?;
            let _generation = reader.u64()?;
            let protection = reader.u32()?;
            let _flags = reader.u32()?;
            let path = match reader.text() {
                anonymous if anonymous == "//anon" => String::new(),
                path => path.into_owned(),
            };
            let executable = protection & EXECUTABLE != 0;
            let offset = if inode == 0 { 0 } else { offset };
            let mapping =
                Mapping { start, end: start.checked_add(length)?, executable, offset, inode, path };
            Record::Mapped { of, mapping }
        }
        bindings::PERF_RECORD_COMM => {
            let of = Task { pid: reader.u32()?, tid: reader.u32()?, time };
            Record::Named {
                of,
                exec: misc & bindings::PERF_RECORD_MISC_COMM_EXEC != 0,
                name: reader.text(),
            }
        }
        bindings::PERF_RECORD_FORK | bindings::PERF_RECORD_EXIT => {
            let (pid, _parent_pid, tid, _parent_tid) =
                (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
            let of = Task { pid, tid, time };
            if kind == bindings::PERF_RECORD_FORK {
                Record::Forked { of }
            } else {
                Record::Exited { of }
            }
        }
        bindings::PERF_RECORD_LOST => {
            let _id = reader.u64()?;
            Record::Lost(reader.u64()?)
        }
        bindings::PERF_RECORD_LOST_SAMPLES => Record::Lost(reader.u64()?),
        bindings::PERF_RECORD_THROTTLE => Record::Throttled,
        _ => {
            let _ = (pid, tid);
            Record::Other
        }
    };
    Some(record)
}

fn sample<'a>(mut reader: Reader<'a>, misc: u32, read: bool) -> Option<Sample<'a>> {
    let (pid, tid, time) = (reader.u32()?, reader.u32()?, reader.u64()?);
    let (id, stream) = (reader.u64()?, reader.u64()?);
    let count = if read { Some(reader.u64()?) } else { None };
    let callers = callers(&mut reader)?;
    let abi = reader.u64()?;
    let registers = match abi {
        0 => None,
        _ => {
            let values = reader.bytes(registers::COUNT * 8)?.as_chunks::<8>().0;
            Some(registers::read(values.try_into().ok()?))
        }
    };
    let copied = usize::try_from(reader.u64()?).ok()?;
    let stack = reader.bytes(copied)?;
    // Behind the bytes stands how many of them were really copied, unless there are none.
    let stack = match copied {
        0 => stack,
        _ => stack.get(..usize::try_from(reader.u64()?).ok()?)?,
    };
    Some(Sample {
        of: Task { pid, tid, time },
        id,
        stream,
        count,
        in_kernel: misc & bindings::PERF_RECORD_MISC_CPUMODE_MASK
            == bindings::PERF_RECORD_MISC_KERNEL,
        callers,
        user: registers.map(|registers| (registers, stack)),
    })
}

/// The part of a chain of calls that is in user space, without the instruction pointer at its
/// beginning.
fn callers<'a>(reader: &mut Reader<'a>) -> Option<ReturnAddresses<'a>> {
    let length = usize::try_from(reader.u64()?).ok()?.checked_mul(8)?;
    let chain = reader.bytes(length)?.as_chunks::<8>().0;
    let user = bindings::PERF_CONTEXT_USER.to_le_bytes();
    let begin = chain.iter().position(|word| *word == user);
    // Behind the mark stands the instruction pointer. No other mark follows.
    Some(ReturnAddresses(begin.and_then(|mark| chain.get(mark + 2..)).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds records as the kernel writes them.
    struct Builder(Vec<u8>);

    impl Builder {
        fn new(kind: u32, misc: u16) -> Self {
            let mut bytes = kind.to_le_bytes().to_vec();
            bytes.extend(misc.to_le_bytes());
            bytes.extend([0; 2]);
            Self(bytes)
        }

        fn u32(mut self, value: u32) -> Self {
            self.0.extend(value.to_le_bytes());
            self
        }

        fn u64(mut self, value: u64) -> Self {
            self.0.extend(value.to_le_bytes());
            self
        }

        fn bytes(mut self, bytes: &[u8]) -> Self {
            self.0.extend(bytes);
            self
        }

        fn trailer(self) -> Self {
            self.u32(70).u32(71).u64(1234).u64(5).u64(6)
        }
    }

    fn a_sample(stack: &[u8], copied: u64) -> Vec<u8> {
        let mut builder = Builder::new(9, 2).u32(70).u32(71).u64(1234).u64(5).u64(6).u64(999);
        let chain = [bindings::PERF_CONTEXT_USER, 9, 100, 200];
        builder = chain.into_iter().fold(builder.u64(4), Builder::u64).u64(2);
        for value in 0..registers::COUNT as u64 {
            builder = builder.u64(value + 1);
        }
        builder.u64(stack.len() as u64).bytes(stack).u64(copied).0
    }

    #[test]
    fn reads_samples() {
        let record = a_sample(&[7; 32], 24);
        let Some(Record::Sample(sample)) = parse(&record, true) else { panic!() };
        assert_eq!(sample.of, Task { pid: 70, tid: 71, time: 1234 });
        assert_eq!(
            (sample.id, sample.stream, sample.count, sample.in_kernel),
            (5, 6, Some(999), false)
        );
        let (registers, stack) = sample.user.unwrap();
        assert_eq!(stack, [7; 24]);
        assert_eq!(sample.callers.iter().collect::<Vec<_>>(), [100, 200]);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(
                (registers.ip, registers.sp(), registers.fp(), registers.get(3)),
                (9, 8, 7, Some(2))
            );
        }
        // More copied than there is room for: nonsense.
        assert!(parse(&a_sample(&[7; 32], 40), true).is_none());
        for cut in 0..record.len() {
            assert!(parse(&record[..cut], true).is_none(), "cut to {cut}");
        }
    }

    #[test]
    fn reads_threads_without_user_space() {
        let record =
            Builder::new(9, 1).u32(70).u32(71).u64(1234).u64(5).u64(6).u64(0).u64(0).u64(0).0;
        let Some(Record::Sample(sample)) = parse(&record, false) else { panic!() };
        assert!(sample.in_kernel && sample.user.is_none() && sample.count.is_none());
        assert_eq!(sample.callers.iter().count(), 0);
    }

    #[test]
    fn reads_what_happens_beside() {
        let mapped = Builder::new(10, 2)
            .u32(70)
            .u32(71)
            .u64(0x1000)
            .u64(0x2000)
            .u64(0x3000)
            .u64(0xfe01)
            .u64(42)
            .u64(0);
        let mapped = mapped.u32(5).u32(2).bytes(b"/lib/a.so\0\0\0\0\0\0\0").trailer().0;
        let Some(Record::Mapped { mapping, .. }) = parse(&mapped, true) else { panic!() };
        let expected = Mapping {
            start: 0x1000,
            end: 0x3000,
            executable: true,
            offset: 0x3000,
            inode: 42,
            path: "/lib/a.so".into(),
        };
        assert_eq!(mapping, expected);

        let anonymous = Builder::new(10, 2)
            .u32(70)
            .u32(71)
            .u64(0x1000)
            .u64(0x2000)
            .u64(0x1000)
            .u64(0)
            .u64(0)
            .u64(0);
        let anonymous = anonymous.u32(7).u32(2).bytes(b"//anon\0\0").trailer().0;
        let Some(Record::Mapped { mapping, .. }) = parse(&anonymous, true) else { panic!() };
        assert_eq!((mapping.path.as_str(), mapping.offset), ("", 0));

        let named =
            Builder::new(3, 0x2000).u32(70).u32(72).bytes(b".NET Timer\0\0\0\0\0\0").trailer().0;
        let Some(Record::Named { of, exec: true, name }) = parse(&named, true) else { panic!() };
        assert_eq!((of.tid, &*name, of.time), (72, ".NET Timer", 1234));

        for (kind, forked) in [(7, true), (4, false)] {
            let record = Builder::new(kind, 0).u32(70).u32(70).u32(99).u32(71).u64(1).trailer().0;
            match parse(&record, true) {
                Some(Record::Forked { of }) if forked => assert_eq!(of.tid, 99),
                Some(Record::Exited { of }) if !forked => assert_eq!(of.tid, 99),
                other => panic!("{other:?}"),
            }
        }
        let lost = Builder::new(2, 0).u64(5).u64(17).trailer().0;
        assert!(matches!(parse(&lost, true), Some(Record::Lost(17))));
        assert!(matches!(
            parse(&Builder::new(13, 0).u64(3).trailer().0, true),
            Some(Record::Lost(3))
        ));
        assert!(matches!(parse(&Builder::new(99, 0).trailer().0, true), Some(Record::Other)));
    }
}
