//! Which CPU engine a recording has.

use super::super::{cpu::CpuSource, target::Target};
use crate::{EngineChoice, RecordError, RecordOptions};
use sampler::{Binding, OpenError};
use wire::CpuEngine;

/// Samples per second of the CPU engine: as asked for, and where it runs for other profilers alone
/// no fewer than they have ticks. `None` where no profiler needs it.
pub(super) fn cpu_rate(options: &RecordOptions) -> Option<u32> {
    if runs_cpu(options) {
        return Some(options.rate_hz);
    }
    let shown = options.profilers.iter().filter(|selection| selection.spec.shows_running);
    let rates = shown
        .map(|selection| selection.param("rate").and_then(|rate| rate.parse().ok()).unwrap_or(0));
    rates.max().map(|rate| options.rate_hz.max(rate))
}

fn runs_cpu(options: &RecordOptions) -> bool {
    options.profilers.iter().any(|selection| selection.spec.samples_cpu)
}

/// Opens the CPU engine that was asked for, or the best that works.
pub(in crate::linux) fn open_cpu(
    target: &Target,
    options: &RecordOptions,
) -> Result<CpuSource, RecordError> {
    let Some(rate_hz) = cpu_rate(options) else { return Ok(CpuSource::off()) };
    let opened = open_engine(target, options, rate_hz);
    if runs_cpu(options) {
        return opened;
    }
    // Without it the other profilers suspend the runtime, and walk running threads too.
    Ok(opened
        .ok()
        .filter(|source| source.engine != CpuEngine::SuspendWalk)
        .unwrap_or_else(CpuSource::off))
}

fn open_engine(
    target: &Target,
    options: &RecordOptions,
    rate_hz: u32,
) -> Result<CpuSource, RecordError> {
    let ring = |binding| CpuSource::kernel_ring(target.pid, rate_hz, binding);
    let refused =
        |engine, error: OpenError| RecordError::Engine { engine, reason: error.to_string() };
    match options.engine {
        EngineChoice::KernelRing => {
            ring(Binding::Processors).map_err(|error| refused("kernel-ring", error))
        }
        EngineChoice::KernelRingThreads => {
            ring(Binding::Threads).map_err(|error| refused("kernel-ring-threads", error))
        }
        EngineChoice::Signals => Ok(CpuSource::inside(CpuEngine::Signals, rate_hz, None)),
        EngineChoice::SuspendWalk => Ok(CpuSource::inside(CpuEngine::SuspendWalk, rate_hz, None)),
        EngineChoice::Auto => {
            let error = match ring(Binding::Processors) {
                Ok(source) => return Ok(source),
                Err(error) => error.to_string(),
            };
            // Better than to suspend the process, as the agent would where signals cannot be used.
            if let Some(reason) = target.has_no_room_for_signals() {
                match CpuSource::light_kernel_ring(target.pid, rate_hz) {
                    Ok(source) => {
                        return Ok(source.because(&format!(
                            "{error}, and timer signals are unavailable: {reason}"
                        )));
                    }
                    Err(heavy) => {
                        return Ok(CpuSource::inside(CpuEngine::Signals, rate_hz, Some(heavy)));
                    }
                }
            }
            Ok(CpuSource::inside(CpuEngine::Signals, rate_hz, Some(error)))
        }
    }
}

/// The engine that a launch asks the agent for: the choice is made before there is a process.
/// Whether signals can be used there is for the agent to find out.
pub(in crate::linux) fn engine_for_launch(
    options: &RecordOptions,
) -> Result<CpuEngine, RecordError> {
    let own = Target::new(std::process::id())
        .map_err(|source| RecordError::Io { what: "reading /proc/self/stat".into(), source })?;
    match (options.engine, cpu_rate(options)) {
        (EngineChoice::Auto, Some(rate_hz)) => {
            let ring = CpuSource::kernel_ring(own.pid, rate_hz, Binding::Processors);
            Ok(if ring.is_ok() { CpuEngine::KernelRing } else { CpuEngine::Signals })
        }
        _ => open_cpu(&own, options).map(|source| source.engine),
    }
}

/// Opens the engine that the agent of a launch was asked for: another one beside it would take each
/// sample twice. Where that is the kernel's ring and it cannot be opened for this process, the
/// agent is to sample by itself ([`wire::Control::SampleInside`]).
pub(in crate::linux) fn open_chosen(
    target: &Target,
    options: &RecordOptions,
    asked: CpuEngine,
) -> Result<CpuSource, RecordError> {
    match (options.engine, asked, cpu_rate(options)) {
        (EngineChoice::Auto, CpuEngine::KernelRing | CpuEngine::Signals, Some(rate_hz)) => {
            let ring = CpuSource::kernel_ring(target.pid, rate_hz, Binding::Processors);
            Ok(match ring {
                Ok(ring) if asked == CpuEngine::KernelRing => ring,
                ring => CpuSource::inside(
                    CpuEngine::Signals,
                    rate_hz,
                    ring.err().map(|error| error.to_string()),
                ),
            })
        }
        _ => open_cpu(target, options),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::options, *};

    #[test]
    fn the_cpu_engine_runs_for_those_that_show_running_threads() {
        let rate = |profilers: &str| cpu_rate(&options(profilers, None));
        assert_eq!(rate("gc,exceptions"), None);
        assert_eq!(rate("cpu,wall:rate=50"), Some(100));
        assert_eq!(
            (rate("wall"), rate("threads"), rate("threadpool:rate=100")),
            (Some(100), Some(100), Some(100))
        );
        let target = Target::new(std::process::id()).unwrap();
        let source = |engine, profilers: &str| {
            open_cpu(&target, &RecordOptions { engine, ..options(profilers, None) }).unwrap().engine
        };
        assert_eq!(source(EngineChoice::SuspendWalk, "cpu,wall"), CpuEngine::SuspendWalk);
        assert_eq!(source(EngineChoice::SuspendWalk, "wall"), CpuEngine::Off);
        assert_eq!(source(EngineChoice::Signals, "wall"), CpuEngine::Signals);
        assert_eq!(source(EngineChoice::Auto, "gc"), CpuEngine::Off);
    }
}
