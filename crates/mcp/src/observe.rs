//! Observes a process for a call: within the budget, with reports of progress, and ended in order
//! when the client does not want it any more.

use crate::{
    budget::Turn,
    call::{Call, Failure},
};
use rmcp::model::ProgressNotificationParam;
use server::{End, Entry, Plan, RecordingState, Work};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout_at};

/// How often progress is reported.
const REPORT: Duration = Duration::from_secs(1);

/// How much longer than planned an observation may take: attaching, heap snapshots and naming of
/// code take their time on a busy machine.
const GRACE: Duration = Duration::from_secs(120);

/// How long an observation may take to end.
const ENDING: Duration = Duration::from_secs(30);

/// What became of an observation.
pub struct Observed {
    pub entry: Arc<Entry>,
    pub end: Arc<Result<End, String>>,
    /// Why it was ended before its time, in words of clrscope.
    pub ended_early: Option<&'static str>,
}

impl Observed {
    /// What was recorded.
    pub fn end(&self) -> Result<&End, Failure> {
        (*self.end).as_ref().map_err(|cause| Failure::Failed(cause.clone()))
    }

    /// The name of the session.
    pub fn session(&self) -> String {
        self.entry.id.to_string()
    }
}

/// Observes a process until that ends by itself, costs too much, or the client cancels it.
///
/// # Errors
/// When it does not begin, is not within the budget, or was cancelled.
pub async fn observe(call: &Call, plan: Plan) -> Result<Observed, Failure> {
    let limits = call.shared.budget.limits();
    // What ends by itself is short, and counts as much as one call may take.
    let planned = match &plan.work {
        Work::CheckUp { duration, .. } => Some(*duration),
        Work::Record(options) => options.duration,
    };
    let turn = call.shared.budget.take(planned.unwrap_or(limits.call)).map_err(Failure::Refused)?;
    let begun = Instant::now();
    let entry = begin(call, plan).await?;
    let ended_early = attend(call, &entry, planned, begun).await;
    let end = wait_for_end(&entry).await;
    settle(turn, begun);
    if call.context.ct.is_cancelled() {
        return Err(Failure::Cancelled);
    }
    Ok(Observed { entry, end, ended_early })
}

/// Begins a recording. It begins also if the call is cancelled meanwhile, and is ended then.
async fn begin(call: &Call, plan: Plan) -> Result<Arc<Entry>, Failure> {
    let work = Arc::clone(call.work());
    let beginning = tokio::spawn(async move { work.start(plan).await });
    let lost = || Failure::Failed("the recording failed: a bug in clrscope".to_owned());
    Ok(beginning.await.map_err(|_| lost())??)
}

/// Reports progress until the recording has ended or has to end; why it was ended, if it was.
async fn attend(
    call: &Call,
    entry: &Arc<Entry>,
    planned: Option<Duration>,
    begun: Instant,
) -> Option<&'static str> {
    let limits = call.shared.budget.limits();
    let mut watched = entry.watch();
    let mut reports = Reports::new(call, planned);
    let last = begun + planned.unwrap_or(limits.call) + GRACE;
    loop {
        let state = watched.borrow_and_update().clone();
        if state.end.is_some() {
            return None;
        }
        if limits.is_exceeded(&state.progress) {
            entry.stop();
            return Some("it cost the process more than --max-overhead allows");
        }
        reports.report(&state).await;
        tokio::select! {
            changed = watched.changed() => if changed.is_err() { return None },
            () = call.context.ct.cancelled() => {
                entry.stop();
                return None;
            }
            () = tokio::time::sleep_until(last.into()) => {
                entry.stop();
                return Some("it took much longer than planned");
            }
        }
    }
}

async fn wait_for_end(entry: &Arc<Entry>) -> Arc<Result<End, String>> {
    let mut watched = entry.watch();
    let until = tokio::time::Instant::now() + ENDING;
    // The sender is there until the end is known.
    let ended = timeout_at(until, watched.wait_for(|state| state.end.is_some())).await;
    let end = ended.ok().and_then(Result::ok).and_then(|state| state.end.clone());
    end.unwrap_or_else(|| {
        entry.stop();
        Arc::new(Err("the recording did not end in time".to_owned()))
    })
}

fn settle(mut turn: Turn<'_>, begun: Instant) {
    turn.used(begun.elapsed());
}

/// Reports of progress to the client, if it wants them.
struct Reports<'a> {
    call: &'a Call,
    planned: Option<Duration>,
    next: Interval,
    progress: f64,
    begun: Instant,
}

impl<'a> Reports<'a> {
    fn new(call: &'a Call, planned: Option<Duration>) -> Self {
        let mut next = interval(REPORT);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { call, planned, next, progress: -1.0, begun: Instant::now() }
    }

    /// Reports how far it is, if it is time for that.
    async fn report(&mut self, state: &RecordingState) {
        let due = tokio::time::timeout(Duration::ZERO, self.next.tick()).await.is_ok();
        let Some(token) = self.call.context.meta.get_progress_token().filter(|_| due) else {
            return;
        };
        // Seconds, which have to grow.
        let seconds = (self.begun.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        if seconds <= self.progress {
            return;
        }
        self.progress = seconds;
        let mut report = ProgressNotificationParam::new(token, seconds);
        if let Some(planned) = self.planned {
            report = report.with_total(planned.as_secs_f64().max(seconds));
        }
        // The stage is in words of clrscope.
        let report = report.with_message(state.progress.stage.clone());
        // A client that is gone is noticed elsewhere.
        let _ = self.call.context.peer.notify_progress(report).await;
    }
}
