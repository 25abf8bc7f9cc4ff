use crate::{
    Client, Context, Job, RawJob, Worker,
    handler::{RawHandler, TypedHandler},
    registry::Registry,
};
use std::{future::Future, sync::Arc, time::Duration};
use windlass_core::{IntoOutcome, NewJob, Result, RetryPolicy};
use windlass_runtime::{Settling, WorkerConfig, WorkerEngine};

/// Describes a worker; [`Self::start`] sets it to work. Only a handler is required.
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder {
    client: Client,
    config: WorkerConfig,
    registry: Registry,
}

impl WorkerBuilder {
    /// The concurrency of the queue `default` when no queue is named.
    pub const DEFAULT_CONCURRENCY: usize = 10;

    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), config: WorkerConfig::default(), registry: Registry::default() }
    }

    /// Takes jobs from `queue`, at most `concurrency` at the same time. Without any, the worker takes
    /// from `default`, 10 at a time.
    pub fn queue(mut self, queue: impl Into<String>, concurrency: usize) -> Self {
        self.config = self.config.with_queue(queue, concurrency);
        self
    }

    /// Runs jobs of one type; the type decides the kind.
    pub fn handle<J, F, R>(mut self, function: F) -> Self
    where
        J: Job,
        F: Fn(J, Context) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.registry.insert(J::KIND.to_owned(), Arc::new(TypedHandler::new(function)));
        self
    }

    /// Runs jobs of `kind` with their args unparsed.
    pub fn handle_kind<F, R>(mut self, kind: impl Into<String>, function: F) -> Self
    where
        F: Fn(RawJob, Context) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.registry.insert(kind.into(), Arc::new(RawHandler::new(function)));
        self
    }

    /// Runs jobs of every kind that has no handler of its own.
    pub fn handle_any<F, R>(mut self, function: F) -> Self
    where
        F: Fn(RawJob, Context) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.registry.insert_any(Arc::new(RawHandler::new(function)));
        self
    }

    /// A name for people. Default `host:pid`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = name.into();
        self
    }

    /// How long the worker may be silent before others take its jobs. Default 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = lease;
        self
    }

    /// How long a graceful shutdown lets running jobs go on. Default 30 s.
    pub fn grace_period(mut self, grace_period: Duration) -> Self {
        self.config.grace_period = grace_period;
        self
    }

    /// Whether a slot waits until its job's settlement is committed. Default: it does not, which is faster and
    /// runs more jobs again after a crash.
    pub fn settling(mut self, settling: Settling) -> Self {
        self.config.settling = settling;
        self
    }

    /// When failed jobs are tried again, unless their type says so itself.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.config.retry_policy = policy;
        self
    }

    /// Changes any other option.
    pub fn configure(mut self, change: impl FnOnce(&mut WorkerConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Starts the worker in the current tokio runtime.
    ///
    /// # Errors
    /// An option that cannot work, a missing or doubled handler, or the store's error when it cannot be
    /// reached. Once started, a worker survives every outage of the store.
    pub async fn start(mut self) -> Result<Worker> {
        self.registry.check()?;
        if self.config.queues.is_empty() {
            self.config = self.config.with_queue(NewJob::DEFAULT_QUEUE, Self::DEFAULT_CONCURRENCY);
        }
        let store = Arc::clone(self.client.store());
        let engine = WorkerEngine::start(store, self.config, Arc::new(self.registry)).await?;
        Ok(Worker::new(engine))
    }
}
