/// What a profiler is, as one constant: help, docs, web forms and event masks come from it.
#[derive(Clone, Copy, Debug)]
pub struct ProfilerSpec {
    /// Id on the command line and in sessions.
    pub id: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// What it costs the program that is recorded, for people who choose; the page of the profiler
    /// has the measurements.
    pub overhead: &'static str,
    /// What it measures and how to read it, for `clrscope profilers <id>` and the docs.
    pub description: &'static str,
    /// What a sample or event of it counts.
    pub values: &'static [ValueSpec],
    /// Its parameters.
    pub params: &'static [ParamSpec],
    /// Low and high half of the event mask that the agent needs, `COR_PRF_MONITOR` and
    /// `COR_PRF_HIGH_MONITOR`.
    pub events: (u32, u32),
    /// EventPipe providers that clrscope listens to from outside.
    pub event_pipe: &'static [EventPipeSpec],
    /// Lowest major version of .NET (3 means .NET Core 3.1).
    pub since: u16,
    /// Why it is not safe on older ones, and what to do there instead; follows "process 1 runs .NET
    /// Core 3.1:". Empty where `since` is 3.
    pub too_old: &'static str,
    /// Whether it can be attached to a running process, or needs a launch.
    pub attach: bool,
    /// The commands that run it, where these are not `record` and `launch`; empty otherwise.
    pub own_commands: &'static [&'static str],
    /// Whether it shows stacks of threads that run, which are those of their CPU samples: the CPU
    /// engine runs for it, too, with at least as many samples as its parameter `rate` says.
    pub shows_running: bool,
    /// Whether what it shows are the samples of the CPU engine, which come at the rate of the
    /// recording (`--rate`).
    pub samples_cpu: bool,
    /// Whether it instruments the methods that match rules, and cannot run without rules. It has a
    /// parameter `dry` then, with which it changes no method.
    pub needs_rules: bool,
    /// Where it takes heap snapshots, as many as its parameter `snapshots` says: the profilers that
    /// can be along in a recording that ends with the last snapshot. `None` where it takes none.
    pub heap_snapshots: Option<&'static [&'static str]>,
    /// Profilers that cannot be in one recording with it, because both use the runtime's callbacks
    /// of collections.
    pub excludes: &'static [&'static str],
    /// How it gets what it shows, in words of reports.
    pub engine: fn(&EngineFacts<'_>) -> String,
    /// How a check-up records it, in the form of `-p`; `None` where it does not.
    pub checkup: Option<&'static str>,
}

/// What is known of a recording when a profiler has to say how it gets what it shows.
#[derive(Clone, Copy, Debug)]
pub struct EngineFacts<'a> {
    /// Major version of the runtime.
    pub major: u16,
    /// Whether the agent gets events of the runtime, too, from a session inside the process.
    pub events_inside: bool,
    /// The engine that takes CPU samples.
    pub cpu: &'a str,
    /// How the stacks of all threads are taken at a tick.
    pub stacks: &'a str,
}

impl ProfilerSpec {
    /// What a specification has that says nothing else.
    pub const PLAIN: Self = Self {
        id: "",
        summary: "",
        overhead: "",
        description: "",
        values: &[],
        params: &[],
        events: (0, 0),
        event_pipe: &[],
        since: 3,
        too_old: "",
        attach: true,
        own_commands: &[],
        shows_running: false,
        samples_cpu: false,
        needs_rules: false,
        heap_snapshots: None,
        excludes: &[],
        engine: |_| "EventPipe".to_owned(),
        checkup: None,
    };

    /// `COR_PRF_ALLOWABLE_NOTIFICATION_PROFILER` and its high half, corprof.idl.
    const NOTIFICATION_ONLY: (u32, u32) = (0xb1e3_2b7f, 0xfe);

    /// Events that the runtime never reverts, so that it detaches no profiler that has asked for
    /// them: `COR_PRF_MONITOR_IMMUTABLE` with its high half, `COR_PRF_MONITOR_ENTERLEAVE` and
    /// `COR_PRF_ENABLE_REJIT`, corprof.idl.
    const IRREVERSIBLE: (u32, u32) = (0xeefc_dc00, 0x8);

    /// The commands that run it.
    pub const fn commands(&self) -> &'static [&'static str] {
        match (self.own_commands, self.attach) {
            ([], true) => &["record", "launch"],
            ([], false) => &["launch"],
            (own, _) => own,
        }
    }

    /// Whether it can only run as the one main profiler of a process, not beside another one.
    pub const fn needs_main_slot(&self) -> bool {
        self.events.0 & !Self::NOTIFICATION_ONLY.0 != 0
            || self.events.1 & !Self::NOTIFICATION_ONLY.1 != 0
    }

    /// Whether an agent that has run it can never be detached.
    pub const fn is_irreversible(&self) -> bool {
        self.events.0 & Self::IRREVERSIBLE.0 != 0 || self.events.1 & Self::IRREVERSIBLE.1 != 0
    }
}

/// What a sample counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSpec {
    /// Such as `cpu`, `wall`, `exceptions`.
    pub kind: &'static str,
    /// Such as `nanoseconds`, `count`, `bytes`.
    pub unit: &'static str,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// Name in `-p profiler:name=value`.
    pub name: &'static str,
    /// What it does, and its range.
    pub help: &'static str,
    /// Default, as text.
    pub default: &'static str,
    /// What values are right.
    pub kind: ParamKind,
}

/// What values of a parameter are right.
#[derive(Clone, Copy, Debug)]
pub enum ParamKind {
    /// A whole number from the first to the second, both included.
    Number(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Names, with `+` between them; perhaps none.
    Names,
}

/// An EventPipe provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPipeSpec {
    /// Such as `Microsoft-Windows-DotNETRuntime`. `{name}` stands for each of the names in a
    /// parameter of the profiler: the same is listened to at all of them.
    pub provider: &'static str,
    /// Keyword bits.
    pub keywords: u64,
    /// Level: 4 informational, 5 verbose.
    pub level: u32,
    /// What the provider itself reads, `key=value;…`. `{name}` stands for the value of a parameter
    /// of the profiler; while that is empty, the provider is not listened to. `{session}` stands
    /// for an id of the recording.
    pub arguments: &'static str,
    /// Lowest and highest major version of .NET on which it is listened to.
    pub runtimes: (u16, u16),
    /// Whether the stacks of its events are wanted.
    pub stacks: bool,
}

/// A provider to be listened to, with a user's choices in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSource {
    /// Name of the provider.
    pub provider: String,
    /// Keyword bits.
    pub keywords: u64,
    /// Level.
    pub level: u32,
    /// What the provider itself reads.
    pub arguments: String,
    /// Whether the stacks of its events are wanted.
    pub stacks: bool,
}

impl EventPipeSpec {
    /// Versions of .NET on which EventCounters are listened to. .NET Core 3.1 crashes if a program
    /// ends while its first ones are written, whoever listens. .NET 5 was not tried.
    pub const EVENT_COUNTERS: (u16, u16) = (6, u16::MAX);

    /// Every version of .NET.
    pub const ALL: (u16, u16) = (0, u16::MAX);
}
