//! What the thread pool does with its workers.
//!
//! Layouts are those of the runtime's manifest, `ClrEtwAll.man`. Up to .NET 5 the events come from
//! the native pool, from .NET 6 on from the managed one (`NativeRuntimeEventSource`), under the
//! same provider and with the same fields.

use crate::Event;
use crate::cursor::Cursor;
use crate::runtime::PROVIDER;

/// Something that happened to the thread pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// `ThreadPoolWorkerThreadStart`: a worker began; this many are active now.
    Started(u32),
    /// `ThreadPoolWorkerThreadStop`: a worker ended; this many are active now.
    Stopped(u32),
    /// `ThreadPoolWorkerThreadAdjustmentAdjustment`: the pool wants another number of workers.
    Adjusted {
        /// Finished items per second, on average.
        throughput: f64,
        /// Workers that it wants now.
        workers: u32,
        /// Why.
        reason: Reason,
    },
    /// `ThreadPoolMinMaxThreads`: the limits were set.
    Limits {
        /// Fewest workers.
        min: u16,
        /// Most workers.
        max: u16,
    },
}

/// Why the pool wants another number of workers: `ThreadAdjustmentReasonMap`, and from .NET 6 on
/// the list of `PortableThreadPool.HillClimbing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason(pub u32);

impl Reason {
    /// Items waited, and no worker took one for half a second.
    pub const STARVATION: Reason = Reason(6);
    /// A worker blocks on a task (.NET 6 and newer).
    pub const COOPERATIVE_BLOCKING: Reason = Reason(8);

    /// The runtime's own name; a number where we do not know it.
    pub fn name(self) -> String {
        let known = [
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
        known.get(self.0 as usize).map_or_else(|| self.0.to_string(), |name| (*name).to_owned())
    }
}

/// What an event says of the thread pool; `None` for other events, and for one that is cut short.
pub fn parse(event: &Event) -> Option<Change> {
    (event.ty.provider == PROVIDER).then(|| parse_fields(event.ty.id, &event.payload)).flatten()
}

fn parse_fields(id: u32, payload: &[u8]) -> Option<Change> {
    let mut fields = Cursor(payload);
    Some(match id {
        50 => Change::Started(fields.u32()?),
        51 => Change::Stopped(fields.u32()?),
        55 => {
            let throughput =
                Some(f64::from_bits(fields.u64()?)).filter(|number| number.is_finite());
            let throughput = throughput.unwrap_or_default();
            Change::Adjusted { throughput, workers: fields.u32()?, reason: Reason(fields.u32()?) }
        }
        59 => Change::Limits { min: fields.u16()?, max: fields.u16()? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_real_runtimes() {
        // As .NET Core 3.1 and .NET 8 wrote them.
        let starvation =
            [0x5a, 0x80, 0x3f, 0x22, 0x6c, 0x9f, 0xfd, 0x3f, 5, 0, 0, 0, 6, 0, 0, 0, 0, 0];
        let Some(Change::Adjusted { throughput, workers: 5, reason: Reason::STARVATION }) =
            parse_fields(55, &starvation)
        else {
            panic!("{:?}", parse_fields(55, &starvation))
        };
        assert!((1.8..1.9).contains(&throughput), "{throughput}");
        let blocking =
            [0xbc, 0xf2, 0x2c, 0x6d, 0xa6, 0x66, 0x13, 0x3f, 3, 0, 0, 0, 8, 0, 0, 0, 0, 0];
        assert!(matches!(
            parse_fields(55, &blocking),
            Some(Change::Adjusted { workers: 3, reason: Reason::COOPERATIVE_BLOCKING, .. })
        ));
        assert_eq!(parse_fields(50, &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(Change::Started(4)));
        assert_eq!(parse_fields(51, &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(Change::Stopped(3)));
        assert_eq!(
            parse_fields(59, &[2, 0, 0xff, 0x7f, 2, 0, 0, 0, 0, 0]),
            Some(Change::Limits { min: 2, max: 32767 })
        );
        assert_eq!(parse_fields(55, &starvation[..15]), None);
        assert_eq!(parse_fields(60, &[0; 20]), None);
        let no_number = [&f64::NAN.to_le_bytes()[..], &[3, 0, 0, 0, 0, 0, 0, 0]].concat();
        let reason = Reason(0);
        assert_eq!(
            parse_fields(55, &no_number),
            Some(Change::Adjusted { throughput: 0.0, workers: 3, reason })
        );
    }

    #[test]
    fn reasons_have_the_runtimes_names() {
        assert_eq!(Reason::STARVATION.name(), "Starvation");
        assert_eq!(Reason::COOPERATIVE_BLOCKING.name(), "CooperativeBlocking");
        assert_eq!(Reason(99).name(), "99");
    }
}
