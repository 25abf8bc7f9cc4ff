//! One attempt of a job: its handler is called, and polled until it ends or is ended.

use crate::{
    Context, HandlerFuture, cancellation::Cancellation, caught, conclusion::Ended, core::Core,
    epoch::ClaimScope, last_handler::Found, time_limit::TimeLimit,
};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{self, Poll, ready},
};
use tracing::{Instrument, Level, debug_span};
use windlass_core::{ClaimedJob, JobId, Outcome};

/// A handler that was called for a job.
pub(crate) struct Attempt {
    id: JobId,
    future: HandlerFuture,
    limit: Option<TimeLimit>,
}

impl Attempt {
    /// Calls the handler; what it says where it panics.
    pub(crate) fn begin(
        core: &Core,
        scope: &Arc<ClaimScope>,
        found: &Found,
        job: ClaimedJob,
    ) -> Result<Self, String> {
        let span = tracing::enabled!(Level::DEBUG)
            .then(|| debug_span!("job", id = %job.id, kind = %job.kind, attempt = job.attempt));
        let (id, grace) = (job.id, core.config.timeout_grace);
        let own_timeout = job.attributes.as_ref().and_then(|attributes| attributes.timeout);
        let timeout = own_timeout.or(found.timeout);
        let limit = timeout.map(|timeout| TimeLimit::new(timeout, grace, scope.switch(id)));
        let (args, context) = Context::split(job, Arc::clone(scope));
        let mut future = caught(|| found.handler.call(args, context))?;
        if let Some(span) = span {
            future = Box::pin(future.instrument(span));
        }
        Ok(Self { id, future, limit })
    }

    /// Polls it until it ends or has to. `waits` is called once, when it did not end at once.
    pub(crate) async fn end(mut self, core: &Core, scope: &ClaimScope, waits: impl FnOnce()) -> Ended {
        let ended = drive(core, scope, self.id, &mut self.future, &mut self.limit, waits).await;
        let Self { future, limit, .. } = self;
        let ended = caught(move || drop(future)).map_or_else(Ended::Panic, |()| ended);
        match (ended, limit.filter(TimeLimit::is_over)) {
            (Ended::Outcome(Outcome::Retry { after, error }), Some(limit)) => {
                Ended::TimedOut(limit.failure(after, &error))
            }
            (Ended::Panic(error), Some(limit)) => Ended::TimedOut(limit.failure(None, &error)),
            (ended, _) => ended,
        }
    }
}

/// Polls the handler. Only one that waits pays for listening to its eviction, its cancellation and its time limit.
pub(crate) async fn drive(
    core: &Core,
    scope: &ClaimScope,
    id: JobId,
    future: &mut HandlerFuture,
    limit: &mut Option<TimeLimit>,
    waits: impl FnOnce(),
) -> Ended {
    let mut evicted = pin!(None);
    let (mut cancellation, mut waits) = (None, Some(waits));
    poll_fn(|cx| {
        if let Poll::Ready(ended) = poll(future, cx) {
            return Poll::Ready(ended);
        }
        if let Some(waits) = waits.take() {
            evicted.set(Some(scope.epoch.evicted().cancelled()));
            cancellation = Some(Cancellation::new(scope.switch(id), core.config.timeout_grace));
            waits();
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
