use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};
use windlass_core::{IntoOutcome, Outcome, RetryPolicy};
use windlass_runtime::{
    BatchFuture, BatchHandler, Batching, Context, Dispatch, Handler, HandlerFuture, WorkerConfig,
    lend::Lender,
};

/// Handlers made of closures, by kind.
#[derive(Default)]
pub struct Handlers {
    by_kind: HashMap<String, Arc<dyn Handler>>,
    batched: HashMap<String, Batching>,
}

/// Runs batches by a closure.
struct Batches<F> {
    call: F,
    timeout: Option<Duration>,
}

struct Closure<F> {
    call: F,
    policy: Option<RetryPolicy>,
    timeout: Option<Duration>,
    delay: Option<RetryDelay>,
}

/// A backoff function.
pub type RetryDelay = fn(u16, &str) -> Option<Duration>;

impl Handlers {
    pub fn on<F, R>(self, kind: &str, call: F) -> Self
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.with_policy(kind, None, call)
    }

    pub fn with_policy<F, R>(self, kind: &str, policy: Option<RetryPolicy>, call: F) -> Self
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.insert(kind, Closure { call, policy, timeout: None, delay: None })
    }

    pub fn with_timeout<F, R>(self, kind: &str, timeout: Duration, call: F) -> Self
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.insert(kind, Closure { call, policy: None, timeout: Some(timeout), delay: None })
    }

    pub fn with_delay<F, R>(self, kind: &str, policy: RetryPolicy, delay: RetryDelay, call: F) -> Self
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.insert(kind, Closure { call, policy: Some(policy), timeout: None, delay: Some(delay) })
    }

    /// A handler of batches, of up to so many jobs, the first of which waits so long.
    pub fn on_batch<F, R>(
        self,
        kind: &str,
        batching: (usize, Duration),
        timeout: Option<Duration>,
        call: F,
    ) -> Self
    where
        F: Fn(Vec<Context>) -> R + Send + Sync + 'static,
        R: Future<Output = Vec<Outcome>> + Send + 'static,
    {
        let mut handlers = self.insert(kind, Batches { call, timeout });
        handlers.batched.insert(kind.to_owned(), Batching::new(batching.0, batching.1).unwrap());
        handlers
    }

    /// A kind that foreign code runs.
    pub fn lend(self, kind: &str, lender: &Lender) -> Self {
        self.insert(kind, lender.clone())
    }

    /// The same where something is around the lender, so that a future waits for each job.
    pub fn lend_awaited(self, kind: &str, lender: &Lender) -> Self {
        self.insert(kind, Awaited(lender.clone()))
    }

    /// A kind that foreign code runs in batches.
    pub fn lend_batch(self, kind: &str, batching: (usize, Duration), lender: &Lender) -> Self {
        let mut handlers = self.insert(kind, lender.clone());
        handlers.batched.insert(kind.to_owned(), Batching::new(batching.0, batching.1).unwrap());
        handlers
    }

    fn insert(mut self, kind: &str, handler: impl Handler) -> Self {
        self.by_kind.insert(kind.to_owned(), Arc::new(handler));
        self
    }
}

struct Awaited(Lender);

impl Handler for Awaited {
    fn call(&self, args: bytes::Bytes, context: Context) -> HandlerFuture {
        self.0.offer(args, context)
    }
}

impl<F, R> Handler for Closure<F>
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    fn call(&self, _: bytes::Bytes, context: Context) -> HandlerFuture {
        let running = (self.call)(context);
        Box::pin(async move { running.await.into_outcome() })
    }

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        self.policy.as_ref()
    }

    fn retry_delay(&self, attempt: u16, error: &str) -> Option<Duration> {
        self.delay.and_then(|delay| delay(attempt, error))
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

impl<F, R> Handler for Batches<F>
where
    F: Fn(Vec<Context>) -> R + Send + Sync + 'static,
    R: Future<Output = Vec<Outcome>> + Send + 'static,
{
    fn call(&self, _: bytes::Bytes, context: Context) -> HandlerFuture {
        let running = (self.call)(vec![context]);
        Box::pin(async move { running.await.remove(0) })
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn batch(&self) -> Option<&dyn BatchHandler> {
        Some(self)
    }
}

impl<F, R> BatchHandler for Batches<F>
where
    F: Fn(Vec<Context>) -> R + Send + Sync + 'static,
    R: Future<Output = Vec<Outcome>> + Send + 'static,
{
    fn call_batch(&self, jobs: Vec<(bytes::Bytes, Context)>) -> BatchFuture {
        Box::pin((self.call)(jobs.into_iter().map(|(_, context)| context).collect()))
    }
}

impl Dispatch for Handlers {
    fn batched(&self) -> HashMap<String, Batching> {
        self.batched.clone()
    }

    fn kinds(&self) -> Vec<String> {
        self.by_kind.keys().cloned().collect()
    }

    fn find(&self, kind: &str) -> Option<Arc<dyn Handler>> {
        self.by_kind.get(kind).cloned()
    }
}

/// A worker of the queue `q`.
pub fn config(concurrency: usize) -> WorkerConfig {
    WorkerConfig::default().with_queue("q", concurrency)
}
