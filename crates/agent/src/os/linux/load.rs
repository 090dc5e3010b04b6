//! How busy the machine is.

use crate::ledger;

/// Threads of the whole machine that run or wait for a processor at this moment, for each processor
/// (`/proc/loadavg`, proc(5)). `None` where the system does not say.
pub fn runnable_per_processor() -> Option<f64> {
    let read = |path: &str| {
        ledger::read(path).ok().map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let runnable = runnable(&read("/proc/loadavg")?)?;
    let processors = processors(&read("/sys/devices/system/cpu/online")?)?;
    Some(f64::from(runnable) / f64::from(processors))
}

/// The fourth field: threads that are runnable, and all threads.
fn runnable(text: &str) -> Option<u32> {
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// How many numbers there are in a list of numbers and ranges; `None` for none.
fn processors(list: &str) -> Option<u32> {
    let count = |part: &str| -> Option<u32> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').try_fold(0_u32, |sum, part| sum.checked_add(count(part)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        assert_eq!(runnable("20.06 19.32 17.38 27/1234 5678\n"), Some(27));
        assert_eq!(runnable("0.00 0.00"), None);
        assert_eq!(processors("0-1\n"), Some(2));
        assert_eq!(processors("0,2-5"), Some(5));
        assert_eq!([processors(""), processors("3-1"), processors("x")], [None; 3]);
        // This thread, at least.
        assert!(runnable_per_processor().unwrap() > 0.0);
    }
}
