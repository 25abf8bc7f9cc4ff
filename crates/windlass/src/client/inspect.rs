//! What there is, and what happened.

use crate::{Client, Events};
use serde::de::DeserializeOwned;
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Coming, ErrorKind, EventCursor, FailureGroup, History, HistoryRequest, JobFilter, JobId, JobPage,
    JobRecord, QueueFilter, QueueStats, Result, StoreStatus, TimingRequest, Timings,
};

impl Client {
    /// One job with its errors and what its handlers [reported](windlass_core::HandlerReport), also while it runs; `None` when
    /// there is no such job or its history was removed. Encrypted args, results and checkpoints come as they are stored: [`Self::args`],
    /// [`Self::result`] and [`Self::checkpoint`] open them.
    ///
    /// # Errors
    /// The store's.
    pub async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.store.job(id).await
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
    /// [`NotFound`](crate::ErrorKind::NotFound) for an unknown job, also one whose transaction is not committed.
    pub async fn wait(&self, id: JobId, timeout: Duration) -> Result<Option<JobRecord>> {
        self.waiting.wait(&self.store, id, timeout).await
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
    /// [`InvalidArgs`](crate::ErrorKind::InvalidArgs) when the result is no `T`, [`Undecryptable`](crate::ErrorKind::Undecryptable) when it is encrypted and cannot be
    /// opened, or the store's.
    pub async fn result<T: DeserializeOwned>(&self, id: JobId) -> Result<Option<T>> {
        let Some(job) = self.store.job(id).await? else { return Ok(None) };
        job.result.as_ref().map(|result| self.read_result(&job, result)).transpose()
    }

    /// The last [checkpoint](crate::Context::checkpoint) of a job, while it runs, waits or is over; `None` when it has none or
    /// there is no such job.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::ErrorKind::InvalidArgs) when it is no `T`, [`Undecryptable`](crate::ErrorKind::Undecryptable) when it is encrypted and cannot be opened, or
    /// the store's.
    pub async fn checkpoint<T: DeserializeOwned>(&self, id: JobId) -> Result<Option<T>> {
        let Some(job) = self.store.job(id).await? else { return Ok(None) };
        let checkpoint = job.report.as_ref().and_then(|report| report.checkpoint.as_ref());
        checkpoint.map(|checkpoint| self.read_checkpoint(&job, checkpoint)).transpose()
    }

    /// Whether a worker of these queues that knows these kinds (none: all) would be given a job now, or once those are taken
    /// back whose worker's lease is over. Cheap at any backlog.
    ///
    /// # Errors
    /// The store's.
    pub async fn any_available(&self, queues: &[String], kinds: &[String]) -> Result<bool> {
        Ok(self.store.any_available(queues, kinds).await? || self.coming(queues).await?.held > 0)
    }

    /// What of these queues becomes available by itself; nothing, as far as a schema that is yet to be migrated knows.
    pub(crate) async fn coming(&self, queues: &[String]) -> Result<Coming> {
        match self.store.coming(queues).await {
            Err(error) if error.kind() == ErrorKind::SchemaTooOld => Ok(Coming::default()),
            coming => coming,
        }
    }

    /// Every queue, by name. Counts above 10,000 may be [estimates](QueueStats::estimates). Where there are thousands of queues, a
    /// [page](Self::queues_by) of them costs less.
    ///
    /// # Errors
    /// The store's.
    pub async fn queues(&self) -> Result<Vec<QueueStats>> {
        self.queues_by(&QueueFilter::default()).await
    }

    /// Some queues, by name; the others are not counted.
    ///
    /// ```
    /// # use windlass::{Args, Client, NewJob, QueueFilter};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", folder.path().display())).await?;
    /// # client.migrate().await?;
    /// for queue in ["mail", "mail-bulk", "reports"] {
    ///     client.enqueue(NewJob::new("tidy", Args::parse("{}")?).with_queue(queue)).await?;
    /// }
    /// let mail = QueueFilter { search: Some("mail".to_owned()), limit: Some(1), ..QueueFilter::default() };
    /// let page = client.queues_by(&mail).await?;
    /// assert_eq!(page[0].name, "mail");
    /// let next = QueueFilter { after: Some(page[0].name.clone()), ..mail };
    /// assert_eq!(client.queues_by(&next).await?[0].name, "mail-bulk");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "sqlite"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// The store's.
    pub async fn queues_by(&self, filter: &QueueFilter) -> Result<Vec<QueueStats>> {
        self.store.queues_by(filter).await
    }

    /// One queue; `None` when there is no such queue.
    ///
    /// # Errors
    /// The store's.
    pub async fn queue(&self, name: &str) -> Result<Option<QueueStats>> {
        Ok(self.queues_by(&QueueFilter::named(name)).await?.pop())
    }

    /// The state of the store and its workers. Cheap, however many queues and jobs there are.
    ///
    /// # Errors
    /// The store's.
    pub async fn status(&self) -> Result<StoreStatus> {
        self.store.status().await
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
    /// [`InvalidOption`](crate::ErrorKind::InvalidOption) for [what cannot be answered](HistoryRequest::check), or the store's.
    pub async fn history(&self, request: &HistoryRequest) -> Result<History> {
        self.store.history(request).await
    }

    /// How long jobs waited until they were started, and how long they ran, by the minute, queue and kind, for up to 30 days back. Workers measure it and
    /// say so every ten seconds, and when they stop.
    ///
    /// ```
    /// # use windlass::{Client, TimingRequest};
    /// # use std::time::Duration;
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let timings = client.timings(&TimingRequest::last(Duration::from_secs(3600))).await?;
    /// for timed in &timings.timed {
    ///     println!("{} {:?}: half of them ran for less than {:?}", timed.at, timed.kind, timed.run.quantile(0.5));
    /// }
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`InvalidOption`](crate::ErrorKind::InvalidOption) for [what cannot be answered](TimingRequest::check), or the store's.
    pub async fn timings(&self, request: &TimingRequest) -> Result<Timings> {
        self.store.timings(request).await
    }

    /// Why attempts failed in that time, by cause, the most frequent first: errors that differ in numbers, ids and quoted text alone are
    /// [one cause](crate::fingerprint).
    ///
    /// # Errors
    /// As [`Self::timings`].
    pub async fn failures(&self, request: &TimingRequest) -> Result<Vec<FailureGroup>> {
        self.store.failures(request).await
    }
}
