use crate::{
    Args, HandlerReport, JobId, JobState, Load, Program, QueueLimits, RetryPolicy, WorkerId, millis,
};
use jiff::Timestamp;
use serde::Serialize;
use std::{ops::Deref, time::Duration};

/// Where a page of jobs ended. Only its store can read it, and only for the filter that it was given with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct PageToken(pub String);

/// A page of jobs. One page costs a bounded amount of work, so it may hold fewer jobs than asked for, even none,
/// though there are more: look at [`Self::next`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobRecord>,
    /// Where to go on; `None` when nothing follows.
    pub next: Option<PageToken>,
}

impl Deref for JobPage {
    type Target = [JobRecord];

    fn deref(&self) -> &[JobRecord] {
        &self.jobs
    }
}

/// A job as an operator sees it.
#[derive(Clone, Debug, Serialize)]
pub struct JobRecord {
    /// The job's identity.
    pub id: JobId,
    /// Where it is in its life.
    pub state: JobState,
    /// What to do.
    pub kind: String,
    /// The queue.
    pub queue: String,
    /// Lower runs first.
    pub priority: i16,
    /// Attempts begun so far, a running one included.
    pub attempt: u16,
    /// Attempts in all.
    pub max_attempts: u16,
    /// How many workers died while they held it.
    pub crash_count: u16,
    /// With what.
    pub args: Args,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it becomes available, while it waits for that.
    pub scheduled_at: Option<Timestamp>,
    /// When it was last claimed, while the store still knows.
    pub claimed_at: Option<Timestamp>,
    /// Who holds or last held it.
    pub claimed_by: Option<WorkerId>,
    /// When it reached a final state.
    pub finished_at: Option<Timestamp>,
    /// Why it was cancelled or discarded, or that [nobody knows its kind](Self::NO_HANDLER).
    pub reason: Option<String>,
    /// Whom or what it is about.
    pub key: Option<String>,
    /// What was said beside its args.
    pub meta: Option<Args>,
    /// What it can be found by.
    pub tags: Vec<String>,
    /// How long an attempt may take, if the job itself says.
    #[serde(rename = "timeout_ms", with = "millis::option")]
    pub timeout: Option<Duration>,
    /// When failed attempts are tried again, if the job itself says.
    pub retry_policy: Option<RetryPolicy>,
    /// From when on it is not started any more.
    pub expires_at: Option<Timestamp>,
    /// What a start of it takes of its queue's rate, if that is more than 1.
    pub cost: Option<u32>,
    /// What its handler returned.
    pub result: Option<Args>,
    /// Its failed attempts, oldest first. Filled by [`job`](crate::JobStore::job), empty in lists.
    pub errors: Vec<AttemptError>,
    /// What its handlers said of it while it ran: progress, log and checkpoint. Filled by `show` where they said
    /// anything, `None` in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Box<HandlerReport>>,
}

impl JobRecord {
    /// The reason of an available job that waits for a worker with its handler.
    pub const NO_HANDLER: &str = "waits for a worker that knows its kind";
}

/// One failed attempt.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptError {
    /// Which attempt, from 1.
    pub attempt: u16,
    /// When it failed.
    pub at: Timestamp,
    /// What went wrong.
    pub error: String,
}

/// What a cancel did, per job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReply {
    /// Cancelled: it will not run.
    Cancelled,
    /// A worker holds it and is told to stop: the job's [token](crate::Heartbeat::cancel) fires. It ends as what its
    /// handler makes of that, completed for example, or is cancelled; it will not come back for another attempt.
    Running,
    /// It had reached a final state before.
    Finished,
    /// No such job, or its history was removed.
    NotFound,
}

/// What a retry by hand did, per job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryReply {
    /// Available now; a dead job got its attempts anew.
    Retried,
    /// It was waiting for a worker or running already; it was left alone.
    Pending,
    /// It completed; completed jobs are not run again.
    Completed,
    /// It is [unique](crate::Unique), and another job has its key now; it was left alone.
    KeyTaken,
    /// No such job, or its history was removed.
    NotFound,
}

/// A queue as an operator sees it. Counts are of this moment; finished ones within retention. A store may estimate
/// counts above 10,000, and above 1,000 where there are many jobs or queues: see [`Self::estimates`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueStats {
    /// The queue's name.
    pub name: String,
    /// Whether claiming is paused.
    pub paused: bool,
    /// How many of its jobs may run.
    pub limits: QueueLimits,
    /// Whether its [keys have limits](crate::KeyLimits), or had.
    pub keyed: bool,
    /// Ready to be claimed, jobs that wait for a worker that knows their kind included.
    pub available: u64,
    /// Of these, those that wait for a worker that knows their kind; an estimate where that count is one.
    pub no_handler: u64,
    /// Held by a live worker.
    pub running: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Waiting for their next attempt.
    pub retryable: u64,
    /// Done.
    pub completed: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Dead.
    pub discarded: u64,
    /// Since when the job that waits longest to be claimed could have been: its enqueue, or when its time came, or it came back.
    /// To a second on PostgreSQL. Jobs that no worker knows are not looked at.
    pub oldest_available_at: Option<Timestamp>,
    /// Since when the first of those waits that no worker knew so far.
    pub oldest_no_handler_at: Option<Timestamp>,
    /// The states whose counts are estimates; the others are exact.
    pub estimates: Vec<JobState>,
}

/// A worker as an operator sees it.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerRecord {
    /// Its identity.
    pub id: WorkerId,
    /// Its name for people.
    pub name: String,
    /// The queues it takes jobs from.
    pub queues: Vec<String>,
    /// When it registered.
    pub started_at: Timestamp,
    /// When it last gave a sign of life.
    pub heartbeat_at: Timestamp,
    /// Whether its lease still runs.
    pub live: bool,
    /// Whether it was asked to [drain](crate::JobStore::drain_worker): it ends what it runs, and goes.
    pub draining: bool,
    /// What it runs; nothing of workers that registered before that was said.
    #[serde(flatten)]
    pub program: Program,
    /// What it uses and does lately.
    #[serde(flatten)]
    pub load: Load,
}

impl WorkerRecord {
    /// In a word: `live`, `draining` or `gone`.
    pub fn state(&self) -> &'static str {
        match (self.live, self.draining) {
            (true, false) => "live",
            (true, true) => "draining",
            (false, _) => "gone",
        }
    }
}

/// The state of a store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreStatus {
    /// Which store, with its version: `PostgreSQL 15.18`, `SQLite 3.51.0`.
    pub store: String,
    /// The version of the schema in the store.
    pub schema_version: u32,
    /// The bytes that Windlass's tables take.
    pub size_bytes: u64,
    /// The workers that registered lately, live ones first, [`Self::MOST_WORKERS`] at most.
    pub workers: Vec<WorkerRecord>,
    /// Whether more registered than these.
    pub more_workers: bool,
}

impl StoreStatus {
    /// The most workers that a status lists.
    pub const MOST_WORKERS: usize = 1_000;

    /// For stores: the state with these workers, of which those beyond the most are left out.
    pub fn new(store: String, schema_version: u32, size_bytes: u64, mut workers: Vec<WorkerRecord>) -> Self {
        let more_workers = workers.len() > Self::MOST_WORKERS;
        workers.truncate(Self::MOST_WORKERS);
        Self { store, schema_version, size_bytes, workers, more_workers }
    }
}
