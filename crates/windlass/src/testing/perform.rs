use crate::{
    Context, DataSet, HandlerFn, IntoJob, Job, RawJob,
    encryption::OpenHandler,
    handler::{RawHandler, TypedHandler},
};
use bytes::Bytes;
use serde::Serialize;
use std::{
    fmt,
    future::{Future, IntoFuture, pending},
    pin::Pin,
};
use windlass_core::{Args, ClaimedJob, HandlerReport, JobId, Limits, NewJob, Outcome, Result};

/// Makes the handler when its data is known.
type Make = Box<dyn FnOnce(&DataSet) -> Result<Box<dyn OpenHandler>> + Send>;

/// Runs one handler by itself, without a store, and gives its outcome. Await it, with what the handler needs
/// before that:
///
/// ```
/// use windlass::{Attempt, Context, Data, Job, Outcome, testing};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendMail { to: String }
/// # impl Job for SendMail { const KIND: &'static str = "mail.send"; }
/// struct Smtp { up: bool }
///
/// async fn send_mail(mail: SendMail, smtp: Data<Smtp>, attempt: Attempt) -> Outcome {
///     match (smtp.up, attempt.is_last()) {
///         (true, _) => Outcome::complete_with(&mail.to),
///         (false, true) => Outcome::Discard("the relay is down".into()),
///         (false, false) => Outcome::Snooze(std::time::Duration::from_secs(60)),
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> windlass::Result<()> {
/// let mail = || SendMail { to: "ada".into() };
/// let sent = testing::perform(mail(), send_mail).data(Smtp { up: true }).await?;
/// assert_eq!(sent, Outcome::complete_with("ada"));
/// let dead = testing::perform(mail(), send_mail)
///     .data(Smtp { up: false })
///     .options(|job| job.with_max_attempts(3))
///     .attempt(3)
///     .await?;
/// assert_eq!(dead, Outcome::Discard("the relay is down".into()));
/// # Ok(()) }
/// ```
///
/// The job goes through JSON as on its way through a store. Layers, timeouts and retry policies are the worker's: to
/// test them, [`drain`](crate::testing::drain). A panic of the handler is the test's.
pub fn perform<J: Job, X: 'static>(job: J, function: impl HandlerFn<J, X>) -> Perform {
    Perform::new(job.into_job(), Box::new(|data| Ok(Box::new(TypedHandler::new(function, data)?))))
}

/// [`perform`] for handlers of a [`RawJob`].
///
/// ```
/// use windlass::{Args, Context, NewJob, Outcome, RawJob, testing};
/// async fn run(job: RawJob, ctx: Context) -> Outcome {
///     Outcome::Cancel(format!("{} {}", ctx.kind(), job.json().unwrap()))
/// }
///
/// # #[tokio::main]
/// # async fn main() -> windlass::Result<()> {
/// let outcome = testing::perform_raw(NewJob::new("unpack", Args::of(&7)?), run).await?;
/// assert_eq!(outcome, Outcome::Cancel("unpack 7".into()));
/// # Ok(()) }
/// ```
pub fn perform_raw<X: 'static>(job: NewJob, function: impl HandlerFn<RawJob, X>) -> Perform {
    Perform::new(Ok(job), Box::new(|data| Ok(Box::new(RawHandler::new(function, data)?))))
}

/// See [`perform`]. Does nothing until it is awaited.
///
/// # Errors
/// Data that the handler takes and was not given; a job that breaks the [limits](Limits).
#[must_use = "nothing runs until it is awaited"]
pub struct Perform {
    job: Result<NewJob>,
    make: Make,
    data: DataSet,
    attempt: u16,
    checkpoint: Result<Option<Args>>,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Perform {
    fn new(job: Result<NewJob>, make: Make) -> Self {
        Self {
            job,
            make,
            data: DataSet::default(),
            attempt: 1,
            checkpoint: Ok(None),
            stop: Box::pin(pending()),
        }
    }

    /// Gives the handler a value that it takes as [`Data<T>`](crate::Data), as
    /// [`WorkerBuilder::data`](crate::WorkerBuilder::data) does.
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.data.insert(value);
        self
    }

    /// Which attempt it is, from 1.
    pub fn attempt(mut self, number: u16) -> Self {
        self.attempt = number;
        self
    }

    /// What an earlier attempt left as its [checkpoint](Context::checkpoint).
    pub fn checkpoint<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        self.checkpoint = Args::of(value).map(Some);
        self
    }

    /// Runs the handler and gives its outcome with what it [reported](Context::progress), if anything.
    ///
    /// ```
    /// # use windlass::{Context, Job, Outcome, testing};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Import { parts: u32 }
    /// # impl Job for Import { const KIND: &'static str = "import"; }
    /// async fn import(import: Import, ctx: Context) -> windlass::Result<()> {
    ///     let done: u32 = ctx.last_checkpoint().await?.unwrap_or(0);
    ///     for part in done..import.parts {
    ///         ctx.log(format!("part {part}"));
    ///         ctx.checkpoint(&(part + 1)).await?;
    ///     }
    ///     ctx.progress(100.0)
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// let (outcome, report) = testing::perform(Import { parts: 3 }, import).checkpoint(&1).reporting().await?;
    /// let report = report.expect("it says something");
    /// assert_eq!(outcome, Outcome::Complete(None));
    /// assert_eq!(report.log.iter().map(|line| &*line.text).collect::<Vec<_>>(), ["part 1", "part 2"]);
    /// assert_eq!(report.progress.unwrap().percent, 100.0);
    /// assert_eq!(report.checkpoint.unwrap().as_str(), "3");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As when it is awaited itself.
    pub async fn reporting(self) -> Result<(Outcome, Option<HandlerReport>)> {
        self.run().await
    }

    /// Changes the job's options: its queue, key, meta, the number of its attempts.
    ///
    /// ```
    /// # use windlass::{Context, Job, Outcome, testing};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Bill;
    /// # impl Job for Bill { const KIND: &'static str = "bill"; }
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// async fn bill(_: Bill, ctx: Context) -> Outcome {
    ///     Outcome::complete_with(&ctx.key())
    /// }
    /// let outcome = testing::perform(Bill, bill).options(|job| job.with_key("acme")).await?;
    /// assert_eq!(outcome, Outcome::complete_with("acme"));
    /// # Ok(()) }
    /// ```
    pub fn options(mut self, change: impl FnOnce(NewJob) -> NewJob) -> Self {
        self.job = self.job.map(change);
        self
    }

    /// Tells the handler to [stop](Context::cancelled) when this future is ready: `async {}` from the start.
    ///
    /// ```
    /// # use windlass::{Context, Job, Outcome, testing};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Watch;
    /// # impl Job for Watch { const KIND: &'static str = "watch"; }
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// async fn watch(_: Watch, ctx: Context) -> Result<(), &'static str> {
    ///     ctx.cancelled().await;
    ///     Err("was told to stop")
    /// }
    /// let outcome = testing::perform(Watch, watch).cancel_when(async {}).await?;
    /// assert_eq!(outcome, Outcome::Retry { after: None, error: "was told to stop".into() });
    /// # Ok(()) }
    /// ```
    pub fn cancel_when(mut self, ready: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Box::pin(ready);
        self
    }

    async fn run(self) -> Result<(Outcome, Option<HandlerReport>)> {
        let Self { job, make, data, attempt, checkpoint, mut stop } = self;
        let job = job?;
        // The handler gets its args open, as in a worker.
        let open = job.args().clone();
        let job = if job.needs_encryption() { job.with_envelope(open) } else { job };
        Limits::default().check(std::slice::from_ref(&job))?;
        data.check()?;
        let handler = make(&data)?;
        let (args, context, token) =
            Context::fake(claimed(&job, JobId(1), attempt), job.queue(), job.priority());
        if let Some(checkpoint) = checkpoint? {
            Limits::check_checkpoint(&checkpoint)?;
            context.leave_checkpoint(checkpoint);
        }
        let said = context.clone();
        let running = async { handler.call(RawJob::new(args), context).await };
        tokio::pin!(running);
        let outcome = tokio::select! {
            biased;
            () = &mut stop => {
                token.cancel();
                running.await
            }
            outcome = &mut running => outcome,
        };
        // Attempt 0 said nothing: it is what was there before.
        Ok((outcome, said.reported().filter(|report| report.attempt > 0)))
    }
}

/// As a store would hand it out.
pub(super) fn claimed(job: &NewJob, id: JobId, attempt: u16) -> ClaimedJob {
    ClaimedJob {
        id,
        position: 0,
        kind: job.kind().into(),
        args: Bytes::copy_from_slice(job.args().as_str().as_bytes()),
        attempt,
        max_attempts: job.max_attempts(),
        crash_count: 0,
        expires_in: None,
        enqueued_at: jiff::Timestamp::now(),
        never_put_off: attempt == 1,
        attributes: job.attributes().map(|attributes| Box::new(attributes.clone())),
    }
}

impl IntoFuture for Perform {
    type Output = Result<Outcome>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { self.run().await.map(|(outcome, _)| outcome) })
    }
}

impl fmt::Debug for Perform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Perform").field("data", &self.data).finish_non_exhaustive()
    }
}
