//! Streams written byte by byte from the format's description, read back, cut and damaged.
#![forbid(unsafe_code)]

use nettrace::{Error, Event, Reader};
use proptest::prelude::*;
use std::io::{self, Read};

/// Writes a stream. Shares nothing with the reader, so that a wrong layout cannot confirm itself.
#[derive(Clone)]
struct Stream(Vec<u8>);

impl Stream {
    fn new() -> Self {
        let mut stream = Self(b"Nettrace\x14\0\0\0!FastSerialization.1".to_vec());
        stream.object("Trace", 4);
        for part in [2026u16, 11, 6, 21, 9, 30, 8, 344] {
            stream.0.extend(part.to_le_bytes());
        }
        stream.0.extend(5_000u64.to_le_bytes());
        // Ten million ticks a second, as on Windows: a tick is 100 ns.
        stream.0.extend(10_000_000u64.to_le_bytes());
        for part in [8u32, 77, 4, 1_000_000] {
            stream.0.extend(part.to_le_bytes());
        }
        stream.0.push(6);
        stream
    }

    fn object(&mut self, name: &str, version: u32) {
        self.0.extend([5, 5, 1]);
        self.0.extend(version.to_le_bytes());
        self.0.extend(version.to_le_bytes());
        self.0.extend((name.len() as u32).to_le_bytes());
        self.0.extend(name.bytes());
        self.0.push(6);
    }

    fn block(&mut self, name: &str, contents: &[u8]) {
        self.object(name, 2);
        self.0.extend((contents.len() as u32).to_le_bytes());
        while !self.0.len().is_multiple_of(4) {
            self.0.push(0);
        }
        self.0.extend(contents);
        self.0.push(6);
    }

    fn compressed(&mut self, name: &str, blobs: &[Vec<u8>]) {
        let mut contents = vec![20, 0, 1, 0];
        contents.extend([0; 16]);
        contents.extend(blobs.concat());
        self.block(name, &contents);
    }

    fn describe(&mut self, id: u32, provider: &str, event: u32) {
        let mut payload = id.to_le_bytes().to_vec();
        payload.extend(provider.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        payload.extend(event.to_le_bytes());
        payload.extend("E".encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        payload.extend(7u64.to_le_bytes());
        payload.extend([2u32, 4, 0].into_iter().flat_map(u32::to_le_bytes));
        let mut blob = vec![128, 0];
        blob.extend(varint(payload.len() as u64));
        blob.extend(payload);
        self.compressed("MetadataBlock", &[blob]);
    }

    fn stacks(&mut self, first: u32, stacks: &[&[u64]]) {
        let mut contents = first.to_le_bytes().to_vec();
        contents.extend((stacks.len() as u32).to_le_bytes());
        for stack in stacks {
            contents.extend((stack.len() as u32 * 8).to_le_bytes());
            contents.extend(stack.iter().flat_map(|address| address.to_le_bytes()));
        }
        self.block("StackBlock", &contents);
    }

    fn sequence_point(&mut self, threads: &[(u64, u32)]) {
        let mut contents = 0u64.to_le_bytes().to_vec();
        contents.extend((threads.len() as u32).to_le_bytes());
        for (thread, number) in threads {
            contents.extend(thread.to_le_bytes());
            contents.extend(number.to_le_bytes());
        }
        self.block("SPBlock", &contents);
    }

    fn end(mut self) -> Vec<u8> {
        self.0.push(1);
        self.0
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// An event with all fields but the activities; numbers and times are differences to the event
/// before.
struct Blob {
    metadata: u32,
    number: u32,
    thread: u64,
    stack: u32,
    time: u64,
    sorted: bool,
    payload: &'static [u8],
}

impl Blob {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![143 | (u8::from(self.sorted) << 6)];
        bytes.extend(varint(self.metadata.into()));
        bytes.extend(varint(self.number.into()));
        bytes.extend(varint(self.thread));
        bytes.extend(varint(3));
        bytes.extend(varint(self.thread));
        bytes.extend(varint(self.stack.into()));
        bytes.extend(varint(self.time));
        bytes.extend(varint(self.payload.len() as u64));
        bytes.extend(self.payload);
        bytes
    }
}

fn blob(thread: u64, number: u32, time: u64, sorted: bool) -> Blob {
    Blob { metadata: 1, number, thread, stack: 0, time, sorted, payload: b"" }
}

/// Two threads, a stack, a gap of two in the numbers of the first, one at its sequence point.
fn sample() -> Vec<u8> {
    let mut stream = Stream::new();
    stream.describe(1, "P", 42);
    stream.stacks(1, &[&[0x10, 0x20], &[0x30]]);
    let first = Blob { stack: 2, payload: b"abc", ..blob(7, 0, 1000, true) };
    // Two numbers are skipped; the time continues, but the other thread has older events.
    stream.compressed("EventBlock", &[first.bytes(), blob(7, 2, 500, false).bytes()]);
    stream.compressed("EventBlock", &[Blob { stack: 1, ..blob(8, 0, 1200, false) }.bytes()]);
    stream.sequence_point(&[(7, 5), (8, 1)]);
    stream.compressed("EventBlock", &[blob(8, 1, 2000, true).bytes()]);
    stream.end()
}

fn read(bytes: &[u8]) -> (Vec<Event>, Option<Error>) {
    let (mut events, mut error) = (Vec::new(), None);
    for event in Reader::new(bytes) {
        match event {
            Ok(event) => events.push(event),
            Err(found) => error = Some(found),
        }
    }
    (events, error)
}

#[test]
fn events_come_in_the_order_of_their_times() {
    let bytes = sample();
    let mut reader = Reader::new(bytes.as_slice());
    let events: Vec<Event> = reader.by_ref().map(Result::unwrap).collect();
    let facts: Vec<_> = events
        .iter()
        .map(|event| (event.timestamp, event.thread_id, event.stack.to_vec()))
        .collect();
    assert_eq!(
        facts,
        [
            (100_000, 7, vec![0x30]),
            (120_000, 8, vec![0x10, 0x20]),
            (150_000, 7, vec![]),
            (200_000, 8, vec![])
        ]
    );
    let first = &events[0];
    assert_eq!(
        (first.payload.as_slice(), first.processor, first.capture_thread_id),
        (&b"abc"[..], 3, 7)
    );
    assert_eq!((first.ty.provider.as_str(), first.ty.id, first.ty.name.as_str()), ("P", 42, "E"));
    assert_eq!((first.ty.keywords, first.ty.version, first.ty.level), (7, 2, 4));
    let trace = reader.trace().unwrap();
    assert_eq!((trace.start, trace.pid, trace.processors, trace.pointer_size), (500_000, 77, 4, 8));
    assert_eq!(trace.start_utc, [2026, 11, 21, 9, 30, 8, 344]);
    let statistics = reader.statistics();
    assert_eq!((statistics.events, statistics.lost, statistics.undescribed), (4, 3, 0));
    assert_eq!(statistics.bytes, bytes.len() as u64);
}

#[test]
fn uncompressed_events() {
    let mut stream = Stream::new();
    stream.describe(1, "P", 42);
    let mut contents = vec![20, 0, 0, 0];
    contents.extend([0; 16]);
    for (time, payload) in [(9u64, b"abcd"), (8, b"efgh")] {
        let mut event = 0x8000_0001u32.to_le_bytes().to_vec();
        event.extend(1u32.to_le_bytes());
        event.extend([5u64, 6].into_iter().flat_map(u64::to_le_bytes));
        event.extend([0u32, 0].into_iter().flat_map(u32::to_le_bytes));
        event.extend(time.to_le_bytes());
        event.extend([0xaa; 16]);
        event.extend([0xbb; 16]);
        event.extend(4u32.to_le_bytes());
        event.extend(payload);
        contents.extend((event.len() as u32).to_le_bytes());
        contents.extend(event);
    }
    stream.block("EventBlock", &contents);
    let (events, error) = read(&stream.end());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(
        events.iter().map(|event| event.payload.as_slice()).collect::<Vec<_>>(),
        [b"efgh", b"abcd"]
    );
    assert_eq!((events[0].thread_id, events[0].capture_thread_id), (5, 6));
    assert_eq!((events[0].activity, events[0].related_activity), ([0xaa; 16], [0xbb; 16]));
}

#[test]
fn a_cut_stream_gives_what_was_whole_and_then_the_error() {
    let bytes = sample();
    for length in 0..bytes.len() {
        let (events, error) = read(&bytes[..length]);
        assert!(matches!(error, Some(Error::Truncated { .. })), "cut at {length}: {error:?}");
        assert!(events.len() <= 4);
    }
    assert_eq!(read(&bytes[..bytes.len() - 1]).0.len(), 4);
}

#[test]
fn other_versions_and_other_files() {
    let v6 = b"Nettrace\0\0\0\0\x06\0\0\0\0\0\0\0";
    assert!(matches!(read(v6).1, Some(Error::Version { version: 6 })));
    assert!(matches!(
        read(b"PK\x03\x04 something else, long enough to be read").1,
        Some(Error::NotNettrace)
    ));
    let mut newer = Stream::new();
    newer.object("EventBlock", 3);
    assert!(matches!(read(&newer.end()).1, Some(Error::Version { version: 3 })));
    let mut unknown = Stream::new();
    unknown.block("Surprise", &[0; 8]);
    assert!(matches!(read(&unknown.end()).1, Some(Error::Damaged { .. })));
}

#[test]
fn a_huge_block_is_refused_before_it_is_read() {
    let mut stream = Stream::new();
    stream.object("EventBlock", 2);
    stream.0.extend(0x7fff_ffffu32.to_le_bytes());
    assert!(matches!(read(&stream.0).1, Some(Error::Damaged { what: "a block is too large", .. })));
}

#[test]
fn events_without_a_description_are_counted() {
    let mut stream = Stream::new();
    stream.compressed("EventBlock", &[blob(7, 0, 1, true).bytes()]);
    let bytes = stream.end();
    let mut reader = Reader::new(bytes.as_slice());
    assert!(reader.next_event().unwrap().is_none());
    assert_eq!(reader.statistics().undescribed, 1);
}

/// Gives its bytes in pieces, with a time-out after each.
struct Slow<'a> {
    bytes: &'a [u8],
    piece: usize,
    ready: bool,
}

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.ready = !self.ready;
        if !self.ready {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let length = self.piece.min(self.bytes.len()).min(buffer.len());
        let (head, rest) = self.bytes.split_at(length);
        buffer[..length].copy_from_slice(head);
        self.bytes = rest;
        Ok(length)
    }
}

#[test]
fn reading_goes_on_after_a_time_out() {
    let bytes = sample();
    for piece in [1, 7, 100] {
        let mut reader = Reader::new(Slow { bytes: &bytes, piece, ready: false });
        let (mut events, mut timeouts) = (0, 0);
        loop {
            match reader.next_event() {
                Ok(Some(_)) => events += 1,
                Ok(None) => break,
                Err(error) => {
                    assert!(error.is_timeout(), "{error}");
                    timeouts += 1;
                }
            }
        }
        assert_eq!((events, reader.statistics().lost), (4, 3), "pieces of {piece}");
        assert!(timeouts > 0);
    }
}

#[test]
fn a_time_out_gives_out_what_waits() {
    let mut stream = Stream::new();
    stream.describe(1, "P", 42);
    stream.compressed(
        "EventBlock",
        &[blob(7, 0, 1000, true).bytes(), blob(7, 0, 500, false).bytes()],
    );
    let mut reader = Reader::new(Slow { bytes: &stream.0, piece: usize::MAX, ready: false });
    assert_eq!(reader.next_event().unwrap().unwrap().timestamp, 100_000);
    assert_eq!(reader.next_event().unwrap().unwrap().timestamp, 150_000);
}

proptest! {
    #[test]
    fn flipped_bits_never_panic(flips in proptest::collection::vec((0usize..1000, 0u8..8), 1..8)) {
        let mut bytes = sample();
        for (at, bit) in flips {
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
        }
        let (events, _) = read(&bytes);
        // Each event takes at least two bytes.
        prop_assert!(events.len() <= bytes.len());
    }

    #[test]
    fn garbage_blocks_never_panic(kind in 0usize..4, contents in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut stream = Stream::new();
        stream.describe(1, "P", 42);
        stream.block(["EventBlock", "MetadataBlock", "StackBlock", "SPBlock"][kind], &contents);
        let _ = read(&stream.end());
    }

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
        let _ = nettrace::runtime::parse_fields(u32::from(*bytes.first().unwrap_or(&0)), &bytes);
    }
}
