//! `cpu-starved`: threads are ready to run and get no processor.

use crate::{Evidence, Finding, Limits, Rule, Severity, Threshold, finding::severity, words};
use profile::ProcessorSummary;

pub const RULE: Rule = Rule {
    id: "cpu-starved",
    summary: "Threads are ready to run and get no processor, because of a CPU quota or of other \
        processes",
    needs: &["wall"],
    thresholds: &[
        Threshold {
            name: "waiting",
            help: "Threads that wait for a processor, on average",
            default: 0.3,
        },
        Threshold {
            name: "delayed",
            help: "Share of the time of ready threads in which they wait \
            for one, at least",
            default: 0.25,
        },
        Threshold {
            name: "throttled",
            help: "Share of the periods in which the CPU quota is used \
            up, at least",
            default: 0.1,
        },
        Threshold {
            name: "others",
            help: "Or share of the processors that other processes use, at \
            least",
            default: 0.25,
        },
    ],
    look,
};

/// Where more of the processors than this is free, threads do not wait because of others.
const IDLE: f64 = 0.1;

/// Who takes the processors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Quota,
    Others,
}

fn look(seen: &Evidence<'_>, limits: &Limits) -> Vec<Finding> {
    let Some(use_of) = seen.profile.processor_summary() else { return Vec::new() };
    let waiting = use_of.average(use_of.waited);
    if waiting < limits.get("waiting") || use_of.delayed() < limits.get("delayed") {
        return Vec::new();
    }
    let cause = match &use_of {
        of if of.throttled > 0 && of.throttled_share() >= limits.get("throttled") => Cause::Quota,
        of if of.used_by_others() >= limits.get("others") && of.idle() <= IDLE => Cause::Others,
        // It has all the processors that there are, and more threads than these: busy, and not
        // starved.
        _ => return Vec::new(),
    };
    let worst = severity(waiting, limits.get("waiting"), 6.0);
    vec![Finding {
        id: RULE.id,
        severity: match cause {
            Cause::Quota => worst,
            // It may be over when the others are done.
            Cause::Others => worst.min(Severity::Medium),
        },
        confidence: match cause {
            Cause::Quota => 0.95,
            Cause::Others => 0.8,
        },
        title: match cause {
            Cause::Quota => format!(
                "the CPU quota keeps {waiting:.1} ready threads from running \
                on average"
            ),
            Cause::Others => format!(
                "other processes keep {waiting:.1} ready threads from running \
                on average"
            ),
        },
        culprit: None,
        evidence: evidence(&use_of),
        figures: Vec::new(),
        next: match cause {
            Cause::Quota => {
                "raise the CPU limit of the container (cpu.max, resources.limits.cpu), \
                or use less CPU time: clrscope record -p cpu"
            }
            Cause::Others => {
                "give the process more of the machine (cpu.weight, \
                resources.requests.cpu, cpuset), or move the others away"
            }
        }
        .to_owned(),
    }]
}

fn evidence(of: &ProcessorSummary) -> Vec<String> {
    let mut evidence = vec![format!(
        "its threads ran for {} and were ready without a processor for {}: {} of the time in which \
            they were ready",
        words::duration(of.ran),
        words::duration(of.waited),
        words::percent(of.delayed())
    )];
    if let Some((time, period)) = of.quota {
        evidence.push(format!(
            "CPU quota: {} in every {} ({:.2} processors); used up in {} of {} periods, throttled \
                for {}",
            words::duration(time),
            words::duration(period),
            time as f64 / period.max(1) as f64,
            of.throttled_periods,
            of.periods,
            words::duration(of.throttled)
        ));
    }
    evidence.push(format!(
        "processors: {} may be used; {:.2} were busy on average, {:.2} of them with this process",
        of.processors,
        of.average(of.busy),
        of.average(of.ran)
    ));
    evidence
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LimitsOf, diagnose};
    use profile::{
        BuildOptions, ProfileBuilder,
        session::{Entry, ProcessorUse, ProfilerRun, SessionInfo, SessionRecord},
    };

    const SECOND: u64 = 1_000_000_000;

    /// What is found after ten seconds on two processors, each of which was as `second` says.
    fn found(second: ProcessorUse) -> Vec<Finding> {
        let run = ProfilerRun {
            id: "wall".into(),
            engine: String::new(),
            rate_hz: None,
            params: Vec::new(),
        };
        let mut builder = ProfileBuilder::new(BuildOptions::default());
        let info = SessionInfo {
            tool_version: String::new(),
            pid: 1,
            process_name: String::new(),
            command_line: String::new(),
            runtime: String::new(),
            platform: String::new(),
            entry: Entry::Attached,
            start_unix_ms: 0,
            start: 0,
            cpus: 2,
            profilers: vec![run],
        };
        builder.add(&SessionRecord::Info(info)).unwrap();
        for time in 1..=10 {
            let time = time * SECOND;
            let used = ProcessorUse { time, elapsed: SECOND, processors: 2, ..second };
            builder.add(&SessionRecord::Processors(used)).unwrap();
        }
        diagnose(&Evidence::from(&builder.snapshot().unwrap()), &LimitsOf::default())
    }

    fn used(ran: f64, waited: f64, busy: f64) -> ProcessorUse {
        let nanos = |seconds: f64| (seconds * SECOND as f64) as u64;
        ProcessorUse {
            ran: nanos(ran),
            waited: nanos(waited),
            busy: nanos(busy),
            ..ProcessorUse::default()
        }
    }

    #[test]
    fn a_quota_that_is_used_up_is_found_with_its_numbers() {
        let quota = Some((50_000_000, 100_000_000));
        let throttled = ProcessorUse {
            quota,
            periods: 10,
            throttled_periods: 9,
            throttled: SECOND / 2,
            ..used(0.5, 0.5, 0.6)
        };
        let findings = found(throttled);
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        assert_eq!(finding.id, "cpu-starved");
        let all = finding.evidence.join("\n");
        for part in ["0.50 processors", "90 of 100 periods", "2 may be used"] {
            assert!(all.contains(part), "`{part}` is missing in {all}");
        }
        // The same quota, hardly ever used up.
        let seldom = ProcessorUse { throttled_periods: 0, throttled: 0, ..throttled };
        assert_eq!(found(seldom), Vec::new());
    }

    #[test]
    fn other_processes_on_all_processors_are_found() {
        let findings = found(used(0.5, 1.5, 2.0));
        assert!(
            findings.len() == 1 && findings[0].title.starts_with("other processes"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_busy_program_is_not_starved() {
        // It uses both processors, and its threads wait for a moment now and then.
        assert_eq!(found(used(1.9, 0.2, 2.0)), Vec::new());
        // It has more busy threads than there are processors, and these for itself.
        assert_eq!(found(used(1.95, 4.0, 2.0)), Vec::new());
        // Its threads wake up together, and others use much of the machine, but not all.
        assert_eq!(found(used(0.4, 0.4, 1.2)), Vec::new());
        // It hardly wants to run.
        assert_eq!(found(used(0.02, 0.2, 2.0)), Vec::new());
        assert_eq!(found(ProcessorUse::default()), Vec::new());
    }
}
