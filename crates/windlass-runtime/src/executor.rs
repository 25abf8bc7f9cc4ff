mod lent;

use crate::{
    attempt::Attempt,
    batch_run::run_batch,
    conclusion::Ended,
    core::Core,
    disposition::Settlement,
    ending::Ending,
    epoch::ClaimScope,
    expiry::{Expiry, instead_of_start},
    last_handler::{Found, LastHandler},
    meter::Begun,
    outbox::{LAST_WORDS_WAIT, told},
    popped::{Popped, is_suspect},
    queue_runner::QueueRunner,
    suspect,
    sync::spawn,
    turn::{Activation, Done, Step, Turn},
};
use lent::{Lot, lends};
use std::sync::Arc;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};
use windlass_core::{ClaimedJob, Disposition, JobId, Result};

/// Wakes or starts an executor.
pub(crate) fn activate(core: &Arc<Core>, runner: &Arc<QueueRunner>, activation: Option<Activation>) {
    match activation {
        None => {}
        Some(Activation::Wake(sleeper)) => sleeper.notify_one(),
        Some(Activation::Spawn) => {
            spawn(execute(Arc::clone(core), Arc::clone(runner)));
        }
    }
}

/// One of a queue's `concurrency` executors: takes a job, runs it, hands in its result with the same
/// lock with which it takes the next, or waits first until the result is settled ([`crate::Settling`]).
async fn execute(core: Arc<Core>, runner: Arc<QueueRunner>) {
    let me = Arc::new(Notify::new());
    let (mut scope, mut handlers, mut done) = (None, LastHandler::default(), None);
    let mut lot = Lot::default();
    loop {
        let turn = runner.turn(done.take(), &mut scope, &me);
        let step = follow_up(&core, &runner, turn);
        if !matches!(step, Step::Run(_)) {
            lot.offer();
        }
        match step {
            Step::Run(popped) => {
                let Some(scope) = &scope else { continue };
                if let Some((found, lender)) = lends(&core, scope, &mut handlers, &popped.job) {
                    lot.take(&core, &runner, scope, found, lender, popped);
                    if lot.is_full() {
                        lot.offer();
                        tokio::task::consume_budget().await;
                    }
                    continue;
                }
                lot.offer();
                // Jobs that never wait must not keep the claimer and the settler from the thread.
                tokio::task::consume_budget().await;
                done = Some(run(&core, &runner, scope, &mut handlers, popped).await);
            }
            Step::Settle(settled) => {
                tokio::select! {
                    biased;
                    // An error means that the settlement was given up: its jobs run again elsewhere.
                    _ = settled => {}
                    () = core.switches.ended.cancelled() => return,
                }
                runner.resumes();
            }
            Step::RunBatch(batch) => {
                tokio::task::consume_budget().await;
                let waits = || activate(&core, &runner, runner.waits());
                let jobs = run_batch(&core, &runner, &mut handlers, batch, waits).await;
                if !hand_in(&core, &runner, jobs).await {
                    return;
                }
            }
            Step::Sleep => me.notified().await,
            Step::SleepUntil(due) => sleep_until(&runner, &me, due).await,
            Step::Exit => return,
        }
    }
}

/// Hands in the results of a batch. Whether the worker goes on.
async fn hand_in(core: &Arc<Core>, runner: &QueueRunner, jobs: Vec<Done>) -> bool {
    let handed_in = runner.finish_batch(jobs);
    handed_in.tell(&core.signals);
    let strict = !handed_in.settled.is_empty();
    for settled in handed_in.settled {
        tokio::select! {
            biased;
            _ = settled => {}
            () = core.switches.ended.cancelled() => return false,
        }
    }
    if strict {
        runner.resumes();
    }
    true
}

/// Sleeps until somebody wakes this executor, or a batch is due.
async fn sleep_until(runner: &QueueRunner, me: &Arc<Notify>, due: Instant) {
    tokio::select! {
        biased;
        () = me.notified() => return,
        () = tokio::time::sleep_until(due) => {}
    }
    if !runner.wakes_by_itself(me) {
        me.notified().await;
    }
}

fn follow_up(core: &Arc<Core>, runner: &Arc<QueueRunner>, turn: Turn) -> Step {
    if let Some(whole_claim) = turn.tell_settler {
        core.signals.finished(whole_claim);
    }
    if turn.tell_claimer {
        core.signals.wake_claimer();
    }
    if turn.tell_sharer {
        core.signals.wake_sharer();
    }
    if turn.became_idle {
        core.signals.became_idle();
    }
    activate(core, runner, turn.activation);
    turn.step
}

/// Runs one job, and decides how it is settled.
pub(crate) async fn run(
    core: &Arc<Core>,
    runner: &Arc<QueueRunner>,
    scope: &Arc<ClaimScope>,
    handlers: &mut LastHandler,
    popped: Popped,
) -> Done {
    let Popped { slot, index, job } = popped;
    let (id, ending) = (job.id, Ending::of(&job));
    let mut done =
        Done { slot, index, position: job.position, settlement: Settlement::WithClaim, waited: false };
    let expiry = Expiry::of(&job);
    if let Some(instead) =
        instead_of_start(scope.is_cancel_asked(id), expiry.as_ref(), |left| scope.is_over(left))
    {
        done.settlement = Settlement::ByItself(instead);
        return done;
    }
    let found = match handlers.find(core, &job.kind) {
        Ok(Some(found)) => found,
        Ok(None) => {
            done.settlement = Settlement::ByItself(Disposition::NoHandler);
            return done;
        }
        Err(error) => {
            done.settlement = ending.without_handler(core, error);
            return done;
        }
    };
    let (begun, ended) = if is_suspect(&job) {
        done.waited = true;
        activate(core, runner, runner.waits());
        // Out of the way of the many that are not.
        Box::pin(run_alone(core, scope, found, index, job)).await
    } else {
        let waited = &mut done.waited;
        let waits = || {
            *waited = true;
            activate(core, runner, runner.waits());
        };
        (scope.begin(index, &job), attempt(core, scope, found, job, waits).await)
    };
    if let Some(begun) = begun.filter(|_| ended.ran()) {
        core.meter.note(&scope.queue, &begun);
    }
    if let Some(stored) = said_last(scope, id) {
        if !std::mem::replace(&mut done.waited, true) {
            activate(core, runner, runner.waits());
        }
        stored_last(scope, id, stored).await;
    }
    let cancelled = scope.is_cancel_asked(id);
    scope.forget_switch(id);
    if cfg!(feature = "bug_slot_leak_on_panic") && matches!(ended, Ended::Panic(_)) {
        std::future::pending::<()>().await;
    }
    done.settlement = ending.settlement(core, scope, found, ended, cancelled);
    done
}

async fn attempt(
    core: &Core,
    scope: &Arc<ClaimScope>,
    found: &Found,
    job: ClaimedJob,
    waits: impl FnOnce(),
) -> Ended {
    match Attempt::begin(core, scope, found, job) {
        Ok(attempt) => attempt.end(core, scope, waits).await,
        Err(panic) => Ended::Panic(panic),
    }
}

/// Runs a job that may have killed workers, when no other one of those runs.
async fn run_alone(
    core: &Core,
    scope: &Arc<ClaimScope>,
    found: &Found,
    index: u32,
    job: ClaimedJob,
) -> (Option<Box<Begun>>, Ended) {
    let Some(alone) = suspect::Alone::begin(core, scope, job.id).await else { return (None, Ended::NotRun) };
    // It may have waited for long.
    let expired = Expiry::of(&job).and_then(|expiry| expiry.look(|left| scope.is_over(left)));
    let ran = match expired {
        Some(expired) => (None, Ended::Expired(expired)),
        None => (scope.begin(index, &job), attempt(core, scope, found, job, || {}).await),
    };
    alone.end(core).await;
    ran
}

/// The attempt is over: nothing more is said of the job. Tells when the store has what was said; `None`: it has.
fn said_last(scope: &ClaimScope, id: JobId) -> Option<oneshot::Receiver<Result<()>>> {
    scope.forget_reporter(id)?.close()
}

/// Waits for that.
async fn stored_last(scope: &ClaimScope, id: JobId, stored: oneshot::Receiver<Result<()>>) {
    scope.epoch.outbox().hurry();
    tokio::select! {
        biased;
        () = scope.epoch.evicted().cancelled() => {}
        // An error means that the job is not this worker's, or that what was said is lost: the result stands.
        _ = told(id, stored) => {}
        () = tokio::time::sleep(LAST_WORDS_WAIT) => {}
    }
}
