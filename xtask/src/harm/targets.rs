//! The programs that are looked at. To add one, add an entry to [`all`].

use testkit::Runtime;

/// A program.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name in the table.
    pub name: &'static str,
    /// What it does.
    pub work: Work,
    /// Variables of its environment.
    pub env: &'static [(&'static str, &'static str)],
    /// Methods to trace in it.
    pub pattern: &'static str,
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The sample `harmtarget` in this mode.
    Sample(&'static str),
    /// A real ASP.NET application that is asked for the list of its tools all the time.
    App,
}

impl Target {
    /// Whether it runs on a runtime.
    pub fn runs_on(&self, runtime: Runtime) -> bool {
        match self.work {
            Work::Sample(_) => runtime.runs_samples(),
            Work::App => !runtime.runs_samples(),
        }
    }

    const fn sample(name: &'static str) -> Target {
        Target {
            name,
            work: Work::Sample(name),
            env: &[],
            pattern: "Clrscope.Samples.HarmTarget.*",
        }
    }
}

/// The axis.
pub fn all() -> Vec<Target> {
    vec![
        Target::sample("compute"),
        Target::sample("nre"),
        Target::sample("exceptions"),
        Target::sample("collectible"),
        Target::sample("contexts"),
        Target::sample("emit"),
        Target::sample("dynamicmethods"),
        Target::sample("churn20"),
        Target::sample("churn1000"),
        Target::sample("threads1000"),
        Target::sample("smallstacks"),
        Target::sample("recursion"),
        Target::sample("async"),
        Target::sample("pinvoke"),
        Target::sample("foreignthreads"),
        Target::sample("foreignstacks"),
        Target::sample("forkexec"),
        Target::sample("gcstress"),
        Target {
            name: "servergc",
            work: Work::Sample("gcstress"),
            env: &[("COMPlus_gcServer", "1")],
            ..Target::sample("")
        },
        Target {
            name: "gen0size",
            work: Work::Sample("gcstress"),
            env: &[("COMPlus_GCgen0size", "10000")],
            ..Target::sample("")
        },
        Target::sample("locks"),
        Target::sample("files"),
        Target {
            name: "azmcp",
            work: Work::App,
            env: &[],
            pattern: "System.Text.Json.Serialization.*.*",
        },
    ]
}
