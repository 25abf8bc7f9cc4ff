use crate::{
    Context, Dispatch, Handler, HandlerFuture,
    core::Core,
    epoch::{ClaimScope, Epoch},
    pool::{Done, Pool, Step, Turn},
    ready::Popped,
    suspect,
    verdict::{Attempt, Verdict, decide},
};
use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
};
use tokio::sync::Notify;
use tracing::{Instrument, Level, debug_span};
use windlass_core::{ClaimedJob, Disposition, Outcome};

/// One of a queue's `concurrency` executors: takes a job, runs it, hands in its result with the same
/// lock with which it takes the next, or waits first until the result is settled ([`crate::Settling`]).
pub(crate) async fn execute(core: Arc<Core>, pool: Arc<Pool>) {
    let me = Arc::new(Notify::new());
    let (mut scope, mut handlers, mut done) = (None, LastHandler::default(), None);
    loop {
        let turn = pool.turn(done.take(), &mut scope, &me);
        match follow_up(&core, &pool, turn) {
            Step::Run(popped) => {
                // Jobs that never wait must not keep the claimer and the settler from the thread.
                tokio::task::consume_budget().await;
                let Some(scope) = &scope else { continue };
                done = Some(run(&core, &pool, scope, &mut handlers, popped).await);
            }
            Step::Settle(settled) => {
                tokio::select! {
                    biased;
                    // An error means that the settlement was given up: its jobs run again elsewhere.
                    _ = settled => {}
                    () = core.switches.ended.cancelled() => return,
                }
                pool.resumes();
            }
            Step::Park => me.notified().await,
            Step::Exit => return,
        }
    }
}

fn follow_up(core: &Arc<Core>, pool: &Arc<Pool>, turn: Turn) -> Step {
    if let Some(whole_claim) = turn.tell_settler {
        core.signals.finished(whole_claim);
    }
    if turn.tell_claimer {
        core.signals.wake_claimer();
    }
    if turn.became_idle {
        core.signals.became_idle();
    }
    core.recruit(pool, turn.recruit);
    turn.step
}

/// The handler of the job before: jobs of one kind come in runs, and looking one up costs a hash.
#[derive(Default)]
struct LastHandler {
    kind: Option<Arc<str>>,
    handler: Option<Arc<dyn Handler>>,
}

impl LastHandler {
    fn find(&mut self, dispatch: &dyn Dispatch, kind: &Arc<str>) -> Option<&Arc<dyn Handler>> {
        if !self.kind.as_ref().is_some_and(|known| Arc::ptr_eq(known, kind) || known == kind) {
            (self.kind, self.handler) = (Some(Arc::clone(kind)), dispatch.find(kind));
        }
        self.handler.as_ref()
    }
}

/// Runs one job from its handler to its verdict.
async fn run(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    scope: &Arc<ClaimScope>,
    handlers: &mut LastHandler,
    popped: Popped,
) -> Done {
    let Popped { slot, index, job } = popped;
    let (id, number, max_attempts) = (job.id, job.attempt, job.max_attempts);
    let tracked = job.attributes.as_ref().is_some_and(|attributes| attributes.tracked);
    let mut done = Done { slot, index, position: job.position, verdict: Verdict::Complete, waited: false };
    let Some(handler) = handlers.find(&*core.dispatch, &job.kind) else {
        done.verdict = Verdict::Except(Disposition::NoHandler);
        return done;
    };
    let ended = if job.crash_count < suspect::CRASHES {
        attempt(core, pool, scope, &**handler, job, &mut done.waited).await
    } else {
        done.waited = true;
        core.recruit(pool, pool.waits());
        match suspect::Alone::begin(core, scope, id).await {
            None => Ended::NotRun,
            Some(alone) => {
                let ended = attempt(core, pool, scope, &**handler, job, &mut done.waited).await;
                alone.end(core).await;
                ended
            }
        }
    };
    let (outcome, interrupted) = match ended {
        Ended::Outcome(Outcome::Complete(None)) if !tracked => return done,
        Ended::Outcome(outcome) => (outcome, scope.epoch.interrupted().is_cancelled()),
        Ended::Panic(_) if cfg!(feature = "bug_slot_leak_on_panic") => std::future::pending().await,
        Ended::Panic(error) => (Outcome::Retry { after: None, error }, false),
        Ended::NotRun => {
            done.verdict = Verdict::Except(Disposition::Return);
            return done;
        }
    };
    let policy = handler.retry_policy().unwrap_or(&core.config.retry_policy);
    let random = (core.config.random)();
    done.verdict =
        Verdict::Except(decide(outcome, &Attempt { number, max_attempts, policy, random, interrupted }));
    done
}

/// How an attempt ended.
enum Ended {
    Outcome(Outcome),
    Panic(String),
    /// Not begun, or dropped half-way because the job was taken from this worker.
    NotRun,
}

async fn attempt(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    scope: &Arc<ClaimScope>,
    handler: &dyn Handler,
    job: ClaimedJob,
    waited: &mut bool,
) -> Ended {
    let span = tracing::enabled!(Level::DEBUG)
        .then(|| debug_span!("job", id = %job.id, kind = %job.kind, attempt = job.attempt));
    let (args, context) = Context::split(job, Arc::clone(scope));
    let mut future = match catch_unwind(AssertUnwindSafe(|| handler.call(args, context))) {
        Ok(future) => future,
        Err(panic) => return Ended::Panic(panic_text(&*panic)),
    };
    if let Some(span) = span {
        future = Box::pin(future.instrument(span));
    }
    let ended = drive(core, pool, &scope.epoch, &mut future, waited).await;
    match catch_unwind(AssertUnwindSafe(move || drop(future))) {
        Ok(()) => ended,
        Err(panic) => Ended::Panic(panic_text(&*panic)),
    }
}

/// Polls the handler. Only one that waits pays for listening to its eviction, and gives its place among
/// the active executors away.
async fn drive(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    epoch: &Epoch,
    future: &mut HandlerFuture,
    waited: &mut bool,
) -> Ended {
    let mut evicted = pin!(None);
    poll_fn(|cx| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(outcome)) => return Poll::Ready(Ended::Outcome(outcome)),
            Err(panic) => return Poll::Ready(Ended::Panic(panic_text(&*panic))),
            Ok(Poll::Pending) => {}
        }
        if evicted.is_none() {
            evicted.set(Some(epoch.evicted().cancelled()));
            if !std::mem::replace(waited, true) {
                core.recruit(pool, pool.waits());
            }
        }
        match evicted.as_mut().as_pin_mut().map(|evicted| evicted.poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(Ended::NotRun),
            _ => Poll::Pending,
        }
    })
    .await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("handler panicked: {}", text.unwrap_or("with something that is no text"))
}
