//! One call of a tool: what it may use, and how it fails.

use crate::{
    answer::Answer,
    foreign::{SENTENCE, clean},
    shared::Shared,
};
use diagnostics::DotnetProcess;
use rmcp::{RoleServer, service::RequestContext};
use server::{Problem, SessionId, Workspace};
use std::sync::Arc;

/// A call.
pub struct Call {
    pub shared: Arc<Shared>,
    pub context: RequestContext<RoleServer>,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The arguments are wrong. Says so in words of clrscope and of the arguments.
    Arguments(String),
    /// It is not allowed here. Says so in words of clrscope.
    Refused(String),
    /// It did not work. The text may quote the observed process.
    Failed(String),
    /// The client does not want it any more.
    Cancelled,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem.cause)
    }
}

impl From<diagnostics::Error> for Failure {
    fn from(error: diagnostics::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Failure {
    /// What is said of it.
    pub fn answer(&self) -> Answer {
        match self {
            Self::Arguments(cause) => {
                Answer::new(format!("Wrong arguments: {}", clean(cause, SENTENCE)))
            }
            Self::Refused(cause) => Answer::new(format!("Refused: {cause}")),
            Self::Failed(cause) => {
                let mut answer = Answer::new("That did not work:");
                answer.add(clean(cause, 2 * SENTENCE));
                answer
            }
            Self::Cancelled => Answer::new(
                "Cancelled, because the client cancelled the call or closed its connection. The \
                 observation was ended, and nothing of clrscope runs in the process. To observe it, \
                 call again.",
            ),
        }
    }
}

impl Call {
    /// The sessions and recordings.
    pub fn work(&self) -> &Arc<Workspace> {
        &self.shared.work
    }

    /// A process that can be profiled.
    pub async fn process(&self, target: &Target) -> Result<DotnetProcess, Failure> {
        self.find(target, diagnostics::find_pid, diagnostics::find_name).await
    }

    /// A process, also if it cannot be profiled.
    pub async fn any_process(&self, target: &Target) -> Result<DotnetProcess, Failure> {
        let by_pid = |pid: u32| diagnostics::locate(&pid.to_string());
        self.find(target, by_pid, diagnostics::locate).await
    }

    async fn find(
        &self,
        target: &Target,
        by_pid: impl FnOnce(u32) -> Result<DotnetProcess, diagnostics::Error> + Send + 'static,
        by_name: impl FnOnce(&str) -> Result<DotnetProcess, diagnostics::Error> + Send + 'static,
    ) -> Result<DotnetProcess, Failure> {
        let (pid, name) = (target.pid, target.process.clone());
        let found = self.blocking(move || match (pid, name) {
            (Some(pid), None) => Ok(by_pid(pid)?),
            (None, Some(name)) => Ok(by_name(&name)?),
            _ => Err(Failure::Arguments("give either `pid` or `process`".to_owned())),
        });
        found.await
    }

    /// Does something that blocks for a moment.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.work().light(move |_| Ok(work())).await?
    }

    /// Does something that reads a whole session.
    pub async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Workspace) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.work().heavy(move |workspace| Ok(work(workspace))).await?
    }
}

/// The process that a call is about, as two arguments of which one is given.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub pid: Option<u32>,
    pub process: Option<String>,
}

/// Reads the name of a session.
pub fn session(name: &str) -> Result<SessionId, Failure> {
    SessionId::parse(name).map_err(|problem| Failure::Arguments(problem.cause))
}
