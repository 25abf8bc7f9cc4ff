//! Operations with real ids, and what stores answer.

use super::{
    limits,
    scenario::{Act, Change, Fate, KeyRule, Way},
    schedule,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use windlass_core::{
    Args, CancelReply, Claim, ClaimRef, Completion, DeleteReply, Disposition, EditReply, EnqueuedUnique,
    Exception, JobEdit, JobId, JobReport, JobSet, MaintainReport, NewJob, OnConflict, ReportRequest,
    Reported, Result, RetryReply, ScheduleRecord, ScheduleStep, SettleReply, SettleRequest, Share,
    ShareRequest, Unique, WorkerId, WorkerSpec,
};

/// The kind of jobs that are unique.
pub(crate) const UNIQUE_KIND: &str = "a";

/// An operation on real jobs and workers.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Enqueue { first: usize, count: usize, kind: &'static str },
    EnqueueOnce { first: usize, count: usize, kind: &'static str },
    Unique { first: usize, keys: &'static [u8], way: Way },
    Keyed { first: usize, keys: &'static [u8] },
    LimitKeys(KeyRule),
    LimitQueue(Option<u32>),
    Share(ShareRequest),
    Declare,
    Pause,
    Look(usize),
    Fire { first: usize, step: ScheduleStep },
    Claim { worker: WorkerId, limit: u32 },
    Settle(SettleRequest),
    CompleteIn { worker: WorkerId, claim: ClaimRef, job: JobId, position: i64 },
    Heartbeat(WorkerId),
    Suspect(WorkerId, JobId),
    Rescue(WorkerId),
    Deregister(WorkerId),
    Promote,
    Cancel(JobId),
    Retry(JobId),
    Edit(JobId, Change),
    Delete(JobId),
    Report(ReportRequest),
    Maintain,
    Close,
    Expire(WorkerId),
}

/// What the store answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Enqueued(Vec<JobId>),
    Unique(Vec<EnqueuedUnique>),
    /// A unique key is taken, and its caller asked for an error then.
    KeyTaken,
    /// `None`: somebody is changing the limits of the queue.
    Shared(Option<Share>),
    /// The schedule, as it is now.
    Seen(Box<ScheduleRecord>),
    /// The jobs of a step; `None`: it was not taken.
    Fired(Option<Vec<JobId>>),
    Claimed(Vec<Claim>),
    Settled(SettleReply),
    Done,
    /// The workers that were ended.
    Ended(Vec<WorkerId>),
    Promoted(u64),
    Housekept(#[allow(dead_code)] MaintainReport), // read in traces
    Cancel(CancelReply),
    Retry(RetryReply),
    Edit(EditReply),
    Delete(DeleteReply),
    Reported(Vec<Reported>),
    LeaseLost,
    /// An answer that callers must expect: no lock to be had, serialization.
    Tolerated(#[allow(dead_code)] String), // read in traces
    Deadlock,
    Failed(String),
}

/// The jobs of an enqueue.
pub(crate) fn jobs(queue: &str, count: usize, kind: &'static str) -> Result<Vec<NewJob>> {
    let job = || Args::parse("{}").map(|args| NewJob::new(kind, args).with_queue(queue.to_owned()));
    (0..count).map(|_| job()).collect()
}

/// A worker of one queue.
pub(crate) fn worker(queue: &str, kinds: &[&str], lease: Duration) -> WorkerSpec {
    let kinds = kinds.iter().map(|&kind| kind.into()).collect();
    WorkerSpec {
        name: "permuter".into(),
        queues: vec![queue.into()],
        kinds,
        lease,
        program: Default::default(),
    }
}

impl Reply {
    /// Whether the operation did its work, so that its commit counts.
    pub(crate) fn is_done(&self) -> bool {
        !matches!(
            self,
            Self::LeaseLost | Self::KeyTaken | Self::Tolerated(_) | Self::Deadlock | Self::Failed(_)
        )
    }
}

/// The real names of one order's jobs and workers, and what each worker was handed.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) queue: Arc<str>,
    pub(crate) workers: Vec<WorkerId>,
    pub(crate) jobs: HashMap<usize, JobId>,
    pub(crate) handed: HashMap<WorkerId, Vec<Claim>>,
    /// What each leader saw last.
    pub(crate) seen: HashMap<usize, ScheduleRecord>,
}

impl Names {
    /// The operation on real ids; `None` when what it names does not exist (yet), so that nobody can ask.
    /// `first` is the number of the first job that it enqueues.
    pub(crate) fn call(&self, act: Act, first: usize) -> Option<Call> {
        let worker = |number: usize| self.workers.get(number).copied();
        let job = |number: usize| self.jobs.get(&number).copied();
        Some(match act {
            Act::Enqueue(count, kind) => Call::Enqueue { first, count, kind },
            Act::EnqueueOnce(count, kind) => Call::EnqueueOnce { first, count, kind },
            Act::Unique(keys, way) => Call::Unique { first, keys, way },
            Act::Keyed(keys) => Call::Keyed { first, keys },
            Act::LimitKeys(rule) => Call::LimitKeys(rule),
            Act::LimitQueue(most) => Call::LimitQueue(most),
            Act::Share(by, running, slots) => {
                Call::Share(limits::share(&self.queue, worker(by)?, running, slots))
            }
            Act::Declare => Call::Declare,
            Act::Pause => Call::Pause,
            Act::Look(leader) => Call::Look(leader),
            Act::Fire(leader) => Call::Fire { first, step: schedule::fire(self.seen.get(&leader)?)? },
            Act::Claim(by, limit) => Call::Claim { worker: worker(by)?, limit },
            Act::CompleteRest(by) => {
                let rest = |claim: &Claim| completion(claim.reference, JobSet::Rest, claim.jobs.len());
                let completions: Vec<_> = self.handed.get(&worker(by)?)?.iter().map(rest).collect();
                settle(worker(by)?, completions, vec![])?
            }
            Act::Complete(by, jobs) => {
                let ids: Vec<_> = jobs.iter().filter_map(|&number| job(number)).collect();
                let of_claim = |claim: &Claim| {
                    let has = |id: &&JobId| claim.jobs.iter().any(|job| job.id == **id);
                    let ranges: Vec<_> = ids.iter().filter(has).map(|id| (id.0, id.0)).collect();
                    let count = ranges.len();
                    (count > 0).then(|| completion(claim.reference, JobSet::Ranges(ranges), count))
                };
                let completions = self.handed.get(&worker(by)?)?.iter().filter_map(of_claim).collect();
                settle(worker(by)?, completions, vec![])?
            }
            Act::Except(by, number, fate) => {
                let (claim, position) = self.held(worker(by)?, job(number)?)?;
                let (job, disposition) = (job(number)?, disposition(fate));
                settle(worker(by)?, vec![], vec![Exception { claim, job, position, disposition }])?
            }
            Act::CompleteIn(by, number) => {
                let (worker, job) = (worker(by)?, job(number)?);
                let (claim, position) = self.held(worker, job)?;
                Call::CompleteIn { worker, claim, job, position }
            }
            Act::Heartbeat(by) => Call::Heartbeat(worker(by)?),
            Act::Suspect(by, number) => Call::Suspect(worker(by)?, job(number)?),
            Act::Rescue(of) => Call::Rescue(worker(of)?),
            Act::Deregister(by) => Call::Deregister(worker(by)?),
            Act::Promote => Call::Promote,
            Act::Cancel(number) => Call::Cancel(job(number)?),
            Act::Retry(number) => Call::Retry(job(number)?),
            Act::Edit(number, change) => Call::Edit(job(number)?, change),
            Act::Delete(number) => Call::Delete(job(number)?),
            Act::Report(by, number, n) => {
                let (worker, job) = (worker(by)?, job(number)?);
                Call::Report(report(worker, job, self.held(worker, job)?, n)?)
            }
            Act::Maintain => Call::Maintain,
            Act::Close => Call::Close,
            Act::Expire(of) => Call::Expire(worker(of)?),
        })
    }

    /// The claim that handed this job to the worker, as far as the worker knows, and the job's position.
    fn held(&self, worker: WorkerId, id: JobId) -> Option<(ClaimRef, i64)> {
        let of_claim = |claim: &Claim| {
            let job = claim.jobs.iter().find(|job| job.id == id)?;
            Some((claim.reference, job.position))
        };
        self.handed.get(&worker)?.iter().rev().find_map(of_claim)
    }

    /// Keeps what callers learn from an answer: the ids of their jobs, the claims they were handed.
    pub(crate) fn learn(&mut self, call: &Call, reply: &Reply) {
        match (call, reply) {
            (
                Call::Enqueue { first, .. } | Call::EnqueueOnce { first, .. } | Call::Keyed { first, .. },
                Reply::Enqueued(ids),
            )
            | (Call::Fire { first, .. }, Reply::Fired(Some(ids))) => {
                self.jobs.extend(ids.iter().enumerate().map(|(nth, &id)| (first + nth, id)));
            }
            (Call::Look(leader), Reply::Seen(record)) => {
                self.seen.insert(*leader, (**record).clone());
            }
            (Call::Unique { first, .. }, Reply::Unique(stored)) => {
                self.jobs.extend(stored.iter().enumerate().map(|(nth, stored)| (first + nth, stored.id)));
            }
            (Call::Claim { worker, .. }, Reply::Claimed(claims)) => {
                self.handed.entry(*worker).or_default().extend(claims.iter().cloned());
            }
            _ => {}
        }
    }

    /// What callers of a transaction that rolled back never learned.
    pub(crate) fn forget(&mut self, call: &Call, reply: &Reply) {
        if let (Call::Claim { worker, .. }, Reply::Claimed(claims)) = (call, reply) {
            let gone = |claim: &Claim| claims.iter().any(|other| other.reference == claim.reference);
            self.handed.entry(*worker).or_default().retain(|claim| !gone(claim));
        }
    }
}

fn report(worker: WorkerId, job: JobId, (claim, position): (ClaimRef, i64), n: u32) -> Option<ReportRequest> {
    let report = JobReport {
        claim,
        job,
        position,
        attempt: 1,
        number: n.into(),
        progress: None,
        checkpoint: Some(Args::of(&n).ok()?),
        log: Vec::new(),
        dropped: 0,
    };
    Some(ReportRequest { worker, reports: vec![report] })
}

/// The jobs of unique keys.
pub(crate) fn unique_jobs(queue: &str, keys: &[u8], way: Way) -> Result<Vec<NewJob>> {
    let job = |key: &u8| {
        let unique = Unique::by_key(format!("{queue}/{key}"));
        let unique = match way {
            Way::Keep | Way::Together => unique,
            Way::UntilStarted => unique.until_started(),
            Way::Replace => unique.on_conflict(OnConflict::Replace { max_wait: None }),
            Way::Refuse => unique.on_conflict(OnConflict::Error),
        };
        let args = Args::parse("{}")?;
        Ok(NewJob::new(UNIQUE_KIND, args).with_queue(queue.to_owned()).with_unique(unique))
    };
    keys.iter().map(job).collect()
}

/// What an edit asks of the store.
pub(crate) fn edit(change: Change) -> Result<JobEdit> {
    Ok(match change {
        Change::Args(n) => JobEdit::new().with_args(Args::of(&n)?),
        Change::Priority(priority) => JobEdit::new().with_priority(priority),
        Change::Now => JobEdit::new().with_no_delay(),
    })
}

fn completion(claim: ClaimRef, jobs: JobSet, count: usize) -> Completion {
    Completion { claim, jobs, count: u32::try_from(count).unwrap_or(u32::MAX) }
}

/// A worker with nothing to say does not call.
fn settle(worker: WorkerId, completions: Vec<Completion>, exceptions: Vec<Exception>) -> Option<Call> {
    let any = !completions.is_empty() || !exceptions.is_empty();
    any.then_some(Call::Settle(SettleRequest { worker, completions, exceptions }))
}

fn disposition(fate: Fate) -> Disposition {
    let (delay, error) = (Duration::ZERO, String::from("no"));
    match fate {
        Fate::Retry => Disposition::Retry { delay, error },
        Fate::Snooze => Disposition::Snooze { delay },
        Fate::Cancel => Disposition::Cancel { reason: error },
        Fate::Discard => Disposition::Discard { error, failed: true },
        Fate::NoHandler => Disposition::NoHandler,
        Fate::Return => Disposition::Return,
        Fate::Result => Disposition::Complete { result: Args::parse("7").ok() },
    }
}
