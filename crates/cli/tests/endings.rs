//! What ends a command from outside: signals, a terminal that is closed, and a terminal that takes
//! no more text.
#![cfg(unix)]
mod common;

use common::{Report, agent_is_mapped, clrscope, file, scratch};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
    pty::{self, OpenptFlags},
    termios::{self, Action, Winsize},
};
use std::{
    fs::{File, OpenOptions},
    io::Read,
    os::fd::AsFd,
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};
use testkit::{Runtime, Sample, TargetProcess, sample_runtimes};

/// What a command may take to end. It is a second on a machine that does nothing else.
const END: Duration = Duration::from_secs(2);

const BEGIN: Duration = Duration::from_secs(60);

/// How a command is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Terminate,
    Hangup,
    /// The other end of its terminal is closed, and nobody sends a signal: it is not the command's
    /// controlling terminal.
    Closed,
    /// The same with its controlling terminal: the kernel sends SIGHUP.
    ClosedControlling,
    /// Its terminal takes no more text, then SIGTERM.
    Stuck,
}

/// A terminal of the usual size.
struct Terminal {
    master: File,
    slave: File,
}

impl Terminal {
    fn new() -> Self {
        let master =
            pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        pty::grantpt(&master).unwrap();
        pty::unlockpt(&master).unwrap();
        let slave = pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = OpenOptions::new().read(true).write(true).open(slave).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        termios::tcsetwinsize(slave.as_fd(), size).unwrap();
        Self { master: File::from(master), slave }
    }

    fn run(&self, mut command: Command) -> Child {
        let slave = || self.slave.try_clone().unwrap();
        command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap()
    }

    /// Reads what is written until this is in it.
    fn wait_for(&mut self, what: &str, child: &mut Child) {
        let (end, mut seen) = (Instant::now() + BEGIN, Vec::new());
        while !String::from_utf8_lossy(&seen).contains(what) {
            let seen_so_far = || String::from_utf8_lossy(&seen).into_owned();
            assert!(Instant::now() < end, "`{what}` is not shown: {}", seen_so_far());
            assert!(
                child.try_wait().unwrap().is_none(),
                "it ended before `{what}`: {}",
                seen_so_far()
            );
            let mut polled = [PollFd::new(&self.master, PollFlags::IN)];
            if poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 })).unwrap() > 0 {
                let mut bytes = [0; 4096];
                let count = self.master.read(&mut bytes).unwrap();
                seen.extend_from_slice(&bytes[..count]);
            }
        }
    }
}

/// Waits for the end, and how long that took.
#[track_caller]
fn ended(child: &mut Child, what: &str) -> (ExitStatus, Duration) {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status, begin.elapsed());
        }
        if begin.elapsed() > BEGIN {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{what}: it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A command, what it shows once it is at work, and the sample it is about.
struct Case {
    name: &'static str,
    shows: &'static str,
    more: &'static [&'static str],
}

const CASES: [Case; 8] = [
    // The platform of the process, in the first line. It computes nothing, so that there are no
    // methods.
    Case { name: "top", shows: "linux-", more: &[] },
    Case { name: "record", shows: "recording", more: &["-p", "cpu,wall,exceptions,gc,threads"] },
    Case { name: "trace", shows: "not called yet", more: &["traced!Clrscope.Samples.Traced.Busy"] },
    Case { name: "checkup", shows: "recording", more: &["-d", "60s", "--no-heap"] },
    // Nothing in the program makes the collection that it waits for.
    Case { name: "heap", shows: "taking a heap snapshot", more: &["--roots"] },
    Case { name: "leaks", shows: "recording", more: &["--every", "60s"] },
    Case { name: "async", shows: "recording", more: &["-d", "60s"] },
    Case { name: "launch", shows: "ready", more: &["-p", "cpu,wall"] },
];

fn command(
    case: &Case,
    how: How,
    target: &TargetProcess,
    output: &str,
    runtime: Runtime,
) -> Command {
    let pid = target.pid().to_string();
    let mut arguments = vec![case.name];
    if case.name != "launch" {
        arguments.push(&pid);
    }
    if matches!(case.name, "record" | "launch") {
        arguments.extend(["-o", output]);
    }
    arguments.extend(case.more);
    let mut command = clrscope(&arguments);
    if case.name == "launch" {
        let launched = Sample::named("traced").launch(runtime, &[""; 0]).command();
        command.arg("--").arg(launched.get_program()).args(launched.get_args());
        same_environment(&mut command, &launched);
    }
    if how != How::ClosedControlling {
        return command;
    }
    let mut session = Command::new("setsid");
    session.arg("--ctty").arg(command.get_program()).args(command.get_args());
    same_environment(&mut session, &command);
    session
}

fn same_environment(to: &mut Command, from: &Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// Ends a command so and looks at what is left.
fn ends(case: &Case, how: How, target: &mut TargetProcess, runtime: Runtime) {
    let what = format!("{} on {runtime}, {how:?}", case.name);
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let mut terminal = Terminal::new();
    let mut child = terminal.run(command(case, how, target, output.to_str().unwrap(), runtime));
    terminal.wait_for(case.shows, &mut child);
    std::thread::sleep(Duration::from_millis(500));
    let signal = |signal| kill_process(Pid::from_child(&child), signal).unwrap();
    match how {
        How::Terminate => signal(Signal::TERM),
        How::Hangup => signal(Signal::HUP),
        How::Closed | How::ClosedControlling => drop(terminal),
        How::Stuck => {
            termios::tcflow(&terminal.slave, Action::OOff).unwrap();
            // Time for the next picture to get stuck.
            std::thread::sleep(Duration::from_millis(1500));
            signal(Signal::TERM);
        }
    }
    let (status, took) = ended(&mut child, &what);
    // A stuck terminal may only be slow: it gets a moment more.
    let limit = if how == How::Stuck { END + Duration::from_millis(500) } else { END };
    assert!(took < limit, "{what}: {took:?}");
    eprintln!("{what}: {status} after {took:?}");
    if matches!(case.name, "record" | "launch") {
        let report = Report::of(&output);
        assert!(report.0["recording"]["end"].is_object(), "{what}: the file is not complete");
    }
    assert!(target.is_running(), "{what}: the process ended");
    // That nobody could read what it says is no failure. Without a snapshot there is one.
    if matches!(how, How::Closed | How::ClosedControlling)
        && !matches!(case.name, "heap" | "leaks" | "async")
    {
        assert!(status.success(), "{what}: {status}");
    }
    // An agent that has rewritten methods stays, and one beside which another one left as the main
    // profiler.
    let stays = matches!(case.name, "trace" | "heap" | "leaks" | "async");
    // .NET Core 3.1 takes longer to unload it the busier the machine is.
    let until = Instant::now() + Duration::from_secs(15);
    while !stays && agent_is_mapped(target.pid()) {
        assert!(Instant::now() < until, "{what}: the agent is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn signals_and_lost_terminals_end_every_command() {
    std::thread::scope(|scope| {
        for (index, case) in CASES.iter().enumerate() {
            let runtimes = sample_runtimes();
            let runtime = runtimes[index % runtimes.len()];
            scope.spawn(move || {
                let mut target = Sample::named("traced").start(runtime, &[""; 0]);
                target.wait_for_ready();
                for how in
                    [How::Terminate, How::Hangup, How::Closed, How::ClosedControlling, How::Stuck]
                {
                    // What a launched command does about its terminal is its own affair.
                    if case.name != "launch" || matches!(how, How::Terminate | How::Hangup) {
                        ends(case, how, &mut target, runtime);
                    }
                }
            });
        }
    });
}

#[test]
fn who_ignores_hangups_goes_on_without_its_terminal() {
    let mut target = Sample::named("traced").start(Runtime::V9, &[""; 0]);
    target.wait_for_ready();
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let pid = target.pid().to_string();
    let mut terminal = Terminal::new();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' HUP; exec \"$@\"",
        "sh",
        common::binary(),
        "record",
        &pid,
        "-d",
        "4s",
        "-o",
    ]);
    command.arg(&output).env("TERM", "xterm");
    let mut child = terminal.run(command);
    terminal.wait_for("recording", &mut child);
    drop(terminal);
    let begin = Instant::now();
    ended(&mut child, "nohup");
    assert!(begin.elapsed() > Duration::from_secs(2), "it ended with its terminal");
    let report = Report::of(&output);
    assert!(
        report.0["recording"]["duration_ns"].as_u64().unwrap() > 3_900_000_000,
        "{}",
        report.0["recording"]
    );
}

#[test]
fn a_launched_command_ignores_what_its_caller_ignores() {
    let folder = scratch();
    let output = file(&folder, "x.clrscope");
    let mut command = Command::new("sh");
    let script = "trap '' HUP INT QUIT; exec \"$@\"";
    command.args(["-c", script, "sh", common::binary(), "launch", "-q", "-p", "cpu", "-o"]);
    // The shell is the command: what it starts ignores what it ignores.
    let shown = "grep SigIgn /proc/self/status; exec \"$@\"";
    command.arg(&output).args(["--", "sh", "-c", shown, "sh"]);
    let launch = Sample::named("hello").launch(Runtime::V9, &[""; 0]);
    let words = launch.command();
    command.arg(words.get_program()).args(words.get_args());
    let done = command.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{text}{}", String::from_utf8_lossy(&done.stderr));
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let mask = u64::from_str_radix(mask, 16).unwrap();
    // SIGHUP, SIGINT and SIGQUIT are 1, 2 and 3.
    assert_eq!(mask & 0b111, 0b111, "{text}");
}
