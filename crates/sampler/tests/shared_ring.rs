//! The reading end of the signal engine's ring, with honest and hostile writers.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use sampler::{SharedRing, SharedRingError};
use wire::ring::{Layout, Register, slot_state};

const PERIOD: u64 = 1_000_000;

fn memory_file(size: u64) -> File {
    let file =
        File::from(memfd_create("ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap());
    file.set_len(size).unwrap();
    file
}

fn slot_at(layout: &Layout, slot: u32) -> u64 {
    (Layout::HEADER + slot as usize * layout.slot_size as usize) as u64
}

/// Writes a slot as a handler does, the state last.
fn write_slot(
    file: &File,
    layout: &Layout,
    slot: u32,
    tid: u32,
    stack: &[u8],
    claimed: u32,
    overruns: u32,
) {
    let at = slot_at(layout, slot);
    file.write_all_at(&tid.to_le_bytes(), at + 4).unwrap();
    file.write_all_at(&(5000 + u64::from(slot)).to_le_bytes(), at + 8).unwrap();
    for register in 0..17u64 {
        file.write_all_at(&(register + 1).to_le_bytes(), at + 16 + register * 8).unwrap();
    }
    file.write_all_at(&claimed.to_le_bytes(), at + 152).unwrap();
    file.write_all_at(&overruns.to_le_bytes(), at + 156).unwrap();
    file.write_all_at(stack, at + 160).unwrap();
    file.write_all_at(&slot_state::READY.to_le_bytes(), at).unwrap();
}

fn state(file: &File, layout: &Layout, slot: u32) -> u32 {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, slot_at(layout, slot)).unwrap();
    u32::from_le_bytes(bytes)
}

#[test]
fn hands_out_what_handlers_wrote_and_frees_the_slots() {
    let layout = Layout::new(4, 256);
    let file = memory_file(layout.size() as u64);
    let mut ring = SharedRing::open(&file, layout, PERIOD).unwrap();
    for round in 0..3 {
        write_slot(&file, &layout, 1, 77, &[9; 64], 64, 0);
        write_slot(&file, &layout, 3, 78, &[8; 256], 256, 4);
        file.write_all_at(&slot_state::WRITING.to_le_bytes(), slot_at(&layout, 2)).unwrap();
        let mut seen = Vec::new();
        ring.drain(|sample| {
            assert_eq!(sample.registers.ip, Register::Rip as u64 + 1);
            assert_eq!(sample.registers.sp(), Register::Rsp as u64 + 1);
            seen.push((sample.tid, sample.time, sample.cpu, sample.stack.to_vec()));
        });
        assert_eq!(
            seen,
            [(77, 5001, PERIOD, vec![9; 64]), (78, 5003, 5 * PERIOD, vec![8; 256])],
            "round {round}"
        );
        assert_eq!(
            [1, 2, 3].map(|slot| state(&file, &layout, slot)),
            [slot_state::FREE, slot_state::WRITING, slot_state::FREE]
        );
    }
    file.write_all_at(&7u64.to_le_bytes(), 8).unwrap();
    file.write_all_at(&3u64.to_le_bytes(), 16).unwrap();
    let counters = ring.counters();
    assert_eq!(
        (counters.samples, counters.dropped_full, counters.dropped_stack, counters.malformed),
        (6, 7, 3, 0)
    );
}

#[test]
fn leaves_out_what_makes_no_sense() {
    let layout = Layout::new(4, 256);
    let file = memory_file(layout.size() as u64);
    let mut ring = SharedRing::open(&file, layout, PERIOD).unwrap();
    // Longer than the slot, longer than anything, no thread.
    write_slot(&file, &layout, 0, 5, &[], layout.stack_size() as u32 + 1, 0);
    write_slot(&file, &layout, 1, 5, &[], u32::MAX, u32::MAX);
    write_slot(&file, &layout, 2, 0, &[], 0, 0);
    file.write_all_at(&0xdead_beefu32.to_le_bytes(), slot_at(&layout, 3)).unwrap();
    ring.drain(|sample| panic!("{sample:?}"));
    assert_eq!(ring.counters().malformed, 3);
    assert_eq!(state(&file, &layout, 0), slot_state::FREE);
}

#[test]
fn a_writer_that_never_stops_gives_whole_samples_only() {
    let layout = Layout::new(8, 1024);
    let file = memory_file(layout.size() as u64);
    let mut ring = SharedRing::open(&file, layout, PERIOD).unwrap();
    std::thread::scope(|scope| {
        let writer = file.try_clone().unwrap();
        let handle = scope.spawn(move || {
            let mut written = 0u32;
            while written < 20_000 {
                let slot = written % 8;
                if state(&writer, &layout, slot) == slot_state::FREE {
                    write_slot(
                        &writer,
                        &layout,
                        slot,
                        written + 1,
                        &[written as u8; 1024],
                        1024,
                        0,
                    );
                    written += 1;
                }
            }
        });
        let mut seen = 0u32;
        while !handle.is_finished() {
            ring.drain(|sample| {
                seen += 1;
                assert!(
                    sample.stack.iter().all(|byte| *byte == (sample.tid - 1) as u8),
                    "torn sample of {}",
                    sample.tid
                );
            });
        }
        ring.drain(|_| seen += 1);
        assert_eq!(seen, 20_000);
    });
    assert_eq!(ring.counters().malformed, 0);
}

#[test]
fn refuses_rings_that_could_hurt_us() {
    let layout = Layout::new(4, 256);
    let small = memory_file(layout.size() as u64 - 1);
    assert!(matches!(
        SharedRing::open(&small, layout, PERIOD),
        Err(SharedRingError::TooSmall { .. })
    ));
    for (slots, slot_size) in [(0, 256), (4, 64), (4, 129), (u32::MAX, 4096)] {
        let refused = SharedRing::open(&small, Layout { slots, slot_size }, PERIOD).err().unwrap();
        assert!(matches!(refused, SharedRingError::BadLayout { .. }), "{refused}");
    }
    // Sealed against seals: it could shrink under us.
    let unsealable = memory_file(layout.size() as u64);
    fcntl_add_seals(&unsealable, SealFlags::SEAL).unwrap();
    assert!(matches!(
        SharedRing::open(&unsealable, layout, PERIOD),
        Err(SharedRingError::NotSealed(_))
    ));
    // An ordinary file.
    let ordinary = tempfile::tempfile().unwrap();
    ordinary.set_len(layout.size() as u64).unwrap();
    assert!(matches!(
        SharedRing::open(&ordinary, layout, PERIOD),
        Err(SharedRingError::NotSealed(_))
    ));
    // Once open it cannot be shrunk.
    let file = memory_file(layout.size() as u64);
    let _ring = SharedRing::open(&file, layout, PERIOD).unwrap();
    assert!(file.set_len(0).is_err());
}
