use bytes::Bytes;
use std::{
    fmt,
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
    time::Duration,
};
use windlass_core::{Outcome, RetryPolicy};
use windlass_runtime::{Context, Handler, HandlerFuture, caught};

/// What runs around every handler of a worker: tracing, metrics, error reports.
///
/// It is added by [`WorkerBuilder::layer`](crate::WorkerBuilder::layer), sees each job before and after its
/// handler, and may change the outcome, or leave the handler out. It costs each job an allocation; without any,
/// nothing. An async function of a [`Context`] and a [`Next`] is one, too.
///
/// A handler that fails, [panics](Next::run) or is [out of time](Next::run) is an [`Outcome`] here. When the job is
/// taken away from the worker, the future is dropped half-way, as its handler's is.
///
/// A span around each job:
///
/// ```
/// use tracing::Instrument;
/// use windlass::{Context, Next, Outcome};
/// async fn span(job: Context, next: Next) -> Outcome {
///     let span = tracing::info_span!("job", id = %job.id(), kind = job.kind(), attempt = job.attempt());
///     next.run().instrument(span).await
/// }
/// ```
///
/// A counter of what became of jobs:
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
/// use windlass::{Context, Middleware, Next, Outcome, Worker};
/// #[derive(Clone, Default)]
/// struct Counter { completed: Arc<AtomicU64>, failed: Arc<AtomicU64> }
///
/// impl Middleware for Counter {
///     async fn handle(&self, _: &Context, next: Next) -> Outcome {
///         let outcome = next.run().await;
///         match &outcome {
///             Outcome::Retry { .. } | Outcome::Discard(_) => self.failed.fetch_add(1, Ordering::Relaxed),
///             _ => self.completed.fetch_add(1, Ordering::Relaxed),
///         };
///         outcome
///     }
/// }
///
/// # fn example(client: &windlass::Client) {
/// let counter = Counter::default();
/// let builder = Worker::builder(client).layer(counter.clone());
/// # }
/// ```
///
/// A report of errors to somebody who cares:
///
/// ```
/// # use windlass::{Context, Next, Outcome};
/// # fn report(_: String) {}
/// async fn reporter(job: Context, next: Next) -> Outcome {
///     let outcome = next.run().await;
///     if let Outcome::Retry { error, .. } | Outcome::Discard(error) = &outcome
///         && job.is_last_attempt()
///     {
///         report(format!("job {} of kind {} is dead: {error}", job.id(), job.kind()));
///     }
///     outcome
/// }
/// ```
pub trait Middleware: Send + Sync + 'static {
    /// Runs the job by [`Next::run`], and what there is to do before and after it.
    fn handle(&self, job: &Context, next: Next) -> impl Future<Output = Outcome> + Send;
}

impl<F, R> Middleware for F
where
    F: Fn(Context, Next) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send,
{
    fn handle(&self, job: &Context, next: Next) -> impl Future<Output = Outcome> + Send {
        self(job.clone(), next)
    }
}

/// What a [`Middleware`] is around: the next one, and at last the handler.
#[must_use = "the handler does not run unless this does"]
pub struct Next {
    handler: Arc<dyn Handler>,
    args: Bytes,
    context: Context,
}

impl Next {
    /// The job's args as JSON text; encrypted ones as they are stored, so that no layer shows them by accident. A result of
    /// theirs comes out encrypted, too.
    ///
    /// ```
    /// # use windlass::{Context, Next, Outcome};
    /// async fn log(job: Context, next: Next) -> Outcome {
    ///     println!("{}: {}", job.kind(), String::from_utf8_lossy(next.args()));
    ///     next.run().await
    /// }
    /// ```
    pub fn args(&self) -> &[u8] {
        &self.args
    }

    /// Runs the handler. A panic becomes the failure that the engine would have made of it. So does a
    /// timeout whose grace is over; the job ends then with what can be done without waiting.
    pub async fn run(self) -> Outcome {
        let Self { handler, args, context } = self;
        let failed = |error| Outcome::Retry { after: None, error };
        let started = caught(|| handler.call(args, context.clone()));
        let mut running = match started {
            Ok(running) => running,
            Err(panic) => return failed(panic),
        };
        let outcome = poll_fn(|cx| match caught(|| running.as_mut().poll(cx)) {
            Ok(Poll::Pending) => {
                context.expired().map_or(Poll::Pending, |why| Poll::Ready(failed(why.to_owned())))
            }
            Ok(ready) => ready,
            Err(panic) => Poll::Ready(failed(panic)),
        })
        .await;
        match caught(move || drop(running)) {
            Ok(()) => outcome,
            Err(panic) => failed(panic),
        }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("context", &self.context).finish_non_exhaustive()
    }
}

/// A handler with a middleware around it.
pub(crate) struct Layered<M> {
    pub(crate) middleware: Arc<M>,
    pub(crate) inner: Arc<dyn Handler>,
}

impl<M: Middleware> Handler for Layered<M> {
    fn call(&self, args: Bytes, context: Context) -> HandlerFuture {
        let middleware = Arc::clone(&self.middleware);
        let next = Next { handler: Arc::clone(&self.inner), args, context: context.clone() };
        Box::pin(async move { middleware.handle(&context, next).await })
    }

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        self.inner.retry_policy()
    }

    fn retry_delay(&self, attempt: u16, error: &str) -> Option<Duration> {
        self.inner.retry_delay(attempt, error)
    }

    fn timeout(&self) -> Option<Duration> {
        self.inner.timeout()
    }
}
