use super::Bug;
use fastrand::Rng;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_core::{
    CancelReply, Claim, ClaimRequest, Claimed, Completion, DeleteReply, Disposition, Ended, JobId, JobSet,
    JobState, ReportRequest, Reported, Result, SettleReply, SettleRequest, Settled, Store, wrap_store,
};

/// A store that does one thing wrong, now and then.
pub(super) struct Mutant {
    bug: Bug,
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    last: Vec<Claim>,
}

impl Mutant {
    pub(super) fn new(bug: Bug, store: Arc<dyn Store>, seed: u64) -> Self {
        Self { bug, store, state: Mutex::new(State { rng: Rng::with_seed(seed), last: Vec::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn one_in(&self, of: u32) -> bool {
        self.state().rng.u32(0..of) == 0
    }

    fn spoil_claim(&self, mut claims: Vec<Claim>) -> Vec<Claim> {
        match self.bug {
            Bug::DoubleClaim => {
                if claims.is_empty() {
                    return claims;
                }
                let last = std::mem::replace(&mut self.state().last, claims.clone());
                if self.one_in(8) {
                    claims.extend(last);
                }
            }
            Bug::ExpiredRuns => {
                claims.iter_mut().flat_map(|claim| &mut claim.jobs).for_each(|job| job.expires_in = None);
            }
            Bug::SwappedArgs => {
                for claim in claims.iter_mut().filter(|claim| claim.jobs.len() > 1) {
                    let args = claim.jobs[0].args.clone();
                    claim.jobs[0].args = std::mem::replace(&mut claim.jobs[1].args, args);
                }
            }
            _ => {}
        }
        claims
    }

    fn spoil_settlement(&self, mut request: SettleRequest) -> SettleRequest {
        match self.bug {
            Bug::RestSettlesUnstarted => {
                for completion in &mut request.completions {
                    completion.jobs = JobSet::Rest;
                }
            }
            Bug::ReturnCompletes => {
                let (back, other) = std::mem::take(&mut request.exceptions)
                    .into_iter()
                    .partition::<Vec<_>, _>(|exception| exception.disposition == Disposition::Return);
                request.exceptions = other;
                request.completions.extend(back.iter().map(|exception| Completion {
                    claim: exception.claim,
                    jobs: JobSet::Ranges(vec![(exception.job.0, exception.job.0)]),
                    count: 1,
                }));
            }
            Bug::SwappedResults => {
                let mut results = request.exceptions.iter_mut().filter_map(|e| match &mut e.disposition {
                    Disposition::Complete { result } => Some(result),
                    _ => None,
                });
                while let (Some(one), Some(other)) = (results.next(), results.next()) {
                    std::mem::swap(one, other);
                }
            }
            Bug::RetryCancels => {
                for exception in &mut request.exceptions {
                    if let Disposition::Retry { error, .. } = &exception.disposition {
                        exception.disposition = Disposition::Cancel { reason: error.clone() };
                    }
                }
            }
            _ => {}
        }
        request
    }
}

fn all_accepted(request: &SettleRequest) -> SettleReply {
    SettleReply {
        completions: vec![Settled::Accepted; request.completions.len()],
        exceptions: vec![Settled::Accepted; request.exceptions.len()],
    }
}

wrap_store! {
    impl JobStore for Mutant, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister checkpoints suspect rescue promote
     maintain settings configure retention set_retention retry edit pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status ends events wakeup close]

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        let claimed = self.store.claim(request).await?;
        Ok(Claimed { claims: self.spoil_claim(claimed.claims), ..claimed })
    }

    async fn report(&self, request: &ReportRequest) -> Result<Vec<Reported>> {
        let mut spoiled = request.clone();
        if self.bug == Bug::LostCheckpoint {
            for report in &mut spoiled.reports {
                report.checkpoint = report.checkpoint.take().filter(|_| !self.one_in(4));
            }
        }
        self.store.report(&spoiled).await
    }

    async fn ended(&self, ids: &[JobId]) -> Result<Ended> {
        let mut ended = self.store.ended(ids).await?;
        match self.bug {
            Bug::EndsUnseen if self.one_in(2) => return Ok(Ended::default()),
            Bug::WaitHangs => ended.jobs.retain(|job| job.id.0 / 16 % 8 != 0),
            Bug::WaitLies => {
                for job in ended.jobs.iter_mut().filter(|_| self.one_in(8)) {
                    job.state = JobState::Discarded;
                }
            }
            _ => {}
        }
        Ok(ended)
    }

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        let lie = |reply| match reply {
            CancelReply::Running if self.bug == Bug::CancelLies => CancelReply::Cancelled,
            reply => reply,
        };
        Ok(self.store.cancel(ids).await?.into_iter().map(lie).collect())
    }

    async fn delete(&self, ids: &[JobId]) -> Result<Vec<DeleteReply>> {
        match self.bug == Bug::DeleteForgets && self.one_in(4) {
            true => Ok(vec![DeleteReply::Deleted; ids.len()]),
            false => self.store.delete(ids).await,
        }
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        if self.bug == Bug::DroppedSettlement && self.one_in(20) {
            return Ok(all_accepted(request));
        }
        let entries = (request.completions.len(), request.exceptions.len());
        let spoiled = self.spoil_settlement(request.clone());
        match self.store.settle(&spoiled).await {
            Err(error) if self.bug == Bug::DropBatchOnError && error.is_connection_loss() => {
                Ok(all_accepted(request))
            }
            Ok(_) if (spoiled.completions.len(), spoiled.exceptions.len()) != entries => {
                Ok(all_accepted(request))
            }
            result => result,
        }
    }
}
