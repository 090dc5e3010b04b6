//! What all calls of an assistant share.

use crate::{
    Program,
    budget::{Budget, Limits},
};
use server::Workspace;
use std::sync::Arc;
use tokio::sync::watch;

/// What an assistant may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// Whether it may choose what is recorded.
    pub record: bool,
    /// Whether it may add code to methods of processes.
    pub trace: bool,
    /// How long and how much.
    pub limits: Limits,
}

/// What all calls share.
pub(crate) struct Shared {
    pub work: Arc<Workspace>,
    pub program: Arc<dyn Program>,
    pub config: Config,
    pub budget: Budget,
    /// How many calls are being answered.
    pub calls: watch::Sender<usize>,
}

/// A call that is being answered, for as long as this lives.
pub(crate) struct Answering(Arc<Shared>);

impl Answering {
    pub fn new(shared: &Arc<Shared>) -> Self {
        shared.calls.send_modify(|calls| *calls += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.calls.send_modify(|calls| *calls -= 1);
    }
}
