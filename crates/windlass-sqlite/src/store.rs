use crate::{
    SqliteOptions, claim,
    claim_reply::{ClaimReply, ReturnPath, UndeliveredClaims},
    command::{BoxCommand, Task},
    control, deploys, edit,
    ends::SqliteEnds,
    enqueue::Batch,
    error::Outcome,
    events,
    fork::{self, Connected, Use},
    history, key_limits, leader, limits, list,
    maintain::{self, Chunk},
    once, options, promote,
    reader::{Question, question},
    record, report, retention,
    rotation::{self, Rotation},
    settings, settle,
    settlement::Settlement,
    stats,
    threads::{self, Threads},
    tx::Tx,
    unique,
    wakeup::{Signal, SqliteWakeup, Watcher},
    workers,
};
use async_trait::async_trait;
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use windlass_core::{
    Args, CancelReply, Capabilities, ClaimRequest, Claimed, Coming, DeleteReply, EditReply, Ended, Ends,
    EnqueuedOnce, EnqueuedUnique, Error, ErrorKind, EventPage, EventRequest, Heartbeat, History,
    HistoryRequest, JobEdit, JobFilter, JobId, JobPage, JobRecord, JobState, JobStore, KeyLimits,
    KeyLimitsChange, Leader, Limits, Load, MaintainReport, MigrationReport, NewJob, Promoted, QueueFilter,
    QueueLimits, QueueStats, Registration, ReportRequest, Reported, RescueReport, Result, RetentionRule,
    RetryReply, Settings, SettingsChange, SettleReply, SettleRequest, Settled, Share, ShareRequest,
    StoreStatus, UniqueBatch, Wakeup, WorkerId, WorkerSpec,
};

/// Must an acknowledged write survive a power cut? What only concerns workers need not: when it is
/// forgotten, the machine with its workers is gone too, and it is as if the cut had come a moment earlier.
/// The next durable commit covers it, because the log reaches the disk in order.
pub(crate) const DURABLE: bool = true;
pub(crate) const RELAXED: bool = false;

/// The most jobs that one transaction changes of those that a call names, and the time after which it leaves the rest to the next.
const JOBS_AT_ONCE: usize = 500;
const TIME_AT_ONCE: Duration = Duration::from_millis(50);

/// The most transactions of one call of `maintain`; the next call goes on.
const MAINTAIN_CHUNKS: u32 = 1_000;

/// Windlass in one SQLite file: for one machine, any number of processes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> windlass_core::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
/// use windlass_core::{Args, JobStore, NewJob};
/// use windlass_sqlite::{SqliteOptions, SqliteStore};
/// let store = SqliteStore::open(&url, SqliteOptions::default())?;
/// let ids = store.enqueue(&[NewJob::new("mail.send", Args::parse("{}")?)]).await?;
/// assert_eq!(ids.len(), 1);
/// # Ok(()) }
/// ```
pub struct SqliteStore {
    path: PathBuf,
    pub(crate) options: SqliteOptions,
    pub(crate) signal: Arc<Signal>,
    watcher: Arc<Watcher>,
    undelivered: Arc<UndeliveredClaims>,
    rotation: Rotation,
    threads: Arc<Mutex<Option<Threads>>>,
    /// What opening did, until `migrate` reports it; then that nothing is left to do.
    migration: Mutex<MigrationReport>,
}

impl SqliteStore {
    /// Opens `sqlite:FILE`, `sqlite:FILE?synchronous=normal` or a bare path. Creates the file with its schema
    /// when it is missing and upgrades an older schema. Blocks for a few milliseconds.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidOption`]: the URL names no file, the folder does not exist, or the file is not
    ///   Windlass's; it is left untouched then.
    /// * [`ErrorKind::PermissionDenied`]: file or folder cannot be written.
    /// * [`ErrorKind::SchemaTooNew`]: a newer Windlass has upgraded the file.
    /// * [`ErrorKind::Unavailable`]: another process kept the file locked.
    pub fn open(url_or_path: &str, mut options: SqliteOptions) -> Result<Self> {
        let path = options::parse(url_or_path, &mut options)?;
        let undelivered = Arc::default();
        // No fork before those who have connections are known.
        let using = Use::wait()?;
        let opened = threads::start(&path, &options, &undelivered, &using)?;
        let store = Self {
            watcher: Arc::new(Watcher::new(opened.path.clone(), options.clone())),
            path: opened.path,
            options,
            signal: opened.signal,
            undelivered,
            rotation: Rotation::default(),
            threads: Arc::new(Mutex::new(Some(opened.threads))),
            migration: Mutex::new(opened.migration),
        };
        let connected: [Arc<dyn Connected>; 2] = [store.threads.clone(), store.watcher.clone()];
        connected.iter().for_each(|connected| fork::register(Arc::downgrade(connected)));
        Ok(store)
    }

    /// The canonical path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks something of the open threads; opens them again after a close, a defect or a fork.
    async fn with_threads<T>(&self, ask: impl Fn(&Threads) -> T) -> Result<T> {
        loop {
            if let Some(answer) = self.try_with_threads(&ask)? {
                return Ok(answer);
            }
            sleep(fork::PAUSE).await;
        }
    }

    /// `None` while the process is about to fork.
    fn try_with_threads<T>(&self, ask: impl FnOnce(&Threads) -> T) -> Result<Option<T>> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = threads.as_ref().filter(|open| !open.broken()) {
            return Ok(Some(ask(open)));
        }
        let Some(using) = Use::begin()? else { return Ok(None) };
        let opened = threads::start(&self.path, &self.options, &self.undelivered, &using)?;
        Ok(Some(ask(threads.insert(opened.threads))))
    }

    pub(crate) async fn write<T, F>(&self, durable: bool, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Outcome<T> + Send + 'static,
    {
        let (task, answer) = Task::new(durable, work);
        self.send(task, answer).await
    }

    /// Does something to each of these jobs, to some of them in one transaction: not to more than a moment allows, since others wait.
    async fn write_each<T, F>(&self, ids: &[JobId], work: F) -> Result<Vec<T>>
    where
        T: Send + Sync + 'static,
        F: Fn(&mut Tx<'_>, JobId) -> Outcome<T> + Clone + Send + 'static,
    {
        let mut replies = Vec::with_capacity(ids.len());
        while replies.len() < ids.len() {
            let left = &ids[replies.len()..];
            let (some, work) = (left[..left.len().min(JOBS_AT_ONCE)].to_vec(), work.clone());
            let done = self.write(DURABLE, move |tx| {
                let (began, mut replies) = (Instant::now(), Vec::with_capacity(some.len()));
                for &id in &some {
                    replies.push(work(tx, id)?);
                    if began.elapsed() > TIME_AT_ONCE {
                        break;
                    }
                }
                Ok(replies)
            });
            match done.await {
                Ok(some) => replies.extend(some.into_iter().map(Some)),
                Err(error) => {
                    replies.resize_with(ids.len(), || None);
                    return Err(error.with_replies(replies));
                }
            }
        }
        Ok(replies.into_iter().flatten().collect())
    }

    async fn send<T: Send + 'static>(
        &self,
        task: BoxCommand,
        answer: oneshot::Receiver<Result<T>>,
    ) -> Result<T> {
        let writer = self.with_threads(|threads| threads.writer.clone()).await?;
        writer.send(task).await.map_err(|_| stopped(ErrorKind::Unavailable))?;
        drop(writer);
        self.named(answer.await.map_err(|_| stopped(ErrorKind::Ambiguous))?)
    }

    /// What is wrong with the file itself names it: its user may have several.
    fn named<T>(&self, answer: Result<T>) -> Result<T> {
        use ErrorKind::{Ambiguous, Internal, PermissionDenied, StorageFull, Unavailable};
        answer.map_err(|error| match error.kind() {
            Ambiguous | Internal | PermissionDenied | StorageFull | Unavailable
                if !error.reason().contains(&*self.path.to_string_lossy()) =>
            {
                let message = format!("{}: {error}", self.path.display());
                Error::new(error.kind(), message).with_source(error)
            }
            _ => error,
        })
    }

    /// Asks what may take long: a page for which all jobs are looked at, counts, a minute's history.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&rusqlite::Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.ask(|threads| threads.reader.clone(), ask).await
    }

    /// Asks what an index knows, for which a worker or somebody who waits for a job should not wait.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&rusqlite::Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.ask(|threads| threads.quick_reader.clone(), ask).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        whom: impl Fn(&Threads) -> mpsc::Sender<Question>,
        ask: impl FnOnce(&rusqlite::Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let (reader, file) = self.with_threads(|threads| (whom(threads), Arc::clone(&threads.file))).await?;
        let (question, answer) = question(move |conn| {
            file.check()?;
            ask(conn)
        });
        reader.send(question).await.map_err(|_| stopped(ErrorKind::Unavailable))?;
        drop(reader);
        self.named(answer.await.map_err(|_| stopped(ErrorKind::Unavailable))?)
    }
}

impl Connected for Mutex<Option<Threads>> {
    fn disconnect(&self) {
        // The threads end when they have answered; nobody waits for them here.
        drop(self.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn stopped(kind: ErrorKind) -> Error {
    Error::new(kind, "a thread of the store stopped unexpectedly; the next call starts it again")
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// How many of these count what ended: a call comes every ten seconds, so those who work at full speed lose about a hundredth to it.
const COUNTING_CHUNKS: u32 = 50;

#[async_trait]
impl JobStore for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.keys = true;
        capabilities
    }

    /// Opening has migrated already; the first call reports what it did.
    async fn migrate(&self) -> Result<MigrationReport> {
        self.with_threads(|_| ()).await?;
        let mut opened = self.migration.lock().unwrap_or_else(PoisonError::into_inner);
        let MigrationReport { to, newer, .. } = *opened;
        Ok(std::mem::replace(&mut *opened, MigrationReport { from: to, to, newer }))
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        if UniqueBatch::is_needed(jobs) {
            return Ok(self.enqueue_unique(jobs).await?.iter().map(|stored| stored.id).collect());
        }
        self.options.limits.check(jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let batch = Batch::pack(jobs);
        self.write(DURABLE, move |tx| batch.append(tx)).await
    }

    async fn enqueue_once(&self, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
        Limits::check_idempotency_key(key)?;
        self.options.limits.check(jobs)?;
        UniqueBatch::refuse_under_idempotency_key(jobs)?;
        let (key, batch) = (key.to_owned(), Batch::pack(jobs));
        self.write(DURABLE, move |tx| once::enqueue(tx, &key, &batch)).await
    }

    async fn enqueue_unique(&self, jobs: &[NewJob]) -> Result<Vec<EnqueuedUnique>> {
        self.options.limits.check(jobs)?;
        let batch = Arc::new(UniqueBatch::of(jobs)?);
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let sent = Arc::clone(&batch);
        let stored = self.write(DURABLE, move |tx| unique::enqueue(tx, &sent)).await?;
        Ok(batch.replies(&stored))
    }

    async fn register(&self, worker: &WorkerSpec) -> Result<Registration> {
        worker.check()?;
        let spec = worker.clone();
        self.write(DURABLE, move |tx| workers::register(tx, &spec)).await
    }

    async fn heartbeat_with(&self, worker: WorkerId, load: Load) -> Result<Heartbeat> {
        let beat = move |tx: &mut Tx<'_>| workers::heartbeat(tx, worker, load);
        let (mut task, answer) = Task::new(RELAXED, beat);
        // A worker asks for an answer in time and asks again without one, at the end of the line: where other processes hold the file
        // for longer than it waits each time, its lease would never be renewed.
        task.kept = true;
        self.send(task, answer).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        while self.write(DURABLE, move |tx| workers::deregister(tx, worker)).await? {}
        self.rotation.forget(worker);
        Ok(())
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        let worker = request.worker;
        let request = Arc::new(self.rotation.in_turn(request));
        let writer = self.with_threads(|threads| threads.writer.downgrade()).await?;
        let return_path = ReturnPath { worker, undelivered: Arc::clone(&self.undelivered), writer };
        let (mut total, mut from) = (Claimed::default(), 0);
        // The queues of a part that brings nothing are asked: an empty answer says that there is nothing.
        loop {
            let (asked, return_path) = (Arc::clone(&request), return_path.clone());
            let claim = move |tx: &mut Tx<'_>| {
                let (claimed, next) = claim::claim(tx, &asked, from)?;
                Ok((ClaimReply { claimed, return_path: return_path.clone() }, next))
            };
            let (reply, next) = self.write(RELAXED, claim).await?;
            let is_last = rotation::add(&mut total, reply.take()) || next.is_none();
            match next {
                Some(next) if !is_last => from = next,
                next => return Ok(self.rotation.end(&request, next, total)),
            }
        }
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        let exceptions = vec![Settled::Refused; request.exceptions.len()];
        let mut total = SettleReply { exceptions, ..SettleReply::default() };
        for part in Settlement::parts(request) {
            let (part, mut next) = (Arc::new(part), Some(0));
            while let Some(from) = next {
                let part = Arc::clone(&part);
                let reply = self.write(DURABLE, move |tx| settle::settle(tx, &part, from)).await?;
                self.signal.ended.send_replace(());
                reply.exceptions.into_iter().for_each(|(place, settled)| total.exceptions[place] = settled);
                (next, total.completions) = (reply.stopped_at, reply.completions);
            }
        }
        Ok(total)
    }

    async fn report(&self, request: &ReportRequest) -> Result<Vec<Reported>> {
        request.check()?;
        let request = request.clone();
        // A power cut forgets what a handler said of progress, as it ends the handler.
        let durable = request.reports.iter().any(|report| report.checkpoint.is_some());
        self.write(durable, move |tx| report::report(tx, &request)).await
    }

    async fn checkpoints(&self, ids: &[JobId]) -> Result<Vec<Option<Args>>> {
        let ids = ids.to_vec();
        self.look(move |conn| report::checkpoints(conn, &ids)).await
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.write(RELAXED, move |tx| workers::suspect(tx, worker, job)).await
    }

    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        let mut total = RescueReport::default();
        for _ in 0..workers::RESCUE_MAX {
            let (one, more) = self.write(RELAXED, move |tx| workers::rescue(tx, rescuer)).await?;
            workers::add(&mut total, one);
            if !more {
                break;
            }
        }
        Ok(total)
    }

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        // Writers wait for one another: who finds nothing due only reads.
        let clock = self.options.clock.clone();
        let next_due = self.look(move |conn| promote::next_due(conn, clock.now())).await?;
        let mut total = Promoted { count: 0, next_due };
        while total.next_due == Some(Duration::ZERO) {
            let ask = (u64::from(limit) - total.count).min(promote::PROMOTE_MAX.into()) as u32;
            let chunk = self.write(RELAXED, move |tx| promote::promote(tx, ask)).await?;
            total = Promoted { count: total.count + chunk.count, next_due: chunk.next_due };
            let more_is_due = chunk.count > 0 && chunk.next_due == Some(Duration::ZERO);
            if !more_is_due || total.count >= u64::from(limit) {
                break;
            }
        }
        Ok(total)
    }

    async fn maintain(&self) -> Result<MaintainReport> {
        let mut total = MaintainReport::default();
        let mut chunk = Chunk::FIRST;
        for n in 0..MAINTAIN_CHUNKS {
            chunk.may_count = n < COUNTING_CHUNKS;
            let (report, next) = self.write(RELAXED, move |tx| maintain::maintain(tx, chunk)).await?;
            maintain::add(&mut total, report);
            let Some(next) = next else { break };
            chunk = next;
        }
        let clock = self.options.clock.clone();
        if self.options.marks_deploys && self.look(move |conn| deploys::is_any(conn, clock.now())).await? {
            self.write(RELAXED, |tx| deploys::mark(tx)).await?;
        }
        Ok(total)
    }

    async fn settings(&self) -> Result<Settings> {
        self.look(settings::read).await
    }

    async fn change_settings(&self, change: &SettingsChange) -> Result<()> {
        change.check()?;
        let change = *change;
        self.write(DURABLE, move |tx| settings::change(tx, &change)).await
    }

    async fn retention(&self) -> Result<Vec<RetentionRule>> {
        self.read(retention::read).await
    }

    async fn set_retention(&self, rules: &[RetentionRule]) -> Result<()> {
        RetentionRule::check_all(rules)?;
        let rules = rules.to_vec();
        self.write(DURABLE, move |tx| retention::write(tx, &rules)).await
    }

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        let replies = self.write_each(ids, control::cancel).await;
        if replies.as_ref().map_or(true, |replies| replies.contains(&CancelReply::Running)) {
            self.signal.requested();
        }
        self.signal.ended.send_replace(());
        replies
    }

    async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        self.write_each(ids, control::retry).await
    }

    async fn edit(&self, ids: &[JobId], edit: &JobEdit) -> Result<Vec<EditReply>> {
        edit.check(&self.options.limits)?;
        let edit = Arc::new(edit.clone());
        self.write_each(ids, move |tx, id| edit::edit(tx, id, &edit)).await
    }

    async fn delete(&self, ids: &[JobId]) -> Result<Vec<DeleteReply>> {
        let replies = self.write_each(ids, edit::delete).await;
        self.signal.ended.send_replace(());
        replies
    }

    async fn pause(&self, queue: &str, paused: bool) -> Result<()> {
        let queue = queue.to_owned();
        self.write(DURABLE, move |tx| control::pause(tx, &queue, paused)).await
    }

    async fn drain_worker(&self, worker: WorkerId) -> Result<()> {
        self.write(DURABLE, move |tx| workers::drain(tx, worker)).await
    }

    async fn limit(&self, queue: &str, limits: &QueueLimits) -> Result<()> {
        limits.check()?;
        Limits::check_queue_name(queue)?;
        let (queue, limits) = (queue.to_owned(), *limits);
        self.write(DURABLE, move |tx| limits::limit(tx, &queue, &limits)).await
    }

    async fn limit_keys(&self, queue: &str, change: &KeyLimitsChange) -> Result<()> {
        change.check()?;
        Limits::check_queue_name(queue)?;
        let (queue, change) = (queue.to_owned(), change.clone());
        let mut keyed = self.write(DURABLE, move |tx| key_limits::change(tx, &queue, &change)).await?;
        // Claims enter jobs by their keys, too: who dies here leaves it to them.
        while let Some(queue) = keyed {
            let more = self.write(RELAXED, move |tx| key_limits::enter(tx, queue)).await?;
            keyed = more.then_some(queue);
        }
        Ok(())
    }

    async fn key_limits(&self, queue: &str) -> Result<Option<KeyLimits>> {
        let queue = queue.to_owned();
        self.read(move |conn| key_limits::read(conn, &queue)).await
    }

    async fn share(&self, request: &ShareRequest) -> Result<Vec<Option<Share>>> {
        let request = request.clone();
        self.write(DURABLE, move |tx| limits::share(tx, &request)).await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.look(move |conn| record::job(conn, id)).await
    }

    async fn jobs(&self, filter: &JobFilter) -> Result<JobPage> {
        filter.check()?;
        let filter = filter.clone();
        self.read(move |conn| list::jobs(conn, &filter)).await
    }

    async fn any_available(&self, queues: &[String], kinds: &[String]) -> Result<bool> {
        let (queues, kinds, now) = (queues.to_vec(), kinds.to_vec(), self.options.clock.now());
        self.look(move |conn| stats::any_available(conn, &queues, &kinds, now)).await
    }

    async fn coming(&self, queues: &[String]) -> Result<Coming> {
        let (queues, now) = (queues.to_vec(), self.options.clock.now());
        self.look(move |conn| stats::coming(conn, &queues, now)).await
    }

    async fn queues_by(&self, filter: &QueueFilter) -> Result<Vec<QueueStats>> {
        filter.check()?;
        let filter = filter.clone();
        self.read(move |conn| stats::queues(conn, &filter)).await
    }

    async fn history(&self, request: &HistoryRequest) -> Result<History> {
        request.check()?;
        let (request, now) = (request.clone(), self.options.clock.now());
        self.read(move |conn| history::history(conn, &request, now)).await
    }

    async fn status(&self) -> Result<StoreStatus> {
        let (path, now) = (self.path.clone(), self.options.clock.now());
        self.read(move |conn| stats::status(conn, &path, now)).await
    }

    async fn states(&self, ids: &[JobId]) -> Result<Vec<Option<JobState>>> {
        let ids = ids.to_vec();
        self.read(move |conn| record::states(conn, &ids)).await
    }

    async fn ended(&self, ids: &[JobId]) -> Result<Ended> {
        let ids = ids.to_vec();
        self.look(move |conn| record::ended(conn, &ids)).await
    }

    async fn events(&self, request: &EventRequest) -> Result<EventPage> {
        request.check()?;
        let asked = request.clone();
        let page = self.read(move |conn| events::events(conn, &asked)).await?;
        if page.next != request.cursor {
            // What a cursor says was seen must be on the disk: a power cut would give its numbers to others.
            self.write(DURABLE, |tx| tx.touch()).await?;
        }
        Ok(page)
    }

    fn ends(&self) -> Option<Box<dyn Ends>> {
        Some(Box::new(SqliteEnds::new(Arc::clone(&self.watcher), Arc::clone(&self.signal))))
    }

    fn wakeup(&self) -> Box<dyn Wakeup> {
        Box::new(SqliteWakeup::new(Arc::clone(&self.watcher), Arc::clone(&self.signal)))
    }

    async fn close(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.watcher.disconnect();
        if let Some(threads) = threads {
            threads.close().await;
        }
    }
}

#[async_trait]
impl Leader for SqliteStore {
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        self.write(RELAXED, move |tx| leader::lead(tx, worker, term)).await
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        self.write(RELAXED, move |tx| leader::resign(tx, worker)).await
    }
}
