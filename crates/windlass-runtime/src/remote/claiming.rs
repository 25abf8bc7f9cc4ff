//! How a worker that runs elsewhere gets its jobs.

use super::{Losses, RemoteJob, RemoteWorker, Wanting, limits::Want, sharing::SOON, table::Held};
use crate::{backoff::spread, claimer::may_have_claimed, epoch::Phase, suspect};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tracing::warn;
use windlass_core::{Claim, ClaimRequest, Claimed, ClaimedJob, Disposition, Envelope, QueueDemand, Result};

/// How often a claim is repeated that found others claiming from the same lanes, and the pause before that.
const CONTENDED: (usize, Duration) = (4, Duration::from_millis(3));
/// How often answers about shares are waited for in one call, with a claim before each: for slots, for permissions to start, and for what others gave back.
const SHARES: usize = 3;
/// How long an encrypted job waits before a worker looks at it again: one with keys takes it meanwhile.
const UNDECRYPTABLE: Duration = Duration::from_secs(60);

impl RemoteWorker {
    /// Gives it jobs, as [`Wanting::take`] does: as many as are wanted of each queue (`None`: all for which there is room).
    ///
    /// # Errors
    /// A lost lease; the store's.
    pub async fn take(
        self: &Arc<Self>,
        want: Option<Vec<(String, usize)>>,
        losses: &Losses,
    ) -> Result<Vec<RemoteJob>> {
        self.wanting(want).take(losses).await
    }

    /// Begins to wait for jobs.
    pub fn wanting(self: &Arc<Self>, want: Option<Vec<(String, usize)>>) -> Wanting {
        Wanting::begin(self, want)
    }

    pub(super) async fn take_whole(self: &Arc<Self>, want: Option<&Want>) -> Result<Vec<RemoteJob>> {
        if self.lock().phase() == Phase::Lost {
            return Err(self.lost());
        }
        let mut given = Vec::new();
        let taken = self.take_into(&mut given, want).await;
        if given.iter().any(|job| job.timeout.is_some()) {
            self.hold_limits();
        }
        // What was given must be told; what cannot be settled now is settled before the next.
        match taken.and(self.pay().await) {
            Err(error) if given.is_empty() => Err(error),
            _ => Ok(given),
        }
    }

    /// Hands out what may start; where that depends on a share, it is asked for.
    async fn take_into(self: &Arc<Self>, given: &mut Vec<RemoteJob>, want: Option<&Want>) -> Result<()> {
        self.await_share(Duration::ZERO).await;
        let mut left = want.cloned();
        for claims_left in (0..=SHARES).rev() {
            self.pay().await?;
            let before = given.len();
            given.extend(self.hand_out(left.as_ref()).await);
            if claims_left == 0 {
                break;
            }
            if given.len() == before {
                self.claim(left.as_ref()).await?;
                given.extend(self.hand_out(left.as_ref()).await);
            }
            if !self.await_share(SOON).await {
                break;
            }
            if !given.is_empty() {
                // The other queues had their turn.
                left = Some(self.lock().left_of(want, given));
            }
        }
        Ok(())
    }

    async fn hand_out(&self, want: Option<&Want>) -> Vec<RemoteJob> {
        let (mut given, suspect) = self.lock().hand_out(want);
        if let Some(job) = suspect {
            let (ticket, id) = (job.ticket, job.job.id);
            warn!(job = %id, worker = %self.worker, "handing out a job alone that was held by workers that died");
            if suspect::tell(&*self.store, fastrand::f64, self.worker, Some(id)).await
                && self.lock().hand_suspect(ticket)
            {
                given.push(job);
            } else {
                self.lock().is_not_started(self.worker, ticket);
            }
        }
        given
    }

    async fn claim(self: &Arc<Self>, want: Option<&Want>) -> Result<()> {
        let asked = self.lock().reserve(want);
        if asked.is_empty() {
            return Ok(());
        }
        let claimed = self.claim_of(&asked).await;
        self.lock().release(&asked);
        let (asked_at, claimed) = match claimed {
            Ok(claimed) => claimed,
            Err(error) => {
                if may_have_claimed(&error) {
                    warn!(worker = %self.worker, "the reply to a claim was lost; no more is claimed, and when it is settled what there is, the worker ends");
                    self.lock().advance(Phase::Draining);
                }
                return self.fenced(Err(error));
            }
        };
        if !claimed.limited.is_empty() {
            self.limits_are(&claimed.limited);
        }
        claimed.claims.into_iter().for_each(|claim| self.keep(claim, asked_at));
        Ok(())
    }

    async fn claim_of(&self, asked: &Want) -> Result<(Instant, Claimed)> {
        let max_bytes = (Self::MOST_BYTES / asked.len()) as u64;
        let demand = |(queue, count): (&Arc<str>, &usize)| QueueDemand {
            queue: Arc::clone(queue),
            limit: u32::try_from(*count).unwrap_or(u32::MAX),
            max_bytes,
        };
        let request = ClaimRequest { worker: self.worker, queues: asked.iter().map(demand).collect() };
        let mut tries = CONTENDED.0;
        loop {
            let asked_at = Instant::now();
            let claimed = self.store.claim(&request).await?;
            tries -= 1;
            if !claimed.claims.is_empty() || !claimed.contended || tries == 0 {
                return Ok((asked_at, claimed));
            }
            sleep(spread(CONTENDED.1, fastrand::f64())).await;
        }
    }

    fn keep(&self, claim: Claim, asked_at: Instant) {
        let Claim { reference, queue, priority, claimed_at, jobs } = claim;
        let claim = (reference, jobs.len());
        let mut table = self.lock();
        for job in jobs {
            let instead = self.instead_of(&job);
            let held = |ticket| {
                let timeout = self.spec.timeout_of(&job);
                let given = RemoteJob { ticket, job, queue: Arc::clone(&queue), priority, timeout };
                Held::new(given, claim, asked_at, claimed_at)
            };
            match instead {
                None => table.keep(held),
                Some(disposition) => {
                    let owed = held(crate::lend::Ticket(0)).exception(disposition);
                    table.owed.push(owed);
                }
            }
        }
    }

    /// What becomes of a job that this worker cannot run.
    fn instead_of(&self, job: &ClaimedJob) -> Option<Disposition> {
        if !self.spec.kinds.is_empty() && !self.spec.kinds.iter().any(|kind| **kind == *job.kind) {
            return Some(Disposition::NoHandler);
        }
        (!self.spec.takes_encrypted && Envelope::is_one(&job.args)).then(|| Disposition::Undecryptable {
            delay: spread(UNDECRYPTABLE, fastrand::f64()),
            error: format!(
                "{}the worker that claimed it runs elsewhere and nobody opens jobs for it; the job waits for a worker that can open it",
                Envelope::UNDECRYPTABLE
            ),
        })
    }
}
