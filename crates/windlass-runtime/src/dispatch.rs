use crate::Context;
use bytes::Bytes;
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use windlass_core::{Outcome, RetryPolicy};

/// What a handler returns: the one allocation that a job costs the engine.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Runs the jobs of one kind.
pub trait Handler: Send + Sync + 'static {
    /// Starts one attempt. `args` is the job's JSON text. The future is dropped when the job is taken
    /// away from this worker; [`Context::cancelled`] announces that. A panic counts as an error.
    fn call(&self, args: Bytes, context: Context) -> HandlerFuture;

    /// When failed jobs of this kind are tried again; `None` means as the worker's policy says. A job's
    /// [own policy](windlass_core::Attributes::retry_policy) goes first.
    fn retry_policy(&self) -> Option<&RetryPolicy> {
        None
    }

    /// How long to wait after failed attempt number `attempt` (from 1), as a function of its own: `None` means as
    /// [`Self::retry_policy`] says. A job's own policy goes first.
    fn retry_delay(&self, attempt: u16, error: &str) -> Option<Duration> {
        let _ = (attempt, error);
        None
    }

    /// How long an attempt may take; `None` means as the worker says ([`WorkerConfig::timeout`]), and
    /// `Duration::MAX` means for ever. Asked once per run of equal kinds. A job's
    /// [own timeout](windlass_core::Attributes::timeout) goes first.
    ///
    /// [`WorkerConfig::timeout`]: crate::WorkerConfig::timeout
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// Finds the handler of a kind. The engine asks once per run of equal kinds, not once per job.
pub trait Dispatch: Send + Sync + 'static {
    /// The kinds that there are handlers for. Empty: any kind.
    fn kinds(&self) -> Vec<String>;

    /// The handler of `kind`; with `None` the job waits for a worker that knows the kind.
    fn find(&self, kind: &str) -> Option<Arc<dyn Handler>>;
}
