use super::{Fate, Outcome, Recorder, What, now_ns};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};
use windlass_core::{
    CancelReply, ClaimRef, ClaimRequest, Claimed, DeleteReply, Disposition, Heartbeat, JobId, JobSet, Load,
    Registration, RescueReport, Result, RetryReply, SettleReply, SettleRequest, Settled, Store, WorkerId,
    WorkerSpec, wrap_store,
};

/// A store that notes what a worker asks of it and what it answers. Enqueues are noted by producers, who
/// know the keys of their jobs, and handlers note their own beginnings and ends.
pub struct Witness {
    store: Arc<dyn Store>,
    recorder: Arc<Recorder>,
    slots: i64,
    /// What each claim handed out and no settlement has taken: "the rest" means these.
    open: Mutex<HashMap<ClaimRef, Vec<i64>>>,
    calls: AtomicI64,
}

impl Witness {
    /// Watches `store` for a process that runs at most `slots` jobs at once.
    pub fn new(store: Arc<dyn Store>, recorder: Arc<Recorder>, slots: i64) -> Self {
        Self { store, recorder, slots, open: Mutex::default(), calls: AtomicI64::new(0) }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<ClaimRef, Vec<i64>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_loss<T>(&self, worker: WorkerId, result: &Result<T>) {
        if result.as_ref().is_err_and(windlass_core::Error::is_lease_lost) {
            self.recorder.note(What::LeaseLost { worker: worker.0 });
        }
    }

    /// The jobs that each entry of the request names: completions first, then exceptions.
    fn named(&self, request: &SettleRequest) -> Vec<Vec<(i64, Outcome)>> {
        let open = self.open();
        let of = |claim: &ClaimRef| open.get(claim).map_or(&[][..], Vec::as_slice);
        let excepted = |id: i64| request.exceptions.iter().any(|exception| exception.job.0 == id);
        let completions = request.completions.iter().map(|completion| {
            let within = |id: i64| match &completion.jobs {
                JobSet::Rest => !excepted(id),
                JobSet::Ranges(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&id)),
            };
            let ids = of(&completion.claim).iter().copied().filter(|id| within(*id));
            ids.map(|id| (id, Outcome::Complete)).collect()
        });
        let exceptions = request.exceptions.iter().map(|e| vec![(e.job.0, outcome_of(&e.disposition))]);
        completions.chain(exceptions).collect()
    }

    /// Notes which jobs are about to be given back without a handler's end to tell it: should the process die now, nothing
    /// else explains who gets them next.
    fn note_given_back(&self, request: &SettleRequest) {
        let worker = request.worker.0;
        self.recorder.note_all(request.exceptions.iter().filter_map(|exception| {
            let outcome = outcome_of(&exception.disposition);
            let is_back = matches!(outcome, Outcome::NoHandler | Outcome::Return);
            let seq = exception.claim.1.cast_signed();
            is_back.then_some(What::GivenBack { worker, id: exception.job.0, seq, outcome })
        }));
    }

    /// Notes the fates of a request's entries, and forgets the jobs that are settled.
    fn note_fates(&self, request: &SettleRequest, named: &[Vec<(i64, Outcome)>], fates: &[Fate], sent: u64) {
        let worker = request.worker.0;
        let completed = request.completions.iter().map(|completion| completion.claim);
        let claims = completed.chain(request.exceptions.iter().map(|exception| exception.claim));
        let entries = claims.zip(named).zip(fates);
        self.recorder.note_all(entries.clone().flat_map(|((claim, jobs), fate)| {
            let (seq, fate) = (claim.1.cast_signed(), *fate);
            jobs.iter().map(move |(id, outcome)| What::Settled {
                worker,
                id: *id,
                seq,
                fate,
                outcome: *outcome,
                sent,
            })
        }));
        let mut open = self.open();
        for ((claim, jobs), fate) in entries {
            if *fate == Fate::Unknown {
                continue;
            }
            if let Some(left) = open.get_mut(&claim) {
                left.retain(|id| !jobs.iter().any(|(job, _)| job == id));
                if left.is_empty() {
                    open.remove(&claim);
                }
            }
        }
    }
}

/// The lane of a claim and its number there: PostgreSQL's as they are, of SQLite's the position (see `position.rs` of each store).
/// Only claims of one lane are numbered in their order.
fn lane_and_seq(ClaimRef(high, low): ClaimRef) -> (i32, i64) {
    let lane = match high >> 32 {
        0 => low >> 45,
        lane => lane,
    };
    ((lane as u32).cast_signed(), low.cast_signed())
}

fn outcome_of(disposition: &Disposition) -> Outcome {
    match disposition {
        Disposition::Retry { .. } => Outcome::Retry,
        Disposition::Snooze { .. } | Disposition::Undecryptable { .. } => Outcome::Snooze,
        Disposition::Cancel { .. } => Outcome::Cancel,
        Disposition::Discard { .. } => Outcome::Discard,
        Disposition::NoHandler => Outcome::NoHandler,
        Disposition::Complete { .. } => Outcome::Complete,
        _ => Outcome::Return,
    }
}

fn fate_of(settled: Settled) -> Fate {
    match settled {
        Settled::Accepted => Fate::Accepted,
        Settled::Already => Fate::Already,
        Settled::Refused => Fate::Refused,
    }
}

wrap_store! {
    impl JobStore for Witness, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique report checkpoints promote maintain settings configure retention set_retention edit pause drain_worker limit limit_keys key_limits share job jobs
     any_available coming queues_by history status ended ends events wakeup close]

    async fn register(&self, worker: &WorkerSpec) -> Result<Registration> {
        let registration = self.store.register(worker).await?;
        let lease_ns = i64::try_from(worker.lease.as_nanos()).unwrap_or(i64::MAX);
        self.recorder.note(What::Registered { worker: registration.worker.0, slots: self.slots, lease_ns });
        Ok(registration)
    }

    async fn heartbeat_with(&self, worker: WorkerId, load: Load) -> Result<Heartbeat> {
        let result = self.store.heartbeat_with(worker, load).await;
        self.note_loss(worker, &result);
        result
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        self.recorder.note(What::DeregisterSent { worker: worker.0 });
        self.store.deregister(worker).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        let sent = now_ns();
        let result = self.store.claim(request).await;
        self.note_loss(request.worker, &result);
        let claimed = result?;
        let worker = request.worker.0;
        self.recorder.note_all(claimed.claims.iter().flat_map(|claim| {
            let (lane, seq) = lane_and_seq(claim.reference);
            claim.jobs.iter().map(move |job| What::Claimed {
                worker,
                id: job.id.0,
                lane,
                seq,
                attempt: job.attempt,
                crashes: job.crash_count,
                sent,
            })
        }));
        let mut open = self.open();
        for claim in &claimed.claims {
            open.insert(claim.reference, claim.jobs.iter().map(|job| job.id.0).collect());
        }
        drop(open);
        Ok(claimed)
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        let (named, sent) = (self.named(request), now_ns());
        self.note_given_back(request);
        let result = self.store.settle(request).await;
        self.note_loss(request.worker, &result);
        let fates: Vec<Fate> = match &result {
            Ok(reply) => reply.completions.iter().chain(&reply.exceptions).copied().map(fate_of).collect(),
            // Settling is repeatable, so the store calls a lost answer "unavailable"; it may have happened.
            Err(error) if error.is_connection_loss() => vec![Fate::Unknown; named.len()],
            Err(error) if error.is_lease_lost() => vec![Fate::Refused; named.len()],
            Err(_) => Vec::new(),
        };
        self.note_fates(request, &named, &fates, sent);
        result
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.recorder.note(What::Suspected { worker: worker.0, id: job.map(|job| job.0) });
        let result = self.store.suspect(worker, job).await;
        self.note_loss(worker, &result);
        result
    }

    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.recorder.note(What::RescueSent { call });
        let report = self.store.rescue(rescuer).await?;
        let dead = report.workers.iter().map(|worker| What::Rescued { call, worker: worker.0 });
        self.recorder.note_all(dead.chain([What::RescueDone { call }]));
        Ok(report)
    }

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        // Before as well: what comes of it may be noted by others before the answer arrives here.
        self.recorder.note_all(ids.iter().map(|id| What::CancelAsked { id: id.0, done: false }));
        let replies = self.store.cancel(ids).await?;
        let done = ids.iter().zip(&replies).filter(|(_, reply)| **reply == CancelReply::Cancelled);
        self.recorder.note_all(done.map(|(id, _)| What::CancelAsked { id: id.0, done: true }));
        Ok(replies)
    }

    async fn delete(&self, ids: &[JobId]) -> Result<Vec<DeleteReply>> {
        self.recorder.note_all(ids.iter().map(|id| What::DeleteAsked { id: id.0, done: false }));
        let replies = self.store.delete(ids).await?;
        let done = ids.iter().zip(&replies).filter(|(_, reply)| **reply == DeleteReply::Deleted);
        self.recorder.note_all(done.map(|(id, _)| What::DeleteAsked { id: id.0, done: true }));
        Ok(replies)
    }

    async fn retry(&self, ids: &[JobId]) -> Result<Vec<RetryReply>> {
        self.recorder.note_all(ids.iter().map(|id| What::RetryAsked { id: id.0, done: false }));
        let replies = self.store.retry(ids).await?;
        let done = ids.iter().zip(&replies).filter(|(_, reply)| **reply == RetryReply::Retried);
        self.recorder.note_all(done.map(|(id, _)| What::RetryAsked { id: id.0, done: true }));
        Ok(replies)
    }
}
