use jiff::Timestamp;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};
use tokio::time::Instant;
use windlass_core::{
    Claim, ClaimRef, ClaimRequest, ClaimedJob, Disposition, Error, ErrorKind, JobId, JobSet, Result,
    SettleReply, SettleRequest, Settled, WorkerId,
};

/// Where a job is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    Available,
    Held(WorkerId, i64),
    Due(Instant),
    Parked,
    Completed,
    Cancelled,
    Discarded { failed: bool },
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

/// Everything in the store, and everything that it was asked.
#[derive(Default)]
pub struct Model {
    pub jobs: Vec<Job>,
    available: HashMap<Arc<str>, BTreeSet<i64>>,
    pub live: HashSet<WorkerId>,
    pub registered: Vec<WorkerId>,
    pub deregistered: Vec<WorkerId>,
    claims: HashMap<i64, (WorkerId, Vec<i64>)>,
    next_claim: i64,
    pub suspect: Option<JobId>,
    pub suspects: Vec<Option<JobId>>,
    /// The limits of claims, in order.
    pub demands: Vec<u32>,
    /// Settle requests that were carried out, in order.
    pub settles: Vec<SettleRequest>,
    pub heartbeats: usize,
    pub arms: usize,
}

impl Model {
    pub fn add(&mut self, queue: &str, kind: &str, count: usize) -> Vec<JobId> {
        let (queue, kind): (Arc<str>, Arc<str>) = (queue.into(), kind.into());
        let from = self.jobs.len() as i64 + 1;
        let job = Job {
            state: State::Available,
            queue: Arc::clone(&queue),
            kind,
            attempt: 1,
            max_attempts: 3,
            crash_count: 0,
            errors: Vec::new(),
            returns: 0,
        };
        self.jobs.extend(std::iter::repeat_n(job, count));
        let ids = from..from + count as i64;
        self.available.entry(queue).or_default().extend(ids.clone());
        ids.map(JobId).collect()
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

    pub fn check_live(&self, worker: WorkerId) -> Result<()> {
        match self.live.contains(&worker) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::LeaseLost, format!("worker {worker} is not live"))),
        }
    }

    pub fn register(&mut self) -> WorkerId {
        let worker = WorkerId(self.registered.len() as i32 + 1);
        self.registered.push(worker);
        self.live.insert(worker);
        worker
    }

    /// Takes the lease away; its jobs are available again.
    pub fn end_lease(&mut self, worker: WorkerId) {
        self.live.remove(&worker);
        for at in 0..self.jobs.len() {
            if matches!(self.jobs[at].state, State::Held(holder, _) if holder == worker) {
                self.release(at as i64 + 1);
            }
        }
    }

    fn release(&mut self, id: i64) {
        let job = &mut self.jobs[id as usize - 1];
        job.state = State::Available;
        job.returns += 1;
        self.available.entry(Arc::clone(&job.queue)).or_default().insert(id);
    }

    pub fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>> {
        self.check_live(request.worker)?;
        let mut claims = Vec::new();
        for demand in &request.queues {
            self.demands.push(demand.limit);
            let Some(available) = self.available.get_mut(&demand.queue) else { continue };
            let ids: Vec<i64> = match available.len() <= demand.limit as usize {
                true => std::mem::take(available).into_iter().collect(),
                false => (0..demand.limit).filter_map(|_| available.pop_first()).collect(),
            };
            if ids.is_empty() {
                continue;
            }
            self.next_claim += 1;
            claims.push(Claim {
                reference: ClaimRef { lane: 1, seq: self.next_claim, token: 7 },
                queue: Arc::clone(&demand.queue),
                priority: 0,
                jobs: ids.iter().map(|id| self.hand_out(*id, request.worker)).collect(),
            });
            self.claims.insert(self.next_claim, (request.worker, ids));
        }
        Ok(claims)
    }

    fn hand_out(&mut self, id: i64, worker: WorkerId) -> ClaimedJob {
        let job = &mut self.jobs[id as usize - 1];
        job.state = State::Held(worker, self.next_claim);
        ClaimedJob {
            id: JobId(id),
            position: id * 10,
            kind: Arc::clone(&job.kind),
            args: bytes::Bytes::from_static(b"{}"),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            crash_count: job.crash_count,
            enqueued_at: Timestamp::UNIX_EPOCH,
        }
    }

    pub fn settle(&mut self, request: &SettleRequest) -> Result<SettleReply> {
        self.check_live(request.worker)?;
        let mut reply = SettleReply::default();
        // Exceptions first: the rest of a claim is what no other settlement names.
        for exception in &request.exceptions {
            assert_eq!(exception.position, exception.job.0 * 10, "the position must be handed back");
            let fate = self.fate(request.worker, exception.claim, exception.job.0);
            if fate == Settled::Accepted {
                self.dispose(exception.job.0, &exception.disposition);
            }
            reply.exceptions.push(fate);
        }
        for completion in &request.completions {
            let Some((holder, ids)) = self.claims.get(&completion.claim.seq).cloned() else {
                reply.completions.push(Settled::Refused);
                continue;
            };
            assert_eq!(holder, request.worker, "a claim settled by another registration");
            let named = |id: &&i64| match &completion.jobs {
                JobSet::Rest => true,
                JobSet::Ranges(ranges) => ranges.iter().any(|(from, to)| (from..=to).contains(id)),
            };
            let mut done = 0;
            for id in ids.iter().filter(named) {
                let job = &mut self.jobs[*id as usize - 1];
                if job.state == State::Held(request.worker, completion.claim.seq) {
                    job.state = State::Completed;
                    done += 1;
                }
            }
            if done > 0 {
                assert_eq!(done, completion.count, "the count must be that of the jobs: {completion:?}");
            }
            reply.completions.push(if done > 0 { Settled::Accepted } else { Settled::Already });
        }
        self.settles.push(request.clone());
        Ok(reply)
    }

    fn fate(&self, worker: WorkerId, claim: ClaimRef, id: i64) -> Settled {
        match self.jobs[id as usize - 1].state {
            State::Held(holder, seq) if (holder, seq) == (worker, claim.seq) => Settled::Accepted,
            _ if self.claims.contains_key(&claim.seq) => Settled::Already,
            _ => Settled::Refused,
        }
    }

    fn dispose(&mut self, id: i64, disposition: &Disposition) {
        let job = &mut self.jobs[id as usize - 1];
        match disposition {
            Disposition::Retry { delay, error } => {
                job.state = State::Due(Instant::now() + *delay);
                job.attempt += 1;
                job.errors.push(error.clone());
            }
            Disposition::Snooze { delay } => job.state = State::Due(Instant::now() + *delay),
            Disposition::Cancel { .. } => job.state = State::Cancelled,
            Disposition::Discard { error, failed } => {
                job.state = State::Discarded { failed: *failed };
                job.errors.push(error.clone());
            }
            Disposition::Park => job.state = State::Parked,
            Disposition::Return => self.release(id),
            other => panic!("unknown disposition {other:?}"),
        }
    }

    /// Makes due jobs available; how many, and when the next is due.
    pub fn promote(&mut self) -> (u64, Option<Instant>) {
        let (now, mut count, mut next) = (Instant::now(), 0, None);
        for at in 0..self.jobs.len() {
            match self.jobs[at].state {
                State::Due(due) if due <= now => {
                    let returns = self.jobs[at].returns;
                    self.release(at as i64 + 1);
                    self.jobs[at].returns = returns;
                    count += 1;
                }
                State::Due(due) => next = Some(next.map_or(due, |next: Instant| next.min(due))),
                _ => {}
            }
        }
        (count, next)
    }
}
