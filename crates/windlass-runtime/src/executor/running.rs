//! One job: begun, and where its handler waits, run to its end.

use super::activate;
use crate::{
    attempt::Attempt,
    conclusion::Ended,
    core::Core,
    disposition::Settlement,
    ending::Ending,
    epoch::ClaimScope,
    last_handler::Found,
    meter,
    outbox::{LAST_WORDS_WAIT, told},
    popped::{Popped, is_suspect},
    queue_runner::QueueRunner,
    suspect,
    turn::Done,
};
use std::{sync::Arc, task};
use tokio::sync::oneshot;
use windlass_core::{ClaimedJob, Disposition, JobId, Result};

/// A job after its first step.
pub(super) enum Begun {
    /// It never waited.
    Over(Done),
    Running(Box<Running>),
}

/// A job that waits for something.
pub(crate) struct Running {
    scope: Arc<ClaimScope>,
    found: Arc<Found>,
    ending: Ending,
    done: Done,
    at: Stage,
}

enum Stage {
    /// Its handler waits.
    Handler(Attempt, Option<Box<meter::Begun>>),
    /// It may have killed workers, and runs alone.
    Suspect(ClaimedJob),
    /// For the store to have what its handler said last, if it said anything.
    Ended(Option<oneshot::Receiver<Result<()>>>, Ended),
}

/// Begins a job, and decides how it is settled where that is known at once. `found`: what [`crate::last_handler::LastHandler::find`] says of its
/// kind.
pub(super) fn begin(
    core: &Core,
    scope: &Arc<ClaimScope>,
    found: std::result::Result<Option<&Arc<Found>>, String>,
    popped: Popped,
    cx: &mut task::Context<'_>,
) -> Begun {
    let Popped { slot, index, job } = popped;
    let (id, position, settlement) = (job.id, job.position, Settlement::WithClaim);
    let done = Done { slot, index, position, settlement, waited: false };
    let over = |settlement| Begun::Over(Done { settlement, ..done });
    if let Some(instead) = scope.instead_of_start(&job) {
        return over(Settlement::by_itself(instead));
    }
    let found = match found {
        Ok(Some(found)) => found,
        Ok(None) => return over(Settlement::by_itself(Disposition::NoHandler)),
        Err(error) => return over(Ending::of(&job).without_handler(core, error)),
    };
    let ending = Ending::of(&job);
    if is_suspect(&job) {
        return Running::boxed(scope, found, ending, done, Stage::Suspect(job));
    }
    let begun = scope.begin(index, &job);
    let ended = match Attempt::begin(core, scope, found, job).map(|attempt| attempt.at_once(cx)) {
        Ok(Ok(ended)) => ended,
        Ok(Err(attempt)) => {
            return Running::boxed(scope, found, ending, done, Stage::Handler(attempt, begun));
        }
        Err(panic) => Ended::Panic(panic),
    };
    ended.note(core, scope, id, begun);
    let stored = said_last(scope, id);
    match stored.is_some() || leaks(&ended) {
        true => Running::boxed(scope, found, ending, done, Stage::Ended(stored, ended)),
        false => over(ending.settlement(core, scope, found, ended)),
    }
}

/// Runs one job to its end.
#[cfg(feature = "testing")]
pub(crate) async fn run(
    core: &Arc<Core>,
    runner: &Arc<QueueRunner>,
    scope: &Arc<ClaimScope>,
    found: std::result::Result<Option<&Arc<Found>>, String>,
    popped: Popped,
) -> Done {
    let waker = std::future::poll_fn(|cx| task::Poll::Ready(cx.waker().clone())).await;
    let begun = begin(core, scope, found, popped, &mut task::Context::from_waker(&waker));
    match begun {
        Begun::Over(done) => done,
        Begun::Running(running) => running.end(core, runner).await,
    }
}

impl Running {
    fn boxed(scope: &Arc<ClaimScope>, found: &Arc<Found>, ending: Ending, done: Done, at: Stage) -> Begun {
        let (scope, found) = (Arc::clone(scope), Arc::clone(found));
        Begun::Running(Box::new(Self { scope, found, ending, done, at }))
    }

    /// Runs it to its end. Its executor does not count as active meanwhile.
    pub(super) async fn end(self: Box<Self>, core: &Arc<Core>, runner: &Arc<QueueRunner>) -> Done {
        let Self { scope, found, ending, done, at } = *self;
        let id = ending.id;
        activate(core, runner, runner.waits());
        let (stored, ended) = match at {
            Stage::Ended(stored, ended) => (stored, ended),
            Stage::Handler(attempt, begun) => {
                let ended = attempt.end(core, &scope).await;
                ended.note(core, &scope, id, begun);
                (said_last(&scope, id), ended)
            }
            Stage::Suspect(job) => {
                // Out of the way of the many that are not.
                let (begun, ended) = Box::pin(run_alone(core, &scope, &found, done.index, job)).await;
                ended.note(core, &scope, id, begun);
                (said_last(&scope, id), ended)
            }
        };
        if let Some(stored) = stored {
            stored_last(&scope, id, stored).await;
        }
        if leaks(&ended) {
            std::future::pending::<()>().await;
        }
        Done { settlement: ending.settlement(core, &scope, &found, ended), waited: true, ..done }
    }
}

/// Whether its executor is never heard of again: a defect for the chaos checker to find.
fn leaks(ended: &Ended) -> bool {
    cfg!(feature = "bug_slot_leak_on_panic") && matches!(ended, Ended::Panic(_))
}

/// Runs a job that may have killed workers, when no other one of those runs.
async fn run_alone(
    core: &Core,
    scope: &Arc<ClaimScope>,
    found: &Found,
    index: u32,
    job: ClaimedJob,
) -> (Option<Box<meter::Begun>>, Ended) {
    // It may wait for long.
    let alone = suspect::Alone::begin(core, scope, job.id).await;
    let instead = scope.instead_of_start(&job);
    let Some(alone) = alone else { return (None, instead.map_or(Ended::NotRun, Ended::Instead)) };
    let ran = match instead {
        Some(instead) => (None, Ended::Instead(instead)),
        None => {
            let begun = scope.begin(index, &job);
            let ended = match Attempt::begin(core, scope, found, job) {
                Ok(attempt) => attempt.end(core, scope).await,
                Err(panic) => Ended::Panic(panic),
            };
            (begun, ended)
        }
    };
    alone.end(core).await;
    ran
}

/// The attempt is over: nothing more is said of the job. Tells when the store has what was said; `None`: it has.
pub(super) fn said_last(scope: &ClaimScope, id: JobId) -> Option<oneshot::Receiver<Result<()>>> {
    scope.forget_reporter(id)?.close()
}

/// Waits for that.
pub(super) async fn stored_last(scope: &ClaimScope, id: JobId, stored: oneshot::Receiver<Result<()>>) {
    scope.epoch.outbox().hurry();
    tokio::select! {
        biased;
        () = scope.epoch.evicted().cancelled() => {}
        // An error means that the job is not this worker's, or that what was said is lost: the result stands.
        _ = told(id, stored) => {}
        () = tokio::time::sleep(LAST_WORDS_WAIT) => {}
    }
}
