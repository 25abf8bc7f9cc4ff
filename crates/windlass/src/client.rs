use crate::{Events, IntoJob, Selection, waiting::Waiting};
use serde::de::DeserializeOwned;
use std::{fmt, sync::Arc, time::Duration};
use windlass_core::{
    CancelReply, DeleteReply, EditReply, EnqueuedOnce, EnqueuedUnique, Error, ErrorKind, EventCursor,
    History, HistoryRequest, JobEdit, JobFilter, JobId, JobPage, JobRecord, MigrationReport, NewJob,
    QueueStats, Result, RetentionRule, RetryReply, Settings, Store, StoreStatus,
};

/// Enqueues jobs and looks after them. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    waiting: Waiting,
    pub(crate) keyring: Option<crate::encryption::Keyring>,
    #[cfg(feature = "postgres")]
    pub(crate) postgres: Option<Arc<windlass_postgres::PostgresStore>>,
    #[cfg(feature = "testing")]
    pub(crate) memory: Option<windlass_memory::MemoryStore>,
}

impl Client {
    /// A client of a store that you made yourself.
    pub fn from_store(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            waiting: Waiting::default(),
            keyring: None,
            #[cfg(feature = "postgres")]
            postgres: None,
            #[cfg(feature = "testing")]
            memory: None,
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn from_postgres(store: windlass_postgres::PostgresStore) -> Self {
        let postgres = Arc::new(store);
        let store = Arc::<windlass_postgres::PostgresStore>::clone(&postgres);
        Self { postgres: Some(postgres), ..Self::from_store(store) }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn from_memory(store: windlass_memory::MemoryStore) -> Self {
        Self { memory: Some(store.clone()), ..Self::from_store(Arc::new(store)) }
    }

    /// The store behind this client.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Creates or upgrades the store's schema. Safe to repeat and to run from several processes at once.
    ///
    /// # Errors
    /// When the store refuses, or is newer than this build.
    pub async fn migrate(&self) -> Result<MigrationReport> {
        self.store.migrate().await
    }

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
        only(&self.store.enqueue(&[self.new_job(job)?]).await?)
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
        let EnqueuedOnce { ids, repeated } = self.store.enqueue_once(key, &[self.new_job(job)?]).await?;
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
        let jobs = jobs.into_iter().map(|job| self.new_job(job)).collect::<Result<Vec<_>>>()?;
        self.store.enqueue_once(key, &jobs).await
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
        let stored = self.store.enqueue_unique(&[self.new_job(job)?]).await?;
        only(&stored)
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
        let jobs = jobs.into_iter().map(|job| self.new_job(job)).collect::<Result<Vec<_>>>()?;
        self.store.enqueue_unique(&jobs).await
    }

    /// Enqueues jobs, all or none, and returns their ids in order.
    ///
    /// # Errors
    /// As [`Self::enqueue`], naming the first offending job; then nothing was enqueued.
    pub async fn enqueue_many<J: IntoJob>(&self, jobs: impl IntoIterator<Item = J>) -> Result<Vec<JobId>> {
        let jobs = jobs.into_iter().map(|job| self.new_job(job)).collect::<Result<Vec<_>>>()?;
        match jobs.is_empty() {
            true => Ok(Vec::new()),
            false => self.store.enqueue(&jobs).await,
        }
    }

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
        self.store.cancel(ids).await
    }

    /// Makes dead, cancelled or retryable jobs available now. One reply per id, in order.
    ///
    /// # Errors
    /// The store's.
    pub async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        self.store.retry(ids).await
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
        self.store.edit(ids, edit).await
    }

    /// Removes jobs that no worker holds and that have not completed, without a trace. One reply per id, in order.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete(&self, ids: &[JobId]) -> Result<Vec<DeleteReply>> {
        self.store.delete(ids).await
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
        Selection::new(&*self.store, filter)
    }

    /// Stops claiming from a queue; running jobs finish.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown queue, or the store's.
    pub async fn pause(&self, queue: &str) -> Result<()> {
        self.store.pause(queue, true).await
    }

    /// Allows claiming from a queue again.
    ///
    /// # Errors
    /// As [`Self::pause`].
    pub async fn resume(&self, queue: &str) -> Result<()> {
        self.store.pause(queue, false).await
    }

    /// One job with its errors and what its handlers [reported](windlass_core::HandlerReport), also while it runs; `None` when
    /// there is no such job or its history was removed. Encrypted args, results and checkpoints come as they are stored: [`Self::args`],
    /// [`Self::result`] and [`Self::checkpoint`] open them.
    ///
    /// # Errors
    /// The store's.
    pub async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.store.job(id).await
    }

    /// What a completed job returned; `None` when it has not completed, returned nothing, or is not there (any more).
    /// Results are kept as long as their job.
    ///
    /// ```
    /// # use windlass::{Client, Job, Outcome, Worker};
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Add { a: u64, b: u64 }
    ///
    /// impl Job for Add { const KIND: &'static str = "add"; }
    ///
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let id = client.enqueue(Add { a: 1, b: 2 }).await?;
    /// assert_eq!(client.result::<u64>(id).await?, None);
    /// # let worker =
    /// Worker::builder(&client).queue("default", 10)
    ///     .handle(|add: Add| async move { Outcome::complete_with(&(add.a + add.b)) })
    ///     .start().await?;
    /// # while client.result::<u64>(id).await?.is_none() { tokio::task::yield_now().await }
    /// # worker.shutdown().await;
    /// assert_eq!(client.result::<u64>(id).await?, Some(3)); // once it ran
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] when the result is no `T`, [`ErrorKind::Undecryptable`] when it is encrypted and cannot be
    /// opened, or the store's.
    pub async fn result<T: DeserializeOwned>(&self, id: JobId) -> Result<Option<T>> {
        let Some(job) = self.store.job(id).await? else { return Ok(None) };
        job.result.as_ref().map(|result| self.read_result(&job, result)).transpose()
    }

    /// The last [checkpoint](crate::Context::checkpoint) of a job, while it runs, waits or is over; `None` when it has none or
    /// there is no such job.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgs`] when it is no `T`, [`ErrorKind::Undecryptable`] when it is encrypted and cannot be opened, or
    /// the store's.
    pub async fn checkpoint<T: DeserializeOwned>(&self, id: JobId) -> Result<Option<T>> {
        let Some(job) = self.store.job(id).await? else { return Ok(None) };
        let checkpoint = job.report.as_ref().and_then(|report| report.checkpoint.as_ref());
        checkpoint.map(|checkpoint| self.read_checkpoint(&job, checkpoint)).transpose()
    }

    /// Waits until a job ends: completed, cancelled or discarded, and gives it as it is then, without the errors of its attempts;
    /// `None` when it has not ended by then. However many jobs are waited for, one task looks for all of them when the store
    /// says that jobs ended, and from time to time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Client, Job, JobState, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Count { words: String }
    /// # impl Job for Count { const KIND: &'static str = "count"; }
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// # let count = |job: Count| async move { windlass::Outcome::complete_with(&job.words.split(' ').count()) };
    /// # let worker = Worker::builder(&client).queue("default", 1).handle(count).start().await?;
    /// let id = client.enqueue(Count { words: "one two three".into() }).await?;
    /// let job = client.wait(id, Duration::from_secs(10)).await?.expect("it ends in time");
    /// assert_eq!(job.state, JobState::Completed);
    /// assert_eq!(client.result::<usize>(id).await?, Some(3));
    /// # worker.shutdown().await;
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown job, also one whose transaction is not committed.
    pub async fn wait(&self, id: JobId, timeout: Duration) -> Result<Option<JobRecord>> {
        self.waiting.wait(&self.store, id, timeout).await
    }

    /// What happens to jobs, behind a cursor, in the order of commits: each event once, none left out, whatever crashes. Keep
    /// [`JobEvent::cursor`](crate::JobEvent::cursor) of what you have dealt with, wherever you like, and go on from there.
    ///
    /// Nothing is asked of the store before the first event is; what may go wrong is said there.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = windlass::Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// use windlass::{Args, EventCursor, EventType, NewJob};
    /// client.enqueue(NewJob::new("mail.send", Args::parse("{}")?)).await?;
    /// let mut events = client.events(EventCursor::start());
    /// let event = events.next().await?;
    /// assert_eq!((event.event, &*event.kind), (EventType::Enqueued, "mail.send"));
    /// let kept = event.cursor.to_string(); // later: client.events(kept)
    /// # assert!(client.events(kept).next_page().await?.events.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn events(&self, from: impl Into<EventCursor>) -> Events {
        Events::new(Arc::clone(&self.store), from.into())
    }

    /// A page of jobs by filter. It may hold fewer than asked for though more follow: go on with
    /// [`JobPage::next`].
    ///
    /// # Errors
    /// A limit out of range, a token of another filter, or the store's.
    pub async fn jobs(&self, filter: &JobFilter) -> Result<JobPage> {
        filter.check()?;
        self.store.jobs(filter).await
    }

    /// The store's policy: what it keeps, and how many crashes a job survives.
    ///
    /// # Errors
    /// The store's.
    pub async fn settings(&self) -> Result<Settings> {
        self.store.settings().await
    }

    /// Changes the store's policy, for every worker on it.
    ///
    /// ```
    /// # use windlass::{Client, Settings};
    /// # use std::time::Duration;
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let week = Duration::from_secs(7 * 86_400);
    /// client.configure(&client.settings().await?.with_retention(week)).await?;
    /// assert_eq!(client.settings().await?.retention, week);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for [what cannot work](Settings::check), or the store's.
    pub async fn configure(&self, settings: &Settings) -> Result<()> {
        self.store.configure(settings).await
    }

    /// What is kept of single queues and outcomes, beside the [settings](Self::settings), which hold for all.
    ///
    /// # Errors
    /// The store's.
    pub async fn retention(&self) -> Result<Vec<RetentionRule>> {
        self.store.retention().await
    }

    /// Keeps these rules, all or none, each in the place of the one of its queue and outcome; one that says nothing removes
    /// that. The housekeeping of the workers goes by them, seconds later.
    ///
    /// ```
    /// # use windlass::{Client, JobState, RetentionRule};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let last_thousand = RetentionRule::of("mail", JobState::Discarded).with_count(1_000);
    /// client.set_retention(&[last_thousand.clone()]).await?;
    /// assert_eq!(client.retention().await?, [last_thousand]);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for [what cannot work](RetentionRule::check_all), or the store's.
    pub async fn set_retention(&self, rules: &[RetentionRule]) -> Result<()> {
        self.store.set_retention(rules).await
    }

    /// How many jobs ended in which way, by the minute, queue and kind, for up to 30 days back: what a dashboard draws. Counted by the housekeeping of the
    /// workers, a few seconds later; the answer says [up to when](History::counted_until).
    ///
    /// ```
    /// # use windlass::{Client, HistoryRequest};
    /// # use std::time::Duration;
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let history = client.history(&HistoryRequest::last(Duration::from_secs(3600))).await?;
    /// for count in &history.counts {
    ///     println!("{} {:?} {:?} {}: {}", count.at, count.queue, count.kind, count.outcome, count.count);
    /// }
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for [what cannot be answered](HistoryRequest::check), or the store's.
    pub async fn history(&self, request: &HistoryRequest) -> Result<History> {
        self.store.history(request).await
    }

    /// Whether a worker of these queues that knows these kinds (none: all) would be given a job now. Cheap at any
    /// backlog.
    ///
    /// # Errors
    /// The store's.
    pub async fn any_available(&self, queues: &[String], kinds: &[String]) -> Result<bool> {
        self.store.any_available(queues, kinds).await
    }

    /// Every queue, by name. Counts above 10,000 may be [estimates](QueueStats::estimates).
    ///
    /// # Errors
    /// The store's.
    pub async fn queues(&self) -> Result<Vec<QueueStats>> {
        self.store.queues().await
    }

    /// The state of the store.
    ///
    /// # Errors
    /// The store's.
    pub async fn status(&self) -> Result<StoreStatus> {
        self.store.status().await
    }

    /// Closes connections and files; waits for writes under way. Later calls may reopen them.
    pub async fn close(&self) {
        self.store.close().await;
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

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
