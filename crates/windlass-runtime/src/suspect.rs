use crate::{backoff::Backoff, core::Core, epoch::ClaimScope};
use std::sync::Arc;
use tokio::sync::SemaphorePermit;
use tracing::warn;
use windlass_core::{JobId, Store, WorkerId};

/// How often telling the store is tried.
const TRIES: usize = 3;

/// The right of one suspect to run while no other suspect of this process does. The store knows which
/// one it is, so that if the process dies, only that job's crash count goes up.
pub(crate) struct Alone<'a> {
    worker: WorkerId,
    job: JobId,
    _permit: SemaphorePermit<'a>,
}

impl<'a> Alone<'a> {
    /// Waits for the other suspects and tells the store. `None` when the job is not to be started here any more, whatever
    /// of: somebody cancelled it, the worker ends, or lost it, or the store does not answer.
    pub(crate) async fn begin(core: &'a Core, scope: &Arc<ClaimScope>, job: JobId) -> Option<Self> {
        let (switch, switches) = (scope.switch(job), &core.switches);
        let permit = tokio::select! {
            biased;
            () = switch.token.cancelled() => return None,
            () = switches.leave.cancelled() => return None,
            () = switches.stop.cancelled() => return None,
            permit = core.suspects.acquire() => permit.ok()?,
        };
        let worker = scope.epoch.worker();
        warn!(%job, "running a job alone that was held by workers that died");
        let told = tell(&*core.store, core.config.random, worker, Some(job)).await;
        let alone = told.then_some(Self { worker, job, _permit: permit })?;
        if cfg!(feature = "bug_run_lost_suspect") {
            return Some(alone);
        }
        // Much can happen during a call: somebody else may run the job by now.
        if scope.epoch.is_lost() {
            return None;
        }
        let is_to_stop = [&switch.token, &switches.leave, &switches.stop].iter().any(|on| on.is_cancelled());
        if is_to_stop {
            alone.end(core).await;
            return None;
        }
        Some(alone)
    }

    /// The job is over.
    pub(crate) async fn end(self, core: &Core) {
        if !tell(&*core.store, core.config.random, self.worker, None).await {
            warn!(job = %self.job, "could not tell the store that a suspect is over; if this worker dies, the job is blamed");
        }
    }
}

/// Tells the store which suspect a worker runs now; whether it knows.
pub(crate) async fn tell(
    store: &dyn Store,
    random: fn() -> f64,
    worker: WorkerId,
    job: Option<JobId>,
) -> bool {
    let mut backoff = Backoff::outage(random);
    for attempt in 1..=TRIES {
        match store.suspect(worker, job).await {
            Ok(()) => return true,
            Err(error) if attempt == TRIES || error.is_lease_lost() => {
                warn!(%error, "could not tell the store about a suspect");
                return false;
            }
            Err(_) => tokio::time::sleep(backoff.step()).await,
        }
    }
    false
}
