//! What clrscope does while calls of the agent fail.

/// A way to use the agent.
pub(super) struct Work {
    pub(super) name: &'static str,
    /// Arguments of clrscope; `PID` is replaced, `OUT` is a file.
    pub(super) arguments: &'static [&'static str],
    pub(super) launched: bool,
    /// Whether the agent stays in the process for the next recording.
    pub(super) stays: bool,
}

const fn attached(name: &'static str, arguments: &'static [&'static str]) -> Work {
    Work { name, arguments, launched: false, stays: false }
}

pub(super) const fn launched(name: &'static str, arguments: &'static [&'static str]) -> Work {
    Work { name, arguments, launched: true, stays: false }
}

/// How long a recording takes, and how long one does in which more is to happen.
pub(super) const USUAL: &str = "300ms";
pub(super) const LONG: &str = "3s";

macro_rules! record {
    ($list:literal $(, $more:literal)*) => {
        &["record", "PID", "-q", "-d", USUAL, "-o", "OUT", "-p", $list $(, $more)*]
    };
}

pub(super) const WORKS: &[Work] = &[
    attached("cpu by signals", record!("cpu", "--engine", "signals")),
    attached("cpu by walks", record!("cpu", "--engine", "suspend-walk")),
    attached("wall", record!("wall")),
    attached("exceptions", record!("exceptions")),
    attached("gc", record!("gc")),
    attached("allocations", record!("allocations")),
    attached("locks", record!("locks")),
    attached("counters", record!("counters")),
    attached("threads", record!("threads")),
    attached("threadpool", record!("threadpool")),
    attached("jit", record!("jit")),
    attached("loads", record!("loads")),
    attached("heap", &["heap", "PID", "-o", "OUT"]),
    attached("survivors", record!("survivors")),
    attached("finalizers", record!("finalizers")),
    attached("async", &["async", "PID"]),
    Work {
        name: "trace",
        arguments: &["trace", "PID", "Clrscope.Samples.Steady.*", "--for", USUAL],
        launched: false,
        stays: true,
    },
    launched(
        "calls",
        &["launch", "-q", "-p", "calls:filter=Clrscope.Samples.*", "-o", "OUT", "--"],
    ),
    launched("transitions", &["launch", "-q", "-p", "transitions", "-o", "OUT", "--"]),
    launched("exact-allocations", &["launch", "-q", "-p", "exact-allocations", "-o", "OUT", "--"]),
];
