use super::{
    history::{History, Lease, What, Why},
    leases::Worker,
};
use bytes::Bytes;
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use tokio::time::Instant;
use windlass_core::{Claim, ClaimRef, ClaimRequest, ClaimedJob, JobId, Result, SettleRequest, WorkerId};

/// Where a job is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    Available,
    Held(WorkerId, i64),
    Due(Instant),
    /// Waits for a worker that knows its kind.
    Parked,
    Completed,
    Cancelled,
    Discarded {
        failed: bool,
    },
}

impl State {
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Discarded { .. })
    }
}

#[derive(Clone, Debug)]
pub struct Job {
    pub state: State,
    pub queue: Arc<str>,
    pub kind: Arc<str>,
    pub attempt: u16,
    pub max_attempts: u16,
    pub crash_count: u16,
    pub errors: Vec<String>,
    /// How often it was handed back.
    pub returns: u32,
}

impl Job {
    pub fn new(queue: &str, kind: &str, max_attempts: u16) -> Self {
        Self {
            state: State::Available,
            queue: queue.into(),
            kind: kind.into(),
            attempt: 1,
            max_attempts,
            crash_count: 0,
            errors: Vec::new(),
            returns: 0,
        }
    }
}

/// Everything in the store, and everything that it was asked.
pub struct Model {
    pub jobs: Vec<Job>,
    /// The args of every job.
    pub args: Bytes,
    pub(super) available: HashMap<Arc<str>, BTreeSet<i64>>,
    pub(super) due: BTreeSet<(Instant, i64)>,
    pub(super) parked: BTreeSet<i64>,
    paused: BTreeSet<String>,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    /// Who leads, and until when.
    pub(super) leader: Option<(WorkerId, Instant)>,
    pub registered: Vec<WorkerId>,
    pub deregistered: Vec<WorkerId>,
    pub(super) claims: HashMap<i64, (WorkerId, Vec<i64>)>,
    pub(super) next_claim: i64,
    pub suspect: Option<JobId>,
    pub suspects: Vec<Option<JobId>>,
    /// The limits of claims, in order.
    pub demands: Vec<u32>,
    /// Settle requests that were carried out, in order.
    pub settles: Vec<SettleRequest>,
    /// A job whose failure the store does not take, whatever else the request says; and how often it said so.
    pub unstorable: Option<i64>,
    pub refusals: usize,
    pub heartbeats: usize,
    pub arms: usize,
    /// Claims find others at work, and nothing else.
    pub contended: bool,
    /// Whether leases run out by the clock. Off where tests run in real time: a slow machine is no fault.
    pub leases_run_out: bool,
    pub history: History,
    /// What a worker did that it must not.
    pub violations: Vec<String>,
}

impl Model {
    pub fn new() -> Self {
        Self {
            jobs: Vec::new(),
            args: Bytes::from_static(b"{}"),
            available: HashMap::new(),
            due: BTreeSet::new(),
            parked: BTreeSet::new(),
            paused: BTreeSet::new(),
            workers: BTreeMap::new(),
            leader: None,
            registered: Vec::new(),
            deregistered: Vec::new(),
            claims: HashMap::new(),
            next_claim: 0,
            suspect: None,
            suspects: Vec::new(),
            demands: Vec::new(),
            settles: Vec::new(),
            unstorable: None,
            refusals: 0,
            heartbeats: 0,
            arms: 0,
            contended: false,
            leases_run_out: false,
            history: History::new(),
            violations: Vec::new(),
        }
    }

    pub fn add(&mut self, queue: &str, kind: &str, count: usize) -> Vec<JobId> {
        let job = Job::new(queue, kind, 3);
        (0..count).map(|_| self.add_one(job.clone(), None)).collect()
    }

    /// Adds a job that becomes available `at` then, or now.
    pub fn add_one(&mut self, job: Job, at: Option<Instant>) -> JobId {
        let (crash_count, id) = (job.crash_count, self.jobs.len() as i64 + 1);
        self.jobs.push(job);
        match at {
            Some(at) => self.put_off(id, at),
            None => self.make_available(id),
        }
        self.history.note(0, What::Enqueued { job: JobId(id), crash_count });
        JobId(id)
    }

    pub fn job(&self, id: JobId) -> &Job {
        &self.jobs[id.0 as usize - 1]
    }

    pub fn job_mut(&mut self, id: JobId) -> &mut Job {
        &mut self.jobs[id.0 as usize - 1]
    }

    pub fn count(&self, state: &State) -> usize {
        self.jobs.iter().filter(|job| job.state == *state).count()
    }

    pub fn held(&self) -> usize {
        self.jobs.iter().filter(|job| matches!(job.state, State::Held(..))).count()
    }

    pub fn all_completed(&self) -> bool {
        self.jobs.iter().all(|job| job.state == State::Completed)
    }

    pub fn violate(&mut self, words: String) {
        self.violations.push(words);
    }

    pub fn make_available(&mut self, id: i64) {
        let job = &mut self.jobs[id as usize - 1];
        job.state = State::Available;
        self.available.entry(Arc::clone(&job.queue)).or_default().insert(id);
    }

    pub(super) fn put_off(&mut self, id: i64, until: Instant) {
        self.jobs[id as usize - 1].state = State::Due(until);
        self.due.insert((until, id));
    }

    pub fn claim(&mut self, client: usize, request: &ClaimRequest) -> Result<Vec<Claim>> {
        self.check_live(request.worker)?;
        let mut claims = Vec::new();
        for demand in &request.queues {
            self.demands.push(demand.limit);
            let ids = self.take(request.worker, &demand.queue, demand.limit as usize);
            if ids.is_empty() {
                continue;
            }
            self.next_claim += 1;
            claims.push(Claim {
                reference: ClaimRef(7, self.next_claim.cast_unsigned()),
                queue: Arc::clone(&demand.queue),
                priority: 0,
                jobs: ids.iter().map(|id| self.hand_out(*id, client, request.worker)).collect(),
            });
            self.claims.insert(self.next_claim, (request.worker, ids));
        }
        Ok(claims)
    }

    /// What to hand out: parked jobs that the worker knows, then available ones.
    fn take(&mut self, worker: WorkerId, queue: &Arc<str>, limit: usize) -> Vec<i64> {
        if self.paused.contains(&**queue) {
            return Vec::new();
        }
        let (jobs, known) = (&self.jobs, &self.workers[&worker]);
        let fits = |id: &&i64| {
            let job = &jobs[**id as usize - 1];
            job.queue == *queue && known.knows(&job.kind)
        };
        let mut ids: Vec<i64> = self.parked.iter().filter(fits).take(limit).copied().collect();
        for id in &ids {
            self.parked.remove(id);
        }
        let Some(available) = self.available.get_mut(queue) else { return ids };
        let room = limit - ids.len();
        match available.len() <= room {
            true => ids.extend(std::mem::take(available)),
            false => ids.extend((0..room).filter_map(|_| available.pop_first())),
        }
        ids
    }

    fn hand_out(&mut self, id: i64, client: usize, worker: WorkerId) -> ClaimedJob {
        let lease = Lease { job: id, worker: worker.0, claim: self.next_claim };
        let job = &mut self.jobs[id as usize - 1];
        job.state = State::Held(worker, self.next_claim);
        let (attempt, crash_count) = (job.attempt, job.crash_count);
        self.history.note(client, What::Claimed { lease, attempt, crash_count });
        ClaimedJob {
            id: JobId(id),
            position: id * 10,
            kind: Arc::clone(&job.kind),
            args: self.args.clone(),
            attempt,
            max_attempts: job.max_attempts,
            crash_count,
            enqueued_at: Timestamp::UNIX_EPOCH,
            attributes: None,
        }
    }

    /// As a database crash does: the claim that holds the job is gone, and its jobs are available.
    pub fn forget_claim_of(&mut self, id: JobId) {
        let State::Held(_, claim) = self.job(id).state else { panic!("job {id} is not held") };
        let (_, ids) = self.claims.remove(&claim).expect("a claim");
        ids.into_iter().for_each(|id| self.make_available(id));
    }

    /// The jobs that a worker holds.
    pub fn held_by(&self, worker: WorkerId) -> Vec<Lease> {
        let lease = |(at, job): (usize, &Job)| match job.state {
            State::Held(holder, claim) if holder == worker => {
                Some(Lease { job: at as i64 + 1, worker: worker.0, claim })
            }
            _ => None,
        };
        self.jobs.iter().enumerate().filter_map(lease).collect()
    }

    /// Hands a held job back.
    pub(super) fn release(&mut self, client: usize, lease: Lease, why: Why) {
        self.history.note(client, What::Released { lease, why });
        self.jobs[lease.job as usize - 1].returns += 1;
        self.make_available(lease.job);
    }

    /// Makes due jobs available; how many, and when the next is due.
    pub fn promote(&mut self, limit: u32) -> (u64, Option<Instant>) {
        let (now, mut count) = (Instant::now(), 0);
        while count < u64::from(limit)
            && let Some((due, id)) = self.due.pop_first()
        {
            if due > now {
                self.due.insert((due, id));
                break;
            }
            self.make_available(id);
            self.history.note(0, What::Promoted(JobId(id)));
            count += 1;
        }
        (count, self.due.first().map(|(due, _)| *due))
    }

    /// Cancels a job that no worker holds.
    pub fn cancel(&mut self, id: JobId) {
        if self.withdraw(id) {
            self.job_mut(id).state = State::Cancelled;
            self.history.note(0, What::CancelledByHand(id));
        }
    }

    /// Takes a waiting job out of where it waits. Whether it waited.
    pub(super) fn withdraw(&mut self, id: JobId) -> bool {
        let job = &self.jobs[id.0 as usize - 1];
        match job.state {
            State::Available => self.available.get_mut(&job.queue).is_some_and(|ids| ids.remove(&id.0)),
            State::Due(due) => self.due.remove(&(due, id.0)),
            State::Parked => self.parked.remove(&id.0),
            _ => false,
        }
    }

    /// Gives a dead or cancelled job its attempts anew, or ends the wait of one that waits.
    pub fn retry(&mut self, id: JobId) {
        let job = &mut self.jobs[id.0 as usize - 1];
        match job.state {
            State::Cancelled | State::Discarded { .. } => (job.attempt, job.crash_count) = (1, 0),
            State::Due(_) => drop(self.withdraw(id)),
            _ => return,
        }
        self.make_available(id.0);
        self.history.note(0, What::RetriedByHand(id));
    }

    pub fn pause(&mut self, queue: &str, paused: bool) {
        match paused {
            true => drop(self.paused.insert(queue.to_owned())),
            false => drop(self.paused.remove(queue)),
        }
    }
}
