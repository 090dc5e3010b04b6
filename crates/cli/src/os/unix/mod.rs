//! Signals and terminals of Unix.

use super::Signal;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal as Number, getpgrp, kill_process},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ},
    flag,
    iterator::{Handle, Signals},
    low_level,
};
use std::{env, fs, io, os::fd::AsFd, process::Command, sync::Arc, thread::JoinHandle};

const NUMBERS: [(Signal, i32, Number); 6] = [
    (Signal::Interrupt, SIGINT, Number::INT),
    (Signal::Terminate, SIGTERM, Number::TERM),
    (Signal::Hangup, SIGHUP, Number::HUP),
    (Signal::Quit, SIGQUIT, Number::QUIT),
    (Signal::User1, SIGUSR1, Number::USR1),
    (Signal::User2, SIGUSR2, Number::USR2),
];

/// Calls a function for each signal that arrives, on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct SignalWatch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl SignalWatch {
    /// Watches these signals. A hangup that was ignored when clrscope started (`nohup`) stays
    /// ignored.
    ///
    /// # Errors
    /// When the handlers cannot be installed or the thread cannot be made.
    pub fn start(
        watched: &[Signal],
        mut on: impl FnMut(Signal) + Send + 'static,
    ) -> io::Result<Self> {
        let numbers = NUMBERS
            .iter()
            .filter(|(signal, number, _)| {
                watched.contains(signal) && !(*signal == Signal::Hangup && was_ignored(*number))
            })
            .map(|(_, number, _)| *number);
        let mut signals = Signals::new(numbers)?;
        let handle = signals.handle();
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for number in signals.forever() {
                if let Some((signal, ..)) = NUMBERS.iter().find(|(_, known, _)| *known == number) {
                    on(*signal);
                }
            }
        })?;
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of this thread.
            let _ = thread.join();
        }
    }
}

/// Whether a signal is ignored, as long as it is not watched: whoever started clrscope wanted it so
/// (`nohup`, jobs in the background of a script).
pub fn is_ignored(signal: Signal) -> bool {
    NUMBERS.iter().any(|(known, number, _)| *known == signal && was_ignored(*number))
}

/// The command that opens an address in a browser; `None` where there is no screen for one.
pub fn browser(url: &str) -> Option<Command> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let program = match set("BROWSER") {
        Some(program) => program,
        None if cfg!(target_os = "macos") => "open".into(),
        None => set("WAYLAND_DISPLAY").or_else(|| set("DISPLAY")).map(|_| "xdg-open".into())?,
    };
    let mut command = Command::new(program);
    command.arg(url);
    Some(command)
}

/// Whether this program may do everything.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether the other end of a terminal or pipe is gone. False for what has no other end.
pub fn hung_up(stream: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
        && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// Writing more than `ulimit -f` allows becomes an error, instead of the end of this program amid a
/// recording.
pub fn survive_file_limit() {
    // Where this is unavailable, the limit does what it always does.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Whether more text can be written to a stream without waiting for its reader.
pub fn takes_text(stream: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).map_or(true, |ready| ready > 0)
}

/// Ends the process as the signal does where nobody handles it.
pub fn die_of(signal: Signal) {
    if let Some((_, number, _)) = NUMBERS.iter().find(|(known, ..)| *known == signal) {
        // It fails for signals that nobody can handle, which are not among these.
        let _ = low_level::emulate_default_handler(*number);
    }
}

/// Whether the signal is ignored now; false where this is unknown.
fn was_ignored(number: i32) -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << (number - 1)) != 0)
}

/// Sends a signal to a process.
///
/// # Errors
/// When it has ended, or is another user's.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    match NUMBERS.iter().find(|(known, ..)| *known == signal) {
        Some((.., number)) => Ok(kill_process(pid, *number)?),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Whether we are in the foreground group of our terminal. The terminal then sends Ctrl-C to our
/// children as well.
pub fn in_foreground() -> bool {
    fs::File::open("/dev/tty")
        .is_ok_and(|tty| rustix::termios::tcgetpgrp(tty).is_ok_and(|group| group == getpgrp()))
}

/// Columns and rows of the terminal on standard error, if there is one and it knows.
pub fn error_terminal() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).ok()?;
    Some((size.ws_col.into(), size.ws_row.into()))
        .filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Duration};

    #[test]
    fn a_signal_arrives_and_the_watch_ends() {
        let (sender, receiver) = mpsc::channel();
        let watch = SignalWatch::start(&[Signal::User1], move |signal| {
            let _ = sender.send(signal);
        })
        .unwrap();
        send(std::process::id(), Signal::User1).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(Signal::User1));
        drop(watch);
        assert!(
            receiver.recv_timeout(Duration::from_secs(10)).is_err(),
            "the sender is gone with the thread"
        );
    }
}
