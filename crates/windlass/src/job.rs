use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;
use windlass_core::{Args, NewJob, Result, RetryPolicy, Unique};

/// A type whose values are jobs: the fields are the args, as JSON.
///
/// ```
/// use windlass::{IntoJob, Job};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Resize { image: u64, width: u32 }
///
/// impl Job for Resize {
///     const KIND: &'static str = "image.resize";
///     const QUEUE: &'static str = "images";
///     const MAX_ATTEMPTS: u16 = 5;
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let job = Resize { image: 7, width: 640 }.into_job()?;
/// assert_eq!((job.kind(), job.queue()), ("image.resize", "images"));
/// assert_eq!(job.args().as_str(), r#"{"image":7,"width":640}"#);
/// # Ok(()) }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// What to do: the name by which workers find the handler. Keep it when the type is renamed.
    const KIND: &'static str;
    /// The queue, unless the enqueue says otherwise.
    const QUEUE: &'static str = NewJob::DEFAULT_QUEUE;
    /// The priority; lower runs first.
    const PRIORITY: i16 = 0;
    /// How often the job is tried at most, the first time included.
    const MAX_ATTEMPTS: u16 = NewJob::DEFAULT_MAX_ATTEMPTS;

    /// How long an attempt may take; `None` means as the worker says, `Some(Duration::MAX)` for ever. When the
    /// time is over, [`Context::cancelled`](crate::Context::cancelled) tells the handler, after a grace of 5 s its
    /// future is dropped, and the attempt failed with an error that begins with `timeout`. A handler that blocks
    /// its thread cannot be stopped. A job's [own timeout](NewJob::with_timeout) goes first.
    const TIMEOUT: Option<Duration> = None;

    /// What a start of it takes where its queue limits the [rate](crate::RateLimit): 1 to 1,000,000. A job's
    /// [own cost](NewJob::with_cost) goes first.
    const COST: u32 = 1;

    /// Whether the args are encrypted before they leave the program, and the result too. Clients and workers need a
    /// [keyring](crate::Client). Workers refuse plain args of such a kind, unless they
    /// [accept](crate::WorkerBuilder::accept_plain_args) those from before.
    const ENCRYPTED: bool = false;

    /// Whether and how jobs of this kind are [unique](Unique), unless the enqueue says otherwise.
    fn unique() -> Option<Unique> {
        None
    }

    /// Whom or what this job is about, a tenant or a customer: its [key](NewJob::with_key), by which a queue may be
    /// [limited](crate::Client::limit_keys). None, unless the enqueue says otherwise.
    fn key(&self) -> Option<String> {
        None
    }

    /// When failed jobs of this kind are tried again; `None` means as the worker's policy says. A job's
    /// [own policy](NewJob::with_retry_policy) goes first.
    fn retry_policy() -> Option<RetryPolicy> {
        None
    }

    /// A backoff of your own: how long to wait after failed attempt number `attempt` (from 1). `None`: as
    /// [`Self::retry_policy`] says. A job's own policy goes first.
    fn retry_delay(attempt: u16, error: &str) -> Option<Duration> {
        let _ = (attempt, error);
        None
    }
}

/// What can be enqueued: a [`Job`], or a [`NewJob`] with options of its own.
pub trait IntoJob {
    /// The job as the store takes it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`](windlass_core::ErrorKind::InvalidArgs) when the value does not
    /// serialise to JSON that every store can keep.
    fn into_job(self) -> Result<NewJob>;
}

impl<J: Job> IntoJob for J {
    fn into_job(self) -> Result<NewJob> {
        let job = NewJob::new(J::KIND, Args::of(&self)?);
        let job = job.with_queue(J::QUEUE).with_priority(J::PRIORITY).with_max_attempts(J::MAX_ATTEMPTS);
        let job = job.with_cost(J::COST);
        let job = if J::ENCRYPTED { job.with_encryption() } else { job };
        let job = match self.key() {
            Some(key) => job.with_key(key),
            None => job,
        };
        Ok(match J::unique() {
            Some(unique) => job.with_unique(unique),
            None => job,
        })
    }
}

impl IntoJob for NewJob {
    fn into_job(self) -> Result<NewJob> {
        Ok(self)
    }
}
