//! Which lines a log has at each level, and what they look like.

use newrelic_compat::log::{Clock, Level, Logger, Settings, Sink};
use std::fs;
use std::time::Duration;

struct At(u64);

impl Clock for At {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0)
    }
}

const LEVELS: [(Level, &str); 5] = [
    (Level::Trace, "[Trace]"),
    (Level::Debug, "[Debug]"),
    (Level::Info, "[Info ]"),
    (Level::Warn, "[Warn ]"),
    (Level::Error, "[Error]"),
];

#[test]
fn each_level_of_the_log_and_of_a_line() {
    let folder = tempfile::tempdir().unwrap();
    for (pid, (threshold, _)) in (1..).zip(LEVELS) {
        let (sink, error) = Sink::open(Settings::default(), folder.path(), pid);
        assert!(error.is_none());
        // Its level may be set at the start or later.
        for is_set_later in [false, true] {
            let at_start = if is_set_later { Level::Error } else { threshold };
            let (sink, _) = Sink::open(Settings::default(), folder.path(), pid);
            let mut logger = Logger::new(at_start, sink, At(1_764_090_000));
            logger.configure(Settings { level: threshold, ..Settings::default() });
            for (level, label) in LEVELS {
                assert_eq!(logger.logs(level), level >= threshold, "{threshold:?} {level:?}");
                logger.log(level, label);
            }
            let path = logger.path().unwrap().to_owned();
            assert_eq!(path, folder.path().join(format!("NewRelic.Profiler.{pid}.log")));
            let expected: String = LEVELS
                .iter()
                .filter(|(level, _)| *level >= threshold)
                .map(|(_, label)| format!("{label} 2025-11-25 17:00:00 {label}\n"))
                .collect();
            // Lines are there as soon as they are written: the logger is still open.
            assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{threshold:?}");
        }
        drop(sink);
    }
}

#[test]
fn texts_are_written_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for (pid, text) in
        (1..).zip(["", "plain", "\u{65e5}\u{672c}\u{8a9e}", "\u{1f600}", "a {} %s b", "two\nlines"])
    {
        let (sink, _) = Sink::open(Settings::default(), folder.path(), pid);
        let mut logger = Logger::new(Level::Info, sink, At(0));
        logger.log(Level::Info, text);
        let path = logger.path().unwrap();
        assert_eq!(
            fs::read_to_string(path).unwrap(),
            format!("[Info ] 1970-01-01 00:00:00 {text}\n"),
            "{text}"
        );
    }
}
