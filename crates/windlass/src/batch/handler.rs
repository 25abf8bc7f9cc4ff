use super::{BatchFn, BatchJob, running::Running, shared::Shared};
use crate::{RawJob, encryption::OpenHandler};
use bytes::Bytes;
use std::{future::ready, sync::Arc, time::Duration};
use windlass_core::{Outcome, RetryPolicy};
use windlass_runtime::{BatchFuture, BatchHandler, Context, Handler, HandlerFuture};

/// Where the way of a job through the layers ends: it joins its batch and waits for what becomes of it there.
pub(crate) struct Joining<J, X, F: BatchFn<J, X>>(pub(crate) Arc<Shared<J, X, F>>);

impl<J: Send + 'static, X: 'static, F: BatchFn<J, X>> OpenHandler for Joining<J, X, F> {
    fn call(&self, raw: RawJob, context: Context) -> HandlerFuture {
        let job = match self.0.read(raw) {
            Ok(args) => BatchJob::new(args, context),
            Err(unfit) => return Box::pin(ready(unfit)),
        };
        match self.0.meetings().join(job) {
            Ok(told) => Box::pin(async {
                let gone = |_| Outcome::Retry { after: None, error: "its batch was dropped".to_owned() };
                told.await.unwrap_or_else(gone)
            }),
            Err(alone) => {
                let running = self.0.start(vec![alone]);
                Box::pin(async { running.await.remove(0) })
            }
        }
    }

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        self.0.rules().retry_policy.as_ref()
    }

    fn retry_delay(&self, attempt: u16, error: &str) -> Option<Duration> {
        (self.0.rules().retry_delay)(attempt, error)
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.rules().timeout
    }
}

/// What the engine is given: each job goes through the layers, to where those of its batch meet.
pub(crate) struct Batched<J, X, F: BatchFn<J, X>> {
    way: Arc<dyn Handler>,
    shared: Arc<Shared<J, X, F>>,
}

impl<J, X, F: BatchFn<J, X>> Batched<J, X, F> {
    /// `way`: the layers, around the [`Joining`] of the same.
    pub(crate) fn new(way: Arc<dyn Handler>, shared: Arc<Shared<J, X, F>>) -> Self {
        Self { way, shared }
    }
}

impl<J: Send + 'static, X: 'static, F: BatchFn<J, X>> Handler for Batched<J, X, F> {
    fn call(&self, args: Bytes, context: Context) -> HandlerFuture {
        self.way.call(args, context)
    }

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        self.way.retry_policy()
    }

    fn retry_delay(&self, attempt: u16, error: &str) -> Option<Duration> {
        self.way.retry_delay(attempt, error)
    }

    fn timeout(&self) -> Option<Duration> {
        self.way.timeout()
    }

    fn batch(&self) -> Option<&dyn BatchHandler> {
        Some(self)
    }
}

impl<J: Send + 'static, X: 'static, F: BatchFn<J, X>> BatchHandler for Batched<J, X, F> {
    fn call_batch(&self, jobs: Vec<(Bytes, Context)>) -> BatchFuture {
        Box::pin(Running::new(&self.way, Arc::clone(&self.shared), jobs))
    }
}
