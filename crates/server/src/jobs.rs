//! Work that blocks, on threads of its own, and not too much of it at the same time.

use crate::problem::Problem;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// How long a request waits for its turn.
const WAIT: Duration = Duration::from_secs(60);

/// Requests that wait for their turn.
const MOST_WAITING: usize = 32;

/// A kind of work, of which only some is done at the same time.
#[derive(Debug)]
pub struct Jobs {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Jobs {
    /// Does at most so much of it at the same time.
    pub fn new(most: usize) -> Self {
        Self { running: Arc::new(Semaphore::new(most)), waiting: Semaphore::new(MOST_WAITING) }
    }

    /// Does something that blocks. It is done to its end, also when the request has ended.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = || Problem::busy("the server has too many requests to answer");
        let waiting = self.waiting.try_acquire().map_err(|_| busy())?;
        let running = Arc::clone(&self.running).acquire_owned();
        let Ok(Ok(turn)) = tokio::time::timeout(WAIT, running).await else {
            return Err(busy());
        };
        drop(waiting);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await
            .unwrap_or_else(|_| Err(Problem::internal("the server failed: a bug in clrscope")))
    }
}
