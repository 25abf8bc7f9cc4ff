//! Jobs come in.

use crate::{Client, IntoJob};
use windlass_core::{EnqueuedOnce, EnqueuedUnique, Error, ErrorKind, JobId, NewJob, Result};

impl Client {
    /// Enqueues one job. It is committed and durable on return.
    ///
    /// # Errors
    /// Args or options that break the [limits](crate::Limits), or the store's error.
    pub async fn enqueue(&self, job: impl IntoJob) -> Result<JobId> {
        self.enqueue_one(job).await
    }

    /// Enqueues one job with options of its own:
    /// `client.enqueue_with(job, |job| job.with_delay(minute))`.
    ///
    /// # Errors
    /// As [`Self::enqueue`].
    pub async fn enqueue_with(
        &self,
        job: impl IntoJob,
        options: impl FnOnce(NewJob) -> NewJob,
    ) -> Result<JobId> {
        self.enqueue_one(options(job.into_job()?)).await
    }

    async fn enqueue_one(&self, job: impl IntoJob) -> Result<JobId> {
        let mut job = [self.new_job(job)?];
        let sending = self.sending(&mut job);
        only(&sending.end(self.store.enqueue(&job).await)?)
    }

    /// Enqueues one job under an idempotency key, at most once: a repeated call with the same key stores
    /// nothing, returns the id of the first and [says so](Enqueued::repeated). What to call when an earlier try ended
    /// [ambiguously](Error::is_ambiguous), and from whatever may run twice: a web request, a message, a script.
    ///
    /// Keys are 1 to 200 bytes, belong to the whole store, and are remembered for at least the retention of
    /// completed jobs (a day by default). The args of a repeated call are not compared.
    ///
    /// ```
    /// # use windlass::{Client, Job};
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Ship { order: u64 }
    ///
    /// impl Job for Ship { const KIND: &'static str = "ship"; }
    ///
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let first = client.enqueue_once("ship/42", Ship { order: 42 }).await?;
    /// let again = client.enqueue_once("ship/42", Ship { order: 42 }).await?; // the user pressed twice
    /// assert_eq!(first.id, again.id);
    /// assert!(!first.repeated && again.repeated);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// As [`Self::enqueue`]; [`ErrorKind::InvalidOption`] for a bad key, or one that was used for several jobs;
    /// [`ErrorKind::SchemaTooOld`] when the store has yet to be migrated for keys. After one that
    /// [is ambiguous](Error::is_ambiguous) or [retryable](Error::is_retryable), repeat the call.
    pub async fn enqueue_once(&self, key: &str, job: impl IntoJob) -> Result<Enqueued> {
        let mut job = [self.new_job(job)?];
        let sending = self.sending(&mut job);
        let EnqueuedOnce { ids, repeated } = sending.end(self.store.enqueue_once(key, &job).await)?;
        Ok(Enqueued { id: only(&ids)?, repeated })
    }

    /// Enqueues jobs under an idempotency key: all or none, and at most once. Returns their ids in order, those
    /// of the first call when this one repeated it, and whether it did. See [`Self::enqueue_once`].
    ///
    /// An empty batch uses its key, too.
    ///
    /// # Errors
    /// As [`Self::enqueue_once`], also when the key was used for another number of jobs.
    pub async fn enqueue_many_once<J: IntoJob>(
        &self,
        key: &str,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<EnqueuedOnce> {
        let mut jobs = self.new_jobs(jobs)?;
        let sending = self.sending(&mut jobs);
        sending.end(self.store.enqueue_once(key, &jobs).await)
    }

    /// Enqueues one [unique](crate::Unique) job unless another has its key. Says which job has the key now, and
    /// what became of the conflict, if there was one. (By [`Self::enqueue`], too, but that tells the id only.)
    ///
    /// ```
    /// # use windlass::{Client, Conflict, IntoJob, Job, Unique};
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Report { user: u64 }
    ///
    /// impl Job for Report {
    ///     const KIND: &'static str = "report";
    ///     fn unique() -> Option<Unique> { Some(Unique::by_fields(["user"])) }
    /// }
    ///
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let first = client.enqueue_unique(Report { user: 7 }).await?;
    /// let again = client.enqueue_unique(Report { user: 7 }).await?;
    /// assert_eq!((again.id, again.conflict), (first.id, Some(Conflict::Kept)));
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// As [`Self::enqueue`]; a key that cannot be made; [`ErrorKind::UniqueConflict`] where the job asks for it.
    pub async fn enqueue_unique(&self, job: impl IntoJob) -> Result<EnqueuedUnique> {
        let mut job = [self.new_job(job)?];
        let sending = self.sending(&mut job);
        only(&sending.end(self.store.enqueue_unique(&job).await)?)
    }

    /// Enqueues jobs, all or none, the [unique](crate::Unique) ones among them where their key is free; says of each, in order, what
    /// [`Self::enqueue_unique`] says of one.
    ///
    /// # Errors
    /// As [`Self::enqueue_unique`], naming the offending job; then nothing was enqueued.
    pub async fn enqueue_many_unique<J: IntoJob>(
        &self,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<EnqueuedUnique>> {
        let mut jobs = self.new_jobs(jobs)?;
        let sending = self.sending(&mut jobs);
        sending.end(self.store.enqueue_unique(&jobs).await)
    }

    /// Enqueues jobs, all or none, and returns their ids in order.
    ///
    /// # Errors
    /// As [`Self::enqueue`], naming the first offending job; then nothing was enqueued.
    pub async fn enqueue_many<J: IntoJob>(&self, jobs: impl IntoIterator<Item = J>) -> Result<Vec<JobId>> {
        let mut jobs = self.new_jobs(jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let sending = self.sending(&mut jobs);
        sending.end(self.store.enqueue(&jobs).await)
    }

    pub(crate) fn new_jobs<J: IntoJob>(&self, jobs: impl IntoIterator<Item = J>) -> Result<Vec<NewJob>> {
        jobs.into_iter().map(|job| self.new_job(job)).collect()
    }
}

/// What became of [`Client::enqueue_once`].
///
/// ```
/// # async fn example(client: &windlass::Client, job: windlass::NewJob) -> windlass::Result<()> {
/// let ship = client.enqueue_once("ship/42", job).await?;
/// if ship.repeated {
///     println!("order 42 was already on its way as job {}", ship.id);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Enqueued {
    /// The job that this call stored, or that the first call with its key did.
    pub id: JobId,
    /// Whether the key was used before, so that nothing was stored now.
    pub repeated: bool,
}

/// The reply to an enqueue of one job.
fn only<T: Copy>(replies: &[T]) -> Result<T> {
    replies.first().copied().ok_or_else(|| {
        Error::new(ErrorKind::Internal, "the store returned no id for an enqueued job; please report it")
    })
}
