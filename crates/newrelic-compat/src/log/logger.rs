//! Writes log lines.

use super::{Level, Settings, file_name};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Where the time of a line comes from.
pub trait Clock {
    /// Time since the beginning of 1970, UTC.
    fn now(&self) -> Duration;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

/// `YYYY-MM-DD HH:MM:SS` of a time since the beginning of 1970, UTC.
#[must_use]
pub fn timestamp(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that the day that may be missing is the last one. 400 years
    // have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// What takes the lines.
#[derive(Debug)]
pub enum Sink {
    /// A file, with its path, and how many bytes it may still take.
    File(File, PathBuf, u64),
    /// Standard output. A handle of its own never waits for whoever reads a pipe; without one,
    /// writing may.
    Console(Option<File>),
    /// Nothing: logging is disabled, or the file could not be opened.
    Nowhere,
}

impl Sink {
    /// Opens the log of a process. An existing file is emptied, missing folders are made.
    ///
    /// A folder that cannot be written gives [`Sink::Nowhere`] with the reason: the program has to
    /// run on, and there is no log to say so in.
    #[must_use]
    pub fn open(settings: Settings, folder: &Path, pid: u32) -> (Self, Option<io::Error>) {
        if !settings.enabled {
            return (Self::Nowhere, None);
        }
        if settings.console {
            return (Self::Console(console()), None);
        }
        let path = folder.join(file_name(pid));
        let opened = fs::create_dir_all(folder).and_then(|()| create_new(&path));
        match opened {
            Ok(file) => (Self::File(file, path, file_size_limit()), None),
            Err(error) => (Self::Nowhere, Some(error)),
        }
    }
}

/// A handle for standard output that does not wait; `None` where there can be none, as for sockets.
fn console() -> Option<File> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // `O_NONBLOCK` (fcntl.h of Linux, but for a few processors that .NET does not run on).
        const O_NONBLOCK: i32 = 0o4000;
        fs::OpenOptions::new().append(true).custom_flags(O_NONBLOCK).open("/proc/self/fd/1").ok()
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Bytes that a file of this process may have: the kernel ends a process that writes more
/// (`RLIMIT_FSIZE`, setrlimit(2)).
pub(crate) fn file_size_limit() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(u64::MAX)
}

/// Makes a new file. What is there is removed, not written to: in a folder of other users it may be
/// a link to something else, or a pipe without a reader.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

/// Writes lines of some level and above, each at once.
#[derive(Debug)]
pub struct Logger<C> {
    level: Level,
    enabled: bool,
    sink: Sink,
    clock: C,
}

impl<C: Clock> Logger<C> {
    /// A logger for lines of `level` and above.
    pub const fn new(level: Level, sink: Sink, clock: C) -> Self {
        Self { level, enabled: true, sink, clock }
    }

    /// Whether lines of a level are written. Ask before a text is made that costs something.
    #[must_use]
    pub fn logs(&self, level: Level) -> bool {
        self.enabled && level >= self.level && !matches!(self.sink, Sink::Nowhere)
    }

    /// Takes other settings, after the configuration was read again. No file is opened then, and a
    /// log that had none at the start has none later.
    pub fn configure(&mut self, settings: Settings) {
        self.level = settings.level;
        self.enabled = settings.enabled;
        if settings.console && matches!(self.sink, Sink::File(..)) {
            self.sink = Sink::Console(console());
        }
    }

    /// The path of the log, if it is a file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.sink {
            Sink::File(_, path, _) => Some(path),
            Sink::Console(_) | Sink::Nowhere => None,
        }
    }

    /// Writes a line. One that cannot be written is lost.
    pub fn log(&mut self, level: Level, text: &str) {
        if !self.logs(level) {
            return;
        }
        let line = format!("[{}] {} {text}\n", level.label(), timestamp(self.clock.now()));
        let _lost = match &mut self.sink {
            Sink::File(file, _, rest) => match rest.checked_sub(line.len() as u64) {
                Some(less) => {
                    *rest = less;
                    file.write_all(line.as_bytes())
                }
                None => Ok(()),
            },
            // What a full pipe does not take is lost.
            Sink::Console(Some(out)) => out.write(line.as_bytes()).map(drop),
            Sink::Console(None) => {
                let mut out = io::stdout().lock();
                out.write_all(line.as_bytes()).and_then(|()| out.flush())
            }
            Sink::Nowhere => Ok(()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct At(u64);

    impl Clock for At {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0)
        }
    }

    #[test]
    fn timestamps() {
        let cases = [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_764_090_000, "2025-11-25 17:00:00"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (253_402_300_799, "9999-12-31 23:59:59"),
        ];
        for (seconds, text) in cases {
            assert_eq!(timestamp(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn lines_of_the_level_and_above() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        let (sink, error) = Sink::open(Settings::default(), &below, 7);
        assert!(error.is_none());
        let mut logger = Logger::new(Level::Info, sink, At(951_782_400));
        logger.log(Level::Info, "Logger initialized.");
        logger.log(Level::Debug, "not this");
        logger.log(Level::Error, "Grüße");
        logger.configure(Settings { enabled: false, ..Settings::default() });
        logger.log(Level::Error, "not this");
        logger.configure(Settings { level: Level::Trace, ..Settings::default() });
        logger.log(Level::Trace, "Leave: InstrumentationRefresh");
        let path = below.join("NewRelic.Profiler.7.log");
        assert_eq!(logger.path(), Some(path.as_path()));
        let expected = "[Info ] 2000-02-29 00:00:00 Logger initialized.\n\
                        [Error] 2000-02-29 00:00:00 Grüße\n\
                        [Trace] 2000-02-29 00:00:00 Leave: InstrumentationRefresh\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        // It is made anew when it is opened again.
        drop(Sink::open(Settings::default(), &below, 7));
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        // A link to another file is not followed.
        #[cfg(unix)]
        {
            let other = folder.path().join("other");
            fs::write(&other, "kept").unwrap();
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&other, &path).unwrap();
            drop(Sink::open(Settings::default(), &below, 7));
            assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
            assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
        }
    }

    #[test]
    fn what_cannot_be_opened_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let (sink, error) = Sink::open(Settings::default(), &file.join("logs"), 7);
        assert!(error.is_some());
        let mut logger = Logger::new(Level::Trace, sink, SystemClock);
        logger.log(Level::Error, "lost");
        assert!(!logger.logs(Level::Error) && logger.path().is_none());
        let off = Settings { enabled: false, ..Settings::default() };
        assert!(matches!(Sink::open(off, folder.path(), 7), (Sink::Nowhere, None)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let console = Settings { console: true, ..Settings::default() };
        assert!(matches!(Sink::open(console, folder.path(), 7), (Sink::Console(_), None)));
    }
}
