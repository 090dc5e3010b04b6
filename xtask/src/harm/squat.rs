//! `xtask squat MARK NAME…`: binds abstract sockets before their owner can, makes the file `MARK`,
//! and keeps them as long as that is there. For the conditions of the harm matrix.

use anyhow::Result;
use clap::Args;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// What to take.
#[derive(Args)]
pub struct Options {
    /// File that says that all names are taken
    mark: PathBuf,
    /// Names
    names: Vec<String>,
}

/// Nobody waits for longer.
const LIMIT: Duration = Duration::from_secs(60);

/// Takes the names and waits.
pub fn run(options: &Options) -> Result<()> {
    let mut held = Vec::new();
    for name in &options.names {
        let address = SocketAddr::from_abstract_name(name)?;
        // Both kinds are the same name space; who comes first has it. A listener answers nobody.
        match UnixListener::bind_addr(&address) {
            Ok(listener) => held.push((Some(listener), None)),
            Err(_) => held.push((None, UnixDatagram::bind_addr(&address).ok())),
        }
    }
    fs::write(&options.mark, "")?;
    let until = Instant::now() + LIMIT;
    while options.mark.exists() && Instant::now() < until {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
