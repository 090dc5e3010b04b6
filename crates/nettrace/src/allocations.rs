//! Allocations out of the runtime's events: `AllocationSampled` of .NET 10 and newer,
//! `GCAllocationTick` before that.
//!
//! Layouts are those of the runtime's manifest, `ClrEtwAll.man`, for processes of 64 bits.

use crate::cursor::Cursor;
use crate::runtime::PROVIDER;
use crate::{Event, Located, thread_id};
use profilers::allocations::{AllocationHeap, AllocationSample, AllocationSampling};
use rows::{StackId, TypeId};
use std::sync::Arc;

/// Mean number of allocated bytes from one `AllocationSampled` to the next
/// (`SamplingDistributionMean` of the runtime).
pub const MEAN_BYTES: f64 = 102_400.0;

/// Most characters of a type's name that are read; the runtime writes at most this many.
const MAX_NAME: usize = 4096;

/// A sampled allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The sample. Its type has no id yet.
    pub sample: Located<AllocationSample>,
    /// Name of the type as reflection writes it.
    pub type_name: String,
}

/// What an allocation event says; `None` for any other event, and for one that is cut short.
pub fn parse(event: &Event) -> Option<Allocation> {
    if event.ty.provider != PROVIDER {
        return None;
    }
    let fields = match event.ty.id {
        10 => tick(&event.payload)?,
        303 => sampled(&event.payload)?,
        _ => return None,
    };
    let is_tick = event.ty.id == 10;
    let row = AllocationSample {
        time: event.timestamp,
        thread: thread_id(event.thread_id),
        stack: StackId::UNDEFINED,
        ty: TypeId::UNDEFINED,
        heap: fields.heap,
        size: fields.size,
        bytes: fields.bytes,
        truncated: false,
        sampling: if is_tick { AllocationSampling::Tick } else { AllocationSampling::Random },
    };
    let sample = Located { row, stack: Arc::clone(&event.stack) };
    Some(Allocation { sample, type_name: fields.type_name })
}

#[derive(Debug, PartialEq)]
struct Fields {
    type_name: String,
    heap: AllocationHeap,
    size: u64,
    bytes: u64,
}

fn heap(kind: u32) -> AllocationHeap {
    match kind {
        1 => AllocationHeap::Large,
        2 => AllocationHeap::Pinned,
        _ => AllocationHeap::Small,
    }
}

/// Version 2 has the type's name, version 3 (.NET Core 3.1) adds the address, version 4 (.NET 6)
/// the object's size.
fn tick(payload: &[u8]) -> Option<Fields> {
    let mut fields = Cursor(payload);
    let _amount_32 = fields.u32()?;
    let heap = heap(fields.u32()?);
    let _runtime_instance = fields.u16()?;
    let bytes = fields.u64()?;
    let _type_id = fields.u64()?;
    let type_name = fields.utf16z(MAX_NAME)?;
    let _heap_index = fields.u32()?;
    let _address = fields.u64();
    Some(Fields { type_name, heap, size: fields.u64().unwrap_or(0), bytes })
}

fn sampled(payload: &[u8]) -> Option<Fields> {
    let mut fields = Cursor(payload);
    let heap = heap(fields.u32()?);
    let _runtime_instance = fields.u16()?;
    let _type_id = fields.u64()?;
    let type_name = fields.utf16z(MAX_NAME)?;
    let _address = fields.u64()?;
    let size = fields.u64()?;
    Some(Fields { type_name, heap, size, bytes: weight(size) })
}

/// Bytes that a randomly sampled object of a size stands for: its size by the chance that one of
/// its bytes was picked (Horvitz and Thompson, 1952). Picks are a Poisson process over allocated
/// bytes, so that chance is `1 - exp(-size / mean)`.
pub fn weight(size: u64) -> u64 {
    if size == 0 {
        return 0;
    }
    let size = size as f64;
    let chance = -(-size / MEAN_BYTES).exp_m1();
    (size / chance).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    /// Numbers with their widths, and the name where the layout has it.
    fn payload(before: &[(u64, usize)], after: &[(u64, usize)]) -> Vec<u8> {
        let bytes = |fields: &[(u64, usize)]| {
            fields
                .iter()
                .flat_map(|(value, width)| value.to_le_bytes()[..*width].to_vec())
                .collect::<Vec<_>>()
        };
        [bytes(before), name("N.Thing"), bytes(after)].concat()
    }

    #[test]
    fn ticks_of_all_versions() {
        let before = [(106_000, 4), (1, 4), (9, 2), (106_000, 8), (0x7000, 8)];
        let expected = Some(Fields {
            type_name: "N.Thing".into(),
            heap: AllocationHeap::Large,
            size: 0,
            bytes: 106_000,
        });
        assert_eq!(tick(&payload(&before, &[(3, 4)])), expected);
        assert_eq!(tick(&payload(&before, &[(3, 4), (0x8000, 8)])), expected);
        let with_size = tick(&payload(&before, &[(3, 4), (0x8000, 8), (90_000, 8)])).unwrap();
        assert_eq!(with_size.size, 90_000);
        let whole = payload(&before, &[(3, 4)]);
        for length in 0..whole.len() {
            assert_eq!(tick(&whole[..length]), None, "cut at {length}");
        }
    }

    #[test]
    fn random_samples() {
        let whole = payload(&[(2, 4), (9, 2), (0x7000, 8)], &[(0x8000, 8), (24, 8), (77, 8)]);
        let fields = sampled(&whole).unwrap();
        assert_eq!(
            (fields.heap, fields.size, fields.type_name.as_str()),
            (AllocationHeap::Pinned, 24, "N.Thing")
        );
        assert_eq!(
            fields.bytes, 102_412,
            "an object far below the mean stands for the mean and half its size"
        );
        for length in 0..whole.len() - 8 {
            assert_eq!(sampled(&whole[..length]), None, "cut at {length}");
        }
    }

    #[test]
    fn weights_are_unbiased() {
        assert_eq!((weight(0), weight(1)), (0, 102_401));
        // Hardly an object of ten means is missed.
        assert_eq!(weight(1_024_000), 1_024_046);
        assert!(weight(u64::MAX) >= u64::MAX / 2);
        for size in [24_u64, 1_000, 85_000, 102_400, 1_000_000] {
            // Expected weight of one object is its size.
            let chance = 1.0 - (-(size as f64) / MEAN_BYTES).exp();
            let expected = weight(size) as f64 * chance;
            assert!((expected / size as f64 - 1.0).abs() < 1e-3, "{size}: {expected}");
        }
    }
}
