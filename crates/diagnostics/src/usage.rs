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
}

/// What a process uses now.
///
/// # Errors
/// When the process has ended, or the system does not tell (all but Linux).
pub fn usage(pid: u32) -> std::io::Result<Usage> {
    #[cfg(target_os = "linux")]
    {
        use crate::proc;
        let stat = proc::stat(pid)?;
        let ticks = u128::from(stat.user_ticks) + u128::from(stat.system_ticks);
        let millis = ticks * 1000 / u128::from(proc::clock_ticks_per_second().max(1));
        Ok(Usage {
            cpu: Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)),
            resident: proc::resident(pid)?,
            threads: stat.threads,
        })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

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
