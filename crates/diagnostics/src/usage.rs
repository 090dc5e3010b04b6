use std::time::Duration;

/// What a process uses of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all its threads since it started.
    pub cpu: Duration,
    /// Bytes that it has in memory (resident set).
    pub resident: u64,
    /// Its threads.
    pub threads: u32,
    /// CPU time of the threads that only collect garbage, since they started; `None` if none can be
    /// recognized. Without server GC or a background collection the threads of the program collect,
    /// which cannot be seen from outside; on .NET Core 3.1 those threads have no names.
    /// They are not looked for among more than 512 threads.
    pub gc: Option<Duration>,
}

/// Threads of a process up to which those of the collector are looked for: each is a file to read.
#[cfg(target_os = "linux")]
const MOST_THREADS: usize = 512;

/// What a process uses now.
///
/// # Errors
/// When the process has ended, or the system does not tell (all but Linux).
pub fn usage(pid: u32) -> std::io::Result<Usage> {
    #[cfg(target_os = "linux")]
    {
        use crate::proc;
        let stat = proc::stat(pid)?;
        Ok(Usage {
            cpu: cpu_time(&stat),
            resident: proc::resident(pid)?,
            threads: stat.threads,
            gc: gc_time(pid, stat.threads),
        })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

#[cfg(target_os = "linux")]
fn cpu_time(stat: &crate::proc::Stat) -> Duration {
    let ticks = u128::from(stat.user_ticks) + u128::from(stat.system_ticks);
    let millis = ticks * 1000 / u128::from(crate::proc::clock_ticks_per_second().max(1));
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// CPU time of the threads that only collect garbage.
#[cfg(target_os = "linux")]
fn gc_time(pid: u32, threads: u32) -> Option<Duration> {
    use crate::proc;
    if threads as usize > MOST_THREADS {
        return None;
    }
    let of_gc = proc::threads(pid)
        .ok()?
        .into_iter()
        .filter(|tid| proc::thread_comm(pid, *tid).is_ok_and(|name| is_gc_thread(&name)));
    let times = of_gc.flat_map(|tid| proc::thread_stat(pid, tid)).map(|stat| cpu_time(&stat));
    times.reduce(|sum, time| sum + time)
}

/// Whether the runtime calls a thread of its collector so: `.NET Server GC`, `.NET BGC` or `.NET
/// Background GC`, of which the kernel keeps 15 characters.
#[cfg(target_os = "linux")]
fn is_gc_thread(name: &str) -> bool {
    matches!(name, ".NET Server GC" | ".NET BGC" | ".NET Background" | ".NET Background GC")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_collector_have_names() {
        for (name, is_it) in [
            (".NET Server GC", true),
            (".NET BGC", true),
            (".NET Background", true),
            (".NET Finalizer", false),
            (".NET TP Worker", false),
            ("Background", false),
        ] {
            assert_eq!(is_gc_thread(name), is_it, "{name}");
        }
    }

    #[test]
    fn this_process_grows() {
        let own = std::process::id();
        let before = usage(own).unwrap();
        assert!(before.threads >= 1 && before.resident > 100_000, "{before:?}");
        let block = vec![1_u8; 64 << 20];
        let begun = std::time::Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed() < Duration::from_millis(200) {
            sum = block.iter().fold(sum, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
        }
        std::hint::black_box(sum);
        let after = usage(own).unwrap();
        // All of the block was written, so it is in memory.
        assert!(after.resident >= before.resident + (60 << 20), "{before:?} {after:?}");
        assert!(after.cpu > before.cpu, "{before:?} {after:?}");
        assert!(usage(u32::MAX).is_err());
    }
}
