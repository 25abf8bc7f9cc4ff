use super::history::{History, Lease, What};
use std::{
    collections::{BTreeMap, HashMap},
    pin::pin,
    task::{Context, Poll, Waker},
};
use tokio::{sync::mpsc::UnboundedReceiver, task::unconstrained};
use windlass_core::{
    Args, CancelReply, ClaimRef, ClaimRequest, Claimed, JobId, JobRecord, JobState, JobStore, NewJob,
    Promoted, ReportRequest, Reported, Result, RetryReply, ScheduleStep, ScheduleStore, SettleRequest,
    WorkerId,
};
use windlass_memory::{MemoryStore, Move};

/// A registration that is live.
#[derive(Clone, Debug)]
pub struct Live {
    pub client: usize,
    pub suspect: Option<JobId>,
}

/// A store, everything that it was asked, and what happened in it.
pub struct Model {
    store: MemoryStore,
    moves: UnboundedReceiver<Move>,
    /// How many jobs are in each state.
    counts: BTreeMap<JobState, usize>,
    returns: HashMap<JobId, u32>,
    pub(super) live: BTreeMap<WorkerId, Live>,
    pub registered: Vec<WorkerId>,
    pub deregistered: Vec<WorkerId>,
    pub suspects: Vec<Option<JobId>>,
    /// The limits of claims, in order.
    pub demands: Vec<u32>,
    /// Settle requests that were carried out, in order; and how many jobs they settled.
    pub settles: Vec<SettleRequest>,
    pub settled: usize,
    /// A job whose failure the store does not take, whatever else the request says; and how often it said so.
    pub unstorable: Option<JobId>,
    pub refusals: usize,
    /// Reports that were carried out, in order.
    pub reports: Vec<ReportRequest>,
    /// Claims that a crash of the store forgot: what is said of them is refused.
    pub forgotten: Vec<ClaimRef>,
    /// Registrations of before a failover; and whether settlements are answered as accepted, and lost by it.
    pub outdated: Vec<WorkerId>,
    pub loses_settlements: bool,
    pub heartbeats: usize,
    pub arms: usize,
    /// Claims find others at work, and nothing else.
    pub contended: bool,
    /// Whether leases run out by the clock. Off where tests run in real time: a slow machine is no fault.
    pub leases_run_out: bool,
    /// Settlements let others of their keys run.
    pub keyed: bool,
    /// A schedule that somebody has locked: no step of it is taken.
    pub locked_schedule: Option<String>,
    pub history: History,
    /// What a worker did that it must not.
    pub violations: Vec<String>,
}

impl Model {
    pub fn new(store: MemoryStore) -> Self {
        Self {
            moves: store.moves(),
            store,
            counts: BTreeMap::new(),
            returns: HashMap::new(),
            live: BTreeMap::new(),
            registered: Vec::new(),
            deregistered: Vec::new(),
            suspects: Vec::new(),
            demands: Vec::new(),
            settles: Vec::new(),
            settled: 0,
            unstorable: None,
            refusals: 0,
            reports: Vec::new(),
            forgotten: Vec::new(),
            outdated: Vec::new(),
            loses_settlements: false,
            heartbeats: 0,
            arms: 0,
            contended: false,
            leases_run_out: false,
            keyed: false,
            locked_schedule: None,
            history: History::new(),
            violations: Vec::new(),
        }
    }

    /// Has the store do something, and counts what it moved. A store in memory waits for nothing.
    pub fn run<T>(&mut self, call: impl AsyncFnOnce(&MemoryStore) -> T) -> (T, Vec<Move>) {
        let call = pin!(unconstrained(call(&self.store)));
        let Poll::Ready(answer) = call.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("a store in memory waits");
        };
        let moves: Vec<Move> = std::iter::from_fn(|| self.moves.try_recv().ok()).collect();
        for Move { job, from, to, .. } in &moves {
            if let Some(count) = from.and_then(|from| self.counts.get_mut(&from)) {
                *count -= 1;
            }
            *self.counts.entry(*to).or_default() += 1;
            if (*from, *to) == (Some(JobState::Running), JobState::Available) {
                *self.returns.entry(*job).or_default() += 1;
            }
        }
        (answer, moves)
    }

    /// Adds so many jobs.
    pub fn add(&mut self, queue: &str, kind: &str, count: usize) -> Vec<JobId> {
        let job = NewJob::new(kind.to_owned(), Args::parse("{}").unwrap()).with_queue(queue.to_owned());
        self.enqueue(&vec![job.with_max_attempts(3); count], 0).unwrap()
    }

    /// Adds jobs that were already held by so many workers that died.
    pub fn enqueue(&mut self, jobs: &[NewJob], crash_count: u16) -> Result<Vec<JobId>> {
        let ids = self.run(async |store| store.enqueue(jobs).await).0?;
        for job in ids.iter().copied() {
            self.store.set_counts(job, 0, crash_count);
            self.history.note(0, What::Enqueued { job, crash_count });
        }
        Ok(ids)
    }

    pub fn job(&mut self, id: JobId) -> JobRecord {
        self.run(async |store| store.job(id).await).0.unwrap().unwrap()
    }

    pub fn set_crash_count(&self, id: JobId, crash_count: u16) {
        assert!(self.store.set_counts(id, 0, crash_count));
    }

    /// As a database crash does: the claim that holds the job is gone, and its jobs are available.
    pub fn forget_claim_of(&mut self, id: JobId) {
        let (claim, _) = self.run(async |store| store.forget_claim(id));
        self.forgotten.push(claim.expect("a claim that holds the job"));
    }

    /// What its failed attempts said.
    pub fn errors(&mut self, id: JobId) -> Vec<String> {
        self.job(id).errors.into_iter().map(|error| error.error).collect()
    }

    /// How often a job was handed back.
    pub fn returns(&self, id: JobId) -> u32 {
        self.returns.get(&id).copied().unwrap_or_default()
    }

    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }

    pub fn count(&self, state: JobState) -> usize {
        self.counts.get(&state).copied().unwrap_or_default()
    }

    pub fn held(&self) -> usize {
        self.count(JobState::Running)
    }

    pub fn all_completed(&self) -> bool {
        self.count(JobState::Completed) == self.total()
    }

    /// Whether nothing is left to do.
    pub fn all_final(&self) -> bool {
        self.counts.iter().all(|(state, count)| state.is_final() || *count == 0)
    }

    pub fn violate(&mut self, words: String) {
        self.violations.push(words);
    }

    pub fn claim(&mut self, client: usize, request: &ClaimRequest) -> Result<Claimed> {
        self.demands.extend(request.queues.iter().map(|demand| demand.limit));
        if self.contended {
            return Ok(Claimed { contended: true, ..Claimed::default() });
        }
        let claimed = self.run(async |store| store.claim(request).await).0?;
        for claim in &claimed.claims {
            for job in &claim.jobs {
                let (number, worker) = (claim.reference.1.cast_signed(), request.worker.0);
                let lease = Lease { job: job.id.0, worker, claim: number };
                let (attempt, crash_count) = (job.attempt, job.crash_count);
                self.history.note(client, What::Claimed { lease, attempt, crash_count });
            }
        }
        Ok(claimed)
    }

    pub fn report(&mut self, request: &ReportRequest) -> Result<Vec<Reported>> {
        self.reports.push(request.clone());
        self.run(async |store| store.report(request).await).0
    }

    pub fn promote(&mut self, limit: u32) -> Result<Promoted> {
        let (promoted, moves) = self.run(async |store| store.promote(limit).await);
        moves.iter().for_each(|moved| self.history.note(0, What::Promoted(moved.job)));
        promoted
    }

    pub fn advance_schedules(&mut self, steps: &[ScheduleStep]) -> Result<Vec<Option<Vec<JobId>>>> {
        let locked = self.locked_schedule.clone();
        let is_free =
            |step: &&ScheduleStep| locked.as_ref().is_none_or(|locked| !step.name.starts_with(locked));
        let free: Vec<_> = steps.iter().filter(is_free).cloned().collect();
        let mut taken = self.run(async |store| store.advance_schedules(&free).await).0?.into_iter();
        Ok(steps.iter().map(|step| is_free(&step).then(|| taken.next()).flatten().flatten()).collect())
    }

    pub fn cancel(&mut self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        let (replies, moves) = self.run(async |store| store.cancel(ids).await);
        moves.iter().for_each(|moved| self.history.note(0, What::CancelledByHand(moved.job)));
        let running =
            ids.iter().zip(replies.iter().flatten()).filter(|(_, reply)| **reply == CancelReply::Running);
        running.for_each(|(id, _)| self.history.note(0, What::CancelAsked(*id)));
        replies
    }

    pub fn retry(&mut self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        let (replies, moves) = self.run(async |store| store.retry(ids).await);
        moves.iter().for_each(|moved| self.history.note(0, What::RetriedByHand(moved.job)));
        replies
    }
}
