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
    /// Few have one.
    limit: Option<Box<TimeLimit>>,
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
        let limit = timeout.map(|timeout| Box::new(TimeLimit::new(timeout, grace, scope.switch(id))));
        let (args, context) = Context::split(job, Arc::clone(scope));
        let mut future = caught(|| found.handler.call(args, context))?;
        if let Some(span) = span {
            future = Box::pin(future.instrument(span));
        }
        Ok(Self { id, future, limit })
    }

    /// Polls it once: how it ended, where it did at once.
    pub(crate) fn at_once(mut self, cx: &mut task::Context<'_>) -> Result<Ended, Self> {
        match poll(&mut self.future, cx) {
            Poll::Ready(ended) => Ok(self.over(ended)),
            Poll::Pending => Err(self),
        }
    }

    /// Polls it until it ends or has to.
    pub(crate) async fn end(mut self, core: &Core, scope: &ClaimScope) -> Ended {
        let ended = drive(core, scope, self.id, &mut self.future, &mut self.limit).await;
        self.over(ended)
    }

    fn over(self, ended: Ended) -> Ended {
        let Self { future, limit, .. } = self;
        let ended = caught(move || drop(future)).map_or_else(Ended::Panic, |()| ended);
        match (ended, limit.filter(|limit| limit.is_over())) {
            (Ended::Outcome(Outcome::Retry { after, error }), Some(limit)) => {
                Ended::TimedOut(limit.failure(after, &error))
            }
            (Ended::Panic(error), Some(limit)) => Ended::TimedOut(limit.failure(None, &error)),
            (ended, _) => ended,
        }
    }
}

/// Polls a handler that waits, and listens to its eviction, its cancellation and its time limit.
pub(crate) async fn drive(
    core: &Core,
    scope: &ClaimScope,
    id: JobId,
    future: &mut HandlerFuture,
    limit: &mut Option<Box<TimeLimit>>,
) -> Ended {
    let mut evicted = pin!(scope.epoch.evicted().cancelled());
    let mut cancellation = Cancellation::new(scope.switch(id), core.config.timeout_grace);
    poll_fn(|cx| {
        if let Poll::Ready(ended) = poll(future, cx) {
            return Poll::Ready(ended);
        }
        if evicted.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ended::NotRun);
        }
        let over = match (cancellation.poll(cx), limit.as_mut()) {
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
