use crate::{
    BatchFn, Client, DataSet, HandlerFn, IntoJob, Job, Middleware, RawJob, Worker,
    batch::{Rules, Shared},
    encryption::Codec,
    handler::{RawHandler, TypedHandler, read},
    idle::Source,
    lent::LentHandler,
    registry::{Handlers, Registry},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tracing::warn;
use windlass_core::{NewJob, Result, RetryPolicy, Schedule};
use windlass_runtime::{
    Batching, Dispatch, Settling, WorkerConfig, WorkerEngine,
    lend::{Lender, rest_without_borrowers},
};

/// Describes a worker; [`Self::start`] sets it to work. Only a handler is required.
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder {
    client: Client,
    config: WorkerConfig,
    registry: Registry,
    accept_plain_args: bool,
    schedules: Vec<Result<Schedule>>,
    source: Option<String>,
    lenders: Vec<Lender>,
    /// How many of its handlers lend their jobs.
    lent: usize,
    /// The types of jobs that it handles, by kind, and the queue that each names.
    homes: Vec<(&'static str, &'static str)>,
}

impl Worker {
    /// Registers a worker that takes no jobs, and does for the store what every worker does beside that: due jobs become available, the jobs of
    /// dead workers go to others, schedules tick. For processes that hand jobs out to [workers elsewhere](crate::remote), which may be
    /// the only ones. `lease`: a third of it is how late it may notice that a worker died.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Client, Worker};
    /// # async fn example(client: &Client) -> windlass::Result<()> {
    /// let keeper = Worker::keep(client, "gateway", Duration::from_secs(9)).await?;
    /// // ...
    /// keeper.shutdown().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The store's.
    pub async fn keep(client: &Client, name: &str, lease: Duration) -> Result<Self> {
        let engine = WorkerEngine::keep(Arc::clone(client.store()), name, lease).await?;
        Ok(Self::new(engine, Source { client: client.clone(), queues: Vec::new(), kinds: Vec::new() }))
    }

    /// Describes a worker that takes its jobs from the client's store.
    pub fn builder(client: &Client) -> WorkerBuilder {
        WorkerBuilder {
            client: client.clone(),
            config: WorkerConfig::default(),
            registry: Registry::default(),
            accept_plain_args: false,
            schedules: Vec::new(),
            source: None,
            lenders: Vec::new(),
            lent: 0,
            homes: Vec::new(),
        }
    }
}

impl WorkerBuilder {
    /// The concurrency of each queue when none is named.
    pub const DEFAULT_CONCURRENCY: usize = 10;

    /// Takes jobs from `queue`, at most `concurrency` at the same time. Without any, the worker takes
    /// from `default` and from the queues that the types of its jobs name, 10 at a time of each.
    pub fn queue(mut self, queue: impl Into<String>, concurrency: usize) -> Self {
        self.config = self.config.with_queue(queue, concurrency);
        self
    }

    /// Runs jobs of one type by an async function of the job and of [what else it needs](HandlerFn); the job's
    /// type decides the kind.
    pub fn handle<J: Job, X: 'static>(mut self, function: impl HandlerFn<J, X>) -> Self {
        self.registry.insert(J::KIND.to_owned(), J::ENCRYPTED, |data| TypedHandler::new(function, data));
        self.homes.push((J::KIND, J::QUEUE));
        self
    }

    /// Runs jobs of `kind` with their args unparsed.
    pub fn handle_kind<X: 'static>(
        mut self,
        kind: impl Into<String>,
        function: impl HandlerFn<RawJob, X>,
    ) -> Self {
        self.registry.insert(kind.into(), false, |data| RawHandler::new(function, data));
        self
    }

    /// Runs up to `most` jobs of one type at once, by an async function of a [`Batch`](crate::Batch) of them and of
    /// [the data it needs](BatchFn): for bulk writes to other systems. [What it returns](crate::IntoOutcomes) is one outcome
    /// for each job, or one for all.
    ///
    /// A batch starts when it is full, or when its first job has waited for `wait`; with [`Duration::ZERO`] it takes the jobs that
    /// the worker has at hand. It occupies one of the queue's executors, however many jobs it has.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Batch, Client, Job, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Row;
    /// # impl Job for Row { const KIND: &'static str = "row"; }
    /// async fn insert(rows: Batch<Row>) -> Result<(), std::io::Error> { Ok(()) }
    ///
    /// # fn example(client: &Client) {
    /// let builder = Worker::builder(client).handle_batch(500, Duration::from_millis(200), insert);
    /// # }
    /// ```
    ///
    /// [`Self::start`] refuses batches of no job or of more than 10,000, and a wait of more than ten minutes.
    pub fn handle_batch<J: Job, X: 'static>(
        mut self,
        most: usize,
        wait: Duration,
        function: impl BatchFn<J, X>,
    ) -> Self {
        let rules =
            Rules { retry_policy: J::retry_policy(), retry_delay: J::retry_delay, timeout: J::TIMEOUT };
        let make = |data: &DataSet| Shared::new(function, data, |raw| read::<J>(&raw), rules);
        let batching = Batching::new(most, wait);
        self.registry.insert_batched(J::KIND.to_owned(), J::ENCRYPTED, batching, make);
        self.homes.push((J::KIND, J::QUEUE));
        self
    }

    /// Runs up to `most` jobs of `kind` at once, with their args unparsed; see [`Self::handle_batch`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Batch, Client, RawJob, Worker};
    /// # fn example(client: &Client) {
    /// let print = |rows: Batch<RawJob>| async move {
    ///     for row in &rows {
    ///         println!("{:?}", row.args.json());
    ///     }
    /// };
    /// let builder = Worker::builder(client).handle_batch_kind("row", 100, Duration::from_secs(1), print);
    /// # }
    /// ```
    pub fn handle_batch_kind<X: 'static>(
        mut self,
        kind: impl Into<String>,
        most: usize,
        wait: Duration,
        function: impl BatchFn<RawJob, X>,
    ) -> Self {
        let make = |data: &DataSet| Shared::new(function, data, Ok, Rules::default());
        self.registry.insert_batched(kind.into(), false, Batching::new(most, wait), make);
        self
    }

    /// Runs jobs of every kind that has no handler of its own.
    pub fn handle_any<X: 'static>(mut self, function: impl HandlerFn<RawJob, X>) -> Self {
        self.registry.insert_any(|data| RawHandler::new(function, data));
        self
    }

    /// Runs jobs of these kinds by foreign code: another language, a child process. Whoever runs them takes them from the lender; see
    /// [`lend`](crate::lend). A lender serves one worker; when that stops, what nobody has taken goes back.
    /// So it does where all handlers of the worker lend their jobs, and nobody has been there to take some for half a second: other workers may have places for it.
    ///
    /// ```
    /// use windlass::lend::{HandIn, Lender, Room};
    /// # use windlass::{Client, Outcome, Worker};
    /// # async fn example(client: &Client) -> windlass::Result<()> {
    /// let lender = Lender::new();
    /// let worker = Worker::builder(client).lend(["mail.send", "image.resize"], &lender).start().await?;
    /// // Elsewhere, in the loop of the other language:
    /// let borrower = lender.borrower(|| { /* wake that loop */ });
    /// let (mut done, mut jobs) = (Vec::new(), Vec::new());
    /// borrower.exchange(&mut done, Room::jobs(100), &mut jobs);
    /// for job in jobs {
    ///     done.push(HandIn { ticket: job.ticket, outcome: Outcome::Complete(None) });
    /// }
    /// borrower.exchange(&mut done, Room::jobs(100), &mut Vec::new());
    /// # Ok(()) }
    /// ```
    pub fn lend(self, kinds: impl IntoIterator<Item = impl Into<String>>, lender: &Lender) -> Self {
        self.lend_kinds(kinds, false, lender)
    }

    /// The same for [encrypted](Job::ENCRYPTED) kinds: args that are plain are not lent, but fail their job, as with any handler of such a kind.
    pub fn lend_encrypted(self, kinds: impl IntoIterator<Item = impl Into<String>>, lender: &Lender) -> Self {
        self.lend_kinds(kinds, true, lender)
    }

    /// Runs up to `most` jobs of `kind` at once by foreign code; see [`Self::lend`] and [`Self::handle_batch`]. The jobs of a batch come one after
    /// the other in one exchange, with [the same number](crate::lend::LentJob::batch).
    pub fn lend_batch(self, kind: impl Into<String>, most: usize, wait: Duration, lender: &Lender) -> Self {
        self.lend_batches(kind.into(), false, Batching::new(most, wait), lender)
    }

    /// The same for an encrypted kind; see [`Self::lend_encrypted`].
    pub fn lend_encrypted_batch(
        self,
        kind: impl Into<String>,
        most: usize,
        wait: Duration,
        lender: &Lender,
    ) -> Self {
        self.lend_batches(kind.into(), true, Batching::new(most, wait), lender)
    }

    fn lend_batches(
        mut self,
        kind: String,
        encrypted: bool,
        batching: Result<Batching>,
        lender: &Lender,
    ) -> Self {
        self.registry.insert_lent_batch(kind, encrypted, batching, lender.clone());
        self.lent_to(1, lender);
        self
    }

    fn lend_kinds(
        mut self,
        kinds: impl IntoIterator<Item = impl Into<String>>,
        encrypted: bool,
        lender: &Lender,
    ) -> Self {
        let mut count = 0;
        for kind in kinds {
            let handler = LentHandler(lender.clone());
            self.registry.insert(kind.into(), encrypted, |_| Ok(handler));
            count += 1;
        }
        self.lent_to(count, lender);
        self
    }

    fn lent_to(&mut self, handlers: usize, lender: &Lender) {
        self.lent += handlers;
        if handlers > 0 {
            self.lenders.push(lender.clone());
        }
    }

    /// Runs jobs of every kind that has no handler of its own by foreign code; see [`Self::lend`].
    pub fn lend_any(mut self, lender: &Lender) -> Self {
        let handler = LentHandler(lender.clone());
        self.registry.insert_any(|_| Ok(handler));
        self.lent_to(1, lender);
        self
    }

    /// Shares a value with the handlers, which take it as [`Data<T>`](crate::Data): one of each type, before or
    /// after the handlers that take it. [`Self::start`] refuses handlers whose data is missing.
    ///
    /// ```
    /// # use windlass::{Client, Data, RawJob, Worker};
    /// # struct Db;
    /// async fn store(job: RawJob, db: Data<Db>) {}
    /// # fn example(client: &Client) {
    /// let builder = Worker::builder(client).data(Db).handle_kind("store", store);
    /// # }
    /// ```
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.registry.data.insert(value);
        self
    }

    /// Runs a [middleware](Middleware) around every handler, whether that is added before or after. The first
    /// one added is the outermost.
    ///
    /// ```
    /// # use windlass::{Client, Context, Next, Worker};
    /// # fn example(client: &Client) {
    /// let builder = Worker::builder(client).layer(|job: Context, next: Next| async move {
    ///     let outcome = next.run().await;
    ///     println!("{} {}: {outcome:?}", job.kind(), job.id());
    ///     outcome
    /// });
    /// # }
    /// ```
    pub fn layer(mut self, middleware: impl Middleware) -> Self {
        self.registry.layer(middleware);
        self
    }

    /// A name for people. Default `host:pid`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = name.into();
        self
    }

    /// The version of the application, as its developers count: shown where workers are listed, so that people see how far a deploy is.
    /// Default: what the variable `WINDLASS_APP_VERSION` of the environment says.
    ///
    /// ```
    /// # use windlass::{Client, Worker};
    /// # fn example(client: &Client) {
    /// let builder = Worker::builder(client).app_version(env!("CARGO_PKG_VERSION"));
    /// # }
    /// ```
    pub fn app_version(mut self, version: impl Into<String>) -> Self {
        self.config.program.app_version = Some(version.into());
        self
    }

    /// The name of the program, shown where workers are listed. Default: that of its file.
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.config.program.name = Some(name.into());
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

    /// How long an attempt may take, unless its type [says so itself](Job::TIMEOUT). Default: for ever.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Client, RawJob, Worker};
    /// # async fn fetch(_: RawJob) {}
    /// # fn example(client: &Client) {
    /// let builder = Worker::builder(client).handle_kind("fetch", fetch).timeout(Duration::from_secs(60));
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = Some(timeout);
        self
    }

    /// How long an attempt of this kind may take, of jobs that do not say themselves: for a kind that has no type which [does](Job::TIMEOUT), as of a
    /// handler of raw jobs or of foreign code.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Client, RawJob, RetryPolicy, Worker};
    /// # async fn fetch(_: RawJob) {}
    /// # fn example(client: &Client) {
    /// let builder = Worker::builder(client)
    ///     .handle_kind("fetch", fetch)
    ///     .timeout_of("fetch", Duration::from_secs(60))
    ///     .retry_policy_of("fetch", RetryPolicy::fixed(Duration::from_secs(5)));
    /// # }
    /// ```
    pub fn timeout_of(mut self, kind: impl Into<String>, timeout: Duration) -> Self {
        self.registry.rules(kind.into()).timeout = Some(timeout);
        self
    }

    /// When failed attempts of this kind are tried again, of jobs that do not say themselves; see [`Self::timeout_of`].
    pub fn retry_policy_of(mut self, kind: impl Into<String>, policy: RetryPolicy) -> Self {
        self.registry.rules(kind.into()).retry_policy = Some(policy);
        self
    }

    /// Takes plain args of [encrypted](Job::ENCRYPTED) kinds, too: those from before the kind was encrypted. While this
    /// is on, whoever can write to the store can make up jobs of these kinds. Needs a client with keys.
    ///
    /// ```
    /// # use windlass::{Client, Job, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Pay { cents: u64 }
    /// # impl Job for Pay { const KIND: &'static str = "pay"; const ENCRYPTED: bool = true; }
    /// # fn example(client: &Client) {
    /// let builder = Worker::builder(client).handle(|_: Pay| async {}).accept_plain_args();
    /// # }
    /// ```
    pub fn accept_plain_args(mut self) -> Self {
        self.accept_plain_args = true;
        self
    }

    /// Declares a schedule when the worker starts: every instance declares the same, and what is there as declared stays as it is. One
    /// that needs more than a name, an expression and a job is made by [`windlass::schedule`](crate::schedule).
    ///
    /// ```
    /// # use windlass::{Client, Job, Missed, RawJob, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct CleanUp { days: u32 }
    /// # impl Job for CleanUp { const KIND: &'static str = "clean_up"; }
    /// # async fn clean_up(_: CleanUp) {}
    /// # fn example(client: &Client) -> windlass::Result<()> {
    /// let weekly = windlass::schedule("weekly", "0 4 * * SUN", CleanUp { days: 30 })?.with_missed(Missed::None);
    /// let builder = Worker::builder(client)
    ///     .handle(clean_up)
    ///     .schedule("nightly", "0 3 * * *", CleanUp { days: 1 })
    ///     .schedules([weekly])
    ///     .schedules_of("app"); // what this program declares no longer is removed
    /// # Ok(()) }
    /// ```
    pub fn schedule(mut self, name: impl Into<String>, cron: impl Into<String>, job: impl IntoJob) -> Self {
        self.schedules.push(crate::schedule(name, cron, job));
        self
    }

    /// Declares schedules when the worker starts; see [`Self::schedule`].
    pub fn schedules(mut self, schedules: impl IntoIterator<Item = Schedule>) -> Self {
        self.schedules.extend(schedules.into_iter().map(Ok));
        self
    }

    /// Says whose the schedules are: those that this source declared before, and does not declare now, are removed when the worker
    /// starts. Without it they stay until somebody removes them. While old and new instances of a program run side by side, what they
    /// declare differently changes with each start.
    pub fn schedules_of(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
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
    /// An option that cannot work, a missing or doubled handler, [data](Self::data) that a handler takes and nobody
    /// gave, a schedule that is none, or the store's error when it cannot be reached. Once started, a worker survives every outage of the store.
    pub async fn start(mut self) -> Result<Worker> {
        let (schedules, source) = (std::mem::take(&mut self.schedules), self.source.take());
        let lenders = std::mem::take(&mut self.lenders);
        let all_are_lent = self.lent == self.registry.handlers();
        let (client, config, handlers) = self.build()?;
        declare(&client, schedules, source).await?;
        let queues = config.queues.iter().map(|queue| queue.queue.clone()).collect();
        let source = Source { client: client.clone(), queues, kinds: handlers.kinds() };
        let engine = WorkerEngine::start(Arc::clone(client.store()), config, Arc::new(handlers)).await?;
        lenders.iter().for_each(|lender| lender.serve(&engine));
        if all_are_lent {
            rest_without_borrowers(lenders, &engine);
        }
        Ok(Worker::new(engine, source))
    }

    /// What the engine is given, or what is wrong with it.
    pub(crate) fn build(mut self) -> Result<(Client, WorkerConfig, Handlers)> {
        let codec = Codec::new(self.client.keyring.clone(), self.accept_plain_args)?;
        #[cfg(feature = "otel")]
        if let Some(traces) = self.client.traces.clone() {
            self.registry.outermost(traces);
        }
        let handlers = self.registry.build(codec)?;
        if self.config.queues.is_empty() {
            let homes = self.homes.iter().map(|(_, queue)| *queue);
            let queues: BTreeSet<&str> = homes.chain([NewJob::DEFAULT_QUEUE]).collect();
            let all = queues.into_iter();
            self.config =
                all.fold(self.config, |config, queue| config.with_queue(queue, Self::DEFAULT_CONCURRENCY));
        }
        warn_of_homes(&self.homes, &self.config);
        Ok((self.client, self.config, handlers))
    }
}

/// Jobs of a type go to the queue that it names, unless one says otherwise: whoever does not take from there may wait for ever.
fn warn_of_homes(homes: &[(&str, &str)], config: &WorkerConfig) {
    let is_taken = |queue: &str| config.queues.iter().any(|taken| taken.queue == queue);
    for (kind, queue) in homes {
        if *queue != NewJob::DEFAULT_QUEUE && !is_taken(queue) {
            warn!(
                kind,
                queue, "handles jobs of a kind that names a queue which this worker does not take from"
            );
        }
    }
}

async fn declare(client: &Client, schedules: Vec<Result<Schedule>>, source: Option<String>) -> Result<()> {
    let schedules = schedules.into_iter().collect::<Result<Vec<_>>>()?;
    match source {
        Some(source) => client.schedules().put_all_of(&source, schedules).await?,
        None if schedules.is_empty() => return Ok(()),
        None => client.schedules().put(schedules).await?,
    };
    Ok(())
}
