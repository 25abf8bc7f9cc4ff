use crate::{
    Args, AuditStore, CancelReply, ClaimRequest, Claimed, Conflict, DeleteReply, EditReply, Error, ErrorKind,
    EventPage, EventRequest, History, HistoryRequest, JobEdit, JobFilter, JobId, JobPage, JobRecord,
    JobState, KeyLimits, KeyLimitsChange, Load, NewJob, OnSchedules, QueueFilter, QueueLimits, QueueStats,
    Registration, ReportRequest, Reported, Result, RetentionRule, RetryReply, ScheduleStore, Settings,
    SettingsChange, SettleReply, SettleRequest, Share, ShareRequest, StoreStatus, TimingStore, WorkerId,
    WorkerSpec,
};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};

/// What a store can do beyond the contract. The conformance suite asks for [`Self::keys`]; the others are for programs that show or choose a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Jobs can be enqueued and completed inside the user's own transaction.
    pub transactions: bool,
    /// Transactions of several writers may be open at once, so ids can commit out of order.
    pub concurrent_writers: bool,
    /// Queues may have [limits of keys](JobStore::limit_keys).
    pub keys: bool,
}

/// The seam: everything the engine and the clients ask of a store.
///
/// Batch-first and object safe. Every method may be called from many tasks at once and may be dropped
/// at any await point without harming later calls. A lost connection is an error of this call only
/// ([`Error::is_connection_loss`](crate::Error::is_connection_loss)); the next call reconnects.
#[async_trait]
pub trait JobStore: Send + Sync + 'static {
    /// What this store can do.
    fn capabilities(&self) -> Capabilities;

    /// Creates or upgrades the schema. Safe to repeat and to run from several processes at once.
    async fn migrate(&self) -> Result<MigrationReport>;

    /// Stores jobs, all or none, and returns their ids in order. Committed and durable on return. For a
    /// [unique](crate::Unique) job it is the id of the one that has its key; see [`Self::enqueue_unique`].
    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>>;

    /// Stores jobs under an idempotency key, all or none and at most once: a repeated call with the same
    /// key stores nothing and returns the ids of the first. What to call when a reply was
    /// [ambiguous](crate::Error::is_ambiguous), and from programs that may be restarted in between.
    ///
    /// Keys are remembered for at least [`Settings::retention`]. A call that finds the key in use
    /// by an unfinished transaction waits for it. An empty batch uses its key like any other.
    ///
    /// Jobs are told apart by their number only: a repeated call with other args stores nothing either.
    ///
    /// # Errors
    /// `invalid_option` for a key that [breaks the rules](crate::Limits::check_idempotency_key), or one that
    /// was used for another number of jobs, or a [unique](crate::Unique) job; `schema_too_old` when the store has yet to be migrated for it.
    async fn enqueue_once(&self, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce>;

    /// Stores jobs, all or none, the [unique](crate::Unique) ones among them only where their key is free, and says of each, in order, which job has the key
    /// now and whether there was a conflict. However many callers race, one job has a key at a time. A call that finds a key in
    /// use by an unfinished transaction waits for it.
    ///
    /// A job whose key another one took meanwhile does not get it back when it comes back (a retry, a rescue, a snooze); a
    /// [retry](Self::retry) by hand is refused then.
    ///
    /// # Errors
    /// `invalid_option` or `invalid_args` for [a key that cannot be made](crate::UniqueKey::of); `unique_conflict`
    /// where a job asks for [it](crate::OnConflict::Error); `schema_too_old` when the store has yet to be migrated for it.
    async fn enqueue_unique(&self, jobs: &[NewJob]) -> Result<Vec<EnqueuedUnique>>;

    /// Registers a worker process; its lease begins.
    async fn register(&self, worker: &WorkerSpec) -> Result<Registration>;

    /// [`Self::heartbeat_with`] of a worker that says nothing of its load.
    async fn heartbeat(&self, worker: WorkerId) -> Result<Heartbeat> {
        self.heartbeat_with(worker, Load::default()).await
    }

    /// Renews the lease of everything that the worker holds, and notes its load for people. Fails with a lost lease when it was taken.
    /// Answers with what the worker has to know.
    async fn heartbeat_with(&self, worker: WorkerId, load: Load) -> Result<Heartbeat>;

    /// Ends a worker: hands back everything it still holds, at once and without using up attempts.
    /// Repeating it, or doing it after the lease was lost, is not an error.
    async fn deregister(&self, worker: WorkerId) -> Result<()>;

    /// Hands out jobs, best priority first. Jobs that wait for a worker that knows their kind come too. Those of a queue with
    /// [limits](Self::limit) only to a worker that has a [share](Self::share) of it; how many of them it runs is up to the worker.
    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed>;

    /// Settles jobs. Idempotent: repeating a call whose reply was lost changes nothing.
    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply>;

    /// Keeps what handlers say of jobs that this worker holds: progress, lines for the log, checkpoints. Readable at once
    /// ([`Self::job`]), for all attempts of the job and as long as the job is; the last checkpoint is what
    /// [`Self::checkpoints`] answers. Durable on return where there is a checkpoint among them.
    ///
    /// A job that this worker does not hold any more is refused, so that nothing takes the place of what its next holder
    /// says. Idempotent: a report that is repeated, or arrives after a later one, changes nothing. One reply per report, in order.
    ///
    /// # Errors
    /// What [`ReportRequest::check`] refuses; `schema_too_old` when the store has yet to be migrated for it.
    async fn report(&self, request: &ReportRequest) -> Result<Vec<Reported>>;

    /// The last checkpoint of each of these jobs, in order; `None` for one that has none.
    ///
    /// # Errors
    /// `schema_too_old` when the store has yet to be migrated for it.
    async fn checkpoints(&self, ids: &[JobId]) -> Result<Vec<Option<Args>>>;

    /// Notes that the worker is about to run this job alone, because it was held by workers that died;
    /// `None` when it is over. If the worker dies now, only this job's crash count goes up.
    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()>;

    /// Takes the jobs of workers whose lease has ended and makes them available again. A job that was
    /// held by [`Settings::max_crashes`] dying workers is discarded as `crash_loop`.
    ///
    /// Leases end while the store cannot be reached, also of workers that live. So `rescuer` takes a worker's jobs only
    /// when it has been in touch with the store for as long as that worker's lease, by its own heartbeats, none of them
    /// more than half of its own lease after the one before: then the living have renewed theirs.
    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport>;

    /// Makes due jobs available, at most `limit`, and says when the next one is due. Also tells those who wait for work where the [rate](crate::KeyLimit::rate)
    /// of a key allows more of its jobs by now, and says when the next one will.
    async fn promote(&self, limit: u32) -> Result<Promoted>;

    /// Housekeeping of the leader: moves segments on, counts what [ended](Self::history), removes what is past [retention](Settings::retention), and the
    /// oldest of the [audit log](AuditStore).
    async fn maintain(&self) -> Result<MaintainReport>;

    /// The store's policy.
    async fn settings(&self) -> Result<Settings>;

    /// Changes the store's policy, for every worker on it: all of it.
    ///
    /// # Errors
    /// `invalid_option` for [what cannot work](Settings::check).
    async fn configure(&self, settings: &Settings) -> Result<()> {
        self.change_settings(&SettingsChange::from(*settings)).await
    }

    /// The same of what the change names; the rest stays as it is, also where somebody changes that at the same time.
    ///
    /// # Errors
    /// As [`Self::configure`].
    async fn change_settings(&self, change: &SettingsChange) -> Result<()>;

    /// The store's rules of what is kept of single queues and outcomes, by queue and outcome; the rules for every queue come first.
    ///
    /// # Errors
    /// `schema_too_old` when the store has yet to be migrated for it.
    async fn retention(&self) -> Result<Vec<RetentionRule>>;

    /// Keeps these rules, all or none, each in the place of the one of its queue and outcome; one that says nothing removes that.
    /// The next [housekeeping](Self::maintain) goes by them.
    ///
    /// # Errors
    /// What [`RetentionRule::check_all`] refuses; `invalid_option` when there would be too many rules; `schema_too_old` when the store
    /// has yet to be migrated for it.
    async fn set_retention(&self, rules: &[RetentionRule]) -> Result<()>;

    /// Cancels jobs: those that no worker holds at once. The worker that holds one is asked to stop it, by its next
    /// [heartbeat](Self::heartbeat) at the latest; whatever would make the job available again after that (a retry, a
    /// snooze, the end of the worker) cancels it. One reply per id, in order.
    ///
    /// Where it fails after some of them were done, as the calls below may, the error has [their replies](Error::replies).
    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>>;

    /// Makes dead, cancelled or retryable jobs available now. One reply per id, in order.
    async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>>;

    /// Changes jobs that no worker holds and that have not completed, each in one transaction or not at all. One that waits
    /// stays as it is but for what the edit names: a retryable job keeps its attempts, a dead one stays dead. An available
    /// job may lose its place among those of its priority. One reply per id, in order.
    ///
    /// # Errors
    /// What [`JobEdit::check`] refuses.
    async fn edit(&self, ids: &[JobId], edit: &JobEdit) -> Result<Vec<EditReply>>;

    /// Removes jobs that no worker holds and that have not completed, without a trace. One reply per id, in order.
    async fn delete(&self, ids: &[JobId]) -> Result<Vec<DeleteReply>>;

    /// This store for who has waited long enough: what is done there to several jobs is tried once for each, and fails with [what has](crate::Error::holder) those that somebody holds. It may pass over others
    /// beside these. `None`: its calls wait for nobody for long.
    fn without_patience(&self) -> Option<Arc<dyn Store>> {
        None
    }

    /// Stops (`true`) or allows (`false`) claiming from a queue. Fails with not found for an unknown one.
    async fn pause(&self, queue: &str, paused: bool) -> Result<()>;

    /// Asks a worker to take no more jobs, end what it runs, and go. Its next [heartbeat](Self::heartbeat) tells it; [`Wakeup::on_request`] that there is
    /// something to tell. Repeating it changes nothing. Nothing is taken from a worker that is too old to know.
    ///
    /// # Errors
    /// Not found where no such worker lives, or it has no queues; `schema_too_old` when the store has yet to be migrated for it.
    async fn drain_worker(&self, worker: WorkerId) -> Result<()> {
        let _ = worker;
        Err(Error::new(ErrorKind::Unsupported, "this store does not drain workers"))
    }

    /// Limits how many jobs of a queue run, over all workers, from now on; without any it takes the limits away. The queue need
    /// not exist yet. Jobs that run are not stopped: where the new limit is lower, none starts until enough are over.
    ///
    /// # Errors
    /// What [`QueueLimits::check`] refuses; `invalid_name`; `schema_too_old` when the store has yet to be migrated for it.
    async fn limit(&self, queue: &str, limits: &QueueLimits) -> Result<()>;

    /// Changes what holds for the [keys](crate::Attributes::key) of a queue, from now on, for all workers and also for the jobs that are there. Any
    /// limit makes the queue one whose jobs with a key take turns: its keys share it by their weights. The queue need not exist yet. All or nothing;
    /// repeating a change changes nothing.
    ///
    /// A job counts for its key while a worker holds it: from its claim until it is settled, given back or rescued, over all
    /// priorities of the queue. Of a [serial](field@crate::KeyLimit::serial) key no other job is handed out while one that was is not over. Jobs that are held are not
    /// stopped: where the new limit is lower, none is handed out until enough are over. Where there is a [rate](crate::KeyLimit::rate), what ended counts for another
    /// period, the one that the limit says when it ends; a key whose rate is taken away forgets what counted.
    ///
    /// # Errors
    /// What [`KeyLimitsChange::check`] refuses; `invalid_name`; `schema_too_old` when the store has yet to be migrated for it; `unsupported`.
    async fn limit_keys(&self, queue: &str, change: &KeyLimitsChange) -> Result<()> {
        let _ = (queue, change);
        Err(Error::new(ErrorKind::Unsupported, "this store does not limit keys"))
    }

    /// The limits of a queue's keys; `None` where it has none, or there is no such queue.
    async fn key_limits(&self, queue: &str) -> Result<Option<KeyLimits>> {
        let _ = queue;
        Ok(None)
    }

    /// Gives a worker its share of limited queues; one reply per queue, in order. `None` where somebody is changing its limits, perhaps in a
    /// transaction that stays open: nothing was changed there, and it should be asked for again. The sum of all slots of a queue never exceeds its limit, but for
    /// what ran before a limit was lowered: a worker keeps the slots of what it runs. The starts that were given out never exceed a window of the rate.
    /// Durable on return. A share ends with the worker: by [`Self::deregister`] or [`Self::rescue`].
    ///
    /// Slots go to whoever asks, and are evened out among those who want more than they have. [`Wakeup::on_request`] tells a worker that a
    /// slot came free for it, that others want some of its own, or that limits changed.
    ///
    /// Starts go to whoever asks first. Where the next job of a worker costs more than is free, others that ask after it get only what is left beside
    /// that job's cost, until it had it, or a second after it was told to ask again.
    ///
    /// # Errors
    /// A lost lease; `schema_too_old` when the store has yet to be migrated for it.
    async fn share(&self, request: &ShareRequest) -> Result<Vec<Option<Share>>>;

    /// One job with its errors and what its handlers [reported](Self::report).
    async fn job(&self, id: JobId) -> Result<Option<JobRecord>>;

    /// A page of jobs by filter, in [its order](JobFilter). A page costs a bounded amount of work; every job comes once
    /// over all pages while nothing changes.
    async fn jobs(&self, filter: &JobFilter) -> Result<JobPage>;

    /// Whether a worker of these queues that knows these kinds (none: all) would be given a job now. Paused queues have none for it. Cheap at
    /// any backlog.
    async fn any_available(&self, queues: &[String], kinds: &[String]) -> Result<bool>;

    /// What of these queues becomes available without anybody doing anything for it, apart from jobs whose time comes. Paused queues have
    /// none. Reads each live worker: for who found nothing available, not to be asked many times a second.
    ///
    /// # Errors
    /// `schema_too_old` when the store has yet to be migrated for it.
    async fn coming(&self, queues: &[String]) -> Result<Coming>;

    /// Queues with their counts, [by name](QueueFilter). Cheap at any backlog, so that [large counts](QueueStats) may be estimates.
    async fn queues_by(&self, filter: &QueueFilter) -> Result<Vec<QueueStats>>;

    /// Every queue.
    async fn queues(&self) -> Result<Vec<QueueStats>> {
        self.queues_by(&QueueFilter::default()).await
    }

    /// How many jobs ended in which way, by the minute, queue and kind: what [housekeeping](Self::maintain) counted so far. Cheap at any number of jobs: linear in
    /// the counters of that time.
    ///
    /// # Errors
    /// What [`HistoryRequest::check`] refuses; `invalid_option` for more counts than [fit](HistoryRequest::MOST); `schema_too_old` when the
    /// store has yet to be migrated for it.
    async fn history(&self, request: &HistoryRequest) -> Result<History>;

    /// The store's state. Cheap at any number of queues and jobs.
    async fn status(&self) -> Result<StoreStatus>;

    /// In which states these jobs are, in order; `None` of one that is unknown. For previews of what many jobs are named for.
    async fn states(&self, ids: &[JobId]) -> Result<Vec<Option<JobState>>> {
        let mut states = Vec::with_capacity(ids.len());
        for id in ids {
            states.push(self.job(*id).await?.map(|job| job.state));
        }
        Ok(states)
    }

    /// Those of these jobs that have ended, as [`Self::job`] tells without their errors, and those that are unknown. Asked again
    /// and again while somebody waits for them.
    async fn ended(&self, ids: &[JobId]) -> Result<Ended> {
        let mut ended = Ended::default();
        for id in ids {
            match self.job(*id).await? {
                None => ended.unknown.push(*id),
                Some(job) if job.state.is_final() => ended.jobs.push(job),
                Some(_) => {}
            }
        }
        Ok(ended)
    }

    /// A way to wait for ends of jobs, of which a process that waits for some takes one; `None`: who waits has to look from
    /// time to time.
    fn ends(&self) -> Option<Box<dyn Ends>> {
        None
    }

    /// What happened to jobs behind a cursor, in the order of commits: everything once, whenever it was committed, page by page. A
    /// transaction that was open while the page before was read comes when it has committed. Of one job everything comes in the order in which
    /// it happened.
    ///
    /// A page costs a bounded amount of work. Filters are applied in the store; a page may be empty although [there is more](EventPage::more).
    ///
    /// # Errors
    /// `events_expired` when events behind the cursor were removed, with jobs past their [retention](Settings::retention), or the cursor is of
    /// another log (a restore, a failover); `invalid_option` for what is no cursor; `unsupported` by stores that keep no events.
    async fn events(&self, request: &EventRequest) -> Result<EventPage> {
        let _ = request;
        Err(crate::Error::new(crate::ErrorKind::Unsupported, "this store keeps no events".to_owned()))
    }

    /// A way to wait for work. Each worker process takes one.
    fn wakeup(&self) -> Box<dyn Wakeup>;

    /// Closes connections and files. Calls that are under way go on to their end; whether it waits for them, and whether later calls open the store again or
    /// fail, is the store's matter: let calls end first, and make none afterwards.
    async fn close(&self);
}

/// What became of jobs that somebody waits for.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Those that are in a final state.
    pub jobs: Vec<JobRecord>,
    /// Those that do not exist, or whose history was removed.
    pub unknown: Vec<JobId>,
}

/// Waiting until jobs end: those of all workers, one hint for many. A hint only: it may be false, late or missing.
#[async_trait]
pub trait Ends: Send {
    /// Returns when jobs ended since the call before, or after `timeout`. Cancel safe.
    async fn wait(&mut self, timeout: Duration) -> Wake;
}

/// Waiting for work. A hint only: a wake-up may be false, late or missing, so polling stays on.
///
/// Protocol: [`arm`](Self::arm), claim once more, [`wait`](Self::wait), [`disarm`](Self::disarm).
#[async_trait]
pub trait Wakeup: Send {
    /// Announces that this worker is idle: from now on an enqueue wakes it. Never fails; a store that
    /// cannot announce it falls back to polling.
    async fn arm(&mut self);

    /// Returns on a hint, or after `timeout`; sooner where nothing can tell of new work just now, so that whoever waits looks for it. Cancel
    /// safe.
    async fn wait(&mut self, timeout: Duration) -> Wake;

    /// Withdraws the announcement, without waiting for the store.
    fn disarm(&mut self);

    /// How many workers a hint disturbs, this one included, as far as the store knows.
    fn listeners(&self) -> usize {
        1
    }

    /// Has `told` called, armed or not, when the next [heartbeat](JobStore::heartbeat) of a worker has something to say,
    /// so that it is sent at once. A hint only, as wake-ups are; a store that cannot give it leaves this out.
    fn on_request(&mut self, told: OnRequest) {
        drop(told);
    }

    /// Has `told` called, armed or not, when schedules were declared, removed, paused or resumed. A hint only.
    fn on_schedules(&mut self, told: OnSchedules) {
        drop(told);
    }
}

/// Is told that there is something for a worker to know; `None`: for any worker.
pub type OnRequest = Arc<dyn Fn(Option<WorkerId>) + Send + Sync>;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The store says that there may be work.
    Hint,
    /// Time is over.
    Timeout,
}

/// One maintainer at a time, by a lease on the store's clock.
#[async_trait]
pub trait Leader: Send + Sync {
    /// Takes or renews leadership for `term`. Whether this worker leads now.
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool>;

    /// Gives leadership up, so that another worker can take it at once.
    async fn resign(&self, worker: WorkerId) -> Result<()>;
}

/// A whole store: what the engine is given.
pub trait Store: JobStore + ScheduleStore + AuditStore + TimingStore + Leader {}

impl<T: JobStore + ScheduleStore + AuditStore + TimingStore + Leader> Store for T {}

/// What [`JobStore::enqueue_unique`] did with one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnqueuedUnique {
    /// The job that has the key now; of a job that is not unique its own.
    pub id: JobId,
    /// What became of the conflict, if another job had the key.
    pub conflict: Option<Conflict>,
}

/// What [`JobStore::enqueue_once`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnqueuedOnce {
    /// The ids of the jobs, in order; of the first call when this one repeated it.
    pub ids: Vec<JobId>,
    /// Whether an earlier call with this key had stored the jobs.
    pub repeated: bool,
}

/// What a migration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    /// The version before; 0 when there was no schema.
    pub from: u32,
    /// The version now.
    pub to: u32,
    /// A newer program was there before, and everything stays as that left it.
    pub newer: bool,
}

/// What a rescue found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RescueReport {
    /// The workers that were declared dead.
    pub workers: Vec<WorkerId>,
    /// How many of their jobs were made available again.
    pub rescued: u64,
    /// How many were discarded as crash loops.
    pub discarded: u64,
    /// How long until the next lease can end, by the store's clock; `None` when no worker is live.
    pub next_end: Option<Duration>,
}

/// What a promotion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    /// How many jobs were made available.
    pub count: u64,
    /// How long until the next one is due, or a key's rate allows more, by the store's clock; `None` when none waits.
    pub next_due: Option<Duration>,
}

/// What becomes [available by itself](JobStore::coming).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coming {
    /// How long until the rate of a key allows more of its jobs that wait, by the store's clock; `None` when none waits for that.
    pub key_due: Option<Duration>,
    /// How many jobs workers hold whose lease is over: they are taken back by [`JobStore::rescue`].
    pub held: u64,
    /// The longest lease of those workers: who takes jobs back has been in touch with the store for that long.
    pub lease: Duration,
}

/// What a worker has to know, as the store answers to its heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Heartbeat {
    /// Jobs that this worker holds and that somebody wants [cancelled](JobStore::cancel), until they are settled.
    pub cancel: Vec<JobId>,
    /// Those of the worker's queues that have [limits](JobStore::limit).
    pub limited: Vec<Arc<str>>,
    /// Somebody wants the worker to [drain](JobStore::drain_worker).
    pub drain: bool,
    /// The store went back to an earlier state since the worker registered, as by a failover to a standby that had not received everything: it may count jobs as held by
    /// this worker whose settlement was lost. They come back when the registration ends, so the worker settles what it runs and registers anew.
    pub register_anew: bool,
}

/// What housekeeping did, as far as the store knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaintainReport {
    /// Whether the log moved on to its next segment.
    pub rotated: bool,
    /// How many segments of the log were emptied.
    pub truncated: u32,
    /// How many unfinished jobs were moved out of an old segment.
    pub rehomed: u64,
    /// How many dead jobs past their retention were removed.
    pub removed_dead: u64,
}
