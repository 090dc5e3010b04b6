//! Ctrl-C: the benchmark ends its children and says what it has measured until then.

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The usual exit code after Ctrl-C: 128 + SIGINT.
const INTERRUPTED: i32 = 130;

/// How often a sleep asks.
const POLL: Duration = Duration::from_millis(20);

/// Whether somebody asked the benchmark to end.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches from now on. The second signal ends the program at once.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub fn watch() -> Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Handlers run in the order of registration: the first signal is not seen as the second
            // one.
            flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&asked))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .with_context(|| format!("cannot install a handler for signal {signal}"))?;
        }
        Ok(Interrupt(asked))
    }

    /// One without interrupts.
    pub fn never() -> Interrupt {
        Interrupt(Arc::default())
    }

    /// Whether somebody asked.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails when somebody asked.
    ///
    /// # Errors
    /// As said.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.came(), "interrupted");
        Ok(())
    }

    /// Sleeps, unless somebody asks.
    ///
    /// # Errors
    /// When somebody asked.
    pub fn sleep(&self, length: Duration) -> Result<()> {
        let until = Instant::now() + length;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(POLL));
        }
    }
}
