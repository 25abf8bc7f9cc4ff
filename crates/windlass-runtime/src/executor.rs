use crate::{
    Context, Handler, HandlerFuture,
    cancellation::{Cancellation, when_asked},
    caught,
    core::Core,
    disposition::{Attempt, Settlement, decide},
    epoch::ClaimScope,
    expiry::Expiry,
    outbox::told,
    queue_runner::QueueRunner,
    ready::Popped,
    suspect,
    sync::spawn,
    time_limit::TimeLimit,
    turn::{Activation, Done, Step, Turn},
};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{self, Poll, ready},
    time::Duration,
};
use tokio::sync::Notify;
use tracing::{Instrument, Level, debug_span, warn};
use windlass_core::{ClaimedJob, Disposition, JobId, Outcome, RetryPolicy};

/// How long the result of a job waits until the store has what its handler said last. Longer only where the store does not
/// answer, and then settling waits as well; once the job is settled nothing more is taken of it.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(2);

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
    loop {
        let turn = runner.turn(done.take(), &mut scope, &me);
        match follow_up(&core, &runner, turn) {
            Step::Run(popped) => {
                // Jobs that never wait must not keep the claimer and the settler from the thread.
                tokio::task::consume_budget().await;
                let Some(scope) = &scope else { continue };
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
            Step::Sleep => me.notified().await,
            Step::Exit => return,
        }
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

/// The handler of the job before: jobs of one kind come in runs, and looking one up costs a hash.
#[derive(Default)]
pub(crate) struct LastHandler {
    kind: Option<Arc<str>>,
    found: Option<Found>,
}

/// A handler, and how long its attempts may take.
struct Found {
    handler: Arc<dyn Handler>,
    timeout: Option<Duration>,
}

impl LastHandler {
    /// An error when the handler map panicked.
    fn find(&mut self, core: &Core, kind: &Arc<str>) -> Result<Option<&Found>, String> {
        if !self.kind.as_ref().is_some_and(|known| Arc::ptr_eq(known, kind) || known == kind) {
            self.kind = None;
            self.found = caught(|| {
                let handler = core.dispatch.find(kind)?;
                let timeout = handler.timeout().or(core.config.timeout);
                Some(Found { handler, timeout: timeout.filter(|timeout| *timeout < Duration::MAX) })
            })?;
            self.kind = Some(Arc::clone(kind));
        }
        Ok(self.found.as_ref())
    }
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
    let (id, number, max_attempts) = (job.id, job.attempt, job.max_attempts);
    let (tracked, own_policy) = match &job.attributes {
        Some(attributes) => (attributes.tracked, attributes.retry_policy),
        None => (false, None),
    };
    let mut done =
        Done { slot, index, position: job.position, settlement: Settlement::WithClaim, waited: false };
    if scope.is_cancel_asked(id) {
        let reason = Disposition::BY_REQUEST.to_owned();
        done.settlement = Settlement::ByItself(Disposition::Cancel { reason });
        return done;
    }
    let expiry = Expiry::of(&job);
    if let Some(expired) = expiry.as_ref().and_then(|expiry| expiry.look(scope)) {
        done.settlement = Settlement::ByItself(expired);
        return done;
    }
    let found = match handlers.find(core, &job.kind) {
        Ok(Some(found)) => found,
        Ok(None) => {
            done.settlement = Settlement::ByItself(Disposition::NoHandler);
            return done;
        }
        Err(error) => {
            let (policy, random) = (&core.config.retry_policy, (core.config.random)());
            let failed = Attempt { number, max_attempts, policy, random, interrupted: false };
            done.settlement = Settlement::ByItself(decide(Outcome::Retry { after: None, error }, &failed));
            return done;
        }
    };
    let ended = if job.crash_count < suspect::CRASHES {
        attempt(core, runner, scope, found, job, &mut done.waited).await
    } else {
        done.waited = true;
        activate(core, runner, runner.waits());
        match suspect::Alone::begin(core, scope, id).await {
            None => Ended::NotRun,
            Some(alone) => {
                // It may have waited for long.
                let ended = match expiry.and_then(|expiry| expiry.look(scope)) {
                    Some(expired) => Ended::Expired(expired),
                    None => attempt(core, runner, scope, found, job, &mut done.waited).await,
                };
                alone.end(core).await;
                ended
            }
        }
    };
    if let Some(said) = scope.forget_reporter(id)
        && let Some(stored) = said.close()
    {
        if !std::mem::replace(&mut done.waited, true) {
            activate(core, runner, runner.waits());
        }
        scope.epoch.outbox().hurry();
        tokio::select! {
            biased;
            () = scope.epoch.evicted().cancelled() => {}
            // An error means that the job is not this worker's, or that what was said is lost: the result stands.
            _ = told(id, stored) => {}
            () = tokio::time::sleep(LAST_WORDS_WAIT) => {}
        }
    }
    let cancelled = scope.is_cancel_asked(id);
    scope.forget_switch(id);
    let (outcome, interrupted) = match ended {
        Ended::Outcome(Outcome::Complete(None)) if !tracked => return done,
        Ended::Outcome(outcome) => (outcome, scope.epoch.interrupted().is_cancelled()),
        Ended::Panic(_) if cfg!(feature = "bug_slot_leak_on_panic") => std::future::pending().await,
        Ended::Panic(error) => (Outcome::Retry { after: None, error }, false),
        Ended::TimedOut(failure) => (failure, false),
        Ended::Expired(expired) => {
            done.settlement = Settlement::ByItself(expired);
            return done;
        }
        Ended::NotRun => {
            done.settlement = Settlement::ByItself(Disposition::Return);
            return done;
        }
    };
    let outcome = if cancelled { when_asked(outcome) } else { outcome };
    let policy = own_policy.unwrap_or_else(|| policy_of(core, found, id));
    let outcome = match outcome {
        Outcome::Retry { after: None, error } if own_policy.is_none() && !interrupted => {
            Outcome::Retry { after: delay_of(found, id, number, &error), error }
        }
        other => other,
    };
    let (policy, random) = (&policy, (core.config.random)());
    done.settlement =
        Settlement::ByItself(decide(outcome, &Attempt { number, max_attempts, policy, random, interrupted }));
    done
}

/// The retry policy of the job's kind.
fn policy_of(core: &Core, found: &Found, id: JobId) -> RetryPolicy {
    let policy = caught(|| found.handler.retry_policy().copied()).unwrap_or_else(|panic| {
        warn!(%id, panic, "the handler's retry policy cannot be had; the worker's is used");
        None
    });
    policy.unwrap_or(core.config.retry_policy)
}

/// What the kind's own function says about the delay, if it has one.
fn delay_of(found: &Found, id: JobId, attempt: u16, error: &str) -> Option<Duration> {
    caught(|| found.handler.retry_delay(attempt, error)).unwrap_or_else(|panic| {
        warn!(%id, panic, "the handler's retry delay cannot be had; its retry policy is used");
        None
    })
}

/// How an attempt ended.
enum Ended {
    Outcome(Outcome),
    Panic(String),
    /// In a failure after its time was over.
    TimedOut(Outcome),
    /// Not begun: it is too late.
    Expired(Disposition),
    /// Not begun, or dropped half-way because the job was taken from this worker.
    NotRun,
}

async fn attempt(
    core: &Arc<Core>,
    runner: &Arc<QueueRunner>,
    scope: &Arc<ClaimScope>,
    found: &Found,
    job: ClaimedJob,
    waited: &mut bool,
) -> Ended {
    let span = tracing::enabled!(Level::DEBUG)
        .then(|| debug_span!("job", id = %job.id, kind = %job.kind, attempt = job.attempt));
    let (id, grace) = (job.id, core.config.timeout_grace);
    let own_timeout = job.attributes.as_ref().and_then(|attributes| attributes.timeout);
    let mut limit =
        own_timeout.or(found.timeout).map(|timeout| TimeLimit::new(timeout, grace, scope.switch(id)));
    let (args, context) = Context::split(job, Arc::clone(scope));
    let mut future = match caught(|| found.handler.call(args, context)) {
        Ok(future) => future,
        Err(panic) => return Ended::Panic(panic),
    };
    if let Some(span) = span {
        future = Box::pin(future.instrument(span));
    }
    let ended = drive(core, runner, scope, id, &mut future, &mut limit, waited).await;
    let ended = caught(move || drop(future)).map_or_else(Ended::Panic, |()| ended);
    match (ended, limit.filter(TimeLimit::is_over)) {
        (Ended::Outcome(Outcome::Retry { after, error }), Some(limit)) => {
            Ended::TimedOut(limit.failure(after, &error))
        }
        (Ended::Panic(error), Some(limit)) => Ended::TimedOut(limit.failure(None, &error)),
        (ended, _) => ended,
    }
}

/// Polls the handler. Only one that waits pays for listening to its eviction, its cancellation and its time limit, and
/// gives its place among the active executors away.
async fn drive(
    core: &Arc<Core>,
    runner: &Arc<QueueRunner>,
    scope: &ClaimScope,
    id: JobId,
    future: &mut HandlerFuture,
    limit: &mut Option<TimeLimit>,
    waited: &mut bool,
) -> Ended {
    let mut evicted = pin!(None);
    let mut cancellation = None;
    poll_fn(|cx| {
        if let Poll::Ready(ended) = poll(future, cx) {
            return Poll::Ready(ended);
        }
        if evicted.is_none() {
            evicted.set(Some(scope.epoch.evicted().cancelled()));
            cancellation = Some(Cancellation::new(scope.switch(id), core.config.timeout_grace));
            if !std::mem::replace(waited, true) {
                activate(core, runner, runner.waits());
            }
        }
        if let Some(Poll::Ready(())) = evicted.as_mut().as_pin_mut().map(|evicted| evicted.poll(cx)) {
            return Poll::Ready(Ended::NotRun);
        }
        let over = cancellation.as_mut().map_or(Poll::Pending, |cancellation| cancellation.poll(cx));
        let over = match (over, limit.as_mut()) {
            (Poll::Pending, Some(limit)) => limit.poll(cx),
            (over, _) => over,
        };
        let failure = ready!(over);
        // What wraps the handler may still take note.
        Poll::Ready(match poll(future, cx) {
            Poll::Ready(ended) => ended,
            Poll::Pending => Ended::Outcome(failure),
        })
    })
    .await
}

fn poll(future: &mut HandlerFuture, cx: &mut task::Context<'_>) -> Poll<Ended> {
    match caught(|| future.as_mut().poll(cx)) {
        Ok(outcome) => outcome.map(Ended::Outcome),
        Err(panic) => Poll::Ready(Ended::Panic(panic)),
    }
}
