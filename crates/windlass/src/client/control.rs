//! What a person or a program does to jobs and queues that are there.

use crate::{Client, Selection};
use windlass_core::{
    CancelReply, DeleteReply, EditReply, JobEdit, JobFilter, JobId, Result, RetryReply, WorkerId,
};

impl Client {
    /// Cancels jobs: those that no worker holds at once. One that runs is told to stop by its
    /// [token](crate::Context::cancelled), within milliseconds as a rule. It may still complete; an error or a snooze ends it as
    /// cancelled, and a handler that does not listen is dropped after
    /// [`timeout_grace`](crate::WorkerConfig::timeout_grace). One reply per id, in order.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{CancelReply, Client, Context, Job, JobState, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Import { file: String }
    /// # impl Job for Import { const KIND: &'static str = "import"; }
    /// async fn import(import: Import, ctx: Context) {
    ///     tokio::select! {
    ///         () = ctx.cancelled() => {} // clean up, and return
    ///         () = tokio::time::sleep(Duration::from_secs(3600)) => {} // the work
    ///     }
    /// }
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let id = client.enqueue(Import { file: "all.csv".into() }).await?;
    /// # let worker = Worker::builder(&client).queue("default", 1).handle(import).start().await?;
    /// # while client.job(id).await?.unwrap().state != JobState::Running { tokio::task::yield_now().await }
    /// // once it runs:
    /// assert_eq!(client.cancel(&[id]).await?, [CancelReply::Running]);
    /// # while client.job(id).await?.unwrap().state == JobState::Running { tokio::task::yield_now().await }
    /// # worker.shutdown().await;
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// The store's.
    pub async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        let done = self.store.cancel(ids).await;
        let is_done = |reply: &CancelReply| matches!(reply, CancelReply::Cancelled | CancelReply::Running);
        self.noted_jobs("jobs.cancel", None, ids, done, is_done).await
    }

    /// Makes dead, cancelled or retryable jobs available now. One reply per id, in order.
    ///
    /// # Errors
    /// The store's.
    pub async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        let done = self.store.retry(ids).await;
        self.noted_jobs("jobs.retry", None, ids, done, |reply| *reply == RetryReply::Retried).await
    }

    /// Changes jobs that no worker holds and that have not completed, each wholly or not at all: when they run, where, how often
    /// they are tried, their args. One that waits stays as it is but for what the edit names; a dead one stays dead. An available
    /// job may lose its place among those of its priority. One reply per id, in order.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Args, Client, EditReply, JobEdit, JobState, NewJob};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// # let id = client.enqueue(NewJob::new("mail.send", Args::parse("{}")?)).await?;
    /// let later = JobEdit::new().with_delay(Duration::from_secs(600)).with_priority(5);
    /// assert_eq!(client.edit(&[id], &later).await?, [EditReply::Edited]);
    /// assert_eq!(client.job(id).await?.unwrap().state, JobState::Scheduled);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [What is wrong with the edit](JobEdit::check), or the store's.
    pub async fn edit(&self, ids: &[JobId], edit: &JobEdit) -> Result<Vec<EditReply>> {
        let done = self.store.edit(ids, edit).await;
        self.noted_jobs("jobs.edit", Some(edit), ids, done, |reply| *reply == EditReply::Edited).await
    }

    /// Removes jobs that no worker holds and that have not completed, without a trace. One reply per id, in order.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete(&self, ids: &[JobId]) -> Result<Vec<DeleteReply>> {
        let done = self.store.delete(ids).await;
        self.noted_jobs("jobs.delete", None, ids, done, |reply| *reply == DeleteReply::Deleted).await
    }

    /// All jobs that a filter selects, to cancel, retry, edit or delete them: its limit and its token do not count.
    ///
    /// ```
    /// # use windlass::{Client, JobFilter, JobState, NewJob, Args};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// # client.enqueue(NewJob::new("mail.send", Args::parse("{}")?)).await?;
    /// let mails = JobFilter { kind: Some("mail.send".into()), ..JobFilter::default() };
    /// let would = client.select(mails.clone()).dry_run(true).cancel().await?;
    /// assert_eq!(would.selected, 1);
    /// let cancelled = client.select(mails.clone()).cancel().await?;
    /// assert_eq!((cancelled.done, cancelled.asked), (1, 0));
    /// let retried = client.select(mails).per_second(1_000.0).retry().await?;
    /// assert_eq!(retried.done, 1);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    pub fn select(&self, filter: JobFilter) -> Selection<'_> {
        Selection::new(self, filter)
    }

    /// These jobs, each once, to cancel, retry, edit or delete them with progress and at a pace; [`Self::cancel`] and its like say what became of each. A dry run looks
    /// at each of them; whether another job has the key of one that would be retried shows only then.
    ///
    /// ```
    /// # use windlass::{Client, NewJob, Args};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// # let ids = client.enqueue_many([NewJob::new("mail.send", Args::parse("{}")?)]).await?;
    /// let cancelled = client.select_ids(ids).per_second(1_000.0).cancel().await?;
    /// assert_eq!((cancelled.selected, cancelled.done), (1, 1));
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    pub fn select_ids(&self, ids: Vec<JobId>) -> Selection<'_> {
        Selection::of_ids(self, ids)
    }

    /// Stops claiming from a queue; running jobs finish.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for an unknown queue, or the store's.
    pub async fn pause(&self, queue: &str) -> Result<()> {
        self.noted("queues.pause", queue, self.store.pause(queue, true).await).await
    }

    /// Asks a worker to take no more jobs, end what it runs, and go: its `run` or [`Worker::wait`](crate::Worker::wait) ends as after a stop, but without a grace
    /// period. For deploys, from anywhere: [`Self::status`] names the workers, and says which drain. What it had claimed and not started goes back.
    ///
    /// ```
    /// # use windlass::{Client, RawJob, Worker};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let worker = Worker::builder(&client).handle_kind("mail", |_: RawJob| async {}).start().await?;
    /// let id = client.status().await?.workers[0].id;
    /// client.drain_worker(id).await?;
    /// worker.wait().await;
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) where no such worker lives, or the store's.
    pub async fn drain_worker(&self, worker: WorkerId) -> Result<()> {
        let done = self.store.drain_worker(worker).await;
        self.noted("workers.drain", &worker.to_string(), done).await
    }

    /// Allows claiming from a queue again.
    ///
    /// # Errors
    /// As [`Self::pause`].
    pub async fn resume(&self, queue: &str) -> Result<()> {
        self.noted("queues.resume", queue, self.store.pause(queue, false).await).await
    }
}
