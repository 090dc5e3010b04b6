//! What the thread pool does with its workers.
//!
//! Layouts are those of the runtime's manifest, `ClrEtwAll.man`. Up to .NET 5 the events come from
//! the native pool, from .NET 6 on from the managed one (`NativeRuntimeEventSource`), under the
//! same provider and with the same fields.

use crate::Event;
use crate::cursor::Cursor;
use crate::runtime::PROVIDER;
use profilers::threadpool::{PoolChange, PoolEvent};

/// Why the pool wants another number of workers: `ThreadAdjustmentReasonMap`, and from .NET 6 on
/// the list of `PortableThreadPool.HillClimbing`. The position is the number in events.
const REASONS: [&str; 9] = [
    "Warmup",
    "Initializing",
    "RandomMove",
    "ClimbingMove",
    "ChangePoint",
    "Stabilizing",
    "Starvation",
    "ThreadTimedOut",
    "CooperativeBlocking",
];

/// The runtime's own name of a reason; a number where we do not know it.
fn reason(number: u32) -> String {
    let known = REASONS.get(number as usize);
    known.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

/// What an event says of the thread pool; `None` for other events, and for one that is cut short.
pub fn parse(event: &Event) -> Option<PoolEvent> {
    let is_of_runtime = event.ty.provider == PROVIDER;
    is_of_runtime.then(|| parse_fields(event.ty.id, event.timestamp, &event.payload)).flatten()
}

fn parse_fields(id: u32, time: u64, payload: &[u8]) -> Option<PoolEvent> {
    let mut fields = Cursor(payload);
    Some(match id {
        // `ThreadPoolWorkerThreadStart` and `ThreadPoolWorkerThreadStop`.
        50 => PoolEvent::worker(time, PoolChange::Started, fields.u32()?),
        51 => PoolEvent::worker(time, PoolChange::Stopped, fields.u32()?),
        // `ThreadPoolWorkerThreadAdjustmentAdjustment`.
        55 => {
            let throughput =
                Some(f64::from_bits(fields.u64()?)).filter(|number| number.is_finite());
            let throughput = throughput.unwrap_or_default();
            let workers = fields.u32()?;
            PoolEvent::adjusted(time, workers, throughput, reason(fields.u32()?))
        }
        // `ThreadPoolMinMaxThreads`.
        59 => PoolEvent::limits(time, fields.u16()?.into(), fields.u16()?.into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When all events come.
    const TIME: u64 = 7;

    fn parsed(id: u32, payload: &[u8]) -> Option<PoolEvent> {
        parse_fields(id, TIME, payload)
    }

    #[test]
    fn events_of_real_runtimes() {
        // As .NET Core 3.1 and .NET 8 wrote them.
        let starvation =
            [0x5a, 0x80, 0x3f, 0x22, 0x6c, 0x9f, 0xfd, 0x3f, 5, 0, 0, 0, 6, 0, 0, 0, 0, 0];
        let event = parsed(55, &starvation).unwrap();
        let throughput = event.throughput.unwrap();
        assert!((1.8..1.9).contains(&throughput), "{throughput}");
        assert_eq!(event, PoolEvent::adjusted(TIME, 5, throughput, "Starvation".into()));
        let blocking =
            [0xbc, 0xf2, 0x2c, 0x6d, 0xa6, 0x66, 0x13, 0x3f, 3, 0, 0, 0, 8, 0, 0, 0, 0, 0];
        let event = parsed(55, &blocking).unwrap();
        assert_eq!((event.workers, event.reason.as_deref()), (3, Some("CooperativeBlocking")));
        let started = PoolEvent::worker(TIME, PoolChange::Started, 4);
        assert_eq!(parsed(50, &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(started));
        let stopped = PoolEvent::worker(TIME, PoolChange::Stopped, 3);
        assert_eq!(parsed(51, &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(stopped));
        let limits = PoolEvent::limits(TIME, 2, 32767);
        assert_eq!(parsed(59, &[2, 0, 0xff, 0x7f, 2, 0, 0, 0, 0, 0]), Some(limits));
        assert_eq!(parsed(55, &starvation[..15]), None);
        assert_eq!(parsed(60, &[0; 20]), None);
        let no_number = [&f64::NAN.to_le_bytes()[..], &[3, 0, 0, 0, 99, 0, 0, 0]].concat();
        let without = PoolEvent::adjusted(TIME, 3, 0.0, "99".into());
        assert_eq!(parsed(55, &no_number), Some(without));
    }
}
