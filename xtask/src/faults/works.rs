//! What clrscope does while calls of the agent fail.

use profilers::{PROFILERS, ProfilerSpec};

/// How long a recording takes, and how long one does in which more is to happen.
pub(super) const USUAL: &str = "300ms";
pub(super) const LONG: &str = "3s";

/// A way to use the agent.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) name: &'static str,
    /// Arguments of clrscope; `PID` is replaced, `OUT` is a file.
    pub(super) arguments: Vec<&'static str>,
    pub(super) launched: bool,
    /// Whether the agent stays in the process for the next recording.
    pub(super) stays: bool,
}

/// Ways to use profilers that are not a plain recording: the profiler, the name, and the arguments.
const OTHER_WAYS: &[(&str, &str, &[&str])] = &[
    ("cpu", "cpu by signals", &["-p", "cpu", "--engine", "signals"]),
    ("cpu", "cpu by walks", &["-p", "cpu", "--engine", "suspend-walk"]),
    ("heap", "heap", &["heap", "PID", "-o", "OUT"]),
    ("async", "async", &["async", "PID"]),
    ("trace", "trace", &["trace", "PID", "Clrscope.Samples.Steady.*", "--for", USUAL]),
    ("calls", "calls", &["-p", "calls:filter=Clrscope.Samples.*"]),
];

/// All ways: each profiler of the registry is in at least one.
pub(super) fn works() -> Vec<Work> {
    let of_one = |spec: &&'static ProfilerSpec| {
        let mut others = OTHER_WAYS.iter().filter(|(profiler, ..)| *profiler == spec.id).peekable();
        match others.peek() {
            Some(_) => others.map(|(_, name, given)| Work::of(spec, name, given)).collect(),
            None => vec![Work::of(spec, spec.id, &["-p", spec.id])],
        }
    };
    PROFILERS.iter().flat_map(of_one).collect()
}

impl Work {
    fn of(spec: &ProfilerSpec, name: &'static str, given: &[&'static str]) -> Self {
        let before: &[&str] = match spec.attach {
            _ if given.first() != Some(&"-p") => &[],
            true => &["record", "PID", "-q", "-d", USUAL, "-o", "OUT"],
            false => &["launch", "-q", "-o", "OUT"],
        };
        let after: &[&str] = if spec.attach { &[] } else { &["--"] };
        Self {
            name,
            arguments: [before, given, after].concat(),
            launched: !spec.attach,
            stays: spec.needs_rules,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profiler_is_used() {
        let works = works();
        for spec in PROFILERS {
            let uses = |work: &&Work| {
                let selection = |argument: &&str| argument.split(':').next() == Some(spec.id);
                work.arguments.iter().any(selection)
            };
            assert!(works.iter().any(|work| uses(&work)), "{}", spec.id);
        }
        let arguments = |name: &str| {
            let work = works.iter().find(|work| work.name == name).unwrap();
            (work.arguments.join(" "), work.launched, work.stays)
        };
        let wall = "record PID -q -d 300ms -o OUT -p wall";
        assert_eq!(arguments("wall"), (wall.to_owned(), false, false));
        let walks = "record PID -q -d 300ms -o OUT -p cpu --engine suspend-walk";
        assert_eq!(arguments("cpu by walks"), (walks.to_owned(), false, false));
        let calls = "launch -q -o OUT -p calls:filter=Clrscope.Samples.* --";
        assert_eq!(arguments("calls"), (calls.to_owned(), true, false));
        let trace = "trace PID Clrscope.Samples.Steady.* --for 300ms";
        assert_eq!(arguments("trace"), (trace.to_owned(), false, true));
    }
}
