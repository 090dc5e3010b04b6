//! `clrscope ui`: the pages, in the browser of this machine.

use crate::{agent::AgentArgs, commands::serve, console, exit::Code, os};
use server::{Config, Retention};
use std::{
    net::Ipv4Addr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long the program that opens the browser may take to fail.
const OPENING: Duration = Duration::from_secs(10);

/// Open the web UI in the browser
///
/// Serves the pages at a free port of this machine, for this machine only, and opens them in the
/// browser. If there is none, open the address that is printed: its token lets one browser in,
/// once. Runs until Ctrl-C, which ends recordings in order. To serve a machine without a browser,
/// use `clrscope serve`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder of sessions [default: clrscope/sessions in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    sessions: Option<PathBuf>,
    /// Only print the address
    #[arg(long)]
    no_browser: bool,
    /// Let the pages start programs, as you, to record them from their first instruction
    #[arg(long)]
    allow_launch: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Code> {
    let config = Config {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        token: None,
        hosts: Vec::new(),
        tls: None,
        launch: args.allow_launch,
        sessions: args.sessions.clone().map_or_else(serve::default_folder, Ok)?,
        retention: Retention::default(),
        most_upload: server::MOST_UPLOAD,
    };
    let assistants = mcp::Config { record: false, trace: false, limits: mcp::Limits::default() };
    serve::serve(config, &args.agent, assistants, |server| {
        console::print(&format!("{}\n", server.url()))?;
        if !args.no_browser {
            open(&server.url_for_own_user()?);
        }
        Ok(())
    })
}

/// Opens an address in the browser, beside what this program does.
fn open(url: &str) {
    let Some(command) = os::browser(url) else {
        console::say("there is no browser on this machine: open the address above in one");
        return;
    };
    let opened = thread::Builder::new().name("browser".to_owned()).spawn(move || {
        if let Err(why) = opens(command) {
            console::say(&format!("the browser was not opened ({why}): open the address above"));
        }
    });
    if opened.is_err() {
        console::say("the browser was not opened: open the address above");
    }
}

fn opens(mut command: Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    // What the browser prints is nothing to tell.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child =
        command.spawn().map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    match fails(&mut child) {
        Some(status) => Err(format!("`{program}` failed with {status}")),
        None => Ok(()),
    }
}

/// The status of a program that fails soon. One that still runs is a browser itself.
fn fails(child: &mut Child) -> Option<std::process::ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < OPENING {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status).filter(|status| !status.success()),
            Ok(None) => thread::sleep(Duration::from_millis(50)),
            Err(_) => return None,
        }
    }
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_does_not_open_is_reported() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        assert_eq!(opens(shell("exit 0")), Ok(()));
        assert!(opens(shell("exit 3")).unwrap_err().contains("3"));
        assert!(opens(Command::new("/nowhere/browser")).unwrap_err().contains("cannot be started"));
    }
}
