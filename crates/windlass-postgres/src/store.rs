use crate::{
    connection::Connections, due::Due, group_commit::GroupCommit, holdings::Holdings, maintain, migrate,
    options::PostgresOptions, sql::render, wakeup::PostgresWakeup,
};
use async_trait::async_trait;
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    time::{Duration, Instant},
};
use windlass_core::{
    CancelReply, Capabilities, ClaimRequest, Claimed, EnqueuedOnce, Heartbeat, JobFilter, JobId, JobPage,
    JobRecord, JobStore, Leader, Limits, MaintainReport, MigrationReport, NewJob, Promoted, QueueStats,
    Registration, RescueReport, Result, RetryReply, Settings, SettleReply, SettleRequest, StoreStatus,
    Wakeup, WorkerId, WorkerSpec,
};

/// Jobs in a PostgreSQL database. Cheap to clone, clones are the same store; connections open when they are
/// needed.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) connections: Arc<Connections>,
    pub(crate) limits: Limits,
    pub(crate) schema: Arc<str>,
    pub(crate) texts: Arc<Texts>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) group_commit: Arc<GroupCommit>,
}

/// The statements, rendered for this store's schema.
pub(crate) struct Texts {
    pub(crate) claim: String,
    pub(crate) settle: String,
    pub(crate) insert: [String; SEGMENTS],
    /// Finds the lane itself.
    pub(crate) insert_named: [String; SEGMENTS],
    /// Several in one statement; the ids come in the order of the jobs.
    pub(crate) insert_together: [String; SEGMENTS],
    /// Takes so many ids, in blocks as large as the sequence steps, and names the queues of the rows to come.
    pub(crate) take: String,
    pub(crate) copy: [String; SEGMENTS],
    /// With the column that most jobs leave empty.
    pub(crate) copy_attributed: [String; SEGMENTS],
    pub(crate) unnest: [String; SEGMENTS],
    pub(crate) copy_waiting: String,
    pub(crate) unnest_waiting: String,
}

/// The size of the ring of segments; `sql/tables/001_log.sql` makes as many.
pub(crate) const SEGMENTS: usize = 4;

/// What this process remembers of the database, across connections and so across failovers. All of it may be
/// stale without harm: any segment may be written, and what a worker holds only tells where to look. Lanes
/// are remembered by each [`Session`](crate::session::Session).
#[derive(Default)]
pub(crate) struct Caches {
    pub(crate) segment: AtomicUsize,
    pub(crate) segment_read_at: Mutex<Option<Instant>>,
    holdings: Mutex<HashMap<WorkerId, Holdings>>,
    /// The queues of the workers that registered here: what their wake-up listens for.
    queues: Mutex<HashMap<WorkerId, Vec<String>>>,
    pub(crate) due: Mutex<Due>,
}

/// How long a remembered current segment is used. A late writer only delays that segment's removal.
pub(crate) const SEGMENT_TTL: Duration = Duration::from_secs(5);

impl PostgresStore {
    /// Reads the URL, connects once, and checks the schema when there is one. A missing schema is not an
    /// error here, so that [`migrate`](JobStore::migrate) can create it.
    ///
    /// After a restore from a dump into another cluster the unfinished jobs are made available again
    /// under the new cluster's transaction ids, before this returns.
    ///
    /// # Errors
    /// `invalid_option` for a malformed URL, `invalid_name` for a bad schema name, `unavailable` when
    /// the server does not answer, `permission_denied`, `schema_too_new`.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self> {
        let (options, config) = options.read_url(url)?;
        let connections = Connections::new(config, &options)?;
        let store = Self {
            connections: Arc::new(connections),
            texts: Arc::new(Texts::new(&options.schema)),
            schema: options.schema.into(),
            limits: options.limits,
            caches: Arc::default(),
            group_commit: Arc::default(),
        };
        migrate::check(&store).await?;
        Ok(store)
    }

    /// SQL with the schema's name filled in.
    pub(crate) fn sql(&self, text: &str) -> String {
        render(text, &self.schema)
    }
}

impl Texts {
    fn new(schema: &str) -> Self {
        let per_segment = |text: &str| {
            std::array::from_fn(|segment| render(&text.replace("{segment}", &segment.to_string()), schema))
        };
        Self {
            claim: render("SELECT * FROM {schema}.claim($1, $2, $3, $4, $5)", schema),
            settle: render("SELECT {schema}.settle($1, $2, $3, $4, $5, $6, $7, $8, $9)", schema),
            insert: per_segment(
                "INSERT INTO {schema}.job_{segment} (lane_id, max_attempts, kind, args) VALUES ($1, $2, $3, $4)
                 RETURNING id, set_config('windlass.queues', $5, true)",
            ),
            insert_named: per_segment(
                "INSERT INTO {schema}.job_{segment} (lane_id, max_attempts, kind, args)
                 VALUES ({schema}.lane_of($1, $2), $3, $4, $5)
                 RETURNING id, set_config('windlass.queues', $1, true)",
            ),
            insert_together: per_segment(
                "WITH new AS MATERIALIZED (
                     SELECT nextval('{schema}.job_id_seq') AS id, l, m, k, a, n
                     FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS u(l, m, k, a, n)
                 ), stored AS (
                     INSERT INTO {schema}.job_{segment} (id, lane_id, max_attempts, kind, args)
                     SELECT id, l, m, k, a FROM new ORDER BY n)
                 SELECT array_agg(id ORDER BY n), set_config('windlass.queues', $5, true) FROM new",
            ),
            take: render(
                "SELECT array_agg(nextval('{schema}.job_id_seq')), max(s.seqincrement), clock_timestamp(),
                        set_config('windlass.queues', $2, true)
                 FROM pg_catalog.pg_sequence s, generate_series(1, ($1 + s.seqincrement - 1) / s.seqincrement)
                 WHERE s.seqrelid = '{schema}.job_id_seq'::regclass",
                schema,
            ),
            copy: per_segment(
                "COPY {schema}.job_{segment} (id, lane_id, max_attempts, kind, args) FROM STDIN (FORMAT binary)",
            ),
            copy_attributed: per_segment(
                "COPY {schema}.job_{segment} (id, lane_id, max_attempts, kind, args, attributes) FROM STDIN (FORMAT binary)",
            ),
            unnest: per_segment(
                "INSERT INTO {schema}.job_{segment} (id, lane_id, max_attempts, kind, args, attributes)
                 SELECT i, l, m, k, a::json, b FROM unnest($1, $2, $3, $4, $5, $6) AS u(i, l, m, k, a, b)",
            ),
            copy_waiting: render(
                "COPY {schema}.waiting (id, lane_id, max_attempts, kind, args, attributes, available_at) FROM STDIN (FORMAT binary)",
                schema,
            ),
            unnest_waiting: render(
                "INSERT INTO {schema}.waiting (id, lane_id, max_attempts, kind, args, attributes, available_at)
                 SELECT i, l, m, k, a::json, b, d FROM unnest($1, $2, $3, $4, $5, $6, $7) AS u(i, l, m, k, a, b, d)",
                schema,
            ),
        }
    }
}

/// A panic while one of these maps was locked cannot have left it half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Caches {
    pub(crate) fn holdings<T>(&self, worker: WorkerId, act: impl FnOnce(&mut Holdings) -> T) -> T {
        act(lock(&self.holdings).entry(worker).or_default())
    }

    pub(crate) fn forget_worker(&self, worker: WorkerId) {
        lock(&self.holdings).remove(&worker);
        lock(&self.queues).remove(&worker);
    }

    pub(crate) fn note_queues(&self, worker: WorkerId, queues: &[String]) {
        lock(&self.queues).insert(worker, queues.to_vec());
    }

    /// The queues of all workers of this store.
    pub(crate) fn queues(&self) -> BTreeSet<String> {
        lock(&self.queues).values().flatten().cloned().collect()
    }

    /// Reads the segment again: the schema may have been made anew.
    pub(crate) fn clear(&self) {
        *lock(&self.segment_read_at) = None;
    }
}

#[async_trait]
impl JobStore for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.transactions = true;
        capabilities.concurrent_writers = true;
        capabilities
    }

    async fn migrate(&self) -> Result<MigrationReport> {
        migrate::migrate(self).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        self.enqueue_jobs(jobs).await
    }

    async fn enqueue_once(&self, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
        self.enqueue_jobs_once(key, jobs).await
    }

    async fn register(&self, worker: &WorkerSpec) -> Result<Registration> {
        self.register_worker(worker).await
    }

    async fn heartbeat(&self, worker: WorkerId) -> Result<Heartbeat> {
        self.renew(worker).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.end(worker).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        self.claim_jobs(request).await
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        self.settle_jobs(request).await
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.note_suspect(worker, job).await
    }

    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        self.rescue_overdue(rescuer).await
    }

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        self.promote_due(limit).await
    }

    async fn maintain(&self) -> Result<MaintainReport> {
        maintain::maintain(&self.connections, &self.schema).await
    }

    async fn settings(&self) -> Result<Settings> {
        self.read_settings().await
    }

    async fn configure(&self, settings: &Settings) -> Result<()> {
        self.write_settings(settings).await
    }

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        self.cancel_jobs(ids).await
    }

    async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        self.retry_jobs(ids).await
    }

    async fn pause(&self, queue: &str, paused: bool) -> Result<()> {
        self.pause_queue(queue, paused).await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.find_job(id).await
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<JobPage> {
        self.list_jobs(filter).await
    }

    async fn any_available(&self, queues: &[String], kinds: &[String]) -> Result<bool> {
        self.has_available(queues, kinds).await
    }

    async fn queues(&self) -> Result<Vec<QueueStats>> {
        self.list_queues().await
    }

    async fn status(&self) -> Result<StoreStatus> {
        self.read_status().await
    }

    fn wakeup(&self) -> Box<dyn Wakeup> {
        Box::new(PostgresWakeup::start(Arc::clone(&self.connections), Arc::clone(&self.caches), &self.schema))
    }

    async fn close(&self) {
        self.connections.close();
    }
}

#[async_trait]
impl Leader for PostgresStore {
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        self.take_lead(worker, term).await
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        self.give_up_lead(worker).await
    }
}
