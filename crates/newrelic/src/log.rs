//! The log of this process.

use newrelic_compat::log::{Level, Logger, Message, Settings, Sink, SystemClock};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Takes lines from all threads.
#[derive(Debug)]
pub struct Log {
    /// The lowest level that is written, so that lines that are not wanted cost nothing.
    level: AtomicU8,
    logger: Mutex<Logger<SystemClock>>,
}

impl Log {
    /// A log for lines of `level` and above.
    pub fn new(level: Level, sink: Sink) -> Self {
        let level_of_sink = if matches!(sink, Sink::Nowhere) { u8::MAX } else { level as u8 };
        Self {
            level: AtomicU8::new(level_of_sink),
            logger: Mutex::new(Logger::new(level, sink, SystemClock)),
        }
    }

    /// Takes other settings, after the configuration was read again.
    pub fn configure(&self, settings: Settings) {
        let mut logger = self.logger.lock().unwrap_or_else(PoisonError::into_inner);
        logger.configure(settings);
        let level = if logger.logs(Level::Error) { settings.level as u8 } else { u8::MAX };
        self.level.store(level, Relaxed);
    }

    /// Writes a line. `text` is only asked where the level is written.
    pub fn line<T: AsRef<str>>(&self, level: Level, text: impl FnOnce() -> T) {
        if level as u8 >= self.level.load(Relaxed) {
            let text = text();
            self.logger.lock().unwrap_or_else(PoisonError::into_inner).log(level, text.as_ref());
        }
    }

    /// Writes lines that were noticed elsewhere.
    pub fn messages(&self, messages: &[Message]) {
        for message in messages {
            self.line(message.level, || &message.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_is_not_written_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let (sink, _) = Sink::open(Settings::default(), folder.path(), 1);
        let log = Log::new(Level::Info, sink);
        let made = Cell::new(0);
        let text = |text: &'static str| {
            made.set(made.get() + 1);
            text
        };
        log.line(Level::Debug, || text("no"));
        log.line(Level::Info, || text("a"));
        log.configure(Settings { enabled: false, ..Settings::default() });
        log.line(Level::Error, || text("no"));
        log.configure(Settings { level: Level::Trace, ..Settings::default() });
        log.line(Level::Trace, || text("b"));
        assert_eq!(made.get(), 2);
        let written =
            std::fs::read_to_string(folder.path().join("NewRelic.Profiler.1.log")).unwrap();
        let lines: Vec<_> = written.lines().collect();
        assert!(
            matches!(lines[..], [a, b] if a.ends_with(" a") && b.starts_with("[Trace] ") && b.ends_with(" \
                b"))
        );
        let nowhere = Log::new(Level::Trace, Sink::Nowhere);
        nowhere.line(Level::Error, || text("no"));
        nowhere.configure(Settings { level: Level::Trace, ..Settings::default() });
        nowhere.line(Level::Error, || text("no"));
        assert_eq!(made.get(), 2);
    }
}
