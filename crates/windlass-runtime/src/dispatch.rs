use crate::{Batching, Context, lend::Lender};
use bytes::Bytes;
use std::{collections::HashMap, future::Future, pin::Pin, sync::Arc, time::Duration};
use windlass_core::{Outcome, RetryPolicy};

/// What a handler returns: the one allocation that a job costs the engine.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What a handler of batches returns: an outcome for each job, in the order in which it was given them.
pub type BatchFuture = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send>>;

/// Runs several jobs of one kind at once.
pub trait BatchHandler: Send + Sync + 'static {
    /// Starts one attempt of each of these jobs; their args are JSON text. The future is dropped when the jobs are taken
    /// away from this worker, when their time is over, and when all of them are cancelled; each context's
    /// [`Context::cancelled`] announces that. A panic fails all of them.
    fn call_batch(&self, jobs: Vec<(Bytes, Context)>) -> BatchFuture;
}

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

    /// What runs several jobs of the kind at once, where [`Dispatch::batched`] says that they are batched. Jobs that may
    /// have killed workers still run one by one, by [`Self::call`].
    fn batch(&self) -> Option<&dyn BatchHandler> {
        None
    }

    /// The lender to which [`Self::call`] would give a job with these args just as it is, and do nothing else. The engine then
    /// lends it by itself, which is cheaper, unless something of the job needs a future.
    fn lender(&self, args: &Bytes) -> Option<&Lender> {
        let _ = args;
        None
    }
}

/// Finds the handler of a kind. The engine asks once per run of equal kinds, not once per job.
pub trait Dispatch: Send + Sync + 'static {
    /// The kinds that there are handlers for. Empty: any kind.
    fn kinds(&self) -> Vec<String>;

    /// The handler of `kind`; with `None` the job waits for a worker that knows the kind.
    fn find(&self, kind: &str) -> Option<Arc<dyn Handler>>;

    /// The kinds whose jobs run several at once. The engine asks when it starts.
    fn batched(&self) -> HashMap<String, Batching> {
        HashMap::new()
    }
}
