use diagnostics::{DotnetProcess, Hosting, Usage};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A .NET process.
#[derive(Serialize, JsonSchema)]
pub struct Process<'a> {
    /// Process id, as clrscope sees it.
    pub pid: u32,
    /// Process id in its own container.
    pub namespace_pid: u32,
    /// Name of its user.
    pub user: Option<&'a str>,
    /// Number of its user.
    pub uid: Option<u32>,
    /// Version of its runtime.
    pub runtime: Option<&'a str>,
    /// Processor architecture, such as `x64`.
    pub arch: Option<&'a str>,
    /// How the runtime came into it: `library`, `single-file` or `native-aot`.
    pub hosting: Option<&'static str>,
    /// Whether it runs in a container.
    pub container: bool,
    /// Who made the container, such as `docker`, where its control group says so.
    pub container_engine: Option<&'static str>,
    /// The first twelve digits of the container's id.
    pub container_id: Option<String>,
    /// For how long it has been running.
    pub uptime_seconds: Option<f64>,
    /// CPU time of all its threads since it started.
    pub cpu_seconds: Option<f64>,
    /// CPU time of the threads that only collect garbage, since they started. Null if none can be
    /// recognized: without server GC or a background collection, the threads of the program
    /// collect, which cannot be seen from outside; on .NET Core 3.1 those threads have no names.
    pub gc_cpu_seconds: Option<f64>,
    /// Bytes that it has in memory (resident set).
    pub memory_bytes: Option<u64>,
    /// Its threads.
    pub threads: Option<u32>,
    /// Name for lists.
    pub name: &'a str,
    /// Name of its entry assembly.
    pub entry_assembly: Option<&'a str>,
    /// Command line.
    pub command: String,
    /// The words of the command line.
    pub args: &'a [String],
    /// Whether it can be profiled.
    pub attachable: bool,
    /// Why it cannot, and what to do about it.
    pub obstacle: Option<String>,
}

impl<'a> Process<'a> {
    /// What is known of a process at this time, and what it uses, where that is known.
    pub fn of(process: &'a DotnetProcess, usage: Option<Usage>, now: SystemTime) -> Self {
        let container = process.contained.then(|| diagnostics::container(process.pid)).flatten();
        Self {
            pid: process.pid,
            namespace_pid: process.ns_pid,
            user: process.user.as_deref(),
            uid: process.uid,
            runtime: process.runtime_version.as_deref(),
            arch: process.arch.as_deref(),
            hosting: process.hosting.map(|hosting| match hosting {
                Hosting::Library => "library",
                Hosting::SingleFile => "single-file",
                Hosting::NativeAot => "native-aot",
            }),
            container: process.contained,
            container_engine: container.as_ref().map(|container| container.engine),
            container_id: container.as_ref().map(|container| container.short_id().to_owned()),
            uptime_seconds: uptime(process, now).map(|uptime| uptime.as_secs_f64()),
            cpu_seconds: usage.map(|usage| usage.cpu.as_secs_f64()),
            gc_cpu_seconds: usage.and_then(|usage| usage.gc).map(|time| time.as_secs_f64()),
            memory_bytes: usage.map(|usage| usage.resident),
            threads: usage.map(|usage| usage.threads),
            name: &process.name,
            entry_assembly: process.entry_assembly.as_deref(),
            command: process.command_line(),
            args: &process.args,
            attachable: process.obstacle.is_none(),
            obstacle: process.obstacle.as_ref().map(ToString::to_string),
        }
    }
}

/// For how long a process has been running at this time, where that is known.
pub fn uptime(process: &DotnetProcess, now: SystemTime) -> Option<Duration> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(now.saturating_sub(Duration::from_millis(process.started_unix_ms?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnostics::Obstacle;

    #[test]
    fn json_names_the_obstacle() {
        let process = DotnetProcess {
            pid: 1234,
            ns_pid: 1,
            uid: Some(1000),
            user: None,
            name: "Shop".into(),
            args: vec!["dotnet".into(), "Shop.dll".into()],
            executable: None,
            entry_assembly: None,
            started_unix_ms: Some(1_000_000),
            runtime_version: Some("9.0.5".into()),
            arch: Some("x64".into()),
            hosting: Some(Hosting::Library),
            contained: false,
            temp_dir: "/tmp".into(),
            socket: None,
            obstacle: Some(Obstacle::Stopped { tracer: None }),
        };
        let now = UNIX_EPOCH + Duration::from_secs(1001);
        let (cpu, gc) = (Duration::from_millis(1500), Some(Duration::from_millis(500)));
        let usage = Usage { cpu, resident: 4096, threads: 3, gc };
        let json = serde_json::to_value(Process::of(&process, Some(usage), now)).unwrap();
        assert_eq!((&json["cpu_seconds"], &json["memory_bytes"]), (&1.5.into(), &4096.into()));
        assert_eq!(json["gc_cpu_seconds"], 0.5);
        let json = serde_json::to_value(Process::of(&process, None, now)).unwrap();
        assert!(json["threads"].is_null() && json["cpu_seconds"].is_null());
        assert_eq!((&json["pid"], &json["attachable"]), (&1234.into(), &false.into()));
        assert_eq!((&json["hosting"], &json["uptime_seconds"]), (&"library".into(), &1.0.into()));
        assert!(json["obstacle"].as_str().unwrap().contains("stopped"));
    }
}
