use super::{
    enqueued::waiting,
    report::DrainReport,
    under_way::{Passes, UnderWay},
};
use crate::WorkerBuilder;
use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use windlass_core::{Error, ErrorKind, Result};
use windlass_runtime::SteppedWorker;

/// Works all jobs that are due, and those that their handlers enqueue, until none is left; then [tells](DrainReport)
/// what became of each. Await it, with options before that if you want:
///
/// ```
/// # use windlass::{Client, Worker, WorkerBuilder, testing};
/// # use std::time::Duration;
/// # fn worker(client: &Client) -> WorkerBuilder { Worker::builder(client).handle_kind("a", |_: windlass::RawJob| async {}) }
/// # #[tokio::main]
/// # async fn main() -> windlass::Result<()> {
/// # let client = testing::client();
/// let report = testing::drain(worker(&client)).await?;
/// let report = testing::drain(worker(&client)).advancing(Duration::from_secs(3600)).await?;
/// # Ok(()) }
/// ```
///
/// It takes the worker as you would [start](WorkerBuilder::start) it, with its queues, data, layers and timeouts. The
/// rules are the engine's own: failures and panics are tried again at the time that the retry policy says (without
/// its jitter), up to the last attempt; jobs of unknown kinds wait. But the jobs run one by one, in the task that awaits
/// this, so that paused time, tracing and what else belongs to the test's thread work; each time the first job of the
/// first queue that has one, in the order of the worker's queues. Concurrency is not looked at. Jobs of a
/// [batched kind](WorkerBuilder::handle_batch) run when their batch is full or nothing else is left to do; how long they would
/// wait is not looked at.
///
/// For stores that no other worker works on at the same time.
pub fn drain(worker: WorkerBuilder) -> Drain {
    Drain { worker, at_most: None, passes: Passes::Nothing }
}

/// See [`drain`]. Does nothing until it is awaited.
///
/// # Errors
/// What keeps the worker from [starting](WorkerBuilder::start), the store's errors, and [`ErrorKind::InvalidOption`] after
/// 10,000 jobs, when no [limit](Self::at_most) was set: jobs that snooze or enqueue themselves never end.
#[must_use = "a drain does nothing until it is awaited"]
pub struct Drain {
    worker: WorkerBuilder,
    at_most: Option<usize>,
    passes: Passes,
}

impl Drain {
    /// Stops after so many jobs.
    pub fn at_most(mut self, jobs: usize) -> Self {
        self.at_most = Some(jobs);
        self
    }

    /// Lets this time go by, and works what becomes due meanwhile: whenever no job is left, the store's
    /// [clock](super::clock) moves to when the next scheduled, snoozed or failed one is due, and at last to the end.
    ///
    /// Only for [clients](super::client) whose clock can be moved.
    pub fn advancing(mut self, time: Duration) -> Self {
        self.passes = Passes::Time(time);
        self
    }

    /// Lets as much time go by as it takes until no job waits any more: all have completed or are dead.
    ///
    /// Only for [clients](super::client) whose clock can be moved.
    ///
    /// ```
    /// # use windlass::{Job, JobState, Worker, testing};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Ping;
    /// # impl Job for Ping { const KIND: &'static str = "ping"; }
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = testing::client();
    /// # let worker = Worker::builder(&client).handle(|_: Ping| async { Err("no route") as Result<(), _> });
    /// # client.enqueue(Ping).await?;
    /// let report = testing::drain(worker).until_done().await?;
    /// assert_eq!((report.count(JobState::Retryable), report.count(JobState::Discarded)), (19, 1));
    /// # Ok(()) }
    /// ```
    pub fn until_done(mut self) -> Self {
        self.passes = Passes::UntilDone;
        self
    }

    async fn run(self) -> Result<DrainReport> {
        let Self { worker, at_most, passes } = self;
        let (client, mut config, handlers) = worker.build()?;
        if passes != Passes::Nothing && client.memory.is_none() {
            let message = "only the clock of a client made by windlass::testing can be moved; let no time pass, \
                           or make jobs that failed available by client.retry";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        config.random = || 0.5;
        let worker = SteppedWorker::start(Arc::clone(client.store()), config, Arc::new(handlers)).await?;
        let mut under_way = UnderWay { client, worker, passes, attempts: Vec::new() };
        let worked = under_way.work(at_most).await;
        let UnderWay { client, worker, attempts, .. } = under_way;
        let stopped = worker.stop().await;
        worked.and(stopped)?;
        let left = waiting(&client, None).await?;
        Ok(DrainReport { attempts, left })
    }
}

impl IntoFuture for Drain {
    type Output = Result<DrainReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
