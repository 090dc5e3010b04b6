//! What clrscope does. To add something, add an entry to [`all`]; profilers come from the registry
//! by themselves.

use profilers::{PROFILERS, ProfilerSpec, by_id};

/// Makes the arguments of clrscope.
type Arguments = dyn Fn(&Given<'_>) -> Vec<String> + Send + Sync;

/// One use of clrscope.
pub struct Action {
    /// Its name in the table.
    pub name: String,
    /// Whether the target is launched by clrscope, rather than attached to.
    pub launches: bool,
    /// Lowest major version of .NET; 3 means .NET Core 3.1.
    pub since: u16,
    /// Whether it leaves a resident agent in the target, or may do so.
    pub stays: bool,
    /// Whether it needs the runtime's slot for a main profiler.
    pub needs_main_slot: bool,
    /// Exit codes that are good ones, beside 0.
    pub good: &'static [i32],
    /// The same where it is ended before its own end: the report is not complete.
    pub interrupted: &'static [i32],
    /// How many times as long as others it may take.
    pub patience: u32,
    arguments: Box<Arguments>,
}

/// What the arguments of an action depend on.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// The process to attach to.
    pub pid: &'a str,
    /// How long it lasts, as clrscope reads it.
    pub length: &'a str,
    /// The session file.
    pub output: &'a str,
    /// Methods to trace.
    pub pattern: &'a str,
}

impl Action {
    /// The arguments of clrscope. Those of a launch end with `--`.
    pub fn arguments(&self, given: &Given<'_>) -> Vec<String> {
        (self.arguments)(given)
    }

    /// Whether it rewrites methods to count their calls: threads keep what they count in.
    pub fn traces(&self) -> bool {
        self.name.contains("trace")
    }

    /// `text` as a command line, with `PID`, `LENGTH`, `OUT` and `PATTERN` in place of what is
    /// given.
    fn of(name: impl Into<String>, text: impl Into<String>) -> Action {
        let text = text.into();
        Action {
            name: name.into(),
            launches: text.starts_with("launch") || text.contains("--launch"),
            since: 3,
            stays: false,
            needs_main_slot: false,
            good: &[],
            interrupted: &[],
            patience: 1,
            arguments: Box::new(move |given| {
                let filled = |word| match word {
                    "PID" => given.pid.to_owned(),
                    "LENGTH" => given.length.to_owned(),
                    "OUT" => given.output.to_owned(),
                    "PATTERN" => given.pattern.to_owned(),
                    other => other.to_owned(),
                };
                text.split(' ').map(filled).collect()
            }),
        }
    }

    fn main_slot(mut self) -> Action {
        (self.needs_main_slot, self.stays) = (true, true);
        self
    }

    fn good(mut self, codes: &'static [i32]) -> Action {
        self.good = codes;
        self
    }

    fn interrupted(mut self, codes: &'static [i32]) -> Action {
        self.interrupted = codes;
        self
    }

    fn profiler(spec: &ProfilerSpec, name: String, text: String) -> Action {
        let action = Action::of(name, text);
        let stays = spec.needs_main_slot() || action.launches;
        Action {
            since: spec.since,
            stays,
            needs_main_slot: spec.needs_main_slot() || action.launches,
            ..action
        }
    }
}

/// The ways in which CPU samples are taken.
const ENGINES: [&str; 4] = ["kernel-ring", "signals", "kernel-ring-threads", "suspend-walk"];

/// The axis.
pub fn all() -> Vec<Action> {
    let mut all = Vec::new();
    for spec in PROFILERS {
        let (id, is_trace) = (spec.id, spec.commands().contains(&"trace"));
        if spec.attach && !is_trace {
            all.push(Action::profiler(
                spec,
                format!("attach-{id}"),
                format!("record PID -q -p {id} -d LENGTH -o OUT"),
            ));
        }
        let what =
            if is_trace { "-p trace --trace PATTERN".to_owned() } else { format!("-p {id}") };
        all.push(Action::profiler(
            spec,
            format!("launch-{id}"),
            format!("launch {what} -d LENGTH -o OUT --"),
        ));
    }
    for engine in ENGINES {
        let text = format!("record PID -q -p cpu --rate 997 --engine {engine} -d LENGTH -o OUT");
        all.push(Action::of(format!("engine-{engine}"), text));
        let text = format!("launch -p cpu --rate 997 --engine {engine} -d LENGTH -o OUT --");
        all.push(Action {
            needs_main_slot: true,
            stays: true,
            ..Action::of(format!("launch-engine-{engine}"), text)
        });
    }
    // Everything at once that fits beside another profiler.
    let beside = |spec: &&&ProfilerSpec| spec.attach && !spec.needs_main_slot();
    let many = PROFILERS.iter().filter(beside).map(|spec| spec.id).collect::<Vec<_>>().join(",");
    let since = PROFILERS.iter().filter(beside).map(|spec| spec.since).max().unwrap_or_default();
    all.push(Action {
        since,
        ..Action::of("record-many", format!("record PID -q -p {many} -d LENGTH -o OUT"))
    });
    all.push(Action::of("checkup", "checkup PID -d 1s --json").main_slot());
    all.push(Action::of("checkup-no-heap", "checkup PID -d 1s --no-heap --json"));
    all.push(Action::of("heap", "heap PID --json").main_slot().interrupted(&[8]));
    all.push(
        Action::of("heap-histogram", "heap PID --histogram --json").main_slot().interrupted(&[8]),
    );
    all.push(
        Action::of("leaks", "leaks PID --snapshots 2 --every 1s --json")
            .main_slot()
            .interrupted(&[8]),
    );
    all.push(Action::of("async", "async PID -d 1s --json").main_slot().interrupted(&[8]));
    let trace = |name: &str, more: &str| {
        Action::of(format!("trace{name}"), format!("trace PID PATTERN --for LENGTH{more} --json"))
            .main_slot()
    };
    // A build without optimization takes a second for each half a million of calls that it reads.
    let traces = [
        trace("", ""),
        trace("-count", " --count"),
        trace("-toggle", " --calls 200"),
        trace("-each-call", " --each-call -o OUT"),
    ];
    all.extend(traces.map(|trace| Action { patience: 4, ..trace }));
    all.push(Action::of("stacks", "stacks PID --merged --json"));
    all.push(Action::of("stacks-no-attach", "stacks PID --no-attach --json"));
    all.push(Action::of("deadlocks", "deadlocks PID --json").good(&[7, 9]));
    all.push(Action::of("deadlocks-no-attach", "deadlocks PID --no-attach --json").good(&[7, 9]));
    all.push(Action::of("top", "top PID --json -d LENGTH"));
    all.push(Action::of("ps", "ps"));
    for action in &mut all {
        // The command reads what a profiler of the same name takes.
        if let Some(spec) = by_id(&action.name) {
            action.since = action.since.max(spec.since);
        }
    }
    all
}
