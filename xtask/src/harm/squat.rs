//! `xtask squat MARK PATH…`: listens at sockets without an answer, makes the file `MARK`, and
//! listens as long as that is there. For the conditions of the harm matrix.

use anyhow::{Context, Result};
use clap::Args;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// What to take.
#[derive(Args)]
pub struct Options {
    /// File that says that there are all sockets
    mark: PathBuf,
    /// Paths of the sockets
    sockets: Vec<PathBuf>,
}

/// Nobody waits for longer.
const LIMIT: Duration = Duration::from_secs(60);

/// Takes the names and waits.
pub fn run(options: &Options) -> Result<()> {
    let bind =
        |path: &PathBuf| UnixListener::bind(path).with_context(|| path.display().to_string());
    let _held = options.sockets.iter().map(bind).collect::<Result<Vec<_>>>()?;
    fs::write(&options.mark, "")?;
    let until = Instant::now() + LIMIT;
    while options.mark.exists() && Instant::now() < until {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
