//! What `clrscope trace` shows on a terminal while it runs.
#![cfg(unix)]
mod common;

use common::clrscope;
use rustix::{process, pty, termios};
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read, Write},
    num::NonZeroU16,
    os::fd::AsFd,
    process::Stdio,
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};
use testkit::{Sample, sample_runtimes};

const LIMIT: Duration = Duration::from_secs(60);
const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(80).unwrap();

/// A terminal, and what is written to it.
struct Terminal {
    screen: vt100::Parser,
    /// Kept open: what is written by the last one who has it may be lost.
    slave: File,
    written: Receiver<Vec<u8>>,
}

impl Terminal {
    fn new() -> Self {
        let master = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
        pty::grantpt(&master).unwrap();
        pty::unlockpt(&master).unwrap();
        let slave = pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = OpenOptions::new().read(true).write(true).open(slave).unwrap();
        let size = termios::Winsize {
            ws_row: ROWS.get(),
            ws_col: COLUMNS.get(),
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        termios::tcsetwinsize(slave.as_fd(), size).unwrap();
        let (sender, written) = channel();
        std::thread::spawn(move || {
            let (mut master, mut bytes) = (File::from(master), vec![0; 4096]);
            loop {
                match master.read(&mut bytes) {
                    Ok(0) => return,
                    Ok(count) => drop(sender.send(bytes[..count].to_vec())),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // Nobody has the other end any more.
                    Err(_) => return,
                }
            }
        });
        Self { screen: vt100::Parser::new(ROWS, COLUMNS, 0), slave, written }
    }

    /// The screen as soon as it is so.
    fn wait(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let contents = self.screen.screen().contents();
            if is_so(&contents) {
                return contents;
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.written.recv_timeout(left) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(error) => panic!("{what}: {error}:\n{contents}"),
            }
        }
    }

    /// The screen when all that was written so far has come.
    fn now(&mut self) -> String {
        self.slave.write_all(b"<end>").unwrap();
        self.wait("the end", |screen| screen.contains("<end>"))
    }
}

#[test]
fn calls_are_shown_while_they_are_made() {
    for runtime in sample_runtimes() {
        let mut target = Sample::named("traced").start(runtime, &[""; 0]);
        target.wait_for_ready();
        let mut terminal = Terminal::new();
        let slave = terminal.slave.try_clone().unwrap();
        let pid = target.pid().to_string();
        let mut command =
            clrscope(["trace", &pid, "traced!Clrscope.Samples.Traced.{Rest,Busy,Throws}"]);
        let child = command.stdout(Stdio::piped()).stderr(slave).spawn().unwrap();

        let screen = terminal
            .wait("nothing is called", |screen| screen.contains("not called yet: 3 methods"));
        assert!(!screen.contains("calls/s"), "{runtime}: {screen}");
        for _ in 0..2 {
            target.send_line("go 500").unwrap();
            target.truth(LIMIT);
        }
        let of = |screen: &str, name: &str| {
            let row = screen.lines().find(|line| line.ends_with(&format!(" Traced.{name}")))?;
            row.split_whitespace().next()?.replace(',', "").parse::<u64>().ok()
        };
        // What is written comes in pieces.
        let is_whole =
            |screen: &str| of(screen, "Rest") == Some(22) && of(screen, "Throws").is_some();
        let screen = terminal.wait("calls", is_whole);
        assert!(!screen.contains("not called yet"), "{runtime}: {screen}");
        // One table, below the progress and what is said once: each is drawn over the one before.
        assert_eq!(screen.matches("calls/s").count(), 1, "{runtime}: {screen}");
        assert_eq!(screen.matches("Ctrl-C ends").count(), 1, "{runtime}: {screen}");
        assert!(of(&screen, "Throws") > Some(100), "{runtime}: {screen}");

        process::kill_process(process::Pid::from_child(&child), process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{runtime}: {output:?}");
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(
            report.contains(": 3 methods instrumented for ") && report.contains(" s, 3 called, "),
            "{runtime}: {report}"
        );
        assert!(!report.contains("calls/s"), "{runtime}: {report}");
        let left = terminal.now();
        assert!(left.contains("tracing 3 methods") && !left.contains("CALLS"), "{runtime}: {left}");
    }
}
