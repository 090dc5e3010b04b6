//! No transport is built for this system.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A connection; there is none on this system.
#[derive(Debug)]
pub enum Stream {}

/// A connection that came in; there is none on this system.
#[derive(Debug)]
pub enum Incoming {}

impl Stream {
    /// Never called.
    pub fn new(incoming: Incoming, _: Instant) -> Self {
        match incoming {}
    }

    /// Never called.
    pub fn set_deadline(&mut self, _: Instant) {
        match *self {}
    }

    /// Never called.
    pub fn set_idle_limit(&mut self, _: Duration) {
        match *self {}
    }
}

impl Read for Stream {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}

impl Write for Stream {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}

/// Always refused.
pub fn connect(_: &Path, _: Instant) -> io::Result<Stream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Who is at the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub pid: u32,
}

/// Never known.
pub fn peer(_: &Stream) -> Option<Peer> {
    None
}

/// A listening socket; there is none on this system.
#[derive(Debug)]
pub enum Listener {}

impl Listener {
    /// Always refused.
    pub fn bind(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub fn accept(&self, _: Duration) -> io::Result<Option<Incoming>> {
        match *self {}
    }
}
